//! The errors of a profile.

use crate::categories::CategoryTableError;
use crate::level::LevelError;
use crate::ping::PingError;
use weft_host::kallsyms::SymbolError;
use weft_host::link::LinkError;
use weft_host::net_counters::CounterError;
use weft_host::netns::NetNsError;
use weft_host::perf_event::SampleError;
use weft_host::process::ProcessError;
use weft_host::sock_diag::SockDiagError;
use weft_host::sysctl::SysctlError;
use weft_host::tc::TcError;
use weft_host::{OsError, RightsError};

/// The reason that a profile could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The rights for namespaces, links and sampling are missing.
    #[error("profiling: {0}")]
    Rights(#[from] RightsError),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// The table of categories is invalid.
    #[error(transparent)]
    Table(#[from] CategoryTableError),
    /// A level could not be set.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// The link's qdisc could not be set.
    #[error(transparent)]
    Tbf(#[from] TcError),
    /// A setting of the sender's namespace could not be changed.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// Sampling failed.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The kernel's symbols cannot be read.
    #[error(transparent)]
    Symbols(#[from] SymbolError),
    /// Counters cannot be read.
    #[error(transparent)]
    Counters(#[from] CounterError),
    /// A namespace failed.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A link failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// An application could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Round trips could not be measured.
    #[error(transparent)]
    Ping(#[from] PingError),
    /// The flows' sockets could not be listed.
    #[error(transparent)]
    Sockets(#[from] SockDiagError),
    /// Another system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
    /// An application ended by itself.
    #[error("{program} ended by itself: {said}")]
    Ended {
        /// The application.
        program: String,
        /// Its last words.
        said: String,
    },
    /// iperf3 failed, or wrote an unreadable result.
    #[error("iperf3: {0}")]
    Iperf(String),
    /// The flows stood still.
    #[error("no payload arrived during a part of three trials in a row; is the machine busy?")]
    Silent,
    /// A step did not complete in time.
    #[error("waited too long for {0}; is the machine busy?")]
    Late(&'static str),
    /// Other processes use this machine.
    #[error(
        "other processes have {percent:.1} % of the processors' samples{of}, more than {most:.0} %; stop them, or label the figures \
         with --loaded"
    )]
    Loaded {
        /// The machine, after a blank; empty for this one.
        of: String,
        /// Their share in percent.
        percent: f64,
        /// The most that is accepted.
        most: f64,
    },
}
