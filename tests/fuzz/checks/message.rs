//! Messages of allocators: numbers of any size give no panic, and numbers that are printed whole are
//! read as printed.

use oomctl_base::units::{Bytes, GIB, parse_duration_s, slurm_mem};
use oomctl_diagnose::{Incident, ProgressPattern, Scanner};

use super::allocations::within;
use super::random::Random;

/// Bytes that reading one message may hold, beside copies of it.
const MOST_MEMORY: usize = 16 << 20;

pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    amounts(&text);
    let log = format!("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {text}\n");
    super::log::shown(&within(MOST_MEMORY, || incident(log.as_bytes())));
    super::log::shown(&within(MOST_MEMORY, || incident(input)));
    as_printed(&mut Random::of(input));
}

fn incident(log: &[u8]) -> Incident {
    let mut scanner = Scanner::new(&ProgressPattern::built_in());
    let source = scanner.source("log");
    scanner.feed(source, 0, log);
    scanner.finish_source(source);
    scanner.verdict(None)
}

/// All memory of a node (`0M`) is asked of Slurm for nothing else than 0.
fn amounts(text: &str) {
    for word in text.split([' ', ',', ';', '\n']) {
        if let Ok(bytes) = Bytes::parse(word) {
            let asked = slurm_mem(bytes.gib() * GIB);
            assert_eq!(asked == "0M", bytes.0 == 0, "{word}: {asked} for {bytes}");
        }
        let _ = parse_duration_s(word);
    }
}

/// PyTorch 2.1 to today (`c10/cuda/CUDACachingAllocator.cpp`), with amounts up to more than 64 bits hold.
fn as_printed(random: &mut Random) {
    let large = random.once_in(4);
    let mut amount = || {
        let unit = *random.pick(&["GiB", "GiB", "MiB", "KiB"]);
        let (whole, part) = (random.below(2_000), random.below(100));
        if large && !random.once_in(3) {
            return format!("{}.{part:02} TiB", 8_000_000 + random.below(9_000_000));
        }
        format!("{whole}.{part:02} {unit}")
    };
    let [requested, total, free, other, third] = std::array::from_fn(|_| amount());
    let [own, allocated, unallocated] = std::array::from_fn(|_| amount());
    let own = if large {
        String::new()
    } else {
        format!("Including non-PyTorch memory, this process has {own} memory in use. ")
    };
    let log = format!(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested}. GPU 5 has a total capacity of {total} of which {free} is free. Process 77 has {other} memory in use. Process 78 has {third} memory in use. {own}Of the allocated memory {allocated} is allocated by PyTorch, and {unallocated} is reserved by PyTorch but unallocated.\n"
    );
    let found = incident(log.as_bytes());
    super::log::shown(&found);
    let figures = [
        (found.requested_bytes, requested),
        (found.total_bytes, total),
        (found.free_bytes, free),
        (found.allocated_bytes, allocated),
        (found.reserved_unallocated_bytes, unallocated),
    ];
    for (read, printed) in figures {
        assert_eq!(read, Bytes::parse(&printed).ok(), "{printed} in {log}");
    }
    assert_eq!(found.device_index, Some(5), "{log}");
}
