//! The cost of an assignment of flows to queues.

use core::cmp::Ordering;
use core::fmt;
use core::iter::Sum;
use core::ops::{Add, Mul};

/// The cost of an assignment. Dragonet (TRIOS'15) rejects an assignment that breaks a rule. Here broken rules are counted: of two
/// bad assignments the one with fewer violations is better, and a search always has a result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Number of flows on forbidden queues. Fewer violations are better, whatever the values are.
    pub violations: f64,
    /// Distance from the policy's optimum, which is 0.
    pub value: f64,
}

impl Cost {
    /// The cost of a perfect assignment.
    pub const ZERO: Self = Self { violations: 0.0, value: 0.0 };

    /// Returns the cost of a value without violations.
    pub const fn value(value: f64) -> Self {
        Self { violations: 0.0, value }
    }

    /// Whether no rule is violated.
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
    /// Compares violations, then values. NaN is worse than any number.
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

    /// Multiplies the value; violations are unchanged.
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
