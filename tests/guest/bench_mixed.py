#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Reads beside a writer that the device is too slow for, in virtual time.

  bench_mixed.py OUT.csv [SECONDS [CASE...]]

Both modules are in this guest, in-tree dm-crypt as `crypt` and ours as `xcrypt`,
one after the other over a disk of limited bandwidth (tests/hdd without a head, which
takes 64 requests at a time, of at most 128 KiB) and
without a scheduler, as disks have it that are fast enough for them.  A program
writes 1 MiB at a time to the first half, another reads 4 KiB at random from the
second, directly, one at a time: a read of what the page cache still has to write
would wait for that, whoever encrypts it.
The writer is one of:

  buffered	it writes into the page cache.  The disk's writeback throttling
		(wbt) is on, as kernels have it: it does the same as the module's
		window, for such writes on a disk with a request queue of its own
  unthrottled	the same without, as on md, or if it is switched off
  direct	past the page cache, 16 at a time

Then without the reads, and instead direct writes to a second device, 16 of 64 KiB
at a time of which each takes 20 ms, with and without the unthrottled writer on the
slow one: the one CPU here has time for both.

The lines of OUT.csv: case (the writer, or neighbours), who (in-tree, ours),
settings, what, value:
  p50, p99	of the reads, microseconds
  written	to the slow disk, MiB/s
  alone, beside	of the fast device without and with the writer, MiB/s
  peak, window	ours says so, pages
SECONDS is how long each is measured, of virtual time (default 6); CASE is one of
the writers, or neighbours, all if there is none.
"""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from bench_cost import ciphers
from guestlib import Failed, Tap, read, seeded, use_both, write
from iolib import Fio, Mapped, NullBlk, Slow, figures, leave, patience, total

MEGABYTES = 2048
HALF = MEGABYTES // 2 - 1
BANDWIDTH = 30      # MB/s; one CPU here encrypts some 70 of buffered writes
CASES = ("direct", "unthrottled", "buffered", "neighbours")
WHO = (("in-tree", "crypt", ""),
       ("in-tree", "crypt", "no_read_workqueue no_write_workqueue"),
       ("ours", "xcrypt", ""))
KEY = seeded("mixed", 64).hex()

tap = Tap()


def slow_disk():
    """A disk that forgets what it is sent.  The host has built it: what starts a
    compiler here lets the virtual clock run."""
    return Slow("/share/hdd.so", MEGABYTES, rate=BANDWIDTH * 1000000, head=0, keep=0, depth=64)


def mapped(name, target, settings, disk):
    """A device over the disk."""
    words = settings.split()
    line = "aes-xts-plain64 %s 0 %s 0" % (KEY, disk.path)
    if words:
        line += " %d %s" % (len(words), " ".join(words))
    return Mapped(name, [(0, disk.sectors, target, line)])


def writer(device, kind):
    """A fio that writes until it is stopped."""
    how = {"ioengine": "libaio", "iodepth": 16, "direct": 1} if kind == "direct" else \
        {"ioengine": "psync"}
    return Fio(filename=device.path, rw="write", bs="1m", thread=1, time_based=1,
               runtime=100000, size="%dM" % HALF, **how)


def throttle(disk, kind):
    """The block layer's own throttling of writeback."""
    write("/sys/block/%s/queue/wbt_lat_usec" % disk.disk, "-1" if kind == "buffered" else "0")


def count(disk):
    """(reads that the disk has done, MiB that it has written)"""
    words = read("/sys/block/%s/stat" % disk.disk).split()
    return int(words[0]), int(words[6]) / 2048


def throughput(disk, seconds):
    """MiB per second that are written, from the 10th read on.  A program that
    starts waits for the guest's own disk, and lets the virtual clock run."""
    first = count(disk)[0]
    while count(disk)[0] < first + 10:
        time.sleep(0.1)
    before, start = count(disk)[1], time.monotonic()
    time.sleep(seconds)
    return (count(disk)[1] - before) / (time.monotonic() - start)


def finish(fio):
    """The jobs of one that must end well."""
    errors, jobs = fio.finish(3000)
    if errors:
        raise Failed(errors)
    return jobs


def reads(disk, kind, target, settings, seconds):
    """{what: value} of reads beside the writer."""
    patience(3000)
    throttle(disk, kind)
    with mapped("mixed", target, settings, disk) as device:
        other = writer(device, kind)
        reader = Fio(filename=device.path, rw="randread", bs="4k", direct=1,
                     ioengine="psync", thread=1, time_based=1, runtime=seconds,
                     ramp_time=seconds // 2, offset="%dM" % HALF,
                     size="%dM" % HALF, randseed=1)
        found = {"written": throughput(disk, seconds)}
        jobs = finish(reader)
        if not other.running():
            raise Failed("the writer ended before the reader")
        other.stop()
        percentile = jobs[0]["read"]["clat_ns"]["percentile"]
        found["p50"] = percentile["50.000000"] / 1000
        found["p99"] = percentile["99.000000"] / 1000
        info = device.info()
        found.update({key: int(info[key]) for key in ("peak", "window") if key in info})
    return found


def neighbours(slow, fast, target, settings, seconds):
    """{what: value} of a fast device without and with a writer on the slow one."""
    found = {}
    patience(3000)
    throttle(slow, "unthrottled")
    with mapped("slow", target, settings, slow) as a, mapped("fast", target, settings, fast) as b:
        for what in ("alone", "beside"):
            other = writer(a, "unthrottled") if what == "beside" else None
            jobs = finish(Fio(filename=b.path, rw="randwrite", bs="64k", direct=1,
                              ioengine="libaio", iodepth=16, thread=1, time_based=1,
                              runtime=seconds, ramp_time=seconds // 2, size="%dM" % HALF))
            found[what] = total(jobs, "write", "bw_bytes") / (1 << 20)
            if other:
                other.stop()
    return found


def measure(case, target, settings, seconds):
    """{what: value} of one case."""
    slow = slow_disk()
    if case == "neighbours":
        fast = NullBlk("fast", MEGABYTES, memory_backed=0, irqmode=2,
                       completion_nsec=20000000)
        found = neighbours(slow, fast, target, settings, seconds)
        fast.remove()
    else:
        found = reads(slow, case, target, settings, seconds)
    slow.remove()
    return found


def main():
    """Returns when all was measured."""
    out, seconds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 6
    with figures(tap, out) as put:
        ciphers()
        use_both()
        for case in sys.argv[3:] or CASES:
            if case not in CASES:
                raise Failed("no case " + case)
            for who, target, settings in WHO:
                for what, value in measure(case, target, settings, seconds).items():
                    put(case, who, settings, what, "%.1f" % value)
    leave(tap)


if __name__ == "__main__":
    main()
