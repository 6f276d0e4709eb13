//! An incident in one line.

use super::incident::{Class, Incident};
use super::kind;

impl Incident {
    /// One line for people: *GPU 1 ran out of memory in actor_update: 2.00 GiB requested, 1.10 GiB free
    /// of 79.18 GiB*.
    #[must_use]
    pub fn headline(&self) -> String {
        let mut line = match self.class {
            Class::GpuOom => format!("{} {}", self.device(), self.words()),
            _ => self.words(),
        };
        if self.phase != "unknown" && self.kind != "no_failure" {
            line.push_str(&format!(" in {}", self.phase));
        }
        if let Some(figures) = self.figures() {
            line.push_str(&format!(": {figures}"));
        }
        if !self.fatal && self.kind != "no_failure" {
            line.push_str(" (survived)");
        }
        line
    }

    fn words(&self) -> String {
        kind::known(&self.kind).map_or_else(
            || match self.class {
                Class::GpuOom => format!("failed with {}", self.kind),
                _ => format!("the job failed with {}", self.kind),
            },
            |row| row.words.to_owned(),
        )
    }

    fn device(&self) -> String {
        match (self.device_index, self.rank) {
            (Some(device), Some(rank)) if rank != device => format!("GPU {device} (rank {rank})"),
            (Some(device), _) => format!("GPU {device}"),
            (None, Some(rank)) => format!("the GPU of rank {rank}"),
            (None, None) => "a GPU".to_owned(),
        }
    }

    fn figures(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(requested) = self.requested_bytes {
            parts.push(format!("{requested} requested"));
        }
        match (self.free_bytes, self.total_bytes) {
            (Some(free), Some(total)) => parts.push(format!("{free} free of {total}")),
            (Some(free), None) => parts.push(format!("{free} free")),
            _ => {}
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
