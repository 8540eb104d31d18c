//! The interpreter and eBPF give the same order of packets: the published cases with their changes, and random policies under
//! random traffic.

use crate::trials::{Policies, corpus, read};
use proptest::prelude::*;
use std::sync::Arc;
use weft_policy::CompiledPolicy;
use weft_policy::trial::run::run_changing;
use weft_rank::ebpf::{Block, BlockSource, lower};
use weft_rank::{Algorithm, Effects, Execute, Inputs, Metadata, Metadatum, Part, Program};
use weft_sched::packets::{Dequeue, Descriptor, PacketScheduler};
use weft_units::testing::Rng;
use weft_units::{Bytes, FlowId, Instant, LaneId, Weight};

/// An algorithm as eBPF, executed in user space.
struct Lowered {
    parts: Vec<(Part, Vec<u8>)>,
}

impl Lowered {
    fn new(algorithm: &Algorithm) -> Self {
        let part = |program: &Program| (program.part(), lower(program, BlockSource::Argument));
        Self { parts: algorithm.parts.iter().map(part).collect() }
    }
}

impl Execute for Lowered {
    fn run(
        &self,
        part: Part,
        inputs: &Inputs,
        parameters: &[u64],
        node: &mut [u64],
        child: &mut [u64],
    ) -> Effects {
        let Some((_, instructions)) = self.parts.iter().find(|(of, _)| *of == part) else {
            return Effects::NONE;
        };
        let vm = rbpf::EbpfVmRaw::new(Some(instructions)).expect("rbpf accepts the program");
        let mut block = Block::new(inputs, parameters, node, child);
        assert_eq!(vm.execute_program(block.bytes_mut()).expect("no access out of bounds"), 0);
        block.state(node, child);
        block.effects()
    }
}

/// The policy with its algorithms as eBPF.
fn lowered(policy: &CompiledPolicy) -> CompiledPolicy {
    let mut policy = policy.clone();
    policy.program.run_by(|algorithm| Some(Arc::new(Lowered::new(algorithm))));
    policy
}

#[test]
fn the_published_cases_have_one_order_with_both_executors() {
    let mut count = 0;
    for path in corpus() {
        let (trials, policy, policies) = read(&path);
        let ebpf = lowered(&policy);
        let all_ebpf: Policies =
            policies.iter().map(|(path, policy)| (path.clone(), lowered(policy))).collect();
        for trial in &trials.cases {
            // `the_published_orders_hold` compares those of the interpreter with what is published.
            let expected = run_changing(trial, &policy, &policies);
            assert_eq!(run_changing(trial, &ebpf, &all_ebpf), expected, "{}", trial.name);
            // A change may also come to another executor.
            assert_eq!(run_changing(trial, &ebpf, &policies), expected, "{}", trial.name);
            count += 1;
        }
    }
    assert!(count >= 16, "{count} cases");
}

/// The algorithms over the flows of a class.
const OVER_FLOWS: [&str; 16] = [
    "edf",
    "edf budget 2us",
    "lstf slack 3us",
    "las",
    "srpt",
    "pfabric patience 4us",
    "fifo_plus",
    "drr quantum 700",
    "round_robin",
    "stfq weight 2",
    "wf2q",
    "least_slack line 1gbps",
    "strict level 3",
    "paced",
    "codel target 2us interval 5us",
    "codel target 1us interval 3us of las",
];

/// A random policy: a tree of built-in nodes and of algorithms, over classes whose flows algorithms order.
struct Text {
    rng: Rng,
    items: String,
    classes: u32,
}

impl Text {
    fn of(seed: u64) -> String {
        let mut text = Self { rng: Rng::new(seed), items: String::new(), classes: 0 };
        let depth = 1 + text.rng.below(3);
        let root = text.node(depth);
        format!("{}root = {root}\n", text.items)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.rng.below(from.len() as u32) as usize]
    }

    /// A class under an algorithm, or a node over some.
    fn child(&mut self, depth: u32) -> String {
        if depth > 0 && self.rng.below(3) > 0 {
            return self.node(depth);
        }
        let class = format!("c{}", self.classes);
        self.items += &format!("class {class} = udp dport {}\n", 1000 + self.classes);
        self.classes += 1;
        match self.rng.below(4) {
            0 => format!("fair of {class}"),
            1 => format!("bucket rate {}mbps burst 1500 of {class}", 100 + self.rng.below(900)),
            _ => format!("{} of {class}", self.pick(&OVER_FLOWS)),
        }
    }

    fn node(&mut self, depth: u32) -> String {
        let children: Vec<String> = (0..1 + self.rng.below(3)).map(|_| self.child(depth - 1)).collect();
        let kind = self.pick(&["priority", "wfq", "stfq", "wf2q", "strict", "drr", "edf", "srpt", "floors"]);
        let argued: Vec<String> = children
            .into_iter()
            .map(|child| match kind {
                "priority" | "srpt" => child,
                "wfq" | "stfq" | "wf2q" | "strict" => format!("{child}: {}", 1 + self.rng.below(5)),
                "drr" => format!("{child}: {}", 500 + self.rng.below(3000)),
                "edf" => format!("{child}: {}us", 1 + self.rng.below(9)),
                _ => format!("{child}: min {}mbps max 1gbps weight 2", 1 + self.rng.below(300)),
            })
            .collect();
        format!("{kind} {{ {} }}", argued.join(", "))
    }
}

/// The metadata that a sender may give.
pub(crate) fn metadata(rng: &mut Rng, now: u64) -> Metadata {
    let told = [
        (Metadatum::Deadline, now + u64::from(rng.below(20_000))),
        (Metadatum::Slack, u64::from(rng.below(9_000))),
        (Metadatum::Left, u64::from(rng.below(60_000))),
        (Metadatum::Late, u64::from(rng.below(5_000))),
        (Metadatum::Priority, u64::from(rng.below(8))),
        (Metadatum::SendTime, now + u64::from(rng.below(9_000))),
        (Metadatum::Pace, u64::from(rng.next_u32())),
    ];
    let known = told.into_iter().filter(|_| rng.below(2) == 0).collect::<Vec<_>>();
    known.into_iter().fold(Metadata::UNKNOWN, |metadata, (of, value)| metadata.with(of, value))
}

fn flows(scheduler: &mut PacketScheduler, lanes: usize) -> Vec<FlowId> {
    let weight = |at: usize| Weight::new([1, 2, 5][at % 3]).expect("a weight");
    let add = |at| scheduler.add_flow(LaneId::from_index(at % lanes), weight(at)).expect("a flow");
    (0..4 * lanes).map(add).collect()
}

/// Random arrivals and turns, with the same answers of both schedulers. Returns the number of packets that left.
fn compare(interpreted: &CompiledPolicy, seed: u64) -> usize {
    let ebpf = lowered(interpreted);
    let mut rng = Rng::new(seed);
    let lanes = interpreted.program.lanes.len();
    let mut one = PacketScheduler::new(&interpreted.program).expect("a program");
    let mut other = PacketScheduler::new(&ebpf.program).expect("a program");
    let ids = flows(&mut one, lanes);
    flows(&mut other, lanes);
    let (mut now, mut left) = (0, 0);
    for step in 0..400 {
        now += u64::from(rng.below(2_000));
        let at = Instant::from_nanos(now);
        if step < 300 && rng.below(5) < 3 {
            let flow = ids[rng.below(ids.len() as u32) as usize];
            let descriptor = Descriptor { len: Bytes(u64::from(64 + rng.below(9_000))), handle: step };
            let metadata = metadata(&mut rng, now);
            let admitted = one.enqueue_with(flow, descriptor, &metadata, at);
            assert_eq!(admitted, other.enqueue_with(flow, descriptor, &metadata, at));
        } else {
            let turn = one.dequeue(at);
            assert_eq!(turn, other.dequeue(at), "step {step}");
            assert_eq!(one.marked(), other.marked(), "step {step}");
            left += usize::from(matches!(turn, Dequeue::Packet(_)));
        }
    }
    left
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_policies_have_one_order_with_both_executors(seed in any::<u64>()) {
        let text = Text::of(seed);
        let compilation = crate::common::compiled(&text);
        let Some(policy) = compilation.policy else {
            panic!("{text}{:?}", compilation.diagnostics);
        };
        prop_assert!(compare(&policy, seed) > 0, "{}", text);
    }
}
