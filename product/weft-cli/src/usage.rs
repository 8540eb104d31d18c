//! Wrong usage in plain words, where those of the parser of flags are not.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use core::error::Error as _;

/// The most values that a message lists when one of them is similar to the given one.
const LISTED_MAX: usize = 12;

/// The error with a range as "from A to B", and without a long list of values where one is similar.
pub fn plain(mut error: Error, command: &Command) -> Error {
    if let Some(range) = range(&error) {
        let part = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
        let (value, flag) = (part(ContextKind::InvalidValue), part(ContextKind::InvalidArg));
        let message = format!("invalid value '{value}' for '{flag}': give a number {range}\n");
        return Error::raw(ErrorKind::ValueValidation, message).with_cmd(command);
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
    use clap::builder::PossibleValuesParser;
    use clap::{Arg, value_parser};

    fn said(args: &[&str]) -> String {
        let names = [
            "table0", "table1", "table2", "table3", "table4", "table5", "table6", "table7", "table8",
            "table9", "table10", "table11", "table12",
        ];
        assert!(names.len() > LISTED_MAX);
        let command = Command::new("weft")
            .arg(Arg::new("seeds").long("seeds").value_parser(value_parser!(u32).range(1..=64)))
            .arg(Arg::new("id").value_parser(PossibleValuesParser::new(names)));
        let error =
            command.clone().try_get_matches_from([&["weft"], args].concat()).expect_err("wrong usage");
        let plain = plain(error, &command);
        assert!(plain.use_stderr());
        plain.to_string()
    }

    #[test]
    fn a_range_is_written_in_words() {
        for value in ["0", "65"] {
            let said = said(&["--seeds", value]);
            assert!(said.contains("give a number from 1 to 64") && !said.contains("..="), "{said}");
            assert!(said.contains(value), "{said}");
        }
    }

    #[test]
    fn a_similar_value_stands_in_place_of_a_long_list() {
        let similar = said(&["table33"]);
        assert!(similar.contains("'table3'") && !similar.contains("table12"), "{similar}");
        let other = said(&["something"]);
        assert!(other.contains("table12"), "{other}");
    }
}
