//! Shared rules: one rule for several flows when flows need more rules than are left.

use super::{Assignment, RuleNeed, Slot};
use std::collections::BTreeMap;
use weft_packet::header_match::{Field, HeaderMatch};

/// The maximum number of flows that are used to compare masks.
const SAMPLE: usize = 4_096;

impl Assignment {
    /// Gives some misplaced flows shared rules with fewer tested bits if they need more rules than are left. Among the masks that
    /// tables accept, the best one keeps the most rules distinct while all fit. A shared rule never matches flows of another
    /// group.
    pub(super) fn share_rules(&mut self) {
        let room = self.capacity.room();
        if room == 0 || self.candidates.without_rule_count() as u64 <= room {
            return;
        }
        let slots: Vec<Slot> = self
            .candidates
            .misplaced(RuleNeed::NewRule)
            .filter(|slot| self.flow(*slot).exact && self.flow(*slot).preferred_queue.is_none())
            .collect();
        let mut masks = self.masks(&slots, room);
        // Masks that fit come first, the finest before others; then those that do not fit, the coarsest before others.
        masks.sort_by_key(|(rules, mask)| {
            (*rules > room, if *rules > room { *rules } else { u64::MAX - rules }, *mask)
        });
        for (_, mask) in masks {
            if self.share_under(&slots, &mask) {
                return;
            }
        }
    }

    /// Returns masks with the number of rules that they would need.
    fn masks(&self, slots: &[Slot], room: u64) -> Vec<(u64, HeaderMatch)> {
        let step = slots.len().div_ceil(SAMPLE).max(1);
        let sample: Vec<HeaderMatch> =
            slots.iter().step_by(step).map(|slot| self.flow(*slot).headers).collect();
        let Some(first) = sample.first() else { return Vec::new() };
        let mut out: Vec<(u64, HeaderMatch)> = Vec::new();
        for mask in candidates(&first.mask_only()) {
            let mut keys: Vec<HeaderMatch> = sample.iter().map(|headers| headers.under(&mask)).collect();
            keys.sort_unstable();
            keys.dedup();
            // If the sample's keys repeat, the whole has as many; otherwise their number grows with the sample.
            let repeat = keys.len() * 2 < sample.len();
            let rules = if repeat { keys.len() } else { keys.len() * step } as u64;
            out.push((rules, mask));
        }
        out.retain(|(rules, _)| *rules <= room.saturating_mul(4));
        out
    }

    /// Adds rules under a mask, those with the most flows first, until the remaining flows have room for their own rules. Returns
    /// whether any was added.
    fn share_under(&mut self, slots: &[Slot], mask: &HeaderMatch) -> bool {
        let mut parts: BTreeMap<HeaderMatch, Vec<Slot>> = BTreeMap::new();
        for slot in slots {
            parts.entry(self.flow(*slot).headers.under(mask)).or_default().push(*slot);
        }
        let mut parts: Vec<(HeaderMatch, Vec<Slot>)> =
            parts.into_iter().filter(|(_, flows)| flows.len() > 1).collect();
        parts.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.0.cmp(&b.0)));
        let mut any = false;
        for (headers, flows) in parts {
            if self.candidates.without_rule_count() as u64 <= self.capacity.room() {
                break;
            }
            let group = self.flow(flows[0]).group;
            if !self.is_pure(&headers, group) {
                continue;
            }
            let queue = self.loads.group(group).least().0;
            any |= self.add_rule(headers, queue);
        }
        any
    }

    /// Whether a rule matches only packets of one group's flows.
    fn is_pure(&mut self, headers: &HeaderMatch, group: usize) -> bool {
        let meeting = self.flows.meeting(headers);
        meeting.into_iter().all(|slot| {
            let flow = self.flow(slot);
            flow.group == group && flow.preferred_queue.is_none() && headers.covers(&flow.headers)
        })
    }
}

/// Returns masks with fewer bits than a five-tuple's: all subsets of its fields, and fewer low bits of a port or high bits of an
/// address.
fn candidates(mask: &HeaderMatch) -> Vec<HeaderMatch> {
    const FIELDS: [Field; 5] =
        [Field::SrcIp, Field::DstIp, Field::SrcPort, Field::DstPort, Field::IpProtocol];
    let mut out = Vec::new();
    for subset in 0..(1_u32 << FIELDS.len()) - 1 {
        let left = FIELDS.iter().enumerate().filter(|(index, _)| subset >> index & 1 == 0);
        out.push(left.fold(*mask, |mask, (_, field)| mask.without(*field)));
    }
    for field in [Field::SrcPort, Field::DstPort, Field::SrcIp, Field::DstIp] {
        let (_, bits) = mask.get(field);
        for fewer in 1..bits.count_ones().min(24) {
            out.push(mask.with(field, 0, bits & (u128::MAX << fewer)));
        }
    }
    out.retain(|candidate| candidate != mask && candidate.bits_tested() > 0);
    out
}
