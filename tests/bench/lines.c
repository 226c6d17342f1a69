// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU's TCG: which cache lines of the kernel do both CPUs touch?
 *
 *	scripts/vm --smp 2 --plugin build/bench/lines.so,out=FILE -- ...
 *
 * Counts from a program's `nopl 0x31544358(%rax,%rax)` on, up to its
 * `nopl 0x30544358(%rax,%rax)`.  Then FILE gets a line "phase", and one for each
 * instruction and cache line (64 bytes) that both CPUs touched and one of them
 * wrote to:
 *
 *	LINE PC LOADS0 STORES0 LOADS1 STORES1
 *
 * addresses in hex, counts of CPU 0 and CPU 1.  Only addresses of the kernel
 * count, and of an access that lies in two lines the first.  A locked
 * instruction is a load and a store.
 *
 * CPUs run in turn, in one thread, or this would need locks.
 *
 * The declarations are those of API version 1, of QEMU 6.2 to 9.0: no package of
 * Debian has the header.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };

typedef void (*tb_fn)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*exec_fn)(unsigned int cpu, void *data);
typedef void (*mem_fn)(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_fn fn);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, exec_fn fn,
					    enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_fn fn,
				      enum qemu_plugin_cb_flags flags,
				      enum qemu_plugin_mem_rw rw, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

#define LINE_SHIFT	6
#define SLOTS		(1U << 21)

/* What one instruction did to one line; pc 0: all that was done to it. */
struct use {
	uint64_t line, pc;
	uint32_t count[2][2];		/* [cpu][store] */
};

static struct use *uses;
static unsigned int used;
static bool counting;
static FILE *out;

static struct use *find(uint64_t line, uint64_t pc)
{
	uint64_t hash = (line * 0x9e3779b97f4a7c15ULL) ^ (pc * 0xc2b2ae3d27d4eb4fULL);
	unsigned int slot = (hash >> 32) % SLOTS;

	while (uses[slot].line) {
		if (uses[slot].line == line && uses[slot].pc == pc)
			return &uses[slot];
		slot = (slot + 1) % SLOTS;
	}
	if (++used > SLOTS / 2) {
		fprintf(stderr, "lines: more than %u lines and instructions\n", SLOTS / 2);
		exit(1);
	}
	uses[slot].line = line;
	uses[slot].pc = pc;
	return &uses[slot];
}

static void access_cb(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *pc)
{
	bool store = qemu_plugin_mem_is_store(info);
	uint64_t line = vaddr >> LINE_SHIFT;

	if (!counting || !(vaddr >> 63) || cpu > 1)
		return;
	find(line, (uintptr_t)pc)->count[cpu][store]++;
	find(line, 0)->count[cpu][store]++;
}

static bool shared(const struct use *all)
{
	return all->count[0][0] + all->count[0][1] && all->count[1][0] + all->count[1][1] &&
	       all->count[0][1] + all->count[1][1];
}

static void start_cb(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	memset(uses, 0, SLOTS * sizeof(*uses));
	used = 0;
	counting = true;
}

static void stop_cb(unsigned int cpu, void *data)
{
	unsigned int i;

	(void)cpu;
	(void)data;
	counting = false;
	fprintf(out, "phase\n");
	for (i = 0; i < SLOTS; i++) {
		struct use *use = &uses[i];

		if (use->pc && shared(find(use->line, 0)))
			fprintf(out, "%llx %llx %u %u %u %u\n",
				(unsigned long long)use->line << LINE_SHIFT,
				(unsigned long long)use->pc, use->count[0][0],
				use->count[0][1], use->count[1][0], use->count[1][1]);
	}
	fflush(out);
}

/* nopl 0x315443xx(%rax,%rax) */
static bool is_marker(const struct qemu_plugin_insn *insn, char last)
{
	const unsigned char bytes[8] = { 0x0f, 0x1f, 0x84, 0x00, 'X', 'C', 'T', last };

	return qemu_plugin_insn_size(insn) == sizeof(bytes) &&
	       !memcmp(qemu_plugin_insn_data(insn), bytes, sizeof(bytes));
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb), i;

	(void)id;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (is_marker(insn, '1'))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, start_cb,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
		if (is_marker(insn, '0'))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, stop_cb,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
		qemu_plugin_register_vcpu_mem_cb(insn, access_cb, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW,
						 (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn));
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "lines: wants out=FILE\n");
		return 1;
	}
	out = fopen(argv[0] + 4, "w");
	uses = calloc(SLOTS, sizeof(*uses));
	if (!out || !uses) {
		perror(argv[0]);
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
