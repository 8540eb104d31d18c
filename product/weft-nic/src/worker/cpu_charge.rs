//! The charge for the worker's processor time, where that is the bottleneck.
//!
//! Shares are parts of the link, by bytes. A worker that is busy with small packets sends far less than the link's
//! rate, and by bytes alone the sender of small packets would get most of its time. Of two equal classes, one with
//! frames of 60 bytes would have eighteen turns for each turn of the other, with frames of 1,500 bytes. While the
//! worker never sleeps, a turn is therefore charged at least the link time that a chunk costs the worker. While it
//! sleeps a tenth of its time or more, only bytes count. Limits are always by bytes.

use weft_units::{BitsPerSec, Bytes, Instant, Nanos};

/// The busy fraction from which on the worker counts as the bottleneck, in thousandths. The charge grows linearly from
/// there to its full value at 1000, so that the two states do not alternate.
const BUSY_FROM: u64 = 900;
const WHOLE: u64 = 1000;
/// The minimum number of chunks in a window from which the time of one is derived.
const CHUNKS_MIN: u64 = 64;
/// The divisor of the growth of the minimum time of a chunk per window, so that a slower machine is noticed. The
/// minimum doubles in 180 windows, which take some seconds.
const GROWTH: u64 = 256;

/// The measurement of the worker's busy fraction and its time per chunk.
#[derive(Debug)]
pub(crate) struct CpuCharge {
    /// The link's rate; for a link without one, the highest throughput of a window so far.
    rate: BitsPerSec,
    measured: bool,
    /// The wire bytes of the window.
    bytes: Bytes,
    start: Instant,
    /// The processor time of the worker at the start of the window.
    cpu: Nanos,
    slept: Nanos,
    chunks: u64,
    /// The fraction of time in which the worker did not sleep, in thousandths, smoothed over a few windows.
    busy: u64,
    /// The minimum processor time of a chunk; zero before the first measurement.
    per_chunk: Nanos,
}

impl CpuCharge {
    /// Starts a measurement at `now` for a link of `rate`, or without a configured rate.
    pub(crate) fn new(rate: Option<BitsPerSec>, now: Instant, cpu: Nanos) -> Self {
        let measured = rate.is_none();
        let rate = rate.unwrap_or(BitsPerSec::ZERO);
        Self {
            rate,
            measured,
            bytes: Bytes::ZERO,
            start: now,
            cpu,
            slept: Nanos::ZERO,
            chunks: 0,
            busy: 0,
            per_chunk: Nanos::ZERO,
        }
    }

    /// Changes the link's rate; `None` for a link without a configured one.
    pub(crate) fn set_rate(&mut self, rate: Option<BitsPerSec>) {
        (self.measured, self.rate) = (rate.is_none(), rate.unwrap_or(self.rate));
    }

    /// Records a sleep of the worker.
    pub(crate) fn slept(&mut self, span: Nanos) {
        self.slept += span;
    }

    /// Ends a window at `now`; `cpu` is the processor time that the worker has used.
    pub(crate) fn close(&mut self, now: Instant, cpu: Nanos) {
        let span = now.saturating_since(self.start).get().max(1);
        let busy = span.saturating_sub(self.slept.get()) * WHOLE / span;
        self.busy = (self.busy + busy).div_ceil(2);
        if self.chunks >= CHUNKS_MIN {
            let mean = Nanos(cpu.saturating_sub(self.cpu).get() / self.chunks);
            let grown = Nanos(self.per_chunk.get() + self.per_chunk.get().div_ceil(GROWTH));
            self.per_chunk = if self.per_chunk == Nanos::ZERO { mean } else { mean.min(grown) };
        }
        if self.measured {
            self.rate = self.rate.max(BitsPerSec::from_bytes_over(self.bytes, Nanos(span)));
        }
        self.bytes = Bytes::ZERO;
        (self.start, self.cpu, self.slept, self.chunks) = (now, cpu, Nanos::ZERO, 0);
    }

    /// The charge of a chunk of `wire` bytes in the share of its class.
    pub(crate) fn charge(&mut self, wire: Bytes) -> Bytes {
        self.chunks += 1;
        self.bytes += wire;
        let short = self.busy.saturating_sub(BUSY_FROM);
        if short == 0 {
            return wire;
        }
        let more = self.rate.bytes_in(self.per_chunk).saturating_sub(wire);
        wire + Bytes(more.get() * short / (WHOLE - BUSY_FROM))
    }

    /// The fraction of time in which the worker does not sleep, in thousandths.
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

    /// The turns of two backlogged classes of equal weight in the last of five seconds, with frames of these wire
    /// bytes, on a worker that needs `per_chunk` for each chunk.
    fn turns(wire: [u64; 2], per_chunk: Nanos, rate: BitsPerSec) -> [u64; 2] {
        let text = "class a = udp\nroot = wfq { a: 1, default: 1 }";
        let policy = compile(Source { name: "t", text }, &CompileOptions::default()).policy.expect("policy");
        let mut tree = PolicyTree::new(&policy.program).expect("tree");
        let flows = [0, 1].map(|lane| tree.add_flow(LaneId(lane), Weight::ONE).expect("flow"));
        flows.iter().for_each(|flow| _ = tree.activate(*flow));
        let mut cpu_charge = CpuCharge::new(Some(rate), Instant::ZERO, Nanos::ZERO);
        let (mut now, mut cpu, mut window) = (Instant::ZERO, Nanos::ZERO, Instant::from_millis(20));
        let (mut free, mut served) = (Instant::ZERO, [0; 2]);
        while now < Instant::from_secs(5) {
            if free > now {
                cpu_charge.slept(free - now);
                now = free;
            }
            let Next::Turn(turn) = tree.next(now) else { panic!("both are backlogged") };
            let of = usize::from(turn.flow() == flows[1]);
            let bytes = Bytes(wire[of]);
            let share = cpu_charge.charge(bytes);
            tree.finish_charging(turn, bytes, share, true, now).expect("the turn");
            served[of] += u64::from(now >= Instant::from_secs(4));
            (now, cpu) = (now + per_chunk, cpu + per_chunk);
            free = free.max(now.saturating_sub(Nanos::from_millis(10))) + rate.time_for(bytes);
            if now >= window {
                cpu_charge.close(now, cpu);
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
        // A link that it could fill with large frames, but not with small ones. By bytes alone the large frames would
        // have 17,100 turns; the link carries 73,000 of them, and they keep at least a half of their half.
        let [small, large] = turns([84, 1538], Nanos(3000), BitsPerSec(900_000_000));
        assert!(large >= 30_000 && small >= large, "{small} and {large} turns");
    }

    #[test]
    fn one_slow_window_is_forgotten_and_a_slower_machine_noticed() {
        let mut cpu_charge = CpuCharge::new(Some(BitsPerSec(8_000_000_000)), Instant::ZERO, Nanos::ZERO);
        let (mut now, mut cpu) = (Instant::ZERO, Nanos::ZERO);
        let mut windows = |cpu_charge: &mut CpuCharge, count: u64, per_chunk: u64| {
            for _ in 0..count {
                (0..100).for_each(|_| _ = cpu_charge.charge(Bytes(84)));
                (now, cpu) = (now + Nanos(100 * per_chunk), cpu + Nanos(100 * per_chunk));
                cpu_charge.close(now, cpu);
            }
            cpu_charge.charge(Bytes(84)).get()
        };
        // Bytes at 8 Gb/s are nanoseconds.
        assert!((990..=1000).contains(&windows(&mut cpu_charge, 20, 1000)));
        assert!(windows(&mut cpu_charge, 1, 50_000) < 1010);
        assert!((1990..=2010).contains(&windows(&mut cpu_charge, 400, 2000)));
    }
}
