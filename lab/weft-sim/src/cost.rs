//! The processor cost of work, by operation and category.

/// Categories of the SIGCOMM'21 study (section 2), which group the kernel's functions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CostCategory {
    /// Copies between user space and kernel.
    DataCopy,
    /// TCP/IP processing.
    TcpIp,
    /// Netdevice subsystem: qdisc, driver, NAPI, GRO.
    Netdev,
    /// Allocation and freeing of sk_buffs.
    Skb,
    /// Memory allocation and freeing.
    Memory,
    /// Locks.
    Lock,
    /// Scheduling and wake-ups.
    Scheduling,
    /// Interrupts, system calls and other work.
    Other,
}

impl CostCategory {
    /// The number of categories.
    pub const COUNT: usize = 8;

    /// All categories, in the order of the study's figures.
    pub const ALL: [Self; Self::COUNT] = [
        Self::DataCopy,
        Self::TcpIp,
        Self::Netdev,
        Self::Skb,
        Self::Memory,
        Self::Lock,
        Self::Scheduling,
        Self::Other,
    ];

    /// The category's name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DataCopy => "data_copy",
            Self::TcpIp => "tcpip",
            Self::Netdev => "netdev",
            Self::Skb => "skb",
            Self::Memory => "mem",
            Self::Lock => "lock",
            Self::Scheduling => "sched",
            Self::Other => "etc",
        }
    }
}

/// A unit of work with a cost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CostedOperation {
    /// A system call, entering and leaving.
    SystemCall,
    /// A byte copied from the application.
    CopyIn,
    /// A byte copied to the application.
    CopyOut,
    /// A segment built and sent down by TCP.
    SendSegment,
    /// A segment passed through qdisc and driver to the ring.
    TransmitSegment,
    /// A packet of a segment that the stack cuts (no TSO).
    SoftwareSegment,
    /// A piece cut by dynamic segment sizing.
    ResegmentPiece,
    /// A sent segment freed.
    CompleteSegment,
    /// A packet taken from the receive ring, through GRO.
    ReceivePacket,
    /// A received (merged) skb passed through IP and TCP.
    ReceiveSegment,
    /// An acknowledgement built and sent.
    SendAcknowledgement,
    /// An acknowledgement processed at the sender.
    ReceiveAcknowledgement,
    /// An interrupt.
    Interrupt,
    /// A NAPI poll.
    Poll,
    /// A wake-up of a thread, with its switch in and out.
    WakeUp,
    /// A write to a register of the NIC (doorbell, queue weight).
    RegisterWrite,
    /// A queue assigned to a flow.
    AssignQueue,
}

impl CostedOperation {
    /// The number of operations.
    pub const COUNT: usize = 17;

    /// All operations.
    pub const ALL: [Self; Self::COUNT] = [
        Self::SystemCall,
        Self::CopyIn,
        Self::CopyOut,
        Self::SendSegment,
        Self::TransmitSegment,
        Self::SoftwareSegment,
        Self::ResegmentPiece,
        Self::CompleteSegment,
        Self::ReceivePacket,
        Self::ReceiveSegment,
        Self::SendAcknowledgement,
        Self::ReceiveAcknowledgement,
        Self::Interrupt,
        Self::Poll,
        Self::WakeUp,
        Self::RegisterWrite,
        Self::AssignQueue,
    ];

    /// The operation's name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SystemCall => "system_call",
            Self::CopyIn => "copy_in_byte",
            Self::CopyOut => "copy_out_byte",
            Self::SendSegment => "send_segment",
            Self::TransmitSegment => "transmit_segment",
            Self::SoftwareSegment => "software_segment",
            Self::ResegmentPiece => "resegment_piece",
            Self::CompleteSegment => "complete_segment",
            Self::ReceivePacket => "receive_packet",
            Self::ReceiveSegment => "receive_segment",
            Self::SendAcknowledgement => "send_acknowledgement",
            Self::ReceiveAcknowledgement => "receive_acknowledgement",
            Self::Interrupt => "interrupt",
            Self::Poll => "poll",
            Self::WakeUp => "wake_up",
            Self::RegisterWrite => "register_write",
            Self::AssignQueue => "assign_queue",
        }
    }
}

/// A number per category, in the order of [`CostCategory::ALL`].
pub type PerCategory = [f64; CostCategory::COUNT];

/// A number per operation, in the order of [`CostedOperation::ALL`].
pub type PerOperation = [f64; CostedOperation::COUNT];

/// Costs of all operations, in nanoseconds (per unit of the operation) by category.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// `table[operation][category]`, nanoseconds.
    pub table: [PerCategory; CostedOperation::COUNT],
    /// Factors that depend on the state of caches and locks.
    pub contention: Contention,
}

/// The dependence of costs on other activity of the host.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Contention {
    /// Cost of a queue's lock last held by another core, per operation, in nanoseconds (a cache line from another core).
    pub lock_transfer_ns: f64,
    /// Cost of a connection's socket last touched by another core, in nanoseconds. It applies to each unit of work that touches
    /// the socket: a write, a segment sent or freed, an acknowledgement processed.
    pub socket_transfer_ns: f64,
    /// Share of the copies' loads that miss the last-level cache when one flow is active.
    pub miss_base: f64,
    /// Increase of that share per further active flow on the host.
    pub miss_per_flow: f64,
    /// The maximum of that share.
    pub miss_max: f64,
    /// Factor on the copy of a byte that misses, relative to one that hits.
    pub miss_factor: f64,
    /// Factor on the copy of a byte if application and NIC are on different NUMA nodes.
    pub numa_factor: f64,
    /// Mean of the exponentially distributed time from an interrupt to its handler, in nanoseconds: sleeping cores, sections with
    /// disabled interrupts. Without it, runs lock into one order of events (docs/simulator.md).
    pub interrupt_latency_ns: f64,
}

impl Costs {
    /// Costs of zero: processors never limit the throughput.
    pub const FREE: Self = Self {
        table: [[0.0; CostCategory::COUNT]; CostedOperation::COUNT],
        contention: Contention {
            lock_transfer_ns: 0.0,
            socket_transfer_ns: 0.0,
            miss_base: 0.0,
            miss_per_flow: 0.0,
            miss_max: 0.0,
            miss_factor: 1.0,
            numa_factor: 1.0,
            interrupt_latency_ns: 0.0,
        },
    };

    /// Returns the total cost of one unit of an operation, in nanoseconds.
    pub fn total(&self, operation: CostedOperation) -> f64 {
        self.table[operation as usize].iter().sum()
    }
}
