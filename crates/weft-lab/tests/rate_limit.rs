//! Loom's Figure 2 on real packets: a class that is spread over many queues, flows and processes is limited as a whole.

use core::num::NonZeroU32;
use weft_lab::demo::{Bulk, DemoOptions, Scenario, run};
use weft_nic::plan::Mode;
use weft_nic::testbed::RECEIVER;
use weft_nic::worker::Grain;
use weft_policy::{CompileOptions, Source, compile};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// T1's 130 flows come from three processes and lie in half of the port's 256 rings; T2 takes what the limit leaves.
const POLICY: &str = "class T1 = cgroup \"T1\"
class T2 = cgroup \"T2\"
root = wfq { limited: 3, fair of T2: 1 }
limited = limit 60mbps of fair of T1
";
const LIMIT: BitsPerSec = BitsPerSec(60_000_000);
const LINK: BitsPerSec = BitsPerSec(100_000_000);

fn options() -> DemoOptions {
    let duration = Nanos::from_secs(7);
    let bulk = |name, flows| Bulk { name, flows, destination: RECEIVER, start: Nanos::ZERO, stop: duration };
    DemoOptions {
        scenario: Scenario { figure: 2, bulk: vec![bulk("T1", 130), bulk("T2", 4)], latency: None, duration },
        modes: vec![Mode::Loom],
        rate: Some(LINK),
        congestion: "cubic".to_owned(),
        grain: Grain::Segments(NonZeroU32::MIN),
        sq_qdisc: false,
        requests_per_s: 0,
        request_bytes: 0,
        catch_up: Nanos::from_millis(50),
    }
}

#[test]
fn a_limit_holds_over_many_queues_flows_and_processes() {
    if !weft_host::testing::privileged("a_limit_holds_over_many_queues_flows_and_processes") {
        return;
    }
    let compilation = compile(Source { name: "limit.weft", text: POLICY }, &CompileOptions::default());
    let policy = compilation.policy.expect("the policy compiles");
    let outcomes = run(&policy, &options(), &|| false, &mut |_| {}).expect("the run");
    let outcome = &outcomes[0];
    let class = |name: &str| policy.classes.iter().position(|c| c.name == name).expect("the class");
    // Windows of a second, once all flows are there.
    let steady: Vec<_> = outcome.windows.iter().filter(|w| w.steady && w.at >= Nanos::from_secs(2)).collect();
    let seconds: Vec<f64> = steady
        .chunks_exact(2)
        .map(|pair| {
            let bytes: Bytes = pair.iter().map(|w| w.wire[class("T1")]).sum();
            let span = pair.iter().fold(Nanos::ZERO, |sum, w| sum + w.span);
            BitsPerSec::from_bytes_over(bytes, span).get() as f64 / LIMIT.get() as f64
        })
        .collect();
    // On a machine that kept the worker from running, link time was lost, and nobody could have it.
    let lost = outcome.totals.link_lost;
    assert!(seconds.len() >= 3, "too few steady windows: {:?}", outcome.windows);
    for ratio in &seconds {
        assert!(*ratio <= 1.01, "over the limit: {seconds:?}");
        let least = 0.98 - lost.as_secs_f64();
        assert!(*ratio >= least, "under the limit while there is demand: {seconds:?}, lost {lost}");
    }
    // What is not T1's is not lost: T2 gets the rest of the link.
    let rest: Bytes = steady.iter().map(|w| w.wire[class("T2")]).sum();
    let span = steady.iter().fold(Nanos::ZERO, |sum, w| sum + w.span);
    let rest = BitsPerSec::from_bytes_over(rest, span.saturating_sub(lost)).get();
    assert!(rest >= 38_000_000, "T2 got {rest} b/s of the 40 Mb/s that the limit leaves");
    let rung = outcome.totals.sum(|c| c.rung);
    assert_eq!(rung, outcome.totals.sum(|c| c.sent).plus(outcome.totals.sum(|c| c.held)), "conserved");
}
