//! A running receive side: its devices, threads and totals.

use super::budget::Budget;
use super::counters::{ReceiveCounters, ReceiveTotals};
use super::queues::Queues;
use super::worker::{InForce, ReceiveWorker, Steer, reverse};
use crate::port::{Port, PortError, Uplink};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use weft_host::clock;
use weft_host::link::{self, LinkError};
use weft_units::{Counted, Nanos, Packets};

/// The configuration of a receive side.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveConfig {
    /// The number of receive queues.
    pub queues: u32,
    /// The capacity of a queue's ring in packets; one more is dropped.
    pub ring_packets: u32,
    /// The service capacity of each queue.
    pub budget: Budget,
}

/// Errors from starting or running a receive side.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The wire or the host's device failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A device was deleted, or a thread could not be started.
    #[error("the receive side of the software NIC at {device}: {what}")]
    Stopped {
        /// The device.
        device: String,
        /// The event.
        what: String,
    },
    /// The number of queues or their capacity is zero.
    #[error("a receive side needs at least one queue whose ring holds at least one packet")]
    NoQueues,
}

impl From<LinkError> for ReceiveError {
    fn from(error: LinkError) -> Self {
        Self::Port(error.into())
    }
}

/// The kernel's counters when the NIC started.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    wire: Counted,
    host: Counted,
}

/// The packets sent by the near end of the wire, from the kernel's counters.
fn sent(wire: &Port) -> Result<Counted, LinkError> {
    let stats = link::stats(wire.near().namespace(), wire.name())?;
    Ok(Counted { packets: stats.tx_packets, bytes: stats.tx_bytes })
}

/// A running receive side. Packets that enter `wire` at its near end leave by `host`, through their queues. The other
/// direction has no queues. Dropping it ends its threads and deletes its devices.
#[derive(Debug)]
pub struct ReceiveNic {
    wire: Port,
    host: Uplink,
    before: Before,
    counters: Arc<ReceiveCounters>,
    steering: Arc<InForce>,
    stop: Arc<AtomicBool>,
    receiver: Option<JoinHandle<Result<(), Errno>>>,
    sender: Option<JoinHandle<()>>,
}

impl ReceiveNic {
    /// Starts a receive side on `wire`, a port with one ring, and `host`, which must be a TAP; steers by `steer`.
    /// Brings the wire up; the caller brings up the host's device and sets its addresses.
    ///
    /// # Errors
    /// When a descriptor cannot be duplicated, a thread cannot be started, or the wire does not come up.
    pub fn start(
        config: &ReceiveConfig,
        mut wire: Port,
        host: Uplink,
        steer: Arc<Steer>,
    ) -> Result<Self, ReceiveError> {
        if config.queues == 0 || config.ring_packets == 0 {
            return Err(ReceiveError::NoQueues);
        }
        let name = wire.name().to_owned();
        let failed = |what: String| ReceiveError::Stopped { device: name.clone(), what };
        let duplicate =
            |fd: &OwnedFd| fd.try_clone().map_err(|e| failed(format!("duplicate a descriptor: {e}")));
        let wire_fd =
            wire.rings.pop().ok_or_else(|| failed("the port has no ring to read from".to_owned()))?;
        let before = Before { wire: sent(&wire)?, host: host.arrived()?.0 };
        let counters = Arc::new(ReceiveCounters::new(config.queues));
        let steering = Arc::new(InForce::new(steer));
        let stop = Arc::new(AtomicBool::new(false));
        let (wire_back, host_back) = (duplicate(&wire_fd)?, duplicate(&host.fd)?);
        let worker = ReceiveWorker {
            wire: wire_fd,
            host: duplicate(&host.fd)?,
            queues: Queues::new(config.queues, config.ring_packets, config.budget, clock::now()),
            counters: Arc::clone(&counters),
            steering: Arc::clone(&steering),
        };
        let mut nic = Self { wire, host, before, counters, steering, stop, receiver: None, sender: None };
        let stop = Arc::clone(&nic.stop);
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let receiver = thread("weft-rx").spawn(move || worker.run(|| stop.load(Ordering::Relaxed)));
        nic.receiver = Some(receiver.map_err(|e| failed(format!("start the receive thread: {e}")))?);
        let (stop, counters) = (Arc::clone(&nic.stop), Arc::clone(&nic.counters));
        let back = move || reverse(&host_back, &wire_back, &counters, || stop.load(Ordering::Relaxed));
        let sender = thread("weft-rx-reply").spawn(back);
        nic.sender = Some(sender.map_err(|e| failed(format!("start the reply thread: {e}")))?);
        nic.wire.up()?;
        Ok(nic)
    }

    /// Replaces the steering. Packets sent into the wire after this returns are steered by the new one. Packets in the
    /// queues stay there, and none is lost.
    pub fn replace(&self, steer: Arc<Steer>) {
        self.steering.replace(steer);
    }

    /// The live counters.
    pub fn counters(&self) -> &ReceiveCounters {
        &self.counters
    }

    /// The wire's near end.
    pub fn wire(&self) -> &Port {
        &self.wire
    }

    /// The host's device.
    pub fn host(&self) -> &Uplink {
        &self.host
    }

    /// Whether the receive thread still runs; it ends early only when its devices are deleted.
    pub fn is_running(&self) -> bool {
        self.receiver.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// The current totals.
    ///
    /// # Errors
    /// When a device no longer exists.
    pub fn totals(&self) -> Result<ReceiveTotals, ReceiveError> {
        let c = &self.counters;
        let (host, _) = self.host.arrived()?;
        let queues = c.queues.iter().map(super::counters::QueueCounters::totals).collect();
        let read = c.read.get();
        Ok(ReceiveTotals {
            wire: sent(&self.wire)?.saturating_sub(self.before.wire),
            wire_drops: self.wire.drops()?,
            read,
            runts: c.runts.get(),
            filtered: c.filtered.get(),
            misrouted: c.misrouted.get(),
            queues,
            host: host.saturating_sub(self.before.host),
            rx: c.rx.get(),
            rx_refused: c.rx_refused.get(),
            cpu: Nanos(c.cpu.get()),
        })
    }

    /// Waits until every packet that entered the wire has been served, for at most `grace`. Returns whether that was
    /// reached.
    ///
    /// # Errors
    /// When a device no longer exists.
    pub fn drain(&self, grace: Nanos) -> Result<bool, ReceiveError> {
        let until = clock::now() + grace;
        loop {
            let totals = self.totals()?;
            let arrived = totals.wire.packets <= totals.read.packets + Packets(totals.wire_drops.ring_full);
            if arrived && totals.sum(super::QueueTotals::held) == Packets(0) {
                return Ok(true);
            }
            if clock::now() >= until || !self.is_running() {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Takes the wire down, serves the packets that have entered for at most `grace`, and stops the threads. Packets
    /// left in the queues count as held.
    ///
    /// # Errors
    /// When the receive thread failed before, with the reason.
    pub fn stop(mut self, grace: Nanos) -> Result<ReceiveTotals, ReceiveError> {
        let _ = self.wire.down();
        self.drain(grace)?;
        self.join()?;
        self.totals()
    }

    fn join(&mut self) -> Result<(), ReceiveError> {
        self.stop.store(true, Ordering::SeqCst);
        let device = self.wire.name().to_owned();
        let failed = |what: String| ReceiveError::Stopped { device: device.clone(), what };
        let sender = self.sender.take().map_or(Ok(()), JoinHandle::join);
        let receiver = self.receiver.take().map(JoinHandle::join);
        sender.map_err(|_| failed("the reply thread panicked".to_owned()))?;
        match receiver {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(failed(format!("read the wire: {error}"))),
            Some(Err(_)) => Err(failed("the receive thread panicked".to_owned())),
        }
    }
}

impl Drop for ReceiveNic {
    fn drop(&mut self) {
        // A drop cannot report an error.
        let _ = self.join();
    }
}
