//! The use that classes make of the match tables of a port: rows, groups of masks, entries.

use crate::compiled::CompiledPolicy;
use crate::validate::row_index::Shape;
use std::collections::BTreeSet;
use weft_packet::{Attribute, Match};
use weft_units::ClassId;

/// The most groups of masks of a port's match tables: the rows of a group test the same bits. Each group costs a new flow one look-up
/// in the worst case.
pub const MASKS_MAX: usize = 1024;
/// The most entries of a port's match tables: 31 MB of the kernel's memory.
pub const ENTRIES_MAX: usize = 1 << 18;

/// The bits that rows of a group test.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Group {
    /// Of the classification table: the tests of fields other than ports, whether one is of a cgroup, and the masks of the ports.
    Row(Shape, bool, u16, u16),
    /// Of the destination table: whether rows are of one port of the NIC, and the family and length of the prefix.
    Destination(bool, Option<(bool, u8)>),
}

/// The use of some classes. It is never below what the tables of `weft-titan` need for them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TableUse {
    /// Rows of the classification table.
    pub(crate) rows: usize,
    /// Rows of the destination table.
    pub(crate) destinations: usize,
    pub(crate) groups: BTreeSet<Group>,
    pub(crate) entries: usize,
}

impl TableUse {
    /// Adds a row of the classification table.
    pub(crate) fn add_row(&mut self, row: &Match) {
        self.rows += 1;
        let shape = Shape::of(&Match { sport: None, dport: None, ..row.clone() });
        let masks = |range: Option<weft_packet::PortRange>| {
            range.map_or_else(|| vec![(0, 0)], |range| range.under_masks())
        };
        let dports = masks(row.dport);
        for (_, sport) in masks(row.sport) {
            for (_, dport) in &dports {
                self.groups.insert(Group::Row(shape.clone(), row.cgroup.is_some(), sport, *dport));
                self.entries += 1;
            }
        }
        // The number that represents the name of a process.
        self.entries += row.attributes.iter().filter(|(of, _)| *of == Attribute::Process).count();
    }

    /// Adds the rows of a class in the destination table.
    pub(crate) fn add_destinations(&mut self, policy: &CompiledPolicy, class: ClassId) {
        let rows = policy.destinations.get(class.index()).map(Vec::as_slice).unwrap_or_default();
        self.destinations += rows.len();
        let ports = policy.ports_of(class);
        let own = ports.iter().flat_map(|port| policy.destinations_at(class, *port).into_iter());
        let common = rows.iter().filter(|row| row.port.is_none() && row.to.is_some());
        let own = own.map(|row| (true, row.to));
        for (of_port, to) in own.chain(common.map(|row| (false, row.to))) {
            self.groups.insert(Group::Destination(of_port, to.map(|to| (to.addr.is_ipv6(), to.len))));
            self.entries += 1;
        }
    }

    /// Adds the use of other classes.
    pub(crate) fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.destinations += other.destinations;
        self.groups.extend(other.groups.iter().cloned());
        self.entries += other.entries;
    }
}
