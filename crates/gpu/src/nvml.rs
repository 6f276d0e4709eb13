//! The GPUs of this machine, through NVML, which makes no context: a look holds no memory of a GPU and
//! is none of its processes.
//!
//! Everything is keyed by UUID: NVML, Slurm and CUDA number GPUs differently.

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_REMAPPED_FAILURE, NVML_FI_DEV_REMAPPED_PENDING, NVML_FI_DEV_REMAPPED_UNC,
    NVML_FI_DEV_RETIRED_DBE, NVML_FI_DEV_RETIRED_PENDING,
};
use nvml_wrapper::{Device, Nvml};

use crate::{
    DeviceMemory, Gpu, GpuReading, Health, Machine, MigDevice, Pci, Process, Throttle, Unavailable,
};
use oomctl_base::units::Bytes;

/// Why the GPUs of this machine cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// No NVIDIA driver.
    #[error("no NVIDIA driver on this node ({0})")]
    NoDriver(String),
    /// NVML is there and refuses.
    #[error("NVML: {0}")]
    Nvml(String),
}

fn refused(error: NvmlError) -> GpuError {
    match error {
        NvmlError::LibloadingError(missing) => GpuError::NoDriver(missing.to_string()),
        NvmlError::DriverNotLoaded | NvmlError::LibraryNotFound | NvmlError::NotFound => {
            GpuError::NoDriver(error.to_string())
        }
        other => GpuError::Nvml(other.to_string()),
    }
}

fn gpu(nvml: &Nvml, index: u32) -> Result<Gpu, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let (parts, held) = (parts(&device), processes(&device));
    Ok(Gpu {
        pci: pci(&device),
        processes_known: held.is_some(),
        utilization_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
        temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
        power_w: device
            .power_usage()
            .ok()
            .map(|milliwatts| milliwatts / 1_000),
        health: health(&device),
        processes: held.unwrap_or_default(),
        mig: parts.map(|parts| parts.iter().filter_map(|d| mig_device(d).ok()).collect()),
        ..Gpu::bare(index, &device.uuid()?, &device.name()?, memory(&device)?)
    })
}

fn pci(device: &Device<'_>) -> Option<Pci> {
    let told = device.pci_info().ok()?;
    Some(Pci {
        domain: told.domain,
        bus: told.bus,
        device: told.device,
    })
}

fn mig_device(device: &Device<'_>) -> Result<MigDevice, NvmlError> {
    Ok(MigDevice {
        uuid: device.uuid()?,
        name: device.name()?,
        memory: memory(device)?,
        processes: processes(device).unwrap_or_default(),
    })
}

/// Drivers before 510 lack the second version of this call, which alone tells reserved from used memory.
fn memory(device: &Device<'_>) -> Result<DeviceMemory, NvmlError> {
    let lacking = match device.memory_info() {
        Ok(told) => {
            return Ok(DeviceMemory {
                total: Bytes(told.total),
                used: Bytes(told.used),
                free: Bytes(told.free),
            });
        }
        Err(e @ (NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound)) => e,
        Err(other) => return Err(other),
    };
    let Ok(call) = device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref() else {
        return Err(lacking);
    };
    // SAFETY: the handle is that of a living device, the struct is plain numbers of the C layout, and the
    // call fills it before it answers 0.
    let (code, told) = unsafe {
        let mut told = std::mem::zeroed();
        (call(device.handle(), &raw mut told), told)
    };
    if code != 0 {
        return Err(lacking);
    }
    Ok(DeviceMemory {
        total: Bytes(told.total),
        used: Bytes(told.used),
        free: Bytes(told.free),
    })
}

fn health(device: &Device<'_>) -> Health {
    let uncorrected = |counter| {
        device
            .total_ecc_errors(MemoryError::Uncorrected, counter)
            .ok()
    };
    let [rows, pages, row_pending, page_pending, failed] = fields(
        device,
        [
            NVML_FI_DEV_REMAPPED_UNC,
            NVML_FI_DEV_RETIRED_DBE,
            NVML_FI_DEV_REMAPPED_PENDING,
            NVML_FI_DEV_RETIRED_PENDING,
            NVML_FI_DEV_REMAPPED_FAILURE,
        ],
    );
    let set = |value: Option<u64>| value.is_some_and(|v| v > 0);
    Health {
        ecc_uncorrected: uncorrected(EccCounter::Volatile),
        ecc_uncorrected_lifetime: uncorrected(EccCounter::Aggregate),
        rows_replaced: rows.or(pages),
        replacement_pending: set(row_pending) || set(page_pending),
        replacement_failed: set(failed),
        throttled: throttled(device),
    }
}

/// Values of fields in one call; `None` for those that the GPU does not have.
fn fields<const N: usize>(device: &Device<'_>, ids: [u32; N]) -> [Option<u64>; N] {
    let told = device
        .field_values_for(&ids.map(FieldId))
        .unwrap_or_default();
    let mut values = told.into_iter().map(|told| match told.ok()?.value.ok()? {
        SampleValue::U32(value) => Some(u64::from(value)),
        SampleValue::U64(value) => Some(value),
        _ => None,
    });
    ids.map(|_| values.next().flatten())
}

fn throttled(device: &Device<'_>) -> Vec<Throttle> {
    let reasons = device
        .current_throttle_reasons()
        .unwrap_or(ThrottleReasons::empty());
    let hot = ThrottleReasons::HW_THERMAL_SLOWDOWN | ThrottleReasons::SW_THERMAL_SLOWDOWN;
    let brake = ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN;
    let mut found = Vec::new();
    if reasons.intersects(hot) {
        found.push(Throttle::Thermal);
    }
    if reasons.intersects(brake) {
        found.push(Throttle::PowerBrake);
    }
    if found.is_empty() && reasons.contains(ThrottleReasons::HW_SLOWDOWN) {
        found.push(Throttle::Hardware);
    }
    found
}

/// Who holds memory: programs that compute and, on a workstation, those that draw. `None` where the driver does not
/// tell.
fn processes(device: &Device<'_>) -> Option<Vec<Process>> {
    let computing = device
        .running_compute_processes()
        .or_else(|_| device.running_compute_processes_v2())
        .ok()?;
    let drawing = device
        .running_graphics_processes()
        .or_else(|_| device.running_graphics_processes_v2())
        .unwrap_or_default();
    let mut held: Vec<Process> = Vec::new();
    for told in computing.into_iter().chain(drawing) {
        let used = match told.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(Bytes(bytes)),
            UsedGpuMemory::Unavailable => None,
        };
        // One that does both is in both lists with all that it holds.
        if held.iter().all(|known| known.pid != told.pid) {
            held.push(Process::bare(told.pid, used));
        }
    }
    Some(held)
}

/// The driver, kept open to look again and again.
pub struct Driver(Nvml);

impl Driver {
    /// Opens it.
    ///
    /// # Errors
    /// As `gpus`.
    pub fn open() -> Result<Self, GpuError> {
        Nvml::init().map(Self).map_err(refused)
    }

    /// The GPUs of this machine. A GPU that cannot be looked at is listed with the reason, and costs the others
    /// nothing. Of processes only what NVML tells is there.
    ///
    /// # Errors
    /// When NVML does not even count them.
    pub fn look(&self) -> Result<Machine, GpuError> {
        let count = self.0.device_count().map_err(refused)?;
        let mut machine = Machine {
            driver: self.0.sys_driver_version().ok(),
            ..Machine::default()
        };
        for index in 0..count {
            match gpu(&self.0, index) {
                Ok(gpu) => machine.gpus.push(gpu),
                Err(error) => machine.unavailable.push(Unavailable {
                    index,
                    lost: matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired),
                    error: error.to_string(),
                }),
            }
        }
        Ok(machine)
    }

    /// A meter for each GPU that may be looked at; where a GPU is split (MIG), one for each of its parts.
    pub fn meters(&self) -> Vec<GpuMeter<'_>> {
        let count = self.0.device_count().unwrap_or_default();
        // Inside the device cgroup of a job the GPUs of others are counted and cannot be opened.
        let gpus =
            (0..count).filter_map(|index| Some((index, self.0.device_by_index(index).ok()?)));
        gpus.flat_map(|(index, device)| match parts(&device) {
            Some(parts) => parts.into_iter().map(|part| (index, part)).collect(),
            None => vec![(index, device)],
        })
        .filter_map(|(index, device)| GpuMeter::new(index, device).ok())
        .collect()
    }
}

/// The MIG devices of a GPU; `None` where it is not split.
fn parts<'d>(device: &Device<'d>) -> Option<Vec<Device<'d>>> {
    /// NVML's `NVML_DEVICE_MIG_ENABLE`.
    const ENABLED: u32 = 1;
    let mode = device.mig_mode().ok()?;
    let count = device.mig_device_count().ok()?;
    (mode.current == ENABLED).then(|| {
        (0..count)
            .filter_map(|index| device.mig_device_by_index(index).ok())
            .collect()
    })
}

/// One GPU or MIG device that is looked at again and again.
pub struct GpuMeter<'d> {
    device: Device<'d>,
    reading: GpuReading,
    free: Bytes,
}

impl<'d> GpuMeter<'d> {
    fn new(gpu: u32, device: Device<'d>) -> Result<Self, NvmlError> {
        let reading = GpuReading {
            gpu,
            uuid: device.uuid()?,
            name: device.name()?,
            total_bytes: memory(&device)?.total,
            used_bytes: Bytes(0),
            own_bytes: None,
            pid: None,
            utilization_percent: None,
        };
        Ok(Self {
            device,
            reading,
            free: Bytes(0),
        })
    }

    /// What it showed last.
    pub fn reading(&self) -> &GpuReading {
        &self.reading
    }

    /// What nobody could get at the last look: in use, or kept by the driver for itself.
    pub fn taken(&self) -> Bytes {
        Bytes(self.reading.total_bytes.0.saturating_sub(self.free.0))
    }

    /// Looks; `ours` tells the processes of the job. `None` while the GPU does not answer.
    pub fn look(&mut self, mut ours: impl FnMut(u32) -> bool) -> Option<&GpuReading> {
        let memory = memory(&self.device).ok()?;
        self.reading.used_bytes = memory.used;
        self.free = memory.free;
        let mut all = processes(&self.device).unwrap_or_default();
        all.retain(|p| ours(p.pid));
        let held: Vec<u64> = all.iter().filter_map(|p| Some(p.used_bytes?.0)).collect();
        self.reading.own_bytes = (!held.is_empty()).then(|| Bytes(held.iter().sum()));
        self.reading.pid = match all.as_slice() {
            [one] => Some(one.pid),
            _ => None,
        };
        let rates = self.device.utilization_rates().ok();
        self.reading.utilization_percent = rates.map(|r| r.gpu);
        Some(&self.reading)
    }
}
