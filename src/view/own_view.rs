//! What a script of the user's own would be run as: the first attempt, and each rung, as a diff of the user's files.

use std::fmt::Write as _;

use serde::Serialize;

use super::adopt_view::place;
use super::rung_view::step_text;
use super::{DIM, NAME, Paint};
use crate::core::adopt::PATCH;
use crate::core::ladder::{Decision, Skipped, Step};
use crate::core::memory::GPU_MEMORY;
use crate::core::patch::{Adoption, State, Way};
use crate::core::recipe::{Layer, LayerKind, Spelling};
use crate::core::render::AttemptPlace;
use crate::core::supervise::Request;
use crate::io::sampler::program;

/// Rungs that are shown.
const MOST_RUNGS: u32 = 64;
/// The random part of a token that does not exist yet.
const NO_TOKEN: &str = "????????";

/// The attempts that may come.
#[derive(Serialize)]
pub struct View {
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
    attempts: Vec<Attempt>,
    not_used: Vec<Skipped>,
    /// Why no rung can be taken.
    problem: Option<String>,
}

/// A value that code computes.
#[derive(Serialize)]
struct Computed {
    knob: String,
    why: String,
    /// What would win over it, behind the other words of the command; None for what the launcher or a file is told.
    wins: Option<String>,
}

/// An attempt that may come.
#[derive(Serialize)]
struct Attempt {
    attempt: u32,
    rungs: Vec<Step>,
    /// Values that are given behind all others, because they are not changed where they stand.
    appended: Vec<String>,
    diff: String,
}

/// Climbs as if every attempt died of a GPU OOM of which nothing is known. `job` is the first attempt, where it was
/// submitted without us.
pub fn view(request: &Request, job: Option<&str>) -> View {
    let adoption = request.adoption();
    let inputs = request.inputs();
    let recognised = inputs.scripts.as_ref().is_some_and(|s| s.recognised);
    let mut view = View {
        schema_version: 1,
        run: inputs.run.clone(),
        preset: recognised.then(|| request.preset().name.clone()),
        version: inputs.scripts.as_ref().and_then(|s| s.version.clone()),
        workdir: inputs.workdir.clone(),
        gpu_memory: gpu_memory(request),
        job: job.map(str::to_owned),
        sbatch: inputs.sbatch.clone(),
        programs: adoption.as_ref().map_or(0, |a| a.calls().count()),
        computed: adoption.as_ref().map_or_else(Vec::new, computed),
        unread: adoption
            .as_ref()
            .map_or_else(Vec::new, |a| a.unread().into_iter().collect()),
        missing: adoption.map_or_else(Vec::new, |a| a.reading.wanted.iter().cloned().collect()),
        not_comparable: request.own_facts().err().map(|why| why.to_string()),
        taught: inputs.layers.iter().any(|l| l.kind == LayerKind::Learned),
        doubts: request.doubts().to_vec(),
        attempts: Vec::new(),
        not_used: Vec::new(),
        problem: None,
    };
    if let Err(problem) = view.climb(request) {
        view.problem = Some(problem);
    }
    view
}

impl View {
    fn climb(&mut self, request: &Request) -> Result<(), String> {
        let mut taken: Vec<Layer> = Vec::new();
        let mut rungs = Vec::new();
        for number in 1..=MOST_RUNGS {
            if number > 1 || self.job.is_none() {
                self.attempts.push(attempt(request, number, &taken, rungs)?);
            }
            let decision = request
                .climb(&taken, None, number)
                .map_err(|e| e.to_string())?;
            match decision {
                Decision::Climb { steps, .. } => {
                    taken.extend(steps.iter().map(|s| s.layer.clone()));
                    rungs = steps;
                }
                Decision::Exhausted { skipped, .. } => {
                    let all = self.attempts.iter().flat_map(|a| &a.rungs);
                    let used: Vec<&String> = all.map(|s| &s.rung).collect();
                    let unused = skipped.into_iter().filter(|s| !used.contains(&&s.rung));
                    self.not_used = unused.collect();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The view for people.
    pub fn text(&self) -> String {
        let mut out = match &self.preset {
            Some(preset) => format!(
                "recognised as {}, run in {}\n",
                Paint(NAME, preset),
                self.workdir
            ),
            None => format!(
                "no preset knows what this starts; it is run in {} and watched, and what to change after a failure is told\n",
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
            let _ = writeln!(out, "not read: {unread}; what it gives is not known");
        }
        for Computed { knob, why, wins } in &self.computed {
            let _ = match wins {
                Some(wins) => writeln!(
                    out,
                    "{knob} {why}, so no rung moves it; `{wins}` behind the other words would win"
                ),
                None => writeln!(out, "{knob} {why}, so no rung moves it"),
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
            let _ = writeln!(out, "later runs learn nothing of this one: {why}");
        }
        for attempt in &self.attempts {
            attempt.write(&mut out, self.taught);
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
}

impl Attempt {
    fn write(&self, out: &mut String, taught: bool) {
        let _ = match self.attempt {
            1 if taught => writeln!(
                out,
                "\nattempt 1: as earlier runs taught, behind lines of ours"
            ),
            1 => writeln!(
                out,
                "\nattempt 1: the script as it is, behind lines of ours"
            ),
            n => writeln!(
                out,
                "\nattempt {n}, if attempt {} runs out of GPU memory",
                n - 1
            ),
        };
        for step in &self.rungs {
            let _ = writeln!(out, "  {}  {}", Paint(NAME, &step.rung), step.title);
            out.push_str(&step_text(step));
        }
        for knob in &self.appended {
            let note = format!("{knob} is given behind all others, where it wins");
            let _ = writeln!(out, "       {} {note}", Paint(DIM, "note:"));
        }
        let _ = write!(out, "\n{}", self.diff);
    }
}

/// The memory of one GPU of the first attempt, with its origin.
fn gpu_memory(request: &Request) -> Option<String> {
    let shape = request.shape(&[]).ok()?;
    let known = shape.recipe().values.get(GPU_MEMORY)?;
    (!known.value.is_null()).then(|| format!("{}, by {}", known.value, known.origin))
}

/// The values that the first call of the program does not give as text.
fn computed(adoption: &Adoption<'_>) -> Vec<Computed> {
    let knobs = adoption.knobs().into_iter();
    let computed = knobs.filter_map(|(knob, found)| {
        let (span, why) = match (&found.state, found.maybe, found.way) {
            (State::Computed(span, why), ..) => (Some(*span), why.describe()),
            (_, true, Way::Composed) => (found.place(), "may be hidden by what is not read"),
            (_, true, _) => (found.place(), "is given under a condition"),
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

fn attempt(
    request: &Request,
    number: u32,
    taken: &[Layer],
    rungs: Vec<Step>,
) -> Result<Attempt, String> {
    let inputs = request.inputs();
    let run = &inputs.run;
    let place = AttemptPlace {
        run: run.clone(),
        number,
        token: format!("oomctl-{run}-{number}-{NO_TOKEN}"),
        dir: format!("{}/.oomctl/runs/{run}/attempt-{number}", inputs.project),
        workdir: inputs.workdir.clone(),
        program: program(),
        ..AttemptPlace::anywhere(&inputs.project, &inputs.backend)
    };
    let files = request.render(taken, &place).map_err(|e| e.to_string())?;
    let diff = files.into_iter().find(|f| f.name == PATCH);
    let patch = request.patch(taken).map_err(|e| e.to_string())?;
    Ok(Attempt {
        attempt: number,
        rungs,
        appended: patch.map_or_else(Vec::new, |p| p.appended.into_iter().collect()),
        diff: diff.map(|f| f.text).unwrap_or_default(),
    })
}
