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
    RunReport {
        schema: RunReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        duration_s: duration.as_secs_f64(),
        classes: classes.collect(),
        conservation: conservation(totals, QdiscDrops::default()),
    }
}
