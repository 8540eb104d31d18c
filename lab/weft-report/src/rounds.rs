//! Rounds in which variants take turns: their order, their figures, and ratios within a round.
//!
//! Each variant is first in turn, so that none always follows the same one. A machine that slows down slows all variants of a round,
//! so a ratio is formed within a round, and not of medians. What is measured, and when, is the caller's.

use weft_facts::stats;

/// A variant's turn in a round.
#[derive(Clone, Copy, Debug)]
pub struct RoundTurn<'a, V> {
    /// The variant.
    pub variant: &'a V,
    /// The round, from 1.
    pub round: u32,
    /// The turns that are done after this one.
    pub done: u32,
    /// The turns of all rounds.
    pub of: u32,
}

/// The measurements of complete rounds, each in the order of the variants.
#[derive(Clone, PartialEq, Debug)]
pub struct Rounds<T>(pub Vec<Vec<T>>);

impl<T> Rounds<T> {
    /// Measures each of `variants` once a round, in an order that rotates. `stop` is asked before each turn; a round that it cuts off
    /// does not count.
    ///
    /// # Errors
    /// The first of `measure`, which ends all.
    pub fn measure<V, E>(
        rounds: u32,
        variants: &[V],
        stop: &dyn Fn() -> bool,
        mut measure: impl FnMut(RoundTurn<'_, V>) -> Result<T, E>,
    ) -> Result<Self, E> {
        let (mut done, of) = (0, rounds * variants.len() as u32);
        let mut all = Vec::new();
        for round in 1..=rounds {
            let first = (round as usize - 1) % variants.len().max(1);
            let mut measured = Vec::with_capacity(variants.len());
            for variant in variants[first..].iter().chain(&variants[..first]) {
                if stop() {
                    return Ok(Self(all));
                }
                done += 1;
                measured.push(measure(RoundTurn { variant, round, done, of })?);
            }
            measured.rotate_right(first);
            all.push(measured);
        }
        Ok(Self(all))
    }

    /// Measures a single variant. `measure` gets the number of the round, from 1.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn of_one<E>(rounds: u32, mut measure: impl FnMut(u32) -> Result<T, E>) -> Result<Self, E> {
        Self::measure(rounds, &[()], &|| false, |turn| measure(turn.round))
    }

    /// The measurements of a variant, by its place.
    pub fn of(&self, variant: usize) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(move |round| round.get(variant))
    }

    /// A figure of a variant, round by round.
    pub fn figures(&self, variant: usize, figure: impl Fn(&T) -> f64) -> Vec<f64> {
        self.of(variant).map(figure).collect()
    }

    /// The median of a figure of a variant; `None` without a complete round.
    pub fn median(&self, variant: usize, figure: impl Fn(&T) -> f64) -> Option<f64> {
        stats::median(&self.figures(variant, figure))
    }

    /// The [`ratios`] of a figure of a variant to another variant's.
    pub fn ratios(&self, variant: usize, to: usize, figure: impl Fn(&T) -> f64) -> Vec<f64> {
        ratios(self.of(variant).zip(self.of(to)).map(|(one, other)| (figure(one), figure(other))))
    }
}

/// The first figure of each pair by the second. Both are of one round; where the second is not above zero there is no ratio.
pub fn ratios(pairs: impl IntoIterator<Item = (f64, f64)>) -> Vec<f64> {
    pairs.into_iter().filter(|(_, to)| *to > 0.0).map(|(of, to)| of / to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use core::convert::Infallible;

    const VARIANTS: [char; 3] = ['a', 'b', 'c'];

    /// The turns of as many rounds, and what they measured; `stop` gets the number of turns so far.
    fn turns(rounds: u32, stop: fn(u32) -> bool) -> (String, Rounds<(u32, char)>) {
        let (mut order, so_far) = (String::new(), Cell::new(0));
        let Ok(measured) = Rounds::measure(rounds, &VARIANTS, &|| stop(so_far.get()), |turn| {
            so_far.set(so_far.get() + 1);
            assert_eq!((turn.done, turn.of), (so_far.get(), 3 * rounds));
            order.push(*turn.variant);
            Ok::<_, Infallible>((turn.round, *turn.variant))
        });
        (order, measured)
    }

    #[test]
    fn each_variant_is_first_in_turn_and_measured_equally_often() {
        let (order, measured) = turns(4, |_| false);
        assert_eq!(order, "abcbcacababc");
        for (place, variant) in VARIANTS.into_iter().enumerate() {
            assert!(measured.of(place).eq(&[1, 2, 3, 4].map(|round| (round, variant))), "{measured:?}");
        }
        assert_eq!(measured.of(3).count(), 0);
    }

    #[test]
    fn a_round_that_is_cut_off_does_not_count() {
        let (order, measured) = turns(3, |so_far| so_far == 5);
        assert_eq!(order, "abcbc");
        assert_eq!(measured.0, [VARIANTS.map(|variant| (1, variant))]);
        let (order, measured) = turns(3, |so_far| so_far == 2);
        assert_eq!((order.as_str(), measured.0), ("ab", Vec::new()));
        assert_eq!(turns(3, |_| true).0, "");
    }

    #[test]
    fn an_error_ends_all() {
        let mut made = 0;
        let all = Rounds::of_one(5, |round| {
            made = round;
            if round == 2 { Err("broken") } else { Ok(round) }
        });
        assert_eq!((all, made), (Err("broken"), 2));
    }

    /// The machine gets slower, and both variants with it: the ratio stays, which one of other rounds would not.
    #[test]
    fn a_ratio_is_formed_within_its_round() {
        let rounds = |rounds: &[[f64; 2]]| Rounds(rounds.iter().map(|round| round.to_vec()).collect());
        let slower = rounds(&[[8.0, 4.0], [4.0, 2.0], [2.0, 1.0]]);
        assert_eq!(slower.ratios(0, 1, |speed| *speed), [2.0; 3]);
        let medians = [0, 1].map(|variant| slower.median(variant, |speed| *speed));
        assert_eq!(medians, [Some(4.0), Some(2.0)]);
        // Here the ratio of the medians is 1.5, and the median of the ratios 0.5.
        let uneven = rounds(&[[1.0, 2.0], [3.0, 6.0], [9.0, 1.0]]);
        assert_eq!(stats::median(&uneven.ratios(0, 1, |speed| *speed)), Some(0.5));
        assert_eq!(rounds(&[[1.0, 0.0], [3.0, 2.0]]).ratios(0, 1, |speed| *speed), [1.5]);
    }
}
