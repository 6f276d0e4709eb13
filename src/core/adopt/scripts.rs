//! A submission of the user's own as a run stores it: complete in itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::array::is_array;
use crate::core::recipe::{MARK, VersionSpan};
use oomctl_scripts::{
    Adoption, ENVIRONMENT, EvaluationLines, InProgram, KeptMemory, Launchers, SCRIPT, Stack,
    Submission, SubmissionContext,
};

/// The preset of a program that no preset knows: nothing can be moved but what is asked of the scheduler, and the allocators of PyTorch and JAX.
pub const UNKNOWN: &str = "preset: script
summary: A script that starts a program which no preset knows
uses: [slurm, pytorch, jax]
files: []
knobs: []
ladder:
  - rung: expandable-segments
  - rung: larger-jax-pool
  - rung: larger-jax-pool-by-new-name
  - rung: more-host-memory
";

/// How the user submits, and the texts of the scripts as they were then.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Scripts {
    /// Options of sbatch before the script, one argv word each.
    pub options: Vec<String>,
    /// The script, as it was named.
    pub script: String,
    /// What stands behind it.
    pub args: Vec<String>,
    /// Variables of the environment that the scripts use.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// The first job was submitted without oomctl, perhaps with other variables.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_foreign: bool,
    /// Texts by the path that the scripts name them with, relative to the folder in which the job runs.
    pub files: Arc<BTreeMap<String, String>>,
    /// Programs that start others.
    pub launchers: Arc<Launchers>,
    /// Whether the preset of the run is that of the program which the scripts start.
    pub recognised: bool,
    /// What is known of the framework's version, for people, where the scripts are asked for it.
    #[serde(default)]
    pub version: Option<String>,
    /// The versions that it can be, where it may be older than the one that is assumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_span: Option<VersionSpan>,
    /// That version is what the log of an earlier run showed: this one may show another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub version_of_earlier: bool,
    /// Places of the program that keep memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptMemory>,
    /// Lines of the program that evaluate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluations: Vec<EvaluationLines>,
    /// Numbers that its text gives to batches and shares itself.
    #[serde(default, skip_serializing_if = "InProgram::is_empty")]
    pub in_program: InProgram,
    /// The list of the array's tasks, where this is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
}

/// Words for a shell.
pub fn command<'w>(words: impl IntoIterator<Item = &'w String>) -> String {
    let quoted = |word: &String| shlex::try_quote(word).map_or_else(|_| word.clone(), Into::into);
    let words: Vec<String> = words.into_iter().map(quoted).collect();
    words.join(" ")
}

impl Scripts {
    /// The place in the script that still waits for a value, as a sentence.
    pub fn unfilled(&self) -> Option<String> {
        let marked =
            |line: &str| !line.starts_with('#') && line.split_whitespace().any(|word| word == MARK);
        let line = self.files.get(&self.script)?.lines().position(marked)? + 1;
        let script = &self.script;
        Some(format!(
            "{script}:{line} still has {MARK}, for a value that only you know"
        ))
    }

    /// The script with its arguments, for a shell.
    pub fn command(&self) -> String {
        let words = std::iter::once(&self.script).chain(&self.args);
        command(words)
    }

    /// What a run has to keep of a reading.
    pub fn of(submission: &Submission, adoption: &Adoption<'_>, launchers: &Launchers) -> Self {
        let sources = &adoption.reading.sources;
        let used = sources.get(ENVIRONMENT).map_or("", |s| s.text.as_str());
        let entries = used
            .split_terminator('\0')
            .filter_map(|e| e.split_once('='));
        let files = sources.iter().skip(SCRIPT);
        let files = files.map(|s| (s.path.clone(), s.text.clone()));
        let own = adoption.own_text();
        Self {
            options: submission.options.clone(),
            script: submission.script.clone(),
            args: submission.args.clone(),
            variables: entries.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
            is_foreign: submission.is_foreign,
            files: Arc::new(files.collect()),
            launchers: Arc::new(launchers.clone()),
            recognised: adoption.stack.is_some(),
            version: None,
            version_span: None,
            version_of_earlier: false,
            kept: own.kept,
            evaluations: own.evaluations,
            in_program: own.in_program,
            array: None,
        }
    }

    /// How it is submitted.
    pub fn submission(&self) -> Submission {
        Submission {
            options: self.options.clone(),
            script: self.script.clone(),
            args: self.args.clone(),
            variables: self.variables.clone(),
            is_foreign: self.is_foreign,
        }
    }

    /// Do both differ in nothing but the task of the array?
    pub fn are_of_one_array(&self, other: &Self) -> bool {
        let beside = |scripts: &Self| {
            let options = scripts.options.iter();
            options
                .filter(|o| !is_array(o))
                .cloned()
                .collect::<Vec<_>>()
        };
        let rest = Self {
            options: self.options.clone(),
            ..other.clone()
        };
        *self == rest && beside(self) == beside(other)
    }

    /// Reads it again.
    pub fn read<'a>(
        &'a self,
        submission: &'a Submission,
        stacks: &'a Arc<Vec<Stack>>,
    ) -> Adoption<'a> {
        Adoption::read(SubmissionContext {
            submission,
            files: &self.files,
            launchers: &self.launchers,
            stacks,
        })
    }
}
