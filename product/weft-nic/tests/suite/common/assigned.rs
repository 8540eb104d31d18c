//! A multiqueue NIC with queue assignment at its port, and UDP flows whose departures are counted: packets that a slow
//! link has not sent yet keep a flow active.

use crate::common::bench::{arrivals, conserved, socket, unspecified};
use core::net::SocketAddr;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weft_host::testing::{PATIENCE, until, wait_for};
use weft_nic::departures::DepartureLog;
use weft_nic::multiqueue::{Multiqueue, start};
use weft_nic::nic::{SoftwareNic, Totals};
use weft_nic::testbed::{RECEIVER, Testbed};
use weft_titan::accounting::Accounting;
use weft_titan::device::Titan;
use weft_titan::layout::FlowRecord;
use weft_titan::page::{Load, LoadWord, Queue};
use weft_titan::settings::Settings;
use weft_titan::tracing_check::TracingCheck;
use weft_units::{BitsPerSec, Nanos};

/// Payload of a datagram: 8.5 kbit on the wire.
pub(crate) const PAYLOAD: usize = 1000;
const PORT: u16 = 6000;

pub(crate) fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::SeqCst)
}

/// A NIC of `kilobits` per second with room for all packets of a test.
pub(crate) fn slow(kilobits: u64) -> Multiqueue {
    Multiqueue { ring_packets: 8000, ..Multiqueue::new(BitsPerSec(kilobits * 1000)) }
}

/// A UDP flow of the sender.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) socket: UdpSocket,
    port: u16,
}

impl Flow {
    /// Sends `count` datagrams.
    pub(crate) fn send(&self, count: usize) {
        for _ in 0..count {
            assert_eq!(self.socket.send(&[7; PAYLOAD]).expect("sent"), PAYLOAD);
        }
    }
}

/// The NIC with its attachments.
pub(crate) struct Assigned {
    titan: Option<Titan>,
    reported: Option<TracingCheck>,
    nic: Option<SoftwareNic>,
    pub(crate) sink: UdpSocket,
    pub(crate) bed: Testbed,
}

impl Assigned {
    pub(crate) fn start(role: &str, wanted: &Multiqueue, settings: &Settings) -> Self {
        let mut assigned = Self::without(role, wanted);
        assigned.attach(settings);
        assigned
    }

    /// Starts the NIC without attachments.
    pub(crate) fn without(role: &str, wanted: &Multiqueue) -> Self {
        let bed = Testbed::create(role).expect("testbed");
        let nic = start(&bed, wanted).expect("nic");
        Self::with(bed, nic)
    }

    /// Takes a running NIC without attachments.
    pub(crate) fn with(bed: Testbed, nic: SoftwareNic) -> Self {
        let sink = socket(&bed.receiver, SocketAddr::new(RECEIVER, PORT));
        setsockopt(&sink, sockopt::RcvBufForce, &(64 << 20)).expect("buffer");
        Self { titan: None, reported: None, nic: Some(nic), sink, bed }
    }

    pub(crate) fn attach(&mut self, settings: &Settings) {
        assert!(self.titan.is_none());
        let titan = Titan::attach(&self.bed.sender, "port0", settings).expect("attached");
        // Counts are read as the programs made them: the sweep that corrects them is off.
        titan.page().sweep_off.store(1, Ordering::SeqCst);
        self.titan = Some(titan);
        self.reported = Some(TracingCheck::attach(&self.bed.nic, "port0-nic").expect("watched"));
    }

    pub(crate) fn detach(&mut self) {
        self.titan.take().expect("attached").detach().expect("detached");
    }

    pub(crate) fn titan(&self) -> &Titan {
        self.titan.as_ref().expect("attached")
    }

    /// The accounting, with the drops before the rings that the kernel did not report to tracing programs and did not
    /// count.
    pub(crate) fn accounting(&self) -> Accounting {
        let unreported =
            self.reported.as_ref().map(|check| check.unreported().expect("the port's own count"));
        self.titan().accounting().expect("accounting").with_unreported(unreported.unwrap_or_default())
    }

    pub(crate) fn nic(&self) -> &SoftwareNic {
        self.nic.as_ref().expect("running")
    }

    /// A new flow, which has sent nothing yet.
    pub(crate) fn flow(&self) -> Flow {
        self.flow_with(|_| ())
    }

    /// A new flow, with its socket prepared.
    pub(crate) fn flow_with(&self, prepare: impl FnOnce(&UdpSocket)) -> Flow {
        let socket = socket(&self.bed.sender, unspecified(false));
        setsockopt(&socket, sockopt::SndBuf, &(4 << 20)).expect("buffer");
        prepare(&socket);
        socket.connect((RECEIVER, PORT)).expect("connected");
        let port = socket.local_addr().expect("address").port();
        Flow { socket, port }
    }

    /// The record of a flow in Titan's table; `None` before its assignment.
    pub(crate) fn find(&self, flow: &Flow) -> Option<FlowRecord> {
        let flows = self.titan().flows();
        flows.into_iter().find(|record| record.local_port == flow.port)
    }

    #[track_caller]
    pub(crate) fn record(&self, flow: &Flow) -> FlowRecord {
        self.find(flow).expect("a flow that was assigned")
    }

    /// The queue of a flow.
    #[track_caller]
    pub(crate) fn queue(&self, flow: &Flow) -> usize {
        self.record(flow).queue.index()
    }

    pub(crate) fn queues(&self) -> &[Queue] {
        &self.titan().page().queues[..self.titan().state().queues as usize]
    }

    fn loads(&self) -> impl Iterator<Item = Load> {
        self.titan().page().loads[..self.titan().state().queues as usize].iter().map(LoadWord::get)
    }

    /// The queues' weights.
    pub(crate) fn weights(&self) -> Vec<u64> {
        self.loads().map(|load| load.weight).collect()
    }

    /// The queues' active flows.
    pub(crate) fn flows(&self) -> Vec<u64> {
        self.loads().map(|load| load.flows).collect()
    }

    pub(crate) fn active(&self) -> u64 {
        self.titan().page().active()
    }

    /// Whether all packets that arrived at the NIC have left it.
    fn nic_is_empty(&self) -> bool {
        let totals = self.nic().totals().expect("totals");
        let gone = (totals.sum(|class| class.sent) + totals.sum(|class| class.refused)).packets.get();
        let page = self.titan().page();
        gone + totals.lost >= totals.sum(|class| class.posted).packets.get()
            && get(&page.fetching) == 0
            && get(&page.holding) == 0
    }

    /// Waits until no flow is active and the NIC has sent all its packets. A flow with a departure that the kernel did
    /// not report (it counts them) stays active while the sweep is off.
    #[track_caller]
    pub(crate) fn quiet(&self) {
        wait_for("all flows are counted out", || {
            self.active() == 0 || (self.nic_is_empty() && self.accounting().faults().is_empty())
        });
        wait_for("the NIC has nothing in hand", || self.nic_is_empty());
    }

    /// Waits until no flow is active, and checks that every count agrees exactly.
    #[track_caller]
    pub(crate) fn settled(&self) {
        // The last departures may be between two counters.
        let _ = until(PATIENCE, || self.nic_is_empty() && self.accounting().faults().is_empty());
        // What is counted out too much comes now.
        std::thread::sleep(Duration::from_millis(50));
        assert!(self.nic_is_empty(), "something is in the NIC still: {:#?}", self.nic().totals());
        exact(self.titan(), &self.accounting());
    }

    /// The datagrams that have arrived and were not read. Waits for the first `wanted` of them.
    pub(crate) fn delivered(&self, wanted: usize) -> usize {
        arrivals(&self.sink, wanted).len()
    }

    /// Detaches, stops the NIC and checks its accounting.
    pub(crate) fn finish(mut self) -> (Totals, DepartureLog) {
        if self.titan.is_some() {
            self.detach();
        }
        let nic = self.nic.take().expect("running");
        let (totals, log) = nic.stop_with_log(Nanos::from_secs(1)).expect("stopped");
        conserved(&totals);
        (totals, log)
    }
}

impl Drop for Assigned {
    /// Also after a failed test.
    fn drop(&mut self) {
        if let Some(titan) = self.titan.take() {
            let _ = titan.detach();
        }
    }
}

/// Checks that increments and decrements are equal: every queue is back at zero, as many packets left as arrived, and
/// no departure was missed, except those that the kernel reports as missed. A flow that stays active or was counted out
/// late is one of those.
#[track_caller]
pub(crate) fn exact(titan: &Titan, accounting: &Accounting) {
    let totals = titan.totals();
    let queues = &titan.page().queues[..titan.state().queues as usize];
    let faults = accounting.faults();
    assert!(faults.is_empty(), "{faults:#?}, {accounting:?}, {totals:?}, {:?}, {queues:?}", titan.flows());
    if accounting.missed > 0 {
        println!("{} departures of this host were not reported: {accounting:?}", accounting.missed);
        return;
    }
    for (number, (queue, load)) in queues.iter().zip(&titan.page().loads).enumerate() {
        let packets = (get(&queue.packets), get(&queue.left_packets), get(&queue.unseen_packets));
        let bytes = (get(&queue.bytes), get(&queue.left_bytes), get(&queue.unseen_bytes));
        assert_eq!(load.get(), Load::default(), "queue {number}: {totals:?}");
        assert_eq!(packets, (packets.0, packets.0, 0), "queue {number}: packets, {totals:?}");
        assert_eq!(bytes, (bytes.0, bytes.0, 0), "queue {number}: bytes, {totals:?}");
    }
    assert_eq!((titan.page().active(), get(&totals.repaired)), (0, 0), "{totals:?}");
}

/// Pins this thread to one core.
pub(crate) fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).expect("the core");
}
