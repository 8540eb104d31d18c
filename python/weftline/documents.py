"""The JSON documents of `weft` as dataclasses. Written from docs/schemas by generate.py; not to be changed by hand.

`read` takes any of them; `build` makes one of a class. What a later version of weft adds to a document is left out.
"""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar

T = TypeVar("T")


def read(source: str | PathLike[str] | Mapping[str, Any]) -> Any:
    """Return a document: a file, its text, or what `json` has made of it. Its `schema` says which class it is of."""
    if isinstance(source, str) and source.lstrip().startswith("{"):
        source = json.loads(source)
    elif not isinstance(source, Mapping):
        source = json.loads(Path(source).read_text(encoding="utf-8"))
    if not isinstance(source, Mapping) or source.get("schema") not in DOCUMENTS:
        named = source.get("schema") if isinstance(source, Mapping) else None
        raise ValueError(f"{named!r} is no schema of a document that this version knows")
    return build(DOCUMENTS[source["schema"]], source)


def build(kind: type[T], value: Mapping[str, Any]) -> T:
    """Return an object of a class of this module, made of what `json` has read."""
    made: T = _build(kind, value, kind.__name__)
    return made


@cache
def _types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, vars(sys.modules[__name__]))


def _build(kind: Any, value: Any, place: str) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return _object(kind, value, place)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        _expect(isinstance(value, list), place, "a list", value)
        return [_build(inner[0], item, f"{place}[{at}]") for at, item in enumerate(value)]
    if origin is dict:
        _expect(isinstance(value, Mapping), place, "an object", value)
        return {name: _build(inner[1], item, f"{place}.{name}") for name, item in value.items()}
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in inner:
            return None
        return _build(next(one for one in inner if one is not type(None)), value, place)
    if kind is float:
        _expect(isinstance(value, (int, float)) and not isinstance(value, bool), place, "a number", value)
        return float(value)
    if kind in (int, str, bool):
        _expect(type(value) is kind, place, f"of type {kind.__name__}", value)
    return value


def _object(kind: Any, value: Any, place: str) -> Any:
    _expect(isinstance(value, Mapping), place, "an object", value)
    made, known = {}, _types(kind)
    for one in fields(kind):
        key = one.metadata.get("key", one.name)
        if key in value:
            made[one.name] = _build(known[one.name], value[key], f"{place}.{key}")
        else:
            _expect(not one.metadata.get("required", True), f"{place}.{key}", "there", None)
    return kind(**made)


def _expect(holds: bool, place: str, what: str, value: Any) -> None:
    if not holds:
        raise ValueError(f"{place} is not {what}: {value!r}")


@dataclass(frozen=True, kw_only=True)
class Apply:
    """The document of `weft apply`."""
    action: Literal['checked', 'planned', 'applied', 'changed']
    """The effect of the command."""
    device: str
    """The interface."""
    generation: int | None
    """The number of the policy at the device, 1 for the first; null where nothing was changed."""
    host: Host
    """The host."""
    netns: str | None
    """Its namespace; null for that of the command."""
    objects: str | None = field(default=None, metadata={'required': False})
    """The objects that would be made, with `--dry-run`."""
    policy: str
    """The policy."""
    promises: list[PlacePromise]
    """The statements of the policy, each with what the kernel keeps of it."""
    schema: Literal['weft-apply/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """The host on which a document was made."""
    cores: int
    """The number of CPUs available to the program."""
    detected: dict[str, Any]
    """Other detected facts that may explain a figure: name -> value."""
    kernel: str
    """Kernel release, as printed by `uname -r`."""


@dataclass(frozen=True, kw_only=True)
class PlacePromise:
    """A statement of a policy, and the extent to which a place keeps it."""
    file: str
    """The policy."""
    instead: str | None
    """The remedy."""
    kept: Literal['yes', 'within', 'no']
    """`yes`, `within` or `no`."""
    place: str
    """The place."""
    promise: str
    """The statement."""
    within: str | None
    """The bound, the condition or the reason."""


@dataclass(frozen=True, kw_only=True)
class BenchCost:
    """The document of `weft bench cost`."""
    cases: list[CaseReport]
    """The cases in the order in which they ran."""
    host: Host
    """The host of the run."""
    runs: int
    """The number of rounds of each case."""
    schema: Literal['weft-bench-cost/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class CaseReport:
    """One case. Figures are medians of its samples."""
    case: str
    """Its name."""
    comparisons: list[Comparison]
    """All comparisons."""
    disturbed_rounds: int
    """Number of rounds with a disturbed sample."""
    floor_bps: float | None = field(default=None, metadata={'required': False})
    """Payload per second of the forwarder."""
    floor_cores_per_gbps: float | None = field(default=None, metadata={'required': False})
    """Cores per Gb/s of the forwarder."""
    goal: str
    """The requirement, in words."""
    limited_by: str
    """The limit of our figure, in words."""
    link_bps: float | None = field(default=None, metadata={'required': False})
    """The rate of the link, on the wire; absent if it never limits."""
    met: bool | None
    """Whether all required comparisons are within their bounds; null if this machine or run cannot show it."""
    not_shown: str | None = field(default=None, metadata={'required': False})
    """The reason that it cannot be shown."""
    ours_bps: float | None
    """Payload per second of ours."""
    ours_cores_per_gbps: float | None
    """Cores per Gb/s of ours."""
    ours_pps: float
    """TCP segments per second of ours."""
    p50_s: float | None = field(default=None, metadata={'required': False})
    """Median of the round trips, in seconds, of ours."""
    p99_s: float | None = field(default=None, metadata={'required': False})
    """99th percentile of the round trips, in seconds, of ours."""
    parts: Parts | None
    """Our processor time by part, in core-seconds per gigabit."""
    peer: Literal['ours', 'busy', 'kernel', 'htb', 'redirect', 'forwarder'] | None
    """The peer; null without one."""
    peer_bps: float | None = field(default=None, metadata={'required': False})
    """Payload per second of the peer."""
    peer_cores_per_gbps: float | None = field(default=None, metadata={'required': False})
    """Cores per Gb/s of the peer."""
    peer_p50_s: float | None = field(default=None, metadata={'required': False})
    """Median of the round trips, in seconds, of the peer."""
    peer_p99_s: float | None = field(default=None, metadata={'required': False})
    """99th percentile of the round trips, in seconds, of the peer."""
    peer_parts: Parts | None = field(default=None, metadata={'required': False})
    """The peer's processor time by part."""
    peer_pps: float | None
    """TCP segments per second of the peer; null without a peer."""
    peer_requests_per_s: float | None = field(default=None, metadata={'required': False})
    """Answered requests per second of the peer."""
    ratio_median: float | None
    """Median of `ratio_runs`; null without a peer."""
    ratio_runs: list[float]
    """Our figure divided by the peer's, round by round: the first comparison with the peer."""
    requests_per_s: float | None = field(default=None, metadata={'required': False})
    """Answered requests per second of ours."""
    samples: list[BenchCostSample]
    """The samples."""
    statistics: BenchCostSample | None = field(default=None, metadata={'required': False})
    """The sample with eBPF statistics on."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Ratios of a variant of weftline to another variant."""
    at_least: float | None = field(default=None, metadata={'required': False})
    """The smallest allowed ratio, if bounded below."""
    at_most: float | None = field(default=None, metadata={'required': False})
    """The largest allowed ratio, if bounded above."""
    figure: Literal['cores_per_gbps', 'bps', 'p50_s', 'p99_s', 'requests_per_s']
    """The figure."""
    met: bool | None
    """Whether the median is within its bound; null without a bound or a median."""
    of: Literal['ours', 'busy', 'kernel', 'htb', 'redirect', 'forwarder']
    """The variant of weftline."""
    rank: Literal['required', 'aim']
    """The weight of the bound."""
    ratio_median: float | None
    """Median of `ratio_runs`; null without a round that has both."""
    ratio_runs: list[float]
    """The first divided by the other's, round by round."""
    to: Literal['ours', 'busy', 'kernel', 'htb', 'redirect', 'forwarder']
    """The other variant."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Processor time by part, in core-seconds per gigabit of payload, which are cores per Gb/s."""
    application: float
    """The applications' threads."""
    disturbance: float
    """Other processes."""
    ebpf: float | None = field(default=None, metadata={'required': False})
    """The eBPF programs; `None` if they were not measured. It is part of the time of application and stack, and is
taken from the stack."""
    receive: float
    """The receive thread."""
    stack: float
    """The remainder: the kernel outside of these threads, in interrupts and kernel threads. Below zero if the ticks of
the kernel's counters exceed it."""
    worker: float
    """The transmit worker, and the NIC's other threads but the next."""


@dataclass(frozen=True, kw_only=True)
class BenchCostSample:
    """One variant in one round."""
    application_s: float
    """Processor time of the applications' threads."""
    carried_bits: float
    """Payload that the receiving side's TCP received, in bits."""
    core_s: float
    """Processor time of the whole machine: all cores, less idle time."""
    disturbed: bool
    """Whether others used more than [`DISTURBED_MAX`] cores."""
    ebpf_s: float | None = field(default=None, metadata={'required': False})
    """Time of the NIC's eBPF programs by the kernel's statistics, which are on in a round of their own only."""
    foreign_s: float
    """Processor time of other processes."""
    receive_s: float
    """Processor time of the receive thread."""
    requests: RoundTrips | None = field(default=None, metadata={'required': False})
    """Round trips of the requests, if there were any."""
    round: int
    """The round, from 1."""
    segments: int
    """TCP segments that it received."""
    span_s: float
    """Measured time."""
    stolen_s: float
    """Time stolen by other machines on the same processors; it is contained in the times above."""
    variant: Literal['ours', 'busy', 'kernel', 'htb', 'redirect', 'forwarder']
    """The variant."""
    worker_s: float
    """Processor time of the transmit worker and the NIC's other threads but the next."""


@dataclass(frozen=True, kw_only=True)
class RoundTrips:
    """Round trips of the requests in one sample."""
    count: int
    """Number of answered requests."""
    p50_s: float
    """Median, in seconds."""
    p90_s: float
    """90th percentile, in seconds."""
    p99_s: float
    """99th percentile, in seconds."""


@dataclass(frozen=True, kw_only=True)
class BenchRoofline:
    """The document of `weft bench roofline`."""
    host: Host
    """The host of the run."""
    memory: list[Memory]
    """The caches and the memory, from the nearest."""
    points: list[Point]
    """The measurements, series by series."""
    schema: Literal['weft-bench-roofline/1']
    """Name and version of this schema."""
    seed: int
    """The seed of all random choices."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A cache, or the memory behind all."""
    bytes: int | None
    """Its size; null of the memory."""
    load_s: float
    """The time of a load whose address the load before it read."""
    name: str
    """`L1`, `L2` ... or `memory`."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A measurement."""
    flows: int
    """Number of flows."""
    limited_by: str
    """The limit of the speed."""
    line_s: float | None
    """The time of a load from it."""
    lines: float
    """The lines of records that a packet touches and that nothing has just touched."""
    loads_at_once: float | None
    """The loads that were under way at once, where these limit: their time one after the other, by the time beyond that of the
series' fastest point."""
    memory: str | None
    """The nearest cache into which the records fit, or the memory; null if none was measured."""
    packet_s: float
    """Median time of a packet: an enqueue and a dequeue."""
    parkings_per_packet: float
    """The times that a lane was parked by a limit, by packet."""
    records_bytes: int
    """The bytes of the records that the loop goes through."""
    runs_packet_s: list[float]
    """The times of all runs."""
    series: Literal['flows', 'depth', 'limits', 'burst']
    """The series: `flows`, `depth`, `limits` or `burst`."""
    value: int
    """The number in it: of flows, levels, limits that bind, or packets in a burst."""
    work: BenchRooflineWork | None
    """Instructions, cycles and misses; null on a machine without counters."""


@dataclass(frozen=True, kw_only=True)
class BenchRooflineWork:
    """The work of a packet, by the processor's counters."""
    cycles: float
    """Cycles."""
    instructions: float
    """Instructions."""
    misses: float
    """Misses of the last cache that the processor counts."""


@dataclass(frozen=True, kw_only=True)
class BenchWorkers:
    """The document of `weft bench workers`."""
    errors: list[WorkersError]
    """The errors in the simulation, by way and number of workers; empty if they were not simulated."""
    host: Host
    """The host of the run."""
    schema: Literal['weft-bench-workers/1']
    """Name and version of this schema."""
    seed: int
    """The seed of all random choices."""
    speed: WorkersSpeed | None
    """The speed on this machine; null if it was not measured."""


@dataclass(frozen=True, kw_only=True)
class WorkersError:
    """The largest errors of one way with a number of workers, in any 100 ms of the simulation."""
    changes_above: float
    """As `limit_above`, of a limit whose rate changes while all classes are backlogged."""
    changes_below: float
    """As `limit_below`, of that limit."""
    limit_above: float
    """Of a limit that is exceeded, as a part of it; negative if it never is."""
    limit_below: float
    """Of a limit that is not reached, as a part of it."""
    moving_above: float
    """As `limit_above`, of the limit of a class that is at one worker after the other."""
    moving_below: float
    """As `limit_below`, of that limit."""
    sent_bps: float
    """The rate of all classes together."""
    share_error: float
    """Of a class's share, as a part of the share."""
    way: Literal['shared', 'one-lock', 'equal-split']
    """The way: `shared`, `one-lock` or `equal-split`."""
    workers: int
    """Number of workers."""


@dataclass(frozen=True, kw_only=True)
class WorkersSpeed:
    """The speeds of workers, each run by run: runs of the same number are consecutive."""
    apart_pps: float
    """Median of the engines that share nothing."""
    apart_ratio_median: float | None
    """Median of the ratios of engines that share nothing to one, run by run."""
    apart_runs_pps: list[float]
    """Packets per second of as many engines that share nothing: the most that this machine gives them."""
    flows: int
    """Number of flows of each engine."""
    lock_pps: float
    """Median of the workers with a lock."""
    lock_ratio_median: float | None
    """Median of the ratios of workers with a lock to one, run by run."""
    lock_runs_pps: list[float]
    """Packets per second of as many workers that take turns with one engine, by a lock."""
    one_pps: float
    """Median of one worker."""
    one_runs_pps: list[float]
    """Packets per second of one worker."""
    policy: WorkersPolicy | None = field(default=None, metadata={'required': False})
    """The policy, if it is one of the user's own; else Figure 1's."""
    shared_of_apart_median: float | None
    """Median of the ratios of sharing workers to engines that share nothing, run by run: what sharing leaves."""
    shared_pps: float
    """Median of the workers that share the policy."""
    shared_ratio_median: float | None
    """Median of the ratios of sharing workers to one, run by run."""
    shared_runs_pps: list[float]
    """Packets per second of all workers that share the policy."""
    workers: int
    """Number of workers."""


@dataclass(frozen=True, kw_only=True)
class WorkersPolicy:
    """A policy of the user's own that workers are measured with."""
    file: str
    """The name of its file."""
    lanes: int
    """Number of lanes."""
    limits: int
    """Number of limits."""
    link_bps: float
    """The rate of the link in whose time limits bind."""
    packet_bytes: int
    """Length of all packets."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The document of `weft bench`."""
    cases: list[BenchCase]
    """The cases in the order in which they ran."""
    host: Host
    """The host of the run."""
    schema: Literal['weft-bench/1']
    """Name and version of this schema."""
    seed: int | None = field(default=None, metadata={'required': False})
    """The seed of all random choices in the run, if there are any."""


@dataclass(frozen=True, kw_only=True)
class BenchCase:
    """One case."""
    case: str
    """Its name."""
    limited_by: str | None = field(default=None, metadata={'required': False})
    """The bottleneck of weftline's speed, in words."""
    ours_bps: float | None = field(default=None, metadata={'required': False})
    """weftline's median throughput in bits per second, if packets have a size."""
    ours_pps: float
    """weftline's median speed in packets per second, or in the unit of `unit`."""
    peer: str | None
    """The peer; null without one."""
    peer_bps: float | None = field(default=None, metadata={'required': False})
    """The peer's median throughput in bits per second."""
    peer_pps: float | None
    """The peer's median speed, in the same unit; null without a peer."""
    ratio_median: float | None
    """Median of `ratio_runs`; null without a peer. Above 1, weftline is faster."""
    ratio_runs: list[float]
    """weftline's speed divided by the peer's, run by run; the runs of a pair are consecutive."""
    unit: Literal['packets', 'events', 'runs']
    """The unit that the speeds count per second."""


@dataclass(frozen=True, kw_only=True)
class CampaignStatus:
    """The document of `weft campaign status`: how many results of a grid are in a store."""
    broken: int
    """Runs with a file that is torn or another's; they are made again."""
    done: int
    """Runs whose results are there."""
    grid: str
    """The grid file."""
    host: Host
    """The host that looked."""
    missing: int
    """Runs without a file."""
    model: int
    """The version of the simulator's model, which is part of each result's name."""
    runs: int
    """The runs of the grid."""
    schema: Literal['weft-campaign-status/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """The document of `weft campaign export --format json`: the results of a campaign. It has nothing of the host that wrote it."""
    model: int
    """The version of the simulator's model."""
    runs: list[CampaignRun]
    """The results, ordered by parameters and seed."""
    schema: Literal['weft-campaign/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class CampaignRun:
    """A result."""
    figures: dict[str, float | None]
    """Figures by name, listed in docs/campaigns.md; null for one that the run does not give."""
    parameters: dict[str, Any]
    """Values by the scenario's key."""
    seed: int
    """The seed."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The document of `weft config`."""
    default_policy: str
    """The name of the configured policy."""
    generation: int
    """The number of the policy in force."""
    host: Host
    """The host of the daemon."""
    is_default: bool
    """Whether the configured policy is in force."""
    policy: str
    """The name of the policy."""
    policy_hash: str
    """The SHA-256 of the policy's text, in hexadecimal digits."""
    schema: Literal['weft-config/1']
    """Name and version of this schema."""
    tenants: list[ConfigTenant] | None = field(default=None, metadata={'required': False})
    """The tenants."""
    text: str
    """The text."""
    uplink: str | None = field(default=None, metadata={'required': False})
    """The uplink, if the configuration names its uplinks."""


@dataclass(frozen=True, kw_only=True)
class ConfigTenant:
    """A tenant of the policy in force."""
    file: str | None
    """The name of its file; null if it has none, so that its packets share one FIFO."""
    hash: str | None
    """The SHA-256 of the file's text, in hexadecimal digits."""
    origin: Literal['policy', 'attached', 'detached']
    """The origin of the file, or of its absence."""
    owner_uid: int | None
    """The user who attached or detached the file; null if nobody did."""
    tenant: str
    """The tenant's name."""
    text: str | None
    """The text of a file that was attached; null if it was not, or if the answer has no room for it."""


@dataclass(frozen=True, kw_only=True)
class Cross:
    """The document of `weft reproduce --cross`."""
    cells: list[CrossCell]
    """The scored cells."""
    fits: list[CrossFit]
    """The fits and their results."""
    host: Host
    """The host of the run."""
    parameters: list[CrossParameter]
    """The fitted parameters."""
    runs: int
    """The number of runs. Parameters that several fits tried were simulated once."""
    schema: Literal['weft-cross/1']
    """Name and version of this schema."""
    scores: list[CrossScore]
    """Scores by paper, column and sample."""
    seed: int
    """The first seed."""
    seeds: int
    """Runs of each cell with the same parameters."""
    wall_s: float
    """The duration, in seconds."""


@dataclass(frozen=True, kw_only=True)
class CrossCell:
    """A cell: a row and column at a number of flows, with one simulated value per sample."""
    column: str
    """Metric."""
    floor: float
    """The least denominator of the relative error."""
    flows: int
    """Number of flows."""
    paper: str
    """The paper: `tr` or `atc`."""
    published: float | None
    """The published value."""
    row: str
    """Configuration."""
    simulated: dict[str, float | None]
    """The simulated values by sample; null if a run has no such value."""


@dataclass(frozen=True, kw_only=True)
class CrossFit:
    """A fit."""
    cells: int
    """The rows and flow counts to which it was fitted."""
    name: str
    """A paper (`tr`, `atc`), or `without N`: both papers without the cells of N flows."""
    values: list[str]
    """The fitted values, in the order of the parameters."""


@dataclass(frozen=True, kw_only=True)
class CrossParameter:
    """A fitted parameter."""
    candidates: list[str]
    """The candidate values; the first is the value without a fit."""
    file: str
    """Its file below `experiments/`."""
    fitted_to: list[str]
    """The experiments and columns to which it is fitted."""
    key: str
    """Its key."""
    shipped: str
    """The value in the file."""


@dataclass(frozen=True, kw_only=True)
class CrossScore:
    """The agreement with a column of a paper under one sample of parameters."""
    cells: int
    """The number of cells with both values."""
    column: str
    """The column."""
    median_relative_error: float | None
    """Median relative error."""
    paper: str
    """The paper."""
    sample: Literal['in_sample', 'other_paper', 'flows_left_out', 'unfitted', 'shipped']
    """The sample of parameters."""
    tau: float | None
    """Kendall's tau-b over all pairs of these cells."""
    within_25_percent: float | None
    """The fraction of cells within 25 %, from 0 to 1; null without cells."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The document of `weft demo`."""
    command: str | None = field(default=None, metadata={'required': False})
    """The command line that made this document, to repeat it."""
    congestion_control: str
    """The congestion control of the bulk flows."""
    duration_s: float
    """Length of the run of each mode in seconds."""
    figure: Literal[9, 11]
    """The reproduced figure of the paper: 9 (with 10) or 11."""
    flows: dict[str, int]
    """Tenant (in figure 11: or job) -> number of its flows."""
    host: Host
    """The host of the run."""
    limits: list[LimitReport] | None = field(default=None, metadata={'required': False})
    """Figure 11 only: a copy of mode `loom`'s limits."""
    link_bps: int
    """The link's rate in bits per second."""
    link_bps_source: str
    """The source of `link_bps`, such as `--rate` or a measurement."""
    modes: list[ModeReport]
    """The modes in the order in which they ran."""
    rate_trial: RateTrial | None = field(default=None, metadata={'required': False})
    """The trial that determined the rate; absent if the rate was given."""
    samples: list[DemoSample] | None = field(default=None, metadata={'required': False})
    """Figure 11 only: a copy of mode `loom`'s samples, by job, for readers that do not know modes."""
    schema: Literal['weft-demo/1']
    """Name and version of this schema."""
    seed: int | None = field(default=None, metadata={'required': False})
    """The seed of all random choices in the run, if there are any."""
    started: str | None = field(default=None, metadata={'required': False})
    """The start of the run (RFC 3339), by the caller's clock."""


@dataclass(frozen=True, kw_only=True)
class LimitReport:
    """A rate limit and its accuracy."""
    class_: str = field(metadata={'key': 'class'})
    """The limited class of traffic."""
    error_max: float | None
    """The largest of these errors."""
    error_p95: float | None
    """95th percentile of `|rate - limit| / limit` over those windows; absent without one. Dimensionless."""
    excess_max: float
    """The largest excess of the class's rate over its limit in any window, relative to the limit, whether it was binding or not; 0 without an excess."""
    jobs: list[str]
    """The jobs whose traffic the limit covers, by their names in the samples."""
    limit_bps: float
    """Its limit in bits per second."""
    mean_bps: float | None
    """Mean rate of the class in the windows in which the limit was binding, in bits per second."""
    window_s: float
    """Length of the windows that are compared with the limit, in seconds."""
    windows: int
    """Number of windows in which the limit was binding."""


@dataclass(frozen=True, kw_only=True)
class ModeReport:
    """The results of one mode."""
    conservation: Conservation
    """Whether every packet and byte is accounted for."""
    core_waits: CoreWaits | None = field(default=None, metadata={'required': False})
    """The time for which threads that carry traffic were ready to run without a core; absent if the kernel does not report it."""
    cost: Cost
    """The cost of the mode."""
    description: str
    """Its configuration, in a sentence."""
    fine: FineSamples | None = field(default=None, metadata={'required': False})
    """Departures and backlog at a fine grain: `samples` and `lag` follow from them. Absent from what is simulated."""
    lag: Lag | None
    """The largest lag of any tenant behind the ideal fluid schedule; see [`Lag`]. Absent for figure 11, and if the backlog is
not known."""
    latency_s: LatencySummary | None
    """Latency of tenant T0 at full load; absent if not measured."""
    latency_samples: list[LatencySample]
    """Latency of tenant T0 over time (figure 10), one entry per 250 ms."""
    limits: list[LimitReport] | None = field(default=None, metadata={'required': False})
    """Figure 11: the rate limits and their accuracy."""
    link_use_min: float | None
    """The smallest use of the link in a steady window, as a fraction of `link_bps`."""
    link_use_p5: float | None
    """The use of the link that 95 % of the steady windows reach, as a fraction of `link_bps`."""
    mode: Literal['sq', 'mq', 'qpf', 'loom']
    """The mode."""
    notes: list[str]
    """Observations that affect the figures, for example stalls of the NIC's thread."""
    probe_wait_p99_s: float | None
    """99th percentile of the wait of T0's packets in the NIC for their turn at full load, in seconds of link time, over the
longest wait in each fine window. Absent if not measured."""
    queue_samples: list[QueueSample] | None = field(default=None, metadata={'required': False})
    """Backlogs over time, if they were sampled."""
    samples: list[DemoSample]
    """Throughput over time."""
    share_error_p95: float | None
    """95th percentile of the relative share errors in steady windows; see [`share_error_p95`]. Dimensionless. Absent from
figure 11, whose shares are not equal."""
    standing_queue_bytes: dict[str, float]
    """Tenant -> median of its backlog below its sockets at full load, in bytes."""
    standing_queue_max_bytes: dict[str, float]
    """Tenant -> its largest backlog at full load, in bytes."""


@dataclass(frozen=True, kw_only=True)
class Conservation:
    """The conservation of packets and bytes: the balance of the whole path, the drops by reason, and each stage."""
    dropped_bytes: int
    """Bytes dropped, for any reason."""
    dropped_packets: int
    """Packets dropped, for any reason."""
    drops: dict[str, Counted]
    """Reason -> packets and bytes dropped for it; their sums are the total's `dropped_packets` and `dropped_bytes`."""
    held_bytes: int
    """Bytes held when the accounting was closed."""
    held_packets: int
    """Packets held when the accounting was closed."""
    in_bytes: int
    """Bytes that entered."""
    in_packets: int
    """Packets that entered."""
    out_bytes: int
    """Bytes that left."""
    out_packets: int
    """Packets that left."""
    stages: list[Stage]
    """The stages in the order of the path."""
    uncounted_bytes: list[str] | None = field(default=None, metadata={'required': False})
    """Stages, or `total`, whose dropped bytes were not counted: the kernel's devices count the packets that they drop and not their
bytes. `dropped_bytes` is then the difference of two counts, and proves nothing about bytes."""
    unexplained: list[str] | None = field(default=None, metadata={'required': False})
    """The packets that no counter explains, one sentence for each stage: their number, and the counters that were read. Each is a
violation."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A number of packets, and their bytes."""
    bytes: int
    """Their bytes."""
    packets: int
    """Packets."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The balance of one stage on a packet's path."""
    dropped_bytes: int
    """Bytes dropped, for any reason."""
    dropped_packets: int
    """Packets dropped, for any reason."""
    held_bytes: int
    """Bytes held when the accounting was closed."""
    held_packets: int
    """Packets held when the accounting was closed."""
    in_bytes: int
    """Bytes that entered."""
    in_packets: int
    """Packets that entered."""
    name: str
    """The stage's name, for example `rings`."""
    out_bytes: int
    """Bytes that left."""
    out_packets: int
    """Packets that left."""


@dataclass(frozen=True, kw_only=True)
class CoreWaits:
    """The time for which threads were ready to run without a core, in seconds, while the tenants sent (the kernel's schedstat)."""
    probe_s: float
    """T0's client and server."""
    softirq_s: float
    """The kernel's threads that process packets under load (ksoftirqd), all together."""
    span_s: float
    """Length of the observed time."""
    steal_s: float
    """The time that the hypervisor gave to other machines (steal time), all cores together."""
    worker_s: float
    """The NIC's transmit worker."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of a mode. Costs that were not measured are absent."""
    bpf_ns_per_packet: float | None
    """Mean time of the eBPF program per packet, in nanoseconds."""
    bpf_runs: int | None
    """Runs of the eBPF program."""
    doorbell_bytes: int | None
    """Bytes written to doorbells and their metadata."""
    doorbells: int | None
    """Doorbells posted."""
    nic_cpu_share: float | None
    """CPU time of the software NIC's threads divided by wall time; 1 is one core."""
    wakeups: int | None
    """Number of times that the transmit worker was woken."""


@dataclass(frozen=True, kw_only=True)
class FineSamples:
    """Departures and backlogs in short, consecutive windows of link time."""
    bytes: list[list[int]]
    """Window -> tenant -> bytes on the wire."""
    chunk_bytes: int
    """The largest piece that the NIC sends in one turn, in bytes on the wire."""
    from_s: float
    """Start of the first window in seconds since the run of the mode started."""
    lost_s: dict[str, float]
    """Windows with lost link time, because the NIC's worker did not run for too long -> seconds."""
    probe_wait_s: list[float]
    """Window -> the longest wait of a packet of T0 in the NIC for its turn, in seconds of link time. Empty without T0."""
    tenants: list[str]
    """The tenants (or jobs), in the order of the columns."""
    waiting: list[int]
    """Window -> tenants that were backlogged in the NIC throughout, one bit each: 1 is the first tenant, 2 the second."""
    window_s: float
    """Length of a window in seconds."""


@dataclass(frozen=True, kw_only=True)
class Lag:
    """The largest lag of any tenant behind the fluid schedule."""
    bytes: float
    """The part of its due that the tenant did not get, in bytes on the wire."""
    engine_bytes: int
    """The largest lag that the engine may cause, in bytes; see `docs/measuring.md`."""
    from_s: float
    """Start of the span with this lag, in seconds since the run of the mode started."""
    s: float
    """The transmission time of these bytes, in seconds."""
    tenant: str
    """The tenant."""
    to_s: float
    """End of the span."""


@dataclass(frozen=True, kw_only=True)
class LatencySummary:
    """Percentiles (nearest rank) of a latency, in seconds."""
    count: int
    """The number of round trips."""
    p50: float
    """Median."""
    p90: float
    """90th percentile."""
    p99: float
    """99th percentile."""
    p999: float
    """99.9th percentile."""


@dataclass(frozen=True, kw_only=True)
class LatencySample:
    """Latency in one interval."""
    p90_s: float
    """90th percentile (nearest rank) in the interval, in seconds."""
    t_s: float
    """Start of the interval in seconds since the run of the mode started."""


@dataclass(frozen=True, kw_only=True)
class QueueSample:
    """Backlogs at one time."""
    bytes: dict[str, float]
    """Tenant -> backlog below its sockets, in bytes."""
    t_s: float
    """Seconds since the run of the mode started."""


@dataclass(frozen=True, kw_only=True)
class DemoSample:
    """Throughput in one window."""
    active: list[str]
    """The tenants (or jobs) that were backlogged in the NIC for the whole window, and T0."""
    bps: dict[str, float]
    """Tenant (or job) -> bits per second on the wire."""
    steady: bool
    """False while the set of backlogged tenants changes; such windows are shown, and not judged."""
    t_s: float
    """Start of the window in seconds since the run of the mode started."""
    window_s: float
    """Length of the window in seconds."""


@dataclass(frozen=True, kw_only=True)
class RateTrial:
    """A trial on an unlimited link: the machine's throughput under the demo's heaviest load."""
    carried_bps: float
    """The throughput: the median of `windows_bps`, in bits per second on the wire."""
    choices_bps: list[int]
    """The candidate rates, in bits per second."""
    divisor: float
    """The divisor: the rate is the largest of `choices_bps` that is at most `carried_bps` divided by it."""
    flows: int
    """The number of TCP flows that sent at once."""
    mode: Literal['sq', 'mq', 'qpf', 'loom']
    """The mode of the NIC."""
    requests_per_s: int
    """The requests per second of T0 at the same time; 0 without T0."""
    segments_per_turn: str
    """The segmentation of super-packets."""
    settle_s: float
    """The time for the flows to start and settle before the first window, in seconds."""
    windows_bps: list[float]
    """Its windows after the settling time, in bits per second."""


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """The document of `weft doctor`."""
    facilities: list[Facility]
    """The features in the order of the survey."""
    host: Host
    """The surveyed host."""
    schema: Literal['weft-doctor/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class Facility:
    """A feature of the kernel, the hardware or the build that weftline can use."""
    brings: str
    """Its use."""
    detail: str
    """The finding."""
    id: str
    """A short, stable name."""
    remedy: str | None
    """The way to enable it; null if nothing can or needs to be done."""
    state: Literal['ready', 'limited', 'missing', 'unknown']
    """Its availability."""
    title: str
    """Its title."""


@dataclass(frozen=True, kw_only=True)
class Playground:
    """The answer to a question."""
    arrivals_error: Fault | None
    """The error in the text of the arrivals."""
    classes: list[str]
    """The classes of the policy."""
    cost: str | None
    """The price of the policy, as `weft policy cost` prints it."""
    diagnostics: list[PolicyDiagnostic]
    """The diagnostics of the policy, as in `weft policy check`."""
    drawing: str | None
    """The drawing of the policy, as SVG."""
    error: str | None
    """Another reason for which nothing was run."""
    link_bps: int | None
    """The link's rate, in bits per second."""
    run: ShownOutcome | None
    """The run, if there was one."""
    schema: Literal['weft-playground/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An error in the text of the arrivals."""
    column: int
    """The column in characters, from 1."""
    help: str
    """The remedy; may be empty."""
    line: int
    """The line, from 1."""
    message: str
    """The error."""


@dataclass(frozen=True, kw_only=True)
class PolicyDiagnostic:
    """A diagnostic of the policy compiler."""
    code: str
    """The stable code."""
    column: int
    """The column in characters, from 1."""
    end: TextPosition | None = field(default=None, metadata={'required': False})
    """The position after the last character; absent in a daemon's answer."""
    file: str
    """The policy's name, as the caller gave it."""
    fix: PolicyFix | None = field(default=None, metadata={'required': False})
    """The remedy as an edit of the text, where the compiler can find what was meant."""
    help: str
    """The remedy, in one line."""
    line: int
    """The line, from 1."""
    message: str
    """The message, in one line."""
    notes: list[str] | None = field(default=None, metadata={'required': False})
    """Additional facts, one line each."""
    severity: Literal['error', 'warning', 'note']
    """`error`, `warning` or `note`."""


@dataclass(frozen=True, kw_only=True)
class TextPosition:
    """A place in a text."""
    column: int
    """The column in characters, from 1."""
    line: int
    """The line, from 1."""


@dataclass(frozen=True, kw_only=True)
class PolicyFix:
    """An edit that removes the cause of a diagnostic."""
    end: TextPosition
    """The position after the last one."""
    start: TextPosition
    """The position of the first character that it replaces."""
    text: str
    """The new text; empty for a deletion."""
    write: str | None
    """The corrected lines; null if they are long, or if the edit removes them."""


@dataclass(frozen=True, kw_only=True)
class ShownOutcome:
    """The fate of the arrivals."""
    cut: bool
    """Whether the run was ended by a bound before all packets had left."""
    difference: str | None
    """The first difference from what is expected."""
    packets: list[Packet]
    """The packets, in the order of the text."""
    pifo: list[ShownDeparture] | None
    """The departures in the order that a PIFO would have; `None` where ranks depend on more than the packet."""
    stated: bool
    """Whether the text states the departures or the drops that are expected."""
    turns: list[ShownTurn]
    """The turns in which a packet left, in their order."""


@dataclass(frozen=True, kw_only=True)
class Packet:
    """A packet."""
    at_ns: int
    """The time of its arrival."""
    bytes: int
    """Its length."""
    class_: str = field(metadata={'key': 'class'})
    """Its class."""
    fate: Literal['sent', 'dropped', 'refused', 'waiting']
    """`sent`, `dropped`, `refused` (its class was full), or `waiting` (the run was cut)."""
    flow: str | None
    """Its flow, if it states one."""
    name: str
    """Its name."""
    sent_ns: int | None
    """The time at which its transmission began."""
    takes_ns: int
    """The time that it takes on the link."""


@dataclass(frozen=True, kw_only=True)
class ShownDeparture:
    """A departure."""
    at_ns: int
    """The time at which its transmission begins."""
    packet: int
    """The number of the packet, from 0."""


@dataclass(frozen=True, kw_only=True)
class ShownTurn:
    """A turn: the heads that the engine chose from, and its choice."""
    at_ns: int
    """Its time."""
    heads: list[Head]
    """The next packets of the flows that waited; the one that left is the first."""
    packet: int
    """The number of the packet that left, from 0."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """The next packet of a flow."""
    limited_ns: int | None
    """The time until which a limit delays it."""
    orders: list[ShownPlace]
    """Its place in each order, from the root to its class."""
    packet: int
    """Its number, from 0."""


@dataclass(frozen=True, kw_only=True)
class ShownPlace:
    """A place in an order."""
    discipline: str
    """The discipline or the algorithm."""
    held: bool
    """Whether the algorithm holds it back."""
    node: str
    """The node's name."""
    rank: str
    """The rank with its unit, or the place."""


@dataclass(frozen=True, kw_only=True)
class PolicyCheck:
    """The document of `weft policy check`."""
    diagnostics: list[PolicyDiagnostic]
    """The diagnostics in the order of the files; empty if there are none."""
    host: Host
    """The host of the check."""
    places: list[PlaceAnswer]
    """Whether each place runs each policy that has no error; with `--for`, only those places."""
    promises: list[PlacePromise]
    """The promises of the policies, and the places that keep them."""
    schema: Literal['weft-policy-check/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class PlaceAnswer:
    """The answer of a place about a policy."""
    file: str
    """The policy."""
    instead: str | None
    """The remedy."""
    place: str
    """The place: `port`, `daemon`, `sim`, `replay`, `kernel` or `tc`."""
    reason: str | None
    """The reason why not."""
    runs: bool
    """Whether it can run the policy."""


@dataclass(frozen=True, kw_only=True)
class PolicyCost:
    """The document of `weft policy cost`: the price of a policy and of its algorithms."""
    cost: PolicyPrice | None
    """The price; `None` if the policy has errors."""
    diagnostics: list[PolicyDiagnostic]
    """The diagnostics of the policy and of the profiles, as in `weft policy check`."""
    file: str
    """The policy's file."""
    host: Host
    """The host of the count."""
    profiles: list[ProfilePrice]
    """The price at each place of execution; none if the policy has errors."""
    schema: Literal['weft-policy-cost/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class PolicyPrice:
    """The price of a policy."""
    deepest: str
    """The class with the longest path."""
    depth: int
    """The orders that a packet passes at most."""
    flow_bytes: int
    """The most bytes of state of a flow."""
    held: bool
    """Whether a packet may be held, and is then inserted twice."""
    limits: int
    """The rate limits."""
    operations: int
    """The most operations of algorithms for a packet."""
    orders: list[OrderPrice]
    """The orders."""
    state_bytes: int
    """The bytes of state of nodes and their children."""


@dataclass(frozen=True, kw_only=True)
class OrderPrice:
    """The price of one order."""
    algorithm: str
    """The algorithm, or the native discipline."""
    child_bytes: int
    """The bytes of state of each child or flow."""
    children: int | None
    """The number of children; `None` if it orders flows."""
    level: int
    """The number of orders above it, with itself."""
    native: bool
    """Whether the engine has it natively."""
    needs: str
    """Its other work, in words."""
    node: str
    """The node's name."""
    node_bytes: int
    """The bytes of state of the node."""
    parts: list[PartPrice]
    """The operations of each part that has some."""


@dataclass(frozen=True, kw_only=True)
class PartPrice:
    """The operations of a part."""
    operations: int
    """The operations."""
    part: str
    """The part's word."""


@dataclass(frozen=True, kw_only=True)
class ProfilePrice:
    """The price at a place of execution."""
    budget_seconds: float | None
    """The seconds that there are; `None` if any number is accepted."""
    fits: bool
    """Whether the place can run the policy."""
    over: list[str]
    """The reasons why it cannot, one line each; empty if it can."""
    packet_seconds: float | None
    """The seconds of a packet; `None` where nothing was measured or published."""
    profile: str
    """The profile's name."""


@dataclass(frozen=True, kw_only=True)
class PolicyDiff:
    """The document of `weft policy diff`."""
    host: Host
    """The host of the comparison."""
    kept: PolicyKept | None = field(default=None, metadata={'required': False})
    """The things that both policies have, which keep their state; absent in a daemon's answer."""
    schema: Literal['weft-policy-diff/1']
    """Name and version of this schema."""
    steps: list[PolicyStep]
    """The differences in the order in which they take place; empty if the policies are equal."""
    warnings: list[PolicyWarning]
    """Effects that the author may not have meant."""


@dataclass(frozen=True, kw_only=True)
class PolicyKept:
    """The numbers of things that both policies have, with all of their state."""
    classes: int
    """Classes."""
    limits: int
    """Rate limits."""
    nodes: int
    """Inner nodes."""


@dataclass(frozen=True, kw_only=True)
class PolicyStep:
    """A difference between two policies."""
    kind: str | None = field(default=None, metadata={'required': False})
    """The kind of the difference; absent in a daemon's answer."""
    phase: Literal['added', 'adjusted', 'drained', 'moved', 'reclassified', 'removed', 'reranked'] | None = field(default=None, metadata={'required': False})
    """The phase of the change in which it takes place; absent in a daemon's answer."""
    text: str
    """The difference in one line."""


@dataclass(frozen=True, kw_only=True)
class PolicyWarning:
    """An effect that the author of a change may not have meant."""
    help: str | None = field(default=None, metadata={'required': False})
    """The remedy in one line, if there is one."""
    kind: str | None = field(default=None, metadata={'required': False})
    """The kind of the effect; absent in a daemon's answer."""
    text: str
    """The effect in one line."""


@dataclass(frozen=True, kw_only=True)
class PolicyExplain:
    """The document of `weft policy explain`: the fate of one packet under a policy."""
    beside: list[str]
    """The other classes in the leaf."""
    bound_packets: int
    """The most packets of the lane that wait."""
    class_: str = field(metadata={'key': 'class'})
    """The class that takes it."""
    definition: str | None
    """The class's definition on one line."""
    definition_file: str | None
    """The tenant's file that defines the class; `None` for the policy's own text."""
    fair: bool
    """Whether the leaf shares between its flows."""
    file: str
    """The policy's file."""
    guaranteed_bps: int | None
    """The leaf's rate while every class sends, if the link's rate is known."""
    host: Host
    """The host of the explanation."""
    lane: int
    """The number of the lane."""
    leaf: str
    """The leaf."""
    limits: list[ExplainedLimit]
    """The limits that apply."""
    line: int | None
    """The line of the class's definition; `None` if the policy does not write it."""
    link_bps: int | None
    """The link's rate, if it is known."""
    notes: list[str]
    """Additional facts."""
    packet: str
    """The packet, as it can be given again."""
    path: list[ExplainedStep]
    """The nodes from the root to the leaf."""
    ranks: list[ExplainedRank]
    """The ranks that algorithms give the packet."""
    row: int
    """The number of the deciding row, from 1."""
    schema: Literal['weft-policy-explain/1']
    """Name and version of this schema."""
    tests: str
    """The tests of the row."""
    to: str | None
    """The destination of the class that decides on the lane; `None` for that of all other packets."""
    waiting: ExplainedWaiting | None = field(default=None, metadata={'required': False})
    """The packets of the class that wait at the daemon, with `--live`."""


@dataclass(frozen=True, kw_only=True)
class ExplainedLimit:
    """A limit that applies."""
    burst_bytes: int
    """The bytes that may leave at once after a pause."""
    limit_bps: int
    """Its rate."""
    name: str
    """Its name."""


@dataclass(frozen=True, kw_only=True)
class ExplainedStep:
    """A node on the path, and the turn of the packet's branch there: its place under strict priority, its weight otherwise."""
    algorithm: str | None = field(default=None, metadata={'required': False})
    """The algorithm of one's own, with the branch's parameters."""
    children: int | None
    """The number of children."""
    node: str
    """The node's name."""
    place: int | None
    """The place of the branch among the children, from 1."""
    weight: int | None
    """The weight of the branch."""
    weights: int | None
    """The sum of the children's weights."""


@dataclass(frozen=True, kw_only=True)
class ExplainedRank:
    """The rank of the packet at an algorithm, as the first one of an idle child."""
    algorithm: str
    """The algorithm."""
    first: int | None
    """The component that is compared first; null for a shaper."""
    from_ns: int | None
    """The time before which it is not picked, in nanoseconds after the arrival."""
    from_virtual: int | None
    """The virtual time before which it is not picked."""
    node: str
    """The node or leaf."""
    second: int | None
    """The component that decides between equal first ones."""
    sees_packet: bool
    """Whether the algorithm sees the packet."""


@dataclass(frozen=True, kw_only=True)
class ExplainedWaiting:
    """The packets of a class that wait at the daemon, and why."""
    backlog_bytes: int
    """The bytes that wait."""
    bps: float
    """The rate on the wire over the last second."""
    entitled_bps: float | None
    """The rate that the policy guarantees, if it is known."""
    reasons: list[str]
    """The reasons, the nearest to the class first."""
    sojourn_p99_s: float | None
    """The time within which 99 of 100 packets left; null before the first."""


@dataclass(frozen=True, kw_only=True)
class PolicyTest:
    """The document of `weft policy test`."""
    host: Host
    """The host of the tests."""
    schema: Literal['weft-policy-test/1']
    """Name and version of this schema."""
    tests: list[PolicyTestPolicyTest]
    """The tests, file by file."""


@dataclass(frozen=True, kw_only=True)
class PolicyTestPolicyTest:
    """A test and its outcome."""
    difference: str | None
    """The first difference from what is expected; `None` if the test passes."""
    dropped: list[str]
    """The packets that were dropped or refused."""
    file: str
    """The file."""
    name: str
    """The name of the test, or its number in the file."""
    sent: list[TestDeparture]
    """The departures in their order."""


@dataclass(frozen=True, kw_only=True)
class TestDeparture:
    """A departure of a test."""
    at_ns: int
    """The time at which its transmission begins, in nanoseconds from the begin of the test."""
    packet: str
    """The name of the packet."""


@dataclass(frozen=True, kw_only=True)
class Predict:
    """The document of `weft profile predict`."""
    cells: list[Cell]
    """The configurations."""
    costs: str
    """The file of costs."""
    fitted_cells: list[str]
    """The cells to which the costs were fitted."""
    host: Host
    """The host of the runs."""
    labels: list[str]
    """Limits of the figures."""
    measured: bool
    """Whether real traffic was asked for."""
    median_error: float | None
    """The median relative error of all figures; null if nothing was measured."""
    null_error: float | None
    """The median error of the null model; null without one."""
    null_model: PredictFigures | None
    """The null model, the means of these cells; null where the file has none."""
    schema: Literal['weft-predict/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A configuration."""
    foreign_share: float | None
    """The largest share of samples that other processes had; null if it was not measured."""
    link_bps: float | None = field(default=None, metadata={'required': False})
    """The rate of its link in bits per second; absent where only processors limit."""
    measured: PredictFigures | None
    """The figures of real traffic; null without."""
    name: str
    """Its name."""
    not_measured: str | None
    """The reason that this machine cannot measure it; null otherwise."""
    simulated: PredictFigures
    """The simulator's figures."""


@dataclass(frozen=True, kw_only=True)
class PredictFigures:
    """The figures of a configuration."""
    bps: float
    """Throughput in payload bits per second."""
    receiver_ns_per_byte: float
    """Processor time of the receiver, likewise."""
    sender_ns_per_byte: float
    """Processor time of the sender in nanoseconds per payload byte."""


@dataclass(frozen=True, kw_only=True)
class ProfileAttached:
    """The document of `weft profile --attach`."""
    conditions: Conditions
    """The conditions of sampling."""
    devices: list[Device]
    """The devices of this namespace."""
    host: Host
    """The host."""
    labels: list[str]
    """Limits of the figures."""
    latency_s: Latency | None
    """Latency from the stack's entry to the copy; null where eBPF could not run, or nothing was sampled."""
    leaf_unmapped: float
    """Share of the time in the network stack whose innermost function the table does not have."""
    lost_samples: int
    """Samples that were lost."""
    missing: dict[str, float]
    """The same by function, in seconds: the largest."""
    network_s: ByCategoryByDirection
    """The subject's time in the network stack."""
    ns_per_byte: ByCategoryByDirection
    """The same in nanoseconds per byte of the counted devices; a direction without bytes is absent."""
    policies: list[PolicyUse]
    """The policies that weftline enforces; empty without it."""
    processors: int
    """Processors that were sampled."""
    retransmitted: int
    """Segments that were sent again, in all namespaces."""
    rows: list[Row]
    """The tasks with the most time in the network stack, then in all."""
    schema: Literal['weft-profile-attached/1']
    """Name and version of this schema."""
    skb_bytes: SkbSizes | None
    """Sizes of skbs and copies; null where eBPF could not run."""
    span_s: float
    """The measured time."""
    subject: Subject
    """The subject."""
    tool: ToolCost
    """The profiler's own cost."""
    utilisation: Utilisation
    """Processors in use, of the whole host."""
    windows: list[Window]
    """The parts of the span."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The conditions of a profile, which two documents must share to be compared."""
    categories: str
    """The version of the table of categories."""
    clock: Literal['cycles', 'cpu-clock', 'none']
    """The event that took the samples: `cycles` or `cpu-clock`."""
    sample_hz: int
    """Samples per second and processor."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device and its counters in the span."""
    counted: bool
    """Whether its bytes divide the processor time."""
    device: str
    """Its name."""
    rx_bytes: int
    """Bytes received."""
    rx_packets: int
    """Packets received."""
    tx_bytes: int
    """Bytes sent."""
    tx_packets: int
    """Packets sent."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Latency from the stack's entry to the copy to the application."""
    count: int
    """Number of sampled packets."""
    p50: float
    """Median, in seconds: the upper end of its bucket, at most an eighth above."""
    p99: float
    """99th percentile, likewise."""


@dataclass(frozen=True, kw_only=True)
class ByCategoryByDirection:
    """weft-profile-attached/1"""
    not_told_apart: ByCategory | None = field(default=None, metadata={'required': False})
    """The call chain does not tell."""
    receive: ByCategory | None = field(default=None, metadata={'required': False})
    """They arrive."""
    transmit: ByCategory | None = field(default=None, metadata={'required': False})
    """They leave, or acknowledge what has left."""


@dataclass(frozen=True, kw_only=True)
class ByCategory:
    """weft-profile-attached/1"""
    data_copy: float | None = field(default=None, metadata={'required': False})
    """Copies between applications and packets."""
    etc: float | None = field(default=None, metadata={'required': False})
    """All other."""
    irq_off: float | None = field(default=None, metadata={'required': False})
    """Sections with interrupts off, whose function the clock cannot tell."""
    lock: float | None = field(default=None, metadata={'required': False})
    """Locks."""
    mem: float | None = field(default=None, metadata={'required': False})
    """Allocation of memory."""
    netdev: float | None = field(default=None, metadata={'required': False})
    """Devices, their drivers and queues."""
    sched: float | None = field(default=None, metadata={'required': False})
    """Scheduling of threads."""
    skb: float | None = field(default=None, metadata={'required': False})
    """Management of packets' metadata."""
    tcpip: float | None = field(default=None, metadata={'required': False})
    """TCP and IP."""
    unmapped: float | None = field(default=None, metadata={'required': False})
    """Functions that the table of categories does not have, called by none that it has."""


@dataclass(frozen=True, kw_only=True)
class PolicyUse:
    """An enforced policy, and the classes to which processor time belongs."""
    classes: list[ClassUse]
    """The classes in the policy's order."""
    generation: int
    """Its number."""
    not_told_apart_s: float
    """Time in the network stack of processes whose packets several classes may take."""
    policy: str
    """The policy's name."""
    uplink: str | None = field(default=None, metadata={'required': False})
    """The uplink, if it has a name."""
    without_port_s: float
    """Time in the network stack of processes in namespaces without a port."""


@dataclass(frozen=True, kw_only=True)
class ClassUse:
    """A class of the policy that weftline enforces on the host."""
    bytes: int
    """Bytes sent in the span."""
    class_: str = field(metadata={'key': 'class'})
    """Its name."""
    network_s: float
    """Their time in the network stack."""
    packets: int
    """Packets sent in the span."""
    processes: int
    """Processes with time in the network stack all of whose packets the class takes."""
    processor_s: float
    """Their processor time."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A task of the table."""
    cgroup: str | None = field(default=None, metadata={'required': False})
    """The cgroup; absent where it is not known."""
    kind: Literal['process', 'cgroup', 'weft', 'softirq', 'tool', 'rest']
    """The kind."""
    name: str
    """The name: a command, a path, a thread."""
    pid: int | None = field(default=None, metadata={'required': False})
    """The process; absent where the row is not one."""
    time: TaskTime
    """The time."""
    user: int | None = field(default=None, metadata={'required': False})
    """The user; absent where it is not known."""


@dataclass(frozen=True, kw_only=True)
class TaskTime:
    """Processor time of a task."""
    kernel_s: float
    """In the kernel, in the network stack and elsewhere."""
    network_s: ByCategoryByDirection
    """In the kernel's network stack."""
    user_s: float
    """In programs."""


@dataclass(frozen=True, kw_only=True)
class SkbSizes:
    """Sizes of packets and calls."""
    after_gro: Sizes
    """skbs that came to the receiver's stack."""
    before_gro: Sizes
    """skbs that a driver handed to GRO, at the receiver."""
    copies: Sizes
    """Bytes of the receiver's copies to its application, each of one skb."""
    transmit: Sizes
    """skbs that the sender's device took."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A histogram of sizes."""
    counts: list[int]
    """Number of sizes below each edge of [`Self::edges`] and not below the one before; the last is of all others."""
    mean: float | None
    """The mean size in bytes; null without one."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The subject of a profile."""
    kind: Literal['host', 'process', 'cgroup', 'device']
    """The kind."""
    name: str
    """The process, the path or the device; empty for the host."""


@dataclass(frozen=True, kw_only=True)
class ToolCost:
    """The profiler's own cost."""
    probes: float | None
    """Share that the programs at the tracepoints had; null where none could run."""
    processor: float
    """Share of all processors' time that the profiler had."""


@dataclass(frozen=True, kw_only=True)
class Utilisation:
    """Cores in use."""
    softirq: float
    """By softirqs."""
    system: float
    """By the kernel for processes."""
    user: float
    """By programs."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """A part of the span."""
    moved: Moved
    """The counted devices' bytes and packets in it."""
    network_s: ByCategoryByDirection
    """The subject's time in the network stack."""
    span_s: float
    """Its length."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Bytes and packets of both directions."""
    rx_bytes: int
    """Bytes received."""
    rx_packets: int
    """Packets received."""
    tx_bytes: int
    """Bytes sent."""
    tx_packets: int
    """Packets sent."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The document of `weft profile`."""
    advice: list[Advice]
    """Remarks."""
    conditions: Conditions
    """The conditions of sampling."""
    configs: list[ConfigReport]
    """The levels in their order."""
    host: Host
    """The host of the runs; the sender of those between two hosts."""
    labels: list[str]
    """Findings of the preflight, and limits of the figures."""
    missing: dict[str, float]
    """Kernel time by innermost functions that the table does not have, in seconds: the [`largest`] of all runs."""
    pattern: Literal['single', 'one-to-one', 'incast', 'outcast', 'all-to-all']
    """The pattern of traffic."""
    peer: Peer | None = field(default=None, metadata={'required': False})
    """The receiving host; absent if the runs were on one host."""
    repeats: int
    """The number of repeats of each level."""
    rpc_bytes: int | None = field(default=None, metadata={'required': False})
    """Bytes of a request, for requests; absent for bulk flows."""
    schema: Literal['weft-profile/1']
    """Name and version of this schema."""
    tried: list[ProfileTried] | None = field(default=None, metadata={'required': False})
    """Remarks that were tried, with `--try`."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A remark, drawn from the figures by a rule."""
    command: str
    """The command that would change it."""
    evidence: str
    """The figures that gave rise to it."""
    level: str
    """The level that it is about."""


@dataclass(frozen=True, kw_only=True)
class ConfigReport:
    """A level's figures."""
    bottleneck: Literal['sender', 'receiver'] | None
    """The limiting side."""
    bps: float
    """Throughput without the instrument, in payload bits per second: the median."""
    bps_per_busy_core: float | None
    """Throughput per core in use, of both sides together."""
    bps_per_core: float | None
    """Throughput per core of the side that limits: the larger part of its cores was in use."""
    bps_spread: list[float]
    """Its least and most."""
    cache_miss: float | None
    """Share of cache accesses that missed, of the limiting side's processes; null without a counter for them."""
    cpu_share: ByCategory
    """The kernel's time of both sides by category, as shares of 1."""
    flows: int
    """The number of flows."""
    foreign_share: float
    """The largest share of samples that other processes had."""
    interrupts_share: float
    """The median share that softirqs and interrupts of nobody known had."""
    latency_s: Latency | None
    """Latency from the stack's entry to the copy: the median of the runs' percentiles."""
    leaf_unmapped: float
    """Share of kernel time whose innermost function the table does not have."""
    level: str
    """The level's name."""
    lost_samples: int
    """Samples that were lost."""
    overhead: float | None
    """Loss of throughput by the instrument: the median of the runs' shares. Negative if throughput was higher with it."""
    probe_overhead: float | None
    """Cost of the programs at the tracepoints alone, as a share of both sides' processor time: the median of the runs'."""
    retransmitted: int
    """Segments that were sent again, in all runs."""
    runs: list[ProfileRun]
    """The runs."""
    sides: SideReportBySide
    """The sides."""
    skb_bytes: SkbSizes | None
    """Sizes of skbs and calls of all runs; null where eBPF could not run."""
    utilisation: Utilisation
    """Cores in use, of both sides together."""


@dataclass(frozen=True, kw_only=True)
class ProfileRun:
    """One repeat of one level."""
    bare_bps: float
    """Throughput without the instrument, in payload bits per second."""
    bps: float
    """Throughput with it."""
    cache_miss: KnownBySide
    """Share of cache accesses that missed, of each side's processes; null without a counter for them."""
    counted: CountedBytes | None = field(default=None, metadata={'required': False})
    """The flows' bytes since they were opened, counted by both hosts; absent on one host."""
    foreign_s: float
    """Time of other processes."""
    interrupts_s: float
    """Time of softirqs and interrupts of nobody known, as timers in ksoftirqd; older documents count it as others'."""
    latency: Latency | None
    """Latency; null where eBPF could not run, or nothing was sampled."""
    leaf_unmapped: float
    """Share of the sides' kernel time whose innermost function the table does not have; callers give most of it a category."""
    lost_samples: int
    """Samples that were lost."""
    probe_cores: float | None
    """Processors that the programs at the tracepoints used, by the kernel's statistics; null where they could not run."""
    receiver: SideTime
    """The receiver's."""
    repeat: int
    """The repeat, from 1."""
    sender: SideTime
    """The sender's processor time."""
    sizes: SkbSizes | None
    """Sizes; null where eBPF could not run."""
    span_s: float
    """The sampled time."""
    tool_s: float
    """Time of this program."""
    work: ProfileWork
    """The traffic in it."""


@dataclass(frozen=True, kw_only=True)
class KnownBySide:
    """weft-profile/1"""
    receiver: float | None = field(default=None, metadata={'required': False})
    """The side that receives them."""
    sender: float | None = field(default=None, metadata={'required': False})
    """The side that sends data, or requests."""


@dataclass(frozen=True, kw_only=True)
class CountedBytes:
    """The flows' bytes, counted by both hosts one after the other: `acked` is at most `received`, which is at most `sent`, and the
difference was on its way."""
    acked: int
    """Bytes that the receiver had acknowledged, by the sender."""
    received: int
    """Bytes received, by the receiver, asked after that."""
    sent: int
    """Bytes sent, by the sender, after the receiver's answer."""


@dataclass(frozen=True, kw_only=True)
class SideTime:
    """Processor time of a side in one run, in seconds."""
    categories_s: ByCategory
    """The kernel's time, by category."""
    softirq_s: float
    """In the kernel, in softirqs."""
    system_s: float
    """In the kernel, for a process."""
    user_s: float
    """In programs."""


@dataclass(frozen=True, kw_only=True)
class ProfileWork:
    """The traffic of a run, in counts of the kernel."""
    acks: int
    """TCP segments that it sent: acknowledgements, and responses."""
    bytes: int
    """Payload bytes received."""
    receiver_waits: int
    """Times that the receiver's processes gave up a processor to wait."""
    retransmitted: int
    """Segments that the sender sent again."""
    segments: int
    """TCP segments that the receiver's side received."""
    sender_waits: int
    """Times that the sender's processes did."""
    skbs: int
    """IP packets that it received, each of which may be several segments merged."""


@dataclass(frozen=True, kw_only=True)
class SideReportBySide:
    """weft-profile/1"""
    receiver: SideReport | None = field(default=None, metadata={'required': False})
    """The side that receives them."""
    sender: SideReport | None = field(default=None, metadata={'required': False})
    """The side that sends data, or requests."""


@dataclass(frozen=True, kw_only=True)
class SideReport:
    """A side's figures."""
    bps_per_core: float | None
    """Throughput per core in use by this side."""
    cache_miss: float | None
    """Share of cache accesses that missed; null without a counter for them."""
    cores: int
    """The number of cores that the side's processes were given."""
    cpu_share: ByCategory
    """The kernel's time by category, as shares of 1."""
    ns_per_byte: ByCategory
    """The kernel's time by category, in nanoseconds per payload byte."""
    utilisation: Utilisation
    """Cores in use."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """The receiving host of a measurement between two hosts."""
    address: str
    """Its address."""
    kernel: str
    """Its kernel's release."""
    name: str
    """Its name, as the user gave it."""
    processors: int
    """The processors that its server could use."""


@dataclass(frozen=True, kw_only=True)
class ProfileTried:
    """A remark that was tried in turns: trials without what it asks for, and with it."""
    bps: Effect | None = field(default=None, metadata={'required': False})
    """Throughput without the instrument, in payload bits per second."""
    command: str
    """The command whose effect was made; the remark's if it was not tried."""
    evidence: str
    """The figures that gave rise to the remark."""
    level: str
    """The level."""
    not_tried: str | None = field(default=None, metadata={'required': False})
    """The reason that it was not tried."""
    ns_per_byte: Effect | None = field(default=None, metadata={'required': False})
    """Processor time of both sides, in nanoseconds per payload byte."""
    with_: list[ProfileRun] = field(metadata={'key': 'with'})
    """The runs with."""
    without: list[ProfileRun]
    """The runs without."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A figure without a change and with it."""
    half_width: float | None
    """Half of the 95 % interval of the difference, Welch's over the runs; null with one run of each."""
    with_: float = field(metadata={'key': 'with'})
    """The mean with."""
    without: float
    """The mean without."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The document of `weft replay`."""
    classes: list[ReplayClass]
    """The classes in the policy's order."""
    conservation: Conservation
    """Whether every packet and byte is accounted for."""
    host: Host
    """The host of the replay."""
    schema: Literal['weft-replay/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class ReplayClass:
    """The departures and drops of one class."""
    bytes: int
    """Bytes that left."""
    class_: str = field(metadata={'key': 'class'})
    """Its name."""
    dropped: dict[str, Counted]
    """Packets and bytes dropped, by reason."""
    first_s: float | None
    """The first departure, in seconds since the trace's first packet; null if there was none."""
    last_s: float | None
    """The last departure, in seconds since the trace's first packet; null if there was none."""
    packets: int
    """Packets that left."""


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """The document of `weft reproduce`."""
    experiments: list[Experiment]
    """The experiments in the order in which they ran."""
    host: Host
    """The host of the run."""
    schema: Literal['weft-reproduce/1']
    """Name and version of this schema."""
    seed: int
    """The first seed."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment: a table or a figure."""
    cells: list[TableCell]
    """Cells of its table."""
    claims: list[Claim]
    """The paper's claims in words."""
    events: int
    """The simulated events of all its runs."""
    id: str
    """Its id, such as `titan-tr-table3`."""
    measured_on: str | None
    """The host and time of the measured values; absent if the document's own host measured them in this run."""
    median_relative_error: float | None
    """Median of |simulated - published| / published over all cells with both values, with the column's floor as the least
denominator."""
    notes: list[str]
    """Notes for readers."""
    scores: list[Score]
    """Scores by column."""
    series: list[Series]
    """The series of its plots."""
    source: str
    """Paper and table or figure."""
    tau: dict[str, float | None]
    """Kendall's tau by column, over all rows and flow counts with both values; null with fewer than two."""
    title: str
    """Its title."""
    wall_s: float
    """The duration, in seconds."""


@dataclass(frozen=True, kw_only=True)
class TableCell:
    """A cell: a row (configuration) and column (metric) at a number of flows."""
    band: list[float] | None
    """5th and 95th percentile of the mean of as many runs as the paper averaged."""
    column: str
    """Metric."""
    floor: float
    """The least denominator of the relative error; smaller differences are meaningless."""
    flows: int
    """Number of flows, or value of the parameter that the experiment varies."""
    measured: float | None
    """The measured value, from this machine or the one that the measurement names; the mean of several runs."""
    measured_runs: list[float]
    """The measured runs, in the order of their seeds."""
    measured_spread: list[float] | None
    """The smallest and the largest of the measured runs."""
    note: str | None
    """The reason for a deviation, if known."""
    published: float | None
    """The published value."""
    row: str
    """Configuration."""
    runs: int
    """The number of runs in the paper."""
    seeds: int
    """The number of simulated runs."""
    simulated: float | None
    """Mean over the simulated runs."""
    unit: str
    """Unit of the values."""
    verdict: Literal['inside band', 'within 25 %', 'off', 'not comparable']
    """The verdict."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of the paper, with the corresponding figures."""
    expected: str
    """The condition on the figures."""
    holds: bool
    """Whether it holds."""
    not_shown: str | None
    """The reason why these figures cannot show the claim, such as that its null model would pass too. The claim then does not hold."""
    null: str | None
    """The null model: the figures that would result if the claim were false; absent for exact counts."""
    null_passes: bool | None
    """Whether the conditions hold for the null model's figures; absent without a null model."""
    simulated: str
    """The figures: simulated, or measured where the statement or the experiment says so."""
    statement: str
    """The statement."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Scores of a column."""
    cells: int
    """The number of cells with both values."""
    close: int
    """Cells in the band or within 25 %."""
    column: str
    """The column."""
    inside_band: int
    """Cells whose published value lies in the band."""
    median_relative_error: float | None
    """Median relative error."""
    pairs_distinguishable: int
    """The number of such pairs."""
    tau: float | None
    """Kendall's tau-b over all pairs of these cells."""
    tau_distinguishable: float | None
    """The same over pairs of equal flow count whose published difference exceeds both cells' bands and floors: pairs that a
perfect model would order as published."""
    within_25_percent: int
    """Cells within 25 %, in the band or not."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """A series of a plot."""
    kind: str
    """`line`, `step`, `points` or `reference`."""
    name: str
    """Its name."""
    plot: str
    """The plot that contains it."""
    x: list[float]
    """x, ascending."""
    x_label: str
    """The quantity on x."""
    y: list[float]
    """y."""
    y_label: str
    """The quantity on y."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The document of `weft run`."""
    classes: list[RunClass]
    """The classes in the policy's order."""
    conservation: Conservation
    """Whether every packet and byte is accounted for."""
    counters: PortEvents
    """Packets of rare events at the ports, by counter."""
    dropped: PathDrops
    """Packets dropped, by reason."""
    duration_s: float
    """The duration, in seconds."""
    host: Host
    """The host of the run."""
    lags: list[RunLag]
    """The largest lag of each leaf of the policy without a rate limit behind the fluid schedule."""
    receive: RunReceive | None = field(default=None, metadata={'required': False})
    """The receive direction, from the uplink to the port. Absent in documents of earlier versions."""
    schema: Literal['weft-run/1']
    """Name and version of this schema."""
    uplink: RunUplink
    """The uplink's device."""


@dataclass(frozen=True, kw_only=True)
class RunClass:
    """The counters of one class."""
    bytes: int
    """Bytes sent."""
    class_: str = field(metadata={'key': 'class'})
    """Its name."""
    counters: ClassEvents
    """Packets of rare events of the class, by counter."""
    dropped_bytes: int
    """Bytes dropped."""
    dropped_packets: int
    """Packets dropped."""
    packets: int
    """Packets sent."""


@dataclass(frozen=True, kw_only=True)
class ClassEvents:
    """Packets of rare events of a class."""
    late_claims: int
    """Packets that asked for a time too late for a ring that flows share, and were sent as if they asked for none."""
    untracked: int
    """Packets of flows beyond the flow bound, which share the rings of others."""


@dataclass(frozen=True, kw_only=True)
class PortEvents:
    """Packets of rare events at a port, or at all ports together."""
    cut_packets: int
    """Segments of super-packets that were cut behind their doorbell, posted before the ring."""
    infrastructure_excess: int
    """Packets of infrastructure beyond its share, scheduled as any other."""
    obscured_drops: int
    """Packets dropped because their class could not be determined."""
    strays: int
    """Packets found in a ring without a doorbell."""
    unannounced_drops: int
    """Packets dropped because they bypassed the program at the egress, so that no doorbell announced them."""
    unknown_makers: int
    """Packets of sockets of which it is not known which process made them, while the policy tests that."""


@dataclass(frozen=True, kw_only=True)
class PathDrops:
    """Packets dropped on the path, by reason."""
    backlog: int
    """The receive backlog between the ends of the port was full."""
    bound: int
    """Their class had reached its bound."""
    lost: int
    """Their doorbell was posted, they never arrived, and no counter of the kernel records them. The accounting does not balance."""
    moving: int
    """Their flow was changing its class, and its old ring still had packets."""
    qdisc: int
    """A qdisc at the port dropped them: one that a user has installed, or the FIFOs of a TAP."""
    refused: int
    """The uplink refused them: it is down, or does not support such packets. A full uplink is waited for."""
    ring_full: int
    """Their ring was full."""
    stray: int
    """No doorbell announced them, or their class could not be determined."""
    uplink: int
    """The uplink's device dropped them after accepting them."""


@dataclass(frozen=True, kw_only=True)
class RunLag:
    """The largest lag of a class, or of classes that share a queue, behind the fluid schedule of the backlogged ones."""
    bound_bytes: int
    """The largest lag that the schedule may cause with the chunks that were sent, in bytes on the wire."""
    class_: str = field(metadata={'key': 'class'})
    """The name of the class or of the leaf of the policy."""
    lag_bytes: int
    """The part of its due that it did not have at that time, in bytes on the wire."""
    lag_s: float | None
    """The time of these bytes at the rate of the bottleneck; null without a known rate."""


@dataclass(frozen=True, kw_only=True)
class RunReceive:
    """Received packets, by carrier."""
    by: Literal['kernel', 'thread']
    """The carrier."""
    dropped_packets: int
    """Packets that did not reach the port: it was down, they were above its MTU, or its receive backlog was full."""
    reason: str | None = field(default=None, metadata={'required': False})
    """The reason for the thread, if it is the thread."""
    redirected_bytes: int
    """Their bytes."""
    redirected_packets: int
    """Packets redirected by the kernel."""
    thread_bytes: int
    """Their bytes."""
    thread_packets: int
    """Packets read by the thread."""


@dataclass(frozen=True, kw_only=True)
class RunUplink:
    """The treatment of the uplink's device."""
    ahead_max_s: float
    """The furthest that the link's clock was ahead when such a turn began."""
    observed_bps: float | None
    """The rate that the device last showed by its back-pressure; null if it was not the bottleneck at the end."""
    overdrawn_turns: int
    """Turns of urgent classes that began although the link's clock was ahead."""
    waits: int
    """Waits for room in the device."""


@dataclass(frozen=True, kw_only=True)
class Sim:
    """The document of `weft sim`. Flows, latencies and processors are those of the first seed; `spread` covers all seeds."""
    class_drops: dict[str, dict[str, Counted]] | None = field(default=None, metadata={'required': False})
    """Class -> reason -> packets and bytes dropped, first seed, warm-up included. The class is that of the policy of the sender's NIC;
without a policy, that of the flow. The sums over the classes are the drops of `conservation`."""
    conservation: Conservation
    """The accounting."""
    counters: dict[str, int]
    """Counters of all hosts together, first seed, warm-up included."""
    cpu: list[list[dict[str, float]]]
    """Busy seconds by host, core and category."""
    events: int
    """The events of all runs."""
    flows: list[SimFlow]
    """Flows of the first seed."""
    host: Host
    """The host of the run."""
    latency_s: dict[str, SimLatency]
    """Round-trip times of probes, and latencies of requests by group, in seconds."""
    nfm: dict[str, SimFairness]
    """NFM by interval."""
    policy_changes: list[SimPolicyChange] | None = field(default=None, metadata={'required': False})
    """Changes of hosts' policies, first seed."""
    scenario: str
    """The scenario's name."""
    schema: Literal['weft-sim/1']
    """Name and version of this schema."""
    seed: int
    """The first seed."""
    seeds: int
    """The number of seeds."""
    sim_s: float
    """The measured part of one run, in simulated seconds."""
    spread: dict[str, SimSpread]
    """Means and ranges over the seeds, by quantity."""
    stopped: bool | None = field(default=None, metadata={'required': False})
    """Whether the user stopped the run: more seeds than `seeds` were requested, and the document has only the completed ones."""
    throughput_bps: float
    """The rate of departing frames of flows, in bits per second."""
    unbalanced_seeds: list[int] | None = field(default=None, metadata={'required': False})
    """Seeds of runs with packets or bytes unaccounted for, which is a defect of the simulator."""
    wall_s: float
    """The duration of all runs, in seconds."""


@dataclass(frozen=True, kw_only=True)
class SimFlow:
    """A flow."""
    bps: float
    """Their rate in bits per second."""
    bytes: int
    """Frame bytes that departed in the measured part."""
    completion_s: float | None
    """From start to completion in seconds, for a finite flow that completed."""
    group: str
    """Its group."""
    received_bytes: int
    """Payload received, in bytes."""
    retransmitted: int
    """Retransmitted packets."""


@dataclass(frozen=True, kw_only=True)
class SimLatency:
    """Percentiles of a latency, in seconds."""
    mean: float
    """Mean."""
    p50: float
    """Median."""
    p90: float
    """90th percentile."""
    p99: float
    """99th percentile."""
    p999: float
    """99.9th percentile."""
    samples: int
    """Number of samples."""


@dataclass(frozen=True, kw_only=True)
class SimFairness:
    """NFM over an interval."""
    max: float | None
    """Largest value."""
    mean: float | None
    """Mean over windows; null without a window."""
    windows: int
    """Number of windows."""


@dataclass(frozen=True, kw_only=True)
class SimPolicyChange:
    """A change of a host's policy."""
    at_s: float
    """Its time, from the start of the run, in seconds."""
    classes: list[SimPolicyClass]
    """The classes of the policies before and after."""
    host: int
    """The index of the host."""
    refused: str | None = field(default=None, metadata={'required': False})
    """The reason why it was refused, so that what was in force stayed."""
    steps: list[str]
    """The differences, in the policy's words."""
    warnings: list[str]
    """Tenants that do without their files, and effects that the author may not have meant."""
    what: str
    """The tenant and its file, or the policy."""


@dataclass(frozen=True, kw_only=True)
class SimPolicyClass:
    """A class of a policy that changes."""
    after_bps: float | None
    """The rate from this change to the next, or to the end of the run; `None` for a class that is gone."""
    before_bps: float | None
    """The rate of its departing frames from the change before, or the start of the run, to this one; `None` for a class that is new."""
    class_: str = field(metadata={'key': 'class'})
    """Its name."""


@dataclass(frozen=True, kw_only=True)
class SimSpread:
    """Mean and range over seeds."""
    max: float
    """Largest value."""
    mean: float
    """Mean."""
    min: float
    """Smallest value."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """The document of `weft status`."""
    backlogged_rings: int
    """Rings with packets that wait."""
    classes: list[StatusClass]
    """The classes in the policy's order."""
    counters: PortEvents
    """Packets of rare events at the ports, by counter."""
    draining: StatusDraining | None = field(default=None, metadata={'required': False})
    """The drains under way; absent without one."""
    dropped: PathDrops
    """Packets dropped, by reason."""
    failed_readings: int
    """Failed readings of the kernel's counters."""
    generation: int
    """The number of the policy in force: 1 at the start of the daemon, one more with each replacement."""
    host: Host
    """The host of the daemon."""
    limits: list[StatusLimit]
    """The rate limits in the policy's order."""
    policy: str
    """The name of the policy."""
    policy_change_pause_s: float
    """The longest time for which a replacement of the policy kept the worker from sending, in seconds; 0 before the first."""
    policy_hash: str
    """The SHA-256 of the policy's text, in hexadecimal digits."""
    ports: list[StatusPort]
    """The ports."""
    received_packets: int
    """Packets received through the uplink."""
    schema: Literal['weft-status/1']
    """Name and version of this schema."""
    steer: StatusSteer | None = field(default=None, metadata={'required': False})
    """The receive steering of the host's NIC, where the configuration wants it and no single uplink was asked for."""
    tenants: list[StatusTenant] | None = field(default=None, metadata={'required': False})
    """The tenants of the policy, each before those below it."""
    uplink: StatusUplink
    """The interface through which packets leave."""
    uplinks: list[ServiceStatus] | None = field(default=None, metadata={'required': False})
    """The counters of each uplink, where there are several and none was asked for; the others are then those of the default
uplink, or of the first."""
    uptime_s: float
    """The time since the daemon started, in seconds."""
    warnings: list[str] | None = field(default=None, metadata={'required': False})
    """Differences from what was made, as sentences: for a policy in the kernel."""
    worker: Literal['waiting', 'running', 'ended']
    """The state of the transmit worker."""
    worker_bound: bool
    """Whether the transmit worker, not the link, is the bottleneck."""


@dataclass(frozen=True, kw_only=True)
class StatusClass:
    """The counters of a class."""
    backlog_bytes: int
    """Bytes that wait."""
    bps: float
    """The rate on the wire over the last second."""
    bytes: int
    """Bytes sent."""
    class_: str = field(metadata={'key': 'class'})
    """Its name."""
    counters: ClassEvents
    """Packets of rare events of the class, by counter."""
    dropped: ClassDrops
    """Packets dropped, by reason."""
    entitled_bps: float | None
    """The rate that the policy guarantees; null where it cannot be known."""
    entitled_reason: str | None = field(default=None, metadata={'required': False})
    """The reason for an unknown entitlement."""
    packets: int
    """Packets sent."""
    sojourn_histogram: Histogram | None = field(default=None, metadata={'required': False})
    """The histogram of the waiting time since the class began; absent before its first packet has left."""
    sojourn_reason: str | None = field(default=None, metadata={'required': False})
    """The reason for absent waiting times."""
    sojourn_s: Percentiles | None
    """Percentiles of the waiting time since the class began; null before its first packet has left."""


@dataclass(frozen=True, kw_only=True)
class ClassDrops:
    """Packets of a class dropped, by reason."""
    bound: int
    """The class had reached its bound."""
    horizon: int
    """A limit by destination or port would have held them for longer than its horizon."""
    moving: int
    """Their flow was changing its class, and its old ring still had packets."""
    qdisc: int
    """The kernel's qdisc of the class was full, or they had waited in it for long."""
    refused: int
    """The uplink refused them."""
    ring_full: int
    """Their ring was full."""


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """A histogram of times."""
    bounds_s: list[float]
    """The upper bounds of the buckets, in seconds, ascending."""
    count: int
    """The number of packets."""
    counts: list[int]
    """The packets in each bucket. One more than there are bounds: the last counts the packets above all bounds."""
    sum_s: float
    """The sum of all times, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Percentiles:
    """Percentiles of a time, in seconds."""
    p50: float
    """The median."""
    p90: float
    """The 90th percentile."""
    p99: float
    """The 99th percentile."""
    p999: float
    """The 99.9th percentile."""


@dataclass(frozen=True, kw_only=True)
class StatusDraining:
    """Rings that flows wait for, since they have left packets there before they changed their class."""
    limit_s: float
    """The time after which the class that takes the flow sends what stands before, in seconds."""
    longest_s: float
    """The time for which the first of them has been waited for, in seconds."""
    rings: int
    """The rings."""


@dataclass(frozen=True, kw_only=True)
class StatusLimit:
    """A rate limit."""
    bps: float | None
    """The rate through it over the last second; null where classes send with and without it."""
    classes: list[str]
    """The classes with traffic below it."""
    limit: str
    """Its name."""
    limit_bps: float
    """Its rate."""


@dataclass(frozen=True, kw_only=True)
class StatusPort:
    """A port."""
    addresses: list[str]
    """Its addresses, each with its prefix length."""
    configured: bool
    """Whether it comes from the daemon's configuration."""
    counters: PortEvents
    """Packets of rare events at the port, by counter."""
    dropped_packets: int
    """Packets dropped on their way to or from the port."""
    egress_limit: PortLimit | None = field(default=None, metadata={'required': False})
    """The limit of what it sends, beside those of the policy."""
    ingress_limit: PortLimit | None = field(default=None, metadata={'required': False})
    """The limit of what it receives."""
    kind: str
    """The kind of device."""
    mac: str
    """Its hardware address."""
    netns: str | None
    """Its namespace; null for the daemon's."""
    owner_uid: int
    """The user who added it."""
    port: str
    """Its name."""
    receive: str
    """The carrier of received packets."""
    received_packets: int
    """Packets received."""
    rings: int
    """The number of its descriptor rings."""
    sent_bytes: int
    """Bytes sent."""
    sent_packets: int
    """Packets sent."""
    uplink: str | None = field(default=None, metadata={'required': False})
    """The uplink, if the configuration names its uplinks."""


@dataclass(frozen=True, kw_only=True)
class PortLimit:
    """A limit of a port's packets in one direction."""
    burst_bytes: int
    """The bytes that pass at once after a pause."""
    rate_bps: int
    """The rate on the wire, in bits per second."""


@dataclass(frozen=True, kw_only=True)
class StatusSteer:
    """The receive steering that the daemon keeps."""
    changes: int
    """The changes made so far."""
    degraded: list[str]
    """The wishes of the policy that were given up, as sentences."""
    error: str | None
    """The reason for which the plan is not applied at present."""
    flows: int
    """The flows of the plan."""
    interface: str
    """The interface."""
    netns: str | None
    """Its namespace; null for the daemon's."""
    nic: str
    """The model of the NIC."""
    policy: str
    """The steering policy."""
    rules: int
    """The rules that are set."""
    table: bool
    """Whether the main table is set."""


@dataclass(frozen=True, kw_only=True)
class StatusTenant:
    """A tenant of the policy in force."""
    cgroup: str | None
    """The cgroup to which its packets are restricted; null if they are not."""
    file: str | None
    """The name of the file in force; null without one, so that its packets share one FIFO."""
    hash: str | None
    """The SHA-256 of the file's text, in hexadecimal digits."""
    origin: Literal['policy', 'attached', 'detached']
    """The origin of the file, or of its absence."""
    owner_uid: int | None
    """The user who attached or detached the file; null if nobody did."""
    quotas: list[StatusQuota]
    """Its quotas, with their use."""
    refusal: StatusRefusal | None
    """The last file that was refused since the one in force was accepted."""
    since_unix_s: int
    """The time from which the file, or the FIFO, is in force, in seconds since 1970."""
    tenant: str
    """Its name in the operator's policy."""
    uplink: str | None = field(default=None, metadata={'required': False})
    """The uplink, if the configuration names its uplinks."""


@dataclass(frozen=True, kw_only=True)
class StatusQuota:
    """A quota of a tenant."""
    most: int
    """The most that the tenant may use."""
    quota: Literal['classes', 'nodes', 'limits', 'flows', 'cost']
    """The word of the language: `classes`, `nodes`, `limits`, `flows`, or `cost` in nanoseconds."""
    used: int
    """The use of the file in force; 0 without one."""


@dataclass(frozen=True, kw_only=True)
class StatusRefusal:
    """A tenant's file that was refused."""
    at_unix_s: int
    """The time, in seconds since 1970."""
    error: str
    """The first error, in a line with its place."""


@dataclass(frozen=True, kw_only=True)
class StatusUplink:
    """The interface through which packets leave."""
    backend: Literal['port', 'kernel']
    """The carrier of the policy."""
    interface: str
    """The name of the interface."""
    name: str | None = field(default=None, metadata={'required': False})
    """The name of the uplink; absent where the configuration has one without a name."""
    netns: str | None
    """Its namespace; null for the daemon's."""
    observed_bps: float | None
    """The rate that the device shows by its back-pressure; null while it is not the bottleneck."""
    rate_bps: float | None
    """The rate of the link, if the policy or the configuration gives one."""
    up: bool
    """Whether it has a carrier."""


@dataclass(frozen=True, kw_only=True)
class ServiceStatus:
    """The counters of a running daemon."""
    backlogged_rings: int
    """Rings with packets that wait."""
    classes: list[StatusClass]
    """The classes in the policy's order."""
    counters: PortEvents
    """Packets of rare events at the ports, by counter."""
    draining: StatusDraining | None = field(default=None, metadata={'required': False})
    """The drains under way; absent without one."""
    dropped: PathDrops
    """Packets dropped, by reason."""
    failed_readings: int
    """Failed readings of the kernel's counters."""
    generation: int
    """The number of the policy in force: 1 at the start of the daemon, one more with each replacement."""
    limits: list[StatusLimit]
    """The rate limits in the policy's order."""
    policy: str
    """The name of the policy."""
    policy_change_pause_s: float
    """The longest time for which a replacement of the policy kept the worker from sending, in seconds; 0 before the first."""
    policy_hash: str
    """The SHA-256 of the policy's text, in hexadecimal digits."""
    ports: list[StatusPort]
    """The ports."""
    received_packets: int
    """Packets received through the uplink."""
    steer: StatusSteer | None = field(default=None, metadata={'required': False})
    """The receive steering of the host's NIC, where the configuration wants it and no single uplink was asked for."""
    tenants: list[StatusTenant] | None = field(default=None, metadata={'required': False})
    """The tenants of the policy, each before those below it."""
    uplink: StatusUplink
    """The interface through which packets leave."""
    uplinks: list[ServiceStatus] | None = field(default=None, metadata={'required': False})
    """The counters of each uplink, where there are several and none was asked for; the others are then those of the default
uplink, or of the first."""
    uptime_s: float
    """The time since the daemon started, in seconds."""
    warnings: list[str] | None = field(default=None, metadata={'required': False})
    """Differences from what was made, as sentences: for a policy in the kernel."""
    worker: Literal['waiting', 'running', 'ended']
    """The state of the transmit worker."""
    worker_bound: bool
    """Whether the transmit worker, not the link, is the bottleneck."""


@dataclass(frozen=True, kw_only=True)
class SteerImport:
    """The document of `weft steer import`: a device's current configuration."""
    contexts: list[SteerContext]
    """RSS contexts; the main one is 0."""
    device: str
    """The interface."""
    filters: list[SteerFilter]
    """Rules that the model supports."""
    foreign: list[ForeignRule]
    """Rules that the model does not support, which are left alone."""
    host: Host
    """The host of the run."""
    locations: list[int | None]
    """The location of each of them, in the same order; null if unknown."""
    nic: str
    """Name of the NIC's model."""
    notes: list[str]
    """Settings that could not be read, in sentences."""
    schema: Literal['weft-steer-import/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class SteerContext:
    """An RSS context."""
    context: int
    """Its number."""
    indirection: list[int]
    """The indirection table."""


@dataclass(frozen=True, kw_only=True)
class SteerFilter:
    """A rule."""
    action: str
    """`queue 3`, `context 1`, `drop`."""
    match: str
    """Header fields, in the syntax of model files."""
    priority: int
    """Precedence."""
    table: str
    """The table's name."""


@dataclass(frozen=True, kw_only=True)
class ForeignRule:
    """A rule that a model does not support."""
    location: int
    """Its location."""
    reason: str
    """The reason why the model does not support it."""
    rule: str
    """The rule in ethtool's syntax."""


@dataclass(frozen=True, kw_only=True)
class SteerModels:
    """The document of `weft steer models`."""
    host: Host
    """The host of the run."""
    models: list[SteerModel]
    """The models."""
    schema: Literal['weft-steer-models/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class SteerModel:
    """A NIC model."""
    contexts: int
    """RSS contexts besides the main one."""
    facts: list[SteerFact]
    """Facts about the model, with sources."""
    indirection: int | None
    """Entries of RSS's indirection table; null without RSS."""
    name: str
    """Its name on the command line."""
    queues: int
    """Receive queues."""
    tables: list[SteerTable]
    """Filter tables: name and entries, in the order of the graph if the model has one."""
    title: str
    """Its name for people."""


@dataclass(frozen=True, kw_only=True)
class SteerFact:
    """A statement with its source."""
    source: str
    """Its source."""
    text: str
    """The statement."""


@dataclass(frozen=True, kw_only=True)
class SteerTable:
    """A filter table of a model."""
    entries: int
    """Entries."""
    interface: str
    """Its interface for configuration: `ethtool ntuple rules`, `tc flower`, and so on."""
    name: str
    """Its name."""


@dataclass(frozen=True, kw_only=True)
class SteerPlan:
    """The document of `weft steer plan`."""
    changes: list[str]
    """The changes from the previous configuration, in order, in sentences."""
    contexts: list[SteerContext]
    """RSS contexts; the main one is 0."""
    cost: float | None
    """The plan's cost by the policy; null if the policy rejects it."""
    degraded: list[str]
    """The compromises of the plan, in sentences."""
    filters: list[SteerFilter]
    """Rules of the filter tables."""
    flows: list[SteerFlow]
    """The queue of each flow, in the order of the flow file."""
    host: Host
    """The host of the run."""
    nic: str
    """Name of the NIC's model."""
    policy: str
    """The policy, as written."""
    queues: list[SteerQueue]
    """The queues and their flows."""
    rejected: str | None
    """The reason for the rejection, if rejected."""
    schema: Literal['weft-steer-plan/1']
    """Name and version of this schema."""
    unverified: list[str]
    """Unverified facts of the model on which this plan depends, in sentences."""
    wall_s: float
    """The duration of the search, in seconds."""


@dataclass(frozen=True, kw_only=True)
class SteerFlow:
    """A flow."""
    by: Literal['rule', 'hash', 'spread', 'default']
    """The mechanism that selects the queue: `rule`, `hash`, `spread`, `default`."""
    class_: str | None = field(metadata={'key': 'class'})
    """Its class."""
    match: str
    """Its header fields."""
    queue: int | None
    """Its queue; null if its packets may use several."""


@dataclass(frozen=True, kw_only=True)
class SteerQueue:
    """A queue."""
    classes: dict[str, int]
    """Flows by class, without those that have no class."""
    flows: int
    """Flows that certainly use this queue."""
    queue: int
    """Its number."""
    weight: int
    """The sum of their weights."""


@dataclass(frozen=True, kw_only=True)
class SteerProbe:
    """The document of `weft steer probe`: the rules that a driver accepts."""
    device: str
    """The interface."""
    host: Host
    """The host of the run."""
    left: list[int]
    """Locations of rules that could not be deleted afterwards."""
    nic: str
    """Name of the NIC's model."""
    probes: list[ProbedRule]
    """The attempted rules."""
    schema: Literal['weft-steer-probe/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class ProbedRule:
    """An attempted rule."""
    expected: bool
    """Whether the model predicts that it works."""
    refusal: str | None
    """The driver's refusal."""
    table: str
    """The table's name."""
    taken: bool
    """Whether the driver accepted it."""
    what: str
    """The rule in words."""


@dataclass(frozen=True, kw_only=True)
class SteerVerify:
    """The document of `weft steer verify`."""
    flows: list[VerifiedFlow]
    """The flows sent."""
    host: Host
    """The host of the run."""
    nic: str
    """Name of the NIC's model."""
    ok: bool
    """Whether every packet of every flow arrived at the predicted queue."""
    packets_per_flow: int
    """Packets sent of each flow."""
    schema: Literal['weft-steer-verify/1']
    """Name and version of this schema."""
    wall_s: float
    """The duration, in seconds."""


@dataclass(frozen=True, kw_only=True)
class VerifiedFlow:
    """A flow that was sent."""
    counted: dict[str, int]
    """Packets received, by queue."""
    dropped: int
    """Packets dropped by a rule."""
    match: str
    """Its header fields."""
    ok: bool
    """Whether all packets arrived as predicted, and the planner agrees."""
    planned_elsewhere: str | None
    """The planner's prediction if it differs from the model's; null if they agree."""
    predicted: list[int]
    """The queues that the model predicts: one, several for a flow with wildcards that is spread, none for a drop."""


@dataclass(frozen=True, kw_only=True)
class Tenants:
    """The document of `weft tenant list`."""
    generation: int
    """The number of the policy in force; with several uplinks, of the default one."""
    host: Host
    """The host of the daemon."""
    schema: Literal['weft-tenants/1']
    """Name and version of this schema."""
    tenants: list[StatusTenant]
    """The tenants."""


@dataclass(frozen=True, kw_only=True)
class TitanStatus:
    """The document of `weft titan status`."""
    devices: list[TitanDevice]
    """The devices with queue assignment enabled."""
    host: Host
    """The host of the run."""
    schema: Literal['weft-titan-status/1']
    """Name and version of this schema."""


@dataclass(frozen=True, kw_only=True)
class TitanDevice:
    """A device."""
    assignment: str
    """The method of choosing a queue."""
    attached_s: float
    """The time since it was enabled, in seconds."""
    departures: str
    """The source of departures: `destructors` or `tracepoints`."""
    device: str
    """Its name."""
    events: TitanEvents
    """The events since it was enabled."""
    flows: int
    """Flows that sent in the window."""
    jain: float | None
    """Jain's index of the same rates: 1 is fair."""
    netns: str
    """Its network namespace."""
    notes: list[str]
    """Features that do not work here, with reasons."""
    parts: list[str]
    """The enabled parts: `dqa`, `dqwa`, `dsos`."""
    program_ns: float | None
    """Time in weftline's programs per packet, in nanoseconds, departures included; null unless the kernel's statistics are on."""
    queues: list[TitanQueue]
    """The queues."""
    unfairness: float | None
    """Difference between the largest and the smallest rate of the flows that were active throughout, each divided by its weight,
over their mean: 0 is fair. Null with fewer than two such flows."""
    window_s: float
    """The window for rates and fairness, in seconds."""


@dataclass(frozen=True, kw_only=True)
class TitanEvents:
    """The events at a device."""
    activations: int
    """Flows that became active."""
    beyond: int
    """Activations left to the device's own choice, because the limit on active flows was reached."""
    kept: int
    """Activations that kept the queue because the NIC still held a packet of the flow."""
    moves: int
    """Activations that moved the flow to another queue."""
    passed: int
    """Packets of flows that were active when it was enabled, left to the device's own choice."""
    repaired: int
    """Flows whose last departure was not observed, and that were counted out later."""
    without_socket: int
    """Packets without a TCP or UDP socket, left to the device's own choice."""


@dataclass(frozen=True, kw_only=True)
class TitanQueue:
    """A queue."""
    bps: int
    """The rate in the window."""
    bytes: int
    """Bytes assigned to it so far."""
    flows: int
    """Active flows."""
    moves: int
    """Flows that moved to it from another queue."""
    packets: int
    """Segments assigned to it so far."""
    queue: int
    """Its number."""
    standing_bytes: int
    """Bytes assigned to it that have not departed."""
    weight: int
    """The sum of their weights."""


@dataclass(frozen=True, kw_only=True)
class Tune:
    """The document of `weft tune`."""
    assumed: list[str]
    """Values of the scenario that no fact gives."""
    candidates: list[Candidate]
    """The present setting first, then the candidates, the best first; those that were not simulated at the end."""
    costs: str
    """The costs of the processors' work."""
    device: str
    """The device."""
    facts: list[Fact]
    """The facts."""
    host: Host
    """The host."""
    labels: list[str]
    """Limits of the figures."""
    schema: Literal['weft-tune/1']
    """Name and version of this schema."""
    seed: int
    """The first seed."""
    seeds: int
    """Seeds of the ranking."""
    tried_at: str | None
    """The place of the trials with real traffic; null without trials."""
    unknown: list[str]
    """Facts that decide and are unknown, or that the simulator has no model of, with what to do. With one nothing is simulated."""
    verdict: TuneVerdict
    """The verdict."""
    wish: Literal['fairness', 'latency', 'throughput', 'processor']
    """The wish."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A setting of the host: the present one, or another."""
    change: str
    """The difference to the present setting."""
    commands: list[str]
    """The commands that set it."""
    deciding: list[TuneFigures]
    """Further runs, of the present setting and of the best candidate."""
    effect: Effect | None
    """The difference of the wish's figure to the present setting; null for that itself, and without runs."""
    name: str
    """Its name."""
    not_simulated: str | None
    """The reason that it was not simulated; null if it was."""
    present: bool
    """Whether it is the present setting."""
    ranking: list[TuneFigures]
    """The runs of the ranking."""
    source: str
    """The source of the reason to try it."""
    tried: TuneTried | None
    """Real traffic; null if none was asked for."""


@dataclass(frozen=True, kw_only=True)
class TuneFigures:
    """The figures of one run."""
    bps: float
    """Payload received per second, in bits."""
    latency_s: float | None
    """The 90th percentile of round trips of small messages; null without an answer."""
    nfm: float | None
    """NFM over the measured part: the difference of the flows with the most and the fewest bytes, over the fair share; null without flows."""
    ns_per_byte: float | None
    """Processor time of the sender in nanoseconds per payload byte; null without costs."""


@dataclass(frozen=True, kw_only=True)
class TuneTried:
    """Runs of real traffic, and the simulator's figures for the same testbed."""
    measured: list[TuneFigures]
    """Runs of real traffic."""
    not_tried: str | None
    """The reason that it was not tried; null if it was."""
    simulated: list[TuneFigures]
    """Runs in the simulator."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A fact about the host."""
    name: str
    """Its name."""
    value: str | None
    """Its value; null if it is unknown."""


@dataclass(frozen=True, kw_only=True)
class TuneVerdict:
    """The verdict of a document."""
    because: str
    """The reason, as a sentence."""
    candidate: str | None
    """The candidate that is advised; null without advice."""
    conclusion: Literal['advice', 'nothing-better', 'does-not-know']
    """Its kind."""
    effect: Effect | None
    """The difference of the wish's figure that decides; null where no runs decide."""
    price: list[str]
    """Other figures that the advised candidate makes worse."""


DOCUMENTS: dict[str, type[Any]] = {
    'weft-apply/1': Apply,
    'weft-bench-cost/1': BenchCost,
    'weft-bench-roofline/1': BenchRoofline,
    'weft-bench-workers/1': BenchWorkers,
    'weft-bench/1': Bench,
    'weft-campaign-status/1': CampaignStatus,
    'weft-campaign/1': Campaign,
    'weft-config/1': Config,
    'weft-cross/1': Cross,
    'weft-demo/1': Demo,
    'weft-doctor/1': Doctor,
    'weft-playground/1': Playground,
    'weft-policy-check/1': PolicyCheck,
    'weft-policy-cost/1': PolicyCost,
    'weft-policy-diff/1': PolicyDiff,
    'weft-policy-explain/1': PolicyExplain,
    'weft-policy-test/1': PolicyTest,
    'weft-predict/1': Predict,
    'weft-profile-attached/1': ProfileAttached,
    'weft-profile/1': Profile,
    'weft-replay/1': Replay,
    'weft-reproduce/1': Reproduce,
    'weft-run/1': Run,
    'weft-sim/1': Sim,
    'weft-status/1': Status,
    'weft-steer-import/1': SteerImport,
    'weft-steer-models/1': SteerModels,
    'weft-steer-plan/1': SteerPlan,
    'weft-steer-probe/1': SteerProbe,
    'weft-steer-verify/1': SteerVerify,
    'weft-tenants/1': Tenants,
    'weft-titan-status/1': TitanStatus,
    'weft-tune/1': Tune,
}
"""The class of each document, by its `schema`."""
