//! Candidates, ranking and verdict of `weft tune` on invented hosts whose answer is known.

use std::collections::BTreeMap;
use weft_experiments::catalogue::overlay::KeyedValue;
use weft_experiments::tune::{QDISCS, TuneError, TuneOptions, TuneStep, Tuned, run};
use weft_facts::record::Host;
use weft_host::ethtool::{Limited, Moderation};
use weft_host::tc::EgressKinds;
use weft_host::transmit::{ByteLimits, Facts, Segments};
use weft_report::tune::{Conclusion, Wish};
use weft_sim::scenario;
use weft_units::{BitsPerSec, Bytes, Nanos, Packets};

/// An invented host: a NIC of 1 Gb/s with `queues` queues and a FIFO at each, in a kernel with every qdisc.
fn host(queues: u32) -> Facts {
    let each = if queues > 1 { vec!["pfifo_fast".to_owned(); queues as usize] } else { Vec::new() };
    let root = if queues > 1 { "mq" } else { "pfifo_fast" };
    Facts {
        device: "eth0".to_owned(),
        driver: Some("invented".to_owned()),
        kind: Some(String::new()),
        mtu: Some(Bytes(1500)),
        rate: Some(BitsPerSec(1_000_000_000)),
        transmit_queues: Some(queues),
        receive_queues: Some(queues),
        channels: Some(Limited { count: queues, max: 8 }),
        qdiscs: Some(EgressKinds { root: root.to_owned(), queues: each }),
        byte_limits: Some(ByteLimits::Dynamic { limit: Bytes(30_280), most: Bytes(1 << 30) }),
        segments: Some(Segments { size: Bytes(65_536), packets: Packets(65_535) }),
        tso: Some(true),
        gro: Some(true),
        xps: Some(false),
        moderation: Some(Moderation { rx: Nanos::from_micros(50), tx: Nanos::ZERO }),
        small_queue: Some(Bytes(4 << 20)),
        congestion_control: Some("cubic".to_owned()),
        send_buffer: Some(Bytes(4 << 20)),
        receive_buffer: Some(Bytes(6 << 20)),
        processors: Some(4),
        numa_nodes: Some(1),
        queue_weights: Some(false),
        kernel_qdiscs: QDISCS.iter().map(|kind| ((*kind).to_owned(), Some(true))).collect(),
        ..Facts::default()
    }
}

fn options(wish: Wish, sets: &[&str]) -> TuneOptions {
    TuneOptions {
        wish,
        rate: None,
        flows: None,
        sets: sets.iter().map(|set| KeyedValue::parse(set).expect("a setting")).collect(),
        machine: None,
        seeds: 4,
        seed: 1,
        threads: 2,
        try_best: None,
    }
}

fn advice(facts: &Facts, options: &TuneOptions) -> Result<Tuned, TuneError> {
    run(facts, options, Host::default(), &|| false, &mut |_| ())
}

const SHORT: [&str; 3] = ["duration=200ms", "fairness_intervals=[\"200ms\"]", "warm_up=50ms"];
const SHORTEST: [&str; 3] = ["duration=5ms", "fairness_intervals=[\"5ms\"]", "warm_up=1ms"];

/// Twenty flows in one FIFO of a megabyte of small queues each: a small message waits behind all of them, and fair queueing takes it out
/// of its turn.
#[test]
fn fair_queueing_wins_where_a_fifo_holds_many_flows() {
    let asked = TuneOptions { flows: Some(20), ..options(Wish::Latency, &SHORT) };
    let mut steps = Vec::new();
    let tuned =
        run(&host(1), &asked, Host::default(), &|| false, &mut |step| steps.push(step)).expect("advice");
    let report = tuned.report;
    let verdict = &report.verdict;
    assert_eq!(verdict.conclusion, Conclusion::Advice, "{verdict:?}");
    let best = report.ranked().next().expect("a candidate");
    let ranks: Vec<&str> = report.ranked().map(|one| one.name.as_str()).collect();
    assert!(["fq_codel", "sfq", "sfq-bql-interrupts"].contains(&best.name.as_str()), "{ranks:?}");
    assert!(best.commands[0].starts_with("tc qdisc replace dev eth0 root "), "{:?}", best.commands);
    let absent = |name: &str| {
        report.candidates.iter().find(|one| one.name == name).expect("listed").not_simulated.clone()
    };
    assert_eq!(absent("dqa").as_deref(), Some("the device has one transmit queue"));
    assert_eq!(absent("pfifo_fast").as_deref(), Some("it is the present setting"));
    assert!(absent("fq").is_some_and(|why| why.contains("no pacing by fq")));
    // The steps are counted to their end.
    let last = steps.last().expect("steps");
    assert!(matches!(last, TuneStep::Simulated { done, of } if done == of), "{last:?}");
    // The scenario reads no other file.
    let text = tuned.scenario.expect("a scenario");
    let mut none = |path: &str| Err(weft_policy::FileError::Unreadable(path.to_owned()));
    let read = scenario::read(&text, "tune.toml", &mut none).expect("reads back");
    assert_eq!((read.flows[0].count, read.hosts[0].nic.transmit_queues), (20, 1));
    assert_eq!(read.hosts[0].stack.small_queue, Some(Bytes(4 << 20)));
}

/// One flow on a link that is slower than its processors: every setting fills the link.
#[test]
fn settings_that_are_all_alike_are_not_told_apart() {
    let asked = TuneOptions { flows: Some(1), ..options(Wish::Throughput, &SHORT) };
    let sets = ["host.stack.small_queue=256KiB", "host.stack.tso=false", "host.stack.gso=16KiB"];
    let asked =
        TuneOptions { sets: [&asked.sets[..], &options(Wish::Fairness, &sets).sets].concat(), ..asked };
    let report = advice(&host(1), &asked).expect("a report").report;
    assert_eq!(report.verdict.conclusion, Conclusion::DoesNotKnow, "{:?}", report.verdict);
    assert!(report.verdict.because.contains("tells none apart"), "{:?}", report.verdict);
}

#[test]
fn what_decides_and_is_unknown_ends_it_before_a_run() {
    let nothing = Facts { device: "eth0".to_owned(), ..Facts::default() };
    let mut ran = false;
    let all = options(Wish::Processor, &[]);
    let tuned = run(&nothing, &all, Host::default(), &|| false, &mut |_| ran = true).expect("a report");
    assert!(!ran && tuned.scenario.is_none());
    assert_eq!(tuned.report.verdict.conclusion, Conclusion::DoesNotKnow);
    for missing in ["rate of the link", "qdisc", "congestion control", "transmit queues", "--machine FILE"] {
        assert!(
            tuned.report.unknown.iter().any(|one| one.contains(missing)),
            "{missing}: {:?}",
            tuned.report.unknown
        );
    }
    assert!(tuned.report.facts.iter().all(|fact| fact.value.is_none()), "{:?}", tuned.report.facts);
    let unknown = |facts: &Facts, sets: &[&str]| {
        let asked = TuneOptions {
            seeds: 1,
            flows: Some(1),
            ..options(Wish::Fairness, &[&SHORTEST[..], sets].concat())
        };
        advice(facts, &asked).expect("a report").report.unknown
    };
    assert_eq!(unknown(&host(2), &[]), Vec::<String>::new());
    for (facts, missing, set) in [
        (
            Facts { congestion_control: Some("bbr".to_owned()), ..host(2) },
            "bbr",
            "host.stack.congestion_control=cubic",
        ),
        (Facts { qdiscs: None, ..host(2) }, "qdisc", "host.stack.qdisc=fq_codel"),
        (Facts { qdiscs: host(1).qdiscs, ..host(2) }, "before several queues", "host.stack.qdisc=fq_codel"),
        (Facts { rate: None, kind: Some("veth".to_owned()), ..host(2) }, "has no wire", "network.rate=1gbps"),
    ] {
        let found = unknown(&facts, &[]);
        assert!(found.len() == 1 && found[0].contains(missing), "{found:?}");
        assert_eq!(unknown(&facts, &[set]), Vec::<String>::new());
    }
}

#[test]
fn a_setting_of_the_user_s_that_does_not_fit_is_an_error() {
    let wrong = advice(&host(1), &options(Wish::Fairness, &["host.stack.qdisc=cake"])).expect_err("refused");
    assert!(wrong.to_string().contains("cake"), "{wrong}");
    let wrong = advice(&host(1), &options(Wish::Fairness, &["probes.7.size=1KB"])).expect_err("refused");
    assert!(wrong.to_string().contains("probes.7"), "{wrong}");
    let stopped = run(&host(1), &options(Wish::Fairness, &SHORT), Host::default(), &|| true, &mut |_| ());
    assert!(matches!(stopped, Err(TuneError::Stopped)));
}

/// Each candidate is in the guide; it has a source and a command with the file's number, or the reason that it is not simulated.
#[test]
fn candidates_have_sources_commands_and_a_place_in_the_guide() {
    let text = |name: &str| {
        let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let guide = text("docs/tune.md");
    let file: toml::Table = text("experiments/tune.toml").parse().expect("TOML");
    let configurations = file["configurations"].as_table().expect("configurations");
    let asked = TuneOptions { seeds: 1, flows: Some(1), ..options(Wish::Fairness, &SHORTEST) };
    let of = |facts: &Facts| advice(facts, &asked).expect("a report").report.candidates;
    let candidates = of(&host(8));
    for one in &candidates {
        let name = one.name.as_str();
        assert!(
            one.present || guide.contains(&format!("| `{name}` |")),
            "docs/tune.md does not name `{name}`"
        );
        assert!(one.ranking.is_empty() == one.not_simulated.is_some(), "{one:?}");
        let Some(settings) = configurations.get(name).filter(|_| !one.present) else {
            assert!(one.present || one.not_simulated.is_some(), "{name} has no configuration");
            continue;
        };
        assert!(!one.source.is_empty() && !one.commands.is_empty(), "{name}");
        for (key, value) in settings.as_table().expect("settings") {
            let size = value.as_str().and_then(|text| text.parse::<Bytes>().ok());
            let Some(size) = size.filter(|_| key != "host.stack.dynamic_segment") else { continue };
            let number = size.get().to_string();
            assert!(one.commands.iter().all(|command| command.contains(&number)), "{name}: {number}");
        }
    }
    let is_listed = |name: &String| candidates.iter().any(|one| one.name == *name);
    let unused: Vec<&String> = configurations.keys().filter(|name| !is_listed(name)).collect();
    assert!(unused.is_empty(), "{unused:?}");
    // What the facts forbid is reported, with the reason.
    let poor = Facts {
        kernel_qdiscs: BTreeMap::from([("fq_codel".to_owned(), Some(false))]),
        byte_limits: None,
        moderation: None,
        channels: None,
        ..host(2)
    };
    let candidates = of(&poor);
    for (name, reason) in [
        ("fq_codel", "this kernel has no fq_codel"),
        ("sfq", "unknown whether this kernel has sfq"),
        ("bql-64k", "unknown whether the driver has byte queue limits"),
        ("interrupts-50us", "does not report the moderation"),
        ("queue-per-processor", "does not report its channels"),
        ("dqa-weights", "no weights of queues"),
    ] {
        let one = candidates.iter().find(|one| one.name == name).expect("listed");
        assert!(one.not_simulated.as_ref().is_some_and(|why| why.contains(reason)), "{one:?}");
    }
}
