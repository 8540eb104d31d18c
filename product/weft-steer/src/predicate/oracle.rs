//! Binary decision diagrams as an independent reference for predicates over few bits.

use super::Predicate;
use super::tests::{BITS, field_bit, some_headers, some_predicate};
use biodivine_lib_bdd::{Bdd, BddVariable, BddVariableSet};
use proptest::prelude::*;
use weft_packet::header_match::HeaderMatch;

/// Returns the diagram of a header match: each tested bit is a variable.
fn of_headers(headers: &HeaderMatch, set: &BddVariableSet, variables: &[BddVariable]) -> Bdd {
    variables.iter().enumerate().fold(set.mk_true(), |diagram, (index, variable)| {
        let (field, bit) = field_bit(index);
        let (value, mask) = headers.get(field);
        if mask & bit == 0 { diagram } else { diagram.and(&set.mk_literal(*variable, value & bit != 0)) }
    })
}

fn of_predicate(predicate: &Predicate, set: &BddVariableSet, variables: &[BddVariable]) -> Bdd {
    let of = |one: &Predicate| of_predicate(one, set, variables);
    match predicate {
        Predicate::Is(headers) => of_headers(headers, set, variables),
        Predicate::All(all) => all.iter().fold(set.mk_true(), |diagram, one| diagram.and(&of(one))),
        Predicate::Any(any) => any.iter().fold(set.mk_false(), |diagram, one| diagram.or(&of(one))),
        Predicate::Not(not) => of(not).not(),
    }
}

proptest! {
    #[test]
    fn what_passes_is_what_the_diagram_says(predicate in some_predicate(), within in some_headers()) {
        let set = BddVariableSet::new_anonymous(BITS as u16);
        let variables = set.variables();
        let inside = of_headers(&within, &set, &variables);
        let diagram = of_predicate(&predicate, &set, &variables);
        for (header_matches, expected) in [
            (predicate.of(&within), inside.and(&diagram)),
            (predicate.without(&within), inside.and_not(&diagram)),
        ] {
            let mut union = set.mk_false();
            for headers in &header_matches {
                let one = of_headers(headers, &set, &variables);
                prop_assert!(union.and(&one).is_false(), "{headers} is not disjoint from those before");
                union = union.or(&one);
            }
            prop_assert_eq!(header_matches.is_empty(), expected.is_false(), "satisfiable as the diagram is");
            prop_assert_eq!(&union, &expected);
        }
    }
}
