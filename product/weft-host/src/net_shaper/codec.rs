//! The attributes of the generic netlink family "net-shaper": `include/uapi/linux/net_shaper.h`, generated from
//! Documentation/netlink/specs/net_shaper.yaml.

use weft_units::{BitsPerSec, TxQueueId, Weight};

use super::{Capabilities, Handle, Scope, ShaperInfo};
use crate::ethtool::genl::{NESTED, TYPE_MASK};
use crate::netlink::{Attributes, attributes, u32_at, u64_at};

/// `NET_SHAPER_CMD_*`.
pub(super) const CMD_GET: u8 = 1;
pub(super) const CMD_DELETE: u8 = 3;
pub(super) const CMD_GROUP: u8 = 4;
pub(super) const CMD_CAP_GET: u8 = 5;

/// `NET_SHAPER_A_*`.
const A_HANDLE: u16 = 1;
const A_METRIC: u16 = 2;
const A_BW_MAX: u16 = 4;
const A_PRIORITY: u16 = 6;
const A_WEIGHT: u16 = 7;
const A_IFINDEX: u16 = 8;
const A_PARENT: u16 = 9;
const A_LEAVES: u16 = 10;
/// `NET_SHAPER_A_HANDLE_*`.
const A_HANDLE_SCOPE: u16 = 1;
const A_HANDLE_ID: u16 = 2;
/// `NET_SHAPER_A_CAPS_*`.
const A_CAPS_IFINDEX: u16 = 1;
const A_CAPS_SCOPE: u16 = 2;
const A_CAPS_METRIC_BPS: u16 = 3;
const A_CAPS_METRIC_PPS: u16 = 4;
const A_CAPS_NESTING: u16 = 5;
const A_CAPS_BW_MIN: u16 = 6;
const A_CAPS_BW_MAX: u16 = 7;
const A_CAPS_BURST: u16 = 8;
const A_CAPS_PRIORITY: u16 = 9;
const A_CAPS_WEIGHT: u16 = 10;
/// `NET_SHAPER_METRIC_BPS`.
const METRIC_BPS: u32 = 0;

fn scope_number(scope: Scope) -> u32 {
    match scope {
        Scope::Device => 1,
        Scope::Queue => 2,
        Scope::Node => 3,
    }
}

fn scope(number: u32) -> Option<Scope> {
    [Scope::Device, Scope::Queue, Scope::Node].into_iter().find(|scope| scope_number(*scope) == number)
}

/// A handle. Without a number, it requests a new node (`net_shaper_parse_handle`) or names the device's shaper.
fn handle(scope: Scope, id: Option<u32>) -> Vec<u8> {
    let handle = Attributes::default().with(A_HANDLE_SCOPE, &scope_number(scope).to_ne_bytes());
    match id {
        Some(id) => handle.with(A_HANDLE_ID, &id.to_ne_bytes()).bytes(),
        None => handle.bytes(),
    }
}

/// The first attribute of a request about a device's shapers.
pub(super) fn device(ifindex: u32) -> Vec<u8> {
    Attributes::default().with(A_IFINDEX, &ifindex.to_ne_bytes()).bytes()
}

/// A request about one shaper.
pub(super) fn one(ifindex: u32, shaper: Handle) -> Vec<u8> {
    let id = (shaper.scope != Scope::Device).then_some(shaper.id);
    Attributes::default()
        .with(A_IFINDEX, &ifindex.to_ne_bytes())
        .with(NESTED | A_HANDLE, &handle(shaper.scope, id))
        .bytes()
}

/// A request for capabilities.
pub(super) fn capabilities(ifindex: u32, scope: Scope) -> Vec<u8> {
    Attributes::default()
        .with(A_CAPS_IFINDEX, &ifindex.to_ne_bytes())
        .with(A_CAPS_SCOPE, &scope_number(scope).to_ne_bytes())
        .bytes()
}

/// A request that groups the queues with their weights under one node below the device's shaper: the node `node`, or a new
/// one. The parent is given because the kernel cannot derive it if the leaves have different parents
/// (`net_shaper_parent_from_leaves`).
pub(super) fn group(ifindex: u32, node: Option<u32>, weights: &[(TxQueueId, Weight)]) -> Vec<u8> {
    let mut request = Attributes::default()
        .with(A_IFINDEX, &ifindex.to_ne_bytes())
        .with(NESTED | A_HANDLE, &handle(Scope::Node, node))
        .with(NESTED | A_PARENT, &handle(Scope::Device, None));
    for (queue, weight) in weights {
        let leaf = Attributes::default()
            .with(NESTED | A_HANDLE, &handle(Scope::Queue, Some(queue.0)))
            .with(A_WEIGHT, &weight.get().to_ne_bytes())
            .bytes();
        request = request.with(NESTED | A_LEAVES, &leaf);
    }
    request.bytes()
}

/// Reads one shaper of an answer, without the generic header; `None` if it has no known handle.
pub(super) fn shaper(answer: &[u8]) -> Option<ShaperInfo> {
    let mut info = ShaperInfo {
        handle: Handle { scope: Scope::Device, id: 0 },
        parent: None,
        weight: None,
        priority: 0,
        bw_max: None,
    };
    let (mut found, mut metric, mut bw_max) = (None, METRIC_BPS, None);
    for (kind, value) in attributes(answer) {
        match kind & TYPE_MASK {
            A_HANDLE => found = read_handle(value),
            A_PARENT => info.parent = read_handle(value),
            A_METRIC => metric = u32_at(value, 0),
            A_BW_MAX => bw_max = Some(uint(value)),
            A_PRIORITY => info.priority = u32_at(value, 0),
            A_WEIGHT => info.weight = Weight::new(u32_at(value, 0)),
            _ => {}
        }
    }
    info.handle = found?;
    info.bw_max = bw_max.filter(|_| metric == METRIC_BPS).map(BitsPerSec);
    Some(info)
}

fn read_handle(nested: &[u8]) -> Option<Handle> {
    let (mut kind, mut id) = (None, 0);
    for (attribute, value) in attributes(nested) {
        match attribute & TYPE_MASK {
            A_HANDLE_SCOPE => kind = scope(u32_at(value, 0)),
            A_HANDLE_ID => id = u32_at(value, 0),
            _ => {}
        }
    }
    kind.map(|scope| Handle { scope, id })
}

/// `NLA_UINT`: four bytes, or eight for larger numbers.
fn uint(value: &[u8]) -> u64 {
    if value.len() >= 8 { u64_at(value, 0) } else { u32_at(value, 0).into() }
}

/// Reads the capabilities in an answer, which are flag attributes.
pub(super) fn read_capabilities(answer: &[u8]) -> Capabilities {
    let mut caps = Capabilities::default();
    for (kind, _) in attributes(answer) {
        match kind & TYPE_MASK {
            A_CAPS_METRIC_BPS => caps.metric_bps = true,
            A_CAPS_METRIC_PPS => caps.metric_pps = true,
            A_CAPS_NESTING => caps.nesting = true,
            A_CAPS_BW_MIN => caps.bw_min = true,
            A_CAPS_BW_MAX => caps.bw_max = true,
            A_CAPS_BURST => caps.burst = true,
            A_CAPS_PRIORITY => caps.priority = true,
            A_CAPS_WEIGHT => caps.weight = true,
            _ => {}
        }
    }
    caps
}

#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn weights(list: &[(u32, u32)]) -> Vec<(TxQueueId, Weight)> {
        list.iter()
            .map(|(queue, weight)| (TxQueueId(*queue), Weight::new(*weight).expect("weight")))
            .collect()
    }

    #[test]
    fn a_group_has_the_bytes_of_the_header() {
        #[rustfmt::skip]
        let expected = [
            8, 0, 8, 0, 3, 0, 0, 0, // NET_SHAPER_A_IFINDEX 3
            12, 0, 1, 0x80, 8, 0, 1, 0, 3, 0, 0, 0, // NET_SHAPER_A_HANDLE: SCOPE NODE, no ID
            12, 0, 9, 0x80, 8, 0, 1, 0, 1, 0, 0, 0, // NET_SHAPER_A_PARENT: SCOPE NETDEV
            32, 0, 10, 0x80, // NET_SHAPER_A_LEAVES
            20, 0, 1, 0x80, 8, 0, 1, 0, 2, 0, 0, 0, 8, 0, 2, 0, 0, 0, 0, 0, // HANDLE: SCOPE QUEUE, ID 0
            8, 0, 7, 0, 1, 0, 0, 0, // NET_SHAPER_A_WEIGHT 1
            32, 0, 10, 0x80,
            20, 0, 1, 0x80, 8, 0, 1, 0, 2, 0, 0, 0, 8, 0, 2, 0, 5, 0, 0, 0, // ID 5
            8, 0, 7, 0, 4, 0, 0, 0, // weight 4
        ];
        assert_eq!(group(3, None, &weights(&[(0, 1), (5, 4)])), expected);
        let again = group(3, Some(9), &weights(&[(0, 1)]));
        assert_eq!(again[8..28], [20, 0, 1, 0x80, 8, 0, 1, 0, 3, 0, 0, 0, 8, 0, 2, 0, 9, 0, 0, 0]);
    }

    #[test]
    fn requests_have_the_bytes_of_the_header() {
        assert_eq!(device(3), [8, 0, 8, 0, 3, 0, 0, 0]);
        #[rustfmt::skip]
        let queue = [
            8, 0, 8, 0, 3, 0, 0, 0,
            20, 0, 1, 0x80, 8, 0, 1, 0, 2, 0, 0, 0, 8, 0, 2, 0, 7, 0, 0, 0,
        ];
        assert_eq!(one(3, Handle { scope: Scope::Queue, id: 7 }), queue);
        let netdev = [8, 0, 8, 0, 3, 0, 0, 0, 12, 0, 1, 0x80, 8, 0, 1, 0, 1, 0, 0, 0];
        assert_eq!(one(3, Handle { scope: Scope::Device, id: 0 }), netdev);
        assert_eq!(capabilities(3, Scope::Queue), [8, 0, 1, 0, 3, 0, 0, 0, 8, 0, 2, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn answers_are_read() {
        // The output of `net_shaper_fill_one`: device, parent, handle, metric, bw-max, weight.
        #[rustfmt::skip]
        let answer = [
            8, 0, 8, 0, 3, 0, 0, 0,
            20, 0, 9, 0x80, 8, 0, 1, 0, 3, 0, 0, 0, 8, 0, 2, 0, 6, 0, 0, 0,
            20, 0, 1, 0x80, 8, 0, 1, 0, 2, 0, 0, 0, 8, 0, 2, 0, 7, 0, 0, 0,
            8, 0, 2, 0, 0, 0, 0, 0,
            12, 0, 4, 0, 0, 0xe4, 0x0b, 0x54, 2, 0, 0, 0,
            8, 0, 7, 0, 4, 0, 0, 0,
        ];
        let expected = ShaperInfo {
            handle: Handle { scope: Scope::Queue, id: 7 },
            parent: Some(Handle { scope: Scope::Node, id: 6 }),
            weight: Weight::new(4),
            priority: 0,
            bw_max: Some(BitsPerSec(10_000_000_000)),
        };
        assert_eq!(shaper(&answer), Some(expected));
        // The device's shaper: no number, a small rate in four bytes, packets per second.
        let netdev = [12, 0, 1, 0x80, 8, 0, 1, 0, 1, 0, 0, 0, 8, 0, 4, 0, 100, 0, 0, 0];
        let read = shaper(&netdev).expect("a shaper");
        assert_eq!((read.handle.scope, read.bw_max), (Scope::Device, Some(BitsPerSec(100))));
        let packets = [&netdev[..], &[8, 0, 2, 0, 1, 0, 0, 0]].concat();
        assert_eq!(shaper(&packets).expect("a shaper").bw_max, None);
        assert_eq!(shaper(&device(3)), None, "no handle");

        #[rustfmt::skip]
        let caps = read_capabilities(&[
            8, 0, 1, 0, 3, 0, 0, 0, 8, 0, 2, 0, 2, 0, 0, 0,
            4, 0, 3, 0, 4, 0, 5, 0, 4, 0, 7, 0, 4, 0, 10, 0,
        ]);
        let expected = Capabilities {
            metric_bps: true,
            nesting: true,
            bw_max: true,
            weight: true,
            ..Capabilities::default()
        };
        assert_eq!(caps, expected);
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = (shaper(&bytes), read_capabilities(&bytes));
            let nested = [&(bytes.len() as u16 + 4).to_ne_bytes()[..], &[1, 0x80], &bytes].concat();
            let _ = shaper(&nested);
        }

        #[test]
        fn a_handle_that_is_asked_for_is_read_again(id in 0_u32..1 << 26, queue: bool) {
            let handle = Handle { scope: if queue { Scope::Queue } else { Scope::Node }, id };
            prop_assert_eq!(shaper(&one(1, handle)).map(|info| info.handle), Some(handle));
        }
    }
}
