// SPDX-License-Identifier: GPL-2.0
/*
 * The road of a bio, from top to bottom of this file in the order in which a
 * bio meets it, then the module.  dm-xcrypt.h has the overview.
 *
 *   read:   xcrypt_map -> read_remap -> base_endio -> read_convert
 *           -> xcrypt_read_run -> xcrypt_convert -> xcrypt_convert_done
 *           -> read_done -> io_end
 *   a read with metadata: xcrypt_map -> read_map -> read_submit -> read_endio
 *           -> read_convert -> ...
 *   a read whose tag does not fit: ... read_done -> reread_work
 *           -> reread_endio -> xcrypt_read_run -> ... read_done -> io_end
 *   write:  xcrypt_map -> write_map -> xcrypt_write_run -> xcrypt_convert
 *           -> xcrypt_convert_done -> write_ready -> [sort.c]
 *           -> xcrypt_write_submit -> write_endio -> io_end
 *   zoned:  xcrypt_map -> write_map_zoned -> xcrypt_convert, waited for
 *           -> xcrypt_write_submit -> write_endio -> io_end
 */
#include <linux/blkdev.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include "dm-xcrypt.h"

/*
 * Nanoseconds that a conversion may take in the context that it comes in: for
 * less it is not worth to wake a worker, for more it is worth to have other
 * CPUs help, and in softirq others wait for us.
 */
#define XCRYPT_HERE_SOFTIRQ	(50 * NSEC_PER_USEC)
#define XCRYPT_HERE_TASK	(100 * NSEC_PER_USEC)
/* ... if no other CPU could help, but who comes next should not wait for ever */
#define XCRYPT_HERE_ALONE	(500 * NSEC_PER_USEC)
/* For no more it is not even worth to hand it to a worker that is awake. */
#define XCRYPT_HERE_STREAM	(5 * NSEC_PER_USEC)
/* 512-byte sectors of a write that nobody will cut. */
#define XCRYPT_PLUG_SECTORS	8
/* What a KiB takes as long as nothing was measured. */
#define XCRYPT_GUESS_NS		(4 * NSEC_PER_USEC)

/* Module parameter: whether conversions are left to workers. */
enum { WORKERS_AUTO, WORKERS_NEVER, WORKERS_ALWAYS };

static const char * const workers_words[] = { "auto", "never", "always" };
static int workers = WORKERS_AUTO;

/* ---- the end, reached from everywhere ---- */

/* The caller gets his bio back; io is gone with it. */
static void io_end(struct dm_crypt_io *io)
{
	struct bio *base_bio = io->base_bio;

	xcrypt_metadata_free(io);
	if (io->base_end_io)
		base_bio->bi_end_io = io->base_end_io;
	base_bio->bi_status = READ_ONCE(io->error);
	bio_endio(base_bio);
}

/**
 * xcrypt_io_fail() - note an error; io goes on to its end
 * @io: may be in several hands at once
 * @error: not BLK_STS_OK
 *
 * Of two errors at once either may stay: each is true.
 *
 * Context: any.
 */
void xcrypt_io_fail(struct dm_crypt_io *io, blk_status_t error)
{
	if (!READ_ONCE(io->error))
		WRITE_ONCE(io->error, error);
}

/* ---- reads ---- */

/**
 * xcrypt_read_run() - decrypt, in a worker
 * @ctx: of an io with ciphertext in base_bio, part of which may be decrypted; or
 *       a piece of one
 * @lane: the worker's own
 *
 * Context: process.
 */
void xcrypt_read_run(struct convert_context *ctx, struct xcrypt_lane *lane)
{
	xcrypt_convert_shared(ctx, lane);
}

/* Nanoseconds that the conversion of io takes, as far as is known. */
static u64 conversion_ns(struct dm_crypt_io *io)
{
	unsigned int ns_per_kib = READ_ONCE(io->cc->cost.ns_per_kib) ?: XCRYPT_GUESS_NS;

	return (u64)bio_sectors(io->base_bio) * ns_per_kib / 2;
}

/* May a write of a task that brings many be converted sooner by other CPUs? */
static bool stream_helped(struct dm_crypt_io *io, u64 ns)
{
	return ns > XCRYPT_HERE_STREAM && num_online_cpus() > 1 &&
	       op_is_write(bio_op(io->base_bio)) &&
	       xcrypt_queue_helps_stream(&io->cc->write_queue);
}

/* One CPU has all of io to do: there is no other, or nothing to share. */
static bool for_one_cpu(struct dm_crypt_io *io)
{
	return num_online_cpus() == 1 || io->base_bio->bi_iter.bi_size <= PAGE_SIZE;
}

/*
 * Is it better to convert right here, in the context that io came in, than to
 * hand it to a worker?
 */
static bool worth_here(struct dm_crypt_io *io)
{
	int choice = READ_ONCE(workers);
	u64 ns = conversion_ns(io);

	if (test_bit(XCRYPT_SAME_CPU, &io->cc->flags))
		return false;
	if (unlikely(choice != WORKERS_AUTO))
		return choice == WORKERS_NEVER;
	if (!in_task() || irqs_disabled())
		return ns <= XCRYPT_HERE_SOFTIRQ;
	if (ns > (for_one_cpu(io) ? XCRYPT_HERE_ALONE : XCRYPT_HERE_TASK))
		return false;
	return !stream_helped(io, ns);
}

/*
 * A read waits for its conversion.  Not in hard irq, nor where interrupts are off
 * (the idle loop completes so): ciphers use the FPU, and take long.
 */
static void read_hand_on(struct dm_crypt_io *io)
{
	struct crypt_config *cc = io->cc;
	bool here = test_bit(XCRYPT_NO_READ_WORKQUEUE, &cc->flags) || worth_here(io);

	if (here && (in_hardirq() || irqs_disabled()))
		xcrypt_queue_add_soft(&cc->read_queue, io);
	else if (!here || !xcrypt_convert(&io->ctx, false))
		xcrypt_queue_add(&cc->read_queue, io);
}

/* The lower device has read io, or failed.  Context: any, hard irq too. */
static void read_convert(struct dm_crypt_io *io, blk_status_t error)
{
	if (error) {
		xcrypt_io_fail(io, error);
		io_end(io);
		return;
	}

	xcrypt_convert_init(io, io->base_bio, io->base_bio);
	read_hand_on(io);
}

/* The devices below advance what they are given. */
static void base_endio(struct bio *bio)
{
	struct dm_crypt_io *io = bio->bi_private;

	bio->bi_iter = io->base_iter;
	read_convert(io, bio->bi_status);
}

/*
 * Nothing of a read is ours but its end: it goes down as it came, and dm core's
 * end has to wait until it is decrypted.
 */
static int read_remap(struct dm_crypt_io *io)
{
	struct crypt_config *cc = io->cc;
	struct bio *bio = io->base_bio;

	io->base_iter = bio->bi_iter;
	io->base_end_io = bio->bi_end_io;
	bio->bi_end_io = base_endio;
	bio->bi_private = io;
	/* whoever polls looks for dm core's end, which is not there yet */
	bio->bi_opf &= ~REQ_POLLED;
	bio_set_dev(bio, cc->dev->bdev);
	bio->bi_iter.bi_sector = cc->start + io->sector;
	return DM_MAPIO_REMAPPED;
}

static void read_endio(struct bio *clone)
{
	struct dm_crypt_io *io = clone->bi_private;
	blk_status_t error = clone->bi_status;

	xcrypt_metadata_detach(clone);
	bio_put(clone);
	read_convert(io, error);
}

/*
 * Send a clone that shares the caller's pages to the lower device.  Returns
 * false if there is no memory for it, only if gfp does not wait.
 */
static bool read_submit(struct dm_crypt_io *io, gfp_t gfp)
{
	struct crypt_config *cc = io->cc;
	struct bio *clone;

	if (!xcrypt_metadata_alloc(io, gfpflags_allow_blocking(gfp)))
		return false;
	clone = bio_alloc_clone(cc->dev->bdev, io->base_bio, gfp, &cc->bs);
	if (!clone)
		return false;
	if (!xcrypt_metadata_attach(io, clone, gfp)) {
		bio_put(clone);
		return false;
	}
	clone->bi_private = io;
	clone->bi_end_io = read_endio;
	/* whoever polls for base_bio knows nothing of the clone */
	clone->bi_opf &= ~REQ_POLLED;
	clone->bi_iter.bi_sector = cc->start + io->sector;
	dm_submit_bio_remap(io->base_bio, clone);
	return true;
}

/*
 * Let a worker do what must sleep.  On a workqueue of its own: waiting there
 * for a clone must not hold up the conversions, some of which end in giving
 * clones back.  An io gives its metadata back before, which those ahead of it
 * may wait for.
 */
static void read_later(struct dm_crypt_io *io, work_func_t fn)
{
	xcrypt_metadata_free(io);
	INIT_WORK(&io->work, fn);
	queue_work(io->cc->io_queue, &io->work);
}

/* A read that map() had no memory for. */
static void read_submit_work(struct work_struct *work)
{
	read_submit(container_of(work, struct dm_crypt_io, work), GFP_NOIO);
}

static int read_map(struct dm_crypt_io *io)
{
	if (!io->cc->integrity.stride)
		return read_remap(io);
	if (!read_submit(io, XCRYPT_GFP_NOWAIT))
		read_later(io, read_submit_work);
	return DM_MAPIO_SUBMITTED;
}

/*
 * A tag did not fit.  The pages that were decrypted in place are the caller's:
 * he may have written to them meanwhile, or have them filled by two reads at
 * once.  So the whole bio is read again, into pages that are ours, and only
 * what is wrong there is wrong on the disk.
 */

/* Nobody shall see what did not fit its tag. */
static void reread_failed_work(struct work_struct *work)
{
	struct dm_crypt_io *io = container_of(work, struct dm_crypt_io, work);

	zero_fill_bio(io->base_bio);
	io_end(io);
}

/* Not once more: it is wrong on the disk. */
static void tag_error_work(struct work_struct *work)
{
	xcrypt_integrity_report(container_of(work, struct dm_crypt_io, work));
	reread_failed_work(work);
}

/* The lower device is done, again.  Context: any, hard irq too. */
static void reread_endio(struct bio *clone)
{
	struct dm_crypt_io *io = clone->bi_private;
	struct crypt_config *cc = io->cc;

	if (clone->bi_status) {
		xcrypt_io_fail(io, clone->bi_status);
		xcrypt_buffer_free(cc, clone);
		read_later(io, reread_failed_work);
		return;
	}
	/* back to the start: the devices below advance what they are given */
	clone->bi_iter = (struct bvec_iter){ .bi_size = io->base_bio->bi_iter.bi_size };
	xcrypt_convert_init(io, clone, clone);
	xcrypt_queue_add(&cc->read_queue, io);
}

static void reread_work(struct work_struct *work)
{
	struct dm_crypt_io *io = container_of(work, struct dm_crypt_io, work);
	struct crypt_config *cc = io->cc;

	atomic64_inc(&cc->integrity.rechecks);
	io->error = BLK_STS_OK;
	io->clone = xcrypt_buffer_alloc(io, true);
	io->clone->bi_iter.bi_sector = cc->start + io->sector;
	io->clone->bi_end_io = reread_endio;
	dm_submit_bio_remap(io->base_bio, io->clone);
}

/* A read is decrypted, or failed.  Context: as xcrypt_convert_done(). */
static void read_done(struct dm_crypt_io *io)
{
	struct bio *clone = io->clone;
	blk_status_t error = READ_ONCE(io->error);

	if (unlikely(clone)) {
		if (!error)
			bio_copy_data(io->base_bio, clone);
		xcrypt_buffer_free(io->cc, clone);
	}
	if (unlikely(error && clone))
		read_later(io, error == BLK_STS_PROTECTION ? tag_error_work : reread_failed_work);
	else if (unlikely(error == BLK_STS_PROTECTION))
		read_later(io, reread_work);
	else
		io_end(io);
}

/* ---- writes ---- */

/* The lower device is done.  Context: any, hard irq too. */
static void write_endio(struct bio *clone)
{
	struct dm_crypt_io *io = clone->bi_private;

	if (clone->bi_status)
		xcrypt_io_fail(io, clone->bi_status);
	if (in_task())
		xcrypt_queue_answered(&io->cc->write_queue);
	xcrypt_window_end(io);
	xcrypt_buffer_free(io->cc, clone);
	io_end(io);
}

/**
 * xcrypt_write_submit() - send an encrypted write to the lower device
 * @io: the caller gives it away
 *
 * The devices below cut what is large, and RAID5 among them has to see all of a
 * stripe, or it reads what it believes is missing: it waits for that as long as
 * there is a plug.
 *
 * Context: process, sleeps.
 */
void xcrypt_write_submit(struct dm_crypt_io *io)
{
	struct blk_plug plug;

	if (bio_sectors(io->clone) <= XCRYPT_PLUG_SECTORS) {
		dm_submit_bio_remap(io->base_bio, io->clone);
		return;
	}
	blk_start_plug(&plug);
	dm_submit_bio_remap(io->base_bio, io->clone);
	blk_finish_plug(&plug);
}

static void write_prepare(struct dm_crypt_io *io)
{
	io->clone->bi_iter.bi_sector = io->cc->start + io->sector;
	io->clone->bi_end_io = write_endio;
	xcrypt_window_begin(io);
}

/*
 * A write is encrypted, or failed.  A callback may not submit, so what it
 * completed takes the thread even in mode inline.
 */
static void write_ready(struct dm_crypt_io *io, bool async)
{
	struct crypt_config *cc = io->cc;

	if (READ_ONCE(io->error)) {
		xcrypt_order_cancel(io);
		xcrypt_buffer_free(cc, io->clone);
		io_end(io);
		return;
	}

	write_prepare(io);
	if (cc->order.mode == XCRYPT_ORDER_INLINE && !async)
		xcrypt_write_submit(io);
	else
		xcrypt_order_add(io);
}

/* Ready a write for xcrypt_convert().  Returns false if there is no memory. */
static bool write_begin(struct dm_crypt_io *io, bool may_wait)
{
	io->clone = xcrypt_buffer_alloc(io, may_wait);
	if (!io->clone)
		return false;
	xcrypt_convert_init(io, io->base_bio, io->clone);
	return true;
}

/**
 * xcrypt_write_run() - encrypt, in a worker
 * @ctx: of an io fresh from map(), or a piece of one
 * @lane: the worker's own
 *
 * Context: process; sleeps for memory.
 */
void xcrypt_write_run(struct convert_context *ctx, struct xcrypt_lane *lane)
{
	if (ctx == &ctx->io->ctx)
		write_begin(ctx->io, true);
	xcrypt_convert_shared(ctx, lane);
}

/*
 * map() is process context, but sits on current->bio_list: it may wait for
 * the cipher, not for memory that its own earlier bios hold.
 */
static void write_map(struct dm_crypt_io *io)
{
	struct crypt_config *cc = io->cc;

	xcrypt_order_arrive(io);
	if ((test_bit(XCRYPT_NO_WRITE_WORKQUEUE, &cc->flags) || worth_here(io)) &&
	    !in_interrupt() && write_begin(io, false)) {
		xcrypt_convert(&io->ctx, true);
		return;
	}
	xcrypt_queue_add(&cc->write_queue, io);
}

/*
 * Not handed on to anybody: zoned.c says why, and why the waits are safe here.
 * What fails is killed and not ended, since dm core still works on it.
 */
static int write_map_zoned(struct dm_crypt_io *io)
{
	init_completion(&io->converted);
	write_begin(io, true);
	xcrypt_convert(&io->ctx, true);
	wait_for_completion_io(&io->converted);
	if (READ_ONCE(io->error)) {
		xcrypt_buffer_free(io->cc, io->clone);
		xcrypt_metadata_free(io);
		return DM_MAPIO_KILL;
	}
	write_prepare(io);
	xcrypt_write_submit(io);
	return DM_MAPIO_SUBMITTED;
}

/**
 * xcrypt_convert_done() - all of io is converted, or has failed
 * @io: the caller gives it away
 * @async: the caller is a cipher's callback
 *
 * Context: process, or softirq with interrupts possibly off; does not sleep
 * if @async or for a read.
 */
void xcrypt_convert_done(struct dm_crypt_io *io, bool async)
{
	if (!op_is_write(bio_op(io->base_bio)))
		read_done(io);
	else if (test_bit(XCRYPT_ZONED, &io->cc->flags))
		complete(&io->converted);
	else
		write_ready(io, async);
}

/* ---- map ---- */

/*
 * Flushes, discards and what opens, closes or resets a zone carry no data to
 * convert; a flush has no sector.
 */
static int map_remap(struct crypt_config *cc, struct bio *bio, sector_t sector)
{
	bio_set_dev(bio, cc->dev->bdev);
	if (bio->bi_iter.bi_size || op_is_zone_mgmt(bio_op(bio)))
		bio->bi_iter.bi_sector = cc->start + sector;
	return DM_MAPIO_REMAPPED;
}

/*
 * A write that someone counts on to reach the disk as one.  What counts is the
 * mapped device: it has no zones if all of its zones are conventional.
 */
static bool is_whole(struct bio *bio)
{
	return bio_data_dir(bio) == WRITE &&
	       (bdev_is_zoned(bio->bi_bdev) || (bio->bi_opf & REQ_ATOMIC));
}

/*
 * Bytes that one io may have: as the module's parameters say, and as fits the
 * pages of one clone and its metadata, in whole sectors of ours and of the
 * lower device.  A read with metadata may need a clone with pages too.
 */
static unsigned int max_io_bytes(struct crypt_config *cc, struct bio *bio)
{
	unsigned int unit = max(bdev_logical_block_size(cc->dev->bdev), cc->sector_size);
	unsigned int max = READ_ONCE(xcrypt_max_read_size);

	if (bio_data_dir(bio) == WRITE)
		max = READ_ONCE(xcrypt_max_write_size);
	if (!max || is_whole(bio))
		max = UINT_MAX;
	if (bio_data_dir(bio) == WRITE || cc->integrity.stride)
		max = min(max, xcrypt_max_clone_size(cc));
	return max(round_down(max, unit), unit);
}

/*
 * Cut bio to max bytes; dm core sends the rest again.  Returns false if it must
 * not be cut: the limits told everybody, and dm core cuts nothing else.
 */
static bool cut(struct bio *bio, unsigned int max)
{
	if (is_whole(bio) && ((bio->bi_opf & REQ_ATOMIC) || !XCRYPT_MAY_CUT_ZONED)) {
		DMERR_LIMIT("a write of %u bytes at sector %llu must be whole, %u are the most",
			    bio->bi_iter.bi_size,
			    (unsigned long long)bio->bi_iter.bi_sector, max);
		return false;
	}
	dm_accept_partial_bio(bio, max >> SECTOR_SHIFT);
	return true;
}

static struct dm_crypt_io *io_init(struct crypt_config *cc, struct bio *bio, sector_t sector)
{
	struct dm_crypt_io *io = dm_per_bio_data(bio, cc->per_bio_data_size);

	io->cc = cc;
	io->ctx.io = io;
	io->base_bio = bio;
	io->sector = sector;
	io->error = BLK_STS_OK;
	io->clone = NULL;
	io->base_end_io = NULL;
	io->meta.bytes = NULL;
	io->meta.reserved = false;
	return io;
}

/* What a read or write must look like, after it was cut to what one io holds. */
static bool aligned(struct crypt_config *cc, struct bio *bio, sector_t sector)
{
	return !((sector | bio_sectors(bio)) & ((cc->sector_size >> SECTOR_SHIFT) - 1));
}

static int xcrypt_map(struct dm_target *ti, struct bio *bio)
{
	sector_t sector = dm_target_offset(ti, bio->bi_iter.bi_sector);
	struct crypt_config *cc = ti->private;
	const enum req_op op = bio_op(bio);
	unsigned int max;

	if (unlikely(op == REQ_OP_DISCARD || (bio->bi_opf & REQ_PREFLUSH) ||
		     op_is_zone_mgmt(op)))
		return map_remap(cc, bio, sector);
	/* nothing else is advertised; data must not pass in clear by accident */
	if (unlikely(op != REQ_OP_READ && op != REQ_OP_WRITE))
		return DM_MAPIO_KILL;
	/* a "key wipe" that slipped in between preresume and resume */
	if (unlikely(!test_bit(XCRYPT_KEY_VALID, &cc->flags)))
		return DM_MAPIO_KILL;

	max = max_io_bytes(cc, bio);
	if (unlikely(bio->bi_iter.bi_size > max && !cut(bio, max)))
		return DM_MAPIO_KILL;
	if (unlikely(!aligned(cc, bio, sector)))
		return DM_MAPIO_KILL;

	if (op == REQ_OP_WRITE && test_bit(XCRYPT_ZONED, &cc->flags))
		return write_map_zoned(io_init(cc, bio, sector));
	if (op == REQ_OP_READ)
		return read_map(io_init(cc, bio, sector));
	write_map(io_init(cc, bio, sector));
	return DM_MAPIO_SUBMITTED;
}

/* ---- the module ---- */

static char *target_name = "crypt";
module_param(target_name, charp, 0444);
MODULE_PARM_DESC(target_name, "name of the device-mapper target (default: crypt)");

unsigned int xcrypt_max_read_size;
module_param_named(max_read_size, xcrypt_max_read_size, uint, 0644);
MODULE_PARM_DESC(max_read_size, "split larger reads, bytes (default: 0, don't split)");

unsigned int xcrypt_max_write_size;
module_param_named(max_write_size, xcrypt_max_write_size, uint, 0644);
MODULE_PARM_DESC(max_write_size, "split larger writes, bytes (default: 0, split only what no bio can hold)");

static enum xcrypt_order_mode default_order = XCRYPT_ORDER_AUTO;

static int order_param_set(const char *val, const struct kernel_param *kp)
{
	enum xcrypt_order_mode mode;
	int r = xcrypt_order_parse(val, &mode);

	if (r)
		pr_err("dm_xcrypt: write_order is inline, offload, fifo, sort or auto, not \"%.32s\"\n",
		       val);
	else
		WRITE_ONCE(default_order, mode);
	return r;
}

static int order_param_get(char *buf, const struct kernel_param *kp)
{
	return sprintf(buf, "%s\n", xcrypt_order_name(xcrypt_default_order()));
}

static const struct kernel_param_ops order_param_ops = {
	.set = order_param_set,
	.get = order_param_get,
};

module_param_cb(write_order, &order_param_ops, NULL, 0644);
MODULE_PARM_DESC(write_order, "order in which encrypted writes are submitted, for devices created from now on: inline, offload, fifo, sort or auto (default: auto: sort on rotational devices, else inline)");

static int workers_param_set(const char *val, const struct kernel_param *kp)
{
	int choice = sysfs_match_string(workers_words, val);

	if (choice < 0)
		pr_err("dm_xcrypt: workers is auto, never or always, not \"%.32s\"\n", val);
	else
		WRITE_ONCE(workers, choice);
	return min(choice, 0);
}

static int workers_param_get(char *buf, const struct kernel_param *kp)
{
	return sprintf(buf, "%s\n", workers_words[READ_ONCE(workers)]);
}

static const struct kernel_param_ops workers_param_ops = {
	.set = workers_param_set,
	.get = workers_param_get,
};

module_param_cb(workers, &workers_param_ops, NULL, 0644);
MODULE_PARM_DESC(workers, "who converts: workers always, never where the context allows it, or auto: by what the cipher takes (default: auto)");

static int spare_param_get(char *buf, const struct kernel_param *kp)
{
	return sprintf(buf, "%u\n", xcrypt_spare_count());
}

static const struct kernel_param_ops spare_param_ops = {
	.get = spare_param_get,
};

module_param_cb(spare_pages, &spare_param_ops, NULL, 0444);
MODULE_PARM_DESC(spare_pages, "pages kept for the next writes, now");

/**
 * xcrypt_default_order() - what the module parameter write_order says now
 *
 * Context: any.
 */
enum xcrypt_order_mode xcrypt_default_order(void)
{
	return READ_ONCE(default_order);
}

static struct target_type xcrypt_target = {
	.version = { 1, XCRYPT_VERSION_MINOR, 0 },
	.features = DM_TARGET_ZONED_HM | DM_TARGET_ATOMIC_WRITES,
	.module = THIS_MODULE,
	.ctr = xcrypt_ctr,
	.dtr = xcrypt_dtr,
	.map = xcrypt_map,
	.status = xcrypt_status,
	.postsuspend = xcrypt_postsuspend,
	.preresume = xcrypt_preresume,
	.resume = xcrypt_resume,
	.message = xcrypt_message,
	.iterate_devices = xcrypt_iterate_devices,
	.report_zones = xcrypt_report_zones,
	.io_hints = xcrypt_io_hints,
};

/* Is in-tree dm-crypt loaded?  Our own kobject knows the set of all modules. */
static bool intree_loaded(void)
{
	struct kobject *kobj = kset_find_obj(THIS_MODULE->mkobj.kobj.kset, "dm_crypt");

	kobject_put(kobj);
	return kobj;
}

static void explain_name_taken(int error)
{
	if (intree_loaded())
		pr_err("dm_xcrypt: the target name \"%s\" is taken by the kernel's dm_crypt module (error %d): close its devices and run \"modprobe -r dm_crypt\", or load this module with target_name=xcrypt\n",
		       target_name, error);
	else
		pr_err("dm_xcrypt: the target name \"%s\" is taken by a module other than dm_crypt, or built into the kernel (error %d): load this module with target_name=xcrypt\n",
		       target_name, error);
}

static int __init xcrypt_init(void)
{
	size_t len = strlen(target_name);
	int r;

	/* device-mapper truncates what is longer: no table would find it */
	if (!len || len >= DM_MAX_TYPE_NAME) {
		pr_err("dm_xcrypt: target_name has %zu bytes, need 1 to %d\n",
		       len, DM_MAX_TYPE_NAME - 1);
		return -EINVAL;
	}

	r = xcrypt_spare_init();
	if (r)
		return r;
	xcrypt_target.name = target_name;
	r = dm_register_target(&xcrypt_target);
	if (!r)
		return 0;
	xcrypt_spare_exit();
	if (r != -EEXIST && r != -EBUSY)
		return r;
	explain_name_taken(r);
	/* modprobe takes -EEXIST for "is loaded already", which is no error */
	return -EBUSY;
}

static void __exit xcrypt_exit(void)
{
	dm_unregister_target(&xcrypt_target);
	xcrypt_spare_exit();
}

module_init(xcrypt_init);
module_exit(xcrypt_exit);

MODULE_DESCRIPTION("device-mapper target for transparent encryption");
MODULE_LICENSE("GPL");
MODULE_ALIAS("dm-xcrypt");
