// SPDX-License-Identifier: GPL-2.0
/*
 * The window of a device: how many pages its writes may have in flight, from
 * the encryption to the end of the lower device's I/O.
 *
 * What is in flight waits below, mostly, and a read that comes then waits behind
 * it.  So a device gets no more writes than keep it busy.  How many that are is
 * seen from how long they take:
 *
 *   - the least that any write took lately is what all of them wait.  If that is
 *     more than the target, the window is halved;
 *   - if it is less than half the target, and a write was held back, the window
 *     is doubled.
 *
 * The target is XCRYPT_WINDOW_TARGET, or more on a device that takes long even
 * for a write that it has nearly for itself.
 *
 * One write a tick of the clock is timed, so all this costs the others nothing.
 * buffer.c holds back what does not fit; how, is explained there.
 */
#include <linux/blkdev.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include "dm-xcrypt.h"

/* Nanoseconds that a write should not wait longer than. */
#define XCRYPT_WINDOW_TARGET	(20 * NSEC_PER_MSEC)
/* Times as long as a write alone. */
#define XCRYPT_WINDOW_ALONE	4
/* Writes that are timed before the window may change. */
#define XCRYPT_WINDOW_SAMPLES	8
/* Pages: the least window of all, and the first, which is the largest floor. */
#define XCRYPT_WINDOW_LEAST	(1UL * BIO_MAX_VECS)
#define XCRYPT_WINDOW_FIRST	(16UL * BIO_MAX_VECS)
/* So many times what the device calls its best size of an I/O. */
#define XCRYPT_WINDOW_STRIPES	4

static unsigned int write_window;
module_param(write_window, uint, 0644);
MODULE_PARM_DESC(write_window, "most bytes that the writes of a device have in flight, at least 1 MiB (default: 0: by how long it takes for them)");

/* Pages of writes in flight, about. */
static unsigned long in_flight(struct crypt_config *cc)
{
	s64 pages = percpu_counter_read_positive(&cc->n_pages);

	return pages > XCRYPT_MIN_PAGES ? pages - XCRYPT_MIN_PAGES : 0;
}

/**
 * xcrypt_window_pages() - how large the window is now
 * @cc: the device
 *
 * As good as none in mode fifo: a write that is held back there would hold back
 * all that came later, or no longer be the first.
 *
 * Context: any.
 * Return: pages, beside those of the reserve.
 */
unsigned long xcrypt_window_pages(struct crypt_config *cc)
{
	struct xcrypt_window *window = &cc->window;
	unsigned int bytes = READ_ONCE(write_window);

	if (cc->order.mode == XCRYPT_ORDER_FIFO)
		return window->ceiling;
	if (bytes)
		return max(bytes / PAGE_SIZE, XCRYPT_WINDOW_LEAST);
	return READ_ONCE(window->pages);
}

/**
 * xcrypt_window_excess() - give up pages beyond the window
 * @cc: the device
 * @n: pages that a write is done with, while the reserve lacks some
 *
 * In the reserve they would be the next write's, and the device would never have
 * less.  Window and reserve stay: they are twice what the largest write takes, so
 * there is enough for it even if the share of a CPU that goes down is left out.
 *
 * Context: any; does not sleep.
 * Return: how many of them are not counted any more, and are to be freed.
 */
unsigned int xcrypt_window_excess(struct crypt_config *cc, unsigned int n)
{
	unsigned long flags;
	s64 excess;

	spin_lock_irqsave(&cc->window.lock, flags);
	excess = percpu_counter_sum(&cc->n_pages) - XCRYPT_MIN_PAGES -
		 (s64)xcrypt_window_pages(cc);
	n = clamp_t(s64, excess, 0, n);
	xcrypt_count_pages(cc, -(s64)n);
	spin_unlock_irqrestore(&cc->window.lock, flags);
	return n;
}

/**
 * xcrypt_window_tight() - a write is held back
 * @cc: the device
 *
 * Context: any.
 */
void xcrypt_window_tight(struct crypt_config *cc)
{
	if (!READ_ONCE(cc->window.tight))
		WRITE_ONCE(cc->window.tight, true);
}

/**
 * xcrypt_window_begin() - a write has its pages
 * @io: its clone is not submitted yet
 *
 * Context: any.
 */
void xcrypt_window_begin(struct dm_crypt_io *io)
{
	struct xcrypt_window *window = &io->cc->window;
	unsigned long pages = in_flight(io->cc), now = jiffies;

	if (pages > READ_ONCE(window->peak))
		WRITE_ONCE(window->peak, pages);
	io->timed = 0;
	if (now == READ_ONCE(window->stamp))
		return;
	WRITE_ONCE(window->stamp, now);
	/* not at its end: what it waited for is gone then */
	io->alone = pages <= window->floor / 4 + (io->base_bio->bi_iter.bi_size >> PAGE_SHIFT);
	io->timed = ktime_get_ns();
}

/* A window of enough samples ends.  Under the lock. */
static void window_adjust(struct xcrypt_window *window)
{
	u64 target = max_t(u64, XCRYPT_WINDOW_TARGET, window->alone * XCRYPT_WINDOW_ALONE);
	unsigned long pages = window->pages;

	if (window->least > target)
		pages = max(pages / 2, window->floor);
	else if (READ_ONCE(window->tight) && window->least < target / 2)
		pages = min(pages * 2, window->ceiling);
	if (pages != window->pages) {
		WRITE_ONCE(window->pages, pages);
		window->since = ktime_get_ns();
	}
	WRITE_ONCE(window->tight, false);
	window->least = U64_MAX;
	window->samples = 0;
}

/* A write took ns.  Under the lock. */
static void window_sample(struct xcrypt_window *window, u64 ns, bool alone)
{
	if (alone)
		window->alone = window->alone ? window->alone - window->alone / 8 + ns / 8 : ns;
	window->least = min(window->least, ns);
	if (++window->samples >= XCRYPT_WINDOW_SAMPLES)
		window_adjust(window);
}

/**
 * xcrypt_window_end() - the lower device is done with a write
 * @io: a write that xcrypt_window_begin() saw
 *
 * What was submitted before the window changed says nothing about it.
 *
 * Context: any, hard irq too; does not sleep.
 */
void xcrypt_window_end(struct dm_crypt_io *io)
{
	struct xcrypt_window *window = &io->cc->window;
	unsigned long flags;

	if (likely(!io->timed))
		return;
	spin_lock_irqsave(&window->lock, flags);
	if (io->timed >= window->since)
		window_sample(window, ktime_get_ns() - io->timed, io->alone);
	spin_unlock_irqrestore(&window->lock, flags);
}

/**
 * xcrypt_window_init() - before the first write
 * @cc: its lower device is set
 *
 * A device of stripes writes them without reading if it gets whole ones: the
 * window never holds less than some of them.  Not any number: there are USB disks
 * that call 32 MiB their best size.
 *
 * Context: process.
 */
void xcrypt_window_init(struct crypt_config *cc)
{
	struct xcrypt_window *window = &cc->window;
	unsigned long stripes = (unsigned long)bdev_io_opt(cc->dev->bdev) / PAGE_SIZE *
				XCRYPT_WINDOW_STRIPES;

	spin_lock_init(&window->lock);
	window->ceiling = totalram_pages();
	window->floor = clamp(stripes, XCRYPT_WINDOW_LEAST, XCRYPT_WINDOW_FIRST);
	window->pages = XCRYPT_WINDOW_FIRST;
	window->least = U64_MAX;
}
