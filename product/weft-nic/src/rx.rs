//! The receive direction in a thread, which moves packets from the uplink's devices to the ports, unscheduled: all of
//! them, or those that the kernel's redirect ([`redirect`](crate::redirect)) leaves. One thread serves all ports.
//!
//! One iteration:
//! 1. Execute commands, which add and remove ports.
//! 2. Poll the devices until a packet arrives, for at most 50 ms, the longest delay of a stop.
//! 3. Of each device with packets, move up to [`BURST`]: read one from the device, write it to its port.
//! 4. After a full burst, repeat at once. After more than one packet, sleep for the moderation interval, since
//!    acknowledgements arrive in bursts.
//!
//! A device that no longer exists is forgotten, and the others continue.
//!
//! The thread is separate from the transmit worker because acknowledgements that wait for that worker leave senders
//! without data (measured: the 99th percentile of T0 halves). It shares only descriptors and counters, and is the single
//! writer of the rx counters.
//!
//! The macvlan on the interface reassembles the fragments of datagrams to groups and to all, and the port takes no frame above its
//! MTU. Such a datagram is cut into fragments again, and counts as these.
//!
//! Balance: packets read = passed + refused by the port. A read shorter than a virtio-net header is not a packet and
//! cannot come from these devices. A broadcast that the port itself sent is not counted: it left through the NIC's
//! device, so the kernel returns it to the port's.
//!
//! Rare branches and their counters: a failed read (`rx_read_failed`) takes no packet, and the device's own counters have its
//! drops. An end without a stop (`rx_ended`) leaves the port without packets from the uplink.

use crate::commands::Inbox;
use crate::counters::PortCounters;
use crate::ring::FRAME_BYTES;
use crate::sync::{AtomicU32, Ordering};
use crate::worker::{MODERATION, raise_thread_priority};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use weft_host::Mac;
use weft_packet::ethernet::{HEADER, is_to_group};
use weft_packet::fragment::fragments;
use weft_packet::tap::frame_bytes;
use weft_packet::vnet::VnetHeader;
use weft_units::Bytes;

/// Packets moved before the stop flag is checked.
const BURST: usize = 64;

/// A device and the port that receives its packets.
#[derive(Debug)]
pub(crate) struct Source {
    /// The port's number.
    pub(crate) number: usize,
    /// The device.
    pub(crate) uplink: Arc<OwnedFd>,
    /// A ring of the port.
    pub(crate) port: OwnedFd,
    /// The port's hardware address, where the port sends through another device.
    pub(crate) own: Option<Mac>,
    pub(crate) counters: Arc<PortCounters>,
    /// The longest IP packet that the port takes, in bytes.
    pub(crate) mtu: Arc<AtomicU32>,
}

/// A command to the thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// Serves a port.
    Add(Source, Sender<()>),
    /// Forgets the port with this number.
    Remove(usize, Sender<()>),
}

/// Moves packets until `stop` returns true.
pub(crate) fn run(commands: &Inbox<Command>, stop: impl Fn() -> bool) {
    raise_thread_priority();
    let mut buffer = vec![0; FRAME_BYTES];
    let mut sources: Vec<Source> = Vec::new();
    let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while !stop() {
        obey(commands, &mut sources);
        let mut fds: Vec<PollFd<'_>> =
            sources.iter().map(|source| PollFd::new(&*source.uplink, PollFlags::IN)).collect();
        fds.push(PollFd::from_borrowed_fd(commands.wake_fd(), PollFlags::IN));
        let _ = poll(&mut fds, Some(&timeout));
        let events: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        let mut most = 0;
        for (source, events) in sources.iter().zip(&events) {
            if events.contains(PollFlags::IN) {
                most = most.max(burst(source, &mut buffer));
            }
        }
        if (2..BURST).contains(&most) {
            // Acknowledgements arrive in bursts: one short sleep is cheaper than a wake-up per packet.
            let pause = rustix::time::Timespec { tv_sec: 0, tv_nsec: MODERATION.get() as i64 };
            let _ = poll(&mut [], Some(&pause));
        }
        let mut ended = events.iter().map(|events| events.intersects(PollFlags::ERR | PollFlags::HUP));
        sources.retain(|source| {
            let ended = ended.next().unwrap_or(false);
            if ended {
                source.counters.rx_ended.set(u64::from(!stop()));
            }
            !ended
        });
    }
}

fn obey(commands: &Inbox<Command>, sources: &mut Vec<Source>) {
    commands.clear();
    while let Some(command) = commands.take() {
        let answer = match command {
            Command::Add(source, answer) => {
                sources.push(source);
                answer
            }
            Command::Remove(number, answer) => {
                sources.retain(|source| source.number != number);
                answer
            }
        };
        // An asker that no longer waits needs no answer.
        let _ = answer.send(());
    }
}

/// Moves up to [`BURST`] packets of one device. Returns their number.
fn burst(source: &Source, buffer: &mut [u8]) -> usize {
    let mut moved = 0;
    while moved < BURST && forward(source, buffer) {
        moved += 1;
    }
    moved
}

/// Moves one packet. Returns false when the device has no packet.
fn forward(source: &Source, buffer: &mut [u8]) -> bool {
    let counters = &source.counters;
    let length = match rustix::io::read(&source.uplink, &mut *buffer) {
        Ok(length) => length,
        Err(Errno::INTR) => return true,
        Err(Errno::AGAIN) => return false,
        Err(_) => {
            counters.rx_read_failed.add(1, 0);
            return false;
        }
    };
    if frame_bytes(length).is_none() {
        return false;
    }
    let sender = buffer.get(VnetHeader::LEN + 6..VnetHeader::LEN + 12);
    if source.own.is_some_and(|own| sender == Some(&own.0)) {
        return true;
    }
    let read = &buffer[..length];
    match reassembled(read, source.mtu.load(Ordering::Relaxed)) {
        Some(cut) => cut.iter().for_each(|part| pass(source, part)),
        None => pass(source, read),
    }
    true
}

/// Passes a packet with its virtio-net header to the port.
fn pass(source: &Source, packet: &[u8]) {
    let (counters, bytes) = (&source.counters, frame_bytes(packet.len()).map_or(0, Bytes::get));
    counters.rx.add(1, bytes);
    match rustix::io::write(&source.port, packet) {
        Ok(written) => counters.rx_passed.add(1, frame_bytes(written).map_or(0, Bytes::get)),
        Err(_) => counters.rx_refused.add(1, bytes),
    }
}

/// The fragments of a datagram that is longer than `mtu` because a macvlan has reassembled it, each with a virtio-net header;
/// `None` of any other packet.
fn reassembled(read: &[u8], mtu: u32) -> Option<Vec<Vec<u8>>> {
    let (header, frame) = read.split_first_chunk::<{ VnetHeader::LEN }>()?;
    let (header, longest) = (VnetHeader::parse(header), u64::from(mtu) + HEADER.get());
    if frame.len() as u64 <= longest || !is_to_group(frame) || header.is_gso() || header.needs_csum() {
        return None;
    }
    let with_header = |part: Vec<u8>| [&VnetHeader::default().emit()[..], &part].concat();
    Some(fragments(frame, mtu as usize)?.into_iter().map(with_header).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::commands;
    use rustix::fs::{OFlags, fcntl_setfl};
    use weft_units::Packets;

    /// A pipe in place of a device: the end that is read does not wait.
    fn pipe() -> (OwnedFd, OwnedFd) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        fcntl_setfl(&reader, OFlags::NONBLOCK).expect("a flag");
        (reader.into(), writer.into())
    }

    fn source(uplink: OwnedFd, port: OwnedFd) -> Source {
        let counters = Arc::new(PortCounters::new(1));
        Source { number: 0, uplink: Arc::new(uplink), port, own: None, counters, mtu: Arc::new(1500.into()) }
    }

    #[test]
    fn a_failed_read_is_counted_and_an_empty_uplink_is_not() {
        let (empty, sink) = pipe();
        let mut buffer = vec![0; FRAME_BYTES];
        let reads = source(empty, sink.try_clone().expect("a descriptor"));
        assert!(!forward(&reads, &mut buffer));
        assert_eq!(reads.counters.rx_read_failed.get().packets, Packets(0));
        // The end of a pipe that is only written.
        let fails = source(sink.try_clone().expect("a descriptor"), sink);
        assert!(!forward(&fails, &mut buffer));
        assert_eq!(fails.counters.rx_read_failed.get().packets, Packets(1));
        assert_eq!(fails.counters.rx.get().packets, Packets(0));
    }

    /// Runs the thread with a device that has ended and one that lives, for two iterations. Returns the counters.
    fn ended(stop: impl Fn(u32) -> bool) -> [u64; 2] {
        let (uplink, sender) = pipe();
        drop(sender);
        let (living, _sender) = pipe();
        let (_port, sink) = pipe();
        let (commander, inbox) = commands().expect("eventfd");
        let sources = [source(uplink, sink.try_clone().expect("a descriptor")), source(living, sink)];
        let counters = sources.each_ref().map(|source| Arc::clone(&source.counters));
        let asker = std::thread::spawn(move || {
            for source in sources {
                commander.ask(|answer| Command::Add(source, answer));
            }
        });
        let asked = core::cell::Cell::new(0);
        run(&inbox, || {
            asked.set(asked.get() + 1);
            asked.get() > 1 && asker.is_finished() && stop(asked.get())
        });
        counters.map(|counters| counters.rx_ended.get())
    }

    #[test]
    fn an_end_without_a_stop_is_recorded_and_ends_no_other() {
        let start = std::time::Instant::now();
        assert_eq!(ended(|_| start.elapsed() > core::time::Duration::from_millis(300)), [1, 0]);
    }
}
