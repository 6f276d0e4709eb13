//! What a job was measured to need: samples of its GPUs, figures and times of steps in its logs, and the peaks of
//! these.
//!
//! Rule: nothing is measured here. Readings and bytes of logs are handed in; lines and peaks come out.

mod confidence;
mod context;
mod curve;
mod data_parallel;
mod death;
mod figures;
mod peaks;
mod phantom;

pub use confidence::PhantomConfidence;
pub use context::PhantomContext;
pub use curve::PhantomCurve;
pub use data_parallel::Crowded;
pub use death::phantom_incident;
pub use figures::{AttemptFigures, Figure, FigurePattern, FigureSpec, Overlap, Quantity};
pub use peaks::{GpuPeak, Measured};
pub use phantom::{
    PhantomDevice, PhantomEnd, PhantomFailure, PhantomOutcome, PhantomPeak, PhantomRecord,
    PhantomSite, PhantomSummary, TRIED, phantom_outcome,
};
