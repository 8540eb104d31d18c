//! The kernel side of a port as it must be, in one place: the properties of its near end's device, each with what restores it. They hold from the port's creation on and are verified after each event (`crate::port_watch`), since any
//! program with the rights in the near end's namespace may change them. docs/datapath.md has the table.
//!
//! The near end has its place in [`Near`], as it may be moved to another namespace. A veth's far end stays, and says where the
//! near end is (`IFLA_LINK` and `IFLA_LINK_NETNSID`).

use super::root_qdisc::RootQdisc;
use super::{Behind, Port, PortError, SEGMENT_MAX};
use core::fmt;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_host::ethtool::{Nic, WHOLE_TCP};
use weft_host::link::{self, Numbered};
use weft_host::netns::NetNs;
use weft_host::netns_number::numbered;
use weft_host::tap::{Carrier, TapError};

/// The near end of a port, and what the interface behind the uplink asks of it.
#[derive(Debug)]
pub(super) struct Near {
    name: String,
    link: Mutex<Arc<Numbered>>,
    qdisc: RootQdisc,
    /// MTU and carrier; `None` before the first are known. Held while they are applied.
    wanted: Mutex<Option<(u32, Carrier)>>,
}

impl Near {
    /// # Errors
    /// When the device no longer exists.
    pub(super) fn new(link: Numbered) -> Result<Self, PortError> {
        let (name, qdisc) = (link.first_name().to_owned(), RootQdisc::of(&link)?);
        Ok(Self { name, link: Mutex::new(Arc::new(link)), qdisc, wanted: Mutex::new(None) })
    }

    pub(super) fn qdisc(&self) -> &RootQdisc {
        &self.qdisc
    }

    pub(super) fn link(&self) -> Arc<Numbered> {
        Arc::clone(&lock(&self.link))
    }

    /// The name that it was created with.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a port's near end.
#[derive(Debug)]
pub(crate) enum Where {
    /// Where it was.
    Here,
    /// In another namespace, where it is found from now on.
    Moved,
    /// It was deleted, or the far end was.
    Deleted,
    /// It cannot be reached, for this reason.
    Lost(String),
}

/// The depth of a look at the near end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Look {
    /// For what the kernel does not report: one request.
    Poll,
    /// For all.
    Whole,
}

/// A property that another program has changed.
#[derive(Debug)]
pub(crate) struct Deviation {
    /// The property, and what became of it.
    pub(crate) what: String,
    /// The reason that it was not restored, if so.
    pub(crate) refused: Option<String>,
}

impl Deviation {
    pub(crate) fn new<E: fmt::Display>(what: String, restored: Result<(), E>) -> Self {
        Self { what, refused: restored.err().map(|error| error.to_string()) }
    }
}

impl Port {
    /// Applies the MTU and the carrier of the interface behind the uplink to the near end, and limits its segments to
    /// those that the NIC can cut ([`SEGMENT_MAX`]). A step that fails does not keep the others from being taken. What another
    /// program changes later is restored by `verify_device`.
    ///
    /// # Errors
    /// When the device no longer exists, or refuses the MTU.
    pub fn follow(&self, mtu: u32, carrier: bool) -> Result<(), PortError> {
        let carrier = if carrier { Carrier::On } else { Carrier::Off };
        let mut wanted = lock(&self.near.wanted);
        if wanted.replace((mtu, carrier)) == Some((mtu, carrier)) {
            return Ok(());
        }
        let near = self.near();
        let mtu_set = near.show().and_then(|link| if link.mtu == mtu { Ok(()) } else { near.set_mtu(mtu) });
        let limited = near.limit_gso_size(SEGMENT_MAX).map(drop);
        self.set_carrier(carrier).and(mtu_set.and(limited).map_err(Into::into))
    }

    /// Looks where the near end is.
    pub(crate) fn locate(&self) -> Where {
        let near = self.near();
        if near.show().is_ok() {
            return Where::Here;
        }
        let Behind::Veth(veth) = &self.behind else {
            // The rings of a deleted one report it.
            return Where::Lost("a TAP is not followed there; move it back, or remove the port".to_owned());
        };
        let Ok(far) = veth.far.show() else { return Where::Deleted };
        let Some(index) = far.lower else { return Where::Deleted };
        let place = match far.lower_netns {
            None => veth.nic.handle().map_err(TapError::from),
            Some(number) => numbered(&veth.nic, number),
        };
        let at = |ns: NetNs| {
            let link = Numbered::at(&ns, index, self.name())?;
            link.show().map(|_| link)
        };
        let found = place.and_then(|ns| at(ns).map_err(TapError::from)).map_err(PortError::from);
        match found.and_then(|link| Ok(self.near.qdisc.follow(&link).map(|()| link)?)) {
            Ok(link) => {
                *lock(&self.near.link) = Arc::new(link);
                Where::Moved
            }
            Err(error) => Where::Lost(error.to_string()),
        }
    }

    /// Whether the near end has left the namespace that it was created in, or the one that it was taken over in.
    pub fn has_moved(&self, inode: u64) -> bool {
        self.near().namespace().inode().is_ok_and(|of| of != inode)
    }

    /// Verifies the properties of the near end's device, and restores those that differ. [`Look::Poll`] leaves out carrier and
    /// features, whose changes the kernel reports.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub(crate) fn verify_device(&self, look: Look) -> Result<Vec<Deviation>, PortError> {
        let wanted = lock(&self.near.wanted);
        let near = self.near();
        let (link, mut found) = (near.show()?, Vec::new());
        if let Some((mtu, carrier)) = *wanted {
            if link.mtu != mtu {
                let what = format!("its MTU was changed from {mtu} to {}", link.mtu);
                found.push(Deviation::new(what, near.set_mtu(mtu)));
            }
            if look == Look::Whole {
                self.set_carrier(carrier)?;
            }
        }
        let largest = link.gso_ipv4_max_size.map_or(link.gso_max_size, |ipv4| ipv4.max(link.gso_max_size));
        if largest > SEGMENT_MAX {
            let what = format!("its gso_max_size was raised to {largest}");
            found.push(Deviation::new(what, near.limit_gso_size(SEGMENT_MAX).map(drop)));
            // Otherwise connections would continue with the larger limit, and the kernel would cut their packets between
            // doorbell and ring. A kernel without the setting has no IPv4.
            let _ = link::flush_routes(near.namespace());
        }
        if look == Look::Whole {
            found.extend(restore_features(&near, &link.name)?);
        }
        Ok(found)
    }

    /// Lets the far end's backlogs be those of the processors `online`. Returns whether others had them.
    pub(crate) fn steer(&self, online: &BTreeSet<u32>) -> Result<bool, PortError> {
        match &self.behind {
            Behind::Veth(veth) => veth.steer(online),
            Behind::Tap(_) => Ok(false),
        }
    }
}

/// Turns the features on without which TCP's super-packets are cut between doorbell and ring.
fn restore_features(near: &Numbered, name: &str) -> Result<Option<Deviation>, PortError> {
    let mut nic = Nic::open(near.namespace(), name)?;
    let off = nic.turned_off(&WHOLE_TCP)?;
    if off.is_empty() {
        return Ok(None);
    }
    let restored = nic.turn_on(&off).and_then(|()| nic.turned_off(&WHOLE_TCP));
    let restored = match restored {
        Ok(still) if still.is_empty() => Ok(()),
        Ok(still) => Err(format!("the device keeps {} off", still.join(", "))),
        Err(error) => Err(error.to_string()),
    };
    let were = if off.len() == 1 { "was" } else { "were" };
    Ok(Some(Deviation::new(format!("{} {were} turned off", off.join(", ")), restored)))
}
