//! A file as a TOML document.

use toml::de::DeTable;
use weft_text::ParseError;
use weft_text::toml::{TomlTable, parse as parse_toml};

/// The maximum length of a file, in bytes; bounds time and memory.
const TEXT_MAX: usize = 4 << 20;

/// Other tools' names of keys and those here, for hints only.
pub(super) const SYNONYMS: [(&str, &str); 10] = [
    ("queues", "transmit_queues"),
    ("byte_queue_limit", "bql"),
    ("bandwidth", "rate"),
    ("latency", "delay"),
    ("runtime", "duration"),
    ("source", "from"),
    ("src", "from"),
    ("destination", "to"),
    ("dst", "to"),
    ("num_hosts", "hosts"),
];

/// Parses a text as TOML.
pub(super) fn parse(text: &str) -> Result<DeTable<'_>, ParseError> {
    if text.len() > TEXT_MAX {
        let what = format!("the file has {} bytes, more than {TEXT_MAX}", text.len());
        return Err(ParseError::new(0..0, what, "leave out what is not needed"));
    }
    parse_toml(text, "write texts in quotes; tables begin with [name]")
}

/// The table of the whole file.
pub(super) const fn root<'a>(map: &'a DeTable<'a>) -> TomlTable<'a> {
    TomlTable::root("the file's head", map, &SYNONYMS)
}
