//! Knob sets: what several presets have in common, and a preset with it.

use std::collections::{BTreeMap, BTreeSet};

use oomctl_scripts::{CodeArgument, CodeRule, Spelling, Stack, StackKnob};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::knob::Knob;
use super::preset::{Derived, PresetFile, Rule};
use super::rung::RungSpec;

/// A knob set file: what several presets have in common. Where a preset says something else of the same name, the preset wins.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnobSetFile {
    /// Name; equals the file's name without `.yaml`.
    pub set: String,
    /// One line for `oomctl presets`.
    pub summary: String,
    /// Knobs.
    #[serde(default)]
    pub knobs: Vec<Knob>,
    /// Named values computed from knobs.
    #[serde(default)]
    pub derived: Vec<Derived>,
    /// What must hold between knobs.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Rungs that presets put into their ladders by name.
    #[serde(default)]
    pub ladder: Vec<RungSpec>,
    /// How programs spell the knobs: added to the ways of the preset, the first to its first.
    #[serde(default)]
    pub spellings: Vec<BTreeMap<String, String>>,
    /// How the knobs tell the memory model what it needs to know, for presets that have such a bridge.
    #[serde(default)]
    pub memory: SharedMemory,
    /// Added to what the preset has of it under `recognise`.
    #[serde(default)]
    pub indifferent: Vec<String>,
    /// Added to what the preset has of it under `recognise`.
    #[serde(default)]
    pub code: BTreeMap<String, Vec<CodeRule>>,
    /// Added to what the preset has of it under `recognise`.
    #[serde(default)]
    pub arguments: Vec<CodeArgument>,
    /// What a project's `spellings:` says: the only way in which its programs spell these knobs.
    #[serde(skip)]
    pub of_project: BTreeMap<String, String>,
}

impl KnobSetFile {
    /// What a project says of the names that its programs have for knobs.
    pub fn of_project(spellings: BTreeMap<String, String>) -> Self {
        Self {
            of_project: spellings,
            ..Self::default()
        }
    }
}

/// A part of a bridge to the memory model.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedMemory {
    /// Expression over knobs and derived values, by field.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
    /// Fields that a job script may leave open, each with the knob that says it.
    #[serde(default)]
    pub asks: BTreeMap<String, String>,
}

impl PresetFile {
    /// The preset with knob sets in it. What it says itself wins: a knob, a derived value and a rule as a whole, a rung
    /// field by field.
    pub fn with(mut self, sets: Vec<KnobSetFile>) -> Self {
        let (mut knobs, mut derived, mut rules, mut ladder) = (vec![], vec![], vec![], vec![]);
        let mut of_project = BTreeMap::new();
        for set in sets {
            of_project.extend(set.of_project);
            knobs.extend(set.knobs);
            derived.extend(set.derived);
            rules.extend(set.rules);
            ladder.extend(set.ladder);
            let missing = set.spellings.len().saturating_sub(self.spellings.len());
            self.spellings.extend(vec![BTreeMap::new(); missing]);
            for (own, shared) in self.spellings.iter_mut().zip(set.spellings) {
                add(own, shared);
            }
            // An empty bridge says that the model does not describe such programs.
            if let Some(memory) = self.memory.as_mut().filter(|m| !m.fields.is_empty()) {
                add(&mut memory.fields, set.memory.fields);
                add(&mut memory.asks, set.memory.asks);
            }
            self.recognise.indifferent.extend(set.indifferent);
            add(&mut self.recognise.code, set.code);
            self.recognise.arguments.extend(set.arguments);
        }
        behind(knobs, &mut self.knobs, |k| &k.name);
        behind(derived, &mut self.derived, |d| &d.name);
        behind(rules, &mut self.rules, |r| &r.name);
        for rung in &mut self.ladder {
            if let Some(shared) = ladder.iter().find(|r: &&RungSpec| r.rung == rung.rung) {
                *rung = over(rung, shared);
            }
        }
        for (name, spelling) in of_project {
            self.spell(&name, &spelling);
        }
        self
    }

    /// Gives a knob, where the preset has it, one spelling and no other.
    fn spell(&mut self, name: &str, spelling: &str) {
        let Some(knob) = self.knobs.iter_mut().find(|k| k.name == name) else {
            return;
        };
        // Whether an option takes a value is what the preset says of the knob.
        knob.spelling = Some(match (&knob.spelling, Spelling::read(spelling)) {
            (Some(Spelling::Switch(_)), Spelling::Flag(flag)) => Spelling::Switch(flag),
            (_, read) => read,
        });
        for version in &mut knob.by_version {
            version.spelling = None;
        }
        for style in &mut self.spellings {
            style.remove(name);
        }
    }

    /// The stack that it describes once its sets are in it: by what scripts are recognised and read.
    pub fn stack(&self) -> Stack {
        let knobs = self.knobs.iter().map(|knob| {
            let own = knob.spelling.iter().cloned();
            let versions = knob.by_version.iter().filter_map(|v| v.spelling.clone());
            let styled = self
                .spellings
                .iter()
                .zip(1..)
                .filter_map(|(style, number)| {
                    let spelled = style.get(&knob.name)?;
                    Some((Spelling::read(spelled), number))
                });
            let (mut spellings, mut styles) = (Vec::new(), Vec::new());
            for (spelling, style) in own.chain(versions).map(|s| (s, 0)).chain(styled) {
                if !spellings.contains(&spelling) {
                    spellings.push(spelling);
                    styles.push(style);
                }
            }
            StackKnob {
                name: knob.name.clone(),
                role: knob.role,
                kind: knob.kind,
                effect: knob.effect,
                reader: knob.reader,
                spellings,
                styles,
                endings: Vec::new(),
            }
        });
        Stack {
            name: self.preset.clone(),
            knobs: knobs.filter(|k| !k.spellings.is_empty()).collect(),
            recognise: self.recognise.clone(),
        }
        .with_endings()
    }
}

/// Adds what is not there yet.
fn add<T>(own: &mut BTreeMap<String, T>, shared: BTreeMap<String, T>) {
    for (name, value) in shared {
        own.entry(name).or_insert(value);
    }
}

/// Puts what `own` has behind what sets have, and leaves out of these what it has by the same name.
fn behind<T>(mut shared: Vec<T>, own: &mut Vec<T>, name: impl Fn(&T) -> &String) {
    let names: BTreeSet<&String> = own.iter().map(&name).collect();
    shared.retain(|s| !names.contains(name(s)));
    shared.append(own);
    *own = shared;
}

/// The rung of a set with the fields that a preset gives for it.
fn over(own: &RungSpec, shared: &RungSpec) -> RungSpec {
    let plain = serde_json::from_value(json!({ "rung": own.rung }));
    let plain = plain.as_ref().map(fields).unwrap_or_default();
    let given = fields(own).into_iter();
    let given = given.filter(|(name, value)| plain.get(name) != Some(value));
    changed(shared, given.collect()).unwrap_or_else(|_| shared.clone())
}

/// A rung with other values of some fields.
///
/// # Errors
/// Fields that no rung has, and values of the wrong type.
pub fn changed(rung: &RungSpec, with: Map<String, Value>) -> serde_json::Result<RungSpec> {
    let mut all = fields(rung);
    all.extend(with);
    serde_json::from_value(all.into())
}

fn fields(rung: &RungSpec) -> Map<String, Value> {
    match serde_json::to_value(rung) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::{parse_knob_set, parse_preset};

    const SET: &str = "set: trainer\nsummary: s\n\
        knobs:\n  - { name: batch, type: int, default: 8, doc: d }\n  - { name: steps, type: int, doc: d }\n\
        derived:\n  - { name: world, expr: '4' }\n\
        rules:\n  - { name: even, must: batch % 2 == 0, message: m, stage: step, source: s }\n\
        ladder:\n  - { rung: halve, title: t, when: batch > 1, when_text: it is 1, laps: 3, moves: [{ knob: batch, times: 0.5 }] }\n\
        spellings: [{ batch: --bs, steps: --steps }, { steps: steps }]\n\
        memory: { fields: { gpus: world, micro_batch: batch }, asks: { gpus: nodes } }\n\
        indifferent: [seed]\n";

    fn with(preset: &str) -> PresetFile {
        let text = format!("preset: p\nsummary: s\nuses: [trainer]\n{preset}");
        let set = parse_knob_set("trainer.yaml", SET).unwrap();
        parse_preset("p.yaml", &text).unwrap().with(vec![set])
    }

    #[test]
    fn a_preset_has_what_its_sets_say() {
        let preset = with("knobs: []\nladder: [{ rung: halve }]\n");
        let names: Vec<&str> = preset.knobs.iter().map(|k| k.name.as_str()).collect();
        assert_eq!(names, ["batch", "steps"]);
        assert_eq!((preset.derived.len(), preset.rules.len()), (1, 1));
        assert_eq!(
            (preset.ladder[0].laps, preset.ladder[0].moves.len()),
            (3, 1)
        );
        assert_eq!(preset.spellings[1]["steps"], "steps");
        assert_eq!(preset.recognise.indifferent, ["seed"]);
        assert!(preset.memory.is_none(), "it has no bridge");
    }

    #[test]
    fn what_a_preset_says_itself_wins_of_a_rung_field_by_field() {
        let preset = with(
            "knobs: [{ name: batch, type: int, default: 1, doc: d }]\n\
            derived: [{ name: world, expr: '2' }]\n\
            rules: [{ name: even, must: 'true', message: m, stage: step, source: s }]\n\
            ladder: [{ rung: halve, when: batch > 2, notes: [n] }]\n\
            spellings: [{ batch: --batch }]\n\
            memory: { profile: unknown, fields: { micro_batch: 2 * batch } }\n",
        );
        let names: Vec<&str> = preset.knobs.iter().map(|k| k.name.as_str()).collect();
        assert_eq!(names, ["steps", "batch"]);
        assert_eq!(preset.derived[0].expr, "2");
        assert_eq!(preset.rules[0].must, "true");
        let rung = &preset.ladder[0];
        assert_eq!(rung.when.as_deref(), Some("batch > 2"));
        assert_eq!(
            (rung.title.as_str(), rung.laps, rung.notes.len()),
            ("t", 3, 1)
        );
        let first = &preset.spellings[0];
        assert_eq!(
            (first["batch"].as_str(), first["steps"].as_str()),
            ("--batch", "--steps")
        );
        let memory = preset.memory.clone().unwrap();
        assert_eq!(memory.fields["micro_batch"], "2 * batch");
        assert_eq!(
            (memory.fields["gpus"].as_str(), memory.asks["gpus"].as_str()),
            ("world", "nodes")
        );
        // Whoever has it with its sets already may give them again.
        let again = preset
            .clone()
            .with(vec![parse_knob_set("trainer.yaml", SET).unwrap()]);
        assert_eq!(again.knobs, preset.knobs);
        assert_eq!(again.ladder, preset.ladder);
    }

    #[test]
    fn a_bridge_without_fields_stays_empty() {
        let preset = with("knobs: []\nmemory: { profile: unknown, fields: {} }\n");
        assert!(preset.memory.unwrap().fields.is_empty());
    }
}
