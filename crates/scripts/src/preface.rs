//! Lines that a copy of a script gets before its first command.
//!
//! They are put there last, so that a change of the first command itself stays behind them.

use std::ops::Range;

use super::change::TextEdit;
use super::traced::Span;
use super::walk::{Reading, SCRIPT, SELF};

/// Shells, which understand the lines that are put into a script.
pub(super) const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// Whether a script is one of a shell, by its first line.
pub fn is_shell(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let Some(words) = first.strip_prefix("#!") else {
        return true;
    };
    let mut words = words.split_whitespace();
    let base = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let program = words.next().map(base).unwrap_or_default();
    let program = match program.as_str() {
        "env" => words.find(|w| !w.starts_with('-')).map(base),
        _ => Some(program),
    };
    program.is_some_and(|p| SHELLS.contains(&p.as_str()))
}

/// Whether a shell script of the job holds one of these words.
pub(super) fn shell_holds(reading: &Reading, words: &[&str]) -> bool {
    let scripts = reading.sources.iter().skip(SCRIPT);
    let mut texts = scripts.map(|s| &s.text).filter(|text| is_shell(text));
    texts.any(|text| words.iter().any(|word| text.contains(word)))
}

/// Where the first line begins that is neither blank nor a comment.
fn first_command(text: &str) -> usize {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if !trimmed.is_empty() && !trimmed.starts_with('#') {
            return at;
        }
        at += line.len();
    }
    at
}

/// Where a line of ours goes: in place of an empty line between the directives and the first command, so that the lines
/// which the shell names in its messages are those of the original. Where there is none, just before the command.
fn place_of_head(text: &str) -> Range<usize> {
    let command = first_command(text);
    let (mut at, mut place) = (0, command..command);
    for line in text[..command].split_inclusive('\n') {
        let end = at + line.len();
        if line == "\n" {
            place = at..end;
        } else if line.starts_with('#') && !line.starts_with("# ") {
            // A directive (`#SBATCH`, `#flux:`) behind a command would be none.
            place = command..command;
        }
        at = end;
    }
    place
}

/// The text of a copy with a line of ours, and with the name of its original where it asks for that.
pub(super) fn prefaced(text: &str, head: Option<&str>, original: Option<String>) -> String {
    let named = original.map(|path| {
        let path = path.replace('\'', "'\\''");
        format!("{SELF}='{path}' # oomctl: for the name of this script, of which this is a copy")
    });
    let lines = head.map(str::to_owned).into_iter().chain(named);
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    if lines.is_empty() {
        return text.to_owned();
    }
    let place = place_of_head(text);
    let (before, after) = (&text[..place.start], &text[place.end..]);
    let end = match before.ends_with('\n') || before.is_empty() {
        true => "",
        false => "\n",
    };
    format!("{before}{end}{lines}{after}")
}

/// A variable for all that the submitted script starts; None where no shell runs it.
pub(super) fn exported(reading: &Reading, assignment: &str) -> Option<TextEdit> {
    let script = reading.sources.get(SCRIPT).filter(|s| is_shell(&s.text))?;
    let at = first_command(&script.text);
    let span = Span::empty(SCRIPT, at);
    let line = script.text[..at].ends_with('\n');
    line.then(|| TextEdit {
        span,
        text: format!("export {assignment}\n"),
    })
}
