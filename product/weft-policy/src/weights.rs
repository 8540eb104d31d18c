//! The weights of a policy's classes as weights of single flows, for Titan.
//!
//! A class's share of the link is the product of its parts along the tree: at a `wfq` node, its weight over the sum of the weights of the
//! node's children. Elsewhere each child has the share of the whole node, since it has it when it sends alone. The weights are the
//! smallest whole numbers in the proportion of the shares. If the largest would exceed the bound, it becomes the bound, and the others
//! are rounded to the nearest number, but at least 1.

use crate::code::Code;
use crate::compile::{Compilation, CompileOptions, Source, compile_with, parse};
use crate::compiled::CompiledPolicy;
use crate::diagnostic::{Diagnostic, SpannedDiagnostic};
use crate::files::TenantFiles;
use crate::syntax::{SyntaxKind, SyntaxNode};
use crate::words::of_discipline;
use std::collections::BTreeSet;
use weft_sched::program::{Child, Discipline};
use weft_text::{LineIndex, Span, quoted};
use weft_units::Weight;

/// A policy with the weights of flows of its classes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weighed {
    /// The policy.
    pub policy: CompiledPolicy,
    /// The weight of a flow of each class; `ClassId` indexes them.
    pub weights: Vec<Weight>,
    /// The parts of the policy that weights of flows do not express, one line each.
    pub lost: Vec<String>,
}

/// Compiles a policy with the files of its tenants, for Titan: a class that Titan cannot match is an error. The weights are at most
/// `most`.
pub fn weigh(
    source: Source<'_>,
    files: &dyn TenantFiles,
    options: &CompileOptions,
    most: Weight,
) -> (Option<Weighed>, Compilation) {
    let mut compilation = compile_with(source, files, options);
    let policy = compilation.policy.take();
    let mut found = not_matched(source, Place::Operator);
    let mut seen = BTreeSet::new();
    for file in compilation.tenants.iter().filter_map(|tenant| tenant.file.as_ref()) {
        if seen.insert(&file.name) {
            found.extend(not_matched(Source { name: &file.name, text: &file.text }, Place::Tenant));
        }
    }
    let matched = found.is_empty();
    compilation.diagnostics.extend(found);
    let weighed = policy.filter(|_| matched).map(|policy| {
        let (shares, lost) = shares(&policy);
        let weights = whole_numbers(&shares, most);
        Weighed { policy, weights, lost }
    });
    (weighed, compilation)
}

/// The file whose conditions are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Operator,
    /// A tenant's, whose cgroups are below its own.
    Tenant,
}

/// The tests of a text that no packet on a device of Titan's passes.
fn not_matched(source: Source<'_>, place: Place) -> Vec<Diagnostic> {
    let (tree, _) = parse(source);
    let lines = LineIndex::new(source.text);
    let tests = tree.descendants().filter(|node| node.kind() == SyntaxKind::Test);
    let found = tests.filter_map(|test| not_for_titan(&test, place));
    found.map(|diagnostic| diagnostic.locate(source.name, &lines)).collect()
}

fn not_for_titan(test: &SyntaxNode, place: Place) -> Option<SpannedDiagnostic> {
    let token = |kind: SyntaxKind| {
        let mut tokens = test.children_with_tokens().filter_map(rowan::NodeOrToken::into_token);
        tokens.find(|token| token.kind() == kind)
    };
    let (word, text) = (token(SyntaxKind::Word)?, token(SyntaxKind::Text)?);
    let path = text.text().trim_matches('"');
    let (message, help) = match word.text() {
        "port" => (
            format!("Titan cannot match the port {}: it runs on one device", quoted(path)),
            "test addresses or cgroups, or attach Titan to that port with weights of its own",
        ),
        "cgroup" if place == Place::Operator && !path.starts_with('/') => (
            format!("Titan has no cgroup of its own, below which {} could be", quoted(path)),
            "write the whole path, from the root of the cgroup2 hierarchy, with a slash before it",
        ),
        "process" => (
            format!("Titan cannot match the process {}: it does not note who makes sockets", quoted(path)),
            "test the cgroup in which the process runs, or its user",
        ),
        _ => return None,
    };
    let range = test.text_range();
    let span = Span::new(range.start().into(), range.end().into());
    Some(SpannedDiagnostic::new(Code::NotForTitan, span, message, help))
}

/// A share of the link: exact as numerator and denominator, while they can be represented.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Share {
    exact: Option<(u128, u128)>,
    near: f64,
}

impl Share {
    const WHOLE: Self = Self { exact: Some((1, 1)), near: 1.0 };

    /// `part` parts of `of`.
    fn part(self, part: u64, of: u64) -> Self {
        let exact = self.exact.and_then(|(numerator, denominator)| {
            let (above, below) = (numerator.checked_mul(part.into())?, denominator.checked_mul(of.into())?);
            let common = greatest_divisor(above, below);
            Some((above / common, below / common))
        });
        Self { exact, near: self.near * part as f64 / of as f64 }
    }
}

fn greatest_divisor(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// The share of each class, and what is lost.
fn shares(policy: &CompiledPolicy) -> (Vec<Share>, Vec<String>) {
    let program = &policy.program;
    let mut of_leaf = vec![Share::WHOLE; program.leaves.len()];
    let mut lost = Vec::new();
    let mut open = vec![(program.root, Share::WHOLE)];
    while let Some((at, share)) = open.pop() {
        let id = match at {
            Child::Leaf(leaf) => {
                of_leaf[leaf.index()] = share;
                continue;
            }
            Child::Node(id) => id,
        };
        let node = &program.nodes[id.index()];
        let name = quoted(&node.name);
        match &node.discipline {
            Discipline::Wfq(weights) => {
                let sum = weights.iter().map(|weight| u64::from(weight.get())).sum();
                let parts = node.children.iter().zip(weights);
                open.extend(parts.map(|(child, weight)| (*child, share.part(weight.get().into(), sum))));
                continue;
            }
            Discipline::Priority => lost.push(format!(
                "{name} is strict priority: weights have no order, and each of its children has the weight of the whole node"
            )),
            other => lost.push(format!(
                "{name} is ordered by {}: each of its children has the weight of the whole node",
                quoted(of_discipline(other))
            )),
        }
        open.extend(node.children.iter().map(|child| (*child, share)));
    }
    if program.limits.iter().any(|limit| !limit.is_vacant()) {
        lost.push("limits: weights delay nothing".to_owned());
    }
    // All lanes of a class are in one leaf.
    let mut of_class = vec![Share::WHOLE; policy.classes.len()];
    for lane in program.lanes.iter().filter(|lane| !lane.is_vacant()) {
        of_class[lane.class.index()] = of_leaf[lane.leaf.index()];
    }
    (of_class, lost)
}

/// Whole numbers from 1 to `most` in the proportion of the shares.
fn whole_numbers(shares: &[Share], most: Weight) -> Vec<Weight> {
    let weight = |number: u128| u32::try_from(number).ok().and_then(Weight::new).unwrap_or(Weight::ONE);
    if let Some(exact) = exact_numbers(shares).filter(|all| all.iter().all(|n| *n <= most.get().into())) {
        return exact.into_iter().map(weight).collect();
    }
    let largest = shares.iter().map(|share| share.near).fold(0.0, f64::max);
    let scaled = |share: &Share| (share.near / largest * f64::from(most.get())).round() as u128;
    shares.iter().map(|share| weight(scaled(share))).collect()
}

/// The smallest whole numbers in the proportion of the shares; `None` if they cannot be represented.
fn exact_numbers(shares: &[Share]) -> Option<Vec<u128>> {
    let exact = shares.iter().map(|share| share.exact).collect::<Option<Vec<_>>>()?;
    let common = exact.iter().try_fold(1_u128, |common, (_, denominator)| {
        (common / greatest_divisor(common, *denominator)).checked_mul(*denominator)
    })?;
    let numbers = exact.iter().map(|(numerator, denominator)| numerator.checked_mul(common / denominator));
    let numbers = numbers.collect::<Option<Vec<_>>>()?;
    let divisor = numbers.iter().fold(0, |divisor, number| greatest_divisor(*number, divisor));
    Some(numbers.into_iter().map(|number| number / divisor.max(1)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::NoFiles;
    use proptest::prelude::*;

    const MOST: u32 = 65_535;

    fn weighed(text: &str) -> (Option<Weighed>, Vec<String>) {
        let most = Weight::new(MOST).expect("a weight");
        let (weighed, compilation) =
            weigh(Source { name: "p", text }, &NoFiles, &CompileOptions::default(), most);
        (weighed, compilation.diagnostics.iter().map(|found| found.one_line()).collect())
    }

    fn numbers(text: &str) -> Vec<u32> {
        let (weighed, found) = weighed(text);
        weighed.unwrap_or_else(|| panic!("{found:?}")).weights.iter().map(|weight| weight.get()).collect()
    }

    #[test]
    fn shares_multiply_down_the_tree() {
        let classes = "class a = mark 1\nclass b = mark 2\nclass c = mark 3\n";
        for (tree, weights) in [
            ("root = wfq { a: 1, b: 2, c: 3, default: 4 }\n", [1, 2, 3, 4]),
            ("root = wfq { a: 20, x: 40, default: 20 }\nx = wfq { b: 3, c: 1 }\n", [2, 3, 1, 2]),
            ("root = wfq { fifo { a, b }: 3, fair of c: 1, default: 1 }\n", [3, 3, 1, 1]),
            ("root = priority { a, x, default }\nx = wfq { b: 1, c: 2 }\n", [3, 1, 2, 3]),
            ("root = wfq { a: 4000000000, b: 2000000000, c: 1, default: 1 }\n", [65_535, 32_768, 1, 1]),
        ] {
            assert_eq!(numbers(&format!("{classes}{tree}")), weights, "{tree}");
        }
    }

    #[test]
    fn what_weights_do_not_express_is_said() {
        let text = "class a = mark 1\nroot = priority { limit 1gbps of a, edf { default: 1ms } }\n";
        let lost = weighed(text).0.expect("weights").lost;
        assert!(lost[0].starts_with("`root` is strict priority"), "{lost:?}");
        assert_eq!(lost.last().map(String::as_str), Some("limits: weights delay nothing"));
    }

    #[test]
    fn tests_that_titan_cannot_make_have_their_place() {
        let text = "class a = tcp and port \"vm1\"\nclass b = cgroup \"b\"\nroot = fifo { a, b }\n";
        let (weighed, found) = weighed(text);
        assert!(weighed.is_none());
        assert!(found[0].starts_with("p:1:19: error[E0704]: Titan cannot match the port `vm1`"), "{found:?}");
        assert!(found[1].starts_with("p:2:11: error[E0704]: Titan has no cgroup"), "{found:?}");
    }

    proptest! {
        #[test]
        fn weights_are_in_proportion(weights in prop::collection::vec(1_u32..2000, 1..6)) {
            let classes: String = (0..weights.len()).map(|n| format!("class c{n} = mark {}\n", n + 1)).collect();
            let children: Vec<String> = weights.iter().enumerate().map(|(n, w)| format!("c{n}: {w}")).collect();
            let text = format!("{classes}root = wfq {{ {}, default: 1 }}\n", children.join(", "));
            let mut expected = weights;
            expected.push(1);
            prop_assert_eq!(numbers(&text), expected);
        }
    }
}
