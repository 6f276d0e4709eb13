//! What the table of remedies names, and what the ladders of the shipped presets do: one test for each pair.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::own::Shelves;
use crate::core::adopt::assemble;
use crate::core::diagnose::{Incident, examples, remedies};
use crate::core::ladder::{Decision, Footing, Policy, climb};
use crate::core::recipe::{ClusterFacts, Kind, Layer, LayerKind, Origin, Preset, Value};
use crate::io::library::Library;

/// Presets with every knob that has no value, so that their defaults are a configuration.
fn presets(library: &Library) -> Vec<Preset> {
    let shelves = Shelves::of(library, None).unwrap();
    let all = shelves.presets.iter().map(|file| {
        let sets = Shelves::sets(library, file).unwrap();
        assemble(file.clone(), sets, None).ok()
    });
    // One that changes copies of the user's own files cannot be put together without them.
    all.flatten().collect()
}

/// Values for knobs that must have one.
fn needed(preset: &Preset) -> Layer {
    let mut layer = Layer::new(LayerKind::Flags);
    for knob in preset.knobs.iter().filter(|k| k.required) {
        let value = match knob.kind {
            Kind::Int => Value::Int(1),
            Kind::Float => Value::Float(0.5),
            Kind::Bool => Value::Bool(true),
            _ => Value::Text("x".to_owned()),
        };
        let text = format!("{}=x", knob.name);
        layer.set(&knob.name, value, Origin::Flag { text });
    }
    layer
}

/// Roles that the remedies of an incident name.
fn roles(incident: &Incident) -> BTreeSet<String> {
    let helps = remedies(incident).into_iter().flat_map(|row| &row.helps);
    let roles = helps.flat_map(|r| r.raises.iter().chain(&r.lowers));
    roles.cloned().collect()
}

fn decided(preset: &Preset, layers: &[Layer], library: &Library, incident: &Incident) -> Decision {
    let templates = library.templates().unwrap();
    let footing = Footing {
        preset,
        ladder: &preset.ladder,
        policy: Policy::Ladder,
        whole_rungs: false,
        cluster: &ClusterFacts::default(),
        cluster_name: None,
        templates: &templates,
        layers,
        rungs: &[],
        attempt: 1,
    };
    climb(&footing, Some(incident)).unwrap()
}

/// What becomes of the remedies in one preset's ladder: the rung that is taken, or why each of theirs is not.
fn told(preset: &Preset, library: &Library, incident: &Incident) -> String {
    let decision = decided(preset, &[needed(preset)], library, incident);
    let (taken, skipped) = match decision {
        Decision::Climb { steps, skipped, .. } => (steps.first().map(|s| s.rung.clone()), skipped),
        Decision::Exhausted { skipped, .. } => (None, skipped),
    };
    let mut text = taken.unwrap_or_else(|| "nothing".to_owned());
    for left in skipped {
        let _ = write!(text, "; not {}: {}", left.rung, left.reason);
    }
    text
}

#[test]
fn zz_table() {
    let library = Library::new(None);
    let mut out = String::new();
    let all = presets(&library);
    for (id, incident) in examples() {
        if roles(&incident).is_empty() {
            continue;
        }
        for preset in &all {
            let _ = writeln!(
                out,
                "{id} | {} {} | {} | {}",
                incident.kind,
                incident.phase,
                preset.name,
                told(preset, &library, &incident)
            );
        }
    }
    std::fs::write("/tmp/k2t/table.txt", out).unwrap();
}
