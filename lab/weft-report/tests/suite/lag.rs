//! The lag behind the fluid schedule, and the verdicts on correct, slow and wrong servers. The servers are models: a link,
//! tenants whose packets arrive by a script, and a rule that chooses the next packet.

use crate::fixture;
use std::collections::BTreeMap;

use proptest::prelude::*;
use weft_report::demo::{
    CoreWaits, DemoReport, ENGINE_LAG_CHUNKS, FineSamples, LatencySummary, Mode, largest_lag, verdicts,
};
use weft_report::judgement::Judgement;

/// The link of the models.
const LINK_BPS: f64 = 100e6;
/// A packet on the wire.
const CHUNK: u64 = 1538;
/// Length of a fine window.
const WINDOW_S: f64 = 0.01;
/// Transmission time of a packet.
const CHUNK_S: f64 = CHUNK as f64 * 8.0 / LINK_BPS;
const TENANTS: usize = 4;

/// The state that a server sees when it chooses: packets waiting, packets sent so far, and the time in seconds.
struct State {
    queue: [u64; TENANTS],
    sent: [u64; TENANTS],
    time_s: f64,
}

/// A tenant's script: whether it refills its queue at a given time. A queue holds as many packets as a TCP socket allows.
type Script<'a> = &'a dyn Fn(usize, f64) -> bool;
/// A rule: the next tenant, or `None` to leave the link idle for the duration of a packet.
type Rule<'a> = &'a mut dyn FnMut(&State) -> Option<usize>;

/// The most packets that a tenant has waiting.
const QUEUE: u64 = 40;

fn empty() -> FineSamples {
    FineSamples {
        window_s: WINDOW_S,
        from_s: 0.0,
        chunk_bytes: CHUNK,
        tenants: ["T0", "T1", "T2", "T3", "T4"].map(str::to_owned).to_vec(),
        ..FineSamples::default()
    }
}

/// Runs the model for `seconds`.
fn run(seconds: f64, script: Script<'_>, rule: Rule<'_>) -> FineSamples {
    let mut fine = empty();
    let mut state = State { queue: [0; TENANTS], sent: [0; TENANTS], time_s: 0.0 };
    let (mut bytes, mut waited) = ([0; TENANTS], [false; TENANTS]);
    let mut end = WINDOW_S;
    while end <= seconds + 1e-9 {
        for tenant in 0..TENANTS {
            if script(tenant, state.time_s) {
                state.queue[tenant] = QUEUE;
            }
        }
        let served = rule(&state);
        state.time_s += CHUNK_S;
        while state.time_s > end {
            fine.bytes.push(std::iter::once(0).chain(bytes).collect());
            fine.waiting.push(waited.iter().enumerate().map(|(i, w)| u64::from(*w) << (i + 1)).sum());
            (bytes, waited) = ([0; TENANTS], state.queue.map(|q| q > 0));
            end += WINDOW_S;
        }
        if let Some(tenant) = served.filter(|t| state.queue[*t] > 0) {
            state.queue[tenant] -= 1;
            state.sent[tenant] += 1;
            bytes[tenant] += CHUNK;
            waited[tenant] &= state.queue[tenant] > 0;
        }
    }
    fine
}

/// Start-time fair queueing, in packets of one size.
fn fair() -> impl FnMut(&State) -> Option<usize> {
    let (mut virtual_time, mut finish, mut was) = (0_u64, [0_u64; TENANTS], [false; TENANTS]);
    let mut start = [0_u64; TENANTS];
    move |state| {
        for i in 0..TENANTS {
            if state.queue[i] > 0 && !was[i] {
                start[i] = finish[i].max(virtual_time);
            }
            was[i] = state.queue[i] > 0;
        }
        let next = (0..TENANTS).filter(|i| state.queue[*i] > 0).min_by_key(|i| start[*i])?;
        virtual_time = start[next];
        finish[next] = start[next] + 1;
        start[next] = finish[next];
        was[next] = state.queue[next] > 1;
        Some(next)
    }
}

fn always(_: usize, _: f64) -> bool {
    true
}

/// The largest lag in packets.
fn lag(fine: &FineSamples) -> f64 {
    largest_lag(fine, LINK_BPS).map_or(0.0, |lag| lag.bytes / CHUNK as f64)
}

/// The fluid schedule itself, in steps of a tenth of a millisecond: all backlogged tenants get equal shares, regardless of packets.
fn fluid(seconds: f64, script: Script<'_>) -> FineSamples {
    const STEP_S: f64 = 1e-4;
    let mut fine = empty();
    let (mut queue, mut sent, mut told) = ([0.0_f64; TENANTS], [0.0_f64; TENANTS], [0_u64; TENANTS]);
    let mut waited = [false; TENANTS];
    for step in 1..=(seconds / STEP_S).round() as usize {
        let now = step as f64 * STEP_S;
        (0..TENANTS).filter(|i| script(*i, now)).for_each(|i| queue[i] = (QUEUE * CHUNK) as f64);
        let mut rest = LINK_BPS / 8.0 * STEP_S;
        let mut order: Vec<usize> = (0..TENANTS).filter(|i| queue[*i] > 0.0).collect();
        order.sort_by(|a, b| queue[*a].total_cmp(&queue[*b]));
        for (place, &i) in order.iter().enumerate() {
            let part = queue[i].min(rest / (order.len() - place) as f64);
            queue[i] -= part;
            sent[i] += part;
            rest -= part;
            waited[i] &= queue[i] > 1e-6;
        }
        if step.is_multiple_of((WINDOW_S / STEP_S).round() as usize) {
            let now = sent.map(|s| s.round() as u64);
            let bytes = (0..TENANTS).map(|i| now[i] - told[i]);
            fine.bytes.push(std::iter::once(0).chain(bytes).collect());
            fine.waiting.push(waited.iter().enumerate().map(|(i, w)| u64::from(*w) << (i + 1)).sum());
            (told, waited) = (now, queue.map(|q| q > 1e-6));
        }
    }
    fine
}

/// A script of bursts: tenant `i` refills during its part of each period.
fn bursts(periods: [f64; TENANTS], parts: [f64; TENANTS]) -> impl Fn(usize, f64) -> bool {
    move |i, t| (t / periods[i]).fract() < parts[i]
}

fn numbers(range: std::ops::Range<f64>) -> impl Strategy<Value = [f64; TENANTS]> {
    [range.clone(), range.clone(), range.clone(), range].prop_map(|n: [f64; TENANTS]| n)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_fluid_schedule_lags_behind_itself_by_nothing(periods in numbers(0.02..0.7), parts in numbers(0.0..1.0)) {
        // Bytes are whole numbers, so one byte per tenant may be missing.
        let fine = fluid(3.0, &bursts(periods, parts));
        prop_assert!(lag(&fine) * CHUNK as f64 <= TENANTS as f64, "{} packets", lag(&fine));
    }

    #[test]
    fn a_fair_server_owes_no_more_than_the_engine_may(periods in numbers(0.02..0.7), parts in numbers(0.0..1.0)) {
        let fine = run(3.0, &bursts(periods, parts), &mut fair());
        prop_assert!(lag(&fine) <= ENGINE_LAG_CHUNKS as f64, "{} packets", lag(&fine));
    }

    #[test]
    fn who_starves_for_a_while_lags_by_its_share_of_it(milliseconds in 20_u32..200, at in 0.5..1.0_f64) {
        let starved_s = f64::from(milliseconds) / 1e3;
        let mut rest = fair();
        // Its queue is hidden from the rule for a while; afterwards it is again one of four.
        let mut rule = |state: &State| {
            let mut seen = State { queue: state.queue, sent: state.sent, time_s: state.time_s };
            if (at..at + starved_s).contains(&state.time_s) {
                seen.queue[0] = 0;
            }
            rest(&seen)
        };
        let fine = run(2.0, &always, &mut rule);
        let share = starved_s / CHUNK_S / TENANTS as f64;
        prop_assert!((lag(&fine) - share).abs() <= ENGINE_LAG_CHUNKS as f64, "{} for {share}", lag(&fine));
    }
}

#[test]
fn a_tenant_that_takes_more_whenever_it_has_something_is_seen_though_no_set_is_steady() {
    // T1 is served first, and has no packets for a third of every 30 ms.
    let script = |i: usize, t: f64| i > 0 || (t / 0.03).fract() < 0.5;
    let mut rule = |state: &State| {
        (state.queue[0] > 0).then_some(0).or_else(|| (1..TENANTS).min_by_key(|i| state.sent[*i]))
    };
    let fine = run(6.0, &script, &mut rule);
    assert!(fine.spans().iter().all(|span| !span.steady), "T1 comes and goes all the time");
    assert!(lag(&fine) > 1000.0, "{}", lag(&fine));
}

#[test]
fn spans_are_steady_where_the_same_tenants_waited_throughout() {
    let mut fine = run(4.0, &|i, t| i == 0 || t > 1.3, &mut fair());
    let steady = |fine: &FineSamples| -> f64 {
        fine.spans().iter().filter(|s| s.steady).map(|s| s.windows.len() as f64 * WINDOW_S).sum()
    };
    assert!((3.9..4.0).contains(&steady(&fine)), "{}", steady(&fine));
    let samples = fine.samples();
    assert!(samples.iter().any(|s| s.active == ["T0", "T1"]) && samples.iter().any(|s| s.active.len() == 5));
    let covered: usize = fine.spans().iter().map(|s| s.windows.len()).sum();
    assert_eq!(covered, fine.len(), "no window is left out");
    let full = fine.full_load().expect("a full load");
    assert!((full.0 - 1.31).abs() < 0.02 && (full.1 - 4.0).abs() < 0.02 && full.2 == 4, "{full:?}");
    // A window with lost link time is not judged, nor is a neighbouring part that is too short.
    fine.lost_s = BTreeMap::from([(150, 0.008)]);
    assert!(fine.spans().iter().filter(|s| s.steady).all(|s| !s.windows.contains(&150)));
    // A tenant that is backlogged for part of a window makes the set change.
    fine.waiting[300] &= !2;
    assert!(fine.spans().iter().filter(|s| s.steady).all(|s| !s.windows.contains(&300)));
}

/// A report in which Loom served as in `fine`, and requests took `p99_s`.
fn report(fine: FineSamples) -> DemoReport {
    let mut report = fixture::demo_report();
    report.seed = None;
    report.link_bps = LINK_BPS as u64;
    report.modes[3].fine = Some(fine);
    report.summarise();
    report
}

fn stands(report: &DemoReport, name: &str) -> Judgement {
    let verdicts = verdicts(report);
    let found =
        verdicts.iter().find(|v| v.name.contains(name)).unwrap_or_else(|| panic!("{name}: {verdicts:?}"));
    found.judgement.clone()
}

fn fails(report: &DemoReport) -> Vec<String> {
    let failing = verdicts(report).into_iter().filter(|v| v.judgement == Judgement::Fails);
    failing.map(|v| v.name).collect()
}

const SHARE: &str = "Loom: share error, 95th percentile";
const LAG: &str = "Loom: largest lag behind the ideal schedule";
const USE: &str = "Loom: link use in 95 % of windows";

#[test]
fn a_right_server_holds() {
    let report = report(run(8.0, &always, &mut fair()));
    assert!(verdicts(&report).iter().all(|v| v.judgement == Judgement::Holds), "{:?}", verdicts(&report));
}

#[test]
fn null_models_fail() {
    // QPF under Loom's name: round robin over flows, of which T1 has 4, T2 16, T3 64 and T4 256.
    let flows = [4_u64, 16, 64, 256];
    let mut qpf = |state: &State| {
        (0..TENANTS).min_by(|a, b| (state.sent[*a] * flows[*b]).cmp(&(state.sent[*b] * flows[*a])))
    };
    assert_eq!(fails(&report(run(8.0, &always, &mut qpf))), [SHARE, LAG]);
    // Fair except for 60 ms: no percentile of windows shows it.
    let mut rest = fair();
    let mut lagging = |state: &State| {
        let mut seen = State { queue: state.queue, sent: state.sent, time_s: state.time_s };
        seen.queue[2] *= u64::from(!(3.0..3.06).contains(&state.time_s));
        rest(&seen)
    };
    assert_eq!(fails(&report(run(8.0, &always, &mut lagging))), [LAG]);
    // Fair, but idle for a tenth of the time although packets are waiting.
    let (mut rest, mut turn) = (fair(), 0_u32);
    let mut lazy = |state: &State| {
        turn += 1;
        if turn.is_multiple_of(10) { None } else { rest(state) }
    };
    assert_eq!(fails(&report(run(8.0, &always, &mut lazy))), [USE]);
}

#[test]
fn a_slow_machine_is_no_failure() {
    // The applications get a core only at times: every 100 ms, one of the tenants is out of packets for some ms.
    let script = |i: usize, t: f64| (t / 0.1 + i as f64 / 4.0).fract() < 0.7;
    let mut fine = run(8.0, &script, &mut fair());
    for window in (0..fine.len()).step_by(40) {
        fine.lost_s.insert(window, 0.005);
    }
    let slow = report(fine);
    assert_eq!(fails(&slow), Vec::<String>::new());
    assert_eq!(stands(&slow, LAG), Judgement::Holds, "what the NIC did is judged all the same");
    let why = stands(&slow, "steady windows");
    assert!(matches!(&why, Judgement::NotShown(why) if why.contains("link's time were lost")), "{why:?}");
    // The link is never full.
    let idle = report(run(8.0, &|_, t| (t / 0.1).fract() < 0.01, &mut fair()));
    assert_eq!(fails(&idle), Vec::<String>::new());
    assert!(matches!(stands(&idle, SHARE), Judgement::NotShown(_)));
}

#[test]
fn slow_requests_fail_unless_they_waited_for_a_core() {
    let mut fine = run(8.0, &always, &mut fair());
    fine.probe_wait_s = vec![300e-6; fine.len()];
    let name = "T0 latency";
    let with = |wait_s: f64, cores_s: Option<f64>| {
        let mut fine = fine.clone();
        fine.probe_wait_s.fill(wait_s);
        let mut report = report(fine);
        let latency = |p99| Some(LatencySummary { p50: 1e-4, p90: 1e-3, p99, p999: p99, count: 4000 });
        (report.modes[3].latency_s, report.modes[2].latency_s) = (latency(5e-3), latency(10e-3));
        report.modes[3].core_waits =
            cores_s.map(|s| CoreWaits { span_s: 8.0, probe_s: s, ..CoreWaits::default() });
        stands(&report, name)
    };
    // 40 requests exceeded 2 ms, by 3 ms or more: 0.12 s.
    assert!(matches!(with(300e-6, Some(0.5)), Judgement::NotShown(why) if why.contains("for a core")));
    assert_eq!(with(300e-6, Some(0.05)), Judgement::Fails, "nobody waited so long for a core");
    assert_eq!(with(300e-6, None), Judgement::Fails, "nothing says so");
    assert_eq!(with(4.9e-3, Some(0.5)), Judgement::Fails, "they waited in the NIC");
    assert_eq!(Mode::Loom, Mode::default());
}
