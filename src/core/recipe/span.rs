//! The versions that a job's framework can be of, where it may be older than the one that is assumed.

use semver::{Comparator, Op, Version, VersionReq};
use serde::{Deserialize, Serialize};

use super::knob::{Knob, VersionedKnob};

/// Versions of a framework, both ends included. An end that is missing is open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionSpan {
    /// The oldest.
    pub oldest: Option<Version>,
    /// The newest.
    pub newest: Option<Version>,
}

/// What a span of versions lacks of a knob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// Whether every version of the span lacks it, not only some.
    pub everywhere: bool,
    /// The knob, with what its preset says of the versions without it.
    pub what: String,
}

impl VersionSpan {
    /// One version.
    pub fn just(version: &Version) -> Self {
        Self {
            oldest: Some(version.clone()),
            newest: Some(version.clone()),
        }
    }

    /// What lacks the knob; `None` where all of these versions have it.
    pub fn lack(&self, knob: &Knob) -> Option<Lack> {
        let absent = knob.by_version.iter().filter(|entry| entry.absent);
        let lacks = |entry: &VersionedKnob| {
            let points = self.points(&entry.versions);
            let without = points.iter().filter(|at| entry.versions.matches(at));
            let without = without.count();
            let note = entry.note.as_deref().unwrap_or("some versions lack it");
            (without > 0).then(|| Lack {
                everywhere: without == points.len(),
                what: format!("{}: {note}", knob.name),
            })
        };
        absent.filter_map(lacks).max_by_key(|lack| lack.everywhere)
    }

    /// Whether all of these versions are older than a range begins.
    pub fn is_below(&self, range: &VersionReq) -> bool {
        let begins = |c: &Comparator| matches!(c.op, Op::Greater | Op::GreaterEq);
        let begin = range.comparators.iter().find(|c| begins(c)).map(least);
        self.newest
            .as_ref()
            .zip(begin)
            .is_some_and(|(newest, begin)| *newest < begin)
    }

    /// The ends, and where the range begins or ends between them.
    fn points(&self, range: &VersionReq) -> Vec<Version> {
        let open = (Version::new(0, 0, 0), Version::new(u64::MAX, 0, 0));
        let oldest = self.oldest.as_ref().unwrap_or(&open.0);
        let newest = self.newest.as_ref().unwrap_or(&open.1);
        let bounds = range.comparators.iter().map(least);
        let within = bounds.filter(|at| oldest < at && at < newest);
        [oldest.clone(), newest.clone()]
            .into_iter()
            .chain(within)
            .collect()
    }
}

/// The least version that a comparator names.
fn least(comparator: &Comparator) -> Version {
    let (minor, patch) = (comparator.minor.unwrap_or(0), comparator.patch.unwrap_or(0));
    Version::new(comparator.major, minor, patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(span: (Option<&str>, Option<&str>), by_version: &str, expected: Option<bool>) {
        let text = format!("{{ name: k, type: bool, doc: A knob., by_version: [{by_version}] }}");
        let knob: Knob = serde_yaml::from_str(&text).unwrap();
        let version = |text: Option<&str>| text.map(|text| Version::parse(text).unwrap());
        let span = VersionSpan {
            oldest: version(span.0),
            newest: version(span.1),
        };
        let lack = span.lack(&knob).map(|lack| lack.everywhere);
        assert_eq!(lack, expected, "{span:?} {by_version}");
    }

    #[test]
    fn a_knob_may_be_missing_in_all_in_some_or_in_none_of_the_versions() {
        let since = "{ versions: '<2.0.0', absent: true }";
        check((None, Some("1.9.0")), since, Some(true));
        check((None, Some("2.0.0")), since, Some(false));
        check((Some("2.0.0"), Some("2.5.0")), since, None);
        check((Some("2.0.0"), None), since, None);
        check((Some("1.0.0"), Some("1.0.0")), since, Some(true));
        let until = "{ versions: '>=3.0.0', absent: true }";
        check((None, Some("2.9.0")), until, None);
        check((Some("2.9.0"), None), until, Some(false));
        check((Some("3.0.0"), None), until, Some(true));
        let between = "{ versions: '>=1.2.0, <1.4.0', absent: true }";
        check((Some("1.0.0"), Some("2.0.0")), between, Some(false));
        check((Some("1.0.0"), Some("2.0.0")), "", None);
        check((None, None), "{ versions: '<2.0.0', default: true }", None);
    }
}
