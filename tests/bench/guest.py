# SPDX-License-Identifier: GPL-2.0
"""What the benches share: the guest that measures, and the report's parts."""

import csv
import glob
import os
import re
import statistics
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def measure(name, kernel, out, options, args):
    """Runs tests/guest/bench_NAME.py in a guest with both modules.  The path of
    its figures in out, with those of the run before beside them as *.before;
    None if it failed."""
    path = os.path.join(out, "%s-%s.csv" % (name, kernel))
    new = name + ".new"
    status = subprocess.run(
        [os.path.join(TOP, "scripts", "vm"), "--kernel", kernel, "--mem", "1G",
         "--timeout", "7200", "--load", "target_name=xcrypt", *options, "--share", out, "--",
         "tests/guest/bench_%s.py" % name, "/share/" + new, *args],
        cwd=TOP, stdin=subprocess.DEVNULL, check=False).returncode
    if status:
        return None
    if os.path.exists(path):
        os.replace(path, path + ".before")
    os.replace(os.path.join(out, new), path)
    return path


def build_hdd(out):
    """Makes hdd.so in out, the plugin of nbdkit that tests/hdd has."""
    subprocess.run([os.path.join(TOP, "scripts", "deps"), "nbdkit-plugin-dev"], check=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-o", os.path.join(out, "hdd.so"),
                    os.path.join(TOP, "tests", "hdd", "hdd.c"), "-lm"], check=True)


def measured(name, out):
    """(kernel, path of its figures) of each kernel that was measured."""
    for path in sorted(glob.glob(os.path.join(out, name + "-*.csv"))):
        yield re.fullmatch(name + r"-(.*)\.csv", os.path.basename(path))[1], path


def by_round(path):
    """{cell: {contender: [value of each round]}} of figures whose lines end in
    round, contender, value; the cell is what is before, a tuple of texts."""
    found = {}
    with open(path, encoding="ascii", newline="") as file:
        for *cell, _, who, value in csv.reader(file):
            found.setdefault(tuple(cell), {}).setdefault(who, []).append(float(value))
    return found


def ratio(sides, who, to):
    """How many times as fast: the median of the ratios of each round.
    sides: {contender: [value of each round]}"""
    return statistics.median(a / b for a, b in zip(sides[who], sides[to]))


def spread(sides, who):
    """How far who is from itself, which ran once more as `again`, without the
    best and the worst round."""
    off = sorted(abs(a / b - 1) for a, b in zip(sides["again"], sides[who]))
    return off[-2] if len(off) > 2 else off[-1]


def told(kernel, bad, cannot=()):
    """Prints what is not as it must be.  True if there is nothing."""
    for text in [*bad] + ["cannot be: " + text for text in cannot]:
        print("bench: %s: %s" % (kernel, text))
    return not bad


def report(bench, out):
    """What the report says of a bench, on all kernels that it was run on."""
    lines = ["## " + bench.__name__, "", bench.__doc__.split("\n\n", 1)[1]]
    for kernel, path in measured(bench.__name__, out):
        lines += bench.section(kernel, path)
    return "\n".join(lines) + "\n"


def listed(heading, texts):
    """Lines of Markdown, none if there is no text."""
    return [heading, ""] + ["- " + text for text in texts] + [""] if texts else []
