//! HTB classes receive the packets whose priority names them, and enforce their rates.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use nix::sys::socket::{setsockopt, sockopt};
use weft_host::link::{self, VethOptions};
use weft_host::tc::{Class, ClassFound, Handle, Htb, HtbClass, Qdisc, TcDevice, TcObject, TcPlace};
use weft_host::{Mac, NetNs, testing};
use weft_units::{BitsPerSec, Bytes, Counted, Nanos, Packets};

const TO: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 98, 0, 2));
const ROOT: Handle = Handle::FIRST;

/// A class with a FIFO of `limit` packets.
fn class(handle: Handle, rate: u64, ceil: u64, limit: u64) -> [TcObject<'static>; 2] {
    let (rate, ceil) = (BitsPerSec(rate), BitsPerSec(ceil));
    let depth = |rate: BitsPerSec| rate.bytes_in(Nanos::from_millis(1)).max(Bytes(1600));
    let (burst, cburst, quantum) = (depth(rate), depth(ceil), Some(Bytes(16_384)));
    let class = HtbClass { rate, ceil, burst, cburst, quantum, priority: 0, overhead: 24, mpu: 0 };
    let fifo = Qdisc::Pfifo { limit: Some(Packets(limit)) };
    [TcObject::class(ROOT, handle, Class::Htb(class)), TcObject::leaf(handle, Handle::NONE, fifo)]
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
    let (slow, fast) = (ROOT.class(0x10), ROOT.class(0x20));
    let mut objects = vec![TcObject::root(ROOT, Qdisc::Htb(Htb::with_default(fast.minor())))];
    objects.extend(class(slow, 8_000_000, 8_000_000, 5));
    objects.extend(class(fast, 1_000_000_000, 50_000_000_000, 1000));
    let mut device = TcDevice::open(&a, "va").expect("device");
    device.install(objects).expect("install");

    let socket = a.run(|| UdpSocket::bind("0.0.0.0:0")).expect("run").expect("bind");
    let send = |n: u32| (0..n).for_each(|_| assert!(socket.send_to(&[0; 958], (TO, 9)).is_ok()));
    send(3);
    // 1 MB/s, a bucket of 1600 bytes, room for 5: of 40 packets of 1000 bytes at once, some pass and most are dropped.
    setsockopt(&socket, sockopt::Priority, &(slow.raw() as i32)).expect("SO_PRIORITY");
    send(40);
    let settled = |found: &[ClassFound]| {
        found[0].counters.backlog == Counted::ZERO && found[0].counters.sent != Counted::ZERO
    };
    let mut found = Vec::new();
    testing::wait_for("the slow class is empty", || {
        found = device.classes().expect("classes");
        settled(&found)
    });
    assert_eq!(found.iter().map(|class| class.place.handle).collect::<Vec<_>>(), [slow, fast]);
    let [slow, fast] = [found[0].counters, found[1].counters];
    assert_eq!(slow.sent.packets + slow.dropped, Packets(40), "{slow:?}");
    assert!(slow.dropped >= Packets(10), "{slow:?}");
    assert!(fast.sent.packets >= Packets(3) && fast.dropped == Packets(0), "{fast:?}");

    device.delete_qdisc(TcPlace::root(ROOT)).expect("remove");
    assert!(device.classes().expect("classes").is_empty());
    assert!(device.delete_qdisc(TcPlace::root(ROOT)).is_err());
}
