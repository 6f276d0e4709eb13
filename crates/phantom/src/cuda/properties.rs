//! What a device says of itself: `cudaDeviceProp` of CUDA 12 and 13, and attributes by number.

use std::ffi::c_int;

use super::state::{INVALID_DEVICE, SUCCESS, cleared, failed, given, known, settings};

/// Bytes of shared memory of a block that asks for more, by capability (CUDA C++ Programming Guide, "Technical Specifications
/// per Compute Capability"), and of a multiprocessor.
fn shared((major, minor): (c_int, c_int)) -> (c_int, c_int) {
    let kib = match (major, minor) {
        (7, 5) => 64,
        (7, _) => 96,
        (8, 0 | 7) => 164,
        (8 | 12, _) => 100,
        (9.., _) => 228,
        _ => 48,
    };
    let optin = match (major, minor) {
        (7, _) => kib,
        (8.., _) => kib - 1,
        _ => 48,
    };
    (optin * 1024, kib * 1024)
}

fn threads_per_processor((major, minor): (c_int, c_int)) -> c_int {
    match (major, minor) {
        (7, 5) => 1024,
        (8, 6 | 9) | (12, _) => 1536,
        _ => 2048,
    }
}

/// An attribute by its number in `cudaDeviceAttr` and `CUdevice_attribute`, which agree.
pub(super) fn attribute(number: c_int) -> c_int {
    let settings = settings();
    let (optin, processor) = shared(settings.capability);
    match number {
        1..=3 => 1024,
        4 => 64,
        5 => c_int::MAX,
        6 | 7 => 65_535,
        8 => 48 << 10,
        9 => 64 << 10,
        10 => 32,
        11 => c_int::MAX,
        12 | 82 => 65_536,
        13 => 1_980_000,
        14 => 512,
        16 => settings.processors,
        // Kernel timeout, integrated, compute mode, PCI device and domain, TCC: none of them.
        17 | 18 | 20 | 34 | 35 | 50 => 0,
        33 => 1,
        36 => 2_619_000,
        37 => 5_120,
        38 => 50 << 20,
        39 => threads_per_processor(settings.capability),
        40 => 3,
        51 => 32,
        75 => settings.capability.0,
        76 => settings.capability.1,
        81 => processor,
        // Several GPUs on a board, atomics with the host, pageable memory, GPUDirect, NUMA: none of them.
        84 | 85 | 86 | 88 | 98 | 100 | 101 | 116 | 117 | 118 | 130 | 131 | 134 => 0,
        87 => 2,
        97 => optin,
        106 => 32,
        108 | 109 => 0,
        111 => 1024,
        // A file descriptor as the handle of a pool.
        119 => 1,
        120 => c_int::from(settings.capability.0 >= 9),
        // Handles over a fabric, multicast (NVLink's switch): none.
        128 | 132 => 0,
        _ => 1,
    }
}

/// Where a field of `cudaDeviceProp` lies: in CUDA 12 and 13, and the attribute that it repeats.
const FIELDS: [(usize, usize, c_int); 31] = [
    (304, 304, 12),
    (308, 308, 10),
    (320, 320, 1),
    (324, 324, 2),
    (328, 328, 3),
    (332, 332, 4),
    (336, 336, 5),
    (340, 340, 6),
    (344, 344, 7),
    (360, 360, 75),
    (364, 364, 76),
    (388, 384, 16),
    (400, 392, 19),
    (576, 560, 31),
    (580, 564, 32),
    (600, 584, 40),
    (604, 588, 41),
    (612, 592, 37),
    (616, 596, 38),
    (624, 604, 39),
    (628, 608, 78),
    (632, 612, 79),
    (636, 616, 80),
    (648, 632, 82),
    (652, 636, 83),
    (676, 656, 89),
    (680, 660, 90),
    (688, 668, 95),
    (712, 688, 106),
    (744, 720, 115),
    (772, 748, 120),
];
/// The same for fields of eight bytes.
const LONG_FIELDS: [(usize, usize, c_int); 6] = [
    (296, 296, 8),
    (312, 312, 11),
    (352, 352, 9),
    (368, 368, 14),
    (640, 624, 81),
    (696, 672, 97),
];
/// Sizes of the structure, and where the place on the bus lies.
const SIZES: (usize, usize) = (1032, 1008);
const BUS: (usize, usize) = (584, 568);
/// Only CUDA 12 has clocks.
const CLOCKS: [(usize, c_int); 2] = [(348, 13), (608, 36)];

fn properties(to: *mut u8, device: c_int, newer: bool) -> c_int {
    if known(device).is_none() {
        return failed(INVALID_DEVICE);
    }
    let settings = settings();
    let pick = |pair: (usize, usize)| if newer { pair.1 } else { pair.0 };
    let all = cleared(to, pick(SIZES));
    if all.is_empty() {
        return SUCCESS;
    }
    let mut put = |at: usize, bytes: &[u8]| all[at..at + bytes.len()].copy_from_slice(bytes);
    let name = settings.name.as_bytes();
    put(0, &name[..name.len().min(255)]);
    put(256, &uuid(device));
    put(288, &settings.total_bytes.to_le_bytes());
    for (older, newest, number) in FIELDS {
        put(pick((older, newest)), &attribute(number).to_le_bytes());
    }
    for (older, newest, number) in LONG_FIELDS {
        let value = u64::try_from(attribute(number)).unwrap_or(0);
        put(pick((older, newest)), &value.to_le_bytes());
    }
    put(pick(BUS), &(device + 1).to_le_bytes());
    if !newer {
        for (at, number) in CLOCKS {
            put(at, &attribute(number).to_le_bytes());
        }
    }
    SUCCESS
}

/// A UUID that no card has: `phantom`, and the number of the device.
pub(super) fn uuid(device: c_int) -> [u8; 16] {
    let mut bytes = *b"phantom\0\0\0\0\0\0\0\0\0";
    bytes[15] = u8::try_from(device).unwrap_or(0);
    bytes
}

exports! {
    /// The structure of CUDA 13.
    extern "C" fn cudaGetDeviceProperties(to: *mut u8, device: c_int) = properties(to, device, true);
    /// The structure of CUDA 12.
    extern "C" fn cudaGetDeviceProperties_v2(to: *mut u8, device: c_int) = properties(to, device, false);
    extern "C" fn cudaDeviceGetAttribute(to: *mut c_int, number: c_int, _device: c_int) = given(to, attribute(number));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_have_the_card_at_their_own_places() {
        let mut older = [0xff_u8; 1032];
        let mut newer = [0xff_u8; 1008];
        assert_eq!(cudaGetDeviceProperties_v2(older.as_mut_ptr(), 0), SUCCESS);
        assert_eq!(cudaGetDeviceProperties(newer.as_mut_ptr(), 0), SUCCESS);
        let int = |from: &[u8], at: usize| i32::from_le_bytes(from[at..at + 4].try_into().unwrap());
        assert_eq!(&older[..8], b"Phantom\0");
        assert_eq!((int(&older, 360), int(&newer, 360)), (9, 9));
        assert_eq!((int(&older, 388), int(&newer, 384)), (132, 132));
        assert_eq!((int(&older, 624), int(&newer, 604)), (2048, 2048));
        assert_eq!((int(&older, 584), int(&newer, 568)), (1, 1));
        assert_eq!(
            cudaGetDeviceProperties(newer.as_mut_ptr(), 1),
            INVALID_DEVICE
        );
    }

    #[test]
    fn shared_memory_is_that_of_the_capability() {
        assert_eq!(shared((9, 0)), (227 << 10, 228 << 10));
        assert_eq!(shared((8, 6)), (99 << 10, 100 << 10));
        assert_eq!(shared((7, 5)), (64 << 10, 64 << 10));
    }
}
