// SPDX-License-Identifier: GPL-2.0
/*
 * iv.c in the kernel that it is made for: the kernel's AES, CRC and ciphers
 * under it, KASAN around every buffer.  What is right comes from
 * scripts/gen-iv-testvecs.py; tests/userland tests the same and more, faster.
 */
#include <kunit/test.h>
#include <crypto/sha2.h>
#include <linux/err.h>
#include <linux/sizes.h>

#include "../../iv.c"
#include "iv-case.h"

/* The kernel's words for the ciphers of the vectors. */
static const struct {
	const char *evp, *api;
} cipher_names[] = {
	{ "AES-128-CBC", "cbc(aes)" },
	{ "AES-192-CBC", "cbc(aes)" },
	{ "AES-256-CBC", "cbc(aes)" },
	{ "DES-EDE3-CBC", "cbc(des3_ede)" },
	{ "AES-128-XTS", "xts(aes)" },
	{ "AES-256-XTS", "xts(aes)" },
};

/* key.c's part, as simple as it gets. */
int xcrypt_iv_cipher_setkey(struct xcrypt_iv *iv, const u8 *key, unsigned int size)
{
	struct crypto_sync_skcipher *tfm = iv->cipher;

	return crypto_sync_skcipher_setkey(tfm, key, size);
}

int xcrypt_iv_cipher_block(struct xcrypt_iv *iv, u8 *block)
{
	struct crypto_sync_skcipher *tfm = iv->cipher;
	SYNC_SKCIPHER_REQUEST_ON_STACK(req, tfm);
	u8 *data = kzalloc(2 * AES_BLOCK_SIZE, GFP_KERNEL), *copy = data + AES_BLOCK_SIZE;
	struct scatterlist sg;
	int r;

	if (!data)
		return -ENOMEM;
	memcpy(copy, block, iv->block_size);
	sg_init_one(&sg, data, iv->block_size);
	skcipher_request_set_sync_tfm(req, tfm);
	skcipher_request_set_callback(req, 0, NULL, NULL);
	skcipher_request_set_crypt(req, &sg, &sg, iv->block_size, copy);
	r = crypto_skcipher_encrypt(req);
	skcipher_request_zero(req);
	memcpy(block, data, iv->block_size);
	kfree_sensitive(data);
	return r;
}

static struct crypto_sync_skcipher *cipher_new(struct kunit *test, const char *evp)
{
	struct crypto_sync_skcipher *tfm;
	const char *api = "cbc(aes)";
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cipher_names); i++)
		if (!strcmp(cipher_names[i].evp, evp))
			api = cipher_names[i].api;
	tfm = crypto_alloc_sync_skcipher(api, 0, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, tfm);
	return tfm;
}

/* As table.c does it: find, ctr, cipher.  Without a key. */
static int iv_open(struct kunit *test, struct xcrypt_iv *iv, const struct geometry *geo,
		   char **error)
{
	int r;

	KUNIT_ASSERT_NOT_NULL(test, xcrypt_iv_find(geo->name));
	r = iv_ctr(iv, geo, error);
	if (!r && iv->ops->needs_cipher)
		iv->cipher = cipher_new(test, geo->evp);
	return r;
}

static void iv_close(struct xcrypt_iv *iv)
{
	xcrypt_iv_dtr(iv);
	if (iv->cipher)
		crypto_free_sync_skcipher(iv->cipher);
}

/* splitmix64, as the generator has it */
static void fill(u8 *data, unsigned int size, u64 seed)
{
	unsigned int i;
	u64 z;

	for (i = 0; i < size; i += sizeof(z)) {
		z = seed += 0x9e3779b97f4a7c15ULL;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
		put_unaligned_le64(z ^ z >> 31, data + i);
	}
}

/* The key in an allocation of its size: KASAN sees a byte read behind it. */
static int iv_key(struct kunit *test, struct xcrypt_iv *iv, const struct geometry *geo)
{
	u8 *key = kmemdup(geo->key, geo->key_size, GFP_KERNEL);
	int r;

	KUNIT_ASSERT_NOT_NULL(test, key);
	r = xcrypt_iv_init(iv, key);
	kfree_sensitive(key);
	return r;
}

/* generate and a *_pre hook; the IV in an allocation of its size, too. */
static int iv_make(struct kunit *test, struct xcrypt_iv *iv, u8 *result, u64 ivs, u8 *data,
		   bool write)
{
	int (*pre)(struct xcrypt_iv *iv, u8 *out, u64 ivs, u8 *data) =
		write ? iv->ops->write_pre : iv->ops->read_pre;
	u8 *out = kzalloc(iv->size, GFP_KERNEL);
	int r = 0;

	KUNIT_ASSERT_NOT_NULL(test, out);
	if (iv->ops->generate)
		r = iv->ops->generate(iv, out, ivs);
	if (!r && pre)
		r = pre(iv, out, ivs, data);
	memcpy(result, out, iv->size);
	kfree(out);
	return r;
}

/* Does the sector hold what the vector says?  before is what it held. */
static bool sector_is(const u8 *hash, const u8 *data, const u8 *before, unsigned int size)
{
	u8 found[SHA256_DIGEST_SIZE];

	if (!hash)
		return !memcmp(before, data, size);
	sha256(data, size, found);
	return !memcmp(hash, found, sizeof(found));
}

/* The number of hooks that did something else than the vector says. */
static unsigned int vector_check(struct kunit *test, struct xcrypt_iv *iv,
				 const struct vector *v)
{
	u8 *data = kmalloc(iv->sector_size, GFP_KERNEL);
	u8 *before = kmalloc(iv->sector_size, GFP_KERNEL);
	unsigned int bad = 0, hook;
	u8 out[32];
	int r;

	KUNIT_ASSERT_NOT_NULL(test, data);
	KUNIT_ASSERT_NOT_NULL(test, before);
	fill(before, iv->sector_size, v->seed);
	for (hook = 0; hook < HOOKS; hook++) {
		bool write = hook == WRITE_PRE || hook == WRITE_POST;

		memcpy(data, before, iv->sector_size);
		if (hook == WRITE_PRE || hook == READ_PRE) {
			r = iv_make(test, iv, out, v->ivs, data, write);
			r = r ?: memcmp(out, write ? v->write_iv : v->read_iv, iv->size);
		} else {
			r = iv_post(iv, v->ivs, data, write);
		}
		bad += r || !sector_is(v->sector[hook], data, before, iv->sector_size);
	}
	kfree(before);
	kfree(data);
	return bad;
}

/* The mismatches of all vectors of one geometry. */
static unsigned int geometry_check(struct kunit *test, struct xcrypt_iv *iv, unsigned int g)
{
	unsigned int i, bad = 0;

	for (i = 0; i < ARRAY_SIZE(vectors); i++)
		if (vectors[i].geometry == g)
			bad += vector_check(test, iv, &vectors[i]);
	return bad;
}

static const char * const generators[] = {
	"plain", "plain64", "plain64be", "essiv", "benbi", "null", "lmk", "tcw", "eboiv",
	"elephant",
};

static void generator_name(const char * const *name, char *text)
{
	strscpy(text, *name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(generator, generators, generator_name);

/* Every vector of a generator, and what ctr says of its geometry. */
static void iv_vectors(struct kunit *test)
{
	const char * const *name = test->param_value;
	unsigned int g, n = 0;
	struct xcrypt_iv iv;
	char *error = NULL;

	for (g = 0; g < ARRAY_SIZE(geometries); g++) {
		const struct geometry *geo = &geometries[g];

		if (strcmp(*name, geo->name))
			continue;
		n++;
		KUNIT_ASSERT_EQ(test, 0, iv_open(test, &iv, geo, &error));
		KUNIT_EXPECT_EQ(test, geo->key_parts, iv.key_parts);
		KUNIT_EXPECT_EQ(test, geo->key_extra, iv.key_extra);
		KUNIT_EXPECT_EQ(test, 0, iv_key(test, &iv, geo));
		KUNIT_EXPECT_EQ_MSG(test, 0U, geometry_check(test, &iv, g),
				    "IV %u, sector %u, key %u", geo->n, geo->sector, geo->key_size);
		iv_close(&iv);
	}
	KUNIT_EXPECT_NE(test, 0U, n);
}

/* A wiped key is gone, and a key that comes again is the key. */
static void iv_wipe(struct kunit *test)
{
	const char * const *name = test->param_value;
	struct xcrypt_iv iv;
	char *error = NULL;
	unsigned int g;

	for (g = 0; g < ARRAY_SIZE(geometries); g++) {
		const struct geometry *geo = &geometries[g];

		if (strcmp(*name, geo->name))
			continue;
		KUNIT_ASSERT_EQ(test, 0, iv_open(test, &iv, geo, &error));
		KUNIT_EXPECT_EQ(test, 0, iv_key(test, &iv, geo));
		xcrypt_iv_wipe(&iv);
		if (iv.seed)
			KUNIT_EXPECT_NULL(test, memchr_inv(iv.seed, 0, iv.seed_size));
		if (iv.aes)
			KUNIT_EXPECT_NULL(test, memchr_inv(iv.aes, 0, sizeof(*iv.aes)));
		if (iv.cipher || iv.seed)
			KUNIT_EXPECT_NE(test, 0U, geometry_check(test, &iv, g));
		KUNIT_EXPECT_EQ(test, 0, iv_key(test, &iv, geo));
		KUNIT_EXPECT_EQ(test, 0U, geometry_check(test, &iv, g));
		iv_close(&iv);
	}
}

/* Geometries that a generator can't have. */
static void iv_refusals(struct kunit *test)
{
	static const struct geometry refused[] = {
		{ .name = "plain", .n = 4, .block = 16, .sector = 512, .key_size = 32 },
		{ .name = "benbi", .n = 16, .block = 24, .sector = 512, .key_size = 32 },
		{ .name = "benbi", .n = 16, .block = 1024, .sector = 1024, .key_size = 32 },
		{ .name = "lmk", .n = 16, .block = 16, .sector = 4096, .key_size = 1024 },
		{ .name = "tcw", .n = 16, .block = 16, .sector = 512, .key_size = 32 },
		{ .name = "eboiv", .n = 16, .block = 8, .sector = 512, .key_size = 32 },
		{ .name = "elephant", .n = 16, .block = 16, .sector = 512, .key_size = 65 },
	};
	struct xcrypt_iv iv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		struct geometry geo = refused[i];
		char *error = NULL;

		geo.key_count = 1;
		geo.evp = "";
		KUNIT_EXPECT_EQ_MSG(test, -EINVAL, iv_open(test, &iv, &geo, &error), "%s",
				    geo.name);
		KUNIT_EXPECT_NOT_NULL(test, error);
		iv_close(&iv);
	}
	KUNIT_EXPECT_NULL(test, xcrypt_iv_find("plain6"));
	KUNIT_EXPECT_NULL(test, xcrypt_iv_find(""));
}

static struct kunit_case iv_cases[] = {
	KUNIT_CASE_PARAM(iv_vectors, generator_gen_params),
	KUNIT_CASE_PARAM(iv_wipe, generator_gen_params),
	KUNIT_CASE(iv_refusals),
	{}
};

static struct kunit_suite iv_suite = {
	.name = "xcrypt_iv",
	.test_cases = iv_cases,
};

kunit_test_suite(iv_suite);

MODULE_DESCRIPTION("KUnit suites of dm-xcrypt");
MODULE_LICENSE("GPL");
