#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Large I/O at depth 1 with two CPUs, by the clock on the wall.

  bench_cut.py OUT.csv [ROUNDS]

Both modules are in this guest, in-tree dm-crypt as `crypt` and ours as `xcrypt`,
each over a null_blk of its own; the same I/O through both in turn, in-tree twice
a round.  The null_blk keep nothing: to copy it would be the CPU's work, which it is
not with a disk.

The lines of OUT.csv: cipher, read or write, size of an I/O (bytes), round,
contender (in-tree, again, ours), I/Os per second.  ROUNDS is 7.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Tap, seeded, use_both
from iolib import Mapped, NullBlk, cpus, figures, leave
from turns import in_turn

CIPHERS = {"aes": ("aes-xts-plain64", 64), "serpent": ("serpent-xts-plain64", 64)}
MEGABYTES = 64

tap = Tap()


def measure(cipher, disks, rounds, put):
    """One cipher."""
    text, key_size = CIPHERS[cipher]
    tables = [(0, disk.sectors, target, "%s %s 0 %s 0" % (
        text, seeded(cipher, key_size).hex(), disk.path))
              for disk, target in zip(disks, ("crypt", "xcrypt"))]
    cells = {"%s-%d" % (rw, size): {"rw": rw, "bs": size, "iodepth": 1,
                                    "size": "%dM" % MEGABYTES}
             for rw in ("read", "write") for size in (1 << 18, 1 << 20)}
    with Mapped("intree", [tables[0]]) as a, Mapped("ours", [tables[1]]) as b:
        contenders = {"in-tree": (a.path, "auto"), "ours": (b.path, "auto")}
        for cell, name, number, rate in in_turn(cells, contenders, rounds):
            put(cipher, *cell.split("-"), number, name, "%.2f" % rate)


def main():
    """Returns when all was measured."""
    out, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with figures(tap, out) as put:
        cpus()
        use_both()
        disks = [NullBlk(name, MEGABYTES, memory_backed=0, irqmode=2, completion_nsec=10000)
                 for name in ("one", "two")]
        for cipher in CIPHERS:
            measure(cipher, disks, rounds, put)
    leave(tap)


if __name__ == "__main__":
    main()
