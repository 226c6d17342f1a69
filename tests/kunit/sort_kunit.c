// SPDX-License-Identifier: GPL-2.0
/*
 * sort.c in the kernel: the kernel's own rb-tree against a sorted array, and
 * the thread with several CPUs that add writes at once, under lockdep.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/wait.h>

#include "../../sort.c"

static u64 random_state = 1;

/* splitmix64: the same numbers in each run */
static u64 random_next(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static unsigned int below(unsigned int n)
{
	return random_next(&random_state) % n;
}

static void order_init(struct xcrypt_order *order, enum xcrypt_order_mode mode)
{
	memset(order, 0, sizeof(*order));
	order->mode = mode;
	order->tree = RB_ROOT_CACHED;
	spin_lock_init(&order->lock);
	INIT_LIST_HEAD(&order->list);
}

/* By number of addition / XCRYPT_SORT_WINDOW, sector, arrival. */
static int node_compare(const void *a, const void *b)
{
	const struct xcrypt_order_node *x = *(struct xcrypt_order_node * const *)a;
	const struct xcrypt_order_node *y = *(struct xcrypt_order_node * const *)b;

	if (x->window != y->window)
		return x->window < y->window ? -1 : 1;
	if (x->sector != y->sector)
		return x->sector < y->sector ? -1 : 1;
	return x->seq < y->seq ? -1 : 1;
}

/* One round of n writes to so many sectors; returns how many were misplaced. */
static unsigned int sort_round(struct xcrypt_order *order, struct xcrypt_order_node *nodes,
			       struct xcrypt_order_node **sorted, unsigned int n,
			       unsigned int sectors)
{
	struct xcrypt_order_node *node;
	unsigned int i, bad = 0;
	struct rb_root_cached tree;
	u64 first = order->window;

	for (i = 0; i < n; i++) {
		nodes[i] = (struct xcrypt_order_node){ .sector = below(sectors), .seq = i ^ 5 };
		sorted[i] = &nodes[i];
		xcrypt_sort_add(order, &nodes[i]);
		bad += nodes[i].window != first + i / XCRYPT_SORT_WINDOW;
	}
	sort(sorted, n, sizeof(*sorted), node_compare, NULL);
	xcrypt_sort_take(order, &tree);
	bad += !RB_EMPTY_ROOT(&order->tree.rb_root);
	for (i = 0; (node = xcrypt_sort_pop(&tree)); i++)
		bad += i >= n || node != sorted[i];
	return bad + (i != n);
}

static void sort_array(struct kunit *test)
{
	static const struct {
		unsigned int sectors, most, rounds;
	} plans[] = {
		{ 1000000, 1, 5 }, { 1000000, 100, 200 }, { 3, 100, 100 }, { 1, 3000, 3 },
		{ 200, 5000, 5 }, { 1000000, XCRYPT_SORT_WINDOW, 10 },
	};
	struct xcrypt_order_node *nodes, **sorted;
	unsigned int i, round, bad = 0;
	struct xcrypt_order order;

	nodes = kunit_kcalloc(test, 5000, sizeof(*nodes), GFP_KERNEL);
	sorted = kunit_kcalloc(test, 5000, sizeof(*sorted), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, nodes);
	KUNIT_ASSERT_NOT_NULL(test, sorted);
	for (i = 0; i < ARRAY_SIZE(plans); i++) {
		order_init(&order, XCRYPT_ORDER_SORT);
		for (round = 0; round < plans[i].rounds; round++)
			bad += sort_round(&order, nodes, sorted, 1 + below(plans[i].most),
					  plans[i].sectors);
	}
	KUNIT_EXPECT_EQ(test, 0U, bad);
}

/* A far write gets its turn though lower sectors keep coming. */
static void sort_starvation(struct kunit *test)
{
	const unsigned int n = 4 * XCRYPT_SORT_WINDOW;
	struct xcrypt_order_node *nodes, *node;
	struct rb_root_cached tree;
	struct xcrypt_order order;
	unsigned int i;

	nodes = kunit_kcalloc(test, n, sizeof(*nodes), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, nodes);
	order_init(&order, XCRYPT_ORDER_SORT);
	for (i = 0; i < n; i++) {
		nodes[i].sector = i ?: 1 << 30;
		nodes[i].seq = i;
		xcrypt_sort_add(&order, &nodes[i]);
	}
	xcrypt_sort_take(&order, &tree);
	for (i = 1; (node = xcrypt_sort_pop(&tree)) && node != nodes; i++)
		;
	KUNIT_EXPECT_EQ(test, XCRYPT_SORT_WINDOW, i);
}

/* fifo: by arrival, what is not ready holds up the rest, unless relaxed. */
static void fifo_list(struct kunit *test)
{
	enum { N = 200 };
	struct xcrypt_order_node *nodes, *node;
	unsigned int i, next = 0, round;
	struct xcrypt_order order;
	LIST_HEAD(out);

	nodes = kunit_kcalloc(test, N, sizeof(*nodes), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, nodes);
	order_init(&order, XCRYPT_ORDER_FIFO);
	for (i = 0; i < N; i++)
		list_add_tail(&nodes[i].list, &order.list);
	for (round = 0; next < N && round < 10000; round++) {
		nodes[below(N)].ready = true;
		xcrypt_list_take(&order, &out);
		list_for_each_entry(node, &out, list)
			KUNIT_EXPECT_PTR_EQ(test, &nodes[next++], node);
		INIT_LIST_HEAD(&out);
		KUNIT_EXPECT_TRUE(test, next == N || !nodes[next].ready);
	}
	KUNIT_EXPECT_EQ(test, (unsigned int)N, next);
	KUNIT_EXPECT_TRUE(test, list_empty(&order.list));

	/* an allocator in need: the ready one overtakes the one that is not */
	nodes[0].ready = false;
	nodes[1].ready = true;
	list_add_tail(&nodes[0].list, &order.list);
	list_add_tail(&nodes[1].list, &order.list);
	order.relaxed = 1;
	xcrypt_list_take(&order, &out);
	KUNIT_EXPECT_TRUE(test, list_is_singular(&out));
	node = list_first_entry(&out, struct xcrypt_order_node, list);
	KUNIT_EXPECT_PTR_EQ(test, &nodes[1], node);
}

static void order_words(struct kunit *test)
{
	static const char * const bad[] = { "", "sorted", "SORT", "fif", "sort " };
	enum xcrypt_order_mode mode;
	unsigned int i;

	for (i = XCRYPT_ORDER_INLINE; i <= XCRYPT_ORDER_AUTO; i++) {
		KUNIT_EXPECT_EQ(test, 0, xcrypt_order_parse(xcrypt_order_name(i), &mode));
		KUNIT_EXPECT_EQ(test, i, (unsigned int)mode);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ_MSG(test, -EINVAL, xcrypt_order_parse(bad[i], &mode), "%s", bad[i]);
}

/* ---- the thread ---- */

#define ADDERS	3
#define WRITES	2000U		/* of each adder */
#define SLOTS	32		/* writes that an adder has on the way at most */

/* A write on its way; sort.c sees io alone. */
struct slot {
	struct dm_crypt_io io;
	u64 arrival;
	bool busy;
};

/* The device of the thread, and what left it. */
static struct stage {
	struct crypt_config cc;
	spinlock_t lock;		/* arrive, and noting the order of it */
	wait_queue_head_t left;
	u64 arrived, submitted, cancelled;
	u64 last;			/* arrival of the last that left */
	unsigned int inversions, wrong;
} *stage;

struct adder {
	struct task_struct *task;
	struct completion done;
	struct slot slots[SLOTS];
	unsigned int id;
	bool cancels;			/* some writes fail */
};

/* dm-xcrypt.c's part: the thread gives the write away, and it completes. */
void xcrypt_write_submit(struct dm_crypt_io *io)
{
	struct slot *slot = container_of(io, struct slot, io);

	spin_lock(&stage->lock);
	stage->wrong += !slot->busy || !current->plug;
	stage->inversions += slot->arrival < stage->last;
	stage->last = slot->arrival;
	stage->submitted++;
	/* the memory is the next write's now, and must not be looked at */
	memset(io, 0xa5, sizeof(*io));
	slot->busy = false;
	spin_unlock(&stage->lock);
	wake_up_all(&stage->left);
}

static void slot_arrive(struct slot *slot, sector_t sector)
{
	wait_event(stage->left, !READ_ONCE(slot->busy));
	spin_lock(&stage->lock);
	slot->busy = true;
	memset(&slot->io, 0, sizeof(slot->io));
	slot->io.cc = &stage->cc;
	slot->io.sector = sector;
	slot->arrival = ++stage->arrived;
	xcrypt_order_arrive(&slot->io);
	spin_unlock(&stage->lock);
}

static void slot_cancel(struct slot *slot)
{
	xcrypt_order_cancel(&slot->io);
	spin_lock(&stage->lock);
	slot->busy = false;
	stage->cancelled++;
	spin_unlock(&stage->lock);
}

/* Bursts of writes that get ready in another order than they arrive in. */
static int adder_run(void *data)
{
	struct adder *adder = data;
	unsigned int sent, burst, i;
	u64 state = adder->id;

	for (sent = 0; sent < WRITES; sent += burst) {
		burst = 1 + random_next(&state) % SLOTS;
		for (i = 0; i < burst; i++)
			slot_arrive(&adder->slots[i], random_next(&state) % 1000);
		for (i = burst; i--;) {
			if (adder->cancels && random_next(&state) % 50 == 0)
				slot_cancel(&adder->slots[i]);
			else
				xcrypt_order_add(&adder->slots[i].io);
		}
		if (adder->cancels && random_next(&state) % 20 == 0) {
			xcrypt_order_relax(&stage->cc, true);
			xcrypt_order_relax(&stage->cc, false);
		}
	}
	/* the module's code may go away when the last one is done */
	kthread_complete_and_exit(&adder->done, 0);
}

static bool stage_empty(void)
{
	bool empty;

	spin_lock(&stage->lock);
	empty = stage->submitted + stage->cancelled == stage->arrived;
	spin_unlock(&stage->lock);
	return empty;
}

static void run_stage(struct kunit *test, enum xcrypt_order_mode mode, bool cancels)
{
	struct adder *adders = kunit_kcalloc(test, ADDERS, sizeof(*adders), GFP_KERNEL);
	unsigned int i;

	stage = kunit_kzalloc(test, sizeof(*stage), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, adders);
	KUNIT_ASSERT_NOT_NULL(test, stage);
	spin_lock_init(&stage->lock);
	init_waitqueue_head(&stage->left);
	stage->cc.order.mode = mode;
	KUNIT_ASSERT_EQ(test, 0, xcrypt_order_start(&stage->cc, "kunit"));
	for (i = 0; i < ADDERS; i++) {
		adders[i].id = i;
		adders[i].cancels = cancels;
		init_completion(&adders[i].done);
		adders[i].task = kthread_run(adder_run, &adders[i], "xcrypt_adder%u", i);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, adders[i].task);
	}
	for (i = 0; i < ADDERS; i++)
		wait_for_completion(&adders[i].done);
	/* a write whose wake-up was lost stays until KUnit's own timeout */
	wait_event(stage->left, stage_empty());
	xcrypt_order_stop(&stage->cc);
	KUNIT_EXPECT_NULL(test, stage->cc.order.thread);
	xcrypt_order_stop(&stage->cc);
	KUNIT_EXPECT_EQ(test, 0U, stage->wrong);
	KUNIT_EXPECT_EQ(test, stage->submitted, stage->cc.order.count.writes);
	KUNIT_EXPECT_GE(test, stage->arrived, (u64)ADDERS * WRITES);
}

static const enum xcrypt_order_mode modes[] = {
	XCRYPT_ORDER_OFFLOAD, XCRYPT_ORDER_FIFO, XCRYPT_ORDER_SORT,
};

static void mode_name(const enum xcrypt_order_mode *mode, char *text)
{
	strscpy(text, xcrypt_order_name(*mode), KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(mode, modes, mode_name);

/* All leave, once, whatever fails between them. */
static void order_thread_all(struct kunit *test)
{
	run_stage(test, *(const enum xcrypt_order_mode *)test->param_value, true);
}

/* Without an allocator in need fifo means fifo, whatever gets ready when. */
static void order_thread_fifo(struct kunit *test)
{
	run_stage(test, XCRYPT_ORDER_FIFO, false);
	KUNIT_EXPECT_EQ(test, 0U, stage->inversions);
}

static struct kunit_case sort_cases[] = {
	KUNIT_CASE(sort_array),
	KUNIT_CASE(sort_starvation),
	KUNIT_CASE(fifo_list),
	KUNIT_CASE(order_words),
	KUNIT_CASE_PARAM(order_thread_all, mode_gen_params),
	KUNIT_CASE(order_thread_fifo),
	{}
};

static struct kunit_suite sort_suite = {
	.name = "xcrypt_sort",
	.test_cases = sort_cases,
};

kunit_test_suite(sort_suite);
