//! Perfetto traces, read by a decoder that is independent of the writer. `make test-traces` reads them with Perfetto's own messages.

use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_trace::gauge::TraceGauge;
use weft_trace::lanes::Lanes;
use weft_trace::perfetto::{ArrowNumber, Note, Perfetto, TraceEvent, TrackPlace};
use weft_trace::testing::read;
use weft_units::Nanos;

proptest! {
    /// Spans that overlap in any way, in the order of their ends, come back as they were.
    #[test]
    fn spans_flows_and_counters_come_back(
        spans in prop::collection::vec((0..500_u64, 0..60_u64, 0..9_u64, "[a-z\u{e9}]{0,12}", 0..400_u64), 1..200),
    ) {
        let mut trace = Perfetto::new(Vec::new());
        let top = trace.track(&TrackPlace { parent: None, rank: 0, name: "host 0" });
        let mut lanes = Lanes::new(&TrackPlace { parent: Some(top), rank: 1, name: "ring" });
        let mut gauge = TraceGauge::new(trace.bytes_counter(&TrackPlace { parent: Some(top), rank: 2, name: "backlog" }));
        let mut sorted = spans.clone();
        sorted.sort_by_key(|(from, length, ..)| from + length);
        let mut expected = Vec::new();
        for (from, length, flow, name, bytes) in &sorted {
            let notes = [("bytes", Note::Number(*bytes)), ("class", Note::Text(name))];
            let event = TraceEvent { name, flow: (*flow > 0).then_some(ArrowNumber(*flow)), notes: &notes[..(*flow % 3) as usize] };
            lanes.span(&mut trace, (Nanos(*from), Nanos(from + length)), &event);
            gauge.add(Nanos(*from), *bytes as i64);
            gauge.add(Nanos(from + length), -(*bytes as i64));
            gauge.settle(&mut trace, Nanos((from + length).saturating_sub(60)));
            expected.push((*from, from + length, name.clone(), event.flow.map(|flow| flow.0), event.notes.len()));
        }
        gauge.finish(&mut trace);
        prop_assert_eq!(gauge.kept(), 0);
        let seen = read(&trace.finish().expect("memory"));

        let mut found: Vec<_> = seen.spans.iter().map(|of| (of.times.0, of.times.1, of.name.clone(), of.flow, of.notes)).collect();
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
        // On a track no two spans overlap.
        let mut by_track: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        seen.spans.iter().for_each(|span| by_track.entry(span.track).or_default().push(span.times));
        prop_assert_eq!(by_track.len(), lanes.count());
        for spans in by_track.values_mut() {
            spans.sort_unstable();
            prop_assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
        }
        prop_assert!(seen.tracks.values().filter(|(name, parent, _)| name == "ring" && *parent == Some(1)).count() == lanes.count());
        // The counter is the sum of what lasts.
        for (at, value) in seen.counts.values().flatten() {
            let here = spans.iter().filter(|(from, length, ..)| from <= at && from + length > *at);
            prop_assert_eq!(here.map(|(.., bytes)| bytes).sum::<u64>(), *value);
        }
    }
}

#[test]
fn instants_and_long_traces() {
    let mut trace = Perfetto::new(Vec::new());
    let track = trace.track(&TrackPlace { parent: None, rank: 0, name: "wire" });
    let event = TraceEvent { name: "drop", flow: None, notes: &[] };
    (0..10_000).for_each(|at| trace.instant(track, Nanos(at), &event));
    trace.span(track, (Nanos(5), Nanos(3)), &event);
    let seen = read(&trace.finish().expect("memory"));
    assert_eq!((seen.instants, seen.spans.len()), (10_000, 1));
    assert_eq!(seen.spans[0].times, (5, 5), "a span does not end before it begins");
}

#[test]
fn the_first_error_is_kept() {
    let room = &mut [0; 1000][..];
    let mut trace = Perfetto::new(room);
    let track = trace.track(&TrackPlace { parent: None, rank: 0, name: "wire" });
    (0..10_000)
        .for_each(|at| trace.instant(track, Nanos(at), &TraceEvent { name: "drop", flow: None, notes: &[] }));
    assert!(trace.has_failed());
    assert!(trace.finish().is_err());
}
