//! Fuzzes the reader of flow files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_steer::flows_csv::fuzz_flows(data));
