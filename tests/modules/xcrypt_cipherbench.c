// SPDX-License-Identifier: GPL-2.0
/*
 * What the cipher alone costs, as a target that does nothing else would call
 * it: one request, scatterlists of one entry, the next piece of memory with
 * each call.
 *
 *	modprobe xcrypt_cipherbench alg="xts(aes)" key_size=64
 *	cat /sys/module/xcrypt_cipherbench/parameters/result
 *
 * The result is a word for each kind of call: "e" from one page to another
 * (as writes are encrypted) or "d" in place (as reads are decrypted), the bytes
 * of a call, "=", and picoseconds for a call: "e512=418123 e4096=...".  Before
 * what is measured goes one pass that is not.
 */
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <crypto/skcipher.h>

/* Pages on each side: what one pass goes over. */
#define AREA_PAGES	64U
#define PASSES		8U
/* Bytes. */
#define MAX_IV		32U
#define MAX_KEY		128U

static char *alg = "xts(aes)";
module_param(alg, charp, 0444);
MODULE_PARM_DESC(alg, "name of a skcipher for the crypto API");

static unsigned int key_size = 64;
module_param(key_size, uint, 0444);
MODULE_PARM_DESC(key_size, "bytes");

static char result[160];
module_param_string(result, result, sizeof(result), 0444);
MODULE_PARM_DESC(result, "picoseconds for each kind of call");

/* Allocated by init, which frees it. */
struct bench {
	struct crypto_skcipher *tfm;
	struct skcipher_request *req;
	struct page *in[AREA_PAGES], *out[AREA_PAGES];
	struct scatterlist sg_in, sg_out;
	struct crypto_wait wait;
	u8 iv[MAX_IV];
};

/* One call at a place of the area, in sectors of size bytes. */
static int one_call(struct bench *bench, unsigned int n, unsigned int size, bool encrypt)
{
	unsigned int page = n * size / PAGE_SIZE, offset = n * size % PAGE_SIZE;

	sg_set_page(&bench->sg_out, bench->out[page], size, offset);
	if (!encrypt)
		return crypto_wait_req(crypto_skcipher_decrypt(bench->req), &bench->wait);
	sg_set_page(&bench->sg_in, bench->in[page], size, offset);
	return crypto_wait_req(crypto_skcipher_encrypt(bench->req), &bench->wait);
}

/* The whole area once. */
static int pass(struct bench *bench, unsigned int size, bool encrypt)
{
	unsigned int n;
	int r;

	for (n = 0; n < AREA_PAGES * PAGE_SIZE / size; n++) {
		memset(bench->iv, 0, sizeof(bench->iv));
		memcpy(bench->iv, &n, sizeof(n));
		r = one_call(bench, n, size, encrypt);
		if (r)
			return r;
	}
	return 0;
}

/* Adds a word to the result. */
static int measure(struct bench *bench, unsigned int size, bool encrypt)
{
	unsigned int n, calls = PASSES * AREA_PAGES * PAGE_SIZE / size;
	size_t end = strlen(result);
	u64 start, ns;
	int r;

	skcipher_request_set_crypt(bench->req, encrypt ? &bench->sg_in : &bench->sg_out,
				   &bench->sg_out, size, bench->iv);
	r = pass(bench, size, encrypt);
	start = ktime_get_ns();
	for (n = 0; n < PASSES && !r; n++)
		r = pass(bench, size, encrypt);
	ns = ktime_get_ns() - start;
	scnprintf(result + end, sizeof(result) - end, "%s%c%u=%llu", end ? " " : "",
		  encrypt ? 'e' : 'd', size, ns * 1000 / calls);
	return r;
}

static int setup(struct bench *bench)
{
	u8 key[MAX_KEY];
	unsigned int n;
	int r;

	for (n = 0; n < AREA_PAGES; n++) {
		bench->in[n] = alloc_page(GFP_KERNEL);
		bench->out[n] = alloc_page(GFP_KERNEL);
		if (!bench->in[n] || !bench->out[n])
			return -ENOMEM;
	}
	bench->req = skcipher_request_alloc(bench->tfm, GFP_KERNEL);
	if (!bench->req)
		return -ENOMEM;
	skcipher_request_set_callback(bench->req, CRYPTO_TFM_REQ_MAY_BACKLOG |
				      CRYPTO_TFM_REQ_MAY_SLEEP, crypto_req_done, &bench->wait);
	crypto_init_wait(&bench->wait);
	sg_init_table(&bench->sg_in, 1);
	sg_init_table(&bench->sg_out, 1);
	get_random_bytes(key, sizeof(key));
	r = crypto_skcipher_setkey(bench->tfm, key, key_size);
	memzero_explicit(key, sizeof(key));
	return r;
}

static void teardown(struct bench *bench)
{
	unsigned int n;

	for (n = 0; n < AREA_PAGES; n++) {
		if (bench->in[n])
			__free_page(bench->in[n]);
		if (bench->out[n])
			__free_page(bench->out[n]);
	}
	skcipher_request_free(bench->req);
	crypto_free_skcipher(bench->tfm);
	kfree(bench);
}

static int __init cipherbench_init(void)
{
	static const unsigned int sizes[] = { 512, 4096 };
	struct crypto_skcipher *tfm;
	struct bench *bench;
	unsigned int i;
	int r;

	if (key_size > MAX_KEY)
		return -EINVAL;
	tfm = crypto_alloc_skcipher(alg, 0, 0);
	if (IS_ERR(tfm))
		return PTR_ERR(tfm);
	bench = kzalloc(sizeof(*bench), GFP_KERNEL);
	if (!bench) {
		crypto_free_skcipher(tfm);
		return -ENOMEM;
	}
	bench->tfm = tfm;
	r = crypto_skcipher_ivsize(tfm) > MAX_IV ? -EINVAL : setup(bench);
	for (i = 0; i < ARRAY_SIZE(sizes) && !r; i++) {
		r = measure(bench, sizes[i], true);
		if (!r)
			r = measure(bench, sizes[i], false);
	}
	teardown(bench);
	return r;
}

static void __exit cipherbench_exit(void)
{
}

module_init(cipherbench_init);
module_exit(cipherbench_exit);
MODULE_DESCRIPTION("what a cipher costs without a target around it");
MODULE_LICENSE("GPL");
