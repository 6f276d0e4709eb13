//! One run's looks at its logs: where the last watch stood, what is new, what is told of it.

use std::path::PathBuf;

use jiff::Timestamp;

use super::DriveError;
use super::handle::{Handle, log_paths, of_others};
use super::logs::{AttemptLogs, JobPart, bookmark};
use super::notice::{Notice, Observer};
use crate::core::engine::{Attempt, AttemptEvent, Event, LogLook};
use crate::io::disk::remove_file;
use crate::io::files::make_private_dir;
use crate::io::library::bugs;
use crate::io::snapshots;
use oomctl_diagnose::{Incident, Scanner};
use oomctl_follow::{Followers, LookMode};

impl Handle {
    /// The logs of the present attempt: from where an earlier watch stood, or else from where the present
    /// part of the job begins.
    pub(super) fn logs(&mut self, followers: &mut Followers) -> &mut AttemptLogs {
        let Self {
            run, folder, group, ..
        } = self;
        self.logs.get_or_insert_with(|| {
            let request = &run.request;
            let several = request.goes_on_after_failure();
            let scanner = || {
                let scanner =
                    Scanner::new(request.progress()).knowing(&request.inputs().signatures);
                let scanner = scanner.knowing_bugs(bugs, request.inputs().installed.clone());
                let scanner = scanner.of_several_programs(several);
                scanner.knowing_own_bugs(&request.inputs().bugs)
            };
            let Some(attempt) = run.history.attempt() else {
                return AttemptLogs::open(&[], &[], scanner(), followers, *group);
            };
            let paths = log_paths(folder, attempt);
            let part = part(&run.history.run, attempt);
            bookmark::read(&folder.bookmark(attempt.number), &part)
                .and_then(|kept| AttemptLogs::resume(kept, &paths, scanner(), followers, *group))
                .unwrap_or_else(|| {
                    AttemptLogs::open(&paths, &part.starts, scanner(), followers, *group)
                })
                .measuring(request.measures().to_vec())
        })
    }

    /// Lets an incident see the snapshot of memory that the attempt left.
    pub(super) fn see_snapshot(&self, incident: &mut Incident) {
        let Some(attempt) = self.run.history.attempt() else {
            return;
        };
        let logs = log_paths(&self.folder, attempt);
        let own = self.folder.attempt(attempt.number);
        let folders = [self.run.request.workdir(), own.as_path()];
        snapshots::look(incident, &logs, &folders, Some(&own));
    }

    /// Reads what the logs have got and hands it in.
    pub(super) fn look(
        &mut self,
        followers: &mut Followers,
        look: LookMode,
        now: Timestamp,
        observer: &mut dyn Observer,
    ) -> Result<(), DriveError> {
        // A log that cannot be named yet is not there.
        let named = |a: &&Attempt| !a.has_unnamed_logs();
        let attempt = self.run.history.attempt().filter(named);
        let Some(attempt) = attempt.map(|a| a.number) else {
            return Ok(());
        };
        if self.logs.is_none() {
            self.resume(attempt, followers, now, observer);
        }
        let left_out = self.left_out();
        let logs = self.logs(followers);
        logs.leave_out(left_out);
        let before = logs.last_look().clone();
        logs.read(followers, now, look);
        let look: LogLook = logs.last_look().clone();
        let trouble = logs.trouble();
        let links = logs.links();
        let mark = logs.is_worth_a_mark(now);
        // Before where we stand is written down, behind the links; the ledger knows which it has.
        for link in links {
            self.feed(
                &Event::Attempt(attempt, AttemptEvent::LinkSeen(link)),
                now,
                observer,
            )?;
        }
        // Before it is told: whoever is killed in between has told nothing twice.
        if mark {
            self.mark(followers, now, observer);
        }
        for what in trouble {
            observer.trouble(Some(self.name()), &what);
        }
        if look.progress != before.progress
            && let Some(progress) = &look.progress
        {
            observer.notice(&Notice::Progress {
                run: self.name(),
                progress,
            });
        }
        if before.fatal.is_none()
            && let Some(class) = look.fatal
        {
            observer.notice(&Notice::Fatal {
                run: self.name(),
                class,
            });
        }
        self.feed(
            &Event::Attempt(attempt, AttemptEvent::LogsRead(look)),
            now,
            observer,
        )
    }

    /// The files that its program has not printed into yet: what they hold is of other jobs.
    fn left_out(&self) -> Vec<PathBuf> {
        let attempt = self.run.history.attempt();
        attempt.map_or_else(Vec::new, of_others)
    }

    /// Opens the logs, and says where an earlier watch stood: known by now, and no news.
    fn resume(
        &mut self,
        attempt: u32,
        followers: &mut Followers,
        now: Timestamp,
        observer: &mut dyn Observer,
    ) {
        let logs = self.logs(followers);
        let Some(ends) = logs.resumed().map(<[_]>::to_vec) else {
            return;
        };
        let look = logs.last_look().clone();
        observer.notice(&Notice::Resumed {
            run: self.name(),
            look: &look,
        });
        self.run
            .observe(&Event::Attempt(attempt, AttemptEvent::LogsKnown(ends)), now);
    }

    /// Writes down where we stand. A failure is told once; the next watch then reads more than it must.
    fn mark(&mut self, followers: &Followers, now: Timestamp, observer: &mut dyn Observer) {
        let (Some(attempt), Some(logs)) = (self.run.history.attempt(), &mut self.logs) else {
            return;
        };
        let path = self.folder.bookmark(attempt.number);
        let part = part(&self.run.history.run, attempt);
        // The attempt of a job that we did not submit may have no folder yet.
        let made = match attempt.token {
            None => make_private_dir(&self.folder.attempt(attempt.number)),
            Some(_) => Ok(()),
        };
        let surely = self.run.logs_of_this_part();
        let marked = made.and_then(|()| logs.mark(&path, part, surely, followers, now));
        let told = std::mem::replace(&mut self.unmarked, marked.is_err());
        if let Err(error) = marked
            && !told
        {
            let what = format!("{error}; a watch that is killed reads the logs again");
            observer.trouble(Some(self.name()), &what);
        }
    }

    /// Writes down where we stand if that is not what was written last: this process goes away.
    pub(super) fn save(
        &mut self,
        followers: &Followers,
        now: Timestamp,
        observer: &mut dyn Observer,
    ) {
        if self.is_open() && self.logs.as_ref().is_some_and(AttemptLogs::has_moved) {
            self.mark(followers, now, observer);
        }
    }

    /// The logs were read to their end, and what they say is a fact.
    pub(super) fn close_logs(&self, attempt: u32) {
        // One that stays is of no further use, and does no harm.
        let _ = remove_file(&self.folder.bookmark(attempt));
    }
}

/// The part of the job that runs now, as far as it is known.
fn part(run: &str, attempt: &Attempt) -> JobPart {
    JobPart {
        run: run.to_owned(),
        attempt: attempt.number,
        restarts: attempt.restarts,
        starts: attempt.starts(),
    }
}
