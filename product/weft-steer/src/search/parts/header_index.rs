//! Search for header matches that intersect a given one: tuple space search (Srinivasan, Suri, Varghese: "Packet classification
//! using tuple space search", SIGCOMM'99). Header matches of one mask are kept in an ordered set for each common mask of a query.

use std::collections::{BTreeMap, BTreeSet};
use weft_packet::header_match::HeaderMatch;

/// Numbered header matches. A query takes one search per distinct mask, regardless of the number of header matches.
#[derive(Clone, Debug, Default)]
pub(in crate::search) struct HeaderIndex {
    /// By mask.
    tuples: BTreeMap<HeaderMatch, Tuple>,
}

#[derive(Clone, Debug, Default)]
struct Tuple {
    all: BTreeSet<(HeaderMatch, u32)>,
    /// The same header matches under fewer bits, by mask; built on first use.
    views: BTreeMap<HeaderMatch, BTreeSet<(HeaderMatch, u32)>>,
}

impl HeaderIndex {
    /// Adds a header match.
    pub(in crate::search) fn add(&mut self, headers: HeaderMatch, number: u32) {
        let tuple = self.tuples.entry(headers.mask_only()).or_default();
        for (mask, view) in &mut tuple.views {
            view.insert((headers.under(mask), number));
        }
        tuple.all.insert((headers, number));
    }

    /// Removes a header match that was added.
    pub(in crate::search) fn remove(&mut self, headers: HeaderMatch, number: u32) {
        let mask = headers.mask_only();
        let Some(tuple) = self.tuples.get_mut(&mask) else { return };
        for (mask, view) in &mut tuple.views {
            view.remove(&(headers.under(mask), number));
        }
        tuple.all.remove(&(headers, number));
        if tuple.all.is_empty() {
            self.tuples.remove(&mask);
        }
    }

    /// Returns the numbers of header matches that contain all of `headers`.
    pub(in crate::search) fn covering(&self, headers: &HeaderMatch) -> Vec<u32> {
        let mask = headers.mask_only();
        let mut out = Vec::new();
        for (own, tuple) in &self.tuples {
            if own.fewer_bits(&mask) {
                let key = headers.under(own);
                out.extend(tuple.all.range((key, 0)..=(key, u32::MAX)).map(|(_, number)| *number));
            }
        }
        out
    }

    /// Returns the numbers of header matches that share packets with `headers`, ascending.
    pub(in crate::search) fn meeting(&mut self, headers: &HeaderMatch) -> Vec<u32> {
        let mask = headers.mask_only();
        let mut out = Vec::new();
        for (own, tuple) in &mut self.tuples {
            let common = own.under(&mask);
            let key = headers.under(own);
            let all = &tuple.all;
            let view = tuple.views.entry(common).or_insert_with(|| {
                all.iter().map(|(headers, number)| (headers.under(&common), *number)).collect()
            });
            out.extend(view.range((key, 0)..=(key, u32::MAX)).map(|(_, number)| *number));
        }
        out.sort_unstable();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_packet::header_match::Field;

    fn some_headers() -> impl Strategy<Value = HeaderMatch> {
        (0u128..8, 0u128..8, 0u128..4, 0u128..4).prop_map(|(a, am, b, bm)| {
            HeaderMatch::ALL.with(Field::DstPort, a, am).with(Field::SrcIp, b << 63, bm << 63)
        })
    }

    proptest! {
        #[test]
        fn answers_are_those_of_a_scan(
            header_matches in proptest::collection::vec((some_headers(), any::<bool>()), 1..40),
            question in some_headers(),
        ) {
            let mut index = HeaderIndex::default();
            index.meeting(&question);
            for (number, (headers, _)) in header_matches.iter().enumerate() {
                index.add(*headers, number as u32);
                if number == header_matches.len() / 2 {
                    index.meeting(&question);
                }
            }
            for (number, (headers, stays)) in header_matches.iter().enumerate() {
                if !stays {
                    index.remove(*headers, number as u32);
                }
            }
            let scan = |holds: &dyn Fn(&HeaderMatch) -> bool| -> Vec<u32> {
                let kept = header_matches.iter().enumerate().filter(|(_, (headers, stays))| *stays && holds(headers));
                kept.map(|(number, _)| number as u32).collect()
            };
            let mut covering = index.covering(&question);
            covering.sort_unstable();
            prop_assert_eq!(covering, scan(&|headers| headers.covers(&question)));
            prop_assert_eq!(index.meeting(&question), scan(&|headers| !headers.is_disjoint(&question)));
        }
    }
}
