//! Says why a job died: `cargo run -p oomctl-diagnose --example why -- slurm.err [MORE LOGS]`.

#![allow(
    clippy::disallowed_methods,
    reason = "an example reads its words and files"
)]

use oomctl_diagnose::{Scanner, remedies};

fn main() -> std::io::Result<()> {
    let mut scanner = Scanner::new(&[]);
    for path in std::env::args().skip(1) {
        let source = scanner.source(&path);
        scanner.feed(source, 0, &std::fs::read(&path)?);
        scanner.finish_source(source);
    }
    let incident = scanner.verdict(None);
    println!(
        "{} in {} ({:?})",
        incident.kind, incident.phase, incident.class
    );
    for line in &incident.evidence {
        println!("{}:{} {}", line.file, line.line, line.text);
    }
    for remedy in remedies(&incident) {
        println!("{remedy:?}");
    }
    Ok(())
}
