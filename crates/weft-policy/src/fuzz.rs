//! The fuzz target: what must hold of any bytes that someone takes for a policy.

use crate::compile::{CompileOptions, Source, compile};
use crate::describe::{describe, to_dot};
use crate::render::render;
use crate::syntax;
use weft_sched::program::Child;
use weft_units::PacketMeta;

/// How many diagnostics of one input are drawn.
const DRAWN_MAX: usize = 4;

/// Parses, checks and, where it can be, compiles `data` as text. Panics when the tree's text is not the input, a
/// diagnostic points outside it, a policy comes with errors or without errors does not come, or a compiled policy names
/// something that it does not have.
pub fn fuzz_policy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (tree, _) = syntax::parse(&text);
    assert!(text.len() > syntax::TEXT_MAX || tree.text() == &*text, "the tree lost text");
    let compilation = compile(Source { name: "fuzz.weft", text: &text }, &CompileOptions::default());
    assert_eq!(
        compilation.policy.is_none(),
        compilation.has_errors(),
        "a policy, or an error: {compilation:?}"
    );
    for diagnostic in &compilation.diagnostics {
        let span = diagnostic.span;
        assert!(text.get(span.start..span.end).is_some(), "{span:?} is not a part of the text");
        assert!(!diagnostic.one_line().contains('\n'), "one line: {diagnostic:?}");
        assert!(diagnostic.start <= diagnostic.end, "{diagnostic:?}");
    }
    for diagnostic in compilation.diagnostics.iter().take(DRAWN_MAX) {
        assert!(render(diagnostic, &text, false).contains(diagnostic.code.as_str()));
    }
    let Some(policy) = compilation.policy else { return };
    policy.check_invariants();
    assert!(describe(&policy).contains("rules") && to_dot(&policy).ends_with("}\n"));
    policy.classify(&PacketMeta::default());
}

impl crate::CompiledPolicy {
    /// Asserts what the engine relies on: every id names something, every leaf and node has one parent, every node has
    /// two children or more, no rate is zero, and the last rule matches everything.
    pub fn check_invariants(&self) {
        let program = &self.program;
        let (mut nodes, mut leaves) = (vec![0; program.nodes.len()], vec![0; program.leaves.len()]);
        let children = program.nodes.iter().flat_map(|node| &node.children);
        for child in children.chain([&program.root]) {
            match child {
                Child::Node(id) => nodes[id.index()] += 1,
                Child::Leaf(id) => leaves[id.index()] += 1,
            }
        }
        assert!(nodes.iter().chain(&leaves).all(|parents| *parents == 1), "a tree: {program:?}");
        for node in &program.nodes {
            assert!(node.children.len() > 1, "{node:?}");
            if let weft_sched::program::Discipline::Wfq(weights) = &node.discipline {
                assert_eq!(weights.len(), node.children.len(), "{node:?}");
            }
        }
        assert!(program.limits.iter().all(|limit| limit.rate.get() > 0));
        for lane in &program.lanes {
            assert!(
                lane.class.index() < self.classes.len() && lane.leaf.index() < program.leaves.len(),
                "{lane:?}"
            );
            assert!(lane.limits.iter().all(|limit| limit.index() < program.limits.len()), "{lane:?}");
            let mut once = lane.limits.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), lane.limits.len(), "each limit at most once: {lane:?}");
        }
        assert!(self.rules.iter().all(|rule| rule.lane.index() < program.lanes.len()));
        assert!(self.rules.last().is_some_and(|rule| rule.matcher == weft_steer::Match::default()));
        assert!(self.cgroups.len() <= 64 && self.classes.last().is_some_and(|class| class.name == "default"));
    }
}
