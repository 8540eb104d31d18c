//! Attempts to escape the classes, on real packets. Whatever is tried, every packet that a receiver accepts for the
//! limited class is scheduled in that class, or dropped and counted.

use crate::common::bench;
use crate::common::bench::{Bench, conserved, conserved_to_the_uplink};
use crate::common::raw::Raw;
use crate::common::xsk;
use crate::frames::{Below, Transport, frame, tcp};
use core::time::Duration;
use nix::libc;
use std::io::ErrorKind;
use std::time::Instant;
use weft_host::link;
use weft_host::testing::{PATIENCE, until};
use weft_nic::testbed::RECEIVER;
use weft_units::Nanos;

/// A policy that limits a class of ports, with unlimited classes before and after it.
const POLICY: &str = "class top = tcp and port 22\nclass bulk = udp and port 9999\nclass deep = protocol 4\n\
                      capped = limit 20mbps of bulk\nroot = priority { top, capped, deep, default }";
/// The frames of one attempt.
const FRAMES: u64 = 20;

/// The expected fate of all frames of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Class(&'static str),
    /// Dropped at the egress, since the class cannot be determined, or a group is the sender.
    Obscured,
    /// Dropped at the far end, since the packet was not announced.
    Unannounced,
}

const BULK: Fate = Fate::Class("bulk");
const UDP: Transport = Transport::Udp(4000, 9999);

/// A UDP frame to port 9999.
fn bulk(below: &Below) -> Vec<u8> {
    frame(below, &UDP, &[7; 400])
}

/// An IPv6 packet to UDP port 9999 after `count` destination options.
fn behind_headers(count: usize) -> Vec<u8> {
    let plain = bulk(&Below { v6: true, ..Below::default() });
    let (head, rest) = plain.split_at(14 + 40);
    let mut out = head.to_vec();
    out[14 + 6] = if count == 0 { 17 } else { 60 };
    let length = rest.len() + count * 8;
    out[14 + 4..14 + 6].copy_from_slice(&(length as u16).to_be_bytes());
    for left in (0..count).rev() {
        out.extend_from_slice(&[if left == 0 { 17 } else { 60 }, 0, 1, 4, 0, 0, 0, 0]);
    }
    out.extend_from_slice(rest);
    out
}

/// The two fragments of an IPv4 or IPv6 packet to UDP port 9999.
fn fragments(v6: bool, id: u16) -> [Vec<u8>; 2] {
    let part = |offset, more, bytes: &[u8]| {
        let below = Below { v6, id, fragment: Some((offset, more)), ..Below::default() };
        frame(&below, &Transport::Raw(17, bytes.to_vec()), &[])
    };
    let mut first = vec![0x0f, 0xa0, 0x27, 0x0f, 0x03, 0x28, 0, 0];
    first.resize(400, 7);
    [part(0, true, &first), part(50, false, &[7; 408])]
}

/// Frames that a sender with CAP_NET_RAW sends through the qdisc, each with its declared type and its expected fate.
fn raw_ways() -> Vec<(String, u16, Vec<Vec<u8>>, Fate)> {
    let mut ways = Vec::new();
    let mut way = |name: &str, claimed: u16, frames: Vec<Vec<u8>>, fate| {
        ways.push((name.to_owned(), claimed, frames, fate));
    };
    let plain = Below::default();
    for claimed in [0x0800_u16, 0, 3, 0x0806, 0x86dd, 0x8137, 0x8100] {
        way(&format!("type {claimed:#x} claimed"), claimed, vec![bulk(&plain)], BULK);
    }
    // The two bytes of a tag are priority, which does not matter, and VLAN.
    for (name, vlans) in
        [("a tag", vec![10]), ("a tag of priority 7", vec![0xe00a]), ("two tags", vec![10, 20])]
    {
        let below = Below { vlans, ..Below::default() };
        way(name, 0x0800, vec![bulk(&below)], BULK);
        way(&format!("IPv6 behind {name}"), 0x8100, vec![bulk(&Below { v6: true, ..below })], BULK);
    }
    let tagged = bulk(&Below { vlans: vec![10], ..Below::default() });
    let tags = [&tagged[..12], &[0x81, 0, 0, 10].repeat(4), &tagged[12..]].concat();
    way("five tags", 0x0800, vec![tags], Fate::Obscured);
    way("IPv4 options", 0x0800, vec![bulk(&Below { options: Some(10), ..Below::default() })], BULK);
    let atomic = Below { v6: true, fragment: Some((0, false)), ..Below::default() };
    way("an IPv6 packet in one fragment", 0x86dd, vec![bulk(&atomic)], BULK);
    for count in [1, 5, 8] {
        way(&format!("{count} extension headers"), 0x86dd, vec![behind_headers(count)], BULK);
    }
    way("nine extension headers", 0x86dd, vec![behind_headers(9)], Fate::Obscured);
    for v6 in [false, true] {
        let name = |what: &str| format!("IPv{} {what}", if v6 { 6 } else { 4 });
        way(&name("fragments"), 0x0800, fragments(v6, 100).to_vec(), BULK);
        // Another packet's addresses: the fragments above are known.
        let [_, mut later] = fragments(v6, 200);
        let host = if v6 { 14 + 8 + 15 } else { 14 + 15 };
        later[host] = 77;
        way(&name("fragment without a first one"), 0x0800, vec![later], Fate::Obscured);
        let [_, mut later] = fragments(v6, 100);
        later[if v6 { 14 + 7 } else { 14 + 8 }] = 63;
        way(&name("fragment that travels further than the first"), 0x0800, vec![later], Fate::Obscured);
    }
    let mut multicast = bulk(&plain);
    multicast[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 9]);
    way("a multicast hardware address", 0x0800, vec![multicast], BULK);
    let mut foreign = bulk(&plain);
    foreign[6..12].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    way("another's hardware address", 0x0800, vec![foreign], BULK);
    let mut of_a_group = bulk(&plain);
    of_a_group[6] |= 1;
    way("a group's hardware address as the source", 0x0800, vec![of_a_group], Fate::Obscured);
    way("another's address", 0x0800, vec![bulk(&Below { hosts: (9, 9), ..Below::default() })], BULK);
    // Not accepted by any receiver as a packet to the port: equivalent to another port.
    way("a header cut off", 0x0800, vec![bulk(&plain)[..14 + 20 + 2].to_vec()], Fate::Class("default"));
    // A tunnel's outer header counts.
    let tunnel = frame(&plain, &Transport::Raw(4, bulk(&plain)[14..].to_vec()), &[]);
    way("IPv4 in IPv4", 0x0800, vec![tunnel], Fate::Class("deep"));
    way(
        "VXLAN",
        0x0800,
        vec![frame(&plain, &Transport::Udp(1, 4789), &bulk(&plain))],
        Fate::Class("default"),
    );
    way(
        "TCP to another port",
        0x0800,
        vec![frame(&plain, &Transport::Tcp(tcp(1, 9999, 1, 0)), &[])],
        Fate::Class("default"),
    );
    ways
}

/// The fates of packets between two readings of the totals.
fn fates(bench: &Bench, before: &weft_nic::nic::Totals, after: &weft_nic::nic::Totals) -> Vec<(Fate, u64)> {
    let classes = ["top", "bulk", "deep", "default"];
    let posted =
        |name| bench.of(after, name).posted.packets.get() - bench.of(before, name).posted.packets.get();
    let mut fates: Vec<(Fate, u64)> = classes.map(|name| (Fate::Class(name), posted(name))).to_vec();
    fates.push((Fate::Obscured, after.events.obscured_drops.get() - before.events.obscured_drops.get()));
    fates.push((
        Fate::Unannounced,
        after.events.unannounced_drops.get() - before.events.unannounced_drops.get(),
    ));
    fates.retain(|(_, count)| *count > 0);
    fates
}

/// Sends by `send`, and returns the fates of `expected` packets.
fn tried(bench: &Bench, expected: u64, send: impl FnOnce()) -> Vec<(Fate, u64)> {
    let before = bench.settle(PATIENCE);
    send();
    let mut found = Vec::new();
    let _ = until(PATIENCE, || {
        found = fates(bench, &before, &bench.settle(PATIENCE));
        found.iter().map(|(_, count)| count).sum::<u64>() >= expected
    });
    found
}

#[test]
fn no_frame_escapes_from_its_class() {
    if !weft_host::testing::privileged("no_frame_escapes_from_its_class") {
        return;
    }
    let bench = Bench::roomy("esc", POLICY, 900);
    bench.settle(Duration::from_millis(200));
    let mut wrong = Vec::new();
    for (name, claimed, frames, fate) in raw_ways() {
        let sent = FRAMES * frames.len() as u64;
        let raw = Raw::open(&bench, claimed);
        let found = tried(&bench, sent, || {
            for _ in 0..FRAMES {
                frames.iter().for_each(|frame| raw.send(frame));
            }
        });
        if found != [(fate, sent)] {
            wrong.push(format!("{name}: {found:?} and not {fate:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    conserved_to_the_uplink(&bench.nic.stop(Nanos::from_secs(1)).expect("stop"));
}

/// Attempts to bypass the egress program. No field that such a sender can set is accepted as an announcement.
#[test]
fn what_goes_around_the_egress_is_dropped_and_counted() {
    if !weft_host::testing::privileged("what_goes_around_the_egress_is_dropped_and_counted") {
        return;
    }
    let bench = Bench::roomy("byp", POLICY, 900);
    let known = Raw::open(&bench, 0x0800);
    let udp = bulk(&Below::default());
    let top = frame(&Below::default(), &Transport::Tcp(tcp(1, 22, 1, 0)), &[7; 400]);
    // The same five-tuples, announced: the doorbells and the flow table have them.
    assert_eq!(tried(&bench, FRAMES, || (0..FRAMES).for_each(|_| known.send(&udp))), [(BULK, FRAMES)]);
    let found = tried(&bench, FRAMES, || (0..FRAMES).for_each(|_| known.send(&top)));
    assert_eq!(found, [(Fate::Class("top"), FRAMES)]);
    let plain = Raw::open(&bench, 0x0800).around_the_qdisc();
    let marked = Raw::open(&bench, 0x0800).around_the_qdisc();
    marked.set(libc::SOL_SOCKET, libc::SO_MARK, -1);
    marked.set(libc::SOL_SOCKET, libc::SO_PRIORITY, 7);
    for (name, raw) in [("plain", &plain), ("marked", &marked)] {
        for (what, frame) in [("udp", &udp), ("top", &top)] {
            let found = tried(&bench, FRAMES, || (0..FRAMES).for_each(|_| raw.send(frame)));
            assert_eq!(found, [(Fate::Unannounced, FRAMES)], "{name} {what}");
        }
    }
    // AF_XDP, if the kernel has it.
    let index = link::index(&bench.bed.sender, "port0").expect("port");
    let has_xdp =
        rustix::net::socket(rustix::net::AddressFamily::XDP, rustix::net::SocketType::RAW, None).is_ok();
    if has_xdp {
        let mut xsk = bench.bed.sender.run(|| xsk::Xsk::open(index)).expect("namespace");
        for frame in [&udp, &top] {
            let found = tried(&bench, FRAMES, || (0..FRAMES).for_each(|_| xsk.send(frame)));
            assert_eq!(found, [(Fate::Unannounced, FRAMES)], "AF_XDP");
        }
    } else {
        weft_host::testing::skip(
            "what_goes_around_the_egress_is_dropped_and_counted",
            "no AF_XDP sockets: that way is not tried",
        );
    }
    // Among announced packets of the same flow, each is distinguished from the other.
    let found = tried(&bench, 2 * FRAMES, || {
        for _ in 0..FRAMES {
            known.send(&udp);
            plain.send(&udp);
        }
    });
    assert_eq!(found, [(BULK, FRAMES), (Fate::Unannounced, FRAMES)]);
    let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
    assert_eq!((totals.events.strays.get(), totals.lost), (0, 0), "{totals:#?}");
    conserved(&totals);
}

/// Datagrams above the MTU need no privilege: all their fragments are classified by the ports, and the limit holds.
#[test]
fn datagrams_above_the_mtu_keep_to_the_limit_of_their_port() {
    if !weft_host::testing::privileged("datagrams_above_the_mtu_keep_to_the_limit_of_their_port") {
        return;
    }
    const LIMIT: u64 = 2_000_000;
    let text = POLICY.replace("20mbps", "2mbps");
    let bench = Bench::roomy("big", &text, 900);
    bench.add_ipv6();
    for (ipv6, to) in [(false, RECEIVER), (true, bench::RECEIVER6)] {
        let socket = bench.sender(ipv6);
        let connected = bench.sender(ipv6);
        connected.connect((to, 9999)).expect("connect");
        let found = tried(&bench, 18, || {
            for _ in 0..3 {
                socket.send_to(&[7; 4000], (to, 9999)).expect("send");
                // Nothing listens there: the answer to an earlier datagram comes at the next one, which is then not sent.
                while matches!(connected.send(&[7; 4000]), Err(e) if e.kind() == ErrorKind::ConnectionRefused)
                {
                }
            }
        });
        let in_bulk = found.iter().find(|(fate, _)| *fate == BULK).map_or(0, |(_, count)| *count);
        assert_eq!(in_bulk, 18, "{found:?}");
        assert!(
            !found.iter().any(|(fate, _)| matches!(fate, Fate::Class("top") | Fate::Obscured)),
            "{found:?}"
        );
    }
    // 0.6 MB, a quarter of which the limit passes in a second.
    let socket = bench.sender(false);
    let before = bench.of(&bench.settle(PATIENCE), "bulk").wire.bytes.get();
    let start = Instant::now();
    for _ in 0..150 {
        socket.send_to(&[7; 4000], (RECEIVER, 9999)).expect("send");
    }
    std::thread::sleep(Duration::from_secs(1).saturating_sub(start.elapsed()));
    let totals = bench.nic.totals().expect("totals");
    let sent = bench.of(&totals, "bulk").wire.bytes.get() - before;
    let most = (start.elapsed().as_secs_f64() * LIMIT as f64 / 8.0) as u64 + 3 * 1538;
    assert!(sent <= most, "{sent} bytes in {:?} are more than {most}", start.elapsed());
    conserved(&bench.nic.stop(Nanos::from_secs(5)).expect("stop"));
}
