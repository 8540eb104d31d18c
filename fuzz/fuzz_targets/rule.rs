//! Any bytes as a receive rule.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_host::ethtool::fuzz_rule(data));
