//! The daemon, from its configuration to its end.
//!
//! 1. The configuration and the policy are read and compiled. Nothing has changed so far, and [`check`] ends here.
//! 2. The sockets are opened: a second daemon ends here and has touched nothing of the first.
//! 3. The data path starts, and the configured ports are made.
//! 4. The loop serves until a signal, and removes everything.

use crate::config::{Config, ConfigError, Folders, OnFailure, Watchdog};
use crate::data_path::session::SessionPath;
use crate::data_path::{DataPath, DataPathError};
use crate::log::Log;
use crate::notify::Manager;
use crate::policy::{Policy, PolicyError};
use crate::server::{End, Server, ServerError};
use crate::service::Service;
use crate::sockets::{SocketError, Sockets, group_id};
use std::path::PathBuf;
use std::rc::Rc;
use weft_policy::CompiledPolicy;

/// The options of the command line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The main file of the configuration; `None` for the usual places.
    pub config: Option<PathBuf>,
    /// The control socket, in place of the configured one.
    pub socket: Option<PathBuf>,
}

/// Errors that end the daemon.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configured policy is wrong.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A socket cannot be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The data path does not start.
    #[error(transparent)]
    DataPath(#[from] DataPathError),
    /// The loop failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The data path cannot do what the configuration wants.
    #[error("on-failure = \"pass\": this data path cannot let packets pass unscheduled; use \"hold\"")]
    NoPass,
    /// The transmit worker ended by itself.
    #[error("the transmit worker ended by itself; the ports were removed")]
    WorkerEnded,
}

impl Options {
    fn load(&self) -> Result<(Folders, Config, Policy), DaemonError> {
        let folders = Folders::of(self.config.clone());
        let mut config = folders.load()?;
        if let Some(socket) = &self.socket {
            config.socket.clone_from(socket);
        }
        if config.on_failure == OnFailure::Pass {
            return Err(DaemonError::NoPass);
        }
        let policy = Policy::read(&config.policy, config.rate)?;
        Ok((folders, config, policy))
    }
}

/// Reads the configuration and the policy, and changes nothing. Returns the result in lines.
///
/// # Errors
/// When one of them is wrong.
pub fn check(options: &Options) -> Result<Vec<String>, DaemonError> {
    let (_, config, policy) = options.load()?;
    let hash: String = policy.hash.chars().take(12).collect();
    let mut lines: Vec<String> = policy.diagnostics.iter().map(ToString::to_string).collect();
    lines.push(format!("policy {} ({hash}), {} classes", policy.name, policy.compiled.classes.len()));
    lines.push(format!(
        "uplink {}, socket {}, metrics {}",
        config.uplink,
        config.socket.display(),
        config.metrics
    ));
    let ports: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
    lines.push(if ports.is_empty() { "no ports".to_owned() } else { format!("ports {}", ports.join(", ")) });
    Ok(lines)
}

/// Runs the daemon until a signal, and returns the signal's number.
///
/// # Errors
/// When it cannot start, or the data path fails.
pub fn run(options: &Options) -> Result<i32, DaemonError> {
    run_over(options, SessionPath::start)
}

/// Runs the daemon over the data path that `start` makes.
///
/// # Errors
/// As [`run`].
pub fn run_over(
    options: &Options,
    start: impl FnOnce(CompiledPolicy, &Config) -> Result<Box<dyn DataPath>, DataPathError>,
) -> Result<i32, DaemonError> {
    let log = Rc::new(Log::standard_error());
    let (folders, config, policy) = options.load()?;
    let manager = match config.watchdog {
        Watchdog::Auto => Manager::from_environment(),
        Watchdog::Off => Manager::from_environment().without_watchdog(),
    };
    let group = group_id(&config.group);
    if group.is_none() {
        log.warning(&format!("there is no group {}: only root may open the socket", config.group));
    }
    let sockets = Sockets::open(&config.socket, group, &config.metrics)?;
    for diagnostic in &policy.diagnostics {
        log.warning(&diagnostic.to_string());
    }
    let path = start(policy.compiled.clone(), &config)?;
    log.notice(&format!("policy {}, socket {}", policy.name, config.socket.display()));
    let service = Service::new(path, config, folders, policy, Rc::clone(&log));
    match Server::new(service, sockets, manager, log)?.run()? {
        End::Signal(number) => Ok(number),
        End::WorkerEnded => Err(DaemonError::WorkerEnded),
    }
}
