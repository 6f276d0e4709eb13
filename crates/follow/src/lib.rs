//! Following log files as bytes: thousands of them, nothing lost, nothing twice.
//!
//! Rule: polling is the truth. Where a file stands is decided by its content (position and fingerprints),
//! never by its times; inotify only shortens the wait, and every file is looked at now and then without
//! its word. On a network file system a log is opened, read and closed at each look, for only that shows
//! what another node wrote.
//!
//! The way of a look: `followers` (which file) → `entry` (when) → `record` (is it the same file, what is new) →
//! `position` (fingerprints) and `calls` (the system). `hints` is inotify.

#![allow(clippy::disallowed_methods, reason = "this library touches files")]

mod calls;
mod entry;
mod followers;
mod hints;
mod look;
mod position;
mod record;
mod rotated;

pub use calls::network_file_system;
pub use followers::{Followed, Followers, LookMode};
pub use hints::Waiter;
pub use position::FilePosition;

/// What a look at a file found, in the order in which it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth<'a> {
    /// New bytes. Where the file has a hole, the next offset is behind it.
    Bytes {
        /// Offset of the first one in the file.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// The file was truncated or is another one: what was read before belongs to an earlier run of the
    /// job. What follows is read from the start.
    NewGeneration,
    /// The file was renamed and a new one has its name, as when logs are rotated. The old one was read to
    /// its end; what follows is the new one from its start.
    Rotated,
    /// The file was there and is gone. Said once.
    Removed,
    /// The file cannot be read. Said once, and again only after it could be read in between or when the
    /// reason changes. Nothing is lost: it is tried again.
    Trouble(&'a str),
}

/// From where a file is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowStart {
    /// From an offset on: a job that was restarted appends to the log of its earlier run. A file that is
    /// shorter is read from its start.
    At(u64),
    /// From where an earlier process stood.
    Checkpoint(FilePosition),
}

#[cfg(test)]
mod tests;
