//! The library's programs against those that were written by hand apart from them (`weft_rank::samples`): equal effects for any events.

use super::next;
use weft_policy::algorithm::shipped_algorithm;
use weft_rank::{Algorithm, Effects, Inputs, Metadata, Metadatum, Part, Rank, Scale, samples};
use weft_units::{BitsPerSec, Bytes, Instant, Packets};

/// An algorithm with the state of one node and two children.
struct Run<'a> {
    algorithm: &'a Algorithm,
    node: Vec<u64>,
    children: [Vec<u64>; 2],
    ranks: [Rank; 2],
}

impl<'a> Run<'a> {
    fn new(algorithm: &'a Algorithm) -> Self {
        let initial =
            |fields: &[weft_rank::Field]| fields.iter().map(|field| field.initial).collect::<Vec<_>>();
        let child = initial(&algorithm.child);
        Self {
            algorithm,
            node: initial(&algorithm.node),
            children: [child.clone(), child],
            ranks: [Rank::default(); 2],
        }
    }

    fn run(&mut self, part: Part, child: usize, mut inputs: Inputs, parameters: &[u64]) -> Effects {
        let Some(program) = self.algorithm.parts.get(part) else { return Effects::NONE };
        inputs.rank = self.ranks[child];
        let effects = program.run(&inputs, parameters, &mut self.node, &mut self.children[child]);
        if let Some(rank) = effects.rank() {
            self.ranks[child] = rank;
        }
        effects
    }
}

fn some_packet(state: &mut u64, now: u64) -> Metadata {
    let mut packet = Metadata::UNKNOWN
        .with(Metadatum::Length, 64 + (next(state) % 9000) as u64)
        .with(Metadatum::Arrived, now - (next(state) % 20_000_000) as u64)
        .with(Metadatum::Priority, (next(state) % 8) as u64);
    let told = [
        (Metadatum::Deadline, now + (next(state) % 9_000_000) as u64),
        (Metadatum::Slack, (next(state) % 9_000_000) as u64),
        (Metadatum::Left, (next(state) % 1_000_000) as u64),
        (Metadatum::Late, (next(state) % 1_000_000) as u64),
        (Metadatum::SendTime, now + (next(state) % 9_000_000) as u64),
        (Metadatum::Pace, Scale::time_per_byte(BitsPerSec(1_000_000)).word()),
    ];
    told.into_iter()
        .filter(|_| next(state).is_multiple_of(2))
        .for_each(|(metadatum, value)| packet.set(metadatum, value));
    packet
}

/// Runs both on the same events and compares their effects.
fn compare(name: &str, arguments: &str, sample: &Algorithm, words: &[u64]) {
    let text = shipped_algorithm(name).expect("a shipped algorithm");
    let given = text.arguments(arguments).expect("arguments");
    let (mut ours, mut theirs) = (Run::new(&text.program), Run::new(sample));
    let mut state = 7;
    let mut now = 100_000_000_000;
    for step in 0..4000 {
        now += (next(&mut state) % 3_000_000) as u64;
        let child = next(&mut state) % 2;
        let part = Part::ALL[next(&mut state) % Part::ALL.len()];
        let mut inputs = Inputs::at(Instant::from_nanos(now));
        inputs.head = some_packet(&mut state, now);
        inputs.packet = some_packet(&mut state, now);
        inputs.bytes = Bytes(64 + (next(&mut state) % 65_000) as u64);
        inputs.queued_bytes = Bytes((next(&mut state) % 10_000) as u64);
        inputs.queued_packets = Packets((next(&mut state) % 10) as u64);
        let one = ours.run(part, child, inputs, &given);
        let mut other = theirs.run(part, child, inputs, words);
        // The sample moves its ranks up, so that times before the epoch have an order; a text's times begin there.
        if name == "fifo_plus" && other.rank().is_some() {
            other.rank.first -= 1 << 63;
        }
        assert_eq!(one, other, "{name}, step {step}: {part}");
    }
}

#[test]
fn texts_and_programs_by_hand_are_equal() {
    let rate = |bps: u64| Scale::time_per_byte(BitsPerSec(bps)).word();
    compare("strict", "3", &samples::strict(), &[3]);
    compare("round_robin", "", &samples::round_robin(), &[]);
    compare("stfq", "3", &samples::stfq(), &[3]);
    compare("stfq", "weight 65537", &samples::stfq(), &[65_537]);
    compare("edf", "3ms", &samples::edf(), &[3_000_000]);
    compare("lstf", "", &samples::lstf(), &[10_000_000]);
    compare("fifo_plus", "", &samples::fifo_plus(), &[]);
    compare("srpt", "", &samples::srpt(), &[]);
    compare("pfabric", "", &samples::pfabric(), &[50_000_000]);
    compare("las", "", &samples::las(), &[]);
    compare("bucket", "77mbps burst 3000", &samples::bucket(), &[rate(77_000_000), 3000]);
    compare("edt", "", &samples::edt(), &[10_000_000_000]);
    compare("codel", "", &samples::codel(), &[5_000_000, 100_000_000, 1514]);
}
