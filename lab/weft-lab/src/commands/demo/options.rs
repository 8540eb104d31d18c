//! The demo's options, computed from the flags.

use super::{Args, ModeName, failure};
use weft_experiments::experiments::loom::{DemoOptions, FIGURE_9_FLOWS, FIGURE_11_FLOWS, LoomScenario};
use weft_nic::plan::Mode;
use weft_units::Nanos;

/// The built-in policy of Figure 9.
pub(crate) const FIGURE_9_POLICY: &str = include_str!("../../../../../policies/tenants.weft");
/// The built-in policy of Figure 11.
pub(super) const FIGURE_11_POLICY: &str = include_str!("../../../../../policies/figure11.weft");
/// The name of Figure 11's limit in its policy.
pub(super) const LIMIT: &str = "destination2";

impl Args {
    /// Returns the options; contradictory flags are a usage error.
    pub(super) fn options(&self) -> anyhow::Result<DemoOptions> {
        let eleven = self.figure == "11";
        if self.limit.is_some() && !eleven {
            return Err(failure::usage("--limit requires --figure 11: Figure 9 has no limit"));
        }
        let duration = Nanos((self.duration.get() as f64 * self.time_scale) as u64);
        let scenario = if eleven {
            LoomScenario::figure11(
                flows(&self.flows, FIGURE_11_FLOWS, "J0, J1, J2, T2, T3 and T4")?,
                duration,
            )
        } else {
            LoomScenario::figure9(flows(&self.flows, FIGURE_9_FLOWS, "T1, T2, T3 and T4")?, duration)
        };
        let names = match self.modes.as_slice() {
            [] if eleven => &[ModeName::Loom][..],
            [] => &[ModeName::Sq, ModeName::Mq, ModeName::Qpf, ModeName::Loom],
            given => given,
        };
        let mode = |name: &ModeName| match name {
            ModeName::Sq => Mode::OneRing,
            ModeName::Mq => Mode::HashedRings { queues: self.mq_queues },
            ModeName::Qpf => Mode::RingPerFlow,
            ModeName::Loom => Mode::Loom,
        };
        Ok(DemoOptions {
            scenario,
            modes: names.iter().map(mode).collect(),
            rate: self.rate,
            congestion: self.congestion.clone(),
            segments_per_turn: self.segments_per_turn,
            sq_qdisc: !self.sq_fifo,
            requests_per_s: self.requests_per_second,
            request_bytes: self.request_size,
            catch_up: self.catch_up,
        })
    }
}

/// Returns the given numbers of flows, or the paper's.
fn flows<const N: usize>(given: &[u32], paper: [u32; N], senders: &str) -> anyhow::Result<[u32; N]> {
    if given.is_empty() {
        return Ok(paper);
    }
    let wrong = |_| {
        failure::usage(format!("--flows has {} numbers; this figure has {N} senders: {senders}", given.len()))
    };
    given.try_into().map_err(wrong)
}
