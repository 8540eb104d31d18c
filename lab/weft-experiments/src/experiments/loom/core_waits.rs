//! Time that the threads that carry the demo's traffic were runnable but had no core, from the kernel's
//! counts.

use crate::testbed::cpu_times::CpuTimes;
use crate::testbed::schedstat::{TRANSMIT_WORKER, threads_named, waited};
use std::path::Path;
use weft_report::demo::CoreWaits;
use weft_units::Instant;

/// The kernel's threads for deferred interrupt work, one per core.
const SOFTIRQ: &str = "ksoftirqd/";

/// A reading of the counts.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    at: Instant,
    waits: CoreWaits,
}

impl Reading {
    /// Reads the counts now. `probe` are T0's processes. `None` where the kernel keeps no such counts (no
    /// `CONFIG_SCHED_INFO`).
    pub(super) fn take(at: Instant, probe: &[i32]) -> Option<Self> {
        let waits = CoreWaits {
            span_s: 0.0,
            worker_s: sum_of_named("/proc/self/task", TRANSMIT_WORKER)?,
            probe_s: probe.iter().filter_map(|pid| waited(Path::new(&format!("/proc/{pid}")))).sum(),
            softirq_s: sum_of_named("/proc", SOFTIRQ).unwrap_or(0.0),
            steal_s: CpuTimes::read().map_or(0.0, CpuTimes::stolen_s),
        };
        Some(Self { at, waits })
    }

    /// Returns the increase from `self` to `later`.
    pub(super) fn until(&self, later: &Self) -> CoreWaits {
        let (a, b) = (&self.waits, &later.waits);
        CoreWaits {
            span_s: (later.at.saturating_since(self.at)).as_secs_f64(),
            worker_s: b.worker_s - a.worker_s,
            // A process that has ended is no longer counted, so the sum can shrink.
            probe_s: (b.probe_s - a.probe_s).max(0.0),
            softirq_s: b.softirq_s - a.softirq_s,
            steal_s: b.steal_s - a.steal_s,
        }
    }
}

/// Returns the sum over the threads in `folder` whose name begins with `name`; `None` if no such thread has a count.
fn sum_of_named(folder: &str, name: &str) -> Option<f64> {
    threads_named(folder, name).iter().filter_map(|path| waited(path)).reduce(|a, b| a + b)
}
