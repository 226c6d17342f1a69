// SPDX-License-Identifier: GPL-2.0
/*
 * A device-mapper target that notes what comes to it, for what lies above:
 *
 *	<start> <len> probe <device>
 *
 * Everything goes on to the device.  The INFO status has, for each kind of bio
 * with data that arrived, DIRECTION:IOPRIO=COUNT: r or w, and the I/O priority
 * as a number.  The message "clear" forgets them.  (Which cgroup pays shows in
 * its io.stat for this device: what dm core hands to a target names none.)
 */
#define pr_fmt(fmt) fmt

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/module.h>
#include <linux/slab.h>

#define MAX_KINDS	64U

struct probe {
	struct dm_dev *dev;
	spinlock_t lock;	/* of all below */
	unsigned int kinds;
	struct {
		bool write;
		unsigned short ioprio;
		u64 count;
	} kind[MAX_KINDS];
};

static int probe_map(struct dm_target *ti, struct bio *bio)
{
	struct probe *probe = ti->private;
	bool write = op_is_write(bio_op(bio));
	unsigned long flags;
	unsigned int i;

	bio_set_dev(bio, probe->dev->bdev);
	if (!bio_sectors(bio))
		return DM_MAPIO_REMAPPED;
	bio->bi_iter.bi_sector = dm_target_offset(ti, bio->bi_iter.bi_sector);

	spin_lock_irqsave(&probe->lock, flags);
	for (i = 0; i < probe->kinds; i++)
		if (probe->kind[i].write == write &&
		    probe->kind[i].ioprio == bio->bi_ioprio)
			break;
	if (i == probe->kinds && i < MAX_KINDS) {
		probe->kinds++;
		probe->kind[i].write = write;
		probe->kind[i].ioprio = bio->bi_ioprio;
		probe->kind[i].count = 0;
	}
	if (i < MAX_KINDS)
		probe->kind[i].count++;
	spin_unlock_irqrestore(&probe->lock, flags);
	return DM_MAPIO_REMAPPED;
}

static void probe_status(struct dm_target *ti, status_type_t type, unsigned int status_flags,
			 char *result, unsigned int maxlen)
{
	struct probe *probe = ti->private;
	unsigned int sz = 0, i;

	if (type == STATUSTYPE_INFO) {
		spin_lock_irq(&probe->lock);
		for (i = 0; i < probe->kinds; i++)
			DMEMIT("%s%c:%u=%llu", i ? " " : "",
			       probe->kind[i].write ? 'w' : 'r', probe->kind[i].ioprio,
			       probe->kind[i].count);
		spin_unlock_irq(&probe->lock);
	} else if (type == STATUSTYPE_TABLE) {
		DMEMIT("%s", probe->dev->name);
	}
}

static int probe_message(struct dm_target *ti, unsigned int argc, char **argv,
			 char *result, unsigned int maxlen)
{
	struct probe *probe = ti->private;

	if (argc != 1 || strcmp(argv[0], "clear"))
		return -EINVAL;
	spin_lock_irq(&probe->lock);
	probe->kinds = 0;
	spin_unlock_irq(&probe->lock);
	return 0;
}

static int probe_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct probe *probe;
	int r;

	if (argc != 1)
		return -EINVAL;
	probe = kzalloc(sizeof(*probe), GFP_KERNEL);
	if (!probe)
		return -ENOMEM;
	spin_lock_init(&probe->lock);
	r = dm_get_device(ti, argv[0], dm_table_get_mode(ti->table), &probe->dev);
	if (r) {
		kfree(probe);
		return r;
	}
	ti->private = probe;
	ti->num_flush_bios = 1;
	return 0;
}

static void probe_dtr(struct dm_target *ti)
{
	struct probe *probe = ti->private;

	dm_put_device(ti, probe->dev);
	kfree(probe);
}

static struct target_type probe_target = {
	.name = "probe",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = probe_ctr,
	.dtr = probe_dtr,
	.map = probe_map,
	.status = probe_status,
	.message = probe_message,
};

static int __init probe_init(void)
{
	return dm_register_target(&probe_target);
}

static void __exit probe_exit(void)
{
	dm_unregister_target(&probe_target);
}

module_init(probe_init);
module_exit(probe_exit);

MODULE_DESCRIPTION("test module: notes the priority of bios");
MODULE_LICENSE("GPL");
