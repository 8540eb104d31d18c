//! Answers to questions.

use crate::schema;
use serde_json::Value;
use weft_playground::{
    PACKETS_MAX, PlaygroundAnswer, Question, SAMPLES, ShownOutcome, TEXT_MAX, answer, run, weft_answer,
    weft_question, weft_run, weft_start,
};
use weft_policy::trial::Trials;

pub(crate) fn ask(policy: &str, arrivals: &str) -> PlaygroundAnswer {
    answer(&Question { policy: policy.to_owned(), arrivals: arrivals.to_owned(), link: None })
}

fn outcome(found: &PlaygroundAnswer) -> &ShownOutcome {
    found.run.as_ref().unwrap_or_else(|| panic!("{:?} {:?}", found.diagnostics, found.error))
}

pub(crate) fn names(outcome: &ShownOutcome, packets: impl Iterator<Item = usize>) -> String {
    packets.map(|number| outcome.packets[number].name.as_str()).collect::<Vec<_>>().join(" ")
}

fn order(outcome: &ShownOutcome) -> String {
    names(outcome, outcome.turns.iter().map(|turn| turn.packet))
}

/// The case of docs/algorithms.md that the page shows first.
#[test]
fn a_rank_at_the_head_and_a_pifo_differ_as_the_guide_says() {
    let found = ask(SAMPLES[0].policy, SAMPLES[0].arrivals);
    let outcome = outcome(&found);
    assert_eq!(order(outcome), "c a b");
    let pifo = outcome.pifo.as_ref().expect("deadlines are the packets' own");
    assert_eq!(names(outcome, pifo.iter().map(|departure| departure.packet)), "a c b");
    assert_eq!(pifo.iter().map(|departure| departure.at_ns).collect::<Vec<_>>(), [0, 1000, 2000]);
    assert!(outcome.stated && outcome.difference.is_none() && !outcome.cut, "{outcome:?}");
    let heads: Vec<(&str, &str)> = outcome.turns[0]
        .heads
        .iter()
        .map(|head| {
            let last = head.orders.last().expect("an order");
            assert_eq!(last.discipline, "edf");
            (outcome.packets[head.packet].name.as_str(), last.rank.as_str())
        })
        .collect();
    assert_eq!(heads, [("c", "5 us"), ("a", "9 us")]);
    assert!(found.drawing.is_some_and(|svg| svg.starts_with("<svg")));
    assert!(found.cost.is_some_and(|cost| cost.starts_with("orders")));
}

#[test]
fn ranks_of_every_level_are_told_from_the_root_down() {
    let policy = "class a = mark 1\nclass b = mark 2\nclass c = mark 3\n\
                  root = priority { c, wfq { a: 1, fair of b: 2 }, default }\n";
    let arrivals =
        "packet a1 1000 class a\npacket a2 1000 class a\npacket b1 1000 class b\npacket b2 500 class b\n";
    let found = ask(policy, arrivals);
    let outcome = outcome(&found);
    let of = |turn: usize, head: usize| {
        let orders = &outcome.turns[turn].heads[head].orders;
        orders.iter().map(|one| format!("{} {}", one.discipline, one.rank)).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(of(0, 0), "priority place 2, wfq 0 vtime, fifo arrived 0 ns");
    assert_eq!(of(0, 1), "priority place 2, wfq 0 vtime, fair 0 vtime");
    // a has sent 1000 bytes by weight 1, b another 1000 by weight 2.
    assert_eq!(order(outcome), "a1 b1 b2 a2");
    assert_eq!(of(2, 0), "priority place 2, wfq 500 vtime, fair 1000 vtime");
    assert_eq!(of(2, 1), "priority place 2, wfq 1000 vtime, fifo arrived 0 ns");
    assert_eq!(outcome.pifo, None, "ranks depend on what was sent");
}

#[test]
fn limits_and_drops_are_told() {
    let policy = "class a = mark 1\nclass b = mark 2\nroot = priority { limit 80mbps burst 0 of a, b }\nbound 2 packets of b\n";
    let arrivals = "packet a1 1000 class a\npacket a2 1000 class a\npacket b1 1000 class b at 500ns\n\
                    packet b2 1000 class b at 500ns\npacket b3 1000 class b at 500ns\ndrops b3\nexpect a1 b1 b2 a2\n";
    let found = ask(policy, arrivals);
    let outcome = outcome(&found);
    assert_eq!((order(outcome).as_str(), &outcome.difference), ("a1 b1 b2 a2", &None));
    let waits = outcome.turns[1].heads.iter().find(|head| outcome.packets[head.packet].name == "a2");
    assert_eq!(waits.and_then(|head| head.limited_ns), Some(100_000));
    let fates: Vec<&str> = outcome.packets.iter().map(|packet| packet.fate).collect();
    assert_eq!(fates, ["sent", "sent", "sent", "sent", "refused"]);
    let dropper = "dropper none { fetched { if p.len > 900 { drop } } }\nclass a = any\nroot = none of a\n";
    let found = ask(dropper, "packet x 1000\npacket y 500\n");
    let outcome = self::outcome(&found);
    assert_eq!((outcome.packets[0].fate, order(outcome).as_str()), ("dropped", "y"));
}

#[test]
fn a_mistake_has_its_place_and_its_fix() {
    let policy = "class a = tcp\nroot = priorty { a, default }\n";
    let found = ask(policy, "packet x 1000\n");
    assert!(found.run.is_none() && found.drawing.is_none());
    let [diagnostic] = found.diagnostics.as_slice() else { panic!("{:?}", found.diagnostics) };
    assert_eq!((diagnostic.line, diagnostic.column), (2, 8));
    let fixed = diagnostic.fix.as_ref().expect("a fix").apply(policy);
    assert!(ask(&fixed, "packet x 1000\n").run.is_some(), "{fixed}");
    let found = ask(&fixed, "packet x 1000\npakcet y 1000\n");
    let fault = found.arrivals_error.expect("an error");
    assert_eq!((fault.line, fault.column), (2, 1));
    assert!(fault.help.contains("packet"), "{fault:?}");
    assert!(found.drawing.is_some(), "the policy is right");
}

#[test]
fn every_bound_is_said() {
    let any = "class a = any\nroot = fifo { a }\n";
    let long = " ".repeat(TEXT_MAX + 1);
    assert!(ask(&long, "").error.is_some_and(|error| error.contains("64 KiB")));
    assert!(ask(any, &long).error.is_some_and(|error| error.contains("64 KiB")));
    let many: String = (0..=PACKETS_MAX).map(|number| format!("packet p{number} 100\n")).collect();
    assert!(ask(any, &many).arrivals_error.is_some_and(|fault| fault.message.contains("at most 200")));
    let late = ask(any, "packet p 100 at 2000s\n").arrivals_error;
    assert!(late.is_some_and(|fault| fault.message.contains("`p` arrives after")));
    let never = "shaper stuck { from never }\nclass a = any\nroot = stuck of a\n";
    let found = ask(never, "packet p 100\n");
    let outcome = outcome(&found);
    assert!(outcome.cut && outcome.packets[0].fate == "waiting", "{outcome:?}");
    let unknown = ask(any, "packet p 100 class b\n");
    assert!(unknown.error.is_some_and(|error| error.contains("it has: a")));
    let question = |link: &str| {
        let (policy, arrivals) = (any.to_owned(), "packet p 1000\npacket q 1000\n".to_owned());
        answer(&Question { policy, arrivals, link: Some(link.to_owned()) })
    };
    assert!(question("fast").error.is_some_and(|error| error.contains("such as 1gbps")));
    assert_eq!(question(" 1gbps").run.expect("a run").turns[1].at_ns, 8000);
    assert_eq!(question("").link_bps, Some(8_000_000_000));
}

#[test]
fn answers_are_what_their_schema_says() {
    let path = format!("{}/../../docs/schemas/weft-playground.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema = weft_facts::schema::named::<PlaygroundAnswer>(PlaygroundAnswer::SCHEMA);
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    expect_test::expect_file![path].assert_eq(&text);
    let mut questions: Vec<String> = SAMPLES
        .iter()
        .map(|sample| serde_json::json!({ "policy": sample.policy, "arrivals": sample.arrivals }).to_string())
        .collect();
    questions.push(serde_json::json!({ "policy": "", "arrivals": "packet", "link": "1gbps" }).to_string());
    questions.push("no question".to_owned());
    for question in questions {
        let value: Value = serde_json::from_str(&run(&question)).expect("JSON");
        assert_eq!(schema::errors(&schema, &value), Vec::<String>::new(), "{question}");
        let mut broken = value;
        broken["no such field"] = Value::Null;
        assert!(!schema::errors(&schema, &broken).is_empty(), "unknown members pass");
    }
}

/// The functions of the module. Room that the page has not written is no question.
#[test]
fn the_module_answers_through_its_buffers() {
    assert!(weft_question(usize::MAX).is_null() && !weft_question(16).is_null());
    assert_eq!(weft_run(), run(&" ".repeat(16)).len());
    assert_eq!(weft_start(), weft_playground::start().len());
    assert!(!weft_answer().is_null());
}

#[test]
fn the_corpus_of_droppers_drops_the_same_packets() {
    let policy = include_str!("../../../../product/weft-policy/tests/corpus/droppers.weft");
    let tests = include_str!("../../../../product/weft-policy/tests/corpus/droppers.wefttest");
    let mut count = 0;
    for test in tests.split("\ntest ").skip(1) {
        let found = ask(policy, &format!("test {test}"));
        let outcome = outcome(&found);
        assert_eq!((outcome.stated, &outcome.difference, outcome.cut), (true, &None, false), "{test}");
        let drops: Trials = format!("policy \"p\"\ntest {test}").parse().expect("a test");
        let mut expected = drops.cases[0].drops.clone();
        let dropped = outcome.packets.iter().filter(|packet| packet.fate == "dropped");
        let mut dropped: Vec<String> = dropped.map(|packet| packet.name.clone()).collect();
        dropped.sort();
        expected.sort();
        assert_eq!(dropped, expected);
        count += 1;
    }
    assert!(count >= 7);
}
