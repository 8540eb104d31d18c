//! Settings common to the queues of TAPs and macvtaps.

use std::os::fd::BorrowedFd;

use rustix::io::{Errno, Result};
use rustix::ioctl::{IntegerSetter, Opcode, Setter, ioctl, opcode};

/// The length of the header before each frame, a `struct virtio_net_hdr_mrg_rxbuf`. Its first ten bytes are `virtio_net_hdr`; the
/// last two (`num_buffers`) are zero on read and ignored on write.
///
/// It is set explicitly, because the kernel's default is 10 and virtual machines expect another value; 12 also keeps the
/// IP header after the 14-byte Ethernet header at an even offset of 26.
pub const VNET_HEADER_LEN: usize = 12;

const TUN: u8 = b'T';
const TUNSETIFF: Opcode = opcode::write::<libc::c_int>(TUN, 202);
const TUNSETOFFLOAD: Opcode = opcode::write::<libc::c_uint>(TUN, 208);
const TUNSETVNETHDRSZ: Opcode = opcode::write::<libc::c_int>(TUN, 216);

const TUNSETSNDBUF: Opcode = opcode::write::<libc::c_int>(TUN, 212);

const IFF_TAP: libc::c_short = 0x0002;
const IFF_MULTI_QUEUE: libc::c_short = 0x0100;
const IFF_NO_PI: libc::c_short = 0x1000;
const IFF_VNET_HDR: libc::c_short = 0x4000;
const FLAGS: libc::c_short = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE;

const TUN_F_CSUM: usize = 0x01;
const TUN_F_TSO4: usize = 0x02;
const TUN_F_TSO6: usize = 0x04;
const TUN_F_TSO_ECN: usize = 0x08;
const OFFLOADS: usize = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;

/// Limits the kernel memory, in bytes, of packets written to the queue that still wait below it. A write beyond the limit fails
/// with EAGAIN; POLLOUT follows when less than half is in use (`sock_alloc_send_pskb`, `sock_writeable`).
pub(crate) fn set_send_buffer(queue: BorrowedFd<'_>, bytes: u32) -> Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: TUNSETSNDBUF takes a pointer to an int.
    unsafe { ioctl(queue, Setter::<TUNSETSNDBUF, libc::c_int>::new(bytes)) }
}

/// The fields of `struct ifreq` that TUNSETIFF uses.
#[repr(C)]
struct IfReq {
    name: [u8; 16],
    flags: libc::c_short,
    padding: [u8; 22],
}

/// Makes the open queue a TAP queue of the link `name`, with vnet headers and with segmentation left to the reader.
/// The error names the call that failed.
pub(crate) fn configure(queue: BorrowedFd<'_>, name: &str) -> std::result::Result<(), (&'static str, Errno)> {
    set_interface(queue, name).map_err(|e| ("TUNSETIFF", e))?;
    set_header_len(queue).map_err(|e| ("TUNSETVNETHDRSZ", e))?;
    set_offloads(queue).map_err(|e| ("TUNSETOFFLOAD", e))
}

fn set_interface(queue: BorrowedFd<'_>, name: &str) -> Result<()> {
    let mut request = IfReq { name: [0; 16], flags: FLAGS, padding: [0; 22] };
    for (to, from) in request.name[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: TUNSETIFF takes a pointer to a struct ifreq; IfReq has its size (40 bytes on 64-bit) and layout.
    unsafe { ioctl(queue, Setter::<TUNSETIFF, IfReq>::new(request)) }
}

fn set_header_len(queue: BorrowedFd<'_>) -> Result<()> {
    let length = VNET_HEADER_LEN as libc::c_int;
    // SAFETY: TUNSETVNETHDRSZ takes a pointer to an int.
    unsafe { ioctl(queue, Setter::<TUNSETVNETHDRSZ, libc::c_int>::new(length)) }
}

fn set_offloads(queue: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its bits as the argument itself, no pointer.
    unsafe { ioctl(queue, IntegerSetter::<TUNSETOFFLOAD>::new_usize(OFFLOADS)) }
}
