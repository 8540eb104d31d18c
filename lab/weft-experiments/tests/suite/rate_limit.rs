//! Loom's Figure 2 on real packets: a class spread over many queues, flows and processes is limited as a whole.

use weft_experiments::experiments::loom::{DemoOptions, ModeOutcome, run};
use weft_policy::{CompileOptions, Source, compile};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// T1's 130 flows are sent by three processes through half of the port's 256 rings; T2 takes what the limit leaves.
const POLICY: &str = "class T1 = cgroup \"T1\"
class T2 = cgroup \"T2\"
root = wfq { limited: 3, fair of T2: 1 }
limited = limit 60mbps of fair of T1
";
const LIMIT: BitsPerSec = BitsPerSec(60_000_000);
const LINK: BitsPerSec = BitsPerSec(100_000_000);
/// Seconds in which both classes must have had a backlog.
const SECONDS: usize = 3;

#[test]
fn a_limit_holds_over_many_queues_flows_and_processes() {
    if !weft_host::testing::privileged("a_limit_holds_over_many_queues_flows_and_processes") {
        return;
    }
    let compilation = compile(Source { name: "limit.weft", text: POLICY }, &CompileOptions::default());
    let policy = compilation.policy.expect("the policy compiles");
    let class = |name: &str| policy.classes.iter().position(|c| c.name == name).expect("the class");
    // After all flows are connected. On a machine in other use both classes have a backlog for a part of the time only;
    // the run is then longer.
    let steady = |outcome: &ModeOutcome| {
        // A stretch is steady for those who wait throughout it: T1 alone too, when T2's sender pauses.
        let both = |standing: &[Bytes]| ["T1", "T2"].iter().all(|name| standing[class(name)] > Bytes::ZERO);
        let windows = outcome.windows.iter().filter(|w| w.steady && w.at >= Nanos::from_secs(2));
        windows.filter(|w| both(&w.standing)).cloned().collect::<Vec<_>>()
    };
    let runs = [7, 14, 28].into_iter().map(|seconds| {
        let options = DemoOptions::figure2(&[("T1", 130), ("T2", 4)], LINK, Nanos::from_secs(seconds));
        run(&policy, &options, &|| false, &mut |_| {}).expect("the run").remove(0)
    });
    let (mut outcome, mut windows) = (None, Vec::new());
    for run in runs {
        windows = steady(&run);
        outcome = Some(run);
        if windows.len() >= 2 * SECONDS {
            break;
        }
    }
    let outcome = outcome.expect("a run");
    // For each second: T1's part of its limit, T2's part of the rest, and the unused part of the link.
    let seconds: Vec<[f64; 3]> = windows
        .chunks_exact(2)
        .map(|pair| {
            let span = pair.iter().fold(Nanos::ZERO, |sum, w| sum + w.span);
            let part =
                |bytes: Bytes, of: u64| BitsPerSec::from_bytes_over(bytes, span).get() as f64 / of as f64;
            let of_class = |class: usize| pair.iter().map(|w| w.wire[class]).sum::<Bytes>();
            let used: Bytes = pair.iter().flat_map(|w| w.wire.iter().copied()).sum();
            let rest = part(of_class(class("T2")), LINK.get() - LIMIT.get());
            [part(of_class(class("T1")), LIMIT.get()), rest, (1.0 - part(used, LINK.get())).max(0.0)]
        })
        .collect();
    assert!(seconds.len() >= SECONDS, "too few steady windows: {:?}", outcome.windows);
    // T2 always has demand, so the link is unused only while the worker did not run. That part is missing in that
    // second, and in no other.
    for [limited, rest, unused] in &seconds {
        assert!(*limited <= 1.01, "over the limit: {seconds:?}");
        assert!(*limited >= 0.98 - unused, "under the limit while there is demand: {seconds:?}");
        assert!(*rest >= 0.95 - unused, "T2 lacks what the limit leaves: {seconds:?}");
    }
    let unused: f64 = seconds.iter().map(|[_, _, unused]| unused).sum();
    let lost = outcome.totals.link_lost;
    let most = lost.as_secs_f64() + 0.01 * seconds.len() as f64;
    assert!(unused <= most, "{unused} s of the link unused, of which the worker lost {lost}: {seconds:?}");
    let posted = outcome.totals.sum(|c| c.posted);
    assert_eq!(posted, outcome.totals.sum(|c| c.sent + c.held), "conserved");
}
