#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# usage: compat-probe.sh OUT.h CC FLAGS...
#
# Writes OUT.h with one XCRYPT_HAVE_<FACT> per small program that compiles
# with CC FLAGS, and the compiler's first complaint as a comment per program
# that does not.  Called by Kbuild.  Exit 1 if not even the empty program
# compiles: then no answer can be trusted.
set -u
export LC_ALL=C

out=$1
shift
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# probe FACT: the program comes on standard input
probe() {
	{ echo '#include <linux/module.h>'; cat; } > "$dir/probe.c"
	if "$@" 2> "$dir/err"; then
		echo "#define XCRYPT_HAVE_$fact 1"
		return 0
	fi
	echo "/* no $fact: $(grep -m1 error "$dir/err" | sed 's/.*error: //; s,\*/,* /,g') */"
	return 1
}

compile() {
	"$@" -Werror=incompatible-pointer-types -Werror=implicit-function-declaration \
		-Wno-unused -c -o "$dir/probe.o" "$dir/probe.c"
}

{
echo "/* made by scripts/compat-probe.sh from the headers of this kernel */"

fact=SANITY
probe compile "$@" <<'END' || cat "$dir/err" >&2
int xcrypt_probe;
END

# Headers; sparse does not know __has_include.
fact=LINUX_UNALIGNED_H
probe compile "$@" <<'END'
#include <linux/unaligned.h>
END
fact=LINUX_HEX_H
probe compile "$@" <<'END'
#include <linux/hex.h>
END

# Integrity metadata: of a bio, and how a device describes it.
fact=BIOSET_INTEGRITY
probe compile "$@" <<'END'
#include <linux/blk-integrity.h>
int xcrypt_probe(struct bio_set *bs);
int xcrypt_probe(struct bio_set *bs) { return bioset_integrity_create(bs, 1); }
END
fact=INTEGRITY_CSUM_TYPE
probe compile "$@" <<'END'
#include <linux/blkdev.h>
int xcrypt_probe(struct blk_integrity *bi);
int xcrypt_probe(struct blk_integrity *bi) { return bi->csum_type == BLK_INTEGRITY_CSUM_NONE; }
END
fact=INTEGRITY_METADATA_SIZE
probe compile "$@" <<'END'
#include <linux/blkdev.h>
int xcrypt_probe(struct blk_integrity *bi);
int xcrypt_probe(struct blk_integrity *bi) { return bi->metadata_size; }
END

# The library's AES keys that only encrypt.
fact=AES_ENCKEY
probe compile "$@" <<'END'
#include <crypto/aes.h>
struct aes_enckey xcrypt_probe;
END

# The question whether a device is rotational, asked the other way round.
fact=BDEV_ROT
probe compile "$@" <<'END'
#include <linux/blkdev.h>
bool xcrypt_probe(struct block_device *bdev);
bool xcrypt_probe(struct block_device *bdev) { return bdev_rot(bdev); }
END

# A flag that is an enum value: #ifdef does not see it.
fact=WQ_PERCPU
probe compile "$@" <<'END'
#include <linux/workqueue.h>
unsigned int xcrypt_probe = WQ_PERCPU;
END

# Work in softirq, in the clothes of a workqueue.
fact=SYSTEM_BH_WQ
probe compile "$@" <<'END'
#include <linux/workqueue.h>
bool xcrypt_probe(struct work_struct *work);
bool xcrypt_probe(struct work_struct *work) { return queue_work(system_bh_wq, work); }
END

# Writes of a zone wait for each other in the block layer.
fact=ZONE_WRITE_PLUGS
probe compile "$@" <<'END'
#include <linux/blkdev.h>
bool xcrypt_probe(struct bio *bio);
bool xcrypt_probe(struct bio *bio) { return blk_zone_plug_bio(bio, 0); }
END

# Mapped devices pass writes that the disk takes whole or not at all.
fact=DM_ATOMIC_WRITES
probe compile "$@" <<'END'
#include <linux/device-mapper.h>
unsigned int xcrypt_probe = DM_TARGET_ATOMIC_WRITES;
void xcrypt_probe_limits(struct queue_limits *limits);
void xcrypt_probe_limits(struct queue_limits *limits)
{
	limits->atomic_write_hw_max = limits->atomic_write_hw_unit_max;
}
END

# What a cipher passes to the completion callback: exactly one of the two.
fact=CRYPTO_DONE_DATA
probe compile "$@" <<'END'
#include <linux/crypto.h>
static void done(void *data, int error) { }
crypto_completion_t xcrypt_probe = done;
END
fact=CRYPTO_DONE_REQ
probe compile "$@" <<'END'
#include <linux/crypto.h>
static void done(struct crypto_async_request *req, int error) { }
crypto_completion_t xcrypt_probe = done;
END
} > "$dir/out.h"

grep -q '^#define XCRYPT_HAVE_SANITY' "$dir/out.h" || exit 1

mv "$dir/out.h" "$out"
