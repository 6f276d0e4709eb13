//! A preset made ready for one version of its framework.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use minijinja::Environment;
use semver::Version;

use super::checkpoint::Checkpoint;
use super::expr;
use super::formulas::Formulas;
use super::knob::{Knob, at_version, left_out, of_any_version};
use super::preset::{Derived, FileSpec, Framework, MemoryFields, PresetFile, ProbeSpec, Rule};
use super::rung::{RungSpec, Tuning};
use super::sets::KnobSetFile;
use crate::core::measure::{FigurePattern, FigureSpec};
use oomctl_base::{Problem, Refusal, Role, meant};
use oomctl_scripts::Recognise;

/// A preset for one version: knob sets merged in, versions picked, every expression known to
/// compile and to use only names that exist.
#[derive(Debug, Clone)]
pub struct Preset {
    /// Name.
    pub name: String,
    /// One line about it.
    pub summary: String,
    /// The framework, where the preset knows one.
    pub framework: Option<Framework>,
    /// The version of the framework.
    pub version: Option<Version>,
    /// Nobody named the version: it is the newest that the preset supports.
    pub version_is_assumed: bool,
    /// Knobs that exist in this version, in the order in which they are rendered.
    pub knobs: Vec<Knob>,
    /// Knobs that do not exist in this version, with a remark.
    pub absent: BTreeMap<String, Option<String>>,
    /// Derived values for this version.
    pub derived: Vec<Derived>,
    /// Rules for this version.
    pub rules: Vec<Rule>,
    /// The ladder.
    pub ladder: Vec<RungSpec>,
    /// What makes a job that fits faster.
    pub tune: Vec<Tuning>,
    /// What makes a job short.
    pub probe: Option<ProbeSpec>,
    /// Files of an attempt.
    pub files: Vec<FileSpec>,
    /// Patterns that find training progress.
    pub progress: Vec<String>,
    /// Figures of memory that the framework prints.
    pub measures: Vec<FigurePattern>,
    /// Checkpoints.
    pub checkpoint: Option<Checkpoint>,
    /// The bridge to the memory model.
    pub memory: Option<MemoryFields>,
    /// Memory by formulas of its own.
    pub formulas: Option<Formulas>,
    /// By what its programs are known, and what makes no difference to them.
    pub recognise: Recognise,
    /// The names that rules, derived values, computed defaults and the bridge use, by expression.
    names: BTreeMap<String, BTreeSet<String>>,
    env: Environment<'static>,
}

/// The patterns that can be compiled, and what is wrong with the others.
fn patterns(figures: &[FigureSpec]) -> (Vec<FigurePattern>, Vec<String>) {
    let mut broken = Vec::new();
    let compiled = figures.iter().map(FigurePattern::new);
    let sound = compiled.filter_map(|pattern| pattern.map_err(|what| broken.push(what)).ok());
    (sound.collect(), broken)
}

/// Names that expressions know besides knobs and derived values.
pub(super) const AMBIENT: [&str; 4] = ["version", "cluster", "incident", "attempt"];

impl PresetFile {
    /// Whether it is an inference engine with a command of its own: trainers start it inside themselves, too.
    pub fn is_engine(&self) -> bool {
        let is_library = self.framework.as_ref().is_some_and(|f| f.library);
        is_library && !self.recognise.programs.is_empty()
    }

    /// The preset for scripts and commands that nobody renders: what they leave out, the framework decides.
    ///
    /// # Errors
    /// A version that the preset does not know.
    pub fn with_framework_defaults(mut self, version: Option<&str>) -> Result<Self, Refusal> {
        let stated = version.is_some();
        let version = pick_version(&self, version)?;
        let knobs = self.knobs.into_iter();
        let knobs = knobs.map(|k| left_out(k, version.as_ref()));
        self.knobs = match stated {
            true => knobs.collect(),
            false => knobs.map(of_any_version).collect(),
        };
        Ok(self)
    }
}

impl Preset {
    /// What it says of jobs that go on from a checkpoint.
    pub fn of_checkpoints(&self) -> Vec<&String> {
        let checkpoint = self.checkpoint.iter();
        checkpoint
            .flat_map(|c| c.bound.iter().map(|b| &b.text).chain(&c.lost))
            .collect()
    }

    /// The template of a file that stands for the job: every knob, so that a rung which changes none of them is seen to.
    pub fn stand_in_templates(&self) -> BTreeMap<String, String> {
        let names = self.knobs.iter().map(|k| &k.name);
        let text: String = names.map(|n| format!("{{{{ {n}|tojson }}}}\n")).collect();
        let files = self.files.iter().filter_map(|f| f.template.clone());
        files.map(|name| (name, text.clone())).collect()
    }

    /// Merges knob sets into a preset file and picks a version.
    ///
    /// # Errors
    /// Every fault of the preset: unknown version, names given twice, expressions that do not
    /// compile or use unknown names, moves without a target.
    pub fn assemble(
        file: PresetFile,
        sets: Vec<KnobSetFile>,
        version: Option<&str>,
    ) -> Result<Self, Refusal> {
        let stated = version.is_some();
        let version = pick_version(&file, version)?;
        let file = file.with(sets);
        let (mut knobs, mut absent) = (Vec::new(), BTreeMap::new());
        let (mut derived, mut rules, mut ladder) = (file.derived, file.rules, file.ladder);
        for mut knob in file.knobs {
            if knob.role.is_some_and(Role::counts_from_one) && knob.min.is_none() {
                knob.min = Some(1.0);
            }
            match at_version(knob, version.as_ref()) {
                Ok(knob) => knobs.push(knob),
                Err((name, note)) => {
                    absent.insert(name, note);
                }
            }
        }
        let here = |range: Option<&semver::VersionReq>| match (range, &version) {
            (Some(range), Some(v)) => range.matches(v),
            _ => true,
        };
        derived.retain(|d| here(d.versions.as_ref()));
        let mut seen = BTreeSet::new();
        derived.retain(|d| seen.insert(d.name.clone()));
        rules.retain(|r| here(r.versions.as_ref()));
        for rung in &mut ladder {
            rung.useless.retain(|u| here(u.versions.as_ref()));
        }
        let checkpoint = file.checkpoint.map(|c| c.settled(stated, here));
        let env = expr::environment(version.as_ref());
        let (measures, broken) = patterns(&file.measures);
        let mut preset = Self {
            name: file.preset,
            summary: file.summary,
            framework: file.framework,
            version_is_assumed: !stated && version.is_some(),
            version,
            knobs,
            absent,
            derived,
            rules,
            ladder,
            tune: file.tune,
            probe: file.probe,
            files: file.files,
            progress: file.progress,
            measures,
            checkpoint,
            memory: file.memory,
            formulas: file.formulas,
            recognise: file.recognise,
            names: BTreeMap::new(),
            env,
        };
        preset.names = preset.all_names();
        let problems = preset.faults(&broken);
        match problems.is_empty() {
            true => Ok(preset),
            false => Err(Refusal(problems)),
        }
    }

    /// The expression environment.
    pub fn env(&self) -> &Environment<'static> {
        &self.env
    }

    fn all_names(&self) -> BTreeMap<String, BTreeSet<String>> {
        let derived = self.derived.iter().map(|d| d.expr.as_str());
        let texts = self
            .expressions()
            .into_iter()
            .map(|(_, text)| text)
            .chain(derived);
        texts
            .map(|text| (text.to_owned(), self.names_in(text).into_owned()))
            .collect()
    }

    /// The names that an expression uses; none where it does not compile.
    pub(super) fn names_in(&self, text: &str) -> Cow<'_, BTreeSet<String>> {
        let compile = || self.env.compile_expression(text).map(|e| expr::names(&e));
        match self.names.get(text) {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(compile().unwrap_or_default()),
        }
    }

    /// The knob of this name, or with this spelling.
    pub fn knob(&self, name: &str) -> Option<&Knob> {
        self.knobs.iter().find(|k| k.name == name).or_else(|| {
            self.knobs
                .iter()
                .find(|k| k.spelling.as_ref().is_some_and(|s| s.name() == name))
        })
    }

    /// All knobs of a role.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &Knob> {
        self.knobs.iter().filter(move |k| k.role == Some(role))
    }

    /// The problem of a name that no knob has: absent in this version, or misspelled.
    pub fn unknown_knob(&self, name: &str) -> Problem {
        let framework = self.framework.as_ref().map_or("", |f| f.name.as_str());
        if let (Some(note), Some(version)) = (self.absent.get(name), &self.version) {
            let problem = Problem::new(format!("{name} does not exist in {framework} {version}"));
            return match note {
                Some(note) => problem.hint(note.clone()),
                None => problem.hint("leave it out, or name another version of the framework"),
            };
        }
        let problem = Problem::new(format!("preset {} has no knob named {name}", self.name));
        let all = || format!("`oomctl presets {}` lists its knobs", self.name);
        let names = self.knobs.iter().map(|k| k.name.as_str());
        let spelled = self
            .knobs
            .iter()
            .filter_map(|k| Some(k.spelling.as_ref()?.name()));
        problem.hint(meant(name, names.chain(spelled)).unwrap_or_else(all))
    }
}

fn pick_version(file: &PresetFile, asked: Option<&str>) -> Result<Option<Version>, Refusal> {
    let Some(framework) = &file.framework else {
        return Ok(None);
    };
    let Some(text) = asked else {
        return Ok(Some(framework.default_version.clone()));
    };
    let name = &framework.name;
    let hint = format!(
        "preset {} knows {name} {}",
        file.preset, framework.supported
    );
    let padded = match text.matches('.').count() {
        0 => format!("{text}.0.0"),
        1 => format!("{text}.0"),
        _ => text.to_owned(),
    };
    let version = Version::parse(&padded).map_err(|e| {
        Refusal::from(
            Problem::new(format!("`{text}` is not a version of {name}: {e}")).hint(hint.clone()),
        )
    })?;
    if framework.supported.matches(&version) {
        Ok(Some(version))
    } else {
        Err(Problem::new(format!("{name} {version} is not supported"))
            .hint(hint)
            .into())
    }
}
