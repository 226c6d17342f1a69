// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that writes gave back, kept per CPU for the next ones.
 *
 * The page allocator is a price that a write pays for each of its pages, and
 * where the kernel zeroes what it allocates (init_on_alloc, Debian's default)
 * most of that is for zeros that ciphertext covers at once.
 *
 * All devices share them: they belong to nobody, and no reserve counts on them.
 * A CPU keeps at most what one write can have.  What it did not need for a
 * second goes back, on a CPU that went down as well; then the timer stops, too.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/workqueue.h>
#include "dm-xcrypt.h"

/* Pages that a CPU keeps. */
#define XCRYPT_SPARE_PAGES	BIO_MAX_VECS

/*
 * One CPU's.  Allocated by xcrypt_spare_init(), freed by xcrypt_spare_exit().
 */
struct xcrypt_spare {
	/* of all below; irq-safe, since writes complete in hard irq */
	spinlock_t lock;
	unsigned int count;		/* of pages */
	unsigned int least;		/* the lowest count since the last trim */
	struct page *page[XCRYPT_SPARE_PAGES];
};

/* Changed under kernel_param_lock(), by init and exit of the module alone. */
static struct xcrypt_spare __percpu *spares;

static void trim(struct work_struct *work);
static DECLARE_DEFERRABLE_WORK(trim_work, trim);

/**
 * xcrypt_spare_get() - take spare pages
 * @page: room for the pages; their content is undefined
 * @n: how many at the most
 *
 * Context: any; does not sleep.
 * Return: how many there were, perhaps 0.
 */
unsigned int xcrypt_spare_get(struct page **page, unsigned int n)
{
	struct xcrypt_spare *spare = raw_cpu_ptr(spares);
	unsigned long flags;

	if (!READ_ONCE(spare->count))
		return 0;
	spin_lock_irqsave(&spare->lock, flags);
	n = min(n, spare->count);
	spare->count -= n;
	spare->least = min(spare->least, spare->count);
	memcpy(page, spare->page + spare->count, n * sizeof(*page));
	spin_unlock_irqrestore(&spare->lock, flags);
	return n;
}

/**
 * xcrypt_spare_put() - give back pages, which are kept or freed
 * @page: of order 0
 * @n: how many
 *
 * Context: any; does not sleep.
 */
void xcrypt_spare_put(struct page **page, unsigned int n)
{
	struct xcrypt_spare *spare = raw_cpu_ptr(spares);
	unsigned long flags;
	unsigned int kept;

	spin_lock_irqsave(&spare->lock, flags);
	kept = min(n, XCRYPT_SPARE_PAGES - spare->count);
	memcpy(spare->page + spare->count, page, kept * sizeof(*page));
	spare->count += kept;
	spin_unlock_irqrestore(&spare->lock, flags);

	while (n > kept)
		__free_page(page[--n]);
	/*
	 * It stops being pending before it looks, under the lock: it has seen
	 * these pages, or we see that.
	 */
	if (!delayed_work_pending(&trim_work))
		schedule_delayed_work(&trim_work, HZ);
}

/* Free what a CPU did not need since the last time.  Returns what is left. */
static unsigned int trim_one(struct xcrypt_spare *spare)
{
	unsigned int left;
	struct page *page;

	spin_lock_irq(&spare->lock);
	while (spare->least) {
		spare->least--;
		page = spare->page[--spare->count];
		spin_unlock_irq(&spare->lock);
		__free_page(page);
		spin_lock_irq(&spare->lock);
	}
	left = spare->count;
	spare->least = left;
	spin_unlock_irq(&spare->lock);
	return left;
}

static void trim(struct work_struct *work)
{
	unsigned int left = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		left += trim_one(per_cpu_ptr(spares, cpu));
	if (left)
		schedule_delayed_work(&trim_work, HZ);
}

/**
 * xcrypt_spare_count() - how many pages are kept, about
 *
 * A parameter may be read before the module is initialised and after its end.
 *
 * Context: process, under kernel_param_lock().
 */
unsigned int xcrypt_spare_count(void)
{
	unsigned int count = 0;
	int cpu;

	if (!spares)
		return 0;
	for_each_possible_cpu(cpu)
		count += READ_ONCE(per_cpu_ptr(spares, cpu)->count);
	return count;
}

static void spares_set(struct xcrypt_spare __percpu *new)
{
	kernel_param_lock(THIS_MODULE);
	spares = new;
	kernel_param_unlock(THIS_MODULE);
}

/**
 * xcrypt_spare_init() - before any device is made
 *
 * Context: process, sleeps.
 * Return: 0 or -ENOMEM.
 */
int xcrypt_spare_init(void)
{
	struct xcrypt_spare __percpu *new = alloc_percpu(struct xcrypt_spare);
	int cpu;

	if (!new)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		spin_lock_init(&per_cpu_ptr(new, cpu)->lock);
	spares_set(new);
	return 0;
}

/**
 * xcrypt_spare_exit() - undo xcrypt_spare_init(), free what is kept
 *
 * No device is left.
 *
 * Context: process, sleeps.
 */
void xcrypt_spare_exit(void)
{
	struct xcrypt_spare __percpu *old = spares;
	struct xcrypt_spare *spare;
	int cpu;

	cancel_delayed_work_sync(&trim_work);
	spares_set(NULL);
	for_each_possible_cpu(cpu) {
		spare = per_cpu_ptr(old, cpu);
		while (spare->count)
			__free_page(spare->page[--spare->count]);
	}
	free_percpu(old);
}
