//! Ports in a row leave no descriptor and no mapping. A separate program: other tests' would be counted with them.

#[path = "suite/common/mod.rs"]
#[allow(dead_code, reason = "it uses a part")]
mod common;

use common::{GRACE, World, finish};
use std::time::Instant;
use weft_host::NetNs;
use weft_host::link;
use weft_host::testing::privileged;
use weft_run::session::{PortSettings, PortShare};

const FAIR: &str = "root = fair of default";

/// The open descriptors, and the memory mappings, of this process.
fn held() -> (usize, usize) {
    let fds = std::fs::read_dir("/proc/self/fd").expect("fds").count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    (fds, maps.lines().filter(|line| line.contains("bpf-map")).count())
}

/// The ports added and removed in a row: a thousand take minutes.
fn rounds() -> u32 {
    std::env::var("WEFT_PORT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(50)
}

#[test]
fn ports_in_a_row_leave_nothing() {
    if !privileged("ports_in_a_row_leave_nothing") {
        return;
    }
    let world = World::new();
    let mut session = world.session(FAIR, 500);
    let app = common::add_namespace();
    let settings = PortSettings { share: PortShare { rings: 8, flows: 64, spare: 0 }, ..world.port(&app, 0) };
    let mut before = None;
    let start = Instant::now();
    for round in 0..rounds() {
        session.add_port(&settings).unwrap_or_else(|error| panic!("round {round}: {error}"));
        session.remove_port("p0", GRACE).expect("removed");
        let now = held();
        let (fds, maps) = *before.get_or_insert(now);
        assert!(now.0 <= fds + 4 && now.1 <= maps, "round {round}: {now:?} after {fds}, {maps}");
    }
    println!("{} ports in {:?}", rounds(), start.elapsed());
    let links = |ns: &NetNs| link::list(ns).expect("links").len();
    assert_eq!((links(&app), links(&world.host)), (1, 2), "only lo, and the uplink's interface");
    finish(session);
}
