//! One repeat of one level: a separate testbed, measured without the instrument and with it.

use core::time::Duration;

use weft_host::clock;
use weft_host::kallsyms::KernelSymbols;
use weft_host::net_counters::NetCounters;
use weft_host::perf_event::{CacheCounter, Clock, SampleRate, Sampler};
use weft_report::profile::{Run, Side, Work};
use weft_units::{Bytes, Instant, Nanos};

use crate::attribution::{Attribution, Processes, Trace, TraceConditions};
use crate::categories::Categories;
use crate::error::ProfileError;
use crate::level::Level;
use crate::pattern::FlowLayout;
use crate::ping::{Ping, PingResults};
use crate::probes::{COST_SPAN, ProbeScope, Probes};
use crate::remedy::Remedy;
use crate::setup::Setup;
use crate::testbed::Testbed;
use crate::traffic::{Flows, TrafficLoad, waits};

/// The interval at which samples are read and applications are looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// The conditions of all trials of a session.
pub struct Instrument<'a> {
    /// The table of categories.
    pub categories: &'a Categories,
    /// The event that takes the samples; `None` for the best.
    pub clock: Option<Clock>,
    /// Samples per second and processor.
    pub rate: SampleRate,
    /// Time for TCP to settle.
    pub warm_up: Nanos,
    /// Time measured without the instrument, and again with it.
    pub span: Nanos,
    /// Settings besides the level.
    pub setup: &'a Setup,
    /// Whether the part without samples counts each flow's bytes, and has pings.
    pub flows: bool,
    /// Whether to stop.
    pub stop: &'a dyn Fn() -> bool,
}

impl Instrument<'_> {
    /// Seconds that the applications may take: both parts, the cost of the probes, and time for slow machines.
    pub(crate) fn seconds(&self) -> u64 {
        const SPARE: u64 = 20;
        ((self.warm_up + COST_SPAN).as_secs_f64() + 2.0 * self.span.as_secs_f64()).ceil() as u64 + SPARE
    }
}

/// A trial's result.
#[derive(Debug)]
pub struct TrialResult {
    /// The figures.
    pub run: Run,
    /// The event that took the samples.
    pub clock: Clock,
    /// Their rate in force.
    pub rate: SampleRate,
    /// Time by side, category and function.
    pub attribution: Attribution,
    /// The reason that sizes and latency are missing.
    pub no_probes: Option<String>,
    /// The flows of the part without samples; `None` if they were not asked for.
    pub flows: Option<FlowFigures>,
}

/// The flows one by one, and the round trips beside them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlowFigures {
    /// Payload that each flow's receiver got.
    pub received: Vec<Bytes>,
    /// The span of the counts.
    pub span: Nanos,
    /// Pings on the path of the first flow.
    pub round_trips: PingResults,
}

/// The part that is measured first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum First {
    /// The part without the instrument.
    Bare,
    /// The part with it.
    Sampled,
}

impl First {
    /// The first part of repeat `repeat`: they take turns.
    pub fn of(repeat: u32) -> Self {
        if repeat.is_multiple_of(2) { Self::Sampled } else { Self::Bare }
    }
}

/// Runs one trial of a level, with a change if there is one.
///
/// # Errors
/// If a step fails, no payload arrives, or the caller asks to stop.
pub fn run(
    at: (Level, Option<Remedy>),
    load: TrafficLoad,
    layout: &FlowLayout,
    turn: (u32, First),
    instrument: &Instrument<'_>,
) -> Result<TrialResult, ProfileError> {
    with_payload(|| once(at, load, layout, turn, instrument))
}

/// Repeats a trial while one of its parts sees no payload at all. Where segments of a flow's start are lost, TCP waits for its
/// retransmission timer, twice as long each time (RFC 6298, section 5.5), so a short part can lie within the wait: it says
/// nothing of the level.
///
/// # Errors
/// If a trial fails, or three in a row see no payload.
pub(crate) fn with_payload<E: From<ProfileError>>(
    mut trial: impl FnMut() -> Result<TrialResult, E>,
) -> Result<TrialResult, E> {
    for _ in 0..3 {
        let trial = trial()?;
        if trial.run.bare_bps > 0.0 && trial.run.bps > 0.0 {
            return Ok(trial);
        }
    }
    Err(ProfileError::Silent.into())
}

fn once(
    (level, change): (Level, Option<Remedy>),
    load: TrafficLoad,
    layout: &FlowLayout,
    (repeat, first): (u32, First),
    instrument: &Instrument<'_>,
) -> Result<TrialResult, ProfileError> {
    let testbed = Testbed::create(layout, (level, change), instrument.setup)?;
    let flows = Flows::start((load, change), layout, &testbed, instrument.seconds(), instrument.stop)?;
    let mut trial = Measuring { testbed, flows, load, instrument };
    trial.rest(instrument.warm_up, |_| ())?;
    let ((bare_bps, flows), mut result) = match first {
        First::Bare => (trial.bare()?, trial.sampled()?),
        First::Sampled => {
            let result = trial.sampled()?;
            (trial.bare()?, result)
        }
    };
    (result.run.repeat, result.run.bare_bps, result.flows) = (repeat, bare_bps, flows);
    Ok(result)
}

struct Measuring<'a> {
    testbed: Testbed,
    flows: Flows,
    load: TrafficLoad,
    instrument: &'a Instrument<'a>,
}

/// Counters of both sides at one time.
struct Reading {
    at: Instant,
    sender: NetCounters,
    receiver: NetCounters,
    waits: [u64; 2],
}

impl Measuring<'_> {
    /// Lets the traffic run for `span`, and calls `each` at intervals.
    fn rest(&mut self, span: Nanos, mut each: impl FnMut(&mut Self)) -> Result<(), ProfileError> {
        let end = clock::now() + span;
        while clock::now() < end {
            std::thread::sleep(Duration::from(end.saturating_since(clock::now())).min(LOOK));
            each(self);
            if (self.instrument.stop)() {
                return Err(ProfileError::Stopped);
            }
            self.flows.check()?;
        }
        Ok(())
    }

    fn read(&self) -> Result<Reading, ProfileError> {
        let sender = NetCounters::read(&self.testbed.sender)?;
        let receiver = NetCounters::read(&self.testbed.receiver)?;
        let at = clock::now();
        Ok(Reading { at, sender, receiver, waits: self.flows.pids().map(|pids| waits(&pids)) })
    }

    /// Throughput without the instrument, and the flows one by one if they are asked for.
    fn bare(&mut self) -> Result<(f64, Option<FlowFigures>), ProfileError> {
        if !self.instrument.flows {
            let before = self.read()?;
            self.rest(self.instrument.span, |_| ())?;
            return Ok((self.bits_per_second(&before, &self.read()?), None));
        }
        let to = self.testbed.paths.first().map_or(core::net::Ipv4Addr::LOCALHOST.into(), |path| path.to);
        let ping = Ping::start(&self.testbed.sender, to)?;
        let (begin, before) = (self.flows.received(&self.testbed.receiver)?, self.read()?);
        self.rest(self.instrument.span, |_| ())?;
        let (end, after) = (self.flows.received(&self.testbed.receiver)?, self.read()?);
        let received = end
            .iter()
            .map(|(flow, bytes)| Bytes(bytes.saturating_sub(begin.get(flow).copied().unwrap_or(0))));
        let figures = FlowFigures {
            received: received.collect(),
            span: after.at.saturating_since(before.at),
            round_trips: ping.finish()?,
        };
        Ok((self.bits_per_second(&before, &after), Some(figures)))
    }

    fn bits_per_second(&self, before: &Reading, after: &Reading) -> f64 {
        let span = after.at.saturating_since(before.at).as_secs_f64();
        if span > 0.0 { self.work(before, after).bytes as f64 * 8.0 / span } else { 0.0 }
    }

    fn work(&self, before: &Reading, after: &Reading) -> Work {
        let receiver = after.receiver.since(&before.receiver);
        let sender = after.sender.since(&before.sender);
        // Requests carry payload both ways.
        let back = match self.load {
            TrafficLoad::Bulk => 0,
            TrafficLoad::Requests(_) => sender.payload_in(),
        };
        Work {
            bytes: receiver.payload_in() + back,
            segments: receiver.segments_in,
            skbs: receiver.packets_in,
            acks: receiver.segments_out,
            sender_waits: after.waits[0].saturating_sub(before.waits[0]),
            receiver_waits: after.waits[1].saturating_sub(before.waits[1]),
            retransmitted: sender.retransmitted,
        }
    }

    /// Everything else, with the instrument.
    fn sampled(&mut self) -> Result<TrialResult, ProfileError> {
        let scope = ProbeScope::Between { sender: &self.testbed.sender, receiver: &self.testbed.receiver };
        let probes = Probes::attach(scope);
        // After the probes were attached, so that their own functions have names.
        let symbols = KernelSymbols::load()?;
        let mut sampler = Sampler::open(self.instrument.clock, self.instrument.rate)?;
        // Samples of the start are of the instrument, not of the traffic.
        sampler.drain(|_| ());
        let mut trace = Trace::default();
        let cache = self.count_cache();
        let before = self.read()?;
        self.rest(self.instrument.span, |_| sampler.drain(|sample| trace.add(sample)))?;
        sampler.drain(|sample| trace.add(sample));
        let after = self.read()?;
        let lost_samples = sampler.losses().lost;
        let probe_cores = probes.as_ref().ok().map(|probes| self.probe_cores(probes)).transpose()?.flatten();
        let (sizes, no_probes) = match probes.and_then(|p| Ok((p.sizes()?, p.latency()?))) {
            Ok(found) => (Some(found), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let setting = self.setting(&before, &after, &trace, &sampler);
        let attribution =
            Attribution::of(&trace, |address| symbols.find(address), self.instrument.categories, &setting);
        let run = Run {
            bps: self.bits_per_second(&before, &after),
            span_s: after.at.saturating_since(before.at).as_secs_f64(),
            work: self.work(&before, &after),
            sender: attribution.sender.clone(),
            receiver: attribution.receiver.clone(),
            foreign_s: attribution.foreign_s,
            interrupts_s: attribution.interrupts_s,
            tool_s: attribution.tool_s,
            leaf_unmapped: attribution.leaf_unmapped(),
            cache_miss: cache
                .into_iter()
                .map(|(side, counter)| (side, miss_rate(counter.as_ref())))
                .collect(),
            lost_samples,
            probe_cores,
            latency: sizes.as_ref().and_then(|(_, latency)| *latency),
            sizes: sizes.map(|(sizes, _)| sizes),
            ..Run::default()
        };
        Ok(TrialResult {
            run,
            clock: sampler.clock(),
            rate: sampler.rate(),
            attribution,
            no_probes,
            flows: None,
        })
    }

    /// Processors that the programs at the tracepoints use under this traffic; `None` where the kernel has no statistics of programs.
    /// The statistics cost time themselves, so they are taken after everything else.
    fn probe_cores(&mut self, probes: &Probes) -> Result<Option<f64>, ProfileError> {
        let Ok(counted) = probes.count() else { return Ok(None) };
        self.rest(COST_SPAN, |_| ())?;
        Ok(probes.cores(&counted).ok())
    }

    /// Counters of each side's processes; `None` where the machine has none.
    fn count_cache(&self) -> [(Side, Option<CacheCounter>); 2] {
        let [sender, receiver] = self.flows.pids().map(|pids| CacheCounter::open(&pids).ok());
        [(Side::Sender, sender), (Side::Receiver, receiver)]
    }

    fn setting(
        &self,
        before: &Reading,
        after: &Reading,
        trace: &Trace,
        sampler: &Sampler,
    ) -> TraceConditions {
        let packets = |after: &NetCounters, before: &NetCounters| after.since(before).packets_in as f64;
        let (acks, data) =
            (packets(&after.sender, &before.sender), packets(&after.receiver, &before.receiver));
        let [sender, receiver] = self.flows.pids();
        TraceConditions {
            processes: Processes::Known {
                sender: sender.into_iter().collect(),
                receiver: receiver.into_iter().collect(),
            },
            tool: std::process::id(),
            traffic: self.load.traffic(),
            clock: sampler.clock(),
            unit_s: unit(sampler, trace),
            sender_packets: if acks + data > 0.0 { acks / (acks + data) } else { 0.5 },
        }
    }
}

fn miss_rate(counter: Option<&CacheCounter>) -> Option<f64> {
    counter?.read().ok()?.miss_rate()
}

/// Seconds of a unit of the periods. A cycle's length varies with the processor's frequency; the kernel keeps the rate of samples, so
/// a sample represents its inverse.
pub(crate) fn unit(sampler: &Sampler, trace: &Trace) -> f64 {
    match sampler.clock() {
        Clock::CpuClock => 1e-9,
        Clock::Cycles => {
            let seconds = trace.samples() as f64 / f64::from(sampler.rate().hertz());
            seconds / trace.periods().max(1) as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(bare_bps: f64, bps: f64) -> TrialResult {
        let run = Run { bare_bps, bps, ..Run::default() };
        let rate = SampleRate::new(999).expect("a rate");
        let attribution = Attribution::default();
        TrialResult { run, clock: Clock::CpuClock, rate, attribution, no_probes: None, flows: None }
    }

    #[test]
    fn a_trial_without_payload_is_no_measurement() {
        let mut bps = [(0.0, 1e9), (1e9, 0.0), (2e9, 1e9)].into_iter();
        let measured =
            with_payload(|| bps.next().map(|(bare, bps)| trial(bare, bps)).ok_or(ProfileError::Stopped));
        assert!(measured.is_ok_and(|trial| trial.run.bare_bps == 2e9));
        let mut trials = 0;
        let error = with_payload::<ProfileError>(|| {
            trials += 1;
            Ok(trial(0.0, 1e9))
        });
        let said = error.expect_err("no payload").to_string();
        assert_eq!(
            (trials, said.as_str()),
            (3, "no payload arrived during a part of three trials in a row; is the machine busy?")
        );
        assert!(matches!(with_payload(|| Err(ProfileError::Stopped)), Err(ProfileError::Stopped)));
    }
}
