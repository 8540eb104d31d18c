//! A NIC that outlives its process: its state, its descriptors, and the way in which another process takes it over.
//!
//! The kernel keeps a NIC as long as a process holds the descriptors of its namespace, its rings and its maps. The programs
//! stay at the devices, so packets wait in the rings while no process serves them. [`SoftwareNic::kept`] is the state, and
//! [`SoftwareNic::descriptors`] and [`SoftwareNic::port_descriptors`] are the descriptors, by names.
//!
//! [`SoftwareNic::adopt`], in this order:
//! 1. The plan must number classes and lanes as the state does. Otherwise this version of the program compiles the policy
//!    in another way, and packets in the rings would be another class's.
//! 2. The devices are opened by number. A port whose devices are gone is lost, and the others continue.
//! 3. The worker starts and links the rings. From here on packets leave, through the former process's programs.
//! 4. Each port's programs are loaded over its maps and take the place of the former ones, in one step for packets.
//! 5. The match tables are written anew, since the former process may have ended within a change of them.
//!
//! Each ring's accounting begins with the count of packets done, which the former worker wrote. A packet that it held was read, so
//! it is in no ring. After a hand-over it is among the descriptors ([`SoftwareNic::hand_over`]). After a kill it is lost, and given
//! up as any other that is missing.

use super::port::PortBase;
use super::ports::{gone, replace_doorbells};
use super::{NicConfig, NicError, NicPlan, NicPort, PortId, SoftwareNic};
use crate::counters::PortCounters;
use crate::doorbell::{NicMaps, OWN, shared_maps};
use crate::in_hand::{self, InHand};
use crate::kernel_counters::KernelCounterCache;
use crate::layout::{LaneEntry, Page};
use crate::plan::change::RingUse;
use crate::plan::{RingPlan, RingSpec};
use crate::port::{KeptVeth, Port, Uplink, UplinkRole};
use crate::redirect::{ReceivePath, Redirect};
use crate::rx;
use crate::worker::{self, NewPort};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use weft_host::Mac;
use weft_host::bpf::{FilterId, MapFd};
use weft_host::clock;
use weft_host::netns::NetNs;
use weft_policy::{CompiledPolicy, Numbers};
use weft_units::{ClassId, LaneId};

/// The state of a NIC that outlives its process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeptNic {
    /// The classes and lanes by their numbers.
    numbering: Vec<String>,
    /// The names of ports by their numbers in the match tables.
    names: Vec<String>,
    /// The device that transmits.
    uplink: KeptDevice,
    ports: Vec<KeptPort>,
}

/// A device, by its number in the NIC's namespace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct KeptDevice {
    index: u32,
    name: String,
}

/// A filter: handle and priority.
type KeptFilter = (u32, u32);

/// A port behind a veth.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct KeptPort {
    name: String,
    /// Its bit in the summary.
    number: usize,
    mac: [u8; 6],
    /// The numbers of near end, far end and macvtap.
    devices: [u32; 3],
    receive: KeptDevice,
    behind: Option<[KeptFilter; 2]>,
    /// The filter of the redirect, where the kernel carries received packets.
    redirect: Option<KeptFilter>,
    ring_packets: u32,
    flow_table: u32,
    /// The lanes as the programs read them.
    lanes: Vec<[u8; 32]>,
    /// The lane and the class of each ring.
    rings: Vec<(u32, u32)>,
    uses: Vec<KeptUse>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KeptUse {
    Lane,
    Spare,
    Retired,
}

/// A port that could not be taken over.
#[derive(Debug)]
pub struct LostPort {
    /// Its name.
    pub name: String,
    /// The reason.
    pub error: NicError,
}

/// A NIC that was taken over.
#[derive(Debug)]
pub struct Adopted {
    /// The NIC.
    pub nic: SoftwareNic,
    /// Its ports by name.
    pub ports: Vec<(String, PortId)>,
    /// The ports that are lost.
    pub lost: Vec<LostPort>,
}

/// The descriptors of a port beside its rings and maps.
const OTHERS: [&str; 3] = ["netns", "receive", "received"];
/// The name of the descriptor of the transmitting device's queue.
const UPLINK: &str = "uplink";
/// The name of the descriptor with the packets that the former worker held. Who takes a NIC over removes it from the store
/// first, so that no packet is sent by two successors.
pub const IN_HAND: &str = "in-hand";

fn map_name(map: &str) -> String {
    format!("map.{map}")
}

fn port_name(port: usize, what: &str) -> String {
    format!("port{port}.{what}")
}

fn kept_filter(filter: FilterId) -> KeptFilter {
    (filter.handle, filter.priority)
}

fn filter((handle, priority): KeptFilter) -> FilterId {
    FilterId { handle, priority }
}

fn absent(name: &str) -> NicError {
    NicError::Kept(format!("descriptor {name} is missing"))
}

fn duplicate(fd: impl AsFd) -> Result<OwnedFd, NicError> {
    let copy = fd.as_fd().try_clone_to_owned();
    copy.map_err(|e| NicError::Stopped(format!("duplicate a descriptor: {e}")))
}

/// The classes and lanes of `policy` by number.
fn numbering(policy: &CompiledPolicy) -> Vec<String> {
    let leaf = |lane: &weft_sched::LaneSpec| policy.program.leaves.get(lane.leaf.index());
    let lane = |lane: &weft_sched::LaneSpec| {
        let name = leaf(lane).map_or("", |leaf| leaf.name.as_str());
        let limits: Vec<String> = lane.limits.iter().map(|limit| limit.0.to_string()).collect();
        format!("{} {name} [{}]", lane.class.0, limits.join(","))
    };
    let classes = policy.classes.iter().map(|class| class.name.clone());
    classes.chain(policy.program.lanes.iter().map(lane)).collect()
}

impl NicPlan {
    /// Plans a NIC whose policy has these numbers after the changes so far.
    ///
    /// # Errors
    /// When the policy exceeds the rings.
    pub fn numbered(policy: &CompiledPolicy, numbers: &Numbers, config: NicConfig) -> Result<Self, NicError> {
        let plan = Self::new(policy, config)?;
        let rings = plan.rings().numbered(policy, numbers);
        Ok(Self::changed(plan.config().clone(), rings, plan.workers()))
    }
}

impl SoftwareNic {
    /// The state for a successor of this process; `None` if a port, the mode or several workers cannot be taken over.
    pub fn kept(&self) -> Option<KeptNic> {
        let rings = self.plan.rings();
        if self.plan.workers().get() > 1 || rings.rings.iter().any(|ring| ring.class.is_none()) {
            return None;
        }
        let uplink = &self.uplink_device.device;
        Some(KeptNic {
            numbering: numbering(rings.whole()),
            names: self.maps.names(),
            uplink: KeptDevice { index: uplink.index(), name: uplink.name().to_owned() },
            ports: self.ports.iter().map(kept_port).collect::<Option<_>>()?,
        })
    }

    /// The NIC's descriptors by name, for a successor of this process.
    ///
    /// # Errors
    /// When one cannot be duplicated.
    pub fn descriptors(&self) -> Result<Vec<(String, OwnedFd)>, NicError> {
        let mut all = vec![(UPLINK.to_owned(), duplicate(&*self.uplink)?)];
        for (name, map) in self.maps.descriptors()? {
            all.push((map_name(name), duplicate(map.as_fd())?));
        }
        Ok(all)
    }

    /// The descriptors of port `id` by name, for a successor of this process. `rings` are duplicates of its rings, which the
    /// worker owns.
    ///
    /// # Errors
    /// When there is no such port, or a descriptor cannot be duplicated.
    pub fn port_descriptors(
        &self,
        id: PortId,
        rings: Vec<OwnedFd>,
    ) -> Result<Vec<(String, OwnedFd)>, NicError> {
        let port = self.port(id).ok_or(NicError::NoSuchPort { id })?;
        let name = |what: &str| port_name(port.number, what);
        let mut all = vec![(name("netns"), duplicate(port.port.near().namespace().fd())?)];
        if let Some(device) = &port.receive_device {
            all.push((name("receive"), duplicate(device.queue())?));
        }
        if let ReceivePath::Kernel(redirect) = &port.receive {
            all.push((name("received"), duplicate(redirect.kept()?.1.as_fd())?));
        }
        for (map, fd) in port.doorbells.own_maps()? {
            all.push((name(&map_name(map)), duplicate(fd.as_fd())?));
        }
        let rings = rings.into_iter().enumerate();
        all.extend(rings.map(|(ring, fd)| (name(&format!("ring{ring}")), fd)));
        Ok(all)
    }

    /// The names that [`port_descriptors`](Self::port_descriptors) gives for a port of `rings` rings.
    pub fn port_names(&self, id: PortId, rings: usize) -> Vec<String> {
        let Some(port) = self.port(id) else { return Vec::new() };
        let maps = OWN.into_iter().map(map_name);
        let rings = (0..rings).map(|ring| format!("ring{ring}"));
        let others = OTHERS.into_iter().map(str::to_owned);
        others.chain(maps).chain(rings).map(|what| port_name(port.number, &what)).collect()
    }

    /// The most descriptors of a port of `rings` rings.
    pub fn port_descriptors_max(rings: usize) -> usize {
        OTHERS.len() + OWN.len() + rings
    }

    /// Takes over a NIC that a former process has left in `namespace`: its state and its descriptors. `plan` is that of the
    /// policy in force then.
    ///
    /// # Errors
    /// When nothing can be taken over. What is left is for the caller to remove.
    pub fn adopt(
        plan: NicPlan,
        kept: KeptNic,
        namespace: &NetNs,
        descriptors: &mut BTreeMap<String, OwnedFd>,
    ) -> Result<Adopted, NicError> {
        if kept.numbering != numbering(plan.rings().whole()) {
            let why = "this version of the program numbers the policy's classes in another way";
            return Err(NicError::Kept(why.to_owned()));
        }
        let queue = take(descriptors, UPLINK)?;
        let device = (kept.uplink.index, kept.uplink.name.as_str());
        let uplink = Uplink::adopt(namespace, device, queue, UplinkRole::Transmit)?;
        let maps = take_maps(descriptors, shared_maps(), map_name)?;
        let maps = NicMaps::adopt(&maps, &kept.names)?;
        let cgroups = plan.config().cgroups.clone();
        // Packets that cannot be read are lost as those of a killed process.
        let mut in_hand =
            descriptors.remove(IN_HAND).and_then(|fd| in_hand::read(fd).ok()).unwrap_or_default();
        let mut nic = Self::start_over(plan, uplink, maps)?;
        let (mut ports, mut lost) = (Vec::new(), Vec::new());
        let mut linked = Vec::new();
        for port in kept.ports {
            let name = port.name.clone();
            let (its, others) = in_hand.into_iter().partition(|packet| packet.port == port.number);
            in_hand = others;
            match nic.link(port, namespace, (descriptors, its)) {
                Ok(port) => linked.push(port),
                Err(error) => lost.push(LostPort { name, error }),
            }
        }
        for port in linked {
            let (name, number) = (port.kept.name.clone(), port.kept.number);
            match nic.take_over(port) {
                Ok(id) => ports.push((name, id)),
                Err(error) => {
                    nic.threads.ask(0, |answer| worker::Command::Remove(number, answer));
                    lost.push(LostPort { name, error });
                }
            }
        }
        let tables = nic.maps.prepare_tables(nic.plan.rings(), &cgroups)?;
        let _ = tables.commit();
        nic.vacancies.record_all(nic.plan.rings().whole(), clock::now());
        nic.divide_infrastructure();
        Ok(Adopted { nic, ports, lost })
    }

    /// Ends this process's part in the NIC, and leaves everything else to a successor. Returns the packets that the worker held,
    /// as a descriptor named [`IN_HAND`] for the successor. Devices and descriptors stay open until the process ends.
    ///
    /// # Errors
    /// When the kernel has no memory for these packets, which are lost then.
    pub fn hand_over(mut self) -> Result<Option<OwnedFd>, NicError> {
        let in_hand = self.threads.ask(0, worker::Command::HandOver);
        // A worker that failed holds nothing.
        let _ = self.threads.join();
        core::mem::forget(self);
        let packets = in_hand.filter(|packets| !packets.is_empty());
        let written = packets.map(|packets| in_hand::write(&packets)).transpose();
        written.map_err(|error| NicError::Stopped(format!("keep the packets in hand: {error}")))
    }

    /// Opens the devices of a port, and links its rings.
    fn link(
        &self,
        kept: KeptPort,
        namespace: &NetNs,
        (descriptors, in_hand): (&mut BTreeMap<String, OwnedFd>, Vec<InHand>),
    ) -> Result<Linked, NicError> {
        let name = |what: &str| port_name(kept.number, what);
        let app = NetNs::received(take(descriptors, &name("netns"))?, &kept.name);
        let ring = |ring: usize| name(&format!("ring{ring}"));
        let fds: Result<Vec<OwnedFd>, NicError> =
            (0..kept.rings.len()).map(|at| take(descriptors, &ring(at))).collect();
        let fds = fds?;
        let receive = take(descriptors, &name("receive"))?;
        let own = take_maps(descriptors, OWN.into_iter(), |map| name(&map_name(map)))?;
        let received = match kept.redirect {
            Some(_) => Some(take_map(descriptors, &name("received"))?),
            None => None,
        };
        let [near, far, tap] = kept.devices;
        let (mac, ring_packets) = (Mac(kept.mac), kept.ring_packets);
        let veth =
            KeptVeth { app: &app, nic: namespace, name: &kept.name, mac, near, far, tap, ring_packets };
        let rx_port = duplicate(fds.first().ok_or_else(|| absent("ring0"))?)?;
        let port = Port::adopt(veth, Vec::new())?;
        let device = (kept.receive.index, kept.receive.name.as_str());
        let receive = Uplink::adopt(namespace, device, receive, UplinkRole::Receive)?;
        let plan = kept.plan(self.plan.rings())?;
        let page = own.iter().find(|(name, _)| *name == "doorbells").ok_or_else(|| absent("doorbells"))?;
        let page = Page::Mapped(Arc::new(page.1.shared()?));
        let drops = port.drops()?;
        let base = PortBase::of(&page, drops);
        let counters = Arc::new(PortCounters::new(plan.class_slots()));
        let rings = fds.into_iter().zip(plan.rings.iter().copied()).collect();
        let new = NewPort { port: kept.number, page, counters: Arc::clone(&counters), rings, in_hand };
        let answer = self.threads.ask(0, |answer| worker::Command::Add(new, answer));
        answer.ok_or_else(gone)?.map_err(|error| NicError::Engine(error.to_string()))?;
        Ok(Linked { kept, port, receive, plan, counters, own, received, rx_port, base })
    }

    /// Puts the programs of this process in the place of the former one's.
    fn take_over(&mut self, linked: Linked) -> Result<PortId, NicError> {
        let Linked { kept, port, receive, plan, counters, own, received, rx_port, base } = linked;
        let place = (&port, kept.number as u32);
        let behind = kept.behind.map(|of| of.map(filter));
        let (doorbells, behind) = replace_doorbells(&self.maps, &plan, place, &own, behind)?;
        let own = Some(port.mac());
        let path = match (kept.redirect, received) {
            (Some(former), Some(received)) => {
                Redirect::adopt(&port, &receive, own, (filter(former), &received)).map(ReceivePath::Kernel)?
            }
            _ => ReceivePath::choose(&port, &receive, own)?,
        };
        let uplink = Arc::new(duplicate(receive.queue())?);
        let of = Arc::clone(&counters);
        let mtu = Arc::new(port.mtu()?.into());
        let source = rx::Source {
            number: kept.number,
            uplink,
            port: rx_port,
            own,
            counters: of,
            mtu: Arc::clone(&mtu),
        };
        let _ = self.threads.rx.ask(|answer| rx::Command::Add(source, answer));
        // The former process may have been removing the port.
        receive.bring_up()?;
        port.bring_up()?;
        let port = Arc::new(port);
        let contested = self.watch(kept.number, 0, &port, &doorbells);
        self.next_id += 1;
        let id = PortId(self.next_id);
        self.ports.push(NicPort {
            id,
            number: kept.number,
            worker: 0,
            port,
            doorbells,
            counters,
            uses: kept.uses(),
            plan,
            behind,
            base,
            receive_device: Some(receive),
            receive: path,
            mtu,
            kernel_counters: KernelCounterCache::default(),
            contested,
            closed: false,
        });
        Ok(id)
    }
}

/// A port whose rings are linked.
struct Linked {
    kept: KeptPort,
    port: Port,
    receive: Uplink,
    plan: RingPlan,
    counters: Arc<PortCounters>,
    own: Vec<(&'static str, MapFd)>,
    received: Option<MapFd>,
    rx_port: OwnedFd,
    base: PortBase,
}

fn take(descriptors: &mut BTreeMap<String, OwnedFd>, name: &str) -> Result<OwnedFd, NicError> {
    descriptors.remove(name).ok_or_else(|| absent(name))
}

fn take_map(descriptors: &mut BTreeMap<String, OwnedFd>, name: &str) -> Result<MapFd, NicError> {
    Ok(MapFd::received(&take(descriptors, name)?, name)?)
}

fn take_maps(
    descriptors: &mut BTreeMap<String, OwnedFd>,
    names: impl Iterator<Item = &'static str>,
    name: impl Fn(&str) -> String,
) -> Result<Vec<(&'static str, MapFd)>, NicError> {
    names.map(|map| Ok((map, take_map(descriptors, &name(map))?))).collect()
}

fn kept_port(port: &NicPort) -> Option<KeptPort> {
    let device = port.receive_device.as_ref()?;
    let redirect = match &port.receive {
        ReceivePath::Kernel(redirect) => Some(kept_filter(redirect.kept().ok()?.0)),
        ReceivePath::Thread(_) => None,
    };
    let ring = |ring: &RingSpec| Some((ring.lane.0, ring.class?.0));
    let kept_use = |of: &RingUse| match of {
        RingUse::Lane => KeptUse::Lane,
        RingUse::Spare => KeptUse::Spare,
        RingUse::Retired(_) => KeptUse::Retired,
    };
    Some(KeptPort {
        name: port.port.name().to_owned(),
        number: port.number,
        mac: port.port.mac().0,
        devices: port.port.numbers()?,
        receive: KeptDevice { index: device.index(), name: device.name().to_owned() },
        behind: port.behind.map(|of| of.map(kept_filter)),
        redirect,
        ring_packets: port.port.ring_packets,
        flow_table: port.plan.flow_table,
        lanes: port.plan.lanes.iter().map(|lane| lane.to_bytes()).collect(),
        rings: port.plan.rings.iter().map(ring).collect::<Option<_>>()?,
        uses: port.uses.iter().map(kept_use).collect(),
    })
}

impl KeptPort {
    /// The plan of its rings, under the policy of `base`.
    fn plan(&self, base: &RingPlan) -> Result<RingPlan, NicError> {
        let lanes: Option<Vec<LaneEntry>> = self.lanes.iter().map(LaneEntry::parse).collect();
        let lanes = lanes.ok_or_else(|| NicError::Kept("a lane is of another version".to_owned()))?;
        let ring =
            |(lane, class): &(u32, u32)| RingSpec { lane: LaneId(*lane), class: Some(ClassId(*class)) };
        let rings: Vec<RingSpec> = self.rings.iter().map(ring).collect();
        let known = base.program.lanes.len();
        if self.uses.len() != rings.len() || rings.iter().any(|ring| ring.lane.index() >= known) {
            return Err(NicError::Kept("the rings do not fit the policy".to_owned()));
        }
        let mut plan = base.named(&self.name);
        (plan.lanes, plan.rings, plan.flow_table) = (lanes, rings, self.flow_table);
        Ok(plan)
    }

    fn uses(&self) -> Vec<RingUse> {
        let now = clock::now();
        let of = |of: &KeptUse| match of {
            KeptUse::Lane => RingUse::Lane,
            KeptUse::Spare => RingUse::Spare,
            KeptUse::Retired => RingUse::Retired(now),
        };
        self.uses.iter().map(of).collect()
    }
}

impl KeptNic {
    /// The numbers of the devices in the NIC's namespace. Others there were being made or removed when the process ended.
    pub fn devices(&self) -> Vec<u32> {
        let ports = self.ports.iter();
        let of_port = |port: &KeptPort| [port.devices[1], port.devices[2], port.receive.index];
        ports.flat_map(of_port).chain([self.uplink.index]).collect()
    }
}
