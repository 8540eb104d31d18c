//! The band of the mean of a few runs, given the spread of many single runs.

/// The resamples drawn for a band. The 5th and 95th percentile of 2000 draws are accurate to about half a percentile.
const RESAMPLES: usize = 2000;

/// The 5th and 95th percentile of the mean of `runs` values drawn at random, with replacement, from `values`: the range in which a
/// paper that averages this number of runs would report (the bootstrap of Efron 1979). The generator has a fixed seed, so the band is
/// a function of the arguments. `None` without values or runs.
pub fn band_of_mean(values: &[f64], runs: u32) -> Option<[f64; 2]> {
    if values.is_empty() || runs == 0 {
        return None;
    }
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sum: f64 = (0..runs).map(|_| values[draw(&mut state, values.len())]).sum();
            sum / f64::from(runs)
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Some([means[RESAMPLES / 20], means[RESAMPLES - 1 - RESAMPLES / 20]])
}

/// An index below `bound`, by SplitMix64 (Steele, Lea and Flood 2014).
fn draw(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    ((u128::from(z) * bound as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::band_of_mean;

    #[test]
    fn a_band_narrows_with_the_root_of_the_runs() {
        let values: Vec<f64> = (0..1000).map(|i| f64::from(i) / 999.0).collect();
        let width = |runs| band_of_mean(&values, runs).map(|[low, high]| high - low).unwrap_or(f64::NAN);
        // A uniform distribution has a standard deviation of 0.2887; the range from 5 % to 95 % of a normal one is 3.29 of it.
        for runs in [5, 10, 40] {
            let expected = 3.29 * 0.2887 / f64::from(runs).sqrt();
            assert!(
                (width(runs) / expected - 1.0).abs() < 0.06,
                "{runs}: {} against {expected}",
                width(runs)
            );
        }
    }

    #[test]
    fn equal_values_have_no_width_and_none_have_no_band() {
        assert_eq!(band_of_mean(&[3.0; 7], 5), Some([3.0, 3.0]));
        assert_eq!(band_of_mean(&[], 5), None);
        assert_eq!(band_of_mean(&[1.0], 0), None);
    }
}
