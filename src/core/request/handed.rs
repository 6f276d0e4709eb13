//! What the scheduler is handed beside the files of an attempt.

use std::collections::BTreeMap;

use super::request::Request;
use crate::core::adopt;
use crate::core::launch::GpuWish;
use crate::core::recipe::{Layer, LayerKind};
use oomctl_base::{Origin, Refusal, Role, Value};
use oomctl_scripts::{option_words, script_directives};

/// What the scheduler is handed with an attempt's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handed {
    /// Further options for the scheduler, one argv word each.
    pub options: Vec<String>,
    /// Arguments of the script; of a program its command.
    pub arguments: Vec<String>,
    /// Which of the environment the job gets, where that is not all of it.
    pub export: Option<String>,
    /// Standard error goes with standard output.
    pub one_log: bool,
    /// Variables of the environment that are other than those of the submission.
    pub variables: BTreeMap<String, String>,
    /// What a program that is started here asks of the GPUs of this machine.
    pub gpu: Option<GpuWish>,
}

/// Where the user looks for the logs of a job. None where that cannot be told, or both go together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogLinks {
    /// Path of standard output.
    pub stdout: Option<String>,
    /// Path of standard error.
    pub stderr: Option<String>,
    /// Standard error goes with standard output.
    pub one_log: bool,
}

impl Request {
    /// What the scheduler is handed beside the files, which lie in the folder `dir`.
    ///
    /// # Errors
    /// When it is no legal configuration.
    pub fn handed(&self, rungs: &[Layer], dir: &str) -> Result<Handed, Refusal> {
        if let Some(command) = self.command() {
            return self.command_handed(command, rungs, dir);
        }
        let own = self.own_handed(rungs)?;
        Ok(own.unwrap_or_else(|| Handed {
            options: self.inputs().sbatch.clone(),
            ..Handed::default()
        }))
    }

    /// Does the job's script give sbatch one of these options, or what is handed on to sbatch begin with one of these words?
    pub fn gives_sbatch(&self, options: &[&str], words: &[&str]) -> bool {
        let own = self.adoption();
        let handed = |word: &String| words.iter().any(|w| word.starts_with(w));
        own.is_some_and(|a| adopt::gives(&a.reading, options))
            || self.inputs().sbatch.iter().any(handed)
    }

    /// The clusters to which the job's script, or what is handed on to sbatch, sends it (`--clusters`). The scripts are not read whole.
    pub fn clusters(&self) -> Vec<String> {
        let scripts = self.inputs().scripts.as_ref();
        let text = scripts.and_then(|s| s.files.get(&s.script));
        let mut all = text.map_or_else(Vec::new, |text| script_directives(text));
        all.extend(scripts.map_or_else(Vec::new, |s| option_words(&s.options)));
        all.extend(option_words(&self.inputs().sbatch));
        let given = all.into_iter().rev().find(|d| d.option == "clusters");
        let names = given.and_then(|given| given.value?.known());
        let names = names.iter().flat_map(|names| names.split(','));
        names.map(str::to_owned).collect()
    }

    /// The layer that keeps attempt number `attempt` away from these nodes; `None` where the stack has no knob for that, and
    /// where the job names its nodes: then Slurm would refuse it without them.
    pub fn exclude(&self, rungs: &[Layer], nodes: &[String], attempt: u32) -> Option<Layer> {
        if self.gives_sbatch(&["nodelist", "nodefile"], &["--nodelist", "-w"]) {
            return None;
        }
        let knob = self.preset().with_role(Role::ExcludedNodes).next()?;
        let shape = self.shape(rungs).ok()?;
        let value = excluded(shape.recipe().value(&knob.name), nodes)?;
        let mut layer = Layer::new(LayerKind::Rung);
        let origin = Origin::Rung {
            rung: "another node".to_owned(),
            attempt,
        };
        layer.set(&knob.name, value, origin);
        Some(layer)
    }
}

/// The nodes that were excluded before, and these, in the form that the knob has; `None` when they
/// are all in it.
fn excluded(before: &Value, nodes: &[String]) -> Option<Value> {
    let mut names: Vec<String> = match before {
        Value::Text(text) => text.split(',').map(str::to_owned).collect(),
        Value::List(list) => list.clone(),
        _ => Vec::new(),
    };
    let known = names.len();
    for node in nodes {
        if !names.contains(node) {
            names.push(node.clone());
        }
    }
    names.retain(|n| !n.is_empty());
    let grown = names.len() > known;
    grown.then(|| match before {
        Value::List(_) => Value::List(names),
        _ => Value::Text(names.join(",")),
    })
}
