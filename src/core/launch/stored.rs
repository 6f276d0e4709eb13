//! A program as stored with its run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use oomctl_base::Origin;

/// Values of a configuration that a program composes of files: text and place, by the key of a Hydra override.
pub type Composed = BTreeMap<String, (String, Origin)>;

/// A program, as stored with its run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunProgram {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How it spells knobs: `batch=training.batch_size`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spellings: Vec<String>,
    /// What the files say that it composes its configuration of.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub composed: Composed,
    /// The options that it takes, where its text shows all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes: Option<Vec<String>>,
    /// The model of the GPU that its first attempt gets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gpu: String,
}
