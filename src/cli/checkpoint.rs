//! A word at submission about what there will be to go on from.

use super::print;
use crate::core::recipe::Role;
use crate::core::supervise::{Intent, Request};

/// Warns where no checkpoint is ever written.
pub fn tell(request: &Request) {
    let preset = request.preset();
    if preset.checkpoint.is_none() || request.is_probe() || request.resumes(&[]) {
        return;
    }
    // What breaks a rule is told by whoever needs the configuration.
    let Ok(shape) = request.shape(&[]) else {
        return;
    };
    let Some(knob) = preset.with_role(Role::CheckpointInterval).next() else {
        return;
    };
    let name = &knob.name;
    print::talk(&format!(
        "{name} is {}: no checkpoint is written, and whatever ends an attempt, the next begins at step 0 (--set {name}=N)",
        shape.recipe().value(name)
    ));
}
