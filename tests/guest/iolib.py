# SPDX-License-Identifier: GPL-2.0
"""What the tests of the I/O path share: null_blk, mapped devices, the test
cipher's parameters, fio."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import time
import traceback

from dmioctl import DeviceMapper
from guestlib import Failed, note, read, run, write

CONFIGFS = "/sys/kernel/config"
TRACEFS = "/sys/kernel/tracing"
CIPHER = "/sys/module/xcrypt_testcipher/parameters/"
MODULE = "/sys/module/dm_xcrypt/parameters/"


class NullBlk:
    """A null_blk device that keeps what is written to it."""

    def __init__(self, name, megabytes, **attributes):
        if not os.path.isdir("/sys/module/null_blk"):
            run("modprobe", "null_blk", "nr_devices=0")
        if not os.path.isdir(CONFIGFS + "/nullb"):
            run("mount", "-t", "configfs", "none", CONFIGFS)
        self.dir = CONFIGFS + "/nullb/" + name
        os.mkdir(self.dir)
        settings = {"size": megabytes, "blocksize": 512, "memory_backed": 1,
                    "queue_mode": 2, **attributes}
        # A queue for polling counts as a hardware queue, and with more than one
        # of these irqmode 1 completes in the caller, not in softirq.
        if os.path.exists(self.dir + "/poll_queues"):
            settings["poll_queues"] = 0
        for key, value in settings.items():
            write(os.path.join(self.dir, key), str(value))
        write(self.dir + "/power", "1")
        # older kernels number their disks, newer ones name them like this
        self.disk = name
        if not os.path.isdir("/sys/block/" + name):
            self.disk = "nullb" + read(self.dir + "/index")
        self.path = "/dev/" + self.disk
        self.sectors = megabytes * 2048

    def remove(self):
        """Takes it away, with its memory."""
        write(self.dir + "/power", "0")
        os.rmdir(self.dir)


class Slow:
    """tests/hdd as a block device: a disk that takes its time, see hdd.c.  plugin
    is where it was built."""

    def __init__(self, plugin, megabytes, scheduler="none", number=0, depth=1, **settings):
        self.socket = "/tmp/hdd%d.sock" % number
        self.server = subprocess.Popen(
            ["nbdkit", "-f", "-t", str(depth), "-U", self.socket, plugin,
             "size=%dM" % megabytes, *("%s=%s" % pair for pair in settings.items())])
        for _ in range(600):
            if os.path.exists(self.socket):
                break
            time.sleep(0.1)
        run("modprobe", "nbd")
        self.disk = "nbd%d" % number
        self.path = "/dev/" + self.disk
        run("nbd-client", "-unix", self.socket, self.path, "-b", "512")
        write("/sys/block/%s/queue/scheduler" % self.disk, scheduler)
        # kernels before 7.x take it for one without, whatever the server says
        write("/sys/block/%s/queue/rotational" % self.disk,
              str(int(str(settings.get("head", 1)) != "0")))
        self.sectors = megabytes * 2048

    def remove(self):
        """Takes it away; the server writes its report."""
        run("nbd-client", "-d", self.path)
        self.server.terminate()
        self.server.wait()
        if os.path.exists(self.socket):
            os.unlink(self.socket)


class Mapped:
    """A mapped device by ioctl: a dmsetup process takes longer here than the
    I/O that it should meet."""

    def __init__(self, name, table):
        self.dm, self.name = DeviceMapper(), name
        self.disk = "dm-%d" % self.dm.create(name)
        self.path = "/dev/" + self.disk
        self.sectors = sum(target[1] for target in table)
        try:
            self.load(table)
            self.resume()
        except OSError:
            self.remove()
            raise

    def load(self, table):
        """table: [(start, length, target, params)]"""
        self.dm.load(self.name, table)

    def suspend(self):
        """Returns when no I/O is inside."""
        self.dm.suspend(self.name)

    def resume(self):
        """Swaps in the table that was loaded, if any."""
        self.dm.resume(self.name)

    def info(self):
        """The INFO status as a dictionary; in-tree has none."""
        text = self.dm.status(self.name)[0][3]
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def remove(self):
        """The device goes; what still holds it lets go in a moment."""
        self.dm.remove(self.name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def completed(disk):
    """I/Os completed and in flight of a block device, by its kernel name."""
    words = read("/sys/block/%s/stat" % disk).split()
    return int(words[0]) + int(words[4]), int(words[8])


def cipher(**settings):
    """Sets parameters of the test cipher."""
    for key, value in settings.items():
        write(CIPHER + key, str(value))


def counters(*names):
    """Counters of the test cipher."""
    return {name: int(read(CIPHER + name)) for name in names}


CIPHER_DEFAULTS = {"answer": "sync", "context": "process", "depth": 0,
                   "delay_us": 0, "fail_every": 0, "fail_sector": 0,
                   "fail_most": 0, "fail_async": 0, "fail_ops": 3, "fail_errno": 5}
COUNTERS = ("requests", "async", "backlogged", "refused", "injected",
            "shuffled", "atomic", "sleep_in_atomic", "sleepless")


def cipher_reset(**settings):
    """All parameters as given, the others at their defaults; counters 0."""
    cipher(**{**CIPHER_DEFAULTS, **settings},
           **{name: 0 for name in COUNTERS}, seed=1)


def write_order(mode):
    """The order of writes for devices created from now on."""
    if os.path.isdir(MODULE):           # in-tree has no choice
        write(MODULE + "write_order", mode)


class Fio:
    """A fio process; settings are those of a job file, one job."""

    def __init__(self, **settings):
        args = ["fio", "--name=job", "--output-format=json"]
        for key, value in settings.items():
            args.append("--%s=%s" % (key, value))
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)

    def running(self):
        """Whether it still is."""
        return self.process.poll() is None

    def stop(self):
        """Ends it before it would; what it did does not count."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()

    def finish(self, timeout=300):
        """Waits for its end.  Returns (errors, jobs): what went wrong as a
        text, "" if nothing did, and fio's own account of its jobs."""
        out, err = self.process.communicate(timeout=timeout)
        text = out.decode("utf-8", "replace")
        said = err.decode("utf-8", "replace").strip()
        try:
            jobs = json.loads(text[text.index("{"):])["jobs"]
        except (ValueError, KeyError):
            return "no result from fio: %s %s" % (text[:500], said[:500]), []
        errors = [str(job["error"]) for job in jobs if job["error"]]
        if self.process.returncode or errors or "verify:" in said + text:
            return "status %d, errors %s: %s %s" % (
                self.process.returncode, ",".join(errors), said[:800],
                text[:text.index("{")][:800]), jobs
        return "", jobs


def total(jobs, direction, key="total_ios"):
    """The sum over the jobs of one of fio's numbers."""
    return sum(job[direction][key] for job in jobs)


def mount_tracefs():
    """Makes tracing ready.  By default the first event that is enabled, and
    the last that is disabled, also patch the scheduler on all CPUs to record
    the names of tasks: a guest without KVM once in a while runs into a
    breakpoint there that has gone already, and dies."""
    if not os.path.ismount(TRACEFS):
        run("mount", "-t", "tracefs", "tracefs", TRACEFS)
    write(TRACEFS + "/options/record-cmd", "0")


def kprobe(text):
    """Adds to kprobe_events; it can be appended to, but not sought in."""
    fd = os.open(TRACEFS + "/kprobe_events", os.O_WRONLY | os.O_APPEND)
    os.write(fd, text.encode() + b"\n")
    os.close(fd)


class Hung(Exception):
    """A case that did not come to its end."""


def patience(seconds=120):
    """Raises Hung in the main thread that much later, unless called again.

    Only for what would never end: the slowest case takes a small part of it.
    """
    def late(*_):
        raise Hung("nothing came to an end for %d s" % seconds)
    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)


@contextlib.contextmanager
def to_its_end(tap, name="the test"):
    """Around what must not end early: whatever it was is one failed case."""
    try:
        yield
    except Exception:                   # pylint: disable=broad-except
        tap.ok(False, name + ": went on to its end", traceback.format_exc())


@contextlib.contextmanager
def figures(tap, path):
    """Around what measures: gives put(*row), which adds a line to the CSV."""
    with to_its_end(tap), open(path, "w", encoding="ascii", newline="") as file:
        def put(*row):
            csv.writer(file).writerow(row)
            file.flush()

        yield put
        tap.ok(True, "measured")


def run_parts(tap, parts, wanted):
    """Runs the functions in parts, {name: function}, whose names are wanted
    (all if none), until one does not come to its end."""
    for name in wanted or parts:
        start = time.monotonic()
        with to_its_end(tap, name):
            parts[name]()
            note("%s took %.0f s" % (name, time.monotonic() - start))
            continue
        break


def leave(tap):
    """Ends the test, even with threads and children that wait forever."""
    try:
        tap.finish()
    except SystemExit as end:
        os._exit(end.code)


def cpus(count=2):
    """Refuses to go on with fewer CPUs: races need two."""
    if os.cpu_count() < count:
        raise Failed("the guest has %d CPUs, this needs %d" %
                     (os.cpu_count(), count))
