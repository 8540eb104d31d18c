//! What the compiler makes of a policy: the engine's program and the match table that feeds it.

use weft_sched::Program;
use weft_steer::Match;
use weft_units::{BitsPerSec, LaneId, PacketMeta};

/// A traffic class of the policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassInfo {
    /// Its name in the policy (`T1`, `vm1.kvs`).
    pub name: String,
}

/// One row of the match table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What a packet must pass.
    pub matcher: Match,
    /// The lane it then enters.
    pub lane: LaneId,
}

/// A compiled policy. It knows nothing of where it will run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledPolicy {
    /// The link's rate, where the policy states one.
    pub link: Option<BitsPerSec>,
    /// The engine's program.
    pub program: Program,
    /// The classes; `ClassId` indexes them. The last one is `default`, for what no class takes.
    pub classes: Vec<ClassInfo>,
    /// The match table: the first row that matches decides. The last row matches everything.
    pub rules: Vec<Rule>,
    /// The cgroups that rules name, as written, relative to the root of the cgroup2 hierarchy; bit i of
    /// [`PacketMeta::cgroups`] stands for number i. At most 64.
    pub cgroups: Vec<String>,
}

impl CompiledPolicy {
    /// The lane of a packet: the first row that matches.
    pub fn classify(&self, meta: &PacketMeta) -> LaneId {
        self.rules.iter().find(|rule| rule.matcher.matches(meta)).map_or(LaneId(0), |rule| rule.lane)
    }
}
