//! The example files, and the meaning of short files.

use super::read_alone;
use std::path::{Path, PathBuf};
use weft_policy::FileError;
use weft_sim::cost::{CostCategory, CostedOperation, Costs};
use weft_sim::scenario::{
    ByteQueueLimit, FlowTraffic, QdiscKind, ReceiveSteering, Scenario, SchedulerKind, Topology, read, write,
};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// A folder of the repository.
pub(super) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// The example files with their texts.
pub(super) fn examples() -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(folder("experiments/scenarios")).expect("the folder is there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).expect("a text"))).collect()
}

/// Reads an example, with its cost file from the disk.
fn example(path: &Path, text: &str) -> Scenario {
    let mut costs = |name: &str| {
        std::fs::read_to_string(path.with_file_name(name))
            .map_err(|error| FileError::Unreadable(format!("{name}: {error}")))
    };
    read(text, &path.display().to_string(), &mut costs).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_example_reads_and_is_written_back() {
    let examples = examples();
    assert!(examples.len() >= 5, "{}", examples.len());
    for (path, text) in examples {
        let scenario = example(&path, &text);
        assert_eq!(Some(scenario.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        assert_eq!(read_alone(&write(&scenario)), Ok(scenario), "{}", path.display());
        assert!(text.starts_with('#'), "{} says what it is", path.display());
    }
}

#[test]
fn examples_say_what_their_comments_say() {
    let named = |name: &str| {
        let path = folder("experiments/scenarios").join(name);
        example(&path, &std::fs::read_to_string(&path).expect("a text"))
    };
    let titan = named("titan-12-flows.toml");
    assert_eq!(
        (titan.flows[0].count, titan.hosts[0].nic.transmit_queues, titan.hosts[1].stack.xps),
        (12, 8, false)
    );
    let incast = named("incast.toml");
    assert_eq!((incast.hosts.len(), incast.flows.len(), incast.network.topology), (9, 8, Topology::Star));
    assert!(incast.flows.iter().enumerate().all(|(i, flow)| flow.from == i as u32 && flow.to == 8));
    let fabric = named("dctcp-leaf-spine.toml");
    assert_eq!(fabric.network.switch.ecn_threshold, Some(Bytes(65 * 1500)));
    assert_eq!(fabric.network.trunk_rate, BitsPerSec(40_000_000_000));
    let udp = named("udp-fq-codel.toml");
    let traffic = FlowTraffic::Udp { size: Bytes(1472), rate: BitsPerSec(9_000_000_000), poisson: false };
    assert_eq!(udp.flows[0].traffic, traffic);
    assert_eq!((&udp.hosts[0].stack.qdisc, udp.hosts[0].nic.transmit_queues), (&QdiscKind::FqCodel, 1));
    let requests = named("request-response.toml");
    assert_eq!((requests.flows[0].class, requests.flows[1].class, requests.probes[0].core), (0, 1, Some(0)));
}

#[test]
fn one_line_is_a_scenario() {
    let scenario = read_alone("[[flows]]\n").expect("all the rest has defaults");
    assert_eq!((scenario.name.as_str(), scenario.hosts.len(), scenario.flows.len()), ("a", 2, 1));
    assert_eq!(
        (scenario.flows[0].from, scenario.flows[0].to, scenario.flows[0].name.as_str()),
        (0, 1, "flows-0")
    );
    assert_eq!((scenario.classes.as_slice(), scenario.costs), (&["default".to_owned()][..], Costs::FREE));
}

#[test]
fn hosts_are_the_usual_one_with_what_their_entry_changes() {
    let text = r#"
        [network]
        topology = "star"
        rate = "25gbps"
        [host]
        cores = 4
        [host.stack]
        mtu = "9000"
        [[hosts]]
        cores = 2
        [[hosts]]
        count = 2
        [hosts.nic]
        transmit_queues = "per-flow"
        [[hosts]]
        index = 5
        [hosts.stack]
        bql = "256KB"
        small_queue = "off"
        [[flows]]
        to = 5
    "#;
    let scenario = read_alone(text).expect("fits");
    let cores: Vec<u32> = scenario.hosts.iter().map(|host| host.cores).collect();
    let queues: Vec<u32> = scenario.hosts.iter().map(|host| host.nic.transmit_queues).collect();
    assert_eq!((cores, queues), (vec![2, 4, 4, 4, 4, 4], vec![8, 0, 0, 8, 8, 8]));
    assert!(scenario.hosts.iter().all(|host| host.stack.mtu == Bytes(9000)));
    let last = &scenario.hosts[5].stack;
    assert_eq!((last.byte_queue_limit, last.small_queue), (ByteQueueLimit::Fixed(Bytes(256_000)), None));
    assert_eq!(scenario.network.trunk_rate, BitsPerSec(25_000_000_000), "as the hosts' links");
}

#[test]
fn choices_read_in_both_forms() {
    let text = r#"
        [host.stack]
        qdisc = { tbf = { rate = "5gbps", burst = "128KiB" } }
        policy = """
        class a = any
        """
        [host.nic]
        scheduler = "policy"
        receive_steering = "away-from-application"
        [[hosts]]
        [hosts.nic]
        scheduler = { dcb = { strict = true } }
        [hosts.stack]
        qdisc = "drr+prio+sfq"
        policy = "off"
        [[flows]]
        traffic = "request-response"
        stop = "1s"
        [[flows]]
        traffic = { short = { size = "10KB", interval = "2ms" } }
    "#;
    let scenario = read_alone(text).expect("fits");
    let [first, second] = &scenario.hosts[..] else { panic!("two hosts") };
    assert_eq!(first.nic.scheduler, SchedulerKind::Dcb { classes: 8, strict: true });
    assert_eq!(
        (&first.stack.qdisc, &first.stack.policy),
        (&QdiscKind::DrrPrioSfq { quantum: Bytes(1514) }, &None)
    );
    let tbf = QdiscKind::Tbf { rate: BitsPerSec(5_000_000_000), burst: Bytes(128 << 10) };
    assert_eq!((&second.nic.scheduler, &second.stack.qdisc), (&SchedulerKind::PolicyTree, &tbf));
    assert!(second.stack.policy.as_ref().is_some_and(|policy| policy.contains("class a = any\n")));
    assert_eq!(second.nic.receive_steering, ReceiveSteering::AwayFromApplication);
    assert_eq!((scenario.flows[0].stop, scenario.flows[1].stop), (Nanos::from_secs(1), Nanos::MAX));
    let short = FlowTraffic::Short { size: Bytes(10_000), interval: Nanos::from_millis(2) };
    assert_eq!(scenario.flows[1].traffic, short);
}

#[test]
fn the_free_cost_file_is_free_and_names_every_operation() {
    let text = std::fs::read_to_string(folder("experiments/costs/free.toml")).expect("the file is there");
    assert_eq!(Costs::read(&text, "free.toml"), Ok(Costs::FREE));
    for operation in CostedOperation::ALL {
        assert!(text.contains(&format!("[{}]\n", operation.name())), "{} is missing", operation.name());
    }
}

#[test]
fn costs_land_in_their_cells() {
    let text = r#"
        [copy_in_byte]
        data_copy = 0.25
        [interrupt]
        etc = 900
        sched = 100
        [contention]
        miss_max = 0.5
        numa_factor = 1.5
        [processor]
        factor = 2.0
        [[source]]
        keys = ["copy_in_byte", "interrupt", "contention.miss_max", "contention.numa_factor", "processor.factor"]
        assumed = "a guess for this test"
    "#;
    let costs = Costs::read(text, "c.toml").expect("right");
    assert_eq!(costs.table[CostedOperation::CopyIn as usize][CostCategory::DataCopy as usize], 0.5);
    assert_eq!(costs.table[CostedOperation::Interrupt as usize][CostCategory::Other as usize], 1800.0);
    assert_eq!((costs.total(CostedOperation::Interrupt), costs.total(CostedOperation::Poll)), (2000.0, 0.0));
    assert_eq!((costs.contention.miss_max, costs.contention.numa_factor), (0.5, 1.5));
    assert_eq!((costs.contention.miss_factor, costs.contention.lock_transfer_ns), (1.0, 0.0));
}
