# SPDX-License-Identifier: GPL-2.0
"""The bench `cost`: what an I/O costs through each target, in virtual time.

Microseconds of virtual time for an I/O, fio psync, direct, depth 1, aes-xts-plain64
over `zero`; the guest part, tests/guest/bench_cost.py, measures.  Here:

  floor   what cannot be avoided: `linear` over the same device, and the cipher
          alone, called as often and with as many bytes
  own     what a target takes above the floor
  best    of in-tree's settings the one with the least time in this cell
"""

import csv
import math
import os
import subprocess

from guest import TOP, listed, measure, told

SIZES = {4096: "4k", 16384: "16k", 131072: "128k", 1 << 20: "1M"}
SECTORS = (512, 4096)
DIRECTIONS = ("read", "write")
CELLS = [(sector, rw, size) for sector in SECTORS for rw in DIRECTIONS for size in SIZES]


class Figures:
    """What one run measured: microseconds of an I/O."""

    def __init__(self, path):
        self.us = {}
        with open(path, encoding="ascii", newline="") as file:
            for rw, size, sector, who, settings, us in csv.reader(file):
                self.us[rw, int(size), int(sector), who, settings] = float(us)

    def floor(self, sector, rw, size):
        """Linear and the cipher."""
        return self.us[rw, size, 0, "linear", ""] + \
            size // sector * self.us[rw, sector, sector, "cipher", ""]

    def plain(self, sector, rw, size):
        """In-tree without flags."""
        return self.us[rw, size, sector, "in-tree", ""]

    def best(self, sector, rw, size):
        """(microseconds, settings) of in-tree at its best."""
        return min((us, key[4]) for key, us in self.us.items()
                   if key[:4] == (rw, size, sector, "in-tree"))

    def ours(self, sector, rw, size):
        """Ours without flags."""
        return self.us[rw, size, sector, "ours", ""]

    def share(self, *cell):
        """Our own cost as a share of in-tree's at its best."""
        floor = self.floor(*cell)
        return (self.ours(*cell) - floor) / (self.best(*cell)[0] - floor)

    def gain(self, *cell):
        """How many times as fast as in-tree at its best."""
        return self.best(*cell)[0] / self.ours(*cell)

    def gain_plain(self, *cell):
        """The same against in-tree without flags."""
        return self.plain(*cell) / self.ours(*cell)

    def difference(self, other):
        """The largest relative difference of two runs."""
        return max(abs(us / other.us[key] - 1) for key, us in self.us.items())


def mean(values):
    """The geometric one."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


class Limits:
    """What a cell must keep on a kernel."""

    def __init__(self, kernel, sector, rw, size):
        small, newest = size == 4096, kernel == "7.3"
        self.share = (0.60, 1.0)[small]
        if sector == 512:
            self.share = {"read": (0.20, 0.35), "write": (0.40, 0.60)}[rw][small]
        self.gain_plain = {(False, False): 1.25, (False, True): 1.40,
                           (True, False): 1.5, (True, True): 1.8}[small, newest]


def judge(kernel, figures):
    """(what is not as it must be, what cannot be), as texts.  No target can be
    faster than the floor: where that is less than the wanted number of times
    faster than in-tree, there is nothing to be had."""
    bad, cannot = [], []
    for cell in CELLS:
        must, name = Limits(kernel, *cell), "%s %s, sectors of %d: " % (
            SIZES[cell[2]], cell[1], cell[0])
        if figures.share(*cell) > must.share:
            bad.append(name + "own cost %.2f of in-tree's best, at most %.2f" %
                       (figures.share(*cell), must.share))
        if figures.gain(*cell) < 1:
            bad.append(name + "%.3f times as fast as in-tree's best" % figures.gain(*cell))
        gain, floor = figures.gain_plain(*cell), figures.plain(*cell) / figures.floor(*cell)
        text = name + "%.3f times as fast as in-tree without flags, wanted %.2f" % (
            gain, must.gain_plain)
        if gain < 1.01 or (gain < must.gain_plain and floor >= must.gain_plain):
            bad.append(text)
        elif gain < must.gain_plain:
            cannot.append(text + "; the floor would be %.3f" % floor)
    for sector, least in ((512, 1.2 if kernel == "7.3" else 1.15), (4096, 1.03)):
        value = mean(figures.gain(*cell) for cell in CELLS if cell[0] == sector)
        if value < least:
            bad.append("sectors of %d: geometric mean %.3f times as fast as in-tree's best, "
                       "at least %.2f" % (sector, value, least))
    return bad, cannot


def table(figures):
    """Lines of Markdown."""
    lines = ["| sector | I/O | floor | in-tree | in-tree's best | with | ours | "
             "own, in-tree's best | own, ours | share | to best | to no flags |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for cell in CELLS:
        sector, rw, size = cell
        floor, (best, settings), ours = (figures.floor(*cell), figures.best(*cell),
                                         figures.ours(*cell))
        lines.append("| %d | %s %s | %.1f | %.1f | %.1f | %s | %.1f | %.1f | %.1f | %.2f | "
                     "%.3f | %.3f |" % (
                         sector, SIZES[size], rw, floor, figures.plain(*cell), best,
                         settings or "no flags", ours, best - floor, ours - floor,
                         figures.share(*cell), figures.gain(*cell),
                         figures.gain_plain(*cell)))
    for sector in SECTORS:
        cells = [cell for cell in CELLS if cell[0] == sector]
        lines.append("| %d | geometric mean |  |  |  |  |  |  |  |  | %.3f | %.3f |" % (
            sector, mean(figures.gain(*c) for c in cells),
            mean(figures.gain_plain(*c) for c in cells)))
    return lines


def chart(kernel, figures, out):
    """An SVG: own cost of each cell, in-tree's best and ours."""
    data = os.path.join(out, "cost-%s.dat" % kernel)
    with open(data, "w", encoding="ascii") as file:
        for cell in CELLS:
            floor = figures.floor(*cell)
            file.write('"%s %s\\n%d" %.3f %.3f %.3f\n' % (
                SIZES[cell[2]], cell[1], cell[0], (figures.plain(*cell) - floor) / floor * 100,
                (figures.best(*cell)[0] - floor) / floor * 100,
                (figures.ours(*cell) - floor) / floor * 100))
    script = """
set terminal svg size 1100,480 font "sans,11"
set output "%s"
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set grid ytics
set xtics rotate by -60 font ",9"
set ylabel "time above linear and cipher, %% of these"
set title "own cost of an I/O, kernel %s, virtual time"
plot "%s" using 2:xtic(1) title "in-tree, no flags", "" using 3 title "in-tree, best flags", \\
     "" using 4 title "dm-xcrypt, no flags"
""" % (os.path.join(out, "cost-%s.svg" % kernel), kernel, data)
    subprocess.run(["gnuplot"], input=script.encode(), check=True)


def run(kernel, out):
    """Measures on one kernel.  True if all is as it must be."""
    subprocess.run([os.path.join(TOP, "scripts", "deps"), "gnuplot-nox"], check=True)
    path = measure("cost", kernel, out, ["--virtual-time"], [os.environ.get("IOS", "1")])
    if not path:
        return False
    figures = Figures(path)
    chart(kernel, figures, out)
    return told(kernel, *judge(kernel, figures))


def section(kernel, path):
    """What the report says of one kernel."""
    figures = Figures(path)
    lines = ["### Kernel %s" % kernel, ""] + table(figures) + [
        "", "![own cost](cost-%s.svg)" % kernel, ""]
    if os.path.exists(path + ".before"):
        lines += ["The largest difference of any figure to the run before: %.2f %%." %
                  (figures.difference(Figures(path + ".before")) * 100), ""]
    bad, cannot = judge(kernel, figures)
    return lines + listed("Not as it must be:", bad) + \
        listed("Wanted, but the floor is in the way:", cannot)
