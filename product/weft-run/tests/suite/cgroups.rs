//! The class of a cgroup follows a restarted service, on real packets.

use core::num::NonZeroU32;
use std::time::{Duration, Instant};
use weft_host::testing::{PATIENCE, privileged, unique, until, wait_for};
use weft_host::{Cgroup, Hierarchy, Spawn, link};
use weft_nic::doorbell::CgroupEntry;
use weft_nic::nic::{NicConfig, NicPlan, SoftwareNic};
use weft_nic::plan::Mode;
use weft_nic::testbed::{RECEIVER, Testbed};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::{CompileOptions, Source, compile};
use weft_run::cgroups::{Follower, REST, entries, watch};
use weft_units::{BitsPerSec, Nanos};

/// The number of datagrams per start of the service.
const DATAGRAMS: u64 = 20;

/// Packets posted for the service and for all others.
fn posted(nic: &SoftwareNic) -> (u64, u64) {
    let totals = nic.totals().expect("totals");
    (totals.classes[0].posted.packets.get(), totals.classes[1].posted.packets.get())
}

/// Starts the service in `cgroup`; a second later it sends.
fn run_service(bed: &Testbed, cgroup: &Cgroup) {
    let script = format!("sleep 1; for i in $(seq {DATAGRAMS}); do echo $i > /dev/udp/{RECEIVER}/6000; done");
    let mut service =
        Spawn::new("bash").args(["-c", &script]).netns(&bed.sender).cgroup(cgroup).start().expect("bash");
    assert!(service.wait().expect("end").success());
}

/// A NIC whose policy names the cgroup `service` below `slice`, which does not exist yet, and the thread that follows it.
fn followed(role: &str, slice: &Cgroup) -> (Testbed, SoftwareNic, Follower) {
    let name = slice.path().file_name().and_then(|name| name.to_str()).expect("name").to_owned();
    let text = format!(
        "class s = cgroup \"/{name}/service\"\nl = limit 5mbps of s\nroot = priority {{ l, default }}"
    );
    let source = Source { name: "test", text: &text };
    let policy = compile(source, &CompileOptions::default()).policy.expect("policy");
    let bed = Testbed::create(role).expect("testbed");
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
    (bed, nic, follower)
}

#[test]
fn a_service_that_starts_again_keeps_its_class() {
    if !privileged("a_service_that_starts_again_keeps_its_class") {
        return;
    }
    let hierarchy = Hierarchy::detect().expect("cgroup2");
    let slice = hierarchy.create(&unique("slice")).expect("slice");
    let (bed, nic, follower) = followed("cgf", &slice);
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

/// Makes and removes the cgroup `name` below `slice` many times. Returns the most looks that may come of it: one for each
/// interval that has passed, however slow the machine is, and one at either end.
fn churn(slice: &Cgroup, name: &str) -> u64 {
    let (path, begun) = (slice.path().join(name), Instant::now());
    for _ in 0..10_000 {
        std::fs::create_dir(&path).expect("made");
        std::fs::remove_dir(&path).expect("removed");
    }
    (begun.elapsed().as_nanos() / REST.as_nanos()) as u64 + 2
}

#[test]
fn a_storm_of_directories_costs_a_bounded_number_of_looks_and_changes() {
    if !privileged("a_storm_of_directories_costs_a_bounded_number_of_looks_and_changes") {
        return;
    }
    let hierarchy = Hierarchy::detect().expect("cgroup2");
    let slice = hierarchy.create(&unique("slice")).expect("slice");
    let (_bed, nic, follower) = followed("cgs", &slice);
    let table = nic.cgroups();
    let count = || (follower.looks(), table.generation());
    for (name, is_named) in [("unrelated", false), ("service", true)] {
        let before = count();
        let most = churn(&slice, name);
        let after = count();
        let (looks, changes) = (after.0 - before.0, (after.1 - before.1) / 2);
        println!("{name}: {looks} looks and {changes} changes of at most {most}");
        assert!(looks <= most, "{name}: {looks} looks of at most {most}");
        assert!(
            changes <= if is_named { looks + 1 } else { 0 },
            "{name}: {changes} changes in {looks} looks"
        );
    }
    // What comes after the storm is found.
    let before = table.generation();
    let service = slice.child("service").expect("cgroup");
    // The first look that began after the cgroup was made has ended.
    let from = follower.looks();
    let _ = until(PATIENCE, || follower.looks() >= from + 2);
    let known = table.generation();
    assert_ne!(known, before, "the cgroup that remains");
    // Its own number once more is no change.
    let place = service.place().expect("place");
    let level = place.level.unwrap_or(CgroupEntry::ANY_LEVEL);
    table.set(0, Some(CgroupEntry { id: place.id, level })).expect("set");
    assert_eq!(table.generation(), known);
}
