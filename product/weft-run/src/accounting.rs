//! The accounting of a software NIC: packets and bytes at every stage, in = out + dropped + held.
//!
//! | stage | in | out | dropped | held |
//! |---|---|---|---|---|
//! | port to far end | posted | arrived at the far end | qdisc at the port, backlog full | |
//! | descriptor rings | arrived at the far end | fetched | ring full | |
//! | engine and segmentation | fetched | sent | refused by the uplink | left in rings |
//! | uplink | writes | arrived at the device | dropped by the device | |
//! | receive thread | read | written | refused by the port | |
//! | receive | read, redirected | delivered to the port | refused, dropped before the port | |
//!
//! The two sides of each equation are counted by different code, and the drops by a third: the eBPF program at the egress
//! counts what is posted, the one at the far end what arrives, the transmit worker what it fetches and sends, and the kernel's
//! devices and qdiscs what they drop. In the receive direction, the thread and the eBPF program count what enters, and the
//! port's device what is delivered. Held packets are counted by removing them from the rings at the end. Nothing is computed
//! as the rest: a packet that is missing and that no counter of the kernel explains stays missing, and the stage does not
//! balance ([`Conservation::violations`]). So does a packet too many, such as one that no doorbell announced.
//!
//! Packets and bytes have one rule on both sides (bpf/gso.h): what a read from a ring will return. A port without a count at
//! its far end ([`Arrivals`](weft_nic::nic::Arrivals)) has the first two stages as one.
//!
//! The kernel's devices count dropped packets but not their bytes. A stage with such drops is listed in
//! [`Conservation::uncounted_bytes`]: its missing bytes are attributed to the drops, so there the equation is checked for
//! packets only. The bytes of the other stages are checked as ever, those behind the far end among them. A super-packet that
//! the kernel cuts before the ring is several packets, and its drop is counted once; [`PortTotals::cut`](weft_nic::nic::PortTotals::cut) bounds what such drops
//! may explain.
//!
//! The module is a pure function of the totals. It counts nothing itself, and has no branch that drops a packet.

use weft_facts::record::{Balance, Conservation, Stage};
use weft_nic::nic::Totals;
use weft_units::{Bytes, Counted, Packets};

/// The stages, in the order of the path.
pub const STAGES: [&str; 6] =
    [FAR_END, RINGS, "engine and segmentation", "uplink", "receive thread", "receive"];
const FAR_END: &str = "port to far end";
const RINGS: &str = "descriptor rings";

fn stage((name, balance): (&str, Balance)) -> Stage {
    Stage { name: name.to_owned(), balance }
}

/// The drops of a stage whose device counts packets but not bytes. If it dropped any, the missing bytes are attributed
/// to them, and the stage is listed in [`Conservation::uncounted_bytes`]. Otherwise missing bytes stay missing.
fn dropped_on_the_way(packets: u64, entered: Counted, left: Counted) -> Counted {
    let missing = entered.saturating_sub(left).bytes;
    Counted { packets: Packets(packets), bytes: if packets > 0 { missing } else { Bytes::ZERO } }
}

/// The received packets that are counted at both ends: not those behind a token bucket, which cuts super-packets.
fn counted(totals: &Totals) -> Counted {
    totals.received().saturating_sub(totals.rx_limited)
}

/// The received packets that did not reach the port: refused by it, or dropped by the kernel on the way. Two counters of
/// the kernel may overlap, so they bound the number.
pub(crate) fn undelivered(totals: &Totals) -> Counted {
    let refused = totals.rx_refused;
    let (entered, left) = (counted(totals).saturating_sub(refused), totals.rx_delivered);
    let bounds = totals.rx_dropped.bounds(refused.packets.get());
    let missing = entered.saturating_sub(left).packets.get().clamp(*bounds.start(), *bounds.end());
    refused + dropped_on_the_way(missing, entered, left)
}

/// The posted packets that reached no ring and that no counter of the kernel explains, by the worker, which gives a packet up a
/// fifth of a second after its doorbell: for a NIC that runs.
pub(crate) fn unexplained(totals: &Totals) -> u64 {
    totals.lost.saturating_sub(explained(totals.drops.total(), totals))
}

/// The greatest number of packets that `drops` of the kernel explain. It counts a super-packet once, and one that a full ring has
/// no room for not at all (`tap_handle_frame`, drivers/net/tap.c). Only rings without a bound, of a NIC without classes, are ever
/// full.
fn explained(drops: u64, totals: &Totals) -> u64 {
    let may_be_cut = drops > 0 || totals.arrivals.unseen_ports > 0;
    drops + if may_be_cut { totals.cut } else { 0 }
}

/// A stretch between the port's egress and its rings, and the kernel's counters of what it dropped there, by name.
struct Stretch {
    name: &'static str,
    entered: Counted,
    left: Counted,
    counters: Vec<(&'static str, u64)>,
}

impl Stretch {
    /// The stretches of the path to the rings.
    fn all(totals: &Totals) -> Vec<Self> {
        let (posted, fetched) = (totals.sum(|c| c.posted), totals.sum(|c| c.fetched));
        let of = totals.drops;
        let before = vec![("the port's qdisc", of.qdisc), ("the receive backlog", of.backlog)];
        let at_ring = ("the rings", of.ring_full);
        if totals.arrivals.unseen_ports > 0 {
            let counters = before.into_iter().chain([at_ring]).collect();
            return vec![Self { name: RINGS, entered: posted, left: fetched, counters }];
        }
        let arrived = totals.arrivals.count;
        vec![
            Self { name: FAR_END, entered: posted, left: arrived, counters: before },
            Self { name: RINGS, entered: arrived, left: fetched, counters: vec![at_ring] },
        ]
    }

    /// The packets missing at its end, and how many of them the kernel's counters explain.
    fn missing(&self, totals: &Totals) -> (u64, u64) {
        let missing = self.entered.saturating_sub(self.left).packets.get();
        let counted = self.counters.iter().map(|(_, packets)| packets).sum();
        (missing, missing.min(explained(counted, totals)))
    }

    fn dropped(&self, totals: &Totals) -> Counted {
        dropped_on_the_way(self.missing(totals).1, self.entered, self.left)
    }

    /// The sentence on the packets missing without an explanation, with the counters that were read.
    fn complaint(&self, totals: &Totals) -> Option<String> {
        let (missing, explained) = self.missing(totals);
        let read = self.counters.iter().map(|(name, packets)| format!("{name} {packets}"));
        (missing > explained).then(|| {
            format!(
                "{}: {} packets are missing that no counter of the kernel explains (drops read: {})",
                self.name,
                missing - explained,
                read.collect::<Vec<_>>().join(", ")
            )
        })
    }
}

/// Computes the accounting from the totals of a NIC that has stopped.
pub fn conservation(totals: &Totals) -> Conservation {
    let stretches = Stretch::all(totals);
    let [fetched, sent] = [totals.sum(|c| c.fetched), totals.sum(|c| c.sent)];
    let [refused, held] = [totals.sum(|c| c.refused), totals.sum(|c| c.held)];
    let on_wire = dropped_on_the_way(totals.uplink_dropped, totals.uplink_writes, totals.uplink_arrived);
    let none = Counted::default();
    let before =
        stretches.iter().map(|of| (of.name, Balance::of(of.entered, of.left, of.dropped(totals), none)));
    let mut stages: Vec<Stage> = before.map(stage).collect();
    let [_, _, engine, uplink, thread, receive] = STAGES;
    stages.push(stage((engine, Balance::of(fetched, sent, refused, held))));
    stages.push(stage((uplink, Balance::of(totals.uplink_writes, totals.uplink_arrived, on_wire, none))));
    // No stage where the kernel has carried all.
    if totals.rx_redirected == none || totals.rx + totals.rx_passed != none {
        // In by the result of the reads, out by that of the writes.
        stages.push(stage((thread, Balance::of(totals.rx, totals.rx_passed, totals.rx_refused, none))));
    }
    let undelivered = undelivered(totals);
    stages.push(stage((receive, Balance::of(counted(totals), totals.rx_delivered, undelivered, none))));
    let lost: Counted = stretches.iter().map(|of| of.dropped(totals)).sum();
    let uncounted = stretches.iter().map(|of| (of.name, of.dropped(totals).packets)).chain([
        (uplink, on_wire.packets),
        (receive, undelivered.packets - totals.rx_refused.packets),
        ("total", lost.packets),
    ]);
    let reasons = [
        ("lost between doorbell and ring (qdisc, ring or backlog full)", lost),
        ("refused by the uplink", refused),
    ];
    let strays = (totals.events.strays > Packets(0))
        .then(|| format!("{RINGS}: {} packets came without a doorbell", totals.events.strays.get()));
    Conservation {
        total: Balance::of(totals.sum(|c| c.posted), sent, lost + refused, held),
        drops: reasons
            .into_iter()
            .filter(|(_, d)| d.packets > Packets(0))
            .map(|(reason, d)| (reason.to_owned(), d))
            .collect(),
        stages,
        uncounted_bytes: uncounted
            .filter(|(_, packets)| *packets > Packets(0))
            .map(|(stage, _)| stage.to_owned())
            .collect(),
        unexplained: stretches.iter().filter_map(|of| of.complaint(totals)).chain(strays).collect(),
    }
}

#[cfg(test)]
mod tests;
