# SPDX-License-Identifier: GPL-2.0
"""One of two modules that are compared: its target, a device of it, the bytes
below; and keys in a keyring.  See ciphertext.py.
"""

import ctypes
import errno
import fcntl
import hashlib
import mmap
import os
import re
import struct

import cipherlines
from dmioctl import NOFLUSH, SKIP_LOCKFS
from guestlib import read

PAGE = mmap.PAGESIZE
RAM_KIB = 8192
MARGIN = 8                      # sectors looked at on both sides of a mapping
BLKFLSBUF, BLKDISCARD = 0x1261, 0x1277

LIMITS = ("logical_block_size", "physical_block_size", "minimum_io_size",
          "optimal_io_size", "dma_alignment", "max_sectors_kb",
          "max_hw_sectors_kb", "max_segments", "max_segment_size",
          "discard_max_bytes", "discard_granularity",
          "write_zeroes_max_bytes", "chunk_sectors", "rotational",
          "stable_writes", "write_cache", "fua", "zoned")


def error_name(error):
    """ENOENT for -ENOENT, whatever comes."""
    if error is None:
        return "accepted"
    return errno.errorcode.get(error.errno, str(error.errno))


def bytes_of(seed, size):
    """Deterministic bytes; the recorded answers were made with these."""
    return hashlib.shake_128(seed.encode()).digest(size)


# ---- keys in keyrings ----

class Keyring:
    """A session keyring of our own."""
    ADD_KEY, KEYCTL = {"x86_64": (248, 250)}.get(os.uname().machine, (217, 219))
    JOIN_SESSION, SESSION = 1, -3

    def __init__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.call(self.KEYCTL, self.JOIN_SESSION, b"xcrypt-test", 0, 0)
        self.have = set()

    def call(self, *args):
        """A system call."""
        got = self.libc.syscall(*args)
        if got < 0:
            raise OSError(ctypes.get_errno(), "keyring")
        return got

    def add(self, kind, description, payload):
        """Adds a key, once."""
        if (kind, description) in self.have:
            return
        self.call(self.ADD_KEY, kind.encode(), description.encode(), payload,
                  len(payload), self.SESSION)
        self.have.add((kind, description))

    def add_encrypted(self, description, size):
        """A key that the kernel makes up, under a master key of ours."""
        self.add("user", "xcrypt:master", bytes_of("master", 32))
        self.add("encrypted", description,
                 b"new user:xcrypt:master %d" % size)


# ---- one side ----

class Side:
    """One of the two modules, its target, and a device of it."""

    def __init__(self, mapper, label, target, module, below, keyring):
        self.mapper = mapper
        self.label = label
        self.target = target
        self.module = module
        self.keyring = keyring
        self.name = "xt-" + label
        self.far_name = self.name + "-far"
        self.below = below              # device of the next load
        self.near = below
        self.minor = mapper.create(self.name)
        self.path = "/dev/dm-%d" % self.minor
        self.error = None
        minor = mapper.create(self.far_name)
        sectors = RAM_KIB * 2
        # Zeros that take no memory, and behind them the ram disk.
        mapper.load(self.far_name, [
            (0, cipherlines.FAR, "zero", ""),
            (cipherlines.FAR, sectors, "linear", below + " 0")])
        mapper.resume(self.far_name)
        self.far = "/dev/dm-%d" % minor

    def close(self):
        """Takes the devices away."""
        self.mapper.remove(self.name)
        self.mapper.remove(self.far_name)

    # ---- tables ----

    def key_text(self, case):
        """The key as the table takes it; puts it into the keyring if need."""
        kind, _, size = case.key.partition(":")
        seed = "key " + (case.seed or case.text)
        if kind in ("logon", "user", "encrypted") and size.isdigit():
            description = "orc:" + (case.name or
                                    hashlib.sha256(seed.encode()).hexdigest())
            if kind == "encrypted":
                self.keyring.add_encrypted(description, int(size))
            else:
                self.keyring.add(kind, description, bytes_of(seed, 8192)[:int(size)])
            return ":%s:%s:%s" % (size, kind, description)
        found = re.fullmatch(r"(?:(\d+)x)?(\d+)", case.key)
        if not found:
            return case.key
        return bytes_of(seed, 8192)[:int(found[1] or 1) * int(found[2])].hex()

    def params(self, case):
        """What stands behind the target's name."""
        far = case.start.isdigit() and int(case.start) >= cipherlines.FAR
        self.below = self.far if far else self.near
        if case.raw is not None:
            def key(found):
                if found[1] == "dev":
                    return self.below
                if found[1] == "logon64":
                    self.keyring.add("logon", "orc:logon64", bytes(64))
                    return "orc:logon64"
                return bytes_of("raw", int(found[1])).hex()
            return re.sub(r"\{(\w+)\}", key, case.raw)
        text = "%s %s %s %s %s" % (case.cipher, self.key_text(case),
                                   case.iv_offset, self.below, case.start)
        if case.opts:
            text += " %d %s" % (len(case.opts), " ".join(case.opts))
        return text

    def load(self, case, params=None):
        """Loads the table; returns the OSError, or None."""
        try:
            self.mapper.load(self.name, [(0, case.sectors, self.target,
                                          params or self.params(case))])
            return None
        except OSError as error:
            return error

    def clear(self):
        """Forgets the table that was loaded."""
        self.mapper.clear(self.name)

    def resume(self):
        """Makes the loaded table the live one; returns OSError or None."""
        try:
            # No file system, and no I/O in flight: nothing to wait for.
            self.mapper.resume(self.name, NOFLUSH | SKIP_LOCKFS)
            return None
        except OSError as error:
            return error

    def table(self, inactive=False):
        """TABLE status without what must differ: the device's numbers."""
        (_, length, target, text), = self.mapper.table(self.name, inactive)
        assert target == self.target, target
        fields = text.split(" ")
        number = os.stat(self.below).st_rdev
        if fields[3] == "%d:%d" % (os.major(number), os.minor(number)):
            fields[3] = "M:N"
        return "%d %s" % (length, " ".join(fields))

    def ima(self):
        """IMA status without the target's name."""
        text, = self.mapper.ima(self.name)
        return text.replace("target_name=%s," % self.target, "target_name=T,", 1)

    def limits(self):
        """{name: value} of the block device's queue."""
        found = {}
        for name in LIMITS:
            try:
                found[name] = read("/sys/block/dm-%d/queue/%s" %
                                   (self.minor, name))
            except OSError:
                pass                    # not in this kernel
        return found

    # ---- bytes ----

    def open(self, path=None, direct=True):
        """The mapped device, or another."""
        return os.open(path or self.path,
                       os.O_RDWR | (os.O_DIRECT if direct else 0))

    def raw(self, case, data=None):
        """Reads or writes the bytes below: the mapped ones and MARGIN."""
        first = max(int(case.start) - MARGIN, 0)
        last = int(case.start) + case.sectors + MARGIN
        size = (last - first) * 512
        view = memoryview(BUFFER)[:size]
        fd = self.open(self.below)
        try:
            if data is not None:
                view[:] = data
                if os.pwritev(fd, [view], first * 512) != size:
                    raise OSError(errno.EIO, "short write below")
                return None
            if os.preadv(fd, [view], first * 512) != size:
                raise OSError(errno.EIO, "short read below")
            return bytes(view)
        finally:
            os.close(fd)

    def discard(self, start, size):
        """Discards bytes of the mapped device; returns "accepted" or errno."""
        fd = self.open()
        try:
            fcntl.ioctl(fd, BLKDISCARD, struct.pack("QQ", start, size))
            return error_name(None)
        except OSError as error:
            return error_name(error)
        finally:
            os.close(fd)

    def write(self, case, data, order, buffered):
        """Writes through the mapping; order is a random.Random."""
        fd = self.open(direct=not buffered)
        try:
            if buffered:
                for at, size in pieces(len(data), 1, order):
                    os.pwrite(fd, data[at:at + size], at)
                os.fsync(fd)
                fcntl.ioctl(fd, BLKFLSBUF)
                return
            shift, view = shifted(case, len(data), order)
            view[:] = data
            for at, size in pieces(len(data), case.sector_size, order):
                part = memoryview(BUFFER)[shift + at:shift + at + size]
                if os.pwritev(fd, [part], at) != size:
                    raise OSError(errno.EIO, "short write")
        finally:
            os.close(fd)

    def read(self, case, size, order, buffered):
        """Reads through the mapping."""
        fd = self.open(direct=not buffered)
        try:
            if buffered:
                fcntl.ioctl(fd, BLKFLSBUF)
                return os.pread(fd, size, 0)
            shift, view = shifted(case, size, order)
            view[:] = bytes(size)
            for at, length in pieces(size, case.sector_size, order):
                part = memoryview(BUFFER)[shift + at:shift + at + length]
                if os.preadv(fd, [part], at) != length:
                    raise OSError(errno.EIO, "short read")
            return bytes(view)
        finally:
            os.close(fd)


# Direct I/O is done from and to this; anonymous memory starts on a page.
BUFFER = mmap.mmap(-1, 2 << 20)
# Units of a transfer: sectors in direct I/O, bytes in buffered.
DIRECT, BUFFERED = (1, 2, 3, 5, 7, 8, 13, 16, 31, 32), (511, 512, 3001, 4096, 6007)
POOL = bytes_of("pool", 2 << 20)


def shifted(case, size, order):
    """A place in BUFFER that is aligned to a sector, not always to a page."""
    unit = case.sector_size
    shift = unit * order.randrange(max(PAGE // unit, 1))
    return shift, memoryview(BUFFER)[shift:shift + size]


def pieces(total, unit, order):
    """[(offset, size)] of all of total bytes, out of order; a size is so many
    units.
    """
    sizes = BUFFERED if unit == 1 else DIRECT
    found, at = [], 0
    while at < total:
        size = min(total - at, unit * order.choice(sizes))
        found.append((at, size))
        at += size
    order.shuffle(found)
    return found


def plaintext(number, size):
    """Data of a case: each sector differs from all others, and from those of
    the case before.
    """
    at = number * 1511 % (len(POOL) - size)
    return POOL[at:at + size]
