//! The daemon, from its configuration to its end.
//!
//! 1. The configuration and the policy are read and compiled. Nothing has changed so far, and [`gate::report`] ends here.
//! 2. The sockets are opened: a second daemon ends here and has touched nothing of the first.
//! 3. The data path starts, or is taken over from a former daemon with its ports, and the configured ports are made.
//! 4. The loop serves until a signal, and removes everything, or leaves it to a successor.

pub mod gate;

use crate::config::{Config, ConfigError, Folders, Hold, OnFailure, UplinkConfig, Watchdog};
use crate::data_path::session::{Sessions, abandon};
use crate::data_path::{DataPathError, Maker, Started};
use crate::delegation::delegation;
use crate::holding::{self, Given};
use crate::log::Log;
use crate::notify::Manager;
use crate::policy::{PolicyError, RefusedTenants, ServicePolicy};
use crate::server::{End, Server, ServerError};
use crate::service::{DaemonService, Surroundings, UplinkStart};
use crate::sockets::{SocketError, Sockets, group_id};
use crate::steering::{AfterEnd, KeptSteering, SteerError};
use std::path::PathBuf;
use std::rc::Rc;
use weft_host::store::StoreError;
use weft_policy::TenantTexts;
use weft_run::session::SessionError;

/// The options of the command line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DaemonOptions {
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
    /// The ports cannot run the configured policy. The place in the text, the reason and what to do instead.
    #[error("{0}")]
    Refused(String),
    /// A configured port cannot be made.
    #[error("port {name}: {error}")]
    Port {
        /// The port.
        name: String,
        /// The reason.
        error: Box<SessionError>,
    },
    /// A socket cannot be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The data path does not start.
    #[error(transparent)]
    DataPath(#[from] DataPathError),
    /// The loop failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// No process keeps the ports that packets would pass by.
    #[error(
        "on-failure = \"pass\": with hold = \"off\" the ports end with the daemon, and nothing can pass; use \"hold\", or let \
         a store keep the ports: hold = \"auto\""
    )]
    NoPass,
    /// The store of the ports cannot be had.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The host's NIC cannot be steered as configured.
    #[error(transparent)]
    Steer(#[from] SteerError),
    /// The transmit worker ended by itself.
    #[error("the transmit worker ended by itself; the ports were removed")]
    WorkerEnded,
}

/// The policy of an uplink, which its ports can run, and the tenants whose files it does without.
fn read_around(uplink: &UplinkConfig) -> Result<(ServicePolicy, RefusedTenants), DaemonError> {
    let (policy, refused) = ServicePolicy::read_around(&uplink.policy, uplink.rate, &TenantTexts::default())?;
    gate::check(uplink, &policy, &[])?;
    Ok((policy, refused))
}

impl DaemonError {
    /// Whether its text begins with the place of a mistake in a file, and says itself that it is one.
    pub const fn has_place(&self) -> bool {
        matches!(
            self,
            Self::Refused(_)
                | Self::Policy(PolicyError::Refused(_))
                | Self::Config(ConfigError::At(_) | ConfigError::Lacks { .. } | ConfigError::Uplinks { .. })
        )
    }
}

impl DaemonOptions {
    /// The configuration.
    pub(crate) fn config(&self) -> Result<(Folders, Config), DaemonError> {
        let folders = Folders::of(self.config.clone());
        let mut config = folders.load()?;
        if let Some(socket) = &self.socket {
            config.socket.clone_from(socket);
        }
        if config.on_failure == OnFailure::Pass && config.hold == Hold::Off {
            return Err(DaemonError::NoPass);
        }
        Ok((folders, config))
    }
}

/// Runs the daemon until a signal, and returns the signal's number; 0 after a hand-over.
///
/// # Errors
/// When it cannot start, or the data path fails.
pub fn run(options: &DaemonOptions) -> Result<i32, DaemonError> {
    run_over(options, Box::new(Sessions))
}

/// Runs the daemon over the data paths of `maker`.
///
/// # Errors
/// As [`run`].
pub fn run_over(options: &DaemonOptions, maker: Box<dyn Maker>) -> Result<i32, DaemonError> {
    let log = Rc::new(Log::standard_error());
    let (folders, config) = options.config()?;
    let policies = config.uplinks.iter().map(read_around).collect::<Result<Vec<_>, _>>()?;
    let manager = match config.watchdog {
        Watchdog::Auto => Manager::from_environment(),
        Watchdog::Off => Manager::from_environment().without_watchdog(),
    };
    let group = group_id(&config.group);
    if group.is_none() {
        log.warning(&format!("there is no group {}: only root may open the socket", config.group));
    }
    let mut sockets = Sockets::open(&config.socket, group, &config.metrics)?;
    let given = Given::from_environment(core::mem::take(&mut sockets.kept));
    let mut surroundings = Surroundings { maker, given, steering: None, delegation };
    let steering = config.steer.as_ref().map(KeptSteering::start).transpose()?;
    let starts = match start(&config, policies, &mut surroundings, &log) {
        Ok(starts) => starts,
        Err(error) => {
            if let Some(steering) = steering {
                steering.end(AfterEnd::Undo);
            }
            return Err(error);
        }
    };
    surroundings.steering = steering;
    let service = DaemonService::resume(starts, surroundings, config, folders, Rc::clone(&log));
    match Server::new(service, sockets, manager, log)?.run()? {
        End::Signal(number) => Ok(number),
        End::HandOver => Ok(0),
        End::WorkerEnded => Err(DaemonError::WorkerEnded),
    }
}

/// Starts the data path of each uplink, or takes it over. One that fails is missing for a while, if another does not.
fn start(
    config: &Config,
    policies: Vec<(ServicePolicy, RefusedTenants)>,
    surroundings: &mut Surroundings,
    log: &Log,
) -> Result<Vec<UplinkStart>, DaemonError> {
    for left in holding::open_left(config, &mut surroundings.given) {
        log.warning("removed the ports of an uplink that the configuration does not have any more");
        if let Err(error) = abandon(left) {
            log.error(&error.to_string());
        }
    }
    let (mut starts, mut failure) = (Vec::new(), None);
    for (uplink, (policy, refused)) in config.uplinks.iter().zip(policies) {
        policy.diagnostics.iter().for_each(|diagnostic| log.warning(&diagnostic.to_string()));
        let started = start_one(config, uplink, &policy, surroundings).unwrap_or_else(|error| {
            let missing = Started::missing(error.to_string());
            failure = Some(error);
            missing
        });
        refused
            .iter()
            .for_each(|(tenant, error)| log.error(&format!("the file of tenant {tenant}: {error}")));
        starts.push(UplinkStart { policy, refused, started });
    }
    if let Some(error) = failure
        && starts.iter().all(|start| start.started.missing.is_some())
    {
        return Err(error);
    }
    for (uplink, UplinkStart { policy, started, .. }) in config.uplinks.iter().zip(&starts) {
        let name = uplink.name.as_ref().map_or_else(String::new, |name| format!("uplink {name}: "));
        match &started.missing {
            Some(reason) => log.error(&format!("{name}{reason}")),
            None => log.notice(&format!("{name}policy {}, socket {}", policy.name, config.socket.display())),
        }
    }
    Ok(starts)
}

fn start_one(
    config: &Config,
    uplink: &UplinkConfig,
    policy: &ServicePolicy,
    surroundings: &mut Surroundings,
) -> Result<Started, DaemonError> {
    let store = holding::open(config, uplink, &mut surroundings.given)?;
    Ok(surroundings.maker.start(policy, uplink, config, store)?)
}
