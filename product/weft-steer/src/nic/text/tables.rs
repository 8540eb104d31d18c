//! Reads filter tables and RSS.

use super::cursor::{Cursor, Declared, Name, QUEUES_MAX, twice};

use crate::nic::{Actions, FieldSupport, Interface, Masks, Order, PoolId, RssModel, Table};
use crate::predicate::Predicate;
use crate::predicate::value::PROTOCOLS;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_text::{ParseError, Span, hint, quoted};
use weft_units::RxQueueId;

/// The words for orders.
pub(super) const ORDERS: [(&str, Order); 4] = [
    ("priority", Order::Priority),
    ("location", Order::Location),
    ("newest", Order::Newest),
    ("disjoint", Order::Disjoint),
];
/// The words for interfaces.
pub(super) const INTERFACES: [(&str, Interface); 4] = [
    ("ntuple", Interface::Ntuple),
    ("flower", Interface::Flower),
    ("rte-flow", Interface::RteFlow),
    ("none", Interface::None),
];
/// The words for masks.
pub(super) const MASKS: [(&str, Masks); 3] =
    [("exact", Masks::Exact), ("prefix", Masks::Prefix), ("any", Masks::Any)];
const KEYS: [&str; 11] = [
    "capacity",
    "share",
    "match",
    "within",
    "one-mask",
    "priorities",
    "order",
    "actions",
    "last-queue",
    "signature",
    "interface",
];
const RSS_KEYS: [&str; 5] = ["entries", "queues", "contexts", "key", "ports"];
/// The maximum number of entries of an indirection table.
const ENTRIES_MAX: u32 = 65_536;

/// The places of a table's parts.
pub(super) struct Places<'a> {
    pub(super) name: Name<'a>,
    /// The place of the last queue; `None` means the NIC's last queue.
    pub(super) last_queue: Option<Span>,
    pub(super) actions: Span,
}

/// Reads a word and returns its value.
fn choice<T: Copy>(cursor: &mut Cursor<'_>, what: &str, known: &[(&str, T)]) -> Result<T, ParseError> {
    let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    let name = cursor.one_of(what, &words)?;
    let value = known.iter().find(|(word, _)| *word == name.text).map(|(_, value)| *value);
    value.ok_or_else(|| name.error(format!("no {what}"), hint(name.text, &words, &[])))
}

/// Reads `table NAME { ... }`, from the name.
pub(super) fn table<'a>(
    cursor: &mut Cursor<'a>,
    names: &Declared<'a>,
) -> Result<(Table, Places<'a>), ParseError> {
    let name = cursor.name("a table")?;
    let mut places = Places { name, last_queue: None, actions: name.span() };
    let mut table = Table {
        name: name.text.to_owned(),
        capacity: 0,
        pool: None,
        fields: vec![],
        within: vec![],
        one_mask: false,
        priorities: (0, 0),
        order: Order::Disjoint,
        actions: Actions::default(),
        last_queue: RxQueueId(0),
        signature_bits: None,
        interface: Interface::None,
    };
    cursor.expect("{")?;
    let mut seen = Vec::new();
    while !cursor.eat("}") {
        let key = cursor.word("a table's property or `}`")?;
        if seen.contains(&key.text) && !matches!(key.text, "match" | "within") {
            return Err(twice(key));
        }
        seen.push(key.text);
        property(cursor, names, key, &mut table, &mut places)?;
    }
    for needed in ["match", "order", "actions", "interface"] {
        if !seen.contains(&needed) {
            let what = format!("table `{}` has no `{needed}`", name.text);
            return Err(name.error(what, format!("give it: `{needed} ...`")));
        }
    }
    if table.capacity == 0 && table.pool.is_none() {
        return Err(name.error(
            format!("table `{}` cannot hold any rule", name.text),
            "give it `capacity N`, or `share POOL`",
        ));
    }
    Ok((table, places))
}

/// Reads one property of a table.
fn property<'a>(
    cursor: &mut Cursor<'a>,
    names: &Declared<'a>,
    key: Name<'a>,
    table: &mut Table,
    places: &mut Places<'a>,
) -> Result<(), ParseError> {
    match key.text {
        "capacity" => table.capacity = cursor.number("the table's entries", 0, u32::MAX)?,
        "share" => table.pool = Some(PoolId(names.pools.find(cursor.word("a pool's name")?)?)),
        "match" => table.fields.push(field(cursor, &table.fields)?),
        "within" => within(cursor, &mut table.within)?,
        "one-mask" => table.one_mask = true,
        "priorities" => {
            let first = cursor.number("the lowest priority", 0, 255)?;
            cursor.expect("to")?;
            table.priorities = (first, cursor.number("the highest priority", first.into(), 255)?);
        }
        "order" => table.order = choice(cursor, "an order of rules", &ORDERS)?,
        "actions" => {
            places.actions = key.span();
            table.actions = actions(cursor)?;
        }
        "last-queue" => {
            places.last_queue = Some(cursor.place());
            table.last_queue = RxQueueId(cursor.number("the last queue", 0, QUEUES_MAX - 1)?);
        }
        "signature" => {
            table.signature_bits = Some(cursor.number("the signature's bits", 1, 128)?);
            cursor.expect("bits")?;
        }
        "interface" => table.interface = choice(cursor, "an interface", &INTERFACES)?,
        other => {
            let known: Vec<&str> = KEYS.into_iter().chain(Field::ALL.map(Field::name)).collect();
            let hint = hint(other, if other.len() > 3 { &known } else { &KEYS }, &[]);
            return Err(key.error(format!("{} is not a property of a table", quoted(other)), hint));
        }
    }
    Ok(())
}

/// Reads `match FIELD MASKS [required]`.
fn field(cursor: &mut Cursor<'_>, before: &[FieldSupport]) -> Result<FieldSupport, ParseError> {
    let name = cursor.one_of("a header field", &Field::ALL.map(Field::name))?;
    let field = Field::from_name(name.text).filter(|field| before.iter().all(|other| other.field != *field));
    let field = field.ok_or_else(|| twice(name))?;
    let masks = choice(cursor, "a kind of masks", &MASKS)?;
    Ok(FieldSupport { field, masks, required: cursor.eat("required") })
}

/// Reads `within MATCH [or MATCH]`.
fn within(cursor: &mut Cursor<'_>, header_matches: &mut Vec<HeaderMatch>) -> Result<(), ParseError> {
    let place = cursor.place();
    let predicate = cursor.predicate()?;
    let choices = match predicate {
        Predicate::Any(choices) if !choices.is_empty() => choices,
        one => vec![one],
    };
    for choice in choices {
        let Predicate::Is(headers) = choice else {
            let what = "`within` takes tests side by side, or several of those with `or`";
            return Err(ParseError::new(place, what, "leave out `and`, `not` and nested choices"));
        };
        header_matches.push(headers);
    }
    Ok(())
}

fn actions(cursor: &mut Cursor<'_>) -> Result<Actions, ParseError> {
    let mut actions = Actions::default();
    loop {
        let name = cursor.one_of("an action", &["queue", "context", "drop"])?;
        let action = match name.text {
            "queue" => &mut actions.queue,
            "context" => &mut actions.context,
            _ => &mut actions.drop,
        };
        if core::mem::replace(action, true) {
            return Err(twice(name));
        }
        if !cursor.eat(",") {
            return Ok(actions);
        }
    }
}

/// Reads `settable` or `fixed`.
fn settable(cursor: &mut Cursor<'_>) -> Result<bool, ParseError> {
    Ok(cursor.one_of("`settable` or `fixed`", &["settable", "fixed"])?.text == "settable")
}

/// Reads `rss { ... }`, from the brace.
pub(super) fn rss(cursor: &mut Cursor<'_>) -> Result<RssModel, ParseError> {
    let place = cursor.place();
    let mut rss = RssModel {
        indirection: 0,
        queues: 0,
        contexts: 0,
        key_bytes: 0,
        key_settable: false,
        indirection_settable: false,
        hashed_with_ports: vec![],
    };
    cursor.expect("{")?;
    let mut seen = Vec::new();
    while !cursor.eat("}") {
        let key = cursor.word("a property of RSS or `}`")?;
        if seen.contains(&key.text) {
            return Err(twice(key));
        }
        seen.push(key.text);
        match key.text {
            "entries" => {
                let place = cursor.place();
                rss.indirection = cursor.number("the indirection table's entries", 1, ENTRIES_MAX)?;
                if !rss.indirection.is_power_of_two() {
                    let what = format!(
                        "{} entries: the indirection table's size is a power of two",
                        rss.indirection
                    );
                    let hint = format!("such as {}", rss.indirection.next_power_of_two());
                    return Err(ParseError::new(place, what, hint));
                }
                rss.indirection_settable = settable(cursor)?;
            }
            "queues" => rss.queues = cursor.number("the queues that RSS can name", 1, QUEUES_MAX)?,
            "contexts" => rss.contexts = cursor.number("the contexts beside the main one", 0, u32::MAX)?,
            "key" => {
                rss.key_bytes = cursor.number("the key's bytes", 1, 1024)?;
                cursor.expect("bytes")?;
                rss.key_settable = settable(cursor)?;
            }
            "ports" => rss.hashed_with_ports = protocols(cursor)?,
            other => {
                let what = format!("{} is not a property of RSS", quoted(other));
                return Err(key.error(what, hint(other, &RSS_KEYS, &[])));
            }
        }
    }
    for needed in ["entries", "queues", "key"] {
        if !seen.contains(&needed) {
            let hint = format!("give it: `{needed} ...`");
            return Err(ParseError::new(place, format!("`rss` has no `{needed}`"), hint));
        }
    }
    Ok(rss)
}

/// Reads protocols by name or number, separated by commas.
fn protocols(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, ParseError> {
    let mut out = Vec::new();
    loop {
        let named = PROTOCOLS.iter().find(|(name, _)| cursor.is(name)).copied();
        out.push(match named {
            Some((name, number)) => {
                cursor.expect(name)?;
                number
            }
            None => cursor.number("an IP protocol (tcp, udp, sctp or its number)", 0, 255)?,
        });
        if !cursor.eat(",") {
            return Ok(out);
        }
    }
}
