//! Sizes: shortest remaining first, pFabric, least attained service.

use super::{algorithm, program};
use crate::algorithm::{Algorithm, Field, Kind};
use crate::operation::{Effect, Input, Metadatum, Slot};
use crate::part::Part;
use weft_units::Nanos;

/// Shortest remaining processing time first, by the head's metadata.
pub fn srpt() -> Algorithm {
    let rank = program(Part::Rank, |b| {
        let most = b.constant(u64::MAX);
        let left = b.head_or(Metadatum::Left, most);
        b.rank(left);
    });
    algorithm("srpt", Kind::Algorithm, [rank])
}

/// pFabric (Alizadeh et al., SIGCOMM 2013): the flow with the least remaining size of any waiting packet, in the flow's own
/// order; a flow that has waited for `patience` goes first.
pub fn pfabric() -> Algorithm {
    let (left, since) = (Slot::Child(0), Slot::Child(1));
    let active = program(Part::Active, |b| {
        let (most, now) = (b.constant(u64::MAX), b.now());
        b.store(left, most);
        b.store(since, now);
    });
    let arrives = program(Part::Arrives, |b| {
        let (before, most, one) = (b.load(left), b.constant(u64::MAX), b.constant(1));
        let told = b.packet_or(Metadatum::Left, most);
        let least = b.min(before, told);
        b.store(left, least);
        b.effect(Effect::Rerank(one));
    });
    let rank = program(Part::Rank, |b| {
        let (left, since, patience, zero) = (b.load(left), b.load(since), b.parameter(0), b.constant(0));
        b.rank_pair(left, zero);
        let time = b.add(since, patience);
        b.effect(Effect::Until { time, rank: (zero, zero) });
    });
    let sent = program(Part::Sent, |b| {
        let now = b.now();
        b.store(since, now);
    });
    Algorithm {
        parameters: vec![Field::unsigned("patience", 50_000_000)],
        child: vec![Field::unsigned("left", u64::MAX), Field::unsigned("since", 0)],
        ..algorithm("pfabric", Kind::Algorithm, [active, arrives, rank, sent])
    }
}

/// Least attained service.
pub fn las() -> Algorithm {
    let had = Slot::Child(0);
    let rank = program(Part::Rank, |b| {
        let had = b.load(had);
        b.rank(had);
    });
    let sent = program(Part::Sent, |b| {
        let (before, bytes) = (b.load(had), b.input(Input::Bytes));
        let after = b.add(before, bytes);
        b.store(had, after);
    });
    Algorithm {
        child: vec![Field::unsigned("had", 0).forgotten_after(Nanos::from_secs(10))],
        ..algorithm("las", Kind::Algorithm, [rank, sent])
    }
}
