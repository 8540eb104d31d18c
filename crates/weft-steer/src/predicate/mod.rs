//! Boolean expressions over header fields.

pub(crate) mod lexer;
#[cfg(test)]
mod oracle;
mod read;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod value;

pub(crate) use read::Reader;
pub use read::read_predicate;

use core::fmt;
use weft_packet::header_match::HeaderMatch;

/// Which packets pass. Values, prefixes and masks are header matches; a range is a choice of header matches ([`HeaderMatch::range`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Predicate {
    /// Packets of the header match.
    Is(HeaderMatch),
    /// Packets that pass all of them; every packet without any.
    All(Vec<Self>),
    /// Packets that pass at least one; no packet without any.
    Any(Vec<Self>),
    /// Packets that do not pass.
    Not(Box<Self>),
}

impl Predicate {
    /// Every packet.
    pub const TRUE: Self = Self::Is(HeaderMatch::ALL);

    /// Whether a packet, given as the header match of all its fields, passes.
    pub fn passes(&self, packet: &HeaderMatch) -> bool {
        match self {
            Self::Is(headers) => headers.covers(packet),
            Self::All(all) => all.iter().all(|one| one.passes(packet)),
            Self::Any(any) => any.iter().any(|one| one.passes(packet)),
            Self::Not(not) => !not.passes(packet),
        }
    }

    /// The packets of `within` that pass, as disjoint header matches. An empty list means that none can: the predicate is unsatisfiable there.
    pub fn of(&self, within: &HeaderMatch) -> Vec<HeaderMatch> {
        match self {
            Self::Is(headers) => within.intersect(headers).into_iter().collect(),
            Self::All(all) => all
                .iter()
                .fold(vec![*within], |left, one| left.iter().flat_map(|headers| one.of(headers)).collect()),
            Self::Any(any) => {
                let (mut rest, mut out) = (vec![*within], Vec::new());
                for one in any {
                    out.extend(rest.iter().flat_map(|headers| one.of(headers)));
                    rest = rest.iter().flat_map(|headers| one.without(headers)).collect();
                }
                out
            }
            Self::Not(not) => not.without(within),
        }
    }

    /// The packets of `within` that do not pass, as disjoint header matches.
    pub fn without(&self, within: &HeaderMatch) -> Vec<HeaderMatch> {
        match self {
            Self::Is(headers) => within.subtract(headers),
            Self::Not(not) => not.of(within),
            Self::Any(any) => any.iter().fold(vec![*within], |left, one| {
                left.iter().flat_map(|headers| one.without(headers)).collect()
            }),
            Self::All(all) => {
                let (mut rest, mut out) = (vec![*within], Vec::new());
                for one in all {
                    out.extend(rest.iter().flat_map(|headers| one.without(headers)));
                    rest = rest.iter().flat_map(|headers| one.of(headers)).collect();
                }
                out
            }
        }
    }
}

/// One predicate, or several joined.
fn joined(mut several: Vec<Predicate>, join: impl FnOnce(Vec<Predicate>) -> Predicate) -> Predicate {
    match several.len() {
        1 => several.remove(0),
        _ => join(several),
    }
}

impl fmt::Display for Predicate {
    /// Writes what [`read_predicate`] reads. What it reads is equal, save that a choice or conjunction of one is that one, and a
    /// conjunction of none is `any`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |f: &mut fmt::Formatter<'_>, one: &Self| match one {
            Self::Is(_) => write!(f, "{one}"),
            Self::Not(_) => write!(f, "{one}"),
            Self::All(_) | Self::Any(_) => write!(f, "({one})"),
        };
        let join = |f: &mut fmt::Formatter<'_>, all: &[Self], word: &str| {
            for (index, one) in all.iter().enumerate() {
                f.write_str(if index == 0 { "" } else { word })?;
                part(f, one)?;
            }
            Ok(())
        };
        match self {
            Self::Is(headers) => write!(f, "{headers}"),
            Self::All(all) if all.is_empty() => f.write_str("any"),
            Self::Any(any) if any.is_empty() => f.write_str("none"),
            Self::All(all) => join(f, all, " and "),
            Self::Any(any) => join(f, any, " or "),
            Self::Not(not) => match &**not {
                Self::Is(headers) if headers.fields().count() > 1 => write!(f, "not ({headers})"),
                Self::Is(headers) => write!(f, "not {headers}"),
                one => {
                    f.write_str("not ")?;
                    part(f, one)
                }
            },
        }
    }
}
