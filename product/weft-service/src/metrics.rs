//! The counters as OpenMetrics text, with names after node_exporter's qdisc collector. No label names a flow.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;
use weft_facts::counters::Counters;
use weft_facts::status::{Histogram, ServiceStatus, StatusClass, StatusPort, StatusUplink, WorkerState};

/// Labels of a sample.
type Labels = Vec<(&'static str, String)>;

/// The form of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricsFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus before OpenMetrics, 0.0.4. Tools such as `promtool check metrics` read only this.
    Classic,
}

impl MetricsFormat {
    /// The form for a scraper that accepts `accept`.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Classic }
    }

    /// The type of the content.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The counters of `status` in a format.
pub fn in_format(status: &ServiceStatus, format: MetricsFormat) -> String {
    match format {
        MetricsFormat::OpenMetrics => text(status),
        MetricsFormat::Classic => classic(&text(status)),
    }
}

/// OpenMetrics text in the format before it: a counter has its suffix in its name there, and the text has no mark of its
/// end.
fn classic(text: &str) -> String {
    let counters: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut out = String::with_capacity(text.len());
    for line in text.lines().filter(|line| *line != "# EOF") {
        let named = ["# HELP ", "# TYPE "].iter().find_map(|head| Some((head, line.strip_prefix(head)?)));
        match named.and_then(|(head, rest)| Some((head, rest.split_once(' ')?))) {
            Some((head, (name, rest))) if counters.contains(&name) => {
                out.push_str(&format!("{head}{name}_total {rest}\n"));
            }
            _ => out.extend([line, "\n"]),
        }
    }
    out
}

/// The counters of `status` as OpenMetrics text.
pub fn text(status: &ServiceStatus) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(StatusCollector(status.clone())));
    let mut text = String::new();
    // Writing to a text does not fail.
    let _ = encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct StatusCollector(ServiceStatus);

impl Collector for StatusCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (mut out, uplinks) = (Out(encoder), self.0.each());
        daemon(&mut out, &uplinks)?;
        classes(&mut out, &uplinks)?;
        ports(&mut out, &uplinks)
    }
}

struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn counters(&mut self, name: &str, help: &str, samples: Vec<(Labels, u64)>) -> fmt::Result {
        if samples.is_empty() {
            return Ok(());
        }
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            match labels.is_empty() {
                true => metric.encode_counter::<NoLabelSet, _, u64>(&value, None)?,
                false => metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?,
            }
        }
        Ok(())
    }

    /// A metric for each row of a table. `of` is what the values are of, if not all.
    fn table<T: Counters>(&mut self, of: &str, samples: &[(Labels, T)]) -> fmt::Result {
        for (at, (name, help)) in T::ROWS.iter().enumerate() {
            let value = |(labels, table): &(Labels, T)| Some((labels.clone(), table.values().get(at)?.get()));
            let samples = samples.iter().filter_map(value).collect();
            self.counters(&format!("weft_{of}{name}"), help.trim().trim_end_matches('.'), samples)?;
        }
        Ok(())
    }

    fn gauges(&mut self, name: &str, help: &str, samples: Vec<(Labels, f64)>) -> fmt::Result {
        if samples.is_empty() {
            return Ok(());
        }
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            match labels.is_empty() {
                true => metric.encode_gauge(&value)?,
                false => metric.encode_family(&labels)?.encode_gauge(&value)?,
            }
        }
        Ok(())
    }
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// The labels of an uplink's samples: its name, if it has one.
fn of(status: &ServiceStatus) -> Labels {
    status.uplink.name.iter().map(|name| ("uplink", name.clone())).collect()
}

/// The labels of an uplink's sample, and one more.
fn with(status: &ServiceStatus, label: &'static str, value: &str) -> Labels {
    let mut labels = of(status);
    labels.push((label, value.to_owned()));
    labels
}

fn daemon(out: &mut Out<'_>, uplinks: &[&ServiceStatus]) -> fmt::Result {
    let policy = |status: &&ServiceStatus| {
        let mut labels = with(status, "hash", &status.policy_hash);
        labels.push(("generation", status.generation.to_string()));
        (labels, 1.0)
    };
    out.gauges("weft_policy_info", "The policy in force", uplinks.iter().map(policy).collect())?;
    device(out, uplinks)?;
    let each = |value: fn(&ServiceStatus) -> f64| uplinks.iter().map(|s| (of(s), value(s))).collect();
    let running = each(|status| flag(status.worker == WorkerState::Running));
    out.gauges("weft_worker_running", "Whether the transmit worker runs", running)?;
    let bound = each(|status| flag(status.worker_bound));
    out.gauges("weft_worker_bound", "Whether the worker, not the link, is the bottleneck", bound)?;
    out.gauges(
        "weft_policy_change_pause_seconds",
        "The longest time for which a replacement of the policy kept the worker from sending",
        each(|status| status.policy_change_pause_s),
    )?;
    let dropped = uplinks.iter().flat_map(|status| {
        let labels = |reason: &str| with(status, "reason", reason);
        status.dropped.named().map(move |(reason, packets)| (labels(reason), packets))
    });
    out.counters("weft_dropped_packets", "Packets dropped, by reason", dropped.collect())?;
    let counted: Vec<_> = uplinks.iter().map(|status| (of(status), status.counters)).collect();
    out.table("", &counted)?;
    let failed = uplinks.iter().map(|status| (of(status), status.failed_readings)).collect();
    out.counters("weft_failed_readings", "Failed readings of the kernel's counters", failed)
}

/// The interfaces of the uplinks.
fn device(out: &mut Out<'_>, uplinks: &[&ServiceStatus]) -> fmt::Result {
    let device = |status: &ServiceStatus| with(status, "device", &status.uplink.interface);
    let up = uplinks.iter().map(|status| (device(status), flag(status.uplink.up))).collect();
    out.gauges("weft_uplink_up", "Whether the uplink has a carrier", up)?;
    let rate = |value: fn(&StatusUplink) -> Option<f64>| {
        uplinks.iter().filter_map(|s| Some((device(s), value(&s.uplink)? / 8.0))).collect()
    };
    out.gauges(
        "weft_uplink_rate_bytes_per_second",
        "The rate of the link, where one is given",
        rate(|uplink| uplink.rate_bps),
    )?;
    out.gauges(
        "weft_uplink_observed_rate_bytes_per_second",
        "The rate that the uplink shows by its back-pressure, while it is the bottleneck",
        rate(|uplink| uplink.observed_bps),
    )
}

fn classes(out: &mut Out<'_>, uplinks: &[&ServiceStatus]) -> fmt::Result {
    let classes = || {
        uplinks.iter().flat_map(|status| {
            status.classes.iter().map(|class| (with(status, "class", &class.class), class))
        })
    };
    let counts = |value: fn(&StatusClass) -> u64| classes().map(|(l, c)| (l, value(c))).collect();
    out.counters("weft_class_sent_bytes", "Bytes sent", counts(|c| c.bytes))?;
    out.counters("weft_class_sent_packets", "Packets sent", counts(|c| c.packets))?;
    let waiting = classes().map(|(l, c)| (l, c.backlog_bytes as f64)).collect();
    out.gauges("weft_class_queue_bytes", "Bytes that wait", waiting)?;
    let entitled = classes().filter_map(|(l, c)| Some((l, c.entitled_bps? / 8.0))).collect();
    out.gauges("weft_class_entitled_bytes_per_second", "The rate that the policy guarantees", entitled)?;
    let reasons = classes().flat_map(|(labels, class)| {
        class.dropped.named().map(move |(reason, packets)| {
            let mut labels = labels.clone();
            labels.push(("reason", reason.to_owned()));
            (labels, packets)
        })
    });
    out.counters("weft_class_dropped_packets", "Packets dropped, by reason", reasons.collect())?;
    let counted: Vec<_> = classes().map(|(labels, class)| (labels, class.counters)).collect();
    out.table("class_", &counted)?;
    let measured: Vec<_> = classes().filter_map(|(l, c)| Some((l, c.sojourn_histogram.as_ref()?))).collect();
    if measured.is_empty() { Ok(()) } else { sojourn(out, measured) }
}

/// The waiting times of the classes that have measurements.
fn sojourn(out: &mut Out<'_>, measured: Vec<(Labels, &Histogram)>) -> fmt::Result {
    let (name, help) =
        ("weft_class_sojourn_seconds", "The time from a packet's doorbell to its last bit on the link");
    let mut metric = out.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (labels, histogram) in measured {
        let bounds = histogram.bounds_s.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts.iter().copied()).collect();
        let mut family = metric.encode_family(&labels)?;
        family.encode_histogram::<NoLabelSet>(histogram.sum_s, histogram.count, &buckets, None)?;
    }
    Ok(())
}

fn ports(out: &mut Out<'_>, uplinks: &[&ServiceStatus]) -> fmt::Result {
    let ports = || {
        uplinks
            .iter()
            .flat_map(|status| status.ports.iter().map(|port| (with(status, "port", &port.port), port)))
    };
    let counts = |value: fn(&StatusPort) -> u64| ports().map(|(l, p)| (l, value(p))).collect();
    out.counters("weft_port_sent_bytes", "Bytes sent", counts(|p| p.sent_bytes))?;
    out.counters("weft_port_sent_packets", "Packets sent", counts(|p| p.sent_packets))?;
    out.counters("weft_port_received_packets", "Packets received", counts(|p| p.received_packets))?;
    out.counters("weft_port_dropped_packets", "Packets dropped on their way", counts(|p| p.dropped_packets))?;
    let counted: Vec<_> = ports().map(|(labels, port)| (labels, port.counters)).collect();
    out.table("port_", &counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_facts::counters::{ClassDrops, ClassEvents, PortEvents};
    use weft_units::Packets;

    fn status() -> ServiceStatus {
        let class = StatusClass {
            class: "web \"a\"".to_owned(),
            bytes: 1500,
            packets: 1,
            dropped: ClassDrops { ring_full: Packets(3), ..ClassDrops::default() },
            entitled_bps: Some(8e6),
            ..StatusClass::default()
        };
        let port = StatusPort { port: "weft0".to_owned(), sent_packets: 7, ..StatusPort::default() };
        ServiceStatus {
            generation: 2,
            policy_hash: "ab".to_owned(),
            policy_change_pause_s: 0.000_02,
            classes: vec![class],
            ports: vec![port],
            ..ServiceStatus::default()
        }
    }

    #[test]
    fn the_promised_names_are_there() {
        let text = text(&status());
        for line in [
            r#"weft_policy_info{hash="ab",generation="2"} 1"#,
            r#"weft_class_sent_bytes_total{class="web \"a\""} 1500"#,
            r#"weft_class_sent_packets_total{class="web \"a\""} 1"#,
            r#"weft_class_queue_bytes{class="web \"a\""} 0"#,
            r#"weft_class_dropped_packets_total{class="web \"a\"",reason="ring_full"} 3"#,
            r#"weft_class_entitled_bytes_per_second{class="web \"a\""} 1000000"#,
            r#"weft_port_sent_packets_total{port="weft0"} 7"#,
            r#"weft_uplink_up{device=""} 0"#,
            r#"weft_policy_change_pause_seconds 0.00002"#,
        ] {
            assert!(text.lines().any(|l| l == line || l == format!("{line}.0")), "{line}: {text}");
        }
        assert!(
            text.ends_with("# EOF\n") && !text.contains("sojourn"),
            "unmeasured times are left out: {text}"
        );
    }

    #[test]
    fn the_classic_format_has_counters_with_their_suffix() {
        let text = in_format(&status(), MetricsFormat::Classic);
        assert!(text.contains("# TYPE weft_class_sent_bytes_total counter\n"), "{text}");
        assert!(text.contains("# HELP weft_class_sent_bytes_total Bytes sent\n"), "{text}");
        assert!(text.contains("# TYPE weft_class_queue_bytes gauge\n") && !text.contains("# EOF"), "{text}");
        assert_eq!(MetricsFormat::accepted("text/plain"), MetricsFormat::Classic);
        assert_eq!(
            MetricsFormat::accepted("application/openmetrics-text;version=1.0.0,*/*;q=0.1"),
            MetricsFormat::OpenMetrics
        );
    }

    /// Each counter is a metric, of its class, of its port and in all, with its value and its help.
    #[test]
    fn rare_events_have_their_values_and_helps() {
        let mut status = status();
        status.classes[0].class = "web".to_owned();
        status.classes[0].counters = ClassEvents { late_claims: Packets(9), untracked: Packets(10) };
        status.ports[0].counters =
            PortEvents { cut_packets: Packets(5), unknown_makers: Packets(1), ..PortEvents::default() };
        status.counters = PortEvents {
            cut_packets: Packets(6),
            infrastructure_excess: Packets(2),
            obscured_drops: Packets(3),
            strays: Packets(4),
            unannounced_drops: Packets(7),
            unknown_makers: Packets(8),
        };
        let text = in_format(&status, MetricsFormat::Classic);
        let mut expected = Vec::new();
        let mut add =
            |prefix: &str, labels: &'static str, values: Vec<(&str, u64)>, rows: &[(&str, &'static str)]| {
                for ((name, value), (_, help)) in values.into_iter().zip(rows) {
                    expected.push((
                        format!("{prefix}{name}_total"),
                        labels,
                        value,
                        help.trim().trim_end_matches('.'),
                    ));
                }
            };
        let class = status.classes[0].counters.named().collect();
        add("weft_class_", "{class=\"web\"}", class, ClassEvents::ROWS);
        add("weft_", "", status.counters.named().collect(), PortEvents::ROWS);
        add("weft_port_", "{port=\"weft0\"}", status.ports[0].counters.named().collect(), PortEvents::ROWS);
        assert_eq!(expected.len(), 14);
        for (name, labels, value, help) in expected {
            for line in [
                format!("# HELP {name} {help}"),
                format!("# TYPE {name} counter"),
                format!("{name}{labels} {value}"),
            ] {
                assert!(text.lines().any(|l| l == line), "{line}: {text}");
            }
        }
    }

    #[test]
    fn measured_waiting_times_are_a_histogram() {
        let mut status = status();
        status.classes[0].class = "w".to_owned();
        status.classes[0].sojourn_histogram =
            Some(Histogram { bounds_s: vec![0.001, 0.01], counts: vec![5, 2, 1], sum_s: 0.5, count: 8 });
        let text = text(&status);
        for line in [
            r#"weft_class_sojourn_seconds_bucket{le="0.001",class="w"} 5"#,
            r#"weft_class_sojourn_seconds_bucket{le="0.01",class="w"} 7"#,
            r#"weft_class_sojourn_seconds_bucket{le="+Inf",class="w"} 8"#,
            r#"weft_class_sojourn_seconds_count{class="w"} 8"#,
            r#"weft_class_sojourn_seconds_sum{class="w"} 0.5"#,
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
    }
    #[test]
    fn several_uplinks_have_a_label_each() {
        let named = |name: &str| {
            let mut status = status();
            (status.uplink.name, status.uplink.interface) = (Some(name.to_owned()), format!("dev-{name}"));
            status
        };
        let text = text(&ServiceStatus { uplinks: vec![named("lan"), named("wan")], ..named("lan") });
        for line in [
            r#"weft_policy_info{uplink="wan",hash="ab",generation="2"} 1"#,
            r#"weft_uplink_up{uplink="lan",device="dev-lan"} 0"#,
            r#"weft_worker_running{uplink="wan"} 0"#,
            r#"weft_class_dropped_packets_total{uplink="wan",class="web \"a\"",reason="ring_full"} 3"#,
            r#"weft_port_sent_packets_total{uplink="lan",port="weft0"} 7"#,
            r#"weft_failed_readings_total{uplink="lan"} 0"#,
        ] {
            assert!(text.lines().any(|l| l == line || l == format!("{line}.0")), "{line}: {text}");
        }
        assert_eq!(text.matches("# TYPE weft_class_sent_bytes counter").count(), 1, "{text}");
    }
}
