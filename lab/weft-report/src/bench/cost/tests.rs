//! Tests of the arithmetic: equal variants have a ratio of one, waste shows, and parts sum to the whole.

use super::*;

const COST: Requirement = Requirement {
    figure: Figure::Cores,
    of: Variant::Ours,
    to: Variant::Htb,
    bound: RatioBound::AtMost(1.2),
    rank: BoundRank::Required,
};

/// A second of `gigabits` for `core_s`.
fn sample(round: u32, variant: Variant, gigabits: f64, core_s: f64) -> Sample {
    Sample {
        round,
        variant,
        span_s: 1.0,
        carried_bits: gigabits * 1e9,
        segments: (gigabits * 1e9 / 8.0 / 1448.0) as u64,
        core_s,
        application_s: core_s / 4.0,
        worker_s: core_s / 8.0,
        receive_s: 0.01,
        foreign_s: 0.0,
        stolen_s: 0.0,
        ebpf_s: None,
        requests: None,
        disturbed: false,
    }
}

/// Five rounds in which ours takes `more` core-seconds more than HTB.
fn rounds(more: f64) -> Vec<Sample> {
    let round = |round: u32| {
        let htb = 0.2 + 0.01 * f64::from(round);
        [sample(round, Variant::Htb, 0.9, htb), sample(round, Variant::Ours, 0.9, htb + more)]
    };
    (1..=5).flat_map(round).collect()
}

fn case(samples: Vec<Sample>, requirements: Vec<Requirement>) -> CaseReport {
    CaseReport::conclude(Measured {
        case: "a-case".to_owned(),
        peer: Some(Variant::Htb),
        link_bps: Some(1e9),
        samples,
        statistics: None,
        requirements,
        cores: 2,
    })
}

#[test]
fn equal_variants_have_a_ratio_of_one() {
    let null = case(rounds(0.0), vec![COST]);
    assert_eq!((null.ratio_median, null.ratio_runs.as_slice()), (Some(1.0), &[1.0; 5][..]));
    assert_eq!((null.met, null.judgement()), (Some(true), Judgement::Holds));
    assert_eq!(null.figures.ours_cores_per_gbps, null.figures.peer_cores_per_gbps);
}

#[test]
fn a_burnt_core_shows_and_misses_the_goal() {
    let burnt = case(rounds(1.0), vec![COST]);
    assert!(burnt.ratio_runs.iter().all(|ratio| *ratio > 4.0), "{:?}", burnt.ratio_runs);
    assert_eq!((burnt.met, burnt.judgement()), (Some(false), Judgement::Fails));
    // HTB's median round takes 0.23 core-seconds for 0.9 Gb.
    let [ours, htb] = [burnt.figures.ours_cores_per_gbps, burnt.figures.peer_cores_per_gbps];
    assert!((ours.expect("ours") - 1.23 / 0.9).abs() < 1e-9 && (htb.expect("htb") - 0.23 / 0.9).abs() < 1e-9);
}

#[test]
fn a_ratio_is_formed_within_its_round() {
    // Both get slower together: the ratio stays, which a ratio of medians of other rounds would not.
    let mut samples = rounds(0.0);
    samples.iter_mut().filter(|s| s.round > 2).for_each(|s| s.core_s *= 3.0);
    assert_eq!(case(samples.clone(), vec![COST]).ratio_runs, [1.0; 5]);
    // A round without the peer has no ratio.
    samples.retain(|s| s.round != 1 || s.variant == Variant::Ours);
    assert_eq!(case(samples, vec![COST]).ratio_runs.len(), 4);
}

#[test]
fn the_parts_sum_to_the_whole() {
    let mut samples = rounds(0.1);
    samples[3].application_s = 0.02;
    let statistics = Sample { ebpf_s: Some(0.018), ..sample(1, Variant::Ours, 0.9, 0.4) };
    let measured = Measured {
        case: "a-case".to_owned(),
        peer: Some(Variant::Htb),
        link_bps: None,
        samples,
        statistics: Some(statistics),
        requirements: vec![COST],
        cores: 2,
    };
    let case = CaseReport::conclude(measured);
    let (parts, peer) = (case.parts.expect("parts"), case.peer_parts.expect("the peer's parts"));
    assert!((parts.sum() - case.figures.ours_cores_per_gbps.expect("ours")).abs() < 1e-12);
    assert!((peer.sum() - case.figures.peer_cores_per_gbps.expect("htb")).abs() < 1e-12);
    assert!((parts.ebpf.expect("measured") - 0.02).abs() < 1e-12 && peer.ebpf.is_none());
    let named: f64 = parts.named().iter().map(|(_, value)| value).sum();
    assert!((named - parts.sum()).abs() < 1e-12, "the table shows all parts");
}

#[test]
fn disturbed_rounds_are_marked_and_half_of_them_hide_the_verdict() {
    let mut samples = rounds(0.0);
    samples[0].disturbed = true;
    samples[3].disturbed = true;
    let marked = case(samples.clone(), vec![COST]);
    assert_eq!((marked.disturbed_rounds, marked.met, marked.samples.len()), (2, Some(true), 10));
    samples[5].disturbed = true;
    let hidden = case(samples, vec![COST]);
    assert_eq!(hidden.met, None);
    assert!(matches!(hidden.judgement(), Judgement::NotShown(why) if why.contains("3 of 5 rounds")));
}

#[test]
fn one_core_and_missing_figures_cannot_show_a_case() {
    let alone = CaseReport::conclude(Measured {
        case: "a-case".to_owned(),
        peer: Some(Variant::Htb),
        link_bps: None,
        samples: rounds(0.0),
        statistics: None,
        requirements: vec![COST],
        cores: 1,
    });
    assert!(matches!(alone.judgement(), Judgement::NotShown(why) if why.contains("1 core")));
    let p99 = Requirement { figure: Figure::P99, ..COST };
    assert!(
        matches!(case(rounds(0.0), vec![p99]).judgement(), Judgement::NotShown(why) if why.contains("p99"))
    );
    let nothing = case(Vec::new(), vec![COST]);
    assert_eq!((nothing.met, nothing.parts, nothing.ratio_median), (None, None, None));
}

#[test]
fn an_aim_decides_nothing_and_a_least_ratio_is_a_bound() {
    let aim = Requirement { bound: RatioBound::AtMost(0.5), rank: BoundRank::Aim, ..COST };
    let faster = Requirement { figure: Figure::Throughput, bound: RatioBound::AtLeast(1.5), ..COST };
    let missed = case(rounds(0.0), vec![aim]);
    assert_eq!((missed.met, missed.comparisons[0].met), (Some(true), Some(false)));
    assert_eq!(case(rounds(0.0), vec![faster]).met, Some(false));
    let mut samples = rounds(0.0);
    samples.iter_mut().filter(|s| s.variant == Variant::Ours).for_each(|s| s.carried_bits *= 1.5);
    assert_eq!(case(samples, vec![faster]).met, Some(true));
    let goal = case(rounds(0.0), vec![aim, faster]).goal;
    assert_eq!(goal, "cores per Gb/s at most 0.5 times htb's (aim), throughput at least 1.5 times htb's");
}

#[test]
fn round_trips_are_percentiles_and_none_without_requests() {
    let trips = RoundTrips::of(&(1..=100).map(f64::from).collect::<Vec<_>>()).expect("requests");
    assert_eq!((trips.count, trips.p50_s, trips.p90_s, trips.p99_s), (100, 50.0, 90.0, 99.0));
    assert_eq!(RoundTrips::of(&[]), None);
}

#[test]
fn the_limit_is_the_link_or_the_machine() {
    let full = case(rounds(0.0), vec![COST]).limited_by;
    assert!(full.starts_with("the link's rate; stack"), "{full}");
    let mut samples = rounds(0.0);
    samples.iter_mut().for_each(|s| s.carried_bits /= 2.0);
    let slow = case(samples, vec![COST]).limited_by;
    assert!(slow.starts_with("the machine: 0.23 cores busy; stack"), "{slow}");
}
