//! iperf3 as the papers' bulk flows: a pinned process for each processor, whose flows have ports that follow from the
//! seed.

use super::error::MeasuredError;
use super::path::MeasuredPath;
use super::settings::RunSettings;
use weft_profile::iperf::{Client, FIRST_PORT, Flows, MAX_STREAMS, Senders, Start, deal};
use weft_units::{FlowKey, Protocol};

/// The congestion control of all flows: the default of the papers' kernel.
const CONGESTION_CONTROL: &str = "cubic";
/// Local ports of flows: below the kernel's ephemeral ports (32768 and up), which the control connections have.
const PORTS: core::ops::Range<u16> = 10_000..30_000;
/// Seconds between the end of the run and the flows' own end; they are ended with the run.
const SPARE_S: u64 = 120;

/// A process and its flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Share {
    flows: u32,
    cpu: u32,
    first_port: u16,
    /// Its group of weights, and the number of that group's flows in earlier processes.
    group: usize,
    before: u32,
}

/// The distribution of a run's flows over processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FlowLayout {
    shares: Vec<Share>,
    groups: usize,
}

impl FlowLayout {
    /// Distributes the flows of each group of weights evenly over a process for each of `cpus`, or over more where
    /// one iperf3 cannot have them all. A processor without a flow gets no process.
    pub(super) fn new(settings: &RunSettings, cpus: &[u32]) -> Self {
        let groups = settings.weights.as_ref().map_or(1, Vec::len).max(1);
        let mut next_port = first_port(settings.seed, settings.flows);
        let mut shares = Vec::new();
        let each = cpus.len() as u32;
        let mut cpus = cpus.iter().copied().cycle();
        for (group, of_group) in deal(settings.flows, groups as u32).enumerate() {
            let processes = each.min(of_group).max(of_group.div_ceil(MAX_STREAMS));
            let mut before = 0;
            for flows in deal(of_group, processes) {
                let Some(cpu) = cpus.next() else { break };
                shares.push(Share { flows, cpu, first_port: next_port, group, before });
                next_port += flows as u16;
                before += flows;
            }
        }
        Self { shares, groups }
    }

    /// Returns the number of a flow: `0..flows`, its group being `number % groups`. `None` for other packets, such as
    /// those of iperf3's control connections and pings.
    pub(super) fn number(&self, key: &FlowKey) -> Option<u32> {
        if key.protocol != Protocol::TCP {
            return None;
        }
        let share = self.shares.get(usize::from(key.dport.checked_sub(FIRST_PORT)?))?;
        let index = u32::from(key.sport.checked_sub(share.first_port)?);
        (index < share.flows).then(|| (share.before + index) * self.groups as u32 + share.group as u32)
    }
}

/// Returns the first local port: a function of the seed (SplitMix64, Steele, Lea and Flood 2014), such that all flows
/// fit.
fn first_port(seed: u64, flows: u32) -> u16 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    let room = u64::from(PORTS.end - PORTS.start).saturating_sub(u64::from(flows)).max(1);
    PORTS.start + (z % room) as u16
}

/// Running flows. They end when the value is dropped.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) layout: FlowLayout,
    flows: Flows,
}

impl Traffic {
    /// Starts all flows, and waits until they are connected.
    pub(super) fn start(
        path: &dyn MeasuredPath,
        settings: &RunSettings,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, MeasuredError> {
        let layout = FlowLayout::new(settings, &weft_host::affinity::own()?);
        let client = |share: &Share| Client {
            flows: share.flows,
            cpu: Some(share.cpu),
            first_port: Some(share.first_port),
            cgroup: settings.weights.as_ref().and_then(|_| path.cgroup(share.group)),
        };
        let senders = Senders {
            sender: path.sender(),
            receiver: path.receiver(),
            address: path.receiver_address(),
            clients: layout.shares.iter().map(client).collect(),
            seconds: (settings.warm_up + settings.duration).get().div_ceil(1_000_000_000) + SPARE_S,
            start: Start::AsConnected,
            block: None,
            congestion_control: CONGESTION_CONTROL,
            cancelled,
        };
        let flows = Flows::start(&senders)?;
        Ok(Self { flows, layout })
    }

    /// Returns the ids of all processes, senders and receivers.
    pub(super) fn pids(&self) -> Vec<i32> {
        self.flows.pids()
    }

    /// Fails if a process has ended.
    pub(super) fn check(&mut self) -> Result<(), MeasuredError> {
        Ok(self.flows.check()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{IpAddr, Ipv4Addr};
    use std::collections::BTreeSet;
    use weft_units::Weight;

    fn settings(flows: u32, groups: Option<usize>) -> RunSettings {
        let weights = groups.map(|count| vec![Weight::ONE; count]);
        RunSettings { flows, weights, ..RunSettings::default() }
    }

    /// The five-tuples of a layout's processes.
    fn keys(layout: &FlowLayout) -> Vec<(FlowKey, usize)> {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let key =
            |sport, dport| FlowKey { src: address, dst: address, sport, dport, protocol: Protocol::TCP };
        let of_share = |(share, dport): (&Share, u16)| {
            let group = share.group;
            (0..share.flows as u16)
                .map(move |i| (key(share.first_port + i, dport), group))
                .collect::<Vec<_>>()
        };
        layout.shares.iter().zip(FIRST_PORT..).flat_map(of_share).collect()
    }

    #[test]
    fn flows_are_numbered_and_spread_over_the_processors() {
        for (flows, groups) in
            [(1, None), (3, None), (12, None), (48, None), (1024, None), (7, Some(3)), (3, Some(3))]
        {
            let layout = FlowLayout::new(&settings(flows, groups), &[0, 1]);
            let keys = keys(&layout);
            let numbers: BTreeSet<u32> = keys.iter().filter_map(|(key, _)| layout.number(key)).collect();
            assert_eq!(numbers, (0..flows).collect(), "{layout:?}");
            for (key, group) in &keys {
                let number = layout.number(key).expect("one of its flows");
                assert_eq!(number as usize % groups.unwrap_or(1), *group);
            }
            let sports: BTreeSet<u16> = keys.iter().map(|(key, _)| key.sport).collect();
            assert_eq!(sports.len(), flows as usize, "no port twice");
            assert!(sports.iter().all(|port| PORTS.contains(port)), "{sports:?}");
            assert!(layout.shares.iter().all(|share| (1..=MAX_STREAMS).contains(&share.flows)), "{layout:?}");
        }
        let layout = FlowLayout::new(&settings(12, None), &[2, 5]);
        let spread: Vec<(u32, u32)> = layout.shares.iter().map(|share| (share.cpu, share.flows)).collect();
        assert_eq!(spread, [(2, 6), (5, 6)]);
    }

    #[test]
    fn what_is_not_a_flow_has_no_number() {
        let layout = FlowLayout::new(&settings(4, None), &[0, 1]);
        let (first, _) = keys(&layout)[0];
        assert_eq!(layout.number(&first), Some(0));
        for other in [
            FlowKey { sport: 40_000, ..first },
            FlowKey { sport: first.sport - 1, ..first },
            FlowKey { sport: first.sport + 2, ..first },
            FlowKey { dport: FIRST_PORT + 2, ..first },
            FlowKey { dport: 22, ..first },
            FlowKey { protocol: Protocol::UDP, ..first },
        ] {
            assert_eq!(layout.number(&other), None, "{other:?}");
        }
    }

    #[test]
    fn ports_follow_from_the_seed() {
        let ports: BTreeSet<u16> = (0..100).map(|seed| first_port(seed, 48)).collect();
        assert!(ports.len() > 95 && ports.iter().all(|port| PORTS.contains(port)), "{ports:?}");
        assert_eq!(first_port(3, 12), first_port(3, 12));
    }
}
