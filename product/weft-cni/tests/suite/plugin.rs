//! The operations of the plugin in real network namespaces, with a daemon and an address plugin that the tests play.

use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;
use weft_cni::daemon::{Connected, Daemon, DaemonCallError, DaemonState, NewPort};
use weft_cni::plugin::{PluginOutcome, run};
use weft_host::link::{self, VethOptions};
use weft_host::{NetNs, testing};

/// The ports of a daemon that plays: each is a veth in the namespace that it was asked for.
#[derive(Debug, Default)]
struct Ports {
    there: BTreeMap<String, NewPort>,
    refuse: Option<DaemonCallError>,
    ended: bool,
    away: bool,
}

#[derive(Clone, Debug, Default)]
struct Fake(Rc<RefCell<Ports>>);

impl Daemon for Fake {
    fn add_port(&mut self, port: &NewPort) -> Result<(), DaemonCallError> {
        let mut ports = self.0.borrow_mut();
        if let Some(error) = &ports.refuse {
            return Err(error.clone());
        }
        if ports.there.contains_key(&port.name) {
            return Err(DaemonCallError::PortExists(port.name.clone()));
        }
        let ns = NetNs::named(&port.netns).expect("the namespace");
        let far = format!("{}f", &port.name[..10]);
        link::create_veth((&ns, &port.name), (&ns, &far), &VethOptions::default()).expect("a veth");
        link::set_up(&ns, &far).expect("up");
        link::set_up(&ns, &port.name).expect("up");
        ports.there.insert(port.name.clone(), port.clone());
        Ok(())
    }

    fn remove_port(&mut self, name: &str) -> Result<(), DaemonCallError> {
        let removed = self.0.borrow_mut().there.remove(name);
        let port = removed.ok_or_else(|| DaemonCallError::NoSuchPort(name.to_owned()))?;
        if let Ok(ns) = NetNs::named(&port.netns) {
            let _ = link::delete(&ns, &format!("{}f", &port.name[..10]));
        }
        Ok(())
    }

    fn ports(&mut self) -> Result<Vec<String>, DaemonCallError> {
        Ok(self.0.borrow().there.keys().cloned().collect())
    }

    fn state(&mut self) -> Result<DaemonState, DaemonCallError> {
        match &self.0.borrow().refuse {
            Some(error) => Err(error.clone()),
            None if self.0.borrow().ended => Ok(DaemonState::Ended),
            None => Ok(DaemonState::Ready),
        }
    }
}

/// A container with the plugins that a runtime would have.
struct World {
    ns: NetNs,
    folder: tempfile::TempDir,
    daemon: Fake,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let world = Self { ns: NetNs::anonymous().expect("a namespace"), folder, daemon: Fake::default() };
        world.ipam(
            r#"case $CNI_COMMAND in
              ADD) echo '{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/16","gateway":"10.1.0.1"}],
                          "routes":[{"dst":"0.0.0.0/0"}],"dns":{"nameservers":["10.1.0.1"]}}' ;;
              GC|STATUS) echo '{"code":4,"msg":"unknown CNI_COMMAND"}'; exit 1 ;;
            esac"#,
        );
        world
    }

    /// Writes the address plugin, which notes its commands.
    fn ipam(&self, body: &str) {
        let path = self.folder.path().join("play");
        let script = format!("#!/bin/sh\ncat >/dev/null\necho $CNI_COMMAND >>{}\n{body}\n", self.noted());
        std::fs::write(&path, script).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    }

    fn noted(&self) -> String {
        self.folder.path().join("commands").display().to_string()
    }

    /// The commands of the address plugin since the last call.
    fn commands(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.noted()).unwrap_or_default();
        let _ = std::fs::remove_file(self.noted());
        text.lines().map(str::to_owned).collect()
    }

    fn netns(&self) -> String {
        use std::os::fd::AsRawFd;
        format!("/proc/{}/fd/{}", std::process::id(), self.ns.fd().as_raw_fd())
    }

    fn call(&self, verb: &str, config: &Value) -> PluginOutcome {
        self.call_of("c1", verb, config)
    }

    fn call_of(&self, container: &str, verb: &str, config: &Value) -> PluginOutcome {
        let get = |name: &str| match name {
            "CNI_COMMAND" => Some(verb.to_owned()),
            "CNI_CONTAINERID" => Some(container.to_owned()),
            "CNI_NETNS" => Some(self.netns()),
            "CNI_IFNAME" => Some("eth0".to_owned()),
            "CNI_PATH" => Some(self.folder.path().display().to_string()),
            _ => None,
        };
        let daemon = self.daemon.clone();
        let mut connect = |socket: &Path| -> Connected {
            match daemon.0.borrow().away {
                true => {
                    Err(DaemonCallError::Unreachable { socket: socket.into(), reason: "away".to_owned() })
                }
                false => Ok(Box::new(daemon.clone())),
            }
        };
        run(&get, config.to_string().as_bytes(), &mut connect)
    }

    fn port_count(&self) -> usize {
        self.daemon.0.borrow().there.len()
    }
}

fn config() -> Value {
    json!({ "cniVersion": "1.1.0", "name": "dbnet", "type": "weft", "ipam": { "type": "play" } })
}

fn with(mut config: Value, key: &str, value: Value) -> Value {
    config[key] = value;
    config
}

fn done(outcome: PluginOutcome) -> Value {
    match outcome {
        PluginOutcome::Done(text) if text.is_empty() => Value::Null,
        PluginOutcome::Done(text) => serde_json::from_str(&text).expect("JSON"),
        PluginOutcome::Failed(text) => panic!("failed: {text}"),
    }
}

/// The code of an error and its texts.
fn failed(outcome: PluginOutcome) -> (u64, String) {
    let PluginOutcome::Failed(text) = outcome else { panic!("succeeded: {outcome:?}") };
    let error: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(error["cniVersion"], "1.1.0");
    (error["code"].as_u64().expect("a code"), text)
}

#[test]
fn a_container_comes_and_goes() {
    if !testing::privileged("a_container_comes_and_goes") {
        return;
    }
    let world = World::new();
    let result = done(world.call("ADD", &config()));
    assert_eq!(result["cniVersion"], "1.1.0");
    assert_eq!(result["interfaces"][0]["name"], "eth0");
    assert_eq!(result["ips"][0]["interface"], 0);
    let ip = "10.1.0.5".parse().expect("an address");
    assert!(link::addresses(&world.ns, "eth0").expect("read").contains(&(ip, 16)));
    let mac = link::get_mac(&world.ns, "eth0").expect("read").expect("a mac");
    assert_eq!(result["interfaces"][0]["mac"], mac.to_string());
    assert_eq!(world.commands(), ["ADD"]);

    let checked = with(config(), "prevResult", result.clone());
    assert_eq!(done(world.call("CHECK", &checked)), Value::Null);
    assert_eq!(failed(world.call("ADD", &config())).0, 4, "the name is taken");

    assert_eq!(done(world.call("DEL", &checked)), Value::Null);
    assert!(!link::exists(&world.ns, "eth0").expect("read"));
    assert_eq!(world.commands(), ["CHECK", "DEL"]);
    assert_eq!(done(world.call("DEL", &checked)), Value::Null, "what is gone is no error");
    assert_eq!(failed(world.call("CHECK", &checked)).0, 100);
}

#[test]
fn an_add_that_fails_leaves_nothing() {
    if !testing::privileged("an_add_that_fails_leaves_nothing") {
        return;
    }
    let world = World::new();
    world.daemon.0.borrow_mut().refuse = Some(DaemonCallError::Refused("not now".to_owned()));
    let (code, text) = failed(world.call("ADD", &config()));
    assert!(code == 100 && text.contains("not now"), "{text}");
    assert_eq!(world.commands(), ["ADD", "DEL"]);
    world.daemon.0.borrow_mut().refuse = None;

    // A gateway that no network of the interface reaches.
    world.ipam(
        r#"[ $CNI_COMMAND = DEL ] || echo '{"ips":[{"address":"10.1.0.5/16","gateway":"10.9.0.1"}],"routes":[{"dst":"0.0.0.0/0"}]}'"#,
    );
    assert_eq!(failed(world.call("ADD", &config())).0, 100);
    assert_eq!((world.port_count(), world.commands()), (0, vec!["ADD".to_owned(), "DEL".to_owned()]));
    assert!(!link::exists(&world.ns, "eth0").expect("read"));

    world.ipam(r#"echo '{"code":11,"msg":"no addresses left"}'; exit 1"#);
    let (code, text) = failed(world.call("ADD", &config()));
    assert!(code == 11 && text.contains("no addresses left"), "{text}");
    assert_eq!(world.port_count(), 0);
}

#[test]
fn the_runtimes_limits_reach_the_daemon() {
    if !testing::privileged("the_runtimes_limits_reach_the_daemon") {
        return;
    }
    let world = World::new();
    let bandwidth = json!({ "bandwidth": { "egressRate": 10_000_000, "egressBurst": 2_147_483_647u64 } });
    done(world.call("ADD", &with(config(), "runtimeConfig", bandwidth)));
    let ports = world.daemon.0.borrow();
    let limit = ports.there.values().next().expect("a port").bandwidth.egress.expect("a limit");
    assert_eq!((limit.rate.0, limit.burst), (10_000_000, None));
}

#[test]
fn gc_removes_what_is_lost_and_nothing_else() {
    if !testing::privileged("gc_removes_what_is_lost_and_nothing_else") {
        return;
    }
    let world = World::new();
    done(world.call_of("kept", "ADD", &config()));
    // A second container in the same namespace, whose interface has another name by now.
    link::set_down(&world.ns, "eth0")
        .and_then(|()| link::rename(&world.ns, "eth0", "eth1"))
        .expect("renamed");
    world.ipam(r#"[ $CNI_COMMAND = ADD ] && echo '{}'; exit 0"#);
    done(world.call_of("lost", "ADD", &config()));
    let other = NewPort {
        name: "operator-port0".to_owned(),
        netns: world.netns(),
        mac: None,
        bandwidth: Default::default(),
    };
    world.daemon.clone().add_port(&other).expect("added");
    assert_eq!(world.port_count(), 3);
    let valid = json!([ { "containerID": "kept", "ifname": "eth0" } ]);
    done(world.call("GC", &with(config(), "cni.dev/valid-attachments", valid)));
    let names: Vec<String> = world.daemon.0.borrow().there.keys().cloned().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&other.name));
    assert_eq!(failed(world.call("GC", &config())).0, 7, "without a list nothing is removed");
    let another = json!({ "cniVersion": "1.1.0", "name": "web", "type": "weft", "ipam": {}, "cni.dev/valid-attachments": [] });
    done(world.call("GC", &another));
    assert_eq!(world.port_count(), 2, "another network's ports stay");
}

#[test]
fn status_says_what_the_daemon_can_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let get = |name: &str| (name == "CNI_COMMAND").then(|| "STATUS".to_owned());
    let text = json!({ "cniVersion": "1.1.0", "name": "n", "type": "weft", "ipam": {} }).to_string();
    let fake = Fake::default();
    let status = |fake: &Fake| {
        let fake = fake.clone();
        run(&get, text.as_bytes(), &mut |_| -> Connected { Ok(Box::new(fake.clone())) })
    };
    assert_eq!(done(status(&fake)), Value::Null);
    fake.0.borrow_mut().ended = true;
    assert_eq!(failed(status(&fake)).0, 51);
    fake.0.borrow_mut().refuse = Some(DaemonCallError::Busy("much to do".to_owned()));
    assert_eq!(failed(status(&fake)).0, 50);
    let socket = folder.path().join("none");
    let absent = run(&get, text.as_bytes(), &mut |_| weft_cni::control::connect(&socket));
    let (code, said) = failed(absent);
    assert!(code == 51 && said.contains("systemctl start weft"), "{said}");
}

#[test]
fn versions_are_those_of_the_specification() {
    let get = |name: &str| (name == "CNI_COMMAND").then(|| "VERSION".to_owned());
    let answer = done(run(&get, b"", &mut |_| unreachable!("VERSION asks nobody")));
    assert_eq!(answer["cniVersion"], "1.1.0");
    assert_eq!(answer["supportedVersions"], json!(["0.3.1", "0.4.0", "1.0.0", "1.1.0"]));
    let old = json!({ "cniVersion": "0.4.0", "name": "n", "type": "weft" }).to_string();
    let get = |name: &str| (name == "CNI_COMMAND").then(|| "STATUS".to_owned());
    let PluginOutcome::Failed(text) = run(&get, old.as_bytes(), &mut |_| unreachable!("too old")) else {
        panic!("STATUS is of version 1.1.0")
    };
    assert!(text.contains("\"cniVersion\":\"0.4.0\"") && text.contains("\"code\":1"), "{text}");
}

#[test]
fn a_removal_without_a_daemon_is_tried_again() {
    if !testing::privileged("a_removal_without_a_daemon_is_tried_again") {
        return;
    }
    let world = World::new();
    done(world.call("ADD", &config()));
    world.commands();
    world.daemon.0.borrow_mut().away = true;
    let PluginOutcome::Failed(text) = world.call("DEL", &config()) else { panic!("the port is still there") };
    let error: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&error["code"], world.port_count()), (&json!(11), 1), "{text}");
    assert!(world.commands().is_empty(), "the port still has the addresses");
    world.daemon.0.borrow_mut().away = false;
    done(world.call("DEL", &config()));
    assert_eq!((world.port_count(), world.commands()), (0, vec!["DEL".to_owned()]));
    done(world.call("ADD", &config()));
}
