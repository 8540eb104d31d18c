//! Metadata records as the worker takes them.

use crate::doorbell::{Record, RecordKind};
use crate::packet::{Fragment, parse_headers};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use weft_host::bpf::Records;
use weft_units::{ClassId, FlowKey};

/// Where metadata records and wake-ups come from.
pub(crate) trait RecordSource {
    /// Hands on the records that are there, without waiting.
    fn consume(&self);
    /// Becomes readable at a wake-up, until the records are consumed.
    fn wake_fd(&self) -> BorrowedFd<'_>;
}

impl RecordSource for Records<'_> {
    fn consume(&self) {
        Records::consume(self);
    }
    fn wake_fd(&self) -> BorrowedFd<'_> {
        Records::wake_fd(self)
    }
}

/// Which class a flow belongs to, where a ring does not tell.
#[derive(Debug, Default)]
pub(crate) struct FlowClasses {
    classes: HashMap<FlowKey, ClassId>,
    known: u64,
}

impl FlowClasses {
    /// Takes a metadata record.
    pub(crate) fn learn(&mut self, record: Record, keep: bool) {
        if record.kind == RecordKind::New {
            self.known += 1;
        }
        if let (true, Some(key)) = (keep, record.key) {
            self.classes.insert(key, ClassId(u32::from(record.class)));
        }
    }

    /// The class of the flow of `frame`, if its record has come.
    pub(crate) fn class_of(&self, frame: &[u8]) -> Option<ClassId> {
        self.classes.get(&recorded_key(frame)?).copied()
    }

    /// Flows that were announced.
    pub(crate) fn known(&self) -> u64 {
        self.known
    }
}

/// The key by which the ringing side knows the flow of a frame: no fragment has ports, not even the first.
pub(crate) fn recorded_key(frame: &[u8]) -> Option<FlowKey> {
    let headers = parse_headers(frame).ok()?;
    let key = headers.flow_key?;
    let whole = headers.fragment == Fragment::Whole;
    Some(if whole { key } else { FlowKey { sport: 0, dport: 0, ..key } })
}
