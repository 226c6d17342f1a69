/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dm-xcrypt: transparent disk encryption, the device-mapper target "crypt".
 *
 * Read this file first; it is the map of the module.
 *
 *   dm-xcrypt.c  the road of a bio, the module and its target_type
 *   convert.c    one bio -> cipher requests, synchronous or asynchronous
 *   iv.c         the IV generators; no bio, no lock, no device-mapper
 *   sort.c       the order in which encrypted writes reach the disk
 *   queue.c      per-CPU work lists that idle CPUs take over
 *   buffer.c     ciphertext pages of writes, under memory pressure too
 *   spare.c      pages kept for the next write
 *   window.c     how much of the writes may be in flight
 *   integrity.c  tags and IVs that are stored beside the sectors
 *   key.c        key text, keyrings, cipher allocation, wiping
 *   table.c      table line -> crypt_config and back; status, messages, limits
 *   zoned.c      zoned devices: what is different, and why
 *   compat.h     the differences between kernels; nothing else knows a version
 *
 * The road:
 *
 *   READ   map -> base_bio itself --> [disk] --endio--> (here | read queue)
 *              -> convert in place -> bio_endio(base_bio)
 *   READ with metadata: the same with a clone, which carries it
 *   WRITE  map -> (here | write queue) -> buffer -> convert base to clone
 *              -> order stage -> submit -> [disk] -> endio -> free the pages
 *              -> bio_endio(base_bio)
 *   READ whose tag does not fit: once more, into pages of our own
 *              -> convert there -> copy to base_bio -> bio_endio(base_bio)
 *   FLUSH, DISCARD  remapped only: a flush covers the writes that were
 *              completed to the caller, and those are on the disk's side
 *
 * "Here" is the caller of map() for writes, and for reads the completion of the
 * lower device, or the softirq behind it; the dm-crypt flags no_write_workqueue and
 * no_read_workqueue ask for it.  No conversion in hard irq, ever.
 *
 * Ownership: an io has one owner at a time, the stage that it is in, and is
 * handed on by a call or through a queue.  There is no reference count: only
 * convert.c has several parties at once (asynchronous cipher requests), and
 * settles among them with ctx->cc_pending who hands the io on.
 *
 * Units: sectors are 512 bytes, always, whatever sector_size says.
 */
#ifndef DM_XCRYPT_H
#define DM_XCRYPT_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/device-mapper.h>
#include <linux/list.h>
#include <linux/mempool.h>
#include <linux/mutex.h>
#include <linux/percpu_counter.h>
#include <linux/rbtree.h>
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <crypto/aead.h>
#include <crypto/aes.h>
#include <crypto/skcipher.h>

#include "compat.h"

#define DM_MSG_PREFIX "xcrypt"
/* Name of this target in audit records, whatever name it is registered by. */
#define XCRYPT_AUDIT_NAME "crypt"

/* Bytes; what the sector_size option may be at most. */
#define XCRYPT_MAX_SECTOR_SIZE	4096U
/* Bytes; a longer key text is refused before anything is allocated. */
#define XCRYPT_MAX_KEY_SIZE	(128U << 10)
/* Elements of the reserves that keep I/O going when memory is short. */
#define XCRYPT_MIN_BIOS		64
#define XCRYPT_MIN_REQUESTS	64
#define XCRYPT_MIN_PAGES	BIO_MAX_VECS
#define XCRYPT_MIN_BOUNCES	4
#define XCRYPT_MIN_METADATA	8
/* Bytes; tags and IVs that one io may have, and an element of their reserve. */
#define XCRYPT_MAX_METADATA	(16U << 10)
/* Writes that the order stage sorts together at the most. */
#define XCRYPT_SORT_WINDOW	1024U

struct crypt_config;
struct dm_crypt_io;
struct xcrypt_iv;

/*
 * Letters in front of the fields' comments: who may touch them, and when.
 *
 *  C  set by ctr before any bio arrives, constant until dtr
 *  S  changed by a message while the target is suspended (no bio is inside),
 *     read by the I/O path
 *  L  under the lock that the struct holds
 *  A  atomic, bit operation, or per CPU
 *  O  touched by the current owner of the io only
 */

/*
 * How encrypted writes are ordered (module parameter write_order, INFO key
 * write_order=).  XCRYPT_ORDER_AUTO never stays in a crypt_config: ctr
 * resolves it.
 */
enum xcrypt_order_mode {
	XCRYPT_ORDER_INLINE,	/* submitted by whichever CPU encrypted */
	XCRYPT_ORDER_OFFLOAD,	/* one thread, in the order of completion */
	XCRYPT_ORDER_FIFO,	/* one thread, in the order of arrival in map */
	XCRYPT_ORDER_SORT,	/* one thread, by sector within a window */
	XCRYPT_ORDER_AUTO,	/* sort on rotational devices, else inline */
};

/*
 * A write in the order stage; part of dm_crypt_io.  sort.c is its only user
 * between xcrypt_order_arrive() and the submission.
 */
struct xcrypt_order_node {
	union {
		struct rb_node rb;	/* L  sort: in order->tree */
		struct list_head list;	/* L  fifo, offload: in order->list */
	};
	u64 seq;		/* O  number of arrival; breaks ties */
	u64 window;		/* L  sort: windows leave in this order */
	sector_t sector;	/* O  sort: the key inside a window */
	bool ready;		/* L  fifo: encrypted, may leave */
};

/* What the thread submitted.  A batch is what went under one plug. */
struct xcrypt_order_count {
	u64 batches;
	u64 writes;
};

/*
 * The order stage of one device; part of crypt_config.  The thread exists
 * from the end of ctr to dtr, in mode inline too: callbacks of asynchronous
 * ciphers may not submit.
 */
struct xcrypt_order {
	enum xcrypt_order_mode mode;	/* C */
	struct task_struct *thread;	/* C */
	spinlock_t lock;		/* irq-safe: completions add writes */
	struct rb_root_cached tree;	/* L  by (window, sector, seq) */
	struct list_head list;		/* L  oldest first */
	u64 window;			/* L  number of the window being filled */
	unsigned int in_window;		/* L  writes in it */
	unsigned int relaxed;		/* L  fifo: allocators in need, see sort.c */
	atomic64_t seq;			/* A  last number given; sort only */
	struct xcrypt_order_count count;	/* L  since ctr, for INFO */
};

/*
 * An IV generator, looked up by exact name.  All hooks may be NULL.
 * data is one whole sector (sector_size bytes, contiguous, writable); ivs is
 * the IV number: 512-byte sector plus iv_offset, shifted with
 * iv_large_sectors.  generate and the data hooks run in any context but hard
 * irq and do not sleep (generate may if iv->sleeps); they return 0 or -errno.
 * ctr, init and wipe sleep.
 */
struct xcrypt_iv_ops {
	const char *name;
	/* the IV of a write is kept beside the sector, and read from there */
	bool stored;
	/* generate is: the number, little endian, 8 bytes, then zeros */
	bool le64;
	/* not for ciphers that authenticate */
	bool no_aead;
	/*
	 * generate calls xcrypt_iv_cipher_block(): between ctr and init
	 * table.c calls xcrypt_iv_cipher_alloc(), and frees it after dtr
	 */
	bool needs_cipher;
	/* check the geometry, set key_parts and key_extra, allocate */
	int (*ctr)(struct xcrypt_iv *iv, char **error);
	/* take secrets from the whole table key, which was just set */
	int (*init)(struct xcrypt_iv *iv, const u8 *key);
	void (*wipe)(struct xcrypt_iv *iv);
	/* out has iv->size bytes and is zero on entry */
	int (*generate)(struct xcrypt_iv *iv, u8 *out, u64 ivs);
	/*
	 * Around the cipher; *_pre run after generate and may change out.
	 * With write_pre the plaintext is first copied to the clone, so that
	 * the hook works on bytes that the caller cannot change.
	 */
	int (*write_pre)(struct xcrypt_iv *iv, u8 *out, u64 ivs, u8 *data);
	int (*write_post)(struct xcrypt_iv *iv, u64 ivs, u8 *data);
	int (*read_pre)(struct xcrypt_iv *iv, u8 *out, u64 ivs, u8 *data);
	int (*read_post)(struct xcrypt_iv *iv, u64 ivs, u8 *data);
};

/*
 * The IV generator of one device; part of crypt_config.  table.c fills the
 * geometry, iv.c the rest.
 */
struct xcrypt_iv {
	const struct xcrypt_iv_ops *ops;	/* C  NULL: the IV is zero */
	unsigned int size;		/* C  bytes of IV the cipher takes */
	unsigned int block_size;	/* C  bytes; cipher block */
	unsigned int sector_size;	/* C  bytes */
	unsigned int key_size;		/* C  bytes of the whole table key */
	unsigned int key_count;		/* C  keys that the cipher text names */
	bool aead;			/* C  the cipher authenticates */
	unsigned int key_parts;		/* C  keys in the table key, with extra */
	unsigned int key_extra;		/* C  bytes at its end not for ciphers */
	unsigned int shift;		/* C  benbi: 512-byte sector -> blocks */
	/* S  lmk, tcw: secret from the key; eboiv, elephant: room for wipe */
	u8 *seed;
	unsigned int seed_size;		/* C  bytes; 0: no seed */
	struct aes_enckey *aes;		/* S  elephant: K2 */
	void *cipher;			/* C  eboiv, elephant: opaque, key.c's */
	/* C  generate may sleep (cipher is async): no conversion in softirq */
	bool sleeps;
};

/*
 * Where the bytes of one bio, or of a piece of it, stand on their way through
 * the cipher.  An io has one, set up by xcrypt_convert_init() and dead once the
 * io was handed on.  While other CPUs help, the io has some more, which convert.c
 * allocates and frees: each for the bytes of its own iterators.  Followed in
 * memory by a request, see struct xcrypt_dmreq.
 *
 * cc_pending starts at XCRYPT_CONVERT_BIAS, callbacks count down, and the
 * converting thread takes away what is left of the bias when it has issued
 * the last request: synchronous requests cost no atomic operation.
 */
struct convert_context {
	struct dm_crypt_io *io;		/* C  set by map, or with the piece */
	struct list_head entry;		/* in a xcrypt_lane, under its lock */
	struct bio *bio_in;		/* C  what is read */
	struct bio *bio_out;		/* C  what is written; = bio_in in place */
	struct bvec_iter iter_in;	/* O */
	struct bvec_iter iter_out;	/* O  not used in place */
	sector_t sector;		/* O  next sector, relative to the target */
	/* O  free request, a skcipher_request or an aead_request; NULL: none */
	void *req;
	unsigned int issued;		/* O  requests that went asynchronous */
	bool backlogged;		/* O  wait for restart before going on */
	bool embedded_used;		/* O  the request behind this is gone */
	struct completion restart;	/* A  the cipher's queue has room again */
	atomic_t cc_pending;		/* A */
} CRYPTO_MINALIGN_ATTR;

#define XCRYPT_CONVERT_BIAS	(INT_MAX / 2)

/*
 * The metadata of one io's sectors, and how the clone carries it; part of
 * dm_crypt_io.  integrity.c allocates and frees bytes.
 */
struct xcrypt_metadata {
	u8 *bytes;			/* O  NULL: none */
	bool reserved;			/* O  from the reserve */
	struct xcrypt_bip bip;		/* O  the clone's, see compat.h */
};

/*
 * One bio on its way; lives in the per-bio data of base_bio, so it is gone
 * once base_bio was ended.
 */
struct dm_crypt_io {
	struct crypt_config *cc;	/* C  set by map */
	struct bio *base_bio;		/* C  what the caller sent, after dm core */
	sector_t sector;		/* C  first sector, relative to the target */
	blk_status_t error;		/* A  the first error sticks */
	/* O  what goes to the disk; of a read only while it is done again */
	struct bio *clone;
	/* O  a read that went down as base_bio itself: what that was before */
	struct bvec_iter base_iter;
	bio_end_io_t *base_end_io;	/* O  NULL: it did not */
	sector_t bad_sector;		/* A  one whose tag does not fit */
	u64 timed;			/* O  write: ns, since when; 0: not timed */
	bool alone;			/* O  timed: with little else in flight */
	struct xcrypt_metadata meta;
	union {
		struct work_struct work;	/* O  what a read does that must sleep */
		struct completion converted;	/* A  zoned: a write is encrypted */
	};
	struct xcrypt_order_node node;
	atomic_t contexts;		/* A  ctx, and pieces that are not done */
	struct convert_context ctx;	/* the last: its request follows */
};

/*
 * What a cipher request needs beside the request itself.  One memory block:
 *
 *   request | cipher's context | struct xcrypt_dmreq | IV | struct xcrypt_aad
 *
 * with cc->dmreq_start, cc->iv_start and cc->aad_start as offsets of the
 * latter three; request is a skcipher_request, or an aead_request, and only
 * then there is a struct xcrypt_aad.  The
 * block behind a convert_context serves all its sectors while the cipher answers at
 * once; a sector that goes asynchronous takes its block away with it, and the
 * next one comes from cc->req_pool.
 */
struct xcrypt_dmreq {
	struct convert_context *ctx;
	struct scatterlist sg_in, sg_out;
	u8 *iv;				/* in this block, aligned for the cipher */
	u64 ivs;			/* IV number of this sector */
	sector_t sector;		/* the same, relative to the target */
	struct bvec_iter iter;		/* where the sector stands in bio_out */
	void *bounce;			/* read: the sector lies in pieces */
};

/*
 * What an AEAD authenticates beside the sector.  The IV is a copy: the cipher
 * may change the one that it works with.
 */
struct xcrypt_aad {
	struct scatterlist sg[3];	/* sector and iv; the sector's data; tag */
	__le64 sector;			/* relative to the target, 512 bytes */
	u8 iv[];
};

/*
 * One CPU's share of a queue: what is to be converted waits in list, oldest first.
 * queue.c allocates and frees it with its queue.
 */
struct xcrypt_lane {
	spinlock_t lock;		/* irq-safe: completions add */
	struct list_head list;		/* L  of convert_context.entry */
	struct list_head soft;		/* L  the same, to be converted in softirq */
	struct work_struct work;	/* runs on cpu; serves list */
	struct xcrypt_bh bh;		/* runs on cpu; serves soft */
	struct xcrypt_queue *queue;	/* C */
	/* the last io that a task brought here: whose it was (only compared) */
	struct task_struct *task;	/* A */
	unsigned long sleeps;		/* A  .. and how often it had slept by then */
	unsigned long stream;		/* A  jiffies when last a stream went on here */
	int cpu;			/* C */
} ____cacheline_aligned_in_smp;

/* Converts, or goes on with it; may sleep.  lane is the worker's own. */
typedef void (*xcrypt_run_fn)(struct convert_context *ctx, struct xcrypt_lane *lane);

/*
 * A per-CPU queue of ios whose waiting work idle CPUs take over.  Two per
 * device, part of crypt_config: writes may sleep for pages, reads must not
 * wait behind them.
 */
struct xcrypt_queue {
	struct workqueue_struct *wq;		/* C */
	struct xcrypt_lane *lanes;		/* C  nr_cpu_ids of them */
	xcrypt_run_fn run;			/* C  takes the io, or the piece */
	cpumask_var_t busy;			/* A  lanes whose worker runs */
	bool steal;				/* C  false: same_cpu_crypt */
};

/* Bits of crypt_config.flags, and the words that set them. */
enum xcrypt_flag {
	XCRYPT_SUSPENDED,		/* between postsuspend and resume */
	XCRYPT_KEY_VALID,		/* the ciphers hold the table's key */
	XCRYPT_ALLOW_DISCARDS,		/* word allow_discards */
	XCRYPT_SAME_CPU,		/* word same_cpu_crypt */
	XCRYPT_HIGH_PRIORITY,		/* word high_priority */
	XCRYPT_SUBMIT_FROM_CRYPT,	/* word submit_from_crypt_cpus */
	XCRYPT_NO_READ_WORKQUEUE,	/* word no_read_workqueue */
	XCRYPT_NO_WRITE_WORKQUEUE,	/* word no_write_workqueue */
	XCRYPT_IV_LARGE_SECTORS,	/* word iv_large_sectors */
	XCRYPT_ZONED,			/* the lower device is, see zoned.c */
};

/*
 * What the device keeps beside each sector: tag, IV, and zeros up to stride.
 * Part of crypt_config; table.c fills the options, integrity.c the rest.
 */
struct xcrypt_integrity {
	unsigned int option;		/* C  N of integrity:N:type; 0: not given */
	char *type;			/* C  as typed; NULL: not given */
	unsigned int key_option;	/* C  integrity_key_size:N; 0: not given */
	bool aead;			/* C  type is aead */
	unsigned int tag_size;		/* C  bytes */
	unsigned int iv_size;		/* C  bytes; 0: IVs are not stored */
	unsigned int stride;		/* C  bytes; 0: no metadata at all */
	mempool_t pool;			/* XCRYPT_MAX_METADATA bytes each */
	atomic64_t rechecks;		/* A  reads done again, for INFO */
	atomic64_t tag_errors;		/* A  reads that failed twice, for INFO */
};

/*
 * What the cipher takes, as far as it is known; part of crypt_config.  Only
 * speed depends on it: it is read and written without a lock, by READ_ONCE()
 * and WRITE_ONCE(), and of two results at once one may be lost.
 */
struct xcrypt_cost {
	unsigned long stamp;		/* A  jiffies of the last measurement */
	unsigned int ns_per_kib;	/* A  0: not known yet */
};

/*
 * How much of the writes may be in flight; part of crypt_config, window.c's.
 */
struct xcrypt_window {
	unsigned long pages;		/* A  the window; written under the lock */
	unsigned long stamp;		/* A  jiffies when a write was timed */
	unsigned long peak;		/* A  most pages in flight, for INFO */
	bool tight;			/* A  a write was held back */
	spinlock_t lock;		/* irq-safe: completions take it */
	unsigned long floor;		/* C  pages; the least window */
	unsigned long ceiling;		/* C  pages; the largest */
	u64 since;			/* L  ns; when the window changed */
	u64 least;			/* L  ns; of the samples */
	u64 alone;			/* L  ns; with little else in flight, 0: unknown */
	unsigned int samples;		/* L */
};

/*
 * One table line.  xcrypt_ctr() allocates it, ti->private holds it,
 * xcrypt_dtr() frees it; dm core calls dtr after the last bio completed and
 * serialises ctr, dtr, messages, suspend and resume of one target.
 */
struct crypt_config {
	struct dm_dev *dev;		/* C  the lower device */
	sector_t start;			/* C  first sector on it */
	u64 iv_offset;			/* C  512-byte sectors */
	unsigned int sector_size;	/* C  bytes; 512, 1024, 2048 or 4096 */
	unsigned int sector_shift;	/* C  log2(sector_size / 512) */
	unsigned long flags;		/* A  enum xcrypt_flag */
	unsigned int id;		/* C  unique; names it in the log */

	char *cipher_string;		/* C  as given; status prints it */
	char *cipher_api;		/* C  name given to the crypto API */

	/* S  key_size bytes; zero if wiped or from a keyring */
	u8 *key;
	char *key_string;		/* S  ":size:type:desc", NULL for hex */
	unsigned int key_size;		/* C  bytes */
	/* key messages, against each other, TABLE status and resume */
	struct mutex key_lock;

	struct crypto_aead *aead;	/* C  NULL: tfms; S the key inside */
	struct crypto_skcipher **tfms;	/* C  array; S the keys inside */
	unsigned int tfms_count;	/* C  power of two; 1 with aead */
	unsigned int mac_key_size;	/* C  bytes at the end of key; authenc */
	/* S  room for the key as authenc takes it, zero outside of key.c */
	u8 *authenc_key;
	unsigned int authenc_key_size;	/* C  bytes; 0: not authenc */
	struct xcrypt_iv iv;
	struct xcrypt_integrity integrity;

	bool plain;			/* C  convert.c's plain road fits */
	bool iv_le64;			/* C  the IV is a le64 and 8 zero bytes */
	unsigned int dmreq_start;	/* C  bytes, from the request */
	unsigned int iv_start;		/* C  bytes, from the request */
	unsigned int aad_start;		/* C  bytes, from the request; AEAD */
	unsigned int req_size;		/* C  bytes of a whole block */
	unsigned int per_bio_data_size;	/* C  bytes */

	mempool_t req_pool;		/* blocks for asynchronous sectors */
	mempool_t page_pool;		/* ciphertext of writes */
	mempool_t bounce_pool;		/* sector_size bytes each */
	struct bio_set bs;		/* clones */
	struct mutex page_lock;		/* one writer waits for pages at a time */
	struct percpu_counter n_pages;	/* A  pages held; 0 in dtr */
	bool shares;			/* C  n_pages is there, and counts for the shares */

	struct xcrypt_cost cost;	/* measured by convert.c */
	struct xcrypt_window window;

	struct workqueue_struct *io_queue;	/* C  dm_crypt_io.work of reads */
	struct xcrypt_queue read_queue;
	struct xcrypt_queue write_queue;
	struct xcrypt_order order;
};

/* dm-xcrypt.c */
extern unsigned int xcrypt_max_read_size;	/* bytes; 0: no split */
extern unsigned int xcrypt_max_write_size;	/* bytes; 0: no split */
enum xcrypt_order_mode xcrypt_default_order(void);
void xcrypt_write_submit(struct dm_crypt_io *io);
void xcrypt_read_run(struct convert_context *ctx, struct xcrypt_lane *lane);
void xcrypt_write_run(struct convert_context *ctx, struct xcrypt_lane *lane);
void xcrypt_io_fail(struct dm_crypt_io *io, blk_status_t error);

/* convert.c */
void xcrypt_convert_init(struct dm_crypt_io *io, struct bio *bio_in, struct bio *bio_out);
bool xcrypt_convert(struct convert_context *ctx, bool may_sleep);
void xcrypt_convert_shared(struct convert_context *ctx, struct xcrypt_lane *lane);
void xcrypt_convert_done(struct dm_crypt_io *io, bool async);	/* dm-xcrypt.c */
int xcrypt_convert_layout(struct crypt_config *cc);

/* iv.c */
const struct xcrypt_iv_ops *xcrypt_iv_find(const char *name);
int xcrypt_iv_ctr(struct xcrypt_iv *iv, char **error);
void xcrypt_iv_dtr(struct xcrypt_iv *iv);
int xcrypt_iv_init(struct xcrypt_iv *iv, const u8 *key);
void xcrypt_iv_wipe(struct xcrypt_iv *iv);

/* sort.c */
const char *xcrypt_order_name(enum xcrypt_order_mode mode);
int xcrypt_order_parse(const char *name, enum xcrypt_order_mode *mode);
int xcrypt_order_start(struct crypt_config *cc, const char *devname);
void xcrypt_order_stop(struct crypt_config *cc);
void xcrypt_order_arrive(struct dm_crypt_io *io);
void xcrypt_order_add(struct dm_crypt_io *io);
void xcrypt_order_cancel(struct dm_crypt_io *io);
void xcrypt_order_relax(struct crypt_config *cc, bool on);
void xcrypt_sort_add(struct xcrypt_order *order, struct xcrypt_order_node *node);
void xcrypt_sort_take(struct xcrypt_order *order, struct rb_root_cached *tree);
struct xcrypt_order_node *xcrypt_sort_pop(struct rb_root_cached *tree);
void xcrypt_list_take(struct xcrypt_order *order, struct list_head *out);

/* queue.c */
int xcrypt_queue_init(struct xcrypt_queue *queue, const char *name, unsigned int wq_flags,
		      bool steal, xcrypt_run_fn run);
void xcrypt_queue_exit(struct xcrypt_queue *queue);
void xcrypt_queue_add(struct xcrypt_queue *queue, struct dm_crypt_io *io);
void xcrypt_queue_add_soft(struct xcrypt_queue *queue, struct dm_crypt_io *io);
unsigned int xcrypt_queue_helpers(struct xcrypt_lane *lane);
void xcrypt_queue_share(struct xcrypt_lane *lane, struct list_head *pieces, unsigned int n);
bool xcrypt_queue_helps_stream(struct xcrypt_queue *queue);
void xcrypt_queue_answered(struct xcrypt_queue *queue);

/* buffer.c */
int xcrypt_buffer_init(struct crypt_config *cc);
void xcrypt_buffer_exit(struct crypt_config *cc);
void xcrypt_count_pages(struct crypt_config *cc, s64 n);
struct bio *xcrypt_buffer_alloc(struct dm_crypt_io *io, bool may_wait);
void xcrypt_buffer_free(struct crypt_config *cc, struct bio *clone);

/* spare.c */
unsigned int xcrypt_spare_get(struct page **page, unsigned int n);
void xcrypt_spare_put(struct page **page, unsigned int n);
unsigned int xcrypt_spare_count(void);
int xcrypt_spare_init(void);
void xcrypt_spare_exit(void);

/* window.c */
unsigned long xcrypt_window_pages(struct crypt_config *cc);
unsigned int xcrypt_window_excess(struct crypt_config *cc, unsigned int n);
void xcrypt_window_tight(struct crypt_config *cc);
void xcrypt_window_begin(struct dm_crypt_io *io);
void xcrypt_window_end(struct dm_crypt_io *io);
void xcrypt_window_init(struct crypt_config *cc);

/* integrity.c */
int xcrypt_integrity_ctr(struct dm_target *ti);
void xcrypt_integrity_dtr(struct crypt_config *cc);
unsigned int xcrypt_max_clone_size(struct crypt_config *cc);
bool xcrypt_metadata_alloc(struct dm_crypt_io *io, bool may_wait);
void xcrypt_metadata_free(struct dm_crypt_io *io);
bool xcrypt_metadata_attach(struct dm_crypt_io *io, struct bio *clone, gfp_t gfp);
void xcrypt_metadata_detach(struct bio *clone);
u8 *xcrypt_metadata_of(struct dm_crypt_io *io, sector_t sector);
void xcrypt_integrity_report(struct dm_crypt_io *io);

/* key.c */
void xcrypt_key_text_wipe(char *text);
int xcrypt_key_parse_size(const char *text);
int xcrypt_key_alloc(struct crypt_config *cc);
int xcrypt_key_set(struct crypt_config *cc, char *text, char **error);
int xcrypt_key_replace(struct crypt_config *cc, char *text);
int xcrypt_key_wipe(struct crypt_config *cc);
void xcrypt_key_free(struct crypt_config *cc);
int xcrypt_tfms_alloc(struct crypt_config *cc);
int xcrypt_mac_ctr(struct crypt_config *cc, const char *cipher);
struct crypto_tfm *xcrypt_tfm(struct crypt_config *cc);
void xcrypt_tfms_free(struct crypt_config *cc);
int xcrypt_iv_cipher_alloc(struct xcrypt_iv *iv, const char *cipher_api);
void xcrypt_iv_cipher_free(struct xcrypt_iv *iv);
int xcrypt_iv_cipher_setkey(struct xcrypt_iv *iv, const u8 *key, unsigned int size);
int xcrypt_iv_cipher_block(struct xcrypt_iv *iv, u8 *block);

/* table.c */
int xcrypt_ctr(struct dm_target *ti, unsigned int argc, char **argv);
void xcrypt_dtr(struct dm_target *ti);
void xcrypt_status(struct dm_target *ti, status_type_t type, unsigned int status_flags,
		   char *result, unsigned int maxlen);
int xcrypt_message(struct dm_target *ti, unsigned int argc, char **argv,
		   char *result, unsigned int maxlen);
void xcrypt_postsuspend(struct dm_target *ti);
int xcrypt_preresume(struct dm_target *ti);
void xcrypt_resume(struct dm_target *ti);
int xcrypt_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn, void *data);
void xcrypt_io_hints(struct dm_target *ti, struct queue_limits *limits);

/* zoned.c */
#ifdef CONFIG_BLK_DEV_ZONED
void xcrypt_zoned_ctr(struct dm_target *ti);
void xcrypt_zoned_limits(struct queue_limits *limits, unsigned int max);
int xcrypt_report_zones(struct dm_target *ti, struct dm_report_zones_args *args,
			unsigned int nr_zones);
#else
static inline void xcrypt_zoned_ctr(struct dm_target *ti)
{
}

static inline void xcrypt_zoned_limits(struct queue_limits *limits, unsigned int max)
{
}

#define xcrypt_report_zones NULL
#endif

#endif /* DM_XCRYPT_H */
