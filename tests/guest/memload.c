// SPDX-License-Identifier: GPL-2.0
/*
 * Drives a machine with little memory into its mapped device, and watches that
 * everybody gets on.
 *
 *	memload [OPTION...]		(tables of reloads: standard input)
 *	  -d PATH	device of the writers
 *	  -w N[:MODE]	N writers of 1 MiB at a time: direct (default) or
 *			buffered; may be given twice
 *	  -b N		blocks of 1 MiB that each writer has (default 8)
 *	  -W N		each writer makes at least N writes
 *	  -m MIB	a hog that fills so much memory and walks through it
 *	  -M N		over at least N MiB
 *	  -s NAME	mapped device whose INFO pages= is watched
 *	  -r NAME[:suspend]  reload NAME again and again with the line on
 *			standard input: load and resume; or suspend, load, resume
 *	  -R N		at least N times
 *	  -p PAUSE	milliseconds between reloads (default 200)
 *
 * All of it runs until each has done what it should at least, then what was
 * written is read back and compared: the hog's pages at each turn, so the swap
 * is verified too.  Prints "NAME COUNT" lines and "pages MAX".
 *
 * Who makes no progress for STALL rounds of the watch is stuck: a round sleeps
 * and works for a bit, so on a slow machine the rounds are slow as well.  Then
 * it prints "stall NAME", has the kernel show blocked tasks, and leaves with
 * status 2, with all the others where they are.  Status 1: bad data, or an
 * error that is printed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK		(1u << 20)
#define PAGE		4096u
#define MAX_JOBS	64
#define ROUND_MS	50
#define STALL		2400		/* rounds: two minutes if all is well */

/* What a job shows the watch. */
struct job {
	volatile uint64_t count;	/* steps done, never falls */
	volatile uint64_t goals;	/* of them, what -W -M -R count */
	uint64_t goal;
	char name[32];
	pid_t pid;
	uint64_t last;
	unsigned int still;		/* rounds without progress */
	int done;
};

static struct shared {
	volatile int stop;
	volatile uint64_t rounds;	/* of the watch */
	volatile int hold;		/* ask for no memory */
	unsigned int jobs;
	struct job job[MAX_JOBS];
} *shared;

static const char *device, *sampled, *reloaded;
static unsigned int blocks = 8, pause_ms = 200;
static char line[32768];

static void quit(const char *what)
{
	fprintf(stderr, "memload: %s: %s\n", what, strerror(errno));
	_exit(1);
}

/* Of the one that watches. */
static void end(int status)
{
	puts("end");
	fflush(stdout);
	_exit(status);
}

static void sleep_ms(unsigned int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&t, NULL);
}

/* Each 8 bytes say whose they are, where, and of which time. */
static void fill(uint64_t *p, size_t size, uint64_t who, uint64_t where, uint64_t when)
{
	uint64_t x = who << 48 ^ where << 24 ^ when;
	size_t i;

	for (i = 0; i < size / 8; i++)
		p[i] = (x + i) * 0x9e3779b97f4a7c15ull;
}

static int good(const uint64_t *p, size_t size, uint64_t who, uint64_t where, uint64_t when)
{
	uint64_t x = who << 48 ^ where << 24 ^ when;
	size_t i;

	for (i = 0; i < size / 8; i++)
		if (p[i] != (x + i) * 0x9e3779b97f4a7c15ull)
			return 0;
	return 1;
}

static void bad(struct job *job, uint64_t where, uint64_t when)
{
	printf("bad data: %s, place %llu, time %llu\n", job->name,
	       (unsigned long long)where, (unsigned long long)when);
	fflush(stdout);
	_exit(1);
}

/*
 * A table that is loaded while its device is suspended and swapped on must not
 * wait for memory: the kernel's thread of threads, which every constructor of
 * dm-crypt needs, would write to that swap to get it, and wait for ever.
 */
static void heed_hold(void)
{
	while (shared->hold && !shared->stop)
		sleep_ms(10);
}

static void *memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		quit("mmap");
	return p;
}

static void io(int fd, void *buf, off_t at, int write)
{
	ssize_t n = write ? pwrite(fd, buf, BLOCK, at) : pread(fd, buf, BLOCK, at);

	if (n != BLOCK)
		quit(write ? "write" : "read");
}

static void writer(struct job *job, unsigned int who, int direct)
{
	int fd = open(device, O_RDWR | (direct ? O_DIRECT : 0));
	int check = open(device, O_RDONLY | O_DIRECT);
	off_t base = (off_t)who * blocks * BLOCK;
	uint64_t *buf = memory(BLOCK), when = 0;
	uint64_t last[blocks];
	unsigned int i;

	if (fd < 0 || check < 0)
		quit(device);
	if (mlockall(MCL_CURRENT))
		quit("mlockall");
	memset(last, 0, sizeof(last));
	while (!shared->stop) {
		if (!direct)
			heed_hold();
		i = when++ % blocks;
		fill(buf, BLOCK, who, i, when);
		io(fd, buf, base + (off_t)i * BLOCK, 1);
		last[i] = when;
		job->goals++;
		job->count++;
		if (job->goals > job->goal)
			sleep_ms(200);	/* leave the rest to those behind */
		if (when % 4)
			continue;
		/* an older one: the device has it, or the page cache */
		i = when * 5 / 4 % blocks;
		if (!last[i])
			continue;
		io(fd, buf, base + (off_t)i * BLOCK, 0);
		if (!good(buf, BLOCK, who, i, last[i]))
			bad(job, i, last[i]);
		job->count++;
	}
	if (fsync(fd))
		quit("fsync");
	job->count++;
	for (i = 0; i < blocks; i++) {
		if (!last[i])
			continue;
		io(check, buf, base + (off_t)i * BLOCK, 0);
		if (!good(buf, BLOCK, who, i, last[i]))
			bad(job, i, last[i]);
		job->count++;
	}
	_exit(0);
}

/* From version when to the next.  Returns how many pages got there: all, unless stopped. */
static size_t walk(struct job *job, uint64_t *p, size_t pages, uint64_t when)
{
	size_t i;

	for (i = 0; i < pages && !shared->stop; i++) {
		heed_hold();
		if (!good(p + i * PAGE / 8, PAGE, 99, i, when))
			bad(job, i, when);
		fill(p + i * PAGE / 8, PAGE, 99, i, when + 1);
		job->count++;
		if (i % (BLOCK / PAGE))
			continue;
		job->goals++;
		if (job->goals > job->goal)
			sleep_ms(50);	/* leave memory, too */
	}
	return i;
}

static void hog(struct job *job, size_t mib)
{
	size_t pages = mib * (BLOCK / PAGE), i, done;
	uint64_t *p = memory(pages * PAGE), when = 0;

	for (i = 0; i < pages; i++) {
		heed_hold();
		fill(p + i * PAGE / 8, PAGE, 99, i, 0);
		job->count++;
	}
	while ((done = walk(job, p, pages, when)) == pages)
		when++;
	/* whatever is still swapped out comes back and is compared, too */
	for (i = 0; i < pages; i++) {
		if (!good(p + i * PAGE / 8, PAGE, 99, i, when + (i < done)))
			bad(job, i, when);
		job->count++;
	}
	_exit(0);
}

/* ---- device-mapper ---- */

static struct dm_ioctl *request(void *buf, size_t size, const char *name, unsigned int flags)
{
	struct dm_ioctl *io = buf;

	memset(buf, 0, size);
	io->version[0] = DM_VERSION_MAJOR;
	io->data_size = size;
	io->data_start = sizeof(*io);
	io->flags = flags;
	snprintf(io->name, sizeof(io->name), "%s", name);
	return io;
}

static void load(int fd, char *buf, size_t size, const char *name)
{
	struct dm_ioctl *io = request(buf, size, name, 0);
	struct dm_target_spec *spec = (struct dm_target_spec *)(io + 1);
	unsigned long long start, length;
	int n;

	if (sscanf(line, "%llu %llu %15s %n", &start, &length, spec->target_type, &n) != 3)
		quit("table line");
	io->target_count = 1;
	spec->sector_start = start;
	spec->length = length;
	strcpy((char *)(spec + 1), line + n);
	if (ioctl(fd, DM_TABLE_LOAD, buf))
		quit("DM_TABLE_LOAD");
}

static void reloader(struct job *job, int suspend)
{
	int fd = open("/dev/mapper/control", O_RDWR);
	const size_t size = 65536;
	char *buf = memory(size);

	if (fd < 0)
		quit("/dev/mapper/control");
	/* what we need must not be on the swap that we suspend */
	if (mlockall(MCL_CURRENT))
		quit("mlockall");
	while (!shared->stop) {
		if (suspend) {
			shared->hold = 1;
			sleep_ms(500);
			request(buf, size, reloaded, DM_SUSPEND_FLAG | DM_SKIP_LOCKFS_FLAG);
			if (ioctl(fd, DM_DEV_SUSPEND, buf))
				quit("suspend");
			job->count++;
		}
		load(fd, buf, size, reloaded);
		job->count++;
		request(buf, size, reloaded, DM_SKIP_LOCKFS_FLAG);
		if (ioctl(fd, DM_DEV_SUSPEND, buf))
			quit("resume");
		shared->hold = 0;
		job->goals++;
		job->count++;
		sleep_ms(pause_ms);
	}
	_exit(0);
}

/* pages= of the INFO status, or -1. */
static long pages_now(int fd)
{
	static char buf[4096];
	const char *found;

	request(buf, sizeof(buf), sampled, 0);
	if (ioctl(fd, DM_TABLE_STATUS, buf))
		return -1;
	found = strstr(buf + ((struct dm_ioctl *)buf)->data_start +
		       sizeof(struct dm_target_spec), " pages=");
	return found ? atol(found + 7) : -1;
}

/* ---- the watch ---- */

/* Returns the job in its child, NULL in the parent. */
static struct job *new_job(const char *name, unsigned int number, uint64_t goal)
{
	struct job *job = &shared->job[shared->jobs++];
	pid_t pid;

	snprintf(job->name, sizeof(job->name), "%s%u", name, number);
	job->goal = goal;
	pid = fork();
	if (pid < 0)
		quit("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return job;
	}
	/* by the parent alone: the memory is shared */
	job->pid = pid;
	return NULL;
}

static void stalled(struct job *job)
{
	char path[64], text[4096];
	int fd, n;

	printf("stall %s after %llu steps\n", job->name, (unsigned long long)job->count);
	snprintf(path, sizeof(path), "/proc/%d/stack", job->pid);
	fd = open(path, O_RDONLY);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (n > 0)
		printf("%.*s", n, text);
	fd = open("/proc/sysrq-trigger", O_WRONLY);
	if (fd >= 0 && write(fd, "w", 1) < 0)
		perror("sysrq");
	end(2);
}

/* One round over all jobs.  Returns how many have not reached their goal. */
static unsigned int look(void)
{
	unsigned int i, missing = 0;

	for (i = 0; i < shared->jobs; i++) {
		struct job *job = &shared->job[i];
		int status;

		if (job->done)
			continue;
		if (waitpid(job->pid, &status, WNOHANG) == job->pid) {
			if (status || !shared->stop) {
				printf("%s ended with status %#x\n", job->name, status);
				end(1);
			}
			job->done = 1;
			continue;
		}
		missing += shared->stop || job->goals < job->goal;
		job->still = job->count == job->last ? job->still + 1 : 0;
		job->last = job->count;
		if (job->still > STALL)
			stalled(job);
	}
	return missing;
}

/*
 * Whoever watches may be stuck himself.  This one asks nothing of anybody: it
 * has its memory, its CPU and its file already.
 */
static void watch_the_watch(void)
{
	struct sched_param fifo = { .sched_priority = 1 };
	int fd = open("/proc/sysrq-trigger", O_WRONLY);
	uint64_t last = 0;
	unsigned int still = 0;

	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd < 0 || mlockall(MCL_CURRENT) || sched_setscheduler(0, SCHED_FIFO, &fifo))
		quit("watch");
	for (;; sleep_ms(1000)) {
		still = shared->rounds == last ? still + 1 : 0;
		last = shared->rounds;
		if (still == 60 && (write(fd, "m", 1) < 0 || write(fd, "w", 1) < 0 ||
				    write(fd, "l", 1) < 0 || write(fd, "t", 1) < 0))
			quit("sysrq");
		/* nobody can say any more that it failed */
		if (still == 150 && write(fd, "b", 1) < 0)
			quit("sysrq");
	}
}

static void watch(void)
{
	int control = open("/dev/mapper/control", O_RDWR);
	long pages, most = -1;
	unsigned int round = 0, i;

	do {
		sleep_ms(ROUND_MS);
		if (sampled) {
			pages = pages_now(control);
			most = pages > most ? pages : most;
		}
		shared->rounds++;
		if (++round % 400 == 0) {
			printf("#");
			for (i = 0; i < shared->jobs; i++)
				printf(" %s %llu", shared->job[i].name,
				       (unsigned long long)shared->job[i].count);
			printf("\n");
			fflush(stdout);
		}
	} while (look());
	shared->stop = 1;
	while (look()) {
		shared->rounds++;
		sleep_ms(ROUND_MS);
	}
	for (i = 0; i < shared->jobs; i++)
		printf("%s %llu\n", shared->job[i].name,
		       (unsigned long long)shared->job[i].goals);
	if (sampled)
		printf("pages %ld\n", most);
}

int main(int argc, char **argv)
{
	unsigned long writers = 0, directs = 0, writes = 0, mib = 0, walks = 0, reloads = 0, n, i;
	int option, suspend = 0;
	struct job *job;
	char *mode;
	size_t got;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((option = getopt(argc, argv, "d:w:b:W:m:M:s:r:R:p:")) != -1) {
		switch (option) {
		case 'd': device = optarg; break;
		case 'w':
			n = strtoul(optarg, &mode, 10);
			writers += n;
			if (strcmp(mode, ":buffered"))
				directs += n;
			break;
		case 'b': blocks = atoi(optarg); break;
		case 'W': writes = strtoul(optarg, NULL, 10); break;
		case 'm': mib = strtoul(optarg, NULL, 10); break;
		case 'M': walks = strtoul(optarg, NULL, 10); break;
		case 's': sampled = optarg; break;
		case 'r':
			reloaded = strsep(&optarg, ":");
			suspend = optarg && !strcmp(optarg, "suspend");
			break;
		case 'R': reloads = strtoul(optarg, NULL, 10); break;
		case 'p': pause_ms = atoi(optarg); break;
		default: return 1;
		}
	}
	if (writers + 2 > MAX_JOBS || !blocks)
		return 1;
	if (reloaded) {
		got = fread(line, 1, sizeof(line) - 1, stdin);
		line[got] = '\0';
		line[strcspn(line, "\n")] = '\0';
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || mlockall(MCL_CURRENT | MCL_FUTURE))
		quit("memory");

	watch_the_watch();
	for (i = 0; i < writers; i++) {
		job = new_job(i < directs ? "direct" : "buffered", i, writes);
		if (job)
			writer(job, i, i < directs);
	}
	job = mib ? new_job("hog", 0, walks) : NULL;
	if (job)
		hog(job, mib);
	job = reloaded ? new_job("reload", 0, reloads) : NULL;
	if (job)
		reloader(job, suspend);
	watch();
	end(0);
}
