#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Allocations that fail, on a kernel with fault injection: slower, never wrong,
never stuck.

  faults.py [PART...]	all, or some of:
    loads	each allocation of a table load fails once, one after the other
    io		of the allocations of the I/O path 1 or 10 in 100 fail: those
		that may not wait in whoever does I/O, and all of them in the
		kernel's threads, where encryption is done
    below	the lower device fails 1 I/O in 20: an error or the right bytes

What is never stuck completes an I/O every LONG seconds, a thousand times what
it needs.
"""

import errno
import glob
import os
import re
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from dmioctl import DeviceMapper
from guestlib import Direct, Tap, read, run, seeded, write
from iolib import (Fio, Mapped, NullBlk, cipher_reset, completed, cpus, leave,
                   patience, run_parts, total, write_order)
from storm import KEY, LONG, ORDERS, SIZES, table_of

DEBUGFS = "/sys/kernel/debug/"
MANY = 1 << 30                      # failures that an attribute may still make
NAME = "faults"

tap = Tap()


class Attribute:
    """One of the kernel's kinds of failure, while it is switched on."""

    def __init__(self, kind, probability, **settings):
        self.dir = DEBUGFS + kind + "/"
        self.settings = {"verbose": 0, "interval": 1, "space": 0,
                         "times": MANY, **settings}
        self.probability = probability
        self.injected = 0

    def __enter__(self):
        for key, value in self.settings.items():
            write(self.dir + key.replace("_", "-"), str(value))
        write(self.dir + "probability", str(self.probability))
        return self

    def __exit__(self, *_):
        write(self.dir + "probability", "0")
        self.injected = MANY - int(read(self.dir + "times"))
        write(self.dir + "times", "-1")


def may_fail(pids, value="1"):
    """Marks tasks for task-filter, with all their threads."""
    for pid in pids:
        for path in glob.glob("/proc/%s/task/*/make-it-fail" % pid):
            try:
                write(path, value)
            except (FileNotFoundError, ProcessLookupError):
                pass                # it ended


def kernel_threads():
    """The workers, the order threads, and who makes more of them."""
    pids = ["2"]
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            if re.match(r"kworker|kcrypt|dmcrypt_write|cryptd", read(path)):
                pids.append(path.split("/")[2])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return pids


# ---- table loads ----

# Cipher, bytes of key: each generator, and what has several of anything.
LOADS = (
    ("aes-xts-plain64", 64), ("aes-cbc-essiv:sha256", 32), ("aes:64-cbc-lmk", 65 * 16),
    ("aes-cbc-tcw", 64), ("aes-cbc-eboiv", 32), ("aes-cbc-elephant", 64),
    ("capi:xcrypt-test-xts-plain64", 64),
)
# Reserves are filled one by one with hundreds of allocations, all alike: those
# up to CLOSE fail each, later ones each STRIDE-th.
CLOSE, STRIDE = 60, 23


def load_failing(dm, table, number):
    """Loads with the number-th allocation failing; returns (errno, failed)."""
    path = "/proc/thread-self/fail-nth"
    fd = os.open(path, os.O_RDWR)
    error = 0
    os.write(fd, b"%d" % number)
    try:
        dm.load(NAME, table)
    except OSError as problem:
        error = problem.errno
    left = int(os.pread(fd, 16, 0).split(b"\0")[0])
    os.pwrite(fd, b"0", 0)
    os.close(fd)
    return error, not left


def loads():
    """Every way out of the constructor."""
    disk = NullBlk("loads", 2)
    dm = DeviceMapper()
    dm.create(NAME)
    run("modprobe", "xcrypt_testcipher")
    always = {"ignore_gfp_wait": "N", "task_filter": "N"}
    with Attribute("failslab", 0, cache_filter="N", **always), \
            Attribute("fail_page_alloc", 0, min_order=0, **always):
        for text, size in LOADS:
            patience(LONG)
            table = table_of(disk, text, key=seeded(text, size).hex())
            dm.load(NAME, table)        # what is allocated once is there
            start = time.monotonic()
            number, errors, good = 1, {}, 0
            while True:
                error, failed = load_failing(dm, table, number)
                if not failed:
                    break
                good += not error
                errors[error] = errors.get(error, 0) + 1
                number += 1 if number < CLOSE else STRIDE
            said = " ".join("%s: %d" % (errno.errorcode.get(e, "fine"), n)
                            for e, n in sorted(errors.items()))
            tap.ok(not error and errors.get(errno.ENOMEM, 0) >= 20 and
                   set(errors) <= {0, errno.ENOMEM},
                   "%s: of %d allocations that failed, one a load: %s (%.0f s)" %
                   (text, sum(errors.values()), said, time.monotonic() - start),
                   "the last was number %d, errno %d" % (number, error))
            dm.resume(NAME)
            dm.clear(NAME)
    dm.remove(NAME, 60)
    disk.remove()


# ---- I/O ----


def stream(mapped, seed, marked):
    """fio with checksums; returns (error, I/Os).  marked: its tasks may fail."""
    fio = Fio(filename=mapped.path, thread=1, ioengine="libaio", direct=1,
              iodepth=8, numjobs=2, size="2M", offset_increment="2M",
              rw="randwrite", bssplit=SIZES, randseed=seed, verify="crc32c",
              verify_fatal=1, do_verify=1, verify_state_save=0)
    last, since = 0, time.monotonic()
    while fio.running():
        if marked:
            may_fail([fio.process.pid])
        now = completed(mapped.disk)[0]
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() - since > LONG:
            return "no I/O for %d s" % LONG, 0
        time.sleep(0.05)
    error, jobs = fio.finish()
    return error, total(jobs, "write") + total(jobs, "read")


def filled(name, megabytes, **attributes):
    """A null_blk that has all its pages: it needs none for a write."""
    disk = NullBlk(name, megabytes, **attributes)
    device = Direct(disk.path, 1 << 20)
    for number in range(megabytes):
        device.write(number << 20, b"x" * (1 << 20))
    device.close()
    return disk


# Who fails, and which allocations.
MOODS = (
    ("who does I/O, without waiting", {"ignore_gfp_wait": "Y", "task_filter": "N"}),
    ("kernel threads, all", {"ignore_gfp_wait": "N", "task_filter": "Y"}),
)


def io():
    """Each order at each probability; the flags and ciphers take turns."""
    disk = filled("faults", 4, irqmode=1, submit_queues=1, completion_nsec=20000)
    flags = ("", "no_read_workqueue no_write_workqueue", "same_cpu_crypt",
             "no_read_workqueue")
    ciphers = ("aes-xts-plain64", "capi:cryptd(xts(ecb(aes-generic)))-plain64",
               "capi:xcrypt-test-xts-plain64")
    cipher_reset(answer="mixed", context="mixed", depth=8)
    number = 0
    for probability in (1, 10):
        for who, filters in MOODS:
            for order in ORDERS:
                patience(3 * LONG)
                number += 1
                how = flags[number % 4], ciphers[number % 3]
                write_order(order)
                one(disk, probability, who, filters, order, how, number)
    cipher_reset()
    disk.remove()


def one(disk, probability, who, filters, order, how, seed):
    """A device, fio, failures."""
    start = time.monotonic()
    with Mapped(NAME, table_of(disk, how[1], how[0])) as mapped:
        slabs = Attribute("failslab", probability, cache_filter="N", **filters)
        pages = Attribute("fail_page_alloc", probability, min_order=0, **filters)
        may_fail(kernel_threads())
        with slabs, pages:
            error, ios = stream(mapped, seed, False)
        may_fail(kernel_threads(), "0")
        mapped.dm.remove(NAME, 60)
        mapped.remove = lambda: None
    injected = slabs.injected + pages.injected
    tap.ok(not error and injected,
           "%d %%, %s, %s, %s: %d I/Os, %d slab and %d page allocations failed "
           "(%.0f s)" % (probability, who, order, " ".join(how).strip(), ios,
                         slabs.injected, pages.injected,
                         time.monotonic() - start),
           error or "nothing was injected")


# ---- the device below ----


def pattern(sector):
    """What belongs in a sector, always."""
    return b"%016d" % sector * 32


def tried(call, *args):
    """(result, errno)"""
    try:
        return call(*args), 0
    except OSError as problem:
        return None, problem.errno


def below():
    """Errors come through, and what is no error is right."""
    disk = filled("below", 2, irqmode=2, completion_nsec=20000)
    for order in ORDERS:
        patience(LONG)
        write_order(order)
        bad, failed, ios = [], 0, 0
        with Mapped(NAME, table_of(disk, "aes-xts-plain64", key=KEY)) as mapped:
            device = Direct(mapped.path, 1 << 20)
            text = b"".join(pattern(s) for s in range(disk.sectors))
            for number in range(2):
                device.write(number << 20, text[number << 20:(number + 1) << 20])
            write("/sys/block/%s/make-it-fail" % disk.disk, "1")
            with Attribute("fail_make_request", 5, task_filter="N"):
                for number in range(200):
                    count = (1, 8, 64, 300, 3)[number % 5]
                    at = number * 37 % (disk.sectors - count) * 512
                    want = text[at:at + count * 512]
                    if number % 2:
                        _, error = tried(device.write, at, want)
                    else:
                        got, error = tried(device.read, at, len(want))
                        if not error and got != want:
                            bad.append("I/O %d: wrong bytes" % number)
                    ios += 1
                    failed += bool(error)
                    if error not in (0, errno.EIO):
                        bad.append("I/O %d: errno %d" % (number, error))
            write("/sys/block/%s/make-it-fail" % disk.disk, "0")
            for number in range(2):
                if device.read(number << 20, 1 << 20) != text[number << 20:(number + 1) << 20]:
                    bad.append("MiB %d is not as it was written" % number)
            device.close()
        tap.ok(not bad and 0 < failed < ios, "below, %s: of %d I/Os %d failed, the "
               "others were right" % (order, ios, failed), "\n".join(bad[:5]))
    disk.remove()


PARTS = {"loads": loads, "io": io, "below": below}


def main():
    """Returns when all cases ran."""
    cpus()
    for name in ("xcrypt_testcipher", "aesni_intel", "cryptd"):
        run("modprobe", name)
    run_parts(tap, PARTS, sys.argv[1:])
    leave(tap)


if __name__ == "__main__":
    main()
