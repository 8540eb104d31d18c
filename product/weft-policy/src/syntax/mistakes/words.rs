//! The words of the language by the place where they are expected, and the words of others for the same.

use crate::disciplines;
use std::sync::LazyLock;

/// The words of tests.
pub(crate) const TESTS: &[&str] = &[
    "any", "tcp", "udp", "sctp", "icmp", "icmpv6", "protocol", "port", "sport", "dport", "from", "to",
    "mark", "priority", "cgroup", "vlan", "pcp", "dscp", "ecn", "user", "classid", "cookie", "process",
];

/// The words of tests that no value follows.
pub(crate) const BARE_TESTS: &[&str] = &["any", "tcp", "udp", "sctp", "icmp", "icmpv6"];

/// Words of tests that may be names elsewhere.
pub(super) const ATTRIBUTES: &[&str] =
    &["vlan", "pcp", "dscp", "ecn", "user", "classid", "cookie", "process"];

/// Words for what no packet has: the number or the file of the process that sent it.
pub(super) const NO_PROCESS: &[&str] = &["pid", "exe"];

/// Other languages' words for tests: tc, tcpdump, iptables, nftables.
pub(super) const TEST_SYNONYMS: &[(&str, &str)] = &[
    ("all", "any"),
    ("everything", "any"),
    ("proto", "protocol"),
    ("ip_proto", "protocol"),
    ("ports", "port"),
    ("src", "from"),
    ("source", "from"),
    ("saddr", "from"),
    ("src_ip", "from"),
    ("dst", "to"),
    ("dest", "to"),
    ("destination", "to"),
    ("daddr", "to"),
    ("dst_ip", "to"),
    ("src_port", "sport"),
    ("source_port", "sport"),
    ("dst_port", "dport"),
    ("dest_port", "dport"),
    ("destination_port", "dport"),
    ("fwmark", "mark"),
    ("prio", "priority"),
    ("icmp6", "icmpv6"),
    ("ipv6_icmp", "icmpv6"),
    ("vid", "vlan"),
    ("vlan_id", "vlan"),
    ("vlan_pcp", "pcp"),
    ("vlan_prio", "pcp"),
    ("cos", "pcp"),
    ("ip_dscp", "dscp"),
    ("diffserv", "dscp"),
    ("uid", "user"),
    ("skuid", "user"),
    ("uid_owner", "user"),
    ("owner", "user"),
    ("net_cls", "classid"),
    ("socket_cookie", "cookie"),
    ("comm", "process"),
    ("program", "process"),
    ("command", "process"),
    ("interface", "port"),
    ("iface", "port"),
    ("device", "port"),
    ("dev", "port"),
    ("oif", "port"),
    ("oifname", "port"),
];

/// Tests of two words in other languages (nftables, tcpdump).
pub(super) const TWO_WORDS: &[(&[&str], &str, &str)] = &[
    (&["ip", "ip6"], "saddr", "from"),
    (&["ip", "ip6"], "daddr", "to"),
    (&["ip", "ip6"], "src", "from"),
    (&["ip", "ip6"], "dst", "to"),
    (&["ip", "ip6"], "dscp", "dscp"),
    (&["ip"], "protocol", "protocol"),
    (&["src"], "net", "from"),
    (&["src"], "host", "from"),
    (&["src"], "port", "sport"),
    (&["dst"], "net", "to"),
    (&["dst"], "host", "to"),
    (&["dst"], "port", "dport"),
    (&["meta"], "mark", "mark"),
    (&["meta"], "skuid", "user"),
];

/// Other words for `fair`.
pub(super) const FAIR_SYNONYMS: &[(&str, &str)] =
    &[("fq", "fair"), ("sfq", "fair"), ("fq_codel", "fair"), ("fairly", "fair")];

/// Words for a guaranteed rate.
pub(super) const GUARANTEES: &[&str] =
    &["min", "guarantee", "guaranteed", "floor", "floors", "assured", "reserve", "at_least"];

/// The most tokens of a list that are looked at for its correction.
pub(super) const LIST_MAX: usize = 500;

/// Other words for `limit`.
pub(super) const LIMIT_SYNONYMS: &[(&str, &str)] = &[
    ("rate", "limit"),
    ("ceil", "limit"),
    ("max", "limit"),
    ("cap", "limit"),
    ("shape", "limit"),
    ("police", "limit"),
    ("throttle", "limit"),
    ("tbf", "limit"),
];

/// Other words for the first words of items.
pub(super) const ITEM_SYNONYMS: &[(&str, &str)] = &[
    ("rate", "link"),
    ("bandwidth", "link"),
    ("filter", "class"),
    ("match", "class"),
    ("delay", "latency"),
    ("policy", "steer"),
];

/// Abbreviations of words that occur in one place only.
pub(super) const PLACE_SYNONYMS: &[(&str, &str)] = &[
    ("dst", "destination"),
    ("dest", "destination"),
    ("pkts", "packets"),
    ("pkt", "packets"),
    ("p", "packets"),
];

/// The help for words in capitals.
pub(super) const LOWER_CASE: &str = "the words of the language are in lower case";
/// The help for misspelt words of items.
pub(super) const ITEMS: &str = "an item begins with `class`, `link`, `bound`, `latency` or `NAME =`";
/// The help for misspelt words of nodes.
pub(super) static NODES: LazyLock<String> = LazyLock::new(|| {
    format!("a node is {} with children in braces, `fair of` or `limit`", disciplines::alternatives())
});
/// The help for misspelt words between tests.
pub(super) const OPERATORS: &str = "tests are joined by `and` and `or`; `not` stands before one";
/// The help for misspelt words of limits.
pub(super) const LIMITS: &str = "such as `limit 2gbps burst 64kib of apps`";
