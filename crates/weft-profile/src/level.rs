//! Levels of optimisation: settings of the two ends, each set and read back.

use weft_host::NetNs;
use weft_host::ethtool::{EthtoolError, Nic, Offload, Switch};
use weft_host::link::{self, LinkError};
use weft_host::napi::{self, NapiError};

/// The kernel's default of `gso_max_segs`.
const SEGMENTS: u32 = 65_535;

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
    /// NAPI failed.
    #[error(transparent)]
    Napi(#[from] NapiError),
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

    /// The most packets in a segment: without TSO one, since TCP otherwise segments in software whatever the switches say. It
    /// replaces the study's kernel patch.
    const fn segments(self) -> u32 {
        match self.tso() {
            Switch::On => SEGMENTS,
            Switch::Off => 1,
        }
    }

    /// Sets the level at a device, and reads it back. Its receive path is bound to `cpu` where the level says so; the device must be
    /// up.
    ///
    /// # Errors
    /// If a setting is refused or not followed.
    pub fn apply(self, ns: &NetNs, device: &str, cpu: u32) -> Result<(), LevelError> {
        let follow = |setting, found: String, wanted: String| {
            if found == wanted {
                return Ok(());
            }
            Err(LevelError::NotFollowed {
                level: self.name(),
                device: device.to_owned(),
                setting,
                found,
                wanted,
            })
        };
        link::set_mtu(ns, device, self.mtu())?;
        link::set_gso_max_segs(ns, device, self.segments())?;
        let mut nic = Nic::open(ns, device)?;
        for offload in Offload::ALL {
            let wanted = self.offload(offload);
            let found = nic.set_offload(offload, wanted)?;
            follow(offload.name(), format!("{found:?}"), format!("{wanted:?}"))?;
        }
        let link = link::show(ns, device)?;
        follow("MTU", link.mtu.to_string(), self.mtu().to_string())?;
        follow("gso_max_segs", link.gso_max_segs.to_string(), self.segments().to_string())?;
        if self == Self::Arfs {
            napi::bind(ns, device, cpu)?;
        }
        Ok(())
    }
}
