//! Written scenarios read back equal.

use super::random::{Random, scenario};
use super::read_alone;
use std::collections::BTreeSet;
use weft_sim::scenario::{QdiscKind, Scenario, write};

/// Number of random scenarios.
const ROUNDS: u64 = 500;

#[test]
fn random_scenarios_read_back_as_they_were_written() {
    for seed in 0..ROUNDS {
        let scenario = scenario(&mut Random(seed));
        let text = write(&scenario);
        match read_alone(&text) {
            Ok(again) => assert_eq!(again, scenario, "seed {seed}:\n{text}"),
            Err(error) => panic!("seed {seed}: {error}\n{text}"),
        }
    }
}

/// Checks that the test above would notice a lost field: different scenarios are written differently.
#[test]
fn scenarios_that_differ_are_written_differently() {
    let one = scenario(&mut Random(1));
    let changes: [fn(&mut Scenario); 8] = [
        |s| s.seed ^= 1,
        |s| s.network.loss += 1e-15,
        |s| s.network.switch.alpha += 1.0,
        |s| s.hosts[0].nic.transmit_ring ^= 1,
        |s| s.flows[0].start.0 ^= 1,
        |s| s.files.values_mut().for_each(|text| text.push('#')),
        |s| s.hosts[0].stack.policy_file = Some("another".to_owned()),
        |s| s.costs.contention.miss_per_flow += 1e-15,
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut other = one.clone();
        change(&mut other);
        assert_ne!(write(&other), write(&one), "change {i}");
    }
}

/// Checks that random scenarios draw every kind of qdisc, so that each is read and written.
#[test]
fn random_scenarios_have_every_qdisc() {
    let hosts = (0..ROUNDS).flat_map(|seed| scenario(&mut Random(seed)).hosts);
    let drawn: BTreeSet<&str> = hosts.map(|host| host.stack.qdisc.name()).collect();
    assert_eq!(
        drawn,
        QdiscKind::NAMES.iter().copied().collect(),
        "tests/suite/scenario/random.rs, or QdiscKind::NAMES"
    );
}
