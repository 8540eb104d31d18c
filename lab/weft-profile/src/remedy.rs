//! Changes that remarks propose, as they are made in the namespaces of a trial.

use weft_host::NetNs;
use weft_host::ethtool::{Nic, Offload, Switch};
use weft_host::link;

use crate::level::{Level, LevelError};

/// The length of a transmit queue that the remark proposes.
pub const QUEUE: u32 = 10_000;

/// A change that a trial can make to its namespaces and applications.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// GRO at the receiver's devices.
    Gro,
    /// A transmit queue of [`QUEUE`] packets at the sender's devices.
    LongQueue,
    /// Sending without a copy: iperf3 by sendfile(2), the only way that it has.
    NoCopy,
}

/// The ends of a path of the testbed: namespace and device of sender and receiver.
pub(crate) type Ends<'a> = [(&'a NetNs, &'a str); 2];

impl Remedy {
    /// The command that has the same effect.
    pub const fn command(self) -> &'static str {
        match self {
            Self::Gro => "ethtool -K DEVICE gro on",
            Self::LongQueue => "ip link set DEVICE txqueuelen 10000",
            Self::NoCopy => "iperf3 --zerocopy",
        }
    }

    /// The reason that a level leaves nothing to change; `None` if there is something.
    pub fn is_there_at(self, level: Level) -> Option<&'static str> {
        let on = self == Self::Gro && level.offload(Offload::Gro) == Switch::On;
        on.then_some("GRO is on at this level")
    }

    /// Makes the change at a path, and reads it back.
    pub(crate) fn apply(self, [(near, sender), (far, receiver)]: Ends<'_>) -> Result<(), LevelError> {
        let not_followed = |device: &str, setting, found: String, wanted: String| LevelError::NotFollowed {
            level: self.command(),
            device: device.to_owned(),
            setting,
            found,
            wanted,
        };
        match self {
            Self::Gro => {
                let found = Nic::open(far, receiver)?.set_offload(Offload::Gro, Switch::On)?;
                if found != Switch::On {
                    return Err(not_followed(receiver, "gro", "off".to_owned(), "on".to_owned()));
                }
            }
            Self::LongQueue => {
                link::set_txqueuelen(near, sender, QUEUE)?;
                let found = link::show(near, sender)?.txqueuelen;
                if found != QUEUE {
                    return Err(not_followed(sender, "txqueuelen", found.to_string(), QUEUE.to_string()));
                }
            }
            // The application does it.
            Self::NoCopy => {}
        }
        Ok(())
    }
}
