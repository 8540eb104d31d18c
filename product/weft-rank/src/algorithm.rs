//! Algorithms: programs for the parts, with the state and the parameters that they use.

use crate::operation::{Effect, Input, Metadatum, Operation, RankWord};
use crate::part::Part;
use crate::program::{Program, ProgramError};
use std::collections::BTreeSet;
use thiserror::Error;
use weft_units::Nanos;

/// The kind of an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// It orders children: `rank` yields a rank.
    Algorithm,
    /// It says from when a child may have a turn: `rank` yields a time and nothing else.
    Shaper,
    /// It drops or marks packets: it has no `rank`.
    Dropper,
}

/// The reading of a word. Programs read words as their operations say; the reading is for people, for texts, and for an engine
/// that rebases virtual times.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reading {
    /// A number from 0.
    #[default]
    Unsigned,
    /// A number in two's complement.
    Signed,
    /// A virtual time. An engine may subtract one number from all virtual times of a node, its children and their ranks.
    VirtualTime,
}

/// A word of state, or a parameter.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Field {
    /// The name in the policy.
    pub name: String,
    /// The reading of the word.
    pub reading: Reading,
    /// The first content; of a parameter, the default.
    pub initial: u64,
    /// The silence of a child after which the content may be forgotten; `None`: with the child. Of a parameter, `None`.
    pub forget: Option<Nanos>,
}

impl Field {
    /// An unsigned field that begins as `initial`.
    pub fn unsigned(name: &str, initial: u64) -> Self {
        Self { name: name.to_owned(), reading: Reading::Unsigned, initial, forget: None }
    }

    /// A signed field that begins as `initial`.
    pub fn signed(name: &str, initial: i64) -> Self {
        Self { name: name.to_owned(), reading: Reading::Signed, initial: initial as u64, forget: None }
    }

    /// A virtual time, which begins as 0.
    pub fn virtual_time(name: &str) -> Self {
        Self { reading: Reading::VirtualTime, ..Self::unsigned(name, 0) }
    }

    /// The same field, forgotten after a silence.
    #[must_use]
    pub fn forgotten_after(self, silence: Nanos) -> Self {
        Self { forget: Some(silence), ..self }
    }
}

/// The programs of an algorithm. A part without one has no effect.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Parts {
    /// The program of [`Part::Active`].
    pub active: Option<Program>,
    /// The program of [`Part::Arrives`].
    pub arrives: Option<Program>,
    /// The program of [`Part::Rank`].
    pub rank: Option<Program>,
    /// The program of [`Part::Begin`].
    pub begin: Option<Program>,
    /// The program of [`Part::Sent`].
    pub sent: Option<Program>,
    /// The program of [`Part::Idle`].
    pub idle: Option<Program>,
    /// The program of [`Part::Fetched`].
    pub fetched: Option<Program>,
}

impl Parts {
    /// The program of a part.
    #[inline]
    pub const fn get(&self, part: Part) -> Option<&Program> {
        match part {
            Part::Active => self.active.as_ref(),
            Part::Arrives => self.arrives.as_ref(),
            Part::Rank => self.rank.as_ref(),
            Part::Begin => self.begin.as_ref(),
            Part::Sent => self.sent.as_ref(),
            Part::Idle => self.idle.as_ref(),
            Part::Fetched => self.fetched.as_ref(),
        }
    }

    /// The place of a part's program.
    pub const fn get_mut(&mut self, part: Part) -> &mut Option<Program> {
        match part {
            Part::Active => &mut self.active,
            Part::Arrives => &mut self.arrives,
            Part::Rank => &mut self.rank,
            Part::Begin => &mut self.begin,
            Part::Sent => &mut self.sent,
            Part::Idle => &mut self.idle,
            Part::Fetched => &mut self.fetched,
        }
    }

    /// The programs, in the order of [`Part::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = &Program> {
        Part::ALL.into_iter().filter_map(|part| self.get(part))
    }
}

/// The programs as parts, each at its own.
impl FromIterator<Program> for Parts {
    fn from_iter<I: IntoIterator<Item = Program>>(programs: I) -> Self {
        let mut parts = Self::default();
        for program in programs {
            let part = program.part();
            *parts.get_mut(part) = Some(program);
        }
        parts
    }
}

/// The engine's part in an algorithm: the sums and minima over a node's children, which programs without loops cannot compute, and the
/// place of virtual times.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Aggregates {
    /// The parameter whose sum over all children, active or not, is [`Input::Weights`].
    pub weights: Option<u8>,
    /// The field of children whose least value is [`Input::Lowest`].
    pub lowest: Option<u8>,
    /// The field of the node that [`Effect::FromVirtualTime`] is compared with, and that
    /// jumps ahead if no child is eligible.
    pub clock: Option<u8>,
    /// The component of ranks that is a virtual time.
    pub virtual_rank: Option<RankWord>,
}

/// An algorithm: the order of a node's children, a shaper, or a dropper.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Algorithm {
    /// The name in the policy.
    pub name: String,
    /// The kind.
    pub kind: Kind,
    /// The parameters, which each child of the node has values of.
    pub parameters: Vec<Field>,
    /// The state of the node.
    pub node: Vec<Field>,
    /// The state of each child.
    pub child: Vec<Field>,
    /// The sums and minima that the engine keeps.
    pub aggregates: Aggregates,
    /// The programs.
    pub parts: Parts,
}

/// The reason why an algorithm cannot run.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// A program is wrong.
    #[error("{0}")]
    Program(#[from] ProgramError),
    /// A program is at another part's place.
    #[error("the program of `{found}` stands at the place of `{part}`")]
    Misplaced {
        /// The place.
        part: Part,
        /// The part that the program is for.
        found: Part,
    },
    /// There are too many fields of a kind.
    #[error("{count} {what}; at most {max}")]
    TooMany {
        /// The kind of fields.
        what: &'static str,
        /// Their number.
        count: usize,
        /// The most of them.
        max: usize,
    },
    /// A program or an aggregate uses a field that the algorithm does not have.
    #[error("{user} uses {what} {index}, and there are {count}")]
    Missing {
        /// The program or aggregate.
        user: &'static str,
        /// The kind of field.
        what: &'static str,
        /// The field's number.
        index: usize,
        /// The number of fields.
        count: usize,
    },
    /// The parts do not fit the kind.
    #[error("{0}")]
    Kind(&'static str),
}

/// The price of an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// The operations of each part, in the order of [`Part::ALL`].
    pub operations: [usize; Part::ALL.len()],
    /// The bytes of a node's state.
    pub node_bytes: usize,
    /// The bytes of a child's state.
    pub child_bytes: usize,
    /// The bytes of a child's parameters.
    pub parameter_bytes: usize,
}

impl Cost {
    /// The operations of a part.
    pub const fn of(&self, part: Part) -> usize {
        self.operations[part.index()]
    }

    /// The operations of a turn of a backlogged child that sends one packet: `arrives`, `begin`, `fetched`, `sent`, `rank`.
    pub const fn per_packet(&self) -> usize {
        self.of(Part::Arrives)
            + self.of(Part::Begin)
            + self.of(Part::Fetched)
            + self.of(Part::Sent)
            + self.of(Part::Rank)
    }

    /// The operations of a packet that finds its child idle and leaves it idle: all parts.
    pub fn per_packet_max(&self) -> usize {
        self.operations.iter().sum()
    }
}

impl Algorithm {
    /// An algorithm without state, parameters and parts, which [`Algorithm::validate`] refuses until it has what its kind
    /// needs.
    pub fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            parameters: Vec::new(),
            node: Vec::new(),
            child: Vec::new(),
            aggregates: Aggregates::default(),
            parts: Parts::default(),
        }
    }

    /// The properties of packets that the programs read.
    pub fn reads(&self) -> BTreeSet<Metadatum> {
        let metadatum = |operation: &Operation| match operation {
            Operation::Input(Input::Head(of) | Input::HeadKnown(of)) => Some(*of),
            Operation::Input(Input::Packet(of) | Input::PacketKnown(of)) => Some(*of),
            _ => None,
        };
        self.parts.iter().flat_map(Program::operations).filter_map(metadatum).collect()
    }

    /// Whether the programs read the packets or the bytes that wait in a child.
    pub fn reads_queue(&self) -> bool {
        let queue =
            |of: &Operation| matches!(of, Operation::Input(Input::QueuedBytes | Input::QueuedPackets));
        self.parts.iter().flat_map(Program::operations).any(queue)
    }

    /// The operations and the state.
    pub fn cost(&self) -> Cost {
        let operations = |part| self.parts.get(part).map_or(0, |program| program.operations().len());
        Cost {
            operations: Part::ALL.map(operations),
            node_bytes: 8 * self.node.len(),
            child_bytes: 8 * self.child.len(),
            parameter_bytes: 8 * self.parameters.len(),
        }
    }

    /// Checks that the parts fit the kind, and that what programs and aggregates use is there.
    pub fn validate(&self) -> Result<(), AlgorithmError> {
        self.check_numbers()?;
        for part in Part::ALL {
            let Some(program) = self.parts.get(part) else { continue };
            if program.part() != part {
                return Err(AlgorithmError::Misplaced { part, found: program.part() });
            }
            program.validate()?;
            let words = program.words();
            missing(part.name(), "field of the node", words.node, self.node.len())?;
            missing(part.name(), "field of the child", words.child, self.child.len())?;
            missing(part.name(), "parameter", words.parameters, self.parameters.len())?;
        }
        self.check_aggregates()?;
        self.check_kind()
    }

    fn check_numbers(&self) -> Result<(), AlgorithmError> {
        let too_many = |what, count, max| {
            if count <= max { Ok(()) } else { Err(AlgorithmError::TooMany { what, count, max }) }
        };
        too_many("fields of the node", self.node.len(), Program::NODE_SLOTS_MAX)?;
        too_many("fields of the child", self.child.len(), Program::CHILD_SLOTS_MAX)?;
        too_many("parameters", self.parameters.len(), Program::PARAMETERS_MAX)
    }

    fn check_aggregates(&self) -> Result<(), AlgorithmError> {
        let Aggregates { weights, lowest, clock, virtual_rank: _ } = self.aggregates;
        let words = |index: Option<u8>| index.map_or(0, |index| usize::from(index) + 1);
        missing("`weights`", "parameter", words(weights), self.parameters.len())?;
        missing("`lowest`", "field of the child", words(lowest), self.child.len())?;
        missing("the clock", "field of the node", words(clock), self.node.len())
    }

    fn check_kind(&self) -> Result<(), AlgorithmError> {
        let effects = self.parts.rank.as_ref().map(Program::effects);
        let has = |wanted: fn(&Effect) -> bool| effects.is_some_and(|effects| effects.iter().any(wanted));
        let ranks = has(|effect| matches!(effect, Effect::Rank(..) | Effect::Until { .. }));
        let wrong = match self.kind {
            Kind::Algorithm if !has(|effect| matches!(effect, Effect::Rank(..))) => {
                "an algorithm needs a part `rank` that yields a rank"
            }
            Kind::Algorithm
                if has(|effect| matches!(effect, Effect::FromVirtualTime(_)))
                    && self.aggregates.clock.is_none() =>
            {
                "`from` a virtual time needs a clock, a field of the node"
            }
            Kind::Shaper if ranks || !has(|effect| matches!(effect, Effect::FromTime(_))) => {
                "a shaper needs a part `rank` that yields a time and nothing else"
            }
            Kind::Dropper if self.parts.rank.is_some() => "a dropper has no part `rank`",
            Kind::Dropper if self.parts.fetched.is_none() => "a dropper needs a part `fetched`",
            _ => return Ok(()),
        };
        Err(AlgorithmError::Kind(wrong))
    }
}

/// Refuses a need of `words` fields where there are `count`.
fn missing(user: &'static str, what: &'static str, words: usize, count: usize) -> Result<(), AlgorithmError> {
    match words.checked_sub(1) {
        Some(index) if words > count => Err(AlgorithmError::Missing { user, what, index, count }),
        _ => Ok(()),
    }
}
