#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""io.max of a cgroup under the module.

A process in the cgroup reads or writes as fast as it may while the guest's
clock goes on by some seconds.  What it gets is near the limit and not above it,
and a quarter of it under a quarter of the limit, whether the limit is for the
mapped device or for the disk below, where the bios are ours and his name must
be on them.  A process outside has no limit meanwhile; it does a block every few
milliseconds, since the guest's time only flies while nobody works.
"""

import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Direct, Tap, read, run, seeded, write
from iolib import Mapped, NullBlk, leave, patience, to_its_end, write_order

BLOCK = 16 << 10
LIMIT = 1 << 20                         # bytes in a second
SECONDS = 3
PAUSE = 0.005                           # of the process outside, seconds
CGROUP = "/run/cgroup2"
PAYER = CGROUP + "/payer"

tap = Tap()


class Worker:
    """A process that reads or writes blocks of a device until it is killed."""

    def __init__(self, path, verb, offset, cgroup, pause=0):
        self.pid = os.fork()
        if self.pid:
            return
        try:
            write(cgroup + "/cgroup.procs", str(os.getpid()))
            direct = Direct(path, BLOCK)
            data = seeded("io.max", BLOCK)
            while True:
                if verb == "write":
                    direct.write(offset, data)
                else:
                    direct.read(offset, BLOCK)
                time.sleep(pause)
        finally:
            os._exit(1)

    def bytes(self):
        """What it has done, as the kernel counts it."""
        words = dict(line.split(": ") for line in read("/proc/%d/io" % self.pid).splitlines())
        return int(words["read_bytes"]) + int(words["write_bytes"])

    def end(self):
        """Also if a bio of it still has to wait."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def rate(worker):
    """Bytes in a second of the guest's."""
    time.sleep(1)                       # what it may save up is spent by then
    begin, before = time.monotonic(), worker.bytes()
    time.sleep(SECONDS)
    return (worker.bytes() - before) / (time.monotonic() - begin)


def limited(device, disk, verb, limit):
    """The rates of two workers, of which only the first is in the cgroup."""
    key = {"write": "wbps", "read": "rbps"}[verb]
    number = read("/sys/block/%s/dev" % disk)
    write(PAYER + "/io.max", "%s %s=%d" % (number, key, limit))
    payer = Worker(device.path, verb, 0, PAYER)
    other = Worker(device.path, verb, 1 << 20, CGROUP, PAUSE)
    try:
        begin, before = time.monotonic(), other.bytes()
        got = rate(payer)
        return got, (other.bytes() - before) / (time.monotonic() - begin)
    finally:
        payer.end()
        other.end()
        write(PAYER + "/io.max", "%s %s=max" % (number, key))


def check(device, disk, verb, name):
    """One device to limit, one direction."""
    patience()
    (whole, other), (quarter, _) = (limited(device, disk, verb, limit)
                                    for limit in (LIMIT, LIMIT // 4))
    tap.ok(0.85 * LIMIT <= whole <= 1.05 * LIMIT, "%s: %.3f of the limit" %
           (name, whole / LIMIT))
    tap.ok(3.6 <= whole / quarter <= 4.4, "%s: a quarter of the limit is a quarter: %.3f" %
           (name, whole / quarter))
    tap.ok(other >= 2 * LIMIT, "%s: who is not limited gets %.1f times as much" %
           (name, other / LIMIT))


def first_cipher(table):
    """Has the kernel load and test the cipher.

    It waits a minute for that; but the guest's minute is over as soon as
    nobody works, while the module comes from a slow disk, say.
    """
    for name in ("aesni_intel", "xts", "ecb"):
        run("modprobe", name, status=None)
    for _ in range(9):
        try:
            with Mapped("xiomax", table):
                return
        except TimeoutError:
            pass


def main():
    """Returns when all cases ran."""
    with to_its_end(tap):
        os.makedirs(CGROUP, exist_ok=True)
        run("mount", "-t", "cgroup2", "none", CGROUP)
        write(CGROUP + "/cgroup.subtree_control", "+io")
        os.makedirs(PAYER)
        disk = NullBlk("iomax", 8)
        table = [(0, disk.sectors, "crypt", "aes-xts-plain64 %s 0 %s 0 1 sector_size:4096" %
                  (seeded("iomax", 64).hex(), disk.path))]
        first_cipher(table)
        for mode in ("inline", "offload", "fifo", "sort"):
            write_order(mode)
            with Mapped("xiomax", table) as device:
                check(device, disk.disk, "write", mode + ", write, limit for the disk below")
                if mode == "inline":
                    check(device, disk.disk, "read", "read, limit for the disk below")
                    for verb in ("write", "read"):
                        check(device, device.disk, verb, verb + ", limit for the mapped device")
        disk.remove()
    leave(tap)


if __name__ == "__main__":
    main()
