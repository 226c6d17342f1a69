#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""CPUs that come and go, and suspend-to-RAM, under verified I/O; and what a
write keeps of its origin on its way down: I/O priority and cgroup.

hotplug.py [hotplug] [spares] [suspend] [origin] [--intree]
"""

import contextlib
import glob
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import (Failed, Tap, create, guest_errors, note, read,
                      remove, run, sectors, use_intree, use_ours, write)

NAME = "hotplug0"
LOWER = "/dev/nullb0"
ORDER = "/sys/module/dm_xcrypt/parameters/write_order"
SPARES = "/sys/module/dm_xcrypt/parameters/spare_pages"
TOGGLES = 16                            # offline and online, in each mode
SUSPENDS = 12                           # at the least, in all
tap = Tap()

MODES = (                               # write_order, options
    ("inline", ""),
    ("offload", ""),
    ("fifo", ""),
    ("sort", ""),
    ("sort", "same_cpu_crypt"),
    ("sort", "no_read_workqueue no_write_workqueue"),
)


def line_for(device, options):
    """A table line with a key that nobody keeps."""
    words = options.split()
    return "0 %d crypt aes-xts-plain64 %s 0 %s 0 %s" % (
        sectors(device), os.urandom(64).hex(), device,
        " ".join([str(len(words))] + words) if words else "")


def null_blk():
    """A disk in memory that completes in a timer's interrupt."""
    run("modprobe", "null_blk", "nr_devices=0")
    path = "/sys/kernel/config/nullb/nullb0"
    if not os.path.isdir("/sys/kernel/config/nullb"):
        run("mount", "-t", "configfs", "none", "/sys/kernel/config")
    os.makedirs(path, exist_ok=True)
    for key, value in (("size", "64"), ("memory_backed", "1"), ("irqmode", "2"),
                       ("completion_nsec", "200000"), ("submit_queues", "2"),
                       ("power", "1")):
        write("%s/%s" % (path, key), value)


class Fio(threading.Thread):
    """Writes and verifies in turns until it is told to end."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.rounds = 0
        self.error = None
        self.ending = False

    def run(self):
        while not self.ending and not self.error:
            done = subprocess.run(
                ["fio", "--name=v", "--filename=" + self.path, "--numjobs=3",
                 "--size=3M", "--offset_increment=16M", "--rw=randwrite",
                 "--bsrange=512-256k", "--ioengine=libaio", "--iodepth=16",
                 "--direct=1", "--verify=crc32c", "--verify_fatal=1",
                 "--verify_dump=0", "--group_reporting", "--minimal",
                 "--randseed=%d" % (self.rounds + 1),
                 "--aux-path=/run", "--allow_file_create=0"],
                cwd="/run", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                self.error = done.stdout.decode("utf-8", "replace")[-2000:]
            self.rounds += 1

    def finish(self):
        """Whether all that was written was read back."""
        self.ending = True
        self.join()
        return not self.error


def inflight():
    """Whether bios are inside of the mapped device just now."""
    name = os.path.basename(os.path.realpath("/dev/mapper/" + NAME))
    if not name.startswith("dm-"):
        minor = os.minor(os.stat("/dev/mapper/" + NAME).st_rdev)
        name = "dm-%d" % minor
    return sum(map(int, read("/sys/block/%s/inflight" % name).split()))


def started(order, options):
    """The device, and I/O on it."""
    if os.path.exists(ORDER):
        write(ORDER, order)
    create(NAME, line_for(LOWER, options))
    fio = Fio("/dev/mapper/" + NAME)
    fio.start()
    waited(fio)
    return fio


def waited(fio):
    """Until bios are inside; fio needs time between its rounds."""
    while fio.is_alive():
        if inflight():
            return True
        time.sleep(0.002)
    return False


def ended(fio, name):
    """Judges the I/O, and whether it goes on after all that."""
    rounds = fio.rounds
    while fio.rounds == rounds and fio.is_alive():
        time.sleep(0.1)
    tap.ok(fio.finish(), "%s: every byte verified, %d rounds of fio" %
           (name, fio.rounds), fio.error)
    remove(NAME)


def hotplug():
    """CPUs go offline and online in turn."""
    cpus = sorted(glob.glob("/sys/devices/system/cpu/cpu[1-9]*/online"))
    for order, options in MODES:
        name = ("hotplug, %s %s" % (order, options)).strip()
        begin = time.monotonic()
        fio = started(order, options)
        done = busy = 0
        while done < TOGGLES and fio.is_alive():
            # all of them down at times, or one, in changing order
            for state, order_of_cpus in (("0", cpus if done % 4 else cpus[::-1]),
                                         ("1", cpus if done % 3 else cpus[::-1])):
                for path in order_of_cpus:
                    busy += waited(fio)
                    write(path, state)
                    done += 1
        tap.ok(done >= TOGGLES and busy >= TOGGLES // 2,
               "%s: %d changes, %d of them with I/O inside" %
               (name, done, busy))
        ended(fio, name)
        note("%s took %.0f s" % (name, time.monotonic() - begin))


def spares():
    """Pages that a CPU kept go back after it went offline, too."""
    cpu = sorted(glob.glob("/sys/devices/system/cpu/cpu[1-9]*"))[-1]
    create(NAME, line_for(LOWER, "no_write_workqueue"))
    run("taskset", "-c", cpu.rsplit("cpu", 1)[1], "dd", "if=/dev/zero", "bs=1M", "count=4",
        "oflag=direct", "of=/dev/mapper/" + NAME)
    remove(NAME)
    kept = int(read(SPARES))
    write(cpu + "/online", "0")
    tries = 0
    while int(read(SPARES)) and tries < 200:
        tries += 1
        time.sleep(0.1)
    left = int(read(SPARES))
    write(cpu + "/online", "1")
    tap.ok(kept and not left, "spares: %d pages are kept, %d when the CPU has been "
           "away for a while" % (kept, left))


def suspends():
    """How often the machine was suspended, as the kernel counts it."""
    for path in ("/sys/power/suspend_stats/success",
                 "/sys/kernel/debug/suspend_stats"):
        if os.path.exists(path):
            return int(read(path).split("\n")[0].split(":")[-1])
    return -1


def quiet(signal_number):
    """Holds, or lets go, what carries the kernel's log to the host: bytes on
    their way through a virtio port would be lost in the sleep, and with them
    the port.
    """
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if read(path).split("\0")[:2] == ["cat", "/dev/kmsg"]:
                os.kill(int(path.split("/")[2]), signal_number)
        except (FileNotFoundError, ProcessLookupError):
            pass
    time.sleep(0.5)


def prepare_suspend():
    """What the sleep would take from us: the 9p mounts have no resume."""
    os.chdir("/run")
    for line in read("/proc/mounts").splitlines():
        where, kind = line.split()[1:3]
        if kind == "9p":
            run("umount", "-l", where, status=None)
    if not os.path.isdir("/sys/kernel/debug/dm"):
        run("mount", "-t", "debugfs", "none", "/sys/kernel/debug", status=None)
    for name in ("/sys/module/suspend/parameters/pm_test_delay",):
        if os.path.exists(name):
            write(name, "1")


def suspend():
    """Suspend-to-RAM: all of it but the firmware's part (pm_test core)."""
    if not os.path.exists("/sys/power/pm_test"):
        tap.skip("suspend-to-RAM", "this kernel has no CONFIG_PM_DEBUG")
        return
    note("sleep states: %s; tests: %s" % (read("/sys/power/state"),
                                           read("/sys/power/pm_test")))
    prepare_suspend()
    quiet(signal.SIGSTOP)
    # Nor may our own words be on their way: they wait for the last suspend.
    held = io.StringIO()
    try:
        # what was printed until now leaves meanwhile
        time.sleep(2)
        with contextlib.redirect_stdout(held):
            suspend_all()
    finally:
        quiet(signal.SIGCONT)
        print(held.getvalue(), end="", flush=True)
    log = run("dmesg")
    note("the log has %d suspend entries, %d exits" %
         (log.count("PM: suspend entry"), log.count("PM: suspend exit")))


def suspend_all():
    """Each level in each mode."""
    each = -(-SUSPENDS // len(MODES))
    total = 0
    for order, options in MODES:
        name = ("suspend, %s %s" % (order, options)).strip()
        begin = time.monotonic()
        fio = started(order, options)
        good = busy = 0
        for level in ["core", "processors", "devices", "core"][:each + 1]:
            write("/sys/power/pm_test", level)
            busy += waited(fio)
            try:
                write("/sys/power/state", "mem")
                good += 1
            except OSError as error:
                note("%s: %s: %s" % (name, level, error))
        total += good
        tap.ok(good >= each and busy >= each,
               "%s: %d times, begun with I/O inside" % (name, good))
        ended(fio, name)
        note("%s took %.0f s" % (name, time.monotonic() - begin))
    write("/sys/power/pm_test", "none")
    tap.ok(total >= SUSPENDS, "suspended %d times in all, at least %d" %
           (total, SUSPENDS), "the kernel counted %d" % suspends())


def arrived(name):
    """What the probe saw since it was last asked: (direction, priority) -> count."""
    seen = {}
    for word in run("dmsetup", "status", name).split()[3:]:
        kind, count = word.split("=")
        way, prio = kind.split(":")
        seen[way, int(prio)] = int(count)
    run("dmsetup", "message", name, "0", "clear")
    return seen


def io_stat(path, device):
    """Bytes (read, written) that a cgroup is charged for a device."""
    number = "%d:%d" % (os.major(os.stat(device).st_rdev),
                        os.minor(os.stat(device).st_rdev))
    for line in read(path + "/io.stat").splitlines():
        if line.split()[0] == number:
            values = dict(word.split("=") for word in line.split()[1:])
            return int(values["rbytes"]), int(values["wbytes"])
    return 0, 0


def pay(payer, device, *command):
    """Runs a command in a cgroup; what that is charged for the device:
    (bytes read, bytes written).
    """
    before = io_stat(payer, device)
    # the shell moves itself, then it is the command that reads or writes
    run("sh", "-c", "echo $$ > %s/cgroup.procs; exec \"$@\"" % payer, "sh",
        "ionice", "-c", "2", "-n", "5", *command)
    after = io_stat(payer, device)
    return after[0] - before[0], after[1] - before[1]


def origin():
    """A write's priority and cgroup at the device below."""
    run("modprobe", "xcrypt_probe")
    base = "/run/cgroup2"
    os.makedirs(base, exist_ok=True)
    run("mount", "-t", "cgroup2", "none", base)
    write(base + "/cgroup.subtree_control", "+io +memory")
    payer = base + "/payer"
    os.makedirs(payer)
    prio = 2 << 13 | 5                  # best effort, level 5
    probe, mapped = "/dev/mapper/probe0", "/dev/mapper/" + NAME
    create("probe0", "0 %d probe %s" % (sectors(LOWER), LOWER))
    for order, options in MODES + (("inline", "submit_from_crypt_cpus"),):
        name = ("origin, %s %s" % (order, options)).strip()
        if os.path.exists(ORDER):
            write(ORDER, order)
        create(NAME, line_for(probe, options))
        arrived("probe0")
        dd = ["dd", "bs=64k", "count=64"]
        paid = pay(payer, probe, *dd, "if=/dev/zero", "of=" + mapped,
                   "oflag=direct", "conv=notrunc")
        seen = arrived("probe0")
        judge({kind: n for kind, n in seen.items() if kind[0] == "w"} ==
              {("w", prio): 64},
              name + ": writes arrive with their writer's priority",
              "wanted 64 of %d, got %r" % (prio, seen))
        judge(paid[1] == 4 << 20, name + ": his cgroup pays for them below",
              "%d bytes of %d" % (paid[1], 4 << 20))
        paid = pay(payer, probe, *dd, "if=" + mapped, "of=/dev/null",
                   "iflag=direct")
        seen = arrived("probe0")
        judge(seen.get(("r", prio), 0) >= 64 and paid[0] >= 4 << 20,
              name + ": reads: priority and cgroup",
              "%r, %d bytes" % (seen, paid[0]))
        paid = pay(payer, probe, *dd, "if=/dev/zero", "of=" + mapped,
                   "conv=notrunc,fsync")
        judge(paid[1] == 4 << 20,
              name + ": the cgroup pays for what it synced, too",
              "%d bytes of %d" % (paid[1], 4 << 20))
        remove(NAME)
    remove("probe0")
    run("rmmod", "xcrypt_probe")
    os.rmdir(payer)
    run("umount", base)


def judge(good, text, why=""):
    """A case, if it is ours that is tried."""
    if "--intree" not in sys.argv:
        tap.ok(good, text, why)
    else:
        note("in-tree: %s: %s" % (text, "yes" if good else "NO: " + why))


def main():
    """The parts that were asked for, or all."""
    if "--intree" in sys.argv:
        use_intree()
    else:
        use_ours()
    # a suspended 9p is no place to start programs from
    shutil.copy(__file__, "/run/")
    null_blk()
    parts = [part for part in (origin, hotplug, spares, suspend)
             if part.__name__ in sys.argv or
             not set(sys.argv) & {"origin", "hotplug", "spares", "suspend"}]
    for part in parts:
        try:
            part()
        except (Failed, OSError) as error:
            tap.ok(False, part.__name__ + ": ran to its end", error)
            run("dmsetup", "remove_all", "--force", status=None)
    tap.same([], guest_errors(), "no I/O error in the kernel's log")
    write("/sys/kernel/config/nullb/nullb0/power", "0")
    os.rmdir("/sys/kernel/config/nullb/nullb0")
    tap.finish()


main()
