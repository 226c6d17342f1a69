// SPDX-License-Identifier: GPL-2.0
/*
 * xcrypt-test-xts and xcrypt-test-cbc: AES as the kernel has it, answered the
 * way a badly behaved crypto accelerator would answer.
 *
 * The work is done by a synchronous xts(aes) or cbc(aes), so the ciphertext is
 * the usual one and another module can check it.  Tables name the driver:
 *
 *	capi:xcrypt-test-xts-plain64
 *
 * Parameters, all writable at any time; each request looks at them anew:
 *
 *	answer=sync	at once
 *	answer=async	-EINPROGRESS, and the result in order
 *	answer=shuffle	-EINPROGRESS, and the results in random order
 *	answer=mixed	each of the three at random
 *	context=process	results come from a worker, softirqs disabled
 *	context=softirq	results come from a tasklet
 *	context=early	the same, before the caller has seen -EINPROGRESS
 *	context=mixed	each of the three at random
 *	depth=N		asynchronous requests that fit the queue, 0: any number.
 *			The next one gets -EBUSY, later its callback is called
 *			with -EINPROGRESS and then with the result; without
 *			CRYPTO_TFM_REQ_MAY_BACKLOG it gets -ENOSPC
 *	delay_us=N	context process: the worker sleeps before each round
 *	fail_every=K	every Kth request fails, 0: none
 *	fail_sector=1	instead those whose IV, a little-endian number, is
 *			divisible by K: whoever made the I/O knows which
 *	fail_errno=N	what they fail with (default 5, EIO)
 *	fail_async=1	they fail in the callback, not at once
 *	fail_ops=1|2|3	encryption, decryption, both (default)
 *	seed=N		starts the random numbers again
 *
 * Counters, also parameters; writing any number sets them to 0:
 *
 *	requests async backlogged refused injected
 *	shuffled	results that overtook another
 *	atomic		requests made where nobody may sleep
 *	sleep_in_atomic	those of them that allowed to sleep: a bug
 *	sleepless	requests made where one may sleep, that did not allow it
 *
 * An accelerator is not meant to be fast: one queue serves all tfms.
 */
#include <linux/atomic.h>
#include <linux/bottom_half.h>
#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/prandom.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <crypto/aes.h>
#include <crypto/internal/skcipher.h>
#include <crypto/xts.h>

/* Requests that a tasklet serves before it lets others run. */
#define TC_BUDGET	64

enum tc_answer { TC_SYNC, TC_ASYNC, TC_SHUFFLE, TC_ANSWER_MIXED };
enum tc_context { TC_PROCESS, TC_SOFTIRQ, TC_EARLY, TC_CONTEXT_MIXED };

/* A parameter that is one of a few words. */
struct tc_word {
	int value;
	const char * const *names;
	int count;
};

static const char * const answer_names[] = { "sync", "async", "shuffle", "mixed" };
static const char * const context_names[] = { "process", "softirq", "early", "mixed" };

static struct tc_word answer = { TC_SYNC, answer_names, ARRAY_SIZE(answer_names) };
static struct tc_word context = { TC_PROCESS, context_names, ARRAY_SIZE(context_names) };

static unsigned int depth;
static unsigned int delay_us;
static unsigned int fail_every;
static unsigned int fail_errno = EIO;
static unsigned int fail_ops = 3;
static bool fail_sector;
static bool fail_async;

static atomic_t n_requests, n_async, n_backlogged, n_refused, n_injected;
static atomic_t n_shuffled, n_atomic, n_sleep_in_atomic, n_sleepless;
static atomic_t fail_count;	/* requests that fail_every looked at */

static DEFINE_SPINLOCK(rnd_lock);
static struct rnd_state rnd;	/* under rnd_lock */

/*
 * The accelerator.  busy counts what is in queue, and what left the backlog
 * and was not added to queue yet: its -EINPROGRESS must come before another
 * server can take it.
 */
static DEFINE_SPINLOCK(tc_lock);
static LIST_HEAD(tc_queue);	/* under tc_lock */
static LIST_HEAD(tc_backlog);	/* under tc_lock */
static unsigned int tc_busy;	/* under tc_lock */
static struct workqueue_struct *tc_wq;

struct tc_request {
	struct list_head entry;
	struct skcipher_request *req;	/* the caller's */
	bool encrypt;
	bool shuffle;
	int error;			/* injected; 0: do the work */
	struct skcipher_request inner;	/* its context follows */
};

struct tc_tfm {
	struct crypto_skcipher *inner;
};

static u32 random_below(u32 limit)
{
	unsigned long flags;
	u32 value;

	spin_lock_irqsave(&rnd_lock, flags);
	value = prandom_u32_state(&rnd);
	spin_unlock_irqrestore(&rnd_lock, flags);
	return value % limit;
}

/*
 * The callback's first argument was the request once, and is its data today;
 * the field's own type tells.
 */
static void tc_complete(struct skcipher_request *req, int error)
{
	const bool takes_data = __same_type(req->base.complete, void (*)(void *, int));

	req->base.complete(takes_data ? req->base.data : (void *)&req->base, error);
}

/* The cipher itself. */
static int tc_work(struct tc_request *tc, u32 flags)
{
	struct crypto_skcipher *tfm = crypto_skcipher_reqtfm(tc->req);
	struct tc_tfm *ctx = crypto_skcipher_ctx(tfm);

	skcipher_request_set_tfm(&tc->inner, ctx->inner);
	skcipher_request_set_callback(&tc->inner, flags, NULL, NULL);
	skcipher_request_set_crypt(&tc->inner, tc->req->src, tc->req->dst,
				   tc->req->cryptlen, tc->req->iv);
	return tc->encrypt ? crypto_skcipher_encrypt(&tc->inner) :
			     crypto_skcipher_decrypt(&tc->inner);
}

/* ---- the queue ---- */

/* What is served next.  tc_lock is held, the queue is not empty. */
static struct tc_request *pick(void)
{
	struct tc_request *tc = list_first_entry(&tc_queue, struct tc_request, entry);
	unsigned int skip;

	if (tc->shuffle && tc_busy > 1) {
		skip = random_below(min(tc_busy, 32U));
		while (skip-- && !list_is_last(&tc->entry, &tc_queue))
			tc = list_next_entry(tc, entry);
		if (!list_is_first(&tc->entry, &tc_queue))
			atomic_inc(&n_shuffled);
	}
	list_del(&tc->entry);
	return tc;
}

/*
 * Serve one request.  Returns false if there was none.  Softirqs are off, as
 * the crypto API promises to callbacks.
 */
static bool serve(void)
{
	struct tc_request *tc = NULL, *waiting = NULL;
	int error;

	spin_lock(&tc_lock);
	if (!list_empty(&tc_queue)) {
		tc = pick();
		waiting = list_first_entry_or_null(&tc_backlog, struct tc_request, entry);
		if (waiting)
			list_del(&waiting->entry);
		else
			tc_busy--;
	}
	spin_unlock(&tc_lock);
	if (!tc)
		return false;

	if (waiting) {
		tc_complete(waiting->req, -EINPROGRESS);
		spin_lock(&tc_lock);
		list_add_tail(&waiting->entry, &tc_queue);
		spin_unlock(&tc_lock);
	}

	error = tc->error;
	if (!error)
		error = tc_work(tc, 0);
	tc_complete(tc->req, error);
	return true;
}

static void tc_tasklet_fn(struct tasklet_struct *tasklet)
{
	unsigned int n;

	for (n = 0; n < TC_BUDGET; n++)
		if (!serve())
			return;
	tasklet_schedule(tasklet);
}

static DECLARE_TASKLET(tc_tasklet, tc_tasklet_fn);

static void tc_work_fn(struct work_struct *work)
{
	unsigned int delay = READ_ONCE(delay_us);
	bool more;

	if (delay)
		usleep_range(delay, delay + delay / 4 + 1);
	do {
		local_bh_disable();
		more = serve();
		local_bh_enable();
		cond_resched();
	} while (more);
}

static DECLARE_WORK(tc_worker, tc_work_fn);

/* Softirqs are off: a tasklet cannot run here before the caller is ready. */
static void kick(enum tc_context where)
{
	if (where == TC_PROCESS)
		queue_work(tc_wq, &tc_worker);
	else
		tasklet_schedule(&tc_tasklet);
}

/* Returns -EINPROGRESS, or -EBUSY or -ENOSPC if the queue is full. */
static int enqueue(struct tc_request *tc, bool may_backlog)
{
	unsigned int limit = READ_ONCE(depth);
	int r = -EINPROGRESS;

	spin_lock_bh(&tc_lock);
	if (!limit || tc_busy < limit) {
		tc_busy++;
		list_add_tail(&tc->entry, &tc_queue);
		atomic_inc(&n_async);
	} else if (may_backlog) {
		list_add_tail(&tc->entry, &tc_backlog);
		atomic_inc(&n_async);
		atomic_inc(&n_backlogged);
		r = -EBUSY;
	} else {
		atomic_inc(&n_refused);
		r = -ENOSPC;
	}
	spin_unlock_bh(&tc_lock);
	return r;
}

static int submit(struct tc_request *tc, u32 flags)
{
	enum tc_context where = READ_ONCE(context.value);
	int r;

	if (where == TC_CONTEXT_MIXED)
		where = random_below(TC_CONTEXT_MIXED);

	/*
	 * Early: the tasklet runs in local_bh_enable(), below this function.
	 * Else a caller in process context leaves it to ksoftirqd, which is
	 * woken if softirqs are on.  The request may be gone after enqueue().
	 */
	if (where == TC_EARLY)
		local_bh_disable();
	r = enqueue(tc, flags & CRYPTO_TFM_REQ_MAY_BACKLOG);
	if (r != -ENOSPC)
		kick(where);
	if (where == TC_EARLY)
		local_bh_enable();
	return r;
}

/* ---- the algorithm ---- */

static int injected(struct skcipher_request *req, bool encrypt)
{
	unsigned int every = READ_ONCE(fail_every);
	__le64 sector;
	u64 number;
	u32 rest;

	if (!every || !(READ_ONCE(fail_ops) & (encrypt ? 1 : 2)))
		return 0;
	if (READ_ONCE(fail_sector)) {
		memcpy(&sector, req->iv, sizeof(sector));
		number = le64_to_cpu(sector);
	} else {
		number = (unsigned int)atomic_inc_return(&fail_count);
	}
	div_u64_rem(number, every, &rest);
	if (rest)
		return 0;
	atomic_inc(&n_injected);
	return -(int)READ_ONCE(fail_errno);
}

/* May the caller sleep, whatever it says? */
static bool in_atomic_context(void)
{
	return in_interrupt() || irqs_disabled() || preempt_count();
}

static int tc_crypt(struct skcipher_request *req, bool encrypt)
{
	struct tc_request *tc = skcipher_request_ctx(req);
	enum tc_answer how = READ_ONCE(answer.value);
	u32 flags = skcipher_request_flags(req);

	atomic_inc(&n_requests);
	if (in_atomic_context()) {
		atomic_inc(&n_atomic);
		if (flags & CRYPTO_TFM_REQ_MAY_SLEEP)
			atomic_inc(&n_sleep_in_atomic);
		flags &= ~CRYPTO_TFM_REQ_MAY_SLEEP;
	} else if (!(flags & CRYPTO_TFM_REQ_MAY_SLEEP)) {
		atomic_inc(&n_sleepless);
	}

	if (how == TC_ANSWER_MIXED)
		how = random_below(TC_ANSWER_MIXED);
	tc->req = req;
	tc->encrypt = encrypt;
	tc->shuffle = how == TC_SHUFFLE;
	tc->error = injected(req, encrypt);
	if (tc->error && !READ_ONCE(fail_async))
		return tc->error;
	if (how == TC_SYNC && !tc->error)
		return tc_work(tc, flags & CRYPTO_TFM_REQ_MAY_SLEEP);
	return submit(tc, flags);
}

static int tc_encrypt(struct skcipher_request *req)
{
	return tc_crypt(req, true);
}

static int tc_decrypt(struct skcipher_request *req)
{
	return tc_crypt(req, false);
}

static int tc_setkey(struct crypto_skcipher *tfm, const u8 *key, unsigned int len)
{
	struct tc_tfm *ctx = crypto_skcipher_ctx(tfm);

	return crypto_skcipher_setkey(ctx->inner, key, len);
}

static int tc_init(struct crypto_skcipher *tfm)
{
	const char *name = crypto_tfm_alg_name(crypto_skcipher_tfm(tfm));
	struct tc_tfm *ctx = crypto_skcipher_ctx(tfm);

	/* without the asynchronous ones: not ourselves, above all */
	ctx->inner = crypto_alloc_skcipher(name, 0, CRYPTO_ALG_ASYNC);
	if (IS_ERR(ctx->inner))
		return PTR_ERR(ctx->inner);
	crypto_skcipher_set_reqsize(tfm, sizeof(struct tc_request) +
				    crypto_skcipher_reqsize(ctx->inner));
	return 0;
}

static void tc_exit(struct crypto_skcipher *tfm)
{
	struct tc_tfm *ctx = crypto_skcipher_ctx(tfm);

	crypto_free_skcipher(ctx->inner);
}

static struct skcipher_alg tc_algs[] = {
	{
		.base.cra_name = "xts(aes)",
		.base.cra_driver_name = "xcrypt-test-xts",
		.min_keysize = 2 * AES_MIN_KEY_SIZE,
		.max_keysize = 2 * AES_MAX_KEY_SIZE,
	}, {
		.base.cra_name = "cbc(aes)",
		.base.cra_driver_name = "xcrypt-test-cbc",
		.min_keysize = AES_MIN_KEY_SIZE,
		.max_keysize = AES_MAX_KEY_SIZE,
	},
};

/* ---- parameters ---- */

static int word_set(const char *val, const struct kernel_param *kp)
{
	struct tc_word *word = kp->arg;
	int i = __sysfs_match_string(word->names, word->count, val);

	if (i < 0)
		return i;
	WRITE_ONCE(word->value, i);
	return 0;
}

static int word_get(char *buf, const struct kernel_param *kp)
{
	const struct tc_word *word = kp->arg;

	return sprintf(buf, "%s\n", word->names[READ_ONCE(word->value)]);
}

static const struct kernel_param_ops word_ops = { .set = word_set, .get = word_get };

static int counter_set(const char *val, const struct kernel_param *kp)
{
	atomic_set(kp->arg, 0);
	return 0;
}

static int counter_get(char *buf, const struct kernel_param *kp)
{
	return sprintf(buf, "%u\n", (unsigned int)atomic_read((atomic_t *)kp->arg));
}

static const struct kernel_param_ops counter_ops = { .set = counter_set, .get = counter_get };

static int seed_set(const char *val, const struct kernel_param *kp)
{
	unsigned long flags;
	u64 seed;
	int r = kstrtoull(val, 0, &seed);

	if (r)
		return r;
	spin_lock_irqsave(&rnd_lock, flags);
	prandom_seed_state(&rnd, seed);
	spin_unlock_irqrestore(&rnd_lock, flags);
	atomic_set(&fail_count, 0);
	return 0;
}

static const struct kernel_param_ops seed_ops = { .set = seed_set };

module_param_cb(answer, &word_ops, &answer, 0644);
module_param_cb(context, &word_ops, &context, 0644);
module_param(depth, uint, 0644);
module_param(delay_us, uint, 0644);
module_param(fail_every, uint, 0644);
module_param(fail_sector, bool, 0644);
module_param(fail_errno, uint, 0644);
module_param(fail_async, bool, 0644);
module_param(fail_ops, uint, 0644);
module_param_cb(seed, &seed_ops, NULL, 0200);
module_param_cb(requests, &counter_ops, &n_requests, 0644);
module_param_cb(async, &counter_ops, &n_async, 0644);
module_param_cb(backlogged, &counter_ops, &n_backlogged, 0644);
module_param_cb(refused, &counter_ops, &n_refused, 0644);
module_param_cb(injected, &counter_ops, &n_injected, 0644);
module_param_cb(shuffled, &counter_ops, &n_shuffled, 0644);
module_param_cb(atomic, &counter_ops, &n_atomic, 0644);
module_param_cb(sleep_in_atomic, &counter_ops, &n_sleep_in_atomic, 0644);
module_param_cb(sleepless, &counter_ops, &n_sleepless, 0644);

static int __init xcrypt_testcipher_init(void)
{
	unsigned int i;
	int r;

	for (i = 0; i < ARRAY_SIZE(tc_algs); i++) {
		struct skcipher_alg *alg = &tc_algs[i];

		/* as low as can be: only who asks for it by name gets it */
		alg->base.cra_priority = 1;
		alg->base.cra_flags = CRYPTO_ALG_ASYNC;
		alg->base.cra_blocksize = AES_BLOCK_SIZE;
		alg->base.cra_ctxsize = sizeof(struct tc_tfm);
		alg->base.cra_module = THIS_MODULE;
		alg->ivsize = AES_BLOCK_SIZE;
		alg->init = tc_init;
		alg->exit = tc_exit;
		alg->setkey = tc_setkey;
		alg->encrypt = tc_encrypt;
		alg->decrypt = tc_decrypt;
	}

	prandom_seed_state(&rnd, 1);
	tc_wq = alloc_workqueue("xcrypt_testcipher", WQ_MEM_RECLAIM | WQ_UNBOUND, 1);
	if (!tc_wq)
		return -ENOMEM;
	r = crypto_register_skciphers(tc_algs, ARRAY_SIZE(tc_algs));
	if (r)
		destroy_workqueue(tc_wq);
	return r;
}

static void __exit xcrypt_testcipher_exit(void)
{
	crypto_unregister_skciphers(tc_algs, ARRAY_SIZE(tc_algs));
	/* no request is left, but who served the last one may be on its way out */
	destroy_workqueue(tc_wq);
	tasklet_kill(&tc_tasklet);
}

module_init(xcrypt_testcipher_init);
module_exit(xcrypt_testcipher_exit);

MODULE_DESCRIPTION("test module: AES that answers like a busy accelerator");
MODULE_LICENSE("GPL");
