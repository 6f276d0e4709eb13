//! Whether exit code 0 of the user's scripts says that their program did its work.

use super::origin;
use oomctl_scripts::{Adoption, Call, may_hide};

/// The program whose exit code the scripts may hide; none where they hand it on, as far as is known.
pub fn hidden<'a>(adoption: &'a Adoption<'_>) -> Option<&'a Call> {
    let program = adoption.calls().last().or(adoption.reading.calls.last());
    program.filter(|call| may_hide(&adoption.reading, call))
}

/// The same as a remark before anything has run.
pub fn hidden_remark(adoption: &Adoption<'_>) -> Option<String> {
    let at = origin(&adoption.reading.sources, hidden(adoption)?.start);
    Some(format!(
        "the script may hide the exit code of its program ({at}), so that a failure ends as COMPLETED. `set -eo pipefail` at its head shows it"
    ))
}
