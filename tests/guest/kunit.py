#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Loads the KUnit suites, which run as they are loaded, and says of each case
what it said.

KUnit's own TAP is in the kernel's log: a suite's cases are indented by four
blanks, the parameters of a case by eight.
"""

import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Tap, run

# Suite: what must run in it, parameters counted.
SUITES = {"xcrypt_iv": 21, "xcrypt_sort": 8}
RESULT = re.compile(r"^( *)(not )?ok (\d+) (?:- )?(.*)$")

tap = Tap()


def log_of(module):
    """What the kernel logs while the module is loaded."""
    run("dmesg", "--clear")
    run("modprobe", module)
    return [re.sub(r"^\[ *[\d.]+\] ", "", line)
            for line in run("dmesg").splitlines()]


def main():
    """One case for each of KUnit's."""
    counts = dict.fromkeys(SUITES, 0)
    planned, cases, parameters, why, suite = 0, 0, [], [], None
    for line in log_of("xcrypt_kunit"):
        begin = re.match(r"^ *# Subtest: (\S+)$", line)
        plan = re.match(r"^    1\.\.(\d+)$", line)
        result = RESULT.match(line)
        if begin and begin[1] in SUITES:
            suite, cases = begin[1], 0
        elif plan and suite:
            planned = int(plan[1])
        elif not result or not suite:
            why.append(line)
        elif len(result[1]) > 4:
            parameters.append((not result[2], result[4]))
        elif len(result[1]) == 4:
            cases += 1
            leaves = [(good, "%s, %s" % (result[4], text)) for good, text in parameters]
            for good, text in leaves or [(not result[2], result[4])]:
                tap.ok(good and not ("SKIP" in text), "%s: %s" % (suite, text), "\n".join(why))
                counts[suite] += 1
            if result[2] and all(good for good, _ in leaves):
                tap.ok(False, "%s: %s" % (suite, result[4]), "\n".join(why))
            parameters, why = [], []
        else:
            tap.ok(not result[2] and cases == planned,
                   "%s: as a whole, %d cases" % (suite, cases),
                   "%s; planned %d" % (line, planned))
            suite = None
    for name, wanted in SUITES.items():
        tap.same(wanted, counts[name], "%s: so many cases ran" % name)
    run("rmmod", "xcrypt_kunit")
    tap.finish()


if __name__ == "__main__":
    main()
