//! A seeded mutation loop over the example files and written scenarios.

use super::examples::{examples, folder};
use super::random::{Random, scenario};
use super::read_alone;
use std::sync::atomic::{AtomicUsize, Ordering};
use weft_sim::scenario::{fuzz_scenario, write};

/// Number of inputs. `WEFT_FUZZ_ROUNDS` and `WEFT_FUZZ_SEED` override number and seed.
const ROUNDS: usize = 4000;

/// Fragments of scenario files and of similar texts.
const PIECES: &[&str] = &[
    "[[flows]]\n",
    "[network]\n",
    "[host.nic]\n",
    "[[hosts]]\n",
    "[hosts.stack]\n",
    "[costs.poll]\n",
    " = ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "\"\"\"",
    ".",
    ",",
    "\n",
    "#",
    "\\u0000",
    "ä",
    "\u{202e}",
    "\u{0}",
    "\r\n",
    "-",
    "1e400",
    "nan",
    "0x",
    "true",
    "18446744073709551616",
    "\"10gbps\"",
    "\"0s\"",
    "\"99999999999gb\"",
    "\"off\"",
    "\"per-flow\"",
    "hosts = 10000\n",
    "index = 9999\n",
    "count = 1000000\n",
    "costs = \"x\"\n",
    "classes = []\n",
    "source = \"x\"\n",
    "etc = 5\n",
    "[[[[[[[[",
    "{a={a={a={a=",
    "cores = [0]\n",
    "to = 1\n",
    "1979-05-27",
];

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn corpus() -> Vec<Vec<u8>> {
    let mut corpus: Vec<Vec<u8>> = examples().into_iter().map(|(_, text)| text.into_bytes()).collect();
    corpus.push(std::fs::read(folder("experiments/costs/free.toml")).expect("the file is there"));
    corpus.extend((0..3).map(|seed| write(&scenario(&mut Random(seed))).into_bytes()));
    corpus
}

fn mutate(data: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let (a, b) = (random.below(data.len() + 1), random.below(data.len() + 1));
    let (a, b) = (a.min(b), a.max(b));
    match random.below(6) {
        0 => drop(data.drain(a..b.min(a + 20))),
        1 | 2 => {
            // Often at the start of a line, where keys and tables are.
            let at = if random.below(2) == 0 {
                a
            } else {
                data[..a].iter().rposition(|c| *c == b'\n').map_or(0, |n| n + 1)
            };
            data.splice(at..at, PIECES[random.below(PIECES.len())].bytes());
        }
        3 => {
            let copy = data[a..b.min(a + 100)].to_vec();
            data.splice(b..b, copy);
        }
        4 if a < data.len() => data[a] ^= 1 << random.below(8),
        _ => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len());
            data.splice(a..b, other[from..].iter().take(300).copied());
        }
    }
    data.truncate(16 << 10);
}

#[test]
fn mutated_scenarios_never_break_the_reader() {
    let (rounds, seed) = (setting("WEFT_FUZZ_ROUNDS", ROUNDS), setting("WEFT_FUZZ_SEED", 1));
    let read = AtomicUsize::new(0);
    let corpus = corpus();
    let mut random = Random(seed as u64);
    for round in 0..rounds {
        let mut data = corpus[random.below(corpus.len())].clone();
        for _ in 0..random.below(6).min(random.below(6)) {
            mutate(&mut data, &corpus, &mut random);
        }
        let target = std::panic::catch_unwind(|| {
            fuzz_scenario(&data);
            let whole = read_alone(&String::from_utf8_lossy(&data)).is_ok();
            read.fetch_add(usize::from(whole), Ordering::Relaxed);
        });
        assert!(target.is_ok(), "seed {seed}, round {round}:\n{}", String::from_utf8_lossy(&data));
    }
    let read = read.into_inner();
    assert!(
        read > rounds / 10 && read < rounds * 9 / 10,
        "some are left whole, most are not: {read} of {rounds}"
    );
}

#[test]
fn deep_and_odd_texts_are_refused_without_a_panic() {
    for text in
        ["[".repeat(100_000), "a=".to_owned() + &"{a=".repeat(100_000), "a.".repeat(50_000), "=".repeat(1000)]
    {
        assert!(read_alone(&text).is_err());
        fuzz_scenario(text.as_bytes());
    }
    fuzz_scenario(&[0xff, 0xfe, b'=', 0xc3, b'\n', 0x80]);
    fuzz_scenario(b"");
}
