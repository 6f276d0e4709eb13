//! What follows from a run's inputs without a look at the disk.

use std::path::Path;
use std::sync::Arc;

use super::inputs::Inputs;
use super::kept::MeasuredBefore;
use super::limits::{Limits, Supervision};
use super::notices::Notices;
use super::source::Source;
use crate::core::adopt::{Resources, Scripts};
use crate::core::config::{ConfigError, parse_data, parse_knob_set, parse_preset};
use crate::core::ladder::{check_answers, check_phases};
use crate::core::measure::FigurePattern;
use crate::core::recipe::copies::copies;
use crate::core::recipe::{KnobSetFile, Layer, LayerKind, Preset, Recipe, Shape};
use crate::core::render::{AttemptPlace, RenderedFile, TemplateError, render};
use oomctl_base::units::{duration, parse_duration_s};
use oomctl_base::{Origin, Problem, Refusal, Role, Value};
use oomctl_diagnose::ProgressPattern;
use oomctl_memory::Profile;

/// What is made of the texts of a request, once for all runs of a stack.
#[derive(Debug)]
struct Made {
    preset: Preset,
    profile: Option<Profile>,
    /// A pattern that the preset's check refuses is left out.
    progress: Vec<ProgressPattern>,
}

/// Inputs made ready: the preset assembled.
#[derive(Debug, Clone)]
pub struct Request {
    inputs: Inputs,
    made: Arc<Made>,
    pub(super) source: Source,
    /// What was measured of it on a phantom, as it is.
    before: Option<Arc<MeasuredBefore>>,
    /// Whoever changes the scripts needs no copies of them.
    pub(super) by_hand: bool,
}

/// Gives the run's name to the knob that a preset has for it, below all other layers.
fn name(layers: &mut Vec<Layer>, preset: &Preset, run: &str) {
    let Some(knob) = preset.with_role(Role::RunName).next() else {
        return;
    };
    let named = |l: &Layer| l.kind == LayerKind::Run;
    if !layers.first().is_some_and(named) {
        layers.insert(0, Layer::new(LayerKind::Run));
    }
    let expr = "the name of the run".to_owned();
    layers[0].set(
        &knob.name,
        Value::Text(run.to_owned()),
        Origin::Computed { expr },
    );
}

impl Request {
    /// Assembles the preset of `inputs`.
    ///
    /// # Errors
    /// Faults of preset, knob sets or version.
    pub fn new(inputs: Inputs) -> Result<Self, Refusal> {
        let fault = |e: ConfigError| Problem::new(e.to_string());
        let file = parse_preset(&inputs.preset.path, &inputs.preset.text).map_err(fault)?;
        let of_project = KnobSetFile::of_project(inputs.spellings.clone());
        let sets = inputs
            .knob_sets
            .iter()
            .map(|s| parse_knob_set(&s.path, &s.text))
            .chain([Ok(of_project)])
            .collect::<Result<_, _>>()
            .map_err(fault)?;
        let (preset, source) = Source::new(&inputs, file, sets)?;
        Self::of(inputs, preset, source)
    }

    /// The request of a program; its preset was assembled to read its command.
    ///
    /// # Errors
    /// A file that the command does not name, faults of the ladder.
    pub fn of_program(inputs: Inputs, preset: Preset) -> Result<Self, Refusal> {
        let source = Source::command(&inputs, &preset)?;
        Self::of(inputs, preset, source)
    }

    fn of(mut inputs: Inputs, preset: Preset, source: Source) -> Result<Self, Refusal> {
        let fault = |e: ConfigError| Problem::new(e.to_string());
        name(&mut inputs.layers, &preset, &inputs.run);
        let mut problems = check_answers(&inputs.ladder);
        problems.extend(check_phases(&preset));
        problems.extend(preset.ladder_faults(inputs.ladder.iter()));
        if !problems.is_empty() {
            return Err(Refusal(problems));
        }
        let profile = inputs.memory_profile.as_ref();
        let profile = profile
            .map(|s| parse_data(&s.path, &s.text))
            .transpose()
            .map_err(fault)?;
        let progress = preset.progress.iter();
        let progress = progress.filter_map(|p| ProgressPattern::new(p).ok());
        let made = Arc::new(Made {
            progress: progress.collect(),
            preset,
            profile,
        });
        let mut request = Self {
            inputs,
            made,
            source,
            before: None,
            by_hand: false,
        };
        // The memory model would be asked about another configuration.
        if request.unread().iter().any(|u| u.needed)
            && let Some(made) = Arc::get_mut(&mut request.made)
        {
            made.profile = None;
        }
        Ok(request)
    }

    /// Inputs of the same stack made ready, holding what both hold once.
    pub(super) fn sibling(&self, inputs: Inputs) -> Self {
        let like = &self.inputs;
        let scripts = like.scripts.as_ref().zip(inputs.scripts);
        let scripts = scripts.map(|(like, own)| Scripts {
            files: Arc::clone(&like.files),
            launchers: Arc::clone(&like.launchers),
            ..own
        });
        Self {
            inputs: Inputs {
                scripts,
                preset: Arc::clone(&like.preset),
                knob_sets: Arc::clone(&like.knob_sets),
                ladder: Arc::clone(&like.ladder),
                templates: Arc::clone(&like.templates),
                originals: Arc::clone(&like.originals),
                ..inputs
            },
            made: Arc::clone(&self.made),
            source: self.source.clone(),
            before: None,
            by_hand: self.by_hand,
        }
        .with_submission()
    }

    /// The same request, whose scripts are submitted as its inputs say.
    pub(super) fn with_submission(mut self) -> Self {
        if let (Source::Scripts(own), Some(scripts)) = (&mut self.source, &self.inputs.scripts) {
            own.submission = scripts.submission();
        }
        self
    }

    /// The same request, where something was measured before.
    pub(super) fn knowing(mut self, before: Arc<MeasuredBefore>) -> Self {
        self.before = Some(before);
        self
    }

    /// What was measured before.
    pub(super) fn known_before(&self) -> Option<&MeasuredBefore> {
        self.before.as_deref()
    }

    /// The inputs.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Name of the run.
    pub fn run(&self) -> &str {
        &self.inputs.run
    }

    /// Bounds of the run.
    pub fn limits(&self) -> &Limits {
        &self.inputs.limits
    }

    /// How it is supervised.
    pub fn supervision(&self) -> &Supervision {
        &self.inputs.supervision
    }

    /// Whom to tell of it who does not watch; `None` where that is nobody.
    pub fn notices(&self) -> Option<&Notices> {
        let notices = self.inputs.notices.as_ref();
        notices.filter(|n| !n.command.is_empty())
    }

    /// Working directory of its jobs, absolute.
    pub fn workdir(&self) -> &Path {
        Path::new(&self.inputs.workdir)
    }

    /// How its program prints progress, besides what is known of common trainers.
    pub fn progress(&self) -> &[ProgressPattern] {
        &self.made.progress
    }

    /// How its program prints figures of memory.
    pub fn measures(&self) -> &[FigurePattern] {
        &self.made.preset.measures
    }

    /// The same request for a run of another name, with a further layer: a cell of a sweep.
    pub fn cell(&self, run: &str, layer: Layer) -> Self {
        let mut cell = self.clone().named(run);
        cell.inputs.layers.push(layer);
        cell
    }

    /// The same request under a name.
    pub fn named(mut self, run: &str) -> Self {
        run.clone_into(&mut self.inputs.run);
        name(&mut self.inputs.layers, &self.made.preset, run);
        self
    }

    /// The same request with so many attempts in all.
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.inputs.limits.attempts = attempts;
        self
    }

    /// The same request with another probability to fit that an attempt should have.
    pub fn with_min_fit_probability(mut self, min_fit_probability: f64) -> Self {
        self.inputs.min_fit_probability = min_fit_probability;
        self
    }

    /// The same request, measured on phantom GPUs before it is submitted where somebody asks for that.
    pub fn measured_if(mut self, asked: bool) -> Self {
        self.inputs.supervision.measure |= asked;
        self
    }

    pub(super) fn inputs_mut(&mut self) -> &mut Inputs {
        &mut self.inputs
    }

    /// The same request with only the layers of these kinds.
    pub(super) fn with_layers_of(&self, kinds: impl Fn(LayerKind) -> bool) -> Self {
        let mut request = self.clone();
        request.inputs.layers.retain(|layer| kinds(layer.kind));
        request
    }

    /// The preset, for the framework's version.
    pub fn preset(&self) -> &Preset {
        &self.made.preset
    }

    /// The configuration with the rungs taken so far.
    ///
    /// # Errors
    /// Values outside their bounds and rules that are broken.
    pub fn shape(&self, rungs: &[Layer]) -> Result<Shape, Refusal> {
        let layers: Vec<Layer> = self.inputs.layers.iter().chain(rungs).cloned().collect();
        Shape::new(
            &self.made.preset,
            &layers,
            &self.inputs.cluster_facts,
            self.inputs.cluster.as_deref(),
        )
    }

    /// Constants of the training stack, where the preset has a bridge to the memory model.
    pub fn profile(&self) -> Option<&Profile> {
        self.made.profile.as_ref()
    }

    /// What the job takes, from the knobs with the roles for it.
    ///
    /// # Errors
    /// As `shape`.
    pub fn resources(&self, rungs: &[Layer]) -> Result<Resources, Refusal> {
        if let Some(asked) = self.own_resources(rungs) {
            return Ok(asked);
        }
        if self.command().is_some() {
            return self.command_resources(rungs);
        }
        let shape = self.shape(rungs)?;
        let first = |role| self.made.preset.with_role(role).next();
        let count = |role, none| {
            let value = first(role).map(|k| shape.recipe().value(&k.name));
            match value {
                Some(Value::Int(n)) => u64::try_from(*n).unwrap_or(none),
                _ => none,
            }
        };
        let limit = first(Role::TimeLimit).map(|k| shape.recipe().value(&k.name).to_string());
        let nodes = count(Role::Nodes, 1);
        Ok(Resources {
            gpus: nodes * count(Role::GpusPerNode, 0),
            nodes,
            time_limit_s: limit.and_then(|t| parse_duration_s(&t).ok()),
        })
    }

    /// That the job asks for more time than its nodes allow; a QOS may allow more.
    pub fn beyond_time_limit(&self) -> Option<String> {
        let allowed = self.inputs.cluster_facts.time_limit.as_ref()?;
        let most_s = parse_duration_s(allowed).ok()?;
        let asked_s = self.resources(&[]).ok()?.time_limit_s?;
        let has_qos = self.gives_sbatch(&["qos"], &["--qos", "-q"]);
        let nodes = self.inputs.nodes.as_deref();
        let of = nodes.and_then(|nodes| Some(nodes.split_once(':')?.0));
        (asked_s > most_s && !has_qos).then(|| {
            format!(
                "the job will never start: its time limit is {}, and {} allows {}. Add --sbatch=--time={allowed}, or --sbatch=--partition=NAME (`sinfo -s` lists them)",
                duration(i64::try_from(asked_s).unwrap_or(i64::MAX)),
                of.unwrap_or("the cluster"),
                duration(i64::try_from(most_s).unwrap_or(i64::MAX)),
            )
        })
    }

    /// The files of an attempt.
    ///
    /// # Errors
    /// As `shape`, templates that cannot be rendered, and values that cannot be written into a copy.
    pub fn render(
        &self,
        rungs: &[Layer],
        place: &AttemptPlace,
    ) -> Result<Vec<RenderedFile>, Refusal> {
        if let Some(files) = self.own_files(rungs, place)? {
            return Ok(files);
        }
        let shape = self.shape(rungs)?;
        let mut files = match self.command() {
            Some(_) => vec![self.command_file(rungs, place)?],
            None => render(&self.made.preset, &shape, &self.inputs.templates, place)
                .map_err(|e: TemplateError| Problem::new(e.to_string()))?,
        };
        let copies = copies(&self.made.preset, &shape, &self.inputs.originals)?;
        files.extend(copies.into_iter().map(|(name, text)| RenderedFile {
            name,
            text,
            entry: false,
            original: None,
        }));
        Ok(files)
    }

    /// The resolved recipe.
    ///
    /// # Errors
    /// As `shape`.
    pub fn recipe(&self, rungs: &[Layer]) -> Result<Recipe, Refusal> {
        self.shape(rungs).map(|s| s.recipe().clone())
    }

    /// The value of the knob with a role; `None` where there is none.
    pub fn value_of(&self, rungs: &[Layer], role: Role) -> Option<Value> {
        let knob = self.preset().with_role(role).next()?;
        let value = self.recipe(rungs).ok()?.value(&knob.name).clone();
        Some(value).filter(|value| !value.is_null())
    }

    /// The resolved recipe as it is stored with an attempt.
    ///
    /// # Errors
    /// As `shape`.
    pub fn stored_recipe(&self, rungs: &[Layer]) -> Result<serde_json::Value, Refusal> {
        let recipe = match self.recipe(rungs) {
            // The user's own script is submitted as it is, whatever the preset's rules say of it.
            Err(_) if self.inputs.scripts.is_some() && rungs.is_empty() => {
                return Ok(serde_json::Value::Null);
            }
            other => other?,
        };
        serde_json::to_value(&recipe).map_err(|e| Problem::new(e.to_string()).into())
    }
}
