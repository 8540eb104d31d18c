//! Random valid scenarios in which every field differs from its default.

use std::collections::BTreeMap;
use weft_sim::cost::{Contention, Costs};
use weft_sim::scenario::{
    ByteQueueLimit, DoorbellWrites, FlowGroup, FlowTraffic, HostSpec, NetworkSpec, NicSpec, PolicyChange,
    ProbeSpec, QdiscKind, ReceiveSteering, Scenario, SchedulerKind, StackSpec, SwitchSpec, Topology,
};
use weft_sim::{assignment, congestion};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// SplitMix64: small, seeded, equal on all platforms.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// Returns a number from `low` to `high`, of any magnitude in between, often round.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        let any = self.next() >> self.below(64);
        let round = [1, 1000, 1024, 1_000_000, 1 << 20, 1_000_000_000, 1 << 30][self.below(7)];
        let value = if self.flag() { any } else { (any % 1000).saturating_mul(round) };
        let span = high.wrapping_sub(low).wrapping_add(1);
        if (low..=high).contains(&value) || span == 0 { value } else { low + value % span }
    }

    fn count(&mut self, low: u32, high: u32) -> u32 {
        self.between(u64::from(low), u64::from(high)) as u32
    }

    fn flag(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }

    fn size(&mut self, low: u64) -> Bytes {
        Bytes(self.between(low, u64::MAX))
    }

    fn rate(&mut self) -> BitsPerSec {
        BitsPerSec(self.between(1, u64::MAX))
    }

    fn time(&mut self, low: u64) -> Nanos {
        // The maximum means "never".
        Nanos(self.between(low, u64::MAX - 1))
    }

    fn share(&mut self) -> f64 {
        self.next() as f64 / 2_f64.powi(64) * [1.0, 1e-3, 1e-9, 0.0][self.below(4)] * 0.999
    }

    fn off<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let on = self.flag();
        on.then(|| value(self))
    }

    fn list<T>(&mut self, least: usize, mut value: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let length = least + self.below(4);
        (0..length).map(|_| value(self)).collect()
    }

    fn name(&mut self) -> String {
        const LETTERS: [char; 12] = ['a', 'Z', '0', ' ', '"', '\'', '\\', '#', '=', 'ß', '[', '流'];
        self.list(1, |random| LETTERS[random.below(LETTERS.len())]).into_iter().collect()
    }

    fn text(&mut self) -> String {
        const PIECES: [&str; 8] =
            ["class a = any\n", "\"\"\"", "'''", "\\", "\t", "\r\n", "\n", "root = fifo { a }"];
        format!("#{}", self.list(1, |random| PIECES[random.below(PIECES.len())]).concat())
    }
}

pub(super) fn scenario(random: &mut Random) -> Scenario {
    let hosts = hosts(random);
    let classes: Vec<String> =
        random.list(1, Random::name).into_iter().enumerate().map(|(i, name)| format!("{name}{i}")).collect();
    let topology = topology(random, hosts.len() as u32);
    let files: BTreeMap<String, String> =
        random.list(1, |random| (random.name(), random.text())).into_iter().collect();
    let mut hosts = hosts;
    hosts.iter_mut().for_each(|host| take_file(random, host, &files));
    Scenario {
        changes: changes(random, &hosts, &files),
        name: random.name(),
        seed: random.next(),
        warm_up: random.time(0),
        duration: random.time(1),
        fairness_intervals: random.list(0, |random| random.time(1)),
        sample_interval: random.time(1),
        network: NetworkSpec {
            topology,
            rate: random.rate(),
            delay: random.time(0),
            trunk_rate: random.rate(),
            switch: SwitchSpec {
                buffer: random.size(1),
                alpha: random.share() * 100.0 + 1e-12,
                ecn_threshold: random.off(|random| random.size(1)),
            },
            loss: random.share(),
        },
        flows: random.list(1, |random| flows(random, &hosts, classes.len())),
        probes: random.list(0, |random| probe(random, &hosts, classes.len())),
        hosts,
        classes,
        files,
        costs: if random.flag() { Costs::FREE } else { costs(random) },
    }
}

/// Has some policies in files.
fn take_file(random: &mut Random, host: &mut HostSpec, files: &BTreeMap<String, String>) {
    if random.flag()
        && host.stack.policy.take().is_some()
        && let Some(path) = files.keys().nth(random.below(files.len()))
    {
        host.stack.policy_file = Some(path.clone());
    }
}

/// Changes of the policies of hosts that have one.
fn changes(random: &mut Random, hosts: &[HostSpec], files: &BTreeMap<String, String>) -> Vec<PolicyChange> {
    let with_tree = (0..).zip(hosts).filter(|(_, host)| host.nic.scheduler == SchedulerKind::PolicyTree);
    let with_tree: Vec<u32> = with_tree.map(|(index, _)| index).collect();
    let mut all = Vec::new();
    for host in with_tree {
        let path = files.keys().nth(random.below(files.len())).cloned();
        let mut change = PolicyChange { at: random.time(0), host, ..PolicyChange::default() };
        match random.below(3) {
            0 => change.policy = Some(random.text()),
            1 => change.policy_file = path,
            _ => (change.tenant, change.file) = (Some(random.name()), path.filter(|_| random.flag())),
        }
        all.push(change);
    }
    all
}

fn topology(random: &mut Random, hosts: u32) -> Topology {
    match random.below(4) {
        0 if hosts == 2 => Topology::BackToBack,
        1 => Topology::Dumbbell { left: random.count(1, hosts) },
        2 => Topology::LeafSpine { leaves: random.count(1, hosts), spines: random.count(1, 10_000) },
        _ => Topology::Star,
    }
}

/// Some runs of equal hosts.
fn hosts(random: &mut Random) -> Vec<HostSpec> {
    let mut hosts = random.list(1, |random| {
        let one = host(random);
        vec![one; 1 + random.below(3)]
    });
    if hosts.iter().flatten().count() < 2 {
        hosts.push(vec![host(random)]);
    }
    hosts.concat()
}

fn host(random: &mut Random) -> HostSpec {
    let cores = random.count(1, 8192);
    let stack = stack(random);
    let nic = nic(random, &stack);
    HostSpec { cores, numa_nodes: random.count(1, cores), stack, nic }
}

fn stack(random: &mut Random) -> StackSpec {
    let mtu = random.between(576, 65_535);
    let gso = random.between(mtu, 524_280);
    let quantum = random.size(1);
    StackSpec {
        congestion_control: congestion::NAMES[random.below(congestion::NAMES.len())].to_owned(),
        mtu: Bytes(mtu),
        gso: Bytes(gso),
        tso: random.flag(),
        gro: random.flag(),
        gro_flows: random.count(1, 1000),
        small_queue: random.off(|random| random.size(1)),
        small_queue_floor: random.flag(),
        dynamic_segment: random.off(|random| Bytes(random.between(mtu, gso))),
        transmit_batching: random.flag(),
        send_buffer: random.size(1),
        receive_window: random.size(mtu),
        write_size: random.size(1),
        qdisc: match random.below(6) {
            0 => QdiscKind::PfifoFast,
            1 => QdiscKind::PrioSfq { quantum },
            2 => QdiscKind::FqCodel,
            3 => QdiscKind::Htb { rate: random.rate() },
            4 => QdiscKind::Tbf { rate: random.rate(), burst: random.size(1) },
            _ => QdiscKind::DrrPrioSfq { quantum },
        },
        byte_queue_limit: match random.below(3) {
            0 => ByteQueueLimit::Off,
            1 => ByteQueueLimit::Fixed(random.size(1)),
            _ => ByteQueueLimit::Dynamic,
        },
        queue_assignment: assignment::NAMES[random.below(assignment::NAMES.len())].to_owned(),
        xps: random.flag(),
        policy: random.off(Random::text),
        policy_file: None,
    }
}

fn nic(random: &mut Random, stack: &StackSpec) -> NicSpec {
    NicSpec {
        transmit_queues: random.count(0, 65_535),
        receive_queues: random.count(1, 65_535),
        transmit_ring: random.count(1, 1 << 20),
        receive_ring: random.count(1, 1 << 20),
        scheduler: match random.below(4) {
            0 if stack.policy.is_some() => SchedulerKind::PolicyTree,
            1 => SchedulerKind::Deficit { quantum: random.size(1) },
            2 => SchedulerKind::Dcb { classes: random.count(1, 255), strict: random.flag() },
            _ => SchedulerKind::RoundRobin,
        },
        interleaving: random.flag(),
        segmentation: random.flag(),
        transmit_buffer: random.size(stack.mtu.0),
        queue_weights: random.flag(),
        weight_delay: random.time(0),
        weight_interval: random.time(0),
        interrupt_interval: random.time(0),
        pinned_interrupts: random.flag(),
        receive_steering: [
            ReceiveSteering::Rss,
            ReceiveSteering::ToTransmitQueue,
            ReceiveSteering::ToApplication,
            ReceiveSteering::AwayFromApplication,
        ][random.below(4)],
        doorbells: [
            DoorbellWrites::None,
            DoorbellWrites::PerBatch,
            DoorbellWrites::PerFlow,
            DoorbellWrites::PerSkb,
        ][random.below(4)],
    }
}

/// Two different hosts.
fn ends(random: &mut Random, hosts: &[HostSpec]) -> (u32, u32) {
    let from = random.below(hosts.len());
    let to = (from + 1 + random.below(hosts.len() - 1)) % hosts.len();
    (from as u32, to as u32)
}

fn flows(random: &mut Random, hosts: &[HostSpec], classes: usize) -> FlowGroup {
    let (from, to) = ends(random, hosts);
    let (sender, receiver) = (hosts[from as usize].cores, hosts[to as usize].cores);
    let start = random.time(0);
    FlowGroup {
        name: random.name(),
        count: random.count(1, 1_000_000),
        from,
        to,
        traffic: traffic(random),
        class: random.below(classes) as u16,
        band: random.below(16) as u8,
        traffic_class: random.off(|random| random.count(0, 254)),
        weight: random.count(1, u32::MAX),
        cores: random.list(0, |random| random.count(0, sender - 1)),
        receiver_cores: random.list(0, |random| random.count(0, receiver - 1)),
        pinned: random.flag(),
        start,
        start_spread: random.time(0),
        stop: random.off(|random| Nanos(random.between(start.0 + 1, u64::MAX))).unwrap_or(Nanos::MAX),
    }
}

fn traffic(random: &mut Random) -> FlowTraffic {
    match random.below(5) {
        0 => FlowTraffic::Bulk,
        1 => FlowTraffic::Transfer { size: random.size(1) },
        2 => FlowTraffic::RequestResponse {
            request: random.size(1),
            response: random.size(1),
            outstanding: random.count(1, 1_000_000),
            think: random.time(0),
        },
        3 => FlowTraffic::Short { size: random.size(1), interval: random.time(1) },
        _ => FlowTraffic::Udp {
            size: Bytes(random.between(1, 65_507)),
            rate: random.rate(),
            poisson: random.flag(),
        },
    }
}

fn probe(random: &mut Random, hosts: &[HostSpec], classes: usize) -> ProbeSpec {
    let (from, to) = ends(random, hosts);
    let cores = hosts[from as usize].cores;
    ProbeSpec {
        name: random.name(),
        from,
        to,
        size: Bytes(random.between(1, 65_507)),
        interval: random.time(1),
        closed_loop: random.flag(),
        in_kernel: random.flag(),
        class: random.below(classes) as u16,
        band: random.below(16) as u8,
        core: random.off(|random| random.count(0, cores - 1)),
    }
}

fn costs(random: &mut Random) -> Costs {
    let miss_base = random.share();
    let mut costs = Costs {
        contention: Contention {
            lock_transfer_ns: random.share() * 1e3,
            socket_transfer_ns: random.share() * 1e3,
            miss_base,
            miss_per_flow: random.share(),
            miss_max: miss_base + (1.0 - miss_base) * random.share(),
            miss_factor: 1.0 + random.share(),
            numa_factor: 1.0 + random.share(),
            interrupt_latency_ns: 1000.0 * random.share(),
        },
        ..Costs::FREE
    };
    for cell in costs.table.as_flattened_mut() {
        *cell = random.share() * 1e5;
    }
    costs
}
