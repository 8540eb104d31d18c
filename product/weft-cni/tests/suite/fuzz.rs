//! Mutated configurations: nothing panics, and every error is an object of the specification.

use weft_cni::{config::PluginConfig, fuzz_cni};
use weft_packet::mutation::mutate;

/// Configurations and results from which mutation starts.
const CORPUS: [&str; 5] = [
    r#"{"cniVersion":"1.1.0","name":"dbnet","type":"weft","ipam":{"type":"host-local","subnet":"10.1.0.0/16"},"dns":{},
        "capabilities":{"bandwidth":true},"runtimeConfig":{"mac":"00:11:22:33:44:66","bandwidth":{"ingressRate":2048000,
        "ingressBurst":1600000,"egressRate":4096000,"egressBurst":2147483647}}}"#,
    r#"{"cniVersion":"0.4.0","name":"n","type":"weft","mark":"0x10/0xff","socket":"/run/x","prevResult":{"cniVersion":"0.4.0",
        "interfaces":[{"name":"veth0"},{"name":"eth0","sandbox":"/run/netns/x"}],
        "ips":[{"version":"4","address":"10.1.0.5/16","gateway":"10.1.0.1","interface":1}]}}"#,
    r#"{"cniVersion":"1.1.0","name":"n","type":"weft","port":"gold","cni.dev/valid-attachments":[{"containerID":"a","ifname":"eth0"}]}"#,
    r#"{"ips":[{"address":"fd00::5/64","gateway":"fd00::1"}],"routes":[{"dst":"::/0"},{"dst":"10.0.0.0/8","gw":"10.1.0.9"}]}"#,
    "/run/netns/x",
];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn mutated_configurations_never_panic() {
    let corpus = CORPUS.map(str::as_bytes);
    let (rounds, seed) = (setting("WEFT_FUZZ_ROUNDS", 20_000), setting("WEFT_FUZZ_SEED", 1));
    assert_eq!(mutate(seed, &corpus, rounds, fuzz_cni), Ok(()));
}

#[test]
fn the_loop_finds_a_fault_that_was_put_in() {
    let canary = |data: &[u8]| {
        let fault = PluginConfig::read(data).is_err_and(|error| error.message.contains("mark"));
        assert!(!fault, "as if the reader broke on an invalid mark");
    };
    assert!(mutate(1, &CORPUS.map(str::as_bytes), 20_000, canary).is_err(), "the canary must be found");
}
