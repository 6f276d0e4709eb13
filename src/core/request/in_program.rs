//! What stands in a program's own text for what would help.

use oomctl_diagnose::{Class, Incident};
use oomctl_scripts::{InProgram, NumberInProgram};

/// Most values of a kind that are named.
const MOST: usize = 3;

/// Phases in which an inference engine takes its share of the memory.
const OF_ENGINE: [&str; 3] = ["kv_cache", "cuda_graph", "wake_up"];

/// Names the values of a program that a failure of a GPU's memory asks to be lower, or on.
pub(super) fn name(incident: &mut Incident, program: &InProgram) {
    let of_engine =
        incident.class == Class::EngineMemory || OF_ENGINE.contains(&incident.phase.as_str());
    if !incident.fatal || !of_engine && incident.class != Class::GpuOom {
        return;
    }
    let is_asked = |n: &&NumberInProgram| match n.is_switch {
        true => !of_engine && incident.phase != "eval",
        false => n.is_share == of_engine && (of_engine || is_of_phase(program, &incident.phase, n)),
    };
    let (switches, numbers): (Vec<_>, Vec<_>) = (program.numbers.iter())
        .filter(is_asked)
        .partition(|n| n.is_switch);
    let numbers = numbers.iter().take(MOST).map(|n| (n, "a lower ", ""));
    let switches = switches.iter().take(MOST).map(|n| (n, "", " turned on"));
    for (number, before, behind) in numbers.chain(switches) {
        let help = format!("{before}`{}` in {}{behind}", number.text, number.place);
        if !incident.helps.contains(&help) {
            incident.helps.push(help);
        }
    }
}

/// Whether a batch is of the phase that failed. An evaluation without a batch of its own has that of training.
fn is_of_phase(program: &InProgram, phase: &str, number: &NumberInProgram) -> bool {
    let of_evaluation = NumberInProgram::is_of_evaluation;
    match phase {
        "unknown" => true,
        "eval" => of_evaluation(number) || !program.numbers.iter().any(of_evaluation),
        _ => !of_evaluation(number),
    }
}
