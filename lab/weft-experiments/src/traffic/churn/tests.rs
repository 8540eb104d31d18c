//! Short flows through a veth pair: both sides' counts, and the order check's.

use super::*;
use crate::experiments::titan::order::{Hook, OrderCheck};
use crate::testbed::pair::{Pair, RECEIVER, RECEIVER_LINK, SENDER_LINK};
use weft_host::testing::privileged;

#[test]
fn settings_that_cannot_be_are_refused() {
    for wrong in [
        ShortFlows { threads: 0, ..ShortFlows::default() },
        ShortFlows { ports: 1, ..ShortFlows::default() },
        ShortFlows { bytes: 0, ..ShortFlows::default() },
        ShortFlows { first_port: 65_530, ..ShortFlows::default() },
        ShortFlows {
            how_closed: ClosingShares { orderly: 0, reset: 0, abandoned: 0 },
            ..ShortFlows::default()
        },
    ] {
        assert!(matches!(wrong.check(), Err(TrafficError::Invalid(_))), "{wrong:?}");
    }
    ShortFlows::default().check().expect("fits");
}

#[test]
fn both_sides_count_the_same_endings() {
    if !privileged("both_sides_count_the_same_endings") {
        return;
    }
    let pair = Pair::create();
    let egress = OrderCheck::attach(&pair.sender, SENDER_LINK, Hook::Egress).expect("egress");
    let ingress = OrderCheck::attach(&pair.receiver, RECEIVER_LINK, Hook::Ingress).expect("ingress");
    let how_closed = ClosingShares { orderly: 4, reset: 3, abandoned: 1 };
    let flows = ShortFlows { how_closed, per_second: 2000, bytes: 3000, ..ShortFlows::default() };
    let stop = AtomicBool::new(false);
    let report = run(&flows, &pair.sender, &pair.receiver, RECEIVER, Duration::from_secs(2), &stop);
    let report = report.expect("traffic");
    let (sent, came) = (egress.counts(), ingress.counts());
    println!("{report:?}, {:.0}/s\n{sent:?}\n{came:?}", report.per_second());
    let (clients, servers) = (report.clients, report.servers);
    assert!(clients.balances() && servers.balances(), "{report:?}");
    assert_eq!(clients.failed, Failures::default());
    assert!(clients.started >= 100, "{clients:?}");
    assert_eq!(
        (clients.orderly, clients.reset, clients.abandoned),
        (servers.orderly, servers.reset, servers.left_open)
    );
    assert_eq!((servers.answered, servers.failed), (clients.started, 0));
    assert!([clients.orderly, clients.reset, clients.abandoned].iter().all(|&n| n > 0));
    assert_eq!((sent.late.get(), sent.at_once.get(), sent.gaps, sent.beyond.get()), (0, 0, 0, 0), "{sent:?}");
    assert_eq!(sent.flows, clients.started, "{sent:?}");
    // Closed flows are forgotten; abandoned ones are closed by now too.
    std::thread::sleep(Duration::from_millis(50));
    // A five-tuple that was used twice is one entry and two flows.
    let remembered = egress.remembered();
    assert!(remembered <= sent.flows && remembered > sent.flows / 2, "{remembered} of {sent:?}");
    assert_eq!((egress.forget_closed(Duration::ZERO), egress.remembered()), (remembered, 0));
}

#[test]
fn nobody_who_listens_is_a_failure_of_its_kind() {
    if !privileged("nobody_who_listens_is_a_failure_of_its_kind") {
        return;
    }
    let pair = Pair::create();
    let flows = ShortFlows { per_second: 500, threads: 1, ..ShortFlows::default() };
    let begin = clock::now();
    let stop = AtomicBool::new(false);
    let end = begin + Nanos::from_millis(300);
    let ended = pair.sender.run(|| clients(&flows, RECEIVER, begin, end, &stop)).expect("namespace");
    let mut counts = ClientCounts::default();
    ended.expect("clients").iter().for_each(|part| part.add_to(&mut counts));
    assert!(counts.balances() && counts.started > 0, "{counts:?}");
    assert_eq!(counts.failed.refused, counts.started, "{counts:?}");
}
