//! The engine as the link's scheduler.

use crate::link::{LinkDequeue, Scheduler};
use weft_sched::{Descriptor, EnqueueError, FlowError, PacketScheduler};
use weft_units::{Bytes, FlowId, Instant, LaneId, Nanos, Packets, Weight};

/// The engine's reason for a refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EngineRefusal {
    /// The reason for refusing a flow.
    Flow(FlowError),
    /// The reason for refusing a packet.
    Packet(EnqueueError),
}

impl Scheduler for PacketScheduler {
    type Refused = EngineRefusal;

    fn reason(refused: &EngineRefusal) -> &'static str {
        match refused {
            EngineRefusal::Flow(_) => "flow refused",
            EngineRefusal::Packet(EnqueueError::ClassFull { .. }) => "class full",
            EngineRefusal::Packet(EnqueueError::UnknownFlow { .. }) => "unknown flow",
            EngineRefusal::Packet(_) => "packet refused",
        }
    }

    fn add_flow(&mut self, lane: LaneId, weight: Weight) -> Result<FlowId, EngineRefusal> {
        Self::add_flow(self, lane, weight).map_err(EngineRefusal::Flow)
    }

    fn enqueue(&mut self, flow: FlowId, len: Bytes, handle: u64, now: Nanos) -> Result<(), EngineRefusal> {
        Self::enqueue(self, flow, Descriptor { len, handle }, Instant::after_epoch(now))
            .map_err(EngineRefusal::Packet)
    }

    fn dequeue(&mut self, now: Nanos) -> LinkDequeue {
        match Self::dequeue(self, Instant::after_epoch(now)) {
            weft_sched::Dequeue::Packet(departure) => LinkDequeue::Packet {
                flow: departure.flow,
                lane: departure.lane,
                len: departure.descriptor.len,
                handle: departure.descriptor.handle,
                marked: self.marked(),
            },
            weft_sched::Dequeue::Drop(departure) => {
                LinkDequeue::Drop { lane: departure.lane, handle: departure.descriptor.handle }
            }
            weft_sched::Dequeue::Wait(time) => LinkDequeue::Wait(time.since_epoch()),
            weft_sched::Dequeue::Empty => LinkDequeue::Empty,
        }
    }

    fn held(&self) -> Packets {
        Self::held(self)
    }
}
