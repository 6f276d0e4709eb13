//! All that is known of the attempts of a script: their diffs, what was read, and what could not be.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::ScriptView;
use crate::core::ladder::{FORBIDDEN, Skipped};
use crate::view::passed_over::not_used;
use crate::view::rung_view::{EVEN, MemoryForecast};
use crate::view::script_parts::Computed;
use crate::view::style::diff_line;
use oomctl_base::Effect;
use oomctl_scripts::{CODE_OF, SPREAD_MAP};

/// Rungs of presets that halve a batch and change training, and the one that keeps the batch of an optimizer step.
const HALVE: [&str; 2] = ["halve-batch", "halve-micro-batch"];
const HALVE_AND_KEEP: &str = "halve-batch-keep-effective";
/// Those that make a forward smaller where an option has the batch of all GPUs.
const OF_ALL_GPUS: [&str; 2] = ["accumulate-more", "halve-batch-of-all-gpus"];

/// Whether a rung makes the batch smaller.
fn is_batch(rung: &str) -> bool {
    rung == HALVE_AND_KEEP || HALVE.contains(&rung) || OF_ALL_GPUS.contains(&rung)
}

impl ScriptView {
    /// All that is known: the diffs, the rungs that are not used, and the values that were read.
    pub fn details(&self, columns: usize) -> String {
        let mut out = self.diffs(columns);
        out += &not_used(&self.not_used);
        let _ = write!(out, "\nRead:\n{}", self.values.text());
        let known = self.preset.is_some();
        if let Some(why) = self.not_comparable.as_ref().filter(|_| known) {
            let _ = writeln!(out, "\nlater runs learn nothing from this one: {why}");
        }
        out
    }

    /// The attempts in a table with all of their changes, and the diff of each to the one before.
    pub fn diffs(&self, columns: usize) -> String {
        let mut out = self.head(true);
        let _ = writeln!(out, "runs in {}", self.workdir);
        let nodes = self.nodes.iter();
        out.extend(nodes.map(|nodes| format!("goes to {nodes}\n")));
        self.gaps(&mut out);
        out += &self.doubts();
        let _ = write!(out, "{}\n\n{}", self.memory(), self.table(columns, true));
        let mut said = BTreeSet::new();
        for attempt in &self.attempts {
            let mut rungs: Vec<&str> = attempt.rungs.iter().map(|r| &*r.step.rung).collect();
            rungs.dedup();
            let what = match (attempt.attempt, &rungs[..]) {
                (1, []) => self.first(),
                _ => rungs.join(", "),
            };
            let _ = writeln!(out, "\nattempt {}: {what}", attempt.attempt);
            for knob in attempt.appended.iter().filter(|knob| said.insert(*knob)) {
                let _ = writeln!(out, "note: {knob} is appended to the command line");
            }
            for line in attempt.since.lines() {
                let _ = writeln!(out, "{}", diff_line(line));
            }
        }
        out
    }

    /// The batch, where --same-math leaves it as it is and takes something else.
    pub(super) fn left_out(&self) -> String {
        let all = self.not_used.iter().chain(&self.before_training_changes);
        let mut batches = all.filter(|s| self.has_rungs() && is_batch(&s.rung));
        let forbidden = batches.find(|s| s.reason.contains(FORBIDDEN));
        let line = |s: &Skipped| format!("left out: a smaller batch {}\n", s.reason);
        forbidden.map(line).unwrap_or_default()
    }

    /// Why the batch gets smaller and nothing keeps that of an optimizer step.
    pub(super) fn why_batch_changes(&self) -> Option<&str> {
        let mut steps = self.attempts.iter().flat_map(|a| &a.rungs);
        let halves = steps.any(|r| {
            HALVE.contains(&r.step.rung.as_str()) && r.step.effect == Effect::ChangesTraining
        });
        let mut passed_over = self.before_training_changes.iter().chain(&self.not_used);
        let kept = passed_over.find(|s| s.rung == HALVE_AND_KEEP)?;
        halves.then_some(&*kept.reason)
    }

    /// Why no attempt changes the batch, where others change something and nothing above says it.
    pub(super) fn batch_stays(&self) -> String {
        let mut taken = self.attempts.iter().flat_map(|a| &a.rungs);
        let told = !self.computed.is_empty() || taken.any(|r| is_batch(&r.step.rung));
        let mut passed_over = self.not_used.iter().filter(|_| self.has_rungs() && !told);
        let kept = passed_over.find(|s| s.rung == HALVE_AND_KEEP && !s.reason.contains(FORBIDDEN));
        let line = |s: &Skipped| format!("note: no change of the batch: {}\n", s.reason);
        kept.map(line).unwrap_or_default()
    }

    /// What else may give values; a variable that is unset here may be set for the job.
    pub(super) fn not_read(&self) -> String {
        let all = self.unread.join(", ");
        let bare = |word: &String| {
            let name = word.strip_prefix("`$")?.strip_suffix('`')?;
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            is_name.then(|| format!("{name}="))
        };
        let unset: Vec<String> = self.unread.iter().filter_map(bare).collect();
        let unset = unset.join(" ");
        match &self.command {
            Some(script) if !unset.is_empty() => format!(
                "not read: {all}, unset here; it may set the batch too. `{unset} oomctl plan {script}` reads it as empty\n"
            ),
            _ => format!("not read: {all}; its values are unknown\n"),
        }
    }

    /// Whether code that is not read gives the framework its values.
    pub(super) fn gives_values_unread(&self) -> bool {
        let is_code = |what: &String| what.starts_with(CODE_OF) || what.starts_with(SPREAD_MAP);
        self.unread.iter().any(is_code)
    }

    /// Whether an attempt after the first is rather expected to fit.
    pub(super) fn is_healed(&self) -> bool {
        let later = self
            .attempts
            .iter()
            .filter(|a| a.attempt <= self.most_attempts);
        let memory = later.filter_map(|a| a.rungs.last()?.memory.as_ref());
        memory
            .filter_map(MemoryForecast::fits_probability)
            .any(|p| p >= EVEN)
    }

    /// What could not be read, or is computed, a line each.
    fn gaps(&self, out: &mut String) {
        let missing = self.not_found().into_iter();
        out.extend(missing.map(|m| format!("{m}\n")));
        for unread in &self.unread {
            let _ = writeln!(out, "not read: {unread}; its values are unknown");
        }
        *out += &self.values.gaps();
        for Computed {
            knob, why, wins, ..
        } in &self.computed
        {
            let _ = match wins {
                Some(wins) => writeln!(
                    out,
                    "{knob} {why}, so no rung changes it; to set it, append `{wins}` to the command"
                ),
                None => writeln!(out, "{knob} {why}, so no rung changes it"),
            };
        }
    }
}
