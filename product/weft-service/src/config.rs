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
//! backend = "port"             # or "kernel": the policy holds for all that leaves by the uplink; or "auto"
//! workers = 2                  # transmit workers that share the policy; each port belongs to one
//! policy = "tenants"           # /etc/weft/policies/tenants.weft, or a path
//! socket = "/run/weft/io.weft" # the control socket
//! group = "weft"               # its members may read the status
//! metrics = "localhost:9905"   # or "unix:/run/weft/metrics", or "off"
//! hold = "auto"                # or "systemd", "keeper", "off": who keeps the ports while no daemon runs
//! on-failure = "hold"          # or "pass": the fate of traffic while the transmit worker does not run
//! watchdog = "auto"            # or "off"
//!
//! [[ports]]
//! name = "weft0"
//! netns = "web"
//! addresses = ["192.0.2.10/24"]
//! mac = "02:00:5e:00:53:01"
//! egress-limit = "100mbps,30kb" # of what the port sends: the rate, and the burst if wanted
//! ingress-limit = "200mbps"     # of what it receives
//! ```
//!
//! The policy comes with the configuration: a path relative to the folder of the file that names it.
//!
//! Several uplinks have a table each, in place of `uplink = "eth0"`. `policy` and `rate` above them hold for tables without.
//!
//! ```toml
//! policy = "tenants"
//! default-uplink = "lan"       # of ports and calls that name none; unnecessary with one table
//!
//! [uplink.lan]
//! device = "eth0"
//!
//! [uplink.wan]
//! device = "eth1"
//! netns = "outside"
//! policy = "wan"
//! rate = "100mbps"
//!
//! [[ports]]
//! name = "weft0"
//! uplink = "wan"
//!
//! [steer]                      # the receive queues of the host's NIC; see docs/steering.md
//! device = "eth0"              # with one uplink, its device
//! nic = "e810"                 # a model
//! policy = "balance"
//! watch = true                 # for the flows of the host's sockets; or flows = "flows.csv"
//! ```

mod folders;
mod ports;
mod read;
mod steer;
mod uplinks;
mod values;

pub(crate) use ports::{BURST_MAX, parse_address};

pub use folders::Folders;
pub use ports::parse_limit;

use core::fmt;
use core::num::NonZeroUsize;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use weft_facts::ports::PortLimit;
use weft_host::Mac;
use weft_steer::search::Options;
use weft_text::LocatedError;
use weft_units::{BitsPerSec, Nanos};

/// The default group of the control socket.
pub const GROUP: &str = "weft";

/// The configuration, complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The uplinks, at least one.
    pub uplinks: Vec<UplinkConfig>,
    /// The place in `uplinks` of the one that is meant where none is named.
    pub default_uplink: Option<usize>,
    /// The control socket.
    pub socket: PathBuf,
    /// The group of the control socket.
    pub group: String,
    /// The place of the metrics.
    pub metrics: Metrics,
    /// The keeper of the ports while no daemon runs.
    pub hold: Hold,
    /// The fate of traffic while the transmit worker does not run.
    pub on_failure: OnFailure,
    /// Whether the service manager's watchdog is served.
    pub watchdog: Watchdog,
    /// The receive steering of the host's NIC, if it is wanted.
    pub steer: Option<SteerConfig>,
}

/// The receive steering of a NIC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SteerConfig {
    /// The interface.
    pub device: String,
    /// Its namespace, whose sockets are watched; `None` for the daemon's.
    pub netns: Option<String>,
    /// The model of the NIC: a name or a file.
    pub nic: String,
    /// The steering policy: its goals, or the file of a policy that has `steer` clauses.
    pub policy: String,
    /// The origin of the flows.
    pub flows: FlowSource,
    /// The options of the plan.
    pub options: Options,
    /// The time between two looks at the flows.
    pub interval: Nanos,
}

/// The origin of the flows that receive queues are planned for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FlowSource {
    /// The sockets of the namespace, as they come and go.
    Sockets,
    /// A file.
    File(PathBuf),
}

/// An uplink: an interface with its policy and its ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UplinkConfig {
    /// The name of its table; `None` for the only uplink of a configuration without tables.
    pub name: Option<String>,
    /// The interface through which packets leave.
    pub device: String,
    /// Its namespace; `None` for the daemon's.
    pub netns: Option<String>,
    /// The link's rate; `None` for the policy's.
    pub rate: Option<BitsPerSec>,
    /// The number of transmit workers.
    pub workers: NonZeroUsize,
    /// The carrier of its policy.
    pub backend: UplinkBackend,
    /// The file of the policy.
    pub policy: PathBuf,
    /// The ports.
    pub ports: Vec<ConfiguredPort>,
}

impl UplinkConfig {
    /// The name that users call it by: that of its table, or of the interface.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.device)
    }
}

/// The carrier of an uplink's policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UplinkBackend {
    /// The software NIC, for what goes through its ports.
    #[default]
    Port,
    /// The kernel, for all that leaves by the interface.
    Kernel,
    /// The kernel if it keeps the policy and the uplink has no ports, otherwise the software NIC.
    Auto,
}

/// A port of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfiguredPort {
    /// Its name.
    pub name: String,
    /// Its namespace; `None` for the daemon's.
    pub netns: Option<String>,
    /// Its addresses.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its hardware address; `None` for a random one.
    pub mac: Option<Mac>,
    /// The uplink; `None` for the default one.
    pub uplink: Option<String>,
    /// The limit of what it sends.
    pub egress: Option<PortLimit>,
    /// The limit of what it receives.
    pub ingress: Option<PortLimit>,
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

/// The keeper of the ports while no daemon runs: after a crash, and during a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hold {
    /// The service manager, if it stores descriptors for the daemon; otherwise a keeper process.
    #[default]
    Auto,
    /// The service manager.
    Systemd,
    /// A keeper process.
    Keeper,
    /// No process: the ports end with the daemon.
    Off,
}

/// The fate of traffic while the transmit worker does not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailure {
    /// Packets wait.
    #[default]
    Hold,
    /// Packets leave unscheduled.
    Pass,
}

/// Whether the service manager's watchdog is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Watchdog {
    /// If the service manager requests it.
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
    /// Files are invalid. All mistakes, in their order.
    #[error("{}", .0.iter().map(LocatedError::to_string).collect::<Vec<_>>().join("\n"))]
    At(Vec<LocatedError>),
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
    /// The uplinks do not go together.
    #[error("{}: error: {what}\n  hint: {hint}", file.display())]
    Uplinks {
        /// The main file.
        file: PathBuf,
        /// The error.
        what: String,
        /// The remedy.
        hint: String,
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
