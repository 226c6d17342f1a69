#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tags and stored IVs where it is hard: a cipher that answers late and out of
order, errors, tables that are loaded again, no memory but the reserve.

  integrity_stress.py [PART...]	all parts but the last, or some of:
    matrix	fio with checksums, suspends and reloads: every write order,
		flag and sector size, the kernel's GCM and the test cipher's
    once	a tag that does not fit once, and fits when it is read again
    sectors	tags that never fit, and a cipher that fails otherwise
    keys	sectors that were written with another key, all answers
    leak	many reads and writes that fail in several ways leave no memory behind
    load	now and then one that does not fit, under fio
    reserve	for a module whose metadata comes from the reserve alone, see
		tests/slow/25-integrity-reserve: it must not come to a stop

Below lies dm-integrity on null_blk.  The test cipher is
tests/modules/xcrypt_testcipher.c; what it writes is read by gcm(aes), too.
"""

import errno
import os
import re
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
import fio_verify
from fio_verify import ANSWERS, FLAGS, ORDERS, SIZES, Disturber, Writers, one, wrong
from guestlib import Direct, Failed, read, run, seeded
from iolib import (COUNTERS, Fio, Mapped, NullBlk, cipher_reset, counters,
                   cpus, leave, patience, run_parts, total, write_order)

NAME = "xtagged"
KEY = seeded("integrity_stress", 32).hex()
GCM, TEST = "capi:gcm(aes)-random", "capi:xcrypt-test-gcm-random"
MEGABYTES = 4
tap = fio_verify.tap


class Tagged:
    """dm-integrity, which keeps 28 bytes for each sector."""

    def __init__(self, sector):
        self.disk = NullBlk("tagged", MEGABYTES + 2, irqmode=2, completion_nsec=20000)
        self.sector = sector
        params = "%s 0 28 D 3 journal_sectors:64 interleave_sectors:4096 block_size:%d" % (
            self.disk.path, sector)
        with Mapped("below", [(0, 8, "integrity", params)]):
            pass                        # writes the superblock
        with open(self.disk.path, "rb", buffering=0) as file:
            size = struct.unpack_from("<Q", file.read(512), 16)[0]
        self.below = Mapped("below", [(0, size, "integrity", params)])
        self.path, self.sectors = self.below.path, MEGABYTES * 2048

    def table(self, cipher, flags="", key=KEY):
        """A table over all of it."""
        words = ["integrity:28:aead"] + flags.split()
        if self.sector != 512:
            words.append("sector_size:%d" % self.sector)
        return [(0, self.sectors, fio_verify.TARGET, "%s %s 0 %s 0 %d %s" % (
            cipher, key, self.path, len(words), " ".join(words)))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.below.remove()
        self.disk.remove()


def outcome(mapped):
    """(rechecks, tag_errors)"""
    info = mapped.info()
    return int(info["rechecks"]), int(info["tag_errors"])


def words_of(settings):
    """For people."""
    return " ".join("%s" % value for value in settings.values())


# ---- fio ----

def matrix():
    """Every order, both sizes; flags one by one and together."""
    fio_verify.JOB_MB = 1
    answers, loads = dict.fromkeys(COUNTERS, 0), 0
    cases = [(order, "") for order in ORDERS]
    cases += [("sort", FLAGS.split()[0]), ("fifo", FLAGS.split()[1]), ("inline", FLAGS)]
    for sector in (512, 4096):
        with Tagged(sector) as disk:
            for number, (order, flags) in enumerate(cases):
                test = (number + (sector == 512)) % 2 or bool(flags)
                settings = ANSWERS[(number + (sector == 512) * 3) % len(ANSWERS)] if test else {}
                cipher_reset(**settings)
                write_order(order)
                extra = {"bssplit": "4096/40:8192/20:65536/20:262144/10:1048576/10"}
                got = one(disk.table(TEST if test else GCM, flags), number + sector,
                          "%d, %s, %s, %s %s" % (sector, order, flags or "no flags",
                                                 "test cipher" if test else "gcm",
                                                 words_of(settings)),
                          "inline" if "no_write" in flags else order,
                          **(extra if sector != 512 else {}))
                loads += got.loads
                for name, value in counters(*COUNTERS).items():
                    answers[name] += value
    cipher_reset()
    tap.ok(answers["async"] and answers["backlogged"] and answers["shuffled"],
           "the test cipher answered late, was full, and out of order", answers)
    tap.same(0, answers["sleep_in_atomic"], "no request in atomic context may sleep")
    tap.ok(loads >= 14, "%d reloads during I/O" % loads)


def load():
    """Rare tags that do not fit, each once: fio sees nothing but its data."""
    fio_verify.JOB_MB = 1
    with Tagged(512) as disk:
        for order, settings in (("sort", ANSWERS[3]), ("fifo", ANSWERS[2])):
            patience()
            write_order(order)
            cipher_reset(**settings)
            with Mapped(NAME, disk.table(TEST)) as mapped:
                table = disk.table(TEST)
                disturber = Disturber(mapped, table)
                # A read is at most 16 sectors: of 997 requests in a row no two
                # are of the same read and its repetition.
                cipher_reset(**settings, fail_every=997, fail_errno=errno.EBADMSG,
                             fail_ops=2, fail_async=1)
                fio = Fio(filename=mapped.path, thread=1, ioengine="libaio", direct=1, iodepth=2,
                          numjobs=4, size="1M", offset_increment="1M", rw="randwrite",
                          bssplit="512/40:1024/20:4096/20:8192/20", randseed=5, verify="crc32c",
                          verify_fatal=1, do_verify=1, verify_state_save=0)
                disturber.run(fio, 10)
                problems, jobs = fio.finish()
                injected = counters("injected")["injected"]
            tap.ok(not problems and injected > 4 and total(jobs, "read"),
                   "fio on, %s, %s: %d tags did not fit once, no I/O failed" %
                   (order, words_of(settings), injected), problems)
    cipher_reset()


# ---- what becomes of errors ----

HOW = ({"answer": "sync"}, {"answer": "async", "context": "softirq", "fail_async": 1},
       {"answer": "mixed", "context": "mixed", "depth": 4, "fail_async": 1})


def try_io(call, *args):
    """The errno, or 0."""
    try:
        call(*args)
    except OSError as error:
        return error.errno
    return 0


def once():
    """The same read, with the first tag wrong, with the first two, ..."""
    ebadmsg = {"fail_every": 1, "fail_errno": errno.EBADMSG}
    data = seeded("once", 8192)
    with Tagged(512) as disk:
        for flags in ("", FLAGS):
            for settings in HOW:
                patience()
                text = "%s, %s: " % (words_of(settings), "both flags" if flags else "no flags")
                with Mapped(NAME, disk.table(TEST, flags)) as mapped:
                    device = Direct(mapped.path, 8192)
                    cipher_reset(**settings)
                    device.write(0, data)
                    cipher_reset(**settings, **ebadmsg, fail_most=1, fail_ops=2)
                    tap.same((data, (1, 0)), (device.read(0, 8192), outcome(mapped)),
                             text + "one tag that did not fit: read again, and right")
                    cipher_reset(**settings, **ebadmsg, fail_ops=2)
                    tap.same((errno.EILSEQ, (2, 1)),
                             (try_io(device.read, 0, 8192), outcome(mapped)),
                             text + "tags that never fit: EILSEQ, and counted")
                    tap.same(bytes(8192), device.buf[:8192],
                             text + "and nothing is seen of what was read")
                    cipher_reset(**settings, fail_every=1, fail_ops=2)
                    got = [try_io(device.read, 0, 8192)]
                    cipher_reset(**settings, **ebadmsg, fail_ops=1)
                    got.append(try_io(device.write, 0, bytes(8192)))
                    tap.same(([errno.EIO, errno.EIO], (2, 1)), (got, outcome(mapped)),
                             text + "EIO of a read, EBADMSG of a write: EIO at once")
                    cipher_reset()
                    tap.same(data, device.read(0, 8192), text + "the data is still there")
                    device.close()


def sectors():
    """Of many at once exactly those fail that have a failing sector."""
    every = 97
    with Tagged(512) as disk:
        for number, order in enumerate(ORDERS):
            patience()
            write_order(order)
            settings = dict(HOW[number % len(HOW)])
            flags = FLAGS if number == 2 else ""
            cipher_reset(**settings)
            with Mapped(NAME, disk.table(TEST, flags)) as mapped:
                writers = Writers(mapped.path, disk.sectors)
                bad = wrong(writers.all("write", SIZES), 0)
                cipher_reset(**settings, fail_every=every, fail_sector=1)
                bad += wrong(writers.all("write", SIZES), every)
                cipher_reset(**settings, fail_every=every, fail_sector=1,
                             fail_errno=errno.EBADMSG, fail_ops=2)
                reads = writers.all("read", SIZES[::-1])
                bad += wrong(reads, every, errno.EILSEQ)
                rechecks, tag_errors = outcome(mapped)
                failed = sum(1 for result in reads if result[3])
            cipher_reset()
            with Mapped(NAME, disk.table(GCM, flags)) as mapped:
                bad += wrong(Writers(mapped.path, disk.sectors).all("read", SIZES), 0)
            # a read of ours is at most as long as its metadata: cut, it fails in parts
            tap.ok(not bad and failed and rechecks == tag_errors >= failed,
                   "%s, %s: %d of %d reads failed, exactly those, %d times read again" % (
                       order, words_of(settings), failed, len(reads), rechecks),
                   "\n".join(bad[:10]) + "\n%d, %d" % (rechecks, tag_errors))


def keys():
    """Some sectors have another key's tag."""
    other = seeded("another key", 32).hex()
    with Tagged(512) as disk:
        with Mapped(NAME, disk.table(GCM)) as mapped:
            Writers(mapped.path, disk.sectors).all("write", (2048,))
        with Mapped(NAME, disk.table(GCM, key=other)) as mapped:
            device = Direct(mapped.path, 512)
            for sector in range(0, disk.sectors, 251):
                device.write(sector * 512, fio_verify.pattern(sector, 1))
            device.close()
        for settings in ANSWERS:
            for flags in ("", FLAGS):
                patience()
                cipher_reset(**settings)
                with Mapped(NAME, disk.table(TEST, flags)) as mapped:
                    bad = wrong(Writers(mapped.path, disk.sectors).all("read", SIZES), 251,
                                errno.EILSEQ)
                    tap.ok(not bad, "%s, %s: EILSEQ for exactly the sectors of another key" % (
                        words_of(settings), "both flags" if flags else "no flags"),
                           "\n".join(bad[:10]))
    cipher_reset()


def slabs():
    """Objects of the size that a read of 128 KiB has for its metadata."""
    found = re.findall(r"^kmalloc-(?:rnd-\d+-)?8k +(\d+)", read("/proc/slabinfo"), re.M)
    if not found:
        raise Failed("no kmalloc-8k in /proc/slabinfo")
    return sum(map(int, found))


def leak():
    """Metadata comes back however an I/O ends."""
    rounds, size, at = 120, 128 << 10, 1 << 20
    with Tagged(512) as disk:
        cipher_reset()
        with Mapped(NAME, disk.table(TEST)) as mapped:
            device = Direct(mapped.path, size)
            device.write(at, bytes(size))
            ways = (
                (0, "no error", device.read, {}),
                (errno.EIO, "the cipher's error, read", device.read, {"fail_every": 1}),
                (errno.EIO, "the cipher's error, write", device.write, {"fail_every": 1}),
                (errno.EILSEQ, "tags that do not fit", device.read,
                 {"fail_every": 1, "fail_errno": errno.EBADMSG}),
            )
            for wanted, text, call, settings in ways:
                patience()
                cipher_reset(**settings)
                before = slabs()
                got = {try_io(call, at, bytes(size) if call == device.write else size)
                       for _ in range(rounds)}
                after = slabs()
                tap.ok(got == {wanted} and after - before < rounds // 2,
                       "%s: %d of 128 KiB leave nothing behind" % (text, rounds),
                       "%r, %d objects, %d before" % (got, after, before))
            cipher_reset()
            tap.same(0, try_io(device.read, at, size), "the data is still there")
            device.close()


# ---- no memory ----

def reserve():
    """Many reads that all fail twice, and writes, with 8 buffers of metadata."""
    with Tagged(512) as disk:
        for order in ORDERS:
            for flags in ("", FLAGS):
                patience(150)
                write_order(order)
                cipher_reset(answer="mixed", context="mixed", depth=16)
                with Mapped(NAME, disk.table(TEST, flags)) as mapped:
                    text = "reserve, %s, %s: " % (order, "both flags" if flags else "no flags")
                    fill = Writers(mapped.path, disk.sectors, 8).all("write", (256, 64, 128))
                    cipher_reset(answer="mixed", context="mixed", depth=16, fail_every=1,
                                 fail_ops=2, fail_errno=errno.EBADMSG, fail_async=1)
                    fio = Fio(filename=mapped.path, thread=1, ioengine="libaio", direct=1,
                              iodepth=16, numjobs=4, size="1M", offset_increment="1M",
                              rw="randrw", bssplit="4096/50:16384/50", continue_on_error="all",
                              randseed=7)
                    _, jobs = fio.finish(140)
                    cipher_reset()
                    failed = sum(job["total_err"] for job in jobs)
                    rechecks, tag_errors = outcome(mapped)
                    tap.ok(not wrong(fill, 0) and failed > 100 and
                           rechecks == tag_errors >= failed,
                           text + "%d reads failed twice beside %d writes, and nothing stopped" %
                           (failed, total(jobs, "write")),
                           "%d, %d; %s" % (rechecks, tag_errors, wrong(fill, 0)[:3]))


PARTS = {"once": once, "sectors": sectors, "keys": keys, "leak": leak, "load": load,
         "matrix": matrix}
MORE = {"reserve": reserve}


def main():
    """The parts that were asked for."""
    cpus()
    run("modprobe", "-a", "dm-integrity", "xcrypt_testcipher")
    run("modprobe", "gcm", status=None) # built in, on some kernels
    run_parts(tap, {**PARTS, **MORE}, sys.argv[1:] or PARTS)
    leave(tap)


main()
