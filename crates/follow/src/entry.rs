//! One file's place in the schedule, and one round of looks at it.

use super::Growth;
use super::calls::is_out_of_descriptors;
use super::record::{FileRecord, LookContext, LookOutcome};

/// Most chunks of one log at one look, so that one log cannot hold up the others.
const CHUNKS: usize = 16;

/// Milliseconds between two looks at a log of which no events come: an eighth of the time for which it has
/// been quiet, within these bounds. A line is seen after at most this share of the silence before it.
const POLL_MS: i64 = 1_000;
const POLL_MAX_MS: i64 = 2_000;
const POLL_SHARE: i64 = 8;

/// Looks are due at multiples of this, in milliseconds.
const GRAIN_MS: i64 = 50;

/// Most milliseconds between two looks at a log whose events come.
const HINTED_MS: i64 = 15_000;

#[derive(Debug)]
pub(super) struct FollowerEntry {
    pub(super) record: FileRecord,
    pub(super) group: u64,
    /// Looks in a row that found nothing.
    pub(super) quiet: u8,
    /// When the last one found something, in milliseconds since 1970.
    pub(super) stirred: i64,
    /// An event came.
    pub(super) hinted: bool,
    /// It grew after an event: they do come.
    pub(super) proven: bool,
    pub(super) watch: WatchState,
    /// The system's number of the watch of its folder.
    pub(super) number: Option<i32>,
}

/// Do events come of a file?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchState {
    /// Not asked yet, or its folder is not there.
    Wanted,
    /// Yes.
    Yes,
    /// They should, but it grew without one: somebody writes from another node, or through a link.
    Doubtful,
    /// No.
    No,
}

impl FollowerEntry {
    pub(super) fn new(record: FileRecord, group: u64) -> Self {
        Self {
            record,
            group,
            quiet: 0,
            stirred: i64::MAX,
            hinted: false,
            proven: false,
            watch: WatchState::Wanted,
            number: None,
        }
    }

    /// When to look next, in milliseconds since 1970.
    pub(super) fn reschedule(&mut self, seen: &RoundResult, now: i64) -> i64 {
        if seen.grew && self.watch == WatchState::Yes {
            match self.hinted {
                true => self.proven = true,
                // Not at its first look, which no event announces.
                false if self.quiet > 0 => {
                    (self.watch, self.proven) = (WatchState::Doubtful, false)
                }
                false => {}
            }
        }
        self.hinted = seen.behind;
        self.quiet = if seen.anything {
            0
        } else {
            self.quiet.saturating_add(1)
        };
        if seen.anything || self.stirred > now || !self.record.is_at_rest() {
            self.stirred = now;
        }
        let certain = self.watch == WatchState::Yes
            && !seen.out_of_descriptors
            && self.record.is_at_rest()
            && self.record.real.is_none()
            && self.record.trouble.is_none();
        let wait = if certain && self.proven {
            HINTED_MS
        } else if certain {
            (POLL_MS << self.quiet.min(4)).min(HINTED_MS)
        } else {
            let quiet = now.saturating_sub(self.stirred);
            (quiet / POLL_SHARE).clamp(POLL_MS, POLL_MAX_MS)
        };
        // Together with others that are due at about the same time.
        now.saturating_add(wait)
            .div_euclid(GRAIN_MS)
            .saturating_mul(GRAIN_MS)
    }
}

/// What one round of looks at one file brought.
#[derive(Debug, Default)]
pub(super) struct RoundResult {
    pub(super) anything: bool,
    grew: bool,
    /// There is more.
    pub(super) behind: bool,
    pub(super) out_of_descriptors: bool,
}

/// Reads a bounded part of what is new.
pub(super) fn read_some(
    record: &mut FileRecord,
    desk: &mut LookContext<'_>,
    each: &mut dyn FnMut(Growth<'_>),
) -> RoundResult {
    let mut seen = RoundResult::default();
    for _ in 0..CHUNKS {
        // A reader that fails for once (ESTALE, EIO) gets it when the file is opened anew.
        let step = record.look(desk).or_else(|_| record.look(desk));
        if step.is_ok() {
            record.trouble = None;
        }
        match step {
            Ok(LookOutcome::Nothing) => return seen,
            Ok(LookOutcome::Bytes(new)) => {
                let (offset, data) = (new.offset, &desk.buffer[new.start..new.end]);
                each(Growth::Bytes { offset, data });
                (seen.anything, seen.grew) = (true, true);
                if !new.more {
                    return seen;
                }
            }
            Ok(LookOutcome::NewGeneration) => each(Growth::NewGeneration),
            Ok(LookOutcome::Rotated) => each(Growth::Rotated),
            Ok(LookOutcome::Removed) => {
                each(Growth::Removed);
                seen.anything = true;
                return seen;
            }
            Err(error) if is_out_of_descriptors(&error) => {
                record.close(desk.held);
                seen.out_of_descriptors = true;
                return seen;
            }
            Err(error) => {
                let reason = format!("cannot read {}: {error}", record.path.display());
                if record.trouble.as_deref() != Some(reason.as_str()) {
                    each(Growth::Trouble(&reason));
                    record.trouble = Some(reason.into());
                }
                return seen;
            }
        }
        seen.anything = true;
        desk.likely = true;
    }
    seen.behind = true;
    seen
}
