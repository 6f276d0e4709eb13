//! What a literal of a script is used for.

use super::traced::{PartOrigin, Span, Traced};
use super::walk::Reading;

/// Whether a literal, on the way `uses` so far, goes on to anything but the values that change.
pub(super) fn serves_others(
    reading: &Reading,
    literal: Span,
    uses: &[Span],
    ours: &[(Span, Vec<Span>)],
) -> bool {
    let here = |span: &Span| {
        span.file == literal.file
            && span.start < literal.end.max(literal.start + 1)
            && literal.start < span.end.max(span.start + 1)
    };
    let on_the_way = |way: &[Span]| way.starts_with(uses);
    let mut others = reading.uses.iter();
    reading.cut
        || others.any(|(span, way)| {
            let known = |(own, all): &(Span, Vec<Span>)| here(own) && all.starts_with(way);
            here(span) && on_the_way(way) && !ours.iter().any(known)
        })
}

/// The literals of a value, each with the places at which it was used, the innermost first.
pub(super) fn ways(value: &Traced) -> Vec<(Span, Vec<Span>)> {
    let parts = value.parts().iter();
    let literal = parts.filter_map(|part| match part.from {
        PartOrigin::Literal { span, .. } => {
            Some((span, part.via.iter().rev().map(|u| u.span).collect()))
        }
        PartOrigin::Computed { .. } => None,
    });
    literal.collect()
}
