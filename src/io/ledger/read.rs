//! Reading a ledger, whole or damaged.

use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{LEDGER_FILE, LedgerError};
use crate::core::engine::{Fact, LEDGER_VERSION, Record};
use crate::io::files::read_bounded;

/// Largest ledger that is read, in bytes: some 100,000 facts.
const LEDGER_MAX: u64 = 256 * 1024 * 1024;

/// Bytes at the end of a ledger that do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// Offset of the first.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// What a ledger says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LedgerContents {
    /// Records that count and that this version understands, in order.
    pub records: Vec<Record>,
    /// First line that only a newer version understands.
    pub newer: Option<u64>,
    /// Half a record at the end.
    pub torn: Option<Torn>,
    /// How many bytes were read.
    pub length: u64,
}

/// Reads the ledger in a run's folder, without changing anything.
///
/// # Errors
/// When there is none, or a line in the middle is damaged.
pub fn read(dir: &Path) -> Result<LedgerContents, LedgerError> {
    let path = dir.join(LEDGER_FILE);
    let bytes = read_bounded(&path, LEDGER_MAX)?;
    parse(&bytes).map_err(|(line, why)| LedgerError::Damaged { path, line, why })
}

/// One line of a ledger, with where it stands.
struct LedgerLine<'a> {
    number: u64,
    offset: u64,
    bytes: &'a [u8],
}

/// What a line is.
enum LedgerLineKind {
    /// What seals a tail that is none any more.
    Empty,
    Record(Box<Record>),
    Newer,
    Bad(String),
}

/// Lines that are no records, until it is known whether a writer sealed them.
struct Bad {
    line: u64,
    offset: u64,
    why: String,
}

/// Reads the text of a ledger.
///
/// # Errors
/// The line, from 1, and what is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<LedgerContents, (u64, String)> {
    let mut reader = LedgerReader::default();
    let complete = bytes
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |last| last + 1);
    let mut offset = 0;
    for text in bytes[..complete].split_inclusive(|b| *b == b'\n') {
        reader.lines += 1;
        reader.line(&LedgerLine {
            number: reader.lines,
            offset,
            bytes: &text[..text.len() - 1],
        })?;
        offset += text.len() as u64;
    }
    Ok(reader.finish(offset, bytes.len() as u64))
}

#[derive(Default)]
struct LedgerReader {
    lines: u64,
    reading: LedgerContents,
    /// Where each record of the reading begins.
    offsets: Vec<u64>,
    bad: Option<Bad>,
}

impl LedgerReader {
    fn line(&mut self, line: &LedgerLine) -> Result<(), (u64, String)> {
        match classify(line.bytes) {
            LedgerLineKind::Empty => Ok(()),
            LedgerLineKind::Record(record) => self.record(*record, line),
            LedgerLineKind::Newer => {
                self.damage()?;
                self.reading.newer.get_or_insert(line.number);
                Ok(())
            }
            LedgerLineKind::Bad(why) => {
                self.bad.get_or_insert(Bad {
                    line: line.number,
                    offset: line.offset,
                    why,
                });
                Ok(())
            }
        }
    }

    fn record(&mut self, record: Record, line: &LedgerLine) -> Result<(), (u64, String)> {
        if self
            .reading
            .records
            .last()
            .is_some_and(|last| record.epoch < last.epoch)
        {
            return Ok(());
        }
        if let Fact::TornTail { offset, length } = record.fact
            && offset
                .checked_add(length)
                .and_then(|end| end.checked_add(1))
                == Some(line.offset)
        {
            self.unseal(offset);
        }
        self.damage()?;
        if self.reading.newer.is_some() {
            self.push(record, line);
            return Ok(());
        }
        if matches!(
            record.fact,
            Fact::OwnerChanged { .. } | Fact::TornTail { .. }
        ) {
            self.fence(&record);
        }
        let last = self.reading.records.last();
        if last == Some(&record) {
            // The same write, sent twice by the file system.
            return Ok(());
        }
        let expected = last.map_or(1, |r| r.seq + 1);
        if record.seq != expected {
            let why = format!("record {} where {expected} was expected", record.seq);
            return Err((line.number, why));
        }
        self.push(record, line);
        Ok(())
    }

    fn push(&mut self, record: Record, line: &LedgerLine) {
        self.reading.records.push(record);
        self.offsets.push(line.offset);
    }

    /// A writer that stood still while another took the run over may find its last write done when it goes
    /// on. Nothing that it wrote after its successor read the ledger counts: the first word of that one goes on
    /// where its own reading ended.
    fn fence(&mut self, record: &Record) {
        let beaten = |r: &Record| r.epoch < record.epoch && r.seq >= record.seq;
        while self.reading.records.last().is_some_and(beaten) {
            self.reading.records.pop();
            self.offsets.pop();
        }
    }

    /// Forgets everything from `offset` on: a later writer found it torn and sealed it.
    fn unseal(&mut self, offset: u64) {
        if self.bad.as_ref().is_some_and(|bad| bad.offset >= offset) {
            self.bad = None;
        }
        while self.offsets.last().is_some_and(|at| *at >= offset) {
            self.offsets.pop();
            self.reading.records.pop();
        }
    }

    /// Bad lines that nobody sealed, before a line that is good.
    fn damage(&mut self) -> Result<(), (u64, String)> {
        match self.bad.take() {
            Some(bad) => Err((bad.line, bad.why)),
            None => Ok(()),
        }
    }

    /// What no good record follows is a tail that nobody sealed yet: half a record, blocks that were
    /// never written, or the halves that several attempts to write on a full disk left behind.
    fn finish(mut self, complete: u64, length: u64) -> LedgerContents {
        let from = self.bad.as_ref().map_or(complete, |bad| bad.offset);
        if from < length {
            self.reading.torn = Some(Torn {
                offset: from,
                length: length - from,
            });
        }
        self.reading.length = length;
        self.reading
    }
}

/// What stands behind our own last record: `None` when it is nothing but records of earlier owners, who
/// wrote them before they noticed that they were replaced.
///
/// # Errors
/// When a record of ours or of a later owner is among them.
pub(super) fn behind(bytes: &[u8], offset: u64, epoch: u64) -> Result<Option<Torn>, ()> {
    let mut torn = None;
    let mut at = offset;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        match line.strip_suffix(b"\n").map(classify) {
            Some(LedgerLineKind::Empty) => {}
            Some(LedgerLineKind::Record(record)) if record.epoch < epoch => {}
            Some(LedgerLineKind::Record(_) | LedgerLineKind::Newer) => return Err(()),
            Some(LedgerLineKind::Bad(_)) | None => {
                torn.get_or_insert(at);
            }
        }
        at += line.len() as u64;
    }
    Ok(torn.map(|torn| Torn {
        offset: torn,
        length: at - torn,
    }))
}

/// A record without its fact.
#[derive(Deserialize)]
struct RecordHeader {
    v: u32,
    seq: u64,
    at: Timestamp,
    epoch: u64,
}

/// A record as this version writes them. Place and fact are read from the line one after the other: together, every value
/// would be held twice on the way, and a project may have ten thousand ledgers.
fn record(line: &[u8]) -> serde_json::Result<Record> {
    let RecordHeader { v, seq, at, epoch } = serde_json::from_slice(line)?;
    if v != LEDGER_VERSION {
        return Err(serde::de::Error::custom("of another version"));
    }
    let fact = serde_json::from_slice(line)?;
    Ok(Record {
        v,
        seq,
        at,
        epoch,
        fact,
    })
}

fn classify(line: &[u8]) -> LedgerLineKind {
    if line.is_empty() {
        return LedgerLineKind::Empty;
    }
    if let Ok(record) = record(line) {
        return LedgerLineKind::Record(Box::new(record));
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(e) => return LedgerLineKind::Bad(format!("not a record ({e})")),
    };
    let Some(version) = value.get("v").and_then(Value::as_u64) else {
        return LedgerLineKind::Bad("not a record (it has no version)".to_owned());
    };
    if version > u64::from(LEDGER_VERSION) {
        return LedgerLineKind::Newer;
    }
    let kind = value.get("fact").and_then(Value::as_str).unwrap_or("");
    let known = Fact::KINDS.contains(&kind);
    match serde_json::from_slice(line) {
        Ok(record) => LedgerLineKind::Record(Box::new(record)),
        Err(_) if !known && !kind.is_empty() => LedgerLineKind::Newer,
        Err(e) => LedgerLineKind::Bad(format!("not a record ({e})")),
    }
}
