//! What is not said of the user's own scripts, for they have nothing to do with it.

use super::request::Request;
use crate::core::adopt::resumes;
use crate::core::ladder::{Skipped, Step};
use crate::core::recipe::{Layer, RungSpec};
use oomctl_base::Role;

impl Request {
    /// Marks the rungs that find nothing to change, or whose condition does not hold, where the scripts give none of what they move.
    pub(super) fn set_aside(&self, rungs: &[Layer], skipped: &mut [Skipped]) {
        let Some(recipe) = self.own_scripts().and_then(|_| self.recipe(rungs).ok()) else {
            return;
        };
        let knobs = self.preset().knobs.iter().filter(|knob| {
            let given = recipe.values.get(&knob.name);
            given.is_some_and(|given| !given.origin.is_of_preset() && !given.value.is_null())
        });
        let given: Vec<_> = knobs.collect();
        let is_for_others = |rung: &RungSpec, reason: &str| {
            let condition = rung.when_text.as_ref().is_some_and(|text| text.has(reason));
            condition || [Skipped::NOTHING_LEFT, Skipped::NOT_HERE].contains(&reason)
        };
        for one in skipped {
            let rung = self.inputs().ladder.iter().find(|r| r.rung == one.rung);
            one.aside = rung.is_some_and(|rung| {
                // Host memory is asked of the scheduler, whatever the scripts give.
                !rung.answers.iter().any(|class| class == "host_oom")
                    && is_for_others(rung, &one.reason)
                    && !given.iter().any(|knob| rung.moves(&knob.name, knob.role))
            });
        }
    }

    /// Leaves out remarks about checkpoints from which the scripts do not go on.
    pub(super) fn without_checkpoints(&self, steps: &mut [Step]) {
        let Some(adoption) = self.adoption() else {
            return;
        };
        let said = self.preset().of_checkpoints();
        if !resumes(self.preset(), &adoption) {
            for step in steps {
                step.notes.retain(|note| !said.contains(&note));
            }
        }
    }

    /// The rungs that would ask for host memory, where the job asks for no amount of it.
    pub fn asks_no_memory(&self, rungs: &[Layer]) -> Vec<&str> {
        let recipe = self.recipe(rungs).ok();
        let knob = self.preset().with_role(Role::HostMemory).next();
        let open = knob.filter(|knob| recipe.is_some_and(|r| r.value(&knob.name).is_null()));
        let ladder = self.inputs().ladder.iter();
        let asks = |rung: &&RungSpec| open.is_some_and(|knob| rung.moves(&knob.name, knob.role));
        ladder.filter(asks).map(|rung| rung.rung.as_str()).collect()
    }
}
