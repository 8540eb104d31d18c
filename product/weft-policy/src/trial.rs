//! Tests of a policy as texts: arrivals, and the order in which they must leave.
//!
//! ```text
//! policy "figure1.weft"
//!
//! test "an urgent packet behind a calm head"
//! packet a 1000 flow f1 deadline 9us
//! packet b 1000 flow f1 deadline 1us
//! packet c 1000 flow f2 deadline 5us
//! expect c a b
//! ```
//!
//! A line `change "other.weft" at 200ns` changes the policy while packets wait. docs/algorithms.md has the grammar. [`run`]
//! runs a test on the engine.

pub mod run;

use core::str::FromStr;
use weft_text::{ParseError, Span, hint_and_all, quoted};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The tests of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trials {
    /// The policy's path, relative to the file.
    pub policy: Option<String>,
    /// The tests, in the order of the file.
    pub cases: Vec<Trial>,
}

/// A test: arrivals, and the departures that are expected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trial {
    /// Its name.
    pub name: String,
    /// The arrivals, in the order of the file.
    pub packets: Vec<TrialPacket>,
    /// The changes of the policy, in the order of the file.
    pub changes: Vec<TrialChange>,
    /// The departures, in their order.
    pub expect: Vec<Departure>,
    /// The packets that are dropped.
    pub drops: Vec<String>,
}

/// An arrival.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrialPacket {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: Bytes,
    /// The time of its arrival.
    pub at: Nanos,
    /// Its class; `None` for the first of the policy.
    pub class: Option<String>,
    /// Its flow; `None` for one flow of the class.
    pub flow: Option<String>,
    /// The deadline of its departure.
    pub deadline: Option<Nanos>,
    /// The span that it may wait.
    pub slack: Option<Nanos>,
    /// The lateness of earlier hops.
    pub late: Option<Nanos>,
    /// The time before which it is not to leave.
    pub txtime: Option<Nanos>,
    /// The bytes that its flow still has to send.
    pub left: Option<Bytes>,
    /// Its priority.
    pub prio: Option<u64>,
    /// Its flow's pacing rate.
    pub pace: Option<BitsPerSec>,
}

/// A change of the policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrialChange {
    /// The path of the new policy, relative to the file.
    pub policy: String,
    /// The moment of the change.
    pub when: ChangeMoment,
    /// The number of packets that the file lists before it. Of those that arrive at its time, these come first.
    pub listed: usize,
}

/// The moment of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeMoment {
    /// A time.
    At(Nanos),
    /// The end of this packet's turn. What arrives while it is sent meets the new policy.
    After(String),
}

/// A departure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Departure {
    /// The packet's name.
    pub name: String,
    /// The time at which its transmission begins, if the test states it.
    pub at: Option<Nanos>,
}

/// The words that begin the lines of a test.
pub const LINES: &[&str] = &["policy", "test", "packet", "change", "expect", "drops"];
/// The words of the facts about a packet.
pub const FACTS: &[&str] =
    &["at", "class", "flow", "deadline", "slack", "late", "txtime", "left", "prio", "pace"];
/// The help for a change.
const CHANGE: &str = "such as `change \"new.weft\" at 200ns` or `change \"new.weft\" after a`";
/// The help for a packet.
const PACKET: &str = "such as `packet a 1000 flow f1 deadline 9us at 500ns`";

impl FromStr for Trials {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut trials = Self::default();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let mut words = Words::new(line, start);
            start += line.len();
            let Some((span, word)) = words.next() else { continue };
            match word {
                "policy" => trials.policy = Some(words.text("the policy's path")?),
                "test" => {
                    let name = words.text("the test's name")?;
                    trials.cases.push(Trial { name, ..Trial::default() });
                }
                "packet" => {
                    let packet = packet(&mut words)?;
                    trials.case().packets.push(packet);
                }
                "change" => {
                    let case = trials.case();
                    let change = change(&mut words, case.packets.len())?;
                    if let ChangeMoment::After(packet) = &change.when {
                        known(case, [packet.as_str()].into_iter(), span)?;
                    }
                    case.changes.push(change);
                }
                "expect" => {
                    let departures = departures(&mut words)?;
                    let case = trials.case();
                    known(case, departures.iter().map(|departure| departure.name.as_str()), span)?;
                    case.expect.extend(departures);
                }
                "drops" => {
                    let names: Vec<String> = words.by_ref().map(|(_, name)| name.to_owned()).collect();
                    let case = trials.case();
                    known(case, names.iter().map(String::as_str), span)?;
                    case.drops.extend(names);
                }
                "class" | "link" | "bound" | "latency" | "steer" | "tenant" | "root" => {
                    let hint = "a test names its policy, such as `policy \"my.weft\"`; lines such as `test \"order\"`, `packet a 1000 class web` \
                                and `expect a` follow";
                    return Err(ParseError::new(span, "this is a policy, and not a test of one", hint));
                }
                _ => {
                    let hint = hint_and_all(word, LINES, &[("arrive", "packet"), ("order", "expect")]);
                    return Err(ParseError::new(
                        span,
                        format!("{} begins no line of a test", quoted(word)),
                        hint,
                    ));
                }
            }
            if let Some((span, word)) = words.next() {
                let message = format!("expected the end of the line, found {}", quoted(word));
                return Err(ParseError::new(span, message, "a comment begins with `#`"));
            }
        }
        Ok(trials)
    }
}

impl Trials {
    /// The test that the next line belongs to; lines before the first `test` are a test without a name.
    fn case(&mut self) -> &mut Trial {
        if self.cases.is_empty() {
            self.cases.push(Trial::default());
        }
        let last = self.cases.len() - 1;
        &mut self.cases[last]
    }
}

/// Checks that names are those of packets.
fn known<'a>(case: &Trial, names: impl Iterator<Item = &'a str>, span: Span) -> Result<(), ParseError> {
    let packets: Vec<&str> = case.packets.iter().map(|packet| packet.name.as_str()).collect();
    for name in names {
        if !packets.contains(&name) {
            let message = format!("no packet has the name {}", quoted(name));
            return Err(ParseError::new(span, message, hint_and_all(name, &packets, &[])));
        }
    }
    Ok(())
}

/// `NAME BYTES { FACT VALUE }`
fn packet(words: &mut Words<'_>) -> Result<TrialPacket, ParseError> {
    let (_, name) = words.expect("the packet's name", PACKET)?;
    let mut packet =
        TrialPacket { name: name.to_owned(), bytes: words.value("a length", PACKET)?, ..Default::default() };
    while let Some((span, word)) = words.next() {
        match word {
            "at" => packet.at = words.time()?,
            "class" => packet.class = Some(words.expect("the class", PACKET)?.1.to_owned()),
            "flow" => packet.flow = Some(words.expect("the flow", PACKET)?.1.to_owned()),
            "deadline" => packet.deadline = Some(words.time()?),
            "slack" => packet.slack = Some(words.time()?),
            "late" => packet.late = Some(words.time()?),
            "txtime" => packet.txtime = Some(words.time()?),
            "left" => packet.left = Some(words.value("a size", PACKET)?),
            "prio" => packet.prio = Some(words.value("a priority", PACKET)?),
            "pace" => packet.pace = Some(words.value("a rate", "such as `pace 10mbps`")?),
            _ => {
                let hint = hint_and_all(
                    word,
                    FACTS,
                    &[("due", "deadline"), ("priority", "prio"), ("remaining", "left")],
                );
                let message = format!("{} is no fact about a packet", quoted(word));
                return Err(ParseError::new(span, message, hint));
            }
        }
    }
    Ok(packet)
}

/// `PATH [ "at" TIME | "after" NAME ]`, after so many packets.
fn change(words: &mut Words<'_>, listed: usize) -> Result<TrialChange, ParseError> {
    let policy = words.text("the new policy's path")?;
    let when = match words.next() {
        None => ChangeMoment::At(Nanos::ZERO),
        Some((_, "at")) => ChangeMoment::At(words.time()?),
        Some((_, "after")) => ChangeMoment::After(words.expect("the packet's name", CHANGE)?.1.to_owned()),
        Some((span, word)) => {
            let message = format!("{} is no moment of a change", quoted(word));
            return Err(ParseError::new(span, message, hint_and_all(word, &["at", "after"], &[])));
        }
    };
    Ok(TrialChange { policy, when, listed })
}

/// `{ NAME [ "at" TIME ] }`
fn departures(words: &mut Words<'_>) -> Result<Vec<Departure>, ParseError> {
    let mut found: Vec<Departure> = Vec::new();
    while let Some((span, word)) = words.next() {
        match (word, found.last_mut()) {
            ("at", Some(last)) => last.at = Some(words.time()?),
            ("at", None) => {
                return Err(ParseError::new(
                    span,
                    "a time without a packet",
                    "such as `expect a at 0ns b at 1us`",
                ));
            }
            (name, _) => found.push(Departure { name: name.to_owned(), at: None }),
        }
    }
    Ok(found)
}

/// The words of a line, with their places; a text in quotes is one word, and a comma is a space.
struct Words<'a> {
    words: std::vec::IntoIter<(Span, &'a str)>,
    end: usize,
}

impl<'a> Words<'a> {
    fn new(line: &'a str, start: usize) -> Self {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = Vec::new();
        let mut from = None;
        let mut quoted = false;
        for (at, c) in line.char_indices().chain([(line.len(), ' ')]) {
            let ends = at == line.len() || (!quoted && (c.is_whitespace() || c == ','));
            match (ends, from) {
                (true, Some(first)) => {
                    words.push((Span::new(start + first, start + at), &line[first..at]));
                    from = None;
                }
                (false, None) => from = Some(at),
                _ => {}
            }
            quoted ^= c == '"';
        }
        Self { words: words.into_iter(), end: start + line.trim_end().len() }
    }

    fn expect(&mut self, what: &str, hint: &str) -> Result<(Span, &'a str), ParseError> {
        self.next().ok_or_else(|| ParseError::new(Span::at(self.end), format!("{what} is missing"), hint))
    }

    /// A text, with or without quotes.
    fn text(&mut self, what: &str) -> Result<String, ParseError> {
        let (_, word) = self.expect(what, "in quotes, such as `test \"ties\"`")?;
        Ok(word.trim_matches('"').to_owned())
    }

    fn value<T: FromStr>(&mut self, what: &str, hint: &str) -> Result<T, ParseError> {
        let (span, word) = self.expect(what, hint)?;
        word.parse().map_err(|_| ParseError::new(span, format!("{} is not {what}", quoted(word)), hint))
    }

    /// A time with its unit: a bare number would be one of seconds.
    fn time(&mut self) -> Result<Nanos, ParseError> {
        let (span, word) = self.expect("a time", "such as 500ns or 9us")?;
        let unit = word.ends_with('s');
        let time = word.parse().ok().filter(|_| unit);
        time.ok_or_else(|| {
            ParseError::new(span, format!("{} is not a time", quoted(word)), "such as 500ns or 9us")
        })
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = (Span, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.words.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_read() {
        let text = "policy \"a b.weft\"\n# all\ntest \"one\"\npacket a 1000 flow f1 deadline 9us at 500ns\npacket b 1kb left 7\nexpect b at 0ns, a at 1us\ndrops a\n";
        let trials: Trials = text.parse().expect("a test");
        assert_eq!(trials.policy.as_deref(), Some("a b.weft"));
        let case = &trials.cases[0];
        assert_eq!((case.name.as_str(), case.packets.len(), case.drops.len()), ("one", 2, 1));
        assert_eq!(case.packets[0].deadline, Some(Nanos::from_micros(9)));
        assert_eq!((case.packets[0].at, case.packets[1].left), (Nanos(500), Some(Bytes(7))));
        assert_eq!(case.expect[1], Departure { name: "a".into(), at: Some(Nanos::from_micros(1)) });
    }

    #[test]
    fn a_change_is_read() {
        let text =
            "packet a 1\nchange \"x.weft\"\nchange y.weft at 2us\npacket b 1\nchange \"z.weft\" after b\n";
        let trials: Trials = text.parse().expect("a test");
        let change = |policy: &str, when, listed| TrialChange { policy: policy.into(), when, listed };
        let expected = [
            change("x.weft", ChangeMoment::At(Nanos::ZERO), 1),
            change("y.weft", ChangeMoment::At(Nanos::from_micros(2)), 1),
            change("z.weft", ChangeMoment::After("b".into()), 2),
        ];
        assert_eq!(trials.cases[0].changes, expected);
    }

    #[test]
    fn errors_name_the_word() {
        for (text, at, words) in [
            ("change\n", 6, "the new policy's path is missing"),
            ("change \"x\" when a\n", 11, "`when` is no moment of a change"),
            ("change \"x\" at 5\n", 14, "`5` is not a time"),
            ("change \"x\" after\n", 16, "the packet's name is missing"),
            ("packet a 1\nchange \"x\" after b\n", 11, "no packet has the name `b`"),
            ("change \"x\" at 5ns 6ns\n", 18, "end of the line"),
            ("pakcet a 1\n", 0, "did you mean `packet`"),
            ("packet a\n", 8, "a length is missing"),
            ("packet a x\n", 9, "`x` is not a length"),
            ("packet a 1 due 5us\n", 11, "deadline"),
            ("packet a 1 at 5\n", 14, "`5` is not a time"),
            ("packet a 1\nexpect b\n", 11, "no packet has the name `b`"),
            ("test \"x\" y\n", 9, "end of the line"),
            ("expect at 5us\n", 7, "a time without a packet"),
        ] {
            let error = text.parse::<Trials>().expect_err(text);
            assert_eq!(error.span.start, at, "{text}: {error}");
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }
}
