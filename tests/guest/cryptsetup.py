#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""cryptsetup with our module as the only `crypt`.

One disk for each kind of volume, in the order of VOLUMES.  Each is made,
opened, read, resized, refreshed, suspended and closed with ours alone; at the
end the kernel's own dm-crypt reads what ours wrote, and ours what that wrote.
"""

import base64
import encodings
import hashlib
import mmap
import os
import struct
import sys
import time
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import (Direct, Failed, Tap, exists, guest_errors, info, note,
                      owners, read, run, sectors, seeded, status_of, table,
                      use_intree, use_ours, write)

KEYS = "/run/xcrypt-keys"               # tmpfs
PBKDF = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]
CHUNK = 64 << 10
FLAGS = (                               # option, in status, in the table
    ("--allow-discards", "discards", "allow_discards"),
    ("--perf-same_cpu_crypt", "same_cpu_crypt", "same_cpu_crypt"),
    ("--perf-submit_from_crypt_cpus", "submit_from_crypt_cpus",
     "submit_from_crypt_cpus"),
    ("--perf-no_read_workqueue", "no_read_workqueue", "no_read_workqueue"),
    ("--perf-no_write_workqueue", "no_write_workqueue", "no_write_workqueue"),
)
tap = Tap()


class Volume:
    """One encrypted disk: how to make it and how to open it."""

    def __init__(self, name, disk, *, form=None, opening=(), key="pass",
                 refresh="all", suspend=False, keyring=False, resize=True,
                 sector=512):
        self.name = name
        self.disk = "/dev/vd" + disk
        self.form = form                # options of luksFormat, or None
        self.opening = list(opening)    # options of open
        self.key = "%s/%s" % (KEYS, key)
        self.refreshes = refresh      # "each" flag alone, only "all", None
        self.suspends = suspend
        self.keyring = keyring          # the table names a logon key
        self.resizes = resize
        self.sector = sector
        self.device = "/dev/mapper/" + name
        self.typed = None               # a passphrase on standard input
        self.sums = None                # what digest() returned last

    def format(self):
        """Makes the LUKS header."""
        run("cryptsetup", "luksFormat", "-q", *self.form, "--key-file",
            self.key, self.disk)

    def keyargs(self):
        """How open, refresh and resize get the key."""
        return ["--key-file", self.key]

    def open(self, *more):
        """Opens it."""
        run("cryptsetup", "open", *self.opening, *self.keyargs(), *more,
            self.disk, self.name, data=self.typed)

    def close(self):
        """Closes it."""
        run("cryptsetup", "close", self.name)

    def status(self):
        """cryptsetup status as a dictionary."""
        return dict((part.strip() for part in line.split(":", 1))
                    for line in run("cryptsetup", "status",
                                    self.name).splitlines()[1:] if ":" in line)

    def places(self):
        """Offsets of the pieces that are written and read."""
        size = sectors(self.device) * 512
        return [0, CHUNK, (size // 2) & ~4095, size - CHUNK]

    def fill(self, seed):
        """Writes pieces that only seed and place determine."""
        dev = Direct(self.device, CHUNK)
        for place in self.places():
            dev.write(place, seeded("%s %s %d" % (self.name, seed, place),
                                    CHUNK))
        dev.close()
        self.sums = self.digest()
        return self.sums == [hashlib.sha256(seeded(
            "%s %s %d" % (self.name, seed, place), CHUNK)).hexdigest()
            for place in self.places()]

    def digest(self):
        """sha256 of each piece, as read now, and past the page cache."""
        dev = Direct(self.device, CHUNK)
        sums = [hashlib.sha256(dev.read(place, CHUNK)).hexdigest()
                for place in self.places()]
        dev.close()
        return sums

    def intact(self):
        """Whether the pieces read as they were written."""
        return self.digest() == self.sums


class Tcrypt(Volume):
    """A TrueCrypt volume; cryptsetup opens those, but does not make any."""

    def keyargs(self):
        # A key file would be hashed into the passphrase.
        return []

    def format(self):
        # pylint: disable=import-outside-toplevel
        from cryptography.hazmat.primitives.ciphers import (Cipher, algorithms,
                                                            modes)
        size = sectors(self.disk) * 512
        start, salt, keys = 131072, os.urandom(64), os.urandom(256)
        head = struct.pack(">4sHHI16xQQQQII120x", b"TRUE", 5, 0x700,
                           zlib.crc32(keys), 0, size - 2 * start, start,
                           size - 2 * start, 0, 512)
        head += struct.pack(">I", zlib.crc32(head)) + keys
        with open(self.key, "rb") as file:
            self.typed = file.read()
        key = hashlib.pbkdf2_hmac("sha512", self.typed, salt, 1000, 64)
        xts = Cipher(algorithms.AES(key), modes.XTS(bytes(16))).encryptor()
        with open(self.disk, "r+b") as file:
            file.write(salt + xts.update(head) + xts.finalize())


def secret(name, data):
    """A key file, in memory only."""
    path = os.path.join(KEYS, name)
    with open(path, "wb", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.write(data)


def loopaes_keys(lines):
    """As loop-AES wants them: lines of text, at least 20 bytes each."""
    return b"".join(base64.b64encode(os.urandom(48)) + b"\n"
                    for _ in range(lines))


def luks(kind, *more):
    """Options of luksFormat."""
    return ["--type", kind, *PBKDF, *more]


XTS = ["--cipher", "aes-xts-plain64", "--key-size", "512"]
VOLUMES = [
    Volume("plain", "a", key="raw", refresh="each", opening=["--type", "plain", *XTS]),
    Volume("luks1", "b", form=luks("luks1", *XTS), refresh="each",
           suspend=True),
    Volume("luks2", "c", form=luks("luks2", *XTS), keyring=True,
           refresh="each", suspend=True),
    Volume("luks2-4k", "d", form=luks("luks2", *XTS, "--sector-size", "4096"),
           keyring=True, suspend=True, sector=4096),
    Volume("luks2-cbc", "e", form=luks("luks2", "--cipher",
                                       "aes-cbc-essiv:sha256", "--key-size",
                                       "256", "--sector-size", "512"),
           opening=["--disable-keyring"], suspend=True),
    Volume("loop1", "f", key="loop1", resize=False, refresh=None,
           opening=["--type", "loopaes", "--key-size", "256"]),
    Volume("loop2", "g", key="loop2", resize=False, refresh=None,
           opening=["--type", "loopaes", "--key-size", "256"]),
    Volume("loop3", "h", key="loop3", resize=False, refresh=None,
           opening=["--type", "loopaes", "--key-size", "128"]),
    Tcrypt("tcrypt", "i", refresh=None, resize=False,
           opening=["--type", "tcrypt", "--hash", "sha512", "--cipher", "aes"]),
]
SPARE = "/dev/vdj"


def expect_table(v):
    """Cipher, key form and sector size, as the volume asks for them."""
    words = table(v.name, keys=True).split()
    options = words[9:] if len(words) > 8 else []
    if words[2] != "crypt":
        raise Failed("%s is not a crypt target: %s" % (v.name, words[2]))
    return words[3], words[4], options


def opened(v):
    """The mapping is what was asked for, by status and by table."""
    cipher, key, options = expect_table(v)
    state = v.status()
    tap.ok(state.get("cipher") == cipher and state.get("mode") == "read/write"
           and state.get("device") == v.disk, v.name + ": status after open",
           "%s %s" % (state, cipher))
    tap.same(v.keyring, key.startswith(":"), v.name + ": key in the " +
             ("keyring, named in the table" if v.keyring else "table"))
    tap.same(["sector_size:4096"] if v.sector == 4096 else [],
             [word for word in options if word.startswith("sector_size")],
             "%s: sector size %d" % (v.name, v.sector))


def flagged(v, flags, how):
    """The flags are in force, in status and in the table, and I/O works."""
    state = v.status().get("flags", "").split()
    options = [word for word in expect_table(v)[2]
               if word in [flag[2] for flag in FLAGS]]
    what = " ".join(flag[0] for flag in flags) if len(flags) < 2 else "all flags"
    what = "%s: %s with %s" % (v.name, how, what or "no flag")
    # The order of the flags in status is cryptsetup's.
    tap.same((sorted(flag[1] for flag in flags), sorted(flag[2] for flag in flags)),
             (sorted(state), sorted(options)), what + ": status and table")
    good = v.intact()
    tap.ok(good and v.fill(what), what + ": reads and writes")


def refreshing(v):
    """Each flag alone, all together, and none again."""
    sets = [[flag] for flag in FLAGS] if v.refreshes == "each" else []
    for flags in sets + [list(FLAGS), []]:
        plain = "--type" in v.opening
        run("cryptsetup", "refresh", *v.opening, *v.keyargs(),
            *[flag[0] for flag in flags],
            *([v.disk] if plain else []), v.name)
        flagged(v, flags, "refresh")


def resizing(v):
    """Smaller, and back to all of the disk; the start stays."""
    whole = sectors(v.device)
    head = v.sums[:2]
    run("cryptsetup", "resize", *v.keyargs(), "--device-size", "4M", v.name)
    tap.same(8192, sectors(v.device), v.name + ": resize to 4 MiB")
    same = v.digest()[:2] == head
    run("cryptsetup", "resize", *v.keyargs(), v.name)
    tap.ok(sectors(v.device) == whole and same and v.intact(),
           v.name + ": resize back, content as before")


class Writer:
    """A process that writes blocks in turn, and counts them."""

    BLOCK = 16384
    BLOCKS = 64

    def __init__(self, path):
        self.shared = mmap.mmap(-1, 4096)       # count, then "stop", "failed"
        self.path = path
        self.pid = os.fork()
        if not self.pid:
            try:
                self.work()
                os._exit(0)
            finally:
                os._exit(1)

    @staticmethod
    def pattern(number):
        """What write number N consists of."""
        return struct.pack("<Q", number) * (Writer.BLOCK // 8)

    def work(self):
        """The child."""
        dev = Direct(self.path, self.BLOCK)
        number = 0
        while not self.shared[8]:
            dev.write(number % self.BLOCKS * self.BLOCK, self.pattern(number))
            number += 1
            self.shared[:8] = struct.pack("<Q", number)
        dev.close()

    def count(self):
        """Writes that completed."""
        return struct.unpack("<Q", self.shared[:8])[0]

    def wait(self, count):
        """Until so many completed.  False if it takes very long."""
        for _ in range(6000):
            if self.count() >= count:
                return True
            time.sleep(0.02)
        return False

    def state(self):
        """R, S, D.. as in ps."""
        return read("/proc/%d/stat" % self.pid).rsplit(")", 1)[1].split()[0]

    def finish(self):
        """Ends it; whether every block reads as last written."""
        self.shared[8] = 1
        status = os.waitpid(self.pid, 0)[1]
        count = self.count()
        dev = Direct(self.path, self.BLOCK)
        good = status == 0
        for block in range(min(count, self.BLOCKS)):
            last = (count - 1 - block) // self.BLOCKS * self.BLOCKS + block
            good = good and dev.read(block * self.BLOCK, self.BLOCK) == \
                self.pattern(last)
        dev.close()
        return good


def suspending(v):
    """luksSuspend and luksResume under a writer."""
    writer = Writer(v.device)
    before = expect_table(v)[1]
    tap.ok(writer.wait(20), v.name + ": a writer writes")
    run("cryptsetup", "luksSuspend", v.name)
    first = writer.count()
    key = expect_table(v)[1]
    zeros = "0" * (2 * int(before.split(":")[1]) if v.keyring else len(before))
    tap.same(zeros, key, v.name + ": luksSuspend takes the key from the table")
    if owners()[0] == ["dm_xcrypt"]:
        tap.same("wiped", info(v.name).get("key"),
                 v.name + ": INFO says so")
    tap.ok("(suspended)" in run("cryptsetup", "status", v.name, status=None),
           v.name + ": status says suspended")
    status, text = status_of("dmsetup", "resume", v.name)
    tap.ok(status and exists(v.name), v.name +
           ": no resume without a key", text)
    status, text = status_of("cryptsetup", "luksResume", "--key-file",
                             KEYS + "/wrong", v.name)
    tap.same(2, status, v.name + ": luksResume with a wrong key is refused")
    time.sleep(1)
    # one write may have completed without having been counted
    tap.ok(writer.count() <= first + 1 and writer.state() == "D",
           v.name + ": the writer is blocked meanwhile",
           "%d, then %d, state %s" % (first, writer.count(), writer.state()))
    run("cryptsetup", "luksResume", "--key-file", v.key,
        *(["--disable-keyring"] if "--disable-keyring" in v.opening else []),
        v.name)
    tap.ok(writer.wait(first + 20), v.name + ": luksResume lets it go on",
           "%d, then %d" % (first, writer.count()))
    tap.same(before, expect_table(v)[1], v.name + ": the key is as before")
    tap.ok(writer.finish(), v.name + ": every block reads as last written")
    tap.ok(v.fill("resumed"), v.name + ": and the rest of the disk works")


def busy_close(v):
    """close while in use: refused, or deferred until it is no longer."""
    fd = os.open(v.device, os.O_RDONLY)
    status, text = status_of("cryptsetup", "close", v.name)
    tap.ok(status == 5 and exists(v.name), v.name +
           ": close of a device in use is refused", "%d %s" % (status, text))
    run("cryptsetup", "close", "--deferred", v.name)
    run("cryptsetup", "close", "--cancel-deferred", v.name)
    # without udev the node went with the first of the two
    run("dmsetup", "mknodes", v.name)
    os.close(fd)
    time.sleep(0.5)
    tap.ok(exists(v.name) and v.intact(), v.name + ": --cancel-deferred")
    fd = os.open(v.device, os.O_RDONLY)
    run("cryptsetup", "close", "--deferred", v.name)
    still = exists(v.name) and len(os.pread(fd, 4096, 0)) == 4096
    os.close(fd)
    for _ in range(50):
        if not exists(v.name):
            break
        time.sleep(0.1)
    tap.ok(still and not exists(v.name), v.name +
           ": close --deferred waits for the last user")


def wrong_key(v):
    """A wrong passphrase opens nothing."""
    status, text = status_of("cryptsetup", "open", *v.opening, "--key-file",
                             KEYS + "/wrong", v.disk, v.name)
    tap.ok(status == 2 and not exists(v.name), v.name +
           ": a wrong passphrase is refused", "%d %s" % (status, text))


def volume(v):
    """All of one volume's life with ours."""
    if v.form or isinstance(v, Tcrypt):
        v.format()
    if v.form:
        wrong_key(v)
    v.open()
    opened(v)
    tap.ok(v.fill("first"), v.name + ": data read back as written")
    v.close()
    gone = not exists(v.name)
    v.open("--readonly")
    state = v.status()["mode"]
    readonly = run("blockdev", "--getro", v.device)
    tap.same(("readonly", "1", True), (state, readonly, v.intact()),
             v.name + ": open --readonly")
    v.close()
    v.open()
    tap.ok(gone and v.intact(), v.name + ": closed, and opened again")
    if v.resizes:
        resizing(v)
    if v.refreshes:
        refreshing(v)
    else:                               # cryptsetup has no refresh for it
        v.close()
        v.open(*[flag[0] for flag in FLAGS])
        flagged(v, FLAGS, "open")
    if v.suspends:
        suspending(v)
    if v.name in ("plain", "luks2"):
        busy_close(v)
    else:
        v.close()


def keyring():
    """LUKS2: the key's two ways to the kernel, the same data."""
    v = next(v for v in VOLUMES if v.name == "luks2")
    v.open("--disable-keyring")
    key = expect_table(v)[1]
    tap.ok(len(key) == 128 and not key.startswith(":") and v.intact(),
           "luks2: --disable-keyring puts the key in the table, data equal")
    hidden = table(v.name).split()[4]
    tap.same("0" * 128, hidden, "luks2: dmsetup table hides it")
    v.close()


def reencrypting():
    """Another key for all of an open volume, piece by piece, under a writer:
    cryptsetup moves the border between two crypt targets of one table.
    """
    v = next(v for v in VOLUMES if v.name == "luks2")
    v.open()
    v.fill("before")
    writer = Writer(v.device)
    moving = writer.wait(10)
    first = writer.count()
    run("cryptsetup", "reencrypt", "-q", *PBKDF, "--key-file", v.key,
        "--hotzone-size", "8M", "--active-name", v.name, timeout=400)
    during = writer.count() - first
    good = writer.finish()
    tap.ok(moving and during > 0 and good and v.digest()[2:] == v.sums[2:],
           "luks2: online reencryption, %d writes meanwhile: all data right" %
           during)
    note(table(v.name))
    v.fill("after")
    v.close()


def integrity():
    """LUKS2 with authenticated encryption: formatted and wiped through ours,
    read by in-tree, and back.
    """
    data, opening = seeded("integrity", 1 << 20), ["open", "--key-file", KEYS + "/pass",
                                                   SPARE, "spare"]

    def through(use, write_it):
        use()
        run("cryptsetup", *opening)
        disk = Direct("/dev/mapper/spare", 1 << 20)
        if write_it:
            disk.write(4096, data[:-4096])
        good = disk.read(4096, len(data) - 4096) == data[:-4096]
        last = sectors("/dev/mapper/spare") * 512 - (1 << 20)
        good = good and disk.read(last - last % 4096, 1 << 20) == bytes(1 << 20)
        disk.close()
        line = table("spare")
        run("cryptsetup", "close", "spare")
        return good, line

    for text, more in (
            ("aes-xts, hmac-sha256", ["--integrity", "hmac-sha256"]),
            ("aes-gcm-random", ["--cipher", "aes-gcm-random", "--key-size", "256",
                                "--integrity", "aead"]),
            ("chacha20-random, 4096-byte sectors",
             ["--cipher", "chacha20-random", "--key-size", "256", "--integrity",
              "poly1305", "--sector-size", "4096"])):
        run("cryptsetup", "luksFormat", "-q", *luks("luks2", *more), "--key-file",
            KEYS + "/pass", SPARE)
        good, line = through(use_ours, True)
        tap.ok(good and " integrity:" in line and ":aead" in line,
               "luks2 --integrity, %s: formatted, wiped, written and read" % text, line)
        back = (through(use_intree, False)[0], through(use_ours, False)[0])
        tap.same((True, True), back,
                 "luks2 --integrity, %s: in-tree reads it, and ours again" % text)


def filesystem():
    """A file system with real files on a LUKS2 volume."""
    v = next(v for v in VOLUMES if v.name == "luks2-4k")
    v.open("--allow-discards")
    run("mkfs.ext4", "-q", "-b", "4096", v.device)
    os.makedirs("/run/mnt", exist_ok=True)
    run("mount", v.device, "/run/mnt")
    run("cp", "-a", os.path.dirname(encodings.__file__), "/run/mnt/files")

    def sums():
        return run("sh", "-c", "cd /run/mnt && find files -type f -print0 | "
                   "sort -z | xargs -0 sha256sum | sha256sum")

    want = sums()
    writer = Writer(prepared("/run/mnt/writer"))
    moving = writer.wait(10)
    run("cryptsetup", "luksSuspend", v.name)
    first = writer.count()
    time.sleep(1)
    blocked = writer.count() <= first + 1
    run("cryptsetup", "luksResume", "--key-file", v.key, v.name)
    going = writer.wait(first + 10)
    good = writer.finish()
    run("fstrim", "/run/mnt", status=None)
    run("umount", "/run/mnt")
    fsck = status_of("fsck.ext4", "-fn", v.device)
    run("mount", v.device, "/run/mnt")
    tap.same((True, True, True, True, 0, want),
             (moving, blocked, going, good, fsck[0], sums()),
             "luks2-4k: ext4 over luksSuspend: frozen, thawed, clean, equal")
    run("umount", "/run/mnt")
    v.sums = v.digest()
    v.close()


def prepared(path):
    """A file with room for the writer."""
    with open(path, "wb") as file:
        file.write(bytes(Writer.BLOCK * Writer.BLOCKS))
    return path


def cross():
    """In-tree reads ours; ours reads in-tree's."""
    errors = guest_errors()
    use_intree()
    tap.same((["dm_crypt"], ["crypt"]), owners(), "now the kernel's own alone")
    for v in VOLUMES:
        v.open()
        tap.ok(v.intact(), v.name + ": the kernel's dm-crypt reads what ours wrote")
        v.fill("in-tree")
        v.close()
    use_ours()
    tap.same((["dm_xcrypt"], ["crypt"]), owners(), "and ours alone again")
    for v in VOLUMES:
        v.open()
        tap.ok(v.intact(), v.name + ": ours reads what the kernel's dm-crypt wrote")
        v.close()
    tap.same([], errors, "no I/O error in the kernel's log")


def guarded(text, action):
    """An unexpected end of one part is a failed case, not the end of all."""
    try:
        action()
    except (Failed, OSError, KeyError, ValueError) as error:
        tap.ok(False, text + ": ran to its end", error)
        status_of("umount", "/run/mnt")
        for v in VOLUMES:
            if exists(v.name):
                status_of("dmsetup", "remove", "--force", v.name)


def all_ciphers():
    """7.3 lets programs have only some of the kernel's ciphers, and cryptsetup
    refuses to format with what it cannot try; that is a setting."""
    restrict = "/proc/sys/crypto/af_alg_restrict"
    run("modprobe", "-q", "af_alg", status=None)
    if os.path.exists(restrict):
        write(restrict, "0")


def main():
    """All parts in turn."""
    all_ciphers()
    os.makedirs(KEYS, mode=0o700)
    secret("pass", b"a passphrase that is no secret")
    secret("wrong", b"another one")
    secret("raw", os.urandom(64))
    for version, lines in ((1, 1), (2, 64), (3, 65)):
        secret("loop%d" % version, loopaes_keys(lines))
    if "--intree" in sys.argv:          # to try the test itself
        use_intree()
    else:
        use_ours()
        tap.same((["dm_xcrypt"], ["crypt"]), owners(),
                 "dm_xcrypt serves crypt, dm_crypt is not loaded")
    note(run("cryptsetup", "--version") + "; " +
         " ".join(line for line in run("dmsetup", "targets").splitlines()
                  if line.startswith("crypt")))
    wanted = [word for word in sys.argv[1:] if word != "--intree"]
    if wanted:                          # a quick look
        VOLUMES[:] = [v for v in VOLUMES if v.name in wanted]
    for v in VOLUMES:
        start = time.monotonic()
        guarded(v.name, lambda v=v: volume(v))
        note("%s took %.0f s" % (v.name, time.monotonic() - start))
    for name, action in (("luks2", keyring), ("luks2", reencrypting),
                         ("luks2-4k", filesystem)):
        if name in [v.name for v in VOLUMES]:
            guarded(action.__name__, action)
    guarded("integrity", integrity)
    tap.skip("BITLK", "cryptsetup does not make such volumes, and there is "
             "no other program in the guest that does")
    if "--intree" not in sys.argv:
        tap.same((["dm_xcrypt"], ["crypt"]), owners(),
                 "still dm_xcrypt alone: all of it went through ours")
        guarded("cross-reading", cross)
    tap.finish()


main()
