//! The facts of ports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{BitsPerSec, Bytes};

/// A limit of a port's packets in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortLimit {
    /// The rate on the wire, in bits per second.
    #[serde(rename = "rate_bps")]
    pub rate: BitsPerSec,
    /// The bytes that pass at once after a pause.
    #[serde(rename = "burst_bytes")]
    pub burst: Bytes,
}

/// A limit of what a port sends, which is not part of a policy's text.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LimitedPort {
    /// The port.
    pub port: String,
    /// The limit.
    pub limit: PortLimit,
}
