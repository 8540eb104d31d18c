//! A TBF enforces its rate and its queue limit, and its counters balance.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

use weft_host::link::{self, VethOptions};
use weft_host::tc::{Handle, Qdisc, Tbf, TcDevice, TcError, TcObject};
use weft_host::{Mac, NetNs, testing};
use weft_units::{BitsPerSec, Bytes, Counted, Packets};

const TO: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 98, 0, 2));

#[test]
fn the_queue_is_bounded_in_bytes_and_the_counters_balance() {
    if !testing::privileged("the_queue_is_bounded_in_bytes_and_the_counters_balance") {
        return;
    }
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    link::create_veth((&a, "va"), (&b, "vb"), &VethOptions::default()).expect("veth");
    link::add_address(&a, "va", IpAddr::V4(Ipv4Addr::new(10, 98, 0, 1)), 24).expect("address");
    link::add_neighbor(&a, "va", TO, Mac::local(1)).expect("neighbour");
    link::set_up(&a, "va").expect("up");
    link::set_up(&b, "vb").expect("up");
    link::wait_running(&a, "va", Duration::from_secs(10)).expect("running");
    let mut device = TcDevice::open(&a, "va").expect("device");
    let before = device.qdisc(Handle::FIRST);
    assert!(matches!(before, Err(TcError::NotThere { .. })), "{before:?}");
    // 80 kb/s: a frame of 1000 bytes takes 100 ms, so nothing leaves the queue while 40 are sent.
    let tbf = Tbf { rate: BitsPerSec(80_000), overhead: 0, burst: Bytes(1600), limit: Bytes(10_500) };
    device.add(&TcObject::tbf(tbf)).expect("install");
    let first = device.qdisc(Handle::FIRST).expect("read").counters;
    let socket = a.run(|| UdpSocket::bind("0.0.0.0:0")).expect("run").expect("bind");
    // 958 bytes are a frame of 1000.
    (0..40).for_each(|_| assert!(socket.send_to(&[0; 958], (TO, 9)).is_ok()));
    let stats = device.qdisc(Handle::FIRST).expect("read").counters;
    assert_eq!(stats.backlog, Counted::new(10, 10_000), "ten whole frames fit: {stats:?}");
    let offered = stats.sent.packets + stats.dropped + stats.backlog.packets;
    assert_eq!(offered - first.sent.packets - first.backlog.packets, Packets(40), "{first:?} {stats:?}");
}

#[test]
fn another_qdisc_takes_the_place_of_the_fifo() {
    if !testing::privileged("another_qdisc_takes_the_place_of_the_fifo") {
        return;
    }
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    link::create_veth((&a, "va"), (&b, "vb"), &VethOptions::default()).expect("veth");
    let tbf = Tbf { rate: BitsPerSec(80_000), overhead: 0, burst: Bytes(1600), limit: Bytes(10_500) };
    let inner = |kind| TcObject::leaf(Handle::FIRST.class(1), Handle::qdisc(2), Qdisc::decode(kind, &[]));
    let install =
        |ns: &NetNs, name: &str, objects| TcDevice::open(ns, name).and_then(|mut at| at.install(objects));
    install(&a, "va", vec![TcObject::tbf(tbf), inner("pfifo")]).expect("every kernel has it");
    let lone = install(&b, "vb", vec![inner("pfifo")]).expect_err("no TBF there");
    assert!(lone.to_string().starts_with("add qdisc pfifo 2: below 1:1 of link vb of (unnamed): "), "{lone}");
    let missing =
        install(&b, "vb", vec![TcObject::tbf(tbf), inner("no-such-qdisc")]).expect_err("no such kind");
    assert!(missing.is_missing_kind(), "{missing}");
}
