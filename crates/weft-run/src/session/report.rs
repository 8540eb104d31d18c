//! The totals of a run as a report document.

use std::time::Duration;
use weft_nic::nic::{Lag, Totals};
use weft_nic::redirect::ReceivePath;
use weft_report::record::Document;
use weft_report::run::{ReceivedBy, RunClass, RunDrops, RunLag, RunReceive, RunReport, RunUplink};
use weft_units::{Bytes, Nanos};

use crate::accounting::{QdiscDrops, conservation, undelivered};
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
        }
    });
    let mut entered = totals.clone();
    // Beyond the lost packets, the kernel dropped packets that were never announced.
    entered.strays += counted(totals).saturating_sub(totals.lost);
    let conservation = conservation(&entered, lost(totals));
    RunReport {
        schema: RunReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        duration_s: duration.as_secs_f64(),
        classes: classes.collect(),
        dropped: dropped(totals),
        lags: totals.lags.iter().map(lag).collect(),
        uplink: RunUplink {
            observed_bps: totals.observed_rate.map(|rate| rate.get() as f64),
            waits: totals.uplink_waits,
            overdrawn_turns: totals.overdrawn,
            ahead_max_s: totals.ahead_max.as_secs_f64(),
        },
        receive: path.map(|path| received(path, totals)),
        conservation,
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

/// The lost packets beyond those that the kernel's devices count as dropped.
fn lost(totals: &Totals) -> QdiscDrops {
    QdiscDrops { packets: totals.lost.saturating_sub(counted(totals)) }
}

/// The drops before the rings, from the kernel's counters.
fn counted(totals: &Totals) -> u64 {
    totals.drops.backlog + totals.drops.ring_full
}

/// The packets dropped so far, by reason.
pub(super) fn dropped(totals: &Totals) -> RunDrops {
    RunDrops {
        refused: totals.sum(|c| c.refused).packets.get(),
        ring_full: totals.drops.ring_full + totals.sum(|c| c.full).packets.get(),
        backlog: totals.drops.backlog,
        bound: totals.sum(|c| c.bound).packets.get(),
        moving: totals.sum(|c| c.moving).packets.get(),
        stray: totals.unannounced_drops + totals.obscured_drops,
        uplink: totals.uplink_dropped,
        lost: lost(totals).packets,
    }
}
