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
#include <linux/blkdev.h>
#include <linux/crypto.h>
#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/workqueue.h>
#include <crypto/aes.h>

#include "compat-gen.h"

struct bio;
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

/* The target's minor version; what it is without atomic writes comes first. */
#define XCRYPT_VERSION_BASE	24

/*
 * Atomic writes: the target feature, the flag of a bio, the limits.  A target
 * of version 1.28 becomes 1.29 with them.
 */
#ifdef XCRYPT_HAVE_DM_ATOMIC_WRITES
#define XCRYPT_VERSION_MINOR	(XCRYPT_VERSION_BASE == 28 ? 29 : XCRYPT_VERSION_BASE)

static inline void xcrypt_limit_atomic(struct queue_limits *limits, unsigned int bytes)
{
	limits->atomic_write_hw_max = min(limits->atomic_write_hw_max, bytes);
	limits->atomic_write_hw_unit_max = min(limits->atomic_write_hw_unit_max, bytes);
}
#else
#define XCRYPT_VERSION_MINOR	XCRYPT_VERSION_BASE
#define DM_TARGET_ATOMIC_WRITES		0

static inline void xcrypt_limit_atomic(struct queue_limits *limits, unsigned int bytes)
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
