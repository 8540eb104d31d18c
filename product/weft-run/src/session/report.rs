//! The totals of a run as a report document.

use std::time::Duration;
use weft_facts::counters::PathDrops;
use weft_facts::record::Document;
use weft_facts::run::{ReceivedBy, RunClass, RunLag, RunReceive, RunReport, RunUplink};
use weft_nic::nic::{Lag, Totals};
use weft_nic::redirect::ReceivePath;
use weft_units::{Bytes, Nanos, Packets};

use crate::accounting::{conservation, undelivered, unexplained};
use crate::host_facts;

/// The carrier of received packets, without counts.
pub(super) fn path(path: &ReceivePath) -> RunReceive {
    let (by, reason) = match path {
        ReceivePath::Kernel(_) => (ReceivedBy::Kernel, None),
        ReceivePath::Thread(reason) => (ReceivedBy::Thread, Some(reason.to_string())),
    };
    RunReceive { by, reason, ..RunReceive::default() }
}

/// Adds the counts.
fn received(path: RunReceive, totals: &Totals) -> RunReceive {
    RunReceive {
        redirected_packets: totals.rx_redirected.packets.get(),
        redirected_bytes: totals.rx_redirected.bytes.get(),
        thread_packets: totals.rx.packets.get(),
        thread_bytes: totals.rx.bytes.get(),
        dropped_packets: undelivered(totals).packets.get(),
        ..path
    }
}

/// The report of a run that lasted `duration`, with received packets carried by `path`.
pub(super) fn report(
    names: &[String],
    totals: &Totals,
    duration: Duration,
    path: Option<RunReceive>,
) -> RunReport {
    let classes = names.iter().zip(&totals.classes).map(|(name, c)| {
        // Packets that were posted and neither fetched nor sent were dropped by the kernel before their ring. Packets
        // refused by the port were never posted.
        let let_in = c.posted.saturating_sub(c.fetched) + c.refused;
        let dropped = let_in + c.bound + c.full + c.moving;
        RunClass {
            class: name.clone(),
            packets: c.sent.packets.get(),
            bytes: c.sent.bytes.get(),
            dropped_packets: dropped.packets.get(),
            dropped_bytes: dropped.bytes.get(),
            counters: c.events,
        }
    });
    RunReport {
        schema: RunReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        duration_s: duration.as_secs_f64(),
        classes: classes.collect(),
        dropped: dropped(totals),
        counters: totals.events,
        lags: totals.lags.iter().map(lag).collect(),
        uplink: RunUplink {
            observed_bps: totals.observed_rate.map(|rate| rate.get() as f64),
            waits: totals.uplink_waits,
            overdrawn_turns: totals.overdrawn,
            ahead_max_s: totals.ahead_max.as_secs_f64(),
        },
        receive: path.map(|path| received(path, totals)),
        conservation: conservation(totals),
    }
}

fn lag(lag: &Lag) -> RunLag {
    RunLag {
        class: lag.leaf.clone(),
        lag_bytes: lag.bytes.get(),
        lag_s: (lag.span > Nanos::ZERO || lag.bytes == Bytes::ZERO).then(|| lag.span.as_secs_f64()),
        bound_bytes: lag.bound.get(),
    }
}

/// The packets dropped so far, by reason.
pub(super) fn dropped(totals: &Totals) -> PathDrops {
    PathDrops {
        refused: totals.sum(|c| c.refused).packets,
        ring_full: Packets(totals.drops.ring_full) + totals.sum(|c| c.full).packets,
        qdisc: Packets(totals.drops.qdisc),
        backlog: Packets(totals.drops.backlog),
        bound: totals.sum(|c| c.bound).packets,
        moving: totals.sum(|c| c.moving).packets,
        stray: totals.events.unannounced_drops + totals.events.obscured_drops,
        uplink: Packets(totals.uplink_dropped),
        lost: Packets(unexplained(totals)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_facts::counters::{ClassEvents, PortEvents};
    use weft_nic::nic::{ClassTotals, PortTotals};

    #[test]
    fn the_document_has_each_counter_of_the_totals() {
        let class = |packets| {
            let events = ClassEvents { late_claims: Packets(packets), ..ClassEvents::default() };
            ClassTotals { events, ..ClassTotals::default() }
        };
        let events = PortEvents {
            cut_packets: Packets(7),
            unannounced_drops: Packets(2),
            obscured_drops: Packets(1),
            ..PortEvents::default()
        };
        let ports = PortTotals { classes: vec![class(3), class(0)], events, ..PortTotals::default() };
        let names = ["web", "default"].map(str::to_owned);
        let totals = Totals { ports, ..Totals::default() };
        let report = report(&names, &totals, Duration::from_secs(1), None);
        let late: Vec<_> = report.classes.iter().map(|class| class.counters.late_claims).collect();
        assert_eq!((late, report.counters), (vec![Packets(3), Packets(0)], events));
        // Both kinds of drops are one reason.
        assert_eq!(report.dropped.stray, Packets(3));
    }
}
