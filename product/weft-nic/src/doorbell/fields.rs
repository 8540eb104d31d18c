//! The places of fields that the types of eBPF hide, in the running kernel's structures (its type information).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use weft_host::bpf::{BpfError, StructLayout};

/// The offsets of fields in the kernel's structures, by group; all 0 if programs cannot read them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KernelFields {
    /// Of [`SOCKET_FIELDS`].
    pub(super) socket: [u32; 2],
    /// Of [`PACKET_FIELDS`].
    pub(super) packet: [u32; 5],
}

const SOCKET_FIELDS: [(&str, &str); 2] = [("tcp_sock", "write_seq"), ("sock", "sk_pacing_rate")];

/// The fields that show the kind of a super-packet, and the end of its headers in a tunnel (bpf/gso.h).
const PACKET_FIELDS: [(&str, &str); 5] = [
    ("sk_buff", "head"),
    ("sk_buff", "end"),
    ("sk_buff", "mac_header"),
    ("sk_buff", "inner_transport_header"),
    ("skb_shared_info", "gso_type"),
];

/// The offsets of `fields`, pairs of structure and field, in the running kernel.
fn offsets<const N: usize>(fields: &[(&'static str, &'static str); N]) -> Result<[u32; N], BpfError> {
    static KNOWN: Mutex<BTreeMap<(&str, &str), u32>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut found, mut layout) = ([0; N], None);
    for (offset, (of, field)) in found.iter_mut().zip(fields) {
        *offset = match known.get(&(*of, *field)) {
            Some(offset) => *offset,
            None => {
                // Each read of the kernel's types takes milliseconds.
                let layout = match layout.take_if(|(known, _)| known == of) {
                    Some(known) => layout.insert(known),
                    None => layout.insert((*of, StructLayout::of_kernel(of)?)),
                };
                let place = layout.1.offset(field).and_then(|offset| u32::try_from(offset).ok());
                let absent = || BpfError::Absent { what: "field", name: format!("{of}.{field}") };
                *known.entry((of, field)).or_insert(place.ok_or_else(absent)?)
            }
        };
    }
    Ok(found)
}

/// Those of sockets and of packets; 0 for a group of which the kernel has no type information.
pub(super) fn of_kernel() -> KernelFields {
    KernelFields {
        socket: of_sockets().unwrap_or_default(),
        packet: offsets(&PACKET_FIELDS).unwrap_or_default(),
    }
}

/// Those of [`SOCKET_FIELDS`].
///
/// # Errors
/// Without the kernel's type information.
pub(super) fn of_sockets() -> Result<[u32; 2], BpfError> {
    offsets(&SOCKET_FIELDS)
}
