//! User-defined algorithms: their text, their programs, their price.

mod node;
mod published;
mod samples;

use expect_test::expect;
use weft_policy::algorithm::{algorithms, shipped_algorithm};
use weft_policy::cost::Profile;
use weft_policy::library::shipped;
use weft_policy::{Code, Diagnostic, Source, price, reformat};
use weft_sched::packets::{Dequeue, Descriptor, PacketScheduler};
use weft_sched::program::{Custom, Discipline, LeafDiscipline};
use weft_units::{Bytes, Instant, LaneId, Weight};

#[test]
fn the_library_compiles() {
    let broken: Vec<&str> =
        shipped().iter().map(|s| s.name).filter(|name| shipped_algorithm(name).is_none()).collect();
    let found = shipped().iter().filter(|s| broken.contains(&s.name)).flat_map(|s| {
        let text = format!("{}\nroot = default\n", s.text);
        let all = crate::common::compiled(&text).diagnostics;
        all.into_iter().map(|d| format!("{}: {d}", s.name)).collect::<Vec<_>>()
    });
    assert!(broken.is_empty(), "{broken:?}\n{}", found.collect::<Vec<_>>().join("\n"));
    for shipped in shipped() {
        assert_eq!(reformat(Source { name: "p", text: shipped.text }).as_deref(), Ok(shipped.text));
    }
}

#[test]
fn an_own_algorithm_holds_in_place_of_a_shipped_one() {
    let text =
        "algorithm edf(level: count) { rank = level }\nclass a = tcp\nroot = edf { a: 1, default: 2 }\n";
    let (cost, diagnostics) = price(Source { name: "p", text }, &[]);
    assert_eq!(diagnostics, []);
    assert_eq!(cost.map(|cost| cost.orders[0].cost.parameter_bytes), Some(8));
    let old = "class edf = tcp\nclass algorithm = udp\nroot = wfq { edf: 1, algorithm: 2, shaper: 1 }\nshaper = fair of default\n";
    assert_eq!(crate::common::compiled(old).diagnostics, [], "the words are no reserved ones");
}

#[test]
fn a_policy_with_algorithms_is_priced_and_compiled() {
    let text = "\
link 10gbps
class voice = udp
class web = tcp
root = priority { limit 1gbps of edf budget 5ms of voice, tenants }
tenants = wf2q { las of web: 2, codel of fair of default: 1 }
";
    let (cost, diagnostics) = price(Source { name: "p", text }, &[]);
    assert_eq!(diagnostics, []);
    expect![[r#"
        orders     at most 3 on the path of default, twice for a packet that is held
        operations at most 94 for a packet
        state      128 B for nodes and their children, 8 B for a flow
        limits     1
        order      root over 2 children: priority, native
        order        tenants over 2 children: wf2q: 36 operations for a packet (active 4, rank 8, sent 28); 16 B, and 24 B for each child; a second order, ranks again with the head
        order        tenants#2 over flows: codel: 58 operations for a packet (fetched 58); 24 B, and 0 B for each flow; drops or marks
        order          tenants#3 over flows: fair, native
        order          tenants#1 over flows: las: 6 operations for a packet (rank 2, sent 4); 0 B, and 8 B for each flow
        order        root#2 over flows: edf: 7 operations for a packet (rank 7); 0 B, and 0 B for each flow
        software   about 177 ns for a packet, estimated
        loom-1ghz  8 ns of 5.12 ns for 64-byte frames at 100 Gb/s: too much
    "#]].assert_eq(&cost.expect("a price").to_string());
    let policy = crate::common::compiled(text).policy.expect("it compiles");
    let named = |custom: &Custom| {
        let dropper = custom.dropper.as_ref().map(|dropper| format!(" below {}", dropper.algorithm.name));
        format!("{}{} {:?}", custom.algorithm.name, dropper.unwrap_or_default(), custom.parameters)
    };
    let nodes = policy.program.nodes.iter().map(|node| match &node.discipline {
        Discipline::Custom(custom) => format!("{}: {}", node.name, named(custom)),
        other => format!("{}: {other:?}", node.name),
    });
    let leaves = policy.program.leaves.iter().map(|leaf| match &leaf.discipline {
        LeafDiscipline::Custom(custom) => format!("{}: {}", leaf.name, named(custom)),
        other => format!("{}: {other:?}", leaf.name),
    });
    expect![[r#"
        root: Priority
        tenants: wf2q [[2], [1]]
        voice: edf [[5000000]]
        web: las [[]]
        tenants#3: stfq below codel [[1]]"#]]
    .assert_eq(&nodes.chain(leaves).collect::<Vec<_>>().join("\n"));
}

#[test]
fn algorithms_of_the_text_order_packets() {
    // Case 17 of the corpus: the flow that had least is served first.
    let policy = crate::common::compiled("class a = tcp\nroot = las of a\n").policy.expect("it compiles");
    let mut scheduler = PacketScheduler::new(&policy.program).expect("a program");
    let [one, two] = [(); 2].map(|()| scheduler.add_flow(LaneId(0), Weight::ONE).expect("a flow"));
    let mut sent = String::new();
    for turn in 0..8_u64 {
        let now = Instant::from_nanos(1_000 * turn);
        let arrivals = match turn {
            0 => vec![one; 6],
            4 => vec![two; 2],
            _ => Vec::new(),
        };
        for flow in arrivals {
            let descriptor = Descriptor { len: Bytes(1_000), ..Descriptor::default() };
            scheduler.enqueue(flow, descriptor, now).expect("room");
        }
        let Dequeue::Packet(departure) = scheduler.dequeue(now) else { panic!("a packet at {turn}") };
        sent.push(if departure.flow == one { 'A' } else { 'B' });
    }
    assert_eq!(sent, "AAAABBAA");
}

fn refusals(text: &str, profile: Profile) -> Vec<String> {
    let (_, diagnostics) = price(Source { name: "p", text }, &[profile]);
    diagnostics.iter().filter(|d| d.is_error()).map(Diagnostic::one_line).collect()
}

#[test]
fn profiles_refuse_with_the_term_the_place_and_a_cure() {
    let text = "class a = tcp\nroot = wf2q { a: 1, default: 2 }\n";
    assert_eq!(refusals(text, Profile::Software), [""; 0]);
    expect!["p:2:8: error[E0512]: the profile loom-1ghz cannot run `wf2q`: it holds children back until a virtual time, and this NIC has one order for a node"].assert_eq(&refusals(text, Profile::Loom1Ghz).join("\n"));
    let held = "class a = tcp\nroot = priority { limit 1gbps of a, default }\n";
    expect!["p:2:1: error[E0512]: the profile loom-1ghz has 5.12 ns for a packet, and the policy takes 8: a packet that a limit holds pops the root twice, 4 cycles each time"].assert_eq(&refusals(held, Profile::Loom1Ghz).join("\n"));
    assert_eq!(refusals("class a = tcp\nroot = wfq { a: 1, default: 1 }\n", Profile::Loom1Ghz), [""; 0]);
    let aged = "class a = tcp\nroot = pfabric of a\n";
    assert!(refusals(aged, Profile::Kernel)[0].contains("`until`"));
}

#[test]
fn the_standard_form_of_algorithms() {
    let text = "algorithm   a-b( weight ,x:duration=5ms ){node v:vtime;child f , g:vtime, c:count forget after 10s\nrank=max( f,v )from v until now+x then 0;begin{v=max(v,rank);if c>0{c=0}else if c==1{c=2;}else{c-=1}} # last\n}\nshaper s { from now }\nroot=edf{default:2ms}\n";
    let new = reformat(Source { name: "p", text }).expect("a form");
    expect![[r#"
        algorithm a-b(weight, x: duration = 5ms) {
            node v: vtime
            child f, g: vtime, c: count forget after 10s
            rank = max(f, v) from v until now + x then 0
            begin { v = max(v, rank); if c > 0 { c = 0 } else if c == 1 { c = 2 } else { c -= 1 } }  # last
        }
        shaper s { from now }
        root = edf { default: 2ms }
    "#]]
    .assert_eq(&new);
    assert_eq!(reformat(Source { name: "p", text: &new }).as_ref(), Ok(&new));
    assert_eq!(algorithms(&new), algorithms(text));
}

#[test]
fn a_part_has_at_most_256_operations() {
    let sum = vec!["head.len"; 150].join(" + ");
    let text = format!("algorithm a {{ rank = {sum} }}\nroot = default\n");
    let (_, found) = price(Source { name: "p", text: &text }, &[]);
    assert_eq!((found.len(), found[0].code), (1, Code::TooMuch), "{found:?}");
    let deep =
        format!("algorithm a {{ rank = {}1{} }}\nroot = default\n", "(".repeat(100_000), ")".repeat(100_000));
    let long = format!("algorithm a {{ rank = 1{} }}\nroot = default\n", " + 1".repeat(100_000));
    let nested = format!("algorithm a {{ sent {{ {} }} }}\n", "if 1 < 2 { ".repeat(50_000));
    let open = "algorithm a {\n".repeat(20_000);
    for text in [deep, long, nested, open, "algorithm a { rank = not ".repeat(10_000)] {
        weft_policy::fuzz_policy(text.as_bytes());
    }
}

/// SplitMix64.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as usize
}

#[test]
fn mutated_algorithms_never_break_the_compiler() {
    const PIECES: &[&str] = &[
        "{",
        "}",
        "(",
        ")",
        "=",
        "+=",
        "-",
        "*",
        "/",
        "or",
        "and",
        "not",
        "if",
        "else",
        "then",
        "until",
        "from",
        "rank",
        "head.deadline",
        "head.len",
        "p.left",
        "now",
        "most",
        "never",
        "0",
        "5ms",
        "1gbps",
        "weights",
        "lowest s",
        "let x = ",
        "min(",
        "over_sqrt(",
        "node a: vtime",
        "child s: time",
        "sent {",
        "arrives {",
        "rerank",
        "drop",
        ";",
        ",",
        "\n",
        "algorithm b ",
        "shaper",
        "root = edf { default: 1ms }",
        "class c-d = tcp",
        "# x",
        "''",
        "%",
        "==",
        "x++",
        ":",
    ];
    let mut state = 1;
    let mut whole = 0;
    for _ in 0..1500 {
        let library = shipped();
        let mut text = library[next(&mut state) % library.len()].text.to_owned();
        for _ in 0..=next(&mut state) % 4 {
            let place = |at: usize| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let (a, b) =
                (place(next(&mut state) % (text.len() + 1)), place(next(&mut state) % (text.len() + 1)));
            let (a, b) = (a.min(b), a.max(b));
            match next(&mut state) % 4 {
                0 => text.replace_range(a..b.min(a + 12), ""),
                1 => {
                    let copy = text[a..b.min(a + 80)].to_owned();
                    text.insert_str(a, &copy);
                }
                _ => text.insert_str(a, PIECES[next(&mut state) % PIECES.len()]),
            }
        }
        text += "\nroot = default\n";
        whole += usize::from(!algorithms(&text).is_empty());
        weft_policy::fuzz_policy(text.as_bytes());
    }
    assert!(whole > 100, "mutation must leave some algorithms whole: {whole}");
}

#[test]
fn the_examples_of_the_guide_are_right() {
    let path = format!("{}/../../docs/algorithms.md", env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(path).expect("the guide is there");
    let (guide, _) = guide.split_once("\n## Grammar\n").expect("the guide has a grammar");
    let mut examples: Vec<String> = Vec::new();
    let mut inside = false;
    for line in guide.lines() {
        match line.strip_prefix("    ") {
            Some(code) if inside => *examples.last_mut().expect("one") += &format!("{code}\n"),
            Some(code) => examples.push(format!("{code}\n")),
            None if line.is_empty() && inside => {
                *examples.last_mut().expect("one") += "\n";
                continue;
            }
            None => {}
        }
        inside = line.starts_with("    ");
    }
    let (tests, policies): (Vec<_>, Vec<_>) = examples
        .iter()
        .filter(|example| !example.starts_with('$'))
        .partition(|example| example.starts_with("policy "));
    assert!(policies.len() >= 4 && tests.len() == 1, "{examples:?}");
    for policy in policies {
        let (_, found) = price(Source { name: "p", text: policy }, &[]);
        assert_eq!(found, [], "{policy}");
        assert_eq!(
            reformat(Source { name: "p", text: policy }).as_ref().map(|new| new.trim_end()),
            Ok(policy.trim_end())
        );
    }
    let trials: weft_policy::trial::Trials = tests[0].parse().expect("a test");
    published::check(&trials.cases[0], "edf", &[("f1", "5us"), ("f2", "5us")]);
}
