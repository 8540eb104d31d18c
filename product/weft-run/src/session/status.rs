//! The status of a session: rates over the last second, and the counts so far.

use super::{
    ClassTotals, PortKind, PortState, PortStatus, Session, SessionError, Sojourns, WINDOWS, WORKER_BOUND,
    report,
};
use weft_facts::counters::{ClassDrops, Counters};
use weft_facts::status::{
    Histogram, Percentiles, ServiceStatus, StatusClass, StatusDraining, StatusPort, StatusUplink, WorkerState,
};
use weft_nic::nic::{Draining, Totals};
use weft_units::{BitsPerSec, Nanos};

/// The reason for absent waiting times.
const NO_SOJOURN: &str = "no packet of the class has left yet";

/// A class, and what was counted of it since it began.
#[derive(Clone, Debug, Default)]
pub struct ClassCounts {
    /// The name of the class.
    pub name: String,
    /// Its number in the totals of the NIC.
    pub number: usize,
    /// Its counts by stage.
    pub totals: ClassTotals,
    /// The times that its packets waited in the NIC.
    pub sojourns: Sojourns,
}

impl Session {
    /// The current status: what the session knows of it. The daemon adds its policy's name, owners and entitlements.
    ///
    /// Also applies changes of the uplink's interface to the port, so it should be called often.
    ///
    /// # Errors
    /// None at present.
    pub fn status(&mut self) -> Result<ServiceStatus, SessionError> {
        self.follow();
        self.recent.extend(self.nic.samples().try_iter());
        let old = self.recent.len().saturating_sub(WINDOWS);
        self.recent.drain(..old);
        let totals = self.nic.recent_totals()?;
        Ok(ServiceStatus {
            uptime_s: self.started.elapsed().as_secs_f64(),
            // A container must not end the daemon by deleting its port.
            worker: if self.workers_run() { WorkerState::Running } else { WorkerState::Ended },
            worker_bound: totals.worker_busy >= WORKER_BOUND,
            policy_change_pause_s: totals.change_pause_max.as_secs_f64(),
            draining: draining(totals.draining),
            uplink: StatusUplink {
                interface: self.uplink.first_name().to_owned(),
                up: self.uplink_is_up(),
                observed_bps: totals.observed_rate.map(|rate| rate.get() as f64),
                ..StatusUplink::default()
            },
            classes: self.counts_in(&totals).iter().map(|counts| self.class(counts)).collect(),
            ports: self.ports().into_iter().map(port).collect(),
            received_packets: totals.received().packets.get(),
            backlogged_rings: self.recent.last().map_or(0, |sample| sample.backlogged_rings),
            dropped: report::dropped(&totals),
            counters: totals.events,
            failed_readings: totals.unread + self.not_followed,
            ..ServiceStatus::default()
        })
    }

    /// The counts of each class in the order of the policy.
    ///
    /// # Errors
    /// None at present.
    pub fn class_counts(&self) -> Result<Vec<ClassCounts>, SessionError> {
        Ok(self.counts_in(&self.nic.recent_totals()?))
    }

    fn counts_in(&self, totals: &Totals) -> Vec<ClassCounts> {
        let names = self.names.current.iter().enumerate().filter(|(_, name)| !name.is_empty());
        let counts = |(number, name): (usize, &String)| {
            let mut counts = ClassCounts {
                name: name.clone(),
                number,
                totals: totals.classes.get(number).cloned().unwrap_or_default(),
                sojourns: totals.sojourns.get(number).cloned().unwrap_or_default(),
            };
            // A class may have the number of one that is gone.
            if let Some(base) = self.names.base.get(number) {
                counts.totals = counts.totals.minus(&base.counts);
                counts.sojourns = counts.sojourns.minus(&base.sojourns);
            }
            counts
        };
        names.map(counts).collect()
    }

    fn class(&self, counts: &ClassCounts) -> StatusClass {
        let (at, totals) = (counts.number, &counts.totals);
        let wire = self.recent.iter().filter_map(|sample| sample.wire.get(at)).copied().sum();
        let span: Nanos = self.recent.iter().map(|sample| sample.window).sum();
        let waiting = self.recent.last().and_then(|sample| sample.standing.get(at));
        let sojourn_s = percentiles(&counts.sojourns);
        StatusClass {
            class: counts.name.clone(),
            bytes: totals.sent.bytes.get(),
            packets: totals.sent.packets.get(),
            dropped: ClassDrops {
                refused: totals.refused.packets,
                bound: totals.bound.packets,
                ring_full: totals.full.packets,
                moving: totals.moving.packets,
                ..ClassDrops::default()
            },
            counters: totals.events,
            backlog_bytes: waiting.map_or(0, |bytes| bytes.get()),
            bps: BitsPerSec::from_bytes_over(wire, span).get() as f64,
            sojourn_reason: sojourn_s.is_none().then(|| NO_SOJOURN.to_owned()),
            sojourn_histogram: sojourn_s.map(|_| histogram(&counts.sojourns)),
            sojourn_s,
            ..StatusClass::default()
        }
    }
}

/// The drains under way; `None` without one.
fn draining(draining: Draining) -> Option<StatusDraining> {
    (draining.rings > 0).then(|| StatusDraining {
        rings: draining.rings,
        longest_s: draining.longest.as_secs_f64(),
        limit_s: draining.limit.as_secs_f64(),
    })
}

/// The percentiles of waiting times; `None` before the first packet has left.
fn percentiles(sojourns: &Sojourns) -> Option<Percentiles> {
    let of = |part| sojourns.quantile(part).map(Nanos::as_secs_f64);
    Some(Percentiles { p50: of(0.5)?, p90: of(0.9)?, p99: of(0.99)?, p999: of(0.999)? })
}

fn histogram(sojourns: &Sojourns) -> Histogram {
    let (octaves, longer) = sojourns.octaves();
    let (bounds, mut counts): (Vec<Nanos>, Vec<u64>) = octaves.into_iter().unzip();
    counts.push(longer);
    Histogram {
        bounds_s: bounds.into_iter().map(Nanos::as_secs_f64).collect(),
        count: counts.iter().sum(),
        counts,
        sum_s: sojourns.sum.as_secs_f64(),
    }
}

fn port(port: PortStatus) -> StatusPort {
    let kind = match (port.kind, port.state) {
        (PortKind::Tap, PortState::DeviceDeleted) => "tap (deleted)",
        (PortKind::Tap, _) => "tap",
        (_, PortState::DeviceDeleted) => "veth (deleted)",
        (PortKind::Veth | PortKind::Auto, _) => "veth",
    };
    StatusPort {
        port: port.name,
        netns: port.netns,
        kind: kind.to_owned(),
        mac: port.mac.to_string(),
        addresses: port.addresses.iter().map(|(ip, length)| format!("{ip}/{length}")).collect(),
        rings: port.rings as u64,
        receive: port.receive,
        sent_packets: port.sent.packets.get(),
        sent_bytes: port.sent.bytes.get(),
        received_packets: port.received.packets.get(),
        dropped_packets: port.dropped.total(),
        counters: port.counters,
        ingress_limit: port.ingress,
        ..StatusPort::default()
    }
}
