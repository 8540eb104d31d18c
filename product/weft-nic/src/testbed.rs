//! A testbed of sender, NIC and receiver, each in a network namespace of this run. Experiments and tests place a
//! software NIC between real TCP stacks. Nothing outside is changed, and everything is removed when the value is
//! dropped.

use crate::port::{Port, PortConfig, PortError, TapConfig, Uplink, ring_slots};
use core::net::{IpAddr, Ipv4Addr};
use weft_host::link::{self, LinkError, Mac};
use weft_host::netns::{NetNs, NetNsError};
use weft_host::run_id::RunId;
use weft_host::sysctl;
use weft_host::tap::{self, FullRing};

/// The sender's address.
pub const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1));
/// The receiver's address.
pub const RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 2));
/// Two more addresses of the receiver: the destinations of Loom's Figure 11.
pub const DESTINATIONS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 99, 1, 1)), IpAddr::V4(Ipv4Addr::new(10, 99, 1, 2))];
/// The prefix length of the network that contains all of them.
const PREFIX: u8 = 16;
/// The name of the port in the sender.
pub const PORT: &str = "port0";
/// The time allowed for the links to come up.
const PATIENCE: core::time::Duration = core::time::Duration::from_secs(2);
/// The name of the wire's end in the receiver.
pub const WIRE: &str = "wire0";

/// Errors from creating the testbed.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// A namespace failed.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A link or an address failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The port or the uplink failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// The three namespaces.
#[derive(Debug)]
pub struct Testbed {
    /// The namespace of the sending applications.
    pub sender: NetNs,
    /// The namespace of the rings.
    pub nic: NetNs,
    /// The namespace of the receiving applications.
    pub receiver: NetNs,
}

impl Testbed {
    /// Creates the namespaces `weft-…-ROLEsnd`, `-ROLEnic` and `-ROLErcv`.
    ///
    /// # Errors
    /// Without the privilege to create network namespaces.
    pub fn create(role: &str) -> Result<Self, TestbedError> {
        let run = RunId::current();
        let make = |part: &str| NetNs::create(&run.name(&format!("{role}{part}")));
        let testbed = Self { sender: make("snd")?, nic: make("nic")?, receiver: make("rcv")? };
        for ns in [&testbed.sender, &testbed.receiver] {
            sysctl::disable_ipv6(ns);
        }
        Ok(testbed)
    }

    /// Creates a port with `rings` rings of `ring_packets` packets in the sender, and an uplink into the receiver, for
    /// a NIC that receives. A NIC that sends needs a single backlog.
    ///
    /// # Errors
    /// When a device cannot be created.
    pub fn devices(&self, rings: u32, ring_packets: u32) -> Result<(Port, Uplink), TestbedError> {
        self.devices_with(rings, ring_packets, false)
    }

    /// Creates the devices as [`devices`](Self::devices), with `single_backlog` as in [`PortConfig`].
    ///
    /// # Errors
    /// When a device cannot be created, or the backlog cannot be set.
    pub fn devices_with(
        &self,
        rings: u32,
        ring_packets: u32,
        single_backlog: bool,
    ) -> Result<(Port, Uplink), TestbedError> {
        Ok((self.port(rings, ring_packets, single_backlog)?, Uplink::tap(&self.receiver, WIRE)?))
    }

    /// Creates the port alone, for an uplink of another kind. Its device, or the other end of its wire, is [`WIRE`].
    ///
    /// # Errors
    /// When the device cannot be created, or the backlog cannot be set.
    pub fn port(&self, rings: u32, ring_packets: u32, single_backlog: bool) -> Result<Port, TestbedError> {
        let (app, nic, mac) = (&self.sender, &self.nic, Mac::local(1));
        let config = PortConfig { app, nic, name: PORT, mac, rings, ring_packets, single_backlog };
        Ok(Port::create(&config)?)
    }

    /// Creates the devices with a port that is a TAP: `rings` rings of `slots` packets, above each of which
    /// `ring_packets` may wait. On a kernel whose TAPs drop at a full ring, a ring has slots for as many.
    ///
    /// # Errors
    /// When a device cannot be created.
    pub fn tap_devices(
        &self,
        rings: u32,
        ring_packets: u32,
        slots: u32,
    ) -> Result<(Port, Uplink), TestbedError> {
        Ok((self.tap_port(rings, ring_packets, slots)?, Uplink::tap(&self.receiver, WIRE)?))
    }

    /// Creates a port that is a TAP alone, for an uplink of another kind.
    ///
    /// # Errors
    /// When the device cannot be created.
    pub fn tap_port(&self, rings: u32, ring_packets: u32, slots: u32) -> Result<Port, TestbedError> {
        let (slots, full_ring) = match tap::require_backpressure() {
            Ok(()) => (slots, FullRing::HoldsBack),
            Err(_) => (ring_slots(ring_packets), FullRing::Drops),
        };
        let (app, name, mac) = (&self.sender, PORT, Mac::local(1));
        let config = TapConfig { app, name, mac, rings, ring_packets, slots, full_ring };
        Ok(Port::create_tap(&config)?)
    }

    /// Gives both ends their addresses and static neighbour entries, so that no ARP crosses the NIC. Call it after the
    /// NIC has brought the port up.
    ///
    /// # Errors
    /// When a device no longer exists.
    pub fn connect(&self) -> Result<(), TestbedError> {
        link::set_up(&self.receiver, WIRE)?;
        let port_mac = Mac::local(1);
        let wire_mac = link::get_mac(&self.receiver, WIRE)?.unwrap_or(Mac::local(2));
        link::add_address(&self.sender, PORT, SENDER, PREFIX)?;
        link::add_neighbor(&self.receiver, WIRE, SENDER, port_mac)?;
        for address in [RECEIVER, DESTINATIONS[0], DESTINATIONS[1]] {
            link::add_address(&self.receiver, WIRE, address, PREFIX)?;
            link::add_neighbor(&self.sender, PORT, address, wire_mac)?;
        }
        Ok(())
    }

    /// Waits until packets pass from end to end.
    ///
    /// # Errors
    /// When a device no longer exists or does not come up.
    pub fn wait_running(&self) -> Result<(), TestbedError> {
        for (ns, name) in [(&self.sender, PORT), (&self.receiver, WIRE)] {
            link::wait_running(ns, name, PATIENCE)?;
        }
        Ok(())
    }
}
