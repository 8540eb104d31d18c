//! A port beside its uplink, in one network namespace.
//!
//! Linux answers ARP for any address of the host on any of its interfaces (`arp_ignore` 0), and asks with any of them
//! (`arp_announce` 0). The uplink would then speak for the port's address, and what is sent to the port would come in by the uplink.

use weft_host::link::Numbered;
use weft_host::netns::NetNs;
use weft_host::sysctl;

/// Each answers only for addresses of its own; each asks with the best address of its own
/// (Documentation/networking/ip-sysctl.rst).
const SETTINGS: [(&str, &str); 2] = [("arp_ignore", "1"), ("arp_announce", "2")];

/// What was changed about the uplink. Dropping it sets that back.
#[derive(Debug)]
pub(super) struct Arp {
    uplink: Option<Numbered>,
    before: Vec<(&'static str, String)>,
    failed: bool,
}

fn key(link: &str, name: &str) -> String {
    format!("net/ipv4/conf/{link}/{name}")
}

/// Sets what is 0; whoever has set something else knows why. Returns what was.
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
    /// Keeps the port and its uplink apart.
    pub(super) fn keep_apart(uplink: &Numbered, port: &str) -> Self {
        let ns = uplink.namespace();
        // The port's settings go with it.
        let of_port = set(ns, port);
        let name = uplink.show().map_or_else(|_| uplink.first_name().to_owned(), |link| link.name);
        let of_uplink = set(ns, &name);
        let failed = of_port.is_err() || of_uplink.is_err();
        Self { uplink: Numbered::named(ns, &name).ok(), before: of_uplink.unwrap_or_default(), failed }
    }

    /// What the user should know.
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
            // Set by somebody else meanwhile, it is theirs.
            let ours = SETTINGS.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
            let Some(ns) = ns else { return };
            if sysctl::get(ns, &key(&link.name, name)).ok().as_deref() == ours {
                let _ = sysctl::set(ns, &key(&link.name, name), value);
            }
        }
    }
}
