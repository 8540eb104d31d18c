//! Queueing disciplines, their classes and their filters, through netlink.

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_DUMP, NLM_F_ECHO, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use crate::netlink::{Answer, Netlink, Refusal};

const TCA_OPTIONS: u16 = 2;

/// The parent of a link's egress qdisc.
pub(crate) const ROOT: u32 = 0xffff_ffff;
/// The parent and the handle of `clsact`.
pub(crate) const CLSACT: (u32, u32) = (0xffff_fff1, 0xffff_0000);

/// Consecutive attributes, each padded to four bytes.
#[derive(Default)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The place at which a qdisc or class is attached.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) link_index: u32,
    pub(crate) parent: u32,
    pub(crate) handle: u32,
}

fn message(place: Place, kind: &str, options: Option<Vec<u8>>) -> TcMessage {
    let mut message = TcMessage::default();
    message.header.index = place.link_index as i32;
    message.header.parent = TcHandle::from(place.parent);
    message.header.handle = TcHandle::from(place.handle);
    if !kind.is_empty() {
        message.attributes.push(TcAttribute::Kind(kind.to_string()));
    }
    message.attributes.extend(options.map(|bytes| TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, bytes))));
    message
}

pub(crate) fn add_qdisc(
    netlink: &mut Netlink,
    place: Place,
    kind: &str,
    options: Option<Vec<u8>>,
) -> Result<(), Refusal> {
    let body = RouteNetlinkMessage::NewQueueDiscipline(message(place, kind, options));
    netlink.request(body, NLM_F_CREATE | NLM_F_EXCL).map(drop)
}

/// Changes the options of the qdisc at `place`, which keeps its packets.
pub(crate) fn change_qdisc(
    netlink: &mut Netlink,
    place: Place,
    kind: &str,
    options: Vec<u8>,
) -> Result<(), Refusal> {
    let body = RouteNetlinkMessage::NewQueueDiscipline(message(place, kind, Some(options)));
    netlink.request(body, 0).map(drop)
}

pub(crate) fn delete_qdisc(netlink: &mut Netlink, place: Place) -> Result<(), Refusal> {
    netlink.request(RouteNetlinkMessage::DelQueueDiscipline(message(place, "", None)), 0).map(drop)
}

pub(crate) fn add_class(
    netlink: &mut Netlink,
    place: Place,
    kind: &str,
    options: Vec<u8>,
) -> Result<(), Refusal> {
    let body = RouteNetlinkMessage::NewTrafficClass(message(place, kind, Some(options)));
    netlink.request(body, NLM_F_CREATE | NLM_F_EXCL).map(drop)
}

pub(crate) fn dump_classes(netlink: &mut Netlink, link_index: u32) -> Result<Vec<Answer>, Refusal> {
    let place = Place { link_index, parent: 0, handle: 0 };
    netlink.request(RouteNetlinkMessage::GetTrafficClass(message(place, "", None)), NLM_F_DUMP)
}

/// The qdisc at one place. The kernel sends the answer to every listener for changes, and to the caller only as an echo
/// (`qdisc_get_notify`, net/sched/sch_api.c).
pub(crate) fn get_qdisc(netlink: &mut Netlink, place: Place) -> Result<Vec<Answer>, Refusal> {
    netlink.request(RouteNetlinkMessage::GetQueueDiscipline(message(place, "", None)), NLM_F_ECHO)
}

/// The qdiscs of the namespace. The kernel ignores the link's number.
pub(crate) fn dump_qdiscs(netlink: &mut Netlink, link_index: u32) -> Result<Vec<Answer>, Refusal> {
    let place = Place { link_index, parent: 0, handle: 0 };
    netlink.request(RouteNetlinkMessage::GetQueueDiscipline(message(place, "", None)), NLM_F_DUMP)
}

/// The place of a filter, with the fields of its message header.
#[derive(Clone, Copy)]
pub(crate) struct FilterPlace {
    pub(crate) link_index: u32,
    pub(crate) parent: u32,
    pub(crate) handle: u32,
    /// Priority in the upper half, protocol in network byte order in the lower: `TC_H_MAKE(prio << 16, protocol)`.
    pub(crate) info: u32,
}

fn filter_message(place: FilterPlace, kind: &str, options: Option<Vec<u8>>) -> TcMessage {
    let FilterPlace { link_index, parent, handle, info } = place;
    let mut message = message(Place { link_index, parent, handle }, kind, options);
    message.header.info = info;
    message
}

/// Adds a filter; fails with EEXIST if the place is taken.
pub(crate) fn add_filter(
    netlink: &mut Netlink,
    place: FilterPlace,
    kind: &str,
    options: Vec<u8>,
) -> Result<(), Refusal> {
    let body = RouteNetlinkMessage::NewTrafficFilter(filter_message(place, kind, Some(options)));
    netlink.request(body, NLM_F_CREATE | NLM_F_EXCL).map(drop)
}

pub(crate) fn delete_filter(netlink: &mut Netlink, place: FilterPlace, kind: &str) -> Result<(), Refusal> {
    netlink.request(RouteNetlinkMessage::DelTrafficFilter(filter_message(place, kind, None)), 0).map(drop)
}

/// The filters at `parent`, with an additional entry for each priority.
pub(crate) fn dump_filters(
    netlink: &mut Netlink,
    link_index: u32,
    parent: u32,
) -> Result<Vec<Answer>, Refusal> {
    let place = FilterPlace { link_index, parent, handle: 0, info: 0 };
    netlink.request(RouteNetlinkMessage::GetTrafficFilter(filter_message(place, "", None)), NLM_F_DUMP)
}
