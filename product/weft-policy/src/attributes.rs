//! The values of attributes ([`Attribute`]) as text: numbers, and the names that RFCs give to code points.

use weft_packet::Attribute;
use weft_text::nearest;
use weft_units::ProcessName;

/// The names of code points of differentiated services (RFC 2474, 2597, 3246, 5865, 8622).
const DSCP: [(&str, u128); 24] = [
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
    ("df", 0),
];

/// The names of the code points of ECN (RFC 3168, section 5).
const ECN: [(&str, u128); 4] = [("not-ect", 0), ("ect1", 1), ("ect0", 2), ("ce", 3)];

/// The names of an attribute's values. Of two names of one value, the first is written.
fn names(attribute: Attribute) -> &'static [(&'static str, u128)] {
    match attribute {
        Attribute::Dscp => &DSCP,
        Attribute::Ecn => &ECN,
        _ => &[],
    }
}

/// The value that `text` is, if a packet may have it.
pub(crate) fn read(attribute: Attribute, text: &str) -> Option<u128> {
    if attribute == Attribute::Process {
        return process(text).map(ProcessName::number);
    }
    let named = names(attribute).iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    let class = || text.split_once(':').filter(|_| attribute == Attribute::ClassId).and_then(class_of);
    let (least, most) = attribute.range();
    let value = named.or_else(class).or_else(|| number(text));
    value.filter(|value| (least..=most).contains(value))
}

/// The name of a process, which quotes may surround. No name has a sign that a policy cannot have.
pub(crate) fn process(text: &str) -> Option<ProcessName> {
    let name = text.trim_matches('"');
    ProcessName::new(name.as_bytes()).filter(|_| !name.chars().any(char::is_control))
}

/// A class as tc writes it: major and minor number in hexadecimal digits.
fn class_of((major, minor): (&str, &str)) -> Option<u128> {
    let half = |text: &str| u16::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'));
    Some(u128::from(half(major)?) << 16 | u128::from(half(minor)?))
}

fn number(text: &str) -> Option<u128> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((text, 10), |digits| (digits, 16));
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    u128::from_str_radix(digits, radix).ok()
}

/// The value in the language's form.
pub(crate) fn write(attribute: Attribute, value: u128) -> String {
    if let Some((name, _)) = names(attribute).iter().find(|(_, known)| *known == value) {
        return (*name).to_owned();
    }
    match attribute {
        Attribute::ClassId => format!("{:x}:{:x}", value >> 16, value & 0xffff),
        Attribute::Cookie => format!("{value:#x}"),
        Attribute::Process => {
            let name =
                ProcessName::of_number(value).map_or_else(|| value.to_string(), |name| name.to_string());
            format!("\"{name}\"")
        }
        _ => value.to_string(),
    }
}

/// The value that was probably meant: another spelling of a name.
pub(crate) fn meant(attribute: Attribute, text: &str) -> Option<&'static str> {
    nearest(text, names(attribute).iter().map(|(name, _)| *name), &[("be", "cs0"), ("default", "cs0")])
}

/// A noun phrase for a value.
pub(crate) fn noun(attribute: Attribute) -> &'static str {
    match attribute {
        Attribute::Vlan => "a VLAN",
        Attribute::Pcp => "a priority code point",
        Attribute::Dscp => "a DSCP",
        Attribute::Ecn => "an ECN code point",
        Attribute::User => "a user",
        Attribute::ClassId => "a class of net_cls",
        Attribute::Cookie => "the cookie of a socket",
        Attribute::Process => "the name of a process",
    }
}

/// The values that there are, for help.
pub(crate) fn help(attribute: Attribute) -> &'static str {
    match attribute {
        Attribute::Vlan => "such as `vlan 100`: from 0 to 4095, of the outermost tag",
        Attribute::Pcp => "such as `pcp 5`: from 0 to 7, of the outermost VLAN tag",
        Attribute::Dscp => "such as `dscp ef`, `dscp af41`, `dscp cs1` or `dscp 46`: from 0 to 63",
        Attribute::Ecn => "one of not-ect, ect0, ect1 and ce",
        Attribute::User => "such as `user \"alice\"` or `user 1000`",
        Attribute::ClassId => {
            "such as `classid 10:1` (hexadecimal, as tc writes classes) or `classid 0x100001`"
        }
        Attribute::Cookie => {
            "such as `cookie 0x1f`, from `ss --extended` (the number behind `sk:`) or SO_COOKIE"
        }
        Attribute::Process => "such as `process \"nginx\"`: at most 15 bytes, as `ps -e -o comm` shows it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_the_same() {
        for attribute in Attribute::ALL.into_iter().filter(|attribute| *attribute != Attribute::Process) {
            let (least, most) = attribute.range();
            for value in (least..=most.min(least + 5000)).chain([most]) {
                let text = write(attribute, value);
                assert_eq!(read(attribute, &text), Some(value), "{attribute} {text}");
            }
            let beyond = most.checked_add(1).map(|beyond| read(attribute, &beyond.to_string()));
            assert_eq!(beyond.flatten(), None, "{attribute}");
        }
    }

    #[test]
    fn names_and_numbers() {
        let dscp = |text| read(Attribute::Dscp, text);
        assert_eq!(
            [dscp("ef"), dscp("0x2e"), dscp("df"), dscp("64"), dscp("")],
            [Some(46), Some(46), Some(0), None, None]
        );
        let class = |text| read(Attribute::ClassId, text);
        assert_eq!(
            [class("10:1"), class("0x100001"), class("0:0"), class("1:+2")],
            [Some(0x10_0001), Some(0x10_0001), None, None]
        );
        assert_eq!(meant(Attribute::Dscp, "EF"), Some("ef"));
    }

    #[test]
    fn names_of_processes() {
        let named = |text: &str| read(Attribute::Process, text);
        for text in ["\"nginx\"", "\"tmux: server\"", "\"fifteen letters\""] {
            let value = named(text).expect(text);
            assert_eq!(
                (write(Attribute::Process, value), named(text.trim_matches('"'))),
                (text.to_owned(), Some(value))
            );
        }
        assert_eq!(["", "\"\"", "sixteen letters!", "a\tb"].map(named), [None; 4]);
    }
}
