//! A ledger, whole or damaged: what counts is never more than what was written, and no later line
//! changes what an earlier one said.

use oomctl::core::engine::{Fact, History, Record};
use oomctl::core::request::Inputs;
use oomctl::io::ledger::{LedgerContents, parse};

use super::allocations::within;
use super::random::Random;

/// Bytes that reading may hold for each byte of the ledger: a short line becomes a record, and a record
/// is copied into its attempt.
const MOST_TIMES: usize = 256;
/// Beside these.
const MOST_MEMORY: usize = 1 << 20;

pub fn check(input: &[u8]) {
    let most = MOST_MEMORY + MOST_TIMES * input.len();
    let read = within(most, || {
        let read = parse(input);
        if let Ok(reading) = &read {
            let _ = History::replay(&reading.records);
        }
        read
    });
    let _ = serde_json::from_slice::<Inputs>(input);
    match read {
        Ok(reading) => {
            counted(&reading, input);
            written_again(&reading);
            prefix(&reading, input, &mut Random::of(input));
        }
        Err((line, why)) => {
            let lines = input.iter().filter(|byte| **byte == b'\n').count() as u64;
            assert!((1..=lines).contains(&line), "line {line} of {lines}: {why}");
        }
    }
}

/// Never more records than lines, numbered without a gap, and a tail that lies within the file.
fn counted(reading: &LedgerContents, input: &[u8]) {
    let lines = input.iter().filter(|byte| **byte == b'\n').count();
    assert!(reading.records.len() <= lines);
    if reading.newer.is_none() {
        let numbers = reading.records.iter().map(|record| record.seq);
        assert!(numbers.eq(1..=reading.records.len() as u64));
    }
    if let Some(torn) = reading.torn {
        let end = torn.offset.checked_add(torn.length);
        assert_eq!(end, Some(input.len() as u64));
    }
}

fn as_text(records: &[Record]) -> Vec<u8> {
    let mut text = Vec::new();
    for record in records {
        serde_json::to_writer(&mut text, record).unwrap();
        text.push(b'\n');
    }
    text
}

/// What counts, written down again, is read as it was.
fn written_again(reading: &LedgerContents) {
    let sealed = |record: &Record| matches!(record.fact, Fact::TornTail { .. });
    if reading.newer.is_some() || reading.records.iter().any(sealed) {
        return;
    }
    let again = parse(&as_text(&reading.records)).unwrap();
    assert_eq!(again.records, reading.records);
    assert_eq!((again.torn, again.newer), (None, None));
    assert_eq!(
        History::replay(&again.records),
        History::replay(&reading.records)
    );
}

/// A ledger that is cut off anywhere, as a reader sees it while it is written, says what its beginning
/// says; nothing that was sealed later comes in between.
fn prefix(reading: &LedgerContents, input: &[u8], random: &mut Random) {
    if String::from_utf8_lossy(input).contains("torn_tail") {
        return;
    }
    let cut = random.below(input.len() + 1);
    let early = parse(&input[..cut]).unwrap_or_else(|(line, why)| {
        panic!("the first {cut} bytes are damaged in line {line}: {why}")
    });
    // The first word of a new owner, which did not read what the one before it wrote at last.
    let fences = |record: &&Record| matches!(record.fact, Fact::OwnerChanged { .. });
    let last = early.records.last().map_or(0, |record| record.seq);
    let mut words = reading.records.iter().filter(fences);
    if words.any(|word| word.seq <= last && !early.records.contains(word)) {
        return;
    }
    assert!(
        reading.records.starts_with(&early.records),
        "the first {cut} bytes say something else"
    );
    let mut grown = History::replay(&early.records);
    for record in &reading.records[early.records.len()..] {
        grown.apply(record);
    }
    assert_eq!(grown, History::replay(&reading.records));
}
