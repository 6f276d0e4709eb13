//! Releases that a traceback can be of: it names files and functions that only some of them have.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use semver::Version;
use serde::Deserialize;

use super::tables::{read, table};

/// A file, or a function in it, and the releases that have it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// From the package on; a folder ends in `/`.
    file: String,
    #[serde(default)]
    function: Option<String>,
    #[serde(default)]
    oldest: Option<Version>,
    #[serde(default)]
    newest: Option<Version>,
}

static ROWS: LazyLock<BTreeMap<String, Vec<Row>>> = LazyLock::new(|| read(table!("releases")));

/// The releases of a package that a text can be of, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Releases {
    /// The first of them; `None` where none is too old.
    pub oldest: Option<Version>,
    /// The last of them; `None` where none is too new.
    pub newest: Option<Version>,
    /// The line that leaves the fewest newer ones, or else the fewest older ones; the first is 1.
    pub line: usize,
    /// What it names.
    pub names: String,
}

impl Releases {
    /// Whether a version is one of them.
    pub fn has(&self, version: &Version) -> bool {
        let too_old = self.oldest.as_ref().is_some_and(|oldest| version < oldest);
        let too_new = self.newest.as_ref().is_some_and(|newest| newest < version);
        !too_old && !too_new
    }

    /// By the tracebacks in a text. `None` where they name nothing that tells, or contradict each other.
    pub fn of(package: &str, text: &str) -> Option<Self> {
        let rows = ROWS.get(package)?;
        let mut found: Vec<(usize, &Row)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            found.extend(
                rows.iter()
                    .filter(|r| r.is_in(line))
                    .map(|r| (number + 1, r)),
            );
        }
        let newest = found.iter().filter(|(_, row)| row.newest.is_some());
        let newest = newest.min_by_key(|(_, row)| &row.newest);
        let oldest = found.iter().filter(|(_, row)| row.oldest.is_some());
        let oldest = oldest.max_by_key(|(_, row)| &row.oldest);
        let (line, row) = newest.or(oldest)?;
        let all = Self {
            oldest: oldest.and_then(|(_, row)| row.oldest.clone()),
            newest: newest.and_then(|(_, row)| row.newest.clone()),
            line: *line,
            names: row.function.as_ref().unwrap_or(&row.file).clone(),
        };
        let ends = all.oldest.as_ref().zip(all.newest.as_ref());
        ends.is_none_or(|(oldest, newest)| oldest <= newest)
            .then_some(all)
    }
}

impl Row {
    /// Whether a line is a frame of it: `File "…/FILE", line 3, in FUNCTION`, or `…/FILE:3 in FUNCTION`.
    fn is_in(&self, line: &str) -> bool {
        let Some((before, rest)) = line.split_once(&self.file) else {
            return false;
        };
        let path_ends = |c: char| c == '"' || c == ':' || c.is_whitespace();
        let (path, behind) = rest.split_at(rest.find(path_ends).unwrap_or(rest.len()));
        let is_file = path.is_empty() || (self.file.ends_with('/') && path.ends_with(".py"));
        let is_of_package = before.is_empty() || before.ends_with(['/', '"', ' ']);
        let is_frame = behind.starts_with("\", line ") || behind.starts_with(':');
        let function = behind.split_once(" in ").map_or("", |(_, named)| named);
        let ends = |c: char| !(c.is_alphanumeric() || c == '_' || c == '.');
        let function = function.split(ends).next().unwrap_or_default();
        let is_named = |name: &String| function.rsplit('.').next() == Some(name);
        is_file && is_of_package && is_frame && self.function.as_ref().is_none_or(is_named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(package: &str, text: &str) -> Option<String> {
        let releases = Releases::of(package, text)?;
        let end = |v: &Option<Version>| v.as_ref().map_or_else(String::new, Version::to_string);
        let (oldest, newest) = (end(&releases.oldest), end(&releases.newest));
        Some(format!(
            "{oldest}..{newest} {}:{}",
            releases.line, releases.names
        ))
    }

    #[test]
    fn what_only_some_releases_have_bounds_the_version() {
        let old = "Traceback (most recent call last):\n  File \"/env/verl/trainer/main_ppo.py\", line 31, in main\n  \
                   File \"/env/verl/workers/fsdp_workers.py\", line 620, in update_actor\n";
        assert_eq!(
            shown("verl", old).as_deref(),
            Some("..0.7.1 3:verl/workers/fsdp_workers.py")
        );
        let both = format!(
            "{old}(WorkerDict pid=7)   File \"/env/verl/workers/fsdp_workers.py\", line 9, in rollout_mode\n"
        );
        assert_eq!(
            shown("verl", &both).as_deref(),
            Some("0.6.0..0.7.1 3:verl/workers/fsdp_workers.py")
        );
        assert_eq!(shown("trl", old), None);
        let rich = "│ /env/trl/trainer/grpo_trainer.py:1200 in _generate_single_turn │";
        assert_eq!(
            shown("trl", rich).as_deref(),
            Some("0.24.0.. 1:_generate_single_turn")
        );
    }

    #[test]
    fn words_that_are_no_frame_of_the_package_bound_nothing() {
        for text in [
            "see verl/workers/fsdp_workers.py",
            "File \"/w/myverl/workers/fsdp_workers.py\", line 3, in f",
            "File \"/w/verl/workers/fsdp_workers.pyc\", line 3, in f",
            "File \"/w/trl/trainer/grpo_trainer.py\", line 3, in _get_per_token_logps_of_mine",
        ] {
            assert_eq!(shown("verl", text), None, "{text}");
            assert_eq!(shown("trl", text), None, "{text}");
        }
    }

    #[test]
    fn frames_that_contradict_each_other_bound_nothing() {
        let text = "File \"/a/verl/workers/fsdp_workers.py\", line 3, in f\n\
                    File \"/b/verl/workers/rollout/llm_server.py\", line 3, in f";
        assert_eq!(shown("verl", text), None);
    }
}
