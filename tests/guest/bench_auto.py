#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Who should convert: by the clock on the wall.

  bench_auto.py OUT.csv [ROUNDS [CIPHER...]]

One device of ours at a time, over a null_blk that keeps nothing and completes from
a timer after 100 us, which under TCG is little beside what the CPU does; the same I/O with the module's parameter workers as auto, never and always, in turn,
auto twice a round.  fio sits on CPU 0; CPU 1 is idle, or a program keeps it busy.

The lines of OUT.csv: cipher, idle or hog, read or write, size of an I/O (bytes),
depth, round, contender (auto, again, never, always), I/Os per second.
ROUNDS is 7.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Tap, load_module, note, seeded
from iolib import Mapped, NullBlk, cpus, figures, leave
from turns import in_turn

CIPHERS = {"aes": ("aes-xts-plain64", 64), "serpent": ("serpent-xts-plain64", 64),
           "adiantum": ("xchacha12,aes-adiantum-plain64", 32)}
CONTENDERS = ("auto", "never", "always")
MEGABYTES = 64

tap = Tap()


def cells():
    """{name: settings} of the I/O."""
    return {"%s-%d-%d" % (rw, size, depth): {"rw": rw, "bs": size, "iodepth": depth,
                                             "size": "%dM" % MEGABYTES}
            for rw in ("read", "write") for size in (4096, 1 << 20) for depth in (1, 16)}


def hog():
    """A program that keeps CPU 1 busy."""
    return subprocess.Popen(["taskset", "-c", "1", "sh", "-c", "while :; do :; done"])


def measure(cipher, disk, rounds, put):
    """One cipher, with CPU 1 idle and busy."""
    text, key_size = CIPHERS[cipher]
    line = "%s %s 0 %s 0" % (text, seeded(cipher, key_size).hex(), disk.path)
    with Mapped("auto", [(0, disk.sectors, "xcrypt", line)]) as device:
        for load in ("idle", "hog"):
            other = hog() if load == "hog" else None
            contenders = {name: (device.path, name) for name in CONTENDERS}
            for cell, name, number, rate in in_turn(cells(), contenders, rounds):
                put(cipher, load, *cell.split("-"), number, name, "%.2f" % rate)
            if other:
                other.kill()
                other.wait()
        note("%s: %s ns a KiB" % (cipher, device.info()["ns_per_kib"]))


def main():
    """Returns when all was measured."""
    out, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with figures(tap, out) as put:
        cpus()
        for name in ("xts", "adiantum", "serpent_sse2_x86_64", "serpent_generic"):
            load_module(name)
        disk = NullBlk("auto", MEGABYTES, memory_backed=0, irqmode=2, completion_nsec=100000)
        for cipher in sys.argv[3:] or CIPHERS:
            measure(cipher, disk, rounds, put)
        disk.remove()
    leave(tap)


if __name__ == "__main__":
    main()
