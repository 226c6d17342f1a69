#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What reaches the lower device: whole I/Os, splits, FUA, flushes, discards,
zeroes, and where.

The events block_bio_queue of the lower device (blktrace's Q) are its bios as
they come from the target, before the block layer cuts or merges anything.
"""

import errno
import fcntl
import os
import re
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Direct, Failed, Tap, read, run, seeded, write
from iolib import (MODULE, TRACEFS, Mapped, NullBlk, leave, mount_tracefs,
                   patience, to_its_end, write_order)
from zoned import bio_data, bios, filled

BLKDISCARD = 0x1277
BLKSECDISCARD = 0x127d
BLKZEROOUT = 0x127f
START = 2048                    # sectors; of the mapping on the lower device
MIB = 1 << 20
EVENT = TRACEFS + "/events/block/block_bio_queue"

tap = Tap()


class Below:
    """The events of one piece of I/O: [(rwbs, sector, sectors)]."""

    def __init__(self, disk, work):
        major, minor = (int(n) for n in read("/sys/block/%s/dev" % disk.disk).split(":"))
        write(TRACEFS + "/trace", "")
        write(EVENT + "/filter", "dev == %d" % (major << 20 | minor))
        write(TRACEFS + "/tracing_on", "1")
        try:
            work()
        finally:
            write(TRACEFS + "/tracing_on", "0")
        self.all = [(rwbs, int(sector), int(count)) for rwbs, sector, count in
                    re.findall(r"block_bio_queue: \d+,\d+ (\w+) (\d+) \+ (\d+)",
                               read(TRACEFS + "/trace"))]

    def data(self, letter):
        """The reads (R) or writes (W) with data, by sector, as pieces."""
        return sorted((sector, count) for rwbs, sector, count in self.all
                      if letter in rwbs and count)

    def flushes(self):
        """How many had no data."""
        return sum(not count for _, _, count in self.all)


def pieces(size, piece):
    """size bytes from START on, cut into pieces of as many bytes."""
    return [(START + at // 512, min(piece, size - at) // 512)
            for at in range(0, size, piece)]


def mapped(disk, *options):
    """A mapping of most of disk."""
    words = "".join(" " + word for word in options)
    params = "aes-xts-plain64 %s 0 %s %d%s" % (
        seeded("limits", 64).hex(), disk.path, START,
        " %d%s" % (len(options), words) if options else "")
    return Mapped("xlimits", [(0, disk.sectors - 2 * START, "crypt", params)])


def parameters(limit):
    """Sets max_read_size and max_write_size, bytes."""
    write(MODULE + "max_read_size", str(limit))
    write(MODULE + "max_write_size", str(limit))


def check_sizes(disk):
    """Whole by default; cut as the parameters say, in whole sectors."""
    cases = (                   # sector_size, parameter, bytes of a piece
        (512, 0, MIB), (4096, 0, MIB),
        (512, 65536, 65536), (4096, 65536, 65536),
        (512, 131072 + 511, 131072), (4096, 131072 + 4095, 131072),
        (512, 5000, 4608), (4096, 5000, 4096), (512, 100, 512), (4096, 100, 4096),
    )
    for sector_size, limit, piece in cases:
        # a read of 1 MiB in sectors of 512 bytes is a long list
        size = MIB if piece > 4608 else 16 * 4608 if piece == 4608 else 65536
        name = "sector_size %d, limit %d: " % (sector_size, limit)
        with mapped(disk, "sector_size:%d" % sector_size) as device:
            data = seeded(name, size)
            back = []
            direct = Direct(device.path, size)
            parameters(limit)
            written = Below(disk, lambda: direct.write(0, data))
            fetched = Below(disk, lambda: back.append(direct.read(0, size)))
            parameters(0)
            direct.close()
        tap.ok(back == [data], name + "the data come back")
        for what, letter, below in (("write", "W", written), ("read", "R", fetched)):
            tap.same(pieces(size, piece), below.data(letter),
                     name + "a %s of %d bytes goes down in pieces of %d" %
                     (what, size, piece))


def check_flushes(disk):
    """FUA travels with the data, a flush goes down alone."""
    for mode in ("inline", "offload", "fifo", "sort"):
        write_order(mode)
        with mapped(disk) as device:
            plain = Direct(device.path, 4096)
            dsync = Direct(device.path, 4096, os.O_RDWR | os.O_DSYNC)
            block = seeded("flush", 4096)
            below = Below(disk, lambda: plain.write(0, block))
            tap.same([(START, 8)], below.data("W"), mode + ": a write without FUA")
            tap.ok(all("F" not in rwbs for rwbs, _, _ in below.all),
                   mode + ": ... has no flush with it", below.all)
            below = Below(disk, lambda: dsync.write(4096, block))
            tap.ok(("WFS", START + 8, 8) in below.all,
                   mode + ": O_DSYNC is FUA on the clone", below.all)
            below = Below(disk, lambda: os.fsync(plain.fd))
            tap.same((1, []), (below.flushes(), below.data("W")),
                     mode + ": fsync is one flush")
            plain.close()
            dsync.close()
            # as a journal ends
            landed = []
            below = Below(disk, lambda: landed.extend(bios(device.path, "commit", 64, 16384)))
            tap.same([True, ("WFS", START + 64, 32)],
                     ["F" in below.all[0][0] and not below.all[0][2], *below.all[1:]],
                     mode + ": a flush and FUA with data are a flush, then the data with FUA")
            tap.ok(landed[0] >= 0 and filled(device.path, 16384, 64 * 512) ==
                   bio_data(0, 16384), mode + ": ... and the data come back", landed)
    write_order("auto")


def discard(path, offset, size, request=BLKDISCARD):
    """An ioctl for a range.  Returns 0 or the errno."""
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.ioctl(fd, request, struct.pack("QQ", offset, size))
        return 0
    except OSError as problem:
        return problem.errno
    finally:
        os.close(fd)


def check_discards(disk):
    """They pass only with allow_discards, and to the right place."""
    result = []
    with mapped(disk) as device:
        below = Below(disk, lambda: result.append(discard(device.path, MIB, 65536)))
        tap.same((errno.EOPNOTSUPP, []), (result.pop(), below.data("D")),
                 "no discard without allow_discards")
    with mapped(disk, "allow_discards") as device:
        below = Below(disk, lambda: result.append(discard(device.path, MIB, 65536)))
        tap.same((0, [(START + MIB // 512, 128)]), (result.pop(), below.data("D")),
                 "a discard with allow_discards")
        below = Below(disk, lambda: result.append(discard(device.path, MIB, 65536,
                                                          BLKSECDISCARD)))
        tap.same((errno.EOPNOTSUPP, []), (result.pop(), below.all), "no secure erase")


def check_zeroes(disk):
    """The disk is not told to write zeroes: it would write them in clear."""
    with mapped(disk, "allow_discards") as device:
        limit = read("/sys/block/%s/queue/write_zeroes_max_bytes" % device.disk)
        direct = Direct(device.path, 65536)
        direct.write(MIB, seeded("not zero", 65536))
        result = []
        below = Below(disk, lambda: result.append(discard(device.path, MIB, 65536, BLKZEROOUT)))
        back = direct.read(MIB, 65536)
        direct.close()
    lower = Direct(disk.path, 65536)
    raw = lower.read(START * 512 + MIB, 65536)
    lower.close()
    tap.same("0", limit, "zeroes: sysfs says that there is no such request")
    tap.same((0, bytes(65536)), (result.pop(), back), "zeroes: BLKZEROOUT makes zeroes")
    tap.ok(sum(count for _, count in below.data("W")) == 128 and
           len({raw[at:at + 16] for at in range(0, 65536, 16)}) == 4096,
           "zeroes: as writes of 64 KiB, encrypted", below.all)


def main():
    """Returns when all cases ran."""
    mount_tracefs()
    write(TRACEFS + "/tracing_on", "0")
    write(EVENT + "/enable", "1")       # once: it patches the running kernel
    with to_its_end(tap):
        disk = NullBlk("limits", 64, cache_size=8, discard=1)
        if "back" not in read("/sys/block/%s/queue/write_cache" % disk.disk):
            raise Failed("null_blk has no write cache to flush")
        run("modprobe", "xcrypt_append")
        for check in (check_sizes, check_flushes, check_discards, check_zeroes):
            patience()
            check(disk)
        disk.remove()
        write(EVENT + "/enable", "0")
    leave(tap)


if __name__ == "__main__":
    main()
