//! Programs and runs from bytes, for property tests and fuzzing: any bytes are a case.

use crate::effects::{Effects, Rank};
use crate::inputs::{Inputs, Metadata};
use crate::operation::{Binary, Effect, Input, Metadatum, Operation, Product, RankWord, Slot, Value};
use crate::part::Part;
use crate::program::{Program, ProgramError};
use weft_units::{Bytes, Instant, Packets};

/// A program with everything that a run takes.
#[derive(Clone, Debug)]
pub struct Case {
    /// The program.
    pub program: Program,
    /// The inputs.
    pub inputs: Inputs,
    /// The parameters.
    pub parameters: Vec<u64>,
    /// The state of the node.
    pub node: Vec<u64>,
    /// The state of the child.
    pub child: Vec<u64>,
}

/// The rest of the bytes; zeros after their end.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    fn one_of<T: Copy>(&mut self, choice: &[T], otherwise: T) -> T {
        choice.get(self.below(choice.len())).copied().unwrap_or(otherwise)
    }

    /// A number: at an edge, small, a power of two and its neighbours, or any.
    fn number(&mut self) -> u64 {
        let (kind, byte) = (self.byte(), self.byte());
        let power = 1_u64 << (byte & 63);
        match kind % 8 {
            0 => u64::from(byte),
            1 => power,
            2 => power.wrapping_sub(1),
            3 => power.wrapping_neg(),
            4 => u64::MAX.wrapping_sub(u64::from(byte)),
            5 => u64::from(byte) << 32 | u64::from(self.byte()),
            _ => (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte())),
        }
    }

    fn numbers(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.number()).collect()
    }

    fn metadata(&mut self) -> Metadata {
        let mut metadata = Metadata::UNKNOWN;
        for metadatum in Metadatum::ALL {
            if self.byte() & 1 == 1 {
                metadata.set(metadatum, self.number());
            }
        }
        metadata
    }

    fn inputs(&mut self) -> Inputs {
        Inputs {
            now: Instant::from_nanos(self.number()),
            bytes: Bytes(self.number()),
            more: self.byte() & 1 == 1,
            rank: Rank::new(self.number(), self.number()),
            weights: self.number(),
            lowest: self.number(),
            queued_bytes: Bytes(self.number()),
            queued_packets: Packets(self.number()),
            head: self.metadata(),
            packet: self.metadata(),
        }
    }

    fn slot(&mut self) -> Slot {
        match self.byte() & 1 {
            0 => Slot::Node(self.below(4) as u8),
            _ => Slot::Child(self.below(Program::CHILD_SLOTS_MAX) as u8),
        }
    }

    fn input(&mut self, part: Part) -> Input {
        let metadatum = self.one_of(&Metadatum::ALL, Metadatum::Length);
        let all = [
            Input::Now,
            Input::Bytes,
            Input::More,
            Input::Rank(RankWord::First),
            Input::Rank(RankWord::Second),
            Input::Weights,
            Input::Lowest,
            Input::QueuedBytes,
            Input::QueuedPackets,
            Input::Head(metadatum),
            Input::HeadKnown(metadatum),
            Input::Packet(metadatum),
            Input::PacketKnown(metadatum),
        ];
        let input = self.one_of(&all, Input::Now);
        if input.allowed_in(part) { input } else { Input::Now }
    }
}

/// The program that is being made: the operations, and those of them that have a result.
struct Draft {
    part: Part,
    operations: Vec<Operation>,
    results: Vec<Value>,
}

impl Draft {
    /// A result, the latest ones most often.
    fn value(&self, source: &mut Source<'_>) -> Value {
        let reach = if source.byte() & 3 == 0 { 256 } else { 6 };
        let back = source.below(reach);
        let last = self.results.len().saturating_sub(1);
        self.results.get(last.saturating_sub(back)).copied().unwrap_or(Value(0))
    }

    fn push(&mut self, operation: Operation) {
        if operation.has_result() {
            self.results.push(Value(self.operations.len() as u8));
        }
        self.operations.push(operation);
    }

    fn operation(&self, source: &mut Source<'_>) -> Operation {
        match source.byte() % 16 {
            0 => Operation::Constant(source.number()),
            1 | 2 => Operation::Input(source.input(self.part)),
            3 => Operation::Parameter(source.below(4) as u8),
            4 => Operation::Load(source.slot()),
            5 | 6 if self.part != Part::Rank => {
                let when = (source.byte() & 1 == 1).then(|| self.value(source));
                Operation::Store { slot: source.slot(), value: self.value(source), when }
            }
            7 => Operation::Not(self.value(source)),
            8 | 9 => Operation::Select {
                condition: self.value(source),
                yes: self.value(source),
                no: self.value(source),
            },
            10 => Operation::Scale {
                product: source.one_of(&[Product::Whole, Product::Rest], Product::Whole),
                value: self.value(source),
                scale: self.value(source),
                carry: self.value(source),
            },
            _ => Operation::Binary {
                operator: source.one_of(&Binary::ALL, Binary::Add),
                left: self.value(source),
                right: self.value(source),
            },
        }
    }

    fn effects(&self, source: &mut Source<'_>) -> Vec<Effect> {
        let mut effects: Vec<Effect> = Vec::new();
        if self.part == Part::Rank {
            effects.push(Effect::Rank(self.value(source), self.value(source)));
        }
        for _ in 0..3 {
            let values = [self.value(source), self.value(source), self.value(source)];
            let all = [
                Effect::Rank(values[0], values[1]),
                Effect::FromTime(values[0]),
                Effect::FromVirtualTime(values[0]),
                Effect::Until { time: values[0], rank: (values[1], values[2]) },
                Effect::Rerank(values[0]),
                Effect::Drop(values[0]),
                Effect::Mark(values[0]),
            ];
            let allowed: Vec<Effect> =
                all.into_iter().filter(|effect| effect.allowed_in(self.part)).collect();
            let Some(effect) = allowed.get(source.below(allowed.len())) else { break };
            if !effects.iter().any(|other| other.excludes(*effect)) {
                effects.push(*effect);
            }
        }
        effects
    }
}

impl Case {
    /// A case of any bytes. Its program is valid.
    pub fn from_bytes(data: &[u8]) -> Self {
        let mut source = Source(data);
        let part = source.one_of(&Part::ALL, Part::Rank);
        let length = 1 + usize::from(source.byte());
        let inputs = source.inputs();
        let (parameters, node, child) =
            (source.numbers(4), source.numbers(4), source.numbers(Program::CHILD_SLOTS_MAX));
        let mut draft = Draft { part, operations: Vec::new(), results: Vec::new() };
        draft.push(Operation::Constant(source.number()));
        while draft.operations.len() < length && !source.0.is_empty() {
            let operation = draft.operation(&mut source);
            draft.push(operation);
        }
        let effects = draft.effects(&mut source);
        let program = Program::checked(part, draft.operations, effects);
        Self { program, inputs, parameters, node, child }
    }

    /// Checks operations of any form, whose values, slots and inputs need not exist. A program that passes is run.
    pub fn unchecked(data: &[u8]) -> Result<Effects, ProgramError> {
        let mut source = Source(data);
        let part = source.one_of(&Part::ALL, Part::Rank);
        let (mut operations, mut effects) = (Vec::new(), Vec::new());
        while !source.0.is_empty() {
            let [a, b, c] = [source.byte(), source.byte(), source.byte()].map(Value);
            match source.byte() % 8 {
                0 => operations.push(Operation::Constant(source.number())),
                1 => operations.push(Operation::Input(source.input(Part::Sent))),
                2 => operations.push(Operation::Parameter(a.0)),
                3 => operations.push(Operation::Load(Slot::Node(a.0))),
                4 => operations.push(Operation::Store { slot: Slot::Child(a.0), value: b, when: Some(c) }),
                5 => operations.push(Operation::Select { condition: a, yes: b, no: c }),
                6 => effects.push(Effect::Until { time: a, rank: (b, c) }),
                _ => effects.push(Effect::Drop(a)),
            }
        }
        let program = Program::new(part, operations, effects)?;
        Ok(program.run(&Inputs::default(), &[], &mut [], &mut []))
    }

    /// The effects of the interpreter, and the state of node and child after its run.
    pub fn interpret(&self) -> (Effects, Vec<u64>, Vec<u64>) {
        let (mut node, mut child) = (self.node.clone(), self.child.clone());
        let effects = self.program.run(&self.inputs, &self.parameters, &mut node, &mut child);
        (effects, node, child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Aggregates, Algorithm, Field};
    use crate::samples;

    /// Pseudo-random bytes (xorshift).
    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed * 2 + 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        (0..length).map(|_| next()).collect()
    }

    /// A valid algorithm that has the program of `case`, and no other if a rank is not needed.
    fn algorithm_of(case: &Case) -> Algorithm {
        let field = |word: &u64| Field::unsigned("word", *word);
        let mut algorithm = Algorithm {
            parameters: case.parameters.iter().map(field).collect(),
            node: case.node.iter().map(field).collect(),
            child: case.child.iter().map(field).collect(),
            aggregates: Aggregates { clock: Some(0), ..Aggregates::default() },
            ..samples::round_robin()
        };
        *algorithm.parts.get_mut(case.program.part()) = Some(case.program.clone());
        algorithm
    }

    #[test]
    fn any_bytes_are_a_valid_case_and_all_operators_appear() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..2_000 {
            let case = Case::from_bytes(&noise(seed, seed as usize));
            assert_eq!(case.program.validate(), Ok(()));
            assert_eq!(algorithm_of(&case).validate(), Ok(()));
            case.interpret();
            for operation in case.program.operations() {
                match operation {
                    Operation::Binary { operator, .. } => seen.insert(format!("{operator:?}")),
                    other => seen.insert(format!("{:?}", core::mem::discriminant(other))),
                };
            }
        }
        assert_eq!(seen.len(), Binary::ALL.len() + 8, "{seen:?}");
        assert!(Case::from_bytes(&[]).program.validate().is_ok());
    }

    #[test]
    fn checks_refuse_most_bytes_and_accept_some() {
        let checked: Vec<bool> = (0..20_000).map(|seed| Case::unchecked(&noise(seed, 12)).is_ok()).collect();
        let accepted = checked.iter().filter(|accepted| **accepted).count();
        assert!(accepted > 20 && accepted < checked.len() / 2, "{accepted}");
    }
}
