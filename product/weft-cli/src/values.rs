//! Parsers of flag values. Their errors are usage errors.

use core::net::IpAddr;
use core::num::NonZeroU32;
use thiserror::Error;
use weft_control::interface::PortLimit;
use weft_nic::worker::SegmentsPerTurn;
use weft_units::{BitsPerSec, Nanos, ParseUnitError};

/// The reason that a flag's value is invalid.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ValueError {
    /// The value is not a quantity.
    #[error(transparent)]
    Unit(#[from] ParseUnitError),
    /// The rate is zero.
    #[error("a rate of zero sends nothing; give one above zero, such as 500mbps")]
    ZeroRate,
    /// The time is zero.
    #[error("a time must be longer than zero; a bare number is seconds")]
    ZeroSpan,
    /// The value is neither `whole` nor a number of segments.
    #[error("`{0}` is neither `whole` nor a number of segments from 1 up")]
    SegmentsPerTurn(String),
    /// The value is not a positive factor.
    #[error("`{0}` is not a factor above zero, such as 0.5 or 2")]
    Factor(String),
    /// The value is not a rate of samples.
    #[error("`{0}` is not a number of samples per second from 1 to {max}", max = weft_host::perf_event::SampleRate::MAX)]
    SampleRate(String),
    /// The value is not a generation.
    #[error("`{0}` is not a generation: a whole number, which `weft status` shows")]
    Generation(String),
    /// The value is not an address with a prefix length.
    #[error("`{0}` is not an address with a prefix length, such as 192.0.2.1/24")]
    Address(String),
}

/// Parses a rate above zero.
pub fn rate(text: &str) -> Result<BitsPerSec, ValueError> {
    match text.parse::<BitsPerSec>() {
        Ok(BitsPerSec::ZERO) => Err(ValueError::ZeroRate),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.into()),
    }
}

/// Parses the limit of a port: a rate, and a burst behind a comma. Without it the limit has the burst of a policy's limit.
pub fn port_limit(text: &str) -> Result<PortLimit, ValueError> {
    match weft_service::config::parse_limit(text)? {
        limit if limit.rate == BitsPerSec::ZERO => Err(ValueError::ZeroRate),
        limit => Ok(limit),
    }
}

/// Parses a time above zero.
pub fn span(text: &str) -> Result<Nanos, ValueError> {
    match text.parse::<Nanos>() {
        Ok(Nanos::ZERO) => Err(ValueError::ZeroSpan),
        Ok(span) => Ok(span),
        Err(error) => Err(error.into()),
    }
}

/// Parses the segments of a super-packet per turn.
pub fn segments_per_turn(text: &str) -> Result<SegmentsPerTurn, ValueError> {
    if text == "whole" {
        return Ok(SegmentsPerTurn::Whole);
    }
    let error = || ValueError::SegmentsPerTurn(text.to_owned());
    text.parse::<NonZeroU32>().map(SegmentsPerTurn::AtMost).map_err(|_| error())
}

/// Parses a factor above zero.
pub fn factor(text: &str) -> Result<f64, ValueError> {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() && x > 0.0 => Ok(x),
        _ => Err(ValueError::Factor(text.to_owned())),
    }
}

/// Parses a policy's generation.
pub fn generation(text: &str) -> Result<u64, ValueError> {
    text.parse().map_err(|_| ValueError::Generation(text.to_owned()))
}

/// Parses an address with a prefix length.
pub fn address(text: &str) -> Result<(IpAddr, u8), ValueError> {
    let error = || ValueError::Address(text.to_owned());
    let (address, length) = text.split_once('/').ok_or_else(error)?;
    let address: IpAddr = address.parse().map_err(|_| error())?;
    let length: u8 = length.parse().map_err(|_| error())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    if length > most { Err(error()) } else { Ok((address, length)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_refused_with_a_reason() {
        assert!(rate("0mbps").unwrap_err().to_string().contains("zero"));
        assert!(span("0").unwrap_err().to_string().contains("zero"));
        assert!(segments_per_turn("0").is_err() && factor("0").is_err() && factor("inf").is_err());
        assert_eq!(rate("500mbps"), Ok(BitsPerSec(500_000_000)));
        assert_eq!(span("50ms"), Ok(Nanos::from_millis(50)));
    }

    #[test]
    fn rates_and_sizes_have_the_corrections_of_policies() {
        for (text, meant) in
            [("900M", "900mbps"), ("0.9G", "0.9gbps"), ("100MB/s", "800mbps"), ("900e6", "900mbps")]
        {
            let error = rate(text).unwrap_err().to_string();
            assert!(error.ends_with(&format!("; write `{meant}`")), "{error}");
        }
        let error = generation("x").unwrap_err().to_string();
        assert!(error.contains("`weft status`"), "{error}");
        let error = port_limit("100mbps,30k").unwrap_err().to_string();
        assert!(error.ends_with("; write `30kb`"), "{error}");
    }

    #[test]
    fn an_address_has_a_prefix_that_fits_it() {
        assert_eq!(address("192.0.2.1/24"), Ok(("192.0.2.1".parse().expect("address"), 24)));
        for text in ["192.0.2.1", "192.0.2.1/33", "x/8", "::1/129", "192.0.2.1/"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
