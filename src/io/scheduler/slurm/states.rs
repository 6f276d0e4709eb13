//! Slurm's words for states, exit codes, times and node lists, read into ours.

use jiff::Timestamp;

use oomctl_base::job::{ExitStatus, JobState};

/// A state word of squeue, sacct or scontrol. sacct writes `CANCELLED by 1000`; a list of words
/// (`CANCELLED,COMPLETING`) is what the flag in it says.
pub fn parse_state(text: &str) -> JobState {
    let text = text.trim();
    let mut words = text.split([' ', ',', '+']).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or("");
    if text.split([',', '+']).any(|word| word == "COMPLETING") {
        return JobState::Completing;
    }
    known_state(first).unwrap_or_else(|| JobState::Unknown(bounded_word(text)))
}

/// Base states and flags of `job_state_string` (SchedMD/slurm `src/common/slurm_protocol_defs.c`),
/// 21.08 to 26.05. Absent on purpose, hence unknown: `REVOKED` (a federated sibling runs
/// elsewhere), `RECONFIG_FAIL` (says why a job was requeued, not where it is).
fn known_state(word: &str) -> Option<JobState> {
    Some(match word {
        "POWER_UP_NODE" => JobState::Configuring,
        "RESIZING" | "SIGNALING" => JobState::Running,
        "STOPPED" => JobState::Suspended,
        "STAGE_OUT" => JobState::Completing,
        "REQUEUE_FED" | "EXPEDITING" => JobState::Requeued,
        "SPECIAL_EXIT" | "RESV_DEL_HOLD" | "GETENV_FAILED" => JobState::RequeueHold,
        "LAUNCH_FAILED" => JobState::BootFail,
        _ => return JobState::named(word),
    })
}

/// An unknown word is kept for people to read, not without limit.
fn bounded_word(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Who cancelled a job: `1000` of sacct's `CANCELLED by 1000`.
pub fn parse_canceller(text: &str) -> Option<String> {
    let by = text.trim().strip_prefix("CANCELLED by ")?;
    (!by.is_empty()).then(|| bounded_word(by))
}

/// `code:signal`, as sacct and scontrol write it.
pub fn parse_exit(text: &str) -> Option<ExitStatus> {
    let (code, signal) = text.trim().split_once(':')?;
    Some(ExitStatus::of(code.parse().ok()?, signal.parse().ok()?))
}

/// An exit as squeue prints it.
pub fn parse_wait(text: &str) -> Option<ExitStatus> {
    wait_exit(text.trim().parse().ok()?)
}

/// An exit as the number that wait(2) gave, of which the second byte is the code and the lowest seven bits are the signal.
/// What was not set yet is larger.
pub fn wait_exit(status: i64) -> Option<ExitStatus> {
    let status = i32::from(u16::try_from(status).ok()?);
    Some(ExitStatus::of(status >> 8, status & 0x7f))
}

/// A time in seconds since 1970, as `SLURM_TIME_FORMAT=%s` makes the commands print it. Slurm's
/// words for "none" (`N/A`, `Unknown`, `None`, `0`) are `None`.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    let seconds: i64 = text.trim().parse().ok()?;
    (seconds > 0)
        .then(|| Timestamp::from_second(seconds).ok())
        .flatten()
}

/// Text of a field, `None` for Slurm's words for "nothing".
pub fn parse_word(text: &str) -> Option<String> {
    let text = text.trim();
    let nothing = [
        "",
        "None",
        "(null)",
        "N/A",
        "n/a",
        "Unknown",
        "None assigned",
    ];
    (!nothing.contains(&text)).then(|| text.to_owned())
}

/// Names that one node list may expand to; the largest machines have about 10,000 nodes.
pub const MAX_NODES: usize = 16_384;

/// Names that the lists of one answer may expand to together: 2,000 jobs of 128 nodes.
pub const MAX_ANSWER_NODES: usize = 1 << 18;
/// Bytes of a name that is written out; a host name has at most 255 (RFC 1123, 2.1).
const MAX_NAME: usize = 255;
/// Digits of a number in a range, leading zeros included.
const MAX_DIGITS: usize = 16;

/// Node names of `node[1-3,7],gpu-[01-02]-a`. What cannot be read stays as it is, as one name.
pub fn expand_nodes(text: &str) -> Vec<String> {
    expand_within(text, &mut { MAX_NODES })
}

/// The same for one of many lists: `room` is how many names there may still be, less those of this
/// list afterwards. A list that finds no room stays as Slurm wrote it.
pub(super) fn expand_within(text: &str, room: &mut usize) -> Vec<String> {
    let Some(text) = parse_word(text) else {
        return Vec::new();
    };
    let most = MAX_NODES.min(*room);
    let mut names = Vec::new();
    for part in split_outside_brackets(&text) {
        let expanded = expand_one(part, most.saturating_sub(names.len()));
        names.extend(expanded.unwrap_or_else(|| vec![part.to_owned()]));
    }
    names.truncate(MAX_NODES);
    *room = room.saturating_sub(names.len());
    names
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

/// Expands bracket after bracket from the left; `None` when it is no well-formed list or too long.
fn expand_one(text: &str, limit: usize) -> Option<Vec<String>> {
    let mut names = vec![String::new()];
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let close = open + rest[open..].find(']')?;
        let numbers = expand_ranges(&rest[open + 1..close], limit)?;
        let longest = names.iter().map(String::len).max()? + open + MAX_DIGITS;
        if names.len().checked_mul(numbers.len())? > limit || longest > MAX_NAME {
            return None;
        }
        names = names
            .iter()
            .flat_map(|name| {
                numbers
                    .iter()
                    .map(move |n| format!("{name}{}{n}", &rest[..open]))
            })
            .collect();
        rest = &rest[close + 1..];
    }
    if names.len() > 1 && rest.len() > MAX_NAME {
        return None;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Some(names)
}

/// `1-3,007` to its numbers as text, leading zeros kept.
fn expand_ranges(text: &str, limit: usize) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for range in text.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let digits = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        if !digits(low) || !digits(high) || low.len() > MAX_DIGITS {
            return None;
        }
        let (first, last): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        if last < first || (last - first) as usize >= limit.saturating_sub(numbers.len()) {
            return None;
        }
        numbers.extend((first..=last).map(|number| format!("{number:0width$}", width = low.len())));
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_base::job::Stage;

    #[test]
    fn every_word_of_slurms_list_has_its_stage() {
        let expected = [
            (
                Stage::Waiting,
                "PENDING CONFIGURING POWER_UP_NODE REQUEUED REQUEUE_FED EXPEDITING REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD GETENV_FAILED",
            ),
            (
                Stage::Running,
                "RUNNING SUSPENDED STOPPED RESIZING SIGNALING",
            ),
            (Stage::Ending, "COMPLETING STAGE_OUT"),
            (
                Stage::Ended,
                "COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL LAUNCH_FAILED DEADLINE OUT_OF_MEMORY",
            ),
            (
                Stage::Unknown,
                "REVOKED RECONFIG_FAIL TELEPORTED completed PURGED",
            ),
        ];
        for (stage, words) in expected {
            for word in words.split(' ') {
                assert_eq!(parse_state(word).stage(), stage, "{word}");
            }
        }
    }

    #[test]
    fn the_canceller_is_read_beside_the_state() {
        assert_eq!(parse_state("CANCELLED by 1000"), JobState::Cancelled);
        assert_eq!(
            parse_canceller("CANCELLED by 1000").as_deref(),
            Some("1000")
        );
        assert_eq!(parse_canceller("CANCELLED"), None);
    }

    #[test]
    fn a_job_that_is_both_cancelled_and_completing_is_not_over() {
        assert_eq!(parse_state("CANCELLED,COMPLETING"), JobState::Completing);
    }

    #[test]
    fn an_unknown_word_stays_readable() {
        assert_eq!(
            parse_state("TELEPORTED"),
            JobState::Unknown("TELEPORTED".into())
        );
        assert_eq!(parse_state(""), JobState::Unknown(String::new()));
    }

    #[test]
    fn node_lists_expand_as_slurm_writes_them() {
        let cases = [
            ("node1", "node1"),
            ("node[1-3,7]", "node1 node2 node3 node7"),
            ("gpu-[008-011]", "gpu-008 gpu-009 gpu-010 gpu-011"),
            ("a[1-2]-b[3-4],c", "a1-b3 a1-b4 a2-b3 a2-b4 c"),
            ("", ""),
            ("(null)", ""),
            ("None assigned", ""),
        ];
        for (text, names) in cases {
            assert_eq!(expand_nodes(text).join(" "), names, "{text}");
        }
    }

    #[test]
    fn a_node_list_that_is_none_stays_one_name_and_a_huge_one_stays_small() {
        for text in "node[1- node[x] n[3-1] n[1-4000000000] n[1-200][1-200]".split_whitespace() {
            assert_eq!(expand_nodes(text), [text]);
        }
    }

    #[test]
    fn a_list_whose_names_would_be_gigantic_stays_one_name() {
        let zeros = "0".repeat(70_000);
        let long = "x".repeat(300);
        for text in [
            format!("n[{zeros}1-9]"),
            format!("{long}[1-2]"),
            format!("n[1-2]{long}"),
            format!("n[1-2]{}", "[1]".repeat(300)),
        ] {
            assert_eq!(expand_nodes(&text), [text]);
        }
    }

    #[test]
    fn times_and_exits_that_say_nothing_are_nothing() {
        for text in [
            "",
            "0",
            "N/A",
            "Unknown",
            "None",
            "2026-11-21T02:00:22",
            "99999999999999999",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
        assert_eq!(parse_time("1795235046").unwrap().as_second(), 1_795_235_046);
        assert_eq!(parse_exit("0:125"), Some(ExitStatus::of(0, 125)));
        assert_eq!(parse_exit("0"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_readers_panic(text in ".{0,80}") {
            let _ = (parse_state(&text), parse_canceller(&text), parse_exit(&text));
            let _ = (parse_time(&text), parse_word(&text));
            proptest::prop_assert!(expand_nodes(&text).len() <= MAX_NODES + 1);
        }

        #[test]
        fn no_bracketed_text_makes_the_expander_panic(text in "[a-b0-2,\\[\\]-]{0,30}") {
            proptest::prop_assert!(expand_nodes(&text).len() <= MAX_NODES + 1);
        }
    }
}
