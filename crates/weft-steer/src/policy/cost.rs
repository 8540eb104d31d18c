//! What a policy says of an assignment of flows to queues.

use core::cmp::Ordering;
use core::fmt;
use core::iter::Sum;
use core::ops::{Add, Mul};

/// How bad an assignment is. Dragonet (TRIOS'15) rejects what breaks a rule; here broken rules are counted, so that of two
/// assignments that both break some, the one that breaks fewer is better, and a search never ends without a result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Flows that are where the policy forbids them. An assignment with fewer is better, whatever the values are.
    pub violations: f64,
    /// How far it is from what the policy wants; 0 is perfect.
    pub value: f64,
}

impl Cost {
    /// Nothing is wrong.
    pub const ZERO: Self = Self { violations: 0.0, value: 0.0 };

    /// A value without violations.
    pub const fn value(value: f64) -> Self {
        Self { violations: 0.0, value }
    }

    /// Whether no rule is broken.
    pub fn is_allowed(&self) -> bool {
        self.violations <= 0.0
    }
}

impl PartialEq for Cost {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Cost {}

impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cost {
    /// By violations, then by value. What is not a number is worse than any number.
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |x: f64| if x.is_nan() { f64::INFINITY } else { x + 0.0 };
        rank(self.violations)
            .total_cmp(&rank(other.violations))
            .then(rank(self.value).total_cmp(&rank(other.value)))
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { violations: self.violations + other.violations, value: self.value + other.value }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

impl Mul<f64> for Cost {
    type Output = Self;

    /// The value counts so many times; violations stay what they are.
    fn mul(self, times: f64) -> Self {
        Self { violations: self.violations, value: self.value * times }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_allowed() {
            write!(f, "{:.3}", self.value)
        } else {
            write!(f, "{:.3}, {} flows where they must not be", self.value, self.violations)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_count_before_values_and_costs_add_up() {
        let [fine, dear, broken] = [Cost::value(1.0), Cost::value(1e9), Cost { violations: 1.0, value: 0.0 }];
        assert!(fine < dear && dear < broken && broken < Cost::value(f64::NAN) + broken);
        assert_eq!(
            [fine, dear, broken].into_iter().sum::<Cost>(),
            Cost { violations: 1.0, value: 1e9 + 1.0 }
        );
        assert_eq!(broken + fine * 3.0, Cost { violations: 1.0, value: 3.0 });
        assert_eq!(Cost::value(-0.0), Cost::ZERO);
    }
}
