//! The numbers that a failure prints, as printed.
//!
//! Every number has its own pattern, so a message that was cut off, wrapped or worded by another
//! version still gives what it holds. Figures that contradict each other are kept and remarked upon:
//! which of them is wrong is not for a reader of the text to say.

use std::sync::LazyLock;

use regex::Regex;

use super::ascii::compiled;
use oomctl_base::units::Bytes;

/// What one message says about memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MemoryFigures {
    pub device: Option<u32>,
    pub requested: Option<Bytes>,
    pub total: Option<Bytes>,
    pub free: Option<Bytes>,
    pub allocated: Option<Bytes>,
    pub reserved: Option<Bytes>,
    pub reserved_unallocated: Option<Bytes>,
    /// `this process has … memory in use`: our own, with the CUDA context and other allocators.
    pub own: Option<Bytes>,
    /// `Process N has … memory in use`: (process id, bytes).
    pub processes: Vec<(u64, Bytes)>,
    /// A cap set by the program, not by the card.
    pub allowed: Option<Bytes>,
    /// Held by CUDA graphs.
    pub private_pools: Option<Bytes>,
    /// Host memory that Ray sees: the node's, or what its cgroup may have.
    pub host_total: Option<Bytes>,
}

impl MemoryFigures {
    /// True when nothing was printed.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How many numbers there are.
    fn count(&self) -> usize {
        let numbers = [
            self.requested,
            self.total,
            self.free,
            self.allocated,
            self.reserved,
            self.reserved_unallocated,
            self.own,
            self.allowed,
            self.private_pools,
            self.host_total,
        ];
        numbers.iter().flatten().count() + self.processes.len() + usize::from(self.device.is_some())
    }

    /// `reserved in total`: as printed, or allocated plus unallocated.
    pub(crate) fn reserved_total(&self) -> Option<Bytes> {
        let sum = || {
            let unallocated = self.reserved_unallocated?.0;
            self.allocated?.0.checked_add(unallocated).map(Bytes)
        };
        self.reserved.or_else(sum)
    }

    /// Reads a message that may stand on several lines. A terminal that wraps at its width breaks
    /// words and numbers, a logger that wraps breaks at spaces: both are tried, the fuller wins.
    pub(crate) fn read(lines: &[impl AsRef<str>]) -> Self {
        let parts: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
        let spaced = Self::read_text(&joined(&parts));
        if parts.len() < 2 {
            return spaced;
        }
        let glued = Self::read_text(&parts.concat());
        if glued.count() > spaced.count() {
            glued
        } else {
            spaced
        }
    }

    fn read_text(text: &str) -> Self {
        let p = &*PATTERNS;
        let (total, free) = p
            .startup
            .captures(text)
            .map_or((None, None), |c| (gib(&c, 2), gib(&c, 1)));
        let bare = p.bare.captures(text);
        Self {
            device: p.device.captures(text).and_then(|c| {
                let found = c.iter().skip(1).flatten().next()?;
                found.as_str().parse().ok()
            }),
            requested: amount(&p.requested, text)
                .or_else(|| p.desired.captures(text).and_then(|c| gib(&c, 1)))
                .or_else(|| {
                    [1, 4, 5]
                        .iter()
                        .find_map(|group| bytes(bare.as_ref()?, *group))
                }),
            total: amount(&p.total, text)
                .or(total)
                .or_else(|| bytes(bare.as_ref()?, 3)),
            free: amount(&p.free, text)
                .or(free)
                .or_else(|| bytes(bare.as_ref()?, 2)),
            allocated: amount(&p.allocated, text),
            reserved: amount(&p.reserved, text),
            reserved_unallocated: amount(&p.unallocated, text),
            own: amount(&p.own, text),
            processes: p
                .process
                .captures_iter(text)
                .filter_map(|c| Some((c[1].parse().ok()?, parse(&c, 2)?)))
                .take(64)
                .collect(),
            allowed: amount(&p.allowed, text),
            private_pools: amount(&p.pools, text),
            host_total: p.host_total.captures(text).and_then(|c| gib(&c, 1)),
        }
    }

    /// Remarks on numbers that cannot all be true, or that need a word.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let (Some(allocated), Some(total)) = (self.allocated, self.total)
            && allocated > total
        {
            notes.push(format!(
                "the message says {allocated} are allocated on a GPU of {total}; figures are given as printed"
            ));
        }
        if let (Some(free), Some(total)) = (self.free, self.total)
            && free > total
        {
            notes.push(format!(
                "the message says {free} are free on a GPU of {total}; figures are given as printed"
            ));
        }
        if let (Some(free), Some(requested)) = (self.free, self.requested)
            && free >= requested
            && self.allowed.is_none()
        {
            notes.push(format!(
                "{free} were free for a request of {requested}: the driver refused for another reason (alignment, fragmentation, or a race with another process)"
            ));
        }
        if let Some(allowed) = self.allowed {
            notes.push(format!(
                "the program limits itself to {allowed} of the GPU (set_per_process_memory_fraction)"
            ));
        }
        if let Some(pools) = self.private_pools {
            notes.push(format!("{pools} are held by CUDA graphs (private pools)"));
        }
        notes
    }
}

struct FigurePatterns {
    device: Regex,
    requested: Regex,
    desired: Regex,
    startup: Regex,
    total: Regex,
    free: Regex,
    allocated: Regex,
    reserved: Regex,
    unallocated: Regex,
    own: Regex,
    process: Regex,
    allowed: Regex,
    pools: Regex,
    host_total: Regex,
    bare: Regex,
}

/// Number and unit; `\s*` everywhere, for a line may have been broken anywhere.
const AMOUNT: &str = r"(\d[\d.,]*\s*(?:bytes|[KMGT]iB|[KMGT]B|B)\b)";

static PATTERNS: LazyLock<FigurePatterns> = LazyLock::new(|| {
    let a = AMOUNT;
    FigurePatterns {
        device: compiled(
            r"\bGPU\s+(\d+)\s*(?:;|has\b)|Allocation on device (\d+)|(?:device:|/)(?:GPU|gpu):(\d+)|\bdevice (?:cuda|xpu|hip):(\d+)|\bCUDA device ordinal (\d+)|(?:NPU|XPU)\s+(\d+)\s*(?:;|has\b)|:\d+:\d+ \[(\d+)\] (?:\S+ ?)?NCCL (?:WARN|INFO)|(?:CUDA|ROCm)(\d+) buffer|MiB on device (\d+)\b|\bGPU_(\d+)_bfc\b",
        ),
        requested: compiled(&format!(
            r"(?:[Tt]ried\s+to\s+allocate|trying\s+to\s+allocate|out of memory to allocate|[Oo]ut of memory allocating|[Ff]ailed to allocate request for|Failed to CUDA calloc|[Aa]ttempting to (?:allocate|reserve)|Unable to allocate|alloc_buffer: allocating|\bRequested\s*:)\s*{a}"
        )),
        desired: compiled(r"desired GPU memory utilization \([\d.]+, ([\d.]+) GiB\)"),
        startup: compiled(r"Free memory on device(?: \w+:\d+)? \(([\d.]+)/([\d.]+) GiB\)"),
        total: compiled(&format!(
            r"{a}\s*total\s*capacity|total\s*capac(?:it|t)y\s*of\s*{a}|Device\s*limit\s*:\s*{a}"
        )),
        free: compiled(&format!(
            r"{a}\s*free\b|of\s*which\s*{a}\s*is\s*free|Free\s*\(according\s*to\s*CUDA\)\s*:\s*{a}"
        )),
        allocated: compiled(&format!(
            r"{a}\s*already\s*allocated|{a}\s*is\s*allocated\s*by\s*PyTorch|Currently\s*allocated\s*:\s*{a}"
        )),
        reserved: compiled(&format!(r"{a}\s*reserved\s*in\s*total")),
        unallocated: compiled(&format!(
            r"{a}\s*is\s*reserved\s*by\s*PyTorch\s*but\s*unallocated|{a}\s*cached\b"
        )),
        own: compiled(&format!(r"this\s*process\s*has\s*{a}\s*memory\s*in\s*use")),
        process: compiled(&format!(
            r"\bProcess\s*(\d+)\s*has\s*{a}\s*memory\s*in\s*use"
        )),
        allowed: compiled(&format!(r"{a}\s*allowed\b")),
        pools: compiled(&format!(r"{a}\s*allocated\s*in\s*private\s*pools")),
        // Ray 2.2 to 2.x, `src/ray/common/memory_monitor`: what it calls GB are GiB.
        host_total: compiled(r"was\s+running\s+was\s+[\d.]+\s*GB\s*/\s*([\d.]+)\s*GB"),
        bare: compiled(
            r"\brequired\s*:(\d+)\s*\|\s*free\s*:(\d+)\s*\|\s*total\s*:(\d+)|\bto allocate buffer: (\d+)|failed to allocate \w+ buffer of size (\d+)",
        ),
    }
});

/// Lines of one message with a space between them, but where a number was broken in two.
fn joined(parts: &[&str]) -> String {
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let mut text = String::new();
    for part in parts {
        let number = text.strip_suffix('.').unwrap_or(&text);
        let goes_on = part.strip_prefix('.').unwrap_or(part);
        let broken = digit(number.chars().next_back()) && digit(goes_on.chars().next());
        if !text.is_empty() && !broken {
            text.push(' ');
        }
        text.push_str(part);
    }
    text
}

/// The first amount that any of the pattern's groups holds.
fn amount(pattern: &Regex, text: &str) -> Option<Bytes> {
    let found = pattern.captures(text)?;
    let group = (1..found.len()).find(|i| found.get(*i).is_some())?;
    parse(&found, group)
}

fn parse(found: &regex::Captures<'_>, group: usize) -> Option<Bytes> {
    Bytes::parse(&found.get(group)?.as_str().replace(',', "")).ok()
}

/// A number of bytes that stands without a unit.
fn bytes(found: &regex::Captures<'_>, group: usize) -> Option<Bytes> {
    found.get(group)?.as_str().parse().ok().map(Bytes)
}

fn gib(found: &regex::Captures<'_>, group: usize) -> Option<Bytes> {
    let number: f64 = found.get(group)?.as_str().parse().ok()?;
    Some(Bytes::from_gib(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gib(n: f64) -> Option<Bytes> {
        Some(Bytes::from_gib(n))
    }

    /// PyTorch 1.0 to 1.3: `c10/cuda/CUDACachingAllocator.cpp`, "cached".
    #[test]
    fn first_generation() {
        let f = MemoryFigures::read(&[
            "CUDA out of memory. Tried to allocate 1.50 GiB (GPU 3; 15.75 GiB total capacity; 12.25 GiB already allocated; 512.00 MiB free; 2.00 GiB cached)",
        ]);
        assert_eq!(
            (f.device, f.requested, f.total),
            (Some(3), gib(1.5), gib(15.75))
        );
        assert_eq!((f.allocated, f.free), (gib(12.25), gib(0.5)));
        assert_eq!(f.reserved_total(), gib(14.25));
    }

    /// PyTorch 1.4 to 2.0: "reserved in total by PyTorch"; here broken at 60 columns, in a number.
    #[test]
    fn second_generation_wrapped_by_a_terminal() {
        let f = MemoryFigures::read(&[
            "CUDA out of memory. Tried to allocate 640.00 MiB (GPU 1; 23.",
            "69 GiB total capacity; 20.50 GiB already allocated; 256.00 M",
            "iB free; 21.75 GiB reserved in total by PyTorch) If reserved",
        ]);
        assert_eq!(
            (f.device, f.total, f.free),
            (Some(1), gib(23.69), gib(0.25))
        );
        assert_eq!((f.allocated, f.reserved), (gib(20.5), gib(21.75)));
    }

    /// A number broken by the terminal and a line that ends between words, in one message.
    #[test]
    fn a_broken_number_among_lines_that_end_between_words() {
        let f = MemoryFigures::read(&[
            "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 2 has a total capacity of 47.50 GiB of which 1.25 GiB is free. Of the allocated memory 3",
            "9.75 GiB is allocated by PyTorch, and 4.50 GiB",
            "is reserved by PyTorch but unallocated.",
        ]);
        assert_eq!(
            (f.allocated, f.reserved_unallocated),
            (gib(39.75), gib(4.5))
        );
    }

    /// PyTorch 2.1 (typing error and all) to today.
    #[test]
    fn third_generation() {
        let f = MemoryFigures::read(&[
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacty of 79.18 GiB of which 1.10 GiB is free. Process 77 has 30.00 GiB memory in use. Including non-PyTorch memory, this process has 48.00 GiB memory in use. Of the allocated memory 40.00 GiB is allocated by PyTorch, with 1.50 GiB allocated in private pools (e.g., CUDA Graphs), and 5.25 GiB is reserved by PyTorch but unallocated.",
        ]);
        assert_eq!(
            (f.requested, f.total, f.free),
            (gib(2.0), gib(79.18), gib(1.1))
        );
        assert_eq!(
            (f.allocated, f.reserved_unallocated),
            (gib(40.0), gib(5.25))
        );
        assert_eq!((f.own, f.private_pools), (gib(48.0), gib(1.5)));
        assert_eq!(f.processes, [(77, Bytes::from_gib(30.0))]);
    }

    /// `PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync`, `c10/cuda/CUDAMallocAsyncAllocator.cpp`, 2.0 on.
    #[test]
    fn the_asynchronous_allocator() {
        let f = MemoryFigures::read(&[
            "torch.cuda.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of memory)",
            "Currently allocated     : 21.50 GiB",
            "Requested               : 1.25 GiB",
            "Device limit            : 23.69 GiB",
            "Free (according to CUDA): 0.50 GiB",
        ]);
        assert_eq!(
            (f.device, f.requested, f.total),
            (Some(1), gib(1.25), gib(23.69))
        );
        assert_eq!((f.allocated, f.free), (gib(21.5), gib(0.5)));
    }

    #[test]
    fn an_index_that_is_missing_and_a_message_that_is_cut_off() {
        let f = MemoryFigures::read(&[
            "CUDA out of memory. Tried to allocate 10.00 MiB. GPU  has a total capacity of 40.00 GiB of which 3.00 MiB is fr",
        ]);
        assert_eq!((f.device, f.total, f.free), (None, gib(40.0), None));
    }

    #[test]
    fn a_sum_that_no_machine_can_hold_is_none() {
        let f = MemoryFigures::read(&[
            "CUDA out of memory. Of the allocated memory 16000000.00 TiB is allocated by PyTorch, and 15000000.00 TiB is reserved by PyTorch but unallocated.",
        ]);
        assert!(f.allocated.is_some() && f.reserved_unallocated.is_some());
        assert_eq!(f.reserved_total(), None);
    }

    #[test]
    fn figures_that_contradict_each_other_are_kept_and_remarked() {
        let f = MemoryFigures::read(&[
            "CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.18 GiB of which 80.00 GiB is free. Of the allocated memory 100.77 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.",
        ]);
        assert_eq!(f.allocated, gib(100.77));
        let notes = f.notes().join("\n");
        assert!(
            notes.contains("100.77 GiB are allocated on a GPU of 79.18 GiB"),
            "{notes}"
        );
        assert!(
            notes.contains("80.00 GiB are free on a GPU of 79.18 GiB"),
            "{notes}"
        );
        assert!(
            notes.contains("free for a request of 512.00 MiB"),
            "{notes}"
        );
    }

    #[test]
    fn numbers_of_other_programs() {
        let vllm = MemoryFigures::read(&[
            "ValueError: Free memory on device cuda:2 (10.50/79.25 GiB) on startup is less than desired GPU memory utilization (0.9, 71.33 GiB). Decrease GPU memory utilization",
        ]);
        assert_eq!(
            (vllm.device, vllm.free, vllm.total, vllm.requested),
            (Some(2), gib(10.5), gib(79.25), gib(71.33))
        );
        let xla = MemoryFigures::read(&[
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes.",
        ]);
        assert_eq!(xla.requested, gib(4.0));
        let tf = MemoryFigures::read(&[
            "OOM when allocating tensor with shape[8,64] and type float on /job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc",
        ]);
        assert_eq!(tf.device, Some(1));
        let hip = MemoryFigures::read(&[
            "Allocation failed : Device memory : required :4096 | free :1048576 | total :17163091968 ",
        ]);
        assert_eq!(
            (hip.requested, hip.free, hip.total),
            (
                Some(Bytes(4096)),
                Some(Bytes(1 << 20)),
                Some(Bytes(17_163_091_968))
            )
        );
        let nccl = MemoryFigures::read(&[
            "node7:4711:4790 [2] include/alloc.h:185 NCCL WARN Cuda failure 2 'out of memory'",
        ]);
        assert_eq!(nccl.device, Some(2));
    }
}
