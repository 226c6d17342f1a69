#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tags and stored IVs, beside in-tree dm-crypt and beside a model in Python.

  integrity.py [--metadata DEVICE:BYTES]... [few]

Below lies dm-integrity on /dev/vda (mode D: no journal), or with --metadata
devices that have metadata of their own, BYTES for each of their blocks.  Ours is the target `xcrypt`, in-tree the
target `crypt`.  What is compared:

  recorded the lines of tests/data/oracle-lines.txt that want dm-integrity
  cross    what one wrote the other reads, both ways; tables and IMA are equal
  model    ciphertext and tags of GCM and of HMAC as OpenSSL computes them
  tamper   a bit flipped in data, tag or IV, two sectors changed over: EILSEQ
           for exactly the sectors that were touched, one line in the log
  buffer   reads into memory that is written meanwhile succeed
  padding  what neither tag nor IV fills is zero on the disk
  options  all ten at once; high_priority; refusals
"""

import argparse
import errno
import hashlib
import hmac
import mmap
import os
import re
import socket
import struct
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

# pylint: disable=wrong-import-position
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
import cipherlines
from cryptside import bytes_of
from dmioctl import DeviceMapper
from guestlib import Direct, Tap, insert_intree, note, run, read, seeded

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
DISK = "/dev/vda"
SECTORS = 2048                  # of the mapping
DATA = SECTORS * 512
# Seconds after which the log takes ten lines again from where it took many.
LOG_REST = 6
JOURNAL, INTERLEAVE = 64, 4096  # sectors, as dm-integrity is told
OURS, INTREE = "xcrypt", "crypt"
KERNEL = os.environ["VM_KERNEL"]

TAP = Tap()
run("modprobe", "dm-mod")
DM = DeviceMapper()


class Line:
    """A table line, less device and start."""

    def __init__(self, cipher, key, options, metadata, sector=512, iv_offset=0):
        self.cipher = cipher
        self.key = key if isinstance(key, bytes) else seeded("key " + cipher, key)
        self.iv_offset = iv_offset
        self.options = list(options)
        if sector != 512:
            self.options.append("sector_size:%d" % sector)
        self.metadata = metadata        # bytes a sector that the device keeps
        self.sector = sector            # bytes

    def params(self, device):
        """What stands behind the target's name."""
        text = "%s %s %s %s 0" % (self.cipher, self.key.hex(), self.iv_offset, device)
        if self.options:
            text += " %d %s" % (len(self.options), " ".join(self.options))
        return text

    def name(self):
        """For people; no key in it."""
        return " ".join([self.cipher] + self.options)


def gcm(iv, size, metadata=None, sector=512):
    """AES-GCM; integrity:size."""
    return Line("capi:gcm(aes)-" + iv, 32, ["integrity:%d:aead" % size],
                metadata or size, sector)


# What a tag covers is the sector's number as it is, the IV has the offset.
OFFSET = Line("capi:gcm(aes)-plain64", 32, ["integrity:16:aead"], 16, iv_offset=77777)
LINES = [
    gcm("plain64", 16),
    OFFSET,
    gcm("random", 28),
    gcm("random", 28, sector=4096),
    gcm("plain64", 12),                 # a tag cut short
    Line("capi:authenc(hmac(sha256),xts(aes))-random", 96,
         ["integrity:48:aead"], 48),
    Line("capi:authenc(hmac(sha256),xts(aes))-plain64", 96,
         ["integrity:32:aead"], 32, 4096),
    Line("capi:authenc(hmac(sha256),cbc(aes))-plain64", 64,
         ["integrity:32:aead"], 32),
    Line("capi:authenc(hmac(sha256),cbc(aes))-essiv:sha256", 64,
         ["integrity:32:aead"], 32),
    Line("capi:authenc(hmac(sha1),ctr(aes))-random", 36,
         ["integrity:36:aead"], 36),
    Line("capi:authenc(cmac(aes),xts(aes))-random", 80,
         ["integrity:32:aead"], 32),
    Line("capi:rfc7539(chacha20,poly1305)-random", 32,
         ["integrity:28:aead"], 28),
    Line("capi:rfc7539(chacha20,poly1305)-random", 32,
         ["integrity:28:aead", "iv_large_sectors"], 28, 4096),
    Line("capi:rfc4309(ccm(aes))-random", 35, ["integrity:24:aead"], 24),
    Line("capi:aegis128-random", 16, ["integrity:32:aead"], 32),
    Line("capi:gcm(aes)-benbi", 32, ["integrity:16:aead"], 16),
    Line("capi:gcm(aes)-random", 32, ["integrity:28:aead",
                                      "no_read_workqueue",
                                      "no_write_workqueue"], 28),
    Line("aes-xts-random", 64, ["integrity:16:none"], 16),
    Line("aes-cbc-random", 32, ["integrity:16:NONE"], 16, 4096),
    Line("capi:adiantum(xchacha12,aes)-random", 32, ["integrity:32:none"], 32,
         4096),
]
# Options that 6.1's in-tree does not know, or does not allow.
LATER = [
    Line("capi:authenc(hmac(sha256),xts(aes))-random", 80,
         ["integrity:48:aead", "integrity_key_size:16"], 48),
    gcm("random", 28, metadata=64),
    Line("aes-xts-random", 64, [], 64),
]


# ---- the devices ----

class Below:
    """dm-integrity on DISK, or a device that has metadata itself."""

    def __init__(self, metadata, sector, device=None):
        self.own = device is not None
        self.path = device
        self.sector = sector
        if self.own:
            return
        self.params = "%s 0 %d D 3 journal_sectors:%d interleave_sectors:%d block_size:%d" % (
            DISK, metadata, JOURNAL, INTERLEAVE, sector)
        wipe(0, 1 << 20)
        self.start(8)                   # writes the superblock
        self.stop()
        with open(DISK, "rb", buffering=0) as file:
            self.size = struct.unpack_from("<Q", file.read(512), 16)[0]
        self.start(self.size)

    def start(self, size):
        """Makes the device."""
        minor = DM.create("below")
        DM.load("below", [(0, size, "integrity", self.params)])
        DM.resume("below")
        self.path = "/dev/dm-%d" % minor

    def stop(self):
        """Takes it away."""
        if not self.own:
            DM.remove("below")


def wipe(start, size):
    """Zeros to DISK."""
    with Raw() as raw:
        raw.write(start, bytes(size))


class Raw:
    """A device, by direct I/O of whole 4096-byte blocks."""

    def __init__(self, path=DISK, size=0):
        self.fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.size = size or os.lseek(self.fd, 0, os.SEEK_END)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def read(self, start, size):
        """Any bytes."""
        first, last = start // 4096 * 4096, -(-(start + size) // 4096) * 4096
        with mmap.mmap(-1, last - first) as buf:
            if os.preadv(self.fd, [buf], first) != last - first:
                raise OSError(errno.EIO, "short read")
            return buf[start - first:start - first + size]

    def write(self, start, data):
        """Any bytes: reads what is around them."""
        first = start // 4096 * 4096
        last = -(-(start + len(data)) // 4096) * 4096
        with mmap.mmap(-1, last - first) as buf:
            os.preadv(self.fd, [buf], first)
            buf[start - first:start - first + len(data)] = data
            if os.pwritev(self.fd, [buf], first) != last - first:
                raise OSError(errno.EIO, "short write")


class Mapped:
    """A mapped device of a line, for a with statement."""

    def __init__(self, line, target, below):
        self.minor = DM.create("top")
        try:
            DM.load("top", [(0, SECTORS, target, line.params(below.path))])
        except OSError:
            DM.remove("top")
            raise
        DM.resume("top")
        self.path = "/dev/dm-%d" % self.minor
        self.below = below
        self.line = line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        DM.remove("top")

    def table(self):
        """TABLE status, without the device's number and the key."""
        text = DM.table("top")[0][3].replace(self.line.key.hex(), "KEY")
        return re.sub(r" \d+:\d+ ", " M:N ", text)

    def ima(self):
        """IMA status without the target's name and version."""
        text = re.sub(r"target_name=.*?,target_version=.*?,", "", DM.ima("top")[0])
        # an option that 6.1's in-tree does not know
        return text.replace("high_priority=n,", "") if KERNEL == "6.1" else text

    def info(self):
        """INFO status as a dictionary."""
        return dict(word.split("=", 1) for word in DM.status("top")[0][3].split())

    def write(self, data):
        """All of it, in pieces of several sizes."""
        transfer(self.path, data, self.line.sector)

    def read(self):
        """The same."""
        return transfer(self.path, None, self.line.sector)

    def sector(self, number):
        """One sector; b"" for EILSEQ."""
        return self.sectors(number, 1)

    def sectors(self, number, count):
        """Sectors in one read."""
        size = self.line.sector
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECT)
        try:
            with mmap.mmap(-1, size * count) as buf:
                os.preadv(fd, [buf], number * size)
                return buf[:]
        except OSError as error:
            if error.errno != errno.EILSEQ:
                raise
            return b""
        finally:
            os.close(fd)


def transfer(path, data, unit):
    """Writes data, or reads and returns it, direct, in pieces."""
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    with mmap.mmap(-1, DATA) as buf:
        if data:
            buf[:] = data
        at, sizes = 0, [1, 7, 32, 3, 160, 64, 1000]
        while at < DATA:
            size = min(sizes[0] * unit, DATA - at)
            sizes.append(sizes.pop(0))
            view = memoryview(buf)[at:at + size]
            done = (os.pwritev if data else os.preadv)(fd, [view], at)
            view.release()
            if done != size:
                raise OSError(errno.EIO, "short transfer")
            at += size
        os.close(fd)
        return buf[:]


def try_map(line, target, below):
    """("accepted", table, ima) or (errno name, None, None)."""
    try:
        with Mapped(line, target, below) as top:
            return "accepted", top.table(), top.ima()
    except OSError as error:
        return errno.errorcode[error.errno], None, None


# ---- recorded ----

def recorded():
    """What in-tree answered when the project began."""
    with open(os.path.join(TOP, "tests/data/oracle-golden.txt"), encoding="ascii") as file:
        golden = dict(text.strip().split(" ", 1) for text in file
                      if text.strip() and not text.startswith("#"))
    for case in cipherlines.recorded(os.path.join(TOP, "tests/data/oracle-lines.txt")):
        if "int" not in case.flags:
            continue
        tag, _, block = case.flags["int"].partition(":")
        line = Line(case.cipher, bytes_of("key " + case.seed, 8192)[:int(case.key)], case.opts,
                    int(tag), 512, case.iv_offset)
        line.sector = int(block or 512)
        below = Below(line.metadata, line.sector)
        want = dict(word.split("=") for word in golden[case.name].split() if "=" in word)
        try:
            with Mapped(line, OURS, below) as top:
                data = bytes_of("data " + case.seed, DATA)
                top.write(data)
                text = "0 1024 TGT " + re.sub(r"\b\d+:\d+\b", "M:N", DM.table("top")[0][3])
                got = {"rt": "ok" if top.read() == data else "MISMATCH",
                       "table": hashlib.sha256(text.encode()).hexdigest()[:12]}
        except OSError as error:
            want, got = golden[case.name], "REFUSED " + errno.errorcode[error.errno]
        below.stop()
        TAP.same(want, got, "recorded: " + case.name)


# ---- cross ----

def cross(line, device=None):
    """Both read what the other wrote."""
    below = Below(line.metadata, line.sector, device)
    ours, intree = try_map(line, OURS, below), try_map(line, INTREE, below)
    text = "%s, %d bytes a sector: " % (line.name(), line.metadata)
    if ours[0] != "accepted" and ours[0] == intree[0]:
        TAP.skip(text + "both ways", "both say " + ours[0])
        below.stop()
        return
    if TAP.same(intree, ours, text + "same answer, TABLE and IMA"):
        first, second = seeded("1" + line.name(), DATA), seeded("2" + line.name(), DATA)
        with Mapped(line, OURS, below) as top:
            top.write(first)
            own = top.read() == first
        with Mapped(line, INTREE, below) as top:
            theirs = top.read() == first
            top.write(second)
        with Mapped(line, OURS, below) as top:
            back = top.read() == second
            errors = top.info()["tag_errors"]
        TAP.same((True, True, True, "0"), (own, theirs, back, errors),
                 text + "ours reads its own, in-tree ours, ours in-tree's")
    below.stop()


# ---- model ----

def le64(number, size=8):
    """As IV or additional data."""
    return struct.pack("<Q", number).ljust(size, b"\0")


class Place:
    """Where data and metadata lie on DISK; line has known tags."""

    def __init__(self, below, tag, data):
        below.stop()
        with Raw() as raw:
            disk = raw.read(0, 16 << 20)
        self.metadata = disk.find(tag)
        self.data = disk.find(data)
        if min(self.metadata, self.data) < 0:
            raise OSError(errno.ENOENT, "tag or data not found on the disk")

    def __str__(self):
        return "metadata at %d, data at %d" % (self.metadata, self.data)


def gcm_sector(key, number, data):
    """(ciphertext, tag) of a sector of 512 bytes, IV plain64."""
    iv = le64(number, 12)
    done = AESGCM(key).encrypt(iv, data, le64(number) + iv)
    return done[:-16], done[-16:]


def find_place(metadata, sector):
    """With a line whose tags we can compute.  The device's format decides."""
    line = gcm("plain64", 16, metadata, sector)
    below = Below(metadata, sector)
    data = seeded("place", DATA)
    with Mapped(line, OURS, below) as top:
        top.write(data)
    iv = le64(0, 12)
    done = AESGCM(line.key).encrypt(iv, data[:sector], le64(0) + iv)
    return Place(below, done[-16:], done[:-16])


def model():
    """Bytes on the disk as OpenSSL and hmac compute them."""
    line, below, data = gcm("plain64", 16), Below(16, 512), seeded("model", DATA)
    with Mapped(line, OURS, below) as top:
        top.write(data)
    sectors = [gcm_sector(line.key, i, data[i * 512:(i + 1) * 512]) for i in range(SECTORS)]
    place = Place(below, sectors[0][1], sectors[0][0])
    with Raw() as raw:
        TAP.ok(raw.read(place.data, DATA) == b"".join(s[0] for s in sectors),
               "gcm(aes), plain64: the ciphertext is OpenSSL's")
        TAP.ok(raw.read(place.metadata, 16 * SECTORS) == b"".join(s[1] for s in sectors),
               "gcm(aes), plain64: the tags are OpenSSL's")

    line = Line("capi:authenc(hmac(sha256),cbc(aes))-plain64", 64, ["integrity:32:aead"], 32)
    below = Below(32, 512)
    with Mapped(line, OURS, below) as top:
        top.write(data)
    with Raw(below.path) as raw:
        text = raw.read(0, DATA)
    tags = [hmac.new(line.key[32:], le64(i) + le64(i, 16) + text[i * 512:(i + 1) * 512],
                     hashlib.sha256).digest() for i in range(SECTORS)]
    place = Place(below, tags[0], text[:512])
    with Raw() as raw:
        TAP.ok(raw.read(place.metadata, 32 * SECTORS) == b"".join(tags),
               "authenc(hmac(sha256),cbc(aes)): the tags are hmac's of sector, IV, ciphertext")


# ---- tamper ----

def flip(raw, at):
    """One bit."""
    byte = raw.read(at, 1)[0]
    raw.write(at, bytes([byte ^ 0x10]))


def exchange(raw, one, two, size):
    """Two places of one size."""
    first, second = raw.read(one, size), raw.read(two, size)
    raw.write(one, second)
    raw.write(two, first)


def log_lines(pattern):
    """Lines of the kernel's log."""
    return [text for text in run("dmesg").splitlines() if re.search(pattern, text)]


class Audit:
    """What the kernel's audit tells its readers; needs audit=1."""
    EVENT = 1339                        # AUDIT_DM_EVENT

    def __init__(self):
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)
        self.sock.bind((0, 1))          # the group of readers

    def events(self, wanted, patience=20.0):
        """Texts of mapped devices' events, until wanted came."""
        found = []
        end = time.monotonic() + patience
        while len(found) < wanted and time.monotonic() < end:
            self.sock.settimeout(max(end - time.monotonic(), 0.1))
            try:
                data = self.sock.recv(1 << 16)
            except socket.timeout:
                break
            if struct.unpack_from("=IH", data)[1] == self.EVENT:
                found.append(data[16:].decode("ascii", "replace").rstrip("\0"))
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


def tamper(line, iv_at):
    """iv_at: offset of a stored IV in the metadata, or None."""
    size, meta = line.sector, line.metadata
    place = find_place(meta, size)
    below, data = Below(meta, size), seeded("tamper", DATA)
    with Mapped(line, OURS, below) as top:
        top.write(data)
    below.stop()
    bad = {5: "data", 20: "tag", 40: "swap", 41: "swap"}
    if iv_at is not None:
        bad[30] = "IV"
    with Raw() as raw:
        flip(raw, place.data + 5 * size + size - 1)
        flip(raw, place.metadata + 20 * meta)
        exchange(raw, place.data + 40 * size, place.data + 41 * size, size)
        exchange(raw, place.metadata + 40 * meta, place.metadata + 41 * meta, meta)
        if iv_at is not None:
            flip(raw, place.metadata + 30 * meta + iv_at)
    below.start(below.size)
    time.sleep(LOG_REST)
    run("dmesg", "--clear")
    with Mapped(line, OURS, below) as top, Audit() as audit:
        wrong = {i for i in range(64) if top.sector(i) != data[i * size:(i + 1) * size]}
        TAP.same(set(bad), wrong, "%s: EILSEQ for exactly the sectors that were changed (%s)" % (
            line.name(), ", ".join("%d %s" % pair for pair in sorted(bad.items()))))
        numbers = sorted(int(text.rsplit(" ", 1)[1]) for text in
                         log_lines("INTEGRITY AEAD ERROR, sector"))
        TAP.same(sorted(i * size // 512 for i in bad), numbers,
                 line.name() + ": one line in the log for each, with its sector")
        number = os.stat(top.path).st_rdev
        wanted = sorted("module=crypt op=integrity-aead dev=%d:%d sector=%d res=0" % (
            os.major(number), os.minor(number), i * size // 512) for i in bad)
        TAP.same(wanted, sorted(text.split(": ", 1)[1] for text in audit.events(len(bad))),
                 line.name() + ": an audit record for each")
        TAP.same((str(len(bad)), str(len(bad))),
                 (top.info()["rechecks"], top.info()["tag_errors"]),
                 line.name() + ": each was read once more, and counted")
        TAP.ok(top.sectors(0, 5) == data[:5 * size] and top.sectors(0, 8) == b"" and
               top.sectors(6, 8) == data[6 * size:14 * size],
               line.name() + ": a longer read fails if a bad sector is in it, and only then")
        time.sleep(LOG_REST)
        run("dmesg", "--clear")
        for _ in range(40):
            top.sector(5)
        lines = len(log_lines("INTEGRITY AEAD ERROR, sector"))
        TAP.ok(0 < lines < 40, line.name() + ": the log is limited in rate",
               "%d lines for 40 errors" % lines)
        disk = Direct(top.path, 64 * size)
        disk.write(0, data[:64 * size])
        disk.close()
        TAP.ok(top.sectors(0, 64) == data[:64 * size],
               line.name() + ": writing the sectors again mends them")
    below.stop()


# ---- buffer ----

def buffer(line):
    """Reads into memory that changes under them."""
    below, data = Below(line.metadata, line.sector), seeded("buffer", DATA)
    step, failed = 128 << 10, []
    with Mapped(line, OURS, below) as top:
        top.write(data)
        shared = mmap.mmap(-1, step)
        fd = os.open(top.path, os.O_RDONLY | os.O_DIRECT)

        def reader(start):
            for turn in range(24):
                at = (start + turn) * step % DATA
                try:
                    os.preadv(fd, [shared], at)
                except OSError as error:
                    failed.append(error.errno)

        threads = [threading.Thread(target=reader, args=(i * 2,)) for i in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            shared[1000:1016] = b"not what was read"[:16]
        info = top.info()
        TAP.same(([], "0"), (failed, info["tag_errors"]),
                 line.name() + ": four reads at once into one buffer that is written too: no error")
        TAP.ok(int(info["rechecks"]) > 0, line.name() + ": some were read once more",
               "none of 96 reads met a changed buffer")
        note("rechecks: %s of 96 reads" % info["rechecks"])
        TAP.ok(top.read() == data, line.name() + ": the data is right afterwards")
        os.close(fd)
    below.stop()


# ---- padding ----

def padding(line, used):
    """Bytes of each sector's metadata beyond used are zero on the disk."""
    meta = line.metadata
    place = find_place(meta, line.sector)
    below = Below(meta, line.sector)
    below.stop()
    with Raw() as raw:
        raw.write(place.metadata, b"\xff" * (meta * SECTORS))
    below.start(below.size)
    with Mapped(line, OURS, below) as top:
        top.write(seeded("padding", DATA))
    below.stop()
    with Raw() as raw:
        found = raw.read(place.metadata, meta * (DATA // line.sector))
    sectors = [found[i:i + meta] for i in range(0, len(found), meta)]
    TAP.ok(all(one[used:] == bytes(meta - used) for one in sectors),
           "%s: %d of %d bytes used, the others are zero" % (line.name(), used, meta))
    TAP.same(len(sectors), len(set(one[:used] for one in sectors)),
             line.name() + ": no IV or tag comes twice")


# ---- options ----

TEN = ["allow_discards", "same_cpu_crypt", "high_priority", "submit_from_crypt_cpus",
       "no_read_workqueue", "no_write_workqueue", "integrity:48:AEAD", "sector_size:4096",
       "iv_large_sectors", "integrity_key_size:32"]


def options():
    """All ten at once, in another order; nice values of high_priority."""
    line = Line("capi:authenc(hmac(sha256),xts(aes))-random", 96, reversed(TEN), 48)
    line.sector = 4096
    below = Below(48, 4096)
    with Mapped(line, OURS, below) as top:
        text = top.table()
        TAP.same("10 " + " ".join(TEN), text[text.index(" M:N 0 ") + 7:],
                 "all ten options at once, printed in in-tree's order")
        data = seeded("ten", DATA)
        top.write(data)
        TAP.ok(top.read() == data, "all ten options at once: written and read")
        nice = run("ps", "-eo", "ni,comm").splitlines()
        TAP.ok(any(re.match(r"\s*-20 dmcrypt_write", one) for one in nice),
               "high_priority: the write thread's nice is -20", "\n".join(nice))
        again = DM.table("top")[0][3]
        DM.load("top", [(0, SECTORS, OURS, again)])
        DM.resume("top")
        TAP.ok(top.read() == data and DM.table("top")[0][3] == again,
               "the table that status printed is accepted, and reads the same")
    below.stop()


def refused(text, line, below, pattern, sector=None):
    """EINVAL and a line in the log."""
    run("dmesg", "--clear")
    answer = try_map(line, OURS, below)[0]
    found = log_lines(pattern)
    TAP.ok(answer == "EINVAL" and found, text + ": EINVAL, and the log says why",
           "%s; %s" % (answer, "\n".join(run("dmesg").splitlines()[-5:])))
    if sector is not None:
        TAP.ok(sector, text)


def refusals():
    """What does not fit the device, the cipher or the key."""
    below = Below(28, 512)
    refused("integrity:48 on a device of 28", gcm("random", 48), below,
            "integrity:48, the device keeps 28 bytes")
    refused("4096-byte sectors on a device of 512", gcm("random", 28, sector=4096), below,
            "for each 512 bytes, sector_size is 4096")
    refused("a tag of 0 bytes", gcm("random", 12), below, "no tag of 0 bytes")
    refused("less than the IV", gcm("random", 8), below, "no tag of -4 bytes")
    refused("a tag of 17 bytes", gcm("plain64", 17), below, "no tag of 17 bytes.*up to 16")
    line = gcm("random", 28)
    line.options.append("integrity_key_size:16")
    refused("integrity_key_size without authenc", line, below,
            r"integrity_key_size:16 is for authenc")
    line = Line("capi:authenc(hmac(sha256),xts(aes))-plain64", 16, ["integrity:28:aead"], 28)
    refused("a key shorter than the MAC's", line, below, "a key of 16 bytes, the MAC alone takes 32")
    for iv in ("lmk", "tcw", "eboiv", "elephant"):
        refused("AEAD with " + iv, gcm(iv, 16), below, iv + ": IV mode is not for AEAD")
    refused("random IV of 32 bytes on a device of 28",
            Line("capi:adiantum(xchacha12,aes)-random", 32, [], 28), below,
            "an IV of 32 bytes, the device keeps 28")
    TAP.same("ENOENT", try_map(Line("capi:authenc(nosuch,xts(aes))-random", 96,
                                    ["integrity:28:aead"], 28), OURS, below)[0],
             "a MAC that is not there: ENOENT")
    below.stop()

    class Plain:                        # no metadata at all
        """The disk itself."""
        path = DISK
    refused("AEAD on a device without metadata", gcm("random", 28), Plain,
            "keeps no metadata that is free")
    refused("random IV on a device without metadata", Line("aes-xts-random", 64, [], 0), Plain,
            "keeps no metadata that is free")
    line = Line("aes-xts-plain64", 64, ["integrity:16:none", "integrity:28:NONE"], 0)
    TAP.same("accepted", try_map(line, OURS, Plain)[0],
             "integrity:N:none without a stored IV: accepted on any device")
    TAP.ok("1 integrity:28:NONE" in (try_map(line, OURS, Plain)[1] or ""),
           "of two integrity options the last one counts",
           try_map(line, OURS, Plain)[1])


def both_modules():
    """In-tree as `crypt`, ours as `xcrypt`."""
    insert_intree()
    run("modprobe", "dm-integrity")
    run("modprobe", "dm-xcrypt", "target_name=" + OURS)
    have = DM.targets()
    TAP.ok(INTREE in have and OURS in have and os.path.isdir("/sys/module/dm_crypt") and
           os.path.isdir("/sys/module/dm_xcrypt"), "both modules are there", have)
    for name in ("ccm", "gcm", "authenc", "chacha20poly1305", "aegis128", "pcrypt"):
        run("modprobe", name, status=None)


def own_metadata(device, size):
    """Lines for a device that keeps size bytes for each of its blocks."""
    run("modprobe", "nvme", status=None)
    for _ in range(100):
        if os.path.exists(device):
            break
        time.sleep(0.1)
    size = int(size)
    block = int(read("/sys/block/%s/queue/logical_block_size" % os.path.basename(device)))
    authenc = Line("capi:authenc(hmac(sha256),xts(aes))-random", 96,
                   ["integrity:48:aead", "no_read_workqueue"], size, block)
    for line in (gcm("random", 28, size, block), authenc,
                 Line("aes-xts-random", 64, [], size, block)):
        cross(line, device)


def pcrypt():
    """The cipher that works on other CPUs.  It is found by the name of its
    instance only, and from then on it is what gcm(aes) means."""
    mine = []
    for block in read("/proc/crypto").split("\n\n"):
        words = dict(re.split(r" *: *", text, maxsplit=1) for text in block.splitlines())
        if words["name"] == "gcm(aes)" and words["type"] == "aead":
            mine.append((int(words["priority"]), words["driver"]))
    driver = "pcrypt(%s)" % max(mine)[1]
    line = Line("capi:%s-random" % driver, 32, ["integrity:28:aead"], 28)
    cross(line)
    below = Below(28, 512)
    with Mapped(line, OURS, below) as top:
        info = top.info()
        TAP.same((driver, "1"), (info["driver"], info["async"]), "pcrypt: it is what was used")
    below.stop()


def few():
    """What shows whether anything is wrong at all."""
    for line in (gcm("random", 28), OFFSET):
        cross(line)
    model()
    padding(gcm("random", 28, metadata=64), 28)


def main():
    """All of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--metadata", action="append", help="DEVICE:BYTES")
    parser.add_argument("parts", nargs="*", help="few: one of each kind, quickly")
    args = parser.parse_args()
    both_modules()
    if args.metadata:
        for text in args.metadata:
            own_metadata(*text.split(":"))
        TAP.finish()
    if "few" in args.parts:
        try:
            few()
        except OSError as error:        # EILSEQ, of a tag that does not fit
            TAP.ok(False, "few: the test went on to its end", error)
        TAP.finish()
    recorded()
    for line in LINES + (LATER if KERNEL != "6.1" else []):
        cross(line)
    model()
    tamper(gcm("random", 28), 16)
    tamper(gcm("plain64", 16, sector=4096), None)
    tamper(Line("capi:authenc(hmac(sha256),xts(aes))-random", 96, ["integrity:48:aead"], 48), 32)
    buffer(gcm("random", 28))
    padding(gcm("random", 28, metadata=64), 28)
    padding(Line("aes-xts-random", 64, [], 64), 16)
    options()
    refusals()
    pcrypt()
    TAP.finish()


main()
