//! Interrupt moderation and ring lengths, as `ethtool -c` and `ethtool -g` show them.

use super::error::Result;
use super::layout::{self, coalesce, ringparam};
use super::nic::{Nic, command, unsupported};
use super::transport::Transport;
use crate::netlink::u32_at;
use weft_units::{Nanos, Packets};

/// The delays of interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moderation {
    /// After a packet was received.
    pub rx: Nanos,
    /// After a packet was sent; zero where the driver delays both by `rx`.
    pub tx: Nanos,
}

/// The lengths of a queue's rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rings {
    /// The receive ring.
    pub rx: Packets,
    /// The transmit ring.
    pub tx: Packets,
}

impl<T: Transport> Nic<T> {
    /// The moderation of interrupts; `None` if the driver does not report it.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn moderation(&mut self) -> Result<Option<Moderation>> {
        let mut buffer = command::<{ coalesce::LEN }>(layout::GCOALESCE);
        let micros = |buffer: &[u8], at| Nanos::from_micros(u32_at(buffer, at).into());
        match self.transport.ioctl(&self.device, &mut buffer) {
            Ok(()) => {
                Ok(Some(Moderation { rx: micros(&buffer, coalesce::RX), tx: micros(&buffer, coalesce::TX) }))
            }
            Err(e) if unsupported(&e) => Ok(None),
            Err(e) => Err(self.failed("read the moderation of interrupts", e).into()),
        }
    }

    /// The lengths of the rings; `None` if the driver does not report them.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn rings(&mut self) -> Result<Option<Rings>> {
        let mut buffer = command::<{ ringparam::LEN }>(layout::GRINGPARAM);
        let packets = |buffer: &[u8], at| Packets(u32_at(buffer, at).into());
        match self.transport.ioctl(&self.device, &mut buffer) {
            Ok(()) => {
                Ok(Some(Rings { rx: packets(&buffer, ringparam::RX), tx: packets(&buffer, ringparam::TX) }))
            }
            Err(e) if unsupported(&e) => Ok(None),
            Err(e) => Err(self.failed("read the lengths of the rings", e).into()),
        }
    }
}
