//! What a submission asks of Slurm: `#SBATCH` directives, variables, and options of the command line.
//!
//! Rules of sbatch: directives count up to the first line that is neither blank nor a comment; no shell reads them; of
//! an option given twice the later one counts, and the command line before the environment before the script.

use super::traced::{Quote, Span, Traced};
use super::walk::{COMMAND_LINE, ENVIRONMENT, Reading, SCRIPT};
use oomctl_base::{nearest, word_list};

/// Options with one letter, and their long names (sbatch of Slurm 25.05).
const SHORT: [(char, &str); 24] = [
    ('A', "account"),
    ('a', "array"),
    ('b', "begin"),
    ('C', "constraint"),
    ('c', "cpus-per-task"),
    ('D', "chdir"),
    ('d', "dependency"),
    ('e', "error"),
    ('F', "nodefile"),
    ('G', "gpus"),
    ('i', "input"),
    ('J', "job-name"),
    ('L', "licenses"),
    ('M', "clusters"),
    ('m', "distribution"),
    ('N', "nodes"),
    ('n', "ntasks"),
    ('o', "output"),
    ('p', "partition"),
    ('q', "qos"),
    ('S', "core-spec"),
    ('t', "time"),
    ('w', "nodelist"),
    ('x', "exclude"),
];
/// Options that take no value, or one behind `=` only.
const BARE: [&str; 26] = word_list(
    "H hold h help I immediate k no-kill O overcommit s oversubscribe Q quiet v verbose V version
     W wait exclusive parsable requeue no-requeue contiguous test-only",
);

/// Long options that have neither a letter of their own nor stand among those above (sbatch of Slurm 22.05 to 25.11).
const LONG: [&str; 80] = word_list(
    "acctg-freq batch bb bbf bcast cluster cluster-constraint comment consolidate-segments container container-id
     cores-per-socket cpu-bind cpu-freq cpus-per-gpu deadline delay-boot export export-file external-launcher
     extra extra-node-info get-user-env gid gpu-bind gpu-freq gpus-per-node gpus-per-socket gpus-per-task gres
     gres-flags hint ignore-pbs kill-on-invalid-dep mail-type mail-user mcs-label mem mem-bind mem-per-cpu
     mem-per-gpu mincpus network nice ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
     oom-kill-step power prefer priority profile propagate reboot reservation resv-ports segment signal
     sockets-per-node spread-job stepmgr switches thread-spec threads-per-core time-min tmp tres-bind
     tres-per-task uid umask use-min-nodes usage wait-all-nodes wckey wrap x11 tasks-per-node hetjob share",
);

/// Variables that stand for options (sbatch of Slurm 25.05, "Input environment variables").
pub const VARIABLES: [(&str, &str); 28] = [
    ("SBATCH_ACCOUNT", "account"),
    ("SBATCH_ARRAY_INX", "array"),
    ("SBATCH_CLUSTERS", "clusters"),
    ("SBATCH_CONSTRAINT", "constraint"),
    ("SBATCH_CORE_SPEC", "core-spec"),
    ("SBATCH_CPUS_PER_GPU", "cpus-per-gpu"),
    ("SBATCH_DISTRIBUTION", "distribution"),
    ("SBATCH_ERROR", "error"),
    ("SBATCH_EXCLUSIVE", "exclusive"),
    ("SBATCH_EXPORT", "export"),
    ("SBATCH_GPUS", "gpus"),
    ("SBATCH_GPUS_PER_NODE", "gpus-per-node"),
    ("SBATCH_GPUS_PER_TASK", "gpus-per-task"),
    ("SBATCH_GRES", "gres"),
    ("SBATCH_INPUT", "input"),
    ("SBATCH_JOB_NAME", "job-name"),
    ("SBATCH_MEM_PER_CPU", "mem-per-cpu"),
    ("SBATCH_MEM_PER_GPU", "mem-per-gpu"),
    ("SBATCH_MEM_PER_NODE", "mem"),
    ("SBATCH_NO_REQUEUE", "no-requeue"),
    ("SBATCH_OUTPUT", "output"),
    ("SBATCH_PARTITION", "partition"),
    ("SBATCH_QOS", "qos"),
    ("SBATCH_REQUEUE", "requeue"),
    ("SBATCH_RESERVATION", "reservation"),
    ("SBATCH_SIGNAL", "signal"),
    ("SBATCH_TIMELIMIT", "time"),
    ("SBATCH_TRES_PER_TASK", "tres-per-task"),
];

/// An option as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Its long name, without dashes.
    pub option: String,
    /// Its value; None for one that has none.
    pub value: Option<Traced>,
    /// The bytes of the option with its value.
    pub span: Span,
}

/// All options in the order in which they count, the last one most: directives, then variables of the environment,
/// then the command line.
pub fn directives(reading: &Reading) -> Vec<Directive> {
    let script = reading.sources.get(SCRIPT);
    let mut all = script.map_or_else(Vec::new, |script| script_directives(&script.text));
    read_environment(reading, &mut all);
    let line = &reading.sources.first().map_or("", |s| s.text.as_str());
    let words = reading.words.iter().filter_map(|span| {
        let text = line.get(span.start..span.end)?;
        Some((
            Traced::literal(COMMAND_LINE, span.start, text, Quote::Raw),
            *span,
        ))
    });
    read_options(&words.collect::<Vec<_>>(), &mut all);
    all
}

/// The options in the `#SBATCH` lines of a script, in their order.
pub fn script_directives(text: &str) -> Vec<Directive> {
    let (mut all, mut start) = (Vec::new(), 0);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        if !trimmed.trim_end().is_empty() && !trimmed.starts_with('#') {
            break;
        }
        if let Some(rest) = line.strip_prefix("#SBATCH") {
            let words = line_words(SCRIPT, start + 7, rest);
            read_options(&words, &mut all);
        }
        start += line.len();
    }
    all
}

/// The options among words behind `sbatch`, each with its value in its word.
pub fn option_words(words: &[String]) -> Vec<Directive> {
    let mut all = Vec::new();
    for word in words {
        let span = Span::new(COMMAND_LINE, 0..word.len());
        let word = Traced::literal(COMMAND_LINE, 0, word, Quote::Raw);
        read_options(&[(word, span)], &mut all);
    }
    all
}

/// The options that variables of the environment give (`SBATCH_PARTITION`).
fn read_environment(reading: &Reading, all: &mut Vec<Directive>) {
    let text = reading.sources.get(ENVIRONMENT).map_or("", |s| &s.text);
    let mut start = 0;
    for entry in text.split_inclusive('\0') {
        let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
        let known = VARIABLES.iter().find(|(variable, _)| *variable == name);
        if let Some((_, option)) = known {
            let value = value.trim_end_matches('\0');
            let at = start + name.len() + 1;
            let value = Traced::literal(ENVIRONMENT, at, value, Quote::Raw);
            let end = at + value.len();
            all.push(Directive {
                option: (*option).to_owned(),
                value: Some(value).filter(|v| !v.is_empty()),
                span: Span::new(ENVIRONMENT, start..end),
            });
        }
        start += entry.len();
    }
}

/// The options that sbatch does not know, and which one was meant. One that is like none of sbatch's may be a plugin's.
pub fn misspelt_options(all: &[Directive]) -> Vec<(&Directive, &'static str)> {
    let known = || {
        let letters = SHORT.iter().map(|(_, long)| *long);
        letters
            .chain(BARE)
            .chain(LONG)
            .filter(|name| name.len() > 1)
    };
    // sbatch takes the beginning of a name for it, and plugins go on from one (`container-image`).
    let is_known = |option: &str| {
        let goes_on = |k: &str| {
            option
                .strip_prefix(k)
                .is_some_and(|rest| rest.starts_with('-'))
        };
        option.len() < 2 || known().any(|k| k.starts_with(option) || goes_on(k))
    };
    let unknown = all.iter().filter(|d| !is_known(&d.option));
    unknown
        .filter_map(|d| Some((d, nearest(&d.option, known())?)))
        .collect()
}

/// The option that counts.
pub fn wins<'d>(all: &'d [Directive], option: &str) -> Option<&'d Directive> {
    all.iter().rev().find(|d| d.option == option)
}

/// The options among the words behind `sbatch`, one word each, and the words behind them: the script and its arguments.
pub fn split_line(words: &[String]) -> (Vec<String>, &[String]) {
    let (mut options, mut at) = (Vec::new(), 0);
    while let Some(word) = words.get(at).filter(|w| w.starts_with('-') && w.len() > 1) {
        at += 1;
        let long = word.strip_prefix("--");
        let name = long.map_or_else(
            || word.chars().nth(1).map(long_name).unwrap_or_default(),
            str::to_owned,
        );
        let whole = match long {
            Some(long) => long.contains('='),
            None => word.chars().count() > 2,
        };
        let value = words
            .get(at)
            .filter(|_| !whole && !BARE.contains(&name.as_str()));
        options.push(match value {
            Some(value) => {
                at += 1;
                let sign = if long.is_some() { "=" } else { "" };
                format!("{word}{sign}{value}")
            }
            None => word.clone(),
        });
    }
    (options, words.get(at..).unwrap_or_default())
}

/// The words of a directive's line. Quotes group and are taken away; a word that begins with `#` ends the line.
fn line_words(file: usize, start: usize, text: &str) -> Vec<(Traced, Span)> {
    let mut words = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at].is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if bytes[at] == b'#' {
            break;
        }
        let (word, end) = line_word(file, start, text, at);
        let span = Span::new(file, start + at..start + end);
        words.push((word, span));
        at = end;
    }
    words
}

fn line_word(file: usize, start: usize, text: &str, from: usize) -> (Traced, usize) {
    let (bytes, mut at, mut word) = (text.as_bytes(), from, Traced::default());
    while at < bytes.len() && !bytes[at].is_ascii_whitespace() {
        let quote = Some(bytes[at]).filter(|b| matches!(b, b'"' | b'\''));
        let (begin, end, next) = match quote {
            Some(q) => {
                let rest = &bytes[at + 1..];
                let length = memchr::memchr(q, rest).unwrap_or(rest.len());
                let end = at + 1 + length;
                (at + 1, end, (end + 1).min(bytes.len()))
            }
            None => {
                let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'"' | b'\'');
                let length = bytes[at..]
                    .iter()
                    .position(ends)
                    .unwrap_or(bytes.len() - at);
                (at, at + length, at + length)
            }
        };
        let quote = match quote {
            None => Quote::Bare,
            Some(b'"') => Quote::Double,
            Some(_) => Quote::Single,
        };
        if let Some(piece) = text.get(begin..end) {
            word.push(&Traced::literal(file, start + begin, piece, quote));
        }
        at = next;
    }
    (word, at)
}

/// Options and their values, up to the first word that is neither.
fn read_options(words: &[(Traced, Span)], all: &mut Vec<Directive>) {
    let mut at = 0;
    while let Some((word, span)) = words.get(at) {
        let text = word.text();
        at += 1;
        let (option, value) = match (text.strip_prefix("--"), text.strip_prefix('-')) {
            (Some(long), _) if !long.is_empty() => match long.split_once('=') {
                Some((name, _)) => {
                    let value = word.slice(2 + name.len() + 1, text.len());
                    (name.to_owned(), Some(value))
                }
                None => (long.to_owned(), None),
            },
            (_, Some(short)) if !short.is_empty() && !short.starts_with('-') => {
                let letter = short.chars().next().unwrap_or_default();
                let width = 1 + letter.len_utf8();
                let attached = (text.len() > width).then(|| word.slice(width, text.len()));
                (long_name(letter), attached)
            }
            _ => return,
        };
        let takes_next = value.is_none() && !BARE.contains(&option.as_str());
        let (value, span) = match words.get(at) {
            Some((next, end)) if takes_next => {
                at += 1;
                (Some(next.clone()), span.through(*end))
            }
            _ => (value, *span),
        };
        all.push(Directive {
            option,
            value,
            span,
        });
    }
}

/// The name of a long option (`gres` of `--gres=gpu:8`); none for any other word.
pub(super) fn long_option(word: &str) -> Option<&str> {
    word.strip_prefix("--")?.split('=').next()
}

fn long_name(letter: char) -> String {
    let known = SHORT.iter().find(|(short, _)| *short == letter);
    known.map_or_else(|| letter.to_string(), |(_, long)| (*long).to_owned())
}
