//! The units of quantities in algorithms, and what may be done with them.

use core::fmt;

/// The unit of a quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// A number without a unit, as written: it takes the unit of what it meets.
    Number,
    /// A count.
    Count,
    /// A count that may be negative.
    SignedCount,
    /// Bytes.
    Bytes,
    /// Bytes that may be negative.
    SignedBytes,
    /// A point in time.
    Time,
    /// A span of time.
    Duration,
    /// Bits per second.
    Rate,
    /// Bytes divided by weights: the clock of weighted sharing.
    VirtualTime,
    /// A weight.
    Weight,
    /// The answer to a comparison.
    YesNo,
}

/// An operator between two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    And,
    Or,
}

impl Operator {
    /// The operator of a token.
    pub(crate) fn of(text: &str) -> Option<Self> {
        Some(match text {
            "+" => Self::Add,
            "-" => Self::Sub,
            "*" => Self::Mul,
            "/" => Self::Div,
            "<" => Self::Lt,
            "<=" => Self::Le,
            ">" => Self::Gt,
            ">=" => Self::Ge,
            "==" => Self::Eq,
            "!=" => Self::Ne,
            "and" => Self::And,
            "or" => Self::Or,
            _ => return None,
        })
    }
}

/// The arithmetic that combines two quantities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// On words from 0.
    Unsigned,
    /// On words in two's complement.
    Signed,
    /// Bytes divided by a rate.
    Scaled,
    /// A rate multiplied by a duration.
    Sent,
    /// Bytes divided by a weight.
    Weighted,
}

/// The result of two operands, or the help for the author.
pub(crate) type Combined = Result<(Type, Rule), &'static str>;

impl Type {
    /// The type of a name in the language.
    pub(crate) fn named(text: &str) -> Option<Self> {
        Some(match text {
            "count" => Self::Count,
            "signed count" => Self::SignedCount,
            "bytes" => Self::Bytes,
            "signed bytes" => Self::SignedBytes,
            "time" => Self::Time,
            "duration" => Self::Duration,
            "rate" => Self::Rate,
            "vtime" => Self::VirtualTime,
            "weight" => Self::Weight,
            _ => return None,
        })
    }

    /// The name in the language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Count => "count",
            Self::SignedCount => "signed count",
            Self::Bytes => "bytes",
            Self::SignedBytes => "signed bytes",
            Self::Time => "time",
            Self::Duration => "duration",
            Self::Rate => "rate",
            Self::VirtualTime => "vtime",
            Self::Weight => "weight",
            Self::YesNo => "yes or no",
        }
    }

    /// Whether the quantity may be negative.
    pub(crate) const fn is_signed(self) -> bool {
        matches!(self, Self::SignedCount | Self::SignedBytes)
    }

    /// The type without its sign.
    pub(crate) const fn unit(self) -> Self {
        match self {
            Self::SignedCount => Self::Count,
            Self::SignedBytes => Self::Bytes,
            other => other,
        }
    }

    /// The type with a sign, where it has one.
    const fn signed(self) -> Self {
        match self {
            Self::Count | Self::Number => Self::SignedCount,
            Self::Bytes => Self::SignedBytes,
            other => other,
        }
    }

    /// Whether a number without a unit is one of this.
    pub(crate) const fn takes_numbers(self) -> bool {
        matches!(
            self,
            Self::Number | Self::Count | Self::SignedCount | Self::Bytes | Self::SignedBytes | Self::Weight
        )
    }

    /// Both operands in one type, if their units agree. A number takes the other's unit; `zero` says that it is 0, which has
    /// every unit.
    pub(crate) fn common(self, other: Self, zero: bool) -> Option<Self> {
        let (one, two) = (self.unit(), other.unit());
        let unit = match (one, two) {
            _ if one == two => one,
            (Self::Number, unit) | (unit, Self::Number) if unit.takes_numbers() || zero => unit,
            _ => return None,
        };
        let signed = self.is_signed() || other.is_signed();
        Some(if signed { unit.signed() } else { unit })
    }

    /// The result of an operator on two operands.
    pub(crate) fn combine(self, operator: Operator, other: Self, zero: bool) -> Combined {
        match operator {
            Operator::Add | Operator::Sub => self.sum(operator, other, zero),
            Operator::Mul => self.product(other),
            Operator::Div => self.quotient(other),
            Operator::And | Operator::Or if self == Self::YesNo && other == Self::YesNo => {
                Ok((Self::YesNo, Rule::Unsigned))
            }
            Operator::And | Operator::Or => Err("`and` joins conditions, such as `a < b and c < d`"),
            _ => self.comparison(other, zero),
        }
    }

    fn comparison(self, other: Self, zero: bool) -> Combined {
        match self.common(other, zero) {
            Some(Self::Rate) => Err("rates are not compared: compare the durations `bytes / rate`"),
            Some(common) => Ok((Self::YesNo, rule(common))),
            None => Err(help(self, other)),
        }
    }

    fn sum(self, operator: Operator, other: Self, zero: bool) -> Combined {
        let common = self.common(other, zero);
        match (self, operator, other) {
            (Self::Time, _, Self::Duration) | (Self::Duration, Operator::Add, Self::Time) => {
                Ok((Self::Time, Rule::Unsigned))
            }
            (Self::Time, Operator::Sub, Self::Time) => Ok((Self::Duration, Rule::Unsigned)),
            (Self::Time, Operator::Add, Self::Time) => {
                Err("two points in time have no sum: add a duration to a time")
            }
            (Self::Duration, Operator::Sub, Self::Time) => Err("a time is not subtracted from a duration"),
            _ => match common {
                Some(Self::YesNo) => Err("conditions are joined by `and` and `or`"),
                Some(Self::Rate) => Err("rates have no sum here: add the durations `bytes / rate`"),
                Some(common) => Ok((common, rule(common))),
                None => Err(help(self, other)),
            },
        }
    }

    fn product(self, other: Self) -> Combined {
        const COUNTS: [Type; 3] = [Type::Number, Type::Count, Type::SignedCount];
        let signed = self.is_signed() || other.is_signed();
        let unit = match (self.unit(), other.unit()) {
            (Self::Rate, Self::Duration) | (Self::Duration, Self::Rate) => {
                return Ok((Self::Bytes, Rule::Sent));
            }
            (one, two) if COUNTS.contains(&one) => two,
            (one, two) if COUNTS.contains(&two) => one,
            (Self::Rate, _) | (_, Self::Rate) => {
                return Err("a rate is multiplied by a duration, which gives bytes");
            }
            _ => return Err("one of the factors is a count, or they are a rate and a duration"),
        };
        match unit {
            Self::Bytes | Self::Count | Self::Number if signed => Ok((unit.signed(), Rule::Signed)),
            Self::Bytes | Self::Count | Self::Number | Self::VirtualTime | Self::Duration if !signed => {
                Ok((unit, Rule::Unsigned))
            }
            Self::VirtualTime | Self::Duration => Err("only counts and bytes may be negative"),
            _ => Err("bytes, counts, durations and vtimes are multiplied by a count"),
        }
    }

    fn quotient(self, other: Self) -> Combined {
        let signed = self.is_signed() || other.is_signed();
        match (self.unit(), other.unit()) {
            (Self::Bytes, Self::Rate | Self::Weight) if signed => Err(
                "bytes that may be negative are not divided by a rate or a weight: use `max(x, 0)`, stored in a field of bytes",
            ),
            (Self::Bytes, Self::Rate) => Ok((Self::Duration, Rule::Scaled)),
            (Self::Bytes, Self::Weight) => Ok((Self::VirtualTime, Rule::Weighted)),
            (Self::Number | Self::Count, Self::Rate | Self::Weight) => {
                Err("bytes are divided by a rate or a weight, such as `1500b / rate`")
            }
            (Self::Rate, _) => Err("a rate is not divided: divide the bytes by it, and then the duration"),
            (one @ (Self::Bytes | Self::Duration | Self::VirtualTime), two) if one == two => Ok((
                if signed { Self::SignedCount } else { Self::Count },
                if signed { Rule::Signed } else { Rule::Unsigned },
            )),
            (Self::Bytes | Self::Count | Self::Number, Self::Count | Self::Number) if signed => {
                Ok((self.signed(), Rule::Signed))
            }
            (
                one @ (Self::Bytes | Self::Duration | Self::VirtualTime | Self::Count),
                Self::Count | Self::Number,
            ) => Ok((one, Rule::Unsigned)),
            (Self::Number, Self::Count | Self::Number) => Ok((Self::Count, Rule::Unsigned)),
            (Self::Duration, Self::Rate) => {
                Err("a duration times a rate gives bytes; bytes divided by a rate give a duration")
            }
            _ => Err(
                "bytes / rate is a duration, bytes / weight a vtime, and anything divided by a count stays what it is",
            ),
        }
    }
}

fn rule(common: Type) -> Rule {
    if common.is_signed() { Rule::Signed } else { Rule::Unsigned }
}

/// The help for two quantities that have nothing in common.
fn help(one: Type, two: Type) -> &'static str {
    let has = |a: Type, b: Type| (one.unit() == a && two.unit() == b) || (one.unit() == b && two.unit() == a);
    match () {
        () if has(Type::Bytes, Type::Duration) || has(Type::Bytes, Type::Time) => {
            "divide the bytes by a rate, which gives a duration: `bytes / rate`"
        }
        () if has(Type::VirtualTime, Type::Time) || has(Type::VirtualTime, Type::Duration) => {
            "a vtime counts bytes by weights and has nothing to do with clocks"
        }
        () if has(Type::VirtualTime, Type::Bytes) => {
            "divide the bytes by a weight, which gives a vtime: `bytes / weight`"
        }
        () if has(Type::Time, Type::Duration) => {
            "a time is a point and a duration a span: `now - then` is a duration"
        }
        () if one == Type::Number || two == Type::Number => {
            "write the number's unit, such as `5ms`, `64kib` or `1gbps`"
        }
        () if one == Type::YesNo || two == Type::YesNo => {
            "a condition is the question of an `if`, and no quantity"
        }
        () => "both sides need the same unit",
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_combined_as_the_guide_says() {
        use Type::*;
        for (one, operator, two, result) in [
            (Bytes, Operator::Div, Rate, Ok(Duration)),
            (Rate, Operator::Mul, Duration, Ok(Bytes)),
            (Bytes, Operator::Div, Weight, Ok(VirtualTime)),
            (Time, Operator::Add, Duration, Ok(Time)),
            (Time, Operator::Sub, Time, Ok(Duration)),
            (Bytes, Operator::Sub, SignedBytes, Ok(SignedBytes)),
            (SignedBytes, Operator::Div, Bytes, Ok(SignedCount)),
            (Count, Operator::Add, SignedCount, Ok(SignedCount)),
            (Number, Operator::Mul, Bytes, Ok(Bytes)),
            (VirtualTime, Operator::Lt, VirtualTime, Ok(YesNo)),
            (Bytes, Operator::Add, Duration, Err(())),
            (VirtualTime, Operator::Add, Time, Err(())),
            (Time, Operator::Add, Time, Err(())),
            (Time, Operator::Add, Number, Err(())),
            (Rate, Operator::Lt, Rate, Err(())),
            (Weight, Operator::Mul, Weight, Err(())),
            (Count, Operator::And, YesNo, Err(())),
        ] {
            let found = one.combine(operator, two, false).map(|(of, _)| of).map_err(|_| ());
            assert_eq!(found, result, "{one} {operator:?} {two}");
        }
        assert_eq!(Time.combine(Operator::Add, Number, true).map(|(of, _)| of), Ok(Time), "0 has every unit");
    }
}
