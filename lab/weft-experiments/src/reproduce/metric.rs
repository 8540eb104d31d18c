//! Metrics: the values of cells, computed from a run.

use weft_facts::stats;
use weft_sim::cost::{CostCategory, CostedOperation};
use weft_sim::outcome::RunOutcome;
use weft_sim::scenario::Scenario;
use weft_units::Nanos;

/// A metric that does not exist, or whose arguments do not fit the scenario.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no metric `{0}`")]
pub(super) struct UnknownMetric(pub(super) String);

/// Returns the value of a metric in a run; `Err` for an unknown name, `Ok(None)` where the run has no such value.
///
/// | metric | value |
/// |---|---|
/// | `throughput_gbps`, `throughput_mbps` | payload received, all flows |
/// | `link_use` | bytes on the first host's wire over its capacity |
/// | `cpu_percent:H` | busy percent of host H's processors, summed |
/// | `cpu_ns_per_byte` | all hosts' work in nanoseconds per byte of payload received |
/// | `cpu_share:H:CATEGORY` | share of a category in host H's work |
/// | `gbps_per_core:H` | throughput over host H's busy processors |
/// | `nfm:INTERVAL` | mean NFM over the scenario's fairness interval, in microseconds |
/// | `probe_mean_ms:P`, `probe_p90_ms:P`, `probe_p99_ms:P`, `probe_half_mean_us:P` | round trips of probe P |
/// | `request_p50_us:GROUP`, `request_p90_us:GROUP`, `request_p99_us:GROUP`, `request_mean_us:GROUP` | request latencies of a group of flows |
/// | the same with `:FROM:TO` | only requests that ended between two times in milliseconds |
/// | `class_share_error:FROM:TO:A,B,..` | greatest deviation of these classes' wire bytes from their mean, over the mean |
/// | `link_gbps:FROM:TO` | frames of all classes on the wire |
/// | `group_gbps:GROUP` | payload received by a group's flows |
/// | `class_gbps:CLASS:FROM:TO` | a class's bytes on the wire between two times in milliseconds |
/// | `completion_p50_s`, `completion_p90_s`, `completion_p99_s` | completion times |
/// | `spread_s` | last less first completion of a host's flows, mean over hosts |
/// | `receive_skb_kb` | mean size of received skbs |
/// | `classes_gbps:CLASS,CLASS..:FROM:TO` | the same of several classes together |
/// | `doorbells_per_packet`, `doorbells_unbatched_per_packet`, `doorbell_ratio` | register writes; those of a NIC without batching; the latter over the former |
/// | `doorbell_ns_per_packet` | processor time of the register writes |
pub(super) fn value(
    metric: &str,
    scenario: &Scenario,
    outcome: &RunOutcome,
) -> Result<Option<f64>, UnknownMetric> {
    let mut parts = metric.split(':');
    let name = parts.next().unwrap_or_default();
    let arguments: Vec<&str> = parts.collect();
    let unknown = || UnknownMetric(metric.to_owned());
    let host = || arguments.first().and_then(|text| text.parse::<usize>().ok()).ok_or_else(unknown);
    let seconds = outcome.measured.as_secs_f64();
    let received: f64 = outcome.flows.iter().map(|flow| flow.received.0 as f64).sum();
    let gbps = received * 8e-9 / seconds;
    Ok(match name {
        "throughput_gbps" | "throughput_mbps" => Some(if name.ends_with("mbps") { gbps * 1e3 } else { gbps }),
        "link_use" => {
            Some(outcome.throughput().0 as f64 * (1538.0 / 1514.0) / scenario.network.rate.0 as f64)
        }
        "cpu_percent" => Some(outcome.busy(host()?) * 100.0),
        "cpu_ns_per_byte" => Some(all_work(outcome) / received).filter(|time| time.is_finite()),
        "cpu_share" => {
            let work = outcome.work(host()?);
            arguments.get(1).and_then(|category| share_of(category, work.as_ref()))
        }
        "gbps_per_core" => Some(gbps / outcome.busy(host()?)),
        "nfm" => {
            let micros = arguments.first().and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
            let fairness =
                outcome.fairness.iter().find(|fairness| fairness.interval == Nanos::from_micros(micros));
            fairness.and_then(|fairness| fairness.mean)
        }
        "probe_mean_ms" | "probe_p90_ms" | "probe_p99_ms" | "probe_half_mean_us" => {
            let index = host().ok().filter(|index| *index < scenario.probes.len()).ok_or_else(unknown)?;
            let probe = outcome.probes.get(index);
            probe.and_then(|probe| latency(name.trim_start_matches("probe_"), &probe.samples))
        }
        "request_p50_us" | "request_p90_us" | "request_p99_us" | "request_mean_us" => {
            let group = group(scenario, arguments.first().copied()).ok_or_else(unknown)?;
            let (from, to) = span(&arguments[1..]).ok_or_else(unknown)?;
            let requests = flows_of(outcome, group).map(|flow| &flow.requests);
            let timed = requests.flat_map(|requests| requests.at.iter().zip(&requests.samples));
            let samples: Vec<Nanos> =
                timed.filter(|(at, _)| **at > from && **at <= to).map(|(_, sample)| *sample).collect();
            latency(name.trim_start_matches("request_"), &samples)
        }
        "group_gbps" => {
            let group = group(scenario, arguments.first().copied()).ok_or_else(unknown)?;
            Some(flows_of(outcome, group).map(|flow| flow.received.0 as f64).sum::<f64>() * 8e-9 / seconds)
        }
        "class_share_error" | "class_gbps" | "classes_gbps" | "link_gbps" => {
            of_classes(name, &arguments, scenario, outcome).ok_or_else(unknown)?
        }
        "completion_p50_s" | "completion_p90_s" | "completion_p99_s" => {
            let times: Vec<f64> =
                outcome.flows.iter().filter_map(|flow| flow.completion).map(Nanos::as_secs_f64).collect();
            let percent =
                name.trim_start_matches("completion_p").trim_end_matches("_s").parse().unwrap_or(50.0);
            stats::percentile(&times, percent)
        }
        "spread_s" => stats::mean(&spreads(scenario, outcome)),
        "receive_skb_kb" => mean_skb(outcome),
        "doorbells_per_packet" | "doorbells_unbatched_per_packet" | "doorbell_ratio" => {
            Some(doorbells(name, outcome))
        }
        "doorbell_ns_per_packet" => Some(time_of_doorbells(scenario, outcome)),
        _ => return Err(unknown()),
    })
}

/// Returns a category's share of the work; `None` if no category has work.
fn share_of(category: &str, work: &[f64]) -> Option<f64> {
    let index = CostCategory::ALL.iter().position(|one| one.name() == category)?;
    let sum: f64 = work.iter().sum();
    Some(work[index] / sum).filter(|share| share.is_finite())
}

/// Returns the processor time of the register writes, in nanoseconds per packet.
fn time_of_doorbells(scenario: &Scenario, outcome: &RunOutcome) -> f64 {
    scenario.costs.total(CostedOperation::RegisterWrite) * doorbells("doorbells_per_packet", outcome)
}

/// Returns the work of all hosts, in nanoseconds.
fn all_work(outcome: &RunOutcome) -> f64 {
    (0..outcome.cpu.len()).flat_map(|host| outcome.work(host)).sum()
}

/// Returns register writes: with or without batches, per packet; or the ratio of the two.
fn doorbells(name: &str, outcome: &RunOutcome) -> f64 {
    let counters = &outcome.counters;
    let (batched, unbatched) = (counters.doorbells as f64, counters.doorbells_unbatched as f64);
    let packets = counters.packets.max(1) as f64;
    match name {
        "doorbells_per_packet" => batched / packets,
        "doorbells_unbatched_per_packet" => unbatched / packets,
        _ => unbatched / batched.max(1.0),
    }
}

/// Returns metrics of classes' wire bytes; the outer option is `None` for invalid arguments.
fn of_classes(
    name: &str,
    arguments: &[&str],
    scenario: &Scenario,
    outcome: &RunOutcome,
) -> Option<Option<f64>> {
    let rates = |names: &mut dyn Iterator<Item = &str>, times: &[&str]| -> Option<Option<Vec<f64>>> {
        names.map(|name| class_gbps(scenario, outcome, name, times)).collect()
    };
    Some(match name {
        "class_share_error" => {
            let [from, to, names] = arguments[..] else { return None };
            rates(&mut names.split(','), &[from, to])?.and_then(|rates| deviation(&rates))
        }
        "class_gbps" => class_gbps(scenario, outcome, arguments.first()?, &arguments[1..])?,
        "classes_gbps" => {
            let [names, from, to] = arguments[..] else { return None };
            rates(&mut names.split(','), &[from, to])?.map(|rates| rates.iter().sum())
        }
        _ => {
            let names = scenario.classes.iter().map(String::as_str);
            rates(&mut { names }, arguments)?.map(|rates| rates.iter().sum())
        }
    })
}

fn group(scenario: &Scenario, name: Option<&str>) -> Option<u32> {
    scenario.flows.iter().position(|group| Some(group.name.as_str()) == name).map(|index| index as u32)
}

fn flows_of(outcome: &RunOutcome, group: u32) -> impl Iterator<Item = &weft_sim::outcome::FlowOutcome> {
    outcome.flows.iter().filter(move |flow| flow.group == group)
}

/// Returns a statistic of latencies, named by the end of its metric's name.
fn latency(what: &str, samples: &[Nanos]) -> Option<f64> {
    let values: Vec<f64> = samples.iter().map(|sample| sample.as_secs_f64()).collect();
    match what {
        "mean_ms" => stats::mean(&values).map(|s| s * 1e3),
        "p90_ms" => stats::percentile(&values, 90.0).map(|s| s * 1e3),
        "p99_ms" => stats::percentile(&values, 99.0).map(|s| s * 1e3),
        "half_mean_us" => stats::mean(&values).map(|s| s * 5e5),
        "mean_us" => stats::mean(&values).map(|s| s * 1e6),
        "p50_us" => stats::percentile(&values, 50.0).map(|s| s * 1e6),
        "p90_us" => stats::percentile(&values, 90.0).map(|s| s * 1e6),
        _ => stats::percentile(&values, 99.0).map(|s| s * 1e6),
    }
}

/// Returns the greatest deviation from the mean, over the mean.
fn deviation(shares: &[f64]) -> Option<f64> {
    let mean = stats::mean(shares)?;
    shares.iter().map(|share| (share - mean).abs() / mean).reduce(f64::max)
}

/// Parses two times in milliseconds; the whole run without them.
fn span(arguments: &[&str]) -> Option<(Nanos, Nanos)> {
    match arguments {
        [] => Some((Nanos::ZERO, Nanos::MAX)),
        [from, to] => Some((Nanos::from_millis(from.parse().ok()?), Nanos::from_millis(to.parse().ok()?))),
        _ => None,
    }
}

/// Returns the throughput of a class between two times. The outer option is `None` for invalid arguments, the inner
/// one for a time outside the run.
fn class_gbps(scenario: &Scenario, outcome: &RunOutcome, class: &str, times: &[&str]) -> Option<Option<f64>> {
    let class = scenario.classes.iter().position(|name| name == class)?;
    let (from, to) = span(times)?;
    let (mut bytes, mut seconds) = (0.0, 0.0);
    for sample in outcome.samples.iter().filter(|sample| sample.at > from && sample.at <= to) {
        bytes += sample.bytes.get(class)?.0 as f64;
        seconds += sample.window.as_secs_f64();
    }
    Some((seconds > 0.0).then(|| bytes * 8e-9 / seconds))
}

/// Returns, for each sending host, the time from its first to its last flow's completion.
pub(super) fn spreads(scenario: &Scenario, outcome: &RunOutcome) -> Vec<f64> {
    let hosts = scenario.hosts.len();
    let mut ends: Vec<Vec<f64>> = vec![Vec::new(); hosts];
    for flow in &outcome.flows {
        if let (Some(completion), Some(group)) = (flow.completion, scenario.flows.get(flow.group as usize)) {
            ends[group.from as usize].push(completion.as_secs_f64());
        }
    }
    ends.iter().filter_map(|times| Some(stats::max(times)? - stats::min(times)?)).collect()
}

/// Returns the mean size of received skbs in kB; each step of the histogram counts with its middle.
fn mean_skb(outcome: &RunOutcome) -> Option<f64> {
    let counts = outcome.counters.receive_skb;
    let total: u64 = counts.iter().sum();
    let middle = |step: usize| step as f64 * 5.0 + 2.5;
    let sum: f64 = counts.iter().enumerate().map(|(step, count)| middle(step) * *count as f64).sum();
    (total > 0).then(|| sum / total as f64)
}
