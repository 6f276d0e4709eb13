//! GPUs as one look finds them: what they hold, who holds it, what is wrong with them.
//!
//! Rule: a GPU is known by its UUID. NVML, Slurm and CUDA number GPUs differently, so an index is a label for
//! people. Looking is done elsewhere; here a look is data.

mod advice;
mod choice;
mod gpu;
mod history;
pub mod nvml;
mod owner;
mod recorder;
mod visible;
mod xid;
mod xid_table;

pub use advice::{GpuAdvice, Trouble, advise, fragmented, too_small};
pub use choice::{Card, GpuChoice, choose};
pub use gpu::{
    DeviceMemory, DevicePlace, Gpu, Health, Machine, MigDevice, Process, ProcessLife, Throttle,
    Unavailable,
};
pub use history::UseHistory;
pub use owner::{command_line, slurm_job, user_name};
pub use recorder::{FILE_MAX, GpuReading, GpuSample, LINE_MAX, Recorder, SampleLine, last_sample};
pub use visible::{Visible, visible};
pub use xid::{LogClock, Pci, Xid};
pub use xid_table::XidOrigin;
