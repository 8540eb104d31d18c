//! Rules of a table grouped by mask, so that finding a flow's rule is a hash lookup.

use crate::nic::configuration::Configuration;
use crate::nic::{Order, Table, TableId};
use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;
use weft_packet::header_match::HeaderMatch;

/// A hasher without random state: keys are the configuration's own rules and never come from a network. Words are folded as in
/// FxHash (Firefox's hash); a final multiplication spreads high bits to low ones.
#[derive(Clone, Default)]
pub(super) struct Fold(u64);

/// 2^64 divided by the golden ratio, odd: Knuth's multiplicative hashing (TAOCP 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 32).wrapping_mul(GOLDEN);
        mixed ^ mixed >> 29
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(GOLDEN);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// The rules of one mask.
#[derive(Clone)]
struct Group {
    mask: HeaderMatch,
    /// The best rank of a header match.
    ranks: HashMap<HeaderMatch, u32, BuildHasherDefault<Fold>>,
    /// Distinct header matches, the best rank first.
    header_matches: Vec<(u32, HeaderMatch)>,
}

/// A table's rules by rank; rank 0 has precedence.
#[derive(Clone)]
pub(super) struct Rules {
    /// The index of each rank's rule in the configuration.
    places: Vec<usize>,
    groups: Vec<Group>,
}

impl Rules {
    /// Collects the rules of a table.
    pub(super) fn new(id: TableId, table: &Table, configuration: &Configuration) -> Self {
        let rules = &configuration.rules;
        let mut places: Vec<usize> = (0..rules.len()).filter(|place| rules[*place].table == id).collect();
        match table.order {
            // A stable sort: among equal priorities, the oldest rule is first.
            Order::Priority | Order::Location => {
                places.sort_by_key(|place| core::cmp::Reverse(rules[*place].priority));
            }
            Order::Newest => places.reverse(),
            Order::Disjoint => {}
        }
        let mut by_mask: HashMap<HeaderMatch, usize, BuildHasherDefault<Fold>> = HashMap::default();
        let mut groups: Vec<Group> = Vec::new();
        for (rank, place) in (0u32..).zip(&places) {
            let headers = rules[*place].headers;
            let mask = headers.mask_only();
            let at = *by_mask.entry(mask).or_insert_with(|| {
                groups.push(Group { mask, ranks: HashMap::default(), header_matches: vec![] });
                groups.len() - 1
            });
            let group = &mut groups[at];
            group.ranks.entry(headers).or_insert_with(|| {
                group.header_matches.push((rank, headers));
                rank
            });
        }
        Self { places, groups }
    }

    /// Returns the configuration's index of the rule that takes a packet, given as the header match of all of its fields.
    #[inline]
    pub(super) fn of_packet(&self, packet: &HeaderMatch) -> Option<usize> {
        let mut best: Option<u32> = None;
        for group in &self.groups {
            // Groups are sorted by their best ranks.
            if best.is_some_and(|best| group.header_matches.first().is_some_and(|(rank, _)| best < *rank)) {
                break;
            }
            let found = packet.project(&group.mask).and_then(|key| group.ranks.get(&key));
            if let Some(rank) = found
                && best.is_none_or(|best| *rank < best)
            {
                best = Some(*rank);
            }
        }
        best.map(|rank| self.places[rank as usize])
    }

    /// Returns the rules that match some of a header match's packets, in order of precedence, up to one that matches them all.
    pub(super) fn of_headers(&self, headers: &HeaderMatch) -> Vec<(usize, HeaderMatch)> {
        let mut found: Vec<(u32, HeaderMatch)> = Vec::new();
        for group in &self.groups {
            match headers.project(&group.mask) {
                Some(key) => found.extend(group.ranks.get(&key).map(|rank| (*rank, key))),
                None => {
                    found.extend(group.header_matches.iter().filter(|(_, rule)| !rule.is_disjoint(headers)))
                }
            }
        }
        found.sort_unstable_by_key(|(rank, _)| *rank);
        if let Some(last) = found.iter().position(|(_, rule)| rule.covers(headers)) {
            found.truncate(last + 1);
        }
        found.into_iter().map(|(rank, rule)| (self.places[rank as usize], rule)).collect()
    }
}
