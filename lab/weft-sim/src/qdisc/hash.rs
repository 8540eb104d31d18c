//! The hash that spreads flows over slots, perturbed by a seed.

/// Returns a well-mixed value of `value` and `seed`: the finaliser of SplitMix64 (Steele, Lea and Flood 2014) over both. The
/// kernel hashes addresses and ports (`skb_get_hash_perturb`); here the run's flow index represents them.
pub(super) const fn mix(seed: u64, value: u32) -> u64 {
    let mut z = seed ^ (value as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
