//! Drawings of policies: nothing covers anything else, all of it is in the view, and names cannot break the document.

use proptest::prelude::*;
use std::fmt::Write;
use weft_policy::drawing::{Area, Drawing, Role};
use weft_policy::{FileText, NoFiles, Source, TenantTexts, draw};

fn drawing(text: &str) -> Drawing {
    draw(Source { name: "p", text }, &NoFiles).unwrap_or_else(|| panic!("refused:\n{text}"))
}

fn ready(name: &str) -> String {
    let path = format!("{}/../../policies/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("the policy is there")
}

/// Asserts the rules of a drawing.
#[track_caller]
fn assert_readable(drawing: &Drawing) {
    let boxes = drawing.boxes.iter().map(|one| (one.area, one.title.as_str()));
    let labels = drawing.labels.iter().map(|label| (label.area, label.text.as_str()));
    let all: Vec<(Area, &str)> = boxes.chain(labels).collect();
    let (width, height) = (drawing.width as i32, drawing.height as i32);
    for (at, (area, name)) in all.iter().enumerate() {
        let inside = area.left >= 0 && area.top >= 0 && area.right <= width && area.bottom <= height;
        assert!(inside && area.left < area.right && area.top < area.bottom, "{name}: {area:?}");
        for (other, of) in &all[..at] {
            assert!(!area.meets(other), "{name} {area:?} covers {of} {other:?}");
        }
    }
    for line in &drawing.lines {
        assert!(line.iter().all(|(x, y)| (0..=width).contains(x) && (0..=height).contains(y)), "{line:?}");
        for pair in line.windows(2) {
            for (area, name) in &all {
                assert!(!crosses(pair[0], pair[1], area), "{pair:?} crosses {name} {area:?}");
            }
        }
    }
}

/// Whether the inside of `area` has a point of the line; corners and borders do not count.
fn crosses(from: (i32, i32), to: (i32, i32), area: &Area) -> bool {
    (1..64).any(|step| {
        let between = |a: i32, b: i32| f64::from(a) + f64::from(b - a) * f64::from(step) / 64.0;
        let (x, y) = (between(from.0, to.0), between(from.1, to.1));
        x > f64::from(area.left)
            && x < f64::from(area.right)
            && y > f64::from(area.top)
            && y < f64::from(area.bottom)
    })
}

/// A policy of `count` classes in groups, some of them limited by destination.
fn many(count: usize) -> String {
    let mut text = String::from("link 100gbps\n");
    for n in 0..count {
        writeln!(text, "class tenant{n}.web = cgroup \"/tenants\" and tcp and dport 80..443 or mark {n}")
            .expect("text");
    }
    let groups = count.div_ceil(6);
    for group in 0..groups {
        let members: Vec<String> = (group * 6..count.min(group * 6 + 6))
            .map(|n| format!("fair of tenant{n}.web: {}", n + 1))
            .collect();
        writeln!(text, "group{group} = wfq {{ {} }}", members.join(", ")).expect("text");
    }
    let mut members: Vec<String> = (0..groups).map(|group| format!("group{group}")).collect();
    members[0] = "limit by destination { 10.0.1.0/24: 2gbps, 10.0.2.0/24: 500mbps } of group0".to_owned();
    writeln!(text, "root = priority {{ {} }}", members.join(", ")).expect("text");
    text
}

#[test]
fn ready_policies_and_those_of_many_classes_are_readable() {
    for name in ["figure1.weft", "figure11.weft", "rate-limit.weft", "tenants.weft"] {
        assert_readable(&drawing(&ready(name)));
    }
    for count in [1, 3, 12, 60, 200] {
        let drawn = drawing(&many(count));
        assert_readable(&drawn);
        let classes = drawn.boxes.iter().filter(|one| one.role == Role::Class).count();
        assert_eq!(classes, count + 1, "with `default`");
    }
}

#[test]
fn figure_1_has_the_nodes_of_the_papers() {
    let drawn = drawing(&ready("figure1.weft"));
    let of = |role| drawn.boxes.iter().filter(|one| one.role == role).count();
    // Two nodes of the tenant, two of the operator, two applications that share between flows, and the FIFO where the limits meet.
    assert_eq!((of(Role::Link), of(Role::Scheduling), of(Role::Shaping), of(Role::Class)), (1, 7, 2, 7));
    let labels: Vec<&str> = drawn.labels.iter().map(|label| label.text.as_str()).collect();
    assert!(["w:1", "w:2", "w:4", "1.", "2."].iter().all(|label| labels.contains(label)), "{labels:?}");
    let lowest = drawn.boxes.iter().max_by_key(|one| one.area.bottom).expect("a box");
    assert_eq!((lowest.role, lowest.lines.join(" ").as_str()), (Role::Link, "40 Gb/s"), "the link is below");
    let limit = drawn.boxes.iter().find(|one| one.role == Role::Shaping).expect("a limit");
    assert_eq!(limit.lines.join(" "), "limit 2 Gb/s to 10.0.1.0/24");
}

#[test]
fn limits_that_join_and_algorithms_with_arguments_are_drawn() {
    let text = "class a = udp\nclass b = tcp\n\
                d1 = limit 2gbps to 10.0.1.0/24 of apps\nd2 = limit 500mbps to 10.0.2.0/24 of apps\n\
                wan = limit 5gbps of d1\nvm = fifo { wan, d2 }\napps = edf { a: 2ms, b: budget 9ms }\n\
                root = wfq { vm: 3, bucket 1gbps of default: 2 }\n";
    let drawn = drawing(text);
    assert_readable(&drawn);
    let labels: Vec<&str> = drawn.labels.iter().map(|label| label.text.as_str()).collect();
    assert!(["2ms", "budget 9ms", "w:3"].iter().all(|label| labels.contains(label)), "{labels:?}");
    let lines: Vec<String> = drawn.boxes.iter().map(|one| one.lines.join(" ")).collect();
    assert!(lines.contains(&"bucket 1gbps".to_owned()), "{lines:?}");
}

#[test]
fn a_drawing_is_a_document_and_always_the_same() {
    let text = "class a = cgroup \"/<b>&\u{1f600}'\u{ffff}\" # größe\nroot = priority { a }\n";
    let svg = drawing(text).to_svg();
    assert_eq!(svg, drawing(text).to_svg());
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert!(svg.contains("/&lt;b&gt;&amp;\u{1f600}&apos;\u{fffd}") && !svg.contains("<b>"), "{svg}");
    assert!(
        draw(Source { name: "p", text: "root = priorty { a }" }, &NoFiles).is_none(),
        "a refused policy has no drawing"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn random_trees_are_readable(groups in prop::collection::vec((1_usize..7, 0_usize..4, 1_usize..40), 1..9)) {
        let (mut text, mut names) = (String::new(), Vec::new());
        for (group, (count, kind, length)) in groups.iter().enumerate() {
            let members: Vec<String> = (0..*count).map(|n| format!("{}{group}.{n}", "x".repeat(*length))).collect();
            members.iter().for_each(|member| writeln!(text, "class {member} = mark {group}").expect("text"));
            let list = members.join(", ");
            let node = match kind {
                0 => format!("priority {{ {list} }}"),
                1 => format!("wfq {{ {} }}", members.join(": 77, ") + ": 7"),
                2 => format!("limit by destination {{ 10.0.1.0/24: 2gbps, 10.0.2.0/24: 1gbps }} of fifo {{ {list} }}"),
                _ => format!("limit 1gbps burst 64kib of limit 2gbps of priority {{ {list} }}"),
            };
            writeln!(text, "node{group} = {node}").expect("text");
            names.push(format!("node{group}"));
        }
        writeln!(text, "root = priority {{ {} }}", names.join(", ")).expect("text");
        assert_readable(&drawing(&text));
    }
}

#[test]
fn tenants_have_their_classes_and_conditions() {
    let file = FileText {
        name: "vm.weft".to_owned(),
        text: "class web = tcp port 80\nroot = edf { web: 7ms, default: 9ms }\n".to_owned(),
    };
    let files = TenantTexts([("vm".to_owned(), file)].into());
    let text =
        "link 1gbps\nvm = tenant \"vm.weft\" of cgroup \"/vm\" { classes 4 }\nroot = priority { vm }\n";
    let svg = draw(Source { name: "p", text }, &files).expect("a drawing").to_svg();
    for expected in ["vm.web", "tcp port 80", "7ms", "what no class"] {
        assert!(svg.contains(expected), "{expected}: {svg}");
    }
}
