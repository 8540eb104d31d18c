//! Real links whose drivers support no receive steering.

use weft_host::ethtool::{
    Action, ContextId, EthtoolError, Flow, HashFlow, L4, Nic, Ports, RssChange, RxRule,
};
use weft_host::link::{self, LinkError, VethOptions};
use weft_host::{NetNs, testing};
use weft_units::RxQueueId;

#[test]
fn a_veth_says_what_it_lacks() {
    if !testing::privileged("a_veth_says_what_it_lacks") {
        return;
    }
    let ns = NetNs::anonymous().expect("namespace");
    link::create_veth((&ns, "va"), (&ns, "vb"), &VethOptions::default()).expect("veth");
    let mut nic = Nic::open(&ns, "va").expect("open");
    assert_eq!(nic.driver().name, "veth");
    let queues = nic.rx_queues().expect("a veth tells its channels");
    assert_eq!(queues, 1, "a veth that is made without a number of receive queues has one");
    let channels = nic.channels().expect("channels").expect("a veth has them");
    assert_eq!(channels.rx.count + channels.combined.count, queues);
    let error = nic.set_combined_channels(99).expect_err("too many").to_string();
    assert_eq!(
        error,
        "va: set the number of combined channels to 99: Invalid argument; `ethtool -l va` shows the limits; hash table \
         and rules may use more"
    );
    let table = nic.rss(ContextId::MAIN).expect_err("no table");
    assert_eq!(
        table.to_string(),
        "va: the driver veth has no receive hash table (Operation not supported); use a NIC with receive-side scaling"
    );
    for error in [
        nic.contexts().map(drop),
        nic.create_context(&RssChange::default()).map(drop),
        nic.set_rss(ContextId::MAIN, &RssChange::table(vec![RxQueueId(0)])),
        nic.hash_fields(HashFlow::Tcp4, ContextId::MAIN).map(drop),
    ] {
        assert!(matches!(error, Err(EthtoolError::NoHashTable { .. })), "{error:?}");
    }
    assert!(!nic.ntuple().expect("features").active);
    let rule = RxRule::new(Flow::Ports4(Ports::any(L4::Udp)), Action::Drop).at(0);
    for error in [nic.insert_rule(&rule).map(drop), nic.rules().map(drop), nic.set_ntuple(true)] {
        let error = error.expect_err("no rules").to_string();
        assert_eq!(
            error,
            "va: the driver veth takes no receive rules (Operation not supported, ntuple is off and fixed); \
             steer by the receive hash table, or use another NIC"
        );
    }
}

#[test]
fn a_link_is_looked_for_in_its_namespace() {
    if !testing::privileged("a_link_is_looked_for_in_its_namespace") {
        return;
    }
    let (ns, other) = (NetNs::anonymous().expect("namespace"), NetNs::anonymous().expect("namespace"));
    link::create_veth((&ns, "va"), (&other, "vb"), &VethOptions::default()).expect("veth");
    assert!(Nic::open(&ns, "va").is_ok() && Nic::open(&other, "vb").is_ok());
    let error = Nic::open(&ns, "vb").map(drop).expect_err("it is in the other one");
    assert!(matches!(&error, EthtoolError::Link(LinkError::NotFound { .. })), "{error}");
}
