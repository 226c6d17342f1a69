// SPDX-License-Identifier: GPL-2.0
/*
 * Sends bios whose sectors lie in odd pieces, which no direct I/O of a program
 * can do (its buffers must be aligned to the sector) but file systems and
 * other kernel users may.
 *
 *	modprobe xcrypt_straddle dev=/dev/dm-0 sector_size=4096
 *	cat /sys/module/xcrypt_straddle/parameters/result
 *
 * For each cut: written in pieces, read back by whole pages; then written by
 * whole pages, read back in pieces.  The result is 0, or says what went wrong
 * first.  What lies around the pieces must stay as it was, and so must the
 * pieces of a write.  dev holds at least 128 sectors of 512 bytes, whose
 * content is lost.
 *
 * A read reaches the disk in the same pieces.  Newer kernels do not let a disk
 * have some that its DMA was not made for: the read ends with EINVAL, and
 * counts in the parameter refused.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#define SECTORS_PER_BIO	8
#define MAX_BYTES	(SECTORS_PER_BIO * 4096)
#define MAX_PIECES	(SECTORS_PER_BIO * 8 + 1)
#define MAX_CUT		8
/* A piece has two pages, so that it may cross from one to the other. */
#define ROOM		(2 * PAGE_SIZE)
#define FILLER		0xa5

static char *dev;
module_param(dev, charp, 0444);
MODULE_PARM_DESC(dev, "block device to write to");

static unsigned int sector_size = 512;
module_param(sector_size, uint, 0444);
MODULE_PARM_DESC(sector_size, "bytes: 512 to 4096");

static char result[80];
module_param_string(result, result, sizeof(result), 0444);
MODULE_PARM_DESC(result, "0, or what went wrong");

static unsigned int refused;
module_param(refused, uint, 0444);
MODULE_PARM_DESC(refused, "reads in pieces that the disk below may not have");

/* Lengths that repeat to the end of the bio; 0 ends the list. */
struct cut {
	unsigned int length[MAX_CUT];
};

/* One bio's memory, in two shapes. */
struct area {
	struct block_device *bdev;
	unsigned int bytes;
	u8 *pattern;			/* what is written */
	u8 *whole;			/* MAX_BYTES, pages in a row */
	u8 *piece[MAX_PIECES];		/* ROOM bytes each */
	unsigned int offset[MAX_PIECES];
	unsigned int length[MAX_PIECES];
	unsigned int pieces;
};

/* Pieces as the cut says, each somewhere else in its two pages. */
static void area_cut(struct area *area, const struct cut *cut)
{
	unsigned int at = 0, i = 0;

	area->pieces = 0;
	while (at < area->bytes) {
		unsigned int n = area->pieces++;
		unsigned int length = min(cut->length[i], area->bytes - at);

		area->length[n] = length;
		/* 0 first: the plain case; odd ones, and over the page's end */
		area->offset[n] = n * 1237 % (ROOM - length);
		at += length;
		i++;
		if (i == MAX_CUT || !cut->length[i])
			i = 0;
	}
}

static void new_pattern(struct area *area)
{
	static u32 state = 1;
	unsigned int i;

	for (i = 0; i < area->bytes; i++) {
		state = state * 1664525 + 1013904223;
		area->pattern[i] = state >> 24;
	}
}

/* Pattern to the pieces, or only the filler. */
static void fill_pieces(struct area *area, bool pattern)
{
	unsigned int at = 0, n;

	for (n = 0; n < area->pieces; n++) {
		memset(area->piece[n], FILLER, ROOM);
		if (pattern)
			memcpy(area->piece[n] + area->offset[n],
			       area->pattern + at, area->length[n]);
		at += area->length[n];
	}
}

/* The pieces hold the pattern, and the filler is around them. */
static bool pieces_good(struct area *area)
{
	unsigned int at = 0, n;

	for (n = 0; n < area->pieces; n++) {
		u8 *piece = area->piece[n];
		unsigned int end = area->offset[n] + area->length[n];

		if (memcmp(piece + area->offset[n], area->pattern + at, area->length[n]))
			return false;
		if (area->offset[n] && memchr_inv(piece, FILLER, area->offset[n]))
			return false;
		if (end < ROOM && memchr_inv(piece + end, FILLER, ROOM - end))
			return false;
		at += area->length[n];
	}
	return true;
}

static void add(struct bio *bio, u8 *data, unsigned int length)
{
	/* does not join neighbours, which bio_add_page() would */
	__bio_add_page(bio, virt_to_page(data), length, offset_in_page(data));
}

/* One bio at sector; in pieces, or by whole pages.  Returns 0 or -errno. */
static int transfer(struct area *area, blk_opf_t opf, sector_t sector, bool cut)
{
	struct bio *bio = bio_alloc(area->bdev, MAX_PIECES, opf, GFP_KERNEL);
	unsigned int at, n;
	int r;

	bio->bi_iter.bi_sector = sector;
	if (cut)
		for (n = 0; n < area->pieces; n++)
			add(bio, area->piece[n] + area->offset[n], area->length[n]);
	else
		for (at = 0; at < area->bytes; at += PAGE_SIZE)
			add(bio, area->whole + at,
			    min_t(unsigned int, PAGE_SIZE, area->bytes - at));
	r = submit_bio_wait(bio);
	bio_put(bio);
	return r;
}

/* Written in pieces, read whole.  Returns NULL or what went wrong. */
static const char *write_cut(struct area *area, sector_t sector, int *r)
{
	new_pattern(area);
	fill_pieces(area, true);
	*r = transfer(area, REQ_OP_WRITE, sector, true);
	if (*r)
		return "write in pieces";
	if (!pieces_good(area))
		return "write in pieces changed them";

	memset(area->whole, FILLER, area->bytes);
	*r = transfer(area, REQ_OP_READ, sector, false);
	if (*r)
		return "read whole";
	if (memcmp(area->whole, area->pattern, area->bytes))
		return "read whole of what pieces wrote differs";
	return NULL;
}

/* Written whole, read in pieces.  Returns NULL or what went wrong. */
static const char *read_cut(struct area *area, sector_t sector, int *r)
{
	new_pattern(area);
	memcpy(area->whole, area->pattern, area->bytes);
	*r = transfer(area, REQ_OP_WRITE, sector, false);
	if (*r)
		return "write whole";

	fill_pieces(area, false);
	*r = transfer(area, REQ_OP_READ, sector, true);
	if (*r == -EINVAL) {
		refused++;
		return NULL;
	}
	if (*r)
		return "read in pieces";
	if (!pieces_good(area))
		return "read in pieces differs";
	return NULL;
}

static void run_cuts(struct area *area)
{
	const unsigned int s = sector_size;
	const struct cut cuts[] = {
		{ { s / 2, s / 2 } },
		{ { s / 8, s / 8, s / 8, s / 8, s / 8, s / 8, s / 8, s / 8 } },
		{ { 1, s - 1 } },
		{ { s - 1, 1 } },
		{ { s / 3, s / 3, s - 2 * (s / 3) } },
		{ { 7, s - 16, 9 } },
		{ { 16, s - 16 } },
		/* whole sectors, at any byte of memory */
		{ { s } },
		{ { 2 * s } },
		/* pieces that are as long as sectors and begin inside of one */
		{ { s / 2, s, s, s, s, s, s, s } },
		{ { 3, s, s, s, s, s, s, s } },
		/* a piece that ends one sector, holds another, begins a third */
		{ { s - 5, s + 10, s - 5 } },
	};
	const char *wrong;
	unsigned int i;
	int r = 0;

	for (i = 0; i < ARRAY_SIZE(cuts); i++) {
		if (cuts[i].length[0] > ROOM / 2 || cuts[i].length[1] > ROOM / 2)
			continue;
		area_cut(area, &cuts[i]);
		wrong = write_cut(area, 0, &r);
		if (!wrong)
			wrong = read_cut(area, (128 * SECTOR_SIZE - area->bytes) >> SECTOR_SHIFT,
					 &r);
		if (wrong) {
			snprintf(result, sizeof(result), "cut %u: %s: %d", i, wrong, r);
			return;
		}
	}
	strscpy(result, "0", sizeof(result));
}

static void area_free(struct area *area)
{
	unsigned int n;

	for (n = 0; n < MAX_PIECES; n++)
		free_pages((unsigned long)area->piece[n], 1);
	kfree(area->whole);
	kfree(area->pattern);
	kfree(area);
}

static struct area *area_alloc(void)
{
	struct area *area = kzalloc(sizeof(*area), GFP_KERNEL);
	unsigned int n;

	if (!area)
		return NULL;
	area->bytes = SECTORS_PER_BIO * sector_size;
	area->pattern = kmalloc(MAX_BYTES, GFP_KERNEL);
	/* a power of two from kmalloc starts on a page */
	area->whole = kmalloc(MAX_BYTES, GFP_KERNEL);
	for (n = 0; n < MAX_PIECES; n++) {
		area->piece[n] = (u8 *)__get_free_pages(GFP_KERNEL | __GFP_COMP, 1);
		if (!area->piece[n])
			break;
	}
	if (area->pattern && area->whole && n == MAX_PIECES)
		return area;
	area_free(area);
	return NULL;
}

static int __init xcrypt_straddle_init(void)
{
	struct area *area;
	struct file *file;

	if (!dev || sector_size < 512 || sector_size > 4096 || sector_size & (sector_size - 1))
		return -EINVAL;
	file = filp_open(dev, O_RDWR | O_LARGEFILE, 0);
	if (IS_ERR(file))
		return PTR_ERR(file);
	if (!S_ISBLK(file_inode(file)->i_mode)) {
		fput(file);
		return -ENOTBLK;
	}
	area = area_alloc();
	if (!area) {
		fput(file);
		return -ENOMEM;
	}
	area->bdev = I_BDEV(file->f_mapping->host);
	run_cuts(area);
	area_free(area);
	/* at once: the device may be removed before this task leaves the kernel */
	filp_close(file, NULL);
	return 0;
}

static void __exit xcrypt_straddle_exit(void)
{
}

module_init(xcrypt_straddle_init);
module_exit(xcrypt_straddle_exit);

MODULE_DESCRIPTION("test module: bios whose sectors lie in pieces");
MODULE_LICENSE("GPL");
