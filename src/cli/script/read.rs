//! A script and the files that it names, as they are on disk now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::request::load::{self, all_parsed, parsed};
use crate::cli::request::profile::named;
use crate::cli::session::Session;
use crate::core::adopt::version::LogExcerpt;
use crate::core::exit::Exit;
use crate::core::recipe::{KnobSetFile, PresetFile};
use crate::core::request::split;
use crate::io::files::{read_bounded, read_text};
use crate::io::job_scripts::{LOGS, folder_of, job_scripts};
use crate::io::library::{Library, LibraryFolder};
use crate::view::CommandFailure;
use oomctl_base::nearest;
use oomctl_scripts::{Adoption, Launchers, Stack, Submission, SubmissionContext, is_shell};

/// Largest file of a job that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Files of a job that are read.
const MAX_FILES: usize = 256;
/// Paths that are looked for in folders that are there: on a network file system each takes about a millisecond.
const MAX_PATHS: usize = 1_024;

/// What is known of programs: presets, and launchers.
pub struct Shelves {
    /// The presets that a program may be recognised by, with their sets.
    pub presets: Vec<PresetFile>,
    /// What they make of a program's words.
    pub stacks: Arc<Vec<Stack>>,
    /// Programs that start others.
    pub launchers: Launchers,
}

impl Shelves {
    /// All that the library has, or one preset only.
    pub fn of(library: &Library, only: Option<&str>) -> Result<Self, CommandFailure> {
        Self::with(library, only, &KnobSetFile::default())
    }

    /// The same, with the names that the project has for knobs.
    pub fn of_project(session: &Session, only: Option<&str>) -> Result<Self, CommandFailure> {
        let shelves = Self::with(&session.library, only, &load::of_project(session)?)?;
        let knobs = shelves.presets.iter().flat_map(|p| &p.knobs);
        load::check_spellings(session, knobs)?;
        Ok(shelves)
    }

    fn with(
        library: &Library,
        only: Option<&str>,
        of_project: &KnobSetFile,
    ) -> Result<Self, CommandFailure> {
        let with_sets = |file: PresetFile| {
            let mut sets = Self::sets(library, &file)?;
            sets.push(of_project.clone());
            Ok(file.with(sets))
        };
        let presets = match only {
            Some(name) => vec![parsed(library, LibraryFolder::Presets, name)?],
            None => all_parsed(library, LibraryFolder::Presets)?,
        };
        let presets = presets.into_iter().map(with_sets);
        let presets: Vec<PresetFile> = presets.collect::<Result<_, CommandFailure>>()?;
        Ok(Self {
            stacks: Arc::new(presets.iter().map(PresetFile::stack).collect()),
            presets,
            launchers: launchers(library)?,
        })
    }

    /// The same for a script of the user's own: the preset that a flag names, or the project file, where it is one that renders
    /// nothing and so is meant for scripts.
    pub fn for_script(session: &Session, flag: Option<&str>) -> Result<Self, CommandFailure> {
        let library = &session.library;
        let of_project = named(session, "preset", None)?.filter(|_| flag.is_none());
        let only = match &of_project {
            Some(name) => {
                let file: PresetFile = parsed(library, LibraryFolder::Presets, name)?;
                file.files.is_empty().then_some(name.as_str())
            }
            None => flag,
        };
        Self::of_project(session, only)
    }

    /// Knob sets that a preset uses.
    pub fn sets(library: &Library, file: &PresetFile) -> Result<Vec<KnobSetFile>, CommandFailure> {
        let sets = file.uses.iter();
        sets.map(|name| parsed(library, LibraryFolder::Sets, name))
            .collect()
    }
}

/// The tables of launchers.
pub fn launchers(library: &Library) -> Result<Launchers, CommandFailure> {
    let mut all = Launchers::default();
    for table in all_parsed::<Launchers>(library, LibraryFolder::Launchers)? {
        all.launchers.extend(table.launchers);
    }
    Ok(all)
}

/// The job script beside it that may be meant.
fn alike(path: &Path) -> Option<String> {
    let there = job_scripts(folder_of(path));
    let near = nearest_file(path, &there)?;
    Some(format!(
        "did you mean {}?",
        path.with_file_name(near).display()
    ))
}

/// The name of a file beside it that may be meant.
pub(super) fn nearest_file<'n>(path: &Path, there: &'n [String]) -> Option<&'n str> {
    let near = nearest(
        path.file_name()?.to_str()?,
        there.iter().map(String::as_str),
    )?;
    // Two names of the same ending are alike by that alone.
    let stem = |path: &Path| path.file_stem()?.to_str().map(str::to_owned);
    let stems = (stem(path)?, stem(Path::new(near))?);
    nearest(&stems.0, std::iter::once(stems.1.as_str())).map(|_| near)
}

/// The text of a script that sbatch would take; what it would refuse is refused here, with a way out.
pub fn script(path: &Path) -> Result<String, CommandFailure> {
    let shown = path.display();
    let refused = |what: String, hint: &str| Err(CommandFailure::configuration(what).hint(hint));
    let real = std::fs::canonicalize(path).and_then(|p| Ok((p.metadata()?, p)));
    let real = match real {
        Ok((meta, real)) if meta.is_file() => real,
        Ok((meta, _)) if meta.is_dir() => {
            let what = format!("{shown} is a directory, not a job script");
            return refused(what, "give the script in it");
        }
        Ok(_) => return refused(format!("{shown} is not a file"), "give a job script"),
        Err(e) => {
            let what = format!("cannot read the job script {shown}: {e}");
            let path_first =
                "give its path; oomctl options come before it, the script's own arguments after it";
            let failure = CommandFailure::configuration(what);
            let failure = match e.kind() {
                std::io::ErrorKind::NotFound => failure.with_exit(Exit::Usage),
                _ => failure,
            };
            return Err(failure.hint(alike(path).unwrap_or_else(|| path_first.to_owned())));
        }
    };
    let bytes = read_bounded(&real, MAX_FILE)?;
    if bytes.contains(&0) {
        let what = format!("{shown} is binary, not a job script");
        return refused(what, "wrap the program in a script");
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            let before = &e.as_bytes()[..e.utf8_error().valid_up_to()];
            let line = 1 + before.iter().filter(|b| **b == b'\n').count();
            return refused(
                format!(
                    "{shown}:{line}: this line is not UTF-8, and oomctl would not copy it as it is"
                ),
                "change its encoding: `iconv -f latin1 -t utf8 OLD > NEW`",
            );
        }
    };
    if text.trim().is_empty() {
        return refused(
            format!("{shown} is empty"),
            "sbatch refuses an empty script",
        );
    }
    is_of_a_job(path, &text)?;
    if text.starts_with('\u{feff}') {
        return refused(
            format!(
                "{shown} begins with a byte order mark, and sbatch refuses it: the first line must begin with #!"
            ),
            "remove it with sed -i '1s/^\\xEF\\xBB\\xBF//'",
        );
    }
    if text.contains("\r\n") {
        return refused(
            format!("{shown} has DOS line ends (\\r\\n), which sbatch refuses"),
            "remove them with sed -i 's/\\r$//'",
        );
    }
    Ok(text)
}

/// Refuses logs, settings and programs that are given in place of a job script.
fn is_of_a_job(path: &Path, text: &str) -> Result<(), CommandFailure> {
    let shown = path.display();
    let refused = |what: String, hint: &str| Err(CommandFailure::configuration(what).hint(hint));
    let ends = |endings: &[&str]| {
        let ending = path.extension().and_then(|e| e.to_str());
        ending.is_some_and(|ending| endings.contains(&ending))
    };
    if !text.starts_with("#!") && !text.contains("#SBATCH") && ends(&LOGS) {
        return refused(
            format!("{shown} is a log, not a job script"),
            &format!("`oomctl diagnose {shown}` says why its job died"),
        );
    }
    // A task of SkyPilot has its script in its file.
    let is_task = text.lines().any(|line| line.starts_with("run:"));
    if !text.starts_with("#!") && !is_task && ends(&["yaml", "yml", "json", "toml"]) {
        let what = format!("{shown} is a file of settings, not a job script");
        let hint = format!(
            "write a job script with the command that reads it, as `python train.py --config {shown}`, and submit that; `oomctl init` writes one"
        );
        return Err(CommandFailure::usage(what).hint(hint));
    }
    if !text.starts_with("#!") && ends(&["py"]) {
        let what = format!("{shown} does not start with `#!`, and is not a shell script");
        let hint = match (text.contains("sbatch"), runs_it(path)) {
            (true, _) => {
                "if it submits jobs itself, run it; `oomctl watch JOBID` takes each of them over"
                    .to_owned()
            }
            (_, Some(script)) => format!("{script} runs it: name that instead"),
            _ => "run it from a job script: `oomctl init` writes one; or start it with `#!/usr/bin/env python3`".to_owned(),
        };
        return refused(what, &hint);
    }
    Ok(())
}

/// The job script beside a program that names it.
fn runs_it(program: &Path) -> Option<String> {
    let name = program.file_name()?.to_str()?;
    let folder = folder_of(program);
    let names = |script: &String| {
        let text = std::fs::read_to_string(folder.join(script)).unwrap_or_default();
        let mut words = text.split([' ', '\t', '\n', '/', '"', '\'', '=']);
        words.any(|word| word == name)
    };
    let script = job_scripts(folder).into_iter().find(names)?;
    Some(program.with_file_name(script).display().to_string())
}

/// A submission with the texts of all that its script names.
pub struct Read {
    /// How it is submitted.
    pub submission: Submission,
    /// Texts by path, relative to the folder in which the job runs.
    pub files: BTreeMap<String, String>,
    /// The folder in which the job runs.
    pub workdir: PathBuf,
    /// What the logs of the job begin with, where it ran already.
    pub logs: Vec<LogExcerpt>,
}

impl Read {
    /// Reads what a script names, in the folder in which its job runs.
    pub fn new(
        mut submission: Submission,
        text: String,
        workdir: PathBuf,
        shelves: &Shelves,
    ) -> Self {
        // A secret's value is not written down with the run, so it is not read either.
        submission.variables = split(&submission.variables, &[]).variables;
        let mut read = Self {
            files: BTreeMap::from([(submission.script.clone(), text)]),
            submission,
            workdir,
            logs: Vec::new(),
        };
        let (mut asked, mut folders, mut paths) = (BTreeSet::new(), BTreeMap::new(), 0);
        loop {
            let reading = read.adoption(shelves).reading;
            let wanted = reading.wanted.union(&reading.sought).cloned();
            let new = wanted.filter(|p| asked.insert(p.clone()));
            let new: Vec<String> = new.collect();
            if new.is_empty() || read.files.len() > MAX_FILES || paths > MAX_PATHS {
                return read;
            }
            for path in new {
                let file = read.workdir.join(&path);
                let folder = file.parent().unwrap_or(&read.workdir).to_owned();
                let is_there = *folders.entry(folder).or_insert_with_key(|f| f.is_dir());
                paths += usize::from(is_there);
                // What is not there or cannot be read is told among what is missing.
                if let Some(text) = is_there.then(|| text_of(&file)).flatten() {
                    read.files.insert(path, text);
                }
            }
        }
    }

    /// What is understood of it.
    pub fn adoption<'a>(&'a self, shelves: &'a Shelves) -> Adoption<'a> {
        self.adoption_by(shelves, &shelves.stacks)
    }

    /// The same by other stacks.
    pub fn adoption_by<'a>(
        &'a self,
        shelves: &'a Shelves,
        stacks: &'a Arc<Vec<Stack>>,
    ) -> Adoption<'a> {
        Adoption::read(SubmissionContext {
            submission: &self.submission,
            files: &self.files,
            launchers: &shelves.launchers,
            stacks,
        })
    }
}

/// The text of a file that is one, through links.
pub fn text_of(path: &Path) -> Option<String> {
    let real = std::fs::canonicalize(path).ok().filter(|p| p.is_file())?;
    read_text(&real, MAX_FILE).ok()
}

/// Refuses a job script where a log belongs, in which no failure would be found.
pub fn no_script(log: &str, hint: &str) -> Result<(), CommandFailure> {
    let text = text_of(Path::new(log));
    match text.is_some_and(|text| text.starts_with("#!") && is_shell(&text)) {
        true => {
            let refused = CommandFailure::usage(format!("{log} is a job script, and no log"));
            Err(refused.hint(hint))
        }
        false => Ok(()),
    }
}
