//! Numbered datagrams: what is missing and what was overtaken at the receiver.

use crate::common::udp;
use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;
use weft_host::NetNs;

/// The datagrams of one stream as they arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Arrived {
    /// The number of datagrams.
    pub(crate) count: u64,
    /// Datagrams with a lower number than one before them.
    pub(crate) overtaken: u64,
}

/// Whether the stack of `ns` has the hardware address of its neighbour `address`.
fn is_resolved(ns: &NetNs, address: IpAddr) -> bool {
    let table =
        ns.run(|| std::fs::read_to_string("/proc/thread-self/net/arp")).expect("enter").expect("neighbours");
    // Address, type, flags (`ATF_COM`: complete), hardware address, ...
    let address = address.to_string();
    table
        .lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
        .any(|entry| entry.first() == Some(&address.as_str()) && entry.get(2) == Some(&"0x2"))
}

/// Sends `each` numbered datagrams of `bytes` per `pause` from `from` to `to` until `stop`. Returns the number that the port
/// took. The neighbour is known before the second: packets that wait for its address leave when the answer arrives, beside those that the
/// sender sends then (`neigh_update`), so the stack itself does not keep their order.
pub(crate) fn send<'s>(
    scope: &'s Scope<'s, '_>,
    (from, to): (&'s NetNs, (IpAddr, u16)),
    (each, bytes, pause): (usize, usize, Duration),
    stop: &'s AtomicBool,
) -> ScopedJoinHandle<'s, u64> {
    let socket = udp(from, (IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), 0));
    scope.spawn(move || {
        let mut datagram = vec![0; bytes];
        let mut number = u64::from(socket.send_to(&datagram, to).is_ok());
        assert!(
            weft_host::testing::until(crate::common::SOON, || is_resolved(from, to.0)),
            "the address of {to:?}"
        );
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..each {
                datagram[..8].copy_from_slice(&number.to_be_bytes());
                number += u64::from(socket.send_to(&datagram, to).is_ok());
            }
            std::thread::sleep(pause);
        }
        number
    })
}

/// Receives the datagrams of one stream at `at` in `ns` until `stop` and then until none has come for 300 ms.
pub(crate) fn receive<'s>(
    scope: &'s Scope<'s, '_>,
    (ns, at): (&NetNs, (IpAddr, u16)),
    stop: &'s AtomicBool,
) -> ScopedJoinHandle<'s, Arrived> {
    let socket = udp(ns, at);
    scope.spawn(move || {
        let (mut arrived, mut next, mut buffer) = (Arrived::default(), 0_u64, [0; 2000]);
        loop {
            match socket.recv(&mut buffer) {
                Ok(8..) => {
                    let number = buffer[..8].try_into().map_or(0, u64::from_be_bytes);
                    arrived.count += 1;
                    arrived.overtaken += u64::from(number < next);
                    next = next.max(number + 1);
                }
                Ok(_) => {}
                Err(_) if stop.load(Ordering::Relaxed) => return arrived,
                Err(_) => {}
            }
        }
    })
}
