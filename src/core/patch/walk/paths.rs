//! Paths that scripts name, and the code by which they name their own folder.

use super::scope::Variable;
use super::{Doc, SELF, Walker};
use crate::core::patch::traced::{From, Traced};

/// The ways to name the id of the job, which stands for itself in the name of a file that a script writes and reads.
const JOB_IDS: [&str; 4] = [
    "${SLURM_JOB_ID}",
    "$SLURM_JOB_ID",
    "${SLURM_JOBID}",
    "$SLURM_JOBID",
];

impl Walker<'_> {
    /// A path that a script names, relative to the folder in which the job runs. None where it is not known.
    pub(super) fn resolved(&self, path: &Traced, doc: &Doc) -> Option<String> {
        let mut text = String::new();
        for part in path.parts() {
            match part.from {
                From::Literal { .. } => text.push_str(&part.text),
                From::Computed { .. } => {
                    text.push_str(&self.folder_of(&part.text, doc)?);
                }
            }
        }
        let folder = self.scope.folder.as_deref()?;
        let all = match text.starts_with('/') || folder.is_empty() {
            true => text,
            false => format!("{folder}/{text}"),
        };
        Some(normal(&all))
    }

    /// The folder that a piece of code names, in the ways that scripts have of naming their own; or the id of the job.
    fn folder_of(&self, code: &str, doc: &Doc) -> Option<String> {
        if code.contains("dirname") && code.contains(SELF) {
            let Some(Variable::Text(own)) = self.scope.variables.get(SELF) else {
                return None;
            };
            let own = own.known()?;
            return own.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        }
        if JOB_IDS.contains(&code) {
            return Some(JOB_IDS[0].to_owned());
        }
        let own = code.contains("dirname") && (code.contains("$0") || code.contains("BASH_SOURCE"));
        let submitted = ["$SLURM_SUBMIT_DIR", "${SLURM_SUBMIT_DIR}"].contains(&code);
        let here = ["$PWD", "${PWD}", "$(pwd)", "`pwd`"].contains(&code);
        let folder = match (own, submitted, here) {
            (true, ..) => Some(doc.folder.clone()),
            (_, true, _) => Some(String::new()),
            (.., true) => self.scope.folder.clone(),
            _ => None,
        };
        folder.map(|f| if f.is_empty() { ".".to_owned() } else { f })
    }
}

/// The folder of a file.
pub(in crate::core::patch) fn folder_of_file(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path without `.`, `..` and doubled slashes.
pub(in crate::core::patch) fn normal(path: &str) -> String {
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
