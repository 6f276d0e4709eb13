//! A command made ready to be run again and again with other values.

use std::collections::{BTreeMap, BTreeSet};

use super::copied::{Copied, Copy};
use super::given::{Composed, RunArguments};
use super::spelled::{in_files, placeholders, said, spell};
use super::words;
use crate::core::ladder::{ClimbContext, Decision, Policy, climb};
use crate::core::recipe::copies::copies;
use crate::core::recipe::{
    ClusterFacts, FileSpec, Knob, KnobSetFile, Layer, LayerKind, Preset, PresetFile, Recipe,
    RungSpec, Shape, expr,
};
use crate::core::render::{hydra_value, variable};
use oomctl_base::units::{Bytes, parse_duration_s};
use oomctl_base::{Origin, Problem, Refusal, Role, Value};
use oomctl_diagnose::Incident;
use oomctl_scripts::Spelling;

/// The file that stands for a command where the ladder compares two configurations.
const RENDERED: &str = "command";
/// The knob that keeps an attempt away from GPUs.
pub(super) const EXCLUDED: &str = "excluded_gpus";
/// Longest time, in seconds, for a setting that is a duration: ten years.
const LONGEST_S: u64 = 10 * 366 * 86_400;

/// One attempt: what is started, and on what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramAttempt {
    /// The program and its arguments; what names a file that is copied is only a mark.
    command: Vec<String>,
    /// The files that it gets copies of.
    pub copies: Vec<Copy>,
    /// Variables to be set, without those that choose the GPU.
    pub environment: Vec<(String, String)>,
    /// It runs without a GPU.
    pub cpu: bool,
    /// UUIDs of GPUs that it must not have.
    pub excluded_gpus: Vec<String>,
    /// Memory that must be available on its GPU.
    pub need: Bytes,
    /// Memory that is promised to it; the whole GPU where it is not known.
    pub claim: Option<Bytes>,
    /// How long a GPU is waited for, in seconds.
    pub wait_s: u64,
    /// Seconds between two looks.
    pub check_every_s: u64,
    /// Seconds without output after which a program that says that it ran out of memory is ended.
    pub hang_grace_s: u64,
}

impl ProgramAttempt {
    /// The program and its arguments, where its copies lie in the folder `dir`.
    #[must_use]
    pub fn command(&self, dir: &str) -> Vec<String> {
        let mut command = self.command.clone();
        for copy in &self.copies {
            copy.place(&mut command, dir);
        }
        command
    }
}

/// A program, its knobs and its ladder.
#[derive(Debug)]
pub struct Launch {
    preset: Preset,
    ladder: Vec<RungSpec>,
    command: Vec<String>,
    placeholders: BTreeSet<String>,
    template: BTreeMap<String, String>,
    layers: Vec<Layer>,
    remarks: Vec<String>,
    /// Files of which each attempt gets a copy, as the preset has them.
    copies: Vec<FileSpec>,
    copied: Copied,
}

impl Launch {
    /// Finds the knobs of a preset in a command. `sets` are the knob sets that the preset uses, among them
    /// the one that says how a GPU is waited for.
    ///
    /// # Errors
    /// Faults of the preset, and spellings of knobs that it lacks.
    pub fn new(
        mut file: PresetFile,
        mut sets: Vec<KnobSetFile>,
        given: RunArguments,
    ) -> Result<Self, Refusal> {
        spell(&mut file, &mut sets, &given)?;
        // What a scheduler's job must be told may be missing here.
        let knobs = sets.iter_mut().flat_map(|s| &mut s.knobs);
        knobs
            .chain(&mut file.knobs)
            .for_each(|k| k.required = false);
        file.files.retain(|f| f.copy.is_some());
        let copies = file.files.clone();
        file.files.push(FileSpec {
            name: RENDERED.to_owned(),
            template: Some(RENDERED.to_owned()),
            copy: None,
            entry: true,
        });
        let preset = Preset::assemble(file, sets, None)?;
        let template: String = preset
            .knobs
            .iter()
            .map(|k| format!("{{{{ {}|tojson }}}}\n", k.name))
            .collect();
        let mut launch = Self {
            ladder: preset.ladder.clone(),
            placeholders: placeholders(preset.knobs.iter(), &given.command),
            template: BTreeMap::from([(RENDERED.to_owned(), template)]),
            command: given.command,
            layers: Vec::new(),
            remarks: Vec::new(),
            copies,
            copied: Copied::default(),
            preset,
        };
        let layer = launch.read(&given.variables, &given.composed);
        launch.layers.push(layer);
        Ok(launch)
    }

    /// The same with further layers, such as that of the command line's options.
    #[must_use]
    pub fn with(mut self, layers: Vec<Layer>) -> Self {
        self.layers.extend(layers);
        self
    }

    /// The same with the files of which its attempts get copies, which its command must name.
    ///
    /// # Errors
    /// A file that it does not name.
    pub fn copying(mut self, copied: Copied) -> Result<Self, Refusal> {
        copied.mark(&self.copies, &mut self.command)?;
        for knob in self.copies.iter().filter_map(|f| f.copy.as_ref()) {
            self.placeholders.remove(knob);
        }
        self.copied = copied;
        Ok(self)
    }

    /// The preset.
    #[must_use]
    pub fn preset(&self) -> &Preset {
        &self.preset
    }

    /// What could not be made of the command's words.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The same with a remark where the batch is not known, for then an out-of-memory has no smaller one.
    ///
    /// # Errors
    /// As `attempt`.
    pub fn remarking_an_unknown_batch(mut self) -> Result<Self, Refusal> {
        let shape = self.shape(&[])?;
        let moved = |knob: &&Knob| {
            let mut moves = self.ladder.iter().flat_map(|r| &r.moves);
            moves.any(|m| m.knob.as_ref() == Some(&knob.name))
        };
        let unknown = self.preset.with_role(Role::MicroBatch).filter(moved);
        let unknown = unknown.filter(|k| shape.recipe().value(&k.name).is_null());
        let remark = |name: &str| {
            format!(
                "batch size not found in the command or its files, so oomctl cannot lower it. Give its option with --knob {name}=OPTION (--bs, training.batch_size) and its value with --set {name}=N"
            )
        };
        let remarks: Vec<String> = unknown.take(1).map(|k| remark(&k.name)).collect();
        self.remarks.extend(remarks);
        Ok(self)
    }

    /// The layer that the command and its environment are.
    fn read(&mut self, variables: &BTreeMap<String, String>, composed: &Composed) -> Layer {
        let mut layer = Layer::new(LayerKind::Command);
        for knob in &self.preset.knobs {
            let said = said(knob, &self.command, variables)
                .map(|(text, place)| (text, Origin::Flag { text: place }));
            let Some((text, origin)) = said.or_else(|| in_files(knob, composed)) else {
                continue;
            };
            match knob.kind.parse(&text) {
                Ok(value) => layer.set(&knob.name, value, origin),
                Err(what) => self
                    .remarks
                    .push(format!("{}: {what}; passed on unchanged", knob.name)),
            }
        }
        layer
    }

    /// The attempt with the rungs taken so far.
    ///
    /// # Errors
    /// Values outside their bounds, rules that are broken, places in the command for which there is no value.
    pub fn attempt(&self, rungs: &[Layer]) -> Result<ProgramAttempt, Refusal> {
        let shape = self.shape(rungs)?;
        let recipe = shape.recipe();
        let mut command = self.command.clone();
        let mut environment = Vec::new();
        for name in &self.placeholders {
            match recipe.value(name) {
                Value::Null => return Err(nothing_for(name).into()),
                value => words::fill(&mut command, name, &value.to_string()),
            }
        }
        for knob in &self.preset.knobs {
            let Some((spelling, value)) = self.handed_over(knob, &shape) else {
                continue;
            };
            match spelling {
                Spelling::Env(name) => {
                    let name = variable(&self.preset, &shape, name).map_err(Problem::new)?;
                    environment.push((name, value.to_string()));
                }
                Spelling::Switch(flag) => {
                    words::switch(&mut command, flag, *value == Value::Bool(true));
                }
                Spelling::Flag(_) => words::put(&mut command, spelling, &value.to_string()),
                _ => words::put(&mut command, spelling, &hydra_value(value)),
            }
        }
        let claim = bytes(recipe, "claim");
        let copies = copies(&self.preset, &shape, &self.copied.originals)?;
        Ok(ProgramAttempt {
            command,
            copies: copies
                .into_iter()
                .filter_map(|(name, text)| self.copy(name, text))
                .collect(),
            environment,
            cpu: matches!(recipe.value("device"), Value::Text(t) if t == "cpu"),
            excluded_gpus: excluded(recipe),
            need: bytes(recipe, "min_gpu_memory")
                .max(claim)
                .unwrap_or_default(),
            claim,
            wait_s: seconds(recipe, "wait"),
            check_every_s: seconds(recipe, "check_every").max(1),
            hang_grace_s: seconds(recipe, "hang_grace").max(1),
        })
    }

    fn copy(&self, name: String, text: String) -> Option<Copy> {
        let spec = self.copies.iter().find(|f| f.name == name)?;
        let knob = spec.copy.clone()?;
        Some(Copy { knob, name, text })
    }

    /// Spelling and value of a knob that somebody set. Defaults of a preset are the program's business.
    fn handed_over<'a>(
        &'a self,
        knob: &'a Knob,
        shape: &'a Shape,
    ) -> Option<(&'a Spelling, &'a Value)> {
        let spelling = knob.spelling.as_ref()?;
        let resolved = shape.recipe().values.get(&knob.name)?;
        let set = !matches!(
            resolved.origin,
            Origin::Default { .. } | Origin::Computed { .. }
        );
        let holds = |when: &String| expr::holds(self.preset.env(), when, shape.scope());
        let wanted = knob
            .render_when
            .as_ref()
            .is_none_or(|w| holds(w) == Ok(true));
        let elsewhere = self.placeholders.contains(&knob.name) || resolved.value.is_null();
        (set && wanted && !elsewhere).then_some((spelling, &resolved.value))
    }

    fn shape(&self, rungs: &[Layer]) -> Result<Shape, Refusal> {
        let layers: Vec<Layer> = self.layers.iter().chain(rungs).cloned().collect();
        Shape::new(&self.preset, &layers, &ClusterFacts::default(), None)
    }

    /// The next rung after attempt `number`. `place` is the GPU that it had, and how many could be used.
    ///
    /// # Errors
    /// As `climb`.
    pub fn climb(
        &self,
        rungs: &[Layer],
        number: u32,
        place: (Option<&str>, usize),
        incident: &Incident,
    ) -> Result<Decision, Refusal> {
        self.decide(&self.ladder, rungs, number, place, Some(incident))
    }

    /// The rung that leaves the GPU for the CPU, for want of a GPU. `Exhausted` where none is allowed.
    ///
    /// # Errors
    /// As `climb`.
    pub fn without_gpu(&self, rungs: &[Layer], number: u32) -> Result<Decision, Refusal> {
        let leaves = |rung: &&RungSpec| {
            let mut moves = rung.moves.iter();
            moves.any(|m| m.knob.as_deref() == Some("device"))
        };
        let ladder: Vec<RungSpec> = self.ladder.iter().filter(leaves).cloned().collect();
        self.decide(&ladder, rungs, number, (None, 0), None)
    }

    fn decide(
        &self,
        ladder: &[RungSpec],
        rungs: &[Layer],
        number: u32,
        (gpu, gpus): (Option<&str>, usize),
        incident: Option<&Incident>,
    ) -> Result<Decision, Refusal> {
        let facts = ClusterFacts {
            gpus_per_node: u32::try_from(gpus).ok(),
            ..ClusterFacts::default()
        };
        let mut layers = self.layers.clone();
        layers.extend(gpu.map(chosen));
        let context = ClimbContext {
            preset: &self.preset,
            ladder,
            policy: Policy::Ladder,
            whole_rungs: false,
            cluster: &facts,
            cluster_name: None,
            templates: &self.template,
            layers: &layers,
            rungs,
            attempt: number,
        };
        climb(&context, incident)
    }
}

/// The layer that says which GPU the attempt had.
fn chosen(gpu: &str) -> Layer {
    let mut layer = Layer::new(LayerKind::Command);
    let origin = Origin::Computed {
        expr: "the GPU with the most available memory".to_owned(),
    };
    layer.set("gpu", Value::Text(gpu.to_owned()), origin);
    layer
}

fn nothing_for(name: &str) -> Problem {
    Problem::new(format!("there is no value for {{{name}}} in the command"))
        .hint(format!("give the first one with `--set {name}=…`"))
}

fn excluded(recipe: &Recipe) -> Vec<String> {
    match recipe.value(EXCLUDED) {
        Value::List(uuids) => uuids.clone(),
        _ => Vec::new(),
    }
}

fn bytes(recipe: &Recipe, name: &str) -> Option<Bytes> {
    match recipe.value(name) {
        Value::Text(text) => Bytes::parse(text).ok(),
        _ => None,
    }
}

fn seconds(recipe: &Recipe, name: &str) -> u64 {
    let parsed = match recipe.value(name) {
        Value::Text(text) => parse_duration_s(text).ok(),
        _ => None,
    };
    parsed.unwrap_or(0).min(LONGEST_S)
}
