// SPDX-License-Identifier: GPL-2.0
/*
 * sort.c: its plain half against a dumb sorted array, and its thread with
 * many CPUs (threads here) that add writes at once.
 *
 * With THREADS_ONLY only the latter, for the thread sanitizer.
 */
#include <unistd.h>

#include "../../dm-xcrypt.h"
#include "test.h"

#ifndef THREADS_ONLY

static unsigned long long random_state = 1;

static unsigned int below(unsigned int n)
{
	return test_random(&random_state) % n;
}

/* What a write should do, beside what sort.c is told of it. */
struct write {
	struct xcrypt_order_node node;
	u64 window;
	bool out;
};

/* The dumb model of the windows. */
struct model {
	struct write **array;		/* sorted by window, sector, seq */
	unsigned int n;
	u64 window;
	unsigned int in_window;
};

static bool before(const struct write *a, const struct write *b)
{
	if (a->window != b->window)
		return a->window < b->window;
	if (a->node.sector != b->node.sector)
		return a->node.sector < b->node.sector;
	return a->node.seq < b->node.seq;
}

static void model_add(struct model *model, struct write *write)
{
	unsigned int at = model->n++;

	if (model->in_window == XCRYPT_SORT_WINDOW) {
		model->window++;
		model->in_window = 0;
	}
	model->in_window++;
	write->window = model->window;
	for (; at && before(write, model->array[at - 1]); at--)
		model->array[at] = model->array[at - 1];
	model->array[at] = write;
}

static void order_init(struct xcrypt_order *order, enum xcrypt_order_mode mode)
{
	*order = (struct xcrypt_order) { .mode = mode, .tree = RB_ROOT_CACHED };
	spin_lock_init(&order->lock);
	INIT_LIST_HEAD(&order->list);
}

/* Take the windows from both and compare write by write. */
static void take_and_compare(struct xcrypt_order *order, struct model *model)
{
	struct xcrypt_order_node *node;
	struct rb_root_cached tree;
	unsigned int i, run = 0;

	xcrypt_sort_take(order, &tree);
	expect(RB_EMPTY_ROOT(&order->tree.rb_root), "something stayed behind");
	for (i = 0; (node = xcrypt_sort_pop(&tree)); i++) {
		struct write *write = container_of(node, struct write, node);

		expect(i < model->n && write == model->array[i],
		       "place %u: sector %llu seq %llu", i, (unsigned long long)node->sector,
		       (unsigned long long)node->seq);
		expect(!write->out, "a write came twice");
		write->out = true;
		run = i && model->array[i - 1]->node.window == node->window ? run + 1 : 1;
		expect(run <= XCRYPT_SORT_WINDOW, "a window of %u writes", run);
	}
	expect(i == model->n, "%u of %u writes came", i, model->n);
	expect(!xcrypt_sort_pop(&tree), "not empty at the end");
	if (model->n) {
		model->window++;
		model->in_window = 0;
	}
	model->n = 0;
}

/* Rounds of random writes over a number of sectors; returns the writes. */
static unsigned int sort_rounds(unsigned int sectors, unsigned int most, unsigned int rounds)
{
	struct write *writes = calloc(most, sizeof(*writes));
	struct model model = { .array = calloc(most, sizeof(*model.array)) };
	struct xcrypt_order order;
	unsigned int n, i, total = 0;
	u64 seq = 0;

	order_init(&order, XCRYPT_ORDER_SORT);
	while (rounds--) {
		n = below(most + 1);
		for (i = 0; i < n; i++) {
			/* writes get ready in another order than they arrive in */
			writes[i] = (struct write) {
				.node = { .sector = below(sectors), .seq = seq + (i ^ 5) },
			};
			xcrypt_sort_add(&order, &writes[i].node);
			model_add(&model, &writes[i]);
		}
		seq += most + 8;
		take_and_compare(&order, &model);
		for (i = 0; i < n; i++)
			expect(writes[i].out, "write %u of %u is lost", i, n);
		total += n;
	}
	free(writes);
	free(model.array);
	return total;
}

static void test_sort(void)
{
	unsigned int n = 0;

	n += sort_rounds(1000000, 1, 20);
	n += sort_rounds(1000000, 100, 2000);
	n += sort_rounds(3, 100, 1000);		/* many equal sectors */
	n += sort_rounds(1, 3000, 10);		/* all equal */
	n += sort_rounds(200, 5000, 20);	/* several windows */
	n += sort_rounds(1000000, XCRYPT_SORT_WINDOW, 50);
	checked("sort: %u random writes leave as a sorted array has them", n);
}

/* A far write gets its turn though lower sectors keep coming. */
static void test_starvation(void)
{
	struct write *writes = calloc(4 * XCRYPT_SORT_WINDOW, sizeof(*writes));
	unsigned int i, n = 4 * XCRYPT_SORT_WINDOW;
	struct xcrypt_order_node *node;
	struct rb_root_cached tree;
	struct xcrypt_order order;

	order_init(&order, XCRYPT_ORDER_SORT);
	for (i = 0; i < n; i++) {
		writes[i].node.sector = i ? i : 1 << 30;
		writes[i].node.seq = i;
		xcrypt_sort_add(&order, &writes[i].node);
	}
	xcrypt_sort_take(&order, &tree);
	for (i = 1; (node = xcrypt_sort_pop(&tree)) && node != &writes[0].node; i++)
		;
	expect(i == XCRYPT_SORT_WINDOW, "it left as number %u", i);
	for (; xcrypt_sort_pop(&tree); i++)
		;
	expect(i == n, "%u of %u", i, n);
	free(writes);
	checked("sort: a window holds %u writes at the most", XCRYPT_SORT_WINDOW);
}

/* Writes in mode fifo or offload: arrival, ready, cancelled, in any order. */
struct listed {
	struct xcrypt_order_node node;
	unsigned int number;
};

/* Move what may leave and compare it with what the rule says. */
static unsigned int list_compare(struct xcrypt_order *order, struct listed *writes,
				 unsigned int n, bool *gone)
{
	struct xcrypt_order_node *node, *tmp;
	unsigned int count = 0, next = 0;
	LIST_HEAD(out);

	xcrypt_list_take(order, &out);
	list_for_each_entry_safe(node, tmp, &out, list) {
		struct listed *write = container_of(node, struct listed, node);

		/* the oldest one that has not left and may */
		while (next < n && (gone[next] || (order->relaxed && !writes[next].node.ready)))
			next++;
		expect(write->number == next, "%u instead of %u", write->number, next);
		expect(node->ready, "%u is not ready", write->number);
		gone[write->number] = true;
		list_del(&node->list);
		count++;
	}
	/* what stays is not ready, or in fifo behind one that is not */
	for (; next < n; next++) {
		if (gone[next])
			continue;
		expect(!writes[next].node.ready, "%u stayed", next);
		if (!order->relaxed)
			break;
	}
	return count;
}

/* Get some writes ready, cancel a few; returns how many were cancelled. */
static unsigned int list_stir(struct listed *writes, unsigned int n, bool *gone)
{
	unsigned int i, cancelled = 0, k = below(64);

	while (k--) {
		i = below(n);
		if (gone[i])
			continue;
		if (!writes[i].node.ready && !below(10)) {
			list_del(&writes[i].node.list);
			gone[i] = true;
			cancelled++;
		}
		writes[i].node.ready = true;
	}
	return cancelled;
}

static void test_list(void)
{
	enum { N = 400, ROUNDS = 300 };
	struct listed *writes = calloc(N, sizeof(*writes));
	unsigned int round, i, left, total = 0;
	struct xcrypt_order order;
	bool *gone = calloc(N, sizeof(*gone));

	for (round = 0; round < ROUNDS; round++) {
		order_init(&order, XCRYPT_ORDER_FIFO);
		memset(gone, 0, N * sizeof(*gone));
		for (i = 0; i < N; i++) {
			writes[i] = (struct listed) { .number = i };
			list_add_tail(&writes[i].node.list, &order.list);
		}
		for (left = N; left;) {
			left -= list_stir(writes, N, gone);
			order.relaxed = !below(4);
			left -= list_compare(&order, writes, N, gone);
		}
		expect(list_empty(&order.list), "the list is not empty");
		total += N;
	}
	free(writes);
	free(gone);
	checked("fifo: %u writes leave by arrival, unless an allocator needs pages", total);
}

static void test_names(void)
{
	static const char * const bad[] = { "", "sorted", "SORT", "fif", "sort " };
	enum xcrypt_order_mode mode;
	char line[16];
	unsigned int i;

	for (i = XCRYPT_ORDER_INLINE; i <= XCRYPT_ORDER_AUTO; i++) {
		snprintf(line, sizeof(line), "%s\n", xcrypt_order_name(i));
		expect(!xcrypt_order_parse(line, &mode) && mode == i, "%s", line);
		expect(!xcrypt_order_parse(xcrypt_order_name(i), &mode) && mode == i, "%s", line);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		expect(xcrypt_order_parse(bad[i], &mode), "%s", bad[i]);
	checked("sort: the words of write_order");
}
#endif /* THREADS_ONLY */

/* The thread: several threads send writes through the whole stage. */

#define ADDERS		4
#define WRITES		20000	/* of each adder */
#define SLOTS		64	/* writes that an adder has on the way at most */

struct stage {
	struct crypt_config cc;
	pthread_mutex_t lock;		/* arrive and noting the order of it */
	pthread_cond_t left;
	u64 arrived, submitted, cancelled;
	u64 last;			/* arrival of the last that left */
	bool gate;			/* holds up the thread in a submission */
	bool held;			/* the thread waits at the gate */
	unsigned int inversions;
};

/* A write on its way; sort.c sees io alone. */
struct slot {
	struct dm_crypt_io io;
	u64 arrival;
	bool busy;
};

static struct stage stage;

struct adder {
	pthread_t thread;
	struct slot slots[SLOTS];
	unsigned int id;
};

/* dm-xcrypt.c's part: the thread gives the write away, and it completes. */
void xcrypt_write_submit(struct dm_crypt_io *io)
{
	struct slot *slot = container_of(io, struct slot, io);

	pthread_mutex_lock(&stage.lock);
	expect(shim_plugs == 1, "%d plugs", shim_plugs);
	expect(slot->busy, "a write left twice");
	while (stage.gate) {
		stage.held = true;
		pthread_cond_broadcast(&stage.left);
		pthread_cond_wait(&stage.left, &stage.lock);
	}
	stage.inversions += slot->arrival < stage.last;
	stage.last = slot->arrival;
	stage.submitted++;
	/* the memory is the next write's now, and must not be looked at */
	memset(io, 0xa5, sizeof(*io));
	slot->busy = false;
	pthread_cond_broadcast(&stage.left);
	pthread_mutex_unlock(&stage.lock);
}

static void slot_arrive(struct slot *slot, sector_t sector)
{
	pthread_mutex_lock(&stage.lock);
	while (slot->busy)
		pthread_cond_wait(&stage.left, &stage.lock);
	slot->busy = true;
	slot->io = (struct dm_crypt_io) { .cc = &stage.cc, .sector = sector };
	slot->arrival = ++stage.arrived;
	xcrypt_order_arrive(&slot->io);
	pthread_mutex_unlock(&stage.lock);
}

static void slot_cancel(struct slot *slot)
{
	xcrypt_order_cancel(&slot->io);
	pthread_mutex_lock(&stage.lock);
	slot->busy = false;
	stage.cancelled++;
	pthread_mutex_unlock(&stage.lock);
}

/* Bursts of writes that get ready in another order than they arrive in. */
static void *adder_run(void *data)
{
	struct adder *adder = data;
	unsigned long long state = adder->id;
	unsigned int sent = 0, burst, i;

	while (sent < WRITES) {
		burst = 1 + test_random(&state) % SLOTS;
		for (i = 0; i < burst; i++)
			slot_arrive(&adder->slots[i], test_random(&state) % 1000);
		for (i = burst; i--;) {
			if (test_random(&state) % 50)
				xcrypt_order_add(&adder->slots[i].io);
			else
				slot_cancel(&adder->slots[i]);
		}
		if (test_random(&state) % 20 == 0) {
			xcrypt_order_relax(&stage.cc, true);
			xcrypt_order_relax(&stage.cc, false);
		}
		sent += burst;
	}
	return NULL;
}

static void stage_start(enum xcrypt_order_mode mode)
{
	stage = (struct stage) { .cc.order.mode = mode };
	pthread_mutex_init(&stage.lock, NULL);
	pthread_cond_init(&stage.left, NULL);
	expect(!xcrypt_order_start(&stage.cc, "test"), "start");
}

static void adders_run(struct adder *adders, unsigned int n, void *(*run)(void *data))
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		adders[i].id = i;
		pthread_create(&adders[i].thread, NULL, run, &adders[i]);
	}
	for (i = 0; i < n; i++)
		pthread_join(adders[i].thread, NULL);
}

/* A write whose wake-up was lost stays here until the alarm. */
static void stage_stop(void)
{
	pthread_mutex_lock(&stage.lock);
	while (stage.submitted + stage.cancelled < stage.arrived)
		pthread_cond_wait(&stage.left, &stage.lock);
	pthread_mutex_unlock(&stage.lock);
	xcrypt_order_stop(&stage.cc);
	expect(!stage.cc.order.thread, "the thread is still there");
	xcrypt_order_stop(&stage.cc);
	expect(stage.cc.order.count.writes == stage.submitted, "count");
}

static void test_thread(enum xcrypt_order_mode mode)
{
	struct adder *adders = calloc(ADDERS, sizeof(*adders));

	stage_start(mode);
	adders_run(adders, ADDERS, adder_run);
	stage_stop();
	expect(stage.arrived >= ADDERS * WRITES, "%llu", (unsigned long long)stage.arrived);
	expect(stage.cc.order.count.batches && stage.cc.order.count.batches <= stage.submitted,
	       "%llu batches", (unsigned long long)stage.cc.order.count.batches);
	free(adders);
	checked("%s: thread: %llu writes of %d adders left, %llu cancelled",
		xcrypt_order_name(mode), (unsigned long long)stage.submitted, ADDERS,
		(unsigned long long)stage.cancelled);
}

/* Without an allocator in need fifo means fifo, whatever gets ready when. */
static void *fifo_adder(void *data)
{
	struct adder *adder = data;
	unsigned int sent, i;

	for (sent = 0; sent < WRITES; sent += SLOTS) {
		for (i = 0; i < SLOTS; i++)
			slot_arrive(&adder->slots[i], SLOTS - i);
		for (i = SLOTS; i--;)
			xcrypt_order_add(&adder->slots[i].io);
	}
	return NULL;
}

static void test_fifo_thread(void)
{
	struct adder *adders = calloc(ADDERS, sizeof(*adders));

	stage_start(XCRYPT_ORDER_FIFO);
	adders_run(adders, ADDERS, fifo_adder);
	stage_stop();
	expect(!stage.inversions, "%u inversions", stage.inversions);
	free(adders);
	checked("fifo: thread: %llu writes, no inversion", (unsigned long long)stage.submitted);
}

/*
 * While the thread is held up with a first write, others get ready, in mode
 * sort last one first: they are one window, and must leave by sector, equal
 * ones by arrival.  In mode offload they leave as they got ready.
 */
static void gated_round(struct adder *adder, bool sort)
{
	unsigned int i;

	stage.gate = true;
	slot_arrive(&adder->slots[0], 1 << 20);
	xcrypt_order_add(&adder->slots[0].io);
	pthread_mutex_lock(&stage.lock);
	while (!stage.held)
		pthread_cond_wait(&stage.left, &stage.lock);
	pthread_mutex_unlock(&stage.lock);

	for (i = 1; i < SLOTS; i++)
		slot_arrive(&adder->slots[i], sort ? i / 8 : SLOTS - i);
	for (i = 1; i < SLOTS; i++)
		xcrypt_order_add(&adder->slots[sort ? SLOTS - i : i].io);

	pthread_mutex_lock(&stage.lock);
	stage.gate = false;
	stage.held = false;
	pthread_cond_broadcast(&stage.left);
	while (stage.submitted < stage.arrived)
		pthread_cond_wait(&stage.left, &stage.lock);
	pthread_mutex_unlock(&stage.lock);
}

static void test_gated(enum xcrypt_order_mode mode)
{
	enum { ROUNDS = 200 };
	struct adder *adder = calloc(1, sizeof(*adder));
	unsigned int round;

	stage_start(mode);
	for (round = 0; round < ROUNDS; round++)
		gated_round(adder, mode == XCRYPT_ORDER_SORT);
	stage_stop();
	expect(!stage.inversions, "%u inversions", stage.inversions);
	expect(stage.cc.order.count.batches == 2 * ROUNDS, "%llu batches",
	       (unsigned long long)stage.cc.order.count.batches);
	free(adder);
	checked("%s: thread: %d batches in their order, a plug around each",
		xcrypt_order_name(mode), ROUNDS);
}

int main(void)
{
	const char *seconds = getenv("TEST_ALARM");

	/* a thread that is never woken again ends here */
	alarm(seconds ? atoi(seconds) : 60);
#ifndef THREADS_ONLY
	test_sort();
	test_starvation();
	test_list();
	test_names();
#endif
	test_thread(XCRYPT_ORDER_OFFLOAD);
	test_thread(XCRYPT_ORDER_FIFO);
	test_thread(XCRYPT_ORDER_SORT);
	test_fifo_thread();
	test_gated(XCRYPT_ORDER_SORT);
	test_gated(XCRYPT_ORDER_OFFLOAD);
	return test_failed ? 1 : 0;
}
