//! The end of a log: all there is to show where nothing tells why it ended.

use serde::{Deserialize, Serialize};

use super::clean::sanitize;

/// Bytes of the end that are kept.
const BYTES: usize = 4_096;

/// Lines of it that are shown at most.
const LINES: usize = 10;

/// Characters of one of them.
const CHARS: usize = 300;

/// The last bytes of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Tail(#[serde(with = "super::serial::bytes")] Vec<u8>);

impl Tail {
    /// Takes the next bytes of the file.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let new = &bytes[bytes.len().saturating_sub(BYTES)..];
        let spare = (self.0.len() + new.len()).saturating_sub(BYTES);
        self.0.drain(..spare);
        self.0.extend_from_slice(new);
    }

    /// The last lines that are not blank, without control characters. Of a bar that was drawn again and again
    /// the last is one.
    pub(super) fn lines(&self) -> Vec<String> {
        const BAR: &str = "%|";
        let is_end = |b: &u8| matches!(b, b'\n' | b'\r');
        let cut = self
            .0
            .iter()
            .position(is_end)
            .filter(|_| self.0.len() == BYTES);
        let whole = &self.0[cut.map_or(0, |at| at + 1)..];
        let mut lines: Vec<String> = Vec::new();
        for line in whole.split(is_end) {
            let line: String = sanitize(line).trim_end().chars().take(CHARS).collect();
            if line.contains(BAR) && lines.last().is_some_and(|last| last.contains(BAR)) {
                lines.pop();
            }
            if !line.trim().is_empty() {
                lines.push(line);
            }
        }
        lines.split_off(lines.len().saturating_sub(LINES))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tail(parts: &[&[u8]]) -> Vec<String> {
        let mut tail = Tail::default();
        parts.iter().for_each(|part| tail.take(part));
        tail.lines()
    }

    #[test]
    fn a_bar_is_one_line_and_blank_lines_are_none() {
        let log = b"begins\n\n  1%|  | 1/9 [00:01]\r  2%|  | 2/9 [00:02]\r\n\x1b[31mbroken\x1b[0m\x07\nhalf";
        let last = ["begins", "  2%|  | 2/9 [00:02]", "broken", "half"];
        assert_eq!(tail(&[log]), last);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_bounded_and_the_same_for_any_cut(
            lines in prop::collection::vec("[ a-z\\x00-\\x1f%|]{0,600}", 0..40),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let log = lines.join("\n").into_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|i| i.index(log.len() + 1)).collect();
            at.extend([0, log.len()]);
            at.sort_unstable();
            let parts: Vec<&[u8]> = at.windows(2).map(|w| &log[w[0]..w[1]]).collect();
            let shown = tail(&parts);
            prop_assert_eq!(&shown, &tail(&[&log]));
            prop_assert!(shown.len() <= LINES);
            for line in shown {
                prop_assert!(line.chars().count() <= CHARS && !line.chars().any(char::is_control));
            }
        }
    }
}
