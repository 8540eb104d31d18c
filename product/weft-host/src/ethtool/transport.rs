//! The transport of requests to the kernel: an ioctl on a socket, or generic netlink. Tests replace it with an emulated device.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::genl::{Ask, Family, Refused};
use super::layout::{self, rxfh, rxnfc};
use crate::error::OsError;
use crate::link;
use crate::netlink::{Attributes, u32_at};
use crate::netns::{NetNs, NetNsError};

/// `SIOCETHTOOL` of `include/uapi/linux/sockios.h`.
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// A carrier of requests to a device.
pub trait Transport {
    /// Makes one ethtool ioctl on the device. `buffer` begins with the command's number and has the layout of the command's
    /// structure; the kernel writes its answer there.
    ///
    /// # Errors
    /// The kernel's refusal; `InvalidInput` for a command unknown to this module or a buffer too short for it.
    fn ioctl(&mut self, device: &str, buffer: &mut [u8]) -> io::Result<()>;

    /// Whether the kernel supports this command of the generic netlink family "ethtool" in the form `ask`.
    fn has(&self, command: u8, ask: Ask) -> bool;

    /// Sends one request to that family; returns the attributes of each answer. `attributes` excludes the header that names the
    /// device, which is attribute 1 of every command.
    ///
    /// # Errors
    /// The kernel's refusal.
    fn netlink(
        &mut self,
        device: &str,
        command: u8,
        attributes: &[u8],
        ask: Ask,
    ) -> Result<Vec<Vec<u8>>, Refused>;
}

/// The kernel, seen from one network namespace.
pub struct Kernel {
    socket: OwnedFd,
    family: Option<Family>,
}

impl Kernel {
    /// Opens the sockets in the namespace; they remain there.
    ///
    /// # Errors
    /// If the namespace cannot be entered or a socket cannot be made.
    pub fn open(ns: &NetNs) -> Result<Kernel, NetNsError> {
        let (socket, family) = ns.run(|| {
            let socket =
                rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
            (socket, Family::open("ethtool"))
        })?;
        let socket = socket.map_err(|e| OsError::new(format!("open a socket in namespace {ns}"), e))?;
        let family = family.map_err(|e| {
            OsError::new(format!("ask for the netlink family ethtool in namespace {ns}"), e.error)
        })?;
        Ok(Kernel { socket, family })
    }
}

/// The fields of `struct ifreq` that SIOCETHTOOL uses.
#[repr(C)]
struct IfReq {
    name: [u8; 16],
    data: *mut u8,
    padding: [u8; 16],
}

/// The number of bytes that the kernel may read and write for the command in the buffer, computed from the sizes in the
/// buffer; `None` for a command that this module does not use.
fn required_len(buffer: &[u8]) -> Option<usize> {
    let entries = |at: usize| match u32_at(buffer, at) {
        rxfh::INDIR_NO_CHANGE => 0,
        count => count as usize,
    };
    let command = buffer.first_chunk().map(|number| u32::from_ne_bytes(*number))?;
    Some(match command {
        layout::GDRVINFO => layout::DRVINFO_LEN,
        layout::GCOALESCE => layout::coalesce::LEN,
        layout::GRINGPARAM => layout::ringparam::LEN,
        layout::GFLAGS | layout::SFLAGS => 8,
        layout::GTSO | layout::STSO | layout::GGSO | layout::SGSO | layout::GGRO | layout::SGRO => 8,
        layout::GCHANNELS | layout::SCHANNELS => layout::CHANNELS_LEN,
        layout::GRXCLSRLALL => {
            rxnfc::LEN.max(rxnfc::RULE_LOCS + 4 * u32_at(buffer, rxnfc::RULE_CNT) as usize)
        }
        layout::GRXFH | layout::SRXFH | layout::GRXRINGS | layout::GRXCLSRLCNT => rxnfc::LEN,
        layout::GRXCLSRULE | layout::SRXCLSRLDEL | layout::SRXCLSRLINS => rxnfc::LEN,
        layout::GRSSH | layout::SRSSH => {
            rxfh::CONFIG + 4 * entries(rxfh::INDIR_SIZE) + u32_at(buffer, rxfh::KEY_SIZE) as usize
        }
        _ => return None,
    })
}

impl Transport for Kernel {
    fn ioctl(&mut self, device: &str, buffer: &mut [u8]) -> io::Result<()> {
        if required_len(buffer).is_none_or(|length| buffer.len() < length) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let mut request = IfReq { name: [0; 16], data: buffer.as_mut_ptr(), padding: [0; 16] };
        for (to, from) in request.name[..link::MAX_NAME].iter_mut().zip(device.bytes()) {
            *to = from;
        }
        // SAFETY: SIOCETHTOOL takes a struct ifreq, whose size and layout IfReq has, with a pointer to the command's
        // structure. `required_len` has just made sure that the kernel's structure fits into the buffer, which is borrowed
        // for writing until the call is over.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn has(&self, command: u8, ask: Ask) -> bool {
        self.family.as_ref().is_some_and(|family| family.has(command, ask))
    }

    fn netlink(
        &mut self,
        device: &str,
        command: u8,
        attributes: &[u8],
        ask: Ask,
    ) -> Result<Vec<Vec<u8>>, Refused> {
        /// `ETHTOOL_A_HEADER_DEV_NAME`.
        const DEV_NAME: u16 = 2;
        let family = self.family.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let name = Attributes::default().with(DEV_NAME, &[device.as_bytes(), b"\0"].concat()).bytes();
        let mut body = Attributes::default().with(super::genl::NESTED | 1, &name).bytes();
        body.extend_from_slice(attributes);
        family.request(command, &body, ask)
    }
}
