//! An attempt as text.

use std::fmt::Write as _;

use super::figures::duration;
use super::measured_plan_view::check_line;
use super::run_view::{AttemptView, total};
use super::style::{BAD, GOOD, NAME, Paint, WARN};
use super::{lines, measured};
use crate::core::ladder::Change;
use crate::core::learn::BadNode;
use oomctl_base::Effect;
use oomctl_diagnose::Incident;

impl AttemptView {
    /// Is why it ended news to somebody who reads its state? A job that COMPLETED died all the same where its script
    /// hides the exit code. A cancelled job needs no other reason, unless its log has one.
    fn needs_reason(&self) -> bool {
        let from_log =
            |i: &Incident| i.kind != "cancelled" && i.evidence.iter().any(|e| !e.file.is_empty());
        match self.state.as_deref() {
            Some("COMPLETED") => self.incident.as_ref().is_some_and(|i| i.fatal),
            Some("CANCELLED") => self.incident.as_ref().is_some_and(from_log),
            _ => true,
        }
    }

    pub(super) fn text(&self) -> String {
        let job = self.job.as_deref().unwrap_or("-");
        let state = self.state.as_deref().unwrap_or("not submitted");
        let style = match state {
            "COMPLETED" => GOOD,
            "RUNNING" | "PENDING" => WARN,
            _ => BAD,
        };
        let before = self.phantom.iter().map(check_line);
        let before = before.chain(self.excluded.iter().map(BadNode::to_string));
        let changed = self.changed.iter();
        let before = before.chain(changed.map(|file| format!("{} {file}", Paint(WARN, "note:"))));
        let mut out: String = before.map(|line| format!("      {line}\n")).collect();
        let (number, state) = (self.attempt, Paint(style, state));
        let _ = write!(out, "{number:>2}  job {job:<8} {state}");
        if let Some(ran) = self.ran_s {
            let _ = write!(out, " after {}", duration(ran));
        }
        if let Some(seconds) = self.starts_in_s {
            let start = duration(seconds);
            let _ = write!(out, ", expected to start in {start}");
        }
        if let Some(p) = &self.progress {
            let _ = write!(out, ", step {}{}", p.step, total(p));
        }
        if let Some(peak) = self.measured.as_ref().and_then(measured::peak) {
            let _ = write!(out, ", peak {peak}");
        }
        if let Some(headline) = self.headline.as_ref().filter(|_| self.needs_reason()) {
            let _ = write!(out, ": {headline}");
        }
        out.push('\n');
        let measured = self.measured.as_ref().filter(|_| self.ended.is_some());
        let host = self.host.as_ref().filter(|_| self.ended.is_some());
        if let Some(used) = measured::efficiency(measured, host) {
            let _ = writeln!(out, "      used {used}");
        }
        let foreseen = self.foreseen.as_ref().filter(|_| self.ended.is_none());
        if let Some(foreseen) = foreseen {
            let _ = writeln!(
                out,
                "      {} {}",
                Paint(WARN, "ahead:"),
                foreseen.sentence()
            );
        }
        let course = self.incident.as_ref().and_then(lines::course);
        out.extend(course.map(|line| format!("      {line}\n")));
        out.push_str(&lines::links(&self.links));
        if !self.withdrawn.is_empty() {
            let rungs = self.withdrawn.join(", ");
            let _ = writeln!(out, "      without {}", Paint(NAME, &rungs));
        }
        if !self.rungs.is_empty() {
            let other = |c: &Change| c.effect == Effect::ChangesTraining;
            let effect = match self.changes.iter().any(other) {
                true => " (changes training)",
                false => "",
            };
            let rungs = lines::each_once(&self.rungs);
            let _ = writeln!(out, "      then {}{effect}", Paint(NAME, &rungs));
        }
        out
    }
}
