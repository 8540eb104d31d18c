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
class BenchCost:
    """The document of `weft bench cost --json FILE`. Processor time and latency of a port, beside peers measured in the same rounds. All numbers in SI base units (bits per second, seconds) unless the name says otherwise; throughput is TCP payload."""
    schema: Literal['weft-bench-cost/1']
    """Name and version of this schema."""
    host: Host
    runs: int
    """The number of rounds of each case."""
    cases: list[BenchCostCase]
    """The cases in the order they ran."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """The host the document was made on."""
    kernel: str
    """Kernel release."""
    cores: int
    """CPUs that the program may use."""
    detected: dict[str, Any]
    """Whatever else was detected: name -> value."""


@dataclass(frozen=True, kw_only=True)
class BenchCostCase:
    """One case. Figures are medians over the rounds; ratios are formed within a round."""
    case: str
    """The case's name."""
    peer: str | None
    """The variant of `ratio_median`; null without one."""
    link_bps: float | None = field(default=None, metadata={'required': False})
    """The link's rate, on the wire; absent if it never limits."""
    ours_pps: float
    """Our TCP segments per second."""
    peer_pps: float | None
    """The peer's TCP segments per second; null without a peer."""
    ratio_median: float | None
    """Median of ratio_runs; null without a round that has both."""
    ratio_runs: list[float]
    """Ours by the peer's, round by round: the first comparison with the peer."""
    ours_bps: float | None
    """Median payload per second of ours."""
    ours_cores_per_gbps: float | None
    """Median of busy cores of the whole machine per Gb/s of payload, for ours."""
    peer_bps: float | None = field(default=None, metadata={'required': False})
    """Median payload per second of the peer."""
    peer_cores_per_gbps: float | None = field(default=None, metadata={'required': False})
    """Median of busy cores of the whole machine per Gb/s of payload, for the peer."""
    before_bps: float | None = field(default=None, metadata={'required': False})
    """Median payload per second of the port as it was."""
    before_cores_per_gbps: float | None = field(default=None, metadata={'required': False})
    """Median of busy cores of the whole machine per Gb/s of payload, for the port as it was."""
    floor_bps: float | None = field(default=None, metadata={'required': False})
    """Median payload per second of the forwarder."""
    floor_cores_per_gbps: float | None = field(default=None, metadata={'required': False})
    """Median of busy cores of the whole machine per Gb/s of payload, for the forwarder."""
    p50_s: float | None = field(default=None, metadata={'required': False})
    """Median over the rounds of the median of the requests' round trips, for ours."""
    p99_s: float | None = field(default=None, metadata={'required': False})
    """Median over the rounds of the 99th percentile of the requests' round trips, for ours."""
    peer_p50_s: float | None = field(default=None, metadata={'required': False})
    """Median over the rounds of the median of the requests' round trips, for the peer."""
    peer_p99_s: float | None = field(default=None, metadata={'required': False})
    """Median over the rounds of the 99th percentile of the requests' round trips, for the peer."""
    requests_per_s: float | None = field(default=None, metadata={'required': False})
    """Median of answered requests per second, for ours."""
    peer_requests_per_s: float | None = field(default=None, metadata={'required': False})
    """Median of answered requests per second, for the peer."""
    before_p50_s: float | None = field(default=None, metadata={'required': False})
    """Median over the rounds of the median of the requests' round trips, for the port as it was."""
    before_p99_s: float | None = field(default=None, metadata={'required': False})
    """Median over the rounds of the 99th percentile of the requests' round trips, for the port as it was."""
    parts: Parts | None
    peer_parts: Parts | None = field(default=None, metadata={'required': False})
    comparisons: list[Comparison]
    """All ratios, and their bounds."""
    limited_by: str
    """What limits our figure."""
    goal: str
    """The bounds in words."""
    met: bool | None
    """Whether all required comparisons are within their bounds; null if this machine or run cannot show it."""
    not_shown: str | None = field(default=None, metadata={'required': False})
    """The reason that it cannot be shown."""
    disturbed_rounds: int
    """Rounds with a disturbed sample. They count in all figures."""
    samples: list[BenchCostSample]
    """A sample for each variant and round, in the order in which they were measured."""
    statistics: BenchCostSample | None = field(default=None, metadata={'required': False})


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Processor time by part, in core-seconds per gigabit of payload. The parts sum to the median of cores per Gb/s. Null without a sample."""
    application: float
    """Threads of iperf3 and of the requests, with what the kernel does inside their calls and interrupts."""
    ebpf: float | None = field(default=None, metadata={'required': False})
    """The port's eBPF programs, from the sample `statistics`; absent if not measured. Their time lies within application and stack, and is taken from the stack."""
    worker: float
    """The transmit worker and the NIC's other threads but the next."""
    receive: float
    """The receive thread."""
    disturbance: float
    """Other processes."""
    stack: float
    """The remainder: interrupts and kernel threads."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Ratios of ours to another variant."""
    figure: Literal['cores_per_gbps', 'bps', 'p50_s', 'p99_s', 'requests_per_s']
    """The figure."""
    to: Literal['ours', 'busy', 'before', 'htb', 'redirect', 'forwarder']
    ratio_median: float | None
    """Median of ratio_runs; null without a round that has both."""
    ratio_runs: list[float]
    """Ours by the other's, round by round."""
    at_most: float | None = field(default=None, metadata={'required': False})
    """The largest allowed ratio."""
    at_least: float | None = field(default=None, metadata={'required': False})
    """The smallest allowed ratio."""
    rank: Literal['required', 'aim']
    """`required` decides the case; `aim` is shown only."""
    met: bool | None
    """Whether the median is within its bound; null without a bound or a median."""


@dataclass(frozen=True, kw_only=True)
class BenchCostSample:
    """One variant in one round."""
    round: int
    """The round."""
    variant: Literal['ours', 'busy', 'before', 'htb', 'redirect', 'forwarder']
    span_s: float
    """Measured time."""
    carried_bits: float
    """TCP payload received."""
    segments: int
    """TCP segments received."""
    core_s: float
    """Processor time of the whole machine: all cores, less idle time."""
    application_s: float
    """Processor time of iperf3 and of the requests."""
    worker_s: float
    """Processor time of the transmit worker and the NIC's other threads but the next."""
    receive_s: float
    """Processor time of the receive thread."""
    foreign_s: float
    """Processor time of other processes."""
    stolen_s: float
    """Time stolen by other machines on the same processors; contained in the times above."""
    ebpf_s: float | None = field(default=None, metadata={'required': False})
    """Time of the port's eBPF programs by the kernel's statistics."""
    requests: BenchCostSampleRequests | None = field(default=None, metadata={'required': False})
    """Round trips of the requests."""
    disturbed: bool
    """Whether other processes and machines used more than 5 % of a core."""


@dataclass(frozen=True, kw_only=True)
class BenchCostSampleRequests:
    """Round trips of the requests."""
    count: int
    """Number of answered requests."""
    p50_s: float
    """Median."""
    p90_s: float
    """90th percentile."""
    p99_s: float
    """99th percentile."""


@dataclass(frozen=True, kw_only=True)
class BenchRoofline:
    """The document of `weft bench roofline --json FILE`. The cost of a packet in the engine over flows, levels, limits and bursts, and what limits it. All numbers in SI base units (bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-bench-roofline/1']
    """Name and version of this schema."""
    host: Host
    seed: int
    """The seed of everything random in the run."""
    memory: list[Memory]
    """The caches and the memory, from the nearest."""
    points: list[Point]
    """The measurements, series by series."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A cache, or the memory behind all."""
    name: str
    """`L1`, `L2` ... or `memory`."""
    bytes: int | None
    """Its size; null of the memory."""
    load_s: float
    """The time of a load whose address the load before it read."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A measurement."""
    series: Literal['flows', 'depth', 'limits', 'burst']
    """The series."""
    value: int
    """The number in it: of flows, levels, limits that bind, or packets in a burst."""
    flows: int
    """Number of flows."""
    packet_s: float
    """Median time of a packet: an enqueue and a dequeue."""
    runs_packet_s: list[float]
    """The times of all runs."""
    records_bytes: int
    """The bytes of the records that the loop goes through."""
    lines: float
    """The lines of records that a packet touches and that nothing has just touched."""
    memory: str | None
    """The nearest cache into which the records fit, or `memory`; null if none was measured."""
    line_s: float | None
    """The time of a load from it."""
    parkings_per_packet: float
    """The times that a lane was parked by a limit, by packet."""
    work: BenchRooflineWork | None
    limited_by: str
    """The limit of the speed."""
    loads_at_once: float | None
    """The loads that were under way at once, where these limit: their time one after the other, by the time beyond that of the series' fastest point."""


@dataclass(frozen=True, kw_only=True)
class BenchRooflineWork:
    """The work of a packet, by the processor's counters; null on a machine without them."""
    instructions: float
    """Instructions."""
    cycles: float
    """Cycles."""
    misses: float
    """Misses of the last cache that the processor counts."""


@dataclass(frozen=True, kw_only=True)
class BenchWorkers:
    """The document of `weft bench workers --json FILE`. Several workers with one policy: their speed on this machine beside one worker, one lock and engines that share nothing, and the errors of shares and limits in the simulation. All numbers in SI base units (bits per second) unless the name says otherwise."""
    schema: Literal['weft-bench-workers/1']
    """Name and version of this schema."""
    host: Host
    seed: int
    """The seed of everything random in the run."""
    speed: Speed | None
    errors: list[Error]
    """The errors by way and number of workers; empty if they were not simulated."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The speed on this machine; null if it was not measured. Runs of the same number are consecutive."""
    workers: int
    """Number of workers."""
    flows: int
    """Number of flows of each engine."""
    policy: BenchWorkersPolicy | None = field(default=None, metadata={'required': False})
    one_runs_pps: list[float]
    """One worker, run by run."""
    shared_runs_pps: list[float]
    """All workers that share the policy, run by run."""
    lock_runs_pps: list[float]
    """As many workers that take turns with one engine, by a lock, run by run."""
    apart_runs_pps: list[float]
    """As many engines that share nothing, run by run: the most that this machine gives them."""
    one_pps: float
    """Median of one worker."""
    shared_pps: float
    """Median of the workers that share the policy."""
    lock_pps: float
    """Median of the workers with a lock."""
    apart_pps: float
    """Median of the engines that share nothing."""
    shared_ratio_median: float | None
    """Median of the ratios of sharing workers to one, run by run."""
    lock_ratio_median: float | None
    """Median of the ratios of workers with a lock to one, run by run."""
    apart_ratio_median: float | None
    """Median of the ratios of engines that share nothing to one, run by run."""
    shared_of_apart_median: float | None
    """Median of the ratios of sharing workers to engines that share nothing, run by run."""


@dataclass(frozen=True, kw_only=True)
class BenchWorkersPolicy:
    """The policy that was given. Absent where Figure 1's was measured."""
    file: str
    """The name of its file."""
    lanes: int
    """Number of lanes."""
    limits: int
    """Number of limits."""
    packet_bytes: int
    """Length of all packets."""
    link_bps: float
    """The rate of the link in whose time limits bind."""


@dataclass(frozen=True, kw_only=True)
class Error:
    """The largest errors of one way with a number of workers, in any 100 ms of the simulation."""
    way: Literal['shared', 'one-lock', 'equal-split']
    """Workers that share the policy, one lock around one engine, or an engine for each with equal parts of each limit."""
    workers: int
    """Number of workers."""
    share_error: float
    """Of a class's share, as a part of the share."""
    limit_above: float
    """Of a limit that is exceeded, as a part of it; negative if it never is."""
    limit_below: float
    """Of a limit that is not reached, as a part of it."""
    moving_above: float
    """As limit_above, of the limit of a class that is at one worker after the other."""
    moving_below: float
    """As limit_below, of that limit."""
    changes_above: float
    """As limit_above, of a limit whose rate changes while all classes are backlogged."""
    changes_below: float
    """As limit_below, of that limit."""
    sent_bps: float
    """The rate of all classes together."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The document of `weft bench --json FILE`. Our speed as a ratio to a peer's, measured in the same run. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-bench/1']
    """Name and version of this schema."""
    host: Host
    seed: int | None = field(default=None, metadata={'required': False})
    """The seed of everything random in the run."""
    cases: list[BenchCase]
    """The cases in the order of their runs."""


@dataclass(frozen=True, kw_only=True)
class BenchCase:
    """One case. Other members are further figures, named with their unit."""
    case: str
    """The case's name."""
    peer: str | None
    """The peer; null without one."""
    unit: Literal['packets', 'events', 'runs'] | None = field(default=None, metadata={'required': False})
    """The unit that the speeds count per second: packets, events of the simulator, or runs of a campaign."""
    ours_pps: float
    """Our median speed in packets per second, or in events per second if `unit` says so."""
    peer_pps: float | None
    """The peer's median speed in the same unit; null without a peer."""
    ratio_median: float | None
    """Median of ratio_runs; null without a peer. Above 1, we are faster."""
    ratio_runs: list[float]
    """Ours by the peer's speed, run by run."""
    ours_bps: float | None = field(default=None, metadata={'required': False})
    """Our median throughput in bits per second."""
    peer_bps: float | None = field(default=None, metadata={'required': False})
    """The peer's median throughput in bits per second."""
    limited_by: str | None = field(default=None, metadata={'required': False})
    """The bottleneck of our speed."""
    packet_bytes: float | None = field(default=None, metadata={'required': False})
    """Length of each packet, of a case with one length."""
    ns_per_packet: float | None = field(default=None, metadata={'required': False})
    """Nanoseconds of one core for a packet: 1e9 / ours_pps."""
    fills_link_bps: float | None = field(default=None, metadata={'required': False})
    """The rate of an Ethernet that these packets fill at our speed, with preamble and gap."""
    policy_link_bps: float | None = field(default=None, metadata={'required': False})
    """The link in whose time the policy's limits bind."""


@dataclass(frozen=True, kw_only=True)
class CampaignStatus:
    """The document of `weft campaign status --json FILE`: how many results of a grid are in a store."""
    schema: Literal['weft-campaign-status/1']
    """Name and version of this schema."""
    host: Host
    grid: str
    """Grid file."""
    model: int
    """Version of the simulator's model, which is part of each result's name."""
    runs: int
    """Runs of the grid."""
    done: int
    """Runs whose results are there."""
    broken: int
    """Runs with a file that is torn or another's; they are made again."""
    missing: int
    """Runs without a file."""


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """The document of `weft campaign export --format json`: the results of a campaign. It has nothing of the host that wrote it."""
    schema: Literal['weft-campaign/1']
    """Name and version of this schema."""
    model: int
    """Version of the simulator's model."""
    runs: list[CampaignRun]
    """Results, ordered by parameters and seed."""


@dataclass(frozen=True, kw_only=True)
class CampaignRun:
    """A result."""
    parameters: dict[str, Any]
    """Values by the scenario's key."""
    seed: int
    """Seed."""
    figures: dict[str, float | None]
    """Figures by name, listed in docs/campaigns.md; null for one that the run does not give."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The document of `weft config --json FILE`: the policy that a running daemon enforces."""
    schema: Literal['weft-config/1']
    """Name and version of this schema."""
    host: Host
    generation: int
    """Number of the policy in force: 1 at the start of the daemon, one more with each replacement."""
    policy_hash: str
    """SHA-256 of the policy's text, in hexadecimal digits."""
    policy: str
    """Name of the policy."""
    text: str
    """Text of the policy."""
    default_policy: str
    """Name of the configured policy."""
    is_default: bool
    """Whether the configured policy is in force."""
    tenants: list[ConfigTenant] | None = field(default=None, metadata={'required': False})
    """The tenants of the policy; absent if it has none."""
    uplink: str | None = field(default=None, metadata={'required': False})
    """The uplink, where the configuration names its uplinks."""


@dataclass(frozen=True, kw_only=True)
class ConfigTenant:
    """A tenant."""
    tenant: str
    """Name of the tenant."""
    file: str | None
    """Name of its file; null if it has none, so that its packets share one FIFO."""
    hash: str | None
    """SHA-256 of the file's text, in hexadecimal digits."""
    origin: Literal['policy', 'attached', 'detached'] | None = field(default=None, metadata={'required': False})
    """Origin of the file or of its absence: the operator's policy, or a call while the daemon ran."""
    owner_uid: int | None = field(default=None, metadata={'required': False})
    """User who attached or detached the file; null if nobody did."""
    text: str | None = field(default=None, metadata={'required': False})
    """Text of a file that was attached; null if it was not, or if the answer has no room for it."""


@dataclass(frozen=True, kw_only=True)
class Cross:
    """The document of `weft reproduce --cross --json FILE`: scores of the simulator in sample and out of sample."""
    schema: Literal['weft-cross/1']
    """Name and version of this schema."""
    host: Host
    seed: int
    """The first seed."""
    seeds: int
    """Runs of each cell with the same parameters."""
    parameters: list[Parameter]
    """The fitted parameters."""
    fits: list[Fit]
    """The fits and their values."""
    scores: list[CrossScore]
    """Scores by paper, column and sample."""
    cells: list[CrossCell]
    """The cells of the scores."""
    runs: int
    """Number of simulated runs; equal parameters of several fits were simulated once."""
    wall_s: float
    """Duration, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A fitted parameter."""
    file: str
    """Its file below experiments/."""
    key: str
    """Its key."""
    candidates: list[str]
    """The candidate values; the first is the value without a fit."""
    shipped: str
    """The value in the file."""
    fitted_to: list[str]
    """The experiments and columns to which it is fitted."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A fit."""
    name: str
    """A paper (tr, atc), or `without N`: both papers without the cells of N flows."""
    cells: int
    """The rows and flow counts of the fit."""
    values: list[str]
    """The fitted values, in the order of the parameters."""


@dataclass(frozen=True, kw_only=True)
class CrossScore:
    """The scores of a column of a paper with one kind of parameters."""
    paper: str
    """The paper: tr or atc."""
    column: str
    """The column."""
    sample: Literal['in_sample', 'other_paper', 'flows_left_out', 'unfitted', 'shipped']
    """The kind of parameters: fitted on the cell's own paper, on the other paper, on both without the cell's flow count, the first candidate of each, or the files' values."""
    cells: int
    """Number of cells with both values."""
    tau: float | None
    """Kendall's tau-b over all pairs of these cells."""
    median_relative_error: float | None
    """Median relative error."""
    within_25_percent: float | None
    """Fraction of cells within 25 %."""


@dataclass(frozen=True, kw_only=True)
class CrossCell:
    """A cell, with one simulated value per sample."""
    paper: str
    """The paper."""
    row: str
    """Configuration."""
    column: str
    """Metric."""
    flows: int
    """Number of flows."""
    published: float | None
    """The published value."""
    floor: float
    """The smallest denominator of the relative error."""
    simulated: CrossCellSimulated
    """Values by sample."""


@dataclass(frozen=True, kw_only=True)
class CrossCellSimulated:
    """Values by sample."""
    in_sample: float | None = field(default=None, metadata={'required': False})
    """Mean over the runs."""
    other_paper: float | None = field(default=None, metadata={'required': False})
    """Mean over the runs."""
    flows_left_out: float | None = field(default=None, metadata={'required': False})
    """Mean over the runs."""
    unfitted: float | None = field(default=None, metadata={'required': False})
    """Mean over the runs."""
    shipped: float | None
    """Mean over the runs."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The document of `weft demo --json FILE`. Loom's isolation experiment (NSDI'19, figures 9, 10 and 11) on real packets. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-demo/1']
    """Name and version of this schema."""
    host: Host
    seed: int | None = field(default=None, metadata={'required': False})
    """The seed of everything random in the run."""
    started: str | None = field(default=None, metadata={'required': False})
    """Start of the run, RFC 3339."""
    command: str | None = field(default=None, metadata={'required': False})
    """The command line of the run."""
    figure: Literal[9, 11]
    """The reproduced figure of the paper."""
    link_bps: int
    """The link's rate in bits per second."""
    link_bps_source: str
    """The source of link_bps."""
    rate_trial: RateTrial | None = field(default=None, metadata={'required': False})
    flows: dict[str, int]
    """Tenant (figure 11: or job) -> number of its flows."""
    congestion_control: str
    """Congestion control of the bulk flows."""
    duration_s: float
    """Length of the run of each mode in seconds."""
    modes: list[Mode]
    """The modes in the order of their runs."""
    samples: list[DemoSample] | None = field(default=None, metadata={'required': False})
    """Figure 11 only: the samples of mode loom, by job, once more."""
    limits: list[Limit] | None = field(default=None, metadata={'required': False})
    """Figure 11 only: the limits of mode loom, once more."""


@dataclass(frozen=True, kw_only=True)
class RateTrial:
    """The trial that chose link_bps: the demo's heaviest load on a link that does not limit it; absent if the rate was given."""
    carried_bps: float
    """The machine's throughput: the median of windows_bps, in bits per second on the wire."""
    windows_bps: list[float]
    """Throughput in windows of half a second after the settling."""
    mode: Literal['sq', 'mq', 'qpf', 'loom']
    """The mode of the NIC."""
    flows: int
    """Number of simultaneous TCP flows."""
    requests_per_s: int
    """Requests per second of T0; 0 without it."""
    segments_per_turn: str
    """Segments per turn."""
    settle_s: float
    """Time before the first window, in seconds."""
    choices_bps: list[int]
    """The candidate rates."""
    divisor: float
    """Divisor of carried_bps: link_bps is the largest candidate up to the quotient."""


@dataclass(frozen=True, kw_only=True)
class Mode:
    """The results of a mode."""
    mode: Literal['sq', 'mq', 'qpf', 'loom']
    """Single queue, multiqueue, queue per flow, or Loom."""
    description: str
    """The set-up of the mode."""
    samples: list[DemoSample]
    """Throughput over time."""
    share_error_p95: float | None
    """95th percentile (index floor(0.95 n)) of |bps - share| / share over all active tenants but T0 in steady windows, share = (total - T0) / active tenants; null in figure 11 and without a steady window."""
    link_use_min: float | None
    """Smallest total / link_bps in a steady window; null without one."""
    link_use_p5: float | None
    """5th percentile (index floor(n / 20)) of total / link_bps over the steady windows; null without one."""
    lag: ModeLag | None = field(default=None, metadata={'required': False})
    """The largest lag of a tenant behind the ideal fluid schedule of backlogged tenants (all are served equally at every moment), over spans in which it was backlogged throughout. null in figure 11, and where the backlog is unknown."""
    latency_s: ModeLatencyS | None
    """Latency of tenant T0 at full load: nearest-rank percentiles in seconds; null if not measured."""
    probe_wait_p99_s: float | None = field(default=None, metadata={'required': False})
    """99th percentile, over the fine windows at full load, of the longest wait of a packet of T0 in the NIC, in seconds of the link's time; null if not measured."""
    latency_samples: list[ModeLatencySample]
    """Latency of T0 over time, by intervals of 250 ms."""
    standing_queue_bytes: dict[str, float]
    """Tenant -> median of its backlog in bytes below its sockets at full load."""
    standing_queue_max_bytes: dict[str, float]
    """Tenant -> largest backlog in bytes at full load."""
    queue_samples: list[ModeQueueSample] | None = field(default=None, metadata={'required': False})
    """Backlogs over time, if sampled."""
    fine: Fine | None = field(default=None, metadata={'required': False})
    core_waits: CoreWaits | None = field(default=None, metadata={'required': False})
    conservation: Conservation
    cost: Cost
    limits: list[Limit] | None = field(default=None, metadata={'required': False})
    """Figure 11: the rate limits."""
    notes: list[str]
    """Remarks on the figures."""


@dataclass(frozen=True, kw_only=True)
class DemoSample:
    """Throughput in one window."""
    t_s: float
    """Start of the window, in seconds since the run of the mode started."""
    window_s: float
    """Length of the window in seconds."""
    bps: dict[str, float]
    """Tenant (figure 11: or job) -> bits per second on the wire."""
    active: list[str]
    """The tenants (or jobs) that were backlogged in the NIC for the whole window, and T0."""
    steady: bool
    """Whether the same tenants were backlogged throughout, no other sent, and no link time was lost. Only such windows are judged."""


@dataclass(frozen=True, kw_only=True)
class ModeLag:
    """The largest lag of a tenant behind the ideal fluid schedule of backlogged tenants (all are served equally at every moment), over spans in which it was backlogged throughout. null in figure 11, and where the backlog is unknown."""
    bytes: float
    """The lag in bytes on the wire."""
    s: float
    """The link's time for these bytes, in seconds."""
    tenant: str
    """The tenant."""
    from_s: float
    """Start of the span of the lag, in seconds since the run of the mode started."""
    to_s: float
    """End of the span."""
    engine_bytes: int
    """The bound on the policy engine's lag: four turns."""


@dataclass(frozen=True, kw_only=True)
class ModeLatencyS:
    """Latency of tenant T0 at full load: nearest-rank percentiles in seconds; null if not measured."""
    p50: float
    """Median, seconds."""
    p90: float
    """90th percentile, seconds."""
    p99: float
    """99th percentile, seconds."""
    p999: float
    """99.9th percentile, seconds."""
    count: int
    """Number of round trips."""


@dataclass(frozen=True, kw_only=True)
class ModeLatencySample:
    """An interval."""
    t_s: float
    """Start of the interval, in seconds since the run of the mode started."""
    p90_s: float
    """90th percentile in seconds."""


@dataclass(frozen=True, kw_only=True)
class ModeQueueSample:
    """A point in time."""
    t_s: float
    """Seconds since the run of the mode started."""
    bytes: dict[str, float]
    """Tenant -> backlog in bytes below its sockets."""


@dataclass(frozen=True, kw_only=True)
class Fine:
    """Departures and backlog in consecutive short windows of the link's time; samples and lag are computed from them."""
    window_s: float
    """Length of a window in seconds."""
    from_s: float
    """Start of the first window, in seconds since the run of the mode started."""
    chunk_bytes: int
    """The largest chunk of a turn, in bytes on the wire."""
    tenants: list[str]
    """The tenants, in the order of the columns."""
    bytes: list[list[int]]
    """Window -> tenant -> bytes on the wire."""
    waiting: list[int]
    """Window -> tenants that were backlogged in the NIC throughout: 1 is the first tenant, 2 the second, 4 the third."""
    lost_s: dict[str, float]
    """Number of a window in which link time was lost because the NIC's worker did not run -> seconds."""
    probe_wait_s: list[float]
    """Window -> longest wait of a packet of T0 in the NIC for its turn, in seconds of the link's time."""


@dataclass(frozen=True, kw_only=True)
class CoreWaits:
    """Times in which threads were ready to run and had no core, while the tenants sent."""
    span_s: float
    """Length of the observed time, in seconds."""
    worker_s: float
    """The NIC's transmit worker."""
    probe_s: float
    """T0's client and server."""
    softirq_s: float
    """The kernel's softirq threads (ksoftirqd), together."""
    steal_s: float
    """Steal time of other virtual machines, all cores together."""


@dataclass(frozen=True, kw_only=True)
class Conservation:
    """in = out + dropped + held, in packets and in bytes, for the whole path and at every stage."""
    in_packets: int
    """Packets that entered."""
    in_bytes: int
    """Bytes that entered."""
    out_packets: int
    """Packets that left."""
    out_bytes: int
    """Bytes that left."""
    dropped_packets: int
    """Packets dropped, for any reason."""
    dropped_bytes: int
    """Bytes dropped, for any reason."""
    held_packets: int
    """Packets held when the accounting was closed."""
    held_bytes: int
    """Bytes held when the accounting was closed."""
    drops: dict[str, ConservationDrop]
    """Reason -> packets and bytes dropped for it; the sums are dropped_packets and dropped_bytes."""
    uncounted_bytes: list[str] | None = field(default=None, metadata={'required': False})
    """Stages, or `total`, whose dropped bytes were not counted, because the kernel counts only packets there. `dropped_bytes` is then the difference of two counts. Absent if there are none."""
    unexplained: list[str] | None = field(default=None, metadata={'required': False})
    """The packets that no counter explains, one sentence for each stage: their number, and the counters that were read. Each is a violation. Absent if there are none."""
    stages: list[Stage]
    """The stages in the order of the path."""


@dataclass(frozen=True, kw_only=True)
class ConservationDrop:
    """Packets and bytes dropped for one reason."""
    packets: int
    """Packets."""
    bytes: int
    """Bytes."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The balance of one stage."""
    name: str
    """The stage's name."""
    in_packets: int
    """Packets that entered."""
    in_bytes: int
    """Bytes that entered."""
    out_packets: int
    """Packets that left."""
    out_bytes: int
    """Bytes that left."""
    dropped_packets: int
    """Packets dropped, for any reason."""
    dropped_bytes: int
    """Bytes dropped, for any reason."""
    held_packets: int
    """Packets held when the accounting was closed."""
    held_bytes: int
    """Bytes held when the accounting was closed."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The costs of the mode; null if not measured. Other members are further costs, named with their unit."""
    bpf_ns_per_packet: float | None
    """Mean time of the eBPF program per packet, in nanoseconds."""
    bpf_runs: int | None
    """Runs of the eBPF program."""
    nic_cpu_share: float | None
    """Processor time of the software NIC's threads over wall time; 1 is one core."""
    doorbells: int | None
    """Doorbells posted."""
    doorbell_bytes: int | None
    """Bytes written to doorbells and their metadata."""
    wakeups: int | None
    """Wake-ups of the transmit worker."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A rate limit and its errors."""
    class_: str = field(metadata={'key': 'class'})
    """The limited class."""
    limit_bps: float
    """The limit in bits per second."""
    jobs: list[str]
    """The jobs of the limited class."""
    window_s: float
    """Length of the windows compared with the limit, in seconds."""
    windows: int
    """Windows in which the limit was binding."""
    error_p95: float | None
    """95th percentile of |rate - limit| / limit over these windows; null without one."""
    error_max: float | None
    """The largest of these errors."""
    excess_max: float
    """The largest excess over the limit in a window, relative to the limit."""
    mean_bps: float | None
    """Mean rate in the windows in which the limit was binding, in bits per second."""


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """The document of `weft doctor --json FILE`. The facilities of this host, with remedies for missing ones. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-doctor/1']
    """Name and version of this schema."""
    host: Host
    facilities: list[DoctorFacility]
    """The facilities in the order of the survey."""


@dataclass(frozen=True, kw_only=True)
class DoctorFacility:
    """A facility."""
    id: str
    """The facility's id, which does not change."""
    title: str
    """The facility's name for users."""
    state: Literal['ready', 'limited', 'missing', 'unknown']
    """Whether the facility can be used."""
    detail: str
    """The observation."""
    brings: str
    """Its use."""
    remedy: str | None
    """The remedy; null if none is needed or none exists."""


@dataclass(frozen=True, kw_only=True)
class Playground:
    """The answer of the playground's module to a question. Times are in nanoseconds since the begin of the arrivals."""
    schema: Literal['weft-playground/1']
    """Name and version of this schema."""
    diagnostics: list[PlaygroundDiagnostic]
    """The diagnostics of the policy, as in `weft policy check`."""
    arrivals_error: PlaygroundArrivalsError | None
    """The error in the text of the arrivals."""
    error: str | None
    """Another reason for which nothing was run."""
    drawing: str | None
    """The drawing of the policy, as SVG."""
    cost: str | None
    """The price of the policy, as text."""
    classes: list[str]
    """The classes of the policy."""
    link_bps: int | None
    """The link's rate, in bits per second."""
    run: PlaygroundRun | None
    """What became of the arrivals."""


@dataclass(frozen=True, kw_only=True)
class PlaygroundDiagnostic:
    """A diagnostic; the policy compiler may add members."""
    severity: str
    """error, warning or note."""
    code: str
    """The diagnostic's code."""
    message: str
    """The text of the diagnostic."""
    file: str | None = field(default=None, metadata={'required': False})
    """The file."""
    line: int | None = field(default=None, metadata={'required': False})
    """Line, from 1."""
    column: int | None = field(default=None, metadata={'required': False})
    """Column, from 1."""
    fix: PlaygroundDiagnosticFix | None = field(default=None, metadata={'required': False})
    """The edit that removes the cause, where the compiler can tell what was meant: the text from `start` to `end` is replaced by `text`."""


@dataclass(frozen=True, kw_only=True)
class PlaygroundDiagnosticFix:
    """The edit that removes the cause, where the compiler can tell what was meant: the text from `start` to `end` is replaced by `text`."""
    start: Position
    end: Position
    text: str
    """The new text; empty for a deletion."""
    write: str | None
    """The corrected lines; null if they are long, or if the edit removes them."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """A place in the text."""
    line: int
    """Line, from 1."""
    column: int
    """Column in characters, from 1."""


@dataclass(frozen=True, kw_only=True)
class PlaygroundArrivalsError:
    """The error in the text of the arrivals."""
    line: int
    """Line, from 1."""
    column: int
    """Column, from 1."""
    message: str
    """The error."""
    help: str
    """The remedy; may be empty."""


@dataclass(frozen=True, kw_only=True)
class PlaygroundRun:
    """What became of the arrivals."""
    packets: list[PlaygroundRunPacket]
    """The packets, in the order of the text."""
    turns: list[PlaygroundRunTurn]
    """The turns in which a packet left."""
    pifo: list[PlaygroundRunPifoItem] | None
    """The departures in the order that a PIFO would have; null where ranks depend on more than the packet."""
    stated: bool
    """Whether the text states what is expected."""
    difference: str | None
    """The first difference from what is expected."""
    cut: bool
    """Whether a bound ended the run."""


@dataclass(frozen=True, kw_only=True)
class PlaygroundRunPacket:
    """A packet."""
    name: str
    """Its name."""
    class_: str = field(metadata={'key': 'class'})
    """Its class."""
    flow: str | None
    """Its flow, if stated."""
    bytes: int
    """Its length."""
    at_ns: int
    """The time of its arrival."""
    takes_ns: int
    """The time that it takes on the link."""
    fate: Literal['sent', 'dropped', 'refused', 'waiting']
    """What became of it; refused: its class was full; waiting: the run was cut."""
    sent_ns: int | None
    """The time at which its transmission began."""


@dataclass(frozen=True, kw_only=True)
class PlaygroundRunTurn:
    """A turn."""
    at_ns: int
    """The time of the turn."""
    packet: int
    """The number of the packet that left."""
    heads: list[PlaygroundRunTurnHead]
    """The next packets of the flows that waited; the one that left is the first. A bound leaves some out."""


@dataclass(frozen=True, kw_only=True)
class PlaygroundRunTurnHead:
    """The next packet of a flow."""
    packet: int
    """The packet's number, from 0."""
    orders: list[PlaygroundRunTurnHeadOrder]
    """Its places, from the root to its class."""
    limited_ns: int | None
    """The time until which a limit delays it."""


@dataclass(frozen=True, kw_only=True)
class PlaygroundRunTurnHeadOrder:
    """A place in an order."""
    node: str
    """The node's name."""
    discipline: str
    """The discipline or the algorithm."""
    rank: str
    """The rank with its unit, or the place."""
    held: bool
    """Whether the algorithm holds it back, until a time or a virtual time."""


@dataclass(frozen=True, kw_only=True)
class PlaygroundRunPifoItem:
    """A departure."""
    packet: int
    """The packet's number, from 0."""
    at_ns: int
    """The time at which its transmission begins."""


@dataclass(frozen=True, kw_only=True)
class PolicyCheck:
    """The document of `weft policy check --json FILE`. The diagnostics of policy files, and what places keep of them. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-policy-check/1']
    """Name and version of this schema."""
    host: Host
    diagnostics: list[PolicyCheckDiagnostic]
    """The diagnostics in the order of the file; empty without one."""
    places: list[PolicyCheckPlace]
    """Whether each place runs each policy that has no error; with `--for`, only those places."""
    promises: list[PolicyCheckPromise]
    """The promises of the policies, and the places that keep them."""


@dataclass(frozen=True, kw_only=True)
class PolicyCheckDiagnostic:
    """A diagnostic; the policy compiler may add members."""
    severity: str
    """error, warning or note."""
    code: str
    """The diagnostic's code."""
    message: str
    """The text of the diagnostic."""
    file: str | None = field(default=None, metadata={'required': False})
    """The file."""
    line: int | None = field(default=None, metadata={'required': False})
    """Line, from 1."""
    column: int | None = field(default=None, metadata={'required': False})
    """Column, from 1."""
    fix: PolicyCheckDiagnosticFix | None = field(default=None, metadata={'required': False})
    """The edit that removes the cause, where the compiler can tell what was meant: the text from `start` to `end` is replaced by `text`."""


@dataclass(frozen=True, kw_only=True)
class PolicyCheckDiagnosticFix:
    """The edit that removes the cause, where the compiler can tell what was meant: the text from `start` to `end` is replaced by `text`."""
    start: Position
    end: Position
    text: str
    """The new text; empty for a deletion."""
    write: str | None
    """The corrected lines; null if they are long, or if the edit removes them."""


@dataclass(frozen=True, kw_only=True)
class PolicyCheckPlace:
    """The answer of a place about a policy."""
    file: str
    """The policy."""
    place: str
    """port, daemon, sim, replay or tc."""
    runs: bool
    """Whether the place can run the policy."""
    reason: str | None
    """The reason why not."""
    instead: str | None
    """The remedy."""


@dataclass(frozen=True, kw_only=True)
class PolicyCheckPromise:
    """A statement of a policy, and the extent to which a place keeps it."""
    file: str
    """The policy."""
    place: str
    """The place."""
    promise: str
    """The statement of the policy."""
    kept: Literal['yes', 'within', 'no']
    """The extent to which it is kept."""
    within: str | None
    """The bound, the condition or the reason, unless it is kept."""
    instead: str | None
    """The remedy, where one is known."""


@dataclass(frozen=True, kw_only=True)
class PolicyCost:
    """The document of `weft policy cost FILE --json FILE`. The price of a policy and of its algorithms. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-policy-cost/1']
    """Name and version of this schema."""
    host: Host
    file: str
    """The policy's file."""
    cost: PolicyCostCost | None
    """The price; null if the policy has errors."""
    profiles: list[PolicyCostProfile]
    """The price at each place of execution that has one."""
    diagnostics: list[PolicyCostDiagnostic]
    """The diagnostics in the order of the file; empty without one."""


@dataclass(frozen=True, kw_only=True)
class PolicyCostCost:
    """The price; null if the policy has errors."""
    depth: int
    """The orders that a packet passes at most."""
    deepest: str
    """The class with the longest path."""
    operations: int
    """The most operations of algorithms for a packet."""
    state_bytes: int
    """The bytes of state of nodes and their children."""
    flow_bytes: int
    """The most bytes of state of a flow."""
    held: bool
    """Whether a limit or a shaper may hold a packet, which is then inserted twice."""
    limits: int
    """The rate limits."""
    orders: list[PolicyCostCostOrder]
    """The orders, every parent before its children."""


@dataclass(frozen=True, kw_only=True)
class PolicyCostCostOrder:
    """One order: a node over its children, or a leaf over its flows."""
    node: str
    """The node's name."""
    algorithm: str
    """The algorithm, or the native discipline."""
    native: bool
    """Whether the engine has it natively, without a program."""
    children: int | None
    """The number of children; null if it orders flows."""
    level: int
    """The number of orders above it, with itself."""
    parts: list[PolicyCostCostOrderPart]
    """The operations of each part that has some; empty for a native discipline."""
    node_bytes: int
    """The bytes of state of the node."""
    child_bytes: int
    """The bytes of state of each child or flow."""
    needs: str
    """Its other work, in words; empty without."""


@dataclass(frozen=True, kw_only=True)
class PolicyCostCostOrderPart:
    """A part."""
    part: str
    """The part's word, such as `sent`."""
    operations: int
    """The operations."""


@dataclass(frozen=True, kw_only=True)
class PolicyCostProfile:
    """A place of execution."""
    profile: str
    """The profile's name, such as `software` or `loom-1ghz`."""
    packet_seconds: float | None
    """The time of a packet, in seconds; null where nothing was measured or published."""
    budget_seconds: float | None
    """The time that there is for a packet, in seconds; null if any is accepted."""
    fits: bool
    """Whether the place can run the policy."""
    over: list[str]
    """The reasons why it cannot, one line each; empty if it can."""


@dataclass(frozen=True, kw_only=True)
class PolicyCostDiagnostic:
    """A diagnostic; the policy compiler may add members."""
    severity: str
    """error, warning or note."""
    code: str
    """The diagnostic's code."""
    message: str
    """The text of the diagnostic."""
    file: str | None = field(default=None, metadata={'required': False})
    """The file."""
    line: int | None = field(default=None, metadata={'required': False})
    """Line, from 1."""
    column: int | None = field(default=None, metadata={'required': False})
    """Column, from 1."""
    fix: PolicyCostDiagnosticFix | None = field(default=None, metadata={'required': False})
    """The edit that removes the cause, where the compiler can tell what was meant: the text from `start` to `end` is replaced by `text`."""


@dataclass(frozen=True, kw_only=True)
class PolicyCostDiagnosticFix:
    """The edit that removes the cause, where the compiler can tell what was meant: the text from `start` to `end` is replaced by `text`."""
    start: Position
    end: Position
    text: str
    """The new text; empty for a deletion."""
    write: str | None
    """The corrected lines; null if they are long, or if the edit removes them."""


@dataclass(frozen=True, kw_only=True)
class PolicyDiff:
    """The document of `weft policy diff --json FILE`. The differences of two policies and what their author may not have meant. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-policy-diff/1']
    """Name and version of this schema."""
    host: Host
    kept: PolicyDiffKept | None = field(default=None, metadata={'required': False})
    """The numbers of things that both policies have, which keep their state; absent in a daemon's answer."""
    steps: list[PolicyDiffStep]
    """The differences in the order in which they take place; empty if the policies are equal."""
    warnings: list[PolicyDiffWarning]
    """Effects that the author may not have meant; empty without one."""


@dataclass(frozen=True, kw_only=True)
class PolicyDiffKept:
    """The numbers of things that both policies have, which keep their state; absent in a daemon's answer."""
    classes: int
    """Classes."""
    nodes: int
    """Inner nodes."""
    limits: int
    """Rate limits."""


@dataclass(frozen=True, kw_only=True)
class PolicyDiffStep:
    """A difference."""
    kind: str | None = field(default=None, metadata={'required': False})
    """The kind of the difference, such as `weight` or `class-added`; absent in a daemon's answer."""
    phase: Literal['adjusted', 'moved', 'reranked', 'added', 'reclassified', 'drained', 'removed'] | None = field(default=None, metadata={'required': False})
    """The phase of the change in which it takes place; absent in a daemon's answer. Those up to `added` take place together, between two packets; then the match tables are exchanged, flows that change their class wait for what they have left, and what is gone is given up."""
    text: str
    """The difference in one line."""


@dataclass(frozen=True, kw_only=True)
class PolicyDiffWarning:
    """An effect."""
    kind: str | None = field(default=None, metadata={'required': False})
    """The kind of the effect, such as `no-rate`; absent in a daemon's answer."""
    text: str
    """The effect in one line."""
    help: str | None = field(default=None, metadata={'required': False})
    """The remedy in one line."""


@dataclass(frozen=True, kw_only=True)
class PolicyExplain:
    """The document of `weft policy explain FILE --packet TEXT --json FILE`. The fate of one packet under a policy. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-policy-explain/1']
    """Name and version of this schema."""
    host: Host
    file: str
    """The policy's file."""
    packet: str
    """The packet, as it can be given again."""
    class_: str = field(metadata={'key': 'class'})
    """The class that takes the packet."""
    line: int | None
    """The line of the class's definition; null if the policy does not write it."""
    definition_file: str | None
    """The tenant's file that defines the class; null for the policy's own text."""
    definition: str | None
    """The class's definition on one line; null if the policy does not write it."""
    row: int
    """The number of the deciding row of the match table, from 1."""
    tests: str
    """The tests of the row."""
    to: str | None
    """The destination of the class that decides on the lane; null for that of all other packets."""
    lane: int
    """The number of the lane."""
    path: list[PolicyExplainPathItem]
    """The nodes from the root to the leaf."""
    leaf: str
    """The leaf's name."""
    fair: bool
    """Whether the leaf shares between its flows."""
    beside: list[str]
    """The other classes in the leaf."""
    ranks: list[PolicyExplainRank]
    """The ranks that algorithms give the packet as the first one of an idle child, the one of its own leaf first."""
    limits: list[PolicyExplainLimit]
    """The limits that apply."""
    link_bps: int | None
    """The link's rate; null if it is not known."""
    guaranteed_bps: int | None
    """The leaf's rate while every class sends; null if the link's rate is not known."""
    bound_packets: int
    """The most packets of the lane that wait."""
    notes: list[str]
    """Additional facts."""
    waiting: PolicyExplainWaiting | None = field(default=None, metadata={'required': False})
    """The packets of the class that wait at the daemon, with --live; absent without it."""


@dataclass(frozen=True, kw_only=True)
class PolicyExplainPathItem:
    """A node, and the turn of the packet's branch there: its place under strict priority, its weight under weighted fair queueing."""
    node: str
    """The node's name."""
    place: int | None
    """The place of the branch among the children, from 1; null without strict priority."""
    children: int | None
    """The number of children; null without strict priority."""
    weight: int | None
    """The weight of the branch; null without weights."""
    weights: int | None
    """The sum of the children's weights; null without weights."""


@dataclass(frozen=True, kw_only=True)
class PolicyExplainRank:
    """The rank at an algorithm."""
    node: str
    """The node or leaf."""
    algorithm: str
    """The algorithm."""
    first: int | None
    """The component that is compared first; null for a shaper."""
    second: int | None
    """The component that decides between equal first ones."""
    from_ns: int | None
    """The time before which it is not picked, in nanoseconds after the arrival."""
    from_virtual: int | None
    """The virtual time before which it is not picked."""
    sees_packet: bool
    """Whether the algorithm sees the packet."""


@dataclass(frozen=True, kw_only=True)
class PolicyExplainLimit:
    """A limit that applies."""
    name: str
    """The limit's name."""
    limit_bps: int
    """Its rate."""
    burst_bytes: int
    """The bytes that may leave at once after a pause."""


@dataclass(frozen=True, kw_only=True)
class PolicyExplainWaiting:
    """The packets of the class that wait at the daemon, with --live; absent without it."""
    backlog_bytes: int
    """The bytes that wait."""
    bps: float
    """The rate on the wire over the last second, in bits per second."""
    entitled_bps: float | None
    """The rate that the policy guarantees; null where it is not known."""
    sojourn_p99_s: float | None
    """The time within which 99 of 100 packets left; null before the first."""
    reasons: list[str]
    """The reasons for which packets wait, the nearest to the class first."""


@dataclass(frozen=True, kw_only=True)
class PolicyTest:
    """The document of `weft policy test --json FILE`. Tests of policies and what left in them. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-policy-test/1']
    """Name and version of this schema."""
    host: Host
    tests: list[PolicyTestTest]
    """The tests, file by file."""


@dataclass(frozen=True, kw_only=True)
class PolicyTestTest:
    """A test and its outcome."""
    file: str
    """The file."""
    name: str
    """The name of the test, or its number in the file."""
    difference: str | None
    """The first difference from what is expected; null if the test passes."""
    sent: list[PolicyTestTestSentItem]
    """The departures in their order."""
    dropped: list[str]
    """The packets that were dropped or refused."""


@dataclass(frozen=True, kw_only=True)
class PolicyTestTestSentItem:
    """A departure."""
    packet: str
    """The name of the packet."""
    at_ns: int
    """The time at which its transmission begins, in nanoseconds from the begin of the test."""


@dataclass(frozen=True, kw_only=True)
class Predict:
    """The document of `weft profile predict --json FILE`. Configurations to which no cost was fitted, simulated and measured. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-predict/1']
    """Name and version of this schema."""
    host: Host
    costs: str
    """The file of costs."""
    fitted_cells: list[str]
    """The cells to which the costs were fitted: pattern, flows, level."""
    null_model: PredictNullModel | None
    """Means of the fitted cells, which the null model gives every configuration; null where the file of costs has none."""
    cells: list[PredictCell]
    """The configurations."""
    measured: bool
    """Whether real traffic was asked for."""
    median_error: float | None
    """Median relative error of all figures; null if nothing was measured."""
    null_error: float | None
    """That of the null model; null without one."""
    labels: list[str]
    """Limits of the figures."""


@dataclass(frozen=True, kw_only=True)
class PredictNullModel:
    """Means of the fitted cells, which the null model gives every configuration; null where the file of costs has none."""
    sender_ns_per_byte: float
    """Processor time of the sender in nanoseconds per payload byte."""
    receiver_ns_per_byte: float
    """Processor time of the receiver in nanoseconds per payload byte."""
    bps: float
    """Throughput of payload."""


@dataclass(frozen=True, kw_only=True)
class PredictCell:
    """A configuration."""
    name: str
    """Its name."""
    link_bps: float | None = field(default=None, metadata={'required': False})
    """Rate of its link; absent where only processors limit."""
    simulated: PredictFigures
    measured: PredictCellMeasured | None
    """Figures of real traffic; null without."""
    not_measured: str | None
    """The reason that this machine cannot measure it; null otherwise."""
    foreign_share: float | None
    """The largest share of samples that other processes had; null if it was not measured."""


@dataclass(frozen=True, kw_only=True)
class PredictFigures:
    """Figures of a configuration."""
    sender_ns_per_byte: float
    """Processor time of the sender in nanoseconds per payload byte."""
    receiver_ns_per_byte: float
    """Processor time of the receiver in nanoseconds per payload byte."""
    bps: float
    """Throughput of payload."""


@dataclass(frozen=True, kw_only=True)
class PredictCellMeasured:
    """Figures of real traffic; null without."""
    sender_ns_per_byte: float
    """Processor time of the sender in nanoseconds per payload byte."""
    receiver_ns_per_byte: float
    """Processor time of the receiver in nanoseconds per payload byte."""
    bps: float
    """Throughput of payload."""


@dataclass(frozen=True, kw_only=True)
class ProfileAttached:
    """The document of `weft profile --attach --json FILE`. Processor time of the network stack by task, direction and category, of what ran on the host. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-profile-attached/1']
    """Name and version of this schema."""
    host: Host
    subject: ProfileAttachedSubject
    """The subject."""
    conditions: ProfileAttachedConditions
    """The conditions of sampling."""
    span_s: float
    """The measured time."""
    processors: int
    """Processors that were sampled."""
    utilisation: Utilisation
    network_s: Network
    ns_per_byte: ProfileAttachedNsPerByte
    """Nanoseconds per byte of the counted devices; a direction without bytes is absent."""
    rows: list[Row]
    """Tasks, those with the most time in the network stack first."""
    devices: list[ProfileAttachedDevice]
    """The devices of the namespace."""
    skb_bytes: ProfileAttachedSkbBytes | None
    """Sizes; null where eBPF could not run."""
    latency_s: ProfileAttachedLatencyS | None
    """Latency; null without a sample."""
    retransmitted: int
    """Segments sent again, in all namespaces."""
    leaf_unmapped: float
    """Share of the time in the network stack whose innermost function has no rule."""
    missing: dict[str, float]
    """Time in the network stack by innermost functions that the table does not have, in seconds; the largest."""
    lost_samples: int
    """Samples that were lost."""
    tool: ProfileAttachedTool
    """The profiler's own cost, as shares of all processors' time."""
    windows: list[ProfileAttachedWindow]
    """The parts of the span."""
    policies: list[ProfileAttachedPolicy]
    """The policies that weftline enforces; empty without it."""
    labels: list[str]
    """Findings of the preflight, and limits of the figures."""


@dataclass(frozen=True, kw_only=True)
class ProfileAttachedSubject:
    """The subject."""
    kind: Literal['host', 'process', 'cgroup', 'device']
    """Its kind."""
    name: str
    """The process, path or device; empty for the host."""


@dataclass(frozen=True, kw_only=True)
class ProfileAttachedConditions:
    """The conditions of sampling."""
    clock: Literal['cycles', 'cpu-clock', 'none']
    """The event that took samples."""
    sample_hz: int
    """Samples per second and processor."""
    categories: str
    """The version of the table of categories."""


@dataclass(frozen=True, kw_only=True)
class Utilisation:
    """Cores in use."""
    user: float
    """By programs."""
    system: float
    """By the kernel for processes."""
    softirq: float
    """By softirqs."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """Time in the network stack by direction and category."""
    transmit: NetworkTransmit | None = field(default=None, metadata={'required': False})
    """Seconds by category; categories without a sample are absent."""
    receive: NetworkReceive | None = field(default=None, metadata={'required': False})
    """Seconds by category; categories without a sample are absent."""
    not_told_apart: NetworkNotToldApart | None = field(default=None, metadata={'required': False})
    """Seconds by category; categories without a sample are absent."""


@dataclass(frozen=True, kw_only=True)
class NetworkTransmit:
    """Seconds by category; categories without a sample are absent."""
    data_copy: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    tcpip: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    netdev: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    skb: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    mem: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    lock: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    sched: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    etc: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    irq_off: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    unmapped: float | None = field(default=None, metadata={'required': False})
    """Of the category."""


@dataclass(frozen=True, kw_only=True)
class NetworkReceive:
    """Seconds by category; categories without a sample are absent."""
    data_copy: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    tcpip: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    netdev: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    skb: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    mem: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    lock: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    sched: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    etc: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    irq_off: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    unmapped: float | None = field(default=None, metadata={'required': False})
    """Of the category."""


@dataclass(frozen=True, kw_only=True)
class NetworkNotToldApart:
    """Seconds by category; categories without a sample are absent."""
    data_copy: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    tcpip: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    netdev: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    skb: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    mem: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    lock: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    sched: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    etc: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    irq_off: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    unmapped: float | None = field(default=None, metadata={'required': False})
    """Of the category."""


@dataclass(frozen=True, kw_only=True)
class ProfileAttachedNsPerByte:
    """Nanoseconds per byte of the counted devices; a direction without bytes is absent."""
    transmit: ByCategory | None = field(default=None, metadata={'required': False})
    receive: ByCategory | None = field(default=None, metadata={'required': False})
    not_told_apart: ByCategory | None = field(default=None, metadata={'required': False})


@dataclass(frozen=True, kw_only=True)
class ByCategory:
    """A figure for each category."""
    data_copy: float
    """Of the category."""
    tcpip: float
    """Of the category."""
    netdev: float
    """Of the category."""
    skb: float
    """Of the category."""
    mem: float
    """Of the category."""
    lock: float
    """Of the category."""
    sched: float
    """Of the category."""
    etc: float
    """Of the category."""
    irq_off: float
    """Of the category."""
    unmapped: float
    """Of the category."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A task."""
    kind: Literal['process', 'cgroup', 'weft', 'softirq', 'tool', 'rest']
    """Its kind."""
    name: str
    """A command, a path, a thread."""
    pid: int | None = field(default=None, metadata={'required': False})
    """The process; absent where the row is not one."""
    cgroup: str | None = field(default=None, metadata={'required': False})
    """Its cgroup; absent where it is not known."""
    user: int | None = field(default=None, metadata={'required': False})
    """Its user; absent where it is not known."""
    time: RowTime
    """Its processor time."""


@dataclass(frozen=True, kw_only=True)
class RowTime:
    """Its processor time."""
    user_s: float
    """In programs."""
    kernel_s: float
    """In the kernel, in the network stack and elsewhere."""
    network_s: Network


@dataclass(frozen=True, kw_only=True)
class ProfileAttachedDevice:
    """A device."""
    device: str
    """Its name."""
    counted: bool
    """Whether its bytes divide the processor time."""
    tx_bytes: int
    """Bytes sent."""
    tx_packets: int
    """Packets sent."""
    rx_bytes: int
    """Bytes received."""
    rx_packets: int
    """Packets received."""


@dataclass(frozen=True, kw_only=True)
class ProfileAttachedSkbBytes:
    """Sizes; null where eBPF could not run."""
    before_gro: Sizes
    after_gro: Sizes
    transmit: Sizes
    copies: Sizes


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A histogram: buckets of 1 KiB, the last from 64 KiB on."""
    counts: list[int]
    """Number of sizes in each bucket."""
    mean: float | None
    """The mean in bytes; null without a size."""


@dataclass(frozen=True, kw_only=True)
class ProfileAttachedLatencyS:
    """Latency; null without a sample."""
    count: int
    """Number of sampled packets."""
    p50: float
    """Median in seconds."""
    p99: float
    """99th percentile in seconds."""


@dataclass(frozen=True, kw_only=True)
class ProfileAttachedTool:
    """The profiler's own cost, as shares of all processors' time."""
    processor: float
    """That of its process."""
    probes: float | None
    """That of the programs at the tracepoints; null where they could not run, or the kernel has no statistics of programs."""


@dataclass(frozen=True, kw_only=True)
class ProfileAttachedWindow:
    """A part of the span."""
    span_s: float
    """Its length."""
    moved: Moved
    network_s: Network


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Bytes and packets of the counted devices."""
    tx_bytes: int
    """Bytes sent."""
    tx_packets: int
    """Packets sent."""
    rx_bytes: int
    """Bytes received."""
    rx_packets: int
    """Packets received."""


@dataclass(frozen=True, kw_only=True)
class ProfileAttachedPolicy:
    """A policy in force."""
    uplink: str | None = field(default=None, metadata={'required': False})
    """The uplink, if it has a name."""
    policy: str
    """Its name."""
    generation: int
    """Its number."""
    classes: list[ProfileAttachedPolicyClass]
    """The classes."""
    not_told_apart_s: float
    """Time in the network stack of processes whose packets several classes may take."""
    without_port_s: float
    """Time in the network stack of processes in namespaces without a port."""


@dataclass(frozen=True, kw_only=True)
class ProfileAttachedPolicyClass:
    """A class."""
    class_: str = field(metadata={'key': 'class'})
    """Its name."""
    packets: int
    """Packets sent in the span."""
    bytes: int
    """Bytes sent in the span."""
    processes: int
    """Processes all of whose packets the class takes."""
    processor_s: float
    """Their processor time."""
    network_s: float
    """Their time in the network stack."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The document of `weft profile PATTERN --json FILE`. Processor time of the network stack by side and category. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-profile/1']
    """Name and version of this schema."""
    host: Host
    peer: ProfilePeer | None = field(default=None, metadata={'required': False})
    """The receiving host of a measurement between two hosts; absent if the runs were on one host."""
    pattern: Literal['single', 'one-to-one', 'incast', 'outcast', 'all-to-all']
    """The pattern of traffic."""
    rpc_bytes: int | None = field(default=None, metadata={'required': False})
    """Bytes of a request; absent for bulk flows."""
    conditions: ProfileConditions
    """The conditions of sampling."""
    repeats: int
    """Repeats of each level."""
    configs: list[ProfileConfig]
    """The levels."""
    missing: dict[str, float] | None = field(default=None, metadata={'required': False})
    """Kernel time by innermost functions that the table does not have, in seconds; the largest."""
    labels: list[str]
    """Findings of the preflight, and limits of the figures."""
    advice: list[ProfileAdviceItem]
    """Remarks by rules."""
    tried: list[ProfileTriedItem] | None = field(default=None, metadata={'required': False})
    """Remarks that were tried, with --try; absent without."""


@dataclass(frozen=True, kw_only=True)
class ProfilePeer:
    """The receiving host of a measurement between two hosts; absent if the runs were on one host."""
    name: str
    """Its name, as the user gave it."""
    address: str
    """Its address."""
    kernel: str
    """Kernel release."""
    processors: int
    """The processors that its server could use."""


@dataclass(frozen=True, kw_only=True)
class ProfileConditions:
    """The conditions of sampling."""
    clock: Literal['cycles', 'cpu-clock', 'none']
    """The event that took samples."""
    sample_hz: int
    """Samples per second and processor."""
    categories: str
    """The version of the table of categories."""


@dataclass(frozen=True, kw_only=True)
class ProfileConfig:
    """A level: medians over its runs."""
    level: str
    """The level."""
    flows: int
    """The number of flows."""
    bps: float
    """Payload bits per second, without the instrument."""
    bps_spread: list[float]
    """Least and most."""
    bps_per_core: float | None
    """Throughput per core of the limiting side."""
    bottleneck: Literal['sender', 'receiver'] | None
    """The side whose cores had the larger part in use."""
    bps_per_busy_core: float | None
    """Throughput per core in use of both sides."""
    cpu_share: ByCategory
    utilisation: Utilisation
    sides: ProfileConfigSides
    """The sides."""
    skb_bytes: ProfileConfigSkbBytes | None
    """Sizes of all runs; null where eBPF could not run."""
    latency_s: ProfileConfigLatencyS | None
    """Latency; null without a sample."""
    cache_miss: float | None
    """Of the limiting side; null without a counter."""
    retransmitted: int
    """Segments sent again in all runs."""
    overhead: float | None
    """Loss of throughput by the instrument, as a share."""
    probe_overhead: float | None = field(default=None, metadata={'required': False})
    """Cost of the programs at the tracepoints alone, as a share of both sides' processor time."""
    foreign_share: float
    """The largest share of samples that other processes had."""
    interrupts_share: float | None = field(default=None, metadata={'required': False})
    """The median share of samples that softirqs and interrupts of nobody known had."""
    lost_samples: int
    """Samples that were lost."""
    leaf_unmapped: float
    """Share of kernel time whose innermost function has no rule."""
    runs: list[ProfileRun]
    """The runs."""


@dataclass(frozen=True, kw_only=True)
class ProfileConfigSides:
    """The sides."""
    sender: Side
    receiver: Side


@dataclass(frozen=True, kw_only=True)
class Side:
    """A side's figures."""
    cores: int
    """Cores that its processes were given."""
    bps_per_core: float | None
    """Throughput per core in use by it."""
    utilisation: Utilisation
    cpu_share: ByCategory
    ns_per_byte: ByCategory
    cache_miss: float | None
    """Share of cache accesses that missed; null without a counter."""


@dataclass(frozen=True, kw_only=True)
class ProfileConfigSkbBytes:
    """Sizes of all runs; null where eBPF could not run."""
    before_gro: Sizes
    after_gro: Sizes
    transmit: Sizes
    copies: Sizes


@dataclass(frozen=True, kw_only=True)
class ProfileConfigLatencyS:
    """Latency; null without a sample."""
    count: int
    """Number of sampled packets."""
    p50: float
    """Median in seconds."""
    p99: float
    """99th percentile in seconds."""


@dataclass(frozen=True, kw_only=True)
class ProfileRun:
    """One repeat of a level."""
    repeat: int
    """The repeat, from 1."""
    bare_bps: float
    """Throughput without the instrument."""
    bps: float
    """Throughput with it."""
    span_s: float
    """The sampled time."""
    work: ProfileWork
    sender: SideTime
    receiver: SideTime
    foreign_s: float
    """Time of other processes."""
    interrupts_s: float | None = field(default=None, metadata={'required': False})
    """Time of softirqs and interrupts of nobody known, as timers in ksoftirqd; others' in older documents."""
    tool_s: float
    """Time of this program."""
    leaf_unmapped: float
    """Share of kernel time whose innermost function has no rule."""
    lost_samples: int
    """Samples that were lost."""
    probe_cores: float | None = field(default=None, metadata={'required': False})
    """Processors that the programs at the tracepoints used; null where they could not run, or the kernel has no statistics of programs."""
    cache_miss: ProfileRunCacheMiss
    """Share of cache accesses that missed by side; null without a counter."""
    sizes: ProfileRunSizes | None
    """Sizes; null where eBPF could not run."""
    latency: ProfileRunLatency | None
    """Latency; null without a sample."""
    counted: ProfileRunCounted | None = field(default=None, metadata={'required': False})
    """The flows' bytes since they were opened, counted by both hosts one after the other; absent on one host."""


@dataclass(frozen=True, kw_only=True)
class ProfileWork:
    """The traffic of a run."""
    bytes: int
    """Payload bytes received."""
    segments: int
    """TCP segments received."""
    skbs: int
    """IP packets received, merged ones counted once."""
    acks: int
    """TCP segments that the receiver sent."""
    receiver_waits: int
    """Times that the receiver's processes waited."""
    sender_waits: int
    """Times that the sender's processes waited."""
    retransmitted: int
    """Segments sent again."""


@dataclass(frozen=True, kw_only=True)
class SideTime:
    """Processor time of a side in one run."""
    user_s: float
    """In programs."""
    system_s: float
    """In the kernel, for a process."""
    softirq_s: float
    """In softirqs."""
    categories_s: SideTimeCategoriesS
    """The kernel's time by category."""


@dataclass(frozen=True, kw_only=True)
class SideTimeCategoriesS:
    """The kernel's time by category."""
    data_copy: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    tcpip: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    netdev: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    skb: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    mem: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    lock: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    sched: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    etc: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    irq_off: float | None = field(default=None, metadata={'required': False})
    """Of the category."""
    unmapped: float | None = field(default=None, metadata={'required': False})
    """Of the category."""


@dataclass(frozen=True, kw_only=True)
class ProfileRunCacheMiss:
    """Share of cache accesses that missed by side; null without a counter."""
    sender: float | None = field(default=None, metadata={'required': False})
    """Sender."""
    receiver: float | None = field(default=None, metadata={'required': False})
    """Receiver."""


@dataclass(frozen=True, kw_only=True)
class ProfileRunSizes:
    """Sizes; null where eBPF could not run."""
    before_gro: Sizes
    after_gro: Sizes
    transmit: Sizes
    copies: Sizes


@dataclass(frozen=True, kw_only=True)
class ProfileRunLatency:
    """Latency; null without a sample."""
    count: int
    """Number of sampled packets."""
    p50: float
    """Median in seconds."""
    p99: float
    """99th percentile in seconds."""


@dataclass(frozen=True, kw_only=True)
class ProfileRunCounted:
    """The flows' bytes since they were opened, counted by both hosts one after the other; absent on one host."""
    acked: int
    """Bytes that the receiver had acknowledged, by the sender."""
    received: int
    """Bytes received, by the receiver, asked after that."""
    sent: int
    """Bytes sent, by the sender, after the receiver's answer."""


@dataclass(frozen=True, kw_only=True)
class ProfileAdviceItem:
    """A remark."""
    level: str
    """The level."""
    evidence: str
    """The figures that gave rise to it."""
    command: str
    """The command that would change it."""


@dataclass(frozen=True, kw_only=True)
class ProfileTriedItem:
    """A remark that was tried in turns."""
    level: str
    """The level."""
    evidence: str
    """The figures that gave rise to the remark."""
    command: str
    """The command whose effect was made; the remark's if it was not tried."""
    not_tried: str | None = field(default=None, metadata={'required': False})
    """The reason that it was not tried."""
    bps: Effect | None = field(default=None, metadata={'required': False})
    ns_per_byte: Effect | None = field(default=None, metadata={'required': False})
    without: list[ProfileRun]
    """The runs without."""
    with_: list[ProfileRun] = field(metadata={'key': 'with'})
    """The runs with."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A figure without a change and with it."""
    without: float
    """The mean without."""
    with_: float = field(metadata={'key': 'with'})
    """The mean with."""
    half_width: float | None
    """Half of the 95 % interval of the difference, Welch's over the runs; null with one run of each."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The document of `weft replay --json FILE`. A capture scheduled by a policy. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-replay/1']
    """Name and version of this schema."""
    host: Host
    classes: list[ReplayClass]
    """The classes of the policy in its order."""
    conservation: Conservation


@dataclass(frozen=True, kw_only=True)
class ReplayClass:
    """The departures and drops of a class."""
    class_: str = field(metadata={'key': 'class'})
    """Name of the class."""
    packets: int
    """Packets that left."""
    bytes: int
    """Bytes that left."""
    dropped: dict[str, ReplayClassDroppedItem]
    """Reason -> packets and bytes of the class dropped for it: `class full` at its bound, `dropper` by a dropper of the policy."""
    first_s: float | None
    """Departure of the first, in seconds since the trace's first packet; null without one."""
    last_s: float | None
    """Departure of the last, in seconds since the trace's first packet; null without one."""


@dataclass(frozen=True, kw_only=True)
class ReplayClassDroppedItem:
    """Packets and bytes dropped for one reason."""
    packets: int
    """Packets."""
    bytes: int
    """Bytes."""


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """The document of `weft reproduce --json FILE`: published, simulated and measured values. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-reproduce/1']
    """Name and version of this schema."""
    host: Host
    seed: int
    """The first seed."""
    experiments: list[Experiment]
    """The experiments, in the order of their runs."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment."""
    id: str
    """Its id."""
    title: str
    """Its title."""
    source: str
    """The paper, and its table or figure."""
    cells: list[ReproduceCell]
    """Its cells."""
    tau: dict[str, float | None]
    """Kendall's tau by column."""
    median_relative_error: float | None
    """The median relative error of all its cells."""
    scores: list[ReproduceScore]
    """Scores by column."""
    series: list[Series]
    """The lines of its plots."""
    claims: list[Claim]
    """The paper's statements, as claims."""
    notes: list[str]
    """Remarks for readers."""
    measured_on: str | None
    """Machine and time of the measured values; null for the document's host and time."""
    events: int
    """Events of all its runs."""
    wall_s: float
    """Duration, in seconds."""


@dataclass(frozen=True, kw_only=True)
class ReproduceCell:
    """A cell: a configuration and a metric, at a number of flows."""
    row: str
    """Configuration."""
    column: str
    """Metric."""
    flows: int
    """Number of flows, or the value of the experiment's varied number."""
    published: float | None
    """The published value."""
    simulated: float | None
    """Mean over the simulated runs."""
    measured: float | None
    """The measured value: the mean of several runs."""
    measured_spread: list[float] | None
    """The smallest and the largest of the measured runs."""
    measured_runs: list[float]
    """The measured runs, in the order of their seeds."""
    unit: str
    """Unit of the values."""
    band: list[float] | None
    """5th and 95th percentile of the mean of `runs` runs."""
    runs: int
    """Number of the paper's runs."""
    seeds: int
    """Number of simulated runs."""
    floor: float
    """The smallest denominator of the relative error."""
    verdict: Literal['inside band', 'within 25 %', 'off', 'not comparable']
    """The verdict on the cell."""
    note: str | None
    """The known reason for a deviation."""


@dataclass(frozen=True, kw_only=True)
class ReproduceScore:
    """Scores of a column."""
    column: str
    """The column."""
    cells: int
    """Cells with both values."""
    tau: float | None
    """Kendall's tau-b."""
    tau_distinguishable: float | None
    """Kendall's tau-b over the pairs that differ by more than chance."""
    pairs_distinguishable: int
    """Number of these pairs."""
    inside_band: int
    """Number of cells whose published value is in the band."""
    close: int
    """Number of cells in the band or within 25 %."""
    within_25_percent: int
    """Number of cells within 25 %."""
    median_relative_error: float | None
    """Median relative error."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line of a plot."""
    plot: str
    """The plot."""
    name: str
    """The line."""
    x_label: str
    """The label of x."""
    y_label: str
    """The label of y."""
    kind: str
    """line, step, points or reference."""
    x: list[float]
    """Values of x, ascending."""
    y: list[float]
    """Values of y."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim: a statement of the paper."""
    statement: str
    """The statement."""
    expected: str
    """The conditions on the figures."""
    simulated: str
    """The figures: simulated, or measured if the statement or the experiment says so."""
    holds: bool
    """Whether the claim holds."""
    null: str | None
    """The null model: the figures if the statement were false."""
    null_passes: bool | None
    """Whether the conditions hold for the null model's figures; null without a null model."""
    not_shown: str | None
    """The reason that the figures cannot show the claim, which then does not hold."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The document of `weft run --json FILE`. Packets sent by the software NIC, by class of the policy. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-run/1']
    """Name and version of this schema."""
    host: Host
    duration_s: float
    """Duration of the run, in seconds."""
    classes: list[RunClass]
    """The classes of the policy in its order."""
    dropped: RunDropped | None = field(default=None, metadata={'required': False})
    """Packets dropped, by reason."""
    counters: RunCounters | None = field(default=None, metadata={'required': False})
    """Packets of rare events at the ports, by counter."""
    lags: list[RunLag] | None = field(default=None, metadata={'required': False})
    """The largest lag behind the fluid schedule of the backlogged classes, for each class or queue of the policy without a rate limit. Empty for an emulated link."""
    uplink: RunUplink | None = field(default=None, metadata={'required': False})
    """The uplink's device."""
    receive: RunReceive | None = field(default=None, metadata={'required': False})
    """The receive direction, from the uplink to the port. Absent in documents of earlier versions."""
    conservation: Conservation


@dataclass(frozen=True, kw_only=True)
class RunClass:
    """Counters of one class."""
    class_: str = field(metadata={'key': 'class'})
    """Name of the class."""
    packets: int
    """Packets sent."""
    bytes: int
    """Bytes sent."""
    dropped_packets: int
    """Packets dropped."""
    dropped_bytes: int
    """Bytes dropped."""
    counters: RunClassCounters | None = field(default=None, metadata={'required': False})
    """Packets of rare events of the class, by counter."""


@dataclass(frozen=True, kw_only=True)
class RunClassCounters:
    """Packets of rare events of the class, by counter."""
    late_claims: int | None = field(default=None, metadata={'required': False})
    """Packets that asked for a time too late for a ring that flows share, and were sent as if they asked for none."""


@dataclass(frozen=True, kw_only=True)
class RunDropped:
    """Packets dropped, by reason."""
    refused: int
    """Refused by the uplink."""
    ring_full: int
    """Dropped at a full ring."""
    qdisc: int
    """A qdisc at the port dropped them: one that a user has installed, or the FIFOs of a TAP."""
    backlog: int
    """Dropped at the full receive backlog between the ends of the port."""
    bound: int
    """Refused because the class had reached its bound."""
    moving: int
    """Refused because the flow had changed its class and had packets in its old ring."""
    stray: int
    """Dropped because they were not announced by a doorbell."""
    uplink: int
    """Dropped by the uplink's device after it had accepted them."""
    lost: int
    """Posted, never arrived, and in no counter of the kernel. The accounting does not balance."""


@dataclass(frozen=True, kw_only=True)
class RunCounters:
    """Packets of rare events at the ports, by counter."""
    cut_packets: int | None = field(default=None, metadata={'required': False})
    """Segments of super-packets that were cut behind their doorbell, posted before the ring."""
    infrastructure_excess: int | None = field(default=None, metadata={'required': False})
    """Packets of infrastructure beyond its share, scheduled as any other."""
    obscured_drops: int | None = field(default=None, metadata={'required': False})
    """Packets dropped because their class could not be determined."""
    strays: int | None = field(default=None, metadata={'required': False})
    """Packets found in a ring without a doorbell."""
    unannounced_drops: int | None = field(default=None, metadata={'required': False})
    """Packets dropped because they bypassed the program at the egress, so that no doorbell announced them."""
    unknown_makers: int | None = field(default=None, metadata={'required': False})
    """Packets of sockets of which it is not known which process made them, while the policy tests that."""


@dataclass(frozen=True, kw_only=True)
class RunLag:
    """weft-run/1"""
    class_: str = field(metadata={'key': 'class'})
    """The name of the class or of the queue that classes share."""
    lag_bytes: int
    """The part of its due that it did not have, in bytes on the wire."""
    lag_s: float | None
    """The time of these bytes at the rate of the bottleneck, in seconds; null without a known rate."""
    bound_bytes: int
    """The largest lag that the schedule may cause with the chunks that were sent, in bytes on the wire."""


@dataclass(frozen=True, kw_only=True)
class RunUplink:
    """The uplink's device."""
    observed_bps: float | None
    """The rate that the device last showed by its back-pressure, in bits per second; null if it was not the bottleneck at the end."""
    waits: int
    """Waits for room in the device."""
    overdrawn_turns: int
    """Turns of urgent classes that began although the link's clock was ahead of the wall clock."""
    ahead_max_s: float
    """The furthest that the link's clock was ahead when such a turn began, in seconds."""


@dataclass(frozen=True, kw_only=True)
class RunReceive:
    """The receive direction, from the uplink to the port. Absent in documents of earlier versions."""
    by: Literal['kernel', 'thread']
    """The carrier of received packets: the kernel, by redirect, or a thread. Beside the kernel, the thread carries what the redirect leaves."""
    reason: str | None = field(default=None, metadata={'required': False})
    """The reason for the thread, if it is the thread."""
    redirected_packets: int
    """Packets redirected by the kernel."""
    redirected_bytes: int
    """Their bytes."""
    thread_packets: int
    """Packets read by the thread."""
    thread_bytes: int
    """Their bytes."""
    dropped_packets: int
    """Packets that did not reach the port: it was down, they were above its MTU, or its receive backlog was full."""


@dataclass(frozen=True, kw_only=True)
class Sim:
    """The document of `weft sim --json FILE`: the outcome of a scenario. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-sim/1']
    """Name and version of this schema."""
    host: Host
    seed: int
    """The first seed."""
    seeds: int
    """Number of seeds."""
    scenario: str
    """Its name."""
    events: int
    """Events of all runs."""
    wall_s: float
    """Duration of all runs, in seconds."""
    sim_s: float
    """The measured part of a run, in simulated seconds."""
    throughput_bps: float
    """Rate of the departing frames."""
    flows: list[Flow]
    """Flows of the first seed."""
    nfm: dict[str, Fairness]
    """NFM by interval."""
    latency_s: dict[str, Latency]
    """Latencies by probe and group of requests."""
    cpu: list[list[dict[str, float]]]
    """Processors by host."""
    spread: dict[str, Spread]
    """Means and ranges over the seeds, by quantity."""
    conservation: Conservation
    class_drops: dict[str, dict[str, Drops]] | None = field(default=None, metadata={'required': False})
    """Class -> reason -> packets and bytes dropped, first seed, warm-up included. The class is that of the policy of the sender's NIC; without a policy, that of the flow. The sums over the classes are the `drops` of `conservation`. Absent without drops."""
    counters: dict[str, int]
    """Counters of all hosts together, first seed, warm-up included: segments handed to rings, packets sent, doorbells, retransmission_timeouts and tail_loss_probes of TCP senders, and others."""
    policy_changes: list[PolicyChange] | None = field(default=None, metadata={'required': False})
    """Changes of hosts' policies in the first run, in the order of hosts and times. Absent without one."""
    stopped: bool | None = field(default=None, metadata={'required': False})
    """Whether the user stopped the run: the document then has only the completed runs. Absent if not."""
    unbalanced_seeds: list[int] | None = field(default=None, metadata={'required': False})
    """Seeds of runs whose accounting does not balance. Absent without one."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A flow."""
    group: str
    """Its group."""
    bytes: int
    """Frame bytes sent in the measured part."""
    bps: float
    """Their rate."""
    received_bytes: int
    """Payload received."""
    completion_s: float | None
    """Time from start to completion, in seconds."""
    retransmitted: int
    """Retransmitted packets."""


@dataclass(frozen=True, kw_only=True)
class Fairness:
    """NFM over an interval."""
    mean: float | None
    """Mean over the windows."""
    max: float | None
    """Maximum."""
    windows: int
    """Number of windows."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Percentiles of a latency, in seconds."""
    samples: int
    """Number of samples."""
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


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and range over the seeds."""
    mean: float
    """Mean."""
    min: float
    """Minimum."""
    max: float
    """Maximum."""


@dataclass(frozen=True, kw_only=True)
class Drops:
    """Packets and bytes dropped for one reason."""
    packets: int
    """Packets."""
    bytes: int
    """Bytes."""


@dataclass(frozen=True, kw_only=True)
class PolicyChange:
    """A change of a host's policy."""
    at_s: float
    """Its time, from the start of the run, in seconds."""
    host: int
    """The index of the host."""
    what: str
    """The tenant and its file, or the policy."""
    refused: str | None = field(default=None, metadata={'required': False})
    """The reason why it was refused, so that what was in force stayed. Absent if it took place."""
    steps: list[str]
    """The differences, in the policy's words."""
    warnings: list[str]
    """Tenants that do without their files, and effects that the author may not have meant."""
    classes: list[PolicyClass]
    """The classes of the policies before and after."""


@dataclass(frozen=True, kw_only=True)
class PolicyClass:
    """A class of a policy that changes."""
    class_: str = field(metadata={'key': 'class'})
    """Its name."""
    before_bps: float | None
    """The rate of its departing frames from the change before, or the start of the run, to this one; null for a class that is new."""
    after_bps: float | None
    """The rate from this change to the next, or to the end of the run; null for a class that is gone."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """The document of `weft status --json FILE`: the counters of a running daemon. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-status/1']
    """Name and version of this schema."""
    host: Host
    generation: int
    """Number of the policy in force: 1 at the start of the daemon, one more with each replacement."""
    policy_hash: str
    """SHA-256 of the policy's text, in hexadecimal digits."""
    policy: str
    """Name of the policy."""
    uptime_s: float
    """Time since the daemon started."""
    worker: Literal['waiting', 'running', 'ended']
    """State of the transmit worker; it waits while there is no port."""
    worker_bound: bool | None = field(default=None, metadata={'required': False})
    """Whether the worker, not the link, is the bottleneck."""
    policy_change_pause_s: float | None = field(default=None, metadata={'required': False})
    """Longest time for which a replacement of the policy kept the worker from sending, in seconds; 0 before the first."""
    draining: StatusDraining | None = field(default=None, metadata={'required': False})
    """Rings that flows wait for, since they have left packets there before they changed their class; absent without one."""
    uplink: StatusUplink
    """The interface through which packets leave."""
    classes: list[StatusClass]
    """The classes in the policy's order."""
    limits: list[StatusLimit] | None = field(default=None, metadata={'required': False})
    """The rate limits in the policy's order."""
    ports: list[StatusPort]
    """The ports."""
    dropped: dict[str, int] | None = field(default=None, metadata={'required': False})
    """Packets dropped, by reason."""
    counters: StatusCounters | None = field(default=None, metadata={'required': False})
    """Packets of rare events at the ports, by counter."""
    failed_readings: int | None = field(default=None, metadata={'required': False})
    """Failed readings of the kernel's counters."""
    tenants: list[Tenant] | None = field(default=None, metadata={'required': False})
    """Tenants of the policy, each before those below it; absent if it has none."""
    uplinks: list[StatusStatus] | None = field(default=None, metadata={'required': False})
    """The counters of each uplink, where there are several and none was asked for; the rest are then those of the default uplink, or of the first."""
    steer: StatusSteer | None = field(default=None, metadata={'required': False})
    """The receive steering of the host's NIC, where the configuration wants it."""


@dataclass(frozen=True, kw_only=True)
class StatusDraining:
    """Rings that flows wait for, since they have left packets there before they changed their class; absent without one."""
    rings: int
    """The rings."""
    longest_s: float
    """Time for which the first of them has been waited for."""
    limit_s: float
    """Time after which the class that takes the flow sends what stands before."""


@dataclass(frozen=True, kw_only=True)
class StatusUplink:
    """The interface through which packets leave."""
    name: str | None = field(default=None, metadata={'required': False})
    """Name of the uplink; absent where the configuration has one without a name."""
    interface: str
    """Name of the interface."""
    netns: str | None = field(default=None, metadata={'required': False})
    """Network namespace; null for the daemon's."""
    up: bool
    """Whether it has a carrier."""
    rate_bps: float | None = field(default=None, metadata={'required': False})
    """Rate of the link, where one is given."""
    observed_bps: float | None = field(default=None, metadata={'required': False})
    """Rate that the device shows by its back-pressure; null while it is not the bottleneck."""


@dataclass(frozen=True, kw_only=True)
class StatusClass:
    """Counters of one class."""
    class_: str = field(metadata={'key': 'class'})
    """Name of the class."""
    bytes: int
    """Bytes sent."""
    packets: int
    """Packets sent."""
    dropped: dict[str, int]
    """Packets dropped, by reason."""
    counters: StatusClassCounters | None = field(default=None, metadata={'required': False})
    """Packets of rare events of the class, by counter."""
    backlog_bytes: int
    """Bytes that wait."""
    bps: float
    """Rate on the wire over the last second."""
    entitled_bps: float | None
    """Rate that the policy guarantees while every class is backlogged; null where it cannot be known."""
    entitled_reason: str | None = field(default=None, metadata={'required': False})
    """Reason for an unknown entitlement."""
    sojourn_s: StatusClassSojournS | None
    """Percentiles of the waiting time since the class began, in seconds; null before its first packet has left."""
    sojourn_reason: str | None = field(default=None, metadata={'required': False})
    """Reason for absent waiting times."""
    sojourn_histogram: StatusClassSojournHistogram | None = field(default=None, metadata={'required': False})
    """Histogram of the waiting time since the class began."""


@dataclass(frozen=True, kw_only=True)
class StatusClassCounters:
    """Packets of rare events of the class, by counter."""
    late_claims: int | None = field(default=None, metadata={'required': False})
    """Packets that asked for a time too late for a ring that flows share, and were sent as if they asked for none."""


@dataclass(frozen=True, kw_only=True)
class StatusClassSojournS:
    """Percentiles of the waiting time since the class began, in seconds; null before its first packet has left."""
    p50: float
    """The percentile."""
    p90: float
    """The percentile."""
    p99: float
    """The percentile."""
    p999: float
    """The percentile."""


@dataclass(frozen=True, kw_only=True)
class StatusClassSojournHistogram:
    """Histogram of the waiting time since the class began."""
    bounds_s: list[float]
    """Upper bounds of the buckets."""
    counts: list[int]
    """Packets in each bucket; the last is above all bounds."""
    sum_s: float
    """Sum of all times."""
    count: int
    """Number of packets."""


@dataclass(frozen=True, kw_only=True)
class StatusLimit:
    """A rate limit."""
    limit: str
    """Name of the limit."""
    limit_bps: float
    """Its rate."""
    bps: float | None
    """Rate through it over the last second; null where classes send with and without it."""
    classes: list[str]
    """Classes with traffic below it."""


@dataclass(frozen=True, kw_only=True)
class StatusPort:
    """A port."""
    port: str
    """Name."""
    netns: str | None = field(default=None, metadata={'required': False})
    """Network namespace; null for the daemon's."""
    kind: str
    """Kind of device."""
    mac: str
    """Hardware address."""
    addresses: list[str]
    """Addresses with their prefix lengths."""
    owner_uid: int
    """User who added it."""
    configured: bool
    """Whether it comes from the configuration."""
    rings: int
    """Descriptor rings."""
    receive: str
    """Carrier of received packets."""
    sent_packets: int
    """Packets sent."""
    sent_bytes: int
    """Bytes sent."""
    received_packets: int
    """Packets received."""
    dropped_packets: int
    """Packets dropped on their way to or from the port."""
    counters: StatusPortCounters | None = field(default=None, metadata={'required': False})
    """Packets of rare events at the port, by counter."""
    uplink: str | None = field(default=None, metadata={'required': False})
    """The uplink, where the configuration names its uplinks."""


@dataclass(frozen=True, kw_only=True)
class StatusPortCounters:
    """Packets of rare events at the port, by counter."""
    cut_packets: int | None = field(default=None, metadata={'required': False})
    """Segments of super-packets that were cut behind their doorbell, posted before the ring."""
    infrastructure_excess: int | None = field(default=None, metadata={'required': False})
    """Packets of infrastructure beyond its share, scheduled as any other."""
    obscured_drops: int | None = field(default=None, metadata={'required': False})
    """Packets dropped because their class could not be determined."""
    strays: int | None = field(default=None, metadata={'required': False})
    """Packets found in a ring without a doorbell."""
    unannounced_drops: int | None = field(default=None, metadata={'required': False})
    """Packets dropped because they bypassed the program at the egress, so that no doorbell announced them."""
    unknown_makers: int | None = field(default=None, metadata={'required': False})
    """Packets of sockets of which it is not known which process made them, while the policy tests that."""


@dataclass(frozen=True, kw_only=True)
class StatusCounters:
    """Packets of rare events at the ports, by counter."""
    cut_packets: int | None = field(default=None, metadata={'required': False})
    """Segments of super-packets that were cut behind their doorbell, posted before the ring."""
    infrastructure_excess: int | None = field(default=None, metadata={'required': False})
    """Packets of infrastructure beyond its share, scheduled as any other."""
    obscured_drops: int | None = field(default=None, metadata={'required': False})
    """Packets dropped because their class could not be determined."""
    strays: int | None = field(default=None, metadata={'required': False})
    """Packets found in a ring without a doorbell."""
    unannounced_drops: int | None = field(default=None, metadata={'required': False})
    """Packets dropped because they bypassed the program at the egress, so that no doorbell announced them."""
    unknown_makers: int | None = field(default=None, metadata={'required': False})
    """Packets of sockets of which it is not known which process made them, while the policy tests that."""


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """A tenant of the policy."""
    tenant: str
    """Name in the operator's policy."""
    cgroup: str | None
    """Cgroup to which its packets are restricted; null if they are not."""
    file: str | None
    """Name of the file in force; null without one, so that its packets share one FIFO."""
    hash: str | None
    """SHA-256 of the file's text, in hexadecimal digits."""
    origin: Literal['policy', 'attached', 'detached']
    """Origin of the file or of its absence: the operator's policy, or a call while the daemon ran."""
    owner_uid: int | None
    """User who attached or detached the file; null if nobody did."""
    since_unix_s: int
    """Time from which the file, or the FIFO, is in force, in seconds since 1970."""
    quotas: list[TenantQuota]
    """Quotas with their use."""
    refusal: TenantRefusal | None
    """Last file that was refused since the one in force was accepted; null without one."""
    uplink: str | None = field(default=None, metadata={'required': False})
    """The uplink, where the configuration names its uplinks."""


@dataclass(frozen=True, kw_only=True)
class TenantQuota:
    """A quota."""
    quota: Literal['classes', 'nodes', 'limits', 'flows', 'cost']
    """Word of the language."""
    most: int
    """Most that the tenant may use; of cost in nanoseconds."""
    used: int
    """Use of the file in force; 0 without one."""


@dataclass(frozen=True, kw_only=True)
class TenantRefusal:
    """Last file that was refused since the one in force was accepted; null without one."""
    at_unix_s: int
    """Time, in seconds since 1970."""
    error: str
    """First error, in a line with its place."""


@dataclass(frozen=True, kw_only=True)
class StatusStatus:
    """The counters of an uplink."""
    generation: int
    policy_hash: str
    policy: str
    uptime_s: float
    worker: Literal['waiting', 'running', 'ended']
    worker_bound: bool | None = field(default=None, metadata={'required': False})
    policy_change_pause_s: float | None = field(default=None, metadata={'required': False})
    draining: StatusDraining | None = field(default=None, metadata={'required': False})
    uplink: StatusUplink
    classes: list[StatusClass]
    limits: list[StatusLimit] | None = field(default=None, metadata={'required': False})
    ports: list[StatusPort]
    dropped: dict[str, int] | None = field(default=None, metadata={'required': False})
    counters: StatusCounters | None = field(default=None, metadata={'required': False})
    failed_readings: int | None = field(default=None, metadata={'required': False})
    tenants: list[Tenant] | None = field(default=None, metadata={'required': False})
    """Tenants of the policy, each before those below it; absent if it has none."""


@dataclass(frozen=True, kw_only=True)
class StatusSteer:
    """The receive steering of the host's NIC, where the configuration wants it."""
    interface: str
    """The interface."""
    netns: str | None = field(default=None, metadata={'required': False})
    """Its network namespace; null for the daemon's."""
    nic: str
    """The model of the NIC."""
    policy: str
    """The steering policy."""
    flows: int
    """The flows of the plan."""
    rules: int
    """The rules that are set."""
    table: bool
    """Whether the main table is set."""
    changes: int
    """The changes made so far."""
    degraded: list[str] | None = field(default=None, metadata={'required': False})
    """The wishes of the policy that were given up."""
    error: str | None = field(default=None, metadata={'required': False})
    """The reason for which the plan is not applied at present."""


@dataclass(frozen=True, kw_only=True)
class SteerImport:
    """The document of `weft steer import --json FILE`. The configuration of a device. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-steer-import/1']
    """Name and version of this schema."""
    host: Host
    device: str
    """The interface."""
    nic: str
    """Name of the NIC's model."""
    filters: list[SteerImportFilter]
    """The rules that the model can express."""
    locations: list[int | None]
    """The locations of these rules, in the same order."""
    foreign: list[SteerImportForeignItem]
    """The rules that the model cannot express, which are not changed."""
    contexts: list[SteerImportContext]
    """RSS contexts; the main one is 0."""
    notes: list[str]
    """Remarks on unreadable settings."""


@dataclass(frozen=True, kw_only=True)
class SteerImportFilter:
    """A rule."""
    table: str
    """The table's name."""
    match: str
    """Header fields."""
    priority: int
    """Precedence."""
    action: str
    """Queue, context or drop."""


@dataclass(frozen=True, kw_only=True)
class SteerImportForeignItem:
    """A rule."""
    location: int
    """Its location."""
    rule: str
    """The rule as ethtool writes it."""
    reason: str
    """The reason that the model cannot express it."""


@dataclass(frozen=True, kw_only=True)
class SteerImportContext:
    """A context."""
    context: int
    """Its number."""
    indirection: list[int]
    """The indirection table."""


@dataclass(frozen=True, kw_only=True)
class SteerModels:
    """The document of `weft steer models --json FILE`. NIC models. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-steer-models/1']
    """Name and version of this schema."""
    host: Host
    models: list[SteerModelsModel]
    """The models."""


@dataclass(frozen=True, kw_only=True)
class SteerModelsModel:
    """A NIC."""
    name: str
    """Its name on the command line."""
    title: str
    """Its name for users."""
    queues: int
    """Receive queues."""
    tables: list[SteerModelsModelTable]
    """Filter tables."""
    indirection: int | None
    """Number of entries of the indirection table; null without RSS."""
    contexts: int
    """Number of additional RSS contexts."""
    facts: list[SteerModelsModelFact]
    """Statements about the model."""


@dataclass(frozen=True, kw_only=True)
class SteerModelsModelTable:
    """A filter table."""
    name: str
    """Its name."""
    entries: int
    """Number of rules that fit."""
    interface: str
    """The interface by which it is set."""


@dataclass(frozen=True, kw_only=True)
class SteerModelsModelFact:
    """A statement."""
    text: str
    """The statement."""
    source: str
    """Its source."""


@dataclass(frozen=True, kw_only=True)
class SteerPlan:
    """The document of `weft steer plan --json FILE`. The planned configuration of a NIC. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-steer-plan/1']
    """Name and version of this schema."""
    host: Host
    nic: str
    """Name of the NIC's model."""
    policy: str
    """The policy as text."""
    cost: float | None
    """The cost of the plan by the policy; null if rejected."""
    rejected: str | None
    """The reason that the policy rejects the plan."""
    queues: list[SteerPlanQueue]
    """The queues with their flows."""
    filters: list[SteerPlanFilter]
    """Rules of the filter tables."""
    contexts: list[SteerPlanContext]
    """RSS contexts; the main one is 0."""
    degraded: list[str]
    """Unmet parts of the policy, in sentences."""
    unverified: list[str]
    """Unverified facts of the model on which the plan depends, in sentences."""
    changes: list[str]
    """Changes from the previous configuration, in order."""
    flows: list[SteerPlanFlow]
    """The queue of each flow, in the order of the flow file."""
    wall_s: float
    """Duration of the search, in seconds."""


@dataclass(frozen=True, kw_only=True)
class SteerPlanQueue:
    """A queue."""
    queue: int
    """Its number."""
    flows: int
    """Number of flows that certainly go to this queue."""
    weight: int
    """The sum of their weights."""
    classes: dict[str, int]
    """Flows by class."""


@dataclass(frozen=True, kw_only=True)
class SteerPlanFilter:
    """A rule."""
    table: str
    """The table's name."""
    match: str
    """Header fields."""
    priority: int
    """Precedence."""
    action: str
    """Queue, context or drop."""


@dataclass(frozen=True, kw_only=True)
class SteerPlanContext:
    """A context."""
    context: int
    """Its number."""
    indirection: list[int]
    """The indirection table."""


@dataclass(frozen=True, kw_only=True)
class SteerPlanFlow:
    """A flow."""
    match: str
    """Its header fields."""
    class_: str | None = field(metadata={'key': 'class'})
    """Its class."""
    queue: int | None
    """Its queue; null if its packets may go to several."""
    by: Literal['rule', 'hash', 'spread', 'default']
    """The steering entry."""


@dataclass(frozen=True, kw_only=True)
class SteerProbe:
    """The document of `weft steer probe --json FILE`. The rules that a driver accepts. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-steer-probe/1']
    """Name and version of this schema."""
    host: Host
    device: str
    """The interface."""
    nic: str
    """Name of the NIC's model."""
    probes: list[SteerProbeProbe]
    """The tried rules."""
    left: list[int]
    """Locations of rules that could not be deleted."""


@dataclass(frozen=True, kw_only=True)
class SteerProbeProbe:
    """A rule."""
    table: str
    """The table's name."""
    what: str
    """Description of the rule."""
    expected: bool
    """Whether the model supports the rule."""
    taken: bool
    """Whether the driver accepted the rule."""
    refusal: str | None
    """The driver's refusal."""


@dataclass(frozen=True, kw_only=True)
class SteerVerify:
    """The document of `weft steer verify --json FILE`. Packets of flows, counted in the queues of the software NIC. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-steer-verify/1']
    """Name and version of this schema."""
    host: Host
    nic: str
    """Name of the NIC's model."""
    packets_per_flow: int
    """Packets sent of each flow."""
    flows: list[SteerVerifyFlow]
    """The sent flows."""
    ok: bool
    """Whether every packet was counted where it was predicted."""
    wall_s: float
    """Duration, in seconds."""


@dataclass(frozen=True, kw_only=True)
class SteerVerifyFlow:
    """A flow."""
    match: str
    """Its header fields."""
    predicted: list[int]
    """The queues predicted by the model: one, several for a flow that RSS spreads, none for a drop."""
    counted: dict[str, int]
    """Packets counted, by queue."""
    dropped: int
    """Packets dropped by a rule."""
    ok: bool
    """Whether all packets were counted in the predicted queues, and the planner agrees."""
    planned_elsewhere: str | None
    """The planner's placement if it differs from the model's; null otherwise."""


@dataclass(frozen=True, kw_only=True)
class Tenants:
    """The document of `weft tenant list --json FILE`: the tenants of the policy that a running daemon enforces."""
    schema: Literal['weft-tenants/1']
    """Name and version of this schema."""
    host: Host
    generation: int
    """Number of the policy in force; with several uplinks, of the default one."""
    tenants: list[Tenant]
    """Tenants, each before those below it."""


@dataclass(frozen=True, kw_only=True)
class TitanStatus:
    """The document of `weft titan status --json FILE`. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-titan-status/1']
    """Name and version of this schema."""
    host: Host
    devices: list[TitanStatusDevice]
    """The devices with queue assignment."""


@dataclass(frozen=True, kw_only=True)
class TitanStatusDevice:
    """A device."""
    device: str
    """Its name."""
    netns: str
    """Its network namespace."""
    parts: list[str]
    """The parts in use: `dqa`, `dqwa`, `dsos`."""
    assignment: str
    """The method of assignment."""
    departures: str
    """The source of departure events: `destructors` or `tracepoints`."""
    attached_s: float
    """Time since the attachment, in seconds."""
    window_s: float
    """The window of rates and fairness, in seconds."""
    queues: list[TitanStatusDeviceQueue]
    """The queues."""
    flows: int
    """Flows that sent in the window."""
    unfairness: float | None
    """Difference of the largest and the smallest rate per weight of the flows that were active throughout, over their mean: 0 is fair. Null with fewer than two such flows."""
    jain: float | None
    """Jain's index of the same rates: 1 is fair."""
    program_ns: float | None
    """Nanoseconds of our programs per packet, departures included; null unless the kernel's statistics are enabled."""
    events: TitanStatusDeviceEvents
    """Counters since the attachment."""
    notes: list[str]
    """Remarks on unavailable parts, with reasons."""


@dataclass(frozen=True, kw_only=True)
class TitanStatusDeviceQueue:
    """A queue."""
    queue: int
    """Its number."""
    flows: int
    """Active flows."""
    weight: int
    """The sum of their weights."""
    packets: int
    """Packets assigned so far, in segments."""
    bytes: int
    """Bytes assigned so far."""
    bps: int
    """Rate in the window."""
    standing_bytes: int
    """Backlog in bytes: assigned and not departed."""
    moves: int
    """Moves of flows from another queue."""


@dataclass(frozen=True, kw_only=True)
class TitanStatusDeviceEvents:
    """Counters since the attachment."""
    activations: int
    """Flows that became active."""
    moves: int
    """Activations on another queue than before."""
    kept: int
    """Activations kept on their queue because the NIC held a packet of the flow."""
    beyond: int
    """Packets left to the device's choice because the maximum number of flows was reached."""
    without_socket: int
    """Packets without a TCP or UDP socket, left to the device's choice."""
    passed: int
    """Packets of flows that were active at the attachment, left to the device's choice."""
    repaired: int
    """Flows whose last departure was missed, counted out late."""


@dataclass(frozen=True, kw_only=True)
class Tune:
    """The document of `weft tune --json FILE`. A host's facts, candidates for other transmit settings, and a verdict. All numbers in SI base units (bits per second, bytes, seconds) unless the name says otherwise."""
    schema: Literal['weft-tune/1']
    """Name and version of this schema."""
    host: Host
    seed: int
    """The first seed."""
    wish: Literal['fairness', 'latency', 'throughput', 'processor']
    """The wish."""
    device: str
    """The device."""
    facts: list[TuneFact]
    """Facts about the host."""
    assumed: list[str]
    """Values of the scenario that no fact gives."""
    unknown: list[str]
    """Facts that decide and are unknown or not modelled; with one nothing is simulated."""
    costs: str
    """The costs of the processors' work."""
    seeds: int
    """Seeds of the ranking."""
    candidates: list[TuneCandidate]
    """The present setting, then the candidates, the best first; those that were not simulated at the end."""
    tried_at: str | None
    """The place of the trials with real traffic; null without trials."""
    verdict: TuneVerdict
    """The verdict."""
    labels: list[str]
    """Limits of the figures."""


@dataclass(frozen=True, kw_only=True)
class TuneFact:
    """A fact."""
    name: str
    """Its name."""
    value: str | None
    """Its value; null if it is unknown."""


@dataclass(frozen=True, kw_only=True)
class TuneCandidate:
    """A setting."""
    name: str
    """Its name."""
    present: bool
    """Whether it is the present setting."""
    change: str
    """The difference to the present setting."""
    source: str
    """The source of the reason to try it; empty for the present setting and where there is none."""
    commands: list[str]
    """The commands that set it."""
    not_simulated: str | None
    """The reason that it was not simulated; null if it was."""
    ranking: list[TuneFigures]
    """Runs of the ranking, by seed."""
    deciding: list[TuneFigures]
    """Further runs, of the present setting and of the best candidate, by which the verdict is made."""
    effect: TuneCandidateEffect | None
    """The wish's figure against the present setting, over the ranking; null for the present setting, and without runs."""
    tried: TuneCandidateTried | None
    """Real traffic between two namespaces; null if none was asked for."""


@dataclass(frozen=True, kw_only=True)
class TuneFigures:
    """The figures of a run."""
    nfm: float | None
    """Bytes of the flow with the most less those of the one with the fewest, over a fair share, in the measured part; null without flows."""
    latency_s: float | None
    """90th percentile of round trips of 1 KB pings; null without an answer."""
    bps: float
    """Payload received per second, in bits."""
    ns_per_byte: float | None
    """Processor time of the sender in nanoseconds per payload byte; null without costs."""


@dataclass(frozen=True, kw_only=True)
class TuneCandidateEffect:
    """The wish's figure against the present setting, over the ranking; null for the present setting, and without runs."""
    without: float
    """Mean of the present setting."""
    with_: float = field(metadata={'key': 'with'})
    """Mean of the candidate."""
    half_width: float | None
    """Half of the 95 % interval of the difference, Welch's; null with one run of each."""


@dataclass(frozen=True, kw_only=True)
class TuneCandidateTried:
    """Real traffic between two namespaces; null if none was asked for."""
    simulated: list[TuneFigures]
    """Runs of the testbed in the simulator."""
    measured: list[TuneFigures]
    """Runs of real traffic."""
    not_tried: str | None
    """The reason that it was not tried; null if it was."""


@dataclass(frozen=True, kw_only=True)
class TuneVerdict:
    """The verdict."""
    conclusion: Literal['advice', 'nothing-better', 'does-not-know']
    """Its kind: exit codes 0, 1 and 3."""
    candidate: str | None
    """The candidate that is advised; null without advice."""
    effect: TuneVerdictEffect | None
    """The difference that decides; null where no runs decide."""
    because: str
    """The reason."""
    price: list[str]
    """Other figures that the advised candidate makes worse."""


@dataclass(frozen=True, kw_only=True)
class TuneVerdictEffect:
    """The difference that decides; null where no runs decide."""
    without: float
    """Mean of the present setting."""
    with_: float = field(metadata={'key': 'with'})
    """Mean of the candidate."""
    half_width: float | None
    """Half of the 95 % interval of the difference, Welch's; null with one run of each."""


DOCUMENTS: dict[str, type[Any]] = {
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
