//! What is written down of an attempt: its command, its GPU, why it failed and what followed.

use std::path::Path;

use super::{LaunchAttempt, LaunchListener, LaunchNews};
use crate::io::files::{make_private_dir, replace};

/// Writes `attempt-N.json` into a folder. It is for people and scripts; that it cannot be written is said,
/// and stops nothing.
pub(super) fn write(
    folder: Option<&Path>,
    tried: &LaunchAttempt,
    listener: &mut dyn LaunchListener,
) {
    let Some(folder) = folder else {
        return;
    };
    let document = serde_json::json!({ "schema_version": 1, "attempt": tried });
    let path = folder.join(format!("attempt-{}.json", tried.number));
    let written = make_private_dir(folder)
        .and_then(|()| replace(&path, format!("{document:#}\n").as_bytes()));
    if let Err(error) = written {
        listener.news(&LaunchNews::Remark(&format!(
            "{error}; the attempt is not recorded"
        )));
    }
}
