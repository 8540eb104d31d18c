//! Levels of optimisation: settings of the two ends, each set and read back.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use weft_host::NetNs;
use weft_host::ethtool::{EthtoolError, Nic, Offload, Switch};
use weft_host::link::{self, GsoSizes, LinkError};
use weft_host::rps::{self, RpsError};
use weft_host::sysctl::{self, SysctlError};
use weft_units::Bytes;

/// The kernel's default of `gso_max_segs`.
const SEGMENTS: u32 = 65_535;
/// The setting of TCP small queues, of a whole namespace.
const SMALL_QUEUE: &str = "net.ipv4.tcp_limit_output_bytes";

/// A level. The study's are [`Level::NoOpt`], [`Level::TsoGro`], [`Level::Jumbo`] and [`Level::Arfs`], each with the one before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Single packets of 1500 bytes through the whole stack at both ends.
    NoOpt,
    /// As `NoOpt`, with segmentation below the sender's stack.
    Tso,
    /// As `NoOpt`, with merging below the receiver's stack.
    Gro,
    /// Both.
    TsoGro,
    /// Both, with packets of 9000 bytes.
    Jumbo,
    /// As `Jumbo`, with the receive path on the application's core.
    Arfs,
}

/// An error of setting a level.
#[derive(Debug, thiserror::Error)]
pub enum LevelError {
    /// An offload failed.
    #[error(transparent)]
    Ethtool(#[from] EthtoolError),
    /// A link failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Receive packet steering failed.
    #[error(transparent)]
    Rps(#[from] RpsError),
    /// A setting of the namespace failed.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// The device did not follow.
    #[error(
        "level {level}: {device} has {setting} {found} although {wanted} was set; this kernel cannot show the level"
    )]
    NotFollowed {
        /// The level.
        level: &'static str,
        /// The device.
        device: String,
        /// The setting.
        setting: &'static str,
        /// The value read back.
        found: String,
        /// The value set.
        wanted: String,
    },
}

impl LevelError {
    /// Whether the device took the setting and did not follow it.
    pub(crate) const fn is_not_followed(&self) -> bool {
        matches!(self, Self::NotFollowed { .. })
    }
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 6] = [Self::NoOpt, Self::Tso, Self::Gro, Self::TsoGro, Self::Jumbo, Self::Arfs];
    /// The study's.
    pub const STUDY: [Self; 4] = [Self::NoOpt, Self::TsoGro, Self::Jumbo, Self::Arfs];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoOpt => "noopt",
            Self::Tso => "tso",
            Self::Gro => "gro",
            Self::TsoGro => "tso-gro",
            Self::Jumbo => "jumbo",
            Self::Arfs => "arfs",
        }
    }

    /// The largest packet, in bytes.
    pub const fn mtu(self) -> u32 {
        match self {
            Self::Jumbo | Self::Arfs => 9000,
            _ => 1500,
        }
    }

    /// Whether large segments are cut below the stack.
    const fn tso(self) -> Switch {
        match self {
            Self::NoOpt | Self::Gro => Switch::Off,
            _ => Switch::On,
        }
    }

    const fn gro(self) -> Switch {
        match self {
            Self::NoOpt | Self::Tso => Switch::Off,
            _ => Switch::On,
        }
    }

    /// The state that an offload has.
    pub const fn offload(self, offload: Offload) -> Switch {
        match offload {
            Offload::Tso | Offload::Gso => self.tso(),
            Offload::Gro => self.gro(),
        }
    }

    /// The settings at a device that otherwise has those of `before`. Without TSO segments have one packet, since TCP otherwise
    /// segments in software whatever the switches say; it replaces the study's kernel patch.
    pub fn settings(self, before: &DeviceSettings) -> DeviceSettings {
        let is_on = |offload| self.offload(offload) == Switch::On;
        let most = if before.gso_max_segs > 1 { before.gso_max_segs } else { SEGMENTS };
        DeviceSettings {
            mtu: self.mtu(),
            gso_max_segs: if is_on(Offload::Tso) { most } else { 1 },
            tso: is_on(Offload::Tso),
            gso: is_on(Offload::Gso),
            gro: is_on(Offload::Gro),
            ..*before
        }
    }

    /// Sets the level at a device, and reads it back. Its receive path is bound to `cpu` where the level says so; the device must be
    /// up.
    ///
    /// # Errors
    /// If a setting is refused or not followed.
    pub fn apply(self, ns: &NetNs, device: &str, cpu: u32) -> Result<(), LevelError> {
        let before = DeviceSettings { gso_max_segs: SEGMENTS, ..DeviceSettings::read(ns, device)? };
        self.settings(&before).apply(ns, device, self.name())?;
        if self == Self::Arfs {
            rps::steer(ns, device, &BTreeSet::from([cpu]))?;
        }
        Ok(())
    }
}

/// A change of a device's settings other than a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceChange {
    /// None: the present settings.
    Present,
    /// TCP small queues of the device's namespace: the most bytes of a flow below its socket.
    SmallQueue(Bytes),
    /// The largest segment; a smaller one stays.
    Segment(Bytes),
    /// The stack cuts segments.
    NoTso,
}

impl DeviceChange {
    /// The settings at a device that otherwise has those of `before`.
    pub fn settings(self, before: &DeviceSettings) -> DeviceSettings {
        let whole = |bytes: Bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX);
        match self {
            Self::Present => *before,
            Self::SmallQueue(bytes) => {
                DeviceSettings { small_queue: before.small_queue.map(|_| bytes.get()), ..*before }
            }
            Self::Segment(bytes) => DeviceSettings {
                gso_max_size: before.gso_max_size.map(|size| size.min(whole(bytes))),
                gso_ipv4_max_size: before.gso_ipv4_max_size.map(|size| size.min(whole(bytes))),
                ..*before
            },
            Self::NoTso => DeviceSettings { tso: false, ..*before },
        }
    }
}

/// A setting as a number; a switch is 0 or 1. `None` where the kernel lacks it, or a journal of an earlier version.
type Figure = fn(&DeviceSettings) -> Option<u64>;

/// All settings by their names.
const FIGURES: [(&str, Figure); 8] = [
    ("MTU", |settings| Some(settings.mtu.into())),
    ("gso_max_segs", |settings| Some(settings.gso_max_segs.into())),
    ("tso", |settings| Some(settings.tso.into())),
    ("gso", |settings| Some(settings.gso.into())),
    ("gro", |settings| Some(settings.gro.into())),
    ("gso_max_size", |settings| settings.gso_max_size.map(u64::from)),
    ("gso_ipv4_max_size", |settings| settings.gso_ipv4_max_size.map(u64::from)),
    ("tcp_limit_output_bytes", |settings| settings.small_queue),
];

/// The settings of a device that levels change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSettings {
    /// The largest packet, in bytes.
    pub mtu: u32,
    /// The most packets in a segment that the stack passes to the device.
    pub gso_max_segs: u32,
    /// TCP segmentation by the device.
    pub tso: bool,
    /// Late segmentation by the stack.
    pub gso: bool,
    /// Merging of received segments.
    pub gro: bool,
    /// The largest segment in bytes.
    #[serde(default)]
    pub gso_max_size: Option<u32>,
    /// The largest segment over IPv4, where the kernel has a separate limit for it.
    #[serde(default)]
    pub gso_ipv4_max_size: Option<u32>,
    /// TCP small queues of the namespace, in bytes.
    #[serde(default)]
    pub small_queue: Option<u64>,
}

impl DeviceSettings {
    /// The settings of a device.
    ///
    /// # Errors
    /// If the device does not exist, or cannot be queried.
    pub fn read(ns: &NetNs, device: &str) -> Result<Self, LevelError> {
        let link = link::show(ns, device)?;
        let mut nic = Nic::open(ns, device)?;
        let [tso, gso, gro] =
            Offload::ALL.map(|offload| Ok::<_, EthtoolError>(nic.offload(offload)? == Switch::On));
        Ok(Self {
            mtu: link.mtu,
            gso_max_segs: link.gso_max_segs,
            tso: tso?,
            gso: gso?,
            gro: gro?,
            gso_max_size: Some(link.gso_max_size),
            gso_ipv4_max_size: link.gso_ipv4_max_size,
            small_queue: sysctl::get(ns, SMALL_QUEUE).ok().and_then(|text| text.parse().ok()),
        })
    }

    fn offload(&self, offload: Offload) -> bool {
        match offload {
            Offload::Tso => self.tso,
            Offload::Gso => self.gso,
            Offload::Gro => self.gro,
        }
    }

    /// Makes these the settings of a device, and reads them back. `level` is their name in errors. What is so already is not set:
    /// drivers restart their link for some.
    ///
    /// # Errors
    /// If a setting is refused or not followed.
    pub fn apply(&self, ns: &NetNs, device: &str, level: &'static str) -> Result<(), LevelError> {
        let before = Self::read(ns, device)?;
        if before.mtu != self.mtu {
            link::set_mtu(ns, device, self.mtu)?;
        }
        if before.gso_max_segs != self.gso_max_segs {
            link::set_gso_max_segs(ns, device, self.gso_max_segs)?;
        }
        let sizes = (self.gso_max_size, self.gso_ipv4_max_size);
        if let Some(max) = self.gso_max_size
            && sizes != (before.gso_max_size, before.gso_ipv4_max_size)
        {
            link::set_gso_sizes(ns, device, GsoSizes { max, ipv4_max: self.gso_ipv4_max_size })?;
        }
        if let Some(bytes) = self.small_queue.filter(|_| self.small_queue != before.small_queue) {
            sysctl::set(ns, SMALL_QUEUE, &bytes.to_string())?;
        }
        let mut nic = Nic::open(ns, device)?;
        for offload in Offload::ALL.into_iter().filter(|one| before.offload(*one) != self.offload(*one)) {
            nic.set_offload(offload, if self.offload(offload) { Switch::On } else { Switch::Off })?;
        }
        let found = Self::read(ns, device)?;
        let differs = |(_, figure): &(_, Figure)| figure(self).is_some() && figure(&found) != figure(self);
        let text = |value: Option<u64>| value.map_or_else(|| "none".to_owned(), |value| value.to_string());
        match FIGURES.into_iter().find(differs) {
            None => Ok(()),
            Some((setting, figure)) => Err(LevelError::NotFollowed {
                level,
                device: device.to_owned(),
                setting,
                found: text(figure(&found)),
                wanted: text(figure(self)),
            }),
        }
    }

    /// The settings of a device that has these now, had `before`, and was given those of `set`: what is as it was given becomes as it
    /// was, and what another process changed stays. Returns their names too.
    #[must_use]
    pub fn restored(&self, before: &Self, set: &[Self]) -> (Self, Vec<&'static str>) {
        let ours = |figure: Figure| {
            let unknown = figure(before).is_none();
            unknown || figure(self) == figure(before) || set.iter().any(|one| figure(one) == figure(self))
        };
        let from = |figure: Figure| if ours(figure) { before } else { self };
        let [mtu, segs, tso, gso, gro, size, ipv4, small] = FIGURES.map(|(_, figure)| from(figure));
        let left = FIGURES.into_iter().filter(|(_, figure)| !ours(*figure)).map(|(name, _)| name).collect();
        let wanted = Self {
            mtu: mtu.mtu,
            gso_max_segs: segs.gso_max_segs,
            tso: tso.tso,
            gso: gso.gso,
            gro: gro.gro,
            gso_max_size: size.gso_max_size.or(self.gso_max_size),
            gso_ipv4_max_size: ipv4.gso_ipv4_max_size.or(self.gso_ipv4_max_size),
            small_queue: small.small_queue.or(self.small_queue),
        };
        (wanted, left)
    }
}
