//! A corpus of ordinary mistakes: each is one error, at its place, with what was meant.

use crate::common::{WrongTokens, compiled, corrections_help};
use weft_policy::{Code, Diagnostic};

/// A policy with one mistake; the place and the code of its error, a word of the message, and the corrected lines that are
/// offered, if any are.
type Case = (&'static str, &'static str, Code, &'static str, Option<&'static str>);

const MISTAKES: &[Case] = &[
    ("class a = vlna 7\nroot = a\n", "1:11", Code::Unexpected, "vlan", Some("class a = vlan 7")),
    ("class a = uid 7\nroot = a\n", "1:11", Code::Unexpected, "user", Some("class a = user 7")),
    ("class a = vlan_id 7\nroot = a\n", "1:11", Code::Unexpected, "vlan", Some("class a = vlan 7")),
    ("class a = cos 5\nroot = a\n", "1:11", Code::Unexpected, "pcp", Some("class a = pcp 5")),
    (
        "class a = vlan 7 pcp 5\nroot = a\n",
        "1:18",
        Code::Unexpected,
        "and",
        Some("class a = vlan 7 and pcp 5"),
    ),
    ("class a = dscp EF\nroot = a\n", "1:16", Code::BadAttribute, "ef", Some("class a = dscp ef")),
    (
        "class a = comm \"nginx\"\nroot = a\n",
        "1:11",
        Code::Unexpected,
        "process",
        Some("class a = process \"nginx\""),
    ),
    (
        "class a = tcp and process nginx or udp\nroot = a\n",
        "1:27",
        Code::Unexpected,
        "in quotes",
        Some("class a = tcp and process \"nginx\" or udp"),
    ),
    (
        "class a = process \"prometheus-node-exporter\"\nroot = a\n",
        "1:19",
        Code::BadProcess,
        "prometheus-node",
        Some("class a = process \"prometheus-node\""),
    ),
    (
        "class a = oifname \"vm1\"\nroot = a\n",
        "1:11",
        Code::Unexpected,
        "port",
        Some("class a = port \"vm1\""),
    ),
    (
        "class a = tcp\nroot = a\nsteer isolat a on 4 queues\n",
        "3:7",
        Code::Unexpected,
        "isolate",
        Some("steer isolate a on 4 queues"),
    ),
    (
        "class a = tcp\nroot = a\nsteer isolate a 4 queues\n",
        "3:17",
        Code::Unexpected,
        "on",
        Some("steer isolate a on 4 queues"),
    ),
    (
        "class a = tcp\nroot = a\npolicy isolate a on 4 queues\n",
        "3:1",
        Code::Unexpected,
        "steer",
        Some("steer isolate a on 4 queues"),
    ),
    (
        "class a = tcp\nroot = a\nisolate a on 4 queues\n",
        "3:1",
        Code::Unexpected,
        "steer",
        Some("steer isolate a on 4 queues"),
    ),
    (
        "class a = tcp\nroot = a\nsteer static { a = 0..3 }\n",
        "3:18",
        Code::Unexpected,
        ":",
        Some("steer static { a: 0..3 }"),
    ),
    (
        "class a = tcp\nroot = a\nsteer isolate A on 4 queues\n",
        "3:15",
        Code::UnknownName,
        "`a`",
        Some("steer isolate a on 4 queues"),
    ),
    ("clas a = tcp\nroot = a\n", "1:1", Code::Unexpected, "class", Some("class a = tcp")),
    ("lnik 10gbps\nroot = default\n", "1:1", Code::Unexpected, "link", Some("link 10gbps")),
    ("bond 50 packets\nroot = default\n", "1:1", Code::Unexpected, "bound", Some("bound 50 packets")),
    (
        "class a = tcp\nclass b = udp\nlatncy 1ms of a\nroot = priority { a, b }\n",
        "3:1",
        Code::Unexpected,
        "latency",
        Some("latency 1ms of a"),
    ),
    ("class a = tcp prot 80\nroot = a\n", "1:15", Code::Unexpected, "port", Some("class a = tcp port 80")),
    (
        "class a = tpc and dport 80\nroot = a\n",
        "1:11",
        Code::Unexpected,
        "tcp",
        Some("class a = tcp and dport 80"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = priorty { a, b }\n",
        "3:8",
        Code::Unexpected,
        "priority",
        Some("root = priority { a, b }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = wqf { a: 1, b: 2 }\n",
        "3:8",
        Code::Unexpected,
        "wfq",
        Some("root = wfq { a: 1, b: 2 }"),
    ),
    (
        "class a = tcp\nclass b = udp\nx = limt 2gbps of a\nroot = priority { x, b }\n",
        "3:5",
        Code::Unexpected,
        "limit",
        Some("x = limit 2gbps of a"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = wfq { fiar of a: 1, b: 1 }\n",
        "3:14",
        Code::Unexpected,
        "fair",
        Some("root = wfq { fair of a: 1, b: 1 }"),
    ),
    ("bound 50 pakets\nroot = default\n", "1:10", Code::Unexpected, "packets", Some("bound 50 packets")),
    (
        "class a = tcp\nclass b = udp\nx = limit by destinaton { 10.0.0.0/8: 1gbps } of a\nroot = priority { x, b }\n",
        "3:14",
        Code::Unexpected,
        "destination",
        Some("x = limit by destination { 10.0.0.0/8: 1gbps } of a"),
    ),
    (
        "class a = tcp\nclass b = udp\nx = limit by prot { \"vm1\": 1gbps } of a\nroot = priority { x, b }\n",
        "3:14",
        Code::Unexpected,
        "port",
        Some("x = limit by port { \"vm1\": 1gbps } of a"),
    ),
    (
        "class a = tcp\nclass b = udp\nx = limit by port { vm1: 1gbps } of a\nroot = priority { x, b }\n",
        "3:21",
        Code::Unexpected,
        "quotes",
        Some("x = limit by port { \"vm1\": 1gbps } of a"),
    ),
    (
        "class a = tcp\nclass b = udp\nx = limit by port { \"vm1\" 1gbps } of a\nroot = priority { x, b }\n",
        "3:27",
        Code::Unexpected,
        "`:`",
        Some("x = limit by port { \"vm1\": 1gbps } of a"),
    ),
    (
        "class a = tcp adn dport 80\nroot = a\n",
        "1:15",
        Code::Unexpected,
        "and",
        Some("class a = tcp and dport 80"),
    ),
    ("Class a = tcp\nroot = a\n", "1:1", Code::Unexpected, "class", Some("class a = tcp")),
    (
        "class a = TCP and dport 80\nroot = a\n",
        "1:11",
        Code::Unexpected,
        "tcp",
        Some("class a = tcp and dport 80"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = Priority { a, b }\n",
        "3:8",
        Code::Unexpected,
        "priority",
        Some("root = priority { a, b }"),
    ),
    ("class a = NOT tcp\nroot = a\n", "1:11", Code::Unexpected, "not", Some("class a = not tcp")),
    ("class a = tcp\nRoot = a\n", "2:1", Code::MissingRoot, "root", Some("root = a")),
    ("class Web = tcp\nroot = web\n", "2:8", Code::UnknownName, "Web", Some("root = Web")),
    (
        "class memcached = tcp\nroot = fair of memcahed\n",
        "2:16",
        Code::UnknownName,
        "memcached",
        Some("root = fair of memcached"),
    ),
    ("class a = tcp\nroot = priority { a, videos }\n", "2:22", Code::UnknownName, "videos", None),
    (
        "class voice = udp\nbound 50 packets of vioce\nroot = voice\n",
        "2:21",
        Code::UnknownName,
        "voice",
        Some("bound 50 packets of voice"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = prio { a, b }\n",
        "3:8",
        Code::Unexpected,
        "priority",
        Some("root = priority { a, b }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = htb { a: 1, b: 1 }\n",
        "3:8",
        Code::Unexpected,
        "wfq",
        Some("root = wfq { a: 1, b: 1 }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = wfq { sfq of a: 1, b: 1 }\n",
        "3:14",
        Code::Unexpected,
        "fair",
        Some("root = wfq { fair of a: 1, b: 1 }"),
    ),
    (
        "class a = tcp\nclass b = udp\nx = limit rate 2gbps of a\nroot = priority { x, b }\n",
        "3:11",
        Code::Unexpected,
        "rate",
        Some("x = limit 2gbps of a"),
    ),
    (
        "class a = tcp\nclass b = udp\nx = rate 2gbps of a\nroot = priority { x, b }\n",
        "3:5",
        Code::Unexpected,
        "limit",
        Some("x = limit 2gbps of a"),
    ),
    (
        "class a = tcp\nclass b = udp\nx = limit 2gbps ceil 3gbps of a\nroot = priority { x, b }\n",
        "3:17",
        Code::Unexpected,
        "of",
        None,
    ),
    (
        "class a = tcp and src 10.0.0.0/8\nroot = a\n",
        "1:19",
        Code::Unexpected,
        "from",
        Some("class a = tcp and from 10.0.0.0/8"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = priority a, b }\n",
        "3:17",
        Code::Unexpected,
        "{",
        Some("root = priority { a, b }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = priority { a, b\n",
        "3:23",
        Code::Unexpected,
        "}",
        Some("root = priority { a, b }"),
    ),
    (
        "class a = tcp\nclass b = udp\nx = wfq { a: 1, b: 1\nroot = x\n",
        "3:21",
        Code::Unexpected,
        "}",
        Some("x = wfq { a: 1, b: 1 }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = priority a, b\n",
        "3:17",
        Code::Unexpected,
        "{",
        Some("root = priority { a, b }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = priority [ a, b ]\n",
        "3:17",
        Code::UnknownCharacter,
        "[",
        Some("root = priority { a, b }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = priority ( a, b )\n",
        "3:17",
        Code::Unexpected,
        "{",
        Some("root = priority { a, b }"),
    ),
    ("class a = tcp\nclass b = udp\nroot = { a, b }\n", "3:8", Code::Unexpected, "priority", None),
    ("class a = tcp\nclass b = udp\nroot = magic { a, b }\n", "3:8", Code::Unexpected, "magic", None),
    ("class a = tcp\nclass b = udp\nroot = a, b\n", "3:9", Code::Unexpected, "priority", None),
    (
        "class a = tcp\nclass b = udp\nroot = priority { a b }\n",
        "3:21",
        Code::Unexpected,
        ",",
        Some("root = priority { a, b }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = wfq { a: 1 b: 2 }\n",
        "3:19",
        Code::Unexpected,
        ",",
        Some("root = wfq { a: 1, b: 2 }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = priority { a,, b }\n",
        "3:21",
        Code::Unexpected,
        ",",
        Some("root = priority { a, b }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = priority { a; b }\n",
        "3:20",
        Code::UnknownCharacter,
        ";",
        Some("root = priority { a, b }"),
    ),
    ("class a = tcp;\nroot = a\n", "1:14", Code::UnknownCharacter, ";", Some("class a = tcp")),
    (
        "class a = tcp\nclass b = udp\nroot = wfq { a 1, b: 2 }\n",
        "3:16",
        Code::Unexpected,
        ":",
        Some("root = wfq { a: 1, b: 2 }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = wfq { a = 1, b: 2 }\n",
        "3:16",
        Code::Unexpected,
        ":",
        Some("root = wfq { a: 1, b: 2 }"),
    ),
    (
        "class a = tcp\nclass b = udp\nx = limit by destination { 10.0.0.0/8 1gbps } of a\nroot = priority { x, b }\n",
        "3:39",
        Code::Unexpected,
        ":",
        Some("x = limit by destination { 10.0.0.0/8: 1gbps } of a"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot: priority { a, b }\n",
        "3:5",
        Code::Unexpected,
        "=",
        Some("root = priority { a, b }"),
    ),
    ("class a: tcp\nroot = a\n", "1:8", Code::Unexpected, "=", Some("class a = tcp")),
    ("class a == tcp\nroot = a\n", "1:9", Code::Unexpected, "=", Some("class a = tcp")),
    ("class a tcp\nroot = a\n", "1:9", Code::Unexpected, "=", Some("class a = tcp")),
    (
        "class a = tcp\nclass b = udp\nroot priority { a, b }\n",
        "3:6",
        Code::Unexpected,
        "=",
        Some("root = priority { a, b }"),
    ),
    (
        "a = tcp and dport 80\nroot = a\n",
        "1:1",
        Code::Unexpected,
        "class",
        Some("class a = tcp and dport 80"),
    ),
    (
        "class a = tcp\nclass b = udp\nclass root = priority { a, b }\n",
        "3:1",
        Code::Unexpected,
        "node",
        Some("root = priority { a, b }"),
    ),
    ("class a = (tcp or udp\nroot = a\n", "1:22", Code::Unexpected, ")", Some("class a = (tcp or udp)")),
    ("class a = tcp or udp)\nroot = a\n", "1:21", Code::Unexpected, ")", Some("class a = tcp or udp")),
    (
        "class a = tcp\nclass b = udp\nx = limit 2gbps a\nroot = priority { x, b }\n",
        "3:17",
        Code::Unexpected,
        "of",
        Some("x = limit 2gbps of a"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = wfq { fair a: 1, b: 1 }\n",
        "3:19",
        Code::Unexpected,
        "of",
        Some("root = wfq { fair of a: 1, b: 1 }"),
    ),
    ("link 10 Gbps\nroot = default\n", "1:9", Code::Unexpected, "10Gbps", Some("link 10Gbps")),
    (
        "root = limit 1gbps burst 8 mb of default\n",
        "1:28",
        Code::Unexpected,
        "8mb",
        Some("root = limit 1gbps burst 8mb of default"),
    ),
    ("link 100Mbit/s\nroot = default\n", "1:6", Code::BadRate, "100mbps", Some("link 100mbps")),
    ("link 10G\nroot = default\n", "1:6", Code::BadRate, "10gbps", Some("link 10gbps")),
    (
        "root = limit 10MB/s of default\n",
        "1:14",
        Code::BadRate,
        "80mbps",
        Some("root = limit 80mbps of default"),
    ),
    ("link 40\nroot = default\n", "1:6", Code::BadRate, "40", None),
    (
        "root = limit 1gbps burst 64k of default\n",
        "1:26",
        Code::BadSize,
        "64kb",
        Some("root = limit 1gbps burst 64kb of default"),
    ),
    (
        "class a = udp\nlatency 200usec of a\nroot = a\n",
        "2:9",
        Code::BadLatency,
        "200us",
        Some("latency 200us of a"),
    ),
    (
        "class a = udp\nlatency 200µs of a\nroot = a\n",
        "2:9",
        Code::UnknownCharacter,
        "µ",
        Some("latency 200us of a"),
    ),
    ("root = limit 50% of default\n", "1:14", Code::BadRate, "percentage", None),
    (
        "class a = tcp\nclass b = udp\nroot = wfq { a: 30%, b: 70 }\n",
        "3:17",
        Code::BadWeight,
        "30",
        Some("root = wfq { a: 30, b: 70 }"),
    ),
    ("class a = tcp\nclass b = udp\nroot = wfq { a: 0, b: 1 }\n", "3:17", Code::BadWeight, "0", None),
    ("class a = tcp\nclass b = udp\nroot = wfq { a: -1, b: 1 }\n", "3:17", Code::BadWeight, "-1", None),
    (
        "class a = tcp\nclass b = udp\nroot = wfq { a: +1, b: 1 }\n",
        "3:17",
        Code::UnknownCharacter,
        "+",
        Some("root = wfq { a: 1, b: 1 }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = wfq { a, b }\n",
        "3:14",
        Code::WeightMissing,
        "weight",
        Some("root = wfq { a: 1, b: 1 }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = priority { a: 1, b: 2 }\n",
        "3:22",
        Code::WeightUnwanted,
        "wfq",
        Some("root = wfq { a: 1, b: 2 }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = priority { a: 1, b }\n",
        "3:22",
        Code::WeightUnwanted,
        "wfq",
        Some("root = priority { a, b }"),
    ),
    (
        "class a = tcp\nclass b = udp\nx = limit of a\nroot = priority { x, b }\n",
        "3:11",
        Code::Unexpected,
        "rate",
        None,
    ),
    (
        "class a = tcp\nclass b = udp\nx = limit 2gbps to a\nroot = priority { x, b }\n",
        "3:17",
        Code::Unexpected,
        "of",
        Some("x = limit 2gbps of a"),
    ),
    (
        "class a = tcp\nclass b = udp\nx = limit 2gbps to a of b\nroot = priority { x, a }\n",
        "3:20",
        Code::BadPrefix,
        "name",
        None,
    ),
    ("root = limit 0mbps of default\n", "1:14", Code::ZeroRate, "zero", None),
    (
        "class a = tcp\nx = priority { y, a }\ny = fifo { x }\nroot = x\n",
        "3:12",
        Code::Cycle,
        "below itself",
        None,
    ),
    ("class a = tcp\nclass a = udp\nroot = a\n", "2:7", Code::DefinedTwice, "twice", None),
    ("class a = tcp\nclass b = udp\nroot = a\nroot = b\n", "4:1", Code::DefinedTwice, "twice", None),
    ("link 1gbps\nlink 2gbps\nroot = default\n", "2:6", Code::StatedTwice, "twice", None),
    (
        "class a = tcp\nclass b = udp\nroot = priority { a, wfq { a: 1, b: 1 } }\n",
        "3:28",
        Code::SharedChild,
        "several parents",
        None,
    ),
    ("class a = tcp\nclass b = udp\nroot = priority { a, b, a }\n", "3:25", Code::ChildTwice, "twice", None),
    (
        "class a = tcp\nclass b = udp\nroot = wfq { a: 1, default: 1 }\n",
        "2:7",
        Code::ClassNotPlaced,
        "not placed",
        Some("root = wfq { b: 1, a: 1, default: 1 }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = priority { a, default }\n",
        "2:7",
        Code::ClassNotPlaced,
        "not placed",
        Some("root = priority { a, b, default }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = a\n",
        "2:7",
        Code::ClassNotPlaced,
        "not placed",
        Some("root = priority { a, b }"),
    ),
    ("class a = tcp\nclass b = udp\n", "1:1", Code::MissingRoot, "root", Some("root = priority { a, b }")),
    (
        "class a = tcp\nclass b = udp\ntree = priority { a, b }\n",
        "3:1",
        Code::MissingRoot,
        "root",
        Some("root = priority { a, b }"),
    ),
    (
        "class a = tcp\nclass b = udp\nrot = priority { a, b }\n",
        "3:1",
        Code::MissingRoot,
        "root",
        Some("root = priority { a, b }"),
    ),
    ("", "1:1", Code::MissingRoot, "root", Some("root = default")),
    ("# nothing\n", "1:1", Code::MissingRoot, "root", Some("root = default")),
    ("root = priority { }\n", "1:8", Code::NoChildren, "children", None),
    (
        "class a = tcp and dport 80-443\nroot = a\n",
        "1:25",
        Code::BadPort,
        "80..443",
        Some("class a = tcp and dport 80..443"),
    ),
    (
        "class a = tcp and dport 80:443\nroot = a\n",
        "1:25",
        Code::BadPort,
        "80..443",
        Some("class a = tcp and dport 80..443"),
    ),
    (
        "class a = tcp and dport 80 .. 443\nroot = a\n",
        "1:28",
        Code::Unexpected,
        "80..443",
        Some("class a = tcp and dport 80..443"),
    ),
    (
        "class a = tcp and dport 443..80\nroot = a\n",
        "1:25",
        Code::ReversedPorts,
        "80..443",
        Some("class a = tcp and dport 80..443"),
    ),
    ("class a = tcp and dport 80000\nroot = a\n", "1:25", Code::BadPort, "80000", None),
    (
        "class a = tcp and dport https\nroot = a\n",
        "1:25",
        Code::BadPort,
        "443",
        Some("class a = tcp and dport 443"),
    ),
    (
        "class a = tcp and dport 80, 443\nroot = a\n",
        "1:27",
        Code::Unexpected,
        "list",
        Some("class a = tcp and (dport 80 or dport 443)"),
    ),
    (
        "class a = tcp dport 80,443\nroot = a\n",
        "1:23",
        Code::Unexpected,
        "list",
        Some("class a = tcp and (dport 80 or dport 443)"),
    ),
    (
        "class a = tcp and dport = 80\nroot = a\n",
        "1:25",
        Code::Unexpected,
        "=",
        Some("class a = tcp and dport 80"),
    ),
    (
        "class a = tcp and dport in 80..90\nroot = a\n",
        "1:25",
        Code::Unexpected,
        "in",
        Some("class a = tcp and dport 80..90"),
    ),
    ("class a = tcp and 80\nroot = a\n", "1:19", Code::Unexpected, "80", Some("class a = tcp and port 80")),
    (
        "class a = 10.0.0.0/8\nroot = a\n",
        "1:11",
        Code::Unexpected,
        "10.0.0.0",
        Some("class a = to 10.0.0.0/8"),
    ),
    (
        "class a = to 10.0.0.1/24\nroot = a\n",
        "1:14",
        Code::HostBits,
        "10.0.0.0/24",
        Some("class a = to 10.0.0.0/24"),
    ),
    (
        "class a = to 10.1/16\nroot = a\n",
        "1:14",
        Code::BadPrefix,
        "10.1.0.0/16",
        Some("class a = to 10.1.0.0/16"),
    ),
    (
        "class a = to 10.0.1.0/255.255.255.0\nroot = a\n",
        "1:14",
        Code::BadPrefix,
        "10.0.1.0/24",
        Some("class a = to 10.0.1.0/24"),
    ),
    ("class a = to 10.0.0.0/33\nroot = a\n", "1:14", Code::BadPrefix, "10.0.0.0/33", None),
    ("class a = to example.org\nroot = a\n", "1:14", Code::BadPrefix, "example.org", None),
    (
        "class a = to 10.0.0.1:80\nroot = a\n",
        "1:22",
        Code::BadPrefix,
        "dport 80",
        Some("class a = to 10.0.0.1 and dport 80"),
    ),
    (
        "class a = to [fd00::]/8\nroot = a\n",
        "1:14",
        Code::UnknownCharacter,
        "[",
        Some("class a = to fd00::/8"),
    ),
    (
        "x = limit by destination { fd00::1:1gbps } of default\nroot = x\n",
        "1:28",
        Code::BadPrefix,
        "space",
        Some("x = limit by destination { fd00::1: 1gbps } of default"),
    ),
    ("class a = protocol tcp\nroot = a\n", "1:20", Code::Unexpected, "tcp", Some("class a = tcp")),
    ("class a = protocol gre\nroot = a\n", "1:20", Code::BadProtocol, "47", Some("class a = protocol 47")),
    ("class a = protocol 300\nroot = a\n", "1:20", Code::BadProtocol, "300", None),
    (
        "class a = tcp and and dport 80\nroot = a\n",
        "1:19",
        Code::Unexpected,
        "and",
        Some("class a = tcp and dport 80"),
    ),
    ("class a = tcp and\nroot = a\n", "1:18", Code::Unexpected, "test", Some("class a = tcp")),
    (
        "class a = dport 80 tcp\nroot = a\n",
        "1:20",
        Code::Unexpected,
        "and",
        Some("class a = dport 80 and tcp"),
    ),
    ("class a = tcp udp\nroot = a\n", "1:15", Code::Unexpected, "or", Some("class a = tcp or udp")),
    ("class a = tcp, udp\nroot = a\n", "1:14", Code::Unexpected, "or", Some("class a = tcp or udp")),
    (
        "class a = tcp && dport 80\nroot = a\n",
        "1:15",
        Code::UnknownCharacter,
        "and",
        Some("class a = tcp and dport 80"),
    ),
    ("class a = tcp || udp\nroot = a\n", "1:15", Code::UnknownCharacter, "or", Some("class a = tcp or udp")),
    ("class a = !tcp\nroot = a\n", "1:11", Code::UnknownCharacter, "not", Some("class a = not tcp")),
    ("class a = *\nroot = a\n", "1:11", Code::UnknownCharacter, "any", Some("class a = any")),
    ("// all traffic\nroot = default\n", "1:1", Code::UnknownCharacter, "#", Some("# all traffic")),
    (
        "root = default // all traffic\n",
        "1:16",
        Code::UnknownCharacter,
        "#",
        Some("root = default # all traffic"),
    ),
    ("/* all\n * traffic */\nroot = default\n", "1:1", Code::UnknownCharacter, "#", Some("# all\n# traffic")),
    ("-- all traffic\nroot = default\n", "1:1", Code::UnknownCharacter, "#", Some("# all traffic")),
    (
        "class a = cgroup /system.slice/web\nroot = a\n",
        "1:18",
        Code::Unexpected,
        "quotes",
        Some("class a = cgroup \"/system.slice/web\""),
    ),
    (
        "class a = cgroup '/web'\nroot = a\n",
        "1:18",
        Code::UnknownCharacter,
        "double quotes",
        Some("class a = cgroup \"/web\""),
    ),
    (
        "class a = cgroup “/web”\nroot = a\n",
        "1:18",
        Code::UnknownCharacter,
        "double quotes",
        Some("class a = cgroup \"/web\""),
    ),
    (
        "class a = cgroup \"/web\nroot = a\n",
        "1:18",
        Code::UnterminatedString,
        "quotes",
        Some("class a = cgroup \"/web\""),
    ),
    (
        "class a = cgroup \"/web/\"\nroot = a\n",
        "1:18",
        Code::BadCgroup,
        "/web",
        Some("class a = cgroup \"/web\""),
    ),
    ("class \"web\" = tcp\nroot = web\n", "1:7", Code::Unexpected, "quotes", Some("class web = tcp")),
    ("class port = tcp\nroot = port\n", "1:7", Code::ReservedName, "port", None),
    ("class 2nd = tcp\nroot = 2nd\n", "1:7", Code::Unexpected, "2nd", None),
    ("class größe = tcp\nroot = größe\n", "1:7", Code::UnknownCharacter, "ö", None),
    (
        "class a = tcp\nclass b = udp\nroot = priority { a, b } }\n",
        "3:26",
        Code::Unexpected,
        "}",
        Some("root = priority { a, b }"),
    ),
    ("class a = tcp\nroot = a first\n", "2:10", Code::Unexpected, "first", None),
    (
        "class a = tcp root = a\n",
        "1:15",
        Code::Unexpected,
        "end of the line",
        Some("class a = tcp\nroot = a"),
    ),
    (
        "class a = tcp and\u{a0}dport 80\nroot = a\n",
        "1:18",
        Code::UnknownCharacter,
        "character",
        Some("class a = tcp and dport 80"),
    ),
    ("class a = tcp\u{200b}\nroot = a\n", "1:14", Code::UnknownCharacter, "character", Some("class a = tcp")),
    ("link = 10gbps\nroot = default\n", "1:6", Code::Unexpected, "=", Some("link 10gbps")),
    ("bound 10k packets\nroot = default\n", "1:7", Code::BadBound, "10000", Some("bound 10000 packets")),
    ("bound 500\nroot = default\n", "1:10", Code::Unexpected, "packets", Some("bound 500 packets")),
    ("tenant a = tcp\nroot = default\n", "1:1", Code::Unexpected, "class", None),
    (
        "class a = mark 0x110/0xff\nroot = a\n",
        "1:16",
        Code::MarkBeyondMask,
        "0x10/0xff",
        Some("class a = mark 0x10/0xff"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = wfq {\n    a: 1,\n    b: 2,\n\nlink 1gbps\n",
        "5:10",
        Code::Unexpected,
        "}",
        Some("    b: 2, }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = wfq {\n    a: 1\n    b: 2,\n}\n",
        "5:5",
        Code::Unexpected,
        ",",
        Some("    a: 1,"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = wfq {\n    a = 1,\n    b: 2,\n}\n",
        "4:7",
        Code::Unexpected,
        ":",
        Some("    a: 1,"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = wfq { throttle 2gbps of a: 1, b: 1 }\n",
        "3:14",
        Code::Unexpected,
        "limit",
        Some("root = wfq { limit 2gbps of a: 1, b: 1 }"),
    ),
    (
        "class a = udp\nbound 500 pkts of a\nroot = a\n",
        "2:11",
        Code::Unexpected,
        "packets",
        Some("bound 500 packets of a"),
    ),
    ("class a = tcp\na = fair of default\nroot = a\n", "2:1", Code::DefinedTwice, "twice", None),
    (
        "class a = tcp\nclass b = udp\nx = priority { a, b }\nroot = fifo { x, default }\n",
        "4:1",
        Code::FifoOverScheduled,
        "merge",
        None,
    ),
    (
        "class a = tcp\nclass b = udp\nroot = fair of fifo { a, b }\n",
        "3:16",
        Code::FairNotOneClass,
        "fair",
        None,
    ),
    (
        "class a = cgroup \"/a\" and cgroup \"b\"\nroot = a\n",
        "1:7",
        Code::CgroupsNotComparable,
        "cgroup",
        None,
    ),
    (
        "class web = tcp\nroot = priority { web limit 100mbps, default }\n",
        "2:23",
        Code::Unexpected,
        "limit 100mbps of web",
        Some("root = priority { limit 100mbps of web, default }"),
    ),
    (
        "class a = tcp\nclass b = udp\nroot = fair of { a, b }\n",
        "3:16",
        Code::Unexpected,
        "`wfq` shares between classes",
        Some("root = wfq { fair of a: 1, fair of b: 1 }"),
    ),
    (
        "class a = dport { 80, 443 }\nroot = a\n",
        "1:17",
        Code::Unexpected,
        "one value",
        Some("class a = (dport 80 or dport 443)"),
    ),
    (
        "class a = tcp dport {80,443,8000..8080} and mark 3\nroot = a\n",
        "1:21",
        Code::Unexpected,
        "one value",
        Some("class a = tcp and (dport 80 or dport 443 or dport 8000..8080) and mark 3"),
    ),
    (
        "class a = to { 10.0.0.0/8, fd00::/8 }\nroot = a\n",
        "1:14",
        Code::Unexpected,
        "one value",
        Some("class a = (to 10.0.0.0/8 or to fd00::/8)"),
    ),
    (
        "class a = ip dst 10.0.0.0/8\nroot = a\n",
        "1:11",
        Code::Unexpected,
        "`to`",
        Some("class a = to 10.0.0.0/8"),
    ),
    (
        "class a = tcp and ip6 saddr fd00::/8\nroot = a\n",
        "1:19",
        Code::Unexpected,
        "`from`",
        Some("class a = tcp and from fd00::/8"),
    ),
    (
        "class a = dst net 10.0.0.0/8\nroot = a\n",
        "1:11",
        Code::Unexpected,
        "`to`",
        Some("class a = to 10.0.0.0/8"),
    ),
    (
        "class a = tcp and dst port 80\nroot = a\n",
        "1:19",
        Code::Unexpected,
        "`dport`",
        Some("class a = tcp and dport 80"),
    ),
    ("class a = tcp\nroot = guarantee 1gbps of a\n", "2:8", Code::Unexpected, "`floors`", None),
    (
        "class a = tcp\nroot = wfq { min 1gbps max 2gbps of a: 1, default: 1 }\n",
        "2:14",
        Code::Unexpected,
        "`floors`",
        None,
    ),
    (
        "class a = tcp\nroot = priority { a, rest }\n",
        "2:22",
        Code::UnknownName,
        "`default`",
        Some("root = priority { a, default }"),
    ),
    (
        "class a = tcp\nroot = wfq { a: 0.5, default: 0.5 }\n",
        "2:17",
        Code::BadWeight,
        "`0.",
        Some("root = wfq { a: 1, default: 1 }"),
    ),
    (
        "class a = tcp\nroot = wfq { a: 0.75, default: 1 }\n",
        "2:17",
        Code::BadWeight,
        "`0.",
        Some("root = wfq { a: 3, default: 4 }"),
    ),
    ("class default = tcp\nroot = default\n", "1:7", Code::DefaultRedefined, "default", None),
];

fn errors(text: &str) -> Vec<Diagnostic> {
    compiled(text).diagnostics.into_iter().filter(Diagnostic::is_error).collect()
}

#[test]
fn each_mistake_is_one_error_with_what_was_meant() {
    assert!(MISTAKES.len() >= 60, "{}", MISTAKES.len());
    for (text, place, code, word, write) in MISTAKES {
        let errors = errors(text);
        assert_eq!(errors.len(), 1, "{text}\n{errors:#?}");
        let error = &errors[0];
        assert_eq!(format!("{}:{}", error.start.line, error.start.column), *place, "{text}\n{error:?}");
        assert_eq!(error.code, *code, "{text}\n{error:?}");
        assert!(error.message.contains(word), "{word:?} in {:?}", error.message);
        let offered = error.fix.as_ref().map(|fix| fix.write.as_deref().expect("a short line"));
        assert_eq!(offered, *write, "{text}\n{error:?}");
    }
}

#[test]
fn each_fix_makes_a_policy_that_compiles() {
    let mut fixed = 0;
    for (text, ..) in MISTAKES {
        let Some(fix) = errors(text).remove(0).fix else { continue };
        let (again, new) = (compiled(&fix.apply(text)), fix.apply(text));
        assert!(again.policy.is_some(), "{text}\n{new}\n{:?}", again.diagnostics);
        corrections_help(text);
        fixed += 1;
    }
    assert!(fixed > 100, "{fixed}");
}

#[test]
fn two_mistakes_are_two_errors() {
    let text = "class a = tcp prot 80\nroot = priorty { a }\n";
    let messages: Vec<String> = errors(text).into_iter().map(|error| error.message).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].contains("`port`") && messages[1].contains("`priority`"), "{messages:?}");
    // The rest of a file is read whatever is wrong before it.
    for (text, ..) in MISTAKES {
        let more = format!("class zz = udp and dport 70000\n{text}");
        let codes: Vec<Code> = errors(&more).iter().map(|error| error.code).collect();
        assert!(codes.contains(&Code::BadPort), "{more}\n{codes:?}");
    }
}

#[test]
fn a_very_long_name_is_shortened_in_its_message() {
    let errors = errors(&format!("class a = tcp\nroot = {}\n", "x".repeat(5000)));
    assert_eq!((errors.len(), errors[0].code), (1, Code::UnknownName));
    assert!(errors[0].message.len() < 120, "{}", errors[0].message);
    let long = "x".repeat(5000);
    assert!(compiled(&format!("class {long} = tcp\nroot = {long}\n")).policy.is_some());
}

#[test]
fn line_ends_tabs_and_byte_order_marks_are_no_mistakes() {
    let text =
        "\u{feff}# all\r\nclass\ta = tcp\tport 80\r\n\r\nroot = wfq {\r\n\ta: 1,\r\n\tdefault: 1,\r\n}\r\n";
    let compilation = compiled(text);
    assert_eq!(compilation.diagnostics, []);
    let wrong = text.replace("default: 1", "default 1");
    let errors = errors(&wrong);
    let fix = errors[0].fix.as_ref().expect("a fix");
    assert_eq!((errors.len(), errors[0].start.line, errors[0].start.column), (1, 6, 10));
    assert_eq!(fix.write.as_deref(), Some("    default: 1,"), "tabs are drawn as spaces");
    assert_eq!(fix.apply(&wrong), text, "line ends stay");
}

/// A policy with every construct of the language.
const WHOLE: &str = "\
link 10gbps
bound 500 packets
class web = tcp and dport 80..443
class voice = udp port 5060 or mark 1/0xff
class bulk = to 10.0.0.0/8 and not (cgroup \"/app\" or protocol 47)
latency 1ms of voice
bound 20 packets of bulk

root = priority { voice, tenants }
tenants = wfq { fair of web: 3, slow: 1, default: 2 }
slow = limit by destination { 10.0.1.0/24: 2gbps, fd00::/8: 1gbps burst 64kib } of cap
cap = limit 5gbps burst 1mb of bulk
";

/// The ways to write a token wrong: left out, twice, misspelt, in capitals, another sign.
fn misspelt(token: &str) -> Vec<String> {
    let mut ways = vec![String::new(), format!("{token} {token}")];
    if token.len() > 2 && token.chars().all(|c| c.is_ascii_alphabetic()) {
        let (first, rest) = token.split_at(1);
        let second = &rest[..1];
        ways.push(format!("{first}{}", &rest[1..]));
        ways.push(format!("{first}{}{second}{}", &rest[1..2], &rest[2..]));
        ways.push(token.to_uppercase());
        ways.push(first.to_uppercase() + rest);
    }
    const SIGNS: [&str; 10] = [";", ":", "=", ",", "(", ")", "[", "]", "{", "}"];
    if SIGNS.contains(&token) {
        ways.extend(SIGNS.iter().filter(|sign| **sign != token).map(|sign| (*sign).to_owned()));
    }
    ways
}

#[test]
fn a_single_wrong_token_is_a_single_error() {
    assert_eq!(compiled(WHOLE).diagnostics, []);
    let WrongTokens { count, single, offered, right } = WrongTokens::of(WHOLE, misspelt, errors);
    assert!(count > 500 && single * 100 >= count * 99, "{single} of {count}");
    assert!(offered * 2 >= count && right * 100 >= offered * 92, "{right} of {offered} of {count}");
}
