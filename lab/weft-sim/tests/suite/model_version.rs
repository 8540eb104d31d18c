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
    ("titan-12-flows", 0x183a_19b4_262e_c588),
    ("incast", 0x9c4c_fdcd_9042_8756),
    ("dctcp-leaf-spine", 0xe4cd_4c65_a1df_0be9),
    ("udp-fq-codel", 0xae56_9aa6_8d02_39c6),
    ("request-response", 0xdab6_7196_89d2_42e0),
    ("loom-doorbells", 0xed2c_3389_ebcd_ce83),
    ("memcached", 0x6571_b9b1_b2ae_ea38),
    ("hoststack", 0x1eee_9ff7_1ffd_d87e),
    ("veth", 0x946a_634f_456c_e6fa),
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
