//! What the view of a script of the user's own is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::rung_view::RungForecast;
use super::script_values::{ScriptValues, place};
use crate::core::adopt::resumes;
use crate::core::engine::RetryCause;
use crate::core::recipe::{Preset, Resolved};
use crate::core::request::{Inputs, KeptMeasurement, ScriptAttempt, ScriptPlan, UnreadKnob};
use oomctl_base::{Origin, Role};
use oomctl_scripts::{Adoption, CallTarget, KnobForm, KnobState, Spelling, StackKnob, Why};

/// A script as it was read, and what follows.
pub struct AdoptedScript<'a> {
    /// What is asked for.
    pub inputs: &'a Inputs,
    /// The preset that it was assembled from.
    pub preset: &'a Preset,
    /// Memory of one GPU, where it is known.
    pub gpu_memory: Option<Resolved>,
    /// Why later runs learn nothing of this one.
    pub not_comparable: Option<String>,
    /// Where the scripts go against the preset.
    pub doubts: Vec<String>,
    /// Whether an attempt goes on from a checkpoint.
    pub resumes: bool,
    /// Whether it meets other lengths then, because responses are sampled.
    pub samples_responses: bool,
    /// What an estimate needs and nobody says.
    pub unread: Vec<UnreadKnob>,
    /// Why the memory model does not describe it.
    pub no_model: Option<String>,
    /// What is understood of it.
    pub adoption: Option<&'a Adoption<'a>>,
    /// Programs that are not there, and what is said behind the path of each.
    pub absent: BTreeMap<String, String>,
    /// The job that is the first attempt, where it was submitted without us.
    pub job: Option<&'a str>,
    /// A file has the script, which commands can name.
    pub in_file: bool,
    /// The command that measures it without a GPU, where that works.
    pub measure: Option<String>,
    /// What was measured of it on a phantom before.
    pub phantom: Option<KeptMeasurement>,
    /// The attempts that may come.
    pub plan: ScriptPlan,
}

/// An attempt that may come.
#[derive(Serialize, JsonSchema)]
pub struct ScriptAttemptView {
    pub attempt: u32,
    pub rungs: Vec<RungForecast>,
    /// Values that are appended to the command line, because they are not changed where they stand.
    pub appended: Vec<String>,
    /// Where each knob is changed.
    #[serde(skip)]
    pub places: BTreeMap<String, String>,
    /// What differs from the user's files.
    pub diff: String,
    /// What differs from the attempt before.
    pub since: String,
}

/// Another attempt with the same configuration.
#[derive(Serialize, JsonSchema)]
pub struct UnchangedRetry {
    pub cause: RetryCause,
    /// At most.
    pub times: u32,
}

/// A value that code computes.
#[derive(Serialize, JsonSchema)]
pub struct Computed {
    pub knob: String,
    pub why: String,
    /// The same without its place.
    #[serde(skip)]
    reason: &'static str,
    /// A rung would move it.
    #[serde(skip)]
    moved: bool,
    /// What would win over it, behind the other words of the command; None for what the launcher or a file is told.
    pub wins: Option<String>,
    /// The program's code has it as a literal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
}

/// Attempts as they are shown.
pub fn attempts(plan: Vec<ScriptAttempt>) -> Vec<ScriptAttemptView> {
    let counts: Vec<usize> = plan.iter().map(|a| a.rungs.len()).collect();
    let steps = plan.iter().flat_map(|a| a.rungs.clone()).collect();
    let mut rungs = RungForecast::all(steps).into_iter();
    let view = |(attempt, count): (ScriptAttempt, usize)| ScriptAttemptView {
        attempt: attempt.attempt,
        rungs: rungs.by_ref().take(count).collect(),
        appended: attempt.appended,
        places: attempt.places,
        diff: attempt.diff,
        since: attempt.since,
    };
    plan.into_iter().zip(counts).map(view).collect()
}

/// What is submitted again unchanged; from a checkpoint only what writes one.
pub fn unchanged(told: &AdoptedScript<'_>) -> Vec<UnchangedRetry> {
    let s = &told.inputs.supervision;
    let where_resumed = |times: u32, also: bool| if told.resumes && also { times } else { 0 };
    let all = [
        (RetryCause::NodeFailure, s.node_failure_retries),
        (RetryCause::Preemption, s.preemption_retries),
        (RetryCause::TimeLimit, s.time_limit_retries),
        (RetryCause::CoTenant, s.co_tenant_retries),
        (
            RetryCause::LateOom,
            where_resumed(s.late_oom_retries, told.samples_responses),
        ),
        (RetryCause::Leak, where_resumed(s.leak_retries, true)),
    ];
    let done = all
        .into_iter()
        .filter(|(_, times)| *times > 0 && s.resubmit);
    done.map(|(cause, times)| UnchangedRetry { cause, times })
        .collect()
}

/// What the preset says of jobs that go on from a checkpoint, where this one does, as far as its texts show.
pub fn of_checkpoints(told: &AdoptedScript<'_>) -> BTreeSet<String> {
    let goes_on = told.adoption.is_some_and(|a| resumes(told.preset, a));
    let notes = told.preset.of_checkpoints().into_iter();
    notes.filter(|_| goes_on).cloned().collect()
}

/// A value, and who says it.
pub fn told_with_origin(known: &Resolved) -> String {
    match &known.origin {
        Origin::Computed { expr } => format!("{}: {expr}", known.value),
        origin => format!("{}, by {origin}", known.value),
    }
}

/// Why a value is unknown of which the script has several.
const CHOSEN: &str = "is set under a condition";

/// The values that the first call of the program does not give as text.
pub fn computed(preset: &Preset, adoption: &Adoption<'_>) -> Vec<Computed> {
    let moved = |knob: &StackKnob| preset.ladder.iter().any(|r| r.moves(&knob.name, knob.role));
    let knobs = adoption.knobs().into_iter();
    let computed = knobs.filter_map(|(knob, found)| {
        let fixed = adoption.is_fixed(knob) && moved(knob);
        let (span, why) = match (&found.state, found.maybe, found.way) {
            (KnobState::Known(_), ..) if fixed => {
                (found.place(), "stands in code that oomctl cannot change")
            }
            (KnobState::Computed(span, Why::Condition), ..) => (Some(*span), CHOSEN),
            (KnobState::Computed(span, why), ..) => (Some(*span), why.describe()),
            (_, true, KnobForm::Composed) => (
                found.place(),
                "may be overridden by a file that was not read",
            ),
            (_, true, _) => (found.place(), CHOSEN),
            _ => return None,
        };
        let at = place(&adoption.reading, span);
        let behind = !found.launcher && !matches!(found.way, KnobForm::Code { .. });
        let spelling = adoption.spelling(knob).filter(|_| behind);
        let wins = spelling.and_then(|spelling| match spelling {
            Spelling::Flag(flag) if flag.ends_with('=') => Some(format!("{flag}VALUE")),
            Spelling::Flag(flag) => Some(format!("{flag} VALUE")),
            Spelling::Switch(flag) => Some(flag),
            Spelling::Hydra(key) | Spelling::HydraAdd(key) | Spelling::HydraForce(key) => {
                Some(format!("{key}=VALUE"))
            }
            Spelling::Env(_) | Spelling::Yaml(_) | Spelling::Key(_) => None,
        });
        Some(Computed {
            knob: knob.name.clone(),
            why: format!("{why} ({at})"),
            reason: why,
            moved: moved(knob),
            fixed: fixed && matches!(found.state, KnobState::Known(_)),
            wins,
        })
    });
    computed.collect()
}

/// The values that no rung changes although one would, each with its place, in a line for each reason; and how to give those that
/// the script chooses among. `script` is how it is given to oomctl.
pub fn unchangeable(computed: &[Computed], values: &ScriptValues, script: Option<&str>) -> String {
    let mut out = String::new();
    let computed: Vec<&Computed> = computed.iter().filter(|c| c.moved).collect();
    let at = |c: &Computed| format!("{} ({})", c.knob, values.place_of(&c.knob).unwrap_or("?"));
    let reasons: BTreeSet<&str> = computed.iter().map(|c| c.reason).collect();
    for reason in reasons {
        let knobs = computed.iter().copied().filter(|c| c.reason == reason);
        let knobs: Vec<String> = knobs.map(at).collect();
        let it = if knobs.len() == 1 { "it" } else { "each" };
        let _ = writeln!(out, "no rung changes {}: {it} {reason}", knobs.join(", "));
        let chosen = computed
            .iter()
            .filter(|c| reason == CHOSEN && c.reason == reason);
        let given: Vec<&str> = chosen.filter_map(|c| c.wins.as_deref()).collect();
        if let Some(script) = script.filter(|_| !given.is_empty()) {
            let _ = writeln!(
                out,
                "  to let oomctl change {it}: end the command with \"$@\", then `oomctl submit {script} {}`",
                given.join(" ")
            );
        }
    }
    out
}

impl UnchangedRetry {
    /// `preemption (up to 10x)`: what shows that another try ends alike ends them sooner.
    pub fn text(&self) -> String {
        format!("{} (up to {}x)", self.name(), self.times)
    }

    /// Its cause, for people.
    pub fn name(&self) -> String {
        match self.cause {
            RetryCause::CoTenant => "other processes on the GPU".to_owned(),
            RetryCause::LateOom => "late out-of-memory".to_owned(),
            RetryCause::Leak => "memory leak (resumes)".to_owned(),
            other => other.to_string(),
        }
    }
}

/// Files that the scripts name and that are not there. The script that activates an environment gives no value.
/// `others` are further ones.
pub fn missing<'p>(
    adoption: Option<&Adoption<'_>>,
    others: impl Iterator<Item = &'p String>,
) -> Vec<String> {
    let activates = |path: &&String| path.rsplit('/').next() == Some("activate");
    let reading = adoption.iter().map(|adoption| &adoption.reading);
    let wanted = reading.flat_map(|reading| reading.wanted.difference(&reading.data));
    let wanted = wanted.filter(|path| !activates(path)).cloned();
    wanted.chain(others.cloned()).collect()
}

/// Whether a script starts a Python program.
pub fn starts_python(adoption: &Adoption<'_>) -> bool {
    adoption
        .reading
        .calls
        .iter()
        .any(|call| match &call.target {
            CallTarget::Script(path) => path.ends_with(".py"),
            CallTarget::Module(_) | CallTarget::Code => true,
            CallTarget::Program(_) => false,
        })
}

/// Of a program that no preset knows by its name, and whose batch of training is not known: its words that have one in
/// their names.
pub fn batch_words(adoption: &Adoption<'_>) -> Option<Vec<String>> {
    let batches = [Role::TrainBatch, Role::MicroBatch].map(Some);
    let mut knobs = adoption.knobs().into_iter();
    let is_known = knobs.any(|(knob, _)| batches.contains(&knob.role));
    let of_framework = adoption
        .stack
        .is_some_and(|stack| !stack.is_of_any_program());
    if is_known || of_framework {
        return None;
    }
    let of_batch = |name: &str| {
        let name = name.to_lowercase();
        let aside = ["eval", "val", "test", "infer", "accum"];
        let mut parts = name.split(['-', '_']);
        let short = parts.any(|part| ["bs", "bsz", "mbs", "micro"].contains(&part));
        let is_batch = name.contains("batch") || short;
        name.starts_with("--") && is_batch && !aside.iter().any(|a| name.contains(a))
    };
    let calls = adoption.reading.calls.iter();
    let own = calls.flat_map(|call| call.words.get(call.args..).unwrap_or_default());
    let names = own.map(|word| word.text.text());
    let names = names.filter_map(|word| word.split('=').next().map(str::to_owned));
    let mut found: Vec<String> = names.filter(|name| of_batch(name)).collect();
    found.dedup();
    Some(found)
}
