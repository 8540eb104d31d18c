//! Shared by the tests of all crates: the report of a skipped test, so that skips are seen and counted, the length and seed of
//! a fuzz loop, so that one setting changes all, and a small generator of random numbers.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// The environment variable with the name of a file to which [`skip`] appends its lines. cargo hides the output of passing
/// tests, so `make test` lists the file.
pub const SKIPPED_LOG: &str = "WEFT_SKIPPED_LOG";

/// Reports in one line that a test is skipped, `skipped: NAME: why`, on standard output and in the file that
/// [`SKIPPED_LOG`] names. The test must then return.
///
/// # Panics
/// If the file cannot be written: a test must not be skipped unseen.
pub fn skip(test_name: &str, why: impl Display) {
    let line = skip_line(test_name, why);
    print!("{line}");
    if let Some(log) = std::env::var_os(SKIPPED_LOG) {
        append(Path::new(&log), &line).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
    }
}

/// The time of the machine, for the length of a fuzz loop. Nothing that a test computes depends on it.
#[expect(clippy::disallowed_methods, reason = "a fuzz loop runs for a time")]
fn now() -> Instant {
    Instant::now()
}

/// The length and the seed of a fuzz loop: `while run.next_round() { .. }`.
#[derive(Clone, Debug)]
pub struct FuzzRun {
    /// The seed of its generator.
    pub seed: u64,
    rounds: u64,
    until: Option<Instant>,
    done: u64,
}

impl FuzzRun {
    /// A run of `rounds` with seed 1, unless the environment says otherwise: `WEFT_FUZZ_SECONDS` is a time and comes before
    /// `WEFT_FUZZ_ROUNDS`, a number; `WEFT_FUZZ_SEED` is the seed.
    ///
    /// # Panics
    /// If one of them is not a number: a run that was meant to be long must not be short unseen.
    pub fn from_environment(rounds: u64) -> Self {
        let setting = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
        };
        let until = setting("WEFT_FUZZ_SECONDS").map(|s| now() + Duration::from_secs(s));
        let rounds = setting("WEFT_FUZZ_ROUNDS").unwrap_or(rounds);
        Self { seed: setting("WEFT_FUZZ_SEED").unwrap_or(1), rounds, until, done: 0 }
    }

    /// A run of `rounds` with `seed`, whatever the environment says.
    pub const fn fixed(rounds: u64, seed: u64) -> Self {
        Self { seed, rounds, until: None, done: 0 }
    }

    /// Counts a round and returns whether it is to be run.
    pub fn next_round(&mut self) -> bool {
        let more = self.until.map_or(self.done < self.rounds, |until| now() < until);
        self.done += u64::from(more);
        more
    }

    /// The rounds so far.
    pub const fn done(&self) -> u64 {
        self.done
    }
}

/// A small, fast, seeded generator (xorshift64*): what is drawn from it repeats exactly on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Seeds a generator; equal seeds give equal streams.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns the next 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    /// Returns a number below `bound`, which must not be zero. The bias is below `bound / 2^32`.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.next_u32()) * u64::from(bound)) >> 32) as u32
    }
}

fn skip_line(test_name: &str, why: impl Display) -> String {
    format!("skipped: {test_name}: {}\n", why.to_string().replace('\n', " "))
}

/// Appends a line in one write, so that lines of concurrent tests do not mix.
fn append(path: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_says_so_in_one_line() {
        assert_eq!(skip_line("some_test", "no tshark"), "skipped: some_test: no tshark\n");
        assert_eq!(skip_line("t", "two\nlines"), "skipped: t: two lines\n");
    }

    #[test]
    fn a_fuzz_run_ends_after_its_rounds_or_its_time() {
        let mut run = FuzzRun::fixed(3, 7);
        while run.next_round() {}
        assert_eq!((run.done(), run.seed), (3, 7));
        let begin = now();
        let mut timed = FuzzRun { until: Some(begin + Duration::from_millis(20)), ..FuzzRun::fixed(0, 1) };
        while timed.next_round() {}
        assert!(timed.done() > 3 && now() - begin >= Duration::from_millis(20), "{timed:?}");
    }

    #[test]
    fn the_log_keeps_what_other_tests_wrote() {
        let path = std::env::temp_dir().join(format!("weft-skipped-log-{}", std::process::id()));
        for name in ["first", "second"] {
            append(&path, &skip_line(name, "why")).expect("written");
        }
        let text = std::fs::read_to_string(&path).expect("the log");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(text, "skipped: first: why\nskipped: second: why\n");
    }
}
