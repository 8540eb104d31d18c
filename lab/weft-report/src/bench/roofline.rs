//! The document of `weft bench roofline`: the cost of a packet in the engine, and what limits it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::svg::{Line, LogChart, Stroke};
use weft_facts::human;
use weft_facts::record::{Document, Host};
use weft_facts::table::{Cell, Column, Table};

/// The document of `weft bench roofline`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RooflineReport {
    /// `weft-bench-roofline/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The seed of all random choices.
    pub seed: u64,
    /// The caches and the memory, from the nearest.
    pub memory: Vec<Memory>,
    /// The measurements, series by series.
    pub points: Vec<Point>,
}

/// A cache, or the memory behind all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// `L1`, `L2` ... or `memory`.
    pub name: String,
    /// Its size; null of the memory.
    pub bytes: Option<u64>,
    /// The time of a load whose address the load before it read.
    pub load_s: f64,
}

impl Memory {
    /// The nearest of `all` into which as many bytes fit.
    pub fn of(all: &[Memory], bytes: u64) -> Option<&Memory> {
        all.iter().find(|memory| memory.bytes.is_none_or(|size| bytes <= size))
    }
}

/// The work of a packet, by the processor's counters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Instructions.
    pub instructions: f64,
    /// Cycles.
    pub cycles: f64,
    /// Misses of the last cache that the processor counts.
    pub misses: f64,
}

/// A measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The series: `flows`, `depth`, `limits` or `burst`.
    #[schemars(extend("enum" = ["flows", "depth", "limits", "burst"]))]
    pub series: String,
    /// The number in it: of flows, levels, limits that bind, or packets in a burst.
    pub value: u32,
    /// Number of flows.
    pub flows: u32,
    /// Median time of a packet: an enqueue and a dequeue.
    pub packet_s: f64,
    /// The times of all runs.
    pub runs_packet_s: Vec<f64>,
    /// The bytes of the records that the loop goes through.
    pub records_bytes: u64,
    /// The lines of records that a packet touches and that nothing has just touched.
    pub lines: f64,
    /// The nearest cache into which the records fit, or the memory; null if none was measured.
    pub memory: Option<String>,
    /// The time of a load from it.
    pub line_s: Option<f64>,
    /// The times that a lane was parked by a limit, by packet.
    pub parkings_per_packet: f64,
    /// Instructions, cycles and misses; null on a machine without counters.
    pub work: Option<Work>,
    /// The limit of the speed.
    pub limited_by: String,
    /// The loads that were under way at once, where these limit: their time one after the other, by the time beyond that of the
    /// series' fastest point.
    pub loads_at_once: Option<f64>,
}

/// The part of a packet's time from which on something counts as its limit.
const COUNTS: f64 = 0.25;
/// The parkings for each packet from which on their instructions may be the limit.
const PARKS: f64 = 0.1;

impl Point {
    /// Says what limits each point of a series: by the counters where there are some, and else by the model.
    pub fn conclude(points: &mut [Point]) {
        let fastest = points.iter().map(|point| point.packet_s).fold(f64::INFINITY, f64::min);
        let pace = |work: &Work| work.instructions / work.cycles;
        let best = points.iter().filter_map(|point| point.work.as_ref()).map(pace).fold(0.0, f64::max);
        for point in points {
            let one_by_one = point.lines * point.line_s.unwrap_or(0.0);
            let rest = point.packet_s - fastest;
            let memory = point.memory.clone().unwrap_or_else(|| "memory".to_owned());
            let near = memory == "L1" || point.line_s.is_none();
            let slow = rest >= COUNTS * point.packet_s && one_by_one >= COUNTS * point.packet_s && !near;
            point.limited_by = match &point.work {
                // Instructions at the best pace of the series, and what is above it are waits.
                Some(work) if work.instructions / best >= (1.0 - COUNTS) * work.cycles => {
                    "instructions".to_owned()
                }
                Some(_) if near => "instructions that wait for each other, or branches".to_owned(),
                Some(_) => memory,
                None if slow && point.parkings_per_packet >= PARKS => {
                    format!("instructions of parking, or {memory}: not told apart without counters")
                }
                None if slow => memory,
                None => "instructions".to_owned(),
            };
            point.loads_at_once =
                (slow && rest > 0.0 && point.parkings_per_packet < PARKS).then(|| one_by_one / rest);
        }
    }
}

impl RooflineReport {
    /// The times of the series over flows, beside those of its loads one by one, as an SVG file.
    pub fn chart(&self) -> String {
        let flows: Vec<&Point> = self.points.iter().filter(|point| point.series == "flows").collect();
        let line = |name: &str, colour, stroke, of: fn(&Point) -> Option<f64>| {
            let points = flows.iter().filter_map(|p| Some((f64::from(p.value), of(p)? * 1e9))).collect();
            Line { name: name.to_owned(), colour, stroke, points }
        };
        let chart = LogChart {
            title: "nanoseconds of a packet over the number of flows".to_owned(),
            x: flows.iter().map(|point| f64::from(point.value)).collect(),
            y: vec![1.0, 10.0, 100.0, 1000.0, 10_000.0],
            lines: vec![
                line("measured", 0, Stroke::Solid, |point| Some(point.packet_s)),
                line("its loads one after the other", 1, Stroke::Dashed, |point| {
                    Some(point.lines * point.line_s?)
                }),
                line("one load", 2, Stroke::Dotted, |point| point.line_s),
            ],
        };
        chart.render()
    }

    fn table_of_memory(&self) -> Table {
        let mut table = Table::new("Loads, one after the other").columns([
            Column::left("from"),
            Column::right("size"),
            Column::right("time"),
        ]);
        for memory in &self.memory {
            table.row([
                Cell::plain(&memory.name),
                human::or_none(memory.bytes, |bytes| human::bytes(bytes as f64)).into(),
                nanos(memory.load_s).into(),
            ]);
        }
        table
    }
}

/// Nanoseconds with a decimal, since a load takes few.
fn nanos(seconds: f64) -> String {
    format!("{:.1} ns", seconds * 1e9)
}

impl Document for RooflineReport {
    const SCHEMA: &'static str = "weft-bench-roofline/1";

    fn tables(&self) -> Vec<Table> {
        let mut table = Table::new("Cost of a packet").columns([
            Column::left("series"),
            Column::right("value"),
            Column::right("packet"),
            Column::right("records"),
            Column::left("fit into"),
            Column::right("loads one by one"),
            Column::right("at once"),
            Column::right("instructions"),
            Column::right("per cycle"),
            Column::right("parkings"),
            Column::left("limited by"),
        ]);
        for point in &self.points {
            let each = point.line_s.map(|load| load * point.lines);
            table.row([
                Cell::plain(&point.series),
                point.value.to_string().into(),
                nanos(point.packet_s).into(),
                human::bytes(point.records_bytes as f64).into(),
                point.memory.as_deref().unwrap_or(human::NONE).into(),
                human::or_none(each, nanos).into(),
                human::or_none(point.loads_at_once, |loads| format!("{loads:.1}")).into(),
                human::or_none(point.work, |work| format!("{:.0}", work.instructions)).into(),
                human::or_none(point.work, |work| format!("{:.2}", work.instructions / work.cycles)).into(),
                format!("{:.2}", point.parkings_per_packet).into(),
                Cell::plain(&point.limited_by),
            ]);
        }
        if self.points.iter().all(|point| point.work.is_none()) {
            table.note("This machine has no counters of instructions and cycles.");
        }
        vec![self.table_of_memory(), table]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(value: u32, packet_ns: f64, memory: &str, line_ns: f64) -> Point {
        Point {
            series: "flows".to_owned(),
            value,
            flows: value,
            packet_s: packet_ns * 1e-9,
            runs_packet_s: vec![packet_ns * 1e-9],
            records_bytes: u64::from(value) * 92,
            lines: 6.0,
            memory: Some(memory.to_owned()),
            line_s: Some(line_ns * 1e-9),
            parkings_per_packet: 0.0,
            work: None,
            limited_by: String::new(),
            loads_at_once: None,
        }
    }

    #[test]
    fn the_limit_is_named_by_the_model_without_counters() {
        let mut points = [
            point(10, 100.0, "L1", 1.5),
            point(1000, 110.0, "L2", 5.0),
            point(1 << 20, 400.0, "memory", 120.0),
        ];
        Point::conclude(&mut points);
        assert_eq!(
            points.each_ref().map(|point| point.limited_by.as_str()),
            ["instructions", "instructions", "memory"]
        );
        assert!(points[2].loads_at_once.is_some_and(|loads| (loads - 2.4).abs() < 1e-9), "{:?}", points[2]);
        points[2].parkings_per_packet = 1.0;
        Point::conclude(&mut points);
        assert!(points[2].limited_by.contains("not told apart") && points[2].loads_at_once.is_none());
    }

    #[test]
    fn the_limit_is_named_by_counters() {
        let mut points = [point(10, 100.0, "L1", 1.5), point(1 << 20, 400.0, "L3", 20.0)];
        for (point, cycles) in points.iter_mut().zip([200.0, 800.0]) {
            point.work = Some(Work { instructions: 800.0, cycles, misses: 0.0 });
        }
        Point::conclude(&mut points);
        assert_eq!(points.each_ref().map(|point| point.limited_by.as_str()), ["instructions", "L3"]);
    }
}
