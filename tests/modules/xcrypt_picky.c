// SPDX-License-Identifier: GPL-2.0
/*
 * xcrypt-picky: a cipher that does not encrypt, and refuses a key of the right
 * size if its first 8 bytes are 0xbb, which no random key's are.  No real cipher
 * does that outside FIPS mode.
 *
 *	capi:xcrypt-picky-plain64
 *
 * Parameters: keys, how many keys it took so far; last, the first byte of the
 * last one it took, refused ones do not count; refuse, whether it takes none.
 */
#include <linux/module.h>
#include <crypto/internal/skcipher.h>
#include <crypto/scatterwalk.h>

#define PICKY_KEY_SIZE	32
#define PICKY_REFUSED	"\xbb\xbb\xbb\xbb\xbb\xbb\xbb\xbb"

static unsigned int keys;
module_param(keys, uint, 0444);

static unsigned int last;
module_param(last, uint, 0444);

static bool refuse;
module_param(refuse, bool, 0644);

static int picky_setkey(struct crypto_skcipher *tfm, const u8 *key, unsigned int size)
{
	if (refuse || !memcmp(key, PICKY_REFUSED, strlen(PICKY_REFUSED)))
		return -EKEYREJECTED;
	last = key[0];
	keys++;
	return 0;
}

static int picky_crypt(struct skcipher_request *req)
{
	struct skcipher_walk walk;
	int r = skcipher_walk_virt(&walk, req, false);

	while (!r && walk.nbytes) {
		if (walk.src.virt.addr != walk.dst.virt.addr)
			memcpy(walk.dst.virt.addr, walk.src.virt.addr, walk.nbytes);
		r = skcipher_walk_done(&walk, 0);
	}
	return r;
}

static struct skcipher_alg picky_alg = {
	.base.cra_name = "xcrypt-picky",
	.base.cra_driver_name = "xcrypt-picky-test",
	.base.cra_priority = 1,
	.base.cra_blocksize = 16,
	.base.cra_module = THIS_MODULE,
	.min_keysize = PICKY_KEY_SIZE,
	.max_keysize = PICKY_KEY_SIZE,
	.ivsize = 16,
	.setkey = picky_setkey,
	.encrypt = picky_crypt,
	.decrypt = picky_crypt,
};

static int __init picky_init(void)
{
	return crypto_register_skcipher(&picky_alg);
}

static void __exit picky_exit(void)
{
	crypto_unregister_skcipher(&picky_alg);
}

module_init(picky_init);
module_exit(picky_exit);

MODULE_DESCRIPTION("Test cipher that refuses some keys");
MODULE_LICENSE("GPL");
