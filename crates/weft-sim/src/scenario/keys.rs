//! Keys of a table: one line each says how it is called, read and written.

use super::item::{Item, Table};
use weft_text::ParseError;

/// What the meaning of a value may depend on.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// The scenario's classes.
    pub(super) classes: &'a [String],
}

/// How the values of a key are read and written. What is written reads back as the same value.
pub(super) trait Kind {
    /// What it becomes.
    type Value;

    /// Reads it.
    fn read(item: &Item<'_>, context: Context<'_>) -> Result<Self::Value, ParseError>;

    /// Writes it as TOML, on one line.
    fn write(value: &Self::Value, context: Context<'_>) -> String;
}

/// How a key is read into a `T`.
type Read<T> = fn(&Item<'_>, &mut T, Context<'_>) -> Result<(), ParseError>;

/// A key of a table that describes a `T`.
pub(super) struct Key<T: 'static> {
    /// Its name.
    pub(super) name: &'static str,
    /// Reads its value into a `T`.
    pub(super) read: Read<T>,
    /// Writes its value in a `T` as TOML.
    pub(super) write: fn(&T, Context<'_>) -> String,
}

/// Declares the keys of a struct: `field: Kind`, or `field as "name": Kind` where the file says it shorter.
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

/// Puts what `table` says into `target`, in the order of the file. `also` are keys that the caller reads.
pub(super) fn apply<T>(
    table: &Table<'_>,
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

/// Lines `key = value` of all keys.
pub(super) fn lines<T>(keys: &[Key<T>], value: &T, context: Context<'_>) -> String {
    keys.iter().map(|key| format!("{} = {}\n", key.name, (key.write)(value, context))).collect()
}

/// All keys as an inline table.
pub(super) fn inline<T>(keys: &[Key<T>], value: &T, context: Context<'_>) -> String {
    let pairs: Vec<String> =
        keys.iter().map(|key| format!("{} = {}", key.name, (key.write)(value, context))).collect();
    format!("{{ {} }}", pairs.join(", "))
}
