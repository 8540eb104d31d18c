//! A service manager keeps the daemon's ports, as systemd does (docs/FILE_DESCRIPTOR_STORE.md of systemd). In a separate file,
//! since the descriptors that a restarted daemon gets are inherited by all children of the test.

use crate::common::flows::Flows;
use crate::common::service::{PATIENCE, Service};
use crate::common::world::wait_until_up;
use crate::common::{Running, until};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketFlags,
    SocketType, bind, recvmsg, socket_with,
};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use weft_host::link;
use weft_host::testing::{has_program, privileged};

type Stored = Arc<Mutex<BTreeMap<String, OwnedFd>>>;

/// A manager at `path`, which stores `most` descriptors and closes those beyond without an answer, as systemd does.
fn manager(path: &Path, most: usize) -> Stored {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).expect("socket");
    bind(&socket, &SocketAddrUnix::new(path).expect("address")).expect("bind");
    let stored = Stored::default();
    let of_thread = Arc::clone(&stored);
    std::thread::spawn(move || {
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut bytes = [0; 4096];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let read = recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)
                .expect("notice")
                .bytes;
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let fd = ancillary.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
                _ => None,
            });
            let name = text.lines().find_map(|line| line.strip_prefix("FDNAME=")).map(str::to_owned);
            let mut stored = of_thread.lock().expect("lock");
            match (name, fd) {
                (Some(name), Some(fd)) if stored.len() < most || stored.contains_key(&name) => {
                    stored.insert(name, fd);
                }
                (Some(name), None) if text.contains("FDSTOREREMOVE=1") => _ = stored.remove(&name),
                _ => {}
            }
        }
    });
    stored
}

/// The daemon with what the manager has stored, as descriptors from 3 on.
fn command(service: &Service, notify: &Path, (stored, most): (&Stored, usize)) -> (Command, Vec<OwnedFd>) {
    let (mut script, mut names, mut given) = (String::new(), Vec::new(), Vec::new());
    for (at, (name, fd)) in stored.lock().expect("lock").iter().enumerate() {
        // High numbers, so that no redirection of the shell overwrites a later one.
        let high = fcntl_dupfd_cloexec(fd, 500).expect("duplicate");
        fcntl_setfd(&high, FdFlags::empty()).expect("inherit");
        script += &format!("exec {}<&{} {}<&-\n", 3 + at, high.as_raw_fd(), high.as_raw_fd());
        names.push(name.clone());
        given.push(high);
    }
    let daemon = service.command();
    let mut command = Command::new("bash");
    if !names.is_empty() {
        script +=
            &format!("export LISTEN_PID=$$ LISTEN_FDS={} LISTEN_FDNAMES={}\n", names.len(), names.join(":"));
    }
    command.args(["-c", &(script + "exec \"$@\""), "bash"]).arg(daemon.get_program()).args(daemon.get_args());
    command.env("NOTIFY_SOCKET", notify).env("FDSTORE", most.to_string());
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    (command, given)
}

#[test]
fn connections_survive_a_daemon_whose_ports_the_manager_keeps() {
    let name = "connections_survive_a_daemon_whose_ports_the_manager_keeps";
    if !privileged(name) || !has_program(name, "bash") {
        return;
    }
    let service = Service::new();
    let notify = service.world.folder.path().join("notify");
    let _alone = weft_host::testing::alone();
    let stored = manager(&notify, 4096);
    let start = || {
        let (mut command, given) = command(&service, &notify, (&stored, 4096));
        let daemon = Running(command.spawn().expect("start"));
        drop(given);
        assert!(until(PATIENCE, || service.client(&["status"]).code == 0), "the daemon does not answer");
        daemon
    };
    let mut daemon = start();
    wait_until_up(&service.world.app, "weft0");
    let port = link::show(&service.world.app, "weft0").expect("the port").index;
    assert!(!service.world.folder.path().join("io.weft.keeper").exists(), "a keeper was started");
    let flows = Flows::start(&service.world, 40);
    flows.assert_all_go_on();
    for signal in [Signal::KILL, Signal::USR2] {
        let pause = flows.pause_during(|| {
            daemon.signal(signal);
            let _ = daemon.0.wait();
            daemon = start();
        });
        println!("{signal:?}: a pause of {pause:?}");
        assert_eq!(link::show(&service.world.app, "weft0").expect("the port").index, port);
    }
    drop(flows);
    service.stop(daemon);
    assert!(
        until(PATIENCE, || stored.lock().expect("lock").is_empty()),
        "{:?}",
        stored.lock().expect("lock").keys()
    );
}

#[test]
fn a_port_for_which_the_manager_has_no_room_is_refused_and_the_others_survive() {
    let name = "a_port_for_which_the_manager_has_no_room_is_refused_and_the_others_survive";
    if !privileged(name) || !has_program(name, "bash") {
        return;
    }
    const MOST: usize = 200;
    let _alone = weft_host::testing::alone();
    let service = Service::new();
    let notify = service.world.folder.path().join("notify");
    let stored = manager(&notify, MOST);
    let start = || {
        let (mut command, given) = command(&service, &notify, (&stored, MOST));
        let daemon = Running(command.spawn().expect("start"));
        drop(given);
        assert!(until(PATIENCE, || service.client(&["status"]).code == 0), "the daemon does not answer");
        daemon
    };
    let mut daemon = start();
    let add = |name: &str| service.client(&["port", "add", name, "--netns", service.world.app.name()]);
    let refused = (0..4).map(|at| add(&format!("more{at}"))).find(|said| said.code != 0);
    let refused = refused.expect("a manager with room for 200 descriptors has no room for five ports");
    assert!(
        refused.err.contains("FileDescriptorStoreMax=") && refused.err.contains("of 200"),
        "{}",
        refused.err
    );
    let ports = || -> Vec<String> {
        let status = service.status();
        let ports = status["ports"].as_array().expect("ports").iter();
        ports.map(|port| port["port"].as_str().expect("a name").to_owned()).collect()
    };
    let before = ports();
    assert!(before.len() >= 2, "{before:?}");
    daemon.signal(Signal::KILL);
    let _ = daemon.0.wait();
    daemon = start();
    assert_eq!(ports(), before, "every port that was accepted");
    service.stop(daemon);
}
