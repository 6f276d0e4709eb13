//! Files of the user's own into which the scripts send what their program prints.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{TaskList, job_name, origin};
use oomctl_scripts::{ARRAY, Adoption, JOB, JOB_NAME, OutputFile, TASK};

/// A file of the user's own into which the program of an attempt prints, as it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramLog {
    /// The file; `${SLURM_JOB_ID}` and the like stand for what the job is told.
    pub path: PathBuf,
    /// Its length in bytes. What the program appends begins there.
    pub offset: u64,
    /// Where the program begins it anew: when it was last changed. As long as it was not since, it is of an earlier job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<Timestamp>,
}

/// The files, each once: those of the program that is understood, or else of all.
fn outputs(adoption: &Adoption<'_>) -> Vec<OutputFile> {
    let mut calls: Vec<_> = adoption.calls().collect();
    if calls.is_empty() {
        calls.extend(&adoption.reading.calls);
    }
    let name = job_name(&adoption.reading);
    let mut files: Vec<OutputFile> = Vec::new();
    for file in calls.into_iter().flat_map(|call| &call.outputs) {
        let path = file.path.as_ref();
        let file = OutputFile {
            path: path.map(|path| path.replace(JOB_NAME, &name)),
            ..file.clone()
        };
        let is_same =
            |f: &OutputFile| f.path == file.path && (f.path.is_some() || f.word == file.word);
        if !files.iter().any(is_same) {
            files.push(file);
        }
    }
    files
}

/// Whether the jobs of an array, which are several, all write into a file.
fn is_shared(adoption: &Adoption<'_>, path: &str) -> bool {
    let several = matches!(TaskList::of(&adoption.reading), Ok(Some(_)) | Err(_));
    several && !path.contains(JOB) && !path.contains(TASK)
}

/// Those that can be read as the log of one job.
pub fn readable_outputs(adoption: &Adoption<'_>) -> Vec<OutputFile> {
    let mut files = outputs(adoption);
    files.retain(|file| {
        let path = file.path.as_deref();
        path.is_some_and(|path| !is_shared(adoption, path))
    });
    files
}

/// Where the output goes besides the log of the job, and what of that is read.
pub fn output_remarks(adoption: &Adoption<'_>) -> Vec<String> {
    let said = |file: &OutputFile| {
        let at = origin(&adoption.reading.sources, file.place);
        let (shown, then) = match file.path.as_deref() {
            None => (
                file.word.as_str(),
                "a path that only the job knows. oomctl cannot read it, and may not see why the job failed: use `2>&1 | tee FILE`",
            ),
            Some(path) if is_shared(adoption, path) => (
                path,
                "a file that all tasks of the array share. oomctl does not read it: put $SLURM_ARRAY_TASK_ID into its name",
            ),
            Some(path) => (path, "which oomctl reads too"),
        };
        format!("the script sends the output of its program to {shown} ({at}), {then}")
    };
    outputs(adoption).iter().map(said).collect()
}

/// The path of a file for the job with this id, and with this number where it is a task of an array. None while the number is
/// unknown.
pub fn output_path(path: &str, id: &str, number: Option<&str>) -> Option<String> {
    let (array, task) = match id.split_once('_') {
        Some((array, task)) => (array, Some(task)),
        None => (id, None),
    };
    let own = number.or(task.is_none().then_some(id));
    let mut named = path.to_owned();
    for (variable, value) in [(JOB, own), (ARRAY, Some(array)), (TASK, task)] {
        if named.contains(variable) {
            named = named.replace(variable, value?);
        }
    }
    Some(named)
}

#[cfg(test)]
mod tests {
    use super::output_path;

    #[test]
    fn a_path_has_the_number_of_its_job() {
        let path = |path: &str, id: &str, number| output_path(path, id, number);
        assert_eq!(
            path("a/${SLURM_JOB_ID}.log", "12", None).unwrap(),
            "a/12.log"
        );
        let task = "${SLURM_ARRAY_JOB_ID}/${SLURM_ARRAY_TASK_ID}";
        assert_eq!(path(task, "12_3", None).unwrap(), "12/3");
        assert_eq!(path("${SLURM_JOB_ID}", "12_3", Some("15")).unwrap(), "15");
        assert_eq!(path("${SLURM_JOB_ID}", "12_3", None), None);
        assert_eq!(path("plain", "12_3", None).unwrap(), "plain");
    }
}
