//! The fate of single packets, and policies as commands of tc.

use expect_test::expect;
use weft_policy::explain::DescribedPacket;
use weft_policy::export::{ExportError, to_tc};
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
        # HTB at eth0, link of 10 Gb/s. Remove it by: tc qdisc del dev eth0 root
        #
        # Not expressed by these commands:
        # - strict priority: HTB serves each class up to its rate first, and offers spare rate in the order of `prio`
        # - weights: spare rate is shared between leaves by `quantum`, not by the weights on the way to them
        # - a class below others in strict priority has no guarantee; HTB needs a rate, and it gets 8 kb/s
        # - `fair of bulk`: its flows share one FIFO; where the kernel has fq_codel, put it in place of the pfifo
        # - ports are found behind IPv4 headers without options and IPv6 headers without extensions, and not in fragments
        # - row 4: cgroup "/app": u32 sees no cgroups (mark the packets, such as by nftables' `socket cgroupv2`); its packets go to the rows after it
        # - infrastructure (ARP, neighbour discovery, DHCP) has no share of its own: the classes take it
        # - a packet that is segmented later is charged once for its framing (`overhead`), not once for each segment

        tc qdisc add dev eth0 root handle 1: htb default 13

        # the whole link
        tc class add dev eth0 parent 1: classid 1:1 htb rate 10000000000bit ceil 10000000000bit burst 2503076b cburst 2503076b overhead 24 quantum 199940

        # root: strict priority
        tc class add dev eth0 parent 1:1 classid 1:8000 htb rate 10000000000bit ceil 10000000000bit burst 2503076b cburst 2503076b overhead 24 quantum 199940

        # web, under slow
        tc class add dev eth0 parent 1:8000 classid 1:10 htb rate 2000000000bit ceil 2000000000bit burst 503076b cburst 503076b overhead 24 prio 0 quantum 1538
        tc qdisc add dev eth0 parent 1:10 handle 10: pfifo limit 10000

        # root#1: weighted fair queueing
        tc class add dev eth0 parent 1:8000 classid 1:8001 htb rate 8000000000bit ceil 10000000000bit burst 2003076b cburst 2503076b overhead 24 quantum 199940

        # bulk
        tc class add dev eth0 parent 1:8001 classid 1:11 htb rate 2000000000bit ceil 10000000000bit burst 503076b cburst 2503076b overhead 24 prio 1 quantum 1538
        tc qdisc add dev eth0 parent 1:11 handle 11: pfifo limit 10000

        # app
        tc class add dev eth0 parent 1:8001 classid 1:12 htb rate 6000000000bit ceil 10000000000bit burst 1503076b cburst 2503076b overhead 24 prio 1 quantum 4614
        tc qdisc add dev eth0 parent 1:12 handle 12: pfifo limit 10000

        # default
        tc class add dev eth0 parent 1:8000 classid 1:13 htb rate 8000bit ceil 10000000000bit burst 3078b cburst 2503076b overhead 24 prio 2 quantum 1538
        tc qdisc add dev eth0 parent 1:13 handle 13: pfifo limit 10000

        # row 1: tcp and dport 80..81
        tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip protocol 6 0xff match ip dport 80 0xfffe flowid 1:10
        tc filter add dev eth0 parent 1: protocol ipv6 prio 2 u32 match ip6 protocol 6 0xff match ip6 dport 80 0xfffe flowid 1:10

        # row 2: to 10.0.0.0/8
        tc filter add dev eth0 parent 1: protocol ip prio 3 u32 match ip dst 10.0.0.0/8 flowid 1:11

        # row 3: mark 0x3/0xff
        tc filter add dev eth0 parent 1: protocol all prio 5 handle 0x3/0xff fw flowid 1:11
    "##]].assert_eq(&to_tc(&policy(text), "eth0").expect("commands"));
}

#[test]
fn limits_across_a_tree_are_listed_as_lost() {
    let mut shared = policy(&ready("figure11.weft"));
    shared.link = Some(BitsPerSec(10_000_000_000));
    let commands = to_tc(&shared, "eth0").expect("commands");
    assert!(commands.contains("the limit destination2 holds for 3 classes together"), "{commands}");
    let tenants = to_tc(&policy(&ready("figure1.weft")), "eth0").expect("commands");
    assert!(tenants.contains("the one queue of vm1.kvs"), "{tenants}");
    assert_eq!(tenants.matches("ceil 2000000000bit").count(), 3, "one for each application: {tenants}");
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
    assert!(!commands.contains("tc filter"), "{commands}");
}

#[test]
fn an_export_has_a_filter_for_each_destination_of_a_class() {
    let text = "link 1gbps\nclass a = tcp\nclass b = to 10.0.1.0/25\n\
                root = priority { slow, b }\nslow = limit by destination { 10.0.1.0/24: 1mbps, 10.0.2.0/24: 2mbps } of both\n\
                both = priority { a, default }\n";
    let commands = to_tc(&policy(text), "eth0").expect("commands");
    let filters: Vec<&str> = commands.lines().filter(|line| line.starts_with("tc filter")).collect();
    let of = |text: &str| filters.iter().filter(|line| line.contains(text)).count();
    // Class a to each destination and to others, class b, and default to each destination.
    assert_eq!((of("protocol 6 0xff match ip dst 10.0."), of("protocol 6 0xff"), filters.len()), (2, 4, 7));
    assert_eq!(of("dst 10.0.1.0/25"), 1, "{commands}");
    // The last destination of default, all others, is HTB's default.
    let default = commands
        .lines()
        .find_map(|line| line.strip_prefix("tc qdisc add dev eth0 root handle 1: htb default "));
    let minor = default.expect("a default");
    assert!(filters.iter().all(|line| !line.ends_with(&format!("flowid 1:{minor}"))), "{commands}");
}

#[test]
fn an_export_needs_a_rate_and_a_device() {
    let bare = policy("root = default\n");
    assert_eq!(to_tc(&bare, "eth0"), Err(ExportError::NoLinkRate));
    for device in ["", "eth0; reboot", "a-name-of-16-char", "-x", "a b"] {
        assert_eq!(to_tc(&bare, device), Err(ExportError::Device(device.to_owned())));
    }
}

#[test]
fn a_tree_deeper_than_htb_loses_levels() {
    let mut text = String::from("link 1gbps\n");
    let mut root = "c9".to_owned();
    for number in 0..10 {
        text += &format!("class c{number} = udp port {}\n", number + 1);
        if number < 9 {
            root = format!("wfq {{ c{number}: 1, {root}: 1 }}");
        }
    }
    text += &format!("root = {root}\n");
    let commands = to_tc(&policy(&text), "eth0").expect("commands");
    assert!(commands.contains("HTB has no level below"), "{commands}");
    // Every class has a parent that an earlier command adds.
    let mut known = vec!["1:".to_owned()];
    for line in commands.lines().filter(|line| line.starts_with("tc class add")) {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(known.contains(&words[6].to_owned()), "{line}");
        known.push(words[8].to_owned());
    }
}
