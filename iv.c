// SPDX-License-Identifier: GPL-2.0
/*
 * The IV generators: from the number of a sector, the key and sometimes the
 * sector's bytes to the IV that the cipher gets, and what some formats do to
 * the sector beside the cipher.
 *
 * A pure room: no bio, no lock, no device.  tests/userland compiles this file
 * as it is, with vectors from an independent implementation in Python
 * (scripts/ivmodel.py).
 *
 * n is the length of the IV, S the sector size, ivs the IV number of the
 * sector; all arithmetic on ivs is modulo 2^64.  An IV buffer is zero on entry
 * and need not be aligned; a sector is aligned to 8 bytes, so its words may be
 * accessed as they lie.
 */
#include <linux/bitops.h>
#include <linux/crc32.h>
#include <linux/fips.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "dm-xcrypt.h"

/* Every generator writes 8 bytes; ciphers with a shorter IV do not exist. */
#define IV_MIN_SIZE		8

/* The one unit that the loop-AES and TrueCrypt formats know. */
#define IV_LEGACY_SECTOR	512

/* Refuse the geometry: a text for the caller, its numbers for the log. */
static int iv_refuse(const struct xcrypt_iv *iv, char **error, char *text)
{
	DMERR("%s: %s (IV %u, cipher block %u, sector %u, key %u bytes; %u keys)",
	      iv->ops->name, text, iv->size, iv->block_size, iv->sector_size,
	      iv->key_size, iv->key_count);
	*error = text;
	return -EINVAL;
}

static int iv_alloc_seed(struct xcrypt_iv *iv, unsigned int size, char **error)
{
	iv->seed = kzalloc(size, GFP_KERNEL);
	if (!iv->seed) {
		*error = "Cannot allocate the IV seed";
		return -ENOMEM;
	}
	iv->seed_size = size;
	return 0;
}

static void iv_wipe_seed(struct xcrypt_iv *iv)
{
	if (iv->seed)
		memzero_explicit(iv->seed, iv->seed_size);
}

/* Bytes of each key that a cipher transform gets. */
static unsigned int iv_subkey_size(const struct xcrypt_iv *iv)
{
	return (iv->key_size - iv->key_extra) / iv->key_count;
}

/*
 * plain, what cryptsetup once used; the same IV comes again after 2 TiB.
 *
 *	| LE32(ivs) | 0 ... |
 */
static int iv_plain_generate(struct xcrypt_iv *iv, u8 *out, u64 ivs)
{
	put_unaligned_le32(lower_32_bits(ivs), out);
	return 0;
}

/*
 * plain64, and essiv: there the cipher is the crypto API's template essiv(),
 * which encrypts this block with a hash of the key before it uses it.
 *
 *	| LE64(ivs) | 0 ... |
 */
static int iv_plain64_generate(struct xcrypt_iv *iv, u8 *out, u64 ivs)
{
	put_unaligned_le64(ivs, out);
	return 0;
}

/*
 * plain64be
 *
 *	| ... 0 | BE64(ivs) |
 */
static int iv_plain64be_generate(struct xcrypt_iv *iv, u8 *out, u64 ivs)
{
	put_unaligned_be64(ivs, out + iv->size - sizeof(u64));
	return 0;
}

/*
 * benbi, for LRW: the number of the first cipher block of the sector,
 * counted from 1.
 *
 *	| ... 0 | BE64((ivs << (9 - log2(cipher block))) + 1) |
 */
static int iv_benbi_ctr(struct xcrypt_iv *iv, char **error)
{
	if (!is_power_of_2(iv->block_size))
		return iv_refuse(iv, error,
				 "Cipher block size is not a power of 2");
	if (iv->block_size > 1 << SECTOR_SHIFT)
		return iv_refuse(iv, error, "Cipher block size is over 512");

	iv->shift = SECTOR_SHIFT - ilog2(iv->block_size);
	return 0;
}

static int iv_benbi_generate(struct xcrypt_iv *iv, u8 *out, u64 ivs)
{
	put_unaligned_be64((ivs << iv->shift) + 1,
			   out + iv->size - sizeof(u64));
	return 0;
}

/* random; who reads the sector finds the IV beside it. */
static int iv_random_generate(struct xcrypt_iv *iv, u8 *out, u64 ivs)
{
	get_random_bytes(out, iv->size);
	return 0;
}

/*
 * MD5, its block function alone: lmk wants the chaining state after whole
 * blocks, without padding and length, and in any context.
 */
#define MD5_BLOCK_SIZE		64
#define MD5_STATE_WORDS		4
#define MD5_STATE_SIZE		(MD5_STATE_WORDS * sizeof(u32))

static const u32 md5_start[MD5_STATE_WORDS] = {
	0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
};

/* floor(2^32 * |sin(i + 1)|), RFC 1321 */
static const u32 md5_sine[64] = {
	0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee,
	0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
	0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be,
	0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
	0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa,
	0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
	0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed,
	0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
	0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c,
	0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
	0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05,
	0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
	0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039,
	0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
	0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,
	0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

/* Left rotations: one row for each round of 16 steps. */
static const u8 md5_rotate[4][4] = {
	{ 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 }, { 6, 10, 15, 21 },
};

/* The round function of step i, and the number of the word that it adds. */
static u32 md5_mix(unsigned int i, u32 b, u32 c, u32 d, unsigned int *word)
{
	switch (i / 16) {
	case 0:
		*word = i;
		return (b & c) | (~b & d);
	case 1:
		*word = (5 * i + 1) % 16;
		return (d & b) | (~d & c);
	case 2:
		*word = (3 * i + 5) % 16;
		return b ^ c ^ d;
	default:
		*word = (7 * i) % 16;
		return c ^ (b | ~d);
	}
}

static void md5_block(u32 *state, const u8 *block)
{
	u32 a = state[0], b = state[1], c = state[2], d = state[3];
	unsigned int i, word;
	u32 sum;

	for (i = 0; i < 64; i++) {
		sum = a + md5_mix(i, b, c, d, &word) + md5_sine[i];
		sum += get_unaligned_le32(block + word * sizeof(u32));
		a = d;
		d = c;
		c = b;
		b += rol32(sum, md5_rotate[i / 16][i % 4]);
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
}

/*
 * lmk, loop-AES: the IV is a hash of the sector's plaintext from the second
 * cipher block on, so that a change anywhere changes all of the ciphertext
 * (CBC; other modes are accepted and useless, as they always were).
 *
 *	absorbed:  | seed key's 16 bytes, 0 ... | plaintext | tail |
 *	bytes:       64, version 3 only           16..511     16
 *	tail:      | LE32(ivs) | LE32(ivs bits 32-55 | 1 << 31) | LE32(4024) | 0 |
 *	IV:        first n bytes of MD5's state, LE32 words
 *
 * Version 2 has as many keys as the cipher text names; version 3 has one more
 * of the same size behind them, the seed key.  What the seed block leaves
 * in MD5's state is the same for every sector: iv->seed keeps that state.
 *
 * On a read the hash is known only after decryption: the cipher gets a zero
 * IV, and the first block takes the IV afterwards.
 */
#define LMK_HASH_FROM		16
#define LMK_TAIL_SIZE		16
#define LMK_SEED_SIZE		16

static int iv_lmk_ctr(struct xcrypt_iv *iv, char **error)
{
	if (fips_enabled)
		return iv_refuse(iv, error, "LMK is not allowed in FIPS mode");
	if (iv->sector_size != IV_LEGACY_SECTOR)
		return iv_refuse(iv, error, "LMK needs sectors of 512 bytes");
	if (iv->size > MD5_STATE_SIZE)
		return iv_refuse(iv, error, "LMK needs an IV of 16 bytes at most");
	if (iv->key_size % iv->key_count == 0)
		return 0;

	if (iv->key_size / (iv->key_count + 1) < LMK_SEED_SIZE)
		return iv_refuse(iv, error, "LMK seed key is under 16 bytes");
	iv->key_parts = iv->key_count + 1;
	iv->key_extra = iv->key_size / iv->key_parts;
	return iv_alloc_seed(iv, MD5_STATE_SIZE, error);
}

static int iv_lmk_init(struct xcrypt_iv *iv, const u8 *key)
{
	u8 block[MD5_BLOCK_SIZE] = {};
	u32 state[MD5_STATE_WORDS];

	if (!iv->seed)
		return 0;

	memcpy(block, key + iv->key_count * iv_subkey_size(iv), LMK_SEED_SIZE);
	memcpy(state, md5_start, sizeof(state));
	md5_block(state, block);
	memcpy(iv->seed, state, sizeof(state));

	memzero_explicit(block, sizeof(block));
	memzero_explicit(state, sizeof(state));
	return 0;
}

/* Absorb plaintext and tail; the last 48 bytes of data share a block with it. */
static void iv_lmk_hash(const struct xcrypt_iv *iv, u32 *state, u64 ivs,
			const u8 *data)
{
	const u8 *end = data + IV_LEGACY_SECTOR - (MD5_BLOCK_SIZE - LMK_TAIL_SIZE);
	u8 block[MD5_BLOCK_SIZE];
	u8 *tail = block + sizeof(block) - LMK_TAIL_SIZE;

	memcpy(state, iv->seed ? (const void *)iv->seed : md5_start, MD5_STATE_SIZE);
	for (data += LMK_HASH_FROM; data < end; data += MD5_BLOCK_SIZE)
		md5_block(state, data);

	memcpy(block, data, sizeof(block) - LMK_TAIL_SIZE);
	put_unaligned_le32(lower_32_bits(ivs), tail);
	put_unaligned_le32((upper_32_bits(ivs) & 0xffffff) | 0x80000000, tail + 4);
	put_unaligned_le32(4024, tail + 8);
	put_unaligned_le32(0, tail + 12);
	md5_block(state, block);
	memzero_explicit(block, sizeof(block));
}

/* dst ^= the IV of the sector; which may be where dst lies: hash first. */
static void iv_lmk_xor(const struct xcrypt_iv *iv, u8 *dst, u64 ivs,
		       const u8 *data)
{
	u32 state[MD5_STATE_WORDS];
	unsigned int i;

	iv_lmk_hash(iv, state, ivs, data);
	for (i = 0; i < iv->size; i++)
		dst[i] ^= state[i / 4] >> (i % 4 * 8);
	memzero_explicit(state, sizeof(state));
}

static int iv_lmk_write_pre(struct xcrypt_iv *iv, u8 *out, u64 ivs, u8 *data)
{
	iv_lmk_xor(iv, out, ivs, data);
	return 0;
}

static int iv_lmk_read_post(struct xcrypt_iv *iv, u64 ivs, u8 *data)
{
	iv_lmk_xor(iv, data, ivs, data);
	return 0;
}

/*
 * tcw, TrueCrypt up to 4.1: CBC, and the ciphertext is XORed ("whitened")
 * with 8 bytes, again and again.
 *
 *	key:    | cipher keys | seed, n bytes | whitening, 16 bytes |
 *	IV:     seed ^ | LE64(ivs) | LE64(ivs) |, n bytes
 *	w:      whitening ^ | LE64(ivs) | LE64(ivs) |, four LE32 words w0 .. w3
 *	        c = CRC-32 of a word's 4 bytes: starts at 0, not inverted
 *	whiten: | LE32(c(w0) ^ c(w3)) | LE32(c(w1) ^ c(w2)) |
 *
 * iv->seed keeps seed and whitening as they lie in the key.
 */
#define TCW_WHITENING_SIZE	16

static int iv_tcw_ctr(struct xcrypt_iv *iv, char **error)
{
	unsigned int extra = iv->size + TCW_WHITENING_SIZE;

	if (iv->sector_size != IV_LEGACY_SECTOR)
		return iv_refuse(iv, error, "TCW needs sectors of 512 bytes");
	if (iv->size != 8 && iv->size != 16)
		return iv_refuse(iv, error, "TCW needs an IV of 8 or 16 bytes");
	if (iv->key_size <= extra)
		return iv_refuse(iv, error,
				 "TCW key has no bytes left for the cipher");

	iv->key_parts = iv->key_count + 2;
	iv->key_extra = extra;
	return iv_alloc_seed(iv, extra, error);
}

static int iv_tcw_init(struct xcrypt_iv *iv, const u8 *key)
{
	memcpy(iv->seed, key + iv->key_size - iv->key_extra, iv->key_extra);
	return 0;
}

static int iv_tcw_generate(struct xcrypt_iv *iv, u8 *out, u64 ivs)
{
	unsigned int i;

	for (i = 0; i < iv->size; i += sizeof(u64))
		put_unaligned_le64(get_unaligned_le64(iv->seed + i) ^ ivs, out + i);
	return 0;
}

/* CRC-32 of one of the four words of w. */
static u32 iv_tcw_crc(const struct xcrypt_iv *iv, u64 ivs, unsigned int word)
{
	const u8 *whitening = iv->seed + iv->size;
	__le32 w;
	u32 crc;

	w = cpu_to_le32(get_unaligned_le32(whitening + word * sizeof(w)) ^
			(word % 2 ? upper_32_bits(ivs) : lower_32_bits(ivs)));
	crc = crc32(0, (const u8 *)&w, sizeof(w));
	memzero_explicit(&w, sizeof(w));
	return crc;
}

/* Its own inverse: after encryption and before decryption. */
static void iv_tcw_whiten(const struct xcrypt_iv *iv, u64 ivs, u8 *data)
{
	__le32 *word = (__le32 *)data;
	__le32 even, odd;
	unsigned int i;

	even = cpu_to_le32(iv_tcw_crc(iv, ivs, 0) ^ iv_tcw_crc(iv, ivs, 3));
	odd = cpu_to_le32(iv_tcw_crc(iv, ivs, 1) ^ iv_tcw_crc(iv, ivs, 2));
	for (i = 0; i < IV_LEGACY_SECTOR / sizeof(*word); i += 2) {
		word[i] ^= even;
		word[i + 1] ^= odd;
	}
	memzero_explicit(&even, sizeof(even));
	memzero_explicit(&odd, sizeof(odd));
}

static int iv_tcw_write_post(struct xcrypt_iv *iv, u64 ivs, u8 *data)
{
	iv_tcw_whiten(iv, ivs, data);
	return 0;
}

static int iv_tcw_read_pre(struct xcrypt_iv *iv, u8 *out, u64 ivs, u8 *data)
{
	iv_tcw_whiten(iv, ivs, data);
	return 0;
}

/*
 * eboiv, BitLocker's CBC: the encrypted byte offset.  The offset is ivs * S
 * even where ivs counts 512-byte sectors (no iv_large_sectors).
 *
 *	offset:  | LE64(ivs * S) | 0 ... |, n bytes
 *	IV:      one cipher block of zeros, encrypted under transform 0 with
 *	         the offset as IV; in CBC that encrypts the offset itself
 *
 * iv->seed is not a secret here but room for the random key of
 * iv_eboiv_wipe(), which so cannot fail for want of memory.
 */
static int iv_eboiv_ctr(struct xcrypt_iv *iv, char **error)
{
	if (iv->block_size != iv->size)
		return iv_refuse(iv, error,
				 "Cipher block size is not the IV size");
	return iv_alloc_seed(iv, iv_subkey_size(iv), error);
}

static int iv_eboiv_init(struct xcrypt_iv *iv, const u8 *key)
{
	return xcrypt_iv_cipher_setkey(iv, key, iv_subkey_size(iv));
}

/* A cipher forgets its key when it is given another one. */
static void iv_eboiv_wipe(struct xcrypt_iv *iv)
{
	int r;

	if (!iv->seed || !iv->cipher)
		return;

	get_random_bytes(iv->seed, iv->seed_size);
	r = xcrypt_iv_cipher_setkey(iv, iv->seed, iv->seed_size);
	iv_wipe_seed(iv);
	if (r)
		DMERR("%s: the IV cipher refuses a random key of %u bytes: %d",
		      iv->ops->name, iv->seed_size, r);
}

static int iv_eboiv_generate(struct xcrypt_iv *iv, u8 *out, u64 ivs)
{
	put_unaligned_le64(ivs * iv->sector_size, out);
	return xcrypt_iv_cipher_block(iv, out);
}

/*
 * elephant, BitLocker's CBC with the Elephant diffuser: eboiv under K1, and
 * two layers without a key that spread each bit of the plaintext over the
 * sector.
 *
 *	key:         | K1, the ciphers' | K2, always AES |, halves
 *	sector key:  | AES_K2(LE64(ivs * S), 0 ..., 0x00) | AES_K2(same, 0x80) |
 *	write:       ^ sector key repeated, A encrypts, B encrypts, cipher
 *	read:        cipher, B decrypts, A decrypts, ^ sector key repeated
 */
#define ELEPHANT_KEY_WORDS	4	/* of 8 bytes */

static int iv_elephant_ctr(struct xcrypt_iv *iv, char **error)
{
	unsigned int half = iv->key_size / 2;

	if (iv->key_size % 2)
		return iv_refuse(iv, error, "Elephant key has no equal halves");
	if (half != AES_KEYSIZE_128 && half != AES_KEYSIZE_192 &&
	    half != AES_KEYSIZE_256)
		return iv_refuse(iv, error,
				 "Elephant needs two keys of 16, 24 or 32 bytes");

	iv->key_parts = 2;
	iv->key_extra = half;
	iv->aes = kzalloc(sizeof(*iv->aes), GFP_KERNEL);
	if (!iv->aes) {
		*error = "Cannot allocate the sector key";
		return -ENOMEM;
	}
	return iv_eboiv_ctr(iv, error);
}

static int iv_elephant_init(struct xcrypt_iv *iv, const u8 *key)
{
	const u8 *k2 = key + iv->key_size - iv->key_extra;
	int r;

	r = aes_prepareenckey(iv->aes, k2, iv->key_extra);
	return r ? r : iv_eboiv_init(iv, key);
}

static void iv_elephant_wipe(struct xcrypt_iv *iv)
{
	if (iv->aes)
		memzero_explicit(iv->aes, sizeof(*iv->aes));
	iv_eboiv_wipe(iv);
}

static void iv_elephant_xor(const struct xcrypt_iv *iv, u64 ivs, u8 *data)
{
	u64 key[ELEPHANT_KEY_WORDS];
	u8 offset[AES_BLOCK_SIZE] = {};
	u64 *word = (u64 *)data;
	unsigned int i;

	put_unaligned_le64(ivs * iv->sector_size, offset);
	aes_encrypt(iv->aes, (u8 *)key, offset);
	offset[AES_BLOCK_SIZE - 1] = 0x80;
	aes_encrypt(iv->aes, (u8 *)key + AES_BLOCK_SIZE, offset);

	/* bytes with bytes: the order inside a word does not matter */
	for (i = 0; i < iv->sector_size / sizeof(*word); i++)
		word[i] ^= key[i % ELEPHANT_KEY_WORDS];
	memzero_explicit(key, sizeof(key));
}

/*
 * A diffuser: for word d[i] of m, indexes modulo m (a power of two),
 *
 *	decrypt:  i upward, d[i] += d[i + near] ^ rotl(d[i + far], r[i % 4])
 *	encrypt:  i downward, -=
 */
struct iv_diffuser {
	unsigned int rounds;
	int near, far;
	u8 rotate[4];
};

static const struct iv_diffuser diffuser_a = {
	.rounds = 5, .near = -2, .far = -5, .rotate = { 9, 0, 13, 0 },
};

static const struct iv_diffuser diffuser_b = {
	.rounds = 3, .near = 2, .far = 5, .rotate = { 0, 10, 0, 25 },
};

static inline u32 iv_diffuse(const struct iv_diffuser *diffuser,
			     const __le32 *d, unsigned int i, unsigned int mask)
{
	u32 near = le32_to_cpu(d[(i + diffuser->near) & mask]);
	u32 far = le32_to_cpu(d[(i + diffuser->far) & mask]);

	return near ^ rol32(far, diffuser->rotate[i % 4]);
}

static void iv_diffuser_encrypt(const struct xcrypt_iv *iv,
				const struct iv_diffuser *diffuser, u8 *data)
{
	unsigned int mask = iv->sector_size / sizeof(__le32) - 1;
	__le32 *d = (__le32 *)data;
	unsigned int round, i;

	for (round = 0; round < diffuser->rounds; round++)
		for (i = mask + 1; i--;)
			le32_add_cpu(&d[i], -iv_diffuse(diffuser, d, i, mask));
}

static void iv_diffuser_decrypt(const struct xcrypt_iv *iv,
				const struct iv_diffuser *diffuser, u8 *data)
{
	unsigned int mask = iv->sector_size / sizeof(__le32) - 1;
	__le32 *d = (__le32 *)data;
	unsigned int round, i;

	for (round = 0; round < diffuser->rounds; round++)
		for (i = 0; i <= mask; i++)
			le32_add_cpu(&d[i], iv_diffuse(diffuser, d, i, mask));
}

static int iv_elephant_write_pre(struct xcrypt_iv *iv, u8 *out, u64 ivs, u8 *data)
{
	iv_elephant_xor(iv, ivs, data);
	iv_diffuser_encrypt(iv, &diffuser_a, data);
	iv_diffuser_encrypt(iv, &diffuser_b, data);
	return 0;
}

static int iv_elephant_read_post(struct xcrypt_iv *iv, u64 ivs, u8 *data)
{
	iv_diffuser_decrypt(iv, &diffuser_b, data);
	iv_diffuser_decrypt(iv, &diffuser_a, data);
	iv_elephant_xor(iv, ivs, data);
	return 0;
}

/* Sorted by name; the last part of the cipher text must match exactly. */
static const struct xcrypt_iv_ops iv_table[] = {
	{
		.name = "benbi",
		.ctr = iv_benbi_ctr,
		.generate = iv_benbi_generate,
	}, {
		.name = "eboiv",
		.no_aead = true,
		.needs_cipher = true,
		.ctr = iv_eboiv_ctr,
		.init = iv_eboiv_init,
		.wipe = iv_eboiv_wipe,
		.generate = iv_eboiv_generate,
	}, {
		.name = "elephant",
		.no_aead = true,
		.needs_cipher = true,
		.ctr = iv_elephant_ctr,
		.init = iv_elephant_init,
		.wipe = iv_elephant_wipe,
		.generate = iv_eboiv_generate,
		.write_pre = iv_elephant_write_pre,
		.read_post = iv_elephant_read_post,
	}, {
		.name = "essiv",
		.le64 = true,
		.generate = iv_plain64_generate,
	}, {
		.name = "lmk",
		.no_aead = true,
		.ctr = iv_lmk_ctr,
		.init = iv_lmk_init,
		.wipe = iv_wipe_seed,
		.write_pre = iv_lmk_write_pre,
		.read_post = iv_lmk_read_post,
	}, {
		.name = "null",
	}, {
		.name = "plain",
		.generate = iv_plain_generate,
	}, {
		.name = "plain64",
		.le64 = true,
		.generate = iv_plain64_generate,
	}, {
		.name = "plain64be",
		.generate = iv_plain64be_generate,
	}, {
		.name = "random",
		.stored = true,
		.generate = iv_random_generate,
	}, {
		.name = "tcw",
		.no_aead = true,
		.ctr = iv_tcw_ctr,
		.init = iv_tcw_init,
		.wipe = iv_wipe_seed,
		.generate = iv_tcw_generate,
		.write_post = iv_tcw_write_post,
		.read_pre = iv_tcw_read_pre,
	},
};

/* NULL if there is no generator of this name. */
const struct xcrypt_iv_ops *xcrypt_iv_find(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(iv_table); i++)
		if (!strcmp(name, iv_table[i].name))
			return &iv_table[i];
	return NULL;
}

/*
 * Check the geometry that the caller filled in and set up the rest.  After a
 * failure, too, xcrypt_iv_dtr() is to be called.
 */
int xcrypt_iv_ctr(struct xcrypt_iv *iv, char **error)
{
	iv->key_parts = iv->key_count;
	iv->key_extra = 0;
	if (!iv->ops)
		return 0;
	if (iv->size < IV_MIN_SIZE)
		return iv_refuse(iv, error, "IV is under 8 bytes");
	if (iv->aead && iv->ops->no_aead)
		return iv_refuse(iv, error, "IV mode is not for AEAD ciphers");
	return iv->ops->ctr ? iv->ops->ctr(iv, error) : 0;
}

/* Accepts whatever any prefix of xcrypt_iv_ctr() leaves, and twice. */
void xcrypt_iv_dtr(struct xcrypt_iv *iv)
{
	kfree_sensitive(iv->seed);
	iv->seed = NULL;
	iv->seed_size = 0;
	kfree_sensitive(iv->aes);
	iv->aes = NULL;
}

/*
 * key is the whole table key, key_size bytes.  No bio is inside.  After a
 * failure the secrets are undefined and no I/O may follow.
 */
int xcrypt_iv_init(struct xcrypt_iv *iv, const u8 *key)
{
	if (!iv->ops || !iv->ops->init)
		return 0;
	return iv->ops->init(iv, key);
}

/* Forget what xcrypt_iv_init() took from the key; it may be called again. */
void xcrypt_iv_wipe(struct xcrypt_iv *iv)
{
	if (iv->ops && iv->ops->wipe)
		iv->ops->wipe(iv);
}
