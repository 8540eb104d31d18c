//! Receive steering at a driver: import of its settings, application of plans with undo, and probes of the rules that
//! it accepts.

mod apply;
mod bring;
mod document;
mod import;
mod probe;
pub mod record;
mod testbed;

pub use apply::{Applied, ApplyError, ChangeRefused, apply_plan};
pub use bring::{BringError, PreparedDevice, WantedSteering, prepare, undo};
pub use import::{Imported, import};
pub use probe::{Probe, ProbeReport, probe, refine};

use weft_host::ethtool::{
    self, EthtoolError, HashFields, HashFlow, Nic, Rss, RssChange, RuleTable, RxRule, Transport,
};

/// The operations on a device, by `ethtool`'s interface or by a test's mock.
pub trait Device {
    /// The interface's name.
    fn name(&self) -> &str;
    /// The number of receive queues.
    ///
    /// # Errors
    /// When the driver does not report it.
    fn queues(&mut self) -> Result<u32, EthtoolError>;
    /// All rules.
    ///
    /// # Errors
    /// When the driver has no rules, or one cannot be read.
    fn rules(&mut self) -> Result<RuleTable, EthtoolError>;
    /// Inserts a rule. Returns its location.
    ///
    /// # Errors
    /// The driver's refusal.
    fn insert(&mut self, rule: &RxRule) -> Result<u32, EthtoolError>;
    /// Deletes the rule at a location.
    ///
    /// # Errors
    /// When no rule is there.
    fn delete(&mut self, location: u32) -> Result<(), EthtoolError>;
    /// The table and the key of a context.
    ///
    /// # Errors
    /// When the context does not exist.
    fn rss(&mut self, context: ethtool::ContextId) -> Result<Rss, EthtoolError>;
    /// All contexts, the main one first.
    ///
    /// # Errors
    /// When the driver has none, or the kernel cannot list them.
    fn contexts(&mut self) -> Result<Vec<(ethtool::ContextId, Rss)>, EthtoolError>;
    /// Changes a context.
    ///
    /// # Errors
    /// The driver's refusal.
    fn set_rss(&mut self, context: ethtool::ContextId, change: &RssChange) -> Result<(), EthtoolError>;
    /// Creates a context. Returns its number.
    ///
    /// # Errors
    /// The driver's refusal.
    fn create_context(&mut self, change: &RssChange) -> Result<ethtool::ContextId, EthtoolError>;
    /// Deletes a context.
    ///
    /// # Errors
    /// The driver's refusal.
    fn delete_context(&mut self, context: ethtool::ContextId) -> Result<(), EthtoolError>;
    /// The fields of a kind of packet that the hash covers.
    ///
    /// # Errors
    /// When the driver does not report them.
    fn hash_fields(&mut self, flow: HashFlow) -> Result<HashFields, EthtoolError>;
}

impl<T: Transport> Device for Nic<T> {
    fn name(&self) -> &str {
        self.device()
    }
    fn queues(&mut self) -> Result<u32, EthtoolError> {
        self.rx_queues()
    }
    fn rules(&mut self) -> Result<RuleTable, EthtoolError> {
        Self::rules(self)
    }
    fn insert(&mut self, rule: &RxRule) -> Result<u32, EthtoolError> {
        self.insert_rule(rule)
    }
    fn delete(&mut self, location: u32) -> Result<(), EthtoolError> {
        self.delete_rule(location)
    }
    fn rss(&mut self, context: ethtool::ContextId) -> Result<Rss, EthtoolError> {
        Self::rss(self, context)
    }
    fn contexts(&mut self) -> Result<Vec<(ethtool::ContextId, Rss)>, EthtoolError> {
        Self::contexts(self)
    }
    fn set_rss(&mut self, context: ethtool::ContextId, change: &RssChange) -> Result<(), EthtoolError> {
        Self::set_rss(self, context, change)
    }
    fn create_context(&mut self, change: &RssChange) -> Result<ethtool::ContextId, EthtoolError> {
        Self::create_context(self, change)
    }
    fn delete_context(&mut self, context: ethtool::ContextId) -> Result<(), EthtoolError> {
        Self::delete_context(self, context)
    }
    fn hash_fields(&mut self, flow: HashFlow) -> Result<HashFields, EthtoolError> {
        Self::hash_fields(self, flow, ethtool::ContextId::MAIN)
    }
}

#[cfg(test)]
mod tests;
