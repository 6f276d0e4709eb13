//! A part of a file that may be large, grow and vanish: read for somebody who looks at it.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use regex::bytes::{Regex, RegexBuilder};

use crate::core::adopt::version::{LogExcerpt, MAX_LOG};

/// Bytes that are searched at once; a longer line counts as several.
const CHUNK: u64 = 1 << 20;
/// Most bytes of words that are searched for, as a regular expression.
const WORDS_MAX: usize = 64 << 10;

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePart {
    /// Where it begins, in bytes.
    pub start: u64,
    /// What stands there.
    pub bytes: Vec<u8>,
    /// Bytes of the whole file.
    pub length: u64,
}

/// The part of a file that `of` chooses by its length.
///
/// # Errors
/// When it cannot be read, or is no file.
pub fn part(path: &Path, of: impl FnOnce(u64) -> Range<u64>) -> io::Result<FilePart> {
    let (file, length) = open(path)?;
    let range = of(length);
    Ok(FilePart {
        start: range.start,
        bytes: read(&file, range)?,
        length,
    })
}

/// What a log begins with and ends with: both in one where it is short, none where it cannot be read.
pub fn log_ends(path: &Path) -> Vec<LogExcerpt> {
    let head = part(path, |length| 0..length.min(MAX_LOG)).ok();
    let head = head.map(|head| LogExcerpt::new(path, &head.bytes, true));
    head.into_iter().chain(log_tail(path)).collect()
}

/// What a log ends with, where that is not in its head.
pub fn log_tail(path: &Path) -> Option<LogExcerpt> {
    let last = |length: u64| length.saturating_sub(MAX_LOG).max(MAX_LOG).min(length)..length;
    let tail = part(path, last).ok()?;
    (!tail.bytes.is_empty()).then(|| LogExcerpt::new(path, &tail.bytes, false))
}

/// Words to look for in lines.
pub struct LineSearch(Regex);

impl LineSearch {
    /// These words. Capitals count only where there are some in them. None where there are too many.
    pub fn new(words: &str) -> Option<Self> {
        let capitals = words.bytes().any(|b| b.is_ascii_uppercase());
        let built = RegexBuilder::new(&regex::escape(words))
            .case_insensitive(!capitals)
            .unicode(false)
            .size_limit(WORDS_MAX)
            .build();
        built.ok().map(Self)
    }

    /// The next line of a file with these words in it, from the one that begins at `from`; where it begins.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn after(&self, path: &Path, from: u64) -> io::Result<Option<u64>> {
        let (file, length) = open(path)?;
        let mut start = from;
        while start < length {
            let mut bytes = read(&file, start..length.min(start + CHUNK))?;
            let is_last = start + bytes.len() as u64 >= length;
            if !is_last && let Some(end) = bytes.iter().rposition(|b| *b == b'\n') {
                bytes.truncate(end + 1);
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            if let Some(hit) = self.0.find(&bytes) {
                return Ok(Some(start + line_start(&bytes, hit.start())));
            }
            start += bytes.len() as u64;
        }
        Ok(None)
    }

    /// The same towards the beginning, before the line that begins at `to`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn before(&self, path: &Path, to: u64) -> io::Result<Option<u64>> {
        let (file, length) = open(path)?;
        let mut end = to.min(length);
        while end > 0 {
            let start = end.saturating_sub(CHUNK);
            let bytes = read(&file, start..end)?;
            let newline = bytes.iter().position(|b| *b == b'\n');
            // The first line may begin earlier: it is looked at with those before it.
            let whole = match newline {
                Some(at) if start > 0 && at + 1 < bytes.len() => at + 1,
                _ => 0,
            };
            if let Some(hit) = self.0.find_iter(&bytes[whole..]).last() {
                let at = line_start(&bytes, whole + hit.start());
                return Ok(Some(start + at));
            }
            end = start + whole as u64;
        }
        Ok(None)
    }
}

fn line_start(bytes: &[u8], at: usize) -> u64 {
    let newline = bytes[..at].iter().rposition(|b| *b == b'\n');
    newline.map_or(0, |newline| newline as u64 + 1)
}

/// Opens a file to be read: a pipe in its place keeps nobody waiting.
pub(super) fn nonblocking(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = nonblocking(path)?;
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok((file, metadata.len())),
        false => Err(io::Error::other("not a regular file")),
    }
}

/// What stands in a part, as far as there is that much.
fn read(file: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
    let wanted = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
    let mut bytes = vec![0; wanted];
    let mut got = 0;
    while got < wanted {
        match file.read_at(&mut bytes[got..], range.start + got as u64) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(got);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: usize) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let text: String = (0..lines).map(|n| format!("step {n:07} Loss\n")).collect();
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn words_are_found_in_both_directions_however_far_away() {
        // Several chunks of 18 bytes a line.
        let (_folder, path) = log(200_000);
        let find = |words: &str| LineSearch::new(words).unwrap();
        assert_eq!(
            find("step 0150000").after(&path, 0).unwrap(),
            Some(150_000 * 18)
        );
        assert_eq!(
            find("step 0000003 loss")
                .before(&path, 190_000 * 18)
                .unwrap(),
            Some(3 * 18)
        );
        assert_eq!(
            find("loss").before(&path, 190_000 * 18).unwrap(),
            Some(189_999 * 18)
        );
        assert_eq!(find("Step").after(&path, 0).unwrap(), None);
    }

    #[test]
    fn a_file_without_a_line_end_is_searched_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, [vec![b'x'; 3 << 20], b"end".to_vec()].concat()).unwrap();
        let end = LineSearch::new("end").unwrap();
        assert!(end.after(&path, 0).unwrap().is_some());
        assert!(end.before(&path, u64::MAX).unwrap().is_some());
        assert_eq!(
            LineSearch::new("no")
                .unwrap()
                .before(&path, u64::MAX)
                .unwrap(),
            None
        );
    }

    #[test]
    fn a_part_is_what_there_is_of_it() {
        let (_folder, path) = log(2);
        let part = part(&path, |length| length - 5..length + 100).unwrap();
        assert_eq!((part.start, part.length), (31, 36));
        assert_eq!(part.bytes, b"Loss\n");
    }
}
