//! Sets a real NIC's receive hash table and checks where packets arrive. `make test-kernels` runs it in an emulated machine.
//!
//! `rss_check serve ADDRESS:PORT` sends 64 KiB on each connection. `rss_check check DEVICE ADDRESS:PORT` connects to it many times
//! through DEVICE, under several tables, and counts per queue: interrupts of virtio-net, packets of igb.
//! `rss_check flows DEVICE LOCAL:PORT ADDRESS:PORT QUEUES` connects once from each of 64 ports starting at PORT, and checks that
//! their packets arrive at those queues, such as `2,3`.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use rustix::net::{AddressFamily, SocketType};
use weft_host::NetNs;
use weft_host::ethtool::{
    Action, Ask, ContextId, EthtoolError, Flow, HashFields, HashFlow, Kernel, L4, Masked, Nic, Ports,
    Refused, RssChange, RxRule, Transport, equal_table, weighted_table,
};
use weft_units::{RxQueueId, Weight};

/// Connections per check, each a flow. The probability that one of four queues receives none of them by chance is less than one
/// in a hundred million.
const CONNECTIONS: usize = 64;
const REPLY_LEN: usize = 64 << 10;
/// The divisor of the fraction that may arrive elsewhere: ARP and other packets without a hash go to the first queue.
const STRAY: u64 = 20;

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve", address] => serve(address),
        ["check", device, address] => check(device, address),
        ["flows", device, local, address, queues] => flows(device, local, address, queues),
        _ => Err("usage: rss_check serve ADDRESS:PORT | rss_check check DEVICE ADDRESS:PORT | \
                  rss_check flows DEVICE LOCAL:PORT ADDRESS:PORT QUEUES"
            .into()),
    }
}

fn serve(address: &str) -> Done {
    let listener = TcpListener::bind(address)?;
    let reply = vec![b'w'; REPLY_LEN];
    loop {
        let (mut stream, _) = listener.accept()?;
        // A client that leaves early is not an error.
        let _ = stream.write_all(&reply);
    }
}

fn flows(device: &str, local: &str, address: &str, queues: &str) -> Done {
    let nic = Nic::open(&NetNs::current()?, device)?;
    let table = queues.split(',').map(|queue| queue.parse().map(RxQueueId)).collect::<Result<Vec<_>, _>>()?;
    let (local, to): (SocketAddr, SocketAddr) = (local.parse()?, address.parse()?);
    arrivals("planned flows", &nic, &table, |number| {
        let from = SocketAddr::new(local.ip(), local.port() + number as u16);
        let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
        rustix::net::bind(&socket, &from)?;
        rustix::net::connect(&socket, &to)?;
        Ok(TcpStream::from(socket))
    })?;
    Ok(())
}

fn check(device: &str, address: &str) -> Done {
    let mut nic = Nic::open(&NetNs::current()?, device)?;
    let (queues, before) = (nic.rx_queues()?, nic.rss(ContextId::MAIN)?);
    let entries = before.table.len();
    println!(
        "{device}: driver {}, {queues} receive queues, table of {entries} entries, key of {} bytes, {:?}",
        nic.driver().name,
        before.key.len(),
        before.function
    );
    need(queues >= 4, "four receive queues")?;
    let entries_of = |queue| before.table.iter().filter(|entry| entry.0 == queue).count();
    need(
        (0..queues).all(|queue| entries_of(queue) == entries / queues as usize),
        "all queues alike at first",
    )?;
    look("the first table", &nic, address, &before.table)?;

    let two = equal_table(entries, 2);
    set_and_look("equal 2", &mut nic, address, two)?;
    let weight = |value| Weight::new(value).ok_or("a weight of zero");
    let weighted = weighted_table(entries, &[(RxQueueId(2), weight(1)?), (RxQueueId(3), weight(3)?)]);
    let share = weighted.iter().filter(|queue| queue.0 == 3).count();
    need(share == entries - entries / 4, "three quarters of the entries")?;
    let arrived = set_and_look("weights 0 0 1 3", &mut nic, address, weighted)?;
    // With 64 flows of one size, the heavier queue receives less than the lighter one with a probability of one in a hundred thousand.
    need(arrived.get(&3) > arrived.get(&2), "more at the queue of weight 3 than at that of weight 1")?;
    set_and_look("the last queue", &mut nic, address, vec![RxQueueId(3); entries])?;

    set_and_look("restored", &mut nic, address, before.table.clone())?;
    need(nic.rss(ContextId::MAIN)? == before, "table, key and function as they were")?;
    fields(&mut nic)?;
    refusals(&mut nic)?;
    by_ioctl(&mut nic)?;
    channels(&mut nic)?;
    key(&mut nic)?;
    println!("{device}: ok");
    Ok(())
}

fn need(held: bool, what: &str) -> Done {
    if held { Ok(()) } else { Err(format!("expected {what}").into()) }
}

fn set_and_look(name: &str, nic: &mut Nic, address: &str, table: Vec<RxQueueId>) -> Done<BTreeMap<u32, u64>> {
    nic.set_rss(ContextId::MAIN, &RssChange::table(table.clone()))?;
    need(nic.rss(ContextId::MAIN)?.table == table, "the table that was set")?;
    look(name, nic, address, &table)
}

/// Connects many times with a given table.
fn look(name: &str, nic: &Nic, address: &str, table: &[RxQueueId]) -> Done<BTreeMap<u32, u64>> {
    arrivals(name, nic, table, |_| Ok(TcpStream::connect(address)?))
}

/// Connects many times. Packets must arrive at the queues of the table only, and at each of them. Returns the number per queue.
/// much did, by queue.
fn arrivals(
    name: &str,
    nic: &Nic,
    table: &[RxQueueId],
    connect: impl Fn(usize) -> Done<TcpStream>,
) -> Done<BTreeMap<u32, u64>> {
    let first = counters(nic)?;
    for number in 0..CONNECTIONS {
        let mut reply = Vec::new();
        connect(number)?.read_to_end(&mut reply)?;
        need(reply.len() == REPLY_LEN, "a whole reply")?;
    }
    let last = counters(nic)?;
    let arrived: BTreeMap<u32, u64> =
        last.iter().map(|(queue, count)| (*queue, count - first.get(queue).unwrap_or(&0))).collect();
    println!("{}: {name}: arrived by queue {arrived:?}", nic.device());
    let total: u64 = arrived.values().sum();
    need(total >= CONNECTIONS as u64, "something for each connection")?;
    let stray: u64 = arrived
        .iter()
        .filter(|(queue, _)| !table.contains(&RxQueueId(**queue)))
        .map(|(_, count)| count)
        .sum();
    need(stray * STRAY <= total, &format!("nearly nothing at other queues, not {stray} of {total}"))?;
    let idle = arrived.iter().find(|(queue, count)| table.contains(&RxQueueId(**queue)) && **count == 0);
    need(idle.is_none(), &format!("something at every queue of the table, not nothing at {idle:?}"))?;
    Ok(arrived)
}

/// The packets or interrupts of each receive queue so far.
fn counters(nic: &Nic) -> Done<BTreeMap<u32, u64>> {
    let counters = match nic.driver().name.as_str() {
        "virtio_net" => interrupts(nic.device())?,
        _ => statistics(nic.device())?,
    };
    need(counters.len() >= 4, "counters of four queues")?;
    Ok(counters)
}

/// The interrupts named `virtioN-input.QUEUE`; virtio-net has no packet counter per queue in `ethtool -S`.
fn interrupts(device: &str) -> Done<BTreeMap<u32, u64>> {
    let link = std::fs::canonicalize(format!("/sys/class/net/{device}/device"))?;
    let virtio = link.file_name().and_then(|name| name.to_str()).ok_or("no device")?.to_owned();
    let prefix = format!("{virtio}-input.");
    let mut found = BTreeMap::new();
    for line in std::fs::read_to_string("/proc/interrupts")?.lines() {
        let Some(queue) = line.split_whitespace().last().and_then(|name| name.strip_prefix(&prefix)) else {
            continue;
        };
        let counts = line.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
        found.insert(queue.parse()?, counts.sum());
    }
    Ok(found)
}

/// The lines `rx_queue_QUEUE_packets: COUNT` of `ethtool -S`. igb's interrupts also include sent packets.
fn statistics(device: &str) -> Done<BTreeMap<u32, u64>> {
    let output = Command::new("ethtool").args(["-S", device]).output()?;
    let mut found = BTreeMap::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let Some((name, count)) = line.trim().split_once(": ") else { continue };
        if let Some(queue) = name.strip_prefix("rx_queue_").and_then(|rest| rest.strip_suffix("_packets")) {
            found.insert(queue.parse()?, count.parse()?);
        }
    }
    Ok(found)
}

/// The kernel without its netlink commands, like an older one.
struct Older(Kernel);

impl Transport for Older {
    fn ioctl(&mut self, device: &str, buffer: &mut [u8]) -> std::io::Result<()> {
        self.0.ioctl(device, buffer)
    }

    /// The features command stays: every kernel since 5.7 has it.
    fn has(&self, command: u8, ask: Ask) -> bool {
        command == FEATURES_GET && self.0.has(command, ask)
    }

    fn netlink(
        &mut self,
        device: &str,
        command: u8,
        attributes: &[u8],
        ask: Ask,
    ) -> Result<Vec<Vec<u8>>, Refused> {
        self.0.netlink(device, command, attributes, ask)
    }
}

/// `ETHTOOL_MSG_RSS_SET`, of Linux 6.17 and later.
const RSS_SET: u8 = 48;
/// `ETHTOOL_MSG_FEATURES_GET`.
const FEATURES_GET: u8 = 11;

/// Checks that netlink reads values set by ioctl, and vice versa.
fn by_ioctl(nic: &mut Nic) -> Done {
    need(nic.transport().has(RSS_SET, Ask::Request), "a kernel with the netlink commands")?;
    let before = nic.rss(ContextId::MAIN)?;
    let mut older = Nic::over(Older(Kernel::open(&NetNs::current()?)?), nic.device())?;
    need(older.rss(ContextId::MAIN)? == before, "the same by ioctl as by netlink")?;
    let table = vec![RxQueueId(1); before.table.len()];
    older.set_rss(ContextId::MAIN, &RssChange::table(table.clone()))?;
    let now = nic.rss(ContextId::MAIN)?;
    need(
        now.table == table && (&now.key, now.function) == (&before.key, before.function),
        "only another table",
    )?;
    nic.set_rss(ContextId::MAIN, &RssChange::table(before.table.clone()))?;
    need(older.rss(ContextId::MAIN)? == before, "the first table, by ioctl")?;
    println!("{}: ioctl and netlink agree", nic.device());
    refusals(&mut older)
}

/// Checks that queues named by the table cannot be removed, and that others can.
fn channels(nic: &mut Nic) -> Done {
    let table = nic.rss(ContextId::MAIN)?.table;
    let count = nic.channels()?.ok_or("expected channels")?.combined.count;
    let error = nic.set_combined_channels(2).err().ok_or("expected that queues in use stay")?;
    println!("{error}");
    nic.set_rss(ContextId::MAIN, &RssChange::table(equal_table(table.len(), 2)))?;
    nic.set_combined_channels(2)?;
    need(nic.rx_queues()? == 2, "two queues")?;
    nic.set_combined_channels(count)?;
    nic.set_rss(ContextId::MAIN, &RssChange::table(table))?;
    need(nic.rx_queues()? == count, "all queues again")
}

/// Changes the key and restores it. A driver that shows no key accepts none.
fn key(nic: &mut Nic) -> Done {
    let before = nic.rss(ContextId::MAIN)?;
    let change = |key: &[u8]| RssChange { key: Some(key.to_vec()), ..RssChange::default() };
    if before.key.is_empty() {
        let error = nic.set_rss(ContextId::MAIN, &change(&[1; 40])).err().ok_or("expected no key")?;
        println!("{error}");
        return Ok(());
    }
    let other: Vec<u8> = before.key.iter().rev().copied().collect();
    need(other != before.key, "a key that is no palindrome")?;
    nic.set_rss(ContextId::MAIN, &change(&other))?;
    let now = nic.rss(ContextId::MAIN)?;
    need(now.key == other && now.table == before.table, "another key and the same table")?;
    nic.set_rss(ContextId::MAIN, &change(&before.key))?;
    need(nic.rss(ContextId::MAIN)? == before, "the first key")
}

/// Changes UDP's hash fields and restores them.
fn fields(nic: &mut Nic) -> Done {
    let before = nic.hash_fields(HashFlow::Udp4, ContextId::MAIN)?;
    let addresses = HashFields::SOURCE | HashFields::DESTINATION;
    for fields in [HashFields::FOUR_TUPLE, addresses, before] {
        nic.set_hash_fields(HashFlow::Udp4, ContextId::MAIN, fields)?;
        let now = nic.hash_fields(HashFlow::Udp4, ContextId::MAIN)?;
        println!("{}: udp4 is hashed by {now}", nic.device());
        need(now == fields, &format!("{fields}"))?;
    }
    Ok(())
}

/// Checks that operations that neither of these NICs supports are refused with the specific error.
fn refusals(nic: &mut Nic<impl Transport>) -> Done {
    let flow = Flow::Ports4(Ports { destination_port: Masked::exact(80), ..Ports::any(L4::Tcp) });
    let rule = RxRule::new(flow, Action::Queue(RxQueueId(1))).at(0);
    let error = nic.insert_rule(&rule).err().ok_or("expected no receive rules")?;
    println!("{error}");
    need(matches!(error, EthtoolError::NoRules { .. }), "the error that there are no rules")?;
    let error = nic.create_context(&RssChange::default()).err().ok_or("expected no RSS contexts")?;
    println!("{error}");
    need(matches!(error, EthtoolError::NoContexts { .. }), "the error that there are no contexts")?;
    let far = RssChange::table(vec![RxQueueId(4096); nic.rss(ContextId::MAIN)?.table.len()]);
    let error = nic.set_rss(ContextId::MAIN, &far).err().ok_or("expected no such queue")?;
    println!("{error}");
    need(matches!(error, EthtoolError::NoSuchQueue { .. }), "the error that there is no such queue")
}
