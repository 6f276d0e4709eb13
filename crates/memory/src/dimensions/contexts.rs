//! What CUDA's context takes of a card, where that was published.

use super::tables::{ContextEntry, GpuTable, plain};
use oomctl_base::units::Bytes;

/// Between which sizes a context lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextSize {
    /// CUDA's major version, where it is that of one card.
    pub cuda: Option<u32>,
    /// The least, in bytes.
    pub least_bytes: u64,
    /// The most, in bytes.
    pub most_bytes: u64,
}

fn size(entry: &ContextEntry) -> Option<ContextSize> {
    Some(ContextSize {
        cuda: Some(entry.cuda),
        least_bytes: Bytes::parse(&entry.least).ok()?.0,
        most_bytes: Bytes::parse(&entry.most).ok()?.0,
    })
}

/// The context on a type of GPU, by its newest CUDA; `None` where nothing was published.
pub fn context<'t>(tables: impl Iterator<Item = &'t GpuTable>, name: &str) -> Option<ContextSize> {
    let wanted = plain(name);
    let tables: Vec<&GpuTable> = tables.collect();
    let cards = tables.iter().flat_map(|t| &t.gpus);
    let named: Vec<&String> = cards
        .filter(|card| card.names.contains(&wanted))
        .flat_map(|card| &card.names)
        .collect();
    let entries = tables.iter().flat_map(|t| &t.contexts);
    let own = entries.filter(|e| e.gpus.iter().any(|gpu| named.contains(&gpu)));
    size(own.max_by_key(|e| e.cuda)?)
}

/// Between which sizes the contexts of all cards lie; `None` where no table has one.
pub fn any_context<'t>(tables: impl Iterator<Item = &'t GpuTable>) -> Option<ContextSize> {
    let sizes = tables.flat_map(|t| &t.contexts).filter_map(size);
    sizes.reduce(|a, b| ContextSize {
        cuda: None,
        least_bytes: a.least_bytes.min(b.least_bytes),
        most_bytes: a.most_bytes.max(b.most_bytes),
    })
}
