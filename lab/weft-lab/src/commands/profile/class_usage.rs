//! The use of classes: what each class sent in a span, and the processor time of the processes whose packets it takes.
//!
//! A process belongs to a class if the policy gives the class all packets that it can send, by its cgroup, its user and the port of
//! its network namespace ([`CompiledPolicy::classes_of`]). Others are not distinguished. The sockets of a process that has changed
//! its cgroup or user may be those of the former one.

use std::collections::BTreeMap;
use std::path::Path;

use weft_control::interface::{ConfigTenant, ServiceConfig};
use weft_facts::status::{ServiceStatus, StatusClass};
use weft_host::NetNs;
use weft_host::tasks::Task;
use weft_policy::senders::Sender;
use weft_policy::{CompiledPolicy, FileError, FileText, TenantFiles, Wanted};
use weft_report::profile::attached::{ClassUse, PolicyUse, TaskTime};
use weft_run::tenant_files::Beside;
use weft_units::ClassId;

use weft_service::policy::{PolicyError, ServicePolicy};

/// Files of tenants: those that were attached, and the others beside the policy.
struct Files<'a>(&'a [ConfigTenant]);

impl TenantFiles for Files<'_> {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        let attached = self.0.iter().find(|tenant| tenant.tenant == wanted.tenant);
        match attached.and_then(|tenant| tenant.text.clone()) {
            Some(text) => Ok(FileText { name: wanted.path.to_owned(), text }),
            None => Beside.read(wanted),
        }
    }
}

/// The policy of a daemon, compiled here.
///
/// # Errors
/// If a file of a tenant has changed since, so that the policy does not compile.
pub(super) fn compiled(config: ServiceConfig) -> Result<CompiledPolicy, PolicyError> {
    let files = Files(&config.tenants);
    ServicePolicy::limited(&config.policy, config.text, &files, None, Vec::new())
        .map(|policy| policy.compiled)
}

/// A process that ran, and its time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Ran<'a> {
    /// Its facts; `None` if it had ended before it was read.
    pub(super) task: Option<&'a Task>,
    /// Its processor time.
    pub(super) time: &'a TaskTime,
}

/// The names of ports by the inode number of their network namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct PortPlaces(BTreeMap<u64, Vec<String>>);

impl PortPlaces {
    /// The places of a daemon's ports. A port without a separate namespace is in this process's, which is the daemon's on most hosts; one
    /// whose namespace is gone is left out.
    pub(super) fn of(status: &ServiceStatus) -> Self {
        let mut places = Self::default();
        for port in &status.ports {
            let namespace = match port.netns.as_deref() {
                None => NetNs::current(),
                Some(path) if path.starts_with('/') => NetNs::open_path(Path::new(path)),
                Some(name) => NetNs::named(name),
            };
            if let Ok(inode) = namespace.and_then(|ns| ns.inode()) {
                places.0.entry(inode).or_default().push(port.port.clone());
            }
        }
        places
    }
}

/// The use of a policy between two readings of the counters: packets that the classes sent, and the time of their processes. `ran` has
/// the processes with time in the network stack.
pub(super) fn policy_use(
    policy: &CompiledPolicy,
    places: &PortPlaces,
    (before, after): (&ServiceStatus, &ServiceStatus),
    ran: &[Ran<'_>],
) -> PolicyUse {
    let class = |now: &StatusClass| {
        let was = before.classes.iter().find(|was| was.class == now.class).cloned().unwrap_or_default();
        ClassUse {
            class: now.class.clone(),
            packets: now.packets.saturating_sub(was.packets),
            bytes: now.bytes.saturating_sub(was.bytes),
            ..ClassUse::default()
        }
    };
    let mut all = PolicyUse {
        uplink: after.uplink.name.clone(),
        policy: after.policy.clone(),
        generation: after.generation,
        classes: after.classes.iter().map(class).collect(),
        ..PolicyUse::default()
    };
    for one in ran {
        let network_s = one.time.in_network_s();
        match place(policy, places, one.task) {
            Place::Class(class) => {
                let name = policy.classes.get(class.index()).map(|class| class.name.as_str());
                match all.classes.iter_mut().find(|class| Some(class.class.as_str()) == name) {
                    Some(class) => {
                        class.processes += 1;
                        class.processor_s += one.time.total_s();
                        class.network_s += network_s;
                    }
                    None => all.not_told_apart_s += network_s,
                }
            }
            Place::NotToldApart => all.not_told_apart_s += network_s,
            Place::WithoutPort => all.without_port_s += network_s,
        }
    }
    all
}

/// The place of a process's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Class(ClassId),
    NotToldApart,
    WithoutPort,
}

fn place(policy: &CompiledPolicy, places: &PortPlaces, task: Option<&Task>) -> Place {
    let Some((task, netns)) = task.and_then(|task| Some((task, task.netns?))) else {
        return Place::NotToldApart;
    };
    let port = match places.0.get(&netns).map(Vec::as_slice) {
        None | Some([]) => return Place::WithoutPort,
        Some([only]) => Some(only.as_str()),
        Some(_) => None,
    };
    let sender = Sender { cgroup: task.cgroup.as_deref(), user: task.user, port };
    let mut classes = policy.classes_of(sender).into_iter();
    match (classes.next(), classes.next()) {
        (Some(only), None) => Place::Class(only),
        _ => Place::NotToldApart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_policy::{CompileOptions, Source, compile};
    use weft_report::profile::Category;
    use weft_report::profile::attached::Direction;

    const TEXT: &str = "link 1gbps\nclass db = cgroup \"/db.slice\"\nclass web = tcp port 80\n\
                        root = wfq { db: 1, web: 1, default: 1 }\n";
    const HERE: u64 = 5;

    fn status(bytes: u64) -> ServiceStatus {
        let class = |name: &str| StatusClass {
            class: name.to_owned(),
            bytes,
            packets: bytes / 100,
            ..StatusClass::default()
        };
        let classes = ["db", "web", "default"].map(class).to_vec();
        ServiceStatus { classes, policy: "p.weft".to_owned(), generation: 3, ..ServiceStatus::default() }
    }

    fn task(cgroup: &str, netns: u64) -> Task {
        Task { command: "x".to_owned(), cgroup: Some(cgroup.to_owned()), user: Some(0), netns: Some(netns) }
    }

    #[test]
    fn time_belongs_to_a_class_or_is_not_told_apart() {
        let policy =
            compile(Source { name: "p", text: TEXT }, &CompileOptions::default()).policy.expect("a policy");
        let places = PortPlaces([(HERE, vec!["weft0".to_owned()])].into());
        let mut time = TaskTime { user_s: 1.0, ..TaskTime::default() };
        time.add_network(Direction::Transmit, Category::Tcpip, 0.25);
        let tasks = [
            task("/db.slice/a", HERE),
            task("/db.slice", HERE),
            task("/user.slice", HERE),
            task("/db.slice", 6),
        ];
        let with_facts = tasks.iter().map(|task| Ran { task: Some(task), time: &time });
        let ran: Vec<Ran<'_>> = with_facts.chain([Ran { task: None, time: &time }]).collect();
        let used = policy_use(&policy, &places, (&status(1000), &status(5000)), &ran);
        let [db, web, _] = &used.classes[..] else { panic!("{used:?}") };
        assert_eq!((db.bytes, db.packets, db.processes), (4000, 40, 2));
        assert_eq!((db.processor_s, db.network_s), (2.5, 0.5));
        assert_eq!((web.processes, used.not_told_apart_s, used.without_port_s), (0, 0.5, 0.25));
        assert_eq!((used.policy.as_str(), used.generation), ("p.weft", 3));
    }
}
