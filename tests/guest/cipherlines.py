# SPDX-License-Identifier: GPL-2.0
"""Table lines for ciphertext.py: the matrix, the bad ones, the recorded ones.

A line is a Case.  Its key is said by a specification, as keys of loop-AES are
long:
    32           bytes, which depend on the case's name only
    4x32         four keys of 32 bytes
    -            no key
    logon:32     32 bytes in the keyring (user:, encrypted: likewise)
    anything else stands in the table as it is
"""

import itertools

# Sectors of 512 bytes that a case maps, and where in them an IV number that
# starts at WRAP - HALF crosses WRAP.
SECTORS = 128
HALF = SECTORS // 2
# A start that no 32-bit number holds; ciphertext.py makes the device for it.
FAR = 1 << 33


class Case:
    """One table line."""

    def __init__(self, group, cipher, key, iv_offset=0, start=0, opts="",
                 **more):
        self.group = group
        self.cipher = cipher
        self.key = key
        self.iv_offset = str(iv_offset)
        self.start = str(start)
        self.opts = opts.split()
        self.sectors = more.pop("sectors", SECTORS)
        self.seed = more.pop("seed", None)      # of the key; None: the text
        self.name = more.pop("name", None)      # recorded lines have one
        self.raw = more.pop("raw", None)        # the whole line, with {dev}
        self.flags = more.pop("flags", {})
        assert not more, more

    @property
    def text(self):
        """What reports and tests/data/differences.txt call it."""
        if self.raw is not None:
            return self.raw
        return " ".join([self.cipher, self.key, self.iv_offset, self.start] +
                        self.opts)

    @property
    def sector_size(self):
        """Bytes of a sector; the last word counts."""
        size = 512
        for opt in self.opts:
            word, _, value = opt.partition(":")
            if word == "sector_size":
                size = int(value)
        return size


# ---- the matrix ----

GEOMETRY = ["", "iv_large_sectors", "sector_size:1024",
            "sector_size:1024 iv_large_sectors", "sector_size:2048",
            "sector_size:2048 iv_large_sectors", "sector_size:4096",
            "sector_size:4096 iv_large_sectors"]

# Crossings inside the device: of 32 bits, also after the shift for 4096-byte
# sectors; of 40; of what eboiv (times sector size) and benbi (shift 5) can
# hold; of LMK's 56 bits; of the sign; of all 64 bits.
OFFSETS = [0, 8, 12344, (1 << 32) - HALF, 1 << 32, (1 << 35) - HALF,
           (1 << 40) - HALF, (1 << 52) - HALF, (1 << 55) - HALF,
           (1 << 56) - HALF, (1 << 59) - HALF, (1 << 63) - HALF,
           (1 << 64) - HALF]

STARTS = [0, 8, 1000, 1001, 2048, FAR, FAR + 8]

# cipher: key bytes, cipher block
CIPHERS = {
    "aes": (32, 16), "serpent": (32, 16), "twofish": (32, 16),
    "camellia": (32, 16), "cast6": (32, 16), "blowfish": (32, 8),
    "des3_ede": (24, 8), "cast5": (16, 8), "aria": (32, 16), "sm4": (16, 16),
}

# Ciphers that no kernel of ours has are asked for once, not fifty times: each
# time the kernel starts modprobe for them.
RARE = ("aria", "sm4")

IVS = ["plain", "plain64", "plain64be", "benbi", "null", "essiv:sha256",
       "eboiv"]
# with the ciphers that few use
FEW_IVS = ["plain64be", "benbi", "essiv:sha256", "eboiv"]
FEW = ("cast5", "cast6", "des3_ede", "camellia")


def key_size(cipher, mode, iv=""):
    """Bytes that the mode wants of the cipher's key."""
    size = CIPHERS[cipher][0]
    if mode == "lrw":
        size += 16
    if mode == "xts" and not iv.startswith("essiv"):
        size *= 2
    return size


class Wheel:
    """Turns through offsets, starts and geometries at different speeds, so
    that few lines see most pairs of them.
    """

    def __init__(self):
        self.offsets = itertools.cycle(OFFSETS)
        self.starts = itertools.cycle(STARTS)
        self.geometry = itertools.cycle(GEOMETRY)

    def case(self, group, cipher, key, opts=None, offset=None, start=None):
        """A line with what is not given taken from the wheel."""
        if opts is None:
            opts = next(self.geometry)
        if start is None:
            start = next(self.starts)
            if start % 2 and "sector_size" in opts:
                start += 7              # else dm core refuses it
        return Case(group, cipher, str(key),
                    next(self.offsets) if offset is None else offset, start,
                    opts)


def matrix_modes(wheel):
    """Each cipher in each mode with each IV, once."""
    for cipher in CIPHERS:
        for mode in ("cbc", "xts", "lrw", "pcbc", "ctr"):
            ivs = FEW_IVS if cipher in FEW else IVS
            if cipher in RARE:
                ivs = ["plain64"] if mode == "xts" else []
            if mode in ("xts", "lrw") and CIPHERS[cipher][1] == 8:
                ivs = ivs[:1]           # refused, and once tells it
            for iv in ivs:
                yield wheel.case(cipher, "%s-%s-%s" % (cipher, mode, iv),
                                 key_size(cipher, mode, iv))
        if cipher not in RARE:
            yield wheel.case(cipher, cipher + "-ecb", CIPHERS[cipher][0])


def matrix_geometry(wheel):
    """AES: each IV in each geometry, and at each crossing."""
    for iv in IVS + ["elephant"]:
        mode = "cbc" if iv in ("elephant", "eboiv", "null") else "xts"
        key = 64 if iv == "elephant" else key_size("aes", mode, iv)
        for opts in GEOMETRY:
            yield wheel.case("aes geometry", "aes-%s-%s" % (mode, iv), key,
                             opts)
    for iv, offset in itertools.product(
            ("plain", "plain64be", "benbi", "essiv:sha256", "elephant"),
            OFFSETS):
        yield wheel.case("aes crossings", "aes-cbc-" + iv,
                         64 if iv == "elephant" else 32, offset=offset)


def matrix_keys(wheel):
    """Several keys, sizes of keys, short forms, where keys come from."""
    for count, (cipher, key), opts in itertools.product(
            (2, 4, 16, 64), (("xts-plain64", 32), ("cbc-essiv:sha256", 32),
                             ("cbc-benbi", 16), ("cbc-eboiv", 24)),
            ("", "sector_size:4096", "sector_size:2048 iv_large_sectors")):
        if count in (2, 16) and opts.startswith("sector_size:4"):
            continue
        yield wheel.case("multikey", "aes:%d-%s" % (count, cipher),
                         "%dx%d" % (count, key), opts)
    # odd offsets: the key is picked by the number of the 512-byte sector
    for offset in (1, 3, 63, (1 << 32) - 3, (1 << 64) - 1):
        yield wheel.case("multikey", "aes:64-cbc-plain64", "64x32", "", offset)
    yield wheel.case("multikey", "serpent:4-cbc-plain64", "4x32")
    yield wheel.case("multikey", "blowfish:8-cbc-plain64", "8x16")
    yield wheel.case("multikey", "aes:4-cbc-plain64", "131")    # a tail
    for key in (32, 48, 64):
        yield wheel.case("key sizes", "aes-xts-plain64", key)
    for key in (16, 24, 32):
        yield wheel.case("key sizes", "aes-cbc-essiv:md5" if key == 16
                         else "aes-cbc-plain64", key)
        yield wheel.case("key sizes", "camellia-cbc-plain64", key)
    for key in (8, 16, 56):
        yield wheel.case("key sizes", "blowfish-cbc-plain64", key)
    for cipher, key in (("aes", 32), ("aes-plain", 32), ("serpent", 32),
                        ("twofish-plain", 32), ("blowfish", 16),
                        ("aes-cbc-plain", 32), ("aes:1-xts-plain64", 64),
                        ("aes:4", 128), ("aes-xts-plain64:foo", 64),
                        ("aes-cbc-essiv:sha3-256", 32),
                        ("aes-cbc-plain64:more-of-it", 32), ("aes-ecb-plain", 32),
                        ("aes-ecb-nosuch", 32), ("aes-ecb:x", 32)):
        yield wheel.case("short and odd forms", cipher, key)
    for cipher in ("cipher_null-ecb", "cipher_null-ecb-plain64",
                   "capi:ecb(cipher_null)"):
        yield wheel.case("cipher_null", cipher, "-")
    for key in ("logon:64", "user:64", "encrypted:64"):
        yield wheel.case("keyring", "aes-xts-plain64", key)
    for key in ("logon:32", "user:32", "encrypted:32"):
        yield wheel.case("keyring", "aes-cbc-essiv:sha256", key)
    yield wheel.case("keyring", "aes-cbc-elephant", "logon:64")
    yield wheel.case("keyring", "aes-cbc-tcw", "user:64", "")
    yield wheel.case("keyring", "aes:64-cbc-lmk", "logon:2080", "")


def matrix_legacy(wheel):
    """The formats of loop-AES, TrueCrypt and BitLocker."""
    for cipher, key in (("aes:64-cbc-lmk", "64x16"), ("aes:64-cbc-lmk", "65x32"),
                        ("aes-cbc-lmk", "32"), ("aes:4-cbc-lmk", "5x24"),
                        ("serpent:64-cbc-lmk", "65x32"),
                        ("twofish:64-cbc-lmk", "64x16"),
                        ("blowfish:64-cbc-lmk", "65x16"),
                        ("capi:cbc(aes)-lmk", "65x32"),
                        ("capi:cbc(camellia)-lmk", "64x32")):
        yield wheel.case("lmk", cipher, key, "")
    # taken by both, and what is read is not what was written
    for cipher, key in (("aes-xts-lmk", "64"), ("aes-ctr-lmk", "32")):
        yield Case("lmk", cipher, key, flags={"unreadable": True})
    for offset in OFFSETS[1:] + [5, 77]:
        yield wheel.case("lmk", "aes:64-cbc-lmk", "65x32", "", offset)
    for cipher, key in (("aes", 48), ("aes", 56), ("aes", 64), ("twofish", 64),
                        ("serpent", 64), ("blowfish", 80), ("cast5", 40),
                        ("des3_ede", 48), ("aes:4", "160")):
        yield wheel.case("tcw", cipher + "-cbc-tcw", key, "")
    yield wheel.case("tcw", "aes-xts-tcw", 96, "")
    yield wheel.case("tcw", "capi:cbc(aes)-tcw", 64, "iv_large_sectors")
    for offset in OFFSETS[1:] + [5, 77]:
        yield wheel.case("tcw", "aes-cbc-tcw", 64, "", offset)
    for key in (32, 48, 64):
        yield wheel.case("elephant", "aes-cbc-elephant", key)
    for opts in GEOMETRY[2:]:
        yield wheel.case("elephant", "aes-cbc-elephant", 32, opts)
    for cipher, key in (("serpent-cbc-elephant", 64),
                        ("blowfish-cbc-elephant", 32),
                        ("aes:4-cbc-elephant", 64),
                        ("aes-cbc-elephant:diffuser", 64),
                        ("capi:cbc(aes)-elephant", 64)):
        yield wheel.case("elephant", cipher, key)


def matrix_capi(wheel):
    """Names of the crypto API, asynchronous ciphers, uncommon modes."""
    for cipher, key in (
            ("xts(aes)-plain64", 64), ("cbc(aes)-plain", 32),
            ("cbc(aes)-plain64be", 32), ("cbc(aes)-benbi", 32),
            ("cbc(aes)-eboiv", 32), ("cbc(aes)-null", 32),
            ("cbc(aes)-essiv:sha256", 32), ("cbc(serpent)-essiv:sha256", 32),
            ("essiv(cbc(aes),sha256)-plain64", 32),
            ("essiv(cbc(aes),sha256)-plain64be", 32), ("ecb(aes)", 32),
            ("ecb(aes)-plain64", 32), ("ctr(aes)-plain64be", 32),
            ("rfc3686(ctr(aes))-plain64", 36), ("cts(cbc(aes))-plain64", 32),
            ("cfb(aes)-plain64", 32), ("ofb(aes)-plain64", 32),
            ("lrw(twofish)-benbi", 48), ("pcbc(fcrypt)-plain64", 8),
            ("xts(ecb(aes))-plain64", 64), ("xts(ecb(serpent))-plain64", 64),
            ("ctr(blowfish)-benbi", 16), ("chacha20-plain64", 32),
            ("xchacha20-plain64", 32), ("xchacha12-plain64be", 32),
            ("xts-aes-aesni-plain64", 64), ("cbc(aes-fixed-time)-plain64", 32),
            ("xts(ecb(aes-generic))-plain64", 64),
            ("xts(aes)-plain64:foo", 64)):
        yield wheel.case("capi", "capi:" + cipher, key)
    for iv, opts in itertools.product(
            ("plain64", "plain64be", "benbi", "null", "plain"),
            ("", "sector_size:4096", "sector_size:4096 iv_large_sectors")):
        yield wheel.case("adiantum", "capi:adiantum(xchacha20,aes)-" + iv, 32,
                         opts)
    yield wheel.case("adiantum", "capi:adiantum(xchacha12,aes)-plain64", 32)
    yield wheel.case("adiantum", "capi:adiantum(xchacha20,aes)-eboiv", 32)
    for cipher, key in (
            ("cryptd(xts-aes-aesni)-plain64", 64), ("cryptd(cbc(aes))-plain64", 32),
            ("cryptd(cbc(serpent))-eboiv", 32), ("cryptd(ecb(aes))", 32),
            ("cryptd(cbc(twofish-generic))-benbi", 32),
            ("cryptd(cbc(aes-generic))-lmk", "65x32"),
            ("cryptd(cbc(aes-generic))-tcw", 64),
            ("cryptd(cbc(aes-generic))-elephant", 64),
            ("cryptd(cbc(aes-generic))-eboiv", 32),
            ("cryptd(xts(ecb(aes-generic)))-plain64", 64)):
        for opts in ("", "sector_size:4096",
                     "no_read_workqueue no_write_workqueue"):
            if opts.startswith("sector") and cipher.endswith(("lmk", "tcw")):
                continue
            yield wheel.case("cryptd", "capi:" + cipher, key, opts)


def matrix_options(wheel):
    """Options that say where and when to convert: no byte may depend on it."""
    words = ["allow_discards", "same_cpu_crypt", "submit_from_crypt_cpus",
             "no_read_workqueue", "no_write_workqueue"]
    for cipher, key in (("aes-xts-plain64", 64), ("aes:64-cbc-lmk", "65x16"),
                        ("serpent-cbc-essiv:sha256", 32),
                        ("aes-cbc-elephant", 32), ("aes-cbc-tcw", 64),
                        ("aes-cbc-eboiv", 32)):
        for opts in words + [" ".join(words), " ".join(words[3:]),
                             "NO_READ_workqueue Same_CPU_crypt"]:
            if opts in words[:2] and cipher != "aes-xts-plain64":
                continue
            yield wheel.case("options", cipher, key, opts)
    for opts in ("allow_discards allow_discards sector_size:512",
                 "sector_size:4096 sector_size:1024",
                 "IV_LARGE_SECTORS sector_size:02048",
                 "sector_size:4096 iv_large_sectors no_read_workqueue "
                 "no_write_workqueue"):
        yield wheel.case("options", "aes-xts-plain64", 64, opts)


def matrix():
    """All lines of the matrix, none twice."""
    wheel, seen = Wheel(), set()
    for part in (matrix_modes, matrix_geometry, matrix_keys, matrix_legacy,
                 matrix_capi, matrix_options):
        for case in part(wheel):
            if case.text not in seen:
                seen.add(case.text)
                yield case


# ---- lines that are, or may be, refused ----

def raw(line, **more):
    """A line as it is: {dev} is the device, {N} a hex key of N bytes."""
    return Case("bad tables", "", "", raw=line, **more)


XTS = "aes-xts-plain64 {64} 0 {dev} 0"


def bad_fields():
    """Too few fields; keys; ciphers."""
    for line in ("", "aes-xts-plain64", "aes-xts-plain64 {64}",
                 "aes-xts-plain64 {64} 0", "aes-xts-plain64 {64} 0 {dev}"):
        yield line
    for key in ("-", "a", "--", "0x" + "0" * 62, "z" * 64, "0" * 63 + "g",
                ":", "::", ":64", ":64:", ":64:logon", ":64:logon:",
                ":64:nosuch:x", ":64:LOGON:x", ":x:logon:x", ":+64:logon:x",
                ":-64:logon:x", "::logon:x", ":64x:logon:x", ":64:logon:none",
                ":64:user:none", ":64:encrypted:none", ":64:trusted:none",
                ":64:asymmetric:none", ":064:logon:none",
                ":64:logon:a\\ b", ":64 :logon:x",
                ":32:logon:{logon64}", ":96:user:{logon64}", ":0:logon:none",
                "{logon64}", "{20}", "{33}", "{63}", "{65}", "{128}"):
        yield "aes-xts-plain64 %s 0 {dev} 0" % key
    for cipher in ("nosuch-xts-plain64", "aes-nosuch-plain64", "aes-xts",
                   "aes-cbc", "aes-xts-", "aes--plain64", "-xts-plain64", "-",
                   "--", "---", "aes-", "AES-xts-plain64", "aes-XTS-plain64",
                   "aes-xts-PLAIN64", "aes-xts-plain65", "aes-xts-random",
                   "aes-xts-plain64-more",
                   "aes-xts-essiv", "aes-xts-essiv:", "aes-xts-essiv:nosuch",
                   "aes-xts-essiv:sha256:x", "aes-xts-:plain64",
                   "aes:3-xts-plain64", "aes:0-xts-plain64",
                   "aes:-1-xts-plain64", "aes:2x-xts-plain64",
                   "aes:-xts-plain64", "aes:1:1-xts-plain64",
                   "aes:+1-xts-plain64", "aes:64-xts-plain64",
                   "aes:01-xts-plain64", "xts(aes)-plain64",
                   "aes(x)-xts-plain64", "CAPI:xts(aes)-plain64",
                   "capi", "capi:", "capi:-plain64", "capi:xts(aes",
                   "capi:xts(aes)-", "capi:xts(aes)-nosuch",
                   "capi:xts(aes)-essiv", "capi:xts(aes)-essiv:",
                   "capi:xts(aes)-PLAIN64", "capi:xts(aes))-plain64",
                   "capi:xts()-plain64", "capi:(aes)-plain64",
                   "capi:sha256-plain64", "capi:gcm(aes)-plain64",
                   "capi:aes-plain64", "capi:xts(aes)-random",
                   "capi:" + "a" * 126 + "-plain64",
                   "capi:" + "a" * 127 + "-plain64",
                   "capi:" + "a" * 128 + "-plain64",
                   "a" * 122 + "-xts-plain64", "a" * 123 + "-xts-plain64",
                   "a" * 300 + "-xts-plain64", "aes-xts-" + "p" * 300):
        yield "%s {64} 0 {dev} 0" % cipher


def bad_geometry():
    """What IV modes, ciphers and sectors do not allow of each other."""
    for cipher, key, opts in (
            ("aes-cbc-essiv:sha256", "{16}", ""), ("aes-cbc-essiv:sha1", "{32}", ""),
            ("aes-cbc-essiv:sha512", "{32}", ""), ("aes-cbc-essiv:crc32", "{32}", ""),
            ("aes-cbc-essiv:hmac(sha256)", "{32}", ""),
            ("aes-ctr-essiv:sha256", "{32}", ""),
            ("blowfish-cbc-essiv:sha512", "{32}", ""),
            ("capi:adiantum(xchacha20,aes)-essiv:sha256", "{32}", ""),
            ("capi:adiantum(xchacha20,aes)-eboiv", "{32}", ""),
            ("aes-ctr-eboiv", "{32}", ""), ("aes-ctr-elephant", "{64}", ""),
            ("aes-cbc-lmk", "{32}", "1 sector_size:4096"),
            ("aes:64-cbc-lmk", "{2080}", "1 sector_size:1024"),
            ("aes:64-cbc-lmk", "{2079}", ""), ("aes:64-cbc-lmk", "{63}", ""),
            ("capi:cbc(aes)-lmk", "{32}", ""),
            ("aes-cbc-tcw", "{64}", "1 sector_size:4096"),
            ("aes-cbc-tcw", "{32}", ""), ("aes-cbc-tcw", "{16}", ""),
            ("aes-cbc-tcw", "{33}", ""), ("blowfish-cbc-tcw", "{24}", ""),
            ("aes-cbc-elephant", "{31}", ""), ("aes-cbc-elephant", "{33}", ""),
            ("aes-cbc-elephant", "{66}", ""), ("aes-cbc-elephant", "{72}", ""),
            ("aes-cbc-elephant", "{128}", ""), ("aes-cbc-elephant", "{40}", ""),
            ("serpent-cbc-elephant", "{40}", ""),
            ("cipher_null-ecb", "{16}", ""), ("cipher_null-ecb", "a", ""),
            ("cipher_null-cbc-plain64", "-", ""),
            ("cipher_null-ecb-benbi", "-", ""),
            ("aes-ecb-eboiv", "{32}", ""), ("aes-ecb-lmk", "{32}", ""),
            ("aes-ecb-random", "{32}", ""), ("aes-ecb-tcw", "{64}", ""),
            ("des3_ede-cbc-plain64", "{23}", ""),
            ("aes-lrw-benbi", "{33}", ""), ("blowfish-xts-plain64", "{32}", ""),
            ("aes:4-cbc-plain64", "{63}", ""), ("aes:4-cbc-plain64", "{67}", "")):
        yield "%s %s 0 {dev} 0 %s" % (cipher, key, opts)
    for opts in ("x", "-1", "1", "1 ", "+1 allow_discards", "0x1 allow_discards",
                 "2 allow_discards", "1 nosuch", "1 allow_discard",
                 "1 allow_discards:1", "1 sector_size", "1 sector_size:",
                 "1 sector_size:0", "1 sector_size:513", "1 sector_size:256",
                 "1 sector_size:3072", "1 sector_size:8192",
                 "1 sector_size:65536", "1 sector_size:512x",
                 "1 sector_size:-512", "1 sector_size:+512",
                 "1 sector_size:0x200", "1 Sector_Size:512",
                 "1 SECTOR_SIZE:4096", "1 iv_large_sectors:1",
                 "1 integrity:0:aead", "1 integrity:481:aead",
                 "1 integrity:-1:aead", "1 integrity:x:aead",
                 "1 integrity:16:nosuch", "1 integrity::none",
                 "1 integrity:16:aead", "1 integrity:",
                 "1 integrity", "1 INTEGRITY:16:none", "1 journal_crypt:x",
                 "1 integrity_key_size:32", "1 integrity_key_size:0",
                 "1 high_priority", "99 allow_discards",
                 "11 a b c d e f g h i j k",
                 # the count is enough, or the rest is ignored
                 "0", "0 allow_discards", "1 allow_discards junk",
                 "1 allow_discards nosuch more 7"):
        yield XTS + " " + opts
    # in-tree takes what it scans modulo 2^16
    yield XTS + " 1 sector_size:66048"
    yield XTS + " 1 sector_size:69632"
    # and at most eight words
    words = ("allow_discards same_cpu_crypt submit_from_crypt_cpus "
             "no_read_workqueue no_write_workqueue iv_large_sectors "
             "sector_size:512 sector_size:1024 allow_discards allow_discards "
             "allow_discards").split()
    for count in (8, 9, 10, 11):
        yield "%s %d %s" % (XTS, count, " ".join(words[:count]))
    yield XTS + " 1 integrity:16:none"


def bad_numbers():
    """Offsets, devices, starts; two faults at once."""
    for offset in ("-1", "x", "1x", "+1", "0x10", "1.0", ",", "1e3",
                   "18446744073709551615", "00000000000000000000000000000008",
                   "18446744073709551616", "36893488147419103232",
                   "99999999999999999999999"):
        yield "aes-xts-plain64 {64} %s {dev} 0" % offset
    for offset, size in (("1", 1024), ("2", 2048), ("4", 4096), ("7", 4096),
                         ("18446744073709551615", 4096)):
        yield "aes-xts-plain64 {64} %s {dev} 0 1 sector_size:%d" % (offset, size)
        yield "aes-xts-plain64 {64} %s {dev} 0 2 sector_size:%d iv_large_sectors" \
            % (offset, size)
    for device in ("/dev/nosuch", "nosuch", "999:0", "1:", ":0", "-", "/",
                   "/dev/null", "/dev/mapper/control", "/proc/1/mem"):
        yield "aes-xts-plain64 {64} 0 %s 0" % device
    for start in ("-1", "x", "5junk", "+5", "0x5", "18446744073709551615",
                  "18446744073709551616", "16300", "16384", "99999999", "1.5"):
        yield "aes-xts-plain64 {64} 0 {dev} %s" % start
    # which of two faults is told
    for line in ("nosuch-xts-plain64 {64} 0 {dev} 0 1 nosuch",
                 "nosuch-xts-plain64 {64} x {dev} 0",
                 "nosuch-xts-plain64 z 0 /dev/nosuch 0",
                 "nosuch-xts-plain64 :64:logon:none 0 {dev} 0",
                 "nosuch-xts-plain64 :x:logon:none 0 {dev} 0",
                 "aes-xts-nosuch :64:logon:none 0 {dev} 0",
                 "aes-xts-essiv :64:logon:none 0 {dev} 0",
                 "aes-xts-plain64 :64:logon:none x {dev} 0",
                 "aes-xts-plain64 :64:logon:none 0 /dev/nosuch 0",
                 "aes-xts-plain64 :64:logon:none 0 {dev} 0 1 nosuch",
                 "aes-xts-plain64 {20} 0 /dev/nosuch 0",
                 "aes-xts-plain64 {64} x /dev/nosuch 0",
                 "aes-xts-plain64 {64} 0 /dev/nosuch x",
                 "aes:3-nosuch-plain64 {64} 0 /dev/nosuch 0",
                 "aes:64-cbc-lmk :2080:logon:none 0 {dev} 0 1 sector_size:4096",
                 "aes-cbc-tcw :64:logon:none 0 {dev} 0 1 sector_size:4096",
                 "aes-cbc-tcw :16:logon:none 0 {dev} 0",
                 "aes-ctr-eboiv :32:logon:none 0 {dev} 0",
                 "aes-cbc-elephant :66:logon:none 0 {dev} 0",
                 "aes-cbc-essiv:sha1 :32:logon:none 0 {dev} 0"):
        yield line


def bad_lines():
    """Refused by in-tree, or at the edge of it."""
    for line in itertools.chain(bad_fields(), bad_geometry(), bad_numbers()):
        yield raw(line)
    yield raw(XTS + " 1 sector_size:4096", sectors=127)
    yield raw(XTS + " 1 sector_size:1024", sectors=127)
    yield raw(XTS, sectors=1)
    yield raw("aes-xts-plain64 {64} 0 {dev} 0", sectors=1 << 40)


def ours_only():
    """Lines on which in-tree crashes (facts 9 #1, #2), or warns about itself
    in the log: ours must refuse.
    """
    yield raw("aes-xts-plain64 :99999999999999:logon:x 0 {dev} 0")
    for opts in ("1 integrity:16", "1 integrity:", "1 integrity:16x",
                 "2 integrity:16 sector_size:4096"):
        yield raw(XTS + " " + opts)
    yield raw("capi:gcm(aes)-plain64 {32} 0 {dev} 0 2 integrity:16:aead "
              "integrity_key_size:16")
    yield raw("capi:gcm(aes)-random {32} 0 {dev} 0 2 integrity_key_size:16 "
              "integrity:28:aead")


def strange():
    """Lines that in-tree takes and gets wrong; facts 9 #3 to #5."""
    yield raw("capi:adiantum(xchacha20,aes)-tcw {80} 0 {dev} 0")
    yield raw("capi:adiantum(xchacha20,aes)-lmk {2048} 0 {dev} 0")
    yield raw("blowfish:64-cbc-lmk {520} 0 {dev} 0")
    yield raw("blowfish:2-cbc-lmk {45} 0 {dev} 0")


def no_iv_mode():
    """(without an IV mode, with the zero IV): in-tree leaves the IV of the
    first to chance, ours is to make the second of it; facts 9 #5.
    """
    for cipher, key, opts in (("cbc(aes)", "32", ""),
                              ("xts(aes)", "64", "sector_size:4096"),
                              ("ctr(aes)", "32", ""),
                              ("adiantum(xchacha20,aes)", "32", "")):
        yield tuple(Case("no IV mode", "capi:" + cipher + end, key, opts=opts,
                         seed=cipher) for end in ("", "-null"))


# A first use that finds no module loaded: the kernel then loads some while
# the transforms are allocated, and they come from different drivers.
COLD = Case("cold", "twofish:64-cbc-plain64", "64x32")


# ---- the recorded lines ----

def recorded(path):
    """The lines of tests/data/oracle-lines.txt: id | cipher | key | ..."""
    with open(path, encoding="ascii") as file:
        for line in file:
            line = line.split("#")[0].strip()
            if not line:
                continue
            name, cipher, key, offset, opts, flags = (
                [field.strip() for field in line.split("|")] + [""] * 5)[:6]
            flags = dict((flag.split(":", 1) + [""])[:2]
                         for flag in flags.split())
            yield Case("recorded", cipher, key, offset or "0",
                       flags.get("start", "0"), opts, name=name,
                       sectors=int(flags.get("sectors", 1024)),
                       seed=flags.get("as", name), flags=flags)
