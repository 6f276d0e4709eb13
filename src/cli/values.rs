//! What can be put where: names from the project here and from the library, at the moment of the Tab.
//!
//! The placeholder of an argument (`KNOB=VALUE`, `JOBID|RUN`) says what it takes, to people in the help and to
//! the shell here, so that a new argument has its candidates by its placeholder alone.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::{Arg, Command};
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};

use crate::cli::launch::launching;
use crate::cli::request::load::parsed;
use crate::cli::runs::Runs;
use crate::cli::session::PROJECT_FILE;
use crate::core::config::ConfigDocument;
use crate::core::launch::SET;
use crate::core::recipe::{Knob, PresetFile};
use crate::io::library::{Library, LibraryFolder};
use oomctl_base::ValueKind;

/// Where a thing is looked for, in this order.
pub const SHELVES: [LibraryFolder; 6] = [
    LibraryFolder::Presets,
    LibraryFolder::Datasets,
    LibraryFolder::Clusters,
    LibraryFolder::Sets,
    LibraryFolder::Models,
    LibraryFolder::Gpus,
];

/// Newest runs whose job ids are looked up: each is a ledger to be read between two keystrokes.
const MOST_LEDGERS: usize = 30;

/// The program with candidates for its arguments.
pub fn offered(program: Command) -> Command {
    program.mut_args(with_values).mut_subcommands(offered)
}

fn with_values(arg: Arg) -> Arg {
    let placeholder = arg.get_value_names().and_then(<[_]>::first);
    let words: Vec<String> =
        placeholder.map_or_else(Vec::new, |p| p.split('|').map(str::to_owned).collect());
    let has = |word: &str| words.iter().any(|w| w == word);
    match arg.get_id().as_str() {
        "preset" => arg.add(names_on(&[LibraryFolder::Presets])),
        "dataset" => arg.add(names_on(&[LibraryFolder::Datasets])),
        "cluster" => arg.add(names_on(&[LibraryFolder::Clusters])),
        "name" if arg.is_positional() => arg.add(names_on(&SHELVES)),
        "knob" if arg.is_positional() => arg.add(ArgValueCandidates::new(knob_names)),
        _ if has("RUNG") => arg.add(ArgValueCandidates::new(rungs)),
        _ if has("KNOB=VALUE") => arg.add(ArgValueCompleter::new(assignments)),
        _ if has("RUN") || has("JOBID") => {
            let files = has("LOG") || has("SCRIPT");
            let datasets = has("DATASET");
            arg.add(ArgValueCompleter::new(move |typed: &OsStr| {
                runs_and(typed, files, datasets)
            }))
        }
        _ if has("SCRIPT") => arg.add(ArgValueCompleter::new(PathCompleter::any())),
        _ => arg,
    }
}

fn folder() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let project = here.ancestors().find(|d| d.join(PROJECT_FILE).is_file());
    Some(project.unwrap_or(&here).to_owned())
}

fn library() -> Library {
    Library::new(folder().as_deref())
}

fn names_on(shelves: &'static [LibraryFolder]) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        let library = library();
        let names = shelves.iter().flat_map(|shelf| usable(&library, *shelf));
        names.map(CompletionCandidate::new).collect()
    })
}

/// Names on a shelf, without files whose name no command takes.
fn usable(library: &Library, shelf: LibraryFolder) -> impl Iterator<Item = String> {
    let names = library.names(shelf).into_iter();
    names.filter(move |name| library.get(shelf, name).is_ok())
}

/// Runs of the project, newest first, and ids of their jobs once a digit was typed.
fn runs_and(typed: &OsStr, files: bool, datasets: bool) -> Vec<CompletionCandidate> {
    let start = typed.to_string_lossy();
    let mut all = Vec::new();
    if let Some(folder) = folder() {
        let mut names = Runs::of(&folder).names().unwrap_or_default();
        if start.starts_with(|c: char| c.is_ascii_digit()) {
            all.extend(job_ids(&Runs::of(&folder), names.clone()));
        }
        if datasets {
            names.extend(usable(&library(), LibraryFolder::Datasets));
        }
        all.extend(names);
    }
    all.retain(|name| name.starts_with(&*start));
    let mut all: Vec<_> = all.into_iter().map(CompletionCandidate::new).collect();
    if files {
        all.extend(PathCompleter::any().complete(typed));
    }
    all
}

/// Ids of the jobs of the newest of these runs.
fn job_ids(runs: &Runs, mut names: Vec<String>) -> Vec<String> {
    let begun = |name: &String| {
        let inputs = runs.dir().join(name).join("inputs.json");
        inputs.metadata().and_then(|m| m.modified()).ok()
    };
    names.sort_by_cached_key(|name| std::cmp::Reverse(begun(name)));
    names.truncate(MOST_LEDGERS);
    let stored = names.iter().filter_map(|name| runs.open(name).ok());
    stored
        .flat_map(|run| run.history.attempts)
        .filter_map(|attempt| Some(attempt.job?.id.0))
        .collect()
}

/// `KNOB=` for every knob, and its values behind the `=`.
fn assignments(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let knobs = knobs();
    let candidates = match typed.split_once('=') {
        None => knobs.iter().map(|k| candidate(k, "=")).collect(),
        Some((name, _)) => knobs
            .iter()
            .find(|k| k.name == name)
            .map_or_else(Vec::new, values_of),
    };
    let fits = |c: &CompletionCandidate| c.get_value().to_string_lossy().starts_with(&*typed);
    candidates.into_iter().filter(fits).collect()
}

fn candidate(knob: &Knob, end: &str) -> CompletionCandidate {
    CompletionCandidate::new(format!("{}{end}", knob.name)).help(Some(knob.doc.clone().into()))
}

fn values_of(knob: &Knob) -> Vec<CompletionCandidate> {
    let of_kind: &[&str] = if knob.kind == ValueKind::Bool {
        &["true", "false"]
    } else {
        &[]
    };
    let values = knob
        .choices
        .iter()
        .map(String::as_str)
        .chain(of_kind.iter().copied());
    values
        .map(|v| CompletionCandidate::new(format!("{}={v}", knob.name)))
        .collect()
}

fn knob_names() -> Vec<CompletionCandidate> {
    knobs().iter().map(|k| candidate(k, "")).collect()
}

fn rungs() -> Vec<CompletionCandidate> {
    let ladder = preset().map_or_else(Vec::new, |p| p.ladder);
    // Of a rung of a knob set the preset has the name alone.
    let help = |title: String| (!title.is_empty()).then(|| title.into());
    ladder
        .into_iter()
        .map(|r| CompletionCandidate::new(r.rung).help(help(r.title)))
        .collect()
}

/// The knobs of the preset and of its sets.
fn knobs() -> Vec<Knob> {
    let Some(preset) = preset() else {
        return Vec::new();
    };
    let library = library();
    let launch = is_launch().then(|| SET.to_owned());
    let sets = preset.uses.iter().chain(&launch);
    let shared = sets.filter_map(|set| parsed(&library, LibraryFolder::Sets, set).ok());
    let shared = shared.collect();
    preset.with(shared).knobs
}

/// The preset of the line: its flag, or else the project's or its dataset's, or the default.
fn preset() -> Option<PresetFile> {
    let library = library();
    let project = folder().map(|f| f.join(PROJECT_FILE));
    let text = project
        .and_then(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default();
    let document = ConfigDocument::parse(PROJECT_FILE, &text).ok();
    let written = |key: &str| Some(document.as_ref()?.text(key).ok()??.text);
    let of_dataset = || {
        let dataset = flag("--dataset").or_else(|| written("dataset"))?;
        let source = library.get(LibraryFolder::Datasets, &dataset).ok()?;
        let profile = ConfigDocument::parse(&source.path, &source.text).ok()?;
        Some(profile.text("preset").ok()??.text)
    };
    let default = || {
        if is_launch() {
            launching::PRESET
        } else {
            library.default_preset()
        }
    };
    let name = flag("--preset")
        .or_else(|| written("preset").filter(|_| !is_launch()))
        .or_else(|| of_dataset().filter(|_| !is_launch()))
        .unwrap_or_else(|| default().to_owned());
    parsed(&library, LibraryFolder::Presets, &name).ok()
}

/// The words of the line, which the shell handed over behind `--`.
fn line() -> impl Iterator<Item = String> {
    let words = std::env::args_os().map(|w| w.to_string_lossy().into_owned());
    words.skip_while(|w| w != "--").skip(2)
}

/// Is it a program that is started here?
fn is_launch() -> bool {
    line().next().is_some_and(|word| word == "run")
}

/// The value of a flag on the line.
fn flag(name: &str) -> Option<String> {
    let words: Vec<String> = line().collect();
    let apart = words
        .windows(2)
        .find(|pair| pair[0] == name)
        .map(|pair| pair[1].clone());
    let prefix = format!("{name}=");
    apart.or_else(|| {
        words
            .iter()
            .find_map(|w| w.strip_prefix(&prefix).map(str::to_owned))
    })
}
