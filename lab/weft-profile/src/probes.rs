//! Sizes of skbs and the latency to the copy, from tracepoints: `bpf/profile.bpf.c`.

use weft_facts::stats;
use weft_host::bpf::{BpfError, Object, ObjectOptions, RunStats, TracingLink};
use weft_host::bpf_stats::BpfStats;
use weft_host::netns::NetNsError;
use weft_host::{NetNs, OsError, clock};
use weft_report::profile::{Latency, Sizes, SkbSizes};
use weft_units::{Instant, Nanos};

/// The compiled program.
const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/profile.bpf.o"));
/// Its programs, each at a tracepoint.
const PROGRAMS: [&str; 4] = ["weft_before_gro", "weft_after_gro", "weft_transmit", "weft_copy"];
/// The mean distance of samples in packets.
pub const EVERY: u32 = 64;
/// Indices of `places`: `BEFORE_GRO`, `AFTER_GRO`, `TRANSMIT`, `COPY`.
const PLACES: [u32; 4] = [0, 1, 2, 3];
/// `LATENCY_BUCKETS`.
const LATENCY_BUCKETS: usize = 512;

/// The span in which the programs' cost is counted.
pub const COST_SPAN: Nanos = Nanos::from_millis(300);

/// An error of the probes.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel refused the program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// A namespace could not be queried.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The kernel refused its statistics.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// The packets that count.
#[derive(Clone, Copy, Debug)]
pub enum ProbeScope<'a> {
    /// Those of a sender and a receiver.
    Between {
        /// The sender.
        sender: &'a NetNs,
        /// The receiver.
        receiver: &'a NetNs,
    },
    /// All of the host.
    Host,
    /// Those of a device.
    Device {
        /// The device's namespace.
        namespace: &'a NetNs,
        /// The device's number in it.
        index: u32,
    },
}

impl ProbeScope<'_> {
    /// `config` of the program, without the distance of samples: sender, receiver, all namespaces, device.
    fn words(self) -> Result<[u32; 4], NetNsError> {
        // The kernel's inode numbers of namespaces have 32 bits (`struct ns_common`).
        let number = |ns: &NetNs| Ok::<u32, NetNsError>(ns.inode()? as u32);
        Ok(match self {
            ProbeScope::Between { sender, receiver } => [number(sender)?, number(receiver)?, 0, 0],
            ProbeScope::Host => [0, 0, 1, 0],
            ProbeScope::Device { namespace, index } => [number(namespace)?, number(namespace)?, 0, index],
        })
    }
}

/// Statistics of the kernel that count the programs' time, with the time so far.
#[derive(Debug)]
pub struct ProbeStatistics {
    _statistics: BpfStats,
    before: RunStats,
    since: Instant,
}

/// Attached programs. They are detached when the value is dropped.
#[derive(Debug)]
pub struct Probes {
    // Detached before the object is closed.
    _links: Vec<TracingLink>,
    object: Object,
}

impl Probes {
    /// Loads and attaches the programs.
    ///
    /// # Errors
    /// If the kernel refuses: CAP_BPF is missing, or the kernel has no type information (CONFIG_DEBUG_INFO_BTF).
    pub fn attach(scope: ProbeScope<'_>) -> Result<Self, ProbeError> {
        let [sender, receiver, any, device] = scope.words()?;
        let words = [sender, receiver, EVERY, any, device];
        let rodata: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let options = ObjectOptions { name: "profile", rodata: Some(&rodata), ..Default::default() };
        let object = Object::load_with(IMAGE, &options)?;
        let links = PROGRAMS.map(|program| object.attach_tracing(program));
        Ok(Self { _links: links.into_iter().collect::<Result<_, _>>()?, object })
    }

    /// The sizes so far.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn sizes(&self) -> Result<SkbSizes, ProbeError> {
        let [before_gro, after_gro, transmit, copies] = PLACES.map(|place| self.place(place));
        Ok(SkbSizes { before_gro: before_gro?, after_gro: after_gro?, transmit: transmit?, copies: copies? })
    }

    fn place(&self, place: u32) -> Result<Sizes, ProbeError> {
        let sums = sum(&self.object.per_cpu("places", place)?);
        // `struct sizes`: skip, sum, counts.
        let counts: Vec<u64> = sums.iter().skip(2).take(Sizes::BUCKETS).copied().collect();
        let total: u64 = counts.iter().sum();
        let bytes = sums.get(1).copied().unwrap_or(0);
        Ok(Sizes { mean: (total > 0).then(|| bytes as f64 / total as f64), counts })
    }

    /// The latencies so far; `None` without a sample.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn latency(&self) -> Result<Option<Latency>, ProbeError> {
        Ok(latency(&sum(&self.object.per_cpu("latency", 0)?)))
    }

    /// The programs' runs and time, while the kernel counts them ([`weft_host::bpf_stats`]).
    ///
    /// # Errors
    /// If a program cannot be queried.
    pub fn cost(&self) -> Result<RunStats, ProbeError> {
        let mut all = RunStats::default();
        for program in PROGRAMS {
            let one = self.object.run_stats(program)?;
            all.runs += one.runs;
            all.nanos += one.nanos;
        }
        Ok(all)
    }

    /// Turns on the kernel's statistics, which [`Self::cores`] uses for the programs' cost. They cost time themselves.
    ///
    /// # Errors
    /// If the kernel has none, or a program cannot be queried.
    pub fn count(&self) -> Result<ProbeStatistics, ProbeError> {
        let _statistics = BpfStats::enable()?;
        Ok(ProbeStatistics { _statistics, before: self.cost()?, since: clock::now() })
    }

    /// Processors that the programs have used since `counted`; the statistics' own 20 ns for each run are among it.
    ///
    /// # Errors
    /// If a program cannot be queried.
    pub fn cores(&self, counted: &ProbeStatistics) -> Result<f64, ProbeError> {
        let nanos = self.cost()?.nanos.saturating_sub(counted.before.nanos);
        let span = clock::now().saturating_since(counted.since);
        Ok(nanos as f64 / span.get().max(1) as f64)
    }
}

/// Words of a per-processor value, added up over the processors.
fn sum(values: &[Vec<u8>]) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    for value in values {
        let words: Vec<u64> = value.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        all.resize(all.len().max(words.len()), 0);
        for (into, from) in all.iter_mut().zip(words) {
            *into = into.wrapping_add(from);
        }
    }
    all
}

/// The percentiles of a histogram of latencies.
fn latency(counts: &[u64]) -> Option<Latency> {
    let total: u64 = counts.iter().take(LATENCY_BUCKETS).sum();
    let at = |p: f64| {
        let rank = stats::nearest_rank(p, total)?;
        let mut below = 0;
        let bucket = counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(upper_end(bucket) as f64 / 1e9)
    };
    Some(Latency { count: total, p50: at(50.0)?, p99: at(99.0)? })
}

/// The upper end of a bucket in nanoseconds: the inverse of `latency_bucket`.
fn upper_end(bucket: usize) -> u64 {
    let (power, part) = (bucket / 8, bucket as u64 % 8);
    match power {
        0 => part,
        _ => (8 + part + 1).saturating_mul(1 << (power - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_latency_end_at_most_an_eighth_above() {
        assert_eq!([0, 7, 8, 9, 15, 16].map(upper_end), [0, 7, 8, 9, 15, 17]);
        // 1000 = 0b1111101000: power 9, the three bits below are 7, so bucket 63.
        assert_eq!(upper_end(63), 1023);
        let mut counts = vec![0; LATENCY_BUCKETS];
        (counts[63], counts[100]) = (99, 1);
        let found = latency(&counts).expect("samples");
        assert_eq!((found.count, found.p50, found.p99), (100, 1023e-9, 1023e-9));
        assert_eq!(latency(&[0; 512]), None);
        assert!(upper_end(511) > 1 << 60);
    }

    #[test]
    fn processors_are_added_up() {
        let words = |a: u64, b: u64| [a.to_ne_bytes(), b.to_ne_bytes()].concat();
        assert_eq!(sum(&[words(1, 2), words(10, 20), vec![1, 2]]), [11, 22]);
    }
}
