//! What stands in a program's own text for what would help.

use oomctl_diagnose::{Class, Incident};
use oomctl_scripts::{InProgram, NumberInProgram};

/// Most values of a kind that are named.
const MOST: usize = 3;

/// Phases in which an inference engine takes its share of the memory.
const OF_ENGINE: [&str; 3] = ["kv_cache", "cuda_graph", "wake_up"];

/// Phases in which a batch of training is on the GPU, or may be.
const OF_TRAINING: [&str; 9] = [
    "unknown",
    "forward",
    "backward",
    "dataloader",
    "rollout",
    "old_logprob",
    "ref_logprob",
    "critic",
    "actor_update",
];

/// Phases in which a program's data are put together.
const OF_DATA: [&str; 3] = ["preparation", "dataloader", "load"];

/// Phases in which there are neither states of an optimizer nor activations of a step.
const WITHOUT_STATES: [&str; 2] = ["eval", "preparation"];

/// Names the values of a program that a failure of a GPU's memory asks to be lower, or on.
pub(super) fn name(incident: &mut Incident, program: &InProgram) {
    let of_engine =
        incident.class == Class::EngineMemory || OF_ENGINE.contains(&incident.phase.as_str());
    if !incident.fatal || !of_engine && incident.class != Class::GpuOom {
        return;
    }
    let is_asked = |n: &&NumberInProgram| match n.is_switch {
        _ if n.is_device => false,
        true => !of_engine && !WITHOUT_STATES.contains(&incident.phase.as_str()),
        false => n.is_share == of_engine && (of_engine || is_of_phase(&incident.phase, n)),
    };
    let (switches, numbers): (Vec<_>, Vec<_>) = (program.numbers.iter())
        .filter(is_asked)
        .partition(|n| n.is_switch);
    let numbers = numbers.iter().take(MOST).map(|n| (n, "a lower ", ""));
    let switches = switches.iter().take(MOST).map(|n| (n, "", " turned on"));
    for (number, before, behind) in numbers.chain(switches) {
        let other = match number.is_default {
            true => ", or in the settings file that the program loads over it",
            false => "",
        };
        let help = format!(
            "{before}`{}` in {}{behind}{other}",
            number.text, number.place
        );
        if !incident.helps.contains(&help) {
            incident.helps.push(help);
        }
    }
    if let Some(help) = device(incident, program) {
        incident.helps.insert(0, help);
    }
}

/// The device that puts the data on the GPU, where a line of the traceback names it.
fn device(incident: &Incident, program: &InProgram) -> Option<String> {
    if !OF_DATA.contains(&incident.phase.as_str()) {
        return None;
    }
    let shown = |n: &&NumberInProgram| {
        let mut frames = incident.own_frames.iter();
        n.is_device && frames.any(|frame| frame.code.contains(&n.name))
    };
    let device = program.numbers.iter().find(shown)?;
    let NumberInProgram { text, place, .. } = device;
    Some(format!(
        "`{text}` in {place} puts the data on the GPU: on \"cpu\" they wait in host memory, and each part is moved when it is used"
    ))
}

/// Whether a batch is of the phase that failed.
fn is_of_phase(phase: &str, number: &NumberInProgram) -> bool {
    match phase {
        "unknown" => true,
        "eval" => number.is_of_evaluation(),
        _ => OF_TRAINING.contains(&phase) && !number.is_of_evaluation(),
    }
}
