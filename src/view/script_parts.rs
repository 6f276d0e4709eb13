//! What the view of a script of the user's own is made of.

use schemars::JsonSchema;
use serde::Serialize;

use super::rung_view::RungForecast;
use super::script_values::place;
use crate::core::engine::RetryCause;
use crate::core::request::{Inputs, ScriptAttempt};
use oomctl_scripts::{Adoption, KnobForm, KnobState, Spelling};

/// An attempt that may come.
#[derive(Serialize, JsonSchema)]
pub struct ScriptAttemptView {
    pub attempt: u32,
    pub rungs: Vec<RungForecast>,
    /// Values that are appended to the command line, because they are not changed where they stand.
    pub appended: Vec<String>,
    /// What differs from the user's files.
    pub diff: String,
    /// What differs from the attempt before.
    pub since: String,
}

/// Another attempt with the same configuration.
#[derive(Serialize, JsonSchema)]
pub struct UnchangedRetry {
    pub cause: RetryCause,
    pub times: u32,
}

/// A value that code computes.
#[derive(Serialize, JsonSchema)]
pub struct Computed {
    pub knob: String,
    pub why: String,
    /// What would win over it, behind the other words of the command; None for what the launcher or a file is told.
    pub wins: Option<String>,
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
        diff: attempt.diff,
        since: attempt.since,
    };
    plan.into_iter().zip(counts).map(view).collect()
}

/// What is submitted again unchanged; from a checkpoint only what writes one.
pub fn unchanged(inputs: &Inputs, resumes: bool) -> Vec<UnchangedRetry> {
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
pub fn computed(adoption: &Adoption<'_>) -> Vec<Computed> {
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

impl UnchangedRetry {
    /// `preemption (10x)`.
    pub fn text(&self) -> String {
        format!("{} ({}x)", self.name(), self.times)
    }

    /// Its cause, for people.
    pub fn name(&self) -> String {
        match self.cause {
            RetryCause::CoTenant => "other processes on the GPU".to_owned(),
            RetryCause::LateOom => "late out-of-memory".to_owned(),
            RetryCause::Leak => "memory leak".to_owned(),
            other => other.to_string(),
        }
    }
}
