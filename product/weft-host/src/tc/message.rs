//! The messages of traffic control: `struct tcmsg` and its attributes, for requests and from dumps.

use netlink_packet_core::DefaultNla;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use super::counters::QdiscCounters;
use super::handle::Handle;
use super::wire::TYPE_MASK;
use crate::netlink::{attributes, c_string, u32_at};

/// `linux/rtnetlink.h`.
const TCMSG_LEN: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_CHAIN: u16 = 11;

/// The place of a qdisc or class: its own handle, and that of the class or qdisc above it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TcPlace {
    /// The handle above it: [`Handle::ROOT`], [`Handle::CLSACT`], a class, or the qdisc of a class.
    pub parent: Handle,
    /// Its own; [`Handle::NONE`] lets the kernel choose that of a qdisc.
    pub handle: Handle,
}

impl TcPlace {
    /// Returns the place of a device's egress qdisc.
    pub const fn root(handle: Handle) -> Self {
        Self { parent: Handle::ROOT, handle }
    }

    /// The place of `clsact` and `ingress`.
    pub const CLSACT: Self = Self { parent: Handle::CLSACT, handle: Handle::CLSACT_QDISC };
}

/// Returns a message. An empty kind and empty options are left away.
pub(super) fn message(index: u32, place: TcPlace, info: u32, (kind, options): (&str, Vec<u8>)) -> TcMessage {
    let mut message = TcMessage::default();
    message.header.index = index as i32;
    message.header.parent = TcHandle::from(place.parent.raw());
    message.header.handle = TcHandle::from(place.handle.raw());
    message.header.info = info;
    if !kind.is_empty() {
        message.attributes.push(TcAttribute::Kind(kind.to_owned()));
    }
    if !options.is_empty() {
        message.attributes.push(TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, options)));
    }
    message
}

/// An object as the kernel dumps it.
#[derive(Clone, Default, Debug)]
pub(super) struct Entry {
    pub(super) index: u32,
    pub(super) handle: Handle,
    pub(super) parent: Handle,
    pub(super) info: u32,
    pub(super) kind: String,
    pub(super) options: Vec<u8>,
    pub(super) counters: QdiscCounters,
    pub(super) chain: u32,
}

impl Entry {
    /// Reads an answer without the netlink header. Missing parts are zero.
    pub(super) fn parse(body: &[u8]) -> Self {
        let mut entry = Self {
            index: u32_at(body, 4),
            handle: Handle::from_raw(u32_at(body, 8)),
            parent: Handle::from_raw(u32_at(body, 12)),
            info: u32_at(body, 16),
            ..Self::default()
        };
        for (kind, value) in attributes(body.get(TCMSG_LEN..).unwrap_or_default()) {
            match kind & TYPE_MASK {
                TCA_KIND => entry.kind = c_string(value),
                TCA_OPTIONS => entry.options = value.to_vec(),
                TCA_STATS2 => entry.counters = QdiscCounters::parse(value),
                TCA_CHAIN => entry.chain = u32_at(value, 0),
                _ => {}
            }
        }
        entry
    }
}
