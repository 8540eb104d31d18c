//! Handles: the numbers that name qdiscs and classes.

use std::fmt;
use std::str::FromStr;

/// The number of a qdisc (`1:`) or of a class (`1:10`): major and minor, 16 bits each, in hexadecimal as `tc` writes them
/// (`TC_H_MAKE`, include/uapi/linux/pkt_sched.h). A class has the major number of its qdisc.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Handle(u32);

impl Handle {
    /// No handle (`TC_H_UNSPEC`): one that the kernel chooses, or that of a qdisc which the kernel made by itself.
    pub const NONE: Self = Self(0);
    /// The parent of a device's egress qdisc (`TC_H_ROOT`).
    pub const ROOT: Self = Self(0xffff_ffff);
    /// `1:`, the first that a user chooses.
    pub const FIRST: Self = Self::qdisc(1);
    /// The parent of `clsact` and `ingress` (`TC_H_INGRESS`, `TC_H_CLSACT`).
    pub const CLSACT: Self = Self(0xffff_fff1);
    /// The handle of `clsact` and `ingress`, which the kernel fixes (`ingress_init`, net/sched/sch_ingress.c).
    pub const CLSACT_QDISC: Self = Self(0xffff_0000);
    /// The parent of filters at a `clsact`'s ingress (`TC_H_MIN_INGRESS`).
    pub const INGRESS: Self = Self(0xffff_fff2);
    /// The parent of filters at a `clsact`'s egress (`TC_H_MIN_EGRESS`).
    pub const EGRESS: Self = Self(0xffff_fff3);

    /// Returns the handle of a class.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self((major as u32) << 16 | minor as u32)
    }

    /// Returns the handle of a qdisc.
    pub const fn qdisc(major: u16) -> Self {
        Self::new(major, 0)
    }

    /// Returns the handle of class `minor` of this qdisc, or of the qdisc of this class.
    #[must_use]
    pub const fn class(self, minor: u16) -> Self {
        Self::new(self.major(), minor)
    }

    /// The major number, which names the qdisc.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The minor number, which names the class; 0 for a qdisc.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }

    /// The number as the kernel's messages and `skb->priority` have it. A packet whose priority is the handle of a class goes
    /// to that class (`htb_classify`, `hfsc_classify`, `drr_classify`).
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Returns the handle of a number of the kernel's.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }
}

impl fmt::Display for Handle {
    /// Writes the handle as `tc` prints it (`print_tc_classid`, iproute2's tc/tc_util.c).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.major(), self.minor()) {
            (Self::ROOT, ..) => f.write_str("root"),
            (Self::NONE, ..) => f.write_str("none"),
            (_, 0, minor) => write!(f, ":{minor:x}"),
            (_, major, 0) => write!(f, "{major:x}:"),
            (_, major, minor) => write!(f, "{major:x}:{minor:x}"),
        }
    }
}

/// The error of a text that is no handle.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not a handle; write 1: for a qdisc, 1:10 for a class")]
pub struct ParseHandleError(String);

impl FromStr for Handle {
    type Err = ParseHandleError;

    fn from_str(text: &str) -> Result<Self, ParseHandleError> {
        let number = |part: &str| match part {
            "" => Some(0),
            digits if digits.bytes().all(|b| b.is_ascii_hexdigit()) => u16::from_str_radix(digits, 16).ok(),
            _ => None,
        };
        let parsed = match text {
            "root" => Some(Self::ROOT),
            "none" => Some(Self::NONE),
            ":" => None,
            _ => text
                .split_once(':')
                .and_then(|(major, minor)| Some(Self::new(number(major)?, number(minor)?))),
        };
        parsed.ok_or_else(|| ParseHandleError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn handles_read_as_tc_prints_them() {
        for (handle, text) in [
            (Handle::qdisc(1), "1:"),
            (Handle::new(0x7e57, 0xffff), "7e57:ffff"),
            (Handle::new(0, 2), ":2"),
            (Handle::ROOT, "root"),
            (Handle::NONE, "none"),
            (Handle::CLSACT, "ffff:fff1"),
        ] {
            assert_eq!((handle.to_string().as_str(), text.parse().ok()), (text, Some(handle)));
        }
        assert_eq!(Handle::qdisc(3).class(9), Handle::new(3, 9));
        for bad in ["", ":", "1", "1:2:3", "+1:", "10000:", "1:g", " 1:"] {
            let error = bad.parse::<Handle>().expect_err("refused").to_string();
            assert_eq!(error, format!("`{bad}` is not a handle; write 1: for a qdisc, 1:10 for a class"));
        }
    }

    proptest! {
        #[test]
        fn each_handle_is_read_back(raw in any::<u32>()) {
            let handle = Handle::from_raw(raw);
            prop_assert_eq!(handle.to_string().parse::<Handle>().ok(), Some(handle));
        }
    }
}
