//! A job that was submitted with plain sbatch, as the first attempt of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::cli::args::{Backend, Configuration};
use crate::cli::runs::{self, is_job_id};
use crate::cli::script::agree::{agreed, shown_task};
use crate::cli::script::outputs::outputs_of;
use crate::cli::script::read::Shelves;
use crate::cli::script::request::request;
use crate::cli::script::submit::fits_a_run;
use crate::cli::script::submitted::{JobArgs, read};
use crate::cli::session::Session;
use crate::core::adopt::{self, JOB_NUMBER, JobIds};
use crate::core::request::{Adopts, Request, Stacks, Supervision};
use crate::drive::{Handle, Silent};
use crate::io::ledger::{Takeover, owner};
use crate::io::scheduler::slurm::{self, Foreign, Slurm};
use crate::view::{CommandFailure, print};
use oomctl_base::job::JobRef;

/// Seconds for which accounting is asked for the line of a submission. 22.05 takes up to 5.1.
const LATE_S: u32 = 12;

impl JobArgs {
    /// The request as it is agreed to: what may be submitted again is shown, and asked for.
    pub fn agreed(
        &self,
        session: &Session,
        request: Request,
        known: bool,
        id: &str,
    ) -> Result<Request, CommandFailure> {
        if !known || self.watch_only {
            return watching(request);
        }
        fits_a_run(&request)?;
        agreed(session, &shown_task(&request)?, Some(id), self.yes)?;
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
    let slurms = is_job_id(wanted) && !wanted.contains('+') && slurm::available();
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
    if let (Takeover::Forced, Ok(Some(owner))) = (takeover, owner(stored.folder.dir())) {
        print::warn(&format!(
            "run {} is taken from process {} on {}, which may still watch it; that one stops before its next entry",
            stored.history.run, owner.pid, owner.host
        ));
    }
    let mut handle = Handle::open(stored.folder, request, takeover, now)?;
    // A take-over that was cut short: the job is the first attempt, and is not submitted a second time.
    if let Some(adopts) = adopts.filter(|_| handle.history().attempts.is_empty()) {
        attach(&mut handle, adopts)?;
    }
    let attempt = handle.history().attempt();
    let waits = attempt.is_some_and(|a| a.status.as_ref().is_none_or(|s| s.started.is_none()));
    if let Some(why) = handle.request().beyond_time_limit().filter(|_| waits) {
        print::talk(&format!("note: {why}"));
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
    Ok(handle.attach(adopts, Timestamp::now(), &mut Silent)?)
}

/// Takes a job over as the first attempt of a new run.
fn adopt_job(session: &Session, id: &str, taking: &JobArgs) -> Result<Handle, CommandFailure> {
    let slurm = Slurm::new();
    let mut job = JobRef::foreign(id, Timestamp::now());
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
    let shelves = Shelves::of_project(session, taking.preset())?;
    let (read, known) = read(&slurm, &foreign, taking, &shelves)?;
    let mut name = format!("job-{id}");
    if session.runs.dir().join(&name).exists() {
        name = session.runs.new_name(&name)?;
    }
    let request = request(session, &flags, &name, &read, &shelves)?;
    let request = taking.agreed(session, request, known, id)?;
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
        outputs: outputs_of(&foreign, &request),
    };
    let handle = created(session, &name, request, adopts)?;
    print::talk(&format!("job {id} is attempt 1 of the run {name}"));
    Ok(handle)
}

/// A run whose first attempt is a job that was submitted without us.
pub fn created(
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
pub fn told(slurm: &Slurm, job: &JobRef) -> Result<Option<Foreign>, CommandFailure> {
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
pub fn ours(foreign: &Foreign) -> Result<(), CommandFailure> {
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

/// The command that watches a job of a run, where the paths of its logs name the run.
fn where_watched(job: &Foreign) -> String {
    let log = job.logs.as_ref().map(|(out, _)| out.as_path());
    let run = log.and_then(|log| log.parent()?.parent());
    let runs = run
        .and_then(Path::parent)
        .filter(|runs| runs.ends_with(".oomctl/runs"));
    let name = run.and_then(|run| run.file_name()?.to_str());
    match (runs.and_then(|runs| runs.parent()?.parent()), name) {
        (Some(folder), Some(name)) => {
            format!("`cd {}`, then `oomctl watch {name}`", folder.display())
        }
        _ => match job.project() {
            Some(folder) => format!("`cd {}`, then `oomctl watch {}`", folder.display(), job.id),
            None => "watch it in its project's folder, or give that with --config".to_owned(),
        },
    }
}

/// A job that is nobody's run yet, and that can be submitted again by itself.
pub fn free(foreign: &Foreign, taking: &JobArgs) -> Result<(), CommandFailure> {
    let id = &foreign.id;
    if foreign.is_heterogeneous && !taking.watch_only {
        let what = format!(
            "job {id} is heterogeneous: it is several jobs, and oomctl cannot change one of them"
        );
        return Err(CommandFailure::usage(what)
            .hint("--watch-only follows it, says what killed it, and submits nothing"));
    }
    match &foreign.name {
        Some(name) if name.starts_with("oomctl-") => {
            let what = format!("job {id} ({name}) is an attempt of an oomctl run");
            Err(CommandFailure::usage(what).hint(where_watched(foreign)))
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

/// The logs that Slurm names, or else those that the script asks for.
pub fn logs(foreign: &Foreign, request: &Request) -> Vec<PathBuf> {
    let told = foreign.logs.clone().or_else(|| {
        let adoption = request.adoption()?;
        let user = foreign.user.as_deref().unwrap_or_default();
        let (out, err) = adopt::logs(&adoption.reading, &request.inputs().workdir, user);
        let (array, task) = match foreign.id.0.split_once('_') {
            Some((array, task)) => (array, Some(task)),
            None => (foreign.id.0.as_str(), None),
        };
        let ids = JobIds {
            job: match foreign.raw_id.as_str() {
                "" => JOB_NUMBER,
                number => number,
            },
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
