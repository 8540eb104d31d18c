//! Configurations in the simulator, with the machine's costs.
//!
//! Host 0 of a scenario sends, with a core for each sending processor. Host 1 receives: its first cores are the senders'
//! processors, on which a veth's receive softirqs run, the others are those of the receivers. The two hosts are then laid over
//! the processors of this machine. Where a processor would have to do more than it can, all that was sent takes as much longer.

use super::cells::{Group, One};
use super::machine::Machine;
use super::{PredictError, cells};
use crate::reproduce::file::{self, ExperimentFileError, Parameters};
use std::collections::BTreeMap;
use toml::{Table, Value};
use weft_facts::stats;
use weft_policy::FileError as Unreadable;
use weft_profile::level::Level;
use weft_profile::pattern::FlowLayout;
use weft_profile::traffic::TrafficLoad;
use weft_report::profile::predict::{Cell, Figures};
use weft_sim::outcome::RunOutcome;
use weft_sim::run::simulate;
use weft_sim::scenario::{self, Scenario};

/// The parameters of all configurations.
pub(super) const PARAMETERS: &str = "veth.toml";
/// Seeds of a configuration.
const SEEDS: [u64; 2] = [1, 2];

/// Simulates the cells of all groups, in their order.
pub(super) fn run(
    groups: &[Group],
    machine: &Machine,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Cell>, PredictError> {
    let parameters = file::parameters(PARAMETERS)?;
    let mut cells = Vec::new();
    for group in groups {
        for one in &group.cells {
            let scenario = scenario(&parameters, one, group, machine)?;
            let mut seen = Vec::new();
            for seed in SEEDS {
                if stop() {
                    return Err(PredictError::Stopped);
                }
                let outcome = simulate(&scenario, seed)
                    .map_err(|error| PredictError::Run { cell: one.name.clone(), error })?;
                seen.push(figures(&outcome, (&group.layout, group.load), one.level));
            }
            cells.push(Cell {
                name: one.name.clone(),
                link_bps: group.setup.link.map(|_| cells::LINK.get() as f64),
                simulated: mean(&seen),
                ..Cell::default()
            });
        }
    }
    Ok(cells)
}

fn mean(seen: &[Figures]) -> Figures {
    let of = |figure: fn(&Figures) -> f64| {
        stats::mean(&seen.iter().map(figure).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    Figures {
        sender_ns_per_byte: of(|f| f.sender_ns_per_byte),
        receiver_ns_per_byte: of(|f| f.receiver_ns_per_byte),
        bps: of(|f| f.bps),
    }
}

/// The scenario of a configuration: the document of its layout, with the machine's costs.
fn scenario(
    parameters: &Parameters,
    one: &One,
    group: &Group,
    machine: &Machine,
) -> Result<Scenario, PredictError> {
    let config = one.config;
    let document = document(parameters, (&group.layout, group.load), &machine.name, config)?;
    let mut files = |path: &str| match path == machine.name {
        true => Ok(machine.costs_at(one.level)),
        false => Err(Unreadable::Unreadable(format!("{path} is not part of this program"))),
    };
    Ok(scenario::read(&document.to_string(), &format!("{config} of {PARAMETERS}"), &mut files)?)
}

/// The document of a layout: the base, cores and flows, then the settings of a configuration.
pub(super) fn document(
    parameters: &Parameters,
    (layout, load): (&FlowLayout, TrafficLoad),
    costs: &str,
    config: &str,
) -> Result<Table, ExperimentFileError> {
    let (senders, receivers) = (layout.senders.len(), layout.receivers.len());
    let mut document = parameters.base()?;
    let wrong = |reason: String| ExperimentFileError::Invalid { file: PARAMETERS.to_owned(), reason };
    let mut set = |path: &str, value: Value| {
        crate::catalogue::overlay::apply(&mut document, path, value).map_err(|error| wrong(error.to_string()))
    };
    let count = |number: usize| Value::Integer(number as i64);
    set("host.cores", count(senders + receivers))?;
    set("host.nic.transmit_queues", count(senders + receivers))?;
    set("host.nic.receive_queues", count(senders))?;
    set("flows", Value::Array(flows(layout, load)))?;
    set("costs", Value::String(costs.to_owned()))?;
    let mut document = parameters.over(document, None, config)?;
    if document.get("host").and_then(|host| host.get("nic")).and_then(|nic| nic.get("receive_steering"))
        == Some(&Value::String("to-application".to_owned()))
    {
        // Every core needs a queue, or the application's has none.
        crate::catalogue::overlay::apply(
            &mut document,
            "host.nic.receive_queues",
            count(senders + receivers),
        )
        .map_err(|error| wrong(error.to_string()))?;
    }
    Ok(document)
}

/// A group of flows for each pair of cores. Of requests one is outstanding, and the next follows the answer, as `sockperf ping-pong` does.
fn flows(layout: &FlowLayout, load: TrafficLoad) -> Vec<Value> {
    let traffic = match load {
        TrafficLoad::Bulk => Value::String("bulk".to_owned()),
        TrafficLoad::Requests(bytes) => {
            let size = |key: &str| (key.to_owned(), Value::String(format!("{}B", bytes.get())));
            let sizes = Value::Table([size("request"), size("response")].into_iter().collect());
            Value::Table([("request-response".to_owned(), sizes)].into_iter().collect())
        }
    };
    let place = |pool: &[u32], cpu: u32| pool.iter().position(|one| *one == cpu).unwrap_or(0);
    let mut pairs: BTreeMap<(usize, usize), i64> = BTreeMap::new();
    for flow in &layout.flows {
        let from = place(&layout.senders, flow.sender);
        let to = layout.senders.len() + place(&layout.receivers, flow.receiver);
        *pairs.entry((from, to)).or_default() += 1;
    }
    let group = |((from, to), flows): ((usize, usize), i64)| {
        let core = |core: usize| Value::Array(vec![Value::Integer(core as i64)]);
        let name = Value::String(format!("{from} to {to}"));
        let settings = [
            ("name", name),
            ("count", Value::Integer(flows)),
            ("cores", core(from)),
            ("receiver_cores", core(to)),
            ("pinned", Value::Boolean(true)),
            ("start_spread", Value::String("1ms".to_owned())),
            ("traffic", traffic.clone()),
        ];
        Value::Table(settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Table>())
    };
    pairs.into_iter().map(group).collect()
}

/// The figures of a run, whose two hosts share this machine's processors.
pub(super) fn figures(
    outcome: &RunOutcome,
    (layout, load): (&FlowLayout, TrafficLoad),
    level: Level,
) -> Figures {
    // The simulator counts requests, a measurement their answers of the same size too.
    let ways = if load == TrafficLoad::Bulk { 1.0 } else { 2.0 };
    let bytes: f64 = ways * outcome.flows.iter().map(|flow| flow.received.get() as f64).sum::<f64>();
    let span = outcome.measured.get() as f64;
    let cores = |host: usize| -> Vec<f64> {
        outcome.cpu.get(host).into_iter().flatten().map(|core| core.iter().sum()).collect()
    };
    let (sending, receiving) = (cores(0), cores(1));
    if bytes <= 0.0 || span <= 0.0 {
        return Figures::default();
    }
    let (softirqs, readers) = receiving.split_at(layout.senders.len().min(receiving.len()));
    let mut load: BTreeMap<u32, f64> = BTreeMap::new();
    let mut lay = |work: &[f64], over: &[u32]| {
        let each = work.iter().sum::<f64>() / over.len().max(1) as f64;
        over.iter().for_each(|cpu| *load.entry(*cpu).or_default() += each);
    };
    lay(&sending, &layout.senders);
    lay(softirqs, if level == Level::Arfs { &layout.receivers } else { &layout.senders });
    lay(readers, &layout.receivers);
    let busiest = load.values().copied().fold(0.0, f64::max) / span;
    Figures {
        sender_ns_per_byte: sending.iter().sum::<f64>() / bytes,
        receiver_ns_per_byte: receiving.iter().sum::<f64>() / bytes,
        bps: bytes * 8e9 / span / busiest.max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::groups;
    use super::*;
    use weft_report::profile::Side;
    use weft_sim::cost::CostCategory;
    use weft_sim::outcome::FlowOutcome;
    use weft_units::{Bytes, Nanos};

    /// An invented machine: a byte costs 0.1 ns to copy at each end, an skb 1000 ns to send and 800 to receive.
    fn machine() -> Machine {
        let costs = "[copy_in_byte]\ndata_copy = 0.1\n[copy_out_byte]\ndata_copy = 0.1\n[send_segment]\ntcpip = 1000\n\
                     [receive_segment]\ntcpip = 800\n[fitted]\ncells = []\n[[source]]\nkeys = [\"copy_in_byte\", \
                     \"copy_out_byte\", \"send_segment\", \"receive_segment\"]\nassumed = \"a machine invented for tests\"\n";
        Machine { name: "machine.toml".to_owned(), costs: costs.to_owned(), ..Machine::default() }
    }

    #[test]
    fn every_configuration_is_simulated_with_the_costs_of_the_machine() {
        let (groups, _) = groups(&[0, 1], &[], "");
        let cells = run(&groups, &machine(), &|| false).expect("simulated");
        for cell in cells.iter().filter(|cell| !cell.name.contains("requests")) {
            let Figures { sender_ns_per_byte: sender, receiver_ns_per_byte: receiver, bps } = cell.simulated;
            // Not below a copy, not above a copy and an skb for each packet of 1448 B.
            assert!(sender > 0.1 && sender < 0.1 + 1.2 * 1000.0 / 1448.0, "{cell:?}");
            assert!(receiver > 0.1 && receiver < 0.1 + 1.2 * 800.0 / 1448.0, "{cell:?}");
            let limit = if cell.link_bps.is_some() { 1e9 } else { 8e9 / sender };
            assert!(bps > 0.3 * limit && bps < 1.05 * limit, "{cell:?}");
        }
        for cell in cells.iter().filter(|cell| cell.name.contains("requests")) {
            let seen = cell.simulated;
            // Each side copies a message of 4 KiB in and one out, and sends and receives an skb, for 8 KiB of payload.
            let each = 0.1 + (1000.0 + 800.0) / 8192.0;
            for time in [seen.sender_ns_per_byte, seen.receiver_ns_per_byte] {
                assert!((time - each).abs() < 0.2 * each, "{cell:?}");
            }
            assert!(seen.bps > 1e6, "{cell:?}");
        }
        let of = |name: &str| cells.iter().find(|cell| cell.name == name).expect("a cell").simulated;
        let (small, large) = (of("one-to-one 2x noopt"), of("one-to-one 2x tso-gro"));
        // The invented machine's sum: an skb for each 1448 bytes, and three for each write of 128 KiB.
        for (seen, packet) in [(small, 1448.0), (large, 131_072.0 / 3.0)] {
            let expected = 0.1 + 1000.0 / packet;
            assert!((seen.sender_ns_per_byte - expected).abs() < 0.05 * expected, "{seen:?} {expected}");
        }
        assert!(of("C8, 3 flows").sender_ns_per_byte > 3.0 * of("C1, 3 flows").sender_ns_per_byte);
        assert!(of("C9, 3 flows").sender_ns_per_byte > 1.2 * of("C1, 3 flows").sender_ns_per_byte);
    }

    /// A second of which the sender's core used 0.8, the softirqs 0.4 and the reader 0.5: the first two share a processor.
    #[test]
    fn hosts_that_share_processors_share_their_time() {
        let layout =
            FlowLayout { flows: Vec::new(), senders: vec![0], receivers: vec![1], shortage: String::new() };
        let core = |seconds: f64| {
            let mut work = [0.0; CostCategory::COUNT];
            work[0] = seconds * 1e9;
            work
        };
        let outcome = RunOutcome {
            measured: Nanos(1_000_000_000),
            flows: vec![FlowOutcome { received: Bytes(1_000_000_000), ..FlowOutcome::default() }],
            cpu: vec![vec![core(0.8), core(0.0)], vec![core(0.4), core(0.5)]],
            ..RunOutcome::default()
        };
        let group = Group { layout, ..groups(&[0, 1], &[], "C1, 3").0.remove(0) };
        let shared = figures(&outcome, (&group.layout, group.load), Level::TsoGro);
        assert!((shared.bps - 8e9 / 1.2).abs() < 1.0, "{shared:?}");
        assert!((shared.sender_ns_per_byte - 0.8).abs() < 1e-9);
        assert!((shared.receiver_ns_per_byte - 0.9).abs() < 1e-9);
        assert!((shared.busy_cores(Side::Sender) - 0.8 / 1.2).abs() < 1e-9);
        let apart = figures(&outcome, (&group.layout, group.load), Level::Arfs);
        assert!((apart.bps - 8e9).abs() < 1.0, "{apart:?}");
        assert_eq!(
            figures(&RunOutcome::default(), (&group.layout, group.load), Level::Arfs),
            Figures::default()
        );
        let requests = Group { load: TrafficLoad::Requests(Bytes(4096)), ..group };
        assert!(
            (figures(&outcome, (&requests.layout, requests.load), Level::Arfs).bps - 16e9).abs() < 1.0,
            "both ways"
        );
    }

    #[test]
    fn a_stop_ends_it() {
        let (groups, _) = groups(&[0, 1], &[], "C1");
        assert!(matches!(run(&groups, &machine(), &|| true), Err(PredictError::Stopped)));
        let broken = Machine { costs: "[nothing]\n".to_owned(), ..machine() };
        let error = run(&groups, &broken, &|| false).expect_err("refused").to_string();
        assert!(error.contains("machine.toml") && error.contains("nothing"), "{error}");
    }
}
