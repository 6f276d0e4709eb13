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

pub use advice::{Advice, Trouble, advise, fragmented, too_small};
pub use choice::{Card, Choice, choose};
pub use gpu::{
    Gpu, Health, Life, Machine, Memory, MigDevice, Place, Process, Throttle, Unavailable,
};
pub use history::History;
pub use owner::{command_line, slurm_job, user_name};
pub use recorder::{FILE_MAX, GpuSample, LINE_MAX, Reading, Recorder, Sample, last_sample};
pub use visible::{Visible, visible};
pub use xid::{Clock, Pci, Xid};
pub use xid_table::Origin;
