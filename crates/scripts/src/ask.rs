//! What a script is made to ask of the scheduler.

use super::change::{PatchError, TextEdit};
use super::sbatch::directives;
use super::walk::Reading;
use super::{host_memory, resources};
use oomctl_base::{Role, Value};

/// A resource and how much of it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// GPUs of each node.
    GpusPerNode(u32),
    /// Nodes.
    Nodes(u32),
    /// Host memory of each node, as Slurm writes it (`128G`).
    Memory(String),
}

impl Ask {
    /// The resource that a value of this role is.
    pub fn of(role: Role, value: &Value) -> Option<Self> {
        let count = match value {
            Value::Int(count) => u32::try_from(*count).ok(),
            _ => None,
        };
        match (role, value) {
            (Role::GpusPerNode, _) => count.map(Self::GpusPerNode),
            (Role::Nodes, _) => count.map(Self::Nodes),
            (Role::HostMemory, Value::Text(amount)) => Some(Self::Memory(amount.clone())),
            _ => None,
        }
    }

    /// The resource in the words of a message.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::GpusPerNode(_) => "GPUs per node",
            Self::Nodes(_) => "nodes",
            Self::Memory(_) => "memory",
        }
    }
}

/// The edits that ask for it.
pub(super) fn ask(reading: &Reading, wish: &Ask) -> Result<Vec<TextEdit>, PatchError> {
    let all = directives(reading);
    let edit = match wish {
        Ask::Memory(amount) => host_memory::edits(reading, amount),
        Ask::Nodes(count) => resources::nodes(reading, &all, *count),
        Ask::GpusPerNode(count) => resources::gpus(reading, &all, *count),
    };
    edit.map_err(|why| PatchError::new(wish.noun(), why))
}
