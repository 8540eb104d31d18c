//! The gate against the starts of the places, over random policies and configurations.

use crate::common::policies::{Rng, policy};
use core::num::NonZeroUsize;
use std::collections::BTreeMap;
use weft_packet::pcap::PcapWriter;
use weft_policy::promise::Kept;
use weft_policy::{CompileOptions, CompiledPolicy, NoFiles, Source, compile};
use weft_replay::{ReplayOptions, replay};
use weft_run::place::{Answer, Place};
use weft_run::session::{NicSettings, PortSettings, SessionError};
use weft_sim::run::simulate;
use weft_sim::scenario::{Scenario, SchedulerKind};
use weft_titan::host_users::host_users;
use weft_units::{BitsPerSec, Nanos};

const TWO_HOSTS: &str = "hosts = 2\n[[flows]]\nfrom = 0\nto = 1\n";

/// The policies that are tried.
const POLICIES: u64 = 1500;

fn compiled(text: &str) -> Option<CompiledPolicy> {
    let options = CompileOptions { users: host_users(), ..CompileOptions::default() };
    compile(Source { name: "p.weft", text }, &options).policy
}

fn ask(place: Place, policy: &CompiledPolicy, text: &str) -> Answer {
    place.ask(policy, (Source { name: "p.weft", text }, &NoFiles))
}

/// A scenario of two hosts, one with this policy, for a moment.
fn scenario(text: &str) -> Scenario {
    let mut scenario =
        weft_sim::scenario::read(TWO_HOSTS, "s.toml", &mut |file| panic!("{file}")).expect("a scenario");
    (scenario.warm_up, scenario.duration) = (Nanos::ZERO, Nanos::from_micros(200));
    scenario.hosts[0].nic.scheduler = SchedulerKind::PolicyTree;
    scenario.hosts[0].stack.policy = Some(text.to_owned());
    scenario
}

/// Whether a replay of an empty capture begins.
fn replays(policy: &CompiledPolicy) -> bool {
    let mut empty = Vec::new();
    PcapWriter::new(&mut empty).expect("a capture").finish().expect("written");
    let options = ReplayOptions { rate: Some(BitsPerSec(1_000_000_000)), ..ReplayOptions::default() };
    replay(policy, &empty[..], Vec::new(), options).is_ok()
}

#[test]
fn the_gate_and_the_starts_agree() {
    let mut seen: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    let mut rng = Rng(1);
    for number in 0..POLICIES {
        let text = policy(&mut rng);
        let Some(policy) = compiled(&text) else { continue };
        for place in Place::ALL {
            let answer = ask(place, &policy, &text);
            let starts = match place {
                Place::Port => {
                    NicSettings::of_policy(&policy).plan(&policy, Vec::new(), 256).is_ok_and(|plan| {
                        plan.for_port(
                            "weft0",
                            weft_run::session::PortShare { rings: 256, flows: 1, spare: 0 },
                        )
                        .is_ok()
                    })
                }
                Place::Daemon => {
                    let plan = NicSettings::of_policy(&policy).plan(&policy, Vec::new(), 256);
                    let fits = |name: &str| {
                        plan.as_ref().is_ok_and(|plan| plan.for_port(name, PortSettings::SHARE).is_ok())
                    };
                    ["weft0", "w0", "w1", "w2"].into_iter().all(fits)
                }
                // A run takes longer than a plan.
                Place::Sim if number % 5 > 0 => continue,
                Place::Sim => simulate(&scenario(&text), 1).is_ok(),
                Place::Replay => replays(&policy),
                Place::Kernel => {
                    weft_policy::kernel::lower(&policy).is_ok_and(|lowered| lowered.refusal().is_none())
                }
                Place::Tc => {
                    let rate = policy.link.or(Some(BitsPerSec(1_000_000_000)));
                    weft_policy::export::to_tc(&CompiledPolicy { link: rate, ..policy.clone() }, "eth0")
                        .is_ok()
                }
            };
            assert_eq!(answer.runs(), starts, "{} {:?}\n{text}", place.name(), answer.refusal);
            *seen.entry((place.name(), starts)).or_default() += 1;
            let broken = answer.promises.iter().any(|promise| promise.kept == Kept::No);
            assert!(broken || answer.runs(), "a refusal is a promise that is not kept: {answer:?}");
        }
    }
    for place in ["port", "daemon", "sim"] {
        for starts in [true, false] {
            assert!(seen.get(&(place, starts)).is_some_and(|count| *count > 10), "{seen:?}");
        }
    }
}

#[test]
fn a_refusal_says_what_and_where() {
    let codel = "class web = tcp port 80\nroot = priority { codel target 5ms of web, default }\n";
    let policy = compiled(codel).expect("a policy");
    for place in [Place::Port, Place::Daemon] {
        let answer = ask(place, &policy, codel);
        let source = Source { name: "p.weft", text: codel };
        let found = answer.diagnostic((source, &NoFiles), &CompileOptions::default()).expect("refused");
        assert_eq!((found.start.line, found.start.column), (2, 19), "{found:?}");
        assert!(found.one_line().starts_with("p.weft:2:19: error[E0512]: "), "{}", found.one_line());
        let instead = answer.refusal.expect("refused").instead;
        assert!(instead.contains("it runs in") && instead.contains("`weft replay`"), "{instead}");
    }
    let named = "class a = user \"root\"\nroot = priority { a }\n";
    let refusal = ask(Place::Sim, &compiled(named).expect("a policy"), named).refusal.expect("no users");
    assert!(refusal.reason.contains("simulated hosts have no users"), "{refusal:?}");
    let dscp = "class a = dscp ef\nroot = priority { a }\n";
    let promises = ask(Place::Sim, &compiled(dscp).expect("a policy"), dscp).promises;
    assert!(
        promises.iter().any(|promise| promise.within.as_deref() == Some("simulated packets have no dscp"))
    );
}

#[test]
fn workers_and_ports_count() {
    let fair = compiled("class a = tcp\nroot = fair of a\n").expect("a policy");
    let two = NonZeroUsize::new(2).expect("two");
    let settings = NicSettings { workers: two, ..NicSettings::of_policy(&fair) };
    assert!(settings.plan_for_ports(&fair, &[]).is_err(), "several workers need a rate");
    let settings = NicSettings::of_policy(&fair);
    let names: Vec<String> = (0..65).map(|number| format!("p{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(settings.plan_for_ports(&fair, &names[..64]).is_ok(), "64 rings each");
    let error = settings.plan_for_ports(&fair, &names).expect_err("a port too many");
    assert!(error.to_string().contains("0 left"), "{error}");
}

/// The variable that the test below sets to run itself in a time namespace.
const OTHER_TIME: &str = "WEFT_TEST_OTHER_TIME";

/// Times that the worker and the programs in the kernel exchange are of one clock, or nothing starts.
#[test]
fn a_time_namespace_with_another_clock_is_refused() {
    const NAME: &str = "a_time_namespace_with_another_clock_is_refused";
    let settings = NicSettings::of_policy(&compiled("class a = tcp\nroot = fair of a\n").expect("a policy"));
    let refused = settings.check_host().expect_err("no such interface");
    if std::env::var_os(OTHER_TIME).is_some() {
        assert!(matches!(refused, SessionError::OtherClock { ahead } if ahead == 1000.0), "{refused}");
        return;
    }
    assert!(matches!(refused, SessionError::NoUplink { .. }), "{refused}");
    if !weft_host::testing::privileged(NAME) {
        return;
    }
    let mut inside = std::process::Command::new("unshare");
    inside
        .args(["--time", "--monotonic", "1000", "--fork"])
        .arg(std::env::current_exe().expect("this program"));
    let output = inside
        .args(["--exact", &format!("gate::{NAME}")])
        .env(OTHER_TIME, "1")
        .output()
        .expect("unshare of util-linux");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
