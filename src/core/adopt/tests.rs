//! A job of the user's own and its first rung.

use std::collections::BTreeMap;

use super::ScriptJob;
use crate::core::ladder::Decision;
use crate::core::recipe::{KnobSetFile, PresetFile};
use oomctl_scripts::{Adoption, Launchers, Submission, SubmissionContext};

fn with(text: &str, look: impl FnOnce(&ScriptJob, &Adoption<'_>)) {
    let preset = include_str!("../../../presets/torchrun.yaml");
    let file: PresetFile = serde_yaml::from_str(preset).unwrap();
    let sets = [
        include_str!("../../../presets/sets/slurm.yaml"),
        include_str!("../../../presets/sets/model.yaml"),
        include_str!("../../../presets/sets/pytorch.yaml"),
    ];
    let sets: Vec<KnobSetFile> = sets
        .iter()
        .map(|t| serde_yaml::from_str(t).unwrap())
        .collect();
    let launchers: Launchers =
        serde_yaml::from_str(include_str!("../../../presets/launchers/known.yaml")).unwrap();
    let file = file.with(sets);
    let stacks = [file.stack()];
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
    look(
        &ScriptJob::new(file, Vec::new(), None, &adoption).unwrap(),
        &adoption,
    );
}

#[test]
fn the_first_rung_is_a_patch_of_the_script() {
    let text = "#!/bin/bash\n#SBATCH --mem=64G\nBS=32\ntorchrun t.py --batch_size $BS --gradient_accumulation_steps=2\n";
    with(text, |own, adoption| {
        assert!(own.layer().settings.contains_key("mem"));
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
        assert!(own.layer().pins.contains_key("batch_size"));
        let decision = own.next(&[]);
        if let Ok(Decision::Climb { steps, .. }) = decision {
            let moved = steps.iter().flat_map(|s| &s.changes);
            assert!(moved.into_iter().all(|c| c.knob != "batch_size"));
        }
        assert_eq!(adoption.knobs().len(), 2);
    });
}
