//! The applications: a pair of iperf3 for each bulk flow, a pair of sockperf for each flow of requests, bound to their cores.
//!
//! One process per flow, as the study has it, up to `MAX_PROCESSES` pairs; beyond, the flows of two cores share a pair, as
//! many as a process can have.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;
use std::fs;

use weft_host::net_counters::{CounterError, NetCounters};
use weft_host::process::{Output, ProcessError};
use weft_host::sock_diag::{SockDiag, State};
use weft_host::{NetNs, Process, Spawn, clock, programs};
use weft_units::{Bytes, Instant};

use crate::applications::Applications;
use crate::attribution::TrafficKind;
use crate::connections::{CONNECT_WAIT, Connections, pause};
use crate::error::ProfileError;
use crate::iperf::{self, FIRST_PORT, IPERF, MAX_STREAMS};
use crate::pattern::FlowLayout;
use crate::remedy::Remedy;
use crate::testbed::Testbed;

/// The most pairs of processes, while fewer pairs of cores have flows.
pub(crate) const MAX_PROCESSES: usize = 128;
/// Payload bytes after which the flows count as sending.
pub(crate) const FLOWING: u64 = 20_000;

/// The flows' kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrafficLoad {
    /// Bulk data by iperf3.
    Bulk,
    /// Requests and responses of this size by sockperf, one outstanding per flow.
    Requests(Bytes),
}

impl TrafficLoad {
    /// The kind, for attribution.
    pub const fn traffic(self) -> TrafficKind {
        match self {
            Self::Bulk => TrafficKind::Bulk,
            Self::Requests(_) => TrafficKind::Requests,
        }
    }

    /// Bytes of a request; zero for bulk data.
    const fn request(self) -> u64 {
        match self {
            Self::Bulk => 0,
            Self::Requests(bytes) => bytes.get(),
        }
    }

    /// The connections of an application with so many flows: iperf3 has one more, for control.
    const fn connections(self, flows: u32) -> u32 {
        match self {
            Self::Bulk => flows + 1,
            Self::Requests(_) => flows,
        }
    }

    const fn program(self) -> &'static str {
        match self {
            Self::Bulk => IPERF,
            Self::Requests(_) => "sockperf",
        }
    }
}

/// The flows of a pair of processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pair {
    pub(crate) sender: u32,
    pub(crate) receiver: u32,
    pub(crate) to: IpAddr,
    pub(crate) port: u16,
    pub(crate) flows: u32,
}

/// The cores of a pair of processes, and the number of its flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cores {
    pub(crate) sender: u32,
    pub(crate) receiver: u32,
    pub(crate) flows: u32,
}

impl Applications {
    /// No application yet, of the program that makes `load`.
    ///
    /// # Errors
    /// If a program is not installed: taskset would start without it, and end at once.
    pub(crate) fn of(load: TrafficLoad) -> Result<Self, ProcessError> {
        for program in [load.program(), "taskset"] {
            if programs::find(program).is_none() {
                let package = programs::package_of(program);
                return Err(ProcessError::NotInstalled { program: program.to_owned(), package });
            }
        }
        Ok(Self::none(load.program()))
    }

    /// Starts the receiving application of a pair.
    pub(crate) fn serve(&mut self, ns: &NetNs, load: TrafficLoad, pair: &Pair) -> Result<(), ProcessError> {
        self.processes.push(start(ns, pair.receiver, self.program, &server(load, pair))?);
        Ok(())
    }

    /// Starts the sending application of a pair with more options, which sends for at most `seconds`; sockperf takes memory for as
    /// long.
    pub(crate) fn send(
        &mut self,
        ns: &NetNs,
        (load, more): (TrafficLoad, &[&str]),
        pair: &Pair,
        seconds: u64,
    ) -> Result<(), ProcessError> {
        let mut command = client(load, pair, seconds);
        command.extend(more.iter().map(|option| (*option).to_owned()));
        self.processes.push(start(ns, pair.sender, self.program, &command)?);
        Ok(())
    }
}

/// Running applications of both sides.
#[derive(Debug)]
pub(crate) struct Flows {
    servers: Applications,
    clients: Applications,
    pairs: Vec<Pair>,
}

impl Flows {
    /// Starts the servers, then the clients, and waits until all flows are connected. They send for at most `seconds`.
    pub(crate) fn start(
        (load, change): (TrafficLoad, Option<Remedy>),
        layout: &FlowLayout,
        testbed: &Testbed,
        seconds: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, ProfileError> {
        let pairs = pairs(layout, testbed);
        let mut flows =
            Self { servers: Applications::of(load)?, clients: Applications::of(load)?, pairs: pairs.clone() };
        for pair in &pairs {
            flows.servers.serve(&testbed.receiver, load, pair)?;
        }
        flows.wait(&testbed.receiver, "the servers to listen", stop, |seen| {
            pairs.iter().all(|pair| seen.listens(pair.port))
        })?;
        for pair in &pairs {
            let more: &[&str] = if change == Some(Remedy::NoCopy) { &["--zerocopy"] } else { &[] };
            flows.clients.send(&testbed.sender, (load, more), pair, seconds)?;
        }
        flows.wait(&testbed.receiver, "all flows to connect", stop, |seen| {
            pairs.iter().all(|pair| seen.established(pair.port) >= load.connections(pair.flows))
        })?;
        flows.wait_for_payload(&testbed.receiver, stop)?;
        Ok(flows)
    }

    /// Waits until payload flows: sockperf prepares memory after it has connected.
    fn wait_for_payload(&mut self, receiver: &NetNs, stop: &dyn Fn() -> bool) -> Result<(), ProfileError> {
        let begin = NetCounters::read(receiver)?;
        let flowing =
            || Ok::<bool, CounterError>(NetCounters::read(receiver)?.since(&begin).payload_in() > FLOWING);
        let deadline = clock::now() + CONNECT_WAIT;
        while !flowing()? {
            self.pause(stop, deadline, "payload")?;
        }
        Ok(())
    }

    /// Sleeps shortly, unless there is a reason not to wait any longer.
    fn pause(
        &mut self,
        stop: &dyn Fn() -> bool,
        deadline: Instant,
        what: &'static str,
    ) -> Result<(), ProfileError> {
        self.check()?;
        pause(stop, deadline, what)
    }

    fn wait(
        &mut self,
        receiver: &NetNs,
        what: &'static str,
        stop: &dyn Fn() -> bool,
        ready: impl Fn(&Connections) -> bool,
    ) -> Result<(), ProfileError> {
        let deadline = clock::now() + CONNECT_WAIT;
        // The testbed's addresses are those of IPv4.
        while !ready(&Connections::read(receiver, Ipv4Addr::UNSPECIFIED.into())?) {
            self.pause(stop, deadline, what)?;
        }
        Ok(())
    }

    /// Fails if an application has ended, which it must not do by itself.
    pub(crate) fn check(&mut self) -> Result<(), ProfileError> {
        self.clients.check()?;
        self.servers.check()
    }

    /// The bytes that each flow's receiver got since the flow was opened, by the number of its socket.
    pub(crate) fn received(&self, receiver: &NetNs) -> Result<BTreeMap<u64, u64>, ProfileError> {
        let sockets = SockDiag::open(receiver)?.tcp()?;
        let mut all = BTreeMap::new();
        for pair in &self.pairs {
            let of_pair = sockets
                .iter()
                .filter(|(socket, _)| socket.local.port() == pair.port && socket.state == State::Established);
            let mut counts: Vec<(u64, u64)> = of_pair
                .map(|(socket, counts)| (counts.map_or(0, |counts| counts.received), socket.cookie))
                .collect();
            // iperf3 has a connection for control beside the flows, which carries next to nothing.
            counts.sort_unstable_by(|a, b| b.cmp(a));
            all.extend(counts.into_iter().take(pair.flows as usize).map(|(bytes, socket)| (socket, bytes)));
        }
        Ok(all)
    }

    /// The processes of senders and of receivers.
    pub(crate) fn pids(&self) -> [Vec<u32>; 2] {
        [self.clients.pids(), self.servers.pids()]
    }
}

/// The pairs of processes of a layout.
fn pairs(layout: &FlowLayout, testbed: &Testbed) -> Vec<Pair> {
    let to = |cpu| testbed.paths.iter().find(|path| path.cpu == cpu).map(|path| path.to);
    let pair = |(Cores { sender, receiver, flows }, port)| {
        Some(Pair { sender, receiver, to: to(receiver)?, port, flows })
    };
    cores(layout).into_iter().zip(FIRST_PORT..).filter_map(pair).collect()
}

/// The pairs of processes of a layout, by their cores.
pub(crate) fn cores(layout: &FlowLayout) -> Vec<Cores> {
    let own_process = layout.flows.len() <= MAX_PROCESSES;
    let most = if own_process { 1 } else { MAX_STREAMS };
    let mut grouped: BTreeMap<(u32, u32, u32), u32> = BTreeMap::new();
    let mut met: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for flow in &layout.flows {
        let before = met.entry((flow.sender, flow.receiver)).or_default();
        *grouped.entry((flow.sender, flow.receiver, *before / most)).or_default() += 1;
        *before += 1;
    }
    let pair = |((sender, receiver, _), flows)| Cores { sender, receiver, flows };
    grouped.into_iter().map(pair).collect()
}

/// The receiving application's arguments.
fn server(load: TrafficLoad, pair: &Pair) -> Vec<String> {
    let (to, port) = (pair.to.to_string(), pair.port.to_string());
    match load {
        TrafficLoad::Bulk => iperf::server(pair.to, pair.port),
        TrafficLoad::Requests(_) => ["server", "--tcp", "-i", &to, "-p", &port].map(str::to_owned).to_vec(),
    }
}

/// The sending application's arguments.
fn client(load: TrafficLoad, pair: &Pair, seconds: u64) -> Vec<String> {
    let (to, port, size) = (pair.to.to_string(), pair.port.to_string(), load.request().to_string());
    match load {
        TrafficLoad::Bulk => {
            let mut client = iperf::client((pair.to, pair.port), pair.flows, seconds);
            client.extend(["--interval", "0"].map(str::to_owned));
            client
        }
        TrafficLoad::Requests(_) => {
            let to = ["ping-pong", "--tcp", "-i", &to, "-p", &port, "-m", &size, "-t", &seconds.to_string()];
            to.map(str::to_owned).to_vec()
        }
    }
}

fn start(ns: &NetNs, cpu: u32, program: &str, args: &[String]) -> Result<Process, ProcessError> {
    Spawn::new("taskset")
        .args(["--cpu-list", &cpu.to_string(), program])
        .args(args)
        .netns(ns)
        .stdout(Output::Capture)
        .stderr(Output::Capture)
        .start()
}

/// Times that threads of the processes gave up a processor to wait, since they started.
pub(crate) fn waits(pids: &[u32]) -> u64 {
    let threads = |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status")).ok();
    let texts = pids.iter().flat_map(threads).filter_map(Result::ok).filter_map(status);
    texts.filter_map(|text| voluntary(&text)).sum()
}

fn voluntary(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{FlowCount, Pattern};

    /// iperf3 refuses more streams than 128; a machine of two cores has one pair of cores for 24 by 24 flows.
    #[test]
    fn no_process_has_more_streams_than_it_can_have() {
        let layout = |pattern, flows| FlowLayout::new(pattern, flows, &[0, 1]);
        for (pattern, flows) in [
            (Pattern::Single, FlowCount::Each(1)),
            (Pattern::Incast, FlowCount::Each(64)),
            (Pattern::AllToAll, FlowCount::Each(16)),
            (Pattern::AllToAll, FlowCount::Each(24)),
        ] {
            let layout = layout(pattern, flows);
            let dealt = cores(&layout);
            assert_eq!(dealt.iter().map(|cores| cores.flows as usize).sum::<usize>(), layout.flows.len());
            assert!(dealt.iter().all(|cores| (1..=MAX_STREAMS).contains(&cores.flows)), "{dealt:?}");
            assert!(dealt.len() <= MAX_PROCESSES, "{} pairs", dealt.len());
            assert!(layout.flows.len() > MAX_PROCESSES || dealt.len() == layout.flows.len(), "{dealt:?}");
        }
    }

    #[test]
    fn waits_are_read_from_the_kernel_s_table() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(voluntary(status), Some(12));
        assert_eq!(waits(&[]), 0);
    }
}
