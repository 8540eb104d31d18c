//! What work costs the processors, by operation and category.

/// Categories of the SIGCOMM'21 study (section 2), which group the kernel's functions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Category {
    /// Copies between user space and kernel.
    DataCopy,
    /// TCP/IP processing.
    TcpIp,
    /// Netdevice subsystem: qdisc, driver, NAPI, GRO.
    Netdev,
    /// Making and freeing sk_buffs.
    Skb,
    /// Memory allocation and freeing.
    Memory,
    /// Locks.
    Lock,
    /// Scheduling and wake-ups.
    Scheduling,
    /// Interrupts, system calls, the rest.
    Other,
}

impl Category {
    /// How many there are.
    pub const COUNT: usize = 8;

    /// All of them, in the order of the study's figures.
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

    /// Its name in files and reports.
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

/// A piece of work that has a cost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// A system call, entering and leaving.
    SystemCall,
    /// A byte copied from the application.
    CopyIn,
    /// A byte copied to the application.
    CopyOut,
    /// A segment made and sent down by TCP.
    SendSegment,
    /// A segment through qdisc and driver to the ring.
    TransmitSegment,
    /// A packet of a segment that the stack itself cuts (no TSO).
    SoftwareSegment,
    /// A piece that dynamic segment sizing cuts.
    ResegmentPiece,
    /// A sent segment freed.
    CompleteSegment,
    /// A packet taken from the receive ring, through GRO.
    ReceivePacket,
    /// A received (merged) skb through IP and TCP.
    ReceiveSegment,
    /// An acknowledgement made.
    SendAcknowledgement,
    /// An acknowledgement processed at the sender.
    ReceiveAcknowledgement,
    /// An interrupt.
    Interrupt,
    /// A NAPI poll.
    Poll,
    /// A thread woken, and its switch in and out.
    WakeUp,
    /// A write to a register of the NIC (doorbell, queue weight).
    RegisterWrite,
    /// A queue assigned to a flow.
    AssignQueue,
}

impl Operation {
    /// How many there are.
    pub const COUNT: usize = 17;

    /// All of them.
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

    /// Its name in files.
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

/// A number per category, in the order of [`Category::ALL`].
pub type PerCategory = [f64; Category::COUNT];

/// A number per operation, in the order of [`Operation::ALL`].
pub type PerOperation = [f64; Operation::COUNT];

/// Costs of all operations, in nanoseconds (per unit of the operation) by category.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// `table[operation][category]`, nanoseconds.
    pub table: [PerCategory; Operation::COUNT],
    /// Factors that the state of caches and locks puts on top.
    pub contention: Contention,
}

/// How costs grow with what else goes on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Contention {
    /// Nanoseconds for a queue's lock that another core held since, per operation (a cache line from another core).
    pub lock_transfer_ns: f64,
    /// Nanoseconds for a connection's socket that another core has touched since, per unit of work that touches it: a write, a
    /// segment sent or freed, an acknowledgement processed.
    pub socket_transfer_ns: f64,
    /// Share of the copies' loads that miss the last-level cache when one flow is active.
    pub miss_base: f64,
    /// What each further active flow on the host adds to that share.
    pub miss_per_flow: f64,
    /// Most that the share becomes.
    pub miss_max: f64,
    /// Factor on a byte's copy when it misses, over when it hits.
    pub miss_factor: f64,
    /// Factor on a byte's copy when application and NIC are on different NUMA nodes.
    pub numa_factor: f64,
    /// Mean of the exponentially distributed time from an interrupt to its handler, nanoseconds: sleeping cores, sections with
    /// interrupts off. Without it, runs lock into one order of events (docs/simulator.md).
    pub interrupt_latency_ns: f64,
}

impl Costs {
    /// No work costs anything: processors are never what limits.
    pub const FREE: Self = Self {
        table: [[0.0; Category::COUNT]; Operation::COUNT],
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

    /// Total cost of one unit of an operation, nanoseconds.
    pub fn total(&self, operation: Operation) -> f64 {
        self.table[operation as usize].iter().sum()
    }
}
