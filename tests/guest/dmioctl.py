# SPDX-License-Identifier: GPL-2.0
"""Device-mapper by its ioctls: the errno as the kernel gave it, no udev, no
program to start (under TCG that costs more than all the rest), and no key on
a command line.

    dm = DeviceMapper()
    dm.create("a")
    dm.load("a", [(0, 128, "linear", "/dev/ram0 0")])
    dm.resume("a")                      # /dev/dm-N is there from here on
    dm.table("a")                       # [(0, 128, "linear", "1:0 0")]
    dm.remove("a")

Whatever the kernel refuses raises OSError with its errno.
"""

import fcntl
import os
import struct
import time

# struct dm_ioctl of linux/dm-ioctl.h, which is the same on all architectures
HEADER = struct.Struct("=3I I I I i I I I Q 128s 129s 7x")
# struct dm_target_spec
SPEC = struct.Struct("=Q Q i I 16s")
INTERFACE = (4, 0, 0)
DIRECTION_READ_WRITE = 3
DM_IOCTL = 0xfd

(VERSION, REMOVE_ALL, LIST_DEVICES, DEV_CREATE, DEV_REMOVE, DEV_RENAME,
 DEV_SUSPEND, DEV_STATUS, DEV_WAIT, TABLE_LOAD, TABLE_CLEAR, TABLE_DEPS,
 TABLE_STATUS, LIST_VERSIONS, TARGET_MSG) = range(15)

READONLY = 1 << 0
SUSPEND = 1 << 1
STATUS_TABLE = 1 << 4
BUFFER_FULL = 1 << 8
SKIP_LOCKFS = 1 << 10
NOFLUSH = 1 << 11
QUERY_INACTIVE_TABLE = 1 << 12
SECURE_DATA = 1 << 15
IMA_MEASUREMENT = 1 << 19


class Answer:
    """What an ioctl returned: the header's fields and the data behind it."""

    def __init__(self, buffer):
        fields = HEADER.unpack_from(buffer)
        self.version = fields[:3]
        size, start = fields[3], fields[4]
        self.target_count = fields[5]
        self.open_count = fields[6]
        self.flags = fields[7]
        self.minor = os.minor(fields[10])
        self.data = bytes(buffer[start:size])


class DeviceMapper:
    """The control device."""

    def __init__(self):
        self.fd = os.open("/dev/mapper/control", os.O_RDWR | os.O_CLOEXEC)

    def call(self, command, name="", flags=0, data=b"", count=0, room=1 << 15):
        """One ioctl.  room: bytes that the answer may take."""
        while True:
            size = HEADER.size + max(room, len(data))
            buffer = bytearray(size)
            HEADER.pack_into(buffer, 0, *INTERFACE, size, HEADER.size, count,
                             0, flags, 0, 0, 0, name.encode(), b"")
            buffer[HEADER.size:HEADER.size + len(data)] = data
            fcntl.ioctl(self.fd, DIRECTION_READ_WRITE << 30 |
                        HEADER.size << 16 | DM_IOCTL << 8 | command, buffer)
            answer = Answer(buffer)
            if not answer.flags & BUFFER_FULL:
                return answer
            room *= 4

    # ---- devices ----

    def create(self, name):
        """An empty device; returns its minor number."""
        return self.call(DEV_CREATE, name).minor

    def remove(self, name, patience=5.0):
        """Waits for whoever still holds it, up to patience seconds."""
        end = time.monotonic() + patience
        while True:
            try:
                return self.call(DEV_REMOVE, name)
            except OSError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.02)

    def load(self, name, table, flags=SECURE_DATA):
        """Makes table the inactive one: [(start, length, target, params)]."""
        data = b""
        for start, length, target, params in table:
            params = params.encode() + b"\0"
            size = -(-(SPEC.size + len(params)) // 8) * 8
            spec = SPEC.pack(start, length, 0, size, target.encode()) + params
            data += spec.ljust(size, b"\0")
        return self.call(TABLE_LOAD, name, flags, data, len(table))

    def clear(self, name):
        """Forgets the inactive table."""
        self.call(TABLE_CLEAR, name)

    def resume(self, name, flags=0):
        """Goes on, with the inactive table if there is one."""
        return self.call(DEV_SUSPEND, name, flags)

    def suspend(self, name, flags=0):
        """Waits for the I/O inside and lets no more in."""
        return self.call(DEV_SUSPEND, name, SUSPEND | flags)

    # ---- targets ----

    def status(self, name, flags=0):
        """[(start, length, target, text)]; without flags that is INFO."""
        answer = self.call(TABLE_STATUS, name, flags)
        found, at = [], 0
        for _ in range(answer.target_count):
            start, length, _, after, target = SPEC.unpack_from(answer.data, at)
            text = answer.data[at + SPEC.size:].split(b"\0", 1)[0]
            found.append((start, length, target.split(b"\0")[0].decode(),
                          text.decode()))
            at = after
        return found

    def table(self, name, inactive=False):
        """The table, keys in clear."""
        flags = STATUS_TABLE | SECURE_DATA
        return self.status(name, flags | (QUERY_INACTIVE_TABLE if inactive
                                          else 0))

    def ima(self, name):
        """What IMA would measure; one text for each target."""
        return [row[3] for row in self.status(name, IMA_MEASUREMENT)]

    def message(self, name, text, sector=0):
        """To the target at sector; returns its answer."""
        data = struct.pack("=Q", sector) + text.encode() + b"\0"
        answer = self.call(TARGET_MSG, name, SECURE_DATA, data)
        return answer.data.split(b"\0", 1)[0].decode()

    def targets(self):
        """{name: (major, minor, patch)} of the targets that are there."""
        data, found, at = self.call(LIST_VERSIONS).data, {}, 0
        while True:
            after, *version = struct.unpack_from("=4I", data, at)
            name = data[at + 16:].split(b"\0", 1)[0].decode()
            found[name] = tuple(version)
            if not after:
                return found
            at += after
