//! What the table of remedies names, and what the ladders of the shipped presets do: one test for all pairs.

use crate::cli::script::Shelves;
use crate::core::adopt::assemble;
use crate::core::ladder::{ClimbContext, Decision, Skipped, climb, leads_to};
use crate::core::recipe::{
    ClusterFacts, Layer, LayerKind, Move, Preset, PresetFile, RungSpec, Scalar,
};
use crate::io::library::Library;
use oomctl_base::{Origin, Role, Value, ValueKind};
use oomctl_diagnose::{Class, Incident, Remedy, Scanner, remedies, signature_examples};

/// Presets as jobs of the user's own have them.
fn presets() -> Vec<Preset> {
    let library = Library::new(None);
    let shelves = Shelves::of(&library, None).unwrap();
    let assembled = |file: &PresetFile| assemble(file.clone(), Vec::new(), None).ok();
    let all = shelves.presets.iter().map(assembled);
    // One that changes copies of the user's own files cannot be put together without them.
    all.flatten().collect()
}

/// Values from which the levers can go both ways.
fn levers(preset: &Preset) -> Layer {
    let mut layer = Layer::new(LayerKind::Flags);
    for knob in &preset.knobs {
        let value = match (knob.role, knob.kind) {
            (Some(Role::RolloutMemoryFraction), _) => Value::Float(0.6),
            (Some(Role::RolloutSequences), ValueKind::Int) => Value::Int(256),
            (Some(Role::NumWorkers | Role::PreprocessingWorkers), ValueKind::Int) => Value::Int(8),
            (Some(Role::DataInMemory), ValueKind::Bool) => Value::Bool(true),
            (Some(Role::HostMemory), _) => Value::Text("64G".to_owned()),
            (
                Some(
                    Role::RolloutEager
                    | Role::ParamOffload
                    | Role::OptimizerOffload
                    | Role::FusedLoss,
                ),
                ValueKind::Bool,
            ) => Value::Bool(false),
            _ => continue,
        };
        let text = format!("{}={value}", knob.name);
        layer.set(&knob.name, value, Origin::Flag { text });
    }
    layer
}

/// The first rung, and the reasons for those that were looked at before it; `None` where the values are not legal.
fn decided(
    preset: &Preset,
    layers: &[Layer],
    incident: &Incident,
) -> Option<(Option<String>, Vec<Skipped>)> {
    let cluster = ClusterFacts {
        node_memory: Some("512G".to_owned()),
        gpus_per_node: Some(8),
        ..ClusterFacts::default()
    };
    let templates = preset.stand_in_templates();
    let context = ClimbContext::new(preset, &cluster, &templates, layers, &[]);
    let (first, skipped) = match climb(&context, Some(incident)).ok()? {
        Decision::Climb { steps, skipped, .. } => (steps.first().map(|s| s.rung.clone()), skipped),
        Decision::Exhausted { skipped, .. } => (None, skipped),
    };
    Some((first, skipped))
}

/// Rungs that do what is named, and whether the first rung is one; or the one that is neither taken nor refused for a reason
/// of its own.
fn outcome(preset: &Preset, layers: &[Layer], incident: &Incident) -> Result<Option<bool>, String> {
    let helps: Vec<&Remedy> = remedies(incident)
        .iter()
        .flat_map(|row| &row.helps)
        .filter(|remedy| remedy.ahead_of.is_empty())
        .collect();
    let named = |rung: &&_| helps.iter().any(|remedy| leads_to(preset, rung, remedy));
    let named: Vec<&str> = preset
        .ladder
        .iter()
        .filter(named)
        .map(|r| r.rung.as_str())
        .collect();
    let Some((first, skipped)) = decided(preset, layers, incident).filter(|_| !named.is_empty())
    else {
        return Ok(None);
    };
    // A rung whose moves have no direction of their own may be one that does the opposite.
    let clear = |rung: &RungSpec| {
        let known = |m: &Move| {
            m.times.is_some() || m.plus.is_some() || matches!(m.to, Some(Scalar::Bool(_)))
        };
        rung.moves.iter().filter(|m| !m.along).all(known)
    };
    let worsens = |rung: &&RungSpec| {
        let rows = remedies(incident).into_iter();
        let mut worse = rows.flat_map(|row| &row.worse);
        clear(rung) && worse.any(|remedy| leads_to(preset, rung, remedy))
    };
    let mut ladder = preset.ladder.iter();
    if let Some(rung) = ladder.find(|r| Some(&r.rung) == first.as_ref() && worsens(r)) {
        return Err(format!("{} makes it worse, and is taken", rung.rung));
    }
    if first.as_deref().is_some_and(|first| named.contains(&first)) {
        return Ok(Some(true));
    }
    let clear = |name: &str| preset.ladder.iter().any(|r| r.rung == name && clear(r));
    for rung in named {
        let reason = skipped
            .iter()
            .find(|s| s.rung == rung)
            .map(|s| s.reason.as_str());
        let other = |why: &str| why == "for another kind of failure" && clear(rung);
        if reason.is_none_or(|why| why.is_empty() || other(why)) {
            return Err(format!("{rung}: {reason:?}, and {first:?} is taken"));
        }
    }
    Ok(Some(false))
}

/// What each signature's example tells, where it ends a job and the table has a row for it.
fn examples() -> Vec<(&'static str, Incident)> {
    let incident = |example: &str| {
        let mut scanner = Scanner::new(&[]);
        let source = scanner.source("example.log");
        scanner.feed(source, 0, format!("{example}\n").as_bytes());
        scanner.finish_source(source);
        scanner.verdict(None)
    };
    let all = signature_examples().map(|(id, example)| (id, incident(example)));
    all.filter(|(_, i)| i.fatal && !remedies(i).is_empty())
        .collect()
}

#[test]
fn each_ladder_begins_with_what_the_failure_names_or_says_why_not() {
    let presets = presets();
    let mut wrong = Vec::new();
    for (signature, incident) in examples() {
        let (mut asked, mut taken) = (0, 0);
        for preset in &presets {
            for layers in [&[][..], &[levers(preset)]] {
                match outcome(preset, layers, &incident) {
                    Ok(Some(remedy)) => (asked, taken) = (asked + 1, taken + usize::from(remedy)),
                    Ok(None) => {}
                    Err(what) => wrong.push(format!("{signature} in {}: {what}", preset.name)),
                }
            }
        }
        // A smaller loader is asked for by name only (`--allow`).
        if asked > 0 && taken == 0 && incident.class != Class::Shm {
            wrong.push(format!("{signature}: no ladder begins with its remedy"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
