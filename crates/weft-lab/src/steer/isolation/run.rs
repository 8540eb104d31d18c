//! A run: the server, the clients by the time line, and the plan that follows them.

use super::client::{Client, Ended, KEYS, Live, Mix, flows};
use super::protocol::{Answer, Command, answer, request};
use super::record::{self, Change, IsolationOutcome, Phase, Span, newcomer};
use super::testbed::{self, SERVER, SERVER_PORT};
use super::{Class, IsolationError, IsolationEvent, IsolationOptions, Plan, Replan, RequestCounts};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use weft_host::process::{Output, ProcessError};
use weft_host::{OsError, Process, Spawn, clock, programs};
use weft_nic::receive::{ReceiveConfig, ReceiveNic};
use weft_nic::testbed::Testbed;
use weft_steer::Flow;
use weft_units::{Nanos, Packets};

/// The server.
const MEMCACHED: &str = "memcached";
/// Packets that the wire holds before the NIC reads them.
const WIRE_PACKETS: u32 = 4096;
/// How long the server may take to answer.
const SERVER_PATIENCE: Nanos = Nanos::from_secs(5);
/// How long one of its answers may take while the keys are set.
const ANSWER_PATIENCE: Duration = Duration::from_millis(200);
/// How long clients run before the run's beginning: all flows have their first answers by then.
const WARM_UP: Nanos = Nanos::from_millis(500);
/// How long the NIC may take to serve what it holds at the end.
const DRAIN: Nanos = Nanos::from_secs(3);
/// The talk's times, in seconds: until the first newcomer, how long each stays, and the windows of its plots.
const BEFORE_S: f64 = 10.0;
const JOINED_S: f64 = 50.0;
const WINDOW_S: f64 = 1.0;
/// The shortest window: at less, a flow has few requests in it.
const SHORTEST_WINDOW: Nanos = Nanos::from_millis(100);

/// Checks that the server is installed.
///
/// # Errors
/// Names the package that has it.
pub fn require_server() -> Result<PathBuf, IsolationError> {
    server_in(programs::find)
}

fn server_in(find: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, IsolationError> {
    let package = programs::package_of(MEMCACHED);
    let missing = || ProcessError::NotInstalled { program: MEMCACHED.to_owned(), package };
    Ok(find(MEMCACHED).ok_or_else(missing)?)
}

/// Runs the experiment in one mode. `replan` is called with the flows that are there from the beginning, then whenever a client
/// joins or leaves: before its first packet and after its last. `stop` is asked often; when it says so, everything is taken
/// down and [`IsolationError::Interrupted`] comes back.
///
/// # Errors
/// See [`IsolationError`].
pub fn run(
    mode: &str,
    options: &IsolationOptions,
    replan: &mut Replan<'_>,
    stop: &dyn Fn() -> bool,
    on_event: &mut dyn FnMut(IsolationEvent),
) -> Result<IsolationOutcome, IsolationError> {
    options.check()?;
    require_server()?;
    let initial: Vec<Flow> = members(options)
        .filter(|(class, number)| *number < newcomer(*class, options))
        .flat_map(|(class, number)| flows(class, number, options.flows_per_client))
        .collect();
    let planning = clock::now();
    let plan = replan(&initial, &[]).map_err(IsolationError::Plan)?;
    let planning = clock::now().saturating_sub(planning);
    let rules = plan.configuration.rules.len();
    let first = Change { at: Nanos::ZERO, added: initial.len(), removed: 0, planning, rules };
    let testbed = Testbed::create(&super::super::role("iso"))?;
    let nic = start_nic(&testbed, options, plan)?;
    let server = start_server(&testbed)?;
    let window = options.scaled(WINDOW_S).max(SHORTEST_WINDOW);
    let mut run = Run {
        options,
        window,
        live: Default::default(),
        shown: Default::default(),
        testbed: &testbed,
        nic: &nic,
        server,
        clients: Vec::new(),
        ended: Vec::new(),
        changes: vec![first],
        spans: Vec::new(),
        origin: clock::now(),
        shown_at: Nanos::ZERO,
    };
    let played = run.play(replan, stop, on_event);
    // All at once: each waits for its own outstanding requests.
    run.clients.iter().for_each(Client::ask_to_end);
    played?;
    let Run { ended, spans, origin, changes, mut server, .. } = run;
    let totals = nic.stop(DRAIN)?;
    let _ = server.stop(Duration::from_millis(500));
    on_event(IsolationEvent::Ended);
    totals.check()?;
    let end = spans.last().map_or(origin, |span| span.to);
    let mut requests = RequestCounts::default();
    ended.iter().flat_map(|client| &client.flows).for_each(|flow| requests.add(&flow.counts));
    let elapsed = end.saturating_sub(origin);
    Ok(IsolationOutcome {
        mode: mode.to_owned(),
        phases: record::phases(&ended, &spans, origin, options),
        clients: ended.iter().map(|c| record::client(c, origin, end, window, options)).collect(),
        window,
        changes,
        requests,
        unexplained: Packets((totals.wire.packets.get() + totals.wire_drops.backlog).abs_diff(requests.sent)),
        nic_share: totals.cpu.as_secs_f64() / (elapsed + WARM_UP).as_secs_f64().max(1e-9),
        nic: totals,
        elapsed,
    })
}

/// All clients, newcomers included.
fn members(options: &IsolationOptions) -> impl Iterator<Item = (Class, u32)> + '_ {
    Class::ALL.into_iter().flat_map(|class| (0..=newcomer(class, options)).map(move |n| (class, n)))
}

fn start_nic(
    testbed: &Testbed,
    options: &IsolationOptions,
    plan: Plan,
) -> Result<ReceiveNic, IsolationError> {
    let (wire, host) = testbed.devices(1, WIRE_PACKETS)?;
    let config =
        ReceiveConfig { queues: options.queues, ring_packets: options.ring_packets, budget: options.budget };
    let nic = ReceiveNic::start(&config, wire, host, plan.steer)?;
    testbed.connect()?;
    let addresses = members(options).map(|(class, number)| testbed::address(class, number));
    testbed::add_clients(testbed, nic.wire().name(), nic.host().name(), addresses)?;
    Ok(nic)
}

/// Starts memcached in the receiver, waits until it answers, and sets the keys; all of it beside the NIC.
fn start_server(testbed: &Testbed) -> Result<Process, IsolationError> {
    let port = SERVER_PORT.to_string();
    let mut server = Spawn::new(MEMCACHED)
        // One thread: several would all wake up for each datagram of the one socket.
        .args(["-l", &SERVER.to_string(), "-U", &port, "-p", "0", "-t", "1", "-u", "nobody"])
        .netns(&testbed.receiver)
        .stderr(Output::Capture)
        .start()?;
    let socket = testbed
        .receiver
        .run(|| {
            let socket = UdpSocket::bind(SocketAddr::new(SERVER, 0))?;
            socket.connect(SocketAddr::new(SERVER, SERVER_PORT))?;
            socket.set_read_timeout(Some(ANSWER_PATIENCE))?;
            Ok(socket)
        })
        .map_err(weft_host::link::LinkError::from)?
        .map_err(|e: std::io::Error| OsError::new("open a socket beside the server", e))?;
    let until = clock::now() + SERVER_PATIENCE;
    let (mut out, mut buffer) = (Vec::new(), [0; 2048]);
    let mut number = 0;
    while number < KEYS {
        if let Some(status) = server.try_wait()? {
            let said = server.stderr().text();
            let said = said.lines().last().unwrap_or("no message").to_owned();
            return Err(IsolationError::Server(format!("ended at once ({status}): {said}")));
        }
        if clock::now() > until {
            let patience = SERVER_PATIENCE.as_secs_f64();
            return Err(IsolationError::Server(format!("does not answer within {patience} s")));
        }
        request(&mut out, number as u16, Command::Set, number, 64);
        let sent = socket.send(&out).and_then(|_| socket.recv(&mut buffer));
        match sent.map(|length| answer(&buffer[..length])) {
            Ok(Some((id, Answer::Stored))) if u32::from(id) == number => number += 1,
            // It does not listen yet.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
            Ok(_) => {}
        }
    }
    Ok(server)
}

/// A run under way. Dropped, its clients end before the server, the NIC and the namespaces go.
struct Run<'a> {
    options: &'a IsolationOptions,
    window: Nanos,
    live: [Arc<Live>; 2],
    /// What `live` said when it was last shown.
    shown: [(u64, u64); 2],
    testbed: &'a Testbed,
    nic: &'a ReceiveNic,
    clients: Vec<Client>,
    server: Process,
    ended: Vec<Ended>,
    changes: Vec<Change>,
    spans: Vec<Span>,
    origin: Nanos,
    shown_at: Nanos,
}

impl Run<'_> {
    fn play(
        &mut self,
        replan: &mut Replan<'_>,
        stop: &dyn Fn() -> bool,
        on_event: &mut dyn FnMut(IsolationEvent),
    ) -> Result<(), IsolationError> {
        on_event(IsolationEvent::Started);
        for (class, number) in members(self.options) {
            if number < newcomer(class, self.options) {
                self.start(class, number)?;
            }
        }
        self.origin = clock::now() + WARM_UP;
        self.wait(self.origin, stop, on_event)?;
        self.shown = self.live.each_ref().map(|live| read(live));
        self.shown_at = Nanos::ZERO;
        let mut from = self.origin;
        let to = from + self.options.scaled(BEFORE_S);
        self.wait(to, stop, on_event)?;
        self.spans.push(Span { phase: Phase::Before, from, to });
        for class in Class::ALL {
            let number = newcomer(class, self.options);
            let flows = flows(class, number, self.options.flows_per_client);
            self.change(replan, &flows, &[])?;
            self.start(class, number)?;
            from = clock::now();
            on_event(IsolationEvent::Changed { class, joined: true, at: from.saturating_sub(self.origin) });
            let to = from + self.options.scaled(JOINED_S);
            self.wait(to, stop, on_event)?;
            self.spans.push(Span { phase: Phase::Joined(class), from, to });
            if let Some(client) = self.clients.pop() {
                self.ended.push(client.end()?);
            }
            self.change(replan, &[], &flows)?;
            let at = clock::now().saturating_sub(self.origin);
            on_event(IsolationEvent::Changed { class, joined: false, at });
        }
        self.clients.iter().for_each(Client::ask_to_end);
        for client in core::mem::take(&mut self.clients) {
            self.ended.push(client.end()?);
        }
        self.ended.sort_by_key(|client| (client.class, client.number));
        Ok(())
    }

    fn start(&mut self, class: Class, number: u32) -> Result<(), IsolationError> {
        let o = self.options;
        let mix = Mix { value: o.value_bytes, set_percent: o.set_percent, timeout: o.timeout };
        let live = &self.live[class as usize];
        let ns = &self.testbed.sender;
        self.clients.push(Client::start(ns, (class, number), o.flows_per_client, mix, o.seed, live)?);
        Ok(())
    }

    /// Plans for flows that come and go, and puts the plan in force.
    fn change(
        &mut self,
        replan: &mut Replan<'_>,
        added: &[Flow],
        removed: &[Flow],
    ) -> Result<(), IsolationError> {
        let begin = clock::now();
        let plan = replan(added, removed).map_err(IsolationError::Plan)?;
        let planning = clock::now().saturating_sub(begin);
        self.nic.replace(plan.steer);
        self.changes.push(Change {
            at: clock::now().saturating_sub(self.origin),
            added: added.len(),
            removed: removed.len(),
            planning,
            rules: plan.configuration.rules.len(),
        });
        Ok(())
    }

    /// Waits until `until`, showing windows as they close.
    fn wait(
        &mut self,
        until: Nanos,
        stop: &dyn Fn() -> bool,
        on_event: &mut dyn FnMut(IsolationEvent),
    ) -> Result<(), IsolationError> {
        loop {
            let now = clock::now();
            if stop() {
                return Err(IsolationError::Interrupted);
            }
            if !self.nic.is_running() {
                return Err(IsolationError::NicEnded);
            }
            if let Some(status) = self.server.try_wait()? {
                let said = self.server.stderr().text();
                let said = said.lines().last().unwrap_or("no message").to_owned();
                return Err(IsolationError::Server(format!("ended during the run ({status}): {said}")));
            }
            if now >= self.origin {
                self.show(now.saturating_sub(self.origin), on_event);
            }
            if now >= until {
                return Ok(());
            }
            let pause = until.saturating_sub(now).min(Nanos::from_millis(20));
            std::thread::sleep(Duration::from_nanos(pause.get()));
        }
    }

    fn show(&mut self, at: Nanos, on_event: &mut dyn FnMut(IsolationEvent)) {
        let span = at.saturating_sub(self.shown_at);
        if span < self.window {
            return;
        }
        let now = self.live.each_ref().map(|live| read(live));
        let difference = |class: usize| {
            let (answered, latency) =
                (now[class].0 - self.shown[class].0, now[class].1 - self.shown[class].1);
            (answered as f64, (answered > 0).then(|| latency as f64 / 1e9 / answered as f64))
        };
        let classes = [difference(0), difference(1)];
        on_event(IsolationEvent::Live {
            at: self.shown_at,
            of: self.options.scaled(BEFORE_S + 2.0 * JOINED_S),
            requests_per_s: classes.map(|(answered, _)| answered / span.as_secs_f64()),
            latency_s: classes.map(|(_, latency)| latency),
        });
        (self.shown, self.shown_at) = (now, at);
    }
}

/// Answers and the sum of their latencies.
fn read(live: &Live) -> (u64, u64) {
    (live.answered.load(Ordering::Relaxed), live.latency_ns.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::super::client::keys;
    use super::*;
    use core::num::NonZeroU32;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use weft_host::{RunId, testing};
    use weft_nic::receive::Budget;
    use weft_steer::{Configuration, Cube, Field};
    use weft_units::QueueId;

    #[test]
    fn without_memcached_the_package_is_named() {
        let error = server_in(|_| None).expect_err("not found").to_string();
        assert_eq!(
            error,
            "the program memcached is not installed; install it with: apt-get install memcached"
        );
        assert!(server_in(|name| Some(PathBuf::from(format!("/opt/{name}")))).is_ok());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = IsolationOptions::default();
        assert!(good.check().is_ok());
        for bad in [
            IsolationOptions { scale: 0.0, ..good },
            IsolationOptions { scale: f64::NAN, ..good },
            IsolationOptions { value_bytes: 1400, ..good },
            IsolationOptions { hp_clients: 0, ..good },
            IsolationOptions { be_clients: 250, ..good },
            IsolationOptions { flows_per_client: 0, ..good },
            IsolationOptions { set_percent: 101, ..good },
            IsolationOptions { timeout: Nanos::ZERO, ..good },
        ] {
            assert!(matches!(bad.check(), Err(IsolationError::Options(_))), "{bad:?}");
        }
    }

    /// HP flows in the first `hp` queues, the others in the rest, by source port: what a plan with a rule for each flow does.
    fn isolated(queues: u32, hp: u32) -> Plan {
        let steer = move |cube: &Cube| {
            let flow = cube.flow()?;
            let is_hp = (0..=2).any(|n| testbed::address(Class::HighPriority, n) == flow.src);
            let (first, count) = if is_hp { (0, hp) } else { (hp, queues - hp) };
            Some(QueueId(first + u32::from(flow.sport) % count))
        };
        Plan { configuration: Configuration::default(), steer: Arc::new(steer) }
    }

    fn small() -> IsolationOptions {
        let some = |n| NonZeroU32::new(n).expect("not zero");
        IsolationOptions {
            queues: 4,
            budget: Budget { packets_per_s: some(400), burst: some(4) },
            be_clients: 5,
            flows_per_client: 4,
            scale: 0.02,
            ..IsolationOptions::default()
        }
    }

    /// One run at a time: a test looks at what a run leaves behind.
    static ALONE: Mutex<()> = Mutex::new(());

    fn ready(test: &str) -> Option<MutexGuard<'static, ()>> {
        if let Err(why) = require_server() {
            testing::skip(test, why);
            return None;
        }
        testing::privileged(test).then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Namespaces of the experiment, of this process.
    fn namespaces() -> Vec<String> {
        let entries = std::fs::read_dir(weft_host::netns::NETNS_DIR).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| name.starts_with(&RunId::current().name("iso"))).collect()
    }

    #[test]
    fn flows_land_where_the_configuration_says_and_the_books_balance() {
        let Some(_alone) = ready("flows_land_where_the_configuration_says_and_the_books_balance") else {
            return;
        };
        let options = small();
        let mut calls = Vec::new();
        let mut replan = |added: &[Flow], removed: &[Flow]| {
            calls.push((added.len(), removed.len()));
            // The first plan is made before there is anything.
            assert_eq!(namespaces().is_empty(), calls.len() == 1);
            Ok(isolated(4, 2))
        };
        let mut events = Vec::new();
        let outcome = super::run("isolation", &options, &mut replan, &|| false, &mut |e| events.push(e));
        let outcome = outcome.expect("the run");
        assert_eq!(calls, [(28, 0), (4, 0), (0, 4), (4, 0), (0, 4)]);
        assert_eq!(outcome.clients.len(), 2 + 1 + 5 + 1);
        assert!(outcome.requests.balances(), "{:?}", outcome.requests);
        assert_eq!(
            outcome.requests.errors, 0,
            "keys are set, and each get finds its own: {:?}",
            outcome.requests
        );
        assert_eq!(outcome.unexplained, Packets(0), "{outcome:?}");
        assert_eq!(crate::steer::conservation(&outcome.nic).violations(), [""; 0]);
        let mut expected = [0; 4];
        let plan = isolated(4, 2);
        for flow in outcome.clients.iter().flat_map(|client| &client.flows) {
            let queue = (plan.steer)(&Cube::of_flow(&flow.key)).expect("a queue");
            expected[queue.index()] += flow.counts.sent;
        }
        let counted: Vec<_> = outcome.nic.queues.iter().map(|queue| queue.arrived.packets.get()).collect();
        assert_eq!(counted, expected);
        assert!(outcome.clients.iter().all(|client| client.counts.answered > 0), "{:?}", outcome.clients);
        let phases: Vec<_> = outcome.phases.iter().map(|phase| phase.phase).collect();
        assert_eq!(
            phases,
            [Phase::Before, Phase::Joined(Class::HighPriority), Phase::Joined(Class::BestEffort)]
        );
        assert!(outcome.phases.iter().all(|phase| phase.hp.requests > 0 && phase.be.requests > 0));
        assert!(events.iter().any(|event| matches!(event, IsolationEvent::Live { .. })));
    }

    #[test]
    fn a_run_that_is_interrupted_leaves_nothing() {
        let Some(_alone) = ready("a_run_that_is_interrupted_leaves_nothing") else { return };
        let began = clock::now();
        let stop = || clock::now().saturating_sub(began) > Nanos::from_millis(900);
        let mut replan = |_: &[Flow], _: &[Flow]| Ok(isolated(4, 2));
        let result =
            super::run("x", &IsolationOptions { scale: 1.0, ..small() }, &mut replan, &stop, &mut |_| ());
        assert!(matches!(result, Err(IsolationError::Interrupted)), "{result:?}");
        let took = clock::now().saturating_sub(began);
        assert!(took < Nanos::from_secs(4), "interrupted after 0.9 s, ended after {} s", took.as_secs_f64());
        assert_eq!(namespaces(), [""; 0]);
        let mut failing = |_: &[Flow], _: &[Flow]| Err("no room".to_owned());
        let result = super::run("x", &small(), &mut failing, &|| false, &mut |_| ());
        assert!(matches!(&result, Err(IsolationError::Plan(why)) if why == "no room"), "{result:?}");
    }

    #[test]
    fn protocol_fields_of_a_flow_are_what_its_packets_have() {
        let options = small();
        for (class, number) in members(&options) {
            for (key, flow) in keys(class, number, 4).zip(flows(class, number, 4)) {
                assert_eq!(flow.cube.flow(), Some(key));
                assert_eq!(flow.cube.get(Field::DstPort).0, u128::from(SERVER_PORT));
                assert_eq!(flow.class.as_deref(), Some(class.name()));
            }
        }
    }
}
