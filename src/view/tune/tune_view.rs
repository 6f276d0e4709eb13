//! What `oomctl tune` shows: steps, what each would take and save, and the command to submit the result.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::estimate_view::phase_name;
use super::figures::{in_gib, odds, percent, rounded};
use super::measured_plan_view::MeasuredAttempt;
use super::table::{Side, Table};
use super::{DIM, NAME, Paint, measured};
use crate::core::ladder::{Change, Faster, Judgement, Tuned, Untaken};
use crate::core::measure::Measured;
use crate::view::style::diff_line;
use oomctl_base::Effect;
use oomctl_base::units::chance;

/// The attempt that tuning starts from.
#[derive(Serialize, JsonSchema)]
pub struct TuneStart {
    /// Its run.
    pub run: String,
    attempt: u32,
    peak: Option<String>,
}

impl TuneStart {
    /// An attempt with its peaks.
    pub fn new(run: &str, attempt: u32, peaks: &Measured) -> Self {
        Self {
            run: run.to_owned(),
            attempt,
            peak: measured::peak(peaks),
        }
    }
}

/// The proposal.
#[derive(Serialize, JsonSchema)]
pub struct TuneView {
    schema_version: u32,
    from: Option<TuneStart>,
    /// A run that fitted elsewhere, and why that does not count.
    not_counted: Option<String>,
    before: Option<Judgement>,
    steps: Vec<Faster>,
    not_taken: Vec<Untaken>,
    time_saved: f64,
    /// What was measured of the proposals on phantom GPUs, in order.
    pub phantom: Vec<MeasuredAttempt>,
    /// The words of a command that submits it.
    command: Option<Vec<String>>,
    /// What to change in the user's own scripts, as a diff.
    scripts: Option<String>,
}

impl TuneView {
    /// The view of what was found; `not_counted` is a run that fitted elsewhere.
    pub fn new(
        from: Option<TuneStart>,
        not_counted: Option<String>,
        before: Option<Judgement>,
        tuned: Tuned,
        (command, scripts): (Option<Vec<String>>, Option<String>),
    ) -> Self {
        Self {
            schema_version: 1,
            from,
            not_counted,
            before,
            steps: tuned.steps,
            not_taken: tuned.skipped,
            time_saved: rounded(1.0 - tuned.time, 3),
            phantom: Vec::new(),
            command,
            scripts,
        }
    }

    /// The proposal for people.
    pub fn text(&self) -> String {
        let mut out = match &self.from {
            Some(from) => {
                let peak = from.peak.as_ref();
                let peak = peak.map_or_else(String::new, |p| format!(" (peak {p})"));
                format!(
                    "From run {}, attempt {}, which fitted{peak}:\n\n",
                    from.run, from.attempt
                )
            }
            None => "From the configuration that would be submitted (nothing measured yet):\n\n"
                .to_owned(),
        };
        if let Some(not_counted) = &self.not_counted {
            let _ = writeln!(out, "  {}\n", Paint(DIM, not_counted));
        }
        out.push_str(&self.table());
        if let Some(then) = self.steps.last().and_then(|s| s.then.as_ref()) {
            let _ = writeln!(
                out,
                "\n{}expected, probability to fit {} ({}), about {} less time per step",
                self.peaks(then),
                chance(then.fits_probability),
                then.ground,
                percent(self.time_saved)
            );
        } else {
            out.push_str("no change both saves time and is expected to fit\n");
        }
        for measured in &self.phantom {
            let _ = writeln!(out, "{}", measured.line());
        }
        for skipped in &self.not_taken {
            let what = match skipped.lap {
                1 => format!("not taken: {}", skipped.rung),
                lap => format!("not taken a {} time: {}", ordinal(lap), skipped.rung),
            };
            let line = format!("{what}: {}", skipped.reason);
            let _ = writeln!(out, "  {}", Paint(DIM, &line));
        }
        if let Some(words) = &self.command {
            let _ = writeln!(out, "\n{}", quoted(words));
        }
        if let Some(diff) = &self.scripts {
            out.push_str("\nTo have it, change your scripts so:\n\n");
            for line in diff.lines() {
                let _ = writeln!(out, "{}", diff_line(line));
            }
        }
        out
    }

    /// One line for each knob.
    fn table(&self) -> String {
        let rows = self.steps.iter().flat_map(|faster| {
            let step = &faster.step;
            step.changes.iter().enumerate().map(move |(i, c)| {
                let change = c.values("->");
                let first = i == 0;
                [
                    if first {
                        step.rung.clone()
                    } else {
                        String::new()
                    },
                    c.name().to_owned(),
                    change,
                    if first {
                        peak(faster.then.as_ref())
                    } else {
                        String::new()
                    },
                    if first {
                        odds(faster.then.as_ref().map(|j| j.fits_probability), "unknown")
                    } else {
                        String::new()
                    },
                    if first { saves(faster) } else { String::new() },
                ]
            })
        });
        let rows: Vec<[String; 6]> = rows.collect();
        if rows.is_empty() {
            return String::new();
        }
        let mut table = Table::new([(Side::Left, 0); 6]);
        table.row(["step", "knob", "from -> to", "peak", "fits", "saves"]);
        rows.into_iter().for_each(|row| table.row(row));
        table.text("  ")
    }

    /// Peaks before and after.
    fn peaks(&self, after: &Judgement) -> String {
        let before = self.before.as_ref().and_then(|b| b.peak_gib);
        let phase = after.phase.as_ref();
        let phase = phase.map_or_else(String::new, |p| format!(" ({})", phase_name(p)));
        match (before, after.peak_gib) {
            (Some(before), Some(after)) => format!("peak {before:.1} -> {}{phase} ", in_gib(after)),
            (None, Some(after)) => format!("peak {}{phase} ", in_gib(after)),
            _ => String::new(),
        }
    }
}

fn peak(judgement: Option<&Judgement>) -> String {
    let gib = judgement.and_then(|j| j.peak_gib);
    gib.map_or_else(|| "unknown".to_owned(), in_gib)
}

/// `second`, `third`, `4th`; no step has 21 laps.
fn ordinal(lap: u32) -> String {
    match lap {
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        n => format!("{n}th"),
    }
}

fn saves(faster: &Faster) -> String {
    let change = match faster.step.effect {
        Effect::ChangesTraining => ", changes training",
        _ => "",
    };
    format!("{:.1} %{change}", faster.gain * 100.0)
}

/// What steps change, in their order.
pub fn changes_of(steps: &[Faster]) -> Vec<&Change> {
    steps.iter().flat_map(|s| &s.step.changes).collect()
}

/// Words for a shell.
pub fn quoted(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/+@%".contains(c);
    let quote = |word: &String| match word.chars().all(plain) {
        true => word.clone(),
        false => shlex::try_quote(word).map_or_else(|_| word.clone(), Into::into),
    };
    let line: Vec<String> = words.iter().map(quote).collect();
    Paint(NAME, &line.join(" ")).to_string()
}
