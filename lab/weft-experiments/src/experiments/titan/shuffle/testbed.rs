//! Servers and a switch: a network namespace with a multiqueue software NIC for each server, and one that joins their
//! uplinks. Nothing outside them is touched, and all is removed when the value is dropped.
//!
//! The switch forwards by the servers' addresses (a route of 32 bits to each uplink's TAP), so it needs only IPv4
//! forwarding from the kernel. It limits no rates: packets to a server arrive as fast as all others send
//! them.

use super::error::ShuffleError;
use super::settings::ShuffleSettings;
use core::net::{IpAddr, Ipv4Addr};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use weft_host::link::{self, Mac, Route};
use weft_host::net_counters::NetCounters;
use weft_host::{NetNs, RunId, sysctl};
use weft_nic::nic::{NicConfig, NicPlan, SoftwareNic, Totals};
use weft_nic::plan::Mode;
use weft_nic::port::{Port, PortConfig, Uplink};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::{CompileOptions, CompiledPolicy, Source, compile};
use weft_sched::queues::Service;
use weft_titan::device::Titan;
use weft_units::Nanos;

/// All traffic is one class: the NICs only have queues.
const POLICY: &str = "root = fair of default";
/// The port's name in a server's namespace, followed by the server's number: the rings of all are in one namespace.
const PORT: &str = "port";
/// Rings of a queue whose flows take turns: more than its flows with data from 24 servers.
const RINGS_OF_QUEUE: usize = 16;
/// Packets that a ring holds: two super-packets of each of at most 126 flows with data or acknowledgements, and a
/// margin.
const RING_PACKETS: u32 = 1000;
/// Packets that an uplink's TAP holds: super-packets of all other servers while the NIC's thread waits for a
/// processor.
const SWITCH_PACKETS: u32 = 4000;
/// The most that a link's clock may lag, as in the multiqueue testbed of `weft-nic`.
const CATCH_UP: Nanos = Nanos::from_millis(50);
/// Time limit for the links to come up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit for a NIC to drain at the end.
const GRACE: Nanos = Nanos::from_secs(2);

/// Returns a server's address; 10.97/16 has them all.
fn address(server: u32) -> IpAddr {
    let [_, _, high, low] = (server + 1).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 97, high, low))
}

/// Length of the network's prefix.
const PREFIX: u8 = 16;

/// Queue assignment at a port; detached when the value is dropped.
struct Attached(Option<Titan>);

impl Attached {
    fn detach(mut self) -> Result<(), ShuffleError> {
        self.0.take().map_or(Ok(()), |titan| Ok(titan.detach()?))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(titan) = self.0.take() {
            // A failure is no loss: the attachment ends with its device.
            let _ = titan.detach();
        }
    }
}

/// A server. Dropped in this order.
pub(super) struct Server {
    titan: Attached,
    nic: SoftwareNic,
    /// The namespace of its sockets.
    pub(super) ns: NetNs,
    /// Its address for the others.
    pub(super) address: IpAddr,
    /// The name of its uplink in the switch.
    uplink: String,
}

/// Counters of a server's NIC and its switch port.
pub(super) struct Accounting {
    pub(super) nic: Totals,
    /// Packets to the server that the switch dropped.
    pub(super) switch_drops: u64,
    /// Segments that the server retransmitted.
    pub(super) retransmitted: u64,
}

/// The servers and the switch. Dropped in this order.
pub(super) struct Network {
    pub(super) servers: Vec<Server>,
    switch: NetNs,
    _rings: NetNs,
}

impl Network {
    /// Makes servers and switch, and waits until packets pass. `stopped` is polled between the servers.
    pub(super) fn create(
        settings: &ShuffleSettings,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Self, ShuffleError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let make = |part: &str| NetNs::create(&RunId::current().name(&format!("shf{serial}{part}")));
        let policy = policy()?;
        let (switch, rings) = (make("switch")?, make("nic")?);
        forward(&switch)?;
        let mut network = Self { servers: Vec::new(), switch, _rings: rings };
        for number in 0..settings.servers {
            if stopped() {
                return Err(ShuffleError::Stopped);
            }
            let ns = make(&format!("s{number}"))?;
            let server = server(&policy, settings, number, ns, &network.switch, &network._rings)?;
            network.servers.push(server);
        }
        for server in &network.servers {
            link::wait_running(&network.switch, &server.uplink, PATIENCE)?;
        }
        Ok(network)
    }

    /// Whether all NICs still run.
    pub(super) fn is_running(&self) -> bool {
        self.servers.iter().all(|server| server.nic.is_running())
    }

    /// Detaches queue assignment, stops the NICs, and returns their accounting by server.
    pub(super) fn stop(mut self) -> Result<Vec<Accounting>, ShuffleError> {
        let switch = self.switch.handle()?;
        let close = |Server { titan, nic, ns, uplink, .. }: Server| {
            titan.detach()?;
            let switch_drops = link::stats(&switch, &uplink)?.tx_dropped.get();
            let retransmitted = NetCounters::read(&ns)?.retransmitted;
            Ok(Accounting { nic: nic.stop(GRACE)?, switch_drops, retransmitted })
        };
        at_once(core::mem::take(&mut self.servers), close).into_iter().collect()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        at_once(core::mem::take(&mut self.servers), drop);
    }
}

/// Runs `work` on all servers at the same time. For each ring that is closed the kernel waits for all processors
/// (`tap_put_queue`, drivers/net/tap.c), some 20 ms: seconds for a NIC, and no longer for all of them together.
fn at_once<R: Send>(servers: Vec<Server>, work: impl Fn(Server) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = servers.into_iter().map(|server| scope.spawn(|| work(server))).collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn policy() -> Result<CompiledPolicy, ShuffleError> {
    let compiled = compile(Source { name: "shuffle", text: POLICY }, &CompileOptions::default());
    let refused = || ShuffleError::Policy(format!("{:?}", compiled.diagnostics));
    compiled.policy.clone().ok_or_else(refused)
}

/// Enables IPv4 forwarding in the namespace, and accepts packets from any interface with a route to their source.
fn forward(switch: &NetNs) -> Result<(), ShuffleError> {
    sysctl::disable_ipv6(switch);
    for (key, value) in [
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
        ("net.ipv4.ip_forward", "1"),
    ] {
        sysctl::set(switch, key, value)?;
    }
    Ok(())
}

/// Makes a server whose NIC's uplink is in the switch.
fn server(
    policy: &CompiledPolicy,
    settings: &ShuffleSettings,
    number: u32,
    ns: NetNs,
    switch: &NetNs,
    rings: &NetNs,
) -> Result<Server, ShuffleError> {
    sysctl::disable_ipv6(&ns);
    let config = NicConfig {
        mode: Mode::Multiqueue {
            queues: settings.queues,
            inner: settings.config.inner(),
            service: Service::RoundRobin,
        },
        rate: settings.rate,
        link: weft_nic::link::LinkKind::Emulated,
        segments_per_turn: SegmentsPerTurn::Whole,
        catch_up: CATCH_UP,
        window: CATCH_UP,
        cgroups: Vec::new(),
        flows: Vec::new(),
        rings: usize::from(settings.queues) * RINGS_OF_QUEUE,
        departures: None,
    };
    let plan = NicPlan::new(policy, config)?;
    let name = format!("{PORT}{number}");
    let mac = Mac::local(number + 1);
    let port = Port::create(&PortConfig {
        app: &ns,
        nic: rings,
        name: &name,
        mac,
        rings: plan.ring_count(),
        ring_packets: RING_PACKETS,
        single_backlog: true,
    })?;
    let uplink = format!("srv{number}");
    let tap = Uplink::tap(switch, &uplink)?;
    link::set_txqueuelen(switch, &uplink, SWITCH_PACKETS)?;
    let nic = SoftwareNic::start(plan, port, tap)?;
    let server = Server { titan: Attached(None), nic, ns, address: address(number), uplink };
    connect(&server, &name, mac, settings.servers, switch)?;
    let titan = match settings.config.attached() {
        Some(wanted) => Some(Titan::attach(&server.ns, &name, &wanted)?),
        None => None,
    };
    Ok(Server { titan: Attached(titan), ..server })
}

/// Adds addresses, routes and neighbours, all permanent, so that no ARP crosses a NIC. For a server, all others are
/// at the MAC address of its switch port, which thus receives their packets.
fn connect(server: &Server, port: &str, mac: Mac, servers: u32, switch: &NetNs) -> Result<(), ShuffleError> {
    link::set_up(switch, &server.uplink)?;
    let gone = || ShuffleError::NoMac(server.uplink.clone());
    let gateway = link::get_mac(switch, &server.uplink)?.ok_or_else(gone)?;
    let route =
        Route { destination: server.address, prefix_len: 32, link: Some(&server.uplink), gateway: None };
    link::add_route(switch, &route)?;
    link::add_neighbor(switch, &server.uplink, server.address, mac)?;
    link::add_address(&server.ns, port, server.address, PREFIX)?;
    for other in (0..servers).map(address).filter(|other| *other != server.address) {
        link::add_neighbor(&server.ns, port, other, gateway)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_server_has_an_address_of_its_own() {
        let addresses: BTreeSet<IpAddr> = (0..1000).map(address).collect();
        assert_eq!(addresses.len(), 1000);
        assert_eq!(
            (address(0).to_string(), address(255).to_string()),
            ("10.97.0.1".into(), "10.97.1.0".into())
        );
    }
}
