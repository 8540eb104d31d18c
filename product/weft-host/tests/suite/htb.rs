//! HTB classes receive the packets whose priority names them, and enforce their rates.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use weft_host::htb::{self, Htb, HtbClass, HtbError, class_id};
use weft_host::link::{self, VethOptions};
use weft_host::{Mac, NetNs, testing};
use weft_units::{BitsPerSec, Bytes, Packets};

const TO: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 98, 0, 2));

fn class(minor: u16, rate: u64, ceil: u64, limit: u64) -> HtbClass {
    HtbClass {
        minor,
        rate: BitsPerSec(rate),
        ceil: BitsPerSec(ceil),
        quantum: Bytes(16_384),
        priority: 0,
        limit: Packets(limit),
    }
}

#[test]
fn packets_go_to_the_class_of_their_priority() {
    if !testing::privileged("packets_go_to_the_class_of_their_priority") {
        return;
    }
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    link::create_veth((&a, "va"), (&b, "vb"), &VethOptions::default()).expect("veth");
    link::add_address(&a, "va", IpAddr::V4(Ipv4Addr::new(10, 98, 0, 1)), 24).expect("address");
    link::add_neighbor(&a, "va", TO, Mac::local(1)).expect("neighbour");
    link::set_up(&a, "va").expect("up");
    link::set_up(&b, "vb").expect("up");
    link::wait_running(&a, "va", testing::PATIENCE).expect("running");
    let htb = Htb {
        rate: BitsPerSec(100_000_000_000),
        overhead: 24,
        default_class: 0x20,
        classes: vec![class(0x10, 8_000_000, 8_000_000, 5), class(0x20, 1_000_000_000, 50_000_000_000, 1000)],
    };
    htb::install(&a, "va", &htb).expect("install");
    assert!(matches!(htb::install(&a, "va", &htb), Err(HtbError::Os(_))), "there is one already");

    let socket = a.run(|| UdpSocket::bind("0.0.0.0:0")).expect("run").expect("bind");
    let send = |n: u32| (0..n).for_each(|_| assert!(socket.send_to(&[0; 958], (TO, 9)).is_ok()));
    send(3);
    // 1 MB/s, a bucket of 1600 bytes, room for 5: of 40 packets of 1000 bytes at once, some pass and most are dropped.
    // (SO_PRIORITY has no safe wrapper that takes values above 6 in the standard library.)
    set_priority(&socket, class_id(0x10));
    send(40);
    let settled = |stats: &[htb::ClassStats]| stats[0].backlog == Bytes(0) && stats[0].packets.0 > 0;
    let mut stats = Vec::new();
    testing::wait_for("the slow class is empty", || {
        stats = htb::stats(&a, "va").expect("stats");
        settled(&stats)
    });
    let [slow, fast] = stats[..] else { panic!("two classes: {stats:?}") };
    assert_eq!((slow.minor, fast.minor), (0x10, 0x20));
    assert_eq!(slow.packets.0 + slow.dropped.0, 40, "{slow:?}");
    assert!(slow.dropped.0 >= 10, "{slow:?}");
    assert!(fast.packets.0 >= 3 && fast.dropped.0 == 0, "{fast:?}");

    htb::remove(&a, "va").expect("remove");
    assert!(htb::stats(&a, "va").expect("stats").is_empty());
    assert!(htb::remove(&a, "va").is_err());
}

fn set_priority(socket: &UdpSocket, priority: u32) {
    use std::os::fd::AsRawFd;
    let (fd, size) = (socket.as_raw_fd(), size_of::<u32>() as libc::socklen_t);
    // SAFETY: the option takes a pointer to an int, which lives until the call returns.
    let result = unsafe {
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_PRIORITY, (&raw const priority).cast(), size)
    };
    assert_eq!(result, 0, "SO_PRIORITY");
}

#[test]
fn what_cannot_be_carried_out_is_refused_before_anything_is_done() {
    if !testing::privileged("what_cannot_be_carried_out_is_refused_before_anything_is_done") {
        return;
    }
    let ns = NetNs::anonymous().expect("ns");
    let refuse = |default_class, class| {
        let htb = Htb { rate: BitsPerSec(1_000_000), overhead: 0, default_class, classes: vec![class] };
        htb::install(&ns, "lo", &htb).expect_err("refused").to_string()
    };
    assert_eq!(refuse(2, class(1, 1000, 1000, 1)), "HTB: the default class 2 is not among the classes");
    assert_eq!(refuse(0, class(0, 1000, 1000, 1)), "HTB: class 0 is not between 1 and fffe");
    assert_eq!(
        refuse(1, class(1, 1000, 999, 1)),
        "HTB: class 1 needs a rate, and a ceil that is not below it"
    );
}
