//! What differs between two submissions of the same scripts: the user's own lines only.

use std::collections::BTreeMap;

use oomctl_scripts::Submission;

/// Lines around a change.
const CONTEXT: usize = 3;

/// A diff from one submission to the next: options, arguments and variables one a line, then the files.
pub fn since(
    (before, files_before): &(Submission, BTreeMap<String, String>),
    (after, files_after): &(Submission, BTreeMap<String, String>),
) -> String {
    let words = |s: &Submission| {
        let words = s.options.iter().chain([&s.script]).chain(&s.args);
        words.map(|w| format!("{w}\n")).collect::<String>()
    };
    let variables = |s: &Submission| {
        let variables = s.variables.iter();
        variables
            .map(|(n, v)| format!("{n}={v}\n"))
            .collect::<String>()
    };
    let mut all = diff("command line", &words(before), &words(after), CONTEXT);
    // The other variables are nobody's business.
    all += &diff("environment", &variables(before), &variables(after), 0);
    for (path, text) in files_after {
        let old = files_before.get(path).map_or("", String::as_str);
        all += &diff(path, old, text, CONTEXT);
    }
    all
}

fn diff(name: &str, before: &str, after: &str, context: usize) -> String {
    if before == after {
        return String::new();
    }
    let diff = similar::TextDiff::from_lines(before, after);
    let mut diff = diff.unified_diff();
    let (from, to) = (format!("a/{name}"), format!("b/{name}"));
    diff.context_radius(context).header(&from, &to).to_string()
}
