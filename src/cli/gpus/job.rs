//! `oomctl gpus --job`: the GPUs on the nodes of a Slurm job.

use jiff::Timestamp;

use crate::core::exit::Exit;
use crate::io::sampler::program;
use crate::io::scheduler::slurm::Slurm;
use crate::io::scheduler::{NoAnswer, Scheduler};
use crate::view::gpus_view::{GpusStyle, GpusView, JobGpusView};
use crate::view::{CommandFailure, print};
use oomctl_base::job::{JobRef, JobState};

/// Runs this program on each node of the job, and shows what it says there.
pub fn show(id: &str, json: bool) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    let job = JobRef::foreign(id, now);
    let mut slurm = Slurm::new();
    let nodes = nodes(&mut slurm, &job, now)?;
    let program = program().unwrap_or_else(|| "oomctl".to_owned());
    let words = [program, "gpus".to_owned(), "--json".to_owned()];
    let answer = slurm
        .on_each_node(&job, nodes.len(), &words)
        .map_err(|e| no_answer(id, &e))?;
    let view = merged(id, &nodes, &answer.texts, answer.error);
    let look = GpusStyle {
        unicode: print::unicode(),
        history: None,
    };
    print::show(json, &view, |view| view.text(look))?;
    match &view.error {
        None => Ok(Exit::Success),
        Some(error) => Err(CommandFailure::refused(error.clone())),
    }
}

fn no_answer(id: &str, error: &NoAnswer) -> CommandFailure {
    CommandFailure::refused(format!("the nodes of job {id} do not answer: {error}"))
        .hint("oomctl must be at the same path on the nodes, for example in a shared home")
}

fn nodes(slurm: &mut Slurm, job: &JobRef, now: Timestamp) -> Result<Vec<String>, CommandFailure> {
    let id = &job.id;
    let poll = slurm
        .poll(std::slice::from_ref(job), now)
        .map_err(|e| CommandFailure::refused(format!("Slurm does not answer: {e}")))?;
    match poll.jobs.into_iter().find(|status| status.id == *id) {
        Some(status) if status.state == JobState::Running && !status.nodes.is_empty() => {
            Ok(status.nodes)
        }
        Some(status) => Err(CommandFailure::usage(format!(
            "job {id} is {}: it has no nodes",
            status.state.word()
        ))),
        None => Err(CommandFailure::usage(format!(
            "Slurm does not know job {id} (or has forgotten it)"
        ))
        .hint("`squeue --me` lists those that run")),
    }
}

/// The nodes in the order of the job's list, and what is missing.
fn merged(id: &str, names: &[String], texts: &[String], error: Option<String>) -> JobGpusView {
    let read = |text: &String| serde_json::from_str::<GpusView>(text).ok();
    let mut nodes: Vec<GpusView> = texts.iter().filter_map(read).collect();
    let place = |view: &GpusView| {
        names
            .iter()
            .position(|name| Some(name) == view.node.as_ref())
    };
    nodes.sort_by_key(|view| place(view).unwrap_or(usize::MAX));
    let silent: Vec<&str> = names
        .iter()
        .filter(|name| !nodes.iter().any(|view| view.node.as_ref() == Some(name)))
        .map(String::as_str)
        .collect();
    let error = match (silent.as_slice(), error) {
        ([], error) => error,
        (silent, why) => {
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            Some(format!("no answer from {}{why}", silent.join(", ")))
        }
    };
    JobGpusView {
        schema_version: 1,
        job: id.to_owned(),
        nodes,
        error,
    }
}
