#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""RAID5 below gets what it can write without reading.

  raid5.py

Three members, chunks of 512 KiB: 1 MiB at a multiple of that is a stripe, whose
parity is made of what is written.  Less than that, or the same in pieces that
come too late, and md has to read the rest of the stripe first: twice the seeks.
So a write has to arrive below as whole as it was, though two CPUs encrypt it.

The disks count the reads.  What half a stripe costs shows that this can be seen;
linear and in-tree dm-crypt have the same writes, for comparison.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Failed, Tap, load_module, note, read, seeded, use_both
from iolib import Fio, Mapped, NullBlk, cpus, leave, patience, to_its_end, total, write_order

MEMBERS, MEGABYTES, CHUNK = 3, 64, 1024      # the chunk in 512-byte sectors
STRIPE = (MEMBERS - 1) * CHUNK * 512
DEPTHS = (1, 4)
CIPHERS = {"aes": "aes-xts-plain64", "serpent": "serpent-xts-plain64"}

tap = Tap()


def members_read(disks):
    """How many I/Os they have read so far."""
    return sum(int(read("/sys/block/%s/stat" % disk.disk).split()[0]) for disk in disks)


def reads(device, disks, size, depth):
    """Writes it all in I/Os of that size.  Reads of the members for each MiB."""
    patience(300)
    before = members_read(disks)
    errors, jobs = Fio(filename=device.path, ioengine="libaio", direct=1, rw="write",
                       bs=size, iodepth=depth, thread=1).finish()
    if errors:
        raise Failed(errors)
    done = total(jobs, "write", "io_bytes")
    if done != device.sectors * 512:
        raise Failed("fio wrote %d bytes of %d" % (done, device.sectors * 512))
    return (members_read(disks) - before) / (done >> 20)


def ours(raid, disks):
    """Each cipher, each order, one by one and some at a time."""
    for cipher, text in CIPHERS.items():
        for order in ("inline", "offload", "fifo", "sort") if cipher == "aes" else ("inline",):
            write_order(order)
            line = "%s %s 0 %s 0" % (text, seeded(cipher, 64).hex(), raid.path)
            with Mapped("ours", [(0, raid.sectors, "xcrypt", line)]) as device:
                for depth in DEPTHS:
                    count = reads(device, disks, STRIPE, depth)
                    tap.ok(not count, "%s, %s, depth %d: members read nothing" %
                           (cipher, order, depth), "%.2f for each stripe" % count)
    write_order("auto")


def others(raid, disks):
    """What it is beside."""
    line = "%s %s 0 %s 0" % (CIPHERS["aes"], seeded("aes", 64).hex(), raid.path)
    for name, target, text in (("linear", "linear", raid.path + " 0"), ("in-tree", "crypt", line)):
        with Mapped("other", [(0, raid.sectors, target, text)]) as device:
            for depth in DEPTHS:
                note("%s, depth %d: %.2f for each stripe" %
                     (name, depth, reads(device, disks, STRIPE, depth)))


def main():
    """Returns when all cases ran."""
    cpus()
    with to_its_end(tap):
        use_both()
        load_module("dm-raid")
        disks = [NullBlk("member%d" % n, MEGABYTES) for n in range(MEMBERS)]
        # as many stripes of 4 KiB as are in flight, or md itself reads for lack of them
        line = "raid5_ls 4 %d nosync stripe_cache %d %d %s" % (
            CHUNK, 4 * max(DEPTHS) * CHUNK // 8, MEMBERS,
            " ".join("- " + disk.path for disk in disks))
        with Mapped("raid", [(0, (MEMBERS - 1) * disks[0].sectors, "raid", line)]) as raid:
            half = reads(raid, disks, STRIPE // 2, 1)
            tap.ok(half > 0, "half a stripe has to be completed: %.2f reads for each MiB" % half)
            others(raid, disks)
            ours(raid, disks)
        for disk in disks:
            disk.remove()
    leave(tap)


if __name__ == "__main__":
    main()
