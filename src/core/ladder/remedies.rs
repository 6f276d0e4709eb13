//! What a failure names as its remedy: which rungs come first, which make it worse.

use std::cmp::Ordering;

use super::decision::{Change, Skipped};
use super::moves::knobs;
use crate::core::recipe::{Knob, Move, Preset, RungSpec, Scalar};
use oomctl_base::{Role, Value};
use oomctl_diagnose::{Advice, Class, Incident, Remedy, others, remedies};

/// Values that say that something is off, or that nobody turned it on.
const OFF: [&str; 6] = ["none", "off", "false", "disabled", "eager", "auto"];

/// What is known to help against one failure, and what is known to make it worse.
#[derive(Debug, Clone, Default)]
pub(super) struct Remedies {
    class: Option<Class>,
    rows: Vec<&'static Advice>,
    /// Of other failures in the same log: what makes them worse is not done either.
    others: Vec<&'static Advice>,
}

impl Remedies {
    /// Of an incident.
    pub fn of(incident: Option<&Incident>) -> Self {
        Self {
            class: incident.map(|i| i.class),
            rows: incident.map(remedies).unwrap_or_default(),
            others: incident.map(others).unwrap_or_default(),
        }
    }

    /// What helps.
    pub fn helps(&self) -> impl Iterator<Item = &'static Remedy> {
        self.rows.iter().flat_map(|row| &row.helps)
    }

    /// What makes it worse, with the source.
    pub fn worsening(&self) -> impl Iterator<Item = (&'static Remedy, &'static str)> {
        let rows = self.rows.iter();
        rows.flat_map(|row| row.worse.iter().map(|r| (r, row.source.as_str())))
    }

    fn is_answered(&self, rung: &RungSpec) -> bool {
        self.class.is_some_and(|class| answers(rung, class))
    }

    /// What helps and comes before all else.
    fn first(&self) -> impl Iterator<Item = &'static Remedy> {
        self.helps().filter(|r| r.ahead_of.is_empty())
    }

    /// The rungs in the order in which they are asked: those that the failure names first.
    pub fn order<'r>(&self, preset: &Preset, ladder: &'r [RungSpec]) -> Vec<&'r RungSpec> {
        let place = |rung: &&RungSpec| {
            let first = self
                .first()
                .position(|remedy| leads_to(preset, rung, remedy));
            first.unwrap_or(usize::MAX)
        };
        let mut all: Vec<&RungSpec> = ladder.iter().collect();
        all.sort_by_key(place);
        let named = all.partition_point(|rung| place(rung) != usize::MAX);
        for remedy in self.helps().filter(|r| !r.ahead_of.is_empty()) {
            let rest = &mut all[named..];
            let Some(at) = rest
                .iter()
                .position(|r| self.is_answered(r) && raises(preset, r, &remedy.ahead_of))
            else {
                continue;
            };
            // The sort keeps the order among equals.
            rest[at..].sort_by_key(|rung| !leads_to(preset, rung, remedy));
        }
        all
    }

    /// Whether the failure names what a rung does.
    pub fn lead_to(&self, preset: &Preset, rung: &RungSpec) -> bool {
        self.first().any(|remedy| leads_to(preset, rung, remedy))
    }

    /// Whether the failure names what these changes do.
    pub fn name(&self, preset: &Preset, changes: &[Change]) -> bool {
        let named = |change: &Change| self.first().any(|r| does(preset, change, r));
        changes.iter().any(named)
    }

    /// Why these changes make it worse, or another failure of the same log.
    pub fn worse(&self, preset: &Preset, changes: &[Change]) -> Option<String> {
        let told = |rows: &[&'static Advice], what: &str| {
            let rows = rows.iter();
            let mut all = rows.flat_map(|row| row.worse.iter().map(move |r| (row, r)));
            let done = |r: &Remedy| changes.iter().any(|c| does(preset, c, r));
            let (row, remedy) = all.find(|(_, r)| done(r))?;
            let does = match remedy.in_vain {
                true => "does not help".to_owned(),
                false => format!("makes {what} worse"),
            };
            Some(format!("it {does}: {} ({})", remedy.text, row.source))
        };
        told(&self.rows, "this failure")
            .or_else(|| told(&self.others, "another failure of the same log"))
    }

    /// The same for all that a rung does.
    pub fn worsened_by(&self, preset: &Preset, rung: &RungSpec) -> bool {
        let rows = self.rows.iter().chain(&self.others);
        let mut worse = rows.flat_map(|row| &row.worse);
        worse.any(|remedy| leads_to(preset, rung, remedy))
    }

    /// What the failure names, for which the preset has a knob and the ladder no rung.
    pub fn without_rung(&self, preset: &Preset, ladder: &[RungSpec]) -> Vec<Skipped> {
        let roles = |remedy: &Remedy| -> Vec<String> {
            remedy
                .raises
                .iter()
                .chain(&remedy.lowers)
                .cloned()
                .collect()
        };
        let has_knob = |remedy: &&Remedy| {
            let mut knobs = preset.knobs.iter();
            knobs.any(|k| {
                k.role
                    .is_some_and(|role| roles(remedy).contains(&word(role)))
            })
        };
        let has_rung = |remedy: &&Remedy| ladder.iter().any(|r| leads_to(preset, r, remedy));
        let missing = self.helps().filter(|r| has_knob(r) && !has_rung(r));
        let told = missing.map(|remedy| {
            Skipped::new(
                roles(remedy).join(", "),
                format!(
                    "the failure suggests it, but no rung of this ladder does it: {}",
                    remedy.text
                ),
            )
        });
        told.collect()
    }
}

/// Whether a rung answers failures of a class.
pub(super) fn answers(rung: &RungSpec, failure: Class) -> bool {
    rung.answers.iter().any(|name| class(name) == Some(failure))
}

/// The class of a name in `answers`.
pub(super) fn class(name: &str) -> Option<Class> {
    serde_json::from_value(name.into()).ok()
}

/// The name of a role in files.
fn word(role: Role) -> String {
    let name = serde_json::to_value(role).ok();
    name.and_then(|n| n.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Whether a rung does what a remedy asks for, as far as it can be told before its values are known.
pub(crate) fn leads_to(preset: &Preset, rung: &RungSpec, remedy: &Remedy) -> bool {
    let moves = rung.moves.iter().filter(|m| !m.along);
    let mut all = moves.flat_map(|m| knobs(preset, m).into_iter().map(move |k| (m, k)));
    all.any(|(step, knob)| match direction(step) {
        Some(way) => goes(knob, way, remedy),
        None => [Ordering::Greater, Ordering::Less]
            .iter()
            .any(|way| goes(knob, *way, remedy)),
    })
}

/// Whether a rung raises a knob of one of these roles, or may.
fn raises(preset: &Preset, rung: &RungSpec, roles: &[String]) -> bool {
    let moves = rung.moves.iter().filter(|m| !m.along);
    let up = moves.filter(|m| direction(m) != Some(Ordering::Less));
    let mut all = up.flat_map(|m| knobs(preset, m));
    all.any(|knob| knob.role.is_some_and(|role| roles.contains(&word(role))))
}

/// Where a move leads; `None` where its value decides.
pub(super) fn direction(step: &Move) -> Option<Ordering> {
    let (times, plus) = (step.times.unwrap_or(1.0), step.plus.unwrap_or(0.0));
    match (&step.to, &step.to_expr) {
        (None, None) => (times + plus).partial_cmp(&1.0),
        (Some(Scalar::Bool(on)), _) => Some(if *on {
            Ordering::Greater
        } else {
            Ordering::Less
        }),
        _ => None,
    }
}

pub(super) fn goes(knob: &Knob, way: Ordering, remedy: &Remedy) -> bool {
    let Some(role) = knob.role.map(word) else {
        return false;
    };
    match way {
        Ordering::Greater => remedy.raises.contains(&role),
        Ordering::Less => remedy.lowers.contains(&role),
        Ordering::Equal => false,
    }
}

fn does(preset: &Preset, change: &Change, remedy: &Remedy) -> bool {
    let knob = preset.knob(&change.knob);
    knob.is_some_and(|knob| goes(knob, way(knob, change), remedy))
}

/// Whether a value says that something is off, or that nobody turned it on.
pub(super) fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Text(text) => OFF.contains(&text.as_str()),
        _ => false,
    }
}

/// What these roles say is a limit: the first value that is set for one is lower than none, or than what the framework takes.
const LIMITS: [Role; 5] = [
    Role::TokenBudget,
    Role::RolloutMemoryFraction,
    Role::RolloutContext,
    Role::RolloutSequences,
    Role::RolloutTokens,
];

/// Whether a change raises a value, or turns something on.
fn way(knob: &Knob, change: &Change) -> Ordering {
    if change.from == Value::Null && knob.role.is_some_and(|role| LIMITS.contains(&role)) {
        return Ordering::Less;
    }
    let size = |value: &Value| match value {
        off if is_off(off) => Some(0.0),
        other => other.number(knob.kind).or(Some(1.0)),
    };
    size(&change.to)
        .partial_cmp(&size(&change.from))
        .unwrap_or(Ordering::Equal)
}
