//! Actions of filters: act_skbedit and act_mirred.

use core::ops::RangeInclusive;

use crate::netlink::Attributes;
use crate::tc::error::{Result, TcError};
use crate::tc::wire::NESTED;

/// `TCA_ACT_KIND`, `TCA_ACT_OPTIONS`: `linux/pkt_cls.h`.
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
/// The position of an action in the list is its attribute's type, starting at 1.
const FIRST: u16 = 1;
/// The verdicts that continue with the next filter, and that end the packet's way here: `linux/pkt_cls.h`.
const TC_ACT_UNSPEC: i32 = -1;
const TC_ACT_STOLEN: i32 = 4;

/// `linux/tc_act/tc_skbedit.h`.
const TCA_SKBEDIT_PARMS: u16 = 2;
const TCA_SKBEDIT_QUEUE_MAPPING: u16 = 4;
const TCA_SKBEDIT_FLAGS: u16 = 9;
const TCA_SKBEDIT_QUEUE_MAPPING_MAX: u16 = 10;
const SKBEDIT_F_TXQ_SKBHASH: u64 = 0x40;

/// `linux/tc_act/tc_mirred.h`.
const TCA_MIRRED_PARMS: u16 = 2;
const TCA_EGRESS_REDIR: i32 = 1;
const TCA_INGRESS_REDIR: i32 = 3;

/// The action for packets that a filter matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FilterAction {
    /// Chooses one of these transmit queues: the first plus the packet's hash modulo their number. This overrides XPS and the queue that
    /// the socket remembers (`tcf_skbedit_hash` in net/sched/act_skbedit.c, `netdev_xmit_skip_txqueue` in net/core/dev.c). Later filters
    /// still run.
    QueueByHash(RangeInclusive<u16>),
    /// Sends the packet out of the device of this number.
    RedirectEgress(u32),
    /// Lets the device of this number receive the packet: an IFB, in front of a qdisc for received packets.
    RedirectIngress(u32),
}

impl FilterAction {
    /// The name of the action, as `tc` writes it.
    pub(in crate::tc) fn kind(&self) -> &'static str {
        match self {
            Self::QueueByHash(_) => "skbedit",
            Self::RedirectEgress(_) | Self::RedirectIngress(_) => "mirred",
        }
    }

    /// Returns the list of this one action.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let options = match self {
            Self::QueueByHash(queues) => skbedit(queues)?,
            Self::RedirectEgress(index) => mirred(TCA_EGRESS_REDIR, *index),
            Self::RedirectIngress(index) => mirred(TCA_INGRESS_REDIR, *index),
        };
        let action = Attributes::default()
            .with(TCA_ACT_KIND, &[self.kind().as_bytes(), b"\0"].concat())
            .with(NESTED | TCA_ACT_OPTIONS, &options)
            .bytes();
        Ok(Attributes::default().with(FIRST, &action).bytes())
    }
}

/// `tc_gen`: index, capab, action, refcnt, bindcnt. Index zero: the kernel chooses one.
fn common(verdict: i32) -> [i32; 5] {
    [0, 0, verdict, 0, 0]
}

/// `tcf_skbedit_init` derives the flag for the queue from its attribute; only the flag for the hash is sent.
fn skbedit(queues: &RangeInclusive<u16>) -> Result<Vec<u8>> {
    if queues.is_empty() {
        return Err(TcError::invalid("filter", "the range of queues is empty"));
    }
    // Kernels before commit be054cc66f73 store the number of queues in 16 bits, and divide by zero for this range.
    if *queues == (0..=u16::MAX) {
        return Err(TcError::invalid("filter", "the range of queues has more than 65535 queues"));
    }
    let parameters = common(TC_ACT_UNSPEC).map(i32::to_ne_bytes).concat();
    let options = Attributes::default()
        .with(TCA_SKBEDIT_PARMS, &parameters)
        .with(TCA_SKBEDIT_QUEUE_MAPPING, &queues.start().to_ne_bytes())
        .with(TCA_SKBEDIT_QUEUE_MAPPING_MAX, &queues.end().to_ne_bytes())
        .with(TCA_SKBEDIT_FLAGS, &SKBEDIT_F_TXQ_SKBHASH.to_ne_bytes());
    Ok(options.bytes())
}

/// `struct tc_mirred`: the common fields, the direction, the device.
fn mirred(direction: i32, index: u32) -> Vec<u8> {
    let mut parameters = common(TC_ACT_STOLEN).map(i32::to_ne_bytes).concat();
    parameters.extend(direction.to_ne_bytes());
    parameters.extend(index.to_ne_bytes());
    Attributes::default().with(TCA_MIRRED_PARMS, &parameters).bytes()
}
