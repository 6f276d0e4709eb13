//! Which version of its framework a script starts, as far as it, its environment or its log says.
//!
//! Rule: what is said must agree. Two versions that are named are none that is known.

use std::collections::BTreeSet;

use semver::Version;

use crate::core::patch::{COMMAND_LINE, Reading, SCRIPT};
use crate::core::recipe::{Framework, PresetFile};

/// Commands of a script that name what it runs with.
const COMMANDS: [&str; 10] = [
    "module",
    "ml",
    "pip",
    "pip3",
    "uv",
    "source",
    ".",
    "conda",
    "mamba",
    "micromamba",
];
/// Bytes of a log that are looked at.
pub const MAX_LOG: u64 = 256 << 10;
/// What follows the folder of an environment where a script names it.
const ACTIVATE: &str = "/bin/activate";

/// A version that something names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The version.
    pub version: Version,
    /// What names it: `file:line`, or a path.
    pub by: String,
}

/// What is known of a framework's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// It is this one.
    One(Told),
    /// Two are named.
    Several(Told, Told),
    /// It is this one, of which the preset knows nothing.
    Foreign(Told),
    /// Nothing names it.
    Nothing,
}

impl Known {
    /// What several tellers come to.
    #[must_use]
    pub fn of(file: &PresetFile, told: &[Told]) -> Self {
        let (Some(framework), Some(first)) = (&file.framework, told.first()) else {
            return Self::Nothing;
        };
        let other = told.iter().find(|t| t.version != first.version);
        match other {
            Some(other) => Self::Several(first.clone(), other.clone()),
            None if framework.supported.matches(&first.version) => Self::One(first.clone()),
            None => Self::Foreign(first.clone()),
        }
    }

    /// The version that the preset is asked for; None where it is to be the newest that it knows.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        match self {
            Self::One(told) => Some(told.version.to_string()),
            _ => None,
        }
    }

    /// The version that is taken, and why, for people. None for a preset without versions.
    #[must_use]
    pub fn describe(&self, file: &PresetFile) -> Option<String> {
        let framework = file.framework.as_ref()?;
        let (name, newest) = (&framework.name, &framework.default_version);
        Some(match self {
            Self::One(told) => format!("{name} {}, as {} says", told.version, told.by),
            Self::Several(a, b) => format!(
                "{name}: {} says {}, {} says {}; taken for {newest}, the newest that is known",
                a.by, a.version, b.by, b.version
            ),
            Self::Foreign(told) => format!(
                "{name} {}, as {} says, is none of those that are known ({}); taken for {newest}",
                told.version, told.by, framework.supported
            ),
            Self::Nothing => {
                format!(
                    "{name}: nothing says which version; taken for {newest}, the newest that is known"
                )
            }
        })
    }
}

/// What the scripts name: modules, packages that they install, environments.
#[must_use]
pub fn in_scripts(framework: &Framework, reading: &Reading) -> Vec<Told> {
    let mut told = Vec::new();
    for source in reading.sources.iter().skip(SCRIPT) {
        for (number, line) in source.text.lines().enumerate() {
            let mut words = line.split_whitespace().map(|w| w.trim_matches(['"', '\'']));
            let first = words.clone().next().unwrap_or_default();
            if first.starts_with('#') || !words.any(|word| COMMANDS.contains(&word)) {
                continue;
            }
            told.extend(framework.packages.iter().filter_map(|package| {
                let version = named(line, package, &["==", "/", "-", "_", "@"])?;
                let by = format!("{}:{}", source.path, number + 1);
                Some(Told { version, by })
            }));
        }
    }
    told
}

/// What a log prints: a list of packages, or a line about the version.
#[must_use]
pub fn in_log(framework: &Framework, log: &str, path: &str) -> Vec<Told> {
    let mut told = Vec::new();
    for (number, line) in log.lines().enumerate() {
        told.extend(framework.packages.iter().filter_map(|package| {
            let marks = [
                "==",
                " version: ",
                " version ",
                "_version: ",
                "_version\": \"",
            ];
            let version = named(line, package, &marks)?;
            let by = format!("{path}:{}", number + 1);
            Some(Told { version, by })
        }));
    }
    told
}

/// What is installed in a folder, by the names of what lies in it (`trl-0.20.0.dist-info`).
#[must_use]
pub fn installed(framework: &Framework, names: &[String], folder: &str) -> Vec<Told> {
    let infos = names.iter().filter_map(|n| n.strip_suffix(".dist-info"));
    let told = infos.filter_map(|name| {
        let (package, version) = name.rsplit_once('-')?;
        let plain = |name: &str| name.replace('_', "-").to_ascii_lowercase();
        let same = |known: &String| plain(known) == plain(package);
        let version = framework
            .packages
            .iter()
            .any(same)
            .then(|| number(version))??;
        let by = format!("{folder}/{name}.dist-info");
        Some(Told { version, by })
    });
    told.collect()
}

/// The folders of Python environments that the scripts take over, or start programs of.
#[must_use]
pub fn environments(reading: &Reading) -> BTreeSet<String> {
    let named = reading.named.iter().map(|n| &reading.sources[n.file].path);
    let paths = named.chain(&reading.wanted);
    let activated = paths.filter_map(|path| path.strip_suffix(ACTIVATE));
    let words = reading.calls.iter().flat_map(|call| &call.words);
    let texts = words.filter(|w| w.text.place().is_some_and(|p| p.file != COMMAND_LINE));
    let texts: Vec<String> = texts.filter_map(|w| w.text.known()).collect();
    let run = texts.iter().filter_map(|text| {
        let (folder, program) = text.rsplit_once("/bin/")?;
        (!program.contains('/') && !text.contains([':', '='])).then_some(folder)
    });
    activated.chain(run).map(str::to_owned).collect()
}

/// The version behind a package's name and one of these marks.
fn named(line: &str, package: &str, marks: &[&str]) -> Option<Version> {
    let lower = line.to_ascii_lowercase();
    let package = package.to_ascii_lowercase();
    let ends = lower.match_indices(&package).filter(|(at, _)| {
        let before = lower[..*at].chars().next_back();
        !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    });
    let mut behind = ends.map(|(at, _)| &lower[at + package.len()..]);
    behind.find_map(|rest| {
        let mut versions = marks.iter().filter_map(|mark| rest.strip_prefix(mark));
        versions.find_map(number)
    })
}

/// `0.6.0` in `0.6.0`, `v0.6`, `0.6.0.post1` and `0.6.0/bin`; None where it is longer or is a first try of it (`0.6.0rc1`).
fn number(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let part = rest.starts_with("rc") || rest.starts_with("dev") || rest.starts_with('*');
    let parts: Vec<&str> = digits.trim_end_matches('.').split('.').collect();
    let padded = match parts.as_slice() {
        _ if part => return None,
        [_, _] => format!("{}.0", parts.join(".")),
        [_, _, _] => parts.join("."),
        _ => return None,
    };
    Version::parse(&padded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, package: &str, expected: Option<&str>) {
        let found = named(line, package, &["==", "/", "-", "_", "@", " version "]);
        assert_eq!(found.map(|v| v.to_string()).as_deref(), expected, "{line}");
    }

    #[test]
    fn a_version_is_one_that_stands_behind_the_name() {
        check("module load trl/0.20", "trl", Some("0.20.0"));
        check("pip install 'trl==0.19.1' peft", "trl", Some("0.19.1"));
        check(
            "source /envs/verl-0.6.0/bin/activate",
            "verl",
            Some("0.6.0"),
        );
        check("TRL version 0.20.0 is used", "trl", Some("0.20.0"));
        check("pip install trl==0.19.1.post2", "trl", Some("0.19.1"));
        check("module load vllm-0.8.4-trl", "trl", None);
        check("pip install ctrl==0.1.2", "trl", None);
        check("pip install trl>=0.19", "trl", None);
        check("pip install trl==0.20.0rc1", "trl", None);
        check("module load trl/2024", "trl", None);
    }

    #[test]
    fn what_disagrees_is_not_known() {
        let text = include_str!("../../../presets/trl.yaml");
        let file: PresetFile = serde_yaml::from_str(text).unwrap();
        let told = |version: &str, by: &str| Told {
            version: Version::parse(version).unwrap(),
            by: by.to_owned(),
        };
        let one = Known::of(&file, &[told("0.20.0", "a:1"), told("0.20.0", "b:1")]);
        assert_eq!(one.version().as_deref(), Some("0.20.0"));
        let two = Known::of(&file, &[told("0.20.0", "a:1"), told("0.21.0", "b:1")]);
        assert_eq!(two.version(), None);
        assert!(two.describe(&file).unwrap().contains("b:1 says 0.21.0"));
        let old = Known::of(&file, &[told("0.1.0", "a:1")]);
        assert_eq!(old.version(), None);
        let names = [
            "trl-0.22.1.dist-info".to_owned(),
            "trlx-0.1.0.dist-info".to_owned(),
        ];
        let framework = file.framework.as_ref().unwrap();
        let found = installed(framework, &names, "/envs/a");
        assert_eq!(found, [told("0.22.1", "/envs/a/trl-0.22.1.dist-info")]);
    }
}
