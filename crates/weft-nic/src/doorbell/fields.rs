//! The places of fields that the types of eBPF hide, in the running kernel's structures (its type information).

use std::sync::OnceLock;
use weft_host::bpf::{BpfError, StructLayout};

fn offset(of: &str, field: &str) -> Result<u32, BpfError> {
    let found = StructLayout::of_kernel(of)?.offset(field);
    let absent = || BpfError::Absent { what: "field", name: format!("{of}.{field}") };
    found.and_then(|offset| u32::try_from(offset).ok()).ok_or_else(absent)
}

fn offsets<const N: usize>(
    known: &OnceLock<[u32; N]>,
    fields: [(&str, &str); N],
) -> Result<[u32; N], BpfError> {
    if let Some(offsets) = known.get() {
        return Ok(*offsets);
    }
    let mut found = [0; N];
    for (to, (of, field)) in found.iter_mut().zip(fields) {
        *to = offset(of, field)?;
    }
    Ok(*known.get_or_init(|| found))
}

/// The offsets of `tcp_sock.write_seq` and `sock.sk_pacing_rate`.
///
/// # Errors
/// Without the kernel's type information.
pub(super) fn of_sockets() -> Result<[u32; 2], BpfError> {
    static OFFSETS: OnceLock<[u32; 2]> = OnceLock::new();
    offsets(&OFFSETS, [("tcp_sock", "write_seq"), ("sock", "sk_pacing_rate")])
}

/// The offsets of `sk_buff.end`, `sk_buff.head` and `skb_shared_info.gso_type`.
///
/// # Errors
/// Without the kernel's type information.
pub(super) fn of_packets() -> Result<[u32; 3], BpfError> {
    static OFFSETS: OnceLock<[u32; 3]> = OnceLock::new();
    offsets(&OFFSETS, [("sk_buff", "end"), ("sk_buff", "head"), ("skb_shared_info", "gso_type")])
}
