//! The kind of a session's port.

use super::{PortSettings, RING_PACKETS};
use weft_host::netns::NetNs;
use weft_host::tap::{self, FullRing, TapError};
use weft_nic::port::{Port, PortConfig, PortError, RING_SLOTS, Receive, TapConfig};
use weft_nic::redirect::ThreadReason;

/// The kind of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PortKind {
    /// A veth whose far end carries a macvtap. Works on every kernel.
    Veth,
    /// A TAP that holds senders back (Linux 7.3).
    Tap,
    /// The better one of those that the kernel has: at present a veth (docs/kernels.md, "The kinds of port").
    #[default]
    Auto,
}

impl PortKind {
    /// Checks that the kernel has the kind.
    ///
    /// # Errors
    /// When a TAP was requested and would drop packets at a full ring.
    pub(super) fn check(self) -> Result<(), TapError> {
        match self {
            Self::Veth | Self::Auto => Ok(()),
            Self::Tap => tap::require_backpressure(),
        }
    }

    /// Checks that the kernel can carry received packets to a port of this kind, if `receive` requires it.
    ///
    /// # Errors
    /// When a TAP shall receive in the kernel.
    pub(super) fn check_receive(self, receive: Receive) -> Result<(), ThreadReason> {
        match (self, receive) {
            (Self::Tap, Receive::Kernel) => Err(ThreadReason::TapPort),
            _ => Ok(()),
        }
    }
}

impl PortSettings {
    /// Creates the port with `rings` rings. `nic` is the namespace of a veth's far end.
    pub(super) fn create_port(&self, (app, nic): (&NetNs, &NetNs), rings: u32) -> Result<Port, PortError> {
        let (name, mac, ring_packets) = (self.name.as_str(), self.mac, RING_PACKETS);
        match self.kind {
            // Packets of a flow left in a ring are known only by counts, which do not order packets sent from different
            // cores.
            PortKind::Veth | PortKind::Auto => {
                Port::create(&PortConfig { app, nic, name, mac, rings, ring_packets, single_backlog: true })
            }
            PortKind::Tap => {
                let (slots, full_ring) = (RING_SLOTS, FullRing::HoldsBack);
                Port::create_tap(&TapConfig { app, name, mac, rings, ring_packets, slots, full_ring })
            }
        }
    }
}
