//! Knobs that a job's framework may be too old for.
//!
//! Rule: what all versions have that the framework can be goes before what only some have, as long as training stays as it is.

use super::context::ClimbContext;
use super::decision::{Change, Step};
use crate::core::recipe::{Lack, VersionSpan};
use oomctl_base::Effect;

/// Why a rung waits for others that keep training as it is.
pub(super) const LATE: &str = "the version of the framework may be older than what it sets";

/// Whether a step keeps training as it is and sets what the framework may be too old for, by what shows its version.
pub(super) fn may_lack(context: &ClimbContext<'_>, step: &Step) -> bool {
    let lack = || lack(context, context.versions?, &step.changes);
    step.effect != Effect::ChangesTraining && lack().is_some()
}

/// A remark where some of the versions that the framework can be lack what is added.
///
/// # Errors
/// All of them do.
pub(super) fn remark(
    context: &ClimbContext<'_>,
    changes: &[Change],
) -> Result<Option<String>, String> {
    let any = VersionSpan::default();
    let assumed = context.preset.version_is_assumed.then_some(&any);
    let span = context.versions.or(assumed);
    match span.and_then(|span| lack(context, span, changes)) {
        Some(lack) if lack.everywhere => Err(format!("{}, and the job's is older", lack.what)),
        lack => Ok(lack.map(|lack| format!("{}, and the version is unknown", lack.what))),
    }
}

/// What these versions lack of what is added.
fn lack(context: &ClimbContext<'_>, span: &VersionSpan, changes: &[Change]) -> Option<Lack> {
    let given = |name: &str| {
        let mut layers = context.layers.iter().chain(context.rungs);
        layers.any(|layer| layer.settings.contains_key(name))
    };
    let added = changes.iter().filter(|change| !given(&change.knob));
    let knobs = added.filter_map(|change| context.preset.knob(&change.knob));
    let lacks = knobs.filter_map(|knob| span.lack(knob));
    lacks.max_by_key(|lack| lack.everywhere)
}
