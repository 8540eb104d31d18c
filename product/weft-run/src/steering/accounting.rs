//! The accounting of the receive side: packets and bytes at every stage, in = out + dropped + held.
//!
//! The kernel counts packets that enter the wire and that the host receives, and the NIC counts those in between. Held
//! packets are counted by emptying the queues at the end.

use weft_facts::record::{Balance, Conservation, Stage};
use weft_nic::receive::ReceiveTotals;
use weft_units::{Counted, Packets};

/// Computes the accounting of a receive side that has stopped.
///
/// The kernel's devices do not count the bytes of a VLAN tag kept outside the frame. With tagged packets, the wire's
/// bytes may therefore not balance.
pub fn conservation(totals: &ReceiveTotals) -> Conservation {
    let none = Counted::default();
    let full = totals.wire_drops.ring_full;
    // A device counts dropped packets but not their bytes; if it dropped any, the missing bytes are theirs.
    let missing = totals.wire.saturating_sub(totals.read).bytes;
    let on_wire = Counted { packets: Packets(full), bytes: if full > 0 { missing } else { none.bytes } };
    let arrived = totals.total(|queue| queue.arrived);
    let full_queue = totals.total(|queue| queue.dropped);
    let delivered = totals.total(|queue| queue.delivered);
    let refused = totals.total(|queue| queue.refused);
    let held = totals.total(|queue| queue.left);
    let unsteered = (totals.runts + totals.filtered) + totals.misrouted;
    let stage = |name: &str, balance| Stage { name: name.to_owned(), balance };
    let mut stages = vec![
        stage("wire", Balance::of(totals.wire, totals.read, on_wire, none)),
        stage("steering", Balance::of(totals.read, arrived, unsteered, none)),
    ];
    for (number, queue) in totals.queues.iter().enumerate() {
        let dropped = queue.dropped + queue.refused;
        let accounting = Balance::of(queue.arrived, queue.delivered, dropped, queue.left);
        stages.push(stage(&format!("receive queue {number}"), accounting));
    }
    stages.push(stage("host", Balance::of(delivered, totals.host, none, none)));
    let back = totals.rx.saturating_sub(totals.rx_refused);
    stages.push(stage("replies", Balance::of(totals.rx, back, totals.rx_refused, none)));
    let reasons = [
        ("the wire's ring was full", on_wire),
        ("dropped by a rule, or with nowhere to go", totals.filtered),
        ("no Ethernet header", totals.runts),
        ("steered to a queue that the NIC does not have", totals.misrouted),
        ("a receive queue was full", full_queue),
        ("refused by the host", refused),
    ];
    let dropped = reasons.iter().map(|(_, count)| *count).sum();
    Conservation {
        total: Balance::of(totals.wire, totals.host, dropped, held),
        drops: reasons
            .iter()
            .filter(|(_, count)| *count != none)
            .map(|(reason, count)| ((*reason).to_owned(), *count))
            .collect(),
        stages,
        ..Conservation::default()
    }
}
