use std::fs;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use super::*;
use crate::core::engine::{History, Outcome};
use crate::io::disk::DiskChange;
use crate::io::scheduler::command::{CommandCall, CommandOutput};
use crate::io::trial::{self, Trial};
use oomctl_base::job::{JobId, JobRef, JobState, JobStatus, Token};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// Facts of a run that succeeds at once.
fn facts() -> Vec<Fact> {
    let token = Token("oomctl-r1-1-0badcafe".to_owned());
    let job = JobRef {
        id: JobId("17".to_owned()),
        cluster: None,
        token: Some(token.clone()),
        submitted: at(2),
    };
    vec![
        Fact::Created {
            run: "r1".to_owned(),
            version: "0.1.0".to_owned(),
        },
        Fact::Intended {
            attempt: 1,
            token,
            script: "job.sbatch".to_owned(),
            script_sha256: "ab".repeat(32),
            gpus: 4,
            rungs: Vec::new(),
            outputs: Vec::new(),
        },
        Fact::Submitted {
            attempt: 1,
            job,
            adopted: false,
        },
        Fact::StateSeen {
            attempt: 1,
            status: JobStatus::bare(JobId("17".to_owned()), JobState::Running),
        },
        Fact::Finished {
            outcome: Outcome::Succeeded,
        },
    ]
}

fn written() -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::create(dir.path()).unwrap();
    for (i, fact) in facts().iter().enumerate() {
        ledger.append(fact, at(i64::try_from(i).unwrap())).unwrap();
    }
    drop(ledger);
    let bytes = fs::read(dir.path().join(LEDGER_FILE)).unwrap();
    (dir, bytes)
}

fn only_facts(records: &[Record]) -> Vec<Fact> {
    records.iter().map(|r| r.fact.clone()).collect()
}

#[test]
fn what_was_appended_is_read_back() {
    let (dir, _) = written();
    let reading = read(dir.path()).unwrap();
    assert_eq!(only_facts(&reading.records), facts());
    assert_eq!(reading.torn, None);
    let seqs: Vec<u64> = reading.records.iter().map(|r| r.seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5]);
}

#[test]
fn a_ledger_cut_at_any_byte_is_read_sealed_and_goes_on() {
    let (_, bytes) = written();
    for cut in 0..=bytes.len() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LEDGER_FILE);
        fs::write(&path, &bytes[..cut]).unwrap();
        let complete = bytes[..cut].iter().filter(|b| **b == b'\n').count();

        let reading = read(dir.path()).unwrap();
        assert_eq!(
            only_facts(&reading.records),
            facts()[..complete],
            "cut {cut}"
        );
        assert_eq!(
            fs::read(&path).unwrap(),
            &bytes[..cut],
            "readers change nothing"
        );

        let (mut ledger, records) = Ledger::open(dir.path(), Takeover::IfDead, at(9)).unwrap();
        let torn = matches!(
            records.get(complete).map(|r| &r.fact),
            Some(Fact::TornTail { .. })
        );
        let whole = cut == 0 || bytes[cut - 1] == b'\n';
        assert_eq!(torn, !whole, "cut {cut}");
        ledger.append(&facts()[4], at(10)).unwrap();
        drop(ledger);

        let again = read(dir.path()).unwrap();
        assert_eq!(again.torn, None, "cut {cut}");
        assert_eq!(only_facts(&again.records)[..complete], facts()[..complete]);
        assert_eq!(again.records.last().unwrap().fact, facts()[4]);
        let on_disk = fs::read(&path).unwrap();
        assert!(on_disk.starts_with(&bytes[..cut]), "nothing was truncated");
    }
}

#[test]
fn a_seal_that_was_itself_cut_is_sealed_again() {
    let (_, bytes) = written();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LEDGER_FILE);
    let torn_at = bytes.len() - 20;
    fs::write(&path, &bytes[..torn_at]).unwrap();
    drop(Ledger::open(dir.path(), Takeover::IfDead, at(9)).unwrap());
    let sealed = fs::read(&path).unwrap();
    for cut in torn_at..sealed.len() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(LEDGER_FILE), &sealed[..cut]).unwrap();
        drop(Ledger::open(dir.path(), Takeover::IfDead, at(10)).unwrap());
        let reading = read(dir.path()).unwrap();
        assert_eq!(only_facts(&reading.records)[..4], facts()[..4], "cut {cut}");
        assert_eq!(reading.torn, None, "cut {cut}");
    }
}

#[test]
fn blocks_of_zeros_at_the_end_do_not_count() {
    let (_, bytes) = written();
    for zeros in [1, 512, 8_133, 8_561, 16_384] {
        for cut in [bytes.len(), bytes.len() - 30] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(LEDGER_FILE);
            let mut text = bytes[..cut].to_vec();
            text.resize(cut + zeros, 0);
            fs::write(&path, &text).unwrap();
            let reading = read(dir.path()).unwrap();
            assert!(reading.torn.is_some());
            let (_, records) = Ledger::open(dir.path(), Takeover::IfDead, at(9)).unwrap();
            assert_eq!(only_facts(&records)[..4], facts()[..4]);
            assert_eq!(read(dir.path()).unwrap().torn, None);
        }
    }
}

#[test]
fn damage_in_the_middle_is_an_error_that_names_the_line_and_changes_nothing() {
    let (dir, bytes) = written();
    let path = dir.path().join(LEDGER_FILE);
    let second = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
    let mut damaged = bytes.clone();
    damaged[second] = b'#';
    fs::write(&path, &damaged).unwrap();
    let error = Ledger::open(dir.path(), Takeover::IfDead, at(9)).unwrap_err();
    assert!(
        error.to_string().contains("ledger.jsonl:2: not a record"),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), damaged);
}

#[test]
fn a_missing_record_is_damage_and_a_doubled_one_is_not() {
    let (_, bytes) = written();
    let lines: Vec<&str> = std::str::from_utf8(&bytes).unwrap().lines().collect();
    let without = format!("{}\n{}\n", lines[0], lines[2]);
    let (line, why) = parse(without.as_bytes()).unwrap_err();
    assert_eq!((line, why.as_str()), (2, "record 3 where 2 was expected"));
    let doubled = format!("{}\n{}\n{}\n", lines[0], lines[1], lines[1]);
    assert_eq!(parse(doubled.as_bytes()).unwrap().records.len(), 2);
}

#[test]
fn a_seal_with_figures_of_any_size_is_no_seal_of_what_is_there() {
    let seal = |offset: u64, length: u64| {
        let fact = Fact::TornTail { offset, length };
        let at = at(1);
        let record = Record::new(1, at, 1, fact);
        format!("half\n{}\n", serde_json::to_string(&record).unwrap())
    };
    assert_eq!(parse(seal(0, 4).as_bytes()).unwrap().records.len(), 1);
    for (offset, length) in [(1, u64::MAX), (u64::MAX, 5), (0, u64::MAX)] {
        let (line, _) = parse(seal(offset, length).as_bytes()).unwrap_err();
        assert_eq!(line, 1);
    }
}

#[test]
fn a_number_is_read_back_to_the_last_bit() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::create(dir.path()).unwrap();
    let ended = |gpu_seconds| Fact::Ended {
        attempt: 1,
        status: None,
        gpu_seconds,
    };
    // The second is one that a reader in a hurry takes for its neighbour.
    for gpu_seconds in [0.1 + 0.2, 961_350_100_472_664_280.0, f64::MAX] {
        ledger.append(&ended(gpu_seconds), at(1)).unwrap();
    }
    let read = read(dir.path()).unwrap().records;
    let written = [0.1 + 0.2, 961_350_100_472_664_280.0, f64::MAX].map(ended);
    assert_eq!(only_facts(&read), written);
}

#[test]
fn a_newer_ledger_is_read_but_not_written() {
    let (dir, bytes) = written();
    let path = dir.path().join(LEDGER_FILE);
    for line in [
        r#"{"v":2,"seq":6,"at":"2027-01-15T08:00:09Z","epoch":1,"what":"else"}"#,
        r#"{"v":1,"seq":6,"at":"2027-01-15T08:00:09Z","epoch":1,"fact":"moved","to":"x"}"#,
    ] {
        let mut text = bytes.clone();
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
        fs::write(&path, &text).unwrap();
        let reading = read(dir.path()).unwrap();
        assert_eq!(reading.newer, Some(6));
        assert_eq!(only_facts(&reading.records), facts());
        let error = Ledger::open(dir.path(), Takeover::IfDead, at(9)).unwrap_err();
        assert!(
            matches!(error, LedgerError::Newer { line: 6, .. }),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), text);
    }
}

#[test]
fn an_unknown_field_from_a_later_version_is_no_damage() {
    let line = r#"{"v":1,"seq":1,"at":"2027-01-15T08:00:00Z","epoch":1,"fact":"submit_absent","attempt":1,"asked":"twice"}"#;
    let reading = parse(format!("{line}\n").as_bytes()).unwrap();
    assert_eq!(reading.records[0].fact, Fact::SubmitAbsent { attempt: 1 });
}

#[test]
fn a_second_ledger_is_not_made_over_the_first() {
    let (dir, bytes) = written();
    let error = Ledger::create(dir.path()).unwrap_err();
    assert!(matches!(error, LedgerError::Exists { .. }), "{error}");
    assert_eq!(fs::read(dir.path().join(LEDGER_FILE)).unwrap(), bytes);
}

#[test]
fn whoever_was_taken_over_cannot_append() {
    let (dir, _) = written();
    let (mut first, _) = Ledger::open(dir.path(), Takeover::IfDead, at(9)).unwrap();
    let error = Ledger::open(dir.path(), Takeover::IfDead, at(10)).unwrap_err();
    assert!(matches!(error, LedgerError::Owned { .. }), "{error}");
    let (mut second, _) = Ledger::open(dir.path(), Takeover::Forced, at(11)).unwrap();
    let error = first.append(&facts()[4], at(12)).unwrap_err();
    assert!(matches!(error, LedgerError::TakenOver { .. }), "{error}");
    assert!(second.append(&facts()[4], at(13)).is_ok());
    assert!(read(dir.path()).is_ok());
}

/// A disk that takes only so many bytes.
struct FullDisk(usize, Vec<u8>);

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = self.0.min(bytes.len());
        if room == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0 -= room;
        self.1.extend_from_slice(&bytes[..room]);
        Ok(room)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn half_a_record_on_a_full_disk_is_an_error_and_does_not_count() {
    let (_, bytes) = written();
    let first = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
    for room in 0..first {
        let mut disk = FullDisk(room, Vec::new());
        let error = write_once(&mut disk, &bytes[..first]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        assert!(parse(&disk.1).unwrap().records.is_empty());
    }
    let mut disk = FullDisk(first, Vec::new());
    write_once(&mut disk, &bytes[..first]).unwrap();
    assert_eq!(parse(&disk.1).unwrap().records.len(), 1);
}

/// A disk on which nothing can be written.
struct BadDisk;

impl Trial for BadDisk {
    fn change(&self, _: DiskChange<'_>) -> std::io::Result<usize> {
        Err(std::io::Error::other("Input/output error"))
    }
    fn file_time(&self) -> std::io::Result<SystemTime> {
        Ok(SystemTime::now())
    }
    fn uptime(&self) -> Duration {
        Duration::ZERO
    }
    fn process(&self) -> LedgerOwner {
        unreachable!("nobody becomes an owner here")
    }
    fn started(&self, _: u32) -> Option<u64> {
        None
    }
    fn random(&self) -> [u8; 4] {
        [0; 4]
    }
    fn call(&self, _: &CommandCall) -> CommandOutput {
        unreachable!("nothing is asked here")
    }
}

#[test]
fn a_ledger_at_rest_holds_no_descriptor() {
    let (dir, _) = written();
    let (mut ledger, _) = Ledger::open(dir.path(), Takeover::IfDead, at(9)).unwrap();
    ledger.append(&facts()[4], at(10)).unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let ours = open
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .filter(|to| to.starts_with(dir.path()));
    assert_eq!(ours.collect::<Vec<_>>(), Vec::<PathBuf>::new());
    drop(ledger);
}

#[test]
fn after_a_failed_write_nothing_more_is_written() {
    let (dir, bytes) = written();
    let (mut ledger, _) = Ledger::open(dir.path(), Takeover::IfDead, at(9)).unwrap();
    let path = dir.path().join(LEDGER_FILE);
    let before = fs::read(&path).unwrap();
    trial::set(Some(Rc::new(BadDisk)));
    let error = ledger.append(&facts()[4], at(10)).unwrap_err();
    trial::set(None);
    assert!(error.to_string().starts_with("cannot write "), "{error}");
    let error = ledger.append(&facts()[4], at(11)).unwrap_err();
    assert!(matches!(error, LedgerError::Poisoned { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(before.starts_with(&bytes));
}

/// The ledger of format 1, kept for ever: whatever later versions write, they read this.
#[test]
fn the_ledger_of_version_1_is_read() {
    let text = include_bytes!("../../../tests/fixtures/ledger-v1.jsonl");
    let reading = parse(text).unwrap();
    assert_eq!(reading.newer, None);
    assert_eq!(reading.torn, None);
    let kinds: std::collections::BTreeSet<String> = reading
        .records
        .iter()
        .map(|r| {
            let value = serde_json::to_value(r).unwrap();
            value["fact"].as_str().unwrap().to_owned()
        })
        .collect();
    let known: std::collections::BTreeSet<String> =
        Fact::KINDS.iter().map(|k| (*k).to_owned()).collect();
    assert_eq!(
        kinds, known,
        "the fixture has every kind of fact, and Fact::KINDS too"
    );
    let history = History::replay(&reading.records);
    assert_eq!(history.run, "diamonds-1");
    assert_eq!(history.attempts.len(), 3);
    assert_eq!(history.steps().count(), 1);
    assert_eq!(history.outcome.unwrap().exit_code(), 9);
}

/// A line as an owner of this epoch would write it.
fn line(seq: u64, epoch: u64, fact: Fact) -> Vec<u8> {
    let record = Record::new(seq, at(50), epoch, fact);
    let mut line = serde_json::to_vec(&record).unwrap();
    line.push(b'\n');
    line
}

fn late(dir: &Path, bytes: &[u8]) {
    let path = dir.join(LEDGER_FILE);
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn what_a_replaced_owner_writes_late_counts_for_nobody_and_stops_nobody() {
    let stray = line(6, 1, Fact::SubmitAbsent { attempt: 1 });
    let half = &stray[..stray.len() / 2];
    let sealed = [b"\n", &stray[..]].concat();
    for late_bytes in [&stray[..], half, &sealed] {
        let (dir, _) = written();
        let (mut ledger, records) = Ledger::open(dir.path(), Takeover::Forced, at(60)).unwrap();
        late(dir.path(), late_bytes);
        ledger.still_ours().unwrap();
        let after = ledger
            .append(&Fact::SubmitAbsent { attempt: 2 }, at(61))
            .unwrap();
        let again = ledger
            .append(&Fact::SubmitAbsent { attempt: 3 }, at(62))
            .unwrap();
        drop(ledger);
        let read = read(dir.path()).unwrap().records;
        let ours = |r: &&Record| !matches!(r.fact, Fact::TornTail { .. });
        let kept: Vec<&Record> = read.iter().filter(ours).collect();
        let expected: Vec<&Record> = records.iter().chain([&after, &again]).collect();
        assert_eq!(kept, expected);
        Ledger::open(dir.path(), Takeover::IfDead, at(70)).unwrap();
    }
}

#[test]
fn a_record_that_came_between_the_reading_and_the_first_word_of_the_next_owner_does_not_count() {
    let (dir, _) = written();
    late(dir.path(), &line(6, 1, Fact::SubmitAbsent { attempt: 1 }));
    let changed = Fact::OwnerChanged {
        host: "login2".to_owned(),
        pid: 7,
    };
    late(dir.path(), &line(6, 2, changed.clone()));
    let records = read(dir.path()).unwrap().records;
    assert_eq!(records.len(), 6);
    assert_eq!(records[5].fact, changed);
}

#[test]
fn what_a_later_owner_wrote_ends_our_part() {
    let (dir, _) = written();
    let (mut ledger, _) = Ledger::open(dir.path(), Takeover::Forced, at(60)).unwrap();
    late(dir.path(), &line(7, 9, Fact::SubmitAbsent { attempt: 1 }));
    let error = ledger.append(&Fact::SubmitAbsent { attempt: 1 }, at(61));
    assert!(
        matches!(error, Err(LedgerError::TakenOver { .. })),
        "{error:?}"
    );
}
