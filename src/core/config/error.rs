//! What is wrong with a configuration file.

use oomctl_base::{nearest, table, word_list};

/// A fault of a configuration file: what, where, and the nearest right thing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}{}: {what}", .line.map(|l| format!(":{l}:{}", .column.unwrap_or(1))).unwrap_or_default())]
pub struct ConfigError {
    /// The file, as shown to the user.
    pub path: String,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
    /// What is wrong, in one sentence.
    pub what: String,
    /// What to do next.
    pub hint: Option<String>,
    /// The line itself.
    pub snippet: Option<String>,
}

impl ConfigError {
    /// A fault of the whole file.
    pub fn plain(path: &str, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
            column: None,
            what: what.into(),
            hint: None,
            snippet: None,
        }
    }

    /// A fault at a place of `text`.
    pub fn at(path: &str, text: &str, line: u32, column: u32, what: impl Into<String>) -> Self {
        let snippet = usize::try_from(line)
            .ok()
            .and_then(|l| text.lines().nth(l.saturating_sub(1)))
            .map(|l| l.chars().take(200).collect());
        Self {
            line: Some(line),
            column: Some(column),
            snippet,
            ..Self::plain(path, what)
        }
    }

    /// Adds what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// From an error of the YAML reader.
    pub(super) fn yaml(path: &str, text: &str, error: &serde_yaml::Error) -> Self {
        let message = error.without_snippet().to_string();
        let what = message
            .split_once(" at line ")
            .map_or(message.as_str(), |(what, _)| what)
            .lines()
            .next()
            .unwrap_or("not valid YAML")
            .to_owned();
        let what = in_our_words(&strip_place(&what));
        let line = error.location().map(|place| place.line());
        let hint = nearest_expected(&what).or_else(|| {
            let deeper = line.filter(|_| what.starts_with("mapping values"));
            let deeper = deeper.and_then(|line| too_deep(text, line));
            deeper.or_else(|| remedy(&what).map(str::to_owned))
        });
        let mut fault = match error.location() {
            Some(place) => {
                let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
                let line = small(place.line());
                let tab = tab_before(text, line).filter(|_| what.contains("tabs"));
                Self::at(path, text, line, tab.unwrap_or(small(place.column())), what)
            }
            // What is missing from a file that is all empty, or one tag, has no place of its own.
            None => Self::at(path, text, 1, 1, what),
        };
        fault.hint = hint;
        fault
    }
}

/// The column of the tab by which a line is indented: the reader of YAML points behind it.
fn tab_before(text: &str, line: u32) -> Option<u32> {
    let line = text
        .lines()
        .nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    let indent = line.chars().take_while(|c| c.is_whitespace());
    let tab = indent.into_iter().position(|c| c == '\t')?;
    u32::try_from(tab + 1).ok()
}

/// That a line is indented further than the one above it, which has a value already.
fn too_deep(text: &str, line: u64) -> Option<String> {
    let at = usize::try_from(line).ok()?;
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let mut above = text.lines().take(at).collect::<Vec<_>>();
    let wrong = above.pop()?;
    let is_text = |line: &str| !line.trim().is_empty() && !line.trim().starts_with('#');
    let number = above.iter().rposition(|line| is_text(line))?;
    let before = above[number];
    let begins = !before.trim_end().ends_with(':');
    (begins && indent(wrong) > indent(before))
        .then(|| format!("line {line} is indented further than line {}", number + 1))
}

/// For ``unknown field `units`, expected one of name, unit``: the name that was meant.
fn nearest_expected(what: &str) -> Option<String> {
    let (unknown, expected) = what.split_once(", expected one of ")?;
    let given = unknown.split('`').nth(1)?;
    let names = expected.split(", ").map(|n| n.trim_matches('`'));
    nearest(given, names).map(|near| format!("did you mean {near}?"))
}

/// What mends the faults of YAML that people make most.
fn remedy(what: &str) -> Option<&'static str> {
    const REMEDIES: [[&str; 2]; 8] = table(
        "
        has no colon | write it as KEY: VALUE, or indent it to go on with the text above
        is given twice | remove one of the two, or give them different names
        tabs | indent with spaces
        unclosed | close it, or put the text into quotes
        several documents | keep one of them in this file, and remove the line `---`
        missing field | add it; `oomctl presets` shows files that have it
        invalid type | write a value of the expected kind; text in quotes is text
        unknown field | remove it; `oomctl schema` lists the known keys
        ",
    );
    let known = REMEDIES.iter().find(|[words, _]| what.contains(words));
    let help = known.map(|[_, help]| *help);
    Some(help.unwrap_or("text with colons, brackets or quotes must be quoted"))
}

/// Options of sbatch that people write among the keys of a project.
const OF_SBATCH: [&str; 5] = word_list("partition account qos constraint reservation");

/// Keys that a hint lists.
const MOST_KEYS: usize = 40;

/// What to write for a key that is none of the known ones.
pub(super) fn meant_by(key: &str, known: &[&str]) -> String {
    let listed = || match known.len() > MOST_KEYS {
        true => "`oomctl presets NAME` shows the knobs of a preset".to_owned(),
        false => format!("known keys here: {}", known.join(", ")),
    };
    match nearest(key, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if key == "script" => {
            "a job script goes on the command line: `oomctl plan SCRIPT`".to_owned()
        }
        None if key == "set" => {
            "values are set under `knobs:`, as `knobs: { NAME: VALUE }`".to_owned()
        }
        None if OF_SBATCH.contains(&key) => format!(
            "for a template `knobs: {{ {key}: VALUE }}`, for a script of your own an #SBATCH line in it"
        ),
        None => listed(),
    }
}

/// Some messages of the reader start with their place, which we show ourselves.
fn strip_place(what: &str) -> String {
    let rest = what.strip_prefix("error: ").unwrap_or(what);
    match rest.split_once(": ") {
        Some((head, tail)) if head.starts_with("line ") => tail.to_owned(),
        _ => rest.to_owned(),
    }
}

/// Advice of the reader to programmers is none for users.
fn in_our_words(what: &str) -> String {
    match what.strip_prefix("duplicate mapping key: ") {
        Some(rest) => {
            let key = rest.split(',').next().unwrap_or(rest);
            format!("the key `{key}` is given twice")
        }
        None if what.contains("simple key expect") => "this line has no colon".to_owned(),
        None if what.starts_with("multiple YAML documents") => {
            "the file holds several documents (`---`); oomctl reads only one".to_owned()
        }
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_indented_too_far_is_named() {
        let told = |text| too_deep(text, 4).unwrap_or_default();
        let deep = "a: 1\nb:\n  c: 4\n    d: 8\n";
        assert_eq!(told(deep), "line 4 is indented further than line 3");
        assert_eq!(told("a: 1\nb:\n  c:\n    d: x: y\n"), "");
        assert_eq!(told("a: 1\nb: 2\nc: 3\nd: x: y\n"), "");
    }
}
