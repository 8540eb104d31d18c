//! Files of the formats before the one language: which they are, and steering policies written in it.
//!
//! The former format describes received packets, a policy those that this host sends: source and destination change places.

use crate::syntax::{RESERVED, is_name};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;
use weft_packet::header_match::{ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, Field, HeaderMatch};
use weft_steer::Predicate;
use weft_steer::policy::{Policy, PolicyFile};
use weft_text::{LocatedError, quoted};

/// Whether a text of the file `name` is in the policy language, and in none of the formats of steering policies and weights before it.
/// Every policy has a root; no line of those formats begins so.
pub fn is_policy(name: &str, text: &str) -> bool {
    let begins = |line: &str| {
        let mut words = line.split(|c: char| c.is_whitespace() || c == '=').filter(|word| !word.is_empty());
        matches!(words.next(), Some("root" | "steer"))
    };
    name.ends_with(".weft") || text.lines().any(begins)
}

/// The reason for which a steering policy cannot be written in the policy language.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The text is no steering policy.
    #[error(transparent)]
    Text(#[from] LocatedError),
    /// A class has a name that classes of a policy cannot have.
    #[error("the class {0} cannot have this name in a policy: choose another in the old file first")]
    Name(String),
    /// A class has two definitions.
    #[error("the class {0} has two definitions: join their predicates by `or` first")]
    Twice(String),
    /// A class tests what no policy tests.
    #[error("the class {class} tests {test}, which a policy cannot")]
    Test {
        /// The class.
        class: String,
        /// The test.
        test: String,
    },
}

/// Names that have a meaning of their own in a policy.
const SPECIAL: [&str; 2] = ["default", "root"];

/// Reads a steering policy of the former format, and writes it as a policy that steers alike. `file` is its name in errors.
///
/// # Errors
/// When the text is wrong, or cannot be written in the policy language.
pub fn import_steering(text: &str, file: &str) -> Result<String, ImportError> {
    let PolicyFile { policy, classes } = weft_steer::policy::read(text, file)?;
    let mut written: Vec<(&str, String)> = Vec::new();
    for (name, predicate) in &classes.rules {
        if written.iter().any(|(known, _)| known == name) {
            return Err(ImportError::Twice(quoted(name)));
        }
        let test = |test| ImportError::Test { class: quoted(name), test };
        written.push((name, condition(predicate).map_err(test)?.text));
    }
    for name in policy.classes() {
        if !written.iter().any(|(known, _)| *known == name) {
            written.push((name, "not any".to_owned()));
        }
    }
    let bad = |name: &str| !is_name(name) || RESERVED.contains(&name) || SPECIAL.contains(&name);
    if let Some((name, _)) = written.iter().find(|(name, _)| bad(name)) {
        return Err(ImportError::Name(quoted(name)));
    }
    Ok(policy_of(&written, &*policy))
}

/// The policy's text.
fn policy_of(classes: &[(&str, String)], policy: &dyn Policy) -> String {
    let mut out = String::from(
        "# `to` and `dport` are those of packets that this host sends: the source of those that it receives.\n",
    );
    if classes.iter().any(|(_, condition)| condition == "not any") {
        out += "# `not any` is a class whose flows the column `class` of the flow list names.\n";
    }
    let width = classes.iter().map(|(name, _)| name.len()).filter(|length| *length <= 40).max().unwrap_or(0);
    for (name, condition) in classes {
        out += &format!("class {name:width$} = {condition}\n");
    }
    let names: Vec<&str> = classes.iter().map(|(name, _)| *name).chain(["default"]).collect();
    let root = match names[..] {
        [only] => only.to_owned(),
        _ => format!("fifo {{ {} }}", names.join(", ")),
    };
    out + &format!(
        "\n# Packets that are sent leave in the order of their arrival.\nroot = {root}\n\nsteer {}\n",
        policy.name()
    )
}

/// A condition's text, and the word that joins its outermost parts; empty for a single test.
struct Written {
    text: String,
    joint: &'static str,
}

impl Written {
    fn test(text: impl Into<String>) -> Self {
        Self { text: text.into(), joint: "" }
    }

    /// The text as a part of a condition that `joint` joins.
    fn within(self, joint: &str) -> String {
        if self.joint.is_empty() || self.joint == joint { self.text } else { format!("({})", self.text) }
    }
}

/// Several conditions, joined.
fn joined(parts: Vec<Written>, joint: &'static str, none: &str) -> Written {
    let mut parts = parts;
    match parts.len() {
        0 => Written::test(none),
        1 => parts.remove(0),
        _ => {
            let texts: Vec<String> = parts.into_iter().map(|part| part.within(joint)).collect();
            Written { text: texts.join(&format!(" {joint} ")), joint }
        }
    }
}

/// The condition of packets sent whose answers pass `predicate`, or the test that no policy has.
fn condition(predicate: &Predicate) -> Result<Written, String> {
    let all = |parts: &[Predicate]| parts.iter().map(condition).collect::<Result<Vec<_>, _>>();
    match predicate {
        Predicate::Is(headers) => tests(headers),
        Predicate::All(parts) => Ok(joined(all(parts)?, "and", "any")),
        Predicate::Any(parts) => match port_range(parts) {
            Some(range) => Ok(Written::test(range)),
            None => Ok(joined(all(parts)?, "or", "not any")),
        },
        Predicate::Not(inner) => Ok(Written::test(format!("not {}", condition(inner)?.within("not")))),
    }
}

/// The range of ports that blocks of one field, side by side, are; `None` for other predicates.
fn port_range(parts: &[Predicate]) -> Option<String> {
    let mut whole: Option<(Field, u128, u128)> = None;
    for part in parts {
        let Predicate::Is(headers) = part else { return None };
        let mut fields = headers.fields();
        let (Some(field), None) = (fields.next(), fields.next()) else { return None };
        let (first, last) = block(headers, field)?;
        whole = match whole {
            None => Some((field, first, last)),
            Some((of, from, to)) if of == field && to + 1 == first => Some((of, from, last)),
            Some(_) => return None,
        };
    }
    let (field, first, last) = whole?;
    Some(format!("{} {first}..{last}", port_word(field)?)).filter(|_| first > 0)
}

/// The first and the last value of a field that a header match has, if they are side by side.
fn block(headers: &HeaderMatch, field: Field) -> Option<(u128, u128)> {
    let (value, mask) = headers.get(field);
    let free = field.all_bits() & !mask;
    ((free + 1).is_power_of_two()).then_some((value, value + free))
}

/// The word that tests a port of packets sent, for a field of packets received.
fn port_word(field: Field) -> Option<&'static str> {
    match field {
        Field::SrcPort => Some("dport"),
        Field::DstPort => Some("sport"),
        _ => None,
    }
}

/// The tests of a header match.
fn tests(headers: &HeaderMatch) -> Result<Written, String> {
    let addressed = headers.fields().any(|field| matches!(field, Field::SrcIp | Field::DstIp));
    let mut parts = Vec::new();
    for field in headers.fields() {
        if field == Field::EtherType && addressed {
            continue;
        }
        parts.push(Written::test(test(headers, field).ok_or_else(|| {
            let (value, mask) = headers.get(field);
            HeaderMatch::ALL.with(field, value, mask).to_string()
        })?));
    }
    Ok(joined(parts, "and", "any"))
}

/// The test of one field; `None` if a policy has none.
fn test(headers: &HeaderMatch, field: Field) -> Option<String> {
    let (value, mask) = headers.get(field);
    let whole = mask == field.all_bits();
    match field {
        Field::IpProtocol if whole => Some(match value {
            6 => "tcp".to_owned(),
            17 => "udp".to_owned(),
            132 => "sctp".to_owned(),
            1 => "icmp".to_owned(),
            58 => "icmpv6".to_owned(),
            other => format!("protocol {other}"),
        }),
        Field::EtherType if whole && value == ETHER_TYPE_IPV4.into() => {
            Some(format!("to {}/0", Ipv4Addr::UNSPECIFIED))
        }
        Field::EtherType if whole && value == ETHER_TYPE_IPV6.into() => {
            Some(format!("to {}/0", Ipv6Addr::UNSPECIFIED))
        }
        Field::SrcIp => Some(format!("to {}", prefix(headers, value, mask)?)),
        Field::DstIp => Some(format!("from {}", prefix(headers, value, mask)?)),
        Field::SrcPort | Field::DstPort => {
            let (first, last) = block(headers, field).filter(|(first, _)| *first > 0)?;
            let range = if first == last { first.to_string() } else { format!("{first}..{last}") };
            Some(format!("{} {range}", port_word(field)?))
        }
        Field::Vlan if mask == 0xfff && value > 0 => Some(format!("vlan {value}")),
        _ => None,
    }
}

/// The prefix that an address under a mask is.
fn prefix(headers: &HeaderMatch, value: u128, mask: u128) -> Option<String> {
    let (address, bits): (IpAddr, u32) = match headers.ether_type()? {
        ETHER_TYPE_IPV4 => (Ipv4Addr::from(u32::try_from(value).ok()?).into(), 32),
        ETHER_TYPE_IPV6 => (Ipv6Addr::from(value).into(), 128),
        _ => return None,
    };
    let length = mask.count_ones();
    let aligned = mask.checked_shl(128 - bits)?.leading_ones() == length;
    match (aligned && length <= bits, length == bits) {
        (false, _) => None,
        (true, true) => Some(address.to_string()),
        (true, false) => Some(format!("{address}/{length}")),
    }
}
