"""Orders of arrays of packets."""

from __future__ import annotations

import re
from typing import Any

import numpy
import pandas
import polars
import pyarrow
import pytest
from conftest import POLICY

import weftline

ARRIVALS: dict[str, Any] = {
    "time_ns": [0, 10, 20, 30],
    "bytes": [976, 976, 976, 976],
    "class": ["default", "default", "web", "default"],
}


def test_classes_are_served_by_priority() -> None:
    done = weftline.replay(POLICY, ARRIVALS)
    assert done.order.tolist() == [0, 2, 1, 3]
    # 976 bytes and 24 around them: 8 us at 1 Gb/s.
    assert done.end_ns.tolist() == [8000, 16000, 24000, 32000]
    assert done.start_ns.tolist() == [0, 8000, 16000, 24000]
    assert [done.classes[number] for number in done.class_] == ["default", "web", "default", "default"]
    assert done.link_bps == 10**9 and done.dropped == {} and len(done) == 4
    assert done.order.dtype == numpy.int64


def test_headers_say_the_class() -> None:
    count = 100
    arrivals = {
        "time_ns": numpy.zeros(count, dtype="int64"),
        "bytes": numpy.full(count, 1000, dtype="uint16"),
        "src": ["192.0.2.1"] * count,
        "dst": numpy.full(count, 0xC0000202, dtype="uint32").astype(object).tolist(),
        "protocol": numpy.full(count, 6, dtype="uint8"),
        "sport": numpy.arange(count, dtype="uint16") + 1024,
        "dport": numpy.where(numpy.arange(count) % 2, 80, 443).astype("int32"),
    }
    done = weftline.replay(POLICY, arrivals)
    assert sorted(done.order.tolist()) == list(range(count))
    assert (done.order[: count // 2] % 2 == 1).all(), "web is served first"


def test_flows_share_and_keep_their_order() -> None:
    policy = "link 1gbps\nclass bulk = udp\nroot = priority { fair of bulk, default }\n"
    flows = numpy.array([1, 1, 1, 1, 2, 2, 2, 2])
    arrivals = {"time_ns": flows * 0, "bytes": flows * 0 + 976, "class": ["bulk"] * 8, "flow": flows}
    done = weftline.replay(policy, arrivals)
    for flow in (1, 2):
        mine = done.order[flows[done.order] == flow].tolist()
        assert mine == sorted(mine)
    assert flows[done.order][:4].tolist() == [1, 2, 1, 2]


def structured(columns: dict[str, Any]) -> Any:
    """A structured array whose numbers do not stand at multiples of their size."""
    array = numpy.zeros(len(columns["bytes"]), dtype=[("class", "U7"), ("bytes", "u1"), ("time_ns", "i8")])
    for name, values in columns.items():
        array[name] = numpy.array(values) % 256 if name == "bytes" else values
    return array


@pytest.mark.parametrize(
    "make",
    [
        pandas.DataFrame,
        polars.DataFrame,
        pyarrow.table,
        structured,
    ],
    ids=["pandas", "polars", "pyarrow", "structured"],
)
def test_any_table_will_do(make: Any) -> None:
    assert weftline.replay(POLICY, make(ARRIVALS)).order.tolist() == [0, 2, 1, 3]


def test_strides_and_types_are_read() -> None:
    times = numpy.array([0, 99, 10, 99, 20, 99, 30, 99])[::2]
    done = weftline.replay(POLICY, {**ARRIVALS, "time_ns": times, "bytes": memoryview(b"\xff\xff\xff\xff")})
    assert done.order.tolist() == [0, 2, 1, 3]


def test_bounds_drop_and_say_which() -> None:
    count = 200_000
    zeros = numpy.zeros(count, dtype="int64")
    policy = weftline.compile(POLICY)
    done = weftline.replay(policy, {"time_ns": zeros, "bytes": zeros + 100, "class": zeros})
    dropped = [number for numbers in done.dropped.values() for number in numbers]
    assert len(done) + len(dropped) == count and dropped
    assert sorted(done.order.tolist() + dropped) == list(range(count))


def test_times_may_be_those_of_the_day_and_late() -> None:
    day = 1_700_000_000_000_000_000
    done = weftline.replay(POLICY, {"time_ns": [day + 100, day, day + 100], "bytes": [976] * 3, "class": ["web"] * 3})
    assert done.late == 1 and done.end_ns.tolist() == [day + 8100, day + 16100, day + 24100]


def test_no_packets_leave_in_no_order() -> None:
    done = weftline.replay(POLICY, {"time_ns": [], "bytes": [], "class": []}, link="10gbps")
    assert len(done) == 0 and done.link_bps == 10**10


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time": [0] * 4}, "time_ns"),
        ({"time_ns": [0.5] * 4}, "whole"),
        ({"time_ns": numpy.zeros(4)}, "whole"),
        ({"time_ns": [0, -1, 0, 0]}, "value 1 is -1"),
        ({"bytes": [1, 2, 3]}, "3 values"),
        ({"bytes": numpy.ones((2, 2), dtype="int64")}, "dimensions"),
        ({"class": ["web", "wep", "web", "web"]}, "web"),
        ({"class": [0, 1, 2, 99]}, "value 3 is 99|value 2 is 2"),
        ({"src": ["192.0.2.1"] * 4}, "come together"),
        ({"src": ["x"] * 4, "dst": ["y"] * 4, "protocol": [6] * 4}, "no address"),
        ({"src": ["::1"] * 4, "dst": ["192.0.2.1"] * 4, "protocol": [6] * 4}, "two families"),
        ({"dscp": [64] * 4}, "from 0 to 63"),
        ({"bytes": None}, ""),
    ],
)
def test_wrong_columns_are_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises((weftline.Error, TypeError)) as caught:
        weftline.replay(POLICY, {**ARRIVALS, **change})
    assert re.search(words, str(caught.value)), caught.value


def test_a_rate_is_needed() -> None:
    with pytest.raises(weftline.Error, match="no link rate") as caught:
        weftline.replay("class web = tcp port 80\nroot = priority { web, default }\n", ARRIVALS)
    assert "link" in caught.value.help
