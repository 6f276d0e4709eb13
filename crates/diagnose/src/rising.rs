//! Numbers that rise behind a failure: the program trains on, so it survived.
//!
//! Trainers count in words of their own (`iter 60: loss`, `Step 60 |`, `Epoch 3, Batch 60`). Such a line does not tell
//! how far training has come, and a single one proves nothing: other processes finish what they had begun. It is
//! looked at only while a failure waits for its meaning.

use std::sync::LazyLock;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ascii::compiled;
use super::lines::LinePiece;
use super::prefix::{CleanLine, Printer};
use oomctl_base::word_list;

/// Bytes at the beginning of a line in which it may count.
const HEAD: usize = 512;

/// Numbers of a line that are compared.
const NUMBERS: usize = 4;

/// The number 1 in the parts in which numbers are held: epochs are printed as fractions.
const ONE: u32 = 10_000;

/// What a line counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Count {
    /// The words before the numbers, as `epoch batch`.
    words: String,
    /// The numbers, the slowest first as far as trainers print them so.
    numbers: Vec<u64>,
}

/// May a line of these bytes count?
static HINTS: LazyLock<regex::bytes::Regex> = LazyLock::new(|| {
    let hints = r"(?i-u)step|iter|batch|epoch|update|image|sample|episode|\d\|\d+\||\d/\d+ (?:\[|\xe2\x94\x81)";
    regex::bytes::Regex::new(hints).expect("a constant, compiled by the tests of this file")
});

/// The first byte at or behind `from` of a line that may count.
pub(super) fn next_in(block: &[u8], from: usize) -> Option<usize> {
    HINTS.find_at(block, from).map(|found| found.start())
}

/// Words of a step; the others count what a step has several of, or is a part of.
const STEPS: [&str; 5] = word_list("step iter iteration batch update");

/// A line that counts.
pub(super) struct CountedLine {
    pub count: Count,
    /// The step of training that it counts, where it shows a loss.
    pub step: Option<u64>,
    /// Who printed it.
    pub printer: Printer,
}

/// What a line counts.
pub(super) fn read(line: &[u8]) -> Option<CountedLine> {
    let head = &line[..line.len().min(HEAD)];
    if !HINTS.is_match(head) {
        return None;
    }
    let line = CleanLine::read(LinePiece {
        bytes: head,
        offset: 0,
        line: 0,
        own: head.len(),
        starts_line: true,
    });
    let (count, step) = Count::read(line.body())?;
    Some(CountedLine {
        count,
        step,
        printer: line.printer,
    })
}

impl Count {
    /// What a line counts, and the step of training among it.
    fn read(body: &str) -> Option<(Self, Option<u64>)> {
        /// A number as people write it: `1,200`, `0.35`, `1.2k`.
        const NUMBER: &str = r"(\d+(?:[,_]\d{3})*(?:\.\d+)?)([kKMB]\b)?";
        static COUNTED: LazyLock<Regex> = LazyLock::new(|| {
            compiled(&format!(
                r#"(?i:(?:^|[^a-z]|global|train|mini|micro)(step|iter|iteration|batch|epoch|update|image|sample|episode)s?)(?:["']|\(\w+\))?[ :=#\[(|]{{0,8}}{NUMBER}(?:\]? ?\[ *(\d+) ?/)?"#
            ))
        });
        /// A bar with its numbers in front: torchtune's `epoch|step|Loss: …`, and Keras' `step/steps [===>`.
        static BAR: LazyLock<Regex> =
            LazyLock::new(|| compiled(r"^ *(?:(\d+)\|(\d+)\||(\d+)/\d+ (?:\[|━))"));
        /// What follows the number of a batch in `[60/5005]`.
        static WHOLE: LazyLock<Regex> = LazyLock::new(|| compiled(r"^ ?/ *\d+ *\]"));
        let mut count = Self {
            words: String::new(),
            numbers: Vec::new(),
        };
        let mut step = None;
        for found in COUNTED.captures_iter(body).take(NUMBERS) {
            let word = found[1].to_ascii_lowercase();
            let unit = found.get(3).map_or("", |unit| unit.as_str());
            let counted = number(&found[2], unit)?;
            let inner = found
                .get(4)
                .map(|inner| (number(inner.as_str(), ""), inner));
            let of_step = match inner {
                // `Epoch: [0][60/5005]`, and no samples as in `[640/60000 (1%)]`.
                Some((inner, place)) if WHOLE.is_match(&body[place.end()..]) => inner,
                _ => STEPS.contains(&word.as_str()).then_some(counted),
            };
            if let Some(parts) =
                of_step.filter(|_| shows_loss(body, found.get(1).map_or(0, |word| word.start())))
            {
                step = Some(parts / u64::from(ONE));
            }
            count.words.push_str(&word);
            count.words.push(' ');
            count.numbers.push(counted);
            count.numbers.extend(inner.and_then(|(inner, _)| inner));
        }
        if count.numbers.is_empty() {
            let bar = BAR.captures(body)?;
            let numbers = bar.iter().skip(1).flatten();
            count.numbers = numbers
                .filter_map(|text| number(text.as_str(), ""))
                .collect();
        }
        Some((count, step))
    }

    /// Is it the next of the same, and by how much, at most 2? `None` where nothing rose.
    pub(super) fn rose(&self, before: &Self) -> Option<u64> {
        let pairs = self.numbers.iter().zip(&before.numbers);
        let (now, before) = pairs.into_iter().find(|(now, before)| now != before)?;
        let by = now.checked_sub(*before)?;
        Some(if by >= 2 * u64::from(ONE) { 2 } else { 1 })
    }

    /// Is it the first that is counted, where the next is this one? It lies no farther from nothing than from the next.
    pub(super) fn is_first(&self, next: &Self) -> bool {
        let mut pairs = self.numbers.iter().zip(&next.numbers);
        let rises = pairs.find(|(now, next)| now != next || **now > ONE.into());
        rises.is_some_and(|(now, next)| *now <= next.saturating_sub(*now))
    }

    /// Does it count the same?
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.words == other.words && self.numbers.len() == other.numbers.len()
    }
}

/// Whether a line with a count at `at` shows a loss, and no evaluation before it.
fn shows_loss(body: &str, at: usize) -> bool {
    const EVALUATES: [&str; 3] = ["val", "test", "eval"];
    let before = body[..at].to_ascii_lowercase();
    let mut words = before.split(|c: char| !c.is_ascii_alphabetic());
    let evaluates = words.any(|word| EVALUATES.iter().any(|of| word.starts_with(of)));
    !evaluates && body.to_ascii_lowercase().contains("loss")
}

/// A number in parts; `None` for one that is too large.
fn number(digits: &str, unit: &str) -> Option<u64> {
    let plain: String = digits.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    let times = match unit {
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "b" | "B" => 1e9,
        _ => 1.0,
    };
    let parts = plain.parse::<f64>().ok()? * times * f64::from(ONE);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "no sign was read, and it is below 2^53"
    )]
    (parts < 9e15).then_some(parts.round() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Class, Incident, Scanner};
    use oomctl_base::job::{ExitStatus, JobId, JobState, JobStatus};

    const OOM: &str = "CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 23.69 GiB total capacity; 21.40 GiB already allocated; 204.00 MiB free; 22.60 GiB reserved in total by PyTorch)\n";
    const BUG: &str = "Traceback (most recent call last):\n  File \"/w/train.py\", line 61, in get_batch\n    return record[\"txt\"]\nKeyError: 'txt'\n";

    /// A line as nanoGPT, Keras and people's own loops print it, and torchtune's bar.
    fn printed(form: usize, prefix: &str, number: u64, unit: &str) -> String {
        let text = match form {
            0 => format!("iter {number}: loss 2.1174, time 33.12{unit}, mfu 12.31%"),
            1 => format!("Step {number} | loss 2.1174 | 1.2 {unit}"),
            2 => format!("step: {number}, loss: 2.1174, {unit}: 31.2"),
            3 => format!("step {number}/90000 12.5 {unit}"),
            4 => format!("Epoch 3, Batch {number}, 3.1 {unit}"),
            5 => format!("global_step={number} 3.1 {unit}"),
            _ => format!(
                "1|{number}|Loss: 2.11:   6%|▌         | {number}/90000 [01:23<22:10,  1.41{unit}]"
            ),
        };
        format!("{prefix}{text}\n")
    }

    fn judged(log: &str) -> Incident {
        let mut scanner = Scanner::new(&[]);
        let source = scanner.source("job.log");
        scanner.feed(source, 0, log.as_bytes());
        scanner.finish_source(source);
        scanner.verdict(None)
    }

    proptest! {
        #[test]
        fn a_failure_behind_which_any_count_rises_was_survived(
            form in 0_usize..7,
            prefix in prop::sample::select(vec!["", "[rank0]: ", "(TaskRunner pid=900) ", "2026-03-02 10:13:05,120 INFO "]),
            unit in prop::sample::select(vec!["s/it", "ms", "tok/s", "it/s", "k samples"]),
            (first, stride) in (0_u64..80_000, 1_u64..500),
        ) {
            let lines = |from: u64, to: u64| -> String {
                (from..to).map(|i| printed(form, prefix, first + i * stride, unit)).collect()
            };
            let log = lines(0, 3) + OOM + &lines(3, 9);
            prop_assert!(!judged(&log).fatal);
            let incident = judged(&(log + BUG));
            prop_assert_eq!((incident.kind.as_str(), incident.class), ("code_bug", Class::NotOom));
            prop_assert_eq!(incident.headline(), "KeyError: 'txt' at train.py:61");
        }

        #[test]
        fn what_stays_or_falls_behind_a_failure_proves_nothing(
            form in 0_usize..7,
            first in 10_u64..80_000,
            down in 0_u64..2,
        ) {
            let lines = (0..6).map(|i| printed(form, "", first - i * down, "s/it"));
            let log = printed(form, "", first - 1, "s/it") + OOM + &lines.collect::<String>();
            prop_assert_eq!(judged(&(log + BUG)).kind, "cuda_oom");
        }
    }

    /// `python train.py` and `python eval.py` on the next line: what is counted from its beginning behind a traceback is the
    /// next program's, where the script starts one whatever became of the first.
    #[test]
    fn what_the_next_program_counts_does_not_make_the_one_before_alive() {
        let died = "Traceback (most recent call last):\n  File \"/w/train.py\", line 61, in <module>\n    loss.backward()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.56 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.20 GiB is free.\n";
        let job = JobStatus {
            exit: Some(ExitStatus::default()),
            ..JobStatus::bare(JobId("4711".into()), JobState::Completed)
        };
        for (form, first, stride) in [(1, 1, 1), (1, 0, 1), (0, 100, 100), (5, 1, 1)] {
            let counted: String = (0..60)
                .map(|i| printed(form, "", first + i * stride, "ms"))
                .collect();
            let judged = |several: bool| {
                let mut scanner = Scanner::new(&[]).of_several_programs(several);
                let source = scanner.source("job.log");
                scanner.feed(source, 0, format!("{died}{counted}").as_bytes());
                scanner.finish_source(source);
                (scanner.verdict(Some(&job)), scanner.verdict(None))
            };
            let (ended, open) = judged(true);
            assert_eq!(
                (ended.kind.as_str(), ended.fatal),
                ("cuda_oom", true),
                "{form}"
            );
            assert!(open.fatal, "{form}");
            let (ended, open) = judged(false);
            assert_eq!(
                (ended.kind.as_str(), ended.fatal),
                ("no_failure", false),
                "{form}"
            );
            assert_eq!(
                (open.kind.as_str(), open.fatal),
                ("cuda_oom", false),
                "{form}"
            );
        }
    }

    #[test]
    fn what_other_ranks_finish_does_not_make_a_dead_one_alive() {
        let others = |step: u64| printed(2, "[rank1]: ", step, "ms");
        let died = format!("[rank0]: {OOM}");
        let log: String = (0..9).map(others).collect();
        assert_eq!(judged(&(died + &log)).kind, "cuda_oom");
    }

    fn count(line: &str) -> Option<Count> {
        read(line.as_bytes()).map(|line| line.count)
    }

    #[test]
    fn trainers_count_in_words_of_their_own() {
        for (before, after) in [
            (
                "iter 60: loss 2.1, time 33.1ms, mfu 1%",
                "iter 61: loss 2.0, time 34.0ms, mfu 1%",
            ),
            ("Step 60 | loss 2.1", "Step 70 | loss 2.0"),
            ("step: 60, loss: 2.1", "step: 61, loss: 2.2"),
            ("[rank1]: step 60/1000", "[rank1]: step 61/1000"),
            ("Epoch 3, Batch 60", "Epoch 3, Batch 61"),
            ("Epoch 3, Batch 99", "Epoch 4, Batch 0"),
            ("global_step=60", "global_step=61"),
            (
                "1|60|Loss: 1.18:   6%|▌         | 60/1000 [01:23<22:10, 1.41s/it]",
                "1|61|Loss: 1.17:   6%|▌         | 61/1000 [01:24<22:10, 1.41s/it]",
            ),
            (
                "Epoch: [0][  60/5005]\tTime  0.31",
                "Epoch: [0][  70/5005]\tTime  0.31",
            ),
            (
                "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.1",
                "Train Epoch: 1 [1280/60000 (2%)]\tLoss: 2.0",
            ),
            (
                "{'loss': 2.1, 'epoch': 0.05}",
                "{'loss': 2.0, 'epoch': 0.06}",
            ),
            ("step 1,990 | 1.2 s/it", "step 2,000 | 1.2 s/it"),
            ("steps: 1.9k", "steps: 2k"),
        ] {
            let (before, after) = (count(before).expect(before), count(after).expect(after));
            assert!(after.is_like(&before), "{before:?} {after:?}");
            assert!(after.rose(&before).is_some(), "{before:?} {after:?}");
            assert_eq!(before.rose(&after), None);
        }
    }

    #[test]
    fn a_step_of_training_is_told_from_epochs_samples_and_evaluations() {
        let step = |line: &str| read(line.as_bytes()).and_then(|line| line.step);
        for (line, expected) in [
            (
                "2026-03-02 10:13:05 - INFO - iteration 640 : loss:9.81 info:0.00",
                Some(640),
            ),
            (
                "[Epoch 3/90][Batch 1207/4400] BatchTime = 0.9 (s) Losses = ['1.1']",
                Some(1_207),
            ),
            ("Epoch: [2][  60/5005]\tTime  0.31\tLoss 2.1", Some(60)),
            ("iter 1,250: loss 2.1174, time 33.12ms", Some(1_250)),
            ("step 500: train loss 2.1, val loss 2.3", Some(500)),
            ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.1", None),
            ("Epoch 12 loss 0.4", None),
            ("Val Epoch: [2][  60/196]\tLoss 2.1", None),
            ("Test: step 60 loss 2.1", None),
            ("Encoding batch 60 of 200", None),
        ] {
            assert_eq!(step(line), expected, "{line}");
        }
    }

    #[test]
    fn settings_and_sentences_count_nothing() {
        for line in [
            "train_batch_size=1024 mini_batch_size: 64",
            "Processed prompts:  30%|███       | 77/256 [01:17<02:59, 1.87s/it]",
            "the next step is to reduce the batch size",
            "12.3 steps/s",
            "iterations per second: 12",
        ] {
            assert_eq!(count(line), None, "{line}");
        }
    }
}
