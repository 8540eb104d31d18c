//! One sample: a variant in place, its traffic, and the counters around the measured span.

use super::CostOptions;
use super::case::{CostCase, Direction};
use super::error::CostError;
use super::processors::{Reading, Usage, foreign};
use super::requests::Requests;
use super::testbed::{RECEIVER, SENDER, Testbed, Way, request_priority};
use super::web;
use core::net::IpAddr;
use core::time::Duration;
use weft_host::bpf_stats::BpfStats;
use weft_host::net_counters::NetCounters;
use weft_host::{NetNs, clock};
use weft_profile::iperf::{Client, Flows, MAX_STREAMS, Senders, Start, deal};
use weft_report::bench::cost::{RoundTrips, Sample, Variant};
use weft_units::{Instant, Nanos};

/// The congestion control of the bulk flows.
const CONGESTION_CONTROL: &str = "cubic";
/// The duration given to iperf3, in seconds: longer than any round, which ends it.
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
    server: Option<web::Server>,
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

    /// Lets it run for `span` between two readings of all counters. `receiver` receives the bulk flows.
    fn measure(&mut self, receiver: &NetNs, span: Nanos) -> Result<Span, CostError> {
        let client = self.server.as_ref().map(|_| web::Client::start(receiver, span)).transpose()?;
        let mut pids = self.flows.pids();
        pids.extend(self.server.as_ref().map(web::Server::pid));
        pids.extend(client.as_ref().map(web::Client::pid));
        let others = foreign(&pids);
        let programs = self.way.program_cost()?;
        // In the same order at both ends, so that both readings span the same time.
        let received = NetCounters::read(receiver)?;
        let begin = Reading::take(&pids)?;
        let from = clock::now();
        self.rest(span)?;
        let to = clock::now();
        let received = NetCounters::read(receiver)?.since(&received);
        let end = Reading::take(&pids)?;
        let nanos = self.way.program_cost()?.nanos.saturating_sub(programs.nanos);
        let usage = begin.until(&end, foreign(&pids) - others);
        let programs_s = Nanos(nanos).as_secs_f64();
        let trips = client.map(web::Client::finish).transpose()?;
        let (carried_bits, segments) = (received.payload_in() as f64 * 8.0, received.segments_in);
        Ok(Span { from, to, usage, carried_bits, segments, programs_s, trips })
    }
}

/// Readings of a measured span.
struct Span {
    from: Instant,
    to: Instant,
    usage: Usage,
    carried_bits: f64,
    segments: u64,
    /// Time of the eBPF programs, if their statistics are on.
    programs_s: f64,
    /// The times of the web server's answers.
    trips: Option<RoundTrips>,
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
    let testbed = Testbed::create()?;
    let way = testbed.open(variant, case, options.ports)?;
    let (from, to, address) = ends(&testbed, case.direction());
    let flows = Flows::start(&senders(case, (from, to, address), stop))?;
    let server =
        case.has_web_server().then(|| web::Server::start(&testbed.sender, &testbed.receiver)).transpose()?;
    let mut running = Running { way, flows, server, stop };
    let requests = case
        .has_requests()
        .then(|| Requests::start((&testbed.sender, &testbed.receiver), RECEIVER, request_priority()))
        .transpose()?;
    running.rest(options.warm_up)?;
    let span = running.measure(to, options.span.unwrap_or(case.span()))?;
    let trips = requests.map(|requests| requests.finish(span.from, span.to));
    let usage = span.usage;
    Ok(Sample {
        round,
        variant,
        span_s: usage.span_s,
        carried_bits: span.carried_bits,
        segments: span.segments,
        core_s: usage.core_s,
        application_s: usage.application_s,
        worker_s: usage.worker_s,
        receive_s: usage.receive_s,
        foreign_s: usage.foreign_s,
        stolen_s: usage.stolen_s,
        ebpf_s: (statistics == Statistics::On).then_some(span.programs_s),
        requests: trips.and_then(|trips| RoundTrips::of(&trips)).or(span.trips),
        disturbed: usage.is_disturbed(),
    })
}

/// The sending namespace, the receiving one, and its address.
fn ends(testbed: &Testbed, direction: Direction) -> (&NetNs, &NetNs, IpAddr) {
    match direction {
        Direction::Outbound => (&testbed.sender, &testbed.receiver, RECEIVER),
        Direction::Inbound => (&testbed.receiver, &testbed.sender, SENDER),
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
