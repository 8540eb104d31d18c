//! The data path of an uplink whose policy is in the kernel. It has no ports: the policy holds for all that leaves by the interface. It
//! outlives the daemon, since it needs no process; `weft remove` takes it away.

use super::{DataPath, DataPathError, PolicyPlan, PortSpec, Started};
use crate::config::{UplinkBackend, UplinkConfig};
use crate::kernel::{compile, counted};
use crate::policy::ServicePolicy;
use std::time::{Duration, Instant};
use weft_facts::status::ServiceStatus;
use weft_host::{NetNs, link};
use weft_policy::CompiledPolicy;
use weft_policy::kernel::{Edits, KernelDifference, KernelPart};
use weft_policy::promise::Kept;
use weft_run::kernel::{KernelCounters, KernelError, KernelPath, KernelPlan};

/// The time over which rates are measured.
const WINDOW: Duration = Duration::from_secs(1);
/// The interval at which cgroups and interfaces are looked up again.
const REFRESH: Duration = Duration::from_millis(250);

/// A policy in the kernel at an uplink.
#[derive(Debug)]
pub struct KernelUplink {
    path: KernelPath,
    ns: NetNs,
    device: String,
    /// The readings of the last second, the first of them a second ago.
    readings: Vec<(Instant, KernelCounters)>,
    refreshed: Instant,
    warned: Vec<String>,
}

fn failed(error: &KernelError) -> DataPathError {
    DataPathError::Failed(error.to_string())
}

/// Whether the policy of `uplink` belongs into the kernel, and a note where that was chosen by itself.
pub fn is_wanted(policy: &ServicePolicy, uplink: &UplinkConfig) -> (bool, Option<String>) {
    match uplink.backend {
        UplinkBackend::Port => (false, None),
        UplinkBackend::Kernel => (true, None),
        UplinkBackend::Auto if !uplink.ports.is_empty() => {
            (false, Some(format!("uplink {}: by ports, since it has some", uplink.title())))
        }
        UplinkBackend::Auto => {
            let reason = match KernelPlan::new(&policy.compiled, KernelPlan::qdiscs_here()) {
                Ok(plan) => plan.lowered.refusal().map(|refusal| refusal.reason),
                Err(error) => Some(error.to_string()),
            };
            let title = uplink.title();
            let note = match &reason {
                None => format!("uplink {title}: in the kernel, which keeps the policy"),
                Some(reason) => {
                    format!("uplink {title}: by ports, since the kernel does not keep the policy: {reason}")
                }
            };
            (reason.is_none(), Some(note))
        }
    }
}

impl KernelUplink {
    /// Puts `policy` into the kernel at `uplink`, or changes the one that is there.
    ///
    /// # Errors
    /// When the interface does not exist, the kernel does not keep a statement of the policy, or refuses a step.
    pub fn start(policy: &ServicePolicy, uplink: &UplinkConfig) -> Result<Started, DataPathError> {
        let place = uplink.netns.as_deref().map_or_else(NetNs::current, NetNs::named);
        let ns = place.map_err(|error| DataPathError::Failed(error.to_string()))?;
        let repaired = KernelPath::repair(&compile).map_err(|error| failed(&error))?;
        let mut notes: Vec<String> =
            repaired.into_iter().map(|one| format!("{}: {}", one.device, one.result)).collect();
        let path = if KernelPath::is_at(&ns, &uplink.device).map_err(|error| failed(&error))? {
            let mut path = KernelPath::open(&ns, &uplink.device, &compile).map_err(|error| failed(&error))?;
            if path.record().policy != policy.authored() {
                let plan = kept(path.plan_change(policy.compiled.clone()))?;
                if let KernelDifference::NewRoot(reason) = path.difference(&plan) {
                    notes.push(format!("{}: a new tree, since {reason}", uplink.device));
                }
                path.change(policy.authored(), plan, true).map_err(|error| failed(&error))?;
            }
            path
        } else {
            let plan = kept(KernelPlan::new(&policy.compiled, KernelPlan::qdiscs_here()))?;
            KernelPath::apply(&ns, &uplink.device, policy.authored(), plan, false)
                .map_err(|error| failed(&error))?
        };
        let device = uplink.device.clone();
        let now = Instant::now();
        let path = Self { path, ns, device, readings: Vec::new(), refreshed: now, warned: Vec::new() };
        Ok(Started { path: Box::new(path), former: None, notes, missing: None })
    }

    /// Opens the policy anew: `weft apply` may have changed it.
    fn reopen(&mut self) -> Result<(), DataPathError> {
        self.path = KernelPath::open(&self.ns, &self.device, &compile).map_err(|error| failed(&error))?;
        Ok(())
    }

    fn read(&mut self) -> Result<(), KernelError> {
        let now = Instant::now();
        if now - self.refreshed >= REFRESH {
            self.path.refresh()?;
            self.refreshed = now;
            self.warned = self.path.warnings()?;
        }
        let counters = self.path.counters()?;
        self.readings.push((now, counters));
        // One that is a second old stays, as the begin of the window.
        let old = self.readings.iter().filter(|(at, _)| now - *at >= WINDOW).count();
        self.readings.drain(..old.saturating_sub(1));
        Ok(())
    }
}

/// A plan of which the kernel keeps all statements.
fn kept(plan: Result<KernelPlan, KernelError>) -> Result<KernelPlan, DataPathError> {
    let plan = plan.map_err(|error| failed(&error))?;
    let lost = plan.lowered.promises().into_iter().find(|promise| promise.kept == Kept::No);
    match lost {
        None => Ok(plan),
        Some(promise) => {
            let reason = promise.within.unwrap_or_default();
            Err(DataPathError::Failed(format!(
                "the kernel does not keep the policy: {}: {reason}; use `backend = \"port\"`, or `weft apply --accept-less`",
                promise.promise
            )))
        }
    }
}

/// The edits of a change, one line each.
fn steps(edits: &Edits) -> Vec<String> {
    let Edits { added, changed, replaced, removed } = edits;
    let lines = |word: &'static str, parts: &[KernelPart]| -> Vec<String> {
        parts.iter().map(|part| format!("{word} {} ({})", part.handle(), part.title())).collect()
    };
    [
        lines("add", added),
        lines("change", changed),
        lines("replace the queue", replaced),
        lines("remove", removed),
    ]
    .concat()
}

impl DataPath for KernelUplink {
    fn prepare(&mut self, policy: &CompiledPolicy) -> Result<PolicyPlan, DataPathError> {
        self.reopen()?;
        let plan = kept(self.path.plan_change(policy.clone()))?;
        let rows =
            (plan.policy.rules != self.path.plan().policy.rules).then(|| "other rows of classes".to_owned());
        let (steps, warnings) = match self.path.difference(&plan) {
            KernelDifference::InPlace(edits) => (steps(&edits), Vec::new()),
            KernelDifference::NewRoot(reason) => {
                let waiting = self.path.waiting().map_err(|error| failed(&error))?;
                let warning = format!("a new tree, since {reason}: {waiting} packets that wait are lost");
                (vec!["make the tree anew".to_owned()], vec![warning])
            }
        };
        Ok(PolicyPlan { steps: steps.into_iter().chain(rows).collect(), warnings })
    }

    fn commit(&mut self, policy: &ServicePolicy) -> Result<(), DataPathError> {
        self.reopen()?;
        let plan = kept(self.path.plan_change(policy.compiled.clone()))?;
        self.readings.clear();
        self.path.change(policy.authored(), plan, true).map_err(|error| failed(&error))
    }

    fn status(&mut self) -> Result<ServiceStatus, DataPathError> {
        self.read().map_err(|error| failed(&error))?;
        let (Some((begin, before)), Some((end, after))) = (self.readings.first(), self.readings.last())
        else {
            return Ok(ServiceStatus::default());
        };
        let mut status = counted(before, after, *end - *begin);
        status.uplink.interface.clone_from(&self.device);
        status.uplink.up = link::show(&self.ns, &self.device).is_ok_and(|link| link.up);
        status.warnings.clone_from(&self.warned);
        Ok(status)
    }

    fn add_port(&mut self, _: &PortSpec) -> Result<Vec<String>, DataPathError> {
        Err(DataPathError::Unsupported(
            "the policy of this uplink is in the kernel and holds for all that leaves by it, without ports; `backend = \"port\"` has them",
        ))
    }

    fn close_port(&mut self, name: &str) -> Result<(), DataPathError> {
        Err(DataPathError::NoSuchPort(name.to_owned()))
    }

    fn is_drained(&self, _: &str) -> bool {
        true
    }

    fn remove_port(&mut self, name: &str) -> Result<(), DataPathError> {
        Err(DataPathError::NoSuchPort(name.to_owned()))
    }

    fn warnings(&self) -> Vec<String> {
        self.warned.clone()
    }

    fn is_uplink_gone(&self) -> bool {
        !KernelPath::is_at(&self.ns, &self.device).unwrap_or(false)
    }

    fn finish(self: Box<Self>) -> Result<(), DataPathError> {
        Ok(())
    }
}
