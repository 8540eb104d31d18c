//! A TBF enforces its rate and its queue limit, and its counters balance.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

use weft_host::link::{self, VethOptions};
use weft_host::tbf::{self, Tbf, TbfError};
use weft_host::{Mac, NetNs, testing};
use weft_units::{BitsPerSec, Bytes};

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
    let before = tbf::Reader::open(&a, "va").expect("reader").read();
    assert!(matches!(before, Err(TbfError::NotThere(_))), "{before:?}");
    // 80 kb/s: a frame of 1000 bytes takes 100 ms, so nothing leaves the queue while 40 are sent.
    let tbf = Tbf { rate: BitsPerSec(80_000), overhead: 0, burst: Bytes(1600), limit: Bytes(10_500) };
    tbf::install(&a, "va", &tbf).expect("install");
    let mut reader = tbf::Reader::open(&a, "va").expect("reader");
    let first = reader.read().expect("read");
    let socket = a.run(|| UdpSocket::bind("0.0.0.0:0")).expect("run").expect("bind");
    // 958 bytes are a frame of 1000.
    (0..40).for_each(|_| assert!(socket.send_to(&[0; 958], (TO, 9)).is_ok()));
    let stats = reader.read().expect("read");
    assert_eq!(stats.backlog, Bytes(10_000), "ten whole frames fit: {stats:?}");
    assert_eq!(stats.waiting.0, 10);
    let offered = stats.packets.0 + stats.dropped.0 + stats.waiting.0;
    assert_eq!(offered - first.packets.0 - first.waiting.0, 40, "{first:?} {stats:?}");
}

#[test]
fn another_qdisc_takes_the_place_of_the_fifo() {
    if !testing::privileged("another_qdisc_takes_the_place_of_the_fifo") {
        return;
    }
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    link::create_veth((&a, "va"), (&b, "vb"), &VethOptions::default()).expect("veth");
    let tbf = Tbf { rate: BitsPerSec(80_000), overhead: 0, burst: Bytes(1600), limit: Bytes(10_500) };
    tbf::install(&a, "va", &tbf).expect("install");
    tbf::set_inner(&a, "va", "pfifo").expect("every kernel has it");
    let missing = tbf::set_inner(&b, "vb", "no-such-qdisc").expect_err("no TBF there");
    assert!(!missing.to_string().is_empty());
}
