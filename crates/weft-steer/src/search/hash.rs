//! Where the hash sends flows that no rule holds.

use super::state::{DEFAULT, ENTRIES, SPREAD, State};
use super::types::{HashKey, Options};
use crate::nic::Nic;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_packet::rss::{RssKey, Toeplitz};

/// The key that plans have, and the hash where it can be computed.
pub(super) fn hash(nic: &Nic, options: &Options) -> (RssKey, Option<Toeplitz>) {
    let key = match &options.key {
        HashKey::Known(key) => key.clone(),
        HashKey::Standard | HashKey::Unknown => RssKey::default(),
    };
    let known = nic.rss.is_some() && options.key != HashKey::Unknown;
    let toeplitz = known.then(|| Toeplitz::new(&key));
    (key, toeplitz)
}

impl State {
    /// Where packets of a header match go without rules: an entry by their hash, all entries, or the default queue.
    pub(super) fn base(&self, headers: &HeaderMatch) -> u32 {
        let Some(rss) = &self.nic.rss else { return DEFAULT };
        match headers.ether_type() {
            None => return SPREAD,
            Some(weft_packet::header_match::ETHER_TYPE_IPV4 | weft_packet::header_match::ETHER_TYPE_IPV6) => {
            }
            Some(_) => return DEFAULT,
        }
        let Some(toeplitz) = &self.toeplitz else { return SPREAD };
        if let Some(key) = headers.flow() {
            let ports = rss.hashed_with_ports.contains(&key.protocol.0);
            return ENTRIES + (toeplitz.flow(&key, ports) & (self.entries - 1));
        }
        // Without ports, packets of two addresses have one hash where the protocol's ports are not hashed.
        let addresses = headers.exact(Field::SrcPort, 0).exact(Field::DstPort, 0).flow();
        match addresses {
            Some(key) if !rss.hashed_with_ports.contains(&key.protocol.0) => {
                ENTRIES + (toeplitz.flow(&key, false) & (self.entries - 1))
            }
            _ => SPREAD,
        }
    }
}
