//! The types that sources declare: no two have one name, and no two structs have equal fields.

use crate::mask::{Keep, end_of_item, mask, members, starts_word, without_tests, word};
use std::collections::{BTreeMap, BTreeSet};

/// The fewest fields of structs that are compared.
const FIELDS_MIN: usize = 3;

/// A type that a source declares outside tests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declared {
    /// The file, as in `product/CRATE/src/lib.rs`.
    pub path: String,
    /// Its name.
    pub name: String,
    /// The modules around it, inside the source.
    pub modules: Vec<String>,
    /// Whether it has a plain `pub` and only modules around it.
    pub public: bool,
    /// The fields of a struct with their types, without blanks, sorted; of any other type none.
    pub fields: Vec<(String, String)>,
}

impl Declared {
    /// Its crate.
    pub fn of(&self) -> &str {
        crate_of(&self.path)
    }
}

/// The crate in whose folder a file is.
pub fn crate_of(path: &str) -> &str {
    path.split('/').nth(1).unwrap_or_default()
}

/// By name: the crates that have it, each as often as it does.
pub type Places = BTreeMap<String, Vec<String>>;

/// The part of a source between two braces.
#[derive(PartialEq, Eq)]
enum Scope {
    Module(String),
    /// Rules or arguments of a macro, or what a rule writes. Items in it count as if they stood around it.
    Macro,
    Other,
}

/// The code of a source, as the functions below take it.
pub fn code(source: &str) -> String {
    without_tests(&mask(source, Keep::Code))
}

/// The macros in code that write a public type with the name that comes first among their arguments.
pub fn macros(code: &str) -> BTreeSet<String> {
    let rules = code.match_indices("macro_rules! ").filter(|(at, _)| {
        let text = &code[*at..end_of_item(code, *at)];
        text.contains("pub struct $") || text.contains("pub enum $")
    });
    rules.map(|(at, start)| word(&code[at + start.len()..]).to_owned()).collect()
}

/// The types that the code of the file at `path` declares by itself or by one of `macros`.
pub fn declared(path: &str, code: &str, macros: &BTreeSet<String>) -> Vec<Declared> {
    let (mut found, mut open, mut begin) = (Vec::new(), Vec::new(), 0);
    for (at, c) in code.char_indices() {
        match c {
            '{' => open.push(scope(&code[begin..at], open.last())),
            '}' => drop(open.pop()),
            _ if c.is_alphabetic() && starts_word(code, at) => {
                let one = by_keyword(code, at, &open).or_else(|| by_macro(&code[at..], macros, &open));
                found.extend(one);
            }
            _ => {}
        }
        if matches!(c, '{' | '}' | ';') {
            begin = at + 1;
        }
    }
    found.iter_mut().for_each(|one: &mut Declared| path.clone_into(&mut one.path));
    found
}

fn scope(head: &str, around: Option<&Scope>) -> Scope {
    let words: Vec<&str> = head.split_whitespace().collect();
    match words[..] {
        [.., "macro_rules!", _] => Scope::Macro,
        [.., last] if last.ends_with('!') => Scope::Macro,
        [.., "=>"] if around == Some(&Scope::Macro) => Scope::Macro,
        [.., "mod", name] => Scope::Module(name.to_owned()),
        _ => Scope::Other,
    }
}

fn within(open: &[Scope], name: &str, public: bool, fields: Vec<(String, String)>) -> Declared {
    let module = |scope: &Scope| match scope {
        Scope::Module(name) => Some(name.clone()),
        _ => None,
    };
    let modules = open.iter().filter_map(module).collect();
    let path = String::new();
    Declared { path, name: name.to_owned(), modules, public: public && !open.contains(&Scope::Other), fields }
}

/// The type whose `struct`, `enum`, `trait` or `type` is at `at`.
fn by_keyword(code: &str, at: usize, open: &[Scope]) -> Option<Declared> {
    let keyword = word(&code[at..]);
    let rest = &code[at + keyword.len()..];
    let is_keyword = ["struct", "enum", "trait", "type"].contains(&keyword);
    let name = word(rest.trim_start());
    if !is_keyword || !rest.starts_with(char::is_whitespace) || name.is_empty() {
        return None;
    }
    let before = code[..at].trim_end().trim_end_matches("unsafe").trim_end();
    let public = before.strip_suffix("pub").is_some_and(|head| starts_word(code, head.len()));
    let fields = if keyword == "struct" { fields(rest.trim_start()) } else { Vec::new() };
    Some(within(open, name, public, fields))
}

/// The type that the call of a macro at the start of `code` declares.
fn by_macro(code: &str, macros: &BTreeSet<String>, open: &[Scope]) -> Option<Declared> {
    let call = word(code);
    let arguments = code[call.len()..].strip_prefix('!').filter(|_| macros.contains(call))?;
    let name = word(arguments.trim_start().get(1..)?.trim_start());
    (!name.is_empty()).then(|| within(open, name, true, Vec::new()))
}

/// The fields of the struct whose name is at the start of `code`.
fn fields(code: &str) -> Vec<(String, String)> {
    let mut rest = &code[word(code).len()..];
    if rest.starts_with('<') {
        rest = &rest[closed(rest)..];
    }
    let start = rest.find('{').filter(|_| !rest.trim_start().starts_with(['(', ';']));
    let field = |member: &str| {
        let mut member = member;
        while member.starts_with("#[") {
            member = member[1 + closed(&member[1..])..].trim_start();
        }
        let (name, of) = member.split_once(':')?;
        let name = name.split_whitespace().last()?;
        Some((name.to_owned(), of.split_whitespace().collect::<String>()))
    };
    let members = start.map(|start| members(&rest[start + 1..])).unwrap_or_default();
    let mut fields: Vec<_> = members.into_iter().filter_map(field).collect();
    fields.sort();
    fields
}

/// The end of the bracket at the start of `code`.
fn closed(code: &str) -> usize {
    let (mut depth, mut before) = (0_usize, ' ');
    for (at, c) in code.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if before == '-' || before == '=' => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + c.len_utf8();
        }
        before = c;
    }
    code.len()
}

/// By name: the crates that declare public types with it, each as often as it does, if there are two.
///
/// Alternatives in one module, of which a build has one, count once.
pub fn double_names(types: &[Declared]) -> Places {
    let mut places: BTreeMap<&str, BTreeSet<(&str, &[String])>> = BTreeMap::new();
    for one in types.iter().filter(|one| one.public) {
        places.entry(&one.name).or_default().insert((&one.path, &one.modules));
    }
    let mut found = Places::new();
    for (name, places) in places.into_iter().filter(|(_, places)| places.len() > 1) {
        let mut crates: Vec<String> = places.into_iter().map(|(path, _)| crate_of(path).to_owned()).collect();
        crates.sort();
        found.insert(name.to_owned(), crates);
    }
    found
}

/// By structs, as in `CRATE NAME = CRATE NAME`: the names of the fields, which are all fields of each.
pub fn equal_structs(types: &[Declared]) -> BTreeMap<String, String> {
    let mut by_fields: BTreeMap<&[(String, String)], Vec<String>> = BTreeMap::new();
    for one in types.iter().filter(|one| one.fields.len() >= FIELDS_MIN) {
        by_fields.entry(&one.fields).or_default().push(format!("{} {}", one.of(), one.name));
    }
    let mut found = BTreeMap::new();
    for (fields, mut structs) in by_fields.into_iter().filter(|(_, structs)| structs.len() > 1) {
        structs.sort();
        let fields: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        found.insert(structs.join(" = "), fields.join(", "));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(files: &[(&str, &str)]) -> Vec<Declared> {
        let code: Vec<_> = files.iter().map(|(path, source)| (format!("lab/{path}"), code(source))).collect();
        let macros = code.iter().flat_map(|(_, code)| macros(code)).collect();
        code.iter().flat_map(|(path, code)| declared(path, code, &macros)).collect()
    }

    fn names(source: &str) -> Vec<String> {
        all(&[("a/lib.rs", source)]).into_iter().filter(|one| one.public).map(|one| one.name).collect()
    }

    #[test]
    fn public_types_are_found_with_their_fields() {
        let source = "/// A.\n#[derive(Debug)]\npub struct A<F: Fn(u8) -> u8 = fn(u8) -> u8>\nwhere\n    F: Copy,\n{\n    \
                      /// X.\n    #[serde(a = \"}\", b)]\n    pub(crate) x: Map<\n        u8, F>,\n    y: [u8; 2],\n}\n";
        let found = all(&[("a/lib.rs", source)]);
        let pair = |name: &str, of: &str| (name.to_owned(), of.to_owned());
        assert_eq!(found[0].fields, [pair("x", "Map<u8,F>"), pair("y", "[u8;2]")]);
        assert_eq!(found.len(), 1);
        let rest = "pub enum B { C { d: u8 } }\npub unsafe trait D { type E; }\npub type F = u8;\npub struct G(u8);\npub struct H;";
        assert_eq!(names(rest), ["B", "D", "F", "G", "H"]);
        assert!(all(&[("a/lib.rs", rest)]).iter().all(|one| one.fields.is_empty()));
    }

    #[test]
    fn what_others_cannot_name_is_not_public() {
        let source = "struct A;\npub(crate) struct B;\nfn f() { pub struct C; }\nimpl D { type E = u8; }\n// pub struct F;\n\
                      #[cfg(test)]\nmod tests { pub struct G; }\nlet pub_struct = \"pub struct H;\";\npub mod i { pub struct J; }";
        assert_eq!(names(source), ["J"]);
    }

    #[test]
    fn macros_declare_types() {
        let source = "macro_rules! table {\n    ($name:ident { $x:ident }) => {\n        pub struct $name { $x: u8 }\n    };\n}\n\
                      table! { A { b } }\ncrate::table!(\n    /// C.\n    C { d }\n);\nother!(E);\n\
                      macro_rules! codes { () => { pub enum Code { } }; }";
        assert_eq!(names(source), ["A", "C", "Code"]);
    }

    #[test]
    fn a_double_name_is_found() {
        let files = [
            ("a/x.rs", "pub struct Run;\npub struct Walk;"),
            (
                "a/y.rs",
                "pub enum Run {}\n#[cfg(unix)]\npub struct Stop;\n#[cfg(not(unix))]\npub struct Stop;",
            ),
            ("b/x.rs", "pub type Run = u8;\nstruct Walk;"),
        ];
        let run = Places::from([("Run".to_owned(), ["a", "a", "b"].map(str::to_owned).to_vec())]);
        assert_eq!(double_names(&all(&files)), run);
        assert!(double_names(&all(&files[..1])).is_empty());
    }

    #[test]
    fn structs_with_equal_fields_are_found() {
        let source = "struct A { x: u8, y: u8, z: Vec<u8> }\npub struct B { pub z: Vec<u8>, pub x: u8, y: u8 }\n\
                      struct C { x: u16, y: u8, z: Vec<u8> }\nstruct D { x: u8, y: u8 }\nstruct E { x: u8, y: u8 }";
        let found = equal_structs(&all(&[("a/lib.rs", source)]));
        assert_eq!(found, BTreeMap::from([("a A = a B".to_owned(), "x, y, z".to_owned())]));
    }
}
