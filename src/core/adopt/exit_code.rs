//! Whether exit code 0 of the user's scripts says that their program did its work.

use super::origin;
use oomctl_scripts::{Adoption, Span, hiding_place};

/// Where the scripts may hide the exit code of their program; none where they hand it on, as far as is known.
pub fn hidden(adoption: &Adoption<'_>) -> Option<Span> {
    let program = adoption.calls().last().or(adoption.reading.calls.last());
    hiding_place(&adoption.reading, program?)
}

/// The same as a remark before anything has run.
pub fn hidden_remark(adoption: &Adoption<'_>) -> Option<String> {
    let at = origin(&adoption.reading.sources, Some(hidden(adoption)?));
    Some(format!(
        "the script may hide the exit code of its program ({at}), so that a failure ends as COMPLETED. `set -eo pipefail` at its head shows it"
    ))
}
