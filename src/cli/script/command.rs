//! A command of `oomctl run`, read like a script of one line.

use std::path::PathBuf;

use crate::cli::script::read::{Read, Shelves};
use crate::core::adopt;
use crate::core::launch::Composed;
use crate::core::render::shell_word;
use oomctl_scripts::Submission;

/// What the configuration says that a program composes of files, under all keys by which the presets of `shelves` or
/// `told` (`batch=training.batch_size`) may mean a knob.
pub fn composed(shelves: &Shelves, command: &[String], told: &[String]) -> Composed {
    let words = command.iter().map(|w| shell_word(w).unwrap_or_default());
    let submission = Submission {
        script: "the command".to_owned(),
        ..Submission::default()
    };
    let text = words.collect::<Vec<_>>().join(" ");
    let read = Read::new(submission, text, PathBuf::from("."), shelves);
    let styles = shelves.presets.iter().flat_map(|p| &p.spellings);
    let keys = styles.flat_map(|s| s.values().map(String::as_str));
    let told = told.iter().filter_map(|s| s.split_once('='));
    adopt::composed(
        &read.adoption(shelves),
        keys.chain(told.map(|(_, key)| key)),
    )
}
