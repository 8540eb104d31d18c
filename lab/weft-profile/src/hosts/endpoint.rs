//! A side of a trial between two hosts: its applications, its flows' counts, and samples of its processors.
//!
//! On a host that is one end of the traffic, all network softirqs and all time of the side's applications are that side's. The flows are
//! distinguished from other connections by address and port; IP packets, skb sizes and softirqs are those of the whole namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use weft_host::kallsyms::KernelSymbols;
use weft_host::net_counters::NetCounters;
use weft_host::perf_event::{CacheCounter, Clock, Sampler};
use weft_host::sock_diag::{SockDiag, State, TcpCounts};
use weft_host::{NetNs, clock};
use weft_report::profile::{Category, Side, largest};
use weft_units::{Instant, Nanos};

use super::HostsError;
use super::protocol::{ClockName, EndCounts, Half, STACKS_MAX, SideSamples, StackTime, Text};
use crate::applications::Applications;
use crate::attribution::{Attribution, Processes, Trace, TraceConditions};
use crate::connections::{CONNECT_WAIT, pause};
use crate::error::ProfileError;
use crate::probes::{COST_SPAN, ProbeError, ProbeScope, Probes};
use crate::traffic::{TrafficLoad, waits};
use crate::trial::{Instrument, LOOK, unit};

/// The flows of a trial, as this end sees them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ends {
    /// The side that this end is.
    pub(super) side: Side,
    /// The other host.
    pub(super) peer: IpAddr,
    /// The receiver's ports.
    pub(super) ports: BTreeSet<u16>,
}

/// A running side.
pub(super) struct Running<'a> {
    pub(super) ns: NetNs,
    pub(super) load: TrafficLoad,
    pub(super) ends: Ends,
    pub(super) applications: Applications,
    pub(super) instrument: &'a Instrument<'a>,
    diag: SockDiag,
}

/// Counters at one time.
struct Reading {
    at: Instant,
    counts: EndCounts,
    packets_in: u64,
    waits: u64,
}

/// The instrument, ready to measure.
pub(super) struct Ready {
    probes: Result<Probes, ProbeError>,
    symbols: KernelSymbols,
    sampler: Sampler,
    cache: Option<CacheCounter>,
    lost: u64,
}

impl<'a> Running<'a> {
    /// A side without applications yet, in this namespace.
    pub(super) fn new(
        load: TrafficLoad,
        ends: Ends,
        instrument: &'a Instrument<'a>,
    ) -> Result<Self, HostsError> {
        let ns = NetNs::current().map_err(ProfileError::from)?;
        let diag = SockDiag::open(&ns)?;
        let applications = Applications::of(load).map_err(ProfileError::from)?;
        Ok(Self { ns, load, ends, applications, instrument, diag })
    }

    /// The counts of each of the flows' connections since it was opened, by the number of its socket.
    fn connections(&mut self) -> Result<BTreeMap<u64, TcpCounts>, HostsError> {
        let mut all = BTreeMap::new();
        for (socket, counts) in self.diag.tcp()? {
            let Some(remote) = socket.remote else { continue };
            let port = match self.ends.side {
                Side::Sender => remote.port(),
                Side::Receiver => socket.local.port(),
            };
            let ours = remote.ip().to_canonical() == self.ends.peer && self.ends.ports.contains(&port);
            if ours && socket.state == State::Established {
                all.insert(socket.cookie, counts.ok_or(HostsError::NoCounts)?);
            }
        }
        Ok(all)
    }

    /// The bytes of each connection that were acknowledged since it was opened, by the number of its socket.
    pub(super) fn acked(&mut self) -> Result<BTreeMap<u64, u64>, HostsError> {
        Ok(self.connections()?.into_iter().map(|(socket, counts)| (socket, counts.acked)).collect())
    }

    /// The flows' counts since they were opened.
    pub(super) fn counts(&mut self) -> Result<EndCounts, HostsError> {
        let found = self.connections()?;
        let (mut all, connections) = (TcpCounts::default(), found.len() as u64);
        found.values().for_each(|counts| all.add(counts));
        let TcpCounts { acked, received, sent, segments_in, segments_out, retransmitted } = all;
        Ok(EndCounts { connections, acked, received, sent, segments_in, segments_out, retransmitted })
    }

    /// Waits until an application listens at each port.
    pub(super) fn wait_listening(&mut self) -> Result<(), HostsError> {
        let deadline = clock::now() + CONNECT_WAIT;
        loop {
            let sockets = self.diag.tcp()?;
            let listening =
                |port: &u16| sockets.iter().any(|(s, _)| s.state == State::Listen && s.local.port() == *port);
            if self.ends.ports.iter().all(listening) {
                return Ok(());
            }
            self.applications.check()?;
            pause(self.instrument.stop, deadline, "the servers to listen")?;
        }
    }

    /// Waits until `flows` connections send.
    pub(super) fn wait_flowing(&mut self, flows: u64) -> Result<(), HostsError> {
        let deadline = clock::now() + CONNECT_WAIT;
        loop {
            let counts = self.counts()?;
            if counts.connections >= flows && counts.acked > crate::traffic::FLOWING {
                return Ok(());
            }
            self.applications.check()?;
            pause(self.instrument.stop, deadline, "all flows to connect and send")?;
        }
    }

    /// Lets the traffic run for `span`, and calls `each` at intervals.
    pub(super) fn rest(
        &mut self,
        span: Nanos,
        mut each: impl FnMut() -> Result<(), HostsError>,
    ) -> Result<(), HostsError> {
        let end = clock::now() + span;
        while clock::now() < end {
            std::thread::sleep(Duration::from(end.saturating_since(clock::now())).min(LOOK));
            each()?;
            if (self.instrument.stop)() {
                return Err(ProfileError::Stopped.into());
            }
            self.applications.check()?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Reading, HostsError> {
        let packets_in = NetCounters::read(&self.ns).map_err(ProfileError::from)?.packets_in;
        let (counts, waits) = (self.counts()?, waits(&self.applications.pids()));
        Ok(Reading { at: clock::now(), counts, packets_in, waits })
    }

    /// Measures without the instrument.
    pub(super) fn bare(
        &mut self,
        span: Nanos,
        each: impl FnMut() -> Result<(), HostsError>,
    ) -> Result<Half, HostsError> {
        let before = self.read()?;
        self.rest(span, each)?;
        Ok(figures(&before, &self.read()?))
    }

    /// Makes the instrument ready, which takes a while.
    pub(super) fn prepare(&self) -> Result<Ready, HostsError> {
        let probes = Probes::attach(ProbeScope::Between { sender: &self.ns, receiver: &self.ns });
        // After the probes were attached, so that their own functions have names.
        let symbols = KernelSymbols::load().map_err(ProfileError::from)?;
        let sampler =
            Sampler::open(self.instrument.clock, self.instrument.rate).map_err(ProfileError::from)?;
        let cache = CacheCounter::open(&self.applications.pids()).ok();
        let lost = sampler.losses().lost;
        Ok(Ready { probes, symbols, sampler, cache, lost })
    }

    /// Measures with the instrument.
    pub(super) fn sampled(
        &mut self,
        ready: Ready,
        span: Nanos,
        mut each: impl FnMut() -> Result<(), HostsError>,
    ) -> Result<Half, HostsError> {
        let Ready { probes, symbols, mut sampler, cache, lost } = ready;
        // Samples of the start are of the instrument, not of the traffic.
        sampler.drain(|_| ());
        let mut trace = Trace::default();
        let before = self.read()?;
        self.rest(span, || {
            sampler.drain(|sample| trace.add(sample));
            each()
        })?;
        sampler.drain(|sample| trace.add(sample));
        let after = self.read()?;
        let lost_samples = sampler.losses().lost.saturating_sub(lost);
        let cores = probes.as_ref().ok().map(|probes| self.probe_cores(probes, &mut each)).transpose()?;
        let setting = self.setting(&trace, &sampler);
        let attribution = Attribution::of(&trace, |a| symbols.find(a), self.instrument.categories, &setting)
            .all_of(self.ends.side);
        let (sizes, no_probes) = match probes.and_then(|p| Ok((p.sizes()?, p.latency()?))) {
            Ok(found) => (Some(found), None),
            Err(error) => (None, Some(Text::of(&error.to_string()))),
        };
        let samples = SideSamples {
            clock: sampler.clock().into(),
            sample_hz: sampler.rate().hertz(),
            time: match self.ends.side {
                Side::Sender => attribution.sender,
                Side::Receiver => attribution.receiver,
            },
            foreign_s: attribution.foreign_s,
            interrupts_s: attribution.interrupts_s,
            tool_s: attribution.tool_s,
            lost_samples,
            probe_cores: cores.flatten(),
            cache_miss: cache.and_then(|counter| counter.read().ok()?.miss_rate()),
            latency: sizes.as_ref().and_then(|(_, latency)| *latency),
            sizes: sizes.map(|(sizes, _)| sizes),
            no_probes,
            missing: largest(attribution.missing).into_iter().map(|(n, s)| (Text::of(&n), s)).collect(),
            stacks: stacks(attribution.stacks),
        };
        Ok(Half { samples: Some(Box::new(samples)), ..figures(&before, &after) })
    }

    /// Processors that the programs at the tracepoints use; `None` where the kernel has no statistics of programs.
    fn probe_cores(
        &mut self,
        probes: &Probes,
        each: impl FnMut() -> Result<(), HostsError>,
    ) -> Result<Option<f64>, HostsError> {
        let Ok(counted) = probes.count() else { return Ok(None) };
        self.rest(COST_SPAN, each)?;
        Ok(probes.cores(&counted).ok())
    }

    fn setting(&self, trace: &Trace, sampler: &Sampler) -> TraceConditions {
        TraceConditions {
            processes: Processes::Known {
                sender: self.applications.pids().into_iter().collect(),
                receiver: BTreeSet::new(),
            },
            tool: std::process::id(),
            traffic: self.load.traffic(),
            clock: sampler.clock(),
            unit_s: unit(sampler, trace),
            sender_packets: 0.5,
        }
    }
}

/// The figures between two readings.
fn figures(before: &Reading, after: &Reading) -> Half {
    let less = |figure: fn(&EndCounts) -> u64| figure(&after.counts).saturating_sub(figure(&before.counts));
    Half {
        span_ns: after.at.saturating_since(before.at).get().max(1),
        counts: EndCounts {
            connections: after.counts.connections,
            acked: less(|c| c.acked),
            received: less(|c| c.received),
            sent: less(|c| c.sent),
            segments_in: less(|c| c.segments_in),
            segments_out: less(|c| c.segments_out),
            retransmitted: less(|c| c.retransmitted),
        },
        packets_in: after.packets_in.saturating_sub(before.packets_in),
        waits: after.waits.saturating_sub(before.waits),
        samples: None,
    }
}

/// The stacks with the most time that fit into an answer; the others are one of each category, so that sums remain.
fn stacks(all: BTreeMap<(Side, Category, Vec<String>), f64>) -> Vec<StackTime> {
    const BYTES: usize = super::protocol::ANSWER_MAX / 4;
    let [most, deepest] = STACKS_MAX;
    let mut sorted: Vec<_> = all.into_iter().collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (mut kept, mut others, mut bytes) = (Vec::new(), BTreeMap::<Category, f64>::new(), 0);
    for ((_, category, frames), seconds) in sorted {
        // A name is written with two quotes and a comma.
        bytes += frames.iter().map(|frame| frame.len() + 3).sum::<usize>();
        if bytes > BYTES || kept.len() + Category::ALL.len() >= most || frames.len() > deepest {
            *others.entry(category).or_default() += seconds;
        } else {
            let frames = frames.iter().map(|frame| Text::of(frame)).collect();
            kept.push(StackTime { category, frames, seconds });
        }
    }
    let rest = |(category, seconds)| StackTime { category, frames: vec![Text::of("[others]")], seconds };
    kept.extend(others.into_iter().map(rest));
    kept
}

impl From<Clock> for ClockName {
    fn from(clock: Clock) -> Self {
        match clock {
            Clock::Cycles => Self::Cycles,
            Clock::CpuClock => Self::CpuClock,
        }
    }
}

impl From<ClockName> for Clock {
    fn from(name: ClockName) -> Self {
        match name {
            ClockName::Cycles => Self::Cycles,
            ClockName::CpuClock => Self::CpuClock,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_fit_an_answer_and_keep_their_sum() {
        let name = |i: usize, depth: usize| format!("function_{i}_{depth}_{}", "x".repeat(40));
        let stack = |i: usize| {
            let frames: Vec<String> = (0..100).map(|depth| name(i, depth)).collect();
            ((Side::Sender, Category::ALL[i % 3], frames), i as f64)
        };
        let all: BTreeMap<_, _> = (1..=6000).map(stack).collect();
        let kept = stacks(all);
        assert!(kept.len() <= STACKS_MAX[0] && kept[0].seconds == 6000.0);
        assert_eq!(kept.iter().map(|stack| stack.seconds).sum::<f64>(), 6000.0 * 6001.0 / 2.0);
        assert!(super::super::protocol::line(&kept).len() < super::super::protocol::ANSWER_MAX / 2);
    }
}
