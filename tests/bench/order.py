# SPDX-License-Identifier: GPL-2.0
"""The bench `order`: what write_order=auto chooses for kinds of devices.

The guest part, tests/guest/bench_order.py, says what it measures, by the clock on
the wall with two CPUs: only ratios of runs in turn count, of 7 rounds the median.
The spread is how far in-tree is from itself in the same rounds, without the best
and the worst of them.  It is as it must be if no write is slower than with in-tree
without flags by more than that, and at least 3 %.
"""

import os
import statistics

from guest import build_hdd, by_round, listed, measure, ratio, spread, told

LEAST = 0.03


def judge(found):
    """What is not as it must be, as texts."""
    bad = []
    for (kind, order, _, rw, size), sides in found.items():
        least = 1 - max(LEAST, spread(sides, "in-tree"))
        if ratio(sides, "ours", "in-tree") < least:
            bad.append("%s (%s), %dk %s: %.3f times as fast as in-tree, at least %.3f" %
                       (kind, order, int(size) >> 10, rw, ratio(sides, "ours", "in-tree"), least))
    return bad


def run(kernel, out):
    """Measures on one kernel.  True if all is as it must be."""
    build_hdd(out)
    path = measure("order", kernel, out,
                   ["--smp", "2", "--disk", "64M", "--disk", "64M:nvme"],
                   [os.environ.get("ROUNDS", "7"), *os.environ.get("KINDS", "").split()])
    return bool(path) and told(kernel, judge(by_round(path)))


def section(kernel, path):
    """What the report says of one kernel."""
    found = by_round(path)
    lines = ["### Kernel %s" % kernel, "",
             "| device | rotational | auto | writes | in-tree, a second | spread | ours |",
             "|---|---|---|---|---|---|---|"]
    for (kind, order, rotational, rw, size), sides in found.items():
        lines.append("| %s | %s | %s | %dk, %s | %.0f | %.3f | %.3f |" % (
            kind, rotational, order, int(size) >> 10, rw, statistics.median(sides["in-tree"]),
            spread(sides, "in-tree"), ratio(sides, "ours", "in-tree")))
    return lines + [""] + listed("Not as it must be:", judge(found))
