//! The service manager's watchdog measures whether the daemon's loop runs, whatever its callers request.

use crate::common::service::{PATIENCE, Service};
use crate::common::world::wait_until_up;
use crate::common::{Running, file, until};
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_host::link::{self, Mac};
use weft_host::testing::privileged;

/// The ports, each of which sends for two seconds before it is removed.
const PORTS: usize = 7;
/// The watchdog's interval. One removal after the other lasts longer than half of it, on any machine.
const WATCHDOG: Duration = Duration::from_secs(20);

/// The signs of life of a daemon, as its manager sees them.
struct Manager {
    signs: Arc<Mutex<Vec<Instant>>>,
    over: Arc<AtomicBool>,
}

impl Manager {
    fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).expect("bind");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
        let (signs, over) = (Arc::<Mutex<Vec<Instant>>>::default(), Arc::<AtomicBool>::default());
        let (of_thread, ends) = (Arc::clone(&signs), Arc::clone(&over));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while !ends.load(Ordering::Relaxed) {
                let read = socket.recv(&mut bytes).unwrap_or(0);
                if bytes[..read].starts_with(b"WATCHDOG=1") {
                    of_thread.lock().expect("lock").push(Instant::now());
                }
            }
        });
        Self { signs, over }
    }

    /// The longest time between two signs of life so far, and since the last.
    fn longest(&self) -> Duration {
        let signs = self.signs.lock().expect("lock").clone();
        let next = signs.iter().skip(1).copied().chain([Instant::now()]);
        signs.iter().zip(next).map(|(before, after)| after - *before).max().unwrap_or_default()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// A service with ports that send at 8 kb/s in all.
fn slow_service() -> Service {
    let mut service = Service::bare("hold = \"off\"\n");
    file(&service.world.folder, "p.weft", "link 100mbps\nroot = priority { limit 8kbps of default }\n");
    let mut text = std::fs::read_to_string(&service.config).expect("the configuration");
    for at in 0..PORTS {
        text += &format!(
            "[[ports]]\nname = \"w{at}\"\nnetns = \"{}\"\naddresses = [\"10.98.{at}.1/24\"]\n",
            service.world.app.name()
        );
    }
    service.config = file(&service.world.folder, "weft.toml", text);
    service
}

/// Gives each port more packets than it sends in two seconds.
fn fill(service: &Service) {
    let app = &service.world.app;
    let far = link::show(&service.world.far, "far0").expect("far").mac.unwrap_or(Mac([2; 6]));
    let socket = app.run(|| UdpSocket::bind("0.0.0.0:0")).expect("enter").expect("bind");
    for at in 0..PORTS {
        let name = format!("w{at}");
        wait_until_up(app, &name);
        let to = format!("10.98.{at}.2");
        link::add_neighbor(app, &name, to.parse().expect("an address"), far).expect("neighbour");
        for _ in 0..20 {
            socket.send_to(&[0; 500], (to.as_str(), 9)).expect("send");
        }
    }
}

#[test]
fn ports_that_send_their_packets_keep_neither_callers_nor_the_watchdog_waiting() {
    let name = "ports_that_send_their_packets_keep_neither_callers_nor_the_watchdog_waiting";
    if !privileged(name) {
        return;
    }
    let service = slow_service();
    let notify = service.world.folder.path().join("notify");
    let manager = Manager::at(&notify);
    let mut command = service.command();
    command.env("NOTIFY_SOCKET", &notify).env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    let daemon = Running(command.spawn().expect("start"));
    assert!(until(PATIENCE, || service.client(&["status"]).code == 0), "the daemon does not answer");
    fill(&service);
    let ports = || service.status()["ports"].as_array().map_or(0, Vec::len);
    let (answered, removed) = std::thread::scope(|scope| {
        let names: Vec<String> = (0..PORTS).map(|at| format!("w{at}")).collect();
        let remove = |name: String| {
            let service = &service;
            scope.spawn(move || service.client(&["port", "remove", &name]).code)
        };
        let removals: Vec<_> = names.into_iter().map(remove).collect();
        // All are closed, and none has sent its packets: calls are answered in this state.
        let is_down = |at: usize| link::show(&service.world.app, &format!("w{at}")).is_ok_and(|l| !l.running);
        assert!(until(PATIENCE, || (0..PORTS).all(is_down)), "all ports are closed at once");
        let answered = ports();
        (answered, removals.into_iter().map(|of| of.join().expect("removal")).collect::<Vec<_>>())
    });
    assert_eq!((answered, removed), (PORTS, vec![0; PORTS]), "ports while they were removed, and exit codes");
    assert_eq!(ports(), 0);
    let lives = || manager.signs.lock().expect("lock").len() >= 2;
    assert!(until(PATIENCE, lives), "no sign of life");
    let longest = manager.longest();
    assert!(longest < WATCHDOG / 2, "{longest:?} without a sign of life");
    service.stop(daemon);
}
