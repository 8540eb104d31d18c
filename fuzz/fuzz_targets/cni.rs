//! Fuzzes the CNI plugin's reader of configurations and variables.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_cni::fuzz_cni(data));
