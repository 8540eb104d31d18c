//! The survey works with and without capabilities, and errors without capabilities name a remedy.

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use weft_host::doctor::{Facility, State, survey};
use weft_host::{NetNs, require_network_rights, tap, testing};

/// Runs `f` on a thread without capabilities. Threads that it starts have none either.
fn without_rights<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    let stripped = || {
        let mut sets = capabilities(None).expect("capabilities");
        sets.effective = CapabilitySet::empty();
        sets.permitted = CapabilitySet::empty();
        set_capabilities(None, sets).expect("drop them");
        f()
    };
    std::thread::scope(|scope| scope.spawn(stripped).join().expect("join"))
}

fn find<'a>(facilities: &'a [Facility], id: &str) -> &'a Facility {
    facilities.iter().find(|f| f.id == id).unwrap_or_else(|| panic!("{id}"))
}

#[test]
fn every_facility_has_an_id_of_its_own_and_all_its_texts() {
    let facilities = survey();
    for (n, facility) in facilities.iter().enumerate() {
        println!("{:28} {:42} {}", facility.id, facility.title, facility.state);
        assert!(facilities[..n].iter().all(|other| other.id != facility.id), "{}", facility.id);
        for text in [facility.title, facility.brings, facility.remedy] {
            assert!(!text.is_empty(), "{}", facility.id);
        }
        if let State::Missing(why) = &facility.state {
            assert!(!why.is_empty(), "{}", facility.id);
        }
    }
}

#[test]
fn what_the_other_tests_use_is_found_present() {
    if !testing::privileged("what_the_other_tests_use_is_found_present") {
        return;
    }
    let facilities = survey();
    for id in ["netns", "veth", "macvtap", "tap", "cgroup2", "rights.net_admin"] {
        assert!(find(&facilities, id).state.usable(), "{:?}", find(&facilities, id));
    }
}

#[test]
fn without_rights_the_survey_says_what_is_missing_and_why() {
    let facilities = without_rights(survey);
    for id in
        ["rights.net_admin", "rights.sys_admin", "rights.bpf", "netns", "veth", "macvtap", "tap", "clsact"]
    {
        let facility = find(&facilities, id);
        assert!(matches!(&facility.state, State::Missing(why) if !why.is_empty()), "{facility:?}");
    }
    let netns = find(&facilities, "netns").state.to_string();
    let wanted = "missing: create a network namespace: Operation not permitted; run as root (CAP_SYS_ADMIN)";
    assert_eq!(netns, wanted);
    assert!(find(&facilities, "kernel").state.usable());
}

#[test]
fn errors_without_rights_say_what_to_do() {
    let error = without_rights(require_network_rights).expect_err("no rights").to_string();
    let wanted = "making network namespaces and links needs CAP_NET_ADMIN and CAP_SYS_ADMIN, which this process \
                  lacks; run as root";
    assert_eq!(error, wanted);
    let name = testing::unique("norights");
    let error = without_rights(|| NetNs::create(&name)).expect_err("no rights").to_string();
    assert!(error.starts_with(&format!("create network namespace {name}: ")), "{error}");
    assert!(error.ends_with("run as root (CAP_SYS_ADMIN)"), "{error}");
    let error = without_rights(|| {
        let here = NetNs::current().expect("current");
        tap::create(&here, "weftnorights", 1).expect_err("no rights").to_string()
    });
    assert!(error.contains("run as root"), "{error}");
}
