//! What the phantom reports beside CUDA: names without behaviour that were called, and how many values were read.

use std::ffi::{c_char, c_int};
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::state::{give_text, known, memory, settings};

static COPIES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static LAUNCHES: AtomicU64 = AtomicU64::new(0);
static READER: AtomicUsize = AtomicUsize::new(0);

/// The function that hears of each copy to the host, on the thread that makes it.
type Reader = extern "C" fn(usize);

/// Writes a name into the report, once.
pub(super) fn once(said: &AtomicBool, name: &str) {
    if !said.swap(true, Ordering::Relaxed) {
        say(name);
    }
}

/// Writes a name into the report. A report that cannot be written is left out: the program has no place for our errors.
pub(super) fn say(name: &str) {
    let Some(path) = &settings().report else {
        return;
    };
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
        let _ = file.write_all(format!("{name}\n").as_bytes());
    }
}

/// Counts a copy to the host.
pub(super) fn read_back(bytes: usize) {
    COPIES.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    let reader = READER.load(Ordering::Acquire);
    if reader != 0 {
        // SAFETY: only `oomctl_phantom_on_read` stores here, and its caller hands in a function of this type that stays.
        let reader: Reader = unsafe { std::mem::transmute::<usize, Reader>(reader) };
        reader(bytes);
    }
}

pub(super) fn launched() {
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
}

/// From now on this function is called with the bytes of each copy to the host; null ends that.
#[unsafe(no_mangle)]
extern "C" fn oomctl_phantom_on_read(reader: usize) {
    READER.store(reader, Ordering::Release);
}

/// Figures of a device as JSON, at most `most` bytes with the zero at the end.
#[unsafe(no_mangle)]
extern "C" fn oomctl_phantom_figures(device: c_int, to: *mut c_char, most: usize) -> c_int {
    let Some(device) = known(device) else {
        return super::state::INVALID_DEVICE;
    };
    let memory = memory();
    let host = memory.host_bytes();
    let text = format!(
        "{{\"used_bytes\": {}, \"peak_bytes\": {}, \"pinned_peak_bytes\": {}, \"managed_peak_bytes\": {}, \
         \"copies_to_host\": {}, \"bytes_to_host\": {}, \"launches\": {}}}",
        memory.used_bytes(device),
        memory.peak_bytes(device),
        host.pinned_peak,
        host.managed_peak,
        COPIES.load(Ordering::Relaxed),
        BYTES.load(Ordering::Relaxed),
        LAUNCHES.load(Ordering::Relaxed),
    );
    give_text(to, most, &text);
    super::state::SUCCESS
}
