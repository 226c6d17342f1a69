// SPDX-License-Identifier: GPL-2.0
/*
 * Key text, keyrings, cipher transforms, and forgetting all of it.  The only
 * file, beside the init hooks of iv.c, that sees the bytes of a key.
 *
 * The road of a key:
 *
 *  1. A text arrives, from the table line or a message.  Its size alone is
 *     looked at first (xcrypt_key_parse_size()).
 *  2. xcrypt_key_set() turns the text into bytes in cc->key, or fetches them
 *     from a keyring to the same place.  Up to here a keyring key that cannot
 *     be had leaves the old key as it was.
 *  3. The ciphers and the IV generator take their parts of it.
 *  4. The text is overwritten, whatever happened.  The copy of a keyring
 *     payload is zeroed too: status prints cc->key unless cc->key_string says
 *     where the key is to be had.  A hex key stays, status must print it.
 *  5. xcrypt_key_wipe(), or dtr, makes every place forget it.
 *
 * Whatever fails after step 2 ends with XCRYPT_KEY_VALID off and cc->key zero,
 * and with ciphers that hold a random key (messages) or are freed (ctr): a
 * half installed key is never used and never printed.
 *
 * No byte of a key goes to the log.
 */
#include <linux/ctype.h>
#include <linux/key-type.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/rtnetlink.h>
#include <crypto/authenc.h>
#include <crypto/hash.h>
#include <keys/encrypted-type.h>
#include <keys/trusted-type.h>
#include <keys/user-type.h>

/* The header of trusted keys takes the print prefix for itself. */
#undef pr_fmt
#define pr_fmt(fmt) fmt

#include "dm-xcrypt.h"

/* No overflow in the sums of the scanner. */
static_assert(UINT_MAX / 10 > XCRYPT_MAX_KEY_SIZE + 1);

/**
 * xcrypt_key_text_wipe() - overwrite a key text
 * @text: from a table line or a message
 *
 * The text lies in memory of dm core, which may live on for a while.
 */
void xcrypt_key_text_wipe(char *text)
{
	memset(text, '0', strlen(text));
}

/* The bytes of a payload, and how many; the key's semaphore is held. */
static int user_payload(const struct key *key, const u8 **data, unsigned int *size)
{
	const struct user_key_payload *payload = user_key_payload_locked(key);

	if (!payload)
		return -EKEYREVOKED;
	*data = payload->data;
	*size = payload->datalen;
	return 0;
}

static int encrypted_payload(const struct key *key, const u8 **data, unsigned int *size)
{
	const struct encrypted_key_payload *payload = dereference_key_locked(key);

	if (!payload)
		return -EKEYREVOKED;
	*data = payload->decrypted_data;
	*size = payload->decrypted_datalen;
	return 0;
}

static int trusted_payload(const struct key *key, const u8 **data, unsigned int *size)
{
	const struct trusted_key_payload *payload = dereference_key_locked(key);

	if (!payload)
		return -EKEYREVOKED;
	*data = payload->key;
	*size = payload->key_len;
	return 0;
}

/*
 * The key types that a text may name, with the colon behind the name.  A type
 * that the kernel was built without has no symbol, hence no address here.
 */
static const struct xcrypt_key_type {
	const char *prefix;
	struct key_type *type;
	int (*payload)(const struct key *key, const u8 **data, unsigned int *size);
} key_types[] = {
	{ "logon:", &key_type_logon, user_payload },
	{ "user:", &key_type_user, user_payload },
	{
		"encrypted:",
		IS_ENABLED(CONFIG_ENCRYPTED_KEYS) ? &key_type_encrypted : NULL,
		encrypted_payload,
	}, {
		"trusted:",
		IS_ENABLED(CONFIG_TRUSTED_KEYS) ? &key_type_trusted : NULL,
		trusted_payload,
	},
};

/* Digits up to a colon; returns the number or -EINVAL. */
static int scan_size(const char *text)
{
	unsigned int size = 0;
	const char *p;

	for (p = text; isdigit(*p); p++)
		size = min(size * 10 + (*p - '0'), XCRYPT_MAX_KEY_SIZE + 1);
	if (p == text || p[0] != ':' || !p[1]) {
		DMERR("the key must be :<size>:<type>:<description>");
		return -EINVAL;
	}
	return size;
}

/**
 * xcrypt_key_parse_size() - how many bytes a key text stands for
 * @text: hex digits, or "-", or ":<size>:<type>:<description>"
 *
 * Looks at the length only: whether the digits are hex shows later.  An odd
 * last digit does not count, as ever ("-" and a single digit are 0 bytes).
 *
 * Context: any.
 * Return: bytes, or -EINVAL after a line in the log.
 */
int xcrypt_key_parse_size(const char *text)
{
	size_t digits;
	int size;

	if (text[0] == ':') {
		size = scan_size(text + 1);
	} else {
		digits = strnlen(text, 2 * XCRYPT_MAX_KEY_SIZE + 2);
		size = digits / 2;
	}
	if (size > (int)XCRYPT_MAX_KEY_SIZE) {
		DMERR("the key is too long: over %u bytes", XCRYPT_MAX_KEY_SIZE);
		return -EINVAL;
	}
	return size;
}

/**
 * xcrypt_key_alloc() - memory for the key
 * @cc: key_size and mac_key_size are set
 *
 * Context: process, sleeps.
 * Return: 0 or -ENOMEM; xcrypt_key_free() undoes it in both cases.
 */
int xcrypt_key_alloc(struct crypt_config *cc)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_NOWARN;

	cc->key = kvzalloc(max(cc->key_size, 1U), gfp);
	if (!cc->key)
		return -ENOMEM;
	if (!cc->mac_key_size)
		return 0;
	cc->authenc_key_size = RTA_SPACE(sizeof(struct crypto_authenc_key_param)) + cc->key_size;
	cc->authenc_key = kvzalloc(cc->authenc_key_size, gfp);
	return cc->authenc_key ? 0 : -ENOMEM;
}

/**
 * xcrypt_key_free() - free what xcrypt_key_alloc() and xcrypt_key_set() made
 * @cc: may be in any state of its construction
 *
 * Context: process, sleeps.
 */
void xcrypt_key_free(struct crypt_config *cc)
{
	/* Whoever is done with a key zeroes it; this is the second net. */
	kvfree_sensitive(cc->key, cc->key_size);
	cc->key = NULL;
	kvfree_sensitive(cc->authenc_key, cc->authenc_key_size);
	cc->authenc_key = NULL;
	kfree_sensitive(cc->key_string);
	cc->key_string = NULL;
}

static void drop_key_string(struct crypt_config *cc)
{
	kfree_sensitive(cc->key_string);
	cc->key_string = NULL;
}

static unsigned int subkey_size(const struct crypt_config *cc)
{
	return (cc->key_size - cc->iv.key_extra) / cc->tfms_count;
}

/*
 * The table has the cipher's key ahead of the MAC's; authenc takes one blob: an
 * rtattr that says how long the cipher's key is, the MAC's key, the cipher's.
 */
static int set_authenc(struct crypt_config *cc)
{
	unsigned int cipher_size = cc->key_size - cc->mac_key_size;
	struct crypto_authenc_key_param *param;
	struct rtattr *rta = (struct rtattr *)cc->authenc_key;
	u8 *keys = cc->authenc_key + RTA_SPACE(sizeof(*param));
	int r;

	if (cc->key_size < cc->mac_key_size) {
		DMERR("a key of %u bytes, the MAC alone takes %u", cc->key_size, cc->mac_key_size);
		return -EINVAL;
	}
	rta->rta_type = CRYPTO_AUTHENC_KEYA_PARAM;
	rta->rta_len = RTA_LENGTH(sizeof(*param));
	param = RTA_DATA(rta);
	param->enckeylen = cpu_to_be32(cipher_size);
	memcpy(keys, cc->key + cipher_size, cc->mac_key_size);
	memcpy(keys + cc->mac_key_size, cc->key, cipher_size);
	r = crypto_aead_setkey(cc->aead, cc->authenc_key, cc->authenc_key_size);
	memzero_explicit(cc->authenc_key, cc->authenc_key_size);
	return r;
}

/* Each transform gets its part of cc->key.  Returns the first error. */
static int set_ciphers(struct crypt_config *cc)
{
	unsigned int size = subkey_size(cc);
	unsigned int i;
	int r = 0;

	if (cc->authenc_key)
		return set_authenc(cc);
	if (cc->aead)
		return crypto_aead_setkey(cc->aead, cc->key, size);
	for (i = 0; i < cc->tfms_count && !r; i++)
		r = crypto_skcipher_setkey(cc->tfms[i], cc->key + i * size, size);
	return r;
}

/*
 * Make the ciphers, the IV generator and cc->key forget the key.  There is no
 * interface to take the key of a cipher away, so it gets a random one.
 */
static int forget_key(struct crypt_config *cc)
{
	int r;

	clear_bit(XCRYPT_KEY_VALID, &cc->flags);
	drop_key_string(cc);
	get_random_bytes(cc->key, cc->key_size);
	r = set_ciphers(cc);
	if (r)
		DMERR("%s refuses a random key: %d, it may still hold the last one",
		      cc->cipher_api, r);
	xcrypt_iv_wipe(&cc->iv);
	memzero_explicit(cc->key, cc->key_size);
	return r;
}

/*
 * Hex digits to cc->key.  Digits that are not hex cost the old key: part of it
 * was overwritten, and cryptsetup relies on nothing else.
 */
static int load_hex(struct crypt_config *cc, const char *text)
{
	clear_bit(XCRYPT_KEY_VALID, &cc->flags);
	drop_key_string(cc);
	if (hex2bin(cc->key, text, cc->key_size)) {
		DMERR("the key of %u digits holds other than hex digits",
		      2 * cc->key_size);
		return -EINVAL;
	}
	return 0;
}

/* Copy the payload to cc->key if it fits; else nothing changes. */
static int copy_payload(struct crypt_config *cc, struct key *key,
			const struct xcrypt_key_type *type)
{
	unsigned int size;
	const u8 *data;
	int r;

	down_read(&key->sem);
	r = type->payload(key, &data, &size);
	if (!r && size != cc->key_size) {
		DMERR("the %s key in the keyring has %u bytes, the table says %u",
		      type->type->name, size, cc->key_size);
		r = -EINVAL;
	}
	if (!r)
		memcpy(cc->key, data, size);
	up_read(&key->sem);
	return r;
}

/*
 * Look the key up in the keyrings of the caller.  No call-out string: a key
 * that is not there is not asked for in user space, which may be waiting for
 * this very device.
 */
static int fetch_payload(struct crypt_config *cc, const char *description,
			 const struct xcrypt_key_type *type)
{
	struct key *key;
	int r;

	key = request_key(type->type, description, NULL);
	if (IS_ERR(key)) {
		r = PTR_ERR(key);
		DMERR("no %s key of this description in the keyrings of the caller: %d",
		      type->type->name, r);
		return r;
	}
	r = copy_payload(cc, key, type);
	key_put(key);
	return r;
}

/* The entry of key_types that text begins with, or NULL. */
static const struct xcrypt_key_type *find_type(const char *text)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(key_types); i++)
		if (key_types[i].type && strstarts(text, key_types[i].prefix))
			return &key_types[i];
	return NULL;
}

/* White space would not come back from a table line that status printed. */
static bool has_space(const char *text)
{
	for (; *text; text++)
		if (isspace(*text))
			return true;
	return false;
}

/*
 * ":<size>:<type>:<description>" to cc->key and cc->key_string.  Until the
 * payload is there nothing changes: the old key stays good.
 */
static int load_keyring(struct crypt_config *cc, const char *text)
{
	const char *rest = strchr(text + 1, ':') + 1;
	const struct xcrypt_key_type *type = find_type(rest);
	const char *description;
	char *string;
	int r;

	if (has_space(text)) {
		DMERR("white space in the description of a key is not possible");
		return -EINVAL;
	}
	description = type ? rest + strlen(type->prefix) : "";
	if (!*description) {
		DMERR("the key must name a type that this kernel has, and a description");
		return -EINVAL;
	}

	string = kasprintf(GFP_KERNEL, ":%u:%s", cc->key_size, rest);
	if (!string)
		return -ENOMEM;
	r = fetch_payload(cc, description, type);
	if (r) {
		kfree_sensitive(string);
		return r;
	}
	clear_bit(XCRYPT_KEY_VALID, &cc->flags);
	drop_key_string(cc);
	cc->key_string = string;
	return 0;
}

static int load_key(struct crypt_config *cc, const char *text)
{
	if (!cc->key_size && strcmp(text, "-")) {
		DMERR("a key of 0 bytes is written as -");
		return -EINVAL;
	}
	return text[0] == ':' ? load_keyring(cc, text) : load_hex(cc, text);
}

/* An AEAD does not tell which sizes it takes. */
static void explain_key(struct crypt_config *cc, int error)
{
	if (cc->aead)
		DMERR("%s refuses the key: %d (%u bytes, %u of them are the MAC's)",
		      cc->cipher_api, error, cc->key_size, cc->mac_key_size);
	else
		DMERR("%s refuses the key: %d (%u bytes of a key of %u; it takes %u to %u)",
		      cc->cipher_api, error, subkey_size(cc), cc->key_size,
		      crypto_skcipher_min_keysize(cc->tfms[0]),
		      crypto_skcipher_max_keysize(cc->tfms[0]));
}

/* Give the key in cc->key to whoever encrypts with it. */
static int install_key(struct crypt_config *cc, char **error)
{
	int r;

	r = set_ciphers(cc);
	if (r) {
		explain_key(cc, r);
		return r;
	}
	r = xcrypt_iv_init(&cc->iv, cc->key);
	if (r) {
		DMERR("the IV generator refuses the key of %u bytes: %d", cc->key_size, r);
		*error = "Error initialising IV";
		return r;
	}
	if (cc->key_string)
		memzero_explicit(cc->key, cc->key_size);
	set_bit(XCRYPT_KEY_VALID, &cc->flags);
	return 0;
}

/**
 * xcrypt_key_set() - take a key from its text
 * @cc: ciphers and IV generator are made; key_size is the size of the text
 * @text: overwritten in every case
 * @error: set to a text for the caller on failure
 *
 * Also initialises the IV generator, so that the bytes of a keyring key are
 * needed no longer and zeroed on return.  If the keyring does not give a key
 * of key_size bytes, the old key stays in force; after any other failure
 * XCRYPT_KEY_VALID is off, cc->key is zero, and what the ciphers hold is
 * undefined.
 *
 * Context: process, sleeps; no bio is inside; memalloc_noio is on, and
 * key_lock is held unless in ctr.
 * Return: 0; -EINVAL for what the text or the ciphers do not allow, what the
 * keyring says (-ENOKEY, -EKEYREVOKED, ...), or -ENOMEM.
 */
int xcrypt_key_set(struct crypt_config *cc, char *text, char **error)
{
	int r;

	*error = "Error decoding and setting key";
	r = load_key(cc, text);
	xcrypt_key_text_wipe(text);
	if (!r)
		r = install_key(cc, error);
	if (r && !test_bit(XCRYPT_KEY_VALID, &cc->flags))
		memzero_explicit(cc->key, cc->key_size);
	return r;
}

/**
 * xcrypt_key_replace() - the message "key set"
 * @cc: suspended
 * @text: overwritten in every case
 *
 * Context: as xcrypt_key_set(), with key_lock held.
 * Return: as xcrypt_key_set(); -EINVAL if the size is not that of the table,
 * the old key stays in force then.
 */
int xcrypt_key_replace(struct crypt_config *cc, char *text)
{
	int size = xcrypt_key_parse_size(text);
	char *error;
	int r;

	if (size < 0 || size != cc->key_size) {
		xcrypt_key_text_wipe(text);
		if (size >= 0)
			DMERR("key set: the key has %d bytes, the table's has %u",
			      size, cc->key_size);
		return -EINVAL;
	}

	r = xcrypt_key_set(cc, text, &error);
	/* not the old key any more, maybe a bit of both: neither may stay */
	if (r && !test_bit(XCRYPT_KEY_VALID, &cc->flags))
		forget_key(cc);
	return r;
}

/**
 * xcrypt_key_wipe() - the message "key wipe"
 * @cc: suspended
 *
 * Context: process, sleeps; no bio is inside; memalloc_noio is on and key_lock
 * is held.
 * Return: 0, or the -errno with which a cipher refused the random key that was
 * to overwrite the old one; it may then still hold the old one.
 */
int xcrypt_key_wipe(struct crypt_config *cc)
{
	return forget_key(cc);
}

/**
 * xcrypt_tfm() - the cipher, for what all kinds of them have
 * @cc: after xcrypt_tfms_alloc()
 *
 * Context: any.
 * Return: the AEAD, or the transform of the first key
 */
struct crypto_tfm *xcrypt_tfm(struct crypt_config *cc)
{
	return cc->aead ? crypto_aead_tfm(cc->aead) : crypto_skcipher_tfm(cc->tfms[0]);
}

/* Bytes of the MAC's key unless the table says another: as many as its digest. */
static int digest_size(const char *mac)
{
	struct crypto_ahash *tfm = crypto_alloc_ahash(mac, 0, CRYPTO_ALG_ALLOCATES_MEMORY);
	int size;

	if (IS_ERR(tfm)) {
		DMERR("cannot allocate MAC %s: %ld", mac, PTR_ERR(tfm));
		return PTR_ERR(tfm);
	}
	size = crypto_ahash_digestsize(tfm);
	crypto_free_ahash(tfm);
	return size;
}

/**
 * xcrypt_mac_ctr() - how much of the key is the MAC's
 * @cc: with its AEAD; sets mac_key_size, to 0 if the AEAD has one key
 * @cipher: the crypto API's name without an essiv() around it
 *
 * Context: process, sleeps; memalloc_noio is on.
 * Return: 0 or -errno, with a line in the log.
 */
int xcrypt_mac_ctr(struct crypt_config *cc, const char *cipher)
{
	static const char authenc[] = "authenc(";
	const char *mac = cipher + strlen(authenc);
	char *name;
	int size;

	if (!strstarts(cipher, authenc))
		return 0;
	name = kstrndup(mac, strcspn(mac, ","), GFP_KERNEL);
	if (!name)
		return -ENOMEM;
	size = digest_size(name);
	kfree(name);
	if (size < 0)
		return size;
	cc->mac_key_size = cc->integrity.key_option ?: size;
	return 0;
}

static int aead_alloc(struct crypt_config *cc)
{
	struct crypto_aead *aead;

	aead = crypto_alloc_aead(cc->cipher_api, 0, CRYPTO_ALG_ALLOCATES_MEMORY);
	if (IS_ERR(aead)) {
		DMERR("cannot allocate AEAD cipher %s: %ld", cc->cipher_api, PTR_ERR(aead));
		return PTR_ERR(aead);
	}
	cc->aead = aead;
	DMDEBUG_LIMIT("%s using implementation \"%s\"", cc->cipher_api,
		      crypto_tfm_alg_driver_name(xcrypt_tfm(cc)));
	return 0;
}

/**
 * xcrypt_tfms_alloc() - allocate the cipher, once for each key
 * @cc: cipher_api, tfms_count and integrity.aead are set
 *
 * A cipher that allocates memory for each request could wait for the very
 * write that it is to encrypt; the mask keeps such ones away.
 *
 * Context: process, sleeps; memalloc_noio is on.
 * Return: 0 or the crypto API's -errno, with a line in the log;
 * xcrypt_tfms_free() undoes it in both cases.
 */
int xcrypt_tfms_alloc(struct crypt_config *cc)
{
	struct crypto_skcipher *tfm;
	unsigned int i;

	if (cc->integrity.aead)
		return aead_alloc(cc);

	cc->tfms = kvcalloc(cc->tfms_count, sizeof(*cc->tfms), GFP_KERNEL | __GFP_NOWARN);
	if (!cc->tfms)
		return -ENOMEM;

	for (i = 0; i < cc->tfms_count; i++) {
		tfm = crypto_alloc_skcipher(cc->cipher_api, 0, CRYPTO_ALG_ALLOCATES_MEMORY);
		if (IS_ERR(tfm)) {
			DMERR("cannot allocate cipher %s (%u of %u): %ld",
			      cc->cipher_api, i + 1, cc->tfms_count, PTR_ERR(tfm));
			return PTR_ERR(tfm);
		}
		cc->tfms[i] = tfm;
	}

	DMDEBUG_LIMIT("%s using implementation \"%s\"", cc->cipher_api,
		      crypto_skcipher_driver_name(cc->tfms[0]));
	return 0;
}

/**
 * xcrypt_tfms_free() - free the ciphers; the crypto API zeroes their keys
 * @cc: may be in any state of its construction
 *
 * Context: process, sleeps.
 */
void xcrypt_tfms_free(struct crypt_config *cc)
{
	unsigned int i;

	crypto_free_aead(cc->aead);
	cc->aead = NULL;
	for (i = 0; cc->tfms && i < cc->tfms_count; i++)
		crypto_free_skcipher(cc->tfms[i]);
	kvfree(cc->tfms);
	cc->tfms = NULL;
}

/* Bytes; longest IV, and strictest alignment, that an IV cipher may have. */
#define IV_CIPHER_MAX_SIZE	32
#define IV_CIPHER_MAX_ALIGN	64

/*
 * The cipher that eboiv and elephant encrypt one block with; xcrypt_iv.cipher
 * points to it.  Either sync is set: its requests fit on a stack, any number
 * of them run at a time, none sleeps.  Or there is no such cipher, and there
 * is one request for everybody, under a lock.
 */
struct xcrypt_iv_cipher {
	struct crypto_sync_skcipher *sync;	/* C  NULL: async is used */
	struct crypto_skcipher *async;		/* C */
	struct skcipher_request *req;		/* L  of async */
	u8 *iv;					/* L  hardware may write it */
	u8 *data;				/* L  hardware writes it */
	struct mutex lock;
};

static struct crypto_skcipher *iv_cipher_tfm(struct xcrypt_iv_cipher *cipher)
{
	return cipher->sync ? &cipher->sync->base : cipher->async;
}

/*
 * A synchronous implementation, or NULL.  crypto_alloc_sync_skcipher() throws
 * a stack trace at a cipher whose requests are too large for the stack, so
 * look before.
 */
static struct crypto_sync_skcipher *alloc_sync(const char *cipher_api)
{
	const u32 mask = CRYPTO_ALG_ALLOCATES_MEMORY;
	struct crypto_sync_skcipher *sync;
	struct crypto_skcipher *tfm;
	bool fits;

	tfm = crypto_alloc_skcipher(cipher_api, 0, mask | CRYPTO_ALG_ASYNC);
	if (IS_ERR(tfm))
		return NULL;
	fits = crypto_skcipher_reqsize(tfm) <= MAX_SYNC_SKCIPHER_REQSIZE;
	crypto_free_skcipher(tfm);
	if (!fits)
		return NULL;

	sync = crypto_alloc_sync_skcipher(cipher_api, 0, mask);
	return IS_ERR(sync) ? NULL : sync;
}

/* Any implementation, with its request.  Returns 0 or -errno. */
static int alloc_async(struct xcrypt_iv_cipher *cipher, const char *cipher_api)
{
	struct crypto_skcipher *tfm;

	tfm = crypto_alloc_skcipher(cipher_api, 0, CRYPTO_ALG_ALLOCATES_MEMORY);
	if (IS_ERR(tfm))
		return PTR_ERR(tfm);
	cipher->async = tfm;
	cipher->req = skcipher_request_alloc(tfm, GFP_KERNEL);
	cipher->iv = kzalloc(IV_CIPHER_MAX_SIZE, GFP_KERNEL);
	cipher->data = kzalloc(IV_CIPHER_MAX_SIZE, GFP_KERNEL);
	return cipher->req && cipher->iv && cipher->data ? 0 : -ENOMEM;
}

/**
 * xcrypt_iv_cipher_alloc() - the cipher for eboiv and elephant
 * @iv: size is set; gets cipher, and sleeps if need be
 * @cipher_api: name of the cipher whose IVs these are
 *
 * Context: process, sleeps; memalloc_noio is on.
 * Return: 0 or -errno, with a line in the log; xcrypt_iv_cipher_free() undoes
 * it in both cases.
 */
int xcrypt_iv_cipher_alloc(struct xcrypt_iv *iv, const char *cipher_api)
{
	struct xcrypt_iv_cipher *cipher;
	unsigned int align;
	int r = 0;

	cipher = kzalloc(sizeof(*cipher), GFP_KERNEL);
	if (!cipher)
		return -ENOMEM;
	iv->cipher = cipher;
	mutex_init(&cipher->lock);

	cipher->sync = alloc_sync(cipher_api);
	if (!cipher->sync) {
		r = alloc_async(cipher, cipher_api);
		iv->sleeps = true;
	}
	if (r) {
		DMERR("cannot allocate cipher %s for IVs: %d", cipher_api, r);
		return r;
	}

	align = crypto_skcipher_alignmask(iv_cipher_tfm(cipher)) + 1;
	if (iv->size > IV_CIPHER_MAX_SIZE || align > IV_CIPHER_MAX_ALIGN) {
		DMERR("cipher %s: IVs of %u bytes, aligned to %u; the most here is %u and %u",
		      cipher_api, iv->size, align, IV_CIPHER_MAX_SIZE, IV_CIPHER_MAX_ALIGN);
		return -EINVAL;
	}
	return 0;
}

/**
 * xcrypt_iv_cipher_free() - undo xcrypt_iv_cipher_alloc(), if it was called
 * @iv: of the device
 *
 * Context: process, sleeps.
 */
void xcrypt_iv_cipher_free(struct xcrypt_iv *iv)
{
	struct xcrypt_iv_cipher *cipher = iv->cipher;

	if (!cipher)
		return;
	if (cipher->sync)
		crypto_free_sync_skcipher(cipher->sync);
	skcipher_request_free(cipher->req);
	crypto_free_skcipher(cipher->async);
	kfree_sensitive(cipher->iv);
	kfree_sensitive(cipher->data);
	kfree_sensitive(cipher);
	iv->cipher = NULL;
}

/**
 * xcrypt_iv_cipher_setkey() - the key for xcrypt_iv_cipher_block()
 * @iv: with its cipher
 * @key: of transform 0
 * @size: bytes
 *
 * Context: process, sleeps; no bio is inside.
 * Return: 0 or the cipher's -errno.
 */
int xcrypt_iv_cipher_setkey(struct xcrypt_iv *iv, const u8 *key, unsigned int size)
{
	return crypto_skcipher_setkey(iv_cipher_tfm(iv->cipher), key, size);
}

/*
 * The copy of the IV is on the stack: synchronous ciphers do not hand it to
 * hardware.  It is aligned by hand, as the compiler may trust a stack that the
 * kernel does not align; a cipher would allocate memory for one that is not.
 */
static int block_sync(struct xcrypt_iv_cipher *cipher, u8 *block, unsigned int size)
{
	SYNC_SKCIPHER_REQUEST_ON_STACK(req, cipher->sync);
	u8 room[IV_CIPHER_MAX_SIZE + IV_CIPHER_MAX_ALIGN];
	u8 *copy = PTR_ALIGN(&room[0], IV_CIPHER_MAX_ALIGN);
	struct scatterlist sg;
	int r;

	memcpy(copy, block, size);
	memset(block, 0, size);
	sg_init_one(&sg, block, size);
	skcipher_request_set_sync_tfm(req, cipher->sync);
	skcipher_request_set_callback(req, 0, NULL, NULL);
	skcipher_request_set_crypt(req, &sg, &sg, size, copy);
	r = crypto_skcipher_encrypt(req);
	skcipher_request_zero(req);
	return r;
}

static int block_async(struct xcrypt_iv_cipher *cipher, u8 *block, unsigned int size)
{
	DECLARE_CRYPTO_WAIT(wait);
	struct scatterlist sg;
	int r;

	mutex_lock(&cipher->lock);
	memcpy(cipher->iv, block, size);
	memset(cipher->data, 0, size);
	sg_init_one(&sg, cipher->data, size);
	skcipher_request_set_callback(cipher->req,
				      CRYPTO_TFM_REQ_MAY_BACKLOG | CRYPTO_TFM_REQ_MAY_SLEEP,
				      crypto_req_done, &wait);
	skcipher_request_set_crypt(cipher->req, &sg, &sg, size, cipher->iv);
	r = crypto_wait_req(crypto_skcipher_encrypt(cipher->req), &wait);
	memcpy(block, cipher->data, size);
	mutex_unlock(&cipher->lock);
	return r;
}

/**
 * xcrypt_iv_cipher_block() - encrypt one block of zeros
 * @iv: with its cipher, key set
 * @block: in: the IV, iv->size bytes; out: the block.  The same bytes are the
 *	cipher's data, so they must be kmalloc memory (a request's IV is).
 *
 * Context: any but hard irq, does not sleep; process and sleeps if iv->sleeps.
 * Return: 0 or the cipher's -errno.
 */
int xcrypt_iv_cipher_block(struct xcrypt_iv *iv, u8 *block)
{
	struct xcrypt_iv_cipher *cipher = iv->cipher;

	if (cipher->sync)
		return block_sync(cipher, block, iv->size);
	might_sleep();
	return block_async(cipher, block, iv->size);
}
