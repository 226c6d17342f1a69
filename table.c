// SPDX-License-Identifier: GPL-2.0
/*
 * The table line, in and out: the constructor and destructor, status,
 * messages, suspend and resume, limits.  Nothing here is on the road of a bio.
 *
 *   <cipher> <key> <iv_offset> <device> <start> [<n> <word> ... n]
 *
 * The constructor is a list of stages, see ctr_stages[].  Each takes its part
 * of the line, sets ti->error if it does not like it, and says the numbers in
 * the log.  The order of the stages is the order in which in-tree dm-crypt
 * looks at the fields, so that a line with two faults mostly gets the same
 * errno.  Not so an IV generator that can't work together with a keyring key
 * that is not there: ours looks at the generator first, which lays the key out.
 */
#include <linux/blkdev.h>
#include <linux/ctype.h>
#include <linux/delay.h>
#include <linux/log2.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "dm-xcrypt.h"

/* Fields of the line ahead of the options. */
enum { ARG_CIPHER, ARG_KEY, ARG_IV_OFFSET, ARG_DEVICE, ARG_START, ARG_OPTIONS };

/* Words of options; more than there are different ones is a mistake. */
#define XCRYPT_MAX_OPTIONS	10

/* Keys that a cipher text may name. */
#define XCRYPT_MAX_KEYS		65536U

/* loop-AES: as many keys if the cipher text cannot say it (capi:...-lmk). */
#define XCRYPT_LMK_KEYS		64

/* The options that are one word, in the order of the TABLE status. */
static const struct xcrypt_word {
	const char *word;
	enum xcrypt_flag flag;
} option_words[] = {
	{ "allow_discards", XCRYPT_ALLOW_DISCARDS },
	{ "same_cpu_crypt", XCRYPT_SAME_CPU },
	{ "high_priority", XCRYPT_HIGH_PRIORITY },
	{ "submit_from_crypt_cpus", XCRYPT_SUBMIT_FROM_CRYPT },
	{ "no_read_workqueue", XCRYPT_NO_READ_WORKQUEUE },
	{ "no_write_workqueue", XCRYPT_NO_WRITE_WORKQUEUE },
	{ "iv_large_sectors", XCRYPT_IV_LARGE_SECTORS },
};

/* Bytes; the most that integrity:N:type may ask for. */
#define XCRYPT_MAX_TAG		480U

/* What the cipher field says; all strings lie in one copy of it. */
struct cipher_spec {
	const char *cipher;	/* name, or a whole crypto API name */
	const char *mode;	/* NULL if cipher is a whole name */
	const char *ivmode;	/* NULL if there is none */
	const char *ivopts;	/* NULL if there are none */
	unsigned int keys;
};

/* What no field of ti says to the log: which line of which device. */
#define CTR_ERR(ti, fmt, ...) \
	DMERR("%s: " fmt, dm_table_device_name((ti)->table), ##__VA_ARGS__)

static int refuse(struct dm_target *ti, char *error, int r)
{
	ti->error = error;
	return r;
}

/*
 * Decimal digits and nothing else.  Returns 0, -EINVAL, or -ERANGE for a
 * number of 2^64 or more.
 */
static int parse_u64(const char *text, u64 *number)
{
	if (!*text || text[strspn(text, "0123456789")])
		return -EINVAL;
	return kstrtoull(text, 10, number);
}

static int parse_sector_size(struct dm_target *ti, const char *value)
{
	struct crypt_config *cc = ti->private;
	u64 size;

	if (parse_u64(value, &size) || size < 1 << SECTOR_SHIFT ||
	    size > XCRYPT_MAX_SECTOR_SIZE || !is_power_of_2(size)) {
		CTR_ERR(ti, "sector_size:%s is not a power of 2 from %u to %u",
			value, 1 << SECTOR_SHIFT, XCRYPT_MAX_SECTOR_SIZE);
		return refuse(ti, "Invalid feature value for sector_size", -EINVAL);
	}
	if (ti->len & ((size >> SECTOR_SHIFT) - 1)) {
		CTR_ERR(ti, "%llu sectors of 512 bytes do not make whole sectors of %llu",
			(unsigned long long)ti->len, size);
		return refuse(ti, "Device size is not multiple of sector_size feature", -EINVAL);
	}
	cc->sector_size = size;
	cc->sector_shift = ilog2(size >> SECTOR_SHIFT);
	return 0;
}

static int parse_integrity(struct dm_target *ti, const char *value)
{
	struct crypt_config *cc = ti->private;
	struct xcrypt_integrity *in = &cc->integrity;
	size_t digits = strcspn(value, ":");
	const char *type = value + digits + 1;
	char number[8] = {};
	u64 size;

	if (value[digits] && digits < sizeof(number))
		memcpy(number, value, digits);
	if (parse_u64(number, &size) || !size || size > XCRYPT_MAX_TAG) {
		CTR_ERR(ti, "integrity:%s is not integrity:<bytes>:<none|aead> with 1 to %u bytes",
			value, XCRYPT_MAX_TAG);
		return refuse(ti, "Invalid integrity arguments", -EINVAL);
	}
	if (strcasecmp(type, "aead") && strcasecmp(type, "none")) {
		CTR_ERR(ti, "integrity type %s is neither none nor aead", type);
		return refuse(ti, "Unknown integrity profile", -EINVAL);
	}
	/* of two the last one counts, whole */
	kfree(in->type);
	in->type = kstrdup(type, GFP_KERNEL);
	if (!in->type)
		return refuse(ti, "Cannot allocate the integrity type", -ENOMEM);
	in->option = size;
	in->aead = !strcasecmp(type, "aead");
	return 0;
}

static int parse_integrity_key_size(struct dm_target *ti, const char *value)
{
	struct crypt_config *cc = ti->private;
	u64 size;

	if (parse_u64(value, &size) || !size || size > U32_MAX) {
		CTR_ERR(ti, "integrity_key_size:%s is not a number of bytes from 1 on", value);
		return refuse(ti, "Invalid integrity_key_size argument", -EINVAL);
	}
	cc->integrity.key_option = size;
	return 0;
}

/* The options that have a value behind their colon. */
static const struct xcrypt_valued {
	const char *prefix;
	int (*parse)(struct dm_target *ti, const char *value);
} option_values[] = {
	{ "sector_size:", parse_sector_size },
	{ "integrity:", parse_integrity },
	{ "integrity_key_size:", parse_integrity_key_size },
};

static int parse_option(struct dm_target *ti, const char *option)
{
	struct crypt_config *cc = ti->private;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(option_words); i++) {
		if (!strcasecmp(option, option_words[i].word)) {
			set_bit(option_words[i].flag, &cc->flags);
			return 0;
		}
	}
	for (i = 0; i < ARRAY_SIZE(option_values); i++) {
		const char *prefix = option_values[i].prefix;

		if (strstarts(option, prefix))
			return option_values[i].parse(ti, option + strlen(prefix));
	}
	CTR_ERR(ti, "unknown option %s", option);
	return refuse(ti, "Invalid feature arguments", -EINVAL);
}

/*
 * The options come first: the cipher and iv_offset depend on sector_size.
 * Words beyond the count are ignored, as they always were.
 */
static int ctr_options(struct dm_target *ti, unsigned int argc, char **argv)
{
	static const struct dm_arg count = {
		0, XCRYPT_MAX_OPTIONS, "Invalid number of feature args",
	};
	struct dm_arg_set as = { argc - ARG_OPTIONS, argv + ARG_OPTIONS };
	struct crypt_config *cc = ti->private;
	unsigned int words;
	int r = 0;

	cc->sector_size = 1 << SECTOR_SHIFT;
	if (!as.argc)
		return 0;
	if (dm_read_arg_group(&count, &as, &words, &ti->error)) {
		CTR_ERR(ti, "option count %s: the most is %u, and %u words follow",
			argv[ARG_OPTIONS], XCRYPT_MAX_OPTIONS, argc - ARG_OPTIONS - 1);
		return -EINVAL;
	}
	while (words-- && !r)
		r = parse_option(ti, dm_shift_arg(&as));
	return r;
}

/* The count of "cipher:count"; NULL means one. */
static int parse_key_count(struct dm_target *ti, const char *text, unsigned int *keys)
{
	u64 number = 1;

	if (text && (parse_u64(text, &number) || !is_power_of_2(number) ||
		     number > XCRYPT_MAX_KEYS)) {
		CTR_ERR(ti, "key count %s is not a power of 2 up to %u", text, XCRYPT_MAX_KEYS);
		return refuse(ti, "Bad cipher key count specification", -EINVAL);
	}
	*keys = number;
	return 0;
}

/*
 * cipher[:keycount]-mode[-ivmode[:ivopts]].  The first dm-crypt knew one mode:
 * "aes" and "aes-plain" still mean aes-cbc-plain.
 */
static int parse_legacy(struct dm_target *ti, char *text, struct cipher_spec *spec)
{
	struct crypt_config *cc = ti->private;
	char *cipher, *mode;
	int r;

	if (cc->integrity.aead) {
		CTR_ERR(ti, "cipher %s: integrity:%u:%s needs capi: and a crypto API name",
			text, cc->integrity.option, cc->integrity.type);
		return refuse(ti, "Bad cipher specification", -EINVAL);
	}
	if (strchr(text, '(')) {
		CTR_ERR(ti, "cipher %s: names of the crypto API need capi: in front", text);
		return refuse(ti, "Bad cipher specification", -EINVAL);
	}

	cipher = strsep(&text, "-");
	spec->cipher = strsep(&cipher, ":");
	r = parse_key_count(ti, cipher, &spec->keys);
	if (r)
		return r;

	/* a hash for essiv may have a dash in its name: sha3-256 */
	mode = strsep(&text, "-");
	spec->mode = mode;
	spec->ivmode = strsep(&text, ":");
	spec->ivopts = text;

	if (!mode || (!strcmp(mode, "plain") && !spec->ivmode)) {
		spec->mode = "cbc";
		spec->ivmode = "plain";
	}
	if (!spec->ivmode && strcmp(spec->mode, "ecb")) {
		CTR_ERR(ti, "cipher mode %s needs an IV mode, only ecb does not", spec->mode);
		return refuse(ti, "IV mechanism required", -EINVAL);
	}
	return 0;
}

/*
 * <crypto API name>[-ivmode[:ivopts]].  The name may hold colons and dashes
 * itself, so the last ones count.
 */
static int parse_capi(struct dm_target *ti, char *text, struct cipher_spec *spec)
{
	char *p;

	spec->cipher = text;
	spec->keys = 1;

	p = strrchr(text, ':');
	if (p) {
		*p++ = '\0';
		spec->ivopts = p;
	}
	p = strrchr(text, '-');
	if (p) {
		*p++ = '\0';
		spec->ivmode = p;
		if (!strcmp(p, "lmk"))
			spec->keys = XCRYPT_LMK_KEYS;
	}
	return 0;
}

/*
 * The name for the crypto API.  essiv is a template there: around the cipher,
 * with the hash.
 */
static int name_cipher(struct dm_target *ti, const struct cipher_spec *spec)
{
	struct crypt_config *cc = ti->private;
	bool essiv = spec->ivmode && !strcmp(spec->ivmode, "essiv");

	if (essiv && !spec->ivopts) {
		CTR_ERR(ti, "IV mode essiv needs a hash, as in essiv:sha256");
		return refuse(ti, "Digest algorithm missing for ESSIV mode", -EINVAL);
	}
	cc->cipher_api = kasprintf(GFP_KERNEL, "%s%s%s%s%s%s%s%s",
				   essiv ? "essiv(" : "",
				   spec->mode ? spec->mode : "", spec->mode ? "(" : "",
				   spec->cipher, spec->mode ? ")" : "",
				   essiv ? "," : "", essiv ? spec->ivopts : "",
				   essiv ? ")" : "");
	if (!cc->cipher_api)
		return refuse(ti, "Cannot allocate cipher strings", -ENOMEM);
	if (strlen(cc->cipher_api) >= CRYPTO_MAX_ALG_NAME) {
		CTR_ERR(ti, "cipher name of %zu bytes, the most is %d",
			strlen(cc->cipher_api), CRYPTO_MAX_ALG_NAME - 1);
		/* capi: the name is the user's own, and there is none like it */
		return refuse(ti, "Cannot allocate cipher string",
			      essiv || spec->mode ? -ENOMEM : -ENOENT);
	}
	return 0;
}

/* How the key of an AEAD is laid out: authenc() has a second one for the MAC. */
static int make_mac(struct dm_target *ti, const char *cipher)
{
	struct crypt_config *cc = ti->private;
	int r;

	if (!cc->aead)
		return 0;
	r = xcrypt_mac_ctr(cc, cipher);
	if (r)
		return refuse(ti, "Invalid AEAD cipher spec", r);
	if (cc->integrity.key_option && !cc->mac_key_size) {
		CTR_ERR(ti, "integrity_key_size:%u is for authenc(), %s has no MAC key",
			cc->integrity.key_option, cipher);
		return refuse(ti, "integrity_key_size needs an authenc cipher", -EINVAL);
	}
	return 0;
}

static int make_cipher(struct dm_target *ti, const struct cipher_spec *spec)
{
	struct crypt_config *cc = ti->private;
	int r;

	r = name_cipher(ti, spec);
	if (r)
		return r;
	cc->tfms_count = spec->keys;
	r = xcrypt_tfms_alloc(cc);
	return r ? refuse(ti, "Error allocating crypto tfm", r) : make_mac(ti, spec->cipher);
}

/* The geometry that the IV generator is made for, and which one it is. */
static int find_iv(struct dm_target *ti, const struct cipher_spec *spec)
{
	struct crypt_config *cc = ti->private;
	unsigned int size = cc->aead ? crypto_aead_ivsize(cc->aead) :
				       crypto_skcipher_ivsize(cc->tfms[0]);

	/* every generator writes 8 bytes, the cipher may look at fewer */
	cc->iv.size = size ? max_t(unsigned int, size, sizeof(u64)) : 0;
	cc->iv.block_size = crypto_tfm_alg_blocksize(xcrypt_tfm(cc));
	cc->iv.aead = cc->aead;
	cc->iv.sector_size = cc->sector_size;
	cc->iv.key_size = cc->key_size;
	cc->iv.key_count = spec->keys;

	if (!spec->ivmode)
		return 0;
	if (!size) {
		DMWARN("cipher %s takes no IV, IV mode %s is ignored",
		       cc->cipher_api, spec->ivmode);
		return 0;
	}
	cc->iv.ops = xcrypt_iv_find(spec->ivmode);
	if (!cc->iv.ops) {
		CTR_ERR(ti, "unknown IV mode %s", spec->ivmode);
		return refuse(ti, "Invalid IV mode", -EINVAL);
	}
	return 0;
}

static int ctr_cipher(struct dm_target *ti, unsigned int argc, char **argv)
{
	static const char capi[] = "capi:";
	struct crypt_config *cc = ti->private;
	struct cipher_spec spec = {};
	char *copy;
	int r;

	copy = kstrdup(argv[ARG_CIPHER], GFP_KERNEL);
	cc->cipher_string = kstrdup(argv[ARG_CIPHER], GFP_KERNEL);
	if (!copy || !cc->cipher_string)
		r = refuse(ti, "Cannot allocate cipher strings", -ENOMEM);
	else if (strstarts(copy, capi))
		r = parse_capi(ti, copy + strlen(capi), &spec);
	else
		r = parse_legacy(ti, copy, &spec);
	if (!r)
		r = make_cipher(ti, &spec);
	if (!r)
		r = find_iv(ti, &spec);
	kfree(copy);
	return r;
}

/* Ahead of the key: the generator says which part of it the ciphers get. */
static int ctr_iv(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct crypt_config *cc = ti->private;
	int r;

	r = xcrypt_iv_ctr(&cc->iv, &ti->error);
	if (r)
		return r;
	if (!cc->iv.ops || !cc->iv.ops->needs_cipher)
		return 0;
	r = xcrypt_iv_cipher_alloc(&cc->iv, cc->cipher_api);
	return r ? refuse(ti, "Error creating IV", r) : 0;
}

static int ctr_key(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct crypt_config *cc = ti->private;

	if (xcrypt_key_alloc(cc))
		return refuse(ti, "Cannot allocate the key", -ENOMEM);
	return xcrypt_key_set(cc, argv[ARG_KEY], &ti->error);
}

/*
 * Memory per CPU is only taken from what is at hand while memalloc_noio is
 * on, and populated by a worker otherwise: when it runs out, give that worker
 * a little time.  Not forever, it may be waiting for our own device.
 */
static int retry_percpu(struct dm_target *ti, int (*init)(struct dm_target *ti),
			void (*exit)(struct crypt_config *cc))
{
	unsigned int tries = 10;
	int r;

	while ((r = init(ti)) == -ENOMEM && --tries) {
		exit(ti->private);
		msleep(20);
	}
	return r;
}

static int buffer_init(struct dm_target *ti)
{
	return xcrypt_buffer_init(ti->private);
}

static int ctr_pools(struct dm_target *ti, unsigned int argc, char **argv)
{
	int r;

	r = xcrypt_convert_layout(ti->private);
	if (r)
		return refuse(ti, "Cannot allocate crypt request mempool", r);
	r = retry_percpu(ti, buffer_init, xcrypt_buffer_exit);
	return r ? refuse(ti, "Cannot allocate page mempool or bioset", r) : 0;
}

static int ctr_iv_offset(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct crypt_config *cc = ti->private;
	int r;

	r = parse_u64(argv[ARG_IV_OFFSET], &cc->iv_offset);
	if (r) {
		CTR_ERR(ti, "iv_offset %s is not a decimal number%s",
			argv[ARG_IV_OFFSET], r == -ERANGE ? " below 2^64" : "");
		return refuse(ti, "Invalid iv_offset sector", -EINVAL);
	}
	if (cc->iv_offset & ((1 << cc->sector_shift) - 1)) {
		CTR_ERR(ti, "iv_offset %llu is not a multiple of %u (sectors of %u bytes)",
			cc->iv_offset, 1 << cc->sector_shift, cc->sector_size);
		return refuse(ti, "Invalid iv_offset sector", -EINVAL);
	}
	return 0;
}

static int ctr_device(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct crypt_config *cc = ti->private;
	u64 start;
	int r;

	r = dm_get_device(ti, argv[ARG_DEVICE], dm_table_get_mode(ti->table), &cc->dev);
	if (r) {
		CTR_ERR(ti, "device %s: %d", argv[ARG_DEVICE], r);
		return refuse(ti, "Device lookup failed", r);
	}
	if (parse_u64(argv[ARG_START], &start) || start != (sector_t)start) {
		CTR_ERR(ti, "start %s is not a decimal sector number of up to %zu bytes",
			argv[ARG_START], sizeof(sector_t));
		return refuse(ti, "Invalid device sector", -EINVAL);
	}
	cc->start = start;
	xcrypt_window_init(cc);
	if (bdev_is_zoned(cc->dev->bdev))
		xcrypt_zoned_ctr(ti);
	return 0;
}

static int ctr_integrity(struct dm_target *ti, unsigned int argc, char **argv)
{
	return xcrypt_integrity_ctr(ti);
}

static int queues_init(struct dm_target *ti)
{
	const char *device = dm_table_device_name(ti->table);
	struct crypt_config *cc = ti->private;
	bool steal = !test_bit(XCRYPT_SAME_CPU, &cc->flags);
	unsigned int flags = WQ_MEM_RECLAIM | WQ_PERCPU;
	char name[32];
	int r;

	if (test_bit(XCRYPT_HIGH_PRIORITY, &cc->flags))
		flags |= WQ_HIGHPRI;
	cc->io_queue = alloc_workqueue("kcryptd_io/%s", flags, 1, device);
	if (!cc->io_queue)
		return -ENOMEM;

	snprintf(name, sizeof(name), "kcryptd/%s", device);
	r = xcrypt_queue_init(&cc->read_queue, name, flags, steal, xcrypt_read_run);
	return r ? r : xcrypt_queue_init(&cc->write_queue, name, flags, steal, xcrypt_write_run);
}

/* Undoes queues_init(), done, failed half way, or never called. */
static void queues_exit(struct crypt_config *cc)
{
	xcrypt_queue_exit(&cc->write_queue);
	xcrypt_queue_exit(&cc->read_queue);
	if (cc->io_queue)
		destroy_workqueue(cc->io_queue);
	cc->io_queue = NULL;
}

static int ctr_queues(struct dm_target *ti, unsigned int argc, char **argv)
{
	int r = retry_percpu(ti, queues_init, queues_exit);

	return r ? refuse(ti, "Couldn't create kcryptd queues", r) : 0;
}

/* Sorting is for heads that move; the flags of dm-crypt go first. */
static enum xcrypt_order_mode order_mode(const struct crypt_config *cc)
{
	enum xcrypt_order_mode mode = xcrypt_default_order();

	if (test_bit(XCRYPT_NO_WRITE_WORKQUEUE, &cc->flags) ||
	    test_bit(XCRYPT_SUBMIT_FROM_CRYPT, &cc->flags))
		return XCRYPT_ORDER_INLINE;
	if (mode != XCRYPT_ORDER_AUTO)
		return mode;
	return bdev_rot(cc->dev->bdev) ? XCRYPT_ORDER_SORT : XCRYPT_ORDER_INLINE;
}

/* The last stage that can fail: a thread reads what all others set. */
static int ctr_order(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct crypt_config *cc = ti->private;
	int r;

	cc->order.mode = order_mode(cc);
	r = xcrypt_order_start(cc, dm_table_device_name(ti->table));
	if (r)
		return refuse(ti, "Couldn't spawn write thread", r);
	if (test_bit(XCRYPT_HIGH_PRIORITY, &cc->flags))
		set_user_nice(cc->order.thread, MIN_NICE);
	return 0;
}

static int ctr_finish(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct crypt_config *cc = ti->private;

	ti->per_io_data_size = cc->per_bio_data_size;
	ti->num_flush_bios = 1;
	if (test_bit(XCRYPT_ALLOW_DISCARDS, &cc->flags))
		ti->num_discard_bios = 1;
	ti->limit_swap_bios = true;
	ti->accounts_remapped_io = true;
	return 0;
}

static int (* const ctr_stages[])(struct dm_target *ti, unsigned int argc, char **argv) = {
	ctr_options,
	ctr_cipher,
	ctr_iv,
	ctr_key,
	ctr_pools,
	ctr_iv_offset,
	ctr_device,
	ctr_integrity,
	ctr_queues,
	ctr_order,
	ctr_finish,
};

/* What goes wrong here leaves nothing behind, no audit record either. */
static int config_alloc(struct dm_target *ti, unsigned int argc, char **argv)
{
	static atomic_t last_id = ATOMIC_INIT(0);
	struct crypt_config *cc;
	int key_size;

	if (argc < ARG_OPTIONS) {
		CTR_ERR(ti, "%u arguments, at least %u are needed", argc, ARG_OPTIONS);
		return refuse(ti, "Not enough arguments", -EINVAL);
	}
	key_size = xcrypt_key_parse_size(argv[ARG_KEY]);
	if (key_size < 0)
		return refuse(ti, "Cannot parse key size", key_size);

	cc = kzalloc(sizeof(*cc), GFP_KERNEL);
	if (!cc)
		return refuse(ti, "Cannot allocate encryption context", -ENOMEM);
	cc->key_size = key_size;
	cc->id = atomic_inc_return(&last_id);
	mutex_init(&cc->key_lock);
	ti->private = cc;
	pr_debug("dm_xcrypt: object crypt_config %s/%u created\n",
		 dm_table_device_name(ti->table), cc->id);
	return 0;
}

static int ctr_run(struct dm_target *ti, unsigned int argc, char **argv)
{
	unsigned int i;
	int r;

	r = config_alloc(ti, argc, argv);
	if (r)
		return r;
	for (i = 0; i < ARRAY_SIZE(ctr_stages); i++) {
		r = ctr_stages[i](ti, argc, argv);
		if (r)
			goto bad;
	}
	dm_audit_log_ctr(XCRYPT_AUDIT_NAME, ti, 1);
	return 0;

bad:
	dm_audit_log_ctr(XCRYPT_AUDIT_NAME, ti, 0);
	xcrypt_dtr(ti);
	return r;
}

/**
 * xcrypt_ctr() - make a device of a table line
 * @ti: begin, len and table are set
 * @argc: fields
 * @argv: fields; the key is overwritten in every case
 *
 * A table may be loaded to replace one that is suspended, with root or swap on
 * it: no allocation may wait for I/O.  What the queues' threads are made of is
 * out of our reach, kthreadd allocates it: with swap on the device and no memory
 * left, load first and suspend then.
 *
 * Context: process, sleeps.
 * Return: 0, or -errno with ti->error set.
 */
int xcrypt_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	unsigned int noio = memalloc_noio_save();
	int r;

	r = ctr_run(ti, argc, argv);
	memalloc_noio_restore(noio);
	if (argc > ARG_KEY)
		xcrypt_key_text_wipe(argv[ARG_KEY]);
	return r;
}

/**
 * xcrypt_dtr() - undo xcrypt_ctr(), or as many of its stages as were run
 * @ti: private is set; no bio is inside
 *
 * Context: process, sleeps.
 */
void xcrypt_dtr(struct dm_target *ti)
{
	struct crypt_config *cc = ti->private;
	unsigned int id = cc->id;

	ti->private = NULL;

	xcrypt_order_stop(cc);
	queues_exit(cc);
	if (cc->dev)
		dm_put_device(ti, cc->dev);
	xcrypt_buffer_exit(cc);
	xcrypt_integrity_dtr(cc);
	mempool_exit(&cc->bounce_pool);
	mempool_exit(&cc->req_pool);
	xcrypt_iv_cipher_free(&cc->iv);
	xcrypt_iv_dtr(&cc->iv);
	xcrypt_tfms_free(cc);
	xcrypt_key_free(cc);
	kfree_sensitive(cc->cipher_api);
	kfree_sensitive(cc->cipher_string);
	mutex_destroy(&cc->key_lock);
	/* no key in it, but sizes and addresses: nobody else's business */
	kfree_sensitive(cc);

	pr_debug("dm_xcrypt: object crypt_config %s/%u destroyed\n",
		 dm_table_device_name(ti->table), id);
	dm_audit_log_dtr(XCRYPT_AUDIT_NAME, ti, 1);
}

/* Whatever is not for the table line: modes, counters, the cipher's driver. */
static unsigned int status_info(struct crypt_config *cc, char *result, unsigned int maxlen)
{
	struct crypto_tfm *tfm = xcrypt_tfm(cc);
	struct xcrypt_order *order = &cc->order;
	u64 batches, writes;
	unsigned int sz = 0;

	spin_lock_irq(&order->lock);
	batches = order->count.batches;
	writes = order->count.writes;
	spin_unlock_irq(&order->lock);

	DMEMIT("driver=%s async=%d", crypto_tfm_alg_driver_name(tfm),
	       !!(tfm->__crt_alg->cra_flags & CRYPTO_ALG_ASYNC));
	DMEMIT(" key=%s", test_bit(XCRYPT_KEY_VALID, &cc->flags) ? "valid" : "wiped");
	DMEMIT(" write_order=%s batches=%llu writes=%llu",
	       xcrypt_order_name(order->mode), batches, writes);
	DMEMIT(" pages=%lld peak=%lu window=%lu", percpu_counter_sum(&cc->n_pages),
	       READ_ONCE(cc->window.peak), xcrypt_window_pages(cc));
	DMEMIT(" ns_per_kib=%u", READ_ONCE(cc->cost.ns_per_kib));
	if (cc->integrity.stride)
		DMEMIT(" tag_bytes=%u iv_bytes=%u metadata_bytes=%u rechecks=%lld tag_errors=%lld",
		       cc->integrity.tag_size, cc->integrity.iv_size, cc->integrity.stride,
		       atomic64_read(&cc->integrity.rechecks),
		       atomic64_read(&cc->integrity.tag_errors));
	return sz;
}

static unsigned int status_key(struct crypt_config *cc, char *result, unsigned int maxlen)
{
	unsigned int sz = 0, i;

	mutex_lock(&cc->key_lock);
	if (cc->key_string)
		DMEMIT("%s", cc->key_string);
	else if (!cc->key_size)
		DMEMIT("-");
	else
		for (i = 0; i < cc->key_size; i++)
			DMEMIT("%02x", cc->key[i]);
	mutex_unlock(&cc->key_lock);
	return sz;
}

static bool large_sectors(struct crypt_config *cc)
{
	return cc->sector_size != 1 << SECTOR_SHIFT;
}

/* The options with a value that stand ahead of the word iv_large_sectors. */
static unsigned int status_values(struct crypt_config *cc, char *result, unsigned int maxlen)
{
	struct xcrypt_integrity *in = &cc->integrity;
	unsigned int sz = 0;

	if (in->type)
		DMEMIT(" integrity:%u:%s", in->option, in->type);
	if (large_sectors(cc))
		DMEMIT(" sector_size:%u", cc->sector_size);
	return sz;
}

/* Count and words, nothing if there is none; the order is in-tree's. */
static unsigned int status_options(struct crypt_config *cc, char *result, unsigned int maxlen)
{
	unsigned int key_option = cc->integrity.key_option;
	unsigned int count = !!cc->integrity.type + large_sectors(cc) + !!key_option;
	unsigned int sz = 0, i;

	for (i = 0; i < ARRAY_SIZE(option_words); i++)
		count += test_bit(option_words[i].flag, &cc->flags);
	if (!count)
		return 0;

	DMEMIT(" %u", count);
	for (i = 0; i < ARRAY_SIZE(option_words); i++) {
		if (option_words[i].flag == XCRYPT_IV_LARGE_SECTORS)
			sz += status_values(cc, result + sz, maxlen - sz);
		if (test_bit(option_words[i].flag, &cc->flags))
			DMEMIT(" %s", option_words[i].word);
	}
	if (key_option)
		DMEMIT(" integrity_key_size:%u", key_option);
	return sz;
}

/* The table line as xcrypt_ctr() takes it back. */
static unsigned int status_table(struct crypt_config *cc, char *result, unsigned int maxlen)
{
	unsigned int sz = 0;

	DMEMIT("%s ", cc->cipher_string);
	sz += status_key(cc, result + sz, maxlen - sz);
	DMEMIT(" %llu %s %llu", cc->iv_offset, cc->dev->name,
	       (unsigned long long)cc->start);
	sz += status_options(cc, result + sz, maxlen - sz);
	return sz;
}

/* What IMA measures: nothing that names a key, a device or a place on it. */
static void status_ima(struct dm_target *ti, char *result, unsigned int maxlen)
{
	struct crypt_config *cc = ti->private;
	unsigned int sz = 0, i;

	DMEMIT_TARGET_NAME_VERSION(ti->type);
	for (i = 0; i < ARRAY_SIZE(option_words); i++)
		DMEMIT(",%s=%c", option_words[i].word,
		       test_bit(option_words[i].flag, &cc->flags) ? 'y' : 'n');
	if (cc->integrity.type)
		DMEMIT(",integrity_tag_size=%u,cipher_auth=%s", cc->integrity.option,
		       cc->integrity.type);
	if (large_sectors(cc))
		DMEMIT(",sector_size=%u", cc->sector_size);
	DMEMIT(",cipher_string=%s", cc->cipher_string);
	DMEMIT(",key_size=%u", cc->key_size);
	DMEMIT(",key_parts=%u", cc->iv.key_parts);
	DMEMIT(",key_extra_size=%u", cc->iv.key_extra);
	DMEMIT(",key_mac_size=%u;", cc->aead ? cc->mac_key_size : cc->integrity.key_option);
}

/**
 * xcrypt_status() - INFO, TABLE and IMA
 * @ti: ours
 * @type: which of them
 * @status_flags: unused
 * @result: for the text; a text cut at its end has no other sign of that
 * @maxlen: bytes of result
 *
 * Context: process, sleeps.  May run beside a message.
 */
void xcrypt_status(struct dm_target *ti, status_type_t type, unsigned int status_flags,
		   char *result, unsigned int maxlen)
{
	struct crypt_config *cc = ti->private;

	switch (type) {
	case STATUSTYPE_INFO:
		status_info(cc, result, maxlen);
		break;
	case STATUSTYPE_TABLE:
		status_table(cc, result, maxlen);
		break;
	case STATUSTYPE_IMA:
		status_ima(ti, result, maxlen);
		break;
	}
}

/* key_lock is held: the target cannot be resumed while a key is changed. */
static int message_key(struct crypt_config *cc, unsigned int argc, char **argv)
{
	lockdep_assert_held(&cc->key_lock);

	if (!test_bit(XCRYPT_SUSPENDED, &cc->flags)) {
		DMWARN("key messages are for a suspended device, this one is not suspended");
		return -EINVAL;
	}
	if (argc == 3 && !strcasecmp(argv[1], "set"))
		return xcrypt_key_replace(cc, argv[2]);
	if (argc == 2 && !strcasecmp(argv[1], "wipe"))
		return xcrypt_key_wipe(cc);

	DMWARN("unrecognised message received: key and %u words; there are key set <key>, key wipe",
	       argc - 1);
	return -EINVAL;
}

/**
 * xcrypt_message() - "key set <key>" and "key wipe", in any case
 * @ti: ours
 * @argc: words
 * @argv: words; those behind "key set" are overwritten in every case
 * @result: unused
 * @maxlen: unused
 *
 * The device is suspended, maybe with root or swap on it: no allocation may
 * wait for I/O.
 *
 * Context: process, sleeps.
 * Return: 0, -EINVAL, or what xcrypt_key_replace() or xcrypt_key_wipe() return.
 */
int xcrypt_message(struct dm_target *ti, unsigned int argc, char **argv,
		   char *result, unsigned int maxlen)
{
	struct crypt_config *cc = ti->private;
	unsigned int noio, i;
	int r;

	if (argc < 2 || strcasecmp(argv[0], "key")) {
		DMWARN("unrecognised message received; there are key set <key>, key wipe");
		return -EINVAL;
	}

	noio = memalloc_noio_save();
	mutex_lock(&cc->key_lock);
	r = message_key(cc, argc, argv);
	mutex_unlock(&cc->key_lock);
	memalloc_noio_restore(noio);
	for (i = 2; i < argc; i++)
		xcrypt_key_text_wipe(argv[i]);
	return r;
}

/**
 * xcrypt_iterate_devices() - show dm core the one device below
 * @ti: ours
 * @fn: what it wants to do with it
 * @data: for fn
 *
 * Return: what fn returns
 */
int xcrypt_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn, void *data)
{
	struct crypt_config *cc = ti->private;
	struct dm_dev *below = cc->dev;

	return fn(ti, below, cc->start, ti->len, data);
}

/**
 * xcrypt_postsuspend() - from here on messages may change the key
 * @ti: ours; no bio is inside
 */
void xcrypt_postsuspend(struct dm_target *ti)
{
	struct crypt_config *cc = ti->private;

	set_bit(XCRYPT_SUSPENDED, &cc->flags);
}

/**
 * xcrypt_preresume() - refuse to resume without a key
 * @ti: ours
 *
 * Return: 0 or -EAGAIN
 */
int xcrypt_preresume(struct dm_target *ti)
{
	struct crypt_config *cc = ti->private;

	if (test_bit(XCRYPT_KEY_VALID, &cc->flags))
		return 0;
	DMERR("%s: aborting resume, no key is set: key set <key> comes first",
	      dm_table_device_name(ti->table));
	return -EAGAIN;
}

/**
 * xcrypt_resume() - bios are about to arrive, the key stays as it is
 * @ti: ours
 *
 * Waits for a message that is changing the key.  A "key wipe" that slipped in
 * after xcrypt_preresume() costs no data: map refuses bios without a valid key.
 */
void xcrypt_resume(struct dm_target *ti)
{
	struct crypt_config *cc = ti->private;

	mutex_lock(&cc->key_lock);
	clear_bit(XCRYPT_SUSPENDED, &cc->flags);
	mutex_unlock(&cc->key_lock);
}

/**
 * xcrypt_io_hints() - the limits that encryption adds to those of the device
 * @ti: ours
 * @limits: of the device below, to be narrowed
 *
 * A sector is encrypted as a whole, so nothing smaller may be asked for; and
 * it should lie in one piece, which buffers of direct I/O that are aligned to
 * it do.  What must not be split has to fit one clone.
 */
void xcrypt_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	struct crypt_config *cc = ti->private;
	unsigned int most = xcrypt_max_clone_size(cc);

	limits->logical_block_size = max(limits->logical_block_size, cc->sector_size);
	limits->physical_block_size = max(limits->physical_block_size, cc->sector_size);
	limits->io_min = max(limits->io_min, cc->sector_size);
	limits->dma_alignment = limits->logical_block_size - 1;
	xcrypt_limit_atomic(limits, cc->dev->bdev, most);
	if (test_bit(XCRYPT_ZONED, &cc->flags))
		xcrypt_zoned_limits(limits, most);
}
