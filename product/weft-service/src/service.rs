//! The state of the daemon: its uplinks, each with its policy and its ports. Independent of sockets.
//!
//! [`DaemonService::handle`] answers one request. It finds the uplink that the request is about, and hands it over
//! (`service/uplink.rs`). Ports have names that are unique in the daemon, whatever their uplink.
//!
//! An uplink whose data path fails does not end the others: it has none for a while, and is started again as soon as its
//! interface is there.

mod pending;
mod ports;
mod reload;
mod status;
mod tenants;
mod throttle;
mod uplink;
mod uplink_restart;

use crate::config::{Config, Folders, UplinkConfig};
use crate::data_path::{DataPathError, Maker, Started};
use crate::delegation::Delegation;
use crate::holding::Given;
use crate::log::Log;
use crate::policy::{RefusedTenants, ServicePolicy};
use crate::steering::{AfterEnd, KeptSteering};
use reload::Reloading;
use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;
use throttle::Throttle;
use uplink::Uplink;
use weft_control::error::ControlError;
use weft_control::interface::{AddPort, AddPortReply, Reply, Request, Right, ServiceStatus};

pub use pending::{Later, Pending, PendingAnswer};
pub use ports::random_mac;
pub use uplink::Owner;

/// The longest pause between two steps of what calls have begun.
pub const LOOK: Duration = Duration::from_millis(5);

/// The caller of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// Whether the user may change what others made: root, or the daemon's own user.
    pub is_admin: bool,
}

impl Caller {
    /// Root, as whom signals count.
    pub const ROOT: Self = Self { uid: 0, is_admin: true };
}

/// An uplink at the start of the daemon: its policy, and its data path.
#[derive(Debug)]
pub struct UplinkStart {
    /// The configured policy.
    pub policy: ServicePolicy,
    /// The tenants whose files it does without.
    pub refused: RefusedTenants,
    /// The data path.
    pub started: Started,
}

/// The surroundings of the uplinks: who makes their data paths, and where their stores are.
#[derive(Debug)]
pub struct Surroundings {
    /// The maker of data paths.
    pub maker: Box<dyn Maker>,
    /// The service manager's part in holding.
    pub given: Given,
    /// The receive steering of the host's NIC, if it is wanted.
    pub steering: Option<KeptSteering>,
    /// The function that says to whom a cgroup is delegated.
    pub delegation: fn(&str) -> Delegation,
}

/// The state of the daemon.
#[derive(Debug)]
pub struct DaemonService {
    uplinks: Vec<Uplink>,
    surroundings: Surroundings,
    folders: Folders,
    config: Config,
    /// The counters of the last tick.
    latest: ServiceStatus,
    next_restart: Instant,
    steering: Option<KeptSteering>,
    throttle: Throttle,
    reloading: Option<Reloading>,
    log: Rc<Log>,
}

impl DaemonService {
    /// The state of a daemon with an uplink for each of `config`, whose data paths may have been taken over: with the policy
    /// and the ports of a former daemon, which then follow the configuration as after a reload, under traffic. Makes the
    /// configured ports; one that cannot be made is logged, and the others are made.
    pub fn resume(
        starts: Vec<UplinkStart>,
        mut surroundings: Surroundings,
        config: Config,
        folders: Folders,
        log: Rc<Log>,
    ) -> Self {
        let of = |(uplink, start): (&UplinkConfig, UplinkStart)| {
            let log = match &uplink.name {
                Some(name) => log.about(&format!("uplink {name}")),
                None => Rc::clone(&log),
            };
            Uplink::resume(start, uplink.clone(), log)
        };
        let mut uplinks: Vec<Uplink> = config.uplinks.iter().zip(starts).map(of).collect();
        // After all have given up the ports that the configuration moved to another uplink.
        uplinks.iter_mut().for_each(Uplink::make_configured);
        let (latest, next_restart) = (ServiceStatus::default(), Instant::now());
        let steering = surroundings.steering.take();
        let throttle = Throttle::default();
        Self {
            uplinks,
            surroundings,
            folders,
            config,
            latest,
            next_restart,
            steering,
            throttle,
            reloading: None,
            log,
        }
    }

    /// Leaves the data paths to a successor of this process.
    ///
    /// # Errors
    /// When one ends with the daemon, and had failed before.
    pub fn hand_over(mut self) -> Result<(), DataPathError> {
        if let Some(steering) = self.steering.take() {
            steering.end(AfterEnd::Keep);
        }
        each(self.uplinks, Uplink::hand_over)
    }

    /// Ends the data paths: the ports are removed.
    ///
    /// # Errors
    /// When a data path had failed before.
    pub fn finish(mut self) -> Result<(), DataPathError> {
        if let Some(steering) = self.steering.take() {
            steering.end(AfterEnd::Undo);
        }
        each(self.uplinks, Uplink::finish)
    }

    /// Takes one step of what calls have begun. Each lasts some tenths of a second at most. Returns whether there was one.
    pub fn advance(&mut self, now: Instant) -> bool {
        self.uplinks.iter_mut().any(|uplink| uplink.remove_drained(now))
            || self.advance_reload()
            || self.uplinks.iter_mut().any(Uplink::make_next)
    }

    /// Whether something is under way, so that [`advance`](Self::advance) is to be called at least every [`LOOK`].
    pub fn is_busy(&self) -> bool {
        let is_busy = |uplink: &Uplink| uplink.has_leaving() || !uplink.to_make.is_empty();
        self.is_reloading() || self.uplinks.iter().any(is_busy)
    }

    /// Answers a request. The caller's right to it was checked before.
    ///
    /// # Errors
    /// With the error for the caller; nothing has changed then, unless the error says so.
    pub fn handle(&mut self, request: Request, caller: Caller) -> Result<PendingAnswer, ControlError> {
        if request.right() == Right::Tenant || matches!(request, Request::DiffPolicy(_)) {
            self.throttle(caller)?;
        }
        let reply = match request {
            Request::RemovePort(port) => {
                let missing = || ControlError::NoSuchPort { name: port.name.clone() };
                let uplink = self.uplinks.iter_mut().find(|uplink| uplink.has_port(&port.name));
                let removed = uplink.ok_or_else(missing)?.remove_port(&port.name, caller)?;
                return Ok(PendingAnswer::Later(Later::Removed(removed)));
            }
            Request::Reload => return Ok(PendingAnswer::Later(Later::Reloaded(self.reload()?))),
            Request::Status(of) => self.status_of(of.uplink.as_deref()),
            Request::Monitor(of) => self.status_of(of.uplink.as_deref()),
            Request::Config(of) => Ok(Reply::Config(self.one(of.uplink.as_deref())?.config_reply())),
            Request::LoadPolicy(p) => self.one(p.uplink.as_deref())?.load(p).map(Reply::Change),
            Request::DiffPolicy(p) => self.one(p.uplink.as_deref())?.diff(p, caller).map(Reply::Change),
            Request::RestorePolicy(of) => self.one(of.uplink.as_deref())?.restore().map(Reply::Change),
            Request::AddPort(port) => {
                self.add_port(port, caller).map(|reply| Reply::AddPort(Box::new(reply)))
            }
            Request::ListPorts(of) => self.list_ports(of.uplink.as_deref()).map(Reply::Ports),
            Request::AttachTenant(of) => {
                let reply = self.one(of.uplink.clone().as_deref())?.attach(of, caller)?;
                Ok(Reply::Tenant(Box::new(reply)))
            }
            Request::ReplaceTenant(of) => {
                let reply = self.one(of.uplink.clone().as_deref())?.replace_file(of, caller)?;
                Ok(Reply::Tenant(Box::new(reply)))
            }
            Request::DetachTenant(of) => {
                let reply = self.one(of.uplink.clone().as_deref())?.detach(of, caller)?;
                Ok(Reply::Tenant(Box::new(reply)))
            }
            Request::ListTenants(of) => self.list_tenants(of.uplink.as_deref()).map(Reply::Tenants),
        };
        reply.map(PendingAnswer::Now)
    }

    /// Admits what a user lets the daemon compile, or says that there were too many.
    fn throttle(&mut self, caller: Caller) -> Result<(), ControlError> {
        if caller.is_admin || self.throttle.admits(caller.uid, Instant::now()) {
            return Ok(());
        }
        let (burst, pause) = (throttle::BURST, throttle::PAUSE.as_secs());
        let message = format!(
            "user {} may change tenants or compare policies {burst} times at once, and then once in {pause} s",
            caller.uid
        );
        Err(ControlError::Busy { message })
    }

    fn add_port(&mut self, port: AddPort, caller: Caller) -> Result<AddPortReply, ControlError> {
        if self.uplinks.iter().any(|uplink| uplink.has_port(&port.name)) {
            return Err(ControlError::PortExists { name: port.name });
        }
        self.one(port.uplink.as_deref())?.add_port(port, caller)
    }

    /// The uplink of this name, or the default one.
    fn one(&mut self, name: Option<&str>) -> Result<&mut Uplink, ControlError> {
        let at = self.place(name)?;
        self.uplinks.get_mut(at).ok_or(ControlError::UplinkNeeded { uplinks: Vec::new() })
    }

    /// The place of the uplink of this name, or of the default one.
    fn place(&self, name: Option<&str>) -> Result<usize, ControlError> {
        let uplinks = || self.uplinks.iter().map(|uplink| uplink.title().to_owned()).collect();
        match name {
            Some(name) => {
                let at = self.uplinks.iter().position(|uplink| uplink.title() == name);
                at.ok_or_else(|| ControlError::NoSuchUplink { name: name.to_owned(), uplinks: uplinks() })
            }
            None => {
                self.config.default_uplink.ok_or_else(|| ControlError::UplinkNeeded { uplinks: uplinks() })
            }
        }
    }

    /// The default uplink, or the first.
    fn first(&self) -> Option<&Uplink> {
        self.uplinks.get(self.config.default_uplink.unwrap_or(0))
    }

    /// The generation in force at the default uplink, or the first.
    pub fn generation(&self) -> u64 {
        self.first().map_or(0, Uplink::generation)
    }

    /// The hash of the policy in force there.
    pub fn policy_hash(&self) -> &str {
        self.first().map_or("", Uplink::policy_hash)
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

/// Ends each uplink in its way, and returns the first error.
fn each(
    uplinks: Vec<Uplink>,
    end: impl Fn(Uplink) -> Result<(), DataPathError>,
) -> Result<(), DataPathError> {
    let mut result = Ok(());
    for uplink in uplinks {
        let ended = end(uplink);
        result = result.and(ended);
    }
    result
}

/// An error of the data path, for the caller.
fn refused(error: DataPathError) -> ControlError {
    match error {
        DataPathError::Unsupported(message) => ControlError::Unsupported { message: message.to_owned() },
        DataPathError::PortExists(name) => ControlError::PortExists { name },
        DataPathError::NoSuchPort(name) => ControlError::NoSuchPort { name },
        other => ControlError::failed(&other),
    }
}

#[cfg(test)]
mod tests;
