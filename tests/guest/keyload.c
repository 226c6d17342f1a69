// SPDX-License-Identifier: GPL-2.0
/*
 * Gives a crypt target a key that nothing else in user space ever held, so
 * that all copies in memory that are left are the kernel's.
 *
 *	keyload [secure] create NAME SECTORS "CIPHER" KEYSIZE "REST" NEEDLES AES HOW
 *		makes the device NAME with a fresh random key
 *	keyload [secure] set NAME KEYSIZE NEEDLES AES HOW
 *		sends the message "key set" to NAME, with a fresh random key
 *	keyload hold KEYSIZE NEEDLES AES HOW
 *		holds a key, its hex text and round keys until standard input
 *		ends: a control for the search
 *
 * REST is the table line behind the key.  HOW is hex, or logon:DESCRIPTION: the
 * key then goes to the user keyring first.  AES names the parts of the key that
 * are AES keys: OFFSET:BYTES,.. or -.  With "secure" dm core is asked to wipe
 * its buffers itself (DM_SECURE_DATA_FLAG); without, only the target does.
 *
 * NEEDLES gets what xcrypt_memscan takes: pieces of 16 bytes of the key, of its
 * hex text, and of its AES round keys, XORed with random masks; NEEDLES.names
 * says which is which, a line each: key, hex, enc or dec, and a number.
 *
 * The secrets are in one locked page range, touched by our own loops only: no
 * library function that might leave them in vector registers, which the kernel
 * would save in its own memory.  All of it is overwritten before the end, the
 * stack too.  Exit status: 0, or 1 with the kernel's errno on stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE		16
#define MAX_KEY		2048
#define MAX_SCHEDULE	240
#define USER_KEYRING	(-4)

/* All that is secret. */
static struct secret {
	uint8_t key[MAX_KEY];
	uint8_t round[2][MAX_SCHEDULE];		/* enc, dec */
	char hex[2 * MAX_KEY + 1];
	char request[16384];			/* the ioctl's buffer */
} *secret;

static FILE *needles, *names;

static void wipe(void *at, size_t size)
{
	volatile uint8_t *p = at;

	while (size--)
		*p++ = 0;
}

/* What functions that returned have left below us. */
static __attribute__((noinline)) void wipe_stack(void)
{
	uint8_t room[64 << 10];

	wipe(room, sizeof(room));
	__asm__ volatile("" : : "r"(room) : "memory");
}

static __attribute__((noreturn)) void leave(const char *what, int error)
{
	if (secret)
		wipe(secret, sizeof(*secret));
	wipe_stack();
	if (what)
		fprintf(stderr, "%s: errno %d\n", what, error);
	exit(what ? 1 : 0);
}

/* ---- AES key schedule, FIPS 197, no tables that index with the key ---- */

static uint8_t xtime(uint8_t a)
{
	return (uint8_t)(a << 1) ^ (a & 0x80 ? 0x1b : 0);
}

static uint8_t multiply(uint8_t a, uint8_t b)
{
	uint8_t r = 0;

	for (; b; b >>= 1, a = xtime(a))
		if (b & 1)
			r ^= a;
	return r;
}

/* Inverse as a^254, then the affine map. */
static uint8_t sbox(uint8_t a)
{
	uint8_t r = 1, s;
	int i;

	for (i = 0; i < 7; i++) {
		a = multiply(a, a);
		r = multiply(r, a);
	}
	s = r;
	for (i = 0; i < 4; i++) {
		r = (uint8_t)(r << 1 | r >> 7);
		s ^= r;
	}
	return s ^ 0x63;
}

/* Bytes of the schedule. */
static unsigned int expand(uint8_t *w, const uint8_t *key, unsigned int size)
{
	unsigned int total = 16 * (size / 4 + 7), i, j;
	uint8_t t[4], first, rcon = 1;

	for (i = 0; i < size; i++)
		w[i] = key[i];
	for (; i < total; i += 4) {
		for (j = 0; j < 4; j++)
			t[j] = w[i - 4 + j];
		if (i % size == 0) {
			first = t[0];
			t[0] = sbox(t[1]) ^ rcon;
			t[1] = sbox(t[2]);
			t[2] = sbox(t[3]);
			t[3] = sbox(first);
			rcon = xtime(rcon);
		} else if (size == 32 && i % size == 16) {
			for (j = 0; j < 4; j++)
				t[j] = sbox(t[j]);
		}
		for (j = 0; j < 4; j++)
			w[i + j] = w[i - size + j] ^ t[j];
	}
	return total;
}

/* The columns of the inverse cipher's schedule (its order does not matter). */
static void inverse(uint8_t *d, const uint8_t *w, unsigned int total)
{
	unsigned int i, j;

	for (i = 0; i < total; i += 4)
		for (j = 0; j < 4; j++)
			d[i + j] = multiply(w[i + j], 14) ^
				   multiply(w[i + (j + 1) % 4], 11) ^
				   multiply(w[i + (j + 2) % 4], 13) ^
				   multiply(w[i + (j + 3) % 4], 9);
}

/* ---- needles ---- */

static void needle(const char *kind, unsigned int number, const void *data)
{
	const uint8_t *p = data;
	uint8_t out[2 * PIECE];
	unsigned int i;

	if (getrandom(out, PIECE, 0) != PIECE)
		leave("getrandom", errno);
	for (i = 0; i < PIECE; i++)
		out[PIECE + i] = out[i] ^ p[i];
	if (fwrite(out, sizeof(out), 1, needles) != 1 ||
	    fprintf(names, "%s %u\n", kind, number) < 0)
		leave("needles", errno);
}

static void aes_needles(unsigned int offset, unsigned int size)
{
	unsigned int total, i;

	if (size != 16 && size != 24 && size != 32)
		leave("AES key size", EINVAL);
	total = expand(secret->round[0], secret->key + offset, size);
	inverse(secret->round[1], secret->round[0], total);
	/* the first ones are the key itself */
	for (i = (size + PIECE - 1) / PIECE * PIECE; i < total; i += PIECE)
		needle("enc", offset, secret->round[0] + i);
	/* first and last are not transformed */
	for (i = PIECE; i < total - PIECE; i += PIECE)
		needle("dec", offset, secret->round[1] + i);
}

static void make_key(unsigned int size, const char *path, const char *aes)
{
	static const char digits[] = "0123456789abcdef";
	char name[256];
	unsigned int i, bytes, offset;
	int n;

	if (size < PIECE || size > MAX_KEY)
		leave("key size", EINVAL);
	snprintf(name, sizeof(name), "%s.names", path);
	needles = fopen(path, "w");
	names = fopen(name, "w");
	if (!needles || !names)
		leave(path, errno);
	if (getrandom(secret->key, size, 0) != (ssize_t)size)
		leave("getrandom", errno);
	for (i = 0; i < size; i++) {
		secret->hex[2 * i] = digits[secret->key[i] >> 4];
		secret->hex[2 * i + 1] = digits[secret->key[i] & 15];
	}
	for (i = 0; i + PIECE <= size; i += PIECE)
		needle("key", i, secret->key + i);
	for (i = 0; i + PIECE <= 2 * size; i += PIECE)
		needle("hex", i, secret->hex + i);
	while (sscanf(aes, "%u:%u%n", &offset, &bytes, &n) == 2) {
		if (offset + bytes > size)
			leave("AES part", EINVAL);
		aes_needles(offset, bytes);
		aes += n;
		aes += *aes == ',';
	}
	if (fclose(needles) || fclose(names))
		leave(path, errno);
}

/* ---- device-mapper ---- */

static struct dm_ioctl *request(const char *name, unsigned int flags)
{
	struct dm_ioctl *io = (struct dm_ioctl *)secret->request;

	wipe(secret->request, sizeof(secret->request));
	io->version[0] = DM_VERSION_MAJOR;
	io->data_size = sizeof(secret->request);
	io->data_start = sizeof(*io);
	io->flags = flags;
	snprintf(io->name, sizeof(io->name), "%s", name);
	return io;
}

/* Returns 0 or errno. */
static int control(unsigned long code)
{
	int fd = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	int r = 0;

	if (fd < 0)
		leave("/dev/mapper/control", errno);
	if (ioctl(fd, code, secret->request))
		r = errno;
	close(fd);
	return r;
}

static char *append(char *at, const char *text)
{
	while (*text)
		*at++ = *text++;
	*at = '\0';
	return at;
}

/* The key as the table line or the message says it. */
static char *append_key(char *at, unsigned int size, const char *how)
{
	char number[32];

	if (!strcmp(how, "hex"))
		return append(at, secret->hex);
	if (strncmp(how, "logon:", 6))
		leave("HOW", EINVAL);
	if (syscall(SYS_add_key, "logon", how + 6, secret->key, (size_t)size, USER_KEYRING) < 0)
		leave("add_key", errno);
	snprintf(number, sizeof(number), ":%u:", size);
	return append(append(at, number), how);
}

static void create(unsigned int flags, char **arg)
{
	const unsigned int size = (unsigned int)atoi(arg[3]);
	struct dm_target_spec *spec;
	struct dm_ioctl *io;
	char *at;
	int r;

	make_key(size, arg[5], arg[6]);
	request(arg[0], 0);
	r = control(DM_DEV_CREATE);
	if (r)
		leave("create", r);

	io = request(arg[0], flags);
	io->target_count = 1;
	spec = (struct dm_target_spec *)(io + 1);
	spec->length = strtoull(arg[1], NULL, 10);
	strcpy(spec->target_type, "crypt");
	at = append((char *)(spec + 1), arg[2]);
	at = append_key(append(at, " "), size, arg[7]);
	append(append(at, " "), arg[4]);
	r = control(DM_TABLE_LOAD);
	wipe(secret, sizeof(*secret));
	if (r) {
		request(arg[0], 0);
		control(DM_DEV_REMOVE);
		leave("load", r);
	}
	request(arg[0], 0);
	r = control(DM_DEV_SUSPEND);		/* without the flag: resume */
	leave(r ? "resume" : NULL, r);
}

static void set(unsigned int flags, char **arg)
{
	const unsigned int size = (unsigned int)atoi(arg[1]);
	struct dm_target_msg *msg;
	int r;

	make_key(size, arg[2], arg[3]);
	msg = (struct dm_target_msg *)(request(arg[0], flags) + 1);
	append_key(append(msg->message, "key set "), size, arg[4]);
	r = control(DM_TARGET_MSG);
	leave(r ? "message" : NULL, r);
}

static void hold(char **arg)
{
	char c;

	make_key((unsigned int)atoi(arg[0]), arg[1], arg[2]);
	puts("holding");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	leave(NULL, 0);
}

int main(int argc, char **argv)
{
	unsigned int flags = 0;

	secret = mmap(NULL, sizeof(*secret), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (secret == MAP_FAILED || mlock(secret, sizeof(*secret)))
		return 1;
	argv++, argc--;
	if (argc && !strcmp(*argv, "secure")) {
		flags = DM_SECURE_DATA_FLAG;
		argv++, argc--;
	}
	if (argc == 9 && !strcmp(*argv, "create"))
		create(flags, argv + 1);
	else if (argc == 6 && !strcmp(*argv, "set"))
		set(flags, argv + 1);
	else if (argc == 5 && !strcmp(*argv, "hold"))
		hold(argv + 1);
	fprintf(stderr, "keyload: see the head of keyload.c\n");
	return 2;
}
