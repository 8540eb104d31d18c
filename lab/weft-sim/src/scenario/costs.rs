//! Cost files: a table per operation, with nanoseconds by category and their source.

use super::document::{SYNONYMS, parse, root};
use super::keys::{Context, Kind, apply, keys, lines};
use super::kinds;
use super::kinds::{Factor, Probability};
use super::sources::{self, FITTED, SOURCE, SourcedFile};
use crate::cost::{Contention, CostCategory, CostedOperation, Costs};
use weft_text::toml::{TomlItem, TomlTable};
use weft_text::{LocatedError, ParseError, hint, quoted};

/// The word that replaces a cost file if all work is free.
pub(super) const FREE: &str = "free";
/// The table of [`Contention`].
const CONTENTION: &str = "contention";
/// The table of properties of the processor as a whole.
const PROCESSOR: &str = "processor";
/// Its factor on the nanoseconds of all operations and of transfers between cores.
const FACTOR: &str = "factor";

keys! {
    /// The keys of `[contention]`.
    CONTENTION_KEYS of Contention {
        lock_transfer_ns: Nanoseconds,
        socket_transfer_ns: Nanoseconds,
        miss_base: Probability,
        miss_per_flow: Probability,
        miss_max: Share,
        miss_factor: AtLeastOne,
        numa_factor: AtLeastOne,
        interrupt_latency_ns: Nanoseconds,
    }
}

/// Declares a kind of numbers without a unit.
macro_rules! number {
    ($name:ident, $possible:expr, $hint:literal) => {
        struct $name;
        impl Kind for $name {
            type Value = f64;
            fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<f64, ParseError> {
                item.number($possible, $hint)
            }
            fn write(value: &f64, _: Context<'_>) -> String {
                format!("{value:?}")
            }
        }
    };
}

number!(Nanoseconds, |n| n >= 0.0, "write nanoseconds, 0 or more, without a unit");
number!(Share, |n| (0.0..=1.0).contains(&n), "write a share from 0 to 1");
number!(AtLeastOne, |n| n >= 1.0, "write a factor of at least 1");

/// An empty context: costs refer to no names.
const NO_CONTEXT: Context<'_> = Context { classes: &[] };

/// Reads a cost file.
pub(super) fn read(text: &str, file: &str) -> Result<Costs, LocatedError> {
    let here = |error: ParseError| error.locate(file, text);
    let map = parse(text).map_err(here)?;
    tables(&root(&map), text).map_err(here)
}

/// Reads the tables of a cost file, or those below `[costs]` of a scenario; `text` is the file's.
pub(super) fn tables(root: &TomlTable<'_>, text: &str) -> Result<Costs, ParseError> {
    let others = [CONTENTION, PROCESSOR, FITTED, SOURCE];
    let names: Vec<&str> = CostedOperation::ALL.iter().map(|o| o.name()).chain(others).collect();
    let mut costs = Costs::FREE;
    let mut factor = 1.0;
    for (span, item) in root.entries().into_iter().filter(|(_, item)| ![SOURCE, FITTED].contains(&item.key)) {
        let name = format!("[{}]", item.key);
        if item.key == CONTENTION {
            let table = item.table(&name)?;
            contention(&table, &mut costs.contention)?;
        } else if item.key == PROCESSOR {
            let table = item.table(&name)?;
            table.refuse_unknown(&[FACTOR])?;
            if let Some(item) = table.get(FACTOR) {
                factor = Factor::read(&item, NO_CONTEXT)?;
            }
        } else if let Some(operation) = CostedOperation::ALL.into_iter().find(|o| o.name() == item.key) {
            let row = operation_row(&item.table(&name)?)?;
            if let Some(slot) = costs.table.get_mut(operation as usize) {
                *slot = row;
            }
        } else {
            let what = format!("there is no operation {}", quoted(item.key));
            return Err(ParseError::new(span, what, hint(item.key, &names, &SYNONYMS)));
        }
    }
    sources::check(root, text, SourcedFile::Costs)?;
    for cost in costs.table.iter_mut().flatten() {
        *cost *= factor;
    }
    costs.contention.lock_transfer_ns *= factor;
    costs.contention.socket_transfer_ns *= factor;
    Ok(costs)
}

/// Reads the nanoseconds of an operation by category.
fn operation_row(table: &TomlTable<'_>) -> Result<[f64; CostCategory::ALL.len()], ParseError> {
    let known: Vec<&str> = CostCategory::ALL.iter().map(|c| c.name()).collect();
    table.refuse_unknown(&known)?;
    let mut row = [0.0; CostCategory::ALL.len()];
    for (slot, category) in row.iter_mut().zip(CostCategory::ALL) {
        if let Some(item) = table.get(category.name()) {
            *slot = Nanoseconds::read(&item, NO_CONTEXT)?;
        }
    }
    Ok(row)
}

/// Reads `[contention]`.
fn contention(table: &TomlTable<'_>, value: &mut Contention) -> Result<(), ParseError> {
    apply(table, CONTENTION_KEYS, &[], value, NO_CONTEXT)?;
    if value.miss_base > value.miss_max {
        let hint = "write `miss_max` at least as large as `miss_base`";
        let what = format!(
            "the greatest share of misses, {}, is below the least, {}",
            value.miss_max, value.miss_base
        );
        return Err(ParseError::new(table.place(&["miss_max", "miss_base"]), what, hint));
    }
    Ok(())
}

/// Formats costs for the head of a scenario file.
pub(super) fn show(costs: &Costs) -> String {
    debug_assert_eq!(*costs, Costs::FREE, "other costs are tables");
    format!("\"{FREE}\"")
}

/// Formats costs as tables whose names begin with `prefix`. `assumed` is the text of their source.
pub(super) fn write(costs: &Costs, prefix: &str, assumed: &str) -> String {
    let mut out = String::new();
    let mut sourced = Vec::new();
    for operation in CostedOperation::ALL {
        let row = costs.table.get(operation as usize).copied().unwrap_or_default();
        if row.iter().all(|cost| *cost == 0.0) {
            continue;
        }
        out += &format!("\n[{prefix}{}]\n", operation.name());
        for (category, cost) in CostCategory::ALL.iter().zip(row).filter(|(_, cost)| *cost != 0.0) {
            out += &format!("{} = {}\n", category.name(), Nanoseconds::write(&cost, NO_CONTEXT));
        }
        sourced.push(kinds::text(operation.name()));
    }
    if costs.contention != Costs::FREE.contention {
        let lines = lines(CONTENTION_KEYS, &costs.contention, NO_CONTEXT);
        out += &format!("\n[{prefix}{CONTENTION}]\n{lines}");
        let keys = CONTENTION_KEYS.iter().map(|key| kinds::text(&format!("{CONTENTION}.{}", key.name)));
        sourced.extend(keys);
    }
    let (keys, assumed) = (sourced.join(", "), kinds::text(assumed));
    out + &format!("\n[[{prefix}{SOURCE}]]\nkeys = [{keys}]\nassumed = {assumed}\n")
}

/// Returns the keys of `[contention]` and their defaults.
pub(super) fn contention_keys() -> Vec<(&'static str, String)> {
    let value = Costs::FREE.contention;
    CONTENTION_KEYS.iter().map(|key| (key.name, (key.write)(&value, NO_CONTEXT))).collect()
}
