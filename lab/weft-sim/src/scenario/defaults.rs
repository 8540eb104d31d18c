//! The defaults of a scenario: today's Linux, a NIC of eight queues at 10 Gb/s, one flow between two hosts.

use super::config::{
    ByteQueueLimit, DoorbellWrites, FlowGroup, FlowTraffic, HostSpec, NetworkSpec, NicSpec, ProbeSpec,
    QdiscKind, ReceiveSteering, Scenario, SchedulerKind, StackSpec, SwitchSpec, Topology,
};
use crate::cost::Costs;
use std::collections::BTreeMap;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The class of scenarios without classes.
pub(super) const CLASS: &str = "default";
/// The default number of hosts.
pub(super) const HOSTS: usize = 2;
/// The band of best-effort traffic: `prio2band` of `sch_prio` and `pfifo_fast` maps `TC_PRIO_BESTEFFORT` to the middle one.
const BAND: u8 = 1;

impl Default for Scenario {
    /// Returns two hosts without flows.
    fn default() -> Self {
        Self {
            name: "scenario".to_owned(),
            seed: 1,
            warm_up: Nanos::from_millis(200),
            duration: Nanos::from_secs(1),
            // The shortest and the longest interval in Titan's figures of fairness.
            fairness_intervals: vec![Nanos::from_millis(1), Nanos::from_secs(1)],
            sample_interval: Nanos::from_millis(10),
            network: NetworkSpec::default(),
            hosts: vec![HostSpec::default(); HOSTS],
            classes: vec![CLASS.to_owned()],
            flows: Vec::new(),
            probes: Vec::new(),
            changes: Vec::new(),
            files: BTreeMap::new(),
            costs: Costs::FREE,
        }
    }
}

impl Default for NetworkSpec {
    fn default() -> Self {
        let rate = BitsPerSec(10_000_000_000);
        Self {
            topology: Topology::BackToBack,
            rate,
            // A choice: a short cable (5 ns per metre) and the latency of the PHYs at both ends.
            delay: Nanos::from_micros(1),
            trunk_rate: rate,
            switch: SwitchSpec::default(),
            loss: 0.0,
        }
    }
}

impl Default for SwitchSpec {
    fn default() -> Self {
        Self {
            // The shared buffer of the shallow-buffered switches of the DCTCP paper (SIGCOMM 2010, Table 1).
            buffer: Bytes(4_000_000),
            // A choice: a lone congested port gets half of the buffer (Choudhury and Hahne 1998).
            alpha: 1.0,
            ecn_threshold: None,
        }
    }
}

impl Default for HostSpec {
    fn default() -> Self {
        // A choice: a core per queue of the NIC.
        Self { cores: 8, numa_nodes: 1, stack: StackSpec::default(), nic: NicSpec::default() }
    }
}

impl Default for StackSpec {
    fn default() -> Self {
        Self {
            // CONFIG_DEFAULT_TCP_CONG.
            congestion_control: "cubic".to_owned(),
            // ETH_DATA_LEN.
            mtu: Bytes(1500),
            // GSO_LEGACY_MAX_SIZE, the initial dev->gso_max_size.
            gso: Bytes(65_536),
            tso: true,
            gro: true,
            // 8 buckets (GRO_HASH_BUCKETS) of MAX_GRO_SKBS.
            gro_flows: 64,
            // tcp_limit_output_bytes of Linux 4.4, the kernel of the Titan and Loom papers. It is 1 MiB from 5.0 on, and larger
            // in later kernels.
            small_queue: Some(Bytes(256 << 10)),
            small_queue_floor: true,
            dynamic_segment: None,
            transmit_batching: false,
            // tcp_wmem[2].
            send_buffer: Bytes(4 << 20),
            // Half of tcp_rmem[2], which is 6 MiB (tcp_adv_win_scale = 1).
            receive_window: Bytes(3 << 20),
            // The block size of iperf3 (DEFAULT_TCP_BLKSIZE).
            write_size: Bytes(128 << 10),
            // default_qdisc_ops of net/sched/sch_generic.c.
            qdisc: QdiscKind::PfifoFast,
            // CONFIG_BQL.
            byte_queue_limit: ByteQueueLimit::Dynamic,
            // skb_tx_hash.
            queue_assignment: "hash".to_owned(),
            // ixgbe and mlx5 configure it at their start (netif_set_xps_queue).
            xps: true,
            policy: None,
            policy_file: None,
        }
    }
}

impl Default for NicSpec {
    fn default() -> Self {
        Self {
            transmit_queues: 8,
            receive_queues: 8,
            // IXGBE_DEFAULT_TXD and IXGBE_DEFAULT_RXD.
            transmit_ring: 512,
            receive_ring: 512,
            scheduler: SchedulerKind::RoundRobin,
            // Intel 82599 datasheet, section 1: TSO interleaving.
            interleaving: true,
            // Intel 82599 datasheet, section 1: TCP segmentation offload.
            segmentation: true,
            // The same section: 160 KB of transmit packet buffer.
            transmit_buffer: Bytes(160 << 10),
            queue_weights: false,
            // A choice: a posted write over PCIe.
            weight_delay: Nanos::from_micros(1),
            weight_interval: Nanos::ZERO,
            // IXGBE_20K_ITR.
            interrupt_interval: Nanos::from_micros(50),
            // irq_set_affinity_hint, by drivers of multiqueue NICs.
            pinned_interrupts: true,
            // ETHTOOL_SRXFH's indirection table.
            receive_steering: ReceiveSteering::Rss,
            // netdev_xmit_more, by drivers of multiqueue NICs.
            doorbells: DoorbellWrites::PerBatch,
        }
    }
}

impl Default for FlowGroup {
    /// Returns one bulk flow from host 0 to host 1, without a name.
    fn default() -> Self {
        Self {
            name: String::new(),
            count: 1,
            from: 0,
            to: 1,
            traffic: FlowTraffic::Bulk,
            class: 0,
            band: BAND,
            traffic_class: None,
            weight: 1,
            cores: Vec::new(),
            receiver_cores: Vec::new(),
            pinned: false,
            start: Nanos::ZERO,
            start_spread: Nanos::ZERO,
            stop: Nanos::MAX,
        }
    }
}

impl Default for ProbeSpec {
    /// Returns a ping per millisecond from host 0 to host 1, without a name.
    fn default() -> Self {
        Self {
            name: String::new(),
            from: 0,
            to: 1,
            // The default of ping: 56 bytes and 8 of ICMP header.
            size: Bytes(64),
            interval: Nanos::from_millis(1),
            closed_loop: false,
            in_kernel: true,
            class: 0,
            band: BAND,
            core: None,
        }
    }
}
