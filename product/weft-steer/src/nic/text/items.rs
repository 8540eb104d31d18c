//! Reads the parts of a model, in any order.

use super::check::{self, Places};
use super::cursor::{Cursor, Declared, Names, PARTS, QUEUES_MAX, twice};
use super::{nodes, tables};
use crate::nic::{ABOUT, Exclusion, Fact, Nic, Pool, TableId};
use crate::predicate::lexer::tokens;
use weft_text::{ParseError, hint, quoted};

/// Reads and checks a model.
pub(super) fn read(text: &str) -> Result<Nic, ParseError> {
    let tokens = tokens(text);
    let names = Declared {
        nodes: Names::collect(&tokens, "node", "node")?,
        tables: Names::collect(&tokens, "table", "table")?,
        pools: Names::collect(&tokens, "pool", "pool")?,
    };
    let mut cursor = Cursor::new(&tokens, text.len());
    let mut places = Places { end: text.len(), ..Places::default() };
    let mut nic = header(&mut cursor)?;
    while cursor.peek().is_some() {
        let part = cursor.word("a part of a model")?;
        match part.text {
            "queues" => {
                if places.queues.replace(part.span()).is_some() {
                    return Err(twice(part));
                }
                nic.queues = cursor.number("the number of receive queues", 1, QUEUES_MAX)?;
            }
            "rss" => {
                if places.rss.replace(part.span()).is_some() {
                    return Err(twice(part));
                }
                nic.rss = Some(tables::rss(&mut cursor)?);
            }
            "fact" => nic.facts.push(fact(&mut cursor, &names)?),
            "pool" => pool(&mut cursor, &names, &mut nic, &mut places)?,
            "table" => {
                let (table, place) = tables::table(&mut cursor, &names)?;
                names.tables.once(place.name, nic.tables.len())?;
                nic.tables.push(table);
                places.tables.push(place);
            }
            "exclude" => nic.exclusions.push(exclusion(&mut cursor, &names)?),
            "node" => {
                let (node, name) = nodes::node(&mut cursor, &names)?;
                names.nodes.once(name, nic.nodes.len())?;
                nic.nodes.push(node);
                places.nodes.push(name);
            }
            other => {
                let what = format!("{} does not begin a part of a model", quoted(other));
                return Err(part.error(what, hint(other, &PARTS[1..], &[])));
            }
        }
    }
    check::settle(&mut nic, &places)?;
    Ok(nic)
}

fn header(cursor: &mut Cursor<'_>) -> Result<Nic, ParseError> {
    cursor.expect("nic")?;
    let name = cursor.name("the NIC")?.text.to_owned();
    let title = cursor.text("the NIC's name for people")?.to_owned();
    Ok(Nic {
        name,
        title,
        queues: 0,
        nodes: vec![],
        tables: vec![],
        pools: vec![],
        rss: None,
        exclusions: vec![],
        facts: vec![],
    })
}

/// `fact "WHAT" from "WHERE"`
fn fact(cursor: &mut Cursor<'_>, names: &Declared<'_>) -> Result<Fact, ParseError> {
    let text = cursor.text("what is so")?.to_owned();
    cursor.expect("from")?;
    let source = cursor.text("where that is stated")?.to_owned();
    let mut about = Vec::new();
    if cursor.eat("about") {
        loop {
            let name = cursor.word("a table's name, or what the fact is about")?;
            if !ABOUT.contains(&name.text) {
                names.tables.find(name)?;
            }
            about.push(name.text.to_owned());
            if !cursor.eat(",") {
                break;
            }
        }
    }
    Ok(Fact { text, source, about })
}

/// `pool NAME of N`
fn pool<'a>(
    cursor: &mut Cursor<'a>,
    names: &Declared<'a>,
    nic: &mut Nic,
    places: &mut Places<'a>,
) -> Result<(), ParseError> {
    let name = cursor.name("a pool")?;
    names.pools.once(name, nic.pools.len())?;
    cursor.expect("of")?;
    let capacity = cursor.number("the pool's entries", 1, u32::MAX)?;
    nic.pools.push(Pool { name: name.text.to_owned(), capacity });
    places.pools.push(name);
    Ok(())
}

/// `exclude TABLE, TABLE because "WHY"`
fn exclusion<'a>(cursor: &mut Cursor<'a>, names: &Declared<'a>) -> Result<Exclusion, ParseError> {
    let mut tables = Vec::new();
    loop {
        let name = cursor.word("a table's name")?;
        let table = TableId(names.tables.find(name)?);
        if tables.contains(&table) {
            return Err(
                name.error(format!("table `{}` cannot exclude itself", name.text), "name each table once")
            );
        }
        tables.push(table);
        if !cursor.eat(",") {
            break;
        }
    }
    if tables.len() < 2 {
        return Err(cursor.error("`,` and another table"));
    }
    cursor.expect("because")?;
    Ok(Exclusion { tables, reason: cursor.text("the reason")?.to_owned() })
}
