//! What a script of the user's own would be run as: the attempts in a table, and all that is known of them behind it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use super::rung_view::{MemoryForecast, RungForecast, before};
use super::script_table::{ScriptTable, diff_line};
use super::script_values::{ScriptValues, place};
use super::{DIM, NAME, Paint};
use crate::core::engine::RetryCause;
use crate::core::ladder::Skipped;
use crate::core::recipe::{LayerKind, Resolved};
use crate::core::request::{Inputs, Request, ScriptAttempt, ScriptPlan, UnreadKnob};
use oomctl_scripts::{Adoption, KnobForm, KnobState, Spelling};

/// The attempts that may come.
#[derive(Serialize)]
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
    values: ScriptValues,
    /// What an estimate needs and nobody says.
    asked: Vec<UnreadKnob>,
    /// Memory as it is; absent where it is unknown.
    now: Option<MemoryForecast>,
    attempts: Vec<AttemptView>,
    /// Rungs of which none is taken, and why.
    not_used: Vec<Skipped>,
    /// Why no rung can be taken.
    problem: Option<String>,
    /// What is submitted again unchanged, and how often.
    unchanged: Vec<UnchangedRetry>,
    /// Attempts in all.
    most_attempts: u32,
    /// What becomes of checkpoints.
    #[serde(skip)]
    of_checkpoints: BTreeSet<String>,
}

/// An attempt that may come.
#[derive(Serialize)]
struct AttemptView {
    attempt: u32,
    rungs: Vec<RungForecast>,
    /// Values that are appended to the command line, because they are not changed where they stand.
    appended: Vec<String>,
    /// What differs from the user's files.
    diff: String,
    /// What differs from the attempt before.
    since: String,
}

/// Another attempt with the same configuration.
#[derive(Serialize)]
struct UnchangedRetry {
    cause: RetryCause,
    times: u32,
}

/// A value that code computes.
#[derive(Serialize)]
struct Computed {
    knob: String,
    why: String,
    /// What would win over it, behind the other words of the command; None for what the launcher or a file is told.
    wins: Option<String>,
}

/// A script as it was read, and what follows.
pub struct AdoptedScript<'a> {
    /// What is asked for.
    pub request: &'a Request,
    /// What is understood of it.
    pub adoption: Option<&'a Adoption<'a>>,
    /// The job that is the first attempt, where it was submitted without us.
    pub job: Option<&'a str>,
    /// The attempts that may come.
    pub plan: ScriptPlan,
}

impl ScriptView {
    /// The view of a script.
    pub fn new(told: AdoptedScript<'_>) -> Self {
        let (request, adoption, plan) = (told.request, told.adoption, told.plan);
        let inputs = request.inputs();
        let recognised = inputs.scripts.as_ref().is_some_and(|s| s.recognised);
        let memory = |known: Resolved| format!("{}, by {}", known.value, known.origin);
        let checkpoint = request.preset().checkpoint.iter();
        let of_checkpoints =
            checkpoint.flat_map(|c| c.bound.iter().map(|b| &b.text).chain(&c.lost));
        Self {
            schema_version: 1,
            run: inputs.run.clone(),
            preset: recognised.then(|| request.preset().name.clone()),
            version: inputs.scripts.as_ref().and_then(|s| s.version.clone()),
            workdir: inputs.workdir.clone(),
            gpu_memory: request.gpu_memory().map(memory),
            job: told.job.map(str::to_owned),
            sbatch: inputs.sbatch.clone(),
            programs: adoption.map_or(0, |a| a.calls().count()),
            computed: adoption.map_or_else(Vec::new, computed),
            unread: adoption.map_or_else(Vec::new, |a| a.unread().into_iter().collect()),
            missing: adoption.map_or_else(Vec::new, |a| a.reading.wanted.iter().cloned().collect()),
            not_comparable: request.own_facts().err().map(|why| why.to_string()),
            taught: inputs.layers.iter().any(|l| l.kind == LayerKind::Learned),
            doubts: request.doubts().to_vec(),
            values: adoption.map(ScriptValues::of).unwrap_or_default(),
            asked: request.unread(),
            now: plan.now.as_ref().map(MemoryForecast::of),
            attempts: attempts(plan.attempts),
            not_used: plan.not_used,
            problem: plan.problem,
            unchanged: unchanged(inputs, request.resumes(&[])),
            most_attempts: inputs.limits.attempts,
            of_checkpoints: of_checkpoints.cloned().collect(),
        }
    }

    /// What decides, on few lines: what was read, memory, the attempts in a table.
    pub fn text(&self, columns: usize) -> String {
        let mut out = self.head();
        let list = |names: &[String]| names.join(", ");
        if !self.missing.is_empty() {
            let _ = writeln!(out, "not there: {}", list(&self.missing));
        }
        if !self.unread.is_empty() {
            let _ = writeln!(
                out,
                "not read: {}; its values are unknown",
                list(&self.unread)
            );
        }
        out += &self.values.gaps();
        if !self.computed.is_empty() {
            let knobs: Vec<&str> = self.computed.iter().map(|c| c.knob.as_str()).collect();
            let _ = writeln!(
                out,
                "no rung changes {}: the script computes it (--all says where)",
                knobs.join(", ")
            );
        }
        self.doubts(&mut out);
        let notes = self.attempts.iter().flat_map(|a| &a.rungs);
        let notes: BTreeSet<&String> = notes.flat_map(|r| &r.step.notes).collect();
        for note in notes
            .into_iter()
            .filter(|n| self.of_checkpoints.contains(*n))
        {
            let _ = writeln!(out, "note: {note}");
        }
        let _ = writeln!(out, "{}\n", self.memory());
        let attempts = self.attempts.iter().map(|a| (a.attempt, &a.rungs[..]));
        let mut table = ScriptTable::new(attempts, self.now.as_ref(), |knob, attempt| {
            self.place(knob, attempt)
        });
        table.first = self.job.is_none().then(|| self.first());
        table.unasked = self.unasked();
        out += &table.text(columns);
        if let Some(problem) = &self.problem {
            let _ = writeln!(out, "\nno rung can be taken: {problem}");
        } else if table.is_empty() {
            out.push_str("\nno rung: an out-of-memory ends the run\n");
        }
        out
    }

    /// All that is known: values with their places, each attempt with its changes and its diff to the one before, the
    /// rungs that are not used.
    pub fn details(&self) -> String {
        let mut out = self.head();
        out += &self.values.text();
        for missing in &self.missing {
            let _ = writeln!(out, "not there: {missing}");
        }
        for unread in &self.unread {
            let _ = writeln!(out, "not read: {unread}; its values are unknown");
        }
        out += &self.values.gaps();
        for Computed { knob, why, wins } in &self.computed {
            let _ = match wins {
                Some(wins) => writeln!(
                    out,
                    "{knob} {why}, so no rung changes it; to set it, append `{wins}` to the command"
                ),
                None => writeln!(out, "{knob} {why}, so no rung changes it"),
            };
        }
        self.doubts(&mut out);
        let known = self.preset.is_some();
        if let Some(why) = self.not_comparable.as_ref().filter(|_| known) {
            let _ = writeln!(out, "later runs learn nothing from this one: {why}");
        }
        let _ = writeln!(out, "{}", self.memory());
        let unasked = self.unasked();
        let _ = writeln!(out, "{unasked}");
        let (mut said, mut last) = (BTreeSet::new(), self.now.as_ref());
        for attempt in &self.attempts {
            self.attempt(attempt, (&mut said, &mut last), &mut out);
        }
        if let Some(problem) = &self.problem {
            let _ = writeln!(out, "\nno rung can be taken: {problem}");
        }
        if !self.not_used.is_empty() {
            out.push_str("\nNot used:\n");
        }
        for skipped in &self.not_used {
            let _ = writeln!(out, "     {}: {}", skipped.rung, skipped.reason);
        }
        out
    }

    fn head(&self) -> String {
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
        out
    }

    fn doubts(&self, out: &mut String) {
        for doubt in &self.doubts {
            let _ = writeln!(out, "note: {doubt}");
        }
    }

    fn first(&self) -> &'static str {
        match self.taught {
            true => "your script with the values that earlier runs needed",
            false => "your script, plus oomctl's own lines",
        }
    }

    /// Memory as it is, or what has to be said before it can be estimated.
    fn memory(&self) -> String {
        let options: Vec<String> = self.asked.iter().map(UnreadKnob::option).collect();
        let options = options.join(" ");
        match &self.now {
            Some(now) if options.is_empty() => now.now(),
            Some(now) => format!("{}; {options} says whether that fits", now.now()),
            None if self.asked.iter().any(|a| a.needed) => {
                format!("memory unknown: the script does not say all; give it with {options}")
            }
            None => "memory unknown: it cannot be estimated for this program".to_owned(),
        }
    }

    /// Where the scripts give a knob that an attempt changes.
    fn place(&self, knob: &str, attempt: u32) -> String {
        let mut attempts = self.attempts.iter().filter(|a| a.attempt == attempt);
        let appended = attempts.any(|a| a.appended.iter().any(|name| name == knob));
        match self.values.place_of(knob).filter(|_| !appended) {
            Some(place) => place.to_owned(),
            None => "appended".to_owned(),
        }
    }

    fn unasked(&self) -> String {
        let attempts = format!("at most {} attempts", self.most_attempts);
        if self.unchanged.is_empty() {
            return attempts;
        }
        let causes = self.unchanged.iter();
        let causes = causes.map(|u| format!("{} ({}x)", u.cause, u.times));
        format!(
            "unasked: resubmits unchanged after {}; {attempts}",
            causes.collect::<Vec<_>>().join(", ")
        )
    }

    fn attempt<'a>(
        &'a self,
        attempt: &'a AttemptView,
        (said, last): (&mut BTreeSet<&'a String>, &mut Option<&'a MemoryForecast>),
        out: &mut String,
    ) {
        let _ = match attempt.attempt {
            1 => writeln!(out, "\nattempt 1: {}", self.first()),
            n => writeln!(
                out,
                "\nattempt {n}, if attempt {} runs out of GPU memory",
                n - 1
            ),
        };
        for (i, rung) in attempt.rungs.iter().enumerate() {
            let _ = writeln!(out, "  {}  {}", rung.name(), rung.step.title);
            out.push_str(&rung.text(before(*last, &attempt.rungs, i), said));
        }
        *last = attempt.rungs.last().map_or(*last, |r| r.memory.as_ref());
        for knob in &attempt.appended {
            let note = format!("{knob} is appended to the command line");
            let _ = writeln!(out, "       {} {note}", Paint(DIM, "note:"));
        }
        out.push('\n');
        for line in attempt.since.lines() {
            let _ = writeln!(out, "{}", diff_line(line));
        }
    }
}

fn attempts(plan: Vec<ScriptAttempt>) -> Vec<AttemptView> {
    let counts: Vec<usize> = plan.iter().map(|a| a.rungs.len()).collect();
    let steps = plan.iter().flat_map(|a| a.rungs.clone()).collect();
    let mut rungs = RungForecast::all(steps).into_iter();
    let view = |(attempt, count): (ScriptAttempt, usize)| AttemptView {
        attempt: attempt.attempt,
        rungs: rungs.by_ref().take(count).collect(),
        appended: attempt.appended,
        diff: attempt.diff,
        since: attempt.since,
    };
    plan.into_iter().zip(counts).map(view).collect()
}

/// What is submitted again unchanged; from a checkpoint only what writes one.
fn unchanged(inputs: &Inputs, resumes: bool) -> Vec<UnchangedRetry> {
    let s = &inputs.supervision;
    let all = [
        (RetryCause::NodeFailure, s.node_failure_retries),
        (RetryCause::Preemption, s.preemption_retries),
        (RetryCause::TimeLimit, s.time_limit_retries),
        (RetryCause::CoTenant, s.co_tenant_retries),
        (
            RetryCause::LateOom,
            if resumes { s.late_oom_retries } else { 0 },
        ),
        (RetryCause::Leak, if resumes { s.leak_retries } else { 0 }),
    ];
    let done = all
        .into_iter()
        .filter(|(_, times)| *times > 0 && s.resubmit);
    done.map(|(cause, times)| UnchangedRetry { cause, times })
        .collect()
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
