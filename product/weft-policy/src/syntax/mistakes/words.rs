//! The words of the language by the place where they are expected, and the words of others for the same.

use crate::corrections::Synonyms;
use crate::disciplines::{either, words};
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
pub(super) const TEST_SYNONYMS: &[Synonyms] = &[
    ("any", &["all", "everything"]),
    ("protocol", &["proto", "ip_proto"]),
    ("port", &["ports", "interface", "iface", "device", "dev", "oif", "oifname"]),
    ("from", &["src", "source", "saddr", "src_ip"]),
    ("to", &["dst", "dest", "destination", "daddr", "dst_ip"]),
    ("sport", &["src_port", "source_port"]),
    ("dport", &["dst_port", "dest_port", "destination_port"]),
    ("mark", &["fwmark"]),
    ("priority", &["prio"]),
    ("icmpv6", &["icmp6", "ipv6_icmp"]),
    ("vlan", &["vid", "vlan_id"]),
    ("pcp", &["vlan_pcp", "vlan_prio", "cos"]),
    ("dscp", &["ip_dscp", "diffserv"]),
    ("user", &["uid", "skuid", "uid_owner", "owner"]),
    ("classid", &["net_cls"]),
    ("cookie", &["socket_cookie"]),
    ("process", &["comm", "program", "command"]),
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
pub(super) const FAIR_SYNONYMS: &[Synonyms] = &[("fair", &["fq", "sfq", "fq_codel", "fairly"])];

/// Words for a guaranteed rate.
pub(super) const GUARANTEES: &[&str] =
    &["min", "guarantee", "guaranteed", "floor", "floors", "assured", "reserve", "at_least"];

/// The most tokens of a list that are looked at for its correction.
pub(super) const LIST_MAX: usize = 500;

/// Other words for `limit`.
pub(super) const LIMIT_SYNONYMS: &[Synonyms] =
    &[("limit", &["rate", "ceil", "max", "cap", "shape", "police", "throttle", "tbf"])];

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
pub(super) const PLACE_SYNONYMS: &[Synonyms] =
    &[("destination", &["dst", "dest"]), ("packets", &["pkts", "pkt", "p"])];

/// The help for words in capitals.
pub(super) const LOWER_CASE: &str = "the words of the language are in lower case";
/// The help for misspelt words of items.
pub(super) const ITEMS: &str = "an item begins with `class`, `link`, `bound`, `latency` or `NAME =`";
/// The help for misspelt words of nodes.
pub(super) static NODES: LazyLock<String> =
    LazyLock::new(|| format!("a node is {} with children in braces, `fair of` or `limit`", either(&words())));
/// The help for misspelt words between tests.
pub(super) const OPERATORS: &str = "tests are joined by `and` and `or`; `not` stands before one";
/// The help for misspelt words of limits.
pub(super) const LIMITS: &str = "such as `limit 2gbps burst 64kib of apps`";
