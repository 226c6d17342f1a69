#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""fio with checksums through every road of a bio, while the device is
suspended, resumed and gets its table loaded again.

  fio_verify.py [--in-tree] [PART...]	all parts, or some of:
    matrix1, matrix2	every write order, with and without the flags of
			dm-crypt, synchronous and asynchronous cipher, on
			null_blk with irqmode 1 or 2
    cryptd		the kernel's own asynchronous cipher, with a queue that
			is nearly always full; boot the guest with
			cryptd.cryptd_max_cpu_qlen=4
    reserve		writes that wait for the pages of other writes
    hooks		IVs that change the data, with an asynchronous cipher
    errors		a cipher that fails now and then

With --in-tree the kernel's own dm-crypt is tested, for comparison.

A suspend, resume or load counts as one during I/O only if I/Os completed
before it, since the one before, and again after it.
"""

import os
import re
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Direct, Tap, load_module, note, run, seeded, use_intree
from iolib import (COUNTERS, Fio, Mapped, NullBlk, cipher_reset, completed,
                   counters, cpus, leave, patience, run_parts, total,
                   write_order)

NAME = "xverify"
KEY = seeded("fio_verify", 64).hex()
TARGET = "crypt"
INTREE = "--in-tree" in sys.argv    # what fails there too is not ours
FLAGS = "no_read_workqueue no_write_workqueue"
TEST_XTS = "capi:xcrypt-test-xts-plain64"
ORDERS = ("inline", "offload", "fifo", "sort")
JOBS = 4
JOB_MB = 2
# Of 512 B to 1 MiB, each as likely; a plain range would be big ones only.
SIZES_SPLIT = ":".join("%d/10" % size for size in (
    512, 1024, 1536, 3072, 4096, 9728, 16384, 65536, 262144, 1048576))
# What the test cipher does, one of them a run: each kind of answer meets each
# order and both kinds of flags in the course of the test.
ANSWERS = (
    {"answer": "async", "context": "process", "depth": 0},
    {"answer": "shuffle", "context": "softirq", "depth": 0},
    {"answer": "async", "context": "softirq", "depth": 8},
    {"answer": "mixed", "context": "mixed", "depth": 16},
    {"answer": "shuffle", "context": "process", "depth": 4},
    {"answer": "async", "context": "early", "depth": 1},
)

tap = Tap()


def table_of(disk, cipher_text, flags="", key=KEY):
    """A table over the whole of disk, which may be a mapped device."""
    words = flags.split()
    options = " %d %s" % (len(words), flags) if words else ""
    return [(0, disk.sectors, TARGET, "%s %s 0 %s 0%s" %
             (cipher_text, key, disk.path, options))]


class Disturber:
    """Suspends, resumes and reloads while fio runs, and counts."""

    def __init__(self, mapped, table):
        self.mapped, self.table = mapped, table
        self.suspends = self.loads = self.busy = 0

    def run(self, fio, most=40):
        """Until fio ends or `most` cycles are done."""
        last = completed(self.mapped.disk)[0]
        pending = None              # a cycle that I/O must follow to count
        cycles = 0
        while fio.running() and cycles < most:
            time.sleep(0.03)
            now, flying = completed(self.mapped.disk)
            if now == last:
                continue
            if pending:
                self.suspends += 1
                self.loads += pending["load"]
                self.busy += pending["flying"]
            pending = {"load": cycles % 3 < 2, "flying": flying > 0}
            if pending["load"]:
                self.mapped.load(self.table)
            self.mapped.suspend()
            last = completed(self.mapped.disk)[0]
            self.mapped.resume()
            cycles += 1


def verify(mapped, table, seed, **extra):
    """One fio run with cycles; returns (errors, disturber, ios)."""
    disturber = Disturber(mapped, table)
    settings = {"filename": mapped.path, "thread": 1,
                "ioengine": "libaio", "direct": 1, "iodepth": 8,
                "numjobs": JOBS, "size": "%dM" % JOB_MB,
                "offset_increment": "%dM" % JOB_MB, "rw": "randwrite",
                "bssplit": SIZES_SPLIT, "randseed": seed, "verify": "crc32c",
                "verify_fatal": 1, "do_verify": 1, "verify_state_save": 0}
    settings.update(extra)
    fio = Fio(**settings)
    disturber.run(fio)
    errors, jobs = fio.finish()
    ios = total(jobs, "write"), total(jobs, "read")
    written = total(jobs, "write", "io_bytes")
    if not errors and (written < JOBS * JOB_MB << 20 or not ios[1]):
        errors = "fio wrote %d bytes and read %d times" % (written, ios[1])
    return errors, disturber, ios


def one(table, seed, text, wanted_order, **extra):
    """A device, fio on it, one case."""
    start = time.monotonic()
    patience()
    with Mapped(NAME, table) as mapped:
        order = mapped.info().get("write_order")
        errors, disturber, ios = verify(mapped, table, seed, **extra)
    if order != wanted_order and not INTREE:
        errors += " write_order is %s, not %s" % (order, wanted_order)
    tap.ok(not errors, "%s: %d writes, %d reads, during them %d suspends and "
           "resumes, %d reloads (%.0f s)" %
           (text, *ios, disturber.suspends, disturber.loads,
            time.monotonic() - start), errors)
    return disturber


def matrix(irqmode):
    """All orders, flags, kinds of answer."""
    # One hardware queue: irqmode 1 then completes in softirq, not at once.
    disk = NullBlk("verify%d" % irqmode, JOBS * JOB_MB, irqmode=irqmode,
                   completion_nsec=20000, submit_queues=1 if irqmode == 1 else 2)
    run("modprobe", "xcrypt_testcipher")
    totals = {"suspends": 0, "loads": 0, "busy": 0}
    answers = dict.fromkeys(COUNTERS, 0)
    seed = number = 0
    for flags in ("", FLAGS):
        for order in ORDERS:
            for text in ("aes-xts-plain64", TEST_XTS):
                seed += 1
                cipher_reset()
                how = ""
                if text == TEST_XTS:
                    # other answers meet other orders with the other irqmode
                    answer = ANSWERS[(number * 5 + 2 * irqmode) % len(ANSWERS)]
                    number += 1
                    cipher_reset(**answer)
                    how = " " + " ".join("%s" % v for v in answer.values())
                write_order(order)
                extra = {"verify_backlog": 16} if seed % 3 == 0 else {}
                got = one(table_of(disk, text, flags), seed + 100 * irqmode,
                          "irqmode %d, %s, %s%s%s" %
                          (irqmode, order, "both flags" if flags else "no flags",
                           ", test cipher" if how else "", how),
                          "inline" if flags else order, **extra)
                for key in totals:
                    totals[key] += getattr(got, key)
                used(answers, text)
    # A write that queues behind no flag, a read that is decrypted in softirq.
    for flag in FLAGS.split():
        cipher_reset(answer="mixed", context="mixed", depth=8)
        write_order("sort")
        got = one(table_of(disk, TEST_XTS, flag), 90, "irqmode %d, sort, %s, "
                  "test cipher mixed mixed 8" % (irqmode, flag),
                  "sort" if flag == "no_read_workqueue" else "inline")
        for key in totals:
            totals[key] += getattr(got, key)
        used(answers, TEST_XTS)
    cipher_reset()
    disk.remove()
    tap.ok(answers["async"] and answers["backlogged"] and answers["shuffled"],
           "irqmode %d: the test cipher answered late, was full, and out of order"
           % irqmode, answers)
    if irqmode == 1:
        tap.ok(answers["atomic"], "irqmode 1: reads were decrypted in softirq")
    tap.same(0, answers["sleep_in_atomic"],
             "irqmode %d: no request in atomic context may sleep" % irqmode)
    note("irqmode %d, during I/O: %d suspends, %d resumes, %d reloads; %d of "
         "these with I/O in flight at that moment" %
         (irqmode, totals["suspends"], totals["suspends"], totals["loads"],
          totals["busy"]))
    tap.ok(totals["suspends"] >= 50 and totals["loads"] >= 50,
           "irqmode %d: at least 50 of each during I/O: %d suspends and "
           "resumes, %d reloads" % (irqmode, totals["suspends"], totals["loads"]))


def used(answers, text):
    """Adds the counters of the test cipher to answers, if it was used."""
    if text == TEST_XTS:
        got = counters(*COUNTERS)
        note("  " + " ".join("%s=%d" % item for item in got.items()))
        for name, value in got.items():
            answers[name] += value


def cryptd():
    """cryptd's queue, made so short that it is full most of the time."""
    if not load_module("cryptd"):
        tap.skip("cryptd's queue is short", "this kernel has no cryptd")
        return
    # The parameter is the kernel command line's business: the module has been
    # loaded for long, and can't be asked.
    said = re.findall(r"cryptd: max_cpu_qlen set to (\d+)", run("dmesg"))
    tap.same(["4"], said, "cryptd's queue is short")
    disk = NullBlk("cryptd", JOBS * JOB_MB, irqmode=2, completion_nsec=20000)
    for order in ORDERS:
        for flags in ("", FLAGS):
            write_order(order)
            one(table_of(disk, "capi:cryptd(xts(ecb(aes-generic)))-plain64", flags),
                300, "cryptd, %s, %s" % (order, "both flags" if flags else "no flags"),
                "inline" if flags else order)
    disk.remove()


# ---- more writes than there are pages ----


def reserve():
    """Writes of 1 MiB wait for pages that the writes before them hold, which
    in mode fifo may be held up themselves."""
    megabytes = 32
    disk = NullBlk("reserve", megabytes, irqmode=2, submit_queues=1)
    share = max(os.sysconf("SC_PHYS_PAGES") * 2 // 100, 4096)
    for order in ORDERS:
        patience()
        write_order(order)
        peak, held, still = 0, not INTREE, 0
        # The disk takes nothing until the share is used up, and then for as
        # long as it takes to see that no write gets more.
        with Mapped("gate", [(0, disk.sectors, "linear", disk.path + " 0")]) as gate, \
                Mapped(NAME, table_of(gate, "aes-xts-plain64")) as mapped:
            if held:
                gate.suspend()
            fio = Fio(filename=mapped.path, thread=1, ioengine="libaio", direct=1,
                      iodepth=megabytes // 2, numjobs=2, size="%dM" % (megabytes // 2),
                      offset_increment="%dM" % (megabytes // 2), rw="write", bs="1M",
                      verify="crc32c", do_verify=1, verify_fatal=1, verify_state_save=0)
            while fio.running():
                pages = int(mapped.info().get("pages", 0))
                # the reserve, 256 pages, is counted, and a write takes as many
                still = still + 1 if pages >= share - 512 and pages <= peak else 0
                peak = max(peak, pages)
                if held and still == 50:
                    held = False
                    gate.resume()
                time.sleep(0.02)
            problems, _ = fio.finish()
            rest = int(mapped.info().get("pages", 0))
        tap.ok(not problems and not held and peak <= share + 512 < megabytes * 256,
               "reserve, %s: %d MiB of writes got by with %d pages, the share is %d" %
               (order, megabytes, peak, share), "%s; at the end %d" % (problems, rest))
        tap.ok(INTREE or rest <= 256, "reserve, %s: the pages came back" % order, rest)
    disk.remove()


# ---- what the IV does beside the cipher ----

# Plain name, the same with the test cipher, bytes of key: hooks before and
# after the cipher, for reads and for writes, and none.
HOOKS = (
    ("aes-xts-plain64", TEST_XTS, 64),
    ("aes-cbc-tcw", "capi:xcrypt-test-cbc-tcw", 64),
    ("aes:64-cbc-lmk", "capi:xcrypt-test-cbc-lmk", 65 * 16),
    ("aes-cbc-eboiv", "capi:xcrypt-test-cbc-eboiv", 32),
    ("aes-cbc-elephant", "capi:xcrypt-test-cbc-elephant", 64),
)


def hooks():
    """The asynchronous road ends in the same bytes as the synchronous one."""
    run("modprobe", "xcrypt_testcipher")
    disk = NullBlk("hooks", 2, irqmode=1, completion_nsec=20000, submit_queues=1)
    sizes = (3, 64, 1, 17, 256, 8)
    write_order("sort")
    for plain, test, size in HOOKS:
        for flags in ("", FLAGS):
            patience()
            key = seeded("hooks", size).hex()
            sums, bad = {}, []
            for writer, reader in ((plain, test), (test, plain), (test, test)):
                cipher_reset(answer="mixed", context="mixed", depth=16)
                with Mapped(NAME, table_of(disk, writer, flags, key)) as mapped:
                    bad += wrong(Writers(mapped.path, disk.sectors).all("write", sizes), 0)
                sums[writer] = lower_sums(disk)
                with Mapped(NAME, table_of(disk, reader, flags, key)) as mapped:
                    bad += wrong(Writers(mapped.path, disk.sectors).all("read", sizes[::-1]), 0)
            cipher_reset()
            tap.ok(not bad and sums[plain] == sums[test],
                   "%s, %s: asynchronous and synchronous are the same" %
                   (plain, "both flags" if flags else "no flags"),
                   "\n".join(bad[:10]) or "the bytes below differ")
    disk.remove()


# ---- errors ----


class Writers:
    """Threads that write and read chosen places; each remembers what failed."""

    def __init__(self, path, sectors, count=4):
        self.path, self.count = path, count
        self.room = sectors // count
        self.results = []           # (op, sector, sectors, errno)

    def one(self, number, op, sizes):
        """One thread: walks its part of the device once."""
        device = Direct(self.path, 1 << 20)
        sector, n = number * self.room, 0
        end = sector + self.room
        while sector < end:
            count = min(sizes[(n + number) % len(sizes)], end - sector)
            n += 1
            error = 0
            try:
                if op == "write":
                    device.write(sector * 512, pattern(sector, count))
                else:
                    got = device.read(sector * 512, count * 512)
                    if got != pattern(sector, count):
                        error = -1
            except OSError as problem:
                error = problem.errno
            self.results.append((op, sector, count, error))
            sector += count
        device.close()

    def all(self, op, sizes):
        """All threads; returns the results of this pass."""
        self.results = []
        threads = [threading.Thread(target=self.one, args=(i, op, sizes))
                   for i in range(self.count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.results


def pattern(sector, count):
    """What belongs in these sectors: no two are alike."""
    return b"".join(b"%016d" % s * 32 for s in range(sector, sector + count))


SIZES = (1, 8, 3, 256, 2, 64, 17, 2048, 8, 128)


def wrong(results, every, expect_errno=5):
    """Results that are not as every-th sectors failing would have it."""
    bad = []
    for op, sector, count, error in results:
        hit = every and -(-sector // every) * every < sector + count
        if error != (expect_errno if hit else 0):
            bad.append("%s of %d sectors at %d: %s, wanted %s" %
                       (op, count, sector, error, "EIO" if hit else "none"))
    return bad


def errors_by_sector(disk, order, flags, settings):
    """Exactly the I/Os that have a failing sector fail, of many at once."""
    every = 97
    patience()
    write_order(order)
    cipher_reset()
    text = "errors, %s, %s, %s" % (order, "both flags" if flags else "no flags",
                                   " ".join("%s" % v for v in settings.values()))
    with Mapped(NAME, table_of(disk, TEST_XTS, flags)) as mapped:
        writers = Writers(mapped.path, disk.sectors)
        clean = wrong(writers.all("write", SIZES), 0)
        before = lower_sums(disk)

        cipher_reset(**settings, fail_every=every, fail_sector=1)
        writes = writers.all("write", SIZES)
        bad = wrong(writes, every)
        # the same bytes were there before: nothing else may be below now
        if lower_sums(disk) != before:
            bad.append("what is below the device changed")
        reads = writers.all("read", SIZES[::-1])
        bad += wrong(reads, every)
        got = counters("injected", "sleep_in_atomic")
        cipher_reset()
        bad += wrong(writers.all("read", SIZES), 0)
    failed = [sum(1 for r in results if r[3]) for results in (writes, reads)]
    tap.ok(not clean and not bad and all(failed) and got["injected"] and
           not got["sleep_in_atomic"],
           "%s: %d of %d writes and %d of %d reads failed, exactly those" %
           (text, failed[0], len(writes), failed[1], len(reads)),
           "\n".join((clean + bad)[:10]) + "\n%s" % got)


def lower_sums(disk):
    """What the lower device holds, as a list of hashes."""
    lower = Direct(disk.path, 1 << 20)
    sums = [hash(lower.read(i << 20, 1 << 20)) for i in range(disk.sectors // 2048)]
    lower.close()
    return sums


def errors_by_count(disk, order, settings):
    """One I/O after the other: those in which a Kth request fell fail."""
    patience()
    write_order(order)
    cipher_reset()
    bad, failed, sector = [], 0, 0
    with Mapped(NAME, table_of(disk, TEST_XTS)) as mapped:
        device = Direct(mapped.path, 1 << 20)
        cipher_reset(**settings, fail_every=37)
        for n in range(80):
            count = SIZES[n % len(SIZES)]
            if sector + count > disk.sectors:
                sector = 0
            before = counters("injected")["injected"]
            error = 0
            try:
                if n % 3 == 2:
                    device.read(sector * 512, count * 512)
                else:
                    device.write(sector * 512, pattern(sector, count))
            except OSError as problem:
                error = problem.errno
            hit = counters("injected")["injected"] > before
            failed += hit
            if error != (5 if hit else 0):
                bad.append("I/O %d of %d sectors: errno %d, injected %s" %
                           (n, count, error, hit))
            sector += count
        cipher_reset()
        device.close()
    tap.ok(not bad and 0 < failed < 80,
           "every 37th request, %s, %s: %d of 80 I/Os failed, exactly those" %
           (order, " ".join("%s" % v for v in settings.values()), failed),
           "\n".join(bad[:10]))


def errors_under_load(disk, order):
    """fio goes on past errors; the device must be suspendable and removable."""
    patience()
    write_order(order)
    cipher_reset()
    table = table_of(disk, TEST_XTS)
    with Mapped(NAME, table) as mapped:
        cipher_reset(answer="mixed", context="mixed", depth=8, fail_every=501,
                     fail_async=1)
        fio = Fio(filename=mapped.path, thread=1, ioengine="libaio",
                  direct=1, iodepth=16, numjobs=4, size="2M",
                  offset_increment="2M", rw="randrw", bssplit=SIZES_SPLIT,
                  continue_on_error="all", randseed=7)
        Disturber(mapped, table).run(fio, 10)
        _, jobs = fio.finish()
        seen = sum(job["total_err"] for job in jobs)
        injected = counters("injected")["injected"]
        cipher_reset()
        mapped.suspend()
        mapped.resume()
    tap.ok(0 < seen <= injected, "fio on, %s: %d I/Os failed of %d requests that "
           "did, and the device could be removed" % (order, seen, injected))


def errors():
    """Injected errors: exact, and survived."""
    run("modprobe", "xcrypt_testcipher")
    # whose reads complete in softirq, and in hard irq
    disks = [NullBlk("errors1", 4, irqmode=1, submit_queues=1),
             NullBlk("errors2", 4, irqmode=2, completion_nsec=20000)]
    for settings in ({"answer": "sync"}, {"answer": "async", "fail_async": 1}):
        errors_by_count(disks[0], "sort", settings)
    errors_by_count(disks[1], "fifo",
                    {"answer": "mixed", "context": "mixed", "fail_async": 1})
    for number, order in enumerate(ORDERS):
        disk = disks[number % 2]
        for flags in ("", FLAGS):
            settings = ({"answer": "sync", "fail_async": 0},
                        {"answer": "shuffle", "context": "softirq", "fail_async": 1},
                        {"answer": "mixed", "context": "mixed", "fail_async": 0, "depth": 8},
                        {"answer": "async", "context": "early", "fail_async": 1, "depth": 2})
            errors_by_sector(disk, order, flags,
                             settings[(number + bool(flags)) % len(settings)])
        errors_under_load(disk, order)
    for disk in disks:
        disk.remove()


PARTS = {"matrix1": lambda: matrix(1), "matrix2": lambda: matrix(2),
         "cryptd": cryptd, "reserve": reserve, "hooks": hooks, "errors": errors}


def main():
    """Returns when all cases ran."""
    cpus()
    if INTREE:
        use_intree()
    run_parts(tap, PARTS, [a for a in sys.argv[1:] if a != "--in-tree"])
    leave(tap)


if __name__ == "__main__":
    main()
