//! From flags, files and environment to the inputs of a run.

use std::collections::BTreeSet;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::nodes::AskedNodes;
use super::profile::{named, profile};
use super::{climbing, copied, known, nodes, packages, sections, signatures, yaml_lint};
use crate::cli::args::{Backend, Configuration};
use crate::cli::config_files::{of_site, outer_files};
use crate::cli::session::Session;
use crate::core::config::{
    ConfigDocument, from_environment, from_flags, merge_ladder, parse_data, parse_knob_set,
    parse_preset,
};
use crate::core::recipe::{Knob, KnobSetFile, Layer, LayerKind, Preset, PresetFile};
use crate::core::request::{Inputs, NamedText, Request};
use crate::io::environment::variables;
use crate::io::installed::{lacking, versions};
use crate::io::job_scripts::job_scripts;
use crate::io::library::{Library, LibraryFolder};
use crate::io::scheduler::slurm::bad_option;
use crate::view::{CommandFailure, print};
use oomctl_base::units::Bytes;
use oomctl_base::{Problem, word_list};
use oomctl_memory::Profiles;

const PROJECT_KEYS: [&str; 19] = word_list(
    "preset dataset cluster backend slurm policy one_rung whole_rungs min_fit_probability knobs pin overrides
     ladder limits supervision notices signatures spellings risk",
);

/// What is known of training stacks: built in, and the project's own under `presets/memory/`.
pub fn profiles(library: &Library) -> Result<Profiles, CommandFailure> {
    Ok(Profiles::new(all_parsed(library, LibraryFolder::Memory)?))
}

/// A thing on a shelf of the library.
pub fn parsed<T: DeserializeOwned>(
    library: &Library,
    shelf: LibraryFolder,
    name: &str,
) -> Result<T, CommandFailure> {
    let source = library.get(shelf, name)?;
    Ok(parse_data(&source.path, &source.text)?)
}

/// All things on a shelf of the library.
pub fn all_parsed<T: DeserializeOwned>(
    library: &Library,
    shelf: LibraryFolder,
) -> Result<Vec<T>, CommandFailure> {
    let names = library.names(shelf);
    names.iter().map(|n| parsed(library, shelf, n)).collect()
}

/// The job script of a folder, where it has one only.
fn script_of(folder: &Path) -> String {
    let mut scripts = job_scripts(folder);
    match scripts.len() {
        1 => scripts.remove(0),
        _ => "SCRIPT".to_owned(),
    }
}

/// A project file with neither a preset nor a value is there for a script of the user's own.
fn is_for_a_job(
    session: &Session,
    preset: Option<&str>,
    layers: &[Layer],
) -> Result<(), CommandFailure> {
    let gives = |layer: &Layer| layer.kind >= LayerKind::Dataset && !layer.settings.is_empty();
    if preset.is_some() || layers.iter().any(gives) {
        return Ok(());
    }
    let script = script_of(&session.folder);
    let failure = CommandFailure::configuration("the project file names no preset");
    Err(failure.hint(format!(
        "submit your script with `oomctl submit {script}`, or name one: `preset: NAME` (`oomctl presets` lists them)"
    )))
}

/// Neither a project file nor a flag says what to run.
fn nothing_to_run(folder: &Path) -> CommandFailure {
    let script = script_of(folder);
    CommandFailure::configuration("there is no oomctl.yaml here or above").hint(format!(
        "name your job script: `oomctl plan {script}`, `oomctl submit {script}`; `oomctl init` writes a project file"
    ))
}

/// The preset that a flag, the project or its dataset names.
fn preset_named(
    session: &Session,
    flags: &Configuration,
    dataset: Option<&ConfigDocument>,
) -> Result<Option<String>, CommandFailure> {
    let of_dataset = dataset.map(|d| d.text("preset")).transpose()?.flatten();
    let named = named(session, "preset", flags.preset.as_deref())?;
    Ok(named.or_else(|| of_dataset.map(|given| given.text)))
}

/// Everything that is known before a run has a name: the request, named `run`.
pub fn request(
    session: &Session,
    flags: &Configuration,
    run: &str,
    sbatch: &[String],
) -> Result<Request, CommandFailure> {
    if session.asks_nothing(flags) && outer_files()?.is_empty() {
        return Err(nothing_to_run(&session.folder));
    }
    if let Some((reason, hint)) = sbatch.iter().find_map(|option| bad_option(option)) {
        return Err(CommandFailure::usage(reason).hint(hint));
    }
    let doc = &session.document;
    let named = |key: &str, flag: &Option<String>| named(session, key, flag.as_deref());
    let outer = outer_files()?;
    let dataset = named("dataset", &flags.dataset)?;
    let (cluster, cluster_doc) = nodes::cluster_profile(session, flags, &outer)?;
    let dataset_doc = profile(
        session,
        LibraryFolder::Datasets,
        "dataset",
        dataset.as_deref(),
    )?;
    let named_preset = preset_named(session, flags, dataset_doc.as_ref())?;
    let default = || session.library.default_preset().to_owned();
    let stack = stack(session, &named_preset.clone().unwrap_or_else(default))?;
    let preset = &stack.preset;
    let profiles = [
        (LayerKind::Cluster, cluster_doc.as_ref()),
        (LayerKind::Dataset, dataset_doc.as_ref()),
        (LayerKind::Project, Some(doc)),
    ];
    let inner = profiles
        .iter()
        .filter_map(|(kind, doc)| Some((*kind, (*doc)?)));
    let outer = outer.iter().map(|(kind, file)| (*kind, file));
    let mut layers = layers(preset, flags, outer.chain(inner))?;
    let for_a_job = is_for_a_job(session, named_preset.as_deref(), &layers);
    let ladder = merge_ladder(&preset.ladder, doc.ladder()?.as_deref())?;
    let backend = backend(session, flags)?;
    let asked = AskedNodes::of_layers(preset, &layers, sbatch);
    let nodes = nodes::of_job(session, cluster_doc.as_ref(), backend, &asked)?;
    let originals = copied::read(&session.folder, preset, &mut layers)?;
    let places = (&session.library, session.folder.as_path());
    known::complete(places, preset, &nodes, backend, &mut layers);
    let environments = packages::environments_of_jobs(&layers, &session.folder);
    let inputs = Inputs {
        installed: versions(&environments),
        environment: lacking(&environments, &ladder),
        ladder: ladder.into(),
        templates: session.library.templates()?.into(),
        originals: originals.into(),
        cluster_facts: nodes.facts,
        nodes: nodes.described,
        cluster,
        dataset,
        layers,
        sbatch: sbatch.to_vec(),
        ..inputs(session, flags, run, stack)?
    };
    // A fault of a file comes first.
    for_a_job?;
    Ok(Request::new(inputs)?)
}

/// A card is sold by its GB, and has more than so many of 10^9 bytes.
fn warn_of_gb(set: &str) {
    let given = set
        .strip_prefix("gpu_memory=")
        .filter(|size| size.to_lowercase().ends_with("gb"));
    if let Some((size, bytes)) = given.and_then(|size| Some((size, Bytes::parse(size).ok()?))) {
        print::warn(&format!(
            "gpu_memory={size} is {bytes}. A card sold with {size} has more: name it, such as --set gpu_type=h100"
        ));
    }
}

/// What is asked for in the same way whatever a run's files are made of. What they are made of is left empty.
pub fn inputs(
    session: &Session,
    flags: &Configuration,
    run: &str,
    stack: PresetStack,
) -> Result<Inputs, CommandFailure> {
    let doc = &session.document;
    flags.set.iter().for_each(|set| warn_of_gb(set));
    let backend = backend(session, flags)?;
    let (policy, one_rung) = climbing::how(flags, doc)?;
    let folder = session.folder.display().to_string();
    let memory = stack.preset.memory.as_ref();
    let memory = memory.map(|m| session.library.get(LibraryFolder::Memory, &m.profile));
    Ok(Inputs {
        run: run.to_owned(),
        policy,
        one_rung,
        whole_rungs: climbing::whole_rungs(doc)?,
        min_fit_probability: climbing::min_fit_probability(flags, doc)?,
        limits: sections::limits(doc)?,
        supervision: sections::supervision(doc, backend)?,
        notices: sections::notices(doc, &outer_files()?)?,
        command: std::env::args().collect(),
        signatures: signatures::of(doc)?,
        spellings: doc.texts("spellings")?,
        bugs: signatures::bugs(&session.library)?,
        memory_profile: memory.transpose()?,
        knob_sets: stack.texts.sets.into(),
        framework_version: stack.version,
        ..Inputs::bare(stack.texts.source, backend, folder.clone(), folder)
    })
}

/// The layers of files, lowest first, then environment variables and flags.
fn layers<'a>(
    preset: &Preset,
    flags: &Configuration,
    files: impl Iterator<Item = (LayerKind, &'a ConfigDocument)>,
) -> Result<Vec<Layer>, CommandFailure> {
    let mut layers = Vec::new();
    for (kind, file) in files {
        let layer = layer(file, kind, preset);
        match kind {
            LayerKind::Site => layers.extend(of_site(layer)),
            _ => layers.push(layer?),
        }
    }
    let variables = variables();
    yaml_lint::variables(preset, variables.keys().map(String::as_str));
    let pairs = variables.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    layers.push(from_environment(preset, pairs)?);
    layers.push(from_flags(preset, &flags.set, &flags.overrides)?);
    Ok(layers)
}

/// A preset made ready.
pub struct PresetStack {
    pub preset: Preset,
    pub texts: PresetTexts,
    pub version: Option<String>,
}

/// The texts of a preset and of the knob sets that it uses.
pub struct PresetTexts {
    source: NamedText,
    sets: Vec<NamedText>,
}

/// Reads a preset, and the knob sets that it uses.
pub fn texts(
    session: &Session,
    source: NamedText,
) -> Result<(PresetTexts, PresetFile, Vec<KnobSetFile>), CommandFailure> {
    let file = parse_preset(&source.path, &source.text)?;
    let sets = file.uses.iter();
    let sets: Vec<NamedText> = sets
        .map(|s| session.library.get(LibraryFolder::Sets, s))
        .collect::<Result<_, _>>()?;
    let parsed = sets
        .iter()
        .map(|s| parse_knob_set(&s.path, &s.text))
        .chain([Ok(of_project(session)?)])
        .collect::<Result<_, _>>()?;
    Ok((PresetTexts { source, sets }, file, parsed))
}

/// The project's own names for knobs, as a knob set.
pub fn of_project(session: &Session) -> Result<KnobSetFile, CommandFailure> {
    Ok(KnobSetFile::of_project(
        session.document.texts("spellings")?,
    ))
}

/// Refuses names under `spellings:` of the project file that are none of these knobs.
pub fn check_spellings<'a>(
    session: &Session,
    knobs: impl IntoIterator<Item = &'a Knob>,
) -> Result<(), CommandFailure> {
    let names: Vec<&str> = knobs.into_iter().map(|k| k.name.as_str()).collect();
    Ok(session.document.check_names("spellings", &names)?)
}

/// Refuses keys at the top of the project file that neither the program nor these presets know.
pub fn check_keys<'a>(
    session: &Session,
    presets: impl IntoIterator<Item = &'a PresetFile>,
) -> Result<(), CommandFailure> {
    let frameworks = presets.into_iter().filter_map(|p| p.framework.as_ref());
    let versions: BTreeSet<&str> = frameworks.map(|f| f.version_key.as_str()).collect();
    let known: Vec<&str> = PROJECT_KEYS.into_iter().chain(versions).collect();
    Ok(session.document.check_keys(&known)?)
}

/// The preset and its knob sets; the project file may only have keys that these know.
fn stack(session: &Session, name: &str) -> Result<PresetStack, CommandFailure> {
    let (texts, file, parsed) = texts(session, session.library.get(LibraryFolder::Presets, name)?)?;
    check_keys(session, [&file])?;
    let version_key = file.framework.as_ref().map(|f| f.version_key.clone());
    let version = match version_key {
        Some(key) => session.document.text(&key)?,
        None => None,
    };
    let text = version.as_ref().map(|g| g.text.clone());
    let preset = Preset::assemble(file, parsed, text.as_deref()).map_err(|mut refusal| {
        if let (Some(given), Some(first)) = (&version, refusal.0.first_mut()) {
            *first = first.clone().at(given.text.clone(), given.origin.clone());
        }
        refusal
    })?;
    check_spellings(session, &preset.knobs)?;
    Ok(PresetStack {
        preset,
        texts,
        version: text,
    })
}

fn layer(doc: &ConfigDocument, kind: LayerKind, preset: &Preset) -> Result<Layer, CommandFailure> {
    Ok(doc.layer(kind, preset)?)
}

/// The backend: flag, project file, or Slurm where there is a way to it.
pub fn backend(session: &Session, flags: &Configuration) -> Result<&'static str, CommandFailure> {
    let doc = &session.document;
    let given = match flags.backend {
        Some(backend) => backend,
        None => match doc.text("backend")? {
            None => Backend::Auto,
            Some(given) => clap::ValueEnum::from_str(&given.text, true).map_err(|_| {
                Problem::new(format!("no backend named {:?}", given.text))
                    .at(given.text.clone(), given.origin.clone())
                    .hint("backends: auto, slurm, flux, pbs, local")
            })?,
        },
    };
    Ok(match given {
        Backend::Slurm => "slurm",
        Backend::Flux => "flux",
        Backend::Pbs => "pbs",
        Backend::Local => "local",
        Backend::Auto if session.runs.reach_slurm() => "slurm",
        Backend::Auto => "local",
    })
}

/// What a run is named after: its dataset, or else its preset.
pub fn stem(session: &Session, flags: &Configuration) -> Result<String, CommandFailure> {
    for (key, flag) in [("dataset", &flags.dataset), ("preset", &flags.preset)] {
        if let Some(name) = flag {
            return Ok(name.clone());
        }
        if let Some(given) = session.document.text(key)? {
            return Ok(given.text);
        }
    }
    Ok(session.library.default_preset().to_owned())
}
