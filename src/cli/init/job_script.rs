//! A job script for a program of one's own, where there is none yet.

use std::path::Path;

use super::cluster::usual;
use super::surroundings::Surroundings;
use crate::core::render::shell_word;
use crate::view::CommandFailure;

/// Its name.
pub const NAME: &str = "job.sbatch";

/// Its text: what the cluster shows, and how the program starts.
pub fn text(program: &str, found: &Surroundings) -> Result<String, CommandFailure> {
    let word = |word: &str| shell_word(word).map_err(CommandFailure::usage);
    let stem = Path::new(program).file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy();
    let mut text = "#!/bin/bash\n".to_owned();
    let mut option = |name: &str, value: &str| text += &format!("#SBATCH --{name}={value}\n");
    let usual = found.slurm.as_ref().ok().and_then(usual);
    option(
        "job-name",
        &stem.replace(|c: char| !c.is_ascii_alphanumeric(), "-"),
    );
    if let Some(usual) = usual {
        option("partition", &usual.name);
    }
    let gpus = usual.map_or(0, |usual| usual.gpus);
    if gpus > 0 {
        let kind = usual.and_then(|usual| usual.gpu_type.as_ref());
        let kind = kind.map_or_else(String::new, |kind| format!("{kind}:"));
        option("gres", &format!("gpu:{kind}{gpus}"));
    }
    text.push('\n');
    let environment = found
        .environment
        .as_ref()
        .map(|folder| format!("{folder}/bin/activate"));
    if let Some(script) = environment.filter(|script| Path::new(script).is_file()) {
        text += &format!("source {}\n", word(&script)?);
    }
    let start = match gpus {
        0 | 1 => "python".to_owned(),
        several => format!("torchrun --standalone --nproc_per_node {several}"),
    };
    Ok(text
        + &format!(
            "{start} {}  # add the options of your program\n",
            word(program)?
        ))
}
