//! The memory of each GPU over time, against what it has.

use ratatui::layout::Rect;

use super::super::bars::sparkline;
use super::super::figures::of_gib;
use super::painter::{Ink, Pen};
use crate::core::report::GpuTrack;

/// Above this share of its memory a GPU is nearly full.
const NEARLY: u128 = 95;
/// Characters of a node's name.
const NODE_MAX: usize = 16;

/// Rows that are worth having.
pub fn rows(tracks: &[GpuTrack]) -> usize {
    tracks.len()
}

/// A line for each GPU; the fullest ones, where there are too many.
pub fn draw(pen: &mut Pen<'_>, area: Rect, tracks: &[GpuTrack]) {
    if area.height < 2 {
        return;
    }
    let rows = usize::from(area.height) - 1;
    let mut chosen: Vec<&GpuTrack> = tracks.iter().collect();
    let left_out = chosen.len().saturating_sub(rows);
    if left_out > 0 {
        chosen.sort_by_key(|t| std::cmp::Reverse(percent(t, t.peak_bytes().0)));
        chosen.truncate(rows);
    }
    let tail = match left_out {
        0 => String::new(),
        n => format!("the fullest; {n} more"),
    };
    pen.title(area, "GPU memory", &tail);
    let names: Vec<String> = chosen.iter().map(|t| name(t)).collect();
    let figures: Vec<String> = chosen.iter().map(|t| figures(t)).collect();
    let widest = |texts: &[String]| texts.iter().map(|t| t.chars().count()).max().unwrap_or(0);
    let width = widest(&names);
    let taken = width + widest(&figures) + 3;
    let cells = usize::from(area.width).saturating_sub(taken).max(4);
    for (row, track) in chosen.iter().enumerate() {
        let name = format!("  {:<width$} ", names[row]);
        let line = line(track, cells, pen.look.unicode);
        let is_full = percent(track, track.peak_bytes().0) >= NEARLY;
        let ink = if is_full { Ink::Bad } else { Ink::Good };
        let pieces = [
            (name.as_str(), Ink::Name),
            (line.as_str(), ink),
            (figures[row].as_str(), Ink::Plain),
        ];
        pen.row(area, u16::try_from(row + 1).unwrap_or(u16::MAX), &pieces);
    }
}

/// The node, the end of a long name left out, and the GPU's index.
fn name(track: &GpuTrack) -> String {
    let node: String = track.node.chars().take(NODE_MAX).collect();
    format!("{node} GPU {}", track.gpu)
}

/// Full height is the whole memory of the GPU.
fn line(track: &GpuTrack, cells: usize, unicode: bool) -> String {
    let points = &track.points;
    // A cell shows the most of what lies in it; few points are not stretched.
    let cells = cells.min(points.len());
    let most = |cell: usize| {
        let part = points.len() * cell / cells..points.len() * (cell + 1) / cells;
        points[part].iter().map(|p| p.bytes.0).max().unwrap_or(0)
    };
    let shares = (0..cells).map(|cell| u8::try_from(percent(track, most(cell))).unwrap_or(100));
    sparkline(shares, unicode)
}

fn figures(track: &GpuTrack) -> String {
    let now = track.points.last().map_or(0.0, |p| p.bytes.gib());
    let peak = of_gib(track.peak_bytes().gib(), track.total_bytes.gib());
    format!(" {now:.1}, peak {peak}")
}

fn percent(track: &GpuTrack, bytes: u64) -> u128 {
    u128::from(bytes) * 100 / u128::from(track.total_bytes.0.max(1))
}
