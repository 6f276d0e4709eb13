//! Shares as bars and sparklines, and text that fits its place.

/// Cells of a bar, full and empty; in Unicode and in ASCII.
const BAR: [(char, char); 2] = [('█', '·'), ('#', '.')];
/// From nothing to everything, in Unicode and in ASCII.
const LEVELS: [[char; 8]; 2] = [
    ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
    ['_', '.', ':', '-', '=', '+', '*', '#'],
];

/// A share in percent, as a bar of so many cells. Only nothing is drawn as nothing, and only all as all.
pub fn bar(percent: u8, cells: usize, unicode: bool) -> String {
    let (full, empty) = BAR[usize::from(!unicode)];
    let drawn = match percent {
        0 => 0,
        100.. => cells,
        some => (usize::from(some) * cells / 100).clamp(1, cells.saturating_sub(1)),
    };
    let cells = (0..cells).map(|at| if at < drawn { full } else { empty });
    format!("[{}]", cells.collect::<String>())
}

/// Shares in percent, one character each.
pub fn sparkline(shares: impl Iterator<Item = u8>, unicode: bool) -> String {
    let levels = LEVELS[usize::from(!unicode)];
    let level = |share: u8| usize::from(share.min(100)) * (levels.len() - 1) / 100;
    shares.map(|share| levels[level(share)]).collect()
}

/// Text of at most so many characters; the end of a longer one is left out, which is shown.
pub fn fitted(text: &str, most: usize, unicode: bool) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let dots = if unicode { "…" } else { "..." };
    let kept = most.saturating_sub(dots.chars().count());
    text.chars().take(kept).chain(dots.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_empty_only_at_nothing_and_full_only_at_all() {
        let bar = |percent| bar(percent, 10, false);
        assert_eq!(bar(0), "[..........]");
        assert_eq!(bar(1), "[#.........]");
        assert_eq!(bar(55), "[#####.....]");
        assert_eq!(bar(99), "[#########.]");
        assert_eq!(bar(100), "[##########]");
        assert_eq!(bar(255), "[##########]");
    }

    #[test]
    fn a_sparkline_goes_from_nothing_to_all() {
        assert_eq!(
            sparkline([0, 14, 15, 50, 99, 100].into_iter(), false),
            "__.-*#"
        );
        assert_eq!(sparkline([0, 100, 200].into_iter(), true), "▁██");
    }

    #[test]
    fn long_text_is_cut_and_shows_it() {
        assert_eq!(fitted("python train.py", 80, true), "python train.py");
        assert_eq!(fitted("python train.py", 10, true), "python tr…");
        assert_eq!(fitted("python train.py", 10, false), "python ...");
    }
}
