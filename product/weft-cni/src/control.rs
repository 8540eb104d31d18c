//! The daemon behind its control socket.

use crate::bandwidth::Limit;
use crate::daemon::{Connected, Daemon, DaemonCallError, DaemonState, NewPort};
use std::path::{Path, PathBuf};
use weft_control::interface::{AddPort, PortLimit};
use weft_control::{Client, ClientError, ControlError};
use weft_facts::status::WorkerState;
use weft_units::Bytes;

/// The largest frame on the wire, which gives the least burst: 1500 bytes and Ethernet's framing.
const FRAME: Bytes = Bytes(1538);

/// A connection.
#[derive(Debug)]
struct Control {
    client: Client,
    socket: PathBuf,
}

/// Connects to the daemon at `socket`.
///
/// # Errors
/// When no daemon listens there, or the socket may not be opened.
pub fn connect(socket: &Path) -> Connected {
    match Client::connect(socket) {
        Ok(client) => Ok(Box::new(Control { client, socket: socket.to_owned() })),
        Err(error) => Err(translate(error, socket)),
    }
}

fn translate(error: ClientError, socket: &Path) -> DaemonCallError {
    let unreachable = |reason: &dyn std::fmt::Display| DaemonCallError::Unreachable {
        socket: socket.to_owned(),
        reason: reason.to_string(),
    };
    match error {
        ClientError::NoDaemon { source, .. } => unreachable(&source),
        ClientError::Io(_) | ClientError::Silent | ClientError::Closed => unreachable(&error),
        ClientError::Refused(ControlError::PortExists { name }) => DaemonCallError::PortExists(name),
        ClientError::Refused(ControlError::NoSuchPort { name }) => DaemonCallError::NoSuchPort(name),
        ClientError::Refused(ControlError::Busy { message }) => DaemonCallError::Busy(message),
        ClientError::NotAllowed { .. } | ClientError::Malformed(_) | ClientError::Refused(_) => {
            DaemonCallError::Refused(error.to_string())
        }
    }
}

fn limit(limit: Limit) -> PortLimit {
    PortLimit { rate: limit.rate, burst: limit.depth(FRAME) }
}

impl Control {
    fn translate(&self, error: ClientError) -> DaemonCallError {
        translate(error, &self.socket)
    }
}

impl Daemon for Control {
    fn add_port(&mut self, port: &NewPort) -> Result<(), DaemonCallError> {
        let call = AddPort {
            name: port.name.clone(),
            netns: Some(port.netns.clone()),
            addresses: Vec::new(),
            mac: port.mac.map(|mac| mac.to_string()),
            egress_limit: port.bandwidth.egress.map(limit),
            ingress_limit: port.bandwidth.ingress.map(limit),
            uplink: None,
        };
        self.client.add_port(call).map(|_| ()).map_err(|e| self.translate(e))
    }

    fn remove_port(&mut self, name: &str) -> Result<(), DaemonCallError> {
        self.client.remove_port(name).map(|_| ()).map_err(|e| self.translate(e))
    }

    fn ports(&mut self) -> Result<Vec<String>, DaemonCallError> {
        let listed = self.client.list_ports().map_err(|e| self.translate(e))?;
        Ok(listed.ports.into_iter().map(|port| port.port).collect())
    }

    fn state(&mut self) -> Result<DaemonState, DaemonCallError> {
        let status = self.client.status().map_err(|e| self.translate(e))?;
        Ok(match status.worker {
            WorkerState::Ended => DaemonState::Ended,
            WorkerState::Waiting | WorkerState::Running => DaemonState::Ready,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_errors_are_told_apart() {
        let refused = |error: ControlError| translate(error.into(), Path::new("/run/x"));
        let name = || "p".to_owned();
        assert_eq!(refused(ControlError::PortExists { name: name() }), DaemonCallError::PortExists(name()));
        assert_eq!(refused(ControlError::NoSuchPort { name: name() }), DaemonCallError::NoSuchPort(name()));
        assert!(matches!(refused(ControlError::Failed { message: name() }), DaemonCallError::Refused(_)));
        let Err(error) = connect(Path::new("/no/such/socket")) else { panic!("nothing listens") };
        assert!(matches!(&error, DaemonCallError::Unreachable { .. }), "{error}");
    }
}
