//! The only place that writes to the terminal: data to stdout, talk to stderr.

use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Context as _;
use serde::Serialize;

use super::fold::{columns_of, folded};
use super::pipeline::commands;
use super::style::{self, Paint};
use super::{CommandFailure, columns};
use crate::core::exit::Exit;

/// Does the terminal's locale show more than ASCII?
pub fn unicode() -> bool {
    let first = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty());
    first.is_some_and(|value| {
        let value = value.to_string_lossy().to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

/// Prints data. A reader that went away (`| head`) ends the program quietly.
pub fn data(text: &str) -> Result<(), CommandFailure> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    match piece(&format!("{text}{end}"))? {
        true => Ok(()),
        false => Err(CommandFailure::quiet(Exit::Success)),
    }
}

/// Prints a piece of a longer text. `false` when the reader went away.
pub fn piece(text: &str) -> Result<bool, CommandFailure> {
    let mut out = anstream::stdout().lock();
    match write!(out, "{}", stream_safe(text)).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(CommandFailure::refused(format!(
            "cannot write to standard output: {e}"
        ))),
    }
}

/// Prints a view as JSON, or else as the text for people.
pub fn show<V: Serialize>(
    as_json: bool,
    view: &V,
    text: impl FnOnce(&V) -> String,
) -> Result<(), CommandFailure> {
    match as_json {
        true => json(view),
        false => prose(&text(view)),
    }
}

/// Prints text for people, folded where standard output is a terminal. Elsewhere lines stay whole, for those who
/// search in them.
pub fn prose(text: &str) -> Result<(), CommandFailure> {
    match columns() {
        Some(columns) => data(&folded(text, columns)),
        None => data(text),
    }
}

/// Prints a document as JSON, indented.
pub fn json<T: Serialize>(document: &T) -> Result<(), CommandFailure> {
    let text = serde_json::to_string_pretty(document).context("cannot write JSON")?;
    DOCUMENT.store(true, Ordering::Relaxed);
    data(&commands::defused_json(&text))
}

/// Prints a document as JSON in one line.
pub fn json_line<T: Serialize>(document: &T) -> Result<(), CommandFailure> {
    let text = serde_json::to_string(document).context("cannot write JSON")?;
    DOCUMENT.store(true, Ordering::Relaxed);
    data(&commands::defused_json(&text))
}

/// Whether an error is to be printed as JSON too, and whether a document was printed already.
static ERRORS: AtomicBool = AtomicBool::new(false);
static DOCUMENT: AtomicBool = AtomicBool::new(false);

/// From now on an error is a document, unless the command has printed one.
pub fn errors_as_json() {
    ERRORS.store(true, Ordering::Relaxed);
}

/// Whether only results, warnings, errors and questions are printed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on nothing is printed that only tells what goes on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// How often something was said on standard error.
static SAID: AtomicU64 = AtomicU64::new(0);

/// How often something was said so far.
pub fn said() -> u64 {
    SAID.load(Ordering::Relaxed)
}

impl CommandFailure {
    /// Prints the failure and gives how the command ends.
    pub fn report(&self) -> Exit {
        self.lines().for_each(|line| say(&line));
        let open = ERRORS.load(Ordering::Relaxed) && !DOCUMENT.load(Ordering::Relaxed);
        if let Some(document) = self.document().filter(|_| open) {
            // Who cannot read it has the words above.
            drop(json(&document));
        }
        self.exit()
    }
}

/// Tells the person at the terminal what goes on, unless they asked for quiet.
pub fn talk(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        say(text);
    }
}

/// Says what belongs to an error, a warning or a question, folded at the terminal's width. Nobody listening is no error.
pub fn say(text: &str) {
    SAID.fetch_add(1, Ordering::Relaxed);
    let text = match columns_of(std::io::stderr()) {
        Some(columns) => folded(text, columns),
        None => text.into(),
    };
    drop(writeln!(
        anstream::stderr().lock(),
        "{}",
        stream_safe(&text)
    ));
}

/// Says what does not work, or may go wrong, and is no reason to stop.
pub fn warn(what: &str) {
    say(&format!("{} {what}", Paint(style::WARN, "warning:")));
}

/// Gives a workflow command to the CI system that reads standard error.
pub fn command(line: &str) {
    let one_line = line.replace('\n', " ");
    drop(writeln!(
        anstream::stderr().lock(),
        "{}",
        terminal_safe(&one_line)
    ));
}

/// Text that drives neither a terminal nor the CI system that reads our output.
fn stream_safe(text: &str) -> String {
    static OBEYED: LazyLock<bool> = LazyLock::new(commands::are_obeyed);
    let safe = terminal_safe(text);
    match *OBEYED {
        true => commands::defused(&safe).into_owned(),
        false => safe,
    }
}

/// Who sits at the terminal, as far as known.
pub fn somebody(otherwise: &str) -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    user.unwrap_or_else(|_| otherwise.to_owned())
}

/// Asks the person at the terminal: the answer comes behind the last line.
pub fn prompt(text: &str) {
    let text = match text.rsplit_once('\n') {
        Some((above, last)) => {
            say(above);
            last
        }
        None => text,
    };
    let mut err = anstream::stderr().lock();
    drop(write!(err, "{}", terminal_safe(text)).and_then(|()| err.flush()));
}

/// Text without what could drive a terminal: of all control characters only line ends, tabs and
/// colours pass. Logs, schedulers and configuration files are data, whoever wrote them.
pub fn terminal_safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let colour = colour_length(rest);
        if colour > 0 {
            safe.push_str(&rest[..colour]);
            rest = &rest[colour..];
            continue;
        }
        if !c.is_control() || matches!(c, '\n' | '\t') {
            safe.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    safe
}

/// Length of the colour escape (`ESC [ … m`) that `text` starts with, 0 where there is none.
fn colour_length(text: &str) -> usize {
    let Some(body) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let end = body.find(|c: char| !(c.is_ascii_digit() || c == ';'));
    match end {
        Some(end) if body[end..].starts_with('m') => 2 + end + 1,
        _ => 0,
    }
}

/// Prints clap's help or error, with its exit code.
pub fn usage(error: &clap::Error) -> Exit {
    drop(error.print());
    match error.exit_code() {
        0 => Exit::Success,
        _ => Exit::Usage,
    }
}

#[cfg(test)]
mod tests {
    use super::terminal_safe;

    #[test]
    fn only_colours_line_ends_and_tabs_pass() {
        assert_eq!(
            terminal_safe("a\u{1b}[1;31mb\u{1b}[0m\n\tc"),
            "a\u{1b}[1;31mb\u{1b}[0m\n\tc"
        );
        assert_eq!(
            terminal_safe("\u{1b}]0;title\u{7}x\r\u{9b}2J\u{1b}[2Jy"),
            "]0;titlex2J[2Jy"
        );
    }
}
