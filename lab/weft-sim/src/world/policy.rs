//! The policy tree of a NIC that runs the engine. Each stream has a queue, in the lane that the policy's match table gives its
//! packets. Changes are compiled and prepared when the world is built, in the order of their times, and committed when these come.

use super::World;
use crate::host::policy_use::{Classes, Coming, Exchange, PolicyUse};
use crate::host::socket::Stream;
use crate::ids::{HostId, StreamId, Table};
use crate::nic::scheduler::PolicyScheduler;
use crate::outcome::PolicyChanged;
use crate::policy::{Change, InForce, Refusal};
use crate::run_error::{DiagnosticInText, RunError};
use crate::scenario::{Files, FlowTraffic, HostSpec, INLINE, PolicyChange, Scenario, SchedulerKind};
use crate::trace::Observer;
use core::net::IpAddr;
use weft_policy::{CompileOptions, CompiledPolicy, Diagnostic, FileText, Source};
use weft_sched::PolicyTree;
use weft_units::{ClassId, FlowKey, LaneId, PacketMeta, ProcessName, Protocol, TxQueueId, Weight};

impl<O: Observer> World<'_, O> {
    /// Makes the change of a host's policy whose time has come.
    pub(super) fn change_policy(&mut self, host: HostId) {
        let state = &mut self.hosts[host];
        let Some(policy) = &mut state.policy else { return };
        let Some(Coming { what, exchange, .. }) = policy.due() else { return };
        let changed = exchange.and_then(|Exchange { tree, lanes, classes, steps, warnings }| {
            let exchanged = {
                let now = (self.now, &self.skbs);
                state.transmit.exchange_policy((tree, &lanes), now, &mut self.agenda)
            };
            if let Err(error) = exchanged {
                let reason = Refusal::from(error);
                policy.refuse_rest(&reason);
                return Err(reason);
            }
            Ok((PolicyChanged { what: what.clone(), refused: None, steps, warnings }, classes))
        });
        match changed {
            Ok((change, classes)) => policy.begin(change, Some(classes), self.now),
            Err(refused) => {
                let refused = Some(refused.to_string());
                policy.begin(PolicyChanged { what, refused, ..PolicyChanged::default() }, None, self.now);
            }
        }
    }
}

/// Builds the scheduler of a host's NIC, and the account of its use.
pub(super) fn build(
    scenario: &Scenario,
    host: HostId,
    streams: &Table<StreamId, Stream>,
) -> Result<(PolicyScheduler, PolicyUse), RunError> {
    let Some(mut policy) = begin(scenario, &scenario.hosts[host.index()])? else {
        let hint = "give the host's stack a policy";
        return Err(RunError::impossible(
            format!("the NIC of host {host} has a policy tree, but the policy is missing"),
            hint,
        ));
    };
    let of_host = OfHost { scenario, host, streams };
    let placed = of_host.place(policy.compiled())?;
    let tree = PolicyTree::new(&policy.compiled().program).map_err(|error| {
        RunError::impossible(format!("the policy of host {host}: {error}"), "correct the policy")
    })?;
    let mut scheduler = PolicyScheduler::new(tree);
    for (queue, lane) in placed.lanes {
        let weight = streams.get(StreamId(queue.0)).and_then(|stream| Weight::new(stream.weight));
        scheduler.add_queue(queue, lane, weight.unwrap_or(Weight::ONE)).map_err(|error| {
            RunError::impossible(format!("a flow of host {host}: {error}"), "correct the policy")
        })?;
    }
    let mut changes: Vec<&PolicyChange> = scenario.changes.iter().filter(|of| of.host == host.0).collect();
    changes.sort_by_key(|change| change.at);
    let coming = changes.into_iter().map(|change| of_host.coming(change, &mut policy)).collect();
    Ok((scheduler, PolicyUse::new(host.0, placed.classes, coming)))
}

/// Compiles the first policy of a host; `None` if the host has none.
fn begin(scenario: &Scenario, host: &HostSpec) -> Result<Option<InForce>, RunError> {
    let Some(source) = source(scenario, host)? else { return Ok(None) };
    let (policy, diagnostics) = InForce::begin(source, &Files(&scenario.files), options(scenario));
    let first = || diagnostics.iter().find(|diagnostic| diagnostic.is_error()).map(ToString::to_string);
    policy.map(Some).ok_or_else(|| {
        RunError::impossible(
            first().unwrap_or_else(|| "the policy has errors".to_owned()),
            "correct the policy",
        )
    })
}

/// The text of a host's first policy, if it has one.
fn source<'a>(scenario: &'a Scenario, host: &'a HostSpec) -> Result<Option<Source<'a>>, RunError> {
    let hint = "add its text to the scenario's files";
    let missing = |path: &str| RunError::impossible(format!("there is no file {path}"), hint);
    match (&host.stack.policy, &host.stack.policy_file) {
        (Some(text), _) => Ok(Some(Source { name: INLINE, text })),
        (None, Some(path)) => match scenario.files.get(path) {
            Some(text) => Ok(Some(Source { name: path, text })),
            None => Err(missing(path)),
        },
        (None, None) => Ok(None),
    }
}

fn options(scenario: &Scenario) -> CompileOptions {
    weft_policy::CompileOptions::of_simulated(Some(scenario.network.rate))
}

/// Returns the diagnostics of the hosts' first policies, each once, with the text in which it is.
pub(crate) fn diagnostics(scenario: &Scenario) -> Vec<DiagnosticInText> {
    let mut found: Vec<DiagnosticInText> = Vec::new();
    let with_tree = scenario.hosts.iter().filter(|host| host.nic.scheduler == SchedulerKind::PolicyTree);
    for source in with_tree.filter_map(|host| source(scenario, host).ok().flatten()) {
        let (files, options) = (Files(&scenario.files), options(scenario));
        let (_, diagnostics) = InForce::begin(source, &files, options.clone());
        for diagnostic in diagnostics {
            let of_file = scenario.files.get(&diagnostic.file).filter(|_| diagnostic.file != source.name);
            let text = of_file.map_or_else(|| source.text.to_owned(), String::clone);
            if !found.iter().any(|known| known.diagnostic == diagnostic) {
                found.push(DiagnosticInText { diagnostic, text });
            }
        }
    }
    found
}

/// The lanes of a host's queues under a policy, and the classes of its streams.
struct Placed {
    lanes: Vec<(TxQueueId, LaneId)>,
    classes: Classes,
}

/// A host with its streams.
struct OfHost<'a> {
    scenario: &'a Scenario,
    host: HostId,
    streams: &'a Table<StreamId, Stream>,
}

impl OfHost<'_> {
    /// Classifies the host's streams.
    fn place(&self, policy: &CompiledPolicy) -> Result<Placed, RunError> {
        let mut of = Table::of(ClassId(0), self.streams.len());
        let mut lanes = Vec::new();
        for (stream, facts) in self.streams.pairs().filter(|(_, facts)| facts.from == self.host) {
            let lane = policy.classify(&meta(policy, self.scenario, stream, facts)?);
            let class = policy.program.lanes.get(lane.index()).map(|lane| lane.class);
            if let (Some(slot), Some(class)) = (of.get_mut(stream), class) {
                *slot = class;
            }
            lanes.push((TxQueueId(stream.0), lane));
        }
        let names = policy.classes.iter().map(|class| class.name.clone()).collect();
        Ok(Placed { lanes, classes: Classes { names, of } })
    }

    /// Compiles and prepares a change, after which `policy` is in force.
    fn coming(&self, change: &PolicyChange, policy: &mut InForce) -> Coming {
        let what = match (&change.tenant, &change.file, &change.policy_file) {
            (Some(tenant), Some(file), _) => format!("tenant {tenant}: {file}"),
            (Some(tenant), None, _) => format!("tenant {tenant}: no file"),
            (None, _, Some(file)) => format!("policy {file}"),
            (None, _, None) => "policy".to_owned(),
        };
        Coming { at: change.at, what, exchange: self.exchange(change, policy) }
    }

    fn exchange(&self, change: &PolicyChange, policy: &mut InForce) -> Result<Exchange, Refusal> {
        let next = policy.prepare(self.given(change)?, &Files(&self.scenario.files))?;
        let new = &next.change.policy;
        let Placed { lanes, classes } = self.place(new)?;
        let tree = PolicyTree::prepare(&new.program, &next.change.heirs, lanes.len())?;
        let steps = next.change.steps.iter().map(ToString::to_string).collect();
        let without = |(tenant, error): (&String, &Diagnostic)| {
            format!("tenant {tenant} does without the file: {}", error.one_line())
        };
        let mut warnings: Vec<String> = next.without.iter().map(without).collect();
        warnings.extend(next.change.warnings.iter().map(ToString::to_string));
        policy.commit(next);
        Ok(Exchange { tree, lanes, classes, steps, warnings })
    }

    /// The change with its texts.
    fn given<'b>(&'b self, change: &'b PolicyChange) -> Result<Change<'b>, Refusal> {
        let missing = |path: &str| Refusal::Missing { path: path.to_owned() };
        let text = |path: &str| self.scenario.files.get(path).ok_or_else(|| missing(path));
        if let Some(tenant) = &change.tenant {
            let file = match &change.file {
                Some(path) => Some(FileText { name: path.clone(), text: text(path)?.clone() }),
                None => None,
            };
            return Ok(Change::Tenant { tenant, file });
        }
        match (&change.policy, &change.policy_file) {
            (Some(text), _) => Ok(Change::Policy(Source { name: INLINE, text })),
            (None, Some(path)) => Ok(Change::Policy(Source { name: path, text: text(path)? })),
            (None, None) => Err(Refusal::Nothing),
        }
    }
}

/// Returns the fields that a policy can test on a stream's packets: addresses and ports as in captures, the transport, and a
/// cgroup and a process with the name of the stream's class; no process has a name that is too long for it. Marks and priorities of
/// sockets are 0.
fn meta(
    policy: &CompiledPolicy,
    scenario: &Scenario,
    index: StreamId,
    stream: &Stream,
) -> Result<PacketMeta, RunError> {
    let address = |host: HostId| {
        crate::address::of_host(host).map(IpAddr::V4).ok_or_else(|| {
            RunError::impossible(
                format!("host {host} has no address that a policy could test"),
                "take at most 762 hosts",
            )
        })
    };
    // Streams come in pairs, forward and reverse.
    let (flow, back) = (index.flow().index(), !index.is_forward());
    let ports = crate::address::ports(index);
    let (sport, dport) = if back { (ports.1, ports.0) } else { ports };
    let key = FlowKey {
        src: address(stream.from)?,
        dst: address(stream.to)?,
        sport,
        dport,
        protocol: protocol(scenario, flow),
    };
    let name =
        scenario.classes.get(usize::from(stream.class)).map_or("", |name| name.trim_start_matches('/'));
    let within = |path: &str| {
        let below = name.strip_prefix(path.trim_start_matches('/'));
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let numbered = policy.cgroups.iter().take(64).enumerate();
    let cgroups =
        numbered.filter(|(_, path)| within(path)).fold(0, |bits, (number, _)| bits | 1_u64 << number);
    let process = ProcessName::new(name.as_bytes());
    Ok(PacketMeta { key: Some(key), cgroups, process, ..PacketMeta::default() })
}

/// Returns the transport of a flow by its number; flows are numbered by group, and probes come after them.
fn protocol(scenario: &Scenario, flow: usize) -> Protocol {
    let mut first = 0;
    for group in &scenario.flows {
        first += group.count as usize;
        if flow < first {
            return if matches!(group.traffic, FlowTraffic::Udp { .. }) {
                Protocol::UDP
            } else {
                Protocol::TCP
            };
        }
    }
    let in_kernel = scenario.probes.get(flow - first).is_none_or(|probe| probe.in_kernel);
    if in_kernel { Protocol::ICMP } else { Protocol::UDP }
}
