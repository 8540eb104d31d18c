//! The fuzz target: the properties that must hold for any line of a peer.

use super::protocol::{self, Half, ServerAnswer};

/// Reads `data` as a request and as an answer. Panics when one that is accepted does not return from its own line, or has
/// a figure that no measurement has.
pub fn fuzz_hosts(data: &[u8]) {
    if let Ok(request) = protocol::request(data) {
        let line = protocol::line(&request);
        assert_eq!(protocol::request(&line).as_ref(), Ok(&request), "{}", String::from_utf8_lossy(&line));
    }
    if let Ok(answer) = protocol::answer(data) {
        let line = protocol::line(&answer);
        let again = protocol::answer(&line).expect("an answer");
        assert_eq!(protocol::line(&again), line);
        assert!(figures(&answer).all(|figure| figure.is_finite() && figure >= 0.0), "{answer:?}");
    }
}

/// The figures of an answer.
fn figures(answer: &ServerAnswer) -> impl Iterator<Item = f64> {
    let samples = match answer {
        ServerAnswer::Measured(Half { samples, .. }) => samples.as_deref(),
        _ => None,
    };
    let of = samples.into_iter().flat_map(|samples| {
        let time = &samples.time;
        let others = [samples.foreign_s, samples.interrupts_s, samples.tool_s];
        let own = [time.user_s, time.system_s, time.softirq_s].into_iter().chain(others);
        let named = time.categories_s.values().chain(samples.missing.values()).copied();
        own.chain(named).chain(samples.stacks.iter().map(|stack| stack.seconds))
    });
    let watched = match answer {
        ServerAnswer::Watched { share } => Some(*share),
        _ => None,
    };
    of.chain(watched)
}
