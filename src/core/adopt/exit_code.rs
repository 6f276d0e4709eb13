//! Whether exit code 0 of the user's scripts says that their program did its work.

use super::origin;
use oomctl_scripts::{Adoption, Span, goes_on_to_another, hiding_place};

/// Where the scripts may hide the exit code of their program; none where they hand it on, as far as is known.
pub fn hidden(adoption: &Adoption<'_>) -> Option<Span> {
    let hiding = |call| hiding_place(&adoption.reading, call);
    match adoption.calls().next() {
        Some(_) => adoption.calls().find_map(hiding),
        None => hiding(adoption.reading.calls.last()?),
    }
}

/// Whether the scripts start another program behind theirs, even where that has failed.
pub fn goes_on(adoption: &Adoption<'_>) -> bool {
    let mut programs = adoption.calls();
    programs.any(|program| goes_on_to_another(&adoption.reading, program))
}

/// The same as a remark before anything has run.
pub fn hidden_remark(adoption: &Adoption<'_>) -> Option<String> {
    let at = origin(&adoption.reading.sources, Some(hidden(adoption)?));
    Some(format!(
        "the script may hide the exit code of its program ({at}), so that a failure ends as COMPLETED. `set -eo pipefail` at its head shows it, but not behind `if` or `!`, nor before `&` or `||`"
    ))
}
