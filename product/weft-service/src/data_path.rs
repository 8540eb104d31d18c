//! The data path as the daemon uses it, so that the daemon has one interface and its tests need no kernel.
//!
//! A policy changes in two steps: [`DataPath::prepare`] says what would change and changes nothing, and
//! [`DataPath::commit`] changes it. Ports come and go between changes. All calls come from the daemon's one thread.

pub mod kernel;
pub mod missing;
pub mod session;

use crate::config::{Config, UplinkConfig};
use crate::holding::Opened;
use crate::policy::ServicePolicy;
use crate::tenants::Tenants;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use weft_facts::ports::PortLimit;
use weft_facts::status::ServiceStatus;
use weft_host::Mac;
use weft_host::store::StoreError;
use weft_policy::CompiledPolicy;
use weft_run::session::SessionError;
use weft_units::Nanos;

/// A running data path. Dropping it removes its devices and programs.
pub trait DataPath: std::fmt::Debug {
    /// Says what a change to `policy` would do. Changes nothing.
    ///
    /// # Errors
    /// When the data path cannot change to it.
    fn prepare(&mut self, policy: &CompiledPolicy) -> Result<PolicyPlan, DataPathError>;

    /// Puts a policy in force that was prepared.
    ///
    /// # Errors
    /// When the data path cannot change to it; the former policy is then still in force.
    fn commit(&mut self, policy: &ServicePolicy) -> Result<(), DataPathError>;

    /// Sets the wait of flows that change their class for packets that they have left.
    fn set_drain(&mut self, _limit: Nanos) {}

    /// The counters, without what only the daemon knows. Also follows changes of the uplink, so it is called several times a second.
    ///
    /// # Errors
    /// When they cannot be read.
    fn status(&mut self) -> Result<ServiceStatus, DataPathError>;

    /// Makes a port, and returns notes for the operator.
    ///
    /// # Errors
    /// When it cannot be made; nothing of it remains then.
    fn add_port(&mut self, port: &PortSpec) -> Result<Vec<String>, DataPathError>;

    /// Takes a port down for good. Its packets are sent meanwhile, and nothing waits for them.
    ///
    /// # Errors
    /// When there is no such port.
    fn close_port(&mut self, name: &str) -> Result<(), DataPathError>;

    /// Whether a closed port has no packets left to send.
    fn is_drained(&self, name: &str) -> bool;

    /// Removes a port, with the packets that it still has.
    ///
    /// # Errors
    /// When there is no such port.
    fn remove_port(&mut self, name: &str) -> Result<(), DataPathError>;

    /// Remembers the daemon's own state for a successor, if the data path outlives the daemon.
    fn remember(&mut self, memory: &DaemonMemory) {
        let _ = memory;
    }

    /// Warnings for the operator that hold now, such as ports whose devices were deleted.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// The changes by other programs at the ports since the last call, and what became of them, one line each.
    fn take_changes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the uplink's interface is not where it was.
    fn is_uplink_gone(&self) -> bool {
        false
    }

    /// The age of the last sign of life of the transmit worker.
    fn heartbeat_age(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Leaves everything to a successor of this process: packets wait, or pass, as configured. A data path that ends with the
    /// daemon finishes.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    fn hand_over(self: Box<Self>) -> Result<(), DataPathError> {
        self.finish()
    }

    /// Ends the data path: takes the ports down, sends their packets, and removes everything.
    ///
    /// # Errors
    /// When it had failed before, with the reason.
    fn finish(self: Box<Self>) -> Result<(), DataPathError>;
}

/// The daemon's own state, for a successor.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DaemonMemory {
    /// The generation of the policy.
    pub generation: u64,
    /// The users who made ports, by the names of the ports. Others are the configuration's.
    pub owners: BTreeMap<String, u32>,
    /// The limits of what ports send, by the names of the ports.
    #[serde(default)]
    pub egress: BTreeMap<String, PortLimit>,
    /// The tenants of the policy, with the files that were attached.
    #[serde(default)]
    pub tenants: Tenants,
}

/// A data path that was taken over from a former process.
#[derive(Clone, PartialEq, Debug)]
pub struct Former {
    /// The policy in force.
    pub policy: ServicePolicy,
    /// The state of the former daemon.
    pub memory: DaemonMemory,
    /// The ports.
    pub ports: Vec<PortSpec>,
}

/// A started data path.
#[derive(Debug)]
pub struct Started {
    /// The data path.
    pub path: Box<dyn DataPath>,
    /// The former daemon's policy and ports, if it was taken over.
    pub former: Option<Former>,
    /// Notes for the operator, one line each.
    pub notes: Vec<String>,
    /// The reason that no data path exists at present, if so.
    pub missing: Option<String>,
}

/// The maker of data paths: one for each uplink.
pub trait Maker: std::fmt::Debug {
    /// Starts a data path with `policy` above `uplink`, without ports, or takes over what a former daemon has left in the
    /// store.
    ///
    /// # Errors
    /// When it cannot be had; nothing of it remains then.
    fn start(
        &self,
        policy: &ServicePolicy,
        uplink: &UplinkConfig,
        config: &Config,
        store: Option<Opened>,
    ) -> Result<Started, DataPathError>;

    /// Whether a start that failed is worth another attempt: the uplink's interface is there.
    fn may_start(&self, uplink: &UplinkConfig) -> bool;
}

/// A port to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortSpec {
    /// Its name.
    pub name: String,
    /// Its namespace; `None` for the daemon's.
    pub netns: Option<String>,
    /// Its addresses.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its hardware address.
    pub mac: Mac,
    /// The limit of what it sends, beside those of the policy. The policy that is committed has it.
    pub egress: Option<PortLimit>,
    /// The limit of what it receives.
    pub ingress: Option<PortLimit>,
}

/// The effect of a change of policy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PolicyPlan {
    /// The changes, one line each; empty if nothing changes.
    pub steps: Vec<String>,
    /// Warnings, one line each.
    pub warnings: Vec<String>,
}

/// Errors of a data path.
#[derive(Debug, thiserror::Error)]
pub enum DataPathError {
    /// The data path cannot do this.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The uplink has no data path at present.
    #[error("the uplink does not run: {0}")]
    Missing(String),
    /// The name of the port is in use.
    #[error("a port {0} exists already")]
    PortExists(String),
    /// No port has the name.
    #[error("there is no port {0}")]
    NoSuchPort(String),
    /// The ports of a former daemon cannot be had.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Something else failed.
    #[error("{0}")]
    Failed(String),
}
