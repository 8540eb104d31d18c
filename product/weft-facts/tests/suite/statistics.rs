//! Statistics against naive definitions.

use proptest::prelude::*;
use weft_facts::stats;
use weft_units::{BitsPerSec, Bytes, Nanos};

fn values() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0.0..1e12_f64, 1..60)
}

proptest! {
    /// The definition: the smallest value with at least p percent of all values at or below it.
    #[test]
    fn percentile_is_nearest_rank(values in values(), p in 0_u32..=100) {
        let n = values.len();
        let enough = |v: f64| values.iter().filter(|x| **x <= v).count() * 100 >= p as usize * n;
        let naive = values.iter().copied().filter(|v| enough(*v)).fold(f64::INFINITY, f64::min);
        prop_assert_eq!(stats::percentile(&values, f64::from(p)), Some(naive));
    }

    #[test]
    fn median_has_as_many_above_as_below(values in values()) {
        let m = stats::median(&values).expect("not empty");
        let below = values.iter().filter(|v| **v < m).count();
        let above = values.iter().filter(|v| **v > m).count();
        prop_assert!(below * 2 <= values.len() && above * 2 <= values.len());
    }

    #[test]
    fn order_does_not_matter(mut values in values(), p in 0.0..100.0_f64) {
        let before = (stats::percentile(&values, p), stats::median(&values), stats::max(&values), stats::min(&values));
        values.reverse();
        prop_assert_eq!(before, (stats::percentile(&values, p), stats::median(&values), stats::max(&values), stats::min(&values)));
    }

    #[test]
    fn jain_is_its_formula_and_in_range(values in values()) {
        let (sum, squares) = (values.iter().sum::<f64>(), values.iter().map(|x| x * x).sum::<f64>());
        prop_assume!(squares > 0.0);
        let n = values.len() as f64;
        let jain = stats::jain(&values).expect("something was sent");
        prop_assert!((jain - sum * sum / (n * squares)).abs() < 1e-9);
        prop_assert!(jain >= 1.0 / n - 1e-9 && jain <= 1.0 + 1e-9);
    }

    /// Titan's definition: the maximum over all pairs of the difference in bytes, divided by the ideal share.
    #[test]
    fn nfm_is_the_largest_pairwise_difference(sent in prop::collection::vec(0_u64..1 << 40, 1..20), ms in 1_u64..1000) {
        let pairs = sent.iter().flat_map(|a| sent.iter().map(move |b| a.abs_diff(*b)));
        let worst = pairs.max().expect("a pair");
        let bytes: Vec<Bytes> = sent.iter().copied().map(Bytes).collect();
        prop_assert_eq!(stats::fm(&bytes), Some(Bytes(worst)));
        let share = 10e9 / 8.0 * ms as f64 / 1e3 / sent.len() as f64;
        let nfm = stats::nfm(&bytes, BitsPerSec(10_000_000_000), Nanos::from_millis(ms)).expect("a flow");
        prop_assert!((nfm - worst as f64 / share).abs() <= 1e-9 * nfm.max(1.0));
    }

    #[test]
    fn relative_error_is_finite(got in 0.0..1e15_f64, due in 0.0..1e15_f64) {
        prop_assert!(stats::relative_error(got, due).is_finite());
        prop_assert_eq!(stats::relative_error(due, due), 0.0);
    }
}

#[test]
fn known_figures() {
    let values: Vec<f64> = (1..=20).map(f64::from).collect();
    assert_eq!(stats::percentile(&values, 95.0), Some(19.0));
    assert_eq!(stats::percentile(&values, 99.0), Some(20.0));
    assert_eq!(stats::percentile(&values, 0.0), Some(1.0));
    assert_eq!(stats::median(&values), Some(10.5));
    assert_eq!(stats::mean(&values), Some(10.5));
    assert_eq!(stats::jain(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
}

#[test]
fn nothing_has_no_figure() {
    assert_eq!(stats::percentile(&[], 50.0), None);
    assert_eq!(stats::median(&[]), None);
    assert_eq!(stats::mean(&[]), None);
    assert_eq!(stats::jain(&[]), None);
    assert_eq!(stats::jain(&[0.0, 0.0]), None);
    assert_eq!(stats::fm(&[]), None);
    assert_eq!(stats::nfm(&[Bytes(1)], BitsPerSec(1), Nanos(0)), None);
}
