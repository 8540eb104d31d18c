//! Any bytes as a policy.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_policy::fuzz_policy(data));
