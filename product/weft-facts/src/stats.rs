//! Statistics of the reports, as pure functions on slices.
//!
//! A function without a result for its input (an empty slice, a sum of zero) returns `None`. None returns NaN for
//! finite input, so every figure can be written as JSON. Slices need not be sorted unless the name says so.

use weft_units::{BitsPerSec, Bytes, Nanos};

/// The nearest-rank percentile of `values`: the smallest value such that at least `p` percent of all values are at or
/// below it, that is the value of rank `ceil(p / 100 * n)`, counted from 1. `p` is clamped to 0..=100; `p` = 0 is the minimum.
///
/// The result is always one of the values, without interpolation, in their unit.
pub fn percentile(values: &[f64], p: f64) -> Option<f64> {
    percentile_sorted(&sorted(values), p)
}

/// As [`percentile`], for a slice in ascending order.
pub fn percentile_sorted(ascending: &[f64], p: f64) -> Option<f64> {
    debug_assert!(ascending.is_sorted(), "percentile_sorted of an unsorted slice");
    let n = ascending.len();
    if n == 0 {
        return None;
    }
    // p * n first: 95 * 20 / 100 is exactly 19, where 0.95 * 20 could fall on either side of it.
    let rank = (p.clamp(0.0, 100.0) * n as f64 / 100.0).ceil() as usize;
    Some(ascending[rank.clamp(1, n) - 1])
}

/// The nearest rank of a percentile among `count` values, counted from 1; `None` without values.
pub fn nearest_rank(p: f64, count: u64) -> Option<u64> {
    let rank = (p.clamp(0.0, 100.0) * count as f64 / 100.0).ceil() as u64;
    (count > 0).then(|| rank.clamp(1, count))
}

/// The values in ascending order (total order of IEEE 754, with NaN last).
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut ascending = values.to_vec();
    ascending.sort_by(f64::total_cmp);
    ascending
}

/// The median: the middle value, or the mean of the two middle values when their number is even.
///
/// This differs from [`percentile`] at 50, which takes the lower of the two.
pub fn median(values: &[f64]) -> Option<f64> {
    let ascending = sorted(values);
    let n = ascending.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(ascending[n / 2]),
        _ => Some(f64::midpoint(ascending[n / 2 - 1], ascending[n / 2])),
    }
}

/// The arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The largest value.
pub fn max(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

/// The smallest value.
pub fn min(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

/// Jain's fairness index `(sum x)^2 / (n * sum x^2)` of non-negative shares: 1 if all are equal, `1/n` if one has
/// everything. `None` without shares or if all are zero.
pub fn jain(shares: &[f64]) -> Option<f64> {
    // Scaled by the largest, so that squares neither overflow nor underflow.
    let largest = max(shares)?;
    if largest <= 0.0 {
        return None;
    }
    let sum: f64 = shares.iter().map(|x| x / largest).sum();
    let squares: f64 = shares.iter().map(|x| (x / largest).powi(2)).sum();
    Some(sum * sum / (shares.len() as f64 * squares))
}

/// Titan's fairness metric FM over one interval: the largest difference between the bytes of any two flows. `None` without
/// flows; zero with one.
pub fn fm(sent: &[Bytes]) -> Option<Bytes> {
    let largest = sent.iter().max()?;
    let smallest = sent.iter().min()?;
    Some(*largest - *smallest)
}

/// Titan's normalised fairness metric NFM(tau): [`fm`] over an interval of `tau`, divided by the ideal share of a flow in
/// that interval, `line_rate * tau / number of flows`. Dimensionless; 0 is fair. `None` without a flow or with an empty interval.
pub fn nfm(sent: &[Bytes], line_rate: BitsPerSec, tau: Nanos) -> Option<f64> {
    let difference = fm(sent)?;
    let share = line_rate.get() as f64 / 8.0 * tau.as_secs_f64() / sent.len() as f64;
    (share > 0.0).then(|| difference.get() as f64 / share)
}

/// The relative error of `got` with respect to `due`: `|got - due| / due`, dimensionless.
///
/// For a share of zero, the error is 0 if nothing was received and 1 otherwise.
pub fn relative_error(got: f64, due: f64) -> f64 {
    if due > 0.0 {
        (got - due).abs() / due
    } else if got == 0.0 {
        0.0
    } else {
        1.0
    }
}

/// The unbiased sample variance; `None` with fewer than two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let n = values.len();
    (n > 1).then(|| values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1) as f64)
}

/// Student's t at 97.5 % for `freedom` degrees, within 0.5 %: tabulated up to 10, then Peizer and Pratt's leading terms.
fn t_975(freedom: f64) -> f64 {
    const TABLE: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    let low = freedom.floor().max(1.0);
    let at = |n: f64| match TABLE.get(n as usize - 1) {
        Some(t) => *t,
        None => 1.96 + 2.372 / n + 2.82 / (n * n),
    };
    let (below, above) = (at(low), at(low + 1.0));
    below + (above - below) * (freedom.max(1.0) - low)
}

/// Half of the 95 % confidence interval of the mean; `None` with fewer than two values.
pub fn mean_half_width(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    Some(t_975(n - 1.0) * (variance(values)? / n).sqrt())
}

/// Half of Welch's 95 % confidence interval of the difference of two means, for unequal variances; `None` with fewer than two
/// values on a side.
pub fn welch_half_width(a: &[f64], b: &[f64]) -> Option<f64> {
    let (na, nb) = (a.len() as f64, b.len() as f64);
    let (va, vb) = (variance(a)? / na, variance(b)? / nb);
    let sum = va + vb;
    if sum <= 0.0 {
        return Some(0.0);
    }
    let freedom = sum * sum / (va * va / (na - 1.0) + vb * vb / (nb - 1.0));
    Some(t_975(freedom) * sum.sqrt())
}
