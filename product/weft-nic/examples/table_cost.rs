//! Measures the time of the program at a port's egress for a packet of a known flow and of a new flow, by the size of the
//! match tables. docs/datapath.md has the figures. It needs root.
//!
//! The kernel runs the program on frames that it does not send (`BPF_PROG_TEST_RUN`), so that caches are warm. A flow that is
//! never tracked is new with each packet.

use core::net::Ipv4Addr;
use std::process::ExitCode;
use weft_host::bpf::SkbFields;
use weft_nic::doorbell::{Doorbells, tables};
use weft_nic::plan::{Mode, RingPlan};
use weft_packet::{Attribute, AttributeTests, Match, PortRange, Prefix};
use weft_policy::{CompileOptions, CompiledPolicy, Destination, Rule, Source, compile};
use weft_units::{ClassId, Nanos, Protocol};

type Failure = Box<dyn std::error::Error>;

/// Frames of different flows, and runs of the program on each.
const FRAMES: u32 = 64;
const REPEAT: u32 = 4000;
const ROUNDS: usize = 5;

/// The rows of a table by their number.
type RowOf = fn(u32) -> Match;

/// One protocol and port: one group.
fn single(n: u32) -> Match {
    let port = PortRange::single((n % 60_000) as u16 + 1);
    Match { protocol: Some(Protocol(100 + (n / 60_000) as u8)), dport: Some(port), ..Match::default() }
}

/// Prefixes of all lengths from 17 to 32, by turns with a protocol: 32 groups.
fn mixed(n: u32) -> Match {
    let addr = Ipv4Addr::from(0x1400_0000 + n * 0x1_0000 / 16).into();
    let prefix = Prefix { addr, len: 17 + (n % 16) as u8 }.network();
    Match { dst: Some(prefix), protocol: (n % 32 < 16).then_some(Protocol::TCP), ..Match::default() }
}

/// A user, a VLAN with a DSCP, a socket, a mark, a port: five groups.
fn origins(n: u32) -> Match {
    let of = |attribute| AttributeTests::one(attribute, u128::from(n / 5 + 1));
    match n % 5 {
        0 => Match { attributes: of(Attribute::User), ..Match::default() },
        1 => Match {
            attributes: AttributeTests::one(Attribute::Vlan, u128::from(n / 5 % 4096))
                .with(Attribute::Dscp, u128::from(n / 5 / 4096) + 1),
            ..Match::default()
        },
        2 => Match {
            attributes: AttributeTests::one(Attribute::Cookie, u128::from(u64::MAX - u64::from(n))),
            ..Match::default()
        },
        3 => Match { mark: Some((n, u32::MAX)), ..Match::default() },
        _ => single(n),
    }
}

fn policy(count: u32, row_of: RowOf) -> Result<CompiledPolicy, Failure> {
    let text = "class a = tcp\nclass b = udp\nroot = wfq { a: 1, b: 1 }";
    let compiled = compile(Source { name: "cost", text }, &CompileOptions::default()).policy;
    let mut policy = compiled.ok_or("the policy does not compile")?;
    let default = policy.rules.pop().ok_or("no rule")?;
    policy.rules =
        (0..count).map(|n| Rule { matcher: row_of(n), class: ClassId(n % 2) }).chain([default]).collect();
    let rest = policy.destinations.last_mut().ok_or("no default")?;
    let lane = rest.first().ok_or("no lane")?.lane;
    let to = |n: u32| Some(Prefix { addr: Ipv4Addr::from(0x0a00_0000 + (n << 8)).into(), len: 24 });
    rest.splice(0..0, (0..count).map(|n| Destination { to: to(n), port: None, lane }));
    Ok(policy)
}

/// A UDP frame that no row matches, to a destination of the table.
fn frame(n: u32) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0, 0x45, 0, 0, 100, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 9, 9]);
    frame.extend((0x0a00_0001_u32 + ((n % 10) << 8)).to_be_bytes());
    frame.extend((1000 + n as u16).to_be_bytes().iter().chain(&60_001_u16.to_be_bytes()));
    frame.resize(114, 0);
    frame
}

/// The median of the rounds of the mean time of a run.
fn time(plan: &RingPlan) -> Result<Nanos, Failure> {
    let doorbells = Doorbells::load(plan, &[])?;
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let mut total = 0;
        for n in 0..FRAMES {
            total += doorbells.test(&frame(n), SkbFields::default(), REPEAT)?.mean.get();
        }
        rounds.push(total / u64::from(FRAMES));
    }
    rounds.sort_unstable();
    Ok(Nanos(rounds[ROUNDS / 2]))
}

/// The times of one size of tables.
struct Cost {
    known: Nanos,
    new: Nanos,
}

fn cost(name: &str, count: u32, row_of: RowOf) -> Result<Cost, Failure> {
    let policy = policy(count, row_of)?;
    let mut plan = RingPlan::new(&policy, Mode::Loom, 16, &[])?;
    plan.lanes.iter_mut().for_each(|lane| lane.packet_bound = 0);
    let (groups, destinations) = tables(&plan)?.groups();
    let known = time(&plan)?;
    plan.lanes.iter_mut().for_each(|lane| lane.flow_bound = 0);
    let new = time(&plan)?;
    println!("| {name} | {count} | {groups} + {destinations} | {} ns | {} ns |", known.get(), new.get());
    Ok(Cost { known, new })
}

/// Prints a line for each size, and the ratio of the largest to the smallest.
fn print(name: &str, row_of: RowOf) -> Result<(), Failure> {
    let [few, _, _, many] = [10, 100, 1000, 10_000].map(|count| cost(name, count, row_of));
    let (few, many) = (few?, many?);
    let ratio = |many: Nanos, few: Nanos| many.get() as f64 / few.get().max(1) as f64;
    println!(
        "| {name} | 10,000 to 10 | | {:.2} | {:.2} |",
        ratio(many.known, few.known),
        ratio(many.new, few.new)
    );
    Ok(())
}

fn main() -> ExitCode {
    println!("| rows | rows and destinations | groups | known flow | new flow |\n|---|---|---|---|---|");
    let printed = print("a protocol and a port", single)
        .and_then(|()| print("users, VLANs, sockets, marks, ports", origins))
        .and_then(|()| print("prefixes of 16 lengths", mixed));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
