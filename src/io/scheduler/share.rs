//! What a job asks for of each of its nodes, in the options of sbatch.

use oomctl_scripts::Directive;

use super::directives::{place, value_of};

/// What a job asks for of each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeShare {
    pub nodes: u32,
    /// Tasks on each.
    pub tasks: u32,
    /// Cores of all its tasks.
    pub cores: u32,
    pub gpus: u32,
}

impl NodeShare {
    /// What sbatch's options add up to, for a scheduler that counts GPUs of any type.
    ///
    /// # Errors
    /// What cannot be added up, by name and line.
    pub fn of(given: &[Directive], script: &str, target: &str) -> Result<Self, String> {
        let last = |name: &str| given.iter().rev().find(|d| d.option == name);
        let number = |name: &str, none: u32| last(name).map_or(Ok(none), |d| count(d, script));
        let nodes = number("nodes", 1)?.max(1);
        let shared = |all: u32, what: &str| match all.is_multiple_of(nodes) {
            true => Ok(all / nodes),
            false => Err(format!("{all} {what} cannot be shared by {nodes} nodes")),
        };
        let tasks = match last("ntasks-per-node") {
            Some(tasks) => count(tasks, script)?,
            None => shared(number("ntasks", nodes)?, "tasks")?,
        };
        let (mut gpus, mut said) = (0, None);
        for option in [
            "gres",
            "gpus-per-node",
            "gpus-per-task",
            "tres-per-task",
            "gpus",
        ] {
            let Some(directive) = last(option) else {
                continue;
            };
            let here = match (option, gpu_count(directive, script, target)?) {
                ("gpus", all) => shared(all, "GPUs")?,
                ("gpus-per-task" | "tres-per-task", each) => each.saturating_mul(tasks),
                (_, each) => each,
            };
            if said.replace(option).is_some() && here != gpus {
                return Err(format!(
                    "{} asks for another number of GPUs",
                    place(directive, script)
                ));
            }
            gpus = here;
        }
        let cores = number("cpus-per-task", 1)?.saturating_mul(tasks).max(1);
        Ok(Self {
            nodes,
            tasks,
            cores,
            gpus,
        })
    }
}

fn count(directive: &Directive, script: &str) -> Result<u32, String> {
    let number = value_of(directive).and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| format!("{} is no number", place(directive, script)))
}

/// The number in `gpu:4`, `gres/gpu=4` or `4`.
fn gpu_count(directive: &Directive, script: &str, target: &str) -> Result<u32, String> {
    let value = value_of(directive).unwrap_or_default();
    let signs = [':', '='];
    let mine = match directive.option.as_str() {
        "gres" => value.strip_prefix("gpu"),
        "tres-per-task" => value.strip_prefix("gres").and_then(|v| {
            let named = v.strip_prefix(signs).or(v.strip_prefix('/'))?;
            named.strip_prefix("gpu")
        }),
        _ => Some(value.as_str()),
    };
    let number = mine.map(|mine| mine.trim_start_matches(signs));
    match number.map(|number| (number, number.parse())) {
        Some(("", _)) => Ok(1),
        Some((_, Ok(count))) => Ok(count),
        // A type, or another resource.
        _ => Err(format!(
            "{} has no counterpart in {target}, which counts GPUs of any type",
            place(directive, script)
        )),
    }
}
