//! What stands in front of a message: who printed it, when, at which level.
//!
//! Launchers, Ray, srun, vLLM and log viewers each put something before a line, often several at once:
//! `(WorkerDict pid=4321, ip=…) `, `[rank3]: `, `0: ` (`srun -l`), `ERROR 06-30 13:53:19 [core.py:515] `,
//! `[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] `. The rest of the room sees the message without them.

use std::cell::OnceCell;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ascii::compiled;
use super::clean::sanitize;
use super::lines::LinePiece;
use super::phase::{self, PhaseMention};

/// The printer of a line: lines of different printers are interleaved in one file, and a traceback
/// belongs to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Printer {
    /// Rank as printed.
    pub rank: Option<u32>,
    /// Process id as a launcher printed it.
    pub pid: Option<u64>,
}

/// How loud a line is, by its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Severity {
    /// Information or a warning.
    Mild,
    /// An error, or nothing said.
    #[default]
    Loud,
}

/// A time of day as printed, often without a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PrintedTime {
    year: Option<u16>,
    /// Milliseconds since the start of a year whose months have 31 days each: enough to order.
    ms: u64,
}

impl PrintedTime {
    /// True when `self` is surely before `other`; across New Year where no year is printed.
    pub(crate) fn before(self, other: Self) -> bool {
        const HALF_YEAR_MS: u64 = 186 * 86_400_000;
        match (self.year, other.year) {
            (Some(a), Some(b)) => (a, self.ms) < (b, other.ms),
            _ if self.ms.abs_diff(other.ms) > HALF_YEAR_MS => self.ms > other.ms,
            _ => self.ms < other.ms,
        }
    }
}

/// A cleaned line with its prefix understood.
#[derive(Debug, Clone)]
pub(crate) struct CleanLine {
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Line number from 1.
    pub number: u64,
    /// The whole line, cleaned.
    pub text: String,
    /// Where the message begins in `text`.
    pub body_at: usize,
    /// Matches that start before this byte of `text` belong to this line.
    pub own: usize,
    /// Who printed it.
    pub printer: Printer,
    /// Level by its prefix.
    pub level: Severity,
    /// Time by its prefix.
    pub stamp: Option<PrintedTime>,
    /// What [`CleanLine::phase`] found.
    phase: OnceCell<Option<PhaseMention>>,
}

impl CleanLine {
    /// Cleans a piece and reads its prefix.
    pub(crate) fn read(piece: LinePiece<'_>) -> Self {
        let text = sanitize(piece.bytes);
        let own = if piece.own == piece.bytes.len() {
            text.len()
        } else {
            sanitize(&piece.bytes[..piece.own]).len()
        };
        let body_at = if piece.starts_line {
            prefix_end(&text)
        } else {
            0
        };
        let prefix = &text[..body_at];
        Self {
            offset: piece.offset,
            number: piece.line,
            printer: Printer {
                rank: number_after(&["Rank", "rank", "RANK"], &[' ', '='], prefix),
                pid: number_after(&["pid="], &[], prefix),
            },
            level: level_of(prefix),
            stamp: stamp_of(prefix),
            body_at,
            own,
            text,
            phase: OnceCell::new(),
        }
    }

    /// The message without its prefix.
    pub(crate) fn body(&self) -> &str {
        &self.text[self.body_at..]
    }

    /// The phase that the message tells as it stands, whatever it is; looked for once.
    pub(crate) fn phase(&self) -> Option<PhaseMention> {
        *self
            .phase
            .get_or_init(|| phase::in_frame(self.body(), None))
    }
}

/// One alternative for each thing that is put before a message.
const PARTS: [&str; 18] = [
    r"(?:> ?)+",                                                              // a quotation
    r"\([A-Za-z_][\w.]*(?:\[[\w=.-]+\])?(?: (?:[a-z_]+=[\w.:-]+,? ?)+)?\) ?", // Ray (an actor may be named `Worker[rank=8]`), vLLM
    r"\([\w.-]+, (?:rank=\d+, )?pid=\d+(?:, ip=[\w.:]+)?\) ?", // SkyPilot: the task's name, or the node's
    r"\[(?:[Rr]ank|RANK) ?\d+\]:? ?",                          // torchrun, DeepSpeed
    r" {0,3}\d{1,4}: ",                                        // srun -l
    r"\[\d+\] ",                                               // log viewers, mpirun
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[^\s\]]{0,32}(?:,? [EWIF] \d+ \d+)?\]?:? ?(?:- )?",
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+,? ",
    r"(?:ERROR|WARNING|INFO|DEBUG|CRITICAL):[A-Za-z_][\w.]*:", // Python's logging.basicConfig
    r"(?:ERROR|WARNING|INFO|DEBUG|CRITICAL|FATAL):?(?: \d\d-\d\d \d\d:\d\d:\d\d)? ?(?:\[?[\w./-]+\.py:\d+\])? ?",
    r"\[(?:ERROR|WARNING|INFO|DEBUG|CRITICAL)\] ?(?:\[[\w.:<>-]+\] ?)?", // DeepSpeed
    r"\[?[EWIF]\d{3,4} \d\d:\d\d:\d\d[.\d]* (?:\d+ )?[\w./-]+:\d+\] ?(?:\[[\d/_]+\] ?)?", // glog
    r"\[[EWIF] [\w./-]+\.(?:cpp|cc|h):\d+\] ?",
    r"\|? ?(?:ERROR|WARNING|INFO|DEBUG|CRITICAL) ?\| ?[\w.:]+ ?(?:\||:|-) ?", // loguru, fairseq
    r"SUBPROCESS: ?",
    r"[\w./]+\.cc:\d+: ",                                             // raylet
    r"\d[\da-f][OE][+ ]", // GitLab's runner, behind the time
    r"[\w ()/.,:-]{1,120}? \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z ?", // `gh run view --log`: job and step
];

/// How far into a line the time of `gh run view --log` may end, in bytes.
const STEP_BYTES: usize = 160;

static PREFIX: LazyLock<Regex> = LazyLock::new(|| compiled(&format!("^(?:{})+", PARTS.join("|"))));

/// Where the message begins. The pattern takes one thing after the other and none back, so the most frequent
/// one is taken off without it, and it is asked only where another may follow.
fn prefix_end(text: &str) -> usize {
    let mut end = 0;
    while let Some(length) = printer_bytes(&text.as_bytes()[end..]) {
        end += length;
    }
    let rest = &text[end..];
    if !may_begin_prefix(rest.as_bytes()) {
        return end;
    }
    end + PREFIX.find(rest).map_or(0, |m| m.end())
}

/// Bytes of `(WorkerDict pid=4321) ` at the beginning of a text, as Ray and vLLM print it. None also where only
/// the pattern can tell.
fn printer_bytes(text: &[u8]) -> Option<usize> {
    let run = |from: usize, of: fn(u8) -> bool| {
        from + text[from..].iter().take_while(|b| of(**b)).count()
    };
    let one = |at: usize, byte: u8| text.get(at) == Some(&byte);
    let named = one(0, b'(')
        && text
            .get(1)
            .is_some_and(|b| in_word(*b) && !b.is_ascii_digit());
    let mut end = run(named.then_some(1)?, |b| in_word(b) || b == b'.');
    if one(end, b'[') {
        let inner = run(end + 1, |b| in_word(b) || matches!(b, b'=' | b'.' | b'-'));
        if inner == end + 1 || !one(inner, b']') {
            return None;
        }
        end = inner + 1;
    }
    if one(end, b' ') && !one(end + 1, b')') {
        end += 1;
        while !one(end, b')') {
            let key = run(end, |b| b.is_ascii_lowercase() || b == b'_');
            let value = run(key, |b| b == b'=') + 1;
            if key == end || value != key + 2 {
                return None;
            }
            let value_end = run(key + 1, |b| in_word(b) || matches!(b, b'.' | b':' | b'-'));
            if value_end == key + 1 {
                return None;
            }
            end = value_end;
            end += usize::from(one(end, b','));
            end += usize::from(one(end, b' '));
        }
    }
    one(end, b')').then(|| end + 1 + usize::from(one(end + 1, b' ')))
}

/// Can the pattern match at the beginning of a text? What each of its parts needs there.
fn may_begin_prefix(text: &[u8]) -> bool {
    let level = |b: Option<&u8>| b.is_some_and(|b| matches!(b, b'C'..=b'F' | b'I' | b'W'));
    let number = |b: Option<&u8>| b.is_some_and(u8::is_ascii_digit);
    let source = |b: u8| in_word(b) || matches!(b, b'.' | b'/');
    match text.first() {
        Some(b'>' | b'(' | b' ' | b'|') => true,
        Some(b'[') => {
            let next = text.get(1);
            level(next)
                || number(next)
                || matches!(
                    text,
                    [_, b'R' | b'r', b'a', b'n', b'k', ..] | [_, b'R', b'A', b'N', b'K', ..]
                )
        }
        first if level(first) || number(first) || first == Some(&b'S') => true,
        _ => {
            let run = text.iter().take_while(|b| source(**b)).count();
            text[..run].ends_with(b".cc") || has_time_of_step(text)
        }
    }
}

/// Does a time with seven digits behind the point stand near the beginning, as GitHub's runner writes it?
fn has_time_of_step(text: &[u8]) -> bool {
    let start = &text[..text.len().min(STEP_BYTES)];
    let is_end = |at: usize| {
        let digits = at.checked_sub(8).map(|from| &text[from..at]);
        matches!(digits, Some([b'.', digits @ ..]) if digits.iter().all(u8::is_ascii_digit))
    };
    memchr::memchr_iter(b'Z', start).any(is_end)
}

static LOUD: LazyLock<Regex> = LazyLock::new(|| compiled(r"\b(?:ERROR|CRITICAL|FATAL)\b"));
static DATE: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?:(\d{4})[-/])?\b(\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{3}))?|[EWIF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{3}))?",
    )
});

/// The number behind the first of some words that has one, with at most one of `gaps` in between.
fn number_after<T: std::str::FromStr>(
    words: &[&'static str],
    gaps: &[char],
    text: &str,
) -> Option<T> {
    let number = |(at, word): (usize, &str)| {
        if text.as_bytes()[..at].last().is_some_and(|b| in_word(*b)) {
            return None;
        }
        let rest = &text[at + word.len()..];
        let rest = rest.strip_prefix(gaps).unwrap_or(rest);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        (digits > 0).then_some((at, &rest[..digits]))
    };
    let places = |word: &&'static str| {
        let (word, text) = (*word, text.as_bytes());
        let begins = memchr::memchr_iter(*word.as_bytes().first()?, text);
        let mut places = begins.filter(|at| text[*at..].starts_with(word.as_bytes()));
        places.find_map(|at| number((at, word)))
    };
    let found = words.iter().filter_map(places);
    found.min_by_key(|(at, _)| *at)?.1.parse().ok()
}

/// A cleaned line without what stands in front of its message.
pub(crate) fn body_of(text: &str) -> &str {
    &text[prefix_end(text)..]
}

/// Does a word for something mild have its first capital `W`, `I` or `D` at a place: a level, glog's letter
/// with the date behind it, or Python's class of warnings?
fn is_mild(text: &[u8], at: usize) -> bool {
    let (head, rest) = text.split_at(at);
    if head.last().is_some_and(|b| in_word(*b)) {
        return head.ends_with(b"User") && rest.starts_with(b"Warning");
    }
    let length = rest.iter().take_while(|b| in_word(**b)).count();
    match &rest[..length] {
        b"WARNING" | b"WARN" | b"INFO" | b"DEBUG" => true,
        [b'W' | b'I', date @ ..] => {
            let digits = date.iter().all(u8::is_ascii_digit);
            digits && matches!(date.len(), 3 | 4) && rest.get(length) == Some(&b' ')
        }
        _ => false,
    }
}

/// A byte of a word, as `\w` has it.
fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Level by the words before a message; also used for what stands before a match inside a line.
pub(crate) fn level_of(before: &str) -> Severity {
    let mut letters = memchr::memchr3_iter(b'W', b'I', b'D', before.as_bytes());
    let says_mild = letters.any(|at| is_mild(before.as_bytes(), at));
    if !says_mild {
        return Severity::Loud;
    }
    // NCCL has no louder word than this one.
    let error_of_nccl = before.contains("NCCL WARN");
    if !error_of_nccl && !LOUD.is_match(before) {
        Severity::Mild
    } else {
        Severity::Loud
    }
}

/// The last rank named in `text`.
pub(crate) fn rank_in(text: &str) -> Option<u32> {
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        compiled(
            r"\[(?:[Rr]ank|RANK) ?(\d+)\]|\b[Rr]ank ?[=:] ?(\d+)|\bon [Rr]ank (\d+)|\blocalRank (\d+)|\blocal_rank: (\d+) \(pid",
        )
    });
    if !text.contains("ank") && !text.contains("ANK") {
        return None;
    }
    let last = NAMED.captures_iter(text).last()?;
    last.iter().skip(1).flatten().next()?.as_str().parse().ok()
}

/// `rank      : 3 (local_rank: 3)` of torchrun's summary.
pub(crate) fn summary_rank(text: &str) -> Option<u32> {
    static RANK: LazyLock<Regex> =
        LazyLock::new(|| compiled(r"\brank\s*: (\d+) \(local_rank: \d+\)"));
    static NAMED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("(local_rank:"));
    NAMED.find(text.as_bytes())?;
    RANK.captures(text)?.get(1)?.as_str().parse().ok()
}

fn stamp_of(prefix: &str) -> Option<PrintedTime> {
    if !prefix.contains(':') {
        return None;
    }
    let found = DATE.captures(prefix)?;
    let number = |i: usize| -> Option<u64> { found.get(i)?.as_str().parse().ok() };
    let base = if found.get(2).is_some() { 2 } else { 8 };
    let [month, day, h, m, s] = [0, 1, 2, 3, 4].map(|i| number(base + i).unwrap_or(0));
    let days = month * 31 + day;
    Some(PrintedTime {
        year: found.get(1).and_then(|y| y.as_str().parse().ok()),
        ms: ((days * 24 + h) * 3_600 + m * 60 + s) * 1_000 + number(base + 5).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_prefix_is_what_the_pattern_takes(
            parts in prop::collection::vec(
                prop::sample::select(PARTS.to_vec()).prop_flat_map(|part| {
                    prop::string::string_regex(&crate::ascii::ascii(part).replace("(?-u:\\b)", "")).unwrap()
                }),
                0..4,
            ),
            rest in prop::sample::select(vec![
                "", "M", "(", "(a )", "(a k=v", "(a k=v)", "(a[", "(a[] k=v)", "(a[b=1] k=v) x", "[rank", "[rank1] x", "[E", "a.cc:1: ", ".cc:1", "W", "é", "1: ",
            ]),
            cut in 0_usize..4,
        ) {
            let text = parts.concat() + rest;
            let from = text.char_indices().nth(cut).map_or(0, |(at, _)| at);
            let text = &text[from..];
            prop_assert_eq!(prefix_end(text), PREFIX.find(text).map_or(0, |m| m.end()), "{}", text);
        }
    }

    fn read(text: &str) -> CleanLine {
        CleanLine::read(LinePiece {
            bytes: text.as_bytes(),
            offset: 0,
            line: 1,
            own: text.len(),
            starts_line: true,
        })
    }

    #[test]
    fn prefixes_are_taken_off_in_any_combination() {
        for text in [
            "(WorkerDict pid=4321) M",
            "(WorkerDict pid=4321, ip=10.0.0.4) M",
            "\u{1b}[36m(WorkerDict pid=4321)\u{1b}[0m M",
            "(APIServer pid=1) (DPEngineCoreActor pid=2) M",
            "(VllmWorker rank=3 pid=1090) ERROR 06-05 06:18:13 [multiproc_executor.py:470] M",
            "(MegatronPolicyWorker[rank=8] pid=1486001, ip=10.0.0.4) M",
            // SkyPilot (`sky/skylet/executor/slurm.py` lists its four forms).
            "(my-sft, pid=2412) M",
            "\u{1b}[36m(worker1, rank=1, pid=2412, ip=10.0.0.3)\u{1b}[0m M",
            "(setup pid=2412, ip=10.0.0.3) M",
            "ERROR 06-30 13:53:19 [core.py:515] M",
            "[rank3]: M",
            "[RANK 3] M",
            "[rank3]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] M",
            "[80746] [rank0]:M",
            "0: M",
            "12: [rank12]: M",
            "2024-06-28T06:11:52.685300953Z M",
            "2024-04-27 10:13:05 | ERROR | stderr | M",
            // CI: GitHub's runner (as `gh run view --log` prints it), GitLab's.
            "train\tRun training\t2024-06-28T06:11:52.6853009Z M",
            "build (3.12)\tUNKNOWN STEP\t2024-06-28T06:11:52.6853009Z [rank0]: M",
            "2024-06-28T06:11:52.685300Z 01O M",
            "\u{1b}[0K2024-06-28T06:11:52.685300Z 00E+M",
            "\u{1b}_bk;t=1719555112685\u{7}M",
            "> > M",
            "SUBPROCESS: M",
            "(raylet) [2023-07-23 15:21:29,851 E 9751 9751] (raylet) node_manager.cc:3084: M",
            "[E ProcessGroupNCCL.cpp:475] M",
            "ERROR:torch.distributed.elastic.multiprocessing.api:M",
            "[2024-02-19 08:12:44,441] [WARNING] [stage3.py:2069:step] M",
        ] {
            assert_eq!(read(text).body(), "M", "{text}");
        }
        assert_eq!(read("RuntimeError: M").body(), "RuntimeError: M");
        assert_eq!(read("    loss.backward()").body(), "    loss.backward()");
    }

    #[test]
    fn printer_level_and_time_are_read() {
        let line = read("(VllmWorker rank=3 pid=1090) ERROR 06-05 06:18:13 [a.py:4] M");
        assert_eq!(
            line.printer,
            Printer {
                rank: Some(3),
                pid: Some(1090)
            }
        );
        assert_eq!(line.level, Severity::Loud);
        assert_eq!(
            read("WARNING 06-05 06:18:13 [a.py:4] M").level,
            Severity::Mild
        );
        let later = read("[rank0]:[E605 06:18:14.1 a.cpp:4] M").stamp.unwrap();
        assert!(line.stamp.unwrap().before(later));
        assert!(!later.before(line.stamp.unwrap()));
        let new_year = read("INFO 01-01 00:00:01 [a.py:4] M").stamp.unwrap();
        let old_year = read("INFO 12-31 23:59:59 [a.py:4] M").stamp.unwrap();
        assert!(old_year.before(new_year));
        assert_eq!(rank_in("bar [rank5]:[E x] [Rank 5] Watchdog"), Some(5));
        for text in [
            "it failed on rank 1 of 8",
            "[RANK 1] x",
            "rank : 1 x",
            "rank=1",
        ] {
            assert_eq!(rank_in(text), Some(1), "{text}");
        }
        for text in ["LoRA rank 16", "lora_rank: 16", "on ranks 1 and 2"] {
            assert_eq!(rank_in(text), None, "{text}");
        }
    }
}
