//! What a job has of the environment in which it is submitted (sbatch's `--export`).

use std::collections::BTreeSet;

use crate::traced::Traced;

/// Which variables a job inherits, and which its submission gives it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passed {
    /// It does not inherit all of them, but these.
    only: Option<BTreeSet<String>>,
    /// Those that the option gives (`--export=ALL,X=1`).
    pub(super) given: Vec<(String, Traced)>,
}

impl Passed {
    /// What the option of the submission says.
    pub(super) fn of(option: &Traced) -> Self {
        let text = option.text();
        let (mut only, mut given, mut at) = (BTreeSet::new(), Vec::new(), 0);
        for word in text.split(',') {
            match word.split_once('=') {
                Some((name, value)) => {
                    let start = at + name.len() + 1;
                    given.push((name.to_owned(), option.slice(start, start + value.len())));
                }
                None => drop(only.insert(word.to_owned())),
            }
            at += word.len() + 1;
        }
        let inherits_all = only.contains("ALL");
        Self {
            only: (!inherits_all).then_some(only),
            given,
        }
    }

    /// Whether the job has a variable of the submission's environment.
    #[must_use]
    pub fn inherits(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(name))
    }
}
