//! Submitting a script of the user's own: what is understood, what would be changed, and whether that is agreed to.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::cli::args::Configuration;
use crate::cli::request::{learned, nodes, preview, queue};
use crate::cli::script::absent::{absent, is_in_file};
use crate::cli::script::measuring::measure_command;
use crate::cli::script::read::{Read, Shelves, script};
use crate::cli::script::request::request;
use crate::cli::script::unread::unread;
use crate::cli::script::unused;
use crate::cli::session::{Session, working_directory};
use crate::core::adopt::version::LogExcerpt;
use crate::core::adopt::{self, Scripts};
use crate::core::exit::Exit;
use crate::core::request::{self, Request, StartForecast};
use crate::io::environment::variables;
use crate::io::sampler::program;
use crate::view::own_view::ScriptView;
use crate::view::script_parts::AdoptedScript;
use crate::view::starts_view::StartsView;
use crate::view::{CommandFailure, columns_of, print};
use oomctl_base::word_list;
use oomctl_scripts::{Submission, VARIABLES, directives, is_shell, script_directives};

/// Options that are not taken from the environment of sbatch: they have no value that could be written down, or say
/// more than what the job asks for.
const NOT_TAKEN: [&str; 7] =
    word_list("array core-spec distribution exclusive input no-requeue requeue");

/// Columns of what is written to a file or a pipe.
pub const NO_TERMINAL: usize = 160;

/// A script on the command line.
pub struct ScriptCommandLine<'a> {
    /// Options of ours.
    pub flags: &'a Configuration,
    /// Name of the run, where one is given.
    pub run: Option<&'a str>,
    /// Options for sbatch.
    pub sbatch: &'a [String],
    /// The script, and what stands behind it.
    pub words: &'a [String],
    /// What the logs of the job begin with, where it ran already.
    pub logs: &'a [LogExcerpt],
}

/// The run that a script would be: its name and the request.
pub fn submit(
    session: &Session,
    asked: &ScriptCommandLine<'_>,
) -> Result<(String, Request), CommandFailure> {
    let Some((path, args)) = asked.words.split_first() else {
        return Err(CommandFailure::quiet(Exit::Usage));
    };
    only_scripts(asked)?;
    let text = script(Path::new(path))?;
    if !is_shell(&text) {
        print::talk(&format!(
            "note: {path} is no shell script, so oomctl reads only its #SBATCH lines"
        ));
    }
    let here = working_directory()?;
    let shelves = Shelves::for_script(session, asked.flags.preset.as_deref())?;
    let mut options = from_environment();
    options.extend(asked.sbatch.iter().cloned());
    let submission = Submission {
        options,
        script: path.clone(),
        args: args.to_vec(),
        variables: variables(),
        is_foreign: false,
    };
    let read = Read {
        logs: asked.logs.to_vec(),
        ..at_its_folder(submission, text, here, &shelves)
    };
    let stem = Path::new(path).file_stem().unwrap_or_default();
    let name = match asked.run {
        Some(name) => name.to_owned(),
        None => session.runs.new_name(&stem.to_string_lossy())?,
    };
    let request = request(session, asked.flags, &name, &read, &shelves)?;
    if let Some(scripts) = &request.inputs().scripts {
        if let Some((what, hint)) = unused::misplaced(scripts) {
            return Err(CommandFailure::usage(what).hint(hint));
        }
        let notes = unused::told(scripts).into_iter();
        notes.for_each(|note| print::talk(&note));
    }
    fits_a_run(&request)?;
    // Each task of an array starts as its own earlier runs say.
    if request.array()?.is_some() {
        return Ok((name, request));
    }
    Ok((name, started(session, asked.flags, request)))
}

/// The request as earlier runs of the project say that it should start, which is told.
fn started(session: &Session, flags: &Configuration, request: Request) -> Request {
    let Some(memory) = learned::memory(session, flags.fresh) else {
        return request;
    };
    let Some(start) = request.start(&memory).ok().flatten() else {
        learned::tell_of_others(&request, &memory);
        return request;
    };
    let started = request.clone().starting(&start);
    match started.patch(&[]) {
        Ok(_) => {
            learned::tell(Some(&start));
            started
        }
        Err(refused) => {
            print::talk(&format!(
                "cannot apply what earlier runs needed; the scripts start unchanged: {refused}"
            ));
            request
        }
    }
}

/// The request that is to be planned: that of a run of a script, or of a script with what its logs begin with.
pub fn planned(
    session: &Session,
    asked: &ScriptCommandLine<'_>,
) -> Result<Request, CommandFailure> {
    if let [name] = asked.words
        && session.runs.has(name)
    {
        let request = session.runs.open(name)?.request()?;
        return match request.inputs().scripts {
            Some(_) => Ok(request),
            None => {
                let what = format!("the run {name} was not submitted from a script");
                Err(CommandFailure::usage(what).hint("`oomctl plan` shows the ladder of templates"))
            }
        };
    }
    submit(session, asked).map(|(_, request)| request)
}

/// Reads a script in the folder in which its job runs: the one here, or the one that it asks for.
fn at_its_folder(submission: Submission, text: String, here: PathBuf, shelves: &Shelves) -> Read {
    let read = Read::new(submission.clone(), text.clone(), here.clone(), shelves);
    let Some(folder) = adopt::workdir(&read.adoption(shelves).reading) else {
        return read;
    };
    let script = here.join(&submission.script).display().to_string();
    let submission = Submission {
        script,
        ..submission
    };
    Read::new(submission, text, here.join(folder), shelves)
}

/// Options that sbatch would take from its environment: they win over the script, and those of the command line over
/// them. Ours is scrubbed of them, for an outer job may have set some.
fn from_environment() -> Vec<String> {
    let taken = VARIABLES.iter().filter(|(_, o)| !NOT_TAKEN.contains(o));
    let given = taken.filter_map(|(name, option)| {
        let value = std::env::var(name).ok()?;
        let (value, job) = (value.trim(), std::env::var_os("SLURM_JOB_ID"));
        (!value.is_empty() && job.is_none()).then(|| format!("--{option}={value}"))
    });
    given.collect()
}

/// What is said to templates cannot be said to a script.
fn only_scripts(asked: &ScriptCommandLine<'_>) -> Result<(), CommandFailure> {
    let flags = asked.flags;
    let given = [
        ("--dataset", flags.dataset.is_some()),
        ("--override", !flags.overrides.is_empty()),
    ];
    let Some((option, _)) = given.iter().find(|(_, given)| *given) else {
        return Ok(());
    };
    let script = asked.words.first().map_or("", String::as_str);
    Err(CommandFailure::usage(format!(
        "{option} before SCRIPT needs a project file, and {script} is a script"
    ))
    .hint(format!(
        "put the script's own options after it: `{script} {option} …`"
    )))
}

/// What a script asks for that a run cannot be.
pub fn fits_a_run(request: &Request) -> Result<(), CommandFailure> {
    let Some(adoption) = request.adoption() else {
        return Ok(());
    };
    if let Some((option, hint)) = adopt::bad_directive(&adoption.reading) {
        let what = format!("the job requests {option}, which oomctl cannot run");
        return Err(CommandFailure::usage(what).hint(hint));
    }
    if request.inputs().backend != "slurm" && adopt::array(&adoption.reading).is_some() {
        let what = "the job is an array or a task of one, and Slurm is not available here";
        return Err(CommandFailure::usage(what).hint("remove --array"));
    }
    Ok(())
}

/// Refuses a script with options for Slurm where there is no Slurm and nobody asked for this machine: a login node is not to
/// train.
pub fn has_its_scheduler(
    session: &Session,
    flags: &Configuration,
    request: &Request,
) -> Result<(), CommandFailure> {
    let asked = flags.backend.is_some() || session.document.text("backend")?.is_some();
    if request.inputs().backend != "local" || asked {
        return Ok(());
    }
    let asks = match request.adoption() {
        Some(adoption) => !directives(&adoption.reading).is_empty(),
        None => {
            let files = preview::first(request)?;
            files
                .iter()
                .any(|f| f.entry && !script_directives(&f.text).is_empty())
        }
    };
    if !asks {
        return Ok(());
    }
    let what = "the script has #SBATCH lines, and there is no Slurm here: sbatch is not on PATH";
    let hint = "load Slurm, such as `module load slurm`; `--backend local` runs the script on this machine, without what it asks of Slurm";
    Err(CommandFailure::refused(what).hint(hint))
}

/// Prints what would be submitted: a script with its rungs, or the files of a template; and whether Slurm would take it.
pub fn dry_run(session: &Session, request: &Request, json: bool) -> Result<Exit, CommandFailure> {
    match request.inputs().scripts {
        Some(_) => plan(session, request, None, false)?,
        None => preview::show(&preview::first(request)?, json)?,
    }
    let (said, exit) = match queue::tested(session, request) {
        None if request.inputs().backend == "slurm" => {
            let said = "; Slurm did not say whether it would take it";
            (said.to_owned(), Exit::Success)
        }
        None => (String::new(), Exit::Success),
        Some(StartForecast::Refused(why)) => {
            print::warn(&format!(
                "Slurm would refuse this job: {why} (sbatch --test-only)"
            ));
            (String::new(), Exit::Refused)
        }
        Some(_) if request.beyond_time_limit().is_some() => {
            let said = "; Slurm would take it, but not start it: see its time limit above";
            (said.to_owned(), Exit::Refused)
        }
        Some(start) => {
            let when = request::started(Some(&start), Timestamp::now());
            let said = format!("; Slurm would take it: {when} (sbatch --test-only)");
            (said, Exit::Success)
        }
    };
    print::talk(&format!("dry run: nothing was submitted{said}"));
    Ok(exit)
}

/// Prints what an attempt and each rung would change, and when it would start: in a table, or with all that is known.
pub fn plan(
    session: &Session,
    request: &Request,
    queue: Option<StartsView>,
    all: bool,
) -> Result<(), CommandFailure> {
    let scripts = request.inputs().scripts.as_ref();
    let script = scripts.map_or("SCRIPT".to_owned(), Scripts::command);
    if let Some(open) = scripts.and_then(Scripts::unfilled) {
        print::talk(&format!("note: {open}"));
    }
    let mut view = shown(session, request, None);
    view.queue = queue;
    session.show(&view, |view| match all {
        true => view.details(width(std::io::stdout())),
        false => format!(
            "{}\n`oomctl plan --all {script}` shows the diffs and everything that was read\n",
            view.text(width(std::io::stdout()))
        ),
    })
}

/// Columns of a stream; elsewhere than on a terminal a line may be long.
pub(super) fn width(stream: impl IsTerminal + AsFd) -> usize {
    columns_of(stream).unwrap_or(NO_TERMINAL)
}

/// A script as it is shown; `job` is the first attempt, where it was submitted without us.
pub(super) fn shown(session: &Session, request: &Request, job: Option<&str>) -> ScriptView {
    let adoption = request.adoption();
    ScriptView::new(AdoptedScript {
        in_file: job.is_none() || is_in_file(request),
        inputs: request.inputs(),
        preset: request.preset(),
        adoption: adoption.as_ref(),
        absent: adoption
            .as_ref()
            .map_or_else(BTreeMap::new, |adoption| absent(request, adoption)),
        gpu_memory: request.gpu_memory(),
        not_comparable: request.own_facts().err().map(|why| why.to_string()),
        doubts: [
            request.doubts(),
            &request.idle_pins(),
            &Vec::from_iter(request.beyond_time_limit()),
            &match &adoption {
                Some(adoption) if job.is_none() => nodes::refusals(session, request, adoption),
                _ => Vec::new(),
            },
        ]
        .concat(),
        resumes: request.resumes(&[]),
        samples_responses: request.samples_responses(&[]),
        unread: unread(&session.library, request),
        no_model: request
            .without_model()
            .map(str::to_owned)
            .or_else(|| request.uncovered()),
        measure: match request.kept_measurement() {
            Some(_) => None,
            None => measure_command(session, request),
        },
        phantom: request.kept_measurement().cloned(),
        job,
        plan: request.script_plan(1 + u32::from(job.is_some()), program().as_deref()),
    })
}
