//! A policy as commands of other systems.
//!
//! [`to_tc`] writes tc(8) commands for the kernel's hierarchical token bucket (HTB) and its u32 classifier. The commands are text: nothing
//! is run. The steps:
//!
//! 1. `htb`: the tree becomes HTB classes. A leaf's rate is the rate that the policy guarantees it, a limit becomes the `ceil` of the
//!    class that it covers, and strict priority becomes the order in which spare rate is offered.
//! 2. `filters`: the rows of the classification table, each with the destinations of its class, become u32 filters in their order, one
//!    for each address family; marks alone, fw filters.
//! 3. What HTB and u32 cannot express is listed as comments before the commands.
//!
//! These rules hold:
//!
//! - Each lane has a class, and the class of the last row is HTB's default, so every packet has a place.
//! - A filter matches no packet that its row does not match, as far as u32 can see: a row that u32 cannot express is left out and
//!   listed, and its packets continue to the rows after it.

mod filters;
mod htb;

use crate::compiled::CompiledPolicy;
use crate::promise::{LIMITS, ORDER, Promise};
use core::fmt::Write;

/// An error of an export.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// HTB classes need rates, and rates need the link's.
    #[error(
        "the rate of the link is unknown: state it in the policy, such as `link 10gbps`, or give it by --rate"
    )]
    NoLinkRate,
    /// The device's name is invalid.
    #[error("{0:?} is not the name of a device: 1 to 15 letters, digits, `_`, `-`, `.` or `@`")]
    Device(String),
    /// HTB numbers its classes with 16 bits.
    #[error("the policy has {0} lanes and nodes; HTB has numbers for at most {1}")]
    TooManyClasses(usize, usize),
    /// tc numbers its filters with 16 bits.
    #[error(
        "the rows of the match table, for each destination, are more than the {0} for which tc has numbers"
    )]
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

/// The promises of `policy` that HTB does not keep, or keeps in part.
///
/// # Errors
/// When there are no such commands.
pub fn losses(policy: &CompiledPolicy) -> Result<Vec<Promise>, ExportError> {
    classes_and_filters(policy).map(|(_, _, losses)| losses.0)
}

fn classes_and_filters(
    policy: &CompiledPolicy,
) -> Result<(htb::Tree, Vec<filters::Filter>, Losses), ExportError> {
    let link = policy.link.ok_or(ExportError::NoLinkRate)?;
    let mut losses = Losses::default();
    let tree = htb::tree(policy, link, &mut losses)?;
    let filters = filters::filters(policy, &tree, &mut losses)?;
    losses.add(
        ORDER,
        "infrastructure (ARP, neighbour discovery, DHCP) has no share of its own: the classes take it",
    );
    losses.add(LIMITS, "a packet that is segmented later is charged once for its framing (`overhead`), not once for each segment");
    if policy.classes.iter().any(|class| class.latency.is_some()) {
        losses.lose("latencies hold", "`latency`: super-packets are sent whole");
    }
    Ok((tree, filters, losses))
}

/// The tc(8) commands that enforce `policy` at `device` as far as HTB can.
///
/// # Errors
/// When HTB cannot number the classes or filters, the link's rate is unknown, or the name is no device's.
pub fn to_tc(policy: &CompiledPolicy, device: &str) -> Result<String, ExportError> {
    let valid = |c: char| c.is_ascii_alphanumeric() || "_-.@".contains(c);
    if device.is_empty() || device.len() > 15 || device.starts_with('-') || !device.chars().all(valid) {
        return Err(ExportError::Device(device.to_owned()));
    }
    let (tree, filters, losses) = classes_and_filters(policy)?;
    let link = policy.link.ok_or(ExportError::NoLinkRate)?;
    let mut out =
        format!("# HTB at {device}, link of {}. Remove it by: tc qdisc del dev {device} root\n", link);
    out.push_str("#\n# Not expressed by these commands:\n");
    for line in losses.0.iter().filter_map(|loss| loss.within.as_ref()) {
        let _ = writeln!(out, "# - {}", weft_text::printable(line));
    }
    let default = tree.default_minor(policy);
    let _ = writeln!(out, "\ntc qdisc add dev {device} root handle 1: htb default {default:x}");
    for class in &tree.classes {
        let _ = writeln!(out, "\n# {}", weft_text::printable(&class.title));
        let _ = writeln!(out, "{}", class.command(device));
        if let Some(limit) = class.packets {
            let minor = class.minor;
            let _ = writeln!(
                out,
                "tc qdisc add dev {device} parent 1:{minor:x} handle {minor:x}: pfifo limit {limit}"
            );
        }
    }
    for filter in filters {
        let _ = write!(out, "\n# {}\n{}", weft_text::printable(&filter.title), filter.commands(device));
    }
    Ok(out)
}
