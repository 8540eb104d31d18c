//! `weft profile --attach` beside a daemon.

use crate::common::assert_fits;
use crate::common::service::Service;
use crate::common::world::{BYTES, FAR, transfer, wait_until_up};
use weft_host::testing::privileged;

#[test]
fn an_attached_profile_names_the_classes() {
    if !privileged("an_attached_profile_names_the_classes") {
        return;
    }
    let service = Service::new();
    let daemon = service.start();
    wait_until_up(&service.world.app, "weft0");
    let args = ["profile", "--attach", "--span", "1500ms", "--json", "-"];
    let said = std::thread::scope(|scope| {
        let profile = scope.spawn(|| service.client(&args));
        // The span begins when the profile has started, and lasts for several of these.
        while !profile.is_finished() {
            transfer(&service.world.app, &service.world.far, FAR);
        }
        profile.join().expect("joined")
    });
    let document: serde_json::Value = serde_json::from_str(&said.out).expect(&said.err);
    assert_fits(&document, "weft-profile-attached");
    let policy = &document["policies"][0];
    assert_eq!(policy["generation"], 1);
    let [web, idle] = [0, 1].map(|at| &policy["classes"][at]);
    assert_eq!((&web["class"], &idle["class"]), (&"web".into(), &"default".into()));
    assert!(web["bytes"].as_u64() > Some(BYTES as u64), "what it sent in the span: {policy}");
    // The process of this test has its namespace, and only its sockets the port's.
    assert!(policy["without_port_s"].as_f64() > Some(0.0), "{policy}");
    let rows = document["rows"].as_array().expect("rows");
    assert!(rows.iter().any(|row| row["kind"] == "weft" && row["name"] == "weft-transmit"), "{rows:?}");
    service.stop(daemon);
}
