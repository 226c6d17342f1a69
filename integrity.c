// SPDX-License-Identifier: GPL-2.0
/*
 * What some tables keep beside each sector: the tag of a cipher that
 * authenticates (AEAD), and the IV if that is random.  The device below has a
 * place for it, and it travels with the clone as integrity metadata:
 *
 *	| tag, tag_size bytes | IV, iv_size bytes | zeros up to stride |
 *
 * for each sector, in the order of the sectors.  convert.c fills and reads it.
 *
 * Progress under memory pressure: an io has its metadata before it asks for
 * a clone or pages, so that whoever waits for metadata holds nothing else, and
 * those that hold some need no more of it to come to their end.  Nor do they
 * stand in a queue behind those who wait: an io that a worker has to take up
 * gives its metadata back before, and gets it again there.
 */
#include <linux/blkdev.h>
#include <linux/slab.h>
#include <linux/sched/mm.h>
#include "dm-xcrypt.h"

static int refuse(struct dm_target *ti, char *error)
{
	ti->error = error;
	return -EINVAL;
}

#define INTEGRITY_ERR(ti, fmt, ...) \
	DMERR("%s: " fmt, dm_table_device_name((ti)->table), ##__VA_ARGS__)

/* Sizes that the option, the IV generator and the device must agree on. */
static int check_sizes(struct dm_target *ti, unsigned int interval)
{
	struct crypt_config *cc = ti->private;
	struct xcrypt_integrity *in = &cc->integrity;
	unsigned int block = bdev_logical_block_size(cc->dev->bdev);

	if (in->option > in->stride) {
		INTEGRITY_ERR(ti, "integrity:%u, the device keeps %u bytes for a sector",
			      in->option, in->stride);
		return refuse(ti, "Integrity profile tag size mismatch.");
	}
	if (interval != cc->sector_size) {
		INTEGRITY_ERR(ti, "the device keeps metadata for each %u bytes, sector_size is %u",
			      interval, cc->sector_size);
		return refuse(ti, "Integrity profile sector size mismatch.");
	}
	if (in->iv_size > in->stride) {
		INTEGRITY_ERR(ti, "an IV of %u bytes, the device keeps %u for a sector",
			      in->iv_size, in->stride);
		return refuse(ti, "Not enough space for integrity tag in the profile.");
	}
	/* no bio is shorter than a block, which may be many sectors */
	if (block > xcrypt_max_clone_size(cc)) {
		INTEGRITY_ERR(ti, "a block of %u bytes has over %u bytes of metadata, %u a sector",
			      block, XCRYPT_MAX_METADATA, in->stride);
		return refuse(ti, "Integrity profile sector size mismatch.");
	}
	return 0;
}

/* What is left of the option beside a stored IV is the tag. */
static int set_tag_size(struct dm_target *ti)
{
	struct crypt_config *cc = ti->private;
	struct xcrypt_integrity *in = &cc->integrity;
	int r = -EINVAL;

	if (!cc->aead)
		return 0;
	if (in->option > in->iv_size) {
		in->tag_size = in->option - in->iv_size;
		r = crypto_aead_setauthsize(cc->aead, in->tag_size);
	}
	if (!r)
		return 0;
	INTEGRITY_ERR(ti, "no tag of %d bytes (integrity:%u, stored IV %u; %s: up to %u): %d",
		      (int)in->option - (int)in->iv_size, in->option, in->iv_size,
		      cc->cipher_api, crypto_aead_maxauthsize(cc->aead), r);
	ti->error = "Integrity AEAD auth tag size is not supported.";
	return r;
}

/**
 * xcrypt_integrity_ctr() - match the table with what the device can keep
 * @ti: its crypt_config has the options, the cipher, the IV and the device
 *
 * Does nothing for a table that stores neither tags nor IVs, an option
 * integrity:N:none in it is only printed back.
 *
 * Context: process, sleeps.
 * Return: 0; -EINVAL or the cipher's -errno with ti->error set and a line in
 * the log; -ENOMEM.  xcrypt_integrity_dtr() undoes it in every case.
 */
int xcrypt_integrity_ctr(struct dm_target *ti)
{
	struct crypt_config *cc = ti->private;
	struct xcrypt_integrity *in = &cc->integrity;
	struct blk_integrity *bi;
	int r;

	if (cc->iv.ops && cc->iv.ops->stored)
		in->iv_size = cc->iv.size;
	if (!cc->aead && !in->iv_size)
		return 0;

	bi = bdev_get_integrity(cc->dev->bdev);
	if (!bi || !blk_integrity_is_opaque(bi)) {
		INTEGRITY_ERR(ti, "device %s keeps no metadata that is free for tags and IVs%s",
			      cc->dev->name, bi ? ", it has a format of its own" : "");
		return refuse(ti, "Integrity profile not supported.");
	}
	in->stride = blk_integrity_metadata_size(bi);
	r = check_sizes(ti, 1 << bi->interval_exp);
	if (!r)
		r = set_tag_size(ti);
	if (r)
		return r;

	DMDEBUG("%s: %u bytes of metadata a sector: tag %u, IV %u",
		dm_table_device_name(ti->table), in->stride, in->tag_size, in->iv_size);
	r = mempool_init_kmalloc_pool(&in->pool, XCRYPT_MIN_METADATA, XCRYPT_MAX_METADATA);
	if (!r)
		r = xcrypt_bip_pool_init(&cc->bs, XCRYPT_MIN_BIOS);
	if (r)
		ti->error = "Cannot allocate integrity tags mempool";
	return r;
}

/**
 * xcrypt_integrity_dtr() - undo xcrypt_integrity_ctr(), whole, failed or never called
 * @cc: no bio is inside
 *
 * Context: process, sleeps.
 */
void xcrypt_integrity_dtr(struct crypt_config *cc)
{
	mempool_exit(&cc->integrity.pool);
	kfree(cc->integrity.type);
	cc->integrity.type = NULL;
}

/**
 * xcrypt_max_clone_size() - what one clone with pages can take
 * @cc: after xcrypt_integrity_ctr()
 *
 * Context: any.
 * Return: bytes, whole sectors: as many as its pages hold and its metadata
 * describes
 */
unsigned int xcrypt_max_clone_size(struct crypt_config *cc)
{
	unsigned int stride = cc->integrity.stride;
	unsigned int max = BIO_MAX_VECS << PAGE_SHIFT;

	if (!stride)
		return max;
	return min(max, XCRYPT_MAX_METADATA / stride * cc->sector_size);
}

static unsigned int metadata_size(struct dm_crypt_io *io)
{
	struct crypt_config *cc = io->cc;

	return (bio_sectors(io->base_bio) >> cc->sector_shift) * cc->integrity.stride;
}

/**
 * xcrypt_metadata_alloc() - room for the metadata of an io
 * @io: of at most XCRYPT_MAX_METADATA bytes of it
 * @may_wait: sleep until there is memory; never under current->bio_list
 *
 * It is zero, so that what the cipher does not fill does not carry the
 * kernel's memory to the disk.  Given back by xcrypt_metadata_free(); a second
 * call leaves the io with what it has.
 *
 * Context: process if @may_wait, else any but hard irq.
 * Return: true if io has it, or needs none; false only if !@may_wait.
 */
bool xcrypt_metadata_alloc(struct dm_crypt_io *io, bool may_wait)
{
	struct xcrypt_integrity *in = &io->cc->integrity;
	struct xcrypt_metadata *meta = &io->meta;

	if (likely(!in->stride) || meta->bytes)
		return true;

	meta->bytes = kzalloc(metadata_size(io), XCRYPT_GFP_NOWAIT | __GFP_NORETRY);
	if (meta->bytes)
		return true;
	meta->bytes = mempool_alloc(&in->pool, may_wait ? GFP_NOIO : XCRYPT_GFP_NOWAIT);
	if (!meta->bytes)
		return false;
	meta->reserved = true;
	memset(meta->bytes, 0, metadata_size(io));
	return true;
}

/**
 * xcrypt_metadata_free() - undo xcrypt_metadata_alloc(), if it was called
 * @io: no clone carries it any more
 *
 * Context: any.
 */
void xcrypt_metadata_free(struct dm_crypt_io *io)
{
	struct xcrypt_metadata *meta = &io->meta;

	if (likely(!meta->bytes))
		return;
	if (meta->reserved)
		mempool_free(meta->bytes, &io->cc->integrity.pool);
	else
		kfree(meta->bytes);
	meta->bytes = NULL;
	meta->reserved = false;
}

/**
 * xcrypt_metadata_of() - the metadata of one sector
 * @io: has metadata
 * @sector: one of its sectors, relative to the target, in units of 512 bytes
 *
 * Context: any.
 * Return: stride bytes, aligned to nothing
 */
u8 *xcrypt_metadata_of(struct dm_crypt_io *io, sector_t sector)
{
	struct crypt_config *cc = io->cc;

	return io->meta.bytes + ((sector - io->sector) >> cc->sector_shift) * cc->integrity.stride;
}

/**
 * xcrypt_metadata_attach() - let a clone carry the metadata of its io
 * @io: with metadata, or without, then nothing is done
 * @clone: of all sectors of io, from its bio_set
 * @gfp: sleeps if it says so
 *
 * Context: as @gfp says.
 * Return: false if there is no memory, only if @gfp does not wait
 */
bool xcrypt_metadata_attach(struct dm_crypt_io *io, struct bio *clone, gfp_t gfp)
{
	struct xcrypt_metadata *meta = &io->meta;
	struct bio_integrity_payload *bip;
	unsigned int size;

	if (likely(!meta->bytes))
		return true;
	bip = xcrypt_bip_attach(clone, &meta->bip, gfp);
	if (!bip)
		return false;
	size = metadata_size(io);
	bvec_set_page(bip->bip_vec, virt_to_page(meta->bytes), size, offset_in_page(meta->bytes));
	bip->bip_vcnt = 1;
	bip->bip_iter.bi_size = size;
	bip_set_seed(bip, io->cc->start + io->sector);
	return true;
}

/**
 * xcrypt_metadata_detach() - undo xcrypt_metadata_attach(), done or not
 * @clone: completed, or never submitted; to be freed
 *
 * Context: any.
 */
void xcrypt_metadata_detach(struct bio *clone)
{
	xcrypt_bip_detach(clone);
}

/**
 * xcrypt_integrity_report() - say that a sector is not what was written
 * @io: a read; its bad_sector did not fit its tag, twice
 *
 * One line in the log, limited in rate, and an audit record, whose buffer is
 * allocated with GFP_KERNEL.
 *
 * Context: process, sleeps.
 */
void xcrypt_integrity_report(struct dm_crypt_io *io)
{
	sector_t sector = READ_ONCE(io->bad_sector);
	unsigned int noio = memalloc_noio_save();

	atomic64_inc(&io->cc->integrity.tag_errors);
	DMERR_LIMIT("%pg: INTEGRITY AEAD ERROR, sector %llu", io->base_bio->bi_bdev,
		    (unsigned long long)sector);
	dm_audit_log_integrity(XCRYPT_AUDIT_NAME, io->base_bio, sector);
	memalloc_noio_restore(noio);
}
