# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an application may tell the software NIC of weftline about what it sends.

The deadline and the size of a message, and the time of a datagram. No right is needed. Where weftline does not run, or no
algorithm of its policy reads it, `tell` returns False and everything else is as without it. All times are those of
`time.monotonic_ns()`. docs/applications.md is the guide.
"""

import errno
import socket as sockets
import struct
import time

LEVEL = 0x77656674
OPTION_MESSAGE = 1
SO_TXTIME = 61

now = time.monotonic_ns


def tell(socket, deadline_ns=0, size=0):
    """Tells that the next `size` bytes written to a TCP or UDP socket are a message that is due at `deadline_ns`.

    0 is none, and of `size`: up to the next message. Call it before the message is written. Returns whether somebody
    listens.
    """
    try:
        socket.setsockopt(LEVEL, OPTION_MESSAGE, struct.pack("=QQ", deadline_ns, size))
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            return False
        raise
    return True


def use_times(socket):
    """Lets the datagrams of a socket have times (SO_TXTIME)."""
    socket.setsockopt(sockets.SOL_SOCKET, SO_TXTIME, struct.pack("=iI", time.CLOCK_MONOTONIC, 1))


def send_at(socket, data, time_ns):
    """Sends a datagram of a connected socket that is to leave by `time_ns`, or not before it, as the policy reads it."""
    return socket.sendmsg([data], [(sockets.SOL_SOCKET, SO_TXTIME, struct.pack("=Q", time_ns))])
