//! What scripts have that a preset would refuse. They ran so: that is evidence against the preset.

use crate::core::recipe::{ClusterFacts, Layer, LayerKind, Preset, RuleStage, Shaper, bounds};
use oomctl_base::{Origin, Value};

/// Keeps every rung away from a value for which the preset has no place: what would follow from it is not known.
pub(super) fn keep(preset: &Preset, layer: &mut Layer, given: (&str, &Value), at: &Origin) {
    let (name, value) = given;
    let knob = preset.knobs.iter().find(|k| k.name == name);
    if let Some(what) = knob.and_then(|knob| bounds(knob, value)) {
        let text = format!("{what} ({at})");
        layer.pins.insert(name.to_owned(), Origin::Flag { text });
    }
}

/// Leaves out the rules of a preset that scripts break as they are, and says so, with the values for which it has no
/// place. What the scheduler has to allow stays a rule.
pub fn loosen(preset: &mut Preset, layers: &[Layer], cluster: &ClusterFacts) -> Vec<String> {
    let of_scripts = layers.iter().filter(|l| l.kind == LayerKind::Program);
    let mut told: Vec<String> = of_scripts
        .flat_map(|layer| {
            let pins = layer.pins.iter();
            pins.filter(|(knob, _)| {
                let given = layer.settings.get(*knob);
                given.is_some_and(|given| !given.value.is_null())
            })
        })
        .map(|(_, said)| format!("{said}; no rung changes it"))
        .collect();
    let asked = layers.iter().filter(|l| l.kind != LayerKind::Learned);
    let judged = Shaper::new(preset, cluster, None).judged(asked);
    let broken = judged.map(|(_, broken)| broken).unwrap_or_default();
    let broken = broken
        .into_iter()
        .filter(|(rule, _)| rule.stage != RuleStage::Job);
    let broken: Vec<(String, String)> = broken.map(|(r, p)| (r.name.clone(), p.what)).collect();
    let framework = preset.framework.as_ref();
    let framework = framework.map_or_else(|| preset.name.clone(), |f| f.name.clone());
    preset
        .rules
        .retain(|rule| broken.iter().all(|(name, _)| *name != rule.name));
    let left = broken.iter().map(|(_, what)| {
        format!("{framework} may refuse this job: {what}. oomctl submits it as it is")
    });
    told.extend(left);
    told
}
