//! The connection of a client command to the daemon.

use crate::failure::Reported;
use crate::output;
use std::path::PathBuf;
use weft_control::{Client, ClientError, ControlError, SOCKET};

/// The option of every command that asks the daemon.
#[derive(Debug, clap::Args)]
pub struct ControlSocket {
    /// The daemon's control socket.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
}

/// The option of commands about one uplink.
#[derive(Debug, clap::Args)]
pub struct UplinkName {
    /// The uplink, where the daemon has several.
    #[arg(long, value_name = "NAME")]
    uplink: Option<String>,
}

impl ControlSocket {
    /// Connects to the daemon.
    pub fn connect(&self) -> anyhow::Result<Client> {
        Ok(Client::connect(&self.socket)?)
    }

    /// Connects to the daemon, if there is one that may be asked.
    pub fn try_connect(&self) -> Result<Client, ClientError> {
        Client::connect(&self.socket)
    }

    /// Connects to the daemon for calls about an uplink.
    pub fn connect_about(&self, uplink: &UplinkName) -> anyhow::Result<Client> {
        Ok(self.connect()?.about(uplink.uplink.clone()))
    }
}

/// The result of a call. The diagnostics of a refused policy are printed, one line each.
pub fn told<T>(result: Result<T, ClientError>) -> anyhow::Result<T> {
    match result {
        Err(ClientError::Refused(ControlError::PolicyRefused { diagnostics, .. }))
            if !diagnostics.is_empty() =>
        {
            diagnostics.iter().for_each(|diagnostic| output::message(&diagnostic.to_string()));
            Err(Reported.into())
        }
        Err(ClientError::Refused(ControlError::TenantRefused { diagnostics, tenant, keeps, .. })) => {
            diagnostics.iter().for_each(|diagnostic| output::message(&diagnostic.to_string()));
            output::message(&match keeps {
                Some(file) => format!("tenant {tenant} keeps {file}"),
                None => format!("tenant {tenant} still has no file: one FIFO"),
            });
            Err(Reported.into())
        }
        result => Ok(result?),
    }
}
