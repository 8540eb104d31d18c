//! The document of `weft profile --attach`: what ran on the host in one span, without traffic of the profiler.
//!
//! 1. A [`TaskTime`] is the processor time of a process, a cgroup, a thread of weftline or the network's softirqs. Kernel time in the
//!    network stack has a [`Direction`] and a category; other kernel time has neither.
//! 2. [`AttachedReport::conclude`] adds tasks up, divides by the bytes of the counted devices, and keeps the largest tasks as rows.
//! 3. `tables` writes the document, `page` draws it, [`diff`] compares two of them.
//!
//! The span is divided into [`Window`]s. Each is one observation of a comparison, so that a single document has an interval.

pub mod diff;
mod page;
mod tables;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::{Category, Conditions, Latency, SkbSizes, Utilisation, largest};
use weft_facts::record::{Document, Host};
use weft_facts::schema::ByName;
use weft_facts::table::Table;

pub use page::attached_html;

/// The direction of packets for which the kernel worked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// They leave, or acknowledge what has left.
    Transmit,
    /// They arrive.
    Receive,
    /// The call chain does not tell.
    NotToldApart,
}

impl Direction {
    /// All directions.
    pub const ALL: [Self; 3] = [Self::Transmit, Self::Receive, Self::NotToldApart];

    /// The name in documents and stacks.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transmit => "transmit",
            Self::Receive => "receive",
            Self::NotToldApart => "not_told_apart",
        }
    }

    /// The name in tables.
    pub const fn title(self) -> &'static str {
        match self {
            Self::NotToldApart => "not told apart",
            other => other.name(),
        }
    }
}

/// Seconds by direction and category.
pub type NetworkTime = BTreeMap<Direction, BTreeMap<Category, f64>>;

/// Adds `other` to `into`.
fn add(into: &mut NetworkTime, other: &NetworkTime) {
    for (direction, categories) in other {
        for (category, seconds) in categories {
            *into.entry(*direction).or_default().entry(*category).or_default() += seconds;
        }
    }
}

/// Processor time of a task.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TaskTime {
    /// In programs.
    pub user_s: f64,
    /// In the kernel, in the network stack and elsewhere.
    pub kernel_s: f64,
    /// In the kernel's network stack.
    #[schemars(with = "ByName<Direction, ByName<Category, f64>>")]
    pub network_s: NetworkTime,
}

impl TaskTime {
    /// Adds kernel time in the network stack.
    pub fn add_network(&mut self, direction: Direction, category: Category, seconds: f64) {
        self.kernel_s += seconds;
        *self.network_s.entry(direction).or_default().entry(category).or_default() += seconds;
    }

    /// Adds another task's time.
    pub fn add(&mut self, other: &Self) {
        self.user_s += other.user_s;
        self.kernel_s += other.kernel_s;
        add(&mut self.network_s, &other.network_s);
    }

    /// The whole time.
    pub fn total_s(&self) -> f64 {
        self.user_s + self.kernel_s
    }

    /// The time in the network stack in one direction.
    pub fn direction_s(&self, direction: Direction) -> f64 {
        self.network_s.get(&direction).map_or(0.0, |categories| total(categories.values()))
    }

    /// The time in the network stack.
    pub fn in_network_s(&self) -> f64 {
        total(self.network_s.values().flat_map(BTreeMap::values))
    }
}

/// The sum; of nothing it is 0, where `sum` has -0.
fn total<'a>(seconds: impl Iterator<Item = &'a f64>) -> f64 {
    seconds.fold(0.0, |all, one| all + one)
}

/// The kind of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// A process.
    #[default]
    Process,
    /// The processes of a cgroup.
    Cgroup,
    /// A thread of weftline's data path.
    Weft,
    /// The network's softirqs, which run on anybody's time for anybody.
    Softirq,
    /// The profiler itself.
    Tool,
    /// All others together.
    Rest,
}

/// A task of the table.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The kind.
    pub kind: RowKind,
    /// The name: a command, a path, a thread.
    pub name: String,
    /// The process; absent where the row is not one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The cgroup; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The user; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// The time.
    pub time: TaskTime,
}

/// Bytes and packets of both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
}

impl Moved {
    /// The bytes of a direction; none where it is not told.
    pub fn bytes(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Transmit => self.tx_bytes,
            Direction::Receive => self.rx_bytes,
            Direction::NotToldApart => 0,
        }
    }

    /// The sum with another device's.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            tx_bytes: self.tx_bytes.saturating_add(other.tx_bytes),
            tx_packets: self.tx_packets.saturating_add(other.tx_packets),
            rx_bytes: self.rx_bytes.saturating_add(other.rx_bytes),
            rx_packets: self.rx_packets.saturating_add(other.rx_packets),
        }
    }

    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            tx_bytes: self.tx_bytes.saturating_sub(before.tx_bytes),
            tx_packets: self.tx_packets.saturating_sub(before.tx_packets),
            rx_bytes: self.rx_bytes.saturating_sub(before.rx_bytes),
            rx_packets: self.rx_packets.saturating_sub(before.rx_packets),
        }
    }
}

/// A device and its counters in the span.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Its name.
    pub device: String,
    /// Whether its bytes divide the processor time.
    pub counted: bool,
    /// Its counters.
    #[serde(flatten)]
    pub moved: Moved,
}

/// A part of the span.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Its length.
    pub span_s: f64,
    /// The counted devices' bytes and packets in it.
    pub moved: Moved,
    /// The subject's time in the network stack.
    #[schemars(with = "ByName<Direction, ByName<Category, f64>>")]
    pub network_s: NetworkTime,
}

/// The subject's kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SubjectKind {
    /// Everything.
    #[default]
    Host,
    /// A process with its threads.
    Process,
    /// The processes of a cgroup and of those below it.
    Cgroup,
    /// The packets of a device.
    Device,
}

impl SubjectKind {
    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Process => "process",
            Self::Cgroup => "cgroup",
            Self::Device => "device",
        }
    }
}

/// The subject of a profile.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// The kind.
    pub kind: SubjectKind,
    /// The process, the path or the device; empty for the host.
    pub name: String,
}

impl Subject {
    /// The subject in words.
    fn described(&self) -> String {
        match self.kind {
            SubjectKind::Host => "everything on this host".to_owned(),
            kind => format!("{} {}", kind.name(), self.name),
        }
    }
}

/// The profiler's own cost.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ToolCost {
    /// Share of all processors' time that the profiler had.
    pub processor: f64,
    /// Share that the programs at the tracepoints had; null where none could run.
    pub probes: Option<f64>,
}

/// A class of the policy that weftline enforces on the host.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ClassUse {
    /// Its name.
    pub class: String,
    /// Packets sent in the span.
    pub packets: u64,
    /// Bytes sent in the span.
    pub bytes: u64,
    /// Processes with time in the network stack all of whose packets the class takes.
    pub processes: u32,
    /// Their processor time.
    pub processor_s: f64,
    /// Their time in the network stack.
    pub network_s: f64,
}

/// An enforced policy, and the classes to which processor time belongs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PolicyUse {
    /// The uplink, if it has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
    /// The policy's name.
    pub policy: String,
    /// Its number.
    pub generation: u64,
    /// The classes in the policy's order.
    pub classes: Vec<ClassUse>,
    /// Time in the network stack of processes whose packets several classes may take.
    pub not_told_apart_s: f64,
    /// Time in the network stack of processes in namespaces without a port.
    pub without_port_s: f64,
}

/// The document of `weft profile --attach`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AttachedReport {
    /// `weft-profile-attached/1`.
    pub schema: String,
    /// The host.
    pub host: Host,
    /// The subject.
    pub subject: Subject,
    /// The conditions of sampling.
    pub conditions: Conditions,
    /// The measured time.
    pub span_s: f64,
    /// Processors that were sampled.
    pub processors: u32,
    /// Processors in use, of the whole host.
    pub utilisation: Utilisation,
    /// The subject's time in the network stack.
    #[schemars(with = "ByName<Direction, ByName<Category, f64>>")]
    pub network_s: NetworkTime,
    /// The same in nanoseconds per byte of the counted devices; a direction without bytes is absent.
    #[schemars(with = "ByName<Direction, ByName<Category, f64>>")]
    pub ns_per_byte: BTreeMap<Direction, BTreeMap<Category, f64>>,
    /// The tasks with the most time in the network stack, then in all.
    pub rows: Vec<Row>,
    /// The devices of this namespace.
    pub devices: Vec<Device>,
    /// Sizes of skbs and copies; null where eBPF could not run.
    pub skb_bytes: Option<SkbSizes>,
    /// Latency from the stack's entry to the copy; null where eBPF could not run, or nothing was sampled.
    pub latency_s: Option<Latency>,
    /// Segments that were sent again, in all namespaces.
    pub retransmitted: u64,
    /// Share of the time in the network stack whose innermost function the table does not have.
    pub leaf_unmapped: f64,
    /// The same by function, in seconds: the largest.
    #[serde(default)]
    pub missing: BTreeMap<String, f64>,
    /// Samples that were lost.
    pub lost_samples: u64,
    /// The profiler's own cost.
    pub tool: ToolCost,
    /// The parts of the span.
    pub windows: Vec<Window>,
    /// The policies that weftline enforces; empty without it.
    #[serde(default)]
    pub policies: Vec<PolicyUse>,
    /// Limits of the figures.
    pub labels: Vec<String>,
}

impl AttachedReport {
    /// Takes the figures that follow from the windows and devices: the subject's time, and nanoseconds per byte.
    pub fn conclude(&mut self) {
        self.network_s = NetworkTime::new();
        for window in &self.windows {
            add(&mut self.network_s, &window.network_s);
        }
        let moved = self.windows.iter().fold(Moved::default(), |all, window| all.plus(&window.moved));
        self.ns_per_byte = per_byte(&self.network_s, &moved);
    }

    /// Keeps the `top` processes or cgroups with the most time in the network stack, and adds up the others. Rows of other kinds stay.
    pub fn keep(&mut self, top: usize) {
        let time = |row: &Row| (row.time.in_network_s(), row.time.total_s());
        self.rows.sort_by(|a, b| {
            let ((na, ta), (nb, tb)) = (time(a), time(b));
            nb.total_cmp(&na).then(tb.total_cmp(&ta))
        });
        let mut rest = Row { kind: RowKind::Rest, ..Row::default() };
        let (mut kept, mut others) = (0, 0);
        self.rows.retain(|row| {
            let stays = !matches!(row.kind, RowKind::Process | RowKind::Cgroup) || kept < top;
            match row.kind {
                RowKind::Process | RowKind::Cgroup if stays => kept += 1,
                _ if stays => {}
                _ => {
                    others += 1;
                    rest.time.add(&row.time);
                }
            }
            stays
        });
        if others > 0 {
            rest.name = format!("{others} others");
            self.rows.push(rest);
        }
    }

    /// The subject's time in the network stack, in seconds.
    pub fn in_network_s(&self) -> f64 {
        total(self.network_s.values().flat_map(BTreeMap::values))
    }

    /// Takes the functions without a rule, with their seconds.
    pub fn set_missing(&mut self, missing: BTreeMap<String, f64>) {
        let all = self.in_network_s();
        self.leaf_unmapped = if all > 0.0 { total(missing.values()) / all } else { 0.0 };
        self.missing = largest(missing);
    }

    /// Seconds as processors in use.
    fn cores(&self, seconds: f64) -> f64 {
        if self.span_s > 0.0 { seconds / self.span_s } else { 0.0 }
    }
}

/// Nanoseconds per byte of each direction that has bytes.
fn per_byte(time: &NetworkTime, moved: &Moved) -> BTreeMap<Direction, BTreeMap<Category, f64>> {
    let of = |direction: Direction| {
        let bytes = moved.bytes(direction);
        let categories = time.get(&direction).cloned().unwrap_or_default();
        let figure = |category: Category| {
            (category, categories.get(&category).copied().unwrap_or(0.0) * 1e9 / bytes as f64)
        };
        (bytes > 0).then(|| (direction, Category::ALL.map(figure).into()))
    };
    Direction::ALL.into_iter().filter_map(of).collect()
}

impl Document for AttachedReport {
    const SCHEMA: &'static str = "weft-profile-attached/1";

    fn tables(&self) -> Vec<Table> {
        tables::tables(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: RowKind, name: &str, seconds: f64) -> Row {
        let mut time = TaskTime { user_s: 1.0, ..TaskTime::default() };
        time.add_network(Direction::Transmit, Category::Tcpip, seconds);
        Row { kind, name: name.to_owned(), time, ..Row::default() }
    }

    #[test]
    fn the_largest_processes_stay_and_the_others_are_added_up() {
        let of = |name, seconds| row(RowKind::Process, name, seconds);
        let rows =
            vec![of("a", 1.0), of("b", 3.0), row(RowKind::Softirq, "s", 0.1), of("c", 2.0), of("d", 0.5)];
        let mut report = AttachedReport { rows, ..AttachedReport::default() };
        report.keep(2);
        let names: Vec<&str> = report.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["b", "c", "s", "2 others"]);
        let rest = &report.rows[3].time;
        assert_eq!((rest.user_s, rest.in_network_s(), rest.total_s()), (2.0, 1.5, 3.5));
    }

    #[test]
    fn bytes_of_a_direction_divide_its_time() {
        let window = |bytes: u64| Window {
            span_s: 0.5,
            moved: Moved { tx_bytes: bytes, ..Moved::default() },
            network_s: row(RowKind::Process, "a", 0.001).time.network_s,
        };
        let mut report =
            AttachedReport { windows: vec![window(1_500_000), window(500_000)], ..Default::default() };
        report.conclude();
        assert_eq!(report.ns_per_byte[&Direction::Transmit][&Category::Tcpip], 1.0);
        assert_eq!(report.ns_per_byte[&Direction::Transmit][&Category::Skb], 0.0);
        assert!(!report.ns_per_byte.contains_key(&Direction::Receive), "no bytes, no quotient");
    }
}
