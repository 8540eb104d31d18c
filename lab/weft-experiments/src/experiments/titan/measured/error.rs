//! The errors of a measured run.

use super::path::PathError;
use super::settings::RunSettingsError;
use weft_host::OsError;
use weft_host::net_counters::CounterError;
use weft_host::netns::NetNsError;
use weft_host::process::ProcessError;
use weft_host::sysctl::SysctlError;
use weft_profile::error::ProfileError;
use weft_profile::ping::PingError;

/// The reason that a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasuredError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] RunSettingsError),
    /// A step on the path failed.
    #[error(transparent)]
    Path(#[from] PathError),
    /// iperf3 failed.
    #[error(transparent)]
    Iperf(ProfileError),
    /// ping failed.
    #[error(transparent)]
    Ping(#[from] PingError),
    /// A step did not complete in time.
    #[error("waited too long for {0}; is the machine busy?")]
    Late(&'static str),
    /// Departures are missing from the log, so that fairness is unknown.
    #[error("the NIC's log lost {0} departures: log fewer at a time, or use a lower rate")]
    Lost(u64),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// A program could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// TCP's counters cannot be read.
    #[error(transparent)]
    Counters(#[from] CounterError),
    /// A step on a namespace failed.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A setting could not be changed.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// Another system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl From<ProfileError> for MeasuredError {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Stopped => Self::Stopped,
            other => Self::Iperf(other),
        }
    }
}
