//! A test of the lanes' limits against their definition: random limits in series, side by side and nested, and a walk
//! for each single packet.

use super::build;
use super::graph::{Graph, Kind};
use super::shape::Shape;
use crate::code::Code;
use crate::compile::{CompileOptions, Source, compile};
use crate::{lowering, program, syntax};
use core::net::{IpAddr, Ipv4Addr};
use proptest::prelude::*;
use std::fmt::Write;
use weft_text::LineIndex;
use weft_units::{ClassId, FlowKey, PacketMeta, Protocol};

const PREFIXES: &[&str] = &[
    "10.0.0.0/29",
    "10.0.0.0/30",
    "10.0.0.4/30",
    "10.0.0.0/31",
    "10.0.0.2/31",
    "10.0.0.1",
    "10.0.0.6",
    "::/0",
];

const PORTS: &[&str] = &["p1", "p2", "p3"];

/// Limits on everything below them.
#[derive(Clone, Debug)]
enum Layer {
    /// `limit by destination` of these prefixes.
    Set(Vec<&'static str>),
    /// `limit by port` of these names.
    Ports(Vec<&'static str>),
    /// Limits side by side, with further layers on each, joined by a FIFO.
    Parallel(Vec<(&'static str, Vec<Layer>)>),
}

fn some_layers() -> impl Strategy<Value = Vec<Layer>> {
    let set = proptest::sample::subsequence(PREFIXES, 1..=4).prop_map(Layer::Set);
    let ports = proptest::sample::subsequence(PORTS, 1..=2).prop_map(Layer::Ports);
    let layer = prop_oneof![2 => set, 1 => ports].prop_recursive(3, 12, 3, |inner| {
        let on_branch = proptest::collection::vec(proptest::collection::vec(inner, 0..2), 3);
        (proptest::sample::subsequence(PREFIXES, 1..=3), any::<bool>(), on_branch).prop_map(
            |(mut prefixes, everywhere, on_branch)| {
                if everywhere {
                    prefixes[0] = "";
                }
                Layer::Parallel(prefixes.into_iter().zip(on_branch).collect())
            },
        )
    });
    proptest::collection::vec(layer, 1..3)
}

/// A policy's text. Every limit has a distinct rate, which identifies it in the result.
#[derive(Default)]
struct Text {
    text: String,
    count: usize,
}

impl Text {
    fn next(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    /// Adds `layers` above the node `base`; returns the name of the topmost node.
    fn layers(&mut self, base: &str, layers: &[Layer]) -> String {
        layers.iter().fold(base.to_owned(), |below, layer| match layer {
            Layer::Set(prefixes) => {
                let parts: Vec<String> =
                    prefixes.iter().map(|p| format!("{p}: {}kbps", self.next())).collect();
                let name = format!("set{}", self.next());
                writeln!(self.text, "{name} = limit by destination {{ {} }} of {below}", parts.join(", "))
                    .expect("a string takes all");
                name
            }
            Layer::Ports(names) => {
                let parts: Vec<String> =
                    names.iter().map(|port| format!("\"{port}\": {}kbps", self.next())).collect();
                let name = format!("ports{}", self.next());
                writeln!(self.text, "{name} = limit by port {{ {} }} of {below}", parts.join(", "))
                    .expect("a string takes all");
                name
            }
            Layer::Parallel(branches) => {
                let mut tops: Vec<String> =
                    branches.iter().map(|(prefix, above)| self.branch(&below, prefix, above)).collect();
                if branches.len() == 1 {
                    // Side by side with limits of a port.
                    tops.push(self.layers(&below, &[Layer::Ports(vec![PORTS[0], PORTS[2]])]));
                }
                let name = format!("join{}", self.next());
                writeln!(self.text, "{name} = fifo {{ {} }}", tops.join(", ")).expect("a string takes all");
                name
            }
        })
    }

    fn branch(&mut self, below: &str, prefix: &str, above: &[Layer]) -> String {
        let number = self.next();
        let to = if prefix.is_empty() { String::new() } else { format!("to {prefix} ") };
        writeln!(self.text, "d{number} = limit {number}kbps {to}of {below}").expect("a string takes all");
        self.layers(&format!("d{number}"), above)
    }
}

/// The rates that a packet of class 0 to `dst` at `port` passes, by definition: at each node the limit of the port applies, or
/// else that with the longest prefix.
fn rates_met(graph: &Graph, shape: &Shape, dst: IpAddr, port: u16) -> Vec<u64> {
    let mut rates = Vec::new();
    let mut at = 0;
    while let Some(first) = shape.parents[at].first().copied() {
        let mut best: Option<(i16, usize, u64)> = None;
        for parent in &shape.parents[at] {
            let Kind::Limit(branches) = &graph.nodes[*parent].kind else { continue };
            for branch in branches {
                let mut length = branch.of.to.map_or(-1, |prefix| i16::from(prefix.len));
                length += if branch.of.port.is_some() { 1000 } else { 0 };
                let holds = branch.of.to.is_none_or(|prefix| prefix.contains(dst))
                    && branch.of.port.is_none_or(|of| of == port);
                if holds && best.is_none_or(|(longest, ..)| length > longest) {
                    best = Some((length, *parent, branch.rate.get()));
                }
            }
        }
        at = match best {
            Some((_, parent, rate)) => {
                rates.push(rate);
                parent
            }
            None if shape.parents[at].len() > 1 => shape.join(at),
            None => first,
        };
    }
    rates.sort_unstable();
    rates
}

fn check(layers: &[Layer], scheduled: bool) -> Result<(), TestCaseError> {
    let mut text = Text::default();
    text.text.push_str("class a = any\nclass b = udp\n");
    if scheduled {
        text.text.push_str("apps = priority { a, b }\n");
    } else {
        text.text.push_str("apps = fifo { a, b }\n");
    }
    let top = text.layers("apps", layers);
    let text = text.text + &format!("root = {top}\n");
    let compilation = compile(Source { name: "p", text: &text }, &CompileOptions::default());
    let Some(compiled) = compilation.policy else {
        let errors: Vec<_> = compilation.diagnostics.iter().filter(|d| d.is_error()).collect();
        prop_assert!(errors.iter().all(|d| d.code == Code::TooManyRows), "{errors:?} in {text}");
        return Err(TestCaseError::reject("too many rows"));
    };
    compiled.check_invariants();
    let mut policy = lowering::lower(&syntax::parse(&text).0, &[], None).0;
    let (mut graph, _) = build::build(&mut policy, true, &LineIndex::new(&text));
    program::place_default(&mut graph, &policy.uses);
    let shape = Shape::new(&graph, graph.root.unwrap_or_default());
    for (low, port) in (0..10).flat_map(|low| (0..4).map(move |port| (low, port))) {
        let dst = IpAddr::V4(Ipv4Addr::new(10, 0, 0, low));
        let key = FlowKey { src: dst, dst, sport: 1, dport: 1, protocol: Protocol::TCP };
        let lane = compiled.classify(&PacketMeta { key: Some(key), port, ..PacketMeta::default() });
        // The first match is also the longest; a port finds it by that.
        let here = compiled.destinations_at(ClassId(0), port);
        let holds = |row: &&crate::Destination| row.to.is_none_or(|to| to.contains(dst));
        let longest = here.iter().filter(holds).max_by_key(|row| row.to.map(|to| to.len));
        prop_assert_eq!(longest.map(|row| row.lane), Some(lane), "to {} at {} in {}", dst, port, text);
        prop_assert!(compiled.lanes_at(port)[lane.index()], "lane {} at {} in {}", lane, port, text);
        let lane = &compiled.program.lanes[lane.index()];
        prop_assert_eq!(lane.class.index(), 0);
        let rate = |limit: &weft_units::LimitId| compiled.program.limits[limit.index()].rate.get();
        let mut rates: Vec<u64> = lane.limits.iter().map(rate).collect();
        rates.sort_unstable();
        prop_assert_eq!(rates, rates_met(&graph, &shape, dst, port), "to {} at {} in {}", dst, port, text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 4096, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn lanes_pass_the_limits_that_each_packet_meets(layers in some_layers(), scheduled in any::<bool>()) {
        check(&layers, scheduled)?;
    }
}
