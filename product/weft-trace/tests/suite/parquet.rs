//! Tables as Parquet, read back by the crate's own reader. `make test-traces` reads them with pyarrow.
#![cfg(feature = "parquet")]

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use proptest::prelude::*;
use weft_trace::departures::{self, DepartureTable, TraceDeparture};
use weft_trace::table::{CellValue, ColumnKind, TableFormat, TableWriter, TypedColumn};
use weft_units::{Bytes, FlowKey, Nanos, Protocol, TxQueueId};

/// All fields of all rows.
fn read(file: Vec<u8>) -> (Vec<Vec<Field>>, Vec<(String, String)>) {
    let reader = SerializedFileReader::new(bytes(file)).expect("a Parquet file");
    let metadata = reader.metadata().file_metadata();
    let pairs = metadata.key_value_metadata().expect("metadata").iter();
    let pairs = pairs.map(|pair| (pair.key.clone(), pair.value.clone().unwrap_or_default())).collect();
    let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row"));
    (rows.map(|row| row.get_column_iter().map(|(_, field)| field.clone()).collect()).collect(), pairs)
}

fn bytes(file: Vec<u8>) -> std::fs::File {
    use std::io::{Seek, Write};
    let mut copy = tempfile::tempfile().expect("file");
    copy.write_all(&file).expect("write");
    copy.rewind().expect("rewind");
    copy
}

fn expected(cell: &CellValue<'_>) -> Field {
    match cell {
        CellValue::None => Field::Null,
        CellValue::Whole(value) => Field::ULong(*value),
        CellValue::Real(value) => Field::Double(*value),
        CellValue::Truth(value) => Field::Bool(*value),
        CellValue::Text(text) => Field::Str((*text).to_owned()),
    }
}

proptest! {
    #[test]
    fn rows_come_back(
        rows in prop::collection::vec((any::<u64>(), prop::option::of(-1e300..1e300), prop::option::of(".{0,9}"), any::<bool>()), 0..300),
    ) {
        let columns = vec![
            TypedColumn::new("at_ns", ColumnKind::Whole),
            TypedColumn::optional("share", ColumnKind::Real),
            TypedColumn::optional("class", ColumnKind::Text),
            TypedColumn::new("last", ColumnKind::Truth),
        ];
        let mut table = TableWriter::new(Vec::new(), TableFormat::Parquet, "test/1", columns).expect("memory");
        let cells = |row: &'_ (u64, Option<f64>, Option<String>, bool)| -> [CellValue<'static>; 4] {
            let text = row.2.clone().map(|text| &*text.leak());
            [row.0.into(), row.1.map_or(CellValue::None, CellValue::Real), text.into(), CellValue::Truth(row.3)]
        };
        let mut written = Vec::new();
        for row in &rows {
            let cells = cells(row);
            table.row(&cells).expect("memory");
            written.push(cells.iter().map(expected).collect::<Vec<_>>());
        }
        let (read, metadata) = read(table.finish().expect("memory"));
        prop_assert_eq!(read, written);
        prop_assert_eq!(metadata, [("schema".to_owned(), "test/1".to_owned())]);
    }
}

#[test]
fn departures_fill_several_row_groups() {
    let mut table = DepartureTable::new(Vec::new(), TableFormat::Parquet).expect("memory");
    let key = FlowKey {
        src: "192.0.2.1".parse().expect("address"),
        dst: "2001:db8::1".parse().expect("address"),
        sport: 7,
        dport: 443,
        protocol: Protocol::TCP,
    };
    let departure = |i: u64| TraceDeparture {
        host: 0,
        queue: TxQueueId(i as u32 % 8),
        class: (!i.is_multiple_of(3)).then_some("web"),
        flow: i % 5,
        key: (!i.is_multiple_of(4)).then_some(key),
        number: None,
        arrival: Some(Nanos(i * 100)),
        start: Nanos(i * 120),
        end: Nanos(i * 120 + 119),
        packets: 2,
        wire: Bytes(3076),
        last: i % 2 == 1,
    };
    let count = 150_000;
    (0..count).for_each(|i| table.write(&departure(i)).expect("memory"));
    assert_eq!(table.rows(), count);
    let file = table.finish().expect("memory");
    assert!(file.len() < 1_500_000, "{} bytes for {count} rows", file.len());
    let reader = SerializedFileReader::new(bytes(file)).expect("a Parquet file");
    assert_eq!(reader.num_row_groups(), 3);
    let fields =
        reader.metadata().file_metadata().schema_descr().columns().iter().map(|c| c.name().to_owned());
    assert_eq!(
        fields.collect::<Vec<_>>(),
        departures::columns().into_iter().map(|c| c.name).collect::<Vec<_>>()
    );
    let last = reader.get_row_iter(None).expect("rows").last().expect("one").expect("a row");
    let text = last.to_string();
    assert!(text.contains("class: null") || text.contains("class: \"web\""), "{text}");
    assert!(text.contains("destination: \"2001:db8::1\"") && text.contains("start_ns: 17999880"), "{text}");
}
