//! Which of many cubes meet a cube: tuple space search (Srinivasan, Suri, Varghese: "Packet classification using tuple space search",
//! SIGCOMM'99). Cubes of one mask that are asked for under one common mask stand in one ordered set.

use std::collections::{BTreeMap, BTreeSet};
use weft_packet::cube::Cube;

/// Cubes with numbers. A question takes a search for each mask that occurs, whatever the number of cubes is.
#[derive(Clone, Debug, Default)]
pub(super) struct CubeIndex {
    /// By mask.
    tuples: BTreeMap<Cube, Tuple>,
}

#[derive(Clone, Debug, Default)]
struct Tuple {
    all: BTreeSet<(Cube, u32)>,
    /// The same cubes under fewer bits, by mask: made when first asked for.
    views: BTreeMap<Cube, BTreeSet<(Cube, u32)>>,
}

impl CubeIndex {
    /// Adds a cube.
    pub(super) fn add(&mut self, cube: Cube, number: u32) {
        let tuple = self.tuples.entry(cube.mask_only()).or_default();
        for (mask, view) in &mut tuple.views {
            view.insert((cube.under(mask), number));
        }
        tuple.all.insert((cube, number));
    }

    /// Takes a cube out that was added.
    pub(super) fn remove(&mut self, cube: Cube, number: u32) {
        let mask = cube.mask_only();
        let Some(tuple) = self.tuples.get_mut(&mask) else { return };
        for (mask, view) in &mut tuple.views {
            view.remove(&(cube.under(mask), number));
        }
        tuple.all.remove(&(cube, number));
        if tuple.all.is_empty() {
            self.tuples.remove(&mask);
        }
    }

    /// The numbers of cubes that hold all of `cube`.
    pub(super) fn covering(&self, cube: &Cube) -> Vec<u32> {
        let mask = cube.mask_only();
        let mut out = Vec::new();
        for (own, tuple) in &self.tuples {
            if own.fewer_bits(&mask) {
                let key = cube.under(own);
                out.extend(tuple.all.range((key, 0)..=(key, u32::MAX)).map(|(_, number)| *number));
            }
        }
        out
    }

    /// The numbers of cubes that have packets in common with `cube`, ascending.
    pub(super) fn meeting(&mut self, cube: &Cube) -> Vec<u32> {
        let mask = cube.mask_only();
        let mut out = Vec::new();
        for (own, tuple) in &mut self.tuples {
            let common = own.under(&mask);
            let key = cube.under(own);
            let all = &tuple.all;
            let view = tuple
                .views
                .entry(common)
                .or_insert_with(|| all.iter().map(|(cube, number)| (cube.under(&common), *number)).collect());
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
    use weft_packet::cube::Field;

    fn some_cube() -> impl Strategy<Value = Cube> {
        (0u128..8, 0u128..8, 0u128..4, 0u128..4).prop_map(|(a, am, b, bm)| {
            Cube::ALL.with(Field::DstPort, a, am).with(Field::SrcIp, b << 63, bm << 63)
        })
    }

    proptest! {
        #[test]
        fn answers_are_those_of_a_scan(
            cubes in proptest::collection::vec((some_cube(), any::<bool>()), 1..40),
            question in some_cube(),
        ) {
            let mut index = CubeIndex::default();
            index.meeting(&question);
            for (number, (cube, _)) in cubes.iter().enumerate() {
                index.add(*cube, number as u32);
                if number == cubes.len() / 2 {
                    index.meeting(&question);
                }
            }
            for (number, (cube, stays)) in cubes.iter().enumerate() {
                if !stays {
                    index.remove(*cube, number as u32);
                }
            }
            let scan = |holds: &dyn Fn(&Cube) -> bool| -> Vec<u32> {
                let kept = cubes.iter().enumerate().filter(|(_, (cube, stays))| *stays && holds(cube));
                kept.map(|(number, _)| number as u32).collect()
            };
            let mut covering = index.covering(&question);
            covering.sort_unstable();
            prop_assert_eq!(covering, scan(&|cube| cube.covers(&question)));
            prop_assert_eq!(index.meeting(&question), scan(&|cube| !cube.is_disjoint(&question)));
        }
    }
}
