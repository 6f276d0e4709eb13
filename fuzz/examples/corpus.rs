//! Writes the seeds of every target where cargo-fuzz looks for them: `corpus/<target>/`.

#![allow(
    clippy::disallowed_methods,
    reason = "writes the files that it is there for"
)]

use std::{fs, io};
use std::path::Path;

use oomctl_fuzz::seeds;

const TARGETS: [&str; 10] = [
    "log", "message", "slurm", "project", "template", "ledger", "kernel_log", "snapshot", "python", "script",
];

fn main() -> io::Result<()> {
    for target in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        let seeds = seeds::of(target);
        for (number, input) in seeds.inputs.iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}")), input)?;
        }
        // libFuzzer's dictionary: one quoted word a line, in escapes that it knows.
        let word = |word: &&str| {
            let hex = word.bytes().map(|byte| format!("\\x{byte:02X}"));
            format!("\"{}\"\n", hex.collect::<String>())
        };
        let words = seeds.words.iter().map(word).collect::<String>();
        fs::write(folder.with_extension("dict"), words)?;
    }
    Ok(())
}
