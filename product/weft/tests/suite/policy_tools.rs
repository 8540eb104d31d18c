//! `weft policy fmt`, `explain`, `export`, `draw` and `serve`: files, exit codes, commands that the kernel accepts, editors.

use crate::common::{Said, assert_head, file, run, weft};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;
use weft_host::link::{self, VethOptions};
use weft_host::tc::TcDevice;
use weft_host::{Mac, NetNs, testing};

const MESSY: &str =
    "link 10gbps\nclass web=tcp   port 80 # of the shop\nroot = wfq{ fair of web:1,default : 1 }\n";
const TIDY: &str =
    "link 10gbps\nclass web = tcp port 80  # of the shop\nroot = wfq { fair of web: 1, default: 1 }\n";

/// Runs the program with `input` on standard input.
fn run_with(args: &[&str], input: &str) -> Said {
    let mut child = weft().args(args).stdin(Stdio::piped()).spawn().expect("run weft");
    child.stdin.take().expect("standard input").write_all(input.as_bytes()).expect("write");
    child.wait_with_output().expect("output").into()
}

#[test]
fn fmt_writes_the_standard_form_in_place() {
    let folder = tempfile::tempdir().expect("folder");
    let (messy, tidy) = (file(&folder, "messy.weft", MESSY), file(&folder, "tidy.weft", TIDY));
    let read = |path: &str| std::fs::read_to_string(path).expect("read");

    let checked = run(&["policy", "fmt", "--check", &messy, &tidy]);
    assert_eq!((checked.code, checked.out), (1, format!("{messy}\n")), "{}", checked.err);
    let diff = run(&["policy", "fmt", "--diff", &messy]);
    assert_eq!(diff.code, 0, "{}", diff.err);
    assert!(
        diff.out.contains("-class web=tcp   port 80 # of the shop\n")
            && diff.out.contains("+class web = tcp port 80"),
        "{}",
        diff.out
    );
    assert_eq!(read(&messy), MESSY, "neither writes");

    let written = run(&["policy", "fmt", &messy, &tidy]);
    assert_eq!((written.code, written.out.as_str(), written.err.as_str()), (0, "", ""));
    assert_eq!((read(&messy).as_str(), read(&tidy).as_str()), (TIDY, TIDY));
    assert_eq!(run(&["policy", "fmt", "--check", &messy]).code, 0);
    assert_eq!(run_with(&["policy", "fmt", "-"], MESSY).out, TIDY);
    assert_eq!(run_with(&["policy", "fmt", "--check", "-"], MESSY).code, 1);
}

#[test]
fn fmt_leaves_a_file_with_syntax_errors_alone() {
    let folder = tempfile::tempdir().expect("folder");
    let wrong = "class web=tcp\nroot = priorty { web }\n";
    let (bad, messy) = (file(&folder, "bad.weft", wrong), file(&folder, "messy.weft", MESSY));
    let said = run(&["policy", "fmt", &bad, &messy]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert!(
        said.err.starts_with(&format!("{bad}:2:8: error[E0001]:")) && said.err.contains("`priority`"),
        "{}",
        said.err
    );
    assert_eq!(std::fs::read_to_string(&bad).expect("read"), wrong);
    assert_eq!(std::fs::read_to_string(&messy).expect("read"), TIDY, "the others are written");
}

#[test]
fn explain_tells_the_fate_of_a_packet() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", TIDY);
    let args = ["policy", "explain", &policy, "--packet", "tcp 192.0.2.1:1234 > 192.0.2.2:80"];
    let said = run(&args);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    for line in [
        "class      web (line 2: class web = tcp port 80)",
        "guarantee  5 Gb/s of 10 Gb/s, while every class sends",
    ] {
        assert!(said.out.contains(line), "{}", said.out);
    }
    let document = run(&[&args[..], &["--json", "-", "--rate", "1gbps"]].concat());
    let document = serde_json::from_str(&document.out).expect("only JSON on standard output");
    assert_head(&document, "weft-policy-explain/1");
    assert_eq!((&document["class"], &document["line"]), (&"web".into(), &2.into()));
    assert_eq!(document["guaranteed_bps"], 500_000_000);
    assert_eq!(document["path"][0]["weights"], 2);
}

#[test]
fn a_wrong_packet_is_wrong_usage() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", TIDY);
    let said = run(&["policy", "explain", &policy, "--packet", "tpc 192.0.2.1:1 > 192.0.2.2:80"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    assert!(said.err.contains("`tpc` is not a protocol") && said.err.contains("`tcp`"), "{}", said.err);
    let said = run(&["policy", "explain", &policy]);
    assert!(said.code == 2 && said.err.contains("--packet"), "{}", said.err);
}

#[test]
fn cost_prices_a_policy_and_refuses_it_for_a_profile() {
    let folder = tempfile::tempdir().expect("folder");
    let text = "class web = tcp\nroot = wf2q { edf budget 5ms of web: 1, default: 2 }\n";
    let policy = file(&folder, "p.weft", text);
    let said = run(&["policy", "cost", &policy]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    for words in ["orders     at most 2", "wf2q: ", "edf: ", "B for each flow", "loom-1ghz"] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    let said = run(&["policy", "cost", &policy, "--json", "-"]);
    let report: serde_json::Value = serde_json::from_str(&said.out).expect("a document");
    for (profile, fits) in [("software", true), ("loom-1ghz", false), ("kernel", true)] {
        let of = report["profiles"].as_array().expect("profiles").iter().find(|of| of["profile"] == profile);
        let of = of.unwrap_or_else(|| panic!("{profile}: {report}"));
        assert_eq!(of["fits"], fits, "{of}");
        assert_eq!(of["over"].as_array().map(Vec::is_empty), Some(fits), "{of}");
    }
    let said = run(&["policy", "cost", &policy, "--profile", "loom-1ghz"]);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.err.contains(":2:8: error[E0512]: the profile loom-1ghz cannot run `wf2q`"), "{}", said.err);
    let said = run(&["policy", "check", &policy]);
    assert_eq!(said.code, 0, "{}", said.out);
}

#[test]
fn an_export_names_what_is_missing() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", "root = default\n");
    let said = run(&["policy", "export", &policy, "--to", "tc", "--dev", "eth0"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert!(said.err.contains("--rate"), "{}", said.err);
    let said = run(&["policy", "export", &policy, "--to", "tc", "--dev", "eth0; reboot", "--rate", "1gbps"]);
    assert!(said.code == 1 && said.err.contains("not the name of a device"), "{}", said.err);
    let said = run(&["policy", "export", &policy, "--to", "nft", "--dev", "eth0"]);
    assert!(said.code == 2 && said.err.contains("tc"), "{}", said.err);
}

/// The policy of the test on the kernel, without what needs other classifiers than u32.
const EXPORTED: &str = "\
link 100mbps
class voice = udp and dport 5060..5065
class web   = tcp or udp port 80
class bulk  = to 10.99.0.0/24 and udp
root = priority { calls, wfq { fair of web: 3, slow: 1 } }
calls = limit 10mbps of voice
slow  = limit 20mbps of bulk
";

#[test]
fn the_kernel_takes_the_exported_commands_and_sends_packets_to_their_classes() {
    const TEST: &str = "the_kernel_takes_the_exported_commands_and_sends_packets_to_their_classes";
    if !testing::privileged(TEST) || !testing::has_program(TEST, "tc") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", EXPORTED);
    let said = run(&["policy", "export", &policy, "--to", "tc", "--dev", "va"]);
    assert_eq!(said.code, 0, "{}", said.err);

    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    link::create_veth((&a, "va"), (&b, "vb"), &VethOptions::default()).expect("veth");
    link::add_address(&a, "va", IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1)), 24).expect("address");
    for host in [2, 3] {
        link::add_neighbor(&a, "va", IpAddr::V4(Ipv4Addr::new(10, 99, 0, host)), Mac::local(host.into()))
            .expect("neighbour");
    }
    link::set_up(&a, "va").expect("up");
    link::set_up(&b, "vb").expect("up");
    link::wait_running(&a, "va", Duration::from_secs(10)).expect("running");

    let script = said.out.clone();
    let done =
        a.run(|| Command::new("sh").args(["-e", "-c", &script]).output()).expect("namespace").expect("sh");
    let failed = String::from_utf8_lossy(&done.stderr);
    if failed.contains("qdisc kind is unknown") {
        return testing::skip(TEST, "this kernel has no fq_codel");
    }
    assert!(done.status.success(), "{}\n{failed}", said.out);

    // Rates as the kernel read them back.
    let shown = a
        .run(|| Command::new("tc").args(["class", "show", "dev", "va"]).output())
        .expect("namespace")
        .expect("tc");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for (class, rate, ceil) in
        [("7e57:10", "8Kbit", "10Mbit"), ("7e57:12", "8Kbit", "20Mbit"), ("7e57:1", "100Mbit", "100Mbit")]
    {
        let line = shown
            .lines()
            .find(|line| line.contains(&format!("class htb {class} ")))
            .unwrap_or_else(|| panic!("{class}: {shown}"));
        assert!(line.contains(&format!("rate {rate} ")) && line.contains(&format!("ceil {ceil} ")), "{line}");
    }

    let socket = a.run(|| UdpSocket::bind("0.0.0.0:0")).expect("run").expect("bind");
    let send = |n: usize, host: u8, port: u16| {
        (0..n)
            .for_each(|_| assert!(socket.send_to(&[0; 100], (Ipv4Addr::new(10, 99, 0, host), port)).is_ok()));
    };
    send(3, 2, 5063);
    send(5, 2, 80);
    send(7, 2, 9);
    send(9, 3, 9);
    let counts = || -> BTreeMap<u16, u64> {
        let classes = TcDevice::open(&a, "va").and_then(|mut device| device.classes()).expect("classes");
        classes.iter().map(|class| (class.place.handle.minor(), class.counters.sent.packets.0)).collect()
    };
    let of = |name: &str| {
        let titled = said
            .out
            .split("\n\n")
            .find(|part| part.starts_with(&format!("# {name}\n")))
            .unwrap_or_else(|| panic!("{name}: {}", said.out));
        let minor =
            titled.split("classid 7e57:").nth(1).and_then(|rest| rest.split(' ').next()).expect("a class");
        u16::from_str_radix(minor, 16).expect("hexadecimal")
    };
    let expected = [("voice", 3), ("web", 5), ("bulk", 16)];
    let arrived =
        || expected.iter().all(|(name, packets)| counts().get(&of(name)).copied() == Some(*packets));
    assert!(testing::until(testing::PATIENCE, arrived), "{:?}\n{}", counts(), said.out);
}

#[test]
fn tests_of_a_policy_pass_or_say_what_differs() {
    let folder = tempfile::tempdir().expect("folder");
    file(&folder, "p.weft", "class a = mark 1\nroot = priority { a, default }\n");
    let text = "policy \"p.weft\"\ntest \"urgent first\"\npacket D 100 class default\npacket A 100 class a\nexpect A D\n";
    let good = file(&folder, "good.wefttest", text);
    let said = run(&["policy", "test", "--show", &good]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    assert!(
        said.out.contains("A at 0 ns, D at 100 ns") && said.out.contains("1 passed, 0 failed"),
        "{}",
        said.out
    );
    let bad = file(&folder, "bad.wefttest", text.replace("expect A D", "expect D A"));
    let said = run(&["policy", "test", &good, &bad]);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.out.contains("bad.wefttest: urgent first: expected D A, and A D left"), "{}", said.out);
    assert!(said.out.contains("1 passed, 1 failed"), "{}", said.out);
    let wrong = file(&folder, "wrong.wefttest", "policy \"p.weft\"\npakcet A 1\n");
    let said = run(&["policy", "test", &wrong]);
    assert!(
        said.code == 1 && said.err.contains("wrong.wefttest:2:1") && said.err.contains("packet"),
        "{}",
        said.err
    );
    file(&folder, "q.weft", "class a = mark 1\nroot = priority { default, a }\n");
    let text =
        text.replace("packet A", "change \"q.weft\" at 0ns\npacket A").replace("expect A D", "expect D A");
    let changed = file(&folder, "changed.wefttest", &text);
    let said = run(&["policy", "test", &changed]);
    assert_eq!((said.code, said.out.as_str()), (0, "1 passed, 0 failed\n"), "{}", said.err);
    let lost = file(&folder, "lost.wefttest", text.replace("q.weft", "none.weft"));
    let said = run(&["policy", "test", &lost]);
    assert!(said.code == 1 && said.err.contains("none.weft"), "{}", said.err);
    let nameless = file(&folder, "nameless.wefttest", "packet A 1\nexpect A\n");
    let said = run(&["policy", "test", &nameless]);
    assert!(said.code == 1 && said.err.contains("--policy"), "{}", said.err);
}

#[test]
fn the_tools_read_the_files_of_tenants() {
    let folder = tempfile::tempdir().expect("folder");
    let operator = "link 10gbps\n\nvm1 = tenant \"t/vm1.weft\" of cgroup \"/vm1\" { classes 2 }\n\nroot = wfq { vm1: 1, default: 1 }\n";
    let operator = file(&folder, "op.weft", operator);
    let alone = run(&["policy", "check", &operator]);
    assert_eq!((alone.code, alone.err.as_str()), (0, ""), "a tenant without a file is a FIFO");
    assert!(alone.out.contains("op.weft:3:14: warning[W0005]: `vm1` has no file"), "{}", alone.out);

    std::fs::create_dir(folder.path().join("t")).expect("a folder");
    let vm1 = file(&folder, "t/vm1.weft", "class web = tcp and port 80\n\nroot = priority { web }\n");
    let checked = run(&["policy", "check", &operator, &vm1]);
    assert_eq!((checked.code, checked.err.as_str()), (0, ""));
    // Nothing but the places that run them.
    let of =
        |file: &String| format!("{file}: note: runs in: port yes; daemon yes; sim yes; replay yes; kernel ");
    let lines: Vec<&str> = checked.out.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with(&of(&operator)) && lines[1].starts_with(&of(&vm1)),
        "{lines:?}"
    );
    assert_eq!(run(&["policy", "fmt", "--check", &operator, &vm1]).code, 0);
    let packet = "tcp 192.0.2.1:1 > 192.0.2.2:80 cgroup /vm1";
    let explained = run(&["policy", "explain", &operator, "--packet", packet]).out;
    assert!(
        explained.contains("class      vm1.web (")
            && explained.contains("t/vm1.weft, line 1: class web = tcp and port 80)"),
        "{explained}"
    );
    let cost = run(&["policy", "cost", &operator]);
    assert!(cost.code == 0 && cost.out.contains("vm1"), "{}{}", cost.out, cost.err);
    let export = run(&["policy", "export", &operator, "--to", "tc", "--dev", "eth0"]);
    assert!(export.code == 0 && export.out.contains("vm1.web"), "{}{}", export.out, export.err);
    let plain = file(&folder, "plain.weft", "link 10gbps\nroot = default\n");
    let diff = run(&["policy", "diff", &plain, &operator]);
    assert!(
        diff.code == 0 && diff.out.contains("class vm1.web added under vm1\n"),
        "{}{}",
        diff.out,
        diff.err
    );
    let test = "policy \"op.weft\"\ntest \"t\"\npacket a 1000 class vm1.default\npacket b 1000 class vm1.web\nexpect b a\n";
    let tested = run(&["policy", "test", &file(&folder, "t.wefttest", test)]);
    assert_eq!((tested.code, tested.out.as_str()), (0, "1 passed, 0 failed\n"), "{}", tested.err);
    let broken =
        "link 10gbps\nvm1 = tenant \"t/broken.weft\" of cgroup \"/vm1\"\nroot = wfq { vm1: 1, default: 1 }\n";
    file(&folder, "broken.weft", broken);
    file(&folder, "t/broken.weft", "class web = tcp and port 80\nroot = priority { wbe }\n");
    let test = test.replace("packet a", "change \"broken.weft\" at 0ns\npacket a");
    let kept = run(&["policy", "test", &file(&folder, "kept.wefttest", test)]);
    assert_eq!((kept.code, kept.out.as_str()), (0, "1 passed, 0 failed\n"), "{}", kept.err);
    assert!(
        kept.err.contains("warning: tenant vm1 keeps its last good ")
            && kept.err.contains("t/vm1.weft: ")
            && kept.err.contains("t/broken.weft:2:19: error["),
        "{}",
        kept.err
    );

    file(
        &folder,
        "t/vm1.weft",
        "class web = tcp\nclass b = udp\nclass c = icmp\nroot = fifo { web, b, c }\n",
    );
    let refused = run(&["policy", "check", &operator]);
    assert_eq!(refused.code, 1);
    assert!(refused.out.contains("t/vm1.weft:3:7: error[E0606]: the quota of `vm1` is"), "{}", refused.out);
}

#[test]
fn a_drawing_goes_to_a_file_or_to_standard_output() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", TIDY);
    let svg = file(&folder, "p.svg", "an older one, which is replaced");
    let said = run(&["policy", "draw", &policy, "-o", &svg]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "", ""));
    let written = std::fs::read_to_string(&svg).expect("read");
    assert!(written.starts_with("<svg ") && written.contains("tcp port 80"), "{written}");
    assert_eq!(run(&["policy", "draw", &policy]).out, written);
    assert!(run(&["policy", "draw", &policy, "--as", "dot"]).out.starts_with("digraph policy {"));
    let wrong = file(&folder, "wrong.weft", "root = priorty { default }\n");
    let none = folder.path().join("none.svg");
    let said = run(&["policy", "draw", &wrong, "-o", none.to_str().expect("UTF-8")]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert!(said.err.contains("error[E0001]") && !none.exists(), "{}", said.err);
}
