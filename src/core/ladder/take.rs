//! What taking a rung sets: its moves as targets, and the legal values nearest to them.

use std::collections::{BTreeMap, BTreeSet};

use super::climb::RungView;
use super::context::Policy;
use super::decision::Skipped;
use super::moves::{Aim, TakenMoves, aims, knobs};
use super::search::{self, KnobCandidates};
use crate::core::recipe::{Checker, Knob, Layer, LayerKind, Move, UnderTrial};
use oomctl_base::{Effect, Origin, Role, Value};

impl RungView<'_, '_> {
    /// What taking the rung sets, with remarks.
    pub fn take(&self) -> Result<TakenMoves, String> {
        let (mut notes, mut along) = (Vec::new(), Vec::new());
        let mut aims = self.aims(&mut notes, &mut along)?;
        self.keep_what_has_laps_left(&mut aims)?;
        if !self.context.whole_rungs {
            self.keep_what_acts(&mut aims, &mut notes)?;
            self.keep_what_trains_the_same(&mut aims, &mut notes);
        }
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
            notes.extend(along);
            return Err(if notes.is_empty() {
                Skipped::NOTHING_LEFT.to_owned()
            } else {
                notes.join("; ")
            });
        }
        notes.extend(checker_notes);
        Ok(TakenMoves {
            layer,
            notes,
            along,
        })
    }

    /// Leaves out what the rung moved as often as it may; in earlier attempts not all of its moves need have been taken.
    fn keep_what_has_laps_left(&self, aims: &mut Vec<Aim>) -> Result<(), String> {
        let leads = |aims: &[Aim]| aims.iter().any(Aim::leads);
        let had = leads(aims);
        aims.retain(|aim| match aim {
            Aim::To {
                knob, along: false, ..
            } => self.laps(knob) < self.rung.laps,
            _ => true,
        });
        match had && !leads(aims) {
            true if self.rung.laps == 1 => Err("taken already".to_owned()),
            true => Err(format!("taken {} times already", self.rung.laps)),
            false => Ok(()),
        }
    }

    /// How often the rung moved a knob in this run, and before it where the run started from what was learned.
    fn laps(&self, knob: &str) -> u32 {
        let layers = self.context.layers.iter().chain(self.context.rungs);
        let moved = layers.filter(|layer| {
            let setting = layer.settings.get(knob);
            setting.is_some_and(|s| s.origin.rung() == Some(&self.rung.rung))
        });
        u32::try_from(moved.count()).unwrap_or(u32::MAX)
    }

    /// Leaves out what frees nothing where memory ran out: by the memory model, or else as the preset says. Where neither
    /// knows of the failure, nothing is left out; but a rung of which nothing frees memory by itself is not taken.
    fn keep_what_acts(&self, aims: &mut Vec<Aim>, notes: &mut Vec<String>) -> Result<(), String> {
        if !aims.iter().any(Aim::leads) {
            return Ok(());
        }
        let acts: Vec<bool> = aims.iter().map(|aim| self.acts(aim)).collect();
        let idle = aims.iter().zip(&acts).filter(|(_, acts)| !**acts);
        let idle: Vec<&str> = idle.filter_map(|(aim, _)| aim.knob()).collect();
        if idle.is_empty() {
            return Ok(());
        }
        let stays = if idle.len() == 1 {
            "stays: it frees"
        } else {
            "stay: they free"
        };
        let place = self.failure.place();
        let note = format!("{} {stays} no GPU memory{place}", idle.join(", "));
        let mut led = aims.iter().zip(&acts).filter(|(aim, _)| aim.leads());
        if !led.any(|(_, acts)| *acts) {
            notes.push(note);
            return Err(notes.join("; "));
        }
        if self.acts.is_some() || self.failure.phase().is_some() {
            notes.push(note);
            let mut acts = acts.iter();
            aims.retain(|_| acts.next() == Some(&true));
        }
        Ok(())
    }

    /// Where training must stay as it is, leaves out moves that change it, if others are left. A rung that says what it does as a whole
    /// is taken as a whole.
    fn keep_what_trains_the_same(&self, aims: &mut Vec<Aim>, notes: &mut Vec<String>) {
        if self.context.policy != Policy::SameMath || self.rung.effect.is_some() {
            return;
        }
        let effect = |aim: &Aim| Some(self.context.preset.knob(aim.knob()?)?.effect);
        let changes = |aim: &Aim| aim.leads() && effect(aim) == Some(Effect::ChangesTraining);
        let left_out: Vec<&str> = aims
            .iter()
            .filter(|a| changes(a))
            .filter_map(Aim::knob)
            .collect();
        if left_out.is_empty() || !aims.iter().any(|aim| aim.leads() && !changes(aim)) {
            return;
        }
        let stay = if left_out.len() == 1 { "stays" } else { "stay" };
        notes.push(format!(
            "{} {stay}: that would change training",
            left_out.join(", ")
        ));
        aims.retain(|aim| !changes(aim));
    }

    /// Whether an aim frees memory where it ran out, as far as that is known.
    fn acts(&self, aim: &Aim) -> bool {
        let Aim::To {
            knob,
            target,
            along: false,
            ..
        } = aim
        else {
            return true;
        };
        let knob_spec = self.context.preset.knob(knob);
        if knob_spec.is_some_and(|k| self.failure.proves_idle(k)) {
            return false;
        }
        let declared = knob_spec.and_then(|k| self.failure.acts(k));
        let model = || self.acts.and_then(|acts| acts.frees(knob, target));
        // What a preset states it states from failures that were mended so; the formulas may miss what lies beside.
        declared == Some(true) || model().or(declared).unwrap_or(true)
    }

    fn aims(&self, notes: &mut Vec<String>, along: &mut Vec<String>) -> Result<Vec<Aim>, String> {
        let mut all = Vec::new();
        for step in &self.rung.moves {
            let trains = |k: &&Knob| k.effect == Effect::ChangesTraining;
            let beside = step.along && !knobs(self.context.preset, step).iter().any(trains);
            let notes = if beside { &mut *along } else { &mut *notes };
            let recipe = self.shape.recipe();
            for mut aim in aims(&self.evaluations.shaper, recipe, self.scope, step)? {
                self.by_figures(&mut aim);
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
        let mut trials: Vec<KnobCandidates> = aims.iter().filter_map(KnobCandidates::of).collect();
        trials.extend(self.adjustable(&search::knobs(&trials)));
        let names = search::knobs(&trials);
        let (recipe, scope) = (self.shape.recipe(), self.shape.scope());
        let trial = UnderTrial::new(&self.evaluations.shaper, recipe, scope, &names);
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
    fn adjustable(&self, moved: &BTreeSet<String>) -> Vec<KnobCandidates> {
        let recipe = self.shape.recipe();
        let more = self.more_gpus();
        let knobs = self.rung.adjust.iter();
        knobs
            .flat_map(|role| self.context.preset.with_role(*role))
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
                Some(KnobCandidates {
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
            let (shaper, recipe) = (&self.evaluations.shaper, self.shape.recipe());
            let open = shaper.unknown_in(recipe, &texts.collect::<Vec<_>>());
            let open = open.map(|name| format!(", and {name} is unknown"));
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
                    attempt: self.context.attempt + 1,
                };
                layer.set(knob, value.clone(), origin);
            }
        }
        layer
    }
}
