//! A command as the source of a run's attempts: the knobs that stand in it, and the same command with other values.

use std::collections::{BTreeMap, BTreeSet};

use super::copied::Copied;
use super::spelled::{in_files, placeholders, said, spell};
use super::stored::RunProgram;
use super::words;
use crate::core::recipe::copies::Original;
use crate::core::recipe::{
    FileSpec, Knob, KnobSetFile, Layer, LayerKind, Preset, PresetFile, RungSpec, Shape, expr,
};
use crate::core::render::{hydra_value, variable};
use oomctl_base::{Origin, Problem, Refusal, Role, Value};
use oomctl_scripts::Spelling;

/// The knob set that says how a GPU is waited for; it comes with every preset here.
pub const SET: &str = "run";

impl RunProgram {
    /// The preset with the knobs spelled as this command spells them. `sets` are the knob sets that the preset uses,
    /// among them the one that says how a GPU is waited for.
    ///
    /// # Errors
    /// Faults of the preset, and spellings of knobs that it lacks.
    pub fn assemble(
        &self,
        mut file: PresetFile,
        sets: Vec<KnobSetFile>,
    ) -> Result<Preset, Refusal> {
        uses_set(&mut file);
        file = file.with(sets).with_framework_defaults(None)?;
        spell(&mut file, self)?;
        // What a scheduler's job must be told may be missing here.
        file.knobs.iter_mut().for_each(|k| k.required = false);
        file.files.retain(|f| f.copy.is_some());
        file.files.push(FileSpec::stand_in("command"));
        Preset::assemble(file, Vec::new(), None)
    }

    /// The layer that the command and its environment are, and remarks on what could not be read of it.
    pub fn layer(
        &self,
        preset: &Preset,
        variables: &BTreeMap<String, String>,
    ) -> (Layer, Vec<String>) {
        let (mut layer, mut remarks) = (Layer::new(LayerKind::Command), Vec::new());
        for knob in &preset.knobs {
            let said = said(knob, &self.command, variables)
                .map(|(text, place)| (text, Origin::Flag { text: place }));
            let Some((text, origin)) = said.or_else(|| in_files(knob, &self.composed)) else {
                continue;
            };
            match knob.kind.parse(&text) {
                Ok(value) => layer.set(&knob.name, value, origin),
                Err(what) => remarks.push(format!("{}: {what}; passed on unchanged", knob.name)),
            }
        }
        (layer, remarks)
    }
}

/// Has a preset use the knob set that says how a GPU is waited for.
pub fn uses_set(file: &mut PresetFile) {
    if !file.uses.iter().any(|name| name == SET) {
        file.uses.push(SET.to_owned());
    }
}

/// A remark where the batch is not known, for then an out-of-memory has no smaller one.
pub fn unknown_batch(preset: &Preset, ladder: &[RungSpec], shape: &Shape) -> Option<String> {
    let moved = |knob: &&Knob| {
        let mut moves = ladder.iter().flat_map(|r| &r.moves);
        moves.any(|m| m.knob.as_ref() == Some(&knob.name))
    };
    let mut unknown = preset.with_role(Role::MicroBatch).filter(moved);
    let knob = unknown.find(|k| shape.recipe().value(&k.name).is_null())?;
    Some(format!(
        "batch size not found in the command or its files, so oomctl cannot lower it. Give its option with \
         --knob {name}=OPTION (--bs, training.batch_size) and its value with --set {name}=N",
        name = knob.name
    ))
}

/// A command made ready to be run again and again with other values.
#[derive(Debug, Clone)]
pub struct Command {
    /// The words; what names a file that is copied is only a mark.
    words: Vec<String>,
    placeholders: BTreeSet<String>,
    /// Files of which each attempt gets a copy, as the preset has them.
    copies: Vec<FileSpec>,
    /// The words with a mark in the place of each knob's value.
    features: String,
}

impl Command {
    /// Finds what has to be filled in. `copied` are the files of which its attempts get copies.
    ///
    /// # Errors
    /// A file that the command does not name.
    pub fn new(
        program: &RunProgram,
        preset: &Preset,
        originals: &BTreeMap<String, Original>,
        copied: Copied<'_>,
    ) -> Result<Self, Refusal> {
        let mut words = program.command.clone();
        let mut placeholders = placeholders(preset.knobs.iter(), &words);
        copied.mark(&preset.files, originals, &mut words)?;
        for knob in preset.files.iter().filter_map(|f| f.copy.as_ref()) {
            placeholders.remove(knob);
        }
        let is_copied = |f: &&FileSpec| originals.contains_key(&f.name);
        let copies = preset.files.iter().filter(is_copied).cloned().collect();
        let mut features = words.clone();
        for knob in &preset.knobs {
            let spelling = knob.spelling.as_ref();
            if let Some(spelling) = spelling.filter(|s| words::find(&words, s).is_some()) {
                words::put(&mut features, spelling, &format!("{{{}}}", knob.name));
            }
        }
        Ok(Self {
            words,
            placeholders,
            copies,
            features: features.join("\0"),
        })
    }

    /// What must be equal for two commands to be compared beside the values of knobs.
    pub fn features(&self) -> &str {
        &self.features
    }

    /// The words and the variables of an attempt, whose copies lie in the folder `dir`.
    ///
    /// # Errors
    /// Places in the command for which there is no value.
    pub fn filled(
        &self,
        preset: &Preset,
        shape: &Shape,
        dir: &str,
    ) -> Result<(Vec<String>, BTreeMap<String, String>), Refusal> {
        let (mut command, mut environment) = (self.words.clone(), BTreeMap::new());
        for name in &self.placeholders {
            match shape.recipe().value(name) {
                Value::Null => return Err(nothing_for(name).into()),
                value => words::fill(&mut command, name, &value.to_string()),
            }
        }
        for knob in &preset.knobs {
            let Some((spelling, value)) = self.handed_over(preset, knob, shape) else {
                continue;
            };
            match spelling {
                Spelling::Env(name) => {
                    let name = variable(preset, shape, name).map_err(Problem::new)?;
                    environment.insert(name, value.to_string());
                }
                Spelling::Switch(flag) => {
                    words::switch(&mut command, flag, *value == Value::Bool(true));
                }
                Spelling::Flag(_) => words::put(&mut command, spelling, &value.to_string()),
                _ => words::put(&mut command, spelling, &hydra_value(value)),
            }
        }
        for file in &self.copies {
            Copied::place(file, &mut command, dir);
        }
        Ok((command, environment))
    }

    /// Spelling and value of a knob that somebody set. Defaults of a preset are the program's business.
    fn handed_over<'a>(
        &self,
        preset: &Preset,
        knob: &'a Knob,
        shape: &'a Shape,
    ) -> Option<(&'a Spelling, &'a Value)> {
        let spelling = knob.spelling.as_ref()?;
        let resolved = shape.recipe().values.get(&knob.name)?;
        let set = !resolved.origin.is_of_preset();
        let holds = |when: &String| expr::holds(preset.env(), when, shape.scope());
        let wanted = knob
            .render_when
            .as_ref()
            .is_none_or(|w| holds(w) == Ok(true));
        let elsewhere = self.placeholders.contains(&knob.name) || resolved.value.is_null();
        (set && wanted && !elsewhere).then_some((spelling, &resolved.value))
    }
}

fn nothing_for(name: &str) -> Problem {
    Problem::new(format!("there is no value for {{{name}}} in the command"))
        .hint(format!("give the first one with `--set {name}=…`"))
}
