//! Traces of whole runs: each packet of the account is in them, once at each stage.

use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_sim::ids::HostId;
use weft_sim::outcome::RunOutcome;
use weft_sim::run::{simulate, simulate_observed};
use weft_sim::scenario::{Scenario, read};
use weft_sim::trace::departures::Group;
use weft_sim::trace::{DepartureTrace, Ends, Observer, PacketEvent, PacketEventKind, PerfettoTrace};
use weft_trace::table::TableFormat;
use weft_trace::testing::{self, Seen};

/// All traces of a run.
struct Both {
    perfetto: PerfettoTrace<Vec<u8>>,
    table: DepartureTrace<Vec<u8>>,
    kinds: BTreeMap<&'static str, u64>,
    /// Packets that are the last of their segments.
    last: u64,
    /// Bytes that came into rings and have not left them.
    in_rings: u64,
}

impl Observer for Both {
    fn packet(&mut self, event: &PacketEvent) {
        self.perfetto.packet(event);
        self.table.packet(event);
        *self.kinds.entry(event.kind.name()).or_default() += 1;
        if event.kind == PacketEventKind::Dropped && event.queue.is_some() {
            *self.kinds.entry("dropped by a qdisc").or_default() += 1;
        }
        if event.kind == PacketEventKind::Sent {
            assert!(event.created <= event.begin && event.begin < event.at, "{event:?}");
            self.last += u64::from(event.last);
        }
        match event.kind {
            PacketEventKind::Posted => self.in_rings += event.len.0,
            PacketEventKind::Fetched => self.in_rings -= event.len.0,
            _ => {}
        }
    }
}

struct Traced {
    outcome: RunOutcome,
    seen: Seen,
    rows: Vec<BTreeMap<String, String>>,
    kinds: BTreeMap<&'static str, u64>,
    last: u64,
    in_rings: u64,
}

fn scenario(text: &str) -> Scenario {
    let text = format!("warm_up = \"1ms\"\nduration = \"6ms\"\n{text}");
    read(&text, "way.toml", &mut |_| Ok(String::new())).unwrap_or_else(|error| panic!("{error}"))
}

fn traced(scenario: &Scenario, seed: u64) -> Traced {
    let groups: Vec<Group> = scenario
        .flows
        .iter()
        .map(|group| Group {
            name: group.name.clone(),
            ends: Ends { from: HostId(group.from), to: HostId(group.to), mss: 1460 },
        })
        .collect();
    let names = groups.iter().map(|group| group.name.clone()).collect();
    let both = Both {
        perfetto: PerfettoTrace::new(Vec::new(), names),
        table: DepartureTrace::new(Vec::new(), TableFormat::Csv, groups).expect("memory"),
        kinds: BTreeMap::new(),
        last: 0,
        in_rings: 0,
    };
    let (outcome, both) = simulate_observed(scenario, seed, both).expect("it runs");
    assert_eq!(outcome, simulate(scenario, seed).expect("it runs"), "looking changes nothing");
    let seen = testing::read(&both.perfetto.finish().expect("memory"));
    let (table, count) = both.table.finish().expect("memory");
    let mut reader = csv::Reader::from_reader(&table[..]);
    let rows: Vec<_> = reader.deserialize().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len() as u64, count);
    Traced { outcome, seen, rows, kinds: both.kinds, last: both.last, in_rings: both.in_rings }
}

/// Checks that each stage has a span for each entry, and all of a segment's spans are in one flow.
fn check(of: &Traced) {
    let kind = |name: &str| of.kinds.get(name).copied().unwrap_or_default();
    let spans = |name: &str| of.seen.on(name).len() as u64;
    let packets = of.outcome.counters.packets;
    assert_eq!((kind("sent"), kind("fetched"), spans("wire")), (packets, packets, packets));
    assert_eq!(of.rows.len() as u64, packets);
    // A segment: its qdisc, then its ring, then the NIC, and its socket as long as any of them.
    assert_eq!(spans("sockets"), kind("queued"));
    assert_eq!(spans("qdisc"), kind("queued"));
    assert_eq!(of.seen.flows().len() as u64, kind("queued"));
    assert!(spans("ring") <= kind("queued") - kind("dropped by a qdisc") && spans("NIC") <= spans("ring"));
    assert_eq!(spans("network"), kind("delivered"));
    assert_eq!(spans("drops"), kind("dropped"));
    assert!(of.seen.on("wire").iter().all(|span| span.flow.is_some()));
    // On a host's only wire one packet follows the other.
    let mut wires: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    of.seen.on("wire").iter().for_each(|span| wires.entry(span.track).or_default().push(span.times));
    for times in wires.values_mut() {
        times.sort_unstable();
        assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
    // The stages of a segment follow each other: where one ends, the next begins.
    let ends = |name: &str| -> BTreeMap<u64, (u64, u64)> {
        of.seen.on(name).iter().map(|span| (span.flow.expect("a flow"), span.times)).collect()
    };
    let [sockets, qdisc, ring, nic] = ["sockets", "qdisc", "ring", "NIC"].map(ends);
    for (flow, socket) in &sockets {
        assert_eq!(socket.0, qdisc[flow].0);
        if let Some(ring) = ring.get(flow) {
            assert_eq!(ring.0, qdisc[flow].1);
            assert!(nic.get(flow).is_none_or(|nic| nic.0 == ring.1 && nic.0 < nic.1));
        }
    }
    // A table of departures and the counters of a trace end with what is held.
    let sum =
        |column: &str| of.rows.iter().map(|row| row[column].parse::<u64>().expect("a number")).sum::<u64>();
    assert_eq!(sum("packets"), packets);
    assert_eq!(of.rows.iter().filter(|row| row["last"] == "true").count() as u64, of.last);
    let held = |stage: &str| -> u64 {
        of.outcome
            .balances
            .iter()
            .filter(|of| of.name.ends_with(stage))
            .map(|of| of.balance.held().bytes.0)
            .sum()
    };
    let backlog = |name: &str| -> u64 {
        let counters = of.seen.tracks.iter().filter(|(_, track)| track.0 == name).map(|(id, _)| id);
        counters.filter_map(|id| of.seen.counts.get(id)?.last()).map(|(_, value)| value).sum()
    };
    assert_eq!(backlog("qdisc backlog"), held(" qdiscs"));
    assert_eq!(backlog("ring backlog"), of.in_rings);
    assert!(of.in_rings <= held(" rings"), "a ring holds a segment until its last packet is fetched");
}

#[test]
fn each_packet_of_the_account_is_in_the_traces() {
    let texts = [
        "[[flows]]\ncount = 3\n[[probes]]\n",
        "[host.stack]\ntso = false\n[host.nic]\ntransmit_queues = 4\n[[flows]]\ncount = 6\n",
        "[host.stack]\nqdisc = \"fq_codel\"\n[host.nic]\ntransmit_queues = 2\n[[flows]]\ncount = 20\n",
        "[network]\nloss = 0.01\n[host.stack]\nqdisc = \"prio+sfq\"\n[[flows]]\ncount = 5\n[[probes]]\n",
    ];
    for text in texts {
        let traced = traced(&scenario(text), 1);
        assert!(traced.outcome.counters.packets > 100, "{text}");
        check(&traced);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn random_hosts_and_queues(
        flows in 1..24_u32,
        queues in 1..9_u32,
        qdisc in prop::sample::select(vec!["pfifo_fast", "prio+sfq", "fq_codel", "drr+prio+sfq"]),
        probes in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let probes = if probes { "[[probes]]\n" } else { "" };
        let text = format!(
            "[host.stack]\nqdisc = \"{qdisc}\"\n[host.nic]\ntransmit_queues = {queues}\n[[flows]]\ncount = {flows}\n{probes}"
        );
        check(&traced(&scenario(&text), seed.into()));
    }
}
