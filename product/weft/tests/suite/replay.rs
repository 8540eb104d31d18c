//! `weft replay` from end to end, on a small capture made here.

use crate::common::{assert_conserved, assert_head, file, json, run};

const POLICY: &str = "link 1mbps\nclass web = udp port 80\nclass rest = udp port 81\n\
                      root = priority { web, rest, default }\n";

/// Returns a capture of `count` UDP packets of 1000 bytes, all at the same time, to ports 81 and 80 in turn.
fn capture(count: u16) -> Vec<u8> {
    let mut pcap = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        pcap.extend(word.to_le_bytes());
    }
    for number in 0..count {
        for word in [1_000_000_u32, 0, 1000, 1000] {
            pcap.extend(word.to_le_bytes());
        }
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0, 0x03, 0xda, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend([0x10, 0, 0, 81 - (number % 2) as u8, 0x03, 0xc6, 0, 0]);
        frame.resize(1000, 0);
        pcap.extend(frame);
    }
    pcap
}

#[test]
fn a_capture_leaves_by_the_policy() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let input = file(&folder, "in.pcap", capture(20));
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (out, document) = (path("out.pcap"), path("counts.json"));
    let said = run(&["replay", &policy, &input, &out, "--json", &document]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("web") && said.err.is_empty(), "{said:?}");

    let document = json(&document);
    assert_head(&document, "weft-replay/1");
    assert_conserved(&document["conservation"]);
    let class = |name: &str| {
        let classes = document["classes"].as_array().expect("classes");
        classes.iter().find(|c| c["class"] == name).expect("class").clone()
    };
    assert_eq!((&class("web")["packets"], &class("rest")["bytes"]), (&10.into(), &10_000.into()));
    // 10 packets of 1000 + 24 bytes at 1 Mb/s take 82 ms; the first packet of all was sent before them.
    let last = class("web")["last_s"].as_f64().expect("time");
    assert!((0.081..0.092).contains(&last), "{last}");
    assert!(class("rest")["last_s"].as_f64().expect("time") > 0.16);
    assert_eq!(std::fs::metadata(&out).expect("capture").len(), 24 + 20 * 1016);
}

#[test]
fn a_capture_that_is_cut_off_is_told_with_the_place_and_what_was_written() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let mut bytes = capture(5);
    bytes.truncate(bytes.len() - 7);
    let input = file(&folder, "in.pcap", bytes);
    let out = folder.path().join("out.pcap");
    let said = run(&["replay", &policy, &input, out.to_str().expect("UTF-8")]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("in.pcap") && said.err.contains("4 packets before"), "{}", said.err);
    assert_eq!(std::fs::metadata(&out).expect("capture").len(), 24 + 4 * 1016);

    let input = file(&folder, "no.pcap", "not a capture at all, but long enough to be one");
    let said = run(&["replay", &policy, &input, out.to_str().expect("UTF-8")]);
    assert!(said.code == 1 && said.err.contains("no.pcap"), "{}", said.err);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
}

#[test]
fn a_replay_without_a_rate_or_onto_itself_is_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let input = file(&folder, "in.pcap", capture(2));
    let policy = file(&folder, "p.weft", POLICY.replace("link 1mbps\n", ""));
    let said = run(&["replay", &policy, &input, "/dev/null"]);
    assert!(said.code == 1 && said.err.contains("--rate"), "{}", said.err);
    let said = run(&["replay", &policy, &input, &input, "--rate", "1mbps"]);
    assert!(said.code == 1 && said.err.contains("in.pcap"), "{}", said.err);
    assert_eq!(std::fs::read(&input).expect("input"), capture(2), "the input is whole");
    assert_eq!(run(&["replay", &policy, &input, "/dev/null", "--rate", "1mbps"]).code, 0);
}
