//! What a command works with: the project that it stands in, and what follows from that.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::args::Configuration;
use super::config_files::{document, rest_place};
use super::runs::Runs;
use crate::core::config::ConfigDocument;
use crate::core::exit::Exit;
use crate::io::library::Library;
use crate::view::{CommandFailure, print};

/// Name of the project file.
pub const PROJECT_FILE: &str = "oomctl.yaml";

/// One call of the program, in a project.
pub struct Session {
    /// The project's folder, absolute: that of its file, or the working directory.
    pub folder: PathBuf,
    /// Its presets and templates, before those of the program.
    pub library: Library,
    /// Its file; empty where it has none.
    pub document: ConfigDocument,
    /// Its runs.
    pub runs: Runs,
    /// When the call began.
    pub now: Timestamp,
    pub has_file: bool,
    json: bool,
}

impl Session {
    /// In the project of this file, or of the nearest `oomctl.yaml` walking up.
    pub fn open(config: Option<&Path>) -> Result<Self, CommandFailure> {
        let here = working_directory()?;
        let path = match config {
            Some(path) => Some(here.join(path)),
            None => here
                .ancestors()
                .map(|d| d.join(PROJECT_FILE))
                .find(|p| p.is_file()),
        };
        let document = match &path {
            Some(path) => document(path, &here)?,
            None => ConfigDocument::parse(PROJECT_FILE, "")?,
        };
        let folder = path.as_deref().and_then(Path::parent).unwrap_or(&here);
        let rest = rest_place(&document, folder)?;
        let session = Self::new(folder.to_owned(), document);
        Ok(Self {
            has_file: path.is_some(),
            runs: session.runs.through(rest),
            ..session
        })
    }

    /// The same for what acts on runs alone: a broken file is told, and stops nothing.
    pub fn of_runs(config: Option<&Path>) -> Result<Self, CommandFailure> {
        Self::open(config).or_else(|failure| {
            let here = working_directory()?;
            let above = || here.ancestors().find(|d| d.join(PROJECT_FILE).is_file());
            let folder = config.and_then(Path::parent).map(|d| here.join(d));
            let folder = folder.or_else(|| above().map(Path::to_owned));
            let Some(folder) = folder.filter(|_| failure.exit() == Exit::Configuration) else {
                return Err(failure);
            };
            print::warn(&format!("{}; going on without it", failure.sentence()));
            Ok(Self::new(folder, ConfigDocument::parse(PROJECT_FILE, "")?))
        })
    }

    /// In a project in `folder` that has no file yet.
    pub fn empty(folder: &Path) -> Result<Self, CommandFailure> {
        let folder = working_directory()?.join(folder);
        Ok(Self::new(folder, ConfigDocument::parse(PROJECT_FILE, "")?))
    }

    fn new(folder: PathBuf, document: ConfigDocument) -> Self {
        Self {
            library: Library::new(Some(&folder)),
            runs: Runs::of(&folder),
            now: Timestamp::now(),
            has_file: false,
            json: false,
            folder,
            document,
        }
    }

    /// Whether neither a project file nor a flag says what is to be run, so that a command can only mean a run.
    pub fn asks_nothing(&self, flags: &Configuration) -> bool {
        !self.has_file && !flags.says_what_to_run()
    }

    /// The run that was named, or else the newest one where nothing else says what is meant.
    pub fn run_meant(
        &self,
        named: Option<&String>,
        flags: &Configuration,
    ) -> Result<Option<String>, CommandFailure> {
        match named {
            None if self.asks_nothing(flags) => self.runs.newest().map(Some),
            named => Ok(named.cloned()),
        }
    }

    /// The same, whose views are shown as JSON if that is asked for.
    pub fn printing(self, json: bool) -> Self {
        Self { json, ..self }
    }

    /// Prints a view as it is asked for.
    pub fn show<V: Serialize>(
        &self,
        view: &V,
        text: impl FnOnce(&V) -> String,
    ) -> Result<(), CommandFailure> {
        print::show(self.json, view, text)
    }
}

/// The working directory.
pub fn working_directory() -> Result<PathBuf, CommandFailure> {
    std::env::current_dir().map_err(|e| {
        CommandFailure::configuration(format!("cannot determine the current folder: {e}"))
    })
}
