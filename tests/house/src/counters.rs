//! The counters of packets, which are declared in one file: no other spells their names, or has fields for three of them.

use crate::Finding;
use crate::literals::without_tests_but_strings;
use crate::mask::{Keep, end_of_item, mask, words};
use crate::types::Declared;
use std::collections::BTreeSet;

/// The fewest fields with names of counters that make a struct a table of counters.
const FIELDS_MIN: usize = 3;

/// The types of numbers in a table of counters.
const NUMBERS: [&str; 8] = ["u16", "u32", "u64", "u128", "usize", "i64", "AtomicU64", "Packets"];

/// The names in the tables that the source declares by `counters! { TABLE { NAME, … } }`.
pub fn names(source: &str) -> BTreeSet<String> {
    let code = mask(source, Keep::Code);
    let tables = code.match_indices("counters! {").filter(|(at, _)| !code[..*at].ends_with("macro_rules! "));
    let of = |(at, start): (usize, &str)| {
        let inside = &code[at + start.len()..end_of_item(&code, at)];
        inside.split_once('{').map(|(_, rows)| words(rows)).unwrap_or_default()
    };
    tables.flat_map(of).map(str::to_owned).collect()
}

/// The names of counters that the source spells as texts, outside comments and tests.
pub fn spelled(source: &str, names: &BTreeSet<String>) -> Vec<(String, Finding)> {
    let code = without_tests_but_strings(source);
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        for name in names.iter().filter(|name| line.contains(&format!("\"{name}\""))) {
            let what = format!("\"{name}\": take the name of a counter from its table");
            found.push((name.clone(), Finding::at(index + 1, what)));
        }
    }
    found
}

/// Whether a struct counts what the tables count.
pub fn is_table(one: &Declared, names: &BTreeSet<String>) -> bool {
    let counts = |(name, of): &&(String, String)| {
        names.contains(name) && NUMBERS.contains(&of.rsplit("::").next().unwrap_or(of))
    };
    one.fields.iter().filter(counts).count() >= FIELDS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::declared;

    const TABLES: &str = "macro_rules! counters { ($name:ident) => {}; }\n\
                          counters! {\n    /// Drops.\n    Drops {\n        /// Full, or late.\n        full,\n        late,\n    }\n}\n\
                          counters! { Events { stray, } }\nlet other = 1;";

    fn is_table_of(fields: &str) -> bool {
        declared("lab/a/src/b.rs", &format!("struct Mine {{ {fields} }}"), &BTreeSet::new())
            .iter()
            .any(|one| is_table(one, &names(TABLES)))
    }

    #[test]
    fn names_are_those_of_the_tables() {
        assert_eq!(names(TABLES).into_iter().collect::<Vec<_>>(), ["full", "late", "stray"]);
    }

    #[test]
    fn a_spelled_name_is_found() {
        let source = "//! \"full\"\nlet a = \"fuller\";\nlet b = [\"full\", \"stray\"];\n#[cfg(test)]\nmod tests { const A: &str = \"late\"; }";
        let found = spelled(source, &names(TABLES));
        assert_eq!(
            found.iter().map(|(name, f)| (name.as_str(), f.line)).collect::<Vec<_>>(),
            [("full", 3), ("stray", 3)]
        );
    }

    #[test]
    fn a_second_table_is_found() {
        assert!(is_table_of("full: u64, other: String, pub late: Packets, stray: std::sync::AtomicU64"));
        assert!(!is_table_of("full: u64, late: u64, other: u64"), "two");
        assert!(!is_table_of("full: String, late: u64, stray: bool"), "no numbers");
    }
}
