//! A blocking client.
//!
//! A call is one message, and its reply is another. Sending and each receiving have a time limit, so a daemon that hangs is
//! an error and not a wait for ever.

use crate::error::ControlError;
use crate::interface::{
    AddPort, AddPortReply, ChangeReply, GenerationReply, ListPortsReply, ListTenantsReply, LoadPolicy,
    Monitor, OfUplink, PolicySource, PortName, ReloadReply, Request, ServiceConfig, ServiceStatus,
    TenantFile, TenantName, TenantReply,
};
use crate::wire::{self, Frames, WireAnswer};
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest wait for a part of an answer. Draining a port may take the daemon some seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// The bytes read at once.
const READ_SIZE: usize = 64 << 10;

/// Errors of a call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon listens.
    #[error(
        "no daemon answers at {path}: {source}; `weft daemon` starts one, and --socket names another path; a `weft run` has no such socket"
    )]
    NoDaemon {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The user may not open the socket.
    #[error("the socket {path} may not be opened: {source}; root and the group of the socket may")]
    NotAllowed {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The connection failed.
    #[error("the connection to the daemon failed: {0}")]
    Io(#[from] io::Error),
    /// The daemon did not answer in time.
    #[error("the daemon does not answer within {} s", PATIENCE.as_secs())]
    Silent,
    /// The daemon ended the connection.
    #[error("the daemon ended the connection")]
    Closed,
    /// The answer cannot be read.
    #[error("the daemon's answer cannot be read: {0}")]
    Malformed(String),
    /// The daemon refused.
    #[error(transparent)]
    Refused(#[from] ControlError),
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    frames: Frames,
    /// The uplink that calls are about, unless they name one.
    uplink: Option<String>,
}

impl Client {
    /// Connects to the daemon at `path`.
    ///
    /// # Errors
    /// When no daemon listens there, or the user may not open the socket.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path).map_err(|source| {
            let path = path.to_owned();
            match source.kind() {
                io::ErrorKind::PermissionDenied => ClientError::NotAllowed { path, source },
                _ => ClientError::NoDaemon { path, source },
            }
        })?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, frames: Frames::default(), uplink: None })
    }

    /// The same connection for calls about `uplink`; `None` leaves it to the daemon.
    #[must_use]
    pub fn about(self, uplink: Option<String>) -> Self {
        Self { uplink, ..self }
    }

    fn of_uplink(&self) -> OfUplink {
        OfUplink { uplink: self.uplink.clone() }
    }

    /// The counters.
    ///
    /// # Errors
    /// When the call fails.
    pub fn status(&mut self) -> Result<ServiceStatus, ClientError> {
        self.call(&Request::Status(self.of_uplink()))
    }

    /// The policy in force.
    ///
    /// # Errors
    /// When the call fails.
    pub fn config(&mut self) -> Result<ServiceConfig, ClientError> {
        self.call(&Request::Config(self.of_uplink()))
    }

    /// Puts a policy in force.
    ///
    /// # Errors
    /// When the call fails, or the policy is refused.
    pub fn load_policy(&mut self, policy: LoadPolicy) -> Result<ChangeReply, ClientError> {
        let uplink = policy.uplink.or_else(|| self.uplink.clone());
        self.call(&Request::LoadPolicy(LoadPolicy { uplink, ..policy }))
    }

    /// The change that a policy would make.
    ///
    /// # Errors
    /// When the call fails, or the policy is refused.
    pub fn diff_policy(&mut self, policy: PolicySource) -> Result<ChangeReply, ClientError> {
        let uplink = policy.uplink.or_else(|| self.uplink.clone());
        self.call(&Request::DiffPolicy(PolicySource { uplink, ..policy }))
    }

    /// Puts the configured policy in force.
    ///
    /// # Errors
    /// When the call fails.
    pub fn restore_policy(&mut self) -> Result<ChangeReply, ClientError> {
        self.call(&Request::RestorePolicy(self.of_uplink()))
    }

    /// Makes a port.
    ///
    /// # Errors
    /// When the call fails, or the port cannot be made.
    pub fn add_port(&mut self, port: AddPort) -> Result<AddPortReply, ClientError> {
        let uplink = port.uplink.or_else(|| self.uplink.clone());
        self.call(&Request::AddPort(AddPort { uplink, ..port }))
    }

    /// Removes a port.
    ///
    /// # Errors
    /// When the call fails, or there is no such port.
    pub fn remove_port(&mut self, name: &str) -> Result<GenerationReply, ClientError> {
        self.call(&Request::RemovePort(PortName { name: name.to_owned() }))
    }

    /// The ports.
    ///
    /// # Errors
    /// When the call fails.
    pub fn list_ports(&mut self) -> Result<ListPortsReply, ClientError> {
        self.call(&Request::ListPorts(self.of_uplink()))
    }

    /// Attaches a file to a tenant that has none.
    ///
    /// # Errors
    /// When the call fails, or the file is refused.
    pub fn attach_tenant(&mut self, file: TenantFile) -> Result<TenantReply, ClientError> {
        let uplink = file.uplink.or_else(|| self.uplink.clone());
        self.call(&Request::AttachTenant(TenantFile { uplink, ..file }))
    }

    /// Replaces the file of a tenant.
    ///
    /// # Errors
    /// When the call fails, or the file is refused.
    pub fn replace_tenant(&mut self, file: TenantFile) -> Result<TenantReply, ClientError> {
        let uplink = file.uplink.or_else(|| self.uplink.clone());
        self.call(&Request::ReplaceTenant(TenantFile { uplink, ..file }))
    }

    /// Takes the file of a tenant away.
    ///
    /// # Errors
    /// When the call fails.
    pub fn detach_tenant(&mut self, of: TenantName) -> Result<TenantReply, ClientError> {
        let uplink = of.uplink.or_else(|| self.uplink.clone());
        self.call(&Request::DetachTenant(TenantName { uplink, ..of }))
    }

    /// The tenants.
    ///
    /// # Errors
    /// When the call fails.
    pub fn list_tenants(&mut self) -> Result<ListTenantsReply, ClientError> {
        self.call(&Request::ListTenants(self.of_uplink()))
    }

    /// Reads the configuration again.
    ///
    /// # Errors
    /// When the call fails.
    pub fn reload(&mut self) -> Result<ReloadReply, ClientError> {
        self.call(&Request::Reload)
    }

    /// Begins to receive the counters every `interval_ms` milliseconds; [`next_status`](Self::next_status) returns them.
    /// No other call may follow on this connection.
    ///
    /// # Errors
    /// When the call cannot be sent.
    pub fn monitor(&mut self, interval_ms: u64) -> Result<(), ClientError> {
        let mut call =
            Request::Monitor(Monitor { interval_ms: Some(interval_ms), uplink: self.uplink.clone() })
                .to_call();
        call.more = Some(true);
        let patience = PATIENCE.saturating_add(Duration::from_millis(interval_ms));
        self.stream.set_read_timeout(Some(patience))?;
        self.send(&wire::message(&call))
    }

    /// Waits for the next counters.
    ///
    /// # Errors
    /// When the connection fails, or the daemon ends.
    pub fn next_status(&mut self) -> Result<ServiceStatus, ClientError> {
        self.answer()
    }

    fn call<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        self.send(&wire::message(&request.to_call()))?;
        self.answer()
    }

    fn send(&mut self, message: &[u8]) -> Result<(), ClientError> {
        match self.stream.write_all(message) {
            // The daemon may have answered, why it closes, before it closed.
            Err(e) if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                Ok(())
            }
            sent => sent.map_err(failed),
        }
    }

    fn answer<T: DeserializeOwned>(&mut self) -> Result<T, ClientError> {
        let malformed = |error: serde_json::Error| ClientError::Malformed(error.to_string());
        let answer: WireAnswer = serde_json::from_slice(&self.receive()?).map_err(malformed)?;
        if let Some(name) = answer.error {
            return Err(ControlError::from_wire(&name, answer.parameters).into());
        }
        serde_json::from_value(answer.parameters.unwrap_or_default()).map_err(malformed)
    }

    fn receive(&mut self) -> Result<Vec<u8>, ClientError> {
        let mut buffer = vec![0; READ_SIZE];
        loop {
            if let Some(frame) = self.frames.take() {
                return frame.map_err(|error| ClientError::Malformed(error.to_string()));
            }
            let read = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Err(ClientError::Closed),
                Err(e) => return Err(failed(e)),
            };
            let received = buffer.get(..read).unwrap_or_default();
            self.frames.push(received).map_err(|error| ClientError::Malformed(error.to_string()))?;
        }
    }
}

/// A time limit that has passed, or another failure.
fn failed(error: io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::Silent,
        _ => ClientError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A client whose daemon sends `answers` and hangs up.
    fn client(answers: &[&[u8]]) -> Client {
        let (stream, mut daemon) = UnixStream::pair().expect("a pair");
        for answer in answers {
            daemon.write_all(answer).expect("sent");
        }
        Client { stream, frames: Frames::default(), uplink: None }
    }

    #[test]
    fn an_error_of_the_daemon_is_returned_as_it_is() {
        let message = wire::error(&ControlError::StaleGeneration { generation: 4 });
        let error = client(&[&message]).reload().unwrap_err();
        assert!(
            matches!(error, ClientError::Refused(ControlError::StaleGeneration { generation: 4 })),
            "{error}"
        );
    }

    #[test]
    fn odd_answers_are_errors() {
        assert!(matches!(client(&[]).status(), Err(ClientError::Closed)));
        assert!(matches!(client(&[b"{\"para"]).status(), Err(ClientError::Closed)));
        assert!(matches!(client(&[b"no\0"]).status(), Err(ClientError::Malformed(_))));
        let empty = wire::reply(&json!({}), wire::Continues::No);
        assert!(matches!(client(&[&empty]).status(), Err(ClientError::Malformed(_))));
    }

    #[test]
    fn without_a_daemon_the_path_is_named() {
        let error = Client::connect(Path::new("/no/such/socket")).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("/no/such/socket") && error.contains("weft daemon"), "{error}");
    }
}
