//! The schemas, put together from types and from the presets of a library.

use std::collections::BTreeMap;
use std::path::Path;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde_json::{Map, Value as Json, json};

use crate::cli::args::{Backend, PolicyName};
use crate::cli::config_files::SlurmAccess;
use crate::cli::request::load::parsed;
use crate::cli::request::sections::{LIMIT_DURATIONS, NOTICE_DURATIONS, SUPERVISION_DURATIONS};
use crate::cli::script::Shelves;
use crate::core::config::{ConfigDocument, Vocabulary, schema_of, with_durations};
use crate::core::launch::SET;
use crate::core::recipe::{ClusterFacts, KnobSetFile, PresetFile, RungSpec, Scalar};
use crate::core::request::{Limits, Notices, Supervision};
use crate::io::files::{Access, make_private_dir, write_atomic};
use crate::io::library::{Library, LibraryFolder};
use crate::view::CommandFailure;
use oomctl_diagnose::UserSignature;
use oomctl_memory::Profile;

/// Where the schemas of a project lie, below its folder.
pub const FOLDER: &str = ".oomctl/schema";

/// First line of a project file, by which editors find its schema.
pub const FIRST_LINE: &str = "# yaml-language-server: $schema=.oomctl/schema/project.json\n";

/// The files that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// oomctl.yaml
    Project,
    /// A preset, presets/NAME.yaml
    Preset,
    /// Knobs that presets share, presets/sets/NAME.yaml
    KnobSet,
    /// A cluster profile, presets/clusters/NAME.yaml
    Cluster,
    /// A dataset profile, presets/datasets/NAME.yaml
    Dataset,
    /// Constants of a training stack for the memory model, presets/memory/NAME.yaml
    Memory,
    /// The `signatures` of oomctl.yaml
    Signatures,
    /// The site's file ($OOMCTL_SITE_CONFIG) and the user's (~/.config/oomctl/config.yaml)
    Site,
}

/// What to run, and how far oomctl may go when GPU memory runs out.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "only its schema is used: the file is read key by key, with the place of each"
)]
struct ProjectFile {
    /// The framework: its knobs, rules, ladder and templates. `oomctl presets` lists them.
    preset: Option<String>,
    /// A dataset profile, built in or in presets/datasets/.
    dataset: Option<String>,
    /// A cluster profile, built in or in presets/clusters/.
    cluster: Option<String>,
    /// The scheduler: Slurm if sbatch is found, else this machine.
    backend: Option<String>,
    /// How the next attempt is chosen after a memory failure.
    policy: Option<String>,
    /// Climb one rung at a time, whatever the memory model expects.
    one_rung: Option<bool>,
    /// Take the rungs in their declared order, each with all of its moves, whether they help here or not.
    whole_rungs: Option<bool>,
    /// Least probability to fit that the next attempt should have.
    #[schemars(range(min = 0.0, max = 1.0))]
    min_fit_probability: Option<f64>,
    /// The older name of `min_fit_probability`.
    #[schemars(range(min = 0.0, max = 1.0), extend("deprecated" = true))]
    risk: Option<f64>,
    /// Values of knobs, by their names in the framework. `oomctl explain KNOB` describes one.
    knobs: Option<Map<String, Json>>,
    /// Knobs that no rung may move.
    pin: Option<Vec<String>>,
    /// Keys that no knob describes, passed on unchanged.
    overrides: Option<BTreeMap<String, Scalar>>,
    /// The ladder: names pick and order the preset's rungs; fields change one, or define a new one.
    ladder: Option<Vec<LadderItem>>,
    /// When to stop.
    limits: Option<Json>,
    /// How runs are supervised.
    supervision: Option<Json>,
    /// Whom to tell of what happens, besides those who watch.
    notices: Option<Notices>,
    /// How Slurm is reached, where that is not by its commands.
    slurm: Option<SlurmAccess>,
    /// The project's own names for knobs: an option (`--frames`), a key (`train.samples`, or `key:train.samples` in a file), `env:NAME`.
    spellings: Option<BTreeMap<String, String>>,
    /// Messages that only this project's program prints.
    signatures: Option<Vec<UserSignature>>,
}

/// A rung of the preset by its name, or the fields that change or define one.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum LadderItem {
    Name(String),
    Rung(Box<RungSpec>),
}

/// Values for one dataset or one cluster.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ProfileFile {
    /// One line for `oomctl presets`.
    summary: Option<String>,
    /// The preset whose knobs are named.
    preset: Option<String>,
    /// Facts about a cluster; nothing that is missing is assumed.
    facts: Option<ClusterFacts>,
    /// Values of knobs.
    knobs: Option<Map<String, Json>>,
    /// Knobs that no rung may move.
    pin: Option<Vec<String>>,
    /// Keys that no knob describes, passed on unchanged.
    overrides: Option<BTreeMap<String, Scalar>>,
}

/// Values for everybody of a site, or for all projects of a user.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct SiteFile {
    /// The cluster profile of those who name none.
    cluster: Option<String>,
    /// How Slurm is reached, where that is not by its commands.
    slurm: Option<SlurmAccess>,
    /// Values of knobs.
    knobs: Option<Map<String, Json>>,
    /// Knobs that no rung may move.
    pin: Option<Vec<String>>,
    /// Keys that no knob describes, passed on unchanged.
    overrides: Option<BTreeMap<String, Scalar>>,
}

/// The schema of a kind of file.
pub fn of(kind: SchemaKind, library: &Library) -> Result<Json, CommandFailure> {
    Ok(match kind {
        SchemaKind::Project => project(library)?,
        SchemaKind::Preset => schema_of::<PresetFile>().into(),
        SchemaKind::KnobSet => schema_of::<KnobSetFile>().into(),
        SchemaKind::Cluster => profile(library, "cluster")?,
        SchemaKind::Dataset => profile(library, "dataset")?,
        SchemaKind::Memory => schema_of::<Profile>().into(),
        SchemaKind::Signatures => {
            let mut schema = schema_of::<Vec<UserSignature>>();
            lenient(&mut schema);
            schema.into()
        }
        SchemaKind::Site => {
            let mut schema: Json = schema_of::<SiteFile>().into();
            suggest(
                &mut schema["properties"]["cluster"],
                library.names(LibraryFolder::Clusters),
            );
            schema
        }
    })
}

fn project(library: &Library) -> Result<Json, CommandFailure> {
    let mut map = schema_of::<ProjectFile>();
    lenient(&mut map);
    let mut schema = Json::from(map);
    let fields = &mut schema["properties"];
    name_shelves(fields, library);
    fields["backend"]["enum"] = values::<Backend>();
    fields["policy"]["enum"] = values::<PolicyName>();
    fields["limits"] = with_durations(schema_of::<Limits>(), &LIMIT_DURATIONS);
    fields["supervision"] = with_durations(schema_of::<Supervision>(), &SUPERVISION_DURATIONS);
    if let Json::Object(notices) = schema["definitions"]["Notices"].take() {
        schema["definitions"]["Notices"] = with_durations(notices, &NOTICE_DURATIONS);
    }
    // In a project the fields of a rung change the preset's.
    schema["definitions"]["RungSpec"]["required"] = json!(["rung"]);
    with_presets(&mut schema, library)?;
    Ok(schema)
}

fn profile(library: &Library, key: &str) -> Result<Json, CommandFailure> {
    let mut schema = Json::from(schema_of::<ProfileFile>());
    name_shelves(&mut schema["properties"], library);
    schema["properties"][key] =
        json!({ "type": "string", "description": "Its name, as the file's." });
    with_presets(&mut schema, library)?;
    Ok(schema)
}

/// Suggests the names on the shelves of the library, where a key takes one.
fn name_shelves(fields: &mut Json, library: &Library) {
    let shelves = [
        ("preset", LibraryFolder::Presets),
        ("dataset", LibraryFolder::Datasets),
        ("cluster", LibraryFolder::Clusters),
    ];
    for (key, shelf) in shelves {
        if fields.get(key).is_some() {
            suggest(&mut fields[key], library.names(shelf));
        }
    }
}

/// Names to complete; others are allowed.
fn suggest(field: &mut Json, names: Vec<String>) {
    field["anyOf"] = json!([{ "enum": names }, { "type": ["string", "null"] }]);
}

/// The names of an enumeration that a flag takes too.
fn values<T: ValueEnum>() -> Json {
    let names = T::value_variants()
        .iter()
        .filter_map(ValueEnum::to_possible_value);
    names
        .map(|v| Json::from(v.get_name()))
        .chain([Json::Null])
        .collect()
}

/// In a project's file one text stands for a list of one.
fn lenient(schema: &mut Map<String, Json>) {
    if let Some(signature) = schema
        .get_mut("definitions")
        .map(|d| &mut d["UserSignature"])
    {
        for list in ["helps", "worse"] {
            signature["properties"][list]["type"] = json!(["array", "string"]);
        }
    }
}

/// Lets knobs, pins and rungs follow the preset that a file names, or that its dataset names.
fn with_presets(schema: &mut Json, library: &Library) -> Result<(), CommandFailure> {
    let launch = parsed(library, LibraryFolder::Sets, SET)?;
    let mut definitions = schema["definitions"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let mut branches = Vec::new();
    for name in library.names(LibraryFolder::Presets) {
        let preset: PresetFile = parsed(library, LibraryFolder::Presets, &name)?;
        let sets = Shelves::sets(library, &preset)?;
        if let Some(framework) = preset
            .framework
            .as_ref()
            .filter(|_| !schema["properties"]["ladder"].is_null())
        {
            let doc = format!("Version of {}, {}.", framework.name, framework.supported);
            schema["properties"][&framework.version_key] =
                json!({ "type": ["string", "number"], "description": doc });
        }
        let words = Vocabulary {
            preset: &preset,
            sets: sets.iter().chain([&launch]).collect(),
        };
        words.define(&mut definitions);
        let named =
            json!({ "required": ["preset"], "properties": { "preset": { "const": name } } });
        branches.push(json!({ "if": named, "then": { "properties": words.sections(true) } }));
        let through = datasets_of(library, &name);
        let mut unnamed = json!({ "not": { "required": ["preset"] } });
        if name == library.default_preset() {
            // A flag may still name another preset, so names are suggested and none is refused.
            let any = json!({ "anyOf": [{ "not": { "required": ["dataset"] } }, with_dataset(&through)] });
            unnamed["allOf"] = json!([any]);
        } else if through.is_empty() {
            continue;
        } else {
            unnamed["allOf"] = json!([with_dataset(&through)]);
        }
        branches.push(json!({ "if": unnamed, "then": { "properties": words.sections(false) } }));
    }
    schema["definitions"] = definitions.into();
    schema["allOf"] = branches.into();
    Ok(())
}

fn with_dataset(names: &[String]) -> Json {
    json!({ "required": ["dataset"], "properties": { "dataset": { "enum": names } } })
}

/// The dataset profiles that name a preset.
fn datasets_of(library: &Library, preset: &str) -> Vec<String> {
    let mut names = library.names(LibraryFolder::Datasets);
    names.retain(|name| {
        let source = library.get(LibraryFolder::Datasets, name).ok();
        let document = source.and_then(|s| ConfigDocument::parse(&s.path, &s.text).ok());
        let given = document.and_then(|d| d.text("preset").ok()?);
        given.is_some_and(|g| g.text == preset)
    });
    names
}

/// Writes the schemas of all kinds for the project in `folder`.
pub fn write(folder: &Path, library: &Library) -> Result<(), CommandFailure> {
    let to = folder.join(FOLDER);
    make_private_dir(&to)?;
    for kind in SchemaKind::value_variants() {
        let name = kind
            .to_possible_value()
            .map_or_else(String::new, |v| v.get_name().to_owned());
        let document = of(*kind, library)?;
        let text = format!("{document}\n");
        write_atomic(
            &to.join(format!("{name}.json")),
            text.as_bytes(),
            Access::Shared,
        )?;
    }
    Ok(())
}
