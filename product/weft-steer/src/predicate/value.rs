//! Values of header fields in texts: numbers, addresses, prefixes, masks, ranges.

use super::Predicate;
use core::net::IpAddr;
use weft_packet::classifier::Prefix;
use weft_packet::header_match::{ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, Field, HeaderMatch};
use weft_text::{ParseError, Span, quoted};

/// Bits of an IEEE 802.1Q VLAN identifier.
const VLAN_IDENTIFIER: u128 = 0xfff;
/// Protocols with names in texts (IANA protocol numbers).
pub(crate) const PROTOCOLS: [(&str, u8); 5] =
    [("tcp", 6), ("udp", 17), ("sctp", 132), ("icmp", 1), ("icmpv6", 58)];

/// A value, and what it implies beside the field itself.
#[derive(Clone, Copy)]
struct Value {
    bits: u128,
    /// The Ethernet type of an address's family.
    ether_type: Option<u16>,
    /// The bits that a value without a mask tests.
    all: u128,
}

impl Value {
    fn headers(&self) -> HeaderMatch {
        self.ether_type.map_or(HeaderMatch::ALL, |ether_type| {
            HeaderMatch::ALL.exact(Field::EtherType, ether_type.into())
        })
    }
}

/// Reads the test of `field` for the value `text`, located at `span`.
pub(super) fn read(field: Field, text: &str, span: Span) -> Result<Predicate, ParseError> {
    let wrong = |what: String, hint: &str| ParseError::new(span, what, hint);
    let shown = quoted(text);
    let name = field.name();
    if let Some((first, last)) = text.split_once("..") {
        let (first, last) = (value(field, first, span)?, value(field, last, span)?);
        if first.ether_type != last.ether_type {
            return Err(wrong(
                format!("{shown} goes from one address family to the other"),
                "write two ranges",
            ));
        }
        if first.bits > last.bits {
            return Err(wrong(format!("{shown} is an empty range"), "the lower value comes first"));
        }
        // An IPv4 address tests 32 of the field's 128 bits, a VLAN identifier 12 of 16.
        let narrow = |headers: HeaderMatch| {
            let (value, mask) = headers.get(field);
            Predicate::Is(headers.with(field, value, mask & first.all))
        };
        let header_matches = first.headers().range(field, first.bits, last.bits);
        return Ok(super::joined(header_matches.into_iter().map(narrow).collect(), Predicate::Any));
    }
    if let Some((address, len)) = text.split_once('/').filter(|(address, _)| is_address(field, address)) {
        let prefix: Prefix = format!("{address}/{len}").parse().map_err(|error| {
            wrong(format!("{shown} is not a prefix: {error}"), "write ADDRESS/LENGTH, or ADDRESS&MASK")
        })?;
        return Ok(Predicate::Is(HeaderMatch::ALL.prefix(field, prefix)));
    }
    let Some((bits, mask)) = text.split_once(['/', '&']) else {
        let value = value(field, text, span)?;
        return Ok(Predicate::Is(value.headers().with(field, value.bits, value.all)));
    };
    let bits = value_under_mask(field, bits, span)?;
    let all = if bits.ether_type == Some(ETHER_TYPE_IPV4) { bits.all } else { field.all_bits() };
    let mask = value_under_mask(field, mask, span)?.bits;
    if mask == 0 || mask & !all != 0 {
        let what =
            format!("the mask in {shown} tests {}", if mask == 0 { "nothing" } else { "too many bits" });
        return Err(wrong(what, &format!("{name} has a mask from 0x1 to {all:#x}")));
    }
    if bits.bits & !mask != 0 {
        let what = format!("{shown} has bits in its value that its mask leaves out");
        return Err(wrong(what, &format!("write {:#x}&{mask:#x}", bits.bits & mask)));
    }
    Ok(Predicate::Is(bits.headers().with(field, bits.bits, mask)))
}

fn is_address(field: Field, text: &str) -> bool {
    matches!(field, Field::SrcIp | Field::DstIp) && text.parse::<IpAddr>().is_ok()
}

/// Reads a single value; it tests all bits of its usual width.
fn value(field: Field, text: &str, span: Span) -> Result<Value, ParseError> {
    let value = value_under_mask(field, text, span)?;
    if field == Field::Vlan && value.bits > VLAN_IDENTIFIER {
        let what = format!("{} is not a VLAN identifier", quoted(text));
        let hint = "identifiers go up to 4095; write VALUE&0xffff to test the whole tag";
        return Err(ParseError::new(span, what, hint));
    }
    Ok(value)
}

/// Reads a value of the field's full width.
fn value_under_mask(field: Field, text: &str, span: Span) -> Result<Value, ParseError> {
    let all = if field == Field::Vlan { VLAN_IDENTIFIER } else { field.all_bits() };
    let plain = |bits| Value { bits, ether_type: None, all };
    if matches!(field, Field::SrcIp | Field::DstIp) {
        match text.parse() {
            Ok(IpAddr::V4(address)) => {
                let ether_type = Some(ETHER_TYPE_IPV4);
                return Ok(Value { bits: u32::from(address).into(), ether_type, all: u32::MAX.into() });
            }
            Ok(IpAddr::V6(address)) => {
                return Ok(Value { bits: address.into(), ether_type: Some(ETHER_TYPE_IPV6), all });
            }
            Err(_) => {}
        }
    }
    if field == Field::IpProtocol
        && let Some((_, number)) = PROTOCOLS.iter().find(|(name, _)| *name == text)
    {
        return Ok(plain(u128::from(*number)));
    }
    if matches!(field, Field::SrcMac | Field::DstMac)
        && let Some(bits) = mac(text)
    {
        return Ok(plain(bits));
    }
    let expected = match field {
        Field::SrcIp | Field::DstIp => "an IPv4 or IPv6 address, a prefix, or a number",
        Field::SrcMac | Field::DstMac => {
            "a MAC address (six pairs of hexadecimal digits with colons) or a number"
        }
        Field::IpProtocol => "a protocol: tcp, udp, sctp, icmp, icmpv6 or its number",
        _ => "a number",
    };
    let error = |what: String| ParseError::new(span, what, format!("{} takes {expected}", field.name()));
    let bits =
        number(text).ok_or_else(|| error(format!("{} is not a value of {}", quoted(text), field.name())))?;
    if bits > field.all_bits() {
        return Err(error(format!(
            "{} does not fit into the {} bits of {}",
            quoted(text),
            field.bits(),
            field.name()
        )));
    }
    Ok(plain(bits))
}

/// Reads a decimal number, or a hexadecimal one after `0x`.
pub(crate) fn number(text: &str) -> Option<u128> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    u128::from_str_radix(digits, radix).ok()
}

/// Reads a MAC address.
fn mac(text: &str) -> Option<u128> {
    let mut bits = 0;
    let mut count = 0;
    for pair in text.split(':') {
        if pair.len() != 2 || !pair.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        bits = bits << 8 | u128::from_str_radix(pair, 16).ok()?;
        count += 1;
    }
    (count == 6).then_some(bits)
}
