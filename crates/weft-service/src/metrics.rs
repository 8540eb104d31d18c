//! The counters as OpenMetrics text, with names after node_exporter's qdisc collector. No label names a flow.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;
use weft_report::status::{Histogram, ServiceStatus, StatusClass, StatusPort, WorkerState};

/// Labels of a sample.
type Labels = Vec<(&'static str, String)>;

/// The counters of `status` as OpenMetrics text.
pub fn text(status: &ServiceStatus) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Counters(status.clone())));
    let mut text = String::new();
    // Writing to a text does not fail.
    let _ = encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Counters(ServiceStatus);

impl Collector for Counters {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Out(encoder);
        daemon(&mut out, &self.0)?;
        classes(&mut out, &self.0.classes)?;
        ports(&mut out, &self.0.ports)
    }
}

struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn counters(&mut self, name: &str, help: &str, samples: Vec<(Labels, u64)>) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn gauges(&mut self, name: &str, help: &str, samples: Vec<(Labels, f64)>) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn daemon(out: &mut Out<'_>, status: &ServiceStatus) -> fmt::Result {
    let policy = vec![("hash", status.policy_hash.clone()), ("generation", status.generation.to_string())];
    out.gauges("weft_policy_info", "The policy in force", vec![(policy, 1.0)])?;
    let uplink = || vec![("device", status.uplink.interface.clone())];
    out.gauges(
        "weft_uplink_up",
        "Whether the uplink has a carrier",
        vec![(uplink(), flag(status.uplink.up))],
    )?;
    let rate = |rate: Option<f64>| rate.map(|bps| (uplink(), bps / 8.0)).into_iter().collect::<Vec<_>>();
    out.gauges(
        "weft_uplink_rate_bytes_per_second",
        "The rate of the link, where one is given",
        rate(status.uplink.rate_bps),
    )?;
    out.gauges(
        "weft_uplink_observed_rate_bytes_per_second",
        "The rate that the uplink shows by its back-pressure, while it is the bottleneck",
        rate(status.uplink.observed_bps),
    )?;
    let running = flag(status.worker == WorkerState::Running);
    out.gauges("weft_worker_running", "Whether the transmit worker runs", vec![(Labels::new(), running)])?;
    let bound = flag(status.worker_bound);
    out.gauges(
        "weft_worker_bound",
        "Whether the worker, not the link, is the bottleneck",
        vec![(Labels::new(), bound)],
    )?;
    let dropped = status.dropped.iter().map(|(reason, packets)| (vec![("reason", reason.clone())], *packets));
    out.counters("weft_dropped_packets", "Packets dropped, by reason", dropped.collect())?;
    out.counters(
        "weft_failed_readings",
        "Failed readings of the kernel's counters",
        vec![(Labels::new(), status.failed_readings)],
    )
}

fn classes(out: &mut Out<'_>, classes: &[StatusClass]) -> fmt::Result {
    let label = |class: &StatusClass| vec![("class", class.class.clone())];
    let counts = |value: fn(&StatusClass) -> u64| classes.iter().map(|c| (label(c), value(c))).collect();
    out.counters("weft_class_sent_bytes", "Bytes sent", counts(|c| c.bytes))?;
    out.counters("weft_class_sent_packets", "Packets sent", counts(|c| c.packets))?;
    let waiting = classes.iter().map(|c| (label(c), c.backlog_bytes as f64)).collect();
    out.gauges("weft_class_queue_bytes", "Bytes that wait", waiting)?;
    let entitled = classes.iter().filter_map(|c| Some((label(c), c.entitled_bps? / 8.0))).collect();
    out.gauges("weft_class_entitled_bytes_per_second", "The rate that the policy guarantees", entitled)?;
    let reasons = classes.iter().flat_map(|class| {
        let labels = move |reason: &String| vec![("class", class.class.clone()), ("reason", reason.clone())];
        class.dropped.iter().map(move |(reason, packets)| (labels(reason), *packets))
    });
    out.counters("weft_class_dropped_packets", "Packets dropped, by reason", reasons.collect())?;
    let measured: Vec<_> =
        classes.iter().filter_map(|c| Some((label(c), c.sojourn_histogram.as_ref()?))).collect();
    if measured.is_empty() { Ok(()) } else { sojourn(out, measured) }
}

/// The waiting times of the classes for which they are measured.
fn sojourn(out: &mut Out<'_>, measured: Vec<(Labels, &Histogram)>) -> fmt::Result {
    let (name, help) = ("weft_class_sojourn_seconds", "Waiting times");
    let mut metric = out.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (labels, histogram) in measured {
        let bounds = histogram.bounds_s.iter().copied().chain([f64::MAX]);
        let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts.iter().copied()).collect();
        let mut family = metric.encode_family(&labels)?;
        family.encode_histogram::<NoLabelSet>(histogram.sum_s, histogram.count, &buckets, None)?;
    }
    Ok(())
}

fn ports(out: &mut Out<'_>, ports: &[StatusPort]) -> fmt::Result {
    let label = |port: &StatusPort| vec![("port", port.port.clone())];
    let counts = |value: fn(&StatusPort) -> u64| ports.iter().map(|p| (label(p), value(p))).collect();
    out.counters("weft_port_sent_bytes", "Bytes sent", counts(|p| p.sent_bytes))?;
    out.counters("weft_port_sent_packets", "Packets sent", counts(|p| p.sent_packets))?;
    out.counters("weft_port_received_packets", "Packets received", counts(|p| p.received_packets))?;
    out.counters("weft_port_dropped_packets", "Packets dropped on their way", counts(|p| p.dropped_packets))
}
