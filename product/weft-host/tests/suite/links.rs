//! Links are made and configured, and carry packets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use weft_host::link::{self, LinkError, Route, VethOptions};
use weft_host::macvtap::{self, MacvtapError, MacvtapMode};
use weft_host::tap::{self, VNET_HEADER_LEN};
use weft_host::testing::PATIENCE;
use weft_host::{Mac, NetNs, testing};

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 2));

fn pair(options: &VethOptions) -> (NetNs, NetNs) {
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    link::create_veth((&a, "va"), (&b, "vb"), options).expect("veth");
    (a, b)
}

#[test]
fn a_veth_pair_is_as_it_was_asked_for() {
    if !testing::privileged("a_veth_pair_is_as_it_was_asked_for") {
        return;
    }
    let macs = [Some(Mac::local(1)), Some(Mac::local(2))];
    let options = VethOptions {
        macs,
        mtu: Some(9000),
        gso_max_size: Some(16384),
        txqueuelen: Some(77),
        queues: Some(2),
    };
    let (a, b) = pair(&options);
    for (ns, name, mac) in [(&a, "va", macs[0]), (&b, "vb", macs[1])] {
        let shown = link::show(ns, name).expect("show");
        assert_eq!((shown.mac, shown.mtu, shown.up), (mac, 9000, false));
        assert_eq!((shown.gso_max_size, shown.txqueuelen, shown.tx_queues), (16384, 77, 2));
        assert_eq!(shown.kind.as_deref(), Some("veth"));
        link::set_up(ns, name).expect("up");
        assert!(link::show(ns, name).expect("show").up);
    }
    link::wait_running(&a, "va", PATIENCE).expect("running");
    link::set_mtu(&a, "va", 1400).expect("mtu");
    link::set_mac(&a, "va", Mac::local(9)).expect("mac");
    link::set_alias(&a, "va", "weft test").expect("alias");
    link::set_gso_max_size(&a, "va", 32768).expect("gso_max_size");
    link::set_txqueuelen(&a, "va", 5).expect("txqueuelen");
    let shown = link::show(&a, "va").expect("show");
    assert_eq!((shown.mtu, shown.gso_max_size, shown.txqueuelen), (1400, 32768, 5));
    assert_eq!(link::get_mac(&a, "va").expect("mac"), Some(Mac::local(9)));
    assert_eq!(link::alias(&a, "va").expect("alias").as_deref(), Some("weft test"));
    link::move_to(&b, "vb", &a).expect("move");
    assert!(link::exists(&a, "vb").expect("exists") && !link::exists(&b, "vb").expect("exists"));
    link::set_down(&a, "va").expect("down");
    link::delete(&a, "va").expect("delete");
    assert!(!link::exists(&a, "vb").expect("exists"), "the other end goes too");
}

#[test]
fn packets_pass_between_namespaces_by_both_families() {
    if !testing::privileged("packets_pass_between_namespaces_by_both_families") {
        return;
    }
    let (a, b) = pair(&VethOptions::default());
    let six = |n| IpAddr::V6(Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, n));
    for (ns, name, four, host) in [(&a, "va", A, 1), (&b, "vb", B, 2)] {
        link::add_address(ns, name, four, 24).expect("address");
        link::add_address(ns, name, six(host), 64).expect("address");
        link::set_up(ns, name).expect("up");
    }
    link::wait_running(&a, "va", PATIENCE).expect("running");
    link::wait_running(&b, "vb", PATIENCE).expect("running");
    let beyond = IpAddr::V4(Ipv4Addr::new(10, 99, 7, 7));
    link::add_address(&b, "lo", beyond, 32).expect("address");
    let route = Route {
        destination: IpAddr::V4(Ipv4Addr::new(10, 99, 7, 0)),
        prefix_len: 24,
        link: None,
        gateway: Some(B),
    };
    link::add_route(&a, &route).expect("route");
    let direct = Route { gateway: None, link: Some("va"), prefix_len: 25, ..route };
    link::add_route(&a, &direct).expect("route through a link");
    for to in [B, six(2), beyond] {
        let receiver = b.run(|| UdpSocket::bind((to, 0))).expect("run").expect("bind");
        receiver.set_read_timeout(Some(PATIENCE)).expect("timeout");
        let any: IpAddr =
            if to.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let sender = a.run(|| UdpSocket::bind((any, 0))).expect("run").expect("bind");
        sender.send_to(b"hello", receiver.local_addr().expect("addr")).expect("send");
        let mut buffer = [0; 16];
        assert_eq!(receiver.recv(&mut buffer).expect("receive"), 5, "{to}");
    }
    assert!(link::stats(&b, "vb").expect("stats").rx_packets.0 >= 3);
}

#[test]
fn a_datagram_waits_in_the_macvtap_and_leaves_through_a_tap() {
    if !testing::privileged("a_datagram_waits_in_the_macvtap_and_leaves_through_a_tap") {
        return;
    }
    let (a, nic) = pair(&VethOptions { macs: [Some(Mac::local(1)), None], ..VethOptions::default() });
    let far = NetNs::anonymous().expect("far");
    let mac = Some(Mac::local(3));
    macvtap::create(&nic, "vb", "mva", MacvtapMode::Passthru, 4, 500, mac).expect("macvtap");
    let rings = macvtap::open_queues(&nic, "mva", 4).expect("queues");
    let taps = tap::create(&far, "tb", 2).expect("tap");
    link::set_mac(&far, "tb", Mac::local(2)).expect("mac");
    link::add_address(&a, "va", A, 24).expect("address");
    link::add_address(&far, "tb", B, 24).expect("address");
    link::add_neighbor(&a, "va", B, Mac::local(2)).expect("neighbour");
    link::add_neighbor(&far, "tb", A, Mac::local(1)).expect("neighbour");
    let all = [(&a, "va"), (&nic, "vb"), (&nic, "mva"), (&far, "tb")];
    all.iter().for_each(|(ns, name)| link::set_up(ns, name).expect("up"));
    all.iter().for_each(|(ns, name)| link::wait_running(ns, name, PATIENCE).expect("running"));
    let receiver = far.run(|| UdpSocket::bind((B, 4000))).expect("run").expect("bind");
    receiver.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let sender = a.run(|| UdpSocket::bind((A, 0))).expect("run").expect("bind");
    let payload: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
    sender.send_to(&payload, (B, 4000)).expect("send");

    let packet = read_until(&rings, |p| p.len() > VNET_HEADER_LEN && p.ends_with(&payload));
    let (header, frame) = packet.split_at(VNET_HEADER_LEN);
    assert_eq!(header[0] & 1, 1, "the checksum is left to the reader (VIRTIO_NET_HDR_F_NEEDS_CSUM)");
    assert_eq!(frame.len(), 14 + 20 + 8 + payload.len());
    assert_eq!((&frame[..6], &frame[6..12]), (&Mac::local(2).0[..], &Mac::local(1).0[..]));

    rustix::io::write(&taps[0], &packet).expect("write to the TAP");
    let mut buffer = vec![0; 2000];
    let (length, from) = receiver.recv_from(&mut buffer).expect("receive");
    assert_eq!((&buffer[..length], from), (&payload[..], sender.local_addr().expect("addr")));

    receiver.send_to(b"back", from).expect("answer");
    let answer = read_until(&taps, |p| p.ends_with(b"back"));
    rustix::io::write(&rings[0], &answer).expect("write to the macvtap");
    sender.set_read_timeout(Some(PATIENCE)).expect("timeout");
    assert_eq!(sender.recv(&mut buffer).expect("receive"), 4);

    drop(taps);
    assert!(!link::exists(&far, "tb").expect("exists"), "a TAP goes with its last descriptor");
}

/// Reads packets from any of the queues until one matches.
#[track_caller]
fn read_until(queues: &[OwnedFd], wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut buffer, mut found) = (vec![0; 70_000], None);
    testing::wait_for("the packet", || {
        for queue in queues {
            match rustix::io::read(queue, &mut buffer[..]) {
                Ok(length) if wanted(&buffer[..length]) => {
                    found = Some(buffer[..length].to_vec());
                    return true;
                }
                Ok(_) | Err(rustix::io::Errno::AGAIN) => {}
                Err(e) => panic!("read: {e}"),
            }
        }
        false
    });
    found.expect("the packet")
}

#[test]
fn queues_are_non_blocking_and_close_on_exec_and_at_most_256() {
    if !testing::privileged("queues_are_non_blocking_and_close_on_exec_and_at_most_256") {
        return;
    }
    let (_a, nic) = pair(&VethOptions::default());
    macvtap::create(&nic, "vb", "mva", MacvtapMode::Passthru, 256, 500, None).expect("macvtap");
    let queues = macvtap::open_queues(&nic, "mva", 256).expect("queues");
    for queue in [&queues[0], &queues[255]] {
        assert!(rustix::fs::fcntl_getfl(queue).expect("getfl").contains(rustix::fs::OFlags::NONBLOCK));
        assert!(
            rustix::io::fcntl_getfd(queue.as_fd()).expect("getfd").contains(rustix::io::FdFlags::CLOEXEC)
        );
    }
    let refused = macvtap::open_queues(&nic, "mva", 1).expect_err("the 257th");
    assert!(matches!(&refused, MacvtapError::NoQueueLeft { opened: 0, .. }), "{refused}");
    let refused = macvtap::open_queues(&nic, "mva", 257).expect_err("too many");
    assert!(matches!(&refused, MacvtapError::Queues { asked: 257, .. }), "{refused}");
    macvtap::close_queues(queues);
    let again = macvtap::open_queues(&nic, "mva", 256).expect("all are free");
    assert_eq!(again.len(), 256);
    macvtap::close_queues(again);
}

#[test]
fn errors_name_the_object_and_what_is_there() {
    if !testing::privileged("errors_name_the_object_and_what_is_there") {
        return;
    }
    let (a, b) = pair(&VethOptions::default());
    let missing = link::set_up(&a, "nope").expect_err("missing").to_string();
    assert!(
        missing.starts_with("there is no link nope in network namespace (unnamed); there are: "),
        "{missing}"
    );
    assert!(missing.contains("va"), "{missing}");
    let exists = link::create_veth((&a, "va"), (&b, "vc"), &VethOptions::default()).expect_err("exists");
    assert!(matches!(exists, LinkError::Exists { .. }), "{exists}");
    let long = link::set_up(&a, "a_name_that_is_too_long").expect_err("long");
    assert!(matches!(long, LinkError::BadName(_)), "{long}");
    let mtu = link::set_mtu(&a, "va", 1 << 30).expect_err("mtu").to_string();
    assert!(mtu.starts_with("set link va of (unnamed): MTU to 1073741824: Invalid argument"), "{mtu}");
    link::set_up(&a, "va").expect("up");
    let idle = link::wait_running(&a, "va", Duration::from_millis(5)).expect_err("no carrier");
    assert!(matches!(idle, LinkError::NotRunning { .. }), "{idle}");
    let not = macvtap::open_queues(&a, "va", 1).expect_err("not a macvtap");
    assert!(matches!(not, MacvtapError::NotMacvtap { .. }), "{not}");
    let tap = tap::create(&a, "va", 1).expect_err("exists");
    assert!(tap.to_string().contains("link va exists already"), "{tap}");
    let source = link::set_mtu(&a, "va", 1 << 30).map_err(io::Error::other).expect_err("mtu");
    assert!(source.to_string().contains("MTU"), "the errors are errors");
}
