//! Small shuffles on real packets, and the cleanup when one is stopped.

use super::error::ShuffleError;
use super::run::{ShuffleOutcome, run};
use super::settings::{ShuffleConfig, ShuffleSettings};
use core::cell::Cell;
use weft_units::{BitsPerSec, Bytes};

fn small(config: ShuffleConfig) -> ShuffleSettings {
    ShuffleSettings {
        config,
        servers: 3,
        transfer: Bytes(200_000),
        rate: BitsPerSec(50_000_000),
        ..ShuffleSettings::default()
    }
}

/// The shuffles' namespaces of this process.
fn namespaces() -> Vec<String> {
    let prefix = weft_host::RunId::current().name("shf");
    let entries = std::fs::read_dir(weft_host::netns::NETNS_DIR).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&prefix)).collect()
}

#[test]
fn every_server_sends_to_every_other_in_every_configuration() {
    if !weft_host::testing::privileged("every_server_sends_to_every_other_in_every_configuration") {
        return;
    }
    let _alone = weft_host::testing::alone();
    for config in ShuffleConfig::ALL {
        let shares = Cell::new(0.0);
        let mut progress = |share| {
            assert!((shares.get()..=1.0).contains(&share), "{share} after {}", shares.get());
            shares.set(share);
        };
        let outcome: ShuffleOutcome = run(&small(config), &|| false, &mut progress).expect("a shuffle");
        let flows: Vec<usize> = outcome.completions.iter().map(Vec::len).collect();
        assert_eq!(flows, [2, 2, 2], "{config}");
        // A server's 400 KB take 64 ms at 50 Mb/s, of which the NIC's clock may catch up 50 ms.
        let slowest = outcome.slowest().expect("flows");
        assert!(slowest > 0.014, "{config}: {slowest} s is faster than the link");
        assert!(outcome.spreads().iter().all(|spread| *spread < slowest), "{outcome:?}");
        assert_eq!(namespaces(), Vec::<String>::new(), "{config}");
    }
}

#[test]
fn a_stopped_shuffle_leaves_nothing() {
    if !weft_host::testing::privileged("a_stopped_shuffle_leaves_nothing") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let begun = Cell::new(false);
    let long = ShuffleSettings { transfer: Bytes(1_000_000_000), ..small(ShuffleConfig::Titan) };
    let stopped = || begun.get();
    let mut progress = |share| begun.set(share > 0.0);
    let error = run(&long, &stopped, &mut progress).expect_err("stopped");
    assert!(begun.get() && matches!(error, ShuffleError::Stopped), "{error}");
    assert_eq!(namespaces(), Vec::<String>::new());
}
