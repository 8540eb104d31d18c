//! A change that one of two workers refuses, at a NIC with real ports.

use super::*;
use crate::nic::PortParts;
use crate::plan::Mode;
use crate::port::{Port, PortConfig, Uplink};
use crate::testbed::{Testbed, WIRE};
use crate::worker::{ExchangeError, SegmentsPerTurn};
use core::num::{NonZeroU32, NonZeroUsize};
use weft_host::Mac;
use weft_host::testing::privileged;
use weft_policy::{CompileOptions, Source, compile};
use weft_sched::ChangeError;

const BEFORE: &str = "class a = udp and port 7000\nclass b = udp and port 7001\nroot = wfq { fair of a: 1, fair of b: 2, fair of default: 1 }\n";
const AFTER: &str =
    "class a = udp and port 7000\nbound 77 packets of a\nroot = wfq { fair of a: 1, fair of default: 1 }\n";

fn policy(text: &str) -> CompiledPolicy {
    let compilation = compile(Source { name: "test", text }, &CompileOptions::default());
    compilation.policy.expect("a policy without errors")
}

fn two_workers(bed: &Testbed) -> SoftwareNic {
    let config = NicConfig {
        mode: Mode::Loom,
        rate: BitsPerSec(100_000_000),
        link: LinkKind::Emulated,
        segments_per_turn: SegmentsPerTurn::AtMost(NonZeroU32::MIN),
        catch_up: Nanos::from_millis(50),
        window: Nanos::from_millis(50),
        cgroups: Vec::new(),
        flows: Vec::new(),
        rings: 16,
        departures: None,
    };
    let plan = NicPlan::new(&policy(BEFORE), config).expect("plan");
    let plan = plan.with_workers(NonZeroUsize::new(2).expect("two")).expect("two workers");
    let (rings, of_port) = (plan.ring_count(), plan.rings().clone());
    let uplink = Uplink::tap(&bed.receiver, WIRE).expect("uplink");
    let mut nic = SoftwareNic::start_without_port(plan, uplink).expect("nic");
    let port = bed.port(rings, 100, true).expect("first port");
    nic.add_port(PortParts { port, plan: of_port.clone(), receive: None }).expect("first");
    let (app, own, name, mac) = (&bed.sender, &bed.nic, "port1", Mac::local(7));
    let config = PortConfig { app, nic: own, name, mac, rings, ring_packets: 100, single_backlog: true };
    let port = Port::create(&config).expect("second port");
    let receive = Some(Uplink::tap(&bed.nic, "rx1").expect("a device to receive"));
    nic.add_port(PortParts { port, plan: of_port, receive }).expect("second");
    nic
}

/// The changes that each worker made.
fn changes(nic: &SoftwareNic) -> Vec<u64> {
    nic.counters.0.iter().map(|counters| counters.changes.get().packets.get()).collect()
}

/// The lanes of each port, as the programs at the ports read them.
fn lanes(nic: &SoftwareNic) -> Vec<Vec<u8>> {
    let of_port = |port: &NicPort| {
        let maps = port.doorbells.own_maps().expect("maps");
        let (_, map) = maps.into_iter().find(|(name, _)| *name == "lanes").expect("lanes");
        let entry = |lane: u32| map.lookup(&lane.to_ne_bytes()).expect("an array").expect("an element");
        (0..port.plan.lanes.len() as u32).flat_map(entry).collect()
    };
    nic.ports.iter().map(of_port).collect()
}

#[test]
fn a_change_that_one_worker_refuses_is_made_by_none() {
    if !privileged("a_change_that_one_worker_refuses_is_made_by_none") {
        return;
    }
    let bed = Testbed::create("wkr").expect("testbed");
    let mut nic = two_workers(&bed);
    let link = (BitsPerSec(100_000_000), LinkKind::Emulated);
    let (rings, before) = (nic.plan().rings().lanes.len(), lanes(&nic));
    for refusing in [0, 1] {
        let mut prepared = nic.prepare_policy(&policy(AFTER), link).expect("prepared");
        // Its rings of the class that goes would belong to no class.
        let program = &prepared.new.whole.program;
        prepared.programs[refusing] = PolicyTree::prepare(program, &[], 64).expect("a program");
        let refused = nic.change_policy(prepared, &[]).expect_err("one refuses");
        let no_heir = matches!(&refused, NicError::Exchange(ExchangeError::Tree(ChangeError::NoHeir { .. })));
        assert!(no_heir, "{refused}");
        assert_eq!((changes(&nic), nic.generation()), (vec![0, 0], 0));
        assert_eq!(nic.plan().rings().lanes.len(), rings, "the plan is that of before");
        assert!(lanes(&nic) == before, "the ports have the lanes, and the bounds, of before");
    }
    let prepared = nic.prepare_policy(&policy(AFTER), link).expect("prepared");
    nic.change_policy(prepared, &[]).expect("all agree");
    assert_eq!((changes(&nic), nic.generation()), (vec![1, 1], 1));
    assert!(lanes(&nic) != before, "the bound of a class has changed");
    nic.stop(Nanos::ZERO).expect("stop");
}
