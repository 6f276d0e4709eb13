//! Telling somebody who does not watch: a program of the user's own is given a document.

use std::ffi::OsString;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{Access, access};
use serde_json::Value;

use super::scheduler::command::{CommandCall, CommandEnd, SearchPath, run_with};
use crate::core::request::Notices;

/// Runs the program of the notices. None where it works, else what did not, in one line.
pub fn tell(notices: &Notices, document: &Value, project: &Path) -> Option<String> {
    let told = program(notices, project)?.and_then(|program| {
        let failed = |e: std::io::Error| format!("notice by command: {e}");
        let mut input = tempfile::tempfile().map_err(failed)?;
        writeln!(input, "{document}").map_err(failed)?;
        input.rewind().map_err(failed)?;
        let call = CommandCall {
            program,
            arguments: notices.command.iter().skip(1).map(OsString::from).collect(),
            environment: std::env::vars_os().collect(),
            folder: Some(project.to_owned()),
            deadline: Duration::from_secs(notices.time_limit_s),
        };
        let answer = run_with(&call, Stdio::from(input));
        match answer.end {
            CommandEnd::Exited(0) => Ok(()),
            _ => Err(format!("notice by command: {}", answer.describe())),
        }
    });
    told.err()
}

/// What keeps the program from being run, as far as that is known before there is anything to tell. Nothing is sent.
pub fn fault(notices: &Notices, project: &Path) -> Option<String> {
    let runs = |program: PathBuf| match access(&program, Access::EXEC_OK) {
        Ok(()) if program.is_file() => Ok(()),
        _ => Err(format!(
            "notice by command: cannot run {}",
            program.display()
        )),
    };
    program(notices, project)?.and_then(runs).err()
}

/// The program, found as a shell in the project's folder finds it.
fn program(notices: &Notices, project: &Path) -> Option<Result<PathBuf, String>> {
    let first = notices.command.first()?;
    if first.contains('/') {
        return Some(Ok(project.join(first)));
    }
    let located = std::env::var_os("PATH").and_then(|path| SearchPath::Path(path).locate(first));
    Some(located.ok_or_else(|| format!("notice by command: {first} not found")))
}
