//! A seeded mutation loop over the samples.

use std::collections::BTreeSet;
use weft_playground::{SAMPLES, fuzz_playground};
use weft_units::testing::Rng;

/// The inputs, which take about a second in a development build. `WEFT_FUZZ_ROUNDS` and `WEFT_FUZZ_SEED` change their number and
/// choice.
const ROUNDS: u64 = 1500;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

const PIECES: &[&str] = &[
    "packet x 1000\n",
    " at 5us",
    " at 999s",
    " class web",
    " flow f2",
    " deadline 3us",
    " 0",
    "18446744073709551615",
    "\n",
    "\0",
    "never",
    "limit 1bps of ",
    "root = edf of web\n",
    "algorithm x { rank = head.left or now }\n",
    "shaper s { from now + 5ms }\n",
    "dropper d { fetched { drop } }\n",
    "priority { ",
    " }",
    "bound 1 packets\n",
    "expect a b\n",
    "drops a\n",
    "\"",
    "ä",
];

fn mutate(text: &mut Vec<char>, random: &mut Rng) {
    let below = |random: &mut Rng, bound: usize| random.below(bound.max(1) as u32) as usize;
    let from = below(random, text.len());
    let to = (from + below(random, 30)).min(text.len());
    match random.below(5) {
        0 => drop(text.drain(from..to)),
        1 | 2 => {
            let piece = PIECES[below(random, PIECES.len())];
            drop(text.splice(from..from, piece.chars()).collect::<Vec<_>>());
        }
        3 => {
            let copy = text[from..to].to_vec();
            drop(text.splice(to..to, copy).collect::<Vec<_>>());
        }
        _ if from < text.len() => text[from] = char::from(random.below(128) as u8),
        _ => {}
    }
}

#[test]
fn no_text_stops_it() {
    let mut random = Rng::new(setting("WEFT_FUZZ_SEED", 5));
    let mut seen = BTreeSet::new();
    for round in 0..setting("WEFT_FUZZ_ROUNDS", ROUNDS) {
        let policy = SAMPLES[random.below(SAMPLES.len() as u32) as usize];
        let arrivals = SAMPLES[random.below(SAMPLES.len() as u32) as usize];
        // Every other time they belong together, and most runs are whole.
        let arrivals = if round % 2 == 0 { policy } else { arrivals };
        let mut text: Vec<char> = format!("{}\0{}", policy.policy, arrivals.arrivals).chars().collect();
        for _ in 0..random.below(4) {
            mutate(&mut text, &mut random);
        }
        let text: String = text.into_iter().collect();
        fuzz_playground(text.as_bytes());
        let (policy, arrivals) = text.split_once('\0').unwrap_or((&text, ""));
        let found = crate::answers::ask(policy, arrivals);
        seen.insert((found.run.is_some(), found.diagnostics.is_empty()));
    }
    assert!(seen.len() >= 3, "runs and refusals: {seen:?}");
}
