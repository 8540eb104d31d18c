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
    ("titan-12-flows", 0x9b59_523e_dc17_8a39),
    ("incast", 0x7085_6a9a_3520_df5f),
    ("dctcp-leaf-spine", 0x1d6e_3665_709f_9de2),
    ("udp-fq-codel", 0x2094_da65_ec8a_fbb9),
    ("request-response", 0x90f7_d312_3a01_863d),
    ("loom-doorbells", 0x7d0f_8c58_36b8_429c),
    ("memcached", 0xca98_3609_7646_ba75),
    ("hoststack", 0x1248_d2d4_d0e9_b03c),
    ("veth", 0x6b5e_a31b_d15e_728c),
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
