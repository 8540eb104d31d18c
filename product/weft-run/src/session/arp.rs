//! A port beside its uplink, in one network namespace.
//!
//! Linux answers ARP for any address of the host on any of its interfaces (`arp_ignore` 0), and asks with any of them
//! (`arp_announce` 0). The uplink would then answer for the port's address, and packets to the port would arrive at the
//! uplink.

use weft_host::link::Numbered;
use weft_host::netns::NetNs;
use weft_host::sysctl;

/// The settings: an interface answers only for its own addresses, and asks with its best own address
/// (Documentation/networking/ip-sysctl.rst).
const SETTINGS: [(&str, &str); 2] = [("arp_ignore", "1"), ("arp_announce", "2")];

/// The ARP settings changed at the uplink. Dropping the value restores them.
#[derive(Debug)]
pub(super) struct Arp {
    uplink: Option<Numbered>,
    before: Vec<(&'static str, String)>,
    failed: bool,
}

fn key(link: &str, name: &str) -> String {
    format!("net/ipv4/conf/{link}/{name}")
}

/// Changes the settings that are 0, since another value was set on purpose. Returns the previous values.
fn set(ns: &NetNs, link: &str) -> Result<Vec<(&'static str, String)>, sysctl::SysctlError> {
    let mut before = Vec::new();
    for (name, value) in SETTINGS {
        let now = sysctl::get(ns, &key(link, name))?;
        if now == "0" {
            sysctl::set(ns, &key(link, name), value)?;
            before.push((name, now));
        }
    }
    Ok(before)
}

impl Arp {
    /// Separates the ARP of the port and of its uplink.
    pub(super) fn keep_apart(uplink: &Numbered, port: &str) -> Self {
        let ns = uplink.namespace();
        // The port's settings are removed with it.
        let of_port = set(ns, port);
        let name = uplink.show().map_or_else(|_| uplink.first_name().to_owned(), |link| link.name);
        let of_uplink = set(ns, &name);
        let failed = of_port.is_err() || of_uplink.is_err();
        Self { uplink: Numbered::named(ns, &name).ok(), before: of_uplink.unwrap_or_default(), failed }
    }

    /// The changed settings of the uplink, with their values before.
    pub(super) fn before(&self) -> Vec<(String, String)> {
        self.before.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    /// The settings that a former process has changed at `uplink`, and had found as `before`.
    pub(super) fn resume(uplink: &Numbered, before: Vec<(String, String)>) -> Self {
        let known = |(name, value): (String, String)| {
            let (name, _) = SETTINGS.iter().find(|(known, _)| *known == name)?;
            Some((*name, value))
        };
        let ns = uplink.namespace();
        let uplink = Numbered::at(ns, uplink.index(), uplink.first_name()).ok();
        Self { uplink, before: before.into_iter().filter_map(known).collect(), failed: false }
    }

    /// Separates the ARP of another port beside the uplink, in `ns`.
    pub(super) fn add_port(&mut self, ns: &NetNs, port: &str) {
        self.failed |= set(ns, port).is_err();
    }

    /// The note for the user.
    pub(super) fn note(&self, uplink: &str) -> String {
        if self.failed {
            return format!(
                "the port is in one namespace with {uplink}, which answers ARP for the port's address too, because its settings \
                 cannot be written: set net.ipv4.conf.{uplink}.arp_ignore to 1 and arp_announce to 2, or use --netns"
            );
        }
        format!(
            "the port is in one namespace with {uplink}: arp_ignore of {uplink} is 1 and arp_announce 2 while this runs, so that \
             each answers for its own addresses only; which of them packets leave by is for the routes to say"
        )
    }
}

impl Drop for Arp {
    fn drop(&mut self) {
        let Some(link) = self.uplink.as_ref().and_then(|uplink| uplink.show().ok()) else { return };
        let ns = self.uplink.as_ref().map(Numbered::namespace);
        for (name, value) in &self.before {
            // A value that was changed since belongs to another process.
            let ours = SETTINGS.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
            let Some(ns) = ns else { return };
            if sysctl::get(ns, &key(&link.name, name)).ok().as_deref() == ours {
                let _ = sysctl::set(ns, &key(&link.name, name), value);
            }
        }
    }
}
