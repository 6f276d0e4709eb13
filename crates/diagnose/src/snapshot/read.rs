//! A snapshot is read for an incident, and what it shows goes into that.

use super::Snapshot;
use super::count::Counted;
use super::pickle::{Pickle, PickleError};
use crate::incident::Incident;
use crate::particulars::advised;

impl Snapshot {
    /// Reads one, for the GPU on which an incident is.
    ///
    /// # Errors
    /// It is none, it is damaged, it would run code, or it holds too much.
    pub fn read(file: &str, bytes: &[u8], incident: &Incident) -> Result<Self, PickleError> {
        let pickle = Pickle::read(bytes)?;
        Counted::of(&pickle, incident)?.snapshot(file)
    }
}

impl Incident {
    /// Takes in what a snapshot of its GPU shows.
    pub fn see(&mut self, mut snapshot: Snapshot) {
        if let Some(said) = self.allocated_bytes.filter(|said| !snapshot.agrees(*said)) {
            self.notes.push(format!(
                "the snapshot has {} in use, the message says {said}: it is from another moment or process, so it is ignored",
                snapshot.active_bytes
            ));
            (snapshot.at_failure, snapshot.fragmented) = (Some(false), None);
        }
        let (helps, worse) = advised(self);
        let own = [(&helps, &self.helps), (&worse, &self.worse)];
        let by_rows = own
            .iter()
            .all(|(rows, said)| said.is_empty() || rows == said);
        if let Some(fragmented) = snapshot.fragmented {
            if fragmented != self.fragmentation {
                let is = if fragmented { "was" } else { "was not" };
                self.notes.push(format!(
                    "the snapshot shows that idle memory {is} in pieces; the message alone says otherwise"
                ));
            }
            self.fragmentation = fragmented;
        }
        self.requested_bytes = self.requested_bytes.or(snapshot.requested_bytes);
        self.snapshot = Some(snapshot);
        // What a project's own signature says stays.
        if by_rows {
            (self.helps, self.worse) = advised(self);
        }
    }
}
