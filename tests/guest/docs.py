#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs what stands in docs/*.md, and compares its tables with the module.

Blocks, by the word behind ```:

  table           lines that are accepted, and printed back as they are
  below TAG BLOCK the same on dm-integrity with TAG bytes for each BLOCK bytes,
                  which is /dev/mapper/below
  refused         lines that are refused with EINVAL; behind # stands what the
                  kernel's log says of each
  sh guest        commands, one shell for each block

Keys named docs:kN have N bytes.  The names in the tables of options, INFO
words and parameters must be those that the module has, defaults too.
"""

import os
import re
import struct
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
# pylint: disable=wrong-import-position
from guestlib import (Tap, create, info, read, reload, remove, run, status_of,
                      table, use_ours)

DOCS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs")
PARAMETERS = "/sys/module/dm_xcrypt/parameters"
TAP = Tap()


def text_of(name):
    """A page."""
    with open(os.path.join(DOCS, name), encoding="utf-8") as file:
        return file.read()


def blocks(name):
    """[(words behind ```, text)]."""
    return re.findall(r"^```(\S[^\n]*)\n(.*?)^```$", text_of(name), re.M | re.S)


def column(page, heading, number=0):
    """{first word: a column} of the tables whose first heading is so named."""
    found = {}
    for rows in re.findall(r"^\| %s \|.*\n\|[-|]+\n((?:\|.*\n)+)" % heading,
                           text_of(page), re.M):
        for row in rows.splitlines():
            cells = [cell.strip().strip("`") for cell in row.strip("|").split("|")]
            for word in re.findall(r"`([^`]+)`", row.split("|")[1]):
                found[word] = cells[number]
    return found


def keys(text):
    """Adds the keys that a text names to the user's keyring."""
    for word, size in set(re.findall(r":logon:(docs:k(\d+))", text)):
        run("keyctl", "padd", "logon", word, "@u", data=os.urandom(int(size)))


def numbers(line):
    """The device as status prints it."""
    def number(found):
        device = os.stat(found[0]).st_rdev
        return "%d:%d" % (os.major(device), os.minor(device))
    return re.sub(r"/dev/\S+", number, line)


def below(tag, block):
    """dm-integrity on /dev/vdb."""
    def line(size):
        return "0 %d integrity /dev/vdb 0 %s D 1 block_size:%s" % (size, tag, block)
    run("dd", "if=/dev/zero", "of=/dev/vdb", "bs=1M", "count=1", "oflag=direct")
    create("below", line(8))
    remove("below")
    with open("/dev/vdb", "rb") as file:
        size = struct.unpack_from("<Q", file.read(512), 16)[0]
    create("below", line(size))


def accepted(line):
    """A line that is a table."""
    create("docs", line)
    shown = table("docs")
    TAP.same(numbers(line), shown, "accepted: " + line)
    reload("docs", line)
    run("dmsetup", "resume", "docs")
    remove("docs")


def refused(line):
    """One that is not, and why."""
    line, log = line.split(" # ")
    run("dmesg", "--clear")
    status, said = status_of("dmsetup", "create", "docs", data=line + "\n")
    TAP.ok(status and "Invalid argument" in said and log in run("dmesg"),
           "refused: " + line, said + "\n" + run("dmesg"))


def page(name):
    """All blocks of it."""
    for words, text in blocks(name):
        kind, *rest = words.split()
        keys(text)
        lines = text.splitlines()
        if kind == "table":
            for line in lines:
                accepted(line)
        elif kind == "below":
            below(*rest)
            for line in lines:
                accepted(line)
            remove("below")
        elif kind == "refused":
            for line in lines:
                refused(line)
        elif words == "sh guest":
            status, said = status_of("bash", "-exc", text)
            TAP.ok(not status, "%s: %s" % (name, lines[0]), said)
        else:
            TAP.ok(False, "%s: what is a block of %s?" % (name, words))


def options():
    """The words that the module takes are those of the page, in its order."""
    named = list(column("table.md", "option"))
    line = ("0 8192 crypt aes-xts-plain64 :64:logon:docs:k64 0 /dev/vda 0 10 " +
            " ".join(named).replace("integrity:bytes:type", "integrity:16:none")
            .replace("sector_size:bytes", "sector_size:1024")
            .replace("integrity_key_size:bytes", "integrity_key_size:20"))
    keys(line)
    create("docs", line)
    TAP.same(numbers(line), table("docs"), "the options of table.md are all there are, in order")
    remove("docs")
    for word in column("table.md", "IV mode"):
        log = run("strings", "-a", "-n", "3", os.environ["DM_XCRYPT_KO"])
        TAP.ok(re.search("^%s$" % word.partition(":")[0], log, re.M), "IV mode %s exists" % word)


def words():
    """INFO has the words of the page, no others."""
    below(28, 512)
    line = ("0 8192 crypt capi:gcm(aes)-random :32:logon:docs:k32 0 /dev/mapper/below 0 "
            "1 integrity:28:aead")
    keys(line)
    create("docs", line)
    TAP.same(list(column("status.md", "word")), list(info("docs")),
             "the words of INFO are those of status.md, in order")
    remove("docs")
    remove("below")


def parameters():
    """Names and defaults."""
    documented = column("parameters.md", "parameter", 1)
    TAP.same(documented, {name: read(os.path.join(PARAMETERS, name))
                          for name in documented if os.path.exists(
                              os.path.join(PARAMETERS, name))},
             "the parameters of parameters.md exist, with these defaults")
    TAP.same(sorted(documented), sorted(os.listdir(PARAMETERS)), "no parameter is left out")
    orders = list(column("parameters.md", "value"))
    for order in orders:
        with open(PARAMETERS + "/write_order", "w", encoding="ascii") as file:
            file.write(order)
        TAP.same(order, read(PARAMETERS + "/write_order"), "write_order=" + order)


def main():
    """Names first: the pages change parameters, and put them back."""
    use_ours()
    run("modprobe", "dm-integrity")
    parameters()
    options()
    words()
    pages = sorted(os.listdir(DOCS))
    for name in pages:
        page(name)
    TAP.ok(len(pages) >= 3, "there are pages", pages)
    TAP.finish()


main()
