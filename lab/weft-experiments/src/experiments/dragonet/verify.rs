//! Verification of a plan on real packets: each flow's packets are sent through the software NIC, and each queue is
//! counted.

use super::frames::{NoPacket, frame_of};
use core::num::NonZeroU32;
use core::time::Duration;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use weft_host::link::{self, LinkError, Mac};
use weft_host::macvtap::{self, MacvtapError, MacvtapMode};
use weft_host::{OsError, clock, sysctl};
use weft_nic::receive::{Budget, ReceiveConfig, ReceiveError, ReceiveNic, ReceiveTotals, Steer};
use weft_nic::testbed::{Testbed, TestbedError};
use weft_packet::HeaderMatch;
use weft_packet::vnet::VnetHeader;
use weft_steer::Flow;
use weft_units::{Nanos, Packets, RxQueueId};

/// Packets that the wire and a queue's ring hold: no packet of the test may be dropped for lack of space.
const ROOM: u32 = 4096;
/// Service rate of a queue, so high that the wire is the limit: steering is verified, not service.
const BUDGET: Budget = Budget { packets_per_s: const_u32(10_000_000), burst: const_u32(ROOM) };
/// Time limit for packets to pass from the wire to their queue.
const PATIENCE: Nanos = Nanos::from_secs(2);
/// The device that injects frames into the wire.
const INJECTOR: &str = "inject0";
/// Its address, which no packet has.
const INJECTOR_MAC: u32 = 0x57ff;

const fn const_u32(value: u32) -> NonZeroU32 {
    match NonZeroU32::new(value) {
        Some(value) => value,
        None => NonZeroU32::MIN,
    }
}

/// The destination that a plan predicts for a flow's packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Prediction {
    /// All packets to this queue.
    Queue(RxQueueId),
    /// Each packet to one of these: a flow with wildcards that RSS spreads.
    OneOf(Vec<RxQueueId>),
    /// Each packet to one of these, or dropped.
    OneOfOrDropped(Vec<RxQueueId>),
    /// All packets dropped by a rule.
    Dropped,
}

/// A flow with its predicted destination.
#[derive(Clone, PartialEq, Debug)]
pub struct Expected {
    /// The flow.
    pub flow: Flow,
    /// The plan's prediction.
    pub prediction: Prediction,
}

/// Parameters of a verification.
#[derive(Clone, Copy, Debug)]
pub struct VerifyOptions {
    /// Receive queues of the NIC.
    pub queues: u32,
    /// Packets of each flow. The flow's wildcards are drawn anew for each.
    pub packets: u32,
    /// Seed of the random draws.
    pub seed: u64,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self { queues: 1, packets: 3, seed: 1 }
    }
}

/// The result of a flow.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowSeen {
    /// The flow.
    pub flow: Flow,
    /// The plan's prediction.
    pub prediction: Prediction,
    /// Packets that were sent.
    pub sent: Packets,
    /// Packets that each queue delivered.
    pub queues: Vec<Packets>,
    /// Packets that a rule dropped.
    pub dropped: Packets,
    /// Packets steered to a queue that the NIC does not have.
    pub misrouted: Packets,
    /// Whether all packets arrived as predicted.
    pub ok: bool,
}

/// The result of a verification.
#[derive(Clone, PartialEq, Debug)]
pub struct VerifyReport {
    /// Flows in the given order.
    pub flows: Vec<FlowSeen>,
    /// The NIC's counters.
    pub totals: ReceiveTotals,
}

impl VerifyReport {
    /// Whether every flow arrived as predicted.
    pub fn ok(&self) -> bool {
        self.flows.iter().all(|flow| flow.ok)
    }
}

/// The reason that a plan could not be verified. Flows that arrive elsewhere are no error; the report shows them.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A step on the namespaces failed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// A step on a link failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A step on the injecting device failed.
    #[error(transparent)]
    Macvtap(#[from] MacvtapError),
    /// A step on the NIC failed.
    #[error(transparent)]
    Nic(#[from] ReceiveError),
    /// No packet can be built for a flow.
    #[error(transparent)]
    NoPacket(#[from] NoPacket),
    /// A frame could not be sent.
    #[error(transparent)]
    Send(#[from] OsError),
    /// The number of packets per flow is zero.
    #[error("verifying needs at least one packet of each flow")]
    NoPackets,
    /// Frames were sent and did not reach a queue.
    #[error(
        "{missing} of {sent} packets of the flow `{flow}` did not reach a queue within {} s; \
         the machine may be overloaded: try again",
        PATIENCE.as_secs_f64()
    )]
    Late {
        /// The flow.
        flow: Box<HeaderMatch>,
        /// Packets sent.
        sent: u64,
        /// Packets missing.
        missing: u64,
    },
    /// The NIC's accounting does not balance.
    #[error(transparent)]
    Imbalance(#[from] weft_nic::receive::Imbalance),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Sends packets of each of `flows` into the wire of a software NIC that steers by `steer`, and counts each queue.
/// Everything is in namespaces of this run. `stop` is polled before each flow; `progress` gets the number of flows
/// done.
///
/// # Errors
/// See [`VerifyError`].
pub fn verify(
    options: &VerifyOptions,
    steer: Arc<Steer>,
    flows: &[Expected],
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize),
) -> Result<VerifyReport, VerifyError> {
    if options.packets == 0 {
        return Err(VerifyError::NoPackets);
    }
    let testbed = Testbed::create(&super::role("verify"))?;
    let (wire, host) = testbed.devices(1, ROOM)?;
    let host_name = host.name().to_owned();
    let config = ReceiveConfig { queues: options.queues, ring_packets: ROOM, budget: BUDGET };
    let nic = ReceiveNic::start(&config, wire, host, steer)?;
    link::set_up(&testbed.receiver, &host_name)?;
    let mut wire = Injector::open(&testbed, nic.wire().name())?;
    let mut random = Pcg64Mcg::new(options.seed.into());
    let mut seen = Vec::with_capacity(flows.len());
    for (done, expected) in flows.iter().enumerate() {
        if stop() {
            return Err(VerifyError::Interrupted);
        }
        progress(done);
        seen.push(one_flow(&nic, &mut wire, expected, options.packets, &mut random)?);
    }
    progress(flows.len());
    drop(wire);
    let totals = nic.stop(PATIENCE)?;
    totals.check()?;
    Ok(VerifyReport { flows: seen, totals })
}

/// A reading of the counters that verification compares.
struct Reading {
    read: u64,
    queues: Vec<u64>,
    dropped: u64,
    misrouted: u64,
}

impl Reading {
    fn of(nic: &ReceiveNic) -> Self {
        let c = nic.counters();
        let queues = c.queues.iter().map(|queue| queue.totals().served().packets.get());
        Self {
            queues: queues.collect(),
            dropped: c.filtered.get().packets.get(),
            misrouted: c.misrouted.get().packets.get(),
            read: c.read.get().packets.get(),
        }
    }

    /// Returns the packets delivered, dropped or misrouted.
    fn ended(&self) -> u64 {
        self.queues.iter().sum::<u64>() + self.dropped + self.misrouted
    }
}

fn one_flow(
    nic: &ReceiveNic,
    wire: &mut Injector,
    expected: &Expected,
    packets: u32,
    random: &mut Pcg64Mcg,
) -> Result<FlowSeen, VerifyError> {
    let before = Reading::of(nic);
    for _ in 0..packets {
        wire.send(&frame_of(&expected.flow.headers, random)?)?;
    }
    let sent = u64::from(packets);
    let until = clock::now() + PATIENCE;
    let after = loop {
        let now = Reading::of(nic);
        let ended = now.ended() - before.ended();
        if ended >= sent && now.read - before.read >= sent {
            break now;
        }
        if clock::now() >= until || !nic.is_running() {
            let flow = Box::new(expected.flow.headers);
            return Err(VerifyError::Late { flow, sent, missing: sent.saturating_sub(ended) });
        }
        std::thread::sleep(Duration::from_micros(50));
    };
    let difference = |after: u64, before: u64| Packets(after - before);
    let queues: Vec<_> = after.queues.iter().zip(&before.queues).map(|(a, b)| difference(*a, *b)).collect();
    let dropped = difference(after.dropped, before.dropped);
    let misrouted = difference(after.misrouted, before.misrouted);
    let ok = after.ended() - before.ended() == sent
        && went_as(&expected.prediction, &queues, dropped, Packets(sent));
    let Expected { flow, prediction } = expected.clone();
    Ok(FlowSeen { flow, prediction, sent: Packets(sent), queues, dropped, misrouted, ok })
}

/// Whether all `sent` packets arrived as predicted.
fn went_as(prediction: &Prediction, queues: &[Packets], dropped: Packets, sent: Packets) -> bool {
    let at = |some: &[RxQueueId]| -> Packets {
        let distinct: BTreeSet<_> = some.iter().collect();
        distinct.into_iter().filter_map(|queue| queues.get(queue.index())).copied().sum()
    };
    match prediction {
        Prediction::Queue(queue) => at(&[*queue]) == sent,
        Prediction::OneOf(some) => at(some) == sent,
        Prediction::OneOfOrDropped(some) => at(some) + dropped == sent,
        Prediction::Dropped => dropped == sent,
    }
}

/// Injects frames into the near end of the wire: a macvtap on it, so that no address must belong to a host.
#[derive(Debug)]
struct Injector {
    device: File,
    buffer: Vec<u8>,
}

impl Injector {
    fn open(testbed: &Testbed, wire: &str) -> Result<Self, VerifyError> {
        let ns = &testbed.sender;
        let mac = Some(Mac::local(INJECTOR_MAC));
        macvtap::create(ns, wire, INJECTOR, MacvtapMode::Bridge, 1, 64, mac)?;
        // The device's own router discovery would send packets that belong to no flow. A kernel without IPv6 sends
        // none.
        let _ = sysctl::set(ns, &format!("net/ipv6/conf/{INJECTOR}/disable_ipv6"), "1");
        let queue = macvtap::open_queues(ns, INJECTOR, 1)?.pop();
        let queue = queue.ok_or(MacvtapError::Queues { link: INJECTOR.to_owned(), asked: 1 })?;
        link::set_up(ns, INJECTOR)?;
        link::wait_running(ns, INJECTOR, Duration::from_secs(2))?;
        Ok(Self { device: File::from(queue), buffer: Vec::new() })
    }

    fn send(&mut self, frame: &[u8]) -> Result<(), VerifyError> {
        self.buffer.clear();
        self.buffer.extend_from_slice(&VnetHeader::default().emit());
        self.buffer.extend_from_slice(frame);
        let until = clock::now() + PATIENCE;
        loop {
            match self.device.write(&self.buffer) {
                Ok(_) => return Ok(()),
                // The socket's buffer bounds the packets in the wire.
                Err(e) if e.kind() == ErrorKind::WouldBlock && clock::now() < until => {
                    std::thread::sleep(Duration::from_micros(50));
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(OsError::new(format!("send a frame through {INJECTOR}"), e).into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_host::testing;
    use weft_packet::{Field, HashedFields, Prefix, RssKey, Toeplitz};
    use weft_units::{FlowKey, Protocol};

    const QUEUES: u32 = 8;

    /// RSS over six queues, one exact rule, a VLAN that is dropped, a type with a separate queue.
    fn model(headers: &HeaderMatch) -> Option<RxQueueId> {
        let ssh = HeaderMatch::ALL.exact(Field::IpProtocol, 6).exact(Field::DstPort, 22);
        if headers.ether_type() == Some(0x8906) || ssh.covers(headers) {
            return Some(RxQueueId(7));
        }
        if headers.get(Field::Vlan).0 & 0xfff == 13 {
            return None;
        }
        let toeplitz = Toeplitz::new(&RssKey::default());
        Some(RxQueueId(headers.flow().map_or(0, |flow| toeplitz.flow(&flow, fields(flow.protocol)) % 6)))
    }

    /// SCTP is hashed without ports.
    fn fields(protocol: Protocol) -> HashedFields {
        if protocol == Protocol::SCTP { HashedFields::Addresses } else { HashedFields::AddressesAndPorts }
    }

    fn key(i: u16, v6: bool, protocol: Protocol) -> FlowKey {
        let address = |v4: &str, v6_text: &str| if v6 { v6_text } else { v4 }.parse().expect("address");
        let (src, dst) = (address("192.0.2.7", "2001:db8::7"), address("198.51.100.9", "2001:db8::9"));
        FlowKey { src, dst, sport: 1000 + i, dport: 80, protocol }
    }

    /// The same model over five-tuples: the predictions of a plan.
    fn of_flow(key: &FlowKey) -> Prediction {
        let hash = Toeplitz::new(&RssKey::default()).flow(key, fields(key.protocol));
        Prediction::Queue(RxQueueId(hash % 6))
    }

    fn some_flow(headers: HeaderMatch) -> Flow {
        Flow { headers, weight: 1, rate: None, class: None, core: None }
    }

    fn flows() -> Vec<Expected> {
        let mut flows = Vec::new();
        for i in 0..30 {
            for protocol in [Protocol::TCP, Protocol::UDP, Protocol::SCTP] {
                let key = key(i, i % 2 == 0, protocol);
                flows.push(Expected { flow: Flow::new(&key), prediction: of_flow(&key) });
            }
        }
        let special = [
            (HeaderMatch::ALL.exact(Field::EtherType, 0x8906), Prediction::Queue(RxQueueId(7))),
            (
                HeaderMatch::ALL.exact(Field::IpProtocol, 6).exact(Field::DstPort, 22),
                Prediction::Queue(RxQueueId(7)),
            ),
            (HeaderMatch::ALL.exact(Field::Vlan, 13), Prediction::Dropped),
            (
                HeaderMatch::ALL.prefix(Field::SrcIp, Prefix::host("192.0.2.7".parse().expect("address"))),
                Prediction::OneOf((0..6).map(RxQueueId).collect()),
            ),
        ];
        flows.extend(special.map(|(headers, prediction)| Expected { flow: some_flow(headers), prediction }));
        flows
    }

    #[test]
    fn a_right_plan_is_verified_and_a_wrong_one_is_not() {
        if !testing::privileged("a_right_plan_is_verified_and_a_wrong_one_is_not") {
            return;
        }
        let options = VerifyOptions { queues: QUEUES, ..VerifyOptions::default() };
        let mut flows = flows();
        // Two wrong predictions: another queue, and a drop that does not happen.
        let wrong = [4, 5];
        flows[wrong[0]].prediction = Prediction::Queue(RxQueueId(6));
        flows[wrong[1]].prediction = Prediction::Dropped;
        let mut told = 0;
        let report =
            verify(&options, Arc::new(model), &flows, &|| false, &mut |done| told = done).expect("verified");
        assert_eq!(told, flows.len());
        let found: Vec<_> = (0..flows.len()).filter(|i| !report.flows[*i].ok).collect();
        assert_eq!(found, wrong, "{:?}", report.flows);
        assert!(!report.ok());
        assert_eq!(report.totals.read.packets, Packets(3 * flows.len() as u64));
        let stopped = verify(&options, Arc::new(model), &flows, &|| true, &mut |_| ());
        assert!(matches!(stopped, Err(VerifyError::Interrupted)), "{stopped:?}");
    }
}
