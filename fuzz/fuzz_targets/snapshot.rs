#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| oomctl_fuzz::checks::snapshot::check(input));
