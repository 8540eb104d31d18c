//! What a run would create, in words.

use super::{RING_PACKETS, Settings, place};
use core::fmt::Write;
use weft_host::RunId;
use weft_nic::plan::RingPlan;
use weft_nic::worker::Grain;
use weft_policy::{CompiledPolicy, describe};

/// The policy, the rings of each lane, and every device and program that `settings` would make. Touches nothing.
pub fn describe_plan(policy: &CompiledPolicy, settings: &Settings, plan: &RingPlan) -> String {
    let mut out = describe(policy);
    let _ = writeln!(out, "rings, {} of the port's {} at most", plan.rings.len(), settings.rings);
    for (number, lane) in plan.lanes.iter().enumerate() {
        let class = policy.classes.get(usize::from(lane.class)).map_or("?", |class| &class.name);
        let (first, last) = (lane.first_ring, lane.first_ring + lane.rings.saturating_sub(1));
        let rings = if first == last { format!("ring {first}") } else { format!("rings {first} to {last}") };
        let _ = writeln!(out, "  lane {number} ({class}): {rings}");
    }
    out.push_str("would be created\n");
    for line in devices(settings, plan) {
        let _ = writeln!(out, "  {line}");
    }
    out
}

fn devices(settings: &Settings, plan: &RingPlan) -> Vec<String> {
    let (port, mac) = (&settings.name, settings.mac);
    let here = place(settings.port_netns.as_deref());
    let nic = RunId::current().name("nic");
    let mut lines = vec![
        format!("network namespace {nic} (named after the process that runs)"),
        format!("port {port}, a veth in {here} with hardware address {mac}"),
    ];
    lines.extend(
        settings.addresses.iter().map(|(address, length)| format!("address {address}/{length} on {port}")),
    );
    let stem: String = port.chars().take(11).collect();
    let rings = plan.rings.len();
    lines.push(format!("its far end {stem}-nic in {nic}"));
    lines.push(format!("macvtap {stem}-tap on it, with {rings} rings of {RING_PACKETS} packets"));
    lines.push(format!("eBPF program `doorbell` at the egress of {port}, with its maps"));
    lines.push(format!(
        "uplink {}, a macvtap in bridge mode on {} of {}, with hardware address {mac}",
        settings.uplink_device(),
        settings.uplink,
        place(settings.uplink_netns.as_deref())
    ));
    let grain = match settings.grain {
        Grain::Whole => "super-packets left whole".to_owned(),
        Grain::Segments(n) => format!("super-packets cut after every {n} segments"),
    };
    lines.push(format!("two threads: transmit at {}, {grain}; receive", settings.rate));
    lines
}
