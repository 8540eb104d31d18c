//! The totals of a run as a report document.

use std::time::Duration;
use weft_nic::nic::{Lag, Totals};
use weft_nic::redirect::ReceivePath;
use weft_facts::record::Document;
use weft_facts::run::{ReceivedBy, RunClass, RunDrops, RunLag, RunReceive, RunReport, RunUplink};
use weft_units::{Bytes, Nanos};

use crate::accounting::{conservation, undelivered, unexplained};
use crate::counters::{OF_CLASSES, OF_PORTS, values};
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
        dropped_packets: undelivered(totals).packets,
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
        let let_in = c.posted.minus(c.fetched).plus(c.refused);
        let dropped = let_in.plus(c.bound).plus(c.full).plus(c.moving);
        RunClass {
            class: name.clone(),
            packets: c.sent.packets.get(),
            bytes: c.sent.bytes.get(),
            dropped_packets: dropped.packets.get(),
            dropped_bytes: dropped.bytes.get(),
            counters: values(&OF_CLASSES, c),
        }
    });
    RunReport {
        schema: RunReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        duration_s: duration.as_secs_f64(),
        classes: classes.collect(),
        dropped: dropped(totals),
        counters: values(&OF_PORTS, totals),
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
pub(super) fn dropped(totals: &Totals) -> RunDrops {
    RunDrops {
        refused: totals.sum(|c| c.refused).packets.get(),
        ring_full: totals.drops.ring_full + totals.sum(|c| c.full).packets.get(),
        qdisc: totals.drops.qdisc,
        backlog: totals.drops.backlog,
        bound: totals.sum(|c| c.bound).packets.get(),
        moving: totals.sum(|c| c.moving).packets.get(),
        stray: totals.unannounced_drops + totals.obscured_drops,
        uplink: totals.uplink_dropped,
        lost: unexplained(totals),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_nic::nic::ClassTotals;
    use weft_units::Packets;

    #[test]
    fn the_document_has_each_counter_of_the_totals() {
        let class = |packets| ClassTotals { late_claims: Packets(packets), ..ClassTotals::default() };
        let totals = Totals {
            classes: vec![class(3), class(0)],
            cut_packets: 7,
            unannounced_drops: 2,
            obscured_drops: 1,
            ..Totals::default()
        };
        let names = ["web", "default"].map(str::to_owned);
        let report = report(&names, &totals, Duration::from_secs(1), None);
        let late: Vec<u64> = report.classes.iter().map(|class| class.counters["late_claims"]).collect();
        assert_eq!(late, [3, 0]);
        assert_eq!(report.counters, values(&OF_PORTS, &totals));
        assert_eq!((report.counters["cut_packets"], report.counters["strays"]), (7, 0));
        // Both kinds of drops are one reason.
        let stray = report.counters["unannounced_drops"] + report.counters["obscured_drops"];
        assert_eq!(report.dropped.stray, stray);
    }
}
