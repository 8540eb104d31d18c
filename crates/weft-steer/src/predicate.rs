//! Boolean expressions over header fields.

use crate::cube::Cube;

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
