//! Two namespaces and a veth pair: the tests' path.

use core::net::{IpAddr, Ipv4Addr};
use weft_host::link::{self, Mac, VethOptions};
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
        let (sender, receiver) = ((&pair.sender, SENDER_LINK), (&pair.receiver, RECEIVER_LINK));
        let macs = [Some(Mac::local(1)), Some(Mac::local(2))];
        link::create_veth(sender, receiver, &VethOptions { macs, ..VethOptions::default() }).expect("veth");
        for (ns, name, address) in [(sender.0, sender.1, SENDER), (receiver.0, receiver.1, RECEIVER)] {
            link::add_address(ns, name, address, 24).expect("address");
            link::set_up(ns, name).expect("up");
        }
        link::add_neighbor(&pair.sender, SENDER_LINK, RECEIVER, Mac::local(2)).expect("neighbour");
        link::add_neighbor(&pair.receiver, RECEIVER_LINK, SENDER, Mac::local(1)).expect("neighbour");
        pair
    }
}
