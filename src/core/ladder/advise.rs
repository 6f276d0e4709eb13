//! What a failure asks of the knobs of a preset where nobody knows their values: directions, and no number.
//!
//! Rule: what depends on a value is said with its condition; a default never stands in for what was not read.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::Serialize;

use super::incident::FailureContext;
use super::moves::knobs;
use super::remedies::{Remedies, answers, direction, goes, leads_to};
use super::{bug, incident::of_memory};
use crate::core::recipe::{
    Knob, Move, Preset, RungSpec, Scalar, WhenText,
    expr::{self, Scope},
    strongest_effect,
};
use oomctl_base::{Effect, ValueKind};
use oomctl_diagnose::{Incident, Remedy};
use oomctl_scripts::Stack;

/// Where a knob should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To more.
    Raise,
    /// To less.
    Lower,
    /// On.
    TurnOn,
    /// Off.
    TurnOff,
    /// To another value.
    Set,
}

/// A knob, and where it should go.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct KnobMove {
    /// Its name.
    pub knob: String,
    /// How programs of the framework are told, the usual way first; empty for what the scheduler is asked.
    pub spellings: Vec<String>,
    /// Where it should go.
    pub way: Direction,
    /// The value, where one alone is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Scalar>,
}

/// Something that helps, or that makes it worse.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Recommendation {
    /// The rung that does it, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rung: Option<String>,
    /// For people.
    pub title: String,
    /// What it does to the experiment.
    pub effect: Effect,
    /// The failure itself names it.
    pub named: bool,
    /// Its knobs.
    pub turns: Vec<KnobMove>,
    /// What must hold of values that nobody has read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// The same for people: when the rung is not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_if: Option<String>,
    /// When it is in vain, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_vain: Vec<(String, String)>,
}

/// What is known of a failure for one framework.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Advices {
    /// What helps: first what leaves the mathematics as it is, and of that first what the failure names.
    pub helps: Vec<Recommendation>,
    /// What makes it worse.
    pub worse: Vec<Recommendation>,
}

impl Advices {
    /// Leaves what others say too: each knob that goes the same way under the same name.
    pub fn keep_shared(&mut self, other: &Self) {
        let shared = |all: &mut Vec<Recommendation>, others: &[Recommendation]| {
            let there = |turn: &KnobMove| {
                let mut turns = others.iter().flat_map(|a| &a.turns);
                turns.any(|t| t.way == turn.way && t.spellings.first() == turn.spellings.first())
            };
            all.iter_mut().for_each(|a| a.turns.retain(there));
            all.retain(|a| !a.turns.is_empty());
        };
        shared(&mut self.helps, &other.helps);
        shared(&mut self.worse, &other.worse);
    }
}

/// What helps against a failure, in the words of a framework. `stack` has the spellings of the preset's knobs.
pub fn advise(preset: &Preset, stack: &Stack, incident: &Incident) -> Advices {
    if !incident.fatal || !of_memory(incident.class) {
        return Advices::default();
    }
    let failure = FailureContext::of(Some(incident));
    let adviser = Adviser {
        preset,
        stack,
        remedies: &failure.remedies,
        scope: failure.within(&Scope::default()),
        failure: &failure,
    };
    adviser.all()
}

struct Adviser<'a> {
    preset: &'a Preset,
    stack: &'a Stack,
    failure: &'a FailureContext,
    remedies: &'a Remedies,
    /// Sees the incident alone.
    scope: Scope,
}

impl Adviser<'_> {
    fn all(&self) -> Advices {
        let ladder = &self.preset.ladder;
        let rungs = self.remedies.order(self.preset, ladder);
        let mut helps: Vec<Recommendation> =
            rungs.into_iter().filter_map(|r| self.rung(r)).collect();
        let by_a_rung = |r: &&Remedy| ladder.iter().any(|rung| leads_to(self.preset, rung, r));
        let others = self.remedies.helps().filter(|r| !by_a_rung(r));
        helps.extend(others.filter_map(|remedy| self.remedy(remedy, remedy.text.clone())));
        helps.sort_by_key(|a| (a.effect, !a.named));
        let worse = self.remedies.worsening();
        let worse =
            worse.filter_map(|(r, source)| self.remedy(r, format!("{} ({source})", r.text)));
        Advices {
            helps,
            worse: worse.collect(),
        }
    }

    /// A rung, where nothing that is known speaks against it.
    fn rung(&self, rung: &RungSpec) -> Option<Recommendation> {
        let in_vain = bug::objection(self.preset, rung, &self.failure.bugs).is_some();
        let worse = self.remedies.worsened_by(self.preset, rung);
        if in_vain || worse || !answers(rung, self.failure.class) {
            return None;
        }
        let when = self.open(rung.when.as_deref().unwrap_or("true"))?;
        let mut useless = Vec::new();
        for case in &rung.useless {
            match self.open(&case.when) {
                Some(open) if open.is_empty() => return None,
                Some(open) => useless.push((open.join(" and "), case.because.clone())),
                None => {}
            }
        }
        let moves = rung.moves.iter().filter(|m| !m.along);
        let moved = moves.flat_map(|m| knobs(self.preset, m).into_iter().map(move |k| (m, k)));
        let moved: Vec<(&Move, &Knob)> = moved
            .filter(|(_, k)| self.failure.acts(k) != Some(false))
            .collect();
        let turns: Vec<KnobMove> = moved.iter().map(|(m, k)| self.turn(m, k)).collect();
        (!turns.is_empty()).then(|| Recommendation {
            rung: Some(rung.rung.clone()),
            title: rung.title.clone(),
            effect: rung
                .effect
                .unwrap_or_else(|| strongest_effect(moved.iter().map(|(_, k)| *k))),
            named: self
                .remedies
                .helps()
                .any(|r| leads_to(self.preset, rung, r)),
            turns,
            not_if: rung
                .when_text
                .as_ref()
                .filter(|_| !when.is_empty())
                .map(WhenText::all),
            when,
            in_vain: useless,
        })
    }

    /// The knobs that a remedy names by their roles.
    fn remedy(&self, remedy: &Remedy, title: String) -> Option<Recommendation> {
        let ways = [Ordering::Less, Ordering::Greater];
        let named = |knob: &Knob| ways.into_iter().find(|way| goes(knob, *way, remedy));
        let knobs = self.preset.knobs.iter();
        let found: Vec<(&Knob, Ordering)> = knobs.filter_map(|k| Some((k, named(k)?))).collect();
        let turns = found
            .iter()
            .map(|(k, way)| self.turned(k, toward(k, Some(*way)), None));
        let turns: Vec<KnobMove> = turns.collect();
        (!turns.is_empty()).then(|| Recommendation {
            rung: None,
            title,
            effect: strongest_effect(found.iter().map(|(k, _)| *k)),
            named: true,
            turns,
            when: Vec::new(),
            not_if: None,
            in_vain: Vec::new(),
        })
    }

    fn turn(&self, step: &Move, knob: &Knob) -> KnobMove {
        let known = direction(step);
        let value = step.to.clone().filter(|to| !matches!(to, Scalar::Bool(_)));
        // Where an expression gives the value, the failure may say in which direction it lies.
        let asked = || {
            let ways = [Ordering::Less, Ordering::Greater].into_iter();
            let mut ways = ways.filter(|way| self.remedies.helps().any(|r| goes(knob, *way, r)));
            ways.next().filter(|_| ways.next().is_none())
        };
        let way = match &value {
            Some(_) => Direction::Set,
            None => toward(knob, known.or_else(|| written(step, knob)).or_else(asked)),
        };
        self.turned(knob, way, value)
    }

    fn turned(&self, knob: &Knob, way: Direction, to: Option<Scalar>) -> KnobMove {
        let spelled = self.stack.knob(&knob.name).into_iter();
        let names = spelled.flat_map(|k| &k.spellings);
        KnobMove {
            knob: knob.name.clone(),
            spellings: names.map(|s| s.name().to_owned()).collect(),
            way,
            to,
        }
    }

    /// What of a condition the incident leaves open; None where it denies it.
    fn open(&self, text: &str) -> Option<Vec<String>> {
        let mut open = Vec::new();
        for part in conjuncts(text) {
            match self.said(part) {
                Some(true) => {}
                Some(false) => return None,
                None if part.ends_with(" is not none") => {}
                None => open.push(part.to_owned()),
            }
        }
        Some(open)
    }

    /// What the incident alone says of a condition; None where it asks for more.
    fn said(&self, text: &str) -> Option<bool> {
        let env = self.preset.env();
        let compiled = env.compile_expression(text).ok()?;
        let known = |name: &String| name == "incident" || name.starts_with("incident.");
        let alone = expr::names(&compiled).iter().all(known);
        alone.then(|| expr::holds(env, text, &self.scope).ok())?
    }
}

/// Where an expression leads that is made of the knob's own value.
fn written(step: &Move, knob: &Knob) -> Option<Ordering> {
    let (text, name) = (step.to_expr.as_deref()?, &knob.name);
    let is = |signs: &[&str]| signs.iter().any(|s| text.contains(&format!("{name} {s} ")));
    match (is(&["//", "/", "-"]), is(&["*", "+"])) {
        (true, false) => Some(Ordering::Less),
        (false, true) => Some(Ordering::Greater),
        _ => None,
    }
}

/// Where a knob goes that becomes more or less.
fn toward(knob: &Knob, way: Option<Ordering>) -> Direction {
    match (way, knob.kind) {
        (Some(Ordering::Greater), ValueKind::Bool) => Direction::TurnOn,
        (Some(Ordering::Less), ValueKind::Bool) => Direction::TurnOff,
        (Some(Ordering::Greater), ValueKind::Text) => Direction::Set,
        (Some(Ordering::Greater), _) => Direction::Raise,
        (Some(Ordering::Less), _) => Direction::Lower,
        _ => Direction::Set,
    }
}

/// The parts of a condition that must all hold. One with an `or` outside of brackets is one part.
fn conjuncts(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ' ' if depth == 0 && text[at..].starts_with(" or ") => return vec![text.trim()],
            ' ' if depth == 0 && text[at..].starts_with(" and ") => {
                parts.push(text[start..at].trim());
                start = at + " and ".len();
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_falls_into_what_must_hold() {
        assert_eq!(
            conjuncts("a and (b or c) and x in [1, 2]"),
            ["a", "(b or c)", "x in [1, 2]"]
        );
        assert_eq!(conjuncts("a and b or c"), ["a and b or c"]);
    }
}
