# SPDX-License-Identifier: GPL-2.0
"""What a disk boots: for scripts/vm --boot-disk.

Stands in for firmware and boot loader.  The disk has an MBR; its first
partition is an ext4 in the clear that has what /boot has, with entries of the
Boot Loader Specification in loader/entries; the highest version is booted, as a
boot loader would.  Who makes the entries is the disk's own business, so after a
kernel upgrade inside, the next boot takes the new kernel and its initramfs.

The disk may be raw or qcow2 (a snapshot on top of another disk).
"""

import json
import math
import os
import re
import struct
import subprocess

SECTOR = 512


class BootError(Exception):
    """The disk does not boot; the text says why."""


def run(*command):
    """Runs a program and returns its output."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except subprocess.CalledProcessError as error:
        raise BootError("%s: %s" % (command[0], error.stderr.decode(
            "utf-8", "replace").strip())) from error
    return done.stdout


def image_format(image):
    """raw or qcow2."""
    if not os.path.exists(image):
        raise BootError("%s: no such disk" % image)
    return json.loads(run("qemu-img", "info", "--force-share", "--output=json",
                          image))["format"]


def extract(image, target, first, count):
    """Copies sectors of the image to a raw file."""
    # In blocks as large as fit: one by one, 200 MiB take a minute.
    block = math.gcd(first, count, 2048)
    run("qemu-img", "dd", "-U", "-f", image_format(image), "-O", "raw",
        "bs=%d" % (block * SECTOR), "skip=%d" % (first // block),
        "count=%d" % ((first + count) // block), "if=" + image, "of=" + target)


def boot_partition(image, directory):
    """A raw copy of the first partition."""
    table = os.path.join(directory, "mbr")
    extract(image, table, 0, 1)
    with open(table, "rb") as file:
        mbr = file.read(SECTOR)
    if mbr[510:512] != b"\x55\xaa":
        raise BootError("%s has no partition table" % image)
    first, count = struct.unpack_from("<II", mbr, 446 + 8)
    path = os.path.join(directory, "boot.ext4")
    extract(image, path, first, count)
    # The journal, if it was not shut down in order.
    subprocess.run(["e2fsck", "-p", path], stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, check=False)
    return path


def version_key(version):
    """Sorts 6.12.1 after 6.1.0."""
    return [(int(digits), text) for digits, text in
            re.findall(r"(\d+)([^\d]*)", version)]


def entries(partition):
    """The boot loader's entries, the one to boot first."""
    found = []
    listing = run("debugfs", "-R", "ls -p /loader/entries", partition)
    for name in re.findall(r"/([^/]+\.conf)/", listing.decode()):
        text = run("debugfs", "-R", "cat /loader/entries/" + name, partition)
        found.append(dict(line.split(None, 1) for line in
                          text.decode().splitlines() if " " in line))
    return sorted(found, key=lambda entry: version_key(entry["version"]),
                  reverse=True)


def load(image, directory, unpack):
    """Makes DIRECTORY/vmlinux and initrd; returns (version, options).

    UNPACK is scripts/extract-vmlinux: QEMU starts a kernel that is not
    compressed, and a guest without KVM need not unpack it for seconds.
    """
    partition = boot_partition(image, directory)
    every = entries(partition)
    if not every:
        raise BootError("%s has no boot loader entry" % image)
    for key, name in (("linux", "vmlinuz"), ("initrd", "initrd")):
        path = os.path.join(directory, name)
        run("debugfs", "-R", "dump %s %s" % (every[0][key], path), partition)
        if not os.path.exists(path) or not os.path.getsize(path):
            raise BootError("%s: there is no %s" % (image, every[0][key]))
    run(unpack, os.path.join(directory, "vmlinuz"),
        os.path.join(directory, "vmlinux"))
    os.unlink(partition)
    return every[0]["version"], every[0]["options"]
