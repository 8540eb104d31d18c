//! The records of flows, as the worker receives them: their classes, for rings that classes share.

use crate::doorbell::{Record, RecordKind};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use weft_host::bpf::Records;
use weft_units::{ClassId, FlowKey};

/// The source of metadata records and wake-ups.
pub(crate) trait RecordSource {
    /// Processes the pending records without waiting.
    fn consume(&self);
    /// Becomes readable at a wake-up, until the records are consumed.
    fn wake_fd(&self) -> BorrowedFd<'_>;
}

impl RecordSource for Records<'_> {
    fn consume(&self) {
        Records::consume(self);
    }
    fn wake_fd(&self) -> BorrowedFd<'_> {
        Records::wake_fd(self)
    }
}

/// The classes of flows, for rings shared by classes.
#[derive(Debug, Default)]
pub(crate) struct FlowClasses {
    classes: HashMap<FlowKey, ClassId>,
    known: u64,
}

impl FlowClasses {
    /// Processes a metadata record. The map holds the flows of the flow table, whose size is bounded: a flow removed
    /// from the table is also removed here.
    pub(crate) fn learn(&mut self, record: Record, keep: bool) {
        if record.kind == RecordKind::New {
            self.known += 1;
        }
        match (record.kind, record.key) {
            (RecordKind::Expired, Some(key)) => _ = self.classes.remove(&key),
            (RecordKind::New | RecordKind::Changed, Some(key)) if keep => {
                self.classes.insert(key, ClassId(u32::from(record.class)));
            }
            _ => {}
        }
    }

    /// The class of a flow, if its record has arrived.
    pub(crate) fn class_of(&self, flow: &FlowKey) -> Option<ClassId> {
        self.classes.get(flow).copied()
    }

    /// The number of flows announced so far.
    pub(crate) fn known(&self) -> u64 {
        self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doorbell::Doorbells;
    use crate::plan::{Mode, RingPlan};
    use core::cell::RefCell;
    use core::net::{IpAddr, Ipv4Addr, SocketAddr};
    use core::sync::atomic::Ordering;
    use std::net::UdpSocket;
    use weft_host::netns::NetNs;
    use weft_host::{Mac, clock, link};
    use weft_units::{Nanos, Protocol};

    /// The flow table's size (`flows` in bpf/doorbell.bpf.c).
    const TABLE: usize = 65_536;

    fn record(kind: RecordKind, flow: u32) -> Record {
        let src = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + flow));
        let dst = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let key = FlowKey { src, dst, sport: 1, dport: 2, protocol: Protocol::UDP };
        Record { kind, key: Some(key), lane: 0, ring: 0, class: 3 }
    }

    #[test]
    fn a_million_flows_leave_no_more_than_the_table_holds() {
        let mut flows = FlowClasses::default();
        for flow in 0..1_000_000_u32 {
            flows.learn(record(RecordKind::New, flow), true);
            if let Some(old) = flow.checked_sub(TABLE as u32) {
                flows.learn(record(RecordKind::Expired, old), true);
            }
            assert!(flows.classes.len() <= TABLE);
        }
        assert_eq!((flows.known(), flows.classes.len()), (1_000_000, TABLE));
        assert!(flows.classes.capacity() < 4 * TABLE, "{}", flows.classes.capacity());
    }

    #[test]
    fn nothing_is_kept_where_rings_tell_the_class() {
        let mut flows = FlowClasses::default();
        (0..1000).for_each(|flow| flows.learn(record(RecordKind::New, flow), false));
        assert_eq!((flows.known(), flows.classes.len()), (1000, 0));
    }

    /// Sends to two hundred thousand destinations through the program. The NIC removes the flows that the table
    /// removes.
    #[test]
    fn destinations_without_end_leave_no_more_than_the_table_holds() {
        if !weft_host::testing::privileged("destinations_without_end_leave_no_more_than_the_table_holds") {
            return;
        }
        let text = "class u = udp\nroot = fair of u";
        let source = weft_policy::Source { name: "test", text };
        let policy = weft_policy::compile(source, &weft_policy::CompileOptions::default());
        let policy = policy.policy.expect("policy");
        let plan = RingPlan::new(&policy, Mode::HashedRings { queues: 4 }, 4, &[]).expect("plan");
        let doorbells = Doorbells::load(&plan, &[]).expect("program");
        let ns = NetNs::create(&weft_host::RunId::current().name("forget")).expect("namespace");
        let _ = weft_host::sysctl::set(&ns, "net.ipv6.conf.default.disable_ipv6", "1");
        link::create_veth((&ns, "a"), (&ns, "b"), &link::VethOptions::default()).expect("veth");
        let index = link::index(&ns, "a").expect("index");
        ns.run(|| doorbells.attach(index)).expect("namespace").expect("attached");
        ["a", "b"].iter().for_each(|name| link::set_up(&ns, name).expect("up"));
        link::wait_running(&ns, "a", weft_host::testing::PATIENCE).expect("running");
        link::add_address(&ns, "a", "10.77.0.1".parse().expect("address"), 24).expect("address");
        let to = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
        link::add_neighbor(&ns, "a", to, Mac::local(9)).expect("neighbour");
        let flows = RefCell::new(FlowClasses::default());
        let records = doorbells.records(|record| flows.borrow_mut().learn(record, true)).expect("records");
        let (shared, table) = (doorbells.shared(), doorbells.flow_table().expect("table"));
        let mut most = 0;
        // A socket covers a thousandth of the destinations: it sends to that number of ports.
        for _ in 0..20 {
            // Open until the end of the round, so that each has its own port.
            let mut sockets = Vec::new();
            for _ in 0..10 {
                let bind = || UdpSocket::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));
                let socket = ns.run(bind).expect("namespace").expect("socket");
                for port in 1..=1000 {
                    socket.send_to(&[0; 20], (to, port)).expect("send");
                }
                records.consume();
                sockets.push(socket);
            }
            most = most.max(flows.borrow().classes.len());
            for ring in &shared.rings {
                ring.done.store(ring.packets.load(Ordering::SeqCst), Ordering::SeqCst);
            }
            // As if they had been silent for a long time.
            let later = clock::now() + crate::doorbell::FLOW_IDLE + Nanos::from_secs(1);
            let pass = table.expire(later).expect("a pass");
            records.consume();
            assert!(pass.expired >= 10_000, "{pass:?}");
            assert_eq!(flows.borrow().classes.len() as u32, shared.lanes[0].flows.load(Ordering::SeqCst));
        }
        assert!(flows.borrow().known() >= 190_000, "{}", flows.borrow().known());
        assert!(most <= 20_000, "{most} of 200,000 are remembered");
    }
}
