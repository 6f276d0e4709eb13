//! What the steps before a failure say of it.

use super::class::Class;
use super::findings::Findings;
use super::incident::{CODE_ASKED, Incident};

/// Phases in which a step was under way.
pub(super) const TRAINING: [&str; 5] = [
    "unknown",
    "forward",
    "backward",
    "optimizer_step",
    "actor_update",
];

/// Host memory that ran out while data were loaded.
const LOADING: (Class, &str) = (Class::HostOom, "dataloader");

/// Once a step was begun, or where a GPU ran out, data that were prepared say no more than that data were loaded.
pub(super) fn prepared(incident: &mut Incident) {
    let loads = incident.class != Class::HostOom || incident.step.is_some();
    if incident.phase == "preprocessing" && loads {
        incident.phase = LOADING.1.to_owned();
    }
}

/// What the end of host memory after whole epochs says: each reads the same data as the first, and no more is needed
/// unless something is kept.
pub(super) fn epochs(incident: &Incident, findings: &Findings<'_>) -> Option<String> {
    const WHOLE: u64 = 3;
    let of_host = incident.class == Class::HostOom && incident.fatal && incident.course.is_none();
    let during = ["dataloader", "eval"].iter().chain(&TRAINING);
    let during = during.into_iter().any(|phase| *phase == incident.phase);
    if !of_host || !during {
        return None;
    }
    let epochs = findings.epochs()?.saturating_sub(1);
    (epochs >= WHOLE).then(|| {
        format!(
            "{epochs} epochs over the same data went well before, so host memory grows: does the program keep tensors, predictions or figures, or do its workers copy what they read? More memory only delays the end"
        )
    })
}

/// What a death after many steps says, where no figures of the steps before are there to say more.
pub(super) fn late(incident: &Incident, findings: &Findings<'_>) -> Option<String> {
    const MANY: u64 = 50;
    // `step` is the one that was begun.
    let step = incident.step?.checked_sub(1).filter(|step| *step >= MANY)?;
    // A step may be one of its epoch.
    let before = match findings.epochs() {
        Some(2..) => "whole epochs".to_owned(),
        _ => format!("{step} steps"),
    };
    let of_memory = matches!(incident.class, Class::GpuOom | Class::HostOom) && incident.fatal;
    let unclear = incident.course.is_none() && incident.co_tenant_bytes.is_none();
    if of_memory && unclear && (incident.class, incident.phase.as_str()) == LOADING {
        return Some(format!(
            "{before} went well before: this batch was larger, or host memory grows from step to step (do the workers copy what they read, does the program keep tensors or predictions?)"
        ));
    }
    let training = TRAINING.contains(&incident.phase.as_str());
    (of_memory && unclear && training).then(|| {
        format!(
            "{before} went well before: this one had a larger batch or longer sequences, or memory grows from step to step {CODE_ASKED}"
        )
    })
}
