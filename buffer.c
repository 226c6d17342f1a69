// SPDX-License-Identifier: GPL-2.0
/*
 * The pages that hold the ciphertext of writes until the disk has taken it, or
 * of reads that are done once more.
 *
 * Progress under memory pressure: a write first tries to get its clone and
 * all pages without waiting, and gives everything back if it can't.  Then it
 * waits, but under page_lock, so that only one writer at a time holds part of
 * the reserve while it waits for the rest; the reserve is as large as the
 * largest write, and the pages of the writes before it come back when the
 * disk is done with them.  Those writes need nothing more from us to get
 * there: the order stage is told (xcrypt_order_relax()) not to hold any back.
 *
 * All devices together take about XCRYPT_MEMORY_PERCENT of low memory, and a
 * device no more than its window (window.c); beyond its share a device lives from
 * its reserve.  The spare pages of spare.c are not counted in that.
 */
#include <linux/cpu.h>
#include <linux/mm.h>
#include <linux/swap.h>
#include "dm-xcrypt.h"

#define XCRYPT_MEMORY_PERCENT	2
/* Pages; the least share of a device, whatever the memory. */
#define XCRYPT_MIN_SHARE	(16UL * BIO_MAX_VECS)
/* Pages that are got and given back in one go. */
#define XCRYPT_CHUNK		32U
/* Pages that a CPU counts for itself: by so many the rough count is off for each. */
#define XCRYPT_COUNT_BATCH	64

static DEFINE_SPINLOCK(share_lock);
static unsigned int share_devices;	/* under share_lock */
static unsigned long share_pages;	/* written under share_lock, read without */

/* A device comes (+1) or goes (-1).  A stale share costs nothing but pages. */
static void share_update(int change)
{
	unsigned long pages;

	spin_lock(&share_lock);
	share_devices += change;
	pages = (totalram_pages() - totalhigh_pages()) * XCRYPT_MEMORY_PERCENT / 100;
	if (share_devices)
		pages /= share_devices;
	WRITE_ONCE(share_pages, max(pages, XCRYPT_MIN_SHARE));
	spin_unlock(&share_lock);
}

/**
 * xcrypt_count_pages() - pages that a device gets or gives back
 * @cc: the device
 * @n: how many, negative if they are given back
 *
 * A counter of one CPU alone is not safe against its interrupts on all kernels.
 *
 * Context: any.
 */
void xcrypt_count_pages(struct crypt_config *cc, s64 n)
{
	unsigned long flags;

	if (IS_ENABLED(CONFIG_SMP)) {
		percpu_counter_add_batch(&cc->n_pages, n, XCRYPT_COUNT_BATCH);
		return;
	}
	local_irq_save(flags);
	percpu_counter_add(&cc->n_pages, n);
	local_irq_restore(flags);
}

/*
 * Are n more pages beyond what the device may have?  The rough count says so
 * first; with many CPUs it would say so of a device that has none.
 */
static bool beyond_share(struct crypt_config *cc, unsigned int n)
{
	unsigned long most = min(READ_ONCE(share_pages),
				 xcrypt_window_pages(cc) + XCRYPT_MIN_PAGES);
	s64 room = (s64)most - n;

	if (likely(percpu_counter_read_positive(&cc->n_pages) <= room) ||
	    percpu_counter_sum(&cc->n_pages) <= room)
		return false;
	xcrypt_window_tight(cc);
	return true;
}

/*
 * The pool's allocator.  All attempts of mempool_alloc() are with __GFP_NORETRY:
 * a device beyond its share is refused, and gets what the reserve has.  The pool
 * is filled without.
 */
static void *pool_page_alloc(gfp_t gfp, void *data)
{
	struct crypt_config *cc = data;
	struct page *page;

	if ((gfp & __GFP_NORETRY) && beyond_share(cc, 1))
		return NULL;

	page = alloc_page(gfp);
	if (page)
		xcrypt_count_pages(cc, 1);
	return page;
}

static void pool_page_free(void *page, void *data)
{
	struct crypt_config *cc = data;

	xcrypt_count_pages(cc, -1);
	__free_page(page);
}

/*
 * Up to n pages: spare ones, as long as the device is within its share, else
 * one from the pool.  Returns how many, 0 if there is none.
 */
static unsigned int get_pages(struct crypt_config *cc, struct page **page, unsigned int n,
			      gfp_t gfp)
{
	unsigned int got = 0;

	n = min(n, XCRYPT_CHUNK);
	if (!beyond_share(cc, n))
		got = xcrypt_spare_get(page, n);
	if (got) {
		xcrypt_count_pages(cc, got);
		return got;
	}
	*page = mempool_alloc(&cc->page_pool, gfp | __GFP_HIGHMEM);
	return *page ? 1 : 0;
}

/* Give clone the pages for size bytes.  Returns false if one is missing. */
static bool clone_add_pages(struct crypt_config *cc, struct bio *clone, unsigned int size,
			    gfp_t gfp)
{
	struct page *page[XCRYPT_CHUNK];
	unsigned int i, n, len;

	while (size) {
		n = get_pages(cc, page, DIV_ROUND_UP(size, PAGE_SIZE), gfp);
		if (!n)
			return false;
		for (i = 0; i < n; i++) {
			len = min_t(unsigned int, size, PAGE_SIZE);
			__bio_add_page(clone, page[i], len, 0);
			size -= len;
		}
	}
	return true;
}

/*
 * A pool that lacks pages gets them first, as far as they fit the window; who
 * sleeps there waits for them.
 */
static void put_pages(struct crypt_config *cc, struct page **page, unsigned int n)
{
	unsigned int excess;

	/* as mempool_free() has it ahead of the same look without the lock */
	smp_rmb();
	if (likely(READ_ONCE(cc->page_pool.curr_nr) >= cc->page_pool.min_nr)) {
		xcrypt_count_pages(cc, -(s64)n);
		xcrypt_spare_put(page, n);
		return;
	}
	excess = xcrypt_window_excess(cc, n);
	if (excess)
		xcrypt_spare_put(page + n - excess, excess);
	for (n -= excess; n; n--)
		mempool_free(page[n - 1], &cc->page_pool);
}

static void clone_free_pages(struct crypt_config *cc, struct bio *clone)
{
	struct page *page[XCRYPT_CHUNK];
	unsigned int n = 0;
	struct bio_vec *bv;
	int i;

	bio_for_each_bvec_all(bv, clone, i) {
		page[n++] = bv->bv_page;
		if (n == XCRYPT_CHUNK) {
			put_pages(cc, page, n);
			n = 0;
		}
	}
	if (n)
		put_pages(cc, page, n);
}

/* One attempt with gfp.  Returns the clone or NULL, nothing in between. */
static struct bio *try_alloc(struct dm_crypt_io *io, gfp_t gfp)
{
	struct crypt_config *cc = io->cc;
	struct bio *base = io->base_bio;
	unsigned int size = base->bi_iter.bi_size;
	struct bio *clone;

	/* not polled: whoever polls for base_bio knows nothing of the clone */
	clone = bio_alloc_bioset(cc->dev->bdev, DIV_ROUND_UP(size, PAGE_SIZE),
				 base->bi_opf & ~REQ_POLLED, gfp, &cc->bs);
	if (!clone)
		return NULL;
	clone->bi_private = io;
	clone->bi_ioprio = base->bi_ioprio;
	if (!xcrypt_metadata_attach(io, clone, gfp) || !clone_add_pages(cc, clone, size, gfp)) {
		xcrypt_buffer_free(cc, clone);
		return NULL;
	}
	return clone;
}

/**
 * xcrypt_buffer_alloc() - a clone with pages of its own
 * @io: a write, or a read to be done again, of at most BIO_MAX_VECS pages
 * @may_wait: sleep until there is memory; under current->bio_list, where the
 *            writes that we would wait for might not leave, only as zoned.c says
 *
 * Each page of the clone holds whole sectors.  It carries the metadata that io
 * has or gets here, ahead of all else: see integrity.c.
 *
 * Context: process if @may_wait, else any but hard irq.
 * Return: the clone; NULL only if !@may_wait.
 */
struct bio *xcrypt_buffer_alloc(struct dm_crypt_io *io, bool may_wait)
{
	struct crypt_config *cc = io->cc;
	struct bio *clone = NULL;

	/* whoever waits for pages is the next to get some */
	if (!mutex_is_locked(&cc->page_lock) && xcrypt_metadata_alloc(io, false))
		clone = try_alloc(io, XCRYPT_GFP_NOWAIT);
	if (clone)
		return clone;
	if (!may_wait) {
		/* who waits in a queue holds nothing that others wait for */
		xcrypt_metadata_free(io);
		return NULL;
	}

	xcrypt_order_relax(cc, true);
	xcrypt_metadata_alloc(io, true);
	mutex_lock(&cc->page_lock);
	clone = try_alloc(io, GFP_NOIO);
	mutex_unlock(&cc->page_lock);
	xcrypt_order_relax(cc, false);
	return clone;
}

/**
 * xcrypt_buffer_free() - give back what xcrypt_buffer_alloc() gave
 * @cc: the device
 * @clone: done with, or never submitted
 *
 * Context: any; does not sleep.
 */
void xcrypt_buffer_free(struct crypt_config *cc, struct bio *clone)
{
	xcrypt_metadata_detach(clone);
	clone_free_pages(cc, clone);
	bio_put(clone);
}

/**
 * xcrypt_buffer_init() - make the reserves for clones and pages
 * @cc: zeroed
 *
 * Context: process, sleeps.
 * Return: 0 or -ENOMEM; xcrypt_buffer_exit() undoes it in both cases.
 */
int xcrypt_buffer_init(struct crypt_config *cc)
{
	int r;

	mutex_init(&cc->page_lock);
	r = percpu_counter_init(&cc->n_pages, 0, GFP_KERNEL);
	if (r)
		return r;
	cc->shares = true;
	share_update(1);
	r = mempool_init(&cc->page_pool, XCRYPT_MIN_PAGES, pool_page_alloc, pool_page_free, cc);
	if (r)
		return r;
	return bioset_init(&cc->bs, XCRYPT_MIN_BIOS, 0, BIOSET_NEED_BVECS);
}

/**
 * xcrypt_buffer_exit() - undo xcrypt_buffer_init(), whole, failed or never called
 * @cc: no write is inside
 *
 * Context: process, sleeps.
 */
void xcrypt_buffer_exit(struct crypt_config *cc)
{
	bioset_exit(&cc->bs);
	mempool_exit(&cc->page_pool);
	if (!cc->shares)
		return;
	/* 6.1 leaves out the share of a CPU that is just going down */
	cpus_read_lock();
	WARN_ON_ONCE(percpu_counter_sum(&cc->n_pages));
	cpus_read_unlock();
	percpu_counter_destroy(&cc->n_pages);
	share_update(-1);
	cc->shares = false;
}
