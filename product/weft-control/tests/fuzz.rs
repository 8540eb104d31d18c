//! A seeded mutation loop over calls, and proof that it can find a failure.

use std::panic::catch_unwind;
use weft_control::fuzz_control;
use weft_control::receive::{Received, receive};
use weft_control::wire::Frames;

/// The inputs of the loop. `WEFT_FUZZ_ROUNDS` and `WEFT_FUZZ_SEED` change their number and choice.
const ROUNDS: usize = 20_000;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// SplitMix64: small, seeded, and the same on all machines.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Parts of calls and similar texts.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "true",
    "-1",
    "1e999",
    "18446744073709551616",
    "\"parameters\":",
    "\"parameters\":{}",
    "\"oneway\":true",
    "\"more\":true",
    "\"upgrade\":true",
    "\"method\":\"io.weft.Status\"",
    "\"method\":\"io.weft.\"",
    "\"method\":\"org.varlink.service.GetInfo\"",
    "\"generation\":7",
    "\"method\":\"io.weft.AttachTenant\"",
    "\"method\":\"io.weft.DetachTenant\"",
    "\"tenant\":\"vm1.db\"",
    "\"name\":\"a\"",
    "\"text\":\"root = default\\n\"",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "ä\u{202e}",
];

fn corpus() -> Vec<Vec<u8>> {
    let folder = format!("{}/tests/corpus", env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(folder).expect("the corpus");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "{paths:?}");
    paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

fn mutate(data: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let (a, b) = (random.below(data.len() + 1), random.below(data.len() + 1));
    let (a, b) = (a.min(b), a.max(b));
    match random.below(6) {
        0 => drop(data.drain(a..b.min(a + 20))),
        1 => drop(data.splice(a..a, PIECES[random.below(PIECES.len())].bytes())),
        2 if a < data.len() => data[a] = random.next() as u8,
        3 if a < data.len() => data[a] ^= 1 << random.below(8),
        4 => {
            let other = &corpus[random.below(corpus.len())];
            drop(data.splice(a..b, other[random.below(other.len())..].iter().copied()));
        }
        _ => data.truncate(b.max(data.len() / 2)),
    }
    data.truncate(4 << 10);
}

/// Runs `target` on mutated calls; returns the input on which it panicked, if any.
fn find_failure(
    rounds: usize,
    seed: u64,
    target: &(impl Fn(&[u8]) + std::panic::RefUnwindSafe),
) -> Option<Vec<u8>> {
    let corpus = corpus();
    let mut random = Random(seed);
    for _ in 0..rounds {
        let mut data = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(8).min(random.below(8)) {
            mutate(&mut data, &corpus, &mut random);
        }
        if catch_unwind(|| target(&data)).is_err() {
            return Some(data);
        }
    }
    None
}

#[test]
fn the_corpus_passes() {
    corpus().iter().for_each(|data| fuzz_control(data));
    for odd in [&[][..], &[0], &[0; 100], &[0xff; 100], b"{\"method\":\"", "[".repeat(100_000).as_bytes()] {
        fuzz_control(odd);
        fuzz_control(&[odd, &[0]].concat());
    }
}

#[test]
fn mutated_calls_never_break_the_server() {
    let (rounds, seed) = (setting("WEFT_FUZZ_ROUNDS", ROUNDS), setting("WEFT_FUZZ_SEED", 1) as u64);
    let failure =
        find_failure(rounds, seed, &fuzz_control).map(|data| String::from_utf8_lossy(&data).into_owned());
    assert_eq!(failure, None);
}

#[test]
fn the_loop_finds_a_fault_that_was_put_in() {
    let canary = |data: &[u8]| {
        let mut frames = Frames::default();
        frames.push(data).expect("short");
        let requests = std::iter::from_fn(|| frames.take()).flatten();
        let fault = requests.filter(|f| matches!(receive(f), Received::Request { .. })).count() > 1;
        assert!(!fault, "as if the server broke on the second call of a connection");
    };
    assert!(find_failure(ROUNDS, 1, &canary).is_some(), "the canary must be found");
}
