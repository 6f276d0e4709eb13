//! What a script of the user's own would be run as: the first attempt, and each rung, as a diff of the user's files.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::adopt_view::place;
use super::rung_view::step_text;
use super::{DIM, NAME, Paint};
use crate::core::recipe::{LayerKind, Resolved};
use crate::core::request::{Inputs, ScriptAttempt, ScriptPlan};
use oomctl_scripts::{Adoption, KnobForm, KnobState, Spelling};

/// The attempts that may come.
#[derive(Serialize, JsonSchema)]
pub struct ScriptView {
    schema_version: u32,
    run: String,
    preset: Option<String>,
    /// What is known of the framework's version.
    version: Option<String>,
    workdir: String,
    /// Memory of one GPU, and who says so, where it is known.
    gpu_memory: Option<String>,
    /// The job that is the first attempt, where it was submitted without us.
    job: Option<String>,
    /// Options of sbatch that go with the script.
    sbatch: Vec<String>,
    /// The calls that start the program are there, and how many.
    programs: usize,
    /// Files that the scripts name and that could not be read.
    missing: Vec<String>,
    /// What else may give values and is not read.
    unread: Vec<String>,
    /// Why later runs learn nothing of this one.
    not_comparable: Option<String>,
    /// It starts as earlier runs taught.
    taught: bool,
    /// Values that code computes, which no rung moves.
    computed: Vec<Computed>,
    /// Where the scripts go against the preset, and what their copies need.
    doubts: Vec<String>,
    #[serde(flatten)]
    plan: ScriptPlan,
}

/// A value that code computes.
#[derive(Serialize, JsonSchema)]
struct Computed {
    knob: String,
    why: String,
    /// What would win over it, behind the other words of the command; None for what the launcher or a file is told.
    wins: Option<String>,
}

/// A script as it was read, and what follows.
pub struct AdoptedScript<'a> {
    /// What is asked for.
    pub inputs: &'a Inputs,
    /// The name of the preset that it was assembled from.
    pub preset: &'a str,
    /// What is understood of it.
    pub adoption: Option<&'a Adoption<'a>>,
    /// Memory of one GPU, where it is known.
    pub gpu_memory: Option<Resolved>,
    /// Why later runs learn nothing of this one.
    pub not_comparable: Option<String>,
    /// Where the scripts go against the preset.
    pub doubts: &'a [String],
    /// The job that is the first attempt, where it was submitted without us.
    pub job: Option<&'a str>,
    /// The attempts that may come.
    pub plan: ScriptPlan,
}

impl ScriptView {
    /// The view of a script.
    pub fn new(told: AdoptedScript<'_>) -> Self {
        let (inputs, adoption) = (told.inputs, told.adoption);
        let recognised = inputs.scripts.as_ref().is_some_and(|s| s.recognised);
        let memory = |known: Resolved| format!("{}, by {}", known.value, known.origin);
        Self {
            schema_version: 1,
            run: inputs.run.clone(),
            preset: recognised.then(|| told.preset.to_owned()),
            version: inputs.scripts.as_ref().and_then(|s| s.version.clone()),
            workdir: inputs.workdir.clone(),
            gpu_memory: told.gpu_memory.map(memory),
            job: told.job.map(str::to_owned),
            sbatch: inputs.sbatch.clone(),
            programs: adoption.map_or(0, |a| a.calls().count()),
            computed: adoption.map_or_else(Vec::new, computed),
            unread: adoption.map_or_else(Vec::new, |a| a.unread().into_iter().collect()),
            missing: adoption.map_or_else(Vec::new, |a| a.reading.wanted.iter().cloned().collect()),
            not_comparable: told.not_comparable,
            taught: inputs.layers.iter().any(|l| l.kind == LayerKind::Learned),
            doubts: told.doubts.to_vec(),
            plan: told.plan,
        }
    }

    /// The view for people, with the diffs of the scripts or without.
    pub fn text(&self, diffs: bool) -> String {
        let mut out = match &self.preset {
            Some(preset) => format!(
                "recognised as {}, runs in {}\n",
                Paint(NAME, preset),
                self.workdir
            ),
            None => format!(
                "framework not recognised; the script runs in {}. oomctl watches it and, after a failure, says what to change\n",
                self.workdir
            ),
        };
        if let Some(version) = &self.version {
            let _ = writeln!(out, "{version}");
        }
        if let Some(memory) = &self.gpu_memory {
            let _ = writeln!(out, "memory of a GPU: {memory}");
        }
        if let Some(job) = &self.job {
            let _ = writeln!(out, "attempt 1 is job {job}, as it was submitted");
        }
        if !self.sbatch.is_empty() {
            let _ = writeln!(out, "options of sbatch: {}", self.sbatch.join(" "));
        }
        for missing in &self.missing {
            let _ = writeln!(out, "not there: {missing}");
        }
        for unread in &self.unread {
            let _ = writeln!(out, "not read: {unread}; its values are unknown");
        }
        for Computed { knob, why, wins } in &self.computed {
            let _ = match wins {
                Some(wins) => writeln!(
                    out,
                    "{knob} {why}, so no rung changes it; to set it, append `{wins}` to the command"
                ),
                None => writeln!(out, "{knob} {why}, so no rung changes it"),
            };
        }
        for doubt in &self.doubts {
            let _ = writeln!(out, "note: {doubt}");
        }
        if let Some(why) = self
            .not_comparable
            .as_ref()
            .filter(|_| self.preset.is_some())
        {
            let _ = writeln!(out, "later runs learn nothing from this one: {why}");
        }
        for attempt in &self.plan.attempts {
            write(attempt, &mut out, self.taught);
            if diffs {
                let _ = write!(out, "\n{}", attempt.diff);
            }
        }
        if let Some(problem) = &self.plan.problem {
            let _ = writeln!(out, "\nno rung can be taken: {problem}");
        }
        if !self.plan.not_used.is_empty() && diffs {
            out.push_str("\nNot used:\n");
        }
        for skipped in self.plan.not_used.iter().filter(|_| diffs) {
            let _ = writeln!(out, "     {}: {}", skipped.rung, skipped.reason);
        }
        out
    }
}

fn write(attempt: &ScriptAttempt, out: &mut String, taught: bool) {
    let _ = match attempt.attempt {
        1 if taught => writeln!(
            out,
            "\nattempt 1: your script with the values that earlier runs needed, plus oomctl's own lines"
        ),
        1 => writeln!(out, "\nattempt 1: your script, plus oomctl's own lines"),
        n => writeln!(
            out,
            "\nattempt {n}, if attempt {} runs out of GPU memory",
            n - 1
        ),
    };
    for step in &attempt.rungs {
        let _ = writeln!(out, "  {}  {}", Paint(NAME, &step.rung), step.title);
        out.push_str(&step_text(step));
    }
    for knob in &attempt.appended {
        let note = format!("{knob} is appended to the command line");
        let _ = writeln!(out, "       {} {note}", Paint(DIM, "note:"));
    }
}

/// The values that the first call of the program does not give as text.
fn computed(adoption: &Adoption<'_>) -> Vec<Computed> {
    let knobs = adoption.knobs().into_iter();
    let computed = knobs.filter_map(|(knob, found)| {
        let (span, why) = match (&found.state, found.maybe, found.way) {
            (KnobState::Computed(span, why), ..) => (Some(*span), why.describe()),
            (_, true, KnobForm::Composed) => (
                found.place(),
                "may be overridden by a file that was not read",
            ),
            (_, true, _) => (found.place(), "is set under a condition"),
            _ => return None,
        };
        let at = place(&adoption.reading, span);
        let spelling = knob.spellings.first()?;
        let sign = if spelling.name().starts_with('-') {
            " "
        } else {
            "="
        };
        let behind = !found.launcher && !matches!(spelling, Spelling::Key(_));
        Some(Computed {
            knob: knob.name.clone(),
            why: format!("{why} ({at})"),
            wins: behind.then(|| format!("{}{sign}VALUE", spelling.name())),
        })
    });
    computed.collect()
}
