//! What is said of an argument that names no log.

use std::path::Path;

use crate::io::job_scripts::{folder_of, newest_logs};
use crate::view::CommandFailure;

/// Logs that are named.
const NAMED: usize = 3;

/// The failure with the newest logs that lie where one was looked for.
pub fn with_logs_there(path: &Path, failure: CommandFailure) -> CommandFailure {
    let newest = newest_logs(folder_of(path), NAMED).into_iter();
    let named: Vec<String> = newest.map(|log| log.display().to_string()).collect();
    match named.is_empty() {
        true => failure,
        false => failure.hint(format!("the newest logs there are {}", named.join(", "))),
    }
}
