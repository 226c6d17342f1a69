#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Atomic writes under both modules: in-tree is `crypt`, ours is `xcrypt`.

The disk is a scsi_debug that says it can do them, once less and once more than
one clone of ours holds.  That it gets each as one request, marked as atomic, is
seen by the events of its queue.
"""

import ctypes
import errno
import os
import re
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Direct, Failed, Tap, note, read, run, seeded, use_both, write
from iolib import (MODULE, TRACEFS, Fio, cipher_reset, counters, cpus, leave,
                   mount_tracefs, patience, to_its_end, total, write_order)
from zoned import (KIB, MIB, MODES, TEST_CIPHER, filled, mapping,
                   queue, refused, scsi_disk)

RWF_ATOMIC = 0x40
SYS_STATX = 332
STATX_WRITE_ATOMIC = 0x10000
START = 2048                            # sectors, of the mapping on the disk

tap = Tap()


def statx_atomic(path):
    """(unit_min, unit_max, segments_max) as statx has them."""
    libc = ctypes.CDLL(None, use_errno=True)
    buf = ctypes.create_string_buffer(256)
    if libc.syscall(SYS_STATX, -100, path.encode(), 0, STATX_WRITE_ATOMIC, buf):
        raise OSError(ctypes.get_errno(), "statx " + path)
    mask, = struct.unpack_from("=I", buf, 0)
    return struct.unpack_from("=3I", buf, 168) if mask & STATX_WRITE_ATOMIC else None


class Events:
    """What a disk was sent: bios as they come, requests as they go on."""

    NAMES = ("block_bio_queue", "block_rq_issue")

    def __init__(self, disk, work):
        major, minor = (int(n) for n in read("/sys/block/%s/dev" % disk).split(":"))
        write(TRACEFS + "/trace", "")
        for name in self.NAMES:
            write("%s/events/block/%s/filter" % (TRACEFS, name), "dev == %d" %
                  (major << 20 | minor))
            write("%s/events/block/%s/enable" % (TRACEFS, name), "1")
        try:
            work()
        finally:
            for name in self.NAMES:
                write("%s/events/block/%s/enable" % (TRACEFS, name), "0")
        self.text = read(TRACEFS + "/trace")

    def writes(self, name):
        """[(marked as atomic, sector, sectors)]"""
        return [("U" in rwbs, int(sector), int(count)) for rwbs, sector, count in
                re.findall(name + r": \d+,\d+ (W\w*) (?:\d+ \(.*?\) )?(\d+) \+ (\d+)", self.text)
                if count != "0"]


def atomic_write(path, offset, data):
    """pwritev2() with RWF_ATOMIC, or OSError."""
    direct = Direct(path, len(data))
    try:
        direct.buf[:] = data
        done = os.pwritev(direct.fd, [direct.buf], offset, RWF_ATOMIC)
    finally:
        direct.close()
    if done != len(data):
        raise Failed("wrote %d of %d bytes" % (done, len(data)))


def check_limits(path, sectors, options):
    """sysfs and statx of a mapping.  Returns bytes (unit_min, unit_max)."""
    name = "limits, %s: " % " ".join(options)
    got = {}
    for target in ("crypt", "xcrypt"):
        with mapping(target, path, sectors - START, START, options) as device:
            limits = queue(device.disk)
            got[target] = ({key: value for key, value in limits.items() if "atomic" in key},
                           statx_atomic(device.path))
    limits, units = got["xcrypt"]
    # in-tree promises with large sectors what the disk's own queue then refuses
    below = int(queue(os.path.basename(path))["atomic_write_unit_max_bytes"])
    most = min(int(got["crypt"][0]["atomic_write_unit_max_bytes"]), below)
    wanted = ({**got["crypt"][0], "atomic_write_unit_max_bytes": str(most)},
              (got["crypt"][1][0], most, *got["crypt"][1][2:]))
    tap.same(wanted, got["xcrypt"],
             name + "atomic writes of up to %d bytes: as in-tree, and as the disk takes" % most)
    tap.ok(units and units[0] and 0 < units[1] <= MIB and
           0 < int(limits["atomic_write_max_bytes"]) <= MIB,
           name + "there are atomic writes, and they fit one clone", got)
    return units[:2]


def check_writes(disk, path, sectors, options, units, modes):
    """One request for each, the bytes in-tree's."""
    sizes = [units[0] << n for n in range(12) if units[0] << n <= units[1]]
    data = {size: seeded("atomic %d" % size, size) for size in sizes}
    with mapping("crypt", path, sectors - START, START, options) as device:
        for size in sizes:
            atomic_write(device.path, size, data[size])
    wanted = {size: filled(path, size, START * 512 + size) for size in sizes}
    # this would cut each that is larger than a page, if any were cut
    write(MODULE + "max_write_size", "4096")
    for mode in modes:
        for cipher, settings in (("aes-xts-plain64", {}),
                                 (TEST_CIPHER, {"answer": "shuffle", "depth": 4})):
            patience()
            name = "%s, %s %s: " % (mode, "async" if settings else "sync", " ".join(options))
            run("blkdiscard", "-z", "-o", START * 512, "-l", 2 * units[1], path)
            write_order(mode)
            cipher_reset(**settings)
            with mapping("xcrypt", path, sectors - START, START, options, cipher) as device:
                for size in sizes:
                    place = [(True, START + size // 512, size // 512)]
                    seen = Events(disk, lambda s=size: atomic_write(device.path, s, data[s]))
                    if not tap.same((place, place), (seen.writes("block_bio_queue"),
                                                     seen.writes("block_rq_issue")), name +
                                    "%d bytes are one request below, an atomic one" % size):
                        note(seen.text)
                long = refused(lambda: atomic_write(device.path, 0, bytes(2 * units[1])))
            tap.same(errno.EINVAL, long, name + "what is longer than the limit is refused")
            if settings:
                tap.ok(counters("async")["async"] >= len(sizes), name + "the cipher answered late")
            tap.same([], [size for size in sizes if
                          filled(path, size, START * 512 + size) != wanted[size]],
                     name + "the ciphertext is in-tree's")
    write(MODULE + "max_write_size", "0")
    write_order("auto")
    cipher_reset()


def check_fio(path, sectors, units):
    """Many at once."""
    with mapping("xcrypt", path, sectors - START, START) as device:
        error, jobs = Fio(filename=device.path, ioengine="pvsync2", direct=1, atomic=1,
                          rw="randwrite", bs=min(units[1], 64 * KIB), size="8M", io_size="4M",
                          numjobs=2, thread=1, offset_increment="8M", verify="crc32c",
                          verify_fatal=1, randseed=9).finish()
    tap.ok(not error and total(jobs, "write") >= 128, "fio, atomic=1: all verified", error)


def main():
    """Returns when all cases ran."""
    with to_its_end(tap):
        cpus()
        use_both()
        run("modprobe", "xcrypt_testcipher")
        mount_tracefs()
        # blocks of 512 bytes: the most that the disk takes
        for blocks, modes in ((128, MODES), (8192, ("inline", "sort"))):
            note("a disk with atomic writes of up to %d bytes" % (blocks * 512))
            disk, sectors = scsi_disk("atomic_wr=1", "atomic_wr_max_length=%d" % blocks,
                                      "atomic_wr_gran=8", "atomic_wr_align=8")
            path = "/dev/" + disk
            check_limits(path, sectors, ())
            # with 512-byte sectors a mapping promises half of that at most
            options = ("sector_size:4096",)
            units = check_limits(path, sectors, options)
            check_writes(disk, path, sectors, options, units, modes)
            check_fio(path, sectors, units)
            run("rmmod", "scsi_debug")
    leave(tap)


if __name__ == "__main__":
    main()
