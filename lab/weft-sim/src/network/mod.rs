//! The network between hosts: links, switches with shared buffers, routes.
//!
//! Output ports are first in, first out, so a packet's departure is known on its arrival. [`Fabric`] therefore needs one event
//! per hop and none per departure. It has no clock and no events. The caller takes each packet to the hop in the last
//! answer, at the time in that answer.
//!
//! Not done here: losing packets at random ([`NetworkSpec::loss`] is the caller's), and modelling the sending NIC's link, whose end
//! of transmission is an argument of [`Fabric::leave_host`].

mod layout;
mod port;
mod transit;

use crate::ids::{HostId, Table};
use crate::run_error::RunError;
use crate::scenario::{NetworkSpec, Topology};
use layout::{Attachment, Layout};
use port::Port;
pub(crate) use transit::{Header, Passage, Transit};
use weft_facts::record::Stage;
use weft_packet::ethernet;
use weft_units::{Bytes, Nanos};

pub use crate::ids::SwitchId;

/// The far end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Hop {
    /// The host with this index.
    Host(HostId),
    /// A switch.
    Switch(SwitchId),
}

/// The result of a packet's arrival at a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forward {
    /// The switch had no room for it.
    Dropped,
    /// It is in the queue of an output port.
    Queued {
        /// Arrival of its last bit at the next hop.
        arrives: Nanos,
        /// The next hop.
        at: Hop,
        /// Whether it was marked with congestion experienced.
        marked: bool,
    },
}

/// A switch: its range of ports, and its buffer.
#[derive(Clone, Debug)]
struct Switch {
    /// Its first port; its ports are consecutive, those to hosts first.
    first: u32,
    /// One past its last port.
    end: u32,
    /// Output ports for hosts at other switches.
    away: layout::Away,
    /// Bytes in the buffer, as of the last drain of each port; an upper bound on the actual number.
    used: Bytes,
}

/// The network: a pure state machine.
///
/// Store and forward: a packet is at a hop after the arrival of its last bit. Every link has the delay [`NetworkSpec::delay`],
/// including those between switches. Packets occupy links with Ethernet's framing ([`ethernet::wire_of`]) and buffers without it.
/// A packet occupies the buffer until its last bit has left the port.
#[derive(Clone, Debug)]
pub struct Fabric {
    switches: Table<SwitchId, Switch>,
    ports: Vec<Port>,
    /// The attachment of each host. Empty for hosts back to back.
    attachments: Table<HostId, Attachment>,
    delay: Nanos,
    buffer: Bytes,
    alpha: f64,
    /// The backlog above which a port marks; the largest value if nothing is marked.
    mark_above: Bytes,
}

impl Fabric {
    /// Creates an empty network for `hosts` hosts.
    ///
    /// # Errors
    /// A switch without hosts, more than a million ports, a rate of zero, no buffer, or an `alpha` that is not a positive number.
    pub fn new(network: &NetworkSpec, hosts: u32) -> Result<Self, RunError> {
        if network.rate.0 == 0 {
            return Err(RunError::impossible(
                "links of rate zero carry nothing".to_owned(),
                "give `network.rate`",
            ));
        }
        let switch = &network.switch;
        if network.topology != Topology::BackToBack {
            if !(switch.alpha.is_finite() && switch.alpha > 0.0) {
                let what =
                    format!("a switch with alpha {} would never queue or has no threshold", switch.alpha);
                return Err(RunError::impossible(what, "give a positive `network.switch.alpha`, such as 1"));
            }
            if switch.buffer == Bytes::ZERO {
                let what = "a switch without a buffer drops everything".to_owned();
                return Err(RunError::impossible(what, "give `network.switch.buffer`"));
            }
        }
        let Layout { switches, ports, attachments } = Layout::new(network, hosts)?;
        Ok(Self {
            switches,
            ports,
            attachments,
            delay: network.delay,
            buffer: switch.buffer,
            alpha: switch.alpha,
            mark_above: switch.ecn_threshold.unwrap_or(Bytes::MAX),
        })
    }

    /// Returns the arrival time and the next hop of a packet whose last bit left the NIC of `host` at `now`.
    ///
    /// # Panics
    /// If `host` is not below the number of hosts.
    #[inline]
    pub fn leave_host(&self, host: HostId, now: Nanos) -> (Nanos, Hop) {
        let at = if self.attachments.len() == 0 {
            assert!(host.0 < 2, "two hosts are back to back");
            Hop::Host(HostId(1 - host.0))
        } else {
            Hop::Switch(SwitchId(self.attachments[host].switch))
        };
        (now + self.delay, at)
    }

    /// Handles a frame of `len` bytes (without preamble, check sequence and gap) for host `to` that arrives at `switch` at `now`.
    /// `hash` belongs to its flow and selects the spine. Calls for one switch are in the order of time.
    ///
    /// A port accepts a packet while it holds less than `alpha` times the free part of the buffer (Choudhury and Hahne 1998,
    /// section II), if the packet fits into the free part. It marks packets of ECN-capable flows if it holds more than the
    /// threshold on arrival, without the arriving packet (Alizadeh et al., DCTCP, SIGCOMM 2010, section 3.1).
    ///
    /// # Panics
    /// If `switch` is not the switch of a returned [`Hop`], or `to` is not below the number of hosts.
    pub fn forward(
        &mut self,
        switch: SwitchId,
        to: HostId,
        hash: u32,
        len: Bytes,
        ecn_capable: bool,
        now: Nanos,
    ) -> Forward {
        let state = &mut self.switches[switch];
        let index = state.away.route(switch, self.attachments[to], hash) as usize;
        let port = &mut self.ports[index];
        port.entered.packets.0 += 1;
        port.entered.bytes += len;
        state.used -= port.drain(now);
        let (buffer, alpha) = (self.buffer, self.alpha);
        let admits = |held: Bytes, used: Bytes| {
            let free = buffer.saturating_sub(used);
            len <= free && (held.0 as f64) < alpha * free.0 as f64
        };
        let held = port.holds();
        if !admits(held, state.used) {
            // Packets that other ports have sent since their last drain free buffer space. Draining them only now is exact: more
            // space never turns an acceptance into a drop.
            for port in &mut self.ports[state.first as usize..state.end as usize] {
                state.used -= port.drain(now);
            }
            if !admits(held, state.used) {
                self.ports[index].drop_one(len);
                return Forward::Dropped;
            }
        }
        state.used += len;
        let marked = ecn_capable && held > self.mark_above;
        let port = &mut self.ports[index];
        let departs = port.enqueue(now, len, ethernet::wire_of(len));
        Forward::Queued { arrives: departs + self.delay, at: port.far_end(), marked }
    }

    /// The number of switches; their identities start at 0.
    pub fn switches(&self) -> u32 {
        self.switches.len() as u32
    }

    /// Returns the bytes in a switch's ports at `now`, which is not before its last packet's arrival.
    ///
    /// # Panics
    /// If `switch` is not the switch of a returned [`Hop`].
    pub fn occupancy(&self, switch: SwitchId, now: Nanos) -> Bytes {
        let state = &self.switches[switch];
        self.ports[state.first as usize..state.end as usize].iter().map(|port| port.held(now).bytes).sum()
    }

    /// Returns the balances of all output ports at `now`, which is not before the last packet's arrival. Packets on links are in
    /// no port's balance: they have left one and not entered the next.
    pub fn balances(&self, now: Nanos) -> Vec<Stage> {
        let switches = self.switches.iter().enumerate();
        let ports = switches.flat_map(|(s, switch)| {
            self.ports[switch.first as usize..switch.end as usize].iter().map(move |port| {
                let name = match port.far_end() {
                    Hop::Host(host) => format!("switch {s} port to host {host}"),
                    Hop::Switch(SwitchId(next)) => format!("switch {s} port to switch {next}"),
                };
                port.balance(name, now)
            })
        });
        ports.collect()
    }
}
