// SPDX-License-Identifier: GPL-2.0
/*
 * The order stage: in which order encrypted writes are submitted.
 *
 * Many CPUs encrypt, so writes get ready in an order that has little to do
 * with the one they came in, and a disk with a head pays for each jump.
 *
 *  inline   not here at all: the CPU that encrypted submits.  Only what a
 *           cipher completed asynchronously comes by, since its callback may
 *           not submit; the thread does, in the order of completion
 *  offload  the thread submits in the order in which writes got ready
 *  fifo     the thread submits in the order in which writes came to map(): a
 *           write that is not ready holds up those behind it.  Except when an
 *           allocator waits for pages: these may be in the very writes that
 *           are held up, so then whatever is ready leaves
 *  sort     the thread submits by sector.  It takes all that is ready at
 *           once, a window; what gets ready meanwhile goes into the next one.
 *           A window has at most XCRYPT_SORT_WINDOW writes, so that a flood
 *           of low sectors can't keep a high one waiting.  Equal sectors
 *           leave in the order in which they came to map()
 *
 * No order is promised to the users of the device: like any disk, they get a
 * flush for what was completed, and FUA.  A write is in the way of no flush,
 * since dm core sends one only for what was completed to the caller.
 *
 * The first half of this file is a plain data structure, without locks and
 * without threads; tests/userland runs it against a sorted array.
 */
#include <linux/blkdev.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include "dm-xcrypt.h"

/* Writes submitted under one plug; a plug holds back what is in it. */
#define XCRYPT_PLUG_WRITES	256

static struct xcrypt_order_node *rb_node_of(const struct rb_node *rb)
{
	return rb_entry(rb, struct xcrypt_order_node, rb);
}

static bool node_less(struct rb_node *a, const struct rb_node *b)
{
	const struct xcrypt_order_node *x = rb_node_of(a), *y = rb_node_of(b);

	if (x->window != y->window)
		return x->window < y->window;
	if (x->sector != y->sector)
		return x->sector < y->sector;
	return x->seq < y->seq;
}

/**
 * xcrypt_sort_add() - add a write to the window that is being filled
 * @order: caller holds order->lock
 * @node: sector and seq are set
 *
 * Context: any.
 */
void xcrypt_sort_add(struct xcrypt_order *order, struct xcrypt_order_node *node)
{
	if (order->in_window == XCRYPT_SORT_WINDOW) {
		order->window++;
		order->in_window = 0;
	}
	order->in_window++;
	node->window = order->window;
	rb_add_cached(&node->rb, &order->tree, node_less);
}

/**
 * xcrypt_sort_take() - take all windows; what is added later goes into new ones
 * @order: caller holds order->lock
 * @tree: gets the writes, for xcrypt_sort_pop()
 *
 * Context: any.
 */
void xcrypt_sort_take(struct xcrypt_order *order, struct rb_root_cached *tree)
{
	*tree = order->tree;
	if (!order->in_window)
		return;
	order->tree = RB_ROOT_CACHED;
	order->window++;
	order->in_window = 0;
}

/**
 * xcrypt_sort_pop() - take the first write
 * @tree: from xcrypt_sort_take(), the caller's own
 *
 * Context: any.
 * Return: the first write by (window, sector, seq), NULL if there is none.
 */
struct xcrypt_order_node *xcrypt_sort_pop(struct rb_root_cached *tree)
{
	struct rb_node *rb = rb_first_cached(tree);

	if (!rb)
		return NULL;
	rb_erase_cached(rb, tree);
	return rb_node_of(rb);
}

/**
 * xcrypt_list_take() - move the writes that may leave, in their order
 * @order: caller holds order->lock; mode fifo or offload
 * @out: they are added at its end
 *
 * A write in mode fifo holds up those behind it, unless order->relaxed.
 *
 * Context: any.
 */
void xcrypt_list_take(struct xcrypt_order *order, struct list_head *out)
{
	struct xcrypt_order_node *node, *next;

	list_for_each_entry_safe(node, next, &order->list, list) {
		if (node->ready)
			list_move_tail(&node->list, out);
		else if (!order->relaxed)
			return;
	}
}

/* ---- the thread ---- */

static const char * const order_names[] = {
	[XCRYPT_ORDER_INLINE] = "inline",
	[XCRYPT_ORDER_OFFLOAD] = "offload",
	[XCRYPT_ORDER_FIFO] = "fifo",
	[XCRYPT_ORDER_SORT] = "sort",
	[XCRYPT_ORDER_AUTO] = "auto",
};

/**
 * xcrypt_order_name() - the word for a mode
 * @mode: a valid one
 *
 * Context: any.
 */
const char *xcrypt_order_name(enum xcrypt_order_mode mode)
{
	return order_names[mode];
}

/**
 * xcrypt_order_parse() - the mode for a word
 * @name: may end in a newline, as words from sysfs do
 * @mode: set on success
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int xcrypt_order_parse(const char *name, enum xcrypt_order_mode *mode)
{
	int i = __sysfs_match_string(order_names, ARRAY_SIZE(order_names), name);

	if (i < 0)
		return i;
	*mode = i;
	return 0;
}

static struct dm_crypt_io *io_of(struct xcrypt_order_node *node)
{
	return container_of(node, struct dm_crypt_io, node);
}

static struct xcrypt_order *order_of(struct dm_crypt_io *io)
{
	return &io->cc->order;
}

/* Submit what is in list, a plug around each XCRYPT_PLUG_WRITES of them. */
static void submit_list(struct list_head *list, struct xcrypt_order_count *count)
{
	struct xcrypt_order_node *node, *next;
	struct blk_plug plug;
	unsigned int n = 0;

	if (list_empty(list))
		return;
	blk_start_plug(&plug);
	list_for_each_entry_safe(node, next, list, list) {
		if (n++ == XCRYPT_PLUG_WRITES) {
			blk_finish_plug(&plug);
			cond_resched();
			blk_start_plug(&plug);
			count->batches++;
			n = 1;
		}
		count->writes++;
		xcrypt_write_submit(io_of(node));
	}
	blk_finish_plug(&plug);
	count->batches++;
}

/* Submit the windows of tree, a plug around each. */
static void submit_tree(struct rb_root_cached *tree, struct xcrypt_order_count *count)
{
	struct xcrypt_order_node *node = xcrypt_sort_pop(tree);
	struct blk_plug plug;
	u64 window;

	while (node) {
		window = node->window;
		blk_start_plug(&plug);
		do {
			count->writes++;
			/* the node is gone once its write completed */
			xcrypt_write_submit(io_of(node));
			node = xcrypt_sort_pop(tree);
		} while (node && node->window == window);
		blk_finish_plug(&plug);
		count->batches++;
		cond_resched();
	}
}

/* Take and submit what is ready.  Returns false if that was nothing. */
static bool order_round(struct xcrypt_order *order)
{
	struct xcrypt_order_count count = {};
	struct rb_root_cached tree;
	LIST_HEAD(list);

	spin_lock_irq(&order->lock);
	xcrypt_sort_take(order, &tree);
	xcrypt_list_take(order, &list);
	spin_unlock_irq(&order->lock);

	if (RB_EMPTY_ROOT(&tree.rb_root) && list_empty(&list))
		return false;
	__set_current_state(TASK_RUNNING);
	submit_tree(&tree, &count);
	submit_list(&list, &count);

	spin_lock_irq(&order->lock);
	order->count.batches += count.batches;
	order->count.writes += count.writes;
	spin_unlock_irq(&order->lock);
	return true;
}

static int order_thread(void *data)
{
	struct xcrypt_order *order = data;

	for (;;) {
		/*
		 * Before the look: who adds a write after it finds us asleep
		 * or about to be, and the wake-up undoes this state.
		 */
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
		if (!order_round(order))
			schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/**
 * xcrypt_order_arrive() - a write came to map()
 * @io: its sector is set
 *
 * Followed by exactly one of xcrypt_order_add() and xcrypt_order_cancel(), or
 * in mode inline by nothing.
 *
 * Context: process or softirq; does not sleep.
 */
void xcrypt_order_arrive(struct dm_crypt_io *io)
{
	struct xcrypt_order *order = order_of(io);
	struct xcrypt_order_node *node = &io->node;
	unsigned long flags;

	node->sector = io->sector;
	node->ready = false;
	if (order->mode == XCRYPT_ORDER_SORT) {
		node->seq = atomic64_inc_return(&order->seq);
	} else if (order->mode == XCRYPT_ORDER_FIFO) {
		spin_lock_irqsave(&order->lock, flags);
		list_add_tail(&node->list, &order->list);
		spin_unlock_irqrestore(&order->lock, flags);
	}
}

/* May the thread find something now that it did not before node came? */
static bool worth_waking(struct xcrypt_order *order, struct xcrypt_order_node *node)
{
	if (order->mode == XCRYPT_ORDER_SORT)
		return order->in_window == 1;
	return order->relaxed || list_is_first(&node->list, &order->list);
}

/**
 * xcrypt_order_add() - a write is encrypted; let the thread submit it
 * @io: the caller gives it away
 *
 * The thread is woken under the lock: it can't take the write, complete it
 * and let the device go before we are done with the device.
 *
 * Context: any; does not sleep.
 */
void xcrypt_order_add(struct dm_crypt_io *io)
{
	struct xcrypt_order *order = order_of(io);
	struct xcrypt_order_node *node = &io->node;
	unsigned long flags;

	spin_lock_irqsave(&order->lock, flags);
	node->ready = true;
	if (order->mode == XCRYPT_ORDER_SORT)
		xcrypt_sort_add(order, node);
	else if (order->mode != XCRYPT_ORDER_FIFO)
		list_add_tail(&node->list, &order->list);
	if (worth_waking(order, node))
		wake_up_process(order->thread);
	spin_unlock_irqrestore(&order->lock, flags);
}

/**
 * xcrypt_order_cancel() - a write that arrived failed and will not be added
 * @io: stays with the caller
 *
 * Context: any; does not sleep.
 */
void xcrypt_order_cancel(struct dm_crypt_io *io)
{
	struct xcrypt_order *order = order_of(io);
	unsigned long flags;

	if (order->mode != XCRYPT_ORDER_FIFO)
		return;
	spin_lock_irqsave(&order->lock, flags);
	list_del(&io->node.list);
	/* it may have held up others */
	wake_up_process(order->thread);
	spin_unlock_irqrestore(&order->lock, flags);
}

/**
 * xcrypt_order_relax() - an allocator waits for pages, or no longer does
 * @cc: the device
 * @on: begin or end; calls nest
 *
 * In mode fifo the writes that are ready may hold the very pages that the
 * oldest write waits for.
 *
 * Context: process.
 */
void xcrypt_order_relax(struct crypt_config *cc, bool on)
{
	struct xcrypt_order *order = &cc->order;

	if (order->mode != XCRYPT_ORDER_FIFO)
		return;
	spin_lock_irq(&order->lock);
	if (on) {
		order->relaxed++;
		wake_up_process(order->thread);
	} else {
		order->relaxed--;
	}
	spin_unlock_irq(&order->lock);
}

/**
 * xcrypt_order_start() - start the order stage
 * @cc: cc->order.mode is set, and all that xcrypt_write_submit() reads
 * @devname: of the lower device, for the name of the thread
 *
 * Context: process, sleeps.
 * Return: 0 or -errno, then nothing is left to undo.
 */
int xcrypt_order_start(struct crypt_config *cc, const char *devname)
{
	struct xcrypt_order *order = &cc->order;
	struct task_struct *thread;

	spin_lock_init(&order->lock);
	order->tree = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&order->list);
	thread = kthread_create(order_thread, order, "dmcrypt_write/%s", devname);
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	order->thread = thread;
	wake_up_process(thread);
	return 0;
}

/**
 * xcrypt_order_stop() - undo xcrypt_order_start(), done or not
 * @cc: no write is inside
 *
 * Context: process, sleeps.
 */
void xcrypt_order_stop(struct crypt_config *cc)
{
	struct xcrypt_order *order = &cc->order;

	if (!order->thread)
		return;
	kthread_stop(order->thread);
	order->thread = NULL;
	WARN_ON_ONCE(!RB_EMPTY_ROOT(&order->tree.rb_root) || !list_empty(&order->list));
}
