//! The plugin after `bridge` or `ptp`: packets of the container get a mark, and the limits that the runtime sets.
//!
//! The container's interface is a veth whose other end is on the host. The host routes or bridges what comes from there;
//! where it leaves through a port of the daemon, the policy finds the mark: `class gold = mark 0x10/0xff`.
//!
//! | key | action |
//! |---|---|
//! | `mark` | an eBPF program at the ingress of the veth's host end |
//! | `egressRate` | a TBF at the container's end: what waits is charged to the sender's socket, so TCP holds back |
//! | `ingressRate` | a TBF at the host's end |
//!
//! All of it vanishes with the veth, so DEL and GC have nothing to do. The previous result is returned as it is.

use crate::bandwidth::Limit;
use crate::config::{Mark, PluginConfig};
use crate::environment::ContainerTarget;
use crate::error::{CniError, ErrorCode};
use crate::port::open;
use crate::result;
use serde_json::Value;
use weft_host::NetNs;
use weft_host::bpf::{Object, ObjectOptions};
use weft_host::link::{self, Link};
use weft_host::tc::{self, FilterFound, Handle, Tbf, TcDevice, TcObject};
use weft_units::{Bytes, Nanos};

/// The compiled bpf/mark.bpf.c.
static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mark.bpf.o"));
const PROGRAM: &str = "weft_mark";
/// Framing on an Ethernet wire: preamble 8, checksum 4, gap 12. Policies count it as well.
const FRAMING: u16 = 24;
/// An Ethernet header with a VLAN tag.
const HEADER: u64 = 18;
/// The time at the limit's rate that a full queue lasts, beyond the burst.
const QUEUE_TIME: Nanos = Nanos::from_millis(10);
/// The number of largest frames that every queue holds.
const QUEUE_FRAMES: u64 = 4;

/// The two ends of a container's veth.
struct Ends {
    host: NetNs,
    container: NetNs,
    /// The end on the host.
    outer: Link,
    /// The end in the container.
    inner: Link,
}

fn failed(action: &str, error: impl std::fmt::Display) -> CniError {
    CniError::failed(format!("cannot {action}"), error)
}

/// Finds the ends by the previous result: an interface on the host that is the peer of the container's.
fn ends(previous: &Value, target: &ContainerTarget) -> Result<Ends, CniError> {
    let container = open(&target.netns)?;
    let host = NetNs::current().map_err(|e| failed("open the host's network namespace", e))?;
    let name = &target.attachment.interface;
    let inner = link::show(&container, name).map_err(|e| failed("find the container's interface", e))?;
    for interface in result::interfaces(previous)?.iter().filter(|i| i.sandbox.is_empty()) {
        let Ok(outer) = link::show(&host, &interface.name) else { continue };
        let peers = outer.lower == Some(inner.index) && inner.lower == Some(outer.index);
        if outer.kind.as_deref() == Some("veth") && peers {
            return Ok(Ends { host, container, outer, inner });
        }
    }
    let text = format!("no interface of `prevResult` on the host is the other end of the container's {name}");
    Err(CniError::new(ErrorCode::InvalidConfig, text).details(
        "chain weft after `bridge` or `ptp`, whose interfaces are veths; after others, use weft with `ipam`",
    ))
}

/// The TBF for a limit of a link.
fn bucket(limit: Limit, link: &Link) -> Tbf {
    let frame = Bytes(u64::from(link.mtu) + HEADER + u64::from(FRAMING));
    let burst = limit.depth(frame);
    let queue = limit.rate.bytes_in(QUEUE_TIME).max(Bytes(frame.0 * QUEUE_FRAMES));
    Tbf { rate: limit.rate, overhead: FRAMING, burst, limit: Bytes(burst.0 + queue.0) }
}

/// The read-only data of the program: the value, then the bits that are kept.
fn read_only(mark: Mark) -> Vec<u8> {
    [mark.value.to_ne_bytes(), (!mark.mask).to_ne_bytes()].concat()
}

fn set_mark(ends: &Ends, mark: Mark) -> Result<(), CniError> {
    let refused = |error| failed("mark the container's packets", error);
    let data = read_only(mark);
    let options = ObjectOptions { name: "mark", rodata: Some(&data), ..ObjectOptions::default() };
    let object = Object::load_with(IMAGE, &options).map_err(refused)?;
    object.attach_ingress(PROGRAM, ends.outer.index).map(|_| ()).map_err(refused)
}

/// Sets marks and limits, and returns the previous result.
pub(crate) fn add(config: &PluginConfig, target: &ContainerTarget) -> Result<Value, CniError> {
    let Some(previous) = &config.previous else {
        return Err(CniError::new(ErrorCode::InvalidConfig, "there is no prevResult, and no `ipam`").details(
            "chain weft after `bridge` or `ptp`, or give it `ipam`, so that it makes the interface itself",
        ));
    };
    let ends = ends(previous, target)?;
    if let Some(limit) = config.bandwidth.egress {
        TcDevice::open(&ends.container, &ends.inner.name)
            .and_then(|mut device| device.add(&TcObject::tbf(bucket(limit, &ends.inner))))
            .map_err(|e| failed("limit what the container sends", e))?;
    }
    if let Some(limit) = config.bandwidth.ingress {
        TcDevice::open(&ends.host, &ends.outer.name)
            .and_then(|mut device| device.add(&TcObject::tbf(bucket(limit, &ends.outer))))
            .map_err(|e| failed("limit what the container receives", e))?;
    }
    if let Some(mark) = config.mark {
        set_mark(&ends, mark)?;
    }
    Ok(previous.clone())
}

/// Checks that marks and limits are still there.
pub(crate) fn check(config: &PluginConfig, target: &ContainerTarget) -> Result<(), CniError> {
    let Some(previous) = &config.previous else {
        return Err(CniError::new(ErrorCode::InvalidConfig, "CHECK needs a prevResult"));
    };
    let ends = ends(previous, target)?;
    let limits = [
        (config.bandwidth.egress, &ends.container, &ends.inner, "sends"),
        (config.bandwidth.ingress, &ends.host, &ends.outer, "receives"),
    ];
    for (_, ns, link, does) in limits.into_iter().filter(|(limit, ..)| limit.is_some()) {
        let counters = TcDevice::open(ns, &link.name).and_then(|mut device| device.qdisc(Handle::FIRST));
        counters.map_err(|e| failed(&format!("find the limit of what the container {does}"), e))?;
    }
    if config.mark.is_some() {
        let filters = tc::filters(&ends.host, &ends.outer.name, Handle::INGRESS)
            .map_err(|e| failed("find the mark of the container's packets", e))?;
        let ours =
            |filter: &FilterFound| filter.program.as_ref().is_some_and(|p| p.name.starts_with(PROGRAM));
        if !filters.iter().any(ours) {
            let text = format!("nothing marks the container's packets at {} any longer", ends.outer.name);
            return Err(CniError::new(ErrorCode::Failed, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::BitsPerSec;

    #[test]
    fn a_bucket_is_a_time_at_the_rate() {
        let link = Link { mtu: 1500, ..Link::default() };
        let tbf = bucket(Limit { rate: BitsPerSec(10_000_000), burst: None }, &link);
        assert_eq!((tbf.burst, tbf.limit), (Bytes(12_500), Bytes(25_000)));
        // The kernel drops frames larger than the bucket.
        let slow =
            bucket(Limit { rate: BitsPerSec(100_000), burst: None }, &Link { mtu: 9000, ..Link::default() });
        assert!(slow.burst.0 >= 9042 && slow.limit.0 >= slow.burst.0 + 9042);
    }

    #[test]
    fn the_program_keeps_the_bits_outside_the_mask() {
        let data = read_only(Mark { value: 0x10, mask: 0xff });
        assert_eq!(data, [0x10u32.to_ne_bytes(), 0xffff_ff00u32.to_ne_bytes()].concat());
    }
}
