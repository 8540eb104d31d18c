//! Runs on real packets, and rejected options.

use super::client::{flows, keys};
use super::run::members;
use super::testbed::SERVER_PORT;
use super::*;
use core::num::NonZeroU32;
use std::sync::MutexGuard;
use weft_host::{RunId, clock, testing};
use weft_nic::receive::Budget;
use weft_packet::{Field, HeaderMatch};
use weft_steer::Configuration;
use weft_units::{Packets, RxQueueId};

#[test]
fn what_cannot_be_is_refused() {
    let good = IsolationOptions::default();
    assert!(good.check().is_ok());
    for bad in [
        IsolationOptions { scale: 0.0, ..good },
        IsolationOptions { scale: f64::NAN, ..good },
        IsolationOptions { value_bytes: 1400, ..good },
        IsolationOptions { hp_clients: 0, ..good },
        IsolationOptions { be_clients: 250, ..good },
        IsolationOptions { flows_per_client: 0, ..good },
        IsolationOptions { set_percent: 101, ..good },
        IsolationOptions { timeout: Nanos::ZERO, ..good },
    ] {
        assert!(matches!(bad.check(), Err(IsolationError::Options(_))), "{bad:?}");
    }
}

/// A plan as with a rule for each flow: HP flows in the first `hp` queues, others in the rest, by source port.
fn isolated(queues: u32, hp: u32) -> PlanInForce {
    let steer = move |headers: &HeaderMatch| {
        let flow = headers.flow()?;
        let is_hp = (0..=2).any(|n| testbed::address(Class::HighPriority, n) == flow.src);
        let (first, count) = if is_hp { (0, hp) } else { (hp, queues - hp) };
        Some(RxQueueId(first + u32::from(flow.sport) % count))
    };
    PlanInForce { configuration: Configuration::default(), steer: Arc::new(steer) }
}

fn small() -> IsolationOptions {
    let some = |n| NonZeroU32::new(n).expect("not zero");
    IsolationOptions {
        queues: 4,
        budget: Budget { packets_per_s: some(400), burst: some(4) },
        be_clients: 5,
        flows_per_client: 4,
        scale: 0.02,
        ..IsolationOptions::default()
    }
}

fn ready(test: &str) -> Option<MutexGuard<'static, ()>> {
    if let Err(why) = require_server() {
        testing::skip(test, why);
        return None;
    }
    testing::privileged(test).then(testing::alone)
}

/// The experiment's namespaces of this process.
fn namespaces() -> Vec<String> {
    let entries = std::fs::read_dir(weft_host::netns::NETNS_DIR).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&RunId::current().name("iso"))).collect()
}

#[test]
fn flows_land_where_the_configuration_says_and_the_accounting_balances() {
    let Some(_alone) = ready("flows_land_where_the_configuration_says_and_the_accounting_balances") else {
        return;
    };
    let options = small();
    let mut calls = Vec::new();
    let mut replan = |added: &[Flow], removed: &[Flow]| {
        calls.push((added.len(), removed.len()));
        // The first plan is made before any namespace exists.
        assert_eq!(namespaces().is_empty(), calls.len() == 1);
        Ok(isolated(4, 2))
    };
    let mut events = Vec::new();
    let outcome = run("isolation", &options, &mut replan, &|| false, &mut |e| events.push(e));
    let outcome = outcome.expect("the run");
    assert_eq!(calls, [(28, 0), (4, 0), (0, 4), (4, 0), (0, 4)]);
    assert_eq!(outcome.clients.len(), 2 + 1 + 5 + 1);
    assert!(outcome.requests.balances(), "{:?}", outcome.requests);
    assert_eq!(
        outcome.requests.errors, 0,
        "keys are set, and each get finds its own: {:?}",
        outcome.requests
    );
    assert_eq!(outcome.unexplained, Packets(0), "{outcome:?}");
    assert_eq!(weft_run::steering::conservation(&outcome.nic).violations(), [""; 0]);
    let mut expected = [0; 4];
    let plan = isolated(4, 2);
    for flow in outcome.clients.iter().flat_map(|client| &client.flows) {
        let queue = (plan.steer)(&HeaderMatch::of_flow(&flow.key)).expect("a queue");
        expected[queue.index()] += flow.counts.sent;
    }
    let counted: Vec<_> = outcome.nic.queues.iter().map(|queue| queue.arrived.packets.get()).collect();
    assert_eq!(counted, expected);
    assert!(outcome.clients.iter().all(|client| client.counts.answered > 0), "{:?}", outcome.clients);
    let phases: Vec<_> = outcome.phases.iter().map(|phase| phase.phase).collect();
    assert_eq!(
        phases,
        [RunPhase::Before, RunPhase::Joined(Class::HighPriority), RunPhase::Joined(Class::BestEffort)]
    );
    assert!(outcome.phases.iter().all(|phase| phase.hp.requests > 0 && phase.be.requests > 0));
    assert!(events.iter().any(|event| matches!(event, IsolationEvent::Live { .. })));
}

#[test]
fn requests_that_a_full_queue_drops_are_sent_again() {
    let Some(_alone) = ready("requests_that_a_full_queue_drops_are_sent_again") else { return };
    // With the largest value, request and answer fit into a datagram each.
    let value_bytes = super::protocol::LARGEST_VALUE;
    let timeout = Nanos::from_millis(60);
    let options = IsolationOptions { ring_packets: 3, value_bytes, timeout, ..small() };
    let mut replan = |_: &[Flow], _: &[Flow]| Ok(isolated(4, 2));
    let outcome = run("x", &options, &mut replan, &|| false, &mut |_| ()).expect("the run");
    let requests = outcome.requests;
    let dropped = outcome.nic.sum(|queue| queue.dropped.packets).get();
    assert!(requests.balances() && requests.timed_out > 0 && dropped > 0, "{outcome:?}");
    assert!(dropped <= requests.timed_out + requests.abandoned, "{requests:?}, {dropped} dropped");
    assert_eq!((requests.errors, outcome.unexplained), (0, Packets(0)), "{requests:?}");
    assert_eq!(weft_run::steering::conservation(&outcome.nic).violations(), [""; 0]);
}

#[test]
fn a_run_that_is_interrupted_leaves_nothing() {
    let Some(_alone) = ready("a_run_that_is_interrupted_leaves_nothing") else { return };
    let began = clock::now();
    let stop = || clock::now().saturating_since(began) > Nanos::from_millis(900);
    let mut replan = |_: &[Flow], _: &[Flow]| Ok(isolated(4, 2));
    let result = run("x", &IsolationOptions { scale: 1.0, ..small() }, &mut replan, &stop, &mut |_| ());
    assert!(matches!(result, Err(IsolationError::Interrupted)), "{result:?}");
    let took = clock::now().saturating_since(began);
    assert!(took < Nanos::from_secs(4), "interrupted after 0.9 s, ended after {} s", took.as_secs_f64());
    assert_eq!(namespaces(), [""; 0]);
    let no_room = PlanError::NoQueue { nic: 1, limit: 1, reserved: 1 };
    let mut failing = |_: &[Flow], _: &[Flow]| Err(no_room.clone());
    let result = run("x", &small(), &mut failing, &|| false, &mut |_| ());
    assert!(matches!(&result, Err(IsolationError::Plan(why)) if *why == no_room), "{result:?}");
}

#[test]
fn protocol_fields_of_a_flow_are_what_its_packets_have() {
    let options = small();
    for (class, number) in members(&options) {
        for (key, flow) in keys(class, number, 4).zip(flows(class, number, 4)) {
            assert_eq!(flow.headers.flow(), Some(key));
            assert_eq!(flow.headers.get(Field::DstPort).0, u128::from(SERVER_PORT));
            assert_eq!(flow.class.as_deref(), Some(class.name()));
        }
    }
}
