//! Packets in transit through the network, and random losses on links.

use super::{Fabric, Forward, Hop};
use crate::event::{Agenda, Event};
use crate::ids::{HostId, PacketId, Pool, SwitchId};
use crate::packet::Packet;
use crate::random::Random;
use weft_facts::record::{Balance, Stage};
use weft_units::{Counted, Nanos};

/// The result of a packet's passage through a hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Passage {
    /// It is in transit to a switch; an event will report its arrival.
    UnderWay,
    /// It will arrive at a host.
    Arrives {
        /// The host.
        host: HostId,
        /// The time of arrival.
        at: Nanos,
    },
    /// A link lost it at `at`.
    Lost { at: Nanos },
    /// A switch had no room for it.
    Dropped,
}

/// The properties of a stream that switches use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) to: HostId,
    pub(crate) hash: u32,
    pub(crate) ecn_capable: bool,
}

/// The network with its packets.
#[derive(Debug)]
pub(crate) struct Transit {
    fabric: Fabric,
    /// Packets in transit to a switch.
    packets: Pool<PacketId, Packet>,
    /// Probability of a loss per packet and link.
    loss: f64,
    lost: Counted,
}

impl Transit {
    pub(crate) const fn new(fabric: Fabric, loss: f64) -> Self {
        Self { fabric, packets: Pool::new(), loss, lost: Counted::ZERO }
    }

    /// Handles a packet that leaves a host's wire at `departure`.
    #[inline]
    pub(crate) fn leave_host(
        &mut self,
        from: HostId,
        packet: &Packet,
        departure: Nanos,
        random: &mut Random,
        agenda: &mut Agenda,
    ) -> Passage {
        if self.loss > 0.0 && random.chance(self.loss) {
            self.lost += Counted::new(1, u64::from(packet.len));
            return Passage::Lost { at: departure };
        }
        match self.fabric.leave_host(from, departure) {
            (at, Hop::Host(host)) => Passage::Arrives { host, at },
            (at, Hop::Switch(switch)) => {
                let packet = self.packets.insert(*packet);
                agenda.push(at, Event::AtSwitch { switch, packet });
                Passage::UnderWay
            }
        }
    }

    /// Returns a packet in transit to a switch.
    #[inline]
    pub(crate) fn packet(&self, id: PacketId) -> &Packet {
        &self.packets[id]
    }

    /// Handles a packet that reaches a switch; returns it as it leaves the switch.
    #[inline]
    pub(crate) fn at_switch(
        &mut self,
        switch: SwitchId,
        id: PacketId,
        header: &Header,
        now: Nanos,
        agenda: &mut Agenda,
    ) -> (Packet, Passage) {
        let packet = self.packets[id];
        let Header { to, hash, ecn_capable } = *header;
        match self.fabric.forward(switch, to, hash, packet.bytes(), ecn_capable, now) {
            Forward::Dropped => {
                self.packets.remove(id);
                (packet, Passage::Dropped)
            }
            Forward::Queued { arrives, at, marked } => {
                let packet = Packet { marked: packet.marked || marked, ..packet };
                let passage = match at {
                    Hop::Host(host) => {
                        self.packets.remove(id);
                        Passage::Arrives { host, at: arrives }
                    }
                    Hop::Switch(next) => {
                        self.packets[id] = packet;
                        agenda.push(arrives, Event::AtSwitch { switch: next, packet: id });
                        Passage::UnderWay
                    }
                };
                (packet, passage)
            }
        }
    }

    /// Returns the balances of the network and of its switches' ports. Hosts have sent `sent` into the network and received
    /// `arrived` from it; `to_hosts` is still on the wires to hosts.
    pub(crate) fn balances(
        &self,
        sent: Counted,
        arrived: Counted,
        to_hosts: Counted,
        now: Nanos,
    ) -> Vec<Stage> {
        let switches = self.fabric.balances(now);
        let mut held = to_hosts;
        self.packets.live().for_each(|packet| held += Counted::new(1, u64::from(packet.len)));
        let mut dropped = self.lost;
        switches.iter().for_each(|port| dropped += port.balance.dropped());
        let name = "network".to_owned();
        let network = Stage { name, balance: Balance::of(sent, arrived, dropped, held) };
        std::iter::once(network).chain(switches).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StreamId;
    use crate::packet::Body;
    use crate::scenario::{NetworkSpec, Scenario, Topology};

    fn packet() -> Packet {
        let body = Body::Datagram { number: 0 };
        let (stream, created) = (StreamId(0), Nanos::ZERO);
        Packet { body, created, stream, payload: 8, len: 60, marked: false }
    }

    fn transit(topology: Topology, hosts: u32, loss: f64) -> Transit {
        let network = NetworkSpec { topology, delay: Nanos(1000), ..Scenario::default().network };
        Transit::new(Fabric::new(&network, hosts).expect("possible"), loss)
    }

    fn leave(transit: &mut Transit, agenda: &mut Agenda) -> Passage {
        transit.leave_host(HostId(0), &packet(), Nanos(5), &mut Random::new(1), agenda)
    }

    #[test]
    fn back_to_back_a_packet_arrives_without_an_event() {
        let (mut transit, mut agenda) = (transit(Topology::BackToBack, 2, 0.0), Agenda::new());
        let arrives = Passage::Arrives { host: HostId(1), at: Nanos(1005) };
        assert_eq!(leave(&mut transit, &mut agenda), arrives);
        assert!(agenda.is_empty());
    }

    #[test]
    fn through_a_switch_it_is_held_until_it_is_forwarded() {
        let (mut transit, mut agenda) = (transit(Topology::Star, 3, 0.0), Agenda::new());
        assert_eq!(leave(&mut transit, &mut agenda), Passage::UnderWay);
        let Some((now, Event::AtSwitch { switch, packet: id })) = agenda.pop() else { panic!("no event") };
        let amount = |packets: u64| Counted::new(packets, 60 * packets);
        let balances = transit.balances(amount(1), Counted::ZERO, Counted::ZERO, now);
        assert!(balances[0].balance.is_balanced() && balances[0].balance.held_packets == 1);
        let header = Header { to: HostId(2), hash: 0, ecn_capable: false };
        let (left, passage) = transit.at_switch(switch, id, &header, now, &mut agenda);
        assert_eq!(left, packet());
        assert!(matches!(passage, Passage::Arrives { host: HostId(2), .. }), "{passage:?}");
        assert!(transit.balances(amount(1), amount(1), Counted::ZERO, Nanos::MAX)[0].balance.is_balanced());
    }

    #[test]
    fn what_a_link_loses_is_counted() {
        let (mut transit, mut agenda) = (transit(Topology::Star, 3, 1.0), Agenda::new());
        assert_eq!(leave(&mut transit, &mut agenda), Passage::Lost { at: Nanos(5) });
        let sent = Counted::new(1, 60);
        assert!(transit.balances(sent, Counted::ZERO, Counted::ZERO, Nanos(5))[0].balance.is_balanced());
    }
}
