//! Cost files: a table for each operation, with nanoseconds by category and where they come from.

use super::error::{Fault, ScenarioError, quoted};
use super::item::{Item, Table};
use super::keys::{Context, Kind, apply, keys, lines};
use super::kinds;
use super::nearest;
use super::read::parse;
use super::tables::Probability;
use crate::cost::{Category, Contention, Costs, Operation};

/// What a scenario says instead of a cost file when nothing costs anything.
pub(super) const FREE: &str = "free";
/// The table of [`Contention`].
const CONTENTION: &str = "contention";
/// The key that says where a table's numbers come from.
const SOURCE: &str = "source";

keys! {
    /// `[contention]`.
    CONTENTION_KEYS of Contention {
        lock_transfer_ns: Nanoseconds,
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
            fn read(item: &Item<'_>, _: Context<'_>) -> Result<f64, Fault> {
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

/// No names are needed here.
const NO_CONTEXT: Context<'_> = Context { classes: &[] };

/// Reads a cost file.
pub(super) fn read(text: &str, file: &str) -> Result<Costs, ScenarioError> {
    let here = |fault: Fault| fault.locate(file, text);
    let map = parse(text).map_err(here)?;
    tables(&Table::root(&map)).map_err(here)
}

/// Reads the tables of a cost file, or those below `[costs]` of a scenario.
pub(super) fn tables(root: &Table<'_>) -> Result<Costs, Fault> {
    let names: Vec<&str> = Operation::ALL.iter().map(|o| o.name()).chain([CONTENTION]).collect();
    let mut costs = Costs::FREE;
    for (span, item) in root.entries() {
        let name = format!("[{}]", item.key);
        if item.key == CONTENTION {
            let table = item.table(&name)?;
            contention(&table, &mut costs.contention)?;
        } else if let Some(operation) = Operation::ALL.into_iter().find(|o| o.name() == item.key) {
            let row = operation_row(&item.table(&name)?)?;
            if let Some(slot) = costs.table.get_mut(operation as usize) {
                *slot = row;
            }
        } else {
            let what = format!("there is no operation {}", quoted(item.key));
            return Err(Fault::new(span, what, nearest::hint(item.key, &names)));
        }
    }
    Ok(costs)
}

/// Nanoseconds of an operation by category.
fn operation_row(table: &Table<'_>) -> Result<[f64; Category::ALL.len()], Fault> {
    let known: Vec<&str> = Category::ALL.iter().map(|c| c.name()).chain([SOURCE]).collect();
    table.refuse_unknown(&known)?;
    let mut row = [0.0; Category::ALL.len()];
    for (slot, category) in row.iter_mut().zip(Category::ALL) {
        if let Some(item) = table.get(category.name()) {
            *slot = Nanoseconds::read(&item, NO_CONTEXT)?;
        }
    }
    sourced(table, row.iter().any(|cost| *cost != 0.0))?;
    Ok(row)
}

/// `[contention]`.
fn contention(table: &Table<'_>, value: &mut Contention) -> Result<(), Fault> {
    apply(table, CONTENTION_KEYS, &[SOURCE], value, NO_CONTEXT)?;
    if value.miss_base > value.miss_max {
        let hint = "write `miss_max` at least as large as `miss_base`";
        let what = format!(
            "the greatest share of misses, {}, is below the least, {}",
            value.miss_max, value.miss_base
        );
        return Err(Fault::new(table.place(&["miss_max", "miss_base"]), what, hint));
    }
    sourced(table, *value != Costs::FREE.contention)
}

/// A table that costs something must say where its numbers come from.
fn sourced(table: &Table<'_>, needed: bool) -> Result<(), Fault> {
    let source = table.get(SOURCE).map(|item| kinds::Text::read(&item, NO_CONTEXT)).transpose()?;
    if needed && source.is_none() {
        let what = format!("{} does not say where its numbers come from", table.name);
        return Err(Fault::new(
            table.place(&[]),
            what,
            "write `source = \"...\"`: a paper's section, a measurement",
        ));
    }
    Ok(())
}

/// Costs as the head of a scenario file can say them.
pub(super) fn show(costs: &Costs) -> String {
    debug_assert_eq!(*costs, Costs::FREE, "other costs are tables");
    format!("\"{FREE}\"")
}

/// Costs as tables whose names begin with `prefix`. `source` is what each says about its numbers.
pub(super) fn write(costs: &Costs, prefix: &str, source: &str) -> String {
    let source = format!("{SOURCE} = {}\n", kinds::text(source));
    let mut out = String::new();
    for operation in Operation::ALL {
        let row = costs.table.get(operation as usize).copied().unwrap_or_default();
        if row.iter().all(|cost| *cost == 0.0) {
            continue;
        }
        out += &format!("\n[{prefix}{}]\n", operation.name());
        for (category, cost) in Category::ALL.iter().zip(row).filter(|(_, cost)| *cost != 0.0) {
            out += &format!("{} = {}\n", category.name(), Nanoseconds::write(&cost, NO_CONTEXT));
        }
        out += &source;
    }
    if costs.contention != Costs::FREE.contention {
        out += &format!(
            "\n[{prefix}{CONTENTION}]\n{}{source}",
            lines(CONTENTION_KEYS, &costs.contention, NO_CONTEXT)
        );
    }
    out
}

/// The keys of `[contention]` and their defaults.
pub(super) fn contention_keys() -> Vec<(&'static str, String)> {
    let value = Costs::FREE.contention;
    CONTENTION_KEYS.iter().map(|key| (key.name, (key.write)(&value, NO_CONTEXT))).collect()
}
