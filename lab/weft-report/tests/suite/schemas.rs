//! Documents match `docs/schemas` and survive writing and reading; the schemas refuse invalid ones.

use crate::document::{check, named, schema_of};
use crate::fixture;
use crate::schema;
use serde_json::{Value, json};
use weft_facts::json::{ReadError, from_json, to_json_pretty};
use weft_facts::record::Document;
use weft_report::campaign::{CampaignResults, CampaignRun};
use weft_report::demo::DemoReport;

#[test]
fn documents_are_what_their_schemas_say() {
    check(&fixture::demo_report());
    check(&fixture::demo_report_measured());
    check(&fixture::demo_report_figure_11());
    check(&fixture::bench_report());
    check(&fixture::roofline_report());
    check(&fixture::workers_report());
    check(&fixture::workers_report_of_a_policy());
    check(&fixture::simulated::campaign_status());
    check(&fixture::cost::cost_report());
    check(&fixture::profile::profile_report());
    check(&fixture::profile::attached_report());
    check(&fixture::profile::predict_report());
    check(&fixture::tune::tune_report());
    check(&fixture::simulated::sim_report());
    check(&fixture::simulated::reproduce_report());
    check(&fixture::simulated::cross_report());
}

#[test]
fn the_results_of_a_campaign_are_what_their_schema_says() {
    let run = CampaignRun { seed: 1, figures: [("a".to_owned(), None)].into(), ..CampaignRun::default() };
    let schema = CampaignResults::SCHEMA.to_owned();
    let value = json!(CampaignResults { schema, model: 1, runs: vec![run] });
    let schema = named::<CampaignResults>(CampaignResults::SCHEMA);
    assert_eq!(schema::errors(&schema, &value), Vec::<String>::new());
}

/// A benchmark names its unit: the simulator's events are not packets.
#[test]
fn a_benchmark_says_of_what_its_speeds_are() {
    let report = fixture::bench_report();
    let value = serde_json::to_value(&report).expect("JSON");
    let units = [0, 1, 2].map(|i| value["cases"][i]["unit"].clone());
    assert_eq!(units, ["packets", "packets", "events"]);
    let table = report.tables()[0].render(false);
    let line = |case: &str| table.lines().find(|l| l.starts_with(case)).expect("the case").to_owned();
    assert!(line("hold-100").contains("17.25 M events/s") && !line("hold-100").contains("pps"), "{table}");
    assert!(line("classify").contains("2.50 Mpps"), "{table}");
    let old =
        r#"{"case":"c","peer":null,"ours_pps":1.0,"peer_pps":null,"ratio_median":null,"ratio_runs":[]}"#;
    let old: weft_report::bench::BenchCase = serde_json::from_str(old).expect("a document from before");
    assert_eq!(old.unit, weft_report::bench::Unit::Packets);
}

/// The chart has a line for each way and kind of error, and the table the medians.
#[test]
fn workers_are_set_beside_one() {
    let report = fixture::workers_report();
    let table = report.tables()[0].render(false);
    assert!(table.contains("2, one policy") && table.contains("1.90x") && table.contains("0.77x"), "{table}");
    let of_a_policy = fixture::workers_report_of_a_policy().tables()[0].render(false);
    assert!(of_a_policy.contains("my.weft") && of_a_policy.contains("594 bytes"), "{of_a_policy}");
    let chart = report.chart();
    assert_eq!(chart.matches("<polyline").count(), 6, "{chart}");
    assert!(chart.contains("shared: below the limit") && chart.contains(">64</text>"), "{chart}");
}

/// The fields that `CONTRACT` promises to external readers, by path.
#[test]
fn the_promised_fields_are_there() {
    let demo = serde_json::to_value(fixture::demo_report()).expect("JSON");
    for field in [
        "/schema",
        "/host/kernel",
        "/host/cores",
        "/seed",
        "/link_bps",
        "/modes/3/mode",
        "/modes/3/samples/9/t_s",
        "/modes/3/samples/9/window_s",
        "/modes/3/samples/9/bps/T0",
        "/modes/3/samples/9/active/0",
        "/modes/3/samples/9/steady",
        "/modes/3/share_error_p95",
        "/modes/3/link_use_min",
        "/modes/3/latency_s/p50",
        "/modes/3/latency_s/p90",
        "/modes/3/latency_s/p99",
        "/modes/3/latency_s/p999",
        "/modes/3/standing_queue_bytes/T1",
        "/modes/3/conservation/in_bytes",
        "/modes/3/conservation/out_bytes",
        "/modes/3/conservation/dropped_bytes",
        "/modes/3/conservation/held_bytes",
        "/modes/3/conservation/in_packets",
        "/modes/3/conservation/out_packets",
        "/modes/3/conservation/dropped_packets",
        "/modes/3/conservation/held_packets",
    ] {
        assert!(demo.pointer(field).is_some_and(|v| !v.is_null()), "{field}");
    }
    let eleven = serde_json::to_value(fixture::demo_report_figure_11()).expect("JSON");
    for field in ["/samples/0/bps/T1.J0", "/limits/0/class", "/limits/0/limit_bps", "/limits/0/error_p95"] {
        assert!(eleven.pointer(field).is_some_and(|v| !v.is_null()), "{field}");
    }
    let bench = serde_json::to_value(fixture::bench_report()).expect("JSON");
    assert_eq!(bench.pointer("/cases/0/ratio_median"), Some(&json!(2.2)));
    assert_eq!(bench.pointer("/cases/1/peer"), Some(&Value::Null), "null, not absent");
    let cost = serde_json::to_value(fixture::cost::cost_report()).expect("JSON");
    for field in [
        "/cases/0/case",
        "/cases/0/peer",
        "/cases/0/ours_pps",
        "/cases/0/peer_pps",
        "/cases/0/ours_cores_per_gbps",
        "/cases/0/peer_cores_per_gbps",
        "/cases/0/floor_cores_per_gbps",
        "/cases/0/ratio_median",
        "/cases/0/ratio_runs/2",
        "/cases/0/parts/application",
        "/cases/0/parts/ebpf",
        "/cases/0/parts/stack",
        "/cases/0/goal",
        "/cases/0/met",
        "/cases/1/p50_s",
        "/cases/1/p99_s",
        "/cases/1/peer_p99_s",
    ] {
        assert!(cost.pointer(field).is_some_and(|v| !v.is_null()), "{field}");
    }
    let reproduce = serde_json::to_value(fixture::simulated::reproduce_report()).expect("JSON");
    for field in [
        "/experiments/0/id",
        "/experiments/0/cells/0/row",
        "/experiments/0/tau/latency",
        "/experiments/0/median_relative_error",
    ] {
        assert!(reproduce.pointer(field).is_some_and(|v| !v.is_null()), "{field}");
    }
    assert_eq!(reproduce.pointer("/experiments/0/cells/3/published"), Some(&Value::Null), "null, not absent");
    let verdicts: Vec<&str> = (0..4)
        .filter_map(|i| reproduce.pointer(&format!("/experiments/0/cells/{i}/verdict"))?.as_str())
        .collect();
    assert_eq!(verdicts, ["inside band", "within 25 %", "off", "not comparable"]);
    let sim = serde_json::to_value(fixture::simulated::sim_report()).expect("JSON");
    for field in [
        "/events",
        "/wall_s",
        "/sim_s",
        "/flows/0/bytes",
        "/flows/0/bps",
        "/nfm/1ms",
        "/latency_s/ping/p99",
        "/cpu/0/0/data_copy",
    ] {
        assert!(sim.pointer(field).is_some_and(|v| !v.is_null()), "{field}");
    }
}

/// The clock, missing counters and all slices show on the page, which needs no network.
#[test]
fn a_profile_s_page_names_its_clock_and_shows_all_categories() {
    let report = fixture::profile::profile_report();
    let value = serde_json::to_value(&report).expect("JSON");
    for field in
        ["/configs/0/bps_per_core", "/configs/0/cpu_share/data_copy", "/configs/0/utilisation/softirq"]
    {
        assert!(value.pointer(field).is_some_and(Value::is_number), "{field}");
    }
    assert_eq!(value.pointer("/configs/0/skb_bytes/after_gro/counts/64"), Some(&json!(30)));
    assert_eq!(value.pointer("/configs/0/bps"), Some(&json!(10.2e9)), "the median without the instrument");
    let page = weft_report::profile::profile_html(&report, &[]);
    for text in ["cpu-clock at 999 Hz", "data copy", "interrupts off", "n/a: no PMU", "Received, after GRO"] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("src=\"http"));
    let attached = weft_report::profile::attached::attached_html(&fixture::profile::attached_report(), &[]);
    for text in
        ["Mode: attached", "cpu-clock at 999 Hz", "interrupts off", "unmapped", "web", "not told apart"]
    {
        assert!(attached.contains(text), "{text}");
    }
}

/// Each verdict differs from the others in the tables, and the reason and the disturbance are below.
#[test]
fn a_cost_s_tables_show_verdicts_and_limits() {
    let report = fixture::cost::cost_report();
    let text: String = report.tables().iter().map(|table| table.render(false)).collect();
    for part in [
        "MISSED",
        "OUTSIDE",
        "aim reached",
        "not shown",
        "cannot be shown here, because nothing was measured",
        "what limits: the link's rate; ",
        "1 rounds were disturbed",
        "0.191 (htb)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\x1b'));
    assert!(report.tables().iter().any(|table| table.render(true).contains("\x1b[")), "colours when asked");
}

#[test]
fn a_reproduction_s_page_stands_alone_and_shows_all_cells() {
    let page = weft_report::reproduce::reproduce_html(&fixture::simulated::reproduce_report());
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"), "{}", &page[..40]);
    for text in
        ["a-table", "Latency of three", "A is faster than B", "published", "the paper&#39;s run lost packets"]
    {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("src=\"http"));
}

#[test]
fn schemas_refuse_what_is_wrong() {
    let schema = schema_of::<DemoReport>();
    let good = serde_json::to_value(fixture::demo_report()).expect("JSON");
    for (place, wrong) in [
        ("/figure", json!(12)),
        ("/link_bps", json!("500mbps")),
        ("/modes/0/mode", json!("SQ")),
        ("/modes/0/samples/0/window_s", json!(0)),
        ("/modes/0/samples/0/bps/T0", Value::Null),
        ("/modes/0/conservation/in_bytes", json!(-1)),
        ("/modes/0/conservation/stages/0/held_packets", json!(0.5)),
        ("/schema", json!("weft-demo/2")),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(place).expect(place) = wrong;
        assert_eq!(schema::errors(&schema, &bad).len(), 1, "{place}");
    }
}

#[test]
fn other_documents_are_refused_with_the_reason() {
    let text = to_json_pretty(&fixture::bench_report()).expect("JSON");
    let error = from_json::<DemoReport>(&text).expect_err("another document");
    assert_eq!(
        error.to_string(),
        "a document of schema \"weft-bench/1\", where \"weft-demo/1\" was expected"
    );
    assert!(matches!(from_json::<DemoReport>("{}"), Err(ReadError::Malformed { .. })));
    assert!(matches!(
        from_json::<DemoReport>("{\"schema\":\"weft-demo/1\"}"),
        Err(ReadError::Malformed { .. })
    ));
}
