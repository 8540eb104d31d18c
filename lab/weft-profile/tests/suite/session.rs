//! Short sessions on real traffic. They check the instrument, not the machine: figures of a busy machine are not judged.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_facts::record::{Document, Host};
use weft_facts::table::render_all;
use weft_host::net_counters::NetCounters;
use weft_host::perf_event::SampleRate;
use weft_host::process::Output;
use weft_host::testing::{has_program, privileged, wait_for};
use weft_host::{NetNs, Process, Spawn, link};
use weft_profile::attach::{self, Of};
use weft_profile::categories::Categories;
use weft_profile::level::Level;
use weft_profile::pattern::{FlowCount, Pattern};
use weft_profile::probes::{ProbeScope, Probes};
use weft_profile::remedy_trials;
use weft_profile::session::{SessionOptions, SessionProfile, TrialPlan, TrialProgress, WhenBusy, run};
use weft_profile::setup::{LinkQdisc, RatedLink, Setup};
use weft_profile::traffic::TrafficLoad;
use weft_report::profile::attached::Direction;
use weft_report::profile::{
    Category, ConfigReport, ProfileReport, Run, Side, SideTime, Sizes, SkbSizes, Work,
};
use weft_units::testing::skip;
use weft_units::{BitsPerSec, Bytes, Nanos};

fn options(pattern: Pattern, load: TrafficLoad, levels: &[Level]) -> SessionOptions {
    SessionOptions {
        pattern,
        flows: FlowCount::Each(2),
        load,
        levels: levels.to_vec(),
        setup: Setup::default(),
        trials: TrialPlan {
            repeats: 1,
            span: Nanos::from_millis(700),
            warm_up: Nanos::from_millis(300),
            clock: None,
            rate: SampleRate::new(999).expect("a rate"),
            processors: vec![0, 1],
            loaded: WhenBusy::Label,
        },
    }
}

fn profile(options: &SessionOptions) -> SessionProfile {
    let table = Categories::shipped().expect("table");
    let mut heard = 0;
    let profile = run(options, &table, Host::default(), &|| false, |_| heard += 1).expect("a profile");
    assert_eq!(heard, options.levels.len());
    // Seen when a test fails.
    println!("{}", render_all(&profile.report.tables(), false));
    println!("{:?}", profile.report.missing);
    profile
}

/// Sessions take turns: each measures the processors, and counts what it leaves.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed has not left a state.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
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
    let _turn = turn();
    let profile = profile(&options(Pattern::Outcast, TrafficLoad::Bulk, &[Level::NoOpt, Level::Arfs]));
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
fn settings_of_the_sender_are_in_force() {
    let name = "settings_of_the_sender_are_in_force";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let _turn = turn();
    let rate = BitsPerSec(100_000_000);
    let setup = Setup {
        link: Some(RatedLink { rate, qdisc: LinkQdisc::Fifo }),
        limit_output: Some(Bytes(1 << 30)),
        segment: Some(Bytes(16 << 10)),
    };
    let options = SessionOptions { setup, ..options(Pattern::OneToOne, TrafficLoad::Bulk, &[Level::TsoGro]) };
    let table = Categories::shipped().expect("table");
    let profile = match run(&options, &table, Host::default(), &|| false, |_| ()) {
        Err(error) if Setup::lacks(&error) => return skip(name, error),
        other => other.expect("a profile"),
    };
    let config = &profile.report.configs[0];
    assert!(config.bps > 1e5 && config.bps < 1.2 * rate.get() as f64, "{config:?}");
    if let Some(sizes) = &config.skb_bytes {
        assert!(sizes.transmit.mean.is_none_or(|mean| mean < 17_000.0), "{sizes:?}");
    }
}

#[test]
fn requests_are_profiled() {
    let name = "requests_are_profiled";
    if !privileged(name) || !has_program(name, "sockperf") {
        return;
    }
    let _turn = turn();
    let load = TrafficLoad::Requests(Bytes(4000));
    let profile = profile(&options(Pattern::Single, load, &[Level::TsoGro]));
    let config = &profile.report.configs[0];
    assert!(config.bps > 1e5 && profile.report.rpc_bytes == Some(4000), "{config:?}");
    assert!(config.runs[0].work.receiver_waits > 0, "a server waits for each request");
}

/// A document of a level at which every rule has its evidence.
fn with_all_remarks(level: &str) -> ProfileReport {
    let time = |categories: &[(Category, f64)]| SideTime {
        system_s: 1.0,
        categories_s: categories.iter().copied().collect(),
        ..SideTime::default()
    };
    let after_gro = Sizes { counts: vec![1], mean: Some(1500.0) };
    let run = Run {
        span_s: 1.0,
        work: Work { bytes: 1, retransmitted: 1, ..Work::default() },
        sender: time(&[(Category::DataCopy, 1.0)]),
        receiver: time(&[(Category::Netdev, 0.5), (Category::Sched, 0.5)]),
        sizes: Some(SkbSizes { after_gro, ..SkbSizes::default() }),
        ..Run::default()
    };
    let configs = vec![ConfigReport::conclude(level, 1, [1, 1], vec![run])];
    ProfileReport { configs, ..ProfileReport::default() }
}

#[test]
fn remarks_are_tried_in_turns_and_nothing_is_left() {
    let name = "remarks_are_tried_in_turns_and_nothing_is_left";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let _turn = turn();
    let table = Categories::shipped().expect("table");
    let mut options = options(Pattern::Single, TrafficLoad::Bulk, &[Level::NoOpt]);
    options.trials.repeats = 2;
    options.trials.span = Nanos::from_millis(300);
    let mut names = Vec::new();
    let heard = |progress: &TrialProgress| names.push(progress.level.clone());
    let all =
        remedy_trials::run(&options, &table, &with_all_remarks("noopt"), &|| false, heard).expect("tried");
    println!(
        "{}",
        render_all(&ProfileReport { tried: all.clone(), ..ProfileReport::default() }.tables(), false)
    );
    assert_eq!(all.len(), 4, "{all:?}");
    assert_eq!(names.len(), 12, "three changes, two repeats, without and with");
    assert!(
        names[0].contains("without") && names[1].contains("with ") && names[2].contains("with "),
        "{names:?}"
    );
    let (left, done): (Vec<_>, Vec<_>) = all.iter().partition(|tried| tried.not_tried.is_some());
    assert!(left.len() == 1 && left[0].command.contains("busy_poll"), "{left:?}");
    for tried in done {
        let bps = tried.bps.expect("throughput");
        assert!(bps.without > 1e6 && bps.with > 1e6 && bps.half_width.is_some(), "{bps:?}");
        assert!(tried.ns_per_byte.is_some_and(|nanos| nanos.without > 0.0 && nanos.with > 0.0));
        assert!(tried.without.len() == 2 && tried.with.len() == 2 && tried.level == "noopt");
    }
    assert_eq!(namespaces(), 0, "namespaces are removed");
    // A level that has what the remark proposes leaves nothing to try.
    let options = SessionOptions { levels: vec![Level::Gro], ..options };
    let all = remedy_trials::run(&options, &table, &with_all_remarks("gro"), &|| true, |_| ());
    assert_eq!(all.expect_err("asked to stop").to_string(), "stopped");
    assert!(weft_profile::remedy::Remedy::Gro.is_there_at(Level::Gro).is_some());
    assert!(weft_profile::remedy::Remedy::Gro.is_there_at(Level::NoOpt).is_none());
}

#[test]
fn a_stop_ends_a_session_and_removes_everything() {
    let name = "a_stop_ends_a_session_and_removes_everything";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let _turn = turn();
    let table = Categories::shipped().expect("table");
    let options = options(Pattern::Single, TrafficLoad::Bulk, &[Level::TsoGro]);
    let begin = std::time::Instant::now();
    let stop = || begin.elapsed().as_millis() > 1500;
    let error = run(&options, &table, Host::default(), &stop, |_| ()).err();
    assert!(error.is_none_or(|e| e.to_string() == "stopped"));
}

/// An iperf3 over the loopback of a namespace: the server and the client.
fn loopback_traffic(ns: &NetNs) -> [Process; 2] {
    let start = |args: &[&str]| {
        let spawn = Spawn::new("iperf3").args(args).netns(ns);
        spawn.stdout(Output::Null).stderr(Output::Null).start().expect("iperf3")
    };
    let segments = || NetCounters::read(ns).expect("counters").segments_in;
    let server = start(&["--server", "--one-off", "--bind", "127.0.0.1"]);
    // The client gives up at once where no process listens, so the server is waited for by its socket.
    wait_for("a server that listens", || {
        ns.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp"))
            .expect("enter")
            .expect("table")
            .contains(" 0A ")
    });
    let client = start(&["--client", "127.0.0.1", "--time", "30"]);
    wait_for("traffic", || segments() > 200);
    [server, client]
}

#[test]
fn what_runs_is_profiled_without_traffic_of_its_own() {
    let name = "what_runs_is_profiled_without_traffic_of_its_own";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let _turn = turn();
    let ns = NetNs::anonymous().expect("a namespace");
    link::set_up(&ns, "lo").expect("up");
    let [server, _client] = loopback_traffic(&ns);
    let options = |of: Of, span| attach::AttachOptions {
        of,
        span,
        clock: None,
        rate: SampleRate::new(999).expect("a rate"),
        by: attach::By::Process,
        top: 5,
    };
    let table = Categories::shipped().expect("table");
    let attached = |of: Of, span, stop: &(dyn Fn() -> bool + Sync)| {
        let run = || {
            let caller = attach::ProfileCaller { measuring: &|| (), stop: &|| stop() };
            attach::run(&options(of, span), &table, Host::default(), caller).expect("a profile")
        };
        ns.run(run).expect("enter").report
    };
    let report = attached(Of::Device("lo".to_owned()), Nanos::from_millis(800), &|| false);
    println!("{}", render_all(&report.tables(), false));
    assert!(
        report.devices.iter().any(|device| device.counted && device.moved.tx_bytes > 1_000_000),
        "{:?}",
        report.devices
    );
    for direction in [Direction::Transmit, Direction::Receive] {
        let figure: f64 = report.ns_per_byte[&direction].values().sum();
        assert!(figure > 0.0, "{direction:?}");
        assert!(
            report.network_s[&direction].get(&Category::Unmapped).copied().unwrap_or(0.0)
                < 0.02 * report.span_s
        );
    }
    let iperf = report.rows.iter().filter(|row| row.name.starts_with("iperf3"));
    assert!(iperf.map(|row| row.time.in_network_s()).sum::<f64>() > 0.0, "{:?}", report.rows);
    let used = report.utilisation.total();
    assert!(used > 0.0 && used < 1.1 * f64::from(report.processors), "{:?}", report.utilisation);
    let sizes = report.skb_bytes.as_ref();
    assert!(sizes.is_none_or(|sizes| sizes.transmit.total() > 0), "{:?}", report.labels);
    assert_eq!(report.windows.len(), 8);

    let pid = server.pid().as_raw_nonzero().get() as u32;
    // Asked about every 50 ms.
    let asked = AtomicU32::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) > 20;
    let report = attached(Of::Process(pid), Nanos::from_secs(60), &stop);
    let [sent, received] = [Direction::Transmit, Direction::Receive].map(|direction| {
        report.network_s.get(&direction).map_or(0.0, |categories| categories.values().sum())
    });
    assert!(received > sent && report.span_s < 30.0, "it ended early with what it had: {sent} {received}");
    let missing = options(Of::Process(u32::MAX), Nanos::from_secs(1));
    let caller = attach::ProfileCaller { measuring: &|| (), stop: &|| false };
    assert!(attach::run(&missing, &table, Host::default(), caller).is_err());
}

/// The programs at the tracepoints take less than 3 % of the processors' time, by the kernel's own statistics (which add their own
/// 20 ns to each run), while small packets of several flows pass.
#[test]
fn probes_cost_less_than_three_percent() {
    let name = "probes_cost_less_than_three_percent";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let _turn = turn();
    let counting = match weft_host::bpf_stats::BpfStats::enable() {
        Ok(counting) => counting,
        Err(why) => return weft_host::testing::skip(name, why),
    };
    let probes = match Probes::attach(ProbeScope::Host) {
        Ok(probes) => probes,
        Err(why) => return weft_host::testing::skip(name, why),
    };
    let (begin, before) = (std::time::Instant::now(), probes.cost().expect("statistics"));
    let mut options = options(Pattern::OneToOne, TrafficLoad::Bulk, &[Level::NoOpt]);
    options.trials.span = Nanos::from_millis(1500);
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
