//! Samples of a whole host to accounts, directions and categories: what ran, without known senders and receivers.
//!
//! An account is whatever the caller makes of a process or thread; [`IDLE`] is that of idle processors. Kernel time is in the network
//! stack if a function of its call chain says so (`direction`). A softirq uses the time of any process, so its network time is
//! its own; the thread of a device's NAPI is an account like others. Only time in the network stack has a category.

use std::collections::BTreeMap;

use weft_host::perf_event::{Clock, Mode};
use weft_report::profile::Category;
use weft_report::profile::attached::{Direction, NetworkTime, TaskTime};

use super::{Trace, category, direction, marks};
use crate::categories::{Categories, CategoryRule};

/// The account of idle processors.
pub const IDLE: u32 = 0;

/// Seconds by direction, category and functions from the outermost.
pub type DirectedStacks = BTreeMap<(Direction, Category, Vec<String>), f64>;

/// Processor time of a trace.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostTime {
    /// By account, with the kernel's time outside of the network stack.
    pub accounts: BTreeMap<u32, TaskTime>,
    /// The network's softirqs.
    pub softirqs: TaskTime,
    /// In programs.
    pub user_s: f64,
    /// In the kernel for processes, and in hardware interrupts.
    pub system_s: f64,
    /// In softirqs of all kinds.
    pub softirq_s: f64,
    /// Time in the network stack by innermost functions that the table does not have.
    pub missing: BTreeMap<String, f64>,
    /// Time in the network stack by chain.
    pub stacks: DirectedStacks,
}

/// The conditions of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Sampling<'a> {
    /// The table of categories.
    pub table: &'a Categories,
    /// The event that took the samples.
    pub clock: Clock,
    /// Seconds of a unit of the samples' periods.
    pub unit_s: f64,
}

impl HostTime {
    /// Adds a trace whose processes are accounts. `name` finds the function of an address; `wanted` says of which accounts stacks are
    /// kept, and softirqs are that of [`IDLE`].
    pub fn add<'s>(
        &mut self,
        trace: &Trace,
        name: impl Fn(u64) -> Option<&'s str>,
        sampling: Sampling<'_>,
        wanted: impl Fn(u32) -> bool,
    ) {
        for (sampled, periods) in trace.iter() {
            let seconds = periods as f64 * sampling.unit_s;
            if sampled.mode != Mode::Kernel {
                self.user_s += seconds;
                self.accounts.entry(sampled.pid).or_default().user_s += seconds;
                continue;
            }
            let names: Vec<&str> = sampled.chain.iter().map(|a| name(*a).unwrap_or("[unknown]")).collect();
            self.add_kernel(sampled.pid, &names, sampling, seconds, &wanted);
        }
    }

    fn add_kernel(
        &mut self,
        account: u32,
        names: &[&str],
        sampling: Sampling<'_>,
        seconds: f64,
        wanted: &impl Fn(u32) -> bool,
    ) {
        let softirq = marks::softirq(names);
        if softirq.is_none() && account == IDLE && is_idle(names, sampling.table) {
            return;
        }
        match softirq {
            Some(_) => self.softirq_s += seconds,
            None => self.system_s += seconds,
        }
        let (inside, of_thread) = match softirq {
            None => (names, true),
            // The loop of a NAPI thread is the device's work too.
            Some(entry) if marks::is_napi_thread(&names[entry..=entry]) => (&names[..=entry], true),
            Some(entry) => (&names[..entry], false),
        };
        let Some(direction) = direction::of(inside) else {
            // Timers and RCU interrupt the process that runs.
            self.accounts.entry(account).or_default().kernel_s += seconds;
            return;
        };
        let verdict = category::of(names, sampling.table, sampling.clock);
        let time = if of_thread { self.accounts.entry(account).or_default() } else { &mut self.softirqs };
        time.add_network(direction, verdict.category, seconds);
        if wanted(if of_thread { account } else { IDLE }) {
            if let (false, Some(leaf)) = (verdict.known, names.first()) {
                *self.missing.entry((*leaf).to_owned()).or_default() += seconds;
            }
            let frames: Vec<String> = names.iter().rev().map(|name| (*name).to_owned()).collect();
            *self.stacks.entry((direction, verdict.category, frames)).or_default() += seconds;
        }
    }
}

impl HostTime {
    /// Adds another trace's time.
    pub fn merge(&mut self, other: Self) {
        for (account, time) in &other.accounts {
            self.accounts.entry(*account).or_default().add(time);
        }
        self.softirqs.add(&other.softirqs);
        self.user_s += other.user_s;
        self.system_s += other.system_s;
        self.softirq_s += other.softirq_s;
        for (name, seconds) in other.missing {
            *self.missing.entry(name).or_default() += seconds;
        }
        for (stack, seconds) in other.stacks {
            *self.stacks.entry(stack).or_default() += seconds;
        }
    }

    /// The time in the network stack of the wanted accounts; softirqs are that of [`IDLE`].
    pub fn network(&self, wanted: impl Fn(u32) -> bool) -> NetworkTime {
        let mut all = TaskTime::default();
        for (_, time) in self.accounts.iter().filter(|(account, _)| wanted(**account)) {
            all.add(time);
        }
        if wanted(IDLE) {
            all.add(&self.softirqs);
        }
        all.network_s
    }
}

/// Whether a chain of the idle task is idle: no interrupt is inside of its loop.
fn is_idle(names: &[&str], table: &Categories) -> bool {
    let loops = names.iter().position(|name| table.rule(name) == Some(CategoryRule::Idle));
    let interrupt = names.iter().position(|name| marks::is_interrupt(name));
    match (interrupt, loops) {
        (Some(interrupt), Some(loops)) => loops < interrupt,
        (Some(_), None) => false,
        (None, _) => true,
    }
}
