//! The rows of a table under construction, indexed to find those that cover another row.
//!
//! Rows that test the same fields with prefixes and masks of the same lengths have one *shape*. A row covers another one only if
//! its tests are among the other's, so under its shape the other row has the same values. So one look-up for each shape
//! finds all candidates; ranges of ports and cgroups, whose containment is not equality, are compared one by one.

use super::terms::Cgroups;
use std::collections::BTreeMap;
use weft_packet::{AttributeTests, Match, PortRange, Prefix};

/// The test of a port in a shape.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PortShape {
    Any,
    Single,
    Range,
}

impl PortShape {
    const fn of(ports: Option<PortRange>) -> Self {
        match ports {
            None => Self::Any,
            Some(PortRange { first, last }) if first == last => Self::Single,
            Some(_) => Self::Range,
        }
    }

    /// The test of `ports` that rows of this shape have in common with it; `None` if none of them covers it.
    fn project(self, ports: Option<PortRange>) -> Option<Option<PortRange>> {
        match self {
            Self::Any => Some(None),
            Self::Single => ports.filter(|ports| ports.first == ports.last).map(Some),
            Self::Range => ports.map(|_| None),
        }
    }
}

/// The family and length of a prefix.
type Length = Option<(bool, u8)>;

fn length(prefix: Option<Prefix>) -> Length {
    prefix.map(|prefix| (prefix.addr.is_ipv6(), prefix.len))
}

fn shorten(length: Length, prefix: Option<Prefix>) -> Option<Option<Prefix>> {
    let Some((ipv6, len)) = length else { return Some(None) };
    let prefix = prefix.filter(|prefix| prefix.addr.is_ipv6() == ipv6 && prefix.len >= len)?;
    Some(Some(Prefix { len, ..prefix }.network()))
}

/// The fields that a row tests, without the values.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Shape {
    protocol: bool,
    src: Length,
    dst: Length,
    sport: PortShape,
    dport: PortShape,
    mark: Option<u32>,
    priority: bool,
    port: bool,
    attributes: AttributeTests,
}

impl Shape {
    pub(crate) fn of(row: &Match) -> Self {
        Self {
            protocol: row.protocol.is_some(),
            src: length(row.src),
            dst: length(row.dst),
            sport: PortShape::of(row.sport),
            dport: PortShape::of(row.dport),
            mark: row.mark.map(|(_, mask)| mask),
            priority: row.priority.is_some(),
            port: row.port.is_some(),
            attributes: row.attributes.shape(),
        }
    }

    /// The tests that rows of this shape which cover `row` have; `None` if none covers it.
    fn project(&self, row: &Match) -> Option<Match> {
        let mark = match (self.mark, row.mark) {
            (None, _) => None,
            (Some(mask), Some((value, under))) if under & mask == mask => Some((value & mask, mask)),
            (Some(_), _) => return None,
        };
        if (self.protocol && row.protocol.is_none())
            || (self.priority && row.priority.is_none())
            || (self.port && row.port.is_none())
            || row.attributes.under(&self.attributes).shape() != self.attributes
        {
            return None;
        }
        Some(Match {
            protocol: row.protocol.filter(|_| self.protocol),
            src: shorten(self.src, row.src)?,
            dst: shorten(self.dst, row.dst)?,
            sport: self.sport.project(row.sport)?,
            dport: self.dport.project(row.dport)?,
            mark,
            priority: row.priority.filter(|_| self.priority),
            cgroup: None,
            port: row.port.filter(|_| self.port),
            attributes: row.attributes.under(&self.attributes),
        })
    }
}

/// An index of rows.
#[derive(Debug, Default)]
pub(crate) struct RowIndex {
    shapes: BTreeMap<Shape, BTreeMap<Match, Vec<Match>>>,
}

impl RowIndex {
    /// Adds a row.
    pub(crate) fn add(&mut self, row: &Match) {
        let shape = Shape::of(row);
        if let Some(key) = shape.project(row) {
            self.shapes.entry(shape).or_default().entry(key).or_default().push(row.clone());
        }
    }

    /// Whether a row covers `row`.
    pub(crate) fn covers(&self, row: &Match, cgroups: Cgroups<'_>) -> bool {
        self.shapes.iter().any(|(shape, rows)| {
            let candidates = shape.project(row).and_then(|key| rows.get(&key));
            candidates.is_some_and(|known| known.iter().any(|known| cgroups.covers(known, row)))
        })
    }

    /// The number of shapes: the look-ups of [`covers`](Self::covers).
    pub(crate) fn shapes(&self) -> usize {
        self.shapes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, Steps};
    use core::net::{IpAddr, Ipv4Addr};
    use proptest::prelude::*;
    use weft_packet::strategies::{Values, row};

    fn some_row() -> impl Strategy<Value = Match> {
        let prefix = (0_u8..4, 29_u8..=32)
            .prop_map(|(low, len)| Prefix { addr: IpAddr::V4(Ipv4Addr::new(10, 0, 0, low)), len }.network());
        let ports = (0_u16..4, 0_u16..3).prop_map(|(first, more)| PortRange { first, last: first + more });
        row(prefix, ports, Values { protocols: 1..3, cgroups: 0..3, attributes: 0..2 })
    }

    proptest! {
        #[test]
        fn the_index_finds_what_a_comparison_of_all_rows_finds(
            rows in proptest::collection::vec(some_row(), 0..24),
            asked in proptest::collection::vec(some_row(), 24),
        ) {
            let paths = ["/a".to_owned(), "/a/b".to_owned(), "/c".to_owned()];
            let budget = Budget::new(Steps::WHOLE);
            let cgroups = Cgroups { paths: &paths, budget: &budget };
            let mut index = RowIndex::default();
            rows.iter().for_each(|row| index.add(row));
            for row in &asked {
                let expected = rows.iter().any(|known| cgroups.covers(known, row));
                prop_assert_eq!(index.covers(row, cgroups), expected, "{:?} in {:?}", row, rows);
            }
        }
    }
}
