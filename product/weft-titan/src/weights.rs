//! The weights of flows: a policy, in which the weight of a flow is that of its class in the tree ([`weigh`]).

use crate::host_users::host_users;
use std::io::Read;
use std::path::Path;
use weft_host::{Cgroup, Hierarchy};
use weft_packet::Match;
use weft_policy::{Compilation, CompileOptions, Source, TenantFiles, Weighed, weigh};
use weft_units::Weight;

/// The largest weight of a flow. A queue's weight is a sum of up to 262,144 of them, and the page has 44 bits for it;
/// a row of the match table has 16 bits.
pub const LARGEST: u32 = u16::MAX as u32;

/// Errors in weights.
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

/// The maximum size of a policy: far more than the rows of a match table need.
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
    /// Reads the policy at `path`; `files` has the files of its tenants.
    ///
    /// # Errors
    /// When a file cannot be read or is invalid, with line and column.
    pub fn load(path: &Path, files: &dyn TenantFiles) -> Result<Self, WeightsError> {
        let file = path.display().to_string();
        let text = read_at_most(path)
            .map_err(|e| WeightsError::Read { file: file.clone(), reason: e.to_string() })?;
        Self::of_policy(Source { name: &file, text: &text }, files)
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

/// The cgroup at a path below the hierarchy's root, if it exists.
pub(crate) fn find_cgroup(path: &str) -> Option<Cgroup> {
    Hierarchy::detect().and_then(|hierarchy| hierarchy.open(path.trim_start_matches('/'))).ok()
}

/// Reads any bytes as weights, for fuzzers. The result must be weights of at least 1, of which one is that of each packet, or an
/// error of lines that name the file.
#[doc(hidden)]
pub fn fuzz_weights(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    match WeightTable::of_policy(Source { name: "fuzz", text }, &weft_policy::NoFiles) {
        Ok(table) => {
            assert!(table.rows.iter().all(|row| (1..=LARGEST).contains(&row.weight.get())), "{text:?}");
            let last = table.rows.last().map(|row| row.matcher.matches(&weft_units::PacketMeta::default()));
            assert_eq!(last, Some(true), "every packet has a weight: {text:?}");
        }
        Err(error) => {
            assert!(error.to_string().lines().all(|line| line.starts_with("fuzz:")), "{text:?}: {error}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_policy::NoFiles;
    use weft_units::PacketMeta;

    proptest! {
        #[test]
        fn no_policy_breaks_the_weights(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "class a = mark 1\n", "class b = cgroup \"/b\"\n", "class b = tcp\n", "class c = process \"x\"\n", "root = ",
                    "x = ", "wfq { ", "priority { ", "limit 1mbps of ", "a", "b", "c", "x", "default", ": 1, ", ": 65535, ", ": 0.001, ",
                    " }\n", "\n",
                ]),
                0..24,
            ),
            raw in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            fuzz_weights(pieces.concat().as_bytes());
            fuzz_weights(&raw);
        }
    }

    fn weight(table: &WeightTable, meta: &PacketMeta) -> u32 {
        table.rows.iter().find(|row| row.matcher.matches(meta)).map_or(0, |row| row.weight.get())
    }

    #[test]
    fn a_class_has_its_part_of_the_tree() {
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
    fn a_file_without_end_is_read_to_its_limit() {
        let error = WeightTable::load(Path::new("/dev/zero"), &NoFiles).expect_err("too long").to_string();
        assert!(error.contains("/dev/zero") && error.contains("more than 1048576 bytes"), "{error}");
    }
}
