//! The scenario of a host: the base of `experiments/scenarios/tune.toml` with the host's facts, what is assumed where a fact is
//! missing, and what must be known and is not.

use super::{TuneError, TuneOptions};
use crate::catalogue::overlay;
use crate::reproduce::file::Parameters;
use toml::{Table, Value};
use weft_facts::human;
use weft_host::transmit::{ByteLimits, Facts};
use weft_report::tune::{Fact, Wish};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The bytes that a run measures at least, as the papers' second at 10 Gb/s; and the bounds of its length.
const MEASURED: Bytes = Bytes(1_250_000_000);
const SHORTEST: Nanos = Nanos::from_millis(50);
const LONGEST: Nanos = Nanos::from_secs(4);
/// The headers of a TCP packet over IPv4 in the simulator.
const HEADERS: u64 = 40;
/// The packets' sizes that a scenario takes.
const MTU: core::ops::RangeInclusive<u64> = 576..=65_535;
/// The congestion controls that the simulator has.
const CONGESTION_CONTROLS: [&str; 3] = ["cubic", "dctcp", "reno"];

/// A host's scenario as a document.
#[derive(Debug)]
pub(super) struct HostScenario {
    pub(super) document: Table,
    pub(super) assumed: Vec<String>,
    pub(super) unknown: Vec<String>,
}

/// Builds the scenario.
pub(super) fn scenario(
    parameters: &Parameters,
    facts: &Facts,
    options: &TuneOptions,
) -> Result<HostScenario, TuneError> {
    let mut host = HostScenario { document: parameters.base()?, assumed: Vec::new(), unknown: Vec::new() };
    let mut fill = Fill { host: &mut host, options };
    fill.link(facts)?;
    fill.stack(facts)?;
    fill.nic(facts)?;
    fill.work(facts)?;
    for setting in &options.sets {
        overlay::apply(&mut host.document, &setting.path, setting.value.clone())?;
    }
    times(&mut host.document, options)?;
    Ok(host)
}

pub(super) fn bytes(size: Bytes) -> Value {
    Value::String(format!("{}B", size.get()))
}

fn time(span: Nanos) -> Value {
    Value::String(format!("{}ns", span.get()))
}

pub(super) fn number(number: u32) -> Value {
    Value::Integer(number.into())
}

/// Whether the user gives a key, or a part of it.
pub(super) fn is_given(options: &TuneOptions, key: &str) -> bool {
    options.sets.iter().any(|setting| {
        setting.path == key || setting.path.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
    })
}

/// Puts facts into a scenario.
struct Fill<'a> {
    host: &'a mut HostScenario,
    options: &'a TuneOptions,
}

impl Fill<'_> {
    fn set(&mut self, key: &str, value: Value) -> Result<(), TuneError> {
        Ok(overlay::apply(&mut self.host.document, key, value)?)
    }

    /// A fact without which nothing can be said. `missing` says what to do.
    fn decide(&mut self, key: &str, fact: Result<Value, String>) -> Result<(), TuneError> {
        if is_given(self.options, key) {
            return Ok(());
        }
        match fact {
            Ok(value) => self.set(key, value)?,
            Err(missing) => self.host.unknown.push(missing),
        }
        Ok(())
    }

    /// A fact in whose place something is assumed.
    fn take(&mut self, key: &str, fact: Option<Value>, assumed: &str) -> Result<(), TuneError> {
        if is_given(self.options, key) {
            return Ok(());
        }
        match fact {
            Some(value) => self.set(key, value)?,
            None => self.host.assumed.push(assumed.to_owned()),
        }
        Ok(())
    }

    fn link(&mut self, facts: &Facts) -> Result<(), TuneError> {
        let rate = self.options.rate.or(facts.rate).filter(|rate| *rate > BitsPerSec::ZERO);
        let missing = || match facts.kind.as_deref().filter(|kind| !kind.is_empty()) {
            Some(kind) => format!(
                "the rate of the link: {} is a {kind}, which has no wire; name the hardware below it with --device, or give --rate",
                facts.device
            ),
            None => {
                "the rate of the link, which the driver does not report; give --rate, such as --rate 10gbps"
                    .to_owned()
            }
        };
        let rate = rate.map(|rate| Value::String(format!("{}bps", rate.get()))).ok_or_else(missing);
        self.decide("network.rate", rate)?;
        let mtu = facts.mtu.map(|mtu| bytes(Bytes(mtu.get().clamp(*MTU.start(), *MTU.end()))));
        self.take("host.stack.mtu", mtu, "packets of 1500 bytes")
    }

    fn stack(&mut self, facts: &Facts) -> Result<(), TuneError> {
        self.decide("host.stack.qdisc", qdisc(facts))?;
        let control = match facts.congestion_control.as_deref() {
            Some(name) if CONGESTION_CONTROLS.contains(&name) => Ok(Value::String(name.to_owned())),
            Some(name) => Err(format!(
                "flows of {name}, of which the simulator has no model; ask for others with --set host.stack.congestion_control=cubic"
            )),
            None => Err("the congestion control; give --set host.stack.congestion_control=cubic".to_owned()),
        };
        self.decide("host.stack.congestion_control", control)?;
        self.take("host.stack.small_queue", facts.small_queue.map(bytes), "TCP small queues of 256 KiB")?;
        self.take("host.stack.gso", segment(facts).map(bytes), "segments of 64 KiB")?;
        self.take("host.stack.tso", facts.tso.map(Value::Boolean), "TSO is on")?;
        self.take("host.stack.gro", facts.gro.map(Value::Boolean), "GRO is on")?;
        let mtu = facts.mtu.unwrap_or(Bytes(1500));
        self.take("host.stack.send_buffer", facts.send_buffer.map(bytes), "send buffers of 4 MiB")?;
        let window = facts.receive_buffer.map(|buffer| bytes(Bytes(buffer.get() / 2).max(mtu)));
        self.take("host.stack.receive_window", window, "receive windows of 3 MiB")?;
        let limits = facts.byte_limits.map(|limits| match limits {
            ByteLimits::Off => Value::String("off".to_owned()),
            ByteLimits::Dynamic { .. } => Value::String("dynamic".to_owned()),
            ByteLimits::Fixed(limit) => bytes(limit),
        });
        self.take("host.stack.bql", limits, "dynamic byte queue limits")?;
        self.take("host.stack.xps", facts.xps.map(Value::Boolean), "XPS as drivers configure it")
    }

    fn nic(&mut self, facts: &Facts) -> Result<(), TuneError> {
        let queues = facts.transmit_queues.map(number);
        let missing = "the number of transmit queues; give --set host.nic.transmit_queues=8";
        self.decide("host.nic.transmit_queues", queues.ok_or_else(|| missing.to_owned()))?;
        let received = facts.receive_queues.map(number);
        self.take("host.nic.receive_queues", received, "eight receive queues")?;
        let interval = facts.interrupt_interval().map(time);
        self.take("host.nic.interrupt_interval", interval, "at most 20,000 interrupts a second and queue")?;
        let pinned = facts.interrupts.map(|interrupts| Value::Boolean(interrupts.pinned));
        self.take("host.nic.pinned_interrupts", pinned, "interrupts of each queue go to one processor")?;
        for (key, ring) in [
            ("host.nic.transmit_ring", facts.rings.map(|rings| rings.tx)),
            ("host.nic.receive_ring", facts.rings.map(|rings| rings.rx)),
        ] {
            let length = ring.map(|packets| packets.get()).filter(|length| *length > 0);
            let length = length.and_then(|length| u32::try_from(length).ok()).map(number);
            self.take(key, length, "rings of 512 descriptors")?;
        }
        self.host.assumed.push("the NIC serves its queues in turn, packet by packet".to_owned());
        self.host.assumed.dedup();
        Ok(())
    }

    /// Processors, flows and costs.
    fn work(&mut self, facts: &Facts) -> Result<(), TuneError> {
        self.take("host.cores", facts.processors.map(number), "eight processors")?;
        self.take("host.numa_nodes", facts.numa_nodes.map(number), "one NUMA node")?;
        let flows = self.options.flows.unwrap_or_else(|| flows(facts));
        if !is_given(self.options, "flows") {
            self.set("flows.0.count", number(flows))?;
            let how =
                if self.options.flows.is_some() { "as asked for" } else { "three for every two queues" };
            self.host.assumed.push(format!("{flows} bulk flows ({how}), pinned to all processors in turn"));
        }
        self.host.assumed.push("a peer like this host, 10 us away, and a ping each millisecond".to_owned());
        if self.options.wish == Wish::Processor && self.options.machine.is_none() {
            let missing = "what work costs on this machine; fit it with `weft profile fit --machine FILE` and give --machine FILE";
            self.host.unknown.push(missing.to_owned());
        }
        if let Some(machine) = &self.options.machine {
            self.set("costs", Value::String(machine.name.clone()))?;
        }
        Ok(())
    }
}

/// The most flows of a trial: those of Titan's study.
const MOST_FLOWS: u32 = 48;

/// The number of flows of a trial: those of the scenario, up to a bound.
pub(super) fn flows_of(facts: &Facts, options: &TuneOptions) -> u32 {
    options.flows.unwrap_or_else(|| flows(facts)).clamp(2, MOST_FLOWS)
}

/// The number of flows where none is asked for: three for every two queues, as in the middle of the papers' three loads.
fn flows(facts: &Facts) -> u32 {
    facts.transmit_queues.unwrap_or(8).saturating_mul(3).div_ceil(2).max(2)
}

/// The largest segment: of as many bytes and of as many packets as the device takes.
fn segment(facts: &Facts) -> Option<Bytes> {
    let segments = facts.segments?;
    let mtu = facts.mtu.unwrap_or(Bytes(1500)).get();
    let packets = segments.packets.get().saturating_mul(mtu.saturating_sub(HEADERS));
    Some(Bytes(segments.size.get().min(packets).max(mtu)))
}

/// The qdisc of each queue as the simulator names it, or the reason that it has none.
fn qdisc(facts: &Facts) -> Result<Value, String> {
    const GIVE: &str = "give one with --set host.stack.qdisc=pfifo_fast, or run as root";
    let Some(found) = &facts.qdiscs else { return Err(format!("the qdisc; {GIVE}")) };
    let Some(kind) = found.each() else {
        return Err(format!("one qdisc for all queues: they differ ({}); {GIVE}", found.queues.join(", ")));
    };
    let shared = found.queues.is_empty() && facts.transmit_queues.is_some_and(|queues| queues > 1);
    if shared && kind != "noqueue" {
        return Err(format!(
            "the effect of one {kind} before several queues, of which there is no model; {GIVE}"
        ));
    }
    match kind {
        "pfifo_fast" | "pfifo" | "noqueue" => Ok(Value::String("pfifo_fast".to_owned())),
        "fq_codel" => Ok(Value::String("fq_codel".to_owned())),
        "sfq" => Ok(Value::String("prio+sfq".to_owned())),
        other => Err(format!("the effect of the qdisc {other}, of which the simulator has no model; {GIVE}")),
    }
}

/// Sets the length of the runs: as many bytes at every rate, unless that is too short or takes too long.
fn times(document: &mut Table, options: &TuneOptions) -> Result<(), TuneError> {
    let rate = document.get("network").and_then(|network| network.get("rate")).and_then(Value::as_str);
    // A value of the user's that is no rate is refused by the scenario's reader.
    let Some(rate) = rate.and_then(|rate| rate.parse::<BitsPerSec>().ok()) else { return Ok(()) };
    if rate == BitsPerSec::ZERO || is_given(options, "duration") {
        return Ok(());
    }
    let duration = rate.time_for(MEASURED).clamp(SHORTEST, LONGEST);
    for (key, value) in [
        ("duration", time(duration)),
        ("fairness_intervals", Value::Array(vec![time(duration)])),
        ("sample_interval", time(Nanos(duration.get() / 10))),
    ] {
        if !is_given(options, key) {
            overlay::apply(document, key, value)?;
        }
    }
    Ok(())
}

/// The facts in words.
pub(super) fn in_words(facts: &Facts) -> Vec<Fact> {
    let switch = |on: Option<bool>| on.map(|on| if on { "on" } else { "off" }.to_owned());
    let count = |count: Option<u32>| count.map(|count| count.to_string());
    // Settings are compared with what commands show, so they are whole bytes.
    let exact = |size: Bytes| format!("{} B", human::count(size.get()));
    let size = |size: Option<Bytes>| size.map(exact);
    let driver = facts.driver.clone().map(|driver| match facts.kind.as_deref() {
        Some(kind) if !kind.is_empty() && kind != driver => format!("{driver} ({kind})"),
        _ => driver,
    });
    let channels = facts.channels.map(|channels| format!("{} of at most {}", channels.count, channels.max));
    let qdiscs = facts.qdiscs.as_ref().map(|qdiscs| match (qdiscs.each(), qdiscs.queues.is_empty()) {
        (Some(kind), true) => kind.to_owned(),
        (Some(kind), false) => format!("{} with {kind} at each queue", qdiscs.root),
        (None, _) => format!("{} with {}", qdiscs.root, qdiscs.queues.join(", ")),
    });
    let limits = facts.byte_limits.map(|limits| match limits {
        ByteLimits::Off => "none".to_owned(),
        ByteLimits::Dynamic { limit, most } => {
            format!("dynamic, now {}, at most {}", exact(limit), exact(most))
        }
        ByteLimits::Fixed(limit) => format!("fixed at {}", exact(limit)),
    });
    let segments = facts.segments.map(|one| format!("{}, {} packets", exact(one.size), one.packets.get()));
    let interrupts = facts.interrupts.map(|one| {
        let how = if one.pinned { "each to one processor" } else { "to several processors" };
        format!("{}, {how}", one.count)
    });
    let moderation = facts.moderation.map(|one| format!("received {}, sent {}", one.rx, one.tx));
    let rings = facts.rings.map(|rings| format!("received {}, sent {}", rings.rx.get(), rings.tx.get()));
    let has = |(name, there): (&String, &Option<bool>)| match there {
        Some(true) => name.clone(),
        Some(false) => format!("no {name}"),
        None => format!("{name} unknown"),
    };
    let kernel: Vec<String> = facts.kernel_qdiscs.iter().map(has).collect();
    let all = [
        ("driver", driver),
        ("link", facts.rate.map(|rate| rate.to_string())),
        ("MTU", size(facts.mtu)),
        ("transmit queues", count(facts.transmit_queues)),
        ("receive queues", count(facts.receive_queues)),
        ("combined channels", channels),
        ("qdisc", qdiscs),
        ("qdiscs of this kernel", (!kernel.is_empty()).then(|| kernel.join(", "))),
        ("byte queue limits", limits),
        ("TCP small queues", size(facts.small_queue)),
        ("largest segment", segments),
        ("TSO", switch(facts.tso)),
        ("GRO", switch(facts.gro)),
        ("XPS", switch(facts.xps)),
        ("interrupts", interrupts),
        ("interrupts delayed by", moderation),
        ("rings", rings),
        ("weights of queues", switch(facts.queue_weights)),
        ("congestion control", facts.congestion_control.clone()),
        ("processors", count(facts.processors)),
        ("NUMA nodes", count(facts.numa_nodes)),
    ];
    all.into_iter().map(|(name, value)| Fact { name: name.to_owned(), value }).collect()
}
