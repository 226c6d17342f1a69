#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Kinds of devices, what write_order=auto chooses, and how fast that is.

  bench_order.py OUT.csv [ROUNDS [KIND...]]

Both modules are in this guest, in-tree dm-crypt as `crypt` and ours as `xcrypt`,
on the same device, which both overwrite in turn, in-tree twice a round; by the
clock on the wall.  Sequential writes of 128 KiB, random ones of 4 KiB, 16 at a
time.  `head` is the disk of tests/hdd.

The lines of OUT.csv: kind, what auto chose, whether the kernel calls the device
rotational, sequential or random, size of an I/O (bytes), round, contender
(in-tree, again, ours), I/Os per second.  ROUNDS is 7.
"""

import contextlib
import glob
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Tap, note, read, run, sectors, seeded, use_both
from iolib import Mapped, NullBlk, Slow, cpus, figures, leave, patience
from turns import in_turn

CIPHER = "aes-xts-plain64"
MEGABYTES = 64

tap = Tap()


@contextlib.contextmanager
def null_blk(name="null_blk"):
    """Completes from a timer."""
    disk = NullBlk(name, MEGABYTES, irqmode=2, completion_nsec=100000)
    yield disk.path
    disk.remove()


def appeared(pattern, before):
    """The one path of that pattern that was not there before.  Drivers look for
    their disks on their own time."""
    patience(300)
    while not set(glob.glob(pattern)) - before:
        time.sleep(0.1)
    path, = set(glob.glob(pattern)) - before
    return path


@contextlib.contextmanager
def scsi_debug():
    """A SCSI disk of memory."""
    before = set(glob.glob("/dev/sd?"))
    run("modprobe", "sd_mod")
    run("modprobe", "scsi_debug", "dev_size_mb=%d" % MEGABYTES, "delay=0")
    yield appeared("/dev/sd?", before)
    run("rmmod", "scsi_debug")


@contextlib.contextmanager
def loop():
    """Over a file in memory."""
    run("modprobe", "loop")
    with open("/tmp/loop", "wb") as file:
        file.truncate(MEGABYTES << 20)
    path = run("losetup", "--show", "-f", "/tmp/loop").strip()
    yield path
    run("losetup", "-d", path)
    os.unlink("/tmp/loop")


@contextlib.contextmanager
def nvme():
    """QEMU's."""
    run("modprobe", "nvme")
    appeared("/dev/nvme0n1", set())
    yield "/dev/nvme0n1"


@contextlib.contextmanager
def stack(name, table):
    """A target over others."""
    with Mapped(name, [table]) as device:
        yield device.path


@contextlib.contextmanager
def raid(level, chunk, members):
    """md, by dm-raid."""
    run("modprobe", "dm-raid")
    disks = [NullBlk("member%d" % n, MEGABYTES // members, irqmode=2, completion_nsec=100000)
             for n in range(members)]
    data = members - (level == "raid5_ls")
    words = [str(chunk)] + (["nosync"] if level == "raid5_ls" else [])
    line = "%s %d %s %d %s" % (level, len(words), " ".join(words), members,
                               " ".join("- " + disk.path for disk in disks))
    with Mapped("md", [(0, disks[0].sectors // chunk * chunk * data, "raid", line)]) as device:
        yield device.path
    for disk in disks:
        disk.remove()


@contextlib.contextmanager
def head():
    """A disk that has to move its head."""
    disk = Slow("/share/hdd.so", MEGABYTES, keep=0)
    yield disk.path
    disk.remove()


@contextlib.contextmanager
def over(below, offset=2048):
    """dm-linear over another kind."""
    with below as path, stack("linear", (0, sectors(path) - offset, "linear",
                                         "%s %d" % (path, offset))) as upper:
        yield upper


KINDS = {
    "null_blk": null_blk,
    "NVMe": nvme,
    "virtio-blk": lambda: contextlib.nullcontext("/dev/vda"),
    "scsi_debug": scsi_debug,
    "loop": loop,
    "linear/null_blk": lambda: over(null_blk()),
    "RAID0": lambda: raid("raid0", 128, 2),
    "RAID5": lambda: raid("raid5_ls", 128, 3),
    "head": head,
    "linear/head": lambda: over(head()),
}


def rotational(path):
    """As the kernel has it: 0 or 1."""
    return read("/sys/class/block/%s/queue/rotational" %
                os.path.basename(os.path.realpath(path))).strip()


def cells(kind):
    """{name: settings} of the I/O."""
    common = {"iodepth": 16, "norandommap": 1}
    if "head" in kind:
        # the disk has a place for each, and the time of a seek goes by unused
        common["iodepth"] = 64
    return {"sequential-%d" % (1 << 17): {"rw": "write", "bs": 1 << 17, **common},
            "random-4096": {"rw": "randwrite", "bs": 4096, **common}}


def measure(kind, path, rounds, put):
    """One kind of device."""
    line = "%s %s 0 %s 0" % (CIPHER, seeded("order", 64).hex(), path)
    size = sectors(path)
    with Mapped("intree", [(0, size, "crypt", line)]) as a, \
            Mapped("ours", [(0, size, "xcrypt", line)]) as b:
        chosen = b.info()["write_order"]
        note("%s: rotational %s, auto chose %s" % (kind, rotational(path), chosen))
        contenders = {"in-tree": (a.path, "auto"), "ours": (b.path, "auto")}
        for cell, name, number, rate in in_turn(cells(kind), contenders, rounds):
            put(kind, chosen, rotational(path), *cell.split("-"), number, name, "%.2f" % rate)


def main():
    """Returns when all was measured."""
    out, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with figures(tap, out) as put:
        cpus()
        use_both()
        for kind in sys.argv[3:] or KINDS:
            with KINDS[kind]() as path:
                measure(kind, path, rounds, put)
    leave(tap)


if __name__ == "__main__":
    main()
