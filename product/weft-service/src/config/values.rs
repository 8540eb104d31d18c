//! Values of a configuration, and all mistakes of a file at once.

use weft_text::toml::{TomlItem, TomlTable};
use weft_text::{ParseError, hint_and_all, quoted};
use weft_units::ParseUnitError;

/// The longest name of an interface (`IFNAMSIZ` without its NUL, linux/if.h).
const NAME_MAX: usize = 15;

/// The mistakes of a file or of a part of it, at least one.
#[derive(Debug)]
pub(super) struct Mistakes(pub(super) Vec<ParseError>);

impl From<ParseError> for Mistakes {
    fn from(mistake: ParseError) -> Self {
        Self(vec![mistake])
    }
}

/// Does `read` for each of `parts`, and returns the mistakes of all.
pub(super) fn each<T>(
    parts: impl IntoIterator<Item = T>,
    mut read: impl FnMut(T) -> Result<(), Mistakes>,
) -> Result<(), Mistakes> {
    let found: Vec<ParseError> =
        parts.into_iter().filter_map(|part| read(part).err()).flat_map(|mistakes| mistakes.0).collect();
    if found.is_empty() { Ok(()) } else { Err(Mistakes(found)) }
}

/// Does `read` for each key of a table that has `keys`, and returns the mistakes of all.
pub(super) fn each_key<'a>(
    table: &TomlTable<'a>,
    keys: &[&str],
    mut read: impl FnMut(TomlItem<'a>) -> Result<(), Mistakes>,
) -> Result<(), Mistakes> {
    each(table.entries(), |(span, item)| {
        table.refuse_unless_known((span, item.key), keys)?;
        read(item)
    })
}

/// A text that is not empty.
pub(super) fn non_empty(item: TomlItem<'_>) -> Result<String, ParseError> {
    match item.text()? {
        "" => Err(item.error(format!("`{}` is empty", item.key), "leave the key out, or name something")),
        text => Ok(text.to_owned()),
    }
}

/// The name of an interface, by the kernel's rules (`dev_valid_name`, net/core/dev.c).
pub(super) fn interface(item: TomlItem<'_>) -> Result<String, ParseError> {
    let name = non_empty(item)?;
    let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    if name.len() > NAME_MAX || name == "." || name == ".." || name.contains(odd) {
        let what = format!("{} cannot be the name of an interface", quoted(&name));
        return Err(item.error(what, format!("use at most {NAME_MAX} letters, digits, dots and dashes")));
    }
    Ok(name)
}

/// One of the words in `known`.
pub(super) fn one_of<T: Copy>(item: TomlItem<'_>, known: &[(&str, T)]) -> Result<T, ParseError> {
    let text = item.text()?;
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        item.error(format!("{} is no value of `{}`", quoted(text), item.key), hint_and_all(text, &names, &[]))
    })
}

/// The items of a list.
pub(super) fn list<'a>(item: TomlItem<'a>) -> Result<Vec<TomlItem<'a>>, ParseError> {
    item.list(format!("write `{} = [...]`", item.key))
}

/// The error for a quantity that cannot be read, with the text that was meant, or else `hint`.
pub(super) fn not_read(item: TomlItem<'_>, error: &ParseUnitError, hint: &str) -> ParseError {
    let what = format!("{} is not {}", quoted(&error.given), error.expected);
    let meant = error.meant.as_ref().map(|meant| format!("write `{} = \"{meant}\"`", item.key));
    item.error(what, meant.as_deref().unwrap_or(hint))
}
