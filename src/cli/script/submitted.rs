//! How a job was submitted that was submitted without us, as far as Slurm has kept it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cli::args::sbatch_option;
use crate::cli::script::arguments::SlurmCommandLine;
use crate::cli::script::read::{Read, Shelves, script};
use crate::core::adopt::is_array;
use crate::core::render::shell_word;
use crate::io::environment::variables;
use crate::io::scheduler::slurm::{Foreign, Slurm, bad_option};
use crate::io::window::log_ends;
use crate::view::{CommandFailure, print};
use oomctl_base::job::JobId;
use oomctl_scripts::{Submission, split_line};

/// The name of a script that was handed to sbatch on its standard input, or with `--wrap`.
const UNNAMED: &str = "job.sbatch";
/// What stands for a script that nobody has any more.
const NOTHING: &str = "#!/bin/sh\n";

/// How a job that was not submitted with oomctl is taken over.
#[derive(Debug, clap::Args)]
pub struct JobArgs {
    /// With a job id: the job's script, if Slurm has not kept it
    #[arg(long, value_name = "PATH")]
    pub(super) script: Option<PathBuf>,
    /// With a job id: an option that sbatch was given, if Slurm does not report it (repeatable)
    #[arg(long, value_name = "OPT", allow_hyphen_values = true, value_parser = sbatch_option)]
    pub(super) sbatch: Vec<String>,
    /// With a job id: the preset of its program
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// With a job id: agree to the changes without a question
    #[arg(short, long)]
    pub(super) yes: bool,
    /// With a job id: follow and diagnose, and submit nothing
    #[arg(long, conflicts_with = "yes")]
    pub(super) watch_only: bool,
}

impl JobArgs {
    /// The preset of its program.
    pub fn preset(&self) -> Option<&str> {
        self.preset.as_deref()
    }
}

/// The submission as far as it can be found, and whether the script is.
pub fn read(
    slurm: &Slurm,
    foreign: &Foreign,
    taking: &JobArgs,
    shelves: &Shelves,
) -> Result<(Read, bool), CommandFailure> {
    let id = &foreign.id;
    let here = || std::env::current_dir().unwrap_or_default();
    let workdir = foreign.workdir.clone().unwrap_or_else(here);
    let line = foreign.submit_line.as_deref().unwrap_or_default();
    let words: Vec<String> = line.split_whitespace().skip(1).map(str::to_owned).collect();
    let (options, rest) = split_line(&words);
    // Behind `--wrap` stands the rest of its command.
    let wraps = options.iter().any(|option| option.starts_with("--wrap="));
    let rest = if wraps { &[] } else { rest };
    // Slurm keeps the line without its quotes: a value with blanks ends the options too early, and the script is not
    // where it should be.
    let name = |path: &str| path.rsplit('/').next().map(str::to_owned);
    let script_of = foreign.command.as_deref().and_then(|c| c.split(' ').next());
    let is_sbatch = line.split_whitespace().next().and_then(name).as_deref() == Some("sbatch");
    let first = rest.first().map(String::as_str);
    let is_whole =
        is_sbatch && (script_of.is_none() || script_of.and_then(name) == first.and_then(name));
    let (path, command) = named(foreign.command.as_deref(), rest, &workdir);
    let (_, behind) = named(None, rest, &workdir);
    let kept = SlurmCommandLine {
        command: &command,
        line: is_whole.then_some(behind.as_slice()),
        command_holds_them: &|| slurm.command_holds_arguments(),
    };
    let args = match kept.of(id) {
        Err(_) if taking.watch_only || foreign.command.is_none() => command,
        args => args?,
    };
    let text = match (&taking.script, &foreign.script) {
        (Some(given), _) => Some(script(given)?),
        (None, Some(text)) => Some(text.clone()),
        (None, None) => on_disk(id, &workdir.join(&path)),
    };
    let known = text.is_some();
    if !known {
        print::talk(&format!(
            "the script of job {id} is gone. oomctl watches the job and, after a failure, says what to change; --script PATH gives a copy"
        ));
    }
    let options = match is_whole {
        true => options,
        false => reported(foreign, text.as_deref().unwrap_or_default()),
    };
    let submission = Submission {
        options: options_of(foreign, options, &taking.sbatch),
        script: path,
        args,
        variables: variables(),
        is_foreign: true,
    };
    let text = text.unwrap_or_else(|| NOTHING.to_owned());
    let mut read = Read::new(submission, text, workdir, shelves);
    let out = foreign.logs.as_ref().map(|(out, _)| out);
    read.logs = out.map_or_else(Vec::new, |out| log_ends(out));
    let open = read.adoption(shelves).open_variables();
    if known && !open.is_empty() && !taking.watch_only {
        print::talk(&may_have_set(id, &open));
    }
    Ok((read, known && open.is_empty()))
}

/// Why a job is not submitted again that may have got values from the environment of its submission, and how to say that it got none.
fn may_have_set(id: &JobId, open: &BTreeMap<String, String>) -> String {
    let names: Vec<&str> = open.keys().map(String::as_str).collect();
    let given = open
        .iter()
        .map(|(name, value)| format!("{name}={}", shell_word(value).unwrap_or_default()));
    let given: Vec<String> = given.collect();
    format!(
        "job {id} may have got {} from the environment of its sbatch, which oomctl does not know. So it watches the job and, after a failure, says what to change. With `{} oomctl watch {id}` it submits again with these values",
        names.join(", "),
        given.join(" ")
    )
}

/// Where nobody has kept the line of the submission: what the controller says that the job asked for, in the form of its
/// script where that has one. What neither tells is lost, which is said.
fn reported(foreign: &Foreign, text: &str) -> Vec<String> {
    let gives = |option: &str| {
        let mut lines = text.lines().filter_map(|l| l.strip_prefix("#SBATCH"));
        lines.any(|l| l.contains(&format!("--{option}")))
    };
    let others = |option: &str| match option {
        "mem" | "mem-per-cpu" => ["mem-per-gpu", "mem-per-cpu"]
            .iter()
            .any(|o| *o != option && gives(o)),
        "gpus-per-node" | "gpus" => ["gres", "gpus-per-task", "gpus-per-socket"]
            .iter()
            .any(|o| gives(o)),
        "nodes" => gives("ntasks"),
        _ => false,
    };
    let name = |o: &String| {
        o.trim_start_matches('-')
            .split('=')
            .next()
            .unwrap_or("")
            .to_owned()
    };
    let asked = foreign.asked.iter().filter(|o| !others(&name(o)));
    let options: Vec<String> = asked.cloned().collect();
    print::talk(&format!(
        "Slurm did not keep the options of job {}; it reports {}. Add others with --sbatch=OPT",
        foreign.id,
        match options.as_slice() {
            [] => "nothing".to_owned(),
            all => all.join(" "),
        }
    ));
    options
}

/// The script as it is on disk now.
fn on_disk(id: &JobId, path: &Path) -> Option<String> {
    let text = script(path).ok()?;
    print::talk(&format!(
        "Slurm did not keep the script of job {id}; using {} as it is now",
        path.display()
    ));
    Some(text)
}

/// The script and its arguments. Slurm tells both without quotes: where a path holds blanks, the first words that are a file
/// count.
fn named(command: Option<&str>, rest: &[String], workdir: &Path) -> (String, Vec<String>) {
    let words: Vec<String> = match command {
        Some(command) => command.split(' ').map(str::to_owned).collect(),
        None => rest.to_vec(),
    };
    let whole = |count: &usize| workdir.join(words[..*count].join(" ")).is_file();
    let count = (1..=words.len()).find(whole).unwrap_or(1).min(words.len());
    let (path, args) = words.split_at(count);
    let path = path.join(" ");
    if path.is_empty() {
        return (UNNAMED.to_owned(), Vec::new());
    }
    let below = Path::new(&path).strip_prefix(workdir).ok();
    let shown = below.and_then(Path::to_str).map(str::to_owned);
    (shown.unwrap_or(path), args.to_vec())
}

/// The options of the submission, but those that are about how it was answered; a task of an array is submitted alone.
fn options_of(foreign: &Foreign, given: Vec<String>, more: &[String]) -> Vec<String> {
    let task = foreign.id.0.split_once('_');
    let answered = |o: &String| ["--parsable", "--quiet", "-Q"].contains(&o.as_str());
    let ours = |o: &String| match is_array(o) {
        true => task.is_none(),
        false => !answered(o) && bad_option(o).is_none(),
    };
    let mut options: Vec<String> = given.into_iter().filter(ours).collect();
    if let Some((_, task)) = task {
        options.push(format!("--array={task}"));
    }
    options.extend(more.iter().cloned());
    options
}
