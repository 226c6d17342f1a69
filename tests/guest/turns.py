# SPDX-License-Identifier: GPL-2.0
"""Contenders that do the same I/O in turn, in one fio: what benches by the clock
on the wall share.

Time under TCG depends on what else the machine does, so only ratios of runs
side by side count: each round has all contenders, each time another one first,
and one of them twice, whose ratio to itself says how far anything can be told.
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
from guestlib import Failed
from iolib import patience

WORKERS = "/sys/module/dm_xcrypt/parameters/workers"
AGAIN = "again"
# Seconds that a run should take, and the I/Os it has at the least.
SECONDS, LEAST = 0.3, 4


def fio(jobs):
    """Runs {name: settings} one after the other.  {name: I/Os per second}"""
    text = "[global]\nthread=1\ndirect=1\nioengine=libaio\ncpus_allowed=0\n" \
        "randrepeat=1\nstonewall\n"
    for name, settings in jobs.items():
        text += "[%s]\n" % name + "".join("%s=%s\n" % pair for pair in settings.items())
    patience(3000)
    done = subprocess.run(["fio", "--output-format=json", "-"], input=text.encode(),
                          cwd="/tmp", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)
    out = done.stdout.decode()
    if done.returncode:
        raise Failed("fio: status %d: %s" % (done.returncode, done.stderr.decode()[:800]))
    found = {job["jobname"]: job for job in json.loads(out[out.index("{"):])["jobs"]}
    rates = {}
    for name, settings in jobs.items():
        side = found[name]["read" if "read" in settings["rw"] else "write"]
        if not side["total_ios"] or not side["runtime"]:
            raise Failed("fio: no I/O in %s" % name)
        rates[name] = side["total_ios"] / side["runtime"] * 1000
    return rates


def with_contender(settings, contender):
    """The settings of a job of a contender: its device, and what the module's
    parameter is to be while it runs."""
    path, workers = contender
    return {**settings, "filename": path,
            # fio redirects what it runs
            "exec_prerun": "sh -c 'echo %s >%s'" % (workers, WORKERS)}


def in_turn(cells, contenders, rounds):
    """cells: {name: fio settings}, contenders: {name: (path, workers)}, the first
    of them being the one that runs twice.  Yields (cell, contender, round, I/Os
    per second), the second run of the first as AGAIN."""
    first = next(iter(contenders))
    everybody = {**contenders, AGAIN: contenders[first]}
    names = list(everybody)
    # as long as the first takes, for all alike
    pilot = fio({cell: with_contender({**settings, "runtime": "500ms", "time_based": 1},
                                      contenders[first])
                 for cell, settings in cells.items()})
    jobs, who = {}, {}
    for number in range(rounds):
        turn = names[number % len(names):] + names[:number % len(names)]
        for cell, settings in cells.items():
            ios = max(LEAST * settings.get("iodepth", 1), int(pilot[cell] * SECONDS))
            for name in turn:
                job = "%s.%s.%d" % (cell, name, number)
                who[job] = (cell, name, number)
                jobs[job] = with_contender({**settings, "number_ios": ios, "io_size": "100g"},
                                           everybody[name])
    for job, rate in fio(jobs).items():
        yield (*who[job], rate)
