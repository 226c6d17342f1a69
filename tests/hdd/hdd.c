// SPDX-License-Identifier: GPL-2.0
/*
 * A disk that takes its time: an nbdkit plugin, for the guests.
 *
 *	cc -shared -fPIC -O2 -o hdd.so tests/hdd/hdd.c -lm
 *	nbdkit -t 1 -U hdd.sock ./hdd.so [size=256M] [rate=120M] [head=1] [keep=1]
 *				[report=FILE]
 *	nbd-client -unix hdd.sock /dev/nbd0 -b 512
 *
 * Requests are served one after the other, in the order in which they come; -t is
 * how many of them the disk takes at a time, all others wait in the kernel, where
 * later ones may overtake them.  A request takes the time to get there, if there is a head, and then its bytes
 * at rate:
 *
 *   not where the last one ended	a seek, 0.8 ms + 8 ms * sqrt(distance as a
 *	part of the disk), and half a turn at 7200 rpm, 4.17 ms.  The square root
 *	is what short seeks follow (Ruemmler and Wilkes, An introduction to disk
 *	drive modeling, 1994); with these constants a third of the disk, the mean
 *	distance of random seeks, takes 5.4 ms + 4.2 ms, as data sheets of 7200 rpm
 *	disks have it
 *	up to SKIP bytes further on	what lies between passes under the head
 *
 * rate is in bytes a second; 120M is about that of such a disk.  head=0 is a disk
 * that is only as slow as its rate.  keep=0 forgets what is written, so it takes
 * no memory, and reads zeros.  At the end report has a line:
 *	requests=N seeks=N read=BYTES written=BYTES
 *
 * The clock is CLOCK_MONOTONIC: in a guest with virtual time, that.
 */
#define _GNU_SOURCE
#define NBDKIT_API_VERSION 2
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include <nbdkit-plugin.h>

#define SEEK_LEAST_NS	800000.0
#define SEEK_STROKE_NS	8000000.0
#define HALF_TURN_NS	4166667.0
#define SKIP		(256 << 10)
#define NS_PER_S	1000000000LL

static int64_t size = 256 << 20, rate = 120 << 20;
static int head = 1, keep = 1;
static char *report;
static uint8_t *data;
/* of all below */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* where the head is, bytes, and until when it is busy, ns */
static uint64_t place;
static int64_t busy_until;
static uint64_t requests, seeks, bytes_read, bytes_written;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* ns to get to offset */
static double seek_ns(uint64_t offset)
{
	double distance = offset > place ? offset - place : place - offset;

	if (!head || offset == place)
		return 0;
	if (offset > place && distance <= SKIP)
		return distance / rate * NS_PER_S;
	seeks++;
	return SEEK_LEAST_NS + SEEK_STROKE_NS * sqrt(distance / size) + HALF_TURN_NS;
}

/* Returns when the disk would have done it.  bytes counts what it did. */
static void serve(uint32_t count, uint64_t offset, uint64_t *bytes)
{
	struct timespec t;
	int64_t start;

	pthread_mutex_lock(&lock);
	start = now_ns();
	if (start < busy_until)
		start = busy_until;
	busy_until = start + seek_ns(offset) + (double)count / rate * NS_PER_S;
	place = offset + count;
	requests++;
	*bytes += count;
	t.tv_sec = busy_until / NS_PER_S;
	t.tv_nsec = busy_until % NS_PER_S;
	pthread_mutex_unlock(&lock);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

static int hdd_config(const char *key, const char *value)
{
	int64_t *number = !strcmp(key, "size") ? &size : !strcmp(key, "rate") ? &rate : NULL;
	int *flag = !strcmp(key, "head") ? &head : !strcmp(key, "keep") ? &keep : NULL;

	if (number) {
		*number = nbdkit_parse_size(value);
		return *number > 0 ? 0 : -1;
	}
	if (flag) {
		*flag = nbdkit_parse_bool(value);
		return *flag < 0 ? -1 : 0;
	}
	if (!strcmp(key, "report")) {
		report = nbdkit_absolute_path(value);
		return report ? 0 : -1;
	}
	nbdkit_error("no parameter %s", key);
	return -1;
}

static int hdd_get_ready(void)
{
	if (!keep)
		return 0;
	data = mmap(NULL, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (data == MAP_FAILED) {
		nbdkit_error("no memory for %" PRId64 " bytes", size);
		return -1;
	}
	return 0;
}

static void hdd_unload(void)
{
	FILE *file = report ? fopen(report, "w") : NULL;

	if (file) {
		fprintf(file, "requests=%" PRIu64 " seeks=%" PRIu64 " read=%" PRIu64
			" written=%" PRIu64 "\n", requests, seeks, bytes_read, bytes_written);
		fclose(file);
	}
	free(report);
}

static void *hdd_open(int readonly)
{
	return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t hdd_get_size(void *handle)
{
	return size;
}

static int hdd_pread(void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
	serve(count, offset, &bytes_read);
	if (keep)
		memcpy(buf, data + offset, count);
	else
		memset(buf, 0, count);
	return 0;
}

static int hdd_pwrite(void *handle, const void *buf, uint32_t count, uint64_t offset,
		      uint32_t flags)
{
	serve(count, offset, &bytes_written);
	if (keep)
		memcpy(data + offset, buf, count);
	return 0;
}

/* All that was answered is on the disk. */
static int hdd_flush(void *handle, uint32_t flags)
{
	return 0;
}

static int hdd_is_rotational(void *handle)
{
	return head;
}

static struct nbdkit_plugin plugin = {
	.name = "hdd",
	.longname = "a disk that takes its time",
	.config = hdd_config,
	.get_ready = hdd_get_ready,
	.unload = hdd_unload,
	.open = hdd_open,
	.get_size = hdd_get_size,
	.is_rotational = hdd_is_rotational,
	.pread = hdd_pread,
	.pwrite = hdd_pwrite,
	.flush = hdd_flush,
};

NBDKIT_REGISTER_PLUGIN(plugin)
