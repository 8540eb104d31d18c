//! One sample: a variant in place, its traffic, and the counters around the measured span.

use super::CostOptions;
use super::bed::{Bed, RECEIVER, Received, SENDER, Way, request_priority};
use super::case::{CostCase, Direction};
use super::error::CostError;
use super::processors::{Edge, Reading};
use super::requests::Requests;
use crate::traffic::iperf::{Client, Flows, MAX_STREAMS, Senders, Start, deal};
use core::net::IpAddr;
use core::time::Duration;
use weft_host::bpf_stats::BpfStats;
use weft_host::{NetNs, clock};
use weft_report::bench::cost::{RoundTrips, Sample, Variant};
use weft_units::Nanos;

/// The congestion control of the bulk flows.
const CONGESTION_CONTROL: &str = "cubic";
/// Seconds that iperf3 is told to send: longer than any round, which ends it.
const SECONDS: u64 = 86_400;
/// The interval in which `weft run` reads its counters.
const LOOK: Duration = Duration::from_millis(100);

/// The use of the kernel's statistics of eBPF programs, which cost time themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Statistics {
    Off,
    On,
}

/// A running sample.
struct Running<'a> {
    way: Way,
    flows: Flows,
    stop: &'a dyn Fn() -> bool,
}

impl Running<'_> {
    /// Lets it run for `span`.
    fn rest(&mut self, span: Nanos) -> Result<(), CostError> {
        let end = clock::now() + span;
        while clock::now() < end {
            std::thread::sleep(Duration::from(end.saturating_since(clock::now())).min(LOOK));
            if (self.stop)() {
                return Err(CostError::Stopped);
            }
            self.way.look()?;
            self.flows.check()?;
        }
        Ok(())
    }
}

/// Measures `variant` once.
pub(super) fn measure(
    case: CostCase,
    (round, variant): (u32, Variant),
    statistics: Statistics,
    options: &CostOptions,
    stop: &dyn Fn() -> bool,
) -> Result<Sample, CostError> {
    let _counting = (statistics == Statistics::On).then(BpfStats::enable).transpose()?;
    let bed = Bed::create()?;
    let way = bed.open(variant, case)?;
    let (from, to, address) = ends(&bed, case.direction());
    let flows = Flows::start(&senders(case, (from, to, address), stop))?;
    let mut running = Running { way, flows, stop };
    let requests = case
        .has_requests()
        .then(|| Requests::start((&bed.sender, &bed.receiver), RECEIVER, request_priority()))
        .transpose()?;
    running.rest(options.warm_up)?;
    let pids = running.flows.pids();
    let programs = running.way.program_cost()?;
    let begin = (Received::read(to)?, Reading::take(Edge::Begin, &pids)?, clock::now());
    running.rest(options.span.unwrap_or(case.span()))?;
    let end = (clock::now(), Reading::take(Edge::End, &pids)?, Received::read(to)?);
    let nanos = running.way.program_cost()?.nanos - programs.nanos;
    let trips = requests.map(|requests| requests.finish(begin.2, end.0));
    let usage = begin.1.until(&end.1);
    let (carried_bits, segments) = end.2.since(&begin.0);
    Ok(Sample {
        round,
        variant,
        span_s: usage.span_s,
        carried_bits,
        segments,
        core_s: usage.core_s,
        application_s: usage.application_s,
        worker_s: usage.worker_s,
        receive_s: usage.receive_s,
        foreign_s: usage.foreign_s,
        stolen_s: usage.stolen_s,
        ebpf_s: (statistics == Statistics::On).then_some(nanos as f64 / 1e9),
        requests: trips.and_then(|trips| RoundTrips::of(&trips)),
        disturbed: usage.is_disturbed(),
    })
}

/// The sending namespace, the receiving one, and its address.
fn ends(bed: &Bed, direction: Direction) -> (&NetNs, &NetNs, IpAddr) {
    match direction {
        Direction::Outbound => (&bed.sender, &bed.receiver, RECEIVER),
        Direction::Inbound => (&bed.receiver, &bed.sender, SENDER),
    }
}

fn senders<'a>(
    case: CostCase,
    (sender, receiver, address): (&'a NetNs, &'a NetNs, IpAddr),
    cancelled: &'a dyn Fn() -> bool,
) -> Senders<'a> {
    let client = |flows| Client { flows, cpu: None, first_port: None, cgroup: None };
    Senders {
        sender,
        receiver,
        address,
        clients: deal(case.flows(), case.flows().div_ceil(MAX_STREAMS)).map(client).collect(),
        seconds: SECONDS,
        start: Start::Together,
        block: None,
        congestion_control: CONGESTION_CONTROL,
        cancelled,
    }
}
