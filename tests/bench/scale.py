# SPDX-License-Identifier: GPL-2.0
"""The bench `scale`: small random I/O of some jobs, with two CPUs.

Two parts.  By the clock on the wall, tests/guest/bench_scale.py: ratios of runs
in turn, of 7 rounds the median; the spread is how far in-tree with its best flags is
from itself.  Ours may not be slower than that by more than the spread.

By counting, tests/guest/bench_lines.py and tests/bench/lines.c: two CPUs with I/O of
their own, and which lines of the kernel's memory both touch and one of them writes.
Such a line moves from one to the other: at most twice for each store to it, and
twice for each access of the CPU that touches it less often.  Of the lines that the
target's own code touches on both CPUs, the sum of that for each I/O may not be more
than 0.1; by whose instruction it is, the report tells.  Other lines are the disk's,
dm core's and the scheduler's.

A line to which no instruction stored oftener than ticks of the kernel's clock went
by is counted apart: what happens once a tick or less is no part of an I/O, but time
goes by much faster here than I/O, some two I/Os a tick, so it would seem to be.
"""

import bisect
import csv
import os
import statistics
import subprocess

from guest import TOP, by_round, listed, measure, ratio, spread, told

MOST = 0.1
LEAST = 0.03
# Modules that are the target's own code.
OWN = ("dm_crypt", "dm_xcrypt")


def build_plugin(out):
    """The path of the compiled plugin, or None."""
    path = os.path.join(out, "lines.so")
    done = subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", path,
                           os.path.join(TOP, "tests", "bench", "lines.c")], check=False)
    return None if done.returncode else path


def symbols(path):
    """[(address, name, module)] of /proc/kallsyms, by address."""
    found = []
    with open(path, encoding="ascii") as file:
        for line in file:
            address, _, name, *module = line.split()
            found.append((int(address, 16), name, module[0].strip("[]") if module else "kernel"))
    return sorted(found)


def phases(path):
    """Of each phase [(line, pc, loads and stores of CPU 0, and of CPU 1)]."""
    found = []
    with open(path, encoding="ascii") as file:
        for text in file:
            if text == "phase\n":
                found.append([])
            else:
                line, pc, *counts = text.split()
                found[-1].append((int(line, 16), int(pc, 16), *map(int, counts)))
    return found


def shared(phase, own):
    """{line: (stores of the instruction that did most, how often it may have to
    move)} of lines that instructions touch on both CPUs for which own(pc) is true."""
    touched, stored, owned = {}, {}, {}
    for line, pc, load0, store0, load1, store1 in phase:
        here = touched.setdefault(line, [0, 0])
        here[0] += load0 + store0
        here[1] += load1 + store1
        stored.setdefault(line, []).append(store0 + store1)
        if own(pc):
            who = owned.setdefault(line, [0, 0])
            who[0] += load0 + store0
            who[1] += load1 + store1
    return {line: (max(stored[line]), 2 * min(sum(stored[line]), *touched[line]))
            for line, who in owned.items() if min(who)}


def moves(phase, lines):
    """{pc: its part of the moves of these lines}"""
    touched, found = {}, {}
    for line, _, *counts in phase:
        touched[line] = touched.get(line, 0) + sum(counts)
    for line, pc, *counts in phase:
        if line in lines:
            found[pc] = found.get(pc, 0) + lines[line][1] * sum(counts) / touched[line]
    return found


def count(out, path):
    """Puts into path, instead of the numbers of I/Os, what the plugin saw: lines of
    contender, read or write, io or tick, function, moves for each I/O."""
    table = symbols(os.path.join(out, "SYMBOLS"))
    starts = [address for address, _, _ in table]

    def symbol(pc):
        return table[bisect.bisect_right(starts, pc) - 1][1:]

    def own(pc):
        return symbol(pc)[1] in OWN

    with open(path, encoding="ascii", newline="") as file:
        rows = list(csv.reader(file))
    with open(path, "w", encoding="ascii", newline="") as file:
        put = csv.writer(file).writerow
        for (who, rw, ios, ticks), phase in zip(rows, phases(os.path.join(out, "lines.raw")),
                                                strict=True):
            lines = shared(phase, own)
            for kind in ("io", "tick"):
                some = {line: what for line, what in lines.items()
                        if (what[0] <= int(ticks)) == (kind == "tick")}
                sums = {"": 0}
                for pc, number in moves(phase, some).items():
                    name = symbol(pc)[0]
                    sums[name] = sums.get(name, 0) + number / int(ios)
                for name, number in sorted(sums.items(), key=lambda pair: -pair[1]):
                    put([who, rw, kind, name, "%.4f" % number])


def counted(path):
    """{(contender, read or write, io or tick): [(function, moves for each I/O)]}"""
    found = {}
    if os.path.exists(path):
        with open(path, encoding="ascii", newline="") as file:
            for *cell, name, number in csv.reader(file):
                found.setdefault(tuple(cell), []).append((name, float(number)))
    return found


def total(functions):
    """Of one contender."""
    return sum(number for _, number in functions)


def judge(rates, lines):
    """What is not as it must be, as texts."""
    bad = []
    for (rw, depth, jobs), sides in rates.items():
        least = 1 - max(LEAST, spread(sides, "flags"))
        if ratio(sides, "ours", "flags") < least:
            bad.append("%s at depth %s, %s jobs: %.3f times as fast as in-tree's best, at least %.3f"
                       % (rw, depth, jobs, ratio(sides, "ours", "flags"), least))
    for rw in sorted({rw for _, rw, _ in lines}):
        if total(lines["ours", rw, "io"]) > MOST:
            bad.append("%s: lines move %.3f times an I/O, at most %.3f" %
                       (rw, total(lines["ours", rw, "io"]), MOST))
    return bad


def lines_of(path):
    """The path of the counts that belong to the rates."""
    return path.replace("scale-", "lines-")


def run(kernel, out):
    """Measures on one kernel.  True if all is as it must be."""
    plugin = build_plugin(out)
    raw = os.path.join(out, "lines.raw")
    lines = plugin and measure("lines", kernel, out,
                               ["--smp", "2", "--plugin", "%s,out=%s" % (plugin, raw)], [])
    if not lines:
        return False
    count(out, lines)
    path = measure("scale", kernel, out, ["--smp", "2"], [os.environ.get("ROUNDS", "7")])
    return bool(path) and told(kernel, judge(by_round(path), counted(lines)))


def section(kernel, path):
    """What the report says of one kernel."""
    rates, counts = by_round(path), counted(lines_of(path))
    lines = ["### Kernel %s" % kernel, "",
             "| I/O | in-tree's best, I/Os per second | spread | no flags | ours |",
             "|---|---|---|---|---|"]
    for (rw, depth, jobs), sides in rates.items():
        lines.append("| %s at depth %s, %s jobs | %.0f | %.3f | %.3f | %.3f |" % (
            rw, depth, jobs, statistics.median(sides["flags"]), spread(sides, "flags"),
            ratio(sides, "in-tree", "flags"), ratio(sides, "ours", "flags")))
    lines += ["", "| target | lines that may move, for each I/O | most of them |", "|---|---|---|"]
    for (who, rw, kind), functions in counts.items():
        lines.append("| %s, %s%s | %.2f | %s |" % (
            who, rw, ", stored to once a tick at the most" if kind == "tick" else "",
            total(functions),
            ", ".join("%s %.2f" % pair for pair in functions[:5] if pair[1])))
    return lines + [""] + listed("Not as it must be:", judge(rates, counts))
