# SPDX-License-Identifier: GPL-2.0
"""The bench `auto`: who should convert, the caller or a worker.

The guest part, tests/guest/bench_auto.py, says what it measures, by the clock on
the wall with two CPUs: only ratios of runs in turn count, of 7 rounds the median.
The spread is how far auto is from auto in the same rounds, without the best and
the worst of them.  It is as it must be if auto is, in each cell, within 3 % or
the spread of the better one, and if each of the two is the better one somewhere
by more than the spread.
"""

import os
import statistics

from guest import by_round, listed, measure, ratio, spread, told

LEAST = 0.03


def name(cell):
    """For people."""
    cipher, load, rw, size, depth = cell
    return "%s, %s, %dk %s at depth %d" % (cipher, load, int(size) >> 10, rw, int(depth))


def judge(found):
    """What is not as it must be, as texts."""
    bad, wins = [], {"never": 0, "always": 0}
    for cell, sides in found.items():
        ratios = {who: ratio(sides, who, "auto") for who in wins}
        best = max(ratios, key=ratios.get)
        allowed = max(LEAST, spread(sides, "auto"))
        if ratios[best] > 1 + allowed:
            bad.append("%s: %s is %.3f times as fast, at most %.3f" %
                       (name(cell), best, ratios[best], 1 + allowed))
        wins[best] += ratio(sides, best, {"never": "always", "always": "never"}[best]) > 1 + allowed
    return bad + ["%s is nowhere the better one" % who for who, n in wins.items() if not n]


def without_aesni(kernel, out, rounds):
    """The lines of the figures of aes on a CPU that has no instructions for it, or
    None."""
    out = os.path.join(out, "qemu64")
    os.makedirs(out, exist_ok=True)
    path = measure("auto", kernel, out, ["--smp", "2", "--cpu", "qemu64"], [rounds, "aes"])
    if not path:
        return None
    with open(path, encoding="ascii") as file:
        return [line.replace("aes", "aes without AES-NI", 1) for line in file]


def run(kernel, out):
    """Measures on one kernel.  True if all is as it must be."""
    rounds = os.environ.get("ROUNDS", "7")
    path = measure("auto", kernel, out, ["--smp", "2"], [rounds])
    more = path and without_aesni(kernel, out, rounds)
    if not more:
        return False
    with open(path, "a", encoding="ascii") as file:
        file.writelines(more)
    return told(kernel, judge(by_round(path)))


def section(kernel, path):
    """What the report says of one kernel."""
    found = by_round(path)
    lines = ["### Kernel %s" % kernel, "",
             "| cell | auto, I/Os per second | spread | never | always |", "|---|---|---|---|---|"]
    for cell, sides in found.items():
        lines.append("| %s | %.0f | %.3f | %.3f | %.3f |" % (
            name(cell), statistics.median(sides["auto"]), spread(sides, "auto"),
            ratio(sides, "never", "auto"), ratio(sides, "always", "auto")))
    return lines + [""] + listed("Not as it must be:", judge(found))
