//! Records of a perf event's ring: `enum perf_event_type` of include/uapi/linux/perf_event.h.

use super::{Clock, Losses};

/// `PERF_RECORD_LOST`.
const LOST: u32 = 2;
/// `PERF_RECORD_THROTTLE`.
const THROTTLE: u32 = 5;
/// `PERF_RECORD_UNTHROTTLE`.
const UNTHROTTLE: u32 = 6;
/// `PERF_RECORD_SAMPLE`.
const SAMPLE: u32 = 9;
/// `PERF_RECORD_MISC_CPUMODE_MASK`, and its values for kernel and user.
const MODE_MASK: u16 = 7;
const MODE_KERNEL: u16 = 1;
const MODE_USER: u16 = 2;
/// Addresses from here on are `enum perf_callchain_context`: markers, not addresses.
const CONTEXT_MAX: u64 = (-4095_i64) as u64;
/// `PERF_CONTEXT_KERNEL`: kernel addresses follow.
const CONTEXT_KERNEL: u64 = (-128_i64) as u64;

/// The mode in which a processor was sampled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// In the kernel.
    Kernel,
    /// In a program.
    User,
    /// In another mode, such as a guest of this machine.
    Other,
}

/// A sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The process; 0 for an idle processor.
    pub pid: u32,
    /// Its thread.
    pub thread: u32,
    /// The processor.
    pub cpu: u32,
    /// The mode.
    pub mode: Mode,
    /// The length that the sample represents: nanoseconds by `cpu-clock`, cycles by the cycle counter.
    pub period: u64,
    /// Kernel addresses, the innermost first; empty in a program.
    pub chain: Vec<u64>,
}

/// A reader of fixed-size fields.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u64(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*head))
    }

    /// Two fields of 32 bits.
    fn pair(&mut self) -> Option<(u32, u32)> {
        let (first, rest) = self.0.split_first_chunk::<4>()?;
        let (second, rest) = rest.split_first_chunk::<4>()?;
        self.0 = rest;
        Some((u32::from_ne_bytes(*first), u32::from_ne_bytes(*second)))
    }
}

/// A processor's pauses: the kernel stops an event that comes more often than it allows, until its next tick.
///
/// With `kernel.perf_event_max_sample_rate` at one sample a tick it does so after every sample, and up to half of the time would
/// have none. A pause has the activity of the sample at which it began, so it is passed on as one more sample of that activity.
#[derive(Debug)]
pub(super) struct Pauses {
    clock: Clock,
    /// The latest sample, and the beginning of the pause, in nanoseconds of the kernel's clock.
    last: Option<Sample>,
    since: Option<u64>,
}

impl Pauses {
    /// No pause yet, of an event by `clock`.
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, last: None, since: None }
    }

    /// The sample that represents a pause which ends now. Periods of a cycle counter are no times, so its pauses stay empty.
    fn end(&mut self, now: u64) -> Option<Sample> {
        let (since, last) = (self.since.take()?, self.last.as_ref()?);
        let period = now.saturating_sub(since);
        (self.clock == Clock::CpuClock).then(|| Sample { period, ..last.clone() })
    }
}

/// Parses whole records, counts losses and passes samples to `each`.
pub(super) fn parse(
    mut bytes: &[u8],
    losses: &mut Losses,
    pauses: &mut Pauses,
    each: &mut impl FnMut(&Sample),
) {
    while let Some((header, _)) = bytes.split_first_chunk::<8>() {
        let [k0, k1, k2, k3, m0, m1, s0, s1] = *header;
        let kind = u32::from_ne_bytes([k0, k1, k2, k3]);
        let size = usize::from(u16::from_ne_bytes([s0, s1]));
        let Some((record, rest)) = bytes.split_at_checked(size).filter(|_| size >= 8) else {
            losses.unreadable += 1;
            return;
        };
        let mut body = Fields(&record[8..]);
        match kind {
            SAMPLE => match sample(body, u16::from_ne_bytes([m0, m1])) {
                Some(sample) => {
                    each(&sample);
                    pauses.last = Some(sample);
                }
                None => losses.unreadable += 1,
            },
            LOST => losses.lost += lost(body).unwrap_or(0),
            // The kernel writes it before the sample at which the pause begins. Its first field is the time.
            THROTTLE => {
                losses.throttled += 1;
                pauses.since = body.u64();
            }
            UNTHROTTLE => {
                if let Some(sample) = body.u64().and_then(|now| pauses.end(now)) {
                    each(&sample);
                }
            }
            _ => {}
        }
        bytes = rest;
    }
}

/// `{ u64 id; u64 lost; }`.
fn lost(mut body: Fields<'_>) -> Option<u64> {
    body.u64()?;
    body.u64()
}

/// The fields of [`super::ring::SAMPLE_TYPE`], in the kernel's order (`perf_output_sample`).
fn sample(mut body: Fields<'_>, misc: u16) -> Option<Sample> {
    let _address = body.u64()?;
    let (pid, thread) = body.pair()?;
    let (cpu, _) = body.pair()?;
    let period = body.u64()?;
    let count = usize::try_from(body.u64()?).ok()?;
    if body.0.len() / 8 < count {
        return None;
    }
    let mode = match misc & MODE_MASK {
        MODE_KERNEL => Mode::Kernel,
        MODE_USER => Mode::User,
        _ => Mode::Other,
    };
    let mut in_kernel = false;
    let mut chain = Vec::with_capacity(count);
    for _ in 0..count {
        match body.u64()? {
            marker if marker >= CONTEXT_MAX => in_kernel = marker == CONTEXT_KERNEL,
            address if in_kernel => chain.push(address),
            _ => {}
        }
    }
    Some(Sample { pid, thread, cpu, mode, period, chain })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(8 + body.len()).expect("small");
        [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes(), body].concat()
    }

    fn body(pid: u32, period: u64, chain: &[u64]) -> Vec<u8> {
        let words = |words: &[u64]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>();
        let pair = |a: u32, b: u32| [a.to_ne_bytes(), b.to_ne_bytes()].concat();
        [words(&[7]), pair(pid, pid + 1), pair(1, 0), words(&[period, chain.len() as u64]), words(chain)]
            .concat()
    }

    fn read(bytes: &[u8]) -> (Vec<Sample>, Losses) {
        read_by(Clock::CpuClock, bytes)
    }

    fn read_by(clock: Clock, bytes: &[u8]) -> (Vec<Sample>, Losses) {
        let (mut samples, mut losses) = (Vec::new(), Losses::default());
        parse(bytes, &mut losses, &mut Pauses::new(clock), &mut |s: &Sample| samples.push(s.clone()));
        (samples, losses)
    }

    #[test]
    fn a_pause_has_the_activity_of_the_sample_at_which_it_began() {
        let at = |time: u64| [time.to_ne_bytes(), [0; 8], [0; 8]].concat();
        let bytes = [
            record(UNTHROTTLE, 0, &at(50)),
            record(SAMPLE, MODE_USER, &body(5, 1000, &[])),
            record(THROTTLE, 0, &at(100)),
            record(SAMPLE, MODE_USER, &body(6, 1000, &[])),
            record(UNTHROTTLE, 0, &at(400)),
            record(UNTHROTTLE, 0, &at(900)),
        ]
        .concat();
        let periods = |clock| {
            let (samples, losses) = read_by(clock, &bytes);
            assert_eq!(losses, Losses { throttled: 1, ..Losses::default() });
            samples.into_iter().map(|sample| (sample.pid, sample.period)).collect::<Vec<_>>()
        };
        assert_eq!(periods(Clock::CpuClock), [(5, 1000), (6, 1000), (6, 300)]);
        assert_eq!(periods(Clock::Cycles), [(5, 1000), (6, 1000)]);
    }

    #[test]
    fn samples_losses_and_throttling_are_told_apart() {
        const USER: u64 = (-512_i64) as u64;
        let bytes = [
            record(SAMPLE, MODE_KERNEL, &body(5, 1000, &[CONTEXT_KERNEL, 10, 20, USER, 30])),
            record(LOST, 0, &[1_u64.to_ne_bytes(), 4_u64.to_ne_bytes()].concat()),
            record(THROTTLE, 0, &[0; 24]),
            record(SAMPLE, MODE_USER, &body(6, 1000, &[])),
        ]
        .concat();
        let (samples, losses) = read(&bytes);
        assert_eq!(losses, Losses { lost: 4, throttled: 1, unreadable: 0 });
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[0].pid, samples[0].cpu, samples[0].period), (5, 1, 1000));
        assert_eq!(samples[0].thread, 6);
        assert_eq!((samples[0].mode, samples[0].chain.as_slice()), (Mode::Kernel, &[10, 20][..]));
        assert_eq!((samples[1].mode, samples[1].chain.len()), (Mode::User, 0));
    }

    #[test]
    fn what_is_cut_is_counted_and_no_panic() {
        let whole = record(SAMPLE, MODE_KERNEL, &body(5, 1, &[CONTEXT_KERNEL, 10]));
        for cut in 1..whole.len() {
            let (samples, _) = read(&whole[..cut]);
            assert!(samples.is_empty(), "{cut}");
        }
        // A chain that claims more entries than there are.
        let mut wrong = body(5, 1, &[CONTEXT_KERNEL, 10]);
        wrong[32..40].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(read(&record(SAMPLE, 0, &wrong)).1.unreadable, 1);
        assert_eq!(read(&record(SAMPLE, 0, &[])).1.unreadable, 1);
        assert_eq!(read(&[0; 8]).1.unreadable, 1, "a record without a size");
    }
}
