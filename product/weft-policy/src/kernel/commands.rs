//! The tree as tc(8) commands, for people and for dry runs.

use super::parts::OVERHEAD;
use super::tree::{Class, ClassKind, KernelPart, KernelTree, Parent, Qdisc, QdiscKind};
use core::fmt::Write;

impl KernelTree {
    /// The tc(8) commands that make the tree at `device`, in their order, each below a comment. The device's name is not checked.
    pub fn commands(&self, device: &str) -> String {
        let (mut out, mut last) = (String::new(), "");
        for part in &self.parts {
            // A qdisc is shown below the class that has it.
            if part.title() != last || matches!(part, KernelPart::Class(_)) {
                let _ = writeln!(out, "\n# {}", weft_text::printable(part.title()));
            }
            last = part.title();
            let _ = writeln!(out, "{}", part.command(device));
        }
        out
    }
}

impl KernelPart {
    /// The tc(8) command that makes it at `device`.
    pub fn command(&self, device: &str) -> String {
        match self {
            Self::Qdisc(qdisc) => {
                let parent = match qdisc.parent {
                    Parent::Root => "root".to_owned(),
                    Parent::Class(class) => format!("parent {class}"),
                };
                format!("tc qdisc add dev {device} {parent} handle {} {}", qdisc.handle, qdisc.options())
            }
            Self::Class(class) => format!(
                "tc class add dev {device} parent {} classid {} {}",
                class.parent,
                class.handle,
                class.options()
            ),
        }
    }
}

impl Qdisc {
    /// Its kind and its parameters, as tc takes them.
    pub fn options(&self) -> String {
        let name = self.kind.name();
        match self.kind {
            QdiscKind::Htb { default } => format!("{name} default {:x}", default.minor),
            QdiscKind::Drr => name.to_owned(),
            QdiscKind::Prio { bands, unclassified } => {
                let band = unclassified.saturating_sub(1);
                format!("{name} bands {bands} priomap{}", format!(" {band}").repeat(16))
            }
            QdiscKind::FqCodel { limit, target } => {
                format!("{name} limit {limit} target {}us", target.get().div_ceil(1_000))
            }
            QdiscKind::Pfifo { limit } => format!("{name} limit {limit}"),
            QdiscKind::Fq { limit, flow_limit } => format!("{name} limit {limit} flow_limit {flow_limit}"),
        }
    }
}

impl Class {
    /// Its kind and all its parameters, as tc takes them.
    pub fn options(&self) -> String {
        match self.kind {
            ClassKind::Htb(of) => format!(
                "htb rate {}bit ceil {}bit burst {}b cburst {}b prio {} quantum {} overhead {}",
                of.rate.get(),
                of.ceil.get(),
                of.burst.get(),
                of.cburst.get(),
                of.prio,
                of.quantum.get(),
                OVERHEAD.get()
            ),
            ClassKind::Drr { quantum } => format!("drr quantum {}", quantum.get()),
        }
    }
}
