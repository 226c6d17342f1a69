// SPDX-License-Identifier: GPL-2.0
/*
 * Per-CPU queues of ios.  An io is added to the lane of the CPU it is on, so
 * that a lone io is converted where its data is warm; what has to wait there
 * is taken over by CPUs whose own lane is empty.
 *
 * An io stays in its lane until a worker really runs and takes it: a CPU that
 * was woken to help but is kept busy by something else delays nobody.
 *
 * Hotplug: the work item of a lane whose CPU went down is run by the
 * workqueue on another CPU; it serves its lane wherever it runs.  The
 * workqueue is not freezable: hibernation and swap write through us.
 */
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include "dm-xcrypt.h"

/* Wake one CPU that has nothing to do. */
static void wake_helper(struct xcrypt_queue *queue, int self)
{
	int cpu;

	for_each_cpu_wrap(cpu, cpu_online_mask, self) {
		if (cpu == self || cpumask_test_cpu(cpu, queue->busy))
			continue;
		queue_work_on(cpu, queue->wq, &queue->lanes[cpu].work);
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
	waits = !list_empty(&lane->list) || cpumask_test_cpu(cpu, queue->busy);
	list_add_tail(&io->entry, &lane->list);
	spin_unlock_irqrestore(&lane->lock, flags);

	queue_work_on(cpu, queue->wq, &lane->work);
	if (waits && queue->steal)
		wake_helper(queue, cpu);
	rcu_read_unlock();
}

/* The oldest io of a lane, or NULL. */
static struct dm_crypt_io *lane_pop(struct xcrypt_lane *lane)
{
	struct dm_crypt_io *io;

	/*
	 * A glance without the lock: an io that is added just now is not
	 * missed for good, its own lane's work is queued after the addition.
	 */
	if (list_empty_careful(&lane->list))
		return NULL;

	spin_lock_irq(&lane->lock);
	io = list_first_entry_or_null(&lane->list, struct dm_crypt_io, entry);
	if (io)
		list_del(&io->entry);
	spin_unlock_irq(&lane->lock);
	return io;
}

/* An io from the worker's own lane, else from the next one that has any. */
static struct dm_crypt_io *queue_take(struct xcrypt_queue *queue, struct xcrypt_lane *own)
{
	struct dm_crypt_io *io = lane_pop(own);
	int cpu;

	if (io || !queue->steal)
		return io;
	for_each_cpu_wrap(cpu, cpu_online_mask, own->cpu) {
		io = lane_pop(&queue->lanes[cpu]);
		if (io)
			return io;
	}
	return NULL;
}

static void lane_work(struct work_struct *work)
{
	struct xcrypt_lane *lane = container_of(work, struct xcrypt_lane, work);
	struct xcrypt_queue *queue = lane->queue;
	struct dm_crypt_io *io;

	cpumask_set_cpu(lane->cpu, queue->busy);
	while ((io = queue_take(queue, lane))) {
		queue->run(io);
		cond_resched();
	}
	cpumask_clear_cpu(lane->cpu, queue->busy);
}

static void lane_init(struct xcrypt_queue *queue, int cpu)
{
	struct xcrypt_lane *lane = &queue->lanes[cpu];

	spin_lock_init(&lane->lock);
	INIT_LIST_HEAD(&lane->list);
	INIT_WORK(&lane->work, lane_work);
	lane->queue = queue;
	lane->cpu = cpu;
}

/**
 * xcrypt_queue_init() - make a queue
 * @queue: zeroed memory
 * @name: of its workers, as seen in ps; up to 23 bytes count
 * @wq_flags: WQ_*, of a per-CPU workqueue
 * @steal: idle CPUs may take over waiting ios
 * @run: called for each io from process context; it owns the io and may sleep
 *
 * Context: process, sleeps.
 * Return: 0 or -ENOMEM; xcrypt_queue_exit() undoes it in both cases.
 */
int xcrypt_queue_init(struct xcrypt_queue *queue, const char *name, unsigned int wq_flags,
		      bool steal, void (*run)(struct dm_crypt_io *io))
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
	if (queue->wq) {
		/* see xcrypt_queue_add(): it may be about to queue the work */
		synchronize_rcu();
		destroy_workqueue(queue->wq);
	}
	kfree(queue->lanes);
	free_cpumask_var(queue->busy);
	memset(queue, 0, sizeof(*queue));
}
