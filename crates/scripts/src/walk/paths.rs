//! Paths that scripts name, and the code by which they name their own folder.

use super::Walker;
use super::doc::Doc;
use super::reading::SELF;
use super::scope::VariableValue;
use crate::traced::{PartOrigin, Traced};
use oomctl_base::word_list;

/// The ways to name the id of the job, which stands for itself in the name of a file that a script writes and reads.
const JOB_IDS: [&str; 4] = word_list("${SLURM_JOB_ID} $SLURM_JOB_ID ${SLURM_JOBID} $SLURM_JOBID");

/// The code by which scripts name the folder in which a command runs.
pub(crate) const HERE: [&str; 4] = ["$PWD", "${PWD}", "$(pwd)", "`pwd`"];

/// The code by which a script names itself.
const OWN_PATH: [&str; 4] = ["$0", "${0}", "${BASH_SOURCE[0]}", "$BASH_SOURCE"];

impl Walker<'_> {
    /// A path that a script names, relative to the folder in which the job runs. None where it is not known.
    pub(super) fn resolved(&self, path: &Traced, doc: &Doc) -> Option<String> {
        let mut text = String::new();
        let mut begins_with_code = false;
        for part in path.parts() {
            match part.from {
                PartOrigin::Literal { .. } => text.push_str(&part.text),
                PartOrigin::Computed { .. } => {
                    begins_with_code |= text.is_empty();
                    text.push_str(&self.folder_of(&part.text, doc)?);
                }
            }
        }
        // The home folder of who runs the job.
        if text.starts_with("~/") {
            return None;
        }
        let folder = self.scope.folder.as_deref()?;
        // What code names is told from the job's folder already.
        let from = if begins_with_code { "" } else { folder };
        let path = joined(from, &text);
        let is_inside = !begins_with_code && text.starts_with('/');
        match self.scope.container.as_ref().filter(|_| is_inside) {
            Some(container) => container.outside(&path),
            None => Some(path),
        }
    }

    /// The folder that a piece of code names, in the ways that scripts have of naming their own; or the id of the job.
    fn folder_of(&self, code: &str, doc: &Doc) -> Option<String> {
        if code.contains("dirname") && code.contains(SELF) {
            let Some(VariableValue::Text(own)) = self.scope.variables.get(SELF) else {
                return None;
            };
            let own = own.known()?;
            return own.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        }
        if JOB_IDS.contains(&code) {
            return Some(JOB_IDS[0].to_owned());
        }
        if let Some((program, path)) = path_command(code) {
            let path = self.path_in(path, doc)?;
            return Some(or_here(match program {
                "dirname" => folder_of_file(&path).to_owned(),
                _ => path,
            }));
        }
        let own = code.contains("dirname") && (code.contains("$0") || code.contains("BASH_SOURCE"));
        let submitted = ["$SLURM_SUBMIT_DIR", "${SLURM_SUBMIT_DIR}"].contains(&code);
        let here = HERE.contains(&code);
        let folder = match (own, submitted, here) {
            (true, ..) => Some(doc.folder.clone()),
            (_, true, _) => Some(String::new()),
            (.., true) => self.scope.folder.clone(),
            _ => None,
        };
        folder.map(or_here)
    }

    /// A path as a command has it, plain or behind one variable, from the folder in which the job runs. The script that is
    /// followed goes by `$0`: only its folder is asked for.
    fn path_in(&self, word: &str, doc: &Doc) -> Option<String> {
        if OWN_PATH.contains(&word) {
            return Some(joined(&doc.folder, OWN_PATH[0]));
        }
        let Some(code) = word.strip_prefix('$') else {
            return Some(joined(self.scope.folder.as_deref()?, word));
        };
        let (name, rest) = match code.strip_prefix('{') {
            Some(code) => code.split_once('}')?,
            None => code.split_at(code.find('/').unwrap_or(code.len())),
        };
        match self.scope.variables.get(name) {
            Some(VariableValue::Text(value)) => {
                let base = or_here(self.resolved(value, doc)?);
                Some(normal(&format!("{base}{rest}")))
            }
            _ => None,
        }
    }
}

/// Program and path of `$(realpath PATH)`, `$(readlink -f PATH)` and `$(dirname PATH)`.
fn path_command(code: &str) -> Option<(&str, &str)> {
    let command = code.strip_prefix("$(")?.strip_suffix(')')?;
    let mut words = command.split_whitespace();
    let program = words.next()?;
    let mut words = words.filter(|w| !w.starts_with('-'));
    let path = words.next()?.trim_matches('"');
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-/${}[]".contains(c);
    let one = words.next().is_none() && path.chars().all(plain);
    let known = ["realpath", "readlink", "dirname"].contains(&program);
    (known && one).then_some((program, path))
}

fn or_here(folder: String) -> String {
    match folder.is_empty() {
        true => ".".to_owned(),
        false => folder,
    }
}

/// A path in a folder; an absolute one stays.
pub fn joined(folder: &str, name: &str) -> String {
    match name.starts_with('/') || folder.is_empty() {
        true => normal(name),
        false => normal(&format!("{folder}/{name}")),
    }
}

/// The folder of a file.
pub fn folder_of_file(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path without `.`, `..` and doubled slashes.
pub(super) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|p| *p != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match path.starts_with('/') {
        true => format!("/{joined}"),
        false => joined,
    }
}
