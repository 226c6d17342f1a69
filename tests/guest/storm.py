#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""All at once, for a kernel that finds mistakes: fio with checksums while the
table is loaded again in another shape, the device is suspended and resumed,
CPUs leave and come back, other devices come and go, and table lines that make
no sense are refused.

  storm.py [PART...]	all, or some of:
    tables	one mapped device, each of its tables with another write order,
		flags and implementation of the same cipher
    remove	devices that are removed as soon as the last I/O is done, and
		while it is not
    data	IVs that change the data, and other ciphers
    aead	as tables, with tags and IVs beside the sectors, on dm-integrity

A change counts only if I/O was completed before it, since the one before, and
after it.  STORM=N in the environment: N times the usual number of changes, 0.2
at the least; there are too few for all shapes of a table then.
"""

import errno
import glob
import itertools
import os
import random
import struct
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from dmioctl import DeviceMapper
from guestlib import NODEV, Tap, load_module, note, run, seeded, write
from iolib import (Fio, Mapped, NullBlk, cipher_reset, completed, cpus, leave,
                   patience, run_parts, total, write_order)

NAME = "storm"
TIMES = float(os.environ.get("STORM", "1"))
SIZES = ":".join("%d/10" % size for size in (
    512, 1024, 1536, 3072, 4096, 9728, 16384, 65536, 262144, 524288))
ORDERS = ("inline", "offload", "fifo", "sort")
FLAGS = ("", "no_read_workqueue no_write_workqueue", "no_read_workqueue",
         "no_write_workqueue", "same_cpu_crypt", "submit_from_crypt_cpus",
         "same_cpu_crypt submit_from_crypt_cpus")
# The same ciphertext: the fast one that is an asynchronous wrapper, the slow
# one that is synchronous, one that always answers later, one that does as told.
CIPHERS = ("aes-xts-plain64", "capi:xts(ecb(aes-generic))-plain64",
           "capi:cryptd(xts(ecb(aes-generic)))-plain64",
           "capi:xcrypt-test-xts-plain64")
ANSWERS = (
    {"answer": "async", "context": "process", "depth": 0},
    {"answer": "shuffle", "context": "softirq", "depth": 0},
    {"answer": "mixed", "context": "mixed", "depth": 16},
    {"answer": "async", "context": "early", "depth": 1},
)
KEY = seeded("storm", 64).hex()
# The cases that must wait for nothing wait this long, seconds.
LONG = 400

tap = Tap()


def table_of(disk, cipher_text, flags="", key=KEY, option=""):
    """A table over the whole of disk."""
    words = (flags + " " + option).split()
    options = " %d %s" % (len(words), " ".join(words)) if words else ""
    return [(0, disk.sectors, "crypt", "%s %s 0 %s 0%s" %
             (cipher_text, key, disk.path, options))]


def there(disk, ciphers, **rest):
    """Those that this kernel has: 7.3 has no cryptd, and other names.  On the
    others all must be there, and on 7.3 the first."""
    found, dm = [], DeviceMapper()
    for cipher in ciphers:
        dm.create("there")
        try:
            dm.load("there", table_of(disk, cipher, **rest))
            found.append(cipher)
        except OSError as problem:
            lacks = os.environ["VM_KERNEL"] == "7.3" and cipher != ciphers[0]
            if not lacks or problem.errno not in (errno.ENOENT, errno.EINVAL):
                raise
            note("no %s in this kernel" % cipher)
        finally:
            dm.remove("there")
    return tuple(found)


class Stream(threading.Thread):
    """fio, again and again, until it is told to end or finds a wrong byte."""

    def __init__(self, path, megabytes, jobs=3):
        super().__init__(daemon=True)
        self.settings = {
            "filename": path, "thread": 1, "ioengine": "libaio", "direct": 1,
            "iodepth": 8, "numjobs": jobs, "size": "%dM" % (megabytes // jobs),
            "offset_increment": "%dM" % (megabytes // jobs), "rw": "randwrite",
            "bssplit": SIZES, "verify": "crc32c", "verify_fatal": 1,
            "do_verify": 1, "verify_state_save": 0}
        self.rounds = self.writes = self.reads = 0
        self.error = ""
        self.ending = False

    def run(self):
        while not self.ending and not self.error:
            fio = Fio(randseed=self.rounds + 1,
                      verify_backlog=(0, 16)[self.rounds % 2], **self.settings)
            self.error, jobs = fio.finish(LONG)
            self.rounds += 1
            if jobs:
                self.writes += total(jobs, "write")
                self.reads += total(jobs, "read")

    def finish(self):
        """The round that is going on is the last.  Returns the error."""
        self.ending = True
        self.join()
        return self.error


class Hotplug(threading.Thread):
    """CPUs but the first go and come, until it is told to end."""

    def __init__(self):
        super().__init__(daemon=True)
        self.changes = 0
        self.ending = False

    def run(self):
        cpu_files = sorted(glob.glob("/sys/devices/system/cpu/cpu[1-9]*/online"))
        while not self.ending:
            for path in random.sample(cpu_files, len(cpu_files)):
                write(path, "0")
                time.sleep(0.05)
            for path in random.sample(cpu_files, len(cpu_files)):
                write(path, "1")
                time.sleep(0.2)
            self.changes += 2 * len(cpu_files)

    def finish(self):
        """All CPUs are there again.  Returns how many changes there were."""
        self.ending = True
        self.join()
        return self.changes


# What makes no sense, with the errno of each.
NONSENSE = (
    ("aes-xts-plain64 %s 0 %s 0" % ("12" * 63, "{disk}"), errno.EINVAL),
    ("aes-nomode-plain64 %s 0 %s 0" % ("12" * 32, "{disk}"), errno.ENOENT),
    ("aes-xts-plain64 %s x %s 0" % ("12" * 64, "{disk}"), errno.EINVAL),
    ("aes-xts-noiv %s 0 %s 0" % ("12" * 64, "{disk}"), errno.EINVAL),
    ("aes-xts-plain64 %s 0 /dev/nothing 0" % ("12" * 64), NODEV),
    ("aes-xts-plain64 %s 0 %s 0 1 sector_size:513" % ("12" * 64, "{disk}"), errno.EINVAL),
    ("aes-cbc-tcw %s 0 %s 0" % ("12" * 16, "{disk}"), errno.EINVAL),
    ("aes-xts-plain64 :64:logon:none 0 %s 0" % "{disk}", errno.ENOKEY),
    ("aes-xts-plain64 %s 0 %s 0 9 allow_discards" % ("12" * 64, "{disk}"), errno.EINVAL),
)


class Refused(threading.Thread):
    """Loads tables that make no sense, until it is told to end."""

    def __init__(self, disk):
        super().__init__(daemon=True)
        self.disk = disk
        self.loads = 0
        self.wrong = []
        self.ending = False

    def run(self):
        dm = DeviceMapper()
        dm.create("nonsense")
        while not self.ending:
            text, wanted = NONSENSE[self.loads % len(NONSENSE)]
            got = 0
            try:
                dm.load("nonsense", [(0, 8, "crypt", text.format(disk=self.disk.path))])
            except OSError as problem:
                got = problem.errno
            if got != wanted:
                self.wrong.append("%s: errno %d, wanted %d" % (text[:30], got, wanted))
            self.loads += 1
            time.sleep(0.1)
        dm.remove("nonsense")

    def finish(self):
        """Returns what was not refused as it should be."""
        self.ending = True
        self.join()
        return self.wrong


def cards(*suits):
    """Tuples of one of each suit, at random, but none comes again before all
    others had their turn."""
    while True:
        deck = list(itertools.product(*suits))
        random.shuffle(deck)
        yield from deck


class Variants:
    """Shapes of a table."""

    def __init__(self, ciphers):
        self.shapes = cards(ORDERS, FLAGS)
        self.ciphers = cards(ciphers)
        self.answers = cards(ANSWERS)

    def deal(self):
        """The next: (order, flags, cipher); sets the test cipher's mood."""
        cipher_reset(**next(self.answers)[0])
        return next(self.shapes) + next(self.ciphers)


def wait_io(mapped, since, stream):
    """Until an I/O completed after that many; None if the stream ended."""
    while stream.is_alive():
        now, flying = completed(mapped.disk)
        if now > since:
            return now, flying
        time.sleep(0.02)
    return None


def change(mapped, disk, stream, seen, variants, rest):
    """One table after the other.  Returns whether I/O went on after it."""
    before = wait_io(mapped, completed(mapped.disk)[0], stream)
    if not before:
        return False
    order, flags, cipher = variants.deal()
    write_order(order)
    mapped.load(table_of(disk, cipher, flags, **rest))
    mapped.suspend()
    done = completed(mapped.disk)[0]
    mapped.resume()
    after = wait_io(mapped, done, stream)
    if not after:
        return False
    # the flags that submit where they encrypt leave nothing to order
    got = mapped.info()["write_order"]
    for key in (got, flags, cipher):
        seen[key] = seen.get(key, 0) + 1
    seen["busy"] = seen.get("busy", 0) + (before[1] > 0)
    return True


def tables():
    """Over a disk that completes in softirq, and in hard irq."""
    for irqmode in (1, 2):
        disk = NullBlk("storm%d" % irqmode, 12, irqmode=irqmode,
                       completion_nsec=20000, submit_queues=irqmode)
        storm("irqmode %d" % irqmode, disk, CIPHERS, int(40 * TIMES))
        disk.remove()


def storm(text, disk, ciphers, wanted, **rest):
    """The storm itself, with so many changes."""
    ciphers = there(disk, ciphers, **rest)
    seen, changes, variants = {}, 0, Variants(ciphers)
    start = time.monotonic()
    with Mapped(NAME, table_of(disk, ciphers[0], **rest)) as mapped:
        stream = Stream(mapped.path, disk.sectors // 2048)
        hotplug, refused = Hotplug(), Refused(disk)
        for thread in (stream, hotplug, refused):
            thread.start()
        while changes < wanted and stream.is_alive():
            patience(LONG)
            changes += change(mapped, disk, stream, seen, variants, rest)
        patience(LONG)
        toggles, wrong = hotplug.finish(), refused.finish()
        error = stream.finish()
        remove(mapped)
    cipher_reset()
    tap.ok(not error and stream.rounds, "%s: %d rounds of fio, %d writes, %d "
           "reads, every byte as it was written" %
           (text, stream.rounds, stream.writes, stream.reads), error)
    tap.ok(changes >= wanted, "%s: %d changes of table with I/O before and "
           "after, %d with I/O in flight" % (text, changes, seen.get("busy", 0)), seen)
    missing = [key for key in ORDERS + FLAGS + ciphers if not seen.get(key)]
    if wanted >= len(ORDERS) * len(FLAGS):
        tap.ok(not missing, "%s: each write order, flag and cipher had its turn" %
               text, "none of: %r" % missing)
    tap.ok(toggles >= min(20, wanted / 2), "%s: CPUs went and came %d times" % (text, toggles))
    tap.ok(refused.loads >= min(10, wanted) and not wrong, "%s: %d tables without sense were "
           "refused meanwhile" % (text, refused.loads), "\n".join(wrong[:5]))
    note("%s took %.0f s" % (text, time.monotonic() - start))


def remove(mapped):
    """As Mapped does at its end, but with more patience.  It may come twice."""
    mapped.dm.remove(mapped.name, 60)
    mapped.remove = lambda: None


def removals():
    """The last I/O is hardly done when the device goes."""
    disk = NullBlk("remove", 4, irqmode=2, completion_nsec=20000)
    hotplug, variants = Hotplug(), Variants(there(disk, CIPHERS))
    hotplug.start()
    ios = busy = 0
    start = time.monotonic()
    for number in range(int(24 * TIMES)):
        patience(LONG)
        order, flags, cipher = variants.deal()
        write_order(order)
        with Mapped(NAME, table_of(disk, cipher, flags)) as mapped:
            # One job and one pass if it is to be caught at it: another job, or
            # fio for another pass, might open what is gone.
            shape = ({"numjobs": 1, "size": "4M"} if number % 2 else
                     {"numjobs": 2, "size": "2M", "offset_increment": "2M", "io_size": "512k"})
            fio = Fio(filename=mapped.path, thread=1, ioengine="libaio", direct=1,
                      iodepth=16, rw="randwrite", bssplit=SIZES, randseed=number, **shape)
            while fio.running() and not completed(mapped.disk)[1]:
                time.sleep(0.01)
            if number % 2:
                # it goes when fio closes it, from that very close
                busy += fio.running()
                run("dmsetup", "remove", "--deferred", NAME)
                mapped.remove = lambda: None
                errors, jobs = fio.finish(LONG)
                wait_gone(mapped)
            else:
                errors, jobs = fio.finish(LONG)
                remove(mapped)
        ios += total(jobs, "write") if jobs else 0
        if errors:
            tap.ok(False, "remove %d: %s %s %s" % (number, order, flags, cipher), errors)
    toggles = hotplug.finish()
    cipher_reset()
    tap.ok(ios >= 24 * TIMES and busy >= int(6 * TIMES), "remove: %d devices, %d I/Os, "
           "%d removed by the last close; CPUs changed %d times" %
           (24 * TIMES, ios, busy, toggles))
    note("remove took %.0f s" % (time.monotonic() - start))
    disk.remove()


def wait_gone(mapped):
    """Until the device is no more."""
    while os.path.exists("/sys/block/" + mapped.disk):
        time.sleep(0.02)


# Name, bytes of key: hooks around the cipher, several keys, another cipher.
DATA = (
    ("serpent-xts-plain64", 64), ("twofish-cbc-essiv:sha256", 32),
    ("aes-cbc-tcw", 64), ("aes:64-cbc-lmk", 65 * 16), ("aes-cbc-eboiv", 32),
    ("aes-cbc-elephant", 64), ("aes-lrw-benbi", 48),
    ("capi:adiantum(xchacha12,aes)-plain64", 32),
)


def data():
    """Other formats, with reloads that change order and flags alone."""
    disk = NullBlk("data", 6, irqmode=1, completion_nsec=20000, submit_queues=1)
    for text, size in DATA:
        key = seeded(text, size).hex()
        changes, start = 0, time.monotonic()
        with Mapped(NAME, table_of(disk, text, key=key)) as mapped:
            stream = Stream(mapped.path, 6, jobs=2)
            stream.start()
            while changes < int(6 * TIMES) and stream.is_alive():
                patience(LONG)
                if not wait_io(mapped, completed(mapped.disk)[0], stream):
                    break
                write_order(random.choice(ORDERS))
                mapped.load(table_of(disk, text, random.choice(FLAGS), key))
                mapped.suspend()
                mapped.resume()
                changes += 1
            error = stream.finish()
            remove(mapped)
        tap.ok(not error and changes >= int(6 * TIMES), "%s: %d writes, %d changes of "
               "table (%.0f s)" % (text, stream.writes, changes,
                                   time.monotonic() - start), error)
    disk.remove()


class Tagged:
    """A dm-integrity device that leaves its metadata to whoever is above."""

    def __init__(self, name, size):
        self.disk = NullBlk(name, 16, irqmode=2, completion_nsec=20000)
        self.dm, self.name, self.sectors = DeviceMapper(), name, 8
        self.params = ("%s 0 %d D 3 journal_sectors:64 interleave_sectors:4096 "
                       "block_size:512" % (self.disk.path, size))
        # the first start writes the superblock, which tells how much is free
        self.start()
        self.dm.remove(name, 60)
        with open(self.disk.path, "rb") as file:
            self.sectors = struct.unpack_from("<Q", file.read(512), 16)[0]
        self.sectors -= self.sectors % 6144
        self.start()

    def start(self):
        """Makes the device."""
        self.path = "/dev/dm-%d" % self.dm.create(self.name)
        self.dm.load(self.name, [(0, self.sectors, "integrity", self.params)])
        self.dm.resume(self.name)

    def remove(self):
        """All of it."""
        self.dm.remove(self.name, 60)
        self.disk.remove()


# Bytes of key and of what is kept for a sector; the fast cipher and the slow
# one.  (None that answers later: cryptd(..) of an AEAD fails its self-test in 6.1.)
AEADS = (
    (32, 28, ("capi:gcm(aes)-random",
              "capi:gcm_base(ctr(aes-generic),ghash-generic)-random")),
    (96, 48, ("capi:authenc(hmac(sha256),xts(aes))-random",
              "capi:authenc(hmac(sha256-generic),xts(ecb(aes-generic)))-random")),
)


def aead():
    """Tags and IVs beside the sectors."""
    for key_size, size, ciphers in AEADS:
        below = Tagged("tagged", size)
        storm(ciphers[0], below, ciphers, int(30 * TIMES),
              key=seeded("aead", key_size).hex(), option="integrity:%d:aead" % size)
        below.remove()


PARTS = {"tables": tables, "remove": removals, "data": data, "aead": aead}


def main():
    """Returns when all cases ran."""
    cpus()
    seed = int(os.environ.get("SEED", "1"))
    random.seed(seed)
    note("SEED=%d" % seed)
    run("modprobe", "-a", "xcrypt_testcipher", "aesni_intel")
    load_module("cryptd")
    run_parts(tap, PARTS, sys.argv[1:])
    leave(tap)


if __name__ == "__main__":
    main()
