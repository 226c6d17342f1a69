#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""In-tree dm-crypt with what it does not survive: intree-oops.py NUMBER, as
in defects.py.  The harness reads the kernel's log; this may not come back."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import note, run, use_intree

use_intree()            # tables.py opens device-mapper when it is imported
from defects import INLINE, get, over, put
from iolib import Mapped, NullBlk, cipher_reset
from tables import HEX, SIZE, line


def table(options, *words):
    """Only loads one."""
    run("modprobe", "brd", "rd_nr=1", "rd_size=8192", "max_part=0")
    note("loading a table with " + options)
    with Mapped("oops", [(0, SIZE, "crypt", line(*words, options=options))]):
        note("it was taken")


def softirq():
    """The IV needs an answer of an asynchronous cipher, where a read ends."""
    run("modprobe", "xcrypt_testcipher")
    disk = NullBlk("oops", 1, irqmode=1, submit_queues=1)
    with Mapped("oops", over(disk, "capi:xcrypt-test-cbc-eboiv", HEX[32], INLINE)) as mapped:
        put(mapped.path, bytes(65536))
        cipher_reset(answer="async")
        note("reading")
        get(mapped.path, 65536)


{"1": lambda: table("1 integrity:16"),
 "2": lambda: table("2 integrity:16:aead integrity_key_size:16",
                    "capi:gcm(aes)-plain64", HEX[32]),
 "10": softirq}[sys.argv[1]]()
