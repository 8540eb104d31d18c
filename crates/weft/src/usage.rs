//! Wrong usage in plain words, where those of the parser of flags are not.

use crate::cli::Cli;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error};
use core::error::Error as _;

/// The most values that a message lists when one of them is similar to the given one.
const LISTED_MAX: usize = 12;

/// The error with a range as "from A to B", and without a long list of values where one is similar.
pub(crate) fn plain(mut error: Error) -> Error {
    if let Some(range) = range(&error) {
        let part = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
        let (value, flag) = (part(ContextKind::InvalidValue), part(ContextKind::InvalidArg));
        let message = format!("invalid value '{value}' for '{flag}': give a number {range}\n");
        return Error::raw(ErrorKind::ValueValidation, message).with_cmd(&Cli::command());
    }
    let long = matches!(error.get(ContextKind::ValidValue), Some(ContextValue::Strings(all)) if all.len() > LISTED_MAX);
    if long && error.get(ContextKind::SuggestedValue).is_some() {
        error.insert(ContextKind::ValidValue, ContextValue::Strings(Vec::new()));
    }
    error
}

/// `from 1 to 100` of a number outside `1..=100`.
fn range(error: &Error) -> Option<String> {
    let said = error.source()?.to_string();
    let (_, range) = said.split_once(" is not in ")?;
    let (least, most) = range.split_once("..=")?;
    Some(format!("from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn said(args: &[&str]) -> String {
        let error = Cli::try_parse_from([&["weft"], args].concat()).expect_err("wrong usage");
        let plain = plain(error);
        assert!(plain.use_stderr());
        plain.to_string()
    }

    #[test]
    fn a_range_is_written_in_words() {
        for args in
            [&["sim", "x.toml", "--seeds", "0"][..], &["run", "x", "--uplink", "e", "--workers", "65"]]
        {
            let said = said(args);
            assert!(said.contains("give a number from 1 to ") && !said.contains("..="), "{said}");
            assert!(said.contains(args[args.len() - 2]), "{said}");
        }
    }

    #[test]
    fn a_similar_value_stands_in_place_of_a_long_list() {
        let similar = said(&["reproduce", "titan-tr-table33"]);
        assert!(similar.contains("'titan-tr-table3'") && !similar.contains("loom-fig2"), "{similar}");
        let other = said(&["reproduce", "something"]);
        assert!(other.contains("loom-fig2"), "{other}");
    }
}
