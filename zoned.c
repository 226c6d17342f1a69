// SPDX-License-Identifier: GPL-2.0
/*
 * Zoned devices: a zone is written at its write pointer only, so that of two
 * writes in the wrong order one fails.  What comes to map() in order has to
 * leave in order, and not split, whatever write_order says:
 *
 *  - The caller of map() encrypts, waits for the cipher if that is
 *    asynchronous, and submits: write_map_zoned().  No queue, no thread.  The
 *    order stage is not asked; its mode is inline.
 *  - If memory is short he waits for that, too, since to hand the write on is
 *    to let the next one overtake it.  It is safe here though he is on
 *    current->bio_list: map() makes one clone and submits it, the block layer
 *    takes a clone from that list before anything else that is on it, and
 *    whoever sleeps lets his plug go.  So every page that he waits for is in a
 *    write that the lower device has, or in that of another caller of map(),
 *    of whom only the one with page_lock waits for memory.  A queue that is
 *    being frozen ends what it has, which is all that it takes.
 *  - A write is never split: a zone append that the block layer turned into a
 *    write has to reach the disk as one, and where zones are plugged the
 *    remainder of a write can't come back while the queue is frozen.  The
 *    limits say what fits one clone.  (XCRYPT_MAY_CUT_ZONED: kernels that
 *    know no such plugs don't heed the limits of a mapped device for plain
 *    writes; those are split as they always were.)
 *  - Zone append is emulated: where the data lands is not known before it is
 *    written, but the IV is made of it.  dm core, or the block layer for it,
 *    makes writes of appends, and for that has no more than one write of a
 *    zone in map() or below it.
 *  - map() submits before it returns, and what fails there is killed: dm core
 *    of 6.1 moves its own write pointer after map(), and a bio that ended
 *    before that is ended twice if it failed, and lands nowhere if it did not.
 *
 * Only built if the kernel knows zones.
 */
#include <linux/blkdev.h>
#include "dm-xcrypt.h"

/**
 * xcrypt_zoned_ctr() - the lower device is zoned
 * @ti: ours; the order stage was not made yet
 *
 * TABLE shows the word no_write_workqueue from here on, given or not.
 *
 * Context: process.
 */
void xcrypt_zoned_ctr(struct dm_target *ti)
{
	struct crypt_config *cc = ti->private;

	set_bit(XCRYPT_ZONED, &cc->flags);
	set_bit(XCRYPT_NO_WRITE_WORKQUEUE, &cc->flags);
	ti->emulate_zone_append = true;
}

/**
 * xcrypt_zoned_limits() - a write of a zone fits one clone
 * @limits: of the device below, to be narrowed
 * @max: bytes that fit a clone
 *
 * Context: any.
 */
void xcrypt_zoned_limits(struct queue_limits *limits, unsigned int max)
{
	const unsigned int most = max >> SECTOR_SHIFT;

	limits->max_hw_sectors = min(limits->max_hw_sectors, most);
	limits->max_sectors = min(limits->max_sectors, most);
	limits->max_zone_append_sectors = min(limits->max_zone_append_sectors, most);
}

/**
 * xcrypt_report_zones() - the zones of the lower device, as ours
 * @ti: ours
 * @args: where to begin; passed on
 * @nr_zones: how many at most
 *
 * Context: process, sleeps.
 * Return: what dm_report_zones() returns.
 */
int xcrypt_report_zones(struct dm_target *ti, struct dm_report_zones_args *args,
			unsigned int nr_zones)
{
	struct crypt_config *cc = ti->private;
	sector_t sector = dm_target_offset(ti, args->next_sector);

	return dm_report_zones(cc->dev->bdev, cc->start, cc->start + sector, args, nr_zones);
}
