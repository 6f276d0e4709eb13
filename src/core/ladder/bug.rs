//! What a known bug says of rungs: which cannot help, and which comes first.
//!
//! Rule: only a bug that is certain says anything.

use super::context::ClimbContext;
use crate::core::recipe::expr::{Scope, holds, names};
use crate::core::recipe::{Move, Preset, RungSpec, Shaper};
use oomctl_diagnose::{Incident, KnownBug};

/// Asks the configuration that an attempt had whether it meets what its bugs ask for; those that it does not meet go.
pub fn settle(context: &ClimbContext<'_>, incident: &mut Incident) {
    if incident.known_bugs.iter().all(|bug| bug.when.is_none()) {
        return;
    }
    let shaper = Shaper::new(context.preset, context.cluster, context.cluster_name);
    let layers = context.layers.iter().chain(context.rungs);
    let Ok((shape, _)) = shaper.judged(layers) else {
        return;
    };
    let holds = |asked: &str| {
        let unknown = shaper.unknown_in(shape.recipe(), &[asked]);
        let known = unknown.is_none() && names_are_known(context.preset, asked, shape.scope());
        let told = shaper.expressions.holds(asked, shape.scope()).ok();
        told.filter(|_| known)
    };
    incident.known_bugs.retain_mut(|bug| bug.settle(holds));
    incident.known_bugs.sort_by_key(|bug| !bug.certain);
}

/// Does the preset know every name of an expression, but those of which the expression asks that itself?
fn names_are_known(preset: &Preset, asked: &str, scope: &Scope) -> bool {
    let Ok(expression) = preset.env().compile_expression(asked) else {
        return false;
    };
    names(&expression).iter().all(|name| {
        let group = name.split('.').next().unwrap_or(name);
        let text = format!("{name} is defined");
        asked.contains(&format!("{group} is defined"))
            || holds(preset.env(), &text, scope).unwrap_or(false)
    })
}

/// The bugs of an incident that are certain.
pub(super) fn certain(incident: Option<&Incident>) -> Vec<KnownBug> {
    let bugs = incident.into_iter().flat_map(|i| &i.known_bugs);
    bugs.filter(|bug| bug.certain).cloned().collect()
}

/// Why a rung cannot help: all that it moves is of no use against a bug.
pub(super) fn objection(preset: &Preset, rung: &RungSpec, bugs: &[KnownBug]) -> Option<String> {
    let in_vain = |bug: &&KnownBug| {
        let useless = |name: &str| bug.useless.iter().any(|u| u == name);
        let mut moves = rung.moves.iter().filter(|m| !m.along).peekable();
        let moved = moves.peek().is_some();
        useless(&rung.rung)
            || moved && moves.all(|m| moved_by(preset, m).iter().any(|name| useless(name)))
    };
    let bug = bugs.iter().find(in_vain)?;
    let version = bug.version.as_deref().unwrap_or_default();
    Some(format!(
        "cannot help against {}, a bug of {} {version} ({})",
        bug.id, bug.package, bug.source
    ))
}

/// The same rungs, those that do what helps against a bug before the others.
pub(super) fn first<'l>(
    preset: &Preset,
    mut rungs: Vec<&'l RungSpec>,
    bugs: &[KnownBug],
) -> Vec<&'l RungSpec> {
    rungs.sort_by_key(|rung| !bugs.iter().any(|bug| helps(preset, rung, bug)));
    rungs
}

fn helps(preset: &Preset, rung: &RungSpec, bug: &KnownBug) -> bool {
    let does = |step: &Move| {
        let names = moved_by(preset, step);
        let to = serde_json::to_value(&step.to).ok();
        let mut settings = bug.helps.iter();
        !step.along && settings.any(|s| names.contains(&s.knob) && (s.to.is_none() || s.to == to))
    };
    rung.moves.iter().any(does)
}

/// The names under which a table of bugs may know what a move moves: role and knob.
fn moved_by(preset: &Preset, step: &Move) -> Vec<String> {
    let knob = step.knob.as_ref();
    let role = step.role.or_else(|| preset.knob(knob?)?.role);
    let role = role.and_then(|role| serde_json::to_value(role).ok());
    let role = role.and_then(|role| role.as_str().map(str::to_owned));
    knob.cloned().into_iter().chain(role).collect()
}
