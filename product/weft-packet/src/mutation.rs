//! Test support: a seeded mutation loop over plain `fn(&[u8])` targets.
//!
//! A target must not panic on any input (`fuzz_packet`, `fuzz_segment`, `fuzz_pcap`). The loop picks an input of the corpus,
//! mutates it slightly, and calls the target. Equal seeds give equal inputs. It does not replace a coverage-guided fuzzer, which
//! can call the same functions, but it runs in every `cargo test`.

use std::panic::{RefUnwindSafe, catch_unwind};

/// The maximum length of a mutated input, in bytes.
const INPUT_MAX: usize = 1 << 16;

/// SplitMix64 (Steele, Lea, Flood 2014): a small generator for tests, deterministic for a seed.
#[derive(Clone, Debug)]
pub struct TestRng(u64);

impl TestRng {
    /// Creates a generator from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`; 0 if `bound` is 0.
    pub const fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next_u64() % bound as u64) as usize }
    }
}

/// The input that made a target panic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FuzzFailure {
    /// The seed of the run.
    pub seed: u64,
    /// The number of the input, from 0.
    pub iteration: u64,
    /// The input.
    pub input: Vec<u8>,
}

/// Changes `input` in one to four places.
fn mutate_once(rng: &mut TestRng, corpus: &[&[u8]], input: &mut Vec<u8>) {
    const NOTABLE: [u8; 8] = [0, 1, 4, 0x06, 0x45, 0x7f, 0x80, 0xff];
    for _ in 0..=rng.below(4) {
        let at = rng.below(input.len());
        match rng.below(8) {
            0 => input.truncate(at),
            1 if input.len() < INPUT_MAX => input.insert(at, rng.next_u64() as u8),
            2 if !input.is_empty() => {
                input.remove(at);
            }
            3 => {
                let other = corpus[rng.below(corpus.len())];
                let from = rng.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
                input.truncate(INPUT_MAX);
            }
            choice => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = match choice {
                        4 => *byte ^ (1 << rng.below(8)),
                        5 => NOTABLE[rng.below(NOTABLE.len())],
                        6 => byte.wrapping_add(rng.below(9) as u8).wrapping_sub(4),
                        _ => rng.next_u64() as u8,
                    };
                }
            }
        }
    }
}

/// Calls `target` on every input of `corpus`, then on `iterations` mutated inputs.
///
/// # Errors
/// The first input on which the target panicked.
pub fn mutate(
    seed: u64,
    corpus: &[&[u8]],
    iterations: u64,
    target: impl Fn(&[u8]) + RefUnwindSafe,
) -> Result<(), FuzzFailure> {
    let corpus = if corpus.is_empty() { &[&[][..]][..] } else { corpus };
    let mut rng = TestRng::new(seed);
    let mut input = Vec::new();
    for iteration in 0..iterations + corpus.len() as u64 {
        input.clear();
        if let Some(whole) = corpus.get(iteration as usize) {
            input.extend_from_slice(whole);
        } else {
            input.extend_from_slice(corpus[rng.below(corpus.len())]);
            mutate_once(&mut rng, corpus, &mut input);
        }
        if catch_unwind(|| target(&input)).is_err() {
            return Err(FuzzFailure { seed, iteration, input });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the canary is found. A loop that catches nothing would let every target pass.
    #[test]
    fn the_canary_is_caught_and_repeats() {
        let canary = |data: &[u8]| assert!(data.first() != Some(&0x7f), "canary");
        let failure = mutate(7, &[b"seed"], 10_000, canary).expect_err("the canary sang");
        assert_eq!(failure.input.first(), Some(&0x7f));
        assert_eq!(mutate(7, &[b"seed"], 10_000, canary), Err(failure), "same seed, same input");
    }

    #[test]
    fn an_empty_corpus_is_no_panic() {
        assert_eq!(mutate(1, &[], 100, |_| ()), Ok(()));
    }
}
