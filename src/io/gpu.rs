//! The GPUs of this machine, through NVML.
//!
//! Everything is keyed by UUID: NVML, Slurm and CUDA number GPUs differently.

use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use serde::Serialize;

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

/// The GPUs of this machine, by index.
///
/// # Errors
/// `NoDriver` where libnvidia-ml.so.1 cannot be loaded or finds no driver, as on a login node.
pub fn gpus() -> Result<Vec<Gpu>, GpuError> {
    let nvml = Nvml::init().map_err(|e| match e {
        NvmlError::LibloadingError(_) | NvmlError::DriverNotLoaded => {
            GpuError::NoDriver(e.to_string())
        }
        other => GpuError::Nvml(other.to_string()),
    })?;
    let refused = |e: NvmlError| GpuError::Nvml(e.to_string());
    let count = nvml.device_count().map_err(refused)?;
    (0..count)
        .map(|index| gpu(&nvml, index).map_err(refused))
        .collect()
}

fn gpu(nvml: &Nvml, index: u32) -> Result<Gpu, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let memory = device.memory_info()?;
    // Symbols are resolved lazily, and an old driver may lack this one: no processes are told then.
    let processes = device.running_compute_processes().unwrap_or_default();
    Ok(Gpu {
        index,
        uuid: device.uuid()?,
        name: device.name()?,
        total_bytes: Bytes(memory.total),
        free_bytes: Bytes(memory.free),
        processes: processes
            .into_iter()
            .map(|p| Process {
                pid: p.pid,
                used_bytes: match p.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(Bytes(bytes)),
                    UsedGpuMemory::Unavailable => None,
                },
            })
            .collect(),
    })
}
