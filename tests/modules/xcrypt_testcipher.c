// SPDX-License-Identifier: GPL-2.0
/*
 * xcrypt-test-xts, xcrypt-test-cbc and xcrypt-test-gcm: AES as the kernel has
 * it, answered the way a badly behaved crypto accelerator would answer.
 *
 * The work is done by a synchronous xts(aes), cbc(aes) or gcm(aes), so the
 * ciphertext is the usual one and another module can check it.  Tables name the
 * driver:
 *
 *	capi:xcrypt-test-xts-plain64
 *	capi:xcrypt-test-gcm-random	... 1 integrity:28:aead
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
 *			divisible by K: whoever made the I/O knows which.  With
 *			gcm it is the number that the additional data begins with
 *	fail_most=N	no more fail, once N have; 0: any number (default)
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
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <crypto/aes.h>
#include <crypto/gcm.h>
#include <crypto/internal/aead.h>
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
static unsigned int fail_most;
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

/* At the start of the request's context; the one for the real cipher follows. */
struct tc_request {
	struct list_head entry;
	struct crypto_async_request *base;	/* of the caller's request */
	int (*work)(struct tc_request *tc, u32 flags);
	bool encrypt;
	bool shuffle;
	int error;			/* injected; 0: do the work */
} CRYPTO_MINALIGN_ATTR;

struct tc_tfm {
	struct crypto_skcipher *inner;
};

struct tc_aead {
	struct crypto_aead *inner;
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
static void tc_complete(struct tc_request *tc, int error)
{
	struct crypto_async_request *base = tc->base;
	const bool takes_data = __same_type(base->complete, void (*)(void *, int));

	base->complete(takes_data ? base->data : (void *)base, error);
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
		tc_complete(waiting, -EINPROGRESS);
		spin_lock(&tc_lock);
		list_add_tail(&waiting->entry, &tc_queue);
		spin_unlock(&tc_lock);
	}

	error = tc->error;
	if (!error)
		error = tc->work(tc, 0);
	tc_complete(tc, error);
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

/* ---- what all algorithms share ---- */

/* Does the parameter fail_every want this one? */
static bool is_chosen(u64 number)
{
	u32 rest;

	if (!READ_ONCE(fail_sector))
		number = (unsigned int)atomic_inc_return(&fail_count);
	div_u64_rem(number, READ_ONCE(fail_every), &rest);
	return !rest;
}

/* number is that of the sector. */
static int injected(u64 number, bool encrypt)
{
	unsigned int most = READ_ONCE(fail_most);

	if (!READ_ONCE(fail_every) || !(READ_ONCE(fail_ops) & (encrypt ? 1 : 2)))
		return 0;
	if (!is_chosen(number))
		return 0;
	if (!atomic_add_unless(&n_injected, 1, most ? (int)most : -1))
		return 0;
	return -(int)READ_ONCE(fail_errno);
}

/* May the caller sleep, whatever it says? */
static bool in_atomic_context(void)
{
	return in_interrupt() || irqs_disabled() || preempt_count();
}

/* base, work and encrypt are set. */
static int tc_start(struct tc_request *tc, u64 number)
{
	enum tc_answer how = READ_ONCE(answer.value);
	u32 flags = tc->base->flags;

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
	tc->shuffle = how == TC_SHUFFLE;
	tc->error = injected(number, tc->encrypt);
	if (tc->error && !READ_ONCE(fail_async))
		return tc->error;
	if (how == TC_SYNC && !tc->error)
		return tc->work(tc, flags & CRYPTO_TFM_REQ_MAY_SLEEP);
	return submit(tc, flags);
}

/* ---- xts and cbc ---- */

/* The cipher itself. */
static int tc_work(struct tc_request *tc, u32 flags)
{
	struct skcipher_request *req = skcipher_request_cast(tc->base);
	struct tc_tfm *ctx = crypto_skcipher_ctx(crypto_skcipher_reqtfm(req));
	struct skcipher_request *inner = (void *)(tc + 1);

	skcipher_request_set_tfm(inner, ctx->inner);
	skcipher_request_set_callback(inner, flags, NULL, NULL);
	skcipher_request_set_crypt(inner, req->src, req->dst, req->cryptlen, req->iv);
	return tc->encrypt ? crypto_skcipher_encrypt(inner) : crypto_skcipher_decrypt(inner);
}

static int tc_crypt(struct skcipher_request *req, bool encrypt)
{
	struct tc_request *tc = skcipher_request_ctx(req);
	__le64 number;

	memcpy(&number, req->iv, sizeof(number));
	tc->base = &req->base;
	tc->work = tc_work;
	tc->encrypt = encrypt;
	return tc_start(tc, le64_to_cpu(number));
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
				    sizeof(struct skcipher_request) +
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

/* ---- gcm ---- */

static int tc_aead_work(struct tc_request *tc, u32 flags)
{
	struct aead_request *req = container_of(tc->base, struct aead_request, base);
	struct tc_aead *ctx = crypto_aead_ctx(crypto_aead_reqtfm(req));
	struct aead_request *inner = (void *)(tc + 1);

	aead_request_set_tfm(inner, ctx->inner);
	aead_request_set_callback(inner, flags, NULL, NULL);
	aead_request_set_ad(inner, req->assoclen);
	aead_request_set_crypt(inner, req->src, req->dst, req->cryptlen, req->iv);
	return tc->encrypt ? crypto_aead_encrypt(inner) : crypto_aead_decrypt(inner);
}

static int tc_aead_crypt(struct aead_request *req, bool encrypt)
{
	struct tc_request *tc = aead_request_ctx(req);
	__le64 number = 0;

	sg_pcopy_to_buffer(req->src, sg_nents(req->src), &number,
			   min_t(size_t, sizeof(number), req->assoclen), 0);
	tc->base = &req->base;
	tc->work = tc_aead_work;
	tc->encrypt = encrypt;
	return tc_start(tc, le64_to_cpu(number));
}

static int tc_aead_encrypt(struct aead_request *req)
{
	return tc_aead_crypt(req, true);
}

static int tc_aead_decrypt(struct aead_request *req)
{
	return tc_aead_crypt(req, false);
}

static int tc_aead_setkey(struct crypto_aead *tfm, const u8 *key, unsigned int len)
{
	struct tc_aead *ctx = crypto_aead_ctx(tfm);

	return crypto_aead_setkey(ctx->inner, key, len);
}

static int tc_aead_setauthsize(struct crypto_aead *tfm, unsigned int size)
{
	struct tc_aead *ctx = crypto_aead_ctx(tfm);

	return crypto_aead_setauthsize(ctx->inner, size);
}

static int tc_aead_init(struct crypto_aead *tfm)
{
	struct tc_aead *ctx = crypto_aead_ctx(tfm);

	ctx->inner = crypto_alloc_aead(crypto_tfm_alg_name(crypto_aead_tfm(tfm)), 0,
				       CRYPTO_ALG_ASYNC);
	if (IS_ERR(ctx->inner))
		return PTR_ERR(ctx->inner);
	crypto_aead_set_reqsize(tfm, sizeof(struct tc_request) + sizeof(struct aead_request) +
				crypto_aead_reqsize(ctx->inner));
	return 0;
}

static void tc_aead_exit(struct crypto_aead *tfm)
{
	struct tc_aead *ctx = crypto_aead_ctx(tfm);

	crypto_free_aead(ctx->inner);
}

static struct aead_alg tc_gcm = {
	.base.cra_name = "gcm(aes)",
	.base.cra_driver_name = "xcrypt-test-gcm",
	.base.cra_blocksize = 1,
	.base.cra_ctxsize = sizeof(struct tc_aead),
	.ivsize = GCM_AES_IV_SIZE,
	.maxauthsize = AES_BLOCK_SIZE,
	.setkey = tc_aead_setkey,
	.setauthsize = tc_aead_setauthsize,
	.init = tc_aead_init,
	.exit = tc_aead_exit,
	.encrypt = tc_aead_encrypt,
	.decrypt = tc_aead_decrypt,
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
module_param(fail_most, uint, 0644);
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

/* As low a priority as can be: only who asks for it by name gets it. */
static void set_base(struct crypto_alg *base)
{
	base->cra_priority = 1;
	base->cra_flags = CRYPTO_ALG_ASYNC;
	base->cra_module = THIS_MODULE;
}

static int tc_register(void)
{
	unsigned int i;
	int r;

	for (i = 0; i < ARRAY_SIZE(tc_algs); i++) {
		struct skcipher_alg *alg = &tc_algs[i];

		set_base(&alg->base);
		alg->base.cra_blocksize = AES_BLOCK_SIZE;
		alg->base.cra_ctxsize = sizeof(struct tc_tfm);
		alg->ivsize = AES_BLOCK_SIZE;
		alg->init = tc_init;
		alg->exit = tc_exit;
		alg->setkey = tc_setkey;
		alg->encrypt = tc_encrypt;
		alg->decrypt = tc_decrypt;
	}
	set_base(&tc_gcm.base);
	r = crypto_register_aead(&tc_gcm);
	if (r)
		return r;
	r = crypto_register_skciphers(tc_algs, ARRAY_SIZE(tc_algs));
	if (r)
		crypto_unregister_aead(&tc_gcm);
	return r;
}

static int __init xcrypt_testcipher_init(void)
{
	int r;

	prandom_seed_state(&rnd, 1);
	tc_wq = alloc_workqueue("xcrypt_testcipher", WQ_MEM_RECLAIM | WQ_UNBOUND, 1);
	if (!tc_wq)
		return -ENOMEM;
	r = tc_register();
	if (r)
		destroy_workqueue(tc_wq);
	return r;
}

static void __exit xcrypt_testcipher_exit(void)
{
	crypto_unregister_aead(&tc_gcm);
	crypto_unregister_skciphers(tc_algs, ARRAY_SIZE(tc_algs));
	/* no request is left, but who served the last one may be on its way out */
	destroy_workqueue(tc_wq);
	tasklet_kill(&tc_tasklet);
}

module_init(xcrypt_testcipher_init);
module_exit(xcrypt_testcipher_exit);

MODULE_DESCRIPTION("test module: AES that answers like a busy accelerator");
MODULE_LICENSE("GPL");
