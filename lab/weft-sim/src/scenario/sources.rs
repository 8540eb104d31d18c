//! The sources of a file's values: its `[[source]]` entries (docs/scenario-files.md, "Sources").
//!
//! An entry names keys and has one of six kinds: `paper`, `kernel`, `datasheet`, `standard`, `fitted`, `assumed`. The longest
//! entry that is a prefix of a key covers it. Labels and names of the kernel's rules need no source.

use super::document::{SYNONYMS, parse, root};
use core::ops::Range;
use weft_text::toml::{TomlItem, TomlTable};
use weft_text::{LocatedError, ParseError, nearest, quoted};

/// The key of the entries.
pub(super) const SOURCE: &str = "source";
/// The table of a cost file with the measurements to which the costs were fitted. It changes no run; `weft profile predict` reads it.
pub(super) const FITTED: &str = "fitted";
/// The kinds, in the order of messages.
const KINDS: [&str; 6] = ["paper", "kernel", "datasheet", "standard", "fitted", "assumed"];
/// The further keys of an entry.
const BESIDE: [&str; 3] = ["keys", "candidates", "note"];
/// Labels, references, and keys whose words are names of the kernel's rules: they contain no number.
const LABELS: [&str; 13] = [
    "name",
    "seed",
    "class",
    "classes",
    "from",
    "to",
    "host",
    "tenant",
    "index",
    "costs",
    "also",
    "scenario",
    "congestion_control",
];
/// Tables that are too large for a single source.
const SECTIONS: [&str; 16] = [
    "network",
    "network.switch",
    "host",
    "host.stack",
    "host.nic",
    "hosts",
    "hosts.stack",
    "hosts.nic",
    "flows",
    "probes",
    "changes",
    "costs",
    "contention",
    "presets",
    "configurations",
    "in_preset",
];

/// The remedy for a key without a source.
const KEYS_HINT: &str = "name it in the `keys` of a [[source]] with `paper`, `kernel`, `datasheet`, `standard`, `fitted` or `assumed`";

/// A column of an experiment to which a value was fitted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FittedColumn {
    /// The experiment's id.
    pub experiment: String,
    /// Its column.
    pub column: String,
}

/// The source of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A paper or its authors' repository: its name, and section, table, figure or file.
    Paper(String),
    /// A function, file or option of the kernel.
    Kernel(String),
    /// A data sheet and its section.
    Datasheet(String),
    /// A standard, such as an RFC, with its number.
    Standard(String),
    /// The candidate value that fits published values best.
    Fitted {
        /// The columns to which it was fitted.
        to: Vec<FittedColumn>,
        /// The candidates as TOML. The first one is used if nothing can be fitted.
        candidates: Vec<String>,
    },
    /// A choice, with its reason.
    Assumed(String),
}

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceEntry {
    /// Keys with dots between them; elements of lists with or without their index.
    pub keys: Vec<String>,
    /// The source of their values.
    pub origin: Origin,
}

/// The kind of file with the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourcedFile {
    /// A scenario; the tables below `costs` have their own entries.
    Scenario,
    /// A cost file, or the tables below `costs`; zero costs need no source.
    Costs,
    /// Presets and configurations: settings that override a scenario.
    Parameters,
}

/// Reads the entries of a file, which must cover all of its keys.
///
/// # Errors
/// The first error, with its place: the text is not TOML, a key has no source, or an entry is invalid.
pub fn sources(text: &str, file: &str, kind: SourcedFile) -> Result<Vec<SourceEntry>, LocatedError> {
    let here = |error: ParseError| error.locate(file, text);
    let map = parse(text).map_err(here)?;
    check(&root(&map), text, kind).map_err(here)
}

/// Reads the entries of a parsed table.
pub(super) fn check(
    root: &TomlTable<'_>,
    text: &str,
    kind: SourcedFile,
) -> Result<Vec<SourceEntry>, ParseError> {
    let mut leaves = Vec::new();
    for (_, item) in root.entries() {
        let elsewhere = match kind {
            SourcedFile::Scenario => item.key == "costs",
            SourcedFile::Costs => item.key == FITTED,
            SourcedFile::Parameters => false,
        };
        let skipped = item.key == SOURCE || elsewhere;
        if !skipped {
            collect(&item, item.key.to_owned(), &mut leaves);
        }
    }
    let mut entries: Vec<(SourceEntry, Range<usize>)> = Vec::new();
    if let Some(item) = root.get(SOURCE) {
        for item in item.list("begin each with [[source]], its keys, and where they come from")? {
            let entry = entry(&item, text)?;
            let twice = |key: &String| entries.iter().any(|(before, _)| before.keys.contains(key));
            if let Some(key) = entry.keys.iter().find(|key| twice(key)) {
                let what = format!("{} has two sources", quoted(key));
                return Err(item.error(what, "leave it out of one of them"));
            }
            fits(&entry, &leaves, text, &item)?;
            entries.push((entry, item.span()));
        }
    }
    for leaf in leaves.iter().filter(|leaf| leaf.needs(kind)) {
        if !entries.iter().any(|(entry, _)| entry.keys.iter().any(|key| leaf.is_below(key))) {
            let what = format!("{} has no source", quoted(&leaf.path));
            return Err(ParseError::new(leaf.span.clone(), what, KEYS_HINT));
        }
    }
    Ok(entries.into_iter().map(|(entry, _)| entry).collect())
}

/// A value of the file that is not a table.
struct Leaf {
    path: String,
    span: Range<usize>,
    /// Its value, if it is a number.
    number: Option<f64>,
}

impl Leaf {
    /// Whether `key` is its path, or a table or choice above it, with or without list indices.
    fn is_below(&self, key: &str) -> bool {
        let below =
            |path: &str| path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        below(&self.path) || below(&without_indices(&self.path))
    }

    /// Whether it needs a source.
    fn needs(&self, kind: SourcedFile) -> bool {
        let name = self.path.rsplit('.').next().unwrap_or(&self.path);
        // A factor of 1 and a cost of 0 have no effect.
        let free = || {
            let nothing = if name.ends_with("factor") { 1.0 } else { 0.0 };
            kind == SourcedFile::Costs && self.number == Some(nothing)
        };
        let label = LABELS.contains(&name) && kind != SourcedFile::Costs;
        // The names of the bases of configurations.
        let also = self.path.contains(".also.");
        !(label || also || free())
    }
}

/// Returns a path without its list indices.
fn without_indices(path: &str) -> String {
    let index = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    path.split('.').filter(|part| !index(part)).collect::<Vec<_>>().join(".")
}

/// Collects the values at and below an item.
fn collect(item: &TomlItem<'_>, path: String, leaves: &mut Vec<Leaf>) {
    if let Some(table) = item.as_table("") {
        for (_, inner) in table.entries() {
            collect(&inner, format!("{path}.{}", inner.key), leaves);
        }
        return;
    }
    let items = item.as_list().unwrap_or_default();
    if items.iter().any(|inner| inner.as_table("").is_some()) {
        for (index, inner) in items.iter().enumerate() {
            collect(inner, format!("{path}.{index}"), leaves);
        }
        return;
    }
    let number = item.as_number().and_then(|text| text.parse().ok());
    leaves.push(Leaf { path, span: item.span(), number });
}

/// Reads an entry.
fn entry(item: &TomlItem<'_>, text: &str) -> Result<SourceEntry, ParseError> {
    let table = item.table("[[source]]")?;
    let known: Vec<&str> = KINDS.iter().chain(&BESIDE).copied().collect();
    table.refuse_unknown(&known)?;
    let keys = texts(table.get("keys"), "keys")?
        .ok_or_else(|| item.error("a source without `keys`", "write `keys = [\"host.stack.bql\"]`"))?;
    let kinds: Vec<TomlItem<'_>> = KINDS.iter().filter_map(|kind| table.get(kind)).collect();
    let [kind] = kinds[..] else {
        let what = format!("a source has one kind, not {}", kinds.len());
        return Err(item.error(what, format!("write one of: {}", KINDS.join(", "))));
    };
    let candidates = table.get("candidates");
    if let (Some(candidates), false) = (candidates, kind.key == "fitted") {
        return Err(candidates.error("`candidates` without `fitted`", "only what is fitted has candidates"));
    }
    let origin = match kind.key {
        "fitted" => fitted(&kind, candidates, &keys, text)?,
        _ => told(&kind)?,
    };
    Ok(SourceEntry { keys, origin })
}

/// Reads a list of texts that is not empty; `None` for a missing key.
fn texts(item: Option<TomlItem<'_>>, key: &str) -> Result<Option<Vec<String>>, ParseError> {
    let Some(item) = item else { return Ok(None) };
    let hint = format!("write `{key} = [\"...\"]`");
    let all: Vec<String> =
        item.list(&hint)?.iter().map(|item| item.text().map(str::to_owned)).collect::<Result<_, _>>()?;
    if all.is_empty() || all.iter().any(String::is_empty) {
        return Err(item.error(format!("`{key}` is empty"), hint));
    }
    Ok(Some(all))
}

/// Reads a textual kind: the text must identify a source.
fn told(item: &TomlItem<'_>) -> Result<Origin, ParseError> {
    let text = item.text()?;
    let digit = text.bytes().any(|b| b.is_ascii_digit());
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let (leads, example) = match item.key {
        "paper" => (
            has(&["ection", "Table ", "Figure ", "Algorithm ", "Appendix ", "/"]),
            "Titan TR, section 6\", with its section, table, figure, or a file of its repository",
        ),
        "kernel" => (
            has(&[".c", ".h", "()", "CONFIG_", "/", "sysctl"]) || text.contains('_'),
            "net/sched/sch_sfq.c, sfq_init\", with its function, file or option",
        ),
        "datasheet" => (digit, "Intel 82599, section 7.2\", with its device and section"),
        "standard" => (digit, "RFC 8312\", with its number"),
        _ => (text.split_whitespace().count() >= 3, "nobody says it; ...\", with the reason in words"),
    };
    if !leads {
        let what = format!("{} leads nowhere", quoted(text));
        return Err(item.error(what, format!("write `{} = \"{example}", item.key)));
    }
    let text = text.to_owned();
    Ok(match item.key {
        "paper" => Origin::Paper(text),
        "kernel" => Origin::Kernel(text),
        "datasheet" => Origin::Datasheet(text),
        "standard" => Origin::Standard(text),
        _ => Origin::Assumed(text),
    })
}

/// Reads a fitted source: columns of experiments, and the candidates.
fn fitted(
    item: &TomlItem<'_>,
    candidates: Option<TomlItem<'_>>,
    keys: &[String],
    text: &str,
) -> Result<Origin, ParseError> {
    const HINT: &str = "write `fitted = [\"titan-tr-table3 latency\"]`: experiments' ids and columns";
    let mut to = Vec::new();
    for column in texts(Some(*item), "fitted")?.unwrap_or_default() {
        let Some((experiment, column)) = column.split_once(' ') else {
            return Err(item.error(format!("{} is no column of an experiment", quoted(&column)), HINT));
        };
        to.push(FittedColumn { experiment: experiment.to_owned(), column: column.to_owned() });
    }
    if keys.len() != 1 {
        return Err(item.error("several keys are fitted in one entry", "write an entry for each"));
    }
    let hint = "write `candidates = [...]`: the values that are tried, first the one to take without a fit";
    let Some(list) = candidates else { return Err(item.error("`fitted` without `candidates`", hint)) };
    let candidates: Vec<String> =
        list.list(hint)?.iter().map(|item| text.get(item.span()).unwrap_or_default().to_owned()).collect();
    if candidates.is_empty() {
        return Err(list.error("`candidates` is empty", hint));
    }
    Ok(Origin::Fitted { to, candidates })
}

/// Checks that each key of an entry exists, and that a fitted value is one of its candidates.
fn fits(entry: &SourceEntry, leaves: &[Leaf], text: &str, item: &TomlItem<'_>) -> Result<(), ParseError> {
    for key in &entry.keys {
        if SECTIONS.contains(&key.as_str()) && !leaves.iter().any(|leaf| leaf.path == *key) {
            let what = format!("{} is a whole table", quoted(key));
            return Err(item.error(what, "name its keys; each has a source of its own"));
        }
        if !leaves.iter().any(|leaf| leaf.is_below(key)) {
            let paths = leaves.iter().map(|leaf| leaf.path.as_str());
            let near = nearest(key, paths, &SYNONYMS).map_or_else(
                || "an entry without what it is for is out of date".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(item.error(format!("there is no {} in this file", quoted(key)), near));
        }
    }
    let Origin::Fitted { candidates, .. } = &entry.origin else { return Ok(()) };
    let value = leaves.iter().find(|leaf| entry.keys.contains(&leaf.path)).map(|leaf| leaf.span.clone());
    let Some(value) = value.and_then(|span| text.get(span)) else {
        return Err(item.error("what is fitted is one value", "write the whole path of its key"));
    };
    if candidates.iter().any(|candidate| candidate == value) {
        return Ok(());
    }
    let what = format!("the value {} is not among its candidates", quoted(value));
    Err(item.error(what, "add it to `candidates`"))
}
