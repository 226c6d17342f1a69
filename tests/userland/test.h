/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counting for the userland tests.  A test program prints one line for each
 * check, "ok WHAT" or "not ok WHAT", which t/05-userland turns into TAP, and
 * exits with 1 if one failed.
 */
#ifndef TEST_H
#define TEST_H

#include <stdio.h>

static int test_failed;		/* checks that failed */
static int test_complaints;	/* lines of the current check, see complain() */

/* Say why the current check fails; only the first few times. */
#define complain(fmt, ...)						\
	do {								\
		if (test_complaints++ < 5)				\
			printf("# %s:%d: " fmt "\n", __func__, __LINE__, ##__VA_ARGS__); \
	} while (0)

#define expect(cond, fmt, ...)						\
	do {								\
		if (!(cond))						\
			complain("%s: " fmt, #cond, ##__VA_ARGS__);	\
	} while (0)

/* End of a check: it is good if nothing complained. */
#define checked(fmt, ...)						\
	do {								\
		printf("%s " fmt "\n", test_complaints ? "not ok" : "ok", ##__VA_ARGS__); \
		fflush(stdout);						\
		test_failed += !!test_complaints;			\
		test_complaints = 0;					\
	} while (0)

/* splitmix64: the same numbers everywhere */
static inline unsigned long long test_random(unsigned long long *state)
{
	unsigned long long z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

#endif /* TEST_H */
