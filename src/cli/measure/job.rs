//! The program of a job, from a script of the user's own or from a preset's templates, as it is measured.
//!
//! Rule: the script is read as `plan SCRIPT` reads it; nothing of it but its program is run.

use std::path::{Path, PathBuf};

use super::closed_form::in_a_sentence;
use crate::cli::args::Configuration;
use crate::cli::script::{self, Read, Shelves};
use crate::cli::session::{Session, working_directory};
use crate::core::adopt::version::environments;
use crate::core::config::from_flags;
use crate::core::recipe::Layer;
use crate::core::render::{AttemptPlace, shell_word};
use crate::core::request::Request;
use crate::io::environment::variables;
use crate::io::files::{Access, write_atomic};
use crate::io::phantom::{PhantomProgram, PhantomRun};
use crate::io::scratch::ScratchFolder;
use crate::view::{CommandFailure, print};
use oomctl_base::Role;
use oomctl_base::units::Bytes;
use oomctl_memory::GPU_MEMORY;
use oomctl_scripts::{Adoption, JobProgram, SCRIPT, Submission, is_shell};

/// The card of a command, where none is named.
const OF_COMMAND: &str = "h100";

/// What a job is measured as.
#[derive(Default)]
pub struct JobMeasure {
    /// Its program, with the files that its scripts would write, and those that are changed.
    pub program: PhantomProgram,
    /// GPUs of a node; 0 where the job asks for none.
    pub gpus: u64,
    /// Processes of the job, where no launcher that is run says how many; 0 where one does.
    pub world: u64,
    /// Processes that a launcher which is run starts, where its own options are computed in the job; else 0.
    pub ranks: u64,
    /// The type of its GPUs.
    pub gpu_type: Option<String>,
    /// Their memory, where it is given.
    pub gpu_memory: Option<Bytes>,
    /// What it was read as, with what is changed of it; none for a command.
    pub request: Option<(Request, Vec<Layer>)>,
    /// Rendered files lie here while it runs.
    _rendered: Option<ScratchFolder>,
}

impl JobMeasure {
    /// A command, here.
    fn of_command(command: &[String]) -> Result<Self, CommandFailure> {
        let folder = working_directory()?;
        Ok(Self {
            program: PhantomProgram {
                command: command.to_vec(),
                folder,
                ..PhantomProgram::default()
            },
            gpus: 1,
            gpu_type: Some(OF_COMMAND.to_owned()),
            ..Self::default()
        })
    }
}

/// The job of a script, a command, or the job of the project where there are no words. A script of a shell is read; anything else is run.
/// `ours` are options that are no script's when they stand before it.
pub fn job(
    session: &Session,
    flags: &Configuration,
    words: &[String],
    ours: &[String],
) -> Result<JobMeasure, CommandFailure> {
    if words.first().is_some_and(|word| !is_script(word)) {
        return JobMeasure::of_command(words);
    }
    script::tell_ours(words.get(1..).unwrap_or_default(), |word| {
        let name = word.split('=').next().unwrap_or(word);
        ours.iter().any(|option| option == name)
    });
    let (request, rungs) = job_of(session, flags, words)?;
    measured(session, &request, &rungs)
        .inspect_err(|_| print::talk(&in_a_sentence(session, &request, &rungs)))
}

/// What a command is read as: a script of one line, for GPUs as they are measured.
pub fn request_of_command(
    session: &Session,
    flags: &Configuration,
    asked: &PhantomRun,
) -> Result<Request, CommandFailure> {
    let PhantomProgram {
        command, folder, ..
    } = &asked.program;
    let words: Vec<String> = command.iter().filter_map(|w| shell_word(w).ok()).collect();
    let (gpus, card) = (asked.phantom.devices, &asked.phantom.card.name);
    let text = format!(
        "#!/bin/bash\n#SBATCH --gres=gpu:{card}:{gpus}\n{}\n",
        words.join(" ")
    );
    let submission = Submission {
        script: "the command".to_owned(),
        variables: variables(),
        ..Submission::default()
    };
    let shelves = Shelves::for_script(session, None)?;
    let read = Read::new(submission, text, folder.clone(), &shelves);
    script::request(session, flags, "measure", &read, &shelves)
}

/// The request of a script, or of the project where there are no words, and what `--set` changes of the script.
pub fn job_of(
    session: &Session,
    flags: &Configuration,
    words: &[String],
) -> Result<(Request, Vec<Layer>), CommandFailure> {
    if words.is_empty() {
        let (request, _) = session.request(flags, "measure", &[])?;
        return Ok((request, Vec::new()));
    }
    let (told, set): (Vec<String>, Vec<String>) = flags
        .set
        .iter()
        .cloned()
        .partition(|set| script::describes(set));
    let told = Configuration {
        set: told,
        ..flags.clone()
    };
    let asked = script::ScriptCommandLine {
        flags: &told,
        run: None,
        sbatch: &[],
        words,
        logs: &[],
    };
    let request = script::planned(session, &asked)?;
    let for_estimate = |set: &String| script::is_for_estimate(request.preset(), set);
    let (said, set): (Vec<String>, Vec<String>) = set.into_iter().partition(for_estimate);
    let said = from_flags(request.preset(), &said, &[])?;
    // Made anew: what was open is not any more.
    let mut inputs = request.inputs().clone();
    inputs.layers.push(said);
    let request = Request::new(inputs)?;
    let rungs = match set.is_empty() {
        true => Vec::new(),
        false => vec![from_flags(request.preset(), &set, &[])?],
    };
    Ok((request, rungs))
}

fn is_script(word: &str) -> bool {
    let path = Path::new(word);
    let python = path.extension().is_some_and(|e| e == "py");
    !python && script::text_of(path).is_some_and(|text| is_shell(&text))
}

/// A request with these rungs.
pub fn measured(
    session: &Session,
    request: &Request,
    rungs: &[Layer],
) -> Result<JobMeasure, CommandFailure> {
    let shelves = Shelves::for_script(session, None)?;
    let (read, rendered, changed) = match (request.adoption(), request.patch(rungs)?) {
        (Some(adoption), Some(patch)) => {
            let (submission, files) = adoption.resubmitted(&patch);
            let changed = patch.before.iter().zip(&patch.after).skip(SCRIPT);
            let changed = changed.filter(|(before, after)| before.text != after.text);
            let place = |path: &str| request.workdir().join(path);
            let changed = changed.map(|(_, after)| (place(&after.path), after.text.clone()));
            let changed: Vec<(PathBuf, String)> = changed.collect();
            let read = Read {
                submission,
                files,
                workdir: request.workdir().to_owned(),
                logs: Vec::new(),
            };
            (read, None, changed)
        }
        _ => {
            let (read, folder) = render(request, rungs, &shelves)?;
            (read, Some(folder), Vec::new())
        }
    };
    let adoption = read.adoption(&shelves);
    let program = adoption.program().map_err(|why| {
        CommandFailure::refused(why)
            .hint("`oomctl measure -- COMMAND` measures a command that you give")
    })?;
    let resources = request.resources(rungs)?;
    let mut job = JobMeasure {
        gpus: resources.gpus / resources.nodes.max(1),
        world: if program.plays_a_rank {
            resources.gpus
        } else {
            0
        },
        ranks: if program.open_options {
            resources.gpus
        } else {
            0
        },
        gpu_type: request
            .value_of(rungs, Role::GpuType)
            .map(|v| v.to_string()),
        gpu_memory: gpu_memory(request, rungs),
        _rendered: rendered,
        program: started(program, &read, &adoption),
        request: Some((request.clone(), rungs.to_vec())),
    };
    job.program.files.extend(changed);
    Ok(job)
}

/// What a preset's templates render, read like a script.
fn render(
    request: &Request,
    rungs: &[Layer],
    shelves: &Shelves,
) -> Result<(Read, ScratchFolder), CommandFailure> {
    let unwritten = |e: &dyn std::fmt::Display| {
        CommandFailure::refused(format!("cannot write the rendered files: {e}"))
    };
    let folder = ScratchFolder::new("rendered");
    let folder = folder.map_err(|e| unwritten(&e))?;
    let inputs = request.inputs();
    let dir = folder.path().display().to_string();
    let place = AttemptPlace {
        dir: dir.clone(),
        ..AttemptPlace::anywhere(&inputs.workdir, &inputs.backend)
    };
    let files = request.render(rungs, &place)?;
    for file in &files {
        let path = folder.path().join(&file.name);
        write_atomic(&path, file.text.as_bytes(), Access::PrivateScript)
            .map_err(|e| unwritten(&e))?;
    }
    let entry = files.into_iter().find(|f| f.entry);
    let entry = entry.ok_or_else(|| unwritten(&"no rendered file is the script to submit"))?;
    let submission = Submission {
        script: format!("{dir}/{}", entry.name),
        variables: variables(),
        ..Submission::default()
    };
    let read = Read::new(
        submission,
        entry.text,
        request.workdir().to_owned(),
        shelves,
    );
    Ok((read, folder))
}

/// A program in the environment of its scripts.
fn started(program: JobProgram, read: &Read, adoption: &Adoption<'_>) -> PhantomProgram {
    let mut variables: Vec<(String, String)> = program.variables.into_iter().collect();
    let mut replaced = program.replaced;
    let places = environments(&adoption.reading, &read.submission);
    let python = |folder: &String| {
        let folder = read.workdir.join(folder);
        folder.join("bin/python").exists().then_some(folder)
    };
    if let Some(folder) = places.iter().find_map(python) {
        let path = variables.iter().rev().find(|(name, _)| name == "PATH");
        let path = path.map_or_else(
            || std::env::var("PATH").unwrap_or_default(),
            |(_, p)| p.clone(),
        );
        let shown = folder.display();
        variables.push(("PATH".to_owned(), format!("{shown}/bin:{path}")));
        variables.push(("VIRTUAL_ENV".to_owned(), shown.to_string()));
        replaced.push(format!("Python of {shown}"));
    }
    let folder = match &program.folder {
        Some(folder) => read.workdir.join(folder),
        None => read.workdir.clone(),
    };
    let at = |path: &str| read.workdir.join(path);
    let files = program
        .files
        .iter()
        .map(|(path, text)| (at(path), text.clone()));
    PhantomProgram {
        command: program.words,
        variables,
        files: files.collect(),
        folder,
        replaced,
        scratch: true,
    }
}

fn gpu_memory(request: &Request, rungs: &[Layer]) -> Option<Bytes> {
    let recipe = request.recipe(rungs).ok()?;
    Bytes::parse(&recipe.values.get(GPU_MEMORY)?.value.to_string()).ok()
}
