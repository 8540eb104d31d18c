//! The paths of `weft reproduce --measured`: the software NIC as a plain multiqueue NIC, with Titan attached to its port.

use super::path::{MeasuredPath, PathError, WireDeparture, WireLog};
use super::settings::{Assignment, InnerQdisc, RunSettings};
use core::net::IpAddr;
use weft_host::{Cgroup, Hierarchy, NetNs, RunId};
use weft_nic::multiqueue::{self, Multiqueue};
use weft_nic::nic::SoftwareNic;
use weft_nic::testbed::{RECEIVER, Testbed};
use weft_packet::Match;
use weft_sched::queues;
use weft_titan::device::Titan;
use weft_titan::settings::{Parts, Pool, Settings};
use weft_titan::weights::{WeightRow, WeightTable};
use weft_units::{Nanos, Packets, TxQueueId, Weight};

/// The port's name in the sender.
const PORT: &str = "port0";
/// Packets that a ring holds: two super-packets each of hundreds of flows.
const RING_PACKETS: u32 = 2000;
/// Initial capacity of the log in departures per second: 16 KB pieces at 2 Gb/s. The log grows beyond it.
const DEPARTURES_PER_SECOND: u64 = 16_000;
/// Time limit for the NIC to drain at the end.
const GRACE: Nanos = Nanos::from_secs(2);

/// A NIC between two namespaces, with queue assignment at its port. Dropped in this order.
struct NicPath {
    titan: Attached,
    nic: SoftwareNic,
    cgroups: Vec<Cgroup>,
    testbed: Testbed,
}

/// Queue assignment at the port; detached when the value is dropped.
struct Attached(Option<Titan>);

impl Attached {
    fn detach(mut self) -> Result<(), PathError> {
        self.0.take().map_or(Ok(()), |titan| Ok(titan.detach()?))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(titan) = self.0.take() {
            // A failure is no loss: the attachment ends with its device.
            let _ = titan.detach();
        }
    }
}

/// Makes a path through the software NIC with [`RunSettings::queues`] queues.
///
/// # Errors
/// Fails when a device, the eBPF programs or a cgroup cannot be made.
pub fn open(settings: &RunSettings) -> Result<Box<dyn MeasuredPath>, PathError> {
    let testbed = Testbed::create("ttn")?;
    let seconds = (settings.warm_up + settings.duration).as_secs_f64().ceil() as u64;
    let wanted = Multiqueue {
        queues: settings.queues,
        inner: match settings.inner {
            InnerQdisc::Pfifo => queues::Inner::Fifo,
            InnerQdisc::Sfq => queues::Inner::Fair,
        },
        ring_packets: RING_PACKETS,
        departures: Some((seconds * DEPARTURES_PER_SECOND) as usize),
        ..Multiqueue::new(settings.rate)
    };
    let nic = multiqueue::start(&testbed, &wanted)?;
    let weights = settings.weights.as_deref().unwrap_or_default();
    let cgroups = cgroups(weights.len())?;
    let mut path = NicPath { titan: Attached(None), nic, cgroups, testbed };
    if settings.config.assignment() != Assignment::Hash {
        let titan = attached(settings, weights, &path.cgroups)?;
        let titan = Titan::attach(&path.testbed.sender, PORT, &titan)?;
        path.titan = Attached(Some(titan));
    }
    Ok(Box::new(path))
}

/// Makes a cgroup for each group of weights.
fn cgroups(groups: usize) -> Result<Vec<Cgroup>, PathError> {
    if groups == 0 {
        return Ok(Vec::new());
    }
    let hierarchy = Hierarchy::detect()?;
    let name = |group| RunId::current().name(&format!("weight{group}"));
    (0..groups).map(|group| Ok(hierarchy.create(&name(group))?)).collect()
}

/// Returns our settings for a configuration of the papers.
fn attached(settings: &RunSettings, weights: &[Weight], cgroups: &[Cgroup]) -> Result<Settings, PathError> {
    let assignment = settings.config.assignment();
    let parts = Parts {
        dqa: matches!(assignment, Assignment::Dynamic | Assignment::DynamicInPool),
        dqwa: settings.config.queue_weights(),
        dsos: settings.config.segment_sizes(),
    };
    let pool = match assignment {
        Assignment::Pool | Assignment::DynamicInPool => Pool::Given(pools(settings.queues)),
        Assignment::Hash | Assignment::Dynamic => Pool::All,
    };
    Ok(Settings {
        parts,
        pool,
        weights: table(weights, cgroups)?,
        segment: settings.segment_bytes,
        segment_all: settings.segment_all,
        update_interval: settings.update_interval,
        ..Settings::default()
    })
}

/// Returns each core's queues as in a driver's default XPS map: queue q belongs to core q modulo cores. With fewer
/// queues than cores, cores share them.
fn pools(queues: u16) -> Vec<Vec<TxQueueId>> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let queues = u32::from(queues);
    let of = |core: u32| (0..queues).filter(move |queue| queue % cores == core || core % queues == *queue);
    (0..cores).map(|core| of(core).map(TxQueueId).collect()).collect()
}

fn table(weights: &[Weight], cgroups: &[Cgroup]) -> Result<WeightTable, PathError> {
    if weights.is_empty() {
        return Ok(WeightTable::default());
    }
    let root = Hierarchy::detect()?;
    let path = |cgroup: &Cgroup| {
        let below = cgroup.path().strip_prefix(root.mount_point()).unwrap_or(cgroup.path());
        below.to_string_lossy().into_owned()
    };
    let row = |(group, weight): (usize, &Weight)| WeightRow {
        matcher: Match { cgroup: Some(group as u8), ..Match::default() },
        weight: *weight,
    };
    let mut rows: Vec<WeightRow> = weights.iter().enumerate().map(row).collect();
    rows.push(WeightRow { matcher: Match::default(), weight: Weight::ONE });
    Ok(WeightTable { rows, cgroups: cgroups.iter().map(path).collect(), lost: Vec::new() })
}

impl MeasuredPath for NicPath {
    fn sender(&self) -> &NetNs {
        &self.testbed.sender
    }

    fn receiver(&self) -> &NetNs {
        &self.testbed.receiver
    }

    fn receiver_address(&self) -> IpAddr {
        RECEIVER
    }

    fn cgroup(&self, group: usize) -> Option<&Cgroup> {
        self.cgroups.get(group)
    }

    /// The NIC logs from its start; departures outside the steady part are ignored later.
    fn begin_log(&mut self) -> Result<(), PathError> {
        Ok(())
    }

    fn check(&mut self) -> Result<(), PathError> {
        if self.nic.is_running() { Ok(()) } else { Err(PathError::WorkerEnded) }
    }

    fn nic_cpu(&self) -> Result<Nanos, PathError> {
        Ok(self.nic.worker_cpu())
    }

    fn stop(self: Box<Self>) -> Result<WireLog, PathError> {
        let Self { titan, nic, cgroups, testbed } = *self;
        titan.detach()?;
        let (totals, log) = nic.stop_with_log(GRACE)?;
        drop((cgroups, testbed));
        let departures = log.departures.iter().map(|departure| WireDeparture {
            start: departure.start,
            end: departure.end,
            queue: departure.queue,
            flow: departure.flow.0,
            wire: departure.wire(),
            segments: Packets(u64::from(departure.segments)),
        });
        Ok(WireLog { departures: departures.collect(), flows: log.flows, lost: 0, weights: totals.staleness })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_core_has_queues_and_every_queue_a_core() {
        for queues in [1, 2, 3, 8, 200] {
            let pools = pools(queues);
            assert!(pools.iter().all(|pool| !pool.is_empty()), "{queues}: {pools:?}");
            for queue in 0..u32::from(queues) {
                assert!(pools.iter().any(|pool| pool.contains(&TxQueueId(queue))), "{queues}: {pools:?}");
            }
        }
    }
}
