//! The totals of a run as a document.

use std::time::Duration;
use weft_nic::nic::Totals;
use weft_report::record::Document;
use weft_report::run::{RunClass, RunReport};

use crate::host_facts;
use crate::ledger::{QdiscDrops, conservation};

/// The document of a run that lasted `duration`.
pub(super) fn report(names: &[String], totals: &Totals, duration: Duration) -> RunReport {
    let classes = names.iter().zip(&totals.classes).map(|(name, c)| {
        // What rang and was neither fetched nor sent was dropped by the kernel on its way to the ring.
        let dropped = c.rung.minus(c.fetched).plus(c.refused);
        RunClass {
            class: name.clone(),
            packets: c.sent.packets.get(),
            bytes: c.sent.bytes.get(),
            dropped_packets: dropped.packets.get(),
            dropped_bytes: dropped.bytes.get(),
        }
    });
    let conservation = conservation(totals, never_came(totals));
    RunReport {
        schema: RunReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        duration_s: duration.as_secs_f64(),
        classes: classes.collect(),
        conservation,
    }
}

/// Packets whose bell rang and that never came, beyond those that the kernel's devices count as dropped: a host's own
/// traffic has some that no counter knows, sent before the link had its carrier, or multicast to which nobody listens.
fn never_came(totals: &Totals) -> QdiscDrops {
    let counted = totals.drops.backlog + totals.drops.ring_full;
    QdiscDrops { packets: totals.never_came.saturating_sub(counted) }
}
