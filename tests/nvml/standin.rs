//! A `libnvidia-ml.so.1` without a driver: what it tells is read from the file that `NVML_STANDIN` names, anew
//! with every call, so that a test can change it while a program looks. Compiled by `mod.rs` beside it.
//!
//! One line for each thing, words of `key=value`:
//!
//! ```text
//! init error=9                                                       every nvmlInit fails with this code
//! gpu uuid=GPU-a name=H100_80GB total_mib=81559 used_mib=512 util=97 temp=60 mig=1     `_` is a blank
//! gpu uuid=GPU-a name=H100 error=4                                   cannot be opened
//! gpu … pci=0000:3b:00 power_w=300 reserved_mib=600 ecc=1 ecc_all=4 rows=2 pending=1 failed=1 throttle=64
//! old                                                                a driver before 510: no second memory call, no third list
//! part gpu=0 uuid=MIG-a name=H100-1g total_mib=9728 used_mib=12      a MIG device of that GPU
//! process gpu=0 pid=4711 used_mib=500                                without used_mib: the driver does not tell
//! process gpu=0 pid=4711 used_mib=500 graphics=1                    of both kinds
//! process part=0 pid=4712 used_mib=10                                of a MIG device, by its place in the file
//! ```
//!
//! Layouts and codes: nvml.h of CUDA 12.

#![allow(non_snake_case, non_camel_case_types, clippy::missing_safety_doc)]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_ulonglong, c_void};

const SUCCESS: c_int = 0;
const INVALID_ARGUMENT: c_int = 2;
const NOT_SUPPORTED: c_int = 3;
const NOT_FOUND: c_int = 6;
const FUNCTION_NOT_FOUND: c_int = 13;
const INSUFFICIENT_SIZE: c_int = 7;
const DRIVER_NOT_LOADED: c_int = 9;
const NOT_AVAILABLE: c_ulonglong = c_ulonglong::MAX;
/// Handles of GPUs are 1, 2, …; those of MIG devices begin here.
const PARTS: usize = 1 << 16;

type Handle = *mut c_void;

/// One line of the file.
struct Line {
    kind: String,
    words: HashMap<String, String>,
}

impl Line {
    fn number(&self, key: &str) -> Option<u64> {
        self.words.get(key)?.parse().ok()
    }

    fn bytes(&self, key: &str) -> Option<u64> {
        self.number(key).map(|mib| mib << 20)
    }
}

fn lines() -> Option<Vec<Line>> {
    let text = std::fs::read_to_string(std::env::var_os("NVML_STANDIN")?).ok()?;
    let line = |text: &str| {
        let mut words = text.split_whitespace();
        Some(Line {
            kind: words.next()?.to_owned(),
            words: words
                .filter_map(|w| w.split_once('='))
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect(),
        })
    };
    Some(text.lines().filter_map(line).collect())
}

fn of_kind(kind: &str) -> Vec<Line> {
    let all = lines().unwrap_or_default().into_iter();
    all.filter(|line| line.kind == kind).collect()
}

/// The line of a GPU or MIG device, with its kind and place.
fn line_of(handle: Handle) -> Option<(Line, &'static str, usize)> {
    let (kind, at) = match handle as usize {
        0 => return None,
        number if number > PARTS => ("part", number - PARTS - 1),
        number => ("gpu", number - 1),
    };
    let line = of_kind(kind).into_iter().nth(at)?;
    Some((line, kind, at))
}

fn is_of(line: &Line, kind: &str, at: usize) -> bool {
    line.number(kind) == Some(at as u64)
}

unsafe fn put<T>(to: *mut T, value: T) -> c_int {
    if to.is_null() {
        return INVALID_ARGUMENT;
    }
    unsafe { to.write(value) };
    SUCCESS
}

unsafe fn put_text(to: *mut c_char, length: c_uint, text: &str) -> c_int {
    if to.is_null() || text.len() >= length as usize {
        return INSUFFICIENT_SIZE;
    }
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
        to.add(text.len()).write(0);
    }
    SUCCESS
}

unsafe fn put_number(handle: Handle, key: &str, to: *mut c_uint) -> c_int {
    let number = line_of(handle).and_then(|(line, ..)| line.number(key));
    match number {
        Some(number) => unsafe { put(to, number as c_uint) },
        None => NOT_SUPPORTED,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_int {
    let Some(lines) = lines() else {
        return DRIVER_NOT_LOADED;
    };
    let init = lines.iter().find(|line| line.kind == "init");
    init.and_then(|line| line.number("error"))
        .map_or(SUCCESS, |code| code as c_int)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_: c_uint) -> c_int {
    nvmlInit_v2()
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(_: c_int) -> *const c_char {
    c"an error of the stand-in".as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, length: c_uint) -> c_int {
    unsafe { put_text(to, length, "560.35.03") }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(to: *mut c_uint) -> c_int {
    unsafe { put(to, of_kind("gpu").len() as c_uint) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, to: *mut Handle) -> c_int {
    match of_kind("gpu").get(index as usize) {
        None => INVALID_ARGUMENT,
        Some(line) => match line.number("error") {
            Some(code) => code as c_int,
            None => unsafe { put(to, (index as usize + 1) as Handle) },
        },
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, to: *mut Handle) -> c_int {
    let uuid = unsafe { CStr::from_ptr(uuid) }.to_string_lossy();
    for (kind, base) in [("gpu", 0), ("part", PARTS)] {
        let is = |line: &Line| line.words.get("uuid").is_some_and(|u| *u == uuid);
        if let Some(at) = of_kind(kind).iter().position(is) {
            return unsafe { put(to, (base + at + 1) as Handle) };
        }
    }
    NOT_FOUND
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetIndex(handle: Handle, to: *mut c_uint) -> c_int {
    match line_of(handle) {
        Some((_, "gpu", at)) => unsafe { put(to, at as c_uint) },
        _ => INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    handle: Handle,
    to: *mut c_char,
    length: c_uint,
) -> c_int {
    match line_of(handle) {
        Some((line, ..)) => unsafe { put_text(to, length, &line.words["uuid"]) },
        None => INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    handle: Handle,
    to: *mut c_char,
    length: c_uint,
) -> c_int {
    match line_of(handle) {
        Some((line, ..)) => {
            let name = line.words["name"].replace('_', " ");
            unsafe { put_text(to, length, &name) }
        }
        None => INVALID_ARGUMENT,
    }
}

#[repr(C)]
pub struct nvmlMemory_t {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[repr(C)]
pub struct nvmlMemory_v2_t {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// Total, used and reserved.
fn memory(handle: Handle) -> Option<(u64, u64, u64)> {
    let (line, ..) = line_of(handle)?;
    let reserved = line.bytes("reserved_mib").unwrap_or(0);
    Some((line.bytes("total_mib")?, line.bytes("used_mib")?, reserved))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(handle: Handle, to: *mut nvmlMemory_t) -> c_int {
    let Some((total, used, reserved)) = memory(handle) else {
        return NOT_SUPPORTED;
    };
    let used = used + reserved;
    let free = total.saturating_sub(used);
    unsafe { put(to, nvmlMemory_t { total, free, used }) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    handle: Handle,
    to: *mut nvmlMemory_v2_t,
) -> c_int {
    if is_old() {
        return FUNCTION_NOT_FOUND;
    }
    let Some((total, used, reserved)) = memory(handle) else {
        return NOT_SUPPORTED;
    };
    let told = nvmlMemory_v2_t {
        version: unsafe { (*to).version },
        total,
        reserved,
        free: total.saturating_sub(used + reserved),
        used,
    };
    unsafe { put(to, told) }
}

#[repr(C)]
pub struct nvmlUtilization_t {
    gpu: c_uint,
    memory: c_uint,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    handle: Handle,
    to: *mut nvmlUtilization_t,
) -> c_int {
    let (mut gpu, memory) = (0, 0);
    match unsafe { put_number(handle, "util", &mut gpu) } {
        SUCCESS => unsafe { put(to, nvmlUtilization_t { gpu, memory }) },
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(
    handle: Handle,
    _: c_uint,
    to: *mut c_uint,
) -> c_int {
    unsafe { put_number(handle, "temp", to) }
}

#[repr(C)]
pub struct nvmlPciInfo_t {
    busIdLegacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pciDeviceId: c_uint,
    pciSubSystemId: c_uint,
    busId: [c_char; 32],
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(handle: Handle, to: *mut nvmlPciInfo_t) -> c_int {
    let line = line_of(handle).map(|(line, ..)| line);
    let Some(place) = line.and_then(|line| line.words.get("pci").cloned()) else {
        return NOT_SUPPORTED;
    };
    let mut parts = place.split(':').map(|part| c_uint::from_str_radix(part, 16).unwrap_or(0));
    let mut part = || parts.next().unwrap_or(0);
    let told = nvmlPciInfo_t {
        busIdLegacy: [0; 16],
        domain: part(),
        bus: part(),
        device: part(),
        pciDeviceId: 0,
        pciSubSystemId: 0,
        busId: [0; 32],
    };
    unsafe { put(to, told) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(handle: Handle, to: *mut c_uint) -> c_int {
    match unsafe { put_number(handle, "power_w", to) } {
        SUCCESS => unsafe { put(to, *to * 1_000) },
        code => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    handle: Handle,
    kind: c_uint,
    counter: c_uint,
    to: *mut c_ulonglong,
) -> c_int {
    let key = match (kind, counter) {
        (1, 0) => "ecc",
        (1, 1) => "ecc_all",
        _ => return NOT_SUPPORTED,
    };
    match line_of(handle).and_then(|(line, ..)| line.number(key)) {
        Some(count) => unsafe { put(to, count) },
        None => NOT_SUPPORTED,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    handle: Handle,
    to: *mut c_ulonglong,
) -> c_int {
    match line_of(handle).and_then(|(line, ..)| line.number("throttle")) {
        Some(bits) => unsafe { put(to, bits) },
        None => NOT_SUPPORTED,
    }
}

#[repr(C)]
pub struct nvmlFieldValue_t {
    field: c_uint,
    scope: c_uint,
    timestamp: c_longlong,
    latency: c_longlong,
    value_type: c_uint,
    code: c_int,
    value: c_ulonglong,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(
    handle: Handle,
    count: c_int,
    values: *mut nvmlFieldValue_t,
) -> c_int {
    /// `NVML_VALUE_TYPE_UNSIGNED_INT`.
    const UNSIGNED: c_uint = 1;
    let line = line_of(handle).map(|(line, ..)| line);
    for at in 0..count as usize {
        let value = unsafe { &mut *values.add(at) };
        let key = match value.field {
            143 => "rows",
            144 => "pending",
            145 => "failed",
            _ => "",
        };
        let number = line.as_ref().and_then(|line| line.number(key));
        value.value_type = UNSIGNED;
        value.code = if number.is_some() { SUCCESS } else { NOT_SUPPORTED };
        value.value = number.unwrap_or(0);
    }
    SUCCESS
}

#[repr(C)]
pub struct nvmlProcessInfo_t {
    pid: c_uint,
    used_gpu_memory: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// The processes of a device; the layout is the same in the second and third version.
unsafe fn list(handle: Handle, kind: &str, count: *mut c_uint, to: *mut nvmlProcessInfo_t) -> c_int {
    let Some((_, of, at)) = line_of(handle) else {
        return INVALID_ARGUMENT;
    };
    let processes = of_kind("process");
    let wanted = |p: &&Line| is_of(p, of, at) && (kind == "compute" || p.number(kind).is_some());
    let held: Vec<&Line> = processes.iter().filter(wanted).collect();
    let room = unsafe { *count } as usize;
    unsafe { *count = held.len() as c_uint };
    if held.is_empty() {
        return SUCCESS;
    }
    if to.is_null() || room < held.len() {
        return INSUFFICIENT_SIZE;
    }
    for (place, line) in held.iter().enumerate() {
        let told = nvmlProcessInfo_t {
            pid: line.number("pid").unwrap_or(0) as c_uint,
            used_gpu_memory: line.bytes("used_mib").unwrap_or(NOT_AVAILABLE),
            gpu_instance: c_uint::MAX,
            compute_instance: c_uint::MAX,
        };
        unsafe { to.add(place).write(told) };
    }
    SUCCESS
}

fn is_old() -> bool {
    !of_kind("old").is_empty()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    handle: Handle,
    count: *mut c_uint,
    to: *mut nvmlProcessInfo_t,
) -> c_int {
    if is_old() {
        return FUNCTION_NOT_FOUND;
    }
    unsafe { list(handle, "compute", count, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    handle: Handle,
    count: *mut c_uint,
    to: *mut nvmlProcessInfo_t,
) -> c_int {
    unsafe { list(handle, "compute", count, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    handle: Handle,
    count: *mut c_uint,
    to: *mut nvmlProcessInfo_t,
) -> c_int {
    unsafe { list(handle, "graphics", count, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    handle: Handle,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> c_int {
    match unsafe { put_number(handle, "mig", current) } {
        SUCCESS => unsafe { put(pending, *current) },
        code => code,
    }
}

/// Places in the file of the MIG devices of a GPU.
fn parts_of(handle: Handle) -> Vec<usize> {
    let Some((_, "gpu", gpu)) = line_of(handle) else {
        return Vec::new();
    };
    let parts = of_kind("part");
    let of_it = |at: &usize| is_of(&parts[*at], "gpu", gpu);
    (0..parts.len()).filter(of_it).collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(handle: Handle, to: *mut c_uint) -> c_int {
    unsafe { put(to, parts_of(handle).len() as c_uint) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    handle: Handle,
    index: c_uint,
    to: *mut Handle,
) -> c_int {
    match parts_of(handle).get(index as usize) {
        Some(at) => unsafe { put(to, (PARTS + at + 1) as Handle) },
        None => NOT_FOUND,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceIsMigDeviceHandle(handle: Handle, to: *mut c_uint) -> c_int {
    unsafe { put(to, c_uint::from(handle as usize > PARTS)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(
    handle: Handle,
    to: *mut Handle,
) -> c_int {
    match line_of(handle) {
        Some((line, "part", _)) => match line.number("gpu") {
            Some(gpu) => unsafe { put(to, (gpu as usize + 1) as Handle) },
            None => NOT_FOUND,
        },
        _ => INVALID_ARGUMENT,
    }
}
