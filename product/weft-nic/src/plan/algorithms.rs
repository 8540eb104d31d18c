//! The user-defined algorithms that the NIC can run.
//!
//! Before a packet is fetched, its doorbell reports its arrival, as finely as the worker looks, the time that its sender requests
//! (a deadline or a time of sending, as the algorithm reads it), the bytes that the sender has left of a message or in its socket,
//! and the priority and the pacing rate of the socket. The packet's length and lateness are unknown, and so are the bytes that
//! wait. Algorithms that read these would order by nothing, so their policies are refused.

use super::PlanError;
use crate::layout::{LaneEntry, Reads};
use weft_rank::{Kind, Metadatum};
use weft_sched::program::{Child, Custom, Discipline, HeadUse, LeafDiscipline, Program};

/// Checks the algorithms of a program.
pub(super) fn check(program: &Program) -> Result<(), PlanError> {
    let nodes = program.nodes.iter().filter_map(|node| match &node.discipline {
        Discipline::Custom(custom) => Some((&node.name, custom)),
        _ => None,
    });
    let leaves = program.leaves.iter().filter_map(|leaf| match &leaf.discipline {
        LeafDiscipline::Custom(custom) => Some((&leaf.name, custom)),
        _ => None,
    });
    for (place, custom) in nodes.chain(leaves) {
        let (algorithm, what) = match needed(custom) {
            Some(what) => (&custom.algorithm.name, what),
            None => match &custom.dropper {
                Some(dropper) => (&dropper.algorithm.name, "to drop packets"),
                None => continue,
            },
        };
        return Err(PlanError::Algorithm { place: place.clone(), algorithm: algorithm.clone(), what });
    }
    Ok(())
}

/// The metadata that the algorithms above the packets of each lane read.
fn reads(program: &Program) -> Vec<Reads> {
    let mut leaves = vec![Reads::NOTHING; program.leaves.len()];
    collect(program, program.root, Reads::NOTHING, &mut leaves);
    let of = |lane: &weft_sched::LaneSpec| leaves.get(lane.leaf.index()).copied().unwrap_or_default();
    program.lanes.iter().map(of).collect()
}

/// Adds what `child` and the nodes below it read to `above`, for each leaf.
fn collect(program: &Program, child: Child, above: Reads, leaves: &mut [Reads]) {
    match child {
        Child::Leaf(leaf) => {
            let own = program.leaves.get(leaf.index()).map(|leaf| &leaf.discipline);
            let own = if let Some(LeafDiscipline::Custom(custom)) = own {
                reads_of(custom)
            } else {
                Reads::NOTHING
            };
            if let Some(reads) = leaves.get_mut(leaf.index()) {
                *reads = above.or(own);
            }
        }
        Child::Node(node) => {
            let Some(node) = program.nodes.get(node.index()) else { return };
            let own = match &node.discipline {
                Discipline::Custom(custom) if custom.head == HeadUse::Followed => reads_of(custom),
                _ => Reads::NOTHING,
            };
            node.children.iter().for_each(|child| collect(program, *child, above.or(own), leaves));
        }
    }
}

fn reads_of(custom: &Custom) -> Reads {
    let read = custom.algorithm.reads();
    let deadline = read.contains(&Metadatum::Deadline) || read.contains(&Metadatum::Slack);
    let hold = read.contains(&Metadatum::SendTime);
    let time = deadline || hold;
    let [left, priority, pace] =
        [Metadatum::Left, Metadatum::Priority, Metadatum::Pace].map(|of| read.contains(&of));
    Reads { time, left, deadline, priority, pace, hold }
}

/// Enters what the algorithms of `program` read into `lanes`.
pub(super) fn enter(program: &Program, lanes: &mut [LaneEntry]) {
    for (entry, reads) in lanes.iter_mut().zip(reads(program)) {
        entry.reads = if entry.rings > 0 { reads } else { Reads::NOTHING };
    }
}

/// The unknown input that an algorithm needs.
fn needed(custom: &Custom) -> Option<&'static str> {
    let algorithm = &custom.algorithm;
    if algorithm.kind == Kind::Dropper || algorithm.parts.fetched.is_some() {
        return Some("to drop packets");
    }
    let read = algorithm.reads().into_iter().find_map(unknown);
    read.or(algorithm.reads_queue().then_some("the bytes that wait"))
}

/// The name of a metadatum that the NIC does not have.
fn unknown(of: Metadatum) -> Option<&'static str> {
    match of {
        Metadatum::Arrived
        | Metadatum::Deadline
        | Metadatum::Slack
        | Metadatum::SendTime
        | Metadatum::Left
        | Metadatum::Priority
        | Metadatum::Pace => None,
        Metadatum::Length => Some("the next packet's length"),
        Metadatum::Late => Some("the lateness of packets"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The refusal of `order` of a class, if there is one.
    fn refusal(order: &str) -> Option<String> {
        let own = "algorithm by_priority { rank = head.prio }";
        let text = format!("{own}\nclass a = udp\nroot = priority {{ {order} of a, default }}");
        let source = weft_policy::Source { name: "test", text: &text };
        let compiled = weft_policy::compile(source, &weft_policy::CompileOptions::default());
        check(&compiled.policy.expect("a policy").program).err().map(|error| error.to_string())
    }

    #[test]
    fn what_a_doorbell_tells_suffices_or_the_missing_word_is_named() {
        let runs = [
            "stfq",
            "drr",
            "las",
            "round_robin",
            "strict",
            "edf",
            "lstf slack 2ms",
            "edt",
            "bucket rate 1gbps",
            "floors min 1mbps max 9mbps",
            "srpt",
            "pfabric",
            "least_slack line 1gbps",
            "paced",
            "by_priority",
        ];
        for order in runs {
            assert_eq!(refusal(order), None, "{order}");
        }
        let refused = [("wf2q", "length"), ("fifo_plus", "lateness"), ("codel", "drop packets")];
        for (order, word) in refused {
            let said = refusal(order).unwrap_or_else(|| panic!("{order} runs"));
            assert!(said.contains(word) && said.contains("what doorbells tell"), "{order}: {said}");
        }
    }

    #[test]
    fn a_lane_collects_what_is_read_above_it() {
        let text = "class a = udp dport 1\nclass b = udp dport 2\nclass c = udp dport 3\nclass d = udp dport 4\n\
                    class e = udp dport 5\nroot = priority { edt of c, due, d, default }\n\
                    due = edf { las of e, pair }\npair = stfq { srpt of a, b }";
        let source = weft_policy::Source { name: "test", text };
        let compiled = weft_policy::compile(source, &weft_policy::CompileOptions::default());
        let policy = compiled.policy.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
        let of = |name: &str| {
            let class = policy.classes.iter().position(|class| class.name == name).expect("a class");
            let lane =
                policy.program.lanes.iter().position(|lane| lane.class.index() == class).expect("a lane");
            reads(&policy.program)[lane]
        };
        let deadlines = Reads { time: true, deadline: true, ..Reads::NOTHING };
        assert_eq!(
            of("c"),
            Reads { time: true, hold: true, ..Reads::NOTHING },
            "a time of sending is no deadline"
        );
        assert_eq!([of("b"), of("e")], [deadlines; 2], "a node that follows heads");
        assert_eq!(of("a"), Reads { left: true, ..deadlines });
        assert_eq!([of("d"), of("default")], [Reads::NOTHING; 2]);
    }
}
