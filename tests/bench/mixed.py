# SPDX-License-Identifier: GPL-2.0
"""The bench `mixed`: reads beside a writer that the device is too slow for.

The guest part, tests/guest/bench_mixed.py, says what it measures.  In virtual
time, so nothing depends on the machine.  It is as it must be if, beside in-tree
with its best settings (of each figure the better one):

  - p99 of the reads is at most half.  But where the disk's own throttling (wbt)
    holds the writer back, it sees to that for both: there at most a fifth more,
  - the writer gets at least 0.95 of its throughput,
  - a fast device keeps at least 0.97 of its throughput beside a slow one.

RUNTIME in the environment is the time of each measurement, seconds of virtual
time; CASES="direct" measures only that.
"""

import csv
import os

from guest import build_hdd, listed, measure, told

READS, THROTTLED, WRITES, NEIGHBOUR = 0.5, 1.2, 0.95, 0.97
OURS = ("ours", "")


def figures(path):
    """{case: {(who, settings): {what: value}}}"""
    found = {}
    with open(path, encoding="ascii", newline="") as file:
        for case, who, settings, what, value in csv.reader(file):
            sides = found.setdefault(case, {})
            sides.setdefault((who, settings), {})[what] = float(value)
    return found


def intree(sides, what):
    """What in-tree has with each of its settings."""
    return [values[what] for (who, _), values in sides.items() if who == "in-tree"]


def judge(found):
    """What is not as it must be, as texts."""
    bad = []
    for case, sides in found.items():
        ours = sides[OURS]
        if case == "neighbours":
            if ours["beside"] < NEIGHBOUR * ours["alone"]:
                bad.append("fast beside slow: %.1f of %.1f MiB/s" %
                           (ours["beside"], ours["alone"]))
            continue
        least = min(intree(sides, "p99"))
        if ours["p99"] > (THROTTLED if case == "buffered" else READS) * least:
            bad.append("%s: p99 of reads %.0f us, in-tree's best %.0f" %
                       (case, ours["p99"], least))
        if ours["written"] < WRITES * max(intree(sides, "written")):
            bad.append("%s: %.1f MiB/s written, in-tree's best %.1f" %
                       (case, ours["written"], max(intree(sides, "written"))))
    return bad


def run(kernel, out):
    """Measures on one kernel.  True if all is as it must be."""
    build_hdd(out)
    path = measure("mixed", kernel, out, ["--virtual-time"],
                   [os.environ.get("RUNTIME", "6"), *os.environ.get("CASES", "").split()])
    return bool(path) and told(kernel, judge(figures(path)))


def section(kernel, path):
    """What the report says of one kernel."""
    found = figures(path)
    lines = ["### Kernel %s" % kernel, "",
             "| writer | target | p50, us | p99, us | written, MiB/s | peak, pages |",
             "|---|---|---|---|---|---|"]
    for case, sides in found.items():
        for (who, settings), values in sides.items() if case != "neighbours" else ():
            lines.append("| %s | %s %s | %.0f | %.0f | %.1f | %s |" % (
                case, who, settings, values["p50"], values["p99"], values["written"],
                "%.0f" % values["peak"] if "peak" in values else ""))
    if "neighbours" in found:
        lines += ["", "| target | fast device alone, MiB/s | beside a slow one |", "|---|---|---|"]
    for (who, settings), values in found.get("neighbours", {}).items():
        lines.append("| %s %s | %.1f | %.1f |" % (who, settings, values["alone"],
                                                  values["beside"]))
    return lines + [""] + listed("Not as it must be:", judge(found))
