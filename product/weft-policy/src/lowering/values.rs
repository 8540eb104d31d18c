//! Parsers for the values in a policy.

use crate::attributes;
use crate::code::Code;
use crate::corrections;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use crate::users::Users;
use core::num::IntErrorKind;
use weft_packet::{Attribute, ParsePrefixError, PortRange, Prefix};
use weft_text::{Span, quoted};
use weft_units::{BitsPerSec, Bytes, Nanos, Packets, ProcessName, Protocol, Weight, meant};

/// A value, or the diagnostic that says why it cannot be parsed.
pub(super) type Read<T> = Result<T, Box<SpannedDiagnostic>>;

fn wrong<T>(code: Code, span: Span, message: impl AsRef<str>, help: &str) -> Read<T> {
    Err(Box::new(SpannedDiagnostic::new(code, span, message, help)))
}

/// A wrong value. If it is known what was meant, the message says it, and the fix writes it.
fn wrong_but<T>(code: Code, span: Span, message: String, help: &str, meant: Option<String>) -> Read<T> {
    let Some(meant) = meant else { return wrong(code, span, message, help) };
    let message = format!("{message}: write `{meant}`");
    Err(Box::new(SpannedDiagnostic::new(code, span, message, help).fix(Edit::replace(span, meant))))
}

/// A rate above zero.
pub(super) fn rate(text: &str, span: Span) -> Read<BitsPerSec> {
    let help = "such as 500mbps or 2.5gbps: bits per second";
    match text.parse::<BitsPerSec>() {
        Ok(BitsPerSec::ZERO) => wrong(
            Code::ZeroRate,
            span,
            "a rate of zero would hold its packets forever",
            "set a rate above zero",
        ),
        Ok(rate) => Ok(rate),
        Err(_) if text.ends_with('%') => {
            let help = "weights of `wfq` share in proportion; a limit is in bits per second";
            wrong(Code::BadRate, span, format!("{} is a percentage and not a rate", quoted(text)), help)
        }
        Err(_) => {
            let message = format!("{} is not a rate", quoted(text));
            wrong_but(Code::BadRate, span, message, help, meant::rate(text))
        }
    }
}

/// A burst size.
pub(super) fn size(text: &str, span: Span) -> Read<Bytes> {
    text.parse::<Bytes>().or_else(|_| {
        let message = format!("{} is not a size", quoted(text));
        let help = "such as 1500, 64kib or 1mb: bytes";
        wrong_but(Code::BadSize, span, message, help, meant::size(text))
    })
}

/// A latency above zero.
pub(super) fn latency(text: &str, span: Span) -> Read<Nanos> {
    match text.parse::<Nanos>() {
        Ok(time) if time > Nanos::ZERO => Ok(time),
        _ => {
            let message = format!("{} is not a time above zero", quoted(text));
            wrong_but(Code::BadLatency, span, message, "such as 200us or 1ms", meant::time(text))
        }
    }
}

/// A weight, at least 1.
pub(super) fn weight(text: &str, span: Span) -> Read<Weight> {
    digits(text).and_then(Weight::new).map_or_else(
        || {
            let help = "weights are whole numbers from 1 to 4294967295; only their proportions count";
            let message = format!("{} is not a weight", quoted(text));
            wrong_but(Code::BadWeight, span, message, help, corrections::weight(text))
        },
        Ok,
    )
}

/// A bound in packets, at least 1.
pub(super) fn packets(text: &str, span: Span) -> Read<Packets> {
    match digits(text) {
        Some(count) if count > 0 => Ok(Packets(u64::from(count))),
        _ => {
            let message = format!("{} is not a number of packets", quoted(text));
            let help = "a bound is a whole number from 1 to 4294967295";
            wrong_but(Code::BadBound, span, message, help, corrections::packets(text))
        }
    }
}

/// The number of a tenant's quota, at least 1.
pub(super) fn quota(text: &str, span: Span) -> Read<u32> {
    match digits(text) {
        Some(count) if count > 0 => Ok(count),
        _ => {
            let message = format!("{} is not a number", quoted(text));
            wrong(Code::BadQuota, span, message, "a quota is a whole number from 1 to 4294967295")
        }
    }
}

/// The cost of a tenant's quota: a time of a packet.
pub(super) fn cost(text: &str, span: Span) -> Read<Nanos> {
    match text.parse::<Nanos>() {
        Ok(time) if time > Nanos::ZERO => Ok(time),
        _ => {
            let message = format!("{} is not a time above zero", quoted(text));
            let help = "such as `cost 60ns`: what a packet may cost in the software NIC; `weft policy cost` shows it";
            wrong_but(Code::BadQuota, span, message, help, meant::time(text))
        }
    }
}

/// The longest path of a tenant's file, in bytes.
const FILE_MAX: usize = 1024;

/// The path of a tenant's file, from a token with its quotes.
pub(super) fn tenant_file(quotes: &str, span: Span) -> Read<String> {
    let path = quotes.trim_matches('"');
    if path.is_empty() || path.ends_with('/') || path.len() > FILE_MAX || path.chars().any(char::is_control) {
        let message = format!("{} is not the path of a file", quoted(path));
        let help = "such as \"vm1.weft\", relative to the file that names it";
        return wrong(Code::BadTenantFile, span, message, help);
    }
    Ok(path.to_owned())
}

/// An address prefix without host bits.
pub(super) fn prefix(text: &str, span: Span) -> Read<Prefix> {
    text.parse().or_else(|error: ParsePrefixError| match error {
        ParsePrefixError::HostBits { network } => {
            let message = format!("{} has bits set beyond its length", quoted(text));
            let help = format!("the network is written {network}");
            wrong_but(Code::HostBits, span, message, &help, Some(network.to_string()))
        }
        ParsePrefixError::Address { .. } | ParsePrefixError::Length { .. } => {
            let help = "such as 10.0.1.0/24, fd00::/8, or a lone address";
            let message = format!("{} is not an address prefix", quoted(text));
            wrong_but(Code::BadPrefix, span, message, help, corrections::prefix(text))
        }
    })
}

/// A port or a range of ports.
pub(super) fn ports(text: &str, span: Span) -> Read<PortRange> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let port = |text: &str| digits(text).and_then(|n| u16::try_from(n).ok()).filter(|port| *port > 0);
    let (Some(first), Some(last)) = (port(first), port(last)) else {
        let message = format!("{} is not a port or a range of ports", quoted(text));
        let help =
            "ports are numbers from 1 to 65535, a range is written 80..443; packets without ports carry 0";
        return wrong_but(Code::BadPort, span, message, help, corrections::ports(text));
    };
    if first > last {
        let message = format!("the range {} ends before it begins", quoted(text));
        let help = "a range begins with its lower port";
        return wrong_but(Code::ReversedPorts, span, message, help, Some(format!("{last}..{first}")));
    }
    Ok(PortRange { first, last })
}

/// An IP protocol number.
pub(super) fn protocol(text: &str, span: Span) -> Read<Protocol> {
    digits(text).and_then(|n| u8::try_from(n).ok()).map_or_else(
        || {
            let message = format!("{} is not a protocol number", quoted(text));
            let help = "protocol numbers run from 0 to 255";
            wrong_but(Code::BadProtocol, span, message, help, corrections::protocol(text))
        },
        |number| Ok(Protocol(number)),
    )
}

/// A packet's priority.
pub(super) fn priority(text: &str, span: Span) -> Read<u32> {
    number(text).map_or_else(
        || {
            let message = format!("{} is not a packet priority", quoted(text));
            wrong(Code::BadPriority, span, message, "a priority is a number from 0 to 4294967295, or 0x...")
        },
        Ok,
    )
}

/// A mark and its mask.
pub(super) fn mark(text: &str, span: Span) -> Read<(u32, u32)> {
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) => (number(value), number(mask)),
        None => (number(text), Some(u32::MAX)),
    };
    let (Some(value), Some(mask)) = (value, mask) else {
        let help = "a mark is a 32-bit number with or without a mask, such as 5 or 0x10/0xff";
        return wrong(Code::BadMark, span, format!("{} is not a mark", quoted(text)), help);
    };
    if value & !mask != 0 {
        let message = format!("the mark {} has bits outside its mask: no packet can match", quoted(text));
        let help = "a packet's mark is compared under the mask";
        let meant = format!("{:#x}/{mask:#x}", value & mask);
        return wrong_but(Code::MarkBeyondMask, span, message, help, Some(meant));
    }
    Ok((value, mask))
}

/// The value of an attribute.
pub(super) fn attribute(attribute: Attribute, text: &str, span: Span) -> Read<u128> {
    attributes::read(attribute, text).map_or_else(
        || {
            let message = format!("{} is not {}", quoted(text), attributes::noun(attribute));
            let name = attribute == Attribute::User
                && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let meant = match name {
                true => Some(format!("\"{text}\"")),
                false => attributes::meant(attribute, text).map(str::to_owned),
            };
            wrong_but(Code::BadAttribute, span, message, attributes::help(attribute), meant)
        },
        Ok,
    )
}

/// The number of a user, from a token with its quotes.
pub(super) fn user(quotes: &str, span: Span, users: &Users) -> Read<u32> {
    let name = quotes.trim_matches('"');
    users.number(name).map_or_else(
        || {
            let message = format!("the host has no user {} in /etc/passwd", quoted(name));
            let help = "write the user's number, from `id -u NAME`: users of a directory service are not in that file";
            let meant = users.similar(name).map(|similar| format!("\"{similar}\""));
            wrong_but(Code::UnknownUser, span, message, help, meant)
        },
        Ok,
    )
}

/// The name of a process, from a token with its quotes. One that is too long is cut as the kernel cuts it.
pub(super) fn process(quotes: &str, span: Span) -> Read<ProcessName> {
    attributes::process(quotes).map_or_else(
        || {
            let name = quotes.trim_matches('"');
            let message = format!("{} is not the name of a process", quoted(name));
            let cut = name.get(..ProcessName::BYTES_MAX).filter(|cut| attributes::process(cut).is_some());
            let meant = cut.map(|cut| format!("\"{cut}\""));
            wrong_but(Code::BadProcess, span, message, attributes::help(Attribute::Process), meant)
        },
        Ok,
    )
}

/// The longest path of a cgroup, in bytes.
const PATH_MAX: usize = 1024;

/// A cgroup's path, from a token with its quotes.
pub(super) fn cgroup(quotes: &str, span: Span) -> Read<String> {
    let path = quotes.trim_matches('"');
    let help = "such as \"/system.slice/mgmt\" below the root of the hierarchy, or \"T1\" below the run's own cgroup";
    let parts = path.strip_prefix('/').unwrap_or(path);
    let plain = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= 255;
    let names = path == "/" || (!path.is_empty() && parts.split('/').all(plain));
    if !names || path.len() > PATH_MAX || path.chars().any(char::is_control) {
        let message = format!("{} is not the path of a cgroup", quoted(path));
        let meant = corrections::cgroup(path).map(|path| format!("\"{path}\""));
        return wrong_but(Code::BadCgroup, span, message, help, meant);
    }
    Ok(path.to_owned())
}

/// The longest name of a port of the NIC, in bytes.
const PORT_NAME_MAX: usize = 63;

/// The name of a port of the NIC, from a token with its quotes.
pub(super) fn port_name(quotes: &str, span: Span) -> Read<String> {
    let name = quotes.trim_matches('"');
    let plain = |c: char| !c.is_control() && !c.is_whitespace();
    if name.is_empty() || name.len() > PORT_NAME_MAX || !name.chars().all(plain) {
        let message = format!("{} is not the name of a port", quoted(name));
        let help = "such as port \"vm1\": at most 63 bytes without spaces; a port of a five-tuple is a number, such as port 443";
        return wrong(Code::BadPortName, span, message, help);
    }
    Ok(name.to_owned())
}

/// A number written with digits alone.
fn digits(text: &str) -> Option<u32> {
    parse(text, 10)
}

/// A number written with digits, or in hexadecimal with `0x`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => parse(hex, 16),
        None => digits(text),
    }
}

fn parse(text: &str, radix: u32) -> Option<u32> {
    if !text.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    match u32::from_str_radix(text, radix) {
        Ok(value) => Some(value),
        Err(error) => {
            debug_assert!(matches!(error.kind(), IntErrorKind::Empty | IntErrorKind::PosOverflow));
            None
        }
    }
}
