//! Twins with shapers at nodes, and Loom's figures on which they fail (NSDI 2019, sections 3.2 and 4.2).
//!
//! A twin is a link below one node that orders classes strictly. Some classes share a limit without a burst.

use super::run::{Arrival, Both, arrivals};
use super::tree::Limit;
use super::tree::Tree::{Class, Limited, Priority};

/// A rate of 80 Mb/s without a burst: 1000 bytes take 100 us.
const LIMIT: Limit = (80_000_000, 0);
/// The nanoseconds that a byte takes at [`LIMIT`].
const PER_BYTE: u64 = 100;

/// The place of the shaper.
enum Shaper {
    /// Before the node's parent, as in PIFO (SIGCOMM 2016, section 2.3): a packet joins the order of its node at once, and a reference to
    /// the node joins the parent's when the limit lets the packet go. Each turn of the parent takes the first packet of the node.
    OfReferences,
    /// Behind the node: a packet that has won its turn waits in the shaper, and joins the parent's FIFO when the limit lets it go.
    OfPackets,
}

/// What the node has waiting, by class, and the time from which the limit lets a packet go.
struct Twin<'a> {
    order: &'a [&'a str],
    limited: &'a [&'a str],
    free: u64,
    node: Vec<Arrival>,
}

impl Twin<'_> {
    fn first(&mut self) -> Option<Arrival> {
        let place = |arrival: &Arrival| self.order.iter().position(|class| *class == arrival.class);
        let first = (0..self.node.len()).min_by_key(|at| (place(&self.node[*at]), *at))?;
        Some(self.node.remove(first))
    }

    /// The time at which the limit lets a packet go.
    fn release(&mut self, packet: &Arrival, now: u64) -> u64 {
        if !self.limited.contains(&packet.class.as_str()) {
            return now;
        }
        let release = self.free.max(now);
        self.free = release + packet.len * PER_BYTE;
        release
    }
}

/// The packets in the order in which they leave a twin, with the times at which transmissions begin. The link has 8 Gb/s.
fn leave(shaper: &Shaper, (order, limited): (&[&str], &[&str]), text: &str) -> Vec<(String, u64)> {
    let mut twin = Twin { order, limited, free: 0, node: Vec::new() };
    let all = arrivals(text);
    let (mut coming, mut departures, mut now) = (all.iter().peekable(), Vec::new(), 0);
    // References to the node, or packets behind it, by the time from which they are in the parent's FIFO.
    let mut references: Vec<u64> = Vec::new();
    let mut behind: Vec<(u64, Arrival)> = Vec::new();
    loop {
        while let Some(arrival) = coming.next_if(|arrival| arrival.at <= now) {
            if matches!(shaper, Shaper::OfReferences) {
                references.push(twin.release(arrival, arrival.at));
            }
            twin.node.push(arrival.clone());
        }
        if matches!(shaper, Shaper::OfPackets) {
            while let Some(first) = twin.first() {
                behind.push((twin.release(&first, now), first));
            }
        }
        references.sort_unstable();
        behind.sort_by_key(|(release, _)| *release);
        let packet = match (references.first(), behind.first()) {
            (Some(time), _) if *time <= now => {
                references.remove(0);
                twin.first()
            }
            (_, Some((time, _))) if *time <= now => Some(behind.remove(0).1),
            _ => None,
        };
        let waiting = references.first().copied().into_iter().chain(behind.first().map(|(time, _)| *time));
        match (packet, waiting.chain(coming.peek().map(|arrival| arrival.at)).min()) {
            (Some(packet), _) => {
                departures.push((packet.name, now));
                now += packet.len;
            }
            (None, Some(next)) => now = next.max(now),
            (None, None) => return departures,
        }
    }
}

fn expected(order: &[(&str, u64)]) -> Vec<(String, u64)> {
    order.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect()
}

fn d2() -> super::tree::Tree {
    Limited(LIMIT, Box::new(Class("D2")))
}

#[test]
fn figure_5_a_shaper_behind_a_node_undoes_its_order() {
    let text = "packet A1 1000 class A\npacket B1 1000 class B at 100ns\npacket A2 1000 class A at 50us";
    let mut built = Priority(vec![Class("A"), Class("B")]).build();
    built.limit(LIMIT, &["A", "B"]);
    let right = expected(&[("A1", 0), ("A2", 100_000), ("B1", 200_000)]);
    assert_eq!(Both::new(&built).run(&arrivals(text), |_, _| {}), right);
    let wrong = expected(&[("A1", 0), ("B1", 100_000), ("A2", 200_000)]);
    assert_eq!(leave(&Shaper::OfPackets, (&["A", "B"], &["A", "B"]), text), wrong);
}

#[test]
fn figure_6_a_shaper_of_references_holds_the_wrong_packet() {
    let text =
        "packet D2a 1000 class D2\npacket D1 1000 class D1 at 500ns\npacket D2b 1000 class D2 at 600ns";
    let built = Priority(vec![d2(), Class("D1")]).build();
    let right = expected(&[("D2a", 0), ("D1", 1000), ("D2b", 100_000)]);
    assert_eq!(Both::new(&built).run(&arrivals(text), |_, _| {}), right);
    let wrong = expected(&[("D2a", 0), ("D2b", 1000), ("D1", 100_000)]);
    assert_eq!(leave(&Shaper::OfReferences, (&["D2", "D1"], &["D2"]), text), wrong);
}

#[test]
fn figure_8_what_is_urgent_passes_what_a_limit_holds_only_in_a_shaping_queue_of_its_own() {
    let text = "packet D2a 1000 class D2\npacket D2b 1000 class D2 at 600ns\npacket D1 1000 class D1 at 700ns
                packet E1 1000 class E at 99900ns\npacket E2 1000 class E at 99950ns";
    let order = ["E", "D2", "D1"];
    let built = Priority(vec![Class("E"), d2(), Class("D1")]).build();
    let right = expected(&[("D2a", 0), ("D1", 1000), ("E1", 99_900), ("E2", 100_900), ("D2b", 101_900)]);
    assert_eq!(Both::new(&built).run(&arrivals(text), |_, _| {}), right);
    let references = leave(&Shaper::OfReferences, (&order, &["D2"]), text);
    assert_eq!(references[1], ("D2b".to_owned(), 1000), "above its limit");
    assert_eq!(references.last(), Some(&("D1".to_owned(), 101_900)), "and D1 waits for the limit of D2");
    let packets = leave(&Shaper::OfPackets, (&order, &["D2"]), text);
    let wrong = expected(&[("E1", 99_900), ("D2b", 100_900), ("E2", 101_900)]);
    assert_eq!(packets[2..], wrong, "what left the order early passes what is urgent");
}

#[test]
fn without_a_limit_the_twins_are_the_engine() {
    let text = "packet B1 B2 1000 class B\npacket A1 1000 class A at 500ns\npacket A2 1000 class A at 9us";
    let right = Both::new(&Priority(vec![Class("A"), Class("B")]).build()).run(&arrivals(text), |_, _| {});
    assert_eq!(leave(&Shaper::OfReferences, (&["A", "B"], &[]), text), right);
}
