//! All that is known of the attempts of a script: their diffs, what was read, and what could not be.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::ScriptView;
use crate::view::passed_over::not_used;
use crate::view::rung_view::{MemoryForecast, before, where_fullest};
use crate::view::script_parts::{Computed, ScriptAttemptView, UnchangedRetry};
use crate::view::script_table::diff_line;
use crate::view::{DIM, Paint};

impl ScriptView {
    /// All that is known: the diffs, the rungs that are not used, and the values that were read.
    pub fn details(&self) -> String {
        let mut out = self.diffs();
        out += &not_used(&self.not_used);
        let _ = write!(out, "\nRead:\n{}", self.values.text());
        out
    }

    /// Each attempt with its changes and its diff to the one before.
    pub fn diffs(&self) -> String {
        let mut out = self.head(true);
        let _ = writeln!(out, "runs in {}", self.workdir);
        self.gaps(&mut out);
        self.doubts(&mut out);
        let known = self.preset.is_some();
        if let Some(why) = self.not_comparable.as_ref().filter(|_| known) {
            let _ = writeln!(out, "later runs learn nothing from this one: {why}");
        }
        let _ = writeln!(out, "{}\n{}", self.memory(), self.unasked());
        let (mut said, mut last) = (BTreeSet::new(), self.now.as_ref());
        for attempt in &self.attempts {
            self.attempt(attempt, (&mut said, &mut last), &mut out);
        }
        if let Some(problem) = &self.problem {
            let _ = writeln!(out, "\nno rung can be taken: {problem}");
        }
        out
    }

    /// What could not be read, or is computed, a line each.
    fn gaps(&self, out: &mut String) {
        let missing = self.not_found().into_iter();
        out.extend(missing.map(|m| format!("file not found: {m}\n")));
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

    /// The same, with how often.
    fn unasked(&self) -> String {
        let most = format!("at most {} attempts", self.most_attempts);
        match self.retried(UnchangedRetry::text) {
            Some(retried) => format!("{retried}; {most}"),
            None => most,
        }
    }

    fn attempt<'a>(
        &'a self,
        attempt: &'a ScriptAttemptView,
        (said, last): (&mut BTreeSet<&'a String>, &mut Option<&'a MemoryForecast>),
        out: &mut String,
    ) {
        let _ = match attempt.attempt {
            1 => writeln!(out, "\nattempt 1: {}", self.first()),
            n => writeln!(
                out,
                "\nattempt {n}, if attempt {} runs out of GPU memory{}",
                n - 1,
                where_fullest(self.now.as_ref())
            ),
        };
        for (i, rung) in attempt.rungs.iter().enumerate() {
            let _ = writeln!(out, "  {}  {}", rung.name(), rung.step.title);
            out.push_str(&rung.text(before(*last, &attempt.rungs, i), said));
        }
        *last = attempt.rungs.last().map_or(*last, |r| r.memory.as_ref());
        for knob in attempt.appended.iter().filter(|knob| said.insert(knob)) {
            let note = format!("{knob} is appended to the command line");
            let _ = writeln!(out, "       {} {note}", Paint(DIM, "note:"));
        }
        out.push('\n');
        for line in attempt.since.lines() {
            let _ = writeln!(out, "{}", diff_line(line));
        }
    }
}
