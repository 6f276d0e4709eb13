//! Versions that texts and names of folders hold.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Proximity, VersionStatement};
use crate::core::recipe::Framework;
use oomctl_base::word_list;
use oomctl_diagnose::{Releases, WrittenVersion, same_package, version_in};
use oomctl_scripts::{COMMAND_LINE, Reading, SCRIPT, ScriptSource, Submission};

/// Commands of a script that name what it runs with.
const COMMANDS: [&str; 10] = word_list("module ml pip pip3 uv source . conda mamba micromamba");
/// Those of them that activate an environment by its name.
const CONDAS: [&str; 3] = ["conda", "mamba", "micromamba"];
/// Bytes of a log that are looked at.
pub const MAX_LOG: u64 = 256 << 10;
/// Variables that name the environment which is active, the innermost first.
const ACTIVE: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];
/// What follows the folder of an environment where a script names it.
const ACTIVATE: &str = "/bin/activate";

/// What the scripts name: modules, packages that they install, environments.
pub fn in_scripts(framework: &Framework, reading: &Reading) -> Vec<VersionStatement> {
    let mut told = Vec::new();
    for source in reading.sources.iter().skip(SCRIPT) {
        for (number, line) in source.text.lines().enumerate() {
            let mut words = line.split_whitespace().map(|w| w.trim_matches(['"', '\'']));
            let first = words.clone().next().unwrap_or_default();
            if first.starts_with('#') || !words.any(|word| COMMANDS.contains(&word)) {
                continue;
            }
            told.extend(framework.packages.iter().filter_map(|package| {
                Some(VersionStatement {
                    number: named(line, package, &["==", "/", "-", "_", "@"])?,
                    by: format!("{}:{}", source.path, number + 1),
                    near: Proximity::Words,
                })
            }));
        }
    }
    told
}

/// The beginning or the end of a log.
#[derive(Debug, Clone)]
pub struct LogExcerpt {
    /// The file, or `-`.
    pub path: String,
    /// Whether it is the beginning, so that its lines have numbers.
    pub is_head: bool,
    /// What stands there.
    pub text: String,
}

impl LogExcerpt {
    /// Of bytes that were read.
    pub fn new(path: &Path, bytes: &[u8], is_head: bool) -> Self {
        Self {
            path: path.display().to_string(),
            is_head,
            text: String::from_utf8_lossy(bytes).into_owned(),
        }
    }

    /// A line of it, counted from 0, for people.
    fn place(&self, line: usize) -> String {
        match self.is_head {
            true => format!("{}:{}", self.path, line + 1),
            false => format!("the end of {}", self.path),
        }
    }
}

/// What a log prints: a list of packages, or a line about the version.
pub fn in_log(framework: &Framework, log: &LogExcerpt) -> Vec<VersionStatement> {
    let marks = [
        "==",
        " version: ",
        " version ",
        " info: version=",
        "_version: ",
        ".__version__: ",
        "_version\": \"",
    ];
    let mut told = Vec::new();
    for (number, line) in log.text.lines().enumerate() {
        told.extend(framework.packages.iter().filter_map(|package| {
            Some(VersionStatement {
                number: named(line, package, &marks)
                    .or_else(|| row(line, package))
                    .or_else(|| WrittenVersion::read(version_in(line, package)?))?,
                by: log.place(number),
                near: Proximity::Words,
            })
        }));
    }
    told
}

/// The scripts and programs of a job, as excerpts.
pub fn own_texts(reading: &Reading) -> Vec<LogExcerpt> {
    let own = reading.sources.iter().skip(SCRIPT);
    let excerpt = |source: &ScriptSource| LogExcerpt {
        path: source.path.clone(),
        is_head: true,
        text: source.text.clone(),
    };
    own.map(excerpt).collect()
}

/// The releases that logs and programs can be of, by what leaves the fewest newer ones, and where that stands.
pub fn in_frames(framework: &Framework, logs: &[LogExcerpt]) -> Option<(Releases, String)> {
    let found = logs.iter().filter_map(|log| {
        let mut packages = framework.packages.iter();
        let releases = packages.find_map(|package| Releases::of(package, &log.text))?;
        let by = format!("{} ({})", log.place(releases.line - 1), releases.names);
        Some((releases, by))
    });
    found.min_by_key(|(releases, _)| (releases.newest.is_none(), releases.newest.clone()))
}

/// What is installed in a folder, by the names of what lies in it (`trl-0.20.0.dist-info`).
pub fn installed(framework: &Framework, names: &[String], folder: &str) -> Vec<VersionStatement> {
    let infos = names.iter().filter_map(|n| n.strip_suffix(".dist-info"));
    let told = infos.filter_map(|name| {
        let (package, version) = name.rsplit_once('-')?;
        let mut packages = framework.packages.iter();
        let number = packages
            .any(|known| same_package(known, package))
            .then(|| WrittenVersion::read(version))??;
        Some(VersionStatement {
            number,
            by: format!("{folder}/{name}.dist-info"),
            near: Proximity::Environment,
        })
    });
    told.collect()
}

/// The folders of Python environments that the scripts take over, or start programs of; or else those in which the job
/// is submitted, where it has their variables.
pub fn environments(reading: &Reading, submission: &Submission) -> BTreeSet<String> {
    let named = reading.named.iter().map(|n| &reading.sources[n.file].path);
    let paths = named.chain(&reading.wanted);
    let sourced = paths.filter_map(|path| activated(path));
    let words = reading.calls.iter().flat_map(|call| &call.words);
    let texts = words.filter(|w| w.text.place().is_some_and(|p| p.file != COMMAND_LINE));
    let texts: Vec<String> = texts.filter_map(|w| w.text.known()).collect();
    let run = texts.iter().filter_map(|text| {
        let (folder, program) = text.rsplit_once("/bin/")?;
        (!program.contains('/') && !text.contains([':', '='])).then_some(folder)
    });
    // One that is activated by its name is another than that of conda itself, and, found or not, than the one in which it is submitted.
    let (any, found) = by_name(reading, submission);
    let of_conda = |root: &&str| {
        found
            .iter()
            .any(|f| f.starts_with(&format!("{root}/envs/")))
    };
    let sourced = sourced.filter(|root| !of_conda(root));
    let mut all: BTreeSet<String> = sourced.chain(run).map(str::to_owned).collect();
    all.extend(found);
    if any || !all.is_empty() {
        return all;
    }
    let inherited = |name: &str| {
        let value = submission.variables.get(name);
        value.filter(|_| reading.passed.inherits(name)).cloned()
    };
    active(inherited).into_iter().collect()
}

/// The folder of the environment that a file activates which a script takes over.
pub fn activated(path: &str) -> Option<&str> {
    path.strip_suffix(ACTIVATE)
}

/// The folder of the environment that is active by these variables, the innermost first.
pub fn active(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut folders = ACTIVE.iter().filter_map(|name| variable(name));
    folders.find(|folder| !folder.is_empty())
}

/// Whether scripts activate an environment of conda by its name or path (`conda activate NAME`), and where that may lie: below what
/// conda itself is sourced from, or below the conda of the submission.
///
/// Source: conda/conda docs/source/user-guide/tasks/manage-environments.rst: `conda activate` takes a name or a path; what has a name
/// lies in `envs`.
fn by_name(reading: &Reading, submission: &Submission) -> (bool, Vec<String>) {
    let named = reading.named.iter().map(|n| &reading.sources[n.file].path);
    let sourced = named.chain(&reading.wanted).filter_map(|path| {
        let root = path.strip_suffix("/etc/profile.d/conda.sh");
        root.or_else(|| path.strip_suffix(ACTIVATE))
    });
    let of_submission = ["CONDA_EXE", "CONDA_PREFIX"].iter().filter_map(|name| {
        let value = submission.variables.get(*name)?;
        let root = value.strip_suffix("/bin/conda").unwrap_or(value);
        Some(root.split("/envs/").next().unwrap_or(root))
    });
    let roots: BTreeSet<&str> = sourced.chain(of_submission).collect();
    let (mut any, mut found) = (false, Vec::new());
    for line in reading
        .sources
        .iter()
        .skip(SCRIPT)
        .flat_map(|s| s.text.lines())
    {
        let mut words = line.split_whitespace();
        let activates =
            words.next().is_some_and(|w| CONDAS.contains(&w)) && words.next() == Some("activate");
        let Some(name) = words.next().filter(|_| activates) else {
            continue;
        };
        any = true;
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        match name.starts_with('/') || name.starts_with("./") {
            true => found.push(name.to_owned()),
            false if name == "base" => found.extend(roots.iter().map(|r| (*r).to_owned())),
            false if name.chars().all(plain) => {
                found.extend(roots.iter().map(|root| format!("{root}/envs/{name}")));
            }
            false => {}
        }
    }
    (any, found)
}

/// The version behind a package's name and one of these marks.
pub(super) fn named(line: &str, package: &str, marks: &[&str]) -> Option<WrittenVersion> {
    let lower = line.to_ascii_lowercase();
    let package = package.to_ascii_lowercase();
    let ends = lower.match_indices(&package).filter(|(at, _)| {
        let before = lower[..*at].chars().next_back();
        !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    });
    let mut behind = ends.map(|(at, _)| &lower[at + package.len()..]);
    behind.find_map(|rest| {
        let mut versions = marks.iter().filter_map(|mark| rest.strip_prefix(mark));
        versions.find_map(WrittenVersion::read)
    })
}

/// The version in a row of `pip list` or `conda list`: the package, the version, and what else there is of it.
fn row(line: &str, package: &str) -> Option<WrittenVersion> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let version = words.next()?;
    let whole = version
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '_'));
    // A sentence that begins with the name has no column.
    let column = line.trim_start().get(first.len()..)?.starts_with("  ") || words.next().is_none();
    (whole && column && same_package(first, package)).then(|| WrittenVersion::read(version))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::recipe::PresetFile;

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
        check("pip install trl==0.20.0rc1", "trl", Some("0.20.0rc1"));
        check("module load trl/2024", "trl", None);
    }

    fn framework() -> Framework {
        let text = include_str!("../../../../presets/trl.yaml");
        let file: PresetFile = serde_yaml::from_str(text).unwrap();
        file.framework.unwrap()
    }

    #[test]
    fn an_environment_names_its_packages_with_their_versions() {
        let names = [
            "trl-0.22.1.dist-info".to_owned(),
            "trlx-0.1.0.dist-info".to_owned(),
        ];
        let found = installed(&framework(), &names, "/envs/a");
        let [told] = found.as_slice() else {
            panic!("{found:?}")
        };
        let by = "/envs/a/trl-0.22.1.dist-info says 0.22.1";
        assert_eq!(told.to_string(), by);
    }

    #[test]
    fn lists_of_packages_in_a_log_are_read_and_sentences_are_not() {
        let check = |line: &str, expected: Option<&str>| {
            let log = LogExcerpt::new(Path::new("a.out"), line.as_bytes(), true);
            let found = in_log(&framework(), &log);
            let found = found.first().map(|told| told.number.to_string());
            assert_eq!(found.as_deref(), expected, "{line}");
        };
        check("trl                       0.20.0", Some("0.20.0"));
        check("trl        0.21.0.dev0  /home/ada/trl", Some("0.21.0.dev0"));
        check(
            "trl                       0.20.0                   pypi_0    pypi",
            Some("0.20.0"),
        );
        check("trl 0.20.0", Some("0.20.0"));
        check("TRL==0.20.0", Some("0.20.0"));
        check("trl 0.20.0 is older than what is asked for", None);
        check("trlx        0.7.0", None);
        check("trl         loss 0.20", None);
    }
}
