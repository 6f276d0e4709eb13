//! The kinds of failure and what each means: one row a kind, in `presets/signatures/kinds.yaml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::class::{Class, Tri};
use super::tables::{read, table};

/// What follows from a kind when nothing else is known.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailureKind {
    #[serde(rename = "kind")]
    pub name: String,
    pub class: Class,
    /// Would the same job, unchanged, have a fair chance?
    pub retryable_unchanged: Option<bool>,
    /// Phase when no frame tells it.
    pub phase: Option<String>,
    /// For people, in a headline.
    pub words: String,
    /// Overrides what the class says.
    is_gpu_oom: Option<Tri>,
}

impl FailureKind {
    pub(crate) fn is_gpu_oom(&self) -> Tri {
        let of_class = matches!(self.class, Class::GpuOom | Class::EngineMemory);
        self.is_gpu_oom.unwrap_or(Tri::of(of_class))
    }

    pub(crate) fn is_host_oom(&self) -> Tri {
        Tri::of(self.class == Class::HostOom)
    }
}

/// Every kind.
pub(crate) static KINDS: LazyLock<Vec<FailureKind>> = LazyLock::new(|| read(table!("kinds")));

/// The row of a kind that is in the table.
pub(crate) fn known(name: &str) -> Option<&'static FailureKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// The row of a kind; that of `other` for a name that is not in the table.
pub(crate) fn row(name: &str) -> &'static FailureKind {
    let found = known(name).or_else(|| known("other"));
    found.expect("the table has `other`, as its test sees")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_fallback_is_other() {
        let mut names: Vec<_> = KINDS.iter().map(|k| &k.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len());
        assert_eq!(row("never heard of").name, "other");
    }
}
