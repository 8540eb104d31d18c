//! `runtimeConfig.bandwidth`: the limits that Kubernetes' annotations and `podman` set.
//!
//! Rates are in bits per second and bursts in bits (CNI conventions, "bandwidth"). Runtimes without bursts write the
//! largest 32-bit number, 268 MB; a limit of 10 Mb/s with it does nothing for the first seconds. Such a burst counts as
//! absent, and an absent one is a span of the rate.

use crate::error::{CniError, ErrorCode};
use serde_json::{Map, Value};
use weft_text::quoted;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The time at the limit's rate that a burst lasts, where none is given.
const BURST_TIME: Nanos = Nanos::from_millis(10);
/// The number of largest frames that every burst holds. With one, a frame could wait for a bucket that is never full.
const BURST_FRAMES: u64 = 2;
/// The burst, in bits, that runtimes write for "none".
const NO_BURST: u64 = i32::MAX as u64;
/// The lowest rate: below it a frame of 1500 bytes takes more than a second.
const RATE_MIN: u64 = 12_000;

/// A limit of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The rate.
    pub rate: BitsPerSec,
    /// The bytes that pass at once after a pause, if the runtime chose a number.
    pub burst: Option<Bytes>,
}

impl Limit {
    /// The depth of the limit's bucket where the largest frame has `frame` bytes.
    pub fn depth(self, frame: Bytes) -> Bytes {
        let chosen = self.burst.unwrap_or_else(|| self.rate.bytes_in(BURST_TIME));
        chosen.max(Bytes(frame.0.saturating_mul(BURST_FRAMES)))
    }
}

/// The limits of a container's interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bandwidth {
    /// The limit of what the container receives.
    pub ingress: Option<Limit>,
    /// The limit of what the container sends.
    pub egress: Option<Limit>,
}

fn number(object: &Map<String, Value>, key: &str) -> Result<u64, CniError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value.as_u64().ok_or_else(|| {
            let text = quoted(&value.to_string());
            CniError::new(ErrorCode::InvalidConfig, format!("runtimeConfig.bandwidth.{key} is {text}"))
                .details("it must be a number of bits, 0 or more")
        }),
    }
}

fn direction(
    object: &Map<String, Value>,
    rate_key: &str,
    burst_key: &str,
) -> Result<Option<Limit>, CniError> {
    let (rate, burst) = (number(object, rate_key)?, number(object, burst_key)?);
    let invalid = |text: String, rule: &str| Err(CniError::new(ErrorCode::InvalidConfig, text).details(rule));
    match rate {
        0 if burst > 0 => invalid(
            format!("runtimeConfig.bandwidth has {burst_key} without {rate_key}"),
            "a burst belongs to a rate",
        ),
        0 => Ok(None),
        1..RATE_MIN => invalid(
            format!("runtimeConfig.bandwidth.{rate_key} is {rate} bits per second"),
            "it must be at least 12000; Kubernetes' annotation 10M is 10 megabits per second",
        ),
        _ => {
            let burst = (burst > 0 && burst < NO_BURST).then(|| Bytes(burst.div_ceil(8)));
            Ok(Some(Limit { rate: BitsPerSec(rate), burst }))
        }
    }
}

impl Bandwidth {
    /// Reads the object `runtimeConfig.bandwidth`.
    ///
    /// # Errors
    /// When a number is missing, too small or none.
    pub(crate) fn read(value: &Value) -> Result<Self, CniError> {
        let Some(object) = value.as_object() else {
            return Err(CniError::new(ErrorCode::InvalidConfig, "runtimeConfig.bandwidth is not an object"));
        };
        Ok(Self {
            ingress: direction(object, "ingressRate", "ingressBurst")?,
            egress: direction(object, "egressRate", "egressBurst")?,
        })
    }

    /// Whether neither direction is limited.
    pub fn is_unlimited(&self) -> bool {
        self.ingress.is_none() && self.egress.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_burst_is_a_time_at_the_rate() {
        let value = json!({ "ingressRate": 10_000_000u64, "ingressBurst": 2_147_483_647u64, "egressRate": 1_000_000u64,
            "egressBurst": 400_001 });
        let Bandwidth { ingress: Some(ingress), egress: Some(egress) } =
            Bandwidth::read(&value).expect("valid")
        else {
            panic!("two limits")
        };
        assert_eq!(ingress.depth(Bytes(1538)), Bytes(12_500), "10 ms of 10 Mb/s, not 268 MB");
        assert_eq!(egress.depth(Bytes(1538)), Bytes(50_001), "what the runtime chose");
        let slow = Limit { rate: BitsPerSec(100_000), burst: None };
        assert_eq!(slow.depth(Bytes(1538)), Bytes(3_076), "two frames");
    }

    #[test]
    fn zero_is_no_limit() {
        for value in [json!({}), json!({ "ingressRate": 0, "egressRate": null, "egressBurst": 0 })] {
            assert!(Bandwidth::read(&value).expect("valid").is_unlimited());
        }
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        for value in [
            json!({ "egressRate": -1 }),
            json!({ "egressRate": "10M" }),
            json!({ "egressRate": 1.5 }),
            json!({ "egressRate": 10 }),
            json!({ "ingressBurst": 10 }),
            json!([]),
        ] {
            let error = Bandwidth::read(&value).expect_err("refused");
            assert_eq!(error.code, 7, "{value}");
        }
    }
}
