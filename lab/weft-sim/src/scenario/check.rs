//! Consistency checks between the values of a scenario.

use super::config::{
    FlowGroup, HostSpec, PolicyChange, ProbeSpec, Scenario, SchedulerKind, StackSpec, Topology,
};
use weft_text::toml::TomlTable;
use weft_text::{ParseError, quoted};

/// Checks the classes: at least one, without duplicates.
pub(super) fn classes(root: &TomlTable<'_>, classes: &[String]) -> Result<(), ParseError> {
    let place = || root.place(&["classes"]);
    if classes.is_empty() {
        return Err(ParseError::new(
            place(),
            "there are no classes",
            "leave `classes` out to have one, named `default`",
        ));
    }
    if classes.len() > usize::from(u16::MAX) {
        return Err(ParseError::new(
            place(),
            format!("{} classes are too many", classes.len()),
            "take at most 65535",
        ));
    }
    let mut sorted: Vec<&String> = classes.iter().collect();
    sorted.sort();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ParseError::new(
            place(),
            format!("the class {} is listed twice", quoted(pair[0])),
            "leave one of them out",
        )),
        None => Ok(()),
    }
}

/// Checks the topology against the number of hosts.
pub(super) fn topology(root: &TomlTable<'_>, scenario: &Scenario) -> Result<(), ParseError> {
    let hosts = scenario.hosts.len();
    let wrong = |what: String, hint: &str| {
        let table = root.get("network").and_then(|item| item.as_table("[network]"));
        let place = match &table {
            Some(table) if table.get("topology").is_some() => table.place(&["topology"]),
            _ => root.place(&["hosts"]),
        };
        Err(ParseError::new(place, what, hint))
    };
    let least = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    match scenario.network.topology {
        Topology::BackToBack if hosts != 2 => wrong(
            format!("back-to-back has 2 hosts, not {hosts}"),
            "write `topology = \"star\"`, or `hosts = 2`",
        ),
        Topology::Dumbbell { left } if least(left) > hosts => wrong(
            format!("{left} of {hosts} hosts cannot be at the left switch"),
            "write a smaller `left`, or more `hosts`",
        ),
        Topology::LeafSpine { leaves, .. } if least(leaves) > hosts => wrong(
            format!("{hosts} hosts cannot be spread over {leaves} leaves"),
            "take fewer `leaves`, or more `hosts`",
        ),
        _ => Ok(()),
    }
}

/// Checks the values of a host; `table` is its source.
pub(super) fn host(table: &TomlTable<'_>, host: &HostSpec) -> Result<(), ParseError> {
    let (stack, nic) = (&host.stack, &host.nic);
    let place = |part: &str, keys: &[&str]| {
        let inner = table.get(part).and_then(|item| item.as_table("").map(|table| table.place(keys)));
        inner.unwrap_or_else(|| table.place(&[]))
    };
    if host.numa_nodes > host.cores {
        let what = format!("{} NUMA nodes for {} cores", host.numa_nodes, host.cores);
        return Err(ParseError::new(
            table.place(&["numa_nodes", "cores"]),
            what,
            "a node needs at least one core",
        ));
    }
    if stack.gso < stack.mtu {
        let what = format!("segments of {} bytes are smaller than the MTU of {}", stack.gso.0, stack.mtu.0);
        return Err(ParseError::new(
            place("stack", &["gso", "mtu"]),
            what,
            "write `gso` at least as large as `mtu`",
        ));
    }
    if let Some(size) = stack.dynamic_segment.filter(|size| *size < stack.mtu || *size > stack.gso) {
        let what = format!("`dynamic_segment` cannot be {} bytes", size.0);
        let hint = format!("write a size from `mtu` ({}) to `gso` ({})", stack.mtu.0, stack.gso.0);
        return Err(ParseError::new(place("stack", &["dynamic_segment", "mtu", "gso"]), what, hint));
    }
    if stack.receive_window < stack.mtu {
        let what = format!("a receive window of {} bytes takes no packet", stack.receive_window.0);
        return Err(ParseError::new(
            place("stack", &["receive_window", "mtu"]),
            what,
            "write at least the MTU",
        ));
    }
    if nic.transmit_buffer < stack.mtu {
        let what = format!("a transmit buffer of {} bytes holds no packet", nic.transmit_buffer.0);
        let inner = if table.get("nic").is_some() {
            place("nic", &["transmit_buffer"])
        } else {
            place("stack", &["mtu"])
        };
        return Err(ParseError::new(inner, what, "write `transmit_buffer` at least as large as `mtu`"));
    }
    if nic.scheduler == SchedulerKind::PolicyTree && stack.policy.is_none() && stack.policy_file.is_none() {
        let hint = "write the policy's text as `policy` of the host's stack, or its path as `policy_file`";
        return Err(ParseError::new(
            place("nic", &["scheduler"]),
            "the scheduler `policy` needs a policy",
            hint,
        ));
    }
    Ok(())
}

/// Checks that a stack has one policy.
pub(super) fn policy(table: &TomlTable<'_>, stack: &StackSpec) -> Result<(), ParseError> {
    if stack.policy.is_none() || stack.policy_file.is_none() {
        return Ok(());
    }
    let hint = "leave one of them out";
    Err(ParseError::new(table.place(&["policy_file"]), "`policy` and `policy_file` exclude each other", hint))
}

/// Checks a change of a host's policy.
pub(super) fn change(
    table: &TomlTable<'_>,
    change: &PolicyChange,
    hosts: &[HostSpec],
) -> Result<(), ParseError> {
    let wrong = |key: &str, what: String, hint: &str| Err(ParseError::new(table.place(&[key]), what, hint));
    let given = [change.policy.is_some(), change.policy_file.is_some(), change.tenant.is_some()];
    if given.into_iter().filter(|given| *given).count() != 1 {
        let what = "a change is of a `policy`, of a `policy_file` or of a `tenant`".to_owned();
        return wrong("", what, "write one of the three");
    }
    if change.tenant.is_none() && change.file.is_some() {
        return wrong("file", "`file` without `tenant`".to_owned(), "name the tenant whose file it is");
    }
    if change.tenant.is_some() && table.get("file").is_none() {
        let hint = "write `file = \"vm1.weft\"`, say, or `file = \"off\"` to take the tenant's file away";
        return wrong("tenant", "`tenant` without `file`".to_owned(), hint);
    }
    match hosts.get(change.host as usize) {
        None => {
            let hint = format!("the hosts have the indices 0 to {}", hosts.len().saturating_sub(1));
            wrong("host", format!("`host`: there is no host {}", change.host), &hint)
        }
        Some(host) if host.nic.scheduler != SchedulerKind::PolicyTree => {
            let hint = "give its NIC the scheduler `policy`, and its stack a policy";
            wrong("host", format!("host {} has no policy that could change", change.host), hint)
        }
        Some(_) => Ok(()),
    }
}

/// Checks the two hosts of a flow or probe: they must exist and differ.
fn ends(table: &TomlTable<'_>, from: u32, to: u32, hosts: &[HostSpec]) -> Result<(), ParseError> {
    for (key, index) in [("from", from), ("to", to)] {
        if index as usize >= hosts.len() {
            let hint =
                format!("the {} hosts have the indices 0 to {}", hosts.len(), hosts.len().saturating_sub(1));
            return Err(ParseError::new(
                table.place(&[key]),
                format!("`{key}`: there is no host {index}"),
                hint,
            ));
        }
    }
    if from == to {
        let what = format!("host {from} cannot send to itself");
        return Err(ParseError::new(table.place(&["to", "from"]), what, "write another host as `to`"));
    }
    Ok(())
}

/// Checks that a host has these cores.
fn cores(
    table: &TomlTable<'_>,
    key: &str,
    cores: &[u32],
    index: u32,
    hosts: &[HostSpec],
) -> Result<(), ParseError> {
    let count = hosts.get(index as usize).map_or(0, |host| host.cores);
    match cores.iter().find(|core| **core >= count) {
        Some(core) => {
            let hint = format!("its {count} cores have the numbers 0 to {}", count.saturating_sub(1));
            Err(ParseError::new(
                table.place(&[key]),
                format!("`{key}`: host {index} has no core {core}"),
                hint,
            ))
        }
        None => Ok(()),
    }
}

/// Checks a group of flows.
pub(super) fn flows(table: &TomlTable<'_>, group: &FlowGroup, hosts: &[HostSpec]) -> Result<(), ParseError> {
    ends(table, group.from, group.to, hosts)?;
    cores(table, "cores", &group.cores, group.from, hosts)?;
    cores(table, "receiver_cores", &group.receiver_cores, group.to, hosts)?;
    if group.stop <= group.start {
        let hint = "write a later `stop`, or leave it out to send until the end";
        return Err(ParseError::new(
            table.place(&["stop", "start"]),
            "the flows stop before they start",
            hint,
        ));
    }
    Ok(())
}

/// Checks a probe.
pub(super) fn probe(table: &TomlTable<'_>, probe: &ProbeSpec, hosts: &[HostSpec]) -> Result<(), ParseError> {
    ends(table, probe.from, probe.to, hosts)?;
    cores(table, "core", probe.core.as_slice(), probe.from, hosts)
}
