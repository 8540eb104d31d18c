//! The two levels of the doorbell under every interleaving of two posting threads and the NIC, with up to three
//! preemptions: the bits of a port's rings, and the bits of the ports.
//!
//! ```text
//! cargo test -p weft-nic --test loom_ports
//! ```
//!
//! `loom_doorbell.rs` has the rules of one ring. Here the threads post to different rings, of one port or of two. Each
//! rule between the levels has a twin that breaks it: the model must detect it.

use loom::sync::Notify;
use loom::thread;
use std::sync::Arc;
use sync::{AtomicU32, AtomicU64, Ordering, fence};

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

#[allow(unreachable_pub, dead_code, reason = "public in the crate that it is part of")]
#[path = "../src/doorbell/protocol.rs"]
mod protocol;

/// The number of the ring, in the port, that is urgent.
const URGENT: u32 = 1;

/// Two ports with two rings each, and the model of the kernel's wake-up.
struct Nic {
    packets: [[AtomicU64; 2]; 2],
    ready: [[AtomicU64; 1]; 2],
    ports: [AtomicU64; 1],
    sleeping: AtomicU32,
    wake: Notify,
}

impl Nic {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            packets: [[zero(), zero()], [zero(), zero()]],
            ready: [[zero()], [zero()]],
            ports: [zero()],
            sleeping: AtomicU32::new(0),
            wake: Notify::new(),
        }
    }
}

/// Posts a packet to a port and a ring. Returns whether the caller must wake the NIC.
type Post = fn(&Nic, usize, u32) -> bool;
/// Takes the bits. Returns the number of packets, by port and ring, of those whose bits were set.
type Look = fn(&Nic, &mut [[u64; 2]; 2]);
type Sleep = fn(&Nic) -> bool;

fn post(nic: &Nic, port: usize, ring: u32) -> bool {
    protocol::Bell {
        packets: &nic.packets[port][ring as usize],
        ready: (&nic.ready[port][0], ring),
        urgent: 1 << URGENT,
        ports: (&nic.ports[0], port as u32),
        sleeping: &nic.sleeping,
    }
    .post(1)
}

fn look(nic: &Nic, seen: &mut [[u64; 2]; 2]) {
    let ports = protocol::take(&nic.ports[0]);
    take_rings(nic, ports, seen);
}

fn take_rings(nic: &Nic, ports: u64, seen: &mut [[u64; 2]; 2]) {
    for port in (0..2).filter(|port| ports >> port & 1 == 1) {
        let rings = protocol::take(&nic.ready[port][0]);
        for ring in (0..2).filter(|ring| rings >> ring & 1 == 1) {
            seen[port][ring] = nic.packets[port][ring].load(Ordering::Relaxed);
        }
    }
}

fn sleep(nic: &Nic) -> bool {
    protocol::prepare_sleep(&nic.ports, &nic.sleeping)
}

fn urgent_sleep(nic: &Nic) -> bool {
    protocol::prepare_urgent_sleep(&nic.ports, &nic.sleeping, |port| {
        protocol::has_urgent(&nic.ready[port], &[1 << URGENT])
    })
}

/// Two threads post once each, to the given ports and rings. The NIC looks until it has seen the rings in `wanted`.
fn model(
    posts: [(usize, u32); 2],
    wanted: &'static [(usize, u32)],
    (post, look, sleep): (Post, Look, Sleep),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let nic = Arc::new(Nic::new());
        let threads = posts.map(|(port, ring)| {
            let nic = Arc::clone(&nic);
            thread::spawn(move || {
                if post(&nic, port, ring) {
                    nic.wake.notify();
                }
            })
        });
        let mut seen = [[0; 2]; 2];
        loop {
            look(&nic, &mut seen);
            if wanted.iter().all(|(port, ring)| seen[*port][*ring as usize] > 0) {
                break;
            }
            if sleep(&nic) {
                nic.wake.wait();
                protocol::awake(&nic.sleeping);
            }
        }
        for thread in threads {
            thread.join().expect("a posting thread");
        }
    });
}

fn fails(posts: [(usize, u32); 2], wanted: &'static [(usize, u32)], of: (Post, Look, Sleep)) -> bool {
    std::panic::catch_unwind(|| model(posts, wanted, of)).is_err()
}

const TWO_RINGS: [(usize, u32); 2] = [(0, 0), (0, 1)];
const TWO_PORTS: [(usize, u32); 2] = [(0, 0), (1, 0)];

#[test]
fn no_ring_of_a_port_is_lost() {
    model(TWO_RINGS, &TWO_RINGS, (post, look, sleep));
}

#[test]
fn no_port_is_lost() {
    model(TWO_PORTS, &TWO_PORTS, (post, look, sleep));
}

#[test]
fn an_urgent_ring_wakes_the_nic_whoever_set_the_bit_of_its_port() {
    model(TWO_RINGS, &[(0, URGENT)], (post, look, urgent_sleep));
}

#[test]
fn the_model_notices_rings_taken_before_the_bit_of_their_port() {
    fn rings_first(nic: &Nic, seen: &mut [[u64; 2]; 2]) {
        take_rings(nic, nic.ports[0].load(Ordering::SeqCst), seen);
        protocol::take(&nic.ports[0]);
    }
    assert!(fails(TWO_RINGS, &TWO_RINGS, (post, rings_first, sleep)));
}

/// Posts as the protocol does, up to the ring's bit. Returns whether that was clear.
fn post_to_ring(nic: &Nic, port: usize, ring: u32) -> bool {
    nic.packets[port][ring as usize].fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    nic.ready[port][0].load(Ordering::Relaxed) & 1 << ring == 0
}

fn wake(nic: &Nic, ring: u32) -> bool {
    match nic.sleeping.load(Ordering::Relaxed) {
        0 => false,
        2 if ring != URGENT => false,
        _ => nic.sleeping.swap(0, Ordering::SeqCst) != 0,
    }
}

#[test]
fn the_model_notices_a_port_posted_before_its_ring() {
    fn port_first(nic: &Nic, port: usize, ring: u32) -> bool {
        if !post_to_ring(nic, port, ring) {
            return false;
        }
        nic.ports[0].fetch_or(1 << port, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        nic.ready[port][0].fetch_or(1 << ring, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        wake(nic, ring)
    }
    assert!(fails(TWO_RINGS, &TWO_RINGS, (port_first, look, sleep)));
}

#[test]
fn the_model_notices_a_core_that_leaves_the_wake_up_to_whoever_set_the_port() {
    fn port_set_is_enough(nic: &Nic, port: usize, ring: u32) -> bool {
        if !post_to_ring(nic, port, ring) {
            return false;
        }
        nic.ready[port][0].fetch_or(1 << ring, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if nic.ports[0].load(Ordering::Relaxed) & 1 << port != 0 {
            return false;
        }
        nic.ports[0].fetch_or(1 << port, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        wake(nic, ring)
    }
    assert!(fails(TWO_RINGS, &[(0, URGENT)], (port_set_is_enough, look, urgent_sleep)));
}

#[test]
fn the_model_notices_a_missing_barrier_between_port_and_flag() {
    fn no_fence(nic: &Nic, port: usize, ring: u32) -> bool {
        if !post_to_ring(nic, port, ring) {
            return false;
        }
        nic.ready[port][0].fetch_or(1 << ring, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if nic.ports[0].load(Ordering::Relaxed) & 1 << port == 0 {
            nic.ports[0].fetch_or(1 << port, Ordering::Relaxed);
        }
        wake(nic, ring)
    }
    assert!(fails(TWO_RINGS, &[(0, URGENT)], (no_fence, look, urgent_sleep)));
}

#[test]
fn the_model_notices_a_missing_barrier_between_ring_and_port() {
    fn no_fence(nic: &Nic, port: usize, ring: u32) -> bool {
        if !post_to_ring(nic, port, ring) {
            return false;
        }
        nic.ready[port][0].fetch_or(1 << ring, Ordering::Relaxed);
        if nic.ports[0].load(Ordering::Relaxed) & 1 << port == 0 {
            nic.ports[0].fetch_or(1 << port, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        wake(nic, ring)
    }
    assert!(fails(TWO_RINGS, &TWO_RINGS, (no_fence, look, sleep)));
}
