//! The ports of the daemon: who made each, and who may remove it.
//!
//! A port that is removed is closed first, and sends its packets for at most [`GRACE`] while the daemon serves other callers
//! ([`DaemonService::advance`](super::DaemonService::advance)). A caller that requests its removal meanwhile waits with the first.

use super::pending::Pending;
use super::uplink::{Known, Leaving};
use super::{Caller, Owner, Uplink, refused};
use crate::config::{BURST_MAX, ConfiguredPort, parse_address};
use crate::data_path::PortSpec;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};
use weft_control::error::ControlError;
use weft_control::interface::{AddPort, AddPortReply, GenerationReply};
use weft_facts::ports::{LimitedPort, PortLimit};
use weft_host::Mac;
use weft_units::BitsPerSec;

/// The longest name of an interface (`IFNAMSIZ` without its NUL, linux/if.h).
const NAME_MAX: usize = 15;
/// The most addresses of a port.
const ADDRESSES_MAX: usize = 64;
/// The time in which the packets of a closed port are sent before it is removed.
const GRACE: Duration = Duration::from_secs(2);

/// A random locally administered unicast address.
pub fn random_mac() -> Mac {
    let [a, b, c, d, e, ..] = RandomState::new().build_hasher().finish().to_be_bytes();
    Mac([2, a, b, c, d, e])
}

fn of_port(name: &str, limit: PortLimit) -> LimitedPort {
    LimitedPort { port: name.to_owned(), limit }
}

fn invalid(what: &str) -> ControlError {
    ControlError::InvalidParameter { parameter: what.to_owned() }
}

/// The port of a call. The daemon runs as root, so nothing of it goes to the kernel unchecked.
fn spec(port: AddPort) -> Result<PortSpec, ControlError> {
    let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    let is_name = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains(odd);
    if !is_name(&port.name) || port.name.contains('%') || port.name.len() > NAME_MAX {
        return Err(invalid(&format!(
            "name: an interface has 1 to {NAME_MAX} characters without slash, colon, percent sign and space"
        )));
    }
    // Container runtimes have separate folders for namespaces.
    let is_path = |netns: &str| netns.starts_with('/') && !netns.contains(char::is_control);
    if port.netns.as_deref().is_some_and(|netns| !is_name(netns) && !is_path(netns)) {
        return Err(invalid(
            "netns: a name as `ip netns` shows it, without slash, colon and space, or an absolute path",
        ));
    }
    let egress = port.egress_limit.map(|of| limit("egress_limit", of)).transpose()?;
    let ingress = port.ingress_limit.map(|of| limit("ingress_limit", of)).transpose()?;
    if port.addresses.len() > ADDRESSES_MAX {
        return Err(invalid(&format!("addresses: at most {ADDRESSES_MAX}")));
    }
    let address = |text: &String| {
        let what =
            || invalid(&format!("addresses: `{}` is not like 192.0.2.1/24", weft_text::printable(text)));
        parse_address(text).ok_or_else(what)
    };
    let addresses = port.addresses.iter().map(address).collect::<Result<_, _>>()?;
    let is_own = |mac: &Mac| mac.0[0] & 1 == 0 && mac.0 != [0; 6];
    let mac = port.mac.map(|text| text.parse().ok().filter(is_own));
    if mac == Some(None) {
        return Err(invalid("mac: six bytes with colons, of no group"));
    }
    let mac = mac.flatten().unwrap_or_else(random_mac);
    Ok(PortSpec { name: port.name, netns: port.netns, addresses, mac, egress, ingress })
}

/// The port of a configuration.
pub(super) fn configured(port: &ConfiguredPort) -> PortSpec {
    let ConfiguredPort { name, netns, addresses, mac, uplink: _, egress, ingress } = port.clone();
    let mac = mac.unwrap_or_else(random_mac);
    PortSpec { name, netns, addresses, mac, egress, ingress }
}

/// A limit of a call.
fn limit(parameter: &str, of: PortLimit) -> Result<PortLimit, ControlError> {
    if of.rate == BitsPerSec::ZERO || of.burst > BURST_MAX {
        let what = format!("{parameter}: a rate above zero, and a burst of at most {BURST_MAX}");
        return Err(invalid(&what));
    }
    Ok(of)
}

impl Uplink {
    pub(super) fn add_port(&mut self, port: AddPort, caller: Caller) -> Result<AddPortReply, ControlError> {
        let spec = spec(port)?;
        if spec.netns.as_deref().is_some_and(|netns| netns.starts_with('/')) && !caller.is_admin {
            // The daemon would open any file for the caller.
            return Err(ControlError::NotPermitted {
                action: format!("add port {}", spec.name),
                message: "only root names a namespace by its path".to_owned(),
            });
        }
        let name = spec.name.clone();
        let notes = self.make_port(spec, Owner::User(caller.uid))?;
        let status = self.status()?;
        let port = status.ports.into_iter().find(|p| p.port == name).unwrap_or_default();
        Ok(AddPortReply { generation: self.generation, port, notes })
    }

    pub(super) fn add_configured(&mut self, port: &ConfiguredPort) -> Result<(), ControlError> {
        self.make_port(configured(port), Owner::Configuration).map(|_| ())
    }

    /// Makes the next port of those that the uplink has lost with its data path. Returns whether it is not to be waited for.
    pub(super) fn make_next(&mut self) -> bool {
        let Some((spec, owner)) = self.to_make.pop_front() else { return false };
        match self.ports.get(&spec.name).map(|known| known.leaving.is_some()) {
            // First the port of the same name goes.
            Some(true) => {
                self.to_make.push_front((spec, owner));
                return false;
            }
            Some(false) => {}
            None => {
                let name = spec.name.clone();
                if let Err(error) = self.make_port(spec, owner) {
                    self.log.error(&format!("port {name}: {error}"));
                }
            }
        }
        true
    }

    pub(super) fn make_port(&mut self, spec: PortSpec, owner: Owner) -> Result<Vec<String>, ControlError> {
        if self.ports.contains_key(&spec.name) {
            return Err(ControlError::PortExists { name: spec.name });
        }
        // Before the port is there, so that its first packet is limited.
        let limit = spec.egress.map(|limit| of_port(&spec.name, limit));
        if limit.is_some() {
            self.limit_ports(self.port_limits().into_iter().chain(limit.clone()).collect())?;
        }
        let notes = match self.path.add_port(&spec).map_err(refused) {
            Ok(notes) => notes,
            Err(error) => {
                self.forget_limit(limit.as_ref());
                return Err(error);
            }
        };
        notes.iter().for_each(|note| self.log.notice(&format!("port {}: {note}", spec.name)));
        let place = spec.netns.as_deref().map_or_else(String::new, |netns| format!(" in namespace {netns}"));
        self.log.notice(&format!("port {}{place} is there", spec.name));
        self.ports.insert(spec.name.clone(), Known::new(spec, owner));
        self.remember();
        Ok(notes)
    }

    /// Begins to remove a port for `caller`.
    pub(super) fn remove_port(
        &mut self,
        name: &str,
        caller: Caller,
    ) -> Result<Pending<GenerationReply>, ControlError> {
        let made = self.ports.get(name).map(|known| known.owner);
        let awaited = self.to_make.iter().find(|(spec, _)| spec.name == name).map(|(_, owner)| *owner);
        let owner = made.or(awaited).ok_or_else(|| ControlError::NoSuchPort { name: name.to_owned() })?;
        let uid = match owner {
            Owner::Configuration => 0,
            Owner::User(uid) => uid,
        };
        if !caller.is_admin && owner != Owner::User(caller.uid) {
            return Err(ControlError::PortOfAnotherUser { name: name.to_owned(), uid });
        }
        self.to_make.retain(|(spec, _)| spec.name != name);
        if made.is_some() {
            return self.leave(name);
        }
        let done = Pending::default();
        done.settle(Ok(GenerationReply { generation: self.generation }));
        Ok(done)
    }

    /// Begins to remove a port, whichever caller made it.
    pub(super) fn leave(&mut self, name: &str) -> Result<Pending<GenerationReply>, ControlError> {
        let missing = || ControlError::NoSuchPort { name: name.to_owned() };
        let known = self.ports.get_mut(name).ok_or_else(missing)?;
        if let Some(leaving) = &known.leaving {
            return Ok(leaving.outcome.clone());
        }
        // A port that cannot be closed has no devices any more, and is removed all the same.
        let _ = self.path.close_port(name);
        let (until, outcome) = (Instant::now() + GRACE, Pending::default());
        known.leaving = Some(Leaving { until, outcome: outcome.clone() });
        Ok(outcome)
    }

    /// Whether a port is on its way out.
    pub(super) fn has_leaving(&self) -> bool {
        self.ports.values().any(|known| known.leaving.is_some())
    }

    /// Removes one closed port that has sent its packets, or has had the time for it. Returns whether there was one.
    pub(super) fn remove_drained(&mut self, now: Instant) -> bool {
        let is_done = |(name, known): &(&String, &Known)| {
            known.leaving.as_ref().is_some_and(|of| now >= of.until || self.path.is_drained(name))
        };
        let Some((name, known)) = self.ports.iter().find(is_done) else { return false };
        let (name, leaving) = (name.clone(), known.leaving.clone());
        let result = self.take_port(&name);
        if let Some(leaving) = leaving {
            leaving.outcome.settle(result.map(|()| GenerationReply { generation: self.generation }));
        }
        true
    }

    /// Removes the ports on their way out, and waits for their packets.
    pub(super) fn remove_leaving(&mut self) {
        while self.has_leaving() {
            if !self.remove_drained(Instant::now()) {
                std::thread::sleep(super::LOOK);
            }
        }
    }

    /// The limits of what the ports send, which the policy in force has beside its own.
    pub(super) fn port_limits(&self) -> Vec<LimitedPort> {
        self.ports.iter().filter_map(|(name, known)| Some(of_port(name, known.spec.egress?))).collect()
    }

    /// Puts the policy in force with other limits of ports. It stays the operator's policy: its generation stays too.
    fn limit_ports(&mut self, limits: Vec<LimitedPort>) -> Result<(), ControlError> {
        let limited = self.policy.clone().with_port_limits(limits);
        let policy = limited.map_err(|error| self.wrong(error))?;
        if policy.compiled != self.policy.compiled {
            self.path.commit(&policy).map_err(refused)?;
        }
        self.policy = policy;
        Ok(())
    }

    /// Puts the policy in force without the limit of a port that is gone, if it had one.
    fn forget_limit(&mut self, gone: Option<&LimitedPort>) {
        let Some(gone) = gone else { return };
        if let Err(error) = self.limit_ports(self.port_limits()) {
            let name = &gone.port;
            self.log.error(&format!("port {name} is gone, and its limit stays in the policy: {error}"));
        }
    }

    /// Removes a port that was closed.
    fn take_port(&mut self, name: &str) -> Result<(), ControlError> {
        // The log says that its devices were deleted, even since the last look.
        self.alarms.warn(self.path.warnings());
        let removed = self.path.remove_port(name).map_err(refused);
        let limit = self.ports.remove(name).and_then(|known| known.spec.egress);
        self.forget_limit(limit.map(|limit| of_port(name, limit)).as_ref());
        self.remember();
        removed?;
        self.log.notice(&format!("port {name} is removed"));
        Ok(())
    }
}
