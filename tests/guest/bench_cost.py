#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What an I/O costs through each target, in virtual time.

  bench_cost.py OUT.csv [IOS]

Both modules are in this guest: in-tree dm-crypt as `crypt` and ours as
`xcrypt`.  Every table lies over `zero`, so nothing but the target takes time;
`linear` over it and the cipher alone are what cannot be avoided.  fio does
direct I/O at depth 1 (psync); the time of an I/O is the mean of its "lat".

The lines of OUT.csv: rw, size of an I/O (bytes), sector size (bytes), who
(linear, cipher, in-tree, ours), settings, microseconds.  IOS is a factor for
the number of I/Os (default 1).

First the same tables over brd must read what the other module wrote, byte by
byte, whatever the settings.
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Direct, Tap, load_module, read, run, seeded, use_both
from iolib import Mapped, figures, leave, patience

SIZES = {4096: 3000, 16384: 1500, 131072: 300, 1 << 20: 60}
SECTORS = (512, 4096)
DIRECTIONS = ("read", "write")
MEGABYTES = 256
# What a user of in-tree can set; the others change nothing for one of the
# directions, or are the sum of two here.
SETTINGS = ("", "same_cpu_crypt", "submit_from_crypt_cpus",
            "same_cpu_crypt submit_from_crypt_cpus",
            "no_read_workqueue no_write_workqueue")
KEY = seeded("cost", 64).hex()

tap = Tap()


def ciphers():
    """Loads the ciphers' modules ahead: a program that waits for the disk lets
    the virtual clock run, and the kernel gives up waiting for a cipher after a
    minute of it."""
    for name in ("cryptd", "crypto_simd", "aesni_intel", "xts", "ecb"):
        load_module(name)


def line(target, below, sector, settings, megabytes=MEGABYTES):
    """A table over below."""
    words = settings.split()
    if sector != 512:
        words.append("sector_size:%d" % sector)
    params = "aes-xts-plain64 %s 0 %s 0" % (KEY, below)
    if words:
        params += " %d %s" % (len(words), " ".join(words))
    return [(0, megabytes * 2048, target, params)]


def measure(path, ios):
    """{(rw, size): microseconds} of one device, by one fio."""
    jobs = [(rw, size) for rw in DIRECTIONS for size in SIZES]
    text = "[global]\nioengine=psync\ndirect=1\nfilename=%s\nstonewall\n" % path
    for rw, size in jobs:
        text += "[%s-%d]\nrw=%s\nbs=%d\nnumber_ios=%d\n" % (
            rw, size, rw, size, max(10, SIZES[size] * ios))
    patience(1200)
    done = subprocess.run(["fio", "--output-format=json", "-"], input=text.encode(),
                          stdout=subprocess.PIPE, check=True).stdout.decode()
    found = json.loads(done[done.index("{"):])["jobs"]
    return {job: result[job[0]]["lat_ns"]["mean"] / 1000
            for job, result in zip(jobs, found)}


def cipher():
    """{(rw, size of a call): microseconds of a call}"""
    run("modprobe", "xcrypt_cipherbench")
    words = read("/sys/module/xcrypt_cipherbench/parameters/result").split()
    run("rmmod", "xcrypt_cipherbench")
    values = dict(word.split("=") for word in words)
    return {(rw, size): int(values["%s%d" % (rw == "write" and "e" or "d", size)]) / 1e6
            for rw in DIRECTIONS for size in SECTORS}


def crossed(sector, settings):
    """Whether each module reads what the other wrote, in-tree with settings."""
    sides = (("crypt", settings), ("xcrypt", ""))
    for (writer, ones), (reader, others) in (sides, sides[::-1]):
        data = seeded("%s %d %s" % (writer, sector, settings), 1 << 20)
        for target, words in ((writer, ones), (reader, others)):
            with Mapped("crossed", line(target, "/dev/ram0", sector, words, 8)) as device:
                direct = Direct(device.path, len(data))
                if target == writer:
                    direct.write(0, data)
                same = direct.read(0, len(data)) == data
                direct.close()
            if not same:
                return False
    return True


def exchange():
    """The same tables over a disk that keeps what is written."""
    run("modprobe", "brd", "rd_nr=1", "rd_size=%d" % (8 << 10))
    for sector in SECTORS:
        for settings in SETTINGS:
            tap.ok(crossed(sector, settings),
                   "sectors of %d, in-tree with %s: each reads what the other wrote" %
                   (sector, settings or "no flags"))
    run("rmmod", "brd")


def measure_all(put):
    """Calls put(device, sector, who, settings) with each device."""
    def zero():
        return Mapped("zero", [(0, MEGABYTES * 2048, "zero", "")])

    with zero() as below, Mapped("cost", [(0, MEGABYTES * 2048, "linear",
                                           below.path + " 0")]) as device:
        put(device, 0, "linear", "")
    with zero() as below:
        for sector in SECTORS:
            for who, target, settings in [("in-tree", "crypt", s) for s in SETTINGS] + \
                    [("ours", "xcrypt", "")]:
                with Mapped("cost", line(target, below.path, sector, settings)) as device:
                    put(device, sector, who, settings)


def main():
    """Returns when all was measured."""
    out, ios = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1
    with figures(tap, out) as put:
        def put_device(device, sector, who, settings):
            for (rw, size), us in measure(device.path, ios).items():
                put(rw, size, sector, who, settings, "%.4f" % us)

        ciphers()
        use_both()
        exchange()
        for (rw, size), us in cipher().items():
            put(rw, size, size, "cipher", "", "%.4f" % us)
        measure_all(put_device)
    leave(tap)


if __name__ == "__main__":
    main()
