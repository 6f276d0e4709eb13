//! Requests that start where earlier runs of the project say that they should.

use super::load;
use crate::cli::args::Configuration;
use crate::cli::session::Session;
use crate::core::learn::LearnedEntries;
use crate::core::request::{Request, Start};
use crate::io::fits;
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
    match fits::read(&fits::file_of(&session.folder)) {
        Ok(memory) => Some(memory),
        Err(error) => {
            print::talk(&format!(
                "{error}; starting without what earlier runs needed"
            ));
            None
        }
    }
}

/// Says where a run starts, if anything is known about it.
pub fn tell(start: Option<&Start>) {
    if let Some(start) = start {
        print::talk(start_view::text(start).trim_end());
    }
}
