/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels we build on (6.1, 6.12, 7.3).  The code
 * reads like the newest kernel; a shim here carries the newest name.  Facts
 * come from compile probes (compat-gen.h, written by scripts/compat-probe.sh),
 * never from a version: distributions backport.
 *
 * Included by dm-xcrypt.h only, and compiles alone.
 */
#ifndef DM_XCRYPT_COMPAT_H
#define DM_XCRYPT_COMPAT_H

#include <linux/audit.h>
#include <linux/bio.h>
#include <linux/blk-integrity.h>
#include <linux/blkdev.h>
#include <linux/crypto.h>
#include <linux/gfp.h>
#include <linux/interrupt.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/workqueue.h>
#include <crypto/aes.h>

#include "compat-gen.h"

struct dm_target;

#ifndef XCRYPT_HAVE_SANITY
#error "compat probe: the empty program did not compile; see compat-gen.h"
#endif

#ifdef XCRYPT_HAVE_LINUX_UNALIGNED_H
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#ifdef XCRYPT_HAVE_LINUX_HEX_H
#include <linux/hex.h>
#endif

/*
 * AES of the library with a key that can only encrypt; older kernels have one
 * kind of key.  The macro of the function's own name takes the new kind.
 */
#ifndef XCRYPT_HAVE_AES_ENCKEY
struct aes_enckey {
	struct crypto_aes_ctx ctx;
};

static inline int aes_prepareenckey(struct aes_enckey *key, const u8 *in_key, size_t key_len)
{
	return aes_expandkey(&key->ctx, in_key, key_len);
}

#define aes_encrypt(key, out, in)	aes_encrypt(&(key)->ctx, out, in)
#endif

/* Older kernels ask for the opposite. */
#ifndef XCRYPT_HAVE_BDEV_ROT
static inline bool bdev_rot(struct block_device *bdev)
{
	return !bdev_nonrot(bdev);
}
#endif

/*
 * The payload by which a bio carries metadata.  Newer kernels leave it to its
 * maker where it lies, and to detach it before the bio is freed: it needs no
 * allocation then.  Older ones free it when the bio ends, so it must be theirs;
 * a pool of the bio_set keeps writes going when memory is short.
 */
#if !defined(CONFIG_BLK_DEV_INTEGRITY)
/* no device keeps metadata: ctr refuses, and nothing here is called */
#define bip_set_seed(bip, seed)	do { } while (0)

struct xcrypt_bip {
};

static inline int xcrypt_bip_pool_init(struct bio_set *bs, int size)
{
	return 0;
}

static inline struct bio_integrity_payload *
xcrypt_bip_attach(struct bio *bio, struct xcrypt_bip *room, gfp_t gfp)
{
	return NULL;
}

static inline void xcrypt_bip_detach(struct bio *bio)
{
}
#elif defined(XCRYPT_HAVE_BIOSET_INTEGRITY)
struct xcrypt_bip {
};

static inline int xcrypt_bip_pool_init(struct bio_set *bs, int size)
{
	/* it says -1 */
	return bioset_integrity_create(bs, size) ? -ENOMEM : 0;
}

static inline struct bio_integrity_payload *
xcrypt_bip_attach(struct bio *bio, struct xcrypt_bip *room, gfp_t gfp)
{
	struct bio_integrity_payload *bip = bio_integrity_alloc(bio, gfp, 1);

	return IS_ERR(bip) ? NULL : bip;
}

static inline void xcrypt_bip_detach(struct bio *bio)
{
}
#else
struct xcrypt_bip {
	struct bio_integrity_payload bip;
	struct bio_vec bv;
};

static inline int xcrypt_bip_pool_init(struct bio_set *bs, int size)
{
	return 0;
}

static inline struct bio_integrity_payload *
xcrypt_bip_attach(struct bio *bio, struct xcrypt_bip *room, gfp_t gfp)
{
	memset(room, 0, sizeof(*room));
	room->bip.bip_vec = &room->bv;
	room->bip.bip_max_vcnt = 1;
	bio->bi_integrity = &room->bip;
	bio->bi_opf |= REQ_INTEGRITY;
	return &room->bip;
}

static inline void xcrypt_bip_detach(struct bio *bio)
{
	if (!bio_integrity(bio))
		return;
	bio->bi_integrity = NULL;
	bio->bi_opf &= ~REQ_INTEGRITY;
}
#endif

/*
 * Does a device keep metadata that nobody but its user looks at?  Before 6.10
 * this was one profile of several, dm-integrity's.
 */
static inline bool blk_integrity_is_opaque(const struct blk_integrity *bi)
{
#ifdef XCRYPT_HAVE_INTEGRITY_CSUM_TYPE
	return bi->csum_type == BLK_INTEGRITY_CSUM_NONE;
#else
	return bi->profile && !strcmp(bi->profile->name, "DM-DIF-EXT-TAG");
#endif
}

/* Bytes of it for each interval. */
static inline unsigned int blk_integrity_metadata_size(const struct blk_integrity *bi)
{
#ifdef XCRYPT_HAVE_INTEGRITY_METADATA_SIZE
	return bi->metadata_size;
#else
	return bi->tuple_size;
#endif
}

/* 7.3 warns about a per-CPU workqueue that does not say so. */
#ifndef XCRYPT_HAVE_WQ_PERCPU
#define WQ_PERCPU	0
#endif

/*
 * Where the block layer has the writes of a zone wait for each other, it also
 * cuts them to the limits of a mapped device, and dm_accept_partial_bio()
 * refuses them.  Elsewhere a long one comes as it is, and may be cut.
 */
#ifdef XCRYPT_HAVE_ZONE_WRITE_PLUGS
#define XCRYPT_MAY_CUT_ZONED	false
#else
#define XCRYPT_MAY_CUT_ZONED	true
#endif

/*
 * Atomic writes: the target feature, the flag of a bio, the limits; and the
 * target's minor version, which says that it has them.
 */
#ifdef XCRYPT_HAVE_DM_ATOMIC_WRITES
#define XCRYPT_VERSION_MINOR	29

/*
 * The block layer makes the limit that it shows from the hardware's, with what
 * a bio of that queue holds for certain.  With smaller sectors than ours the
 * queue below holds less: a write of what ours then promises it would refuse.
 */
static inline void xcrypt_limit_atomic(struct queue_limits *limits, struct block_device *below,
				       unsigned int bytes)
{
	limits->atomic_write_hw_max = min(limits->atomic_write_hw_max, bytes);
	limits->atomic_write_hw_unit_max = min3(limits->atomic_write_hw_unit_max,
						rounddown_pow_of_two(bytes),
						bdev_atomic_write_unit_max_bytes(below));
}
#else
#define XCRYPT_VERSION_MINOR	28
#define DM_TARGET_ATOMIC_WRITES		0

static inline void xcrypt_limit_atomic(struct queue_limits *limits, struct block_device *below,
				       unsigned int bytes)
{
}
#endif

#ifndef REQ_ATOMIC
#define REQ_ATOMIC	((__force blk_opf_t)0)
#endif

/*
 * XCRYPT_CRYPTO_DONE(name, fn) defines a completion callback called name for
 * a cipher request.  It calls fn(data, error) with the data that was set with
 * the callback.
 */
#if defined(XCRYPT_HAVE_CRYPTO_DONE_DATA) == defined(XCRYPT_HAVE_CRYPTO_DONE_REQ)
#error "compat probe: type of the cipher callback not found; see compat-gen.h"
#endif

#ifdef XCRYPT_HAVE_CRYPTO_DONE_DATA
#define XCRYPT_CRYPTO_DONE(name, fn)					\
static void name(void *data, int error)					\
{									\
	fn(data, error);						\
}
#else
#define XCRYPT_CRYPTO_DONE(name, fn)					\
static void name(struct crypto_async_request *areq, int error)		\
{									\
	fn(areq->data, error);						\
}
#endif

/*
 * Something to do in softirq, soon and on this CPU.  XCRYPT_BH(name, fn) defines
 * what xcrypt_bh_init() wants: name, which calls fn(bh).
 */
#ifdef XCRYPT_HAVE_SYSTEM_BH_WQ
struct xcrypt_bh {
	struct work_struct work;
};

#define XCRYPT_BH(name, fn)						\
static void name(struct work_struct *work)				\
{									\
	fn(container_of(work, struct xcrypt_bh, work));			\
}

static inline void xcrypt_bh_init(struct xcrypt_bh *bh, work_func_t fn)
{
	INIT_WORK(&bh->work, fn);
}

static inline void xcrypt_bh_schedule(struct xcrypt_bh *bh)
{
	queue_work(system_bh_wq, &bh->work);
}

/* Waits for what runs, too. */
static inline void xcrypt_bh_kill(struct xcrypt_bh *bh)
{
	cancel_work_sync(&bh->work);
}
#else
struct xcrypt_bh {
	struct tasklet_struct tasklet;
};

#define XCRYPT_BH(name, fn)						\
static void name(struct tasklet_struct *tasklet)			\
{									\
	fn(container_of(tasklet, struct xcrypt_bh, tasklet));		\
}

static inline void xcrypt_bh_init(struct xcrypt_bh *bh, void (*fn)(struct tasklet_struct *tasklet))
{
	tasklet_setup(&bh->tasklet, fn);
}

static inline void xcrypt_bh_schedule(struct xcrypt_bh *bh)
{
	tasklet_schedule(&bh->tasklet);
}

static inline void xcrypt_bh_kill(struct xcrypt_bh *bh)
{
	tasklet_kill(&bh->tasklet);
}
#endif

/*
 * An allocation that neither waits nor complains; older kernels leave out
 * __GFP_NOWARN.
 */
#define XCRYPT_GFP_NOWAIT	(GFP_NOWAIT | __GFP_NOWARN)

/*
 * Audit records of mapped devices: the functions are exported, their header
 * is private to drivers/md.
 */
#ifdef CONFIG_DM_AUDIT
void dm_audit_log_ti(int audit_type, const char *dm_msg_prefix, const char *op,
		     struct dm_target *ti, int result);
void dm_audit_log_bio(const char *dm_msg_prefix, const char *op, struct bio *bio,
		      sector_t sector, int result);

static inline void dm_audit_log_integrity(const char *prefix, struct bio *bio, sector_t sector)
{
	dm_audit_log_bio(prefix, "integrity-aead", bio, sector, 0);
}

static inline void dm_audit_log_ctr(const char *prefix, struct dm_target *ti,
				    int result)
{
	dm_audit_log_ti(AUDIT_DM_CTRL, prefix, "ctr", ti, result);
}

static inline void dm_audit_log_dtr(const char *prefix, struct dm_target *ti,
				    int result)
{
	dm_audit_log_ti(AUDIT_DM_CTRL, prefix, "dtr", ti, result);
}
#else
static inline void dm_audit_log_integrity(const char *prefix, struct bio *bio, sector_t sector)
{
}

static inline void dm_audit_log_ctr(const char *prefix, struct dm_target *ti,
				    int result)
{
}

static inline void dm_audit_log_dtr(const char *prefix, struct dm_target *ti,
				    int result)
{
}
#endif

#endif /* DM_XCRYPT_COMPAT_H */
