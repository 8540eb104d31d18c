//! The version of the model: it changes whenever an outcome does, since stored results of one version are not made again.

use std::path::Path;
use weft_policy::FileError;
use weft_sim::MODEL_VERSION;
use weft_sim::run::simulate;
use weft_sim::scenario::{self, Scenario};
use weft_units::Nanos;

/// The version of the digests below.
const VERSION: u32 = 2;

/// Shipped scenarios, and the digests of their outcomes over a short time with seed 1.
const REFERENCE: [(&str, u64); 9] = [
    ("titan-12-flows", 0x2989_73d1_0e76_c4b6),
    ("incast", 0x1719_b681_08b8_e790),
    ("dctcp-leaf-spine", 0x302f_707b_f013_2585),
    ("udp-fq-codel", 0x60c7_a866_247c_8424),
    ("request-response", 0xd4f4_86cc_9430_b5c6),
    ("loom-doorbells", 0x21da_14db_376c_cfa1),
    ("memcached", 0x8691_3591_c5b0_a6b8),
    ("hoststack", 0xc452_528a_f975_c697),
    ("veth", 0xa709_07bc_9bd4_5d05),
];

/// FNV-1a with 64 bits.
fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn shipped(name: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/scenarios");
    let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).expect(name);
    let mut files = |path: &str| {
        std::fs::read_to_string(folder.join(path)).map_err(|error| FileError::Unreadable(error.to_string()))
    };
    let mut scenario = scenario::read(&text, name, &mut files).expect(name);
    scenario.warm_up = scenario.warm_up.min(Nanos::from_millis(5));
    scenario.duration = scenario.duration.min(Nanos::from_millis(20));
    scenario
}

#[test]
fn outcomes_are_those_of_the_version() {
    let now: Vec<(&str, u64)> = REFERENCE
        .iter()
        .map(|(name, _)| {
            let outcome = simulate(&shipped(name), 1).expect(name);
            assert!(outcome.events > 1000, "{name}: {} events", outcome.events);
            (*name, digest(&format!("{outcome:?}")))
        })
        .collect();
    let said = now.iter().map(|(name, digest)| format!("    (\"{name}\", {digest:#018x}),\n"));
    assert!(
        now == REFERENCE && VERSION == MODEL_VERSION,
        "outcomes have changed: raise MODEL_VERSION in lab/weft-sim/src/lib.rs, and write here VERSION = MODEL_VERSION and\n{}",
        said.collect::<String>()
    );
}
