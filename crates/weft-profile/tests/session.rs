//! Short sessions on real traffic. They check the instrument, not the machine: figures of a busy machine are not judged.

use weft_host::perf_event::SampleRate;
use weft_host::testing::{has_program, privileged};
use weft_profile::categories::Categories;
use weft_profile::level::Level;
use weft_profile::pattern::{FlowCount, Pattern};
use weft_profile::probes::{Probes, Scope};
use weft_profile::session::{Loaded, Options, Profile, run};
use weft_profile::traffic::Load;
use weft_report::profile::{Category, Side};
use weft_report::record::{Document, Host};
use weft_report::table::render_all;
use weft_units::{Bytes, Nanos};

fn options(pattern: Pattern, load: Load, levels: &[Level]) -> Options {
    Options {
        pattern,
        flows: FlowCount::Each(2),
        load,
        levels: levels.to_vec(),
        repeats: 1,
        span: Nanos::from_millis(700),
        warm_up: Nanos::from_millis(300),
        clock: None,
        rate: SampleRate::new(999).expect("a rate"),
        processors: vec![0, 1],
        loaded: Loaded::Label,
    }
}

fn profile(options: &Options) -> Profile {
    let table = Categories::shipped().expect("table");
    let mut heard = 0;
    let profile = run(options, &table, Host::default(), &|| false, |_| heard += 1).expect("a profile");
    assert_eq!(heard, options.levels.len());
    // Seen when a test fails.
    println!("{}", render_all(&profile.report.tables(), false));
    println!("{:?}", profile.missing);
    profile
}

fn namespaces() -> usize {
    let own = weft_host::RunId::current().name("profile");
    let entries = std::fs::read_dir(weft_host::netns::NETNS_DIR).into_iter().flatten().flatten();
    entries.filter(|e| e.file_name().to_string_lossy().starts_with(&own)).count()
}

#[test]
fn bulk_flows_are_profiled_and_nothing_is_left() {
    let name = "bulk_flows_are_profiled_and_nothing_is_left";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let profile = profile(&options(Pattern::Outcast, Load::Bulk, &[Level::NoOpt, Level::Arfs]));
    let report = &profile.report;
    assert_eq!(report.configs.len(), 2);
    for config in &report.configs {
        assert!(config.bps > 1e6 && config.flows == 2, "{config:?}");
        for side in Side::ALL {
            let side = &config.sides[&side];
            assert!(side.utilisation.total() > 0.0 && side.utilisation.total() < 2.1, "{side:?}");
            let shares: f64 = side.cpu_share.values().sum();
            assert!((shares - 1.0).abs() < 1e-6, "{shares}");
            assert!(side.cpu_share[&Category::Unmapped] < 0.02, "{side:?}");
        }
        if let Some(sizes) = &config.skb_bytes {
            let most = if config.level == "noopt" { 1514.0 } else { 70_000.0 };
            assert!(sizes.transmit.mean.is_some_and(|mean| mean <= most), "{sizes:?}");
            assert!(sizes.after_gro.total() > 0, "{sizes:?}");
        }
    }
    let by_level = |level: &str| report.configs.iter().find(|c| c.level == level).expect("a level");
    if let (Some(small), Some(large)) = (&by_level("noopt").skb_bytes, &by_level("arfs").skb_bytes) {
        assert!(small.transmit.mean < large.transmit.mean);
        assert!(by_level("arfs").latency_s.is_some(), "packets were followed to their copies");
    }
    assert!(!profile.flames.is_empty());
    assert_eq!(namespaces(), 0, "namespaces are removed");
}

#[test]
fn requests_are_profiled() {
    let name = "requests_are_profiled";
    if !privileged(name) || !has_program(name, "sockperf") {
        return;
    }
    let load = Load::Requests(Bytes(4000));
    let profile = profile(&options(Pattern::Single, load, &[Level::TsoGro]));
    let config = &profile.report.configs[0];
    assert!(config.bps > 1e5 && profile.report.rpc_bytes == Some(4000), "{config:?}");
    assert!(config.runs[0].work.receiver_waits > 0, "a server waits for each request");
}

#[test]
fn a_stop_ends_a_session_and_removes_everything() {
    let name = "a_stop_ends_a_session_and_removes_everything";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let table = Categories::shipped().expect("table");
    let options = options(Pattern::Single, Load::Bulk, &[Level::TsoGro]);
    let begin = std::time::Instant::now();
    let stop = || begin.elapsed().as_millis() > 1500;
    let error = run(&options, &table, Host::default(), &stop, |_| ()).err();
    assert!(error.is_none_or(|e| e.to_string() == "stopped"));
}

/// The programs at the tracepoints take less than 3 % of the processors' time, by the kernel's own statistics (which add their own
/// 20 ns to each run), while small packets of several flows pass.
#[test]
fn probes_cost_less_than_three_percent() {
    let name = "probes_cost_less_than_three_percent";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let counting = match weft_host::bpf_stats::BpfStats::enable() {
        Ok(counting) => counting,
        Err(why) => return weft_host::testing::skip(name, why),
    };
    let probes = match Probes::attach(Scope::Host) {
        Ok(probes) => probes,
        Err(why) => return weft_host::testing::skip(name, why),
    };
    let (begin, before) = (std::time::Instant::now(), probes.cost().expect("statistics"));
    let mut options = options(Pattern::OneToOne, Load::Bulk, &[Level::NoOpt]);
    options.span = Nanos::from_millis(1500);
    profile(&options);
    let after = probes.cost().expect("statistics");
    let (runs, nanos) = (after.runs - before.runs, after.nanos - before.nanos);
    let share = nanos as f64 / (begin.elapsed().as_nanos() as f64 * 2.0);
    println!(
        "{runs} runs, {:.0} ns each, {:.2} % of two processors",
        nanos as f64 / runs as f64,
        share * 100.0
    );
    assert!(runs > 10_000, "{runs} packets passed");
    assert!(share < 0.03, "{share}");
    assert!(probes.sizes().expect("sizes").transmit.total() > 0);
    drop(counting);
}
