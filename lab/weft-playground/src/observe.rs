//! The run of the arrivals, with a record of the orders before each turn.

use crate::answer::{Head, Packet, ShownOutcome, ShownPlace, ShownTurn};
use crate::bounds::{HEADS_MAX, TIME_MAX, TURNS_MAX};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weft_policy::algorithm::{CheckedAlgorithm, algorithms, shipped_algorithm};
use weft_policy::trial::Trial;
use weft_policy::trial::run::{Fate, LINK, Run, TrialError, Turn as Taken, engine_time};
use weft_policy::{CompiledPolicy, words};
use weft_sched::program::{Child, Custom, LeafDiscipline};
use weft_sched::{Place, QueuePosition};
use weft_units::{FlowId, Nanos};

/// Runs the arrivals under a policy, which must be the compilation of `text`. The order of a PIFO is left out.
pub(crate) fn outcome(
    trial: &Trial,
    policy: &CompiledPolicy,
    text: &str,
) -> Result<ShownOutcome, TrialError> {
    let watcher = Watcher { trial, policy, known: known(policy, text) };
    let mut run = Run::new(trial, policy)?;
    let (mut turns, mut cut) = (Vec::new(), true);
    for _ in 0..TURNS_MAX {
        run.admit()?;
        let at_ns = run.now().get();
        let heads = watcher.heads(&run);
        match run.turn()? {
            Taken::Sent(packet) => {
                turns.push(ShownTurn { at_ns, packet, heads: watcher.shown(heads, &run, packet) })
            }
            Taken::Dropped(_) => {}
            Taken::Waited if run.now() <= TIME_MAX => {}
            Taken::Waited => break,
            Taken::Over => {
                cut = false;
                break;
            }
        }
    }
    let stated = !(trial.expect.is_empty() && trial.drops.is_empty());
    let difference = if stated && !cut { run.outcome().difference(trial) } else { None };
    Ok(ShownOutcome { packets: watcher.packets(&run), turns, pifo: None, stated, difference, cut })
}

/// The algorithms of a policy by their names: its own come before those of the library.
fn known(policy: &CompiledPolicy, text: &str) -> BTreeMap<String, Arc<CheckedAlgorithm>> {
    let own = algorithms(text).into_iter().map(|algorithm| (algorithm.name.clone(), algorithm));
    let mut known: BTreeMap<_, _> = own.collect();
    for algorithm in policy.program.algorithms() {
        if let Some(shipped) = shipped_algorithm(&algorithm.name) {
            known.entry(algorithm.name.clone()).or_insert(shipped);
        }
    }
    known
}

/// The name of a packet's class.
pub(crate) fn class_of<'a>(trial: &'a Trial, policy: &'a CompiledPolicy, packet: usize) -> &'a str {
    let first = || policy.classes.first().map_or("", |class| class.name.as_str());
    trial.packets[packet].class.as_deref().unwrap_or_else(first)
}

/// The things that an observation of the engine needs.
struct Watcher<'a> {
    trial: &'a Trial,
    policy: &'a CompiledPolicy,
    known: BTreeMap<String, Arc<CheckedAlgorithm>>,
}

impl Watcher<'_> {
    /// The next packet of each flow that waits, in the order of arrival, with its positions.
    fn heads(&self, run: &Run<'_>) -> Vec<(usize, Vec<QueuePosition>)> {
        let mut seen: BTreeSet<FlowId> = BTreeSet::new();
        let tree = run.engine().tree();
        let waiting = run.arrivals().filter(|number| run.fates()[*number] == Fate::Held);
        let flows = waiting.filter_map(|number| Some((number, run.flow_of(number)?)));
        let first = flows.filter(|(_, flow)| tree.is_active(*flow) && seen.insert(*flow));
        first.map(|(number, flow)| (number, tree.positions(flow, run.engine_now()))).collect()
    }

    /// The heads of a turn in the form of the answer, the chosen one first.
    fn shown(&self, mut heads: Vec<(usize, Vec<QueuePosition>)>, run: &Run<'_>, chosen: usize) -> Vec<Head> {
        let flow = run.flow_of(chosen);
        heads.sort_by_key(|(number, _)| run.flow_of(*number) != flow);
        heads.truncate(HEADS_MAX);
        let begin = engine_time(Nanos::ZERO);
        let head = |(packet, positions): (usize, Vec<QueuePosition>)| {
            let released = run.flow_of(packet).and_then(|flow| run.engine().tree().released_at(flow));
            // What was sent has advanced the release of its lane.
            let limited =
                released.filter(|_| run.flow_of(packet) != flow).map(|at| at.saturating_since(begin));
            let turn = match run.fates()[chosen] {
                Fate::Sent(at) => at,
                _ => run.now(),
            };
            Head {
                packet,
                orders: positions.iter().rev().map(|position| self.order(packet, position)).collect(),
                limited_ns: limited.filter(|until| *until > turn).map(Nanos::get),
            }
        };
        heads.into_iter().map(head).collect()
    }

    fn order(&self, packet: usize, position: &QueuePosition) -> ShownPlace {
        let (node, discipline, custom) = self.discipline(position.order);
        let arrived = || format!("arrived {}", self.trial.packets[packet].at);
        let rank = match position.place {
            Place::Slot(slot) => format!("place {}", slot + 1),
            Place::Tag(tag) => format!("{tag} vtime"),
            Place::Arrival(_) => arrived(),
            Place::Rank(rank) => match custom.and_then(|custom| self.known.get(&custom.algorithm.name)) {
                Some(algorithm) if !algorithm.rank.is_empty() => {
                    algorithm.rank_text(rank, engine_time(Nanos::ZERO))
                }
                _ => arrived(),
            },
        };
        ShownPlace { node, discipline, rank, held: position.held }
    }

    /// The name of an order, its discipline, and its algorithm.
    fn discipline(&self, order: Child) -> (String, String, Option<&Custom>) {
        let program = &self.policy.program;
        let (name, native, custom) = match order {
            Child::Leaf(id) => match program.leaves.get(id.index()) {
                Some(leaf) => match &leaf.discipline {
                    LeafDiscipline::Fifo => (&leaf.name, "fifo", None),
                    LeafDiscipline::Fair => (&leaf.name, "fair", None),
                    LeafDiscipline::Custom(custom) => (&leaf.name, "", Some(&**custom)),
                },
                None => return Default::default(),
            },
            Child::Node(id) => match program.nodes.get(id.index()) {
                Some(node) => {
                    let custom = node.discipline.custom().map(|custom| &**custom);
                    (&node.name, words::of_discipline(&node.discipline), custom)
                }
                None => return Default::default(),
            },
        };
        (name.clone(), custom.map_or(native, |custom| &custom.algorithm.name).to_owned(), custom)
    }

    fn packets(&self, run: &Run<'_>) -> Vec<Packet> {
        let rate = self.policy.link.unwrap_or(LINK);
        let packet = |(number, fate): (usize, &Fate)| {
            let of = &self.trial.packets[number];
            let (fate, sent) = match fate {
                Fate::Sent(at) => ("sent", Some(at.get())),
                Fate::Refused => ("refused", None),
                Fate::Dropped => ("dropped", None),
                Fate::Held | Fate::Coming => ("waiting", None),
            };
            Packet {
                name: of.name.clone(),
                class: class_of(self.trial, self.policy, number).to_owned(),
                flow: of.flow.clone(),
                bytes: of.bytes.get(),
                at_ns: of.at.get(),
                takes_ns: rate.time_for(of.bytes).get(),
                fate,
                sent_ns: sent,
            }
        };
        run.fates().iter().enumerate().map(packet).collect()
    }
}
