//! The keys of a scenario file's tables. A new field of a scenario is a line here and a row in docs/scenario-files.md.

use super::choices::{self, Core, Limit, Load, Qdisc, Queues, Rung, Scheduler, Shape, Steering, Stop};
use super::config::{
    FlowGroup, HostSpec, NetworkSpec, NicSpec, PolicyChange, ProbeSpec, Scenario, StackSpec, SwitchSpec,
};
use super::keys::{Context, Key, keys};
use super::kinds::{
    Assignment, Class, CongestionControl, Count, Factor, Flag, ListOf, Name, OrOff, Probability, Rate, Size,
    Text, Time,
};
use crate::cost::Costs;

/// The range of MTUs: the least that every IPv4 host must accept (RFC 791), and the limit of the length field.
type Mtu = Size<576, 65_535>;
/// The maximum size of a segment: GSO_MAX_SIZE of the kernel.
type Gso = Size<576, 524_280>;
/// Priority bands of `sch_prio` (TCQ_PRIO_BANDS and the map of TC_PRIO_MAX + 1).
type Band = Count<u8, 0, 15>;
/// Number of descriptors of a ring. Hardware has at most some thousands; this bounds memory.
type Ring = Count<u32, 1, 1_048_576>;
/// Hosts, by index.
type HostIndex = Count<u32, 0, 0xffff_ffff>;

/// The maximum number of cores of a host (CONFIG_NR_CPUS allows 8192 on x86-64).
pub(super) const CORES_MAX: u64 = 8192;
/// The maximum number of hosts; bounds memory.
pub(super) const HOSTS_MAX: u64 = 10_000;
/// The maximum number of flows of a group; bounds memory.
const FLOWS_MAX: u64 = 1_000_000;

/// Keys of the file's head that are tables or lists of tables.
pub(super) const HEAD_ALSO: &[&str] =
    &["costs", "network", "host", "hosts", "flows", "probes", "changes", "files", "source"];
/// Keys of `[network]` that are tables.
pub(super) const NETWORK_ALSO: &[&str] = &["switch"];
/// Keys of `[host]` that are tables.
pub(super) const HOST_ALSO: &[&str] = &["stack", "nic"];
/// Keys of `[[hosts]]` beyond those of `[host]`.
pub(super) const HOSTS_ALSO: &[&str] = &["stack", "nic", "index", "count"];

keys! {
    /// The keys of the file's head. The classes come first, since other values refer to them.
    HEAD of Scenario {
        name: Name,
        seed: Count<u64, 0, { u64::MAX }>,
        warm_up: Time<0>,
        duration: Time<1>,
        fairness_intervals: ListOf<Time<1>>,
        sample_interval: Time<1>,
        classes: ListOf<Name>,
    }
}

keys! {
    /// The keys of `[network]`.
    NETWORK of NetworkSpec {
        topology: Shape,
        rate: Rate,
        delay: Time<0>,
        trunk_rate: Rate,
        loss: Probability,
    }
}

keys! {
    /// The keys of `[network.switch]`.
    SWITCH of SwitchSpec {
        buffer: Size<1>,
        alpha: Factor,
        ecn_threshold: OrOff<Size<1>>,
    }
}

keys! {
    /// The keys of `[host]` and `[[hosts]]`.
    HOST of HostSpec {
        cores: Count<u32, 1, CORES_MAX>,
        numa_nodes: Count<u32, 1, CORES_MAX>,
    }
}

keys! {
    /// The keys of `[host.stack]`.
    STACK of StackSpec {
        congestion_control: CongestionControl,
        mtu: Mtu,
        gso: Gso,
        tso: Flag,
        gro: Flag,
        gro_flows: Count<u32, 1, 65_536>,
        small_queue: OrOff<Size<1>>,
        small_queue_floor: Flag,
        dynamic_segment: OrOff<Size<1>>,
        transmit_batching: Flag,
        send_buffer: Size<1>,
        receive_window: Size<1>,
        write_size: Size<1>,
        qdisc: Qdisc,
        byte_queue_limit as "bql": Limit,
        queue_assignment: Assignment,
        xps: Flag,
        policy: OrOff<Text>,
        policy_file: OrOff<Name>,
    }
}

keys! {
    /// The keys of `[host.nic]`.
    NIC of NicSpec {
        transmit_queues: Queues,
        receive_queues: Count<u32, 1, 65_535>,
        transmit_ring: Ring,
        receive_ring: Ring,
        scheduler: Scheduler,
        interleaving: Flag,
        segmentation: Flag,
        transmit_buffer: Size<1>,
        queue_weights: Flag,
        weight_delay: Time<0>,
        weight_interval: Time<0>,
        interrupt_interval: Time<0>,
        pinned_interrupts: Flag,
        receive_steering: Steering,
        doorbells: Rung,
    }
}

keys! {
    /// The keys of `[[flows]]`.
    FLOWS of FlowGroup {
        name: Name,
        count: Count<u32, 1, FLOWS_MAX>,
        from: HostIndex,
        to: HostIndex,
        traffic: Load,
        class: Class,
        band: Band,
        // Limited by the classes of the NIC's scheduler `dcb`.
        traffic_class: OrOff<Count<u32, 0, 254>>,
        weight: Count<u32, 1, 0xffff_ffff>,
        cores: ListOf<Count<u32, 0, CORES_MAX>>,
        receiver_cores: ListOf<Count<u32, 0, CORES_MAX>>,
        pinned: Flag,
        start: Time<0>,
        start_spread: Time<0>,
        stop: Stop,
    }
}

keys! {
    /// The keys of `[[probes]]`.
    PROBES of ProbeSpec {
        name: Name,
        from: HostIndex,
        to: HostIndex,
        // The maximum of a datagram, as for `udp`.
        size: Size<1, 65_507>,
        interval: Time<1>,
        closed_loop: Flag,
        in_kernel: Flag,
        class: Class,
        band: Band,
        core: Core,
    }
}

keys! {
    /// The keys of `[[changes]]`.
    CHANGES of PolicyChange {
        at: Time<0>,
        host: HostIndex,
        policy: OrOff<Text>,
        policy_file: OrOff<Name>,
        tenant: OrOff<Name>,
        file: OrOff<Name>,
    }
}

/// A key known to the reader, for the check of the documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownKey {
    /// Its table, such as `network` or `host.stack`, or its choice, such as `udp`; empty for the file's head.
    pub table: &'static str,
    /// The key.
    pub key: &'static str,
    /// Its default in the file's syntax, or a description of the default.
    pub default: String,
}

/// Returns all keys known to the reader.
pub fn known_keys() -> Vec<KnownKey> {
    fn of<T>(table: &'static str, keys: &'static [Key<T>], value: &T) -> Vec<KnownKey> {
        let classes = [super::defaults::CLASS.to_owned()];
        let context = Context { classes: &classes };
        let default = |key: &Key<T>| match (table, key.name) {
            ("", "name") => "the file's name".to_owned(),
            ("flows", "name") => "`flows-0`, by position".to_owned(),
            ("probes", "name") => "`probes-0`, by position".to_owned(),
            ("network", "trunk_rate") => "as `rate`".to_owned(),
            ("flows" | "probes", "class") => "the first".to_owned(),
            _ => (key.write)(value, context),
        };
        keys.iter().map(|key| KnownKey { table, key: key.name, default: default(key) }).collect()
    }
    let named = |table, keys: &[&'static str], default: &str| -> Vec<KnownKey> {
        keys.iter().map(|key| KnownKey { table, key, default: default.to_owned() }).collect()
    };
    let choices = choices::reference(Context { classes: &[] });
    let (host, network) = (HostSpec::default(), NetworkSpec::default());
    let contention = super::costs::contention_keys().into_iter();
    [
        of("", HEAD, &Scenario::default()),
        named("", &["costs"], &super::costs::show(&Costs::FREE)),
        named("", &["hosts"], &super::defaults::HOSTS.to_string()),
        of("network", NETWORK, &network),
        of("network.switch", SWITCH, &network.switch),
        of("host", HOST, &host),
        of("host.stack", STACK, &host.stack),
        of("host.nic", NIC, &host.nic),
        named("hosts", &["index"], "the next"),
        named("hosts", &["count"], "1"),
        of("flows", FLOWS, &FlowGroup::default()),
        of("probes", PROBES, &ProbeSpec::default()),
        of("changes", CHANGES, &PolicyChange::default()),
        contention.map(|(key, default)| KnownKey { table: "contention", key, default }).collect(),
        vec![KnownKey { table: "processor", key: "factor", default: "1.0".to_owned() }],
        choices.into_iter().map(|(table, key, default)| KnownKey { table, key, default }).collect(),
    ]
    .concat()
}
