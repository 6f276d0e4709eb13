//! What is asked for on the command line of `oomctl run`.

use std::collections::BTreeMap;

use oomctl_base::Origin;

/// Values of a configuration that a program composes of files: text and place, by the key of a Hydra override.
pub type Composed = BTreeMap<String, (String, Origin)>;

/// What is asked for on the command line of `oomctl run`.
#[derive(Debug, Clone, Default)]
pub struct RunArguments {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How it spells knobs: `batch=training.batch_size`.
    pub spellings: Vec<String>,
    /// What the files say that it composes its configuration of.
    pub composed: Composed,
    /// Environment variables that it will have.
    pub variables: BTreeMap<String, String>,
}
