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
pub use course::{Course, Row, Span, SpanKind, course};
pub use plot::{Curve, Level, Plot, plot};
pub use scale::Tick;
pub use track::{Point, Track, Tracks};
