//! Configuration as people write it: project files, profiles, presets, knob sets, assignments. Whatever
//! it holds is either a configuration or refused with the place of the fault.

use std::sync::LazyLock;

use oomctl::core::config::{
    ConfigDocument, ConfigError, MAX_FILE, from_environment, from_flags, merge_ladder,
    parse_knob_set, parse_preset, variable,
};
use oomctl::core::ladder::Decision;
use oomctl::core::recipe::{ClusterFacts, Layer, LayerKind, Preset, PresetFile, Shape};
use oomctl::core::render::{AttemptPlace, RenderedFile, render};
use oomctl::core::request::{Inputs, Limits, NamedText, Request, Supervision};
use oomctl::io::library::{Library, LibraryFolder};
use oomctl_base::{Origin, Problem, Refusal, word_list};
use oomctl_diagnose::{Scanner, UserSignature};

use super::allocations::within;

/// Bytes that configuration may hold beside a multiple of its length: presets, templates and patterns
/// made ready.
const MOST_MEMORY: usize = 64 << 20;
/// Bytes for each byte: a tree of nodes, and what is copied from layer to layer.
const MOST_TIMES: usize = 512;
/// Rungs climbed at most.
const MOST_RUNGS: u32 = 3;
const FILE: &str = "oomctl.yaml";

/// A framework of ours, ready to be used.
struct Framework {
    source: NamedText,
    sets: Vec<NamedText>,
    preset: Preset,
    /// What has to be set, with values.
    needed: Vec<String>,
}

static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library::new(None));
static TORCHRUN: LazyLock<Framework> =
    LazyLock::new(|| Framework::new("torchrun", &["script=train.py", "batch_size=32"]));

impl Framework {
    fn new(name: &str, needed: &[&str]) -> Self {
        let source = LIBRARY.get(LibraryFolder::Presets, name).unwrap();
        let file = parse_preset(&source.path, &source.text).unwrap();
        let sets = sets(&file);
        Self {
            preset: Preset::assemble(file, parsed(&sets), None).unwrap(),
            source,
            sets,
            needed: needed.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    /// The layer of what has to be set.
    fn base(&self) -> Layer {
        let mut layer = from_flags(&self.preset, &self.needed, &[]).unwrap();
        layer.kind = LayerKind::Dataset;
        layer
    }
}

/// The knob sets that a preset names and that there are.
fn sets(file: &PresetFile) -> Vec<NamedText> {
    let names = file.uses.iter();
    names
        .filter_map(|name| LIBRARY.get(LibraryFolder::Sets, name).ok())
        .collect()
}

fn parsed(sets: &[NamedText]) -> Vec<oomctl::core::recipe::KnobSetFile> {
    let parsed = sets.iter().map(|set| parse_knob_set(&set.path, &set.text));
    parsed.collect::<Result<_, _>>().unwrap()
}

pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let framework = &*TORCHRUN;
    within(MOST_MEMORY + MOST_TIMES * text.len(), || {
        assignments(&framework.preset, &text);
        match ConfigDocument::parse(FILE, &text) {
            Ok(document) => project(framework, &document),
            Err(error) => placed(&error, &text),
        }
        preset(&text);
        if let Err(error) = parse_knob_set(FILE, &text) {
            placed(&error, &text);
        }
    });
}

/// A fault of a file says the line and the column where it stands.
fn placed(error: &ConfigError, text: &str) {
    assert!(!error.what.is_empty());
    if text.len() > MAX_FILE {
        return;
    }
    // YAML ends a line at a lone carriage return too (1.2.2, 5.4).
    let lines = u32::try_from(text.split(['\n', '\r']).count()).unwrap();
    let line = error.line.unwrap_or_else(|| panic!("no line: {error:?}"));
    assert!((1..=lines + 1).contains(&line), "line {line} of {lines}");
    assert!(error.column.is_some_and(|column| column > 0), "{error:?}");
}

/// A problem with a value says where the value was given, and any other what it belongs to.
fn explained(refusal: &Refusal) {
    assert!(!refusal.0.is_empty(), "refused without a reason");
    for Problem { what, places, hint } in &refusal.0 {
        let named = what.contains("preset") || hint.is_some() || what.contains(':');
        assert!(!places.is_empty() || named, "no place: {what}");
        for place in places {
            if let Origin::File { line, column, .. } = place.origin {
                assert!(line > 0 && column > 0, "{place:?}");
            }
        }
    }
}

/// Each line as `--set`, as `--override` and as a variable.
fn assignments(preset: &Preset, text: &str) {
    for line in text.lines().take(20) {
        let given = [line.to_owned()];
        match from_flags(preset, &given, &given) {
            Ok(layer) => {
                let facts = ClusterFacts::default();
                if let Err(refusal) = Shape::new(preset, &[layer], &facts, None) {
                    explained(&refusal);
                }
            }
            Err(refusal) => refusal.0.iter().for_each(|problem| {
                assert!(!problem.places.is_empty(), "no place: {problem:?}");
            }),
        }
        if let Some((name, value)) = line.split_once('=') {
            let name = variable(name);
            let pairs = [(name.as_str(), value)];
            if let Err(refusal) = from_environment(preset, pairs.into_iter()) {
                explained(&refusal);
            }
        }
    }
}

/// A project file, from its text to the files of an attempt and up the ladder.
fn project(framework: &Framework, document: &ConfigDocument) {
    let text = |error: ConfigError| {
        assert!(error.line.is_some(), "no line: {error:?}");
    };
    for key in ["preset", "dataset", "cluster", "backend", "policy"] {
        let _ = document.text(key).map_err(text);
    }
    let known = ["preset", "dataset", "knobs", "pin", "overrides", "ladder"];
    let _ = document.check_keys(&known).map_err(text);
    signatures(document);
    let limits = document
        .section::<Limits>("limits", &["attempts", "gpu_hours"], &["wall_time"])
        .map_err(text)
        .unwrap_or_default();
    let supervision = document
        .section::<Supervision>("supervision", &["time_limit_retries"], &["poll", "drain"])
        .map_err(text)
        .unwrap_or_default();
    let facts = word_list::<5>("offline gpus_per_node nodes node_memory gpu_types");
    let facts = document
        .section::<ClusterFacts>("facts", &facts, &[])
        .map_err(text)
        .ok()
        .filter(|facts| facts.check().is_ok())
        .unwrap_or_default();
    let layer = match document.layer(LayerKind::Project, &framework.preset) {
        Ok(layer) => layer,
        Err(errors) => return errors.into_iter().for_each(text),
    };
    let Ok(entries) = document.ladder().map_err(text) else {
        return;
    };
    let ladder = match merge_ladder(&framework.preset.ladder, entries.as_deref()) {
        Ok(ladder) => ladder,
        Err(problem) => return explained(&problem.into()),
    };
    let inputs = Inputs {
        run: "run".to_owned(),
        knob_sets: framework.sets.clone().into(),
        ladder: ladder.into(),
        one_rung: false,
        templates: LIBRARY.templates().unwrap().into(),
        cluster_facts: facts,
        layers: vec![framework.base(), layer],
        limits,
        supervision,
        ..Inputs::bare(
            framework.source.clone(),
            "slurm",
            "/w".to_owned(),
            "/w".to_owned(),
        )
    };
    match Request::new(inputs) {
        Ok(request) => climbed(&request),
        Err(refusal) => explained(&refusal),
    }
}

/// The ladder from here, as `oomctl plan` shows it; every rung's files can be rendered.
fn climbed(request: &Request) {
    let mut rungs = Vec::new();
    for attempt in 1..=MOST_RUNGS {
        if let Err(refusal) = request.resources(&rungs) {
            return explained(&refusal);
        }
        match request.shape(&rungs) {
            Ok(shape) => {
                let templates = &request.inputs().templates;
                if let Ok(files) = render(request.preset(), &shape, templates, &place()) {
                    files.iter().for_each(whole_lines);
                }
            }
            Err(refusal) => return explained(&refusal),
        }
        match request.climb(&rungs, None, attempt) {
            Ok(Decision::Climb { steps, .. }) => {
                rungs.extend(steps.into_iter().map(|step| step.layer));
            }
            Ok(Decision::Exhausted { .. }) => return,
            Err(refusal) => return explained(&refusal),
        }
    }
}

/// Where the attempt lives, for templates.
pub fn place() -> AttemptPlace {
    AttemptPlace {
        run: "run".to_owned(),
        number: 1,
        token: "oomctl-run-1-5c0ffee5".to_owned(),
        dir: "/w/.oomctl/runs/run/attempt-1".to_owned(),
        workdir: "/w".to_owned(),
        backend: "slurm".to_owned(),
        program: None,
    }
}

/// Nothing that is given ends an `#SBATCH` line and begins another.
fn whole_lines(file: &RenderedFile) {
    for line in file.text.lines().filter(|line| line.starts_with("#SBATCH")) {
        let known = line.starts_with("#SBATCH --") || line.starts_with("#SBATCH -");
        assert!(known && !line.contains('\r'), "{line:?}");
    }
}

/// Signatures that pass their own check are safe to scan with.
fn signatures(document: &ConfigDocument) {
    let Some(node) = document.get("signatures") else {
        return;
    };
    let Ok(given) = serde_json::from_value::<Vec<UserSignature>>(node.to_json()) else {
        return;
    };
    let good: Vec<_> = given.into_iter().filter(|s| s.check().is_ok()).collect();
    let mut scanner = Scanner::new(&[]).knowing(&good);
    let source = scanner.source("log");
    scanner.feed(
        source,
        0,
        b"Traceback (most recent call last):\nKeyError: 'shuttle'\n",
    );
    scanner.finish_source(source);
    super::log::shown(&scanner.verdict(None));
}

/// A preset of the user's own, made ready with our knob sets.
fn preset(text: &str) {
    let file = match parse_preset(FILE, text) {
        Ok(file) => file,
        Err(error) => return placed(&error, text),
    };
    let sets = parsed(&sets(&file));
    let preset = match Preset::assemble(file, sets, None) {
        Ok(preset) => preset,
        Err(refusal) => return explained(&refusal),
    };
    let facts = ClusterFacts::default();
    match Shape::new(&preset, &[], &facts, None) {
        Ok(shape) => {
            let templates = LIBRARY.templates().unwrap();
            let _ = render(&preset, &shape, &templates, &place());
        }
        Err(refusal) => explained(&refusal),
    }
}
