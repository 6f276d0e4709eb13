//! `oomctl presets`: what presets and profiles there are, and the text of one.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::session::Session;
use crate::cli::values::SHELVES;
use crate::core::config::{ConfigDocument, parse_preset};
use crate::core::exit::Exit;
use crate::io::library::{Library, LibraryFolder};
use crate::view::{CommandFailure, DIM, NAME, Paint, print};
use oomctl_base::meant;

/// Arguments of `presets`.
#[derive(Debug, clap::Args)]
pub struct PresetsArgs {
    /// Print the text of this preset, profile, knob set or table; save it under presets/ of your project to
    /// change it
    name: Option<String>,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct PresetsView {
    schema_version: u32,
    entries: Vec<PresetEntry>,
}

#[derive(Serialize, JsonSchema)]
struct PresetEntry {
    kind: &'static str,
    name: String,
    summary: String,
    path: String,
    /// Does a preset render a job of its own? One that does not is for scripts that exist.
    renders: Option<bool>,
}

impl PresetEntry {
    fn group(&self) -> String {
        match self.renders {
            Some(true) => "presets that render a job (`oomctl init --preset NAME`)".to_owned(),
            Some(false) => {
                "presets for scripts and programs of your own (`oomctl submit SCRIPT`, `oomctl run`)"
                    .to_owned()
            }
            None => format!("{}s", self.kind),
        }
    }
}

/// Runs `oomctl presets`.
pub fn run(args: &PresetsArgs) -> Result<Exit, CommandFailure> {
    let library = Session::open(None)?.library;
    if let Some(name) = &args.name {
        return show(&library, name);
    }
    let mut entries = Vec::new();
    for shelf in SHELVES {
        for name in library.names(shelf) {
            entries.push(entry(&library, shelf, name)?);
        }
    }
    // Those that render a job first.
    entries.sort_by_key(|entry| entry.renders == Some(false));
    entries.sort_by_key(|entry| entry.renders.is_none());
    let view = PresetsView {
        schema_version: 1,
        entries,
    };
    print::show(args.json, &view, text)?;
    Ok(Exit::Success)
}

fn show(library: &Library, name: &str) -> Result<Exit, CommandFailure> {
    let holds = |shelf: &LibraryFolder| library.names(*shelf).iter().any(|n| n == name);
    let Some(shelf) = SHELVES.into_iter().find(holds) else {
        return Err(none_of(library, name));
    };
    let source = library.get(shelf, name)?;
    print::data(&source.text)?;
    Ok(Exit::Success)
}

/// Nothing on any shelf has that name.
fn none_of(library: &Library, name: &str) -> CommandFailure {
    let nouns = SHELVES.map(LibraryFolder::noun);
    let (last, others) = nouns.split_last().unwrap_or((&"preset", &[]));
    let what = format!("there is no {} or {last} named {name:?}", others.join(", "));
    if std::path::Path::new(name).is_file() {
        let what = format!("{name} is a file, and `presets` takes the name of a preset");
        let hint = format!("`oomctl plan {name}` says which preset reads a job script");
        return CommandFailure::configuration(what).hint(hint);
    }
    let known: Vec<String> = SHELVES.iter().flat_map(|s| library.names(*s)).collect();
    let all = || "`oomctl presets` lists all of them".to_owned();
    let question = meant(name, known.iter().map(String::as_str));
    CommandFailure::configuration(what).hint(question.unwrap_or_else(all))
}

fn entry(
    library: &Library,
    shelf: LibraryFolder,
    name: String,
) -> Result<PresetEntry, CommandFailure> {
    let source = library.get(shelf, &name)?;
    let summary = ConfigDocument::parse(&source.path, &source.text)
        .and_then(|d| d.text("summary"))
        .map_or_else(|e| e.to_string(), |s| s.map_or(String::new(), |g| g.text));
    let renders = matches!(shelf, LibraryFolder::Presets)
        .then(|| parse_preset(&source.path, &source.text).ok())
        .flatten()
        .map(|file| !file.files.is_empty());
    Ok(PresetEntry {
        renders,
        kind: shelf.noun(),
        name,
        summary,
        path: source.path,
    })
}

fn text(view: &PresetsView) -> String {
    let mut out = String::new();
    let width = view.entries.iter().map(|e| e.name.len()).max().unwrap_or(0);
    let mut group = String::new();
    for entry in &view.entries {
        if group != entry.group() {
            group = entry.group();
            let _ = writeln!(out, "{group}:");
        }
        let own = if entry.path.starts_with("<built in>") {
            String::new()
        } else {
            format!("  {}", Paint(DIM, &format!("({})", entry.path)))
        };
        let name = format!("{:<width$}", entry.name);
        let _ = writeln!(out, "  {}  {}{own}", Paint(NAME, &name), entry.summary);
    }
    out
}
