//! Selection of the rules that can stay: those in both configurations, unless their age among overlapping rules would be wrong.

use super::by_age;
use crate::nic::configuration::Rule;
use crate::nic::{Nic, TableId};
use std::collections::{BTreeMap, BTreeSet};
use weft_packet::header_match::HeaderMatch;

/// Returns the rules of `from` that stay. Among overlapping rules of equal priority, precedence depends on age, and an added rule
/// becomes the newest. A rule that must follow an added rule, or change its order, is removed and added again.
pub(super) fn kept(nic: &Nic, from: &[Rule], to: &[Rule]) -> BTreeSet<Rule> {
    let old: BTreeMap<Rule, usize> = from.iter().enumerate().map(|(index, rule)| (*rule, index)).collect();
    let mut kept: BTreeSet<Rule> = to.iter().filter(|rule| old.contains_key(*rule)).copied().collect();
    let mut groups: BTreeMap<(TableId, u8), Vec<Rule>> = BTreeMap::new();
    for rule in to {
        if nic.table(rule.table).is_some_and(|table| by_age(table.order)) {
            groups.entry((rule.table, rule.priority)).or_default().push(*rule);
        }
    }
    for group in groups.values() {
        let overlaps = Overlaps::new(group);
        // In the new configuration's order: a rule stays if every earlier rule that it overlaps stays and was earlier before.
        for (index, rule) in group.iter().enumerate() {
            let Some(mine) = old.get(rule) else { continue };
            let wrong = overlaps.of(index, group).into_iter().any(|other| {
                other < index
                    && (!kept.contains(&group[other]) || old.get(&group[other]).is_none_or(|age| age > mine))
            });
            if wrong {
                kept.remove(rule);
            }
        }
    }
    kept
}

/// An index of overlapping rules by mask. Rules of one mask are equal or disjoint. For two masks it is enough to compare their
/// common bits.
struct Overlaps {
    /// Masks, with their rules.
    masks: Vec<(HeaderMatch, Vec<usize>)>,
    /// For each pair of masks, the rules of the second by their values of the common bits.
    joined: Vec<Vec<BTreeMap<HeaderMatch, Vec<usize>>>>,
}

impl Overlaps {
    fn new(rules: &[Rule]) -> Self {
        let mut by_mask: BTreeMap<HeaderMatch, Vec<usize>> = BTreeMap::new();
        for (index, rule) in rules.iter().enumerate() {
            by_mask.entry(rule.headers.mask_only()).or_default().push(index);
        }
        let masks: Vec<(HeaderMatch, Vec<usize>)> = by_mask.into_iter().collect();
        let joined = masks
            .iter()
            .map(|(first, _)| {
                masks
                    .iter()
                    .map(|(_, members)| {
                        let mut map: BTreeMap<HeaderMatch, Vec<usize>> = BTreeMap::new();
                        for member in members {
                            map.entry(rules[*member].headers.under(first)).or_default().push(*member);
                        }
                        map
                    })
                    .collect()
            })
            .collect();
        Self { masks, joined }
    }

    /// Returns the rules that overlap a rule, without itself.
    fn of(&self, index: usize, rules: &[Rule]) -> Vec<usize> {
        let headers = rules[index].headers;
        let Some(mine) = self.masks.iter().position(|(mask, _)| *mask == headers.mask_only()) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for (other, (mask, _)) in self.masks.iter().enumerate() {
            if let Some(members) = self.joined[mine][other].get(&headers.under(mask)) {
                out.extend(members.iter().copied().filter(|member| *member != index));
            }
        }
        out
    }
}
