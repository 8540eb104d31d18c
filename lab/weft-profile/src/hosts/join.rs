//! The figures of both hosts as those of one trial.

use std::collections::BTreeMap;

use weft_host::perf_event::{Clock, SampleRate};
use weft_report::profile::{Run, Side, SideTime, SkbSizes, Work};

use super::HostsError;
use super::protocol::{Half, SideSamples, Text};
use crate::attribution::Attribution;
use crate::traffic::TrafficLoad;
use crate::trial::TrialResult;

/// The figures of both sides in a part.
pub(super) struct Halves {
    pub(super) sender: Half,
    pub(super) receiver: Half,
}

/// Payload bytes of a part: those received, and with requests those of the responses.
fn payload(load: TrafficLoad, halves: &Halves) -> u64 {
    let received = halves.receiver.counts.received;
    match load {
        TrafficLoad::Bulk => received,
        TrafficLoad::Requests(_) => received.saturating_add(halves.receiver.counts.sent),
    }
}

/// Throughput of a part, by the receiver's clock.
pub(super) fn bits_per_second(load: TrafficLoad, halves: &Halves) -> f64 {
    payload(load, halves) as f64 * 8e9 / halves.receiver.span_ns as f64
}

/// Both sides' figures as those of a trial. Times of the sender are brought to the receiver's span, which differs by milliseconds.
pub(super) fn joined(load: TrafficLoad, halves: Halves) -> Result<TrialResult, HostsError> {
    let missing = HostsError::Request("nothing was sampled");
    let (bps, bytes) = (bits_per_second(load, &halves), payload(load, &halves));
    let Halves { sender, receiver } = halves;
    let (Some(near), Some(far)) = (sender.samples, receiver.samples) else { return Err(missing) };
    if near.clock != far.clock {
        let name = |samples: &SideSamples| Clock::from(samples.clock).name();
        return Err(HostsError::Clocks { sender: name(&near), receiver: name(&far) });
    }
    let scale = receiver.span_ns as f64 / sender.span_ns as f64;
    let work = Work {
        bytes,
        segments: receiver.counts.segments_in,
        skbs: receiver.packets_in,
        acks: receiver.counts.segments_out,
        receiver_waits: receiver.waits,
        sender_waits: sender.waits,
        retransmitted: sender.counts.retransmitted,
    };
    let rate = SampleRate::new(near.sample_hz.min(far.sample_hz));
    let clock = near.clock.into();
    let no_probes = [&near.no_probes, &far.no_probes].into_iter().flatten().next().map(Text::to_string);
    let attribution = attribution(&near, &far, scale);
    let probes = near.probe_cores.zip(far.probe_cores).map(|(near, far)| near + far);
    let run = Run {
        bps,
        span_s: receiver.span_ns as f64 / 1e9,
        work,
        sender: attribution.sender.clone(),
        receiver: attribution.receiver.clone(),
        foreign_s: attribution.foreign_s,
        interrupts_s: attribution.interrupts_s,
        tool_s: attribution.tool_s,
        leaf_unmapped: attribution.leaf_unmapped(),
        lost_samples: near.lost_samples.saturating_add(far.lost_samples),
        probe_cores: probes,
        cache_miss: [(Side::Sender, near.cache_miss), (Side::Receiver, far.cache_miss)].into(),
        sizes: sizes(near.sizes, far.sizes),
        latency: far.latency,
        ..Run::default()
    };
    let rate = rate.ok_or(HostsError::Request("the rate of samples is none"))?;
    Ok(TrialResult { run, clock, rate, attribution, no_probes, flows: None })
}

/// Sizes before and after the receiver's GRO and of its copies, and of what the sender's device took.
fn sizes(near: Option<SkbSizes>, far: Option<SkbSizes>) -> Option<SkbSizes> {
    let (near, far) = near.zip(far)?;
    Some(SkbSizes { transmit: near.transmit, ..far })
}

fn attribution(near: &SideSamples, far: &SideSamples, scale: f64) -> Attribution {
    let mut all = Attribution {
        sender: scaled(&near.time, scale),
        receiver: far.time.clone(),
        foreign_s: near.foreign_s * scale + far.foreign_s,
        interrupts_s: near.interrupts_s * scale + far.interrupts_s,
        tool_s: near.tool_s * scale + far.tool_s,
        ..Attribution::default()
    };
    let missing = |samples: &SideSamples, scale: f64, into: &mut BTreeMap<String, f64>| {
        for (name, seconds) in &samples.missing {
            *into.entry(name.to_string()).or_default() += seconds * scale;
        }
    };
    missing(near, scale, &mut all.missing);
    missing(far, 1.0, &mut all.missing);
    for (side, samples, scale) in [(Side::Sender, near, scale), (Side::Receiver, far, 1.0)] {
        for stack in &samples.stacks {
            let frames = stack.frames.iter().map(Text::to_string).collect();
            *all.stacks.entry((side, stack.category, frames)).or_default() += stack.seconds * scale;
        }
    }
    all
}

fn scaled(time: &SideTime, scale: f64) -> SideTime {
    SideTime {
        user_s: time.user_s * scale,
        system_s: time.system_s * scale,
        softirq_s: time.softirq_s * scale,
        categories_s: time.categories_s.iter().map(|(category, s)| (*category, s * scale)).collect(),
    }
}
