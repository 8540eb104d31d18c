//! `kernel-tcp --measured`: this machine's kernel TCP through the bottleneck, for comparison with the simulated one.

use super::{MeasuringOptions, ReproduceError};
use crate::experiments::kernel_tcp::{self, Bottleneck, KernelTcpError};
use weft_packet::ethernet;
use weft_report::reproduce::Experiment;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The experiment's id.
pub(super) const ID: &str = "kernel-tcp";
/// The number of cells: two FIFOs, three numbers of flows.
pub(super) const CELLS: usize = 6;
/// The rate in experiments/scenarios/kernel-tcp.toml.
const RATE: BitsPerSec = BitsPerSec(200_000_000);
const MTU: u32 = 1500;
/// The rows, and the lengths of their FIFOs.
const ROWS: [(&str, Bytes); 2] = [("fifo-500KB", Bytes(500_000)), ("fifo-100KB", Bytes(100_000))];

/// The fraction of link time, lost to a busy machine, from which a note reports it.
const WORTH_SAYING: f64 = 0.02;

/// Measures all cells, and replaces measured values of another machine.
pub(super) fn fill(
    experiment: &mut Experiment,
    how: &MeasuringOptions,
    runs: u32,
    cancelled: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(usize),
) -> Result<(), ReproduceError> {
    let mut flows: Vec<u32> = experiment.cells.iter().map(|cell| cell.flows).collect();
    flows.sort_unstable();
    flows.dedup();
    let (mut done, mut lost) = (0, 0.0_f64);
    for (row, queue) in ROWS {
        for &flows in &flows {
            let (mut goodputs, mut delays) = (Vec::new(), Vec::new());
            for _ in 0..runs {
                if cancelled() {
                    return Err(ReproduceError::Stopped);
                }
                let run = measure(queue, flows, how.measure.settings.duration)?;
                goodputs.push(run.goodput_mbps);
                delays.push(run.delay_ms);
                lost = lost.max(run.link_lost);
                done += 1;
                progress(done);
            }
            for (column, values) in [("goodput_mbps", goodputs), ("queue_delay_ms", delays)] {
                let mut cells = experiment.cells.iter_mut();
                let here = cells.find(|cell| cell.row == row && cell.column == column && cell.flows == flows);
                if let Some(cell) = here {
                    cell.take_measured(values);
                }
            }
        }
    }
    if lost > WORTH_SAYING {
        experiment.notes.push(format!(
            "measured: in one run the machine left {:.1} % of the link unused while packets waited; run it on an idle machine",
            100.0 * lost
        ));
    }
    Ok(())
}

/// The figures of a run.
struct Run {
    goodput_mbps: f64,
    /// The time on the wire of the mean backlog, in milliseconds.
    delay_ms: f64,
    link_lost: f64,
}

fn measure(queue: Bytes, flows: u32, duration: Nanos) -> Result<Run, ReproduceError> {
    let bottleneck = Bottleneck {
        rate: RATE,
        queue,
        delay: Nanos::ZERO,
        flows,
        duration,
        congestion_control: "cubic".to_owned(),
        mtu: MTU,
    };
    let seen = kernel_tcp::measure(&bottleneck, &mut |_| ()).map_err(|error| match error {
        KernelTcpError::Rights(missing) => {
            ReproduceError::NotHere { id: ID.to_owned(), reason: missing.to_string() }
        }
        other => ReproduceError::Native { id: ID.to_owned(), reason: other.to_string() },
    })?;
    let frame = ethernet::frame_of(Bytes(MTU.into()));
    let wire = ethernet::wire_of(frame).get() as f64 / frame.get() as f64;
    let delay_ms = seen.standing_queue.mean * wire * 8e3 / RATE.get() as f64;
    Ok(Run { goodput_mbps: seen.throughput.get() as f64 / 1e6, delay_ms, link_lost: seen.link_lost })
}
