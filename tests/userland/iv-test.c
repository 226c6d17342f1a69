// SPDX-License-Identifier: GPL-2.0
/*
 * iv.c against the vectors of scripts/gen-iv-testvecs.py, and the properties
 * that need none.  The sanitizers watch the ends of all buffers: each is
 * allocated to the byte, and a sector is aligned to 8 bytes and no more.
 */
#include <openssl/evp.h>
#include <openssl/sha.h>

#include "../../dm-xcrypt.h"
#include "test.h"
#include "../kunit/iv-case.h"

static const char * const hook_names[] = { "write_pre", "write_post", "read_pre", "read_post" };

/* key.c's part: a transform with one key, behind iv->cipher. */
struct iv_cipher {
	EVP_CIPHER *evp;
	EVP_CIPHER_CTX *ctx;
	u8 key[64];
	unsigned int key_size;
	int error;			/* what both functions return */
};

int xcrypt_iv_cipher_setkey(struct xcrypt_iv *iv, const u8 *key, unsigned int size)
{
	struct iv_cipher *cipher = iv->cipher;

	if (cipher->error)
		return cipher->error;
	if (size != (unsigned int)EVP_CIPHER_get_key_length(cipher->evp))
		return -EINVAL;
	memcpy(cipher->key, key, size);
	cipher->key_size = size;
	return 0;
}

int xcrypt_iv_cipher_block(struct xcrypt_iv *iv, u8 *block)
{
	struct iv_cipher *cipher = iv->cipher;
	u8 zero[16] = {}, out[16];
	int n = 0;

	if (cipher->error)
		return cipher->error;
	if (!EVP_EncryptInit_ex(cipher->ctx, cipher->evp, NULL, cipher->key, block) ||
	    !EVP_CIPHER_CTX_set_padding(cipher->ctx, 0) ||
	    !EVP_EncryptUpdate(cipher->ctx, out, &n, zero, iv->block_size) ||
	    n != (int)iv->block_size)
		return -EIO;
	memcpy(block, out, n);
	return 0;
}

static struct iv_cipher *cipher_new(const char *name)
{
	struct iv_cipher *cipher = calloc(1, sizeof(*cipher));

	cipher->evp = EVP_CIPHER_fetch(NULL, name, NULL);
	cipher->ctx = EVP_CIPHER_CTX_new();
	assert(cipher->evp && cipher->ctx);
	return cipher;
}

static void cipher_free(struct iv_cipher *cipher)
{
	if (!cipher)
		return;
	EVP_CIPHER_CTX_free(cipher->ctx);
	EVP_CIPHER_free(cipher->evp);
	free(cipher);
}

/* As table.c does it: find, ctr, cipher.  Without a key. */
static int iv_open(struct xcrypt_iv *iv, const struct geometry *geo, char **error)
{
	int r;

	assert(xcrypt_iv_find(geo->name));
	r = iv_ctr(iv, geo, error);
	if (!r && iv->ops->needs_cipher)
		iv->cipher = cipher_new(*geo->evp ? geo->evp : "AES-128-CBC");
	return r;
}

static void iv_close(struct xcrypt_iv *iv)
{
	xcrypt_iv_dtr(iv);
	expect(!iv->seed && !iv->aes, "%s", iv->ops->name);
	xcrypt_iv_dtr(iv);
	cipher_free(iv->cipher);
}

static void fill(u8 *data, unsigned int size, u64 seed)
{
	unsigned int i;
	u64 word;

	for (i = 0; i < size; i += sizeof(word)) {
		word = htole64(test_random((unsigned long long *)&seed));
		memcpy(data + i, &word, sizeof(word));
	}
}

/* The key in an allocation of its size, so that no byte behind it is read. */
static u8 *key_copy(const struct geometry *geo)
{
	u8 *key = malloc(geo->key_size);

	memcpy(key, geo->key, geo->key_size);
	return key;
}

static int iv_key(struct xcrypt_iv *iv, const struct geometry *geo)
{
	u8 *key = key_copy(geo);
	int r = xcrypt_iv_init(iv, key);

	free(key);
	return r;
}

/* generate and a *_pre hook, into a buffer at an odd address. */
static int iv_make(struct xcrypt_iv *iv, u8 *result, u64 ivs, u8 *data, bool write)
{
	int (*pre)(struct xcrypt_iv *iv, u8 *out, u64 ivs, u8 *data) =
		write ? iv->ops->write_pre : iv->ops->read_pre;
	u8 *buffer = calloc(1, iv->size + 1), *out = buffer + 1;
	int r = 0;

	buffer[0] = 0x5a;
	if (iv->ops->generate)
		r = iv->ops->generate(iv, out, ivs);
	if (!r && pre)
		r = pre(iv, out, ivs, data);
	expect(buffer[0] == 0x5a, "%s wrote in front of the IV", iv->ops->name);
	memcpy(result, out, iv->size);
	free(buffer);
	return r;
}

/* Does the sector hold what the vector says?  NULL means: what it held before. */
static bool sector_is(const struct vector *v, enum hook hook, const u8 *data,
		      unsigned int size)
{
	u8 hash[SHA256_DIGEST_LENGTH], before[XCRYPT_MAX_SECTOR_SIZE];

	if (v->sector[hook]) {
		SHA256(data, size, hash);
		return !memcmp(hash, v->sector[hook], sizeof(hash));
	}
	fill(before, size, v->seed);
	return !memcmp(before, data, size);
}

/* The number of mismatches; complains about them unless quiet. */
static unsigned int vector_check(struct xcrypt_iv *iv, const struct vector *v, bool quiet)
{
	const char *name = iv->ops->name;
	unsigned int bad = 0, hook;
	u8 *buffer = malloc(iv->sector_size + 8), *data = buffer + 8;
	u8 out[32];

	for (hook = 0; hook < HOOKS; hook++) {
		bool write = hook == WRITE_PRE || hook == WRITE_POST;
		bool wrong = false;

		fill(data, iv->sector_size, v->seed);
		if (hook == WRITE_PRE || hook == READ_PRE) {
			wrong = iv_make(iv, out, v->ivs, data, write) != 0;
			wrong |= memcmp(out, write ? v->write_iv : v->read_iv, iv->size) != 0;
		} else {
			wrong = iv_post(iv, v->ivs, data, write) != 0;
		}
		wrong |= !sector_is(v, hook, data, iv->sector_size);
		bad += wrong;
		if (wrong && !quiet)
			complain("%s, IV %u, sector %u, key %u: ivs %#llx, %s", name, iv->size,
				 iv->sector_size, iv->key_size, (unsigned long long)v->ivs,
				 hook_names[hook]);
	}
	free(buffer);
	return bad;
}

static unsigned int geometry_check(struct xcrypt_iv *iv, unsigned int g, bool quiet)
{
	unsigned int i, bad = 0;

	for (i = 0; i < ARRAY_SIZE(vectors); i++)
		if (vectors[i].geometry == g)
			bad += vector_check(iv, &vectors[i], quiet);
	return bad;
}

static void test_vectors(const char *name)
{
	unsigned int g, i, n = 0;
	struct xcrypt_iv iv;
	char *error = NULL;

	for (g = 0; g < ARRAY_SIZE(geometries); g++) {
		const struct geometry *geo = &geometries[g];

		if (strcmp(name, geo->name))
			continue;
		expect(!iv_open(&iv, geo, &error), "%s: %s", name, error);
		expect(iv.key_parts == geo->key_parts, "%u", iv.key_parts);
		expect(iv.key_extra == geo->key_extra, "%u", iv.key_extra);
		expect(!iv_key(&iv, geo), "%s", name);
		geometry_check(&iv, g, false);
		iv_close(&iv);
		for (i = 0; i < ARRAY_SIZE(vectors); i++)
			n += vectors[i].geometry == g;
	}
	expect(n, "no vectors");
	checked("iv: %s: %u vectors", name, n);
}

/*
 * A write and the read of it, with an XOR of the IV into the first bytes as
 * the cipher (CBC without the cipher): the plaintext comes back.
 */
static void round_trip(struct xcrypt_iv *iv, u64 *random)
{
	unsigned int size = iv->sector_size, i;
	u8 *buffer = malloc(size + 8), *data = buffer + 8, *plain = malloc(size);
	u64 ivs = test_random((unsigned long long *)random);
	u8 out[32];

	fill(plain, size, ivs);
	memcpy(data, plain, size);
	expect(!iv_make(iv, out, ivs, data, true), "%s", iv->ops->name);
	for (i = 0; i < iv->size; i++)
		data[i] ^= out[i];
	expect(!iv_post(iv, ivs, data, true), "%s", iv->ops->name);

	expect(!iv_make(iv, out, ivs, data, false), "%s", iv->ops->name);
	for (i = 0; i < iv->size; i++)
		data[i] ^= out[i];
	expect(!iv_post(iv, ivs, data, false), "%s", iv->ops->name);
	expect(!memcmp(data, plain, size), "%s, ivs %#llx", iv->ops->name,
	       (unsigned long long)ivs);
	free(buffer);
	free(plain);
}

static void test_round_trips(void)
{
	unsigned int g, i, n = 0;
	struct xcrypt_iv iv;
	char *error = NULL;
	u64 random = 1;

	for (g = 0; g < ARRAY_SIZE(geometries); g++) {
		expect(!iv_open(&iv, &geometries[g], &error), "%s", error);
		expect(!iv_key(&iv, &geometries[g]), "%s", geometries[g].name);
		for (i = 0; i < 20; i++, n++)
			round_trip(&iv, &random);
		iv_close(&iv);
	}
	checked("iv: a read gives back what a write took, %u times", n);
}

static bool all_zero(const void *p, size_t size)
{
	const u8 *byte = p;

	while (size--)
		if (*byte++)
			return false;
	return true;
}

/* No secret of the key is left anywhere behind iv. */
static void expect_wiped(const struct xcrypt_iv *iv, const struct geometry *geo)
{
	const struct iv_cipher *cipher = iv->cipher;

	expect(!iv->seed_size || all_zero(iv->seed, iv->seed_size), "%s", geo->name);
	expect(!iv->aes || all_zero(iv->aes, sizeof(*iv->aes)), "%s", geo->name);
	if (cipher) {
		expect(cipher->key_size, "%s", geo->name);
		expect(memcmp(cipher->key, geo->key, 8), "%s keeps the key", geo->name);
		expect(!all_zero(cipher->key, cipher->key_size), "%s", geo->name);
	}
}

/* The vectors of one geometry before and after each kind of key change. */
static void test_wipe(void)
{
	unsigned int g, n = 0;
	struct xcrypt_iv iv;
	struct geometry other;
	char *error = NULL;
	u8 *key;

	for (g = 0; g < ARRAY_SIZE(geometries); g++) {
		const struct geometry *geo = &geometries[g];
		bool keyed;

		expect(!iv_open(&iv, geo, &error), "%s", error);
		keyed = iv.cipher || iv.seed;
		xcrypt_iv_wipe(&iv);

		expect(!iv_key(&iv, geo), "%s", geo->name);
		xcrypt_iv_wipe(&iv);
		expect_wiped(&iv, geo);
		if (keyed)
			expect(geometry_check(&iv, g, true), "%s works without key", geo->name);

		expect(!iv_key(&iv, geo), "%s", geo->name);
		geometry_check(&iv, g, false);

		/* another key over the first, without a wipe between them */
		key = key_copy(geo);
		fill(key, geo->key_size & ~7U, 7);
		memset(key + (geo->key_size & ~7U), 1, geo->key_size & 7);
		other = *geo;
		other.key = key;
		expect(!iv_key(&iv, &other), "%s", geo->name);
		if (keyed)
			expect(geometry_check(&iv, g, true), "%s keeps the old key", geo->name);
		expect(!iv_key(&iv, geo), "%s", geo->name);
		geometry_check(&iv, g, false);
		free(key);
		iv_close(&iv);
		n++;
	}
	checked("iv: wipe, set, set again: %u geometries", n);
}

/* Refused geometries: -EINVAL, a text, and a log line with the numbers. */
static const struct refusal {
	const char *name;
	unsigned int n, block, sector, key_size, key_count;
	int fips;
	const char *why;
} refusals[] = {
	{ "plain", 4, 16, 512, 32, 1, 0, "IV under 8" },
	{ "plain64be", 0, 16, 512, 32, 1, 0, "IV under 8" },
	{ "benbi", 16, 0, 512, 32, 1, 0, "block 0" },
	{ "benbi", 16, 24, 512, 32, 1, 0, "block no power of 2" },
	{ "benbi", 16, 1024, 1024, 32, 1, 0, "block over 512" },
	{ "lmk", 16, 16, 1024, 1024, 64, 0, "sector" },
	{ "lmk", 16, 16, 4096, 1024, 64, 0, "sector" },
	{ "lmk", 32, 16, 512, 1024, 64, 0, "IV over 16" },
	{ "lmk", 24, 8, 512, 1024, 64, 0, "IV over 16" },
	{ "lmk", 8, 8, 512, 65 * 15, 64, 0, "seed key under 16" },
	{ "lmk", 16, 16, 512, 32, 64, 0, "key under the count" },
	{ "lmk", 16, 16, 512, 1024, 64, 1, "FIPS" },
	{ "tcw", 16, 16, 4096, 64, 1, 0, "sector" },
	{ "tcw", 32, 16, 512, 64, 1, 0, "IV over 16" },
	{ "tcw", 12, 16, 512, 64, 1, 0, "IV neither 8 nor 16" },
	{ "tcw", 16, 16, 512, 32, 1, 0, "no cipher key" },
	{ "tcw", 8, 8, 512, 24, 1, 0, "no cipher key" },
	{ "tcw", 16, 16, 512, 0, 1, 0, "no key" },
	{ "eboiv", 16, 8, 512, 32, 1, 0, "block under IV" },
	{ "eboiv", 16, 1, 512, 32, 1, 0, "block under IV" },
	{ "elephant", 16, 8, 512, 64, 1, 0, "block under IV" },
	{ "elephant", 16, 16, 512, 66, 1, 0, "K2 over 32" },
	{ "elephant", 16, 16, 512, 128, 1, 0, "K2 over 32" },
	{ "elephant", 16, 16, 512, 65, 1, 0, "halves" },
	{ "elephant", 16, 16, 512, 33, 1, 0, "halves" },
	{ "elephant", 16, 16, 512, 40, 1, 0, "K2 no AES size" },
	{ "elephant", 16, 16, 512, 0, 1, 0, "no key" },
};

static void test_refusals(void)
{
	char number[16], *error;
	struct xcrypt_iv iv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(refusals); i++) {
		const struct refusal *ref = &refusals[i];
		struct geometry geo = {
			.name = ref->name, .n = ref->n, .block = ref->block,
			.sector = ref->sector, .key_size = ref->key_size,
			.key_count = ref->key_count, .evp = "",
		};

		error = NULL;
		shim_log[0] = 0;
		fips_enabled = ref->fips;
		expect(iv_open(&iv, &geo, &error) == -EINVAL, "%s, %s", ref->name, ref->why);
		expect(error && *error, "%s, %s: no text", ref->name, ref->why);
		snprintf(number, sizeof(number), " %u", ref->key_size);
		expect(strstr(shim_log, ref->name) && strstr(shim_log, number),
		       "%s, %s: logs \"%s\"", ref->name, ref->why, shim_log);
		iv_close(&iv);
	}
	fips_enabled = 0;
	checked("iv: %u geometries are refused with errno, text and numbers", i);
}

static void test_no_memory(void)
{
	unsigned int g, n = 0;
	struct xcrypt_iv iv;
	char *error;
	int at, r;

	for (g = 0; g < ARRAY_SIZE(geometries); g++) {
		for (at = 1, r = -ENOMEM; r; at++, n++) {
			error = NULL;
			shim_alloc_fail = at;
			r = iv_open(&iv, &geometries[g], &error);
			expect(!r || (r == -ENOMEM && error && *error), "%d %s", r,
			       geometries[g].name);
			iv_close(&iv);
			if (at > 4)
				break;
		}
	}
	shim_alloc_fail = 0;
	checked("iv: ctr without memory fails with text and leaks nothing, %u times", n);
}

/* What key.c's functions return comes through. */
static void test_cipher_errors(void)
{
	unsigned int g, n = 0;
	struct xcrypt_iv iv;
	char *error = NULL;
	u8 out[32] = {};

	for (g = 0; g < ARRAY_SIZE(geometries); g++) {
		struct iv_cipher *cipher;

		expect(!iv_open(&iv, &geometries[g], &error), "%s", error);
		cipher = iv.cipher;
		if (cipher) {
			expect(!iv_key(&iv, &geometries[g]), "%s", iv.ops->name);
			cipher->error = -EAGAIN;
			expect(iv.ops->generate(&iv, out, 1) == -EAGAIN, "%s", iv.ops->name);
			expect(iv_key(&iv, &geometries[g]) == -EAGAIN, "%s", iv.ops->name);
			xcrypt_iv_wipe(&iv);
			expect(all_zero(iv.seed, iv.seed_size), "%s", iv.ops->name);
			n++;
		}
		iv_close(&iv);
	}
	expect(n, "no cipher tested");
	checked("iv: errors of the IV cipher come through, %u geometries", n);
}

static void test_find(void)
{
	static const char * const names[] = {
		"benbi", "eboiv", "elephant", "essiv", "lmk", "null", "plain", "plain64",
		"plain64be", "random", "tcw",
	};
	static const char * const unknown[] = {
		"", "plai", "plain6", "plain64 ", " plain", "Plain64", "PLAIN", "plain64le",
		"Random", "benbi\n", "lmk3", "tcw16", "essiv:sha256",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		const struct xcrypt_iv_ops *ops = xcrypt_iv_find(names[i]);

		expect(ops && !strcmp(ops->name, names[i]), "%s", names[i]);
		if (!ops)
			continue;
		expect(ops->stored == !strcmp(names[i], "random"), "%s", names[i]);
		expect(ops->no_aead == !!strstr("eboiv elephant lmk tcw", names[i]), "%s",
		       names[i]);
		expect(ops->needs_cipher == (*names[i] == 'e' && names[i][1] != 's'),
		       "%s", names[i]);
	}
	for (i = 0; i < ARRAY_SIZE(unknown); i++)
		expect(!xcrypt_iv_find(unknown[i]), "%s", unknown[i]);
	checked("iv: %zu names are found, %zu others are not", ARRAY_SIZE(names),
		ARRAY_SIZE(unknown));
}

/* What no AEAD can have is refused for one; what it can have is not. */
static void test_aead(void)
{
	static const char * const names[] = { "eboiv", "elephant", "lmk", "tcw", "plain64", "random" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		struct xcrypt_iv iv = {
			.ops = xcrypt_iv_find(names[i]), .size = 16, .block_size = 16,
			.sector_size = 512, .key_size = 64, .key_count = 1, .aead = true,
		};
		char *error = NULL;
		int r = xcrypt_iv_ctr(&iv, &error);

		expect(r == (i < 4 ? -EINVAL : 0), "%s: %d", names[i], r);
		expect(!r || strstr(error, "AEAD"), "%s: %s", names[i], error);
		xcrypt_iv_dtr(&iv);
	}
	checked("iv: no AEAD with IV modes that change the sector's bytes");
}

/* Two IVs of mode random differ, and the whole of the buffer is filled. */
static void test_random_iv(void)
{
	struct xcrypt_iv iv = { .ops = xcrypt_iv_find("random"), .size = 32 };
	u8 one[32] = {}, two[32] = {}, seen[32] = {};
	unsigned int i, n;

	for (n = 0; n < 64; n++) {
		expect(!iv.ops->generate(&iv, one, 7), "random");
		for (i = 0; i < sizeof(seen); i++)
			seen[i] |= one[i];
	}
	expect(!iv.ops->generate(&iv, two, 7) && memcmp(one, two, sizeof(one)), "the same twice");
	for (i = 0; i < sizeof(seen); i++)
		expect(seen[i], "byte %u is never set", i);
	checked("iv: random IVs differ and are whole");
}

/* No generator at all, as for ecb. */
static void test_no_ops(void)
{
	struct xcrypt_iv iv = { .key_size = 96, .key_count = 4, .key_extra = 7 };
	char *error = NULL;
	u8 key[96] = {};

	expect(!xcrypt_iv_ctr(&iv, &error), "%s", error);
	expect(iv.key_parts == 4 && !iv.key_extra, "%u %u", iv.key_parts, iv.key_extra);
	expect(!xcrypt_iv_init(&iv, key), "init");
	xcrypt_iv_wipe(&iv);
	xcrypt_iv_dtr(&iv);
	checked("iv: all functions accept that there is no generator");
}

int main(void)
{
	static const char * const names[] = {
		"plain", "plain64", "plain64be", "essiv", "benbi", "null", "lmk", "tcw", "eboiv",
		"elephant",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		test_vectors(names[i]);
	test_round_trips();
	test_wipe();
	test_refusals();
	test_no_memory();
	test_cipher_errors();
	test_find();
	test_aead();
	test_random_iv();
	test_no_ops();
	return test_failed ? 1 : 0;
}
