# SPDX-License-Identifier: MIT OR Apache-2.0
"""The client of scripts/demo-deadlines: requests to memcached beside downloads. Prints an object.

Arguments: ADDRESS BUDGET_MS REQUESTS ORDER.
"""

import json
import socket
import statistics
import sys
import threading
import time

DOWNLOADS = 16
VALUE = 64_000
PAUSE_S = 0.05

address, budget_ms, requests, order = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
stop = threading.Event()
received = [0] * DOWNLOADS


def connected(port):
    """A connection, once the server listens."""
    for _ in range(100):
        try:
            return socket.create_connection((address, port))
        except OSError:
            time.sleep(0.1)
    sys.exit(f"nobody listens at port {port}")


def download(number):
    with connected(8000) as stream:
        stream.sendall(b"GET /bulk HTTP/1.0\r\n\r\n")
        while not stop.is_set():
            data = stream.recv(1 << 16)
            if not data:
                return
            received[number] += len(data)


def until(stream, end):
    """Reads up to and with `end`."""
    text = b""
    while not text.endswith(end):
        data = stream.recv(1 << 16)
        if not data:
            sys.exit("memcached has closed the connection")
        text += data
    return text


def request(stream):
    """The milliseconds from a request to the last byte of its answer."""
    begin = time.monotonic()
    stream.sendall(b"get value\r\n")
    until(stream, b"\r\nEND\r\n")
    return 1000 * (time.monotonic() - begin)


with connected(11211) as stream:
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.sendall(b"set value 0 0 %d\r\n" % VALUE + b"v" * VALUE + b"\r\n")
    until(stream, b"STORED\r\n")
    threads = [threading.Thread(target=download, args=(number,), daemon=True) for number in range(DOWNLOADS)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    begin, before = time.monotonic(), sum(received)
    waits = []
    for _ in range(requests):
        waits.append(request(stream))
        time.sleep(PAUSE_S)
    seconds, bulk = time.monotonic() - begin, sum(received) - before
    stop.set()

waits.sort()
print(
    json.dumps(
        {
            "order": order,
            "requests": requests,
            "met": sum(wait <= budget_ms for wait in waits) / requests,
            "median_ms": round(statistics.median(waits), 1),
            "p95_ms": round(waits[int(0.95 * (requests - 1))], 1),
            "max_ms": round(waits[-1], 1),
            "bulk_mbps": round(8 * bulk / seconds / 1e6, 1),
        }
    )
)
