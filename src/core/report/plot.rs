//! The picture of an attempt: the memory of each of its GPUs over time, beside their capacity and what was
//! expected.

use std::fmt::Write as _;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::scale::{Scale, Tick, tenth};
use super::track::GpuTrack;
use oomctl_base::units::Bytes;

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
    /// The node.
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
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let x = Scale::new(0.0, seconds(start, end), LEFT, right);
    let y = Scale::new(0.0, highest.gib() * HEADROOM, bottom, TOP);
    let level = |bytes: Bytes| PlotLevel {
        y: y.at(bytes.gib()),
        bytes,
    };
    tracks.sort_by_key(GpuTrack::peak_bytes);
    let undrawn = tracks.len().saturating_sub(most);
    let fullest = tracks.len() - 1;
    let curve = |(place, track): (usize, &GpuTrack)| Curve {
        node: track.node.clone(),
        gpu: track.gpu,
        peak_bytes: track.peak_bytes(),
        total_bytes: track.total_bytes,
        path: path(track, start, &x, &y),
        fullest: place == fullest,
    };
    Some(Plot {
        width: WIDTH,
        height: HEIGHT,
        left: LEFT,
        top: TOP,
        right,
        bottom,
        x_ticks: x.time_ticks(),
        y_ticks: y.gib_ticks(),
        curves: tracks.iter().enumerate().skip(undrawn).map(curve).collect(),
        undrawn,
        capacity: capacity.map(level),
        expected: expected.map(level),
    })
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
        let (x, y) = (x.at(seconds(start, point.at)), y.at(point.bytes.gib()));
        if path.is_empty() {
            let _ = write!(path, "M{} {}", tenth(x), tenth(y));
        } else {
            let _ = write!(path, "H{}V{}", tenth(x), tenth(y));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::report::Tracks;
    use oomctl_gpu::{GpuReading, GpuSample, SampleLine};

    fn gib_bytes(gib: u64) -> Bytes {
        Bytes(gib << 30)
    }

    fn sample(at: i64, gibs: &[u64]) -> SampleLine {
        let gpu = |(gpu, gib): (usize, &u64)| {
            let used_bytes = gib_bytes(*gib);
            GpuSample {
                reading: GpuReading {
                    gpu: u32::try_from(gpu).unwrap(),
                    uuid: format!("GPU-{gpu}"),
                    name: "A100".to_owned(),
                    total_bytes: gib_bytes(80),
                    used_bytes,
                    own_bytes: None,
                    pid: None,
                    utilization_percent: None,
                },
                peak_bytes: used_bytes,
                own_peak_bytes: None,
                utilization_looks: 0,
                utilization_sum_percent: 0,
            }
        };
        SampleLine {
            v: 1,
            at: Timestamp::from_second(at).unwrap(),
            gpus: gibs.iter().enumerate().map(gpu).collect(),
        }
    }

    fn drawn(lines: &[(i64, &[u64])], expected: Option<u64>) -> Option<Plot> {
        let mut tracks = Tracks::default();
        for (at, gibs) in lines {
            tracks.take("n1", &sample(*at, gibs));
        }
        plot(tracks.sorted(), expected.map(gib_bytes), 64)
    }

    #[test]
    fn a_line_goes_in_steps_from_the_first_sample_to_the_last() {
        let plot = drawn(&[(0, &[0]), (50, &[84]), (100, &[42])], None).unwrap();
        assert_eq!(plot.curves[0].path, "M40 186H395V24.1H750V105");
        let capacity = plot.capacity.unwrap();
        assert!(capacity.y > 24.1, "{capacity:?}");
    }

    #[test]
    fn the_fullest_is_drawn_last_and_what_was_expected_has_a_height() {
        let plot = drawn(&[(0, &[30, 70, 50])], Some(60)).unwrap();
        let drawn: Vec<(u32, bool)> = plot.curves.iter().map(|c| (c.gpu, c.fullest)).collect();
        assert_eq!(drawn, [(0, false), (2, false), (1, true)]);
        let expected = plot.expected.unwrap();
        assert!(expected.y > plot.capacity.unwrap().y);
    }

    #[test]
    fn without_samples_there_is_no_picture_and_a_thousand_gpus_are_too_many() {
        assert_eq!(drawn(&[], Some(60)), None);
        let gibs: Vec<u64> = (0..200).map(|n| n % 80).collect();
        let plot = drawn(&[(0, &gibs)], None).unwrap();
        assert_eq!((plot.curves.len(), plot.undrawn), (64, 136));
    }
}
