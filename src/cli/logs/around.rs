//! The lines around a line of evidence.

use std::path::Path;

use crate::io::window::part;
use oomctl_diagnose::{Evidence, sanitize};

/// Lines shown on either side.
const LINES: usize = 2;
/// Bytes looked at on either side.
const REACH: u64 = 8 * 1024;

/// Lines around a line of evidence, with their numbers, itself included. Nothing where the file cannot
/// be read again, as a pipe cannot: opening one would wait for another writer.
pub fn around(evidence: &Evidence) -> Vec<(u64, String)> {
    let from = evidence.offset.saturating_sub(REACH);
    let at = usize::try_from(evidence.offset - from).unwrap_or(0);
    match part(Path::new(&evidence.file), |_| from..from + 2 * REACH) {
        Ok(part) if at < part.bytes.len() => pick(&part.bytes, at, evidence.line),
        _ => Vec::new(),
    }
}

/// The lines around the one that holds byte `at` and has the number `line`.
fn pick(bytes: &[u8], at: usize, line: u64) -> Vec<(u64, String)> {
    let before: Vec<&[u8]> = bytes[..at].split(|b| *b == b'\n').collect();
    // The last piece is the beginning of the line itself, where it starts behind a carriage return.
    let before = &before[..before.len().saturating_sub(1)];
    let first = before.len().saturating_sub(LINES);
    let mut lines = Vec::new();
    for (i, text) in before.iter().enumerate().skip(first) {
        let number = line.saturating_sub((before.len() - i) as u64);
        lines.push((number, shown(text)));
    }
    for (i, text) in bytes[at..]
        .split(|b| *b == b'\n')
        .take(LINES + 1)
        .enumerate()
    {
        lines.push((line + i as u64, shown(text)));
    }
    lines.retain(|(number, text)| *number > 0 && !text.trim().is_empty());
    lines
}

/// What a terminal would leave of a line: the text behind its last carriage return.
fn shown(text: &[u8]) -> String {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let last = text.rsplit(|b| *b == b'\r').next().unwrap_or(text);
    sanitize(last).chars().take(1_000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lines_on_either_side_with_their_numbers() {
        let text = b"one\ntwo\nbar 1\rbar 2\nOOM\nfive\n\nseven\n";
        let lines = pick(text, 20, 4);
        let expected = [(2, "two"), (3, "bar 2"), (4, "OOM"), (5, "five")];
        assert_eq!(lines, expected.map(|(n, t)| (n, t.to_owned())));
        assert_eq!(pick(b"OOM", 0, 1), [(1, "OOM".to_owned())]);
    }
}
