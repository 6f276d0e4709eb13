//! What a program writes into a pipe, and when that was all of it.
//!
//! A pipe stays open as long as anything has it that the program left running, so its end may never come. And
//! when the program has ended, some of what it wrote may still lie in the pipe, for as long as a busy machine or
//! a slow terminal lets the reader wait. So the bytes that lie there at the program's end are counted
//! (`FIONREAD`, `pipe(7)`), and with them all is read that it wrote itself.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionread};

/// Bytes that are read at once.
const PIECE: usize = 64 * 1024;

/// What is told of a pipe.
#[derive(Debug)]
pub enum PipeRead {
    /// What was read.
    Piece(Vec<u8>),
    /// All that the program itself wrote has been told. What comes after it comes from what it left running.
    All,
}

/// Reads a pipe until it is closed by all that have it, or until `tell` says that nobody listens any more; then
/// the pipe is closed on this side too. [`PipeRead::All`] is told once, whatever happens.
///
/// `life` is the reading end of a pipe in which nothing is written: its other end is dropped when the program
/// has ended.
pub fn read(stream: impl Read + AsFd, life: impl AsFd, tell: impl FnMut(PipeRead) -> bool) {
    let mut reader = ChunkReader {
        stream,
        tell,
        piece: vec![0; PIECE],
    };
    let open = reader.own_words(life).is_some();
    let heard = (reader.tell)(PipeRead::All);
    if open && heard {
        while reader.next().is_some() {}
    }
}

struct ChunkReader<S, T> {
    stream: S,
    tell: T,
    piece: Vec<u8>,
}

impl<S: Read + AsFd, T: FnMut(PipeRead) -> bool> ChunkReader<S, T> {
    /// Tells what the program itself wrote. `None` when there is nothing more to read or nobody to tell it.
    fn own_words(&mut self, life: impl AsFd) -> Option<()> {
        while !self.program_has_ended(&life) {
            self.next()?;
        }
        let mut left = ioctl_fionread(&self.stream).unwrap_or(0);
        while left > 0 {
            left = left.saturating_sub(self.next()?);
        }
        Some(())
    }

    /// Waits until there is something to read, or the program has ended: true in that case.
    fn program_has_ended(&self, life: &impl AsFd) -> bool {
        let mut either = [
            PollFd::new(&self.stream, PollFlags::IN),
            PollFd::new(life, PollFlags::IN),
        ];
        while poll(&mut either, None) == Err(Errno::INTR) {}
        !either[1].revents().is_empty()
    }

    /// Reads and tells a piece; how many bytes that were.
    fn next(&mut self) -> Option<u64> {
        let length = loop {
            match self.stream.read(&mut self.piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return None,
                Ok(length) => break length,
            }
        };
        let bytes = self.piece[..length].to_vec();
        (self.tell)(PipeRead::Piece(bytes)).then_some(length as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Write, pipe};
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// What is told of a pipe that holds `before` when its program ends; something else that has it then writes
    /// `after`.
    fn told(before: &[u8], after: &'static [u8]) -> Vec<String> {
        let (stream, mut writer) = pipe().unwrap();
        let (life, alive) = pipe().unwrap();
        writer.write_all(before).unwrap();
        drop(alive);
        let mut writer = Some(writer);
        let mut told = Vec::new();
        read(stream, life, |words| {
            told.push(match words {
                PipeRead::Piece(bytes) => String::from_utf8(bytes).unwrap(),
                PipeRead::All => {
                    writer.take().unwrap().write_all(after).unwrap();
                    "all".to_owned()
                }
            });
            true
        });
        told
    }

    #[test]
    fn what_lies_in_the_pipe_at_the_programs_end_is_told_before_that_it_is_all() {
        assert_eq!(told(b"step 1\n", b""), ["step 1\n", "all"]);
        assert_eq!(told(b"", b""), ["all"]);
    }

    #[test]
    fn what_a_program_left_running_is_told_after_its_own_words() {
        assert_eq!(
            told(b"step 1\n", b"still here\n"),
            ["step 1\n", "all", "still here\n"]
        );
    }

    #[test]
    fn something_that_prints_without_end_does_not_hide_that_all_was_said() {
        let (stream, mut writer) = pipe().unwrap();
        let (life, alive) = pipe().unwrap();
        drop(alive);
        let endless = std::thread::spawn(move || while writer.write_all(b"y\n").is_ok() {});
        let mut pieces = 0_u32;
        read(stream, life, |words| {
            pieces += 1;
            matches!(words, PipeRead::Piece(_))
        });
        // A pipe holds 64 KiB, and a piece may be as short as a line.
        assert!(pieces <= 32 * 1024 + 1, "{pieces}");
        endless.join().unwrap();
    }

    #[test]
    fn a_pipe_that_is_closed_while_the_program_lives_has_an_end_to_its_words_too() {
        let (stream, mut writer) = pipe().unwrap();
        let (life, alive) = pipe().unwrap();
        writer.write_all(b"x").unwrap();
        drop(writer);
        let (sender, told) = sync_channel(4);
        read(stream, life, |words| {
            sender.send(matches!(words, PipeRead::All)).is_ok()
        });
        drop((sender, alive));
        assert_eq!(told.iter().collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn a_pipe_to_which_nobody_listens_is_closed_at_once() {
        let (stream, mut writer) = pipe().unwrap();
        let (life, alive) = pipe().unwrap();
        writer.write_all(b"x").unwrap();
        let mut told = 0_u32;
        read(stream, life, |_| {
            told += 1;
            false
        });
        // The program lives, and is told so by the end of its stream.
        assert_eq!(told, 2);
        assert_eq!(
            writer.write_all(b"x").unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
        drop(alive);
    }
}
