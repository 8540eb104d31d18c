//! The documents of an import and of a probe.

use super::{Imported, ProbeReport};
use crate::host_facts;
use crate::steering::planning::{context, filter};
use weft_facts::record::Document;
use weft_facts::steer::{ForeignRule, ProbedRule, SteerImport, SteerProbe};
use weft_steer::Nic;

impl Imported {
    /// The document.
    pub fn report(&self, nic: &Nic, device: &str) -> SteerImport {
        let configuration = &self.configuration;
        SteerImport {
            schema: SteerImport::SCHEMA.to_owned(),
            host: host_facts::detect(),
            device: device.to_owned(),
            nic: nic.name.clone(),
            filters: configuration.rules.iter().map(|rule| filter(nic, rule)).collect(),
            locations: configuration.rules.iter().map(|rule| self.locations.get(rule)).collect(),
            foreign: self
                .foreign
                .iter()
                .map(|(location, rule, reason)| ForeignRule {
                    location: *location,
                    rule: rule.clone(),
                    reason: reason.clone(),
                })
                .collect(),
            contexts: configuration.contexts.iter().map(context).collect(),
            notes: self.notes.clone(),
        }
    }
}

impl ProbeReport {
    /// The document.
    pub fn report(&self, nic: &Nic, device: &str) -> SteerProbe {
        let probed = |probe: &super::Probe| ProbedRule {
            table: nic.table(probe.table).map_or_else(String::new, |table| table.name.clone()),
            what: probe.what.clone(),
            expected: probe.expected,
            taken: probe.refusal.is_none(),
            refusal: probe.refusal.clone(),
        };
        SteerProbe {
            schema: SteerProbe::SCHEMA.to_owned(),
            host: host_facts::detect(),
            device: device.to_owned(),
            nic: nic.name.clone(),
            probes: self.probes.iter().map(probed).collect(),
            left: self.left.iter().map(|(location, _)| *location).collect(),
        }
    }
}
