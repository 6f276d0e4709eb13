//! A patched submission as files of a folder: copies that call each other, run where the originals would be.

use std::collections::{BTreeMap, BTreeSet};

use super::adopt::Adoption;
use super::change::{PatchError, TextEdit};
use super::containers::absolute;
use super::moved_program::{import_copy, original, original_module};
use super::patched::{Patch, applied};
use super::preface::prefaced;
use super::python::tokens;
use super::selves::own_names;
use super::traced::{PartOrigin, Quote, Span, Traced};
use super::walk::{COMMAND_LINE, FileRole, NamedFile, SCRIPT, SELF, Submission};

/// Where copies lie, and what they must know of the place.
#[derive(Debug, Clone, Copy)]
pub struct CopyPlace<'a> {
    /// The folder of the copies, absolute.
    pub folder: &'a str,
    /// The folder in which the job runs, absolute.
    pub workdir: &'a str,
    /// Names in the folder that are taken.
    pub taken: &'a [&'a str],
    /// The line that the submitted script gets before its first command.
    pub head: Option<&'a str>,
    /// The scheduler runs the submitted script where it lies, not a copy of its own.
    pub runs_in_place: bool,
}

/// A submission as files of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Options and arguments. The script is a name in the folder.
    pub submission: Submission,
    /// The path of each original, the name of its copy, and the text; the submitted script first.
    pub files: Vec<FileCopy>,
}

/// A file and its copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCopy {
    /// Path of the original, as the scripts name it.
    pub original: String,
    /// Its text.
    pub before: String,
    /// Name of the copy.
    pub name: String,
    /// Text of the copy.
    pub text: String,
}

/// The first line of a copy whose original names no interpreter: sbatch takes none without, and people start it with bash.
pub const INTERPRETER: &str = "#!/bin/bash\n";

impl Adoption<'_> {
    /// The submission without a change of any value.
    pub fn unchanged(&self) -> Patch {
        Patch {
            before: self.reading.sources.clone(),
            after: self.reading.sources.clone(),
            edits: BTreeSet::new(),
            made: BTreeMap::new(),
            options: BTreeMap::new(),
        }
    }

    /// A patch as files of a folder: the submitted script, every file that the patch changes, and every script that
    /// calls one of these.
    ///
    /// # Errors
    /// A file is called in a way that cannot be turned to its copy.
    pub fn placed(&self, patch: &Patch, place: &CopyPlace<'_>) -> Result<Placed, Vec<PatchError>> {
        let by_hand = |why: String| vec![PatchError::new("", why)];
        if self.reading.sources.len() <= SCRIPT {
            return Err(by_hand("the script is unknown".to_owned()));
        }
        let (changed, turns) = self.turned(patch, place).map_err(by_hand)?;
        let mut edits = patch.edits.clone();
        edits.extend(turns);
        let names = self.names(&changed, place);
        let mut named = BTreeSet::new();
        for number in &changed {
            edits.extend(self.original_of(*number, place));
            let kept = self.kept_names(*number, place).map_err(by_hand)?;
            if !kept.is_empty() {
                named.insert(*number);
            }
            edits.extend(kept);
        }
        let both = || by_hand("two changes meet at one place".to_owned());
        let after = applied(&self.reading.sources, &edits).ok_or_else(both)?;
        let (mut submission, files) = self.resubmitted(patch);
        let copy = |number: &usize| FileCopy {
            original: after[*number].path.clone(),
            before: self.reading.sources[*number].text.clone(),
            name: names[number].clone(),
            text: interpreted(
                *number,
                prefaced(
                    &after[*number].text,
                    place.head.filter(|_| *number == SCRIPT),
                    named
                        .contains(number)
                        .then(|| self.original_path(*number, place.workdir)),
                ),
            ),
        };
        let copies: Vec<FileCopy> = changed.iter().map(copy).collect();
        if patch.edits.iter().any(|e| e.span.file >= SCRIPT) {
            self.same_again(&copies, &submission, &files, place)
                .map_err(by_hand)?;
        }
        if let Some(entry) = copies.first() {
            submission.script.clone_from(&entry.name);
        }
        Ok(Placed {
            submission,
            files: copies,
        })
    }

    /// The files that are copied, and the edits by which they call each other's copies.
    fn turned(
        &self,
        patch: &Patch,
        place: &CopyPlace<'_>,
    ) -> Result<(BTreeSet<usize>, Vec<TextEdit>), String> {
        let reading = &self.reading;
        let mut changed: BTreeSet<usize> = patch.edits.iter().map(|e| e.span.file).collect();
        changed.retain(|number| *number >= SCRIPT);
        changed.insert(SCRIPT);
        let unclear =
            |path: &str| format!("the reference to {path} is unclear, so oomctl cannot use a copy");
        let mut words = Vec::new();
        // Each turn takes in at least one more file.
        loop {
            let before = changed.len();
            words.clear();
            let named = reading.named.iter();
            for named in named.filter(|n| n.file != SCRIPT && changed.contains(&n.file)) {
                let path = &reading.sources[named.file].path;
                let word = whole(&named.word).ok_or_else(|| unclear(path))?;
                words.push((named, word));
            }
            let callers = words.iter().map(|(_, (span, _))| span.file);
            changed.extend(callers.filter(|file| *file >= SCRIPT));
            if changed.len() == before {
                break;
            }
        }
        let names = self.names(&changed, place);
        let turn = |(named, (span, quote)): (&NamedFile, (Span, Quote))| {
            let copy = format!("{}/{}", place.folder, names[&named.file]);
            let path = &reading.sources[named.file].path;
            let unseen = |why| format!("{why}, so oomctl cannot use a copy of {path}");
            let copy = named.seen(copy, place.workdir).map_err(unseen)?;
            match &named.role {
                FileRole::Module(name) => Ok(TextEdit {
                    text: import_copy(name, &copy),
                    span,
                }),
                _ => self.turn(span, quote, &copy),
            }
        };
        let turns = words.into_iter().map(turn).collect::<Result<_, _>>()?;
        Ok((changed, turns))
    }

    /// The edit that names a copy at a place.
    fn turn(&self, span: Span, quote: Quote, path: &str) -> Result<TextEdit, String> {
        let source = &self.reading.sources[span.file];
        let old = source.text.get(span.start..span.end).unwrap_or_default();
        let old = old.lines().next().unwrap_or_default();
        let unclear = || {
            format!(
                "the reference to {old} in {} is unclear, so oomctl cannot use a copy",
                source.path
            )
        };
        if span.file < SCRIPT && quote != Quote::Raw {
            return Err(unclear());
        }
        // Where the word opens or closes quotes inside, the quotes around it are taken along.
        let (mut start, mut end) = (span.start, span.end);
        let bytes = source.text.as_bytes();
        let mut outside = false;
        for mark in [b'"', b'\''] {
            let odd = old.bytes().filter(|b| *b == mark).count() % 2 == 1;
            if !odd {
                continue;
            }
            outside = true;
            match (start.checked_sub(1).map(|at| bytes[at]), bytes.get(end)) {
                (Some(before), _) if before == mark => start -= 1,
                (_, Some(after)) if *after == mark => end += 1,
                _ => return Err(unclear()),
            }
        }
        let quote = if outside { Quote::Bare } else { quote };
        let text = match quote {
            _ if path
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_./:@%+,-".contains(c)) =>
            {
                path.to_owned()
            }
            Quote::Raw if span.file < SCRIPT => path.to_owned(),
            Quote::Bare if !path.contains('\'') => format!("'{path}'"),
            Quote::Single if !path.contains('\'') => path.to_owned(),
            Quote::Double if !path.contains(['"', '$', '`', '\\']) => path.to_owned(),
            _ => {
                return Err(format!(
                    "the folder {path} has quotes in its name, which {} cannot hold; use another folder",
                    source.path
                ));
            }
        };
        Ok(TextEdit {
            span: Span { start, end, ..span },
            text,
        })
    }

    /// The names of the copies: the originals', with a number where one is taken.
    fn names(&self, changed: &BTreeSet<usize>, place: &CopyPlace<'_>) -> BTreeMap<usize, String> {
        let mut taken: BTreeSet<String> = place.taken.iter().map(|t| (*t).to_owned()).collect();
        let mut names = BTreeMap::new();
        for number in changed {
            let path = &self.reading.sources[*number].path;
            let base = path.rsplit('/').next().unwrap_or(path);
            let mut name = base.to_owned();
            let mut next = 2_u32;
            while !taken.insert(name.clone()) {
                name = format!("{next}-{base}");
                next += 1;
            }
            names.insert(*number, name);
        }
        names
    }

    /// The path of an original as the commands in its copy see it.
    fn original_path(&self, number: usize, workdir: &str) -> String {
        let path = absolute(&self.reading.sources[number].path, workdir);
        let named = self.reading.named.iter().find(|n| n.file == number);
        let seen = named.and_then(|named| named.seen(path.clone(), workdir).ok());
        seen.unwrap_or(path)
    }

    /// The edit that lets a copy of a Python program or module run as its original.
    fn original_of(&self, number: usize, place: &CopyPlace<'_>) -> Option<TextEdit> {
        let mut named = self.reading.named.iter().filter(|n| n.file == number);
        let source = &self.reading.sources[number];
        let path = |named: &NamedFile| {
            let path = absolute(&source.path, place.workdir);
            named.seen(path.clone(), place.workdir).unwrap_or(path)
        };
        let tokens = tokens(&source.text);
        let (at, text) = named.find_map(|named| match named.role {
            FileRole::Program => Some(original(&tokens, &path(named))),
            FileRole::Module(_) => original_module(&tokens, &path(named)),
            _ => None,
        })?;
        let span = Span::empty(number, at);
        Some(TextEdit { span, text })
    }

    /// The edits that let a copy know its original's name where it asks for its own.
    fn kept_names(&self, number: usize, place: &CopyPlace<'_>) -> Result<Vec<TextEdit>, String> {
        let source = &self.reading.sources[number];
        let roles = self.reading.named.iter().filter(|n| n.file == number);
        let roles: Vec<FileRole> = roles.map(|n| n.role.clone()).collect();
        let entry = number == SCRIPT;
        let is_shell = |role: &FileRole| matches!(role, FileRole::Run | FileRole::Sourced);
        if !entry && !roles.iter().any(is_shell) || (entry && !place.runs_in_place) {
            return Ok(Vec::new());
        }
        // In a file that is taken over `$0` is the name of the script that takes it over.
        let runs = entry || roles.contains(&FileRole::Run);
        let asks = source.text.contains("$0")
            || source.text.contains("${0")
            || source.text.contains("BASH_SOURCE");
        let own = match own_names(&source.text) {
            Some(own) => own,
            None if asks => {
                return Err(format!(
                    "{} asks for its own name ($0), and `<<` hides where",
                    source.path
                ));
            }
            None => Vec::new(),
        };
        let edits = own
            .into_iter()
            .filter(|own| runs || !own.is_zero)
            .map(|own| TextEdit {
                span: Span::new(number, own.start..own.end),
                text: match own.braced {
                    true => SELF.to_owned(),
                    false => format!("${{{SELF}}}"),
                },
            });
        Ok(edits.collect())
    }
}

/// The text of a copy with an interpreter, where it is the submitted script.
fn interpreted(number: usize, text: String) -> String {
    match number == SCRIPT && !text.starts_with("#!") {
        true => format!("{INTERPRETER}{text}"),
        false => text,
    }
}

/// The bytes of a script that a word stands for, at the outermost place that stands for nothing else, and their quotes.
fn whole(word: &Traced) -> Option<(Span, Quote)> {
    let text = word.text();
    let mut all: Option<(Span, Quote)> = None;
    for part in word.parts() {
        let used = part.via.iter().find(|used| text.contains(&*used.whole));
        let (span, quote) = match (used, &part.from) {
            (Some(used), _) => (used.span, used.quote),
            (None, PartOrigin::Literal { span, quote, .. }) => (*span, *quote),
            // Code has no quotes of its own; those of its neighbours count.
            (None, PartOrigin::Computed { span, .. }) => (*span, Quote::Bare),
        };
        let computed = matches!(part.from, PartOrigin::Computed { .. }) && used.is_none();
        all = Some(match all {
            None => (span, quote),
            Some((before, _)) if before.file != span.file || span.end < before.end => return None,
            Some((before, first)) if computed => (before.through(span), first),
            Some((before, _)) => (before.through(span), quote),
        });
    }
    all.filter(|(span, _)| span.file != COMMAND_LINE || word.stretch().is_some())
}

mod again;
#[cfg(test)]
mod tests;
