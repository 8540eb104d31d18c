//! The messages of a measurement between two hosts: one JSON object or string in each line.
//!
//! The client asks, the server answers each request once; a measured part has two answers, since its beginning is reported.
//!
//! | request | answers |
//! |---|---|
//! | `hello`: version, table of categories, clock, rate | `hello`: the same, with the server's processors |
//! | `watch` | `watched`: the share of processors that others use |
//! | `level`: a level, or none for the settings as they were | `levelled`: whether the server has a device for it |
//! | `serve`: the load, a core and a number of flows for each application, a time limit | `listening`: a TCP port for each |
//! | `measure`: with samples or without, and for how long | `begun`, then `measured`: the figures of the server's side |
//! | `counts` | `counted`: bytes of the flows since they were opened |
//! | `end`: end the applications | `ended` |
//!
//! Instead of an answer the server may send `refused` with a reason, and close. What a peer says is believed only within bounds:
//! lengths of lines, lists and texts, numbers that are not negative, names without control characters.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

use crate::level::Level;
use weft_report::profile::{Category, Latency, SideTime, Sizes, SkbSizes};

/// The version of the messages; both hosts must have the same.
pub const VERSION: u32 = 2;
/// The server's port.
pub const PORT: u16 = 5200;
/// The longest request, in bytes.
pub const REQUEST_MAX: usize = 1 << 16;
/// The longest answer, in bytes.
pub const ANSWER_MAX: usize = 4 << 20;
/// The longest text of a message, in bytes.
pub const TEXT_MAX: usize = 512;
/// The most processors of a host.
pub const PROCESSORS_MAX: usize = 4096;
/// The most applications of a trial.
pub const APPLICATIONS_MAX: usize = crate::traffic::MAX_PROCESSES;
/// The most flows of an application: all of the largest pattern.
pub const FLOWS_MAX: u32 = crate::pattern::MAX_CORES * crate::pattern::MAX_CORES;
/// The longest trial, in seconds.
pub const SECONDS_MAX: u64 = 4 * 3600;
/// The most stacks of an answer, and functions of a stack.
pub const STACKS_MAX: [usize; 2] = [4096, 256];

/// The reason that a line is no message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    /// The line is no message of this version.
    #[error("no message of version {VERSION} of the protocol: {0}")]
    Malformed(String),
    /// The peer has another version.
    #[error("version {0} of the protocol, and not {VERSION}; install the same weft on both hosts")]
    OtherVersion(u64),
    /// A value is outside of its bounds.
    #[error("a value out of bounds: {0}")]
    OutOfBounds(&'static str),
}

/// A short text without control characters: it may be shown on a terminal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Text(String);

impl Text {
    /// A text with blanks for control characters, cut to its longest.
    pub fn of(text: &str) -> Self {
        let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self(clean[..clean.floor_char_boundary(TEXT_MAX)].to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Text {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.len() > TEXT_MAX {
            return Err("a text is too long");
        }
        if text.chars().any(char::is_control) {
            return Err("a text has control characters");
        }
        Ok(Self(text))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The event that takes samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockName {
    /// Processor cycles.
    Cycles,
    /// The kernel's timer.
    CpuClock,
}

/// The flows' kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadName {
    /// Bulk data.
    Bulk,
    /// Requests of this many bytes.
    Requests(u64),
}

/// A level that a device of a host can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LevelName {
    /// `noopt`.
    Noopt,
    /// `tso`.
    Tso,
    /// `gro`.
    Gro,
    /// `tso-gro`.
    TsoGro,
    /// `jumbo`.
    Jumbo,
}

impl LevelName {
    /// The name of a level; `None` for one that only devices of the run can have.
    pub const fn of(level: Level) -> Option<Self> {
        Some(match level {
            Level::NoOpt => Self::Noopt,
            Level::Tso => Self::Tso,
            Level::Gro => Self::Gro,
            Level::TsoGro => Self::TsoGro,
            Level::Jumbo => Self::Jumbo,
            Level::Arfs => return None,
        })
    }

    /// The level.
    pub const fn level(self) -> Level {
        match self {
            Self::Noopt => Level::NoOpt,
            Self::Tso => Level::Tso,
            Self::Gro => Level::Gro,
            Self::TsoGro => Level::TsoGro,
            Self::Jumbo => Level::Jumbo,
        }
    }
}

/// A part of a trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialPart {
    /// Without the instrument.
    Bare,
    /// With it.
    Sampled,
}

/// The client's greeting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greeting {
    /// [`VERSION`].
    pub protocol: u32,
    /// The version of the table of categories.
    pub categories: Text,
    /// The event that takes samples; null for the best.
    pub clock: Option<ClockName>,
    /// Samples per second and processor.
    pub sample_hz: u32,
}

/// The server's greeting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// [`VERSION`].
    pub protocol: u32,
    /// The version of the table of categories.
    pub categories: Text,
    /// The kernel's release.
    pub kernel: Text,
    /// The kernel's number of this boot, which identifies the host.
    pub boot: Text,
    /// The processors for receiving applications.
    pub processors: Vec<u32>,
}

/// A receiving application.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receiver {
    /// Its processor.
    pub cpu: u32,
    /// Its flows.
    pub flows: u32,
}

/// A request of the client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClientRequest {
    /// The greeting, first.
    Hello(Greeting),
    /// Watch the machine.
    Watch,
    /// Set a level at the server's device.
    Level {
        /// The level; null restores the device.
        level: Option<LevelName>,
    },
    /// Start applications.
    Serve {
        /// The flows' kind.
        load: LoadName,
        /// The applications.
        receivers: Vec<Receiver>,
        /// The time after which the server ends them by itself.
        seconds: u64,
    },
    /// Measure a part.
    Measure {
        /// The part.
        part: TrialPart,
        /// Its time.
        span_ns: u64,
    },
    /// Count the flows' bytes.
    Counts,
    /// End the applications.
    End,
}

/// Counts of all flows at one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndCounts {
    /// Connections.
    pub connections: u64,
    /// Bytes sent and acknowledged.
    pub acked: u64,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent, each once.
    pub sent: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Segments sent again.
    pub retransmitted: u64,
}

/// Processor time of a call chain.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackTime {
    /// Its category.
    pub category: Category,
    /// Its functions, from the outermost.
    pub frames: Vec<Text>,
    /// Its time.
    pub seconds: f64,
}

/// The samples of a side.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SideSamples {
    /// The event that took them.
    pub clock: ClockName,
    /// Their rate in force.
    pub sample_hz: u32,
    /// The side's processor time.
    pub time: SideTime,
    /// Time of other processes.
    pub foreign_s: f64,
    /// Time of interrupts without a known process.
    pub interrupts_s: f64,
    /// Time of this program.
    pub tool_s: f64,
    /// Samples that were lost.
    pub lost_samples: u64,
    /// Processors that the programs at the tracepoints used.
    pub probe_cores: Option<f64>,
    /// Share of cache accesses that missed.
    pub cache_miss: Option<f64>,
    /// Sizes of skbs.
    pub sizes: Option<SkbSizes>,
    /// Latency from the stack's entry to the copy.
    pub latency: Option<Latency>,
    /// The reason that sizes and latency are missing.
    pub no_probes: Option<Text>,
    /// Kernel time by innermost functions that the table does not have.
    pub missing: BTreeMap<Text, f64>,
    /// Kernel time by call chain.
    pub stacks: Vec<StackTime>,
}

/// The figures of a side in a part of a trial.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Half {
    /// The measured time.
    pub span_ns: u64,
    /// The flows' counts in it.
    pub counts: EndCounts,
    /// IP packets that the namespace received.
    pub packets_in: u64,
    /// Times that the applications gave up a processor to wait.
    pub waits: u64,
    /// The samples, of the part that has them.
    pub samples: Option<Box<SideSamples>>,
}

/// An answer of the server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ServerAnswer {
    /// The greeting.
    Hello(Welcome),
    /// The share of processors that others use.
    Watched {
        /// From 0 to 1.
        share: f64,
    },
    /// The level is set, if the server has a device.
    Levelled {
        /// Whether it has one.
        changed: bool,
    },
    /// The applications listen.
    Listening {
        /// The port of each.
        ports: Vec<u16>,
    },
    /// The part begins.
    Begun,
    /// The part is over.
    Measured(Half),
    /// The flows' counts since they were opened.
    Counted(EndCounts),
    /// The applications have ended.
    Ended,
    /// The request is not carried out, and the connection ends.
    Refused {
        /// The reason.
        why: Text,
    },
}

impl ServerAnswer {
    /// The name, for errors.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Watched { .. } => "watched",
            Self::Levelled { .. } => "levelled",
            Self::Listening { .. } => "listening",
            Self::Begun => "begun",
            Self::Measured(_) => "measured",
            Self::Counted(_) => "counted",
            Self::Ended => "ended",
            Self::Refused { .. } => "refused",
        }
    }
}

/// Reads a request.
///
/// # Errors
/// If the line is not one of this version, or a value is out of bounds.
pub fn request(line: &[u8]) -> Result<ClientRequest, MessageError> {
    let request: ClientRequest = read(line)?;
    check_request(&request).map_err(MessageError::OutOfBounds)?;
    Ok(request)
}

/// Reads an answer.
///
/// # Errors
/// If the line is not one of this version, or a value is out of bounds.
pub fn answer(line: &[u8]) -> Result<ServerAnswer, MessageError> {
    let answer: ServerAnswer = read(line)?;
    check_answer(&answer).map_err(MessageError::OutOfBounds)?;
    Ok(answer)
}

/// Writes a message as a line.
pub fn line<M: Serialize>(message: &M) -> Vec<u8> {
    // No message has a map with keys that are not texts, the only thing that cannot be written.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

fn read<'a, M: Deserialize<'a>>(line: &'a [u8]) -> Result<M, MessageError> {
    serde_json::from_slice(line).map_err(|error| {
        let other = version(line).filter(|version| *version != u64::from(VERSION));
        other.map_or_else(
            || MessageError::Malformed(Text::of(&error.to_string()).0),
            MessageError::OtherVersion,
        )
    })
}

/// The version of a greeting, whatever else it has.
fn version(line: &[u8]) -> Option<u64> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    value.get("hello")?.get("protocol")?.as_u64()
}

fn ensure(holds: bool, what: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(what) }
}

fn check_version(protocol: u32) -> Result<(), &'static str> {
    ensure(protocol == VERSION, "the version of the protocol; install the same weft on both hosts")
}

fn check_request(request: &ClientRequest) -> Result<(), &'static str> {
    match request {
        ClientRequest::Hello(greeting) => {
            check_version(greeting.protocol)?;
            ensure(greeting.sample_hz > 0, "the rate of samples")
        }
        ClientRequest::Serve { load, receivers, seconds } => {
            ensure(
                !receivers.is_empty() && receivers.len() <= APPLICATIONS_MAX,
                "the number of applications",
            )?;
            let flows = |one: &Receiver| (1..=FLOWS_MAX).contains(&one.flows);
            ensure(receivers.iter().all(flows), "the number of flows")?;
            ensure((1..=SECONDS_MAX).contains(seconds), "the time of a trial")?;
            ensure(!matches!(load, LoadName::Requests(0)), "the size of requests")
        }
        ClientRequest::Measure { span_ns, .. } => {
            ensure((1..=SECONDS_MAX * 1_000_000_000).contains(span_ns), "the measured time")
        }
        ClientRequest::Watch | ClientRequest::Level { .. } | ClientRequest::Counts | ClientRequest::End => {
            Ok(())
        }
    }
}

fn check_answer(answer: &ServerAnswer) -> Result<(), &'static str> {
    match answer {
        ServerAnswer::Hello(welcome) => {
            check_version(welcome.protocol)?;
            let processors = &welcome.processors;
            ensure(!processors.is_empty() && processors.len() <= PROCESSORS_MAX, "the number of processors")
        }
        ServerAnswer::Watched { share } => ensure((0.0..=2.0).contains(share), "the share of others"),
        ServerAnswer::Listening { ports } => {
            ensure(ports.len() <= APPLICATIONS_MAX && !ports.contains(&0), "the ports")
        }
        ServerAnswer::Measured(half) => check_half(half),
        ServerAnswer::Begun
        | ServerAnswer::Levelled { .. }
        | ServerAnswer::Counted(_)
        | ServerAnswer::Ended
        | ServerAnswer::Refused { .. } => Ok(()),
    }
}

fn check_half(half: &Half) -> Result<(), &'static str> {
    ensure((1..=2 * SECONDS_MAX * 1_000_000_000).contains(&half.span_ns), "the measured time")?;
    half.samples.as_deref().map_or(Ok(()), check_samples)
}

/// The most processor time of an answer: all processors for the longest trial.
const TIME_MAX: f64 = PROCESSORS_MAX as f64 * 2.0 * SECONDS_MAX as f64;

fn check_samples(samples: &SideSamples) -> Result<(), &'static str> {
    let SideTime { user_s, system_s, softirq_s, categories_s } = &samples.time;
    let seconds = [*user_s, *system_s, *softirq_s, samples.foreign_s, samples.interrupts_s, samples.tool_s];
    let all = seconds.iter().chain(categories_s.values()).chain(samples.missing.values());
    let all = all.chain(samples.stacks.iter().map(|stack| &stack.seconds)).chain(&samples.probe_cores);
    ensure(all.copied().all(|time| (0.0..=TIME_MAX).contains(&time)), "a processor time")?;
    ensure(samples.cache_miss.is_none_or(|share| (0.0..=1.0).contains(&share)), "the share of cache misses")?;
    ensure(samples.sample_hz > 0, "the rate of samples")?;
    let few = samples.stacks.iter().all(|stack| stack.frames.len() <= STACKS_MAX[1]);
    ensure(samples.stacks.len() <= STACKS_MAX[0] && few, "the number of stacks")?;
    let sizes = samples.sizes.iter().flat_map(|s| [&s.before_gro, &s.after_gro, &s.transmit, &s.copies]);
    let good = |s: &Sizes| {
        s.counts.len() <= Sizes::BUCKETS
            && s.counts.iter().all(|count| *count < 1 << 48)
            && s.mean.is_none_or(|mean| (0.0..1e9).contains(&mean))
    };
    ensure(sizes.into_iter().all(good), "the sizes of skbs")?;
    let latency = samples.latency.iter().flat_map(|latency| [latency.p50, latency.p99]);
    ensure(latency.into_iter().all(|time| (0.0..1e6).contains(&time)), "the latency")
}
