//! Tables in memory, by columns, in the layout of Arrow's columnar format.

use serde_json::Value;

/// A table. All columns have as many rows.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: usize,
}

impl Table {
    /// A table of columns, the first of which says how many rows there are.
    pub(crate) fn new(mut columns: Vec<Column>) -> Self {
        let rows = columns.first().map_or(0, Column::len);
        columns.retain(|column| column.len() == rows);
        Self { columns, rows }
    }
}

/// The values of a column; where one is missing, any.
#[derive(Debug)]
pub(crate) enum Values {
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Numbers.
    Floats(Vec<f64>),
    /// Flags, a bit each.
    Flags(Bits),
    /// Texts one after the other, and where each begins and the last one ends.
    Texts { ends: Vec<i64>, bytes: Vec<u8> },
}

/// Bits, the first of a byte in its lowest place.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    pub(crate) bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.len % 8);
        }
        self.len += 1;
    }

    pub(crate) fn get(&self, index: usize) -> bool {
        self.bytes.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }
}

/// A column.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) values: Values,
    /// The values that are there, if some are missing.
    pub(crate) there: Option<Bits>,
    pub(crate) missing: usize,
}

/// A value of a table.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Cell<'a> {
    Missing,
    Integer(i64),
    Float(f64),
    Flag(bool),
    Text(&'a str),
}

impl Column {
    /// A column of whole numbers.
    pub(crate) fn integers(name: impl Into<String>, values: impl Iterator<Item = Option<i64>>) -> Self {
        let mut there = There::default();
        let values = Values::Integers(values.map(|value| there.note(value).unwrap_or_default()).collect());
        there.column(name, values)
    }

    /// A column of numbers.
    pub(crate) fn floats(name: impl Into<String>, values: impl Iterator<Item = Option<f64>>) -> Self {
        let mut there = There::default();
        let values = Values::Floats(values.map(|value| there.note(value).unwrap_or_default()).collect());
        there.column(name, values)
    }

    /// A column of flags.
    pub(crate) fn flags(name: impl Into<String>, values: impl Iterator<Item = Option<bool>>) -> Self {
        let (mut there, mut bits) = (There::default(), Bits::default());
        values.for_each(|value| bits.push(there.note(value).unwrap_or_default()));
        there.column(name, Values::Flags(bits))
    }

    /// A column of texts.
    pub(crate) fn texts<'a>(
        name: impl Into<String>,
        values: impl Iterator<Item = Option<impl Into<std::borrow::Cow<'a, str>>>>,
    ) -> Self {
        let (mut there, mut ends, mut bytes) = (There::default(), vec![0], Vec::new());
        for value in values {
            if let Some(text) = there.note(value) {
                bytes.extend_from_slice(text.into().as_bytes());
            }
            ends.push(bytes.len() as i64);
        }
        there.column(name, Values::Texts { ends, bytes })
    }

    /// A column of values of JSON: of their kind, if all have one, otherwise of texts.
    pub(crate) fn of_json(name: impl Into<String>, values: &[Option<&Value>]) -> Self {
        let known = || values.iter().flatten();
        if known().all(|value| value.is_i64()) {
            return Self::integers(name, values.iter().map(|value| value.and_then(Value::as_i64)));
        }
        if known().all(|value| value.is_number()) {
            return Self::floats(name, values.iter().map(|value| value.and_then(Value::as_f64)));
        }
        if known().all(|value| value.is_boolean()) {
            return Self::flags(name, values.iter().map(|value| value.and_then(Value::as_bool)));
        }
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Self::texts(name, values.iter().map(|value| value.map(text)))
    }

    /// The number of its rows.
    pub(crate) fn len(&self) -> usize {
        match &self.values {
            Values::Integers(values) => values.len(),
            Values::Floats(values) => values.len(),
            Values::Flags(bits) => bits.len,
            Values::Texts { ends, .. } => ends.len().saturating_sub(1),
        }
    }

    /// The value of a row; missing beyond the last one.
    pub(crate) fn get(&self, row: usize) -> Cell<'_> {
        if row >= self.len() || self.there.as_ref().is_some_and(|there| !there.get(row)) {
            return Cell::Missing;
        }
        match &self.values {
            Values::Integers(values) => values.get(row).map_or(Cell::Missing, |value| Cell::Integer(*value)),
            Values::Floats(values) => values.get(row).map_or(Cell::Missing, |value| Cell::Float(*value)),
            Values::Flags(bits) => Cell::Flag(bits.get(row)),
            Values::Texts { ends, bytes } => {
                let text = bytes.get(ends[row] as usize..ends[row + 1] as usize);
                text.and_then(|text| std::str::from_utf8(text).ok()).map_or(Cell::Missing, Cell::Text)
            }
        }
    }
}

/// The values that are there, as they come.
#[derive(Default)]
struct There {
    bits: Bits,
    missing: usize,
}

impl There {
    fn note<T>(&mut self, value: Option<T>) -> Option<T> {
        self.bits.push(value.is_some());
        self.missing += usize::from(value.is_none());
        value
    }

    fn column(self, name: impl Into<String>, values: Values) -> Column {
        let there = (self.missing > 0).then_some(self.bits);
        Column { name: name.into(), values, there, missing: self.missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_of_a_kind_make_a_column_of_it() {
        let column = |values: &[Value]| {
            let values: Vec<_> = values.iter().map(|value| (!value.is_null()).then_some(value)).collect();
            Column::of_json("c", &values)
        };
        let whole = column(&[json!(1), json!(null), json!(-3)]);
        assert_eq!((whole.len(), whole.missing), (3, 1));
        assert_eq!(
            [0, 1, 2, 3].map(|row| whole.get(row)),
            [Cell::Integer(1), Cell::Missing, Cell::Integer(-3), Cell::Missing]
        );
        assert_eq!(column(&[json!(1), json!(2.5)]).get(0), Cell::Float(1.0));
        assert_eq!(column(&[json!(false), json!(true)]).get(1), Cell::Flag(true));
        let mixed = column(&[json!("ä"), json!([1]), json!("")]);
        assert_eq!([0, 1, 2].map(|row| mixed.get(row)), [Cell::Text("ä"), Cell::Text("[1]"), Cell::Text("")]);
        assert!(mixed.there.is_none());
    }

    #[test]
    fn bits_are_in_the_order_of_arrow() {
        let flags = Column::flags("f", (0..11).map(|at| Some(at == 1 || at == 9)));
        let Values::Flags(bits) = &flags.values else { panic!("{flags:?}") };
        assert_eq!(bits.bytes, [0b10, 0b10]);
        assert!(flags.get(9) == Cell::Flag(true) && flags.get(8) == Cell::Flag(false));
    }

    #[test]
    fn a_table_is_as_long_as_its_first_column() {
        let two = |name: &str| Column::integers(name, [Some(1), Some(2)].into_iter());
        let table = Table::new(vec![two("a"), Column::floats("b", [Some(0.5)].into_iter()), two("c")]);
        let names: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!((table.rows, names), (2, vec!["a", "c"]));
        assert_eq!(Table::new(Vec::new()).rows, 0);
    }
}
