//! Fuzzes the reader of models of NICs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_steer::nic::fuzz(data));
