# SPDX-License-Identifier: GPL-2.0
"""What the guest's Python tests share: TAP, commands, device-mapper."""

import errno
import hashlib
import mmap
import os
import re
import subprocess
import sys
import time

SECTOR = 512
# Seconds that a command may take.  In virtual time a program that waits for the
# host to load it lets them go by.
LIMIT = 3000 if os.environ.get("VM_VIRTUAL") == "yes" else 300
# What the kernel itself answers, to in-tree dm-crypt too: of 6.1, and later.
# No such path; a path that is no block device; a key of another type.
NODEV, NOTBLK, WRONG_TYPE = {
    "6.1": (errno.ENODEV, errno.ENODEV, errno.ENOENT),
}.get(os.environ.get("VM_KERNEL", "6.1"),
      (errno.ENOENT, errno.ENOTBLK, errno.EINVAL))


class Tap:
    """Counts cases and prints them as the runner wants them."""

    def __init__(self):
        self.count = 0
        self.failed = 0
        self.prefix = ""                # of the texts that follow

    def ok(self, good, text, why=""):
        """One case.  Returns good."""
        self.count += 1
        self.failed += not good
        print("%sok %d - %s%s" % ("" if good else "not ", self.count, self.prefix, text))
        if not good and why:
            for line in str(why).splitlines():
                print("# " + line)
        sys.stdout.flush()
        return good

    def same(self, wanted, got, text):
        """A case that passes if both are equal."""
        return self.ok(wanted == got, text,
                       "wanted: %r\ngot:    %r" % (wanted, got))

    def skip(self, text, reason):
        """A case that cannot run here."""
        self.count += 1
        print("ok %d - %s # SKIP %s" % (self.count, text, reason), flush=True)

    def finish(self):
        """Prints the plan and leaves."""
        print("1..%d" % self.count, flush=True)
        sys.exit(1 if self.failed else 0)


def note(text):
    """A line for people."""
    print("# " + text, flush=True)


class Failed(Exception):
    """A command ended badly, or in an unexpected way."""


def run(*args, data=None, status=0, timeout=LIMIT):
    """Runs a command; returns what it wrote to both its outputs.

    status is the exit status that it must have, or None for any.  No key is
    ever an argument: data goes to its standard input.
    """
    args = [str(arg) for arg in args]
    if isinstance(data, str):
        data = data.encode()
    done = subprocess.run(args, input=data if data is not None else b"",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=timeout, check=False)
    text = done.stdout.decode("utf-8", "replace").strip()
    if status is not None and done.returncode != status:
        raise Failed("%s: status %d, wanted %d: %s" %
                     (" ".join(args), done.returncode, status, text))
    return text


def status_of(*args, data=None, timeout=LIMIT):
    """Runs a command; returns (status, output)."""
    if isinstance(data, str):
        data = data.encode()
    done = subprocess.run([str(arg) for arg in args],
                          input=data if data is not None else b"",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=timeout, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace").strip()


def read(path):
    """A small file's text, without the newline at its end."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().rstrip("\n")


def write(path, text):
    """Writes a small file, one of sysfs say."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def owners():
    """Which modules are loaded, and which crypt targets are registered."""
    modules = [name for name in ("dm_xcrypt", "dm_crypt")
               if os.path.isdir("/sys/module/" + name)]
    targets = [line.split()[0] for line in run("dmsetup", "targets").splitlines()
               if "crypt" in line.split()[0]]
    return modules, targets


def use_ours(*params):
    """Loads our module as the only one that knows `crypt`."""
    if os.path.isdir("/sys/module/dm_crypt"):
        run("rmmod", "dm_crypt")
    if not os.path.isdir("/sys/module/dm_xcrypt"):
        run("modprobe", "dm-xcrypt", *params)
    if owners() != (["dm_xcrypt"], ["crypt"]):
        raise Failed("not ours alone: %r" % (owners(),))


def insert_intree():
    """Loads the kernel's own dm-crypt, by file: its name leads to ours."""
    if os.path.isdir("/sys/module/dm_crypt"):
        return
    run("modprobe", "dm-mod")
    needs = run("modinfo", "-F", "depends", os.environ["DM_CRYPT_KO"])
    for name in filter(None, needs.split(",")):
        run("modprobe", name)
    run("insmod", os.environ["DM_CRYPT_KO"])


def use_both():
    """In-tree as `crypt` beside ours, which is loaded as `xcrypt`."""
    insert_intree()
    modules, targets = owners()
    if modules != ["dm_xcrypt", "dm_crypt"] or sorted(targets) != ["crypt", "xcrypt"]:
        raise Failed("modules %s, targets %s" % (modules, targets))


def use_intree():
    """Loads the kernel's own dm-crypt as the only one."""
    if os.path.isdir("/sys/module/dm_xcrypt"):
        run("rmmod", "dm_xcrypt")
    insert_intree()
    if owners() != (["dm_crypt"], ["crypt"]):
        raise Failed("not the kernel's own alone: %r" % (owners(),))


def load_module(name):
    """Loads one that not every kernel has; whether it is there."""
    return status_of("modprobe", "-q", name)[0] == 0


def sectors(device):
    """Its size in sectors."""
    return int(run("blockdev", "--getsz", device))


def table(name, keys=False):
    """The table line of a mapped device."""
    return run("dmsetup", "table", *(["--showkeys"] if keys else []), name)


def info(name):
    """The INFO status as a dictionary (target-private words)."""
    return dict(word.split("=", 1)
                for word in run("dmsetup", "status", name).split()
                if "=" in word)


def create(name, line):
    """dmsetup create, the table on standard input."""
    run("dmsetup", "create", name, data=line + "\n")


def reload(name, line):
    """dmsetup load, the table on standard input."""
    run("dmsetup", "load", name, data=line + "\n")


def remove(name):
    """dmsetup remove; what still holds the device lets go in a moment."""
    for attempt in range(20):
        status, text = status_of("dmsetup", "remove", name)
        if not status:
            return
        time.sleep(0.1 + 0.1 * attempt)
    raise Failed("dmsetup remove %s: %s" % (name, text))


def exists(name):
    """Whether there is such a mapped device."""
    return status_of("dmsetup", "info", name)[0] == 0


def seeded(seed, size):
    """size bytes that only seed determines."""
    return hashlib.shake_256(seed.encode()).digest(size)


class Direct:
    """A device opened with O_DIRECT, and a buffer aligned for it."""

    def __init__(self, path, size, flags=os.O_RDWR):
        self.fd = os.open(path, flags | os.O_DIRECT)
        self.buf = mmap.mmap(-1, size)
        self.size = size

    def write(self, offset, data):
        """Writes data, of at most the buffer's size."""
        self.buf[:len(data)] = data
        done = os.pwritev(self.fd, [memoryview(self.buf)[:len(data)]], offset)
        if done != len(data):
            raise Failed("wrote %d of %d bytes" % (done, len(data)))

    def read(self, offset, size):
        """Reads size bytes."""
        done = os.preadv(self.fd, [memoryview(self.buf)[:size]], offset)
        if done != size:
            raise Failed("read %d of %d bytes" % (done, size))
        return self.buf[:size]

    def close(self):
        """Lets go of both."""
        os.close(self.fd)
        self.buf.close()


def guest_errors():
    """Kernel lines of I/O errors, which no test of ours should cause."""
    return re.findall(r"(?:I/O error|Buffer I/O|cipher failed).*",
                      run("dmesg"))
