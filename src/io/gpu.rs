//! The GPUs of this machine, through NVML, which makes no context: a look holds no memory of a GPU and
//! is none of its processes.
//!
//! Everything is keyed by UUID: NVML, Slurm and CUDA number GPUs differently.

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use serde::Serialize;

use crate::core::measure::Reading;
use crate::core::units::Bytes;

/// A GPU and who holds its memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// NVML's index; a label, not an identity.
    pub index: u32,
    /// UUID, which `CUDA_VISIBLE_DEVICES` takes.
    pub uuid: String,
    /// Product name.
    pub name: String,
    /// Capacity in bytes, as the driver reports it.
    pub total_bytes: Bytes,
    /// Free bytes.
    pub free_bytes: Bytes,
    /// Compute processes on it.
    pub processes: Vec<Process>,
}

/// A process that holds memory of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Process id, in the namespace of the driver.
    pub pid: u32,
    /// Bytes that it holds, where the driver tells.
    pub used_bytes: Option<Bytes>,
}

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
        NvmlError::LibloadingError(_) | NvmlError::DriverNotLoaded => {
            GpuError::NoDriver(error.to_string())
        }
        other => GpuError::Nvml(other.to_string()),
    }
}

/// The GPUs of this machine, by index.
///
/// # Errors
/// `NoDriver` where libnvidia-ml.so.1 cannot be loaded or finds no driver, as on a login node.
pub fn gpus() -> Result<Vec<Gpu>, GpuError> {
    let nvml = Nvml::init().map_err(refused)?;
    let count = nvml.device_count().map_err(refused)?;
    (0..count)
        .map(|index| gpu(&nvml, index).map_err(refused))
        .collect()
}

fn gpu(nvml: &Nvml, index: u32) -> Result<Gpu, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let memory = device.memory_info()?;
    Ok(Gpu {
        index,
        uuid: device.uuid()?,
        name: device.name()?,
        total_bytes: Bytes(memory.total),
        free_bytes: Bytes(memory.free),
        processes: processes(&device),
    })
}

/// Symbols are resolved lazily, and an old driver may lack this one: no processes are told then.
fn processes(device: &Device<'_>) -> Vec<Process> {
    let processes = device.running_compute_processes().unwrap_or_default();
    let told = processes.into_iter().map(|p| Process {
        pid: p.pid,
        used_bytes: match p.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(Bytes(bytes)),
            UsedGpuMemory::Unavailable => None,
        },
    });
    told.collect()
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

    /// A meter for each GPU that may be looked at; where a GPU is split (MIG), one for each of its parts.
    #[must_use]
    pub fn meters(&self) -> Vec<Meter<'_>> {
        let count = self.0.device_count().unwrap_or_default();
        // Inside the device cgroup of a job the GPUs of others are counted and cannot be opened.
        let gpus =
            (0..count).filter_map(|index| Some((index, self.0.device_by_index(index).ok()?)));
        gpus.flat_map(|(index, device)| match parts(&device) {
            Some(parts) => parts.into_iter().map(|part| (index, part)).collect(),
            None => vec![(index, device)],
        })
        .filter_map(|(index, device)| Meter::new(index, device).ok())
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
pub struct Meter<'d> {
    device: Device<'d>,
    reading: Reading,
}

impl<'d> Meter<'d> {
    fn new(gpu: u32, device: Device<'d>) -> Result<Self, NvmlError> {
        let reading = Reading {
            gpu,
            uuid: device.uuid()?,
            name: device.name()?,
            total_bytes: Bytes(device.memory_info()?.total),
            used_bytes: Bytes(0),
            own_bytes: None,
            utilization_percent: None,
        };
        Ok(Self { device, reading })
    }

    /// What it showed last.
    #[must_use]
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Looks; `ours` tells the processes of the job. `None` while the GPU does not answer.
    pub fn look(&mut self, mut ours: impl FnMut(u32) -> bool) -> Option<&Reading> {
        let memory = self.device.memory_info().ok()?;
        self.reading.used_bytes = Bytes(memory.used);
        let held: Vec<u64> = processes(&self.device)
            .iter()
            .filter(|p| ours(p.pid))
            .filter_map(|p| p.used_bytes.map(|b| b.0))
            .collect();
        self.reading.own_bytes = (!held.is_empty()).then(|| Bytes(held.iter().sum()));
        let rates = self.device.utilization_rates().ok();
        self.reading.utilization_percent = rates.map(|r| r.gpu);
        Some(&self.reading)
    }
}
