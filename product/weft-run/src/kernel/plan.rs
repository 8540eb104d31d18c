//! The plan of a policy in the kernel: what is made at the device, before anything is.

use super::error::KernelError;
use super::programs::{CLOCKS, LANE_CLOCKS, LEAVES};
use weft_host::tc::in_this_kernel;
use weft_nic::doorbell::{build_tables, check};
use weft_policy::CompiledPolicy;
use weft_policy::kernel::{KernelQdiscs, Lowered, lower_on};
use weft_titan::match_table::Tables;

/// A policy as it will be in the kernel.
#[derive(Debug)]
pub struct KernelPlan {
    /// The policy.
    pub policy: CompiledPolicy,
    /// Its kernel form.
    pub lowered: Lowered,
    /// The qdiscs for which it was lowered.
    pub qdiscs: KernelQdiscs,
    pub(super) tables: Tables,
}

impl KernelPlan {
    /// The qdiscs that this kernel has. One of which this cannot be known is taken to be there.
    pub fn qdiscs_here() -> KernelQdiscs {
        KernelQdiscs::of(|kind| in_this_kernel(kind).unwrap_or(true))
    }

    /// Plans `policy` for a kernel with `qdiscs`. What the kernel form does not keep is in its promises, and refuses nothing here.
    ///
    /// # Errors
    /// If the kernel has no form of the policy, or the program has no room for it.
    pub fn new(policy: &CompiledPolicy, qdiscs: KernelQdiscs) -> Result<Self, KernelError> {
        // The last lane and class are those of infrastructure.
        let most = LEAVES - 1;
        let program = &policy.program;
        for (what, given, most) in [
            ("lanes", program.lanes.len(), most),
            ("classes", policy.classes.len(), most),
            ("limits", program.limits.len(), CLOCKS),
        ] {
            if given > most {
                return Err(KernelError::TooMany { what, given, most });
            }
        }
        check(policy)?;
        let lowered = lower_on(policy, qdiscs)?;
        let clocks = lowered.map.lanes.iter().map(Vec::len).max().unwrap_or_default();
        if clocks > LANE_CLOCKS {
            let what = "limits by destination and port for one class";
            return Err(KernelError::TooMany { what, given: clocks, most: LANE_CLOCKS });
        }
        let tables = build_tables(policy, true)?;
        Ok(Self { policy: policy.clone(), lowered, qdiscs, tables })
    }

    /// The objects that would be made at `device`, as commands and comments, in their order.
    pub fn objects(&self, device: &str) -> String {
        let filter = |qdisc| {
            format!("tc filter add dev {device} parent {qdisc} bpf direct-action   # weft_find_class\n")
        };
        let mut filters: String = self.lowered.map.filters.iter().map(|of| filter(of.qdisc)).collect();
        if !filters.is_empty() {
            filters.insert_str(0, "\n# The filters of the qdiscs above the leaves\n");
        }
        let (groups, destinations) = self.tables.groups();
        format!(
            "{}{filters}\n# The program at the egress, with {} entries of the match tables in {} groups\n# weft_classify\n",
            self.lowered.tree.commands(device),
            self.tables.entries(),
            groups + destinations,
        )
    }
}
