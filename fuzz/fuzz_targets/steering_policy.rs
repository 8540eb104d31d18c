//! Fuzzes the reader of steering policies.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_policy::fuzz_goals(data));
