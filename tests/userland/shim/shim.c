// SPDX-License-Identifier: GPL-2.0
/* See kernel.h. */
#include <malloc.h>
#include <unistd.h>
#include <openssl/aes.h>

int shim_alloc_fail;
char shim_log[512];
int fips_enabled;
__thread int shim_plugs;

void *kzalloc(size_t size, gfp_t gfp)
{
	(void)gfp;
	if (shim_alloc_fail && !--shim_alloc_fail)
		return NULL;
	return calloc(1, size);
}

void memzero_explicit(void *p, size_t size)
{
	memset(p, 0, size);
	__asm__ volatile("" : : "r"(p) : "memory");
}

void kfree_sensitive(const void *p)
{
	if (p)
		memzero_explicit((void *)p, malloc_usable_size((void *)p));
	free((void *)p);
}

void get_random_bytes(void *p, size_t size)
{
	static u64 state = 1;
	u8 *byte = p;

	while (size--) {
		state = state * 6364136223846793005ULL + 1442695040888963407ULL;
		*byte++ = state >> 56;
	}
}

u32 crc32(u32 crc, const void *p, size_t size)
{
	const u8 *byte = p;
	int i;

	while (size--) {
		crc ^= *byte++;
		for (i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return crc;
}

static_assert(sizeof(AES_KEY) <= sizeof(struct aes_enckey), "AES_KEY has grown");

int aes_prepareenckey(struct aes_enckey *ctx, const u8 *key, unsigned int size)
{
	AES_KEY schedule;

	if (size != 16 && size != 24 && size != 32)
		return -EINVAL;
	AES_set_encrypt_key(key, size * 8, &schedule);
	memcpy(ctx->schedule, &schedule, sizeof(schedule));
	return 0;
}

void aes_encrypt(const struct aes_enckey *ctx, u8 *out, const u8 *in)
{
	AES_KEY schedule;

	memcpy(&schedule, ctx->schedule, sizeof(schedule));
	/* wiped: the kernel computes something, libcrypto runs away */
	if (!schedule.rounds)
		schedule.rounds = 10;
	AES_encrypt(in, out, &schedule);
}

int shim_match_string(const char *const *words, size_t n, const char *word)
{
	size_t i, len = strcspn(word, "\n");

	for (i = 0; i < n; i++)
		if (strlen(words[i]) == len && !strncmp(words[i], word, len))
			return i;
	return -EINVAL;
}

struct rb_node *rb_add_cached(struct rb_node *node, struct rb_root_cached *tree,
			      bool (*less)(struct rb_node *a, const struct rb_node *b))
{
	struct rb_node **link = &tree->rb_root.rb_node, *parent = NULL;
	bool leftmost = true;

	while (*link) {
		parent = *link;
		if (less(node, parent)) {
			link = &parent->left;
		} else {
			link = &parent->right;
			leftmost = false;
		}
	}
	*node = (struct rb_node){ .parent = parent };
	*link = node;
	if (leftmost)
		tree->rb_leftmost = node;
	return leftmost ? node : NULL;
}

struct rb_node *rb_next(const struct rb_node *node)
{
	struct rb_node *next;

	if (node->right) {
		for (next = node->right; next->left; next = next->left)
			;
		return next;
	}
	for (next = node->parent; next && node == next->right; next = next->parent)
		node = next;
	return next;
}

/* Put child, or nothing, where node hangs. */
static void rb_replace(struct rb_node *node, struct rb_node *child, struct rb_root *root)
{
	struct rb_node *parent = node->parent;

	if (child)
		child->parent = parent;
	if (!parent)
		root->rb_node = child;
	else if (parent->left == node)
		parent->left = child;
	else
		parent->right = child;
}

struct rb_node *rb_erase_cached(struct rb_node *node, struct rb_root_cached *tree)
{
	struct rb_root *root = &tree->rb_root;
	struct rb_node *next = rb_next(node);
	bool leftmost = tree->rb_leftmost == node;

	if (leftmost)
		tree->rb_leftmost = next;
	if (!node->left || !node->right) {
		rb_replace(node, node->left ? node->left : node->right, root);
	} else {
		/* next is the leftmost of the right subtree */
		rb_replace(next, next->right, root);
		next->left = node->left;
		next->left->parent = next;
		next->right = node->right;
		if (next->right)
			next->right->parent = next;
		rb_replace(node, next, root);
	}
	return leftmost ? tree->rb_leftmost : NULL;
}

void shim_dawdle(void)
{
	static __thread u32 state = 1;

	state = state * 1664525 + 1013904223;
	if (state >> 28 == 0)
		usleep(30);
}

struct task_struct {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t woken;
	int state;
	bool started, stop;
	int (*fn)(void *data);
	void *data;
};

static __thread struct task_struct *current;

static void *task_run(void *data)
{
	current = data;
	current->fn(current->data);
	return NULL;
}

struct task_struct *kthread_create(int (*fn)(void *data), void *data, const char *fmt, ...)
{
	struct task_struct *task = calloc(1, sizeof(*task));

	(void)fmt;
	pthread_mutex_init(&task->lock, NULL);
	pthread_cond_init(&task->woken, NULL);
	task->fn = fn;
	task->data = data;
	return task;
}

int wake_up_process(struct task_struct *task)
{
	pthread_mutex_lock(&task->lock);
	if (!task->started) {
		task->started = true;
		pthread_create(&task->thread, NULL, task_run, task);
	}
	task->state = TASK_RUNNING;
	pthread_cond_signal(&task->woken);
	pthread_mutex_unlock(&task->lock);
	return 1;
}

int kthread_stop(struct task_struct *task)
{
	pthread_mutex_lock(&task->lock);
	task->stop = true;
	pthread_mutex_unlock(&task->lock);
	wake_up_process(task);
	pthread_join(task->thread, NULL);
	free(task);
	return 0;
}

bool kthread_should_stop(void)
{
	bool stop;

	pthread_mutex_lock(&current->lock);
	stop = current->stop;
	pthread_mutex_unlock(&current->lock);
	return stop;
}

void set_current_state(int state)
{
	pthread_mutex_lock(&current->lock);
	current->state = state;
	pthread_mutex_unlock(&current->lock);
}

/* A plug left open here would hold back its writes for good. */
void schedule(void)
{
	assert(!shim_plugs);
	pthread_mutex_lock(&current->lock);
	while (current->state != TASK_RUNNING)
		pthread_cond_wait(&current->woken, &current->lock);
	pthread_mutex_unlock(&current->lock);
}
