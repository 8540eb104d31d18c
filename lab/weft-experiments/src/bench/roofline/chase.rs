//! The time of a load by a chase of pointers: each load's address is what the one before it read, so none overlaps another.

use std::hint::black_box;
use std::time::Instant;
use weft_host::caches::DataCache;
use weft_report::bench::roofline::Memory;
use weft_units::testing::Rng;

/// A line of memory.
const LINE: u64 = 64;
/// The loads of a chase.
const LOADS: u32 = 1 << 20;
/// The chases, of which the fastest counts: others disturb, nothing hurries.
const CHASES: usize = 3;
/// The most that is chased through; a larger third level is measured by a part of it.
const MOST: u64 = 256 << 20;
/// The sizes of caches where the kernel does not say.
const USUAL: [(u32, u64); 3] = [(1, 32 << 10), (2, 1 << 20), (3, 32 << 20)];

/// A line that leads to another.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Link(u32);

/// The time of a load from each of `caches`, and from memory, by chases through half of the one and four times the last.
pub(super) fn memories(caches: &[DataCache]) -> Vec<Memory> {
    let known: Vec<(u32, u64)> = caches.iter().map(|cache| (cache.level, cache.size.get())).collect();
    let caches = if known.is_empty() { USUAL.to_vec() } else { known };
    let mut found: Vec<Memory> = caches
        .iter()
        .map(|&(level, size)| Memory {
            name: format!("L{level}"),
            bytes: Some(size),
            load_s: chase((size / 2).min(MOST)),
        })
        .collect();
    let last = caches.iter().map(|(_, size)| *size).max().unwrap_or(0);
    let load_s = chase(last.saturating_mul(4).min(MOST));
    found.push(Memory { name: "memory".to_owned(), bytes: None, load_s });
    found
}

/// The seconds of a load in a chase through as many bytes, in a random order.
fn chase(bytes: u64) -> f64 {
    let lines = u32::try_from(bytes / LINE).unwrap_or(u32::MAX).max(2);
    // Sattolo's shuffle: one cycle through all lines.
    let mut links: Vec<Link> = (0..lines).map(Link).collect();
    let mut rng = Rng::new(1);
    for at in (1..lines).rev() {
        links.swap(at as usize, rng.below(at) as usize);
    }
    let turn = |links: &[Link], mut at: u32, loads: u32| {
        for _ in 0..loads {
            at = links[at as usize].0;
        }
        at
    };
    let mut at = turn(&links, 0, lines.min(LOADS));
    let mut fastest = f64::INFINITY;
    for _ in 0..CHASES {
        let begin = Instant::now();
        at = black_box(turn(&links, black_box(at), LOADS));
        fastest = fastest.min(begin.elapsed().as_secs_f64() / f64::from(LOADS));
    }
    fastest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_memory_has_a_time_and_memory_comes_last() {
        let cache = DataCache { level: 1, size: weft_units::Bytes(4096) };
        let found = memories(&[cache]);
        let names: Vec<&str> = found.iter().map(|memory| memory.name.as_str()).collect();
        assert_eq!(names, ["L1", "memory"]);
        assert!(found.iter().all(|memory| memory.load_s > 0.0 && memory.load_s < 1.0), "{found:?}");
    }
}
