//! Snapshots of PyTorch's allocator: sums that agree with each other, in bounded memory, and no control character.

use oomctl_diagnose::{Class, Incident, Snapshot};

use super::allocations::within;

/// Bytes that reading may take, beside a multiple of the input.
const MOST_MEMORY: usize = 1 << 20;
/// Bytes for each byte of the input: one may be a list of its own.
const MOST_TIMES: usize = 512;

pub fn check(input: &[u8]) {
    within(MOST_MEMORY + MOST_TIMES * input.len(), || read(input));
}

fn read(input: &[u8]) {
    let incident = Incident::bare("cuda_oom", Class::GpuOom);
    let Ok(snapshot) = Snapshot::read("s.pickle", input, &incident) else {
        return;
    };
    assert!(
        snapshot.largest_idle_bytes <= snapshot.idle_bytes,
        "{snapshot:?}"
    );
    assert!(snapshot.largest.len() <= 8, "{snapshot:?}");
    for held in &snapshot.largest {
        assert!(held.bytes <= snapshot.active_bytes, "{snapshot:?}");
        let frame = held
            .frame
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(!frame.chars().any(char::is_control), "{frame:?}");
    }
}
