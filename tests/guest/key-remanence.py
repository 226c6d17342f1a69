#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Whether a key is in memory while it is in use, and nowhere afterwards.

key-remanence.py KEYLOAD [--intree] [PART..]

keyload.c makes the keys and is clean itself; xcrypt_memscan.c searches, and
knows only masked pieces.  With --intree nothing is judged: it shows what the
kernel's own dm-crypt does.
"""

import collections
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import (Direct, Failed, Tap, exists, info, note, read, remove, run,
                      sectors, status_of, table, use_intree, use_ours)
from storm import Tagged

DISK = "/dev/vda"
NAME = "remanence"
NEEDLES = "/run/needles"
OURS = "--intree" not in sys.argv
KEYLOAD = sys.argv[1]
PARTS = [word for word in sys.argv[2:] if word != "--intree"]
tap = Tap()

# The cipher in C: of the kernel's library, or what was there before that.
GENERIC = ("xts-aes-lib" if "xts-aes-lib" in read("/proc/crypto") else
           "xts(ecb(aes-generic))")

# name, cipher field, bytes of key, AES parts of it, options
CIPHERS = (
    ("xts", "aes-xts-plain64", 64, "0:32,32:32", ""),
    ("cbc-essiv", "aes-cbc-essiv:sha256", 32, "0:32", ""),
    ("lmk2", "aes:64-cbc-lmk", 64 * 16, "0:16,16:16,1008:16", ""),
    ("lmk3", "aes:64-cbc-lmk", 65 * 16, "0:16,16:16,1008:16", ""),
    ("tcw", "aes-cbc-tcw", 32 + 16 + 16, "0:32", ""),
    ("eboiv", "aes-cbc-eboiv", 32, "0:32", ""),
    ("elephant", "aes-cbc-elephant", 64, "0:32,32:32",
     " 2 sector_size:4096 iv_large_sectors"),
    ("generic", "capi:%s-plain64" % GENERIC, 64, "0:32,32:32", ""),
    ("flags", "aes-xts-plain64", 64, "0:32,32:32",
     " 2 no_read_workqueue no_write_workqueue"),
)

# As above; last the bytes that are kept for a sector.
AEADS = (
    ("gcm", "capi:gcm(aes)-random", 32, "0:32", 28),
    ("authenc", "capi:authenc(hmac(sha256),xts(aes))-random", 96, "0:32,32:32", 48),
)


class Hits(collections.Counter):
    """What a search found: kind of needle -> how often."""

    def __init__(self, path=NEEDLES):
        super().__init__()
        with open(path + ".names", encoding="ascii") as file:
            names = [line.split() for line in file]
        with open(path, "rb") as file:
            needles = file.read()
        scan = os.open("/dev/xcrypt_memscan", os.O_RDWR)
        os.write(scan, needles)
        self.lines = []
        while True:
            text = os.read(scan, 1 << 16).decode()
            if not text:
                break
            self.lines += text.splitlines()
        os.close(scan)
        self.needles = set()
        for line in self.lines:
            number = int(line.split()[0])
            self[names[number][0]] += 1
            self.needles.add(number)
        self.all = {number for number, name in enumerate(names)
                    if name[0] in ("key", "enc")}
        self.ciphers = {number for number in self.all
                        if names[number][0] == "enc"}
        self.names = names

    def where(self):
        """For people."""
        return "\n".join("%s %s at %s" % (*self.names[int(line.split()[0])],
                                          line.split(" ", 1)[1])
                         for line in self.lines[:20])

    def said(self):
        """In one line."""
        return ", ".join("%d %s" % (self[kind], kind)
                         for kind in ("key", "hex", "enc", "dec")
                         if self[kind]) or "nothing"


def keyload(*args, wanted=0):
    """Runs keyload; its status must be wanted."""
    status, text = status_of(KEYLOAD, *args)
    if status != wanted:
        raise Failed("keyload %s: status %d: %s" % (args[0], status, text))
    return text


def create(cipher, size, aes, options, how="hex", secure=False, disk=DISK):
    """A device with a key of its own."""
    keyload(*(["secure"] if secure else []), "create", NAME,
            sectors(disk) - 64, cipher, size, "0 %s 0%s" % (disk, options),
            NEEDLES, aes, how)
    run("dmsetup", "mknodes", NAME)


def use():
    """Reads and writes, from both CPUs, sector 0 too."""
    dev = Direct("/dev/mapper/" + NAME, 1 << 20)
    dev.write(0, bytes(range(256)) * 4096)
    dev.write(1 << 20, bytes(1 << 20))
    dev.read(0, 1 << 20)
    for place in range(0, 1 << 18, 4096):
        dev.write(place, bytes(4096))
        dev.read(place, 4096)
    dev.close()


def settled(text):
    """No hit; freed memory is given a moment, RCU holds some of it."""
    hits = None
    for _ in range(4):
        hits = Hits()
        if not hits:
            break
        time.sleep(1)
    judge(not hits, text, "found %s\n%s" % (hits.said(), hits.where()))
    if not OURS:
        note("%s: %s" % (text, hits.said()))


def present(text, hexes=None, kept=False):
    """The control: every piece of the key is there, or the search is blind.

    kept: the ciphers have it, but the seed of an IV may live on as a hash only.
    """
    hits = Hits()
    missing = (hits.ciphers if kept else hits.all) - hits.needles
    judge(not missing, text + " (%s)" % hits.said(),
          "not found: " + ", ".join(" ".join(hits.names[number])
                                    for number in sorted(missing)[:10]))
    if hexes is not None:
        judge(bool(hits["hex"]) == hexes, text + ": hex text is %sthere" %
              ("" if hexes else "not "), hits.where())
    return hits


def judge(good, text, why=""):
    """A case, if it is ours that is tried."""
    if OURS:
        tap.ok(good, text, why)
    else:
        note("in-tree: %s: %s" % (text, "yes" if good else "NO: " +
                                  str(why).replace("\n", "; ")))


def control():
    """The search finds what is there, text too, and nothing after a wipe."""
    with subprocess.Popen([KEYLOAD, "hold", "64", NEEDLES, "32:32", "hex"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as held:
        held.stdout.readline()
        hits = present("the search finds a key that a program holds")
        judge(hits["hex"] == 8, "and its hex text, piece by piece",
              "%d of 8 pieces" % hits["hex"])
        held.stdin.close()
        held.wait()
    settled("and finds nothing once the program wiped it")


def life(name, cipher, size, aes, options, disk=DISK):
    """Wipe, another key, close; the target alone clears the text."""
    create(cipher, size, aes, options, disk=disk)
    present(name + ": the key in use is found", hexes=False)
    use()
    run("dmsetup", "suspend", NAME)
    run("dmsetup", "message", NAME, "0", "key wipe")
    settled(name + ": no trace after key wipe, while the device is there")
    zeros = table(NAME, keys=True).split()[4]
    judge(zeros == "00" * size, name + ": its table has zeros for a key")
    keyload("set", NAME, size, NEEDLES, aes, "hex")
    run("dmsetup", "resume", NAME)
    use()
    remove(NAME)
    settled(name + ": no trace of the next key after close")


def authenticated(name, cipher, size, aes, kept):
    """life() with kept bytes beside each sector, on a dm-integrity device."""
    below = Tagged("below", kept)
    life(name, cipher, size, aes, " 1 integrity:%d:aead" % kept, disk=below.path)
    below.remove()


def replaced():
    """A key that another one took the place of."""
    create("aes-xts-plain64", 64, "0:32,32:32", "")
    use()
    run("dmsetup", "suspend", NAME)
    os.rename(NEEDLES, NEEDLES + ".old")
    os.rename(NEEDLES + ".names", NEEDLES + ".old.names")
    keyload("set", NAME, 64, NEEDLES, "0:32,32:32", "hex")
    present("key set: the new key is found", hexes=False)
    hits = Hits(NEEDLES + ".old")
    judge(not hits, "key set: no trace of the old one", hits.where())
    run("dmsetup", "resume", NAME)
    use()
    remove(NAME)
    settled("key set: no trace of the new one after close")


def secure():
    """As cryptsetup does it."""
    create("aes-xts-plain64", 64, "0:32,32:32", "", secure=True)
    present("secure ioctl: the key in use is found", hexes=False)
    use()
    remove(NAME)
    settled("secure ioctl: no trace after close")


def keyring(name, cipher, size, aes, options):
    """A key of a keyring: purged, wiped, closed."""
    create(cipher, size, aes, options, how="logon:xcrypt:test")
    hits = present(name + ", keyring: the key in use is found")
    judge(":" + str(size) + ":logon:xcrypt:test" in table(NAME, keys=True),
          name + ", keyring: the table names it")
    use()
    run("keyctl", "purge", "-s", "logon", "xcrypt:test")
    time.sleep(1)
    after = present(name + ", keyring: after a purge the ciphers still have it",
                    kept=True)
    judge(after["key"] < hits["key"], name +
          ", keyring: but the keyring's copy is gone",
          "%d, then %d" % (hits["key"], after["key"]))
    run("dmsetup", "suspend", NAME)
    run("dmsetup", "message", NAME, "0", "key wipe")
    settled(name + ", keyring: no trace after purge and key wipe")
    keyload("set", NAME, size, NEEDLES, aes, "logon:xcrypt:test")
    run("dmsetup", "resume", NAME)
    use()
    remove(NAME)
    run("keyctl", "purge", "-s", "logon", "xcrypt:test")
    time.sleep(1)
    settled(name + ", keyring: no trace after close and purge")


def refusals():
    """Lines that are refused after, and before, the key was looked at."""
    for text, cipher, size, options in (
            ("iv_offset that is refused", "aes-xts-plain64", 64, "x"),
            ("key size that the cipher refuses", "aes-xts-plain64", 40, ""),
            ("unknown option", "aes-xts-plain64", 64, " 1 no_such_option"),
            ("unknown cipher", "no-such-cipher", 64, ""),
            ("device that is not there", "aes-xts-plain64", 64, "device")):
        rest = "0 %s 0%s" % (DISK, options)
        if options == "x":
            rest = "x %s 0" % DISK
        elif options == "device":
            rest = "0 /dev/none 0"
        keyload("create", NAME, sectors(DISK), cipher, size, rest, NEEDLES,
                "0:32" if size == 64 else "-", "hex", wanted=1)
        judge(not exists(NAME), text + ": refused")
        settled(text + ": no trace of the key")
    create("aes-xts-plain64", 64, "0:32,32:32", "")
    run("dmsetup", "suspend", NAME)
    os.rename(NEEDLES, NEEDLES + ".table")
    os.rename(NEEDLES + ".names", NEEDLES + ".table.names")
    keyload("set", NAME, 32, NEEDLES, "-", "hex", wanted=1)
    settled("key set of another size: refused, no trace of that key")
    hits = Hits(NEEDLES + ".table")
    judge(not hits.all - hits.needles, "and the device has its own key still")
    run("dmsetup", "resume", NAME)
    keyload("set", NAME, 64, NEEDLES, "-", "hex", wanted=1)
    settled("key set while not suspended: refused, no trace of that key")
    use()
    remove(NAME)
    for end in ("", ".names"):
        os.rename(NEEDLES + ".table" + end, NEEDLES + end)
    settled("and none of its own key after close")


def guarded(text, action, *args):
    """An unexpected end of one part is a failed case, not the end of all."""
    if PARTS and text not in PARTS:
        return
    start = time.monotonic()
    try:
        action(*args)
    except (Failed, OSError, ValueError) as error:
        judge(False, text + ": ran to its end", error)
        if exists(NAME):
            run("dmsetup", "remove", "--force", NAME, status=None)
    note("%s took %.0f s" % (text, time.monotonic() - start))


def main():
    """All parts in turn."""
    if OURS:
        use_ours()
    else:
        use_intree()
    run("modprobe", "xcrypt_memscan")
    guarded("control", control)
    guarded("secure", secure)
    guarded("set", replaced)
    for line in CIPHERS:
        guarded(line[0], life, *line)
    for line in AEADS:
        guarded(line[0], authenticated, *line)
    for line in CIPHERS:
        if line[0] in ("xts", "lmk3", "elephant"):
            guarded(line[0] + "-keyring", keyring, *line)
    guarded("refusals", refusals)
    if OURS:
        note("last driver: " + str(info(NAME) if exists(NAME) else "none"))
        tap.finish()


main()
