//! The accounting of a software NIC: packets and bytes at every stage, in = out + dropped + held.
//!
//! | stage | in | out | dropped | held |
//! |---|---|---|---|---|
//! | descriptor rings | posted, strays | fetched | backlog or ring full, qdisc | |
//! | engine and segmentation | fetched | sent | refused by the uplink | left in rings |
//! | uplink | writes | arrived at the device | dropped by the device | |
//! | receive thread | read | written | refused by the port | |
//! | receive | read, redirected | delivered to the port | refused, dropped before the port | |
//!
//! The two sides of each equation are counted by different code. The eBPF program counts packets that enter, the
//! transmit worker those that leave, and the kernel's devices those dropped. In the receive direction, the thread and the
//! eBPF program count what enters, and the port's device what is delivered. Held packets are counted by removing them
//! from the rings at the end. A packet missing on one side therefore shows as a violation.
//!
//! The kernel's devices count dropped packets but not their bytes. A stage with such drops is listed in
//! [`Conservation::uncounted_bytes`]. Its missing bytes are attributed to the drops, so there the equation is checked
//! for packets only.
//!
//! The module is a pure function of the totals. It counts nothing itself, and has no branch that drops a packet.

use weft_nic::counters::Count;
use weft_nic::nic::Totals;
use weft_report::record::{Balance, Conservation, Drops, Stage};
use weft_units::{Bytes, Packets};

/// Drops outside the NIC's own devices that the caller knows: those of a qdisc on the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QdiscDrops {
    /// The number of packets.
    pub packets: u64,
}

fn balance(entered: Count, left: Count, dropped: Drops, held: Count) -> Balance {
    Balance {
        in_packets: entered.packets.get(),
        in_bytes: entered.bytes.get(),
        out_packets: left.packets.get(),
        out_bytes: left.bytes.get(),
        dropped_packets: dropped.packets,
        dropped_bytes: dropped.bytes,
        held_packets: held.packets.get(),
        held_bytes: held.bytes.get(),
    }
}

fn drops(count: Count) -> Drops {
    Drops { packets: count.packets.get(), bytes: count.bytes.get() }
}

/// The drops of a stage whose device counts packets but not bytes. If it dropped any, the missing bytes are attributed
/// to them, and the stage is listed in [`Conservation::uncounted_bytes`]. Otherwise missing bytes stay missing.
fn dropped_on_the_way(packets: u64, entered: Count, left: Count) -> Drops {
    let missing = entered.minus(left).bytes.get();
    Drops { packets, bytes: if packets > 0 { missing } else { 0 } }
}

/// The received packets that are counted at both ends: not those behind a token bucket, which cuts super-packets.
fn counted(totals: &Totals) -> Count {
    totals.received().minus(totals.rx_limited)
}

/// The received packets that did not reach the port: refused by it, or dropped by the kernel on the way. Two counters of
/// the kernel may overlap, so they bound the number.
pub(crate) fn undelivered(totals: &Totals) -> Drops {
    let refused = totals.rx_refused;
    let (entered, left) = (counted(totals).minus(refused), totals.rx_delivered);
    let bounds = totals.rx_dropped.bounds(refused.packets.get());
    let missing = entered.minus(left).packets.get().clamp(*bounds.start(), *bounds.end());
    let by_kernel = dropped_on_the_way(missing, entered, left);
    Drops { packets: refused.packets.get() + by_kernel.packets, bytes: refused.bytes.get() + by_kernel.bytes }
}

/// Computes the accounting from the totals.
pub fn conservation(totals: &Totals, qdisc: QdiscDrops) -> Conservation {
    let fetched = totals.sum(|c| c.fetched);
    // Strays entered too. If the kernel cut a packet after its doorbell, their bytes were announced with it. Otherwise
    // no doorbell announced them, and they are the bytes fetched beyond those posted.
    let announced = totals.sum(|c| c.posted);
    let beyond = if totals.strays > 0 { fetched.minus(announced).bytes } else { Bytes::ZERO };
    let posted = announced.plus(Count { packets: Packets(totals.strays), bytes: beyond });
    let sent = totals.sum(|c| c.sent);
    let refused = totals.sum(|c| c.refused);
    let held = totals.sum(|c| c.held);
    let by_kernel = totals.drops.backlog + totals.drops.ring_full + qdisc.packets;
    let lost = dropped_on_the_way(by_kernel, posted, fetched);
    let on_wire = dropped_on_the_way(totals.uplink_dropped, totals.uplink_writes, totals.uplink_arrived);
    let stage = |name: &str, balance| Stage { name: name.to_owned(), balance };
    let none = Count::default();
    let mut stages = vec![
        stage("descriptor rings", balance(posted, fetched, lost, none)),
        stage("engine and segmentation", balance(fetched, sent, drops(refused), held)),
        stage("uplink", balance(totals.uplink_writes, totals.uplink_arrived, on_wire, none)),
    ];
    // No stage where the kernel has carried all.
    if totals.rx_redirected == none || totals.rx.plus(totals.rx_passed) != none {
        // In by the result of the reads, out by that of the writes.
        stages.push(stage(
            "receive thread",
            balance(totals.rx, totals.rx_passed, drops(totals.rx_refused), none),
        ));
    }
    let undelivered = undelivered(totals);
    stages.push(stage("receive", balance(counted(totals), totals.rx_delivered, undelivered, none)));
    let uncounted = [
        ("descriptor rings", lost.packets + totals.strays),
        ("uplink", on_wire.packets),
        ("receive", undelivered.packets - totals.rx_refused.packets.get()),
        ("total", lost.packets + totals.strays),
    ];
    let total_dropped =
        Drops { packets: lost.packets + refused.packets.get(), bytes: lost.bytes + refused.bytes.get() };
    let reasons = [
        ("lost between doorbell and ring (ring or backlog full)", lost),
        ("refused by the uplink", drops(refused)),
    ];
    Conservation {
        total: balance(posted, sent, total_dropped, held),
        drops: reasons
            .into_iter()
            .filter(|(_, d)| d.packets > 0)
            .map(|(reason, d)| (reason.to_owned(), d))
            .collect(),
        stages,
        uncounted_bytes: uncounted
            .into_iter()
            .filter(|(_, packets)| *packets > 0)
            .map(|(stage, _)| stage.to_owned())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_nic::nic::ClassTotals;
    use weft_nic::port::PortDrops;

    fn count(packets: u64, bytes: u64) -> Count {
        Count { packets: Packets(packets), bytes: Bytes(bytes) }
    }

    /// Ten packets of 100 bytes that all left, and two received ones.
    fn totals() -> Totals {
        let ten = count(10, 1000);
        Totals {
            classes: vec![ClassTotals { posted: ten, fetched: ten, sent: ten, ..ClassTotals::default() }],
            uplink_writes: ten,
            uplink_arrived: ten,
            rx: count(2, 120),
            rx_passed: count(2, 120),
            rx_redirected: count(3, 300),
            rx_delivered: count(5, 420),
            ..Totals::default()
        }
    }

    fn violations(totals: &Totals) -> usize {
        conservation(totals, QdiscDrops::default()).violations().len()
    }

    #[test]
    fn what_one_side_did_not_count_is_seen() {
        assert_eq!(violations(&totals()), 0);
        let mut wrong = totals();
        wrong.rx_passed = count(2, 119);
        assert_eq!(violations(&wrong), 1, "a byte is missing on the way back");
        let mut wrong = totals();
        wrong.classes[0].posted = count(10, 1001);
        assert_eq!(violations(&wrong), 2, "a byte is missing before the ring, and in total");
        let mut wrong = totals();
        wrong.uplink_arrived = count(9, 900);
        assert_eq!(violations(&wrong), 1, "a packet that nobody dropped is missing on the uplink");
    }

    #[test]
    fn received_packets_are_counted_at_both_ends() {
        let violations = |edit: fn(&mut Totals)| {
            let mut totals = totals();
            edit(&mut totals);
            conservation(&totals, QdiscDrops::default()).violations().len()
        };
        assert_eq!(violations(|t| t.rx_redirected = count(4, 360)), 1, "redirected and never delivered");
        assert_eq!(violations(|t| t.rx_redirected = count(3, 299)), 1, "a byte too few redirected");
        assert_eq!(violations(|t| t.rx_delivered = count(5, 421)), 1, "a byte too many delivered");
        assert_eq!(violations(|t| t.rx_delivered = count(6, 420)), 1, "delivered twice");
        assert_eq!(violations(|t| t.rx_refused = count(1, 60)), 2, "refused and written too");
        assert_eq!(
            violations(|t| (t.rx, t.rx_passed) = (count(3, 180), count(3, 180))),
            1,
            "written, not delivered"
        );
    }

    #[test]
    fn received_packets_that_the_veth_dropped_are_known_by_number() {
        let mut dropped = totals();
        (dropped.rx_redirected, dropped.rx_dropped.veth) = (count(4, 1800), 1);
        let accounting = conservation(&dropped, QdiscDrops::default());
        assert_eq!(accounting.violations(), [""; 0]);
        assert_eq!(accounting.uncounted_bytes, ["receive"]);
        dropped.rx_dropped.macvtap = 1;
        assert_eq!(violations(&dropped), 0, "both count the same packet");
        dropped.rx_redirected = count(5, 1860);
        assert_eq!(violations(&dropped), 0, "or one each");
        dropped.rx_redirected = count(6, 1920);
        assert_eq!(violations(&dropped), 1, "more missing than dropped");
        (dropped.rx_redirected, dropped.rx_dropped.veth) = (count(4, 1800), 2);
        assert_eq!(violations(&dropped), 1, "more dropped than missing");
    }

    #[test]
    fn a_thread_without_work_is_no_stage() {
        let names = |totals: &Totals| {
            let stages = conservation(totals, QdiscDrops::default()).stages;
            stages
                .into_iter()
                .map(|stage| stage.name)
                .filter(|name| name.starts_with("receive"))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&totals()), ["receive thread", "receive"]);
        let nothing = count(0, 0);
        let kernel = Totals { rx: nothing, rx_passed: nothing, rx_delivered: count(3, 300), ..totals() };
        assert_eq!((names(&kernel), violations(&kernel)), (vec!["receive".to_owned()], 0));
    }

    #[test]
    fn bytes_that_the_kernel_did_not_count_are_not_claimed() {
        let mut dropped = totals();
        dropped.classes[0].posted = count(12, 1200);
        dropped.drops = PortDrops { ring_full: 2, backlog: 0 };
        let accounting = conservation(&dropped, QdiscDrops::default());
        assert_eq!(accounting.violations(), [""; 0]);
        assert_eq!(accounting.uncounted_bytes, ["descriptor rings", "total"]);
        // The bytes cannot belong to these numbers of packets: too few for two, and too many for none.
        dropped.classes[0].posted = count(12, 1020);
        assert_eq!(violations(&dropped), 2);
        dropped.classes[0].posted = count(12, 1000 + (3 << 20));
        assert_eq!(violations(&dropped), 2);
    }

    #[test]
    fn what_came_without_a_doorbell_is_in_the_accounting() {
        let mut strayed = totals();
        let eleven = count(11, 1060);
        strayed.classes[0].fetched = eleven;
        strayed.classes[0].sent = eleven;
        (strayed.uplink_writes, strayed.uplink_arrived) = (eleven, eleven);
        assert_ne!(violations(&strayed), 0);
        strayed.strays = 1;
        let accounting = conservation(&strayed, QdiscDrops::default());
        assert_eq!(accounting.violations(), [""; 0]);
        assert_eq!(accounting.uncounted_bytes, ["descriptor rings", "total"]);
        strayed.classes[0].posted = count(10, 1100);
        assert_ne!(violations(&strayed), 0, "more bytes posted than came, and nothing dropped");
    }
}
