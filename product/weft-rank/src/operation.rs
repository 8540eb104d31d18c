//! Operations, the values that they name, and effects.

use crate::part::Part;

/// The result of an operation, named by the operation's place in its program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Value(pub u8);

impl Value {
    /// The place of the operation whose result this is.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A word of state that programs read and write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Slot {
    /// A field of the node.
    Node(u8),
    /// A field of the child.
    Child(u8),
}

/// A property of a packet, which the sender, the classifier or the engine may provide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Metadatum {
    /// The length in bytes.
    Length,
    /// The time of arrival.
    Arrived,
    /// The deadline of the packet's departure.
    Deadline,
    /// The span that the packet may wait, counted from its arrival.
    Slack,
    /// The bytes that its flow or message still has to send, with this packet.
    Left,
    /// The lateness of earlier hops.
    Late,
    /// The priority given by the sender.
    Priority,
    /// The time before which the packet is not to be sent.
    SendTime,
    /// The flow's pacing rate, as the word of a [`Scale`](crate::Scale) from bytes to nanoseconds.
    Pace,
}

impl Metadatum {
    /// All metadata, in the order of the enumeration.
    pub const ALL: [Self; 9] = [
        Self::Length,
        Self::Arrived,
        Self::Deadline,
        Self::Slack,
        Self::Left,
        Self::Late,
        Self::Priority,
        Self::SendTime,
        Self::Pace,
    ];

    /// The place in [`Metadatum::ALL`].
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A component of a rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RankWord {
    /// The component that is compared first.
    First,
    /// The component that decides between equal first ones.
    Second,
}

/// A value from outside the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Input {
    /// The time.
    Now,
    /// The bytes that the turn sent. Only in `sent`.
    Bytes,
    /// 1 if the child has more to send after the turn, otherwise 0. Only in `sent`.
    More,
    /// A component of the rank that won the turn. Only in `begin` and `sent`.
    Rank(RankWord),
    /// The sum of the weights of the node's children, active or not.
    Weights,
    /// The least value of a field over the other active children; `u64::MAX` without one.
    Lowest,
    /// The bytes that wait in the child.
    QueuedBytes,
    /// The packets that wait in the child.
    QueuedPackets,
    /// A metadatum of the child's next packet; 0 if it is unknown.
    Head(Metadatum),
    /// 1 if the metadatum of the child's next packet is known, otherwise 0.
    HeadKnown(Metadatum),
    /// A metadatum of the packet at hand; 0 if it is unknown. Only in `arrives` and `fetched`.
    Packet(Metadatum),
    /// 1 if the metadatum of the packet at hand is known, otherwise 0. Only in `arrives` and `fetched`.
    PacketKnown(Metadatum),
}

impl Input {
    /// Whether the input exists in programs of `part`.
    pub const fn allowed_in(self, part: Part) -> bool {
        match self {
            Self::Bytes | Self::More => matches!(part, Part::Sent),
            Self::Rank(_) => matches!(part, Part::Begin | Part::Sent),
            Self::Packet(_) | Self::PacketKnown(_) => matches!(part, Part::Arrives | Part::Fetched),
            Self::Now
            | Self::Weights
            | Self::Lowest
            | Self::QueuedBytes
            | Self::QueuedPackets
            | Self::Head(_)
            | Self::HeadKnown(_) => true,
        }
    }
}

/// An operation on two values. [`arithmetic`](crate::arithmetic) has the rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Binary {
    /// The unsigned sum, at most `u64::MAX`.
    Add,
    /// The unsigned difference, at least 0.
    Sub,
    /// The unsigned product, at most `u64::MAX`.
    Mul,
    /// The unsigned quotient, rounded down; 0 if the divisor is 0.
    Div,
    /// The unsigned remainder; the dividend if the divisor is 0.
    Rem,
    /// The signed sum, within the range of `i64`.
    AddSigned,
    /// The signed difference, within the range of `i64`.
    SubSigned,
    /// The signed product, within the range of `i64`.
    MulSigned,
    /// The signed quotient, rounded down and within the range of `i64`; 0 if the divisor is 0.
    DivSigned,
    /// The smaller of two unsigned values.
    Min,
    /// The larger of two unsigned values.
    Max,
    /// 1 if both are equal, otherwise 0.
    Eq,
    /// 1 if both differ, otherwise 0.
    Ne,
    /// 1 if the left unsigned value is smaller, otherwise 0.
    Lt,
    /// 1 if the left unsigned value is not larger, otherwise 0.
    Le,
    /// 1 if the left signed value is smaller, otherwise 0.
    LtSigned,
    /// 1 if the left signed value is not larger, otherwise 0.
    LeSigned,
    /// 1 if neither is 0, otherwise 0.
    And,
    /// 1 if not both are 0, otherwise 0.
    Or,
    /// A span divided by the square root of a count, by [`over_sqrt`](crate::arithmetic::over_sqrt).
    OverSqrt,
}

impl Binary {
    /// All operators, in the order of the enumeration.
    pub const ALL: [Self; 20] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Rem,
        Self::AddSigned,
        Self::SubSigned,
        Self::MulSigned,
        Self::DivSigned,
        Self::Min,
        Self::Max,
        Self::Eq,
        Self::Ne,
        Self::Lt,
        Self::Le,
        Self::LtSigned,
        Self::LeSigned,
        Self::And,
        Self::Or,
        Self::OverSqrt,
    ];

    /// Whether the result is 0 or 1.
    pub const fn is_truth(self) -> bool {
        matches!(
            self,
            Self::Eq
                | Self::Ne
                | Self::Lt
                | Self::Le
                | Self::LtSigned
                | Self::LeSigned
                | Self::And
                | Self::Or
        )
    }
}

/// The part of a scaled value that an operation yields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Product {
    /// The whole units, at most `u64::MAX`.
    Whole,
    /// The fraction, which a later operation takes as its carry.
    Rest,
}

/// A step of a program. A condition holds if its value is not 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// A constant.
    Constant(u64),
    /// A value from outside.
    Input(Input),
    /// A parameter of the child.
    Parameter(u8),
    /// The present content of a slot.
    Load(Slot),
    /// Writes a value into a slot. It has no result.
    Store {
        /// The slot.
        slot: Slot,
        /// The new content.
        value: Value,
        /// The condition without which nothing is written.
        when: Option<Value>,
    },
    /// 1 if the value is 0, otherwise 0.
    Not(Value),
    /// An operation on two values.
    Binary {
        /// The operator.
        operator: Binary,
        /// The left operand.
        left: Value,
        /// The right operand.
        right: Value,
    },
    /// One of two values.
    Select {
        /// The condition.
        condition: Value,
        /// The result if the condition holds.
        yes: Value,
        /// The result if it does not.
        no: Value,
    },
    /// A value times a [`Scale`](crate::Scale), plus a carried fraction: one multiplication and one shift.
    Scale {
        /// The part of the product.
        product: Product,
        /// The value.
        value: Value,
        /// The word of the scale.
        scale: Value,
        /// The fraction left by an earlier operation of the same scale.
        carry: Value,
    },
}

impl Operation {
    /// The values that the operation takes.
    pub fn operands(&self) -> impl Iterator<Item = Value> + use<> {
        let taken = match *self {
            Self::Constant(_) | Self::Input(_) | Self::Parameter(_) | Self::Load(_) => [None; 3],
            Self::Store { value, when, .. } => [Some(value), when, None],
            Self::Not(value) => [Some(value), None, None],
            Self::Binary { left, right, .. } => [Some(left), Some(right), None],
            Self::Select { condition, yes, no } => [Some(condition), Some(yes), Some(no)],
            Self::Scale { value, scale, carry, .. } => [Some(value), Some(scale), Some(carry)],
        };
        taken.into_iter().flatten()
    }

    /// Whether the operation has a result.
    pub const fn has_result(&self) -> bool {
        !matches!(self, Self::Store { .. })
    }

    /// Whether the result is 0 or 1, whatever the operands are.
    pub const fn is_truth(&self) -> bool {
        match self {
            Self::Not(_) => true,
            Self::Binary { operator, .. } => operator.is_truth(),
            Self::Constant(value) => *value <= 1,
            Self::Input(input) => {
                matches!(input, Input::More | Input::HeadKnown(_) | Input::PacketKnown(_))
            }
            _ => false,
        }
    }
}

/// A result of a program for the engine. A program has at most one effect of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// The child's rank: the smallest goes first; the second component decides between equal first ones.
    Rank(Value, Value),
    /// The time before which the child has no turn.
    FromTime(Value),
    /// The virtual time before which the child has no turn.
    FromVirtualTime(Value),
    /// A time at which a waiting child gets another rank.
    Until {
        /// The time.
        time: Value,
        /// The rank from then on.
        rank: (Value, Value),
    },
    /// Ranks the child anew, if the condition holds.
    Rerank(Value),
    /// Drops the packet, if the condition holds.
    Drop(Value),
    /// Marks the packet (congestion experienced), if the condition holds.
    Mark(Value),
}

impl Effect {
    /// Whether the effect exists in programs of `part`.
    pub const fn allowed_in(self, part: Part) -> bool {
        match self {
            Self::Rank(..) | Self::FromTime(_) | Self::FromVirtualTime(_) | Self::Until { .. } => {
                matches!(part, Part::Rank)
            }
            Self::Rerank(_) => matches!(part, Part::Arrives),
            Self::Drop(_) | Self::Mark(_) => matches!(part, Part::Fetched),
        }
    }

    /// Whether a program with `self` may not have `other` as well. Both forms of `from` are of one kind.
    pub const fn excludes(self, other: Self) -> bool {
        self.kind() == other.kind()
    }

    const fn kind(self) -> u8 {
        match self {
            Self::Rank(..) => 0,
            Self::FromTime(_) | Self::FromVirtualTime(_) => 1,
            Self::Until { .. } => 2,
            Self::Rerank(_) => 3,
            Self::Drop(_) => 4,
            Self::Mark(_) => 5,
        }
    }

    /// The values that the effect takes.
    pub fn operands(&self) -> impl Iterator<Item = Value> + use<> {
        let taken = match *self {
            Self::Rank(first, second) => [Some(first), Some(second), None],
            Self::Until { time, rank } => [Some(time), Some(rank.0), Some(rank.1)],
            Self::FromTime(value)
            | Self::FromVirtualTime(value)
            | Self::Rerank(value)
            | Self::Drop(value)
            | Self::Mark(value) => [Some(value), None, None],
        };
        taken.into_iter().flatten()
    }
}
