//! Values of a snapshot to sums.

use std::collections::BTreeMap;

use super::owner::{MemoryOwner, of_frame};
use super::pickle::{Pickle, PickleError, PickleValue};
use super::{AllocationSite, Share, Snapshot};
use crate::clean::{clip, sanitize};
use crate::frame::Frame;
use crate::incident::Incident;
use oomctl_base::units::Bytes;

/// Blocks and events that are looked at: a file may name one value any number of times.
const MOST_BLOCKS: usize = 12_000_000;
/// Frames of one stack that are looked at.
const MOST_FRAMES: usize = 256;
/// Lines of a program that are told.
const MOST_LINES: usize = 8;
/// Largest request that the allocator serves from its small segments, in bytes (`kSmallSize`).
const SMALL: u64 = 1 << 20;

/// The allocation that failed.
struct Failed {
    requested: Option<u64>,
    device_free: Option<u64>,
    stream: Option<PickleValue>,
    frames: PickleValue,
    /// Bytes that came and went behind it.
    moved: u64,
}

#[derive(Default)]
struct Sums {
    reserved: u64,
    active: u64,
    idle: u64,
    largest_idle: u64,
    /// Bytes and tensors by stack.
    stacks: BTreeMap<Option<u32>, (u64, u64)>,
}

/// A snapshot with what is known of the GPU that is asked for.
pub(super) struct Counted<'a> {
    pickle: &'a Pickle<'a>,
    device: u64,
    recorded: bool,
    failed: Option<Failed>,
    requested: Option<u64>,
    sums: Sums,
}

impl<'a> Counted<'a> {
    /// Sums over the GPU of the incident, or the one on which an allocation failed, or the fullest.
    pub fn of(pickle: &'a Pickle<'a>, incident: &Incident) -> Result<Self, PickleError> {
        let segments = match pickle.root {
            PickleValue::List(_) => Some(pickle.root),
            root => pickle.get(root, "segments"),
        };
        let segments = pickle.items(segments.ok_or(PickleError::NoSnapshot)?);
        let traces = pickle.get(pickle.root, "device_traces");
        let traces = traces.map_or(&[][..], |list| pickle.items(list));
        let mut budget = MOST_BLOCKS;
        let mut failures = Vec::new();
        for trace in traces {
            failures.push(failure(pickle, *trace, &mut budget)?);
        }
        let device = device(pickle, segments, &failures, incident);
        let place = usize::try_from(device).unwrap_or(usize::MAX);
        let trace = traces.get(place);
        let failed = failures.into_iter().nth(place).flatten();
        let requested = failed.as_ref().and_then(|f| f.requested);
        let mut counted = Self {
            pickle,
            device,
            recorded: trace.is_some_and(|trace| !pickle.items(*trace).is_empty()),
            failed,
            requested: requested.or(incident.requested_bytes.map(|b| b.0)),
            sums: Sums::default(),
        };
        for segment in segments {
            counted.segment(*segment, &mut budget)?;
        }
        Ok(counted)
    }

    fn segment(&mut self, segment: PickleValue, budget: &mut usize) -> Result<(), PickleError> {
        let pickle = self.pickle;
        spend(budget)?;
        if pickle.count(segment, "device").unwrap_or(0) != self.device {
            return Ok(());
        }
        let size = pickle.count(segment, "total_size").unwrap_or(0);
        self.sums.reserved = self.sums.reserved.saturating_add(size);
        let serves = self.serves(segment);
        let blocks = pickle.get(segment, "blocks");
        for block in blocks.map_or(&[][..], |blocks| pickle.items(blocks)) {
            spend(budget)?;
            let size = pickle.count(*block, "size").unwrap_or(0);
            let state = pickle.get(*block, "state").and_then(|s| pickle.text(s));
            if state.is_some_and(|state| state.starts_with("active")) {
                self.sums.active = self.sums.active.saturating_add(size);
                let stack = self.sums.stacks.entry(self.stack(*block)).or_default();
                *stack = (stack.0.saturating_add(size), stack.1 + 1);
            } else if serves {
                self.sums.idle = self.sums.idle.saturating_add(size);
                self.sums.largest_idle = self.sums.largest_idle.max(size);
            }
        }
        Ok(())
    }

    /// Whether idle memory of a segment could have been given to what was asked for.
    fn serves(&self, segment: PickleValue) -> bool {
        let pickle = self.pickle;
        let pool = pickle.get(segment, "segment_pool_id");
        let private = pool.is_some_and(|pool| {
            pickle
                .items(pool)
                .iter()
                .any(|id| *id != PickleValue::Int(0))
        });
        let kind = pickle
            .get(segment, "segment_type")
            .and_then(|s| pickle.text(s));
        let wanted = self
            .requested
            .map(|bytes| if bytes <= SMALL { "small" } else { "large" });
        let stream = self.failed.as_ref().and_then(|f| f.stream);
        let same =
            |there: Option<PickleValue>| there.is_none() || stream.is_none() || there == stream;
        !private
            && (kind.is_none() || wanted.is_none() || kind == wanted)
            && same(pickle.get(segment, "stream"))
    }

    /// The list of frames of a block; `None` where it has none.
    fn stack(&self, block: PickleValue) -> Option<u32> {
        let pickle = self.pickle;
        // Until PyTorch 2.0 they stood in a history of the block.
        let old = || {
            let history = pickle.get(block, "history")?;
            pickle.get(*pickle.items(history).first()?, "frames")
        };
        match pickle.get(block, "frames").or_else(old)? {
            PickleValue::List(at) if !pickle.items(PickleValue::List(at)).is_empty() => Some(at),
            _ => None,
        }
    }

    /// What is to be told of it.
    pub fn snapshot(&self, file: &str) -> Result<Snapshot, PickleError> {
        if self.sums.reserved == 0 {
            return Err(PickleError::NoSnapshot);
        }
        let mut frames = Frames {
            pickle: self.pickle,
            owners: BTreeMap::new(),
        };
        let mut owners: BTreeMap<MemoryOwner, u64> = BTreeMap::new();
        let mut lines: BTreeMap<(MemoryOwner, Option<u32>), (u64, u64)> = BTreeMap::new();
        for (stack, (bytes, tensors)) in &self.sums.stacks {
            let owner = frames.owner(*stack);
            let sum = owners.entry(owner).or_default();
            *sum = sum.saturating_add(*bytes);
            let line = lines.entry((owner, frames.shown(*stack))).or_default();
            *line = (line.0.saturating_add(*bytes), line.1 + tensors);
        }
        let requested_by = self.failed.as_ref().map(|f| match f.frames {
            PickleValue::List(at) => frames.owner(Some(at)),
            _ => MemoryOwner::Unnamed,
        });
        Ok(Snapshot {
            file: file.to_owned(),
            device: self.device,
            at_failure: self.at_failure(),
            requested_bytes: self.requested.map(Bytes),
            requested_by,
            reserved_bytes: Bytes(self.sums.reserved),
            active_bytes: Bytes(self.sums.active),
            idle_bytes: Bytes(self.sums.idle),
            largest_idle_bytes: Bytes(self.sums.largest_idle),
            fragmented: self.fragmented(),
            owners: shares(owners),
            largest: frames.held(lines),
        })
    }

    /// A hundredth of what is reserved may have come or gone since.
    fn at_failure(&self) -> Option<bool> {
        let moved = |failed: &Failed| failed.moved <= self.sums.reserved / 100;
        self.recorded
            .then(|| self.failed.as_ref().is_some_and(moved))
    }

    fn fragmented(&self) -> Option<bool> {
        let (Some(true), Some(wanted)) = (self.at_failure(), self.requested) else {
            return None;
        };
        let Sums {
            idle, largest_idle, ..
        } = self.sums;
        let free = self.failed.as_ref().and_then(|f| f.device_free);
        match (largest_idle >= wanted, idle >= wanted) {
            (true, _) => Some(false),
            (false, true) => Some(true),
            (false, false) => (idle.saturating_add(free?) < wanted).then_some(false),
        }
    }
}

fn spend(budget: &mut usize) -> Result<(), PickleError> {
    *budget = budget.checked_sub(1).ok_or(PickleError::TooLarge)?;
    Ok(())
}

/// The last allocation of a GPU that failed.
fn failure(
    pickle: &Pickle<'_>,
    trace: PickleValue,
    budget: &mut usize,
) -> Result<Option<Failed>, PickleError> {
    let mut failed: Option<Failed> = None;
    for event in pickle.items(trace) {
        spend(budget)?;
        let action = pickle.get(*event, "action").and_then(|a| pickle.text(a));
        let size = pickle.count(*event, "size");
        match (action, &mut failed) {
            (Some("oom"), _) => {
                failed = Some(Failed {
                    requested: size,
                    device_free: pickle.count(*event, "device_free"),
                    stream: pickle.get(*event, "stream"),
                    frames: pickle.get(*event, "frames").unwrap_or(PickleValue::Nothing),
                    moved: 0,
                });
            }
            (Some("alloc" | "free_completed" | "segment_free" | "segment_unmap"), Some(failed)) => {
                failed.moved = failed.moved.saturating_add(size.unwrap_or(0));
            }
            _ => {}
        }
    }
    Ok(failed)
}

fn device(
    pickle: &Pickle<'_>,
    segments: &[PickleValue],
    failures: &[Option<Failed>],
    incident: &Incident,
) -> u64 {
    let mut reserved: BTreeMap<u64, u64> = BTreeMap::new();
    for segment in segments {
        let size = pickle.count(*segment, "total_size").unwrap_or(0);
        let device = pickle.count(*segment, "device").unwrap_or(0);
        let sum = reserved.entry(device).or_default();
        *sum = sum.saturating_add(size);
    }
    let named = incident.device_index.map(u64::from);
    let failed = |device: &u64| {
        let place = usize::try_from(*device).ok();
        place.is_some_and(|at| failures.get(at).is_some_and(Option::is_some))
    };
    let there = |device: &u64| reserved.contains_key(device);
    let first = failures.iter().position(Option::is_some);
    let fullest = reserved.iter().max_by_key(|(_, bytes)| **bytes);
    named
        .filter(failed)
        .or_else(|| first.and_then(|at| at.try_into().ok()))
        .or_else(|| named.filter(there))
        .or_else(|| fullest.map(|(device, _)| *device))
        .unwrap_or(0)
}

fn shares(owners: BTreeMap<MemoryOwner, u64>) -> Vec<Share> {
    let mut all: Vec<Share> = owners
        .into_iter()
        .map(|(owner, bytes)| Share {
            owner,
            bytes: Bytes(bytes),
        })
        .collect();
    all.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    all
}

/// Frames of a snapshot, and what each of them tells.
struct Frames<'a> {
    pickle: &'a Pickle<'a>,
    owners: BTreeMap<u32, Option<MemoryOwner>>,
}

impl<'a> Frames<'a> {
    fn of(&self, stack: Option<u32>) -> impl Iterator<Item = u32> + use<'a> {
        let list = stack.map_or(PickleValue::Nothing, PickleValue::List);
        let frames = self.pickle.items(list).iter().take(MOST_FRAMES);
        frames.filter_map(|frame| match frame {
            PickleValue::Dict(at) => Some(*at),
            _ => None,
        })
    }

    /// What the innermost frame that tells something says.
    fn owner(&mut self, stack: Option<u32>) -> MemoryOwner {
        let all: Vec<u32> = self.of(stack).collect();
        for frame in &all {
            let (file, function) = self.place(*frame);
            let told = self.owners.entry(*frame);
            if let Some(owner) = told.or_insert_with(|| of_frame(file, function)) {
                return *owner;
            }
        }
        match all.is_empty() {
            true => MemoryOwner::Unnamed,
            false => MemoryOwner::Other,
        }
    }

    fn place(&self, frame: u32) -> (&'a str, &'a str) {
        let part = |name| {
            let value = self.pickle.get(PickleValue::Dict(frame), name);
            value.and_then(|v| self.pickle.text(v)).unwrap_or_default()
        };
        (part("filename"), part("name"))
    }

    /// The innermost Python frame outside of PyTorch, or else inside, or else any.
    fn shown(&self, stack: Option<u32>) -> Option<u32> {
        let python = |frame: &u32| self.place(*frame).0.ends_with(".py");
        let outside = |frame: &u32| python(frame) && !self.place(*frame).0.contains("/torch/");
        let all = || self.of(stack);
        all()
            .find(outside)
            .or_else(|| all().find(python))
            .or_else(|| all().next())
    }

    fn frame(&self, at: u32) -> Frame {
        let (file, function) = self.place(at);
        Frame {
            file: clip(&sanitize(file.as_bytes())),
            line: self
                .pickle
                .count(PickleValue::Dict(at), "line")
                .filter(|n| *n > 0),
            function: clip(&sanitize(function.as_bytes())),
            code: String::new(),
        }
    }

    /// The largest lines; one line may have several frames, one for each place in it.
    fn held(&self, lines: BTreeMap<(MemoryOwner, Option<u32>), (u64, u64)>) -> Vec<AllocationSite> {
        let mut all: BTreeMap<(MemoryOwner, String), AllocationSite> = BTreeMap::new();
        for ((owner, at), (bytes, tensors)) in lines {
            let frame = at.map(|at| self.frame(at));
            let name = frame.as_ref().map(Frame::to_string).unwrap_or_default();
            let held = all.entry((owner, name)).or_insert_with(|| AllocationSite {
                owner,
                bytes: Bytes(0),
                tensors: 0,
                frame,
            });
            held.bytes.0 = held.bytes.0.saturating_add(bytes);
            held.tensors += tensors;
        }
        let mut all: Vec<AllocationSite> = all.into_values().collect();
        all.sort_by_key(|held| std::cmp::Reverse(held.bytes));
        all.truncate(MOST_LINES);
        all
    }
}
