//! The daemon, as the plugin needs it.

use crate::bandwidth::Bandwidth;
use crate::error::{CniError, ErrorCode};
use std::path::PathBuf;
use weft_host::Mac;

/// A port to be added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewPort {
    /// The name of the port, and of its device until the plugin renames it.
    pub name: String,
    /// The container's namespace: a name in `/run/netns`, or an absolute path.
    pub netns: String,
    /// The hardware address; `None` for one of the daemon's choice.
    pub mac: Option<Mac>,
    /// The limits of the port.
    pub bandwidth: Bandwidth,
}

/// The state of a daemon that answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DaemonState {
    /// Packets are scheduled, or will be as soon as there is a port.
    Ready,
    /// The transmit worker has ended, so ports carry no packets.
    Ended,
}

/// An error of a call of the daemon.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DaemonCallError {
    /// No daemon listens, or the connection broke.
    #[error("{socket}: {reason}; start it with: systemctl start weft")]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The name of the port is in use.
    #[error("a port {0} exists already")]
    PortExists(String),
    /// No port has the name.
    #[error("there is no port {0}")]
    NoSuchPort(String),
    /// The daemon has too much to do.
    #[error("the daemon is busy: {0}")]
    Busy(String),
    /// The daemon refuses the call.
    #[error("{0}")]
    Refused(String),
}

impl DaemonCallError {
    /// The error of the plugin when `action` fails.
    pub fn during(self, action: &str) -> CniError {
        let code = match self {
            Self::Unreachable { .. } | Self::Busy(_) => ErrorCode::TryAgain,
            Self::PortExists(_) | Self::NoSuchPort(_) | Self::Refused(_) => ErrorCode::Failed,
        };
        CniError::new(code, format!("cannot {action}")).details(self)
    }
}

/// The result of connecting to the daemon.
pub type Connected = Result<Box<dyn Daemon>, DaemonCallError>;

/// The calls of the control socket that the plugin makes.
pub trait Daemon {
    /// Adds a port. Its device is then in the namespace, up and without addresses.
    ///
    /// # Errors
    /// When the daemon refuses it.
    fn add_port(&mut self, port: &NewPort) -> Result<(), DaemonCallError>;

    /// Removes a port.
    ///
    /// # Errors
    /// When no port has this name, or the daemon refuses it.
    fn remove_port(&mut self, name: &str) -> Result<(), DaemonCallError>;

    /// The names of all ports.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn ports(&mut self) -> Result<Vec<String>, DaemonCallError>;

    /// The state of the daemon.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn state(&mut self) -> Result<DaemonState, DaemonCallError>;
}
