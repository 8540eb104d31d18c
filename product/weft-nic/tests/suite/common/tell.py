# SPDX-License-Identifier: MIT OR Apache-2.0
"""The same as tell.c, by the Python module: arguments SDK ADDRESS PORT."""

import os
import socket
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import weft  # noqa: E402

NOBODY = 65534
SECOND = 1_000_000_000


def connected():
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.connect((sys.argv[2], int(sys.argv[3])))
    return udp


os.setresgid(NOBODY, NOBODY, NOBODY)
os.setresuid(NOBODY, NOBODY, NOBODY)
calm, late, soon = connected(), connected(), connected()
weft.use_times(late)
assert weft.tell(soon, weft.now() + 3 * SECOND), "nobody listens"
for _ in range(60):
    calm.send(b"c" * 1000)
for _ in range(40):
    weft.send_at(late, b"l" * 1000, weft.now() + 7 * SECOND)
for _ in range(40):
    soon.send(b"s" * 1000)
