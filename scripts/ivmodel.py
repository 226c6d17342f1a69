# SPDX-License-Identifier: GPL-2.0
"""What a crypt table writes to the disk: an independent model in Python.

Written from the description of the formats, not from iv.c, so that the two
can be compared.  AES, MD5's block function and CRC-32 are here in plain
Python; bulk encryption uses libcrypto when it is there (and has to for ciphers
other than AES).  gen-iv-testvecs.py --self-test checks the parts against
hashlib, zlib and libcrypto, --check-golden the whole against ciphertext that
the kernel's own target wrote.

    Crypt('aes-xts-plain64', key, iv_offset=8, sector_size=4096,
          large=True).encrypt(data)

n is the length of the IV; ivs the IV number of a sector.
"""
import ctypes
import ctypes.util
import hashlib
import struct

MASK32 = 2**32 - 1
MASK64 = 2**64 - 1


class Unsupported(Exception):
    """A cipher or mode that this model does not know."""


def le64(x, n=8):
    return struct.pack('<Q', x & MASK64).ljust(n, b'\0')


def xor(a, b):
    n = len(a)
    assert len(b) == n
    return (int.from_bytes(a, 'little') ^ int.from_bytes(b, 'little')).to_bytes(n, 'little')


def rotl32(x, r):
    return (x << r | x >> (32 - r)) & MASK32 if r else x


# --- the primitives -------------------------------------------------------

def _aes_sbox():
    """FIPS 197: inverse in GF(2^8), then the affine map."""
    box, p, q = [0] * 256, 1, 1
    while True:
        p = p ^ (p << 1) & 0xff ^ (0x1b if p & 0x80 else 0)     # p * 3
        q ^= q << 1                                             # q / 3
        q ^= q << 2
        q ^= q << 4
        q &= 0xff
        if q & 0x80:
            q ^= 0x09
        x = 0x63
        for r in range(5):
            x ^= (q << r | q >> (8 - r)) & 0xff
        box[p] = x
        if p == 1:
            box[0] = 0x63
            return bytes(box)


SBOX = _aes_sbox()
XTIME = bytes((x << 1) & 0xff ^ (0x1b if x & 0x80 else 0) for x in range(256))
SHIFT_ROWS = [0, 5, 10, 15, 4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11]


class Aes:
    """One block at a time, encryption only: nothing here decrypts with it."""

    def __init__(self, key):
        nk = len(key) // 4
        assert len(key) in (16, 24, 32)
        w = [key[i:i + 4] for i in range(0, len(key), 4)]
        rcon = 1
        for i in range(nk, 4 * (nk + 7)):
            t = w[-1]
            if i % nk == 0:
                t = bytes(SBOX[x] for x in t[1:] + t[:1])
                t = bytes([t[0] ^ rcon]) + t[1:]
                rcon = XTIME[rcon]
            elif nk > 6 and i % nk == 4:
                t = bytes(SBOX[x] for x in t)
            w.append(xor(t, w[i - nk]))
        self.keys = [b''.join(w[i:i + 4]) for i in range(0, len(w), 4)]

    def block(self, data):
        s = xor(data, self.keys[0])
        for k in self.keys[1:-1]:
            s = bytes(SBOX[s[i]] for i in SHIFT_ROWS)
            o = []
            for c in range(0, 16, 4):
                a = s[c:c + 4]
                every = a[0] ^ a[1] ^ a[2] ^ a[3]
                o += [a[i] ^ every ^ XTIME[a[i] ^ a[(i + 1) % 4]] for i in range(4)]
            s = xor(bytes(o), k)
        return xor(bytes(SBOX[s[i]] for i in SHIFT_ROWS), self.keys[-1])


def _md5_sine():
    """floor(2^32 |sin i|) for i = 1..64, with integers only: no rounding."""
    out, one = [], 1 << 160
    for i in range(1, 65):
        term, total, k = i * one, 0, 1
        while term:
            total += term
            term = -term * i * i // ((k + 1) * (k + 2)) if abs(term) > 1 else 0
            k += 2
        out.append(abs(total) * 2**32 // one)
    return out


MD5_SINE = _md5_sine()
MD5_START = struct.pack('<4I', 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476)
MD5_SHIFTS = [7, 12, 17, 22] * 4 + [5, 9, 14, 20] * 4 + [4, 11, 16, 23] * 4 + [6, 10, 15, 21] * 4


def md5_blocks(data, state=MD5_START):
    """The chaining state after whole blocks; no padding, no length."""
    assert len(data) % 64 == 0
    h = list(struct.unpack('<4I', state))
    for at in range(0, len(data), 64):
        m = struct.unpack('<16I', data[at:at + 64])
        a, b, c, d = h
        for i in range(64):
            if i < 16:
                f, g = (b & c) | (~b & d), i
            elif i < 32:
                f, g = (d & b) | (~d & c), (5 * i + 1) % 16
            elif i < 48:
                f, g = b ^ c ^ d, (3 * i + 5) % 16
            else:
                f, g = c ^ (b | ~d & MASK32), 7 * i % 16
            f = (f + a + MD5_SINE[i] + m[g]) & MASK32
            a, d, c = d, c, b
            b = (b + rotl32(f, MD5_SHIFTS[i])) & MASK32
        h = [(x + y) & MASK32 for x, y in zip(h, (a, b, c, d))]
    return struct.pack('<4I', *h)


def crc32_plain(data):
    """Reflected 0xEDB88320, starts at 0, no inversion at the end."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc


# --- ciphers --------------------------------------------------------------

class Libcrypto:
    """The few functions of OpenSSL 3 that are needed; None if not there."""

    def __init__(self, lib):
        self.lib = lib
        p, i = ctypes.c_void_p, ctypes.c_int
        for name, res, args in (
                ('OSSL_PROVIDER_load', p, [p, ctypes.c_char_p]),
                ('EVP_CIPHER_fetch', p, [p, ctypes.c_char_p, p]),
                ('EVP_CIPHER_CTX_new', p, []),
                ('EVP_CIPHER_CTX_set_key_length', i, [p, i]),
                ('EVP_CIPHER_CTX_set_padding', i, [p, i]),
                ('EVP_EncryptInit_ex', i, [p, p, p, ctypes.c_char_p, ctypes.c_char_p]),
                ('EVP_EncryptUpdate', i, [p, ctypes.c_char_p, ctypes.POINTER(i), ctypes.c_char_p, i])):
            f = getattr(lib, name)
            f.restype, f.argtypes = res, args
        for provider in (b'default', b'legacy'):
            lib.OSSL_PROVIDER_load(None, provider)

    @classmethod
    def load(cls):
        name = ctypes.util.find_library('crypto') or 'libcrypto.so.3'
        try:
            return cls(ctypes.CDLL(name))
        except (OSError, AttributeError):
            return None

    def context(self, name, key):
        lib = self.lib
        cipher = lib.EVP_CIPHER_fetch(None, name.encode(), None)
        if not cipher:
            raise Unsupported(name)
        ctx = lib.EVP_CIPHER_CTX_new()
        if not (lib.EVP_EncryptInit_ex(ctx, cipher, None, None, None) and
                lib.EVP_CIPHER_CTX_set_key_length(ctx, len(key)) and
                lib.EVP_EncryptInit_ex(ctx, None, None, key, None) and
                lib.EVP_CIPHER_CTX_set_padding(ctx, 0)):
            raise Unsupported(f'{name} with a key of {len(key)} bytes')
        return ctx

    def run(self, ctx, iv, data):
        out = ctypes.create_string_buffer(len(data))
        n = ctypes.c_int()
        if iv is not None and not self.lib.EVP_EncryptInit_ex(ctx, None, None, None, iv):
            raise Unsupported('IV')
        if not self.lib.EVP_EncryptUpdate(ctx, out, ctypes.byref(n), data, len(data)):
            raise Unsupported('update')
        assert n.value == len(data)
        return out.raw


LIBCRYPTO = Libcrypto.load()


class Cipher:
    """A raw block cipher with one key: ecb() and cbc() of whole sectors."""

    BLOCK = {'aes': 16, 'camellia': 16, 'blowfish': 8, 'des3_ede': 8}

    def __init__(self, name, key):
        if name not in self.BLOCK:
            raise Unsupported(name)
        self.size = self.BLOCK[name]
        self.pure = None
        if LIBCRYPTO:
            base = {'aes': f'AES-{len(key) * 8}', 'camellia': f'CAMELLIA-{len(key) * 8}',
                    'blowfish': 'BF', 'des3_ede': 'DES-EDE3'}[name]
            self.ecb_ctx = LIBCRYPTO.context(base + '-ECB', key)
            self.cbc_ctx = LIBCRYPTO.context(base + '-CBC', key)
        elif name == 'aes':
            self.pure = Aes(key)
        else:
            raise Unsupported(f'{name} without libcrypto')

    def ecb(self, data):
        if not self.pure:
            return LIBCRYPTO.run(self.ecb_ctx, None, data)
        return b''.join(self.pure.block(data[i:i + 16]) for i in range(0, len(data), 16))

    def cbc(self, iv, data):
        if not self.pure:
            return LIBCRYPTO.run(self.cbc_ctx, iv, data)
        out = []
        for i in range(0, len(data), 16):
            iv = self.pure.block(xor(data[i:i + 16], iv))
            out.append(iv)
        return b''.join(out)


def gf128_mul(a, b):
    """Big endian bit order, x^128 + x^7 + x^2 + x + 1 (LRW)."""
    r = 0
    while b:
        if b & 1:
            r ^= a
        b >>= 1
        a <<= 1
        if a >> 128:
            a ^= 1 << 128 | 0x87
    return r


class Mode:
    """mode(cipher) with one subkey, as the crypto API takes it."""

    def __init__(self, mode, cipher, key):
        self.mode = mode
        self.second = None
        if mode == 'xts':
            half = len(key) // 2
            self.first, self.second = Cipher(cipher, key[:half]), Cipher(cipher, key[half:])
        elif mode == 'lrw':
            self.first = Cipher(cipher, key[:-16])
            self.tweak = int.from_bytes(key[-16:], 'big')
        elif mode in ('cbc', 'ecb', 'pcbc'):
            self.first = Cipher(cipher, key)
        else:
            raise Unsupported(mode)
        self.block_size = self.first.size
        self.iv_size = 0 if mode == 'ecb' else self.first.size

    def encrypt(self, iv, data):
        return getattr(self, '_' + self.mode)(iv, data)

    def _ecb(self, _iv, data):
        return self.first.ecb(data)

    def _cbc(self, iv, data):
        return self.first.cbc(iv, data)

    def _pcbc(self, iv, data):
        out, n = [], self.block_size
        for i in range(0, len(data), n):
            plain = data[i:i + n]
            out.append(self.first.ecb(xor(plain, iv)))
            iv = xor(plain, out[-1])
        return b''.join(out)

    def _xts(self, iv, data):
        t = int.from_bytes(self.second.ecb(iv), 'little')
        tweaks = []
        for _ in range(0, len(data), 16):
            tweaks.append(t.to_bytes(16, 'little'))
            t <<= 1
            if t >> 128:
                t ^= 1 << 128 | 0x87
        mask = b''.join(tweaks)
        return xor(self.first.ecb(xor(data, mask)), mask)

    def _lrw(self, iv, data):
        at = int.from_bytes(iv, 'big')
        mask = b''.join(gf128_mul(self.tweak, (at + i) % 2**128).to_bytes(16, 'big')
                        for i in range(len(data) // 16))
        return xor(self.first.ecb(xor(data, mask)), mask)


# --- IV generators --------------------------------------------------------

class Geometry:
    """What a generator is told about the table."""

    def __init__(self, n, block_size, sector_size, key, key_count):
        self.n, self.block_size, self.sector_size = n, block_size, sector_size
        self.key, self.key_count = key, key_count


class Plain:
    """A generator; each one says how many key bytes at the end are its own.

    subkeys, and one() (a zero block encrypted under the first of them with
    the IV given), come from the caller once the key has been cut.
    """

    parts = 0           # keys beside those that the cipher text names
    extra = 0           # bytes
    one = None

    def __init__(self, geo):
        self.geo = geo
        self.n, self.sector_size = geo.n, geo.sector_size

    def iv(self, ivs):
        return struct.pack('<I', ivs & MASK32).ljust(self.n, b'\0')

    # What is done to the sector and to the IV around the cipher.
    def write_pre(self, ivs, iv, data):
        return iv, data

    def write_post(self, ivs, data):
        return data

    def read_pre(self, ivs, iv, data):
        return iv, data

    def read_post(self, ivs, data):
        return data


class Plain64(Plain):
    def iv(self, ivs):
        return le64(ivs, self.n)


class Plain64be(Plain):
    def iv(self, ivs):
        return struct.pack('>Q', ivs).rjust(self.n, b'\0')


class Benbi(Plain):
    def iv(self, ivs):
        blocks = (ivs * 512 // self.geo.block_size + 1) & MASK64
        return struct.pack('>Q', blocks).rjust(self.n, b'\0')


class Null(Plain):
    def iv(self, ivs):
        return bytes(self.n)


class Lmk(Null):
    def __init__(self, geo):
        super().__init__(geo)
        self.start = b''
        if len(geo.key) % geo.key_count:
            self.parts = 1
            size = len(geo.key) // (geo.key_count + 1)
            self.extra = size
            at = geo.key_count * size
            self.start = geo.key[at:at + 16].ljust(64, b'\0')

    def hash(self, ivs, data):
        tail = struct.pack('<4I', ivs & MASK32, ivs >> 32 & 0xffffff | 0x80000000, 4024, 0)
        return md5_blocks(self.start + data[16:512] + tail)[:self.n]

    def write_pre(self, ivs, iv, data):
        return self.hash(ivs, data), data

    def read_post(self, ivs, data):
        return xor(data[:self.n], self.hash(ivs, data)) + data[self.n:]


class Tcw(Plain):
    def __init__(self, geo):
        super().__init__(geo)
        self.parts = 2
        self.extra = self.n + 16
        own = geo.key[-self.extra:]
        self.seed, self.whitening = own[:self.n], own[self.n:]

    def iv(self, ivs):
        return xor(self.seed, (le64(ivs) * 2)[:self.n])

    def whiten(self, ivs, data):
        w = xor(self.whitening, le64(ivs) * 2)
        c = [crc32_plain(w[i:i + 4]) for i in range(0, 16, 4)]
        pattern = struct.pack('<2I', c[0] ^ c[3], c[1] ^ c[2])
        return xor(data, pattern * (len(data) // 8))

    def write_post(self, ivs, data):
        return self.whiten(ivs, data)

    def read_pre(self, ivs, iv, data):
        return iv, self.whiten(ivs, data)


class Eboiv(Plain):
    def iv(self, ivs):
        return self.one(le64(ivs * self.sector_size, self.n))


class Elephant(Eboiv):
    def __init__(self, geo):
        super().__init__(geo)
        self.parts = 2 - geo.key_count      # two, however many keys are named
        self.extra = len(geo.key) // 2
        self.aes = Aes(geo.key[-self.extra:])

    def sector_key(self, ivs, data):
        b = bytearray(le64(ivs * self.sector_size, 16))
        key = self.aes.block(bytes(b))
        b[15] = 0x80
        key += self.aes.block(bytes(b))
        return xor(data, key * (len(data) // 32))

    @staticmethod
    def _layer(data, rounds, near, far, r, encrypt):
        d = list(struct.unpack(f'<{len(data) // 4}I', data))
        m = len(d)
        order = range(m - 1, -1, -1) if encrypt else range(m)
        for _ in range(rounds):
            for i in order:
                x = d[(i + near) % m] ^ rotl32(d[(i + far) % m], r[i % 4])
                d[i] = (d[i] - x if encrypt else d[i] + x) & MASK32
        return struct.pack(f'<{m}I', *d)

    def a(self, data, encrypt):
        return self._layer(data, 5, -2, -5, (9, 0, 13, 0), encrypt)

    def b(self, data, encrypt):
        return self._layer(data, 3, 2, 5, (0, 10, 0, 25), encrypt)

    def write_pre(self, ivs, iv, data):
        return iv, self.b(self.a(self.sector_key(ivs, data), True), True)

    def read_post(self, ivs, data):
        return self.sector_key(ivs, self.a(self.b(data, False), False))


GENERATORS = {
    'plain': Plain, 'plain64': Plain64, 'plain64be': Plain64be, 'essiv': Plain64,
    'benbi': Benbi, 'null': Null, 'lmk': Lmk, 'tcw': Tcw, 'eboiv': Eboiv,
    'elephant': Elephant,
}


# --- a whole table --------------------------------------------------------

def parse_cipher(text):
    """cipher field of a table -> (mode, cipher, count, generator, ivopts)"""
    if text.startswith('capi:'):
        rest, _, ivopts = text[5:].rpartition(':') if ':' in text[5:] else (text[5:], '', '')
        api, _, iv = rest.rpartition('-')
        if api == 'xts-aes-aesni':
            api = 'xts(aes)'
        mode, _, cipher = api.rstrip(')').partition('(')
        return mode, cipher, 64 if iv == 'lmk' else 1, iv, ivopts
    part = text.split('-', 2)
    if len(part) == 1 or part[1:] == ['plain']:
        part = [part[0], 'cbc', 'plain']
    cipher, _, count = part[0].partition(':')
    iv, _, ivopts = (part[2] if len(part) > 2 else '').partition(':')
    return part[1], cipher, int(count or 1), iv, ivopts


class Crypt:
    """A table line; encrypt() gives what is found on the lower device."""

    def __init__(self, cipher, key, iv_offset=0, sector_size=512, large=False):
        mode, name, count, iv, self.ivopts = parse_cipher(cipher)
        self.sector_size, self.iv_offset = sector_size, iv_offset
        self.shift = (sector_size // 512).bit_length() - 1 if large else 0
        size = Cipher.BLOCK.get(name)
        if size is None:
            raise Unsupported(name)
        self.gen = None
        extra = 0
        if mode != 'ecb':
            if iv not in GENERATORS:
                raise Unsupported(iv)
            self.gen = GENERATORS[iv](Geometry(size, size, sector_size, key, count))
            extra = self.gen.extra
        sub = (len(key) - extra) // count
        keys = [key[i * sub:(i + 1) * sub] for i in range(count)]
        self.modes = [Mode(mode, name, k) for k in keys]
        if iv in ('eboiv', 'elephant'):
            self.gen.one = lambda b: self.modes[0].encrypt(b, bytes(size))
        self.salts = None
        if iv == 'essiv':
            self.salts = [Cipher(name, hashlib.new(self.ivopts, k).digest()) for k in keys]

    def sector(self, rel, data):
        ivs = (rel + self.iv_offset) & MASK64
        key = ivs % len(self.modes)
        ivs >>= self.shift
        if not self.gen:
            return self.modes[key].encrypt(None, data)
        iv = self.gen.iv(ivs)
        if self.salts:
            iv = self.salts[key].ecb(iv)
        iv, data = self.gen.write_pre(ivs, iv, data)
        return self.gen.write_post(ivs, self.modes[key].encrypt(iv, data))

    def encrypt(self, data, rel=0):
        """rel: number of the first 512-byte sector in the target."""
        s = self.sector_size
        return b''.join(self.sector(rel + i // 512, data[i:i + s])
                        for i in range(0, len(data), s))
