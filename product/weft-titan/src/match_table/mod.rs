//! The match tables of the eBPF programs (`bpf/tables.h`): the classification table and the destination table.
//!
//! 1. [`Tables::build`] groups rows by their tests and masks, and makes the entries of the hash map. A range of ports
//!    becomes the prefixes that cover it, at most 30, so that each of a row's tests is a value under a mask.
//! 2. [`MatchTables`] refers to the maps, which several programs may share.
//! 3. [`MatchTables::prepare`] writes tables into the bank that is not in use, and [`Prepared::commit`] puts them in use by one
//!    store.
//!
//! Rules that hold:
//!
//! * A key has a number in place of the name of a process. The entries have the numbers too, by name, so a program finds it in the same bank.
//! * The first row that matches decides; among the destinations of its class, the longest prefix does.
//! * A program uses one bank for a packet, whatever changes meanwhile: a bank that was in use is written only after an RCU grace
//!   period, in which all programs that could read it end.
//! * The rows mean what [`Match::matches`](weft_packet::Match::matches) means. Tests on real packets compare the two.
//!
//! A row that no packet can match (an IPv4 source with an IPv6 destination) makes no entry. No branch needs a counter: what
//! exceeds a bound is a [`TableError`].

mod fields;
mod live;
mod page;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use fields::key_of_process;
pub use live::{CgroupId, MatchTables, PrepareError, Prepared};
pub use page::TablePage;
#[cfg(test)]
pub(crate) use page::{Bank, CgroupWord, GroupLine, TestedWord};

use fields::{CLASSID, COOKIE, FRAME, Fields, MARK, Masks, PRIORITY, PROCESS, Processes, USER};
use std::collections::{BTreeMap, btree_map};
use weft_packet::{Match, Prefix};

/// The maximum number of cgroups that rows name.
pub const CGROUPS: usize = 64;
/// The maximum number of groups of both tables together. Each costs a new flow one look-up in the worst case.
pub const GROUPS: usize = weft_policy::MASKS_MAX;
/// The maximum number of entries of both tables together: 31 MB of the kernel's memory.
pub const ENTRIES: usize = weft_policy::ENTRIES_MAX;
/// The size of an entry's value (`struct weft_entry`).
pub(crate) const ENTRY_BYTES: usize = 8;
/// The class of rows whose lane does not depend on the destination (`WEFT_ANY_DESTINATION`).
const ANY_DESTINATION: u16 = u16::MAX;
/// The names of the maps, the same in every object that uses them.
pub const MAPS: [&str; 2] = ["tables", "entries"];

/// A row of the classification table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<'a> {
    /// The tests that a packet must pass.
    pub matcher: &'a Match,
    /// The result: a lane of the software NIC, or a flow's weight.
    pub given: u16,
    /// The class whose destinations may decide instead, if it has some.
    pub class: Option<u16>,
}

/// A row of the destination table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The class whose packets it holds for.
    pub class: u16,
    /// The number of the port, if it holds for packets of that port alone. They have no other rows then, so one of them
    /// is for any destination.
    pub port: Option<u16>,
    /// Their destination; `None` for any.
    pub to: Option<Prefix>,
    /// The result.
    pub given: u16,
}

/// Errors of tables that exceed the programs' bounds.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// The rows have too many combinations of tests and masks.
    #[error(
        "the rows have {given} combinations of tests and masks, and a port holds at most {GROUPS}; use fewer lengths of \
         prefixes, or ranges of ports that begin and end at multiples of a power of two"
    )]
    Groups {
        /// The number of combinations.
        given: usize,
    },
    /// The rows have too many entries.
    #[error(
        "the rows need {given} entries of the match tables, and a port holds at most {ENTRIES}; a range of ports needs up \
         to 30, and one of source and destination ports up to 900: test fewer ranges"
    )]
    Entries {
        /// The number of entries.
        given: usize,
    },
    /// The rows name too many cgroups.
    #[error("the policy names {given} cgroups, and a port holds at most {CGROUPS}")]
    Cgroups {
        /// The number of cgroups.
        given: usize,
    },
    /// The rows test classes of net_cls, which the kernel does not have.
    #[error(
        "the policy tests `classid`, and this kernel has no net_cls (CONFIG_CGROUP_NET_CLASSID): test a cgroup"
    )]
    NoNetCls,
}

/// The kinds of tests on which more depends than the search: see `WEFT_TABLES_*` in `bpf/tables.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tested {
    /// Rows test the ports of packets, so fragments need those of their datagram.
    pub ports: bool,
    /// Rows test cgroups, so that one five-tuple from two cgroups is two flows.
    pub cgroups: bool,
}

/// The tests of a packet's sender that rows have, and the bits that they test of the packet besides its key (`struct weft_tested`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct TestedBits {
    /// `WEFT_TABLES_*`
    flags: u32,
    /// The bits of `WEFT_FRAME_*`.
    frame: u32,
    /// The bits of marks.
    mark: u32,
    /// The bits of priorities.
    priority: u32,
}

impl TestedBits {
    const PORTS: u32 = 1;
    const CGROUPS: u32 = 2;
    const USERS: u32 = 4;
    const CLASSIDS: u32 = 8;
    const COOKIES: u32 = 16;
    const PROCESSES: u32 = 32;
}

/// A group: the masks that its rows have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Group {
    masks: Masks,
    by: By,
    /// The smallest row.
    first: u32,
}

/// The field of a key besides those under the masks (`WEFT_BY_*`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum By {
    None = 0,
    Cgroup = 1,
    Port = 2,
}

/// Tables in the form in which the programs search them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tables {
    groups: Vec<Group>,
    /// The number of groups of the classification table; those of the destination table follow.
    classifying: usize,
    entries: Vec<([u8; Fields::BYTES], [u8; ENTRY_BYTES])>,
    tested: Tested,
}

/// The value of an entry.
fn entry_bytes(row: u32, given: u16, class: Option<u16>) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..4].copy_from_slice(&row.to_ne_bytes());
    bytes[4..6].copy_from_slice(&given.to_ne_bytes());
    bytes[6..].copy_from_slice(&class.unwrap_or(ANY_DESTINATION).to_ne_bytes());
    bytes
}

/// The rows of a group under construction: the fields under its masks, and the value of the first row that has them.
type Rows = BTreeMap<Fields, (u32, [u8; ENTRY_BYTES])>;

impl Tables {
    /// Builds the tables of `rows`, the first of which that matches decides, and of `destinations`, of which each class has a
    /// prefix at most once.
    ///
    /// # Errors
    /// When they need too many groups or entries.
    pub fn build<'a>(
        rows: impl IntoIterator<Item = Row<'a>>,
        destinations: impl IntoIterator<Item = Destination>,
        tested: Tested,
    ) -> Result<Self, TableError> {
        let mut tables = Self { groups: Vec::new(), classifying: 0, entries: Vec::new(), tested };
        let mut classifying: BTreeMap<(Masks, By), Rows> = BTreeMap::new();
        let mut processes = Processes::default();
        let mut count = 0;
        for (number, row) in rows.into_iter().enumerate() {
            let number = number as u32;
            for (masks, fields) in fields::of_match(row.matcher, &mut processes) {
                let by = if row.matcher.cgroup.is_some() { By::Cgroup } else { By::None };
                let group = classifying.entry((masks, by)).or_default();
                if let btree_map::Entry::Vacant(vacant) = group.entry(fields) {
                    vacant.insert((number, entry_bytes(number, row.given, row.class)));
                    count += 1;
                }
            }
            if count > ENTRIES {
                return Err(TableError::Entries { given: count });
            }
        }
        let first = |rows: &Rows| rows.values().map(|(row, _)| *row).min().unwrap_or(0);
        let mut classifying: Vec<_> =
            classifying.into_iter().map(|(key, rows)| (first(&rows), key, rows)).collect();
        classifying.sort_by_key(|(first, ..)| *first);
        for (first, (masks, by), rows) in classifying {
            tables.add(Group { masks, by, first }, rows)?;
        }
        tables.classifying = tables.groups.len();
        tables.entries.extend(processes.keys().map(|(key, number)| (key, entry_bytes(number, 0, None))));
        if tables.entries.len() > ENTRIES {
            return Err(TableError::Entries { given: tables.entries.len() });
        }
        tables.add_destinations(destinations)?;
        Ok(tables)
    }

    /// Adds the groups of the destination table: first those of ports, each longest prefix first. All their rows have number
    /// 0, so the first hit ends the search.
    fn add_destinations(
        &mut self,
        destinations: impl IntoIterator<Item = Destination>,
    ) -> Result<(), TableError> {
        let mut by_length: BTreeMap<_, (Masks, Rows)> = BTreeMap::new();
        let mut count = self.entries.len();
        for Destination { class, port, to, given } in destinations {
            let (masks, fields) = fields::of_destination(class, port, to);
            let length = to.map(|to| (to.len, to.addr.is_ipv6()));
            let (_, rows) = by_length
                .entry((port.is_none(), core::cmp::Reverse(length)))
                .or_insert_with(|| (masks, Rows::new()));
            rows.entry(fields).or_insert((0, entry_bytes(0, given, None)));
            count += 1;
            if count > ENTRIES {
                return Err(TableError::Entries { given: count });
            }
        }
        for ((any_port, _), (masks, rows)) in by_length {
            let by = if any_port { By::None } else { By::Port };
            self.add(Group { masks, by, first: 0 }, rows)?;
        }
        Ok(())
    }

    fn add(&mut self, group: Group, rows: Rows) -> Result<(), TableError> {
        let number = self.groups.len() as u16;
        self.groups.push(group);
        self.entries.extend(rows.into_iter().map(|(fields, (_, value))| (fields.key(number), value)));
        if self.groups.len() > GROUPS {
            return Err(TableError::Groups { given: self.groups.len() });
        }
        if self.entries.len() > ENTRIES {
            return Err(TableError::Entries { given: self.entries.len() });
        }
        Ok(())
    }

    /// The kinds of tests that the rows have. Those of senders and frames follow from the masks of the groups.
    fn tested_bits(&self) -> TestedBits {
        let word = |at: usize| self.groups.iter().fold(0, |bits, group| bits | group.masks.word(at));
        let flags = [
            (TestedBits::PORTS, self.tested.ports),
            (TestedBits::CGROUPS, self.tested.cgroups),
            (TestedBits::USERS, word(USER) != 0),
            (TestedBits::CLASSIDS, word(CLASSID) != 0),
            (TestedBits::COOKIES, word(COOKIE) != 0),
            (TestedBits::PROCESSES, word(PROCESS) != 0),
        ];
        let flags = flags.into_iter().filter(|(_, tested)| *tested).fold(0, |all, (flag, _)| all | flag);
        TestedBits { flags, frame: word(FRAME), mark: word(MARK), priority: word(PRIORITY) }
    }

    /// Whether rows test classes of net_cls.
    fn tests_classid(&self) -> bool {
        self.tested_bits().flags & TestedBits::CLASSIDS != 0
    }

    /// The number of groups of the classification table, and that of the destination table.
    pub fn groups(&self) -> (usize, usize) {
        (self.classifying, self.groups.len() - self.classifying)
    }

    /// The number of entries of both tables, with those that have the numbers of processes.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }
}

/// The masks, the key and the value of the entry of the row in a table of one row, for the comparison with the programs' structures.
#[cfg(test)]
pub(crate) fn only_entry(
    matcher: &Match,
    given: u16,
    class: Option<u16>,
) -> ([u8; fields::MASKED], [u8; Fields::BYTES], [u8; ENTRY_BYTES]) {
    let tables = Tables::build([Row { matcher, given, class }], [], Tested::default()).expect("fits");
    let (key, value) = tables.entries[0];
    (tables.groups[0].masks.0, key, value)
}

/// The tests of rows on which more depends than the search.
pub fn tested<'a>(rows: impl IntoIterator<Item = &'a Match>) -> Tested {
    rows.into_iter().fold(Tested::default(), |tested, row| Tested {
        ports: tested.ports || row.sport.is_some() || row.dport.is_some(),
        cgroups: tested.cgroups || row.cgroup.is_some(),
    })
}
