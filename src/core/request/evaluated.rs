//! Whether memory ran out in an evaluation, by the text of the program.

use oomctl_diagnose::{Class, Incident};
use oomctl_scripts::EvaluationLines;

/// Phases that frames of a plain program tell of training and evaluation alike.
const OF_BOTH: [&str; 2] = ["unknown", "forward"];

/// Calls the phase an evaluation where a frame of the user's own stands in lines that evaluate.
pub(super) fn place(incident: &mut Incident, lines: &[EvaluationLines]) {
    let of_memory = matches!(incident.class, Class::GpuOom | Class::HostOom);
    if !of_memory || !incident.fatal || !OF_BOTH.contains(&incident.phase.as_str()) {
        return;
    }
    let found = incident.own_frames.iter().rev().find_map(|frame| {
        let line = frame.line.unwrap_or(0);
        let mut lines = lines.iter();
        let held = lines.find(|of| of.hold(&frame.file, line, &frame.function))?;
        Some((frame.clone(), held.is_looped))
    });
    if let Some((frame, in_pieces)) = found {
        incident.died_in_evaluation(&frame, !in_pieces);
    }
}
