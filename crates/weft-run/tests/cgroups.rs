//! The class of a cgroup follows a restarted service, on real packets.

use core::num::NonZeroU32;
use std::time::{Duration, Instant};
use weft_host::testing::{PATIENCE, privileged, unique, wait_for};
use weft_host::{Cgroup, Hierarchy, Spawn, link};
use weft_nic::nic::{NicConfig, NicPlan, SoftwareNic};
use weft_nic::plan::Mode;
use weft_nic::testbed::{RECEIVER, Testbed};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::{CompileOptions, Source, compile};
use weft_run::cgroups::{Follower, entries, watch};
use weft_units::{BitsPerSec, Nanos};

/// The number of datagrams per start of the service.
const DATAGRAMS: u64 = 20;

/// Packets posted for the service and for all others.
fn posted(nic: &SoftwareNic) -> (u64, u64) {
    let classes = nic.totals().expect("totals").classes;
    (classes[0].posted.packets.get(), classes[1].posted.packets.get())
}

/// Starts the service in `cgroup`; a second later it sends.
fn run_service(bed: &Testbed, cgroup: &Cgroup) {
    let script = format!("sleep 1; for i in $(seq {DATAGRAMS}); do echo $i > /dev/udp/{RECEIVER}/6000; done");
    let mut service =
        Spawn::new("bash").args(["-c", &script]).netns(&bed.sender).cgroup(cgroup).start().expect("bash");
    assert!(service.wait().expect("end").success());
}

#[test]
fn a_service_that_starts_again_keeps_its_class() {
    if !privileged("a_service_that_starts_again_keeps_its_class") {
        return;
    }
    let hierarchy = Hierarchy::detect().expect("cgroup2");
    let slice = hierarchy.create(&unique("slice")).expect("slice");
    let name = slice.path().file_name().and_then(|name| name.to_str()).expect("name").to_owned();
    let text = format!(
        "class s = cgroup \"/{name}/service\"\nl = limit 5mbps of s\nroot = priority {{ l, default }}"
    );
    let source = Source { name: "test", text: &text };
    let policy = compile(source, &CompileOptions::default()).policy.expect("policy");
    let bed = Testbed::create("cgf").expect("testbed");
    // The service does not run yet.
    let watch = watch(&policy);
    assert_eq!(entries(&watch), [None]);
    let config = NicConfig {
        mode: Mode::Loom,
        rate: BitsPerSec(100_000_000),
        link: weft_nic::link::LinkKind::Emulated,
        segments_per_turn: SegmentsPerTurn::AtMost(NonZeroU32::MIN),
        catch_up: Nanos::from_millis(50),
        window: Nanos::from_millis(50),
        cgroups: entries(&watch),
        flows: Vec::new(),
        rings: 16,
        departures: None,
    };
    let plan = NicPlan::new(&policy, config).expect("plan");
    let (port, uplink) = bed.devices(plan.ring_count(), 1000).expect("devices");
    let nic = SoftwareNic::start(plan, port, uplink).expect("nic");
    bed.connect().expect("connect");
    for (ns, name) in [(&bed.sender, "port0"), (&bed.receiver, "wire0")] {
        link::wait_running(ns, name, Duration::from_secs(10)).expect("running");
    }
    let follower = Follower::start(watch, nic.cgroups()).expect("thread");
    for start in 1..=3 {
        let before = posted(&nic);
        let service = slice.child("service").expect("cgroup");
        run_service(&bed, &service);
        wait_for("the service's datagrams", || {
            posted(&nic).0 - before.0 + posted(&nic).1 - before.1 >= DATAGRAMS
        });
        let now = posted(&nic);
        assert_eq!((now.0 - before.0, now.1 - before.1), (DATAGRAMS, 0), "start {start}");
    }
    let begun = Instant::now();
    drop(follower);
    assert!(begun.elapsed() < PATIENCE, "its thread does not end");
}
