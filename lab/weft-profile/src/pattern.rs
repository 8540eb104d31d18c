//! Patterns of traffic, and their flows on cores.

use std::fmt;
use std::str::FromStr;

/// A pattern of the study's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// A flow from one core to one.
    Single,
    /// As many sending cores as receiving ones, a flow for each pair.
    OneToOne,
    /// Many sending cores, one receiving.
    Incast,
    /// One sending core, many receiving.
    Outcast,
    /// A flow from each sending core to each receiving one.
    AllToAll,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Self; 5] = [Self::Single, Self::OneToOne, Self::Incast, Self::Outcast, Self::AllToAll];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::OneToOne => "one-to-one",
            Self::Incast => "incast",
            Self::Outcast => "outcast",
            Self::AllToAll => "all-to-all",
        }
    }

    /// The cores that the pattern needs at each end.
    fn ends(self, flows: FlowCount) -> (u32, u32) {
        let (a, b) = match flows {
            FlowCount::Each(n) => (n, n),
            FlowCount::Between(a, b) => (a, b),
        };
        match self {
            Self::Single => (1, 1),
            Self::OneToOne | Self::AllToAll => (a, b),
            Self::Incast => (a, 1),
            Self::Outcast => (1, b),
        }
    }
}

/// The number of flows, as the user writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowCount {
    /// `N`: sending and receiving cores.
    Each(u32),
    /// `AxB`: sending cores and receiving cores.
    Between(u32, u32),
}

/// The reason that a text is no number of flows.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not a number of flows such as 8 or 4x4, from 1 to {MAX_CORES} at each end")]
pub struct FlowCountError(String);

/// The most cores at an end: 576 flows, the study's largest.
pub const MAX_CORES: u32 = 24;

impl FromStr for FlowCount {
    type Err = FlowCountError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || FlowCountError(text.to_owned());
        let number = |part: &str| {
            let n: u32 = part.parse().map_err(|_| error())?;
            if (1..=MAX_CORES).contains(&n) { Ok(n) } else { Err(error()) }
        };
        match text.split_once('x') {
            Some((a, b)) => Ok(Self::Between(number(a)?, number(b)?)),
            None => Ok(Self::Each(number(text)?)),
        }
    }
}

impl fmt::Display for FlowCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Each(n) => write!(f, "{n}"),
            Self::Between(a, b) => write!(f, "{a}x{b}"),
        }
    }
}

/// A flow on its cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacedFlow {
    /// The sender's processor.
    pub sender: u32,
    /// The receiver's processor.
    pub receiver: u32,
}

/// Flows on the processors of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowLayout {
    /// The flows.
    pub flows: Vec<PlacedFlow>,
    /// The processors of senders, each once.
    pub senders: Vec<u32>,
    /// The processors of receivers, each once.
    pub receivers: Vec<u32>,
    /// Where the machine gives less than the pattern needs; empty if it does not.
    pub shortage: String,
}

impl FlowLayout {
    /// Places the flows of a pattern on `processors`: senders on the first half, receivers on the second. Where there are fewer
    /// than the pattern needs, flows share them in turn.
    pub fn new(pattern: Pattern, flows: FlowCount, processors: &[u32]) -> Self {
        let mut layout = Self::between(pattern, flows, halves(processors));
        if processors.len() < 2 {
            let before = if layout.shortage.is_empty() { "" } else { "; " };
            layout.shortage = format!("{}{before}both ends share one core", layout.shortage);
        }
        layout
    }

    /// Places the flows of a pattern on the processors of a sending and a receiving host.
    pub fn between(pattern: Pattern, flows: FlowCount, (first, second): (&[u32], &[u32])) -> Self {
        let (senders, receivers) = pattern.ends(flows);
        let take =
            |pool: &[u32], wanted: u32| -> Vec<u32> { pool.iter().copied().take(wanted as usize).collect() };
        let (from, to) = (take(first, senders), take(second, receivers));
        let placed = |s: u32, r: u32| {
            let on = |pool: &[u32], i: u32| pool.get(i as usize % pool.len().max(1)).copied().unwrap_or(0);
            PlacedFlow { sender: on(&from, s), receiver: on(&to, r) }
        };
        let flows: Vec<PlacedFlow> = match pattern {
            Pattern::OneToOne => (0..senders.max(receivers)).map(|i| placed(i, i)).collect(),
            _ => (0..senders)
                .flat_map(|s| (0..receivers).map(move |r| (s, r)))
                .map(|(s, r)| placed(s, r))
                .collect(),
        };
        let lacks = |wanted: u32, given: usize, what: &str| {
            let short = (given as u32) < wanted;
            short.then(|| format!("{wanted} {what} cores were asked for, {given} given"))
        };
        let shortage = [lacks(senders, from.len(), "sending"), lacks(receivers, to.len(), "receiving")];
        let shortage: Vec<String> = shortage.into_iter().flatten().collect();
        Self { flows, senders: from, receivers: to, shortage: shortage.join("; ") }
    }
}

fn halves(processors: &[u32]) -> (&[u32], &[u32]) {
    match processors.len() {
        0 | 1 => (processors, processors),
        n => processors.split_at(n / 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_stand_on_the_pattern_s_cores() {
        let cores: Vec<u32> = (0..8).collect();
        let layout = |pattern, flows: &str| FlowLayout::new(pattern, flows.parse().expect("flows"), &cores);
        let counts = |l: &FlowLayout| (l.flows.len(), l.senders.len(), l.receivers.len());
        assert_eq!(counts(&layout(Pattern::Single, "5")), (1, 1, 1));
        assert_eq!(counts(&layout(Pattern::OneToOne, "4")), (4, 4, 4));
        assert_eq!(counts(&layout(Pattern::Incast, "4")), (4, 4, 1));
        assert_eq!(counts(&layout(Pattern::Outcast, "3")), (3, 1, 3));
        assert_eq!(counts(&layout(Pattern::AllToAll, "2x3")), (6, 2, 3));
        let outcast = layout(Pattern::Outcast, "3");
        assert_eq!(outcast.flows.iter().map(|f| f.receiver).collect::<Vec<_>>(), [4, 5, 6]);
        assert!(outcast.shortage.is_empty() && outcast.flows.iter().all(|f| f.sender == 0));
    }

    #[test]
    fn a_small_machine_shares_its_cores_and_says_so() {
        let layout = FlowLayout::new(Pattern::AllToAll, FlowCount::Each(3), &[4, 6]);
        assert_eq!((layout.flows.len(), &layout.senders, &layout.receivers), (9, &vec![4], &vec![6]));
        assert!(layout.shortage.contains("3 sending cores were asked for, 1 given"), "{}", layout.shortage);
        let one = FlowLayout::new(Pattern::Single, FlowCount::Each(1), &[2]);
        assert!(one.flows == [PlacedFlow { sender: 2, receiver: 2 }] && one.shortage.contains("share"));
    }

    #[test]
    fn numbers_of_flows_are_read_as_they_are_written() {
        for text in ["1", "24", "4x8"] {
            assert_eq!(text.parse::<FlowCount>().expect(text).to_string(), text);
        }
        for text in ["0", "25", "x", "2x", "2x0", "-1", ""] {
            assert!(text.parse::<FlowCount>().is_err(), "{text}");
        }
    }
}
