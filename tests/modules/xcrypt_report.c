// SPDX-License-Identifier: GPL-2.0
/*
 * Does what scripts/vm must notice: the harness is tested with it, since a
 * harness that never saw a warning may be blind.
 *
 *	modprobe xcrypt_report what=warn	a WARN
 *	modprobe xcrypt_report what=bug		a BUG: the guest panics
 *	modprobe xcrypt_report what=hang	sleeps uninterruptibly for 100 s
 *	modprobe xcrypt_report what=leak	logs the birth of an object
 *	modprobe xcrypt_report what=pair	logs a birth and its death
 */
#define pr_fmt(fmt) fmt

#include <linux/delay.h>
#include <linux/module.h>

static char *what = "";
module_param(what, charp, 0);
MODULE_PARM_DESC(what, "warn, bug, hang, leak or pair");

static int __init xcrypt_report_init(void)
{
	if (!strcmp(what, "warn"))
		WARN(1, "asked for\n");
	else if (!strcmp(what, "bug"))
		BUG();
	else if (!strcmp(what, "hang"))
		msleep(100 * 1000);
	else if (!strcmp(what, "leak") || !strcmp(what, "pair"))
		pr_info("dm_xcrypt: object test 1 created\n");
	else
		return -EINVAL;
	if (!strcmp(what, "pair"))
		pr_info("dm_xcrypt: object test 1 destroyed\n");
	return 0;
}

static void __exit xcrypt_report_exit(void)
{
}

module_init(xcrypt_report_init);
module_exit(xcrypt_report_exit);

MODULE_DESCRIPTION("test module: what the guest harness must notice");
MODULE_LICENSE("GPL");
