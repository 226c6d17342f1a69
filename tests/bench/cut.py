# SPDX-License-Identifier: GPL-2.0
"""The bench `cut`: large I/O one by one, with two CPUs.

The guest part, tests/guest/bench_cut.py, says what it measures, by the clock on
the wall: only ratios of runs in turn count, of 7 rounds the median.  The spread is
how far in-tree is from itself in the same rounds, without the best and the worst.
The guest has no vector code for serpent: on an emulated CPU the same AVX code is
a third faster on one of the two, by which the two together are 1.4 times the one
that in-tree's worker runs on, whoever uses them.  BENCH_VECTOR=1 measures it so.
It is as it must be if 1 MiB is at least 1.5 times as fast as with in-tree on 6.1,
and on newer kernels, which cut I/O themselves, at least as fast, less the spread.
"""

import os
import statistics

from guest import by_round, listed, measure, ratio, spread, told

LEAST = {"6.1": 1.5}
VECTOR = "serpent_sse2_x86_64,serpent_avx_x86_64,serpent_avx2"


def judge(kernel, found):
    """What is not as it must be, as texts."""
    bad = []
    for (cipher, rw, size), sides in found.items():
        least = LEAST.get(kernel, 1 - spread(sides, "in-tree"))
        if int(size) == 1 << 20 and ratio(sides, "ours", "in-tree") < least:
            bad.append("%s, 1 MiB %s: %.3f times as fast as in-tree, at least %.3f" %
                       (cipher, rw, ratio(sides, "ours", "in-tree"), least))
    return bad


def run(kernel, out):
    """Measures on one kernel.  True if all is as it must be."""
    options = ["--smp", "2"]
    if not os.environ.get("BENCH_VECTOR"):
        options += ["--append", "module_blacklist=" + VECTOR]
    path = measure("cut", kernel, out, options, [os.environ.get("ROUNDS", "7")])
    return bool(path) and told(kernel, judge(kernel, by_round(path)))


def section(kernel, path):
    """What the report says of one kernel."""
    found = by_round(path)
    lines = ["### Kernel %s" % kernel, "",
             "| I/O | in-tree, I/Os per second | spread | ours to in-tree |", "|---|---|---|---|"]
    for (cipher, rw, size), sides in found.items():
        lines.append("| %s, %dk %s | %.1f | %.3f | %.3f |" % (
            cipher, int(size) >> 10, rw, statistics.median(sides["in-tree"]), spread(sides, "in-tree"),
            ratio(sides, "ours", "in-tree")))
    return lines + [""] + listed("Not as it must be:", judge(kernel, found))
