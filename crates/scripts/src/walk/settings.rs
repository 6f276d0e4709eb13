//! Files of settings that words name.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Walker;
use super::call::{Arg, UnreadFile};
use super::doc::Doc;
use super::reading::FileRole;
use super::settings_file::{ConfigOptions, Folder, Reached, SettingsFile};
use crate::SettingsReader;
use crate::recognise::is_of_settings;
use crate::settings::SettingsFormat;
use crate::traced::Traced;

/// Files of settings that one command names.
const MAX_SETTINGS: usize = 32;

#[derive(Debug, Clone, Copy)]
enum ConfigOption {
    Name,
    Folder,
    More,
}

impl ConfigOption {
    /// Whether a word with it names what Hydra composes. A folder is no file: `--config-path conf/a.yaml` is the program's own.
    fn composes(self, text: &str) -> bool {
        matches!(self, Self::Name) || SettingsFormat::of(text).is_none()
    }
}

/// Options that name a configuration which the program composes (hydra-core 1.3): no file among the words.
const OPTIONS: [(&str, ConfigOption); 8] = [
    ("--config-name", ConfigOption::Name),
    ("--config_name", ConfigOption::Name),
    ("-cn", ConfigOption::Name),
    ("--config-path", ConfigOption::Folder),
    ("--config_path", ConfigOption::Folder),
    ("-cp", ConfigOption::Folder),
    ("--config-dir", ConfigOption::More),
    ("-cd", ConfigOption::More),
];

impl Walker<'_> {
    /// The files of settings that words name, in their order; and those of which nothing is known. The first `launchers` words are those of what starts the program.
    pub(super) fn settings(
        &mut self,
        words: &[Arg],
        launchers: usize,
        doc: &Doc,
    ) -> (Vec<SettingsFile>, Vec<UnreadFile>) {
        let (mut found, mut unread) = (Vec::<SettingsFile>::new(), Vec::<UnreadFile>::new());
        let mut of_option = None;
        let (mut before, mut list, mut two_before) = (String::new(), String::new(), String::new());
        for (at, word) in words.iter().enumerate() {
            let text = word.text.text();
            let name = text.split('=').next().unwrap_or(&text);
            let last = std::mem::replace(&mut before, name.to_owned());
            let of_list = std::mem::take(&mut list);
            let ahead = std::mem::replace(&mut two_before, last.clone());
            let own = OPTIONS.iter().find(|(option, _)| *option == name);
            let own = own.map(|(_, option)| *option);
            let before_it = std::mem::replace(&mut of_option, own.filter(|_| name == text));
            if own
                .or(before_it)
                .is_some_and(|option| option.composes(&text))
            {
                continue;
            }
            let start = text.find('=').map_or(0, |at| at + 1);
            let value = word.text.slice(start, text.len());
            let Some(format) = SettingsFormat::of(&text) else {
                continue;
            };
            let reader = match at < launchers {
                true => SettingsReader::Launcher,
                false => SettingsReader::Program,
            };
            let option = match ending(&text) == ending(&last) {
                // One more value of the option before it: `--data_files a.json b.json`.
                true if start == 0 => of_list,
                _ => option(&text, &last),
            };
            if start == 0 {
                list.clone_from(&option);
            }
            // `--trainer @ a.toml` fills a section, as tyro and pydantic-config have it.
            let under = match (last.as_str(), ahead.strip_prefix("--")) {
                ("@", Some(section)) => section.replace('-', "_"),
                _ => String::new(),
            };
            let mut not_read = |path: String| {
                unread.push(UnreadFile {
                    path,
                    reader,
                    option: option.clone(),
                });
            };
            let Some(path) = self.resolved(&value, doc) else {
                not_read(text);
                continue;
            };
            if found.iter().any(|file| file.path == path) || found.len() >= MAX_SETTINGS {
                continue;
            }
            match self.settings_file(&path, &value, format) {
                Some(Some(file)) => found.push(SettingsFile {
                    reader,
                    option,
                    under,
                    ..file
                }),
                Some(None) if self.out.rewritten.contains(&path) => not_read(rewritten(&path)),
                Some(None) => not_read(path),
                None => {
                    not_read(path.clone());
                    self.out.wanted.insert(path);
                }
            }
        }
        (found, unread)
    }

    /// The files of settings that exported variables name, by their own names (`TRAIN_CONFIG=conf/a.yaml`).
    pub(super) fn settings_of_variables(
        &mut self,
        variables: &BTreeMap<String, Traced>,
        doc: &Doc,
    ) -> Vec<SettingsFile> {
        let named = variables
            .iter()
            .filter(|(name, _)| is_of_settings(&name.to_ascii_lowercase()));
        let mut found = Vec::<SettingsFile>::new();
        for (_, value) in named.take(MAX_SETTINGS) {
            let format = value.known().and_then(|text| SettingsFormat::of(&text));
            let path = self.resolved(value, doc);
            let Some((format, path)) = format.zip(path) else {
                continue;
            };
            match self.settings_file(&path, value, format) {
                Some(file) => found.extend(file),
                None => drop(self.out.wanted.insert(path)),
            }
        }
        found
    }

    /// What a file of settings says: None where it is not there, `Some(None)` where it is not read.
    fn settings_file(
        &mut self,
        path: &str,
        word: &Traced,
        format: SettingsFormat,
    ) -> Option<Option<SettingsFile>> {
        if self.out.rewritten.contains(path) {
            return Some(None);
        }
        let made = self.out.created.get(path).cloned();
        let content = match made {
            Some(content) => content,
            None => {
                let file = self.named(path, word, FileRole::Settings)?;
                if let Some(known) = self.settings.get(path) {
                    return Some(known.clone());
                }
                Traced::file(file, &self.out.sources[file].text)
            }
        };
        let text = content.text();
        let says = self.spend(text.len()).then(|| format.read(&text)).flatten();
        let named = says.map(|says| SettingsFile {
            path: path.to_owned(),
            content,
            says: Rc::new(says),
            under: String::new(),
            section: String::new(),
            reached: Reached::Word,
            reader: SettingsReader::Program,
            option: String::new(),
            hidden: false,
        });
        if !self.out.created.contains_key(path) {
            self.settings.insert(path.to_owned(), named.clone());
        }
        Some(named)
    }

    /// The options among the words of a program that say which configuration it composes.
    pub(super) fn config_options(&mut self, words: &[Arg], doc: &Doc) -> ConfigOptions {
        let mut options = ConfigOptions::default();
        for (at, word) in words.iter().enumerate() {
            let text = word.text.text();
            let name = text.split('=').next().unwrap_or(&text);
            let Some((_, option)) = OPTIONS.iter().find(|(option, _)| *option == name) else {
                continue;
            };
            let value = match name.len() < text.len() {
                true => Some(word.text.slice(name.len() + 1, text.len())),
                false => words.get(at + 1).map(|next| next.text.clone()),
            };
            if value
                .as_ref()
                .is_some_and(|value| !option.composes(&value.text()))
            {
                continue;
            }
            // A word that holds code may be none at all; that of a folder is one.
            let conditional = word.maybe && word.text.known().is_some();
            let Some(value) = value.filter(|_| !conditional) else {
                options.unclear = Some(text);
                continue;
            };
            let known = value.known();
            let place = self.resolved(&value, doc);
            match (option, known, place) {
                (ConfigOption::Name, Some(name), _) => options.name = Some(name),
                (ConfigOption::More, _, Some(folder)) => options.more = vec![folder],
                (ConfigOption::Folder, Some(folder), _) if !folder.starts_with('/') => {
                    options.folder = Some(Folder::OfProgram(folder));
                }
                (ConfigOption::Folder, _, Some(folder)) => {
                    options.folder = Some(Folder::OfJob(folder));
                }
                _ => options.unclear = Some(text),
            }
        }
        options
    }
}

/// How a file is named that the script writes and that is not read for that.
fn rewritten(path: &str) -> String {
    format!("{path} (the script writes it)")
}

fn ending(path: &str) -> Option<&str> {
    path.rsplit_once('.').map(|(_, ending)| ending)
}

/// The option whose value a word holds, or is: without dashes, with `_` for `-` as parsers of arguments have it.
fn option(word: &str, before: &str) -> String {
    let name = match word.split_once('=') {
        Some((name, _)) if !name.starts_with('-') => name,
        Some((name, _)) => name.strip_prefix("--").unwrap_or_default(),
        None => before.strip_prefix("--").unwrap_or_default(),
    };
    name.replace('-', "_")
}
