//! Configurations: the specification's example, ours, and those that are refused.

use super::*;
use std::path::Path;
use weft_units::BitsPerSec;

/// The plugin configuration that a runtime derives from the example in the specification, section 1, for its plugin
/// `bridge`, with `weft` in its place.
const EXAMPLE: &str = r#"{
  "cniVersion": "1.1.0", "name": "dbnet", "type": "weft",
  "ipam": { "type": "host-local", "subnet": "10.1.0.0/16", "gateway": "10.1.0.1",
            "routes": [ { "dst": "0.0.0.0/0" } ] },
  "dns": { "nameservers": [ "10.1.0.1" ] },
  "args": { "labels" : { "appVersion" : "1.0" } },
  "capabilities": { "bandwidth": true, "mac": true },
  "runtimeConfig": { "mac": "00:11:22:33:44:66",
    "bandwidth": { "ingressRate": 2048000, "ingressBurst": 1600000, "egressRate": 4096000, "egressBurst": 1600000 } }
}"#;

#[test]
fn the_specifications_example_is_read() {
    let config = PluginConfig::read(EXAMPLE.as_bytes()).expect("valid");
    assert_eq!((config.version, config.network.as_str()), (Version::V1_1_0, "dbnet"));
    assert_eq!((config.role, config.ipam.as_deref()), (PluginRole::Port, Some("host-local")));
    assert_eq!(config.mac.map(|m| m.to_string()).as_deref(), Some("00:11:22:33:44:66"));
    let (ingress, egress) =
        (config.bandwidth.ingress.expect("a limit"), config.bandwidth.egress.expect("a limit"));
    assert_eq!((ingress.rate, egress.rate), (BitsPerSec(2_048_000), BitsPerSec(4_096_000)));
    assert_eq!(config.socket, PathBuf::from(SOCKET));
}

#[test]
fn a_chained_configuration_is_read() {
    let text = r#"{ "cniVersion": "0.4.0", "name": "n", "type": "weft", "mark": "0x10/0xff", "socket": "/run/x",
        "prevResult": { "interfaces": [] } }"#;
    let config = PluginConfig::read(text.as_bytes()).expect("valid");
    assert_eq!(config.mark, Some(Mark { value: 0x10, mask: 0xff }));
    assert_eq!(config.role, PluginRole::Chained);
    assert!(config.previous.is_some() && config.socket == Path::new("/run/x"));
}

#[test]
fn the_attachments_that_gc_keeps_are_read() {
    let text = r#"{ "cniVersion": "1.1.0", "name": "n", "type": "weft",
        "cni.dev/valid-attachments": [ { "containerID": "a", "ifname": "eth0" } ] }"#;
    let valid = PluginConfig::read(text.as_bytes()).expect("valid").valid.expect("a list");
    assert_eq!(valid, [Attachment { container: "a".to_owned(), interface: "eth0".to_owned() }]);
}

/// The code of the error of a configuration with `more` keys.
fn code(more: &str) -> u32 {
    let text = format!(r#"{{ "cniVersion": "1.1.0", "name": "n", "type": "weft", {more} }}"#);
    PluginConfig::read(text.as_bytes()).expect_err(more).code
}

#[test]
fn invalid_values_are_refused() {
    for (more, expected) in [
        (r#""mark": "0x100/0xff""#, 7),
        (r#""mark": "gold""#, 7),
        (r#""mark": -1"#, 7),
        (r#""mark": 1, "ipam": { "type": "host-local" }"#, 7),
        (r#""port": "a b""#, 7),
        (r#""port": """#, 7),
        (r#""socket": 7"#, 7),
        (r#""ipam": []"#, 7),
        (r#""ipam": { "type": "../x" }"#, 7),
        (r#""runtimeConfig": { "mac": "zz" }"#, 7),
        (r#""runtimeConfig": { "bandwidth": { "egressRate": -5 } }"#, 7),
        (r#""cni.dev/valid-attachments": [ {} ]"#, 7),
        (r#""sockett": "/run/x""#, 2),
    ] {
        assert_eq!(code(more), expected, "{more}");
    }
}

#[test]
fn texts_that_are_no_configuration_are_refused() {
    for (text, expected) in [
        ("", 6),
        ("[]", 6),
        ("{ \"cniVersion\": ", 6),
        (r#"{ "name": "n", "type": "weft" }"#, 1),
        (r#"{ "cniVersion": "9.0.0", "name": "n" }"#, 1),
        (r#"{ "cniVersion": "1.1.0", "type": "weft" }"#, 7),
        (r#"{ "cniVersion": "1.1.0", "name": "-n" }"#, 7),
    ] {
        assert_eq!(PluginConfig::read(text.as_bytes()).expect_err(text).code, expected, "{text}");
    }
}

#[test]
fn an_error_has_the_version_of_its_configuration() {
    assert_eq!(version_of(br#"{ "cniVersion": "0.4.0", "name": 7 }"#), Version::V0_4_0);
    assert_eq!(version_of(b"no JSON"), Version::V1_1_0);
}

#[test]
fn keys_of_runtimes_are_left_alone() {
    let text = r#"{ "cniVersion": "1.1.0", "name": "n", "type": "weft", "loadOnlyInlinedPlugins": true,
        "io.kubernetes.cri/pod": {} }"#;
    assert!(PluginConfig::read(text.as_bytes()).is_ok());
}
