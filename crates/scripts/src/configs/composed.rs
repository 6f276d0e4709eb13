//! A configuration that a program composes of several files: which they are, and in which order they count.
//!
//! Source: hydra-core 1.3, `defaults_list.py` (order, packages, overrides) and `utils.py` (folders). The tree is gone
//! through from its end, because a choice that a later file makes counts for the earlier ones; the first of
//! several choices that is met so is the one that counts, and those of the command line before all.

use std::collections::BTreeMap;

use super::choices::{DefaultsEntry, GroupOverride};
use super::entry_point::{EntryPoint, entry_point};
use super::packages::{GROUP, dotted, from_root, header, in_package, names_itself, stem};
use super::{ConfigFiles, ConfigPart, MAX_DEPTH, MAX_PARTS, beside, joined, settled};
use crate::settings::SettingsFormat;
use crate::walk::{Call, CallTarget, Folder, Reached, Reading, SettingsFile, folder_of_file};
use crate::{Literal, hydra, yaml};

/// The key of the folders that a configuration adds.
const SEARCH_PATH: &str = "hydra.searchpath";

/// Adds the files of the configuration that each call composes.
pub(crate) fn compose(reading: &mut Reading, files: &BTreeMap<String, String>) {
    let mut shelf = ConfigFiles::new(reading, files);
    for at in 0..shelf.reading.calls.len() {
        let call = shelf.reading.calls[at].clone();
        let Some(parts) = Composer::of(&call, &mut shelf).and_then(Composer::parts) else {
            continue;
        };
        let (mut found, unread) = settled(parts);
        let call = &mut shelf.reading.calls[at];
        // Words that name files are the program's own business, and count after its configuration.
        found.append(&mut call.settings);
        call.settings = found;
        call.unread.extend(unread);
    }
}

/// Under which keys a file is put.
#[derive(Clone, Copy)]
struct ConfigPlace<'p> {
    /// The package of the file that names it.
    parent: &'p str,
    /// The one that is asked for there, which wins over its own header.
    asked: Option<&'p str>,
    /// The one of its group.
    own: &'p str,
}

impl ConfigPlace<'_> {
    /// The package of a file, by rules that were others before version 1.2; None where it is not clear.
    fn package(&self, file: &SettingsFile, old: Option<bool>) -> Option<String> {
        let text = file.content.text();
        let header = header(&text).filter(|name| *name != GROUP || old != Some(true));
        Some(match (self.asked, header) {
            (Some(asked), _) => in_package(self.parent, asked),
            // Those of old put the group or the name in.
            (None, Some(header)) if names_itself(header) && old != Some(false) => return None,
            // A file's own header counts from the root.
            (None, Some(header)) => in_package("", header),
            (None, None) => in_package(self.parent, self.own),
        })
    }
}

struct Composer<'s, 'a> {
    shelf: &'s mut ConfigFiles<'a>,
    /// Where files are looked for, the first one first.
    folders: Vec<String>,
    /// The folder in which the program runs.
    here: String,
    name: Option<String>,
    /// Whether the rules of before version 1.2 hold, where that is known.
    old: Option<bool>,
    /// Why nothing more is known of where files are looked for.
    unclear: Option<String>,
    overrides: Vec<GroupOverride>,
    parts: usize,
}

impl<'s, 'a> Composer<'s, 'a> {
    /// How a call is configured; None where nothing says that it is so at all.
    fn of(call: &Call, shelf: &'s mut ConfigFiles<'a>) -> Option<Self> {
        let (path, entry) = program(call, shelf);
        let options = &call.config;
        let words = call.words.iter().skip(call.args);
        let overrides: Vec<GroupOverride> = words
            .clone()
            .filter_map(|w| GroupOverride::of(&w.text.text(), w.text.known().is_some() && !w.maybe))
            .collect();
        let speaks = || words.clone().any(|w| hydra::read(&w.text.text()).is_some());
        let decorated = entry.as_ref().is_some_and(|e| !e.by_options);
        let asked = !options.is_empty() && (entry.is_some() || speaks());
        if !decorated && !asked {
            return None;
        }
        let entry = entry.unwrap_or(EntryPoint {
            folder: Literal::Unknown,
            name: Literal::Unknown,
            ..EntryPoint::default()
        });
        let not_read = || Some("the program's own configuration".to_owned());
        let mut folders = Vec::new();
        let mut unclear = options.unclear.clone();
        let mut texts = words.clone().map(|w| w.text.text());
        unclear = unclear.or_else(|| texts.find(|text| text.contains(SEARCH_PATH)));
        match (&options.folder, &entry.folder, path) {
            (Some(Folder::OfJob(folder)), ..) => folders.push(folder.clone()),
            (Some(Folder::OfProgram(folder)), _, Some(path)) => folders.push(beside(&path, folder)),
            (None, Literal::Known(folder), Some(path)) if !folder.contains("://") => {
                folders.push(beside(&path, folder));
            }
            (None, Literal::Absent, _) => {}
            _ => unclear = unclear.or_else(not_read),
        }
        folders.extend(options.more.iter().cloned());
        let name = match (&options.name, entry.name) {
            (Some(name), _) => Some(name.clone()),
            (None, Literal::Known(name)) => Some(name),
            (None, Literal::Absent) => return None,
            (None, Literal::Unknown) => {
                unclear = unclear.or_else(not_read);
                None
            }
        };
        Some(Self {
            shelf,
            folders,
            here: call.folder.clone().unwrap_or_default(),
            name,
            old: entry.old,
            unclear,
            overrides,
            parts: 0,
        })
    }

    /// The parts of the configuration, those that count more behind the others.
    fn parts(mut self) -> Option<Vec<ConfigPart>> {
        let Some(name) = self.name.take() else {
            return Some(self.unclear.map(ConfigPart::Unread).into_iter().collect());
        };
        let name = stem(&name).to_owned();
        let mut parts = Vec::new();
        match self.file(&name) {
            None => parts.push(ConfigPart::Unread(name)),
            Some(file) => {
                self.search_path(&file);
                let added = self.overrides.clone();
                let mut all = choices(&file);
                for chosen in added.iter().filter(|c| c.sign.starts_with('+')) {
                    all.extend(self.added(chosen));
                }
                // From the end to the beginning, then turned around.
                let own = dotted(folder_of_file(&name));
                let place = ConfigPlace {
                    parent: "",
                    asked: None,
                    own: &own,
                };
                match place.package(&file, self.old) {
                    Some(package) => {
                        self.gather(file, all, (folder_of_file(&name), &package), 0, &mut parts);
                    }
                    None => parts.push(ConfigPart::Unread(file.path)),
                }
                parts.reverse();
                if let Some(unclear) = self.unclear.take() {
                    parts.insert(0, ConfigPart::Unread(unclear));
                }
            }
        }
        Some(parts)
    }

    /// A group's file that the command line adds, where there is such a group, or may be.
    fn added(&mut self, chosen: &GroupOverride) -> Option<DefaultsEntry> {
        let Some(names) = chosen.names.clone() else {
            return Some(DefaultsEntry::Unclear(chosen.group.clone()));
        };
        let there =
            |c: &mut Self, name: &String| c.file(&format!("{}/{name}", chosen.group)).is_some();
        let all = !names.is_empty() && names.iter().all(|name| there(self, name));
        all.then(|| DefaultsEntry::Group {
            group: format!("/{}", chosen.group),
            package: chosen.package.clone(),
            names,
            optional: false,
        })
    }

    /// Folders that the configuration itself adds.
    fn search_path(&mut self, file: &SettingsFile) {
        let items = yaml::list(&file.content.text(), &["hydra", "searchpath"]);
        for item in items.unwrap_or_default() {
            let folder = item.values.into_iter().flatten().next().unwrap_or_default();
            match folder.strip_prefix("file://") {
                Some(folder) if !folder.contains("${") => {
                    let folder = joined(&self.here, folder);
                    self.folders.push(folder);
                }
                _ => {}
            }
        }
    }

    /// A file by its name below the folders; the first that has one counts.
    fn file(&mut self, name: &str) -> Option<SettingsFile> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            self.shelf.reading.cut = true;
            return None;
        }
        let folders = self.folders.clone();
        let mut paths = folders
            .iter()
            .map(|folder| joined(folder, &format!("./{name}.yaml")));
        let file = paths.find_map(|path| self.shelf.settings(&path, SettingsFormat::Yaml))??;
        self.shelf.spend(&file).then_some(file)
    }

    /// Adds what a file brings in, the parts that count more first. `group` is the folder that the file is in,
    /// `package` the keys under which it is put.
    fn gather(
        &mut self,
        file: SettingsFile,
        mut all: Vec<DefaultsEntry>,
        (group, package): (&str, &str),
        depth: usize,
        parts: &mut Vec<ConfigPart>,
    ) {
        if depth >= MAX_DEPTH || parts.len() >= MAX_PARTS {
            self.shelf.reading.cut = true;
            return parts.push(ConfigPart::Unread(file.path));
        }
        if !all.contains(&DefaultsEntry::Own) {
            all.push(DefaultsEntry::Own);
        }
        for choice in &all {
            self.keep_override(choice, group, package);
        }
        for choice in all.into_iter().rev() {
            match choice {
                DefaultsEntry::Own => parts.push(ConfigPart::File(SettingsFile {
                    under: package.to_owned(),
                    reached: Reached::Composed,
                    ..file.clone()
                })),
                DefaultsEntry::Override { .. } => {}
                DefaultsEntry::Unclear(what) => parts.push(ConfigPart::Unread(what)),
                DefaultsEntry::File { path, package: at } => {
                    let whole = from_root(group, &path);
                    let own = dotted(folder_of_file(path.trim_start_matches('/')));
                    let place = ConfigPlace {
                        parent: package,
                        asked: at.as_deref(),
                        own: &own,
                    };
                    self.child(&whole, place, false, depth, parts);
                }
                DefaultsEntry::Group {
                    group: named,
                    package: at,
                    names,
                    optional,
                } => {
                    let whole = from_root(group, &named);
                    let own = dotted(named.trim_start_matches('/'));
                    let place = ConfigPlace {
                        parent: package,
                        asked: at.as_deref(),
                        own: &own,
                    };
                    let full = in_package(package, at.as_deref().unwrap_or(&own));
                    match self.chosen(&whole, &full) {
                        Some(None) => parts.push(ConfigPart::Unread(whole)),
                        chosen => {
                            let names = chosen.flatten().unwrap_or(names);
                            for name in names.iter().rev() {
                                let path = format!("{whole}/{}", stem(name));
                                self.child(&path, place, optional, depth, parts);
                            }
                        }
                    }
                }
            }
        }
    }

    fn child(
        &mut self,
        path: &str,
        place: ConfigPlace<'_>,
        optional: bool,
        depth: usize,
        parts: &mut Vec<ConfigPart>,
    ) {
        let Some(file) = self.file(stem(path)) else {
            if !optional {
                parts.push(ConfigPart::Unread(path.to_owned()));
            }
            return;
        };
        let Some(package) = place.package(&file, self.old) else {
            return parts.push(ConfigPart::Unread(file.path));
        };
        let all = choices(&file);
        self.gather(
            file,
            all,
            (folder_of_file(path), &package),
            depth + 1,
            parts,
        );
    }

    /// Remembers a choice that a file makes for a group which is listed elsewhere.
    fn keep_override(&mut self, choice: &DefaultsEntry, group: &str, package: &str) {
        let DefaultsEntry::Override {
            group: named,
            package: at,
            names,
        } = choice
        else {
            return;
        };
        let whole = from_root(group, named);
        let at = at.as_ref().map(|at| in_package(package, at));
        self.overrides.push(GroupOverride {
            sign: String::new(),
            group: whole,
            package: at,
            names: Some(names.clone()),
        });
    }

    /// What is chosen for a group in place of what its list says: None for nothing, `Some(None)` for something that
    /// is not known.
    fn chosen(&self, group: &str, package: &str) -> Option<Option<Vec<String>>> {
        let of_group = dotted(group);
        let here = |c: &&GroupOverride| {
            let at = c.package.as_deref().unwrap_or(&of_group);
            c.group == group && (at == package || (c.package.is_none() && of_group == package))
        };
        let all = self.overrides.iter().filter(|c| !c.sign.starts_with('+'));
        let chosen = all.clone().find(here)?;
        Some(match chosen.sign.as_str() {
            "~" => Some(Vec::new()),
            _ => chosen.names.clone(),
        })
    }
}

/// The Python file that a call runs, and what it says of its configuration.
fn program(call: &Call, shelf: &mut ConfigFiles<'_>) -> (Option<String>, Option<EntryPoint>) {
    let folder = call.folder.as_deref();
    let paths: Vec<String> = match (&call.target, folder) {
        (CallTarget::Script(_), _) => call.program.iter().cloned().collect(),
        (CallTarget::Module(name), Some(folder)) => {
            let path = name.replace('.', "/");
            let of = |place: &str| joined(folder, &format!("{place}{path}.py"));
            let package = joined(folder, &format!("{path}/__main__.py"));
            vec![of("./"), of("src/"), package]
        }
        _ => Vec::new(),
    };
    let python = paths.into_iter().filter(|path| path.ends_with(".py"));
    for path in python {
        let Some(text) = shelf.files.get(&path) else {
            shelf.reading.sought.insert(path);
            continue;
        };
        let entry = entry_point(text);
        if entry.is_some() {
            shelf.reading.add_source(&path, text);
            return (Some(path), entry);
        }
    }
    (None, None)
}

fn choices(file: &SettingsFile) -> Vec<DefaultsEntry> {
    let items = yaml::list(&file.content.text(), &["defaults"]);
    let items = items.iter().flatten();
    items.filter_map(DefaultsEntry::of).collect()
}

/// Whether a word takes a key away that the configuration gives, or gives all that stands around it.
pub(crate) fn replaces(word: &str, name: &str) -> bool {
    let Some(read) = hydra::read(word) else {
        return false;
    };
    let around = |key: &str| {
        name.strip_prefix(key)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    match read.sign {
        "~" => read.key == name || around(read.key),
        _ => read.form != hydra::Form::Bare && around(read.key),
    }
}
