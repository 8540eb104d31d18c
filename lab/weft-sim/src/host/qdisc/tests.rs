//! The qdisc layer driven alone: segments in, segments in the NIC's rings out.

use super::*;
use crate::assignment::{LeastOccupied, RoundRobinAssignment};
use crate::cost::Costs;
use crate::host::nic::{TransmitParameters, Turn};
use crate::nic::scheduler;
use crate::qdisc::Pfifo;
use weft_units::BitsPerSec;
use weft_units::LinkTransmitter;

const HOST: HostId = HostId(1);
const STREAM: StreamId = StreamId(0);

/// A layer with two queues, its NIC and their environment.
struct Bench {
    layer: QdiscLayer,
    nic: NicTransmit,
    cpu: Processors,
    agenda: Agenda,
    skbs: Skbs,
    facts: Stream,
    sockets: Table<StreamId, Socket>,
}

fn bench(parameters: QdiscParameters, assignment: Box<dyn QueueAssignment>, packets: u32) -> Bench {
    let qdiscs = (0..2).map(|_| Box::new(Pfifo::new(packets)) as Box<dyn Qdisc>).collect();
    let wire = LinkTransmitter::new(BitsPerSec(1_000_000_000)).expect("a rate");
    let transmit = TransmitParameters { ring: 4, turn: Turn::Packet, ahead: Nanos::ZERO };
    let scheduler = Box::new(scheduler::RoundRobin::new(2));
    let facts = Stream {
        from: HOST,
        to: HostId(0),
        core: CoreId(0),
        class: 0,
        band: 0,
        weight: 3,
        hash: 0,
        traffic_class: None,
        flow: None,
    };
    Bench {
        layer: QdiscLayer::new(HOST, qdiscs, assignment, parameters),
        nic: NicTransmit::new(HOST, 2, transmit, scheduler, wire),
        cpu: Processors::new(HOST, 1, 1, &Costs::FREE),
        agenda: Agenda::new(),
        skbs: Skbs::new(),
        facts,
        sockets: Table::of(Socket::default(), 4),
    }
}

fn parameters() -> QdiscParameters {
    QdiscParameters {
        byte_queue_limit: ByteQueueLimit::Off,
        segmentation: Segmentation::Nic,
        shared_size: None,
        weights: None,
        pools: Pools::ByCore { cores: 1, queues: vec![vec![TxQueueId(0), TxQueueId(1)]] },
    }
}

impl Bench {
    fn with<T>(
        &mut self,
        job: impl FnOnce(&mut QdiscLayer, &mut NicTransmit, &mut Table<StreamId, Socket>, &mut Kernel<'_>) -> T,
    ) -> T {
        let mut work = self.cpu.at_once(CoreId(0), Nanos(100));
        let mut kernel =
            Kernel { cpu: &mut self.cpu, work: &mut work, agenda: &mut self.agenda, skbs: &mut self.skbs };
        job(&mut self.layer, &mut self.nic, &mut self.sockets, &mut kernel)
    }

    /// Sends three packets of a stream as one segment.
    fn send(&mut self, stream: StreamId) -> (TxQueueId, Segment) {
        let body = Body::Data { first: 10 };
        let outgoing = Outgoing { stream, body, payload: 3000, packet_payload: 1448 };
        let facts = self.facts;
        self.with(|layer, _, sockets, kernel| layer.send(&outgoing, &facts, &mut sockets[stream], kernel))
    }

    fn hand_over(&mut self, queue: TxQueueId) -> Handed {
        self.with(|layer, nic, sockets, kernel| layer.hand_over(queue, nic, sockets, kernel, |_, _| ()))
    }

    fn release(&mut self, queue: TxQueueId, segment: &Segment) {
        let skb = self.skbs.remove(segment.skb);
        let owner = (&self.facts, &mut self.sockets[segment.flow]);
        self.layer.release((queue, segment), skb.truesize, owner, Nanos(200), &mut self.agenda);
    }
}

#[test]
fn a_segment_goes_through_the_qdisc_to_the_ring_and_charges_its_socket() {
    let mut bench = bench(parameters(), Box::new(RoundRobinAssignment::default()), 10);
    let (queue, segment) = bench.send(STREAM);
    assert_eq!((segment.packets, segment.len), (3, 3000 + 3 * 66));
    assert_eq!(bench.layer.held().packets.0, 3);
    let socket = bench.sockets[STREAM];
    assert_eq!((socket.queue, socket.outstanding, socket.charged), (Some(queue), 1, 3000 + 2304));
    assert_eq!(bench.hand_over(queue), Handed { segments: 1, descriptors: 1, changes: 0 });
    assert_eq!((bench.layer.held(), bench.nic.held().packets.0), (Counted::ZERO, 3));
    bench.release(queue, &segment);
    let socket = bench.sockets[STREAM];
    assert_eq!((socket.outstanding, socket.charged), (0, 0));
}

/// Two segments of three packets, of two flows: a batch, two flows, and two or six descriptors.
#[test]
fn a_driver_without_batches_writes_more_registers() {
    for (segmentation, descriptors) in [(Segmentation::Nic, 2), (Segmentation::Stack, 6)] {
        let pools = Pools::ByCore { cores: 1, queues: vec![vec![TxQueueId(0)]] };
        let parameters = QdiscParameters { segmentation, pools, ..parameters() };
        let mut bench = bench(parameters, Box::new(RoundRobinAssignment::default()), 10);
        let (queue, _) = bench.send(STREAM);
        bench.send(StreamId(1));
        let handed = bench.hand_over(queue);
        let kinds =
            [DoorbellWrites::None, DoorbellWrites::PerBatch, DoorbellWrites::PerFlow, DoorbellWrites::PerSkb];
        assert_eq!(kinds.map(|kind| handed.doorbells(kind)), [0, 1, 2, descriptors], "{handed:?}");
    }
}

#[test]
fn the_stack_cuts_segments_where_the_nic_does_not_and_shares_the_charge() {
    let segmentation = Segmentation::Stack;
    let mut bench = bench(
        QdiscParameters { segmentation, ..parameters() },
        Box::new(RoundRobinAssignment::default()),
        10,
    );
    let (queue, _) = bench.send(STREAM);
    bench.hand_over(queue);
    let socket = bench.sockets[STREAM];
    assert_eq!((socket.outstanding, socket.charged), (3, 3000 + 2304));
    let mut pieces = Vec::new();
    while let Some(fetched) = bench.nic.fetch(queue, Nanos(100), &mut bench.skbs) {
        pieces.push((fetched.packet.body, fetched.packet.payload));
        bench.release(queue, &fetched.done.expect("one packet each"));
    }
    let data = |first| Body::Data { first };
    assert_eq!(pieces, [(data(10), 1448), (data(11), 1448), (data(12), 104)]);
    assert_eq!(bench.sockets[STREAM].charged, 0);
}

#[test]
fn a_full_ring_leaves_the_rest_in_the_qdisc() {
    let mut bench = bench(parameters(), Box::new(RoundRobinAssignment::default()), 10);
    let (queue, _) = bench.send(STREAM);
    for _ in 0..5 {
        bench.send(STREAM);
    }
    assert_eq!(bench.hand_over(queue).segments, 4);
    assert_eq!(bench.layer.held().packets.0, 6);
}

#[test]
fn what_a_qdisc_drops_is_counted_and_waits_to_be_released() {
    let mut bench = bench(parameters(), Box::new(RoundRobinAssignment::default()), 1);
    let (queue, first) = bench.send(STREAM);
    let (_, second) = bench.send(STREAM);
    let dropped = bench.layer.take_dropped();
    assert_eq!(dropped, [second]);
    assert_eq!(bench.layer.passed().dropped.packets.0, 3);
    bench.release(queue, &second);
    bench.layer.reuse_dropped(dropped);
    assert!(!bench.layer.has_dropped());
    assert_eq!(bench.sockets[STREAM].outstanding, 1);
    bench.release(queue, &first);
}

#[test]
fn a_stream_of_which_nothing_is_outstanding_is_assigned_anew_and_weights_are_told() {
    let weights = Some(WeightTiming { delay: Nanos(50), interval: Nanos(120) });
    let mut bench = bench(QdiscParameters { weights, ..parameters() }, Box::new(LeastOccupied), 10);
    let (first, segment) = bench.send(STREAM);
    assert_eq!(bench.agenda.pop(), Some((Nanos(150), Event::Weights { host: HOST })));
    let (other, _) = bench.send(StreamId(2));
    assert_eq!((first, other), (TxQueueId(0), TxQueueId(1)));
    assert_eq!(bench.send(STREAM).0, first, "something is outstanding");
    bench.layer.begin_weights(Nanos(150));
    let told = [bench.layer.next_weight(), bench.layer.next_weight(), bench.layer.next_weight()];
    let weight = |queue| Weight::new(3).map(|weight| (queue, weight));
    assert_eq!(told, [weight(other), weight(first), None]);
    bench.release(first, &segment);
    assert_eq!(bench.layer.choice.occupancy[first].weight, 3, "its second segment is there");
}

#[test]
fn one_core_at_a_time_runs_a_qdisc() {
    let mut costs = Costs::FREE;
    costs.table[CostedOperation::TransmitSegment as usize][0] = 100.0;
    let mut cpu = Processors::new(HOST, 2, 1, &costs);
    let mut layer = QdiscLayer::new(
        HOST,
        vec![Box::new(Pfifo::new(1))],
        Box::new(RoundRobinAssignment::default()),
        parameters(),
    );
    let queue = TxQueueId(0);
    let mut one = cpu.at_once(CoreId(0), Nanos(0));
    assert_eq!(layer.begin_run(queue, &one), Runner::This);
    cpu.charge(CostedOperation::TransmitSegment, 1.0, &mut one);
    layer.end_run(queue, &one);
    let other = cpu.at_once(CoreId(1), Nanos(40));
    assert_eq!(layer.begin_run(queue, &other), Runner::Other { core: CoreId(0), until: Nanos(100) });
    assert_eq!(layer.begin_run(queue, &other), Runner::OtherKnows);
    assert_eq!(layer.begin_run(queue, &cpu.at_once(CoreId(1), Nanos(100))), Runner::This);
}
