//! A project file from what was found: values with their origins, and marks where only the user knows.

use std::collections::BTreeSet;
use std::path::Path;

use super::cluster::usual;
use super::draft::Draft;
use super::job_script;
use super::settings_file;
use super::surroundings::Surroundings;
use crate::cli::request::load::all_parsed;
use crate::core::recipe::{Knob, PresetFile, Scalar};
use crate::io::library::{Library, LibraryFolder};
use crate::view::{CommandFailure, print};
use oomctl_base::Role;
use oomctl_diagnose::Telling;
use oomctl_memory::GPU_MEMORY;

/// The rest of the file: sections to switch on; a test loads them.
const SECTIONS: &str = include_str!("../../../templates/starter.yaml");

/// The first line of a file for job scripts. It names none, for a file's name may hold a line break.
const FOR_SCRIPTS: &str = "# Written by `oomctl init`: how `oomctl submit SCRIPT` goes on.\n";

/// Why a program of one's own chooses the preset.
const OWN_PROGRAM: &str = "there is a program of your own";

/// Files to start with.
#[derive(Default)]
pub struct Starter {
    /// The text of the project file; a new job script needs none.
    pub text: Option<String>,
    /// The job script that it is for.
    pub script: Option<String>,
    /// Other files to write, by name: that job script, and a program for it.
    pub files: Vec<(&'static str, String)>,
    /// What that job script takes of a node.
    pub takes: Option<String>,
}

impl Starter {
    /// A project file of this text.
    pub fn file(text: String) -> Self {
        Self {
            text: Some(text),
            ..Self::default()
        }
    }
}

/// The files for `folder`. A job script says how its program starts, which the program alone does not.
pub fn starter(
    folder: &Path,
    found: &Surroundings,
    library: &Library,
) -> Result<Starter, CommandFailure> {
    let (preset, why) = preset(folder, found, library)?;
    let Some(why) = why.filter(|why| why != OWN_PROGRAM) else {
        let new = |files, takes| Starter {
            text: None,
            script: Some(job_script::NAME.to_owned()),
            files,
            takes,
        };
        return match (found.scripts.first(), program(found)) {
            (Some(script), _) => Ok(Starter {
                text: Some(format!("{FOR_SCRIPTS}\n{SECTIONS}")),
                script: Some(script.clone()),
                ..Starter::default()
            }),
            (None, Some(program)) if !folder.join(job_script::NAME).exists() => {
                let (job, takes) = job_script::text(folder, program, found)?;
                Ok(new(vec![(job_script::NAME, job)], takes))
            }
            (None, None) if found.is_empty_folder => {
                let (name, program) = job_script::FIRST;
                let job = job_script::first(found)?;
                let files = vec![(name, program.to_owned()), (job_script::NAME, job)];
                Ok(new(files, None))
            }
            _ if !folder.join(job_script::NAME).exists() => {
                let started = settings_file::started(
                    folder,
                    found,
                    &all_parsed(library, LibraryFolder::Presets)?,
                );
                match started {
                    Some((start, file)) => {
                        let (job, takes) = job_script::of_file(&start, file, found)?;
                        Ok(new(vec![(job_script::NAME, job)], takes))
                    }
                    None => Err(nothing_to_start_from(found, library)),
                }
            }
            _ => Err(nothing_to_start_from(found, library)),
        };
    };
    let mut draft = Draft::new(folder, &preset, &[])?.because(why);
    fill(&mut draft, found)?;
    Ok(Starter {
        text: Some(format!("{}\n{SECTIONS}", draft.text()?)),
        ..Starter::default()
    })
}

/// Why no file is written, and how to choose.
fn nothing_to_start_from(found: &Surroundings, library: &Library) -> CommandFailure {
    let what = match found.programs.as_slice() {
        [] => "nothing here says what you train: no job script, no program, no framework in the active Python environment".to_owned(),
        [first, ..] => format!(
            "there is no job script here, and {} programs ({first}, ...): which one trains?",
            found.programs.len()
        ),
    };
    let names = rendering(library).unwrap_or_default();
    let names: Vec<String> = names.into_iter().map(|file| file.preset).collect();
    CommandFailure::configuration(what).hint(format!(
        "your own job script needs no file: `oomctl submit -w my_job.slurm`. `oomctl init first-job` writes a program and its job script into a new folder; `oomctl init --interactive` asks; `oomctl init --preset NAME` takes one of {}",
        names.join(", ")
    ))
}

/// The presets that render a job.
pub fn rendering(library: &Library) -> Result<Vec<PresetFile>, CommandFailure> {
    let mut files = all_parsed(library, LibraryFolder::Presets)?;
    files.retain(|file: &PresetFile| !file.files.is_empty());
    Ok(files)
}

/// The preset that fits what lies here, and why; no reason for the default.
pub fn preset(
    folder: &Path,
    found: &Surroundings,
    library: &Library,
) -> Result<(String, Option<String>), CommandFailure> {
    let files = rendering(library)?;
    for file in &files {
        let copied = file.files.iter().filter_map(|f| f.copy.as_ref());
        let mut copied = copied.filter_map(|knob| default_path(file, knob));
        if let Some(path) = copied.find(|path| folder.join(path).is_file()) {
            return Ok((file.preset.clone(), Some(format!("{path} lies here"))));
        }
    }
    for file in &files {
        let packages = file.framework.iter().flat_map(|f| &f.packages);
        for package in packages {
            let told = match found.versions.of(package) {
                Telling::One(version) => format!("{package} {version}"),
                Telling::Seen => package.clone(),
                _ => continue,
            };
            let why = format!("{told} in the active environment");
            return Ok((file.preset.clone(), Some(why)));
        }
    }
    // A program of one's own: a preset of no framework that asks for it.
    let asks = |file: &&PresetFile| file.framework.is_none() && file.knobs.iter().any(is_program);
    let own = files
        .iter()
        .rev()
        .find(asks)
        .filter(|_| program(found).is_some());
    Ok(match own {
        Some(file) => (file.preset.clone(), Some(OWN_PROGRAM.to_owned())),
        None => (library.default_preset().to_owned(), None),
    })
}

/// The path by default of a file that the preset copies.
pub fn default_path(file: &PresetFile, knob: &str) -> Option<String> {
    match &file.knobs.iter().find(|k| k.name == *knob)?.default {
        Some(Scalar::Text(path)) => Some(path.clone()),
        _ => None,
    }
}

/// Gives the draft what was found. What a preset refuses stays out.
pub fn fill(draft: &mut Draft, found: &Surroundings) -> Result<(), CommandFailure> {
    if let Some(framework) = draft.preset()?.framework {
        let mut versions = framework.packages.iter().map(|p| found.versions.of(p));
        if let Some(Telling::One(version)) = versions.find(|t| matches!(t, Telling::One(_)))
            && framework.supported.matches(&version)
        {
            draft.version(framework.version_key, version.to_string());
        }
    }
    let preset = draft.request()?.preset().clone();
    for knob in &preset.knobs {
        if let Some((value, why)) = value(knob, found)
            && !draft.has(&knob.name)
        {
            draft.find(&knob.name, &value, why);
        }
    }
    Ok(())
}

/// The value of a knob by what was found, and where it was found.
fn value(knob: &Knob, found: &Surroundings) -> Option<(String, String)> {
    let cluster = found.slurm.as_ref().ok();
    let usual = cluster.and_then(usual);
    let sinfo = |value: String| Some((value, "sinfo".to_owned()));
    match (knob.role, knob.name.as_str()) {
        (Some(Role::Partition), _) => {
            let usual = usual?;
            let gpus = match (&usual.gpu_type, usual.gpus) {
                (_, 0) => "no GPUs".to_owned(),
                (kind, n) => format!("{n} x {}", kind.as_deref().unwrap_or("GPU")),
            };
            let limit = usual.time_limit.as_deref().unwrap_or("infinite");
            let why = format!(
                "sinfo: {} nodes with {gpus}, time limit {limit}",
                usual.nodes
            );
            Some((usual.name.clone(), why))
        }
        (Some(Role::GpusPerNode), _) => usual
            .filter(|u| u.gpus > 0)
            .and_then(|u| sinfo(u.gpus.to_string())),
        (Some(Role::GpuType), _) => sinfo(usual?.gpu_type.clone()?),
        (_, "account") => match cluster?.accounts.as_slice() {
            [one] => Some((one.clone(), "sacctmgr: your only account".to_owned())),
            _ => None,
        },
        (_, GPU_MEMORY) if cluster.is_none() => {
            Some((found.gpu_memory()?, "the GPUs of this machine".to_owned()))
        }
        (Some(Role::ModelVariant), _) if knob.required => only(&found.models),
        _ if knob.required && is_program(knob) => {
            Some((program(found)?.clone(), "found here".to_owned()))
        }
        _ if knob.required => only(&of_kind(knob.name.strip_suffix("_files")?, &found.data)),
        _ => None,
    }
}

/// Is it the user's own program?
fn is_program(knob: &Knob) -> bool {
    knob.name == "script"
}

/// The program that trains: the only one, or the only one that is called so.
fn program(found: &Surroundings) -> Option<&String> {
    let mut training = found.programs.iter().filter(|name| name.contains("train"));
    match (found.programs.as_slice(), training.next(), training.next()) {
        ([one], _, _) | (_, Some(one), None) => Some(one),
        _ => None,
    }
}

fn only(paths: &[String]) -> Option<(String, String)> {
    match paths {
        [one] => Some((one.clone(), "found here".to_owned())),
        _ => None,
    }
}

/// Data whose names say what it is for: `train`, or `val`, which many call `test`.
fn of_kind(kind: &str, data: &[String]) -> Vec<String> {
    let words: &[&str] = match kind {
        "val" => &["val", "test", "eval"],
        kind => &[kind],
    };
    let named = |path: &&String| words.iter().any(|word| path.contains(word));
    data.iter().filter(named).cloned().collect()
}

/// Says what was found, and what not.
pub fn tell(found: &Surroundings, library: &Library) -> Result<(), CommandFailure> {
    let list = |paths: &[String]| match paths.len() {
        0..=4 => paths.join(", "),
        n => format!("{} and {} more", paths[..3].join(", "), n - 3),
    };
    let gpus = match &found.gpus {
        Ok(gpus) => gpus.iter().map(gpu).collect::<Vec<_>>().join("; "),
        Err(_) => "none on this machine".to_owned(),
    };
    let slurm = match &found.slurm {
        Ok(cluster) => {
            let names: Vec<&str> = cluster.partitions.iter().map(|p| p.name.as_str()).collect();
            let name = cluster.name.as_deref().unwrap_or("name unknown");
            let accounts = match cluster.accounts.as_slice() {
                [] => "accounts unknown".to_owned(),
                some => format!("accounts {}", some.join(", ")),
            };
            format!(
                "cluster {name}: partitions {}; {accounts}",
                names.join(", ")
            )
        }
        Err(why) => why.clone(),
    };
    let python = python(found, library)?;
    for (what, is) in [("GPUs", gpus), ("Slurm", slurm), ("Python", python)] {
        print::talk(&format!("  {what:<8} {is}"));
    }
    for (what, paths) in [
        ("scripts", &found.scripts),
        ("programs", &found.programs),
        ("settings", &found.settings),
        ("data", &found.data),
        ("models", &found.models),
    ] {
        if !paths.is_empty() {
            print::talk(&format!("  {what:<8} {}", list(paths)));
        }
    }
    Ok(())
}

/// The active environment, with the frameworks in it that a preset knows.
fn python(found: &Surroundings, library: &Library) -> Result<String, CommandFailure> {
    let frameworks = all_parsed(library, LibraryFolder::Presets)?
        .into_iter()
        .filter_map(|file: PresetFile| file.framework);
    let packages = frameworks.flat_map(|framework| framework.packages);
    let packages: BTreeSet<String> = packages.chain(["torch".to_owned()]).collect();
    let version = |name: &String| match found.versions.of(name) {
        Telling::One(version) => Some(format!("{name} {version}")),
        _ => None,
    };
    let installed: Vec<String> = packages.iter().filter_map(version).collect();
    Ok(match &found.environment {
        Some(folder) if installed.is_empty() => format!("{folder}: no known framework"),
        Some(folder) => format!("{folder}: {}", installed.join(", ")),
        None => "no environment is active; activate the one that has PyTorch before you submit"
            .to_owned(),
    })
}

fn gpu(gpu: &oomctl_gpu::Gpu) -> String {
    let (total, free) = (gpu.memory.total.gib(), gpu.memory.free.gib());
    format!(
        "GPU {}  {}  {free:.1} of {total:.1} GiB free",
        gpu.index, gpu.name
    )
}
