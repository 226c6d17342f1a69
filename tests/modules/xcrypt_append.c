// SPDX-License-Identifier: GPL-2.0
/*
 * Writes bios of one's own choice, zone appends above all, for which user
 * space has no system call:
 *
 *	echo "DEVICE append|write|commit SECTOR BYTES COUNT" > parameters/run
 *
 * submits COUNT bios of BYTES one after the other without waiting for any, to
 * the zone that begins at SECTOR, or from SECTOR on.  A commit is a write as
 * journals end with, with REQ_PREFLUSH and REQ_FUA.  Each bio has one segment,
 * so that it may be longer than one of pages.  All 64-bit words of bio I are
 * I << 32 | the sector of the bio that they are in, little-endian.
 *
 * parameters/landed then has COUNT words: the sector where each bio begins,
 * or a negative error number.
 */
#define pr_fmt(fmt) fmt

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#define MAX_COUNT	64U
#define MAX_BYTES	(4U << 20)

static long long landed[MAX_COUNT];	/* the parameters' lock */
static unsigned int landed_count;
static atomic_t pending;
static DECLARE_COMPLETION(all_done);

static void append_endio(struct bio *bio)
{
	long long *result = bio->bi_private;

	*result = bio->bi_iter.bi_sector;
	if (bio->bi_status)
		*result = blk_status_to_errno(bio->bi_status);
	if (atomic_dec_and_test(&pending))
		complete(&all_done);
}

static void fill(__le64 *buf, unsigned int bytes, u64 number)
{
	unsigned int n;

	for (n = 0; n < bytes / sizeof(*buf); n++)
		buf[n] = cpu_to_le64(number << 32 | n / (SECTOR_SIZE / sizeof(*buf)));
}

struct job {
	struct block_device *bdev;
	blk_opf_t opf;
	u64 sector;
	unsigned int bytes, count;
	struct bio *bio[MAX_COUNT];
	void *buf[MAX_COUNT];
};

static int prepare(struct job *job, unsigned int n)
{
	struct bio *bio;

	job->buf[n] = alloc_pages_exact(job->bytes, GFP_KERNEL);
	if (!job->buf[n])
		return -ENOMEM;
	fill(job->buf[n], job->bytes, n);

	bio = bio_alloc(job->bdev, 1, job->opf, GFP_KERNEL);
	bio->bi_iter.bi_sector = job->sector;
	if (bio_op(bio) == REQ_OP_WRITE)
		bio->bi_iter.bi_sector += n * (job->bytes >> SECTOR_SHIFT);
	bio->bi_end_io = append_endio;
	bio->bi_private = &landed[n];
	job->bio[n] = bio;
	if (bio_add_page(bio, virt_to_page(job->buf[n]), job->bytes, 0) != job->bytes)
		return -EINVAL;
	return 0;
}

static int run_job(struct job *job)
{
	unsigned int n;
	int r = 0;

	for (n = 0; n < job->count && !r; n++)
		r = prepare(job, n);
	if (!r) {
		atomic_set(&pending, job->count);
		reinit_completion(&all_done);
		for (n = 0; n < job->count; n++)
			submit_bio(job->bio[n]);
		wait_for_completion(&all_done);
	}
	for (n = 0; n < job->count; n++) {
		if (job->bio[n])
			bio_put(job->bio[n]);
		if (job->buf[n])
			free_pages_exact(job->buf[n], job->bytes);
	}
	landed_count = r ? 0 : job->count;
	return r;
}

static blk_opf_t kind_of(const char *word)
{
	if (!strcmp(word, "append"))
		return REQ_OP_ZONE_APPEND | REQ_SYNC;
	if (!strcmp(word, "commit"))
		return REQ_OP_WRITE | REQ_SYNC | REQ_PREFLUSH | REQ_FUA;
	return REQ_OP_WRITE | REQ_SYNC;
}

static int run_set(const char *val, const struct kernel_param *kp)
{
	char path[64], kind[8];
	struct file *file;
	struct job *job;
	int r = -EINVAL;

	job = kzalloc(sizeof(*job), GFP_KERNEL);
	if (!job)
		return -ENOMEM;
	if (sscanf(val, "%63s %7s %llu %u %u", path, kind, &job->sector, &job->bytes,
		   &job->count) != 5 || job->count > MAX_COUNT ||
	    job->bytes > MAX_BYTES || job->bytes % SECTOR_SIZE)
		goto out;
	job->opf = kind_of(kind);

	file = filp_open(path, O_RDWR, 0);
	r = PTR_ERR_OR_ZERO(file);
	if (r)
		goto out;
	job->bdev = I_BDEV(file->f_mapping->host);
	r = run_job(job);
	filp_close(file, NULL);
out:
	kfree(job);
	return r;
}

static int landed_get(char *buf, const struct kernel_param *kp)
{
	unsigned int n;
	int len = 0;

	for (n = 0; n < landed_count; n++)
		len += sysfs_emit_at(buf, len, "%lld ", landed[n]);
	return len + sysfs_emit_at(buf, len, "\n");
}

static const struct kernel_param_ops run_ops = { .set = run_set };
static const struct kernel_param_ops landed_ops = { .get = landed_get };

module_param_cb(run, &run_ops, NULL, 0200);
module_param_cb(landed, &landed_ops, NULL, 0444);

static int __init xcrypt_append_init(void)
{
	return 0;
}

static void __exit xcrypt_append_exit(void)
{
}

module_init(xcrypt_append_init);
module_exit(xcrypt_append_exit);

MODULE_DESCRIPTION("test module: zone appends and other bios");
MODULE_LICENSE("GPL");
