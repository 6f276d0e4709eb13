//! Files into which scripts send what their programs print: `> FILE`, `| ts > FILE`, `exec &> FILE`.
//!
//! Rule: what `tee FILE` hands on is in the log of the job too, and counts once.

use std::rc::Rc;

use super::call::{Arg, OutputFile};
use super::container::values;
use super::doc::Doc;
use super::{MAX_CALLS_DEEP, Walker};
use crate::launchers::Launcher;
use crate::shell::{Redirect, RedirectTarget, ScriptBlock, Word};
use crate::traced::{PartOrigin, Quote, Span, Traced};

/// Files that the output of one program goes to.
const MAX_OUTPUTS: usize = 8;
/// Commands behind a pipe that are looked at.
const MAX_BEHIND: usize = 8;
/// Variables of Slurm that differ from job to job, and what stands for each in a path.
pub(crate) const OF_JOB: [&str; 4] = [
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
];

/// What stands in a path for the job's own number.
pub const JOB: &str = "${SLURM_JOB_ID}";
/// The same for the number of its array.
pub const ARRAY: &str = "${SLURM_ARRAY_JOB_ID}";
/// The same for its index in the array.
pub const TASK: &str = "${SLURM_ARRAY_TASK_ID}";
/// The same for its name.
pub const JOB_NAME: &str = "${SLURM_JOB_NAME}";
/// What Slurm itself puts into the name of a file.
const PATTERNS: [(&str, &str); 4] = [("%j", JOB), ("%A", ARRAY), ("%a", TASK), ("%x", JOB_NAME)];

/// A path with Slurm's patterns replaced; `None` where one of them is not known here.
fn of_pattern(mut path: String) -> Option<String> {
    for (pattern, variable) in PATTERNS {
        path = path.replace(pattern, variable);
    }
    (!path.contains('%')).then_some(path)
}

impl Walker<'_> {
    /// The files that redirections name for what a command prints.
    pub(super) fn outputs_of(&mut self, redirects: &[Redirect], doc: &Rc<Doc>) -> Vec<OutputFile> {
        let mut files = Vec::new();
        for redirect in redirects {
            let RedirectTarget::File(word) = &redirect.target else {
                continue;
            };
            let prints = matches!(redirect.stream, None | Some(1 | 2));
            let (opens, appends) = match redirect.operator {
                ">" | ">|" | "&>" | ">&" => (prints, false),
                ">>" | "&>>" => (prints, true),
                _ => (false, false),
            };
            if !opens {
                continue;
            }
            let written = doc.text.get(word.start..word.end).unwrap_or_default();
            match written.strip_prefix(">(") {
                Some(inner) => {
                    let inner = inner.strip_suffix(')').unwrap_or(inner);
                    let start = word.start + 2;
                    let found = self.outputs_inside(start, start + inner.len(), doc);
                    files.extend(found);
                }
                None => {
                    let text = self.text_of(&word.pieces, doc);
                    files.extend(self.output(&text, appends, doc));
                }
            }
        }
        files.truncate(MAX_OUTPUTS.saturating_sub(self.outputs.len()));
        files
    }

    /// The files that the commands of `>(…)` write.
    fn outputs_inside(&mut self, start: usize, end: usize, doc: &Rc<Doc>) -> Vec<OutputFile> {
        let traced = doc.traced.slice(start, end);
        if self.depth >= MAX_CALLS_DEEP || !self.spend(traced.cost()) {
            return Vec::new();
        }
        let mut inner = doc.part(traced);
        let blocks = std::mem::take(&mut inner.script.blocks);
        self.depth += 1;
        let files = self.outputs_behind(&[blocks], &Rc::new(inner));
        self.depth -= 1;
        files
    }

    /// The files that the commands behind a pipe write.
    pub(super) fn outputs_behind(
        &mut self,
        parts: &[Vec<ScriptBlock>],
        doc: &Rc<Doc>,
    ) -> Vec<OutputFile> {
        let mut files = Vec::new();
        for block in parts.iter().flatten().take(MAX_BEHIND) {
            match block {
                ScriptBlock::Pipeline(parts) => files.extend(self.outputs_behind(parts, doc)),
                ScriptBlock::Command(command) => {
                    let tee = command.words.iter().position(|w| is_tee(w, doc));
                    if let Some(at) = tee.filter(|_| command.redirects.iter().any(hides)) {
                        files.extend(self.outputs_of_tee(&command.words[at + 1..], doc));
                    }
                    files.extend(self.outputs_of(&command.redirects, doc));
                }
                _ => {}
            }
        }
        files.truncate(MAX_OUTPUTS.saturating_sub(self.outputs.len()));
        files
    }

    fn outputs_of_tee(&mut self, words: &[Word], doc: &Rc<Doc>) -> Vec<OutputFile> {
        let args = self.expand_all(words, doc);
        let (options, named): (Vec<Arg>, Vec<Arg>) = args
            .into_iter()
            .partition(|arg| arg.text.text().starts_with('-'));
        let appends = options.iter().map(|arg| arg.text.text()).any(|option| {
            option == "--append" || !option.starts_with("--") && option.contains('a')
        });
        let files = named.iter();
        files
            .filter_map(|arg| self.output(&arg.text, appends, doc))
            .collect()
    }

    /// The files that options of a launcher name among its words: `srun --output=logs/%x-%j.log`. Of one for each task or node nobody
    /// knows which to read.
    pub(super) fn outputs_of_launcher(
        &self,
        launcher: &Launcher,
        words: &[Arg],
        doc: &Doc,
    ) -> Vec<OutputFile> {
        let named = values(words, &launcher.outputs).into_iter();
        let files = named.filter_map(|path| self.output(&path, false, doc));
        let known = |file: OutputFile| OutputFile {
            path: file.path.and_then(of_pattern),
            ..file
        };
        files.map(known).collect()
    }

    /// A file by its path; nothing for a number of a stream, or a device.
    fn output(&self, path: &Traced, appends: bool, doc: &Doc) -> Option<OutputFile> {
        let word = path.text();
        let is_stream = word.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        if is_stream || word.starts_with("/dev/") {
            return None;
        }
        Some(OutputFile {
            path: self.resolved(&of_job(path), doc),
            word,
            appends,
            place: written_at(path),
        })
    }
}

/// Where the last part of a path is written, or the variable that holds it is used.
fn written_at(path: &Traced) -> Option<Span> {
    let part = path.parts().last()?;
    let used = part.via.first().map(|used| used.span);
    Some(used.unwrap_or_else(|| part.from.span()))
}

/// Whether a redirection keeps what a command prints from where its output went before.
fn hides(redirect: &Redirect) -> bool {
    let of_output = matches!(redirect.stream, None | Some(1));
    of_output && matches!(redirect.operator, ">" | ">|" | ">>" | "&>" | "&>>")
}

/// Whether a word starts `tee`.
fn is_tee(word: &Word, doc: &Doc) -> bool {
    let name = word.plain(&doc.text).unwrap_or_default();
    name == "tee" || name.ends_with("/tee")
}

/// A path in which variables of Slurm that name the job stand for themselves.
fn of_job(path: &Traced) -> Traced {
    let mut all = Traced::default();
    let mut at = 0;
    for part in path.parts() {
        let piece = path.slice(at, at + part.text.len());
        at += part.text.len();
        let name = part
            .text
            .trim_start_matches(['$', '{'])
            .trim_end_matches('}');
        let named = OF_JOB.into_iter().find(|of_job| *of_job == name);
        match (&part.from, named) {
            (PartOrigin::Computed { span, .. }, Some(name)) => {
                let text = format!("${{{}}}", name.replace("JOBID", "JOB_ID"));
                all.push(&Traced::escape(*span, &text, Quote::Raw));
            }
            _ => all.push(&piece),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_slurm_are_what_they_stand_for() {
        let of = |path: &str| of_pattern(path.to_owned());
        let all = "l/${SLURM_JOB_NAME}-${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}";
        assert_eq!(of("l/%x-%A_%a").as_deref(), Some(all));
        assert_eq!(of("l/%j").as_deref(), Some("l/${SLURM_JOB_ID}"));
        assert_eq!((of("l/%t.log"), of("l/%N")), (None, None));
    }
}
