// SPDX-License-Identifier: GPL-2.0
/*
 * Does what scripts/vm must notice: the harness is tested with it, since a
 * harness that never saw a warning may be blind.
 *
 *	modprobe xcrypt_report what=warn	a WARN
 *	modprobe xcrypt_report what=bug		a BUG: the guest panics
 *	modprobe xcrypt_report what=hang	sleeps uninterruptibly for 100 s
 *	modprobe xcrypt_report what=leak	logs the birth of an object
 *	modprobe xcrypt_report what=pair	logs a birth and its death
 *
 * What only the debug kernel notices:
 *
 *	what=freed	reads freed memory (KASAN)
 *	what=beyond	writes behind the end of an allocation (KASAN)
 *	what=redzone	the same, where KASAN looks away (slub_debug)
 *	what=lost	forgets an allocation (kmemleak)
 *	what=atomic	sleeps under a spinlock
 *	what=inversion	takes two locks in both orders (lockdep)
 *	what=irq	takes a lock that an interrupt takes, with interrupts on
 *	what=shift	shifts too far (UBSAN)
 *	what=work	frees a work item that is queued (debugobjects)
 *	what=list	deletes a list entry twice
 */
#define pr_fmt(fmt) fmt

#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

static char *what = "";
module_param(what, charp, 0);
MODULE_PARM_DESC(what, "one of the words in the head of xcrypt_report.c");

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);
static DEFINE_SPINLOCK(lock);

static void do_warn(void)
{
	WARN(1, "asked for\n");
}

static void do_bug(void)
{
	BUG();
}

static void do_hang(void)
{
	msleep(100 * 1000);
}

static void do_leak(void)
{
	pr_info("dm_xcrypt: object test 1 created\n");
}

static void do_pair(void)
{
	do_leak();
	pr_info("dm_xcrypt: object test 1 destroyed\n");
}

/* An allocation whose size the compiler does not know, nor what it is for. */
static u8 *hidden_alloc(void)
{
	u8 *p = kzalloc(100, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(p);
	return p;
}

static void do_freed(void)
{
	u8 *p = hidden_alloc();

	if (!p)
		return;
	kfree(p);
	OPTIMIZER_HIDE_VAR(p);
	pr_info("freed memory holds %d\n", READ_ONCE(*p));
}

static void do_beyond(void)
{
	u8 *p = hidden_alloc();

	if (!p)
		return;
	WRITE_ONCE(p[104], 1);
	kfree(p);
}

/* Not inlined: the caller is instrumented, and this with it. */
static noinline __no_sanitize_address void poke(u8 *p)
{
	WRITE_ONCE(*p, 1);
}

/* KASAN keeps what is freed for a while; shrinking makes slub look at it. */
static void do_redzone(void)
{
	struct kmem_cache *cache = kmem_cache_create("xcrypt_report", 128, 0, 0, NULL);
	u8 *p;

	if (!cache)
		return;
	p = kmem_cache_alloc(cache, GFP_KERNEL);
	if (p) {
		poke(p + 128);
		kmem_cache_free(cache, p);
	}
	kmem_cache_shrink(cache);
	kmem_cache_destroy(cache);
}

static void do_lost(void)
{
	hidden_alloc();
}

static void do_atomic(void)
{
	spin_lock(&lock);
	mutex_lock(&first);
	mutex_unlock(&first);
	spin_unlock(&lock);
}

static void do_inversion(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);
	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

static void report_tasklet(struct tasklet_struct *tasklet)
{
	spin_lock(&lock);
	spin_unlock(&lock);
}

static DECLARE_TASKLET(tasklet, report_tasklet);

static void do_irq(void)
{
	spin_lock(&lock);
	spin_unlock(&lock);
	tasklet_schedule(&tasklet);
	msleep(100);
}

static void do_shift(void)
{
	int bits = 40;

	OPTIMIZER_HIDE_VAR(bits);
	pr_info("1 << 40 is %d\n", 1 << bits);
}

static void report_work(struct work_struct *work)
{
}

static void do_work(void)
{
	struct delayed_work *work = kmalloc(sizeof(*work), GFP_KERNEL);

	if (!work)
		return;
	INIT_DELAYED_WORK(work, report_work);
	schedule_delayed_work(work, 1000 * HZ);
	/* debugobjects disarms the timer */
	kfree(work);
}

static void do_list(void)
{
	struct list_head entry;
	LIST_HEAD(head);

	list_add(&entry, &head);
	list_del(&entry);
	list_del(&entry);
}

static const struct {
	const char *name;
	void (*fn)(void);
} reports[] = {
	{ "warn", do_warn }, { "bug", do_bug }, { "hang", do_hang },
	{ "leak", do_leak }, { "pair", do_pair },
	{ "freed", do_freed }, { "beyond", do_beyond }, { "redzone", do_redzone },
	{ "lost", do_lost }, { "atomic", do_atomic }, { "inversion", do_inversion },
	{ "irq", do_irq }, { "shift", do_shift }, { "work", do_work }, { "list", do_list },
};

static int __init xcrypt_report_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(reports); i++) {
		if (strcmp(what, reports[i].name))
			continue;
		reports[i].fn();
		return 0;
	}
	return -EINVAL;
}

static void __exit xcrypt_report_exit(void)
{
	tasklet_kill(&tasklet);
}

module_init(xcrypt_report_init);
module_exit(xcrypt_report_exit);

MODULE_DESCRIPTION("test module: what the guest harness must notice");
MODULE_LICENSE("GPL");
