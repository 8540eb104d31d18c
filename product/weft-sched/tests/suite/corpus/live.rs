//! Cases 29 to 32: changes of the program while packets wait.

use weft_sched::{Child, Discipline, NodeSpec};
use weft_units::{LaneId, LeafId, NodeId, Weight};

use super::run::{Both, arrivals};
use super::tree::Tree::{Class, Priority, Wfq};
use super::tree::{Built, Tree};

fn names(order: Vec<(String, u64)>) -> Vec<String> {
    order.into_iter().map(|(name, _)| name).collect()
}

fn wfq(weights: [u32; 2]) -> Discipline {
    Discipline::Wfq(weights.map(|weight| Weight::new(weight).expect("a weight")).to_vec())
}

/// The program of `before` with the class S, and the place of its leaf.
fn with_s(before: &Built) -> (Built, Child) {
    let mut after = before.clone();
    let s = Tree::build(&Class("S")).program;
    let leaf = LeafId::from_index(after.program.leaves.len());
    after.program.leaves.extend(s.leaves);
    after.program.lanes.extend(s.lanes.into_iter().map(|lane| weft_sched::LaneSpec { leaf, ..lane }));
    after.classes.push("S");
    (after, Child::Leaf(leaf))
}

#[test]
fn case_29_a_class_is_added() {
    let before = Priority(vec![Class("Z"), Class("G")]).build();
    let (mut after, s) = with_s(&before);
    after.program.nodes[0].children.insert(1, s);
    let text = "packet G1 G2 G3 1000 class G\npacket S1 1000 class S at 500ns";
    // The change comes during G1: after the first departure, before S1 is handed in.
    let order = Both::new(&before).run_changing(&arrivals(text), 1, &after, &[]);
    assert_eq!(names(order), ["G1", "S1", "G2", "G3"]);
}

#[test]
fn case_30_a_class_is_wrapped() {
    let before = Priority(vec![Class("Z"), Class("G")]).build();
    let (mut after, s) = with_s(&before);
    let g = after.program.nodes[0].children[1];
    let wrapper = NodeSpec { name: "wrapper".to_owned(), discipline: wfq([1, 1]), children: vec![g, s] };
    after.program.nodes.push(wrapper);
    after.program.nodes[0].children[1] = Child::Node(NodeId(1));
    let mut both = Both::new(&before);
    arrivals("packet G1 G2 G3 1000 class G").iter().for_each(|arrival| both.arrive(arrival));
    both.change_to(&after, &[]);
    arrivals("packet S1 S2 1000 class S").iter().for_each(|arrival| both.arrive(arrival));
    assert_eq!(names(both.run(&[], |_, _| {})), ["G1", "S1", "G2", "S2", "G3"]);
}

#[test]
fn case_31_a_weight_changes() {
    let before = Wfq(vec![(Class("A"), 1), (Class("B"), 1)]).build();
    let mut after = before.clone();
    after.program.nodes[0].discipline = wfq([1, 3]);
    let text = "packet A1 A2 A3 A4 1000 class A\npacket B1 B2 B3 B4 B5 B6 B7 1000 class B";
    let order = Both::new(&before).run_changing(&arrivals(text), 2, &after, &[]);
    assert_eq!(names(order), ["A1", "B1", "A2", "B2", "B3", "B4", "A3", "B5", "B6", "B7", "A4"]);
}

#[test]
fn case_32_a_class_goes_with_packets_inside() {
    let before = Priority(vec![Class("web"), Class("default")]).build();
    let mut after = before.clone();
    after.program.nodes[0].children.remove(0);
    after.program.leaves[0] = weft_sched::LeafSpec::vacant();
    after.program.lanes[0] = weft_sched::LaneSpec::vacant();
    let mut both = Both::new(&before);
    for arrival in arrivals("packet W1 W2 1000 class web flow f") {
        both.arrive(&arrival);
    }
    both.change_to(&after, &[(LaneId(0), LaneId(1))]);
    // The flow keeps its packets' order, and what was there before the change stays before what comes later.
    for arrival in arrivals("packet D1 1000 class default\npacket W3 1000 class web flow f") {
        both.arrive(&arrival);
    }
    assert_eq!(names(both.run(&[], |_, _| {})), ["W1", "W2", "D1", "W3"]);
}
