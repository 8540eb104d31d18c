//! Circles between the modules of a crate: of two modules with one parent, only one may use the other, directly or through others.
//!
//! A module is a file with the folder of its parts, so parts may use what the file above them has, and the other way round. A path through
//! a re-export leads to the module that has the item.

use crate::mask::{Keep, mask, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// The path of a module from the root of its crate, which has none.
pub type Module = Vec<String>;

/// The modules that each module with the same parent uses.
pub type Uses = BTreeMap<String, BTreeSet<String>>;

/// The module of a file of `product/NAME/src` or `lab/NAME/src`.
pub fn module_of(path: &str) -> Option<Module> {
    let inside = path.split_once("/src/")?.1.strip_suffix(".rs")?;
    let mut parts: Module = inside.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    Some(parts)
}

/// The modules of a crate, with their code outside tests.
#[derive(Debug, Default)]
pub struct Modules {
    code: BTreeMap<Module, String>,
    /// By module and name: the child that has an item which the module re-exports or imports.
    taken: BTreeMap<Module, BTreeMap<String, Module>>,
}

impl Modules {
    /// Adds a file. Its source still has its tests.
    pub fn add(&mut self, path: &str, source: &str) {
        if let Some(module) = module_of(path) {
            let code = mask(&without_tests(source), Keep::Code);
            self.code.entry(module).or_default().push_str(&code);
        }
    }

    /// By parent: the uses among its children.
    pub fn uses(&mut self) -> BTreeMap<Module, Uses> {
        self.note_what_parents_take();
        let mut uses: BTreeMap<Module, Uses> = BTreeMap::new();
        for (module, code) in &self.code {
            for target in paths(code).iter().filter_map(|path| self.resolve(module, path)) {
                let same = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.get(same), target.get(same)) {
                    let children = uses.entry(module[..same].to_vec()).or_default();
                    children.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        uses
    }

    fn note_what_parents_take(&mut self) {
        for (module, code) in &self.code {
            for path in code.split("use ").skip(1).flat_map(|rest| tree(rest).0) {
                let path = path.strip_prefix(&["self".to_owned()]).unwrap_or(&path);
                let Some((first, name)) = path.first().zip(path.last()) else { continue };
                let child = [module.as_slice(), core::slice::from_ref(first)].concat();
                if self.code.contains_key(&child) {
                    self.taken.entry(module.clone()).or_default().insert(name.clone(), child);
                }
            }
        }
    }

    /// The module that a path in `module` leads to.
    fn resolve(&self, module: &[String], path: &[String]) -> Option<Module> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            _ => module[..module.len().checked_sub(1)?].to_vec(),
        };
        while let Some((name, after)) = rest.split_first() {
            let child = [at.as_slice(), core::slice::from_ref(name)].concat();
            if self.code.contains_key(&child) {
                at = child;
            } else if name == "super" {
                at.pop()?;
            } else if let Some(child) = self.taken.get(&at).and_then(|names| names.get(name)) {
                at.clone_from(child);
                continue;
            } else {
                break;
            }
            rest = after;
        }
        Some(at)
    }
}

/// The paths in masked code that begin with `crate`, `super` or `self`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("::") {
        let begin =
            code[..at].rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |before| before + 1);
        if ["crate", "super", "self"].contains(&&code[begin..at]) && !code[..begin].ends_with(':') {
            found.extend(tree(&code[begin..]).0);
        }
    }
    found
}

/// The paths of the tree at the start of `text`, as in `a::{b, c::D}`, and its length.
fn tree(text: &str) -> (Vec<Vec<String>>, usize) {
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut at = name.len();
    let Some(after) = text[at..].strip_prefix("::") else { return (vec![vec![name]], at) };
    at += 2;
    let mut below = Vec::new();
    if let Some(group) = after.strip_prefix('{') {
        at += 1;
        let mut member = 0;
        loop {
            let skipped = group[member..].len() - group[member..].trim_start_matches([',', ' ', '\n']).len();
            member += skipped;
            if member >= group.len() || group[member..].starts_with('}') {
                break;
            }
            let (paths, length) = tree(&group[member..]);
            below.extend(paths);
            // `as NAME` and `*` lead nowhere else.
            member += length;
            member += group[member..].find([',', '}']).unwrap_or(group.len() - member);
        }
        at += (member + 1).min(group.len());
    } else if after.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        let (paths, length) = tree(after);
        below = paths;
        at += length;
    }
    let path = |rest: Vec<String>| [vec![name.clone()], rest].concat();
    if below.is_empty() { (vec![vec![name]], at) } else { (below.into_iter().map(path).collect(), at) }
}

/// The groups of modules that reach each other.
pub fn circles(uses: &Uses) -> Vec<BTreeSet<String>> {
    let reached = |start: &String| {
        let (mut found, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(module) = open.pop() {
            open.extend(uses.get(module).into_iter().flatten().filter(|next| found.insert((*next).clone())));
        }
        found
    };
    let from: BTreeMap<&String, BTreeSet<String>> =
        uses.keys().map(|module| (module, reached(module))).collect();
    let circle = |(module, reached): (&&String, &BTreeSet<String>)| {
        let back = |other: &&String| from.get(*other).is_some_and(|of| of.contains(*module));
        reached.contains(*module).then(|| reached.iter().filter(back).cloned().collect())
    };
    let groups: BTreeSet<BTreeSet<String>> = from.iter().filter_map(circle).collect();
    groups.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn uses(files: &[(&str, &str)]) -> BTreeMap<Module, Uses> {
        let mut modules = Modules::default();
        files.iter().for_each(|(path, source)| modules.add(&format!("product/x/src/{path}"), source));
        modules.uses()
    }

    #[test]
    fn files_are_modules() {
        let module = |path| module_of(path).map(|parts| parts.join("::"));
        assert_eq!(module("product/a/src/b/c.rs").as_deref(), Some("b::c"));
        assert_eq!(module("product/a/src/b/mod.rs").as_deref(), Some("b"));
        assert_eq!(module("product/a/src/lib.rs").as_deref(), Some(""));
        assert_eq!(module("product/a/build.rs"), None);
    }

    #[test]
    fn paths_and_groups_lead_to_modules() {
        let source = "use crate::{b::{X, c::Y as Z}, d};\nuse crate::e::*;\n// crate::no\nfn f() { crate::g::h::<u8>(); super::no::i() }\n\
                      #[cfg(test)]\nmod tests { use crate::no; }\n";
        let others = ["b", "b/c", "d", "e", "g", "no"].map(|name| (format!("{name}.rs"), ""));
        let files = others.iter().map(|(path, source)| (path.as_str(), *source)).chain([("a.rs", source)]);
        let found = uses(&files.collect::<Vec<_>>());
        assert_eq!(found[&Vec::new()]["a"], set(&["b", "d", "e", "g", "no"]));
    }

    #[test]
    fn a_re_export_leads_to_the_module_that_has_the_item() {
        let found = uses(&[("lib.rs", "pub use a::A;\nmod a;"), ("a.rs", ""), ("b.rs", "use crate::A;")]);
        assert_eq!(found[&Vec::new()]["b"], set(&["a"]));
    }

    #[test]
    fn parts_are_compared_with_parts_of_the_same_module() {
        let found = uses(&[
            ("a/mod.rs", "fn f() { self::b::g() }"),
            ("a/b.rs", "use super::c::C;\nuse super::f;"),
            ("a/c.rs", "use crate::d::D;"),
            ("d.rs", ""),
        ]);
        assert_eq!(found[&vec!["a".to_owned()]]["b"], set(&["c"]));
        assert_eq!(found[&Vec::new()], Uses::from([("a".to_owned(), set(&["d"]))]));
    }

    #[test]
    fn a_circle_is_found_once() {
        let uses = |pairs: &[(&str, &[&str])]| -> Uses {
            pairs.iter().map(|(from, to)| ((*from).to_owned(), set(to))).collect()
        };
        assert!(circles(&uses(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])).is_empty());
        let found = circles(&uses(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a"])]));
        assert_eq!(found, [set(&["a", "b", "c"])]);
    }
}
