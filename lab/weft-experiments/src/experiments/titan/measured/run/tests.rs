//! A run on a plain pair of links. Without a NIC the log is invented: its flows are the kernel's connections, and
//! each has the same departures.

use super::super::path::PathError;
use super::*;
use crate::experiments::titan::measured::path::WireDeparture;
use crate::experiments::titan::measured::settings::SenderSettings;
use core::net::{IpAddr, Ipv4Addr};
use std::cell::RefCell;
use std::rc::Rc;
use weft_host::link::{self, VethOptions};
use weft_host::testing::{privileged, unique};
use weft_units::{Bytes, FlowKey, Instant, Packets, Protocol, TxQueueId, Weight};

const SENDER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

struct Pair {
    sender: NetNs,
    receiver: NetNs,
    log_from: Instant,
    connections: Vec<FlowKey>,
    lost: u64,
    /// The sender's limit of bytes below a socket, read when the log began.
    limit: Rc<RefCell<String>>,
}

/// Local and remote ports of the connections to an iperf3 server, from `/proc/net/tcp` of the sender.
fn connections(sender: &NetNs) -> Vec<FlowKey> {
    let text =
        sender.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp")).expect("entered").expect("read");
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    let key = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (sport, dport) = (port(fields.next()?)?, port(fields.next()?)?);
        let (src, dst) = (IpAddr::V4(SENDER), IpAddr::V4(RECEIVER));
        (dport >= 5201).then_some(FlowKey { src, dst, sport, dport, protocol: Protocol::TCP })
    };
    text.lines().filter_map(key).collect()
}

impl MeasuredPath for Pair {
    fn sender(&self) -> &NetNs {
        &self.sender
    }
    fn receiver(&self) -> &NetNs {
        &self.receiver
    }
    fn receiver_address(&self) -> IpAddr {
        IpAddr::V4(RECEIVER)
    }
    fn begin_log(&mut self) -> Result<(), PathError> {
        self.log_from = clock::now();
        self.connections = connections(&self.sender);
        *self.limit.borrow_mut() =
            sysctl::get(&self.sender, "net.ipv4.tcp_limit_output_bytes").expect("read");
        Ok(())
    }
    fn check(&mut self) -> Result<(), PathError> {
        Ok(())
    }
    fn nic_cpu(&self) -> Result<Nanos, PathError> {
        Ok(Nanos::ZERO)
    }
    /// The connections in turn, a frame every 12,304 ns.
    fn stop(self: Box<Self>) -> Result<WireLog, PathError> {
        let frame = 12_304;
        let count = (clock::now() - self.log_from).get() / frame;
        let departure = |i: u64| WireDeparture {
            start: self.log_from + Nanos(i * frame),
            end: self.log_from + Nanos((i + 1) * frame),
            queue: TxQueueId(0),
            flow: (i % self.connections.len() as u64) as u32,
            wire: Bytes(1538),
            segments: Packets(1),
        };
        let departures = (0..count).map(departure).collect();
        let flows = self.connections.into_iter().map(Some).collect();
        Ok(WireLog { flows, departures, lost: self.lost, ..WireLog::default() })
    }
}

fn pair() -> Pair {
    let make = |role: &str| NetNs::create(&unique(role)).expect("a namespace");
    let (sender, receiver) = (make("msnd"), make("mrcv"));
    link::create_veth((&sender, "a"), (&receiver, "b"), &VethOptions::default()).expect("links");
    for (ns, name, address) in [(&sender, "a", SENDER), (&receiver, "b", RECEIVER)] {
        link::add_address(ns, name, IpAddr::V4(address), 24).expect("an address");
        link::set_up(ns, name).expect("up");
    }
    link::wait_running(&sender, "a", weft_host::testing::PATIENCE).expect("running");
    Pair { sender, receiver, log_from: Instant::ZERO, connections: Vec::new(), lost: 0, limit: Rc::default() }
}

fn short(flows: u32) -> RunSettings {
    RunSettings {
        flows,
        warm_up: Nanos::from_millis(100),
        duration: Nanos::from_secs(1),
        sender: SenderSettings { tso_rtt_log: Some(9), limit_output: Some(Bytes(200_000)) },
        ..RunSettings::default()
    }
}

#[test]
fn all_flows_are_there_and_all_figures() {
    if !privileged("all_flows_are_there_and_all_figures") {
        return;
    }
    let settings = RunSettings { weights: Some(vec![Weight::ONE; 2]), ..short(6) };
    let limit = Rc::<RefCell<String>>::default();
    let open =
        |_: &RunSettings| Ok(Box::new(Pair { limit: limit.clone(), ..pair() }) as Box<dyn MeasuredPath>);
    let figures = run(&open, &settings, &|| false).expect("measured");
    // Each of the six flows is a connection in the kernel's table and has its number; no other connection has one.
    assert_eq!(figures.flows.len(), 6);
    assert!(figures.flows.iter().all(|rate| rate.get() > 50_000_000), "{figures:?}");
    assert!(figures.nfm_1s.is_some_and(|nfm| nfm.mean < 0.01 && nfm.intervals == 1), "{figures:?}");
    assert!(figures.nfm_1ms.is_some_and(|nfm| nfm.intervals == 1000), "{figures:?}");
    assert!(figures.nfm_equal_packets.is_some_and(|nfm| nfm.intervals == 100), "{figures:?}");
    let trips = &figures.round_trips;
    assert!(trips.seconds.len() > 10 && trips.p90().is_some_and(|p90| p90 < 1.0), "{trips:?}");
    assert!(figures.cpu_percent > 20.0, "iperf3 uses all available time: {figures:?}");
    assert_eq!(figures.cpu_nic_percent, 0.0);
    assert!(figures.shares.len() == 1 && (figures.shares[0][0] - 1.0).abs() < 0.01, "{figures:?}");
    assert_eq!(*limit.borrow(), "200000", "the sender's TCP has the setting");
}

#[test]
fn a_log_with_holes_gives_no_figures() {
    if !privileged("a_log_with_holes_gives_no_figures") {
        return;
    }
    let open = |_: &RunSettings| Ok(Box::new(Pair { lost: 3, ..pair() }) as Box<dyn MeasuredPath>);
    let error = run(&open, &short(2), &|| false).expect_err("lost");
    assert!(matches!(error, MeasuredError::Lost(3)), "{error}");
}

#[test]
fn being_asked_to_stop_ends_a_run_at_once() {
    if !privileged("being_asked_to_stop_ends_a_run_at_once") {
        return;
    }
    let begin = clock::now();
    let open = |_: &RunSettings| Ok(Box::new(pair()) as Box<dyn MeasuredPath>);
    let settings = RunSettings { warm_up: Nanos::from_secs(600), ..short(2) };
    let error = run(&open, &settings, &|| clock::now() > begin + Nanos::from_secs(1)).expect_err("stopped");
    assert!(matches!(error, MeasuredError::Stopped), "{error}");
    assert!(clock::now() - begin < Nanos::from_secs(5));
}

#[test]
fn what_cannot_be_made_is_said() {
    let open = |_: &RunSettings| Err(PathError::Other("there is no NIC here".to_owned()));
    let error = run(&open, &short(2), &|| false).expect_err("none");
    assert_eq!(error.to_string(), "there is no NIC here");
    let error = run(&open, &short(0), &|| false).expect_err("none");
    assert!(error.to_string().contains("0 flows"), "{error}");
}
