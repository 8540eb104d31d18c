//! Keys of a table: one line each defines the name, the reader and the writer.

use weft_text::ParseError;
use weft_text::toml::{TomlItem, TomlTable};

/// The environment that gives a value its meaning.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// The scenario's classes.
    pub(super) classes: &'a [String],
}

/// A kind of values: its reader and its writer. A written value reads back equal.
pub(super) trait Kind {
    /// The type of its values.
    type Value;

    /// Reads a value.
    fn read(item: &TomlItem<'_>, context: Context<'_>) -> Result<Self::Value, ParseError>;

    /// Writes a value as TOML, on one line.
    fn write(value: &Self::Value, context: Context<'_>) -> String;
}

/// A reader of a key into a `T`.
type Read<T> = fn(&TomlItem<'_>, &mut T, Context<'_>) -> Result<(), ParseError>;

/// A key of a table that describes a `T`.
pub(super) struct Key<T: 'static> {
    /// The key's name.
    pub(super) name: &'static str,
    /// Reads its value into a `T`.
    pub(super) read: Read<T>,
    /// Writes its value in a `T` as TOML.
    pub(super) write: fn(&T, Context<'_>) -> String,
}

/// Declares the keys of a struct: `field: Kind`, or `field as "name": Kind` if the file uses a shorter name.
macro_rules! keys {
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    ($(#[$doc:meta])* $table:ident of $type:ty { $($field:ident $(as $name:literal)?: $kind:ty,)* }) => {
        $(#[$doc])*
        pub(super) const $table: &[$crate::scenario::keys::Key<$type>] = &[$(
            $crate::scenario::keys::Key {
                name: $crate::scenario::keys::keys!(@name $field $($name)?),
                read: |item, target, context| {
                    target.$field = <$kind as $crate::scenario::keys::Kind>::read(item, context)?;
                    Ok(())
                },
                write: |target, context| <$kind as $crate::scenario::keys::Kind>::write(&target.$field, context),
            },
        )*];
    };
}
pub(super) use keys;

/// Reads the values of `table` into `target`, in the order of the file. `also` are keys that the caller reads.
pub(super) fn apply<T>(
    table: &TomlTable<'_>,
    keys: &[Key<T>],
    also: &[&str],
    target: &mut T,
    context: Context<'_>,
) -> Result<(), ParseError> {
    let known: Vec<&str> = keys.iter().map(|key| key.name).chain(also.iter().copied()).collect();
    table.refuse_unknown(&known)?;
    for (_, item) in table.entries() {
        if let Some(key) = keys.iter().find(|key| key.name == item.key) {
            (key.read)(&item, target, context)?;
        }
    }
    Ok(())
}

/// Formats all keys as lines `key = value`.
pub(super) fn lines<T>(keys: &[Key<T>], value: &T, context: Context<'_>) -> String {
    keys.iter().map(|key| format!("{} = {}\n", key.name, (key.write)(value, context))).collect()
}

/// Formats all keys as an inline table.
pub(super) fn inline<T>(keys: &[Key<T>], value: &T, context: Context<'_>) -> String {
    let pairs: Vec<String> =
        keys.iter().map(|key| format!("{} = {}", key.name, (key.write)(value, context))).collect();
    format!("{{ {} }}", pairs.join(", "))
}
