#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Zoned devices under both modules: in-tree is `crypt`, ours is `xcrypt`.

  zoned.py [PART...]    all parts, or some of limits, bytes, order, append,
                        memory, errors, files

A zone takes a write at its write pointer and nowhere else, so the disk itself
says whether the order was kept: what is too early or too late fails.  What was
written is then read back through in-tree dm-crypt, or compared with what
in-tree writes of the same data.
"""

import mmap
import os
import re
import struct
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Direct, Failed, Tap, note, read, run, seeded, use_both, write
from iolib import (MODULE, Fio, Mapped, NullBlk, cipher_reset, counters, cpus,
                   leave, patience, to_its_end, write_order)

KIB, MIB = 1 << 10, 1 << 20
ZONE = 4 * MIB
ZONES = 20
CONVENTIONAL = 2                        # the first ones
KEY = seeded("zoned", 64).hex()
TEST_CIPHER = "capi:xcrypt-test-xts-plain64"
APPEND = "/sys/module/xcrypt_append/parameters/"
MODES = ("inline", "offload", "fifo", "sort")
CUT_BY_CORE = os.environ["VM_KERNEL"] != "6.1"  # as dm-xcrypt's zoned.c has it
# What one clone holds; in-tree of 6.1 does not say so, and fails for it.
CAPPED = {"max_hw_sectors_kb": 1024, "max_sectors_kb": 1024,
          "zone_append_max_bytes": MIB}
# In-tree of 6.1 wants a segment for each page; no write fails for longer ones.
NOT_COMPARED = () if CUT_BY_CORE else ("max_segment_size",)

tap = Tap()


# ---- devices ----

def zoned_disk(name="zoned", zones=ZONES, **attributes):
    """A host-managed null_blk."""
    return NullBlk(name, zones * ZONE // MIB, **{
        "zoned": 1, "zone_size": ZONE // MIB, "zone_nr_conv": CONVENTIONAL,
        "max_sectors": ZONE // 512,     # or it would limit writes before we do
        **attributes})


def scsi_disk(*params):
    """A scsi_debug: (kernel name, sectors)."""
    run("modprobe", "sd_mod")
    before = set(os.listdir("/sys/block"))
    run("modprobe", "scsi_debug", "dev_size_mb=64", "sector_size=512", "max_luns=1", *params)
    # the probe is asynchronous, and nobody makes device nodes but devtmpfs
    for _ in range(200):
        found = [disk for disk in set(os.listdir("/sys/block")) - before
                 if os.path.exists("/dev/" + disk) and read("/sys/block/%s/size" % disk) != "0"]
        if found:
            return found[0], int(read("/sys/block/%s/size" % found[0]))
        run("sleep", "0.1")
    raise Failed("scsi_debug made no disk")


def mapping(target, path, sectors, start=0, options=(), cipher="aes-xts-plain64"):
    """A Mapped device of the target, over sectors from start on."""
    words = "".join(" " + word for word in options)
    return Mapped("z" + target, [(0, sectors, target, "%s %s 0 %s %d%s" % (
        cipher, KEY, path, start, " %d%s" % (len(options), words) if options else ""))])


def ours(disk, **settings):
    """All of disk, by us."""
    return mapping("xcrypt", disk.path, disk.sectors, **settings)


def intree(disk, **settings):
    """All of disk, by in-tree."""
    return mapping("crypt", disk.path, disk.sectors, **settings)


def reset(path, zone=None):
    """A zone, or all of them that have a write pointer."""
    where = [] if zone is None else ["-o", zone * ZONE // 512, "-c", 1]
    run("blkzone", "reset", *where, path)


def report(path):
    """What blkzone says of each zone: [(start, length, pointer, condition)]"""
    return re.findall(r"start: (\w+), len (\w+),.* wptr (\w+) .*zcond: *(\d+)",
                      run("blkzone", "report", path))


def refused(work):
    """The errno, 0 if there was none."""
    try:
        work()
    except OSError as problem:
        return problem.errno
    return 0


def filled(path, size, offset=0):
    """size bytes of a device, past the page cache."""
    direct = Direct(path, MIB)
    try:
        return b"".join(direct.read(at, min(MIB, offset + size - at))
                        for at in range(offset, offset + size, MIB))
    finally:
        direct.close()


def bios(path, kind, sector, size, count=1):
    """Has the test module submit them; returns where each landed, or -errno."""
    write(APPEND + "run", "%s %s %d %d %d" % (path, kind, sector, size, count))
    return [int(word) for word in read(APPEND + "landed").split()]


def bio_data(number, size):
    """What the test module's bio of that number has in it."""
    return b"".join(struct.pack("<Q", number << 32 | sector) * 64
                    for sector in range(size // 512))


# ---- limits ----

def queue(disk):
    """All that sysfs says of a disk's queue."""
    directory = "/sys/block/%s/queue/" % disk
    found = {}
    for name in sorted(os.listdir(directory)):
        try:
            if name not in NOT_COMPARED:
                found[name] = read(directory + name)
        except OSError:                 # a directory, or what this kind has not
            pass
    return found


def seen(target, path, sectors, start, options):
    """(queue limits, zones, TABLE) of a mapping, which exists meanwhile."""
    with mapping(target, path, sectors, start, options) as device:
        return (queue(device.disk), report(device.path),
                device.dm.table(device.name)[0][3].split(" ", 2)[2])


def check_limits_of(kind, path, sectors):
    """One lower device."""
    for options, start in (((), 0), (("sector_size:4096", "iv_large_sectors"), 0),
                           (("allow_discards",), 2 * ZONE // 512)):
        name = "limits, %s, start %d %s: " % (kind, start, " ".join(options))
        length = sectors - start
        wanted, zones, table = seen("crypt", path, length, start, options)
        limits, our_zones, our_table = seen("xcrypt", path, length, start, options)
        if not CUT_BY_CORE:
            wanted.update({key: str(min(int(wanted[key]), cap))
                           for key, cap in CAPPED.items()})
        differ = {key: (wanted.get(key), limits.get(key))
                  for key in wanted.keys() | limits.keys()
                  if wanted.get(key) != limits.get(key)}
        tap.same({}, differ, name + "%d files of queue/ are in-tree's" % len(wanted))
        tap.ok(limits["zoned"] == "host-managed" and int(limits["max_hw_sectors_kb"]) <= 1024,
               name + "host-managed, a write fits one clone", limits)
        tap.same(zones, our_zones, name + "%d zones are in-tree's" % len(zones))
        tap.same(table, our_table, name + "TABLE is in-tree's")
        tap.ok("no_write_workqueue" in our_table.split(), name + "TABLE says no_write_workqueue",
               our_table)


def check_limits():
    """sysfs, zones and tables."""
    disk = zoned_disk(zone_capacity=3, zone_max_open=5, zone_max_active=7)
    check_limits_of("null_blk", disk.path, disk.sectors)
    disk.remove()
    name, sectors = scsi_disk("zbc=managed", "zone_size_mb=4", "zone_nr_conv=2",
                              "zone_max_open=6")
    check_limits_of("scsi_debug", "/dev/" + name, sectors)
    run("rmmod", "scsi_debug")


# ---- bytes and zones ----

def huge_write(path, offset, data):
    """One write of huge pages, which makes bios as long as can be."""
    with mmap.mmap(-1, len(data) + 2 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as buf:
        buf.madvise(mmap.MADV_HUGEPAGE)
        view = memoryview(buf)
        # where a huge page begins is not ours to know; most of it is in some
        view[:len(data)] = data
        fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        try:
            done = os.pwritev(fd, [view[:len(data)]], offset)
        finally:
            os.close(fd)
            view.release()
    if done != len(data):
        raise Failed("wrote %d of %d bytes" % (done, len(data)))


def write_zones(path):
    """The same writes for whoever is asked: a zone in rising sizes, one in one
    go, and some here and there where there is no write pointer.
    """
    direct = Direct(path, MIB)
    at = 3 * ZONE
    for size in (4096, 8192, 65536, 131072 + 4096, 262144, 520192, MIB, MIB):
        direct.write(at, seeded("rising %d" % at, size))
        at += size
    for offset in (ZONE + 65536, 4096, MIB):
        direct.write(offset, seeded("anywhere %d" % offset, 131072))
    direct.close()
    huge_write(path, 5 * ZONE, seeded("one go", ZONE))
    direct = Direct(path, MIB, os.O_RDWR | os.O_DSYNC)
    direct.write(7 * ZONE, seeded("fua", 65536))
    direct.close()


def check_bytes(disk):
    """Ciphertext is in-tree's, however long the write and small the pieces."""
    used = (0, 1, 3, 5, 7)
    for options in ((), ("sector_size:4096",)):
        # in-tree of 6.1 has a limit of 1 MiB itself, and cuts what is longer
        with intree(disk, options=options) as device:
            write_zones(device.path)
        wanted = {zone: filled(disk.path, ZONE, zone * ZONE) for zone in used}
        reset(disk.path)
        # a size that would cut all of them, if any were cut
        write(MODULE + "max_write_size", "16384")
        with ours(disk, options=options) as device:
            write_zones(device.path)
            whole = bios(device.path, "write", 9 * ZONE // 512, 2 * MIB)[0]
            fits = bios(device.path, "write", 10 * ZONE // 512, MIB)[0]
            back = filled(device.path, MIB, 10 * ZONE)
        write(MODULE + "max_write_size", "0")
        for zone in used:
            tap.ok(filled(disk.path, ZONE, zone * ZONE) == wanted[zone],
                   "bytes, %s: zone %d is in-tree's" % (options, zone))
        tap.ok(whole >= 0, "bytes, %s: a bio of 2 MiB is written" % (options,), whole)
        tap.ok(fits >= 0 and back == bio_data(0, MIB),
               "bytes, %s: a bio of 1 MiB is written" % (options,), fits)
        reset(disk.path)
    check_conventional(disk)
    check_management(disk)


def check_conventional(disk):
    """No zone with a write pointer: newer kernels take it for a usual disk,
    whose writes nobody cuts but us.
    """
    sectors = CONVENTIONAL * ZONE // 512
    landed, data = [], bio_data(0, 2 * MIB)
    with mapping("xcrypt", disk.path, sectors) as device:
        landed = bios(device.path, "write", 512, 2 * MIB)
        huge_write(device.path, ZONE, data)
    with mapping("crypt", disk.path, sectors) as device:
        tap.ok(landed[0] >= 0 and filled(device.path, 2 * MIB, ZONE) == data ==
               filled(device.path, 2 * MIB, 512 * 512),
               "bytes, conventional zones only: 2 MiB at once", landed)


def check_management(disk):
    """What opens, closes, finishes and resets arrives at its zone."""
    start = 3 * ZONE // 512
    with mapping("xcrypt", disk.path, disk.sectors - start, start) as device:
        direct = Direct(device.path, 4096)
        direct.write(2 * ZONE, seeded("wp", 4096))
        direct.close()
        for verb, condition in (("close", "4"), ("open", "3"), ("finish", "14"),
                                ("reset", "1")):
            run("blkzone", verb, "-o", 2 * ZONE // 512, "-c", 1, device.path)
            below = [zone[3] for zone in report(disk.path)]
            above = [zone[3] for zone in report(device.path)]
            tap.same((condition, below[3:]), (below[5], above),
                     "zones: %s arrives at the one zone, and is seen above" % verb)
            tap.same([], [n for n, cond in enumerate(below) if n != 5 and
                          cond != ("0" if n < CONVENTIONAL else "1")],
                     "zones: %s touches no other" % verb)
        huge_write(device.path, 0, seeded("some", MIB))
        reset(device.path)
        tap.same(set("1"), {zone[3] for zone in report(disk.path)[CONVENTIONAL:]},
                 "zones: a reset of all")


# ---- order ----

def ciphers():
    """(name, cipher, parameters of the test cipher)"""
    yield "sync", "aes-xts-plain64", None
    yield "async", TEST_CIPHER, {"answer": "shuffle", "context": "process", "depth": 4}
    yield "mixed", TEST_CIPHER, {"answer": "mixed", "context": "mixed", "depth": 0}


def same_through_intree(disk, name, places):
    """What we read of places, (offset, size) each, is what in-tree reads."""
    with ours(disk) as device:
        mine = [filled(device.path, size, offset) for offset, size in places]
    with intree(disk) as device:
        tap.ok([filled(device.path, size, offset) for offset, size in places] == mine,
               name + "in-tree reads the same")


def check_order(disk):
    """Many writes in flight, several to a zone."""
    for mode in MODES:
        for kind, cipher, settings in ciphers():
            patience()
            name = "order, %s, %s: " % (mode, kind)
            write_order(mode)
            if settings:
                cipher_reset(**settings)
            with ours(disk, cipher=cipher) as device:
                done = Fio(filename=device.path, ioengine="libaio", direct=1, iodepth=16,
                           rw="write", zonemode="zbd", bssplit="4k/50:64k/30:256k/20",
                           offset=3 * ZONE, offset_increment=4 * ZONE, size=2 * ZONE,
                           io_size=2 * MIB, numjobs=2, verify="crc32c", verify_fatal=1,
                           randseed=7).finish()
                info = device.info()
            tap.ok(not done[0], name + "all written in order and verified", done[0])
            tap.same(("inline", "0"), (info["write_order"], info["writes"]),
                     name + "nothing went by the thread")
            if settings:
                count = counters("async", "shuffled", "sleep_in_atomic")
                tap.ok(count["async"] > 100 and count["shuffled"] > 10 and
                       not count["sleep_in_atomic"], name + "the cipher answered late and "
                       "in disorder", count)
                cipher_reset()
            same_through_intree(disk, name, ((3 * ZONE, 2 * MIB), (7 * ZONE, 2 * MIB)))
            reset(disk.path)
    write_order("auto")


# ---- append ----

def check_append(disk):
    """Appends land one behind the other, and the reader finds each."""
    for mode, (kind, cipher, settings), size, count in (
            ("inline", next(ciphers()), 4096, 48), ("sort", next(ciphers()), MIB, 4),
            ("fifo", list(ciphers())[1], 65536, 32), ("sort", list(ciphers())[2], 12288, 64)):
        name = "append, %s, %s, %d times %d: " % (mode, kind, count, size)
        write_order(mode)
        write(MODULE + "max_write_size", "8192")
        if settings:
            cipher_reset(**settings)
        with ours(disk, cipher=cipher) as device:
            limit = int(queue(device.disk)["zone_append_max_bytes"])
            landed = bios(device.path, "append", 6 * ZONE // 512, size, count)
            late = bios(device.path, "append", 6 * ZONE // 512, ZONE) if size == MIB else []
        write(MODULE + "max_write_size", "0")
        places = [6 * ZONE // 512 + n * size // 512 for n in range(count)]
        tap.same(places, sorted(landed), name + "one behind the other")
        with intree(disk) as device:
            wrong = [n for n, sector in enumerate(landed) if sector < 0 or
                     filled(device.path, size, sector * 512) != bio_data(n, size)]
        tap.same([], wrong, name + "in-tree reads each where it is said to be")
        tap.ok(size <= limit <= MIB, name + "the limit says so: %d" % limit)
        if late:
            tap.ok(late[0] < 0, name + "what is longer than the limit is refused", late)
        reset(disk.path)
    write_order("auto")
    cipher_reset()


# ---- memory ----

def each_zone(zones, work):
    """work(zone) for all of them at once.  Returns the threads."""
    threads = [threading.Thread(target=work, args=(zone,)) for zone in zones]
    for thread in threads:
        thread.start()
    return threads


def write_zone(path, zone, failures):
    """2 MiB from its start."""
    try:
        direct = Direct(path, MIB)
        for at in range(0, 2 * MIB, MIB):
            direct.write(zone * ZONE + at, seeded("memory %d %d" % (zone, at), MIB))
        direct.close()
    except (OSError, Failed) as problem:
        failures.append("zone %d: %s" % (zone, problem))


def read_zone(path, zone, wrong):
    """The same back."""
    if filled(path, 2 * MIB, zone * ZONE) != b"".join(
            seeded("memory %d %d" % (zone, at), MIB) for at in range(0, 2 * MIB, MIB)):
        wrong.append(zone)


def check_memory():
    """More in flight than we may have pages for: writes wait in map()."""
    zones = range(CONVENTIONAL, 48)
    disk = zoned_disk("zmem", 48, irqmode=2, completion_nsec=2500000000, hw_queue_depth=256)
    failures, wrong, most = [], [], 0
    write(MODULE + "write_window", str(1 << 30))    # the window is not meant here
    with ours(disk) as device:
        reserve = int(device.info()["pages"])
        threads = each_zone(zones, lambda zone: write_zone(device.path, zone, failures))
        while any(thread.is_alive() for thread in threads):
            most = max(most, int(device.info()["pages"]))
        left = int(device.info()["pages"])
    write(MODULE + "write_window", "0")
    tap.same([], failures, "memory: all written in order")
    # a device's share is 4096 pages, or 2 % of the memory
    tap.ok(most >= 4096, "memory: %d pages at once, the share was used up" % most)
    tap.same(reserve, left, "memory: no page is left")
    with intree(disk) as device:
        for thread in each_zone(zones, lambda zone: read_zone(device.path, zone, wrong)):
            thread.join()
    tap.same([], wrong, "memory: in-tree reads what was written")
    disk.remove()


# ---- errors ----

def check_errors(disk):
    """A cipher that fails leaves the zone as it was.  Where the block layer
    keeps a zone's write pointer itself, it refuses writes after a failed one
    until somebody asks for the zone: file systems do."""
    for kind, settings in (("at once", {"answer": "sync"}),
                           ("late", {"answer": "async", "fail_async": 1}),
                           ("late, depth 1", {"answer": "async", "fail_async": 1, "depth": 1})):
        name = "errors, %s: " % kind
        cipher_reset(**settings)
        with ours(disk, cipher=TEST_CIPHER) as device:
            # the kernel tests a cipher when it is first asked for
            cipher_reset(fail_every=5, fail_ops=1, **settings)
            direct = Direct(device.path, 65536)
            failed, lost = [], []
            for _ in range(3):
                failed.append(refused(lambda: direct.write(4 * ZONE, seeded("bad", 65536))))
                report(device.path)
            tap.same([5, 5, 5], failed, name + "EIO each time")
            for _ in range(3):
                lost += bios(device.path, "append", 4 * ZONE // 512, 65536)
                report(device.path)
            tap.same([-5, -5, -5], lost, name + "appends, too")
            injected = counters("injected")["injected"]
            tap.ok(injected >= 6, name + "by the cipher, %d times" % injected)
            cipher_reset()
            for offset in (0, 65536):
                direct.write(4 * ZONE + offset, seeded("good %d" % offset, 65536))
            landed = bios(device.path, "append", 4 * ZONE // 512, 65536)
            tap.same([4 * ZONE // 512 + 256], landed, name + "then the zone goes on")
            direct.close()
        with intree(disk) as device:
            tap.ok(filled(device.path, 131072, 4 * ZONE) ==
                   seeded("good 0", 65536) + seeded("good 65536", 65536),
                   name + "in-tree reads what was written")
        reset(disk.path)


# ---- a file system ----

def check_files():
    """f2fs made and filled by us, read by in-tree."""
    disk = zoned_disk("zfiles", 64, zone_nr_conv=16)
    where = "/run/zoned"
    os.makedirs(where, exist_ok=True)
    run("modprobe", "f2fs")
    with ours(disk) as device:
        run("mkfs.f2fs", "-m", "-f", device.path)
        run("mount", "-t", "f2fs", device.path, where)
        error, _ = Fio(directory=where, ioengine="psync", rw="randwrite", bs="16k", size="4M",
                       numjobs=2, end_fsync=1, verify="crc32c", verify_fatal=1,
                       randseed=3).finish()
        tap.ok(not error, "files: fio on f2fs verifies", error)
        for n in range(40):
            write("%s/%d" % (where, n), "%d\n" % n * 1000 * n)
        os.sync()
        sums = run("sh", "-c", "cd %s && find . -type f | sort | xargs sha256sum" % where)
        run("umount", where)
    with intree(disk) as device:
        run("mount", "-t", "f2fs", device.path, where)
        again = run("sh", "-c", "cd %s && find . -type f | sort | xargs sha256sum" % where)
        run("umount", where)
    tap.same(42, len(sums.splitlines()), "files: there are 42")
    tap.ok(sums == again, "files: in-tree reads the same from f2fs", again)
    disk.remove()


PARTS = {"limits": check_limits, "bytes": check_bytes, "order": check_order,
         "append": check_append, "memory": check_memory, "errors": check_errors,
         "files": check_files}
ON_THE_DISK = ("bytes", "order", "append", "errors")


def main():
    """Returns when all cases ran."""
    with to_its_end(tap):
        cpus()
        use_both()
        run("modprobe", "-a", "xcrypt_append", "xcrypt_testcipher")
        for part in sys.argv[1:] or PARTS:
            patience()
            note(part)
            disk = zoned_disk() if part in ON_THE_DISK else None
            PARTS[part](*([disk] if disk else []))
            if disk:
                disk.remove()
    leave(tap)


if __name__ == "__main__":
    main()
