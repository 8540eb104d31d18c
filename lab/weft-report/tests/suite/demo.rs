//! The demo's summary, verdicts and tables.

use crate::fixture;
use std::collections::BTreeMap;

use expect_test::expect;
use proptest::prelude::*;
use weft_report::demo::{
    DemoReport, LatencySummary, Mode, Sample, demo_tables, full_load, full_load_mean, limit_report,
    link_use_min, link_use_p5, published_statements, share_error_p95, verdicts,
};
use weft_report::judgement::Judgement;

fn window(t_s: f64, bps: &[(&str, f64)], steady: bool) -> Sample {
    Sample {
        t_s,
        window_s: 0.5,
        bps: bps.iter().map(|(t, b)| ((*t).to_owned(), *b)).collect(),
        active: bps.iter().map(|(t, _)| (*t).to_owned()).collect(),
        steady,
    }
}

/// The computation of `tools/check-demo` on samples, line by line: (95th percentile of errors, link use in 95 % of windows).
fn as_check_demo(samples: &[Sample], link: f64) -> (Option<f64>, Option<f64>) {
    let (mut errors, mut link_use) = (Vec::new(), Vec::new());
    for s in samples {
        let active: Vec<&String> = s.active.iter().filter(|t| *t != "T0").collect();
        if s.steady && !active.is_empty() {
            let total: f64 = s.bps.values().sum();
            let share = (total - s.bps.get("T0").unwrap_or(&0.0)) / active.len() as f64;
            errors.extend(active.iter().map(|t| (s.bps.get(*t).unwrap_or(&0.0) - share).abs() / share));
            link_use.push(total / link);
        }
    }
    errors.sort_by(f64::total_cmp);
    link_use.sort_by(f64::total_cmp);
    let p95 = errors.get((errors.len().max(1) - 1).min((0.95 * errors.len() as f64) as usize)).copied();
    (p95, link_use.get(link_use.len() / 20).copied())
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let sample = (prop::collection::vec(1.0..1e9_f64, 1..6), any::<bool>(), any::<bool>());
    prop::collection::vec(sample, 0..80).prop_map(|drawn| {
        let with_names = |(rates, probe, steady): (Vec<f64>, bool, bool)| {
            let bps: BTreeMap<String, f64> = rates
                .into_iter()
                .enumerate()
                .map(|(i, b)| (format!("T{}", i + usize::from(!probe)), b))
                .collect();
            Sample { t_s: 0.0, window_s: 0.1, active: bps.keys().cloned().collect(), bps, steady }
        };
        drawn.into_iter().map(with_names).collect()
    })
}

proptest! {
    #[test]
    fn the_summary_is_what_the_check_from_outside_computes(samples in samples()) {
        let (error, link_use) = as_check_demo(&samples, 1e9);
        prop_assert_eq!(share_error_p95(&samples), error);
        prop_assert_eq!(link_use_p5(&samples, 1e9), link_use);
        prop_assert!(link_use_min(&samples, 1e9) <= link_use);
    }
}

#[test]
fn unsteady_windows_and_t0_are_not_judged() {
    let samples = [
        window(0.0, &[("T0", 1e6)], true),
        window(0.5, &[("T0", 1e6), ("T1", 90e6), ("T2", 10e6)], false),
        window(1.0, &[("T0", 2e6), ("T1", 49e6), ("T2", 49e6)], true),
    ];
    assert_eq!(share_error_p95(&samples), Some(0.0));
    assert_eq!(link_use_min(&samples, 100e6), Some(1.0));
    let load = full_load(&samples).expect("a steady window");
    assert_eq!((load.tenants, load.from_s, load.to_s), (2, 1.0, 1.5));
    assert_eq!(full_load_mean(&samples)["T1"], 49e6);
    assert_eq!(share_error_p95(&[window(0.0, &[("T1", 0.0)], true)]), Some(1.0), "nobody got anything");
}

#[test]
fn limits_are_judged_where_they_bind() {
    let samples: Vec<Sample> = (0..12)
        .map(|k| {
            let rate = if k < 4 {
                10e6
            } else if k < 6 {
                10.4e6
            } else {
                3e6
            };
            window(f64::from(k) * 0.5, &[("J1", rate / 2.0), ("J2", rate / 2.0), ("J0", 70e6)], true)
        })
        .collect();
    let report = limit_report("dst2", &["J1", "J2"], 10e6, 1.0, &samples, |s| s.t_s < 3.0);
    assert_eq!((report.windows, report.excess_max), (3, 0.04));
    assert_eq!((report.error_p95, report.error_max), (Some(0.04), Some(0.04)));
    let none = limit_report("dst2", &["J1"], 10e6, 1.0, &samples, |_| false);
    assert_eq!((none.error_p95, none.windows), (None, 0));
}

#[test]
fn latencies_from_seconds_and_from_a_histogram_agree() {
    let nanos: Vec<u64> = (1..=1000).map(|k| k * 1000).collect();
    let seconds: Vec<f64> = nanos.iter().map(|n| *n as f64 / 1e9).collect();
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).expect("three digits");
    nanos.iter().for_each(|n| histogram.record(*n).expect("in range"));
    let exact = LatencySummary::from_seconds(&seconds).expect("not empty");
    let near = LatencySummary::from_histogram(&histogram).expect("not empty");
    assert_eq!((exact.p50, exact.p999, exact.count), (500e-6, 999e-6, 1000));
    for (a, b) in
        [(exact.p50, near.p50), (exact.p90, near.p90), (exact.p99, near.p99), (exact.p999, near.p999)]
    {
        assert!((a - b).abs() / a < 1e-3, "{a} {b}");
    }
    assert_eq!(LatencySummary::from_seconds(&[]), None);
}

/// The names of the verdicts that do not hold.
fn short(report: &DemoReport) -> Vec<String> {
    verdicts(report).into_iter().filter(|v| v.judgement != Judgement::Holds).map(|v| v.name).collect()
}

#[test]
fn verdicts_fall_when_they_must() {
    let good = fixture::demo_report();
    assert_eq!(short(&good), Vec::<String>::new());

    let mut unfair = good.clone();
    for s in &mut unfair.modes[3].samples {
        if let Some(bps) = s.bps.get_mut("T1") {
            *bps *= 0.8;
        }
    }
    assert_eq!(short(&unfair), ["Loom: share error, 95th percentile", "Loom: link use in 95 % of windows"]);

    let mut slow = good.clone();
    slow.modes[3].latency_s = slow.modes[2].latency_s;
    assert_eq!(short(&slow), ["T0 latency, 99th percentile: Loom against QPF"]);
    slow.modes[3].latency_s = None;
    assert_eq!(short(&slow), ["T0 latency, 99th percentile: Loom against QPF"], "missing is not good");

    let mut leaky = good.clone();
    leaky.modes[1].conservation.stages[0].balance.out_bytes -= 1;
    leaky.modes[2].conservation.drops.clear();
    leaky.modes[0].conservation = Default::default();
    let names = ["SQ", "MQ", "QPF"].map(|m| format!("{m}: packets and bytes conserved"));
    assert_eq!(short(&leaky), names);

    let stages = good.modes[3].conservation.stages.len();
    assert!(stages > 1);
    for stage in 0..stages {
        let faults: [fn(&mut weft_facts::record::Balance); 3] =
            [|b| b.in_packets += 1, |b| b.in_bytes += 1, |b| b.dropped_packets += 1];
        for fault in faults {
            let mut lossy = good.clone();
            fault(&mut lossy.modes[3].conservation.stages[stage].balance);
            assert_eq!(short(&lossy), ["Loom: packets and bytes conserved"], "one of a million is too many");
        }
    }
    let mut unexplained = good.clone();
    unexplained.modes[3].conservation.unexplained = vec!["rings: 1 packets are missing".to_owned()];
    assert_eq!(short(&unexplained), ["Loom: packets and bytes conserved"]);

    let mut absent = good.clone();
    absent.modes.retain(|m| m.mode != Mode::Loom);
    assert_eq!(short(&absent), ["Loom ran"]);

    let mut loose = fixture::demo_report_figure_11();
    assert_eq!(short(&loose), Vec::<String>::new());
    loose.modes[0].limits[0].error_p95 = Some(0.06);
    assert_eq!(short(&loose).len(), 1);
}

#[test]
fn published_statements_say_where_we_differ() {
    let statements = published_statements(&fixture::demo_report());
    let qpf: Vec<_> = statements.iter().filter(|s| s.mode == Mode::Qpf).collect();
    assert!(qpf[0].measured.starts_with("T4/T1 = 64x: T1 (4 flows)"), "{}", qpf[0].measured);
    assert_eq!(
        (qpf[0].agrees, qpf[1].agrees),
        (Some(true), Some(false)),
        "SQ's latency is the highest in the fixture"
    );
    assert!(published_statements(&fixture::demo_report_figure_11()).is_empty());
    let mut alone = fixture::demo_report();
    alone.modes.retain(|m| m.mode == Mode::Loom);
    assert!(published_statements(&alone).iter().all(|s| s.agrees.is_none()), "nothing to compare with");
}

#[test]
fn what_cannot_be_shown_says_why_in_table_and_page() {
    let mut report = fixture::demo_report_measured();
    report.modes[3].fine = Some(weft_report::demo::FineSamples {
        window_s: 0.01,
        tenants: vec!["T1".to_owned()],
        bytes: vec![vec![0]; 9],
        waiting: vec![0; 9],
        ..Default::default()
    });
    report.summarise();
    let why = "cannot be shown here, because no tenant had packets waiting";
    assert!(demo_tables(&report).contains(why), "{}", demo_tables(&report));
    assert!(weft_report::demo::demo_html(&report).contains(why));
}

#[test]
fn the_lag_and_the_trial_are_shown() {
    let report = fixture::demo_report_measured();
    let tables = demo_tables(&report);
    assert!(tables.contains("largest lag behind ideal"), "{tables}");
    assert!(tables.contains("Loom: largest lag behind the ideal schedule"), "{tables}");
    let trial = report.rate_trial.as_ref().expect("a trial");
    assert_eq!(trial.rate_bps(), 500_000_000);
    let sentence = trial.sentence();
    assert!(
        sentence.starts_with("the largest of 300, 500, 1000 Mb/s that is at most a third of"),
        "{sentence}"
    );
    assert!(sentence.contains("340 flows and 1000 requests a second in mode Loom"), "{sentence}");
    assert!(sentence.contains("the median of 3 windows after"), "{sentence}");
}

#[test]
fn an_empty_run_has_a_report() {
    let mut report = fixture::demo_report();
    for mode in &mut report.modes {
        *mode = weft_report::demo::ModeReport::new(mode.mode, "nothing ran");
    }
    report.summarise();
    assert!(demo_tables(&report).contains("not measured"));
    assert!(weft_report::demo::demo_html(&report).contains("not measured"));
}

#[test]
fn tables_read_well() {
    expect![[r#"
        Verdicts
            what                                                     measured                        must be
        ──  ───────────────────────────────────────────────────────  ──────────────────────────────  ─────────────────────────
        ok  Loom: steady windows                                     45                              >= 10
        ok  Loom: link use in 95 % of windows                        100.0 %                         >= 95.0 % of 500 Mb/s
        ok  Loom: error of limit dst2, 95th percentile of 6 windows  0.32 %                          <= 2.0 % of 125 Mb/s
        ok  Loom: most over limit dst2 in any window                 0.32 %                          <= 1.0 %
        ok  Loom: packets and bytes conserved                        412 345 packets, 624 MB, exact  in = out + dropped + held

        Throughput at full load (5 tenants and jobs besides T0; link 500 Mb/s)
        tenant                            Loom
        ───────────────────────────  ─────────
        T1.J0, 4 flows               55.7 Mb/s
        T1.J1, 4 flows               55.5 Mb/s
        T1.J2, 4 flows               55.5 Mb/s
        T2, 16 flows                  167 Mb/s
        T3, 64 flows                  167 Mb/s
        link use in 95 % of windows    100.0 %
        link use, least                100.0 %

        Latency of T0 at full load
        percentile      Loom
        ───────────  ───────
        p50            72 us
        p90            88 us
        p99           504 us
        p99.9        2.12 ms
        round trips   18 000

        Standing queue at full load, median (largest)
        tenant                       Loom
        ──────────────  ─────────────────
        T1                26 kB (28.6 kB)
        T2                104 kB (114 kB)
        T3                416 kB (458 kB)
        T4              1.66 MB (1.83 MB)
        sum of medians            2.21 MB

        Cost
        what                   Loom
        ──────────────────  ───────
        eBPF per packet      310 ns
        eBPF runs           400 000
        NIC threads, cores     0.66
        doorbells            52 000
        doorbell bytes       104 kB
        wakeups              38 000
        stalls over 5 ms          3

        Rate limits
        mode  class     limit      mean  error p95  error max  over limit, most  windows
        ────  ─────  ────────  ────────  ─────────  ─────────  ────────────────  ───────
        Loom  dst2   125 Mb/s  125 Mb/s     0.32 %     0.32 %            0.32 %        6

        Conservation, Loom
        stage                   in                  out          dropped            held  balance
        ─────  ───────────────────  ───────────────────  ───────────────  ──────────────  ────────────────
        rings  412 345 pkt, 624 MB  412 330 pkt, 624 MB  12 pkt, 18.2 kB  3 pkt, 4.54 kB  exact in packets
        wire   412 330 pkt, 624 MB  412 330 pkt, 624 MB       0 pkt, 0 B      0 pkt, 0 B  exact
        total  412 345 pkt, 624 MB  412 330 pkt, 624 MB  12 pkt, 18.2 kB  3 pkt, 4.54 kB  exact in packets
        dropped, ring full: 12 packets, 18.2 kB
    "#]].assert_eq(&demo_tables(&fixture::demo_report_figure_11()));
}
