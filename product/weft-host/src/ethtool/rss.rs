//! Receive hashing: the indirection table of queues, the key, the hash function, and RSS contexts with separate tables.
//!
//! Netlink is used if the kernel has the command, because it explains its refusals; otherwise the older ioctl.

use rustix::io::Errno;
use weft_units::{RxQueueId, Weight};

use super::error::{EthtoolError, Result};
use super::genl::{Ask, Refused, TYPE_MASK};
use super::layout::{self, put, put_u32, rxfh};
use super::nic::{Nic, is, unsupported};
use super::rule::ContextId;
use super::transport::Transport;
use crate::netlink::{Attributes, attributes, u32_at};

/// The commands of `include/uapi/linux/ethtool_netlink_generated.h`: RSS_GET since Linux 6.3, its dump since 6.12, the others
/// since 6.17.
pub(crate) const RSS_GET: u8 = 38;
pub(crate) const RSS_SET: u8 = 48;
pub(crate) const RSS_CREATE: u8 = 49;
pub(crate) const RSS_DELETE: u8 = 50;

/// `ETHTOOL_A_RSS_*`.
const A_CONTEXT: u16 = 2;
const A_FUNCTION: u16 = 3;
const A_TABLE: u16 = 4;
const A_KEY: u16 = 5;
const A_SYMMETRY: u16 = 6;

/// A hash function, by its bit (`ETH_RSS_HASH_TOP` and so on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashFunction {
    /// Toeplitz.
    Toeplitz,
    /// Exclusive or.
    Xor,
    /// CRC-32.
    Crc32,
    /// Another one, as the kernel's bit set.
    Other(u32),
}

impl HashFunction {
    fn bits(self) -> u32 {
        match self {
            HashFunction::Toeplitz => 1,
            HashFunction::Xor => 2,
            HashFunction::Crc32 => 4,
            HashFunction::Other(bits) => bits,
        }
    }

    fn from_bits(bits: u32) -> Option<HashFunction> {
        match bits {
            0 => None,
            1 => Some(HashFunction::Toeplitz),
            2 => Some(HashFunction::Xor),
            4 => Some(HashFunction::Crc32),
            other => Some(HashFunction::Other(other)),
        }
    }
}

/// A table and its hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rss {
    /// The queue of each entry; a packet takes the entry of its hash modulo their number.
    pub table: Vec<RxQueueId>,
    /// The hash's key; empty if the driver does not report it, or contexts share the device's key.
    pub key: Vec<u8>,
    /// The hash function, if the driver names it.
    pub function: Option<HashFunction>,
    /// `RXH_XFRM_*`: the combination of source and destination before the hash; 0 for none, and before Linux 6.8.
    pub symmetry: u8,
}

/// The changes to a table and its hash; `None` keeps a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RssChange {
    /// The queue of each entry; its length must be that of the current table.
    pub table: Option<Vec<RxQueueId>>,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The function.
    pub function: Option<HashFunction>,
}

impl RssChange {
    /// Changes the table only.
    pub fn table(table: Vec<RxQueueId>) -> RssChange {
        RssChange { table: Some(table), ..RssChange::default() }
    }
}

/// A table that cycles through the first `queues` queues, like that of `ethtool -X DEVICE equal QUEUES`.
pub fn equal_table(entries: usize, queues: u32) -> Vec<RxQueueId> {
    (0..entries).map(|entry| RxQueueId((entry % queues.max(1) as usize) as u32)).collect()
}

/// A table in which each queue has entries in proportion to its weight, like that of `ethtool -X DEVICE weight W...`. Queues
/// follow each other; each takes its share of the sum, rounded down. Empty if there are no queues.
pub fn weighted_table(entries: usize, weights: &[(RxQueueId, Weight)]) -> Vec<RxQueueId> {
    let sum: u64 = weights.iter().map(|(_, weight)| u64::from(weight.get())).sum();
    let mut table = Vec::with_capacity(entries);
    let mut reached = 0;
    for (queue, weight) in weights {
        reached += u64::from(weight.get());
        let end = entries as u128 * u128::from(reached) / u128::from(sum);
        table.resize(end as usize, *queue);
    }
    table
}

impl<T: Transport> Nic<T> {
    /// Table, key and function of a context.
    ///
    /// # Errors
    /// [`EthtoolError::NoHashTable`] if the driver has none, [`EthtoolError::NoContexts`] and
    /// [`EthtoolError::NoSuchContext`] for a context, or the kernel's refusal.
    pub fn rss(&mut self, context: ContextId) -> Result<Rss> {
        let action = read_action(context);
        let rss = if self.transport.has(RSS_GET, Ask::Request) {
            let asked = context_attribute(context).bytes();
            let answers = self
                .transport
                .netlink(&self.device, RSS_GET, &asked, Ask::Request)
                .map_err(|e| self.rss_refused(&action, context, e))?;
            answers.first().map(|answer| parse(answer).1).ok_or_else(|| self.incomplete(&action))?
        } else {
            let buffer = self.get_by_ioctl(context, &action)?;
            parse_ioctl(&buffer)
        };
        // A driver without a table still answers if it has a key (rss_prepare_get).
        if rss.table.is_empty() { Err(self.no_hash_table()) } else { Ok(rss) }
    }

    /// All tables: the device's own first, then its contexts.
    ///
    /// # Errors
    /// [`EthtoolError::ContextsUnlisted`] on kernels that cannot list contexts; otherwise as [`Nic::rss`].
    pub fn contexts(&mut self) -> Result<Vec<(ContextId, Rss)>> {
        if !self.transport.has(RSS_GET, Ask::Dump) {
            // A NIC without a table has no contexts either; that error is more useful.
            self.rss(ContextId::MAIN)?;
            return Err(EthtoolError::ContextsUnlisted { device: self.device.clone() });
        }
        let answers = self
            .transport
            .netlink(&self.device, RSS_GET, &[], Ask::Dump)
            .map_err(|e| self.rss_refused("list the RSS contexts", ContextId::MAIN, e))?;
        let contexts: Vec<_> = answers.iter().map(|answer| parse(answer)).collect();
        if contexts.is_empty() { Err(self.no_hash_table()) } else { Ok(contexts) }
    }

    /// Changes a table and its hash.
    ///
    /// # Errors
    /// As [`Nic::rss`]; [`EthtoolError::TableSize`] and [`EthtoolError::NoSuchQueue`] without a request to the kernel.
    pub fn set_rss(&mut self, context: ContextId, change: &RssChange) -> Result<()> {
        let action = format!("set the receive hash{}", of_context(context));
        let now = self.rss(context)?;
        self.check(change, &now)?;
        if *change == RssChange::default() {
            return Ok(());
        }
        let result = if self.transport.has(RSS_SET, Ask::Request) {
            let body = change_attributes(context_attribute(context), change).bytes();
            self.transport.netlink(&self.device, RSS_SET, &body, Ask::Request).map(drop)
        } else {
            let mut buffer = change_buffer(context.0, change, &now);
            self.transport.ioctl(&self.device, &mut buffer).map_err(Refused::from)
        };
        result.map_err(|e| self.set_refused(&action, context, e))
    }

    /// Makes a context. Without a table, it gets one that cycles through all queues.
    ///
    /// # Errors
    /// [`EthtoolError::NoContexts`] if the driver has none; as [`Nic::set_rss`].
    pub fn create_context(&mut self, change: &RssChange) -> Result<ContextId> {
        let action = "create an RSS context";
        let now = self.rss(ContextId::MAIN)?;
        let mut change = change.clone();
        if change.table.is_none() {
            change.table = Some(equal_table(now.table.len(), self.rx_queues()?));
        }
        self.check(&change, &now)?;
        if self.transport.has(RSS_CREATE, Ask::Request) {
            let body = change_attributes(Attributes::default(), &change).bytes();
            let answers = self
                .transport
                .netlink(&self.device, RSS_CREATE, &body, Ask::Request)
                .map_err(|e| self.create_refused(action, e))?;
            return answers
                .iter()
                .map(|answer| parse(answer).0)
                .find(|context| *context != ContextId::MAIN)
                .ok_or_else(|| self.incomplete(action));
        }
        let mut buffer = change_buffer(rxfh::CONTEXT_ALLOC, &change, &now);
        self.transport.ioctl(&self.device, &mut buffer).map_err(|e| self.create_refused(action, e.into()))?;
        Ok(ContextId(u32_at(&buffer, rxfh::CONTEXT)))
    }

    /// Deletes a context.
    ///
    /// # Errors
    /// [`EthtoolError::NoSuchContext`], [`EthtoolError::ContextInUse`] while rules name it, [`EthtoolError::NoContexts`].
    pub fn delete_context(&mut self, context: ContextId) -> Result<()> {
        let action = format!("delete RSS context {context}");
        if context == ContextId::MAIN {
            return Err(EthtoolError::NoSuchContext { device: self.device.clone(), context: 0 });
        }
        let result = if self.transport.has(RSS_DELETE, Ask::Request) {
            let body = context_attribute(context).bytes();
            self.transport.netlink(&self.device, RSS_DELETE, &body, Ask::Request).map(drop)
        } else {
            // A table without entries deletes a context (ethtool_set_rxfh).
            let mut buffer = ioctl_buffer(layout::SRSSH, context.0, 0, 0);
            self.transport.ioctl(&self.device, &mut buffer).map_err(Refused::from)
        };
        result.map_err(|e| self.rss_refused(&action, context, e))
    }

    /// Refuses changes that the kernel would refuse with a less clear error: wrong table length, missing queues.
    fn check(&mut self, change: &RssChange, now: &Rss) -> Result<()> {
        let Some(table) = &change.table else { return Ok(()) };
        let device = self.device.clone();
        if table.len() != now.table.len() {
            return Err(EthtoolError::TableSize { device, table: now.table.len(), given: table.len() });
        }
        let queues = self.rx_queues()?;
        match table.iter().max() {
            Some(queue) if queue.0 >= queues => {
                Err(EthtoolError::NoSuchQueue { device, queue: queue.0, queues })
            }
            _ => Ok(()),
        }
    }

    /// Reads the sizes first, then the contents. The answer has the sizes of the second call's buffer.
    fn get_by_ioctl(&mut self, context: ContextId, action: &str) -> Result<Vec<u8>> {
        let mut sizes = ioctl_buffer(layout::GRSSH, context.0, 0, 0);
        self.transport
            .ioctl(&self.device, &mut sizes)
            .map_err(|e| self.rss_refused(action, context, e.into()))?;
        let (entries, key) = (u32_at(&sizes, rxfh::INDIR_SIZE), u32_at(&sizes, rxfh::KEY_SIZE));
        // No NIC has a table of a million entries; such a size is a driver's error.
        if entries > 1 << 20 || key > 1 << 16 {
            return Err(self.incomplete(action));
        }
        let mut buffer = ioctl_buffer(layout::GRSSH, context.0, entries, key);
        self.transport
            .ioctl(&self.device, &mut buffer)
            .map_err(|e| self.rss_refused(action, context, e.into()))?;
        Ok(buffer)
    }

    fn no_hash_table(&self) -> EthtoolError {
        EthtoolError::NoHashTable { device: self.device.clone(), driver: self.driver_name() }
    }

    /// The error of a refused read or deletion.
    fn rss_refused(&self, action: &str, context: ContextId, refused: Refused) -> EthtoolError {
        let device = self.device.clone();
        match Errno::from_io_error(&refused.error) {
            Some(Errno::OPNOTSUPP) if context == ContextId::MAIN => self.no_hash_table(),
            Some(Errno::OPNOTSUPP) => EthtoolError::NoContexts { device, driver: self.driver_name() },
            Some(Errno::NOENT) => EthtoolError::NoSuchContext { device, context: context.0 },
            Some(Errno::BUSY) => EthtoolError::ContextInUse { device, context: context.0 },
            _ => self.refused(action, refused).into(),
        }
    }

    /// The error of a refused change. The table could be read, so an unsupported operation is part of the change.
    fn set_refused(&self, action: &str, context: ContextId, refused: Refused) -> EthtoolError {
        if unsupported(&refused.error) || is(&refused.error, Errno::INVAL) {
            let remedy = format!(
                "the driver {} does not take all that was asked for: change only the table, or ask for less",
                self.driver_name()
            );
            return self.refused(action, refused).remedy(remedy).into();
        }
        self.rss_refused(action, context, refused)
    }

    fn create_refused(&self, action: &str, refused: Refused) -> EthtoolError {
        let (device, driver) = (self.device.clone(), self.driver_name());
        match Errno::from_io_error(&refused.error) {
            Some(Errno::OPNOTSUPP) => EthtoolError::NoContexts { device, driver },
            Some(Errno::NOSPC | Errno::BUSY) => self
                .refused(action, refused)
                .remedy(format!("the driver {driver} has no more of them; delete one"))
                .into(),
            _ => self.refused(action, refused).into(),
        }
    }
}

fn of_context(context: ContextId) -> String {
    if context == ContextId::MAIN { String::new() } else { format!(" of context {context}") }
}

fn read_action(context: ContextId) -> String {
    format!("read the receive hash table{}", of_context(context))
}

/// The attribute that names a context; absent for the device's own table.
fn context_attribute(context: ContextId) -> Attributes {
    let attributes = Attributes::default();
    if context == ContextId::MAIN { attributes } else { attributes.with(A_CONTEXT, &context.0.to_ne_bytes()) }
}

fn change_attributes(mut attributes: Attributes, change: &RssChange) -> Attributes {
    if let Some(function) = change.function {
        attributes = attributes.with(A_FUNCTION, &function.bits().to_ne_bytes());
    }
    if let Some(table) = &change.table {
        attributes = attributes.with(A_TABLE, &table_bytes(table));
    }
    if let Some(key) = &change.key {
        attributes = attributes.with(A_KEY, key);
    }
    attributes
}

fn table_bytes(table: &[RxQueueId]) -> Vec<u8> {
    table.iter().flat_map(|queue| queue.0.to_ne_bytes()).collect()
}

fn read_table(bytes: &[u8]) -> Vec<RxQueueId> {
    bytes.chunks_exact(4).map(|entry| RxQueueId(u32_at(entry, 0))).collect()
}

/// Reads an answer to RSS_GET or RSS_CREATE_ACT.
fn parse(answer: &[u8]) -> (ContextId, Rss) {
    let (mut context, mut rss) = (ContextId::MAIN, Rss::default());
    for (kind, value) in attributes(answer) {
        match kind & TYPE_MASK {
            A_CONTEXT => context = ContextId(u32_at(value, 0)),
            A_FUNCTION => rss.function = HashFunction::from_bits(u32_at(value, 0)),
            A_TABLE => rss.table = read_table(value),
            A_KEY => rss.key = value.to_vec(),
            A_SYMMETRY => rss.symmetry = u32_at(value, 0) as u8,
            _ => {}
        }
    }
    (context, rss)
}

/// `struct ethtool_rxfh` for a table of `entries` and a key of `key` bytes.
fn ioctl_buffer(command: u32, context: u32, entries: u32, key: u32) -> Vec<u8> {
    let contained = if entries == rxfh::INDIR_NO_CHANGE { 0 } else { entries as usize };
    let mut buffer = vec![0; rxfh::CONFIG + 4 * contained + key as usize];
    put_u32(&mut buffer, 0, command);
    put_u32(&mut buffer, rxfh::CONTEXT, context);
    put_u32(&mut buffer, rxfh::INDIR_SIZE, entries);
    put_u32(&mut buffer, rxfh::KEY_SIZE, key);
    buffer
}

/// The `struct ethtool_rxfh` of a change. The symmetry is written as it was read, because no value for "unchanged" exists on all
/// kernels.
fn change_buffer(context: u32, change: &RssChange, now: &Rss) -> Vec<u8> {
    let entries = change.table.as_ref().map_or(rxfh::INDIR_NO_CHANGE, |table| table.len() as u32);
    let (table, key) =
        (change.table.as_deref().unwrap_or_default(), change.key.as_deref().unwrap_or_default());
    let mut buffer = ioctl_buffer(layout::SRSSH, context, entries, key.len() as u32);
    let function = change.function.map_or(0, |function| function.bits() as u8);
    put(&mut buffer, rxfh::HFUNC, &[function, now.symmetry]);
    put(&mut buffer, rxfh::CONFIG, &table_bytes(table));
    put(&mut buffer, rxfh::CONFIG + 4 * table.len(), key);
    buffer
}

/// Reads an answer to GRSSH.
fn parse_ioctl(buffer: &[u8]) -> Rss {
    let entries = u32_at(buffer, rxfh::INDIR_SIZE) as usize;
    let config = buffer.get(rxfh::CONFIG..).unwrap_or_default();
    let (table, rest) = config.split_at(config.len().min(4 * entries));
    let key = rest.get(..u32_at(buffer, rxfh::KEY_SIZE) as usize).unwrap_or(rest);
    let one = |at: usize| buffer.get(at).copied().unwrap_or(0);
    Rss {
        table: read_table(table),
        key: key.to_vec(),
        function: HashFunction::from_bits(u32::from(one(rxfh::HFUNC))),
        symmetry: one(rxfh::INPUT_XFRM),
    }
}
