//! The plugin as the first of its chain: the container's interface is a port of the daemon.
//!
//! ADD, in this order:
//! 1. Check that the namespace exists and the interface's name is free.
//! 2. Ask for addresses.
//! 3. Add the port. Its device appears in the namespace under the port's name.
//! 4. Rename the device, add the addresses and the routes.
//!
//! A step that fails undoes the earlier ones, so that the runtime may try again.

use crate::config::PluginConfig;
use crate::daemon::{Connected, Daemon, DaemonCallError, NewPort};
use crate::environment::{Attachment, ContainerTarget, Environment};
use crate::error::{CniError, ErrorCode};
use crate::ipam::Ipam;
use crate::name;
use crate::result::{self, Addressing, ResultInterface};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use weft_host::{Mac, NetNs, link, sysctl};

/// The folder of named namespaces, and its other name on systems where /var/run is a link.
const NETNS_FOLDERS: [&str; 2] = ["/run/netns/", "/var/run/netns/"];
/// The time allowed for the interface to come up.
const PATIENCE: Duration = Duration::from_secs(2);

/// A call for a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) config: &'a PluginConfig,
    pub(crate) environment: &'a Environment,
    /// The network configuration, as it came.
    pub(crate) text: &'a [u8],
}

/// The namespace at `path`.
pub(crate) fn open(path: &str) -> Result<NetNs, CniError> {
    NetNs::open_path(Path::new(path)).map_err(|error| {
        CniError::new(ErrorCode::UnknownContainer, "the container's network namespace does not exist")
            .details(error)
    })
}

/// The namespace as the daemon names it: without its folder where that is `ip netns`' own.
fn netns_name(path: &str) -> String {
    let name = NETNS_FOLDERS.iter().find_map(|folder| path.strip_prefix(folder));
    name.filter(|name| !name.is_empty() && !name.contains('/')).unwrap_or(path).to_owned()
}

fn failed(action: &str) -> impl FnOnce(&dyn std::fmt::Display) -> CniError {
    move |error| CniError::failed(format!("cannot {action}"), error)
}

/// Renames the port's device and configures it. It is set down for that, since kernels before 6.2 do not rename a device
/// that is up, and a device that comes up announces its addresses by ARP.
fn configure(
    ns: &NetNs,
    device: &str,
    interface: &str,
    addressing: &Addressing,
) -> Result<Option<Mac>, CniError> {
    let refused = |error| failed("configure the container's interface")(&error);
    link::set_down(ns, device).map_err(refused)?;
    link::rename(ns, device, interface).map_err(refused)?;
    // Neighbours may still have another container's entry for the address. A kernel without the setting only announces later.
    let _ = sysctl::set(ns, &format!("net/ipv4/conf/{interface}/arp_notify"), "1");
    for (address, length) in &addressing.addresses {
        link::add_address(ns, interface, *address, *length).map_err(refused)?;
    }
    link::set_up(ns, interface).map_err(refused)?;
    link::wait_running(ns, interface, PATIENCE).map_err(refused)?;
    for route in &addressing.routes {
        let (destination, prefix_len) = route.to;
        let route = link::Route { destination, prefix_len, link: Some(interface), gateway: route.gateway };
        link::add_route(ns, &route).map_err(refused)?;
    }
    link::get_mac(ns, interface).map_err(refused)
}

impl Call<'_> {
    fn ipam(&self) -> Option<Ipam<'_>> {
        let kind = self.config.ipam.as_deref()?;
        Some(Ipam { kind, environment: self.environment, config: self.text })
    }

    /// The name of the attachment's port.
    pub(crate) fn port(&self, attachment: &Attachment) -> String {
        self.config.port.clone().unwrap_or_else(|| name::port(&self.config.network, attachment))
    }

    pub(crate) fn add(&self, target: &ContainerTarget, daemon: &mut dyn Daemon) -> Result<Value, CniError> {
        if self.config.previous.is_some() {
            return Err(CniError::new(
                ErrorCode::InvalidConfig,
                "a chained plugin has no addresses of its own",
            )
            .details("remove `ipam` and `port` here, or the plugins before this one"));
        }
        let ns = open(&target.netns)?;
        let interface = &target.attachment.interface;
        if link::exists(&ns, interface).map_err(|e| failed("look at the container's interfaces")(&e))? {
            let text = format!("the container has an interface {interface} already");
            return Err(CniError::new(ErrorCode::InvalidEnvironment, text));
        }
        let addresses = self.ipam().map(|ipam| ipam.call("ADD")).transpose()?;
        let added = self.add_with(target, &ns, addresses, daemon);
        if added.is_err()
            && let Some(ipam) = self.ipam()
        {
            // The first error is the one to report; the runtime calls DEL as well.
            let _ = ipam.call("DEL");
        }
        added
    }

    /// Adds the port with the addresses of a result.
    fn add_with(
        &self,
        target: &ContainerTarget,
        ns: &NetNs,
        addresses: Option<Value>,
        daemon: &mut dyn Daemon,
    ) -> Result<Value, CniError> {
        let addressing = addresses.as_ref().map(Addressing::read).transpose()?.unwrap_or_default();
        let name = self.port(&target.attachment);
        let port = NewPort {
            name: name.clone(),
            netns: netns_name(&target.netns),
            mac: self.config.mac,
            bandwidth: self.config.bandwidth,
        };
        daemon.add_port(&port).map_err(|e| e.during("add a port for the container"))?;
        let mac = configure(ns, &name, &target.attachment.interface, &addressing).inspect_err(|_| {
            // As above.
            let _ = daemon.remove_port(&name);
        })?;
        let interface =
            ResultInterface { name: target.attachment.interface.clone(), sandbox: target.netns.clone() };
        result::of_port(self.config.version, addresses, &interface, mac)
    }

    /// Removes the port and releases the addresses. What is gone already is no error. Without a daemon the port may still be there,
    /// since a store keeps it for the next one. The runtime then tries again, and the addresses stay the port's.
    pub(crate) fn del(&self, attachment: &Attachment, daemon: Connected) -> Result<(), CniError> {
        let during = "remove the container's port";
        let removed = match daemon.and_then(|mut daemon| daemon.remove_port(&self.port(attachment))) {
            Ok(()) | Err(DaemonCallError::NoSuchPort(_)) => Ok(()),
            Err(error @ (DaemonCallError::Unreachable { .. } | DaemonCallError::Busy(_))) => {
                return Err(error.during(during));
            }
            Err(error) => Err(error.during(during)),
        };
        let released = self.ipam().map(|ipam| ipam.call("DEL")).transpose();
        removed.and(released.map(|_| ()))
    }

    pub(crate) fn check(&self, target: &ContainerTarget, daemon: &mut dyn Daemon) -> Result<(), CniError> {
        let name = self.port(&target.attachment);
        let ports = daemon.ports().map_err(|e| e.during("list the ports"))?;
        let wrong = |text: String| Err(CniError::new(ErrorCode::Failed, text));
        if !ports.contains(&name) {
            return wrong(format!("the daemon has no port {name} for this container any longer"));
        }
        let ns = open(&target.netns)?;
        let interface = &target.attachment.interface;
        let found = link::show(&ns, interface).map_err(|e| failed("find the container's interface")(&e))?;
        if !found.up {
            return wrong(format!("the container's interface {interface} is down"));
        }
        let there =
            link::addresses(&ns, interface).map_err(|e| failed("read the container's addresses")(&e))?;
        let expected = self.config.previous.as_ref().map(Addressing::read).transpose()?.unwrap_or_default();
        if let Some((address, length)) = expected.addresses.iter().find(|address| !there.contains(address)) {
            return wrong(format!(
                "the container's interface {interface} has lost the address {address}/{length}"
            ));
        }
        self.ipam().map(|ipam| ipam.call("CHECK")).transpose().map(|_| ())
    }

    /// Removes the network's ports that belong to no valid attachment.
    pub(crate) fn gc(&self, daemon: &mut dyn Daemon) -> Result<(), CniError> {
        let Some(valid) = &self.config.valid else {
            return Err(CniError::new(
                ErrorCode::InvalidConfig,
                "GC needs the key cni.dev/valid-attachments",
            ));
        };
        let kept: Vec<String> = valid.iter().map(|attachment| self.port(attachment)).collect();
        let prefix = name::prefix(&self.config.network);
        let ours = |name: &String| match &self.config.port {
            Some(port) => name == port,
            None => name.starts_with(&prefix) && name.len() == name::LENGTH,
        };
        let ports = daemon.ports().map_err(|e| e.during("list the ports"))?;
        let lost = ports.into_iter().filter(|name| ours(name) && !kept.contains(name));
        let mut outcome = Ok(());
        for name in lost {
            match daemon.remove_port(&name) {
                Ok(()) | Err(DaemonCallError::NoSuchPort(_)) => {}
                // The others are removed all the same.
                Err(error) => outcome = outcome.and(Err(error.during(&format!("remove port {name}")))),
            }
        }
        let released = self.ipam().map(|ipam| ipam.optional("GC")).transpose();
        outcome.and(released.map(|_| ()))
    }

    pub(crate) fn status(&self) -> Result<(), CniError> {
        self.ipam().map(|ipam| ipam.optional("STATUS")).transpose().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_have_the_daemons_names() {
        assert_eq!(netns_name("/var/run/netns/cni-1"), "cni-1");
        assert_eq!(netns_name("/run/netns/x"), "x");
        for path in ["/proc/7/ns/net", "/run/netns/", "/run/netns/a/b", "/run/docker/netns/x"] {
            assert_eq!(netns_name(path), path);
        }
    }
}
