//! Marks against the claims of each packet.

use super::*;
use proptest::prelude::*;

fn asked(milliseconds: u64) -> Claims {
    Claims {
        asked: Some(Instant::from_millis(milliseconds)),
        left: Some(1000 * milliseconds),
        priority: Some(milliseconds),
        pace: Some(1 + milliseconds),
    }
}

const NOTHING: Claims = Claims { asked: None, left: None, priority: None, pace: None };

#[test]
fn claims_stay_with_their_packets() {
    let mut marks = ClaimMarks::default();
    assert_eq!((marks.next(0), marks.newest()), (NOTHING, NOTHING));
    marks.posted(1, NOTHING);
    marks.posted(3, asked(90));
    marks.posted(4, NOTHING);
    marks.posted(6, asked(40));
    let found: Vec<_> = [0, 1, 2, 3, 4, 5].map(|done| marks.clone().next(done)).into();
    assert_eq!(found, [NOTHING, asked(90), asked(90), NOTHING, asked(40), asked(40)]);
    assert_eq!(marks.newest(), asked(40));
    marks.posted(6, asked(30));
    assert_eq!(marks.newest(), asked(30), "claimed a moment after its packet was counted");
    marks.posted(7, NOTHING);
    assert_eq!(marks.newest(), NOTHING);
    marks.posted(7, asked(20));
    assert_eq!((marks.next(5), marks.next(6), marks.next(7)), (asked(30), asked(20), NOTHING));
    marks.posted(9, NOTHING);
    marks.posted(9, asked(10));
    assert_eq!(
        [7, 8, 9].map(|done| marks.clone().next(done)),
        [asked(10), asked(10), NOTHING],
        "either claimed late"
    );
}

proptest! {
    /// However many marks are joined, no packet has a later time than its sender requested, and with few marks each has its own.
    #[test]
    fn no_packet_has_a_later_time_than_it_asked_for(
        posts in prop::collection::vec((1..4_u64, prop::option::of(0..1000_u64)), 1..200),
        done in 0..100_usize,
    ) {
        let (mut marks, mut count, mut claims) = (ClaimMarks::default(), 0, Vec::new());
        for (packets, time) in &posts {
            count += packets;
            let of = time.map_or(NOTHING, asked);
            marks.posted(count, of);
            claims.extend((0..*packets).map(|_| of));
        }
        for (number, of) in claims.iter().enumerate().skip(done) {
            let known = marks.next(number as u64);
            prop_assert!(of.asked.is_none() || known.asked.is_some_and(|at| Some(at) <= of.asked), "{number}: {known:?}");
            prop_assert!(posts.len() > MARKS || known == *of, "{number}: {known:?} of {of:?}");
        }
    }
}
