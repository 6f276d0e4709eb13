//! A job that was submitted with plain sbatch, as the first attempt of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::cli::args::{Backend, Configuration, sbatch_option};
use crate::cli::runs;
use crate::cli::script::arguments::SlurmCommandLine;
use crate::cli::script::read::{Read, Shelves, script};
use crate::cli::script::request::request;
use crate::cli::script::submit::{agreed, fits_a_run};
use crate::cli::session::Session;
use crate::core::adopt::{self, JobIds, LogPattern, is_array};
use crate::core::request::{Adopts, Request, Stacks, Supervision};
use crate::drive::{Handle, Silent};
use crate::io::environment::variables;
use crate::io::ledger::Takeover;
use crate::io::scheduler::slurm::{Foreign, Slurm, bad_option};
use crate::io::scheduler::slurm_is_here;
use crate::io::window::log_head;
use crate::view::{CommandFailure, print};
use oomctl_base::job::{JobId, JobRef};
use oomctl_scripts::{Submission, split_line};

/// The name of a script that was handed to sbatch on its standard input, or with `--wrap`.
const UNNAMED: &str = "job.sbatch";
/// Seconds for which accounting is asked for the line of a submission. 22.05 takes up to 5.1.
const LATE_S: u32 = 12;
/// What stands for a script that nobody has any more.
const NOTHING: &str = "#!/bin/sh\n";

/// How a job that was not submitted with oomctl is taken over.
#[derive(Debug, clap::Args)]
pub struct JobArgs {
    /// Of a job that was submitted without oomctl: its script, where Slurm has not kept it
    #[arg(long, value_name = "PATH")]
    script: Option<PathBuf>,
    /// With a job id: an option that sbatch was given, if Slurm does not report it (repeatable)
    #[arg(long, value_name = "OPT", allow_hyphen_values = true, value_parser = sbatch_option)]
    sbatch: Vec<String>,
    /// Of such a job: the preset of its program, instead of the one that it is recognised by
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Take what would be changed after a failure of such a job for agreed to
    #[arg(short, long)]
    yes: bool,
    /// Follow and diagnose such a job, and submit nothing
    #[arg(long, conflicts_with = "yes")]
    watch_only: bool,
}

impl JobArgs {
    /// The preset of its program.
    pub(super) fn preset(&self) -> Option<&str> {
        self.preset.as_deref()
    }

    /// The request as it is agreed to: what may be submitted again is shown, and asked for.
    pub(super) fn agreed(
        &self,
        request: Request,
        known: bool,
        id: &str,
    ) -> Result<Request, CommandFailure> {
        if known {
            fits_a_run(&request)?;
        }
        if !known || self.watch_only {
            return watching(request);
        }
        agreed(&request, Some(id), self.yes)?;
        Ok(request)
    }
}

/// A run of the project, or a job that was submitted without oomctl, which becomes one; with its backend.
pub fn open(
    session: &Session,
    wanted: &str,
    args: &JobArgs,
    takeover: Takeover,
    stacks: &mut Stacks,
) -> Result<(Handle, String), CommandFailure> {
    let slurms = is_job_id(wanted) && slurm_is_here();
    let stored = match session.runs.find(wanted) {
        Ok(stored) if slurms && is_of_another(&stored, wanted) => {
            print::talk(&format!(
                "job {wanted} is not the job of run {}: Slurm has reused its id",
                stored.history.run
            ));
            return Ok((adopt_job(session, wanted, args)?, "slurm".to_owned()));
        }
        Ok(stored) => stored,
        Err(_) if slurms => {
            return Ok((adopt_job(session, wanted, args)?, "slurm".to_owned()));
        }
        Err(failure) => return Err(failure),
    };
    let request = stored.sharing(stacks)?;
    let backend = request.inputs().backend.clone();
    let adopts = request.inputs().adopts.clone();
    let now = Timestamp::now();
    let mut handle = Handle::open(stored.folder, request, takeover, now)?;
    // A take-over that was cut short: the job is the first attempt, and is not submitted a second time.
    if let Some(adopts) = adopts.filter(|_| handle.history().attempts.is_empty()) {
        attach(&mut handle, adopts)?;
    }
    Ok((handle, backend))
}

/// Is the job that has this id now another one than that of the run which knows the id?
fn is_of_another(stored: &runs::Stored, id: &str) -> bool {
    let attempts = stored.history.attempts.iter().rev();
    let mut jobs = attempts.filter_map(|a| Some((a.job.as_ref()?, a.restarts)));
    let known = jobs.find(|(job, _)| job.id.0 == id);
    known.is_some_and(|(job, restarts)| Slurm::new().has_given_again(job, restarts))
}

fn attach(handle: &mut Handle, adopts: Adopts) -> Result<(), CommandFailure> {
    let Adopts { job, gpus, logs } = adopts;
    Ok(handle.attach(job, gpus, logs, Timestamp::now(), &mut Silent)?)
}

/// Whether this can be the id of a job.
fn is_job_id(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_digit() || b == b'_';
    text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(plain)
}

/// Takes a job over as the first attempt of a new run.
fn adopt_job(session: &Session, id: &str, taking: &JobArgs) -> Result<Handle, CommandFailure> {
    let slurm = Slurm::new();
    let mut job = JobRef {
        id: JobId(id.to_owned()),
        cluster: None,
        token: None,
        submitted: Timestamp::now(),
    };
    let Some(foreign) = told(&slurm, &job)? else {
        let what = format!("no run named {id}, and Slurm knows no such job (or has forgotten it)");
        return Err(CommandFailure::usage(what).hint("`oomctl diagnose LOG` says what killed it"));
    };
    ours(&foreign)?;
    free(&foreign, taking)?;
    job.submitted = foreign.submitted.unwrap_or(job.submitted);
    let flags = Configuration {
        backend: Some(Backend::Slurm),
        ..Configuration::default()
    };
    let shelves = Shelves::of(&session.library, taking.preset())?;
    let (read, known) = read(&slurm, &foreign, taking, &shelves)?;
    let mut name = format!("job-{id}");
    if session.runs.dir().join(&name).exists() {
        name = session.runs.new_name(&name)?;
    }
    let request = request(session, &flags, &name, &read, &shelves)?;
    let request = taking.agreed(request, known, id)?;
    let logs = logs(&foreign, &request);
    if logs.is_empty() {
        print::talk(&format!(
            "the log of job {id} was not found; only its state is followed"
        ));
    }
    let adopts = Adopts {
        job,
        gpus: foreign.gpus,
        logs,
    };
    let handle = created(session, &name, request, adopts)?;
    print::talk(&format!("job {id} is attempt 1 of the run {name}"));
    Ok(handle)
}

/// A run whose first attempt is a job that was submitted without us.
pub(super) fn created(
    session: &Session,
    name: &str,
    request: Request,
    adopts: Adopts,
) -> Result<Handle, CommandFailure> {
    let request = request.adopting(adopts.clone());
    let mut handle = session.runs.create(name, request)?;
    attach(&mut handle, adopts)?;
    Ok(handle)
}

/// What Slurm says of a job, with the line of its submission, which accounting writes down a little late.
pub(super) fn told(slurm: &Slurm, job: &JobRef) -> Result<Option<Foreign>, CommandFailure> {
    let ask = || {
        let told = slurm.foreign(job);
        told.map_err(|e| CommandFailure::refused(format!("job {}: {e}", job.id)))
    };
    let mut foreign = ask()?;
    for _ in 0..LATE_S {
        if !foreign.as_ref().is_some_and(|f| f.is_late) {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
        foreign = ask()?;
    }
    Ok(foreign)
}

/// A job of somebody else is left alone.
pub(super) fn ours(foreign: &Foreign) -> Result<(), CommandFailure> {
    let uid = rustix::process::getuid().as_raw();
    match foreign.uid {
        Some(theirs) if theirs != uid => {
            let whose = foreign.user.clone().unwrap_or_else(|| theirs.to_string());
            let id = &foreign.id;
            let what = format!("job {id} belongs to {whose}, and only its owner can resubmit it");
            Err(CommandFailure::usage(what).hint(format!(
                "if you may read its log, `oomctl diagnose {id}` says what killed it"
            )))
        }
        _ => Ok(()),
    }
}

/// A job that is nobody's run yet, and that can be submitted again by itself.
pub(super) fn free(foreign: &Foreign, taking: &JobArgs) -> Result<(), CommandFailure> {
    let id = &foreign.id;
    if foreign.is_heterogeneous && !taking.watch_only {
        let what = format!(
            "job {id} is heterogeneous: several jobs with requests of their own, of which oomctl cannot change one"
        );
        return Err(CommandFailure::usage(what)
            .hint("--watch-only follows it, says what killed it, and submits nothing"));
    }
    match &foreign.name {
        Some(name) if name.starts_with("oomctl-") => {
            let what = format!("job {id} ({name}) is an attempt of an oomctl run");
            Err(CommandFailure::usage(what)
                .hint("watch it in its project's folder, or give that with --config"))
        }
        _ => Ok(()),
    }
}

/// The same request for a run that is followed and told of, and not submitted again.
fn watching(request: Request) -> Result<Request, CommandFailure> {
    let mut inputs = request.inputs().clone();
    inputs.supervision = Supervision {
        resubmit: false,
        ..inputs.supervision
    };
    Ok(Request::new(inputs)?)
}

/// The submission as far as it can be found, and whether the script is.
pub(super) fn read(
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
    };
    let text = text.unwrap_or_else(|| NOTHING.to_owned());
    let mut read = Read::new(submission, text, workdir, shelves);
    let head = foreign.logs.as_ref().and_then(|(out, _)| log_head(out));
    read.logs = head.into_iter().collect();
    Ok((read, known))
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

/// The logs that Slurm names, or else those that the script asks for.
pub(super) fn logs(foreign: &Foreign, request: &Request) -> Vec<PathBuf> {
    let told = foreign.logs.clone().or_else(|| {
        let adoption = request.adoption()?;
        let user = foreign.user.as_deref().unwrap_or_default();
        let (out, err) = adopt::logs(&adoption.reading, &request.inputs().workdir, user);
        let unnamed = |p: &LogPattern| foreign.raw_id.is_empty() && p.names_job();
        let named = !out.iter().chain(&err).any(unnamed);
        let (out, err) = named.then_some((out, err))?;
        let (array, task) = match foreign.id.0.split_once('_') {
            Some((array, task)) => (array, Some(task)),
            None => (foreign.id.0.as_str(), None),
        };
        let ids = JobIds {
            job: &foreign.raw_id,
            array,
            task,
        };
        let out = PathBuf::from(out?.path(&ids));
        let err = err.map(|e| PathBuf::from(e.path(&ids)));
        Some((out.clone(), err.unwrap_or(out)))
    });
    let Some((out, err)) = told else {
        return Vec::new();
    };
    match out == err {
        true => vec![out],
        false => vec![err, out],
    }
}
