//! A seeded mutation loop over the ready policies, and proof that it can find a failure.

use crate::common::corrections_help;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use weft_packet::mutation::TestRng;
use weft_policy::{Code, CompileOptions, Source, compile, fuzz_policy};
use weft_units::testing::FuzzRun;

/// The inputs of the loop, which take about a second in a development build.
const ROUNDS: u64 = 4000;

/// Tokens of the language and similar texts.
const PIECES: &[&str] = &[
    "class ",
    "root",
    " = ",
    "{ ",
    " }",
    "(",
    ")",
    "not ",
    " and ",
    " or ",
    "limit ",
    "2gbps",
    "0gbps",
    " of ",
    "fair of ",
    "fifo ",
    "wfq ",
    "priority ",
    "by destination ",
    "10.0.1.0/24: 1gbps",
    "fd00::/8",
    "::",
    ":",
    "/",
    "..",
    "\"",
    "#",
    "\n",
    "default",
    "T1",
    "any",
    "bound 5 packets",
    " of T1",
    "burst 1kb ",
    "to ",
    "cgroup \"/x\"",
    "port \"p\"",
    "mark 1/3",
    "ä",
    "\u{0}",
    "\u{202e}",
    "\r\n",
    "\t",
    "((((((((",
    "not not not ",
    "18446744073709551616",
    "0x",
    "dport 80..443",
    ",",
    "wfq { a: 1, ",
];

/// The policies in folders of this crate.
fn corpus(folders: &[&str]) -> Vec<Vec<u8>> {
    let folder =
        |of: &&str| std::fs::read_dir(format!("{}/{of}", env!("CARGO_MANIFEST_DIR"))).expect("a folder");
    let mut paths: Vec<_> = folders
        .iter()
        .flat_map(folder)
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|of| of == "weft"))
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

/// The ready policies.
fn policies() -> Vec<Vec<u8>> {
    corpus(&["../../policies"])
}

fn mutate(data: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut TestRng) {
    let (a, b) = (random.below(data.len() + 1), random.below(data.len() + 1));
    let (a, b) = (a.min(b), a.max(b));
    match random.below(7) {
        0 => drop(data.drain(a..b.min(a + 40))),
        1 => {
            let piece = PIECES[random.below(PIECES.len())].as_bytes();
            data.splice(a..a, piece.iter().copied());
        }
        2 => {
            let copy = data[a..b.min(a + 200)].to_vec();
            data.splice(b..b, copy);
        }
        3 if a < data.len() => data[a] = random.next_u64() as u8,
        4 if a < data.len() => data[a] ^= 1 << random.below(8),
        5 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len());
            data.splice(a..b, other[from..].iter().copied());
        }
        _ => data.truncate(b.max(data.len() / 2)),
    }
    data.truncate(16 << 10);
}

/// Runs `target` on mutated inputs; returns the input on which it panicked, if any.
fn find_failure(
    corpus: &[Vec<u8>],
    run: &mut FuzzRun,
    target: &(impl Fn(&[u8]) + std::panic::RefUnwindSafe),
) -> Option<Vec<u8>> {
    let mut random = TestRng::new(run.seed);
    while run.next_round() {
        let mut data = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(12).min(random.below(12)) {
            mutate(&mut data, corpus, &mut random);
        }
        if catch_unwind(|| target(&data)).is_err() {
            return Some(data);
        }
    }
    None
}

#[test]
fn mutated_policies_never_break_the_compiler() {
    let mut run = FuzzRun::from_environment(ROUNDS);
    let compiled = AtomicUsize::new(0);
    let target = |data: &[u8]| {
        fuzz_policy(data);
        let text = String::from_utf8_lossy(data);
        let done = compile(Source { name: "p", text: &text }, &CompileOptions::default()).policy.is_some();
        compiled.fetch_add(usize::from(done), Ordering::Relaxed);
    };
    let failure =
        find_failure(&policies(), &mut run, &target).map(|data| String::from_utf8_lossy(&data).into_owned());
    assert_eq!(failure, None);
    let (compiled, rounds) = (compiled.into_inner() as u64, run.done());
    println!("{compiled} of {rounds} inputs compiled, seed {}", run.seed);
    assert!(compiled > rounds / 50, "mutation must leave some policies whole: {compiled}");
}

#[test]
fn mutated_algorithms_never_break_the_compiler() {
    let corpus = corpus(&["algorithms", "tests/corpus"]);
    assert!(corpus.len() > 20, "{}", corpus.len());
    let mut run = FuzzRun::from_environment(ROUNDS / 4);
    let failure = find_failure(&corpus, &mut run, &fuzz_policy);
    println!("{} inputs, seed {}", run.done(), run.seed);
    assert_eq!(failure.map(|data| String::from_utf8_lossy(&data).into_owned()), None);
}

/// A policy with tenants, whose files are the policy itself.
const TENANT: &[u8] = include_bytes!("../corpus/tenant.weft");

#[test]
fn mutated_tenants_never_break_the_compiler() {
    fuzz_policy(TENANT);
    let mut run = FuzzRun::from_environment(ROUNDS / 4);
    let failure = find_failure(&[TENANT.to_vec()], &mut run, &fuzz_policy);
    println!("{} inputs, seed {}", run.done(), run.seed);
    assert_eq!(failure.map(|data| String::from_utf8_lossy(&data).into_owned()), None);
}

#[test]
fn corrections_of_mutated_policies_hold() {
    let corpus = corpus(&["../../policies", "algorithms", "tests/corpus"]);
    let mut run = FuzzRun::from_environment(ROUNDS / 2);
    let (shown, ruined) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let target = |data: &[u8]| {
        let corrections = corrections_help(&String::from_utf8_lossy(data));
        shown.fetch_add(corrections, Ordering::Relaxed);
        ruined.fetch_add(usize::from(corrections > 0), Ordering::Relaxed);
    };
    let failure = find_failure(&corpus, &mut run, &target);
    assert_eq!(failure.map(|data| String::from_utf8_lossy(&data).into_owned()), None, "seed {}", run.seed);
    let (shown, ruined, rounds) = (shown.into_inner(), ruined.into_inner(), run.done());
    println!("{shown} corrections of {ruined} texts of {rounds}, seed {}", run.seed);
    assert!(ruined as u64 > rounds / 10, "corrections must be shown: {ruined} of {rounds}");
}

#[test]
fn the_loop_finds_a_fault_that_was_put_in() {
    let canary = |data: &[u8]| {
        let text = String::from_utf8_lossy(data);
        let compiled = compile(Source { name: "p", text: &text }, &CompileOptions::default());
        let fault = compiled.diagnostics.iter().any(|d| d.code == Code::HostBits);
        assert!(!fault, "as if the compiler broke on a prefix with host bits");
    };
    assert!(
        find_failure(&policies(), &mut FuzzRun::fixed(ROUNDS, 1), &canary).is_some(),
        "the canary must be found"
    );
}

#[test]
fn odd_inputs() {
    let deep =
        |open: &str, close: &str| format!("root = {}default{}", open.repeat(100_000), close.repeat(100_000));
    let inputs = [
        deep("fair of ", ""),
        deep("wfq { ", ": 1 }"),
        format!("class a = {}tcp{}\nroot = a", "(".repeat(100_000), ")".repeat(100_000)),
        format!("class a = {}tcp\nroot = a", "not ".repeat(100_000)),
        format!("class a = tcp{}\nroot = a", " and not dport 7".repeat(50_000)),
        format!("class a = tcp{}\nroot = a", " or udp port 7..9".repeat(50_000)),
        "root = priority { ".repeat(20_000),
        "\"".repeat(100_000),
        ":".repeat(100_000),
        "\n".repeat(100_000),
        "[ ".repeat(100_000),
        "; ".repeat(100_000),
        "‘ ".repeat(100_000),
        "/* \n".repeat(100_000),
        "% ! & | * + \n".repeat(20_000),
        format!("root = wfq {{ {}", "a = 1, ".repeat(50_000)),
        format!("root = wfq {{ {}", "a ".repeat(100_000)),
        format!("class a = {}", "tcp udp ".repeat(50_000)),
        format!("class a = dport {}", "80, ".repeat(100_000)),
        "root = priority a, b\n".repeat(20_000),
        "root = strict { default: 2 }".to_owned(),
        "clas a = tcp\n".repeat(20_000),
        "root = wfq { wfq { a, b }, ".repeat(10_000),
        "\u{feff}root = default".to_owned(),
        String::new(),
    ];
    for input in inputs {
        fuzz_policy(input.as_bytes());
    }
    fuzz_policy(&[0xff, 0xfe, b'=', 0xc3, b'\n', 0x80]);
}
