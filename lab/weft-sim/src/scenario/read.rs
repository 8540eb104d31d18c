//! Reads scenario files.

use super::check;
use super::config::{FlowGroup, HostSpec, PolicyChange, ProbeSpec, Scenario};
use super::costs;
use super::defaults;
use super::document::{parse, root};
use super::files::{Gathered, ReadFile, beside};
use super::keys::{Context, Key, apply};
use super::sources::{self, SOURCE, SourcedFile};
use super::tables::{
    CHANGES, FLOWS, HEAD, HEAD_ALSO, HOST, HOST_ALSO, HOSTS_ALSO, HOSTS_MAX, NETWORK, NETWORK_ALSO, NIC,
    PROBES, STACK, SWITCH,
};
use crate::cost::Costs;
use weft_policy::FileError;
use weft_text::toml::{TomlItem, TomlTable};
use weft_text::{LocatedError, ParseError, quoted, steers};

/// Reads a scenario. `file` names the text in errors. `files` returns the text of a cost file, a policy or a tenant's file by its path
/// relative to the scenario file's folder.
///
/// # Errors
/// The first error, with its place. Examples: the text is not TOML, a key is unknown, or a value has the wrong type, lacks its
/// unit, is out of range or contradicts another one. A key lacks a source while others have one. A file cannot be read.
pub fn read(
    text: &str,
    file: &str,
    files: &mut dyn FnMut(&str) -> Result<String, FileError>,
) -> Result<Scenario, LocatedError> {
    let here = |error: ParseError| error.locate(file, text);
    let map = parse(text).map_err(here)?;
    let root = root(&map);
    let mut scenario = head(&root, file, files).map_err(here)?;
    // A scenario may omit all sources. If it states one, it must state all of them.
    if root.get(SOURCE).is_some() {
        sources::check(&root, text, SourcedFile::Scenario).map_err(here)?;
    }
    let Some(item) = root.get("costs") else { return Ok(scenario) };
    scenario.costs = match item.as_text() {
        Some(costs::FREE) => Costs::FREE,
        Some(path) => {
            let given =
                files(path).map_err(|reason| {
                    here(item.error(
                        format!("the cost file {} cannot be read: {reason}", quoted(path)),
                        COSTS_HINT,
                    ))
                })?;
            costs::read(&given, &beside(file, path))?
        }
        None => item.table("[costs]").and_then(|table| costs::tables(&table, text)).map_err(here)?,
    };
    Ok(scenario)
}

/// The syntax of a reference to costs.
const COSTS_HINT: &str =
    "its path counts from the scenario file's folder; `costs = \"free\"` does without one";

/// Returns the file's name without folder and extension; `None` if nothing visible remains.
fn stem(file: &str) -> Option<String> {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let name = name.strip_suffix(".toml").unwrap_or(name);
    (!name.is_empty() && !name.contains(steers)).then(|| name.to_owned())
}

/// Reads everything except the costs.
fn head(root: &TomlTable<'_>, file: &str, read: ReadFile<'_>) -> Result<Scenario, ParseError> {
    let mut scenario = Scenario::default();
    if let Some(name) = stem(file) {
        scenario.name = name;
    }
    apply(root, HEAD, HEAD_ALSO, &mut scenario, Context { classes: &[] })?;
    check::classes(root, &scenario.classes)?;
    let classes = core::mem::take(&mut scenario.classes);
    let context = Context { classes: &classes };
    if let Some(item) = root.get("network") {
        network(&item, &mut scenario, context)?;
    }
    let files = Gathered::of(root, read)?;
    let mut host = HostSpec::default();
    if let Some(item) = root.get("host") {
        let table = item.table("[host]")?;
        apply(&table, HOST, HOST_ALSO, &mut host, context)?;
        parts(&table, ["[host.stack]", "[host.nic]"], &mut host, (context, &files))?;
    }
    scenario.hosts = hosts(root, &host, (context, &files))?;
    check::topology(root, &scenario)?;
    let flows: Vec<FlowGroup> = groups(root, "flows", FLOWS, context, |table, i, group: &mut FlowGroup| {
        if group.name.is_empty() {
            group.name = format!("flows-{i}");
        }
        check::flows(table, group, &scenario.hosts)
    })?;
    let probes: Vec<ProbeSpec> =
        groups(root, "probes", PROBES, context, |table, i, probe: &mut ProbeSpec| {
            if probe.name.is_empty() {
                probe.name = format!("probes-{i}");
            }
            check::probe(table, probe, &scenario.hosts)
        })?;
    let changes = groups(root, "changes", CHANGES, context, |table, _, change: &mut PolicyChange| {
        check::change(table, change, &scenario.hosts)?;
        files.change(table, change)
    })?;
    let files = files.into_texts();
    if flows.is_empty() && probes.is_empty() {
        let hint = "begin a group of flows with [[flows]]; it may be empty, which is one bulk flow from host 0 to host 1";
        return Err(ParseError::new(
            root.place(&["flows", "probes"]),
            "the scenario has no flows and no probes",
            hint,
        ));
    }
    Ok(Scenario { flows, probes, changes, files, classes, ..scenario })
}

/// Reads `[network]`.
fn network(item: &TomlItem<'_>, scenario: &mut Scenario, context: Context<'_>) -> Result<(), ParseError> {
    let table = item.table("[network]")?;
    let network = &mut scenario.network;
    apply(&table, NETWORK, NETWORK_ALSO, network, context)?;
    if table.get("trunk_rate").is_none() {
        network.trunk_rate = network.rate;
    }
    if let Some(item) = table.get("switch") {
        apply(&item.table("[network.switch]")?, SWITCH, &[], &mut network.switch, context)?;
    }
    Ok(())
}

/// Reads and checks the stack and NIC of a host.
fn parts(
    table: &TomlTable<'_>,
    [stack, nic]: [&'static str; 2],
    host: &mut HostSpec,
    (context, files): (Context<'_>, &Gathered<'_>),
) -> Result<(), ParseError> {
    if let Some(item) = table.get("stack") {
        let table = item.table(stack)?;
        if table.get("policy").or(table.get("policy_file")).is_some() {
            // One of the two replaces whichever the usual host has.
            (host.stack.policy, host.stack.policy_file) = (None, None);
        }
        apply(&table, STACK, &[], &mut host.stack, context)?;
        check::policy(&table, &host.stack)?;
        files.policy(&table, host.stack.policy.as_deref(), host.stack.policy_file.as_deref())?;
    }
    if let Some(item) = table.get("nic") {
        apply(&item.table(nic)?, NIC, &[], &mut host.nic, context)?;
    }
    check::host(table, host)
}

/// Reads the hosts: a number of equal ones, or the differences from `[host]`, by index.
fn hosts(
    root: &TomlTable<'_>,
    usual: &HostSpec,
    (context, files): (Context<'_>, &Gathered<'_>),
) -> Result<Vec<HostSpec>, ParseError> {
    let Some(item) = root.get("hosts") else { return Ok(vec![usual.clone(); defaults::HOSTS]) };
    if item.as_list().is_none() {
        if item.as_number().is_none() {
            return Err(item
                .mistyped("a number or [[hosts]]", "write `hosts = 2`, or begin each host with [[hosts]]"));
        }
        let number = item.whole(&(1..=HOSTS_MAX))?;
        return Ok(vec![usual.clone(); number as usize]);
    }
    let mut all: Vec<Option<HostSpec>> = vec![None; defaults::HOSTS];
    let mut next = 0;
    for item in item.list("")? {
        let table = item.table("[[hosts]]")?;
        let mut host = usual.clone();
        apply(&table, HOST, HOSTS_ALSO, &mut host, context)?;
        parts(&table, ["[hosts.stack]", "[hosts.nic]"], &mut host, (context, files))?;
        let whole = |key: &str, range, default| table.get(key).map_or(Ok(default), |item| item.whole(&range));
        let index = whole("index", 0..=HOSTS_MAX - 1, next)?;
        next = index + whole("count", 1..=HOSTS_MAX, 1)?;
        let place = table.place(&["count", "index"]);
        if next > HOSTS_MAX {
            return Err(ParseError::new(place, format!("more than {HOSTS_MAX} hosts"), "take fewer"));
        }
        all.resize(all.len().max(next as usize), None);
        for (at, slot) in all.iter_mut().enumerate().take(next as usize).skip(index as usize) {
            if slot.replace(host.clone()).is_some() {
                let hint = "without `index`, an entry is for the host after those of the entry before";
                return Err(ParseError::new(place, format!("host {at} is described twice"), hint));
            }
        }
    }
    Ok(all.into_iter().map(|host| host.unwrap_or_else(|| usual.clone())).collect())
}

/// Reads a list of tables such as `[[flows]]`.
fn groups<T: Default>(
    root: &TomlTable<'_>,
    key: &str,
    keys: &[Key<T>],
    context: Context<'_>,
    mut complete: impl FnMut(&TomlTable<'_>, usize, &mut T) -> Result<(), ParseError>,
) -> Result<Vec<T>, ParseError> {
    let Some(item) = root.get(key) else { return Ok(Vec::new()) };
    let name = format!("[[{key}]]");
    let mut groups = Vec::new();
    for (i, item) in item.list(format!("begin each with [[{key}]]"))?.into_iter().enumerate() {
        let table = item.table(&name)?;
        let mut group = T::default();
        apply(&table, keys, &[], &mut group, context)?;
        complete(&table, i, &mut group)?;
        groups.push(group);
    }
    Ok(groups)
}
