//! The program itself on a hostile log: how it ends, and what it prints.

use std::path::Path;
use std::process::{Command, Output};

use crate::checks::random::Random;

/// Diagnoses a log in a folder that nobody else uses.
pub fn check(folder: &Path, input: &[u8]) {
    let mut random = Random::of(input);
    std::fs::write(folder.join("job.err"), input).unwrap();
    let arguments: &[&str] = match random.below(3) {
        0 => &["diagnose", "job.err"],
        1 => &["diagnose", "--json", "job.err"],
        _ => &["diagnose", "--exit-code", "job.err"],
    };
    let done = oomctl(folder, arguments);
    let code = done.status.code();
    assert!(
        matches!(code, Some(0 | 10 | 11 | 12)),
        "{arguments:?} ended with {}: {}",
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
    plain(&done.stdout);
    plain(&done.stderr);
}

fn oomctl(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oomctl"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", folder)
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

/// Text of which a terminal shows all and does nothing.
fn plain(printed: &[u8]) {
    let text = std::str::from_utf8(printed).unwrap();
    let control = text.find(|c: char| c.is_control() && c != '\n');
    assert_eq!(control, None, "{text:?}");
}
