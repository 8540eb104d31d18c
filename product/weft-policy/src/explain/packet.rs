//! A packet as people write it: `tcp 192.0.2.1:1234 > 192.0.2.2:80 mark 3 cgroup /web`.
//!
//! ```text
//! packet   = "non-ip" { metadata } | protocol address ">" address { metadata } ;
//! protocol = "tcp" | "udp" | "sctp" | "icmp" | "icmpv6" | NUMBER ;
//! address  = IP [ ":" PORT ] ;                          (* an IPv6 address with a port is in brackets *)
//! metadata = "mark" NUMBER | "priority" NUMBER | "cgroup" PATH | "port" NAME | attribute
//!          | ( "deadline" | "slack" | "late" | "txtime" ) TIME | ( "length" | "left" ) BYTES | "pace" RATE ;
//! attribute = ( "vlan" | "pcp" | "dscp" | "ecn" | "user" | "classid" | "cookie" | "process" ) VALUE ;   (* as in policies *)
//! ```
//!
//! A PATH or a NAME may be in quotes, and then contain spaces; so may the value of `process`.

use super::ranks::Claims;
use crate::attributes;
use crate::compiled::CompiledPolicy;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use weft_packet::{Attribute, AttributeTests};
use weft_text::{ParseError, Span, hint_and_all, quoted};
use weft_units::{FlowKey, Nanos, PacketMeta, ProcessName, Protocol, VlanTag};

/// A packet's metadata, with the path of its sender's cgroup and the name of its port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DescribedPacket {
    /// The five-tuple; `None` for packets other than IP.
    pub key: Option<FlowKey>,
    /// The mark.
    pub mark: u32,
    /// The priority.
    pub priority: u32,
    /// The sender's cgroup, if it has one.
    pub cgroup: Option<String>,
    /// The name of the port of the NIC at which the packet leaves, if it has one.
    pub port: Option<String>,
    /// The attributes that are given, with their values.
    pub attributes: AttributeTests,
    /// Its length, and the claims of its sender, for algorithms.
    pub claims: Claims,
}

/// The words of protocols.
const PROTOCOLS: [(&str, Protocol); 5] = [
    ("tcp", Protocol::TCP),
    ("udp", Protocol::UDP),
    ("sctp", Protocol::SCTP),
    ("icmp", Protocol::ICMP),
    ("icmpv6", Protocol::ICMPV6),
];
/// The word for packets other than IP.
const NON_IP: &str = "non-ip";
/// The words of the metadata.
const METADATA: [&str; 19] = [
    "mark", "priority", "cgroup", "port", "vlan", "pcp", "dscp", "ecn", "user", "classid", "cookie",
    "process", "length", "deadline", "slack", "late", "txtime", "left", "pace",
];
/// Other words for metadata.
const SYNONYMS: [(&str, &str); 5] =
    [("prio", "priority"), ("fwmark", "mark"), ("uid", "user"), ("cos", "pcp"), ("comm", "process")];
/// An example of a whole packet.
const EXAMPLE: &str = "such as `tcp 192.0.2.1:1234 > 192.0.2.2:80 mark 3 cgroup /web`";

/// The words of a packet's text, with their places.
struct Words<'a> {
    text: &'a str,
    rest: Vec<(usize, &'a str)>,
    at: usize,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        // `>` is a separate word, with or without spaces around it. Neither it nor a space ends a word within quotes.
        let mut rest = Vec::new();
        let mut start = None;
        let mut quotes = false;
        let end = text.len();
        for (at, c) in text.char_indices().chain([(end, ' ')]) {
            quotes ^= c == '"';
            if at == end || !quotes && (c.is_whitespace() || c == '>') {
                rest.extend(start.take().map(|from: usize| (from, &text[from..at])));
                if c == '>' {
                    rest.push((at, &text[at..=at]));
                }
            } else {
                start = start.or(Some(at));
            }
        }
        Self { text, rest, at: 0 }
    }

    fn next(&mut self) -> Option<(Span, &'a str)> {
        let (start, word) = *self.rest.get(self.at)?;
        self.at += 1;
        Some((Span::new(start, start + word.len()), word))
    }

    /// Reads the next word if it is `word`.
    fn eat(&mut self, word: &str) -> bool {
        let found = self.rest.get(self.at).is_some_and(|(_, next)| *next == word);
        self.at += usize::from(found);
        found
    }

    /// The next word, or the error that `what` is missing.
    fn expect(&mut self, what: &str) -> Result<(Span, &'a str), ParseError> {
        self.next()
            .ok_or_else(|| ParseError::new(Span::at(self.text.len()), format!("{what} is missing"), EXAMPLE))
    }
}

impl FromStr for DescribedPacket {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut words = Words::new(text);
        let (span, word) = words.expect("the protocol")?;
        let key = if word == NON_IP { None } else { Some(key(&mut words, protocol(span, word)?)?) };
        let mut packet = Self { key, ..Self::default() };
        while let Some((span, word)) = words.next() {
            match word {
                "mark" => packet.mark = number(&mut words, word)?,
                "priority" => packet.priority = number(&mut words, word)?,
                "cgroup" => {
                    let (_, path) = words.expect("the path of the cgroup")?;
                    packet.cgroup = Some(path.trim_matches('"').to_owned());
                }
                "port" => {
                    let (_, name) = words.expect("the name of the port")?;
                    packet.port = Some(name.trim_matches('"').to_owned());
                }
                _ if packet.claims.set(&mut words, word)? => {}
                _ => packet.set_attribute(&mut words, (span, word))?,
            }
        }
        Ok(packet)
    }
}

fn protocol(span: Span, word: &str) -> Result<Protocol, ParseError> {
    let known = PROTOCOLS.iter().find(|(name, _)| *name == word).map(|(_, protocol)| *protocol);
    known.or_else(|| word.parse().ok().map(Protocol)).ok_or_else(|| {
        let names: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).chain([NON_IP]).collect();
        let hint = format!(
            "{}, or a number from 0 to 255; {EXAMPLE}",
            hint_and_all(word, &names, &[("arp", NON_IP)])
        );
        ParseError::new(span, format!("{} is not a protocol", quoted(word)), hint)
    })
}

/// `address ">" address`, or as in policies `"from" address [ "sport" PORT ] "to" address [ "dport" PORT ]`
fn key(words: &mut Words<'_>, protocol: Protocol) -> Result<FlowKey, ParseError> {
    let arrow = if words.eat("from") { "to" } else { ">" };
    let (_, source) = end(words, "the source address", "sport", protocol)?;
    let (span, found) = words.expect(&format!("`{arrow}`"))?;
    if found != arrow {
        let message = format!("expected `{arrow}`, found {}", quoted(found));
        return Err(ParseError::new(span, message, format!("it stands between the addresses, {EXAMPLE}")));
    }
    let (span, target) = end(words, "the destination address", "dport", protocol)?;
    let ((src, sport), (dst, dport)) = (source, target);
    if src.is_ipv4() != dst.is_ipv4() {
        return Err(ParseError::new(
            span,
            "the addresses are of two families",
            "write both as IPv4, or both as IPv6",
        ));
    }
    Ok(FlowKey { src, dst, sport, dport, protocol })
}

/// An address, and its port behind a colon or behind the word `port`.
fn end(
    words: &mut Words<'_>,
    what: &str,
    port: &str,
    protocol: Protocol,
) -> Result<(Span, (IpAddr, u16)), ParseError> {
    let (span, word) = words.expect(what)?;
    if word.parse::<IpAddr>().is_err() || !words.eat(port) {
        return address(span, word, protocol);
    }
    let (at, number) = words.expect(&format!("the number of `{port}`"))?;
    address(span.to(at), &format!("[{word}]:{number}"), protocol)
}

/// `IP [ ":" PORT ]`
fn address(span: Span, word: &str, protocol: Protocol) -> Result<(Span, (IpAddr, u16)), ParseError> {
    let wrong = |what: String, hint: &str| ParseError::new(span, what, hint);
    let ported = [Protocol::TCP, Protocol::UDP, Protocol::SCTP].contains(&protocol);
    let (ip, port) = match word.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((ip, rest)) => (ip, rest.strip_prefix(':')),
        None if word.matches(':').count() == 1 => {
            word.split_once(':').map_or((word, None), |(ip, p)| (ip, Some(p)))
        }
        None => (word, None),
    };
    let ip = ip.parse::<IpAddr>().map_err(|_| {
        wrong(
            format!("{} is not an address", quoted(word)),
            "an IPv6 address with a port is in brackets: `[2001:db8::1]:80`",
        )
    })?;
    match (port, ported) {
        (None, false) => Ok((span, (ip, 0))),
        (None, true) => {
            let bare = if ip.is_ipv6() { format!("[{ip}]:80") } else { format!("{ip}:80") };
            Err(wrong(format!("the port of {} is missing", quoted(word)), &format!("such as `{bare}`")))
        }
        (Some(_), false) => {
            Err(wrong(format!("{} has a port, and its protocol has none", quoted(word)), "leave it out"))
        }
        (Some(port), true) => match port.parse::<u16>() {
            Ok(port) if port > 0 => Ok((span, (ip, port))),
            _ => Err(wrong(format!("{} is not a port", quoted(port)), "ports are numbers from 1 to 65535")),
        },
    }
}

fn number(words: &mut Words<'_>, what: &str) -> Result<u32, ParseError> {
    let (span, word) = words.expect(&format!("the number of `{what}`"))?;
    let parsed = match word.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => word.parse(),
    };
    let hint = "numbers from 0 to 4294967295, or 0x...";
    parsed.map_err(|_| ParseError::new(span, format!("{} is not a {what}", quoted(word)), hint))
}

impl Claims {
    /// Reads the value of `word`. Returns whether it is one of these.
    fn set(&mut self, words: &mut Words<'_>, word: &str) -> Result<bool, ParseError> {
        match word {
            "length" => self.length = value(words, word, "such as `length 1514`")?,
            "deadline" => self.deadline = Some(time(words, word)?),
            "slack" => self.slack = Some(time(words, word)?),
            "late" => self.late = Some(time(words, word)?),
            "txtime" => self.txtime = Some(time(words, word)?),
            "left" => self.left = Some(value(words, word, "such as `left 64kb`")?),
            "pace" => self.pace = Some(value(words, word, "such as `pace 10mbps`")?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn value<T: FromStr>(words: &mut Words<'_>, what: &str, hint: &str) -> Result<T, ParseError> {
    let (span, word) = words.expect(&format!("the value of `{what}`"))?;
    word.parse().map_err(|_| ParseError::new(span, format!("{} is not a {what}", quoted(word)), hint))
}

/// A time with its unit: a bare number would be one of seconds.
fn time(words: &mut Words<'_>, what: &str) -> Result<Nanos, ParseError> {
    let hint = format!("such as `{what} 5ms`");
    let unit = words.rest.get(words.at).is_none_or(|(_, word)| word.ends_with('s'));
    match unit {
        true => value(words, what, &hint),
        false => {
            let (span, word) = words.expect("a time")?;
            Err(ParseError::new(span, format!("{} has no unit", quoted(word)), hint))
        }
    }
}

impl DescribedPacket {
    /// Reads the value of the attribute `word`.
    fn set_attribute(&mut self, words: &mut Words<'_>, (span, word): (Span, &str)) -> Result<(), ParseError> {
        let Some(attribute) = Attribute::named(word) else {
            let message = format!("{} is no metadata of a packet", quoted(word));
            return Err(ParseError::new(span, message, hint_and_all(word, &METADATA, &SYNONYMS)));
        };
        let (at, value) = words.expect(&format!("the value of `{word}`"))?;
        let Some(value) = attributes::read(attribute, value) else {
            let message = format!("{} is not {}", quoted(value), attributes::noun(attribute));
            let hint = match attribute {
                Attribute::User => "the user's number, such as `user 1000`",
                _ => attributes::help(attribute),
            };
            return Err(ParseError::new(at, message, hint));
        };
        if self.key.is_none() && matches!(attribute, Attribute::Dscp | Attribute::Ecn) {
            let message = format!("a packet other than IP has no {word}");
            return Err(ParseError::new(span, message, "leave it out, or write the packet's addresses"));
        }
        self.attributes = self.attributes.with(attribute, value);
        Ok(())
    }

    /// The outermost tag: that of VLAN 0 if only its priority is given.
    fn tag(&self) -> Option<VlanTag> {
        let of = |attribute| self.attributes.get(attribute);
        let (id, priority) = (of(Attribute::Vlan), of(Attribute::Pcp));
        id.or(priority)?;
        Some(VlanTag { id: id.unwrap_or(0) as u16, priority: priority.unwrap_or(0) as u8 })
    }

    /// The metadata that `policy` uses to classify the packet.
    pub fn meta(&self, policy: &CompiledPolicy) -> PacketMeta {
        let port = self.port.as_ref().map_or(0, |name| policy.port_number(name));
        let of = |attribute| self.attributes.get(attribute).unwrap_or(0);
        PacketMeta {
            key: self.key,
            mark: self.mark,
            priority: self.priority,
            cgroups: self.bits(&policy.cgroups),
            port,
            vlan: self.tag(),
            traffic_class: (of(Attribute::Dscp) << 2 | of(Attribute::Ecn)) as u8,
            user: self.attributes.get(Attribute::User).map(|user| user as u32),
            cookie: of(Attribute::Cookie) as u64,
            classid: of(Attribute::ClassId) as u32,
            process: self.attributes.get(Attribute::Process).and_then(ProcessName::of_number),
        }
    }

    /// The bits of those of `cgroups` in which the sender is.
    fn bits(&self, cgroups: &[String]) -> u64 {
        let within = |outer: &str| {
            let inner = self.cgroup.as_deref().unwrap_or_default();
            let below =
                inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            !inner.is_empty() && (below || (outer == "/" && inner.starts_with('/')))
        };
        let bits = cgroups.iter().enumerate().take(64).filter(|(_, path)| within(path));
        bits.fold(0, |all, (number, _)| all | 1_u64 << number)
    }
}

impl fmt::Display for DescribedPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            None => f.write_str(NON_IP)?,
            Some(key) => {
                match PROTOCOLS.iter().find(|(_, protocol)| *protocol == key.protocol) {
                    Some((name, _)) => write!(f, "{name}")?,
                    None => write!(f, "{}", key.protocol.0)?,
                }
                let end = |ip: IpAddr, port: u16| match (ip, port) {
                    (ip, 0) => ip.to_string(),
                    (IpAddr::V4(ip), port) => format!("{ip}:{port}"),
                    (IpAddr::V6(ip), port) => format!("[{ip}]:{port}"),
                };
                write!(f, " {} > {}", end(key.src, key.sport), end(key.dst, key.dport))?;
            }
        }
        if self.mark != 0 {
            write!(f, " mark {:#x}", self.mark)?;
        }
        if self.priority != 0 {
            write!(f, " priority {}", self.priority)?;
        }
        self.cgroup.iter().try_for_each(|path| write!(f, " cgroup {}", weft_text::printable(path)))?;
        self.port.iter().try_for_each(|name| write!(f, " port {}", weft_text::printable(name)))?;
        self.attributes
            .iter()
            .try_for_each(|(of, value)| write!(f, " {of} {}", attributes::write(of, value)))?;
        write!(f, "{}", self.claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_and_written() {
        for (text, written) in [
            ("tcp 10.0.0.1:1234 > 10.0.0.2:80", "tcp 10.0.0.1:1234 > 10.0.0.2:80"),
            ("udp 10.0.0.1:1>10.0.0.2:2 mark 0x10/", ""),
            (
                "udp [fd00::1]:53 > [fd00::2]:5353 mark 16 priority 3",
                "udp [fd00::1]:53 > [fd00::2]:5353 mark 0x10 priority 3",
            ),
            ("icmp 10.0.0.1 > 10.0.0.2 cgroup \"/a/b\"", "icmp 10.0.0.1 > 10.0.0.2 cgroup /a/b"),
            ("47 fd00::1 > fd00::2", "47 fd00::1 > fd00::2"),
            ("non-ip mark 0", "non-ip"),
            ("non-ip port \"vm1\"", "non-ip port vm1"),
            ("non-ip pcp 5 user 0", "non-ip pcp 5 user 0"),
            ("non-ip process nginx", "non-ip process \"nginx\""),
            ("non-ip process \"tmux: > 2\" mark 1", "non-ip mark 0x1 process \"tmux: > 2\""),
            ("non-ip process \"a b", "non-ip process \"a b\""),
            ("non-ip process sixteen.letters!", ""),
            ("non-ip left 3kb deadline 5ms length 64", "non-ip length 64 deadline 5000000ns left 3000"),
            (
                "non-ip slack 1us late 0s txtime 2s pace 8kbps",
                "non-ip slack 1000ns late 0ns txtime 2000000000ns pace 8000bps",
            ),
            ("non-ip deadline 5", ""),
            ("non-ip length x", ""),
            (
                "icmpv6 fd00::1 > fd00::2 cookie 31 vlan 7 dscp 46 ecn 3 classid 0x100001",
                "icmpv6 fd00::1 > fd00::2 vlan 7 dscp ef ecn ce classid 10:1 cookie 0x1f",
            ),
        ] {
            match text.parse::<DescribedPacket>() {
                Ok(packet) => {
                    assert_eq!(packet.to_string(), written);
                    assert_eq!(written.parse::<DescribedPacket>(), Ok(packet));
                }
                Err(error) => assert_eq!(written, "", "{text}: {error}"),
            }
        }
    }

    #[test]
    fn addresses_may_be_written_as_in_policies() {
        let read = |text: &str| text.parse::<DescribedPacket>().unwrap_or_else(|e| panic!("{text}: {e}"));
        for (text, same) in [
            (
                "tcp from 10.0.0.1 sport 7 to 10.0.0.2 dport 443 mark 3",
                "tcp 10.0.0.1:7 > 10.0.0.2:443 mark 3",
            ),
            ("udp from 10.0.0.1:7 to 10.0.0.2:53", "udp 10.0.0.1:7 > 10.0.0.2:53"),
            ("tcp from fd00::1 sport 7 to fd00::2 dport 443", "tcp [fd00::1]:7 > [fd00::2]:443"),
            ("icmp from 10.0.0.1 to 10.0.0.2", "icmp 10.0.0.1 > 10.0.0.2"),
        ] {
            assert_eq!(read(text), read(same), "{text}");
        }
    }

    #[test]
    fn errors_name_the_word() {
        for (text, at, words) in [
            ("", 0, "the protocol is missing"),
            ("tpc 10.0.0.1:1 > 10.0.0.2:2", 0, "did you mean `tcp`"),
            ("tcp 10.0.0.1:1", 14, "`>` is missing"),
            ("tcp 10.0.0.1:1 to 10.0.0.2:2", 15, "expected `>`, found `to`"),
            ("tcp from 10.0.0.1:1 > 10.0.0.2:2", 20, "expected `to`, found `>`"),
            ("tcp from 10.0.0.1 to 10.0.0.2 dport 443", 9, "the port of `10.0.0.1` is missing"),
            ("tcp from 10.0.0.1 sport", 23, "the number of `sport` is missing"),
            ("tcp 10.0.0.1 > 10.0.0.2:2", 4, "the port of `10.0.0.1` is missing"),
            ("icmp 10.0.0.1:1 > 10.0.0.2", 5, "has a port"),
            ("tcp 10.0.0:1 > 10.0.0.2:2", 4, "`10.0.0:1` is not an address"),
            ("tcp 10.0.0.1:70000 > 10.0.0.2:2", 4, "`70000` is not a port"),
            ("tcp fd00::1 > [fd00::2]:2", 4, "[fd00::1]:80"),
            ("icmp 10.0.0.1 > fd00::2", 16, "two families"),
            ("tcp 10.0.0.1:1 > 10.0.0.2:2 prio 3", 28, "did you mean `priority`"),
            ("tcp 10.0.0.1:1 > 10.0.0.2:2 mark x", 33, "`x` is not a mark"),
            ("tcp 10.0.0.1:1 > 10.0.0.2:2 cgroup", 34, "the path of the cgroup is missing"),
            ("non-ip port", 11, "the name of the port is missing"),
            ("non-ip dscp ef", 7, "other than IP has no dscp"),
            ("non-ip vlan 4096", 12, "`4096` is not a VLAN"),
            ("non-ip user ann", 12, "the user's number"),
            ("non-ip cos 3", 7, "did you mean `pcp`"),
            ("non-ip vlan", 11, "the value of `vlan` is missing"),
            ("non-ip comm nginx", 7, "did you mean `process`"),
            ("non-ip process \"\"", 15, "at most 15 bytes"),
            ("non-ip deadline 5", 16, "has no unit"),
            ("non-ip slack", 12, "the value of `slack` is missing"),
            ("non-ip deadlin 5ms", 7, "did you mean `deadline`"),
        ] {
            let error = text.parse::<DescribedPacket>().expect_err(text);
            assert_eq!(error.span.start, at, "{text}: {error}");
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_cgroup_is_in_those_above_it() {
        let cgroups: Vec<String> = ["/a", "/a/b", "/ab", "/", "a"].map(str::to_owned).to_vec();
        let bits = |path: &str| {
            DescribedPacket { cgroup: Some(path.to_owned()), ..Default::default() }.bits(&cgroups)
        };
        assert_eq!(bits("/a/b/c"), 0b01011);
        assert_eq!(bits("/ab"), 0b01100);
        assert_eq!(bits("a/x"), 0b10000);
        assert_eq!(DescribedPacket::default().bits(&cgroups), 0);
    }
}
