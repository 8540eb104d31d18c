//! Settings of a trial besides its level: the link's rate and qdisc, the sender's TCP.
//!
//! They belong to the sender's namespace and its devices, so nothing has to be restored.

use weft_host::link;
use weft_host::tc::{self, Handle, Tbf, TcDevice, TcObject};
use weft_host::{NetNs, sysctl};
use weft_packet::ethernet;
use weft_units::{BitsPerSec, Bytes, Nanos};

use crate::error::ProfileError;

/// The bucket of a link, as time at its rate: a late timer of the kernel loses no link time. At 1 Gb/s it holds a whole segment; the
/// kernel would cut one that is larger than the bucket.
const BURST: Nanos = Nanos::from_millis(1);
/// The least bucket: a segment of 64 KB with the headers of its packets.
const BURST_MIN: Bytes = Bytes(80_000);
/// The length of the link's FIFO.
const QUEUE: Bytes = Bytes(8_000_000);

/// The qdisc in which packets wait for the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkQdisc {
    /// First in, first out.
    Fifo,
    /// Stochastic fair queueing.
    Sfq,
    /// Fair queueing with controlled delay.
    FqCodel,
}

impl LinkQdisc {
    /// The kind that takes the FIFO's place.
    const fn kind(self) -> Option<&'static str> {
        match self {
            Self::Fifo => None,
            Self::Sfq => Some("sfq"),
            Self::FqCodel => Some("fq_codel"),
        }
    }
}

/// A link of a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RatedLink {
    /// The rate on the wire.
    pub rate: BitsPerSec,
    /// The qdisc in front of it.
    pub qdisc: LinkQdisc,
}

/// Settings of a trial; the default changes nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Setup {
    /// The link; `None` for a device without a qdisc.
    pub link: Option<RatedLink>,
    /// TCP small queues: the most bytes of a flow below its socket (`net.ipv4.tcp_limit_output_bytes`).
    pub limit_output: Option<Bytes>,
    /// The largest segment (`gso_max_size`).
    pub segment: Option<Bytes>,
}

impl Setup {
    /// Applies the settings to a sender's device.
    pub(crate) fn apply(&self, ns: &NetNs, device: &str) -> Result<(), ProfileError> {
        if let Some(bytes) = self.limit_output {
            sysctl::set(ns, "net.ipv4.tcp_limit_output_bytes", &bytes.get().to_string())?;
        }
        if let Some(bytes) = self.segment {
            link::limit_gso_size(ns, device, u32::try_from(bytes.get()).unwrap_or(u32::MAX))?;
        }
        if let Some(link) = self.link {
            let tbf = Tbf {
                rate: link.rate,
                overhead: ethernet::AROUND.get() as u16,
                burst: link.rate.bytes_in(BURST).max(BURST_MIN),
                limit: QUEUE,
            };
            let mut objects = vec![TcObject::tbf(tbf)];
            objects.extend(link.qdisc.kind().map(|kind| {
                TcObject::leaf(Handle::FIRST.class(1), Handle::qdisc(2), tc::Qdisc::decode(kind, &[]))
            }));
            TcDevice::open(ns, device)?.install(objects)?;
        }
        Ok(())
    }

    /// Whether an error means that this kernel cannot have the settings or the level.
    pub fn lacks(error: &ProfileError) -> bool {
        match error {
            ProfileError::Tbf(error) => error.is_missing_kind(),
            ProfileError::Sysctl(_) => true,
            ProfileError::Level(level) => level.is_not_followed(),
            _ => false,
        }
    }
}
