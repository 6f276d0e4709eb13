//! What a rung does to the training of a program that nobody could read.

use crate::core::recipe::Preset;
use oomctl_base::{Effect, Role};
use oomctl_scripts::Adoption;

/// Says of the rungs that cut a batch into smaller parts that their effect is unknown, where the program is the user's own and its
/// text was not read.
pub fn doubt(preset: &mut Preset, adoption: &Adoption<'_>) {
    let own = adoption
        .stack
        .is_some_and(|stack| stack.is_of_any_program());
    let is_read = adoption.calls().all(|call| call.names.is_some());
    if !own || is_read {
        return;
    }
    let cuts = [Role::MicroBatch, Role::GradAccumulation];
    let cut: Vec<String> = cuts
        .into_iter()
        .flat_map(|role| preset.with_role(role))
        .map(|knob| knob.name.clone())
        .collect();
    for rung in &mut preset.ladder {
        let cuts = cut.iter().any(|knob| rung.moves(knob, None));
        if cuts && rung.effect == Some(Effect::SameMath) {
            rung.effect = Some(Effect::Unknown);
        }
    }
}
