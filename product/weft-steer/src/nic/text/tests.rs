//! Tests of models as texts: accepted texts, and errors with their places.

use super::*;
use crate::nic::random::some_nic;
use crate::nic::{shipped, shipped_model};
use proptest::prelude::*;

proptest! {
    #[test]
    fn what_is_written_reads_back(nic in some_nic()) {
        let text = write(&nic);
        let again = read(&text, "random.nic");
        prop_assert_eq!(again.as_ref(), Ok(&nic), "{}", text);
    }
}

#[test]
fn every_shipped_model_is_read_and_written() {
    for (name, text) in shipped() {
        let nic = read(text, name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(nic.name, *name);
        assert_eq!(read(&write(&nic), name).as_ref(), Ok(&nic));
        assert_eq!(shipped_model(name).as_ref(), Some(&nic));
        assert!(!nic.facts.is_empty(), "{name} says where it is from");
    }
    assert!(shipped().is_sorted() && shipped_model("e1000").is_none());
}

#[test]
fn the_example_of_the_documentation_is_read() {
    let document = include_str!("../../../../../docs/nic-models.md");
    let example =
        document.split("```nic\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let nic = read(example, "nic-models.md").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((nic.tables.len(), nic.nodes.len(), nic.queues), (2, 7, 8));
    for (name, _) in shipped() {
        assert!(document.contains(&format!("| `{name}` |")), "{name} is listed");
    }
}

/// A linear congruential generator (Knuth, MMIX), so that failures can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }
}

#[test]
fn changed_models_are_read_or_refused() {
    let mut random = Random(82599);
    let words: Vec<&str> = shipped().iter().flat_map(|(_, text)| text.split_whitespace()).collect();
    let mut refused = 0;
    for round in 0..4000 {
        let mut text = shipped()[random.below(shipped().len())].1.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let (at, len) = (random.below(text.len()), random.below(40));
            let to = (at + len).min(text.len());
            match random.below(4) {
                0 => drop(text.splice(at..to, [])),
                1 => text[at] ^= 1 << random.below(8),
                2 => {
                    let piece = text[at..to].to_vec();
                    let place = random.below(text.len());
                    drop(text.splice(place..place, piece));
                }
                _ => {
                    let word = format!(" {} ", words[random.below(words.len())]);
                    drop(text.splice(at..at, word.into_bytes()));
                }
            }
        }
        refused += usize::from(read(&String::from_utf8_lossy(&text), "changed.nic").is_err());
        fuzz(&text);
        assert!(round < 100 || (1..round).contains(&refused), "some are refused, some are not: {refused}");
    }
}

/// A model with `table`, `rss` and `nodes` in place of its defaults.
fn model(parts: &str) -> String {
    format!("nic test \"Test\"\n{parts}")
}

const TABLE: &str =
    "table t { capacity 1 match dst-port exact order disjoint actions queue interface none }\n";

#[test]
fn what_is_wrong_is_said_with_line_column_and_hint() {
    let table = |changed: &str| format!("queues 4\n{changed}\nnode a filter t else b node b queue 0");
    let rss = |rss: &str| format!("queues 4\nrss {{ {rss} }}\nnode a rss else b node b queue 0");
    for (text, says, hint) in [
        ("".to_owned(), "does not say how many queues", "add `queues N`"),
        ("queues ^0".into(), "cannot be the number of receive queues", "from 1 to 65536"),
        ("queues 4".into(), "has no node", "packets enter at the first"),
        ("queues 4\n^queues 4".into(), "second time", "keep one"),
        ("^queus 4".into(), "does not begin a part", "did you mean `queues`?"),
        ("queues 4 node ^a queue 4".into(), "node `a` is queue 4", "queues are 0 to 3"),
        ("queues 4 node a ^quene 4".into(), "not a kind of node", "did you mean `queue`?"),
        ("queues 4 node a drop node ^a drop".into(), "two of the name `a`", "another name"),
        ("queues 4 node a drop node ^b drop".into(), "no packet reaches node `b`", "first node, `a`"),
        ("queues 4 node ^rss drop".into(), "cannot be the name of a node", "begins a part"),
        ("queues 4 node a filter ^t else a".into(), "there is no table `t`", "there are none"),
        ("queues 4 node ^a rss else a".into(), "spreads by RSS, but the NIC has no RSS", "add `rss"),
        (
            "queues 4\nnode a classify { port p -> ^spread }\nnode spraed drop".into(),
            "there is no node `spread`",
            "did you mean `spraed`?",
        ),
        (
            "queues 4\nnode ^a classify { port p -> b }\nnode b classify { port p -> a }".into(),
            "packets can go from `a` back to it",
            "at most once",
        ),
        (
            "queues 4\nnode a classify { port p -> b port ^p -> b }\nnode b drop".into(),
            "`p` is given for the second time",
            "keep one",
        ),
        (
            "queues 4\nnode a classify { port p -> l operand 0 is true }\nnode ^l and 2 { true -> d }\nnode d drop".into(),
            "nothing feeds operand 1 of `l`",
            "-> l operand 1 is true",
        ),
        (
            "queues 4\nnode ^a classify { port p -> l operand 2 is true }\nnode l and 2 { }".into(),
            "feeds operand 2 of `l`",
            "operands are 0 to 1",
        ),
        (
            "queues 4\nnode ^a classify { port p -> l }\nnode l and 1 { }".into(),
            "without saying which operand",
            "`l operand 0 is true`",
        ),
        (
            "queues 4\nnode ^a classify { port p -> d operand 0 is true }\nnode d drop".into(),
            "which has none",
            "write `d` alone",
        ),
        (
            "queues 4\nnode a classify { port p when dst-port ^99999 -> d }\nnode d drop".into(),
            "does not fit into the 16 bits",
            "dst-port takes a number",
        ),
        (format!("queues 4\n{}node a drop", TABLE.replace("e t", "e ^t")), "no node stands for table `t`", "filter t else"),
        (table(&TABLE.replace("exact", "^exakt")), "not a kind of masks", "did you mean `exact`?"),
        (table(&TABLE.replace("dst-port", "^dst-prt")), "not a header field", "did you mean `dst-port`?"),
        (table(&TABLE.replace("t { capacity 1", "^t { capacity 0")), "cannot hold any rule", "`capacity N`"),
        (table(&TABLE.replace("order disjoint", "").replace("t {", "^t {")), "has no `order`", "order ..."),
        (table(&TABLE.replace("order", "^odrer")), "not a property of a table", "did you mean `order`?"),
        (table(&TABLE.replace("order", "last-queue ^4 order")), "beyond the NIC's", "last queue is 3"),
        (table(&TABLE.replace("order", "share ^x order")), "no pool `x`", "there are none"),
        (table(&TABLE.replace("order", "priorities 3 to ^2 order")), "highest priority", "from 3 to 255"),
        (table(&TABLE.replace("order", "within ^not tcp order")), "tests side by side", "leave out"),
        (table(&TABLE.replace("actions queue", "^actions context")), "NIC has no RSS", "add `rss"),
        (table(&format!("{TABLE}pool ^p of 3")), "no table shares pool `p`", "add `share p`"),
        (table(&format!("{TABLE}exclude t, ^t because \"x\"")), "cannot exclude itself", "once"),
        (table(&format!("{TABLE}exclude t ^because \"x\"")), "another table", "`,`"),
        (table(&format!("{TABLE}fact \"x\" ^form \"y\"")), "expected `from`, found `form`", "write `from`"),
        (table(&format!("{TABLE}fact ^\"x")), "not closed on its line", "in quotes"),
        (rss("entries ^100 fixed queues 4 key 40 bytes fixed"), "a power of two", "such as 128"),
        (rss("entries 128 fixed queues 5 key 40 bytes fixed").replace("rss {", "^rss {"), "RSS names 5 queues", "at most `queues 4`"),
        (rss("entries 128 fixed queues 4").replace("{ e", "^{ e"), "`rss` has no `key`", "key ..."),
        (rss("entries 128 ^loose queues 4"), "not `settable` or `fixed`", "settable, fixed"),
        (
            "queues 4\n^rss { entries 2 fixed queues 4 key 40 bytes fixed }\nnode b queue 0".into(),
            "neither a node nor a table uses it",
            "node NAME rss",
        ),
    ] {
        // `^` marks the expected place; without it, the expected place is the end.
        let marked = model(&text);
        let at = marked.find('^').unwrap_or(marked.len());
        let line = marked[..at].split('\n').count();
        let column = marked[..at].rsplit('\n').next().map_or(0, str::len) + 1;
        let place = format!("{line}:{column}");
        let error = read(&marked.replace('^', ""), "test.nic").expect_err(&text);
        let shown = error.to_string();
        assert!(shown.starts_with(&format!("test.nic:{place}: error: ")), "{text}\n{shown}, not {place}");
        assert!(error.what.contains(says), "{text}\n{shown}");
        assert!(error.hint.contains(hint), "{text}\n{shown}");
    }
}

#[test]
fn a_cycle_is_named_by_one_of_its_nodes() {
    let text = model(
        "queues 4 node in classify { port p -> a } node a classify { port p -> b port q -> after }
         node b classify { port p -> a } node after classify { port p -> end } node end drop",
    );
    let error = read(&text, "test.nic").expect_err("a cycle");
    assert!(error.what.contains("from `a` back") || error.what.contains("from `b` back"), "{error}");
}

#[test]
fn large_texts_take_no_long_time() {
    // Many elements of each kind that is checked for duplicates: ports, nodes, tables. Then a name that is searched among all of
    // them.
    let mut text = String::from("nic large \"Large\" queues 4 node in classify {\n");
    (0..30_000).for_each(|i| text.push_str(&format!("port p{i} -> n{i}\n")));
    text.push_str("}\n");
    (0..30_000).for_each(|i| text.push_str(&format!("node n{i} drop\n")));
    let nic = read(&text, "large.nic").expect("a large model");
    assert_eq!(nic.nodes.len(), 30_001);
    assert_eq!(read(&write(&nic), "large.nic").as_ref(), Ok(&nic));
    let error = read(&text.replace("-> n7\n", "-> x\n"), "large.nic").expect_err("unknown");
    assert!(error.hint.len() < 500, "{error}");
    let crowd: String = (0..70_000).map(|i| format!("node n{i} drop\n")).collect();
    let error = read(&format!("nic crowd \"Crowd\" queues 1 {crowd}"), "crowd.nic").expect_err("too many");
    assert!(error.what.contains("more than 65535"), "{error}");
}

#[test]
fn a_files_name_is_shown_whole_and_cannot_steer_a_terminal() {
    let name = format!("{}/\u{1b}[2J.nic", "folder".repeat(20));
    let error = read("nic", &name).expect_err("no name").to_string();
    assert!(error.starts_with(&"folder".repeat(20)) && !error.contains('\u{1b}'), "{error}");
}
