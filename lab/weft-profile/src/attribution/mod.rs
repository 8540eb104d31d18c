//! Samples to sides and categories.
//!
//! **Side.** The part of a call chain between its innermost function and the entry of a softirq is the softirq's work; it may run
//! on any process's time. There the side is that of the innermost function that only one side has (`marks`); a receive path that
//! neither side marks, such as a packet's way through IP, is divided as the packets that the two sides received. Outside of
//! softirqs the side is that of the process. Where processes are not known ([`Processes::Unknown`]), marks decide there too.
//!
//! **Category.** The innermost function's rule; a helper and an unknown function take the nearest caller's. A function that
//! switches interrupts back on takes the category of a `caller > leaf` pair; otherwise, by a clock with skid, the time is
//! [`Category::IrqOff`].
//!
//! [`host`] does the same for whatever runs on a host, by direction instead of side.

mod category;
mod direction;
pub mod host;
mod marks;
mod trace;

use std::collections::{BTreeMap, BTreeSet};

use weft_report::profile::{Category, Side, SideTime};

use crate::categories::Categories;
use category::Verdict;
pub use trace::Trace;
use weft_host::perf_event::{Clock, Mode};

/// The traffic's kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrafficKind {
    /// One side sends, the other receives.
    Bulk,
    /// Both sides do both: marks decide nothing.
    Requests,
}

/// The processes of the sides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Processes {
    /// They are these, with the NAPI threads of their devices.
    Known {
        /// The sender's.
        sender: BTreeSet<u32>,
        /// The receiver's.
        receiver: BTreeSet<u32>,
    },
    /// Whatever runs on the host.
    Unknown,
}

/// The conditions of a trace.
#[derive(Clone, Debug)]
pub struct TraceConditions {
    /// The processes.
    pub processes: Processes,
    /// This program's process.
    pub tool: u32,
    /// The traffic's kind.
    pub traffic: TrafficKind,
    /// The event that took the samples.
    pub clock: Clock,
    /// Seconds of a unit of the samples' periods.
    pub unit_s: f64,
    /// The sender's share of the packets that both sides received.
    pub sender_packets: f64,
}

/// Processor time of a trace.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Attribution {
    /// The sender's.
    pub sender: SideTime,
    /// The receiver's.
    pub receiver: SideTime,
    /// Time of other processes.
    pub foreign_s: f64,
    /// Time of softirqs and interrupts of no known process, in the kernel's own threads and on idle processors: mostly timers.
    pub interrupts_s: f64,
    /// Time of this program.
    pub tool_s: f64,
    /// Time of idle processors.
    pub idle_s: f64,
    /// Kernel time of the sides by innermost functions that the table does not have.
    pub missing: BTreeMap<String, f64>,
    /// Kernel time by side, category and functions from the outermost.
    pub stacks: BTreeMap<(Side, Category, Vec<String>), f64>,
}

/// The share of each side in a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Owner {
    Side(Side),
    /// A receive path of either side.
    Shared,
    Foreign,
    Interrupts,
    Tool,
    Idle,
}

/// A kind of samples, with its functions' names.
struct Chain<'a> {
    pid: u32,
    mode: Mode,
    /// The innermost first.
    names: &'a [&'a str],
    /// The position of the innermost softirq's entry.
    softirq: Option<usize>,
}

impl Attribution {
    /// Attributes a trace. `name` finds the function of an address.
    pub fn of<'s>(
        trace: &Trace,
        name: impl Fn(u64) -> Option<&'s str>,
        table: &Categories,
        setting: &TraceConditions,
    ) -> Self {
        let mut all = Self::default();
        for (sampled, periods) in trace.iter() {
            let names: Vec<&str> = sampled.chain.iter().map(|a| name(*a).unwrap_or("[unknown]")).collect();
            let softirq = marks::softirq(&names);
            let chain = Chain { pid: sampled.pid, mode: sampled.mode, names: &names, softirq };
            all.add(&chain, table, setting, periods as f64 * setting.unit_s);
        }
        all
    }

    fn add(&mut self, chain: &Chain<'_>, table: &Categories, setting: &TraceConditions, seconds: f64) {
        let verdict = category::of(chain.names, table, setting.clock);
        match owner(chain, table, setting) {
            Owner::Side(side) => self.add_side(side, chain, verdict, seconds),
            Owner::Shared => {
                let senders = seconds * setting.sender_packets;
                self.add_side(Side::Sender, chain, verdict, senders);
                self.add_side(Side::Receiver, chain, verdict, seconds - senders);
            }
            Owner::Foreign => self.foreign_s += seconds,
            Owner::Interrupts => self.interrupts_s += seconds,
            Owner::Tool => self.tool_s += seconds,
            Owner::Idle => self.idle_s += seconds,
        }
    }

    fn add_side(&mut self, side: Side, chain: &Chain<'_>, verdict: Verdict, seconds: f64) {
        let time = match side {
            Side::Sender => &mut self.sender,
            Side::Receiver => &mut self.receiver,
        };
        if chain.mode != Mode::Kernel {
            time.user_s += seconds;
            return;
        }
        match chain.softirq {
            Some(_) => time.softirq_s += seconds,
            None => time.system_s += seconds,
        }
        let Verdict { category, known } = verdict;
        *time.categories_s.entry(category).or_default() += seconds;
        if let (false, Some(leaf)) = (known, chain.names.first()) {
            *self.missing.entry((*leaf).to_owned()).or_default() += seconds;
        }
        let frames: Vec<String> = chain.names.iter().rev().map(|name| (*name).to_owned()).collect();
        *self.stacks.entry((side, category, frames)).or_default() += seconds;
    }

    /// The same time with all that is a side's as `side`'s: on a host that is only one end of the traffic.
    #[must_use]
    pub fn all_of(mut self, side: Side) -> Self {
        let (from, into) = match side {
            Side::Sender => (std::mem::take(&mut self.receiver), &mut self.sender),
            Side::Receiver => (std::mem::take(&mut self.sender), &mut self.receiver),
        };
        into.user_s += from.user_s;
        into.system_s += from.system_s;
        into.softirq_s += from.softirq_s;
        for (category, seconds) in from.categories_s {
            *into.categories_s.entry(category).or_default() += seconds;
        }
        for ((_, category, frames), seconds) in std::mem::take(&mut self.stacks) {
            *self.stacks.entry((side, category, frames)).or_default() += seconds;
        }
        self
    }

    /// Share of the sides' kernel time whose innermost function the table does not have.
    pub fn leaf_unmapped(&self) -> f64 {
        let kernel = self.sender.kernel_s() + self.receiver.kernel_s();
        let missing = self.missing.values().fold(0.0, |all, one| all + one);
        if kernel > 0.0 { missing / kernel } else { 0.0 }
    }
}

fn owner(chain: &Chain<'_>, table: &Categories, setting: &TraceConditions) -> Owner {
    let (pid, names) = (chain.pid, chain.names);
    if let Some(inside) = chain.softirq.map(|entry| &names[..entry]).filter(|i| marks::is_network(i)) {
        let mark = marks::side(inside).filter(|_| setting.traffic == TrafficKind::Bulk);
        let thread = || napi_side(chain, &setting.processes);
        return mark.or_else(thread).map_or(Owner::Shared, Owner::Side);
    }
    // Timers and the like interrupt the process that runs.
    if pid == setting.tool {
        return Owner::Tool;
    }
    match &setting.processes {
        Processes::Known { sender, .. } if sender.contains(&pid) => Owner::Side(Side::Sender),
        Processes::Known { receiver, .. } if receiver.contains(&pid) => Owner::Side(Side::Receiver),
        _ if pid == 0 => idle(names, table),
        // TCP's timers that need no lock of the socket run there, without a function of TCP's on the stack while the clock's
        // interrupt is set anew.
        _ if marks::is_processor_thread(names) => Owner::Interrupts,
        Processes::Unknown => {
            marks::side(names).filter(|_| chain.softirq.is_none()).map_or(Owner::Foreign, Owner::Side)
        }
        Processes::Known { .. } => Owner::Foreign,
    }
}

/// The side of a NAPI thread, which receives for one device only.
fn napi_side(chain: &Chain<'_>, processes: &Processes) -> Option<Side> {
    let Processes::Known { sender, receiver } = processes else { return None };
    let is = |set: &BTreeSet<u32>| marks::is_napi_thread(chain.names) && set.contains(&chain.pid);
    if is(sender) { Some(Side::Sender) } else { is(receiver).then_some(Side::Receiver) }
}

/// The idle task: all of its time is idle, but for interrupts without a known process.
fn idle(names: &[&str], table: &Categories) -> Owner {
    let idles = names.iter().any(|name| table.rule(name) == Some(crate::categories::CategoryRule::Idle));
    let interrupts = names.iter().any(|name| marks::is_interrupt(name));
    if interrupts && !idles { Owner::Interrupts } else { Owner::Idle }
}

#[cfg(test)]
mod tests;
