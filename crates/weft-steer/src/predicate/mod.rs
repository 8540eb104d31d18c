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
use weft_packet::cube::Cube;

/// Which packets pass. Values, prefixes and masks are cubes; a range is a choice of cubes ([`Cube::range`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Predicate {
    /// Packets of the cube.
    Is(Cube),
    /// Packets that pass all of them; every packet without any.
    All(Vec<Self>),
    /// Packets that pass at least one; no packet without any.
    Any(Vec<Self>),
    /// Packets that do not pass.
    Not(Box<Self>),
}

impl Predicate {
    /// Every packet.
    pub const TRUE: Self = Self::Is(Cube::ALL);

    /// Whether a packet, given as the cube of all its fields, passes.
    pub fn passes(&self, packet: &Cube) -> bool {
        match self {
            Self::Is(cube) => cube.covers(packet),
            Self::All(all) => all.iter().all(|one| one.passes(packet)),
            Self::Any(any) => any.iter().any(|one| one.passes(packet)),
            Self::Not(not) => !not.passes(packet),
        }
    }

    /// The packets of `within` that pass, as disjoint cubes. An empty list means that none can: the predicate is unsatisfiable there.
    pub fn of(&self, within: &Cube) -> Vec<Cube> {
        match self {
            Self::Is(cube) => within.intersect(cube).into_iter().collect(),
            Self::All(all) => all
                .iter()
                .fold(vec![*within], |left, one| left.iter().flat_map(|cube| one.of(cube)).collect()),
            Self::Any(any) => {
                let (mut rest, mut out) = (vec![*within], Vec::new());
                for one in any {
                    out.extend(rest.iter().flat_map(|cube| one.of(cube)));
                    rest = rest.iter().flat_map(|cube| one.without(cube)).collect();
                }
                out
            }
            Self::Not(not) => not.without(within),
        }
    }

    /// The packets of `within` that do not pass, as disjoint cubes.
    pub fn without(&self, within: &Cube) -> Vec<Cube> {
        match self {
            Self::Is(cube) => within.subtract(cube),
            Self::Not(not) => not.of(within),
            Self::Any(any) => any
                .iter()
                .fold(vec![*within], |left, one| left.iter().flat_map(|cube| one.without(cube)).collect()),
            Self::All(all) => {
                let (mut rest, mut out) = (vec![*within], Vec::new());
                for one in all {
                    out.extend(rest.iter().flat_map(|cube| one.without(cube)));
                    rest = rest.iter().flat_map(|cube| one.of(cube)).collect();
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
            Self::Is(cube) => write!(f, "{cube}"),
            Self::All(all) if all.is_empty() => f.write_str("any"),
            Self::Any(any) if any.is_empty() => f.write_str("none"),
            Self::All(all) => join(f, all, " and "),
            Self::Any(any) => join(f, any, " or "),
            Self::Not(not) => match &**not {
                Self::Is(cube) if cube.fields().count() > 1 => write!(f, "not ({cube})"),
                Self::Is(cube) => write!(f, "not {cube}"),
                one => {
                    f.write_str("not ")?;
                    part(f, one)
                }
            },
        }
    }
}
