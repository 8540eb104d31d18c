//! Traffic that runs until a number of packets has been checked at every stage of a path.

use super::{OrderCounts, OrderError, OrderStage, PacketPath, StageReport, Stages};
use crate::traffic::churn::{self, ChurnError, ChurnReport, ShortFlows};
use crate::traffic::ordered::{self, Mix, MixReport, TrafficError};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use weft_host::{OsError, clock};
use weft_units::{Bytes, Nanos, Packets};

/// Interval between readings of the counts.
const LOOK: Duration = Duration::from_millis(50);
/// Interval between removals of closed flows, and their least silence: longer than a packet's transit.
const FORGET: (Nanos, Duration) = (Nanos::from_millis(500), Duration::from_secs(1));

/// Parameters of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderSettings {
    /// Packets (segments) checked at the sender's egress after which the run ends.
    pub packets: Packets,
    /// The longest duration, to which the draining is added ([`ordered::DRAIN`]).
    pub most: Duration,
    /// Long-lived flows.
    pub mix: Mix,
    /// Short flows at the same time.
    pub short: Option<ShortFlows>,
}

/// Errors of a run.
#[derive(Debug, thiserror::Error)]
pub enum OrderRunError {
    /// A check failed.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The traffic of long-lived flows failed.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The traffic of short flows failed.
    #[error(transparent)]
    Churn(#[from] ChurnError),
}

impl From<OsError> for OrderRunError {
    fn from(error: OsError) -> Self {
        Self::Traffic(error.into())
    }
}

/// The progress of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderProgress {
    /// Counts at the sender's egress.
    pub sent: OrderCounts,
    /// Counts at the receiver's ingress.
    pub received: OrderCounts,
    /// Time since the beginning.
    pub elapsed: Nanos,
}

/// Results of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderReport {
    /// The stages, in the order in which packets pass them.
    pub stages: Vec<StageReport>,
    /// Results of the long-lived flows.
    pub mix: MixReport,
    /// Results of the short flows.
    pub short: Option<ChurnReport>,
    /// Duration of the traffic, draining included.
    pub elapsed: Nanos,
    /// Whether as many packets were checked as requested.
    pub complete: bool,
}

impl OrderReport {
    fn at(&self, stage: OrderStage) -> OrderCounts {
        self.stages.iter().find(|s| s.stage == stage).map_or_else(OrderCounts::default, |s| s.counts)
    }

    /// Returns the packets (segments) checked at the sender's egress.
    pub fn packets(&self) -> Packets {
        self.at(OrderStage::Egress).packets
    }

    /// Returns their frame bytes, before segmentation.
    pub fn bytes(&self) -> Bytes {
        self.at(OrderStage::Egress).bytes
    }

    /// Returns the number of flows at the sender's egress.
    pub fn flows(&self) -> u64 {
        self.at(OrderStage::Egress).flows
    }

    /// Returns the late packets of a stage; `None` if it is not on the path.
    pub fn late(&self, stage: OrderStage) -> Option<Packets> {
        self.stages.iter().find(|s| s.stage == stage).map(|s| s.counts.late)
    }

    /// Returns the first stage with a late packet.
    pub fn first_overtaken(&self) -> Option<OrderStage> {
        self.stages.iter().find(|s| s.counts.late > Packets(0)).map(|s| s.stage)
    }

    /// Whether every stage checked every packet, none was late, and none was handled by two cores at once at the last
    /// stage.
    pub fn in_order(&self) -> bool {
        let clean = |s: &StageReport| s.counts.late == Packets(0) && s.counts.beyond == Packets(0);
        self.stages.iter().all(clean) && self.at(OrderStage::Receiver).at_once == Packets(0)
    }
}

/// Attaches the stages, sends the traffic until the target, the longest duration or `stop`, and reports late packets
/// by stage. `progress` is called about twenty times per second. All threads have ended on return; the programs stay
/// at the devices.
///
/// # Errors
/// Fails when a check cannot be attached, for invalid settings, and when a socket or thread cannot be made.
pub fn run(
    path: &PacketPath<'_>,
    settings: &OrderSettings,
    mut progress: impl FnMut(&OrderProgress),
    stop: &AtomicBool,
) -> Result<OrderReport, OrderRunError> {
    let stages = Stages::attach(path)?;
    let begin = clock::now();
    let (enough, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mix, short) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("weft-traffic".to_owned());
        let traffic = thread.spawn_scoped(scope, || {
            let result = send(path, settings, &enough);
            ended.store(true, Ordering::Release);
            result
        });
        let traffic = traffic.map_err(|e| OsError::new("start a thread", e))?;
        let mut forgotten = begin;
        while !ended.load(Ordering::Acquire) && !traffic.is_finished() {
            std::thread::sleep(LOOK);
            let now = clock::now();
            let at = |stage| stages.counts(stage).unwrap_or_default();
            let (sent, received) = (at(OrderStage::Egress), at(OrderStage::Receiver));
            progress(&OrderProgress { sent, received, elapsed: now.saturating_since(begin) });
            if sent.packets >= settings.packets || stop.load(Ordering::Relaxed) {
                enough.store(true, Ordering::Relaxed);
            }
            if now.saturating_since(forgotten) > FORGET.0 {
                stages.forget_closed(FORGET.1);
                forgotten = clock::now();
            }
        }
        traffic.join().map_err(|_| TrafficError::Panicked)?
    })?;
    let elapsed = clock::now().saturating_since(begin);
    let stages = stages.report();
    let mut report = OrderReport { stages, mix, short, elapsed, complete: false };
    report.complete = report.packets() >= settings.packets;
    Ok(report)
}

/// Sends both kinds of traffic at once. An error of one ends the other.
fn send(
    path: &PacketPath<'_>,
    settings: &OrderSettings,
    enough: &AtomicBool,
) -> Result<(MixReport, Option<ChurnReport>), OrderRunError> {
    let (sender, receiver) = (path.sender.0, path.receiver.0);
    std::thread::scope(|scope| {
        let short = settings.short.as_ref().map(|short| {
            let thread = std::thread::Builder::new().name("weft-short".to_owned());
            let work = || {
                let result = churn::run(short, sender, receiver, path.server, settings.most, enough);
                if result.is_err() {
                    enough.store(true, Ordering::Relaxed);
                }
                result
            };
            thread.spawn_scoped(scope, work).map_err(|e| OsError::new("start a thread", e))
        });
        let mix = ordered::run(&settings.mix, sender, receiver, path.server, settings.most, enough);
        enough.store(true, Ordering::Relaxed);
        let short = short.transpose()?.map(|thread| thread.join().map_err(|_| TrafficError::Panicked));
        let short = short.transpose()?.transpose()?;
        Ok((mix?, short))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::pair::{Pair, RECEIVER, RECEIVER_LINK, SENDER_LINK};
    use weft_host::testing::privileged;

    fn path(pair: &Pair) -> PacketPath<'_> {
        let (sender, receiver) = ((&pair.sender, SENDER_LINK), (&pair.receiver, RECEIVER_LINK));
        PacketPath { sender, far: None, receiver, server: RECEIVER }
    }

    #[test]
    fn a_run_ends_with_its_packets_and_says_where_they_were() {
        if !privileged("a_run_ends_with_its_packets_and_says_where_they_were") {
            return;
        }
        let pair = Pair::create();
        let short = ShortFlows { per_second: 300, ..ShortFlows::default() };
        let settings = OrderSettings {
            packets: Packets(20_000),
            most: Duration::from_secs(30),
            mix: Mix { connections: 16, udp_flows: 4, ..Mix::default() },
            short: Some(short),
        };
        let mut last = None;
        let stop = AtomicBool::new(false);
        let report = run(&path(&pair), &settings, |p| last = Some(*p), &stop).expect("runs");
        println!("{report:?}");
        assert!(report.complete && report.packets() >= settings.packets, "{report:?}");
        assert!(last.is_some_and(|p| p.sent.packets <= report.packets() && p.elapsed <= report.elapsed));
        // Well before the longest duration: the target ended it.
        assert!(report.elapsed < Nanos::from_secs(30), "{report:?}");
        let short = report.short.expect("short flows");
        assert!(report.mix.all_delivered() && short.clients.balances() && short.servers.balances());
        // A connection is visible by its SYN; a UDP flow may be silent until the target is reached.
        let connections = 16 + short.clients.started;
        assert!((connections..=connections + 4).contains(&report.flows()), "{report:?}");
        assert_eq!(report.late(OrderStage::Egress), Some(Packets(0)));
        assert_eq!((report.late(OrderStage::FarEnd), report.stages.len()), (None, 2));
        // A veth itself may reorder packets of two cores; the report must then say so.
        let late = report.late(OrderStage::Receiver).expect("on the path");
        assert_eq!(report.first_overtaken(), (late > Packets(0)).then_some(OrderStage::Receiver));
    }

    #[test]
    fn a_run_can_be_stopped_and_an_error_ends_it() {
        if !privileged("a_run_can_be_stopped_and_an_error_ends_it") {
            return;
        }
        let pair = Pair::create();
        let most = Duration::from_secs(30);
        let settings = OrderSettings { packets: Packets(u64::MAX), most, mix: Mix::default(), short: None };
        let stop = AtomicBool::new(false);
        let progress = |p: &OrderProgress| stop.store(p.sent.packets > Packets(0), Ordering::Relaxed);
        let report = run(&path(&pair), &settings, progress, &stop).expect("runs");
        assert!(!report.complete && report.packets() > Packets(0) && report.elapsed < Nanos::from_secs(30));
        let wrong = ShortFlows { bytes: 0, ..ShortFlows::default() };
        let settings = OrderSettings { short: Some(wrong), ..settings };
        let begin = clock::now();
        let error = run(&path(&pair), &settings, |_| {}, &AtomicBool::new(false)).expect_err("refused");
        assert!(matches!(error, OrderRunError::Churn(_)), "{error}");
        assert!(clock::now().saturating_since(begin) < Nanos::from_secs(30));
    }
}
