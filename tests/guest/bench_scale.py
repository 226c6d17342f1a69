#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""1, 2 and 4 jobs of 4k random I/O with two CPUs, by the clock on the wall.

  bench_scale.py OUT.csv [ROUNDS]

Both modules are in this guest, in-tree dm-crypt as `crypt` and ours as `xcrypt`.
A null_blk with a queue for each CPU, which completes from a timer, has a device of
each contender on it; all do the same in turn, in-tree with its best flags twice a
round.

The lines of OUT.csv: read or write, depth, jobs, round, contender (flags, again,
in-tree, ours), I/Os per second of all jobs.  ROUNDS is 7.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Tap, seeded, use_both
from iolib import Mapped, NullBlk, cpus, figures, leave
from turns import in_turn

CIPHER = "aes-xts-plain64"
FLAGS = " 2 no_read_workqueue no_write_workqueue"
MEGABYTES = 64

tap = Tap()


def cells():
    """{name: settings} of the I/O."""
    return {"%s-%d-%d" % (rw, depth, jobs): {
        "rw": "rand" + rw, "bs": 4096, "iodepth": depth, "numjobs": jobs, "norandommap": 1,
        "group_reporting": 1, "cpus_allowed": "0,1", "cpus_allowed_policy": "split",
        "size": "%dM" % MEGABYTES}
            for rw in ("read", "write") for depth in (1, 16) for jobs in (1, 2, 4)}


def main():
    """Returns when all was measured."""
    out, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with figures(tap, out) as put:
        cpus()
        use_both()
        disk = NullBlk("scale", MEGABYTES, memory_backed=0, irqmode=2, submit_queues=2,
                       completion_nsec=100000)
        line = "%s %s 0 %s 0" % (CIPHER, seeded("scale", 64).hex(), disk.path)
        with Mapped("flags", [(0, disk.sectors, "crypt", line + FLAGS)]) as best, \
                Mapped("intree", [(0, disk.sectors, "crypt", line)]) as plain, \
                Mapped("ours", [(0, disk.sectors, "xcrypt", line)]) as ours:
            contenders = {name: (device.path, "auto") for name, device in
                          (("flags", best), ("in-tree", plain), ("ours", ours))}
            for cell, name, number, rate in in_turn(cells(), contenders, rounds):
                put(*cell.split("-"), number, name, "%.2f" % rate)
        disk.remove()
    leave(tap)


if __name__ == "__main__":
    main()
