//! Fuzzes the reader of files of weights.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_titan::weights::fuzz_weights(data));
