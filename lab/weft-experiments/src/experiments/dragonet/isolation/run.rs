//! A run: the server, the clients on the time line, and plans that follow them.

use super::client::{Client, Ended, Live, Mix, flows};
use super::record::{self, ConfigurationChange, IsolationOutcome, RunPhase, Span, newcomer};
use super::server;
use super::testbed;
use super::{Class, IsolationError, IsolationEvent, IsolationOptions, PlanInForce, Replan, RequestCounts};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;
use weft_host::{Process, clock};
use weft_nic::receive::{ReceiveConfig, ReceiveNic};
use weft_nic::testbed::Testbed;
use weft_steer::Flow;
use weft_units::{Instant, Nanos, Packets};

/// Packets that the wire holds before the NIC reads them.
const WIRE_PACKETS: u32 = 4096;
/// Time that clients run before the run begins: all flows have had their first answers by then.
const WARM_UP: Nanos = Nanos::from_millis(500);
/// Time limit for the NIC to drain at the end.
const DRAIN: Nanos = Nanos::from_secs(3);
/// The talk's times, in seconds: before the first newcomer, each newcomer's stay, and the windows of the plots.
const BEFORE_S: f64 = 10.0;
const JOINED_S: f64 = 50.0;
const WINDOW_S: f64 = 1.0;
/// The shortest window: a shorter one has too few requests per flow.
const SHORTEST_WINDOW: Nanos = Nanos::from_millis(100);

/// Runs the experiment in one mode. `replan` is called with the initial flows, then whenever a client joins or
/// leaves: before its first packet and after its last. When `stop` returns true, everything is removed and
/// [`IsolationError::Interrupted`] is returned.
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
    server::require_server()?;
    let initial: Vec<Flow> = members(options)
        .filter(|(class, number)| *number < newcomer(*class, options))
        .flat_map(|(class, number)| flows(class, number, options.flows_per_client))
        .collect();
    let planning = clock::now();
    let plan = replan(&initial, &[])?;
    let planning = clock::now().saturating_since(planning);
    let rules = plan.configuration.rules.len();
    let first = ConfigurationChange { at: Nanos::ZERO, added: initial.len(), removed: 0, planning, rules };
    let testbed = Testbed::create(&super::super::role("iso"))?;
    let nic = start_nic(&testbed, options, plan)?;
    let server = server::start(&testbed, options.value_bytes)?;
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
    // All are asked before any is waited for: each then drains its outstanding requests at the same time.
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
    let elapsed = end.saturating_since(origin);
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

/// Returns all clients, newcomers included.
pub(super) fn members(options: &IsolationOptions) -> impl Iterator<Item = (Class, u32)> + '_ {
    Class::ALL.into_iter().flat_map(|class| (0..=newcomer(class, options)).map(move |n| (class, n)))
}

fn start_nic(
    testbed: &Testbed,
    options: &IsolationOptions,
    plan: PlanInForce,
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

/// The state of a run. On drop, clients end before the server, the NIC and the namespaces are removed.
struct Run<'a> {
    options: &'a IsolationOptions,
    window: Nanos,
    live: [Arc<Live>; 2],
    /// The values of `live` at the last report.
    shown: [(u64, u64); 2],
    testbed: &'a Testbed,
    nic: &'a ReceiveNic,
    clients: Vec<Client>,
    server: Process,
    ended: Vec<Ended>,
    changes: Vec<ConfigurationChange>,
    spans: Vec<Span>,
    origin: Instant,
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
        self.spans.push(Span { phase: RunPhase::Before, from, to });
        for class in Class::ALL {
            let number = newcomer(class, self.options);
            let flows = flows(class, number, self.options.flows_per_client);
            self.change(replan, &flows, &[])?;
            self.start(class, number)?;
            from = clock::now();
            on_event(IsolationEvent::Changed { class, joined: true, at: from.saturating_since(self.origin) });
            let to = from + self.options.scaled(JOINED_S);
            self.wait(to, stop, on_event)?;
            self.spans.push(Span { phase: RunPhase::Joined(class), from, to });
            if let Some(client) = self.clients.pop() {
                self.ended.push(client.end()?);
            }
            self.change(replan, &[], &flows)?;
            let at = clock::now().saturating_since(self.origin);
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

    /// Plans for flows added and removed, and puts the plan in force.
    fn change(
        &mut self,
        replan: &mut Replan<'_>,
        added: &[Flow],
        removed: &[Flow],
    ) -> Result<(), IsolationError> {
        let begin = clock::now();
        let plan = replan(added, removed)?;
        let planning = clock::now().saturating_since(begin);
        self.nic.replace(plan.steer);
        self.changes.push(ConfigurationChange {
            at: clock::now().saturating_since(self.origin),
            added: added.len(),
            removed: removed.len(),
            planning,
            rules: plan.configuration.rules.len(),
        });
        Ok(())
    }

    /// Waits until `until`, reporting windows as they end.
    fn wait(
        &mut self,
        until: Instant,
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
                return Err(server::ended(&mut self.server, status));
            }
            if now >= self.origin {
                self.show(now.saturating_since(self.origin), on_event);
            }
            if now >= until {
                return Ok(());
            }
            let pause = until.saturating_since(now).min(Nanos::from_millis(20));
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

/// Returns the number of answers and the sum of their latencies.
fn read(live: &Live) -> (u64, u64) {
    (live.answered.load(Ordering::Relaxed), live.latency_ns.load(Ordering::Relaxed))
}
