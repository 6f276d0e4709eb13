//! A job script for a program, where there is none yet; in an empty folder a small program too.

use std::path::Path;

use super::cluster::usual;
use super::settings_file;
use super::surroundings::Surroundings;
use crate::core::recipe::MARK;
use crate::core::render::shell_word;
use crate::io::scheduler::slurm::ClusterPartition;
use crate::view::CommandFailure;
use oomctl_base::word_list;
use oomctl_scripts::required_options;

/// Its name.
pub const NAME: &str = "job.sbatch";
/// A program that trains a small model on one GPU, for a folder without one.
pub const FIRST: (&str, &str) = (
    "train.py",
    include_str!("../../../templates/first/train.py"),
);
/// How long the first job may take.
const FIRST_TIME: &str = "00:10:00";

/// Its text for the program in `folder`: what the cluster shows, how the program starts, and the options that it requires. And what it
/// takes of a node.
pub fn text(
    folder: &Path,
    program: &str,
    found: &Surroundings,
) -> Result<(String, Option<String>), CommandFailure> {
    let code = std::fs::read_to_string(folder.join(program)).unwrap_or_default();
    let options = required_options(&code).into_iter();
    let options = options.map(|flag| match flag.as_str() {
        "" => format!(" {MARK}"),
        flag => format!(" {flag} {MARK}"),
    });
    let most = of_node(found);
    let accelerate = settings_file::of_accelerate(folder, found);
    let processes = accelerate.and_then(|file| settings_file::processes(folder, file));
    // Several processes of a program that does not know of each other would each train all of it.
    let several = uses_several(folder, &code);
    let gpus = match processes {
        Some(processes) => processes.min(most),
        None if several => most,
        None => most.min(1),
    };
    let start = match (accelerate, gpus) {
        (Some(file), _) => format!("accelerate launch --config_file {}", word(file)?),
        (None, 0 | 1) => "python".to_owned(),
        (None, several) => format!("{TORCHRUN} {several}"),
    };
    let options: String = options.collect();
    let head = head(program, found, gpus, None)?;
    let change = match accelerate {
        Some(_) => "--gres and --num_processes",
        None => "--gres and --nproc_per_node",
    };
    let takes = match gpus {
        1 if accelerate.is_none() && most > 1 => Some(format!(
            "{NAME} takes 1 of the {most} GPUs of a node. If the program trains on several, change --gres and begin the command with `{TORCHRUN} {most}`"
        )),
        _ => whole_node(gpus, most, change),
    };
    let program = word(program)?;
    let text = format!("{head}{start} {program}{options} \"$@\"\n");
    Ok((text, takes))
}

/// How several processes of a program start on one node.
const TORCHRUN: &str = "torchrun --standalone --nproc_per_node";

/// GPUs of a usual node.
fn of_node(found: &Surroundings) -> u64 {
    let usual = found.slurm.as_ref().ok().and_then(usual);
    usual.map_or(0, |usual| usual.gpus)
}

/// That a job takes all GPUs of a node, and what to change for fewer.
fn whole_node(gpus: u64, most: u64, change: &str) -> Option<String> {
    let is_whole = gpus > 1 && gpus == most;
    is_whole.then(|| format!("{NAME} takes a whole node, {gpus} GPUs. For fewer change {change}"))
}

/// What a program names that is written for several processes, one a GPU. A library that trains on one GPU as well says nothing.
const SEVERAL: [&str; 8] = word_list(
    "distributed DistributedDataParallel FSDP fully_shard LOCAL_RANK WORLD_SIZE deepspeed horovod",
);
/// Modules beside a program that are looked at.
const MODULES: usize = 32;

/// Whether a program, or a module beside it that it names, trains with several processes.
fn uses_several(folder: &Path, code: &str) -> bool {
    let several = |text: &str| SEVERAL.iter().any(|name| text.contains(name));
    let beside = || {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let paths = files.map(|file| file.path()).take(MODULES);
        let is_named = |path: &std::path::PathBuf| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            path.extension().is_some_and(|end| end == "py") && code.contains(&*stem)
        };
        let mut texts = paths
            .filter(is_named)
            .map(std::fs::read_to_string)
            .map(Result::unwrap_or_default);
        texts.any(|text| several(&text))
    };
    several(code) || beside()
}

/// Its text for a framework's program that is started with a file of settings, and starts its processes itself.
/// And what it takes of a node.
pub fn of_file(
    start: &str,
    file: &str,
    found: &Surroundings,
) -> Result<(String, Option<String>), CommandFailure> {
    let gpus = of_node(found);
    let head = head(file, found, gpus, None)?;
    let text = format!("{head}{start} {} \"$@\"\n", word(file)?);
    Ok((text, whole_node(gpus, gpus, "--gres")))
}

/// The text for [`FIRST`]: one GPU, for a short time.
pub fn first(found: &Surroundings) -> Result<String, CommandFailure> {
    let head = head(FIRST.0, found, 1, Some(FIRST_TIME))?;
    Ok(format!(
        "{head}python3 {} --batch_size 16 \"$@\"\n",
        FIRST.0
    ))
}

/// The lines above the command.
fn head(
    program: &str,
    found: &Surroundings,
    gpus: u64,
    time: Option<&str>,
) -> Result<String, CommandFailure> {
    let stem = Path::new(program).file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy();
    let mut text = "#!/bin/bash\n".to_owned();
    let mut option = |name: &str, value: &str| text += &format!("#SBATCH --{name}={value}\n");
    option(
        "job-name",
        &stem.replace(|c: char| !c.is_ascii_alphanumeric(), "-"),
    );
    if let Some(usual) = found.slurm.as_ref().ok().and_then(usual) {
        option("partition", &usual.name);
        if gpus > 0 && usual.gpus > 0 {
            let kind = usual.gpu_type.as_ref();
            let kind = kind.map_or_else(String::new, |kind| format!("{kind}:"));
            option("gres", &format!("gpu:{kind}{gpus}"));
        }
    }
    if let Some(time) = time {
        option("time", time);
    }
    if let Ok(cluster) = &found.slurm {
        match usual(cluster).and_then(|usual| memory_mib(usual, gpus)) {
            Some(mib) if mib >= 1_024 => option("mem", &format!("{}G", mib / 1_024)),
            _ => text += NO_MEMORY,
        }
    }
    text.push('\n');
    let environment = found
        .environment
        .as_ref()
        .map(|folder| format!("{folder}/bin/activate"));
    if let Some(script) = environment.filter(|script| Path::new(script).is_file()) {
        text += &format!("source {}\n", word(&script)?);
    }
    Ok(text)
}

/// The line in place of an amount of host memory, where the cluster tells none.
const NO_MEMORY: &str =
    "# Add `#SBATCH --mem=16G` where the job needs more host memory than Slurm gives by default.\n";
/// Percent of a node's memory that jobs may ask for: sites keep some of it.
const PERCENT: u64 = 90;

/// The share of a node's memory that belongs to so many of its GPUs, in MiB.
fn memory_mib(usual: &ClusterPartition, gpus: u64) -> Option<u64> {
    let share = usual.memory_mib * gpus.min(usual.gpus) * PERCENT;
    share.checked_div(usual.gpus * 100)
}

fn word(word: &str) -> Result<String, CommandFailure> {
    shell_word(word).map_err(CommandFailure::usage)
}
