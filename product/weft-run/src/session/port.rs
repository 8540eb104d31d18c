//! The making of a session's port.

use super::{PortKind, PortSettings, RING_PACKETS};
use weft_host::netns::NetNs;
use weft_host::tap::FullRing;
use weft_nic::port::{Port, PortConfig, PortError, RING_SLOTS, TapConfig};

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
