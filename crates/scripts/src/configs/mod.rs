//! Files of settings that are named by other files: what a program's configuration is made of.
//!
//! Rule: what cannot be read may say anything, so a value that it could hide is not taken for known. A file
//! that finds others by where it lies is never copied; another value is put where it wins instead.

mod choices;
mod composed;
mod entry_point;
mod inner;
mod own_default;
mod own_path;
mod packages;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::rc::Rc;

use super::settings::SettingsFormat;
use super::traced::Traced;
use super::walk::{Reached, Reading, SettingsFile, UnreadFile, folder_of_file, joined};
use crate::SettingsReader;

pub(super) use composed::{compose, replaces};
pub(super) use inner::add_inner;
pub(super) use own_path::add_own_path;
pub(super) use packages::stem;

/// Files that one configuration is made of.
const MAX_PARTS: usize = 256;
/// Files that name each other.
const MAX_DEPTH: usize = 16;
/// Bytes of files that are gone through, each as often as it is named.
const MAX_BYTES: usize = 16 << 20;

/// The files of a submission, looked up by path.
pub(super) struct ConfigFiles<'a> {
    pub reading: &'a mut Reading,
    pub files: &'a BTreeMap<String, String>,
    read: BTreeMap<String, Option<SettingsFile>>,
    bytes: usize,
}

impl<'a> ConfigFiles<'a> {
    /// The files that were given, beside what was read.
    pub fn new(reading: &'a mut Reading, files: &'a BTreeMap<String, String>) -> Self {
        Self {
            reading,
            files,
            read: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Counts bytes that are gone through; false where it is more than is followed.
    fn spend(&mut self, file: &SettingsFile) -> bool {
        self.bytes = self.bytes.saturating_add(file.content.len());
        let fits = self.bytes <= MAX_BYTES;
        self.reading.cut |= !fits;
        fits
    }

    /// A text of the user's, remembered among those that were read; where it was not given, it is asked for, and
    /// nothing is said if it is not there.
    fn text(&mut self, path: &str) -> Option<Traced> {
        if let Some(made) = self.reading.created.get(path) {
            return Some(made.clone());
        }
        let Some(text) = self.files.get(path) else {
            self.reading.sought.insert(path.to_owned());
            return None;
        };
        let number = self.reading.add_source(path, text);
        Some(Traced::file(number, text))
    }

    /// What a file says: None where it is not there, `Some(None)` where it is not read.
    fn settings(&mut self, path: &str, format: SettingsFormat) -> Option<Option<SettingsFile>> {
        if let Some(known) = self.read.get(path) {
            return Some(known.clone());
        }
        if self.reading.rewritten.contains(path) {
            return Some(None);
        }
        let content = self.text(path)?;
        let fits = self.read.len() < MAX_PARTS;
        let says = fits.then(|| format.read(&content.text())).flatten();
        let file = says.map(|says| SettingsFile {
            path: path.to_owned(),
            content,
            says: Rc::new(says),
            under: String::new(),
            section: String::new(),
            reached: Reached::Place,
            reader: SettingsReader::Program,
            option: String::new(),
            hidden: false,
        });
        self.read.insert(path.to_owned(), file.clone());
        Some(file)
    }
}

/// A part of a configuration.
enum ConfigPart {
    File(SettingsFile),
    /// What is not read, by the name that it has.
    Unread(String),
    /// The same of a file that says nothing of what the others say.
    Beside(String),
}

/// The files that parts come to which stand in the order in which they count, and those that are not read. What is not read
/// may hide anything that stands before it.
fn settled(parts: Vec<ConfigPart>) -> (Vec<SettingsFile>, Vec<UnreadFile>) {
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    let mut hidden = false;
    for part in parts.into_iter().rev() {
        match part {
            ConfigPart::File(file) => found.push(SettingsFile {
                hidden: file.hidden || hidden,
                ..file
            }),
            ConfigPart::Unread(name) => {
                hidden = true;
                unread.push(UnreadFile::of(SettingsReader::Program, name));
            }
            ConfigPart::Beside(name) => unread.push(UnreadFile::of(SettingsReader::Library, name)),
        }
    }
    found.reverse();
    (found, unread)
}

/// A path beside another one.
fn beside(path: &str, name: &str) -> String {
    joined(folder_of_file(path), name)
}
