//! A policy as commands of other systems.
//!
//! [`to_tc`] writes tc(8) commands for the kernel form of a policy ([`crate::kernel`]), with filters of u32 in place of a classifying
//! program. The commands are text: nothing is run.
//!
//! 1. `kernel::lower` makes the tree of qdiscs.
//! 2. `filters`: the rows of the classification table become u32 filters in their order, one for each address family; marks alone, fw
//!    filters. A filter chooses a class of one qdisc, so each is at every qdisc on the way to its leaf.
//! 3. Statements that the commands do not keep as they are written are comments before them.
//!
//! These rules hold:
//!
//! - Each class has a leaf, and the class of the last row is the tree's default, so every packet has a place.
//! - A filter matches no packet that its row does not match, as far as u32 can see: a row that u32 cannot express is left out and
//!   listed, and its packets continue to the rows after it.

mod filters;

use crate::compiled::CompiledPolicy;
use crate::kernel::{LowerError, Lowered, lower};
use crate::promise::{CLASSES, Kept, Promise};
use core::fmt::Write;

/// An error of an export.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The policy has no kernel form.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The device's name is invalid.
    #[error("{0:?} is not the name of a device: 1 to 15 letters, digits, `_`, `-`, `.` or `@`")]
    Device(String),
    /// tc numbers its filters with 16 bits.
    #[error("the rows of the match table are more than the {0} for which tc has numbers")]
    TooManyRows(usize),
}

/// The promises of a policy that the commands do not keep, each with its line.
#[derive(Debug, Default)]
struct Losses(Vec<Promise>);

impl Losses {
    /// A promise that is kept in part.
    fn add(&mut self, promise: &str, line: impl Into<String>) {
        self.push(Promise::within(promise, line));
    }

    /// A promise that is not kept.
    fn lose(&mut self, promise: &str, line: impl Into<String>) {
        self.push(Promise::broken(promise, line));
    }

    fn push(&mut self, promise: Promise) {
        if !self.0.contains(&promise) {
            self.0.push(promise);
        }
    }
}

/// The promises of `policy` that the commands do not keep, or keep in part.
///
/// # Errors
/// When there are no such commands.
pub fn losses(policy: &CompiledPolicy) -> Result<Vec<Promise>, ExportError> {
    tree_and_filters(policy).map(|(_, _, losses)| losses.0)
}

fn tree_and_filters(policy: &CompiledPolicy) -> Result<(Lowered, Vec<filters::Filter>, Losses), ExportError> {
    let lowered = lower(policy)?;
    let mut losses = Losses::default();
    // The classes are those that u32 sees, and not those of the classifying program.
    let promises = lowered.promises().into_iter().filter(|of| of.promise != CLASSES && of.kept != Kept::Yes);
    promises.for_each(|promise| losses.push(promise));
    let filters = filters::filters(policy, &lowered, &mut losses)?;
    for clock in &lowered.map.clocks {
        let promise = format!("limit {}", clock.name);
        losses.0.retain(|of| of.promise != promise);
        losses.lose(
            &promise,
            format!(
                "limit {}: commands of tc cannot limit by destination or port (`weft apply` does)",
                clock.name
            ),
        );
    }
    if lowered.map.infrastructure.is_some() {
        losses.add(CLASSES, "infrastructure (ARP, neighbour discovery, DHCP) goes by the rows: no filter sends it to its class");
    }
    Ok((lowered, filters, losses))
}

/// The tc(8) commands that enforce `policy` at `device` as far as stock qdiscs can.
///
/// # Errors
/// When the policy has no kernel form, tc cannot number the filters, or the name is no device's.
pub fn to_tc(policy: &CompiledPolicy, device: &str) -> Result<String, ExportError> {
    let valid = |c: char| c.is_ascii_alphanumeric() || "_-.@".contains(c);
    if device.is_empty() || device.len() > 15 || device.starts_with('-') || !device.chars().all(valid) {
        return Err(ExportError::Device(device.to_owned()));
    }
    let (lowered, filters, losses) = tree_and_filters(policy)?;
    let mut out = format!("# Qdiscs at {device}. Remove them by: tc qdisc del dev {device} root\n");
    if let Some(link) = policy.link {
        let _ = writeln!(
            out,
            "# The link has {link}: a little less than the next link that is full, or that one has the queue."
        );
    }
    out.push_str("#\n# Not as the policy says:\n");
    for loss in &losses.0 {
        let line = loss.within.as_deref().unwrap_or("not at all");
        // The line of a row names it.
        let whole = if loss.promise == CLASSES || line.starts_with(&loss.promise) {
            line.to_owned()
        } else {
            format!("{}: {line}", loss.promise)
        };
        let _ = writeln!(out, "# - {}", weft_text::printable(&whole));
    }
    out.push_str(&lowered.tree.commands(device));
    for filter in filters {
        let _ = write!(out, "\n# {}\n{}", weft_text::printable(&filter.title), filter.commands(device));
    }
    for filter in &lowered.map.filters {
        let Some(class) = filter.otherwise else { continue };
        let _ = writeln!(
            out,
            "\n# all others\ntc filter add dev {device} parent {} protocol all prio {} u32 match u32 0 0 flowid {class}",
            filter.qdisc,
            u16::MAX
        );
    }
    Ok(out)
}
