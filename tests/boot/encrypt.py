#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Encrypts an image as LUKS2 with 4096-byte sectors and aes-xts-plain64 does.

  encrypt.py KEYFILE PLAIN DISK MIB

PLAIN's sectors go to DISK, from MIB MiB on.  The IV of a sector is the number
of its first 512 bytes, little-endian.
"""

import sys

from cryptography.hazmat.backends import default_backend
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

SECTOR = 4096


def main():
    """Does it."""
    keyfile, plain, disk, mib = sys.argv[1:]
    with open(keyfile, "rb") as file:
        aes = algorithms.AES(file.read())
    backend = default_backend()
    with open(plain, "rb") as source, open(disk, "r+b") as target:
        target.seek(int(mib) << 20)
        number = 0
        while True:
            data = source.read(SECTOR)
            if not data:
                break
            iv = number.to_bytes(16, "little")
            cipher = Cipher(aes, modes.XTS(iv), backend).encryptor()
            target.write(cipher.update(data))
            number += SECTOR // 512


main()
