//! How far training has come, from the lines that trainers print about it.

use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::ascii::ascii;
use super::course::{self, Records};
use super::prefilter::{self, Hit, What};
use super::reached::Progress;

/// A line that shows progress: a regular expression with the named group `step` (finished steps) and
/// optionally `total`.
#[derive(Debug, Clone)]
pub struct ProgressPattern {
    /// Shared: thousands of scanners use the same few patterns.
    regex: Arc<Regex>,
    /// Anchors are about a line without its prefix: a block of raw lines cannot be asked.
    anchored: bool,
}

/// Why a progress pattern was refused.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// Not a regular expression.
    #[error("progress pattern `{pattern}` is not a regular expression: {message}")]
    Syntax {
        /// The pattern as given.
        pattern: String,
        /// What the engine says.
        message: String,
    },
    /// The group `step` is missing.
    #[error("progress pattern `{pattern}` has no group `step`; example: step:(?P<step>\\d+) - ")]
    NoStep {
        /// The pattern as given.
        pattern: String,
    },
}

impl ProgressPattern {
    /// Compiles a pattern. It is matched against a line without its prefix (rank, Ray actor, time). Its
    /// classes, `\d` and the like, know ASCII only.
    ///
    /// # Errors
    /// When it is no regular expression, too large, or has no group `step`.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let build = |pattern: &str| RegexBuilder::new(pattern).size_limit(1 << 20).build();
        // What is refused is told in the words in which it was given.
        let regex = build(&ascii(pattern))
            .or_else(|_| build(pattern))
            .map_err(|e| PatternError::Syntax {
                pattern: pattern.to_owned(),
                message: e.to_string(),
            })?;
        if !regex.capture_names().flatten().any(|name| name == "step") {
            return Err(PatternError::NoStep {
                pattern: pattern.to_owned(),
            });
        }
        Ok(Self {
            regex: Arc::new(regex),
            anchored: pattern.contains(['^', '$']) || pattern.contains(r"\A"),
        })
    }

    /// What common trainers print: verl's console logger (`step:12 - …`) and its bar, unlabelled tqdm
    /// bars (transformers, TRL), Lightning's `Epoch N:` bar, Megatron-LM's `iteration`.
    pub fn built_in() -> Vec<Self> {
        static BUILT_IN: LazyLock<Vec<ProgressPattern>> = LazyLock::new(|| {
            const BAR: &str = r"\s*\d+%\|[^|]*\|\s*(?P<step>\d+)/(?P<total>\d+) \[";
            // The order is that of `prefilter::bars`, which tells these lines apart without the patterns.
            let table: [String; prefilter::BUILT_IN] = [
                r"\bstep:(?P<step>\d+) - ".into(),
                format!(r"Training Progress:{BAR}"),
                r"\biteration\s+(?P<step>\d+)/\s*(?P<total>\d+) \|".into(),
                format!(r"^Epoch \d+:{BAR}"),
                format!("^{BAR}"),
            ];
            let compiled = table.iter().map(|pattern| ProgressPattern::new(pattern));
            compiled
                .collect::<Result<_, _>>()
                .expect("constants of this file, compiled by its tests")
        });
        BUILT_IN.clone()
    }

    /// Is it the same pattern?
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str()
    }

    /// False when no line of the block can match.
    pub(crate) fn may_match(&self, block: &[u8]) -> bool {
        self.anchored || self.regex.is_match(block)
    }

    /// The first byte at or behind `from` whose line may match.
    pub(crate) fn next_in(&self, block: &[u8], from: usize) -> Option<usize> {
        if self.anchored {
            return Some(from);
        }
        self.regex.find_at(block, from).map(|found| found.start())
    }

    fn read(&self, body: &str) -> Option<Progress> {
        let found = self.regex.captures(body.as_bytes())?;
        let number = |name: &str| -> Option<u64> {
            std::str::from_utf8(found.name(name)?.as_bytes())
                .ok()?
                .parse()
                .ok()
        };
        Some(Progress::new(number("step")?, number("total")))
    }
}

/// The progress patterns, and what is known about them.
#[derive(Debug)]
pub(super) struct ProgressPatterns {
    /// The more trusted ones first.
    pub list: Vec<ProgressPattern>,
    /// Where the built-in ones stand in the list.
    pub(super) built_in: [usize; prefilter::BUILT_IN],
    /// Those of others, which the prefilter does not know.
    pub(super) others: Vec<usize>,
}

impl ProgressPatterns {
    /// A project's patterns, and the built-in ones behind them where they are not among them. Shared by those
    /// who have none of their own: there are thousands of scanners.
    pub(super) fn of(given: &[ProgressPattern]) -> Arc<Self> {
        static BUILT_IN: LazyLock<Arc<ProgressPatterns>> =
            LazyLock::new(|| Arc::new(ProgressPatterns::new(&[])));
        if given.is_empty() {
            Arc::clone(&BUILT_IN)
        } else {
            Arc::new(Self::new(given))
        }
    }

    fn new(given: &[ProgressPattern]) -> Self {
        let known = ProgressPattern::built_in();
        let shared = |given: &ProgressPattern| known.iter().find(|p| p.same(given)).cloned();
        let mut list: Vec<ProgressPattern> = Vec::with_capacity(given.len() + known.len());
        list.extend(given.iter().map(|p| shared(p).unwrap_or_else(|| p.clone())));
        for pattern in &known {
            if !list.iter().any(|p| p.same(pattern)) {
                list.push(pattern.clone());
            }
        }
        let place = |number: usize| list.iter().position(|p| p.same(&known[number]));
        let built_in = std::array::from_fn(|number| place(number).unwrap_or(usize::MAX));
        let others = (0..list.len()).filter(|i| !built_in.contains(i)).collect();
        Self {
            list,
            built_in,
            others,
        }
    }
}

/// One line's progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LineProgress {
    /// Which pattern it was; earlier patterns are trusted more.
    pub pattern: usize,
    pub progress: Progress,
    /// A bar as tqdm draws it before anything was done (`0/105 [00:00<?`), also after a resume.
    pub initial: bool,
}

/// What only a bar that was not redrawn yet holds.
const INITIAL: &str = "[00:00<?";

impl LineProgress {
    /// What is known of a line without asking the pattern.
    pub(crate) fn known(pattern: usize, progress: Progress, line: &[u8]) -> Self {
        static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(INITIAL));
        Self {
            pattern,
            progress,
            initial: FINDER.find(line).is_some(),
        }
    }
}

/// Whether Slurm itself prints a line: the steps that it counts are its own (`slurmstepd: error: Detected 1 oom-kill event(s) in
/// step 4711.batch cgroup`, `srun: Terminating job step 4711.0`).
fn is_of_slurm(body: &str) -> bool {
    body.starts_with("srun: ") || body.starts_with("slurmstepd")
}

/// The most trusted pattern that the line matches.
pub(crate) fn shown(patterns: &[ProgressPattern], body: &str) -> Option<LineProgress> {
    if is_of_slurm(body) {
        return None;
    }
    patterns.iter().enumerate().find_map(|(pattern, p)| {
        let progress = p.read(body)?;
        Some(LineProgress {
            pattern,
            progress,
            initial: body.contains(INITIAL),
        })
    })
}

/// Steps that were finished in this attempt, however often its bars began anew.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Finished {
    steps: u64,
    /// What was shown last.
    step: u64,
    total: Option<u64>,
}

impl Finished {
    /// By the first line: a bar that was drawn before anything was done shows what was done before.
    fn first(shown: &LineProgress) -> Self {
        let Progress { step, total, .. } = shown.progress;
        Self {
            steps: if shown.initial { 0 } else { step },
            step,
            total,
        }
    }

    /// Takes the next line; `anew` for one of a pattern that is trusted more.
    fn take(&mut self, shown: &LineProgress, anew: bool) {
        let next = Self::first(shown);
        let total = next.total.or(self.total);
        if total < self.total {
            // A smaller bar beside the one of training, as of an evaluation.
            return;
        }
        let same = self.total.is_none() || total == self.total;
        let begins = shown.initial || next.step <= self.step / 2 || !same;
        match next.step.checked_sub(self.step) {
            Some(more) if same && !shown.initial => self.steps = self.steps.saturating_add(more),
            None if anew => *self = next,
            _ if begins => self.steps = self.steps.saturating_add(next.steps),
            // Several processes print, and one of them lags behind.
            _ => return,
        }
        (self.step, self.total) = (next.step, total);
    }
}

/// Progress of one source: the latest of its most trusted pattern.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ProgressTrack {
    latest: Option<LineProgress>,
    #[serde(default)]
    finished: Option<Finished>,
    /// A step was finished in this attempt, not only shown as already done.
    pub moved: bool,
    /// Figures of the steps, where any are printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    records: Option<Box<Records>>,
}

impl ProgressTrack {
    /// Takes a line's progress; true when it is the pattern that counts.
    pub(crate) fn take(&mut self, shown: LineProgress) -> bool {
        if let Some(latest) = &self.latest
            && latest.pattern < shown.pattern
        {
            return false;
        }
        self.moved |= !shown.initial && shown.progress.step > 0;
        let anew = self.latest_pattern() != Some(shown.pattern);
        match &mut self.finished {
            Some(finished) => finished.take(&shown, anew),
            None => self.finished = Some(Finished::first(&shown)),
        }
        let total = shown.progress.total;
        let before = self.latest.replace(shown);
        if let (None, Some(before), Some(now)) = (total, before, &mut self.latest) {
            now.progress.total = before.progress.total;
        }
        true
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        let shown = &self.latest.as_ref()?.progress;
        let own = self.finished.map(|finished| finished.steps);
        Some(Progress {
            own: own.filter(|steps| *steps != shown.step),
            ..shown.clone()
        })
    }

    /// Takes the figures among some places of a text, as those of the latest step.
    pub(crate) fn figures(&mut self, text: &[u8], hits: &[Hit]) {
        for hit in hits {
            if let What::Figure(number) = hit.what {
                self.note(text, hit.at, number);
            }
        }
    }

    /// The same for one.
    pub(crate) fn note(&mut self, text: &[u8], at: usize, number: u8) {
        let step = self.progress().map(|shown| shown.step.max(shown.done()));
        if let (Some(step), Some((meter, value))) = (step, course::read(text, at, number)) {
            let records = self.records.get_or_insert_default();
            records.take(step, meter, value);
        }
    }

    /// Figures of the steps.
    pub(crate) fn records(&self) -> Option<&Records> {
        self.records.as_deref()
    }

    /// The pattern that counts.
    pub(crate) fn latest_pattern(&self) -> Option<usize> {
        self.latest.as_ref().map(|shown| shown.pattern)
    }

    /// Does a bar go on from the latest, step by step?
    pub(crate) fn goes_on(&self, step: u64, total: Option<u64>) -> bool {
        self.latest.as_ref().is_some_and(|shown| {
            let latest = &shown.progress;
            step >= latest.step && (total.is_none() || total == latest.total)
        })
    }

    /// Is this the latest step?
    pub(crate) fn is_at(&self, step: u64) -> bool {
        self.latest
            .as_ref()
            .is_some_and(|shown| shown.progress.step == step)
    }

    /// How far the pattern is trusted; smaller is better.
    pub(crate) fn trust(&self) -> usize {
        self.latest.as_ref().map_or(usize::MAX, |s| s.pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(line: &str) -> Option<(u64, Option<u64>)> {
        shown(&ProgressPattern::built_in(), line).map(|s| (s.progress.step, s.progress.total))
    }

    #[test]
    fn what_trainers_print() {
        assert_eq!(
            step("step:12 - actor/pg_loss:0.012 - perf/mfu:0.3"),
            Some((12, None))
        );
        assert_eq!(
            step("Training Progress:  10%|█         | 10/105 [11:07<4:26:40, 111.1s/it]"),
            Some((10, Some(105)))
        );
        assert_eq!(
            step("  4%|▍         | 2/50 [21:02<8:25:01, 631.29s/it]"),
            Some((2, Some(50)))
        );
        assert_eq!(
            step(" iteration       10/  120000 | elapsed"),
            Some((10, Some(120_000)))
        );
        assert_eq!(
            step("Epoch 0:   6%|█   | 320/5001 [6:28<9:17, 1.3it/s]"),
            Some((320, Some(5001)))
        );
    }

    #[test]
    fn other_bars_are_no_training_progress() {
        for line in [
            "Loading checkpoint shards:  50%|█████     | 2/4 [07:11<07:02, 211.3s/it]",
            "Processed prompts:  30%|███       | 77/256 [01:17<02:59, 1.87s/it]",
            "Map: 100%|██████████| 7473/7473 [00:01<00:00, 5000 examples/s]",
            "global_step: 5",
        ] {
            assert_eq!(step(line), None, "{line}");
        }
    }

    #[test]
    fn the_steps_of_slurm_are_none_of_training() {
        let pattern = ProgressPattern::new(r"\bstep[ :=]+(?P<step>\d+)").unwrap();
        let step =
            |line: &str| shown(std::slice::from_ref(&pattern), line).map(|s| s.progress.step);
        for line in [
            "slurmstepd: error: Detected 1 oom-kill event(s) in step 4711.batch cgroup.",
            "slurmstepd-gpu07: error: Exceeded memory limit of step 4711.0",
            "srun: Terminating job step 4711.0",
        ] {
            assert_eq!(step(line), None, "{line}");
        }
        assert_eq!(step("step 12 | 1.5 s"), Some(12));
    }

    #[test]
    fn a_bar_that_starts_after_a_resume_has_not_moved() {
        let mut track = ProgressTrack::default();
        let patterns = ProgressPattern::built_in();
        let first = "Training Progress:  95%|█████████▌| 100/105 [00:00<?, ?it/s]";
        track.take(shown(&patterns, first).unwrap());
        assert!(!track.moved);
        track.take(shown(&patterns, "step:101 - x:1").unwrap());
        assert!(track.moved);
        assert_eq!(
            track.progress(),
            Some(Progress {
                step: 101,
                total: Some(105),
                own: Some(1),
            })
        );
        assert!(!track.take(shown(&patterns, first).unwrap()));
    }

    #[test]
    fn steps_of_this_attempt_are_counted_over_bars_that_begin_anew() {
        let patterns = ProgressPattern::built_in();
        let done = |lines: &[&str]| {
            let mut track = ProgressTrack::default();
            for line in lines {
                track.take(shown(&patterns, line).expect(line));
            }
            track.progress().map(|p| (p.step, p.done()))
        };
        let resumed = " 90%|█████████ | 90/100 [00:00<?, ?it/s]";
        let on = " 92%|█████████▏| 92/100 [00:21<01:25, 10.6s/it]";
        assert_eq!(done(&[on]), Some((92, 92)));
        assert_eq!(done(&[resumed]), Some((90, 0)));
        assert_eq!(done(&[resumed, on]), Some((92, 2)));
        let epochs = [
            "Epoch 0:  99%|█████████▉| 99/100 [01:00<00:01, 1.6it/s]",
            "Epoch 1:   0%|          | 0/100 [00:00<?, ?it/s]",
            "Epoch 1:   2%|▏         | 2/100 [00:02<01:00, 1.6it/s]",
        ];
        assert_eq!(done(&epochs), Some((2, 101)));
        let evaluated = [
            on,
            "100%|██████████| 20/20 [00:01<00:00, 16.0it/s]",
            " 93%|█████████▎| 93/100 [00:30<01:25, 10.6s/it]",
        ];
        assert_eq!(done(&evaluated), Some((93, 93)));
        assert_eq!(
            done(&["step:8 - x:1", "step:7 - x:1", "step:9 - x:1"]),
            Some((9, 9))
        );
    }

    #[test]
    fn bad_patterns_are_refused_with_a_reason() {
        assert!(
            ProgressPattern::new("(")
                .unwrap_err()
                .to_string()
                .contains("regular expression")
        );
        assert!(
            ProgressPattern::new(r"step (\d+)")
                .unwrap_err()
                .to_string()
                .contains("no group `step`")
        );
        assert!(ProgressPattern::new(r"it (?P<step>\d+) of (?P<total>\d+)").is_ok());
    }
}
