//! `weft run --queues` and `weft titan` as a user runs them: NIC and assignment in namespaces of the test, and real
//! TCP through both.

use crate::common::world::{wait_for_port, wait_until_up};
use crate::common::{
    Running, Said, assert_conserved, assert_head, file, json, left_by, run, until, weft, weft_without_rights,
};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use weft_host::bpffs::BpfFs;
use weft_host::link::{self, VethOptions};
use weft_host::tc::TcDevice;
use weft_host::testing::{PATIENCE, privileged, skip, unique};
use weft_host::{NetNs, tap};

/// Bytes of each connection: together 0.4 s at 100 Mb/s.
const BYTES: usize = 1_250_000;
/// Number of flows, equal to that of the NIC's queues.
const FLOWS: u16 = 4;
const PORT: u16 = 5201;

fn address(text: &str) -> IpAddr {
    text.parse().expect("address")
}

/// Namespaces of the applications, of the uplink's interface, and of its other end.
struct World {
    app: NetNs,
    host: NetNs,
    far: NetNs,
}

impl World {
    fn new() -> Self {
        let [app, host, far] =
            ["app", "host", "far"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
        link::create_veth((&host, "up0"), (&far, "far0"), &VethOptions::default()).expect("veth");
        link::set_up(&host, "up0").expect("up");
        link::set_up(&far, "far0").expect("up");
        link::add_address(&far, "far0", address("10.98.0.2"), 24).expect("address");
        Self { app, host, far }
    }

    /// Starts a NIC and waits until its port is up.
    fn start(&self, args: &[&str]) -> Running {
        let running = weft()
            .args(["run", "--uplink", "up0", "--uplink-netns", self.host.name(), "--rate", "100mbps"])
            .args(["--netns", self.app.name(), "--address", "10.98.0.1/24", "--plain"])
            .args(args)
            .spawn();
        let running = Running(running.expect("start weft"));
        wait_for_port(&self.app, &running);
        running
    }

    /// Runs `weft titan VERB ARGS` in the applications' namespace.
    fn titan(&self, args: &[&str]) -> Said {
        run(&[&["titan"], args, &["--netns", self.app.name()]].concat())
    }

    /// Returns the document of `weft titan status` for a device.
    fn status(&self, device: &str) -> Value {
        let said = self.titan(&["status", device, "--window", "50ms", "--json", "-"]);
        assert_eq!(said.code, 0, "{}", said.err);
        serde_json::from_str(&said.out).expect("only JSON on standard output")
    }

    /// Makes concurrent connections of [`BYTES`] each, and checks the received bytes.
    fn transfer(&self, to: &str) {
        let at = (address(to), PORT);
        let listener = self.far.run(|| TcpListener::bind(at)).expect("enter").expect("bind");
        std::thread::scope(|scope| {
            for _ in 0..FLOWS {
                scope.spawn(|| {
                    let stream =
                        self.app.run(|| TcpStream::connect_timeout(&at.into(), Duration::from_secs(5)));
                    let sent: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
                    stream.expect("enter").expect("connect").write_all(&sent).expect("send");
                });
            }
            for _ in 0..FLOWS {
                let (mut stream, _) = listener.accept().expect("accept");
                scope.spawn(move || {
                    let mut bytes = Vec::new();
                    stream.read_to_end(&mut bytes).expect("receive");
                    let right = bytes.iter().enumerate().all(|(i, byte)| usize::from(*byte) == i % 251);
                    assert!(bytes.len() == BYTES && right, "what arrives is what was sent");
                });
            }
        });
    }

    /// Returns the records and pinned objects for devices of the applications' namespace.
    fn kept(&self) -> Vec<PathBuf> {
        let inode = self.app.inode().expect("inode");
        let folders =
            [Some(PathBuf::from("/run/weftline/titan")), BpfFs::find().map(|f| f.root().to_owned())];
        let entries = folders.into_iter().flatten().filter_map(|folder| std::fs::read_dir(folder).ok());
        let paths = entries.flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let prefixes = [format!("{inode}-"), format!("weft-titan-{inode}-")];
        let ours = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        paths.filter(|p| p.file_name().is_some_and(|n| ours(&n.to_string_lossy()))).collect()
    }

    /// Runs `tc` in the applications' namespace.
    fn tc(&self, args: &str) -> String {
        let ran = self.app.run(|| Command::new("tc").args(args.split(' ')).output()).expect("enter");
        let said: Said = ran.expect("run tc").into();
        assert_eq!(said.code, 0, "tc {args}: {}", said.err);
        said.out
    }
}

/// Asserts that a command failed and printed one line, perhaps with a hint, that has all of `named`.
fn refused(said: &Said, named: &[&str]) {
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{}", said.err);
    let lines = said.err.lines().filter(|line| !line.starts_with("  hint: "));
    assert_eq!(lines.count(), 1, "{}", said.err);
    assert!(named.iter().all(|part| said.err.contains(part)), "{named:?}: {}", said.err);
}

fn numbers(queues: &Value, field: &str) -> Vec<u64> {
    let queues = queues.as_array().expect("queues");
    queues.iter().map(|queue| queue[field].as_u64().expect(field)).collect()
}

#[test]
fn a_policy_or_queues_and_not_both() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", "link 1gbps\nroot = fair of default\n");
    for (args, named) in [
        (&["run", "--uplink", "lo"][..], "--queues <N>"),
        (&["run", &policy, "--uplink", "lo", "--queues", "4"], "cannot be used with '--queues <N>'"),
        (&["run", &policy, "--uplink", "lo", "--inner", "sfq"], "--inner"),
        (&["run", "--uplink", "lo", "--queues", "4"], "--queues needs the link's rate: give --rate"),
        (
            &["run", "--uplink", "lo", "--queues", "4", "--grain", "8", "--rate", "1gbps"],
            "--segments-per-turn",
        ),
        (&["run", "--uplink", "lo", "--queues", "0", "--rate", "1gbps"], "a number from 1 to 256"),
        (&["run", "--uplink", "lo", "--queues", "257", "--rate", "1gbps"], "a number from 1 to 256"),
        (
            &["run", "--uplink", "lo", "--queues", "4", "--inner", "lifo", "--rate", "1gbps"],
            "`fifo` or `sfq`",
        ),
        (&["titan", "attach", "lo", "--parts", "dqa,nonsense"], "there is no part \"nonsense\""),
        (&["titan", "attach", "lo", "--pool", "some"], "`all` or `xps`"),
        (&["titan", "attach", "lo", "--segment", "100"], "from 1500 to 65536"),
        (&["titan", "attach", "lo", "--most-flows", "0"], "--most-flows"),
        (&["titan", "status", "--duration", "1"], "--watch"),
        (&["titan"], "actuate"),
    ] {
        let said = run(args);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{args:?}: {}", said.err);
        assert!(said.err.contains(named), "{args:?}: {}", said.err);
    }
}

#[test]
fn a_dry_run_tells_the_queues_and_how_they_are_served() {
    let dry = |args: &[&str]| {
        let args = [&["run", "--uplink", "lo", "--rate", "900mbps", "--dry-run"], args].concat();
        let said: Said = weft_without_rights().args(args).output().expect("run").into();
        assert_eq!(said.code, 0, "{}", said.err);
        said.out
    };
    let fifo = dry(&["--queues", "8"]);
    for part in [
        "link of 900 Mb/s",
        "8 hardware queues",
        "hash modulo 8",
        "first in, first out, in one ring",
        "between queues: one packet of each in turns",
        "queue 7: ring 7",
        "with 8 rings of 2000 packets",
        "super-packets left whole",
    ] {
        assert!(fifo.contains(part), "{part}: {fifo}");
    }
    let sfq = dry(&["--queues", "8", "--inner", "sfq"]);
    assert!(sfq.contains("32 rings share it by bytes") && sfq.contains("queue 7: rings 224 to 255"), "{sfq}");
}

#[test]
fn what_is_wrong_with_weights_is_told_before_anything_is_touched() {
    let folder = tempfile::tempdir().expect("folder");
    let weights = file(&folder, "w.weft", "class a = mark 0x1g\nroot = wfq { a: 2, default: 1 }\n");
    let wrong = run(&["titan", "attach", "no-such-dev0", "--weights", &weights]);
    refused(&wrong, &[&format!("{weights}:1:16: error[")]);
    let policy = file(&folder, "p.weft", "class a = tcp and port \"vm1\"\nroot = a\n");
    let wrong = run(&["titan", "attach", "no-such-dev0", "--weights", &policy]);
    refused(&wrong, &[&format!("{policy}:1:19: error[E0704]: Titan cannot match the port `vm1`")]);
    let absent = run(&["titan", "attach", "no-such-dev0", "--weights", "absent.weft"]);
    refused(&absent, &["cannot read absent.weft: No such file"]);
}

#[test]
fn without_rights_nothing_is_switched_on() {
    for verb in ["attach", "detach", "actuate", "status"] {
        let Ok(output) = weft_without_rights().args(["titan", verb, "lo"]).output() else {
            return skip("without_rights_nothing_is_switched_on", "there is no setpriv");
        };
        refused(&output.into(), &["root"]);
    }
}

#[test]
fn devices_that_are_not_fit_are_refused_with_the_reason() {
    if !privileged("devices_that_are_not_fit_are_refused_with_the_reason") {
        return;
    }
    let world = World::new();
    let other = ((&world.app, "one0"), (&world.host, "one1"));
    link::create_veth(other.0, other.1, &VethOptions::default()).expect("veth");
    let _queues = tap::create(&world.app, "tap0", 4).expect("tap");
    refused(&world.titan(&["attach", "one0"]), &["one0 has one transmit queue", "ethtool -L"]);
    refused(
        &world.titan(&["attach", "tap0"]),
        &["tap0 is a tun", "sockets", "attach to the device behind it"],
    );
    refused(&world.titan(&["attach", "none0"]), &["no link none0", "one0"]);
    refused(&world.titan(&["status", "one0"]), &["queue assignment is not on at one0"]);
    refused(&world.titan(&["actuate", "one0"]), &["queue assignment is not on at one0"]);
    let nowhere = run(&["titan", "attach", "lo", "--netns", "weft-nowhere"]);
    refused(&nowhere, &["no network namespace weft-nowhere"]);

    // A port with a policy has rings but no queues to assign; one queue leaves no choice.
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", "root = fair of default\n");
    let running = world.start(&[&policy]);
    refused(&world.titan(&["attach", "weft0"]), &["enforces a policy", "--queues N"]);
    running.signal(Signal::INT);
    running.wait(Duration::from_secs(20));
    let running = world.start(&["--queues", "1"]);
    refused(
        &world.titan(&["attach", "weft0"]),
        &["one transmit queue", "start the software NIC with more queues"],
    );
    running.signal(Signal::INT);
    running.wait(Duration::from_secs(20));
    assert_eq!(world.kept(), Vec::<PathBuf>::new());
}

#[test]
fn it_is_switched_on_carries_traffic_and_is_switched_off_without_a_trace() {
    const TEST: &str = "it_is_switched_on_carries_traffic_and_is_switched_off_without_a_trace";
    if !privileged(TEST) || !weft_host::testing::has_program(TEST, "tc") {
        return;
    }
    let world = World::new();
    let folder = tempfile::tempdir().expect("folder");
    let counters = folder.path().join("counters.json");
    let running = world.start(&["--queues", "4", "--json", counters.to_str().expect("UTF-8")]);
    let pid = running.0.id();
    // Another program's filter, which must stay.
    let foreign = "protocol ip prio 77 u32 match ip dst 192.0.2.77/32 classid 1:1";
    let filters = || world.tc("filter show dev weft0 egress");
    world.tc(&format!("filter add dev weft0 egress {foreign}"));
    assert!(filters().contains("pref 77 u32"), "{}", filters());
    let before = filters();

    let on = world.titan(&["attach", "weft0"]);
    assert_eq!((on.code, on.out.as_str()), (0, ""), "{}", on.err);
    assert!(on.err.contains("weft0: least occupied of all queues over 4 queues"), "{}", on.err);
    assert!(on.err.contains("dqa, dqwa, dsos on; departures by "), "{}", on.err);
    assert_eq!(on.err.lines().count(), 1, "the software NIC does all parts itself: {}", on.err);
    assert_ne!(world.kept(), Vec::<PathBuf>::new());
    refused(&world.titan(&["attach", "weft0"]), &["on at weft0 already", "weft titan detach weft0"]);
    refused(
        &world.titan(&["actuate", "weft0"]),
        &["the software NIC reads weights and segment sizes itself"],
    );

    let idle = world.status("weft0");
    assert_head(&idle, "weft-titan-status/1");
    assert_eq!(
        (&idle["devices"][0]["device"], idle["devices"].as_array().map(Vec::len)),
        (&"weft0".into(), Some(1))
    );
    assert_eq!(numbers(&idle["devices"][0]["queues"], "queue"), [0, 1, 2, 3]);

    world.transfer("10.98.0.2");
    let at_rest = |status: &Value| {
        let queues = &status["devices"][0]["queues"];
        ["flows", "weight", "standing_bytes"].iter().all(|field| numbers(queues, field) == [0; 4])
    };
    let mut last = Value::Null;
    let rest = until(PATIENCE, || {
        last = world.status("weft0");
        at_rest(&last)
    });
    assert!(rest, "all has left, and something is counted still: {last}");
    let device = &last["devices"][0];
    // As many concurrent flows as queues: none stays empty, while hashing would leave one empty nine times in ten.
    let bytes = numbers(&device["queues"], "bytes");
    assert!(bytes.iter().sum::<u64>() > u64::from(FLOWS) * BYTES as u64, "{device}");
    assert!(bytes.iter().all(|bytes| *bytes > BYTES as u64 / 4), "{device}");
    assert!(device["events"]["activations"].as_u64() >= Some(u64::from(FLOWS)), "{device}");
    let table = world.titan(&["status", "weft0", "--window", "50ms"]);
    assert!(table.code == 0 && table.out.contains("Queues of weft0"), "{table:?}");

    let off = world.titan(&["detach", "weft0"]);
    assert_eq!((off.code, off.out.as_str()), (0, ""), "{}", off.err);
    assert!(off.err.contains("weft0: queue assignment is off"), "{}", off.err);
    refused(&world.titan(&["detach", "weft0"]), &["queue assignment is not on at weft0"]);
    assert_eq!(filters(), before, "the filters are as they were");
    assert_eq!(world.kept(), Vec::<PathBuf>::new());

    // The NIC continues without it, and its accounting balances.
    world.transfer("10.98.0.2");
    running.signal(Signal::INT);
    let said = running.wait(Duration::from_secs(20));
    assert_eq!(said.code, 130, "{}", said.err);
    let document = json(&counters);
    assert_head(&document, "weft-run/1");
    assert_conserved(&document["conservation"]);
    assert_eq!(document["classes"].as_array().map(Vec::len), Some(1), "{document}");
    assert_eq!(document["classes"][0]["class"], "default");
    assert!(
        document["classes"][0]["bytes"].as_u64() > Some(2 * u64::from(FLOWS) * BYTES as u64),
        "{document}"
    );
    assert!(left_by(pid).is_empty());
}

#[test]
fn another_device_with_queues_is_served_as_far_as_its_driver_goes() {
    if !privileged("another_device_with_queues_is_served_as_far_as_its_driver_goes") {
        return;
    }
    let world = World::new();
    let options = VethOptions { queues: Some(4), ..VethOptions::default() };
    link::create_veth((&world.app, "many0"), (&world.far, "many1"), &options).expect("veth");
    for (ns, name, at) in [(&world.app, "many0", "10.98.1.1"), (&world.far, "many1", "10.98.1.2")] {
        link::add_address(ns, name, address(at), 24).expect("address");
        link::set_up(ns, name).expect("up");
    }
    wait_until_up(&world.app, "many0");
    let sizes = || link::gso_sizes(&world.app, "many0").expect("sizes");
    let before = sizes();
    let on = world.titan(&["attach", "many0"]);
    if on.code == 1 && on.err.contains("act_skbedit") {
        refused(&on, &["CONFIG_NET_ACT_SKBEDIT"]);
        assert!(
            !TcDevice::open(&world.app, "many0").and_then(|mut device| device.has_clsact()).expect("clsact"),
            "undone"
        );
        assert_eq!(world.kept(), Vec::<PathBuf>::new());
        return skip(
            "another_device_with_queues_is_served_as_far_as_its_driver_goes",
            "this kernel has no act_skbedit",
        );
    }
    assert_eq!(on.code, 0, "{}", on.err);
    assert!(on.err.contains("over 4 queues"), "{}", on.err);
    // A foreign driver: its missing features are reported.
    assert!(on.err.contains("dqwa: the weights stop at the driver"), "{}", on.err);
    assert!(on.err.contains("dsos: segment sizes of this driver need `weft titan actuate`"), "{}", on.err);
    assert!(TcDevice::open(&world.app, "many0").and_then(|mut device| device.has_clsact()).expect("clsact"));
    world.transfer("10.98.1.2");
    let mut last = Value::Null;
    let rest = until(PATIENCE, || {
        last = world.status("many0");
        ["flows", "weight"].iter().all(|field| numbers(&last["devices"][0]["queues"], field) == [0; 4])
    });
    assert!(rest, "{last}");
    let bytes = numbers(&last["devices"][0]["queues"], "bytes");
    assert!(bytes.iter().sum::<u64>() > u64::from(FLOWS) * BYTES as u64, "{last}");

    let kept_in_step = world.titan(&["actuate", "many0", "--duration", "200ms"]);
    assert_eq!(kept_in_step.code, 0, "{}", kept_in_step.err);
    assert!(kept_in_step.err.contains("weights of queues: not on this driver ("), "{}", kept_in_step.err);
    assert!(kept_in_step.err.contains("segments: at most 16384 bytes"), "{}", kept_in_step.err);
    assert_eq!(world.titan(&["detach", "many0"]).code, 0);
    assert!(
        !TcDevice::open(&world.app, "many0").and_then(|mut device| device.has_clsact()).expect("clsact"),
        "ours is gone"
    );
    assert_eq!((sizes(), world.kept()), (before, Vec::new()));
}

#[test]
fn a_nic_that_ends_takes_the_assignment_with_it() {
    if !privileged("a_nic_that_ends_takes_the_assignment_with_it") {
        return;
    }
    let world = World::new();
    let running = world.start(&["--queues", "4", "--inner", "sfq"]);
    let on = world.titan(&["attach", "weft0", "--parts", "dqa"]);
    assert!(on.code == 0 && on.err.contains("; dqa on;"), "{}", on.err);
    world.transfer("10.98.0.2");
    running.signal(Signal::INT);
    let said = running.wait(Duration::from_secs(20));
    assert_eq!(said.code, 130, "{}", said.err);
    let status = world.titan(&["status", "--window", "50ms"]);
    assert!(status.code == 0 && status.out.contains("on at no device"), "{status:?}");
    assert_eq!(world.kept(), Vec::<PathBuf>::new());

    // `ip netns exec` makes mounts that end with the command; attaching is refused where its state would end with
    // them.
    let next = world.start(&["--queues", "4"]);
    let inside = ["netns", "exec", world.app.name(), env!("CARGO_BIN_EXE_weft"), "titan", "attach", "weft0"];
    if let Ok(output) = Command::new("ip").args(inside).output() {
        let inside: Said = output.into();
        match inside.code {
            0 => assert_eq!(
                world.titan(&["detach", "weft0"]).code,
                0,
                "what is on can be switched off outside"
            ),
            _ => refused(&inside, &["no bpf file system", "--netns NAME"]),
        }
    }
    assert_eq!(world.kept(), Vec::<PathBuf>::new());
    next.signal(Signal::INT);
    next.wait(Duration::from_secs(20));

    // The next NIC finds no remains.
    let next = world.start(&["--queues", "2"]);
    let folder = tempfile::tempdir().expect("folder");
    let weights =
        file(&folder, "w.weft", "class a = cgroup \"/weft-absent\"\nroot = wfq { a: 3, default: 1 }\n");
    let on = world.titan(&["attach", "weft0", "--weights", &weights]);
    assert!(on.code == 0 && on.err.contains("over 2 queues"), "{}", on.err);
    assert!(on.err.contains("there is no cgroup /weft-absent"), "{}", on.err);
    // Pinned objects removed by another program are reported, and assignment can still be disabled.
    for pins in world.kept().iter().filter(|path| path.is_dir()) {
        std::fs::read_dir(pins).expect("pins").for_each(|pin| {
            std::fs::remove_file(pin.expect("a pin").path()).expect("removed");
        });
        std::fs::remove_dir(pins).expect("removed");
    }
    let status = world.titan(&["status", "weft0", "--window", "50ms"]);
    assert!(
        status.code == 0 && format!("{}{}", status.out, status.err).contains("nothing is pinned"),
        "{status:?}"
    );
    let off = world.titan(&["detach", "weft0"]);
    assert_eq!((off.code, world.kept()), (0, Vec::new()), "{}", off.err);
    next.signal(Signal::INT);
    next.wait(Duration::from_secs(20));
    assert!(world.titan(&["status"]).out.contains("on at no device"));
    assert_eq!(world.kept(), Vec::<PathBuf>::new());
}
