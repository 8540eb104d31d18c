//! The fate of single packets, and policies as commands of tc.

use expect_test::expect;
use weft_policy::explain::DescribedPacket;
use weft_policy::export::{ExportError, to_tc};
use weft_policy::kernel::LowerError;
use weft_policy::{CompileOptions, CompiledPolicy, Source, compile, explain};
use weft_units::BitsPerSec;

fn ready(name: &str) -> String {
    let path = format!("{}/../../policies/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("the policy is there")
}

fn policy(text: &str) -> CompiledPolicy {
    compile(Source { name: "p", text }, &CompileOptions::default()).policy.expect("a policy")
}

fn explained(text: &str, packet: &str) -> String {
    let packet: DescribedPacket = packet.parse().expect("a packet");
    explain(Source { name: "p", text }, &policy(text), &packet).to_string()
}

#[test]
fn a_packet_of_figure_1_is_explained() {
    let text = ready("figure1.weft");
    expect![[r#"
        packet     tcp 192.0.2.1:11211 > 10.0.1.7:1024 cgroup /vm1/web
        class      vm1.kvs (line 6: class vm1.kvs = cgroup "/vm1" and tcp and port 11211)
        row        2: tcp and sport 11211 and cgroup "/vm1"; to 10.0.1.0/24 -> lane 1
        path       root: strict priority, place 2 of 3
                     tenants: weighted fair queueing, weight 1 of 7
                       vm1.apps: strict priority, place 1 of 2
                         vm1.kvs: FIFO
        limits     vm1[10.0.1.0/24]: 2 Gb/s, bursts up to 503 kB
        guarantee  0 b/s of 40 Gb/s, while every class sends
        bound      10000 packets wait at most
    "#]]
    .assert_eq(&explained(&text, "tcp 192.0.2.1:11211 > 10.0.1.7:1024 cgroup /vm1/web"));
}

#[test]
fn ranks_of_a_packet_are_shown_with_their_numbers() {
    let text = "class rpc = udp\nclass web = tcp\nroot = edf { rpc: 1ms, lstf slack 20ms of web: 5ms, default: 9ms }";
    let said = explained(text, "tcp 192.0.2.1:1 > 192.0.2.2:2 slack 3us deadline 7us");
    assert!(said.contains("ranks      web: lstf gives 3000\n           root: edf gives 7000\n"), "{said}");
    let untold = explained(text, "tcp 192.0.2.1:1 > 192.0.2.2:2");
    assert!(untold.contains("web: lstf gives 20000000\n"), "{untold}");
    let own = "algorithm two(w: count) { child had: bytes\n rank = w, had }\nclass a = any\nroot = two { wf2q { a: 1, default: 3 }: 5 }";
    let said = explained(own, "non-ip length 1000");
    assert!(said.contains("root#1: wf2q gives 4096000 from the virtual time 0\n"), "{said}");
    assert!(said.contains("root: two gives 5, whatever the packet\n"), "{said}");
}

#[test]
fn packets_that_no_class_takes_and_those_without_an_address_are_explained() {
    let text = "class a = udp\nclass b = tcp\nclass default = any\nroot = wfq { fifo { a, b }: 3, fair of default: 1 }\n";
    expect![[r#"
        packet     non-ip mark 0x3
        class      default (line 3: class default = any)
        row        3: any -> lane 2
        path       root: weighted fair queueing, weight 1 of 4
                     default: fair over its flows
        limits     none
        bound      10000 packets wait at most
        note       ARP, LLDP and other traffic without which a network fails is infrastructure, above the tree, up to its share
        note       the policy does not state the link's rate; `--rate` gives one for the guarantee
    "#]]
    .assert_eq(&explained(text, "non-ip mark 3"));
    assert!(explained(text, "udp 192.0.2.1:1 > 192.0.2.2:2").contains("root#1: FIFO, with b\n"));
    let relative = explained(&ready("tenants.weft"), "udp 192.0.2.1:1 > 192.0.2.2:2 cgroup /T1");
    assert!(relative.contains("class      default (packets that no class takes)"), "{relative}");
    assert!(relative.contains("without a leading `/`"), "{relative}");
    let inside = explained(&ready("tenants.weft"), "udp 192.0.2.1:1 > 192.0.2.2:2 cgroup T1/x");
    assert!(inside.contains("class      T1 (line"), "{inside}");
}

#[test]
fn an_explanation_is_what_the_match_table_decides() {
    for name in ["figure1.weft", "figure11.weft", "rate-limit.weft", "tenants.weft"] {
        let text = ready(name);
        let policy = policy(&text);
        for packet in [
            "tcp 192.0.2.1:11211 > 10.0.2.1:5",
            "udp 192.0.2.1:9 > 10.99.1.2:5",
            "icmpv6 ::1 > ::2",
            "non-ip",
        ] {
            for cgroup in ["", " cgroup /vm1/hadoop", " cgroup /vm2", " cgroup J1", " cgroup T4"] {
                let packet: DescribedPacket = format!("{packet}{cgroup}").parse().expect("a packet");
                let found = explain(Source { name, text: &text }, &policy, &packet);
                let lane = policy.classify(&packet.meta(&policy));
                assert_eq!(found.lane, lane.index(), "{name} {packet}");
                let spec = &policy.program.lanes[lane.index()];
                assert_eq!(found.class, policy.classes[spec.class.index()].name, "{name} {packet}");
                assert_eq!(found.limits.len(), spec.limits.len(), "{name} {packet}");
            }
        }
    }
}

#[test]
fn a_policy_becomes_commands_of_tc() {
    let text = "link 10gbps\nclass web = tcp and dport 80..81\nclass bulk = to 10.0.0.0/8 or mark 3/0xff\nclass app = cgroup \"/app\"\n\
                root = priority { slow, wfq { fair of bulk: 1, app: 3 } }\nslow = limit 2gbps of web\n";
    expect![[r##"
        # Qdiscs at eth0. Remove them by: tc qdisc del dev eth0 root
        # The link has 10 Gb/s: a little less than the next link that is full, or that one has the queue.
        #
        # Not as the policy says:
        # - root: strict priority: each class below keeps 8 kb/s
        # - root#1: shares by weights: 1 % over 5 s, and 4 % in a single second
        # - bulk: fair over its flows: flows share by fq_codel: one beside 16 others had 7.0 % where 5.9 % is even
        # - packets of a class leave in the order of arrival: flows of a class have turns (fq_codel or fq) and each keeps the order of its packets
        # - limit slow: 1.6 %: a super-packet counts the bytes around one frame
        # - bounds hold: fq_codel drops earlier, when packets wait for long, and at the bound those of the largest flow; classes in one `fifo` share the sum of their bounds; below limits by destination or port, fq has bounds of its own; a super-packet counts as one
        # - infrastructure has a share: a class above all others has twice its share: the host's own packets, and those that it forwards; no share of it for each cgroup
        # - ports are found behind IPv4 headers without options and IPv6 headers without extensions, and not in fragments
        # - row 4: cgroup "/app": u32 sees no cgroups (mark the packets, such as by nftables' `socket cgroupv2`); its packets go to the rows after it
        # - infrastructure (ARP, neighbour discovery, DHCP) goes by the rows: no filter sends it to its class

        # the link
        tc qdisc add dev eth0 root handle 7e57: htb default 13

        # the link
        tc class add dev eth0 parent 7e57: classid 7e57:1 htb rate 10000000000bit ceil 10000000000bit burst 2500000b cburst 2500000b prio 0 quantum 60000 overhead 24

        # default
        tc class add dev eth0 parent 7e57:1 classid 7e57:13 htb rate 8000bit ceil 10000000000bit burst 1600b cburst 2500000b prio 2 quantum 60000 overhead 24
        tc qdisc add dev eth0 parent 7e57:13 handle 13: fq_codel limit 10000 target 5000us

        # infrastructure
        tc class add dev eth0 parent 7e57:1 classid 7e57:2 htb rate 200000000bit ceil 200000000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
        tc qdisc add dev eth0 parent 7e57:2 handle 2: pfifo limit 1000

        # web
        tc class add dev eth0 parent 7e57:1 classid 7e57:10 htb rate 2000000000bit ceil 2000000000bit burst 500000b cburst 503076b prio 0 quantum 60000 overhead 24
        tc qdisc add dev eth0 parent 7e57:10 handle 10: fq_codel limit 10000 target 5000us

        # root#1: wfq
        tc class add dev eth0 parent 7e57:1 classid 7e57:8001 htb rate 7799992000bit ceil 10000000000bit burst 1949998b cburst 2500000b prio 1 quantum 60000 overhead 24
        tc qdisc add dev eth0 parent 7e57:8001 handle 7e59: drr

        # bulk
        tc class add dev eth0 parent 7e59: classid 7e59:11 drr quantum 312500
        tc qdisc add dev eth0 parent 7e59:11 handle 11: fq_codel limit 10000 target 5000us

        # app
        tc class add dev eth0 parent 7e59: classid 7e59:12 drr quantum 937500
        tc qdisc add dev eth0 parent 7e59:12 handle 12: fq_codel limit 10000 target 5000us

        # row 1: tcp and dport 80..81
        tc filter add dev eth0 parent 7e57: protocol ip prio 1 u32 match ip protocol 6 0xff match ip dport 80 0xfffe flowid 7e57:10
        tc filter add dev eth0 parent 7e57: protocol ipv6 prio 2 u32 match ip6 protocol 6 0xff match ip6 dport 80 0xfffe flowid 7e57:10

        # row 2: to 10.0.0.0/8
        tc filter add dev eth0 parent 7e57: protocol ip prio 3 u32 match ip dst 10.0.0.0/8 flowid 7e57:8001
        tc filter add dev eth0 parent 7e59: protocol ip prio 3 u32 match ip dst 10.0.0.0/8 flowid 7e59:11

        # row 3: mark 0x3/0xff
        tc filter add dev eth0 parent 7e57: protocol all prio 5 handle 0x3/0xff fw flowid 7e57:8001
        tc filter add dev eth0 parent 7e59: protocol all prio 5 handle 0x3/0xff fw flowid 7e59:11
    "##]].assert_eq(&to_tc(&policy(text), "eth0").expect("commands"));
}

#[test]
fn limits_across_a_tree_are_listed_as_lost() {
    let mut shared = policy(&ready("figure11.weft"));
    shared.link = Some(BitsPerSec(10_000_000_000));
    let commands = to_tc(&shared, "eth0").expect("commands");
    assert!(
        commands.contains("limit destination2: commands of tc cannot limit by destination"),
        "{commands}"
    );
    let tenants = to_tc(&policy(&ready("figure1.weft")), "eth0").expect("commands");
    assert_eq!(tenants.matches("cannot limit by destination").count(), 2, "{tenants}");
}

#[test]
fn ports_of_the_nic_are_explained_and_lost_in_an_export() {
    let text = "link 1gbps\nclass a = port \"vm1\" and tcp\nroot = wfq { a: 1, default: 1 }\n";
    let here = explained(text, "tcp 192.0.2.1:1 > 192.0.2.2:2 port vm1");
    assert!(here.contains("row        1: tcp and port \"vm1\" -> lane 0\n"), "{here}");
    let elsewhere = explained(text, "tcp 192.0.2.1:1 > 192.0.2.2:2 port vm2");
    assert!(elsewhere.contains("class      default"), "{elsewhere}");
    let without = explained("root = default\n", "non-ip port vm2");
    assert!(without.contains("names no port of the NIC"), "{without}");
    let commands = to_tc(&policy(text), "eth0").expect("commands");
    assert!(commands.contains("row 1: tcp and port \"vm1\": u32 sees no ports of the NIC"), "{commands}");
    assert_eq!(commands.matches("tc filter").count(), 1, "that of all others: {commands}");
}

#[test]
fn an_export_has_a_filter_at_each_qdisc_on_the_way() {
    let text = "link 1gbps\nclass a = tcp\nclass b = to 10.0.1.0/25\nclass c = mark 3\n\
                root = priority { a, wfq { b: 1, wfq { c: 1, default: 2 }: 3 } }\n";
    let commands = to_tc(&policy(text), "eth0").expect("commands");
    let filters: Vec<&str> = commands.lines().filter(|line| line.starts_with("tc filter")).collect();
    let of = |text: &str| filters.iter().filter(|line| line.contains(text)).count();
    assert_eq!((of("protocol 6 0xff"), of("dst 10.0.1.0/25"), of("handle 0x3/0xffffffff fw")), (2, 2, 3));
    // The default is at the root a parameter of HTB, and a filter at both drr.
    assert_eq!((of("match u32 0 0"), filters.len()), (2, 9), "{commands}");
    let class = |line: &str| line.rsplit(' ').next().map(str::to_owned).expect("a class");
    for line in filters {
        let of = class(line);
        assert!(commands.contains(&format!("classid {of} ")), "{of} is made: {commands}");
    }
}

#[test]
fn an_export_needs_a_rate_and_a_device() {
    let bare = policy("root = default\n");
    assert_eq!(to_tc(&bare, "eth0"), Err(ExportError::Lower(LowerError::NoLinkRate)));
    for device in ["", "eth0; reboot", "a-name-of-16-char", "-x", "a b"] {
        assert_eq!(to_tc(&bare, device), Err(ExportError::Device(device.to_owned())));
    }
}

/// A policy of ten classes in as many levels of `wfq`.
fn deep(last: &str) -> String {
    let mut text = String::from("link 1gbps\n");
    let mut root = last.to_owned();
    for number in 0..10 {
        text += &format!("class c{number} = udp port {}\n", number + 1);
        if number < 9 {
            root = format!("wfq {{ c{number}: 1, {root}: 1 }}");
        }
    }
    text + &format!("root = {root}\n")
}

#[test]
fn a_tree_deeper_than_the_kernel_takes_is_refused_or_flat() {
    let refused = to_tc(&policy(&deep("c9")), "eth0").expect_err("refused");
    assert!(refused.to_string().contains("is below more than 8 levels of qdiscs"), "{refused}");
    // A limit below makes HTB classes of all.
    let commands = to_tc(&policy(&deep("limit 1mbps of c9")), "eth0").expect("commands");
    assert_eq!(commands.matches(": wfq\n").count(), 6, "inner classes, with that of the link 7: {commands}");
    // Every class has a parent that an earlier command adds.
    let mut known = vec!["7e57:".to_owned()];
    for line in commands.lines().filter(|line| line.starts_with("tc class add")) {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(known.contains(&words[6].to_owned()), "{line}");
        known.push(words[8].to_owned());
    }
}
