//! What a report draws: memory over time, attempts on a time line, what they cost.
//!
//! Rule: facts and samples in, numbers and coordinates out. The words, the page and the files are others'.

mod cost;
mod course;
mod phantom;
mod scale;
#[cfg(test)]
mod tests;
mod track;

use std::fmt::Write as _;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use oomctl_base::units::Bytes;
use scale::{Scale, tenth};

pub use cost::{Cost, cost};
pub use course::{AttemptRow, SpanKind, TimeSpan, Timeline, course};
pub use phantom::phantom_plot;
pub use scale::Tick;
pub use track::{GpuTrack, TrackPoint, Tracks};

/// Width of the picture in user units.
const WIDTH: f64 = 760.0;
/// Its height.
const HEIGHT: f64 = 210.0;
/// Room for the labels on the left.
const LEFT: f64 = 40.0;
/// Room on the right.
const RIGHT: f64 = 10.0;
/// Room above.
const TOP: f64 = 16.0;
/// Room for the labels below.
const BOTTOM: f64 = 24.0;
/// Room above the highest line, as a share.
const HEADROOM: f64 = 1.05;

/// A GPU as a line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Curve {
    /// What it is.
    pub name: String,
    /// The node; empty for a phantom.
    pub node: String,
    /// NVML's index.
    pub gpu: u32,
    /// Its peak in bytes.
    pub peak_bytes: Bytes,
    /// Capacity in bytes.
    pub total_bytes: Bytes,
    /// The `d` of an SVG path.
    pub path: String,
    /// Is it the fullest of all?
    pub fullest: bool,
}

/// A height that is marked.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlotLevel {
    /// Coordinate.
    pub y: f64,
    /// In bytes.
    pub bytes: Bytes,
}

/// A picture, in user units of its own.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Plot {
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// Left edge of the field.
    pub left: f64,
    /// Its upper edge.
    pub top: f64,
    /// Its right edge.
    pub right: f64,
    /// Its lower edge.
    pub bottom: f64,
    /// Marks of the time since the first sample.
    pub x_ticks: Vec<Tick>,
    /// Marks of the memory in GiB.
    pub y_ticks: Vec<Tick>,
    /// The GPUs, the fullest last, so that it is drawn on top.
    pub curves: Vec<Curve>,
    /// GPUs that are not drawn.
    pub undrawn: usize,
    /// Capacity, where all have the same.
    pub capacity: Option<PlotLevel>,
    /// What the memory model expected at most.
    pub expected: Option<PlotLevel>,
}

/// Draws at most so many GPUs of an attempt, the fullest. `None` where there is no sample.
pub fn plot(mut tracks: Vec<GpuTrack>, expected: Option<Bytes>, most: usize) -> Option<Plot> {
    tracks.retain(|t| !t.points.is_empty());
    let times = || tracks.iter().flat_map(|t| &t.points).map(|p| p.at);
    let (start, end) = (times().min()?, times().max()?);
    let capacity = same_capacity(&tracks);
    let highest = tracks
        .iter()
        .map(|t| t.peak_bytes().max(t.total_bytes))
        .max()?;
    let highest = highest.max(expected.unwrap_or(Bytes(0)));
    let (x, y) = scales(seconds(start, end), highest);
    let level = |bytes: Bytes| PlotLevel {
        y: y.at(bytes.gib()),
        bytes,
    };
    tracks.sort_by_key(GpuTrack::peak_bytes);
    let undrawn = tracks.len().saturating_sub(most);
    let fullest = tracks.len() - 1;
    let curve = |(place, track): (usize, &GpuTrack)| Curve {
        name: format!("GPU {} on {}", track.gpu, track.node),
        node: track.node.clone(),
        gpu: track.gpu,
        peak_bytes: track.peak_bytes(),
        total_bytes: track.total_bytes,
        path: path(track, start, &x, &y),
        fullest: place == fullest,
    };
    let curves = tracks.iter().enumerate().skip(undrawn).map(curve);
    Some(Plot {
        undrawn,
        capacity: capacity.map(level),
        expected: expected.map(level),
        ..Plot::of(&x, &y, curves.collect())
    })
}

/// The scales of so many seconds and so much memory.
fn scales(seconds: f64, highest: Bytes) -> (Scale, Scale) {
    let x = Scale::new(0.0, seconds, LEFT, WIDTH - RIGHT);
    let y = Scale::new(0.0, highest.gib() * HEADROOM, HEIGHT - BOTTOM, TOP);
    (x, y)
}

impl Plot {
    /// Curves on their scales, without levels.
    fn of(x: &Scale, y: &Scale, curves: Vec<Curve>) -> Self {
        Self {
            width: WIDTH,
            height: HEIGHT,
            left: LEFT,
            top: TOP,
            right: WIDTH - RIGHT,
            bottom: HEIGHT - BOTTOM,
            x_ticks: x.time_ticks(),
            y_ticks: y.gib_ticks(),
            curves,
            undrawn: 0,
            capacity: None,
            expected: None,
        }
    }
}

fn same_capacity(tracks: &[GpuTrack]) -> Option<Bytes> {
    let first = tracks.first()?.total_bytes;
    tracks
        .iter()
        .all(|t| t.total_bytes == first)
        .then_some(first)
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// A staircase: between two lines of a sampler nothing changed that was worth one.
fn path(track: &GpuTrack, start: Timestamp, x: &Scale, y: &Scale) -> String {
    let mut path = String::new();
    for point in &track.points {
        let place = (x.at(seconds(start, point.at)), y.at(point.bytes.gib()));
        stair(&mut path, place);
    }
    path
}

/// One step more of a staircase.
fn stair(path: &mut String, (x, y): (f64, f64)) {
    let _ = match path.is_empty() {
        true => write!(path, "M{} {}", tenth(x), tenth(y)),
        false => write!(path, "H{}V{}", tenth(x), tenth(y)),
    };
}
