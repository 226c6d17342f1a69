// SPDX-License-Identifier: GPL-2.0
/*
 * Per-CPU queues of ios.  An io is added to the lane of the CPU it is on, so
 * that a lone io is converted where its data is warm; what has to wait there
 * is taken over by CPUs whose own lane is empty.
 *
 * An io stays in its lane until a worker really runs and takes it: a CPU that
 * was woken to help but is kept busy by something else delays nobody.  The same
 * holds for the pieces of an io that is large enough to be shared (convert.c).
 *
 * What may not be converted where it completes, in hard irq, but is not worth a
 * worker either, is converted in softirq, as soon as that may run.
 *
 * Hotplug: the work item of a lane whose CPU went down is run by the
 * workqueue on another CPU; it serves its lane wherever it runs.  The
 * workqueue is not freezable: hibernation and swap write through us.
 */
#include <linux/jiffies.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include "dm-xcrypt.h"

/* Reads in softirq at a time; more of them are work for workers. */
#define XCRYPT_SOFT_READS	16
/* CPUs that are looked at for one to help a stream. */
#define XCRYPT_STREAM_LOOK	4

/* Did a stream go on there within the last tick of the clock? */
static bool lane_streams(struct xcrypt_lane *lane)
{
	unsigned long stream = READ_ONCE(lane->stream);

	return time_in_range(jiffies, stream, stream + 1);
}

/* Wake up to n CPUs that have nothing to do. */
static void wake_helpers(struct xcrypt_queue *queue, int self, unsigned int n)
{
	int cpu;

	for_each_cpu_wrap(cpu, cpu_online_mask, self) {
		if (cpu == self || cpumask_test_cpu(cpu, queue->busy) ||
		    lane_streams(&queue->lanes[cpu]))
			continue;
		queue_work_on(cpu, queue->wq, &queue->lanes[cpu].work);
		if (!--n)
			return;
	}
}

/**
 * xcrypt_queue_add() - let a worker run an io
 * @queue: initialised
 * @io: the caller gives it away
 *
 * All of it is one RCU reader, and xcrypt_queue_exit() waits for those: else a
 * fast thief could finish the last io and let the device go while the work is
 * still to be queued.  Which CPU it is only matters for speed.
 *
 * Context: any, hard irq too; does not sleep.
 */
void xcrypt_queue_add(struct xcrypt_queue *queue, struct dm_crypt_io *io)
{
	int cpu = raw_smp_processor_id();
	struct xcrypt_lane *lane = &queue->lanes[cpu];
	unsigned long flags;
	bool waits;

	rcu_read_lock();
	spin_lock_irqsave(&lane->lock, flags);
	/* or whoever brought it keeps this CPU busy himself */
	waits = !list_empty(&lane->list) || cpumask_test_cpu(cpu, queue->busy) ||
		lane_streams(lane);
	list_add_tail(&io->ctx.entry, &lane->list);
	spin_unlock_irqrestore(&lane->lock, flags);

	queue_work_on(cpu, queue->wq, &lane->work);
	if (waits && queue->steal)
		wake_helpers(queue, cpu, 1);
	rcu_read_unlock();
}

/**
 * xcrypt_queue_add_soft() - let an io be converted in softirq
 * @queue: initialised; its ios need no memory of xcrypt_buffer_alloc()
 * @io: the caller gives it away
 *
 * If it can't be finished there, it goes on in a worker.
 *
 * Context: any, hard irq too; does not sleep.
 */
void xcrypt_queue_add_soft(struct xcrypt_queue *queue, struct dm_crypt_io *io)
{
	struct xcrypt_lane *lane = &queue->lanes[raw_smp_processor_id()];
	unsigned long flags;

	rcu_read_lock();	/* see xcrypt_queue_add() */
	spin_lock_irqsave(&lane->lock, flags);
	list_add_tail(&io->ctx.entry, &lane->soft);
	spin_unlock_irqrestore(&lane->lock, flags);
	xcrypt_bh_schedule(&lane->bh);
	rcu_read_unlock();
}

static void lane_soft(struct xcrypt_bh *bh)
{
	struct xcrypt_lane *lane = container_of(bh, struct xcrypt_lane, bh);
	struct convert_context *ctx, *next;
	unsigned int n = 0;
	LIST_HEAD(list);

	spin_lock_irq(&lane->lock);
	list_splice_init(&lane->soft, &list);
	spin_unlock_irq(&lane->lock);

	list_for_each_entry_safe(ctx, next, &list, entry) {
		if (n++ >= XCRYPT_SOFT_READS || !xcrypt_convert(ctx, false))
			xcrypt_queue_add(lane->queue, ctx->io);
	}
}

XCRYPT_BH(lane_bh, lane_soft)

/**
 * xcrypt_queue_helpers() - how many CPUs may help a worker with its io
 * @lane: the worker's own
 *
 * Context: process.
 * Return: CPUs whose own lanes don't keep them busy; 0 if more ios wait, with
 * which they can help as well.
 */
unsigned int xcrypt_queue_helpers(struct xcrypt_lane *lane)
{
	struct xcrypt_queue *queue = lane->queue;
	unsigned int online = num_online_cpus();

	if (!queue->steal || !list_empty_careful(&lane->list))
		return 0;
	return online - min(online, cpumask_weight(queue->busy));
}

/**
 * xcrypt_queue_share() - offer pieces of an io to idle CPUs
 * @lane: the worker's own; it takes what nobody else took
 * @pieces: list of convert_context.entry, not empty; it is empty then
 * @n: how many CPUs to wake, at least 1
 *
 * The caller holds another part of the same io, so that the device stays.
 *
 * Context: process; does not sleep.
 */
void xcrypt_queue_share(struct xcrypt_lane *lane, struct list_head *pieces, unsigned int n)
{
	spin_lock_irq(&lane->lock);
	list_splice_init(pieces, &lane->list);
	spin_unlock_irq(&lane->lock);
	wake_helpers(lane->queue, lane->cpu, n);
}

/* Does current bring one io after the other, without sleeping in between? */
static bool is_stream(struct xcrypt_lane *lane)
{
	bool stream = READ_ONCE(lane->task) == current &&
		      READ_ONCE(lane->sleeps) == current->nvcsw;
	unsigned long now = jiffies;

	WRITE_ONCE(lane->task, current);
	WRITE_ONCE(lane->sleeps, current->nvcsw);
	if (stream && READ_ONCE(lane->stream) != now)
		WRITE_ONCE(lane->stream, now);
	return stream;
}

/**
 * xcrypt_queue_helps_stream() - would others be of help to current?
 * @queue: to which current brings an io
 *
 * Who sleeps after each io waits for it, and has it soonest if it is converted
 * right here.  Who does not would convert one after the other, since the time of
 * his CPU is all that he lacks.  If other CPUs have streams of their own, they
 * lack it too, and to hand ios around would only cost some more.
 *
 * Context: process; does not sleep.
 * Return: true if the io goes on a way that a CPU without a stream may share.
 */
bool xcrypt_queue_helps_stream(struct xcrypt_queue *queue)
{
	int self = raw_smp_processor_id(), n = XCRYPT_STREAM_LOOK, cpu;

	if (!is_stream(&queue->lanes[self]) || !queue->steal)
		return false;
	for_each_cpu_wrap(cpu, cpu_online_mask, self) {
		if (cpu == self)
			continue;
		if (!lane_streams(&queue->lanes[cpu]))
			return true;
		if (!--n)
			break;
	}
	return false;
}

/**
 * xcrypt_queue_answered() - the device answered current at once
 * @queue: to which current brought an io that is done
 *
 * Then it has no reason to sleep, and that it does not says nothing.
 *
 * Context: process.
 */
void xcrypt_queue_answered(struct xcrypt_queue *queue)
{
	struct xcrypt_lane *lane = &queue->lanes[raw_smp_processor_id()];

	if (READ_ONCE(lane->task) == current)
		WRITE_ONCE(lane->task, NULL);
}

/* The oldest of a lane, or NULL. */
static struct convert_context *lane_pop(struct xcrypt_lane *lane)
{
	struct convert_context *ctx;

	/*
	 * A glance without the lock: an io that is added just now is not
	 * missed for good, its own lane's work is queued after the addition.
	 */
	if (list_empty_careful(&lane->list))
		return NULL;

	spin_lock_irq(&lane->lock);
	ctx = list_first_entry_or_null(&lane->list, struct convert_context, entry);
	if (ctx)
		list_del(&ctx->entry);
	spin_unlock_irq(&lane->lock);
	return ctx;
}

/* From the worker's own lane, else from the next one that has any. */
static struct convert_context *queue_take(struct xcrypt_queue *queue, struct xcrypt_lane *own)
{
	struct convert_context *ctx = lane_pop(own);
	int cpu;

	if (ctx || !queue->steal)
		return ctx;
	for_each_cpu_wrap(cpu, cpu_online_mask, own->cpu) {
		ctx = lane_pop(&queue->lanes[cpu]);
		if (ctx)
			return ctx;
	}
	return NULL;
}

static void lane_work(struct work_struct *work)
{
	struct xcrypt_lane *lane = container_of(work, struct xcrypt_lane, work);
	struct xcrypt_queue *queue = lane->queue;
	struct convert_context *ctx;

	cpumask_set_cpu(lane->cpu, queue->busy);
	while ((ctx = queue_take(queue, lane))) {
		queue->run(ctx, lane);
		cond_resched();
	}
	cpumask_clear_cpu(lane->cpu, queue->busy);
}

static void lane_init(struct xcrypt_queue *queue, int cpu)
{
	struct xcrypt_lane *lane = &queue->lanes[cpu];

	spin_lock_init(&lane->lock);
	INIT_LIST_HEAD(&lane->list);
	INIT_LIST_HEAD(&lane->soft);
	INIT_WORK(&lane->work, lane_work);
	xcrypt_bh_init(&lane->bh, lane_bh);
	lane->queue = queue;
	lane->stream = jiffies - 2;
	lane->cpu = cpu;
}

/**
 * xcrypt_queue_init() - make a queue
 * @queue: zeroed memory
 * @name: of its workers, as seen in ps; up to 23 bytes count
 * @wq_flags: WQ_*, of a per-CPU workqueue
 * @steal: idle CPUs may take over waiting ios
 * @run: called for each io and each piece from process context
 *
 * Context: process, sleeps.
 * Return: 0 or -ENOMEM; xcrypt_queue_exit() undoes it in both cases.
 */
int xcrypt_queue_init(struct xcrypt_queue *queue, const char *name, unsigned int wq_flags,
		      bool steal, xcrypt_run_fn run)
{
	int cpu;

	queue->run = run;
	queue->steal = steal;
	if (!zalloc_cpumask_var(&queue->busy, GFP_KERNEL))
		return -ENOMEM;
	queue->lanes = kcalloc(nr_cpu_ids, sizeof(*queue->lanes), GFP_KERNEL);
	if (!queue->lanes)
		return -ENOMEM;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		lane_init(queue, cpu);

	/* cpu-intensive: encryption must not hold up other work of the CPU */
	queue->wq = alloc_workqueue("%s", wq_flags | WQ_CPU_INTENSIVE, 1, name);
	return queue->wq ? 0 : -ENOMEM;
}

/**
 * xcrypt_queue_exit() - undo xcrypt_queue_init(), whole, failed or never called
 * @queue: no io is in it nor will be added
 *
 * Context: process, sleeps.
 */
void xcrypt_queue_exit(struct xcrypt_queue *queue)
{
	int cpu;

	if (queue->wq) {
		/* see xcrypt_queue_add(): it may be about to queue the work */
		synchronize_rcu();
		for (cpu = 0; cpu < nr_cpu_ids; cpu++)
			xcrypt_bh_kill(&queue->lanes[cpu].bh);
		destroy_workqueue(queue->wq);
	}
	kfree(queue->lanes);
	free_cpumask_var(queue->busy);
	memset(queue, 0, sizeof(*queue));
}
