//! `weftline.replay`: the order in which packets leave, for arrays of them.

use crate::background::interruptible;
use crate::export::Table;
use crate::failure::Failure;
use crate::input::rate;
use crate::policy::Policy;
use crate::table::{self, Column};
use core::net::{IpAddr, Ipv4Addr};
use pyo3::buffer::{Element, PyUntypedBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_policy::CompiledPolicy;
use weft_replay::{ReplayArrival, ReplayError, ReplayOptions, ReplayOrder, order};
use weft_text::{hint_and_all, quoted};
use weft_units::{Bytes, ClassId, FlowKey, LaneId, Nanos, PacketMeta, Protocol};

/// The columns of arrivals.
const COLUMNS: [&str; 12] = [
    "time_ns", "bytes", "class", "flow", "src", "dst", "sport", "dport", "protocol", "mark", "priority",
    "dscp",
];
/// Other words for them.
const SYNONYMS: [(&str, &str); 8] = [
    ("time", "time_ns"),
    ("at", "time_ns"),
    ("size", "bytes"),
    ("length", "bytes"),
    ("len", "bytes"),
    ("proto", "protocol"),
    ("source", "src"),
    ("destination", "dst"),
];

/// The result of `replay`: the departures as a table, the numbers of dropped packets by reason, the link's rate, the number of late
/// packets, and that of packets of flows beyond the bound.
type Replayed = (Table, BTreeMap<&'static str, Vec<usize>>, u64, u64, u64);

/// Schedules packets by a policy. `arrivals` has a column by each name.
#[pyfunction]
pub(crate) fn replay(
    py: Python<'_>,
    policy: &Bound<'_, Policy>,
    arrivals: &Bound<'_, PyDict>,
    link: Option<&Bound<'_, PyAny>>,
    port: String,
    flows_per_class: usize,
) -> PyResult<Replayed> {
    let policy = Arc::clone(&policy.get().compiled);
    let link = link.map(rate).transpose()?;
    let arrivals = Arrivals::read(&policy, arrivals)?;
    let work = move || {
        let options = ReplayOptions { rate: link, flows_per_class, port: &port, progress: None };
        let all = (0..arrivals.len()).map(|at| arrivals.get(at));
        order(&policy, all, options).map(|order| (departures(&policy, &order), order))
    };
    let (table, order) = interruptible(py, work)?.map_err(|error| match error {
        ReplayError::NoRate => {
            let help = "give link=\"10gbps\", or begin the policy with `link 10gbps`";
            Failure::plain("the policy has no link rate", help)
        }
        other => Failure::plain(other, ""),
    })?;
    Ok((Table::new(table), order.dropped, order.link.get(), order.late, order.overflow_packets))
}

/// The departures as a table.
fn departures(policy: &CompiledPolicy, order: &ReplayOrder) -> table::Table {
    let of = |value: u64| i64::try_from(value).ok();
    let class =
        |lane: LaneId| policy.program.lanes.get(lane.index()).and_then(|lane| of(lane.class.index() as u64));
    let all = || order.departed.iter();
    table::Table::new(vec![
        Column::integers("packet", all().map(|departed| of(departed.packet as u64))),
        Column::integers("class", all().map(|departed| class(departed.lane))),
        Column::integers("start_ns", all().map(|departed| of(departed.start.get()))),
        Column::integers("end_ns", all().map(|departed| of(departed.end.get()))),
    ])
}

/// The greatest time of an arrival, so that departures are 64-bit numbers too.
const TIME_MAX: u64 = 1 << 62;

/// The columns of arrivals, all of one length; those that were not given are `None`.
struct Arrivals {
    times: Vec<u64>,
    bytes: Vec<u64>,
    classes: Option<Vec<u64>>,
    flows: Option<Vec<u64>>,
    /// Source, destination and protocol, which come together.
    ends: Option<(Vec<IpAddr>, Vec<IpAddr>, Vec<u64>)>,
    sports: Option<Vec<u64>>,
    dports: Option<Vec<u64>>,
    marks: Option<Vec<u64>>,
    priorities: Option<Vec<u64>>,
    dscps: Option<Vec<u64>>,
}

impl Arrivals {
    fn read(policy: &CompiledPolicy, given: &Bound<'_, PyDict>) -> Result<Self, Failure> {
        for name in given.keys() {
            let name: String = name.extract()?;
            if !COLUMNS.contains(&name.as_str()) {
                let help = hint_and_all(&name, &COLUMNS, &SYNONYMS);
                return Err(Failure::plain(format_args!("arrivals have no column {}", quoted(&name)), &help));
            }
        }
        let get = |name: &str| given.get_item(name);
        let column = |name: &'static str, most: u64| -> Result<Option<Vec<u64>>, Failure> {
            get(name)?.map(|values| numbers(&values, name, most)).transpose()
        };
        let need = |name: &'static str, most: u64| -> Result<Vec<u64>, Failure> {
            let lacks = || Failure::plain(format_args!("arrivals lack the column `{name}`"), NEEDED);
            column(name, most)?.ok_or_else(lacks)
        };
        let address = |name: &'static str| -> Result<Option<Vec<IpAddr>>, Failure> {
            get(name)?.map(|values| addresses(&values, name)).transpose()
        };
        let ends = match (address("src")?, address("dst")?, column("protocol", 0xff)?) {
            (None, None, None) => None,
            (Some(src), Some(dst), Some(protocol)) => Some((src, dst, protocol)),
            _ => return Err(Failure::plain("the columns `src`, `dst` and `protocol` come together", NEEDED)),
        };
        let mixed = ends.as_ref().and_then(|(src, dst, _)| {
            src.iter().zip(dst).position(|(src, dst)| src.is_ipv4() != dst.is_ipv4())
        });
        if let Some(at) = mixed {
            let what = format!("packet {at}: `src` and `dst` are of two families");
            return Err(Failure::plain(what, "write both as IPv4, or both as IPv6"));
        }
        let classes = get("class")?.map(|values| classes(policy, &values)).transpose()?;
        let arrivals = Self {
            times: need("time_ns", TIME_MAX)?,
            bytes: need("bytes", u64::from(u32::MAX))?,
            classes,
            flows: column("flow", u64::MAX)?,
            ends,
            sports: column("sport", 0xffff)?,
            dports: column("dport", 0xffff)?,
            marks: column("mark", u64::from(u32::MAX))?,
            priorities: column("priority", u64::from(u32::MAX))?,
            dscps: column("dscp", 63)?,
        };
        arrivals.check_lengths()?;
        Ok(arrivals)
    }

    fn check_lengths(&self) -> Result<(), Failure> {
        let Self { bytes, classes, flows, ends, sports, dports, marks, priorities, dscps, .. } = self;
        let of = |name, column: &Option<Vec<u64>>| column.as_ref().map(|column| (name, column.len()));
        let src = ends.as_ref().map(|(src, ..)| ("src", src.len()));
        let dst = ends.as_ref().map(|(_, dst, _)| ("dst", dst.len()));
        let protocol = ends.as_ref().map(|(.., protocol)| ("protocol", protocol.len()));
        let all = [Some(("bytes", bytes.len())), src, dst, protocol, of("class", classes), of("flow", flows)];
        let more = [of("sport", sports), of("dport", dports), of("mark", marks)];
        let rest = [of("priority", priorities), of("dscp", dscps)];
        let mut lengths = all.into_iter().chain(more).chain(rest).flatten();
        match lengths.find(|(_, length)| *length != self.len()) {
            None => Ok(()),
            Some((name, length)) => {
                let what =
                    format!("the column `{name}` has {length} values, and `time_ns` has {}", self.len());
                Err(Failure::plain(what, "give a value for each packet"))
            }
        }
    }

    fn len(&self) -> usize {
        self.times.len()
    }

    /// The packet with this number.
    fn get(&self, at: usize) -> ReplayArrival {
        let of = |column: &Option<Vec<u64>>| column.as_ref().map_or(0, |column| column[at]);
        let key = self.ends.as_ref().map(|(src, dst, protocol)| FlowKey {
            src: src[at],
            dst: dst[at],
            sport: of(&self.sports) as u16,
            dport: of(&self.dports) as u16,
            protocol: Protocol(protocol[at] as u8),
        });
        ReplayArrival {
            at: Nanos(self.times[at]),
            len: Bytes(self.bytes[at]),
            meta: PacketMeta {
                key,
                mark: of(&self.marks) as u32,
                priority: of(&self.priorities) as u32,
                traffic_class: (of(&self.dscps) as u8) << 2,
                ..PacketMeta::default()
            },
            class: self.classes.as_ref().map(|classes| ClassId::from_index(classes[at] as usize)),
            flow: self.flows.as_ref().map(|flows| flows[at]),
        }
    }
}

/// The columns that there must be.
const NEEDED: &str = "needed are time_ns and bytes; packets have a `class`, or `src`, `dst` and `protocol` with `sport` and `dport`";

/// The reader of a column of whole numbers, and its errors.
#[derive(Clone, Copy)]
struct Numbers {
    name: &'static str,
    most: u64,
}

/// Reads whole numbers from 0 to `most`: an array, or a sequence.
fn numbers(given: &Bound<'_, PyAny>, name: &'static str, most: u64) -> Result<Vec<u64>, Failure> {
    let numbers = Numbers { name, most };
    match PyUntypedBuffer::get(given) {
        Ok(buffer) => numbers.of_buffer(given.py(), &buffer),
        Err(_) => numbers.of_sequence(given),
    }
}

/// The remedy for numbers of another kind.
const WHOLE: &str = "times are whole nanoseconds: (seconds * 1e9).astype(\"int64\") makes them of seconds";

impl Numbers {
    fn of_sequence(self, given: &Bound<'_, PyAny>) -> Result<Vec<u64>, Failure> {
        let mut values = Vec::new();
        for (at, value) in given.try_iter()?.enumerate() {
            let value = value?;
            let number = value.extract::<i128>().map_err(|_| {
                let what = format!("column `{}`: value {at} is no whole number: {value}", self.name);
                Failure::plain(what, WHOLE)
            })?;
            values.push(self.check(at, number)?);
        }
        Ok(values)
    }

    /// Reads an array of any type of whole numbers.
    fn of_buffer(self, py: Python<'_>, buffer: &PyUntypedBuffer) -> Result<Vec<u64>, Failure> {
        if buffer.dimensions() != 1 {
            let what = format!("column `{}` has {} dimensions", self.name, buffer.dimensions());
            return Err(Failure::plain(what, "give an array with one"));
        }
        let readers = [
            Self::typed::<i64>,
            Self::typed::<u64>,
            Self::typed::<i32>,
            Self::typed::<u32>,
            Self::typed::<i16>,
            Self::typed::<u16>,
            Self::typed::<i8>,
            Self::typed::<u8>,
        ];
        readers.iter().find_map(|read| read(self, py, buffer)).unwrap_or_else(|| {
            let format = buffer.format().to_string_lossy();
            let what = format!("column `{}`: `{format}` is no type of whole numbers", self.name);
            Err(Failure::plain(what, WHOLE))
        })
    }

    /// Reads an array of values of a type; `None` if it is of another.
    fn typed<T: Element + Into<i128>>(
        self,
        py: Python<'_>,
        buffer: &PyUntypedBuffer,
    ) -> Option<Result<Vec<u64>, Failure>> {
        let values = buffer.as_typed::<T>().ok()?.to_vec(py).map_err(Failure::from);
        Some(values.and_then(|values| {
            values.into_iter().enumerate().map(|(at, value)| self.check(at, value.into())).collect()
        }))
    }

    fn check(self, at: usize, value: i128) -> Result<u64, Failure> {
        let Self { name, most } = self;
        u64::try_from(value).ok().filter(|value| *value <= most).ok_or_else(|| {
            let what = format!("column `{name}`: value {at} is {value}");
            Failure::plain(what, &format!("values are from 0 to {most}"))
        })
    }
}

/// Reads addresses: numbers of IPv4, or texts.
fn addresses(given: &Bound<'_, PyAny>, name: &'static str) -> Result<Vec<IpAddr>, Failure> {
    let first = given.get_item(0);
    if first.is_ok_and(|first| first.is_instance_of::<PyString>()) {
        let mut found = Vec::new();
        for (at, value) in given.try_iter()?.enumerate() {
            let text: String = value?.extract()?;
            found.push(text.parse().map_err(|_| {
                let what = format!("column `{name}`: value {at}, {}, is no address", quoted(&text));
                Failure::plain(what, "such as 192.0.2.1 or 2001:db8::1")
            })?);
        }
        return Ok(found);
    }
    let values = numbers(given, name, u64::from(u32::MAX))?;
    Ok(values.into_iter().map(|value| Ipv4Addr::from(value as u32).into()).collect())
}

/// Reads classes: their numbers, or their names.
fn classes(policy: &CompiledPolicy, given: &Bound<'_, PyAny>) -> Result<Vec<u64>, Failure> {
    let known: Vec<&str> = policy.classes.iter().map(|class| class.name.as_str()).collect();
    let named = given.get_item(0).is_ok_and(|first| first.is_instance_of::<PyString>());
    if !named {
        return numbers(given, "class", known.len().saturating_sub(1) as u64);
    }
    let mut found = Vec::new();
    for (at, value) in given.try_iter()?.enumerate() {
        let text: String = value?.extract()?;
        let number = known.iter().position(|name| *name == text).ok_or_else(|| {
            let what = format!("column `class`: value {at}, {}, is no class of the policy", quoted(&text));
            Failure::plain(what, &hint_and_all(&text, &known, &[]))
        })?;
        found.push(number as u64);
    }
    Ok(found)
}
