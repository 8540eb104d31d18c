//! A policy in the kernel, as commands and the daemon see it: its compilation, its changes, and its status.

use crate::entitlement::{describe_classes, limits};
use crate::policy::{PolicyError, ServicePolicy};
use std::time::Duration;
use weft_facts::counters::{ClassDrops, PathDrops, PortEvents};
use weft_facts::status::{Backend, ServiceStatus, StatusClass, StatusUplink, WorkerState};
use weft_host::tc::QdiscCounters;
use weft_host::{NetNs, link};
use weft_policy::CompiledPolicy;
use weft_run::kernel::{KernelClass, KernelCounters, KernelError, KernelPath};
use weft_run::session::AuthoredPolicy;

/// The reason for absent waiting times.
const NO_SOJOURN: &str = "the kernel's qdiscs do not measure it";

/// Errors of a policy in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelPolicyError {
    /// The policy in force does not compile.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The kernel refused, or has no policy there.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// The compilation of a policy in force, for [`KernelPath::open`].
pub fn compile(source: &AuthoredPolicy) -> Option<CompiledPolicy> {
    ServicePolicy::of_authored(source).ok().map(|policy| policy.compiled)
}

/// Opens the policy in the kernel at `device` of `ns`.
///
/// # Errors
/// If none is there, or it does not compile.
pub fn open(ns: &NetNs, device: &str) -> Result<KernelPath, KernelError> {
    KernelPath::open(ns, device, &compile)
}

/// The status of the policy in the kernel at `device` of `ns`, with rates over `window`.
///
/// # Errors
/// If none is there, or its counters cannot be read.
pub fn status(ns: &NetNs, device: &str, window: Duration) -> Result<ServiceStatus, KernelPolicyError> {
    let mut path = open(ns, device)?;
    path.refresh()?;
    let policy = ServicePolicy::of_authored(&path.record().policy)?;
    let (begin, before) = (std::time::Instant::now(), path.counters()?);
    std::thread::sleep(window);
    let (passed, after) = (begin.elapsed(), path.counters()?);
    let up = link::show(ns, device).map_err(KernelError::from)?.up;
    let compiled = path.plan().policy.clone();
    let status = counted(&before, &after, passed);
    let classes = describe_classes(&compiled, compiled.link, status.classes);
    let record = path.record();
    Ok(ServiceStatus {
        generation: record.generation,
        policy_hash: policy.hash,
        policy: policy.name,
        uptime_s: record.age_s() as f64,
        uplink: StatusUplink {
            interface: device.to_owned(),
            netns: record.netns_name.clone(),
            up,
            rate_bps: compiled.link.map(|rate| rate.get() as f64),
            ..status.uplink
        },
        limits: limits(&compiled, &classes),
        classes,
        warnings: path.warnings()?,
        ..status
    })
}

/// The status from two readings, `passed` apart: what the kernel's counters say.
pub(crate) fn counted(before: &KernelCounters, after: &KernelCounters, passed: Duration) -> ServiceStatus {
    ServiceStatus {
        // The kernel is what works, and it does not end.
        worker: WorkerState::Running,
        uplink: StatusUplink { backend: Backend::Kernel, ..StatusUplink::default() },
        dropped: PathDrops { qdisc: after.root.dropped, ..PathDrops::default() },
        classes: classes(before, after, passed),
        counters: PortEvents { infrastructure_excess: after.excess, ..PortEvents::default() },
        ..ServiceStatus::default()
    }
}

/// The classes of a policy in the kernel. Where several share a queue, each has what the classifier has given it, and what waits and is
/// dropped is shown at the first of them.
fn classes(before: &KernelCounters, after: &KernelCounters, passed: Duration) -> Vec<StatusClass> {
    let shared =
        |class: &KernelClass| after.classes.iter().filter(|other| other.leaf == class.leaf).count() > 1;
    let sent = |class: &KernelClass| if shared(class) { class.had } else { class.queue.sent };
    let one = |class: &KernelClass| {
        let known = before.classes.iter().find(|known| known.name == class.name);
        let (now, then) = (sent(class), known.map(sent).unwrap_or_default());
        let first = after.classes.iter().find(|other| other.leaf == class.leaf);
        let queue = if first == Some(class) { class.queue } else { QdiscCounters::default() };
        StatusClass {
            class: class.name.clone(),
            bytes: now.bytes.get(),
            packets: now.packets.get(),
            dropped: ClassDrops {
                qdisc: queue.dropped,
                horizon: class.late.packets,
                ..ClassDrops::default()
            },
            backlog_bytes: queue.backlog.bytes.get(),
            bps: now.bytes.get().saturating_sub(then.bytes.get()) as f64 * 8.0
                / passed.as_secs_f64().max(f64::MIN_POSITIVE),
            sojourn_reason: Some(NO_SOJOURN.to_owned()),
            ..StatusClass::default()
        }
    };
    after.classes.iter().map(one).collect()
}
