//! The decision after a failure, in text and JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::explanation::explained;
use super::lines::{bugs, course, evidence};
use super::outcome::{cannot_fit, expectation, smallest_request, uneditable};
use super::passed_over::reasons_here;
use super::plan_table::PlanTable;
use super::rung_view::{MemoryForecast, PhaseRow, RungForecast, table};
use super::style::{DIM, Paint};
use crate::core::ladder::{Decision, Expectation, Shortfall, Skipped};
use crate::core::request::{Explanation, PlannedStep};
use oomctl_diagnose::{Class, CoursePattern, Incident};
use oomctl_memory::Estimate;

/// A line of srun, which every job that fails has.
const STEP_ENDED: &str = "srun_task_ended";
/// Failures behind the first that are shown.
const MOST_FOLLOWING: usize = 2;

/// A failure, and what a supervisor would decide after it.
#[derive(Serialize, JsonSchema)]
pub struct PlanAfterView {
    schema_version: u32,
    /// Run and attempt, where it is one of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<String>,
    incident: Incident,
    /// What the decision rests on, where that is less than one would wish.
    rests_on: Vec<String>,
    decision: &'static str,
    /// What is expected of the configuration that died, given how it died; where nothing says how much memory the GPU has,
    /// what the memory model alone expects.
    now: Option<MemoryForecast>,
    steps: Vec<RungForecast>,
    skipped: Vec<Skipped>,
    /// What is expected after the steps, given how it died.
    expects: Option<Expectation>,
    /// How often `watch` submits the same configuration on other nodes first, because other processes held the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    unchanged_first: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shortfall: Option<Shortfall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Explanation>,
    /// The number of the attempt that follows.
    #[serde(skip)]
    next: u32,
    /// Where knobs are given.
    #[serde(skip)]
    places: BTreeMap<String, String>,
    /// Why the steps are left to the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    cannot_edit: Option<String>,
}

impl PlanAfterView {
    /// What is decided about a configuration that died so, of which the model alone expects `now`, and of the steps of the
    /// decision what `planned` says. `after` is what is expected of it and after each step, given how it died; `attempt`
    /// names it where it is one of a run, `next` is the number of the one that follows.
    pub fn new(
        (attempt, next): (Option<String>, u32),
        now: Option<&Estimate>,
        (incident, explanation): (Incident, Option<Explanation>),
        decision: Decision,
        planned: Vec<PlannedStep>,
        after: &[Expectation],
    ) -> Self {
        let mut steps = RungForecast::all(planned);
        let mut now = now.map(MemoryForecast::of);
        let forecasts = std::iter::once(&mut now).chain(steps.iter_mut().map(|s| &mut s.memory));
        for (forecast, expected) in forecasts.zip(after) {
            *forecast = MemoryForecast::expected(expected);
        }
        let (word, skipped, expects, shortfall) = match decision {
            Decision::Climb {
                skipped, expects, ..
            } => ("climb", skipped, expects, None),
            Decision::Exhausted { skipped, shortfall } => ("exhausted", skipped, None, shortfall),
        };
        Self {
            schema_version: 1,
            attempt,
            rests_on: Vec::from_iter(no_figures(&incident)),
            incident,
            decision: word,
            now,
            steps,
            skipped,
            expects,
            unchanged_first: None,
            shortfall,
            explanation,
            next,
            places: BTreeMap::new(),
            cannot_edit: None,
        }
    }

    /// The same where oomctl cannot edit the script for that reason.
    pub fn left_to_user(self, cannot_edit: Option<String>) -> Self {
        Self {
            cannot_edit,
            ..self
        }
    }

    /// The same for a script, with which version of its framework is taken, and why.
    pub fn of_version(mut self, version: Option<String>) -> Self {
        self.rests_on.extend(version);
        self
    }

    /// The same, with where knobs are given.
    pub fn with_places(self, places: BTreeMap<String, String>) -> Self {
        Self { places, ..self }
    }

    /// The same where a supervisor submits the same configuration so often before it.
    pub fn after_again(mut self, times: u32) -> Self {
        self.unchanged_first = Some(times).filter(|times| *times > 0);
        self
    }

    /// The decision for people.
    pub fn text(&self, columns: usize) -> String {
        let whose = self.attempt.as_ref();
        let whose = whose.map(|a| format!("{a}: ")).unwrap_or_default();
        let mut out = format!("After: {whose}{}\n", self.incident.headline());
        let rests_on = self
            .rests_on
            .iter()
            .map(|what| format!("based on   {what}"));
        for line in course(&self.incident)
            .into_iter()
            .chain(bugs(&self.incident))
            .chain(beside(&self.incident))
            .chain(rests_on)
        {
            let _ = writeln!(out, "  {line}");
        }
        if let Some(times) = self.unchanged_first {
            let _ = writeln!(
                out,
                "\nOther processes held the memory. `oomctl watch` first submits the same configuration on other nodes (up to {times}x); if that fails too:"
            );
        }
        if self.incident.is_bare_kill() && !self.incident.says_what_helps() {
            out.push_str(
                "\nNothing shows that host memory ran out: `oomctl watch` would end the run here. If it did run out:\n",
            );
        }
        if let Some(why) = &self.cannot_edit {
            let _ = writeln!(out, "\n{}. Change it yourself:", uneditable(why));
        }
        out += &self.table(columns);
        match &self.shortfall {
            Some(shortfall) => {
                let _ = writeln!(out, "\n{}", cannot_fit(shortfall));
                let _ = writeln!(out, "{}", smallest_request(shortfall));
            }
            None if !self.incident.fatal => {
                out.push_str("\nnothing to change: the log shows no failure that ended the job\n")
            }
            None if self.steps.is_empty() => {
                out.push_str("\nno rung of the ladder helps against this failure\n");
            }
            None => {}
        }
        if let Some(expects) = &self.expects {
            let _ = writeln!(out, "\n{}", expectation(expects));
            out.push_str(&self.phases(columns));
        }
        for reason in self.passed_over() {
            let line = format!("skipped: {reason}");
            let _ = writeln!(out, "  {}", Paint(DIM, &line));
        }
        if let Some(explanation) = &self.explanation {
            let _ = writeln!(out, "\n{}", explained(explanation));
        }
        if self.is_left_to_people() {
            let one = |help: &String| format!("helps      {help}\n");
            let helps: String = self.incident.helps.iter().map(one).collect();
            let _ = write!(out, "\n{helps}");
        }
        out
    }

    /// Does what helps stand in no knob: no rung is taken, the program starts one process for all GPUs, or /dev/shm is too
    /// small?
    fn is_left_to_people(&self) -> bool {
        let nothing = self.steps.is_empty() && self.shortfall.is_none();
        let nothing = nothing && self.incident.own_code.is_empty();
        let of_the_job = self.incident.data_parallel || self.incident.class == Class::Shm;
        nothing && !leaks(&self.incident) || of_the_job
    }

    /// The rungs that this failure could have had, each with why not. Where no memory ran out, all have the same reason.
    fn passed_over(&self) -> Vec<String> {
        match self.incident.class {
            Class::NotOom => Vec::new(),
            _ => reasons_here(&self.skipped),
        }
    }

    /// What changes, with the memory of GPUs where that ran out.
    fn table(&self, columns: usize) -> String {
        let steps = Some((self.next, &self.steps[..]));
        let is_gpu = matches!(self.incident.class, Class::GpuOom | Class::EngineMemory);
        let now = self.now.as_ref().filter(|_| is_gpu);
        let place = |knob: &str, _| self.places.get(knob).cloned().unwrap_or_default();
        match PlanTable::by_rung(steps.into_iter(), now, place) {
            table if table.is_empty() => String::new(),
            table => format!("\n{}", table.whole(columns, false)),
        }
    }

    /// The memory of every phase before the steps and after each rung, given how it died.
    fn phases(&self, columns: usize) -> String {
        let now = PhaseRow::new("  as it was".to_owned(), self.now.as_ref());
        let laps = self.steps.chunk_by(|a, b| a.step.rung == b.step.rung);
        let rungs = laps.filter_map(<[RungForecast]>::last);
        let rungs = rungs.map(|r| PhaseRow::new(format!("  {}", r.step.rung), r.memory.as_ref()));
        match table(&Vec::from_iter(std::iter::once(now).chain(rungs)), columns) {
            table if table.is_empty() => table,
            table => format!(
                "\nMemory of the fullest GPU by phase, in GiB, and the probability to fit, after this log:\n\n{table}"
            ),
        }
    }
}

/// Does memory grow from step to step?
fn leaks(incident: &Incident) -> bool {
    pattern(incident) == Some(CoursePattern::Leak)
}

fn pattern(incident: &Incident) -> Option<CoursePattern> {
    incident.course.as_ref().map(|course| course.pattern)
}

/// What a decision rests on where the message of a failed GPU has no figures.
fn no_figures(incident: &Incident) -> Option<String> {
    let figures = [
        incident.requested_bytes,
        incident.free_bytes,
        incident.total_bytes,
        incident.allocated_bytes,
    ];
    let none = figures.iter().all(Option::is_none) && incident.engine_cache.is_none();
    let phase = match incident.phase.as_str() {
        "unknown" => {
            "the kind of the failure alone: the phase is unknown and the message has no figures"
                .to_owned()
        }
        phase => {
            format!("the kind of the failure and its phase ({phase}): the message has no figures")
        }
    };
    (none && incident.class == Class::GpuOom).then_some(phase)
}

/// What else the log tells that the decision must bear: what no knob does, remarks on figures, failures behind the first.
fn beside(incident: &Incident) -> Vec<String> {
    let grows = matches!(
        pattern(incident),
        Some(CoursePattern::Leak | CoursePattern::Growth)
    );
    let suspected = incident.suspected();
    let of_course = incident.helps.get(suspected.count());
    let of_course = of_course.filter(|_| grows && incident.own_code.is_empty());
    let first = incident.suspected().chain(of_course);
    let first = first.chain(&incident.own_code);
    let first = first.map(|help| format!("helps      {help}"));
    let notes = incident
        .notes
        .iter()
        .map(|note| format!("note       {note}"));
    let then = incident.consequences.iter();
    let then = then.filter(|e| e.signature != STEP_ENDED);
    let then = then.take(MOST_FOLLOWING);
    let then = then.map(|e| format!("followed   {}", evidence(e)));
    first.chain(notes).chain(then).collect()
}
