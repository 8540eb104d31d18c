//! The corpus of published orders, run over the programs of the library.

use super::node::Node;
use weft_policy::algorithm::{CheckedAlgorithm, algorithms, shipped_algorithm};
use weft_policy::trial::{Trial, Trials};

/// Runs a test on an algorithm of the library.
#[track_caller]
pub(crate) fn check(case: &Trial, name: &str, children: &[(&str, &str)]) {
    run(case, &shipped_algorithm(name).expect("a shipped algorithm"), children);
}

#[track_caller]
fn run(case: &Trial, algorithm: &CheckedAlgorithm, children: &[(&str, &str)]) {
    let mut node = Node::new(algorithm, children);
    let found = node.departures(case);
    let order: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let expected: Vec<&str> = case.expect.iter().map(|departure| departure.name.as_str()).collect();
    assert_eq!(order, expected, "{}", case.name);
    for (departure, (_, at)) in case.expect.iter().zip(&found) {
        assert!(departure.at.is_none_or(|expected| expected == *at), "{}: {found:?}", case.name);
    }
    assert_eq!(node.drops, case.drops, "{}", case.name);
}

/// Packets of 1000 bytes, in the order of their names; `expect` is a line of a test.
fn packets(names: &str, expect: &str) -> Trial {
    let lines: String = names
        .split(' ')
        .map(|name| match name.split_once('@') {
            Some((name, at)) => format!("packet {name} 1000 at {at}ns\n"),
            None => format!("packet {name} 1000\n"),
        })
        .collect();
    trial(&format!("{lines}expect {expect}\n"))
}

fn trial(text: &str) -> Trial {
    text.parse::<Trials>().unwrap_or_else(|error| panic!("{text}: {error}")).cases.remove(0)
}

#[test]
fn strict_priority() {
    let levels = [("A", "0"), ("B", "1"), ("C", "2")];
    check(&packets("C1 B1 A1 C2 B2 A2", "A1 A2 B1 B2 C1 C2"), "strict", &levels);
    check(&packets("B1 B2 A1@500", "B1 A1 B2"), "strict", &levels);
}

#[test]
fn equal_ranks_leave_in_the_order_of_references() {
    let constant = &algorithms("algorithm constant { rank = 7 }\n")[0];
    run(&packets("A1 A2 B1 B2", "A1 B1 A2 B2"), constant, &[("A", ""), ("B", "")]);
    check(&packets("A1 A2 B1 B2", "A1 B1 A2 B2"), "round_robin", &[("A", ""), ("B", "")]);
    let prio = &algorithms("algorithm prio { rank = head.prio }\n")[0];
    let figure3 = trial(
        "packet P1 1 flow R prio 1\npacket P2 1 flow R prio 2\npacket P3 1 flow L prio 0\npacket P4 1 flow L prio 3\nexpect P3 P1 P2 P4\n",
    );
    run(&figure3, prio, &[("L", ""), ("R", "")]);
}

#[test]
fn start_time_fair_queueing() {
    let weights = [("A", "1"), ("B", "2")];
    check(&packets("A1 A2 A3 B1 B2 B3 B4 B5 B6", "A1 B1 B2 A2 B3 B4 A3 B5 B6"), "stfq", &weights);
    let sizes: String = ["A1", "A2", "A3"].map(|name| format!("packet {name} 1500\n")).concat()
        + &["B1", "B2", "B3", "B4", "B5", "B6", "B7"].map(|name| format!("packet {name} 500\n")).concat();
    let equal = [("A", "1"), ("B", "weight 1")];
    check(&trial(&format!("{sizes}expect A1 B1 B2 B3 A2 B4 B5 B6 A3 B7\n")), "stfq", &equal);
    check(
        &packets("A1 A2 A3 A4 A5 A6 A7 A8 B1@3500 B2@3500 B3@3500", "A1 A2 A3 A4 B1 A5 B2 A6 B3 A7 A8"),
        "stfq",
        &equal,
    );
}

#[test]
fn deadlines_and_slack() {
    let flows = [("f1", "5us"), ("f2", "5us"), ("f3", "5us")];
    check(
        &trial(
            "packet x 1000 flow f1 deadline 9us\npacket y 1000 flow f2\npacket z 1000 flow f3 deadline 3us\nexpect z y x\n",
        ),
        "edf",
        &flows,
    );
    check(
        &trial(
            "packet W 5000 slack 0s\npacket X 1000 slack 10us\npacket Y 1000 slack 5us at 3us\npacket Z 1000 slack 6us at 4us\nexpect W Y X Z\n",
        ),
        "lstf",
        &[("W", ""), ("X", ""), ("Y", ""), ("Z", "")],
    );
    check(
        &trial(
            "packet W 3000 late 9us at 50us\npacket P 1000 late 0s at 50us\npacket Q 1000 late 5us at 51us\npacket R 2000 late 0s at 52us\nexpect W Q P R\n",
        ),
        "fifo_plus",
        &[("P", ""), ("Q", ""), ("R", ""), ("W", "")],
    );
    let line = "8gbps";
    check(
        &trial(
            "packet D1 1000 flow a deadline 20us left 1000\npacket D2 1000 flow b deadline 25us left 9000\npacket D3 1000 flow c deadline 18us left 500\nexpect D2 D3 D1\n",
        ),
        "least_slack",
        &[("a", line), ("b", line), ("c", line)],
    );
}

#[test]
fn remaining_and_attained_sizes() {
    let text = "packet p7 1000 flow f0 left 7\npacket p9 1000 flow f1 left 9\npacket p8 1000 flow f1 left 8\npacket p6 1000 flow f1 left 6\n";
    let flows = [("f0", ""), ("f1", "")];
    check(&trial(&format!("{text}expect p9 p8 p6 p7\n")), "pfabric", &flows);
    check(&trial(&format!("{text}expect p7 p9 p8 p6\n")), "srpt", &flows);
    check(
        &packets("A1 A2 A3 A4 A5 A6 B1@3500 B2@3500", "A1 A2 A3 A4 B1 B2 A5 A6"),
        "las",
        &[("A", ""), ("B", "")],
    );
}

#[test]
fn surplus_round_robin() {
    let mut text = String::new();
    for (flow, sizes) in
        [("Q1", [200, 750, 20]), ("Q2", [500, 500, 0]), ("Q3", [100, 600, 200]), ("Q4", [180, 700, 50])]
    {
        for (number, size) in sizes.into_iter().enumerate().filter(|(_, size)| *size > 0) {
            text += &format!("packet {flow}.{number} {size} flow {flow}\n");
        }
    }
    text += "expect Q1.0 Q1.1 Q2.0 Q3.0 Q3.1 Q4.0 Q4.1 Q1.2 Q2.1 Q3.2 Q4.2\n";
    check(&trial(&text), "drr", &["Q1", "Q2", "Q3", "Q4"].map(|flow| (flow, "500")));
}

#[test]
fn worst_case_fair_queueing() {
    let names: Vec<String> = (2..=11).map(|number| format!("k{number}")).collect();
    let mut text: String = (0..11).map(|number| format!("packet a{number} 1000 flow k1\n")).collect();
    text += &names.iter().map(|name| format!("packet {name} 1000 flow {name}\n")).collect::<String>();
    let mut fair = text.clone() + "expect a0";
    let mut wfq = text + "expect a0";
    // The last light child and the tenth packet of the heavy one have equal ranks: the reference that went in first leaves first.
    names[..9].iter().enumerate().for_each(|(at, name)| {
        fair += &format!(" {name}{}", if at < 8 { format!(" a{}", at + 1) } else { String::new() });
    });
    fair += " k11 a9 a10";
    wfq += &format!(" {}", names.join(" "));
    (1..11).for_each(|number| wfq += &format!(" a{number}"));
    let mut children: Vec<(&str, &str)> = vec![("k1", "10")];
    children.extend(names.iter().map(|name| (name.as_str(), "1")));
    check(&trial(&fair), "wf2q", &children);
    check(&trial(&wfq), "stfq", &children);
}

#[test]
fn shapers_hold_until_a_time() {
    let spaced = "packet A1 1000\npacket A2 1000\npacket A3 1000\nexpect A1 at 0ns, A2 at 8us, A3 at 16us\n";
    check(&trial(spaced), "bucket", &[("A", "rate 1gbps")]);
    let burst = "packet A1 1000\npacket A2 1000\npacket A3 1000\npacket A4 1000\npacket A5 1000\nexpect A1 at 0ns, A2 at 1us, A3 at 2us, A4 at 8us, A5 at 16us\n";
    check(&trial(burst), "bucket", &[("A", "1gbps burst 2000")]);
    check(
        &trial("packet a 1000 txtime 5us\npacket b 1000\nexpect b at 0ns, a at 5us\n"),
        "edt",
        &[("a", ""), ("b", "")],
    );
    check(
        &trial("packet a1 1000 pace 1gbps\npacket a2 1000 pace 1gbps\nexpect a1 at 0ns, a2 at 8us\n"),
        "paced",
        &[("a", "")],
    );
}

#[test]
fn controlled_delay_drops_by_the_square_root() {
    // Every packet has waited for 10 ms when it is fetched: one arrives every 100 us, each takes 100 us, and 100 wait.
    let mut text = String::new();
    for number in 0..3400 {
        let at = (number as u64).saturating_sub(100) * 100;
        text += &format!("packet a{number} 100000 at {at}us\n");
    }
    let case = trial(&format!("{text}expect a0\n"));
    let codel = shipped_algorithm("codel").expect("shipped");
    let mut node = Node::new(&codel, &[("a", "")]);
    let found = node.departures(&case);
    assert_eq!(found.len() + node.drops.len(), 3400);
    assert!(node.drops.len() >= 3, "{:?}", node.drops);
}
