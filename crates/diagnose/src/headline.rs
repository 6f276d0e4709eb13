//! An incident in one line.

use super::class::Class;
use super::evidence::EvidenceRole;
use super::frame::Frame;
use super::incident::Incident;
use super::kind;
use super::prefix::body_of;

/// Characters of a program's own words.
const WORDS: usize = 160;

impl Incident {
    /// One line for people: *GPU 1 ran out of memory in actor_update: 2.00 GiB requested, 1.10 GiB free
    /// of 79.18 GiB*.
    pub fn headline(&self) -> String {
        if let Some(words) = self.last_words() {
            return words;
        }
        let mut line = match self.class {
            Class::GpuOom => format!("{} {}", self.device(), self.words()),
            Class::HostOom if self.is_bare_kill() => format!("perhaps {}", self.words()),
            _ => self.words(),
        };
        if let Some(exit) = self.exit {
            line.push_str(&format!(" (exit {exit})"));
        }
        let says = self.phase != "unknown" && !self.kind.contains(&self.phase);
        if says && self.kind != "no_failure" && !self.only_starts() {
            line.push_str(&format!(" in {}", self.phase));
        }
        // Figures of what was survived are no end.
        if let Some(figures) = self.figures().filter(|_| self.kind != "no_failure") {
            line.push_str(&format!(": {figures}"));
        }
        if !self.fatal && self.kind != "no_failure" {
            line.push_str(" (survived)");
        }
        line
    }

    /// Is its phase only what its kind says of itself: a start, without memory that a phase used?
    fn only_starts(&self) -> bool {
        self.phase == "init" && matches!(self.class, Class::NotOom | Class::EngineMemory)
    }

    /// Is its kind one of the built-in ones, and no project's own?
    pub fn is_of_a_built_in_kind(&self) -> bool {
        kind::known(&self.kind).is_some()
    }

    /// What the program said last, where only that is known: *KeyError: 'txt' at train.py:61*.
    fn last_words(&self) -> Option<String> {
        let root = self
            .evidence
            .first()
            .filter(|e| e.role == EvidenceRole::Root)?;
        match root.signature.as_str() {
            "python_exception"
            | "python_exception_config"
            | "python_exception_import"
            | "python_exception_path" => {
                let place = self.frame.as_ref().map(place).unwrap_or_default();
                Some(format!("{}{place}", cut(self.exception.as_ref()?)))
            }
            "config_arguments" => {
                let (_, why) = body_of(&root.text).split_once(": error: ")?;
                Some(cut(&format!("the program refused its arguments: {why}")))
            }
            "bus_error" | "error_message" | "shell_unbound_variable" => {
                Some(cut(body_of(&root.text).trim()))
            }
            _ => None,
        }
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

/// ` at train.py:61`
fn place(frame: &Frame) -> String {
    let name = frame.file.rsplit(['/', '\\']).next().unwrap_or_default();
    let line = frame.line.map(|line| format!(":{line}"));
    format!(" at {name}{}", line.unwrap_or_default())
}

/// The beginning of a text, up to the end of a word.
fn cut(text: &str) -> String {
    let Some((at, _)) = text.char_indices().nth(WORDS) else {
        return text.to_owned();
    };
    let whole = text[..at].rfind(' ').unwrap_or(at);
    format!("{}…", text[..whole].trim_end())
}
