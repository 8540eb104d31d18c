//! Files of tenants that come, change and go while the operator's policy is in force.

use super::*;
use crate::data_path::{DaemonMemory, Former};
use weft_control::interface::{StatusTenant, TenantFile, TenantName, TenantReply};
use weft_facts::tenants::TenantOrigin;

const OPERATOR: &str = "link 1gbps\nvm1 = tenant \"vm1.weft\" of cgroup \"/vm1\" { classes 2 }\n\
    vm2 = tenant \"vm2.weft\" of cgroup \"/vm2\"\nroot = wfq { vm1: 1, vm2: 1, default: 1 }\n";
const WEB: &str = "class web = tcp\nroot = priority { web }\n";
const DB: &str = "class db = udp\nroot = priority { db }\n";
const BROKEN: &str = "class web = tcp\nroot = priorty { web }\n";

/// A service whose configured policy has the tenants vm1 and vm2, without files.
fn with_tenants() -> (TempDir, DaemonService) {
    let (folder, mut service) = service(Vec::new());
    write(&folder, "weft.toml", "uplink = \"eth0\"\npolicy = \"p.weft\"\n");
    write(&folder, "p.weft", OPERATOR);
    reload(&mut service).expect("reloads");
    (folder, service)
}

fn write(folder: &TempDir, name: &str, text: &str) {
    fs::write(folder.path().join(name), text).expect("write");
}

fn file(tenant: &str, text: &str) -> TenantFile {
    let (tenant, name, text) = (tenant.to_owned(), "mine.weft".to_owned(), text.to_owned());
    TenantFile { tenant, name, text, ..TenantFile::default() }
}

fn reply(reply: Result<Reply, ControlError>) -> Result<TenantReply, ControlError> {
    match reply? {
        Reply::Tenant(reply) => Ok(*reply),
        other => panic!("{other:?}"),
    }
}

fn attach(service: &mut DaemonService, tenant: &str, text: &str) -> Result<TenantReply, ControlError> {
    reply(service.answer(Request::AttachTenant(file(tenant, text)), ROOT))
}

fn exchange(service: &mut DaemonService, tenant: &str, text: &str) -> Result<TenantReply, ControlError> {
    reply(service.answer(Request::ReplaceTenant(file(tenant, text)), ROOT))
}

fn detach(service: &mut DaemonService, tenant: &str) -> Result<TenantReply, ControlError> {
    let of = TenantName { tenant: tenant.to_owned(), ..TenantName::default() };
    reply(service.answer(Request::DetachTenant(of), ROOT))
}

fn classes(service: &mut DaemonService) -> String {
    let status = service.status().expect("a status");
    status.classes.into_iter().map(|class| class.class).collect::<Vec<_>>().join(" ")
}

fn state(service: &mut DaemonService, name: &str) -> StatusTenant {
    let status = service.status().expect("a status");
    status.tenants.into_iter().find(|tenant| tenant.tenant == name).expect("the tenant")
}

fn refusal(service: &mut DaemonService, name: &str) -> Option<String> {
    state(service, name).refusal.map(|refusal| refusal.error)
}

const NONE: &str = "vm1.default vm2.default default";

#[test]
fn files_are_attached_replaced_and_detached() {
    let (_folder, mut service) = with_tenants();
    assert_eq!((classes(&mut service).as_str(), service.generation()), (NONE, 2));
    let attached = attach(&mut service, "vm1", WEB).expect("attached");
    assert_eq!((attached.generation, attached.steps.len()), (3, 1));
    assert!(attached.diagnostics.iter().all(|of| of.file == "mine.weft"), "{:?}", attached.diagnostics);
    assert_eq!(attached.tenant.hash, Some(crate::policy::hash(WEB)));
    assert_eq!((attached.tenant.origin, attached.tenant.owner_uid), (TenantOrigin::Attached, Some(0)));
    let quota = &attached.tenant.quotas[0];
    assert_eq!((quota.quota.as_str(), quota.used, quota.most), ("classes", 1, 2));
    assert_eq!(classes(&mut service), "vm1.web vm1.default vm2.default default");
    let error = attach(&mut service, "vm1", DB).unwrap_err();
    assert_eq!(error.to_string(), "tenant vm1 has the file mine.weft; `weft tenant replace` replaces it");
    assert_eq!(exchange(&mut service, "vm1", DB).expect("replaced").generation, 4);
    assert_eq!(exchange(&mut service, "vm1", DB).expect("the same").generation, 4, "nothing is replaced");
    assert_eq!(classes(&mut service), "vm1.db vm1.default vm2.default default");
    let detached = detach(&mut service, "vm1").expect("detached");
    assert_eq!((detached.generation, detached.tenant.origin), (5, TenantOrigin::Detached));
    assert!(detached.diagnostics[0].message.contains("`vm1` has no file"), "{:?}", detached.diagnostics);
    assert_eq!(classes(&mut service), NONE);
    for error in [detach(&mut service, "vm1"), exchange(&mut service, "vm1", DB)] {
        assert_eq!(error.unwrap_err(), ControlError::TenantHasNoFile { tenant: "vm1".to_owned() });
    }
    let error = attach(&mut service, "vm3", WEB).unwrap_err();
    assert_eq!(error.to_string(), "the policy has no tenant vm3; it has: vm1, vm2");
    let stale = TenantFile { generation: Some(1), ..file("vm1", WEB) };
    let error = service.answer(Request::AttachTenant(stale), ROOT).unwrap_err();
    assert_eq!(error, ControlError::StaleGeneration { generation: 5 });
    let odd = TenantFile { name: "a\u{1b}[2J".to_owned(), ..file("vm1", WEB) };
    let error = service.answer(Request::AttachTenant(odd), ROOT).unwrap_err();
    assert!(error.to_string().contains("without control characters"), "{error}");
}

#[test]
fn a_broken_file_leaves_the_last_good_one() {
    let (_folder, mut service) = with_tenants();
    let error = attach(&mut service, "vm1", BROKEN).unwrap_err();
    let ControlError::TenantRefused { keeps: None, diagnostics, .. } = &error else { panic!("{error:?}") };
    assert_eq!(diagnostics.len(), 1, "errors only: {diagnostics:?}");
    assert!(error.to_string().starts_with("mine.weft:2:8: error[E0001]"), "{error}");
    attach(&mut service, "vm1", WEB).expect("attached");
    assert_eq!(refusal(&mut service, "vm1"), None, "it is over");
    let three = "class a = tcp\nclass b = udp\nclass c = icmp\nroot = priority { a, b, c }\n";
    for (text, code) in [(BROKEN, "E0001"), (three, "the quota of `vm1` is `classes 2`")] {
        let error = exchange(&mut service, "vm1", text).unwrap_err();
        assert!(
            matches!(&error, ControlError::TenantRefused { keeps: Some(file), .. } if file == "mine.weft")
        );
        assert!(refusal(&mut service, "vm1").is_some_and(|error| error.contains(code)));
    }
    assert_eq!(
        (classes(&mut service).as_str(), service.generation()),
        ("vm1.web vm1.default vm2.default default", 3)
    );
    // What the data path cannot do is refused, too.
    let error = exchange(&mut service, "vm2", WEB).unwrap_err();
    assert_eq!(error, ControlError::TenantHasNoFile { tenant: "vm2".to_owned() });
    attach(&mut service, "vm2", DB).expect("another tenant is not concerned");
    assert!(refusal(&mut service, "vm1").is_some(), "and does not end the refusal of the first");
}

#[test]
fn what_is_attached_survives_policies_and_reloads() {
    let (folder, mut service) = with_tenants();
    attach(&mut service, "vm1", WEB).expect("attached");
    let given = |service: &DaemonService| service.uplinks[0].config_reply();
    assert!(given(&service).is_default, "the operator's policy is the configured one");
    assert_eq!(given(&service).tenants[0].text.as_deref(), Some(WEB));
    write(&folder, "p.weft", &OPERATOR.replace("vm1: 1", "vm1: 2"));
    write(&folder, "vm1.weft", DB);
    reload(&mut service).expect("reloads");
    assert_eq!(classes(&mut service), "vm1.web vm1.default vm2.default default", "it goes before the file");
    let loaded = load(&mut service, &OPERATOR.replace("vm2: 1", "vm2: 7"), None).expect("loads");
    assert!(loaded.warnings.is_empty() && !given(&service).is_default, "{loaded:?}");
    assert_eq!(classes(&mut service), "vm1.web vm1.default vm2.default default");
    // A policy under which it does not fit is not held up by it.
    let narrow = load(&mut service, &OPERATOR.replace("classes 2", "cost 1ns"), None).expect("loads");
    assert!(narrow.warnings[0].starts_with("tenant vm1 is one FIFO: mine.weft:2:1: error["), "{narrow:?}");
    assert_eq!(
        (classes(&mut service).as_str(), state(&mut service, "vm1").origin),
        (NONE, TenantOrigin::Attached)
    );
    attach(&mut service, "vm2", DB).expect("another tenant is not held up either");
    service.answer(Request::RestorePolicy(OfUplink::default()), ROOT).expect("restored");
    assert_eq!(classes(&mut service), "vm1.web vm1.default vm2.db vm2.default default", "it fits again");
    // A detached tenant stays detached, until a policy is loaded that has a file for it.
    detach(&mut service, "vm1").expect("detached");
    reload(&mut service).expect("reloads");
    assert_eq!(classes(&mut service), "vm1.default vm2.db vm2.default default");
    service.answer(Request::RestorePolicy(OfUplink::default()), ROOT).expect("restored");
    assert_eq!(classes(&mut service), "vm1.db vm1.default vm2.db vm2.default default");
    // Without its place it is forgotten, and said.
    let other = load(&mut service, POLICY, None).expect("loads");
    assert_eq!(other.warnings, ["the policy has no tenant vm2 any more: mine.weft of user 0 is forgotten"]);
}

#[test]
fn a_broken_file_does_not_hold_up_a_reload() {
    let (folder, mut service) = with_tenants();
    write(&folder, "vm1.weft", WEB);
    reload(&mut service).expect("reloads");
    write(&folder, "vm1.weft", BROKEN);
    write(&folder, "vm2.weft", DB);
    write(&folder, "p.weft", &OPERATOR.replace("vm1: 1", "vm1: 2"));
    let told = reload(&mut service).expect("reloads");
    assert_eq!(classes(&mut service), "vm1.web vm1.default vm2.db vm2.default default");
    assert!(
        told.warnings[0].starts_with("tenant vm1 keeps its last good ") && told.warnings[0].contains("E0001")
    );
    assert!(refusal(&mut service, "vm1").is_some_and(|error| error.contains("vm1.weft:2:8")));
    // Twice broken, and then unreadable: still the last good one.
    for text in [
        "root = nothing\n",
        "class x = tcp\nclass y = udp\nclass z = icmp\nroot = wfq { x: 1, y: 1, z: 1 }\n",
    ] {
        write(&folder, "vm1.weft", text);
        reload(&mut service).expect("reloads");
        assert_eq!(classes(&mut service), "vm1.web vm1.default vm2.db vm2.default default");
    }
    fs::write(folder.path().join("vm1.weft"), [0xff]).expect("write");
    reload(&mut service).expect("reloads");
    assert_eq!(classes(&mut service), "vm1.web vm1.default vm2.db vm2.default default");
    write(&folder, "vm1.weft", DB);
    reload(&mut service).expect("reloads");
    assert_eq!(
        (classes(&mut service).as_str(), refusal(&mut service, "vm1")),
        ("vm1.db vm1.default vm2.db vm2.default default", None)
    );
    // An error of the operator's still refuses all.
    write(&folder, "p.weft", &OPERATOR.replace("wfq", "wqf"));
    assert!(matches!(reload(&mut service), Err(ControlError::PolicyRefused { .. })));
}

#[test]
fn applications_are_attached_below_tenants() {
    let (_folder, mut service) = with_tenants();
    let below = "app = tenant \"/etc/app.weft\" of cgroup \"app\"\nroot = priority { app }\n";
    let error = attach(&mut service, "vm1", below).unwrap_err();
    assert!(error.to_string().contains("is not below the folder"), "{error}");
    let below = below.replace("/etc/", "");
    attach(&mut service, "vm1", &below).expect("attached");
    assert_eq!(state(&mut service, "vm1.app").cgroup.as_deref(), Some("/vm1/app"));
    attach(&mut service, "vm1.app", WEB).expect("attached");
    assert!(classes(&mut service).starts_with("vm1.app.web vm1.app.default vm1.default"));
    // What does not fit below a new file of the tenant above is done without.
    let narrow = below.replace("\"app\"", "\"app\" { cost 1ns }");
    let told = exchange(&mut service, "vm1", &narrow).expect("replaced");
    assert!(told.warnings[0].starts_with("tenant vm1.app is one FIFO: "), "{told:?}");
    exchange(&mut service, "vm1", &below).expect("replaced");
    assert!(classes(&mut service).starts_with("vm1.app.web "), "it fits again");
    let told = exchange(&mut service, "vm1", DB).expect("replaced");
    assert_eq!(
        told.warnings,
        ["the policy has no tenant vm1.app any more: mine.weft of user 0 is forgotten"]
    );
    assert!(classes(&mut service).starts_with("vm1.db vm1.default"));
}

#[test]
fn a_tenant_does_not_cost_another_its_file() {
    let (_folder, mut service) = with_tenants();
    let many = |count: usize| {
        let class = |number| format!("class c{number} = cgroup \"{number}\"\n");
        let text: String = (0..count).map(class).collect();
        let names: Vec<String> = (0..count).map(|number| format!("c{number}")).collect();
        format!("{text}root = priority {{ {} }}\n", names.join(", "))
    };
    let wide = OPERATOR.replace(" { classes 2 }", "").replace("\"/vm2\"", "\"/vm2\" { cgroups 40 }");
    load(&mut service, &wide, None).expect("loads");
    attach(&mut service, "vm2", &many(40)).expect("attached");
    // 64 cgroups are there for all: the operator names 2.
    let error = attach(&mut service, "vm1", &many(40)).unwrap_err();
    assert!(error.to_string().contains("`cgroups 22`, and its file uses 40"), "{error}");
    assert_eq!(state(&mut service, "vm2").file.as_deref(), Some("mine.weft"));
    attach(&mut service, "vm1", &many(20)).expect("attached");
}

/// A maker whose data path a former daemon has left.
#[derive(Debug)]
struct Left(Former);

impl Maker for Left {
    fn start(
        &self,
        _: &ServicePolicy,
        _: &UplinkConfig,
        _: &Config,
        _: Option<Opened>,
    ) -> Result<Started, DataPathError> {
        let policy = self.0.policy.compiled.clone();
        let path = Box::new(Fake { policy, ports: Vec::new(), ended: false, closed: Vec::new() });
        Ok(Started { path, former: Some(self.0.clone()), notes: Vec::new(), missing: None })
    }

    fn may_start(&self, _: &UplinkConfig) -> bool {
        true
    }
}

/// The service of a successor, after its predecessor's state went through the store as text.
fn successor(service: &DaemonService, folder: &TempDir) -> DaemonService {
    let ours = &service.uplinks[0];
    let (generation, tenants) = (ours.generation, ours.tenants.clone());
    let memory = DaemonMemory { generation, tenants, ..DaemonMemory::default() };
    let text = serde_json::to_string(&memory).expect("text");
    let memory: DaemonMemory = serde_json::from_str(&text).expect("the same");
    let maker = Left(Former { policy: ours.policy.clone(), memory, ports: Vec::new() });
    let folders = Folders::of(Some(folder.path().join("weft.toml")));
    let config = folders.load().expect("valid");
    let (policy, refused) =
        ServicePolicy::read_around(&config.uplinks[0].policy, None, &weft_policy::TenantTexts::default())
            .expect("valid");
    let started = maker.start(&policy, &config.uplinks[0], &config, None).expect("started");
    let surroundings = surroundings(Box::new(maker));
    let start = UplinkStart { policy, refused, started };
    DaemonService::resume(vec![start], surroundings, config, folders, Rc::new(Log::kept()))
}

#[test]
fn what_is_attached_survives_a_restart() {
    let (folder, mut service) = with_tenants();
    write(&folder, "vm2.weft", DB);
    reload(&mut service).expect("reloads");
    attach(&mut service, "vm1", WEB).expect("attached");
    let before = state(&mut service, "vm1");
    let expected = "vm1.web vm1.default vm2.db vm2.default default";
    let mut next = successor(&service, &folder);
    assert_eq!((classes(&mut next).as_str(), next.generation()), (expected, service.generation()));
    assert_eq!(state(&mut next, "vm1"), before, "since when, too");
    assert!(next.uplinks[0].config_reply().is_default);
    // A configured file that was broken meanwhile.
    write(&folder, "vm2.weft", BROKEN);
    let mut next = successor(&service, &folder);
    assert_eq!(classes(&mut next), expected);
    assert!(refusal(&mut next, "vm2").is_some_and(|error| error.contains("E0001")));
    write(&folder, "p.weft", POLICY);
    let mut next = successor(&service, &folder);
    assert_eq!(classes(&mut next), "a default");
    let log = next.uplinks[0].log.lines().join("\n");
    assert!(log.contains("the policy has no tenant vm1 any more: mine.weft of user 0 is forgotten"), "{log}");
}

#[test]
fn a_tenant_is_changed_by_whom_its_cgroup_belongs_to() {
    let (_folder, mut service) = with_tenants();
    let mut why = |request: &Request, caller| service.not_delegated(request, caller).unwrap_or_default();
    let attach = |tenant| Request::AttachTenant(file(tenant, WEB));
    assert_eq!(why(&attach("vm1"), ALICE), "");
    assert_eq!(why(&attach("vm1"), BOB), "its cgroup /vm1 belongs to user 1000, not to 1001");
    assert!(why(&attach("vm2"), ALICE).contains("is delegated to nobody"));
    let detach = TenantName { tenant: "vm1".to_owned(), ..TenantName::default() };
    assert_eq!(why(&Request::DetachTenant(detach.clone()), ALICE), "");
    assert!(!why(&Request::DetachTenant(detach), BOB).is_empty());
    // Of what there is not, the call itself says that it is not there.
    assert_eq!(why(&attach("vm9"), ALICE), "");
    assert!(!why(&Request::Reload, ALICE).is_empty());
    load(&mut service, &OPERATOR.replace("cgroup \"/vm1\"", "tcp"), None).expect("loads");
    let why = service.not_delegated(&attach("vm1"), ALICE).expect("refused");
    assert_eq!(why, "tenant vm1 is restricted to no cgroup that could be delegated");
    load(&mut service, &OPERATOR.replace("\"/vm1\"", "\"/gone\""), None).expect("loads");
    let why = service.not_delegated(&attach("vm1"), ALICE).expect("refused");
    assert_eq!(why, "its cgroup /gone does not exist");
}

#[test]
fn a_right_goes_with_the_cgroup() {
    let (_folder, mut service) = with_tenants();
    service.answer(Request::AttachTenant(file("vm1", WEB)), ALICE).expect("attached");
    assert_eq!(state(&mut service, "vm1").owner_uid, Some(1000));
    let told = load(&mut service, &OPERATOR.replace("\"/vm1\"", "\"/other\""), None).expect("loads");
    assert_eq!(told.warnings, ["tenant vm1 has another cgroup now: mine.weft of user 1000 is forgotten"]);
    assert_eq!(classes(&mut service), NONE);
}

#[test]
fn the_files_of_a_user_have_a_size_and_a_rate() {
    let (_folder, mut service) = with_tenants();
    let mut give = |text: String| service.answer(Request::AttachTenant(file("vm1", &text)), ALICE);
    let error = give(" ".repeat((64 << 10) + 1)).unwrap_err();
    assert_eq!(error.to_string(), "invalid parameter: text: 65537 bytes, of 65536 for a user's file");
    // A test that takes longer than a second for some of them admits a few more.
    let busy = |of: &Result<Reply, ControlError>| matches!(of, Err(ControlError::Busy { .. }));
    assert!((0..1000).any(|_| busy(&give(BROKEN.to_owned()))));
    service.answer(Request::AttachTenant(file("vm1", WEB)), ROOT).expect("root is not bound");
    // Four files of the longest kind are the most.
    let below: String =
        (0..5).map(|n| format!("a{n} = tenant \"a{n}\" of udp and dport {}\n", n + 1)).collect();
    load(&mut service, &OPERATOR.replace("classes 2", "classes 9"), None).expect("loads");
    let below = below + "root = wfq { a0: 1, a1: 1, a2: 1, a3: 1, a4: 1 }\n";
    exchange(&mut service, "vm1", &below).expect("replaced");
    service.throttle = Throttle::default();
    let long = format!("{}\nroot = fair of default\n", "#".repeat(65_000));
    let mut give = |n| service.answer(Request::AttachTenant(file(&format!("vm1.a{n}"), &long)), ALICE);
    (0..4).for_each(|n| drop(give(n).expect("attached")));
    let error = give(4).unwrap_err().to_string();
    assert!(error.ends_with("bytes with the other files of this user, of 262144 in all"), "{error}");
}

/// A tenant that requests all cgroups is refused; one beside it has its file in force, whichever comes first.
#[test]
fn a_greedy_tenant_keeps_no_file_from_another() {
    let greedy: Vec<String> = (0..62).map(|at| format!("cgroup \"c{at}\"")).collect();
    let greedy = format!("class many = {}\nroot = fair of many\n", greedy.join(" or "));
    let (_folder, mut service) = with_tenants();
    let error = attach(&mut service, "vm1", &greedy).unwrap_err();
    assert!(error.to_string().starts_with("mine.weft:1:7: error[E0606]"), "{error}");
    attach(&mut service, "vm2", "class db = cgroup \"db\"\nroot = priority { db }\n").expect("attached");
    assert_eq!(classes(&mut service), "vm1.default vm2.db vm2.default default");
    attach(&mut service, "vm1", &greedy).unwrap_err();
    attach(&mut service, "vm1", WEB).expect("a modest one is in force");
    assert_eq!(classes(&mut service), "vm1.web vm1.default vm2.db vm2.default default");
}
