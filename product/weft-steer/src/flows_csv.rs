//! Lists of flows as CSV: `proto,src,sport,dst,dport`, and optionally `weight,rate_bps,class,core`.
//!
//! Columns are identified by their names in the first row, in any order. An empty field, or `*`, is a wildcard. Addresses may be
//! prefixes.

use crate::flow::Flow;
use core::fmt;
use csv::{ReaderBuilder, StringRecord, Trim};
use thiserror::Error;
use weft_packet::classifier::Prefix;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_text::{printable, quoted};
use weft_units::{BitsPerSec, Protocol};

/// The maximum number of flows in a list: far more than planners are made for.
const FLOWS_MAX: usize = 10_000_000;

/// An error in a list of flows.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{file}:{line}: {}{what}{}", InColumn(column), if hint.is_empty() { String::new() } else { format!("; {hint}") })]
pub struct FlowsError {
    /// The file, or another name of the text.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// The column's name; empty if the error concerns no single column.
    pub column: String,
    /// The problem.
    pub what: String,
    /// The remedy; may be empty.
    pub hint: String,
}

/// An error in a single flow.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}{what}{}", InColumn(column), if hint.is_empty() { String::new() } else { format!("; {hint}") })]
pub struct FlowError {
    /// The column's name; empty if the error concerns no single column.
    pub column: String,
    /// The problem.
    pub what: String,
    /// The remedy; may be empty.
    pub hint: String,
}

struct InColumn<'a>(&'a str);

impl fmt::Display for InColumn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "column {}: ", self.0) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Column {
    Proto,
    Src,
    Sport,
    Dst,
    Dport,
    Weight,
    Rate,
    Class,
    Core,
}

impl Column {
    const ALL: [Self; 9] = [
        Self::Proto,
        Self::Src,
        Self::Sport,
        Self::Dst,
        Self::Dport,
        Self::Weight,
        Self::Rate,
        Self::Class,
        Self::Core,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Proto => "proto",
            Self::Src => "src",
            Self::Sport => "sport",
            Self::Dst => "dst",
            Self::Dport => "dport",
            Self::Weight => "weight",
            Self::Rate => "rate_bps",
            Self::Class => "class",
            Self::Core => "core",
        }
    }

    const fn is_needed(self) -> bool {
        matches!(self, Self::Proto | Self::Src | Self::Sport | Self::Dst | Self::Dport)
    }
}

/// The columns of a five-tuple, in their usual order.
const FIVE_TUPLE: [Column; 5] = [Column::Proto, Column::Src, Column::Sport, Column::Dst, Column::Dport];

/// An error in a row whose file and line are not yet known.
struct RowError {
    /// The column's name; empty if the error concerns no single column.
    column: String,
    what: String,
    hint: &'static str,
}

impl RowError {
    fn new(what: impl Into<String>, hint: &'static str) -> Self {
        Self { column: String::new(), what: what.into(), hint }
    }

    /// Returns the error for a column.
    fn of(self, column: &str) -> Self {
        Self { column: column.to_owned(), ..self }
    }

    /// Returns the error of a flow that is not in a file.
    fn alone(self) -> FlowError {
        FlowError { column: printable(&self.column), what: printable(&self.what), hint: self.hint.to_owned() }
    }

    fn locate(self, file: &str, line: u64) -> FlowsError {
        FlowsError {
            file: printable(file),
            line,
            column: printable(&self.column),
            what: printable(&self.what),
            hint: self.hint.to_owned(),
        }
    }
}

/// Reads a list of flows. `file` names the text in errors.
///
/// # Errors
/// The first error, with its line, its column and the remedy.
pub fn read(text: &[u8], file: &str) -> Result<Vec<Flow>, FlowsError> {
    let mut reader = ReaderBuilder::new().trim(Trim::All).comment(Some(b'#')).from_reader(text);
    let of_csv = |e: csv::Error| of_csv(&e).locate(file, place(&e));
    let header = reader.headers().map_err(of_csv)?.clone();
    let header_line = header.position().map_or(1, |position| position.line().max(1));
    let columns = columns(&header).map_err(|error| error.locate(file, header_line))?;
    let mut flows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(of_csv)?;
        let line = record.position().map_or(0, csv::Position::line);
        if flows.len() >= FLOWS_MAX {
            let hint = "plan for fewer, or give them together by wildcards";
            return Err(
                RowError::new(format!("there are more than {FLOWS_MAX} flows"), hint).locate(file, line)
            );
        }
        flows.push(flow(&columns, &record).map_err(|error| error.locate(file, line))?);
    }
    Ok(flows)
}

/// Reads one flow, written as a row of the columns `proto,src,sport,dst,dport`. `None` for an empty text.
///
/// # Errors
/// The problem and the remedy.
pub fn read_flow(text: &str) -> Result<Option<Flow>, FlowError> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let mut records = reader.records();
    let Some(record) = records.next() else { return Ok(None) };
    let record = record.map_err(|error| of_csv(&error).alone())?;
    if record.len() != FIVE_TUPLE.len() {
        let what = format!("it has {} fields, not {}", record.len(), FIVE_TUPLE.len());
        return Err(RowError::new(what, "leave a field empty for a wildcard, but write its comma").alone());
    }
    if records.next().is_some() {
        return Err(RowError::new("there is more than one row", "give one flow").alone());
    }
    flow(&FIVE_TUPLE, &record).map(Some).map_err(RowError::alone)
}

/// Translates an error of the CSV reader.
fn of_csv(error: &csv::Error) -> RowError {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => RowError::new(
            format!("the row has {len} fields, the first row {expected_len}"),
            "leave a field empty for a wildcard, but write its comma",
        ),
        csv::ErrorKind::Utf8 { .. } => RowError::new("the text is not UTF-8", "save it as UTF-8"),
        _ => RowError::new(error.to_string(), ""),
    }
}

fn place(error: &csv::Error) -> u64 {
    error.position().map_or(1, |position| position.line().max(1))
}

/// Identifies the column of each field.
fn columns(header: &StringRecord) -> Result<Vec<Column>, RowError> {
    const NAMES: &str = "the first row names the columns: proto,src,sport,dst,dport and, if wanted, weight,rate_bps,class,core";
    let mut columns = Vec::new();
    for name in header {
        let name = name.trim_start_matches('\u{feff}');
        let column = Column::ALL.into_iter().find(|column| column.name() == name);
        let Some(column) = column else {
            return Err(RowError::new(format!("there is no column {}", quoted(name)), NAMES));
        };
        if columns.contains(&column) {
            return Err(RowError::new("the column occurs twice", "remove one").of(name));
        }
        columns.push(column);
    }
    let missing = Column::ALL.into_iter().find(|column| column.is_needed() && !columns.contains(column));
    match missing {
        Some(missing) => Err(RowError::new("the column is missing", NAMES).of(missing.name())),
        None => Ok(columns),
    }
}

fn flow(columns: &[Column], record: &StringRecord) -> Result<Flow, RowError> {
    let mut flow = Flow { headers: HeaderMatch::ALL, weight: 1, rate: None, class: None, core: None };
    for (column, text) in columns.iter().zip(record) {
        if text.is_empty() || text == "*" {
            continue;
        }
        field(&mut flow, *column, text).map_err(|error| error.of(column.name()))?;
    }
    let ports = flow.headers.tests(Field::SrcPort) || flow.headers.tests(Field::DstPort);
    if ports && !flow.headers.tests(Field::IpProtocol) {
        let hint = "write tcp, udp or sctp, or leave the ports empty";
        return Err(RowError::new("the flow has ports, but no protocol", hint).of(Column::Proto.name()));
    }
    Ok(flow)
}

fn field(flow: &mut Flow, column: Column, text: &str) -> Result<(), RowError> {
    match column {
        Column::Proto => flow.headers = flow.headers.exact(Field::IpProtocol, protocol(text)?.into()),
        Column::Src => flow.headers = address(flow.headers, Field::SrcIp, text)?,
        Column::Dst => flow.headers = address(flow.headers, Field::DstIp, text)?,
        Column::Sport => flow.headers = flow.headers.exact(Field::SrcPort, port(text)?.into()),
        Column::Dport => flow.headers = flow.headers.exact(Field::DstPort, port(text)?.into()),
        Column::Weight => match number(text)?.try_into() {
            Ok(weight) if weight > 0 => flow.weight = weight,
            _ => {
                let what = format!("the weight {} is not in 1 to {}", quoted(text), u32::MAX);
                return Err(RowError::new(what, "leave it empty for 1"));
            }
        },
        Column::Rate => flow.rate = Some(BitsPerSec(number(text)?)),
        Column::Class => flow.class = Some(text.to_owned()),
        Column::Core => match number(text)?.try_into() {
            Ok(core) => flow.core = Some(core),
            Err(_) => {
                let what = format!("there is no processor {}", quoted(text));
                return Err(RowError::new(what, "leave it empty if it is unknown"));
            }
        },
    }
    Ok(())
}

fn number(text: &str) -> Result<u64, RowError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ => {
            let what = format!("{} is not a whole number", quoted(text));
            Err(RowError::new(what, "write digits only, without a unit"))
        }
    }
}

fn port(text: &str) -> Result<u16, RowError> {
    match number(text).ok().and_then(|number| u16::try_from(number).ok()) {
        Some(port) => Ok(port),
        None => {
            let what = format!("{} is not a port", quoted(text));
            Err(RowError::new(what, "write 0 to 65535, or * for any"))
        }
    }
}

fn protocol(text: &str) -> Result<u8, RowError> {
    // Numbers assigned by IANA ("Protocol Numbers").
    match text.to_ascii_lowercase().as_str() {
        "tcp" => Ok(Protocol::TCP.0),
        "udp" => Ok(Protocol::UDP.0),
        "sctp" => Ok(132),
        other => match number(other).ok().and_then(|number| u8::try_from(number).ok()) {
            Some(number) => Ok(number),
            None => {
                let hint = "write tcp, udp, sctp, a number up to 255, or * for any";
                Err(RowError::new(format!("{} is not a protocol", quoted(text)), hint))
            }
        },
    }
}

fn address(headers: HeaderMatch, field: Field, text: &str) -> Result<HeaderMatch, RowError> {
    let prefix: Prefix = match text.parse() {
        Ok(prefix) => prefix,
        Err(error) => {
            let hint = "write an address, a prefix such as fd00::/8, or * for any";
            return Err(RowError::new(format!("{}: {error}", quoted(text)), hint));
        }
    };
    let with = headers.prefix(field, prefix);
    if headers.ether_type().is_some() && headers.ether_type() != with.ether_type() {
        let what = "source and destination are of two families";
        return Err(RowError::new(what, "write two IPv4 or two IPv6 addresses"));
    }
    Ok(with)
}

/// Reads arbitrary bytes as a list of flows. Terminates with flows or a one-line error. A fuzz target.
#[doc(hidden)]
pub fn fuzz_flows(data: &[u8]) {
    match read(data, "fuzz") {
        Ok(flows) => assert!(flows.iter().all(|flow| flow.weight > 0)),
        Err(error) => {
            let shown = error.to_string();
            assert!(!shown.contains('\n') && shown.starts_with("fuzz:") && error.line > 0, "{shown:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &str = "proto,src,sport,dst,dport";

    #[test]
    fn whole_rows_and_wildcards() {
        let text = "class, proto,src,sport,dst,dport,weight,rate_bps,core\n\
            hp,udp,10.0.0.1,7777,10.0.0.2,53,3,1000000,2\n\
            # a remark\n\
            ,TCP,fd00::1,1,fd00::2,443,,,\n\
            ,132,10.0.0.0/8,*,*,,,,\n";
        let flows = read(text.as_bytes(), "flows.csv").expect("read");
        assert_eq!(flows.len(), 3);
        assert_eq!(
            flows[0].headers.to_string(),
            "ether-type 0x800 ip-proto 17 src-ip 10.0.0.1 dst-ip 10.0.0.2 src-port 7777 dst-port 53"
        );
        let of = |flow: &Flow| (flow.weight, flow.rate.map(|rate| rate.0), flow.class.clone(), flow.core);
        assert_eq!(of(&flows[0]), (3, Some(1_000_000), Some("hp".to_owned()), Some(2)));
        assert_eq!(of(&flows[1]), (1, None, None, None));
        let key = flows[1].headers.flow().expect("a five-tuple");
        assert_eq!((key.protocol, key.dport), (Protocol::TCP, 443));
        assert_eq!(flows[2].headers.to_string(), "ether-type 0x800 ip-proto 132 src-ip 10.0.0.0/8");
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_column() {
        for (rows, shown) in [
            ("udp,10.0.0.1,1,10.0.0.2,65536", "f:2: column dport: `65536` is not a port; write 0 to 65535"),
            ("udp,10.0.0.1,1,10.0.0.2,53\nudq,,,,", "f:3: column proto: `udq` is not a protocol; write tcp"),
            ("udp,10.0.1,1,,", "f:2: column src: `10.0.1`: `10.0.1` is not an IPv4 or IPv6 address"),
            ("udp,10.0.0.1/24,1,,", "f:2: column src: `10.0.0.1/24`: address bits are set beyond the length"),
            ("udp,10.0.0.1,1,fd00::1,2", "f:2: column dst: source and destination are of two families"),
            (",10.0.0.1,1,,", "f:2: column proto: the flow has ports, but no protocol"),
            ("udp,10.0.0.1", "f:2: the row has 2 fields, the first row 5"),
        ] {
            let error = read(format!("{HEADER}\n{rows}\n").as_bytes(), "f").expect_err(rows).to_string();
            assert!(error.starts_with(shown), "{rows}: {error}");
        }
        for (header, shown) in [
            ("proto,src,sport,dst", "f:1: column dport: the column is missing"),
            ("proto,src,sport,dst,dport,wait", "f:1: there is no column `wait`"),
            ("proto,src,src,dst,dport", "f:1: column src: the column occurs twice"),
            ("", "f:1: column proto: the column is missing"),
        ] {
            let error = read(header.as_bytes(), "f").expect_err(header).to_string();
            assert!(error.starts_with(shown), "{header}: {error}");
        }
        let weights = format!("{HEADER},weight\nudp,,,,,0\n");
        assert!(read(weights.as_bytes(), "f").is_err_and(|e| e.to_string().contains("column weight")));
        assert!(
            read(b"proto,src,sport,dst,dport\n\xff,,,,\n", "f")
                .is_err_and(|e| e.to_string().contains("UTF-8"))
        );
    }

    #[test]
    fn one_flow_is_read_as_a_row_of_a_list() {
        let text = "udp, 10.0.0.1,\"7777\",10.0.0.0/24,*";
        let list = read(format!("{HEADER}\n{text}\n").as_bytes(), "f").expect("read");
        assert_eq!(read_flow(text).expect("read").as_ref(), list.first());
        assert_eq!(read_flow(""), Ok(None));
        for (text, shown) in [
            ("udp", "it has 1 fields, not 5; leave a field empty"),
            ("udp,,,,53\nudp,,,,54", "there is more than one row; give one flow"),
            ("xyz,1.2.3.4,5,1.2.3.4,6", "column proto: `xyz` is not a protocol; write tcp"),
            (",10.0.0.1,1,,", "column proto: the flow has ports, but no protocol"),
        ] {
            let error = read_flow(text).expect_err(text).to_string();
            assert!(error.starts_with(shown), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_ends(rows in proptest::collection::vec("[tcpud*0-9.:/,\"\n #é-]{0,40}", 0..6), raw in proptest::collection::vec(any::<u8>(), 0..80)) {
            fuzz_flows(format!("{HEADER}\n{}", rows.join("\n")).as_bytes());
            fuzz_flows(&raw);
        }
    }
}
