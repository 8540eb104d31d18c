//! Namespaces are made, entered and removed.

use std::path::Path;

use weft_host::netns::{NETNS_DIR, NetNsError};
use weft_host::{NetNs, link, testing};

#[test]
fn a_named_namespace_is_seen_by_ip_and_gone_after_drop() {
    if !testing::privileged("a_named_namespace_is_seen_by_ip_and_gone_after_drop") {
        return;
    }
    let name = testing::unique("ns");
    let ns = NetNs::create(&name).expect("create");
    let path = Path::new(NETNS_DIR).join(&name);
    assert!(path.exists());
    assert!(matches!(NetNs::create(&name), Err(NetNsError::Exists(n)) if n == name));
    if testing::has_program("a_named_namespace_is_seen_by_ip_and_gone_after_drop", "ip") {
        let ip = weft_host::programs::find("ip").expect("it is there");
        let output = std::process::Command::new(ip).args(["netns", "list"]).output().expect("ip netns");
        assert!(String::from_utf8_lossy(&output.stdout).contains(&name));
    }
    let again = NetNs::named(&name).expect("named");
    assert_eq!(again.inode().expect("inode"), ns.inode().expect("inode"));
    assert_ne!(NetNs::current().expect("current").inode().expect("inode"), ns.inode().expect("inode"));
    let inside = ns.run(|| NetNs::current().and_then(|ns| ns.inode())).expect("run").expect("inode");
    assert_eq!(inside, ns.inode().expect("inode"));
    drop(again);
    assert!(path.exists(), "an opened namespace is not ours to remove");
    drop(ns);
    assert!(!path.exists());
    assert!(matches!(NetNs::named(&name), Err(NetNsError::NotFound(_))));
}

#[test]
fn lo_is_up_and_alone_in_a_new_namespace() {
    if !testing::privileged("lo_is_up_and_alone_in_a_new_namespace") {
        return;
    }
    let ns = NetNs::anonymous().expect("create");
    let links = link::list(&ns).expect("list");
    let lo = links.iter().find(|l| l.name == "lo").expect("lo");
    assert!(lo.up);
    assert_eq!(lo.kind, None);
    ns.run(|| std::net::UdpSocket::bind("127.0.0.1:0").map(drop)).expect("run").expect("bind to lo");
}

#[test]
fn a_panic_inside_comes_out() {
    if !testing::privileged("a_panic_inside_comes_out") {
        return;
    }
    let ns = NetNs::anonymous().expect("create");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ns.run(|| panic!("on purpose"))));
    assert_eq!(caught.expect_err("panics").downcast_ref::<&str>(), Some(&"on purpose"));
}

#[test]
fn names_that_are_no_file_names_are_refused() {
    for name in ["", ".", "..", "a/b", "a\0b"] {
        assert!(matches!(NetNs::create(name), Err(NetNsError::BadName(_))), "{name:?}");
        assert!(matches!(NetNs::named(name), Err(NetNsError::BadName(_))), "{name:?}");
    }
}
