//! Sets the weights of a NIC's transmit queues and checks that the kernel stores them. `make test-kernels` runs it in an
//! emulated machine.
//!
//! `net_shaper_check DEVICE` needs a device without shapers, with at least four transmit queues, whose driver supports queue
//! weights, such as netdevsim.

use std::error::Error;

use weft_host::net_shaper::{Handle, Scope, Shaper, ShaperError};
use weft_host::{NetNs, link};
use weft_units::{TxQueueId, Weight};

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [device] => check(device),
        _ => Err("usage: net_shaper_check DEVICE".into()),
    }
}

fn check(device: &str) -> Done {
    let ns = NetNs::current()?;
    let ifindex = link::index(&ns, device)?;
    let mut shaper = Shaper::open(&ns)?;
    for scope in [Scope::Queue, Scope::Node] {
        let caps = shaper.capabilities(ifindex, scope)?;
        println!("{device}: {scope:?}: {caps:?}");
        if scope == Scope::Queue {
            need(caps.weight && caps.nesting, "weights of queues, and queues under a node")?;
        }
    }
    need(shaper.list(ifindex)?.is_empty(), "no shapers at first")?;

    set_and_look(&mut shaper, ifindex, &[1, 2, 4, 1])?;
    let node = shaper.node(ifindex).ok_or("a node")?;
    set_and_look(&mut shaper, ifindex, &[5, 1, 1, 3])?;
    need(shaper.node(ifindex) == Some(node), "the same node")?;
    set_and_look(&mut shaper, ifindex, &[7, 9])?;

    let absent = shaper.set_weights(ifindex, &[(TxQueueId(100_000), Weight::ONE)]);
    need(matches!(&absent, Err(ShaperError::Os(_))), "no queue 100000")?;
    println!("{device}: {}", absent.err().map(|e| e.to_string()).unwrap_or_default());
    look(&mut shaper, ifindex, &[7, 9])?;

    // The steps of a later process.
    let mut later = Shaper::open(&ns)?;
    later.adopt(ifindex, node);
    set_and_look(&mut later, ifindex, &[2, 2, 3])?;
    need(later.node(ifindex) == Some(node), "the node that was adopted")?;
    later.delete_weights(ifindex)?;
    need(later.list(ifindex)?.is_empty(), "no shapers after they were deleted")?;
    need(later.get(ifindex, Handle { scope: Scope::Queue, id: 0 })?.is_none(), "no shaper of queue 0")?;
    // The first value has no report that its node is deleted, and finds out.
    set_and_look(&mut shaper, ifindex, &[1, 3])?;
    shaper.delete_weights(ifindex)?;
    need(shaper.list(ifindex)?.is_empty(), "no shapers at the end")?;
    println!("{device}: ok");
    Ok(())
}

/// Sets the weights of the first queues, and checks that exactly these exist.
fn set_and_look(shaper: &mut Shaper, ifindex: u32, weights: &[u32]) -> Done {
    let list: Option<Vec<_>> =
        (0..).zip(weights).map(|(queue, weight)| Some((TxQueueId(queue), Weight::new(*weight)?))).collect();
    shaper.set_weights(ifindex, &list.ok_or("weights above zero")?)?;
    look(shaper, ifindex, weights)
}

fn look(shaper: &mut Shaper, ifindex: u32, weights: &[u32]) -> Done {
    let node = Handle { scope: Scope::Node, id: shaper.node(ifindex).ok_or("a node")? };
    for (queue, weight) in (0..).zip(weights) {
        let found = shaper.get(ifindex, Handle { scope: Scope::Queue, id: queue })?.ok_or("a shaper")?;
        need(found.weight == Weight::new(*weight), &format!("queue {queue} of weight {weight}: {found:?}"))?;
        need(found.parent == Some(node), &format!("queue {queue} under {node:?}: {found:?}"))?;
    }
    let all = shaper.list(ifindex)?;
    let queues = all.iter().filter(|s| s.handle.scope == Scope::Queue).count();
    need(queues == weights.len(), &format!("{} weighted queues: {all:?}", weights.len()))?;
    need(all.iter().any(|s| s.handle == node), &format!("{node:?}: {all:?}"))?;
    println!("interface {ifindex}: weights {weights:?} under node {}", node.id);
    Ok(())
}

fn need(held: bool, what: &str) -> Done {
    if held { Ok(()) } else { Err(format!("expected {what}").into()) }
}
