//! A file of settings, and how it is found.

use std::rc::Rc;

use crate::SettingsReader;
use crate::settings::{Settings, SettingsEntry};
use crate::traced::Traced;

/// A file of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    /// Its path.
    pub path: String,
    /// What is in it.
    pub content: Traced,
    /// What that says.
    pub says: Rc<Settings>,
    /// The keys under which all of it stands, with dots between them; none for most.
    pub under: String,
    /// The keys of a section whose keys the program takes for options of its framework; none for most.
    pub section: String,
    /// How it is found.
    pub reached: Reached,
    /// Who reads it.
    pub reader: SettingsReader,
    /// The option whose value it is, without dashes; empty where it is none's.
    pub option: String,
    /// Something that is not read may say otherwise.
    pub hidden: bool,
}

impl SettingsFile {
    /// What it says of a key.
    pub fn find(&self, key: &str) -> Option<&SettingsEntry> {
        let key = match self.under.as_str() {
            "" => key,
            under => key.strip_prefix(under)?.strip_prefix('.')?,
        };
        let of_section = || self.says.find(&format!("{}.{key}", self.section));
        let of_section = (!self.section.is_empty()).then(of_section).flatten();
        of_section.or_else(|| self.says.find(key))
    }

    /// Every single value and every list that it says, by its whole key.
    pub fn leaves(&self) -> Vec<(String, String)> {
        let text = self.content.text();
        let mut all = Vec::new();
        for (key, entry) in self.says.leaves() {
            let key = match self.under.as_str() {
                "" => key,
                under => format!("{under}.{key}"),
            };
            let written = text.get(entry.bytes.clone()).unwrap_or_default();
            all.push((
                key,
                entry.text.clone().unwrap_or_else(|| written.to_owned()),
            ));
        }
        all
    }
}

/// How a file of settings is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// A word names it.
    Word,
    /// A key of another file names it, as from the folder in which the program runs.
    Key,
    /// By where it lies beside others, so that a copy elsewhere would be another one.
    Place,
    /// In the same way, as part of a configuration that Hydra composes.
    Composed,
}

impl Reached {
    /// Whether a copy elsewhere would be another file.
    pub fn by_place(self) -> bool {
        matches!(self, Self::Place | Self::Composed)
    }
}

/// What words say of a configuration that the program composes of several files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigOptions {
    /// Its name.
    pub name: Option<String>,
    /// The folder of it.
    pub folder: Option<Folder>,
    /// A further folder, relative to that of the job.
    pub more: Vec<String>,
    /// An option whose value is not known.
    pub unclear: Option<String>,
}

impl ConfigOptions {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A folder, by what it is relative to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Folder {
    /// The folder of the job; or an absolute one.
    OfJob(String),
    /// The file of the program.
    OfProgram(String),
}
