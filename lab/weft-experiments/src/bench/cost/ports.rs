//! More ports of one session, of which the first [`BUSY`] carry the bulk flows and the others are idle.
//!
//! All ports are in the sender's namespace. The first has its address. A route with several next hops spreads the flows
//! over the busy ports by a hash of their ports (fib_multipath_hash_policy, Documentation/networking/ip-sysctl.rst);
//! what returns arrives at the first.

use super::error::CostError;
use super::testbed::{PORT, RECEIVER, SENDER, Testbed};
use weft_host::link::{self, Mac};
use weft_host::{OsError, sysctl};
use weft_nic::nic::NIC_RINGS;
use weft_report::bench::cost::Variant;
use weft_run::session::{PortKind, PortSettings, PortShare, Receive, Session};

/// The ports that carry flows.
const BUSY: u32 = 4;

/// The number of ports of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortCount(pub u32);

impl PortCount {
    /// Whether some carry no flow.
    pub(super) const fn has_idle(self) -> bool {
        self.0 > BUSY
    }

    /// The ports of the session of a variant.
    pub(super) const fn of(self, variant: Variant) -> Self {
        if matches!(variant, Variant::Busy) { Self(BUSY) } else { self }
    }
}

/// The rings of each of `ports` ports: all that a port can have, or an even part of the NIC's.
pub(super) fn rings(ports: u32) -> usize {
    (NIC_RINGS / ports.max(1) as usize).min(weft_nic::doorbell::RINGS)
}

fn name(port: u32) -> String {
    format!("{}{port}", PORT.trim_end_matches('0'))
}

/// Adds ports to `session`, which has one, until there are `ports`, and spreads the flows over the busy ones.
pub(super) fn add(session: &mut Session, testbed: &Testbed, ports: u32, wire: Mac) -> Result<(), CostError> {
    for number in 1..ports {
        session.add_port(&PortSettings {
            name: name(number),
            netns: Some(testbed.sender.name().to_owned()),
            addresses: Vec::new(),
            mac: Mac([2, 0, 0, 1, (number >> 8) as u8, number as u8]),
            kind: PortKind::Auto,
            receive: Receive::Auto,
            share: PortShare { rings: rings(ports), ..PortSettings::SHARE },
            ingress: None,
        })?;
    }
    let busy: Vec<String> = (0..ports.min(BUSY)).map(name).collect();
    for port in busy.iter().skip(1) {
        link::add_neighbor(&testbed.sender, port, RECEIVER, wire)?;
    }
    let set = sysctl::set(&testbed.sender, "net.ipv4.fib_multipath_hash_policy", "1");
    set.map_err(|e| OsError::new(format!("spread flows over ports: {e}"), std::io::Error::other("refused")))?;
    let mut route = std::process::Command::new("ip");
    route.args(["-n", testbed.sender.name(), "route", "replace", &RECEIVER.to_string(), "src"]);
    route.arg(SENDER.to_string());
    busy.iter().for_each(|port| _ = route.args(["nexthop", "dev", port]));
    let failed = |e| CostError::from(OsError::new("spread flows over ports: run ip route", e));
    match route.status().map_err(failed)?.success() {
        true => Ok(()),
        false => Err(failed(std::io::Error::other("it was refused"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_divide_the_rings_of_the_nic() {
        assert_eq!([1, 4, 16, 64].map(rings), [256, 256, 256, 64]);
        assert_eq!([0, 63].map(name), ["port0", "port63"]);
    }
}
