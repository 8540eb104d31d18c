//! Boolean expressions over header fields.

pub(crate) mod lexer;
#[cfg(test)]
mod oracle;
mod read;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod value;

pub(crate) use read::Reader;
#[cfg(test)]
pub(crate) use read::read_predicate;

use core::fmt;
use weft_packet::header_match::HeaderMatch;

/// A set of packets. Values, prefixes and masks are header matches; a range is a union of header matches
/// ([`HeaderMatch::range`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Predicate {
    /// The packets of the header match.
    Is(HeaderMatch),
    /// Packets that match all of the predicates; every packet if the list is empty.
    All(Vec<Self>),
    /// Packets that match at least one; no packet if the list is empty.
    Any(Vec<Self>),
    /// Packets that do not match.
    Not(Box<Self>),
}

impl Predicate {
    /// Every packet.
    pub const TRUE: Self = Self::Is(HeaderMatch::ALL);

    /// Whether a packet, given as the header match of all of its fields, matches.
    pub fn passes(&self, packet: &HeaderMatch) -> bool {
        match self {
            Self::Is(headers) => headers.covers(packet),
            Self::All(all) => all.iter().all(|one| one.passes(packet)),
            Self::Any(any) => any.iter().any(|one| one.passes(packet)),
            Self::Not(not) => !not.passes(packet),
        }
    }

    /// Returns the matching packets of `within`, as disjoint header matches. An empty list means that the predicate is
    /// unsatisfiable there.
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

    /// Returns the packets of `within` that do not match, as disjoint header matches.
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

/// Returns a single predicate as it is, and joins several.
fn joined(mut several: Vec<Predicate>, join: impl FnOnce(Vec<Predicate>) -> Predicate) -> Predicate {
    match several.len() {
        1 => several.remove(0),
        _ => join(several),
    }
}

impl fmt::Display for Predicate {
    /// Writes the syntax of models. It reads back equal, except that a union or conjunction of one element becomes
    /// that element, and an empty conjunction becomes `any`.
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
