//! Algorithms of one's own: their text, their programs, their price.

use weft_policy::algorithm::{shipped, shipped_algorithm};

#[test]
fn the_library_compiles() {
    let broken: Vec<&str> =
        shipped().iter().map(|s| s.name).filter(|name| shipped_algorithm(name).is_none()).collect();
    let found: Vec<String> = shipped()
        .iter()
        .filter(|s| broken.contains(&s.name))
        .flat_map(|s| {
            let text = format!("{}\nroot = default\n", s.text);
            crate::common::compiled(&text)
                .diagnostics
                .into_iter()
                .map(|d| format!("{}: {d}", s.name))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(broken.is_empty(), "{broken:?}\n{}", found.join("\n"));
}
