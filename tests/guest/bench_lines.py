#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Two CPUs with small random I/O of their own, for tests/bench/lines.c to count.

  bench_lines.py OUT.csv [IOS]

Both modules are in this guest, in-tree dm-crypt as `crypt` and ours as `xcrypt`.
Each device in turn has two fio, one on each CPU, over a null_blk with a queue for
each CPU that completes at once.  In the middle of that the plugin counts.

Counting makes the cipher so slow that ours would leave it to workers; so it is
told not to, as it would choose by itself.

The lines of OUT.csv: contender (in-tree, flags: in-tree with its best ones,
ours), read or write, I/Os and ticks of the kernel's clock while the plugin
counted.  SYMBOLS, beside it, is /proc/kallsyms.  IOS, how many at the least, is 4000.
"""

import ctypes
import mmap
import os
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Tap, read, seeded, use_both, write
from iolib import Fio, Mapped, NullBlk, cpus, figures, leave
from turns import WORKERS

CIPHER = "aes-xts-plain64"
FLAGS = " 2 no_read_workqueue no_write_workqueue"

tap = Tap()


def marker(last):
    """A function that runs `nopl 0x..544358(%rax,%rax)`, then returns."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\x0f\x1f\x84\x00XCT" + last + b"\xc3")
    call = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    return lambda page=page: call()


START, STOP = marker(b"1"), marker(b"0")


def ios(device):
    """Reads and writes of a device so far."""
    fields = read("/sys/block/%s/stat" % device.disk).split()
    return int(fields[0]) + int(fields[4])


def ticks():
    """Of the kernel's clock so far."""
    return int(re.search(r"^jiffies: (\d+)", read("/proc/timer_list"), re.M)[1])


def until(device, least):
    """Waits until it has done that many I/Os; how many it has done."""
    while ios(device) < least:
        time.sleep(0.2)
    return ios(device)


def measure(name, table, sectors, least, put):
    """One contender."""
    with Mapped(name.replace("-", ""), [(0, sectors, *table)]) as device:
        for rw in ("read", "write"):
            load = Fio(filename=device.path, ioengine="psync", direct=1, bs=4096,
                       rw="rand" + rw, norandommap=1, numjobs=2, cpus_allowed="0,1",
                       cpus_allowed_policy="split", time_based=1, runtime=1000)
            before, start = until(device, ios(device) + least // 4), ticks()
            START()
            after = until(device, before + least)
            STOP()
            put(name, rw, after - before, ticks() - start)
            load.stop()


def main():
    """Returns when all was measured."""
    out, least = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    with figures(tap, out) as put:
        cpus()
        use_both()
        write(WORKERS, "never")
        disk = NullBlk("lines", 64, memory_backed=0, irqmode=1, submit_queues=2)
        key = seeded("lines", 64).hex()
        crypt = "%s %s 0 %s 0" % (CIPHER, key, disk.path)
        tables = {"in-tree": ("crypt", crypt), "flags": ("crypt", crypt + FLAGS),
                  "ours": ("xcrypt", crypt)}
        for name, table in tables.items():
            measure(name, table, disk.sectors, least, put)
        shutil.copyfile("/proc/kallsyms", os.path.join(os.path.dirname(out), "SYMBOLS"))
        disk.remove()
    leave(tap)


if __name__ == "__main__":
    main()
