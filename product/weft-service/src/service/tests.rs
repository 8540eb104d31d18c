//! The state of the daemon over a data path without a kernel.

use super::*;
use crate::config::{ConfiguredPort, Hold, Metrics, OnFailure, Watchdog};
use crate::data_path::{DataPath, PolicyPlan, PortSpec};
use crate::holding::Opened;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;
use weft_control::interface::{
    AddPort, ChangeReply, LoadPolicy, OfUplink, PolicySource, PortName, ReloadReply, TenantText,
};
use weft_facts::counters::ClassDrops;
use weft_facts::ports::PortLimit;
use weft_facts::status::{ServiceStatus, StatusClass, StatusPort, WorkerState};
use weft_policy::CompiledPolicy;
use weft_units::{BitsPerSec, Bytes, Packets};

mod tenants;

const ROOT: Caller = Caller { uid: 0, is_admin: true };
const ALICE: Caller = Caller { uid: 1000, is_admin: false };
const BOB: Caller = Caller { uid: 1001, is_admin: false };
const POLICY: &str = "link 100mbps\nclass a = tcp port 1\nroot = wfq { a: 1, default: 1 }\n";

/// A data path that remembers.
#[derive(Debug)]
struct Fake {
    policy: CompiledPolicy,
    ports: Vec<PortSpec>,
    /// Whether its worker has ended: a port of this name is there.
    ended: bool,
    closed: Vec<String>,
}

impl DataPath for Fake {
    fn prepare(&mut self, policy: &CompiledPolicy) -> Result<PolicyPlan, DataPathError> {
        let steps = if *policy == self.policy { Vec::new() } else { vec!["changed".to_owned()] };
        Ok(PolicyPlan { steps, warnings: Vec::new() })
    }

    fn commit(&mut self, policy: &ServicePolicy) -> Result<(), DataPathError> {
        let policy = policy.compiled.clone();
        if policy.classes.iter().any(|class| class.name == "impossible") {
            return Err(DataPathError::Unsupported("unsupported: a test says so"));
        }
        self.policy = policy;
        Ok(())
    }

    fn status(&mut self) -> Result<ServiceStatus, DataPathError> {
        let class = |class: &weft_policy::ClassInfo| StatusClass {
            class: class.name.clone(),
            bytes: 1000,
            bps: 1e6,
            dropped: ClassDrops { ring_full: Packets(2), ..ClassDrops::default() },
            sojourn_reason: Some("no packet has left yet".to_owned()),
            ..StatusClass::default()
        };
        let port = |port: &PortSpec| StatusPort {
            port: port.name.clone(),
            netns: port.netns.clone(),
            mac: port.mac.to_string(),
            addresses: port.addresses.iter().map(|(ip, length)| format!("{ip}/{length}")).collect(),
            ingress_limit: port.ingress,
            ..StatusPort::default()
        };
        Ok(ServiceStatus {
            classes: self.policy.classes.iter().map(class).collect(),
            ports: self.ports.iter().map(port).collect(),
            worker: if self.ended { WorkerState::Ended } else { WorkerState::Running },
            ..ServiceStatus::default()
        })
    }

    fn add_port(&mut self, port: &PortSpec) -> Result<Vec<String>, DataPathError> {
        if port.name == "broken" {
            return Err(DataPathError::Failed("it cannot be made".to_owned()));
        }
        self.ended = port.name == "fatal";
        self.ports.push(port.clone());
        Ok(vec!["a note".to_owned()])
    }

    fn close_port(&mut self, name: &str) -> Result<(), DataPathError> {
        self.closed.push(name.to_owned());
        Ok(())
    }

    fn is_drained(&self, name: &str) -> bool {
        !name.starts_with("full")
    }

    fn remove_port(&mut self, name: &str) -> Result<(), DataPathError> {
        self.ports.retain(|port| port.name != name);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), DataPathError> {
        Ok(())
    }
}

impl DaemonService {
    /// Answers a request as the loop does, with all steps of what it begins.
    fn answer(&mut self, request: Request, caller: Caller) -> Result<Reply, ControlError> {
        match self.handle(request, caller)? {
            PendingAnswer::Now(reply) => Ok(reply),
            PendingAnswer::Later(later) => loop {
                if let Some(answer) = later.answer() {
                    return answer;
                }
                self.advance(Instant::now());
            },
        }
    }
}

fn port(name: &str) -> ConfiguredPort {
    ConfiguredPort { name: name.to_owned(), ..ConfiguredPort::default() }
}

/// A service whose configuration is in the folder.
fn service(ports: Vec<ConfiguredPort>) -> (TempDir, DaemonService) {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("p.weft"), POLICY).expect("write");
    let main = folder.path().join("weft.toml");
    let uplink = UplinkConfig {
        name: None,
        device: "eth0".to_owned(),
        netns: None,
        rate: None,
        workers: core::num::NonZeroUsize::MIN,
        backend: crate::config::UplinkBackend::Port,
        policy: folder.path().join("p.weft"),
        ports,
    };
    let config = config(vec![uplink]);
    let service = service_of(config, Folders::of(Some(main)));
    (folder, service)
}

/// A configuration with these uplinks.
fn config(uplinks: Vec<UplinkConfig>) -> Config {
    Config {
        default_uplink: (uplinks.len() == 1).then_some(0),
        uplinks,
        socket: weft_control::SOCKET.into(),
        group: "weft".to_owned(),
        metrics: Metrics::Off,
        hold: Hold::Auto,
        on_failure: OnFailure::Hold,
        watchdog: Watchdog::Auto,
        steer: None,
    }
}

/// A data path for each uplink.
fn service_of(config: Config, folders: Folders) -> DaemonService {
    let surroundings = surroundings(Box::new(Fakes));
    let start = |uplink: &UplinkConfig| {
        let policy = ServicePolicy::read(&uplink.policy, None).expect("valid");
        let started = Fakes.start(&policy, uplink, &config, None).expect("started");
        UplinkStart { policy, refused: RefusedTenants::new(), started }
    };
    let starts = config.uplinks.iter().map(start).collect();
    DaemonService::resume(starts, surroundings, config, folders, Rc::new(Log::kept()))
}

/// The surroundings of a test: the cgroup `/vm1` is delegated to user 1000, and `/vm2` to no user.
fn surroundings(maker: Box<dyn Maker>) -> Surroundings {
    let delegation = |cgroup: &str| match cgroup {
        "/vm1" => Delegation::To(1000),
        "/vm2" => Delegation::Nobody,
        _ => Delegation::Missing,
    };
    Surroundings { maker, given: Given::default(), steering: None, delegation }
}

/// A maker of data paths without a kernel.
#[derive(Debug)]
struct Fakes;

impl Maker for Fakes {
    fn start(
        &self,
        policy: &ServicePolicy,
        _: &UplinkConfig,
        _: &Config,
        _: Option<Opened>,
    ) -> Result<Started, DataPathError> {
        let path = Box::new(Fake {
            policy: policy.compiled.clone(),
            ports: Vec::new(),
            ended: false,
            closed: Vec::new(),
        });
        Ok(Started { path, former: None, notes: Vec::new(), missing: None })
    }

    fn may_start(&self, _: &UplinkConfig) -> bool {
        true
    }
}

fn load(
    service: &mut DaemonService,
    text: &str,
    generation: Option<u64>,
) -> Result<ChangeReply, ControlError> {
    let (name, text) = ("new.weft".to_owned(), text.to_owned());
    let request = LoadPolicy { name, text, generation, ..LoadPolicy::default() };
    match service.answer(Request::LoadPolicy(request), ROOT)? {
        Reply::Change(reply) => Ok(reply),
        other => panic!("{other:?}"),
    }
}

fn add(service: &mut DaemonService, name: &str, caller: Caller) -> Result<Reply, ControlError> {
    service.answer(Request::AddPort(AddPort { name: name.to_owned(), ..AddPort::default() }), caller)
}

fn remove(service: &mut DaemonService, name: &str, caller: Caller) -> Result<Reply, ControlError> {
    service.answer(Request::RemovePort(PortName { name: name.to_owned() }), caller)
}

#[test]
fn generations_count_replacements() {
    let (_folder, mut service) = service(Vec::new());
    assert_eq!(service.generation(), 1);
    let same = load(&mut service, POLICY, Some(1)).expect("loads");
    assert_eq!((same.generation, same.steps.len()), (1, 0), "the same text replaces nothing");
    let other = POLICY.replace("a: 1", "a: 2");
    assert_eq!(load(&mut service, &other, Some(1)).expect("loads").generation, 2);
    let stale = load(&mut service, POLICY, Some(1)).unwrap_err();
    assert_eq!(stale, ControlError::StaleGeneration { generation: 2 });
    let Ok(Reply::Config(config)) = service.answer(Request::Config(OfUplink::default()), ALICE) else {
        panic!("a reply")
    };
    assert_eq!((config.text.as_str(), config.is_default, config.generation), (other.as_str(), false, 2));
    let Ok(Reply::Change(back)) = service.answer(Request::RestorePolicy(OfUplink::default()), ROOT) else {
        panic!("a reply")
    };
    assert_eq!(back.generation, 3);
    let Ok(Reply::Config(config)) = service.answer(Request::Config(OfUplink::default()), ALICE) else {
        panic!("a reply")
    };
    assert!(config.is_default && config.text == POLICY, "{config:?}");
}

#[test]
fn a_refused_policy_changes_nothing() {
    let (_folder, mut service) = service(Vec::new());
    let hash = service.policy_hash().to_owned();
    let error = load(&mut service, "link 1gbps\nroot = nothing\n", None).unwrap_err();
    assert!(error.to_string().starts_with("new.weft:2:8: error["), "{error}");
    let impossible = "class impossible = tcp\nroot = impossible\n";
    let error = load(&mut service, impossible, None).unwrap_err();
    assert!(matches!(error, ControlError::Unsupported { .. }), "{error}");
    assert_eq!((service.generation(), service.policy_hash()), (1, hash.as_str()));
}

#[test]
fn a_difference_changes_nothing() {
    let (_folder, mut service) = service(Vec::new());
    let text = POLICY.replace("a: 1", "a: 5");
    let source = PolicySource { name: "x".to_owned(), text, ..PolicySource::default() };
    let Ok(Reply::Change(reply)) = service.answer(Request::DiffPolicy(source), ALICE) else {
        panic!("a reply")
    };
    assert_eq!((reply.generation, reply.steps.len()), (1, 1));
    assert_eq!(load(&mut service, POLICY, Some(1)).expect("still in force").steps.len(), 0);
}

#[test]
fn a_port_is_removed_by_its_user_or_root() {
    let (_folder, mut service) = service(vec![port("c0")]);
    add(&mut service, "p0", ALICE).expect("made");
    assert_eq!(add(&mut service, "p0", BOB).unwrap_err(), ControlError::PortExists { name: "p0".to_owned() });
    let error = remove(&mut service, "p0", BOB).unwrap_err();
    assert_eq!(error, ControlError::PortOfAnotherUser { name: "p0".to_owned(), uid: 1000 });
    let error = remove(&mut service, "c0", BOB).unwrap_err();
    assert_eq!(error, ControlError::PortOfAnotherUser { name: "c0".to_owned(), uid: 0 });
    remove(&mut service, "p0", ALICE).expect("removed");
    remove(&mut service, "c0", ROOT).expect("removed");
    assert_eq!(
        remove(&mut service, "p0", ROOT).unwrap_err(),
        ControlError::NoSuchPort { name: "p0".to_owned() }
    );
}

#[test]
fn parameters_of_a_port_are_checked_before_the_kernel_sees_them() {
    let (_folder, mut service) = service(Vec::new());
    let of = |name: &str, netns: Option<&str>, address: &str, mac: Option<&str>| AddPort {
        name: name.to_owned(),
        netns: netns.map(str::to_owned),
        addresses: vec![address.to_owned()],
        mac: mac.map(str::to_owned),
        ..AddPort::default()
    };
    for (port, expected) in [
        (of("", None, "::1/128", None), "name:"),
        (of("a/b", None, "::1/128", None), "name:"),
        (of("sixteen-letters-", None, "::1/128", None), "name:"),
        (of("p", Some("../x"), "::1/128", None), "netns:"),
        (of("p", None, "::1", None), "addresses:"),
        (of("p", None, "::1/128", Some("x")), "mac:"),
    ] {
        let error = service.answer(Request::AddPort(port.clone()), ROOT).unwrap_err().to_string();
        assert!(error.contains(expected), "{port:?}: {error}");
    }
    let Ok(Reply::AddPort(reply)) = add(&mut service, "p", ALICE) else { panic!("a reply") };
    assert_eq!((reply.port.owner_uid, reply.port.configured), (1000, false));
    assert!(reply.port.mac.parse::<weft_host::Mac>().is_ok_and(|mac| mac.0[0] == 2), "{reply:?}");
}

#[test]
fn the_status_has_what_is_promised() {
    let (_folder, mut service) = service(vec![port("c0"), port("broken")]);
    let status = service.status().expect("readable");
    assert_eq!((status.generation, status.policy_hash.len()), (1, 64));
    let a = status.classes.iter().find(|class| class.class == "a").expect("the class");
    assert_eq!((a.bytes, a.bps, a.dropped.ring_full), (1000, 1e6, Packets(2)));
    assert!(a.entitled_bps.is_some_and(|bps| bps > 1e6), "{a:?}");
    assert!(a.sojourn_s.is_none() && a.sojourn_reason.is_some(), "{a:?}");
    assert_eq!((status.ports.len(), status.ports[0].configured), (1, true));
    assert!(
        service.uplinks[0].log.lines().iter().any(|line| line.starts_with("error: port broken: ")),
        "{:?}",
        service.uplinks[0].log
    );
}

fn reload(service: &mut DaemonService) -> Result<ReloadReply, ControlError> {
    match service.answer(Request::Reload, ROOT)? {
        Reply::Reload(reply) => Ok(reply),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reload_follows_policy_and_ports() {
    let (folder, mut service) = service(vec![port("c0"), port("c1")]);
    add(&mut service, "mine", ALICE).expect("made");
    let main = folder.path().join("weft.toml");
    let text = "uplink = \"eth9\"\npolicy = \"p.weft\"\n[[ports]]\nname = \"c1\"\n[[ports]]\nname = \"c2\"\n";
    fs::write(&main, text).expect("write");
    fs::write(folder.path().join("p.weft"), POLICY.replace("a: 1", "a: 9")).expect("write");
    let reply = reload(&mut service).expect("reloads");
    assert_eq!(
        (reply.generation, reply.steps),
        (2, vec!["changed".into(), "port c0 removed".into(), "port c2 added".into()])
    );
    assert_eq!(reply.warnings, ["`uplink` changes with the next start of the daemon"]);
    let ports: Vec<_> = service.status().expect("status").ports.into_iter().map(|port| port.port).collect();
    assert_eq!(ports, ["c1", "mine", "c2"]);
    assert_eq!(service.config().uplinks[0].device, "eth0");
    let again = reload(&mut service).expect("reloads");
    assert_eq!((again.generation, again.steps.len(), again.warnings.len()), (2, 0, 1));
}

#[test]
fn a_wrong_file_changes_nothing() {
    let (folder, mut service) = service(vec![port("c0")]);
    let main = folder.path().join("weft.toml");
    for text in ["uplnk = 1\n", "uplink = \"e\"\npolicy = \"none.weft\"\n"] {
        fs::write(&main, text).expect("write");
        assert!(matches!(reload(&mut service), Err(ControlError::Failed { .. })), "{text}");
    }
    fs::write(&main, "uplink = \"e\"\npolicy = \"p.weft\"\n").expect("write");
    fs::write(folder.path().join("p.weft"), "root = nothing\n").expect("write");
    assert!(matches!(reload(&mut service), Err(ControlError::PolicyRefused { .. })));
    let status = service.status().expect("status");
    assert_eq!((status.generation, status.ports.len()), (1, 1));
}

/// A service with the uplinks `lan` and `wan`, whose configuration is in the folder.
fn two() -> (TempDir, DaemonService) {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("p.weft"), POLICY).expect("write");
    let main = folder.path().join("weft.toml");
    fs::write(&main, TWO).expect("write");
    let folders = Folders::of(Some(main));
    let service = service_of(folders.load().expect("valid"), folders);
    (folder, service)
}

const TWO: &str = "policy = \"p.weft\"\nhold = \"off\"\n[uplink.lan]\ndevice = \"eth0\"\n[[uplink.lan.ports]]\nname = \"a\"\n\
    [uplink.wan]\ndevice = \"eth1\"\n[[uplink.wan.ports]]\nname = \"b\"\n";

fn load_at(service: &mut DaemonService, uplink: Option<&str>, text: &str) -> Result<Reply, ControlError> {
    let (name, text, uplink) = ("x".to_owned(), text.to_owned(), uplink.map(str::to_owned));
    service.answer(Request::LoadPolicy(LoadPolicy { name, text, uplink, ..LoadPolicy::default() }), ROOT)
}

#[test]
fn a_change_of_one_uplink_leaves_the_other_alone() {
    let (_folder, mut service) = two();
    let changed = POLICY.replace("a: 1", "a: 7");
    let error = load_at(&mut service, None, &changed).unwrap_err();
    assert_eq!(error.to_string(), "there are several uplinks: lan, wan; name one with --uplink");
    let error = load_at(&mut service, Some("x"), &changed).unwrap_err();
    assert_eq!(error.to_string(), "there is no uplink x; there are: lan, wan");
    let Ok(Reply::Change(reply)) = load_at(&mut service, Some("wan"), &changed) else { panic!("a reply") };
    assert_eq!((reply.generation, reply.uplink.as_deref()), (2, Some("wan")));
    let status = service.status().expect("status");
    let generations: Vec<_> =
        status.uplinks.iter().map(|uplink| (uplink.uplink.name.as_deref(), uplink.generation)).collect();
    assert_eq!(generations, [(Some("lan"), 1), (Some("wan"), 2)]);
    assert_eq!((status.generation, status.uplink.interface.as_str()), (1, "eth0"), "the first is on top");
    let log = service.uplinks[0].log.lines().join("\n");
    assert!(log.contains("uplink wan: policy x (") && !log.contains("uplink lan: policy x"), "{log}");
}

#[test]
fn a_port_has_one_uplink_and_a_name_of_its_own() {
    let (_folder, mut service) = two();
    let error = add(&mut service, "c", ALICE).unwrap_err();
    assert!(matches!(error, ControlError::UplinkNeeded { .. }), "{error}");
    let of = |name: &str| {
        let uplink = Some("wan".to_owned());
        Request::AddPort(AddPort { name: name.to_owned(), uplink, ..AddPort::default() })
    };
    let error = service.answer(of("a"), ROOT).unwrap_err();
    assert_eq!(error, ControlError::PortExists { name: "a".to_owned() }, "it is the other uplink's");
    service.answer(of("c"), ALICE).expect("made");
    let Ok(Reply::Ports(list)) = service.answer(Request::ListPorts(OfUplink::default()), BOB) else {
        panic!("a reply")
    };
    let ports: Vec<_> = list.ports.iter().map(|p| (p.port.as_str(), p.uplink.as_deref())).collect();
    assert_eq!(ports, [("a", Some("lan")), ("b", Some("wan")), ("c", Some("wan"))]);
    remove(&mut service, "c", ALICE).expect("removed");
}

#[test]
fn a_reload_moves_a_port_to_the_other_uplink() {
    let (folder, mut service) = two();
    let text = TWO.replace("[[uplink.wan.ports]]\nname = \"b\"", "[[uplink.wan.ports]]\nname = \"a\"");
    let text = text.replace("[[uplink.lan.ports]]\nname = \"a\"\n", "") + "[uplink.dmz]\ndevice = \"eth2\"\n";
    fs::write(folder.path().join("weft.toml"), text).expect("write");
    let reply = reload(&mut service).expect("reloads");
    assert_eq!(
        reply.steps,
        ["uplink lan: port a removed", "uplink wan: port b removed", "uplink wan: port a added"]
    );
    assert_eq!(reply.warnings, ["`uplink.dmz` changes with the next start of the daemon"]);
    fs::write(folder.path().join("bad.weft"), "root = nothing\n").expect("write");
    let bad = TWO.replace("device = \"eth1\"", "device = \"eth1\"\npolicy = \"bad.weft\"");
    fs::write(folder.path().join("weft.toml"), bad).expect("write");
    assert!(matches!(reload(&mut service), Err(ControlError::PolicyRefused { .. })));
    let Ok(Reply::Ports(list)) = service.answer(Request::ListPorts(OfUplink::default()), BOB) else {
        panic!("a reply")
    };
    assert_eq!(list.ports.len(), 1, "a policy that is wrong at one uplink changes nothing at the other");
}

#[test]
fn a_failed_uplink_does_not_end_the_other_and_comes_back() {
    let (_folder, mut service) = two();
    let fatal = AddPort { name: "fatal".to_owned(), uplink: Some("wan".to_owned()), ..AddPort::default() };
    service.answer(Request::AddPort(fatal), ALICE).expect("made");
    let now = Instant::now();
    // The port that ends the fake is made again, and ends it again, so only the first loss is checked.
    service.next_restart = now + Duration::from_secs(60);
    service.tick(now);
    service.tick(now);
    assert!(!service.has_ended());
    let workers = |service: &DaemonService| -> Vec<_> {
        service.latest().uplinks.iter().map(|uplink| uplink.worker).collect()
    };
    assert_eq!(workers(&service), [WorkerState::Running, WorkerState::Ended]);
    let error = load_at(&mut service, Some("wan"), "root = fair of default\n").unwrap_err();
    assert_eq!(error.to_string(), "the uplink does not run: its session has ended by itself");
    load_at(&mut service, Some("lan"), "root = fair of default\n").expect("the other goes on");
    remove(&mut service, "fatal", ALICE).expect("removed");
    service.tick(now + Duration::from_secs(61));
    while service.advance(now) {}
    service.tick(now + Duration::from_secs(61));
    assert_eq!(workers(&service), [WorkerState::Running, WorkerState::Running]);
    let ports: Vec<_> = service.latest().uplinks[1].ports.iter().map(|port| port.port.clone()).collect();
    assert_eq!(ports, ["b"]);
}

fn add_limited(service: &mut DaemonService, name: &str, rate_bps: u64) -> Result<Reply, ControlError> {
    let limit = Some(PortLimit { rate: BitsPerSec(rate_bps), burst: Bytes(30_000) });
    let port =
        AddPort { name: name.to_owned(), egress_limit: limit, ingress_limit: limit, ..AddPort::default() };
    service.answer(Request::AddPort(port), ROOT)
}

/// The limits of the policy in force, and the limited ports of the status.
fn limits(service: &mut DaemonService) -> (Vec<String>, Vec<String>) {
    let of_policy =
        service.uplinks[0].policy.compiled.program.limits.iter().map(|limit| limit.name.clone()).collect();
    let ports = service.status().expect("status").ports.into_iter();
    let of_ports = ports.filter(|port| port.egress_limit.is_some() && port.ingress_limit.is_some());
    (of_policy, of_ports.map(|port| port.port).collect())
}

#[test]
fn ports_of_the_configuration_have_limits_and_follow_them() {
    let limit = |mbps: u64| Some(PortLimit { rate: BitsPerSec(mbps * 1_000_000), burst: Bytes(30_000) });
    let both = |mbps| ConfiguredPort { egress: limit(mbps), ingress: limit(mbps), ..port("vm1") };
    let (folder, mut service) = service(vec![both(10)]);
    assert_eq!(limits(&mut service), (vec!["port[vm1]".to_owned()], vec!["vm1".to_owned()]));
    let text = |limit: &str| {
        let limits = format!("egress-limit = \"{limit}\"\ningress-limit = \"{limit}\"\n");
        format!("uplink = \"eth0\"\npolicy = \"p.weft\"\n[[ports]]\nname = \"vm1\"\n{limits}")
    };
    let rate = |service: &DaemonService| service.uplinks[0].policy.compiled.program.limits[0].rate;
    fs::write(folder.path().join("weft.toml"), text("20mbps,30kb")).expect("write");
    let told = reload(&mut service).expect("reloaded");
    assert_eq!(told.steps, ["port vm1 removed", "port vm1 added"]);
    assert_eq!(rate(&service), BitsPerSec(20_000_000));
}

#[test]
fn limits_of_ports_are_beside_the_operator_s_policy() {
    let (_folder, mut service) = service(Vec::new());
    let hash = service.policy_hash().to_owned();
    add_limited(&mut service, "vm1", 10_000_000).expect("added");
    let both = (vec!["port[vm1]".to_owned()], vec!["vm1".to_owned()]);
    assert_eq!(limits(&mut service), both);
    assert_eq!((service.generation(), service.policy_hash()), (1, hash.as_str()), "the operator's policy");
    let Ok(Reply::Config(config)) = service.answer(Request::Config(OfUplink::default()), ALICE) else {
        panic!("a reply")
    };
    assert!(config.text == POLICY && config.is_default);
    let (name, text) = ("x".to_owned(), POLICY.to_owned());
    let source = PolicySource { name, text, ..PolicySource::default() };
    let Ok(Reply::Change(same)) = service.answer(Request::DiffPolicy(source), ALICE) else {
        panic!("a reply")
    };
    assert_eq!(same.steps, [""; 0], "a difference does not speak of limits of ports");
    load(&mut service, &POLICY.replace("a: 1", "a: 3"), None).expect("loads");
    assert_eq!(limits(&mut service), both, "another policy has them too");
    service.answer(Request::RestorePolicy(OfUplink::default()), ROOT).expect("restored");
    assert_eq!(limits(&mut service), both);
    let error = add_limited(&mut service, "broken", 10_000_000).unwrap_err();
    assert!(matches!(error, ControlError::Failed { .. }), "{error}");
    assert_eq!(limits(&mut service), both, "nothing of a port that cannot be made remains");
    let error = add_limited(&mut service, "vm2", 0).unwrap_err();
    assert!(error.to_string().contains("egress_limit: a rate above zero"), "{error}");
    remove(&mut service, "vm1", ROOT).expect("removed");
    assert_eq!(limits(&mut service), (Vec::new(), Vec::new()));
    assert_eq!((service.generation(), service.policy_hash()), (3, hash.as_str()));
}

#[test]
fn a_policy_comes_with_the_files_of_its_tenants() {
    let (folder, mut service) = service(Vec::new());
    let operator =
        "link 1gbps\nvm1 = tenant \"vm1.weft\" of cgroup \"/vm1\"\nroot = wfq { vm1: 1, default: 1 }\n";
    let with = |text: &str| LoadPolicy {
        name: "op.weft".to_owned(),
        text: operator.to_owned(),
        tenants: vec![TenantText {
            tenant: "vm1".to_owned(),
            name: "vm1.weft".to_owned(),
            text: text.to_owned(),
        }],
        ..LoadPolicy::default()
    };
    let mut load = |text: &str| service.answer(Request::LoadPolicy(with(text)), ROOT);
    assert!(load("class web = tcp\nroot = priority { web }\n").is_ok());
    // The one in force stays when a tenant's new file is broken.
    let error = load("class web = tcp\nroot = priorty { web }\n").unwrap_err();
    assert!(error.to_string().starts_with("vm1.weft:2:8: error[E0001]"), "{error}");
    let Ok(Reply::Config(config)) = service.answer(Request::Config(OfUplink::default()), ALICE) else {
        panic!("a reply")
    };
    assert_eq!((config.generation, config.tenants.len(), config.is_default), (2, 1, false));
    assert_eq!(config.tenants[0].file.as_deref(), Some("vm1.weft"));
    let classes = |service: &mut DaemonService| {
        let status = service.status().expect("a status");
        status.classes.into_iter().map(|class| class.class).collect::<Vec<_>>()
    };
    assert_eq!(classes(&mut service), ["vm1.web", "vm1.default", "default"]);
    // A configured policy has its files beside it; a change of one of them is a change of the policy.
    fs::write(folder.path().join("weft.toml"), "uplink = \"eth0\"\npolicy = \"p.weft\"\n").expect("write");
    fs::write(folder.path().join("p.weft"), operator).expect("write");
    reload(&mut service).expect("a tenant without a file");
    assert_eq!(classes(&mut service), ["vm1.default", "default"]);
    fs::write(folder.path().join("vm1.weft"), "class db = udp\nroot = priority { db }\n").expect("write");
    let reply = reload(&mut service).expect("reloaded");
    assert_eq!((reply.generation, reply.steps.len()), (4, 1));
    assert_eq!(classes(&mut service), ["vm1.db", "vm1.default", "default"]);
    // One that is broken leaves the last good one in force.
    fs::write(folder.path().join("vm1.weft"), "link 1gbps\nroot = default\n").expect("write");
    let reply = reload(&mut service).expect("reloaded");
    assert!(reply.warnings[0].contains("vm1.weft:1:6: error[E0605]"), "{:?}", reply.warnings);
    assert_eq!((service.generation(), classes(&mut service)[0].as_str()), (4, "vm1.db"));
}

/// Begins to remove a port.
fn begin(service: &mut DaemonService, name: &str) -> Later {
    match service.handle(Request::RemovePort(PortName { name: name.to_owned() }), ROOT) {
        Ok(PendingAnswer::Later(later)) => later,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_port_that_sends_its_packets_keeps_nobody_waiting() {
    let (_folder, mut service) = service(Vec::new());
    for name in ["full0", "full1", "empty"] {
        add(&mut service, name, ALICE).expect("made");
    }
    let [full0, full1, again] = ["full0", "full1", "full0"].map(|name| begin(&mut service, name));
    assert!(service.is_busy() && !service.advance(Instant::now()), "their packets are being sent");
    remove(&mut service, "empty", ROOT).expect("removed meanwhile");
    assert!(add(&mut service, "full0", ROOT).is_err(), "it is still there");
    assert!([&full0, &full1, &again].iter().all(|later| later.answer().is_none()));
    let later = Instant::now() + Duration::from_secs(3);
    assert!(service.advance(later) && service.is_busy(), "one in a step");
    assert!(service.advance(later) && !service.is_busy());
    assert!([full0, full1, again].iter().all(|later| later.answer().is_some_and(|answer| answer.is_ok())));
    add(&mut service, "full0", ROOT).expect("its name is free");
}

#[test]
fn a_reload_waits_for_ports_without_keeping_others_waiting() {
    let (folder, mut service) = service(vec![port("full0")]);
    let text = "uplink = \"eth0\"\npolicy = \"p.weft\"\n[[ports]]\nname = \"c1\"\n";
    fs::write(folder.path().join("weft.toml"), text).expect("write");
    let Ok(PendingAnswer::Later(later)) = service.handle(Request::Reload, ROOT) else { panic!("later") };
    assert!(!service.advance(Instant::now()) && later.answer().is_none());
    assert!(matches!(service.reload(), Err(ControlError::Busy { .. })));
    let past = Instant::now() + Duration::from_secs(3);
    while service.is_busy() {
        assert!(service.advance(past), "a step");
    }
    let Some(Ok(Reply::Reload(reply))) = later.answer() else { panic!("a reply") };
    assert_eq!(reply.steps, ["port full0 removed", "port c1 added"]);
}

/// A policy whose conditions join so many alternatives that each class takes millions of steps, in 2 kB each.
fn laborious(classes: usize) -> String {
    let any = |word: &str, first: usize| {
        let tests: Vec<String> = (first..first + 22).map(|at| format!("{word} {at}")).collect();
        format!("({})", tests.join(" or "))
    };
    let some = |first| {
        let dscp = any("dscp", 0);
        format!("(({} and {dscp}) or ({} and {dscp}))", any("priority", first), any("priority", first + 22))
    };
    let lines = (0..classes).map(|at| format!("class c{at} = {} and {}\n", some(1), some(101)));
    let names: Vec<String> = (0..classes).map(|at| format!("c{at}")).collect();
    lines.collect::<String>() + &format!("root = fifo {{ {}, default }}\n", names.join(", "))
}

#[test]
fn what_a_reader_compares_has_a_bound_in_steps_and_a_rate() {
    let (_folder, mut service) = service(Vec::new());
    let diff = |service: &mut DaemonService, text: String, caller| {
        let source = PolicySource { name: "x".to_owned(), text, ..PolicySource::default() };
        service.answer(Request::DiffPolicy(source), caller)
    };
    let code = |refused: Result<Reply, ControlError>| match refused {
        Err(ControlError::PolicyRefused { diagnostics, .. }) => diagnostics[0].code.clone(),
        other => panic!("{other:?}"),
    };
    let begin = Instant::now();
    assert_eq!(code(diff(&mut service, laborious(300), ALICE)), "E0408");
    // Ten at once and one a second: on a machine that is slow, some come back before the tenth.
    let mut admitted = 1;
    while diff(&mut service, POLICY.to_owned(), ALICE).is_ok() {
        admitted += 1;
        let due = throttle::BURST + u32::try_from(begin.elapsed().as_secs()).expect("a span") + 1;
        assert!(admitted <= due, "{admitted} of {due}");
    }
    assert!(admitted >= throttle::BURST, "{admitted}");
    assert!(matches!(diff(&mut service, POLICY.to_owned(), ALICE), Err(ControlError::Busy { .. })));
    // As many classes as an operator may have are no labour.
    let classes: String = (1..=5000).map(|at| format!("class c{at} = tcp port {at}\n")).collect();
    let names: Vec<String> = (1..=5000).map(|at| format!("c{at}: 1")).collect();
    let many = format!("{classes}root = wfq {{ {}, default: 1 }}\n", names.join(", "));
    diff(&mut service, many, BOB).expect("many classes");
}
