"""The order in which packets leave, for arrays of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, TypeAlias

from . import _weftline
from ._weftline import Policy, Table

IntArray: TypeAlias = Any
"""An array of 64-bit whole numbers: of numpy where that is installed, otherwise a memoryview."""


@dataclass(frozen=True, eq=False)
class Departures:
    """The packets that left, in their order, and those that were dropped."""

    order: IntArray
    """The number of each packet among the arrivals, from 0."""
    class_: IntArray
    """Its class, an index of `classes`."""
    start_ns: IntArray
    """The time of the decision for it."""
    end_ns: IntArray
    """The end of its transmission, with the gap after it."""
    classes: list[str]
    """The names of the policy's classes."""
    dropped: dict[str, list[int]]
    """By reason, the numbers of packets for which there was no room."""
    link_bps: int
    late: int
    """Packets whose time was before that of the preceding one; they arrived with it."""
    overflow_packets: int
    """Packets of flows that shared a queue, because their class had too many flows."""
    table: Table = field(repr=False)
    """The same as a table: packet, class, start_ns, end_ns."""

    def __len__(self) -> int:
        return len(self.order)


def replay(
    policy: Policy | str | PathLike[str],
    arrivals: Any,
    *,
    link: str | int | None = None,
    port: str = "",
    flows_per_class: int = 65_536,
) -> Departures:
    """Schedule packets by a policy on a link and return the order in which they leave.

    `arrivals` has a column for each property of the packets: a dictionary, a DataFrame, a table of Arrow or a structured array. A column
    is an array of whole numbers or a sequence. Needed are `time_ns` and `bytes`, the length as a frame. A packet has a `class`, by number
    or by name, or `src`, `dst` and `protocol` with `sport`, `dport`, `mark`, `priority` and `dscp`, by which the policy's rules find it.
    Packets of one `flow`, or of one five-tuple, never overtake each other. `link` is a rate, such as "10gbps", in place of the policy's.
    """
    compiled = policy if isinstance(policy, Policy) else _weftline.compile(policy)
    table, dropped, link_bps, late, overflow = _weftline.replay(
        compiled, _columns(arrivals), link, port, flows_per_class
    )
    return Departures(
        order=_array(table, "packet"),
        class_=_array(table, "class"),
        start_ns=_array(table, "start_ns"),
        end_ns=_array(table, "end_ns"),
        classes=compiled.classes,
        dropped=dropped,
        link_bps=link_bps,
        late=late,
        overflow_packets=overflow,
        table=table,
    )


def _columns(arrivals: Any) -> dict[str, Any]:
    """The columns by name; those of libraries as arrays."""
    fields = getattr(getattr(arrivals, "dtype", None), "names", None)
    if fields is not None:
        # Fields of a structure may stand anywhere in memory; their copies do not.
        return {name: arrivals[name].copy() for name in fields}
    names = getattr(arrivals, "column_names", None)
    if names is None and not isinstance(arrivals, Mapping):
        names = getattr(arrivals, "columns", None)
    if names is None:
        names = arrivals.keys()
    return {name: _values(arrivals[name]) for name in names}


def _values(column: Any) -> Any:
    convert = getattr(column, "to_numpy", None)
    return column if convert is None else convert()


def _array(table: Table, name: str) -> IntArray:
    values = table.integers(name)
    try:
        import numpy
    except ImportError:
        return memoryview(values).cast("q")
    return numpy.frombuffer(values, dtype=numpy.int64)
