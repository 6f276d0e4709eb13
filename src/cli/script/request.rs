//! The request of a run whose files are the user's own scripts.

use super::{described, version};
use crate::cli::args::Configuration;
use crate::cli::request::load::{self, PresetStack};
use crate::cli::request::{known, sections};
use crate::cli::script::read::{Read, Shelves};
use crate::cli::session::Session;
use crate::core::adopt::{self, Scripts, UNKNOWN};
use crate::core::config::merge_ladder;
use crate::core::recipe::{Layer, LayerKind, Preset};
use crate::core::request::{Inputs, NamedText, Request};
use crate::io::library::LibraryFolder;
use crate::view::CommandFailure;
use oomctl_scripts::Adoption;

/// The request for a run of this name. What the project says of limits, of supervision, and of how to climb counts;
/// of its knobs those that describe GPUs, and pins where it uses the same preset.
pub fn request(
    session: &Session,
    flags: &Configuration,
    run: &str,
    read: &Read,
    shelves: &Shelves,
) -> Result<Request, CommandFailure> {
    over(session, flags, run, (read, shelves), |_, _| None)
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
    let doc = &session.document;
    let source = match adoption.stack {
        Some(stack) => session.library.get(LibraryFolder::Presets, &stack.name)?,
        None => NamedText {
            path: "no preset".to_owned(),
            text: UNKNOWN.to_owned(),
        },
    };
    let (texts, file, parsed) = load::texts(session, source)?;
    let version_key = file.framework.as_ref().map(|f| f.version_key.clone());
    let (flags, by_flag) = without_version(flags, version_key.as_deref());
    let of_file = version_key.map(|key| doc.text(&key)).transpose()?.flatten();
    let given = by_flag.or(of_file.map(|given| given.text));
    let environments = version::environments_of(&adoption, read);
    let told = version::known(&file, &adoption, read, &environments);
    let earlier = || version::of_earlier_run(session, read, &file.preset);
    let taken = version::TakenVersion::of(&file, &told, given, earlier);
    let of_project = load::named(session, "preset", None)?;
    let same = of_project.as_deref() == Some(file.preset.as_str());
    let installed = version::packages_of(&file, &adoption, &told, &environments);
    let preset = adopt::assemble(file, parsed, taken.version.as_deref())?;
    let cluster = load::named(session, "cluster", flags.cluster.as_deref())?;
    let profile = load::profile(
        session,
        LibraryFolder::Clusters,
        "cluster",
        cluster.as_deref(),
    )?;
    let cluster_facts = sections::facts(profile.as_ref())?;
    let backend = load::backend(session, &flags)?;
    let of_script = adopt::layer(&preset, &adoption);
    let beside = described::layers((session, &flags), &preset, profile.as_ref(), &of_script)?;
    let mut layers: Vec<Layer> = below(&preset, &adoption).into_iter().collect();
    layers.push(of_script);
    layers.extend(beside);
    let ladder = match same {
        true => {
            layers.push(pins(session, &preset)?);
            merge_ladder(&preset.ladder, doc.ladder()?.as_deref())?
        }
        false => preset.ladder.clone(),
    };
    let places = (&session.library, read.workdir.as_path());
    known::complete(places, &preset, &cluster_facts, backend, &mut layers);
    let templates = adopt::template(&preset).into();
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
            version_of_earlier: taken.of_earlier,
            ..Scripts::of(&read.submission, &adoption, &shelves.launchers)
        }),
        user: std::env::var("USER").ok(),
        cluster_facts,
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

/// What the project's file pins.
fn pins(session: &Session, preset: &Preset) -> Result<Layer, CommandFailure> {
    let layer = session.document.layer(LayerKind::Project, preset);
    let layer = layer?;
    Ok(Layer {
        pins: layer.pins,
        ..Layer::new(LayerKind::Project)
    })
}
