//! `weft steer verify` as a user runs it.

use crate::common::{assert_head, flow_list, json, run, weft_without_rights};
use weft_host::testing::privileged;

#[test]
fn packets_go_where_the_plan_says() {
    if !privileged("packets_go_where_the_plan_says") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let flows = flow_list(&folder);
    let path = folder.path().join("seen.json");
    let args = ["steer", "verify", "--nic", "igb", "--flows", &flows, "--policy", "balance"];
    let said = run(&[&args[..], &["--packets", "4", "--json", path.to_str().expect("UTF-8")]].concat());
    assert_eq!(said.code, 0, "{said:?}");
    let seen = json(&path);
    assert_head(&seen, "weft-steer-verify/1");
    assert_eq!(seen["ok"], true);
    for flow in seen["flows"].as_array().expect("flows") {
        let counted = flow["counted"].as_object().expect("queues");
        let packets: u64 = counted.values().filter_map(serde_json::Value::as_u64).sum();
        assert_eq!(packets, 4, "{flow}");
    }
}

#[test]
fn verifying_without_rights_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("folder");
    let flows = flow_list(&folder);
    let said = weft_without_rights()
        .args(["steer", "verify", "--nic", "igb", "--flows", &flows, "--policy", "balance"])
        .output()
        .expect("start weft");
    assert_eq!(said.status.code(), Some(1));
    let err = String::from_utf8_lossy(&said.stderr);
    assert!(err.contains("CAP_NET_ADMIN") || err.contains("root"), "{err}");
}
