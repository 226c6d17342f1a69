/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What scripts/gen-iv-testvecs.py writes its vectors in, for the unit tests in
 * the kernel and in userland.  Whoever includes it has dm-xcrypt.h.
 */
#ifndef IV_CASE_H
#define IV_CASE_H

/* What table.c would fill in, and what ctr has to answer. */
struct geometry {
	const char *name;
	unsigned int n, block, sector, key_size, key_count;
	unsigned int key_parts, key_extra;
	const char *evp;		/* libcrypto's name of the cipher, "" */
	const u8 *key;
};

enum hook { WRITE_PRE, WRITE_POST, READ_PRE, READ_POST, HOOKS };

struct vector {
	unsigned int geometry;
	u64 ivs;
	u64 seed;			/* of the sector's bytes */
	const u8 *write_iv, *read_iv;
	const u8 *sector[HOOKS];	/* SHA-256 after the hook, NULL if equal */
};

#include "iv-vectors.h"

/* As table.c does it, up to ctr; geo->name must be one that there is. */
static inline int iv_ctr(struct xcrypt_iv *iv, const struct geometry *geo, char **error)
{
	*iv = (struct xcrypt_iv) {
		.ops = xcrypt_iv_find(geo->name),
		.size = geo->n,
		.block_size = geo->block,
		.sector_size = geo->sector,
		.key_size = geo->key_size,
		.key_count = geo->key_count,
	};
	return xcrypt_iv_ctr(iv, error);
}

static inline int iv_post(struct xcrypt_iv *iv, u64 ivs, u8 *data, bool write)
{
	int (*post)(struct xcrypt_iv *iv, u64 ivs, u8 *data) =
		write ? iv->ops->write_post : iv->ops->read_post;

	return post ? post(iv, ivs, data) : 0;
}

#endif
