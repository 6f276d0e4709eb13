//! A command of `oomctl run`, read like a script of one line.

use std::path::{Path, PathBuf};

use crate::cli::script::read::{Read, Shelves, text_of};
use crate::core::adopt;
use crate::core::launch::Composed;
use crate::core::render::shell_word;
use oomctl_scripts::{Submission, all_options};

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

/// The options that the program of a command takes, where its text shows all of them.
pub fn taken(command: &[String]) -> Option<Vec<String>> {
    let program = command.iter().find(|word| word.ends_with(".py"))?;
    all_options(&text_of(Path::new(program))?)
}
