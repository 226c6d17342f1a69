// SPDX-License-Identifier: GPL-2.0
/*
 * One bio through the cipher, sector by sector.
 *
 * A run of sectors uses one block of memory (request, cipher context, IV; see
 * struct xcrypt_dmreq) for as long as the cipher answers at once.  A sector
 * that goes asynchronous keeps its block until its callback; the run goes on
 * with another one from the pool.
 *
 * Reads are decrypted in place, in the pages of the caller.  Writes are
 * encrypted from the caller's pages to those of the clone, whose sectors are
 * contiguous by construction.  A sector of the caller that lies in several
 * pieces is gathered: for a write into the clone, encrypted in place there;
 * for a read into a bounce buffer, and put back piece by piece.
 *
 * A bio that takes a worker long is cut: CPUs that have nothing to do convert
 * pieces of it, each with a convert_context of its own, and whoever finishes the
 * last hands the io on.  The disk still gets one I/O.
 *
 * Context of everything here unless said otherwise: process or softirq; it
 * sleeps only where may_sleep says so.
 */
#include <linux/highmem.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/sched.h>
#include "dm-xcrypt.h"

/* 512-byte sectors between two offers of the CPU to others. */
#define XCRYPT_RESCHED_SECTORS	64
/* Nanoseconds that a piece takes at the least: far more than to hand it on. */
#define XCRYPT_PIECE_NS		(50 * NSEC_PER_USEC)
/* Pieces for each CPU, so that one that comes late leaves some to the others. */
#define XCRYPT_PIECES_PER_CPU	4U

/* The block that lies behind a context. */
static void *embedded_request(struct convert_context *ctx)
{
	return ctx + 1;
}

static struct xcrypt_dmreq *dmreq_of(struct crypt_config *cc, void *req)
{
	return (struct xcrypt_dmreq *)((char *)req + cc->dmreq_start);
}

static void *request_of(struct crypt_config *cc, struct xcrypt_dmreq *dmreq)
{
	return (char *)dmreq - cc->dmreq_start;
}

static struct xcrypt_aad *aad_of(struct crypt_config *cc, void *req)
{
	return (struct xcrypt_aad *)((char *)req + cc->aad_start);
}

/*
 * The cipher wants its IV aligned, and the block may come from places of
 * different alignment: req_size has room to move it.
 */
static u8 *iv_of(struct crypt_config *cc, void *req)
{
	return PTR_ALIGN((u8 *)req + cc->iv_start,
			 crypto_tfm_alg_alignmask(xcrypt_tfm(cc)) + 1);
}

static bool is_write(const struct convert_context *ctx)
{
	return ctx->bio_out != ctx->bio_in;
}

static void put_request(struct convert_context *ctx, void *req)
{
	if (req != embedded_request(ctx))
		mempool_free(req, &ctx->io->cc->req_pool);
}

static void bounce_free(struct crypt_config *cc, struct xcrypt_dmreq *dmreq)
{
	if (dmreq->bounce)
		mempool_free(dmreq->bounce, &cc->bounce_pool);
	dmreq->bounce = NULL;
}

/*
 * Between the pieces of the bio that iter stands on and a buffer of
 * sector_size bytes.
 */
static void copy_pieces(struct crypt_config *cc, struct bio *bio,
			struct bvec_iter iter, u8 *buf, bool to_bio)
{
	unsigned int left = cc->sector_size;

	while (left) {
		struct bio_vec bv = bio_iter_iovec(bio, iter);
		unsigned int len = min(bv.bv_len, left);

		if (to_bio)
			memcpy_to_page(bv.bv_page, bv.bv_offset, buf, len);
		else
			memcpy_from_page(buf, bv.bv_page, bv.bv_offset, len);
		bio_advance_iter_single(bio, &iter, len);
		buf += len;
		left -= len;
	}
}

/*
 * The bytes that the sector is converted to, mapped for the IV's data hooks.
 * Undone by sector_unmap() before anything else is mapped.
 */
static u8 *sector_map(struct xcrypt_dmreq *dmreq)
{
	if (dmreq->bounce)
		return dmreq->bounce;
	return (u8 *)kmap_local_page(sg_page(&dmreq->sg_out)) + dmreq->sg_out.offset;
}

static void sector_unmap(struct xcrypt_dmreq *dmreq, u8 *data)
{
	if (!dmreq->bounce)
		kunmap_local(data);
}

/* The place of an IV that is kept beside the sector. */
static u8 *stored_iv(struct crypt_config *cc, struct xcrypt_dmreq *dmreq)
{
	return xcrypt_metadata_of(dmreq->ctx->io, dmreq->sector) + cc->integrity.tag_size;
}

/* The IV of a sector, made or, for a read, as it was stored.  0 or -errno. */
static int sector_iv(struct crypt_config *cc, struct xcrypt_dmreq *dmreq, u8 *out, bool write)
{
	struct xcrypt_iv *iv = &cc->iv;
	bool stored = iv->ops->stored;
	int r = 0;

	if (unlikely(stored && !write))
		memcpy(out, stored_iv(cc, dmreq), iv->size);
	else if (iv->ops->generate)
		r = iv->ops->generate(iv, out, dmreq->ivs);
	if (unlikely(stored && write))
		memcpy(stored_iv(cc, dmreq), out, iv->size);
	return r;
}

/* IV and data hooks ahead of the cipher.  Returns 0 or -errno. */
static int sector_pre(struct crypt_config *cc, struct xcrypt_dmreq *dmreq, u8 *out, bool write)
{
	struct xcrypt_iv *iv = &cc->iv;
	int (*hook)(struct xcrypt_iv *iv, u8 *out, u64 ivs, u8 *data);
	u8 *data;
	int r;

	memset(out, 0, iv->size);
	if (!iv->ops)
		return 0;
	r = sector_iv(cc, dmreq, out, write);
	hook = write ? iv->ops->write_pre : iv->ops->read_pre;
	if (r || !hook)
		return r;

	data = sector_map(dmreq);
	r = hook(iv, out, dmreq->ivs, data);
	sector_unmap(dmreq, data);
	return r;
}

/*
 * What is left to do once the cipher is done with a sector.  Any context but
 * hard irq.  Returns 0 or -errno.
 */
static int sector_post(struct crypt_config *cc, struct xcrypt_dmreq *dmreq, bool write)
{
	const struct xcrypt_iv_ops *ops = cc->iv.ops;
	int (*hook)(struct xcrypt_iv *iv, u64 ivs, u8 *data) = NULL;
	u8 *data;
	int r = 0;

	if (ops)
		hook = write ? ops->write_post : ops->read_post;
	if (hook) {
		data = sector_map(dmreq);
		r = hook(&cc->iv, dmreq->ivs, data);
		sector_unmap(dmreq, data);
	}
	if (dmreq->bounce && !r)
		copy_pieces(cc, dmreq->ctx->bio_out, dmreq->iter, dmreq->bounce, true);
	return r;
}

/*
 * Must the sector of a write be copied to the clone first?  An IV hook, or a
 * MAC over the plaintext, would not survive that the caller changes it.
 */
static bool copies_write(struct crypt_config *cc)
{
	return cc->aead || (cc->iv.ops && cc->iv.ops->write_pre);
}

/*
 * Point the scatterlists of dmreq at the next sector of a write.  Returns the
 * source: sg_out itself if the sector was copied there first.
 */
static struct scatterlist *write_sector(struct crypt_config *cc, struct xcrypt_dmreq *dmreq)
{
	struct convert_context *ctx = dmreq->ctx;
	struct bio_vec out = bio_iter_iovec(ctx->bio_out, ctx->iter_out);
	struct bio_vec in = bio_iter_iovec(ctx->bio_in, ctx->iter_in);
	u8 *data;

	sg_set_page(&dmreq->sg_out, out.bv_page, cc->sector_size, out.bv_offset);
	if (likely(in.bv_len >= cc->sector_size && !copies_write(cc))) {
		sg_set_page(&dmreq->sg_in, in.bv_page, cc->sector_size, in.bv_offset);
		return &dmreq->sg_in;
	}

	data = sector_map(dmreq);
	copy_pieces(cc, ctx->bio_in, ctx->iter_in, data, false);
	sector_unmap(dmreq, data);
	return &dmreq->sg_out;
}

/*
 * The same for a read, which is always converted in place.  Returns -EAGAIN
 * if it takes a bounce buffer and none is to be had without sleeping.
 */
static int read_sector(struct crypt_config *cc, struct xcrypt_dmreq *dmreq, bool may_sleep)
{
	struct convert_context *ctx = dmreq->ctx;
	struct bio_vec bv = bio_iter_iovec(ctx->bio_in, ctx->iter_in);

	/* the IV's data hooks access words */
	if (likely(bv.bv_len >= cc->sector_size && IS_ALIGNED(bv.bv_offset, sizeof(u64)))) {
		sg_set_page(&dmreq->sg_out, bv.bv_page, cc->sector_size, bv.bv_offset);
		return 0;
	}

	dmreq->bounce = mempool_alloc(&cc->bounce_pool, may_sleep ? GFP_NOIO : XCRYPT_GFP_NOWAIT);
	if (!dmreq->bounce)
		return -EAGAIN;
	dmreq->iter = ctx->iter_in;
	copy_pieces(cc, ctx->bio_in, ctx->iter_in, dmreq->bounce, false);
	sg_set_buf(&dmreq->sg_out, dmreq->bounce, cc->sector_size);
	return 0;
}

/*
 * The last party of the last context hands the io on.  Who is alone finds that
 * without an atomic operation, and sees what the others did before they left.
 */
static void convert_put(struct convert_context *ctx, int count, bool async)
{
	struct dm_crypt_io *io = ctx->io;

	if (!atomic_sub_and_test(count, &ctx->cc_pending))
		return;
	if (ctx != &io->ctx)
		kfree(ctx);
	if (atomic_read_acquire(&io->contexts) == 1 || atomic_dec_and_test(&io->contexts))
		xcrypt_convert_done(io, async);
}

/*
 * The cipher's error at one sector.  A tag that does not fit may be nobody's
 * fault, see read_done(): no word about it here.
 */
static void sector_failed(struct dm_crypt_io *io, sector_t sector, int error)
{
	if (error == -EBADMSG && io->cc->aead && !is_write(&io->ctx)) {
		WRITE_ONCE(io->bad_sector, sector);
		xcrypt_io_fail(io, BLK_STS_PROTECTION);
		return;
	}
	DMERR_LIMIT("cipher failed at sector %llu: error %d", (unsigned long long)sector, error);
	xcrypt_io_fail(io, BLK_STS_IOERR);
}

/*
 * A request that had gone asynchronous comes back.  A backlogged one calls
 * twice: first with -EINPROGRESS, when the cipher has taken it from its
 * backlog and there is room again, then with its result.
 */
static void request_done(void *data, int error)
{
	struct xcrypt_dmreq *dmreq = data;
	struct convert_context *ctx = dmreq->ctx;
	struct dm_crypt_io *io = ctx->io;

	if (error == -EINPROGRESS) {
		complete(&ctx->restart);
		return;
	}

	if (!error)
		error = sector_post(io->cc, dmreq, is_write(ctx));
	if (error)
		sector_failed(io, dmreq->sector, error);
	bounce_free(io->cc, dmreq);
	put_request(ctx, request_of(io->cc, dmreq));
	convert_put(ctx, 1, true);
}

XCRYPT_CRYPTO_DONE(crypto_done, request_done)

static void set_callback(struct crypt_config *cc, void *req, bool may_sleep)
{
	u32 flags = CRYPTO_TFM_REQ_MAY_BACKLOG | (may_sleep ? CRYPTO_TFM_REQ_MAY_SLEEP : 0);

	if (cc->aead)
		aead_request_set_callback(req, flags, crypto_done, dmreq_of(cc, req));
	else
		skcipher_request_set_callback(req, flags, crypto_done, dmreq_of(cc, req));
}

/*
 * A block for the next sector in ctx->req: the embedded one first, then the
 * pool's.  Returns -EAGAIN if none is to be had without sleeping.
 */
static int get_request(struct convert_context *ctx, bool may_sleep)
{
	struct crypt_config *cc = ctx->io->cc;
	struct xcrypt_dmreq *dmreq;

	if (ctx->req)
		return 0;
	if (!ctx->embedded_used) {
		ctx->embedded_used = true;
		ctx->req = embedded_request(ctx);
	} else {
		ctx->req = mempool_alloc(&cc->req_pool, may_sleep ? GFP_NOIO : XCRYPT_GFP_NOWAIT);
		if (!ctx->req)
			return -EAGAIN;
	}

	dmreq = dmreq_of(cc, ctx->req);
	dmreq->ctx = ctx;
	dmreq->bounce = NULL;
	sg_init_table(&dmreq->sg_in, 1);
	sg_init_table(&dmreq->sg_out, 1);
	dmreq->iv = iv_of(cc, ctx->req);
	if (cc->aead)
		aead_request_set_tfm(ctx->req, cc->aead);
	else
		skcipher_request_set_tfm(ctx->req, cc->tfms[0]);
	set_callback(cc, ctx->req, may_sleep);
	return 0;
}

/* The number that the IV of the next sector is made from. */
static u64 iv_number(struct crypt_config *cc, sector_t sector)
{
	u64 ivs = sector + cc->iv_offset;

	return test_bit(XCRYPT_IV_LARGE_SECTORS, &cc->flags) ? ivs >> cc->sector_shift : ivs;
}

/* Encrypt or decrypt from src to sg_out.  Returns what the cipher said. */
static int skcipher_sector(struct crypt_config *cc, struct skcipher_request *req,
			   struct scatterlist *src)
{
	struct xcrypt_dmreq *dmreq = dmreq_of(cc, req);

	if (cc->tfms_count > 1)
		skcipher_request_set_tfm(req, cc->tfms[(dmreq->sector + cc->iv_offset) &
						       (cc->tfms_count - 1)]);
	skcipher_request_set_crypt(req, src, &dmreq->sg_out, cc->sector_size, dmreq->iv);
	return is_write(dmreq->ctx) ? crypto_skcipher_encrypt(req) : crypto_skcipher_decrypt(req);
}

/* The same in place, with the tag and what it covers beside the sector. */
static int aead_sector(struct crypt_config *cc, struct aead_request *req)
{
	struct xcrypt_dmreq *dmreq = dmreq_of(cc, req);
	struct scatterlist *data = &dmreq->sg_out;
	struct xcrypt_aad *aad = aad_of(cc, req);
	unsigned int aad_size = sizeof(aad->sector) + cc->iv.size;
	unsigned int tag_size = cc->integrity.tag_size;

	aad->sector = cpu_to_le64(dmreq->sector);
	memcpy(aad->iv, dmreq->iv, cc->iv.size);
	sg_init_table(aad->sg, ARRAY_SIZE(aad->sg));
	sg_set_buf(&aad->sg[0], &aad->sector, aad_size);
	sg_set_page(&aad->sg[1], sg_page(data), data->length, data->offset);
	sg_set_buf(&aad->sg[2], xcrypt_metadata_of(dmreq->ctx->io, dmreq->sector), tag_size);

	aead_request_set_ad(req, aad_size);
	if (is_write(dmreq->ctx)) {
		aead_request_set_crypt(req, aad->sg, aad->sg, cc->sector_size, dmreq->iv);
		return crypto_aead_encrypt(req);
	}
	aead_request_set_crypt(req, aad->sg, aad->sg, cc->sector_size + tag_size, dmreq->iv);
	return crypto_aead_decrypt(req);
}

/*
 * Start the cipher on the sector that ctx stands on.  Returns what the cipher
 * said: 0 done, -EINPROGRESS or -EBUSY (backlogged) the callback will come
 * and owns the block; -EAGAIN nothing was done, try again where sleeping is
 * allowed; any other error.
 */
static int convert_sector(struct convert_context *ctx, bool may_sleep)
{
	struct crypt_config *cc = ctx->io->cc;
	const bool write = is_write(ctx);
	struct scatterlist *src;
	struct xcrypt_dmreq *dmreq;
	int r;

	r = get_request(ctx, may_sleep);
	if (r)
		return r;
	dmreq = dmreq_of(cc, ctx->req);
	dmreq->sector = ctx->sector;
	dmreq->ivs = iv_number(cc, ctx->sector);
	src = &dmreq->sg_out;
	if (write)
		src = write_sector(cc, dmreq);
	else
		r = read_sector(cc, dmreq, may_sleep);
	if (!r)
		r = sector_pre(cc, dmreq, dmreq->iv, write);
	if (r)
		goto out;

	if (cc->aead)
		r = aead_sector(cc, ctx->req);
	else
		r = skcipher_sector(cc, ctx->req, src);
	if (r == -EINPROGRESS || r == -EBUSY)
		return r;
	if (!r)
		r = sector_post(cc, dmreq, write);
	else if (r == -EAGAIN)
		r = -EIO;	/* the cipher's own word, not ours */
out:
	bounce_free(cc, dmreq);
	return r;
}

static void advance(struct crypt_config *cc, struct convert_context *ctx, unsigned int sectors)
{
	unsigned int bytes = sectors * cc->sector_size;

	bio_advance_iter(ctx->bio_in, &ctx->iter_in, bytes);
	if (is_write(ctx))
		bio_advance_iter(ctx->bio_out, &ctx->iter_out, bytes);
	ctx->sector += bytes >> SECTOR_SHIFT;
}

/*
 * The plain road, of tables whose sectors need nothing but the cipher and an IV
 * made from their number (cc->plain): a span of sectors that lie whole and in a
 * row on both sides needs the request set up once, and per sector no more than
 * the IV and the next place.
 */

/* Sectors in the span that ctx stands on; 0: the next one lies in pieces. */
static unsigned int span_length(struct crypt_config *cc, struct convert_context *ctx)
{
	unsigned int bytes = mp_bvec_iter_len(ctx->bio_in->bi_io_vec, ctx->iter_in);

	if (is_write(ctx))
		bytes = min(bytes, mp_bvec_iter_len(ctx->bio_out->bi_io_vec, ctx->iter_out));
	bytes = min_t(unsigned int, bytes, XCRYPT_RESCHED_SECTORS << SECTOR_SHIFT);
	return bytes >> (SECTOR_SHIFT + cc->sector_shift);
}

static void span_sg(struct crypt_config *cc, struct scatterlist *sg, struct bio *bio,
		    struct bvec_iter iter)
{
	struct bio_vec bv = bio_iter_iovec(bio, iter);

	sg_set_page(sg, bv.bv_page, cc->sector_size, bv.bv_offset);
}

/* The next place of the same size, perhaps on the page behind. */
static void span_sg_next(struct scatterlist *sg)
{
	unsigned int offset = sg->offset + sg->length;

	if (offset < PAGE_SIZE)
		sg->offset = offset;
	else
		sg_set_page(sg, sg_page(sg) + 1, sg->length, offset - PAGE_SIZE);
}

static int span_iv(struct crypt_config *cc, u8 *out, u64 ivs)
{
	struct xcrypt_iv *iv = &cc->iv;

	if (likely(cc->iv_le64)) {
		put_unaligned_le64(ivs, out);
		put_unaligned_le64(0, out + sizeof(u64));
		return 0;
	}
	memset(out, 0, iv->size);
	return iv->ops && iv->ops->generate ? iv->ops->generate(iv, out, ivs) : 0;
}

/* Set ctx->req up for the span that ctx stands on. */
static void span_begin(struct crypt_config *cc, struct convert_context *ctx)
{
	struct xcrypt_dmreq *dmreq = dmreq_of(cc, ctx->req);
	struct scatterlist *src = &dmreq->sg_out;

	if (is_write(ctx)) {
		src = &dmreq->sg_in;
		span_sg(cc, src, ctx->bio_in, ctx->iter_in);
		span_sg(cc, &dmreq->sg_out, ctx->bio_out, ctx->iter_out);
	} else {
		span_sg(cc, &dmreq->sg_out, ctx->bio_in, ctx->iter_in);
	}
	skcipher_request_set_crypt(ctx->req, src, &dmreq->sg_out, cc->sector_size, dmreq->iv);
	dmreq->sector = ctx->sector;
}

/*
 * Convert a span of n sectors, or up to the first that does not come back at
 * once.  ctx then stands on the last one that was tried.  Returns as
 * convert_sector(), about that one.
 */
static int convert_span(struct convert_context *ctx, unsigned int n, bool may_sleep)
{
	struct crypt_config *cc = ctx->io->cc;
	const unsigned int step = cc->sector_size >> SECTOR_SHIFT;
	const bool write = is_write(ctx);
	struct xcrypt_dmreq *dmreq;
	unsigned int i;
	int r;

	r = get_request(ctx, may_sleep);
	if (r)
		return r;
	dmreq = dmreq_of(cc, ctx->req);
	span_begin(cc, ctx);
	for (i = 0; ; i++) {
		r = span_iv(cc, dmreq->iv, iv_number(cc, dmreq->sector));
		if (!r)
			r = write ? crypto_skcipher_encrypt(ctx->req) :
				    crypto_skcipher_decrypt(ctx->req);
		if (r || i + 1 == n)
			break;
		dmreq->sector += step;
		span_sg_next(&dmreq->sg_out);
		if (write)
			span_sg_next(&dmreq->sg_in);
	}
	if (i)
		advance(cc, ctx, i);
	return r == -EAGAIN ? -EIO : r;		/* the cipher's own word, not ours */
}

/* The backlog of the cipher is full: nothing more until it has room again. */
static void wait_restart(struct convert_context *ctx)
{
	wait_for_completion(&ctx->restart);
	reinit_completion(&ctx->restart);
	ctx->backlogged = false;
}

/*
 * All sectors that are left, until an error or until it takes a context that
 * may sleep.  Returns 0, -EAGAIN, or the error.
 */
static int convert_run(struct convert_context *ctx, bool may_sleep)
{
	struct crypt_config *cc = ctx->io->cc;
	sector_t resched = ctx->sector + XCRYPT_RESCHED_SECTORS;
	unsigned int span;
	int r;

	/* the wait comes after the last sector too: restart is part of ctx */
	while (ctx->iter_in.bi_size || ctx->backlogged) {
		if (ctx->backlogged) {
			if (!may_sleep)
				return -EAGAIN;
			wait_restart(ctx);
			continue;
		}
		span = cc->plain ? span_length(cc, ctx) : 0;
		r = span ? convert_span(ctx, span, may_sleep) : convert_sector(ctx, may_sleep);
		if (r == -EINPROGRESS || r == -EBUSY) {
			ctx->req = NULL;
			ctx->issued++;
			ctx->backlogged = r == -EBUSY;
		} else if (r) {
			return r;
		}
		advance(cc, ctx, 1);
		if (may_sleep && ctx->sector >= resched) {
			cond_resched();
			resched = ctx->sector + XCRYPT_RESCHED_SECTORS;
		}
	}
	return 0;
}

/* No request yet.  The rest of ctx is set. */
static void context_reset(struct convert_context *ctx)
{
	ctx->req = NULL;
	ctx->issued = 0;
	ctx->backlogged = false;
	ctx->embedded_used = false;
	init_completion(&ctx->restart);
	atomic_set(&ctx->cc_pending, XCRYPT_CONVERT_BIAS);
}

/**
 * xcrypt_convert_init() - set io up for xcrypt_convert()
 * @io: to be converted; its sector and clone are set
 * @bio_in: what to read
 * @bio_out: what to write: a clone with whole sectors in each page to encrypt,
 *           bio_in itself to decrypt in place
 *
 * Context: any; does not sleep.
 */
void xcrypt_convert_init(struct dm_crypt_io *io, struct bio *bio_in, struct bio *bio_out)
{
	struct convert_context *ctx = &io->ctx;

	ctx->bio_in = bio_in;
	ctx->bio_out = bio_out;
	ctx->iter_in = bio_in->bi_iter;
	ctx->iter_out = bio_out->bi_iter;
	ctx->sector = io->sector;
	context_reset(ctx);
	atomic_set(&io->contexts, 1);
}

/*
 * What the cipher takes is measured now and then, on I/O that comes anyway: the
 * first that a tick of the clock sees.  A conversion that something interrupted
 * says too much, and perhaps a thousand times too much, so what is less than
 * believed counts at once, and what is more makes it an eighth more at the most.
 * Two that measure at once may lose one of both results.
 */
static bool cost_due(struct crypt_config *cc)
{
	const unsigned long now = jiffies;

	if (!time_after(now, READ_ONCE(cc->cost.stamp)))
		return false;
	WRITE_ONCE(cc->cost.stamp, now);
	return true;
}

static void cost_note(struct crypt_config *cc, u64 ns, unsigned int bytes)
{
	u64 new = div_u64(ns << 10, bytes), old = READ_ONCE(cc->cost.ns_per_kib);

	new = clamp_t(u64, new, 1, UINT_MAX >> 1);
	if (old && new > old)
		new = old + DIV_ROUND_UP(min(new - old, old), 8);
	WRITE_ONCE(cc->cost.ns_per_kib, new);
}

/* convert_run(), measured if it is time and the cipher answers at once. */
static int convert_measured(struct convert_context *ctx, bool may_sleep)
{
	unsigned int bytes = ctx->iter_in.bi_size;
	u64 start;
	int r;

	if (likely(!cost_due(ctx->io->cc)) || !bytes)
		return convert_run(ctx, may_sleep);
	start = ktime_get_ns();
	r = convert_run(ctx, may_sleep);
	if (!r && !ctx->issued)
		cost_note(ctx->io->cc, ktime_get_ns() - start, bytes);
	return r;
}

/*
 * ctx will wait for a worker: what it took from the pool others could wait for
 * that are ahead of it.
 */
static void keep_embedded(struct convert_context *ctx)
{
	if (!ctx->req || ctx->req == embedded_request(ctx))
		return;
	put_request(ctx, ctx->req);
	ctx->req = NULL;
}

/**
 * xcrypt_convert() - convert what is left of an io, or of a piece of it
 * @ctx: set up by xcrypt_convert_init(), or a piece
 * @may_sleep: the context allows it
 *
 * Calls xcrypt_convert_done() when every sector of the io is converted or has
 * failed, perhaps from a cipher's callback and perhaps before it returns.  An
 * error is left in io->error.
 *
 * Context: process or softirq; sleeps only if @may_sleep.
 * Return: true if @ctx was handed on and may be gone; false if the caller has
 * to call again from a context that may sleep (only if !@may_sleep).
 */
bool xcrypt_convert(struct convert_context *ctx, bool may_sleep)
{
	struct dm_crypt_io *io = ctx->io;
	int r = -EAGAIN;

	/* a block that was begun where nobody may sleep */
	if (ctx->req)
		set_callback(io->cc, ctx->req, may_sleep);
	if (may_sleep || !io->cc->iv.sleeps)
		r = convert_measured(ctx, may_sleep);
	if (r == -EAGAIN && !may_sleep) {
		keep_embedded(ctx);
		return false;
	}
	if (r)
		sector_failed(io, ctx->sector, r);
	if (ctx->req)
		put_request(ctx, ctx->req);
	convert_put(ctx, XCRYPT_CONVERT_BIAS - ctx->issued, false);
	return true;
}

/*
 * Take the next bytes away from ctx, for somebody else to convert.  Returns NULL
 * if there is no memory for that at once.
 */
static struct convert_context *take_piece(struct convert_context *ctx, unsigned int bytes)
{
	struct crypt_config *cc = ctx->io->cc;
	struct convert_context *piece = kmalloc(sizeof(*piece) + cc->req_size, XCRYPT_GFP_NOWAIT);

	if (!piece)
		return NULL;
	piece->io = ctx->io;
	piece->bio_in = ctx->bio_in;
	piece->bio_out = ctx->bio_out;
	piece->iter_in = ctx->iter_in;
	piece->iter_out = ctx->iter_out;
	piece->iter_in.bi_size = bytes;
	piece->iter_out.bi_size = bytes;
	piece->sector = ctx->sector;
	context_reset(piece);
	advance(cc, ctx, bytes / cc->sector_size);
	atomic_inc(&ctx->io->contexts);
	return piece;
}

/* How many pieces of ctx would be worth to hand on? */
static unsigned int pieces_of(struct convert_context *ctx)
{
	unsigned int kib = ctx->iter_in.bi_size >> 10;

	return div_u64((u64)kib * READ_ONCE(ctx->io->cc->cost.ns_per_kib), XCRYPT_PIECE_NS);
}

/* Cut ctx in n pieces, of which it keeps the last, and offer the others. */
static void share(struct convert_context *ctx, struct xcrypt_lane *lane, unsigned int n,
		  unsigned int helpers)
{
	/* pages and sectors stay whole */
	unsigned int bytes = round_up(ctx->iter_in.bi_size / n, PAGE_SIZE);
	struct convert_context *piece;
	unsigned int offered = 0;
	LIST_HEAD(list);

	while (ctx->iter_in.bi_size > bytes) {
		piece = take_piece(ctx, bytes);
		if (!piece)
			break;
		list_add_tail(&piece->entry, &list);
		offered++;
	}
	if (offered)
		xcrypt_queue_share(lane, &list, min(helpers, offered));
}

/**
 * xcrypt_convert_shared() - xcrypt_convert() in a worker, with the help of others
 * @ctx: of an io; or a piece, which nobody shares
 * @lane: the worker's own
 *
 * Context: process, sleeps.
 */
void xcrypt_convert_shared(struct convert_context *ctx, struct xcrypt_lane *lane)
{
	unsigned int pieces = ctx == &ctx->io->ctx ? pieces_of(ctx) : 1;
	unsigned int helpers = pieces > 1 ? xcrypt_queue_helpers(lane) : 0;

	if (helpers)
		share(ctx, lane, min(pieces, (helpers + 1) * XCRYPT_PIECES_PER_CPU), helpers);
	xcrypt_convert(ctx, true);
}

/* Bytes of a request with what the cipher wants behind it. */
static unsigned int request_size(struct crypt_config *cc)
{
	unsigned int context = 0, i;

	if (cc->aead)
		return sizeof(struct aead_request) + crypto_aead_reqsize(cc->aead);
	for (i = 0; i < cc->tfms_count; i++)
		context = max(context, crypto_skcipher_reqsize(cc->tfms[i]));
	return sizeof(struct skcipher_request) + context;
}

/* Is there nothing to do for a sector but the cipher, with an IV of its number? */
static bool is_plain(struct crypt_config *cc)
{
	const struct xcrypt_iv_ops *ops = cc->iv.ops;

	if (cc->aead || cc->tfms_count > 1)
		return false;
	if (!ops)
		return true;
	return !(ops->stored || ops->write_pre || ops->write_post ||
		 ops->read_pre || ops->read_post);
}

/**
 * xcrypt_convert_layout() - lay out the request blocks, make their pools
 * @cc: with tfms and iv set
 *
 * Sets dmreq_start, iv_start, aad_start, req_size, per_bio_data_size, plain and
 * iv_le64.
 *
 * Context: process, sleeps.
 * Return: 0 or -ENOMEM; the pools are freed by mempool_exit() in dtr.
 */
int xcrypt_convert_layout(struct crypt_config *cc)
{
	unsigned int align = crypto_tfm_alg_alignmask(xcrypt_tfm(cc)) + 1;
	unsigned int end;
	int r;

	cc->cost.stamp = jiffies - 1;
	cc->plain = is_plain(cc);
	cc->iv_le64 = cc->iv.ops && cc->iv.ops->le64 && cc->iv.size == 2 * sizeof(u64);
	cc->dmreq_start = ALIGN(request_size(cc), __alignof__(struct xcrypt_dmreq));
	cc->iv_start = cc->dmreq_start + sizeof(struct xcrypt_dmreq);
	end = cc->iv_start + align - 1 + cc->iv.size;
	if (cc->aead) {
		cc->aad_start = ALIGN(end, __alignof__(struct xcrypt_aad));
		end = cc->aad_start + sizeof(struct xcrypt_aad) + cc->iv.size;
	}
	cc->req_size = ALIGN(end, CRYPTO_MINALIGN);
	static_assert(sizeof(struct dm_crypt_io) == offsetofend(struct dm_crypt_io, ctx));
	cc->per_bio_data_size = ALIGN(sizeof(struct dm_crypt_io) + cc->req_size,
				      CRYPTO_MINALIGN);

	r = mempool_init_kmalloc_pool(&cc->req_pool, XCRYPT_MIN_REQUESTS, cc->req_size);
	if (r)
		return r;
	return mempool_init_kmalloc_pool(&cc->bounce_pool, XCRYPT_MIN_BOUNCES, cc->sector_size);
}
