//! The current settings of a device, as a configuration of a model.

use super::Device;
use crate::steering::ntuple::from_rx_rule;
use std::collections::BTreeMap;
use weft_host::ethtool::{self, EthtoolError, HashFields, HashFlow, HashFunction, Location};
use weft_packet::RssKey;
use weft_steer::emit::Locations;
use weft_steer::nic::Nic;
use weft_steer::search::HashKey;
use weft_steer::{Configuration, ContextId, RssContext};
use weft_units::Protocol;

/// The settings of a device.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The configuration in the model's terms.
    pub configuration: Configuration,
    /// The known properties of the hash.
    pub key: HashKey,
    /// The IP protocols whose ports are hashed, in IPv4 and in IPv6; `None` where the driver does not report them.
    pub hashed_with_ports: Option<Vec<u8>>,
    /// The locations of the rules.
    pub locations: Locations,
    /// All rules as the device lists them, by location.
    pub held: BTreeMap<u32, String>,
    /// Rules unknown to the model, which are kept: their locations, descriptions and reasons.
    pub foreign: Vec<(u32, String, String)>,
    /// Unreadable properties, as sentences.
    pub notes: Vec<String>,
}

/// Reads the settings of a device.
///
/// # Errors
/// Errors other than a missing ability of the driver: missing privileges, a deleted device.
pub fn import(nic: &Nic, device: &mut impl Device) -> Result<Imported, EthtoolError> {
    let mut imported = Imported::default();
    match device.contexts() {
        Ok(contexts) => imported.take_contexts(contexts),
        Err(EthtoolError::ContextsUnlisted { .. }) => {
            let main = device.rss(ethtool::ContextId::MAIN)?;
            imported.take_contexts(vec![(ethtool::ContextId::MAIN, main)]);
            imported
                .notes
                .push("this kernel cannot list RSS contexts: only the main table was read".to_owned());
        }
        Err(error @ EthtoolError::NoHashTable { .. }) => imported.notes.push(error.to_string()),
        Err(error) => return Err(error),
    }
    imported.hashed_with_ports = hashed_with_ports(device);
    match device.rules() {
        Ok(table) => {
            for rule in &table.rules {
                let Location::At(location) = rule.location else { continue };
                imported.held.insert(location, rule.to_string());
                match from_rx_rule(nic, rule) {
                    Ok(mut known) => {
                        known.priority =
                            Locations::priority(nic, known.table, location).unwrap_or(known.priority);
                        imported.locations.set(&known, location);
                        imported.configuration.rules.push(known);
                    }
                    Err(why) => imported.foreign.push((location, rule.to_string(), why.to_string())),
                }
            }
        }
        Err(error @ (EthtoolError::NoRules { .. } | EthtoolError::NtupleOff { .. })) => {
            imported.notes.push(error.to_string());
        }
        Err(error) => return Err(error),
    }
    Ok(imported)
}

impl Imported {
    fn take_contexts(&mut self, contexts: Vec<(ethtool::ContextId, ethtool::Rss)>) {
        for (id, rss) in contexts {
            if id == ethtool::ContextId::MAIN {
                self.take_key(&rss);
            }
            self.configuration.contexts.push(RssContext { id: ContextId(id.0), indirection: rss.table });
        }
        self.configuration.contexts.sort_by_key(|context| context.id);
    }

    /// Only a Toeplitz hash with a known key can be computed. Drivers that do not name their function use it.
    fn take_key(&mut self, rss: &ethtool::Rss) {
        let toeplitz = matches!(rss.function, None | Some(HashFunction::Toeplitz)) && rss.symmetry == 0;
        if rss.key.is_empty() || !toeplitz {
            self.key = HashKey::Unknown;
            self.notes.push(
                "the driver does not hash by Toeplitz or does not show its key, so the queue of a hashed flow is not known"
                    .to_owned(),
            );
            return;
        }
        let key = RssKey(rss.key.clone());
        self.key = HashKey::Known(key.clone());
        self.configuration.key = key;
    }

    /// The model with the device's actual number of table entries and hash fields.
    #[must_use]
    pub fn fitted(&self, nic: &Nic) -> Nic {
        let mut nic = nic.clone();
        let main = self.configuration.context(ContextId::MAIN);
        if let (Some(rss), Some(main)) = (&mut nic.rss, main)
            && main.indirection.len().is_power_of_two()
        {
            rss.indirection = main.indirection.len() as u32;
        }
        if let (Some(rss), Some(protocols)) = (&mut nic.rss, &self.hashed_with_ports) {
            rss.hashed_with_ports.clone_from(protocols);
        }
        nic
    }
}

/// A protocol counts only when its ports are hashed in both IP versions, since a plan has one answer per protocol.
fn hashed_with_ports(device: &mut impl Device) -> Option<Vec<u8>> {
    let mut protocols = Vec::new();
    let mut answered = false;
    for (protocol, kinds) in [
        (Protocol::TCP, [HashFlow::Tcp4, HashFlow::Tcp6]),
        (Protocol::UDP, [HashFlow::Udp4, HashFlow::Udp6]),
        (Protocol::SCTP, [HashFlow::Sctp4, HashFlow::Sctp6]),
    ] {
        let answers: Vec<HashFields> =
            kinds.into_iter().filter_map(|kind| device.hash_fields(kind).ok()).collect();
        answered |= !answers.is_empty();
        if !answers.is_empty() && answers.iter().all(|fields| fields.contains(HashFields::FOUR_TUPLE)) {
            protocols.push(protocol.0);
        }
    }
    answered.then_some(protocols)
}
