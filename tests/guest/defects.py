#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What in-tree dm-crypt does wrong, and what ours does instead.

  defects.py [PART...]

The defects have numbers, and each case here begins with its own.  PART picks
functions of main().

   1  integrity:16 without the second colon is a NULL dereference
   2  integrity_key_size with an AEAD that is not authenc writes through NULL
   3  tcw with an IV of 32 bytes puts bytes of the stack into it
   4  lmk with an IV of more than 16 bytes, or with short keys, reads past both
   5  without an IV mode the IV is what lay in memory
   6  ten options exist, nine may be given
   7  sector_size is taken modulo 65536
   8  of a repeated integrity option the status says one half and does another
   9  what is stored behind the IV is not initialized
  10  eboiv and elephant may sleep in softirq
  11  a write that goes on in a worker may not offer the CPU
  12  the error of an io is looked at before the last sector told of it
  13  a keyring key that the cipher refuses stays, and the status may show it
  14  elephant with a key of over 64 bytes fails without a text
  15  what an IV mode objects to is overwritten by "Error creating IV"

What in-tree answers to 1, 2 and 10 is an oops: tests/slow/33-intree-oops.
Its answers to 3, 4, 5 and 7, which are data, are compared in 10-ciphertext.
9 takes a disk with metadata and is the part `padding` of 22-integrity.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
import tables
from guestlib import Direct, run, seeded, use_ours
from iolib import (Mapped, NullBlk, cipher_reset, counters, leave, patience,
                   to_its_end)
from tables import BAD, HEX, line, tap

NAME = "defects"
INLINE = "2 no_read_workqueue no_write_workqueue"


# ---- tables ----

# number -> the reasons of tables.BAD
REFUSED = {
    1: ["integrity without type"],
    2: ["integrity_key_size without authenc"],
    3: ["tcw with an IV of 32 bytes"],
    4: ["lmk with an IV of 32 bytes", "lmk v3 with short keys"],
    7: ["sector_size:" + size for size in
        ("66048", "69632", "18446744073709552128")],
    14: ["elephant with a key of 66 bytes"],
    15: ["lmk with large sectors", "tcw with large sectors",
         "tcw with a short key", "eboiv with a block of one byte",
         "elephant with an odd key"],
}


def refused():
    """Errno, the text that in-tree has not, and a line with the numbers."""
    for number, reasons in REFUSED.items():
        for reason in reasons:
            (bad,) = [bad for bad in BAD if bad.why == reason]
            tap.prefix = "%d: " % number
            tables.refusals([bad])
    tap.prefix = ""


# number -> the texts of tables.ROUND
SHOWN = {
    6: ["every option"],
    7: ["sector_size twice, the last counts"],
    8: ["integrity twice, the last counts"],
}


def shown():
    """A table is taken, shown as it works, and taken again as it is shown."""
    for number, texts in SHOWN.items():
        rows = [row for row in tables.ROUND if row[0] in texts]
        assert len(rows) == len(texts)
        tap.prefix = "%d: " % number
        tables.round_trip(rows)
    tap.prefix = ""


def no_iv_mode():
    """The IV is zero, whatever was in memory."""
    below = []
    for cipher in ("capi:cbc(aes)", "capi:cbc(aes)-null", "capi:cbc(aes)"):
        # what another IV leaves in the memory that requests are made of
        for name in ("capi:cbc(aes)-plain64be", cipher):
            disk = NullBlk("iv", 1)
            table = line(name, HEX[32], dev=disk.path)
            with Mapped(NAME, [(0, 256, "crypt", table)]) as mapped:
                put(mapped.path, seeded("no iv mode", 256 * 512))
            got = get(disk.path, 256 * 512)
            disk.remove()
        below.append(got)
    tap.ok(below[0] == below[1] == below[2] and any(below[0]),
           "5: no IV mode is IV mode null")


def refused_key():
    """Status and ciphers after a key of the keyring that the cipher refuses."""
    run("modprobe", "xcrypt_picky")
    tap.prefix = "13: "
    tables.picky()
    tap.prefix = ""


# ---- I/O ----

def put(path, data):
    """Writes data from the start on."""
    disk = Direct(path, len(data))
    try:
        disk.write(0, data)
    finally:
        disk.close()


def get(path, size):
    """Reads size bytes from the start on."""
    disk = Direct(path, size)
    try:
        return bytes(disk.read(0, size))
    finally:
        disk.close()


def over(disk, cipher, key, options=INLINE):
    """A table over the whole of disk."""
    return [(0, disk.sectors, "crypt", line(cipher, key, dev=disk.path,
                                            options=options))]


def softirq():
    """Reads that complete in softirq and are decrypted there, unless the IV
    takes a cipher that may be asynchronous: this one is."""
    disk = NullBlk("softirq", 1, irqmode=1, submit_queues=1)
    size = disk.sectors * 512
    for mode, key in (("plain64", HEX[32]), ("eboiv", HEX[32]),
                      ("elephant", HEX[64])):
        patience()
        data = seeded("softirq " + mode, size)
        with Mapped(NAME, over(disk, "capi:xcrypt-test-cbc-" + mode, key)) as mapped:
            cipher_reset(answer="mixed", context="mixed", depth=8)
            put(mapped.path, data)
            cipher_reset(answer="mixed", context="mixed", depth=8)
            good = get(mapped.path, size) == data
            seen = counters("requests", "atomic", "sleep_in_atomic")
            cipher_reset()
        tap.ok(good and seen["requests"] >= disk.sectors and
               not seen["sleep_in_atomic"] and
               bool(seen["atomic"]) == (mode == "plain64"),
               "10: %s: %d requests, %d of them in softirq, none may sleep there" %
               (mode, seen["requests"], seen["atomic"]), "%s %s" % (good, seen))
    disk.remove()


def continued():
    """A conversion begins where nobody may sleep, finds the cipher's queue
    full, and goes on in a worker, which may."""
    disk = NullBlk("continued", 1, irqmode=1, submit_queues=1)
    size = disk.sectors * 512
    data = seeded("continued", size)
    with Mapped(NAME, over(disk, "capi:xcrypt-test-xts-plain64", HEX[64])) as mapped:
        put(mapped.path, data)
        cipher_reset(answer="async", depth=1)
        good = get(mapped.path, size) == data
        read = counters("requests", "atomic", "backlogged", "sleepless", "sleep_in_atomic")
        cipher_reset(answer="async", depth=1)
        put(mapped.path, data)
        wrote = counters("requests", "backlogged", "sleepless", "sleep_in_atomic")
        cipher_reset()
    disk.remove()
    tap.ok(good and 0 < read["atomic"] < read["requests"] and read["backlogged"] and
           not read["sleepless"] and not read["sleep_in_atomic"],
           "11: a read: %d of %d requests in softirq, all others may sleep" %
           (read["atomic"], read["requests"]), "%s %s" % (good, read))
    tap.ok(wrote["backlogged"] and not wrote["sleepless"] and not wrote["sleep_in_atomic"],
           "11: a write: all %d requests may sleep, %d after a full queue" %
           (wrote["requests"], wrote["backlogged"]), wrote)


def last_error():
    """Only the last sector of an I/O fails, in its callback, while the caller
    or a worker is just done with the others."""
    disk = NullBlk("errors", 1, irqmode=1, submit_queues=1)
    lost, false, tried = [], [], 0
    for context in ("process", "softirq", "early"):
        patience()
        for options in ("0", INLINE):
            with Mapped(NAME, over(disk, "capi:xcrypt-test-xts-plain64", HEX[64],
                                   options)) as mapped:
                cipher_reset()
                put(mapped.path, bytes(disk.sectors * 512))
                cipher_reset(answer="async", context=context, fail_every=8,
                             fail_sector=1, fail_async=1)
                device = Direct(mapped.path, 4096)
                for number in range(120):
                    # sectors 8n + 1 to 8n + 8, or 8n + 7
                    whole = number % 2 == 1
                    failed = transfer(device, number, 7 + whole)
                    tried += 1
                    if failed != whole:
                        (lost if whole else false).append((context, options, number))
                device.close()
                cipher_reset()
    disk.remove()
    tap.ok(not lost and not false,
           "12: of %d I/Os those whose last sector failed, and no others" % tried,
           "lost: %s\nfalse: %s" % (lost[:5], false[:5]))


def transfer(device, number, count):
    """One I/O; whether it failed with EIO."""
    where = (8 * number + 1) * 512
    try:
        if number % 4 < 2:
            device.write(where, bytes(count * 512))
        else:
            device.read(where, count * 512)
    except OSError as problem:
        if problem.errno != 5:
            raise
        return True
    return False


def main():
    """Everything, in turn."""
    run("modprobe", "brd", "rd_nr=1", "rd_size=8192", "max_part=0")
    run("modprobe", "xcrypt_testcipher")
    tables.add_keys()
    use_ours()
    with to_its_end(tap):
        for part in (refused, shown, no_iv_mode, refused_key, softirq,
                     continued, last_error):
            if not sys.argv[1:] or part.__name__ in sys.argv[1:]:
                patience()
                part()
    leave(tap)


if __name__ == "__main__":
    main()
