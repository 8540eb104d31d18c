//! One run of a scenario on a software NIC in one mode.

use super::core_waits::Reading;
use super::qdisc;
use super::scenario::LoomScenario;
use super::traffic::{BulkRun, LatencyRun, TimedRequest};
use super::{DemoError, DemoEvent, DemoOptions, Live};
use std::path::Path;
use std::time::Duration;
use weft_host::bpf_stats::BpfStats;
use weft_host::{Cgroup, Hierarchy, clock};
use weft_nic::nic::{NicConfig, NicPlan, SoftwareNic, Totals};
use weft_nic::plan::Mode;
use weft_nic::sampler::Sample;
use weft_nic::testbed::Testbed;
use weft_nic::worker::SegmentsPerTurn;
use weft_packet::ethernet;
use weft_policy::CompiledPolicy;
use weft_report::demo::{CoreWaits, FineSamples};
use weft_run::cgroups::resolve;
use weft_units::{BitsPerSec, Bytes, Instant, Nanos};

/// Length of the windows in which the NIC reports bytes sent and waiting.
const FINE: Nanos = Nanos::from_millis(10);
/// Fine windows in one live window: 50 ms, the paper's throughput window (section 6).
const FINE_PER_LIVE: usize = 5;
/// Wire bytes of the largest packet at an MTU of 1500 bytes, and of a super-packet of 64 KB cut into such packets.
const SEGMENT_WIRE: u64 = ethernet::wire_of(ethernet::frame_of(ethernet::MTU)).0;
const WHOLE_WIRE: u64 = 45 * SEGMENT_WIRE;
/// Packets that a ring holds: more than twice the number of flows that may share one.
const RING_PACKETS: u32 = 2000;
/// Descriptor rings of the port.
const RINGS: usize = 256;

/// A window of about 500 ms of the link's time.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkWindow {
    /// Start, relative to the beginning of the run.
    pub at: Nanos,
    /// Length.
    pub span: Nanos,
    /// Wire bytes by class of the policy.
    pub wire: Vec<Bytes>,
    /// Bytes waiting by class of the policy, the mean of the fine windows.
    pub standing: Vec<Bytes>,
    /// Whether the same senders had packets waiting throughout, and no other sent ([`FineSamples::spans`]).
    pub steady: bool,
}

/// The outcome of a run in one mode.
#[derive(Clone, Debug)]
pub struct ModeOutcome {
    /// The mode.
    pub mode: Mode,
    /// The link's rate.
    pub rate: BitsPerSec,
    /// Bytes sent and waiting in fine windows, by sender of the scenario.
    pub fine: FineSamples,
    /// Windows computed from the fine ones, in order.
    pub windows: Vec<LinkWindow>,
    /// Time that the threads that carry the traffic were runnable but had no core, while the senders sent.
    pub core_waits: Option<CoreWaits>,
    /// The latency tenant's requests, with times relative to the beginning of the run.
    pub requests: Vec<TimedRequest>,
    /// The NIC's counters at the end.
    pub totals: Totals,
    /// Processor seconds of the transmit worker per second of the run.
    pub worker_share: f64,
    /// Length of the whole run, including start and end.
    pub elapsed: Nanos,
    /// Description of the port's qdisc; `None` without one.
    pub qdisc: Option<String>,
    /// Remarks for the report.
    pub notes: Vec<String>,
}

/// Resources that all runs of a demo share.
pub(crate) struct Bench<'a> {
    pub(super) policy: &'a CompiledPolicy,
    pub(super) testbed: &'a Testbed,
    pub(super) hierarchy: &'a Hierarchy,
    pub(super) base: &'a Cgroup,
    pub(super) cgroups: &'a [(&'static str, Cgroup)],
    pub(super) folder: &'a Path,
    pub(super) stop: &'a dyn Fn() -> bool,
}

impl Bench<'_> {
    fn cgroup(&self, name: &str) -> Result<&Cgroup, DemoError> {
        let found = self.cgroups.iter().find(|(n, _)| *n == name);
        found.map(|(_, cgroup)| cgroup).ok_or_else(|| DemoError::NoClass { name: name.to_owned() })
    }

    /// Returns the index of a sender's class in the policy.
    fn class_of(&self, name: &str) -> Result<usize, DemoError> {
        let class = self.policy.classes.iter().position(|c| c.name == name);
        class.ok_or_else(|| DemoError::NoClass { name: name.to_owned() })
    }

    fn start_nic(
        &self,
        scenario: &LoomScenario,
        mode: Mode,
        rate: BitsPerSec,
        options: &DemoOptions,
    ) -> Result<SoftwareNic, DemoError> {
        let names = self.policy.classes.iter().map(|c| c.name.as_str());
        let config = NicConfig {
            mode,
            rate,
            link: weft_nic::link::LinkKind::Emulated,
            segments_per_turn: options.segments_per_turn,
            catch_up: options.catch_up,
            window: FINE,
            cgroups: resolve(self.policy, self.hierarchy, self.base),
            flows: scenario.flows_by_class(names),
            rings: RINGS,
            departures: None,
        };
        let mut plan = NicPlan::new(self.policy, config)?;
        let (port, uplink) = self.testbed.devices_with(plan.ring_count(), RING_PACKETS, true)?;
        if mode == Mode::OneRing && options.sq_qdisc {
            qdisc::install(&mut plan, &port)?;
        }
        let nic = SoftwareNic::start(plan, port, uplink)?;
        self.testbed.connect()?;
        Ok(nic)
    }

    /// Runs `scenario` in `mode`, reporting events to `on_event`.
    pub(crate) fn run(
        &self,
        scenario: &LoomScenario,
        mode: Mode,
        rate: BitsPerSec,
        options: &DemoOptions,
        on_event: &mut dyn FnMut(DemoEvent<'_>),
    ) -> Result<ModeOutcome, DemoError> {
        // Where the kernel refuses, the doorbell's cost is reported as unknown.
        let _stats = BpfStats::enable();
        let nic = self.start_nic(scenario, mode, rate, options)?;
        let started = clock::now();
        let mut run = Run::prepare(self, scenario, options, &nic)?;
        let result = run.play(self, scenario, mode, options, on_event);
        let requests = run.end(result.is_ok());
        let worker_cpu = run.worker_cpu;
        let core_waits = run.core_waits();
        let fine = run.fine_samples(self, scenario, options);
        let windows = windows(&fine, &run.fine);
        let notes = core::mem::take(&mut run.notes);
        drop(run);
        let qdisc = qdisc::read(nic.ports()[0].port());
        let totals = nic.stop(Nanos::from_secs(2))?;
        result?;
        let elapsed = clock::now().saturating_since(started);
        Ok(ModeOutcome {
            mode,
            rate,
            fine,
            windows,
            core_waits,
            requests: requests?,
            worker_share: match worker_cpu {
                [Some(begin), Some(end)] => {
                    (end.as_secs_f64() - begin.as_secs_f64()) / scenario.duration.as_secs_f64()
                }
                _ => 0.0,
            },
            totals,
            elapsed,
            qdisc,
            notes,
        })
    }
}

/// The state of one run.
struct Run<'a> {
    nic: &'a SoftwareNic,
    bulk: Vec<BulkRun>,
    latency: Option<LatencyRun>,
    origin: Instant,
    /// Windows of the NIC from the beginning.
    fine: Vec<Sample>,
    /// The index of the first window not yet shown.
    shown: usize,
    notes: Vec<String>,
    /// The worker's processor time at the beginning and at the end.
    worker_cpu: [Option<Nanos>; 2],
    /// Counts of waits for a core, at the beginning and at the end.
    readings: [Option<Reading>; 2],
}

impl<'a> Run<'a> {
    fn prepare(
        bench: &Bench<'_>,
        scenario: &LoomScenario,
        options: &DemoOptions,
        nic: &'a SoftwareNic,
    ) -> Result<Self, DemoError> {
        let mut bulk = Vec::new();
        for (i, sender) in scenario.bulk.iter().enumerate() {
            bulk.push(BulkRun::prepare(sender, i as u32, bench.testbed)?);
            bench.class_of(sender.name)?;
        }
        let latency = match scenario.latency {
            Some(name) => Some(LatencyRun::start(
                bench.testbed,
                bench.cgroup(name)?,
                bench.folder,
                options.requests_per_s,
                options.request_bytes,
                scenario.duration,
                bench.stop,
            )?),
            None => None,
        };
        let origin =
            latency.as_ref().map_or(clock::now() + Nanos::from_millis(300), LatencyRun::first_message);
        let (fine, notes) = (Vec::new(), Vec::new());
        let (worker_cpu, readings) = ([None, None], [None, None]);
        Ok(Self { nic, bulk, latency, origin, fine, shown: 0, notes, worker_cpu, readings })
    }

    /// Starts and stops the senders by the time line, and collects windows.
    fn play(
        &mut self,
        bench: &Bench<'_>,
        scenario: &LoomScenario,
        mode: Mode,
        options: &DemoOptions,
        on_event: &mut dyn FnMut(DemoEvent<'_>),
    ) -> Result<(), DemoError> {
        loop {
            if (bench.stop)() {
                return Err(DemoError::Interrupted);
            }
            let at = clock::now().saturating_since(self.origin);
            self.follow_time_line(bench, at, options)?;
            self.fine.extend(self.nic.samples().try_iter());
            self.show(mode, on_event);
            if at > Nanos::ZERO && self.worker_cpu[0].is_none() {
                self.read_clocks(0);
            }
            if at >= scenario.duration && self.worker_cpu[1].is_none() {
                self.read_clocks(1);
            }
            if at >= scenario.duration + Nanos::from_millis(100) {
                return Ok(());
            }
            if !self.nic.is_running() {
                return Err(DemoError::NicEnded);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Reports new windows, merged into windows of 50 ms.
    fn show(&mut self, mode: Mode, on_event: &mut dyn FnMut(DemoEvent<'_>)) {
        while let Some(five) = self.fine.get(self.shown..self.shown + FINE_PER_LIVE) {
            let sample = together(five);
            let at = sample.start.saturating_since(self.origin);
            on_event(DemoEvent::Live(Live { mode, at, sample: &sample }));
            self.shown += FINE_PER_LIVE;
        }
    }

    /// Reads the worker's processor time and the waits for a core, at the beginning (0) or at the end (1).
    fn read_clocks(&mut self, which: usize) {
        self.worker_cpu[which] = Some(self.nic.worker_cpu());
        let probe = self.latency.as_ref().map(LatencyRun::pids).unwrap_or_default();
        self.readings[which] = Reading::take(clock::now(), &probe);
    }

    fn core_waits(&self) -> Option<CoreWaits> {
        let [begin, end] = &self.readings;
        Some(begin.as_ref()?.until(end.as_ref()?))
    }

    /// Returns the NIC's windows since the origin, by sender of the scenario.
    fn fine_samples(
        &mut self,
        bench: &Bench<'_>,
        scenario: &LoomScenario,
        options: &DemoOptions,
    ) -> FineSamples {
        let origin = self.origin;
        self.fine
            .retain(|fine| fine.start >= origin && fine.start + fine.window <= origin + scenario.duration);
        let classes = scenario.names().into_iter();
        let senders: Vec<(&str, usize)> =
            classes.filter_map(|name| Some((name, bench.class_of(name).ok()?))).collect();
        let probe = scenario.latency.and_then(|name| bench.class_of(name).ok());
        let waiting = |fine: &Sample| {
            let bit = |(i, (_, class)): (usize, &(&str, usize))| u64::from(fine.waited[*class]) << i;
            senders.iter().enumerate().map(bit).sum()
        };
        let lost = self.fine.iter().enumerate().filter(|(_, fine)| fine.lost > Nanos::ZERO);
        FineSamples {
            window_s: FINE.as_secs_f64(),
            from_s: self.fine.first().map_or(0.0, |f| f.start.saturating_since(origin).as_secs_f64()),
            chunk_bytes: match options.segments_per_turn {
                SegmentsPerTurn::AtMost(n) => (u64::from(n.get()) * SEGMENT_WIRE).min(WHOLE_WIRE),
                SegmentsPerTurn::Whole => WHOLE_WIRE,
            },
            tenants: senders.iter().map(|(name, _)| (*name).to_owned()).collect(),
            bytes: self
                .fine
                .iter()
                .map(|fine| senders.iter().map(|(_, class)| fine.wire[*class].get()).collect())
                .collect(),
            waiting: self.fine.iter().map(waiting).collect(),
            lost_s: lost.map(|(i, fine)| (i, fine.lost.as_secs_f64())).collect(),
            probe_wait_s: probe.map_or_else(Vec::new, |class| {
                self.fine.iter().map(|fine| fine.longest_wait[class].as_secs_f64()).collect()
            }),
        }
    }

    fn follow_time_line(
        &mut self,
        bench: &Bench<'_>,
        at: Nanos,
        options: &DemoOptions,
    ) -> Result<(), DemoError> {
        if clock::now() < self.origin {
            return Ok(());
        }
        for run in &mut self.bulk {
            if !run.is_started() && at >= run.bulk.start && at < run.bulk.stop {
                let cgroup = bench.cgroup(run.bulk.name)?;
                run.start(&bench.testbed.sender, cgroup, &options.congestion)?;
            } else if run.is_started() && at >= run.bulk.stop {
                run.stop();
            } else if let Some(failure) = run.failure() {
                return Err(DemoError::Application { program: "iperf3", said: failure });
            }
        }
        Ok(())
    }

    /// Ends the applications; reads the requests if the run was `complete`.
    fn end(&mut self, complete: bool) -> Result<Vec<TimedRequest>, DemoError> {
        self.bulk.iter_mut().for_each(BulkRun::stop);
        match self.latency.take() {
            Some(latency) if complete => latency.finish(self.origin, Duration::from_secs(4)),
            _ => Ok(Vec::new()),
        }
    }
}

/// Merges neighbouring windows of the NIC into one.
fn together(fine: &[Sample]) -> Sample {
    let mut all = fine[0].clone();
    for next in &fine[1..] {
        all.window += next.window;
        all.lost += next.lost;
        all.wire.iter_mut().zip(&next.wire).for_each(|(sum, more)| *sum += *more);
        all.waited.iter_mut().zip(&next.waited).for_each(|(all, too)| *all &= too);
        all.longest_wait
            .iter_mut()
            .zip(&next.longest_wait)
            .for_each(|(most, wait)| *most = (*most).max(*wait));
        all.standing.clone_from(&next.standing);
        all.backlogged_rings = next.backlogged_rings;
    }
    all
}

/// Computes the windows of the report from the fine ones, by class of the policy.
fn windows(samples: &FineSamples, fine: &[Sample]) -> Vec<LinkWindow> {
    let start = |index: usize| Nanos((samples.start_s(index) * 1e9).round() as u64);
    let window = |span: weft_report::demo::FineSpan| {
        let within = &fine[span.windows.clone()];
        let all = together(within);
        let mean = |class: usize| {
            let sum: Bytes = within.iter().map(|s| s.standing[class]).sum();
            Bytes(sum.get() / within.len() as u64)
        };
        LinkWindow {
            at: start(span.windows.start),
            span: all.window,
            standing: (0..all.wire.len()).map(mean).collect(),
            wire: all.wire,
            steady: span.steady,
        }
    };
    samples.spans().into_iter().map(window).collect()
}
