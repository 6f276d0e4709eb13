//! The memory of each GPU over time, against what it has.

use ratatui::layout::Rect;

use super::super::bars::sparkline;
use super::pen::{Ink, Pen};
use crate::core::report::Track;

/// Above this share of its memory a GPU is nearly full.
const NEARLY: u128 = 95;
/// Columns of the figures behind a line.
const FIGURES: usize = 42;

/// Rows that are worth having.
pub fn rows(tracks: &[Track]) -> usize {
    tracks.len()
}

/// A line for each GPU; the fullest ones, where there are too many.
pub fn draw(pen: &mut Pen<'_>, area: Rect, tracks: &[Track]) {
    if area.height < 2 {
        return;
    }
    let rows = usize::from(area.height) - 1;
    let mut chosen: Vec<&Track> = tracks.iter().collect();
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
    let name = |t: &Track| format!("{} GPU {}", t.node, t.gpu);
    let width = chosen
        .iter()
        .map(|t| name(t).len())
        .max()
        .unwrap_or(0)
        .min(24);
    for (row, track) in chosen.iter().enumerate() {
        let row = u16::try_from(row + 1).unwrap_or(u16::MAX);
        let name: String = name(track).chars().take(width).collect();
        let name = format!("  {name:<width$} ");
        let cells = usize::from(area.width).saturating_sub(name.len() + FIGURES);
        let line = line(track, cells.max(4), pen.look.unicode);
        let figures = figures(track);
        let is_full = percent(track, track.peak_bytes().0) >= NEARLY;
        let ink = if is_full { Ink::Bad } else { Ink::Good };
        let pieces = [
            (name.as_str(), Ink::Name),
            (line.as_str(), ink),
            (figures.as_str(), Ink::Plain),
        ];
        pen.row(area, row, &pieces);
    }
}

/// Full height is the whole memory of the GPU.
fn line(track: &Track, cells: usize, unicode: bool) -> String {
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

fn figures(track: &Track) -> String {
    let now = track.points.last().map_or(0.0, |p| p.bytes.gib());
    let (peak, total) = (track.peak_bytes().gib(), track.total_bytes.gib());
    format!(" {now:.1}, peak {peak:.1} of {total:.1} GiB")
}

fn percent(track: &Track, bytes: u64) -> u128 {
    u128::from(bytes) * 100 / u128::from(track.total_bytes.0.max(1))
}
