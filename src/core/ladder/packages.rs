//! Packages that rungs need beside their framework.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::core::recipe::RungSpec;

/// How the remark begins that a step needs a package.
pub const NEEDS_PACKAGE: &str = "needs the package ";

/// The Python environment of the jobs, where all that is installed in it could be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnvironment {
    /// Where it is.
    pub folder: String,
    /// What rungs need and it has not.
    pub lacking: BTreeSet<String>,
}

/// Why a rung cannot run in this environment.
pub(super) fn objection(environment: Option<&JobEnvironment>, rung: &RungSpec) -> Option<String> {
    let JobEnvironment { folder, lacking } = environment?;
    let package = rung.packages.iter().find(|p| lacking.contains(*p))?;
    Some(format!("{package} is not installed in {folder}"))
}

/// What a rung needs, where nobody knows whether it is there.
pub(super) fn remark(environment: Option<&JobEnvironment>, rung: &RungSpec) -> Option<String> {
    let open = environment.is_none() && !rung.packages.is_empty();
    open.then(|| format!("{NEEDS_PACKAGE}{}", rung.packages.join(", ")))
}
