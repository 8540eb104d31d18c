//! Any bytes as a question to the playground: a policy, a zero byte, arrivals.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_playground::fuzz_playground(data));
