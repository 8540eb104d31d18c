//! Settings common to the queues of TAPs and macvtaps.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::{Errno, Result};
use rustix::ioctl::{Getter, IntegerSetter, Opcode, Setter, ioctl, opcode};

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
const TUNGETFEATURES: Opcode = opcode::read::<libc::c_uint>(TUN, 207);
// The header declares the direction of the next two as reading, although the kernel reads the argument.
const TUNSETSTEERINGEBPF: Opcode = opcode::read::<libc::c_int>(TUN, 224);
const TUNSETFILTEREBPF: Opcode = opcode::read::<libc::c_int>(TUN, 225);
/// Without an argument: the result is a descriptor.
const TUNGETDEVNETNS: Opcode = opcode::none(TUN, 227);
const TUNSETCARRIER: Opcode = opcode::write::<libc::c_int>(TUN, 226);

/// `IFF_BACKPRESSURE` of linux/if_tun.h (Linux 7.3): a full ring stops the transmit queue, and nothing is dropped.
pub(crate) const IFF_BACKPRESSURE: libc::c_short = 0x0080;
const IFF_TAP: libc::c_short = 0x0002;
const IFF_MULTI_QUEUE: libc::c_short = 0x0100;
const IFF_NO_PI: libc::c_short = 0x1000;
const IFF_VNET_HDR: libc::c_short = 0x4000;
const FLAGS: libc::c_short = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE;

const TUN_F_CSUM: usize = 0x01;
const TUN_F_TSO4: usize = 0x02;
const TUN_F_TSO6: usize = 0x04;
const TUN_F_TSO_ECN: usize = 0x08;
const TUN_F_USO4: usize = 0x20;
const TUN_F_USO6: usize = 0x40;
const OFFLOADS: usize = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
/// UDP super-packets too (Linux 6.2). A macvtap accepts the bits, but the stack cuts these packets before it.
pub(crate) const UDP_OFFLOADS: usize = TUN_F_USO4 | TUN_F_USO6;

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
    configure_with(queue, name, 0, 0)
}

/// As [`configure`], with additional flags of TUNSETIFF and offloads of TUNSETOFFLOAD. The kernel ignores flags that it does not
/// know: read its [`features`] first.
pub(crate) fn configure_with(
    queue: BorrowedFd<'_>,
    name: &str,
    flags: libc::c_short,
    offloads: usize,
) -> std::result::Result<(), (&'static str, Errno)> {
    set_interface(queue, name, FLAGS | flags).map_err(|e| ("TUNSETIFF", e))?;
    set_header_len(queue).map_err(|e| ("TUNSETVNETHDRSZ", e))?;
    set_offloads(queue, OFFLOADS | offloads).map_err(|e| ("TUNSETOFFLOAD", e))
}

/// The flags of TUNSETIFF that the kernel supports. The descriptor may be one of /dev/net/tun without a link.
pub(crate) fn features(queue: BorrowedFd<'_>) -> Result<u32> {
    // SAFETY: TUNGETFEATURES writes an unsigned int to its pointer.
    unsafe { ioctl(queue, Getter::<TUNGETFEATURES, libc::c_uint>::new()) }
}

/// Lets a program of type `socket filter` choose the queue of each packet: its result modulo the number of queues.
pub(crate) fn set_steering(queue: BorrowedFd<'_>, program: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: TUNSETSTEERINGEBPF takes a pointer to an int, the program's descriptor, and takes a reference to the program.
    unsafe { ioctl(queue, Setter::<TUNSETSTEERINGEBPF, libc::c_int>::new(program.as_raw_fd())) }
}

/// Lets a program of type `socket filter` see each packet just before its ring: with the result 0 the packet is dropped.
pub(crate) fn set_filter(queue: BorrowedFd<'_>, program: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: TUNSETFILTEREBPF takes a pointer to an int, the program's descriptor, and takes a reference to the program.
    unsafe { ioctl(queue, Setter::<TUNSETFILTEREBPF, libc::c_int>::new(program.as_raw_fd())) }
}

/// Turns the link's carrier on (1) or off (0).
pub(crate) fn set_carrier(queue: BorrowedFd<'_>, carrier: libc::c_int) -> Result<()> {
    // SAFETY: TUNSETCARRIER takes a pointer to an int.
    unsafe { ioctl(queue, Setter::<TUNSETCARRIER, libc::c_int>::new(carrier)) }
}

/// The namespace of the queue's link.
pub(crate) fn namespace(queue: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
    // SAFETY: TUNGETDEVNETNS takes no argument and returns a new descriptor or -1.
    let fd = unsafe { libc::ioctl(queue.as_raw_fd(), TUNGETDEVNETNS as libc::Ioctl) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call has just returned this descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set_interface(queue: BorrowedFd<'_>, name: &str, flags: libc::c_short) -> Result<()> {
    let mut request = IfReq { name: [0; 16], flags, padding: [0; 22] };
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

fn set_offloads(queue: BorrowedFd<'_>, offloads: usize) -> Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its bits as the argument itself, no pointer.
    unsafe { ioctl(queue, IntegerSetter::<TUNSETOFFLOAD>::new_usize(offloads)) }
}
