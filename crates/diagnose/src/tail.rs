//! The end of a log: all there is to show where nothing tells why it ended.

use serde::{Deserialize, Serialize};

use super::clean::sanitize;
use super::rising::{self, Count};

/// Bytes of the end that are kept.
const BYTES: usize = 4_096;

/// Lines of it that are shown at most.
const LINES: usize = 10;

/// Characters of one of them.
const CHARS: usize = 300;

/// Ways of counting that are told apart.
const COUNTS: usize = 8;

/// Lines that count on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CountedOn {
    /// The last step of training that they tell.
    pub step: Option<u64>,
}

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

    /// How its lines count on, in words of the program's own: `Epoch 1 | Step 400`, `Epoch 1 | Step 500`.
    pub(super) fn counts_on(&self) -> Option<CountedOn> {
        let mut counted = None;
        let mut seen: Vec<Count> = Vec::with_capacity(COUNTS);
        for line in self.0.split(|b| matches!(b, b'\n' | b'\r')) {
            let Some(rising::CountedLine { count, step, .. }) = rising::read(line) else {
                continue;
            };
            seen.truncate(COUNTS);
            match seen.iter_mut().find(|before| before.is_like(&count)) {
                Some(before) => {
                    if count.rose(before).is_some() {
                        let known: CountedOn = counted.unwrap_or_default();
                        let step = step.or(known.step);
                        counted = Some(CountedOn { step });
                    }
                    *before = count;
                }
                None => seen.push(count),
            }
        }
        counted
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

    #[test]
    fn a_program_that_counts_in_its_own_words_has_made_steps() {
        let counts = |log: &str| {
            let mut tail = Tail::default();
            tail.take(log.as_bytes());
            tail.counts_on().map(|counted| counted.step)
        };
        for (log, step) in [
            (
                "Epoch 1 | Step 400 | loss = 1.1\nEpoch 1 | Step 500 | loss = 1.0\nTraceback\n",
                Some(500),
            ),
            (
                "[Epoch 1/9][Batch 4783/4783] a\n[Epoch 2/9][Batch 1200/4783] a\n",
                None,
            ),
            ("image 1/2000 done\nimage 2/2000 done\n", None),
        ] {
            assert_eq!(counts(log), Some(step), "{log}");
        }
        for log in [
            "=> loaded checkpoint (epoch 12)\nTraceback\n",
            "Epoch 1 of 9\nloss 0.4\nEpoch 1 of 9\n",
            "Downloading 1/3\nDownloading 2/3\n",
        ] {
            assert_eq!(counts(log), None, "{log}");
        }
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
