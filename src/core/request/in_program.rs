//! What stands in a program's own text for what would help.

use oomctl_diagnose::{Class, Incident};
use oomctl_scripts::InProgram;

/// Most numbers that are named.
const MOST: usize = 3;

/// Phases in which an inference engine takes its share of the memory.
const OF_ENGINE: [&str; 3] = ["kv_cache", "cuda_graph", "wake_up"];

/// Names the numbers of a program that a failure of a GPU's memory asks to be lower.
pub(super) fn name(incident: &mut Incident, program: &InProgram) {
    let of_engine =
        incident.class == Class::EngineMemory || OF_ENGINE.contains(&incident.phase.as_str());
    if !incident.fatal || !of_engine && incident.class != Class::GpuOom {
        return;
    }
    let asked = program.numbers.iter().filter(|n| n.is_share == of_engine);
    for number in asked.take(MOST) {
        let help = format!("a lower `{}` in {}", number.text, number.place);
        if !incident.helps.contains(&help) {
            incident.helps.push(help);
        }
    }
}
