//! Circles between the modules of a crate: of two top-level modules, only one may use the other, directly or indirectly.

use crate::mask::{Keep, mask, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// The top-level modules that each top-level module of a crate uses.
pub type Uses = BTreeMap<String, BTreeSet<String>>;

/// The top-level module of a file of `product/NAME/src` or `lab/NAME/src`; `None` for the crate's root.
pub fn module_of(path: &str) -> Option<&str> {
    let inside = path.split_once("/src/")?.1;
    let first = inside.split('/').next()?.trim_end_matches(".rs");
    (first != "lib" && first != "main").then_some(first)
}

/// The top-level modules that `source` names after `crate::`, outside its tests. Names that are not in `known` are skipped.
pub fn used(source: &str, known: &BTreeSet<String>) -> BTreeSet<String> {
    let code = mask(&without_tests(source), Keep::Code);
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let names = match rest.strip_prefix('{') {
            Some(group) => first_names(group),
            None => vec![word(rest)],
        };
        found.extend(names.into_iter().filter(|name| known.contains(*name)).map(str::to_owned));
    }
    found
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The first word of each member of a group.
fn first_names(group: &str) -> Vec<&str> {
    let (mut depth, mut names, mut begin) = (0_usize, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(word(group[begin..at].trim_start()));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(word(group[begin..at].trim_start()));
                begin = at + 1;
            }
            _ => {}
        }
    }
    names
}

/// A circle for each module that reaches itself, as the shortest path back.
pub fn circles(uses: &Uses) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for start in uses.keys() {
        let mut ways = vec![vec![start.clone()]];
        let mut seen = BTreeSet::new();
        while !ways.is_empty() {
            let mut longer = Vec::new();
            for way in &ways {
                for next in uses.get(&way[way.len() - 1]).into_iter().flatten() {
                    if next == start {
                        // Each circle is reported once, from the first of its modules.
                        if way.iter().min() == Some(start) {
                            found.push(way.clone());
                        }
                        longer.clear();
                        seen.extend(uses.keys().cloned());
                    } else if seen.insert(next.clone()) {
                        longer.push([way.as_slice(), core::slice::from_ref(next)].concat());
                    }
                }
            }
            ways = longer;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn modules_and_their_uses_are_found() {
        assert_eq!(module_of("product/a/src/b/c.rs"), Some("b"));
        assert_eq!(module_of("product/a/src/b.rs"), Some("b"));
        assert_eq!(module_of("product/a/src/lib.rs"), None);
        let source = "use crate::{a::{x, b}, c};\nuse crate::d::E;\n// crate::no\nfn f() { crate::e::g() }\n\
                      #[cfg(test)]\nmod tests { use crate::f; }\n";
        assert_eq!(used(source, &set(&["a", "b", "c", "d", "e", "f", "no"])), set(&["a", "c", "d", "e"]));
    }

    #[test]
    fn a_circle_is_told_once() {
        let uses = |pairs: &[(&str, &[&str])]| -> Uses {
            pairs.iter().map(|(from, to)| ((*from).to_owned(), set(to))).collect()
        };
        assert!(circles(&uses(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])).is_empty());
        let found = circles(&uses(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a"])]));
        assert_eq!(found, [["a", "b", "c"]]);
    }
}
