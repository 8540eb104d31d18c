//! What is set in a device, as a configuration of a model.

use super::Device;
use crate::steer::ntuple::from_rx_rule;
use weft_host::ethtool::{self, EthtoolError, Location};
use weft_steer::emit::Locations;
use weft_steer::nic::Nic;
use weft_steer::{Configuration, ContextId, RssContext, RssKey};

/// What a device has.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// As the model sees it.
    pub configuration: Configuration,
    /// Where its rules stand.
    pub locations: Locations,
    /// Rules that the model does not know: their locations, what they are, and why not. They are left alone.
    pub foreign: Vec<(u32, String, String)>,
    /// What could not be read, in sentences.
    pub notes: Vec<String>,
}

/// Reads a device.
///
/// # Errors
/// The kernel refuses what is no question of the driver's abilities: rights, a device that is gone.
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
    match device.rules() {
        Ok(table) => {
            for rule in &table.rules {
                let Location::At(location) = rule.location else { continue };
                match from_rx_rule(nic, rule) {
                    Ok(mut known) => {
                        known.priority =
                            Locations::priority(nic, known.table, location).unwrap_or(known.priority);
                        imported.locations.set(&known, location);
                        imported.configuration.rules.push(known);
                    }
                    Err(why) => imported.foreign.push((location, rule.to_string(), why)),
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
            if id == ethtool::ContextId::MAIN && !rss.key.is_empty() {
                self.configuration.key = RssKey(rss.key);
            }
            self.configuration.contexts.push(RssContext { id: ContextId(id.0), indirection: rss.table });
        }
        self.configuration.contexts.sort_by_key(|context| context.id);
    }
}
