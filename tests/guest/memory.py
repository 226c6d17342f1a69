#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Short of memory: writers, and swap on the target, in every write order.

memory.py MEMLOAD [PHASE..]	a phase is named like swap.fifo

One crypt device carries two linear ones: the writers' and the swap.  memload.c
drives and watches; it decides what a stall is.  Phases are named in PHASES.
"""

import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import (Failed, Tap, create, guest_errors, info, note, read,
                      remove, run, sectors, use_ours, write)

DISK = "/dev/vda"
CRYPT, DATA, SWAP, SLOW = "crypt0", "data0", "swap0", "slow0"
DATA_SECTORS = 8 * 8 * 2048             # 8 writers, 8 blocks of 1 MiB
ORDER = "/sys/module/dm_xcrypt/parameters/write_order"
MEMLOAD = sys.argv[1]
RESERVE = 256                           # XCRYPT_MIN_PAGES
SHARE = 4096                            # XCRYPT_MIN_SHARE: 2 % are less here
tap = Tap()

# kind, write_order, options, reloads: "" (load, resume), "suspend", or None
PHASES = (
    ("swap", "inline", "", ""),
    ("swap", "fifo", "", "suspend"),
    ("swap", "sort", "", ""),
    ("swap", "offload", "", "suspend"),
    ("swap", "sort", "no_read_workqueue no_write_workqueue", ""),
    ("limit", "inline", "", None),
    ("limit", "offload", "", None),
    ("limit", "fifo", "", None),
    ("limit", "sort", "", None),
    ("limit", "inline", "no_read_workqueue no_write_workqueue", None),
    ("limit", "fifo", "same_cpu_crypt", None),
)


def meminfo(field):
    """MiB."""
    for line in read("/proc/meminfo").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) >> 10
    raise Failed("no %s in /proc/meminfo" % field)


def line_for(device, options):
    """A table line with a key that nobody keeps."""
    words = options.split()
    return "0 %d crypt aes-xts-plain64 %s 0 %s 0 %s" % (
        sectors(device), os.urandom(64).hex(), device,
        " ".join([str(len(words))] + words) if words else "")


def setup(device, order, options, swap):
    """The crypt device and what is on it.  Returns the table line."""
    write(ORDER, order)
    line = line_for(device, options)
    create(CRYPT, line)
    create(DATA, "0 %d linear /dev/mapper/%s 0" % (DATA_SECTORS, CRYPT))
    if swap:
        create(SWAP, "0 %d linear /dev/mapper/%s %d" %
               (sectors(device) - DATA_SECTORS, CRYPT, DATA_SECTORS))
        run("mkswap", "/dev/mapper/" + SWAP)
        run("swapon", "/dev/mapper/" + SWAP)
    inline = "no_write_workqueue" in options
    if info(CRYPT)["write_order"] != ("inline" if inline else order):
        raise Failed("write_order is %s" % info(CRYPT)["write_order"])
    return line


def teardown(swap):
    """Undoes setup()."""
    if swap:
        run("swapoff", "/dev/mapper/" + SWAP)
        remove(SWAP)
    remove(DATA)
    idle = int(info(CRYPT)["pages"])
    remove(CRYPT)
    return idle


def load(args, line):
    """Runs memload; returns its status and its facts."""
    with subprocess.Popen([MEMLOAD, *args], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          ) as process:
        process.stdin.write(line.encode())
        process.stdin.close()
        facts = {}
        for text in process.stdout:
            text = text.decode("utf-8", "replace").rstrip()
            if text == "end":
                break
            print("# " + text.removeprefix("# "), flush=True)
            words = text.split()
            if len(words) == 2 and words[1].lstrip("-").isdigit():
                facts[words[0]] = int(words[1])
        return process.wait(), facts


def stuck():
    """Nothing more can be shown in this guest, and it may not even go down."""
    print("1..%d" % tap.count, flush=True)
    time.sleep(3)
    write("/proc/sysrq-trigger", "b")
    time.sleep(60)


def swap_phase(name, order, options, reloads):
    """Writers, hog and reloads over one device."""
    line = setup(DISK, order, options, True)
    swapped = vmstat("pswpout")
    back = vmstat("pswpin")
    run("sh", "-c", "echo 3 > /proc/sys/vm/drop_caches")
    hog = meminfo("MemAvailable") + 12
    note("%s: %d MiB available, hog of %d MiB" %
         (name, meminfo("MemAvailable"), hog))
    status, facts = load(
        ["-d", "/dev/mapper/" + DATA, "-w", "4", "-w", "4:buffered", "-W", "6",
         "-m", str(hog), "-M", "12", "-s", CRYPT,
         "-r", CRYPT + (":suspend" if reloads else ""), "-R", "10"], line)
    swapped = (vmstat("pswpout") - swapped) >> 8
    back = (vmstat("pswpin") - back) >> 8
    if not tap.ok(status == 0, name + ": nobody stalls, all data is right",
                  "memload: status %d" % status):
        stuck()
    teardown(True)
    note("%s: %d MiB swapped out, %d in, %d reloads, at most %d pages" %
         (name, swapped, back, facts.get("reload0", 0), facts.get("pages", -1)))
    tap.ok(swapped >= 16 and back >= 2, name + ": and it did swap",
           "%d MiB out, %d in" % (swapped, back))
    tap.ok(facts.get("reload0", 0) >= 10, name + ": the table was reloaded " +
           ("(suspend, load, resume)" if reloads else "(load, resume)") +
           " while it was swapped on")
    tap.ok(RESERVE <= facts.get("pages", -1) <= SHARE + RESERVE,
           name + ": pages in flight below the limit", str(facts.get("pages")))


def limit_phase(name, order, options, _):
    """A slow disk: many large writes, more than the limit, wait for pages."""
    create(SLOW, "0 %d delay %s 0 0 %s 0 400" % (sectors(DISK), DISK, DISK))
    setup("/dev/mapper/" + SLOW, order, options, False)
    before = int(info(CRYPT)["pages"])
    status, facts = load(
        ["-d", "/dev/mapper/" + DATA, "-w", "28", "-b", "2", "-W", "6",
         "-s", CRYPT], "")
    if not tap.ok(status == 0, name + ": nobody stalls, all data is right",
                  "memload: status %d" % status):
        stuck()
    idle = teardown(False)
    remove(SLOW)
    most = facts.get("pages", -1)
    note("%s: %d pages at rest, at most %d, %d afterwards" %
         (name, before, most, idle))
    tap.ok(most >= SHARE * 3 // 4, name + ": the limit was tried", str(most))
    tap.ok(most <= SHARE + RESERVE, name + ": and held: %d pages" % (SHARE + RESERVE),
           str(most))
    tap.same((RESERVE, RESERVE), (before, idle),
             name + ": only the reserve is held before and after")


def vmstat(field):
    """Pages."""
    for line in read("/proc/vmstat").splitlines():
        if line.startswith(field + " "):
            return int(line.split()[1])
    raise Failed("no %s in /proc/vmstat" % field)


def main():
    """The phases that were asked for, or all."""
    use_ours()
    run("modprobe", "-a", "dm-delay")
    write("/proc/sys/kernel/hung_task_timeout_secs", "60")
    # Allocations that may fail do so earlier, and the reserves get used.
    write("/proc/sys/vm/min_free_kbytes", "12288")
    # The kernel's own compaction ahead of need held a CPU of a slow guest for
    # a minute once: a soft lockup that says nothing about us.
    write("/proc/sys/vm/compaction_proactiveness", "0")
    note("%d MiB of memory, %d available; hung tasks after %s s; soft lockup "
         "after %d s" % (meminfo("MemTotal"), meminfo("MemAvailable"),
                         read("/proc/sys/kernel/hung_task_timeout_secs"),
                         2 * int(read("/proc/sys/kernel/watchdog_thresh"))))
    wanted = sys.argv[2:]
    for kind, order, options, reloads in PHASES:
        name = " ".join(filter(None, [kind, order, options]))
        if wanted and not any(word in name.replace(" ", ".") for word in wanted):
            continue
        start = time.monotonic()
        try:
            (swap_phase if kind == "swap" else limit_phase)(
                name, order, options, reloads)
        except Failed as error:
            tap.ok(False, name + ": ran to its end", error)
            tap.finish()
        note("%s took %.0f s" % (name, time.monotonic() - start))
    tap.same([], guest_errors(), "no I/O error in the kernel's log")
    tap.finish()


main()
