//! The pass-through worker: it takes the place of a transmit worker that does not run, in NICs whose packets then pass unscheduled
//! ([`OnFailure::Pass`](crate::nic::OnFailure)).
//!
//! The programs at the ports let new packets pass once the worker's heartbeat is over. That is not enough: packets that wait
//! in the rings are still charged to their sockets, and TCP sends nothing more while they are (`tcp_small_queue_check`), not
//! even again (`skb_still_in_host_queue`, net/ipv4/tcp_output.c). Another process must empty the rings. The keeper of the NIC's
//! descriptors can: it reads each ring in turn and writes the packets to the uplink as they are.
//!
//! [`PassThroughWorker::look`] is called some dozens of times a second. It counts what it has sent in `drained` of each ring, which the
//! worker adds to its own count when it is back (`Ring::take_drained`). Packets of a worker that continues in the same moment
//! may leave in another order.
//!
//! Rare branches: a packet that the uplink has no room for waits for the next look, also when the worker is back or the
//! descriptors have changed; one that it refuses is dropped, as by the worker, and counted as sent on. A packet that is lost
//! before it is counted is missing from `drained`, so the worker gives it up as one that no counter explains.

use crate::layout::{Shared, Summary};
use crate::ring::FRAME_BYTES;
use crate::sync::Ordering;
use crate::worker::raise_thread_priority;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use weft_host::bpf::{MapFd, SharedValue};
use weft_host::clock;
use weft_host::keeper::{Kept, Watch};
use weft_packet::ethernet;
use weft_packet::vnet::VnetHeader;
use weft_units::Nanos;

/// The age from which on a heartbeat is over: `WEFT_HEARTBEAT_NS` of bpf/doorbell.h.
const OVER: Nanos = Nanos::from_millis(80);
/// The interval of looks at a NIC whose packets pass.
const OFTEN: Duration = Duration::from_millis(10);
/// The interval of looks at others, which may be set to pass.
const SELDOM: Duration = Duration::from_secs(1);
/// The packets of one look, after which the keeper serves its users.
const PACKETS: usize = 4096;

/// A ring, and the page and the number of its doorbell.
#[derive(Debug)]
struct RingOf {
    fd: OwnedFd,
    port: usize,
    number: usize,
}

/// The kept parts of a NIC that the worker uses.
#[derive(Debug)]
struct Parts {
    summary: SharedValue<Summary>,
    uplink: OwnedFd,
    pages: BTreeMap<usize, SharedValue<Shared>>,
    rings: Vec<RingOf>,
}

/// A packet that was read from a ring and not sent yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    length: usize,
    /// Its port, and the number of its ring.
    of: (usize, usize),
}

/// The pass-through worker of a NIC.
#[derive(Debug, Default)]
pub struct PassThroughWorker {
    parts: Option<Parts>,
    /// The packet that the uplink had no room for. It is in the buffer.
    pending: Option<Pending>,
    buffer: Vec<u8>,
    /// Whether the thread has the priority of a NIC.
    prior: bool,
}

impl Watch for PassThroughWorker {
    fn look(&mut self, kept: &Kept, changed: bool) -> Duration {
        if changed {
            self.parts = Parts::of(kept);
        }
        let Some(parts) = &self.parts else { return SELDOM };
        if parts.summary.pass_to.load(Ordering::Acquire) == 0 {
            return SELDOM;
        }
        if !self.prior {
            // As the worker that it replaces, before the applications.
            raise_thread_priority();
            self.prior = true;
        }
        let beat = parts.summary.heartbeat.load(Ordering::Acquire);
        // The worker that is back does not have the packet that waits here.
        if self.send_pending() && clock::now().as_nanos().saturating_sub(beat) > OVER.get() {
            self.drain();
        }
        OFTEN
    }
}

impl PassThroughWorker {
    /// Sends the packet that waits for room. Returns whether none waits any more.
    fn send_pending(&mut self) -> bool {
        let (Some(parts), Some(Pending { length, of })) = (&self.parts, self.pending) else { return true };
        let sent = parts.send(&self.buffer[..length]);
        if sent {
            parts.count(of);
            self.pending = None;
        }
        sent
    }

    /// Sends what the rings hold, as far as the uplink has room.
    fn drain(&mut self) {
        let Some(parts) = &self.parts else { return };
        self.buffer.resize(FRAME_BYTES, 0);
        let mut sent = 0;
        for ring in &parts.rings {
            while let Ok(length) = rustix::io::read(&ring.fd, &mut self.buffer[..]) {
                ethernet::show_group(self.buffer[..length].get_mut(VnetHeader::LEN..).unwrap_or_default());
                let of = (ring.port, ring.number);
                if !parts.send(&self.buffer[..length]) {
                    self.pending = Some(Pending { length, of });
                    return;
                }
                parts.count(of);
                sent += 1;
                if sent == PACKETS {
                    return;
                }
            }
        }
    }
}

impl Parts {
    /// The parts of what is kept; `None` if they are not complete.
    fn of(kept: &Kept) -> Option<Self> {
        let fds = &kept.descriptors;
        let map = |name: &str| MapFd::received(fds.get(name)?, name).ok();
        let summary = map("map.summary")?.shared().ok()?;
        let uplink = fds.get("uplink")?.as_fd().try_clone_to_owned().ok()?;
        let (mut pages, mut rings) = (BTreeMap::new(), Vec::new());
        for (name, fd) in fds {
            let Some((port, what)) = name.strip_prefix("port").and_then(|rest| rest.split_once('.')) else {
                continue;
            };
            let Ok(port) = port.parse::<usize>() else { continue };
            if what == "map.doorbells" {
                pages.insert(port, map(name)?.shared().ok()?);
            } else if let Some(Ok(number)) = what.strip_prefix("ring").map(str::parse) {
                rings.push(RingOf { fd: fd.as_fd().try_clone_to_owned().ok()?, port, number });
            }
        }
        Some(Self { summary, uplink, pages, rings })
    }

    /// Sends a packet with its virtio-net header. Returns false if there is no room.
    fn send(&self, packet: &[u8]) -> bool {
        loop {
            match rustix::io::write(&self.uplink, packet) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return false,
                Ok(_) | Err(_) => return true,
            }
        }
    }

    /// Counts a packet of ring `number` of `port` as sent.
    fn count(&self, (port, number): (usize, usize)) {
        let page = self.pages.get(&port);
        if let Some(bell) = page.and_then(|page| page.rings.get(number)) {
            bell.drained.fetch_add(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doorbell::Doorbells;
    use crate::plan::{Mode, RingPlan};
    use std::os::unix::net::UnixDatagram;
    use weft_host::testing::privileged;
    use weft_policy::{CompileOptions, Source, compile};

    fn doorbells() -> std::sync::Arc<Doorbells> {
        let source = Source { name: "test", text: "class a = udp\nroot = priority { a }" };
        let policy = compile(source, &CompileOptions::default()).policy.expect("a policy");
        let plan = RingPlan::new(&policy, Mode::Loom, 4, &[]).expect("plan");
        Doorbells::load(&plan, &[]).expect("programs")
    }

    /// Two ends that never block: what is written to one is read from the other, a packet at a time.
    fn pair() -> [UnixDatagram; 2] {
        let (a, b) = UnixDatagram::pair().expect("a pair");
        [a, b].map(|end| {
            end.set_nonblocking(true).expect("set");
            end
        })
    }

    #[test]
    fn a_packet_without_room_is_counted_and_sent_once_there_is_some() {
        if !privileged("a_packet_without_room_is_counted_and_sent_once_there_is_some") {
            return;
        }
        let doorbells = doorbells();
        let [uplink, wire] = pair();
        let [ring, port] = pair();
        let mut kept = Kept::default();
        let shared = doorbells.maps().descriptors().expect("maps");
        let named = shared.iter().map(|(name, map)| (format!("map.{name}"), map.as_fd()));
        let own = doorbells.own_maps().expect("maps");
        let own = own.iter().map(|(name, map)| (format!("port0.map.{name}"), map.as_fd()));
        let others = [("uplink".to_owned(), uplink.as_fd()), ("port0.ring0".to_owned(), ring.as_fd())];
        for (name, fd) in named.chain(own).chain(others) {
            kept.descriptors.insert(name, fd.try_clone_to_owned().expect("a duplicate"));
        }
        let summary = &shared.iter().find(|(name, _)| *name == "summary").expect("summary").1;
        let summary: SharedValue<Summary> = summary.shared().expect("mapped");
        summary.pass_to.store(1, Ordering::Release);
        let drained = || doorbells.shared().rings[0].drained.load(Ordering::Acquire);
        while uplink.send(&[0; 8]).is_ok() {}
        // To one station, from one.
        let packet = [6; 100];
        port.send(&packet).expect("a packet in the ring");
        let mut worker = PassThroughWorker::default();
        worker.look(&kept, true);
        assert_eq!(drained(), 0, "a packet that was not sent is counted");
        // Other descriptors are kept, and the worker is back: no look reads the rings any more.
        summary.heartbeat.store(u64::MAX, Ordering::Release);
        worker.look(&kept, true);
        assert_eq!(drained(), 0);
        let mut arrived = Vec::new();
        let mut read = || {
            let mut bytes = [0; 200];
            while let Ok(length) = wire.recv(&mut bytes) {
                arrived.extend((length != 8).then(|| bytes[..length].to_vec()));
            }
            arrived.clone()
        };
        assert_eq!(read(), Vec::<Vec<u8>>::new());
        worker.look(&kept, false);
        assert_eq!((read(), drained()), (vec![packet.to_vec()], 1));
        worker.look(&kept, true);
        assert_eq!((read().len(), drained()), (1, 1), "once");
    }
}
