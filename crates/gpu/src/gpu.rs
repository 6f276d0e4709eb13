//! What a look at a machine's GPUs tells.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::xid::{Pci, Xid};
use oomctl_base::units::Bytes;

/// The GPUs of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Version of the NVIDIA driver.
    #[serde(default)]
    pub driver: Option<String>,
    /// GPUs that may be looked at, by NVML's index.
    pub gpus: Vec<Gpu>,
    /// GPUs that are counted and cannot be opened: those of other jobs inside a device cgroup, broken ones.
    #[serde(default)]
    pub unavailable: Vec<Unavailable>,
    /// The last Xid of each GPU in the kernel's log.
    #[serde(default)]
    pub xids: Vec<Xid>,
    /// Why that log cannot be read.
    #[serde(default)]
    pub kernel_log_error: Option<String>,
}

/// A GPU that cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unavailable {
    /// NVML's index.
    pub index: u32,
    /// NVML's reason.
    pub error: String,
    /// It has fallen off the bus or must be reset.
    #[serde(default)]
    pub lost: bool,
}

/// A GPU, what it holds and who holds it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// NVML's index; a label, not an identity.
    pub index: u32,
    /// UUID, which `CUDA_VISIBLE_DEVICES` takes.
    pub uuid: String,
    /// Product name.
    pub name: String,
    /// Where it is on the bus, as the kernel's log calls it.
    #[serde(default)]
    pub pci: Option<Pci>,
    /// Its memory.
    #[serde(flatten)]
    pub memory: DeviceMemory,
    /// Share of the last sampling period (1 s or less) in which a kernel ran, in percent.
    pub utilization_percent: Option<u32>,
    /// Temperature of the chip in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Power draw in watts.
    pub power_w: Option<u32>,
    /// Errors and slow-downs that the driver tells of.
    pub health: Health,
    /// Processes on it; of a split GPU they stand with its MIG devices.
    pub processes: Vec<Process>,
    /// Does the driver tell of processes at all?
    #[serde(default)]
    pub processes_known: bool,
    /// `None` where the GPU is not split. Of a split GPU CUDA takes only its MIG devices.
    pub mig: Option<Vec<MigDevice>>,
}

/// A part of a GPU that is split (MIG).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MigDevice {
    /// UUID, which `CUDA_VISIBLE_DEVICES` takes.
    pub uuid: String,
    /// Name with its profile.
    pub name: String,
    /// Its memory.
    #[serde(flatten)]
    pub memory: DeviceMemory,
    /// Processes on it.
    pub processes: Vec<Process>,
}

/// Memory of a GPU or MIG device in bytes. Used, free and what the driver reserves make up the total; drivers
/// before 510 count what they reserve as used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeviceMemory {
    /// Capacity.
    #[serde(rename = "total_bytes")]
    pub total: Bytes,
    /// In use, everybody's.
    #[serde(rename = "used_bytes")]
    pub used: Bytes,
    /// Free.
    #[serde(rename = "free_bytes")]
    pub free: Bytes,
}

/// A process that holds memory of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Process id, in the namespace of the driver.
    pub pid: u32,
    /// Bytes that it holds, where the driver tells.
    pub used_bytes: Option<Bytes>,
    /// Name of its user, or the number where there is no name.
    pub user: Option<String>,
    /// Its command line, cut.
    pub command: Option<String>,
    /// Slurm job that it belongs to, by its cgroup.
    pub job: Option<String>,
    /// Process that started it.
    pub parent: Option<u32>,
    /// What has become of it.
    pub life: ProcessLife,
}

/// Whether a process that holds memory of a GPU still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessLife {
    /// It runs or sleeps.
    Runs,
    /// It has ended; its parent, or a thread of it that hangs in the driver, keeps it from going.
    Ending,
    /// It was stopped (SIGSTOP, Ctrl-Z) and keeps what it holds.
    Stopped,
    /// There is no such process on this machine.
    Gone,
    /// It cannot be told: the pid is of another pid namespace, as in a container.
    #[default]
    Unknown,
}

/// What the driver tells of errors. `None` where a GPU does not count them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Uncorrectable memory errors (ECC) since the driver was loaded.
    pub ecc_uncorrected: Option<u64>,
    /// The same over the life of the GPU.
    pub ecc_uncorrected_lifetime: Option<u64>,
    /// Memory rows remapped for uncorrectable errors (since Ampere), or pages retired for them (before).
    pub rows_replaced: Option<u64>,
    /// A row or page waits for a reset of the GPU to be replaced.
    pub replacement_pending: bool,
    /// A row could not be replaced: the GPU has to be exchanged.
    pub replacement_failed: bool,
    /// Why its clocks are held down, where that is no ordinary reason.
    pub throttled: Vec<Throttle>,
}

/// A reason for low clocks that is worth a word; an idle GPU and the power limit at full load are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Throttle {
    /// Too hot.
    Thermal,
    /// The power supply asks for less.
    PowerBrake,
    /// The hardware halves its clocks and does not say why.
    Hardware,
}

/// A GPU or MIG device that a program can be given.
#[derive(Debug, Clone, Copy)]
pub struct DevicePlace<'m> {
    /// NVML's index of the GPU.
    pub index: u32,
    /// UUID of the GPU or MIG device.
    pub uuid: &'m str,
    /// Product name.
    pub name: &'m str,
    /// Its memory.
    pub memory: DeviceMemory,
    /// Processes on it.
    pub processes: &'m [Process],
}

impl DeviceMemory {
    /// The part that is in use, in percent.
    pub fn used_percent(&self) -> u8 {
        let share = u128::from(self.used.0) * 100 / u128::from(self.total.0.max(1));
        u8::try_from(share.min(100)).unwrap_or(100)
    }
}

impl Process {
    /// A process of which only NVML has told.
    pub fn bare(pid: u32, used_bytes: Option<Bytes>) -> Self {
        Self {
            pid,
            used_bytes,
            ..Self::default()
        }
    }
}

impl Machine {
    /// What programs can be given: whole GPUs, and of a split GPU its MIG devices.
    pub fn places(&self) -> impl Iterator<Item = DevicePlace<'_>> {
        self.gpus.iter().flat_map(Gpu::places)
    }
}

impl Gpu {
    /// A GPU of which only identity and memory are known.
    pub fn bare(index: u32, uuid: &str, name: &str, memory: DeviceMemory) -> Self {
        Self {
            index,
            uuid: uuid.to_owned(),
            name: name.to_owned(),
            memory,
            ..Self::default()
        }
    }

    /// The GPU itself, or its MIG devices where it is split.
    pub fn places(&self) -> impl Iterator<Item = DevicePlace<'_>> {
        let whole = self.mig.is_none().then_some(DevicePlace {
            index: self.index,
            uuid: &self.uuid,
            name: &self.name,
            memory: self.memory,
            processes: &self.processes,
        });
        let parts = self.mig.iter().flatten().map(|part| DevicePlace {
            index: self.index,
            uuid: &part.uuid,
            name: &part.name,
            memory: part.memory,
            processes: &part.processes,
        });
        whole.into_iter().chain(parts)
    }

    /// All processes on it and its MIG devices.
    pub fn all_processes(&self) -> impl Iterator<Item = &Process> {
        let of_parts = self.mig.iter().flatten().flat_map(|part| &part.processes);
        self.processes.iter().chain(of_parts)
    }
}
