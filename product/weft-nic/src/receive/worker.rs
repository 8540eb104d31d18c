//! The receive thread, which reads the wire, steers, and serves the queues; and the thread of the other direction.

use super::counters::ReceiveCounters;
use super::headers::packet_headers;
use super::queues::Queues;
use super::{VNET, frame_bytes};
use crate::ring::FRAME_BYTES;
use crate::worker::raise_thread_priority;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use weft_host::clock;
use weft_packet::HeaderMatch;
use weft_units::{Nanos, RxQueueId};

/// The steering function: the queue of a packet, or `None` for a packet that is not received.
pub type Steer = dyn Fn(&HeaderMatch) -> Option<RxQueueId> + Send + Sync;

/// Frames read before the queues are served: the maximum of one poll in a NIC driver (`NAPI_POLL_WEIGHT`).
const BURST: usize = 64;
/// The longest sleep of a thread, and so the maximum delay of a stop.
const PATIENCE: Nanos = Nanos::from_millis(50);

/// The steering in force. A reader keeps its own reference and takes a new one when the generation has changed. A
/// packet therefore sees either the old steering or the new one, and no packet waits for a change.
pub(super) struct InForce {
    generation: AtomicU64,
    steer: Mutex<Arc<Steer>>,
}

impl core::fmt::Debug for InForce {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "InForce(generation {})", self.generation.load(Ordering::Relaxed))
    }
}

impl InForce {
    pub(super) fn new(steer: Arc<Steer>) -> Self {
        Self { generation: AtomicU64::new(0), steer: Mutex::new(steer) }
    }

    /// Replaces the steering: packets read from now on see `steer`.
    pub(super) fn replace(&self, steer: Arc<Steer>) -> u64 {
        let mut held = self.steer.lock().unwrap_or_else(PoisonError::into_inner);
        *held = steer;
        self.generation.fetch_add(1, Ordering::Release) + 1
    }

    fn current(&self) -> (u64, Arc<Steer>) {
        let held = self.steer.lock().unwrap_or_else(PoisonError::into_inner);
        (self.generation.load(Ordering::Acquire), Arc::clone(&held))
    }
}

/// The parts of the receive thread.
pub(super) struct ReceiveWorker {
    pub(super) wire: OwnedFd,
    pub(super) host: OwnedFd,
    pub(super) queues: Queues,
    pub(super) counters: Arc<ReceiveCounters>,
    pub(super) steering: Arc<InForce>,
}

/// The result of a burst of reads.
enum Took {
    /// The wire is empty.
    All,
    /// The wire may have more frames.
    Burst,
}

impl ReceiveWorker {
    /// Runs until `stop` returns true.
    ///
    /// # Errors
    /// When the wire's device no longer exists.
    pub(super) fn run(mut self, stop: impl Fn() -> bool) -> Result<(), Errno> {
        raise_thread_priority();
        // If the kernel refuses, wake-ups are up to 50 us late; the lateness counter shows the cost.
        let _ = clock::set_timer_slack();
        let mut buffer = vec![0; FRAME_BYTES];
        let (mut generation, mut steer) = self.steering.current();
        while !stop() {
            let took = self.take(&mut buffer, &mut generation, &mut steer)?;
            let now = clock::now();
            let host = &self.host;
            let deliver = |frame: &[u8]| write_whole(host, frame);
            let served = self.queues.serve(now, &self.counters.queues, deliver);
            if matches!(took, Took::All) && !served {
                self.counters.cpu.set(thread_cpu());
                self.sleep_until_work()?;
            }
        }
        self.counters.cpu.set(thread_cpu());
        self.queues.count_left(&self.counters.queues);
        Ok(())
    }

    /// Reads a burst from the wire into the queues.
    fn take(
        &mut self,
        buffer: &mut [u8],
        generation: &mut u64,
        steer: &mut Arc<Steer>,
    ) -> Result<Took, Errno> {
        for _ in 0..BURST {
            let length = match rustix::io::read(&self.wire, &mut *buffer) {
                Ok(0) => return Ok(Took::All),
                Ok(n) => n,
                Err(Errno::AGAIN) => return Ok(Took::All),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            // After the read: a packet sent after a replacement sees the new steering.
            if self.steering.generation.load(Ordering::Acquire) != *generation {
                (*generation, *steer) = self.steering.current();
                self.counters.generation.set(*generation);
            }
            self.steer(&buffer[..length], steer.as_ref());
        }
        Ok(Took::Burst)
    }

    fn steer(&mut self, frame: &[u8], steer: &Steer) {
        let (counters, bytes) = (&self.counters, frame_bytes(frame));
        counters.read.add(1, bytes);
        let Some(headers) = frame.get(VNET..).and_then(packet_headers) else {
            return counters.runts.add(1, bytes);
        };
        let Some(queue) = steer(&headers) else { return counters.filtered.add(1, bytes) };
        match counters.queues.get(queue.index()) {
            Some(of_queue) => {
                self.queues.offer(queue.index(), frame, of_queue);
            }
            None => counters.misrouted.add(1, bytes),
        }
    }

    /// Sleeps until a frame arrives or a queue may be served.
    fn sleep_until_work(&self) -> Result<(), Errno> {
        let now = clock::now();
        let until = self.queues.ready_at().unwrap_or(now + PATIENCE).min(now + PATIENCE);
        wait_readable(&self.wire, until.saturating_since(now))
    }
}

/// Writes a frame to a device. A full device refuses it.
fn write_whole(fd: &OwnedFd, frame: &[u8]) -> bool {
    loop {
        match rustix::io::write(fd, frame) {
            Err(Errno::INTR) => {}
            result => return result == Ok(frame.len()),
        }
    }
}

fn wait_readable(fd: &OwnedFd, span: Nanos) -> Result<(), Errno> {
    let span = Duration::from_nanos(span.get());
    let timeout = rustix::time::Timespec::try_from(span).unwrap_or_default();
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error),
    }
    if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
        return Err(Errno::NODEV);
    }
    Ok(())
}

/// Processor time of the calling thread.
fn thread_cpu() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Moves packets from the host to the wire until `stop` returns true.
pub(super) fn reverse(host: &OwnedFd, wire: &OwnedFd, counters: &ReceiveCounters, stop: impl Fn() -> bool) {
    raise_thread_priority();
    let mut buffer = vec![0; FRAME_BYTES];
    while !stop() {
        match rustix::io::read(host, &mut buffer) {
            Ok(length) if length > VNET => {
                let frame = &buffer[..length];
                counters.rx.add(1, frame_bytes(frame));
                if !write_whole(wire, frame) {
                    counters.rx_refused.add(1, frame_bytes(frame));
                }
            }
            Ok(_) | Err(Errno::AGAIN) => {
                if wait_readable(host, PATIENCE).is_err() {
                    return;
                }
            }
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
