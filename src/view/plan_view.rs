//! What `oomctl plan` shows: the ladder rung by rung, with what the memory model expects.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::rung_view::{self, MemoryForecast, PhaseRow, RungForecast, table, where_fullest};
use super::{DIM, Paint, start_view};
use crate::core::ladder::{Policy, Skipped};
use crate::core::recipe::Preset;
use crate::core::request::{Plan, Start};

/// The ladder from here.
#[derive(Serialize, JsonSchema)]
pub struct PlanView {
    schema_version: u32,
    preset: String,
    framework_version: Option<String>,
    policy: Policy,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Start>,
    /// Rules that every configuration here holds.
    rules: usize,
    now: Option<MemoryForecast>,
    rungs: Vec<RungForecast>,
    /// For each rung the attempt that takes it.
    attempts: Vec<u32>,
    not_used: Vec<Skipped>,
}

impl PlanView {
    /// The plan of a preset.
    pub fn new(preset: &Preset, policy: Policy, start: Option<Start>, plan: Plan) -> Self {
        Self {
            schema_version: 1,
            preset: preset.name.clone(),
            framework_version: preset.version.as_ref().map(ToString::to_string),
            policy,
            start,
            rules: preset.rules.len(),
            now: plan.now.as_ref().map(MemoryForecast::of),
            rungs: RungForecast::all(plan.steps),
            attempts: plan.attempts,
            not_used: plan.not_used,
        }
    }

    /// The ladder for people; with the table of phases where it is not wider than `columns`. Rungs that do not help and
    /// those that are not used stand in a line, unless `all` is asked for.
    pub fn text(&self, columns: usize, all: bool) -> String {
        let mut out = self.head();
        let mut said = BTreeSet::new();
        let (shown, folded): (Vec<_>, Vec<_>) =
            (0..self.rungs.len()).partition(|i| all || self.rungs[*i].helps());
        for i in shown {
            self.rung(i, &mut said, &mut out);
        }
        if !folded.is_empty() {
            let names = folded
                .iter()
                .map(|i| format!("{} {}", self.attempts[*i], self.rungs[*i].step.rung));
            let names = names.collect::<Vec<_>>().join(", ");
            let _ = writeln!(
                out,
                "\nBy the memory model these do not help where memory is fullest (--all shows them): {names}"
            );
        }
        if all && !self.not_used.is_empty() {
            out.push_str("\nNot used:\n");
            for skipped in &self.not_used {
                let _ = writeln!(out, "     {}: {}", skipped.rung, skipped.reason);
            }
        }
        let table = self.phases();
        let width = table.lines().map(|l| l.chars().count()).max();
        match width {
            Some(width) if width <= columns => {
                let _ = write!(
                    out,
                    "\nMemory of the fullest GPU by phase, in GiB, and the probability to fit:\n\n{table}"
                );
            }
            None if columns == usize::MAX => out.push_str(
                "\nMemory cannot be estimated; `oomctl estimate` says what is missing.\n",
            ),
            _ => {}
        }
        if self.rungs.is_empty() {
            out.push_str("\nNo rungs: the run ends when it runs out of memory.\n");
        } else {
            out.push_str("\nThe number is the attempt that takes the rung.");
            match self.rules {
                0 => {}
                1 => out.push_str(" All keep the preset's rule."),
                n => {
                    let _ = write!(out, " All keep the preset's {n} rules.");
                }
            }
            out.push('\n');
        }
        out
    }

    fn head(&self) -> String {
        let version = self.framework_version.as_deref();
        let version = version.map_or_else(String::new, |v| format!(" {v}"));
        let mut out = match &self.now {
            Some(now) => format!("{}\n", now.now()),
            None => String::new(),
        };
        if let Some(start) = &self.start {
            let _ = writeln!(out, "{}", start_view::text(start));
        }
        let fullest = where_fullest(self.now.as_ref());
        let _ = writeln!(
            out,
            "Ladder of {}{version}, from here, if every attempt runs out of GPU memory{fullest}:",
            self.preset
        );
        if self.policy == Policy::Predict && self.now.is_none() {
            let note = "note: the policy `predict` decides after each failure, not in this order; --after LOG shows its decision";
            let _ = writeln!(out, "{}", Paint(DIM, note));
        }
        out
    }

    fn rung<'a>(&'a self, i: usize, said: &mut BTreeSet<&'a String>, out: &mut String) {
        let rung = &self.rungs[i];
        let attempt = self.attempts[i];
        let _ = writeln!(out, "\n{attempt:>3}  {}  {}", rung.name(), rung.step.title);
        let before = rung_view::before(self.now.as_ref(), &self.rungs, i);
        out.push_str(&rung.text(before, said));
    }

    /// A line for each attempt, a column for each phase; empty where memory is not known.
    fn phases(&self) -> String {
        let Some(now) = &self.now else {
            return String::new();
        };
        let rungs = self.attempts.iter().zip(&self.rungs);
        let rungs = rungs.map(|(n, r)| (*n, r.step.rung.as_str(), r.memory.as_ref()));
        let rows = std::iter::once((1, "as it is", Some(now))).chain(rungs);
        let row = |(attempt, name, memory): (u32, &str, Option<&'_ MemoryForecast>)| {
            PhaseRow::new(format!("{attempt:>3}  {name}"), memory)
        };
        table(&rows.map(row).collect::<Vec<_>>())
    }
}
