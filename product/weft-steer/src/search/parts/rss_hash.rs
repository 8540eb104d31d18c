//! The hash's choice of steering entry for flows without a rule.

use super::ids::EntryId;
use crate::nic::{Nic, RssModel};
use crate::search::types::HashKey;
use weft_packet::header_match::{ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, Field, HeaderMatch};
use weft_packet::rss::{HashedFields, RssKey, Toeplitz};
use weft_units::FlowKey;

/// A NIC's hash.
#[derive(Clone, Debug)]
pub(in crate::search) struct RssHash {
    model: Option<RssModel>,
    key: RssKey,
    /// The hash, if it can be computed.
    toeplitz: Option<Toeplitz>,
}

impl RssHash {
    /// Creates the hash of a NIC under a key.
    pub(in crate::search) fn new(nic: &Nic, key: &HashKey) -> Self {
        let known = *key != HashKey::Unknown;
        let key = match key {
            HashKey::Known(key) => key.clone(),
            HashKey::Standard | HashKey::Unknown => RssKey::default(),
        };
        let toeplitz = (nic.rss.is_some() && known).then(|| Toeplitz::new(&key));
        Self { model: nic.rss.clone(), key, toeplitz }
    }

    /// Returns the key of plans.
    pub(in crate::search) const fn key(&self) -> &RssKey {
        &self.key
    }

    /// Returns the steering entry of packets in the absence of rules: an entry by their hash, all entries, or the default queue.
    pub(in crate::search) fn entry_of(&self, headers: &HeaderMatch) -> EntryId {
        let Some(model) = &self.model else { return EntryId::DEFAULT };
        match headers.ether_type() {
            None => return EntryId::SPREAD,
            Some(ETHER_TYPE_IPV4 | ETHER_TYPE_IPV6) => {}
            Some(_) => return EntryId::DEFAULT,
        }
        let Some(toeplitz) = &self.toeplitz else { return EntryId::SPREAD };
        let fields = |key: &FlowKey| model.hashed_fields(key.protocol);
        let entry =
            |key: &FlowKey| EntryId::indirection(toeplitz.flow(key, fields(key)) & (model.indirection - 1));
        if let Some(key) = headers.flow() {
            return entry(&key);
        }
        // Without ports in the header match, packets of two addresses share one hash if the protocol's ports are not hashed.
        match headers.exact(Field::SrcPort, 0).exact(Field::DstPort, 0).flow() {
            Some(key) if fields(&key) == HashedFields::Addresses => entry(&key),
            _ => EntryId::SPREAD,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::workload;
    use weft_units::Protocol;

    #[test]
    fn a_five_tuple_has_the_entry_of_its_hash() {
        let hash = RssHash::new(&workload::rss_nic(4, 128), &HashKey::Standard);
        let headers = workload::slides(1)[0].headers;
        let key = headers.flow().expect("five-tuple");
        let place = Toeplitz::new(hash.key()).flow(&key, HashedFields::AddressesAndPorts) % 128;
        assert_eq!(hash.entry_of(&headers), EntryId::indirection(place));
        let unknown = RssHash::new(&workload::rss_nic(4, 128), &HashKey::Unknown);
        assert_eq!(unknown.entry_of(&headers), EntryId::SPREAD);
        let none = RssHash::new(&workload::exact_table_nic(4, 8), &HashKey::Standard);
        assert_eq!(none.entry_of(&headers), EntryId::DEFAULT);
    }

    #[test]
    fn wildcards_are_spread_unless_the_hash_leaves_them_out() {
        let hash = RssHash::new(&workload::rss_nic(4, 128), &HashKey::Standard);
        let udp = workload::slides(1)[0].headers;
        assert_eq!(hash.entry_of(&udp.without(Field::SrcPort)), EntryId::SPREAD);
        let icmp = udp.exact(Field::IpProtocol, Protocol::ICMP.0.into());
        let addresses = icmp.without(Field::SrcPort).without(Field::DstPort);
        assert!(hash.entry_of(&addresses).place().is_some(), "ICMP is hashed without ports");
        assert_eq!(hash.entry_of(&HeaderMatch::ALL), EntryId::SPREAD);
        assert_eq!(hash.entry_of(&HeaderMatch::ALL.exact(Field::EtherType, 0x0806)), EntryId::DEFAULT);
    }
}
