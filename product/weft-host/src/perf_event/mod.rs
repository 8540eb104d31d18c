//! Sampling of all processors, with kernel call chains, by perf_event_open(2).
//!
//! 1. [`Sampler::open`] opens one event per processor that is online: processor cycles where the machine has such a counter,
//!    otherwise the kernel's `cpu-clock` ([`Clock`]). In a virtual machine `cpu-clock` is the default: the host emulates the
//!    counter, an interrupt of it can take a millisecond, and a processor can be stuck in them for minutes.
//! 2. The kernel writes records into a ring per processor (`ring`), which [`Sampler::drain`] reads and `record` parses.
//! 3. Dropping the sampler closes the events.
//!
//! `cpu-clock` is a timer interrupt. Where the kernel runs with interrupts off the timer waits, and the sample is taken where
//! interrupts come back on: the address is late ("skid"). A cycle counter that interrupts by NMI has no such skid.
//!
//! Rare branches are counted in [`Losses`]: samples that the ring had no room for, periods in which the kernel throttled
//! the event, and records that could not be parsed. The time of a throttled `cpu-clock` is that of the sample before it.

mod counter;
mod record;
mod ring;

use rustix::io::Errno;

use crate::cpus::{self, CpusError};
use crate::error::OsError;
use record::Pauses;
use ring::Ring;

pub use counter::{CacheCounter, CacheCounts, WorkCounter, WorkCounts};
pub use record::{Mode, Sample};

/// An error of sampling.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The processors are unknown.
    #[error(transparent)]
    Processors(#[from] CpusError),
}

/// The event that takes the samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Processor cycles, counted by hardware.
    Cycles,
    /// The kernel's per-processor clock, a timer interrupt.
    CpuClock,
}

impl Clock {
    /// The name, as perf(1) writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::CpuClock => "cpu-clock",
        }
    }

    /// Whether a sample inside a section with interrupts off is taken only where they come back on.
    pub const fn has_skid(self) -> bool {
        matches!(self, Self::CpuClock)
    }
}

/// Counts of events that were not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Samples that a ring had no room for.
    pub lost: u64,
    /// Times that the kernel throttled an event.
    pub throttled: u64,
    /// Records that could not be parsed.
    pub unreadable: u64,
}

/// The samples per second and processor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SampleRate(u32);

impl SampleRate {
    /// The highest accepted rate. The kernel's own limit (`kernel.perf_event_max_sample_rate`) is 100,000 at first; the kernel
    /// lowers it for good when the interrupts take too long (perf_sample_event_took, kernel/events/core.c).
    pub const MAX: u32 = 20_000;
    /// A rate that costs little, and is no multiple of the kernel's timers.
    pub const DEFAULT: Self = Self(999);

    /// A rate in hertz; `None` for zero and for rates above [`Self::MAX`].
    pub const fn new(hertz: u32) -> Option<Self> {
        if hertz == 0 || hertz > Self::MAX { None } else { Some(Self(hertz)) }
    }

    /// The rate in hertz.
    pub const fn hertz(self) -> u32 {
        self.0
    }

    /// The rate, or four fifths of the kernel's limit where that is lower. The kernel refuses a rate above the limit as an invalid
    /// argument. At the limit itself it pauses the event after its samples, and these come just after its ticks, in whose work they
    /// then find the processor.
    fn allowed(self) -> Self {
        const FILE: &str = "/proc/sys/kernel/perf_event_max_sample_rate";
        let limit = std::fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse::<u32>().ok());
        // A limit of zero turns sampling off; then the kernel's refusal is the message.
        limit.map(|limit| limit - limit / 5).and_then(Self::new).map_or(self, |most| self.min(most))
    }
}

/// Running events, one for each processor.
#[derive(Debug)]
pub struct Sampler {
    clock: Clock,
    rate: SampleRate,
    rings: Vec<(Ring, Pauses)>,
    losses: Losses,
    scratch: Vec<u8>,
}

impl Sampler {
    /// Starts sampling all processors by `clock`; `None` is cycles on a real machine with such a counter, and `cpu-clock`
    /// otherwise. The rate in force is `rate` or the kernel's limit ([`Self::rate`]).
    ///
    /// # Errors
    /// If rights are missing (CAP_PERFMON or CAP_SYS_ADMIN), or the kernel has no perf events.
    pub fn open(clock: Option<Clock>, rate: SampleRate) -> Result<Self, SampleError> {
        let allowed = rate.allowed();
        match Self::open_at(clock, allowed) {
            // The kernel lowered its limit meanwhile.
            Err(SampleError::Os(e)) if e.errno() == Some(Errno::INVAL) && rate.allowed() < allowed => {
                Self::open_at(clock, rate.allowed())
            }
            opened => opened,
        }
    }

    fn open_at(clock: Option<Clock>, rate: SampleRate) -> Result<Self, SampleError> {
        let processors = cpus::online()?;
        let open = |clock: Clock| -> Result<Vec<Ring>, OsError> {
            processors.iter().map(|cpu| Ring::open(clock, rate, *cpu)).collect()
        };
        let absent = |e: &OsError| {
            matches!(e.errno(), Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV | Errno::INVAL))
        };
        let wanted =
            clock.unwrap_or_else(|| if is_virtual_machine() { Clock::CpuClock } else { Clock::Cycles });
        let (clock, rings) = match open(wanted) {
            Ok(rings) => (wanted, rings),
            Err(e) if clock.is_none() && absent(&e) => (Clock::CpuClock, open(Clock::CpuClock)?),
            Err(e) => return Err(e.into()),
        };
        rings.iter().try_for_each(Ring::enable)?;
        let rings = rings.into_iter().map(|ring| (ring, Pauses::new(clock))).collect();
        Ok(Self { clock, rate, rings, losses: Losses::default(), scratch: Vec::new() })
    }

    /// The event that takes the samples.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The samples per second and processor that the kernel takes.
    pub fn rate(&self) -> SampleRate {
        self.rate
    }

    /// The number of processors that are sampled.
    pub fn processors(&self) -> usize {
        self.rings.len()
    }

    /// Passes all samples that have arrived to `each`.
    pub fn drain(&mut self, mut each: impl FnMut(&Sample)) {
        for (ring, pauses) in &mut self.rings {
            self.scratch.clear();
            ring.take(&mut self.scratch);
            record::parse(&self.scratch, &mut self.losses, pauses, &mut each);
        }
    }

    /// Counts of what was not seen so far.
    pub fn losses(&self) -> Losses {
        self.losses
    }
}

/// Whether the processor says that it is a virtual machine's (CPUID 1, ECX bit 31, as the kernel's flag `hypervisor`).
pub fn is_virtual_machine() -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::time::{Duration, Instant};

    #[test]
    fn rates_have_bounds() {
        assert_eq!(SampleRate::new(0), None);
        assert_eq!(SampleRate::new(SampleRate::MAX + 1), None);
        assert_eq!(SampleRate::new(999).map(SampleRate::hertz), Some(999));
    }

    /// The kernel lowers its limit for good when interrupts take long; then it refused every rate above the limit.
    #[test]
    fn a_rate_above_the_limit_of_the_kernel_is_lowered() {
        if !testing::privileged("a_rate_above_the_limit_of_the_kernel_is_lowered") {
            return;
        }
        let most = SampleRate::new(SampleRate::MAX).expect("a rate");
        let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").expect("a limit");
        match Sampler::open(Some(Clock::CpuClock), most) {
            Ok(sampler) => {
                let limit: u32 = limit.trim().parse().expect("a number");
                assert!(
                    sampler.rate().hertz() <= limit.min(SampleRate::MAX),
                    "{:?}, {limit}",
                    sampler.rate()
                );
            }
            Err(why) => testing::skip("a_rate_above_the_limit_of_the_kernel_is_lowered", why),
        }
    }

    /// A process that works for some time has about as many samples as the rate says.
    #[test]
    fn work_of_this_process_is_sampled() {
        if !testing::privileged("work_of_this_process_is_sampled") {
            return;
        }
        let rate = SampleRate::new(999).expect("a rate");
        let mut sampler = match Sampler::open(Some(Clock::CpuClock), rate) {
            Ok(sampler) => sampler,
            Err(why) => return testing::skip("work_of_this_process_is_sampled", why),
        };
        let (own, begin) = (std::process::id(), Instant::now());
        let mut nanos = 0_u64;
        let mut kernel = 0;
        let mut take = |sample: &Sample| {
            if sample.pid == own {
                nanos += sample.period;
                kernel += usize::from(sample.mode == Mode::Kernel && !sample.chain.is_empty());
            }
        };
        // System calls, so that there are call chains; bounded by the time that this thread really had.
        while begin.elapsed() < Duration::from_millis(600) {
            for _ in 0..200 {
                let _ = std::fs::read("/proc/self/status");
            }
            sampler.drain(&mut take);
        }
        sampler.drain(&mut take);
        assert!(kernel > 20, "{kernel} samples with a kernel call chain");
        let share = nanos as f64 / begin.elapsed().as_nanos() as f64;
        assert!((0.02..1.2).contains(&share), "{share} of a processor");
        assert_eq!(sampler.losses().unreadable, 0);
    }
}
