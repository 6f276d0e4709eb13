//! Runs a program on a file and says what it cost.

use std::path::Path;
use std::process::Command;

use super::cost::{Cost, found};

/// A program that reads a log.
pub struct Reader {
    /// As shown.
    pub name: &'static str,
    /// Runs once only.
    pub slow: bool,
    program: String,
    arguments: Vec<String>,
}

impl Reader {
    fn new(name: &'static str, program: &str, arguments: &[&str]) -> Self {
        Self {
            name,
            slow: false,
            program: program.to_owned(),
            arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
        }
    }

    /// Runs it on a file, output thrown away.
    pub fn run(&self, path: &Path) -> Cost {
        Cost::of(Command::new(&self.program).args(&self.arguments).arg(path))
    }
}

/// The programs that are found here. `folder` takes the file of patterns.
pub fn readers(folder: &Path) -> Vec<Reader> {
    let patterns = folder.join("signatures");
    let lines = oomctl_diagnose::signature_patterns().join("\n");
    std::fs::write(&patterns, lines + "\n").expect("the patterns can be written");
    let file = patterns.display().to_string();
    let mut readers = vec![
        Reader::new("cat", "cat", &[]),
        Reader::new(
            "oomctl diagnose",
            env!("CARGO_BIN_EXE_oomctl"),
            &["diagnose", "--json"],
        ),
    ];
    if found("rg") {
        readers.push(Reader::new(
            "rg -a -c",
            "rg",
            &["--no-config", "-j1", "-a", "-c", "-f", &file],
        ));
    }
    if found("grep") {
        let grep = Reader::new("grep -a -c -E", "grep", &["-a", "-c", "-E", "-f", &file]);
        readers.push(Reader { slow: true, ..grep });
    }
    readers
}

/// The kind of failure that our program finds.
pub fn kind(path: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_oomctl"))
        .args(["diagnose", "--json"])
        .arg(path)
        .output()
        .expect("our program can be started");
    let view: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("diagnose prints JSON");
    view["files"][0]["kind"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
