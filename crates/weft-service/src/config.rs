//! The configuration of the daemon.
//!
//! The main file is the first of `/etc/weft/weft.toml`, `/run/weft/weft.toml` and `/usr/lib/weft/weft.toml`, or the one
//! that `--config` names. Drop-ins, `weft.toml.d/*.conf` in the same folders, replace single keys. They are read in the
//! order of their names; of drop-ins with equal names the one in the first folder counts, and an empty one masks the
//! others.
//!
//! ```toml
//! uplink = "eth0"              # the interface through which packets leave
//! uplink-netns = "outside"     # its namespace; without it the daemon's
//! rate = "900mbps"             # the link's rate; without it the policy's
//! policy = "tenants"           # /etc/weft/policies/tenants.weft, or a path
//! socket = "/run/weft/io.weft" # the control socket
//! group = "weft"               # whoever is in it may read the status
//! metrics = "localhost:9905"   # or "unix:/run/weft/metrics", or "off"
//! on-failure = "hold"          # or "pass": the fate of traffic when the transmit worker fails
//! watchdog = "auto"            # or "off"
//!
//! [[ports]]
//! name = "weft0"
//! netns = "web"
//! addresses = ["192.0.2.10/24"]
//! mac = "02:00:5e:00:53:01"
//! ```
//!
//! The policy comes with the configuration: a path relative to the folder of the file that names it.

mod folders;
mod read;

pub(crate) use read::parse_address;

pub use folders::Folders;

use core::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use weft_host::Mac;
use weft_text::LocatedError;
use weft_units::BitsPerSec;

/// The default group of the control socket.
pub const GROUP: &str = "weft";

/// The configuration, complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The interface through which packets leave.
    pub uplink: String,
    /// Its namespace; `None` for the daemon's.
    pub uplink_netns: Option<String>,
    /// The link's rate; `None` for the policy's.
    pub rate: Option<BitsPerSec>,
    /// The file of the policy.
    pub policy: PathBuf,
    /// The control socket.
    pub socket: PathBuf,
    /// The group of the control socket.
    pub group: String,
    /// The place of the metrics.
    pub metrics: Metrics,
    /// The fate of traffic when the transmit worker fails.
    pub on_failure: OnFailure,
    /// Whether the service manager's watchdog is served.
    pub watchdog: Watchdog,
    /// The ports.
    pub ports: Vec<PortConfig>,
}

/// A port of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortConfig {
    /// Its name.
    pub name: String,
    /// Its namespace; `None` for the daemon's.
    pub netns: Option<String>,
    /// Its addresses.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its hardware address; `None` for a random one.
    pub mac: Option<Mac>,
}

/// The place where metrics are served.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Metrics {
    /// Nowhere.
    #[default]
    Off,
    /// A socket of the file system.
    Unix(PathBuf),
    /// A loopback address.
    Loopback(SocketAddr),
}

/// The fate of traffic when the transmit worker fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailure {
    /// Nothing leaves: the daemon ends, and its ports with it.
    #[default]
    Hold,
    /// Packets leave unscheduled.
    Pass,
}

/// Whether the service manager's watchdog is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Watchdog {
    /// If the service manager asks for it.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// Errors of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// No main file exists.
    #[error("there is no configuration; write {first}, or name a file with --config")]
    Missing {
        /// The place of the first main file.
        first: PathBuf,
    },
    /// A file could not be read.
    #[error("cannot read {}: {reason}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// A file is invalid.
    #[error(transparent)]
    At(#[from] LocatedError),
    /// A required key is missing in all files.
    #[error("{}: error: `{key}` is missing\n  hint: write `{key} = \"{example}\"`", file.display())]
    Lacks {
        /// The main file.
        file: PathBuf,
        /// The key.
        key: &'static str,
        /// An example of its value.
        example: &'static str,
    },
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Loopback(address) => write!(f, "http://{address}/metrics"),
        }
    }
}
