//! Python text: every place that is told is in it.

use oomctl_scripts::DeviceScript;

use super::allocations::within;

/// Bytes that reading may take, beside a multiple of the input: its tokens.
const MOST_MEMORY: usize = 2 << 20;
/// Bytes for each byte of the script.
const MOST_TIMES: usize = 512;

pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    within(MOST_MEMORY + MOST_TIMES * text.len(), || read(&text));
}

fn read(text: &str) {
    let script = DeviceScript::read(text);
    for call in &script.data_parallel {
        let line = text.split('\n').nth(call.line - 1).unwrap();
        let rest: String = line.chars().skip(call.column - 1).collect();
        let first = call
            .name
            .split(|c: char| c == '.' || c.is_whitespace())
            .next();
        assert!(rest.starts_with(first.unwrap()), "{call:?} in {line:?}");
    }
}
