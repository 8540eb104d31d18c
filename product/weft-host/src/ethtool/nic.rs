//! A NIC: its driver, queues and switches.

use std::io;

use rustix::io::Errno;

use super::error::{EthtoolError, Result};
use super::genl::{Ask, Refused};
use super::genl::{NESTED, TYPE_MASK};
use super::layout::{self, put_u32, rxnfc};
use super::transport::{Kernel, Transport};
use crate::error::OsError;
use crate::link;
use crate::netlink::{Attributes, attributes, c_string, u32_at, u64_at};
use crate::netns::NetNs;

/// `ETHTOOL_MSG_FEATURES_GET` and its answer's attributes: `include/uapi/linux/ethtool_netlink_generated.h`.
const FEATURES_GET: u8 = 11;
const FEATURES_HW: u16 = 2;
const FEATURES_WANTED: u16 = 3;
const FEATURES_ACTIVE: u16 = 4;
const FEATURES_NOCHANGE: u16 = 5;
/// `ETHTOOL_MSG_FEATURES_SET`.
const FEATURES_SET: u8 = 12;
const BITSET_NOMASK: u16 = 1;
const BITSET_BITS: u16 = 3;
const BITS_BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;
/// `netdev_features_strings` of `net/ethtool/common.c` for `NETIF_F_NTUPLE_BIT`.
const NTUPLE: &str = "rx-ntuple-filter";

/// A driver, as reported by `ethtool -i`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// Its name; for links without hardware, their kind. "(unnamed)" if it reports none.
    pub name: String,
    /// Its version; for most drivers, that of the kernel.
    pub version: String,
    /// The firmware's version.
    pub firmware: String,
    /// The device's address on its bus, such as a PCI address.
    pub bus: String,
}

/// Numbers of channels, as reported by `ethtool -l`. A channel is an interrupt with its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Receive-only channels.
    pub rx: Limited,
    /// Transmit-only channels.
    pub tx: Limited,
    /// Channels for other purposes.
    pub other: Limited,
    /// Channels that receive and transmit.
    pub combined: Limited,
}

/// A number and its maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// The current number.
    pub count: u32,
    /// The maximum.
    pub max: u32,
}

/// A feature flag of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Whether it is on.
    pub active: bool,
    /// Whether it can be changed; `None` if the kernel does not report it (before 5.7).
    pub changeable: Option<bool>,
}

/// A NIC in a namespace, reached through the kernel or an emulation in tests.
pub struct Nic<T = Kernel> {
    pub(super) transport: T,
    pub(super) device: String,
    driver: Driver,
}

impl Nic<Kernel> {
    /// The device of this name in the namespace.
    ///
    /// # Errors
    /// If it does not exist, or the namespace cannot be entered.
    pub fn open(ns: &NetNs, device: &str) -> Result<Nic<Kernel>> {
        link::show(ns, device)?;
        Nic::over(Kernel::open(ns)?, device)
    }
}

impl<T: Transport> Nic<T> {
    /// The device of this name on a transport.
    ///
    /// # Errors
    /// If the driver cannot be queried.
    pub fn over(transport: T, device: &str) -> Result<Nic<T>> {
        let mut nic = Nic { transport, device: device.to_string(), driver: Driver::default() };
        nic.driver = nic.read_driver()?;
        Ok(nic)
    }

    /// The device's name.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Its driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The transport.
    pub fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// The number of receive queues over which the hash can spread packets.
    ///
    /// # Errors
    /// [`EthtoolError::NoQueueCount`] if the driver does not report it.
    pub fn rx_queues(&mut self) -> Result<u32> {
        let mut buffer = command::<{ rxnfc::LEN }>(layout::GRXRINGS);
        match self.transport.ioctl(&self.device, &mut buffer) {
            Ok(()) => Ok(u64_at(&buffer, rxnfc::DATA) as u32),
            Err(e) if unsupported(&e) => match self.channels()? {
                Some(channels) => Ok(channels.rx.count + channels.combined.count),
                None => Err(EthtoolError::NoQueueCount {
                    device: self.device.clone(),
                    driver: self.driver_name(),
                }),
            },
            Err(e) => Err(self.failed("read the number of receive queues", e).into()),
        }
    }

    /// The numbers of channels; `None` if the driver does not report them.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn channels(&mut self) -> Result<Option<Channels>> {
        let mut buffer = command::<{ layout::CHANNELS_LEN }>(layout::GCHANNELS);
        match self.transport.ioctl(&self.device, &mut buffer) {
            Ok(()) => Ok(Some(read_channels(&buffer))),
            Err(e) if unsupported(&e) => Ok(None),
            Err(e) => Err(self.failed("read the numbers of channels", e).into()),
        }
    }

    /// Sets the number of combined channels, as `ethtool -L DEVICE combined N`. Most drivers restart the link.
    ///
    /// # Errors
    /// The kernel's refusal. It refuses fewer channels than tables and rules use.
    pub fn set_combined_channels(&mut self, count: u32) -> Result<()> {
        let mut buffer = command::<{ layout::CHANNELS_LEN }>(layout::GCHANNELS);
        let action = format!("set the number of combined channels to {count}");
        self.transport.ioctl(&self.device, &mut buffer).map_err(|e| self.failed(&action, e))?;
        put_u32(&mut buffer, 0, layout::SCHANNELS);
        put_u32(&mut buffer, 32, count);
        self.transport.ioctl(&self.device, &mut buffer).map_err(|e| {
            self.failed(&action, e).remedy(format!(
                "`ethtool -l {}` shows the limits; hash table and rules may use more",
                self.device
            ))
        })?;
        Ok(())
    }

    /// The feature flag of receive rules, called ntuple-filters by `ethtool -k`.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn ntuple(&mut self) -> Result<Feature> {
        if self.transport.has(FEATURES_GET, Ask::Request) {
            let answers = self
                .transport
                .netlink(&self.device, FEATURES_GET, &[], Ask::Request)
                .map_err(|e| self.refused("read the features", e))?;
            return Ok(feature_of(answers.first().map_or(&[], Vec::as_slice), NTUPLE));
        }
        let flags = self.flags("read the features")?;
        Ok(Feature { active: flags & layout::FLAG_NTUPLE != 0, changeable: None })
    }

    /// The features of `names`, as `ethtool -k` shows them, that are off and can be turned on.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn turned_off<'n>(&mut self, names: &[&'n str]) -> Result<Vec<&'n str>> {
        let answers = self
            .transport
            .netlink(&self.device, FEATURES_GET, &[], Ask::Request)
            .map_err(|e| self.refused("read the features", e))?;
        let answer = answers.first().map_or(&[][..], Vec::as_slice);
        let is_off = |name: &&&str| {
            let Feature { active, changeable } = feature_of(answer, name);
            !active && changeable == Some(true)
        };
        Ok(names.iter().filter(is_off).copied().collect())
    }

    /// Turns features on. The device may not follow: read them back.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn turn_on(&mut self, names: &[&str]) -> Result<()> {
        let mut bits = Attributes::default();
        for name in names {
            let name = [name.as_bytes(), b"\0"].concat();
            let bit = Attributes::default().with(BIT_NAME, &name).with(BIT_VALUE, &[]).bytes();
            bits = bits.with(NESTED | BITS_BIT, &bit);
        }
        let set = Attributes::default().with(NESTED | BITSET_BITS, &bits.bytes()).bytes();
        let wanted = Attributes::default().with(NESTED | FEATURES_WANTED, &set).bytes();
        self.transport
            .netlink(&self.device, FEATURES_SET, &wanted, Ask::Request)
            .map_err(|e| self.refused(&format!("turn {} on", names.join(", ")), e))?;
        Ok(())
    }

    /// Turns receive rules on or off, as `ethtool -K DEVICE ntuple on`. Turning them off deletes the rules.
    ///
    /// # Errors
    /// [`EthtoolError::NoRules`] if they cannot be turned on; the kernel's refusal.
    pub fn set_ntuple(&mut self, on: bool) -> Result<()> {
        let action = if on { "turn receive rules on" } else { "turn receive rules off" };
        let feature = self.ntuple()?;
        if feature.active == on {
            return Ok(());
        }
        if on && feature.changeable == Some(false) {
            return Err(self.no_rules());
        }
        let flags = self.flags(action)?;
        let mut buffer = command::<8>(layout::SFLAGS);
        put_u32(&mut buffer, 4, flags ^ layout::FLAG_NTUPLE);
        self.transport.ioctl(&self.device, &mut buffer).map_err(|e| self.failed(action, e))?;
        // The kernel accepts the request; the driver's decision must be read back (netdev_update_features).
        if self.ntuple()?.active == on { Ok(()) } else { Err(self.no_rules()) }
    }

    fn flags(&mut self, action: &str) -> Result<u32> {
        let mut buffer = command::<8>(layout::GFLAGS);
        self.transport.ioctl(&self.device, &mut buffer).map_err(|e| self.failed(action, e))?;
        Ok(u32_at(&buffer, 4))
    }

    fn read_driver(&mut self) -> Result<Driver> {
        let mut buffer = command::<{ layout::DRVINFO_LEN }>(layout::GDRVINFO);
        match self.transport.ioctl(&self.device, &mut buffer) {
            Ok(()) => Ok(Driver {
                name: text(&buffer, 4),
                version: text(&buffer, 36),
                firmware: text(&buffer, 68),
                bus: text(&buffer, 100),
            }),
            Err(e) if unsupported(&e) => Ok(Driver { name: "(unnamed)".into(), ..Driver::default() }),
            Err(e) => Err(self.failed("read the driver's name", e).into()),
        }
    }

    pub(super) fn driver_name(&self) -> String {
        self.driver.name.clone()
    }

    pub(super) fn no_rules(&self) -> EthtoolError {
        EthtoolError::NoRules { device: self.device.clone(), driver: self.driver_name() }
    }

    /// The error of a refused call: "DEVICE: ACTION: errno".
    pub(super) fn failed(&self, action: &str, error: io::Error) -> OsError {
        self.refused(action, error.into())
    }

    pub(super) fn refused(&self, action: &str, refused: Refused) -> OsError {
        OsError::new(format!("{}: {action}", self.device), refused.error)
            .detail(refused.says)
            .needs("CAP_NET_ADMIN")
    }

    pub(super) fn incomplete(&self, action: &str) -> EthtoolError {
        EthtoolError::Answer { device: self.device.clone(), action: action.to_string() }
    }
}

/// A structure of `N` bytes that begins with the command's number.
pub(super) fn command<const N: usize>(number: u32) -> [u8; N] {
    let mut buffer = [0; N];
    put_u32(&mut buffer, 0, number);
    buffer
}

pub(super) fn is(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}

pub(super) fn unsupported(error: &io::Error) -> bool {
    is(error, Errno::OPNOTSUPP)
}

/// A 32-byte text in `struct ethtool_drvinfo`.
fn text(buffer: &[u8], at: usize) -> String {
    c_string(buffer.get(at..at + 32).unwrap_or_default())
}

fn read_channels(buffer: &[u8]) -> Channels {
    let limited = |n: usize| Limited { max: u32_at(buffer, 4 + 4 * n), count: u32_at(buffer, 20 + 4 * n) };
    Channels { rx: limited(0), tx: limited(1), other: limited(2), combined: limited(3) }
}

/// The feature `name` in an answer to FEATURES_GET, whose bit sets are lists of names.
fn feature_of(answer: &[u8], name: &str) -> Feature {
    let (mut hardware, mut active, mut fixed) = (false, false, false);
    for (kind, set) in attributes(answer) {
        match kind & TYPE_MASK {
            FEATURES_HW => hardware = bitset_has(set, name),
            FEATURES_ACTIVE => active = bitset_has(set, name),
            FEATURES_NOCHANGE => fixed = bitset_has(set, name),
            _ => {}
        }
    }
    Feature { active, changeable: Some(hardware && !fixed) }
}

/// Whether a bit is set. A set without a mask lists the bits that are set; with a mask, each bit has its own value.
fn bitset_has(set: &[u8], name: &str) -> bool {
    let no_mask = attributes(set).any(|(kind, _)| kind & TYPE_MASK == BITSET_NOMASK);
    attributes(set)
        .filter(|(kind, _)| kind & TYPE_MASK == BITSET_BITS)
        .flat_map(|(_, bits)| attributes(bits))
        .any(|(_, bit)| {
            let named =
                attributes(bit).any(|(kind, value)| kind & TYPE_MASK == BIT_NAME && c_string(value) == name);
            named && (no_mask || attributes(bit).any(|(kind, _)| kind & TYPE_MASK == BIT_VALUE))
        })
}
