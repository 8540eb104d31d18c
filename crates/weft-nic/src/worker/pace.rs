//! Whom the worker's own time is charged to, where it is what runs short.
//!
//! Shares are parts of the link, by bytes. A worker that is busy with small packets all the time sends far less than the link
//! could carry, and by bytes alone the sender of small packets would have most of that time: of two equal classes, one with frames
//! of 60 bytes has eighteen turns for each of the other's with frames of 1,500. So while the worker never rests, a turn is charged
//! at least the link time that a chunk takes the worker; while it rests a tenth of its time or more, bytes alone count. Limits
//! are always by bytes.

use weft_units::{BitsPerSec, Bytes, Instant, Nanos};

/// The part of its time from which on the worker counts as what runs short, in thousandths; the charge grows from nothing there
/// to its whole at 1000, so that the two states do not alternate.
const BUSY_FROM: u64 = 900;
const WHOLE: u64 = 1000;
/// Chunks below which a window tells nothing about the time of one.
const CHUNKS_MIN: u64 = 64;
/// By so much of itself the least time of a chunk grows in each window, so that a machine that has become slower is noticed:
/// twice in 180 windows, which are some seconds.
const GROWTH: u64 = 256;

/// Measures how busy the worker is and how long a chunk takes it.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: BitsPerSec,
    start: Instant,
    /// Processor time of the worker at the start of the window.
    cpu: Nanos,
    slept: Nanos,
    chunks: u64,
    /// The part of the time in which it did not sleep, in thousandths, smoothed over a few windows.
    busy: u64,
    /// The least processor time of a chunk; nothing before any was measured.
    per_chunk: Nanos,
}

impl Pace {
    /// For a link of `rate`, from `now` on.
    pub(crate) fn new(rate: BitsPerSec, now: Instant, cpu: Nanos) -> Self {
        Self { rate, start: now, cpu, slept: Nanos::ZERO, chunks: 0, busy: 0, per_chunk: Nanos::ZERO }
    }

    /// The worker has slept.
    pub(crate) fn slept(&mut self, span: Nanos) {
        self.slept += span;
    }

    /// Ends a window at `now`, when the worker had used `cpu` of processor time since it began.
    pub(crate) fn close(&mut self, now: Instant, cpu: Nanos) {
        let span = now.saturating_since(self.start).get().max(1);
        let busy = span.saturating_sub(self.slept.get()) * WHOLE / span;
        self.busy = (self.busy + busy).div_ceil(2);
        if self.chunks >= CHUNKS_MIN {
            let mean = Nanos(cpu.saturating_sub(self.cpu).get() / self.chunks);
            let grown = Nanos(self.per_chunk.get() + self.per_chunk.get().div_ceil(GROWTH));
            self.per_chunk = if self.per_chunk == Nanos::ZERO { mean } else { mean.min(grown) };
        }
        (self.start, self.cpu, self.slept, self.chunks) = (now, cpu, Nanos::ZERO, 0);
    }

    /// What a chunk of `wire` bytes is charged in its class's share.
    pub(crate) fn charge(&mut self, wire: Bytes) -> Bytes {
        self.chunks += 1;
        let short = self.busy.saturating_sub(BUSY_FROM);
        if short == 0 {
            return wire;
        }
        let more = self.rate.bytes_in(self.per_chunk).saturating_sub(wire);
        wire + Bytes(more.get() * short / (WHOLE - BUSY_FROM))
    }

    /// The part of its time in which the worker does not sleep, in thousandths.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_policy::{CompileOptions, Source, compile};
    use weft_sched::{Next, PolicyTree};
    use weft_units::{LaneId, Weight};

    /// Two backlogged classes of equal weight with frames of these wire bytes, on a worker that needs `per_chunk` for each: the
    /// turns of both in the last of five seconds.
    fn turns(wire: [u64; 2], per_chunk: Nanos, rate: BitsPerSec) -> [u64; 2] {
        let text = "class a = udp\nroot = wfq { a: 1, default: 1 }";
        let policy = compile(Source { name: "t", text }, &CompileOptions::default()).policy.expect("policy");
        let mut tree = PolicyTree::new(&policy.program).expect("tree");
        let flows = [0, 1].map(|lane| tree.add_flow(LaneId(lane), Weight::ONE).expect("flow"));
        flows.iter().for_each(|flow| _ = tree.activate(*flow));
        let mut pace = Pace::new(rate, Instant::ZERO, Nanos::ZERO);
        let (mut now, mut cpu, mut window) = (Instant::ZERO, Nanos::ZERO, Instant::from_millis(20));
        let (mut free, mut served) = (Instant::ZERO, [0; 2]);
        while now < Instant::from_secs(5) {
            if free > now {
                pace.slept(free - now);
                now = free;
            }
            let Next::Turn(turn) = tree.next(now) else { panic!("both are backlogged") };
            let of = usize::from(turn.flow() == flows[1]);
            let bytes = Bytes(wire[of]);
            let share = pace.charge(bytes);
            tree.finish_charging(turn, bytes, share, true, now).expect("the turn");
            served[of] += u64::from(now >= Instant::from_secs(4));
            (now, cpu) = (now + per_chunk, cpu + per_chunk);
            free = free.max(now.saturating_sub(Nanos::from_millis(10))) + rate.time_for(bytes);
            if now >= window {
                pace.close(now, cpu);
                window = now + Nanos::from_millis(20);
            }
        }
        served
    }

    #[test]
    fn a_worker_with_time_to_spare_shares_by_bytes() {
        let [small, large] = turns([84, 1538], Nanos(1000), BitsPerSec(100_000_000));
        let ratio = small as f64 * 84.0 / (large as f64 * 1538.0);
        assert!((0.99..1.01).contains(&ratio), "{small} and {large}");
    }

    #[test]
    fn small_packets_do_not_take_the_time_of_a_worker_that_runs_short() {
        // A link that the worker cannot fill even with large frames: its time is shared.
        let [small, large] = turns([84, 1538], Nanos(3000), BitsPerSec(10_000_000_000));
        assert!(small.abs_diff(large) * 100 <= small, "{small} and {large} turns");
        // One that it could fill with large frames, and cannot with small ones. By bytes alone the large frames would have 17,100
        // turns; the link carries 73,000 of them, of which they keep at least a half of their half.
        let [small, large] = turns([84, 1538], Nanos(3000), BitsPerSec(900_000_000));
        assert!(large >= 30_000 && small >= large, "{small} and {large} turns");
    }

    #[test]
    fn one_slow_window_is_forgotten_and_a_slower_machine_noticed() {
        let mut pace = Pace::new(BitsPerSec(8_000_000_000), Instant::ZERO, Nanos::ZERO);
        let (mut now, mut cpu) = (Instant::ZERO, Nanos::ZERO);
        let mut windows = |pace: &mut Pace, count: u64, per_chunk: u64| {
            for _ in 0..count {
                (0..100).for_each(|_| _ = pace.charge(Bytes(84)));
                (now, cpu) = (now + Nanos(100 * per_chunk), cpu + Nanos(100 * per_chunk));
                pace.close(now, cpu);
            }
            pace.charge(Bytes(84)).get()
        };
        // Bytes at 8 Gb/s are nanoseconds.
        assert!((990..=1000).contains(&windows(&mut pace, 20, 1000)));
        assert!(windows(&mut pace, 1, 50_000) < 1010);
        assert!((1990..=2010).contains(&windows(&mut pace, 400, 2000)));
    }
}
