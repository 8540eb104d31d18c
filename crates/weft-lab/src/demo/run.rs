//! One run of a scenario on a software NIC in one mode.

use super::qdisc;
use super::scenario::Scenario;
use super::traffic::{BulkRun, LatencyRun, Request, SOCKPERF_LEAD};
use super::{DemoError, DemoEvent, DemoOptions, Live};
use crate::cgroups::resolve;
use crate::ledger::QdiscDrops;
use std::path::Path;
use std::time::Duration;
use weft_host::bpf_stats::BpfStats;
use weft_host::{Cgroup, Hierarchy, clock};
use weft_nic::nic::{NicConfig, SoftwareNic, Totals};
use weft_nic::plan::Mode;
use weft_nic::sampler::Sample;
use weft_nic::testbed::Testbed;
use weft_policy::CompiledPolicy;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// Length of the windows in which the NIC reports departures; the paper's throughput window (section 6).
pub(super) const FINE: Nanos = Nanos::from_millis(50);
/// Fine windows in a window of the report: 500 ms.
const FINE_PER_WINDOW: usize = 10;
/// Packets that a ring holds: more than twice the flows that may share one.
const RING_PACKETS: u32 = 2000;
/// Descriptor rings of the port.
const RINGS: usize = 256;

/// A 500 ms window of the link's time.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// Its start, since the beginning of the run.
    pub at: Nanos,
    /// Its length.
    pub span: Nanos,
    /// Wire bytes by class of the policy.
    pub wire: Vec<Bytes>,
    /// Standing bytes by class of the policy, mean of its fine windows.
    pub standing: Vec<Bytes>,
    /// Bulk senders meant to send in all of it.
    pub active: Vec<&'static str>,
    /// Whether nothing came or went and all flows of the active senders were there.
    pub steady: bool,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its mode.
    pub mode: Mode,
    /// The link's rate.
    pub rate: BitsPerSec,
    /// Windows, in order.
    pub windows: Vec<Window>,
    /// The latency tenant's requests, times since the beginning of the run.
    pub requests: Vec<Request>,
    /// The NIC's counters at the end.
    pub totals: Totals,
    /// Processor seconds of this process's transmit worker per second of the run.
    pub worker_share: f64,
    /// Length of the whole run, with start and end.
    pub elapsed: Nanos,
    /// The qdisc on the port, where there was one.
    pub qdisc: Option<String>,
    /// What that qdisc dropped.
    pub qdisc_drops: QdiscDrops,
    /// What was noticed.
    pub notes: Vec<String>,
}

/// What all runs of a demo share.
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

    fn start_nic(
        &self,
        scenario: &Scenario,
        mode: Mode,
        rate: BitsPerSec,
        options: &DemoOptions,
    ) -> Result<SoftwareNic, DemoError> {
        let names = self.policy.classes.iter().map(|c| c.name.as_str());
        let config = NicConfig {
            mode,
            rate,
            grain: options.grain,
            catch_up: options.catch_up,
            window: FINE,
            cgroups: resolve(self.policy, self.hierarchy, self.base),
            flows: scenario.flows_by_class(names),
            rings: RINGS,
            departures: None,
        };
        let mut plan = SoftwareNic::plan(self.policy, &config)?;
        let (port, uplink) = self.testbed.devices(plan.rings.len() as u32, RING_PACKETS)?;
        if mode == Mode::Sq && options.sq_qdisc {
            qdisc::install(self.policy, &mut plan, rate, &port)?;
        }
        let nic = SoftwareNic::start(self.policy, &config, plan, port, uplink)?;
        self.testbed.connect()?;
        Ok(nic)
    }

    /// Runs `scenario` in `mode`, telling `on_event` what happens.
    pub(crate) fn run(
        &self,
        scenario: &Scenario,
        mode: Mode,
        rate: BitsPerSec,
        options: &DemoOptions,
        on_event: &mut dyn FnMut(DemoEvent<'_>),
    ) -> Result<Outcome, DemoError> {
        // Where the kernel refuses, the cost of the doorbell is reported as unknown.
        let _stats = BpfStats::enable();
        let nic = self.start_nic(scenario, mode, rate, options)?;
        let started = clock::now();
        let mut run = Run::prepare(self, scenario, options, &nic)?;
        let result = run.play(self, scenario, mode, options, on_event);
        let requests = run.end(result.is_ok());
        let Run { windows, origin, notes, worker_cpu, .. } = run;
        let (qdisc, qdisc_drops) = qdisc::read(nic.port());
        let totals = nic.stop(Nanos::from_secs(2))?;
        result?;
        let elapsed = clock::now().saturating_sub(started);
        let requests = requests?
            .into_iter()
            .filter(|r| r.at >= origin)
            .map(|r| Request { at: r.at.saturating_sub(origin), ..r });
        Ok(Outcome {
            mode,
            rate,
            windows,
            requests: requests.collect(),
            worker_share: match worker_cpu {
                [Some(begin), Some(end)] => {
                    (end.as_secs_f64() - begin.as_secs_f64()) / scenario.duration.as_secs_f64()
                }
                _ => 0.0,
            },
            totals,
            elapsed,
            qdisc,
            qdisc_drops,
            notes,
        })
    }
}

/// A run under way.
struct Run<'a> {
    nic: &'a SoftwareNic,
    bulk: Vec<BulkRun>,
    latency: Option<LatencyRun>,
    origin: Nanos,
    fine: Vec<Sample>,
    windows: Vec<Window>,
    notes: Vec<String>,
    /// Class numbers of the bulk senders.
    classes: Vec<usize>,
    /// The worker's processor time when the run began and when it ended.
    worker_cpu: [Option<Nanos>; 2],
}

impl<'a> Run<'a> {
    fn prepare(
        bench: &Bench<'_>,
        scenario: &Scenario,
        options: &DemoOptions,
        nic: &'a SoftwareNic,
    ) -> Result<Self, DemoError> {
        let mut bulk = Vec::new();
        let mut classes = Vec::new();
        for (i, sender) in scenario.bulk.iter().enumerate() {
            bulk.push(BulkRun::prepare(sender, i as u32, bench.testbed)?);
            let class = bench.policy.classes.iter().position(|c| c.name == sender.name);
            classes.push(class.ok_or_else(|| DemoError::NoClass { name: sender.name.to_owned() })?);
        }
        let now = clock::now();
        let latency = match scenario.latency {
            Some(name) => Some(LatencyRun::start(
                bench.testbed,
                bench.cgroup(name)?,
                bench.folder,
                options.requests_per_s,
                options.request_bytes,
                scenario.duration,
                now,
            )?),
            None => None,
        };
        let lead = if latency.is_some() { SOCKPERF_LEAD } else { Nanos::from_millis(300) };
        let origin = now + lead;
        let (fine, windows, notes) = (Vec::new(), Vec::new(), Vec::new());
        let worker_cpu = [None, None];
        Ok(Self { nic, bulk, latency, origin, fine, windows, notes, classes, worker_cpu })
    }

    /// Starts and stops the senders by the time line, and collects windows.
    fn play(
        &mut self,
        bench: &Bench<'_>,
        scenario: &Scenario,
        mode: Mode,
        options: &DemoOptions,
        on_event: &mut dyn FnMut(DemoEvent<'_>),
    ) -> Result<(), DemoError> {
        loop {
            if (bench.stop)() {
                return Err(DemoError::Interrupted);
            }
            let at = clock::now().saturating_sub(self.origin);
            self.follow_time_line(bench, at, options)?;
            for sample in self.nic.samples().try_iter().collect::<Vec<_>>() {
                let live = Live { mode, at: sample.start.saturating_sub(self.origin), sample: &sample };
                on_event(DemoEvent::Live(live));
                self.take(sample, scenario);
            }
            if at > Nanos::ZERO && self.worker_cpu[0].is_none() {
                self.worker_cpu[0] = Some(self.nic.worker_cpu());
            }
            if at >= scenario.duration && self.worker_cpu[1].is_none() {
                self.worker_cpu[1] = Some(self.nic.worker_cpu());
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

    /// Collects fine windows into one of the report.
    fn take(&mut self, sample: Sample, scenario: &Scenario) {
        let origin = self.origin;
        if sample.start < origin {
            return;
        }
        let since = |fine: &Sample| fine.start.saturating_sub(origin);
        // A change, and the end of the settling after it, begin a window: none straddles them, and none is wasted.
        let begins = |fine: &Sample| scenario.begins_window(since(fine), since(fine) + fine.window);
        if !self.fine.is_empty() && begins(&sample) {
            self.close_window(scenario);
        }
        self.fine.push(sample);
        if self.fine.len() == FINE_PER_WINDOW {
            self.close_window(scenario);
        }
    }

    /// Makes a window of the report of the fine ones collected; one that was cut short is not judged.
    fn close_window(&mut self, scenario: &Scenario) {
        let fine = core::mem::take(&mut self.fine);
        let (first, last) = (&fine[0], &fine[fine.len() - 1]);
        let from = first.start.saturating_sub(self.origin);
        let to = (last.start + last.window).saturating_sub(self.origin);
        let classes = first.wire.len();
        let sum = |pick: fn(&Sample) -> &Vec<Bytes>, class: usize| -> Bytes {
            fine.iter().map(|s| pick(s)[class]).sum()
        };
        let mean = |class: usize| Bytes(sum(|s| &s.standing, class).get() / fine.len() as u64);
        self.windows.push(Window {
            at: from,
            span: to - from,
            wire: (0..classes).map(|c| sum(|s| &s.wire, c)).collect(),
            standing: (0..classes).map(mean).collect(),
            active: scenario.active(from, to),
            steady: fine.len() == FINE_PER_WINDOW
                && scenario.steady(from, to)
                && self.all_flows_there(scenario, from, to),
        });
    }

    /// Whether the NIC has seen every flow of the senders that are active: a sender still opening its flows is "coming".
    fn all_flows_there(&self, scenario: &Scenario, from: Nanos, to: Nanos) -> bool {
        let seen = self.nic.flows_by_class();
        let active = scenario.active(from, to);
        let there = |(run, &class): (&BulkRun, &usize)| {
            !active.contains(&run.bulk.name) || seen.get(class).is_some_and(|&n| n >= run.bulk.flows)
        };
        self.bulk.iter().zip(&self.classes).all(there)
    }

    /// Ends the applications; reads the requests if the run was `complete`.
    fn end(&mut self, complete: bool) -> Result<Vec<Request>, DemoError> {
        self.bulk.iter_mut().for_each(BulkRun::stop);
        match self.latency.take() {
            Some(latency) if complete => latency.finish(Duration::from_secs(4)),
            _ => Ok(Vec::new()),
        }
    }
}
