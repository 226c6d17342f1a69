/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What iv.c, sort.c and dm-xcrypt.h need of the kernel, for userland.  The
 * compiler reads it before each of them (-include); the kernel headers that
 * they name are empty files that the Makefile makes.
 *
 * Types that are only pointed to or only lie in structs are as small as can
 * be.  Threads are real ones (kthread = pthread, spinlock = mutex), so that
 * sort.c's own thread runs here.
 */
#ifndef SHIM_KERNEL_H
#define SHIM_KERNEL_H

#define DM_XCRYPT_COMPAT_H	/* in place of compat.h */

#include <assert.h>
#include <endian.h>
#include <linux/types.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
typedef u32 __le32;
typedef u64 sector_t;
typedef unsigned int gfp_t;

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))
#define READ_ONCE(x)	__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define min(a, b)	((a) < (b) ? (a) : (b))
#define IS_ERR(p)	((unsigned long)(p) >= -4095UL)
#define PTR_ERR(p)	((long)(p))
#define WARN_ON_ONCE(c)	({ bool __c = (c); assert(!__c); __c; })
#define ____cacheline_aligned_in_smp
#define CRYPTO_MINALIGN_ATTR	__attribute__((aligned(8)))
#define GFP_KERNEL	0
#define SECTOR_SHIFT	9
#define BIO_MAX_VECS	256U

/* numbers */
#define lower_32_bits(n)	((u32)(n))
#define upper_32_bits(n)	((u32)((u64)(n) >> 32))
#define is_power_of_2(n)	((n) != 0 && ((n) & ((n) - 1)) == 0)
#define ilog2(n)		(63 - __builtin_clzll(n))
#define cpu_to_le32		htole32
#define le32_to_cpu		le32toh

static inline void le32_add_cpu(__le32 *var, u32 val)
{
	*var = cpu_to_le32(le32_to_cpu(*var) + val);
}

static inline u32 rol32(u32 x, unsigned int n)
{
	return x << (n & 31) | x >> (-n & 31);
}

#define SHIM_UNALIGNED(bits, order)					\
static inline u##bits get_unaligned_##order##bits(const void *p)	\
{									\
	u##bits x;							\
									\
	memcpy(&x, p, sizeof(x));					\
	return order##bits##toh(x);					\
}									\
static inline void put_unaligned_##order##bits(u##bits x, void *p)	\
{									\
	x = hto##order##bits(x);					\
	memcpy(p, &x, sizeof(x));					\
}
SHIM_UNALIGNED(32, le)
SHIM_UNALIGNED(64, le)
SHIM_UNALIGNED(64, be)

/* memory: shim.c; an allocation fails when shim_alloc_fail counts down to 0 */
extern int shim_alloc_fail;
void *kzalloc(size_t size, gfp_t gfp);
void kfree_sensitive(const void *p);
void memzero_explicit(void *p, size_t size);
void get_random_bytes(void *p, size_t size);

/* log: the last line is kept */
extern char shim_log[512];
#define DMERR(fmt, ...) \
	snprintf(shim_log, sizeof(shim_log), DM_MSG_PREFIX ": " fmt, ##__VA_ARGS__)

extern int fips_enabled;
u32 crc32(u32 crc, const void *p, size_t size);

#define AES_BLOCK_SIZE		16
#define AES_KEYSIZE_128		16
#define AES_KEYSIZE_192		24
#define AES_KEYSIZE_256		32
struct aes_enckey {
	u8 schedule[256];
};
int aes_prepareenckey(struct aes_enckey *ctx, const u8 *key, unsigned int size);
void aes_encrypt(const struct aes_enckey *ctx, u8 *out, const u8 *in);

int shim_match_string(const char *const *words, size_t n, const char *word);
#define __sysfs_match_string	shim_match_string

/* struct members of dm-xcrypt.h that nobody here looks into */
typedef struct { int x; } mempool_t;
typedef struct { int counter; } atomic_t;
typedef struct { s64 counter; } atomic64_t;
typedef u8 blk_status_t;
typedef int status_type_t;
typedef int iterate_devices_callout_fn;
typedef unsigned long *cpumask_var_t;
struct bio;
struct dm_target;
struct page;
struct queue_limits;
struct target_type;
struct bvec_iter { sector_t bi_sector; };
typedef void bio_end_io_t(struct bio *bio);
struct xcrypt_bip { int x; };
struct bio_set { int x; };
struct completion { int x; };
struct mutex { int x; };
struct percpu_counter { s64 x; };
struct scatterlist { int x; };
struct work_struct { int x; };
struct xcrypt_bh { int x; };
struct delayed_work { int x; };
struct wait_queue_head { int x; };
typedef struct wait_queue_head wait_queue_head_t;

static inline s64 atomic64_inc_return(atomic64_t *v)
{
	return __atomic_add_fetch(&v->counter, 1, __ATOMIC_SEQ_CST);
}

/* lists */
struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD(name)	struct list_head name = { &name, &name }

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	head->next = head;
	head->prev = head;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	entry->next = head;
	entry->prev = head->prev;
	head->prev->next = entry;
	head->prev = entry;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	list_add_tail(entry, head->next);
}

static inline void list_del(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	entry->next = NULL;
	entry->prev = NULL;
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add_tail(entry, head);
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline bool list_is_first(const struct list_head *entry, const struct list_head *head)
{
	return head->next == entry;
}

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	while (!list_empty(list))
		list_move_tail(list->next, head);
}

#define list_entry	container_of
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_for_each_entry(pos, head, member)				\
	for (pos = list_entry((head)->next, __typeof__(*pos), member);	\
	     &pos->member != (head);					\
	     pos = list_entry(pos->member.next, __typeof__(*pos), member))
#define list_for_each_entry_safe(pos, n, head, member)			\
	for (pos = list_entry((head)->next, __typeof__(*pos), member),	\
	     n = list_entry(pos->member.next, __typeof__(*pos), member); \
	     &pos->member != (head);					\
	     pos = n, n = list_entry(n->member.next, __typeof__(*n), member))

/* a binary tree, not balanced: shim.c */
struct rb_node {
	struct rb_node *parent, *left, *right;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
	struct rb_node *rb_leftmost;
};

#define RB_ROOT_CACHED		((struct rb_root_cached){ { NULL }, NULL })
#define RB_EMPTY_ROOT(root)	(!(root)->rb_node)
#define rb_entry		container_of
#define rb_first_cached(tree)	((tree)->rb_leftmost)
struct rb_node *rb_add_cached(struct rb_node *node, struct rb_root_cached *tree,
			      bool (*less)(struct rb_node *a, const struct rb_node *b));
struct rb_node *rb_erase_cached(struct rb_node *node, struct rb_root_cached *tree);
struct rb_node *rb_next(const struct rb_node *node);

/* locks and threads: shim.c; sometimes a thread dawdles where others may race */
void shim_dawdle(void);
typedef struct { pthread_mutex_t mutex; } spinlock_t;
#define spin_lock_init(l)		pthread_mutex_init(&(l)->mutex, NULL)
#define spin_lock_irq(l)		pthread_mutex_lock(&(l)->mutex)
#define spin_unlock_irq(l)		(pthread_mutex_unlock(&(l)->mutex), shim_dawdle())
#define spin_lock_irqsave(l, flags)	((flags) = 0, pthread_mutex_lock(&(l)->mutex))
#define spin_unlock_irqrestore(l, flags) ((void)(flags), pthread_mutex_unlock(&(l)->mutex))
#define lockdep_assert_held(l)		((void)(l))

struct task_struct;
#define TASK_RUNNING	0
#define TASK_IDLE	1
struct task_struct *kthread_create(int (*fn)(void *data), void *data, const char *fmt, ...);
int kthread_stop(struct task_struct *task);
bool kthread_should_stop(void);
int wake_up_process(struct task_struct *task);
void set_current_state(int state);
#define __set_current_state	set_current_state
void schedule(void);
#define cond_resched()		((void)0)

struct blk_plug { int x; };
extern __thread int shim_plugs;		/* open ones of this thread */
#define blk_start_plug(p)	((void)(p), (void)shim_plugs++)
#define blk_finish_plug(p)	((void)(p), (void)shim_plugs--)

#endif /* SHIM_KERNEL_H */
