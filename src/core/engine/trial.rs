//! What came of a probe: the run of a short job, read from its facts.

use super::ending::{memory_incident, of_others};
use super::outcome::Outcome;
use super::state::History;
use crate::core::request::{Inputs, Trial, TrialEnd};
use oomctl_diagnose::{Class, Incident};

/// The probe that a run is, after its inputs and facts; `None` for a run that is none.
pub fn trial(inputs: &Inputs, history: &History) -> Option<Trial> {
    let probe = inputs.probe.clone()?;
    let attempt = history.attempt();
    let above = inputs.layers.get(probe.below..).unwrap_or_default();
    let layers = above.iter().take(probe.taken.len());
    Some(Trial {
        run: inputs.run.clone(),
        layers: layers.cloned().collect(),
        end: end(history),
        measured: attempt.map(|a| a.measured.clone()).unwrap_or_default(),
        probe,
    })
}

fn end(history: &History) -> TrialEnd {
    let Some(outcome) = &history.outcome else {
        return TrialEnd::Open;
    };
    if *outcome == Outcome::Succeeded {
        return TrialEnd::Fitted;
    }
    let attempt = history.attempt();
    let status = attempt.and_then(|a| a.status.as_ref());
    let incident = memory_incident(status, attempt.and_then(|a| a.incident.as_ref()));
    let too_small =
        |i: &Incident| matches!(i.class, Class::GpuOom | Class::EngineMemory) && !of_others(i);
    match (outcome, incident.filter(too_small)) {
        (Outcome::Exhausted { .. }, Some(incident)) => TrialEnd::OutOfMemory(Box::new(incident)),
        (Outcome::Failed { reason, .. } | Outcome::Refused { reason, .. }, _)
        | (Outcome::Configuration { reason }, _) => TrialEnd::Failed {
            reason: reason.clone(),
        },
        _ => TrialEnd::Failed {
            reason: outcome.word().replace('_', " "),
        },
    }
}
