#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""In a guest: what the kernel's dm-crypt and dm-xcrypt make of the same table
lines, the same data and the same bytes below must be the same.

  ciphertext.py [--only REGEX] [--self]

--only takes part of the lines (what is matched is the group and the line; the
count of lines is then not judged).  --self compares in-tree with itself: what
fails then is wrong in this file.

Each side has a device of its own below, so nothing of one side can be found
by the other unless it is copied there.
"""

import fnmatch
import hashlib
import os
import random
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
import cipherlines
from cryptside import (MARGIN, POOL, RAM_KIB, Keyring, Side, bytes_of,
                       error_name, plaintext)
from dmioctl import DeviceMapper
from guestlib import Tap, note, read

DATA = os.path.join(os.path.dirname(HERE), "data")
WANTED_ACCEPTED = 250
WANTED_BAD = 40
RAM_DISKS = ("/dev/ram0", "/dev/ram1")
DISKS = ("/dev/vda", "/dev/vdb")        # which can discard


# ---- deliberate differences ----

class Difference:
    """One line of tests/data/differences.txt."""

    def __init__(self, line):
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 7:
            raise ValueError("differences.txt: %d fields: %s" %
                             (len(fields), line))
        (self.what, self.pattern, self.tree, self.ours, self.fact,
         self.kernels, self.reason) = fields
        self.seen = 0

    def matches(self, what, text, tree, ours):
        """Whether the line is about this."""
        return (what == self.what and fnmatch.fnmatchcase(text, self.pattern)
                and fnmatch.fnmatchcase(tree, self.tree)
                and fnmatch.fnmatchcase(ours, self.ours))


class Differences:
    """The file, and what was found."""

    def __init__(self, path, kernel):
        self.entries = []
        with open(path, encoding="ascii") as file:
            for line in file:
                if line.strip() and not line.startswith("#"):
                    entry = Difference(line)
                    if entry.kernels in ("all", kernel) or \
                            kernel in entry.kernels.split():
                        self.entries.append(entry)

    def known(self, what, text, tree, ours):
        """Marks the entry that names this difference; False if none does."""
        for entry in self.entries:
            if entry.matches(what, text, tree, ours):
                entry.seen += 1
                return True
        return False


# ---- the comparison ----

class Comparison:
    """Both sides, and what came out."""

    def __init__(self, tree, ours, differences):
        self.tree = tree
        self.ours = ours
        self.differences = differences
        self.accepted = 0
        self.written = 0
        self.refused = {}               # errno -> lines
        self.skipped = {}               # reason -> lines
        self.deliberate = 0
        self.problems = []              # of the group that runs
        self.limits_seen = set()

    def differ(self, what, case, tree, ours):
        """A difference: known, or a problem."""
        if self.differences.known(what, case.text, tree, ours):
            self.deliberate += 1
            return
        self.problems.append("%s: %s: in-tree %s, ours %s" %
                             (case.text, what, tree, ours))

    def same(self, what, case, tree, ours):
        """Reports it if both sides differ."""
        if tree != ours:
            self.differ(what, case, str(tree), str(ours))

    def drop(self, errors):
        """Clears the tables that were loaded."""
        for side, error in zip((self.tree, self.ours), errors):
            if error is None:
                side.clear()

    def load(self, case, rare=False):
        """Loads on both sides.  True if both took it."""
        errors = [side.load(case) for side in (self.tree, self.ours)]
        names = [error_name(error) for error in errors]
        if names[0] != names[1]:
            self.differ("load", case, *names)
            self.drop(errors)
            return False
        if errors[0] is None:
            return True
        if rare and names[0] == "ENOENT":
            reason = "no %s in this kernel" % case.cipher
            self.skipped[reason] = self.skipped.get(reason, 0) + 1
        else:
            self.refused[names[0]] = self.refused.get(names[0], 0) + 1
        return False

    def resume(self, case):
        """Both tables go live.  False if they do not."""
        names = [error_name(side.resume()) for side in (self.tree, self.ours)]
        if names != ["accepted"] * 2:
            self.problems.append("%s: resume: in-tree %s, ours %s" %
                                 (case.text, *names))
            self.drop([None, None])
            return False
        return True

    def look(self, case):
        """Status and limits."""
        tree, ours = self.tree, self.ours
        self.same("table", case, tree.table(), ours.table())
        mine, theirs = words(ours.ima()), words(tree.ima())
        for name in sorted(set(mine) | set(theirs)):
            self.same("ima " + name, case, theirs.get(name, "none"),
                      mine.get(name, "none"))
        # They depend on nothing else, and are many files to read.
        seen = (case.sector_size, "allow_discards" in case.opts, ours.below)
        if seen in self.limits_seen:
            return
        self.limits_seen.add(seen)
        mine, theirs = ours.limits(), tree.limits()
        for name in sorted(set(mine) | set(theirs)):
            self.same("limit " + name, case, theirs.get(name, "none"),
                      mine.get(name, "none"))

    def reload(self, case):
        """What status says is a table, and the same one."""
        ours = self.ours
        before = ours.table()
        (_, _, _, text), = ours.mapper.table(ours.name)
        error = ours.load(case, text)
        if error:
            self.problems.append("%s: ours does not take back its status: %s" %
                                 (case.text, error_name(error)))
            return
        after = ours.table(inactive=True)
        if before != after:
            self.problems.append("%s: status of the reloaded table: %s" %
                                 (case.text, after))
        ours.clear()

    def move(self, number, case):
        """Data: the same bytes below, and each side reads the other's."""
        size = case.sectors * 512
        data = plaintext(number, size)
        order = random.Random(number)
        below = []
        filler = POOL[number % 977:][:size + 2 * MARGIN * 512]
        for side in (self.tree, self.ours):
            window = side.raw(case)
            side.raw(case, filler[:len(window)])
            side.write(case, data, order, number % 5 == 3)
            below.append(side.raw(case))
        if below[0] != below[1]:
            self.differ("ciphertext", case, first_difference(*below),
                        "differs")
        margin = min(int(case.start), MARGIN) * 512
        if data in below[1][margin:] and "null" not in case.cipher:
            self.problems.append(case.text + ": plaintext on the disk")
        # Each gets what the other wrote, on a device that has forgotten its own.
        got = []
        for side, text in zip((self.tree, self.ours), below[::-1]):
            side.raw(case, bytes(len(text)))
            side.raw(case, text)
            got.append(side.read(case, size, order, number % 7 == 5))
        if "unreadable" in case.flags:
            data = got[0]
        for side, text in zip(("in-tree", "ours"), got):
            if text != data:
                self.problems.append("%s: what %s reads of the other's %s" % (
                    case.text, side, first_difference(data, text)))
        self.written += 1

    def accept(self, number, case, rare=True):
        """All of it, for one line."""
        if not self.load(case, rare) or not self.resume(case):
            return
        self.accepted += 1
        try:
            self.look(case)
            self.reload(case)
            self.move(number, case)
        except OSError as error:
            self.problems.append("%s: %s" % (case.text, error))

    def refuse(self, case):
        """Only whether they take it, and the same."""
        if self.load(case):
            self.accepted += 1
            self.drop([None, None])


def first_difference(one, two):
    """Where, and in how many sectors, two texts differ."""
    sectors = [at // 512 for at in range(0, len(one), 512)
               if one[at:at + 512] != two[at:at + 512]]
    return "differs in %d of %d sectors, first %s" % (
        len(sectors), len(one) // 512, sectors[:1])


# ---- who is who ----

def references(module):
    """How many users a module has."""
    return int(read("/sys/module/%s/refcnt" % module))


def assert_owners(tap, mapper, sides, when):
    """That each target name belongs to the module that it should."""
    wrong = []
    targets = mapper.targets()
    for side in sides:
        if not os.path.isdir("/sys/module/" + side.module):
            wrong.append("%s is not loaded" % side.module)
            continue
        if side.target not in targets:
            wrong.append("there is no target " + side.target)
            continue
        # A table holds a reference to the module that owns its target.
        case = cipherlines.Case("", "aes-cbc-plain64", "32")
        before = [references(s.module) for s in sides]
        if side.load(case):
            wrong.append("%s does not take the plainest table" % side.target)
            continue
        more = [references(s.module) - b for s, b in zip(sides, before)]
        side.clear()
        if more != [int(s is side) for s in sides]:
            wrong.append("a table of target %s adds %s references to %s" %
                         (side.target, more, [s.module for s in sides]))
    # In-tree comes from Debian, signed; ours is out of tree, and says so.
    taints = {module: read("/sys/module/%s/taint" % module)
              for module in ("dm_crypt", "dm_xcrypt")
              if os.path.isdir("/sys/module/" + module)}
    if "O" in taints.get("dm_crypt", "O"):
        wrong.append("dm_crypt is not the kernel's own")
    if "O" not in taints.get("dm_xcrypt", ""):
        wrong.append("dm_xcrypt is not ours")
    tap.ok(not wrong, "%s: dm_crypt owns crypt, dm_xcrypt owns xcrypt" % when,
           "\n".join(wrong))
    return not wrong


def command(*args):
    """Runs a program that must succeed."""
    subprocess.run(args, check=True, stdin=subprocess.DEVNULL)


def warm_up():
    """Loads every module that serves a cipher of ours.

    The kernel would do it at the first use, in the middle of a table: then
    the first of several transforms comes from another driver than the others,
    and in-tree dm-crypt, which asks the first one alone for the size of its
    requests, writes past the end of smaller ones (an oops, seen on 6.1 with
    twofish:64-cbc-lmk).
    """
    names = ["crypto-" + name for name in (
        "aes cbc xts lrw ecb pcbc ctr essiv cts cfb ofb adiantum chacha20 "
        "xchacha20 nhpoly1305 cryptd md5 sha1 sha256 sha512 rmd160 hmac crc32 "
        "sha3-256 gcm ccm ghash authenc fcrypt").split()]
    # in 7.3 not made of a template and a cipher
    names += ["aes_ti", "crypto-ecb(cipher_null)"] + ["crypto-" + name for name in cipherlines.CIPHERS]
    # One by one: not every kernel has all of them.
    for name in names:
        subprocess.run(["modprobe", "-q", name], check=False,
                       stdin=subprocess.DEVNULL)
    # From here on the kernel need not look for ciphers that do not exist,
    # which costs it several modprobes each.
    with open("/proc/sys/kernel/modprobe", "w", encoding="ascii") as file:
        file.write("\n")


def insert(path, *params):
    """insmod, after what the module needs; nothing to do if it is there."""
    name = os.path.basename(path).split(".ko")[0].replace("-", "_")
    if os.path.isdir("/sys/module/" + name):
        return
    needs = subprocess.run(["modinfo", "-F", "depends", path], check=True,
                           stdout=subprocess.PIPE).stdout.decode().strip()
    for need in filter(None, needs.split(",")):
        command("modprobe", need)
    command("insmod", path, *params)


def load_modules(itself):
    """Both, by file: `modprobe dm-crypt` leads to ours here."""
    command("modprobe", "-a", "dm-mod", "dm-zero")
    command("modprobe", "brd", "rd_nr=2", "rd_size=%d" % RAM_KIB)
    insert(os.environ["DM_CRYPT_KO"])
    if not itself:
        insert(os.environ["DM_XCRYPT_KO"], "target_name=xcrypt", "dyndbg=+p")


# ---- the parts ----

class Run:
    """What the parts need, and the order in which they come."""

    def __init__(self, tap, only, itself):
        self.tap = tap
        self.only = only
        self.itself = itself
        self.number = 0
        load_modules(itself)
        self.mapper, keyring = DeviceMapper(), Keyring()
        self.tree = Side(self.mapper, "tree", "crypt", "dm_crypt",
                         RAM_DISKS[0], keyring)
        self.ours = Side(self.mapper, "ours", "crypt" if itself else "xcrypt",
                         "dm_crypt" if itself else "dm_xcrypt", RAM_DISKS[1],
                         keyring)
        self.differences = Differences(
            os.path.join(DATA, "differences.txt"),
            os.environ.get("VM_KERNEL", "6.1"))
        self.both = Comparison(self.tree, self.ours, self.differences)

    def close(self):
        """Takes the devices away."""
        self.tree.close()
        self.ours.close()

    def owners(self, when):
        """Nothing is worth comparing if this fails."""
        if self.itself:
            return
        if not assert_owners(self.tap, self.mapper, (self.tree, self.ours),
                             when):
            self.tap.finish()

    def chosen(self, cases):
        """Those that --only wants."""
        return [case for case in cases if not self.only or re.search(
            self.only, case.group + ": " + (case.name or case.text))]

    def groups(self, cases, act):
        """act(number, case) for all; one case of the test for each group."""
        groups = {}
        for case in self.chosen(cases):
            groups.setdefault(case.group, []).append(case)
        for name, members in groups.items():
            start = time.monotonic()
            for case in members:
                self.number += 1
                act(self.number, case)
            self.done("%s: %d lines in %.1f s" % (
                name, len(members), time.monotonic() - start))

    def done(self, text):
        """One case of the test, with the problems since the last."""
        problems, self.both.problems = self.both.problems, []
        more = len(problems) - 40
        if more > 0:
            problems[40:] = ["and %d more" % more]
        self.tap.ok(not problems, text, "\n".join(problems))

    def cold(self):
        """Several transforms of a cipher whose drivers are not loaded yet:
        only ours, since in-tree writes past its requests then.  Compared
        later, once all are loaded.
        """
        if self.chosen([cipherlines.COLD]) and not self.itself:
            self.cold_bytes = self.write_alone(self.ours, cipherlines.COLD)

    def write_alone(self, side, case):
        """What case makes of the same data as ever: bytes below, or None."""
        error = side.load(case) or side.resume()
        if error:
            self.both.problems.append("%s: %s: %s" % (
                case.text, side.label, error_name(error)))
            return None
        data = plaintext(1, case.sectors * 512)
        side.raw(case, bytes(len(side.raw(case))))
        side.write(case, data, random.Random(1), False)
        below = side.raw(case)
        if side.read(case, len(data), random.Random(2), False) != data:
            self.both.problems.append("%s: %s does not read what it wrote" %
                                      (case.text, side.label))
        return below

    def no_iv_mode(self):
        """Without an IV mode ours is as with IV mode null."""
        for without, null in cipherlines.no_iv_mode():
            if not self.chosen([without]):
                continue
            texts = [self.write_alone(self.ours, without),
                     self.write_alone(self.tree, null)]
            if texts[0] != texts[1]:
                self.both.problems.append(
                    without.text + ": not as with in-tree and IV mode null")
            # A load alone is harmless.
            self.both.refuse(without)
        if self.chosen([without]):
            self.done(without.group + ": ours takes zero")

    def bad(self):
        """Lines that are refused, or nearly."""
        cases = list(cipherlines.bad_lines()) + list(cipherlines.strange())
        before = sum(self.both.refused.values())
        self.groups(cases, lambda number, case: self.both.refuse(case))
        if not self.only:
            count = sum(self.both.refused.values()) - before
            self.tap.ok(count >= WANTED_BAD,
                        "%d bad tables are refused with the same errno" % count)
        crashes = self.chosen(cipherlines.ours_only())
        if self.itself or not crashes:
            return
        for case in crashes:
            error = self.ours.load(case)
            if not error:
                self.ours.clear()
            self.both.differ("crash", case, "crashes", error_name(error))
        self.done("tables that crash in-tree are refused")

    def discard(self):
        """On disks that can discard: limits, the answer, the bytes below."""
        if not all(map(os.path.exists, DISKS)):
            self.tap.skip("discard", "there are no disks that can discard")
            return
        cases = [cipherlines.Case("discard", "aes-xts-plain64", "64", 0, 2048,
                                  opts, sectors=2048)
                 for opts in ("", "allow_discards",
                              "allow_discards sector_size:4096")]
        for case in self.chosen(cases):
            sides, got = (self.tree, self.ours), []
            self.tree.near, self.ours.near = DISKS
            if not self.both.load(case) or not self.both.resume(case):
                continue
            self.both.look(case)
            for side in sides:
                below = self.write_live(side, case)
                answer = side.discard(1 << 19, 1 << 17)
                after = side.raw(case)
                got.append("%s, then below %s" % (
                    answer, first_difference(below, after)))
            self.both.same("discard", case, *got)
            note("discard %s: %s" % (case.opts, got[1]))
        self.tree.near, self.ours.near = RAM_DISKS
        if self.chosen(cases):
            self.done("discards")

    @staticmethod
    def write_live(side, case):
        """The bytes below after a write to the live table."""
        side.write(case, plaintext(1, case.sectors * 512), random.Random(1),
                   False)
        return side.raw(case)

    def counts(self):
        """The sums, and whether they are enough."""
        both = self.both
        note("%d lines accepted by both (%d of them written and read both "
             "ways), %d refused by both, %d skipped, %d deliberate "
             "differences" % (both.accepted, both.written,
                              sum(both.refused.values()),
                              sum(both.skipped.values()), both.deliberate))
        for name, number in sorted(both.refused.items()):
            note("refused with %s: %d" % (name, number))
        for reason, number in sorted(both.skipped.items()):
            self.tap.skip("%d lines" % number, reason)
        if self.only:
            return
        self.tap.ok(both.written >= WANTED_ACCEPTED,
                    "%d lines were written and read both ways, %d are wanted" %
                    (both.written, WANTED_ACCEPTED))
        stale = [entry for entry in self.differences.entries if not entry.seen]
        self.tap.ok(self.itself or not stale,
                    "each of the %d deliberate differences was met" %
                    len(self.differences.entries),
                    "\n".join("stale: %s | %s" % (entry.what, entry.pattern)
                              for entry in stale))

    def run(self):
        """All parts in turn."""
        self.owners("before the first table")
        self.cold()
        warm_up()
        if self.chosen([cipherlines.COLD]) and not self.itself:
            if self.cold_bytes != self.write_alone(self.tree, cipherlines.COLD):
                self.both.problems.append("not as once all drivers are loaded")
            self.done("transforms of drivers that are loaded meanwhile")
        self.groups(cipherlines.matrix(), self.both.accept)
        self.no_iv_mode()
        self.owners("before the bad tables")
        self.bad()
        self.discard()
        self.owners("before the recorded lines")
        Recorded(self).run()
        self.owners("before the cut sectors")
        Straddle(self).run()
        self.owners("at the end")
        self.counts()


class Recorded:
    """The lines of tests/data/oracle-lines.txt, with the answers that in-tree
    dm-crypt gave elsewhere: an opinion that does not depend on the module
    that happens to be loaded here.
    """

    def __init__(self, run):
        self.run_ = run
        self.both = run.both
        self.ours = run.ours
        self.golden = {}
        self.read("oracle-golden.txt")
        other = "oracle-golden-%s.txt" % os.environ.get("VM_KERNEL", "6.1")
        if os.path.exists(os.path.join(DATA, other)):
            self.read(other)

    def read(self, name):
        """Adds the answers of a file, which replace earlier ones."""
        with open(os.path.join(DATA, name), encoding="ascii") as file:
            for line in file:
                name, _, answer = line.strip().partition(" ")
                if name and not name.startswith("#"):
                    self.golden[name] = answer.strip()

    def run(self):
        """All of them."""
        # Those that want dm-integrity below are integrity.py's.
        cases = [case for case in cipherlines.recorded(
            os.path.join(DATA, "oracle-lines.txt")) if "int" not in case.flags]
        self.run_.groups(cases, self.line)

    def line(self, number, case):
        """One line, as its flags want it."""
        golden = self.golden.get(case.name)
        if golden is None:
            self.both.problems.append(case.name + ": no answer is recorded")
            return
        if golden.startswith("REFUSED") or golden.startswith("ACCEPTED-BAD"):
            self.both.refuse(case)
            error = self.ours.load(case)
            if not error:
                self.ours.clear()
            if error_name(error) != golden.split()[-1]:
                self.both.problems.append("%s: recorded %s, ours %s" % (
                    case.name, golden, error_name(error)))
            return
        sectors, case.sectors = case.sectors, cipherlines.SECTORS
        self.both.accept(number, case, rare=False)
        case.sectors = sectors
        answer = self.answer(case)
        wanted = dict(field.split("=", 1) for field in golden.split())
        for key in wanted:
            if answer.get(key) != wanted[key]:
                self.both.problems.append("%s: %s recorded %s, ours %s" % (
                    case.name, key, wanted[key], answer.get(key)))

    def answer(self, case):
        """{ct, rt, table, discard, swapkey} of ours, as they were recorded."""
        ours, found = self.ours, {}
        key = self.key_of(case)
        error = ours.load(case) or ours.resume()
        if error:
            return {"load": error_name(error)}
        size = case.sectors * 512
        ours.raw(case, bytes(len(ours.raw(case))))
        data = bytes_of("data " + case.seed, size)
        order = random.Random(case.name)
        ours.write(case, data, order, False)
        good = ours.read(case, size, order, False) == data
        found["rt"] = "ok" if good else "MISMATCH"
        (_, length, _, text), = ours.mapper.table(ours.name)
        found["table"] = digest(self.normal(
            "0 %d TGT %s" % (length, text)).encode())[:12]
        if "discard" in case.flags:
            answer = ours.discard(size // 2, 1 << 16)
            # the recorder's name for the same number
            found["discard"] = answer.replace("EOPNOTSUPP", "ENOTSUP")
        if "swapkey" in case.flags:
            found["swapkey"] = self.swap_key(case, key, data)
        margin = min(int(case.start), MARGIN) * 512
        found["ct"] = digest(ours.raw(case)[margin:margin + size])
        return found

    def key_of(self, case):
        """The key's text in the table."""
        return self.ours.key_text(case)

    @staticmethod
    def normal(text):
        """As the recorder made texts independent of its machine."""
        return re.sub(r"\b\d+:\d+\b", "M:N", text).strip()

    def try_message(self, text):
        """0 or 1, as dmsetup's status."""
        try:
            self.ours.mapper.message(self.ours.name, text)
            return 0
        except OSError:
            return 1

    def swap_key(self, case, key, data):
        """key wipe and key set, and what may not be done meanwhile."""
        ours, size = self.ours, len(data)
        second = bytes_of("key2 " + case.name, 8192)[:len(key) // 2].hex()
        steps = [self.try_message("key wipe") != 0]     # it is not suspended
        ours.mapper.suspend(ours.name)
        steps.append(self.try_message("key wipe"))
        steps.append(int(ours.resume() is not None))    # there is no key
        steps.append(self.try_message("key set " + key[2:]))
        steps.append(ours.mapper.table(ours.name)[0][3].split()[1])
        steps.append(self.try_message("key set " + second))
        steps.append(self.try_message("key bogus") != 0)
        ours.resume()
        other = ours.read(case, size, random.Random(3), False)
        steps.append("newkey-plain=" + digest(other)[:12])
        ours.mapper.suspend(ours.name)
        self.try_message("key set " + key)
        ours.resume()
        steps.append(ours.read(case, size, random.Random(4), False) == data)
        return ",".join(map(str, steps))


def words(text):
    """{name: value} of a list of them with commas; a value may have some."""
    return dict(word.split("=", 1)
                for word in re.split(r",(?=[a-z_]+=)", text.rstrip(";")))


def digest(data):
    """As the recorder cut it."""
    return hashlib.sha256(data).hexdigest()[:32]


class Straddle:
    """Sectors in several pieces, as no direct I/O from here can make them:
    the test module xcrypt_straddle sends them.  A read reaches the device
    below in the same pieces, and ram disks count in whole sectors: so this
    runs on the disks.
    """

    LINES = (("aes-xts-plain64", "64", ""), ("aes-cbc-essiv:sha256", "32", ""),
             ("aes-xts-plain64", "64", "sector_size:1024"),
             ("aes-xts-plain64", "64", "sector_size:4096"),
             ("aes:64-cbc-lmk", "65x32", ""), ("aes-cbc-tcw", "64", ""),
             ("aes-cbc-elephant", "64", "sector_size:4096 iv_large_sectors"),
             ("capi:adiantum(xchacha20,aes)-plain64", "32", "sector_size:4096"),
             ("capi:cryptd(cbc(aes-generic))-plain64", "32", ""),
             ("capi:cryptd(cbc(aes-generic))-tcw", "64", ""))
    WHERE = ("", "no_read_workqueue no_write_workqueue")

    def __init__(self, run):
        self.run_ = run
        self.both = run.both
        # From 7.x on the disks below get no odd pieces.
        self.wanted = "0"
        if os.environ.get("VM_KERNEL") == "7.3":
            self.wanted = "0, but reads in pieces are refused"

    def run(self):
        """All lines; in-tree fails the first cut, and that is the end of it."""
        if not all(map(os.path.exists, DISKS)):
            self.run_.tap.skip("cut sectors", "there are no disks")
            return
        self.run_.tree.near, self.run_.ours.near = DISKS
        cases = [cipherlines.Case("cut sectors", cipher, key, 8, 8,
                                  " ".join(filter(None, (opts, where))))
                 for cipher, key, opts in self.LINES for where in self.WHERE]
        self.run_.groups(cases, self.line)

    def line(self, _number, case):
        """One line on both sides."""
        answers = []
        for side in (self.run_.tree, self.run_.ours):
            error = side.load(case) or side.resume()
            answers.append(error_name(error) if error else
                           self.send(side, case))
        if answers == ["ENOENT"] * 2 and not os.path.isdir("/sys/module/cryptd"):
            reason = "no cryptd in this kernel"
            self.both.skipped[reason] = self.both.skipped.get(reason, 0) + 1
            return
        if answers[1] != self.wanted:
            self.both.problems.append("%s: ours: %s" % (case.text, answers[1]))
        self.both.same("cut sectors", case, answers[0], answers[1])

    @staticmethod
    def send(side, case):
        """The module's result: 0, or what went wrong first."""
        command("modprobe", "xcrypt_straddle", "dev=" + side.path,
                "sector_size=%d" % case.sector_size)
        try:
            parameters = "/sys/module/xcrypt_straddle/parameters/"
            refused = int(read(parameters + "refused"))
            return read(parameters + "result") + (
                ", but reads in pieces are refused" if refused else "")
        finally:
            command("rmmod", "xcrypt_straddle")


def main():
    """Never returns: Tap.finish() leaves."""
    args = sys.argv[1:]
    only = args[args.index("--only") + 1] if "--only" in args else ""
    tap = Tap()
    run = Run(tap, only, "--self" in args)
    try:
        run.run()
    finally:
        run.close()
    tap.finish()


if __name__ == "__main__":
    main()
