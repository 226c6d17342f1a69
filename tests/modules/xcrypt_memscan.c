// SPDX-License-Identifier: GPL-2.0
/*
 * Searches all memory for secrets without holding them: /dev/xcrypt_memscan.
 *
 * write() takes needles, each XCRYPT_NEEDLE bytes of mask and as many of the
 * secret XORed with the mask; they replace the needles before, and all pages
 * of RAM are searched at once.  read() then gives a line for each hit:
 *
 *	NEEDLE PFN OFFSET KIND
 *
 * with the needle's number, and what kind of page that is, for people.  A
 * needle that lies across the end of a page is not seen: callers cut a secret
 * in several.  The secret itself is nowhere put together, on no stack either.
 */
#define pr_fmt(fmt) fmt

#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/memory_hotplug.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#define XCRYPT_NEEDLE	16U
#define MAX_NEEDLES	4096U
#define MAX_TEXT	(256U << 10)

struct needle {
	u8 mask[XCRYPT_NEEDLE];
	u8 masked[XCRYPT_NEEDLE];
};

static DEFINE_MUTEX(scan_lock);
static struct needle *needles;
static unsigned int count;
/* Needles by their first two bytes: the first one's number + 1, then chained. */
static u16 *starts;
static u16 chain[MAX_NEEDLES];
static char *text;
static size_t text_len;

static u16 start_of(const struct needle *n)
{
	return (u8)(n->mask[0] ^ n->masked[0]) | (u16)(u8)(n->mask[1] ^ n->masked[1]) << 8;
}

static bool is_needle(const struct needle *n, const u8 *p)
{
	unsigned int i;

	for (i = 0; i < XCRYPT_NEEDLE; i++)
		if ((p[i] ^ n->mask[i]) != n->masked[i])
			return false;
	return true;
}

static const char *kind_of(struct page *page)
{
	if (PageReserved(page))
		return "reserved";
	if (PageSlab(page))
		return "slab";
	if (PageTable(page))
		return "pagetable";
	if (PageAnon(page))
		return "anon";
	if (PageLRU(page))
		return "pagecache";
	return page_count(page) ? "kernel" : "free";
}

static void found(unsigned int number, struct page *page, unsigned int offset)
{
	if (text_len < MAX_TEXT - 64)
		text_len += scnprintf(text + text_len, 64, "%u %lu %u %s\n", number,
				      page_to_pfn(page), offset, kind_of(page));
}

static void scan_page(struct page *page)
{
	const u8 *p = kmap_local_page(page);
	unsigned int i, n;

	for (i = 0; i <= PAGE_SIZE - XCRYPT_NEEDLE; i++)
		for (n = starts[p[i] | p[i + 1] << 8]; n; n = chain[n - 1])
			if (is_needle(&needles[n - 1], p + i))
				found(n - 1, page, i);
	kunmap_local(p);
}

/* No hole, no device: only what the kernel has a page for and calls RAM. */
static void scan_all(void)
{
	unsigned long pfn, end = 0;
	int nid;

	for_each_online_node(nid)
		end = max(end, node_end_pfn(nid));
	for (pfn = 0; pfn < end; pfn++) {
		struct page *page = pfn_to_online_page(pfn);

		if (page && page_is_ram(pfn))
			scan_page(page);
		if (pfn % 256 == 0)
			cond_resched();
	}
}

static ssize_t memscan_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	const size_t starts_size = BIT(16) * sizeof(*starts);
	ssize_t r = len;
	unsigned int i;
	u16 start;

	if (!len || len % sizeof(*needles) || len > MAX_NEEDLES * sizeof(*needles))
		return -EINVAL;
	mutex_lock(&scan_lock);
	if (copy_from_user(needles, from, len)) {
		r = -EFAULT;
		goto out;
	}
	count = len / sizeof(*needles);
	memset(starts, 0, starts_size);
	for (i = 0; i < count; i++) {
		start = start_of(&needles[i]);
		chain[i] = starts[start];
		starts[start] = i + 1;
	}
	text_len = 0;
	scan_all();
out:
	mutex_unlock(&scan_lock);
	return r;
}

static ssize_t memscan_read(struct file *file, char __user *to, size_t len, loff_t *pos)
{
	ssize_t r;

	mutex_lock(&scan_lock);
	r = simple_read_from_buffer(to, len, pos, text, text_len);
	mutex_unlock(&scan_lock);
	return r;
}

static const struct file_operations memscan_fops = {
	.owner = THIS_MODULE,
	.write = memscan_write,
	.read = memscan_read,
	.llseek = noop_llseek,
};

static struct miscdevice memscan_dev = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "xcrypt_memscan",
	.fops = &memscan_fops,
};

static void memscan_free(void)
{
	vfree(needles);
	vfree(starts);
	vfree(text);
}

static int __init memscan_init(void)
{
	int r = -ENOMEM;

	needles = vzalloc(MAX_NEEDLES * sizeof(*needles));
	starts = vzalloc(BIT(16) * sizeof(*starts));
	text = vzalloc(MAX_TEXT);
	if (needles && starts && text)
		r = misc_register(&memscan_dev);
	if (r)
		memscan_free();
	return r;
}

static void __exit memscan_exit(void)
{
	misc_deregister(&memscan_dev);
	memscan_free();
}

module_init(memscan_init);
module_exit(memscan_exit);

MODULE_DESCRIPTION("test module: searches memory for secrets");
MODULE_LICENSE("GPL");
