//! The request of a run whose files are the user's own scripts.

use super::{described, version};
use std::sync::Arc;

use crate::cli::args::Configuration;
use crate::cli::config_files::outer_files;
use crate::cli::request::known;
use crate::cli::request::load::{self, PresetStack};
use crate::cli::request::nodes::{self, AskedNodes};
use crate::cli::request::profile::named;
use crate::cli::script::read::{Read, Shelves};
use crate::cli::session::Session;
use crate::core::adopt::{self, Scripts, UNKNOWN};
use crate::core::config::merge_ladder;
use crate::core::recipe::{Layer, LayerKind, Preset, PresetFile, RungSpec};
use crate::core::request::{Inputs, NamedText, Request};
use crate::io::library::LibraryFolder;
use crate::view::{CommandFailure, print};
use oomctl_scripts::Adoption;

/// The request for a run of this name. What the project says of limits, of supervision, and of how to climb counts;
/// of its knobs those that describe GPUs, and pins and rungs unless it names another preset.
pub fn request(
    session: &Session,
    flags: &Configuration,
    run: &str,
    read: &Read,
    shelves: &Shelves,
) -> Result<Request, CommandFailure> {
    over(session, flags, run, (read, shelves), |_, _| None)
}

fn source(session: &Session, adoption: &Adoption<'_>) -> Result<NamedText, CommandFailure> {
    Ok(match adoption.stack {
        Some(stack) => session.library.get(LibraryFolder::Presets, &stack.name)?,
        None => NamedText {
            path: "no preset".to_owned(),
            text: UNKNOWN.to_owned(),
        },
    })
}

/// The same over a layer that is made of the preset and of what was read.
pub fn over(
    session: &Session,
    flags: &Configuration,
    run: &str,
    (read, shelves): (&Read, &Shelves),
    below: impl FnOnce(&Preset, &Adoption<'_>) -> Option<Layer>,
) -> Result<Request, CommandFailure> {
    let adoption = read.adoption(shelves);
    let (texts, file, parsed) = load::texts(session, source(session, &adoption)?)?;
    let version_key = file.framework.as_ref().map(|f| f.version_key.clone());
    let (flags, by_flag) = without_version(flags, version_key.as_deref());
    let of_file = version_key
        .map(|key| session.document.text(&key))
        .transpose()?
        .flatten();
    let given = by_flag.or(of_file.map(|given| given.text));
    let environments = version::environments_of(&adoption, read);
    let told = version::known(&file, &adoption, read, &environments);
    let earlier = || version::of_earlier_run(session, read, &file.preset);
    let taken = version::TakenVersion::of(&file, &told, given, earlier);
    check_keys(session, shelves, &file)?;
    let installed = version::packages_of(&file, &adoption, &told, &environments);
    let any = || Arc::new(vec![file.clone().with(parsed.clone()).stack()]);
    let any = adoption.stack.is_none().then(any);
    let mut preset = adopt::assemble(file, parsed, taken.version.as_deref())?;
    adopt::doubt(&mut preset, &adoption);
    let (cluster, profile) = nodes::cluster_profile(session, &flags, &outer_files()?)?;
    let backend = load::backend(session, &flags)?;
    let unknown = any.as_ref().map(|any| read.adoption_by(shelves, any));
    let of_script = adopt::layer(&preset, unknown.as_ref().unwrap_or(&adoption));
    let beside = described::layers((session, &flags), &preset, profile.as_ref(), &of_script)?;
    let mut layers: Vec<Layer> = below(&preset, &adoption).into_iter().collect();
    layers.push(of_script);
    layers.extend(beside);
    let ladder = ladder(session, &adoption, &preset, &mut layers)?;
    let places = (&session.library, read.workdir.as_path());
    let asked = AskedNodes::of_script(&adoption.reading, &preset, &layers);
    let nodes = nodes::of_job(session, profile.as_ref(), backend, &asked)?;
    known::complete(places, &preset, &nodes, backend, &mut layers);
    let templates = preset.stand_in_templates().into();
    let stack = PresetStack {
        preset,
        texts,
        version: taken.version,
    };
    let inputs = Inputs {
        environment: version::environment(&ladder, &adoption, &environments),
        installed,
        ladder: ladder.into(),
        templates,
        scripts: Some(Scripts {
            version: taken.described,
            version_span: taken.span,
            version_of_earlier: taken.of_earlier,
            ..Scripts::of(&read.submission, &adoption, &shelves.launchers)
        }),
        user: std::env::var("USER").ok(),
        cluster_facts: nodes.facts,
        nodes: nodes.described,
        cluster,
        layers,
        workdir: read.workdir.display().to_string(),
        sbatch: read.submission.options.clone(),
        ..load::inputs(session, &flags, run, stack)?
    };
    Ok(Request::new(inputs)?)
}

/// The flags without the last `--set` of the framework's version, and that version.
fn without_version(flags: &Configuration, key: Option<&str>) -> (Configuration, Option<String>) {
    let mut flags = flags.clone();
    let mut version = None;
    flags.set.retain(|set| match set.split_once('=') {
        Some((name, text)) if Some(name.trim()) == key => {
            version = Some(text.trim().to_owned());
            false
        }
        _ => true,
    });
    (flags, version)
}

/// Refuses keys of the project file that neither the presets of scripts nor its own one knows.
fn check_keys(
    session: &Session,
    shelves: &Shelves,
    file: &PresetFile,
) -> Result<(), CommandFailure> {
    let own = match named(session, "preset", None)? {
        Some(name) => Some(load::parsed(
            &session.library,
            LibraryFolder::Presets,
            &name,
        )?),
        None => None,
    };
    load::check_keys(session, shelves.presets.iter().chain([file]).chain(&own))
}

/// Whether the project's pins and rungs are for the preset that was recognised. Where they are not, a note says so.
fn counts(session: &Session, recognised: Option<&str>) -> Result<bool, CommandFailure> {
    let named = named(session, "preset", None)?;
    let why = match (recognised, named) {
        (None, _) => "has no effect: framework not recognised".to_owned(),
        (Some(ours), Some(theirs)) if ours != theirs => {
            format!("is for preset {theirs}; the script is recognised as {ours}")
        }
        _ => return Ok(true),
    };
    let doc = &session.document;
    for key in ["pin", "ladder"] {
        if doc.get(key).is_some() {
            print::talk(&format!("note: `{key}:` of {} {why}", doc.path));
        }
    }
    Ok(false)
}

/// The ladder of a preset as the project changes it, whose pins go with the layers, where they are for that preset.
fn ladder(
    session: &Session,
    adoption: &Adoption<'_>,
    preset: &Preset,
    layers: &mut Vec<Layer>,
) -> Result<Vec<RungSpec>, CommandFailure> {
    let recognised = adoption.stack.as_ref().map(|stack| stack.name.as_str());
    if !counts(session, recognised)? {
        return Ok(preset.ladder.clone());
    }
    layers.push(pins(session, preset)?);
    let own = session.document.ladder()?;
    Ok(merge_ladder(&preset.ladder, own.as_deref())?)
}

/// What the project's file pins.
fn pins(session: &Session, preset: &Preset) -> Result<Layer, CommandFailure> {
    let layer = session.document.layer(LayerKind::Project, preset);
    let layer = layer?;
    Ok(Layer {
        pins: layer.pins,
        ..Layer::new(LayerKind::Project)
    })
}
