#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The table line and everything else that is not I/O: what is refused, with
which errno and which words and numbers in the log; status; messages, suspend
and resume; keyrings; queue limits.

  tables.py [--intree] [PART...]

PART picks from the functions of main().  With --intree no test is run: the
tables go to the kernel's own dm-crypt, and what it answers differently is
listed.  Tables that crash it do not.
"""

import ctypes
import errno
import os
import re
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from dmioctl import DEV_STATUS, DeviceMapper
from guestlib import (NODEV, NOTBLK, WRONG_TYPE, Direct, Tap, load_module, note,
                      read, run, seeded, status_of, use_intree, use_ours, write)

DEV = "/dev/ram0"
DISCARDS = "/dev/vda"                   # one that may be discarded
SIZE = 4096                             # sectors of a mapped device
HEX = {n: seeded("tables %d" % n, n).hex() for n in
       (1, 15, 16, 17, 24, 30, 31, 32, 33, 40, 48, 56, 63, 64, 65, 66, 80, 96,
        128, 1040)}
XTS = "aes-xts-plain64"

keyutils = ctypes.CDLL("libkeyutils.so.1", use_errno=True)
SESSION_KEYRING = -3
CRASHES = "crashes in-tree"
ACCEPTED = 0


class Bad:
    """A table that must be refused."""

    # pylint: disable=too-many-arguments,too-many-instance-attributes
    def __init__(self, why, line, code, error, log="", *, size=SIZE,
                 intree=None):
        self.why = why
        self.line = line
        self.code = code
        self.error = error              # ti->error
        self.log = log                  # regular expression: our own line
        self.size = size
        # in-tree's errno where another one is known; facts 9 has the reason
        self.intree = code if intree is None else intree


def line(cipher=XTS, key=HEX[64], offset="0", dev=DEV, start="0", options=None):
    """A table line; options is the rest as it is, with the count."""
    text = " ".join((cipher, key, offset, dev, start))
    return text if options is None else text + " " + options


# ---- what is refused ----

ARGS = "Not enough arguments"
SIZE_TEXT = "Cannot parse key size"
COUNT = "Invalid number of feature args"
FEATURE = "Invalid feature arguments"
# with atomic writes, that is from 7.x on, 1.29.0
VERSION = "1.29.0" if os.environ["VM_KERNEL"] == "7.3" else "1.28.0"
INTEGRITY = "Invalid integrity arguments"
SECTOR = "Invalid feature value for sector_size"
KEYS = "Bad cipher key count specification"
TFM = "Error allocating crypto tfm"
IVMODE = "Invalid IV mode"
KEY = "Error decoding and setting key"
OFFSET = "Invalid iv_offset sector"
START = "Invalid device sector"
EINVAL, ENOENT, ENOMEM = errno.EINVAL, errno.ENOENT, errno.ENOMEM

BAD = [
    Bad("no arguments", "", EINVAL, ARGS, "0 arguments, at least 5"),
    Bad("four arguments", " ".join(line().split()[:4]), EINVAL, ARGS,
        "4 arguments, at least 5"),

    Bad("key text of a colon", line(key=":"), EINVAL, SIZE_TEXT, ":<size>:"),
    Bad("keyring key without type", line(key=":64"), EINVAL, SIZE_TEXT),
    Bad("keyring key with empty type", line(key=":64:"), EINVAL, SIZE_TEXT),
    Bad("keyring key size with sign", line(key=":+64:logon:x:y"), EINVAL,
        SIZE_TEXT),
    Bad("keyring key size negative", line(key=":-64:logon:x:y"), EINVAL,
        SIZE_TEXT),
    Bad("keyring key size in hex", line(key=":0x40:logon:x:y"), EINVAL,
        SIZE_TEXT),
    Bad("keyring key size a word", line(key=":big:logon:x:y"), EINVAL,
        SIZE_TEXT),
    Bad("keyring key size 131073", line(key=":131073:logon:x:y"), EINVAL,
        SIZE_TEXT, "over 131072 bytes", intree=errno.ENOKEY),
    Bad("keyring key size over 2^32", line(key=":4294967297:logon:x:y"),
        EINVAL, SIZE_TEXT, "over 131072 bytes", intree=errno.ENOKEY),
    Bad("hex key of 131073 bytes", line(key="ab" * 131073), EINVAL, SIZE_TEXT,
        "over 131072 bytes"),

    Bad("option count a word", line(options="x"), EINVAL, COUNT,
        "option count x: the most is 10, and 0 words"),
    Bad("option count negative", line(options="-1"), EINVAL, COUNT),
    Bad("option count 11", line(options="11" + " allow_discards" * 11), EINVAL,
        COUNT, "option count 11: the most is 10, and 11 words"),
    Bad("option count over the words", line(options="3 allow_discards"),
        EINVAL, COUNT, "option count 3: the most is 10, and 1 words"),
    Bad("unknown option", line(options="1 allow_discord"), EINVAL, FEATURE,
        "unknown option allow_discord"),
    Bad("sector_size in capitals", line(options="1 SECTOR_SIZE:512"), EINVAL,
        FEATURE, "unknown option SECTOR_SIZE:512"),
    Bad("sector_size without value", line(options="1 sector_size"), EINVAL,
        FEATURE),
] + [
    Bad("sector_size:" + value, line(options="1 sector_size:" + value), EINVAL,
        SECTOR, "sector_size:%s is not a power of 2 from 512 to 4096" % value)
    for value in ("0", "256", "511", "513", "1000", "8192")
] + [
    Bad("sector_size:" + value, line(options="1 sector_size:" + value), EINVAL,
        SECTOR, "sector_size:%s is not a power of 2 from 512" % re.escape(value))
    for value in ("", "4096x", "+4096", "-512")
] + [
    # facts 9 #7: scanned into 16 bits, taken as 512 and 4096
    Bad("sector_size:" + value, line(options="1 sector_size:" + value), EINVAL,
        SECTOR, "sector_size:" + value, intree=ACCEPTED)
    for value in ("66048", "69632", "18446744073709552128")
] + [
    Bad("length of half a sector", line(options="1 sector_size:4096"), EINVAL,
        "Device size is not multiple of sector_size feature",
        "4097 sectors of 512 bytes .* of 4096", size=4097),
    # facts 9 #1: crashes
    Bad("integrity without type", line(options="1 integrity:16"), EINVAL,
        INTEGRITY, "integrity:16 is not integrity:<bytes>:<none.aead> with 1 to 480",
        intree=CRASHES),
] + [
    Bad("integrity:" + value, line(options="1 integrity:" + value), EINVAL,
        INTEGRITY, "integrity:%s is not integrity:" % value)
    for value in ("0:none", "481:none", ":none", "x:none", "-1:none",
                  "4294967312:none", "16777216:aead")
] + [
    Bad("integrity:16:hmac", line(options="1 integrity:16:hmac"), EINVAL,
        "Unknown integrity profile", "integrity type hmac is neither none nor aead"),
    Bad("integrity:16:", line(options="1 integrity:16:"), EINVAL,
        "Unknown integrity profile", "integrity type  is neither"),
    Bad("AEAD with a short name", line(options="1 integrity:16:aead"), EINVAL,
        "Bad cipher specification", "integrity:16:aead needs capi:"),
    Bad("AEAD on a disk without metadata",
        line("capi:gcm(aes)-plain64", HEX[32], options="1 integrity:16:aead"),
        EINVAL, "Integrity profile not supported.", "keeps no metadata"),
    Bad("AEAD that is none", line("capi:xts(aes)-plain64", HEX[64],
                                  options="1 integrity:16:aead"),
        WRONG_TYPE, TFM, r"AEAD cipher xts\(aes\): -%d" % WRONG_TYPE),
    # facts 9 #2: crashes
    Bad("integrity_key_size without authenc",
        line("capi:gcm(aes)-plain64", HEX[32],
             options="2 integrity:16:aead integrity_key_size:16"), EINVAL,
        "integrity_key_size needs an authenc cipher",
        r"integrity_key_size:16 is for authenc\(\), gcm\(aes\) has no MAC key",
        intree=CRASHES),
] + [
    Bad("integrity_key_size:" + value,
        line(options="1 integrity_key_size:" + value), EINVAL,
        "Invalid integrity_key_size argument",
        "integrity_key_size:%s is not a number" % value)
    for value in ("0", "x", "", "4294967296", "-1")
] + [

    Bad("no IV mode with xts", line("aes-xts"), EINVAL, "IV mechanism required",
        "mode xts"),
    Bad("no IV mode with cbc", line("aes-cbc"), EINVAL, "IV mechanism required",
        "mode cbc"),
    Bad("empty mode", line("aes-"), EINVAL, "IV mechanism required"),
    Bad("API name without capi", line("cbc(aes)-plain64"), EINVAL,
        "Bad cipher specification", r"cbc\(aes\)"),
    Bad("capi in capitals", line("CAPI:cbc(aes)-plain64"), EINVAL,
        "Bad cipher specification", r"CAPI"),
] + [
    Bad("key count %r" % count, line("aes:%s-cbc-plain64" % count), EINVAL, KEYS,
        "key count %s is not a power of 2 up to 65536" % re.escape(count))
    for count in ("0", "3", "2x", "", "4294967296", "+2")
] + [
    Bad("key count 131072", line("cipher_null:131072-ecb", "-"), EINVAL, KEYS,
        "key count 131072 is not a power of 2 up to 65536", intree=ACCEPTED),
    Bad("key count over the key", line("aes:64-cbc-plain64", HEX[64]), EINVAL,
        KEY, "1 bytes of a key of 64; it takes 16 to 32"),
    Bad("essiv without hash", line("aes-cbc-essiv", HEX[32]), EINVAL,
        "Digest algorithm missing for ESSIV mode", "needs a hash"),
    Bad("essiv without hash, capi", line("capi:cbc(aes)-essiv", HEX[32]),
        EINVAL, "Digest algorithm missing for ESSIV mode", "needs a hash"),
    Bad("essiv with unknown hash", line("aes-cbc-essiv:nohash", HEX[32]),
        ENOENT, TFM, r"essiv\(cbc\(aes\),nohash\) \(1 of 1\): -2"),
    Bad("essiv with a hash of 20 bytes", line("aes-cbc-essiv:sha1", HEX[32]),
        EINVAL, KEY, "32 bytes of a key of 32"),
    Bad("unknown cipher", line("nosuch-cbc-plain64"), ENOENT, TFM,
        r"cbc\(nosuch\) \(1 of 1\): -2"),
    Bad("unknown mode", line("aes-nosuch-plain64"), ENOENT, TFM,
        r"nosuch\(aes\)"),
    Bad("empty capi name", line("capi:"), ENOENT, TFM),
    Bad("unknown capi name", line("capi:nosuch(aes)-plain64"), ENOENT, TFM,
        r"nosuch\(aes\)"),
    Bad("AEAD without integrity", line("capi:gcm(aes)-plain64", HEX[32]),
        WRONG_TYPE, TFM, r"gcm\(aes\)"),
    Bad("cipher name of 135 bytes", line("a" * 130 + "-cbc-plain64"), ENOMEM,
        "Cannot allocate cipher string", "name of 135 bytes, the most is 127"),
    Bad("IV mode in capitals", line("aes-cbc-PLAIN64", HEX[32]), EINVAL, IVMODE,
        "unknown IV mode PLAIN64"),
    Bad("unknown IV mode", line("aes-cbc-plain128", HEX[32]), EINVAL, IVMODE,
        "unknown IV mode plain128"),
    Bad("unknown IV mode, capi", line("capi:cbc(aes)-plain128", HEX[32]),
        EINVAL, IVMODE, "unknown IV mode plain128"),
    Bad("IV mode random on a disk without metadata", line("aes-xts-random"),
        EINVAL, "Integrity profile not supported.", "keeps no metadata"),

    Bad("no key", line(key="-"), EINVAL, KEY, "0 bytes of a key of 0"),
    Bad("key of one digit", line(key="a"), EINVAL, KEY, "0 bytes"),
    Bad("key with other than hex digits", line(key="zz" * 64), EINVAL, KEY,
        "128 digits holds other"),
    Bad("key with a bad last digit", line(key=HEX[63] + "0g"), EINVAL, KEY,
        "128 digits holds other"),
    Bad("key of 31 bytes", line(key=HEX[31]), EINVAL, KEY,
        r"xts\(aes\) refuses the key: -22 \(31 bytes of a key of 31; it takes 32 to 64\)"),
    Bad("key of 65 bytes", line(key=HEX[65]), EINVAL, KEY, "65 bytes of a key of 65"),
    Bad("key for a cipher that takes none", line("cipher_null-ecb", HEX[1]),
        EINVAL, KEY, r"takes 0 to 0"),
    Bad("key of two, one byte short", line("aes:2-cbc-plain64", HEX[30]),
        EINVAL, KEY, "15 bytes of a key of 30"),

    Bad("lmk with large sectors",
        line("aes:64-cbc-lmk", HEX[1040], options="1 sector_size:4096"), EINVAL,
        "LMK needs sectors of 512 bytes", "sector 4096, key 1040 bytes; 64 keys"),
    Bad("lmk with an IV of 32 bytes", line("capi:adiantum(xchacha12,aes)-lmk",
                                           HEX[32]), EINVAL,
        "LMK needs an IV of 16 bytes at most", "IV 32"),
    Bad("lmk v3 with short keys", line("aes:2-cbc-lmk", HEX[31]), EINVAL,
        "LMK seed key is under 16 bytes", "key 31 bytes; 2 keys"),
    Bad("tcw with large sectors",
        line("aes-cbc-tcw", HEX[64], options="1 sector_size:4096"), EINVAL,
        "TCW needs sectors of 512 bytes", "sector 4096"),
    Bad("tcw with a short key", line("aes-cbc-tcw", HEX[32]), EINVAL,
        "TCW key has no bytes left for the cipher", "key 32 bytes"),
    # facts 9 #3: stack bytes in the IV
    Bad("tcw with an IV of 32 bytes", line("capi:adiantum(xchacha12,aes)-tcw",
                                           HEX[80]), EINVAL,
        "TCW needs an IV of 8 or 16 bytes", "IV 32", intree=ACCEPTED),
    Bad("eboiv with a block of one byte", line("aes-ctr-eboiv", HEX[32]), EINVAL,
        "Cipher block size is not the IV size", "IV 16, cipher block 1"),
    Bad("elephant with an odd key", line("aes-cbc-elephant", HEX[33]), EINVAL,
        "Elephant key has no equal halves", "key 33 bytes"),
    Bad("elephant with a key of 66 bytes", line("aes-cbc-elephant", HEX[66]),
        EINVAL, "Elephant needs two keys of 16, 24 or 32 bytes",
        "key 66 bytes"),
] + [
    Bad("iv_offset %r" % value, line(offset=value), EINVAL, OFFSET,
        "iv_offset %s is not a decimal number" % re.escape(value))
    for value in ("x", "1x", "-1", "+1", "0x10")
] + [
    # a choice of the kernel's scanner: it wraps up to 6.12
    Bad("iv_offset 2^64", line(offset="18446744073709551616"), EINVAL, OFFSET,
        "is not a decimal number below 2.64", intree=ACCEPTED),
    Bad("iv_offset within a large sector",
        line(offset="4", options="1 sector_size:4096"), EINVAL, OFFSET,
        r"iv_offset 4 is not a multiple of 8 \(sectors of 4096 bytes\)"),
    Bad("iv_offset within a sector of 1024",
        line(offset="7", options="1 sector_size:1024"), EINVAL, OFFSET,
        r"iv_offset 7 is not a multiple of 2 \(sectors of 1024 bytes\)"),

    Bad("device that is not there", line(dev="/dev/nosuch"), NODEV,
        "Device lookup failed", "device /dev/nosuch: -%d" % NODEV),
    Bad("device number that is not there", line(dev="259:4711"), errno.ENXIO,
        "Device lookup failed", "device 259:4711: -"),
    Bad("device that is a directory", line(dev="/tmp"), NOTBLK,
        "Device lookup failed", "device /tmp: -"),
] + [
    Bad("start %r" % value, line(start=value), EINVAL, START,
        "start %s is not a decimal sector number" % re.escape(value))
    for value in ("x", "8x", "-1", "+8")
] + [
    Bad("start 2^64", line(start="18446744073709551616"), EINVAL, START,
        "start 18446744073709551616", intree=ACCEPTED),
]

KEYRING_BAD = [
    Bad("keyring key that is not there", line(key=":64:logon:xt:nosuch"),
        errno.ENOKEY, KEY, "no logon key .*: -126"),
    Bad("user key that is not there", line(key=":64:user:nosuch"),
        errno.ENOKEY, KEY, "no user key .*: -126"),
    Bad("key of another type", line(key=":64:user:xt:logon64"), errno.ENOKEY,
        KEY, "no user key"),
    Bad("unknown key type", line(key=":64:nosuch:xt:a"), EINVAL, KEY,
        "must name a type"),
    Bad("key type in capitals", line(key=":64:Logon:xt:logon64"), EINVAL, KEY,
        "must name a type"),
    Bad("key type without description", line(key=":64:logon:"), EINVAL, KEY,
        "and a description"),
    Bad("white space in the description", line(key=":64:logon:xt:a\\ b"),
        EINVAL, KEY, "white space"),
    Bad("keyring key of another size", line(key=":32:logon:xt:logon64"), EINVAL,
        KEY, "logon key in the keyring has 64 bytes, the table says 32"),
    Bad("encrypted key of another size", line(key=":64:encrypted:xt32"), EINVAL,
        KEY, "encrypted key in the keyring has 32 bytes, the table says 64"),
    Bad("keyring key that the cipher refuses",
        line("capi:xcrypt-picky-plain64", ":32:user:xt-refused"),
        errno.EKEYREJECTED, KEY, "xcrypt-picky refuses the key: -129"),
    Bad("revoked key", line(key=":64:user:xt-revoked"), errno.EKEYREVOKED, KEY,
        "no user key .*: -128"),
    # the search passes over them
    Bad("expired key", line(key=":64:user:xt-expired"), errno.ENOKEY, KEY,
        "no user key .*: -126"),
    Bad("keyring key of 0 bytes", line("cipher_null-ecb", ":0:user:xt-any"),
        EINVAL, KEY, "0 bytes is written as -"),
]


class Log:
    """The kernel's log from here on."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        self.all = []
        os.lseek(self.fd, 0, os.SEEK_END)

    def new(self):
        """The lines since the last call."""
        lines = []
        while True:
            try:
                record = os.read(self.fd, 8192)
            except BlockingIOError:
                break
            text = record.decode("utf-8", "replace").split(";", 1)[1]
            lines.append(text.split("\n", 1)[0])
        self.all += lines
        return lines


tap = Tap()
dm = DeviceMapper()
log = Log()


def attempt(call, *args):
    """errno of a call, 0 if it succeeds."""
    try:
        call(*args)
    except OSError as failure:
        return failure.errno
    return 0


def load_errno(table, size=SIZE):
    """errno of loading a table on a device that was made for it."""
    dm.create("bad")
    try:
        return attempt(dm.load, "bad", [(0, size, "crypt", table)])
    finally:
        dm.remove("bad")


def add_key(kind, description, payload):
    """A key in this process' session keyring; returns its number."""
    number = keyutils.add_key(kind.encode(), description.encode(), payload,
                              len(payload), SESSION_KEYRING)
    if number < 0:
        raise OSError(ctypes.get_errno(), "add_key %s %s" % (kind, description))
    return number


PAYLOAD = seeded("payload", 64)
ENCRYPTED = None                        # number of the encrypted key


def add_keys():
    """The keys that tables name here, in a keyring without any others."""
    assert keyutils.keyctl_join_session_keyring(None) > 0
    add_key("logon", "xt:logon64", PAYLOAD)
    add_key("user", "xt-user64", PAYLOAD)
    add_key("user", "xt:with:colons", PAYLOAD)
    add_key("user", "xt-other64", seeded("other payload", 64))
    add_key("user", "xt-any", b"x")
    add_key("user", "xt-refused", b"\xbb" * 32)
    add_key("user", "xt-taken", b"\x33" * 32)
    add_key("user", "kmk", seeded("master", 32))
    add_key("encrypted", "xt32", b"new user:kmk 32")
    add_key("encrypted", "xt64", b"new user:kmk 64")
    revoked = add_key("user", "xt-revoked", PAYLOAD)
    expired = add_key("user", "xt-expired", PAYLOAD)
    assert keyutils.keyctl_revoke(revoked) == 0
    assert keyutils.keyctl_set_timeout(expired, 1) == 0
    time.sleep(2.1)


# ---- the cases ----

def refusals(rows):
    """Each bad table: errno, ti->error, our line with the numbers."""
    for bad in rows:
        log.new()
        code = load_errno(bad.line, bad.size)
        lines = log.new()
        faults = []
        if code != bad.code:
            faults.append("errno %d (%s), wanted %d" %
                          (code, errno.errorcode.get(code), bad.code))
        if not any(re.search(r"crypt: %s( \(|$)" % re.escape(bad.error), text)
                   for text in lines):
            faults.append("not in the log: " + bad.error)
        if not any("xcrypt: " in text and re.search(bad.log, text)
                   for text in lines if bad.log):
            if bad.log:
                faults.append("not in the log: " + bad.log)
        tap.ok(not faults, "refused: " + bad.why,
               "\n".join(faults + ["log: " + text for text in lines]))


# table -> TABLE status: (text, table, what status says, None for the same)
WORDS = ("allow_discards same_cpu_crypt high_priority submit_from_crypt_cpus "
         "no_read_workqueue no_write_workqueue")
ROUND = [
    ("plain line", line(), None),
    ("offset and start", line(offset="18446744073709551608", start="24"), None),
    ("every option", line(offset="8", options="10 %s integrity:28:None "
                          "sector_size:4096 iv_large_sectors "
                          "integrity_key_size:16" % WORDS), None),
    # facts 9 #8: in-tree keeps the first one's type
    ("integrity twice, the last counts",
     line(options="2 integrity:16:aead integrity:20:none"),
     line(options="1 integrity:20:none")),
    ("options in another order and case",
     line(options="4 IV_Large_Sectors sector_size:2048 NO_WRITE_WORKQUEUE "
          "Allow_Discards"),
     line(options="4 allow_discards no_write_workqueue sector_size:2048 "
          "iv_large_sectors")),
    ("ten words, twice the same",
     line(options="10 " + " ".join(["allow_discards", "same_cpu_crypt"] * 5)),
     line(options="2 allow_discards same_cpu_crypt")),
    ("words beyond the count", line(options="1 allow_discards same_cpu_crypt"),
     line(options="1 allow_discards")),
    ("count 0", line(options="0"), line()),
    ("sector_size:512", line(options="1 sector_size:512"), line()),
    ("sector_size twice, the last counts",
     line(options="2 sector_size:4096 sector_size:1024"),
     line(options="1 sector_size:1024")),
    ("short form", line("aes", HEX[32]), None),
    ("short form with IV", line("aes-plain", HEX[32]), None),
    ("IV options that nothing needs", line(XTS + ":foo"), None),
    ("key in capitals", line(key=HEX[64].upper()), line()),
    ("odd last digit", line(key=HEX[64] + "a"), line()),
    ("no key", line("cipher_null-ecb", "-"), None),
    ("multikey", line("aes:4-cbc-plain64", HEX[128]), None),
    ("capi", line("capi:cbc(aes)-plain64", HEX[32]), None),
    ("capi essiv", line("capi:cbc(aes)-essiv:sha256", HEX[32]), None),
    ("capi without IV mode", line("capi:cbc(aes)", HEX[32]), None),
    ("leading zeros", line(offset="008", start="0016"),
     line(offset="8", start="16")),
    ("logon key", line(key=":64:logon:xt:logon64"), None),
    ("size with zeros", line(key=":0064:logon:xt:logon64"),
     line(key=":64:logon:xt:logon64")),
    ("user key", line(key=":64:user:xt-user64"), None),
    ("description with colons", line(key=":64:user:xt:with:colons"), None),
    ("encrypted key", line(key=":64:encrypted:xt64"), None),
]


def as_shown(table):
    """Status prints the device as numbers."""
    number = os.stat(DEV).st_rdev
    return table.replace(DEV, "%d:%d" % (os.major(number), os.minor(number)))


def round_trip(rows=tuple(ROUND)):
    """Good tables: what TABLE says, and that it is taken back."""
    for text, table, shown in rows:
        wanted = as_shown(shown or table)
        dm.create("good")
        try:
            dm.load("good", [(0, SIZE, "crypt", table)])
            dm.resume("good")
            first = dm.table("good")[0][3]
            dm.load("good", [(0, SIZE, "crypt", first)])
            dm.resume("good")
            second = dm.table("good")[0][3]
            tap.same((wanted, wanted), (first, second), "TABLE: " + text)
        except OSError as failure:
            tap.ok(False, "TABLE: " + text, failure)
        dm.remove("good")


def ima_text(cipher, key_size, parts, extra, sector="", options=()):
    """The text that IMA measures."""
    words = WORDS.split() + ["iv_large_sectors"]
    return ("target_name=crypt,target_version=%s," % VERSION +
            ",".join("%s=%s" % (word, "y" if word in options else "n")
                     for word in words) +
            sector + ",cipher_string=%s,key_size=%d,key_parts=%d,"
            "key_extra_size=%d,key_mac_size=0;" % (cipher, key_size, parts, extra))


IMA = [
    (line(), ima_text(XTS, 64, 1, 0)),
    (line(options="3 allow_discards sector_size:4096 iv_large_sectors"),
     ima_text(XTS, 64, 1, 0, ",sector_size=4096",
              ("allow_discards", "iv_large_sectors"))),
    (line("aes:4-cbc-plain64", HEX[128]),
     ima_text("aes:4-cbc-plain64", 128, 4, 0)),
    (line("aes:64-cbc-lmk", HEX[1040]), ima_text("aes:64-cbc-lmk", 1040, 65, 16)),
    (line("aes-cbc-tcw", HEX[64]), ima_text("aes-cbc-tcw", 64, 3, 32)),
    (line("aes-cbc-elephant", HEX[64]), ima_text("aes-cbc-elephant", 64, 2, 32)),
    (line("aes-cbc-eboiv", HEX[32]), ima_text("aes-cbc-eboiv", 32, 1, 0)),
    (line(key=":64:logon:xt:logon64"), ima_text(XTS, 64, 1, 0)),
]


def ima():
    """The third kind of status."""
    for table, wanted in IMA:
        if open_device("ima", table):
            tap.same([wanted], dm.ima("ima"), "IMA: " + table.split()[0])
            dm.remove("ima")


def open_device(name, table):
    """A device with its node; False, and a failed case, if that fails."""
    minor = dm.create(name)
    try:
        dm.load(name, [(0, SIZE, "crypt", table)])
        dm.resume(name)
    except OSError as failure:
        dm.remove(name)
        return tap.ok(False, "open %s" % table.split()[0], failure)
    return "/dev/dm-%d" % minor


def info(name):
    """INFO as a dictionary."""
    return dict(word.split("=", 1) for word in dm.status(name)[0][3].split())


def digest(path):
    """What the mapped device reads as."""
    disk = Direct(path, SIZE * 512)
    try:
        return bytes(disk.read(0, SIZE * 512))
    finally:
        disk.close()


def says(pattern):
    """Whether a new line of the log matches."""
    return any(re.search(pattern, text) for text in log.new())


def refused_message(name, text, code, pattern, why):
    """A message that must fail with code, and say why in the log."""
    log.new()
    got = attempt(dm.message, name, text)
    lines = log.new()
    tap.ok(got == code and any(re.search(pattern, x) for x in lines),
           "message: " + why, "errno %d, wanted %d\n%s" %
           (got, code, "\n".join(lines)))


def state(name):
    """Whether the key is valid, and the key field of TABLE."""
    return info(name)["key"], dm.table(name)[0][3].split()[1]


def messages():
    """key set, key wipe, suspend and resume."""
    good, other = HEX[64], seeded("other", 64).hex()
    path = open_device("msg", line(key=good))
    if not path:
        return
    plain = digest(path)

    for text in ("key set " + good, "key wipe", "key foo", "KEY WIPE x"):
        refused_message("msg", text, EINVAL, "not suspended",
                        "while running: " + text.split(" ")[1])
    for text in ("foo", "key", "set key", "foo wipe"):
        refused_message("msg", text, EINVAL, "unrecognised message",
                        "while running: " + text)
    tap.same(("valid", good), state("msg"), "the key is untouched")

    dm.suspend("msg")
    for text in ("key foo", "key set", "key wipe now", "key set a b",
                 "key set %s x" % good):
        refused_message("msg", text, EINVAL, "unrecognised message",
                        "suspended: " + text.replace(good, "<key>"))
    refused_message("msg", "key set " + HEX[63], EINVAL,
                    "has 63 bytes, the table's has 64", "set with 63 bytes")
    refused_message("msg", "key set -", EINVAL, "has 0 bytes", "set with -")
    refused_message("msg", "key set :64", EINVAL, ":<size>:", "set with :64")
    refused_message("msg", "key set :64:logon:xt:nosuch", errno.ENOKEY,
                    "no logon key", "set with a missing keyring key")
    refused_message("msg", "key set :64:user:xt-any", EINVAL,
                    "has 1 bytes, the table says 64",
                    "set with a keyring key of another size")
    refused_message("msg", "key set :64:nosuch:xt", EINVAL, "must name a type",
                    "set with an unknown type")
    tap.same(("valid", good), state("msg"), "the old key is still good")
    dm.resume("msg")
    tap.ok(digest(path) == plain, "and still in force")

    dm.suspend("msg")
    tap.same(0, attempt(dm.message, "msg", "KEY Set " + other), "key set")
    tap.same(("valid", other), state("msg"), "TABLE shows the new key")
    dm.resume("msg")
    tap.ok(digest(path) != plain, "the new key is in force")

    dm.suspend("msg")
    refused_message("msg", "key set " + "zz" * 64, EINVAL, "other than hex",
                    "set with other than hex digits")
    no_key("msg")
    tap.same(0, attempt(dm.message, "msg", "key set " + good), "set after that")
    dm.resume("msg")
    tap.ok(digest(path) == plain, "the first key is in force again")

    dm.suspend("msg")
    tap.same(0, attempt(dm.message, "msg", "key wipe"), "key wipe")
    no_key("msg")
    tap.same(0, attempt(dm.message, "msg", "key wipe"), "key wipe again")
    refused_message("msg", "key set :64:user:nosuch", errno.ENOKEY,
                    "no user key", "set with a missing key after a wipe")
    no_key("msg")

    # a new table gets its own key
    dm.load("msg", [(0, SIZE, "crypt", line(key=other))])
    dm.resume("msg")
    tap.same(("valid", other), state("msg"), "a new table over a wiped one")
    dm.remove("msg")


def no_key(name):
    """After a wipe: zeros, and no way to resume."""
    tap.same(("wiped", "00" * 64), state(name), "TABLE shows zeros")
    log.new()
    tap.same(errno.EAGAIN, attempt(dm.resume, name), "resume is refused")
    tap.ok(says("aborting resume, no key is set"), "the log says so")


def keyring():
    """Keys of a keyring in tables and messages, and back to hex."""
    path = open_device("ring", line(key=PAYLOAD.hex()))
    if not path:
        return
    plain = digest(path)
    for kind, text in (("logon", ":64:logon:xt:logon64"),
                       ("user", ":0064:user:xt-user64")):
        dm.suspend("ring")
        tap.same(0, attempt(dm.message, "ring", "key set " + text),
                 "key set with a %s key" % kind)
        tap.same(("valid", text.replace("0064", "64")), state("ring"),
                 "TABLE names it")
        dm.resume("ring")
        tap.ok(digest(path) == plain, "it is the key of that payload")
    dm.suspend("ring")
    tap.same(0, attempt(dm.message, "ring", "key set :64:user:xt-other64"),
             "key set with another user key")
    dm.resume("ring")
    tap.ok(digest(path) != plain, "it is another key")
    dm.suspend("ring")
    tap.same(0, attempt(dm.message, "ring", "key set " + PAYLOAD.hex()),
             "key set with hex again")
    tap.same(("valid", PAYLOAD.hex()), state("ring"), "TABLE shows hex")
    tap.same(0, attempt(dm.message, "ring", "key set :64:logon:xt:logon64"),
             "key set with the logon key again")
    tap.same(0, attempt(dm.message, "ring", "key wipe"), "key wipe")
    no_key("ring")
    dm.remove("ring")


def picky():
    """A key of the right size that the cipher refuses."""
    taken = lambda: int(read("/sys/module/xcrypt_picky/parameters/last"))
    number = lambda: int(read("/sys/module/xcrypt_picky/parameters/keys"))
    path = open_device("picky", line("capi:xcrypt-picky-plain64", "22" * 32))
    if not path:
        return
    for how, text in (("hex", "bb" * 32), ("keyring", ":32:user:xt-refused")):
        dm.suspend("picky")
        dm.message("picky", "key set " + "22" * 32)
        before = number()
        refused_message("picky", "key set " + text, errno.EKEYREJECTED,
                        r"refuses the key: -129 \(32 bytes of a key of 32",
                        "%s key that the cipher refuses" % how)
        tap.same(("wiped", "00" * 32), state("picky"),
                 "no byte of it shows, nor of the one before")
        tap.same(before + 1, number(), "the cipher got a random key")
        tap.same(0, attempt(dm.message, "picky", "key set :32:user:xt-taken"),
                 "key set with one that it takes")
        tap.same(0x33, taken(), "it has it")
        dm.resume("picky")
    dm.suspend("picky")
    for text in ("key wipe", "key set " + "44" * 32):
        write("/sys/module/xcrypt_picky/parameters/refuse", "1")
        refused_message("picky", text, errno.EKEYREJECTED, r"refuses a random key: -129",
                        text[:8] + ": not even a random key is taken")
        write("/sys/module/xcrypt_picky/parameters/refuse", "0")
        tap.same(("wiped", "00" * 32), state("picky"), "TABLE shows zeros")
    dm.remove("picky")


def crowd():
    """Status and messages at the same time."""
    open_device("crowd", line(key=PAYLOAD.hex()))
    dm.suspend("crowd")
    end, seen, strange = time.monotonic() + 6, set(), []
    allowed = {PAYLOAD.hex(), ":64:logon:xt:logon64", "00" * 64}

    def look():
        while time.monotonic() < end:
            key = dm.table("crowd")[0][3].split()[1]
            if key in allowed:
                seen.add(key)
            else:
                strange.append(key)

    def change():
        while time.monotonic() < end:
            for text in ("set :64:logon:xt:logon64", "wipe",
                         "set " + PAYLOAD.hex()):
                dm.message("crowd", "key " + text)

    threads = [threading.Thread(target=what)
               for what in (look, look, change, change)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tap.ok(not strange and len(seen) > 1,
           "TABLE shows a whole key while messages change it",
           "strange: %r, seen: %d" % (strange[:3], len(seen)))
    dm.remove("crowd")


def write_disk(path, data):
    """Through the mapped device, from its start."""
    disk = Direct(path, len(data))
    try:
        disk.write(0, data)
    finally:
        disk.close()


def iv_cipher():
    """eboiv and elephant encrypt a block to get their IV: also under a cipher
    that has no synchronous implementation, where that sleeps, and with reads
    that complete in interrupts."""
    drivers = ["xcrypt-test-cbc"]
    if load_module("cryptd"):
        drivers.append("cryptd(cbc(aes-generic))")
    run("modprobe", "xcrypt_testcipher", "answer=mixed", "context=mixed")
    inline = "2 no_read_workqueue no_write_workqueue"
    for ivmode, key in (("eboiv", HEX[32]), ("elephant", HEX[64])):
        ways = [("aes-cbc-" + ivmode, options) for options in ("0", inline)]
        for driver in drivers:
            ways += [("capi:%s-%s" % (driver, ivmode), options)
                     for options in ("0", inline)]
        data = {}
        for writer in ways:
            path = open_device("ivc", line(writer[0], key, dev=DISCARDS,
                                           options=writer[1]))
            if not path:
                continue
            data[writer] = seeded("iv cipher %s %s" % writer, SIZE * 512)
            write_disk(path, data[writer])
            tap.ok(digest(path) == data[writer], "IV cipher: %s %s" % writer)
            dm.remove("ivc")
            reader = ways[(ways.index(writer) + 3) % len(ways)]
            path = open_device("ivc", line(reader[0], key, dev=DISCARDS,
                                           options=reader[1]))
            if path:
                tap.ok(digest(path) == data[writer],
                       "IV cipher: the same by %s %s" % reader)
                dm.remove("ivc")
    run("rmmod", "xcrypt_testcipher")


def limits():
    """Queue limits, discards."""
    for size in (512, 4096):
        for words in ([], ["allow_discards"]):
            options = words + ["sector_size:%d" % size]
            path = open_device("limit", line(dev=DISCARDS, options="%d %s" %
                                             (len(options), " ".join(options))))
            if not path:
                continue
            queue = "/sys/block/%s/queue/" % os.path.basename(path)
            names = ("logical_block_size", "physical_block_size",
                     "minimum_io_size", "dma_alignment")
            below = "/sys/block/vda/queue/"
            wanted = [max(size, int(read(below + name))) for name in names[:3]]
            wanted.append(wanted[0] - 1)
            got = [int(read(queue + name)) for name in names
                   if os.path.exists(queue + name)]
            tap.same(wanted[:len(got)], got, "limits: sector_size %d" % size)
            tap.same(bool(words), read(queue + "discard_max_bytes") != "0",
                     "limits: discards, %s" % (words or "not allowed"))
            tap.same("0", read(queue + "write_zeroes_max_bytes"),
                     "limits: no write zeroes")
            dm.remove("limit")


def stack():
    """Two ranges, one of them without a key; and a device of ours below."""
    dm.create("two")
    dm.load("two", [(0, 2048, "crypt", line()),
                    (2048, 2048, "crypt", line(offset="2048", start="2048"))])
    dm.resume("two")
    dm.suspend("two")
    dm.message("two", "key wipe")
    tap.same(["00" * 64, HEX[64]], [row[3].split()[1] for row in dm.table("two")],
             "a message reaches the target at its sector only")
    tap.same(errno.EAGAIN, attempt(dm.resume, "two"), "one key short: no resume")
    tap.same(0, attempt(dm.message, "two", "key set " + HEX[64]), "set it")
    dm.resume("two")
    above = load_errno(line(dev="/dev/dm-%d" % dm.call(DEV_STATUS, "two").minor))
    tap.same(0, above, "a table on a device of ours")
    dm.remove("two")


def cycles(count=200):
    """Many births and deaths; the harness counts that they are in balance."""
    failures = []
    for number in range(count):
        table = ROUND[number % len(ROUND)][1]
        code = load_errno(table)
        if code:
            failures.append((table.split()[0], code))
        load_errno(BAD[number % len(BAD)].line)
    tap.same([], failures, "%d devices made and removed" % count)


def secrets():
    """No key in the log, of all that was logged here."""
    log.new()
    found = [text for text in log.all
             for key in (HEX[64], HEX[63], HEX[32], PAYLOAD.hex())
             if key in text or key[:32] in text]
    tap.same([], found, "no key in the log")


def compare():
    """In-tree's answers, where they are others than ours."""
    use_intree()
    number = same = 0
    for bad in BAD + KEYRING_BAD:
        if bad.intree == CRASHES:
            continue
        number += 1
        code = load_errno(bad.line, bad.size)
        if code == bad.code:
            same += 1
            if bad.intree != code:
                print("EQUAL after all: %s: %d" % (bad.why, code))
            continue
        print("%s: in-tree %s, ours %s%s" %
              (bad.why, errno.errorcode.get(code, code),
               errno.errorcode.get(bad.code), "" if code == bad.intree else
               "  <-- not known"))
    print("%d of %d equal" % (same, number))
    for text, table, shown in ROUND:
        if not open_device("good", table):
            print("TABLE %s: refused" % text)
            continue
        if dm.table("good")[0][3] != as_shown(shown or table):
            print("TABLE %s: %s" % (text, dm.table("good")[0][3]))
        dm.remove("good")
    for table, wanted in IMA:
        open_device("ima", table)
        if dm.ima("ima") != [wanted]:
            print("IMA %s: in-tree %s, ours %s" % (table.split()[0],
                                                   dm.ima("ima"), wanted))
        dm.remove("ima")
    run("rmmod", "dm_crypt")
    run("modprobe", "dm-xcrypt")


def trusted():
    """A key type that Debian's kernels do not have."""
    if not status_of("grep", "-q", " key_type_trusted$", "/proc/kallsyms")[0]:
        tap.skip("trusted key", "this kernel has the type, and no TPM")
        return
    refusals([Bad("trusted key, not in this kernel",
                  line(key=":64:trusted:xt"), EINVAL, KEY, "must name a type")])


def bad_tables():
    """Whatever is wrong with the line itself."""
    refusals(BAD)


def bad_keys():
    """Whatever is wrong with a key of the keyring."""
    refusals(KEYRING_BAD)


def main():
    """Everything, in turn."""
    run("modprobe", "brd", "rd_nr=1", "rd_size=8192", "max_part=0")
    run("modprobe", "xcrypt_picky")
    add_keys()
    if "--intree" in sys.argv[1:]:
        compare()
        return
    use_ours()
    note("kernel %s, %s" % (os.uname().release, dm.targets()["crypt"]))
    for part in (bad_tables, bad_keys, trusted, round_trip, ima, messages,
                 keyring, picky, crowd, iv_cipher, limits, stack, cycles, secrets):
        if not sys.argv[1:] or part.__name__ in sys.argv[1:]:
            part()
    tap.finish()


if __name__ == "__main__":
    main()
