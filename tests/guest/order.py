#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The order in which writes reach the lower device, seen by blktrace.

  order.py [MODE...]	all modes, or some of inline, offload, fifo, sort

One thread writes with 32 writes in flight, first sequentially, then at
random, sizes mixed so that some take long to encrypt.  Its Q events on the
mapped device are the order of arrival, exactly, since one thread makes them;
the Q events on the lower device are the order of submission.  Q comes before
the block layer's plug, merging and scheduler, which are not our business.

  descents	neighbours in the order of submission whose sector is lower
		than the one before it
  overtakes	the same with the number of arrival in place of the sector

  fifo		no overtakes at all
  sort		no descent inside a window.  A window is what the thread
		submits between two blk_start_plug() of its own; nothing that
		blktrace shows says so (U comes too when a plug is full), hence
		a kprobe, whose events lie in one buffer with the submissions
		of the same thread: exact, and in the order of its program.
		The windows must be as many as the module counts in batches=,
		and the descents in blktrace's own list at most one less.
  inline	some overtakes with sequential writes; else this test sees
		nothing, since the other modes could not be wrong here either
  offload	what there is

The lower device takes few writes at a time, so that the thread waits and
windows fill.  A trace from which an event is missing does not count: each
write must be there once above and once below.
"""

import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Failed, Tap, note, read, run, seeded, write
from iolib import (TRACEFS, Fio, Mapped, NullBlk, cpus, kprobe, leave,
                   mount_tracefs, patience, to_its_end, write_order)

WRITES = 600
SIZES = "4k/40:16k/30:64k/20:256k/10"
TRIES = 3

tap = Tap()


class Lost(Exception):
    """A trace lost events."""


class Blktrace:
    """blktrace of some disks, from entering the with block to leaving it."""

    def __init__(self, directory, *disks):
        self.directory, self.disks, self.process = directory, disks, None

    def __enter__(self):
        args = ["blktrace", "-b", "1024", "-n", "16", "-a", "queue", "-D", self.directory]
        for disk in self.disks:
            args += ["-d", "/dev/" + disk]
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        # It runs once each disk has its files in debugfs, and all its threads.
        for _ in range(600):
            if all(os.path.exists("/sys/kernel/debug/block/%s/dropped" % disk)
                   for disk in self.disks):
                break
            if self.process.poll() is not None:
                raise Failed("blktrace: %s" % self.process.communicate()[0])
            time.sleep(0.05)
        else:
            raise Failed("blktrace did not begin")
        time.sleep(0.3)
        return self

    def __exit__(self, *_):
        dropped = sum(int(read("/sys/kernel/debug/block/%s/dropped" % disk))
                      for disk in self.disks)
        self.process.send_signal(signal.SIGINT)
        text = self.process.communicate(timeout=60)[0].decode()
        if dropped or re.search(r"dropped events", text):
            raise Lost("blktrace dropped %d events: %s" % (dropped, text))

    def queued(self, disk):
        """The writes queued to a disk, in order: [(sector, sectors)]."""
        text = run("blkparse", "-q", "-D", self.directory, "-i", disk,
                   "-f", "event %a %d %S %n\n")
        return [(int(sector), int(count)) for sector, count in
                re.findall(r"^event Q W\w* (\d+) (\d+)$", text, re.M)]


class Plugs:
    """The windows of a thread: what it queued between its plugs."""

    def __init__(self, pid, disk):
        self.pid = pid
        major, minor = (int(n) for n in read("/sys/block/%s/dev" % disk).split(":"))
        self.device = major << 20 | minor

    def control(self, path, text):
        """Writes a file of tracefs."""
        write(os.path.join(TRACEFS, path), text)

    def __enter__(self):
        self.control("tracing_on", "0")
        self.control("trace", "")
        self.control("buffer_size_kb", "4096")
        kprobe("p:xcrypt/plug blk_start_plug plug=%di:x64")
        self.control("events/xcrypt/plug/filter", "common_pid == %d" % self.pid)
        self.control("events/block/block_bio_queue/filter",
                     "common_pid == %d && dev == %d" % (self.pid, self.device))
        self.control("events/xcrypt/plug/enable", "1")
        self.control("events/block/block_bio_queue/enable", "1")
        self.control("tracing_on", "1")
        return self

    def __exit__(self, *_):
        self.control("tracing_on", "0")
        for event in ("events/xcrypt/plug", "events/block/block_bio_queue"):
            self.control(event + "/enable", "0")
            self.control(event + "/filter", "0")
        self.text = read(TRACEFS + "/trace")
        self.overrun = sum(int(n) for cpu in range(os.cpu_count()) for n in re.findall(
            r"^(?:overrun|dropped events): (\d+)", read(
                "%s/per_cpu/cpu%d/stats" % (TRACEFS, cpu)), re.M))
        kprobe("-:xcrypt/plug")
        self.control("trace", "")

    def windows(self):
        """Lists of sectors."""
        if self.overrun:
            raise Lost("tracefs lost %d events" % self.overrun)
        found, outer = [], None
        for plug, sector in re.findall(
                r"plug: \(.*?\) plug=(\w+)|block_bio_queue: \d+,\d+ W\w* (\d+) \+",
                self.text):
            # Newer kernels plug inside submit_bio() as well, elsewhere on the
            # stack; the first one is the thread's own.
            if plug:
                outer = outer or plug
                if plug == outer:
                    found.append([])
            elif found:
                found[-1].append(int(sector))
            else:
                raise Lost("a submission before the first plug")
        return [window for window in found if window]


def thread_of(mapped):
    """The pid of the device's thread."""
    major_minor = read("/sys/block/%s/dev" % mapped.disk)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if read("/proc/%s/comm" % pid) == "dmcrypt_write/" + major_minor:
                return int(pid)
        except OSError:
            pass
    raise Failed("there is no thread dmcrypt_write/%s" % major_minor)


def falls(values):
    """Neighbours of which the second is lower."""
    return sum(b < a for a, b in zip(values, values[1:]))


class Measured:
    """One workload in one mode."""

    def __init__(self, disk, mode, pattern):
        self.mode, self.pattern = mode, pattern
        write_order(mode)
        table = [(0, disk.sectors, "crypt", "aes-xts-plain64 %s 0 %s 0" %
                  (seeded("order", 64).hex(), disk.path))]
        directory = "/tmp/order"
        with Mapped("xorder", table) as mapped:
            run("rm", "-rf", directory)
            os.mkdir(directory)
            if mapped.info()["write_order"] != mode:
                raise Failed("write_order is not %s: %s" % (mode, mapped.info()))
            before = mapped.info()
            with Plugs(thread_of(mapped), disk.disk) as plugs, \
                    Blktrace(directory, mapped.disk, disk.disk) as trace:
                errors, _ = Fio(filename=mapped.path, ioengine="libaio", direct=1,
                                iodepth=32, rw=pattern, bssplit=SIZES, thread=1,
                                number_ios=WRITES, size="60M", randseed=5).finish()
            if errors:
                raise Failed(errors)
            after = mapped.info()
            self.batches = int(after["batches"]) - int(before["batches"])
            self.counted = int(after["writes"]) - int(before["writes"])
            self.above = trace.queued(mapped.disk)
            self.below = trace.queued(disk.disk)
            self.windows = plugs.windows()
        if sorted(self.above) != sorted(self.below) or len(self.above) != WRITES:
            raise Lost("%d writes above, %d below, %d made" %
                       (len(self.above), len(self.below), WRITES))
        if len(set(self.above)) != WRITES:
            raise Failed("fio wrote a place twice: arrival is not to be told")
        arrival = {place: n for n, place in enumerate(self.above)}
        self.descents = falls([sector for sector, _ in self.below])
        self.overtakes = falls([arrival[place] for place in self.below])

    def row(self):
        """A line of the table."""
        return "%-8s %-10s %6d %17.1f %18.1f %8d %17.1f" % (
            self.mode, "random" if self.pattern == "randwrite" else "sequential",
            WRITES, 1000 * self.descents / WRITES, 1000 * self.overtakes / WRITES,
            self.batches, self.counted / self.batches if self.batches else 0)


def measure(disk, mode, pattern):
    """A Measured whose traces are whole."""
    for attempt in range(TRIES):
        patience()
        try:
            return Measured(disk, mode, pattern)
        except Lost as problem:
            note("%s %s, try %d: %s" % (mode, pattern, attempt + 1, problem))
    raise Failed("%s: each of %d traces lost events" % (mode, TRIES))


def same_order(wanted, got, text):
    """A case: two lists are equal; if not, where they begin to differ."""
    first = next((n for n, pair in enumerate(zip(wanted, got)) if pair[0] != pair[1]),
                 min(len(wanted), len(got)))
    tap.ok(wanted == got, text, "%d and %d long; from number %d on: %s and %s" %
           (len(wanted), len(got), first, wanted[first:first + 4], got[first:first + 4]))


def check_sort(got):
    """No descent inside a window."""
    name = "sort, " + got.pattern
    inside = sum(falls(window) for window in got.windows)
    traced = sum(len(window) for window in got.windows)
    tap.same((0, WRITES), (inside, traced), "%s: no descent inside the %d windows, "
             "which have all writes" % (name, len(got.windows)))
    same_order([sector for window in got.windows for sector in window],
               [sector for sector, _ in got.below],
               "%s: both traces saw the same order" % name)
    tap.same((len(got.windows), WRITES), (got.batches, got.counted),
             "%s: batches= and writes= count them" % name)
    tap.ok(got.descents < got.batches, "%s: %d descents, fewer than %d batches" %
           (name, got.descents, got.batches))
    # or there would be nothing to sort
    tap.ok(2 * got.batches <= WRITES, "%s: windows have at least 2 writes on the "
           "average: %.1f" % (name, WRITES / got.batches))


def check(got):
    """The cases of one workload in one mode."""
    name = "%s, %s" % (got.mode, got.pattern)
    if got.mode == "sort":
        check_sort(got)
    elif got.mode == "fifo":
        same_order(got.above, got.below, name + ": exactly the order of arrival")
        tap.same(WRITES, got.counted, name + ": the thread submitted all")
    elif got.mode == "offload":
        tap.same(WRITES, got.counted, name + ": the thread submitted all")
    else:
        tap.same(0, got.counted, name + ": the thread submitted none")
        if got.pattern == "write":
            tap.ok(got.overtakes, name + ": some writes overtake others: %d" %
                   got.overtakes)


def main():
    """Returns when all cases ran."""
    cpus()
    if not os.path.ismount("/sys/kernel/debug"):
        run("mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug")
    mount_tracefs()
    rows = []
    with to_its_end(tap):
        # two writes at a time, each 4 ms: the thread has to wait
        disk = NullBlk("order", 64, irqmode=2, completion_nsec=4000000,
                       submit_queues=1, hw_queue_depth=2)
        write("/sys/block/%s/queue/scheduler" % disk.disk, "none")
        for mode in sys.argv[1:] or ("inline", "offload", "fifo", "sort"):
            for pattern in ("write", "randwrite"):
                got = measure(disk, mode, pattern)
                rows.append(got.row())
                check(got)
        disk.remove()
    note("%-8s %-10s %6s %17s %18s %8s %17s" %
         ("mode", "writes are", "writes", "descents per 1000",
          "overtakes per 1000", "batches", "writes in a batch"))
    for row in rows:
        note(row)
    leave(tap)


if __name__ == "__main__":
    main()
