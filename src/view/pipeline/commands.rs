//! Workflow commands: lines of a step's output that GitHub Actions obeys. Ours annotate; nothing else that we print
//! may be one, whatever a log says.
//!
//! Source: github.com/actions/runner, `ActionCommand.cs`: a command is `::name property=value,…::data` after any
//! white space at the start of a line, or `##[name property=value;…]data` anywhere in it.

use std::borrow::Cow;

use super::PipelineRun;
use crate::core::exit::Exit;

/// Annotations of one level that a step may make.
///
/// Source: docs.github.com, "Workflow commands for GitHub Actions", limits of annotations.
const MOST_OF_A_LEVEL: usize = 10;
/// Characters of evidence in an annotation.
const MESSAGE_MAX: usize = 2_000;

/// Does GitHub obey what is printed here?
pub fn are_obeyed() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// The annotations of some runs, one a line: why a run failed, and the evidence of each attempt at its line. An attempt
/// that failed in a run that did not is a warning.
pub fn annotations(runs: &[PipelineRun]) -> Vec<String> {
    let ends = runs.iter().filter_map(end);
    let mut errors: Vec<String> = ends.take(MOST_OF_A_LEVEL).collect();
    let mut warnings = Vec::new();
    for told in runs {
        let findings: Vec<_> = told.findings().collect();
        // Of many attempts the last say most.
        for finding in findings.iter().rev() {
            let (level, list) = match finding.healed {
                true => ("warning", &mut warnings),
                false => ("error", &mut errors),
            };
            if list.len() == MOST_OF_A_LEVEL {
                break;
            }
            let title = format!("{} attempt {}", finding.run, finding.attempt.attempt);
            let mut lines = vec![finding.headline(), finding.then()];
            lines.extend(finding.evidence());
            lines.retain(|line| !line.is_empty());
            list.push(command(level, finding.place, &title, &lines.join("\n")));
        }
    }
    errors.extend(warnings);
    errors
}

/// Why a run failed.
fn end(told: &PipelineRun) -> Option<String> {
    let view = &told.view;
    view.exit_code.filter(|exit| *exit != Exit::Success)?;
    let title = format!("{} {}", view.run, view.state);
    let lines = [view.reason.as_deref(), view.hint.as_deref()];
    let lines: Vec<&str> = lines.into_iter().flatten().collect();
    let message = match lines.as_slice() {
        [] => view.state.clone(),
        lines => lines.join("\n"),
    };
    Some(command("error", None, &title, &message))
}

fn command(level: &str, place: Option<(&str, u64)>, title: &str, message: &str) -> String {
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    let place = place.map(|(file, line)| format!("file={},line={line},", property(file)));
    format!(
        "::{level} {}title={}::{}",
        place.unwrap_or_default(),
        property(title),
        data(&message)
    )
}

/// Text as the data of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Text as the value of a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Text in which no line is a workflow command. Of colours, which are taken out later where they are not wanted, none
/// is left: what stands behind them would come to the start of the line.
pub fn defused(text: &str) -> Cow<'_, str> {
    if !text.contains("::") && !text.contains("##[") && !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let plain = anstream::adapter::strip_str(text).to_string();
    let mut safe = String::with_capacity(plain.len() + 8);
    for line in plain.split_inclusive('\n') {
        let start = line.len() - line.trim_start().len();
        let (before, rest) = line.split_at(start);
        safe.push_str(before);
        match rest.strip_prefix("::") {
            Some(rest) => {
                safe.push_str(": :");
                safe.push_str(&rest.replace("##[", "## ["));
            }
            None => safe.push_str(&rest.replace("##[", "## [")),
        }
    }
    Cow::Owned(safe)
}

/// The same for JSON, whose meaning stays: a command could only stand in a string.
pub fn defused_json(text: &str) -> String {
    text.replace("##[", "\\u0023#[")
}
