//! Any bytes as a scenario file and as a cost file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_sim::scenario::fuzz_scenario(data));
