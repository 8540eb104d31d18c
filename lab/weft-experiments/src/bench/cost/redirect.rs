//! The least way of a packet between a device pair and an uplink: eBPF redirects in both directions, without weftline.

use super::error::CostError;
use super::testbed::{PORT, PORT_MAC, Testbed, UPLINK};
use weft_host::bpf::{Object, ObjectOptions};
use weft_host::link::{self, VethOptions};

/// The compiled program.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cost_redirect.bpf.o"));
/// The other end of the port's veth.
const FAR: &str = "far0";
/// `BPF_F_INGRESS` of linux/bpf.h: the packet arrives at the device, instead of leaving through it.
const INGRESS: u32 = 1;

/// The redirects. The devices go with their namespace.
#[derive(Debug)]
pub(super) struct Redirect {
    _object: Object,
}

impl Redirect {
    /// Makes the port in the sender's namespace, and redirects between it and the uplink.
    pub(super) fn start(testbed: &Testbed) -> Result<Self, CostError> {
        let ns = &testbed.sender;
        let options = VethOptions { macs: [Some(PORT_MAC), None], ..VethOptions::default() };
        link::create_veth((ns, PORT), (ns, FAR), &options)?;
        let options = ObjectOptions { name: "cost_redirect", ..ObjectOptions::default() };
        let object = Object::load_with(PROGRAM, &options)?;
        let index = |name| link::index(ns, name);
        let (uplink, port, far) = (index(UPLINK)?, index(PORT)?, index(FAR)?);
        let targets = object.map_fd("targets")?;
        // Frames for the port's address are another host's for the uplink, which therefore passes them on at once.
        for (from, to, flags) in [(uplink, port, INGRESS), (far, uplink, 0)] {
            let value = [to.to_ne_bytes(), flags.to_ne_bytes()].concat();
            targets.update(&from.to_ne_bytes(), &value)?;
        }
        for device in [uplink, far] {
            ns.run(|| object.attach_ingress("weft_cost_way", device))??;
        }
        link::set_up(ns, PORT)?;
        link::set_up(ns, FAR)?;
        Ok(Self { _object: object })
    }
}
