//! Which version of its framework a script starts, as far as what it imports, it, its environment or its log says.
//!
//! Rule: what is nearest to the import counts, and who disagrees is named. Two that are as near and disagree are none
//! that is known.

mod named;
mod required;
mod tree;

use std::fmt;

use semver::{Op, Version};

use crate::core::recipe::{PresetFile, VersionSpan};
use oomctl_diagnose::{Releases, WrittenVersion};

pub use named::{
    LogExcerpt, MAX_LOG, activated, active, environments, in_frames, in_log, in_scripts, installed,
    own_texts,
};
pub use required::{REQUIREMENTS, in_requirements};
pub use tree::{Tree, files, in_tree, trees};

/// How near what tells a version is to what the job imports, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proximity {
    /// A source tree from which the program imports.
    Imported,
    /// An environment that it runs in.
    Environment,
    /// Words of a script or of a log.
    Words,
    /// A source tree in which it runs, and which may be what is installed.
    Beside,
    /// A file that says what the project asks for, installed or not.
    Required,
}

/// A version that something names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionStatement {
    /// The version.
    pub number: WrittenVersion,
    /// What names it: `file:line`, or a path.
    pub by: String,
    /// How much that is to say.
    pub near: Proximity,
}

impl fmt::Display for VersionStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} says {}", self.by, self.number)
    }
}

/// What is known of a framework's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownVersion {
    /// It is this one. What is less near may say another.
    One(VersionStatement, Option<VersionStatement>),
    /// Two are named that are as near.
    Several(VersionStatement, VersionStatement),
    /// It is this one, of which the preset knows nothing. What is less near may say another.
    Foreign(VersionStatement, Option<VersionStatement>),
    /// Nothing names it, and by a traceback it is one of these; where that stands.
    Among(Releases, String),
    /// Nothing names it.
    Nothing,
}

impl KnownVersion {
    /// What several tellers come to, and where there are none, what tracebacks leave.
    pub fn of(
        file: &PresetFile,
        told: &[VersionStatement],
        frames: Option<(Releases, String)>,
    ) -> Self {
        let nearest = told.iter().min_by_key(|t| t.near);
        // A traceback shows what runs, a requirement what was wished for. A message of PyTorch tells of that only.
        let refuted = |t: &&VersionStatement| {
            let shown = frames.as_ref().map(|(releases, _)| releases);
            let shown = shown.filter(|releases| !releases.of_torch);
            t.near == Proximity::Required && shown.is_some_and(|r| !r.has(&t.number.version))
        };
        let nearest = nearest.filter(|t| !refuted(t));
        let (Some(framework), Some(first)) = (&file.framework, nearest) else {
            return frames.map_or(Self::Nothing, |(releases, by)| Self::Among(releases, by));
        };
        let others = told
            .iter()
            .filter(|t| t.number.version != first.number.version);
        let other = others.min_by_key(|t| t.near).cloned();
        let first = first.clone();
        match other {
            Some(other) if other.near == first.near => Self::Several(first, other),
            other if framework.supported.matches(&first.number.version) => Self::One(first, other),
            other => Self::Foreign(first, other),
        }
    }

    /// The version that the preset is asked for; None where it is to be the newest that it knows.
    pub fn version(&self, file: &PresetFile) -> Option<String> {
        match self {
            Self::One(told, _) => Some(told.number.version.to_string()),
            Self::Foreign(told, _) => {
                let oldest = oldest(file)?;
                (told.number.version < oldest).then(|| oldest.to_string())
            }
            Self::Among(releases, _) => {
                let newest = releases.newest.as_ref()?;
                Some(newest.max(&oldest(file)?).to_string())
            }
            _ => None,
        }
    }

    /// The versions that it can be, where it may be older than the one that the preset is asked for.
    pub fn span(&self, file: &PresetFile) -> Option<VersionSpan> {
        match self {
            Self::Foreign(told, _) => {
                let version = &told.number.version;
                (*version < oldest(file)?).then(|| VersionSpan::just(version))
            }
            Self::Among(releases, _) => Some(VersionSpan {
                oldest: releases.oldest.clone(),
                newest: Some(releases.newest.clone()?),
            }),
            _ => None,
        }
    }

    /// The version that is taken, and why, for people. None for a preset without versions.
    pub fn describe(&self, file: &PresetFile) -> Option<String> {
        let framework = file.framework.as_ref()?;
        let (name, newest) = (&framework.name, &framework.default_version);
        let but = |other: &Option<VersionStatement>| {
            let other = other.as_ref();
            other.map_or_else(String::new, |other| format!(" (but {other})"))
        };
        Some(match self {
            Self::One(VersionStatement { number, by, .. }, other) => {
                let taken = match number.before.as_str() {
                    "" => String::new(),
                    _ => format!(", treated as {}", number.version),
                };
                format!("{name} {number}, as {by} says{}{taken}", but(other))
            }
            Self::Several(a, b) => {
                format!(
                    "{name} version unclear ({a}, {b}); assuming {newest}, the newest supported"
                )
            }
            Self::Foreign(VersionStatement { number, by, .. }, other) => format!(
                "{name} {number}, as {by} says{}, is not supported ({}); assuming {}",
                but(other),
                framework.supported,
                self.version(file).unwrap_or_else(|| newest.to_string())
            ),
            Self::Among(releases, by) => {
                let range = match (&releases.oldest, &releases.newest) {
                    (Some(oldest), Some(last)) if oldest == last => oldest.to_string(),
                    (Some(oldest), Some(last)) => format!("{oldest} to {last}"),
                    (Some(oldest), None) => format!("{oldest} or newer"),
                    (None, Some(last)) => format!("{last} or older"),
                    (None, None) => "of any version".to_owned(),
                };
                let taken = self.version(file).unwrap_or_else(|| newest.to_string());
                let is_old = |(newest, oldest): (&Version, Version)| *newest < oldest;
                let is_old = releases
                    .newest
                    .as_ref()
                    .zip(oldest(file))
                    .is_some_and(is_old);
                let why = if is_old { ", the oldest supported" } else { "" };
                format!("{name} {range}, as {by} shows; assuming {taken}{why}")
            }
            Self::Nothing => format!(
                "{name} version not found; assuming {newest} (--set {}=…)",
                framework.version_key
            ),
        })
    }
}

/// The oldest version that a preset knows.
fn oldest(file: &PresetFile) -> Option<Version> {
    let comparators = &file.framework.as_ref()?.supported.comparators;
    let least = comparators.iter().find(|c| c.op == Op::GreaterEq)?;
    let (minor, patch) = (least.minor.unwrap_or(0), least.patch.unwrap_or(0));
    Some(Version::new(least.major, minor, patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(version: &str, by: &str, near: Proximity) -> VersionStatement {
        VersionStatement {
            number: WrittenVersion::read(version).unwrap(),
            by: by.to_owned(),
            near,
        }
    }

    fn preset() -> PresetFile {
        serde_yaml::from_str(include_str!("../../../../presets/trl.yaml")).unwrap()
    }

    #[test]
    fn what_is_as_near_and_disagrees_is_not_known() {
        let file = preset();
        let words = |version, by| told(version, by, Proximity::Words);
        let one = KnownVersion::of(
            &file,
            &[words("0.20.0", "a:1"), words("0.20.0", "b:1")],
            None,
        );
        assert_eq!(one.version(&file).as_deref(), Some("0.20.0"));
        let two = KnownVersion::of(
            &file,
            &[words("0.20.0", "a:1"), words("0.21.0", "b:1")],
            None,
        );
        assert_eq!(two.version(&file), None);
        assert!(two.describe(&file).unwrap().contains("b:1 says 0.21.0"));
        // Of one that is older, the oldest says most; of a newer one, the newest.
        let old = KnownVersion::of(&file, &[words("0.1.0", "a:1")], None);
        assert_eq!(old.version(&file).as_deref(), Some("0.14.0"));
        assert!(old.describe(&file).unwrap().ends_with("assuming 0.14.0"));
        let new = KnownVersion::of(&file, &[words("99.0.0", "a:1")], None);
        assert_eq!(new.version(&file), None);
    }

    #[test]
    fn a_requirement_is_refuted_by_frames_and_not_by_a_message_of_pytorch() {
        let file = preset();
        let required = [told("0.24.0", "requirements.txt:1", Proximity::Required)];
        let known = |line: &str| {
            let releases = Releases::of("trl", line).map(|shown| (shown, "log".to_owned()));
            KnownVersion::of(&file, &required, releases).version(&file)
        };
        assert_eq!(
            known("9.51 GiB already allocated;").as_deref(),
            Some("0.24.0")
        );
        let frame = "  File \"/e/trl/trainer/grpo_trainer.py\", line 3, in _get_per_token_logps";
        assert_eq!(known(frame).as_deref(), Some("0.19.1"));
    }

    #[test]
    fn what_is_nearest_to_the_import_counts_and_who_disagrees_is_named() {
        let file = preset();
        let all = [
            told("0.20.0", "job.sh:1", Proximity::Words),
            told("0.21.0", "env/trl-0.21.0.dist-info", Proximity::Environment),
            told("0.22.0.dev0", "trl/__init__.py", Proximity::Imported),
        ];
        let known = KnownVersion::of(&file, &all, None);
        assert_eq!(known.version(&file).as_deref(), Some("0.22.0"));
        let said = "TRL 0.22.0.dev0, as trl/__init__.py says (but env/trl-0.21.0.dist-info says 0.21.0), treated as 0.22.0";
        assert_eq!(known.describe(&file).as_deref(), Some(said));
        assert_eq!(
            KnownVersion::of(&file, &all[..2], None)
                .version(&file)
                .as_deref(),
            Some("0.21.0")
        );
    }

    #[test]
    fn what_comes_before_a_release_is_told_with_its_mark() {
        let read = |text| WrittenVersion::read(text).map(|n| n.to_string());
        for (text, expected) in [
            ("0.8.0.dev", Some("0.8.0.dev")),
            ("0.8.0.dev0+g1a2b3c", Some("0.8.0.dev0")),
            ("0.20.0rc1'", Some("0.20.0rc1")),
            ("0.19.1.post2", Some("0.19.1")),
            ("v0.6", Some("0.6.0")),
            ("0.6.*", None),
            ("0.6.0/bin", Some("0.6.0")),
            ("2024", None),
            ("1.2.3.4", None),
        ] {
            assert_eq!(read(text).as_deref(), expected, "{text}");
        }
    }
}
