//! Coordinates within a layer, the last step of a layered drawing (Sugiyama et al.): as near as possible to where each box would be best, without overlap and in the given order.

/// A place as it would be best.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) place: f64,
    /// Its part in the sum, above 0.
    pub(super) weight: f64,
}

/// A run of boxes that touch each other, and so move together.
struct Run {
    sum: f64,
    weight: f64,
    first: usize,
}

/// The places that differ least from `wanted`, in the weighted sum of squares, and of which each is at least `apart[i]` above the one before
/// it; `apart[0]` is not used. This is isotonic regression by pooling adjacent violators.
pub(super) fn spread(wanted: &[Wish], apart: &[f64]) -> Vec<f64> {
    let mut offsets = Vec::with_capacity(wanted.len());
    let mut offset = 0.0;
    for (i, gap) in apart.iter().enumerate() {
        offset += if i == 0 { 0.0 } else { *gap };
        offsets.push(offset);
    }
    let mut runs: Vec<Run> = Vec::new();
    for (first, (want, offset)) in wanted.iter().zip(&offsets).enumerate() {
        let mut run = Run { sum: (want.place - offset) * want.weight, weight: want.weight, first };
        while let Some(last) = runs.pop_if(|last| last.sum / last.weight > run.sum / run.weight) {
            run = Run { sum: run.sum + last.sum, weight: run.weight + last.weight, first: last.first };
        }
        runs.push(run);
    }
    let mut places = vec![0.0; wanted.len()];
    let mut end = wanted.len();
    for run in runs.iter().rev() {
        for at in run.first..end {
            places[at] = run.sum / run.weight + offsets[at];
        }
        end = run.first;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wishes(places: &[f64]) -> Vec<Wish> {
        places.iter().map(|place| Wish { place: *place, weight: 1.0 }).collect()
    }

    #[test]
    fn boxes_with_one_wish_share_it() {
        assert_eq!(spread(&wishes(&[5.0, 5.0, 5.0]), &[0.0, 2.0, 2.0]), [3.0, 5.0, 7.0]);
        assert_eq!(spread(&wishes(&[0.0, 9.0]), &[0.0, 2.0]), [0.0, 9.0]);
        let unequal = [Wish { place: 9.0, weight: 3.0 }, Wish { place: 1.0, weight: 1.0 }];
        assert_eq!(spread(&unequal, &[0.0, 4.0]), [6.0, 10.0]);
        assert!(spread(&[], &[]).is_empty());
    }

    proptest! {
        #[test]
        fn no_two_are_closer_than_they_may(boxes in prop::collection::vec((-50.0..50.0, 0.0..9.0), 0..20)) {
            let (wanted, apart): (Vec<f64>, Vec<f64>) = boxes.into_iter().unzip();
            let places = spread(&wishes(&wanted), &apart);
            for i in 1..places.len() {
                prop_assert!(places[i] - places[i - 1] > apart[i] - 1e-6, "{places:?}");
            }
        }
    }
}
