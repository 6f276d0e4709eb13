//! Which rung is next, and what it gives.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::Value as Jinja;

use super::bug;
use super::decision::{Change, Decision, Skipped, Step};
use super::incident::{self, Failure};
use super::kept;
use super::moves::{Aim, aims};
use super::search::{self, Trial};
use super::workshop::{Look, Workshop};
use crate::core::diagnose::Incident;
use crate::core::recipe::{
    Checker, ClusterFacts, Effect, Layer, LayerKind, Move, Origin, Preset, Refusal, Role, RungSpec,
    Shape, UnderTrial, Value, expr::Scope, strongest_effect,
};

/// How to climb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The declared order, one rung at a time.
    #[default]
    Ladder,
    /// The declared order without rungs that change training.
    SameMath,
    /// Whatever the rungs can move, to the values that cost least and fit with the probability asked for.
    Predict,
}

/// What a climb starts from.
#[derive(Clone, Copy)]
pub struct Footing<'a> {
    /// The preset.
    pub preset: &'a Preset,
    /// The ladder, which a project may have changed.
    pub ladder: &'a [RungSpec],
    /// How to climb.
    pub policy: Policy,
    /// Facts about the cluster.
    pub cluster: &'a ClusterFacts,
    /// Name of the cluster profile.
    pub cluster_name: Option<&'a str>,
    /// Templates by name.
    pub templates: &'a BTreeMap<String, String>,
    /// Layers below the rungs.
    pub layers: &'a [Layer],
    /// Layers of the rungs taken so far, in order.
    pub rungs: &'a [Layer],
    /// The attempt that failed, from 1.
    pub attempt: u32,
}

/// The next rung after `incident`: the first in order that has laps left, answers the incident, is
/// not skipped for a reason, and changes the rendered files. Without an incident the ladder is asked
/// what it would do after a GPU OOM of which nothing is known.
///
/// # Errors
/// The present configuration is itself not legal.
pub fn climb(footing: &Footing<'_>, failure: Option<&Incident>) -> Result<Decision, Refusal> {
    climb_in(&Workshop::new(footing), footing, failure)
}

/// The same in a workshop for the footing's preset.
pub(super) fn climb_in(
    workshop: &Workshop<'_>,
    footing: &Footing<'_>,
    failure: Option<&Incident>,
) -> Result<Decision, Refusal> {
    let look = workshop.look(&footing.rungs.iter().collect::<Vec<_>>())?;
    // That they can be rendered is asked for even where no rung is tried.
    workshop.files(&look)?;
    let failure = &Failure::of(failure);
    let scope = scope(footing, &look.shape, failure);
    let mut skipped = Vec::new();
    for rung in bug::in_order(footing.preset, footing.ladder, &failure.bugs) {
        let seen = View {
            footing,
            workshop,
            shape: &look.shape,
            scope: &scope,
            rung,
        };
        match seen.refusal(failure).map_or_else(|| seen.climb(&look), Err) {
            Ok(step) => {
                let steps = vec![step];
                return Ok(Decision::Climb {
                    steps,
                    skipped,
                    expects: None,
                });
            }
            Err(reason) => skipped.push(Skipped {
                rung: rung.rung.clone(),
                reason,
            }),
        }
    }
    Ok(Decision::Exhausted {
        skipped,
        shortfall: None,
    })
}

/// What one rung gives from `shape`, or why it is not taken. Nothing is rendered.
pub(super) fn lap(
    workshop: &Workshop<'_>,
    footing: &Footing<'_>,
    shape: &Shape,
    failure: &Failure,
    rung: &RungSpec,
) -> Result<(Step, Shape), String> {
    let scope = scope(footing, shape, failure);
    let seen = View {
        footing,
        workshop,
        shape,
        scope: &scope,
        rung,
    };
    if let Some(why) = seen.refusal(failure) {
        return Err(why);
    }
    let (layer, notes) = seen.take()?;
    let next = workshop.shape(&seen.with(&layer));
    let next = next.map_err(|e| e.to_string())?;
    Ok((seen.step(layer, notes, &next)?, next))
}

/// Names for the expressions of a ladder.
fn scope(footing: &Footing<'_>, shape: &Shape, failure: &Failure) -> Scope {
    let mut scope = failure.within(shape.scope());
    scope.set("attempt", Jinja::from(footing.attempt));
    scope
}

/// One rung, seen from the present configuration.
struct View<'a, 'p> {
    footing: &'a Footing<'a>,
    workshop: &'a Workshop<'p>,
    shape: &'a Shape,
    scope: &'a Scope,
    rung: &'a RungSpec,
}

impl View<'_, '_> {
    /// Why the rung is not even tried, if there is a reason.
    fn refusal(&self, failure: &Failure) -> Option<String> {
        let rung = self.rung;
        let taken = self.taken();
        if taken >= rung.laps {
            return Some(match taken {
                1 => "taken already".to_owned(),
                n => format!("taken {n} times already"),
            });
        }
        if !incident::answers(rung, failure.class) {
            return Some("answers another kind of failure".to_owned());
        }
        let (shaper, recipe) = (&self.workshop.shaper, self.shape.recipe());
        incident::objection_anyway(shaper, recipe, self.scope, rung, failure)
    }

    /// How often the rung was taken in this run, and before it where the run started from what was learned.
    fn taken(&self) -> u32 {
        let is_ours = |layer: &&Layer| {
            let mut origins = layer.settings.values().map(|s| &s.origin);
            origins.any(|o| o.rung() == Some(&self.rung.rung))
        };
        let layers = self.footing.layers.iter().chain(self.footing.rungs);
        let count = layers.filter(is_ours).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The rungs with one more.
    fn with<'l>(&'l self, layer: &'l Layer) -> Vec<&'l Layer> {
        self.footing.rungs.iter().chain([layer]).collect()
    }

    /// Takes the rung, where it renders to other files than what it is climbed from.
    fn climb(&self, from: &Look) -> Result<Step, String> {
        let (layer, notes) = self.take()?;
        let next = self.workshop.look(&self.with(&layer));
        let next = next.map_err(|e| e.to_string())?;
        let files = |look| self.workshop.files(look).map_err(|e| e.to_string());
        if files(&next)? == files(from)? {
            return Err("changes nothing in the rendered files".to_owned());
        }
        self.step(layer, notes, &next.shape)
    }

    /// What taking the rung sets, with remarks.
    fn take(&self) -> Result<(Layer, Vec<String>), String> {
        let mut notes = Vec::new();
        let aims = self.aims(&mut notes)?;
        let (chosen, checker_notes) = self.choose(&aims)?;
        let layer = self.layer(&chosen);
        let moved = |along_too: bool| {
            aims.iter().any(|aim| match aim {
                Aim::To { knob, along, .. } => {
                    layer.settings.contains_key(knob) && (along_too || !along)
                }
                Aim::Nothing { .. } => false,
            })
        };
        if !moved(false) {
            notes.extend(checker_notes);
            return Err(if notes.is_empty() {
                "nothing left to change".to_owned()
            } else {
                notes.join("; ")
            });
        }
        notes.extend(checker_notes);
        Ok((layer, notes))
    }

    fn aims(&self, notes: &mut Vec<String>) -> Result<Vec<Aim>, String> {
        let mut all = Vec::new();
        for step in &self.rung.moves {
            let recipe = self.shape.recipe();
            for aim in aims(&self.workshop.shaper, recipe, self.scope, step)? {
                match &aim {
                    Aim::Nothing { reason } if !reason.is_empty() => notes.push(reason.clone()),
                    Aim::Nothing { .. } => {}
                    Aim::To { .. } => all.push(aim),
                }
            }
        }
        Ok(all)
    }

    /// The legal values nearest to the aims, and remarks where a target had to be missed.
    fn choose(&self, aims: &[Aim]) -> Result<(BTreeMap<String, Value>, Vec<String>), String> {
        let mut trials: Vec<Trial> = aims.iter().filter_map(Trial::of).collect();
        trials.extend(self.adjustable(&search::knobs(&trials)));
        let names = search::knobs(&trials);
        let (recipe, scope) = (self.shape.recipe(), self.shape.scope());
        let trial = UnderTrial::new(&self.workshop.shaper, recipe, scope, &names);
        let checker = Checker::new(&trial);
        let chosen = search::nearest_legal(&checker, &trials)
            .ok_or_else(|| "no legal combination of values was found".to_owned())?;
        let notes = aims
            .iter()
            .filter_map(|aim| self.missed(&checker, &chosen, aim))
            .collect();
        Ok((chosen, notes))
    }

    /// Knobs that may follow the others down so that the configuration stays legal; where a rung asks for more GPUs, up
    /// as well, as far as these: a batch must be shared by all of them.
    fn adjustable(&self, moved: &BTreeSet<String>) -> Vec<Trial> {
        let recipe = self.shape.recipe();
        let more = self.more_gpus();
        let knobs = self.rung.adjust.iter();
        knobs
            .flat_map(|role| self.footing.preset.with_role(*role))
            .filter(|k| !moved.contains(&k.name) && !recipe.pins.contains_key(&k.name))
            .filter_map(|k| {
                let present = recipe.value(&k.name);
                let most = present.number(k.kind)? * more;
                let ends = [
                    k.min.unwrap_or(1.0),
                    most.min(k.max.unwrap_or(f64::INFINITY)),
                ];
                let (Value::Int(now), [Value::Int(floor), Value::Int(most)]) =
                    (present, ends.map(|end| Value::from_number(k.kind, end)))
                else {
                    return None;
                };
                Some(Trial {
                    knob: k.name.clone(),
                    present: Value::Int(*now),
                    candidates: search::following(*now, floor.min(*now), most),
                })
            })
            .collect()
    }

    /// How many times as many GPUs the rung asks for.
    fn more_gpus(&self) -> f64 {
        let counts = |m: &&Move| m.role.is_some_and(Role::counts_gpus);
        let moves = self.rung.moves.iter().filter(counts);
        moves.filter_map(|m| m.times).fold(1.0, f64::max)
    }

    fn missed(
        &self,
        checker: &Checker<'_>,
        chosen: &BTreeMap<String, Value>,
        aim: &Aim,
    ) -> Option<String> {
        let Aim::To {
            knob,
            present,
            target,
            ..
        } = aim
        else {
            return None;
        };
        let got = chosen.get(knob)?;
        if got == target {
            return None;
        }
        let rule = search::objection(checker, chosen, knob, target);
        let why = rule.map_or_else(String::new, |rule| {
            let texts = rule.when.iter().chain([&rule.must]).map(String::as_str);
            let (shaper, recipe) = (&self.workshop.shaper, self.shape.recipe());
            let open = shaper.unknown_in(recipe, &texts.collect::<Vec<_>>());
            let open = open.map(|name| format!(", and {name} is not known"));
            format!(" (rule {}{})", rule.name, open.unwrap_or_default())
        });
        Some(if got == present {
            format!("{knob} stays {present}: {target} is not legal{why}")
        } else {
            format!("{knob}: {target} is not legal{why}, {got} is the nearest value that is")
        })
    }

    fn layer(&self, chosen: &BTreeMap<String, Value>) -> Layer {
        let mut layer = Layer::new(LayerKind::Rung);
        for (knob, value) in chosen {
            if self.shape.recipe().value(knob) != value {
                let origin = Origin::Rung {
                    rung: self.rung.rung.clone(),
                    attempt: self.footing.attempt + 1,
                };
                layer.set(knob, value.clone(), origin);
            }
        }
        layer
    }

    /// What the rung does, with the configuration that it leads to.
    fn step(&self, layer: Layer, mut notes: Vec<String>, next: &Shape) -> Result<Step, String> {
        // What a rung says of itself as a whole holds where all of it is taken.
        let whole = notes.is_empty() || self.rung.effect.is_none();
        let declared = self.rung.effect.filter(|_| whole);
        let changes = self.changes(&layer, declared);
        let effect = self.effect(&layer, declared);
        if self.footing.policy == Policy::SameMath && effect == Effect::ChangesTraining {
            return Err("changes training, which the policy same-math forbids".to_owned());
        }
        let env = self.footing.preset.env();
        // A remark about something that is not known is none.
        let known = |note: &&String| {
            let template = env.template_from_str(note).ok();
            let names = template.map(|t| t.undeclared_variables(true));
            let names = names.unwrap_or_default();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let recipe = next.recipe();
            self.workshop.shaper.unknown_in(recipe, &names).is_none()
        };
        let of_rung = self.rung.notes.iter().filter(|_| whole);
        for note in of_rung.filter(known) {
            let text = env.render_str(note, next.scope().context());
            notes.extend(text.ok().filter(|t| !t.trim().is_empty()));
        }
        let (shaper, reshards) = (&self.workshop.shaper, self.rung.reshards);
        notes.extend(kept::notes(shaper, reshards, &changes, next));
        Ok(Step {
            rung: self.rung.rung.clone(),
            title: self.rung.title.clone(),
            changes,
            effect,
            notes,
            reshards: self.rung.reshards,
            layer,
        })
    }

    /// Changes in the order of the preset's knobs.
    fn changes(&self, layer: &Layer, declared: Option<Effect>) -> Vec<Change> {
        let knobs = self.footing.preset.knobs.iter();
        knobs
            .filter_map(|k| {
                let setting = layer.settings.get(&k.name)?;
                Some(Change {
                    knob: k.name.clone(),
                    from: self.shape.recipe().value(&k.name).clone(),
                    to: setting.value.clone(),
                    effect: declared.unwrap_or(k.effect),
                })
            })
            .collect()
    }

    fn effect(&self, layer: &Layer, declared: Option<Effect>) -> Effect {
        if let Some(effect) = declared {
            return effect;
        }
        let knobs = self.footing.preset.knobs.iter();
        strongest_effect(knobs.filter(|k| layer.settings.contains_key(&k.name)))
    }
}
