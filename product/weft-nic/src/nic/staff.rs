//! The parts of a NIC's workers, before their threads start.

use super::device::device;
use super::samples::Samples;
use super::scheduler::{Scheduler, make_engine, make_shared};
use super::workers::{self, WorkersCounters};
use super::{NicError, NicPlan};
use crate::counters::Counters;
use crate::departures::{Departures, departures};
use crate::link::{DeviceLink, Link, LinkKind, LinkRate, queue_below};
use crate::port::Uplink;
use crate::sampler::Sampler;
use crate::worker::{Device, WorkerParts};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use weft_host::clock;
use weft_units::Bytes;

/// The workers' engines and parts, and the other ends of these.
pub(super) struct Staff {
    pub(super) workers: Vec<(Scheduler, WorkerParts)>,
    pub(super) counters: WorkersCounters,
    pub(super) uplink: Arc<OwnedFd>,
    pub(super) samples: Samples,
    pub(super) departures: Option<Departures>,
    /// The longest chunk on the wire.
    pub(super) longest_chunk: Bytes,
}

impl Staff {
    /// Makes the workers of `plan` above `uplink`, and bounds the queue below them.
    pub(super) fn engage(plan: &NicPlan, uplink: &Uplink) -> Result<Self, NicError> {
        let (config, rings) = (plan.config(), plan.rings());
        let (mtu, several) = (Bytes(uplink.mtu()?.into()), plan.workers().get() > 1);
        let unit = if several { workers::segments_per_turn(config, mtu) } else { config.segments_per_turn };
        let (chunk, longest_chunk) = (unit.longest_chunk(mtu), workers::longest(unit, mtu));
        let engines = if several {
            let shared = workers::share(&rings.program, config.rate, longest_chunk)?;
            make_shared(&rings.program, &shared, plan.workers().get())?
        } else {
            vec![make_engine(rings)?]
        };
        let most = chunk.min(uplink.longest_segment()?);
        let device = || device(config, rings, most).filter(|_| !several);
        let fd =
            uplink.fd.try_clone().map_err(|e| NicError::Stopped(format!("duplicate the uplink: {e}")))?;
        let fd = Arc::new(fd);
        uplink
            .bound_queue(device().as_ref().map_or_else(|| queue_below(config.rate, chunk), Device::bound))?;
        let observed = matches!(config.link, LinkKind::Device(DeviceLink { rate: LinkRate::Observed, .. }));
        let (mut recorder, departures) = config.departures.map(departures).unzip();
        let (now, mut counters, mut samples) = (clock::now(), Vec::new(), Vec::new());
        let work = |engine| {
            let device = device();
            // More than the policy has, for later policies.
            let leaves = if device.is_some() { crate::doorbell::LANES } else { 0 };
            let (out, samples_of_worker) = channel();
            let parts = WorkerParts {
                uplink: Arc::clone(&fd),
                link: match observed || several {
                    true => Link::observed(now),
                    false => Link::new(config.rate, config.catch_up, now),
                },
                device,
                segments_per_turn: unit,
                counters: Arc::new(Counters::new(leaves, rings.class_slots())),
                sampler: Sampler::new(config.window, now, rings.class_slots(), out),
                classes: rings.class_slots(),
                default_class: plan.policy().default_class(),
                departures: recorder.take(),
            };
            counters.push(Arc::clone(&parts.counters));
            samples.push(samples_of_worker);
            (engine, parts)
        };
        let workers = engines.into_iter().map(work).collect();
        let (counters, samples) = (WorkersCounters(counters), Samples::new(samples));
        Ok(Self { workers, counters, uplink: fd, samples, departures, longest_chunk })
    }
}
