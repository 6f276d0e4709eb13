//! Containers that launchers start, and what they mount.

use std::rc::Rc;

use super::Walker;
use super::call::Arg;
use super::doc::Doc;
use super::scope::VariableValue;
use crate::containers::{Container, ContainerOptions, Mount};
use crate::traced::{PartOrigin, Traced};

/// Mounts of one container.
const MAX_MOUNTS: usize = 64;

/// The keys of a mount that is written in full, for what it shows and where.
const FROM: [&str; 2] = ["source", "src"];
const TO: [&str; 3] = ["target", "destination", "dst"];

impl Walker<'_> {
    /// Goes into the container that a launcher starts with these options, if it starts one.
    pub(super) fn enter(&mut self, options: &ContainerOptions, words: &[Arg], doc: &Doc) {
        let has = |all: &[String]| words.iter().any(|word| is_one(&word.text.text(), all));
        if !options.needs.is_empty() && !has(&options.needs) {
            return;
        }
        let mut container = Container {
            sees_host: options.sees_host != has(&options.unless),
            ..Container::default()
        };
        let variables = options.variables.iter();
        let variables = variables.filter(|name| self.scope.exported.contains(*name));
        let variables = variables.filter_map(|name| match self.scope.variables.get(name)? {
            VariableValue::Text(text) => Some(text.clone()),
            VariableValue::List(_) => None,
        });
        let mut mounts: Vec<Traced> = variables.collect();
        mounts.extend(values(words, &options.mounts));
        for mount in mounts.iter().flat_map(listed) {
            match self.mount(&mount, doc) {
                Some(mount) if container.mounts.len() < MAX_MOUNTS => container.mounts.push(mount),
                _ => container.unclear = true,
            }
        }
        if let Some(folder) = values(words, &options.folder).pop() {
            self.scope.folder = self.begins_in(&folder, &container, doc);
        }
        self.scope.container = Some(Rc::new(container));
    }

    /// The folder in which a program in a container begins, as it is called outside.
    fn begins_in(&self, folder: &Traced, container: &Container, doc: &Doc) -> Option<String> {
        let path = self.resolved(folder, doc)?;
        match folder.text().starts_with('/') {
            true => container.outside(&path),
            false => Some(path),
        }
    }

    fn mount(&self, parts: &[Traced], doc: &Doc) -> Option<Mount> {
        let (from, to) = (parts.first()?, parts.get(1));
        let source = self.resolved(from, doc)?;
        let to = match to.map(Traced::known) {
            None => None,
            Some(Some(path)) if path.starts_with('/') => Some(path),
            // `$PWD:$PWD`
            _ if to.and_then(|to| self.resolved(to, doc)).as_ref() == Some(&source) => None,
            _ => return None,
        };
        Some(Mount { from: source, to })
    }
}

/// The variables that a container is started with, and what each is set to.
pub(super) fn variables_set(options: &ContainerOptions, words: &[Arg]) -> Vec<(String, Traced)> {
    let lists = values(words, &options.sets);
    let all = lists.iter().flat_map(|list| split(list, ','));
    let pairs = all.filter_map(|pair| {
        let text = pair.text();
        let (name, _) = text.split_once('=')?;
        Some((name.to_owned(), pair.slice(name.len() + 1, text.len())))
    });
    pairs.collect()
}

/// The mounts of a list, each as what it shows and where.
fn listed(text: &Traced) -> Vec<Vec<Traced>> {
    let parts = split(text, ',');
    let value = |part: &Traced, keys: &[&str]| {
        let text = part.text();
        let (key, value) = text.split_once('=')?;
        keys.contains(&key)
            .then(|| part.slice(text.len() - value.len(), text.len()))
    };
    if text.text().starts_with("type=") {
        let found = [&FROM[..], &TO[..]].map(|keys| parts.iter().find_map(|p| value(p, keys)));
        return vec![found.into_iter().flatten().collect()];
    }
    parts.iter().map(|part| split(part, ':')).collect()
}

/// A text between separators that stand in no code.
fn split(text: &Traced, separator: char) -> Vec<Traced> {
    let (mut at, mut start) = (0, 0);
    let mut all = Vec::new();
    for part in text.parts() {
        if matches!(part.from, PartOrigin::Literal { .. }) {
            for (found, _) in part.text.match_indices(separator) {
                all.push(text.slice(start, at + found));
                start = at + found + 1;
            }
        }
        at += part.text.len();
    }
    all.push(text.slice(start, at));
    all
}

/// Whether a word is one of these options, with its value or without.
fn is_one(word: &str, options: &[String]) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    options.iter().any(|option| option == name)
}

/// The values of options, behind `=`, behind a short option, or in the next word.
pub(super) fn values(words: &[Arg], options: &[String]) -> Vec<Traced> {
    let mut all = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let text = word.text.text();
        let value = options.iter().find_map(|option| {
            let rest = text.strip_prefix(option.as_str())?;
            let skip = match rest.strip_prefix('=') {
                Some(value) => text.len() - value.len(),
                None if rest.is_empty() => return words.get(at + 1).map(|next| next.text.clone()),
                None if !option.starts_with("--") => option.len(),
                None => return None,
            };
            Some(word.text.slice(skip, text.len()))
        });
        all.extend(value);
    }
    all
}
