//! A lower segment limit reaches open connections once routes are flushed.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use weft_host::ethtool::Nic;
use weft_host::link::{self, GsoSizes, VethOptions};
use weft_host::{NetNs, testing};

const FROM: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));
const TO: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 2));

fn wire() -> (NetNs, NetNs) {
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    link::create_veth((&a, "va"), (&b, "vb"), &VethOptions::default()).expect("veth");
    for (ns, name, address) in [(&a, "va", FROM), (&b, "vb", TO)] {
        link::add_address(ns, name, address, 24).expect("address");
        link::set_up(ns, name).expect("up");
    }
    link::wait_running(&a, "va", Duration::from_secs(10)).expect("running");
    (a, b)
}

/// The mean size of the segments that the sender passed to its device during one bulk transfer, in bytes.
fn mean_packet(a: &NetNs, sender: &mut TcpStream, receiver: &mut TcpStream) -> u64 {
    const AMOUNT: usize = 16 << 20;
    let before = link::stats(a, "va").expect("stats");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 1 << 20];
            let mut left = AMOUNT;
            while left > 0 {
                left -= receiver.read(&mut buffer).expect("read");
            }
        });
        let chunk = vec![b'w'; 1 << 20];
        (0..AMOUNT >> 20).for_each(|_| sender.write_all(&chunk).expect("write"));
    });
    let after = link::stats(a, "va").expect("stats");
    (after.tx_bytes.0 - before.tx_bytes.0) / (after.tx_packets.0 - before.tx_packets.0)
}

#[test]
fn an_open_connection_takes_a_new_limit_when_routes_are_flushed() {
    if !testing::privileged("an_open_connection_takes_a_new_limit_when_routes_are_flushed") {
        return;
    }
    let (a, b) = wire();
    let listener = b.run(|| TcpListener::bind((TO, 5201))).expect("run").expect("listen");
    let mut sender = a.run(|| TcpStream::connect((TO, 5201))).expect("run").expect("connect");
    let (mut receiver, _) = listener.accept().expect("accept");
    let mut mean = || mean_packet(&a, &mut sender, &mut receiver);
    // The connection's window grows during the first transfer.
    mean();
    let first = mean();
    const LIMIT: u32 = 8000;
    let was = link::limit_gso_size(&a, "va", LIMIT).expect("limit");
    let unflushed = mean();
    link::flush_routes(&a).expect("flush");
    let flushed = mean();
    link::set_gso_sizes(&a, "va", was).expect("restore");
    link::flush_routes(&a).expect("flush");
    let restored = mean();
    println!("mean packet: {first}, limited {unflushed}, flushed {flushed}, restored {restored}");
    assert!(first > 2 * u64::from(LIMIT), "super-packets: {first}");
    assert!(unflushed < 2000, "super-packets of the old limit are cut before the device: {unflushed}");
    assert!(flushed > 4000 && flushed <= u64::from(LIMIT) + 14, "the new limit: {flushed}");
    assert!(restored > 2 * u64::from(LIMIT), "and the old one again: {restored}");
}

#[test]
fn limits_are_lowered_never_raised_and_restored() {
    if !testing::privileged("limits_are_lowered_never_raised_and_restored") {
        return;
    }
    let (a, _b) = wire();
    let sizes = || link::gso_sizes(&a, "va").expect("sizes");
    let first = sizes();
    assert_eq!(link::limit_gso_size(&a, "va", 16_000).expect("limit"), first);
    let limited = sizes();
    assert_eq!((limited.max, limited.ipv4_max), (16_000, first.ipv4_max.map(|_| 16_000)));
    assert_eq!(link::limit_gso_size(&a, "va", 32_000).expect("limit"), limited);
    assert_eq!(sizes(), limited, "a smaller limit stays");
    link::set_gso_sizes(&a, "va", first).expect("restore");
    assert_eq!(sizes(), first);
    // BIG TCP: different limits for IPv4 and IPv6.
    let Some(ipv4) = first.ipv4_max else { return };
    let big = GsoSizes { max: 150_000, ipv4_max: Some(ipv4) };
    link::set_gso_sizes(&a, "va", big).expect("big");
    assert_eq!(sizes(), big);
    assert_eq!(link::limit_gso_size(&a, "va", 16_000).expect("limit"), big);
    assert_eq!(sizes(), GsoSizes { max: 16_000, ipv4_max: Some(16_000) });
    link::set_gso_sizes(&a, "va", big).expect("restore");
    assert_eq!(sizes(), big, "that of IPv4 too, which the kernel lowered with the other");
}

#[test]
fn kinds_and_drivers_are_told() {
    if !testing::privileged("kinds_and_drivers_are_told") {
        return;
    }
    let (a, _b) = wire();
    assert_eq!(link::kind(&a, "va").expect("kind").as_deref(), Some("veth"));
    assert_eq!(link::kind(&a, "lo").expect("kind"), None);
    assert_eq!(Nic::open(&a, "va").expect("device").driver().name, "veth");
}
