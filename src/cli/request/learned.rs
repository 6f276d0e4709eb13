//! Requests that start where earlier runs of the project say that they should.

use super::load;
use crate::cli::args::Configuration;
use crate::cli::session::Session;
use crate::core::learn::LearnedEntries;
use crate::core::request::{Request, Start};
use crate::io::fits;
use crate::io::site::site_folder;
use crate::view::{CommandFailure, print, start_view};

impl Session {
    /// The request for a run of this name, and where it starts.
    pub fn request(
        &self,
        flags: &Configuration,
        run: &str,
        sbatch: &[String],
    ) -> Result<(Request, Option<Start>), CommandFailure> {
        let request = load::request(self, flags, run, sbatch)?;
        let Some(memory) = memory(self, flags.fresh) else {
            return Ok((request, None));
        };
        // What breaks a rule is told by whoever needs the configuration.
        let start = request.start(&memory).ok().flatten();
        Ok(match start {
            Some(start) => (request.starting(&start), Some(start)),
            None => (request, None),
        })
    }

    /// The same for a run that may have no name yet; where it starts is told.
    pub fn named_request(
        &self,
        flags: &Configuration,
        run: Option<&String>,
        sbatch: &[String],
    ) -> Result<(String, Request), CommandFailure> {
        let name = match run {
            Some(name) => name.clone(),
            None => self.runs.new_name(&load::stem(self, flags)?)?,
        };
        let (request, start) = self.request(flags, &name, sbatch)?;
        tell(start.as_ref());
        Ok((name, request))
    }
}

/// What the project learned; none where it is not asked for, or cannot be read, which is told.
pub fn memory(session: &Session, fresh: bool) -> Option<LearnedEntries> {
    if fresh {
        return None;
    }
    let own = match fits::read(&fits::file_of(&session.folder)) {
        Ok(memory) => memory,
        Err(error) => {
            print::talk(&format!(
                "{error}; starting without what earlier runs needed"
            ));
            return None;
        }
    };
    Some(own.with_site(site()))
}

/// What other projects of the site shared. What cannot be read of it is told, and stops nothing.
fn site() -> LearnedEntries {
    let Some(path) = site_folder().map(|folder| folder.join("fits.jsonl")) else {
        return LearnedEntries::default();
    };
    match fits::read_site(&path) {
        Ok((memory, damaged)) => {
            if let Some(first) = damaged.first() {
                let more = match damaged.len() {
                    1 => String::new(),
                    n => format!(" and {} more lines", n - 1),
                };
                print::talk(&format!(
                    "{}:{first}{more} is damaged or of a newer oomctl and does not count; the other lines do. Tell your site, or set OOMCTL_SITE= to leave the file out",
                    path.display()
                ));
            }
            memory
        }
        Err(error) => {
            print::talk(&format!(
                "{error}; starting without what other projects of the site shared"
            ));
            LearnedEntries::default()
        }
    }
}

/// Says why a run that took rungs until it fitted teaches nothing of this one, where little sets them apart.
pub fn tell_of_others(request: &Request, memory: &LearnedEntries) {
    let Ok(job) = request.job(&[]) else {
        return;
    };
    if let Some(other) = memory
        .fitted_elsewhere(&job)
        .filter(|other| !other.entry.rungs.is_empty())
    {
        print::talk(&format!("start      unchanged: {}", other.describe()));
    }
}

/// Says which earlier attempt proves that a configuration fits, or that it does not.
pub fn tell_proven(request: &Request, memory: &LearnedEntries) {
    let Ok(job) = request.job(&[]) else {
        return;
    };
    if let Some(proof) = memory.failed(&job).or_else(|| memory.fitted(&job)) {
        print::talk(&start_view::proof(proof));
    }
}

/// Says where a run starts, if anything is known about it.
pub fn tell(start: Option<&Start>) {
    if let Some(start) = start {
        print::talk(start_view::text(start).trim_end());
    }
}
