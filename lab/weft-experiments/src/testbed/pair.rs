//! Two namespaces and a veth pair: the tests' path.

use core::net::{IpAddr, Ipv4Addr};
use weft_host::link::{self, PathEnd, VethOptions};
use weft_host::{NetNs, testing};

pub(crate) const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));
pub(crate) const RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 2));
pub(crate) const SENDER_LINK: &str = "snd0";
pub(crate) const RECEIVER_LINK: &str = "rcv0";

/// A sender and a receiver.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) sender: NetNs,
    pub(crate) receiver: NetNs,
}

impl Pair {
    pub(crate) fn create() -> Self {
        let make = |part: &str| NetNs::create(&testing::unique(part)).expect("a namespace");
        let pair = Self { sender: make("snd"), receiver: make("rcv") };
        let sender = PathEnd { ns: &pair.sender, link: SENDER_LINK, address: SENDER };
        let receiver = PathEnd { ns: &pair.receiver, link: RECEIVER_LINK, address: RECEIVER };
        link::create_path([sender, receiver], 24, &VethOptions::default()).expect("a path");
        pair
    }
}
