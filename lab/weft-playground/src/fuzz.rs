//! The fuzz target: the properties that must hold for any input.

use crate::answer::ShownOutcome;
use crate::bounds::{PACKETS_MAX, TURNS_MAX};
use crate::question::{Question, answer, run};

/// Answers `data` as a question: up to the first zero byte the policy, from there on the arrivals. Panics if the answer is no
/// JSON, a packet left before it arrived, two packets were on the link at once, or one has no fate.
pub fn fuzz_playground(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (policy, arrivals) = text.split_once('\0').unwrap_or((&text, ""));
    let question =
        Question { policy: policy.to_owned(), arrivals: arrivals.to_owned(), link: Some("1gbps".to_owned()) };
    let found = answer(&question);
    let json = serde_json::to_string(&found).unwrap_or_default();
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "the answer is no JSON: {json:.200}");
    if let Some(outcome) = &found.run {
        check(outcome);
    }
    // As a question in JSON, which it hardly ever is.
    assert!(run(&text).starts_with("{\"schema\""), "an answer to anything");
}

fn check(outcome: &ShownOutcome) {
    assert!(outcome.packets.len() <= PACKETS_MAX && outcome.turns.len() <= TURNS_MAX);
    let sent = outcome.packets.iter().filter(|packet| packet.fate == "sent").count();
    assert_eq!(sent, outcome.turns.len(), "each turn sends a packet, and each packet once");
    let waiting = outcome.packets.iter().any(|packet| packet.fate == "waiting");
    assert!(outcome.cut || !waiting, "a run that was not cut leaves nothing behind");
    let mut free = 0;
    for turn in &outcome.turns {
        let packet = &outcome.packets[turn.packet];
        assert_eq!(packet.sent_ns, Some(turn.at_ns));
        assert!(packet.at_ns <= turn.at_ns, "{} left before it came", packet.name);
        assert!(free <= turn.at_ns, "{} began while the link was busy", packet.name);
        assert!(!turn.heads.is_empty(), "a turn is a choice");
        free = turn.at_ns.saturating_add(packet.takes_ns);
    }
    // A class that is full refuses by what waits, which depends on the order.
    let refused = outcome.packets.iter().any(|packet| packet.fate == "refused");
    if let Some(pifo) = outcome.pifo.as_ref().filter(|_| !refused) {
        let mut order: Vec<usize> = pifo.iter().map(|departure| departure.packet).collect();
        order.sort_unstable();
        let mut left: Vec<usize> = outcome.turns.iter().map(|turn| turn.packet).collect();
        left.sort_unstable();
        assert_eq!(order, left, "a PIFO sends the same packets");
    }
}
