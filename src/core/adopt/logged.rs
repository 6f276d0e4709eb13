//! Of which framework a log is: by the frames of its tracebacks, and by the commands and keys that it shows.
//!
//! Rule: frameworks call each other, so of a traceback the outermost one counts. Where several presets are as likely,
//! all of them are named.

use std::collections::{BTreeMap, BTreeSet};

use regex::bytes::Regex;

use crate::core::recipe::PresetFile;

/// Bytes at the beginning of a log in which commands and keys are looked for.
const HEAD: usize = 4 << 20;
/// What a frame of a framework's package says for it; more than all words together.
const FRAME: usize = 20_000;
/// What a frame of a package says that other frameworks build on.
const LIBRARY: usize = 200;
/// What a module or a program in a command says.
const PROGRAM: usize = 1_000;
/// What the name of a script says beside other signs, and a value that only this preset has.
const SCRIPT: usize = 500;
/// What a key says.
const KEY: usize = 100;
/// Less than this is no sign.
const LEAST: usize = 200;

/// What was seen of frameworks in a log.
#[derive(Debug)]
pub struct Logged<'p> {
    presets: &'p [PresetFile],
    frames: Option<Regex>,
    words: Option<Regex>,
    /// Bytes that were looked at.
    seen: usize,
    /// Packages of the frames since the last head of a traceback.
    open: Vec<String>,
    /// In how many tracebacks a package was the outermost.
    outermost: BTreeMap<String, usize>,
    told: BTreeSet<String>,
    /// Files of packages that tell presets apart.
    files: BTreeSet<&'p str>,
    /// Values of keys that tell presets apart.
    values: BTreeMap<String, String>,
}

/// The presets of which a log most probably is.
#[derive(Debug)]
pub struct Likely<'p> {
    /// As likely as each other, in the order of the presets.
    pub presets: Vec<&'p PresetFile>,
    /// By what: packages of frames, or else words.
    pub by: Vec<String>,
}

impl<'p> Logged<'p> {
    /// Nothing was seen yet.
    pub fn new(presets: &'p [PresetFile]) -> Self {
        let packages: Vec<&str> = presets.iter().flat_map(packages).collect();
        let words: BTreeSet<&str> = presets.iter().flat_map(words).collect();
        let any = |all: &mut dyn Iterator<Item = &str>| {
            // A pattern that matches nothing at all would be found everywhere.
            let all = all.filter(|text| !text.is_empty());
            let mut all: Vec<String> = all.map(regex::escape).collect();
            // Of two that begin alike the longer one is meant.
            all.sort_by_key(|text| std::cmp::Reverse(text.len()));
            (!all.is_empty()).then(|| all.join("|"))
        };
        let frames = any(&mut packages.into_iter()).map(|all| {
            format!(
                r#"Traceback \(most|(?:File "?|│ ?)[^"\n│ ]*[/\\](?P<package>{all})[/\\][^"\n:│ ]*"#
            )
        });
        let words = any(&mut words.into_iter())
            .map(|all| format!(r#"(?m-u)(?:^|[\s'"/])(?P<word>{all})(?:[\s'"/=:.]([\w.-]*)|$)"#));
        let compiled = |text: Option<String>| Regex::new(&text?).ok();
        Self {
            presets,
            frames: compiled(frames),
            words: compiled(words),
            seen: 0,
            open: Vec::new(),
            outermost: BTreeMap::new(),
            told: BTreeSet::new(),
            files: BTreeSet::new(),
            values: BTreeMap::new(),
        }
    }

    /// Takes whole lines.
    pub fn take(&mut self, lines: &[u8]) {
        let head = HEAD.saturating_sub(self.seen).min(lines.len());
        self.seen = self.seen.saturating_add(lines.len());
        self.take_words(&lines[..head]);
        let Some(frames) = self.frames.take() else {
            return;
        };
        for found in frames.captures_iter(lines) {
            match found.name("package") {
                Some(package) => {
                    self.open.push(text(package.as_bytes()));
                    self.take_file(&lines[package.end()..found.get(0).map_or(0, |m| m.end())]);
                }
                None => self.close(),
            }
        }
        self.frames = Some(frames);
    }

    /// A path as from its package.
    fn take_file(&mut self, path: &[u8]) {
        let presets = self.presets;
        let all = presets.iter().flat_map(|p| &p.recognise.frames);
        let there = |file: &&String| memchr::memmem::find(path, file.as_bytes()).is_some();
        self.files.extend(all.filter(there).map(String::as_str));
    }

    fn take_words(&mut self, head: &[u8]) {
        let regex = self.words.take();
        let mut at = 0;
        while let Some(found) = regex.as_ref().and_then(|r| r.captures_at(head, at)) {
            let Some(word) = found.name("word") else {
                break;
            };
            // What ends one word may begin the next.
            at = word.end();
            let word = text(word.as_bytes());
            if let Some(value) = found.get(2).filter(|_| head.get(at) == Some(&b'=')) {
                self.values.insert(word.clone(), text(value.as_bytes()));
            }
            self.told.insert(word);
        }
        self.words = regex;
    }

    /// A traceback is over: the outermost package of it counts, one that others build on only where it is alone.
    fn close(&mut self) {
        let of_library = |name: &String| {
            let mut of = self.presets.iter().filter_map(|p| p.framework.as_ref());
            of.any(|f| f.library && f.packages.contains(name))
        };
        let first = self.open.iter().find(|name| !of_library(name));
        if let Some(package) = first.or(self.open.first()) {
            *self.outermost.entry(package.clone()).or_default() += 1;
        }
        self.open.clear();
    }

    /// The presets of which it most probably is; None where nothing tells.
    pub fn likely(mut self) -> Option<Likely<'p>> {
        self.close();
        let scores = self.presets.iter().map(|p| self.score(p));
        let scores: Vec<usize> = scores.collect();
        let most = scores.iter().copied().max().filter(|most| *most >= LEAST)?;
        let best = self.presets.iter().zip(&scores);
        let presets: Vec<&PresetFile> = best.filter(|(_, s)| **s == most).map(|(p, _)| p).collect();
        let mut by: BTreeSet<String> = BTreeSet::new();
        for preset in &presets {
            let framed = packages(preset).filter(|p| self.outermost.contains_key(*p));
            by.extend(framed.map(|package| format!("{package}/")));
            let told = words(preset).filter(|w| self.told.contains(*w));
            by.extend(told.map(str::to_owned));
        }
        Some(Likely {
            presets,
            by: by.into_iter().collect(),
        })
    }

    fn score(&self, preset: &PresetFile) -> usize {
        let r = &preset.recognise;
        let count = |names: &[String]| {
            names
                .iter()
                .filter(|n| self.told.contains(plain(n)))
                .count()
        };
        let library = preset.framework.as_ref().is_some_and(|f| f.library);
        let weight = if library { LIBRARY } else { FRAME };
        let frames: usize = packages(preset).filter_map(|p| self.outermost.get(p)).sum();
        let framed = match frames {
            0 => 0,
            // Of two frameworks the one with more tracebacks.
            some => weight + some.min(99),
        };
        let programs = PROGRAM * usize::from(count(&r.modules) + count(&r.programs) > 0);
        let files = r.frames.iter().filter(|f| self.files.contains(f.as_str()));
        let mut score = framed + programs + KEY * count(&r.keys) + SCRIPT * files.count();
        for (key, values) in &r.values {
            match self.values.get(key) {
                Some(value) if values.contains(value) => score += SCRIPT,
                Some(_) => return 0,
                None => {}
            }
        }
        score + SCRIPT * usize::from(score > 0 && count(&r.scripts) > 0)
    }
}

fn packages(preset: &PresetFile) -> impl Iterator<Item = &str> {
    let all = preset.framework.iter().flat_map(|f| &f.packages);
    all.map(String::as_str)
}

/// What a log can show of a program: its name, its script, its keys.
fn words(preset: &PresetFile) -> impl Iterator<Item = &str> {
    let of = &preset.recognise;
    // All modules below `recipe` are too many for a word of a log.
    let own = |name: &&str| name.contains('.') || packages(preset).any(|p| p == *name);
    let modules = of.modules.iter().map(plain).filter(own);
    let named = of.programs.iter().chain(&of.scripts).chain(&of.keys);
    modules.chain(named.chain(of.values.keys()).map(plain))
}

/// A name without the mark for all that begin so.
fn plain<S: AsRef<str> + ?Sized>(name: &S) -> &str {
    name.as_ref().trim_end_matches(['*', '.'])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_that_is_known_by_nothing_is_found_nowhere() {
        let preset = |more: &str| {
            let text = format!("preset: p\nsummary: s\nknobs: []\n{more}");
            serde_yaml::from_str::<PresetFile>(&text).unwrap()
        };
        let empty = "recognise: { keys: ['', '*'], programs: [''] }\n";
        for presets in [vec![], vec![preset("")], vec![preset(empty)]] {
            let mut logged = Logged::new(&presets);
            logged
                .take(b"Traceback (most recent call last):\n  File \"/a//b.py\", line 1, in f\n\n");
            assert!(logged.likely().is_none());
        }
    }

    #[test]
    fn one_key_is_no_sign_and_two_are() {
        let text = "preset: p\nsummary: s\nknobs: []\nrecognise: { keys: [--warp, --weft] }\n";
        let presets: Vec<PresetFile> = vec![serde_yaml::from_str(text).unwrap()];
        let likely = |log: &str| {
            let mut logged = Logged::new(&presets);
            logged.take(log.as_bytes());
            logged.likely().map(|l| l.by)
        };
        assert_eq!(likely("+ weave --warp 4 --colour red"), None);
        assert_eq!(likely("--warped --unweft --warp"), None);
        let both = vec!["--warp".to_owned(), "--weft".to_owned()];
        assert_eq!(likely("+ weave --warp --weft=3\n"), Some(both));
    }
}
