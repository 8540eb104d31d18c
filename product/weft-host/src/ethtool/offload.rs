//! Segmentation and merging that a device does for the stack: TSO, GSO and GRO, as `ethtool -K` shows and sets them.

use super::error::Result;
use super::layout;
use super::nic::{Nic, command};
use super::transport::Transport;
use crate::netlink::u32_at;

/// The features of a device without which the stack cuts a TCP super-packet, or copies it, between the egress of clsact and the
/// driver (`validate_xmit_skb`, net/core/dev.c).
pub const WHOLE_TCP: [&str; 6] = [
    "tx-scatter-gather",
    "tx-checksum-ip-generic",
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
];

/// An offload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Offload {
    /// TCP segmentation by the device.
    Tso,
    /// Late segmentation by the stack.
    Gso,
    /// Merging of received segments.
    Gro,
}

impl Offload {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tso, Self::Gso, Self::Gro];

    /// The name, as `ethtool -K` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tso => "tso",
            Self::Gso => "gso",
            Self::Gro => "gro",
        }
    }

    /// The commands that read and set it.
    const fn commands(self) -> (u32, u32) {
        match self {
            Self::Tso => (layout::GTSO, layout::STSO),
            Self::Gso => (layout::GGSO, layout::SGSO),
            Self::Gro => (layout::GGRO, layout::SGRO),
        }
    }
}

/// The state of a switch of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// Off.
    Off,
    /// On.
    On,
}

impl<T: Transport> Nic<T> {
    /// The state of an offload.
    ///
    /// # Errors
    /// If the kernel refuses the query.
    pub fn offload(&mut self, offload: Offload) -> Result<Switch> {
        let mut buffer = command::<8>(offload.commands().0);
        self.transport.ioctl(&self.device, &mut buffer).map_err(|e| self.failed("read an offload", e))?;
        Ok(if u32_at(&buffer, 4) == 0 { Switch::Off } else { Switch::On })
    }

    /// Sets an offload, and returns the state read back: the kernel accepts requests that the device then does not follow
    /// (`netdev_update_features`).
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_offload(&mut self, offload: Offload, switch: Switch) -> Result<Switch> {
        let mut buffer = command::<8>(offload.commands().1);
        layout::put_u32(&mut buffer, 4, u32::from(switch == Switch::On));
        let action = format!("set {}", offload.name());
        self.transport.ioctl(&self.device, &mut buffer).map_err(|e| self.failed(&action, e))?;
        self.offload(offload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{self, VethOptions};
    use crate::{NetNs, testing};

    #[test]
    fn features_of_a_veth_are_turned_on_again() {
        if !testing::privileged("features_of_a_veth_are_turned_on_again") {
            return;
        }
        let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
        link::create_veth((&a, "wf0"), (&b, "wf1"), &VethOptions::default()).expect("veth");
        let mut nic = Nic::open(&a, "wf0").expect("device");
        assert_eq!(nic.turned_off(&WHOLE_TCP).expect("read"), [""; 0]);
        nic.set_offload(Offload::Tso, Switch::Off).expect("set");
        let off = nic.turned_off(&WHOLE_TCP).expect("read");
        assert!(off.contains(&"tx-tcp-segmentation") && off.contains(&"tx-tcp6-segmentation"), "{off:?}");
        nic.turn_on(&off).expect("on");
        assert_eq!(nic.turned_off(&WHOLE_TCP).expect("read"), [""; 0]);
    }

    #[test]
    fn offloads_of_a_veth_are_set_and_read_back() {
        if !testing::privileged("offloads_of_a_veth_are_set_and_read_back") {
            return;
        }
        let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
        link::create_veth((&a, "wo0"), (&b, "wo1"), &VethOptions::default()).expect("veth");
        let mut nic = Nic::open(&a, "wo0").expect("device");
        for switch in [Switch::Off, Switch::On, Switch::Off] {
            for offload in Offload::ALL {
                assert_eq!(nic.set_offload(offload, switch).expect("set"), switch, "{}", offload.name());
                assert_eq!(nic.offload(offload).expect("read"), switch, "{}", offload.name());
            }
        }
    }
}
