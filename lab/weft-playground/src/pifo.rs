//! The order that a PIFO would have: a reference for each packet, ranked when the packet arrives, takes one turn of its flow.
//!
//! The engine has one reference for each flow, with the rank of its head. Here every packet gets a separate flow, so that its
//! reference is ranked by itself; and when that reference wins a turn, the first packet of the real flow leaves. The two can be
//! compared where a rank depends on nothing but the packet and the node.

use crate::answer::ShownDeparture;
use crate::bounds::TURNS_MAX;
use crate::observe::class_of;
use std::collections::{BTreeMap, VecDeque};
use weft_policy::CompiledPolicy;
use weft_policy::trial::Trial;
use weft_policy::trial::run::{Fate, Run, Turn};
use weft_rank::Kind;
use weft_sched::program::LeafDiscipline;

/// The departures under a PIFO, where the policy orders flows by ranks of packets.
pub(crate) fn departures(trial: &Trial, policy: &CompiledPolicy) -> Option<Vec<ShownDeparture>> {
    if !compares(policy) {
        return None;
    }
    let mut apart = trial.clone();
    for (number, packet) in apart.packets.iter_mut().enumerate() {
        packet.flow = Some(number.to_string());
    }
    let mut run = Run::new(&apart, policy).ok()?;
    let mut queues: BTreeMap<(&str, Option<&str>), VecDeque<usize>> = BTreeMap::new();
    let key = |number: usize| (class_of(trial, policy, number), trial.packets[number].flow.as_deref());
    let (mut arrived, mut found) = (0, Vec::new());
    for _ in 0..TURNS_MAX {
        run.admit().ok()?;
        for number in run.arrivals().skip(arrived).take_while(|at| run.fates()[*at] != Fate::Coming) {
            if run.fates()[number] == Fate::Held {
                queues.entry(key(number)).or_default().push_back(number);
            }
            arrived += 1;
        }
        let began = run.now();
        match run.turn().ok()? {
            Turn::Sent(reference) => {
                let packet = queues.get_mut(&key(reference))?.pop_front()?;
                found.push(ShownDeparture { packet, at_ns: began.get() });
                run.busy_from(began, trial.packets[packet].bytes);
            }
            Turn::Dropped(packet) => {
                queues.get_mut(&key(packet))?.pop_front()?;
            }
            Turn::Waited => {}
            Turn::Over => return Some(found),
        }
    }
    None
}

/// Whether some leaf orders its flows by an algorithm, and the ranks of all leaves depend on nothing that a flow keeps.
fn compares(policy: &CompiledPolicy) -> bool {
    let mut ranks = false;
    policy.program.leaves.iter().all(|leaf| match &leaf.discipline {
        LeafDiscipline::Fifo => true,
        LeafDiscipline::Fair => false,
        LeafDiscipline::Custom(custom) => {
            ranks |= custom.algorithm.kind == Kind::Algorithm;
            let algorithm = &custom.algorithm;
            algorithm.child.is_empty() && !algorithm.reads_queue() && custom.dropper.is_none()
        }
    }) && ranks
}
