//! The costs as a file of the simulator's, with a source for each.

use std::fmt::Write;

use weft_report::profile::Side;

use super::{CostSource, Fitted, SideFit};

/// The operation and category of the simulator that has a cost.
const fn operation(side: Side, cost: CostSource) -> (&'static str, &'static str) {
    match (side, cost) {
        (Side::Sender, CostSource::Byte) => ("copy_in_byte", "data_copy"),
        (Side::Sender, CostSource::Segment) => ("software_segment", "netdev"),
        (Side::Sender, CostSource::Skb) => ("send_segment", "tcpip"),
        (Side::Sender, CostSource::Acknowledgement) => ("receive_acknowledgement", "tcpip"),
        (Side::Receiver, CostSource::Byte) => ("copy_out_byte", "data_copy"),
        (Side::Receiver, CostSource::Segment) => ("receive_packet", "netdev"),
        (Side::Receiver, CostSource::Skb) => ("receive_segment", "tcpip"),
        (Side::Receiver, CostSource::Acknowledgement) => ("send_acknowledgement", "tcpip"),
        (_, CostSource::Wait) => ("wake_up", "sched"),
    }
}

/// The price of a doorbell, which no fit sees, for the user to take in.
const DOORBELL: &str = "\n# A veth has no registers, so doorbells are not fitted and cost nothing. For a NIC's, take these lines in:\n\
    # [register_write]\n# netdev = 900\n# [[source]]\n# keys = [\"register_write\"]\n\
    # paper = \"Loom, section 2: a PCIe write takes up to 900 ns, in which the processor does nothing else\"\n";

/// The cost file of a machine, which `weft sim` takes as `costs`. What the fit cannot separate is one operation's; what it does not
/// have costs nothing. A wake-up is the mean of both sides' waits, of which a sender has few. In the simulator an acknowledgement passes `receive_packet` too, so its
/// own cost is that less. `[fitted]` has what the costs were fitted to.
pub fn machine_file(fits: &[SideFit; 2], fitted: &Fitted, machine: &str) -> String {
    let mut out = String::from("# Costs of a machine, fitted by weft profile fit. Nanoseconds per unit.\n");
    let _ = writeln!(out, "# Machine: {}", machine.replace(|c: char| c.is_control(), " "));
    let mut keys = Vec::new();
    let mut entry = |out: &mut String, (operation, category): (&str, &str), ns: f64| {
        if ns > 0.0 {
            let _ = writeln!(out, "\n[{operation}]\n{category} = {ns:.4}");
            keys.push(format!("{operation:?}"));
        }
    };
    let waits = |fit: &SideFit| fit.waits * fit.cost_ns(CostSource::Wait);
    let number: f64 = fits.iter().map(|fit| fit.waits).sum();
    let wake_up = fits.iter().map(waits).sum::<f64>() / number.max(1.0);
    let receive_packet = fits.iter().filter(|fit| fit.side == Side::Receiver);
    let receive_packet: f64 = receive_packet.map(|fit| fit.cost_ns(CostSource::Segment)).sum();
    for fit in fits {
        for (cost, ns) in CostSource::ALL.into_iter().zip(fit.costs_ns) {
            match (cost, fit.side) {
                (CostSource::Wait, _) => {}
                (CostSource::Acknowledgement, Side::Sender) => {
                    entry(&mut out, operation(fit.side, cost), ns - receive_packet);
                }
                _ => entry(&mut out, operation(fit.side, cost), ns),
            }
        }
    }
    entry(&mut out, operation(Side::Sender, CostSource::Wait), wake_up);
    out += DOORBELL;
    out += &fitted.text();
    let errors: Vec<String> =
        fits.iter().map(|fit| format!("{} {:.0} %", fit.side.name(), fit.error() * 100.0)).collect();
    if !keys.is_empty() {
        let _ = writeln!(
            out,
            "\n[[source]]\nkeys = [{}]\nassumed = \"fitted to runs on this machine by non-negative least squares; median error of \
             cells held back: {}\"",
            keys.join(", "),
            errors.join(", ")
        );
    }
    out
}
