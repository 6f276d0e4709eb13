//! Knobs that a job's framework may be too old for.
//!
//! Rule: what all versions have that the framework can be goes before what only some have, as long as training stays as it is.

use super::bounds;
use super::context::ClimbContext;
use super::decision::{Change, Step};
use crate::core::recipe::{Lack, RungSpec, VersionSpan};
use oomctl_base::Effect;

/// Why a rung waits for others that keep training as it is.
pub(super) const LATE: &str = "the version of the framework may be older than what it sets";

/// Whether a step keeps training as it is and sets what the framework may be too old for, by what shows its version.
pub(super) fn may_lack(context: &ClimbContext<'_>, step: &Step) -> bool {
    let changed = || step.changes.iter().map(|change| &change.knob);
    let lack = || lack(context, context.versions?, changed());
    step.effect != Effect::ChangesTraining && lack().is_some()
}

/// Why a rung is none of those whose values are chosen freely: the framework may be too old for what it sets.
pub(super) fn objection(context: &ClimbContext<'_>, rung: &RungSpec) -> Option<String> {
    let leading = bounds::leading(context, rung).map(|knob| &knob.name);
    let lack = lack(context, context.versions?, leading)?;
    Some(format!("{}, and the version may be older", lack.what))
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
    let changed = changes.iter().map(|change| &change.knob);
    match span.and_then(|span| lack(context, span, changed)) {
        Some(lack) if lack.everywhere => Err(format!("{}, and the job's is older", lack.what)),
        lack => Ok(lack.map(|lack| format!("{}, and the version is only assumed", lack.what))),
    }
}

/// What these versions lack of the knobs of these names, those that somebody gave left out.
fn lack<'n>(
    context: &ClimbContext<'_>,
    span: &VersionSpan,
    names: impl Iterator<Item = &'n String>,
) -> Option<Lack> {
    let given = |name: &&String| {
        let mut layers = context.layers.iter().chain(context.rungs);
        layers.any(|layer| layer.settings.contains_key(*name))
    };
    let added = names.filter(|name| !given(name));
    let knobs = added.filter_map(|name| context.preset.knob(name));
    // Since when a knob exists is unknown of versions that nobody looked at.
    let framework = context.preset.framework.as_ref();
    let unknown = framework.filter(|f| span.is_below(&f.supported));
    let lacks = knobs.filter_map(|knob| {
        let lack = || {
            let (name, supported) = (&knob.name, &unknown?.supported);
            let what = format!("oomctl knows {name} in {supported} only");
            Some(Lack {
                everywhere: false,
                what,
            })
        };
        span.lack(knob).or_else(lack)
    });
    lacks.max_by_key(|lack| lack.everywhere)
}
