//! The ladder of a job whose scripts are the user's own, rung by rung, without a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use oomctl::core::adopt::{assemble, layer, loosen, patched};
use oomctl::core::ladder::{ClimbContext, Decision, Step, climb};
use oomctl::core::recipe::{ClusterFacts, KnobSetFile, Layer, Preset, PresetFile};
use oomctl_base::{Refusal, Value};
use oomctl_scripts::{Adoption, Launchers, Patch, PatchError, Submission, SubmissionContext};

/// A job of the user's own with the knobs and the ladder of a preset.
pub(super) struct ScriptJob {
    preset: Preset,
    template: BTreeMap<String, String>,
    layer: Layer,
}

impl ScriptJob {
    /// Takes over what scripts say, as the newest version of the framework reads them.
    pub fn new(file: PresetFile, sets: Vec<KnobSetFile>, adoption: &Adoption<'_>) -> Self {
        let mut preset = assemble(file, sets, None).unwrap();
        let layer = layer(&preset, adoption);
        let layers = std::slice::from_ref(&layer);
        loosen(&mut preset, layers, &ClusterFacts::default());
        Self {
            template: preset.stand_in_templates(),
            layer,
            preset,
        }
    }

    /// The rung that a GPU out-of-memory would be answered with of which nothing is known.
    pub fn next(&self, rungs: &[Layer]) -> Result<Decision, Refusal> {
        let (cluster, layers) = (ClusterFacts::default(), std::slice::from_ref(&self.layer));
        let context = ClimbContext::new(&self.preset, &cluster, &self.template, layers, rungs);
        climb(&context, None)
    }

    /// The scripts with the values of some steps. A later step's value is the one that counts.
    pub fn patched(
        &self,
        adoption: &Adoption<'_>,
        steps: &[Step],
    ) -> Result<Patch, Vec<PatchError>> {
        let changes = steps.iter().flat_map(|s| &s.changes);
        let changes: BTreeMap<String, Value> = changes
            .map(|change| (change.knob.clone(), change.to.clone()))
            .collect();
        patched(&self.preset, adoption, &changes)
    }
}

fn with(text: &str, look: impl FnOnce(&ScriptJob, &Adoption<'_>)) {
    let preset = include_str!("../../presets/torchrun.yaml");
    let file: PresetFile = serde_yaml::from_str(preset).unwrap();
    let sets = [
        include_str!("../../presets/sets/slurm.yaml"),
        include_str!("../../presets/sets/model.yaml"),
        include_str!("../../presets/sets/pytorch.yaml"),
        include_str!("../../presets/sets/own-program.yaml"),
        include_str!("../../presets/sets/own-engine.yaml"),
        include_str!("../../presets/sets/rollout-rungs.yaml"),
    ];
    let sets: Vec<KnobSetFile> = sets
        .iter()
        .map(|t| serde_yaml::from_str(t).unwrap())
        .collect();
    let launchers: Launchers =
        serde_yaml::from_str(include_str!("../../presets/launchers/known.yaml")).unwrap();
    let file = file.with(sets);
    let stacks = Arc::new(vec![file.stack()]);
    let submission = Submission {
        script: "a.sh".to_owned(),
        ..Submission::default()
    };
    let files = BTreeMap::from([("a.sh".to_owned(), text.to_owned())]);
    let adoption = Adoption::read(SubmissionContext {
        submission: &submission,
        files: &files,
        launchers: &launchers,
        stacks: &stacks,
    });
    look(&ScriptJob::new(file, Vec::new(), &adoption), &adoption);
}

#[test]
fn the_first_rung_is_a_patch_of_the_script() {
    let text = "#!/bin/bash\n#SBATCH --mem=64G\nBS=32\ntorchrun t.py --batch_size $BS --gradient_accumulation_steps=2\n";
    with(text, |own, adoption| {
        assert!(own.layer.settings.contains_key("mem"));
        let Ok(Decision::Climb { steps, .. }) = own.next(&[]) else {
            panic!("no rung is taken");
        };
        assert_eq!(steps[0].rung, "halve-batch-keep-effective");
        let patch = own.patched(adoption, &steps).unwrap();
        let after = text.replace("BS=32", "BS=16").replace("steps=2", "steps=4");
        assert_eq!(patch.after[2].text, after);
    });
}

#[test]
fn what_a_script_computes_is_not_moved() {
    let text =
        "#!/bin/bash\ntorchrun t.py --batch_size $(expr 4 '*' 8) --gradient_accumulation_steps=2\n";
    with(text, |own, adoption| {
        assert!(own.layer.pins.contains_key("batch_size"));
        let decision = own.next(&[]);
        if let Ok(Decision::Climb { steps, .. }) = decision {
            let moved = steps.iter().flat_map(|s| &s.changes);
            assert!(moved.into_iter().all(|c| c.knob != "batch_size"));
        }
        assert_eq!(adoption.knobs().len(), 2);
    });
}
