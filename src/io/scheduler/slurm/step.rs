//! A program beside what a job runs, once on each of its nodes.

use std::collections::BTreeMap;

use super::super::NoAnswer;
use super::clients::{no_answer, on_cluster};
use super::{Slurm, parse};
use oomctl_base::job::JobRef;
use oomctl_base::word_list;

/// What a program wrote on the nodes of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OnNodes {
    /// Standard output of each that wrote something, in the order of Slurm's tasks.
    pub texts: Vec<String>,
    /// How srun ended, where it did not end well: some nodes may still have answered.
    pub error: Option<String>,
}

impl Slurm {
    /// Runs a program once on each of so many nodes of a running job. The step shares everything with those of the
    /// job, GPUs too, and takes nothing from them.
    ///
    /// # Errors
    /// `NoAnswer` when no node answered before the deadline.
    pub fn on_each_node(
        &self,
        job: &JobRef,
        nodes: usize,
        words: &[String],
    ) -> Result<OnNodes, NoAnswer> {
        if !parse::is_job_id(&job.id.0) {
            return Err(NoAnswer::of(
                "srun",
                format!("{:?} is no Slurm job id", job.id.0),
            ));
        }
        let mut arguments = on_cluster(job.cluster.as_deref());
        arguments.extend([
            format!("--jobid={}", job.id.0),
            format!("--nodes={nodes}"),
            format!("--ntasks={nodes}"),
        ]);
        let rest = word_list::<8>(
            "--overlap --ntasks-per-node=1 --cpus-per-task=1 --mpi=none --input=none --label
             --kill-on-bad-exit=0 --export=ALL",
        );
        arguments.extend(rest.map(str::to_owned));
        arguments.extend_from_slice(words);
        let answer = self.clients.query("srun", &arguments);
        let texts = by_task(&answer.stdout);
        if texts.is_empty() {
            return Err(no_answer("srun", &answer));
        }
        let error = (!answer.is_clean()).then(|| answer.describe());
        Ok(OnNodes { texts, error })
    }
}

/// Takes the lines of `srun --label` apart (`12: text`): those of several tasks come as they come.
fn by_task(text: &str) -> Vec<String> {
    let mut tasks: BTreeMap<u32, String> = BTreeMap::new();
    for line in text.lines() {
        let Some((task, said)) = line.split_once(':') else {
            continue;
        };
        let Ok(task) = task.trim().parse() else {
            continue;
        };
        let whole = tasks.entry(task).or_default();
        whole.push_str(said.strip_prefix(' ').unwrap_or(said));
        whole.push('\n');
    }
    tasks.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::by_task;

    #[test]
    fn lines_of_several_tasks_are_taken_apart() {
        let text = "1: {\n0: {\n 0:   \"a\": 1\n1: }\nslurmstepd: error: x\n0: }\n10: []\n";
        assert_eq!(by_task(text), ["{\n  \"a\": 1\n}\n", "{\n}\n", "[]\n"]);
        assert!(by_task("").is_empty());
    }
}
