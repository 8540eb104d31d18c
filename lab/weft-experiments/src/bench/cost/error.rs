//! The errors of a measurement of cost.

use weft_host::bpf::BpfError;
use weft_host::link::LinkError;
use weft_host::net_counters::CounterError;
use weft_host::netns::NetNsError;
use weft_host::process::ProcessError;
use weft_host::tc::TcError;
use weft_host::{OsError, RightsError};
use weft_nic::port::PortError;
use weft_profile::error::ProfileError;
use weft_run::kernel::KernelError;
use weft_run::session::SessionError;

/// The reason that a cost could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// The rights for namespaces and links are missing.
    #[error("measuring cost: {0}")]
    Rights(#[from] RightsError),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// The built-in policy does not compile: a bug, reported instead of executed.
    #[error("the policy of the case is refused: {0}")]
    Policy(String),
    /// The bulk flows failed.
    #[error(transparent)]
    Flows(ProfileError),
    /// The web server or its client could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The web server's client measured nothing.
    #[error("wrk measured nothing: {0}")]
    Wrk(String),
    /// The port of `weft run` failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The port ended by itself.
    #[error("the port ended while it was measured; were its devices deleted?")]
    Ended,
    /// The policy could not be put into the kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// HTB or its filter failed.
    #[error(transparent)]
    Htb(#[from] TcError),
    /// The forwarder's port failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// An eBPF program failed.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// A namespace failed.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A link or an address failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The receiver's counters cannot be read.
    #[error(transparent)]
    Counters(#[from] CounterError),
}

impl From<ProfileError> for CostError {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Stopped => Self::Stopped,
            other => Self::Flows(other),
        }
    }
}

impl CostError {
    /// Whether this machine lacks a program that the measurement needs, so that it can show nothing.
    pub fn is_missing_program(&self) -> bool {
        matches!(self, Self::Flows(ProfileError::Process(ProcessError::NotInstalled { .. })))
    }
}
