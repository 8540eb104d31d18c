//! The weights of flows, from a file that assigns them to cgroups, marks and classes of a policy.
//!
//! ```toml
//! default = 1                 # for flows that no entry matches
//! policy = "tenants.weft"     # the policy of the classes; relative to this file
//!
//! [[flow]]
//! cgroup = "/tenants/gold"    # in it or below it; from the root of the cgroup2 hierarchy
//! weight = 4
//!
//! [[flow]]
//! mark = "0x10/0xff"          # the socket buffer's mark, under the mask
//! weight = 2
//!
//! [[flow]]
//! class = "backup"            # a class of the policy
//! weight = 1
//! ```
//!
//! The first matching entry with a cgroup or mark applies, in the order of the file. Other flows are classified by the
//! policy, if classes are named, and have the weight of their class.
//!
//! A policy alone is a file of weights, too: the weight of a flow is that of its class in the tree ([`weigh`]).

use crate::host_users::host_users;
use serde::Deserialize;
use std::io::Read;
use std::path::Path;
use toml::Spanned;
use weft_host::{Cgroup, Hierarchy};
use weft_packet::{Attribute, Match};
use weft_policy::{
    Compilation, CompileOptions, CompiledPolicy, ROWS_MAX, Source, TenantFiles, Weighed, compile_with,
    is_policy, weigh,
};
use weft_text::{LocatedError, ParseError, Span, hint, quoted};
use weft_units::Weight;

/// The largest weight of a flow. A queue's weight is a sum of up to 262,144 of them, for which the page has 44 bits; a
/// row of the match table has 16 bits.
pub const LARGEST: u32 = u16::MAX as u32;

/// Errors in a file of weights.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WeightsError {
    /// A file could not be read.
    #[error("cannot read {file}: {reason}")]
    Read {
        /// The file.
        file: String,
        /// The system's error.
        reason: String,
    },
    /// The file of weights is invalid.
    #[error(transparent)]
    At(#[from] LocatedError),
    /// The policy does not compile.
    #[error("{0}")]
    Policy(String),
}

/// The flows that a row matches, and their weight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WeightRow {
    /// The condition on packets.
    pub matcher: Match,
    /// The weight of its flow, at most [`LARGEST`].
    pub weight: Weight,
}

/// The weights as rows of a match table. The last row matches everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WeightTable {
    /// The rows, in order.
    pub rows: Vec<WeightRow>,
    /// The cgroups named by the rows, as paths below the root of the hierarchy.
    pub cgroups: Vec<String>,
    /// The parts of a policy that weights do not express, one line each.
    pub lost: Vec<String>,
}

impl Default for WeightTable {
    fn default() -> Self {
        let rows = vec![WeightRow { matcher: Match::default(), weight: Weight::ONE }];
        Self { rows, cgroups: Vec::new(), lost: Vec::new() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    default: Option<Spanned<i64>>,
    policy: Option<Spanned<String>>,
    #[serde(default)]
    flow: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    cgroup: Option<Spanned<String>>,
    mark: Option<Spanned<String>>,
    class: Option<Spanned<String>>,
    weight: Spanned<i64>,
}

fn weight(given: &Spanned<i64>) -> Result<Weight, ParseError> {
    let value = *given.as_ref();
    let fits = u32::try_from(value).ok().filter(|weight| *weight <= LARGEST).and_then(Weight::new);
    fits.ok_or_else(|| {
        ParseError::new(given.span(), format!("a weight is a number from 1 to {LARGEST}, not {value}"), "")
    })
}

fn mark(given: &Spanned<String>) -> Result<(u32, u32), ParseError> {
    let text = given.as_ref();
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    match (number(value), number(mask)) {
        (Some(value), Some(mask)) if value & !mask == 0 => Ok((value, mask)),
        (Some(_), Some(_)) => {
            let what = format!("the mark {} has bits outside its mask and would never match", quoted(text));
            Err(ParseError::new(given.span(), what, ""))
        }
        _ => {
            let hint = "write a number or VALUE/MASK, such as \"0x10/0xff\"";
            Err(ParseError::new(given.span(), format!("{} is not a mark", quoted(text)), hint))
        }
    }
}

fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The maximum size of a file of weights or of its policy: far more than the rows of a match table need.
const LARGEST_FILE: u64 = 1 << 20;

/// Reads a file up to its maximum size.
fn read_at_most(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(LARGEST_FILE + 1).read_to_string(&mut text)?;
    if read as u64 > LARGEST_FILE {
        return Err(std::io::Error::other(format!("it has more than {LARGEST_FILE} bytes")));
    }
    Ok(text)
}

impl WeightTable {
    /// Reads the file at `path`: a policy, or a file of weights with the policy that it names. The name or the text says which it is;
    /// `files` has the files of the policy's tenants.
    ///
    /// # Errors
    /// When a file cannot be read or is invalid, with line and column.
    pub fn load(path: &Path, files: &dyn TenantFiles) -> Result<Self, WeightsError> {
        let read = |path: &Path| {
            read_at_most(path)
                .map_err(|e| WeightsError::Read { file: path.display().to_string(), reason: e.to_string() })
        };
        let text = read(path)?;
        let name = path.display().to_string();
        if is_policy(&name, &text) {
            return Self::of_policy(Source { name: &name, text: &text }, files);
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::read(&text, &name, |policy| {
            let path = folder.join(policy);
            compiled(Source { name: &path.display().to_string(), text: &read(&path)? }, files)
        })
    }

    /// The weights of a policy's classes.
    ///
    /// # Errors
    /// When the policy is refused, or Titan cannot match one of its classes.
    pub fn of_policy(source: Source<'_>, files: &dyn TenantFiles) -> Result<Self, WeightsError> {
        let (weighed, compilation) =
            weigh(source, files, &options(), Weight::new(LARGEST).unwrap_or(Weight::ONE));
        let Some(Weighed { policy, weights, lost }) = weighed else { return Err(refused(&compilation)) };
        let weight =
            |rule: &weft_policy::Rule| weights.get(rule.class.index()).copied().unwrap_or(Weight::ONE);
        let rows =
            policy.rules.iter().map(|rule| WeightRow { matcher: rule.matcher.clone(), weight: weight(rule) });
        Ok(Self { rows: rows.collect(), cgroups: policy.cgroups.clone(), lost })
    }

    /// The cgroups that are named and do not exist. Their weights take effect when they have been created and queue
    /// assignment is attached again.
    pub fn missing_cgroups(&self) -> impl Iterator<Item = &str> {
        self.cgroups.iter().map(String::as_str).filter(|path| find_cgroup(path).is_none())
    }

    /// Reads a text with the file name `file`; `policy` returns the policy at a path.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn read(
        text: &str,
        file: &str,
        policy: impl FnOnce(&str) -> Result<CompiledPolicy, WeightsError>,
    ) -> Result<Self, WeightsError> {
        let here = |error: ParseError| error.locate(file, text);
        let document: Document = toml::from_str(text).map_err(|e| {
            let what = e.message().lines().collect::<Vec<_>>().join(" ");
            here(ParseError::new(e.span().unwrap_or(0..0), what, ""))
        })?;
        let default = document.default.as_ref().map_or(Ok(Weight::ONE), weight).map_err(here)?;
        let mut table = Self { rows: Vec::new(), cgroups: Vec::new(), lost: Vec::new() };
        let mut classes = Vec::new();
        for entry in &document.flow {
            table.entry(entry, &mut classes).map_err(here)?;
        }
        match (&document.policy, classes.first()) {
            (Some(path), _) => {
                let policy = policy(path.as_ref())?;
                table.policy(path.span().into(), &policy, &classes, default).map_err(here)?;
            }
            (None, Some((class, _))) => {
                let what = "a class needs `policy = \"FILE\"`, which defines it";
                return Err(here(ParseError::new(class.span(), what, "")).into());
            }
            (None, None) => table.rows.push(WeightRow { matcher: Match::default(), weight: default }),
        }
        Ok(table)
    }

    fn entry(
        &mut self,
        entry: &Spanned<Entry>,
        classes: &mut Vec<(Spanned<String>, Weight)>,
    ) -> Result<(), ParseError> {
        let place = entry.span();
        let entry = entry.as_ref();
        let weight = weight(&entry.weight)?;
        if let Some(class) = &entry.class {
            if entry.cgroup.is_some() || entry.mark.is_some() {
                return Err(ParseError::new(
                    class.span(),
                    "a class cannot be combined with a cgroup or mark",
                    "",
                ));
            }
            if classes.iter().any(|(other, _)| other.as_ref() == class.as_ref()) {
                let what = format!("class {} has a weight already", quoted(class.as_ref()));
                return Err(ParseError::new(class.span(), what, "keep one of them"));
            }
            classes.push((class.clone(), weight));
            return Ok(());
        }
        let mut matcher = Match::default();
        if let Some(path) = &entry.cgroup {
            matcher.cgroup = Some(self.cgroup(path.as_ref()).ok_or_else(|| too_many(path.span().into()))?);
        }
        if let Some(mark) = &entry.mark {
            matcher.mark = Some(self::mark(mark)?);
        }
        if matcher == Match::default() {
            return Err(ParseError::new(place, "give a cgroup, mark or class for this weight", ""));
        }
        self.rows.push(WeightRow { matcher, weight });
        Ok(())
    }

    /// The number of a cgroup; `None` when there are too many.
    fn cgroup(&mut self, path: &str) -> Option<u8> {
        let known = self.cgroups.iter().position(|other| other == path);
        let number = known.unwrap_or_else(|| {
            self.cgroups.push(path.to_owned());
            self.cgroups.len() - 1
        });
        u8::try_from(number).ok().filter(|number| usize::from(*number) < crate::match_table::CGROUPS)
    }

    fn policy(
        &mut self,
        place: Span,
        policy: &CompiledPolicy,
        classes: &[(Spanned<String>, Weight)],
        default: Weight,
    ) -> Result<(), ParseError> {
        for (class, _) in classes {
            if !policy.classes.iter().any(|known| known.name == *class.as_ref()) {
                let names: Vec<&str> = policy.classes.iter().map(|known| known.name.as_str()).collect();
                let what = format!("the policy has no class {}", quoted(class.as_ref()));
                return Err(ParseError::new(class.span(), what, hint(class.as_ref(), &names, &[])));
            }
        }
        if policy.tests(Attribute::Process) {
            let what = "the policy tests the process that made a socket, which Titan does not note";
            return Err(ParseError::new(
                place,
                what,
                "test the cgroup in which the process runs, or its user",
            ));
        }
        for rule in &policy.rules {
            let name = policy.classes.get(rule.class.index()).map(|class| &class.name);
            let weight =
                classes.iter().find(|(class, _)| Some(class.as_ref()) == name).map(|(_, weight)| *weight);
            let mut matcher = rule.matcher.clone();
            if let Some(number) = matcher.cgroup {
                let path = policy.cgroups.get(usize::from(number)).cloned().unwrap_or_default();
                matcher.cgroup = Some(self.cgroup(&path).ok_or_else(|| too_many(place))?);
            }
            self.rows.push(WeightRow { matcher, weight: weight.unwrap_or(default) });
        }
        if self.rows.len() > ROWS_MAX {
            let most = ROWS_MAX;
            let what = format!("{} rows of the match table are needed, but it has {most}", self.rows.len());
            return Err(ParseError::new(place, what, ""));
        }
        Ok(())
    }
}

fn too_many(place: Span) -> ParseError {
    ParseError::new(place, format!("more than {} cgroups are named", crate::match_table::CGROUPS), "")
}

/// The options of a compilation with this host's users.
fn options() -> CompileOptions {
    CompileOptions { users: host_users(), ..CompileOptions::default() }
}

/// The error of a refused policy: its diagnostics, one per line.
fn refused(compilation: &Compilation) -> WeightsError {
    let lines: Vec<String> = compilation.diagnostics.iter().map(|found| found.one_line()).collect();
    WeightsError::Policy(lines.join("\n"))
}

/// Compiles the policy that a file of weights names.
fn compiled(source: Source<'_>, files: &dyn TenantFiles) -> Result<CompiledPolicy, WeightsError> {
    let compilation = compile_with(source, files, &options());
    let refused = refused(&compilation);
    compilation.policy.ok_or(refused)
}

/// The cgroup at a path below the hierarchy's root, if it exists.
pub(crate) fn find_cgroup(path: &str) -> Option<Cgroup> {
    Hierarchy::detect().and_then(|hierarchy| hierarchy.open(path.trim_start_matches('/'))).ok()
}

/// Reads any bytes as a file of weights, for fuzzers. The policy, if named, has the classes web and rest. The result
/// must be weights of at least 1, or an error of one line, with or without a hint, that names the file.
#[doc(hidden)]
pub fn fuzz_weights(data: &[u8]) {
    use weft_policy::NoFiles;
    const POLICY: &str = "class web = tcp and port 80\nclass rest = tcp\nroot = wfq { web: 1, rest: 1 }\n";
    let Ok(text) = core::str::from_utf8(data) else { return };
    match WeightTable::read(text, "fuzz", |_| compiled(Source { name: "p.weft", text: POLICY }, &NoFiles)) {
        Ok(table) => {
            assert!(table.rows.iter().all(|row| row.weight.get() > 0), "{text:?}");
            let last = table.rows.last().map(|row| row.matcher.matches(&weft_units::PacketMeta::default()));
            assert_eq!(last, Some(true), "every packet has a weight: {text:?}");
        }
        Err(error) => {
            let shown = error.to_string();
            assert!(shown.lines().count() <= 2 && shown.starts_with("fuzz:"), "{text:?}: {shown:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_policy::NoFiles;
    use weft_units::PacketMeta;

    const POLICY: &str = "class web = tcp and port 80\nclass rest = tcp\nroot = wfq { web: 1, rest: 1 }\n";

    proptest! {
        #[test]
        fn no_file_breaks_the_reader(
            keys in prop::collection::vec(
                (
                    prop::sample::select(vec!["[[flow]]", "[flow]", "default", "policy", "weight", "mark", "class", "cgroup", ""]),
                    prop_oneof![
                        prop::sample::select(vec![
                            "1", "0", "65535", "-1", "\"p\"", "\"web\"", "\"rest\"", "\"0x1/0x1\"", "\"/a\"",
                            "\"a\\nb\"", "\"..\"", "[]", "\"0x100000000\"",
                        ]).prop_map(str::to_owned),
                        ".{0,8}",
                    ],
                ),
                0..12,
            ),
            raw in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let line = |(key, value): &(&str, String)| {
                if key.starts_with('[') { (*key).to_owned() } else { format!("{key} = {value}") }
            };
            fuzz_weights(keys.iter().map(line).collect::<Vec<_>>().join("\n").as_bytes());
            fuzz_weights(&raw);
        }
    }

    fn read(text: &str) -> Result<WeightTable, WeightsError> {
        WeightTable::read(text, "w.toml", |_| compiled(Source { name: "p.weft", text: POLICY }, &NoFiles))
    }

    fn weight(table: &WeightTable, meta: &PacketMeta) -> u32 {
        table.rows.iter().find(|row| row.matcher.matches(meta)).map_or(0, |row| row.weight.get())
    }

    #[test]
    fn the_first_entry_that_fits_decides() {
        let table = read(
            "default = 3\n[[flow]]\nmark = \"0x10/0xf0\"\nweight = 2\n[[flow]]\ncgroup = \"/a\"\nweight = 7\n\
             [[flow]]\nmark = \"16\"\nweight = 9\n",
        )
        .expect("a table");
        assert_eq!(weight(&table, &PacketMeta { mark: 0x13, ..PacketMeta::default() }), 2);
        assert_eq!(weight(&table, &PacketMeta { mark: 16, cgroups: 1, ..PacketMeta::default() }), 2);
        assert_eq!(weight(&table, &PacketMeta { cgroups: 1, ..PacketMeta::default() }), 7);
        assert_eq!(weight(&table, &PacketMeta::default()), 3);
        assert_eq!(table.cgroups, ["/a"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let cases = [
            ("default = 0\n", "w.toml:1:11: error: a weight is a number from 1 to 65535, not 0"),
            ("[[flow]]\nweight = 2\n", "give a cgroup, mark or class for this weight"),
            (
                "[[flow]]\nmark = \"0x1g\"\nweight = 2\n",
                "w.toml:2:8: error: `0x1g` is not a mark\n  hint: write a number",
            ),
            ("[[flow]]\nmark = \"0x100/0xff\"\nweight = 2\n", "bits outside its mask"),
            ("[[flow]]\nclass = \"a\"\nweight = 2\n", "w.toml:2:9: error: a class needs `policy"),
            (
                "[[flow]]\nclass = \"a\"\nmark = \"1\"\nweight = 2\n",
                "cannot be combined with a cgroup or mark",
            ),
            (
                "policy = \"p\"\n[[flow]]\nclass = \"nobody\"\nweight = 2\n",
                "no class `nobody`\n  hint: there are: web, rest, default",
            ),
            ("[[flow]]\ncgrp = \"a\"\nweight = 2\n", "unknown field `cgrp`"),
            ("weights", "w.toml:1:"),
        ];
        for (text, expected) in cases {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(error.lines().count() <= 2, "{error}");
        }
    }

    #[test]
    fn a_policys_classes_have_weights_and_its_order_holds() {
        let text = "policy = \"p\"\n[[flow]]\nclass = \"rest\"\nweight = 5\n";
        let table = WeightTable::read(text, "w.toml", |_| {
            compiled(Source { name: "p.weft", text: POLICY }, &NoFiles)
        })
        .expect("a table");
        let meta = |dport| PacketMeta {
            key: Some(weft_units::FlowKey {
                src: "10.0.0.1".parse().expect("address"),
                dst: "10.0.0.2".parse().expect("address"),
                sport: 1,
                dport,
                protocol: weft_units::Protocol::TCP,
            }),
            ..PacketMeta::default()
        };
        assert_eq!(weight(&table, &meta(81)), 5);
        assert_eq!(
            weight(&table, &meta(80)),
            1,
            "the policy gives port 80 to another class, of the default weight"
        );
    }

    #[test]
    fn a_policy_is_a_file_of_weights() {
        let text = "class a = mark 1\nclass b = cgroup \"/b\"\nroot = wfq { a: 2, x: 6 }\nx = wfq { b: 1, default: 1 }\n";
        let table = WeightTable::of_policy(Source { name: "p", text }, &NoFiles).expect("a table");
        let marked = |mark| PacketMeta { mark, ..PacketMeta::default() };
        assert_eq!((weight(&table, &marked(1)), weight(&table, &marked(2))), (2, 3));
        assert_eq!(weight(&table, &PacketMeta { cgroups: 1, ..marked(0) }), 3);
        assert_eq!((table.cgroups, table.lost.len()), (vec!["/b".to_owned()], 0));
        let relative = "class b = cgroup \"b\"\nroot = b\n";
        let error =
            WeightTable::of_policy(Source { name: "p", text: relative }, &NoFiles).expect_err("refused");
        assert!(error.to_string().starts_with("p:1:11: error[E0704]"), "{error}");
    }

    #[test]
    fn a_policy_that_tests_processes_is_refused_beside_weights_too() {
        let text = "policy = \"p.weft\"\n[[flow]]\nclass = \"b\"\nweight = 2\n";
        let policy = "class a = process \"nginx\"\nclass b = tcp\nroot = fifo { a, b }\n";
        let error = WeightTable::read(text, "w", |_| compiled(Source { name: "p", text: policy }, &NoFiles));
        let error = error.expect_err("refused").to_string();
        assert!(error.starts_with("w:1:10: ") && error.contains("the process that made a socket"), "{error}");
    }

    #[test]
    fn a_file_without_end_is_read_to_its_limit() {
        let error = WeightTable::load(Path::new("/dev/zero"), &NoFiles).expect_err("too long").to_string();
        assert!(error.contains("/dev/zero") && error.contains("more than 1048576 bytes"), "{error}");
    }
}
