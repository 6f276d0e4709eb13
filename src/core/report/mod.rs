//! What a report draws: memory over time, attempts on a time line, what they cost.
//!
//! Rule: facts and samples in, numbers and coordinates out. The words, the page and the files are others'.

mod cost;
mod course;
mod plot;
mod scale;
#[cfg(test)]
mod tests;
mod track;

pub use cost::{Cost, cost};
pub use course::{AttemptRow, SpanKind, TimeSpan, Timeline, course};
pub use plot::{Curve, Plot, PlotLevel, plot};
pub use scale::Tick;
pub use track::{GpuTrack, TrackPoint, Tracks};
