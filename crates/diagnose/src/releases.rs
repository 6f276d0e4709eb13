//! Releases that a log or a program can be of: it names files, functions, messages and arguments that only some of them have.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use semver::Version;
use serde::Deserialize;

use super::ascii::compiled;
use super::tables::{read, table};

/// A file, a function in it, words or an argument, and the releases that have it.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Row {
    /// From the package on; a folder ends in `/`.
    file: String,
    function: Option<String>,
    /// In place of a file: words of a line.
    says: Option<String>,
    /// In place of a file: a class or function that a program calls,
    call: Option<String>,
    /// and a keyword among its arguments.
    argument: Option<String>,
    /// The words are those of PyTorch, of which the package only asks for a version.
    of_torch: bool,
    /// Words of a program beside which the row does not hold.
    unless: Option<String>,
    oldest: Option<Version>,
    newest: Option<Version>,
}

/// For each package the first day of a release, as `2024-07-23`.
static DAYS: LazyLock<BTreeMap<String, BTreeMap<String, Version>>> =
    LazyLock::new(|| read(table!("release_days")));

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
    /// It names only a message of PyTorch, of which the package asks for a version: what is installed may be another.
    pub of_torch: bool,
}

impl Releases {
    /// Whether a version is one of them.
    pub fn has(&self, version: &Version) -> bool {
        let too_old = self.oldest.as_ref().is_some_and(|oldest| version < oldest);
        let too_new = self.newest.as_ref().is_some_and(|newest| newest < version);
        !too_old && !too_new
    }

    /// By the lines of a text, a log or a program. `None` where they name nothing that tells, or contradict each other. The last
    /// day that they bear leaves out what came later, but where they name what was not released by then.
    pub fn of(package: &str, text: &str) -> Option<Self> {
        let all = match (Self::named(package, text), Self::dated(package, text)) {
            (Some(named), Some(dated)) => {
                let is_nearer = named.newest.is_some() && named.newest <= dated.newest;
                match is_nearer || named.oldest > dated.newest {
                    true => named,
                    false => Self {
                        oldest: named.oldest,
                        ..dated
                    },
                }
            }
            (named, dated) => named.or(dated)?,
        };
        let ends = all.oldest.as_ref().zip(all.newest.as_ref());
        ends.is_none_or(|(oldest, newest)| oldest <= newest)
            .then_some(all)
    }

    /// By what only some releases have. The ends may contradict each other.
    fn named(package: &str, text: &str) -> Option<Self> {
        let rows = ROWS.get(package)?;
        let mut found: Vec<(usize, &Row)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let here = rows.iter().filter(|row| row.is_in(line));
            found.extend(here.map(|row| (number + 1, row)));
        }
        found.extend(rows.iter().filter_map(|r| Some((r.called_at(text)?, r))));
        let newest = found.iter().filter(|(_, row)| row.newest.is_some());
        let newest = newest.min_by_key(|(_, row)| &row.newest);
        let oldest = found.iter().filter(|(_, row)| row.oldest.is_some());
        let oldest = oldest.max_by_key(|(_, row)| &row.oldest);
        let (line, row) = newest.or(oldest)?;
        Some(Self {
            oldest: oldest.and_then(|(_, row)| row.oldest.clone()),
            newest: newest.and_then(|(_, row)| row.newest.clone()),
            line: *line,
            names: match row.of_torch {
                true => "a message of PyTorch 2.0 or older".to_owned(),
                false => row.name().to_owned(),
            },
            of_torch: row.of_torch && oldest.is_none(),
        })
    }

    /// By the last day with which a line begins. A day behind all that are known bounds nothing, nor one behind the last release
    /// where a checkout runs.
    fn dated(package: &str, text: &str) -> Option<Self> {
        let days = DAYS.get(package)?;
        let lines = text.lines().enumerate();
        let dated = lines.filter_map(|(at, line)| Some((day(line)?, at + 1)));
        let (day, line) = dated.max_by(|(a, x), (b, y)| a.cmp(b).then(y.cmp(x)))?;
        let by_then = days.iter().take_while(|(first, _)| **first <= day);
        // A checkout of that day is newer than its last release, and older than the next.
        let newest = match in_checkout(package, text) {
            true => days.iter().find(|(first, _)| **first > day)?,
            false => by_then.last().or(days.first_key_value())?,
        };
        (Some(newest) != days.last_key_value()).then(|| Self {
            oldest: None,
            newest: Some(newest.1.clone()),
            line,
            names: day,
            of_torch: false,
        })
    }
}

impl Row {
    /// What it is known by.
    fn name(&self) -> &str {
        let names = [&self.says, &self.argument, &self.function];
        let named = names.into_iter().flatten().next();
        named.unwrap_or(&self.file)
    }

    /// The line of the call that gives its argument, from 1.
    fn called_at(&self, text: &str) -> Option<usize> {
        let (call, argument) = (self.call.as_ref()?, self.argument.as_ref()?);
        if self
            .unless
            .as_ref()
            .is_some_and(|words| text.contains(words))
        {
            return None;
        }
        let starts = text.match_indices(call.as_str());
        let mut calls = starts.filter_map(|(at, _)| {
            let rest = text[at + call.len()..].strip_prefix('(')?;
            let part = |c: char| c.is_alphanumeric() || c == '_';
            let whole = !text[..at].ends_with(part);
            (whole && is_given(rest, argument)).then(|| text[..at].matches('\n').count() + 1)
        });
        calls.next()
    }

    /// Whether a line has its words, or is a frame of it: `File "…/FILE", line 3, in FUNCTION`, or `…/FILE:3 in FUNCTION`.
    fn is_in(&self, line: &str) -> bool {
        if let Some(words) = &self.says {
            return line.contains(words.as_str());
        }
        if self.file.is_empty() {
            return false;
        }
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

/// Whether a frame of the text lies in a checkout of the package, and not where packages are installed.
fn in_checkout(package: &str, text: &str) -> bool {
    let folder = format!("/{}/", package.replace('-', "_"));
    let frames = text.lines().filter(|line| line.contains("File \""));
    frames
        .filter(|line| line.contains(&folder))
        .any(|line| !line.contains("-packages/"))
}

/// The day with which a line of a log begins, where a time follows it: Python's `2024-07-23 08:20:15,402`, also in a bracket or
/// behind one (`[INFO|trainer.py:12] 2024-07-23 08:20:15,402`), and that of the Trainer's scripts, `07/23/2024 08:20:15 - INFO`.
fn day(line: &str) -> Option<String> {
    static DAY: LazyLock<Regex> = LazyLock::new(|| {
        let form = r"^(?:\[[A-Z]+\|[^\]\s]+\] |\[)?(?:(20\d\d-[01]\d-[0-3]\d)[ T]\d\d:\d\d|([01]\d)/([0-3]\d)/(20\d\d) \d\d:\d\d:\d\d - )";
        compiled(form)
    });
    let found = DAY.captures(line)?;
    let part = |at| found.get(at).map_or("", |m| m.as_str());
    Some(match part(1) {
        "" => format!("{}-{}-{}", part(4), part(2), part(3)),
        day => day.to_owned(),
    })
}

/// Characters of a call that are looked at.
const CALL: usize = 10_000;

/// Whether a keyword stands among the arguments of a call whose bracket is open, not in a call inside it.
fn is_given(arguments: &str, keyword: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let (mut depth, mut before) = (1_usize, ' ');
    for (at, c) in arguments.char_indices().take(CALL) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ if depth == 1 && !part(before) => {
                let rest = arguments[at..].strip_prefix(keyword).map(str::trim_start);
                if rest.is_some_and(|rest| rest.starts_with('=') && !rest.starts_with("==")) {
                    return true;
                }
            }
            _ => {}
        }
        if depth == 0 {
            return false;
        }
        before = c;
    }
    false
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
    fn the_day_of_a_log_bounds_the_version() {
        let dated = "a\n[2024-07-23 08:20:15,402] [INFO] [launch.py:319:main] x\n";
        assert_eq!(
            shown("openrlhf", dated).as_deref(),
            Some("..0.3.8 2:2024-07-23")
        );
        for (line, expected) in [
            ("[2025-09-01 08:20:15,402] x", Some("..0.8.11 1:2025-09-01")),
            (
                "04/23/2024 10:14:02 - INFO - x",
                Some("..0.3.8 1:2024-04-23"),
            ),
            (
                "[INFO|a.py:1] 2024-08-01 10:14:40,110 >> x",
                Some("..0.4.2 1:2024-08-01"),
            ),
            (
                "2019-01-01 00:00 a row of data\n2025-09-01 08:20:15 x",
                Some("..0.8.11 2:2025-09-01"),
            ),
            ("[2099-09-01 08:20:15,402] x", None),
            ("data of 2024-07-23 08:20", None),
            ("2024-07-23", None),
        ] {
            assert_eq!(shown("openrlhf", line).as_deref(), expected, "{line}");
        }
        // A checkout may have what no release had on that day.
        let newer = "[2025-01-01 08:20:15,402] x\n  File \"/env/verl/workers/engine_workers.py\", line 3, in f";
        assert_eq!(
            shown("verl", newer).as_deref(),
            Some("0.7.0.. 2:verl/workers/engine_workers.py")
        );
        let switch = "python3 -m openrlhf.cli.train_dpo --flash_attn";
        assert_eq!(
            shown("openrlhf", switch).as_deref(),
            Some("..0.8.9 1:--flash_attn")
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
    fn an_argument_of_the_very_call_bounds_the_version() {
        let of = |code: &str| shown("trl", code);
        let both = "from trl import SFTTrainer\ntrainer = SFTTrainer(\n    model,\n    args=TrainingArguments(output_dir='out'),\n    tokenizer=tok,\n    max_seq_length = 512,\n)\n";
        assert_eq!(of(both).as_deref(), Some("..0.12.2 2:max_seq_length"));
        let one = "t = SFTTrainer(model, tokenizer=tok)\n";
        assert_eq!(of(one).as_deref(), Some("..0.15.2 1:tokenizer"));
        for other in [
            "from unsloth import FastLanguageModel\nt = SFTTrainer(model, tokenizer=tok, max_seq_length=512)",
            "SFTTrainer(model, args=SFTConfig(max_seq_length=512), processing_class=tok)",
            "SFTTrainer(model)\nf(max_seq_length=512)",
            "MySFTTrainer(model, max_seq_length=512)",
            "SFTTrainer(model, x=max_seq_length == 3)",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn what_others_print_bounds_the_version_of_what_needs_them() {
        let banner = "INFO 01-29 [llm_engine.py:234] Initializing an LLM engine (v0.7.0) with config: model='a'";
        assert!(shown("trl", banner).is_some_and(|s| s.starts_with("..0.16.1 1:")));
        let old = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; 13.16 GiB already allocated; 1.11 GiB free)";
        assert!(shown("trl", old).is_some_and(|s| s.starts_with("..0.19.1 1:")));
        assert!(shown("transformers", old).is_some_and(|s| s.starts_with("..4.51.3 1:")));
        let option = "torchrun run_clm.py --evaluation_strategy no";
        assert!(shown("transformers", option).is_some_and(|s| s.starts_with("..4.50.3 1:")));
        assert!(
            shown("ms-swift", "swift sft --sft_type lora")
                .is_some_and(|s| s.starts_with("..2.6.1 1:"))
        );
    }

    /// verl 0.7.1 came out on 2026-03-16, 0.8.0 on 2026-06-01.
    #[test]
    fn a_checkout_of_a_day_is_newer_than_the_last_release_of_that_day() {
        let ran_from = |folder: &str| {
            let frame = format!("  File \"{folder}/verl/trainer/x.py\", line 3, in f");
            shown("verl", &format!("2026-04-21 08:20:15,402 start\n{frame}"))
        };
        let installed = ran_from("/opt/lib/python3.12/site-packages");
        assert_eq!(installed.as_deref(), Some("..0.7.1 1:2026-04-21"));
        let checkout = ran_from("/workspace/verl");
        assert_eq!(checkout.as_deref(), Some("..0.8.0 1:2026-04-21"));
    }

    #[test]
    fn frames_that_contradict_each_other_bound_nothing() {
        let text = "File \"/a/verl/workers/fsdp_workers.py\", line 3, in f\n\
                    File \"/b/verl/workers/rollout/llm_server.py\", line 3, in f";
        assert_eq!(shown("verl", text), None);
    }
}
