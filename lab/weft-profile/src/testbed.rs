//! The testbed of a trial: a sending and a receiving namespace, joined by a veth pair for each receiving core.
//!
//! ```text
//! sender: applications - s0 ===== r0 - applications :receiver
//!                      - s1 ===== r1 -
//! ```
//!
//! Pair `i` has the network 10.97.i.0/30 for the flows to receiving core `i`, so that its receive path can be bound to that core.
//! Namespaces and devices carry the run's name; they vanish with the value, and a killed run's are removed by the next.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::sync::atomic::{AtomicU32, Ordering};

use weft_host::link::{self, Mac, PathEnd, VethOptions};
use weft_host::{NetNs, RunId, sysctl};

use crate::error::ProfileError;
use crate::level::Level;
use crate::pattern::FlowLayout;
use crate::remedy::Remedy;
use crate::setup::Setup;

/// The time allowed for links to come up.
const PATIENCE: Duration = Duration::from_secs(10);
/// The prefix length of a pair's network.
const PREFIX: u8 = 30;

/// A veth pair and its receiving core.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// The receiver's address.
    pub(crate) to: IpAddr,
    /// The receiver's core.
    pub(crate) cpu: u32,
    /// The devices of sender and receiver.
    devices: [String; 2],
}

/// The two namespaces and their paths.
#[derive(Debug)]
pub(crate) struct Testbed {
    pub(crate) sender: NetNs,
    pub(crate) receiver: NetNs,
    pub(crate) paths: Vec<Path>,
}

impl Testbed {
    /// Makes namespaces and links, sets the level and what else is asked for, and makes the change.
    pub(crate) fn create(
        layout: &FlowLayout,
        (level, change): (Level, Option<Remedy>),
        setup: &Setup,
    ) -> Result<Self, ProfileError> {
        // Names of NAPI threads contain those of devices, so two testbeds of a process differ.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % 100;
        let make = |part: &str| NetNs::create(&RunId::current().name(&format!("profile{number}{part}")));
        let mut testbed = Self { sender: make("snd")?, receiver: make("rcv")?, paths: Vec::new() };
        for ns in [&testbed.sender, &testbed.receiver] {
            sysctl::disable_ipv6(ns);
        }
        for (index, cpu) in (0_u8..).zip(&layout.receivers) {
            let names = ["s", "r"].map(|end| RunId::current().device(&format!("{number}{end}{index}")));
            testbed.paths.push(testbed.join(index, *cpu, names)?);
        }
        let sender_cpu = layout.senders.first().copied().unwrap_or(0);
        for path in &testbed.paths {
            let [near, far] = &path.devices;
            level.apply(&testbed.sender, near, sender_cpu)?;
            level.apply(&testbed.receiver, far, path.cpu)?;
            let ends = [(&testbed.sender, near.as_str()), (&testbed.receiver, far.as_str())];
            change.map_or(Ok(()), |change| change.apply(ends))?;
            // Whether a device has TSO decides about its peer's features, so both are set before either is used.
            link::wait_running(&testbed.sender, near, PATIENCE)?;
            link::wait_running(&testbed.receiver, far, PATIENCE)?;
            setup.apply(&testbed.sender, near)?;
        }
        Ok(testbed)
    }

    fn join(&self, index: u8, cpu: u32, devices: [String; 2]) -> Result<Path, ProfileError> {
        let macs = [2 * u32::from(index) + 1, 2 * u32::from(index) + 2].map(Mac::local);
        let address = |host| IpAddr::V4(Ipv4Addr::new(10, 97, index, host));
        let [near, far] = &devices;
        let near = PathEnd { ns: &self.sender, link: near, address: address(1) };
        let far = PathEnd { ns: &self.receiver, link: far, address: address(2) };
        let options = VethOptions { macs: macs.map(Some), ..VethOptions::default() };
        link::create_path([near, far], PREFIX, &options)?;
        Ok(Path { to: address(2), cpu, devices })
    }
}
