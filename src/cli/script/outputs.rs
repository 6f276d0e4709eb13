//! The files into which the program of a job prints that was submitted with plain sbatch.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use crate::cli::script::read::launchers;
use crate::core::adopt::{self, ProgramLog, output_path, readable_outputs};
use crate::core::request::Request;
use crate::io::environment::variables;
use crate::io::library::Library;
use crate::io::program_logs::of_submitted;
use crate::io::scheduler::Scheduler;
use crate::io::scheduler::slurm::{Foreign, Slurm};
use crate::view::print;
use oomctl_base::job::{JobRef, JobStatus};
use oomctl_scripts::OutputFile;

/// What stands for the name of the script.
const SCRIPT: &str = "job.sbatch";

/// The files of a job that becomes a run, and what of them is of this job.
pub fn outputs_of(foreign: &Foreign, request: &Request) -> Vec<ProgramLog> {
    let files = request.outputs();
    if files.is_empty() {
        return Vec::new();
    }
    let job = JobRef::foreign(&foreign.id.0, Timestamp::now());
    let poll = Slurm::new().poll(std::slice::from_ref(&job), Timestamp::now());
    let status = poll.ok().and_then(|poll| poll.jobs.into_iter().next());
    let workdir = Path::new(&request.inputs().workdir);
    told(foreign, workdir, files, status.as_ref())
}

/// The files of a job that nobody watches.
pub fn foreign_outputs(slurm: &Slurm, job: &JobRef, status: Option<&JobStatus>) -> Vec<ProgramLog> {
    let Ok(Some(foreign)) = slurm.foreign(job) else {
        return Vec::new();
    };
    let (Some(text), Some(workdir)) = (&foreign.script, &foreign.workdir) else {
        return Vec::new();
    };
    let scripts = adopt::Scripts {
        script: SCRIPT.to_owned(),
        variables: variables(),
        files: Arc::new(BTreeMap::from([(SCRIPT.to_owned(), text.clone())])),
        launchers: Arc::new(launchers(&Library::new(None)).unwrap_or_default()),
        ..adopt::Scripts::default()
    };
    let submission = scripts.submission();
    let files = readable_outputs(&scripts.read(&submission, &Arc::default()));
    told(&foreign, workdir, files, status)
}

/// What of the files is of this job; those where that is unknown are named.
fn told(
    foreign: &Foreign,
    workdir: &Path,
    files: Vec<OutputFile>,
    status: Option<&JobStatus>,
) -> Vec<ProgramLog> {
    let id = foreign.id.0.as_str();
    let number = Some(foreign.raw_id.as_str()).filter(|number| !number.is_empty());
    let named = files.into_iter().filter_map(|file| {
        let path = Some(output_path(file.path.as_deref()?, id, number)?);
        Some(OutputFile { path, ..file })
    });
    let named: Vec<OutputFile> = named.collect();
    let (logs, unread) = of_submitted(workdir, &named, status);
    for path in unread {
        print::talk(&format!(
            "job {id} appends to {}, which is older than the job. Which part is the job's is unknown, so oomctl does not read it",
            path.display()
        ));
    }
    logs
}
