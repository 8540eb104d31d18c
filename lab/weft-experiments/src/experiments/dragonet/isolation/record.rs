//! Records of a run: phases, clients over time, accounting.

use super::client::{Ended, RequestCounts};
use super::{Class, IsolationOptions};
use weft_facts::stats;
use weft_nic::receive::ReceiveTotals;
use weft_units::{FlowKey, Instant, Nanos, Packets};

/// A part of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunPhase {
    /// Only the initial clients.
    Before,
    /// With another client of this class.
    Joined(Class),
}

/// Figures of clients in a span of time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ClassRecord {
    /// The number of clients.
    pub clients: u32,
    /// Requests answered.
    pub requests: u64,
    /// Requests per second, all clients together.
    pub requests_per_s: f64,
    /// Mean latency, in seconds; `None` without a request.
    pub latency_mean_s: Option<f64>,
    /// Median latency.
    pub latency_p50_s: Option<f64>,
    /// The latency that 99 of 100 requests do not exceed.
    pub latency_p99_s: Option<f64>,
}

/// A phase of the run.
#[derive(Clone, PartialEq, Debug)]
pub struct PhaseRecord {
    /// The phase.
    pub phase: RunPhase,
    /// Beginning, relative to that of the run.
    pub from: Nanos,
    /// End, relative to the beginning of the run.
    pub to: Nanos,
    /// HP clients without the newcomer.
    pub hp: ClassRecord,
    /// BE clients without the newcomer.
    pub be: ClassRecord,
    /// The newcomer.
    pub newcomer: Option<ClassRecord>,
}

/// A window of a client's time line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TimelinePoint {
    /// Beginning, relative to that of the run.
    pub at: Nanos,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Mean latency of the requests answered in the window, in seconds.
    pub latency_mean_s: Option<f64>,
}

/// A flow's counts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowCounts {
    /// The flow.
    pub key: FlowKey,
    /// Requests of its whole life.
    pub counts: RequestCounts,
}

/// A client.
#[derive(Clone, PartialEq, Debug)]
pub struct ClientRecord {
    /// The class.
    pub class: Class,
    /// The number within the class.
    pub number: u32,
    /// Whether it joined during the run.
    pub newcomer: bool,
    /// Time of joining, relative to the beginning of the run; 0 for initial clients.
    pub joined: Nanos,
    /// End of the last flow.
    pub left: Nanos,
    /// Requests, including those before the beginning of the run.
    pub counts: RequestCounts,
    /// The flows.
    pub flows: Vec<FlowCounts>,
    /// The time line. The four panels of the talk's figure show it for the HP and the BE clients.
    pub points: Vec<TimelinePoint>,
}

/// A change of the configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfigurationChange {
    /// Time from which it is in force, relative to the beginning of the run; the first precedes the run.
    pub at: Nanos,
    /// Flows added.
    pub added: usize,
    /// Flows removed.
    pub removed: usize,
    /// Duration of planning.
    pub planning: Nanos,
    /// Rules in force after the change.
    pub rules: usize,
}

/// The outcome of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct IsolationOutcome {
    /// The mode's name.
    pub mode: String,
    /// The phases, in order.
    pub phases: Vec<PhaseRecord>,
    /// The clients: HP, then BE, newcomers last in their class.
    pub clients: Vec<ClientRecord>,
    /// Length of the windows of the clients' time lines.
    pub window: Nanos,
    /// Changes of the configuration, in order.
    pub changes: Vec<ConfigurationChange>,
    /// Counts of all requests.
    pub requests: RequestCounts,
    /// The NIC's counters; their accounting balances.
    pub nic: ReceiveTotals,
    /// Difference between the packets that the clients sent and those on the wire.
    pub unexplained: Packets,
    /// Length of the run.
    pub elapsed: Nanos,
    /// Processor time of the NIC's receive thread per second of the run.
    pub nic_share: f64,
}

/// The span of a phase, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) phase: RunPhase,
    pub(super) from: Instant,
    pub(super) to: Instant,
}

/// Returns the figures of some clients from `from` to `to`.
fn class_record<'a>(clients: impl Iterator<Item = &'a Ended>, from: Instant, to: Instant) -> ClassRecord {
    let (mut count, mut latencies) = (0, Vec::new());
    for client in clients {
        count += 1;
        let completions = client.flows.iter().flat_map(|flow| &flow.completions);
        let within = completions.filter(|done| (from..to).contains(&done.at));
        latencies.extend(within.map(|done| done.latency.as_secs_f64()));
    }
    let sorted = stats::sorted(&latencies);
    let seconds = to.saturating_since(from).as_secs_f64();
    ClassRecord {
        clients: count,
        requests: sorted.len() as u64,
        requests_per_s: if seconds > 0.0 { sorted.len() as f64 / seconds } else { 0.0 },
        latency_mean_s: stats::mean(&sorted),
        latency_p50_s: stats::percentile_sorted(&sorted, 50.0),
        latency_p99_s: stats::percentile_sorted(&sorted, 99.0),
    }
}

/// Returns the number of a class's newcomer: the one after the initial clients.
pub(super) fn newcomer(class: Class, options: &IsolationOptions) -> u32 {
    match class {
        Class::HighPriority => options.hp_clients,
        Class::BestEffort => options.be_clients,
    }
}

/// Returns the records of the phases.
pub(super) fn phases(
    clients: &[Ended],
    spans: &[Span],
    origin: Instant,
    options: &IsolationOptions,
) -> Vec<PhaseRecord> {
    let is_new = |client: &Ended| client.number == newcomer(client.class, options);
    let record = |span: &Span| {
        let of = |class| {
            let those = clients.iter().filter(move |c| c.class == class && !is_new(c));
            class_record(those, span.from, span.to)
        };
        let newcomer = match span.phase {
            RunPhase::Before => None,
            RunPhase::Joined(class) => {
                let those = clients.iter().filter(move |c| c.class == class && is_new(c));
                Some(class_record(those, span.from, span.to))
            }
        };
        PhaseRecord {
            phase: span.phase,
            from: span.from.saturating_since(origin),
            to: span.to.saturating_since(origin),
            hp: of(Class::HighPriority),
            be: of(Class::BestEffort),
            newcomer,
        }
    };
    spans.iter().map(record).collect()
}

/// Returns a client's record, with windows of `window` from `origin` to `end`.
pub(super) fn client(
    client: &Ended,
    origin: Instant,
    end: Instant,
    window: Nanos,
    options: &IsolationOptions,
) -> ClientRecord {
    let count = end.saturating_since(origin).get().div_ceil(window.get().max(1)) as usize;
    let mut windows = vec![(0u64, Nanos::ZERO); count];
    let mut counts = RequestCounts::default();
    for flow in &client.flows {
        counts.add(&flow.counts);
        for done in flow.completions.iter().filter(|done| (origin..end).contains(&done.at)) {
            let index = (done.at.saturating_since(origin).get() / window.get().max(1)) as usize;
            if let Some((requests, latency)) = windows.get_mut(index) {
                *requests += 1;
                *latency += done.latency;
            }
        }
    }
    let point = |(index, (requests, latency)): (usize, &(u64, Nanos))| {
        let at = Nanos(window.get() * index as u64);
        // The end of the run may cut the last window short.
        let span = window.min(end.saturating_since(origin).saturating_sub(at));
        TimelinePoint {
            at,
            requests_per_s: *requests as f64 / span.as_secs_f64().max(1e-9),
            latency_mean_s: (*requests > 0).then(|| latency.as_secs_f64() / *requests as f64),
        }
    };
    ClientRecord {
        class: client.class,
        number: client.number,
        newcomer: client.number == newcomer(client.class, options),
        joined: client.joined.saturating_since(origin),
        left: client.left.saturating_since(origin),
        counts,
        flows: client.flows.iter().map(|flow| FlowCounts { key: flow.key, counts: flow.counts }).collect(),
        points: windows.iter().enumerate().map(point).collect(),
    }
}
