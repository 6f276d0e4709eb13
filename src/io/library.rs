//! Presets, knob sets, profiles and templates: those in the binary, and the project's own, which win.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use include_dir::{Dir, include_dir};

use super::files::{FileError, read_text};
use super::site::site_folder;
use crate::core::request::NamedText;
use oomctl_diagnose::Bugs;

static PRESETS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/presets");
static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Folders below `templates/` that are looked through.
const MAX_DEPTH: usize = 8;

/// What a shelf of the library holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LibraryFolder {
    /// Presets.
    Presets,
    /// Knob sets.
    Sets,
    /// Dataset profiles.
    Datasets,
    /// Cluster profiles.
    Clusters,
    /// Constants of training stacks for the memory model.
    Memory,
    /// Tables of the dimensions of models.
    Models,
    /// Tables of the capacities of GPUs.
    Gpus,
    /// Programs that start other programs.
    Launchers,
    /// Bugs of packages.
    Bugs,
}

impl LibraryFolder {
    /// The folder below `presets/`.
    fn folder(self) -> &'static str {
        match self {
            Self::Presets => "",
            Self::Sets => "sets",
            Self::Datasets => "datasets",
            Self::Clusters => "clusters",
            Self::Memory => "memory",
            Self::Models => "models",
            Self::Gpus => "gpus",
            Self::Launchers => "launchers",
            Self::Bugs => "bugs",
        }
    }

    /// What one thing on the shelf is called.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Presets => "preset",
            Self::Sets => "knob set",
            Self::Datasets => "dataset profile",
            Self::Clusters => "cluster profile",
            Self::Memory => "memory profile",
            Self::Models => "model table",
            Self::Gpus => "GPU table",
            Self::Launchers => "table of launchers",
            Self::Bugs => "table of bugs",
        }
    }
}

/// Why something could not be had from the library.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// No such name.
    #[error("no {noun} named {name:?}")]
    Missing {
        /// What was looked for.
        noun: &'static str,
        /// Its name.
        name: String,
        /// Names that there are.
        known: Vec<String>,
    },
    /// A name that could lead out of the folder.
    #[error(
        "{name:?} cannot be the name of a {noun}: letters, digits, `.`, `_` and `-` only, at most 64"
    )]
    Name {
        /// What was looked for.
        noun: &'static str,
        /// The name.
        name: String,
    },
    /// A file that could not be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The library of a project.
#[derive(Debug, Clone)]
pub struct Library {
    project: Option<PathBuf>,
}

impl Library {
    /// The library of the project in `folder`, or only what is built in.
    pub fn new(folder: Option<&Path>) -> Self {
        Self {
            project: folder.map(Path::to_owned),
        }
    }

    /// The text of a thing: the project's file if there is one, else the site's, else the built-in one.
    ///
    /// # Errors
    /// `LibraryError`.
    pub fn get(&self, shelf: LibraryFolder, name: &str) -> Result<NamedText, LibraryError> {
        check_name(shelf, name)?;
        let file = format!("{name}.yaml");
        let relative = Path::new(shelf.folder()).join(&file);
        let mut files = self.folders(shelf).map(|folder| folder.join(&file));
        if let Some(path) = files.find(|path| path.is_file()) {
            let text = read_text(&path, MAX_FILE)?;
            let path = path.display().to_string();
            return Ok(NamedText { path, text });
        }
        let built_in = PRESETS.get_file(&relative).and_then(|f| f.contents_utf8());
        built_in
            .map(|text| NamedText {
                path: format!("<built in>/presets/{}", relative.display()),
                text: text.to_owned(),
            })
            .ok_or_else(|| LibraryError::Missing {
                noun: shelf.noun(),
                name: name.to_owned(),
                known: self.names(shelf),
            })
    }

    fn own(&self, relative: PathBuf) -> Option<PathBuf> {
        let path = self.project.as_ref()?.join(relative);
        path.is_file().then_some(path)
    }

    /// The folders that have things of a shelf beside the binary: the project's, and of cluster profiles the site's.
    fn folders(&self, shelf: LibraryFolder) -> impl Iterator<Item = PathBuf> {
        let own = self.project.as_ref();
        let own = own.map(|project| project.join("presets").join(shelf.folder()));
        let is_shared = shelf == LibraryFolder::Clusters;
        let site = site_folder().filter(|_| is_shared);
        own.into_iter()
            .chain(site.map(|site| site.join(shelf.folder())))
    }

    /// What the project itself has on a shelf, by name.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn own_sources(&self, shelf: LibraryFolder) -> Result<Vec<NamedText>, LibraryError> {
        let folder = Path::new("presets").join(shelf.folder());
        let names = self.names(shelf).into_iter();
        let own = names.filter(|n| self.own(folder.join(format!("{n}.yaml"))).is_some());
        own.map(|name| self.get(shelf, &name)).collect()
    }

    /// The preset when nothing names one: the first line of `presets/DEFAULT`.
    pub fn default_preset(&self) -> &'static str {
        PRESETS
            .get_file("DEFAULT")
            .and_then(|f| f.contents_utf8())
            .map_or("", str::trim)
    }

    /// Names on a shelf, sorted.
    pub fn names(&self, shelf: LibraryFolder) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let dir = match shelf {
            LibraryFolder::Presets => Some(&PRESETS),
            _ => PRESETS.get_dir(shelf.folder()),
        };
        let built_in = dir.into_iter().flat_map(|d| d.files());
        names.extend(built_in.filter_map(|f| yaml_name(f.path())));
        for folder in self.folders(shelf) {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            names.extend(entries.filter_map(|e| yaml_name(&e.path())));
        }
        names.sort();
        names.dedup();
        names
    }

    /// All templates by name (`verl/job.sbatch.j2`); the project's replace built-in ones.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn templates(&self) -> Result<BTreeMap<String, String>, LibraryError> {
        let mut templates = BTreeMap::new();
        built_in_templates(&TEMPLATES, &mut templates);
        if let Some(project) = &self.project {
            let root = project.join("templates");
            own_templates(&root, &root, 0, &mut templates)?;
        }
        Ok(templates)
    }
}

/// The tables of bugs: facts about packages, the same for every project.
pub fn bugs() -> &'static Bugs {
    static TABLES: LazyLock<Bugs> = LazyLock::new(|| {
        let files = PRESETS.get_dir(LibraryFolder::Bugs.folder()).into_iter();
        let texts = files
            .flat_map(|dir| dir.files())
            .filter_map(|f| f.contents_utf8());
        let read = |text| {
            serde_yaml::from_str(text).expect("embedded, and read whole by a test of this file")
        };
        Bugs::new(texts.map(read).collect())
    });
    &TABLES
}

fn check_name(shelf: LibraryFolder, name: &str) -> Result<(), LibraryError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts && name.len() <= 64 && name.chars().all(plain) {
        return Ok(());
    }
    Err(LibraryError::Name {
        noun: shelf.noun(),
        name: name.to_owned(),
    })
}

fn yaml_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(".yaml")?;
    Some(name.to_owned())
}

fn built_in_templates(dir: &Dir<'_>, into: &mut BTreeMap<String, String>) {
    let templates = dir
        .files()
        .filter(|f| f.path().extension().is_some_and(|e| e == "j2"));
    for file in templates {
        if let Some(text) = file.contents_utf8() {
            into.insert(file.path().display().to_string(), text.to_owned());
        }
    }
    for sub in dir.dirs() {
        built_in_templates(sub, into);
    }
}

fn own_templates(
    root: &Path,
    folder: &Path,
    depth: usize,
    into: &mut BTreeMap<String, String>,
) -> Result<(), LibraryError> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            own_templates(root, &path, depth + 1, into)?;
        } else if path.extension().is_some_and(|e| e == "j2")
            && let Ok(name) = path.strip_prefix(root)
        {
            into.insert(name.display().to_string(), read_text(&path, MAX_FILE)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use regex::Regex;
    use semver::Version;

    use super::*;
    use oomctl_base::Role;
    use oomctl_diagnose::{Bug, Incident, Scanner, Versions};

    fn rows() -> impl Iterator<Item = &'static Bug> {
        bugs().packages().iter().flat_map(|p| &p.bugs)
    }

    fn example(bug: &Bug) -> &oomctl_diagnose::Example {
        bug.example
            .as_ref()
            .expect("rows that are shipped have one")
    }

    fn diagnosed(log: &str) -> Incident {
        let mut scanner = Scanner::new(&[]).knowing_bugs(bugs, Versions::default());
        let source = scanner.source("slurm-1.out");
        scanner.feed(source, 0, log.as_bytes());
        scanner.finish_source(source);
        scanner.verdict(None)
    }

    #[test]
    fn every_bug_is_named_for_its_version_and_for_no_other() {
        let wrong = |bug: &'static Bug| {
            let log = |version: &str| example(bug).log.replace("VERSION", version);
            let named = |i: &Incident| i.known_bugs.iter().find(|k| k.id == bug.id).cloned();
            let incident = diagnosed(&log(&example(bug).with));
            let certain = bug.when.is_none() && !bug.ordinary;
            let is_right = named(&incident).is_some_and(|k| {
                k.certain == certain && k.version.as_deref() == Some(&example(bug).with)
            });
            let other = diagnosed(&log(&example(bug).without));
            let right = is_right && other.fatal && named(&other).is_none();
            let Incident {
                kind, phase, step, ..
            } = &incident;
            (!right).then(|| {
                format!(
                    "{} {kind} {phase} {step:?} {:?}",
                    bug.id, incident.known_bugs
                )
            })
        };
        let wrong: Vec<String> = rows().filter_map(wrong).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_version_that_nobody_tells_makes_no_bug_a_fact() {
        for bug in rows() {
            let lines = example(bug).log.lines().filter(|l| !l.contains("VERSION"));
            let log: String = lines.map(|line| format!("{line}\n")).collect();
            let incident = diagnosed(&log);
            let certain = incident.known_bugs.iter().find(|k| k.certain);
            assert!(certain.is_none(), "{}: {certain:?}", bug.id);
        }
    }

    #[test]
    fn rows_of_bugs_are_complete() {
        let mut ids = BTreeSet::new();
        for bug in rows() {
            let id = &bug.id;
            assert!(ids.insert(id), "{id} is defined twice");
            assert!(bug.source.starts_with("https://github.com/"), "{id}");
            assert!(
                !bug.says.ends_with('.') && !bug.workaround.ends_with('.'),
                "{id}"
            );
            let version = |text: &str| Version::parse(text).unwrap();
            assert!(bug.versions.matches(&version(&example(bug).with)), "{id}");
            let mut others = bug.fixed_in.iter().chain([&example(bug).without]);
            assert!(others.all(|v| !bug.versions.matches(&version(v))), "{id}");
            for pattern in bug.seen.frame.iter().chain(&bug.seen.text) {
                assert!(Regex::new(pattern).is_ok(), "{id}: {pattern}");
            }
        }
        assert!(ids.len() >= 40, "{}", ids.len());
    }

    #[test]
    fn bugs_speak_of_roles_and_knobs_that_there_are() {
        let library = Library::new(None);
        let texts: Vec<String> = library
            .names(LibraryFolder::Presets)
            .iter()
            .map(|name| library.get(LibraryFolder::Presets, name).unwrap().text)
            .collect();
        let role = |name: &str| serde_json::from_value::<Role>(name.into()).is_ok();
        let knob = |name: &str| texts.iter().any(|t| t.contains(&format!("name: {name}\n")));
        for bug in rows() {
            let settings = bug.helps.iter().map(|s| &s.knob);
            for name in settings.chain(&bug.useless) {
                assert!(role(name) || knob(name), "{}: {name}", bug.id);
            }
        }
    }
}
