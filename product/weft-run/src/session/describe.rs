//! The description of a run's devices and programs, before they are created.

use super::settings::place;
use super::{Inner, PortKind, RING_PACKETS, Receive, SessionSettings};
use core::fmt::Write;
use weft_nic::link::{DeviceLink, LinkKind, LinkRate, PIECE};
use weft_nic::nic::NicPlan;
use weft_nic::plan::{QueuePlan, RingPlan};
use weft_nic::port::RING_SLOTS;
use weft_nic::redirect::{ReceivePath, ThreadReason};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::{INFRASTRUCTURE, describe, describe_infrastructure};
use weft_sched::queues::Service;

/// Describes the policy or the hardware queues, the rings of each, and every device and program that `settings` would
/// create. Changes nothing.
pub fn describe_plan(settings: &SessionSettings, plan: &NicPlan) -> String {
    let plan = plan.rings();
    let mut out = match &plan.queues {
        Some(queues) => multiqueue(settings, queues),
        None => lanes(settings, plan),
    };
    out.push_str("would be created\n");
    for line in devices(settings, plan) {
        let _ = writeln!(out, "  {line}");
    }
    out
}

/// Describes the policy, and the rings of each lane.
fn lanes(settings: &SessionSettings, plan: &RingPlan) -> String {
    let policy = plan.policy();
    let mut out = describe(policy) + describe_infrastructure(policy);
    let workers = settings.workers.get();
    if workers > 1 {
        let _ = writeln!(
            out,
            "{workers} transmit workers share it; each port belongs to one of them, so one port has work for one"
        );
    }
    let _ = writeln!(out, "rings, {} of the port's {} at most", plan.rings.len(), settings.rings);
    for (number, lane) in plan.lanes.iter().enumerate() {
        let class = policy.classes.get(usize::from(lane.class)).map_or(INFRASTRUCTURE, |class| &class.name);
        let rings = numbers("ring", usize::from(lane.first_ring), usize::from(lane.rings));
        let _ = writeln!(out, "  lane {number} ({class}): {rings}");
    }
    out
}

/// Describes the hardware queues, and their service order.
fn multiqueue(settings: &SessionSettings, plan: &QueuePlan) -> String {
    let mut out = format!("link of {}\n", settings.rate);
    let _ = writeln!(out, "multiqueue NIC, {}", count(plan.queues, "hardware queue"));
    if plan.queues > 1 {
        let _ = writeln!(
            out,
            "  a packet's queue: its hash modulo {}; `weft titan attach` may set the hash",
            plan.queues
        );
    }
    let inner = match plan.inner {
        Inner::Fair if plan.rings > 1 => {
            format!("{} rings share it by bytes; a new flow takes an empty one", plan.rings)
        }
        // A fair queue with one ring has no other rings to share with.
        Inner::Fifo | Inner::Fair => "first in, first out, in one ring".to_owned(),
    };
    let _ = writeln!(out, "  inside a queue: {inner}");
    let service = match plan.service {
        Service::RoundRobin => "one packet of each in turns".to_owned(),
        Service::Deficit { credit } => format!("deficit round robin, {credit} a turn"),
    };
    let _ = writeln!(out, "  between queues: {service}; by weight where `weft titan attach` asks for that");
    for queue in 0..plan.queues {
        let rings = numbers("ring", queue * plan.rings, plan.rings);
        let _ = writeln!(out, "  queue {queue}: {rings}");
    }
    out
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The carrier of received packets. Only loading the program shows whether the kernel accepts it.
fn receive(settings: &SessionSettings) -> String {
    let kernel = "in the kernel (eBPF program `weft_receive` at the uplink's ingress)";
    match (settings.receive, settings.port) {
        (Receive::Thread, _) => "by the thread".to_owned(),
        (Receive::Auto | Receive::Kernel, PortKind::Tap) => {
            ReceivePath::Thread(ThreadReason::TapPort).to_string()
        }
        (Receive::Auto, _) => format!("{kernel}, or by the thread if the kernel refuses it"),
        (Receive::Kernel, _) => kernel.to_owned(),
    }
}

/// The text `ring 3` or `rings 3 to 5`.
fn numbers(what: &str, first: usize, count: usize) -> String {
    match count {
        0 | 1 => format!("{what} {first}"),
        _ => format!("{what}s {first} to {}", first + count - 1),
    }
}

fn devices(settings: &SessionSettings, plan: &RingPlan) -> Vec<String> {
    let (port, mac) = (&settings.name, settings.mac);
    let here = place(settings.port_netns.as_deref());
    let nic = "that namespace";
    let mut lines = vec![
        "a network namespace without a name, which goes with the process that runs".to_owned(),
        format!("port {port}, {} in {here} with hardware address {mac}", kind_of(settings)),
    ];
    lines.extend(
        settings.addresses.iter().map(|(address, length)| format!("address {address}/{length} on {port}")),
    );
    let rings = plan.rings.len();
    match settings.port {
        PortKind::Veth | PortKind::Auto => lines.extend(behind_veth(settings, rings, nic)),
        PortKind::Tap => lines.push(format!(
            "{} of {RING_SLOTS} packets, each with a FIFO of {RING_PACKETS} (mq, pfifo)",
            count(rings, "ring")
        )),
    }
    lines.push(format!("eBPF program `doorbell` at the egress of {port}, with its maps"));
    lines.push(format!(
        "uplink {} in {nic}, a macvtap in bridge mode on {} of {}, and another, which receives, with hardware address {mac}",
        settings.uplink_device(),
        settings.uplink,
        place(settings.uplink_netns.as_deref())
    ));
    lines.push(format!("two threads: transmit {}; receive", pace(settings)));
    lines.push(format!("receive: {}", receive(settings)));
    lines
}

fn kind_of(settings: &SessionSettings) -> &'static str {
    match settings.port {
        PortKind::Veth | PortKind::Auto => "a veth",
        PortKind::Tap => "a TAP",
    }
}

/// Describes the devices between a veth and its rings.
fn behind_veth(settings: &SessionSettings, rings: usize, nic: &str) -> Vec<String> {
    let stem: String = settings.name.chars().take(11).collect();
    let mut lines = vec![
        format!("its far end {stem}-nic in {nic}"),
        format!("macvtap {stem}-tap on it, with {} of {RING_PACKETS} packets", count(rings, "ring")),
    ];
    if settings.queues.is_some() {
        lines.push(format!("receive packet steering at {stem}-nic: a flow passes one core's backlog"));
    }
    lines
}

/// The rate, and the longest chunk.
fn pace(settings: &SessionSettings) -> String {
    let longest = match settings.segments_per_turn() {
        SegmentsPerTurn::Whole => "super-packets left whole".to_owned(),
        SegmentsPerTurn::AtMost(n) => format!("super-packets cut after every {n} segments"),
    };
    match settings.link {
        LinkKind::Emulated => format!("at {}, {longest}", settings.rate),
        LinkKind::Device(DeviceLink { rate, piece }) => {
            let rate = match rate {
                LinkRate::Given => format!("at {}", settings.rate),
                LinkRate::Observed => format!("as fast as {} takes packets", settings.uplink),
            };
            let piece = piece.unwrap_or(PIECE);
            format!(
                "{rate}, {longest}, or in chunks of {piece} of link time while a class below its share sends"
            )
        }
    }
}
